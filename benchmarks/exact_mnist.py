"""The exact NTKGP law on all of MNIST: 54,000 training images, ten classes, variances for 20,000.

Wall time by stage, peak memory, the factorisation's rate against the machine's own matrix product,
and residuals of the equations it solves. It is the analytic part of the experiment: with the same
--out, `ntkgp reproduce mnist` goes on from it. Needs mnist and notmnist (`ntkgp data get`).

    python benchmarks/exact_mnist.py [--images 60000] [--standardise all] [--out runs/exact-mnist]
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common import best_seconds, table
from ntkgp.experiments import results
from ntkgp.experiments.experiment import run
from ntkgp.experiments.images.mnist import MNIST
from ntkgp.kernels.panels import Panel
from ntkgp.kernels.solvers import Cholesky, CholeskyInverse
from ntkgp.kernels.training_kernel import TrainingKernel


@dataclass(frozen=True, eq=False)
class TimedKernel(TrainingKernel):
    """A kernel that counts the seconds of its own blocks."""

    seconds: list[float] = field(default_factory=list)

    def fill(self, panel: Panel) -> None:
        started = time.perf_counter()
        super().fill(panel)
        self.seconds.append(time.perf_counter() - started)


@dataclass(frozen=True)
class TimedCholesky(Cholesky):
    """A factorisation that says how long kernel and factor took."""

    stages: dict[str, float] = field(default_factory=dict)

    def __call__(self, kernel: TrainingKernel, progress: bool) -> CholeskyInverse:
        timed = TimedKernel(kernel.net, kernel.x, kernel.which, kernel.shift)
        started = time.perf_counter()
        inverse = super().__call__(timed, progress)
        self.stages["kernel"] = sum(timed.seconds)
        self.stages["factorisation"] = time.perf_counter() - started - sum(timed.seconds)
        return inverse


def gemm_rate() -> float:
    """Operations per second of a large float64 matrix product, the best of several."""
    a = np.ones((4096, 4096))
    return 2 * 4096**3 / best_seconds({"gemm": lambda: a @ a}, repeats=4)["gemm"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=MNIST.presets["laptop"].max_train)
    parser.add_argument("--standardise", choices=("each", "all"), default="each")
    parser.add_argument("--out", type=Path, default=Path("runs/exact-mnist"))
    options = parser.parse_args()
    config = replace(
        MNIST.presets["laptop"],
        methods=(),
        max_train=options.images,
        standardise=options.standardise,
    )
    solver = TimedCholesky()
    path = run(replace(MNIST, record=partial(MNIST.record, solver=solver)), config, options.out)
    law = next((run for run in results.load(path)["runs"] if run["kind"] == "law"), None)
    if law is None or not solver.stages:
        sys.exit(f"nothing was measured: see above, or take another --out than {options.out}.")
    measured = facts(law, solver.stages)
    rows = [{"what": name, "measured": value} for name, value in measured.items()]
    print(f"exact_mnist\n{table(rows)}\n")
    contents = {"benchmark": "exact_mnist", "versions": results.versions(), "rows": rows}
    (options.out / "exact_mnist.json").write_text(json.dumps(contents, indent=1) + "\n")


def facts(law: dict[str, Any], stages: dict[str, float]) -> dict[str, Any]:
    n, rate = law["training_images"], gemm_rate()
    flops = n**3 / 3 / stages["factorisation"]
    named = {f"seconds: {name}": seconds for name, seconds in stages.items()}
    named |= {f"seconds: {name}": seconds for name, seconds in law["stage_seconds"].items()}
    return named | {
        "training images": n,
        "factorisation, GFLOP/s": flops / 1e9,
        "matrix product, GFLOP/s": rate / 1e9,
        "their ratio": flops / rate,
        "peak memory, GiB": law["peak_bytes"] / 2**30,
        "largest relative residual": law["residual"],
        "test error": law["by_size"][0]["error"],
        "AUROC of the entropy": law["by_size"][0]["auroc"],
    }


if __name__ == "__main__":
    main()
