"""How a column becomes numbers: one frozen value for each kind, learned in training, kept in files.

A column is a `pyarrow.Array` here. `learned` functions return None where a column tells rows apart in
no way that a new row could share; the reason is `features.py`'s to give.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.arrays import check_part
from ntkgp.core.storage import storable
from ntkgp.tables.arrow import pyarrow
from ntkgp.tables.values import Floats, as_moments, as_numbers, as_words, index_in

FAR = 1e4
"""A number further from the training mean, in training standard deviations, counts as if it were there."""
RARE_SHARE, RARE_ROWS = 0.01, 3
"""A level with fewer rows than this share, or number, shares a column with others of its kind."""
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")
YEAR = 365.2425
CYCLES = {"time of year": YEAR, "weekday": 7.0, "time of day": 1.0}
"""The cycles of a date, in days."""


@runtime_checkable
class Column(Protocol):
    """What a column became."""

    @property
    def name(self) -> str: ...

    @property
    def read_as(self) -> str:
        """What a file without types holds there, a key of `values.ARROW_TYPES`."""
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

    def __check_stored__(self) -> None:
        if not (self.low <= self.median <= self.high and np.isfinite(self.median)):
            raise ValueError(f"column {self.name!r} has a median of {self.median:g}.")
        if self.read_as not in ("number", "flag", "time of day"):
            raise ValueError(
                f"column {self.name!r} is read as {self.read_as!r}, which is no number."
            )

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

    def __check_stored__(self) -> None:
        if self.log_counts is not None:
            check_part("log_counts", self.log_counts, (len(self.counted),))
        elif self.counted:
            raise ValueError(f"column {self.name!r} has levels without counts.")

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
        where = index_in(words, self.levels)
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
            parts.append(common[index_in(words, self.counted)][:, None])
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

    def __check_stored__(self) -> None:
        if unknown := [cycle for cycle in self.cycles if cycle not in CYCLES]:
            raise ValueError(
                f"column {self.name!r} has a cycle that dates have not: {unknown[0]!r}."
            )

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
    cycles = [c for c in CYCLES if _varies(_angle(c, days))]
    zoned = getattr(values.type, "tz", None) is not None
    return DateColumn(name, int(known.min()), int(np.median(known)), tuple(cycles), gaps, zoned)


def _varies(angle: Floats) -> bool:
    """On the circle: the sine of two moments may be the same, and the cosine not."""
    return bool(max(np.ptp(np.sin(angle)), np.ptp(np.cos(angle))) > 1e-6)


def _angle(cycle: str, days: Floats) -> Floats:
    return 2 * np.pi * days / CYCLES[cycle]


@storable
@dataclass(frozen=True)
class DroppedColumn:
    """A column that the model does not use."""

    name: str
    why: str
