"""Arrays of numbers from MATLAB's files of version 5, by their published format, within a limit.

A file is a header of 128 bytes and elements. An element is a tag, its type and its number of bytes, and
its data; a small one has its data inside its tag. An array is an element of four others: its class, its
lengths, its name and its values. It may be compressed by zlib as a whole.
"""

import io
import struct
import zlib
from collections.abc import Collection, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_HEADER = 128
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_STORED = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_CLASSES = {
    6: "f8",
    7: "f4",
    8: "i1",
    9: "u1",
    10: "i2",
    11: "u2",
    12: "i4",
    13: "u4",
    14: "i8",
    15: "u8",
}
_COMPLEX = 0x0800


def read_arrays(content: bytes, names: Collection[str], most: int) -> dict[str, NDArray[Any]]:
    """The named arrays of a file, each of at most `most` bytes; a ValueError for what is no such file."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:_HEADER])
    if order is None or struct.unpack(f"{order}H", content[124:126])[0] != 0x0100:
        raise ValueError("it is no file of MATLAB's version 5")
    found: dict[str, NDArray[Any]] = {}
    for kind, data in _elements(content, order):
        if kind == _COMPRESSED:
            array = _compressed(data, order, names, most)
        elif kind == _MATRIX:
            array = _matrix(io.BytesIO(data), order, names, most)
        else:
            raise ValueError(f"it has an element of type {kind}, which is no array")
        if array is not None:
            found[array[0]] = array[1]
    if missing := sorted(set(names) - found.keys()):
        raise ValueError(f"it has no array {' or '.join(missing)}")
    return found


def _elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    start = _HEADER
    while start < len(content):
        if len(content) - start < 8:
            raise ValueError("it ends in the middle of an element")
        kind, size = struct.unpack(f"{order}II", content[start : start + 8])
        if size > len(content) - start - 8:
            raise ValueError(f"an element has {size:,} bytes, more than the file")
        yield kind, content[start + 8 : start + 8 + size]
        start += 8 + size


class _Inflated:
    """Compressed data as a stream."""

    def __init__(self, data: bytes) -> None:
        self._rest, self._inflate = data, zlib.decompressobj()

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing and not self._inflate.eof:
            part = self._inflate.decompress(self._rest, missing)
            self._rest = self._inflate.unconsumed_tail
            if not part and not self._rest:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def check_end(self) -> None:
        """Refuse data that go on, or whose checksum is wrong or missing."""
        if self.read(1) or not self._inflate.eof:
            raise ValueError("a compressed array does not end where it says")


def _compressed(
    data: bytes, order: str, names: Collection[str], most: int
) -> tuple[str, NDArray[Any]] | None:
    stream = _Inflated(data)
    kind, size, _ = _tag(stream, order)
    if kind != _MATRIX or size > most + 2**16:
        raise ValueError(f"a compressed element is of type {kind} and has {size:,} bytes")
    array = _matrix(stream, order, names, most)
    if array is not None:
        stream.check_end()
    return array


def _matrix(
    stream: Any, order: str, names: Collection[str], most: int
) -> tuple[str, NDArray[Any]] | None:
    """Name and values of an array; None if the name is not asked for."""
    flags = np.frombuffer(_part(stream, order, _UINT32, 8), f"{order}u4")[0]
    lengths = np.frombuffer(_part(stream, order, _INT32, 4 * 32), f"{order}i4").tolist()
    name = _part(stream, order, _INT8, 64).decode("latin-1")
    if name not in names:
        return None
    code = _CLASSES.get(int(flags) & 0xFF)
    if code is None or int(flags) & _COMPLEX:
        raise ValueError(f"{name} is no array of real numbers")
    if len(lengths) < 2 or min(lengths) < 0 or prod(lengths) * np.dtype(code).itemsize > most:
        raise ValueError(f"{name} has lengths {lengths}, too large or no lengths at all")
    kind, size, small = _tag(stream, order)
    stored = _STORED.get(kind)
    if stored is None or not np.can_cast(stored, code, "safe"):
        raise ValueError(f"{name} is stored in type {kind}, which does not suit its class")
    if size != prod(lengths) * np.dtype(stored).itemsize:
        raise ValueError(f"{name} has lengths {lengths} and {size:,} bytes of numbers")
    values = np.frombuffer(small if small else _exactly(stream, size), order + stored)
    _exactly(stream, 0 if small else -size % 8)
    return name, values.reshape(lengths, order="F").astype(code)


def _part(stream: Any, order: str, kind: int, most: int) -> bytes:
    """The data of a small part of an array, which must be of this type."""
    found, size, small = _tag(stream, order)
    if found != kind or size > most:
        raise ValueError(f"an array has a part of type {found} and {size:,} bytes out of place")
    if small:
        return small
    data = _exactly(stream, size)
    _exactly(stream, -size % 8)  # elements begin at multiples of 8
    return data


def _tag(stream: Any, order: str) -> tuple[int, int, bytes]:
    """Type, number of bytes, and the data themselves if they are inside the tag."""
    tag = _exactly(stream, 8)
    kind, size = struct.unpack(f"{order}II", tag)
    if kind >> 16 == 0:
        return kind, size, b""
    kind, size = kind & 0xFFFF, kind >> 16
    if size > 4:
        raise ValueError(f"a small element has {size} bytes")
    return kind, size, tag[4 : 4 + size]


def _exactly(stream: Any, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ValueError("it ends in the middle of an array")
    return data
