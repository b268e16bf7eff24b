"""The shape of the project itself: which module may import which, and what an import costs."""

import ast
import json
import os
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import ntkgp

SOURCE = Path(ntkgp.__file__).parent
ORDER = [
    "typing", "writing", "progress", "memory", "data", "compilation", "metrics", "linalg", "panels",
    "search", "distributions", "layers", "networks", "adapters", "kernels", "empirical", "training_kernel",
    "solvers", "posterior", "evidence", "methods", "noise", "member", "training", "ensemble",
    "calibration", "serialization", "estimators", "experiments", "report", "cli",
]  # fmt: skip
APART = {
    ("methods", "posterior"),
    ("training", "posterior"),
    ("training", "evidence"),
    ("report", "ensemble"),
    ("report", "estimators"),
}
ONLY_IN = {
    "matplotlib": {"report"},
    "sklearn": {"estimators", "data", "experiments"},
    "flax": {"adapters"},
    "equinox": {"adapters"},
    "safetensors": {"estimators"},
    "pooch": {"data"},
    "pyarrow": {"data"},
    "PIL": {"data"},
}


def imports_of(path):
    """Names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ntkgp":
            yield from (f"ntkgp.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    here = part_of(path)
    for name in imports_of(path):
        package, _, rest = name.partition(".")
        if package in ONLY_IN:
            assert here in ONLY_IN[package], f"{here} imports {package}"
        there = rest.split(".")[0]
        if package == "ntkgp" and there in ORDER:
            assert ORDER.index(there) <= ORDER.index(here), f"{here} imports {there}"
            assert (here, there) not in APART


def test_import_brings_in_nothing_heavy_beyond_jax():
    code = (
        "import sys, json, ntkgp; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "jax" in loaded
    assert not loaded & {
        "optax",
        "sklearn",
        "matplotlib",
        "pandas",
        "tensorflow",
        "torch",
        "flax",
        "equinox",
        "safetensors",
        "tqdm",
        "pooch",
        "pyarrow",
        "PIL",
    }


def test_the_core_install_is_small():
    core = {r.split(";")[0].split(">")[0].strip() for r in requires("ntkgp") if "extra" not in r}
    assert core == {
        "jax", "jaxtyping", "numpy", "optax", "safetensors", "scikit-learn", "scipy", "tqdm",
    }  # fmt: skip


def test_members_are_the_same_with_jax_s_float64_flag_on():
    code = """
import numpy as np, ntkgp
from ntkgp.layers import Conv, Dense, Flatten, Relu
net = ntkgp.LayeredNetwork((3, 3, 1), [Conv(4), Relu(), Flatten()], Dense(1))
x = np.linspace(-1, 1, 36).reshape(4, 3, 3, 1)
out = ntkgp.fit(net, x, x[:, 0, 0, 0], members=1, trainer=ntkgp.GaussNewton(max_steps=2)).outputs(x)
print(out.dtype, *np.round(out.ravel(), 3))
"""
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "JAX_ENABLE_X64": flag, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for flag in ("0", "1")
    ]
    assert printed[0] == printed[1]
    assert "float32" in printed[0]


def test_import_leaves_jax_s_flags_alone():
    code = "import jax; a = jax.config.values.copy(); import ntkgp; assert a == jax.config.values"
    subprocess.run([sys.executable, "-c", code], check=True)
