"""Predictions as a file, CSV or Parquet by its name, which appears when it is whole."""

import gzip
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ntkgp.core.files import replacing
from ntkgp.tables.arrow import pyarrow

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


def check_output(path: Path) -> None:
    """An error if a file of this name cannot be written, before any work is done."""
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"-o {path}: the name must end in one of {', '.join(SUFFIXES)}.")
    if path.is_dir():
        raise ValueError(f"-o {path} is a directory: name a file.")
    if not path.parent.is_dir():
        raise ValueError(f"-o {path}: there is no directory {path.parent}.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of a disk, such as a full one, in words that name the file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # of another file, in words
            raise
        raise OSError(f"{path} cannot be written: {error.strerror}. Choose another -o.") from None


@contextmanager
def table_writer(path: Path) -> Iterator[Any]:
    """A function that writes tables of one schema, one after the other; nothing stays after an error."""
    pa = pyarrow()
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    with writing(path), replacing(path) as file, ExitStack() as open_:
        packed = path.name.endswith(".gz")
        packer = open_.enter_context(gzip.GzipFile(fileobj=file, mode="wb")) if packed else None
        sink = pa.PythonFile(packer or file, mode="w")
        writer: Any = None

        def write(table: Any) -> None:
            nonlocal writer
            if writer is None and path.name.endswith(".parquet"):
                writer = open_.enter_context(pq.ParquetWriter(sink, table.schema))
            elif writer is None:
                delimiter = "\t" if ".tsv" in path.suffixes else ","
                options = arrow_csv.WriteOptions(delimiter=delimiter)
                writer = arrow_csv.CSVWriter(sink, table.schema, write_options=options)
                open_.enter_context(writer)
            writer.write_table(table)

        yield write
