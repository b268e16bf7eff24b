"""The kernel of the MNIST network: pairs of inputs per second against limits and a plain version.

The limit is the Gram matrix of the inputs alone, one matrix product. The plain version is the
formulas as they stand in the literature, in jax.numpy, compiled as one program on the whole set.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ntkgp
from common import best_seconds, main
from ntkgp.core.arrays import precision
from ntkgp.networks.layers import Relu

N, DEPTH, W_STD, B_STD = 4096, 2, 2**0.5, 0.05


@jax.jit
def gram(x: Any) -> Any:
    return x @ x.T


@jax.jit
def plain(x: Any) -> Any:
    """Θ by the recursion with arccos, nothing shared and nothing cut."""
    k, theta = x @ x.T / x.shape[1], 0.0
    for layer in range(DEPTH + 1):
        k = W_STD**2 * k + B_STD**2
        theta = k + W_STD**2 * theta
        if layer < DEPTH:
            scale = jnp.sqrt(jnp.outer(jnp.diag(k), jnp.diag(k)))
            cos = jnp.clip(k / scale, -1, 1)
            angle = jnp.arccos(cos)
            theta = theta * (jnp.pi - angle) / (2 * jnp.pi)
            k = scale * (jnp.sin(angle) + (jnp.pi - angle) * cos) / (2 * jnp.pi)
    return theta


def run() -> list[dict[str, Any]]:
    net = ntkgp.mlp(784, 10, depth=DEPTH, activation=Relu(), w_std=W_STD, b_std=B_STD)
    rows = []
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).random((N, 784)).astype(dtype)

        def within(f: Any, x: Any = x, dtype: Any = dtype) -> Any:
            def call() -> None:
                with precision(dtype):
                    np.asarray(f(x))

            return call

        runs = {
            "ntkgp.ntk, symmetric": lambda x=x: ntkgp.ntk(net, x),
            "Gram matrix of the inputs alone": within(gram),
            "plain jax.numpy": within(plain),
        }
        seconds = best_seconds(runs, in_a_row=3)
        ours = seconds["ntkgp.ntk, symmetric"]
        for name, value in seconds.items():
            row = {"dtype": np.dtype(dtype).name, "run": name}
            rows.append(
                row
                | {"million pairs per second": N**2 / value / 1e6, "seconds / ours": value / ours}
            )
    return rows


if __name__ == "__main__":
    main("kernel", run)
