"""scikit-learn's digits against letters: the MNIST experiment in small, which needs no data set."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import Split, load
from ntkgp.experiments.images import run_images
from ntkgp.experiments.mnist import MnistConfig


@dataclass(frozen=True)
class DigitsConfig(MnistConfig):
    """As for MNIST, with more epochs because there are fewer images."""

    pixels = 64
    epochs: int = 100
    batch_size: int = 50
    test_images: int = 450

    def load(self) -> tuple[Split, Split, NDArray[Any]]:
        digits = load("digits").all
        order = np.random.default_rng(0).permutation(len(digits.x))
        test, train = order[: self.test_images], order[self.test_images :]
        return digits.take(train), digits.take(test), load("letters").all.x


PRESETS = {
    "laptop": DigitsConfig(repeats=3),
    "paper": DigitsConfig(w_var_grid=(1.5, 2.0, 2.5), kappa2_grid=(0.5, 1.0, 1.5)),
}


def run(
    config: DigitsConfig, out: Path, *, progress: bool = True, say: Callable[[str], None] = print
) -> Path:
    """Compute what is not yet in the results file, and return its path."""
    return run_images("digits", config, out, progress, say)
