"""Any data frame as an Arrow table, the one form that this folder works with."""

from collections.abc import Mapping
from typing import Any

NEEDED = "tables need pyarrow: pip install 'ntkgp[table]'."


def pyarrow() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ModuleNotFoundError(NEEDED) from None
    return pyarrow


def as_table(X: Any) -> Any:
    """A `pyarrow.Table` from a frame of pandas or polars, an Arrow table, or a dictionary of columns.

    >>> as_table({"age": [31, 45], "town": ["Oslo", None]}).column_names
    ['age', 'town']
    """
    pa = pyarrow()
    try:
        table = _converted(pa, X)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise ValueError(
            f"the table cannot be read: {' '.join(map(str, error.args))}. Each column must have values "
            "of one type."
        ) from None
    refuse_same_names(table.column_names)
    return table


def _converted(pa: Any, X: Any) -> Any:
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns"):
        return pa.Table.from_pandas(X, preserve_index=False)  # an index of rows is no column
    if hasattr(X, "__arrow_c_stream__") or isinstance(X, Mapping):
        return pa.table(X)
    raise TypeError(
        "X must be a frame of pandas or polars, an Arrow table or a dictionary of columns; got "
        f"{type(X).__name__}. For an array of numbers take EnsembleRegressor or EnsembleClassifier"
    )


def refuse_same_names(names: list[str], where: str = "the table") -> None:
    """An error if two columns have one name."""
    twice = sorted({repr(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{where} has columns of the same name: {', '.join(twice)}. Rename all but one of each."
        )
