"""An image to the vector of its entries."""

from dataclasses import dataclass
from math import prod

import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer


@storable
@dataclass(frozen=True)
class Flatten(Layer):
    """z = all entries of x in one vector.

    infinite:  𝒦' = mean over positions p of 𝒦(p, p), and Θ' likewise.
    """

    def out_shape(self, in_shape: Shape) -> Shape:
        return (prod(in_shape),)

    def apply(self, params: Params, x: Array) -> Array:
        return x.reshape(len(x), -1)

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        return Kernels(*(_mean_over_positions(cov) for cov in k))

    def gaussian(self, incoming: bool) -> bool:
        return False  # positions differ in variance, so their mixture is not Gaussian

    def all_pairs(self, needed: bool) -> bool:
        return False


def _mean_over_positions(cov: Array) -> Array:
    if cov.ndim == 6:
        cov = jnp.einsum("abhwhw->abhw", cov)
    return cov.mean(tuple(range(2, cov.ndim)))
