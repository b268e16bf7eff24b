"""The convolution of images."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array, lax

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Shape
from ntkgp.networks.layers import affine
from ntkgp.networks.layers.affine import Affine, Parameterization
from ntkgp.networks.layers.base import Layer, pull_back
from ntkgp.networks.layers.convolution import Pair, convolution
from ntkgp.networks.layers.windows import check_image, check_pair, window_sum

Padding = Literal["SAME", "VALID"]


@storable
@dataclass(frozen=True)
class Conv(Layer):
    """Convolution over (height, width, channels) with fan_in = filter height · width · channels.

    ntk:       z = w_std / √fan_in · x * W + b_std · b,   W, b ~ N(0, 1)
    standard:  z = x * W + b,   W ~ N(0, w_std² / fan_in),   b ~ N(0, b_std²)
    infinite:  𝒦'(p, q) = w_std² · mean over offsets d of 𝒦(p + d, q + d) + b_std²
               Θ' = 𝒦' + w_std² · mean over offsets d of Θ(p + d, q + d)

    Padding counts as zeros, in both faces.
    """

    channels: int
    filter: Pair = (3, 3)
    strides: Pair = (1, 1)
    padding: Padding = "SAME"
    w_std: float = 1.5
    b_std: float = 0.05
    parameterization: Parameterization = "ntk"

    def __post_init__(self) -> None:
        affine.check("Conv", self.channels, self.w_std, self.b_std, self.parameterization)
        check_pair("filter of Conv", self.filter)
        check_pair("strides of Conv", self.strides)
        if self.padding not in ("SAME", "VALID"):
            raise ValueError(f'padding of Conv must be "SAME" or "VALID"; got {self.padding!r}.')

    def out_shape(self, in_shape: Shape) -> Shape:
        height, width, _ = check_image("Conv", in_shape)
        pads = self._pads((height, width))
        out = tuple(
            (size + before + after - f) // s + 1
            for size, (before, after), f, s in zip(
                (height, width), pads, self.filter, self.strides, strict=True
            )
        )
        if min(out) < 1:
            raise ValueError(
                f"a {self.filter} filter with VALID padding does not fit into an image of "
                f'{height}x{width}: use padding="SAME", a smaller filter or less pooling before it.'
            )
        return (*out, self.channels)

    def _pads(self, size: Pair) -> tuple[Pair, Pair]:
        rows, columns = lax.padtype_to_pads(size, self.filter, self.strides, self.padding)
        return (int(rows[0]), int(rows[1])), (int(columns[0]), int(columns[1]))

    def _fan_in(self, channels_in: int) -> int:
        return self.filter[0] * self.filter[1] * channels_in

    def _prior(self, channels_in: int) -> tuple[Parameterization, float, float, int]:
        return self.parameterization, self.w_std, self.b_std, self._fan_in(channels_in)

    def shapes(self, in_shape: Shape) -> Affine:
        return affine.shapes((*self.filter, in_shape[-1], self.channels), self.b_std)

    def prior_var(self, in_shape: Shape) -> Affine:
        var = affine.prior_var(*self._prior(in_shape[-1]))
        return Affine(var.w, var.b if self.b_std else None)

    def apply(self, params: Affine, x: Array) -> Array:
        scale = affine.forward_scale(*self._prior(x.shape[-1]))
        pads = self._pads((x.shape[1], x.shape[2]))
        z = scale.w * convolution(x, params.w, self.strides, pads)
        return z if params.b is None else z + scale.b * params.b

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        pads = self._pads((in_shape[0], in_shape[1]))
        offsets = self.filter[0] * self.filter[1]

        def mean_over_offsets(cov: Array) -> Array:
            return window_sum(cov, self.filter, self.strides, pads) / offsets

        def affine_cov(cov: Array) -> Array:
            return self.w_std**2 * mean_over_offsets(cov) + self.b_std**2

        own = affine.own_ntk_scale(*self._prior(in_shape[-1]), metric)
        own_ntk = own.w * self._fan_in(in_shape[-1]) * mean_over_offsets(k.nngp) + own.b
        return Kernels(
            nngp=affine_cov(k.nngp),
            ntk=own_ntk + self.w_std**2 * mean_over_offsets(k.ntk),
            var1=affine_cov(k.var1),
            var2=affine_cov(k.var2),
        )

    def gaussian(self, incoming: bool) -> bool:
        return True

    def fresh(self, incoming: bool) -> bool:
        return True

    def backward(
        self, params: Affine, x: Array, cotangents: Array, metric: Metric
    ) -> tuple[Array, Array]:
        """Share of the empirical NTK from each example's weight gradient, this layer's only."""

        def gradient(image: Array, cotangent: Array) -> Affine:
            (pulled,) = jax.vjp(lambda p: self.apply(p, image[None])[0], params)[1](cotangent)
            return pulled

        gradients = jax.vmap(jax.vmap(gradient, in_axes=(None, 0)))(x, cotangents)
        var = Affine(1.0, 1.0) if metric == "gradient" else self.prior_var(x.shape[1:])
        share = var.w * jnp.einsum("nchwio,mdhwio->ncmd", gradients.w, gradients.w)
        if params.b is not None:
            share = share + var.b * jnp.einsum("nco,mdo->ncmd", gradients.b, gradients.b)
        return share, pull_back(lambda z: self.apply(params, z), x, cotangents)
