"""Regression on tables: our models beside what people would pick instead, in and out of distribution.

    python benchmarks/tables.py                       # all; goes on where it was stopped
    python benchmarks/tables.py --sets energy yacht --models law ntkgp-param --splits 2
    python benchmarks/tables.py --draw-only           # the tables from the results file
    python benchmarks/tables.py --file airfoil_self_noise.dat --kinds standard    # a table of your own

Nine UCI sets, which NTKGP_DATA or the cache must hold, and three kinds of splits of each:

standard  the first 5 of the random splits that papers compare on, 2 of protein
gap       for each input the middle third of its order is the test set (Foong et al., 2019)
tail      for each input the outer sixths are the test set

A file has numbers only, separated by commas or spaces, and its target in the last column; its standard
splits are drawn at random, a tenth for testing.

Gap and tail splits are many, so there all models train on the same 1,000 rows at most, drawn at random.

All models have their defaults, the same for every set; nothing is chosen by test rows. The tables are
averages over the splits that all of our models with constant noise have, their number in brackets; fewer
of another model stand behind its figure. A model is behind another if its NLL is higher by more than the
standard error of their difference over the splits that both have. NLL, CRPS and the 90 % interval are
those of a normal with the model's mean and standard deviation. Peers come with
`pip install 'ntkgp[bench]'`; one that is not installed is left out, and named.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ntkgp
from common import options_of, parsed
from ntkgp import metrics
from ntkgp.core.files import replacing
from ntkgp.data import Dataset, Fold, Split, load
from ntkgp.experiments import results

Floats = NDArray[np.floating[Any]]
Predicted = tuple[Floats, Floats]
"""Mean and standard deviation of an observation at each test row."""
Key = tuple[str, str, int, str]
"""Set, kind of split, its number, model."""

PUBLISHED = {  # NLL of deep ensembles (Lakshminarayanan et al., 2017), standard splits
    "bostonHousing": 2.41,
    "concrete": 3.06,
    "energy": 1.38,
    "kin8nm": -1.20,
    "naval-propulsion-plant": -5.63,
    "power-plant": 2.79,
    "protein-tertiary-structure": 2.83,
    "wine-quality-red": 0.94,
    "yacht": 1.18,
}
KINDS = ("standard", "gap", "tail")
SCORES = ("nll", "crps", "rmse", "coverage", "seconds")
SHIFTED_ROWS = 1_000
"""The most training rows of a gap or tail split."""


# Models: (x, y, x_test, seed) to a mean and a standard deviation


def law(x: Floats, y: Floats, x_test: Floats, seed: int, **settings: Any) -> Predicted:
    model = ntkgp.GPRegressor(random_state=seed, **settings)
    return model.fit(x, y).predict(x_test, return_std=True)


def ensemble(method: str, noise: Any = None) -> "Predict":
    def predict(x: Floats, y: Floats, x_test: Floats, seed: int, **settings: Any) -> Predicted:
        model = ntkgp.EnsembleRegressor(method, noise=noise, random_state=seed, **settings)
        return model.fit(x, y).predict(x_test, return_std=True)

    return predict


TUNED_ROWS = 2_000
"""The most rows that scikit-learn's Gaussian process is tuned on."""


def relevance_gp(x: Floats, y: Floats, x_test: Floats, seed: int) -> Predicted:
    """scikit-learn's Gaussian process with a length scale for each input.

    Its kernel is tuned on all rows, or on `TUNED_ROWS` of them at random; then it conditions on all.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    x, x_test = scaler.transform(x), scaler.transform(x_test)
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1]), (1e-2, 1e4)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    tuned = drawn(np.arange(len(x)), TUNED_ROWS, seed)
    kernel = process.fit(x[tuned], y[tuned]).kernel_
    process = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True)
    return process.fit(x, y).predict(x_test, return_std=True)


def forest(x: Floats, y: Floats, x_test: Floats, seed: int) -> Predicted:
    """500 trees, with one noise level from the out-of-bag residuals."""
    from sklearn.ensemble import RandomForestRegressor

    fitted = RandomForestRegressor(500, oob_score=True, random_state=seed, n_jobs=-1).fit(x, y)
    std = np.sqrt(np.mean((y - fitted.oob_prediction_) ** 2))
    return fitted.predict(x_test), np.full(len(x_test), std)


def catboost(x: Floats, y: Floats, x_test: Floats, seed: int) -> Predicted:
    """CatBoost's own uncertainty: a mean and a variance for each row, and virtual ensembles."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        posterior_sampling=True,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    ).fit(x, y)
    mean, knowledge, data = model.virtual_ensembles_predict(
        x_test, prediction_type="TotalUncertainty", virtual_ensembles_count=10
    ).T
    return mean, np.sqrt(knowledge + data)


