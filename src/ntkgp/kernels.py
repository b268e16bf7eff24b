"""Kernel matrices: the NNGP and NTK of infinite networks in blocks, the empirical NTK of finite ones."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ntkgp.networks import LayeredNetwork
from ntkgp.typing import Metric, Params, Shape

BLOCK_BYTES = 256 * 2**20
"""Working memory of one block, beyond inputs and result, as estimated from its largest covariance."""

_BUFFERS = 24  # arrays of a block's size that XLA keeps at once, padding of convolutions included


class KernelMatrices(NamedTuple):
    """𝒦 and Θ between two sets of inputs, or their diagonals."""

    nngp: NDArray[Any]
    ntk: NDArray[Any]


Which = Literal["nngp", "ntk"]


def kernel_matrices(
    net: LayeredNetwork, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> KernelMatrices:
    """𝒦 and Θ together, for little more than the cost of one; options as in `ntk`."""
    return KernelMatrices(*_evaluate(net, x1, x2, ("nngp", "ntk"), **options))


def nngp(
    net: LayeredNetwork, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> NDArray[Any]:
    """𝒦(x1, x2), the covariance of f(·, θ₀) at infinite width; options as in `ntk`."""
    return _evaluate(net, x1, x2, ("nngp",), **options)[0]


def ntk(
    net: LayeredNetwork, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> NDArray[Any]:
    """Θ(x1, x2), the neural tangent kernel at infinite width.

    Args:
        net: a network made of layers.
        x1: inputs (n1, *input_shape).
        x2: inputs (n2, *input_shape); x1 again when left out, and then each pair of blocks is
            computed once and the result is exactly symmetric.

    Options:
        diagonal: only the values at (x, x), as a vector, computed without any n x n array.
        metric: "prior" for J Λ Jᵀ, the paper's Θ in either parameterisation; "gradient" for J Jᵀ,
            which plain gradient descent follows (the two differ in standard parameterisation).
        dtype: np.float32 or np.float64; by default that of the inputs. float64 works whatever
            `jax_enable_x64` says, and leaves it as it was.
        block_bytes: working memory beyond the result.

    Returns:
        A NumPy array (n1, n2), or (n1,) for the diagonal.

    >>> net = ntkgp.mlp(2)
    >>> x = np.random.default_rng(0).normal(size=(5, 2))
    >>> theta = ntk(net, x)
    >>> theta.shape, theta.dtype
    ((5, 5), dtype('float64'))
    >>> np.allclose(np.diag(theta), ntk(net, x, diagonal=True))
    True
    """
    return _evaluate(net, x1, x2, ("ntk",), **options)[0]


def kernel_matrix(
    net: LayeredNetwork, which: Which, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> NDArray[Any]:
    """𝒦(x1, x2) or Θ(x1, x2) by its name, "nngp" or "ntk", as a `Law` has it; options as in `ntk`."""
    return _BY_NAME[which](net, x1, x2, **options)


_BY_NAME = {"nngp": nngp, "ntk": ntk}


def _evaluate(
    net: LayeredNetwork,
    x1: ArrayLike,
    x2: ArrayLike | None,
    which: tuple[Which, ...],
    *,
    diagonal: bool = False,
    metric: Metric = "prior",
    dtype: DTypeLike | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> list[NDArray[Any]]:
    if metric not in ("prior", "gradient"):
        raise ValueError(f'metric must be "prior" or "gradient"; got {metric!r}.')
    if diagonal and x2 is not None:
        raise ValueError("diagonal=True takes one set of inputs, x1; leave x2 out.")
    first = check_inputs("x1", x1, net.input_shape, dtype)
    second = None if x2 is None else check_inputs("x2", x2, net.input_shape, dtype or first.dtype)
    with precision(first.dtype):
        if diagonal:
            return _diagonal(net, first, which, metric, block_bytes)
        if second is None:
            return _symmetric(net, first, which, metric, block_bytes)
        return _rectangular(net, first, second, which, metric, block_bytes)


def _rectangular(
    net: LayeredNetwork,
    x1: NDArray[Any],
    x2: NDArray[Any],
    which: tuple[Which, ...],
    metric: Metric,
    block_bytes: int,
) -> list[NDArray[Any]]:
    out = [np.empty((len(x1), len(x2)), x1.dtype) for _ in which]
    side = _block_side(net, x1.dtype, block_bytes, max(len(x1), len(x2)))
    for rows, x_rows in _blocks(x1, side):
        for columns, x_columns in _blocks(x2, side):
            _fill(out, rows, columns, _block(net, x_rows, x_columns, which, metric))
    return out


def _symmetric(
    net: LayeredNetwork,
    x: NDArray[Any],
    which: tuple[Which, ...],
    metric: Metric,
    block_bytes: int,
) -> list[NDArray[Any]]:
    out = [np.empty((len(x), len(x)), x.dtype) for _ in which]
    side = _block_side(net, x.dtype, block_bytes, len(x))
    for rows, x_rows in _blocks(x, side):
        for columns, x_columns in _blocks(x, side, first=rows.start):
            _fill(out, rows, columns, _block(net, x_rows, x_columns, which, metric))
    slices = [slice(start, start + side) for start in range(0, len(x), side)]
    for matrix, diagonal in zip(out, _diagonal(net, x, which, metric, block_bytes), strict=True):
        _mirror(matrix, slices)
        np.fill_diagonal(matrix, diagonal)  # a matrix product rounds ⟨x, x⟩; this does not
    return out


def _mirror(matrix: NDArray[Any], slices: list[slice]) -> None:
    """Copy the upper triangle of blocks to the lower one, block by block."""
    for i, rows in enumerate(slices):
        inside = matrix[rows, rows]
        inside[...] = np.triu(inside) + np.triu(inside, 1).T
        for columns in slices[i + 1 :]:
            matrix[columns, rows] = matrix[rows, columns].T


def _diagonal(
    net: LayeredNetwork, x: NDArray[Any], which: tuple[Which, ...], metric: Metric, block_bytes: int
) -> list[NDArray[Any]]:
    out = [np.empty(len(x), x.dtype) for _ in which]
    for rows, x_rows in _blocks(x, _diagonal_rows(net, x.dtype, block_bytes, len(x))):
        values = KernelMatrices(*_diagonal_block(net, x_rows, metric))
        for vector, name in zip(out, which, strict=True):
            part = np.asarray(getattr(values, name))[: rows.stop - rows.start]
            _check_finite(part)
            vector[rows] = part
    return out


@partial(jax.jit, static_argnums=(0, 3, 4))
def _block(
    net: LayeredNetwork, x1: Array, x2: Array, which: tuple[Which, ...], metric: Metric
) -> list[Array]:
    k = net.kernel(x1, x2, metric)
    return [getattr(k, name) for name in which]


@partial(jax.jit, static_argnums=(0, 2))
def _diagonal_block(net: LayeredNetwork, x: Array, metric: Metric) -> tuple[Array, Array]:
    return net.kernel_diagonal(x, metric)


def _fill(out: list[NDArray[Any]], rows: slice, columns: slice, block: list[Array]) -> None:
    for matrix, values in zip(out, block, strict=True):
        part = np.asarray(values)[: rows.stop - rows.start, : columns.stop - columns.start]
        _check_finite(part)
        matrix[rows, columns] = part


def _check_finite(values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"the kernel overflows {values.dtype}: the inputs are too large. Standardise them."
        )


def _block_side(net: LayeredNetwork, dtype: DTypeLike, block_bytes: int, longest: int) -> int:
    """Rows and columns of a block, at least one, for which half of block_bytes holds the
    covariances and half the inputs of both sides."""
    item = np.dtype(dtype).itemsize
    by_covariances = (block_bytes / 2 / (_BUFFERS * net.entries_per_pair() * item)) ** 0.5
    by_inputs = block_bytes / 4 / (prod(net.input_shape) * item)
    return max(1, min(longest, int(by_covariances), int(by_inputs)))


def _diagonal_rows(net: LayeredNetwork, dtype: DTypeLike, block_bytes: int, longest: int) -> int:
    """Rows whose own covariances and inputs fit into block_bytes, at least one."""
    entries = _BUFFERS * net.entries_per_pair() + prod(net.input_shape)
    return max(1, min(longest, block_bytes // (entries * np.dtype(dtype).itemsize)))


def _blocks(x: NDArray[Any], side: int, first: int = 0) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Slices of x of one length, so that one compiled program serves all: the last is padded."""
    for start in range(first, len(x), side):
        rows = slice(start, min(start + side, len(x)))
        yield rows, x[np.minimum(np.arange(start, start + side), len(x) - 1)]


