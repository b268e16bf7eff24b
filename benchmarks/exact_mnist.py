"""The exact NTKGP law on all of MNIST: 54,000 training images, ten classes, variances for 20,000.

Wall time by stage, peak memory, the factorisation's rate against the machine's own matrix
product, and residuals of the equations it solves. Needs mnist and notmnist (`ntkgp data get`).

    python benchmarks/exact_mnist.py [--rows 54000] [--tests 10000]
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import ntkgp
from common import best_seconds, peak_gib, table
from ntkgp import panels
from ntkgp.experiments import results
from ntkgp.layers import Relu
from ntkgp.metrics import auroc
from ntkgp.training_kernel import TrainingKernel

NOISE_STD = 0.1


def gemm_rate() -> float:
    """Operations per second of a large float64 matrix product, the best of several."""
    a = np.ones((4096, 4096))
    return 2 * 4096**3 / best_seconds({"gemm": lambda: a @ a}, repeats=4)["gemm"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=54_000)
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    measured = run(options.rows, options.tests)
    rows = [{"what": name, "measured": value} for name, value in measured.items()]
    print(f"exact_mnist\n{table(rows)}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    contents = {"benchmark": "exact_mnist", "versions": results.versions(), "rows": rows}
    (options.out / "exact_mnist.json").write_text(json.dumps(contents, indent=1) + "\n")


def flat(images: Any) -> Any:
    """Pixels between 0 and 1."""
    return images.reshape(len(images), -1) / 255.0


def run(n: int, n_tests: int) -> dict[str, Any]:
    mnist, letters = ntkgp.data.load("mnist"), ntkgp.data.load("notmnist")
    rows = np.random.default_rng(0).permutation(len(mnist.train.x))[:n]
    x, labels = flat(mnist.train.x[rows]), mnist.train.y[rows]
    inside, outside = flat(mnist.test.x[:n_tests]), flat(letters.test.x[:n_tests])
    net = ntkgp.mlp(784, 10, depth=2, activation=Relu(), w_std=2**0.5, b_std=0.05)
    kappa = (10 * float(np.mean(ntkgp.ntk(net, x[:2000], diagonal=True)))) ** 0.5
    y = kappa * (np.eye(10)[labels] - 0.1)

    seconds: dict[str, float] = {}
    fill, started = TrainingKernel.fill, time.perf_counter()
    seconds["kernel"] = 0.0

    def timed_fill(self: TrainingKernel, panel: panels.Panel) -> None:
        begun = time.perf_counter()
        fill(self, panel)
        seconds["kernel"] += time.perf_counter() - begun

    TrainingKernel.fill = timed_fill  # type: ignore[method-assign]
    posterior = ntkgp.Posterior(net, x, y, noise_std=NOISE_STD, progress=True)
    TrainingKernel.fill = fill  # type: ignore[method-assign]
    seconds["kernel and factorisation"] = time.perf_counter() - started
    factorisation = seconds["kernel and factorisation"] - seconds["kernel"]

    predicted = {}
    for name, images in {"mnist test": inside, "notmnist": outside}.items():
        started = time.perf_counter()
        predicted[name] = posterior.predict(images, progress=True)
        seconds[f"means and variances of {len(images):,} {name}"] = time.perf_counter() - started

    rate = gemm_rate()
    found = np.argmax(predicted["mnist test"].mean, axis=1)
    doubt = {name: law.epistemic_var[:, 0] for name, law in predicted.items()}
    return {
        "training images": n,
        **{f"seconds: {name}": value for name, value in seconds.items()},
        "seconds: factorisation alone": factorisation,
        "factorisation, GFLOP/s": n**3 / 3 / factorisation / 1e9,
        "matrix product, GFLOP/s": rate / 1e9,
        "their ratio": n**3 / 3 / factorisation / rate,
        "peak memory, GiB": peak_gib(),
        "largest relative residual of (T + σ²I) w = y, on 500 rows": residual(posterior),
        "test error": float(np.mean(found != mnist.test.y[:n_tests])),
        "AUROC of the variance, mnist test against notmnist": auroc(
            doubt["mnist test"], doubt["notmnist"]
        ),
    }


def residual(posterior: ntkgp.Posterior) -> float:
    """Rows of the equation that the weights solve, each computed anew from the kernel."""
    n = len(posterior.x)
    some = np.random.default_rng(1).choice(n, min(n, 500), replace=False)
    rows = ntkgp.ntk(posterior.net, posterior.x[some], posterior.x)
    rows[np.arange(len(some)), some] = ntkgp.ntk(posterior.net, posterior.x[some], diagonal=True)
    left = rows @ posterior.weights + posterior.target_var * posterior.weights[some]
    return float(np.abs(left - posterior.y[some]).max() / np.abs(posterior.y).max())


if __name__ == "__main__":
    main()
