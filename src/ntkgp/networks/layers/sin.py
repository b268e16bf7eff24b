"""The sine as an activation."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.networks.layers.activation import Activation


@storable
@dataclass(frozen=True)
class Sin(Activation):
    """φ(x) = sin(x).

    E[φφ]   = exp(-(v1 + v2)/2) sinh(cov)
    E[φ'φ'] = exp(-(v1 + v2)/2) cosh(cov)

    Both are written with exp(±cov - (v1 + v2)/2), whose exponents are never positive, so large
    inputs do not overflow.
    """

    def phi(self, x: Array) -> Array:
        return jnp.sin(x)

    def dual(self, cov: Array, var1: Array, var2: Array) -> Array:
        larger = jnp.exp(jnp.abs(cov) - (var1 + var2) / 2)
        return -jnp.sign(cov) * larger * jnp.expm1(-2 * jnp.abs(cov)) / 2

    def dual_derivative(self, cov: Array, var1: Array, var2: Array) -> Array:
        mean_var = (var1 + var2) / 2
        return (jnp.exp(cov - mean_var) + jnp.exp(-cov - mean_var)) / 2
