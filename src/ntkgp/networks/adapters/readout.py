"""The readout θ^{L+1}, found by experiment: the parameters in which the output is linear.

f(x, θ) = W h(x, θ^{≤L}) + b is 0 where W and b are 0, and additive in them. Any other layer fails one
of these tests at a general point, where no bias is 0: what follows it adds a bias, or is not linear.
Where several layers pass, as in a deep linear network without biases, the user must name the readout.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ntkgp.networks.adapters.paths import ancestors, listed, matching

Flat = dict[str, NDArray[Any]]


def find_readout(
    f: Callable[[Flat], NDArray[Any]], params: Flat, named: str | Sequence[str] | None
) -> frozenset[str]:
    """The paths of the readout's leaves.

    Args:
        f: outputs on some general inputs, as a function of the parameters by path.
        params: one draw of the parameters.
        named: paths of the readout, or None to search for it.
    """
    noise = _normals(1, params, std=0.1)
    point = {path: leaf + noise[path] for path, leaf in params.items()}
    if named is not None:
        return _named_readout(f, point, [named] if isinstance(named, str) else named)
    passed = {part: name for part, name in _subtrees(params).items() if is_linear(f, point, part)}
    smallest = [part for part in passed if not any(other < part for other in passed)]
    if len(smallest) == 1:
        return smallest[0]
    if smallest:
        raise ValueError(
            "the readout is ambiguous: the output is linear in each of "
            f"{listed([passed[part] for part in smallest])}. Name the last layer by readout=."
        )
    raise ValueError(
        "no readout found: in no part of the parameters is the output linear, that is 0 where they "
        "are 0, and additive. The methods need a network that ends in a linear layer: leave "
        "a last softmax, tanh or skip connection out. If the layer's parameters are in several "
        f"places, name them all by readout=[...]; the paths are {listed(params)}."
    )


def _named_readout(
    f: Callable[[Flat], NDArray[Any]], point: Flat, named: Sequence[str]
) -> frozenset[str]:
    part = frozenset(path for name in named for path in matching(name, point, "readout"))
    if not is_linear(f, point, part):
        raise ValueError(
            f"readout names {listed(sorted(part))}, but the output is not linear in these together "
            "(0 where they are 0, and additive): they are not the network's last layer, or not "
            "all of it, or its output passes through something more."
        )
    return part


def is_linear(f: Callable[[Flat], NDArray[Any]], point: Flat, part: frozenset[str]) -> bool:
    """Whether f is linear in one part of the parameters, the others fixed at a general point."""

    def at(values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return f({**point, **values})

    if np.any(at({path: np.zeros_like(point[path]) for path in part})):
        return False
    chosen = {path: point[path] for path in sorted(part)}
    # Large, so that an activation leaves the range in which it is all but linear.
    a, b = (_normals(seed, chosen, std=100.0) for seed in (2, 3))
    with np.errstate(invalid="ignore", over="ignore"):  # what overflows is not linear
        f_a, f_b, f_sum = at(a), at(b), at({path: a[path] + b[path] for path in part})
        size = np.abs(f_a).max() + np.abs(f_b).max()
        return bool(size > 0 and np.abs(f_sum - f_a - f_b).max() <= rounding(f_a) * size)


def rounding(outputs: NDArray[Any]) -> float:
    """The relative size of what counts as 0 among numbers of this dtype: √eps."""
    return float(jnp.finfo(outputs.dtype).eps) ** 0.5


def _subtrees(paths: Mapping[str, NDArray[Any]]) -> dict[frozenset[str], str]:
    """Every set of leaves that is a subtree, or all, by its shortest name."""
    members: dict[str, set[str]] = {"*": set(paths)}
    for path in paths:
        for subtree in ancestors(path):
            members.setdefault(subtree, set()).add(path)
    named: dict[frozenset[str], str] = {}
    for name, leaves in members.items():
        named.setdefault(frozenset(leaves), name)
    return named


def _normals(seed: int, like: Flat, std: float) -> Flat:
    """Normal numbers in the shapes of these leaves; NumPy's, which need no compilation."""
    rng = np.random.default_rng(seed)
    return {path: rng.normal(0, std, leaf.shape).astype(leaf.dtype) for path, leaf in like.items()}
