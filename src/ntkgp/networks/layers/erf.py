"""The error function as an activation."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.layers.arcs import arcsin


@storable
@dataclass(frozen=True)
class Erf(Activation):
    """φ(x) = erf(x) (Williams, 1997).

    E[φφ]   = 2/π · asin(2 cov / √((1 + 2 v1)(1 + 2 v2)))
    E[φ'φ'] = 4/π / √((1 + 2 v1)(1 + 2 v2) - 4 cov²)

    The last root is computed from 1 + 2(v1 + v2) + 4(v1 v2 - cov²), which loses no digits where
    the two points are equal, however large.
    """

    def phi(self, x: Array) -> Array:
        return jax.scipy.special.erf(x)

    def dual(self, cov: Array, var1: Array, var2: Array) -> Array:
        ratio = 2 * cov / jnp.sqrt((1 + 2 * var1) * (1 + 2 * var2))
        return 2 / jnp.pi * arcsin(jnp.clip(ratio, -1, 1))

    def dual_derivative(self, cov: Array, var1: Array, var2: Array) -> Array:
        determinant = jnp.maximum(var1 * var2 - cov**2, 0)
        return 4 / jnp.pi / jnp.sqrt(1 + 2 * (var1 + var2) + 4 * determinant)
