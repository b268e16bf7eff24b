"""Predictions of an ensemble and of an exact law: rows per second, and the time of a single row.

The limit beside them is one forward pass of each member's network, compiled, and nothing else.
"""

from typing import Any

import jax
import numpy as np
import optax

import ntkgp
from common import best_seconds, main
from ntkgp.networks.layers import Relu

N_TRAIN, N_MANY = 2000, 50_000


def run() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N_TRAIN, 8)), rng.normal(size=N_TRAIN)
    many, one = rng.normal(size=(N_MANY, 8)).astype(np.float32), rng.normal(size=(1, 8))
    net = ntkgp.mlp(8, width=128, activation=Relu())
    trainer = ntkgp.Descent(optax.adam(1e-3), epochs=1, batch_size=100)
    ensemble = ntkgp.fit(net, x, y, members=10, trainer=trainer)
    law = ntkgp.condition(net, x, y)
    forward = jax.jit(jax.vmap(net.apply, in_axes=(0, None)))
    runs = {
        "ensemble": (ensemble.predict, forward),
        "law, mean and variance": (law.predict, law.mean),
        "law, mean alone": (law.mean, law.mean),
    }
    rows = []
    for name, (predict, limit) in runs.items():
        calls = {}
        for batch, inputs in {
            "many": many[: N_MANY if name == "ensemble" else 5000],
            "one": one,
        }.items():
            calls[batch] = lambda f=predict, inputs=inputs: f(inputs)
            floor = (ensemble.theta, inputs) if name == "ensemble" else (inputs,)
            calls[f"{batch}, limit"] = lambda f=limit, floor=floor: np.asarray(f(*floor))
        seconds = best_seconds(calls)
        n = N_MANY if name == "ensemble" else 5000
        rows.append(
            {
                "prediction": name,
                "rows per second": n / seconds["many"],
                "seconds / limit, many rows": seconds["many"] / seconds["many, limit"],
                "milliseconds of one row": 1000 * seconds["one"],
            }
        )
    return rows


if __name__ == "__main__":
    main("prediction", run)
