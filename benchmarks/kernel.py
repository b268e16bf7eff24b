"""The kernel of the MNIST network: pairs of inputs per second against limits and a plain version.

The limit is the Gram matrix of the inputs alone, one matrix product. The plain version is the
formulas as they stand in the literature, in jax.numpy, compiled as one program on the whole set.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ntkgp
from common import Records, best_seconds, run_and_write
from ntkgp.core.arrays import precision
from ntkgp.networks.layers import Relu

W_STD, B_STD = 2**0.5, 0.05


@dataclass(frozen=True)
class Sizes:
    rows: int = 4096
    pixels: int = 784
    depth: int = 2
    repeats: int = 5
    in_a_row: int = 3


TINY = Sizes(rows=8, pixels=3, depth=1, repeats=1, in_a_row=1)


@jax.jit
def gram(x: Any) -> Any:
    return x @ x.T


@partial(jax.jit, static_argnums=1)
def plain(x: Any, depth: int) -> Any:
    """Θ by the recursion with arccos, nothing shared and nothing cut."""
    k, theta = x @ x.T / x.shape[1], 0.0
    for layer in range(depth + 1):
        k = W_STD**2 * k + B_STD**2
        theta = k + W_STD**2 * theta
        if layer < depth:
            scale = jnp.sqrt(jnp.outer(jnp.diag(k), jnp.diag(k)))
            cos = jnp.clip(k / scale, -1, 1)
            angle = jnp.arccos(cos)
            theta = theta * (jnp.pi - angle) / (2 * jnp.pi)
            k = scale * (jnp.sin(angle) + (jnp.pi - angle) * cos) / (2 * jnp.pi)
    return theta


def run(sizes: Sizes) -> Records:
    net = ntkgp.mlp(
        sizes.pixels, 10, depth=sizes.depth, activation=Relu(), w_std=W_STD, b_std=B_STD
    )
    rows = []
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).random((sizes.rows, sizes.pixels)).astype(dtype)
        runs: dict[str, Callable[[], Any]] = {
            "ntkgp.ntk, symmetric": partial(ntkgp.ntk, net, x),
            "Gram matrix of the inputs alone": partial(in_precision, dtype, gram, x),
            "plain jax.numpy": partial(in_precision, dtype, plain, x, sizes.depth),
        }
        seconds = best_seconds(runs, sizes.repeats, sizes.in_a_row)
        ours = seconds["ntkgp.ntk, symmetric"]
        rows += [
            {
                "dtype": np.dtype(dtype).name,
                "run": name,
                "million pairs per second": sizes.rows**2 / value / 1e6,
                "seconds / ours": value / ours,
            }
            for name, value in seconds.items()
        ]
    return rows


def in_precision(dtype: Any, f: Callable[..., Any], *arguments: Any) -> None:
    with precision(dtype):
        np.asarray(f(*arguments))


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("kernel", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
