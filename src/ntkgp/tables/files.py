"""Tables in files: which format a file has, and its rows, at once or in batches.

What a file is follows from its first bytes; only CSV and the like are told apart by their header.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ntkgp.tables.arrow import pyarrow, refuse_same_names
from ntkgp.tables.delimited import Delimited

COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
OTHERS = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\xfd7zXZ": "compressed by xz",
    b"\x89HDF": "an HDF5 file",
    b"SQLite": "a database of SQLite",
    b"%PDF": "a PDF",
}
"""What people give by mistake."""
BATCH_ROWS = 16_384


@dataclass(frozen=True)
class TableFile:
    """A table on disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rents.csv"
    ...     _ = path.write_text("size,town\\n40,Oslo\\n55,Rome\\n")
    ...     TableFile(path).read().to_pydict()
    {'size': [40, 55], 'town': ['Oslo', 'Rome']}
    """

    path: Path
    encoding: str = "utf8"
    missing: tuple[str, ...] = ()
    """Words that stand for a missing value in CSV, besides the usual ones."""
    types: Mapping[str, Any] = field(default_factory=dict)
    """Arrow types of columns, where CSV is not left to guess."""

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """The whole table, or some of its columns, as a `pyarrow.Table`."""
        pa = pyarrow()
        kind = self._kind()
        with self._in_words(pa):
            if kind == "csv":
                table = self._delimited().read(columns)
            elif kind == "parquet":
                import pyarrow.parquet as pq

                table = pq.read_table(self.path, columns=columns)
            else:
                table = self._arrow_reader(pa).read_all()
                table = table if columns is None else table.select(list(columns))
        refuse_same_names(table.column_names, str(self.path))
        if not len(table):
            raise ValueError(f"{self.path} has a header and no rows.")
        return table

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Tables of `BATCH_ROWS` rows, the last of fewer, in the order of the file, read when asked for."""
        pa = pyarrow()
        kind = self._kind()
        empty, rest = True, None
        with self._in_words(pa):
            for batch in self._raw_batches(pa, kind, columns):
                table = pa.Table.from_batches([batch])
                rest = table if rest is None else pa.concat_tables([rest, table])
                while len(rest) >= BATCH_ROWS:
                    yield rest.slice(0, BATCH_ROWS)
                    empty, rest = False, rest.slice(BATCH_ROWS)
            if rest is not None and len(rest):
                yield rest
                empty = False
        if empty:
            raise ValueError(f"{self.path} has a header and no rows.")

    def _raw_batches(self, pa: Any, kind: str, columns: Sequence[str] | None) -> Iterator[Any]:
        if kind == "csv":
            return self._delimited().batches(columns)
        if kind == "parquet":
            import pyarrow.parquet as pq

            file = pq.ParquetFile(self.path)
            refuse_same_names(file.schema_arrow.names, str(self.path))
            return file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
        reader = self._arrow_reader(pa)
        refuse_same_names(reader.schema.names, str(self.path))
        batches = (
            iter(reader)
            if isinstance(reader, pa.RecordBatchReader)
            else (reader.get_batch(i) for i in range(reader.num_record_batches))
        )
        return batches if columns is None else (batch.select(list(columns)) for batch in batches)

    def column_names(self) -> list[str]:
        """Without reading the rows."""
        pa = pyarrow()
        kind = self._kind()
        with self._in_words(pa):
            if kind == "csv":
                return self._delimited().header
            if kind == "parquet":
                import pyarrow.parquet as pq

                return list(pq.read_schema(self.path).names)
            return list(self._arrow_reader(pa).schema.names)

    def _delimited(self) -> Delimited:
        return Delimited(self.path, self._compression(), self.encoding, self.missing, self.types)

    def _arrow_reader(self, pa: Any) -> Any:
        """Of a file or a stream of Arrow's, Feather among them."""
        source = pa.memory_map(str(self.path))
        if _head(self.path).startswith(b"ARROW1"):
            return pa.ipc.open_file(source)
        return pa.ipc.open_stream(source)

    def _compression(self) -> str | None:
        head = _head(self.path)
        return next((name for magic, name in COMPRESSED.items() if head.startswith(magic)), None)

    def _kind(self) -> str:
        """csv, parquet or arrow; an error in words if the file is none of them."""
        path = self.path
        if path.is_dir():
            raise ValueError(f"{path} is a directory: name one file in it.")
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}.")
        head = _head(path)
        if not head:
            raise ValueError(f"{path} is empty.")
        if head.startswith(b"PAR1"):
            return "parquet"
        if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            return "arrow"
        for magic, what in OTHERS.items():
            if head.startswith(magic):
                raise ValueError(f"{path} is {what}: save it as CSV or Parquet.")
        wide = self.encoding.lower().replace("-", "").startswith(("utf16", "utf32"))
        if self._compression() is None and b"\0" in head and not wide:
            utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
            hint = "give --encoding utf-16" if utf16 else "give CSV, Parquet or Arrow"
            raise ValueError(f"{path} is {'text in UTF-16' if utf16 else 'binary'}: {hint}.")
        return "csv"

    def _in_words(self, pa: Any) -> Any:
        return _Worded(pa, self.path)


class _Worded:
    """Errors of Arrow about a file, in one line that names it."""

    def __init__(self, pa: Any, path: Path) -> None:
        self.pa, self.path = pa, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, PermissionError):
            raise PermissionError(f"{self.path} may not be read: permission denied.") from None
        known = isinstance(error, OSError) and str(self.path) in str(error)
        if isinstance(error, self.pa.ArrowException | OSError) and not known:
            first = str(error).partition("\n")[0].rstrip(".")
            raise ValueError(
                f"{self.path} cannot be read: {first}. It may be cut short or damaged."
            ) from None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except PermissionError:
        raise PermissionError(f"{path} may not be read: permission denied.") from None


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file that exists."""
    return one.exists() and other.exists() and os.path.samefile(one, other)
