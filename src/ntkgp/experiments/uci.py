"""Test RMSE and NLL on nine UCI regression sets, defaults only, beside published figures and peers.

The paper has no such table; Lakshminarayanan et al. (2017), whose deep ensembles it extends, has.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntkgp.data import Dataset, Split, load
from ntkgp.experiments.checks import check, check_known
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record, Results, found
from ntkgp.predictive.metrics import gaussian_nll, rmse
from ntkgp.report.intervals import interval
from ntkgp.report.section import Section
from ntkgp.report.tables import table

PUBLISHED = {  # deep ensembles of Lakshminarayanan et al. (2017): NLL, RMSE
    "bostonHousing": (2.41, 3.28),
    "concrete": (3.06, 6.03),
    "energy": (1.38, 2.09),
    "kin8nm": (-1.20, 0.09),
    "naval-propulsion-plant": (-5.63, 0.00),
    "power-plant": (2.79, 4.11),
    "protein-tertiary-structure": (2.83, 4.71),
    "wine-quality-red": (0.94, 0.64),
    "yacht": (1.18, 1.58),
}
MODELS = ("ntkgp-law", "ntkgp-param", "rp-param", "deep-ensemble", "sklearn-gp", "forest")
PEER_TUNING_ROWS = 1_000  # scikit-learn's GP tunes its kernel on as many rows as ours


@dataclass(frozen=True)
class UciConfig:
    """Everything that determines a run; all models have their defaults."""

    sets: tuple[str, ...] = tuple(PUBLISHED)
    models: tuple[str, ...] = MODELS
    splits: int = 20
    """How many of the standard splits; protein has only 5."""
    gp_rows: int = 12_000
    """The most training rows for exact Gaussian processes."""

    def __post_init__(self) -> None:
        check(self)
        check_known("sets", self.sets, PUBLISHED)
        check_known("models", self.models, MODELS)


Tables = dict[str, Dataset]


def marks(config: UciConfig, tables: Tables) -> list[Mark]:
    return [
        {"set": name, "model": model, "split": split}
        for name, table in tables.items()
        for model in config.models
        for split in range(min(config.splits, len(table.folds)))
    ]


def record(config: UciConfig, mark: Mark, given: Given) -> Record:
    """Fit one model to one split."""
    table = given.data[mark["set"]]
    fold = table.folds[mark["split"]]
    train, test = table.all.take(fold.train), table.all.take(fold.test)
    return measure(mark["model"], config.gp_rows, train, test, mark["split"])


def measure(model: str, gp_rows: int, train: Split, test: Split, split: int) -> Record:
    """Test RMSE, and NLL of the moment-matched normal."""
    rows = np.arange(len(train.x))
    if model in ("ntkgp-law", "sklearn-gp") and len(rows) > gp_rows:
        rows = np.random.default_rng(split).choice(len(rows), gp_rows, replace=False)
    mean, std = PREDICT[model](model, *train.take(rows), test.x, split)
    return {
        "rmse": rmse(test.y, mean),
        "nll": gaussian_nll(test.y, mean, std),
        "rows": len(rows),
    }


def ensemble(model: str, x: Any, y: Any, x_test: Any, seed: int) -> Any:
    from ntkgp.estimators.ensemble_regressor import EnsembleRegressor

    fitted = EnsembleRegressor(model, random_state=seed).fit(x, y)
    return fitted.predict(x_test, return_std=True)


def law(model: str, x: Any, y: Any, x_test: Any, seed: int) -> Any:
    from ntkgp.estimators.gp_regressor import GPRegressor

    return GPRegressor("ntkgp", random_state=seed).fit(x, y).predict(x_test, return_std=True)


def sklearn_gp(model: str, x: Any, y: Any, x_test: Any, seed: int) -> tuple[Any, Any]:
    """One length scale, tuned by marginal likelihood on a subset, then conditioned on all rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    mean, std = x.mean(axis=0), x.std(axis=0)
    std[std == 0] = 1
    x, x_test = (x - mean) / std, (x_test - mean) / std
    rows = np.random.default_rng(seed).permutation(len(x))[:PEER_TUNING_ROWS]
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hyperparameters at their bounds
        tuned = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[rows], y[rows])
        final = GaussianProcessRegressor(tuned.kernel_, optimizer=None, normalize_y=True).fit(x, y)
    return final.predict(x_test, return_std=True)


def forest(model: str, x: Any, y: Any, x_test: Any, seed: int) -> tuple[Any, Any]:
    """500 trees, with one noise level from the out-of-bag residuals."""
    from sklearn.ensemble import RandomForestRegressor

    fitted = RandomForestRegressor(500, oob_score=True, random_state=seed).fit(x, y)
    std = np.sqrt(np.mean((y - fitted.oob_prediction_) ** 2))
    return fitted.predict(x_test), np.full(len(x_test), std)


PREDICT = {
    "ntkgp-law": law,
    "ntkgp-param": ensemble,
    "rp-param": ensemble,
    "deep-ensemble": ensemble,
    "sklearn-gp": sklearn_gp,
    "forest": forest,
}


NOTE = (
    "±: 95 % confidence interval over splits (their number). * where the mean, rounded as published, is "
    "below the published figure of deep ensembles (Lakshminarayanan et al., 2017)."
)


def report(results: Results) -> Section:
    """Tables of NLL and RMSE; there is no figure."""
    tables = [score_table(results, score, i) for i, score in enumerate(("nll", "rmse"))]
    return Section("\n\n".join(tables) + f"\n{NOTE}")


def score_table(results: Results, score: str, index: int) -> str:
    models = dict.fromkeys(run["model"] for run in results["runs"])
    return table(
        [
            {score.upper(): name, "published": f"{published[index]:.2f}"}
            | {model: cell(results, name, model, score, published[index]) for model in models}
            for name, published in results["published"].items()
            if found(results["runs"], {"set": name})
        ]
    )


def cell(results: Results, name: str, model: str, score: str, published: float) -> str:
    values = [run[score] for run in found(results["runs"], {"set": name, "model": model})]
    if not values:
        return ""
    digits = 5 if name.startswith("naval") and score == "rmse" else 3
    own = interval(values)
    star = "*" if round(own.mean, 2) < published else ""
    return f"{own.shown(digits)} ({len(values)}){star}"


UCI = Experiment(
    "uci",
    "Nine UCI regression sets",
    {
        "laptop": UciConfig(
            sets=("bostonHousing", "concrete", "energy", "wine-quality-red", "yacht"),
            models=tuple(model for model in MODELS if model != "forest"),
            splits=3,
        ),
        "paper": UciConfig(),
    },
    marks=marks,
    record=record,
    report=report,
    contents={"published": lambda config: PUBLISHED},
    may_grow=("sets", "models", "splits"),
    needs=("uci/yacht",),  # all nine are in one file
    load=lambda config: {name: load(f"uci/{name}") for name in config.sets},
)
