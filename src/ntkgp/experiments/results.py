"""Results files: one JSON file for each run of an experiment, with what made it."""

import json
import math
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from numpy.typing import NDArray

from ntkgp.core.files import replacing

Mark = dict[str, Any]
"""Identifies one run of an experiment: its method, its seed and the like."""
Record = dict[str, Any]
"""What a run found."""
Results = dict[str, Any]
"""A results file: configuration, versions, axes and the records of all runs."""
NEEDED = {"experiment": str, "config": dict, "versions": dict, "runs": list}
"""What every results file has."""


def versions() -> dict[str, str]:
    """What computed the results."""
    packages = ("ntkgp", "jax", "jaxlib", "optax", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def machine() -> dict[str, Any]:
    """The machine that computed it: times mean nothing without it."""
    devices = jax.devices()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "backend": jax.default_backend(),
        "devices": len(devices),
        "device_kind": devices[0].device_kind,
    }


def save(path: Path, results: Results) -> None:
    """Write a results file."""
    with replacing(path) as file:
        file.write((json.dumps(results, allow_nan=False) + "\n").encode())


def load(path: Path) -> Results:
    """Read a results file, or say what is wrong with it."""
    try:
        results = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a results file ({error}). If it was one, it is damaged: run the experiment "
            "again, into another directory."
        ) from None
    if not isinstance(results, dict) or not all(
        isinstance(results.get(name), kind) for name, kind in NEEDED.items()
    ):
        raise ValueError(
            f"{path} is not a results file of ntkgp: it needs the entries {', '.join(NEEDED)}."
        )
    return results


def wanted(results: Results) -> Results:
    """The same results with only the records of the last configuration."""
    marks = results["marks"] if "marks" in results else results["runs"]
    runs = [run for run in results["runs"] if any(mark.items() <= run.items() for mark in marks)]
    return results | {"runs": runs}


def found(runs: Iterable[Record], mark: Mark) -> list[Record]:
    """The records that contain this mark."""
    return [run for run in runs if mark.items() <= run.items()]


def rounded(values: NDArray[Any]) -> list[float | None]:
    """Six significant digits, which is what float32 training carries; None for NaN."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]
