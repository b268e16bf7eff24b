"""Members trained by the tasks of a cluster, in groups."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ntkgp.core.cluster import Ray
from ntkgp.core.progress import note, progress_bar
from ntkgp.ensembles.checkpoint import Checkpoint
from ntkgp.ensembles.job import Job, Members, check_memory, joined, train_members
from ntkgp.networks.layered import LayeredNetwork


def train_remotely(
    backend: Ray,
    job: Job,
    indices: Sequence[int],
    nets: Sequence[LayeredNetwork] | None,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> Members:
    """The members that `train_members` trains on one machine, a group in each task.

    The data go into the cluster's memory once. A group keeps checkpoints in a directory of its own; a task
    that is run again goes on from there, if its machine sees that directory. Tasks run in directories that
    Ray chooses, so a relative path is one from here.
    """
    if checkpoint is not None:
        checkpoint = Checkpoint(Path(checkpoint.directory).absolute(), checkpoint.every)
    size = backend.members_per_task
    rows = [range(start, min(start + size, len(indices))) for start in range(0, len(indices), size)]
    items = []
    for group in rows:
        own = [indices[i] for i in group]
        at = None if checkpoint is None else checkpoint.under(f"members-{own[0]}-to-{own[-1]}")
        items.append((own, None if nets is None else [nets[i] for i in group], at))
    note(f"members: {len(items)} tasks of {size} on Ray", progress)
    with progress_bar(len(indices), "members", progress) as bar:
        parts = backend.run(
            _train, [backend.shared(_to_numpy(job))], items, lambda i: bar.update(len(rows[i]))
        )
    return joined([_received(part) for part in parts])


def _train(job: Job, item: tuple[Any, Any, Any]) -> Members:
    """In a task: its machine's memory must suffice, and its files be those that `fit` has read."""
    job = _to_jax(job)
    if job.windows is not None:
        job.windows.survey.check(job.windows.rows)
    check_memory(job, len(item[0]))
    return _to_numpy(train_members(job, *item, progress=False))


def _received(part: Members) -> Members:
    """What members are, on a device; the record of their training stays in NumPy."""
    trained = part.trained._replace(theta=_to_jax(part.trained.theta))
    return part._replace(trained=trained, member=_to_jax(part.member))


def _to_numpy(tree: Any) -> Any:
    """Arrays that tasks on one machine share without a copy."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def _to_jax(tree: Any) -> Any:
    def on_device(leaf: Any) -> Any:
        numbers = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub"
        return jnp.asarray(leaf) if numbers else leaf

    return jax.tree.map(on_device, tree)
