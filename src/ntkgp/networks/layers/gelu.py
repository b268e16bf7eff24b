"""The Gaussian error linear unit."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.layers.arcs import arcsin


@storable
@dataclass(frozen=True)
class Gelu(Activation):
    """φ(x) = x Φ(x), Φ the standard normal distribution function (exact, not the tanh form).

    With D² = (1 + v1)(1 + v2) - cov² and ρ = cov / √((1 + v1)(1 + v2)), Stein's lemma gives
    E[φφ]   = cov (1/4 + asin(ρ)/2π) + (v1 v2 + cov² (1/(1 + v1) + 1/(1 + v2) - 1)) / 2πD
    E[φ'φ'] = 1/4 + asin(ρ)/2π + cov (1/(1 + v1) + 1/(1 + v2)) / 2πD + cov / 2πD³
    """

    def phi(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=False)

    def dual(self, cov: Array, var1: Array, var2: Array) -> Array:
        quadrant, determinant_root, inverses = _parts(cov, var1, var2)
        rest = var1 * var2 + cov**2 * (inverses - 1)
        return cov * quadrant + rest / (2 * jnp.pi * determinant_root)

    def dual_derivative(self, cov: Array, var1: Array, var2: Array) -> Array:
        quadrant, determinant_root, inverses = _parts(cov, var1, var2)
        rest = cov * (inverses + 1 / determinant_root**2)
        return quadrant + rest / (2 * jnp.pi * determinant_root)


def _parts(cov: Array, var1: Array, var2: Array) -> tuple[Array, Array, Array]:
    """E[Φ(u)Φ(v)], D, and 1/(1 + v1) + 1/(1 + v2)."""
    product = (1 + var1) * (1 + var2)
    quadrant = 0.25 + arcsin(jnp.clip(cov / jnp.sqrt(product), -1, 1)) / (2 * jnp.pi)
    determinant = 1 + var1 + var2 + jnp.maximum(var1 * var2 - cov**2, 0)  # (1+v1)(1+v2) - cov²
    return quadrant, jnp.sqrt(determinant), 1 / (1 + var1) + 1 / (1 + var2)
