"""Training an ensemble in one call."""

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ntkgp.core.arrays import check_inputs, check_number, check_seed, check_weights
from ntkgp.core.cluster import Ray, check_backend
from ntkgp.core.compilation import before_compiling
from ntkgp.core.progress import note
from ntkgp.core.rows import Rows
from ntkgp.ensembles.checkpoint import Checkpoint, check_checkpoint
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.job import Job, Members, check_memory, train_members
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.noise import ConstantNoise, Noise
from ntkgp.ensembles.outcome import report_failures, warn_if_far
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem
from ntkgp.ensembles.remote import train_remotely
from ntkgp.ensembles.trainers import Trainer, decaying_adam, default_trainer
from ntkgp.ensembles.windows import Windows, in_mini_batches
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.protocol import Network

MOST_MEMBERS = 100_000


def fit(
    net: Network,
    x: ArrayLike | Rows,
    y: ArrayLike | None = None,
    *,
    method: str | Method = "ntkgp-param",
    members: int | np.integer[Any] | Iterable[int] = 10,
    noise_std: float = 0.1,
    noise: Noise = ConstantNoise(),
    sample_weight: ArrayLike | None = None,
    member_nets: Sequence[LayeredNetwork] | None = None,
    seed: int = 0,
    trainer: Trainer | Sequence[Trainer] | None = None,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    weight_decay: float = 0.0,
    members_at_once: int | None = None,
    plan: str = "auto",
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    backend: str | Ray | None = None,
    progress: bool = False,
) -> Ensemble:
    """Train an ensemble.

    Args:
        net: the network of every member.
        x: training inputs (n, *input_shape); or rows that stay on disk with their targets, such as
            `ParquetRows` or `ArrayRows`, which are read window by window.
        y: training targets (n, c), or (n,) for one. The network has `noise.heads` outputs for each.
        method: a name in `METHODS`, or a `Method` of your own.
        members: how many, or which ones by index. Member i is drawn from (seed, i) alone, and
            trained the same whichever others are beside it, up to rounding.
        noise_std: standard deviation σ of the observation noise, in the units of y.
        noise: `ConstantNoise()`, or `LearnedNoise()` for a σ²(x) that the network learns
            (Section 3.3). It then has two outputs for each column of y, first the means, then the
            variances before a sigmoid; y should be standardised, and the trainer be `Descent`.
        sample_weight: w_n > 0 of each row, (n,): its noise variance is σ²/w_n. A whole number counts as
            so many equal rows.
        member_nets: a network for each member, if members are to differ in their prior: `net` with
            other scales, such as `uncertain_prior(...).draw(...)` gives.
        seed: the seed of all randomness, from 0 to 2³² - 1.
        trainer: `GaussNewton`, or `Descent` with any Optax optimiser. By default Gauss-Newton for
            least squares with few residuals, where it is quicker and gets further. For all
            else Adam with a decaying learning rate. `progress` says which. Several trainers work in
            turn, each from where the one before it ended.
        validation: a pair of inputs and targets for early stopping, for trainers that use them.
        weight_decay: for deep ensembles, which have no regulariser of their own.
        members_at_once: how many members train at the same time; None for all. Fewer take less memory.
        plan: how members run: "together" in one program, in "threads", one for each core, "sharded"
            over devices, "unrolled", "one by one", or "auto" for the plan that suits the network and
            the devices.
        checkpoint: a directory, or a `Checkpoint`, that keeps the state of training: the same fit goes
            on from there after a crash or a signal, and gives the same members bit for bit.
        backend: None for this machine; "ray", or a `Ray`, to train groups of members on a cluster.
        progress: show a progress bar.

    A member whose loss becomes NaN or infinite is trained again from its own start, up to twice, each time
    with steps a quarter as large, and for `GaussNewton` with four times the damping. A warning says so. If
    it fails again it is left out: `failed` names it.

    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(3 * x), members=3)
    >>> ensemble.predict(x).mean.shape
    (8, 1)
    """
    before_compiling()
    indices = _check_members(members)
    if not isinstance(noise, Noise) or isinstance(noise, type):
        raise TypeError(
            "noise must be a noise model, ntkgp.ConstantNoise() or ntkgp.LearnedNoise(), or one of "
            f"your own with the attributes of ntkgp.Noise; got {noise!r}."
        )
    learner = Baselearner(
        net,
        get_method(method),
        check_number("noise_std", noise_std),
        check_number("weight_decay", weight_decay),
        noise,
    ).check()
    seed = check_seed(seed)
    nets = _check_member_nets(member_nets, net, len(indices))
    held_out = _check_validation(validation, learner)
    where, cluster = check_checkpoint(checkpoint), check_backend(backend)
    choose_plan(net, 1, plan, members_at_once)  # refuses what none can be
    windows = _check_rows(x, y, sample_weight, trainer, learner, seed, progress)
    data = windows.first() if windows else _check_data("x", "y", x, y, learner, sample_weight)
    whole = None if windows is None else jnp.asarray(windows.survey.n, jnp.float32)
    problem = Problem(learner, data, held_out, whole)
    trainers = _check_trainers(trainer, problem, windows, progress)
    job = Job(problem, seed, trainers, plan, members_at_once, windows)
    if cluster is None:
        check_memory(job, len(indices))
        done = train_members(job, indices, nets, where, progress)
    else:
        done = train_remotely(cluster, job, indices, nets, where, progress)
    report_failures(indices, done)
    ensemble = _ensemble(job, indices, done)
    warn_if_far(job, ensemble.indices, ensemble.objectives)
    return ensemble


