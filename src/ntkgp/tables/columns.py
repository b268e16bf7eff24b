"""How a column becomes numbers: one frozen value for each kind, learned in training, kept in files.

A column is a `pyarrow.Array` here. `learned` functions return None where a column tells rows apart in
no way that a new row could share; the reason is `features.py`'s to give.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.tables.arrow import pyarrow

Floats = NDArray[np.float64]
FAR = 1e4
"""A number further from the training mean, in training standard deviations, counts as if it were there."""
RARE_SHARE, RARE_ROWS = 0.01, 3
"""A level with fewer rows than this share, or number, shares a column with others of its kind."""
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")
YEAR = 365.2425
CYCLES = {"time of year": YEAR, "weekday": 7.0, "time of day": 1.0}
"""The cycles of a date, in days."""
ARROW_TYPES = {
    "number": ("float64",),
    "whole number": ("int64",),
    "flag": ("bool_",),
    "words": ("string",),
    "time of day": ("time64", "us"),
    "date": ("timestamp", "us"),
    "zoned date": ("timestamp", "us", "UTC"),
}
"""How Arrow reads each kind of column from CSV: the name of a type, and its arguments."""


def arrow_type(read_as: str) -> Any:
    """The Arrow type of a kind of column.

    >>> arrow_type("date")
    TimestampType(timestamp[us])
    """
    name, *arguments = ARROW_TYPES[read_as]
    return getattr(pyarrow(), name)(*arguments)


@runtime_checkable
class Column(Protocol):
    """What a column became."""

    @property
    def name(self) -> str: ...

    @property
    def read_as(self) -> str:
        """What a file without types holds there, a key of `ARROW_TYPES`."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers that it becomes."""
        ...

    def encode(self, values: Any) -> Floats:
        """(n, len(names)), without gaps."""
        ...

    def words(self) -> str:
        """What kind it is, for people."""
        ...


