"""Kernel matrices: the NNGP and NTK of infinite networks, in blocks of bounded memory."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import ceil, prod
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ntkgp.core.arrays import check_inputs, padded_length, precision
from ntkgp.core.compilation import before_compiling
from ntkgp.core.memory import require_kernel
from ntkgp.core.typing import Metric
from ntkgp.kernels.stages import Images, OwnKernels, has_stages, own_kernels, pair_kernels
from ntkgp.networks.layered import LayeredNetwork, require_layers

BLOCK_BYTES = 256 * 2**20
"""Working memory of one block beyond inputs and result, estimated from its largest covariance."""

_BUFFERS = 24  # arrays of a block's size that XLA keeps at once, padding of convolutions included
_SMALLER_STAGES = (
    4  # times smaller blocks for programs of one layer: what is between two stays in cache
)
_TILE = 128
_FEW_TILES = 8  # threads take longer to start than to mirror so many
_FEW = 1024  # up to so many rows, compiling another size costs more than computing padding


class KernelMatrices(NamedTuple):
    """𝒦 and Θ between two sets of inputs, or their diagonals."""

    nngp: NDArray[Any]
    ntk: NDArray[Any]


Which = Literal["nngp", "ntk"]
KINDS: tuple[Which, ...] = ("nngp", "ntk")


@partial(jax.tree_util.register_dataclass, data_fields=["net"], meta_fields=["which", "metric"])
@dataclass(frozen=True)
class Wanted:
    """Some kernels of a network. To `jax.jit` all is static but the scales of the network."""

    net: LayeredNetwork
    which: tuple[Which, ...]
    metric: Metric = "prior"


def kernel_matrices(
    net: LayeredNetwork, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> KernelMatrices:
    """𝒦 and Θ together, for little more than the cost of one; options as in `ntk`."""
    return KernelMatrices(*_evaluate(net, ("nngp", "ntk"), x1, x2, **options))


def nngp(net: LayeredNetwork, x1: Any, x2: Any = None, **options: Any) -> Any:
    """𝒦(x1, x2), the covariance of f(·, θ₀) at infinite width; all else as in `ntk`."""
    return _array_or_traced(net, "nngp", x1, x2, options)


def ntk(net: LayeredNetwork, x1: Any, x2: Any = None, **options: Any) -> Any:
    """Θ(x1, x2), the neural tangent kernel at infinite width.

    Args:
        net: a network made of ntkgp's layers; `empirical_ntk` takes any network.
        x1: inputs (n1, *input_shape).
        x2: inputs (n2, *input_shape); x1 again when left out. Then each pair of blocks is
            computed once, and the result is exactly symmetric.

    Options:
        diagonal: only the values at (x, x), as a vector, computed without any n x n array.
        metric: "prior" for J Λ Jᵀ, the paper's Θ in either parameterisation; "gradient" for J Jᵀ,
            which plain gradient descent follows (the two differ in standard parameterisation).
        dtype: np.float32 or np.float64; by default that of the inputs. float64 needs no
            `jax_enable_x64`, and does not change it.
        block_bytes: working memory beyond the result.

    Returns:
        A NumPy array (n1, n2), or (n1,) for the diagonal. Within `jax.grad` and other
        transformations of the network or the inputs, an array of JAX, computed all at once.

    >>> net = ntkgp.mlp(2, depth=1)
    >>> x = np.random.default_rng(0).normal(size=(5, 2))
    >>> theta = ntk(net, x)
    >>> theta.shape, theta.dtype
    ((5, 5), dtype('float64'))
    >>> np.allclose(np.diag(theta), ntk(net, x, diagonal=True))
    True
    >>> gradient = jax.grad(lambda net: ntk(net, x).sum())(net)
    >>> bool(gradient.last.b_std > 0)  # a network again, of derivatives
    True
    """
    return _array_or_traced(net, "ntk", x1, x2, options)


def _array_or_traced(
    net: LayeredNetwork, which: Which, x1: Any, x2: Any, options: dict[str, Any]
) -> Any:
    if not is_traced((net, x1, x2)):
        return kernel_matrix(net, which, x1, x2, **options)
    metric = options.get("metric", "prior")
    unknown = set(options) - {"metric", "diagonal"}
    if unknown:
        raise TypeError(
            f"{', '.join(sorted(unknown))} cannot be given within a transformation of JAX: there the "
            "kernel is computed all at once, in the precision of its inputs."
        )
    if options.get("diagonal"):
        return require_layers(net).kernel_diagonal(jnp.asarray(x1), metric)[which == "ntk"]
    second = x1 if x2 is None else x2
    return getattr(require_layers(net).kernel(jnp.asarray(x1), jnp.asarray(second), metric), which)


def is_traced(values: Any) -> bool:
    """Whether JAX is transforming a function of one of these values."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def kernel_matrix(
    net: LayeredNetwork, which: Which, x1: ArrayLike, x2: ArrayLike | None = None, **options: Any
) -> NDArray[Any]:
    """𝒦(x1, x2) or Θ(x1, x2) by its name, as a `Law` has it; options as in `ntk`."""
    return _evaluate(net, (which,), x1, x2, **options)[0]


