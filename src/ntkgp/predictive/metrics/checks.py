"""Arguments of scores as float64 arrays that fit together, or an error that names the argument."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def as_values(
    name: str, value: ArrayLike, *, ndim: int | None = None, shape: tuple[int, ...] | None = None
) -> Floats:
    """Finite numbers, at least one."""
    array = np.asarray(value, np.float64)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes; got shape {array.shape}.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, one per point; got {array.shape}.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} must be an array of at least one point; got {array.shape}.")
    bad = np.sum(~np.isfinite(array))
    if bad:
        raise ValueError(f"{name} must be finite; got {bad} NaN or infinite of {array.size}.")
    return array


def as_alike(**arrays: ArrayLike) -> list[Floats]:
    """Arrays of one shape. (n,) against (n, 1) is refused: NumPy would stretch them to (n, n)."""
    checked = [as_values(name, value) for name, value in arrays.items()]
    if any(array.shape != checked[0].shape for array in checked):
        got = ", ".join(str(array.shape) for array in checked)
        raise ValueError(f"{', '.join(arrays)} must all have one shape; got {got}.")
    return checked


def as_positive(name: str, value: ArrayLike) -> Floats:
    """Standard deviations."""
    array = as_values(name, value)
    if array.min() <= 0:
        raise ValueError(f"{name} must be > 0: a density needs a width; got {array.min()}.")
    return array


def as_unit(name: str, value: ArrayLike, *, ndim: int | None = None) -> Floats:
    """Numbers in [0, 1]."""
    array = as_values(name, value, ndim=ndim)
    if array.min() < 0 or array.max() > 1:
        got = f"{array.min()} ... {array.max()}"
        raise ValueError(f"{name} must lie between 0 and 1; got values in {got}.")
    return array


def as_open(name: str, value: Any, *, ndim: int = -1) -> Floats:
    """A number (ndim 0) or a list of them (ndim 1), strictly between 0 and 1; -1 for either."""
    array = np.asarray(value, np.float64)
    fits = array.ndim <= 1 if ndim < 0 else array.ndim == ndim
    if not fits or not array.size or not np.all((array > 0) & (array < 1)):
        kind = {0: "a number", 1: "a list of numbers"}.get(ndim, "a number or a list of numbers")
        raise ValueError(f"{name} must be {kind} strictly between 0 and 1; got {value!r}.")
    return array


def as_probabilities(value: ArrayLike) -> Floats:
    """Rows (n, C) that sum to 1."""
    p = as_values("probabilities", value, ndim=2)
    if np.any(p < 0):
        raise ValueError(f"probabilities must not be negative; got {p.min()}. Are these logits?")
    off = np.abs(p.sum(axis=1) - 1).max()
    if off > 1e-4:
        raise ValueError(
            f"probabilities must sum to 1 ± 1e-4 in each row; got a row {off:.2g} off."
        )
    return p


def as_sets(value: ArrayLike) -> NDArray[np.bool_]:
    """Rows (n, C) that say which classes are in a set."""
    sets = np.asarray(value)
    if sets.ndim != 2 or not sets.size or sets.dtype.kind != "b":
        raise ValueError(
            "sets must be a table of booleans (n, classes), true for a class in the set; "
            f"got {sets.dtype} of shape {sets.shape}."
        )
    return sets


def as_labels(
    value: ArrayLike, predicted: Floats | NDArray[np.bool_], lowest: int = 0
) -> NDArray[np.intp]:
    """Numbers of classes (n,), from `lowest` on; `predicted` is (n, C)."""
    labels, (n, classes) = np.asarray(value), predicted.shape
    if labels.shape != (n,):
        raise ValueError(f"labels must be {(n,)}, one for each row; got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be integers, the number of a class; got {labels.dtype}.")
    if labels.min() < lowest or labels.max() >= classes:
        got = f"{labels.min()} ... {labels.max()}"
        raise ValueError(f"labels must lie in {lowest} ... {classes - 1}; got {got}.")
    return labels.astype(np.intp)
