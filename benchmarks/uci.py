"""Test RMSE and NLL on nine UCI regression sets, defaults only, beside published figures and peers.

Needs the nine sets with their standard splits: `ntkgp data get uci/yacht --from FOLDER` makes them all.

    python benchmarks/uci.py --out runs/uci [--sets yacht,energy] [--models ntkgp-param] [--splits 5]

One JSON file, written after every fit; a run that was stopped goes on where it was. Several
processes may share the work by different --sets or --models and different --out;
`--table runs/*/uci.json` prints one table of all of them.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import ntkgp
from ntkgp.data import load
from ntkgp.experiments import results
from ntkgp.metrics import gaussian_nll, rmse

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
GP_ROWS = 12_000  # exact Gaussian processes see this many training rows at the most
PEER_TUNING_ROWS = 1_000  # scikit-learn's GP tunes its kernel on as many rows as ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/uci"))
    parser.add_argument("--sets", default=",".join(PUBLISHED))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--table", type=Path, nargs="+", help="only print these results")
    options = parser.parse_args()
    if options.table:
        runs = [run for path in options.table for run in json.loads(path.read_text())["runs"]]
        print(table(runs))
        return
    path = options.out / "uci.json"
    state = {"experiment": "uci", "config": {}, "versions": results.versions(), "runs": []}
    if path.exists():
        state = results.load(path)
    done = {(run["set"], run["model"], run["split"]) for run in state["runs"]}
    for name in options.sets.split(","):
        data = load(f"uci/{name}")
        for model in options.models.split(","):
            for split, fold in enumerate(data.folds[: options.splits]):
                if (name, model, split) in done:
                    continue
                train, test = data.all.take(fold.train), data.all.take(fold.test)
                record = measure(model, *train, *test, split)
                state["runs"].append({"set": name, "model": model, "split": split} | record)
                results.save(path, state)
                print(name, model, split, record, flush=True)
    print(table(state["runs"]))


def measure(
    model: str,
    x: NDArray[Any],
    y: NDArray[Any],
    x_test: NDArray[Any],
    y_test: NDArray[Any],
    split: int,
) -> dict[str, Any]:
    """Test RMSE, NLL of the moment-matched normal, and seconds of fit and prediction together."""
    rows = np.arange(len(x))
    if model in ("ntkgp-law", "sklearn-gp") and len(x) > GP_ROWS:
        rows = np.random.default_rng(split).choice(len(x), GP_ROWS, replace=False)
    started = time.perf_counter()
    mean, std = PREDICT[model](model, x[rows], y[rows], x_test, split)
    return {
        "rmse": rmse(y_test, mean),
        "nll": gaussian_nll(y_test, mean, std),
        "rows": len(rows),
        "seconds": round(time.perf_counter() - started, 2),
    }


def ensemble(model: str, x: Any, y: Any, x_test: Any, seed: int) -> tuple[Any, Any]:
    fitted = ntkgp.EnsembleRegressor(model, random_state=seed).fit(x, y)
    return fitted.predict(x_test, return_std=True)


def law(model: str, x: Any, y: Any, x_test: Any, seed: int) -> tuple[Any, Any]:
    return ntkgp.GPRegressor("ntkgp", random_state=seed).fit(x, y).predict(x_test, return_std=True)


def sklearn_gp(model: str, x: Any, y: Any, x_test: Any, seed: int) -> tuple[Any, Any]:
    """One length scale, tuned by marginal likelihood on a subset, then conditioned on all rows."""
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


def table(runs: list[dict[str, Any]]) -> str:
    """Mean ± standard error over splits (their number), for NLL and RMSE.

    * where the mean, rounded to two decimals as published, is below the published figure.
    """
    blocks = []
    for index, metric in enumerate(("nll", "rmse")):
        lines = [
            f"| {metric} | published DE | " + " | ".join(MODELS) + " |",
            "|---" * (2 + len(MODELS)) + "|",
        ]
        for name, published in PUBLISHED.items():
            cells = [cell(runs, name, model, metric, published[index]) for model in MODELS]
            lines.append(f"| {name} | {published[index]:.2f} | " + " | ".join(cells) + " |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def cell(runs: list[dict[str, Any]], name: str, model: str, metric: str, published: float) -> str:
    values = [run[metric] for run in runs if (run["set"], run["model"]) == (name, model)]
    if not values:
        return ""
    digits = 5 if name.startswith("naval") and metric == "rmse" else 3
    star = "*" if round(np.mean(values), 2) < published else ""
    shown = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        shown += f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"
    return f"{shown} ({len(values)}){star}"


if __name__ == "__main__":
    main()
