"""A picture of how close an ensemble is to its law, whatever the inputs are."""

from typing import TYPE_CHECKING

import numpy as np

from ntkgp.predictive.closeness import Closeness
from ntkgp.report.figures import subplots
from ntkgp.report.looks import BLUE, RED

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def draw_closeness(found: Closeness) -> "matplotlib.figure.Figure":
    """Three panels: the spread at each input, the error of the mean at each, the joint distance."""
    figure, axes = subplots(1, 3, (11, 3.4))
    _spreads(axes[0, 0], found)
    _errors(axes[0, 1], found)
    _distances(axes[0, 2], found)
    return figure


def _spreads(axis: "matplotlib.axes.Axes", found: Closeness) -> None:
    law, ensemble = found.law_std.ravel(), found.ensemble_std.ravel()
    ends = min(law.min(), ensemble.min()), max(law.max(), ensemble.max())
    axis.plot(ends, ends, color="black", lw=0.8, ls=":", label="equal")
    axis.plot(law, ensemble, "o", color=BLUE, ms=3, alpha=0.6, label="inputs")
    axis.set(xscale="log", yscale="log", xlabel="std by the law", ylabel="std of the members")
    axis.minorticks_off()
    axis.set_title(f"spread: median ratio {found.std_ratio.value:.2f}", fontsize=10)
    axis.legend(fontsize=7)


def _errors(axis: "matplotlib.axes.Axes", found: Closeness) -> None:
    scale = found.law_std / found.members**0.5
    z = ((found.ensemble_mean - found.law_mean) / scale).ravel()
    end = max(4.0, float(np.abs(z).max()))
    grid = np.linspace(-end, end, 200)
    axis.hist(z, bins=20, range=(-end, end), density=True, color=BLUE, alpha=0.6, label="inputs")
    axis.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", ls=":", lw=1)
    axis.set(xlabel="(members' mean - law's mean) / (law std/√K)", ylabel="density")
    axis.set_title(f"mean: error {found.mean_error.value:.2f}, exact draws 1", fontsize=10)


def _distances(axis: "matplotlib.axes.Axes", found: Closeness) -> None:
    axis.hist(found.distance.exact, bins=25, color="0.7", label=f"{found.members} exact draws")
    axis.axvline(found.distance.value, color=RED, lw=2, label="this ensemble")
    axis.set(xlabel="2-Wasserstein distance / law's total std", ylabel="simulated ensembles")
    axis.set_title(f"all inputs jointly: p = {found.distance.p_value:.2g}", fontsize=10)
    axis.legend(fontsize=7)
