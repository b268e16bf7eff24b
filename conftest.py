"""What doctests may use without importing it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import install_import_hook

# Types are checked at run time, shapes included, and only under pytest.
install_import_hook("ntkgp", "beartype.beartype")


@pytest.fixture(autouse=True)
def _names_for_doctests(doctest_namespace):
    import ntkgp

    doctest_namespace.update(jax=jax, jnp=jnp, np=np, ntkgp=ntkgp)
