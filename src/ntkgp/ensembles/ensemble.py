"""The ensemble: members drawn, trained and put together."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_inputs, row_batches
from ntkgp.core.progress import note
from ntkgp.core.storage import WrongNetwork, fields_of, is_storable, save, storable
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member
from ntkgp.ensembles.methods import METHODS, get_method
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise
from ntkgp.ensembles.plans import map_members
from ntkgp.ensembles.trainers import Trained, Trainer
from ntkgp.ensembles.trainers.default import choose_trainer
from ntkgp.ensembles.training import Data, Draw, draw_members, finite_members, regularisers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Mixture

_BATCH_SIZES = (256, 4096)


class MemberFailure(UserWarning):
    """Some members' losses became NaN or infinite, and those members were left out."""


@storable
@dataclass(frozen=True)
class Ensemble:
    """Trained baselearners of one method on one data set; `fit` makes it."""

    learner: Baselearner
    seed: int
    indices: tuple[int, ...]
    """Which members these are: member i is a function of (seed, i) alone."""
    theta: Params
    """Trained parameters θ̂, each leaf (k, ...)."""
    member: Member
    """What each member needs beside θ̂ to predict, each leaf (k, ...)."""
    losses: NDArray[Any]
    """(k, steps): training loss, σ²/N times the objective of Algorithms 1 to 3, 1/N for learned noise."""
    validation_losses: NDArray[Any]
    """(k, evaluations)."""
    objectives: NDArray[Any]
    """(k,): final loss on the whole training set."""
    converged: NDArray[np.bool_]
    """(k,): whether the trainer's own criterion ended training, not its limit of steps."""
    failed: tuple[int, ...] = ()
    """Indices of members whose loss became NaN or infinite; they are in none of the above."""

    def __repr__(self) -> str:
        method = next(name for name, method in METHODS.items() if method == self.learner.method)
        return f"<Ensemble of {len(self.indices)} members, {method}, seed {self.seed}>"

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the ensemble into a directory, for `ntkgp.load`: safetensors and JSON."""
        save(self, directory)

    def __to_store__(self) -> dict[str, Any]:
        """The fields; parameters by their leaves, because their pytree is the network's own."""
        stored = fields_of(self)
        trees = {"theta": stored.pop("theta"), **stored.pop("member")._asdict()}
        leaves = {
            name: None if tree is None else jax.tree.leaves(tree) for name, tree in trees.items()
        }
        given_again = not is_storable(self.learner.net)
        return stored | {"parameters": leaves, "probe": _probe(self) if given_again else None}

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> "Ensemble":
        net, members = stored["learner"].net, len(stored["indices"])
        leaves, probe = stored.pop("parameters"), stored.pop("probe")
        trees = {name: _stacked(net, members, own) for name, own in leaves.items()}
        ensemble = cls(theta=trees.pop("theta"), member=Member(**trees), **stored)
        if probe is not None:
            tolerance = 1e-2 * np.max(np.abs(probe))  # another computer rounds otherwise
            if not np.allclose(_probe(ensemble), probe, rtol=0, atol=tolerance):
                raise WrongNetwork(
                    "the network has the saved parameters' shapes but predicts otherwise with "
                    "them: give the one that was trained."
                )
        return ensemble

    def outputs(self, x: ArrayLike) -> NDArray[Any]:
        """f̃_k(x, θ̂_k) of each member, (k, n, c): the mean of its prediction."""
        return self._predict(x)[0]

    def predict(self, x: ArrayLike) -> Mixture:
        """The predictive mixture of an observation at each x (Appendix F)."""
        means, noise_vars = self._predict(x)
        return Mixture(means.astype(np.float64), noise_vars.astype(np.float64))

    def _predict(self, x: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and noise variance of each member, (k, n, c) both.

        In batches of two sizes only, the last one padded, so that two compiled programs serve
        any number of rows.
        """
        inputs = check_inputs("x", x, self.learner.net.input_shape, np.float32)
        size = next((size for size in _BATCH_SIZES if size >= len(inputs)), _BATCH_SIZES[-1])
        parts = []
        for start in range(0, len(inputs), size):
            rows = np.minimum(np.arange(start, start + size), len(inputs) - 1)
            batch = jnp.asarray(inputs[rows])
            normals = map_members(
                self.learner.net, _normal, (self.theta, self.member), (self.learner, batch)
            )
            parts.append([np.asarray(part)[:, : len(inputs) - start] for part in normals])
        means, noise_vars = zip(*parts, strict=True)
        return np.concatenate(means, axis=1), np.concatenate(noise_vars, axis=1)


def _probe(ensemble: Ensemble) -> NDArray[Any]:
    """Outputs at a few inputs, by which a network that is given again is known."""
    shape = ensemble.learner.net.input_shape
    return ensemble.outputs(np.random.default_rng(0).standard_normal((3, *shape)))


def _stacked(net: Network, members: int, leaves: list[NDArray[Any]] | None) -> Params | None:
    """The members' parameters in the network's own pytree, from its leaves."""
    if leaves is None:
        return None
    expected, treedef = jax.tree.flatten(jax.eval_shape(net.init, jax.random.key(0)))
    if [leaf.shape for leaf in leaves] != [(members, *leaf.shape) for leaf in expected]:
        raise ValueError(
            "the network does not have the saved parameters' shapes: give the one that was trained."
        )
    return jax.tree.unflatten(treedef, [jnp.asarray(leaf) for leaf in leaves])


def _normal(own: tuple[Params, Member], shared: tuple[Baselearner, Array]) -> tuple[Array, Array]:
    """What a member predicts: N(mean, var) at each x."""
    learner, x = shared
    outputs = learner.predict(*own, x)
    return learner.noise.mean(outputs), learner.noise.var(outputs, learner.noise_std)


def fit(
    net: Network,
    x: ArrayLike,
    y: ArrayLike,
    *,
    method: str = "ntkgp-param",
    members: int | np.integer[Any] | Iterable[int] = 10,
    noise_std: float = 0.1,
    seed: int = 0,
    trainer: Trainer | None = None,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    weight_decay: float = 0.0,
    heteroscedastic: bool = False,
    progress: bool = False,
) -> Ensemble:
    """Train an ensemble.

    Args:
        net: the network of every member.
        x: training inputs (n, *input_shape).
        y: training targets (n, c), or (n,) for one; c is the network's number of outputs, or half
            of it when heteroscedastic.
        method: a name in `METHODS`.
        members: how many, or which ones by index. Member i is drawn from (seed, i) alone, and
            trained the same whichever others are beside it, up to rounding.
        noise_std: standard deviation σ of the observation noise, in the units of y.
        heteroscedastic: learn σ²(x) by the network itself instead (Section 3.3). It then has two
            outputs for each column of y, first the means, then the variances before a sigmoid;
            y should be standardised, and the trainer be `Descent`.
        seed: the seed of all randomness.
        trainer: `GaussNewton` or, for any Optax optimiser, `Descent`. By default Gauss-Newton for
            least squares with few residuals, where it is quicker and goes to the minimum, and Adam
            with a decaying learning rate for all else; `progress` says which.
        validation: inputs and targets for early stopping, for trainers that use them.
        weight_decay: for deep ensembles, which have no regulariser of their own.
        progress: show a progress bar.

    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(3 * x), members=3)
    >>> ensemble.predict(x).mean.shape
    (8, 1)
    """
    try:
        indices = tuple(range(index(members)))  # type: ignore[arg-type]
    except TypeError:
        indices = tuple(members) if isinstance(members, Iterable) else ()
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
    learner = Baselearner(
        net,
        get_method(method),
        float(noise_std),
        float(weight_decay),
        LearnedNoise() if heteroscedastic else ConstantNoise(),
    ).check()
    data = _check_data("x", "y", x, y, learner)
    draws = draw_members(learner, seed, indices, data)
    held_out = None
    if validation is not None:
        held_out = _check_data("validation[0]", "validation[1]", *validation, learner)
    if trainer is None:
        trainer = choose_trainer(learner, data, held_out)
        note(f"trainer: {type(trainer).__name__}", progress)
    trained = trainer(learner, data, draws, held_out, progress)
    objectives = np.asarray(final_losses(learner, trained, data, draws))
    return _assemble(learner, seed, indices, trained, objectives)


def final_losses(learner: Baselearner, trained: Trained, data: Data, draws: Draw) -> Array:
    """Each member's loss on its whole training set, (members,)."""
    n, own = len(data.x), (trained.theta, draws.member)
    sums = [
        map_members(
            learner.net,
            _loss_of_rows,
            (*own, draws.epsilon[:, rows]),
            (learner, data.x[rows], data.y[rows]),
        )
        for rows in row_batches(n)
    ]
    mean = sum(sums[1:], start=sums[0]) / n
    return mean + regularisers(learner, *own, n)


