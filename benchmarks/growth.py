"""How the exact and the iterative law grow with the number of training rows: time and memory.

Every size runs in a process of its own, so that its peak memory is its own.

    python benchmarks/growth.py [--out runs/bench]
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {
    "Cholesky": (2000, 4000, 8000, 16000),
    "ConjugateGradients": (2000, 4000, 8000, 16000),
}


def measure(solver: str, n: int) -> dict[str, Any]:
    """Seconds of conditioning on n rows and of 500 means and variances; peak memory beyond idle."""
    import ntkgp
    from common import peak_gib
    from ntkgp.networks.layers import Relu

    rng = np.random.default_rng(0)
    x = rng.random((n, 50))
    y = np.sin(x.sum(axis=1))
    net = ntkgp.mlp(50, activation=Relu(), w_std=2**0.5)
    ntkgp.condition(net, x[:500], y[:500]).predict(x[:500])  # compiles, and is the idle state
    idle = peak_gib()
    started = time.perf_counter()
    law = ntkgp.condition(net, x, y, noise_std=0.1, solver=getattr(ntkgp, solver)())
    conditioned = time.perf_counter()
    law.predict(rng.random((500, 50)))
    done = time.perf_counter()
    return {
        "solver": solver,
        "rows": n,
        "seconds, conditioning": conditioned - started,
        "seconds, 500 predictions": done - conditioned,
        "peak GiB": peak_gib() - idle,
    }


def exponent(rows: list[dict[str, Any]], field: str) -> float:
    """Slope of the logarithms over the three largest sizes."""
    last = rows[-3:]
    return float(
        np.polyfit(np.log([r["rows"] for r in last]), np.log([r[field] for r in last]), 1)[0]
    )


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    fields = {"seconds, conditioning": "seconds to condition", "peak GiB": "peak memory, GiB"}
    looks = (("#0072b2", "o", "-"), ("#d55e00", "s", "--"))
    for axis, (field, label) in zip(axes, fields.items(), strict=True):
        for (colour, marker, line), solver in zip(looks, SIZES, strict=True):
            own = [row for row in rows if row["solver"] == solver]
            sizes, values = [row["rows"] for row in own], [row[field] for row in own]
            name = f"{solver}, $n^{{{exponent(own, field):.1f}}}$"
            axis.loglog(sizes, values, color=colour, marker=marker, ls=line, label=name)
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axis.minorticks_off()
        axis.set(xlabel="training rows n", ylabel=label)
        axis.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axis.grid(alpha=0.3)
    for kind in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--one", nargs=2, metavar=("SOLVER", "ROWS"), help="one measurement only")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    from common import table

    rows = []
    for solver, sizes in SIZES.items():
        for n in sizes:
            command = [sys.executable, __file__, "--one", solver, str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows.append(json.loads(done.stdout))
            print(rows[-1], flush=True)
    print(f"growth\n{table(rows)}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "growth.json").write_text(
        json.dumps({"benchmark": "growth", "rows": rows}) + "\n"
    )
    draw(rows, options.out / "growth")


if __name__ == "__main__":
    main()
