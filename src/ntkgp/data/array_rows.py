"""Training rows in arrays, in memory or memory-mapped, and rows that are standardised as they are read."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.rows import FileMark, Rows, checked_block, require_blocks

Given = str | os.PathLike[str] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Rows of two arrays, for `fit` to read block by block.

    Args:
        x: inputs (n, ...): an array, a `numpy.memmap`, or the path of an .npy file, which is then
            mapped into memory and read where it is needed; it must stay as it is meanwhile. Workers of a
            cluster need paths.
        y: targets (n, c), or (n,) for one, likewise.
        blocks: rows in a block, or the length of each block. `blocks=other.lengths` trains in the order of
            another source, and so to the same bits.
        window_rows: about how many rows may be in memory at once.

    >>> rows = ArrayRows(np.zeros((10, 2)), np.zeros(10), blocks=4)
    >>> rows.lengths, rows.read(2)[0].shape
    ((4, 4, 2), (2, 2))
    """

    x: Given
    y: Given
    blocks: int | Sequence[int] = 4096
    window_rows: int = 2**16

    def __post_init__(self) -> None:
        for name in ("x", "y"):  # workers of a cluster run elsewhere
            given = getattr(self, name)
            if isinstance(given, (str, os.PathLike)):
                object.__setattr__(self, name, Path(given).absolute())

    def __getstate__(self) -> dict[str, Any]:
        """Without what was opened, for another process."""
        if any(isinstance(given, np.memmap) for given in (self.x, self.y)):
            raise TypeError(
                "a numpy.memmap would be sent to another process whole: give ArrayRows the paths of "
                ".npy files."
            )
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def _marks(self) -> tuple[FileMark, ...]:
        return tuple(FileMark.of(given) for given in (self.x, self.y) if isinstance(given, Path))

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        _ = self._marks  # before files are opened
        x, y = _opened("x", self.x), _opened("y", self.y)
        if x.ndim < 2 or y.ndim not in (1, 2) or len(x) != len(y) or not len(x):
            raise ValueError(
                "x must have shape (n, ...) and y (n, c) or (n,), with one row for each example; got "
                f"{x.shape} and {y.shape}."
            )
        return x, y

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        n = len(self._arrays[0])
        if isinstance(self.blocks, (int, np.integer)):
            if self.blocks < 1:
                raise ValueError(f"blocks must be a number ≥ 1, or lengths; got {self.blocks!r}.")
            step = int(self.blocks)
            return tuple(min(step, n - start) for start in range(0, n, step))
        lengths = tuple(map(int, self.blocks))
        if sum(lengths) != n or min(lengths) < 1:
            raise ValueError(
                f"blocks must be lengths of at least 1 that add up to the {n:,} rows; they add up to "
                f"{sum(lengths):,}."
            )
        return lengths

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def read(self, block: int) -> tuple[NDArray[Any], NDArray[Any]]:
        rows = slice(*self._starts[block : block + 2])
        for mark in self._marks:
            mark.check()
        x, y = (np.array(array[rows]) for array in self._arrays)  # copies: let go of the file
        return x, y if y.ndim == 2 else y[:, None]


def _opened(name: str, given: Given) -> NDArray[Any]:
    if not isinstance(given, (str, os.PathLike)):
        return np.asanyarray(given)
    try:
        return np.lib.format.open_memmap(given, mode="r")  # of one array; never unpickles
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError) as error:
        raise ValueError(
            f"{name} cannot be mapped from {given}: {error}. Give an .npy file of numbers, as "
            "numpy.save writes it."
        ) from None


@dataclass(frozen=True, eq=False)
class StandardisedRows:
    """Rows with inputs and targets of mean 0 and standard deviation 1 in each column; `of` makes them.

    >>> x = np.arange(20.0).reshape(10, 2)
    >>> rows = StandardisedRows.of(ArrayRows(x, x[:, 0]))
    >>> rows.read(0)[0].std(axis=0)
    array([1., 1.])
    >>> rows.inputs(x[:1])  # new inputs, as the network knows them
    array([[-1.5666989, -1.5666989]])
    """

    rows: Rows
    x_mean: NDArray[np.float64]
    x_std: NDArray[np.float64]
    y_mean: NDArray[np.float64]
    y_std: NDArray[np.float64]
    """Predictions in the units of the targets are `ensemble.predict(...).rescaled(y_std, y_mean)`."""

    @classmethod
    def of(cls, rows: Rows) -> "StandardisedRows":
        """By one pass over the rows, in float64. A constant column is left at 0."""
        shape, targets = _row_shapes(rows)
        require_blocks(rows, int(np.prod(shape)) + targets)
        n, zero = 0, np.zeros(())
        x_mean = x_squares = y_mean = y_squares = zero
        for block in range(len(rows.lengths)):
            x, y = checked_block(rows, block, shape, targets, np.float64)
            with np.errstate(over="ignore", invalid="ignore"):  # said below
                x_mean, x_squares = _merged(n, x_mean, x_squares, x)
                y_mean, y_squares = _merged(n, y_mean, y_squares, y)
            n += len(x)
        return cls(rows, x_mean, _std(x_mean, x_squares, n), y_mean, _std(y_mean, y_squares, n))

    @property
    def lengths(self) -> Sequence[int]:
        return self.rows.lengths

    @property
    def window_rows(self) -> int:
        return self.rows.window_rows

    def read(self, block: int) -> tuple[NDArray[Any], NDArray[Any]]:
        x, y = self.rows.read(block)
        return self.inputs(x), (y - self.y_mean) / self.y_std

    def inputs(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """New inputs in the network's units."""
        return (np.asarray(x) - self.x_mean) / self.x_std


def _row_shapes(rows: Rows) -> tuple[tuple[int, ...], int]:
    """The shape of one input, and the number of targets, as the first block has them."""
    x, y = rows.read(0)
    return x.shape[1:], 1 if y.ndim == 1 else y.shape[1]


def _merged(
    n: int, mean: Any, squares: Any, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and sum of squared deviations of n rows and these together."""
    own = values.mean(axis=0)
    apart, share = own - mean, len(values) / (n + len(values))
    own_squares = np.sum((values - own) ** 2, axis=0)
    return mean + share * apart, squares + own_squares + n * share * apart**2


def _std(mean: Any, squares: Any, n: int) -> NDArray[np.float64]:
    std = np.sqrt(squares / n)
    if not np.isfinite(std).all():
        raise ValueError(
            "the rows have numbers whose squares are beyond float64: give other units."
        )
    return np.where(std > 1e-12 * np.maximum(np.abs(mean), 1e-100), std, 1.0)