def _ensemble(job: Job, indices: tuple[int, ...], done: Members) -> Ensemble:
    """The members that did not fail."""
    good = done.good
    kept = done if good.all() else jax.tree.map(lambda leaf: leaf[good], done)
    trained = kept.trained
    return Ensemble(
        learner=job.problem.learner,
        seed=job.seed,
        indices=tuple(i for i, ok in zip(indices, good, strict=True) if ok),
        theta=trained.theta,
        member=kept.member,
        losses=trained.losses,
        validation_losses=trained.validation_losses,
        objectives=trained.objectives,
        ended=trained.ended,
        attempts=kept.attempts,
        trained_on=job.fingerprint(),
        members_at_once=job.members_at_once,
        failed=tuple(i for i, ok in zip(indices, good, strict=True) if not ok),
    )


def _check_members(members: Any) -> tuple[int, ...]:
    try:
        indices = tuple(range(min(index(members), MOST_MEMBERS + 1)))
    except TypeError:
        given = members if isinstance(members, Iterable) else ()
        indices = tuple(islice(given, MOST_MEMBERS + 1))
    if len(indices) > MOST_MEMBERS:
        raise ValueError(
            f"members must be at most {MOST_MEMBERS:,}; got {str(members)[:40]}. Errors of an ensemble's "
            "moments fall as one over the root of their number: a few dozen are the rule."
        )
    if (
        not indices
        or not all(isinstance(i, int) for i in indices)
        or min(indices) < 0
        or max(indices) >= 2**31
        or len(set(indices)) < len(indices)
    ):
        raise ValueError(
            "members must be a number ≥ 1, or distinct indices ≥ 0, of the members to train; "
            f"got {members!r}."
        )
    return indices


def _check_trainers(
    trainer: Any, problem: Problem, windows: Windows | None, progress: bool
) -> Sequence[Trainer]:
    if trainer is None:
        trainer = default_trainer(problem) if windows is None else decaying_adam(windows.survey.n)
        note(f"trainer: {type(trainer).__name__}", progress)
    trainers = trainer if isinstance(trainer, (list, tuple)) else [trainer]
    if not trainers or not all(isinstance(each, Trainer) for each in trainers):
        raise TypeError(
            "trainer must be a Trainer, or several: ntkgp.GaussNewton(), or ntkgp.Descent(optimizer, "
            f"epochs=...) for an Optax optimiser; got {trainer!r}."
        )
    for each in trainers:
        each.check(problem)
    return trainers if windows is None else [windows.paced(each) for each in trainers]


def _check_member_nets(
    nets: Sequence[LayeredNetwork] | None, net: Network, members: int
) -> list[LayeredNetwork] | None:
    if nets is None:
        return None
    like_net: Any = jax.tree.structure(require_layers(net))
    alike = [jax.tree.structure(own) == like_net for own in nets]
    if len(alike) != members or not all(alike):
        raise ValueError(
            f"member_nets must be one network for each of the {members} members, all like net but for "
            f"their scales; got {len(alike)}, {sum(alike)} of them like it."
        )
    return list(nets)


def _check_rows(
    x: Any,
    y: Any,
    sample_weight: Any,
    trainer: Any,
    learner: Baselearner,
    seed: int,
    progress: bool,
) -> Windows | None:
    """Rows that stay on disk, in windows; None for arrays."""
    if not isinstance(x, Rows):
        if y is None:
            raise TypeError("y is missing: give the training targets, one row for each row of x.")
        return None
    if y is not None or sample_weight is not None:
        raise ValueError(
            f"{type(x).__name__} has its own targets, and rows of equal weight: give neither y nor "
            "sample_weight."
        )
    for each in trainer if isinstance(trainer, (list, tuple)) else [trainer]:
        if each is not None:
            in_mini_batches(each)  # said before all rows are read
    return Windows.of(x, learner, seed, progress)


def _check_validation(validation: Any, learner: Baselearner) -> Data | None:
    if validation is None:
        return None
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise TypeError(
            "validation must be a pair of inputs and targets, validation=(x, y); "
            f"got {type(validation).__name__}."
        )
    x_held_out, y_held_out = validation
    names = ("validation[0]", "validation[1]")
    return _check_data(*names, x_held_out, y_held_out, learner)


def _check_data(
    x_name: str,
    y_name: str,
    x: Any,
    y: Any,
    learner: Baselearner,
    sample_weight: ArrayLike | None = None,
) -> Data:
    """Inputs and targets as float32 arrays that fit the network and each other."""
    inputs = check_inputs(x_name, x, learner.net.input_shape, np.float32)
    targets = np.atleast_1d(np.asarray(y))
    if targets.ndim == 1:
        targets = targets[:, None]
    if len(targets) != len(inputs):
        raise ValueError(
            f"{x_name} and {y_name} must have one row for each example; "
            f"got {len(inputs)} and {len(targets)} rows."
        )
    checked = check_inputs(y_name, targets, (learner.target_dim,), np.float32)
    return Data.of(inputs, checked, check_weights(sample_weight, len(inputs)))
