"""Predictions of an ensemble and of an exact law: rows per second, and the time of a single row.

The limit beside them is one forward pass of each member's network, compiled, and nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax

import ntkgp
from common import Records, best_seconds, run_and_write
from ntkgp.networks.layers import Relu


@dataclass(frozen=True)
class Sizes:
    training_rows: int = 2000
    rows_by_ensemble: int = 50_000
    rows_by_law: int = 5000
    width: int = 128
    depth: int = 2
    members: int = 10
    repeats: int = 5


TINY = Sizes(
    training_rows=10,
    rows_by_ensemble=4,
    rows_by_law=4,
    width=3,
    depth=1,
    members=2,
    repeats=1,
)


def run(sizes: Sizes) -> Records:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(sizes.training_rows, 8)), rng.normal(size=sizes.training_rows)
    net = ntkgp.mlp(8, width=sizes.width, depth=sizes.depth, activation=Relu())
    trainer = ntkgp.Descent(optax.adam(1e-3), epochs=1, batch_size=min(100, len(x)))
    ensemble = ntkgp.fit(net, x, y, members=sizes.members, trainer=trainer)
    law = ntkgp.condition(net, x, y)
    forward = jax.jit(jax.vmap(net.apply, in_axes=(0, None)))

    def forward_passes(inputs: Any) -> Any:
        return np.asarray(forward(ensemble.theta, inputs))

    runs: dict[str, tuple[int, Callable[[Any], Any], Callable[[Any], Any]]] = {
        "ensemble": (sizes.rows_by_ensemble, ensemble.predict, forward_passes),
        "law, mean and variance": (sizes.rows_by_law, law.predict, law.mean),
        "law, mean alone": (sizes.rows_by_law, law.mean, law.mean),
    }
    rows = []
    for name, (n, predict, limit) in runs.items():
        many, one = rng.normal(size=(n, 8)).astype(np.float32), rng.normal(size=(1, 8))
        calls = {
            "many": lambda f=predict, x=many: f(x),
            "many, limit": lambda f=limit, x=many: f(x),
            "one": lambda f=predict, x=one: f(x),
        }
        seconds = best_seconds(calls, sizes.repeats)
        rows.append(
            {
                "prediction": name,
                "rows per second": n / seconds["many"],
                "seconds / limit, many rows": seconds["many"] / seconds["many, limit"],
                "milliseconds of one row": 1000 * seconds["one"],
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("prediction", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
