"""Small tables with many columns: how often intervals of 90 and 95 % hold, and what cross-fitting adds.

    python benchmarks/coverage.py

Seven tables of scikit-learn, four random splits each, a quarter for testing. The regressor is
`GPRegressor(activation="erf")`, with standard deviations as they are learned, and with the factor by which
priors that were learned without a third of the rows were too sure of it. These tables were used to
choose that rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from common import Records, run_and_write
from ntkgp import metrics


@dataclass(frozen=True)
class Sizes:
    splits: int = 4
    tables: tuple[str, ...] = (
        "proline",
        "magnesium",
        "alcohol",
        "diabetes",
        "iris",
        "friedman",
        "smoothness",
    )
    depth: int = 2


SIZES = Sizes()
TINY = Sizes(1, ("iris",), 1)


def table(name: str) -> tuple[Any, Any]:
    from sklearn import datasets

    if name in ("proline", "magnesium", "alcohol"):
        wine = datasets.load_wine().data
        target = {"proline": 12, "magnesium": 4, "alcohol": 0}[name]
        return np.delete(wine, target, axis=1), wine[:, target]
    if name == "smoothness":
        cells = datasets.load_breast_cancer().data
        cells = cells[np.random.default_rng(0).permutation(len(cells))[:200]]
        return np.delete(cells, 4, axis=1)[:, :12], cells[:, 4]
    if name == "iris":
        iris = datasets.load_iris().data
        return iris[:, :3], iris[:, 3]
    if name == "friedman":
        return datasets.make_friedman1(150, 10, noise=1.0, random_state=0)
    return datasets.load_diabetes(return_X_y=True)


def scores(name: str, most_rows: int, sizes: Sizes) -> list[list[float]]:
    from sklearn.model_selection import ShuffleSplit

    from ntkgp import GPRegressor
    from ntkgp.estimators import cross_fitted

    x, y = table(name)
    found = []
    for train, test in ShuffleSplit(sizes.splits, test_size=0.25, random_state=11).split(x):
        before, cross_fitted.MOST_ROWS = cross_fitted.MOST_ROWS, most_rows
        started = perf_counter()
        try:
            model = GPRegressor(activation="erf", depth=sizes.depth, random_state=0)
            predicted = model.fit(x[train], y[train]).predict_dist(x[test])
        finally:
            cross_fitted.MOST_ROWS = before
        found.append(
            [
                metrics.interval_coverage(y[test], *predicted.interval(0.9)),
                metrics.interval_coverage(y[test], *predicted.interval(0.95)),
                -float(np.mean(predicted.log_prob(y[test]))),
                perf_counter() - started,
            ]
        )
    return found


def run(sizes: Sizes) -> Records:
    rows: Records = []
    for name in sizes.tables:
        for label, most_rows in (("as learned", 0), ("cross-fitted", 400)):
            values = np.mean(scores(name, most_rows, sizes), axis=0)
            columns = ("in 90 %", "in 95 %", "nll", "seconds")
            rows.append(
                {"table": name, "intervals": label} | dict(zip(columns, values, strict=True))
            )
            print(rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("coverage", __doc__, run, SIZES, TINY, arguments)


if __name__ == "__main__":
    main()
