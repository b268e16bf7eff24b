"""The values of Arrow's columns as NumPy's: numbers, words and moments, with their gaps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.tables.arrow import pyarrow

Floats = NDArray[np.float64]
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


def index_in(words: Any, levels: tuple[str, ...]) -> NDArray[np.int64]:
    """The place of each word among levels; len(levels) if it is none of them."""
    pa = pyarrow()
    import pyarrow.compute as pc

    where = pc.index_in(words, value_set=pa.array(levels, pa.string()), skip_nulls=True)
    return np.asarray(where.fill_null(len(levels))).astype(np.int64)
