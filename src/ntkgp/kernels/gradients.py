"""Gradients of kernel matrices in the scales of a network, in blocks of bounded memory."""

from functools import partial
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.arrays import padded_length, precision
from ntkgp.kernels.matrices import Which, blocks
from ntkgp.networks.layered import LayeredNetwork

_ENTRIES = 2**15  # of a block, so that its arrays stay in a processor's cache


def kernel_gradient(
    net: LayeredNetwork, which: Which, x: NDArray[Any], weight: NDArray[Any]
) -> LayeredNetwork:
    """The gradient of Σ_ij W_ij K(x_i, x_j) in the scales of the network, which it has the form of.

    Args:
        net: the network, at whose scales the gradient is taken.
        which: the kernel K, "nngp" or "ntk".
        x: inputs (n, *input_shape).
        weight: W, (n, n), symmetric: each pair of blocks is computed once.

    >>> net, x = ntkgp.mlp(1, depth=1, b_std=1.0), np.ones((2, 1))
    >>> float(kernel_gradient(net, "nngp", x, np.eye(2)).last.b_std)  # of 2 · b_std²
    4.0
    """
    most = max(1, int((_ENTRIES / net.entries_per_pair()) ** 0.5))
    side = padded_length(ceil(len(x) / ceil(len(x) / most)))
    parts: list[list[Array]] = []
    with precision(x.dtype):
        pieces = list(blocks(x, side))
        for i, (rows, x_rows) in enumerate(pieces):
            for columns, x_columns in pieces[i:]:
                factor = 1.0 if rows == columns else 2.0
                own = np.zeros((side, side), x.dtype)
                part = weight[rows, columns]
                own[: part.shape[0], : part.shape[1]] = factor * part
                gradient = _block_gradient(net, which, own, x_rows, x_columns)
                parts.append(jax.tree.leaves(gradient))
    # Arrays, not numbers: a b_std that is the number 0 would be no leaf.
    total = [
        np.asarray(np.sum(leaves, axis=0, dtype=np.float64)) for leaves in zip(*parts, strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(net), total)


@partial(jax.jit, static_argnums=1)
def _block_gradient(
    net: LayeredNetwork, which: Which, weight: Array, x1: Array, x2: Array
) -> LayeredNetwork:
    def weighted_sum(net: LayeredNetwork) -> Array:
        return jnp.sum(weight * getattr(net.kernel(x1, x2), which))

    return jax.grad(weighted_sum)(net)
