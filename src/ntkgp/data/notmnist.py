"""NotMNIST: the letters A to J in 28 × 28 pixels, from fonts of all kinds (Bulatov, 2011)."""

import io
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import originals
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import image_forms, read_images
from ntkgp.data.stored import Fact, Say, Stored

FORMS = image_forms(28, 28, parts=("test",))
LETTERS = "ABCDEFGHIJ"
PER_LETTER = 1_000
ARCHIVE = "notMNIST_small.tar.gz"
URL = f"https://commondatastorage.googleapis.com/books1000/{ARCHIVE}"
SIZE = (28, 28)
MOST_BYTES = 2**20
"""Of one image; the largest has 1,500."""


def make(source: Path, say: Say) -> Arrays:
    """A balanced test set from folders A to J, with 18,724 readable PNG files.

    Of the n readable images of a letter, in the order of their names, those at ⌊in/1000⌋ for i
    from 0 to 999 are taken: no chance, and families of fonts, which have similar names, keep their
    shares. The letters take turns, so that any number of first rows is balanced as well.
    """
    images: dict[str, dict[str, NDArray[np.uint8]]] = {letter: {} for letter in LETTERS}
    broken = 0
    for path, content in originals.files(source, ARCHIVE, is_image, MOST_BYTES, 2**26):
        image = read_png(content, path)
        if image is None:
            broken += 1
        else:
            images[path.parent.name][path.name] = image
    say(f"{sum(map(len, images.values())):,} images read; {broken} broken ones left out")
    drawn = [draw(images[letter], letter, source) for letter in LETTERS]
    x = np.stack(drawn, axis=1).reshape(-1, 28, 28)
    return {"x_test": x, "y_test": np.tile(np.arange(10, dtype=np.uint8), PER_LETTER)}


def is_image(path: PurePosixPath) -> bool:
    hidden = path.name.startswith(".")
    return not hidden and path.suffix == ".png" and path.parent.name in set(LETTERS)


def read_png(content: bytes, path: PurePosixPath) -> NDArray[np.uint8] | None:
    """Grey values, or None for a file that is no PNG image; of other formats nothing is decoded."""
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "reading PNG files needs Pillow: pip install 'ntkgp[data]'"
        ) from None
    if content[:8] != b"\x89PNG\r\n\x1a\n" or content[12:16] != b"IHDR" or len(content) < 24:
        return None
    if (size := struct.unpack(">II", content[16:24])) != SIZE:  # before anything is decoded
        raise ValueError(
            f"{path} is an image of {size[0]} × {size[1]} pixels; NotMNIST's have 28 × 28."
        )
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            return np.array(image.convert("L")) if image.size == SIZE else None
    except Exception:  # Pillow has many names for a broken file; the set itself has two
        return None


def draw(images: dict[str, NDArray[np.uint8]], letter: str, source: Path) -> NDArray[np.uint8]:
    n = len(images)
    if n < PER_LETTER:
        raise ValueError(
            f"{source} has {n} readable images of {letter}; a balanced test set needs "
            f"{PER_LETTER:,} PNG files in each of the folders A to J."
        )
    names = sorted(images)
    return np.stack([images[names[i * n // PER_LETTER]] for i in range(PER_LETTER)])


def facts(data: Dataset) -> Iterator[Fact]:
    """The set does not fix which 10,000 images are drawn. It fixes their mean, to 5 standard errors."""
    for label, letter in enumerate(LETTERS):
        yield Fact(f"images of {letter}", int(np.sum(data.test.y == label)), PER_LETTER)
    yield Fact("mean grey value", float(data.test.x.mean()), 108.8, within=2.4)


SET = Stored(
    files=("notmnist.npz",),
    originals=f"{ARCHIVE} or its folders A to J ({URL})",
    forms=FORMS,
    make=make,
    read=partial(read_images, FORMS),
    facts=facts,
    downloads=(URL,),
    digests={ARCHIVE: ("md5:c9890a473a9769fda4bdf314aaf500dd",)},
)
