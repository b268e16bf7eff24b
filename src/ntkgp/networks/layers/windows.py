"""Sums over image windows, for covariances of equal positions and of all pairs of positions."""

from collections.abc import Sequence
from numbers import Integral

import jax.numpy as jnp
from jax import Array

from ntkgp.core.typing import Shape

Pair = tuple[int, int]
Pads = Sequence[Pair]


def window_sum(cov: Array, window: Pair, strides: Pair, pads: Pads) -> Array:
    """Σ_d cov(s·p + d, s·q + d): both positions of a covariance move together over the window.

    cov is (n1, n2, h, w), where p = q, or (n1, n2, h, w, h, w).
    """
    for axis in (0, 1):
        axes = tuple(range(2 + axis, cov.ndim, 2))
        cov = _sum_of_shifts(cov, axes, window[axis], strides[axis], pads[axis])
    return cov


def pair_window_sum(cov: Array, window: Pair, strides: Pair) -> Array:
    """Σ_{d, e} cov(s·p + d, s·q + e): each position moves over its own window. cov has six axes."""
    for axis in range(4):
        cov = _sum_of_shifts(cov, (2 + axis,), window[axis % 2], strides[axis % 2], (0, 0))
    return cov


def _sum_of_shifts(cov: Array, axes: tuple[int, ...], window: int, stride: int, pad: Pair) -> Array:
    """Sum of `window` slices of zero-padded cov, shifted together along all of `axes`."""
    padded = jnp.pad(cov, [pad if axis in axes else (0, 0) for axis in range(cov.ndim)])
    last = padded.shape[axes[0]] - window  # the last start of a whole window
    whole = (slice(None),) * cov.ndim

    def shifted(start: int) -> Array:
        piece = slice(start, start + last + 1, stride)
        return padded[tuple(piece if axis in axes else whole[axis] for axis in range(cov.ndim))]

    return sum((shifted(start) for start in range(1, window)), start=shifted(0))


def pair(value: Pair | int) -> Pair:
    """(height, width); one number stands for both."""
    return value if isinstance(value, tuple) else (value, value)


def checked_pair(name: str, value: Pair | int) -> Pair:
    """(height, width), or an error if these are not whole numbers of at least 1.

    >>> checked_pair("window of AvgPool", 2)
    (2, 2)
    """
    sides = pair(value)
    if len(sides) != 2 or not all(isinstance(side, Integral) and side >= 1 for side in sides):
        raise ValueError(
            f"{name} must be a whole number ≥ 1, or a tuple of two, (height, width); got {value!r}."
        )
    return int(sides[0]), int(sides[1])


def check_image(layer: str, in_shape: Shape) -> tuple[int, int, int]:
    """Refuse shapes other than (height, width, channels)."""
    if len(in_shape) != 3:
        raise ValueError(
            f"{layer} takes images (height, width, channels), but its input has shape {in_shape} "
            "per example. Reshape the data, or use Dense layers for vectors."
        )
    height, width, channels = in_shape
    return height, width, channels
