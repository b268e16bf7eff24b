"""Benchmarks are run by hand, and only loaded here, so that changes of the library do not break them."""

import importlib.util
import sys
from pathlib import Path

import jax
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_can_be_loaded(path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as when it is run
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for it
    monkeypatch.setattr(jax.config, "update", lambda name, value: None)  # JAX runs already
    if "import torch" in path.read_text():
        pytest.importorskip("torch")
    spec.loader.exec_module(module)
    assert module.__doc__
