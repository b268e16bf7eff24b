"""The real data sets, where the environment variable NTKGP_DATA names a directory that has them."""

import os

import numpy as np
import pytest

from ntkgp.data import SETS, complete_rows, flights, load, mnist, sets
from ntkgp.data.stored import BuiltIn

STORED = [name for name, entry in SETS.items() if not isinstance(entry, BuiltIn)]
CHOSEN = os.environ.get("NTKGP_DATA")


def skip_without(name):
    if not CHOSEN:
        pytest.skip("needs the real data sets: set NTKGP_DATA to the directory that has them")
    if sets.cached(SETS[name]) is None:
        pytest.skip(f"needs {name}, which is not in {CHOSEN}: ntkgp data get {name}")


@pytest.mark.parametrize("name", STORED)
def test_a_cached_set_is_as_the_public_one_is_known(name):
    skip_without(name)
    facts = sets.check(name)
    assert len(facts) >= 4
    assert not [str(fact) for fact in facts if not fact.holds]


def test_one_other_pixel_is_found():
    skip_without("mnist")
    data = load("mnist")
    x = data.test.x.copy()
    x[5000, 14, 14] ^= 1
    changed = data._replace(parts=data.parts | {"test": data.test._replace(x=x)})
    wrong = [fact.what for fact in mnist.facts(changed) if not fact.holds]
    assert wrong == ["MD5 of t10k-images-idx3-ubyte"]


def test_colours_in_another_order_are_found():
    skip_without("svhn")
    data = load("svhn")
    swapped = data.test._replace(x=data.test.x[..., ::-1])
    wrong = [f for f in SETS["svhn"].facts(data._replace(parts={"test": swapped})) if not f.holds]
    assert len(wrong) == 4  # mean and deviation of red and blue


def test_labels_show_what_the_images_show():
    """The nearest class mean, a classifier of four lines, is right on most digits, on 1 in 10 not."""
    skip_without("mnist")
    data = load("mnist")
    x, y = data.train.x.reshape(-1, 784).astype(np.float32), data.train.y
    means = np.stack([x[y == label].mean(axis=0) for label in range(10)])
    test = data.test.x.reshape(-1, 784).astype(np.float32)
    nearest = np.argmin((means**2).sum(1) - 2 * test @ means.T, axis=1)
    assert np.mean(nearest == data.test.y) == pytest.approx(
        0.8203, abs=0.001
    )  # as in the literature
    assert np.mean(nearest == np.roll(data.test.y, 1)) < 0.15


def test_flights_have_the_known_number_of_complete_rows():
    skip_without("flights2008")
    data = load("flights2008")
    months = set(np.unique(data.all.x[:, data.columns.index("month")]).astype(int))
    if months != {1, 2, 3, 4}:
        pytest.skip(f"the number is known for January to April; these are months {months}")
    rows = complete_rows(data)
    assert rows.x.shape == (2_055_733, 8)
    assert np.isfinite(rows.x).all()
    assert np.isfinite(rows.y).all()
    ranges = dict(
        zip(flights.FEATURES, zip(rows.x.min(0), rows.x.max(0), strict=True), strict=True)
    )
    assert ranges["plane_age"] == (0, 52)
    assert ranges["month"] == (1, 4)
    assert ranges["day_of_week"] == (1, 7)
    assert ranges["dep_time"][1] == ranges["arr_time"][1] == 24 * 60
    minutes = rows.x[:, flights.FEATURES.index("arr_time")] % 60
    assert len(np.unique(minutes)) == 60
