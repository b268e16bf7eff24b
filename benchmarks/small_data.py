"""Small problems from data to predictions, in seconds: Figure 1's, and tables of 300 and 1,000 rows.

Peers: scikit-learn's GaussianProcessRegressor with its hyperparameters fitted, and as many of its
MLPRegressors as our ensemble has members. Each has its own defaults, ours too. Times are of a
second fit in the same process, with what JAX compiled in the first; the first is beside it. The
peers, which compile nothing, fit once.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ntkgp
from common import main
from ntkgp.ensembles.trainers.default import decaying_adam

MEMBERS = 10


def toy() -> tuple[Any, Any]:
    train = ntkgp.data.load("toy").train
    return train.x, train.y.ravel()


def table(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 8))
    return x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(n)


def scikit_gp(x: Any, y: Any) -> None:
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y).predict(x, return_std=True)


def scikit_networks(x: Any, y: Any) -> None:
    for seed in range(MEMBERS):
        network = make_pipeline(
            StandardScaler(),
            MLPRegressor(hidden_layer_sizes=(128, 128), max_iter=500, random_state=seed),
        )
        TransformedTargetRegressor(network, transformer=StandardScaler()).fit(x, y).predict(x)


def ours(make: Callable[[], Any]) -> Callable[[Any, Any], None]:
    return lambda x, y: make().fit(x, y).predict(x, return_std=True)


def trained_by(trainer: Callable[[int], Any]) -> Callable[[Any, Any], None]:
    """The functional interface with either of its trainers, at the estimators' width."""

    def run(x: Any, y: Any) -> None:
        net = ntkgp.mlp(x.shape[1], width=128)
        ntkgp.fit(net, x, y, members=MEMBERS, trainer=trainer(len(x))).predict(x)

    return run


RUNS: dict[str, Callable[[Any, Any], None]] = {
    "EnsembleRegressor": ours(lambda: ntkgp.EnsembleRegressor(members=MEMBERS, random_state=0)),
    "GPRegressor": ours(lambda: ntkgp.GPRegressor(random_state=0)),
    "ntkgp.fit by Gauss-Newton": trained_by(lambda n: ntkgp.GaussNewton()),
    "ntkgp.fit by Adam": trained_by(decaying_adam),
    "scikit-learn's GaussianProcessRegressor": scikit_gp,
    f"{MEMBERS} of scikit-learn's MLPRegressor": scikit_networks,
}


def seconds_of(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def run() -> list[dict[str, Any]]:
    warnings.simplefilter("ignore")  # of peers that stop before they converge
    rows = []
    for name, (x, y) in {"toy": toy(), "table": table(300), "larger table": table(1000)}.items():
        first, last = {}, {}
        for model, fit in RUNS.items():
            first[model] = last[model] = seconds_of(partial(fit, x, y))
            if "scikit" not in model:  # which compiles nothing
                last[model] = seconds_of(partial(fit, x, y))
        for model, seconds in last.items():
            row = {"problem": f"{name}, {len(x)} rows", "model": model, "seconds": seconds}
            ratio = seconds / last["EnsembleRegressor"]
            rows.append(row | {"first": first[model], "seconds / EnsembleRegressor": ratio})
            print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main("small_data", run)