def ngboost(x: Floats, y: Floats, x_test: Floats, seed: int) -> Predicted:
    from ngboost import NGBRegressor

    normal = NGBRegressor(random_state=seed, verbose=False).fit(x, y).pred_dist(x_test)
    return normal.params["loc"], normal.params["scale"]


def bde(x: Floats, y: Floats, x_test: Floats, seed: int) -> Predicted:
    """sklearn-contrib's Bayesian deep ensembles, by MCMC, on standardised data.

    Its defaults, 2 members and 10 samples, are for a first look.
    """
    from bde import BdeRegressor
    from sklearn.preprocessing import StandardScaler

    inputs, targets = StandardScaler().fit(x), StandardScaler().fit(y[:, None])
    model = BdeRegressor(
        n_members=10,
        hidden_layers=[16, 16],
        epochs=200,
        patience=10,
        warmup_steps=5000,
        n_samples=2000,
        seed=seed,
    ).fit(inputs.transform(x), targets.transform(y[:, None])[:, 0])
    mean, std = model.predict(inputs.transform(x_test), mean_and_std=True)
    return mean * targets.scale_ + targets.mean_, std * targets.scale_


Predict = Callable[..., Predicted]


class Model(NamedTuple):
    predict: Predict
    ours: bool = True
    needs: str = "sklearn"
    """The module without which it is left out."""
    most_rows: int = 100_000
    """The most rows that it is fitted to, drawn at random from larger training sets."""
    sets: tuple[str, ...] = tuple(PUBLISHED)
    """Those of the nine that it is fitted to."""
    leads: bool = False
    """Whether tables are of the splits that it and the others like it have."""


MODELS = {
    "law": Model(law, leads=True),
    "ntkgp-param": Model(ensemble("ntkgp-param"), leads=True),
    "rp-param": Model(ensemble("rp-param"), leads=True),
    "deep-ensemble": Model(ensemble("deep-ensemble"), leads=True),
    "ntkgp-param, σ(x)": Model(ensemble("ntkgp-param", ntkgp.LearnedNoise())),
    "ARD GP": Model(relevance_gp, ours=False, most_rows=12_000),
    "CatBoost": Model(catboost, ours=False, needs="catboost"),
    "NGBoost": Model(ngboost, ours=False, needs="ngboost"),
    "forest": Model(forest, ours=False),
    "bde": Model(bde, ours=False, needs="bde", sets=("energy", "yacht")),
}


# Splits


@dataclass(frozen=True)
class Sizes:
    splits: int = 5
    splits_of_protein: int = 2
    inputs: int | None = None
    """How many inputs have gap and tail splits; None for all."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What models have other than by default, for --tiny."""


_SMALL = {"members": 2, "width": 4, "depth": 1, "activation": "erf", "min_steps": 5}
TINY = Sizes(
    splits=1,
    inputs=1,
    settings={"ntkgp-param": _SMALL, "law": {"activation": "erf", "depth": 1}},
)


def folds(table: Dataset, kind: str, sizes: Sizes) -> list[Fold]:
    """The splits of one kind."""
    if kind == "standard":
        large = table.name == "uci/protein-tertiary-structure"
        most = min(sizes.splits, sizes.splits_of_protein) if large else sizes.splits
        return list(table.folds[:most])
    columns = [column for column in table.all.x.T if np.ptp(column)]
    shifted = [by_order(column, kind) for column in columns[: sizes.inputs]]
    return [
        fold._replace(train=drawn(fold.train, SHIFTED_ROWS, i)) for i, fold in enumerate(shifted)
    ]


def drawn(rows: NDArray[Any], most: int, seed: int) -> NDArray[Any]:
    """So many of the rows at random, or all."""
    return rows if len(rows) <= most else np.random.default_rng(seed).choice(rows, most, False)


def by_order(column: Floats, kind: str) -> Fold:
    """Rows in the order of one input: the middle third, or the outer sixths, are the test set."""
    order = np.argsort(column, kind="stable")
    place = np.empty(len(order))
    place[order] = (np.arange(len(order)) + 0.5) / len(order)
    middle = np.abs(place - 0.5) < (1 / 6 if kind == "gap" else 1 / 3)
    test = middle if kind == "gap" else ~middle
    return Fold(np.flatnonzero(~test), np.flatnonzero(test))


# Runs


def measure(table: Dataset, fold: Fold, key: Key, sizes: Sizes) -> dict[str, float]:
    """Fit one model to one split."""
    *_, split, name = key
    model = MODELS[name]
    rows = drawn(fold.train, model.most_rows, split)
    train, test = table.all.take(rows), table.all.take(fold.test)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, about bounds and deprecations
        settings = sizes.settings.get(name, {})
        mean, std = model.predict(train.x, train.y, test.x, split, **settings)
    seconds = time.perf_counter() - started
    ends = mean - 1.645 * std, mean + 1.645 * std
    return {
        "nll": metrics.gaussian_nll(test.y, mean, std),
        "crps": metrics.crps_gaussian(test.y, mean, std),
        "rmse": metrics.rmse(test.y, mean),
        "coverage": metrics.interval_coverage(test.y, *ends),
        "seconds": seconds,
    }


