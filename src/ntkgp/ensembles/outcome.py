"""What is said of members after training: those that failed, and those that learned nothing."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.ensembles.job import Job, Members

FAR = 1e3
"""So many times the size of y away from y, members have learned nothing."""
STRANDED = 10.0
"""So many times as far from y as the others, a member is not one of them."""


class MemberFailure(UserWarning):
    """Some members' losses became NaN or infinite, and those members were left out."""


class FarFromTargets(UserWarning):
    """Members' predictions at the training rows are nowhere near their targets."""


class MemberRetried(UserWarning):
    """Some members' losses became NaN or infinite, and those members were trained with smaller steps."""


def report_failures(indices: tuple[int, ...], done: Members) -> None:
    diverged = "the training loss of {} became NaN or infinite"
    remedy = (
        "Lower the learning rate, standardise the data, give a larger noise_std, or check y for "
        "extreme values."
    )
    tried = list(zip(indices, done.good, done.attempts, strict=True))
    failed = [i for i, ok, _ in tried if not ok]
    retried = [i for i, ok, attempts in tried if ok and attempts > 1]
    if len(failed) == len(indices):
        raise FloatingPointError(
            f"no member survived training: {diverged.format(_named(failed))}, with smaller steps too. "
            f"{remedy}"
        )
    if retried:
        warnings.warn(
            f"{diverged.format(_named(retried))}. They were trained again with smaller steps, and are "
            f"part of the ensemble. {remedy}",
            MemberRetried,
            stacklevel=3,
        )
    if failed:
        warnings.warn(
            f"{diverged.format(_named(failed))}, with smaller steps too. They are left out of the "
            f"ensemble. {remedy}",
            MemberFailure,
            stacklevel=3,
        )


def _named(members: Sequence[int]) -> str:
    return f"member{'s' if len(members) > 1 else ''} {', '.join(map(str, members))}"


def warn_if_far(job: Job, indices: Sequence[int], objectives: NDArray[Any]) -> None:
    """Say so if members end far from all targets: training was finite, and led nowhere."""
    learner = job.problem.learner
    if not learner.noise.least_squares or not len(objectives):
        return
    size = max(_size_of_targets(job), 1e-30)
    misses = np.sqrt(2 * np.maximum(objectives, 0) / learner.target_dim)
    worst = float(np.max(misses)) / max(size, float(learner.noise_std))
    if worst > FAR:
        warnings.warn(
            f"training ended {worst:.1g} times the size of y away from y, and is of no use. Lower the "
            "learning rate, take more steps, or standardise the data.",
            FarFromTargets,
            stacklevel=3,
        )
        return
    stranded = (misses > size) & (misses > STRANDED * np.median(misses))
    if stranded.any():
        warnings.warn(
            f"{_named([i for i, is_so in zip(indices, stranded, strict=True) if is_so])} ended farther "
            "from y than 0 is, and the others near it. The mean and the spread of the ensemble follow "
            "such members: train longer, or with smaller steps.",
            FarFromTargets,
            stacklevel=3,
        )


def _size_of_targets(job: Job) -> float:
    """The root of their mean square."""
    if job.windows is not None:
        return float(job.windows.survey.mean_square**0.5)
    data = job.problem.data
    y, weight = np.asarray(data.y, np.float64), np.asarray(data.share(), np.float64)[:, None]
    return float(np.sqrt(np.sum(weight * y**2) / np.sum(weight) / y.shape[1]))
