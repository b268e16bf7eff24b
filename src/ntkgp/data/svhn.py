"""SVHN: the 26,032 test digits of house numbers, 32 × 32 pixels in colour (Netzer et al., 2011)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ntkgp.data import mat, originals
from ntkgp.data.cache import Arrays
from ntkgp.data.dataset import Dataset
from ntkgp.data.images import channel_moments, image_forms, read_images
from ntkgp.data.stored import Fact, Say, Stored

FORMS = image_forms(32, 32, 3, parts=("test",))
ORIGINAL = "test_32x32.mat"
URL = f"http://ufldl.stanford.edu/housenumbers/{ORIGINAL}"
MOST_BYTES = 2**27
"""Of the file, and of its images: 64 and 80 million bytes."""
COUNTS = (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595)  # of 0 to 9
MEAN, STD = (0.4524, 0.4525, 0.4690), (0.2194, 0.2266, 0.2285)  # of red, green and blue


def make(source: Path, say: Say) -> Arrays:
    """Images (n, 32, 32, 3) and labels, from MATLAB's (32, 32, 3, n) and digits with 10 for 0."""
    path = originals.find(source, ORIGINAL)
    with originals.in_words(path):
        content = mat.read_arrays(originals.read_whole(path, MOST_BYTES), ("X", "y"), MOST_BYTES)
        images, labels = content["X"], content["y"].ravel()
        if images.dtype != np.uint8 or not np.isin(labels, np.arange(1, 11)).all():
            raise ValueError("X must be of bytes and y of digits from 1 to 10")
        x = np.ascontiguousarray(np.moveaxis(images, -1, 0))
        return {"x_test": x, "y_test": (labels % 10).astype(np.uint8)}


def facts(data: Dataset) -> Iterator[Fact]:
    """Numbers of each digit, and the published mean and standard deviation, to about their digits."""
    for digit, count in enumerate(COUNTS):
        yield Fact(f"images of {digit}", int(np.sum(data.test.y == digit)), count)
    mean, std = channel_moments(data.test.x)
    for channel, colour in enumerate(("red", "green", "blue")):
        yield Fact(f"mean of {colour}", float(mean[channel]), MEAN[channel], within=2e-4)
        yield Fact(
            f"standard deviation of {colour}", float(std[channel]), STD[channel], within=2e-4
        )


SET = Stored(
    files=("svhn.npz",),
    originals=f"{ORIGINAL} ({URL})",
    forms=FORMS,
    make=make,
    read=partial(read_images, FORMS),
    facts=facts,
    downloads=(URL,),
    digests={
        ORIGINAL: (
            "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            "md5:eb5a983be6a315427106f1b164d9cef3",
        )
    },
)
