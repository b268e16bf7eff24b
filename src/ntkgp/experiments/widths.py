"""How an ensemble approaches its law as the network widens: the toy problem at growing width."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ntkgp.ensemble import fit
from ntkgp.experiments import results, toy
from ntkgp.methods import METHODS


@dataclass(frozen=True)
class WidthsConfig:
    """Everything that determines a run; what is not here is as in the toy experiment."""

    widths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    methods: tuple[str, ...] = ("ntkgp-param", "ntkgp-lin")
    members: int = 20
    ensembles: int = 3
    max_steps: int = 60

    def __post_init__(self) -> None:
        toy.check_methods(self.methods, self.members, self.ensembles)


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
    x, y, grid = toy.make_data(base)
    state = results.resume(
        path, "widths", config, toy.law_records(base), may_grow=("widths", "methods", "ensembles")
    )
    for width in config.widths:
        net = toy.make_network(replace(base, width=width))
        for method in config.methods:
            for seed in range(config.ensembles):
                mark = {"method": method, "width": width, "seed": seed}
                if any(mark.items() <= run.items() for run in state["runs"]):
                    continue
                started = time.perf_counter()
                outputs = []
                for index in range(config.members):  # one at a time, so that memory is one member's
                    ensemble = fit(
                        net,
                        x,
                        y,
                        method=method,
                        members=[index],
                        noise_std=base.noise_std,
                        seed=seed,
                        trainer=toy.make_trainer(base, method),
                        progress=progress,
                    )
                    outputs.append(ensemble.outputs(grid)[0, :, 0])
                seconds = round(time.perf_counter() - started, 2)
                law = METHODS[method].law
                record = mark | {"law": law, "seconds": seconds} | toy.summary(np.array(outputs))
                state["runs"].append(record)
                results.save(path, state)
                say(f"{method}, width {width}, ensemble {seed}: {seconds:.1f} s")
    return path