def _loss_of_rows(
    own: tuple[Params, Member, Array], shared: tuple[Baselearner, Array, Array]
) -> Array:
    (theta, member, epsilon), (learner, x, y) = own, shared
    outputs = learner.predict(theta, member, x)
    return jnp.sum(learner.noise.loss(y, epsilon, outputs, learner.noise_std))


def _assemble(
    learner: Baselearner,
    seed: int,
    indices: tuple[int, ...],
    trained: Trained,
    objectives: NDArray[Any],
) -> Ensemble:
    """Drop the members that failed, and say so; drop what only training needed."""
    good = finite_members(trained.losses) & np.isfinite(objectives)
    failed = tuple(i for i, ok in zip(indices, good, strict=True) if not ok)
    if failed:
        detail = (
            f"the training loss of member{'s' if len(failed) > 1 else ''} "
            f"{', '.join(map(str, failed))} became NaN or infinite. Lower the learning rate, "
            "standardise the data, give a larger noise_std, or check y for extreme values."
        )
        if len(failed) == len(indices):
            raise FloatingPointError(f"no member survived training: {detail}")
        warnings.warn(f"{detail} They are left out of the ensemble.", MemberFailure, stacklevel=3)
    keep_init = learner.method.needs_init
    theta, member = jax.tree.map(
        lambda leaf: leaf[good],
        (
            trained.theta,
            trained.member._replace(theta_0=trained.member.theta_0 if keep_init else None),
        ),
    )
    return Ensemble(
        learner=learner,
        seed=seed,
        indices=tuple(i for i in indices if i not in failed),
        theta=theta,
        member=member,
        losses=trained.losses[good],
        validation_losses=trained.validation_losses[good],
        objectives=objectives[good],
        converged=trained.converged[good],
        failed=failed,
    )


def _check_data(x_name: str, y_name: str, x: ArrayLike, y: ArrayLike, learner: Baselearner) -> Data:
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
    targets = check_inputs(y_name, targets, (learner.target_dim,), np.float32)
    return Data(jnp.asarray(inputs), jnp.asarray(targets))
