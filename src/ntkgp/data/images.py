"""What the sets of images share: their form in the cache, and statistics that identify them."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import cache
from ntkgp.data.cache import Form
from ntkgp.data.dataset import Dataset, Split

_BLOCK = 1_000


def image_forms(*shape: int, parts: tuple[str, ...]) -> dict[str, Form]:
    """Bytes x_test (n, *shape) with labels y_test (n,), and the same for other parts.

    >>> image_forms(28, 28, parts=("test",))
    {'x_test': ('uint8', ('test', 28, 28)), 'y_test': ('uint8', ('test',))}
    """
    forms: dict[str, Form] = {}
    for part in parts:
        forms[f"x_{part}"] = ("uint8", (part, *shape))
        forms[f"y_{part}"] = ("uint8", (part,))
    return forms


def read_images(forms: dict[str, Form], path: Path, name: str) -> Dataset:
    arrays = cache.read(path, forms)
    parts = [array.removeprefix("x_") for array in forms if array.startswith("x_")]
    return Dataset(name, {part: Split(arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in parts})


def channel_moments(images: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each channel, for bytes (n, h, w, c) read as 0 to 1.

    By counts of the 256 values, since a large set as floats may not fit into memory.

    >>> images = np.arange(2 * 2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 2, 3)
    >>> mean, std = channel_moments(images)
    >>> np.allclose(mean * 255, images.mean(axis=(0, 1, 2)))
    True
    >>> np.allclose(std * 255, images.std(axis=(0, 1, 2)))
    True
    """
    values = np.arange(256) / 255
    counts = np.zeros((images.shape[-1], 256))
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        for channel, count in enumerate(counts):
            count += np.bincount(block[..., channel].ravel(), minlength=256)
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ values
    return mean, np.sqrt(share @ values**2 - mean**2)
