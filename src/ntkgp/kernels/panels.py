"""The lower triangle of a symmetric matrix in block columns, filled, factorised and solved in place.

A panel holds `width` columns from the diagonal down, stored row by row. All panels lie one after
another in one array of little more than n²/2 numbers, in memory or in a file. BLAS and LAPACK do
the work: they see each panel as a transposed array and copy nothing.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from ntkgp.core.arrays import check_part
from ntkgp.core.memory import gib
from ntkgp.core.progress import progress_bar
from ntkgp.core.storage import storable
from ntkgp.kernels.linalg import Matrix, NotPositiveDefinite

WIDTH = 2048


class Panel(NamedTuple):
    """Columns start to stop, from the diagonal down."""

    start: int
    stop: int
    entries: Matrix
    """(n - start, stop - start)."""

    @property
    def square(self) -> Matrix:
        """The block on the diagonal; only its lower triangle counts."""
        return self.entries[: self.stop - self.start]

    @property
    def below(self) -> Matrix:
        return self.entries[self.stop - self.start :]


@storable
@dataclass(frozen=True, eq=False)
class Panels:
    """The lower triangle of an n x n matrix, or its Cholesky factor."""

    entries: Matrix
    """All panels one after another, a vector."""
    n: int
    width: int

    @classmethod
    def empty(
        cls, n: int, dtype: DTypeLike, directory: str | os.PathLike[str] | None = None
    ) -> "Panels":
        """Room for a matrix, in memory or in a nameless file in a directory."""
        width = ceil(n / ceil(n / WIDTH))
        size = n_entries(n, width)
        if directory is None:
            return cls(np.empty(size, dtype), n, width)
        return cls(_mapped(size, np.dtype(dtype), directory), n, width)

    def __check_stored__(self) -> None:
        if not 0 < self.width <= self.n or self.n > len(self.entries):
            raise ValueError(f"a matrix of {self.n} rows has panels of width {self.width}.")
        check_part("panels", self.entries, (n_entries(self.n, self.width),))

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Panel]:
        offset = 0
        for start in range(0, self.n, self.width):
            stop = min(start + self.width, self.n)
            shape = (self.n - start, stop - start)
            size = shape[0] * shape[1]
            yield Panel(start, stop, self.entries[offset : offset + size].reshape(shape))
            offset += size

    def diagonal(self) -> Matrix:
        return np.concatenate([np.diagonal(panel.square) for panel in self])

    def times(self, right: Matrix) -> Matrix:
        """The symmetric matrix times B (n, t). A factor has no such product."""
        out = np.zeros_like(right)
        for panel in self:
            out[panel.start : panel.stop] += (
                _symmetric(panel.square) @ right[panel.start : panel.stop]
            )
            out[panel.stop :] += panel.below @ right[panel.start : panel.stop]
            out[panel.start : panel.stop] += panel.below.T @ right[panel.stop :]
        return out

    def solve_lower(self, right: Matrix) -> Matrix:
        """L⁻¹ B for a factor L. It overwrites B (n, t), which is C-ordered and of the factor's dtype."""
        trsm, gemm = get_blas_funcs(("trsm", "gemm"), (self.entries,))
        for panel in self:
            ours, later = right[panel.start : panel.stop], right[panel.stop :]
            trsm(1.0, panel.square.T, ours.T, side=1, trans_a=0, overwrite_b=1)
            if len(later):
                gemm(-1.0, ours.T, panel.below.T, 1.0, later.T, overwrite_c=1)
        return right

    def solve_upper(self, right: Matrix) -> Matrix:
        """L⁻ᵀ B for a factor L; B as in `solve_lower`."""
        trsm, gemm = get_blas_funcs(("trsm", "gemm"), (self.entries,))
        for panel in reversed(list(self)):
            ours, later = right[panel.start : panel.stop], right[panel.stop :]
            if len(later):
                gemm(-1.0, later.T, panel.below.T, 1.0, ours.T, trans_b=1, overwrite_c=1)
            trsm(1.0, panel.square.T, ours.T, side=1, trans_a=1, overwrite_b=1)
        return right


