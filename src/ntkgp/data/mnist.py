"""MNIST: 60,000 and 10,000 handwritten digits of 28 × 28 pixels (LeCun, Cortes and Burges)."""

import gzip
import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import originals
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import image_forms, read_images
from ntkgp.data.stored import Download, Fact, Say, Stored

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
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
DOWNLOADS = (
    Download(f"{MIRROR}train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    Download(f"{MIRROR}train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
    Download(f"{MIRROR}t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
    Download(f"{MIRROR}t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
)


def make(source: Path, say: Say) -> Arrays:
    """The four arrays, from the four IDX files, compressed or not."""
    return {name: read_idx(find_idx(source, stem)) for name, stem in ORIGINALS.items()}


def find_idx(source: Path, stem: str) -> Path:
    return originals.find(source, f"{stem}.gz", stem)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the IDX format: 0, 0, 8, the number of axes, the lengths, the values."""
    with originals.in_words(path):
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if data[:3] != b"\0\0\x08":
            raise ValueError(
                f"an IDX file of bytes begins with 0, 0, 8; this one with {data[:3]!r}"
            )
        axes = data[3]
        shape = tuple(int(n) for n in np.frombuffer(data, ">u4", axes, offset=4))
        return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def write_idx(array: NDArray[Any]) -> bytes:
    """An array of bytes as the content of an IDX file."""
    shape = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def facts(data: Dataset) -> Iterator[Fact]:
    """The cached arrays as IDX files have the checksums of the published ones."""
    found = {"x_train": data.train.x, "y_train": data.train.y}
    found |= {"x_test": data.test.x, "y_test": data.test.y}
    for name, array in found.items():
        digest = hashlib.md5(write_idx(array), usedforsecurity=False).hexdigest()
        yield Fact(f"MD5 of {ORIGINALS[name]}", digest, MD5[name])


SET = Stored(
    files=("mnist.npz",),
    originals=f"{', '.join(f'{stem}.gz' for stem in ORIGINALS.values())} ({MIRROR})",
    forms=FORMS,
    make=make,
    read=partial(read_images, FORMS),
    facts=facts,
    downloads=DOWNLOADS,
)
