"""Training rows in Parquet files, read one row group at a time."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.rows import FileMark

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_REMEDY = "Impute or drop such rows before training."


@dataclass(frozen=True, eq=False)
class ParquetRows:
    """Rows of Parquet files, for `fit` to read one row group at a time.

    It needs `pip install 'ntkgp[table]'`.

    Args:
        path: of a file, of a directory whose *.parquet files are taken in the order of their names, or
            several paths. Files must stay as they are while they are trained on.
        inputs: names of the columns of inputs, numbers without gaps.
        target: the name of the target's column, or names of several.
        window_rows: about how many rows may be in memory at once; at least one row group is. Rows are
            shuffled within a window, so several row groups should fit into one.

    >>> import tempfile, pyarrow, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pyarrow.table({"size": [40, 55, 70], "rent": [900.0, 1100.0, 1500.0]})
    ...     pyarrow.parquet.write_table(table, folder + "/rents.parquet", row_group_size=2)
    ...     rows = ParquetRows(folder, inputs=["size"], target="rent")
    ...     rows.lengths, rows.read(0)[0]
    ((2, 1), array([[40.],
           [55.]]))
    """

    path: Paths
    inputs: Sequence[str]
    target: str | Sequence[str]
    window_rows: int = 2**16

    def __post_init__(self) -> None:
        if isinstance(self.inputs, str) or not len(self.inputs):
            raise TypeError(f"inputs must be a list of names of columns; got {self.inputs!r}.")
        twice = {name for name in self._columns if self._columns.count(name) > 1}
        if twice:
            raise ValueError(f"a column is named twice in inputs and target: {sorted(twice)}.")
        object.__setattr__(self, "path", _absolute(self.path))

    def __getstate__(self) -> dict[str, Any]:
        """Without what was opened, for another process."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def lengths(self) -> tuple[int, ...]:
        return self._groups[1]

    def read(self, block: int) -> tuple[NDArray[Any], NDArray[Any]]:
        mark, group = self._groups[0][block]
        mark.check()
        where = f"row group {group} of {mark.path}"
        try:
            file = self._opened(mark.path)
            table = file.read_row_group(group, columns=self._columns, use_threads=False)
        except MemoryError:  # Arrow's own is an ArrowException too
            raise
        except (OSError, _arrow().ArrowException) as error:
            raise ValueError(_unreadable(where, error)) from None
        n_inputs = len(self.inputs)
        x = _values(table, self._columns[:n_inputs], where)
        return x, _values(table, self._columns[n_inputs:], where)

    def _opened(self, path: Path) -> Any:
        """The file; the last one stays open, because its footer describes every row group."""
        if self._last.get("path") != path:
            self._last.update(path=path, file=_parquet(path))
        return self._last["file"]

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    @property
    def _columns(self) -> list[str]:
        targets = [self.target] if isinstance(self.target, str) else list(self.target)
        return [*self.inputs, *targets]

    @cached_property
    def _groups(self) -> tuple[list[tuple[FileMark, int]], tuple[int, ...]]:
        """File and number of each row group that has rows, and their lengths."""
        groups, lengths = [], []
        for path in _files(self.path):
            mark = FileMark.of(path)
            try:
                with _parquet(path) as file:
                    self._check_schema(path, file.schema_arrow)
                    counts = [
                        file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)
                    ]
            except (OSError, _arrow().ArrowException) as error:
                raise ValueError(_unreadable(str(path), error)) from None
            groups += [(mark, i) for i, n in enumerate(counts) if n]
            lengths += [n for n in counts if n]
        if not groups:
            raise ValueError(f"{self.path} has no rows.")
        return groups, tuple(lengths)

    def _check_schema(self, path: Path, schema: Any) -> None:
        """Refuse a file that lacks a column, or has one that is no number."""
        types = _arrow().types
        for name in self._columns:
            found = schema.names.count(name)
            if found != 1:
                there = ", ".join(map(repr, schema.names[:10])) + ", ..." * (len(schema.names) > 10)
                number = "no column" if not found else f"{found} columns"
                raise ValueError(f"{path} has {number} {name!r}; it has {there}.")
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise ValueError(
                    f"column {name!r} of {path} must hold numbers; it holds {kind}. Turn it into "
                    "numbers, or leave it out."
                )


def _absolute(given: Paths) -> Path | tuple[Path, ...]:
    """Paths from here: workers of a cluster run elsewhere."""
    if isinstance(given, (str, os.PathLike)):
        return Path(given).absolute()
    return tuple(Path(path).absolute() for path in given)


def _files(given: Paths) -> list[Path]:
    paths = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(path.glob("*.parquet"))
            if not inside:
                raise FileNotFoundError(f"there is no *.parquet file in the directory {path}.")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise FileNotFoundError(f"there is no file {path}.")
    return files


def _parquet(path: Path) -> Any:
    _arrow()
    import pyarrow.parquet as pq

    return pq.ParquetFile(path)


def _arrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Parquet files need pyarrow: pip install 'ntkgp[table]'."
        ) from None
    return pyarrow


def _values(table: Any, names: Sequence[str], where: str) -> NDArray[Any]:
    """Columns beside each other, in float32 if that holds every number of their types, else in float64."""
    columns = [table.column(name) for name in names]
    types = [column.type.to_pandas_dtype() for column in columns]
    values = np.empty((len(table), len(names)), np.result_type(np.float32, *types))
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        values[:, i] = _numbers(column, f"column {name!r} in {where}")
    return values


def _numbers(column: Any, what: str) -> NDArray[Any]:
    """A column of finite numbers without gaps."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(f"{what} has a missing value, first in its row {row}. {_REMEDY}")
    values = column.to_numpy()
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} has {values[row]!s}, first in its row {row}. {_REMEDY}")
    return values


def _unreadable(what: str, error: Exception) -> str:
    first = str(error).partition("\n")[0].rstrip(".")
    return f"{what} cannot be read: {first}. The file may be cut short or damaged."
