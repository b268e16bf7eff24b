"""CIFAR-10: 50,000 and 10,000 colour images of 32 × 32 pixels in ten classes (Krizhevsky, 2009)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import originals, pickles
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import channel_moments, image_forms, read_images
from ntkgp.data.stored import Fact, Say, Stored

FORMS = image_forms(32, 32, 3, parts=("train", "test"))
BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
ARCHIVE = "cifar-10-python.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MEAN, STD = (0.49140, 0.48216, 0.44653), (0.24703, 0.24349, 0.26159)  # of red, green and blue
DIGESTS = {
    ARCHIVE: (
        "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        "md5:c58f30108f718f92721af3b95e74349a",
    ),
    "data_batch_1": ("md5:c99cafc152244af753f735de768cd75f",),
    "data_batch_2": ("md5:d4bba439e000b95fd0a9bffe97cbabec",),
    "data_batch_3": ("md5:54ebc095f3ab1f0389bbae665268c751",),
    "data_batch_4": ("md5:634d18415352ddfa80567beed471001a",),
    "data_batch_5": ("md5:482c414d41f54cd18b22e5b47cb7c3cb",),
    "test_batch": ("md5:40351d587109b95175f43aff81a1287e",),
}
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
        batch = pickles.load(content)
        if not isinstance(batch, dict) or not {b"labels", b"data"} <= batch.keys():
            raise ValueError("it has no labels or no data")
        numbers = batch[b"labels"]
        if not isinstance(numbers, list) or not all(
            type(n) is int and 0 <= n < 10 for n in numbers
        ):
            raise ValueError("its labels are not whole numbers from 0 to 9")
        labels = np.array(numbers, dtype=np.uint8)
        planes = pickles.byte_array(batch[b"data"]).reshape(len(labels), 3, 32, 32)
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


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
    downloads=(URL,),
    digests=DIGESTS,
)
