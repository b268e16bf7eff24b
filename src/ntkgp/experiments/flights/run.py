"""Flight delays under a shift in time (Figure 2, Appendix I.2)."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ntkgp.data import Split, complete_rows, load
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import COMPARED, METHODS
from ntkgp.ensembles.noise import LearnedNoise
from ntkgp.ensembles.trainers import Descent
from ntkgp.estimators.standardise import Scaler
from ntkgp.experiments.checks import check
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.flights.report import report
from ntkgp.experiments.results import Mark, Record, Results, rounded
from ntkgp.networks.layers import Relu
from ntkgp.networks.ready_made import mlp
from ntkgp.predictive import metrics
from ntkgp.predictive.distributions import Normal


@dataclass(frozen=True)
class FlightsConfig:
    """Everything that determines a run."""

    methods: tuple[str, ...] = COMPARED
    members: int = 5
    repeats: int = 10
    """Independent ensembles of each method; repeat r has seed r, and its own validation rows."""
    train_rows: int = 700_000
    """The first rows in time, those for validation among them."""
    validation_rows: int = 50_000
    window_starts: tuple[int, ...] = (700_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000)
    window_rows: int = 100_000
    epochs: int = 10
    batch_size: int = 100
    learning_rate: float = 0.001
    width: int = 100
    depth: int = 4
    w_std: float = 1.0
    b_std: float = 0.05
    weight_decay: float = 1e-4
    """For deep ensembles only."""

    def __post_init__(self) -> None:
        check(self, may_be_zero=("weight_decay", "b_std"))
        if not self.validation_rows < self.train_rows <= min(self.window_starts):
            raise ValueError(
                "validation_rows must be below train_rows, and no window may start "
                f"before train_rows; got {self.validation_rows}, {self.train_rows} and "
                f"{self.window_starts}."
            )


class Standardised(NamedTuple):
    """Rows in units of the training rows."""

    train: Split
    validation: Split
    windows: list[Split]
    minutes: float
    """One unit of the target."""


def load_rows(config: FlightsConfig) -> Split:
    """Complete rows in time, as many as the windows need."""
    rows = complete_rows(load("flights2008"))
    last = max(config.window_starts) + config.window_rows
    if len(rows.x) < last:
        raise ValueError(
            f"the test windows end at row {last:,}, and flights2008 here has {len(rows.x):,} complete "
            "rows: it is a part of the year. Use --preset laptop, or get the whole year."
        )
    return rows


def standardise(config: FlightsConfig, rows: Split, seed: int) -> Standardised:
    """Training, validation and test rows, by mean and deviation of the training rows."""
    order = np.random.default_rng(seed).permutation(config.train_rows)
    validation, train = order[: config.validation_rows], order[config.validation_rows :]
    inside = rows.take(train)
    x_scaler, y_scaler = Scaler.of("x", inside.x), Scaler.of("y", inside.y)

    def of(which: NDArray[Any] | slice) -> Split:
        part = rows.take(which)
        scaled = (x_scaler.apply("x", part.x), y_scaler.apply("y", part.y))
        return Split(*(values.astype(np.float32) for values in scaled))

    windows = [of(slice(start, start + config.window_rows)) for start in config.window_starts]
    return Standardised(of(train), of(validation), windows, y_scaler.std.item())


def record(config: FlightsConfig, mark: Mark, given: Given) -> Record:
    """Train one ensemble, and score it on every window and on all of them together."""
    import optax

    data = standardise(config, given.data, mark["repeat"])
    net = mlp(
        data.train.x.shape[1],
        2,
        width=config.width,
        depth=config.depth,
        activation=Relu(),
        w_std=config.w_std,
        b_std=config.b_std,
    )
    started = time.perf_counter()
    ensemble = fit(
        net,
        *data.train,
        method=mark["method"],
        members=config.members,
        seed=mark["repeat"],
        trainer=Descent(optax.adam(config.learning_rate), config.epochs, config.batch_size),
        validation=data.validation,
        weight_decay=config.weight_decay if METHODS[mark["method"]].takes_weight_decay else 0.0,
        noise=LearnedNoise(),
        **given.training,
    )
    training_seconds = time.perf_counter() - started
    predicted = [ensemble.predict(window.x).moment_matched() for window in data.windows]
    return {
        "training_seconds": round(training_seconds, 1),
        "failed": list(ensemble.failed),
        "epochs_used": (ensemble.validation_losses.argmin(axis=1) + 1).tolist(),
        "minutes": data.minutes,
        "windows": [
            {
                "nll": -float(np.mean(p.log_prob(window.y))),
                "rmse": metrics.rmse(window.y, p.mean[:, 0]),
            }
            for window, p in zip(data.windows, predicted, strict=True)
        ],
        **confidence_records(
            given.results, predicted, np.concatenate([window.y for window in data.windows])
        ),
    }


def confidence_records(axes: Results, predicted: list[Normal], y: NDArray[Any]) -> Record:
    """RMSE on the rows above each precision, and on the most confident shares, of all windows."""
    mean = np.concatenate([p.mean[:, 0] for p in predicted])
    std = np.concatenate([p.std[:, 0] for p in predicted])
    curve = metrics.error_vs_precision(y, mean, std, thresholds=axes["precision_thresholds"])
    squares = np.cumsum(((y - mean) ** 2)[np.argsort(std)])
    kept = np.maximum(1, np.round(np.array(axes["kept_shares"]) * len(y)).astype(int))
    return {
        "curve_errors": rounded(curve.errors),
        "curve_fractions": rounded(curve.fractions),
        "kept_errors": rounded(np.sqrt(squares[kept - 1] / kept)),
    }


FLIGHTS = Experiment(
    "flights",
    "Figure 2: flight delays",
    {
        "laptop": FlightsConfig(
            repeats=3, window_starts=(700_000, 1_000_000, 1_300_000, 1_600_000, 1_950_000)
        ),
        "paper": FlightsConfig(),
    },
    marks=lambda config, data: [
        {"method": method, "repeat": repeat}
        for repeat in range(config.repeats)
        for method in config.methods
    ],
    record=record,
    report=report,
    contents={
        # τ of the figure, in units of 1/variance of the standardised target
        "precision_thresholds": lambda config: rounded(np.geomspace(0.1, 1000, 81)),
        # shares of the most confident rows, whose error is recorded too
        "kept_shares": lambda config: rounded(np.arange(100, 0, -1) / 100),
    },
    may_grow=("methods", "repeats"),
    needs=("flights2008",),
    load=load_rows,
    readings=("σ(x) learns from the residuals of y, not y'.",),
)
