"""A table as a matrix: which columns are used, as what, and which are left out, in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from ntkgp.core.storage import storable
from ntkgp.tables.arrow import pyarrow
from ntkgp.tables.columns import (
    Column,
    DroppedColumn,
    learned_category,
    learned_date,
    learned_number,
)
from ntkgp.tables.values import Floats, as_numbers, as_words, is_number

FEWEST_FOR_ID = 20
"""In shorter tables a column that differs in every row may be a measurement all the same."""

AS_ASKED = "as asked"
"""Why a column is left out that one names."""


@storable
@dataclass(frozen=True)
class TableFeatures:
    """What training learned about columns.

    >>> from ntkgp.tables.arrow import as_table
    >>> table = as_table({"age": [31, None, 45, 28], "town": ["Oslo", "Rome", "Oslo", "Oslo"]})
    >>> features = TableFeatures.learned(table)
    >>> features.names
    ('age', 'age is missing', 'town = Oslo', 'town = another')
    >>> features.encode(as_table({"town": ["Bonn"], "age": [40]}))
    array([[40.,  0.,  0.,  1.]])
    """

    columns: tuple[Any, ...]
    """`Column`s in the order of the table."""
    dropped: tuple[DroppedColumn, ...] = ()

    def __check_stored__(self) -> None:
        if not self.columns or not all(isinstance(column, Column) for column in self.columns):
            raise ValueError("it has no columns of a table.")

    @classmethod
    def learned(
        cls,
        table: Any,
        categorical: Sequence[str] = (),
        drop: Sequence[str] | Mapping[str, str] = (),
        max_levels: int = 30,
    ) -> "TableFeatures":
        """The columns of a training table; an error if none of them can be used.

        Where drop is a mapping it says why.
        """
        require_columns(table.column_names, [*categorical, *drop])
        used: list[Column] = []
        dropped: list[DroppedColumn] = []
        for name in table.column_names:
            values = table.column(name).combine_chunks()
            found = _learned(name, values, name in categorical, max_levels)
            if name in drop:
                why = drop[name] if isinstance(drop, Mapping) else AS_ASKED
                dropped.append(DroppedColumn(name, why))
            elif isinstance(found, str):
                dropped.append(DroppedColumn(name, found))
            else:
                used.append(found)
        if not used:
            reasons = "; ".join(f"{column.name}: {column.why}" for column in dropped)
            raise ValueError(
                f"no column can be used to predict from. {reasons or 'There is none'}."
            )
        return cls(tuple(used), tuple(dropped))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the matrix's columns."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def needed(self) -> list[str]:
        """The table's columns that are used."""
        return [column.name for column in self.columns]

    def encode(self, table: Any) -> Floats:
        """(n, len(names)); other columns and their order do not matter."""
        require_columns(table.column_names, self.needed, "the model needs")
        parts = [
            column.encode(table.column(column.name).combine_chunks()) for column in self.columns
        ]
        return np.concatenate(parts, axis=1)

    def by_column(self, of_names: Floats) -> dict[str, float]:
        """One number for each table column from one for each of the matrix's: their root sum of squares."""
        ends = np.cumsum([len(column.names) for column in self.columns])[:-1]
        parts = np.split(np.asarray(of_names), ends)
        return {
            column.name: float(np.linalg.norm(part))
            for column, part in zip(self.columns, parts, strict=True)
        }


def require_columns(there: Sequence[str], names: Sequence[str], who: str = "there must be") -> None:
    """An error that names the columns that a table lacks."""
    missing = [name for name in names if name not in there]
    if missing:
        have = ", ".join(map(repr, there[:20]))
        more = ", …" if len(there) > 20 else ""
        by_small_letters = {name.lower(): name for name in there if name not in names}
        near = get_close_matches(missing[0].lower(), by_small_letters, n=1)
        meant = f" Did you mean {by_small_letters[near[0]]!r}?" if near else ""
        raise ValueError(
            f"{who} column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}, and the "
            f"table has {have}{more}.{meant}"
        )


