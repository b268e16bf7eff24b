"""Classification on clean, noisy and unbalanced labels: our classifiers beside what people would pick.

    python benchmarks/labels.py

Each table is split five times at random, a quarter to test on. All models have their defaults, the same for
every table. The tables are scikit-learn's digits; its breast cancer with a fifth of the labels flipped; the
same with one malignant row in ten kept; and, if statsmodels is installed, its survey `fair`, whose answers
are noisy. NLL, accuracy and expected calibration error are means over splits, ± the standard error.
The last column is the NLL over that of the better peer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Records, run_and_write, seconds_of
from ntkgp import metrics


@dataclass(frozen=True)
class Sizes:
    splits: int = 5
    rows: int = 100_000
    members: int = 10
    min_steps: int = 2000
    depth: int = 2
    tables: tuple[str, ...] = ("digits", "flipped", "unbalanced", "fair")


SIZES = Sizes()
TINY = Sizes(splits=1, rows=60, members=2, min_steps=5, depth=1, tables=("flipped",))


# Tables: rows and labels from 0


def digits(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def flipped(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return x, np.where(rng.uniform(size=len(y)) < 0.2, 1 - y, y)


def unbalanced(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    kept = (y == 1) | (rng.uniform(size=len(y)) < 0.1)
    return x[kept], y[kept]


def fair(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Whether someone had an affair, of 1,500 people drawn from the survey of 6,366."""
    from statsmodels.datasets import fair as survey

    table = survey.load_pandas().data
    rows = rng.permutation(len(table))[:1500]
    x = table.drop(columns="affairs").to_numpy(float)
    return x[rows], (table["affairs"].to_numpy() > 0).astype(int)[rows]


TABLES: dict[str, Callable[..., tuple[NDArray[Any], NDArray[Any]]]] = {
    "digits": digits,
    "flipped": flipped,
    "unbalanced": unbalanced,
    "fair": fair,
}


# Models


def models(sizes: Sizes, seed: int) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import ntkgp

    shared = {"depth": sizes.depth, "random_state": seed}
    of_ensemble = {"members": sizes.members, "min_steps": sizes.min_steps, **shared}
    return {
        "law": ntkgp.GPClassifier(**shared),
        "ntkgp-param": ntkgp.EnsembleClassifier(**of_ensemble),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        "forest": RandomForestClassifier(500, random_state=seed),
    }


PEERS = ("logistic", "forest")


def measure(model: Any, x: NDArray[Any], y: NDArray[Any], seed: int) -> dict[str, float]:
    rows = np.random.default_rng(seed).permutation(len(x))
    test, train = rows[: len(rows) // 4], rows[len(rows) // 4 :]
    seconds = seconds_of(lambda: model.fit(x[train], y[train]))
    # A forest may give a class probability 0: one in 10,000 at least, for all alike.
    probabilities = np.clip(model.predict_proba(x[test]), 1e-4, 1)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return {
        "nll": metrics.classification_nll(y[test], probabilities),
        "accuracy": metrics.accuracy(y[test], probabilities),
        "ece": metrics.expected_calibration_error(y[test], probabilities),
        "seconds": seconds,
    }


def run(sizes: Sizes) -> Records:
    found: Records = []
    for name in sizes.tables:
        if name == "fair" and find_spec("statsmodels") is None:
            print("left out, because statsmodels is not installed: fair")
            continue
        x, y = TABLES[name](np.random.default_rng(0))
        x, y = x[: sizes.rows], y[: sizes.rows]
        found += table_of(name, x, y, sizes)
    return found


def table_of(name: str, x: NDArray[Any], y: NDArray[Any], sizes: Sizes) -> Records:
    scores = {
        model: [measure(models(sizes, s)[model], x, y, s) for s in range(sizes.splits)]
        for model in models(sizes, 0)
    }
    nll = {model: np.mean([each["nll"] for each in of]) for model, of in scores.items()}
    best_peer = min(nll[peer] for peer in PEERS)
    return [
        {"table": name, "model": model}
        | {score: shown([each[score] for each in of]) for score in ("nll", "accuracy", "ece")}
        | {"seconds": float(np.mean([each["seconds"] for each in of]))}
        | {"nll / best peer's": float(nll[model] / best_peer)}
        for model, of in scores.items()
    ]


def shown(values: Sequence[float]) -> str:
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values):.3f} ± {error:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("labels", __doc__, run, SIZES, TINY, arguments)


if __name__ == "__main__":
    main()