def n_entries(n: int, width: int = WIDTH) -> int:
    """How many numbers the panels of an n x n matrix hold."""
    starts = np.arange(0, n, width)
    return int(np.sum((n - starts) * np.minimum(width, n - starts)))


class Ledger:
    """Which panels of a factor are done. This one is for one process: it begins with none."""

    done = 0
    trace = 0.0
    """Of the matrix, over the panels that are done."""
    largest = 0.0
    """The largest entry on the diagonal of the matrix, over the same."""

    def add(self, panel: Panel, diagonal: Matrix) -> None:
        """Note that one more panel is done; `diagonal` is the matrix's, not the factor's."""
        self.done += 1
        self.trace += float(diagonal.sum())
        self.largest = max(self.largest, float(diagonal.max()))


def cholesky(
    panels: Panels,
    fill: Callable[[Panel], None],
    what: str,
    progress: bool = False,
    ledger: Ledger | None = None,
) -> Panels:
    """The factor L of a matrix L Lᵀ, in the matrix's own place.

    It goes panel by panel from the left. For each, `fill` writes the entries, the products of the
    earlier panels are subtracted, and the block on the diagonal is factorised. `what` names the
    matrix in the error for one that is not positive definite. Panels that the ledger has as done are
    left as they are.
    """
    ledger = Ledger() if ledger is None else ledger
    gemm, trsm = get_blas_funcs(("gemm", "trsm"), (panels.entries,))
    (potrf,) = get_lapack_funcs(("potrf",), (panels.entries,))
    eps = np.finfo(panels.entries.dtype).eps
    todo = list(panels)
    done = [todo.pop(0) for _ in range(ledger.done)]
    with progress_bar(panels.n, "Cholesky factor", progress) as bar:
        bar.update(done[-1].stop if done else 0)
        for panel in todo:
            fill(panel)
            diagonal = np.array(np.diagonal(panel.square))
            largest = max(ledger.largest, float(diagonal.max()))
            width = panel.stop - panel.start
            for earlier in done:
                below = earlier.entries[panel.start - earlier.start :]
                gemm(-1.0, below[:width].T, below.T, 1.0, panel.entries.T, trans_a=1, overwrite_c=1)
            _, info = potrf(panel.square.T, lower=0, clean=1, overwrite_a=1)
            pivots = np.diagonal(panel.square) ** 2
            if info or not np.min(pivots) > panels.n * eps * largest:  # singular, up to rounding
                mean = (ledger.trace + float(diagonal.sum())) / panel.stop
                raise NotPositiveDefinite(_diagnosis(what, panels, mean))
            if len(panel.below):
                trsm(1.0, panel.square.T, panel.below.T, trans_a=1, overwrite_b=1)
            ledger.add(panel, diagonal)
            done.append(panel)
            bar.update(width)
    return panels


def _diagnosis(what: str, panels: Panels, mean_diagonal: float) -> str:
    dtype = panels.entries.dtype
    # Rounding moves the eigenvalues by at most n · eps · trace.
    enough = max(4 * panels.n**2 * float(np.finfo(dtype).eps), 1e-10) * mean_diagonal
    return (
        f"{what} ({panels.n}x{panels.n}) is not positive definite in {dtype}; its mean diagonal is "
        f"{mean_diagonal:.2g}. Inputs that coincide or nearly so do this where there is no noise: "
        f"give a positive noise_std, remove duplicated inputs, or add jitter={enough:.1g} or more."
    )


def _symmetric(square: Matrix) -> Matrix:
    return np.tril(square) + np.tril(square, -1).T


def _mapped(size: int, dtype: np.dtype[Any], directory: str | os.PathLike[str]) -> NDArray[Any]:
    """A vector in an unnamed file, which vanishes with it. The disk space is reserved at once."""
    needed, free = size * dtype.itemsize, shutil.disk_usage(directory).free
    if needed > free:
        raise OSError(f"{directory} has {gib(free)} free, and the matrix needs {gib(needed)}.")
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, needed)
        return np.memmap(file, dtype, "w+", shape=(size,))
