"""CSV, TSV and the like, with errors that name line and column."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ntkgp.tables.arrow import pyarrow, refuse_same_names

DELIMITERS = ",;\t|"
DATES = ("%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S", "%d %b %Y", "%b %d %Y", "%d.%m.%Y")
"""Besides ISO 8601; forms that only one reading fits."""
BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class Delimited:
    """A file of lines, one a row, the first of them the header."""

    path: Path
    compression: str | None
    encoding: str
    missing: tuple[str, ...]
    types: Mapping[str, Any]

    @cached_property
    def _first_line(self) -> str:
        try:
            with self._stream() as stream, io.TextIOWrapper(stream, self.encoding) as text:
                line = text.readline().lstrip("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError:
            raise self._wrong_encoding() from None
        except LookupError:
            raise ValueError(f"there is no encoding {self.encoding!r}.") from None
        if not line.strip():
            raise ValueError(f"{self.path} has no header: its first line is empty.")
        return line

    @cached_property
    def delimiter(self) -> str:
        """The one that the header has most of."""
        outside = re.sub(r'"[^"]*"', "", self._first_line)
        return max(DELIMITERS, key=outside.count)

    @cached_property
    def header(self) -> list[str]:
        """The columns' names; an error if two are the same."""
        names = next(csv.reader([self._first_line], delimiter=self.delimiter))
        refuse_same_names(names, str(self.path))
        return names

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """All rows; the type of a column is what all its values allow."""
        import pyarrow.csv as arrow_csv

        with self._worded():
            return self._decoded(arrow_csv.read_csv(self._stream(), *self._options(columns)))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Rows as they are read; the type of a column is given, or that of its first values."""
        import pyarrow.csv as arrow_csv

        with self._worded():
            options = self._options(columns)
            yield from map(self._decoded, arrow_csv.open_csv(self._stream(), *options))

    def _decoded(self, rows: Any) -> Any:
        """Rows as they are; Arrow takes words in another encoding for bytes."""
        if any(map(pyarrow().types.is_binary, rows.schema.types)):
            raise self._wrong_encoding()
        return rows

    def _options(self, columns: Sequence[str] | None) -> tuple[Any, Any, Any]:
        import pyarrow.csv as arrow_csv

        names = self.header
        convert = arrow_csv.ConvertOptions(
            column_types={name: kind for name, kind in self.types.items() if name in names},
            null_values=[*arrow_csv.ConvertOptions().null_values, *self.missing],
            strings_can_be_null=True,
            timestamp_parsers=[arrow_csv.ISO8601, *DATES],
            include_columns=None if columns is None else list(columns),
        )
        # One thread, so that errors know the row.
        read = arrow_csv.ReadOptions(
            use_threads=False, encoding=self.encoding, block_size=BLOCK_BYTES
        )
        newlines = any(self._has_quoted_newlines())
        parse = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=newlines)
        return read, parse, convert

    def _has_quoted_newlines(self) -> Iterator[bool]:
        """Whether one of the first lines ends inside quotes."""
        for _, line in zip(range(1000), self._lines(), strict=False):
            yield line.count(b'"') % 2 == 1

    def _stream(self) -> Any:
        return pyarrow().input_stream(str(self.path), compression=self.compression)

    def _lines(self) -> Iterator[bytes]:
        """Raw lines, without reading the whole file."""
        rest = b""
        with self._stream() as stream:
            while block := stream.read(1 << 16):
                *lines, rest = (rest + block).split(b"\n")
                yield from (line + b"\n" for line in lines)
        if rest:
            yield rest

    def _worded(self) -> "_Worded":
        return _Worded(self)

    def _wrong_encoding(self) -> ValueError:
        for number, line in enumerate(self._lines(), 1):
            try:
                codecs.decode(line, self.encoding)
            except UnicodeDecodeError as error:
                bad = line[error.start : error.start + 1].hex()
                return ValueError(
                    f"{self.path}, line {number}: byte 0x{bad} is not {self.encoding}. Give the file's "
                    "encoding, for instance --encoding latin-1."
                )
        return ValueError(f"{self.path} is not text in {self.encoding}. Give its --encoding.")


class _Worded:
    """Errors of Arrow's reader in the words of someone who looks at the file."""

    def __init__(self, file: Delimited) -> None:
        self.file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, UnicodeDecodeError):
            raise self.file._wrong_encoding() from None
        if isinstance(error, pyarrow().ArrowInvalid | UnicodeError):
            raise self._worded(str(error)) from None

    def _worded(self, message: str) -> ValueError:
        path = self.file.path
        if "UTF8" in message or "UTF-8" in message:
            return self.file._wrong_encoding()
        row = re.search(r"Row #(\d+)", message)
        line = f", line {row.group(1)}" if row else ""
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)", message):
            expected, got = map(int, ragged.groups())
            return ValueError(
                f"{path}{line}: {got} value{'s' if got != 1 else ''}, where the header has {expected}. "
                "Mend the line; a value that has the delimiter in it needs quotes."
            )
        if value := re.search(
            r"column #(\d+): .*error to ([\w\[\]]+): invalid value '(.*)'", message
        ):
            place, kind, word = value.groups()
            name = self.file.header[int(place)] if int(place) < len(self.file.header) else place
            return ValueError(
                f"{path}{line}: column {name!r} has {_kind(kind)}, and here {word[:40]!r}. Mend it; if it "
                f"stands for a missing value, give --missing {word[:40]!r}."
            )
        if "Empty CSV" in message:
            return ValueError(f"{path} is empty.")
        first = message.partition("\n")[0].rstrip(".")
        return ValueError(f"{path}{line} cannot be read: {first}.")


def _kind(arrow_type: str) -> str:
    if arrow_type.startswith(("timestamp", "date")):
        return "dates"
    return "true and false" if arrow_type == "bool" else "numbers"
