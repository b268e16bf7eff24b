"""US flights of 2008 with their delays (ASA Data Expo 2009), the set of the paper's Figure 2."""

import bz2
import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import cache, originals
from ntkgp.data.cache import Arrays, Form, Unreadable
from ntkgp.data.dataset import Dataset, Split
from ntkgp.data.stored import Fact, Say, Stored

FROM_CSV = {  # column here: column of 2008.csv
    "month": "Month",
    "day_of_month": "DayofMonth",
    "day_of_week": "DayOfWeek",
    "dep_time": "DepTime",
    "crs_dep_time": "CRSDepTime",
    "arr_time": "ArrTime",
    "air_time": "AirTime",
    "distance": "Distance",
    "plane_year": "TailNum",  # looked up in plane-data.csv
    "arr_delay": "ArrDelay",
}
TARGET = "arr_delay"
COLUMNS = tuple(name for name in FROM_CSV if name != TARGET)
FORMS: dict[str, Form] = dict.fromkeys(FROM_CSV, ("float32", ("n",)))
PER_MONTH = (
    605_765, 569_236, 616_090, 598_126, 606_293, 608_665,
    627_931, 612_279, 540_908, 556_205, 523_272, 544_958,
)  # fmt: skip
_BLOCK = 100_000
_MOST_ROWS, _MOST_CHARACTERS = (
    8_000_000,
    10_000,
)  # 7 million rows, the longest of some 120 characters

FEATURES = (
    "plane_age",
    "distance",
    "air_time",
    "dep_time",
    "arr_time",
    "day_of_week",
    "day_of_month",
    "month",
)
"""What `complete_rows` has as columns: the eight features of Hensman et al. (2013)."""


def complete_rows(flights: Dataset) -> Split:
    """The flights without missing values, in order: eight features, and the delay in minutes.

    x is (n, 8) with the columns `FEATURES`. The age of the plane is 2008 less its year; times of
    day, which are stored as hhmm, become minutes after midnight; all else is as stored.

    >>> row = dict(month=1, day_of_month=3, day_of_week=4, dep_time=1905, crs_dep_time=1900)
    >>> row |= dict(arr_time=2400, air_time=245, distance=2100, plane_year=1999)
    >>> x = np.array([[row[name] for name in COLUMNS]], dtype=np.float32).repeat(2, axis=0)
    >>> x[1, COLUMNS.index("plane_year")] = np.nan
    >>> y = np.array([-3, 12], dtype=np.float32)
    >>> rows = complete_rows(Dataset("flights2008", {"all": Split(x, y)}, columns=COLUMNS))
    >>> rows.x.tolist(), rows.y.tolist()
    ([[9.0, 2100.0, 245.0, 1145.0, 1440.0, 4.0, 3.0, 1.0]], [-3.0])
    """
    x, y = flights.all
    known = ~np.isnan(y)
    for column in x.T:
        known &= ~np.isnan(column)
    columns = {name: x[known, i] for i, name in enumerate(flights.columns)}
    columns["plane_age"] = 2008 - columns["plane_year"]
    for time in ("dep_time", "arr_time"):
        hours, minutes = np.divmod(columns[time], 100)
        columns[time] = 60 * hours + minutes
    return Split(np.stack([columns[name] for name in FEATURES], axis=1), y[known])


def make(source: Path, say: Say) -> Arrays:
    """Rows in the order of month, day and scheduled departure; NaN for missing values."""
    years = read_plane_years(originals.find(source, "plane-data.csv"))
    path = originals.find(source, "2008.csv.bz2", "2008.csv")
    say(f"reading {path}, which takes a minute or two for the whole year")
    arrays = read_csv(path, years)
    order = np.lexsort([arrays[name] for name in ("crs_dep_time", "day_of_month", "month")])
    return {name: array[order] for name, array in arrays.items()}


def read_plane_years(path: Path) -> dict[str, float]:
    """Year of manufacture by tail number, for those planes that have one."""
    with originals.in_words(path), opened(path) as lines:
        rows = csv.DictReader(lines)
        years = {row["tailnum"]: row["year"] or "" for row in rows}  # some rows are cut short
    return {tail: float(year) for tail, year in years.items() if year.isdecimal() and int(year)}


