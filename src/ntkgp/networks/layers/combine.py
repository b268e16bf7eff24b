"""Layers made of layers: one after another, and side by side with a sum."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer
from ntkgp.networks.layers.identity import Identity


@storable
@dataclass(frozen=True)
class Serial(Layer):
    """Layers one after another. Parameters are a tuple, one entry a layer."""

    layers: tuple[Layer, ...]

    def in_shapes(self, in_shape: Shape) -> list[Shape]:
        """The input shape of each layer, then the output shape of the last."""
        shapes = [in_shape]
        for layer in self.layers:
            shapes.append(layer.out_shape(shapes[-1]))
        return shapes

    def out_shape(self, in_shape: Shape) -> Shape:
        return self.in_shapes(in_shape)[-1]

    def shapes(self, in_shape: Shape) -> Params:
        shapes = self.in_shapes(in_shape)
        return tuple(layer.shapes(s) for layer, s in zip(self.layers, shapes, strict=False))

    def prior_var(self, in_shape: Shape) -> Params:
        shapes = self.in_shapes(in_shape)
        return tuple(layer.prior_var(s) for layer, s in zip(self.layers, shapes, strict=False))

    def apply(self, params: Params, x: Array) -> Array:
        for layer, layer_params in zip(self.layers, params, strict=True):
            x = layer.apply(layer_params, x)
        return x

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        for layer, shape in zip(self.layers, self.in_shapes(in_shape), strict=False):
            k = layer.kernel(k, shape, metric)
        return k

    def gaussian(self, incoming: bool) -> bool:
        for layer in self.layers:
            incoming = layer.gaussian(incoming)
        return incoming

    def fresh(self, incoming: bool) -> bool:
        for layer in self.layers:
            incoming = layer.fresh(incoming)
        return incoming

    def all_pairs(self, needed: bool) -> bool:
        for layer in reversed(self.layers):
            needed = layer.all_pairs(needed)
        return needed

    def backward(
        self, params: Params, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        inputs = [x]
        for layer, layer_params in zip(self.layers, params, strict=True):
            inputs.append(layer.apply(layer_params, inputs[-1]))
        n, c = cotangents.shape[:2]
        total = jnp.zeros((n, c, n, c), x.dtype)
        for layer, layer_params, z in reversed(
            list(zip(self.layers, params, inputs, strict=False))
        ):
            share, cotangents = layer.backward(layer_params, z, cotangents, metric)
            total = total + share
        return total, cotangents


@storable
@dataclass(frozen=True, init=False)
class Residual(Layer):
    """z = shortcut(x) + body(x), the two with independent parameters.

    infinite:  𝒦' and Θ' are the sums of the two branches', because the body ends in a layer of
    centred weights that the shortcut does not share, so every cross term has mean zero.

    >>> from ntkgp.networks.layers import Dense, Relu
    >>> block = Residual([Relu(), Dense(64)])
    >>> block.out_shape((64,))
    (64,)
    """

    body: Serial
    shortcut: Layer

    def __init__(
        self, body: Serial | Sequence[Layer], shortcut: Layer | Sequence[Layer] = Identity()
    ) -> None:
        object.__setattr__(self, "body", body if isinstance(body, Serial) else Serial(tuple(body)))
        branch = shortcut if isinstance(shortcut, Layer) else Serial(tuple(shortcut))
        object.__setattr__(self, "shortcut", branch)

    def out_shape(self, in_shape: Shape) -> Shape:
        body, shortcut = self.body.out_shape(in_shape), self.shortcut.out_shape(in_shape)
        if body != shortcut:
            raise ValueError(
                f"the two branches of Residual must end in one shape to be summed: the body gives "
                f"{body}, the shortcut {shortcut}. Change the body's last width or strides, or give "
                "the shortcut a Dense or Conv layer of its own."
            )
        return body

    def shapes(self, in_shape: Shape) -> Params:
        return self.body.shapes(in_shape), self.shortcut.shapes(in_shape)

    def prior_var(self, in_shape: Shape) -> Params:
        return self.body.prior_var(in_shape), self.shortcut.prior_var(in_shape)

    def apply(self, params: Params, x: Array) -> Array:
        body, shortcut = params
        return self.shortcut.apply(shortcut, x) + self.body.apply(body, x)

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        body = self.body.kernel(k, in_shape, metric)
        shortcut = self.shortcut.kernel(k, in_shape, metric)
        return Kernels(*(a + b for a, b in zip(body, shortcut, strict=True)))

    def gaussian(self, incoming: bool) -> bool:
        self.body.gaussian(incoming)
        if not self.body.fresh(False):
            raise ValueError(
                "the body of Residual must end in a Dense or Conv layer (pooling may follow): "
                "otherwise its outputs are correlated with the shortcut's and the kernels do not add."
            )
        return self.shortcut.gaussian(incoming)

    def fresh(self, incoming: bool) -> bool:
        return self.body.fresh(incoming) and self.shortcut.fresh(incoming)

    def all_pairs(self, needed: bool) -> bool:
        return self.body.all_pairs(needed) or self.shortcut.all_pairs(needed)

    def backward(
        self, params: Params, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        body, shortcut = params
        body_share, body_cotangents = self.body.backward(body, x, cotangents, metric)
        short_share, short_cotangents = self.shortcut.backward(shortcut, x, cotangents, metric)
        return body_share + short_share, body_cotangents + short_cotangents
