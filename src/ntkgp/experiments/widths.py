"""How an ensemble approaches its law as the network widens: the toy problem at growing width."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import METHODS
from ntkgp.experiments import results, toy
from ntkgp.experiments.checks import check
from ntkgp.experiments.results import Mark, Record


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
        toy.check_members(self.members)


PRESETS = {
    "laptop": WidthsConfig(widths=(64, 128, 256, 512, 1024)),
    "paper": WidthsConfig(),
}


def run(
    config: WidthsConfig, out: Path, *, progress: bool = True, say: Callable[[str], None] = print
) -> Path:
    """Train what is not yet in the results file, and return its path."""
    path = out / "widths.json"
    base = replace(toy.ToyConfig(), members=config.members, max_steps=config.max_steps)
    state = results.resume(
        path, "widths", config, toy.law_records(base), may_grow=("widths", "methods", "repeats")
    )
    marks = [
        {"method": method, "width": width, "seed": seed}
        for width in config.widths
        for method in config.methods
        for seed in range(config.repeats)
    ]
    results.fill_in(path, state, marks, lambda mark: record(base, mark, progress), say)
    return path


def record(base: toy.ToyConfig, mark: Mark, progress: bool) -> Record:
    """Train one ensemble, one member at a time, so that memory is one member's."""
    config = replace(base, width=mark["width"])
    x, y, grid = toy.make_data(config)
    outputs = []
    for index in range(config.members):
        ensemble = fit(
            toy.make_network(config),
            x,
            y,
            method=mark["method"],
            members=[index],
            noise_std=config.noise_std,
            seed=mark["seed"],
            trainer=toy.make_trainer(config, mark["method"]),
            progress=progress,
        )
        outputs.append(ensemble.outputs(grid)[0, :, 0])
    return {"law": METHODS[mark["method"]].law} | toy.summary(np.array(outputs))
