"""The cache directory and its files: .npz, read without running code, written whole or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from ntkgp.core.files import replacing

Arrays = dict[str, NDArray[Any]]

Form = tuple[str, tuple[int | str, ...]]
"""Dtype and shape of an array. Lengths with the same name must be equal."""


class Unreadable(ValueError):
    """A file in the cache directory is damaged, or is not what its name says."""


def write(path: Path, arrays: Arrays) -> None:
    """Write a compressed .npz."""
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read(path: Path, forms: Mapping[str, Form]) -> Arrays:
    """The named arrays of a .npz file, checked against their forms."""
    with path.open("rb") as file:
        try:
            with NpzFile(file, allow_pickle=False) as contents:
                arrays = {name: contents[name] for name in forms}
        except Exception as error:  # NumPy and zipfile have many names for a broken file
            raise Unreadable(f"{path} is damaged or no file of ntkgp's: {error}.") from error
    if reason := misfit(arrays, forms):
        raise Unreadable(f"{path} is not what its name says: {reason}.")
    return arrays


def misfit(arrays: Arrays, forms: Mapping[str, Form]) -> str | None:
    """What is wrong with the first array that does not have its form; None if all do.

    >>> forms = {"x": ("uint8", ("n", 2)), "y": ("uint8", ("n",))}
    >>> misfit({"x": np.zeros((3, 2), np.uint8), "y": np.zeros(3, np.uint8)}, forms)
    >>> misfit({"x": np.zeros((3, 2), np.uint8), "y": np.zeros(4, np.uint8)}, forms)
    'y must be uint8 of shape (3); it is uint8 of shape (4,)'
    """
    lengths: dict[int | str, int] = {}
    for name, (dtype, shape) in forms.items():
        array = arrays[name]
        expected = [lengths.get(length, length) for length in shape]
        pairs = list(zip(expected, array.shape, strict=False))
        fits = array.ndim == len(shape) and all(isinstance(n, str) or n == m for n, m in pairs)
        if array.dtype != dtype or not fits:
            wanted = f"{dtype} of shape ({', '.join(map(str, expected))})"
            return f"{name} must be {wanted}; it is {array.dtype} of shape {array.shape}"
        lengths |= {n: m for n, m in pairs if isinstance(n, str)}
    return None
