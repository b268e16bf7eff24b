"""Average pooling, by windows and over the whole image."""

from dataclasses import dataclass
from math import prod

from jax import Array, lax

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer
from ntkgp.networks.layers.windows import Pair, check_image, checked_pair, pair, pair_window_sum


@storable
@dataclass(frozen=True)
class AvgPool(Layer):
    """Mean over windows that lie wholly inside the image.

    infinite:  𝒦'(p, q) = mean over offsets d, e of 𝒦(s·p + d, s·q + e), and Θ' likewise.

    A whole number for `window` or `strides` means both directions.

    >>> AvgPool(2) == AvgPool((2, 2))
    True
    >>> AvgPool(3, strides=1).out_shape((8, 8, 16))
    (6, 6, 16)
    """

    window: Pair | int = (2, 2)
    strides: Pair | int | None = None
    """If left out, the window's own size: windows then tile the image."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", checked_pair("window of AvgPool", self.window))
        if self.strides is not None:
            object.__setattr__(self, "strides", checked_pair("strides of AvgPool", self.strides))

    @property
    def _window(self) -> Pair:
        return pair(self.window)

    @property
    def _strides(self) -> Pair:
        return self._window if self.strides is None else pair(self.strides)

    def out_shape(self, in_shape: Shape) -> Shape:
        height, width, channels = check_image("AvgPool", in_shape)
        (wh, ww), (sh, sw) = self._window, self._strides
        if height < wh or width < ww:
            raise ValueError(
                f"AvgPool window {self.window} does not fit into an image of {height}x{width}."
            )
        return ((height - wh) // sh + 1, (width - ww) // sw + 1, channels)

    def apply(self, params: Params, x: Array) -> Array:
        window, strides = (1, *self._window, 1), (1, *self._strides, 1)
        total = lax.reduce_window(x, 0.0, lax.add, window, strides, "VALID")
        return total / prod(self._window)

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        pairs = prod(self._window) ** 2
        return Kernels(*(pair_window_sum(cov, self._window, self._strides) / pairs for cov in k))

    def all_pairs(self, needed: bool) -> bool:
        return True


@storable
@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    """Mean over all positions: an image to a vector of its channels.

    infinite:  𝒦' = mean over all p, q of 𝒦(p, q), and Θ' likewise.
    """

    def out_shape(self, in_shape: Shape) -> Shape:
        return (check_image("GlobalAvgPool", in_shape)[2],)

    def apply(self, params: Params, x: Array) -> Array:
        return x.mean((1, 2))

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        return Kernels(*(cov.mean((2, 3, 4, 5)) for cov in k))

    def all_pairs(self, needed: bool) -> bool:
        return True
