"""CIFAR-10: 50,000 and 10,000 colour images of 32 × 32 pixels in ten classes (Krizhevsky, 2009)."""

import io
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import originals
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import channel_moments, image_forms, read_images
from ntkgp.data.stored import Download, Fact, Say, Stored

FORMS = image_forms(32, 32, 3, parts=("train", "test"))
BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
ARCHIVE = "cifar-10-python.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MEAN, STD = (0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159)  # of red, green and blue
FIRST_LABELS = {"train": "6 9 9 4 1 1 2 7 8 3", "test": "3 8 8 0 6 6 1 6 3 1"}


def make(source: Path, say: Say) -> Arrays:
    """Images and labels in their original order, from the six batches for Python."""
    names = {name for part in BATCHES.values() for name in part}
    batches = {
        path.name: read_batch(source / path, content)
        for path, content in originals.files(source, ARCHIVE, lambda path: path.name in names)
    }
    if missing := sorted(names - batches.keys()):
        raise FileNotFoundError(f"no {', '.join(missing)} in {source}.")
    arrays = {}
    for part, batch_names in BATCHES.items():
        images, labels = zip(*(batches[name] for name in batch_names), strict=True)
        arrays[f"x_{part}"], arrays[f"y_{part}"] = np.concatenate(images), np.concatenate(labels)
    return arrays


def read_batch(path: Path, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels (n,) of one batch; it holds red, green, blue, row by row."""
    with originals.in_words(path):
        batch = PlainUnpickler(io.BytesIO(content)).load()
        labels = np.array(batch[b"labels"], dtype=np.uint8)
        planes = batch[b"data"].array().reshape(len(labels), 3, 32, 32)
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


class PlainUnpickler(pickle.Unpickler):
    """Reads the batches and can call nothing: three names, which stand for plain records here.

    The batches are pickles of Python 2. A pickle may name any function of Python and have it called.
    Those names that NumPy's arrays need get stand-ins, made anew for each file, that only keep
    their arguments; every other name is refused.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="bytes")
        self._allowed = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: PickledArray(),
            ("numpy", "ndarray"): None,
            ("numpy", "dtype"): lambda code, *_: PickledType(code),
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which a batch of CIFAR-10 has no use for, and it may "
                "be an attempt to run code; nothing was run"
            )
        return self._allowed[module, name]


class PickledType:
    """The dtype in a pickle: its code, such as u1."""

    def __init__(self, code: bytes) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which bytes do not have."""


class PickledArray:
    """The array in a pickle: what its `__setstate__` is given."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        _, shape, dtype, fortran_order, content = self.state
        if dtype.code != b"u1" or fortran_order:
            raise ValueError(f"images must be bytes in C order, not of type {dtype.code!r}")
        return np.frombuffer(content, np.uint8).reshape(shape)


def facts(data: Dataset) -> Iterator[Fact]:
    for part, per_class in (("train", 5_000), ("test", 1_000)):
        labels = data.parts[part].y
        for label in range(10):
            yield Fact(f"{part} images of class {label}", int(np.sum(labels == label)), per_class)
        first = " ".join(str(label) for label in labels[:10])
        yield Fact(f"first {part} labels", first, FIRST_LABELS[part])
    mean, std = channel_moments(data.train.x)
    for channel, colour in enumerate(("red", "green", "blue")):
        yield Fact(f"mean of {colour}", float(mean[channel]), MEAN[channel], within=1e-5)
        yield Fact(
            f"standard deviation of {colour}", float(std[channel]), STD[channel], within=1e-5
        )


SET = Stored(
    files=("cifar10.npz",),
    originals=f"{ARCHIVE} or its batches ({URL})",
    forms=FORMS,
    make=make,
    read=partial(read_images, FORMS),
    facts=facts,
    downloads=(Download(URL, "md5:c58f30108f718f92721af3b95e74349a"),),
)
