"""Rows that stay on disk: what a source of them is, and one pass over it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ntkgp.core.arrays import check_inputs
from ntkgp.core.memory import require
from ntkgp.core.progress import progress_bar
from ntkgp.core.typing import Shape

_BYTES_AS_READ = 32
"""Of a value, in a block that is read: in the file's type and in float64, standardised, with a copy."""


@runtime_checkable
class Rows(Protocol):
    """Training rows in blocks that are read one at a time, each as often as training passes over them.

    A source for Ray must be picklable without its data, as paths are.
    """

    @property
    def lengths(self) -> Sequence[int]:
        """How many rows each block has, all above 0."""

    @property
    def window_rows(self) -> int:
        """About how many rows may be in memory at once; at least one block is."""

    def read(self, block: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Inputs (rows, ...) and targets (rows, c) of a block, the same at every call."""


class Survey(NamedTuple):
    """What one pass over the rows has found."""

    n: int
    mean_square: float
    """Of the targets."""
    fingerprint: str
    """That of the same rows in memory."""
    lengths: tuple[int, ...]
    """Of the blocks."""

    def check(self, rows: Rows) -> None:
        """Refuse rows that another machine sees otherwise."""
        lengths = tuple(map(int, rows.lengths))
        if lengths != self.lengths:
            raise ValueError(
                f"where they are trained on, the rows are {sum(lengths):,} in {len(lengths):,} blocks; "
                f"where fit was called, they were {self.n:,} in {len(self.lengths):,}, of these lengths: "
                f"{self.lengths!r:.60}. All machines must see the same files, which stay as they are."
            )


class FileMark(NamedTuple):
    """A file, and what shows that it was written again."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileMark":
        found = path.stat()
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is another by now: passes over the rows would differ."""
        if FileMark.of(self.path) != self:
            raise ValueError(
                f"{self.path} has changed since it was opened first. Leave files alone while they are "
                "trained on; to train on the new one, make the source of rows anew."
            )


class Fingerprint:
    """A digest of rows that come in parts: SHA-256 of inputs, of targets, and of both with their number."""

    def __init__(self) -> None:
        self._n, self._parts = 0, (hashlib.sha256(), hashlib.sha256())

    def add(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        self._n += len(x)
        for digest, values in zip(self._parts, (x, y), strict=True):
            digest.update(np.ascontiguousarray(values).data)

    def hexdigest(self, *others: bytes) -> str:
        whole = hashlib.sha256(str(self._n).encode())
        for part in (*(digest.digest() for digest in self._parts), *others):
            whole.update(part)
        return whole.hexdigest()


def checked_lengths(rows: Rows) -> tuple[int, ...]:
    """The lengths of the blocks, or an error if a source says what cannot be."""
    lengths = tuple(map(int, rows.lengths))
    if not lengths or min(lengths) < 1:
        raise ValueError(f"rows must have blocks of at least one row; got {rows.lengths!r:.80}.")
    if not isinstance(rows.window_rows, (int, np.integer)) or rows.window_rows < 1:
        raise ValueError(f"window_rows must be a number ≥ 1; got {rows.window_rows!r}.")
    return lengths


def require_blocks(rows: Rows, values: int, window: int = 0) -> None:
    """Go on if memory can hold what reading takes, else raise.

    Args:
        rows: the source.
        values: numbers in one row.
        window: bytes that blocks take together beside the one that is being read.
    """
    longest = max(checked_lengths(rows))
    require(
        _BYTES_AS_READ * longest * values + window,
        f"blocks of up to {longest:,} rows of {values:,} numbers (window_rows={rows.window_rows:,})",
        "Take a smaller window_rows, or keep the rows in smaller blocks; of a Parquet file these are its "
        "row groups: write it again with a smaller row_group_size.",
    )


def checked_block(
    rows: Rows, block: int, input_shape: Shape, targets: int, dtype: DTypeLike = np.float32
) -> tuple[NDArray[Any], NDArray[Any]]:
    """A block as arrays that fit the network and each other, or an error that names it."""
    x, y = (np.asarray(values) for values in rows.read(block))
    length = int(rows.lengths[block])
    if len(x) != length or len(y) != length:
        raise ValueError(
            f"block {block} of the rows must have {length:,} rows, as lengths says; read gave "
            f"{len(x):,} inputs and {len(y):,} targets."
        )
    y = y[:, None] if y.ndim == 1 else y
    return (
        check_inputs(f"x in block {block}", x, input_shape, dtype),
        check_inputs(f"y in block {block}", y, (targets,), dtype),
    )


def surveyed(rows: Rows, input_shape: Shape, targets: int, progress: bool = False) -> Survey:
    """Read every row once: check it, count it, hash it."""
    lengths = checked_lengths(rows)
    digest, squares, n = Fingerprint(), 0.0, 0
    with progress_bar(len(lengths), "blocks read", progress) as bar:
        for block in range(len(lengths)):
            x, y = checked_block(rows, block, input_shape, targets)
            digest.add(x, y)
            squares += float(np.sum(np.square(y, dtype=np.float64)))
            n += len(x)
            bar.update(1)
    return Survey(n, squares / (n * targets), digest.hexdigest(), lengths)
