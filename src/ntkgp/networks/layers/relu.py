"""The piecewise linear activations: Relu, LeakyRelu, Abs."""

from abc import abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.layers.arcs import arcsin, inverse_root


class PiecewiseLinear(Activation):
    """φ(x) = s·x for x < 0 and x for x ≥ 0, with s the slope on the negative side.

    With cos θ = cov / √(v1 v2), the arc-cosine kernels of order one and zero give
    E[φφ]   = (1 - s)² √(v1 v2) (sin θ + (π - θ) cos θ) / 2π + s·cov
    E[φ'φ'] = (1 - s)² (π - θ) / 2π + s
    """

    @property
    @abstractmethod
    def negative_slope(self) -> float:
        """s."""

    def phi(self, x: Array) -> Array:
        return jnp.where(x < 0, self.negative_slope * x, x)

    def dual(self, cov: Array, var1: Array, var2: Array) -> Array:
        s, scale = self.negative_slope, _root(var1 * var2)
        return (1 - s) ** 2 / (2 * jnp.pi) * scale * _arc_cosine_1(_cosine(cov, scale)) + s * cov

    def dual_derivative(self, cov: Array, var1: Array, var2: Array) -> Array:
        s, scale = self.negative_slope, _root(var1 * var2)
        return (1 - s) ** 2 / (2 * jnp.pi) * _supplement(_cosine(cov, scale)) + s


def _cosine(cov: Array, scale: Array) -> Array:
    """cov / scale within [-1, 1]; 1 where rounding cannot tell it from 1.

    Equal points must have the angle 0, not √eps. The origin gets the angle 0 too: its kernel is 0
    whatever the angle.
    """
    cos = jnp.maximum(cov / jnp.where(scale > 0, scale, 1), -1)
    equal = cos > 1 - 4 * jnp.finfo(cos.dtype).eps
    return jnp.where(equal | (scale <= 0), 1, cos)


@jax.custom_jvp
def _root(x: Array) -> Array:
    """√x, with the derivative 0 at 0: an origin stays one whatever the scales are."""
    return jnp.sqrt(x)


@_root.defjvp
def _root_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return _root(x), dx / 2 * inverse_root(x)


@jax.custom_jvp
def _arc_cosine_1(cos: Array) -> Array:
    """sin θ + (π - θ) cos θ, whose derivative in cos θ is π - θ: finite also at equal points."""
    return jnp.sqrt((1 - cos) * (1 + cos)) + _supplement(cos) * cos


@_arc_cosine_1.defjvp
def _arc_cosine_1_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (cos,), (dcos,) = primals, tangents
    return _arc_cosine_1(cos), dcos * _supplement(cos)


def _supplement(cos: Array) -> Array:
    """π - θ, which is π/2 + arcsin(cos θ)."""
    return jnp.pi / 2 + arcsin(cos)


@storable
@dataclass(frozen=True)
class Relu(PiecewiseLinear):
    """φ(x) = max(x, 0)."""

    @property
    def negative_slope(self) -> float:
        return 0.0


@storable
@dataclass(frozen=True)
class LeakyRelu(PiecewiseLinear):
    """φ(x) = max(x, 0) + slope · min(x, 0)."""

    slope: float = 0.01

    @property
    def negative_slope(self) -> float:
        return self.slope


@storable
@dataclass(frozen=True)
class Abs(PiecewiseLinear):
    """φ(x) = |x|."""

    @property
    def negative_slope(self) -> float:
        return -1.0
