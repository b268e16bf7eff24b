"""The matrix that a law inverts, T + shift on the training inputs, computed where it is used."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import check_part, precision
from ntkgp.core.storage import storable
from ntkgp.kernels.matrices import (
    Wanted,
    Which,
    block_side,
    blocks,
    fill_rectangle,
    kernel_matrix,
)
from ntkgp.kernels.panels import Panel
from ntkgp.networks.layered import LayeredNetwork


@storable
@dataclass(frozen=True, eq=False)
class TrainingKernel:
    """T + shift·I on the inputs x (n, *input_shape), in the dtype of x. It stores no matrix.

    With a shift for each row, (n,), it is T + diag(shift).

    >>> kernel = TrainingKernel(ntkgp.mlp(1), np.array([[0.0], [1.0]]), "ntk", shift=0.1)
    >>> np.allclose(kernel.matrix() @ np.ones((2, 1)), kernel.times(np.ones((2, 1))))
    True
    """

    net: LayeredNetwork
    x: NDArray[Any]
    which: Which
    shift: float | NDArray[Any] = 0.0

    def __len__(self) -> int:
        return len(self.x)

    def __check_stored__(self) -> None:
        check_part("training inputs", self.x, (len(self.x), *self.net.input_shape))
        check_part("shifts", self._shifts() + 0.0, (len(self.x),))

    def _shifts(self) -> NDArray[Any]:
        return np.broadcast_to(self.shift, len(self))

    def diagonal(self) -> NDArray[Any]:
        return kernel_matrix(self.net, self.which, self.x, diagonal=True) + self.shift

    def matrix(self) -> NDArray[Any]:
        """All of T + shift·I, (n, n), for solvers that need it whole."""
        whole = kernel_matrix(self.net, self.which, self.x)
        np.fill_diagonal(whole, self.diagonal())
        return whole

    def columns(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """T[:, rows], without the shift: (n, len(rows))."""
        return kernel_matrix(self.net, self.which, self.x, self.x[rows])

    def fill(self, panel: Panel) -> None:
        """Write the entries of one panel in place, the diagonal free of rounding."""
        below, right = self.x[panel.start :], self.x[panel.start : panel.stop]
        side1, side2 = (block_side(self.net, self.x.dtype, n) for n in (len(self), len(right)))
        with precision(self.x.dtype):
            wanted = Wanted(self.net, (self.which,))
            fill_rectangle([panel.entries], wanted, below, right, (side1, side2))
        diagonal = kernel_matrix(self.net, self.which, right, diagonal=True)
        diagonal = diagonal + self._shifts()[panel.start : panel.stop]
        np.fill_diagonal(panel.square, diagonal)

    def times(self, right: NDArray[Any]) -> NDArray[Any]:
        """(T + shift·I) B for B (n, t). It computes each pair of blocks once and uses it twice."""
        return self.part_of_times(right, self.pairs())

    def pairs(self) -> list[tuple[int, int]]:
        """Where the rows and the columns start of each block on or above the diagonal."""
        starts = range(0, len(self), self._side())
        return [(row, column) for row in starts for column in starts if column >= row]

    def part_of_times(self, right: NDArray[Any], pairs: list[tuple[int, int]]) -> NDArray[Any]:
        """What these blocks, and those that mirror them, add to (T + shift·I) B."""
        out, side, diagonal = np.zeros_like(right), self._side(), self.diagonal()
        cut = {rows.start: (rows, x_rows) for rows, x_rows in blocks(self.x, side)}
        for pair in pairs:
            (rows, x_rows), (columns, x_columns) = (cut[start] for start in pair)
            v_rows, v_columns = (_padded(right[where], side) for where in (rows, columns))
            with precision(self.x.dtype):
                if rows == columns:
                    exact = _padded(diagonal[rows], side)
                    products = [_own_product(self.net, self.which, x_rows, v_rows, exact)]
                else:
                    parts = (x_rows, x_columns, v_rows, v_columns)
                    products = _products(self.net, self.which, *parts)
            for where, product in zip((rows, columns), products, strict=False):
                out[where] += np.asarray(product)[: where.stop - where.start]
        return out

    def _side(self) -> int:
        return block_side(self.net, self.x.dtype, len(self))


@partial(jax.jit, static_argnums=1)
def _own_product(net: LayeredNetwork, which: Which, x: Array, v: Array, diagonal: Array) -> Array:
    """K v for a block on the diagonal, with the diagonal given."""
    k = getattr(net.kernel(x, x), which)
    return jnp.where(jnp.eye(len(x), dtype=bool), diagonal[:, None], k) @ v


@partial(jax.jit, static_argnums=1)
def _products(
    net: LayeredNetwork, which: Which, x1: Array, x2: Array, v1: Array, v2: Array
) -> tuple[Array, Array]:
    """K v2 and Kᵀ v1 for a block K off the diagonal."""
    k = getattr(net.kernel(x1, x2), which)
    return k @ v2, k.T @ v1


def _padded(values: NDArray[Any], length: int) -> NDArray[Any]:
    """The rows and zeros after them, so that one compiled program serves all blocks."""
    return np.pad(values, [(0, length - len(values))] + [(0, 0)] * (values.ndim - 1))
