"""Results files: one JSON file per run, with what made it, written whole or not at all."""

import json
import os
import platform
from collections.abc import Collection
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray


def versions() -> dict[str, str]:
    """What computed the results."""
    packages = ("ntkgp", "jax", "jaxlib", "optax", "numpy", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def save(path: Path, results: dict[str, Any]) -> None:
    """Write atomically: a reader, or a killed run, never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w") as file:
        json.dump(results, file, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load(path: Path) -> dict[str, Any]:
    """Read a results file, or say what is wrong with it."""
    try:
        results = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} is not a results file ({error}). Delete it and run the experiment again."
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

    The fields named in `may_grow` say how much to run, not what a run is: they may differ.
    """
    as_json = json.loads(json.dumps(asdict(config)))
    fresh = {
        "experiment": experiment,
        "config": as_json,
        "versions": versions(),
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
            f"{path} holds the results of another configuration. Choose another output directory, "
            "or delete that file."
        )
    return earlier | {"config": as_json}


def rounded(values: NDArray[Any]) -> list[float]:
    """Six significant digits, which is what float32 training carries."""
    return [float(f"{value:.6g}") for value in values]