def wanted(tables: Mapping[str, Dataset], options: Any, sizes: Sizes) -> Iterator[tuple[Key, Fold]]:
    """Every fit, those of one split together, and what is done soonest first."""
    for kind in options.kinds:
        for name in sorted(tables, key=lambda name: len(tables[name].all.y)):
            for split, fold in enumerate(folds(tables[name], kind, sizes)):
                for model in options.models:
                    if name in MODELS[model].sets or name not in PUBLISHED:
                        yield (name, kind, split, model), fold


def run(tables: Mapping[str, Dataset], options: Any, sizes: Sizes, path: Path) -> list[Any]:
    """All that is wanted and not in the file yet; the file is written after each fit."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    done = {tuple(run[name] for name in ("set", "kind", "split", "model")) for run in runs}
    for key, fold in wanted(tables, options, sizes):
        if key in done:
            continue
        try:
            found: dict[str, Any] = measure(tables[key[0]], fold, key, sizes)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:200]}
        runs.append(dict(zip(("set", "kind", "split", "model"), key, strict=True)) | found)
        contents = {"benchmark": "tables", "versions": results.versions(), "runs": runs}
        with replacing(path) as file:
            file.write((json.dumps(contents) + "\n").encode())
        print(
            *key, {name: float(f"{v:.4g}") for name, v in found.items() if name != "error"} or found
        )
    return runs


# Tables


class Cell(NamedTuple):
    mean: float
    error: float
    """Standard error over splits."""
    n: int


def cell(runs: Sequence[Any], model: str, score: str) -> Cell | None:
    """A model's score on average over these runs."""
    values = [run[score] for run in runs if run["model"] == model and score in run]
    if not values:
        return None
    n = len(values)
    error = float(np.std(values, ddof=1) / n**0.5) if n > 1 else float("nan")
    return Cell(float(np.mean(values)), error, n)


def on_common_splits(runs: Sequence[Any]) -> list[Any]:
    """The runs of one set and kind on those splits that every leading model with any has."""
    splits: dict[str, set[int]] = {}
    for run in runs:
        if run["model"] in MODELS and MODELS[run["model"]].leads:
            splits.setdefault(run["model"], set()).add(run["split"])
    common = set.intersection(*splits.values()) if splits else {run["split"] for run in runs}
    return [run for run in runs if run["split"] in common]