def read_csv(path: Path, years: dict[str, float]) -> Arrays:
    with originals.in_words(path), opened(path) as lines:
        rows = csv.reader(lines)
        header = next(rows, [])
        pick = itemgetter(*(header.index(name) for name in FROM_CSV.values()))
        blocks = []
        while block := [pick(row) for row in islice(rows, _BLOCK)]:
            blocks.append(numbers(zip(*block, strict=True), years))
        return {name: np.concatenate([block[name] for block in blocks]) for name in FROM_CSV}


def numbers(columns: Iterator[Sequence[str]], years: dict[str, float]) -> Arrays:
    """Columns of text as float32, which holds their whole numbers exactly; NA as NaN."""
    missing = {"NA": np.nan, "": np.nan}
    arrays: Arrays = {}
    for name, texts in zip(FROM_CSV, columns, strict=True):
        if name == "plane_year":
            values = [years.get(tail, np.nan) for tail in texts]
        else:
            values = [missing[text] if text in missing else float(text) for text in texts]
        arrays[name] = np.array(values, dtype=np.float32)
    return arrays


@contextmanager
def opened(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a text, packed by bzip2 or not; every byte is a character of Latin-1."""
    opener = bz2.open if path.suffix == ".bz2" else open
    with opener(path, "rt", encoding="latin-1", newline="") as text:
        yield bounded_lines(text)


def bounded_lines(text: Any) -> Iterator[str]:
    """Each line, or an error where one is too long, or there are too many, to be a table's."""
    for number in count():
        line = text.readline(_MOST_CHARACTERS + 1)
        if not line:
            return
        if len(line) > _MOST_CHARACTERS or number > _MOST_ROWS:
            raise ValueError(
                f"line {number + 1:,} has more than {_MOST_CHARACTERS:,} characters, or there are more "
                f"than {_MOST_ROWS:,} lines"
            )
        yield line


def read(path: Path, name: str) -> Dataset:
    arrays = read_parquet(path) if path.suffix == ".parquet" else cache.read(path, FORMS)
    x = np.stack([arrays[column] for column in COLUMNS], axis=1)
    return Dataset(name, {"all": Split(x, arrays[TARGET])}, columns=COLUMNS)


def read_parquet(path: Path) -> Arrays:
    """The same columns from Parquet: whole numbers, null for missing values."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"reading {path} needs PyArrow: pip install 'ntkgp[data]'. Or make flights2008.npz, which "
            "does not: ntkgp data get flights2008 --from FOLDER"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            check_parquet(file)
            table = file.read(columns=list(FROM_CSV), use_threads=False)
        arrays = {name: table[name].to_numpy().astype(np.float32) for name in FROM_CSV}
    except Exception as error:  # PyArrow's own classes, KeyError, TypeError
        raise Unreadable(f"{path} is damaged or no file of ntkgp's: {error}.") from error
    return arrays


def check_parquet(file: Any) -> None:
    """Refuse tables that are too long, or of other than numbers, by what the file says of itself."""
    described, schema = file.metadata, file.schema_arrow
    if not 0 <= described.num_rows <= _MOST_ROWS or described.num_row_groups > 1_000:
        raise ValueError(
            f"it has {described.num_rows:,} rows in {described.num_row_groups:,} groups"
        )
    for name in FROM_CSV:
        kind = str(schema.field(name).type)
        if not kind.removeprefix("u").startswith(("int", "float", "double")):
            raise ValueError(f"{name} is of type {kind[:40]}, and must be numbers")


def facts(data: Dataset) -> Iterator[Fact]:
    """Whole months, in order. A set may end before December."""
    x = {name: data.all.x[:, i] for i, name in enumerate(data.columns)}
    months: NDArray[np.int64] = np.unique(x["month"]).astype(int)
    yield Fact("months", " ".join(map(str, months)), " ".join(map(str, range(1, 1 + len(months)))))
    for month, known in zip(months, PER_MONTH, strict=False):
        yield Fact(f"flights in month {month}", int(np.sum(x["month"] == month)), known)
    time = (x["month"].astype(int) * 100 + x["day_of_month"]) * 10_000 + x["crs_dep_time"]
    yield Fact("rows out of order", int(np.sum(np.diff(time) < 0)), 0)
    infinite = np.sum(np.isinf(data.all.x)) + np.sum(np.isinf(data.all.y))
    yield Fact("infinite values", int(infinite), 0)


SET = Stored(
    files=("flights2008.npz", "flights2008.parquet"),
    originals="2008.csv.bz2 and plane-data.csv of the ASA Data Expo 2009 "
    "(https://doi.org/10.7910/DVN/HG7NV7)",
    forms=FORMS,
    make=make,
    read=read,
    facts=facts,
)
