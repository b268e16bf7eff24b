"""The cache directory and its files: .npz, read without running code, written whole or not at all."""

import zipfile
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing

MOST_BYTES = 2**29
"""Of all arrays of a file; the largest set, flights, has 280 million."""

Arrays = dict[str, NDArray[Any]]

Form = tuple[str, tuple[int | str, ...]]
"""Dtype and shape of an array. Lengths with the same name must be equal."""


class Unreadable(ValueError):
    """A file in the cache directory is damaged, or is not what its name says."""


class _Misfit(ValueError):
    """An array has not its form."""


def write(path: Path, arrays: Arrays, check: Callable[[Path], None] = lambda written: None) -> None:
    """Write a compressed .npz; `check` may look at it, and refuse it, before it takes its place."""
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        file.flush()
        check(Path(file.name))


def read(path: Path, forms: Mapping[str, Form], most: int = MOST_BYTES) -> Arrays:
    """The named arrays of a .npz file, checked against their forms.

    The lengths that the file declares are compared with the forms, and their bytes with `most`, before
    anything is allocated.
    """
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as contents:
                arrays = _read_arrays(contents, forms, most)
        except _Misfit as error:
            raise Unreadable(f"{path} is not what its name says: {error}.") from None
        except Exception as error:  # NumPy and zipfile have many names for a broken file
            raise Unreadable(f"{path} is damaged or no file of ntkgp's: {error}.") from error
    return arrays


def _read_arrays(contents: zipfile.ZipFile, forms: Mapping[str, Form], most: int) -> Arrays:
    declared: Arrays = {}
    for name in forms:
        with contents.open(f"{name}.npy") as stream:
            dtype, _, lengths = _npy_header(stream)
            declared[name] = np.broadcast_to(np.zeros((), dtype), lengths)  # takes no memory
    if reason := misfit(declared, forms):
        raise _Misfit(reason)
    if (size := sum(array.nbytes for array in declared.values())) > most:
        raise ValueError(
            f"its arrays have {size:,} bytes, more than the {most:,} that they may have"
        )
    arrays = {}
    for name in forms:
        with contents.open(f"{name}.npy") as stream:
            dtype, fortran_order, lengths = _npy_header(stream)
            values = np.empty(prod(lengths), dtype)
            _fill(values.view(np.uint8), stream, name)
        arrays[name] = values.reshape(lengths, order="F" if fortran_order else "C")
    return arrays


def _fill(room: NDArray[np.uint8], stream: Any, name: str) -> None:
    """Read as many bytes as there is room for; the stream must end there, with the right checksum."""
    done = 0
    while done < len(room):
        part = stream.read(min(2**20, len(room) - done))
        if not part:
            break
        room[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if done < len(room) or stream.read(1):
        raise ValueError(f"{name} has not as many bytes as it says")


def _npy_header(stream: Any) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"version {version} of its arrays is unknown")
    lengths, fortran_order, dtype = read_header(stream, max_header_size=10_000)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if not all(type(n) is int and 0 <= n < 2**48 for n in lengths):
        raise ValueError(f"an array has lengths {lengths}")
    return dtype, fortran_order, lengths


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
