"""The empirical NTK of a finite network: products of Jacobian rows, in blocks."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_inputs
from ntkgp.core.memory import require_kernel
from ntkgp.core.typing import Metric, Params, Part
from ntkgp.kernels.matrices import BLOCK_BYTES, check_metric
from ntkgp.networks.protocol import Network, scale

_PARTS: dict[Part, dict[str, float]] = {
    "all": {"body": 1.0, "head": 1.0},
    "body": {"body": 1.0, "head": 0.0},
    "readout": {"body": 0.0, "head": 1.0},
}


def empirical_ntk(
    net: Network,
    params: Params,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    part: Part = "all",
    metric: Metric = "prior",
    jacobian_bytes: int = BLOCK_BYTES,
) -> NDArray[Any]:
    """Θ̂(x1, x2) of a network at one θ: J(x1) Λ J(x2)ᵀ, or J(x1) J(x2)ᵀ as in Eq. 2.

    Any network will do, an adapted one too. `function_ntk` in this module is for a plain function
    of parameters, which has neither a prior nor a readout.

    Args:
        net: a network.
        params: θ, as `net.init` draws it.
        x1: inputs (n1, *input_shape).
        x2: inputs (n2, *input_shape); x1 again when left out.
        part: "all" θ; "body" for Θ̂^{≤L}, the part of the parameters before the readout;
            "readout" for that of θ^{L+1}.
        metric: "prior" for J Λ Jᵀ, which tends to `ntk(net, x1, x2)` as the width grows;
            "gradient" for J Jᵀ. The two differ in standard parameterisation.
        jacobian_bytes: memory for rows of the Jacobian; four must fit.

    Returns:
        A NumPy array (n1·c, n2·c) for c outputs, inputs first, outputs within.

    >>> net = ntkgp.mlp(1, width=32)
    >>> theta, x = net.init(jax.random.key(0)), np.linspace(-1, 1, 4)[:, None]
    >>> whole = empirical_ntk(net, theta, x)
    >>> parts = [empirical_ntk(net, theta, x, part=part) for part in ("body", "readout")]
    >>> np.allclose(whole, sum(parts), rtol=1e-5)
    True
    """
    if not isinstance(net, Network):
        raise TypeError(
            f"empirical_ntk takes a Network; got {type(net).__name__}. ntkgp.adapters makes networks "
            "of those of other libraries; ntkgp.kernels.empirical.function_ntk takes a plain "
            "function f(params, x)."
        )
    check_metric(metric)
    if part not in _PARTS:
        raise ValueError(f'part must be "all", "body" or "readout"; got {part!r}.')
    dtype = jnp.result_type(*jax.tree.leaves(params))
    first = check_inputs("x1", x1, net.input_shape, dtype)
    second = None if x2 is None else check_inputs("x2", x2, net.input_shape, dtype)
    prior_var = net.prior_var()
    ones = jax.tree.map(lambda _: 1.0, prior_var)
    weights = scale(net, prior_var if metric == "prior" else ones, **_PARTS[part])
    return function_ntk(
        net.apply, params, first, second, weights=weights, jacobian_bytes=jacobian_bytes
    )


def function_ntk(
    f: Callable[[Params, Array], Array],
    params: Params,
    x1: Array | NDArray[Any],
    x2: Array | NDArray[Any] | None = None,
    *,
    weights: Params | None = None,
    jacobian_bytes: int = BLOCK_BYTES,
) -> NDArray[Any]:
    """Σ over leaves of weight · J(x1) J(x2)ᵀ of any function of parameters.

    Rows of the Jacobian are computed in blocks. Those alive at once stay within `jacobian_bytes`,
    however many inputs and outputs there are.

    Args:
        f: f(params, x) of shape (n, c) for a batch x of n inputs.
        params: θ.
        x1, x2: batches of inputs; x1 again when x2 is left out.
        weights: one number for each leaf of params; 1 for all when left out, which is Eq. 2.
        jacobian_bytes: memory for rows of the Jacobian; four must fit.

    Returns:
        A NumPy array (n1·c, n2·c), inputs first, outputs within.

    >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> function_ntk(lambda w, x: x @ w, jnp.ones((2, 1)), x).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
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

    def row_blocks(x: Array | NDArray[Any], first: int = 0) -> Iterator[Params]:
        for start in range(first, len(x) * n_outputs, side):
            index = np.arange(start, min(start + side, len(x) * n_outputs))
            yield _jacobian_rows(f, params, x[index // n_outputs], index % n_outputs)

    columns = x1 if x2 is None else x2
    shape = (len(x1) * n_outputs, len(columns) * n_outputs)
    dtype = jnp.result_type(*jax.tree.leaves(params))
    require_kernel(*shape, dtype.itemsize)
    result = np.empty(shape, dtype)
    for i, j1 in enumerate(row_blocks(x1)):
        first = i if x2 is None else 0  # symmetric: only from the diagonal on
        for j, j2 in enumerate(row_blocks(columns, first * side), start=first):
            block = np.asarray(_weighted_product(j1, j2, weights))
            result[i * side : (i + 1) * side, j * side : (j + 1) * side] = block
            if x2 is None:
                result[j * side : (j + 1) * side, i * side : (i + 1) * side] = block.T
    return result


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
