"""The empirical NTK of a finite network: products of Jacobian rows, in blocks."""

from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ntkgp.core.typing import Params
from ntkgp.kernels.matrices import BLOCK_BYTES


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
    result = np.empty(
        (len(x1) * n_outputs, len(columns) * n_outputs), jnp.result_type(*jax.tree.leaves(params))
    )
    for i, j1 in enumerate(row_blocks(x1)):
        first = i if x2 is None else 0  # symmetric: only from the diagonal on
        for j, j2 in enumerate(row_blocks(columns, first * side), start=first):
            block = np.asarray(_weighted_product(j1, j2, weights))
            result[i * side : (i + 1) * side, j * side : (j + 1) * side] = block
            if x2 is None:
                result[j * side : (j + 1) * side, i * side : (i + 1) * side] = block.T
    return jnp.asarray(result)


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