def kind_of(type_: Any) -> str:
    """number, category, date, empty or other: what an Arrow type holds."""
    types = pyarrow().types
    if types.is_null(type_):
        return "empty"
    if types.is_dictionary(type_) or types.is_string(type_) or types.is_large_string(type_):
        return "category"
    if types.is_string_view(type_):
        return "category"
    if types.is_date(type_) or types.is_timestamp(type_):
        return "date"
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    spans = (types.is_duration, types.is_time)
    return "number" if any(of(type_) for of in (*numbers, *spans)) else "other"


def _learned(name: str, values: Any, categorical: bool, max_levels: int) -> Column | str:
    """The column, or why it is left out."""
    kind = kind_of(values.type)
    if kind == "other":
        return f"values of type {values.type} are neither numbers, words nor dates"
    if values.null_count == len(values):
        return "it is empty"
    if categorical:
        return learned_category(name, values, max_levels) or "every row has the same"
    makers: dict[str, Callable[[], Column | str | None]] = {
        "number": lambda: _id_of_numbers(name, values) or learned_number(name, values),
        "category": lambda: _id_of_words(values) or learned_category(name, values, max_levels),
        "date": lambda: learned_date(name, values),
    }
    return makers[kind]() or "every row has the same"


def row_numbers(table: Any, categorical: Sequence[str] = ()) -> dict[str, str]:
    """Columns that number the rows, and why they are left out: of a whole table, since a part has gaps.

    >>> from ntkgp.tables.arrow import as_table
    >>> row_numbers(as_table({"line": list(range(30)), "size": [40, 50, 60] * 10}))
    {'line': 'it numbers the rows'}
    """
    found = {
        name: _id_of_numbers(name, table.column(name).combine_chunks())
        for name in table.column_names
        if name not in categorical
    }
    return {name: why for name, why in found.items() if why}


def _id_of_numbers(name: str, values: Any) -> str | None:
    """Whole numbers, each once, that count rows from 0 or 1, or whose name says so."""
    if len(values) < FEWEST_FOR_ID or not pyarrow().types.is_integer(values.type):
        return None
    numbers = as_numbers(name, values)
    if np.isnan(numbers).any() or len(np.unique(numbers)) < len(numbers):
        return None
    counts = numbers.min() in (0, 1) and np.ptp(numbers) == len(numbers) - 1
    named = name.lower() in ("id", "index", "key") or name.lower().endswith(("_id", " id"))
    named = named or name.endswith(("Id", "ID"))
    return "it numbers the rows" if counts or named else None


def _id_of_words(values: Any) -> str | None:
    words = as_words(values).drop_null()
    levels = words.unique()
    if len(words) >= FEWEST_FOR_ID and 2 * len(levels) > len(words):
        some = [str(level) for level in levels[:3].to_pylist()]
        return f"{len(levels):,} different words in {len(words):,} rows, such as {some[0][:30]!r}"
    return None


def first_word_among_numbers(values: Any, max_levels: int) -> tuple[int, str] | None:
    """The row and the word where a column of numbers stops being one; None if it is none.

    Few different values are levels, whatever they look like; so are words that mix with numbers from
    the beginning, unless they are hardly any.
    """
    words = as_words(values)
    levels = words.drop_null().unique().to_pylist()
    numeric = {level for level in levels if is_number(level)}
    if len(numeric) <= max_levels or len(numeric) == len(levels):
        return None
    row, word = next(
        (row, word)
        for row, word in enumerate(words.to_pylist())
        if word is not None and word not in numeric
    )
    share = sum(word in numeric for word in words.to_pylist()) / (len(words) - words.null_count)
    late = row >= max(FEWEST_FOR_ID, 0.1 * len(words))
    return (row, word) if late or share > 0.95 else None
