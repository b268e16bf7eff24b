"""`ntkgp predict`: what a model says about each row of a file, which may be larger than memory."""

import argparse
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from ntkgp.core.progress import progress_bar
from ntkgp.core.talk import Talk
from ntkgp.tables.arrow import pyarrow
from ntkgp.tables.commands import options
from ntkgp.tables.features import require_columns
from ntkgp.tables.files import is_same_file
from ntkgp.tables.output import check_output, table_writer


def run(arguments: argparse.Namespace) -> int:
    talk = Talk("predict", arguments.json)
    if not 0 < arguments.interval < 1:
        raise ValueError(f"--interval must lie between 0 and 1; got {arguments.interval:g}.")
    check_output(arguments.out)
    if is_same_file(arguments.data, arguments.out):
        raise ValueError(f"-o {arguments.out} is the file to read: name another.")
    model = options.load_model(arguments.model)
    started = perf_counter()
    rows = novel = 0
    with (
        table_writer(arguments.out) as write,
        progress_bar(0, "rows", not arguments.quiet) as bar,
    ):
        for predicted in _predicted(model, arguments):
            write(predicted)
            rows += len(predicted)
            novel += int(np.sum(predicted.column("novelty").to_numpy() > 1))
            bar.update(len(predicted))
    seconds = perf_counter() - started
    talk.record(
        out=str(arguments.out),
        rows=rows,
        seconds=round(seconds, 3),
        rows_per_second=round(rows / seconds),
        novel_rows=novel,
    )
    talk.say(
        f"{rows:,} rows in {seconds:.1f} s, {rows / seconds:,.0f} a second. {100 * novel / rows:.1f} % "
        "have a novelty above 1; of rows like those of training about 5 % would."
    )
    talk.say(f"predictions: {arguments.out}")
    talk.finish()
    return 0


def _predicted(model: Any, arguments: argparse.Namespace) -> Iterator[Any]:
    """Tables of predictions, one for each batch of rows."""
    pa = pyarrow()
    file = options.file_for(model, arguments, arguments.keep)
    needed, there = model.features_.needed, file.column_names()
    require_columns(there, needed, f"{file.path}: the model needs")
    require_columns(there, arguments.keep, f"{file.path}: --keep needs")
    first = 0
    for batch in file.batches(list(dict.fromkeys([*needed, *arguments.keep]))):
        try:
            columns = model.predict_table(batch, interval=arguments.interval)
        except ValueError as error:
            last = first + len(batch)
            raise ValueError(f"{file.path}, rows {first + 1:,} to {last:,}: {error}") from None
        kept = {name: batch.column(name) for name in arguments.keep}
        if both := sorted(kept.keys() & columns.keys()):
            raise ValueError(f"--keep {both[0]}: predictions have a column of that name.")
        yield pa.table(kept | columns)
        first += len(batch)
