"""Numbers and arrays of them: input checks, a scope for one precision, batches of rows."""

from contextlib import AbstractContextManager, nullcontext
from math import ceil
from operator import index
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ntkgp.core.typing import Shape

LARGEST = 1e15
"""Of standard deviations: squares, and sums of them, stay finite in float32."""


def precision(dtype: DTypeLike) -> AbstractContextManager[Any]:
    """A scope in which JAX computes in this dtype; the user's own flag is untouched outside it."""
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else nullcontext()


def check_inputs(
    name: str, x: ArrayLike, input_shape: Shape, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Inputs as a finite float array (n, *input_shape), or an error that names the argument."""
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers; got dtype {array.dtype}.")
    if array.ndim != 1 + len(input_shape) or array.shape[1:] != input_shape:
        expected = ", ".join(["n", *map(str, input_shape)])
        raise ValueError(
            f"{name} must have shape ({expected}) for this network; got {array.shape}."
        )
    if not len(array):
        raise ValueError(f"{name} has no rows; at least one input is needed.")
    kind = np.dtype(dtype) if dtype is not None else array.dtype
    if dtype is not None and kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {kind}.")
    kind = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array.reshape(len(array), -1)).all(1))[0, 0])
        raise ValueError(
            f"{name} has NaN or infinite entries, first in row {row}. Impute or drop those rows."
        )
    if np.abs(array).max() > np.finfo(kind).max:
        raise ValueError(f"{name} has entries too large for {kind}. Standardise the data.")
    return array.astype(kind, copy=False)


def check_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    """The weights of n rows, all above 0; None if there are none, or all are 1."""
    if weights is None:
        return None
    array = check_inputs("sample_weight", weights, (), np.float64)
    if array.shape != (n,) or not np.all(array > 0):
        raise ValueError(
            f"sample_weight must be {n} numbers > 0, one for each row; got shape {array.shape}, the "
            f"least {array.min():g}. Drop rows of weight 0."
        )
    return None if np.all(array == 1) else np.array(array)


def check_part(name: str, array: Any, shape: Shape, *, above: float | None = None) -> None:
    """Refuse an array, from a file for instance, that is not of this shape with finite numbers.

    >>> check_part("weights", np.zeros(3), (4,))
    Traceback (most recent call last):
    ValueError: weights must be finite numbers of shape (4,); got float64 of shape (3,).
    """
    values = np.asarray(array)
    if values.dtype.kind != "f" or values.shape != shape or not np.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite numbers of shape {shape}; got {values.dtype} of shape "
            f"{values.shape}."
        )
    if above is not None and not np.all(values > above):
        raise ValueError(f"{name} must be above {above:g}; the least is {values.min():g}.")


def check_number(name: str, value: Any, above: float = -1.0, most: float = LARGEST) -> float:
    """A number ≥ 0, or above another one, whose square is finite; else an error that names it.

    >>> check_number("noise_std", "0.1")
    Traceback (most recent call last):
    TypeError: noise_std must be a number; got '0.1'.
    """
    is_number = isinstance(value, (int, float, np.number)) or getattr(value, "shape", None) == ()
    if not is_number or isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got {value!r}.")
    number = float(value)
    if not 0 <= number <= most or not number > above:
        least = f"> {above:g}" if above >= 0 else "≥ 0"
        raise ValueError(
            f"{name} must be a finite number {least} and at most {most:g}, so that its square is "
            f"finite; got {value!r}. Standardise the data."
        )
    return number


def check_seed(seed: Any) -> int:
    """A seed that JAX can tell from all others, or an error."""
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1; got {seed!r}.")
    return number


def check_counts(least: int = 1, **counts: Any) -> dict[str, int]:
    """The counts, or an error for the first that is not a whole number of at least `least`.

    >>> check_counts(members=np.int64(3))
    {'members': 3}
    """
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
    return {name: int(value) for name, value in counts.items()}


def row_batches(n: int, size: int = 4096) -> list[slice]:
    """Rows 0 to n in equal parts of at most `size`, so that memory does not grow with n."""
    step = ceil(n / ceil(n / size))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def padded_length(n: int) -> int:
    """n rounded up to one of four lengths per octave, at most a quarter more.

    Arrays filled up to such a length share compiled programs with their neighbours.

    >>> [padded_length(n) for n in (3, 20, 67, 1000, 1_100_000)]
    [3, 20, 80, 1024, 1310720]
    """
    step = 2 ** max(0, (n - 1).bit_length() - 3)
    return -(-n // step) * step
