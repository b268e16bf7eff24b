"""What the benchmarks share: the best of several runs taken in turn, a table, and a JSON file."""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ntkgp.experiments import results


def best_seconds(
    runs: dict[str, Callable[[], Any]], repeats: int = 5, in_a_row: int = 1
) -> dict[str, float]:
    """The least time of each, taken in turn so that a busy machine disturbs all alike.

    Every run is called once before, to compile and to warm up. Where a run's memory must be
    mapped anew after another run, several calls in a row show its own time.
    """
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            for _ in range(in_a_row):
                started = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - started)
    return best


def peak_gib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of equal keys as text."""
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main(name: str, run: Callable[[], list[dict[str, Any]]]) -> None:
    """Run one benchmark from the command line: print its table, write NAME.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    rows = run()
    print(f"{name}\n{table(rows)}\n")
    contents = {"benchmark": name, "versions": results.versions(), "cores": os.cpu_count()}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(
        json.dumps(contents | {"rows": rows}, indent=1) + "\n"
    )
