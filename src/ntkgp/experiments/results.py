"""Results files: one JSON file for each run of an experiment, with what made it."""

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from numpy.typing import NDArray

from ntkgp.core.files import replacing
from ntkgp.core.progress import printable
from ntkgp.core.threads import cores

Mark = dict[str, Any]
"""Identifies one run of an experiment: its method, its seed and the like."""
Record = dict[str, Any]
"""What a run found."""
Results = dict[str, Any]
"""A results file: configuration, versions, axes and the records of all runs."""
NEEDED = {"experiment": str, "config": dict, "versions": dict, "runs": list, "sha256": str}
"""What every results file has."""
MOST_BYTES = 2**25
"""Of a results file; the largest of the paper's experiments has half a million."""


def versions() -> dict[str, str]:
    """What computed the results."""
    packages = ("ntkgp", "jax", "jaxlib", "optax", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def machine() -> dict[str, Any]:
    """The machine that computed it: times mean nothing without it."""
    devices = jax.devices()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "backend": jax.default_backend(),
        "devices": len(devices),
        "device_kind": devices[0].device_kind,
    }


def save(path: Path, results: Results) -> None:
    """Write a results file, its checksum first; refuse what `load` would refuse."""
    content = signed(results)
    plain = json.loads(content)
    reason = _lacking(plain) or _oddity(plain)
    if len(content) > MOST_BYTES:
        reason = f"it would have {len(content):,} bytes, more than {MOST_BYTES:,}"
    if reason:
        raise ValueError(f"these results cannot be written to {path}: {reason}.")
    with replacing(path) as file:
        file.write(content)


def signed(results: Results) -> bytes:
    """The content of a results file."""
    plain = json.loads(json.dumps(results, allow_nan=False))
    return (json.dumps({"sha256": _digest(plain)} | plain) + "\n").encode()


def load(path: Path) -> Results:
    """Read a results file, or say what is wrong with it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        results = json.loads(path.read_bytes(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not a results file ({error}). If it was one, it is damaged: run the experiment "
            "again, into another directory."
        ) from None
    if reason := _lacking(results):
        raise ValueError(f"{path} is not a results file of ntkgp: {reason}.")
    if results.pop("sha256") != _digest(results):
        raise ValueError(
            f"{path} is damaged, or was changed after it was written: its checksum does not match. Run "
            "the experiment again, into another directory."
        )
    if reason := _oddity(results):
        raise ValueError(f"{path} is not a results file of ntkgp: {reason}.")
    return results


def _lacking(results: Any) -> str | None:
    """What every results file has, if this one does not."""
    if isinstance(results, dict) and all(
        isinstance(results.get(name), kind) for name, kind in NEEDED.items()
    ):
        return None
    return f"it needs the entries {', '.join(NEEDED)}"


def _digest(results: Results) -> str:
    return hashlib.sha256(json.dumps(results, sort_keys=True).encode()).hexdigest()


def _refuse(name: str) -> None:
    raise ValueError(f"it has {name} for a number")


def _oddity(results: Results) -> str | None:
    """What no results file has, if this one does: other types in a list of runs, control characters."""
    for name in ("runs", "marks"):
        entries = results.get(name, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return f"its {name} are not a list of dictionaries"
    if not isinstance(results.get("machine", {}), dict):
        return "its machine is no dictionary"
    if any(printable(text) != text for text in _texts(results)):
        return "it has control characters in its words"
    return None


def _texts(value: Any) -> Iterator[str]:
    """All words of a value, at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


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
