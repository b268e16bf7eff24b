"""How the tests compile what they run, and what doctests may use without importing it."""

import gc
import os
import signal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

# Each worker has about one core. OpenBLAS would start a thread for each of the machine's, and on a
# busy one they wait for each other: inverting 20 rows took 1,000 times as long and more. Workers
# inherit this before they import NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Most tests compile many small programs and run each once. Where XLA still has its older emitter of
# code, that compiles in half the time; from JAX 0.11 on the flag is unknown, and would be an error.
if jax.__version_info__ < (0, 11):
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false".strip()

# Types are checked at run time, shapes included, and only under pytest. Not so where whatever a
# user gives must be answered in words.
IN_WORDS = ("estimators", "ensembles/fit.py", "tables/models.py")
PAGES_THAT_LEARN = ("file.md",)
USERS: dict[tuple[Any, str], Any] = {}
"""What estimators have outside of tests."""
SLOW_PAGES = {
    *("exact.md", "experiments.md", "flax.md", "intervals.md", "letters.md"),
    *("own.md", "prior.md", "scale.md", "table.md", "trained.md"),
}
SOURCE = Path(__file__).parent / "src" / "ntkgp"
PATHS = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")]
CHECKED = [path for path in PATHS if not path.startswith(IN_WORDS) and "__init__" not in path]
install_import_hook(
    ["ntkgp." + path.removesuffix(".py").replace("/", ".") for path in CHECKED], "beartype.beartype"
)


def one_core_each():
    """Threads of XLA that look for work on another worker's core take a sixth of the time."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker) % len(cores)]})


def pytest_configure(config):
    """A directory in which workers, the processes they start, and the next run find what is compiled."""
    from ntkgp.core import compilation

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        kept = config.rootpath / ".pytest_cache" / "compiled"
        kept.mkdir(parents=True, exist_ok=True)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(kept)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    one_core_each()
    usual = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    for name, handler in usual.items():  # ignored in the background of a shell, and under nohup
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    gc.freeze()  # what is imported stays; looking for garbage less often saves a twentieth of the time
    gc.set_threshold(50_000, 20, 50)
    compilation._MOST_GROWTH = 2**40  # tests forget programs between them, not within: see below
    jax.local_devices()  # one of them, before the command line can ask for more


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items):
    """Of tests with `quick` cases, `make test-slow` runs the others; and a few pages."""
    for item in items:
        if item.name in SLOW_PAGES:
            item.add_marker(pytest.mark.slow)
        quick = item.get_closest_marker("quick")
        if quick and not any(fnmatchcase(item.callspec.id, case) for case in quick.args):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)  # before fixtures of a whole module, which compile and fit too
def pytest_runtest_setup(item):
    """Most tests run many small programs once each: less optimisation halves their time.

    Most estimators in tests and documents are there to be fitted, saved, refused; a short search for
    their prior does. Tests marked `learns` are about what they find.
    """
    from ntkgp.estimators import cross_fitted, ensembles, preparation

    runs_long = item.get_closest_marker("optimised") or item.get_closest_marker("slow")
    jax.config.update("jax_disable_most_optimizations", not runs_long)
    learns = item.get_closest_marker("learns") or item.name in PAGES_THAT_LEARN or runs_long
    short: list[tuple[Any, str, Any]] = [
        (preparation, "PRIOR_STEPS", 5),
        (preparation, "AUTO_ACTIVATIONS", ("erf",)),
        (ensembles, "MOST_STEPS", 3),
        (cross_fitted, "MOST_ROWS", 0),
    ]
    for module, name, value in short:
        whole = USERS.setdefault((module, name), getattr(module, name))
        setattr(module, name, whole if learns else value)


def pytest_runtest_teardown(item):
    """Between tests, not within one that counts what is compiled, programs may be forgotten."""
    from ntkgp.core import compilation

    if hash(item.nodeid) % 4 == 0:
        compilation._drop_programs_above(36_000)


@pytest.fixture(autouse=True)
def _names_for_doctests(request, doctest_namespace):
    """Of docstrings; a page imports what it uses."""
    import ntkgp

    if request.node.path.suffix == ".md":
        doctest_namespace.clear()
        return
    doctest_namespace.update(jax=jax, jnp=jnp, np=np, ntkgp=ntkgp)
