"""The exact NTKGP posterior beside trained ensembles of two widths, and the four laws' spread.

    python benchmarks/exact_beside_ensemble.py    # writes docs/guide/exact.png, prints two tables

20 noisy points of x sin x in two clusters. Law and ensembles have the same noise level, the same
prior and all rows; the members are trained by Gauss-Newton steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

import ntkgp
from common import options_of, parsed, pyplot, save_figure

# Okabe and Ito's palette; line styles tell the curves apart without colour.
LAW, ENSEMBLE = "#0072b2", "#d55e00"
STYLES = {"ntkgp": "-", "nngp": ":", "randomised-prior": "--", "deep-ensemble": "-."}
COLOURS = dict(zip(STYLES, ("#0072b2", "#e69f00", "#009e73", "#d55e00"), strict=True))
GRID = np.linspace(-5, 5, 201)[:, None]


@dataclass(frozen=True)
class Sizes:
    widths: tuple[int, int] = (32, 512)
    depth: int = 2
    members: int = 20
    max_steps: int = int(ntkgp.GaussNewton().max_steps)


TINY = Sizes(widths=(2, 2), depth=1, members=2, max_steps=1)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(options_of(__doc__), arguments, out="docs/guide")
    sizes = TINY if options.tiny else Sizes()
    x, y = data()
    laws = {
        name: ntkgp.GPRegressor(name, depth=sizes.depth, activation="erf").fit(x, y)
        for name in STYLES
    }
    exact = laws["ntkgp"].predict_dist(GRID)
    figure, axes = pyplot().subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    axes[1].sharey(axes[0])
    print(
        "| width | std ratio at the data | std ratio away | mean, in law stds |\n|---|---|---|---|"
    )
    for axis, width in zip(axes, sizes.widths, strict=False):
        model = ntkgp.EnsembleRegressor(
            activation="erf",
            members=sizes.members,
            width=width,
            depth=sizes.depth,
            validation_fraction=0,
            trainer=ntkgp.GaussNewton(max_steps=sizes.max_steps),
            random_state=0,
        ).fit(x, y)
        trained = model.predict_dist(GRID)
        print(f"| {width} | {closeness(x, exact, trained)} |")
        draw_band(axis, exact, LAW, "-", "exact law")
        draw_band(axis, trained, ENSEMBLE, "--", f"{sizes.members} networks")
        axis.plot(x[:, 0], y, "ko", markersize=3, label="data")
        axis.set(title=f"NTKGP, width {width}", xlabel="x", ylim=(-2, 5))
    axes[0].set_ylabel("mean ± 2 std of the function")
    axes[0].legend(frameon=False, loc="lower right")
    print("\n| law | std at 1.5 | std at 0 | std at 5 |\n|---|---|---|---|")
    for name, law in laws.items():
        draw_std(axes[2], name, law)
        std = np.sqrt(law.predict_dist([[1.5], [0.0], [5.0]]).epistemic_var)
        print(f"| {name} | " + " | ".join(f"{value:.2g}" for value in std) + " |")
    axes[2].set(title="the four laws", xlabel="x", ylabel="std of the function", yscale="log")
    axes[2].set_ylim(3e-3, 8)
    axes[2].legend(frameon=False, loc="upper center", ncols=2)
    save_figure(figure, options.out / "exact.png")


def data() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2, -0.7, 10), rng.uniform(0.7, 2, 10)])
    return x[:, None], x * np.sin(x) + 0.1 * rng.standard_normal(20)


def closeness(x: NDArray[np.float64], exact: ntkgp.Normal, trained: ntkgp.Mixture) -> str:
    """Medians over the grid, near the training inputs and elsewhere, as cells of a table."""
    near = np.abs(GRID - x.T).min(axis=1) < 0.25
    std = np.sqrt(exact.epistemic_var)
    ratio = np.sqrt(trained.epistemic_var) / std
    error = np.abs(trained.mean - exact.mean) / std
    return f"{np.median(ratio[near]):.2f} | {np.median(ratio[~near]):.2f} | {np.median(error):.2f}"


def draw_band(
    axis: Axes, p: ntkgp.Normal | ntkgp.Mixture, colour: str, line: str, label: str
) -> None:
    std = np.sqrt(p.epistemic_var)
    if line == "-":
        axis.fill_between(GRID[:, 0], p.mean - 2 * std, p.mean + 2 * std, color=colour, alpha=0.2)
    else:
        for side in (-2, 2):
            axis.plot(GRID, p.mean + side * std, color=colour, linestyle=line, linewidth=1)
    axis.plot(GRID, p.mean, color=colour, linestyle=line, linewidth=1.8, label=label)


def draw_std(axis: Axes, name: str, law: ntkgp.GPRegressor) -> None:
    std = np.sqrt(law.predict_dist(GRID).epistemic_var)
    axis.plot(GRID, std, color=COLOURS[name], linestyle=STYLES[name], linewidth=1.8, label=name)


if __name__ == "__main__":
    main()
