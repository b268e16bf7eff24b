"""scikit-learn's digits against letters: the MNIST experiment in small, which needs no data set."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ntkgp.data import load
from ntkgp.experiments.images.claims import OF_MNIST, elsewhere
from ntkgp.experiments.images.mnist import EACH_IMAGE, MnistConfig
from ntkgp.experiments.images.report import report
from ntkgp.experiments.images.run import OF_IMAGES, Stored, on_images


@dataclass(frozen=True)
class DigitsConfig(MnistConfig):
    """As for MNIST, with more epochs because there are fewer images."""

    pixels = 64
    epochs: int = 100
    batch_size: int = 50
    test_images: int = 450


def load_digits(config: DigitsConfig) -> Stored:
    digits = load("digits").all
    order = np.random.default_rng(0).permutation(len(digits.x))
    test, train = order[: config.test_images], order[config.test_images :]
    return digits.take(train), digits.take(test), load("letters").all.x


DIGITS = on_images(
    "digits",
    "Digits against letters: Figures 3 and 4 in small",
    {
        "laptop": DigitsConfig(repeats=3),
        "paper": DigitsConfig(w_var_grid=(1.5, 2.0, 2.5), kappa2_grid=(0.5, 1.0, 1.5)),
    },
    load=load_digits,
    report=partial(report, sets=("digits", "letters"), makers=elsewhere("MNIST", OF_MNIST)),
    readings=(*OF_IMAGES, EACH_IMAGE),
)
