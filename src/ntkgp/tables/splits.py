"""Which rows are held out: at random, the last ones in time, or whole groups."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.tables.features import kind_of, require_columns
from ntkgp.tables.values import as_moments, as_numbers, as_words

MOST_HELD_OUT = 10_000
FEWEST_ROWS = 10


class Split(NamedTuple):
    """Row numbers of two parts of a table."""

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    how: str
    """In words."""


def split(
    table: Any,
    share: float = 0.2,
    seed: int = 0,
    *,
    time: str | None = None,
    group: str | None = None,
    labels: NDArray[Any] | None = None,
) -> Split:
    """A share of the rows, 10,000 at most, held out.

    Rows of one moment, or one group, stay together. Both limits hold where whole moments or groups
    fit them; else the last moment, or the smallest group, is held out. It is never more than half.

    Args:
        table: a `pyarrow.Table`.
        share: of the rows.
        seed: of the draw.
        time: a column; the latest rows are held out. An error if the last moment has more than half.
        group: a column; rows with the same value stay together.
        labels: classes, which have the same share on both sides.

    >>> from ntkgp.tables.arrow import as_table
    >>> table = as_table({"year": list(range(1990, 2000))})
    >>> split(table, time="year").held_out.tolist()
    [8, 9]
    """
    n = len(table)
    if n < FEWEST_ROWS:
        raise ValueError(
            f"the table has {n} rows with a target; at least {FEWEST_ROWS} are needed."
        )
    if not 0 < share <= 0.5:
        raise ValueError(
            f"the share of rows held out must lie above 0 and up to 0.5; got {share:g}."
        )
    wanted = min(max(round(share * n), 1), n // 2, MOST_HELD_OUT)
    if time is not None:
        return _latest(table, time, wanted)
    if group is not None:
        return _whole_groups(table, group, wanted, seed)
    order = np.random.default_rng(seed).permutation(n)
    if labels is not None:
        order = _alternating(order, labels)
    return Split(np.sort(order[wanted:]), np.sort(order[:wanted]), "drawn at random")


def _latest(table: Any, name: str, wanted: int) -> Split:
    """From the first moment on that leaves at most so many; the last moment, if it alone has more."""
    require_columns(table.column_names, [name], "--time needs")
    values = table.column(name).combine_chunks()
    if (kind := kind_of(values.type)) not in ("number", "date"):
        raise ValueError(
            f"--time {name}: values of type {values.type} are neither dates nor numbers. Write dates as "
            "2008-12-31 or 2008-12-31 23:59:00."
        )
    if kind == "number":
        moments = as_numbers(name, values)
    else:
        whole, missing = as_moments(name, values)
        moments = np.where(missing, np.nan, whole)
    if np.isnan(moments).any():
        raise ValueError(
            f"--time {name}: {int(np.isnan(moments).sum()):,} rows have no time there. Leave them out."
        )
    start = np.sort(moments)[-wanted]
    later = moments >= start
    if later.sum() > wanted and (moments > start).any():
        later = moments > start
    if later.all():
        raise ValueError(f"--time {name}: all rows have the same time.")
    if later.mean() > 0.5:
        raise ValueError(
            f"--time {name}: {int(later.sum()):,} of {len(later):,} rows have the last time, and more "
            "than half cannot be held out. Take a column with finer times."
        )
    return Split(np.flatnonzero(~later), np.flatnonzero(later), f"the latest by {name}")


def _whole_groups(table: Any, name: str, wanted: int, seed: int) -> Split:
    """Groups at random, those left out that have more rows than are still wanted; or the smallest."""
    require_columns(table.column_names, [name], "--group needs")
    words = np.array(as_words(table.column(name).combine_chunks()).fill_null("").to_pylist(), str)
    groups, which, rows = np.unique(words, return_inverse=True, return_counts=True)
    if len(groups) < 2:
        raise ValueError(f"--group {name}: all rows have the same group.")
    chosen: list[int] = []
    for index in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if rows[index] <= wanted:
            chosen.append(index)
            wanted -= rows[index]
    chosen = chosen or [int(np.argmin(rows))]
    inside = np.isin(which, chosen)
    how = f"{len(chosen):,} of {len(groups):,} groups by {name}"
    return Split(np.flatnonzero(~inside), np.flatnonzero(inside), how)


def _alternating(order: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Rows reordered, so that any first part has about the same share of each class."""
    rank = np.empty(len(order))
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        rank[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return np.asarray(order[np.argsort(rank[order], kind="stable")])
