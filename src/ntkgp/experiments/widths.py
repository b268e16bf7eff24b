"""How an ensemble approaches its law as the network widens: the toy problem at growing width."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from ntkgp.ensembles.methods import METHODS
from ntkgp.experiments.checks import check
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record, Results
from ntkgp.experiments.toy.closeness import Closeness, closeness, columns
from ntkgp.experiments.toy.run import CONTENTS, ToyConfig, check_members, make_data, summary, train
from ntkgp.report.claims import Claim, below
from ntkgp.report.figures import subplots
from ntkgp.report.intervals import MEANING, difference, interval
from ntkgp.report.looks import look
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table


@dataclass(frozen=True)
class WidthsConfig:
    """Everything that determines a run; the rest is as in the toy experiment."""

    widths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    methods: tuple[str, ...] = ("ntkgp-param", "ntkgp-lin")
    members: int = 20
    repeats: int = 3
    max_steps: int = 60

    def __post_init__(self) -> None:
        check(self)
        check_members(self.members)


def as_toy(config: WidthsConfig, width: int = 512) -> ToyConfig:
    return ToyConfig(members=config.members, max_steps=config.max_steps, width=width)


def of_toy(make: Callable[[ToyConfig], Any]) -> Callable[[WidthsConfig], Any]:
    return lambda config: make(as_toy(config))


def record(config: WidthsConfig, mark: Mark, given: Given) -> Record:
    """Train one ensemble, one member at a time, so that memory holds one member."""
    base = as_toy(config, mark["width"])
    grid = make_data(base)[2]
    members = (
        train(base, mark, [index], given.part(f"member-{index}").training)
        for index in range(base.members)
    )
    outputs = [member.outputs(grid)[0, :, 0] for member in members]
    return {"law": METHODS[mark["method"]].law} | summary(np.array(outputs))


TITLES = (
    "error of the mean / (law std/√K)",
    "std ratio inside the data",
    "std ratio outside the data",
)
Measured = Mapping[str, Mapping[int, Sequence[Closeness]]]
"""Closeness by method and width, one value for each ensemble."""


def report(results: Results) -> Section:
    """A table, a figure, and a claim for each method."""
    measured: dict[str, dict[int, list[Closeness]]] = {}
    for run in results["runs"]:
        by_width = measured.setdefault(run["method"], {})
        by_width.setdefault(run["width"], []).append(closeness(results, run))
    rows = [
        {"method": method, "width": str(width), "ensembles": str(len(values)), **columns(values)}
        for method, by_width in measured.items()
        for width, values in sorted(by_width.items())
    ]
    return Section(f"{table(rows)}\n{MEANING}", [figure(measured)], claims(measured))


def figure(measured: Measured) -> Drawing:
    """One panel for each measure, against width."""
    drawn, axes = subplots(1, 3, (12, 3.4))
    for field, axis in enumerate(axes[0]):
        for method, by_width in measured.items():
            title, colour, line, marker = look(method)
            widths = sorted(by_width)
            points = [interval([c[field] for c in by_width[width]]) for width in widths]
            axis.errorbar(
                widths,
                [point.mean for point in points],
                [point.half if isfinite(point.half) else nan for point in points],
                color=colour,
                marker=marker,
                ls=line,
                capsize=3,
                label=title,
            )
        axis.axhline(1, color="black", lw=0.8, ls=":")
        axis.set_xscale("log", base=2)
        axis.set(xlabel="width", ylim=(0, None))
        axis.set_title(TITLES[field], fontsize=10)
    axes[0, 0].legend(title="bars: 95 % confidence", fontsize=8, title_fontsize=8)
    return Drawing(
        drawn,
        "Ensembles of finite networks against their law: all three would be 1 for draws from it.",
    )


def claims(measured: Measured) -> list[Claim]:
    """Corollary 1 in numbers: the mean is nearer to the law at the largest width than at the smallest."""
    made = []
    for method, by_width in measured.items():
        least, most = min(by_width), max(by_width)
        if least == most:
            continue
        wide, narrow = (
            {repeat: c.mean_error for repeat, c in enumerate(by_width[width])}
            for width in (most, least)
        )
        gap = difference(wide, narrow)
        made.append(
            Claim(
                "Corollary 1",
                f"{look(method).title} approaches the NTKGP posterior as the network widens",
                f"error of the mean at width {most} less that at {least}: {gap.shown(2)}",
                below(gap),
            )
        )
    return made


WIDTHS = Experiment(
    "widths",
    "The toy problem at growing width",
    {"laptop": WidthsConfig(widths=(64, 128, 256, 512, 1024)), "paper": WidthsConfig()},
    marks=lambda config, data: [
        {"method": method, "width": width, "seed": seed}
        for width in config.widths
        for method in config.methods
        for seed in range(config.repeats)
    ],
    record=record,
    report=report,
    contents={name: of_toy(make) for name, make in CONTENTS.items()},
    may_grow=("widths", "methods", "repeats"),
)