def precision(dtype: DTypeLike) -> AbstractContextManager[Any]:
    """A scope in which JAX computes in this dtype; the user's own flag is untouched outside it."""
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else nullcontext()


def check_inputs(
    name: str, x: ArrayLike, input_shape: Shape, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """Inputs as a finite float array (n, *input_shape), or an error in words."""
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers; got dtype {array.dtype}.")
    if array.ndim != 1 + len(input_shape) or array.shape[1:] != input_shape:
        expected = ", ".join(["n", *map(str, input_shape)])
        raise ValueError(
            f"{name} must have shape ({expected}) for this network; got {array.shape}."
        )
    if not len(array):
        raise ValueError(f"{name} has no rows; at least one input is needed.")
    kind = np.dtype(dtype) if dtype is not None else array.dtype
    if dtype is not None and kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {kind}.")
    kind = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array.reshape(len(array), -1)).all(1))[0, 0])
        raise ValueError(
            f"{name} has NaN or infinite entries, first in row {row}. Impute or drop those rows."
        )
    if np.abs(array).max() > np.finfo(kind).max:
        raise ValueError(f"{name} has entries too large for {kind}. Standardise the data.")
    return array.astype(kind, copy=False)


def empirical_ntk(
    f: Callable[[Params, Array], Array],
    params: Params,
    x1: Array,
    x2: Array | None = None,
    *,
    weights: Params | None = None,
    jacobian_bytes: int = BLOCK_BYTES,
) -> Array:
    """Θ̂(x1, x2) = ⟨∇f(x1, θ), ∇f(x2, θ)⟩ of any function of parameters (Eq. 2).

    Rows of the Jacobian are computed in blocks, so that those alive at once stay within
    `jacobian_bytes`, however many inputs and outputs there are.

    Args:
        f: f(params, x) of shape (n, c) for a batch x of n inputs.
        params: θ.
        x1, x2: batches; x1 again when x2 is left out.
        weights: one number for each leaf of params, by which its part of the inner product is
            weighted: `net.prior_var()` for J Λ Jᵀ; that with zeros for the readout's leaves, which
            is `scale(net, net.prior_var(), body=1, head=0)`, for Θ̂^{≤L}; 1 for all when left out.
        jacobian_bytes: the budget; four rows must fit.

    Returns:
        (n1·c, n2·c), inputs first, outputs within.

    >>> net = ntkgp.mlp(1, width=32)
    >>> theta, x = net.init(jax.random.key(0)), jnp.linspace(-1, 1, 4)[:, None]
    >>> empirical_ntk(net.apply, theta, x, weights=net.prior_var()).shape
    (4, 4)
    """
    if weights is None:
        weights = jax.tree.map(lambda _: 1.0, params)
    n_outputs = jax.eval_shape(f, params, x1[:1]).shape[1]
    row_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    side = int(jacobian_bytes // (4 * row_bytes))  # two blocks, and as much to compute one
    if side < 1:
        raise ValueError(
            f"jacobian_bytes must hold four rows of the Jacobian, {4 * row_bytes:,} bytes for these "
            f"parameters; got {jacobian_bytes:,}."
        )

    def row_blocks(x: Array, first: int = 0) -> Iterator[Params]:
        for start in range(first, len(x) * n_outputs, side):
            index = np.arange(start, min(start + side, len(x) * n_outputs))
            yield _jacobian_rows(f, params, x[index // n_outputs], index % n_outputs)

    columns = x1 if x2 is None else x2
    result = np.empty((len(x1) * n_outputs, len(columns) * n_outputs), _dtype(params))
    for i, j1 in enumerate(row_blocks(x1)):
        first = i if x2 is None else 0  # symmetric: only from the diagonal on
        for j, j2 in enumerate(row_blocks(columns, first * side), start=first):
            block = np.asarray(_weighted_product(j1, j2, weights))
            result[i * side : (i + 1) * side, j * side : (j + 1) * side] = block
            if x2 is None:
                result[j * side : (j + 1) * side, i * side : (i + 1) * side] = block.T
    return jnp.asarray(result)


def _dtype(params: Params) -> Any:
    return jnp.result_type(*jax.tree.leaves(params))


@partial(jax.jit, static_argnums=0)
def _jacobian_rows(
    f: Callable[[Params, Array], Array], params: Params, x: Array, output: Array
) -> Params:
    """∇_θ f_c(x, θ) for each pair of an input and an output index c, as a stacked pytree."""

    def row(point: Array, c: Array) -> Params:
        return jax.grad(lambda p: f(p, point[None])[0, c])(params)

    return jax.vmap(row)(x, output)


@jax.jit
def _weighted_product(j1: Params, j2: Params, weights: Params) -> Array:
    """Σ over leaves of weight · J1 J2ᵀ."""
    products = jax.tree.map(
        lambda a, b, weight: weight * (a.reshape(len(a), -1) @ b.reshape(len(b), -1).T),
        j1,
        j2,
        weights,
    )
    return jax.tree.reduce(jnp.add, products)
