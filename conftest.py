"""What doctests may use without importing it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Types are checked at run time, shapes included, and only under pytest. Not so in the estimators,
# which take whatever a user gives them and must answer in their own words.
PARTS = {path.stem for path in (Path(__file__).parent / "src" / "ntkgp").iterdir()}
install_import_hook(
    [f"ntkgp.{part}" for part in PARTS - {"estimators", "__init__"}], "beartype.beartype"
)


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace):
    import ntkgp

    doctest_namespace.update(jax=jax, jnp=jnp, np=np, ntkgp=ntkgp)


@pytest.fixture(scope="module")
def _compile_quickly():
    """For tests of many small programs that run once each: less optimisation halves their time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def pytest_collection_modifyitems(items):
    """The guide's examples are such tests."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.usefixtures("_compile_quickly"))
