"""Figure 1 and the ensemble-size figure: y = x sin x, every method beside every law."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import make_toy
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.trainers import Descent, GaussNewton, Trainer
from ntkgp.experiments.checks import check, check_known
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record, rounded
from ntkgp.experiments.toy.claims import DRAWN
from ntkgp.experiments.toy.report import report
from ntkgp.laws.exact import condition
from ntkgp.laws.table import LAWS
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.ready_made import mlp


@dataclass(frozen=True)
class ToyConfig:
    """Everything that determines a run (Section 4 and Appendix I.1)."""

    solver: str = "gauss-newton"
    """Or "gradient-descent", the paper's."""
    max_steps: int = 100
    """The limit of Gauss-Newton steps."""
    tolerance: float = 1e-5
    """A Gauss-Newton member stops when a step promises less than this fraction of its objective."""
    unregularised_tolerance: float = 2e-2
    """The same for deep ensembles. Only stopping keeps them from interpolating the noise: 50,000 steps of
    gradient descent stop long before that, and so does this."""
    gd_steps: int = 50_000
    learning_rate: float = 0.001
    members: int = 20
    repeats: int = 3
    """Independent ensembles of each method; ensemble r has seed r."""
    methods: tuple[str, ...] = (
        "deep-ensemble",
        "rp-param",
        "rp-fn",
        "ntkgp-param",
        "ntkgp-fn",
        "ntkgp-lin",
    )
    width: int = 512
    depth: int = 2
    w_std: float = 1.5
    b_std: float = 0.05
    noise_std: float = 0.1
    train_points: int = 20
    grid_points: int = 121
    data_seed: int = 0
    jitter: float = 1e-6
    """On the diagonal of the noise-free law's kernel matrix, which is singular to rounding."""

    def __post_init__(self) -> None:
        check(self, may_be_zero=("data_seed", "jitter", "b_std"))
        check_known("solver", [self.solver], ("gauss-newton", "gradient-descent"))
        check_members(self.members)


def check_members(members: int) -> None:
    if members < 2:
        raise ValueError(
            f"members must be at least 2, to have a standard deviation; got {members}."
        )


def make_data(config: ToyConfig) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Training inputs, noisy targets, and the test grid."""
    toy = make_toy(config.train_points, config.noise_std, config.grid_points, config.data_seed)
    return toy.train.x, toy.train.y, toy.test.x


def make_network(config: ToyConfig) -> LayeredNetwork:
    return mlp(1, width=config.width, depth=config.depth, w_std=config.w_std, b_std=config.b_std)


def make_trainer(config: ToyConfig, method: str) -> Trainer:
    """The preset's solver; methods with a closed form are solved by it in either preset."""
    if config.solver == "gauss-newton" or METHODS[method].linear:
        own = METHODS[method].takes_weight_decay
        tolerance = config.unregularised_tolerance if own else config.tolerance
        return GaussNewton(max_steps=config.max_steps, tolerance=tolerance)
    import optax

    return Descent(
        optax.sgd(config.learning_rate),
        epochs=config.gd_steps,
        evaluate_every=min(500, config.gd_steps),
    )


def train(
    config: ToyConfig, mark: Mark, members: int | list[int], training: dict[str, Any]
) -> Ensemble:
    """Members of the ensemble of a mark; `training` are options of `fit`."""
    x, y, _ = make_data(config)
    return fit(
        make_network(config),
        x,
        y,
        method=mark["method"],
        members=members,
        noise_std=config.noise_std,
        seed=mark["seed"],
        trainer=make_trainer(config, mark["method"]),
        members_at_once=1,  # their parameters then stay in the cache, which is faster here
        **training,
    )


def record(config: ToyConfig, mark: Mark, given: Given) -> Record:
    """Train one ensemble, and keep what its members say on the grid."""
    ensemble = train(config, mark, config.members, given.training)
    outputs = ensemble.outputs(make_data(config)[2])[:, :, 0]
    return {
        "law": METHODS[mark["method"]].law,
        "steps": ensemble.losses.shape[1],
        "failed": list(ensemble.failed),
        "objectives": rounded(ensemble.objectives * config.train_points / config.noise_std**2),
        **summary(outputs),
        "outputs": [rounded(f) for f in outputs],
    }


def summary(outputs: NDArray[Any]) -> dict[str, Any]:
    """Mean and standard deviation over members (k, grid); K - 1 in the denominator: no bias."""
    return {
        "members": len(outputs),
        "mean": rounded(outputs.mean(axis=0)),
        "std": rounded(outputs.std(axis=0, ddof=1)),
    }


def law_records(config: ToyConfig) -> dict[str, Any]:
    """What each law of Table 1 says on the grid."""
    x, y, grid = make_data(config)
    net = make_network(config)
    laws = {}
    for name, law in LAWS.items():
        jitter = 0.0 if law.noisy else config.jitter
        exact = condition(net, x, y, law=law, noise_std=config.noise_std, jitter=jitter)
        at_grid = exact.predict(grid)
        laws[name] = {
            "mean": rounded(at_grid.mean[:, 0]),
            "std": rounded(np.sqrt(at_grid.epistemic_var[:, 0])),
        }
    return laws


CONTENTS = {
    "noise_std": lambda config: config.noise_std,
    "x": lambda config: rounded(make_data(config)[0][:, 0]),
    "y": lambda config: rounded(make_data(config)[1][:, 0]),
    "grid": lambda config: rounded(make_data(config)[2][:, 0]),
    "laws": law_records,
}
"""The data, and the laws on the grid that figures are drawn over."""
TOY = Experiment(
    "toy",
    "Figure 1: the toy problem",
    {
        "laptop": ToyConfig(),
        "paper": ToyConfig(solver="gradient-descent", repeats=1),
        "demo": ToyConfig(methods=DRAWN),
    },
    marks=lambda config, data: [
        {"method": method, "seed": seed}
        for seed in range(config.repeats)
        for method in config.methods
    ],
    record=record,
    report=report,
    contents=CONTENTS,
    may_grow=("methods", "repeats"),
    readings=(
        "The loss is σ²/N times the sum that the paper writes, as in the authors' code, and so is "
        "the step of a learning rate.",
        "Deep ensembles have no weight decay, as in the authors' code.",
        "NTKGP-Lin is solved in closed form.",
    ),
)
