"""The layer that does nothing: a shortcut, or the activation of a deep linear network."""

from dataclasses import dataclass

from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer


@storable
@dataclass(frozen=True)
class Identity(Layer):
    """z = x."""

    def out_shape(self, in_shape: Shape) -> Shape:
        return in_shape

    def apply(self, params: Params, x: Array) -> Array:
        return x

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        return k
