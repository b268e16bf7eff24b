"""The letters that come with the package are as digits in all but what they show."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ntkgp.data import load_letters

LETTERS = load_letters()
DIGITS, SHOWN = load_digits(return_X_y=True)
SCRIPT = Path(__file__).parents[2] / "tools/make_letters.py"

# One number for each image; none of them should tell a letter from a digit.
STATISTICS = {
    "ink": lambda x: x.sum(1),
    "empty pixels": lambda x: (x == 0).sum(1),
    "full pixels": lambda x: (x == 16).sum(1),
    "contrast": lambda x: x.std(1),
    "occupied rows": lambda x: x.reshape(-1, 8, 8).any(2).sum(1),
    "occupied columns": lambda x: x.reshape(-1, 8, 8).any(1).sum(1),
    "roughness": lambda x: sum(
        np.abs(np.diff(x.reshape(-1, 8, 8), axis=axis)).sum((1, 2)) for axis in (1, 2)
    ),
}


def separation(x, others):
    """How well each statistic alone tells x from others: |AUROC - ½|, 0 not at all, ½ always."""

    def of(statistic):
        above = np.sign(statistic(x)[:, None] - statistic(others)[None, :])  # ties are 0
        return abs(above.mean()) / 2

    return {name: of(statistic) for name, statistic in STATISTICS.items()}


def test_letters_have_the_format_of_digits():
    assert LETTERS.x.shape[1:] == DIGITS.shape[1:]
    assert LETTERS.x.dtype == DIGITS.dtype
    np.testing.assert_array_equal(np.unique(LETTERS.x), np.arange(17))


def test_no_image_occurs_twice():
    assert len(np.unique(LETTERS.x, axis=0)) == len(LETTERS.x)


def test_letters_are_equally_many_and_none_can_be_read_as_a_digit():
    letters, counts = np.unique(LETTERS.labels, return_counts=True)
    assert LETTERS.labels.shape == (len(LETTERS.x),)
    assert "".join(letters) == "ACEFHKLNPRTUVXY"
    assert set(counts) == {66}


@pytest.fixture(scope="module")
def most_separate_digit():
    masks = np.arange(10)[:, None] == SHOWN
    classes = [separation(DIGITS[mask], DIGITS[~mask]) for mask in masks]
    return {name: max(values[name] for values in classes) for name in STATISTICS}


def test_no_low_level_statistic_gives_letters_away(most_separate_digit):
    # Letters are no further from the digits than one of the digits is from the other nine.
    found = separation(LETTERS.x, DIGITS)
    for name, statistic in STATISTICS.items():
        assert found[name] <= most_separate_digit[name], name
        letters, digits = statistic(LETTERS.x), statistic(DIGITS)
        assert abs(letters.mean() - digits.mean()) <= 0.5 * digits.std(), name


@pytest.mark.parametrize("share", [0.75, 1.25])
def test_letters_of_another_brightness_would_be_given_away(share, most_separate_digit):
    found = separation(np.minimum(np.rint(share * LETTERS.x), 16), DIGITS)
    assert found["ink"] > most_separate_digit["ink"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # old matplotlib, new pyparsing
def test_the_script_draws_the_file():
    # Outlines are the same in every version of matplotlib; rounding may move a pixel on an edge.
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("make_letters", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    images, labels = script.draw()
    np.testing.assert_array_equal(labels, LETTERS.labels)
    difference = np.abs(images.reshape(-1, 64) - LETTERS.x)
    assert difference.max() <= 1
    assert np.mean(difference.any(1)) < 0.05
