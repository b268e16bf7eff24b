"""Average pooling, by windows and over the whole image."""

from dataclasses import dataclass

from jax import Array, lax

from ntkgp.core.storage import storable
from ntkgp.core.typing import Kernels, Metric, Params, Shape
from ntkgp.networks.layers.base import Layer
from ntkgp.networks.layers.windows import check_image, check_pair, pair_window_sum


@storable
@dataclass(frozen=True)
class AvgPool(Layer):
    """Mean over windows that lie wholly inside the image.

    infinite:  𝒦'(p, q) = mean over offsets d, e of 𝒦(s·p + d, s·q + e), and Θ' likewise.
    """

    window: tuple[int, int] = (2, 2)
    strides: tuple[int, int] | None = None
    """Defaults to the window, so that windows tile the image."""

    def __post_init__(self) -> None:
        check_pair("window of AvgPool", self.window)
        check_pair("strides of AvgPool", self._strides)

    @property
    def _strides(self) -> tuple[int, int]:
        return self.strides or self.window

    def out_shape(self, in_shape: Shape) -> Shape:
        height, width, channels = check_image("AvgPool", in_shape)
        if height < self.window[0] or width < self.window[1]:
            raise ValueError(
                f"AvgPool window {self.window} does not fit into an image of {height}x{width}."
            )
        (wh, ww), (sh, sw) = self.window, self._strides
        return ((height - wh) // sh + 1, (width - ww) // sw + 1, channels)

    def apply(self, params: Params, x: Array) -> Array:
        window, strides = (1, *self.window, 1), (1, *self._strides, 1)
        total = lax.reduce_window(x, 0.0, lax.add, window, strides, "VALID")
        return total / (self.window[0] * self.window[1])

    def kernel(self, k: Kernels, in_shape: Shape, metric: Metric) -> Kernels:
        pairs = (self.window[0] * self.window[1]) ** 2
        return Kernels(*(pair_window_sum(cov, self.window, self._strides) / pairs for cov in k))

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
