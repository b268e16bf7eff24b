"""Small problems from data to predictions, in seconds: Figure 1's, and tables of 300 and 1,000 rows.

Peers: scikit-learn's GaussianProcessRegressor with its hyperparameters fitted, and as many of its
MLPRegressors as our ensemble has members. Each has its own defaults, ours too. Times are of a
second fit in the same process, with what JAX compiled in the first; the first is beside it. The
peers, which compile nothing, fit once.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from common import Records, compile_anew, run_and_write, seconds_of
from ntkgp.ensembles.trainers.default import decaying_adam


@dataclass(frozen=True)
class Sizes:
    tables: tuple[int, ...] = (300, 1000)
    """Rows of the tables beside Figure 1's problem."""
    problems: int = 3
    """How many of them all are run."""
    members: int = 10
    width: int = 128
    max_iter: int = 500
    """Of the networks of scikit-learn."""
    gauss_newton_steps: int = int(ntkgp.GaussNewton().max_steps)
    adam: Mapping[str, int] = field(default_factory=dict)
    """What our steps of Adam have other than by default."""
    activation: str = "auto"
    """Of our estimators."""
    depth: int = 2


TINY = Sizes(
    tables=(12,),
    problems=1,
    members=2,
    width=2,
    max_iter=1,
    gauss_newton_steps=1,
    adam={"min_steps": 1, "min_epochs": 1},
    activation="relu",
    depth=1,
)


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


def scikit_networks(sizes: Sizes, x: Any, y: Any) -> None:
    for seed in range(sizes.members):
        network = MLPRegressor(
            hidden_layer_sizes=(sizes.width,) * sizes.depth,
            max_iter=sizes.max_iter,
            random_state=seed,
        )
        network = make_pipeline(StandardScaler(), network)
        TransformedTargetRegressor(network, transformer=StandardScaler()).fit(x, y).predict(x)


def ensemble(sizes: Sizes, x: Any, y: Any) -> None:
    model = ntkgp.EnsembleRegressor(
        members=sizes.members,
        width=sizes.width,
        depth=sizes.depth,
        activation=sizes.activation,
        random_state=0,
        **sizes.adam,
    )
    model.fit(x, y).predict(x, return_std=True)


def law(sizes: Sizes, x: Any, y: Any) -> None:
    model = ntkgp.GPRegressor(depth=sizes.depth, activation=sizes.activation, random_state=0)
    model.fit(x, y).predict(x, return_std=True)


def by_gauss_newton(sizes: Sizes, x: Any, y: Any) -> None:
    by_trainer(ntkgp.GaussNewton(max_steps=sizes.gauss_newton_steps), sizes, x, y)


def by_adam(sizes: Sizes, x: Any, y: Any) -> None:
    by_trainer(decaying_adam(len(x), **sizes.adam), sizes, x, y)


def by_trainer(trainer: ntkgp.Trainer, sizes: Sizes, x: Any, y: Any) -> None:
    """The functional interface, with the estimators' width and depth."""
    net = ntkgp.mlp(x.shape[1], width=sizes.width, depth=sizes.depth)
    ntkgp.fit(net, x, y, members=sizes.members, trainer=trainer).predict(x)


OURS: dict[str, Callable[[Sizes, Any, Any], None]] = {
    "EnsembleRegressor": ensemble,
    "GPRegressor": law,
    "ntkgp.fit by Gauss-Newton": by_gauss_newton,
    "ntkgp.fit by Adam": by_adam,
}


def run(sizes: Sizes) -> Records:
    ours = {name: partial(fit, sizes) for name, fit in OURS.items()}
    peers: dict[str, Callable[[Any, Any], None]] = {
        "scikit-learn's GaussianProcessRegressor": scikit_gp,
        f"{sizes.members} of scikit-learn's MLPRegressor": partial(scikit_networks, sizes),
    }
    problems = [("table", *table(n)) for n in sizes.tables] + [("toy", *toy())]
    rows: Records = []
    for name, x, y in problems[: sizes.problems]:
        first = {model: seconds_of(partial(fit, x, y)) for model, fit in ours.items()}
        again = {model: seconds_of(partial(fit, x, y)) for model, fit in ours.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers that stop before they converge
            once = {model: seconds_of(partial(fit, x, y)) for model, fit in peers.items()}
        for model, seconds in (again | once).items():
            rows.append(
                {
                    "problem": f"{name}, {len(x)} rows",
                    "model": model,
                    "seconds": seconds,
                    "first": (first | once)[model],
                    "seconds / EnsembleRegressor": seconds / again["EnsembleRegressor"],
                }
            )
            print(rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    compile_anew()
    run_and_write("small_data", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
