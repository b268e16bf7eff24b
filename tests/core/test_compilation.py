"""Compiled programs are kept for the next process, within bounds, and not against the user's will."""

import os
import subprocess
import sys

import jax
import pytest

from ntkgp.core import compilation
from ntkgp.core.compilation import _drop_oldest

CODE = "import numpy as np, ntkgp; ntkgp.ntk(ntkgp.mlp(2, depth=12), np.ones((3, 2)))"  # > 0.1 s to compile


def run(folder, code=CODE, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "NTKGP_"))}
    variables = {"NTKGP_DATA": str(folder)} | variables
    subprocess.run([sys.executable, "-c", code], env=kept | variables, check=True)
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_programs_are_kept_by_default_even_if_jax_has_compiled_before(tmp_path):
    before = "import jax; jax.jit(lambda x: x + 1)(1.0);"
    names = run(tmp_path, before + CODE)
    assert any("_block" in name for name in names)
    assert (tmp_path / "compiled").stat().st_mode & 0o077 == 0  # nobody else's business


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"NTKGP_COMPILED": "off"}, {"JAX_COMPILATION_CACHE_DIR": "elsewhere"}],
    ids=["off", "jax-s-own"],
)
def test_the_user_s_word_counts(tmp_path, variables):
    chosen = {
        name: value.replace("elsewhere", str(tmp_path / "x")) for name, value in variables.items()
    }
    (tmp_path / "data").mkdir()
    assert run(tmp_path / "data", **chosen) == []


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(tmp_path, NTKGP_DATA=str(tmp_path / "file")) == ["file"]


def test_the_oldest_programs_go_first(tmp_path):
    for age in range(6):
        file = tmp_path / f"program-{age}-cache"
        file.write_bytes(bytes(100))
        os.utime(file, (1000 - age, 1000 - age))
    (tmp_path / "thesis.tex").write_bytes(bytes(10_000))  # not ours to delete, nor to count
    os.utime(tmp_path / "thesis.tex", (1, 1))
    _drop_oldest(tmp_path, 600)
    assert len(list(tmp_path.iterdir())) == 7  # not above the limit
    _drop_oldest(tmp_path, 599)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["program-0-cache", "program-1-cache", "thesis.tex"]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="counts memory maps of Linux")
def test_programs_are_forgotten_before_the_process_runs_out_of_memory_maps():
    """Linux allows so many for a process, each program takes dozens, and JAX crashes beyond."""

    @jax.jit
    def program(x):
        return x + 1

    program(1.0)
    compilation._drop_programs_above(60_000)
    assert program._cache_size() == 1
    compilation._drop_programs_above(0)
    assert program._cache_size() == 0
    assert compilation._MOST_MAPS < 65_530 - 20_000


def test_programs_are_forgotten_if_there_are_many_and_the_process_has_grown(monkeypatch):
    cleared, programs = [], compilation._Programs()
    memory = iter([10, 10, 100, 110, 40, 45])
    monkeypatch.setattr(compilation, "resident_bytes", lambda: next(memory))
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(1))
    programs.resident = compilation.resident_bytes()
    programs.compiled = compilation._FEW_PROGRAMS - 1
    programs.bound(50)  # few programs: whatever takes memory, it is not they
    programs.compiled += 1
    programs.bound(50)  # no growth
    programs.bound(95)  # not enough of it
    assert not cleared
    programs.bound(95)
    assert cleared == [1]
    assert (programs.compiled, programs.resident) == (0, 40)
    programs.compiled = compilation._FEW_PROGRAMS
    programs.bound(5)
    assert cleared == [1]


def test_compiled_programs_are_counted():
    before = compilation._programs.compiled
    jax.jit(lambda x: x * 3.25 + before)(1.0)
    assert compilation._programs.compiled > before


def test_another_learning_rate_compiles_nothing():
    """The rate is traced, like all other numbers of a trainer."""
    import numpy as np

    import ntkgp
    from ntkgp.ensembles.trainers import decaying_adam

    x = np.linspace(-1, 1, 20)[:, None]

    def fit(rate):
        trainer = decaying_adam(20, rate, min_steps=2, min_epochs=1)
        return ntkgp.fit(ntkgp.mlp(1, width=3, depth=1), x, x, members=1, trainer=trainer)

    first = fit(1e-3)
    before = compilation._programs.compiled
    second = fit(2e-3)
    assert compilation._programs.compiled == before
    assert not np.array_equal(first.outputs(x), second.outputs(x))


def test_a_device_that_is_not_there_is_named(tmp_path):
    code = """
import numpy as np, ntkgp
try:
    ntkgp.fit(ntkgp.mlp(1, width=2), np.ones((3, 1)), np.ones(3), members=1)
except RuntimeError as error:
    print(error)
"""
    environment = dict(os.environ) | {"JAX_PLATFORMS": "cuda"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "JAX_PLATFORMS='cuda'" in found.stdout
    assert "Unset that variable" in found.stdout
