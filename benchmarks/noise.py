"""Noise models on real tables: constant, varying with x, heavy tails, and the network's own second output.

    python benchmarks/noise.py
    python benchmarks/noise.py --laws    # the exact laws alone, in minutes

The first splits of UCI tables, which NTKGP_DATA or the cache must hold, and a made-up table whose noise
varies tenfold. All settings are defaults. NLL is in the units of the targets; *nll - constant's* is the
mean difference to constant noise on the same splits, ± its standard error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Records, options_of, parsed, seconds_of, write
from ntkgp import metrics


@dataclass(frozen=True)
class Sizes:
    splits: int = 3
    tables: tuple[str, ...] = (
        "made-up",
        "uci/yacht",
        "uci/bostonHousing",
        "uci/energy",
        "uci/concrete",
    )
    members: int = 10
    min_steps: int = 4000
    rows: int = 100_000
    laws_only: bool = False
    settings: tuple[tuple[str, Any], ...] = ()
    """What models have other than by default, for --tiny."""


SIZES = Sizes()
TINY = Sizes(
    splits=1,
    tables=("made-up",),
    members=2,
    min_steps=5,
    rows=30,
    settings=(("activation", "erf"), ("depth", 1)),
)


def models(sizes: Sizes, seed: int) -> dict[str, Any]:
    import ntkgp

    shared = {"random_state": seed, **dict(sizes.settings)}
    of_ensemble = {"members": sizes.members, "min_steps": sizes.min_steps, **shared}
    noises = {"varying": ntkgp.VaryingNoise(), "heavy tails": ntkgp.HeavyTails()}
    laws = {
        f"law, {name}": ntkgp.GPRegressor(noise=noise, **shared)
        for name, noise in ({"constant": None} | noises).items()
    }
    if sizes.laws_only:
        return laws
    second_output = {"second output": ntkgp.LearnedNoise()}
    ensembles = {
        f"ntkgp-param, {name}": ntkgp.EnsembleRegressor(noise=noise, **of_ensemble)
        for name, noise in ({"constant": None, **noises, **second_output}).items()
    }
    return laws | ensembles


def made_up(split: int) -> tuple[NDArray[Any], ...]:
    """300 rows to train on and 1,000 to test on; the noise grows tenfold along one column."""
    rng = np.random.default_rng(split)
    x = rng.uniform(-1, 1, size=(1300, 4))
    y = np.sin(3 * x[:, 0]) + x[:, 1] + 0.3 * 10 ** (x[:, 2] / 2) * rng.standard_normal(1300)
    return x[:300], y[:300], x[300:], y[300:]


def data_of(name: str, split: int) -> tuple[NDArray[Any], ...]:
    if name == "made-up":
        return made_up(split)
    from ntkgp.data import load

    table = load(name)
    train, test = (table.all.take(rows) for rows in table.folds[split])
    return train.x, train.y, test.x, test.y


def measure(model: Any, name: str, split: int, sizes: Sizes) -> dict[str, float]:
    x, y, x_test, y_test = data_of(name, split)
    seconds = seconds_of(lambda: model.fit(x[: sizes.rows], y[: sizes.rows]))
    predicted = model.predict_dist(x_test)
    return {
        "nll": -float(np.mean(predicted.log_prob(y_test))),
        "rmse": metrics.rmse(y_test, predicted.mean),
        "90 % cover": metrics.interval_coverage(y_test, *predicted.interval(0.9)),
        "seconds": seconds,
    }


def run(sizes: Sizes) -> Records:
    found: Records = []
    for name in sizes.tables:
        scores: dict[str, list[dict[str, float]]] = {}
        for split in range(sizes.splits):
            for label, model in models(sizes, split).items():
                scores.setdefault(label, []).append(measure(model, name, split, sizes))
                print(name, split, label, scores[label][-1], flush=True)
        found += [
            {"table": name, "model": label}
            | {score: float(np.mean([each[score] for each in of])) for score in of[0]}
            | {"nll - constant's": difference(of, scores[f"{label.split(',')[0]}, constant"])}
            for label, of in scores.items()
        ]
    return found


def difference(of: Sequence[dict[str, float]], constant: Sequence[dict[str, float]]) -> str:
    values = [a["nll"] - b["nll"] for a, b in zip(of, constant, strict=True)]
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return f"{np.mean(values):+.3f} ± {error:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--laws", action="store_true", help="leave the ensembles out")
    options = parsed(parser, arguments)
    sizes = replace(TINY if options.tiny else SIZES, laws_only=options.laws)
    write("noise", run(sizes), sizes, options.out)


if __name__ == "__main__":
    main()
