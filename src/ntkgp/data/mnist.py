"""MNIST: 60,000 and 10,000 handwritten digits of 28 × 28 pixels (LeCun, Cortes and Burges)."""

import hashlib
from collections.abc import Iterator
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import originals
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import image_forms, read_images
from ntkgp.data.stored import Fact, Say, Stored

FORMS = image_forms(28, 28, parts=("train", "test"))
ORIGINALS = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
MD5 = {  # of the IDX files, not compressed
    "x_train": "6bbc9ace898e44ae57da46a324031adb",
    "y_train": "a25bea736e30d166cdddb491f175f624",
    "x_test": "2646ac647ad5339dbf082846283269ea",
    "y_test": "27ae3e4e09519cfbb04c329615203637",
}
SHA256 = {  # of the same files
    "x_train": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "y_train": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "x_test": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "y_test": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
DIGESTS = {
    "train-images-idx3-ubyte.gz": (
        "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    ),
    "train-labels-idx1-ubyte.gz": (
        "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "md5:d53e105ee54ea40749a09fcbcd1e9432",
    ),
    "t10k-images-idx3-ubyte.gz": (
        "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "md5:9fb629c4189551a2d022fa330f9573f3",
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "md5:ec29112dd5afa0611ce80d1b7f02629c",
    ),
}


def make(source: Path, say: Say) -> Arrays:
    """The four arrays, from the four IDX files, compressed or not."""
    return {name: read_idx(find_idx(source, stem)) for name, stem in ORIGINALS.items()}


def find_idx(source: Path, stem: str) -> Path:
    return originals.find(source, f"{stem}.gz", stem)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the IDX format: 0, 0, 8, the number of axes, the lengths, the values."""
    with originals.in_words(path):
        with originals.unpacked(path, originals.MOST_BYTES) as stream:
            start = stream.read(4)
            if start[:3] != b"\0\0\x08" or len(start) < 4:
                raise ValueError(
                    f"an IDX file of bytes begins with 0, 0, 8; this one with {start[:3]!r}"
                )
            lengths = stream.read(4 * start[3])
            shape = np.frombuffer(lengths[: len(lengths) // 4 * 4], ">u4").tolist()
            size = prod(shape)
            if len(shape) != start[3] or size > originals.MOST_BYTES:
                raise ValueError(f"its lengths are {shape}, too large or cut short")
            values = stream.read(size)
            if len(values) < size or stream.read(1):
                raise ValueError(f"it should have {size:,} values, and has more or fewer")
        return np.frombuffer(values, np.uint8).reshape(shape)


def write_idx(array: NDArray[Any]) -> bytes:
    """An array of bytes as the content of an IDX file."""
    shape = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def facts(data: Dataset) -> Iterator[Fact]:
    """The cached arrays as IDX files have the checksums of the published ones."""
    found = {"x_train": data.train.x, "y_train": data.train.y}
    found |= {"x_test": data.test.x, "y_test": data.test.y}
    for name, array in found.items():
        content = write_idx(array)
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        yield Fact(f"MD5 of {ORIGINALS[name]}", md5, MD5[name])
        sha256 = hashlib.sha256(content).hexdigest()
        yield Fact(f"SHA-256 of {ORIGINALS[name]}", sha256, SHA256[name])


SET = Stored(
    files=("mnist.npz",),
    originals=f"{', '.join(f'{stem}.gz' for stem in ORIGINALS.values())} ({MIRROR})",
    forms=FORMS,
    make=make,
    read=partial(read_images, FORMS),
    facts=facts,
    downloads=tuple(f"{MIRROR}{name}" for name in DIGESTS),
    digests=DIGESTS
    | {ORIGINALS[name]: (f"sha256:{SHA256[name]}", f"md5:{MD5[name]}") for name in ORIGINALS},
)