def markdown(runs: Sequence[Any], kind: str, score: str) -> str:
    """One table: a row for each set with how many splits, the best model of it in bold."""
    of_kind = [run for run in runs if run["kind"] == kind]
    models = [model for model in MODELS if any(run["model"] == model for run in of_kind)]
    lines = [f"| {score} | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for name in dict.fromkeys(run["set"] for run in of_kind):
        own = on_common_splits([run for run in of_kind if run["set"] == name])
        cells = [cell(own, model, score) for model in models]
        whole = max((c.n for c in cells if c), default=0)
        best = min((c.mean for c in cells if c and c.n == whole), default=np.nan)
        texts = [shown(c, best, whole, score) for c in cells]
        lines.append(f"| {name} ({whole}) | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def shown(found: Cell | None, best: float, whole: int, score: str) -> str:
    if found is None:
        return ""
    text = f"{found.mean:.3g}" if score == "seconds" else f"{found.mean:.3f}"
    if score not in ("coverage", "seconds") and found.n > 1:
        text += f" ± {found.error:.3f}"
    if found.n < whole:
        text += f" ({found.n})"
    lowest = score not in ("coverage", "seconds") and found.mean == best
    return f"**{text}**" if lowest else text


def lead(runs: Sequence[Any], model: str, other: str) -> Cell | None:
    """By how much a model's NLL is below another's, on average over the splits that both have."""
    nll = {
        name: {run["split"]: run["nll"] for run in runs if run["model"] == name and "nll" in run}
        for name in (model, other)
    }
    both = nll[model].keys() & nll[other].keys()
    differences = [{"model": "lead", "nll": nll[other][i] - nll[model][i]} for i in both]
    return cell(differences, "lead", "nll")


def not_behind(found: Cell) -> bool:
    """By more than a standard error; of one split, which has none, by anything."""
    return found.mean >= (-found.error if found.n > 1 else 0)


def standings(runs: Sequence[Any], kind: str) -> list[str]:
    """On which sets our models are where they should be, by NLL."""
    sets = [name for name in PUBLISHED if any(run["set"] == name for run in runs)]
    of_set = {
        name: on_common_splits([r for r in runs if r["set"] == name and r["kind"] == kind])
        for name in sets
    }
    bayesian = ("law", "ntkgp-param")
    ours = [name for name, model in MODELS.items() if model.ours]

    def leads(name: str, model: str, other: str) -> bool | None:
        found = lead(of_set[name], model, other)
        return None if found is None else not_behind(found)

    def first(name: str) -> bool | None:
        scores = {model: cell(of_set[name], model, "nll") for model in MODELS}
        means = {model: found.mean for model, found in scores.items() if found}
        return min(means, key=lambda model: means[model]) in bayesian if means else None

    def near_first(name: str) -> bool:
        return any(
            all(leads(name, model, other) in (None, True) for other in MODELS)
            for model in ours
            if cell(of_set[name], model, "nll")
        )

    def published(name: str) -> bool | None:
        found = cell(of_set[name], "ntkgp-param", "nll")
        return None if found is None else found.mean <= PUBLISHED[name]

    claims: dict[str, Callable[[str], bool | None]] = {
        "law not behind ARD GP": lambda name: leads(name, "law", "ARD GP"),
        "ntkgp-param not behind deep-ensemble": lambda name: leads(
            name, "ntkgp-param", "deep-ensemble"
        ),
        "ntkgp-param ahead of published deep ensembles": published,
        "some model of ours not behind any": near_first,
    }
    if kind != "standard":
        claims = {"law or ntkgp-param first": first}
    lines = []
    for claim, holds in claims.items():
        found = {name: holds(name) for name in sets if of_set[name]}
        yes = [name for name, held in found.items() if held]
        known = [name for name, held in found.items() if held is not None]
        if known:
            lines.append(f"- {claim}: {len(yes)} of {len(known)} ({', '.join(yes)})")
    return lines


def report(runs: Sequence[Any]) -> str:
    parts = []
    for kind in KINDS:
        if any(run["kind"] == kind for run in runs):
            parts += [f"### {kind} splits"] + [markdown(runs, kind, score) for score in SCORES]
            parts += ["\n".join(standings(runs, kind))]
    failed = [run for run in runs if "error" in run]
    parts += [
        f"- {run['set']} {run['kind']} {run['split']} {run['model']}: {run['error']}"
        for run in failed
    ]
    return "\n\n".join(parts) + "\n"


def tiny_table() -> Dataset:
    """Forty rows of scikit-learn's diabetes."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    rows = np.arange(40)
    return Dataset("tiny", {"all": Split(x[rows], y[rows])}, (Fold(rows[:30], rows[30:]),))


def table_of(path: Path, splits: int) -> Dataset:
    """The table in a file, with random splits."""
    delimiter = "," if "," in path.read_text().splitlines()[0] else None
    rows = np.loadtxt(path, delimiter=delimiter)
    folds = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(rows))
        n_test = len(rows) // 10
        folds.append(Fold(order[n_test:], order[:n_test]))
    return Dataset(path.stem, {"all": Split(rows[:, :-1], rows[:, -1])}, tuple(folds))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(PUBLISHED), default=list(PUBLISHED))
    parser.add_argument("--file", type=Path, help="a table to take instead of those")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--splits", type=int, help="how many standard splits, 5 by default")
    parser.add_argument(
        "--inputs", type=int, help="how many inputs have gaps and tails, all by default"
    )
    parser.add_argument("--draw-only", action="store_true", help="the tables of what is there")
    options = parsed(parser, arguments, out="runs/tables")
    if options.file and options.file.stem in PUBLISHED:
        parser.error(f"{options.file.stem} is one of the nine sets: give the file another name.")
    path = options.out / "tables.json"
    given = {name: getattr(options, name) for name in ("splits", "inputs")}
    sizes = TINY if options.tiny else Sizes(**{name: n for name, n in given.items() if n})
    missing = {model for model in options.models if find_spec(MODELS[model].needs) is None}
    if missing:
        print(f"left out, because they are not installed: {', '.join(sorted(missing))}")
    options.models = [model for model in options.models if model not in missing]
    if options.tiny:
        options.models = [
            model for model in options.models if model in ("law", "ntkgp-param", "forest")
        ]
        tables = {"tiny": tiny_table()}
    elif options.file:
        tables = {options.file.stem: table_of(options.file, sizes.splits)}
    elif not options.draw_only:
        tables = {name: load(f"uci/{name}") for name in options.sets}
    runs = (
        json.loads(path.read_text())["runs"]
        if options.draw_only
        else run(tables, options, sizes, path)
    )
    text = report(runs)
    print(text)
    (options.out / "tables.md").write_text(text)


if __name__ == "__main__":
    main()
