"""The ensemble: trained members, what they predict, and how ensembles are put together."""

import os
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_inputs, check_part, row_batches
from ntkgp.core.cluster import Ray, check_backend
from ntkgp.core.compilation import before_compiling
from ntkgp.core.hints import misfit
from ntkgp.core.memory import require
from ntkgp.core.storage import WrongNetwork, fields_of, is_storable, save, storable
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member
from ntkgp.ensembles.methods import name_of
from ntkgp.ensembles.plans import choose_plan
from ntkgp.predictive.distributions import Mixture

_BATCH_SIZES = (256, 4096)
_TASK_ROWS = 16 * _BATCH_SIZES[-1]
"""The most rows that one task of a cluster predicts."""


@storable
@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trained baselearners of one method on one data set; `fit` makes it.

    Ensembles of one seed and one data set add up, so one can grow:

    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> net = ntkgp.mlp(1, width=16)
    >>> ntkgp.fit(net, x, x, members=2) + ntkgp.fit(net, x, x, members=[2])
    <Ensemble of 3 members, ntkgp-param, seed 0>
    """

    learner: Baselearner
    seed: int
    indices: tuple[int, ...]
    """Which members these are: member i is a function of (seed, i) alone."""
    theta: Params
    """Trained parameters θ̂, each leaf (k, ...)."""
    member: Member
    """What each member needs besides θ̂ to predict, each leaf (k, ...)."""
    losses: NDArray[Any]
    """(k, rounds): the loss in each round of training: the mean over its steps, with the regulariser
    at the start of the round. It is σ²/N times the objective of Algorithms 1 to 3, or 1/N times for
    learned noise."""
    validation_losses: NDArray[Any]
    """(k, evaluations)."""
    objectives: NDArray[Any]
    """(k,): final loss on the whole training set."""
    ended: NDArray[Any]
    """(k,): why training ended. "converged": by the trainer's own criterion. "stuck": steps promise to
    lower the loss, but none does. "stopped early": by rows held out. "limit": the trainer ran out of
    steps."""
    attempts: NDArray[Any]
    """(k,): how often each member was trained. Beyond 1, its loss had become NaN or infinite, and each
    attempt began anew with steps a quarter as large as those of the one before."""
    trained_on: str
    """A fingerprint of the training data."""
    members_at_once: int | None = None
    """How many members a program may hold, in training and in prediction; None for all."""
    failed: tuple[int, ...] = ()
    """Indices of members whose loss became NaN or infinite in every attempt; they are in none of the
    above."""

    def __repr__(self) -> str:
        return (
            f"<Ensemble of {len(self)} member{'s' if len(self) > 1 else ''}, "
            f"{name_of(self.learner.method)}, seed {self.seed}>"
        )

    def __len__(self) -> int:
        return len(self.indices)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble into one file, safetensors, for `ntkgp.load`."""
        save(self, path)

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
        leaves, probe = stored.pop("parameters"), stored.pop("probe")
        if reason := misfit(cls, stored):
            raise ValueError(f"the ensemble has {reason}")
        net, members = stored["learner"].net, len(stored["indices"])
        alike = {"net": net} if leaves.get("net") else {}
        drawn = jax.eval_shape(net.init, jax.random.key(0))
        _check_alone(leaves)
        trees = {
            name: _stacked(alike.get(name, drawn), members, own) for name, own in leaves.items()
        }
        ensemble = cls(theta=trees.pop("theta"), member=Member(**trees), **stored)
        ensemble._check_parts()
        if probe is not None:
            tolerance = 1e-2 * np.max(np.abs(probe))  # another computer rounds differently
            if not np.allclose(_probe(ensemble), probe, rtol=0, atol=tolerance):
                raise WrongNetwork(
                    "the network has the saved parameters' shapes but predicts otherwise with "
                    "them: give the one that was trained."
                )
        return ensemble

    def _check_parts(self) -> None:
        """Refuse what does not fit together."""
        k, method = len(self), self.learner.check().method
        for name, axes in (
            ("losses", 2),
            ("validation_losses", 2),
            ("objectives", 1),
            ("ended", 1),
        ):
            values = getattr(self, name)
            if values.ndim != axes or len(values) != k:
                raise ValueError(f"{name} of {k} members has shape {values.shape}.")
        indices = (*self.indices, *self.failed)
        if (
            not k
            or len(set(indices)) < len(indices)
            or not 0 <= min(indices) <= max(indices) < 2**31
        ):
            raise ValueError("its members' indices are not distinct whole numbers ≥ 0.")
        if self.members_at_once is not None and self.members_at_once < 1:
            raise ValueError(f"members_at_once is {self.members_at_once}.")
        needed = {"theta_0": method.needs_init, "theta_tilde": method.needs_tilde}
        if missing := [
            n for n, is_needed in needed.items() if is_needed and getattr(self.member, n) is None
        ]:
            raise ValueError(f"its method needs {', '.join(missing)}, which is missing.")

    @property
    def converged(self) -> NDArray[np.bool_]:
        """(k,): whether the trainer's own criterion ended training."""
        return self.ended == "converged"

    def __add__(self, other: "Ensemble") -> "Ensemble":
        """Both ensembles' members, unchanged, in the order of their indices."""
        if not isinstance(other, Ensemble):
            return NotImplemented
        _check_joinable(self, other)
        indices = np.array([*self.indices, *other.indices])
        order = np.argsort(indices)

        def joined(*leaves: Array) -> Array:
            return jnp.concatenate(leaves)[order]

        def lengthened(name: str) -> NDArray[Any]:
            rows = [row for e in (self, other) for row in getattr(e, name)]
            longest = max(map(len, rows))
            padded = [np.pad(row, (0, longest - len(row)), constant_values=np.nan) for row in rows]
            return np.array(padded)[order]

        return Ensemble(
            self.learner,
            self.seed,
            tuple(indices[order].tolist()),
            jax.tree.map(joined, self.theta, other.theta),
            jax.tree.map(joined, self.member, other.member),
            lengthened("losses"),
            lengthened("validation_losses"),
            np.concatenate([self.objectives, other.objectives])[order],
            np.concatenate([self.ended, other.ended])[order],
            np.concatenate([self.attempts, other.attempts])[order],
            self.trained_on,
            min(filter(None, (self.members_at_once, other.members_at_once)), default=None),
            tuple(sorted({*self.failed, *other.failed} - set(indices.tolist()))),
        )

    def outputs(self, x: ArrayLike, backend: str | Ray | None = None) -> NDArray[Any]:
        """f̃_k(x, θ̂_k) of each member, (k, n, c): the mean of its prediction."""
        return self._predict(x, backend)[0]

    def predict(self, x: ArrayLike, backend: str | Ray | None = None) -> Mixture:
        """The predictive mixture of an observation at each x (Appendix F).

        With backend="ray", or a `Ray`, the tasks of a cluster predict some rows each.
        """
        means, noise_vars = self._predict(x, backend)
        return Mixture(means.astype(np.float64), noise_vars.astype(np.float64))

    def _predict(
        self, x: ArrayLike, backend: str | Ray | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean and noise variance of each member, (k, n, c) both."""
        inputs = check_inputs("x", x, self.learner.net.input_shape, np.float32)
        cluster = check_backend(backend)
        require(
            prediction_bytes(len(self), len(inputs), self.learner.target_dim),
            f"predicting {len(inputs):,} rows by {len(self):,} members",
            "Predict fewer rows at once.",
        )
        if cluster is None:
            parts = [self._predict_here(inputs)]
        else:
            rows = row_batches(len(inputs), _TASK_ROWS)
            parts = cluster.run(_predict_there, [cluster.shared(self)], [inputs[r] for r in rows])
        means, noise_vars = zip(*parts, strict=True)
        return np.concatenate(means, axis=1), np.concatenate(noise_vars, axis=1)

    def _predict_here(self, inputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The same on this machine.

        In batches of two sizes only, the last one padded, so that two compiled programs serve
        any number of rows.
        """
        before_compiling()
        plan = choose_plan(self.learner.net, len(self), at_once=self.members_at_once)
        size = next((size for size in _BATCH_SIZES if size >= len(inputs)), _BATCH_SIZES[-1])
        parts = []
        for start in range(0, len(inputs), size):
            rows = np.minimum(np.arange(start, start + size), len(inputs) - 1)
            shared = (self.learner, inputs[rows])
            normals = plan.over_members(_normal, (self.theta, self.member), shared)
            parts.append([np.asarray(part)[:, : len(inputs) - start] for part in normals])
        means, noise_vars = zip(*parts, strict=True)
        return np.concatenate(means, axis=1), np.concatenate(noise_vars, axis=1)


def prediction_bytes(members: int, rows: int, targets: int) -> int:
    """Of means and noise variances, in parts, joined, and in float64."""
    return 2 * (4 + 4 + 8) * members * rows * targets


def _predict_there(ensemble: Ensemble, inputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """In a task."""
    return ensemble._predict_here(inputs)


def _probe(ensemble: Ensemble) -> NDArray[Any]:
    """Outputs at a few inputs, to recognise a network that is given again."""
    shape = ensemble.learner.net.input_shape
    return ensemble.outputs(np.random.default_rng(0).standard_normal((3, *shape)))


def _check_alone(leaves: dict[str, list[NDArray[Any]] | None]) -> None:
    """Refuse an array that is the parameters of several layers: each would take memory of its own."""
    starts = [
        leaf.__array_interface__["data"][0]
        for own in leaves.values()
        for leaf in own or ()
        if leaf.size
    ]
    if len(set(starts)) < len(starts):
        raise ValueError("one array is the parameters of several layers.")


def _stacked(one: Any, members: int, leaves: list[NDArray[Any]] | None) -> Any:
    """The members' parameters in the pytree of one member's, from its leaves."""
    if leaves is None:
        return None
    expected, treedef = jax.tree.flatten(one)
    if [leaf.shape for leaf in leaves] != [(members, *np.shape(leaf)) for leaf in expected]:
        raise ValueError(
            "the network does not have the saved parameters' shapes: give the one that was trained."
        )
    for leaf in leaves:
        check_part("parameters", leaf, leaf.shape)
    return jax.tree.unflatten(treedef, [jnp.asarray(leaf) for leaf in leaves])


def _normal(own: tuple[Params, Member], shared: tuple[Baselearner, Array]) -> tuple[Array, Array]:
    """What a member predicts: N(mean, var) at each x."""
    learner, x = shared
    outputs = learner.predict(*own, x)
    return learner.noise.mean(outputs), learner.noise.var(outputs, learner.noise_std)


def _kind(ensemble: Ensemble) -> Any:
    own_nets = jax.tree.structure(ensemble.member.net)
    return ensemble.learner, ensemble.seed, ensemble.trained_on, own_nets


def _check_joinable(one: Ensemble, other: Ensemble) -> None:
    if _kind(one) != _kind(other):
        raise ValueError(
            "ensembles add up only if they have one network, method, noise, seed and training set; "
            f"got {one!r} and {other!r}, which differ in one of these."
        )
    if shared := sorted(set(one.indices) & set(other.indices)):
        raise ValueError(
            f"both ensembles have member{'s' if len(shared) > 1 else ''} "
            f"{', '.join(map(str, shared))}: train others, by members=range(...)."
        )
