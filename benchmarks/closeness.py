"""How close ensembles are to the exact NTKGP on real tables, as Figure 1 has it on the toy problem.

    python benchmarks/closeness.py    # writes closeness.json, closeness.png and closeness.svg

Four UCI tables, which NTKGP_DATA or the cache must hold, each by its first standard split and by the gap
in its first input. The prior is learned on the training rows. Law and ensembles share it, and σ; members
train as in `EnsembleRegressor`, without what it does to their spread afterwards. All are compared at up to
100 test rows with the exact NTKGP posterior: `ntkgp.compare` tells what as many exact draws would have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import ntkgp
from common import Records, options_of, parsed, write
from ntkgp.data import Dataset, Fold, load
from ntkgp.ensembles.methods import get_method
from ntkgp.ensembles.trainers import GaussNewton
from ntkgp.ensembles.trainers.default import decaying_adam
from ntkgp.predictive.closeness import Closeness
from ntkgp.report.figures import save_figure, subplots
from ntkgp.report.looks import look
from tables import by_order, tiny_table


@dataclass(frozen=True)
class Sizes:
    sets: tuple[str, ...] = ("yacht", "bostonHousing", "energy", "concrete")
    """If none, a small table that is always there."""
    methods: tuple[str, ...] = ("ntkgp-param", "rp-param", "deep-ensemble")
    members: int = 10
    width: int = 128
    steps: int = 4_000
    gauss_newton_steps: int = 10
    test_rows: int = 100


TINY = Sizes(sets=(), members=2, width=4, steps=5, gauss_newton_steps=1, test_rows=5)


def problems(sizes: Sizes) -> Iterator[tuple[str, str, Dataset, Fold]]:
    """Each table with its splits: the rows like those of training, and those that are not."""
    for table in [load(f"uci/{name}") for name in sizes.sets] or [tiny_table()]:
        name = table.name.removeprefix("uci/")
        yield name, "standard", table, table.folds[0]
        yield name, "gap", table, by_order(table.all.x[:, 0], "gap")


def compared(table: Dataset, fold: Fold, sizes: Sizes) -> dict[str, Closeness]:
    """Each method beside the exact NTKGP, at test rows."""
    train = table.all.take(fold.train)
    rows = np.random.default_rng(0).permutation(fold.test)[: sizes.test_rows]
    centre, scale = train.x.mean(axis=0), train.x.std(axis=0) + 1e-12
    x, x_test = ((part - centre) / scale for part in (train.x, table.all.x[rows]))
    y = (train.y - train.y.mean()) / train.y.std()
    net = ntkgp.mlp(x.shape[1], width=sizes.width, b_std=0.5)
    prior = ntkgp.fit_prior(net, x, y, restarts=0, max_steps=40)
    law = ntkgp.condition(prior.net, x, y, noise_std=prior.noise_std)
    adam = decaying_adam(len(x), min_steps=sizes.steps)
    found = {}
    for method in sizes.methods:
        regularised = not get_method(method).takes_weight_decay
        solver = GaussNewton(max_steps=sizes.gauss_newton_steps, tolerance=3e-4)
        ensemble = ntkgp.fit(
            prior.net,
            x,
            y,
            method=method,
            members=sizes.members,
            noise_std=prior.noise_std,
            trainer=[adam, solver] if regularised else adam,
        )
        found[method] = ntkgp.compare(ensemble, law, x_test)
    return found


def draw(found: dict[tuple[str, str], dict[str, Closeness]]) -> Any:
    """A column for each table, a row for each kind of split: spread of members against the law's."""
    from matplotlib.ticker import LogLocator

    sets = list(dict.fromkeys(name for name, _ in found))
    figure, axes = subplots(2, len(sets), (3.4 * len(sets), 6))
    for (name, kind), methods in found.items():
        axis = axes[int(kind == "gap"), sets.index(name)]
        law = next(iter(methods.values())).law_std.ravel()
        ends = law.min(), law.max()
        axis.plot(ends, ends, color="black", lw=0.8, ls=":")
        for method, closeness in methods.items():
            title, colour, _, marker = look(method)
            spread = closeness.ensemble_std.ravel()
            axis.plot(law, spread, marker, color=colour, ms=3, alpha=0.6, label=title)
        axis.set(xscale="log", yscale="log", title=f"{name}, {kind} split")
        axis.set(xlabel="std by the law", ylabel="std of the members")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_locator(LogLocator(subs=(1, 2, 5)))
            each.set_major_formatter("{x:g}")
            each.set_minor_formatter("")
    axes[0, 0].legend(fontsize=7)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(options_of(__doc__), arguments)
    sizes = TINY if options.tiny else Sizes()
    found: dict[tuple[str, str], dict[str, Closeness]] = {}
    rows: Records = []
    for name, kind, table, fold in problems(sizes):
        found[name, kind] = compared(table, fold, sizes)
        for method, closeness in found[name, kind].items():
            low, high = closeness.distance.range
            rows.append(
                {
                    "table": f"{name}, {kind}",
                    "method": method,
                    "std ratio": closeness.std_ratio.value,
                    "mean error / (std/√K)": closeness.mean_error.value,
                    "distance": closeness.distance.value,
                    "of exact draws": f"{low:.3f} to {high:.3f}",
                }
            )
            print(rows[-1], flush=True)
    write("closeness", rows, sizes, options.out)
    save_figure(draw(found), options.out / "closeness")


if __name__ == "__main__":
    main()
