"""How the exact and the iterative law grow with the number of training rows: time and memory.

Every size runs in a process of its own, so that its peak memory is its own.

    python benchmarks/growth.py [--out runs/bench]
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import Records, in_new_process, options_of, parsed, pyplot, save_figure, write

LOOKS = {"Cholesky": ("#0072b2", "o", "-"), "ConjugateGradients": ("#d55e00", "s", "--")}


@dataclass(frozen=True)
class Sizes:
    rows: tuple[int, ...] = (2000, 4000, 8000, 16000, 32000)
    most_iterative: int = 16000
    """Beyond, conjugate gradients take a quarter of an hour."""
    features: int = 50
    depth: int = 2
    rows_before: int = 500
    """Conditioned on to compile, which is the idle state."""
    predictions: int = 500


TINY = Sizes(rows=(7, 8), features=2, depth=1, rows_before=8, predictions=8)


def measure(sizes: Sizes, solver: str, n: int) -> dict[str, Any]:
    """Seconds of conditioning on n rows and of means and variances; peak memory beyond idle."""
    import ntkgp
    from ntkgp.networks.layers import Relu

    rng = np.random.default_rng(0)
    x = rng.random((n, sizes.features))
    y = np.sin(x.sum(axis=1))
    net = ntkgp.mlp(sizes.features, depth=sizes.depth, activation=Relu(), w_std=2**0.5)
    before = slice(sizes.rows_before)
    ntkgp.condition(net, x[before], y[before]).predict(x[: sizes.predictions])
    idle = peak_gib()
    started = time.perf_counter()
    law = ntkgp.condition(net, x, y, noise_std=0.1, solver=getattr(ntkgp, solver)())
    conditioned = time.perf_counter()
    law.predict(rng.random((sizes.predictions, sizes.features)))
    done = time.perf_counter()
    return {
        "solver": solver,
        "rows": n,
        "seconds, conditioning": conditioned - started,
        f"seconds, {sizes.predictions} predictions": done - conditioned,
        "peak GiB": max(peak_gib() - idle, 2**-20),  # less is not seen, and has no logarithm
    }


def peak_gib() -> float:
    from ntkgp.core.memory import peak_bytes

    return (peak_bytes() or 0) / 2**30


def exponent(rows: Records, field: str) -> float:
    """Slope of the logarithms over the three largest sizes."""
    last = rows[-3:]
    return float(
        np.polyfit(np.log([r["rows"] for r in last]), np.log([r[field] for r in last]), 1)[0]
    )


def draw(rows: Records, path: Path) -> None:
    figure, axes = pyplot().subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    fields = {"seconds, conditioning": "seconds to condition", "peak GiB": "peak memory, GiB"}
    sizes = sorted({row["rows"] for row in rows})
    for axis, (field, label) in zip(axes, fields.items(), strict=True):
        for solver, (colour, marker, line) in LOOKS.items():
            own = [row for row in rows if row["solver"] == solver]
            name = f"{solver}, $n^{{{exponent(own, field):.1f}}}$"
            x, values = [row["rows"] for row in own], [row[field] for row in own]
            axis.loglog(x, values, color=colour, marker=marker, ls=line, label=name)
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axis.minorticks_off()
        axis.set(xlabel="training rows n", ylabel=label)
        axis.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axis.grid(alpha=0.3)
    save_figure(figure, path, "png", "svg")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--one", nargs=2, metavar=("SOLVER", "ROWS"), help="one measurement only")
    options = parsed(parser, arguments)
    sizes = TINY if options.tiny else Sizes()
    if options.one:
        solver, n = options.one
        print(json.dumps(measure(sizes, solver, int(n))))
        return
    rows: Records = []
    for solver in LOOKS:
        most = sizes.most_iterative if solver == "ConjugateGradients" else max(sizes.rows)
        for n in (n for n in sizes.rows if n <= most):
            tiny = ["--tiny"] if options.tiny else []
            rows.append(in_new_process(__file__, [*tiny, "--one", solver, str(n)]))
            print(rows[-1], flush=True)
    write("growth", rows, sizes, options.out)
    draw(rows, options.out / "growth")


if __name__ == "__main__":
    main()