def _evaluate(
    net: LayeredNetwork,
    which: tuple[Which, ...],
    x1: ArrayLike,
    x2: ArrayLike | None,
    *,
    diagonal: bool = False,
    metric: Metric = "prior",
    dtype: DTypeLike | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> list[NDArray[Any]]:
    before_compiling()
    require_layers(net)
    check_metric(metric)
    if diagonal and x2 is not None:
        raise ValueError("diagonal=True takes one set of inputs, x1; leave x2 out.")
    first = check_inputs("x1", x1, net.input_shape, dtype)
    second = None if x2 is None else check_inputs("x2", x2, net.input_shape, dtype or first.dtype)
    wanted = Wanted(net, which, metric)
    with precision(first.dtype):
        if diagonal:
            return _diagonal(wanted, first, block_bytes)
        columns = first if second is None else second
        require_kernel(len(first), len(columns), first.dtype.itemsize, len(which))
        if second is None:
            return _symmetric(wanted, first, block_bytes)
        return _rectangular(wanted, first, second, block_bytes)


def check_metric(metric: Metric) -> None:
    """Refuse an unknown metric."""
    if metric not in ("prior", "gradient"):
        raise ValueError(f'metric must be "prior" or "gradient"; got {metric!r}.')


def _rectangular(
    wanted: Wanted, x1: NDArray[Any], x2: NDArray[Any], block_bytes: int
) -> list[NDArray[Any]]:
    out = [np.empty((len(x1), len(x2)), x1.dtype) for _ in wanted.which]
    side1, side2 = (block_side(wanted.net, x1.dtype, len(x), block_bytes) for x in (x1, x2))
    fill_rectangle(out, wanted, x1, x2, (side1, side2), block_bytes)
    return out


def _prepared(wanted: Wanted, x: NDArray[Any], block_bytes: int) -> Any:
    """Inputs with what every pair of them needs, if there is such a thing."""
    return Images(x, _own(wanted, x, block_bytes).variances) if has_stages(wanted.net) else x


def fill_rectangle(
    out: list[NDArray[Any]],
    wanted: Wanted,
    x1: NDArray[Any],
    x2: NDArray[Any],
    sides: tuple[int, int],
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Write the kernels between x1 and x2 into existing arrays, block by block."""
    first, second = (_prepared(wanted, x, block_bytes) for x in (x1, x2))
    _fill(
        out,
        (
            (rows, columns, _block(wanted, x_rows, x_columns))
            for rows, x_rows in blocks(first, sides[0])
            for columns, x_columns in blocks(second, sides[1])
        ),
    )


def _symmetric(wanted: Wanted, x: NDArray[Any], block_bytes: int) -> list[NDArray[Any]]:
    out = [np.empty((len(x), len(x)), x.dtype) for _ in wanted.which]
    side = block_side(wanted.net, x.dtype, len(x), block_bytes)
    inputs: Any = x
    if has_stages(wanted.net):
        own = _own(wanted, x, block_bytes)
        inputs, diagonals = Images(x, own.variances), _wanted(wanted, own)
    else:
        diagonals = _diagonal(wanted, x, block_bytes)
    _fill(
        out,
        (
            (rows, columns, _block(wanted, x_rows, x_columns))
            for rows, x_rows in blocks(inputs, side)
            for columns, x_columns in blocks(inputs, side, first=rows.start)
        ),
    )
    for matrix, diagonal in zip(out, diagonals, strict=True):
        _mirror(matrix)
        np.fill_diagonal(matrix, diagonal)  # a matrix product rounds ⟨x, x⟩; this does not
    return out


def _mirror(matrix: NDArray[Any]) -> None:
    """Copy the upper triangle to the lower one, in tiles that a processor's cache holds."""
    tiles = [slice(start, start + _TILE) for start in range(0, len(matrix), _TILE)]

    def mirror(i: int) -> None:
        rows = tiles[i]
        inside = matrix[rows, rows]
        inside[...] = np.triu(inside) + np.triu(inside, 1).T
        for columns in tiles[i + 1 :]:
            matrix[columns, rows] = matrix[rows, columns].T

    if len(tiles) <= _FEW_TILES:
        for i in range(len(tiles)):
            mirror(i)
        return
    with ThreadPoolExecutor() as pool:
        list(pool.map(mirror, range(len(tiles))))


def _diagonal(wanted: Wanted, x: NDArray[Any], block_bytes: int) -> list[NDArray[Any]]:
    if has_stages(wanted.net):
        return _wanted(wanted, _own(wanted, x, block_bytes))
    out = [np.empty(len(x), x.dtype) for _ in wanted.which]
    for rows, x_rows in blocks(x, _diagonal_rows(wanted.net, x.dtype, block_bytes, len(x))):
        for vector, own in zip(out, _diagonal_block(wanted, x_rows), strict=True):
            part = np.asarray(own)[: rows.stop - rows.start]
            _check_finite(part)
            vector[rows] = part
    return out


def _wanted(wanted: Wanted, own: OwnKernels) -> list[Any]:
    """Those of an image's own kernels that are asked for."""
    diagonals = [getattr(own, name) for name in wanted.which]
    for diagonal in diagonals:
        _check_finite(diagonal)
    return diagonals


def _block(wanted: Wanted, x1: Any, x2: Any) -> list[Array]:
    """The kernels between inputs that are prepared."""
    if not isinstance(x1, Images):
        return _block_at_once(wanted, x1, x2)
    k = dict(zip(KINDS, pair_kernels(wanted.net, wanted.metric, x1, x2), strict=True))
    return [k[name] for name in wanted.which]


@jax.jit
def _block_at_once(wanted: Wanted, x1: Array, x2: Array) -> list[Array]:
    k = wanted.net.kernel(x1, x2, wanted.metric)
    return [getattr(k, name) for name in wanted.which]


@jax.jit
def _diagonal_block(wanted: Wanted, x: Array) -> list[Array]:
    k = dict(zip(KINDS, wanted.net.kernel_diagonal(x, wanted.metric), strict=True))
    return [k[name] for name in wanted.which]


def _own(wanted: Wanted, x: NDArray[Any], block_bytes: int) -> OwnKernels:
    """Kernels and variances of each image with itself, computed block by block."""
    parts = []
    for rows, x_rows in blocks(x, _diagonal_rows(wanted.net, x.dtype, block_bytes, len(x))):
        own = own_kernels(wanted.net, wanted.metric, x_rows)
        parts.append(jax.tree.map(lambda a, n=rows.stop - rows.start: np.asarray(a)[:n], own))
    whole: OwnKernels = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return whole


def _fill(out: list[NDArray[Any]], pieces: Iterable[tuple[slice, slice, list[Array]]]) -> None:
    """Write blocks to their rows and columns, each while the next is being computed."""
    waiting: list[tuple[slice, slice, list[Array]]] = []
    for piece in chain(pieces, [None]):
        for rows, columns, block in waiting:
            for matrix, values in zip(out, block, strict=True):
                part = np.asarray(values)[: rows.stop - rows.start, : columns.stop - columns.start]
                _check_finite(part)
                matrix[rows, columns] = part
        waiting = [piece] if piece else []


def _check_finite(values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"the kernel overflows {values.dtype}: the inputs are too large. Standardise them."
        )


def block_side(
    net: LayeredNetwork, dtype: DTypeLike, n: int, block_bytes: int = BLOCK_BYTES
) -> int:
    """Rows of one of the equal blocks into which n inputs are cut.

    Half of block_bytes is for the covariances of a pair of blocks, half for the inputs of both. A
    block has at least one row, even where that is too much.
    """
    item = np.dtype(dtype).itemsize
    by_covariances = (block_bytes / 2 / (_numbers_per_pair(net) * item)) ** 0.5
    by_inputs = block_bytes / 4 / (prod(net.input_shape) * item)
    most = max(1, int(min(by_covariances, by_inputs)))
    if n <= _FEW and padded_length(n) <= most:
        return padded_length(n)
    return ceil(n / ceil(n / most))


def _numbers_per_pair(net: LayeredNetwork) -> int:
    """What a pair of inputs takes of a block's memory."""
    return _BUFFERS * net.entries_per_pair() * (_SMALLER_STAGES if has_stages(net) else 1)


def _diagonal_rows(net: LayeredNetwork, dtype: DTypeLike, block_bytes: int, longest: int) -> int:
    """Rows whose own covariances and inputs fit into block_bytes, at least one."""
    entries = _numbers_per_pair(net) + prod(net.input_shape)
    longest = padded_length(longest) if longest <= _FEW else longest
    return max(1, min(longest, block_bytes // (entries * np.dtype(dtype).itemsize)))


def blocks(x: Any, side: int, first: int = 0) -> Iterator[tuple[slice, Any]]:
    """Slices of an array, or of several of one length; the last is padded to the length of the others.

    So one compiled program serves all.
    """
    n = len(jax.tree.leaves(x)[0])
    for start in range(first, n, side):
        rows = slice(start, min(start + side, n))
        taken = np.minimum(np.arange(start, start + side), n - 1)
        whole = rows.stop - start == side
        yield rows, jax.tree.map(lambda a, which=rows if whole else taken: a[which], x)
