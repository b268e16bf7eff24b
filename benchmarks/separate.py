"""Separate learners: the mean of a deep ensemble or a law, the doubt of NTKGP-param, beside each alone.

    python benchmarks/separate.py

Three UCI tables, their first splits; scikit-learn's digits, with letters for what is no digit; and 5,000 of
MNIST's images, with all of its test images and NotMNIST's. NTKGP_DATA or the cache must hold the tables,
MNIST and NotMNIST. All models have their defaults. NLL is in the units of the targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Records, run_and_write
from ntkgp import metrics


@dataclass(frozen=True)
class Sizes:
    splits: int = 2
    tables: tuple[str, ...] = ("uci/yacht", "uci/bostonHousing", "uci/energy")
    digits: int = 1797
    images: int = 5000
    """To train on, of MNIST; 0 for none."""
    members: int = 10
    depth: int = 2
    settings: tuple[tuple[str, Any], ...] = ()
    """What ensembles have other than by default, for --tiny."""


SIZES = Sizes()
TINY = Sizes(1, (), 60, 0, 2, 1, (("min_steps", 5), ("width", 4)))


def fitted(law: Any, ensemble: Any, x: Any, y: Any, sizes: Sizes, seed: int) -> dict[str, Any]:
    """Each model alone, trained once."""
    options = {"members": sizes.members, "depth": sizes.depth, "random_state": seed}
    options |= dict(sizes.settings)
    return {
        "law": law(depth=sizes.depth, random_state=seed).fit(x, y),
        "ntkgp-param": ensemble("ntkgp-param", **options).fit(x, y),
        "deep-ensemble": ensemble("deep-ensemble", **options).fit(x, y),
    }


def with_separate(models: dict[str, Any], separate: Any, x: Any, y: Any) -> dict[str, Any]:
    """The models, and those whose mean is one's and whose doubt is NTKGP-param's."""
    from sklearn.frozen import FrozenEstimator

    spread = FrozenEstimator(models["ntkgp-param"])
    return models | {
        f"mean of {name}": separate(FrozenEstimator(models[name]), spread).fit(x, y)
        for name in ("law", "deep-ensemble")
    }


def on_table(name: str, split: int, sizes: Sizes) -> dict[str, dict[str, float]]:
    import ntkgp

    table = ntkgp.data.load(name)
    train, test = (table.all.take(rows) for rows in table.folds[split])
    alone = fitted(ntkgp.GPRegressor, ntkgp.EnsembleRegressor, train.x, train.y, sizes, split)
    models = with_separate(alone, ntkgp.SeparateRegressor, train.x, train.y)
    found = {}
    for label, model in models.items():
        predicted = model.predict_dist(test.x)
        found[label] = {
            "nll": -float(np.mean(predicted.log_prob(test.y))),
            "error": metrics.rmse(test.y, predicted.mean),
            "90 % cover, or AUROC": metrics.interval_coverage(test.y, *predicted.interval(0.9)),
        }
    return found


def on_digits(split: int, sizes: Sizes) -> dict[str, dict[str, float]]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    import ntkgp

    x, y = (part[: sizes.digits] for part in load_digits(return_X_y=True))
    x, x_test, y, y_test = train_test_split(x, y, test_size=1 / 3, stratify=y, random_state=split)
    return on_classes((x, y), (x_test, y_test), ntkgp.data.load_letters().x, sizes, split)


def on_mnist(split: int, sizes: Sizes) -> dict[str, dict[str, float]]:
    import ntkgp

    digits, letters = ntkgp.data.load("mnist"), ntkgp.data.load("notmnist")
    rows = np.random.default_rng(split).permutation(len(digits.train.y))[: sizes.images]
    pairs = [(flat(part.x), part.y) for part in (digits.train.take(rows), digits.test)]
    return on_classes(*pairs, flat(letters.test.x), sizes, split)


def flat(images: NDArray[Any]) -> NDArray[Any]:
    return images.reshape(len(images), -1).astype(np.float32)


def on_classes(
    train: tuple[Any, Any], test: tuple[Any, Any], outside: Any, sizes: Sizes, seed: int
) -> dict[str, dict[str, float]]:
    import ntkgp

    alone = fitted(ntkgp.GPClassifier, ntkgp.EnsembleClassifier, *train, sizes, seed)
    models = with_separate(alone, ntkgp.SeparateClassifier, *train)
    return {label: scores_of_classes(model, *test, outside) for label, model in models.items()}


def scores_of_classes(
    model: Any, x: NDArray[Any], y: NDArray[Any], letters: NDArray[Any]
) -> dict[str, float]:
    inside, outside = model.predict_proba(x), model.predict_proba(letters)
    entropies = [metrics.predictive_entropy(p) for p in (inside, outside)]
    return {
        "nll": metrics.classification_nll(y, inside),
        "error": 1 - metrics.accuracy(y, inside),
        "90 % cover, or AUROC": metrics.auroc(*entropies),
    }


def run(sizes: Sizes) -> Records:
    found: Records = []
    pictures = {"digits": on_digits} | ({"mnist": on_mnist} if sizes.images else {})
    for name in (*sizes.tables, *pictures):
        runs = []
        measure = pictures.get(name, partial(on_table, name))
        for split in range(sizes.splits):
            scores = measure(split, sizes)
            print(name, split, scores, flush=True)
            runs.append(scores)
        found += [
            {"data": name, "model": label}
            | {
                score: float(np.mean([each[label][score] for each in runs]))
                for score in runs[0][label]
            }
            for label in runs[0]
        ]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("separate", __doc__, run, SIZES, TINY, arguments)


if __name__ == "__main__":
    main()
