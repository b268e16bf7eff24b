"""The exact NTKGP law on all of MNIST: 54,000 training images, ten classes, variances for 20,000.

Wall time by stage, peak memory, the factorisation's rate against the machine's own matrix product,
and residuals of the equations it solves. It is the analytic part of the experiment: with the same
--out, `ntkgp reproduce mnist` goes on from it. Needs mnist and notmnist (`ntkgp data get`).

    python benchmarks/exact_mnist.py [--images 60000] [--standardise all] [--out runs/exact-mnist]
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from common import best_seconds, options_of, parsed, write
from ntkgp.data import Split
from ntkgp.experiments import results
from ntkgp.experiments.experiment import run
from ntkgp.experiments.images.mnist import MNIST, MnistConfig
from ntkgp.experiments.images.run import CLASSES, Stored, record
from ntkgp.kernels.panels import Panel
from ntkgp.kernels.solvers import Cholesky, CholeskyInverse
from ntkgp.kernels.training_kernel import TrainingKernel

LAW_ALONE = replace(MNIST.presets["laptop"], methods=())


@dataclass(frozen=True)
class Sizes:
    experiment: MnistConfig = LAW_ALONE
    synthetic: int | None = None
    """Random images in place of each of the data sets; None for the data sets."""
    gemm_side: int = 4096


TINY = Sizes(MnistConfig(methods=(), width=2, depth=1), synthetic=30, gemm_side=8)


def synthetic_images(n: int, config: MnistConfig) -> Stored:
    """Noise of MNIST's shape. All classes are there."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, n, config.pixels), dtype=np.uint8)
    labels = np.arange(n, dtype=np.uint8) % CLASSES
    return Split(images[0], labels), Split(images[1], labels), images[2]


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


def gemm_rate(side: int) -> float:
    """Operations per second of a large float64 matrix product, the best of several."""
    a = np.ones((side, side))
    return 2 * side**3 / best_seconds({"gemm": lambda: a @ a}, repeats=4)["gemm"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--images", type=int, help="at the most; all by default")
    parser.add_argument("--standardise", choices=("each", "all"), default="each")
    options = parsed(parser, arguments, out="runs/exact-mnist")
    sizes = TINY if options.tiny else Sizes()
    config = replace(
        sizes.experiment,
        max_train=options.images or sizes.experiment.max_train,
        standardise=options.standardise,
    )
    solver = TimedCholesky()
    experiment = replace(MNIST, record=partial(record, solver=solver))
    if sizes.synthetic:
        experiment = replace(experiment, load=partial(synthetic_images, sizes.synthetic))
    path = run(experiment, config, options.out)
    law = next((run for run in results.load(path)["runs"] if run["kind"] == "law"), None)
    if law is None or not solver.stages:
        sys.exit(f"nothing was measured: see above, or take another --out than {options.out}.")
    measured = facts(law, solver.stages, gemm_rate(sizes.gemm_side))
    rows = [{"what": name, "measured": value} for name, value in measured.items()]
    write("exact_mnist", rows, replace(sizes, experiment=config), options.out)


def facts(law: dict[str, Any], stages: dict[str, float], rate: float) -> dict[str, Any]:
    n = law["training_images"]
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
