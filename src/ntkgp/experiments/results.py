"""Results files: one JSON file per run, with what made it."""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from numpy.typing import NDArray

from ntkgp.core.files import replacing

Mark = dict[str, Any]
"""What says which run of an experiment a record is: its method, its seed and the like."""
Record = dict[str, Any]
"""What a run found."""


def versions() -> dict[str, str]:
    """What computed the results."""
    packages = ("ntkgp", "jax", "jaxlib", "optax", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def machine() -> dict[str, Any]:
    """What it was computed on, without which no time means anything."""
    devices = jax.devices()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "backend": jax.default_backend(),
        "devices": len(devices),
        "device_kind": devices[0].device_kind,
    }


def save(path: Path, results: dict[str, Any]) -> None:
    """Write a results file."""
    with replacing(path) as file:
        file.write((json.dumps(results, allow_nan=False) + "\n").encode())


def load(path: Path) -> dict[str, Any]:
    """Read a results file, or say what is wrong with it."""
    try:
        results = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a results file ({error}). If it was one, it is damaged: run the experiment "
            "again, into another directory."
        ) from None
    needed = {"experiment", "config", "versions", "runs"}
    if not isinstance(results, dict) or not needed <= results.keys():
        raise ValueError(
            f"{path} is not a results file of ntkgp: it needs the entries {', '.join(sorted(needed))}."
        )
    return results


def resume(
    path: Path, experiment: str, config: Any, contents: dict[str, Any], may_grow: Collection[str]
) -> dict[str, Any]:
    """The results of an interrupted run of the same configuration, or new ones with no runs.

    The fields named in `may_grow` say which runs there are, not what a run is: they may differ.
    """
    as_json = json.loads(json.dumps(asdict(config)))
    fresh = {
        "experiment": experiment,
        "config": as_json,
        "versions": versions(),
        "machine": machine(),
        **contents,
        "runs": [],
    }
    if not path.exists():
        return fresh
    earlier = load(path)
    fixed = [name for name in as_json if name not in may_grow]
    if earlier["experiment"] != experiment or any(
        earlier["config"].get(name) != as_json[name] for name in fixed
    ):
        raise ValueError(
            f"{path} holds the results of another configuration. Choose another output directory "
            "(--out), or delete that file."
        )
    return earlier | {"config": as_json}


def fill_in(
    path: Path,
    state: dict[str, Any],
    marks: Collection[Mark],
    compute: Callable[[Mark], Record],
    say: Callable[[str], None],
) -> None:
    """Compute the records that the results file does not have yet, and save it after each.

    So an interrupted run continues where it was. The file says which records are of its present
    configuration; `wanted` finds them.
    """
    state["marks"] = list(marks)
    save(path, state)  # also tells now, not after the first record, whether this can be written
    for number, mark in enumerate(marks, start=1):
        if any(mark.items() <= run.items() for run in state["runs"]):
            continue
        started = time.perf_counter()
        record = compute(mark)
        seconds = round(time.perf_counter() - started, 2)
        made_by = {"versions": versions(), "machine": machine()}
        other = {name: value for name, value in made_by.items() if state.get(name) != value}
        state["runs"].append(mark | record | {"seconds": seconds} | other)
        save(path, state)
        words = ", ".join(f"{name} {value}" for name, value in mark.items())
        say(f"{number}/{len(marks)}  {words}: {seconds:.1f} s")


def wanted(contents: dict[str, Any]) -> dict[str, Any]:
    """The same results with the records of the last configuration alone."""
    marks = contents.get("marks")
    if marks is None:
        return contents
    runs = [run for run in contents["runs"] if any(mark.items() <= run.items() for mark in marks)]
    return contents | {"runs": runs}


def find(state: dict[str, Any], mark: Mark, *fields: str) -> Record:
    """The record of that kind with these fields of the mark."""
    wanted = {name: mark[name] for name in ("kind", *fields)}
    return next(run for run in state["runs"] if wanted.items() <= run.items())


def rounded(values: NDArray[Any]) -> list[float | None]:
    """Six significant digits, which is what float32 training carries; None for NaN."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]
