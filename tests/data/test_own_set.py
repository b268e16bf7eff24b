"""A data set from outside the package: an entry in `ntkgp.data.SETS`, then a name like any other."""

import numpy as np
import pytest

from ntkgp.cli import main
from ntkgp.data import SETS, Dataset, Split, cache, check, get, load
from ntkgp.data.stored import BuiltIn, Fact, Stored

FORMS = {"x": ("float64", ("n", 2)), "y": ("float64", ("n",))}


def make_rings():
    angle = np.linspace(0, 2 * np.pi, 12)
    return Dataset("rings", {"all": Split(np.c_[np.cos(angle), np.sin(angle)], angle)})


def make(source, say):
    """From a text file of three columns."""
    x1, x2, y = np.loadtxt(source / "tides.txt").T
    return {"x": np.c_[x1, x2], "y": y}


def read(path, name):
    return Dataset(name, {"all": Split(**cache.read(path, FORMS))})


TIDES = Stored(
    files=("tides.npz",),
    originals="tides.txt, three columns",
    forms=FORMS,
    make=make,
    read=read,
    facts=lambda data: [Fact("rows", len(data.all.x), 4)],
)


@pytest.fixture
def tides(tmp_path, monkeypatch):
    """The set in the table, an empty cache directory, and a folder of original files."""
    monkeypatch.setitem(SETS, "tides", TIDES)
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path / "cache"))
    originals = tmp_path / "originals"
    originals.mkdir()
    np.savetxt(originals / "tides.txt", np.arange(12.0).reshape(4, 3))
    return originals


def test_one_that_is_computed_is_loaded_by_name(monkeypatch):
    with pytest.raises(ValueError, match='no data set "rings"'):
        load("rings")
    monkeypatch.setitem(SETS, "rings", BuiltIn("is computed", make_rings))
    assert load("rings").all.x.shape == (12, 2)
    with pytest.raises(ValueError, match="rings needs no file: it is computed"):
        get("rings")


def test_one_that_is_kept_is_made_from_its_files_and_loaded_by_name(tides):
    with pytest.raises(FileNotFoundError, match=r"Put into one folder: tides\.txt"):
        load("tides")
    np.testing.assert_array_equal(load("tides", tides).all.y, [2, 5, 8, 11])
    (tides / "tides.txt").unlink()
    np.testing.assert_array_equal(load("tides").all.x[0], [0, 1])  # from the cache now
    assert all(fact.holds for fact in check("tides"))


def test_its_facts_and_forms_are_checked(tides):
    path = get("tides", tides)
    cache.write(path, {"x": np.zeros((3, 2)), "y": np.zeros(3)})
    assert [fact.holds for fact in check("tides")] == [False]
    cache.write(path, {"x": np.zeros((3, 2)), "y": np.zeros(4)})
    with pytest.raises(cache.Unreadable, match="y must be float64"):
        load("tides")


def test_the_command_line_knows_it(tides, capsys):
    assert main(["data", "get", "tides", "--from", str(tides)]) == 0
    assert main(["data", "check", "tides"]) == 0
    assert "tides" in capsys.readouterr().out