@storable
@dataclass(frozen=True)
class NumberColumn:
    """Numbers as they are; a gap gets the median, and a flag if training had gaps."""

    name: str
    median: float
    low: float
    high: float
    gaps: bool
    read_as: str = "number"
    """Or flag, for true and false, or time of day."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing") if self.gaps else (self.name,)

    def encode(self, values: Any) -> Floats:
        numbers = as_numbers(self.name, values)
        missing = np.isnan(numbers)
        filled = np.clip(np.where(missing, self.median, numbers), self.low, self.high)
        return np.stack([filled, missing] if self.gaps else [filled], axis=1).astype(np.float64)

    def words(self) -> str:
        kind = {"flag": "true or false"}.get(self.read_as, self.read_as)
        return f"{kind}, gaps filled with {self.median:g} and flagged" if self.gaps else kind


def learned_number(name: str, values: Any) -> NumberColumn | None:
    """From training values; None if they do not vary."""
    types = pyarrow().types
    numbers = as_numbers(name, values)
    known = numbers[~np.isnan(numbers)]
    gaps = len(known) < len(numbers)
    if not len(known) or (known.min() == known.max() and not gaps):
        return None
    mean, far = known.mean(), FAR * (known.std() or 1.0)
    return NumberColumn(
        name,
        float(np.median(known)),
        float(min(mean - far, known.min())),
        float(max(mean + far, known.max())),
        gaps,
        "flag"
        if types.is_boolean(values.type)
        else "time of day"
        if types.is_time(values.type)
        else "number",
    )


@storable
@dataclass(frozen=True)
class CategoryColumn:
    """A flag for each common level, one for the others together, one for gaps.

    A level that training did not have is one of the others; without others in training it has no flag.
    """

    name: str
    levels: tuple[str, ...]
    """Those with a flag of their own."""
    others: bool
    gaps: bool
    counted: tuple[str, ...] = ()
    """Where levels are too many for a flag each: all that at least two rows have."""
    log_counts: NDArray[np.float64] | None = None
    """Of these, in training."""

    @property
    def read_as(self) -> str:
        return "words"

    @property
    def names(self) -> tuple[str, ...]:
        of_levels = [f"{self.name} = {level}" for level in self.levels]
        others = [f"{self.name} = another"] if self.others else []
        gaps = [f"{self.name} is missing"] if self.gaps else []
        frequency = [f"{self.name}: how common"] if self.counted else []
        return (*of_levels, *others, *gaps, *frequency)

    def encode(self, values: Any) -> Floats:
        words = as_words(values)
        where = _index_in(words, self.levels)
        missing = np.asarray(words.is_null())
        flags = np.zeros((len(words), len(self.levels) + 1))
        flags[np.arange(len(words)), where] = 1  # the last column takes what has none
        parts = [flags[:, :-1]]
        if self.others:
            parts.append((flags[:, -1] * ~missing)[:, None])
        if self.gaps:
            parts.append(missing[:, None].astype(np.float64))
        if self.log_counts is not None and self.counted:
            common = np.append(self.log_counts, 0.0)
            parts.append(common[_index_in(words, self.counted)][:, None])
        return np.concatenate(parts, axis=1)

    def words(self) -> str:
        shown = ", ".join(self.levels[:4]) + (", …" if len(self.levels) > 4 else "")
        rest = [f"levels {shown}"] if self.levels else ["no common level"]
        rest += ["others together"] * self.others + ["gaps flagged"] * self.gaps
        rest += ["how common a level is"] * bool(self.counted)
        return "category: " + "; ".join(rest)


def learned_category(name: str, values: Any, max_levels: int) -> CategoryColumn | None:
    """From training values; None if they do not vary."""
    words = as_words(values)
    counts = words.drop_null().value_counts()
    levels = np.array(counts.field("values").to_pylist(), dtype=object)
    rows = counts.field("counts").to_numpy()
    order = np.lexsort([levels.astype(str), -rows])  # the commonest first, ties by the alphabet
    levels, rows = levels[order], rows[order]
    gaps = words.null_count > 0
    if len(levels) + gaps < 2:
        return None
    enough = max(RARE_SHARE * len(words), RARE_ROWS)
    own = [str(level) for level, n in zip(levels, rows, strict=True) if n >= enough][:max_levels]
    many = len(levels) > max_levels
    repeated = rows > 1
    if not own and not gaps and not (many and repeated.any()):
        return None
    return CategoryColumn(
        name,
        tuple(own),
        bool(own) and len(own) < len(levels),
        gaps,
        tuple(map(str, levels[repeated])) if many else (),
        np.log(rows[repeated]) if many else None,
    )


@storable
@dataclass(frozen=True)
class DateColumn:
    """Days since the first one in training, and the cycles of year, week and day, as sine and cosine."""

    name: str
    start: int
    """Microseconds since 1970."""
    median: int
    cycles: tuple[str, ...]
    """Those that vary in training."""
    gaps: bool
    zoned: bool = False
    """Whether moments have a time zone."""

    @property
    def read_as(self) -> str:
        return "zoned date" if self.zoned else "date"

    @property
    def names(self) -> tuple[str, ...]:
        of_cycles = [f"{self.name}: {c} ({f})" for c in self.cycles for f in ("sine", "cosine")]
        gaps = [f"{self.name} is missing"] if self.gaps else []
        return (f"{self.name}: days", *of_cycles, *gaps)

    def encode(self, values: Any) -> Floats:
        moments, missing = as_moments(self.name, values)
        days = np.where(missing, self.median, moments) / DAY
        parts = [days - self.start / DAY]
        for cycle in self.cycles:
            angle = _angle(cycle, days)
            parts += [np.sin(angle), np.cos(angle)]
        return np.stack([*parts, missing] if self.gaps else parts, axis=1).astype(np.float64)

    def words(self) -> str:
        return "date: days" + "".join(f", {cycle}" for cycle in self.cycles)


def learned_date(name: str, values: Any) -> DateColumn | None:
    """From training values; None if they do not vary."""
    moments, missing = as_moments(name, values)
    known = moments[~missing]
    gaps = len(known) < len(moments)
    if not len(known) or (known.min() == known.max() and not gaps):
        return None
    days = known / DAY
    cycles = [c for c in CYCLES if np.ptp(np.sin(_angle(c, days)), axis=0) > 1e-6]
    zoned = getattr(values.type, "tz", None) is not None
    return DateColumn(name, int(known.min()), int(np.median(known)), tuple(cycles), gaps, zoned)


def _angle(cycle: str, days: Floats) -> Floats:
    return 2 * np.pi * days / CYCLES[cycle]


@storable
@dataclass(frozen=True)
class DroppedColumn:
    """A column that the model does not use."""

    name: str
    why: str


# Arrow's values as NumPy's.


def as_numbers(name: str, values: Any) -> Floats:
    """Float64, NaN where missing or infinite; an error names the first value that is no number."""
    pa = pyarrow()
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_duration(values.type):
        values = pc.divide(values.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    if pa.types.is_time(values.type):
        values = values.cast(pa.time64("us")).cast(pa.int64())
    try:
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"column {name!r} has numbers in training, and here {_first_word(values)}."
        ) from None
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_words(values: Any) -> Any:
    """Strings, null where missing or empty; whole numbers without a point."""
    pa = pyarrow()
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_finite(values), values, None)
        whole = pc.all(pc.equal(values, pc.round(values)), min_count=0).as_py()
        values = values.cast(pa.int64(), safe=False) if whole else values
    words = values.cast(pa.string())
    return pc.if_else(pc.equal(words, ""), pa.scalar(None, pa.string()), words)


def as_moments(name: str, values: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970, in UTC where a time zone is given, and where they are missing."""
    pa = pyarrow()
    try:
        moments = values.cast(pa.timestamp("us", getattr(values.type, "tz", None)), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"column {name!r} has dates in training, and here {_first_word(values)}. Write them as "
            "2008-12-31 or 2008-12-31 23:59:00."
        ) from None
    whole = moments.cast(pa.int64())
    return np.asarray(whole.fill_null(0)), np.asarray(whole.is_null())


def is_number(word: Any) -> bool:
    """Whether a word reads as a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _first_word(values: Any) -> str:
    """What stands in place of numbers, for an error message."""
    words = (value.as_py() for value in values.drop_null())
    bad = next((word for word in words if not isinstance(word, str) or not is_number(word)), None)
    return f"{str(bad)[:40]!r}" if bad is not None else f"values of type {values.type}"


def _index_in(words: Any, levels: tuple[str, ...]) -> NDArray[np.int64]:
    """The place of each word among levels; len(levels) if it is none of them."""
    pa = pyarrow()
    import pyarrow.compute as pc

    where = pc.index_in(words, value_set=pa.array(levels, pa.string()), skip_nulls=True)
    return np.asarray(where.fill_null(len(levels))).astype(np.int64)
