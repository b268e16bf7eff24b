"""The file of a model: safetensors, with a JSON document in its header, written and read in one piece.

    8 bytes     the length of the header, little-endian
    header      JSON: format, versions, checksum and document as metadata, and where each array is
    arrays      one after another, without gaps

The checksum is the SHA-256 of the whole file with zeros in its own place. Any reader of safetensors
reads the arrays.
"""

import hashlib
import json
import os
import struct
from importlib.metadata import version as version_of
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.core.memory import require

FORMAT = "3"
MOST_HEADER_BYTES = 64 * 2**20
_MOST_AXES = 32
_NO_DIGEST = "0" * 64
_DTYPES = {
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
    **{f"I{8 * n}": f"<i{n}" for n in (1, 2, 4, 8)},
    **{f"U{8 * n}": f"<u{n}" for n in (1, 2, 4, 8)},
    "BOOL": "|b1",
}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}

Arrays = dict[str, NDArray[Any]]


class _Foreign(ValueError):
    """The file is not a model's, or not a whole one."""


# Writing.


def write_model(path: Path, document: Any, arrays: Arrays) -> None:
    """Write a document and arrays, C-ordered and of numbers, in the place of what was there."""
    stored = {name: array.astype(_little(array), copy=False) for name, array in arrays.items()}
    in_order = dict(sorted(stored.items(), key=lambda item: -item[1].dtype.itemsize))  # aligned
    header = _header(document, in_order)
    if len(header) > MOST_HEADER_BYTES:
        raise ValueError(
            f"the model's numbers and words besides arrays take {len(header):,} bytes, and a file may "
            f"have {MOST_HEADER_BYTES:,}: use arrays of numbers, for classes too."
        )
    digest = hashlib.sha256(header)
    with replacing(path) as file:
        file.write(header)
        for array in in_order.values():
            content = array.reshape(-1).view(np.uint8).data
            digest.update(content)
            file.write(content)
        file.seek(0)
        file.write(header.replace(_NO_DIGEST.encode(), digest.hexdigest().encode(), 1))


def _little(array: NDArray[Any]) -> np.dtype[Any]:
    return array.dtype.newbyteorder("<")


def _header(document: Any, arrays: Arrays) -> bytes:
    """Length and content; the checksum, its first entry, is still zeros."""
    metadata = {
        "sha256": _NO_DIGEST,
        "format": FORMAT,
        "ntkgp_version": version_of("ntkgp"),
        "document": json.dumps(document, allow_nan=False),
    }
    entries: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        dtype = _NAMES[array.dtype]
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (begin, end)}
        begin = end
    content = json.dumps(entries).encode()
    content += b" " * (-len(content) % 8)
    return struct.pack("<Q", len(content)) + content


# Reading.


def read_model(path: Path) -> tuple[Any, Arrays]:
    """The document and the arrays, or an error that says what is wrong with the file.

    What the header declares is compared with the file's size, and that with free memory, before
    anything is allocated.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no model in {path}: there is no such file.")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        require(size, f"the model in {path}", "Load it on a larger machine.")
        try:
            header = _read_header(file, size)
            entries = json.loads(header[8:])
            metadata = _metadata(entries, path)
            digest = hashlib.sha256(_without_digest(header, metadata["sha256"]))
            arrays = _read_arrays(file, entries, size - len(header), digest)
        except (_Foreign, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a model of ntkgp, or was cut short ({error}). Save the model again."
            ) from None
        if digest.hexdigest() != metadata["sha256"]:
            raise ValueError(
                f"{path} is damaged, or was changed after it was saved: its checksum does not match. "
                "Copy or save it again."
            )
    try:
        return json.loads(metadata["document"]), arrays
    except (ValueError, RecursionError):
        raise ValueError(f"{path} has a document that is not JSON.") from None


def _read_header(file: BinaryIO, size: int) -> bytes:
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(MOST_HEADER_BYTES, size - 8):
        raise _Foreign("it has no header of safetensors")
    content = file.read(length)
    if len(content) < length:
        raise _Foreign("its header ends early")
    return start + content


def _metadata(entries: Any, path: Path) -> dict[str, str]:
    metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
    texts = metadata if isinstance(metadata, dict) else {}
    version = texts.get("format")
    if "ntkgp_version" not in texts or version is None:
        raise _Foreign("its header does not name ntkgp")
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {str(version)[:20]!r}, written by ntkgp "
            f"{str(texts['ntkgp_version'])[:20]!r}; this is ntkgp {version_of('ntkgp')}, which reads "
            f"format {FORMAT!r}. Install the version that wrote it, or fit and save the model again."
        )
    if not all(isinstance(texts.get(name), str) for name in ("sha256", "document")):
        raise _Foreign("its header lacks a checksum or a document")
    return texts


def _without_digest(header: bytes, digest: str) -> bytes:
    if len(digest) != len(_NO_DIGEST) or not digest.isascii():
        raise _Foreign("its checksum is no SHA-256")
    return header.replace(digest.encode(), _NO_DIGEST.encode(), 1)


def _read_arrays(file: BinaryIO, entries: dict[str, Any], room: int, digest: Any) -> Arrays:
    """Every array, in the order of its place; together they must fill the rest of the file."""
    places = {name: _place(name, entry) for name, entry in entries.items()}
    end = 0
    for name, (_, _, begin, stop) in sorted(places.items(), key=lambda item: item[1][2:]):
        if begin != end:
            raise _Foreign(f"array {name[:40]!r} is not where the one before it ends")
        end = stop
    if end != room:
        raise _Foreign(f"its arrays take {end:,} bytes, and it has {room:,} for them")
    arrays = {}
    for name, (dtype, shape, _, _) in sorted(places.items(), key=lambda item: item[1][2:]):
        array = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8)
        if file.readinto(content) != len(content):  # type: ignore[attr-defined]
            raise _Foreign("it ends early")
        digest.update(content)
        arrays[name] = array
    return arrays


def _place(name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Dtype, shape, first byte and end of an array."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        code = _DTYPES[dtype]
    except (KeyError, TypeError, ValueError):
        raise _Foreign(f"array {name[:40]!r} is of no known kind") from None
    numbers = (*shape, begin, end)
    if not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
        raise _Foreign(f"array {name[:40]!r} has lengths that are no numbers")
    if len(shape) > _MOST_AXES or end - begin != prod(shape) * np.dtype(code).itemsize:
        raise _Foreign(f"array {name[:40]!r} does not have the size of its shape")
    if prod(filter(None, shape)) >= 2**62:  # NumPy refuses these, even if one length is 0
        raise _Foreign(f"array {name[:40]!r} has lengths beyond all bounds")
    return code, shape, begin, end
