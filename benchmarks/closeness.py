"""How close ensembles are to the exact NTKGP on real data, as Figure 1 has it on the toy problem.

    python benchmarks/closeness.py    # writes closeness.json, closeness.png and closeness.svg

Four UCI tables, each by its first standard split and by the gap in its first input, and 1,000 images of
MNIST, beside its test images and NotMNIST's; NTKGP_DATA or the cache must hold all of them. The prior is
learned on a table's training rows, or that of the experiment `mnist`. Law and ensembles share it, and σ;
members train as in `EnsembleRegressor`, without what it does to their spread afterwards. All are compared
at up to 100 test rows with the exact NTKGP posterior: `ntkgp.compare` tells what as many exact draws have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ntkgp
from common import Records, options_of, parsed, write
from ntkgp.data import Dataset, Fold, load
from ntkgp.ensembles.methods import get_method
from ntkgp.ensembles.trainers import GaussNewton
from ntkgp.ensembles.trainers.default import decaying_adam
from ntkgp.estimators.one_hot import one_hot, second_moment_of_law, target_scale
from ntkgp.experiments.images.mnist import MnistConfig, load_mnist
from ntkgp.experiments.images.run import CLASSES, make_task
from ntkgp.laws.table import LAWS
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.predictive.closeness import Closeness
from ntkgp.report.figures import save_figure, subplots
from ntkgp.report.looks import look
from tables import by_order, tiny_table

MOST_TARGETS = 2_000
"""For which Gauss-Newton follows Adam."""


@dataclass(frozen=True)
class Sizes:
    sets: tuple[str, ...] = ("yacht", "bostonHousing", "energy", "concrete")
    """Tables; if none, a small one that is always there."""
    methods: tuple[str, ...] = ("ntkgp-param", "rp-param", "deep-ensemble")
    members: int = 10
    width: int = 128
    steps: int = 4_000
    gauss_newton_steps: int = 10
    test_rows: int = 100
    images: int = 1_111
    """Of MNIST, a tenth of which the experiment keeps for validation; 0 for none."""


TINY = Sizes(sets=(), images=0, members=2, width=4, steps=5, gauss_newton_steps=1, test_rows=5)


class Problem(NamedTuple):
    """A prior and training rows, as network and law take them, and rows to compare these at."""

    name: str
    like: bool
    """Whether those rows are like the ones of training."""
    net: LayeredNetwork
    noise_std: float
    x: NDArray[Any]
    y: NDArray[Any]
    x_test: NDArray[Any]


def problems(sizes: Sizes) -> Iterator[Problem]:
    for table in [load(f"uci/{name}") for name in sizes.sets] or [tiny_table()]:
        yield on_table(table, table.folds[0], sizes, like=True)
        yield on_table(table, by_order(table.all.x[:, 0], "gap"), sizes, like=False)
    if sizes.images:
        yield from on_mnist(sizes)


def on_table(table: Dataset, fold: Fold, sizes: Sizes, like: bool) -> Problem:
    """With a prior learned on the training rows."""
    train = table.all.take(fold.train)
    rows = np.random.default_rng(0).permutation(fold.test)[: sizes.test_rows]
    centre, scale = train.x.mean(axis=0), train.x.std(axis=0) + 1e-12
    x, x_test = ((part - centre) / scale for part in (train.x, table.all.x[rows]))
    y = (train.y - train.y.mean()) / train.y.std()
    net = ntkgp.mlp(x.shape[1], width=sizes.width, b_std=0.5)
    prior = ntkgp.fit_prior(net, x, y, restarts=0, max_steps=40)
    name = f"{table.name.removeprefix('uci/')}, {'standard' if like else 'gap'}"
    return Problem(name, like, prior.net, prior.noise_std, x, y, x_test)


def on_mnist(sizes: Sizes) -> Iterator[Problem]:
    """As the experiment has it before σ_W² and κ are tuned, with fewer images."""
    config = MnistConfig(max_train=sizes.images, max_test=sizes.test_rows)
    task, net = make_task(config, load_mnist(config), seed=0), config.network(2.0)
    kappa = target_scale(second_moment_of_law(net, LAWS["ntkgp"], task.train.x), CLASSES)
    y = one_hot(task.train.y, CLASSES, kappa)
    for name, like, x_test in (("MNIST", True, task.test.x), ("NotMNIST", False, task.outside)):
        yield Problem(name, like, net, config.noise_std, task.train.x, y, x_test)


def compared(problem: Problem, sizes: Sizes) -> dict[str, Closeness]:
    """Each method beside the exact NTKGP, at test rows."""
    _, _, net, noise_std, x, y, x_test = problem
    law = ntkgp.condition(net, x, y, noise_std=noise_std)
    found = {}
    for method in sizes.methods:
        trainer = [decaying_adam(len(x), min_steps=sizes.steps)]
        if y.size <= MOST_TARGETS and not get_method(method).takes_weight_decay:
            trainer.append(GaussNewton(max_steps=sizes.gauss_newton_steps, tolerance=3e-4))
        ensemble = ntkgp.fit(
            net, x, y, method=method, members=sizes.members, noise_std=noise_std, trainer=trainer
        )
        found[method] = ntkgp.compare(ensemble, law, x_test)
    return found


def draw(found: dict[tuple[str, bool], dict[str, Closeness]]) -> Any:
    """Above rows like those of training, below others: spread of members against the law's."""
    from matplotlib.ticker import LogLocator

    figure, axes = subplots(2, len(found) // 2, (1.7 * len(found), 6))
    columns = {True: iter(axes[0]), False: iter(axes[1])}
    for (name, like), methods in found.items():
        axis = next(columns[like])
        law = next(iter(methods.values())).law_std.ravel()
        ends = law.min(), law.max()
        axis.plot(ends, ends, color="black", lw=0.8, ls=":")
        for method, closeness in methods.items():
            title, colour, _, marker = look(method)
            spread = closeness.ensemble_std.ravel()
            axis.plot(law, spread, marker, color=colour, ms=3, alpha=0.6, label=title)
        axis.set(xscale="log", yscale="log", title=name)
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
    found: dict[tuple[str, bool], dict[str, Closeness]] = {}
    rows: Records = []
    for problem in problems(sizes):
        key = problem.name, problem.like
        found[key] = compared(problem, sizes)
        for method, closeness in found[key].items():
            low, high = closeness.distance.range
            rows.append(
                {
                    "data": problem.name,
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
