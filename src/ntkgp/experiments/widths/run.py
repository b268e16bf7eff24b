"""How an ensemble approaches its law as the network widens: the toy problem at growing width."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ntkgp.ensembles.methods import METHODS
from ntkgp.experiments.checks import check
from ntkgp.experiments.experiment import Experiment, Given
from ntkgp.experiments.results import Mark, Record
from ntkgp.experiments.toy.run import CONTENTS, ToyConfig, check_members, make_data, summary, train
from ntkgp.experiments.widths.report import report


@dataclass(frozen=True)
class WidthsConfig:
    """Everything that determines a run; what is not here is as in the toy experiment."""

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
    """Train one ensemble, one member at a time, so that memory is one member's."""
    base = as_toy(config, mark["width"])
    grid = make_data(base)[2]
    members = (train(base, mark, [index], given.progress) for index in range(base.members))
    outputs = [member.outputs(grid)[0, :, 0] for member in members]
    return {"law": METHODS[mark["method"]].law} | summary(np.array(outputs))


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
