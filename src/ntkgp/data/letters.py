"""Capital letters in the format of scikit-learn's digits: what a digit classifier should refuse."""

from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.data.dataset import Dataset, Split
from ntkgp.data.stored import BuiltIn


class Letters(NamedTuple):
    """Images and what they show."""

    x: NDArray[np.float64]
    """Grey values, (n, 64): row by row, whole numbers from 0, background, to 16, full ink."""
    labels: NDArray[np.str_]
    """Capital letters, (n,)."""


def load_letters() -> Letters:
    """Read 990 images of 8 × 8 pixels: A C E F H K L N P R T U V X Y, 66 of each, in that order.

    They are made as scikit-learn's `load_digits().data` is, with its height, width and amount of
    ink, so that brightness does not give them away. B D G I J O Q S Z are left out because they
    can be read as digits (8 0 6 1 1 0 0 5 2), M and W because they blur at the width of a digit.

    >>> from ntkgp.data import load_letters
    >>> letters = load_letters()
    >>> letters.x.shape, "".join(np.unique(letters.labels))
    ((990, 64), 'ACEFHKLNPRTUVXY')
    >>> print(letters.x[66].reshape(8, 8).astype(int))
    [[ 0  0  3 13 16 13  3  0]
     [ 0  0 14 13  6 11 12  0]
     [ 0  4 16  3  0  0  3  0]
     [ 0  4 16  0  0  0  0  0]
     [ 0  4 16  0  0  0  0  0]
     [ 0  2 16  5  0  0  2  0]
     [ 0  0 12 14  6  9 12  0]
     [ 0  0  1 10 16 15  6  0]]

    `tools/make_letters.py` in the repository draws the file. The images are drawings made with
    the fonts DejaVu Sans and DejaVu Sans Mono (Bitstream Vera licence, changes in the public
    domain) and STIX (SIL Open Font License 1.1), which allow that; no font is contained.
    """
    with (
        (files("ntkgp.data") / "letters.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        return Letters(arrays["images"].reshape(-1, 64).astype(np.float64), arrays["labels"])


def load() -> Dataset:
    """The letters in the form of all data sets."""
    return Dataset("letters", {"all": Split(*load_letters())})


SET = BuiltIn("comes with ntkgp", load)
