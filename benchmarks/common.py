"""What the benchmarks share: their options, times, processes of their own, tables and JSON files.

Every benchmark has its sizes as a frozen dataclass: the defaults are those of the figures in
docs/results.md, and `TINY` is what --tiny runs, to see that all of it works. Nothing here imports
JAX or ntkgp before it is needed, so that a process can set devices and time its imports.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Records = list[dict[str, Any]]
Name = TypeVar("Name")


# Options


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="directory of the files to write")
    parser.add_argument("--tiny", action="store_true", help="see that it runs, in seconds")
    return parser


def parsed(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None, out: str = "runs/bench"
) -> argparse.Namespace:
    """The options given; tiny results never replace others unless --out says so."""
    options = parser.parse_args(arguments)
    options.out = options.out or Path("runs/tiny" if options.tiny else out)
    return options


def run_and_write(
    name: str,
    doc: str | None,
    run: Callable[[Any], Records],
    sizes: Any,
    tiny: Any,
    arguments: Sequence[str] | None,
) -> None:
    """All of a benchmark that has no options of its own."""
    options = parsed(options_of(doc), arguments)
    chosen = tiny if options.tiny else sizes
    write(name, run(chosen), chosen, options.out)


def run_against_pytorch(
    name: str,
    doc: str | None,
    run: Callable[[Any, bool], Records],
    sizes: Any,
    tiny: Any,
    arguments: Sequence[str] | None,
) -> None:
    """The same for one that is told whether to time PyTorch too, which may not be installed."""
    parser = options_of(doc)
    parser.add_argument("--ours", action="store_true", help="leave PyTorch out")
    options = parsed(parser, arguments)
    chosen = tiny if options.tiny else sizes
    write(name, run(chosen, not options.ours), chosen, options.out)


# Times


def compile_anew() -> None:
    """Find no programs of earlier processes, and keep none: first times are with compilation.

    To be called before the first fit.
    """
    os.environ["NTKGP_COMPILED"] = "off"


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def best_seconds(
    runs: Mapping[Name, Callable[[], Any]], repeats: int = 5, in_a_row: int = 1
) -> dict[Name, float]:
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
                best[name] = min(best[name], seconds_of(run))
    return best


def in_new_process(
    script: str, arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Any:
    """The JSON that a script prints, run by a process that has done nothing before."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


# Results


def write(name: str, rows: Records, sizes: Any, out: Path) -> None:
    """Print the table, and write NAME.json."""
    from ntkgp.core.files import replacing
    from ntkgp.core.threads import cores
    from ntkgp.experiments import results

    print(f"{name}\n{table(rows)}\n")
    contents: dict[str, Any] = {
        "benchmark": name,
        "versions": results.versions(),
        "cores": cores(),
    }
    contents |= {"sizes": asdict(sizes), "rows": rows}
    with replacing(out / f"{name}.json") as file:
        file.write((json.dumps(contents, indent=1) + "\n").encode())


def table(rows: Records) -> str:
    """Records of equal keys as text."""
    cells = [list(rows[0]), *([_shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(line.rstrip() for line in lines)


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def pyplot() -> Any:
    """Matplotlib's, for files only: small type, and no frame around axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    return plt


def save_figure(figure: Any, path: Path, *kinds: str) -> None:
    """Write files of these kinds, PNG if none is named, and let go of the figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for kind in kinds or ("png",):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=150)
    pyplot().close(figure)
