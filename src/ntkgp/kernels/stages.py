"""The kernel of convolutional networks, by a program for each layer.

In one program for all layers, XLA computes a layer again for each of the shifted copies that the next
convolution sums. And an activation needs the variances of both inputs of a pair. With pooling these come
from all pairs of positions: here they are computed once for an input, not for each pair that it is in.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.typing import Kernels, Metric, Shape
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import AvgPool, Conv, Dense, Flatten, GlobalAvgPool
from ntkgp.networks.layers.activation import Activation
from ntkgp.networks.layers.base import Layer

_LINEAR = (Conv, AvgPool, GlobalAvgPool, Flatten, Dense)
"""Layers whose 𝒦 and Θ need no variances."""

Pair = tuple[Array, Array]
"""𝒦 and Θ between two sets of inputs."""


class Images(NamedTuple):
    """Inputs, with the variances before each activation at their positions, (n, *positions) each."""

    x: NDArray[Any]
    variances: tuple[Any, ...]


class OwnKernels(NamedTuple):
    """Of each input with itself."""

    nngp: Array
    """(n,)"""
    ntk: Array
    """(n,)"""
    variances: tuple[Array, ...]
    """Before each activation, (n, *positions)."""


def has_stages(net: LayeredNetwork) -> bool:
    """Whether it has convolutions, among layers that this module knows."""
    layers = net.body.layers
    known = all(type(layer) in _LINEAR or _by_expectations(layer) for layer in layers)
    return known and any(isinstance(layer, Conv) for layer in layers)


def _by_expectations(layer: Layer) -> bool:
    """Whether it is an activation without a kernel rule of its own."""
    return isinstance(layer, Activation) and type(layer).kernel is Activation.kernel


def own_kernels(net: LayeredNetwork, metric: Metric, x: NDArray[Any]) -> OwnKernels:
    """𝒦(x, x), Θ(x, x) and the variances on the way, for each x."""
    variances: list[Array] = []
    nngp = _own_covariance(net, x)[:, None]
    pair = (nngp, jnp.zeros_like(nngp))
    for layer, shape in _layers(net):
        if isinstance(layer, Activation):
            own = _at_equal_positions(pair[0])
            variances.append(own[:, 0])
            pair = _activated(layer, pair, own, own)
        else:
            pair = _through(layer, shape, metric, pair)
    return OwnKernels(pair[0][:, 0], pair[1][:, 0], tuple(variances))


def pair_kernels(net: LayeredNetwork, metric: Metric, rows: Images, columns: Images) -> Pair:
    """𝒦 and Θ between all rows and all columns."""
    nngp = _covariance(net, rows.x, columns.x)
    pair = (nngp, jnp.zeros_like(nngp))
    variances = zip(rows.variances, columns.variances, strict=True)
    for layer, shape in _layers(net):
        if isinstance(layer, Activation):
            var1, var2 = next(variances)
            pair = _activated(layer, pair, var1[:, None], var2[None])
        else:
            pair = _through(layer, shape, metric, pair)
    return pair


def _layers(net: LayeredNetwork) -> list[tuple[Layer, Shape]]:
    """All layers with the shapes of their inputs, the readout included."""
    layers = (*net.body.layers, net.last)
    return list(zip(layers, net.body.in_shapes(net.input_shape), strict=True))


@jax.jit
def _own_covariance(net: LayeredNetwork, x: Array) -> Array:
    return net.input_variance(x)


@jax.jit
def _covariance(net: LayeredNetwork, x1: Array, x2: Array) -> Array:
    return net.input_covariance(x1, x2)


@jax.jit
def _at_equal_positions(cov: Array) -> Array:
    return jnp.einsum("abhwhw->abhw", cov) if cov.ndim == 6 else cov


@jax.jit
def _activated(layer: Activation, pair: Pair, var1: Array, var2: Array) -> Pair:
    """Through an activation; variances are (n1 or 1, n2 or 1, *positions)."""
    if pair[0].ndim == 6:
        var1, var2 = var1[..., None, None], var2[:, :, None, None]
    return layer.pair_kernels(*pair, var1, var2)


@partial(jax.jit, static_argnums=(1, 2))
def _through(layer: Layer, in_shape: Shape, metric: Metric, pair: Pair) -> Pair:
    """Through a linear layer, which maps variances too; nobody asks for them, so XLA leaves them out."""
    k = layer.kernel(Kernels(*pair, var1=pair[0], var2=pair[0]), in_shape, metric)
    return k.nngp, k.ntk
