"""The convolution of images."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from jax import Array, lax

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Shape
from ntkgp.networks.layers import affine
from ntkgp.networks.layers.affine import Affine, Number, Parameterization
from ntkgp.networks.layers.base import Layer
from ntkgp.networks.layers.convolution import convolution
from ntkgp.networks.layers.windows import Pair, check_image, checked_pair, pair, window_sum

Padding = Literal["SAME", "VALID"]


@storable
@dataclass(frozen=True)
class Conv(Layer):
    """Convolution over (height, width, channels) with fan_in = filter height · width · channels.

    standard:  z = x * W + b,   W ~ N(0, w_std² / fan_in),   b ~ N(0, b_std²)
    ntk:       z = w_std / √fan_in · x * W + b_std · b,   W, b ~ N(0, 1)
    infinite:  𝒦'(p, q) = w_std² · mean over offsets d of 𝒦(p + d, q + d) + b_std²
               Θ' = 𝒦' + w_std² · mean over offsets d of Θ(p + d, q + d)

    Padding counts as zeros, in both faces. A whole number for `filter` or `strides` means both
    directions. Standard is the default; `parameterization="ntk"` gives the other.

    >>> Conv(16, filter=3, strides=2) == Conv(16, (3, 3), (2, 2))
    True
    >>> Conv(16).out_shape((28, 28, 1))
    (28, 28, 16)
    """

    channels: int
    filter: Pair | int = (3, 3)
    strides: Pair | int = (1, 1)
    padding: Padding = "SAME"
    w_std: Number = 1.5
    b_std: Number = 0.05
    parameterization: Parameterization = "standard"

    scales = ("w_std", "b_std")

    def __post_init__(self) -> None:
        affine.check("Conv", self.channels, self.w_std, self.b_std, self.parameterization)
        object.__setattr__(self, "filter", checked_pair("filter of Conv", self.filter))
        object.__setattr__(self, "strides", checked_pair("strides of Conv", self.strides))
        if self.padding not in ("SAME", "VALID"):
            raise ValueError(f'padding of Conv must be "SAME" or "VALID"; got {self.padding!r}.')

    @property
    def _filter(self) -> Pair:
        return pair(self.filter)

    @property
    def _strides(self) -> Pair:
        return pair(self.strides)

    def out_shape(self, in_shape: Shape) -> Shape:
        height, width, _ = check_image("Conv", in_shape)
        pads = self._pads((height, width))
        out = tuple(
            (size + before + after - f) // s + 1
            for size, (before, after), f, s in zip(
                (height, width), pads, self._filter, self._strides, strict=True
            )
        )
        if min(out) < 1:
            raise ValueError(
                f"a {self.filter} filter with VALID padding does not fit into an image of "
                f'{height}x{width}: use padding="SAME", a smaller filter or less pooling before it.'
            )
        return (*out, self.channels)

    def _pads(self, size: Pair) -> tuple[Pair, Pair]:
        rows, columns = lax.padtype_to_pads(size, self._filter, self._strides, self.padding)
        return (int(rows[0]), int(rows[1])), (int(columns[0]), int(columns[1]))

    def _fan_in(self, channels_in: int) -> int:
        return prod(self._filter) * channels_in

    def _prior(self, channels_in: int) -> tuple[Parameterization, Number, Number, int]:
        return self.parameterization, self.w_std, self.b_std, self._fan_in(channels_in)

    def shapes(self, in_shape: Shape) -> Affine:
        return affine.shapes((*self._filter, in_shape[-1], self.channels), self.b_std)

    def prior_var(self, in_shape: Shape) -> Affine:
        var = affine.prior_var(*self._prior(in_shape[-1]))
        return Affine(var.w, var.b if affine.has_bias(self.b_std) else None)

    def apply(self, params: Affine, x: Array) -> Array:
        scale = affine.forward_scale(*self._prior(x.shape[-1]))
        pads = self._pads((x.shape[1], x.shape[2]))
        z = scale.w * convolution(x, params.w, self._strides, pads)
        return z if params.b is None else z + scale.b * params.b

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        pads = self._pads((in_shape[0], in_shape[1]))

        def mean_over_offsets(cov: Array) -> Array:
            return window_sum(cov, self._filter, self._strides, pads) / prod(self._filter)

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
