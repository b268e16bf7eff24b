"""Intervals and sets of 90 %: how often they hold, and how wide they are, over random splits.

    python benchmarks/conformal.py              # minutes
    python benchmarks/conformal.py --learn      # the regressor learns its prior, as by default; an hour

Models are `GPRegressor(optimizer=None)` on tables and `GPClassifier()` on scikit-learn's digits. Seed
s is the split, a quarter of the rows for testing, and the estimators' random_state.

own         the model's own intervals; it is fitted on all training rows
conformal   the same model in `ConformalRegressor` or `ConformalClassifier`: a fifth of the training
            rows calibrates, the model is fitted on the others

The model's own sets are the fewest classes with 90 % of its probability. The width of a set is the
number of its classes; that of an interval is in the unit of the target. Two tables are of UCI, which
NTKGP_DATA or the cache must hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

import ntkgp
from common import Records, options_of, parsed, write
from ntkgp import ConformalClassifier, ConformalRegressor, GPClassifier, GPRegressor, metrics


@dataclass(frozen=True)
class Sizes:
    tables: tuple[str, ...] = ("diabetes", "uci/concrete", "uci/yacht")
    splits: int = 20
    digits: int = 1797
    rows: int = 100_000
    """At most so many of a table."""
    level: float = 0.9
    optimizer: str | None = None
    depth: int = 2


TINY = Sizes(tables=("diabetes",), splits=2, digits=100, rows=60, depth=1)


class Outcome(NamedTuple):
    """Of one split."""

    coverage: float
    width: float


def run(sizes: Sizes) -> Records:
    rows = []
    for name in (*sizes.tables, "digits"):
        outcome = on_digits if name == "digits" else on_table
        outcomes = []
        for seed in range(sizes.splits):
            outcomes.append(outcome(name, seed, sizes))
            print(name, seed, outcomes[-1], flush=True)
        rows += summary(name, outcomes)
    return rows


def summary(name: str, outcomes: list[dict[str, Outcome]]) -> Records:
    """Means over splits, with the standard error of the coverage."""
    own = np.mean([each["own"].width for each in outcomes])
    rows = []
    for kind in outcomes[0]:
        coverage, width = np.transpose([each[kind] for each in outcomes])
        rows.append(
            {
                "data": name,
                "intervals": kind,
                "coverage": float(np.mean(coverage)),
                "its standard error": float(np.std(coverage, ddof=1) / np.sqrt(len(coverage))),
                "width": float(np.mean(width)),
                "width / own": float(np.mean(width) / own),
            }
        )
    return rows


def on_table(name: str, seed: int, sizes: Sizes) -> dict[str, Outcome]:
    x, y = load_diabetes(return_X_y=True) if name == "diabetes" else ntkgp.data.load(name).all
    x, x_test, y, y_test = train_test_split(
        x[: sizes.rows], y[: sizes.rows], test_size=0.25, random_state=seed
    )
    model = GPRegressor(optimizer=sizes.optimizer, depth=sizes.depth, random_state=seed)
    conformal = ConformalRegressor(model, random_state=seed).fit(x, y)
    ends = {
        "own": model.fit(x, y).predict(x_test, interval=sizes.level),
        "conformal": conformal.predict_interval(x_test, sizes.level),
    }
    return {
        kind: Outcome(metrics.interval_coverage(y_test, low, high), float(np.mean(high - low)))
        for kind, (low, high) in ends.items()
    }


def on_digits(name: str, seed: int, sizes: Sizes) -> dict[str, Outcome]:
    x, labels = (part[: sizes.digits] for part in load_digits(return_X_y=True))
    x, x_test, labels, truth = train_test_split(
        x, labels, test_size=0.25, stratify=labels, random_state=seed
    )
    model = GPClassifier(depth=sizes.depth, random_state=seed)
    sets = {"own": own_sets(model.fit(x, labels).predict_proba(x_test), sizes.level)}
    for method in ("lac", "aps"):
        conformal = ConformalClassifier(model, method=method, random_state=seed).fit(x, labels)
        sets[f"conformal, {method}"] = conformal.predict_set(x_test, sizes.level)
    return {
        kind: Outcome(metrics.set_coverage(truth, each), metrics.mean_set_size(each))
        for kind, each in sets.items()
    }


def own_sets(p: NDArray[Any], level: float) -> NDArray[np.bool_]:
    """The fewest classes that have the probability `level`."""
    order = np.argsort(-p, axis=1)
    sums = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1)
    needed = np.pad(sums[:, :-1] < level, ((0, 0), (1, 0)), constant_values=True)
    return np.take_along_axis(needed, np.argsort(order, axis=1), axis=1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--learn", action="store_true", help="learn the prior of the regressor")
    options = parsed(parser, arguments)
    sizes = TINY if options.tiny else Sizes()
    if options.learn:
        sizes = replace(sizes, optimizer="fmin_l_bfgs_b")
    write("conformal", run(sizes), sizes, options.out)


if __name__ == "__main__":
    main()
