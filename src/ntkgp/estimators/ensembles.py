"""What both ensemble estimators share: how their members are trained, and how an ensemble grows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import index
from typing import Any

from numpy.typing import NDArray

from ntkgp.core.arrays import check_counts
from ntkgp.ensembles.checkpoint import Checkpoint, check_checkpoint
from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.noise import ConstantNoise
from ntkgp.ensembles.problem import Data
from ntkgp.ensembles.trainers import GaussNewton, Trainer, decaying_adam
from ntkgp.estimators.base import TableEstimator
from ntkgp.laws.uncertain import UncertainPrior
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network

FEW_RESIDUALS = 2000
"""Up to so many, ten members of the default network take enough of Gauss-Newton's steps within half a
minute and a gigabyte."""
FEW_GRADIENTS = 1000
"""The same for other networks: a Gram matrix may need the gradients of all rows."""
SOLVED_AT_ONCE = 10
"""Members whose Gram matrices of FEW_RESIDUALS take a gigabyte."""
LEAST_STEPS, MOST_STEPS = 10, 50
"""Gauss-Newton's steps for 1,000 residuals and more, and for fewer than half as many."""
FEW_STEPS, MANY_STEPS = 4_000, 12_000
"""Adam's steps for at most FEW_RESIDUALS targets, and for more."""


class EnsembleEstimator(TableEstimator):
    """An estimator whose model is an `Ensemble`."""

    method: str | Method
    members: int
    width: int
    learning_rate: float
    min_steps: int | None
    min_epochs: int
    batch_size: int
    weight_decay: float
    trainer: Trainer | Sequence[Trainer] | None
    members_at_once: int | None
    warm_start: bool
    random_state: Any
    checkpoint: Any
    backend: Any
    verbose: bool
    ensemble_: Ensemble
    _trainings: int
    """How often a fit has trained members, while it runs."""

    def _n_targets(self) -> int:
        return self.ensemble_.learner.target_dim

    def _sizes(self) -> dict[str, int]:
        return {"width": self.width, **super()._sizes()}

    def _goes_on(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "ensemble_")

    def _trainer(
        self, n: int, targets: int | None = None, most_solved: int = 0
    ) -> Trainer | Sequence[Trainer]:
        """The user's trainer, or the default for n rows: Adam.

        If training is least squares with few residuals, Gauss-Newton goes on from there: it follows the
        law of small noise to the minimum, which Adam nears in tens of thousands of steps.

        Args:
            n: training rows.
            targets: of all rows; n by default.
            most_solved: so many residuals are few.
        """
        if self.trainer:
            return self.trainer
        residuals = n if targets is None else targets
        suited = FEW_STEPS if residuals <= FEW_RESIDUALS else MANY_STEPS
        counts = check_counts(
            min_steps=suited if self.min_steps is None else self.min_steps,
            min_epochs=self.min_epochs,
            batch_size=self.batch_size,
        )
        adam = decaying_adam(n, self.learning_rate, **counts)
        if residuals > most_solved:
            return adam
        affordable = int(LEAST_STEPS * (1000 / residuals) ** 2)  # each costs N² or more
        steps = min(max(affordable, LEAST_STEPS), MOST_STEPS)
        return [adam, GaussNewton(max_steps=steps, tolerance=3e-4)]

    def _at_once(self, trainer: Trainer | Sequence[Trainer] | None, residuals: int) -> int | None:
        """How many members train at the same time: Gauss-Newton may keep a Gram matrix of each."""
        trainers = trainer if isinstance(trainer, Sequence) else [trainer]
        solved = any(isinstance(t, GaussNewton) for t in trainers)
        if self.members_at_once is not None or not solved:
            return self.members_at_once
        return max(1, int(SOLVED_AT_ONCE * (FEW_RESIDUALS / residuals) ** 2))

    def _checkpoint(self, members: int | list[int]) -> Checkpoint | None:
        """Where the next training within a fit keeps its state: each has a directory of its own."""
        checkpoint = check_checkpoint(self.checkpoint)
        if checkpoint is None:
            return None
        if self.random_state is None:
            raise ValueError(
                "with checkpoint a fit must be the same when it is run again: give random_state an "
                "integer."
            )
        self._trainings += 1
        indices = members if isinstance(members, list) else range(index(members))
        first, last = indices[0], indices[-1]
        return checkpoint.under(f"training-{self._trainings}-members-{first}-to-{last}")

    @contextmanager
    def _as_before_on_failure(self) -> Iterator[None]:
        """A fit that adds to an earlier one and fails leaves the earlier model whole."""
        before = dict(vars(self)) if self._goes_on() else None
        self._trainings = 0
        try:
            yield
        except BaseException:
            if before is not None:
                self.__dict__.clear()
                self.__dict__.update(before)
            raise
        finally:
            self.__dict__.pop("_trainings", None)

    def _train(
        self,
        net: Network,
        x: NDArray[Any],
        targets: NDArray[Any],
        noise_std: float,
        trainer: Trainer | Sequence[Trainer] | None = None,
        prior: UncertainPrior | None = None,
        **options: Any,
    ) -> Ensemble:
        """Members trained on scaled targets, each with a draw of the prior if there is one.

        `options` are those of `ntkgp.fit`.
        """
        method = get_method(self.method)
        weight_decay = self.weight_decay if method.takes_weight_decay else 0.0
        before: Ensemble | None = None
        members: int | list[int] = options.pop("members", self.members)
        if self._goes_on():
            before = self.ensemble_
            noise = options.get("noise", ConstantNoise())
            learner = Baselearner(net, method, float(noise_std), float(weight_decay), noise)
            _check_the_same(before, learner, Data.of(x, targets, options.get("sample_weight")))
            members = _beyond(before, self.members)
            before = replace(before, members_at_once=self.members_at_once)
        if before and not members:
            return before
        trained = fit(
            net,
            x,
            targets,
            method=method,
            members=members,
            noise_std=noise_std,
            weight_decay=weight_decay,
            member_nets=None if prior is None else prior.draw(members, self.seed_),
            seed=self.seed_,
            trainer=trainer or self._trainer(len(x)),
            members_at_once=self._at_once(trainer, targets.size),
            checkpoint=self._checkpoint(members),
            backend=self.backend,
            progress=bool(self.verbose),
            **options,
        )
        return before + trained if before else trained

    def fitted_network(self) -> Network:
        return self.ensemble_.learner.net


def known_network(trained: Network, nets: Sequence[Network], given: bool) -> Network:
    """The network of an earlier fit if the settings still ask for it, else the first that they do.

    Args:
        trained: with the scales that it learned.
        nets: what the settings ask for.
        given: whether that is the user's own network.
    """
    asked_for = {_structure(net) for net in nets}
    return trained if given or _structure(trained) in asked_for else nets[0]


def _structure(net: Network) -> Any:
    """A network without its scales, which are learned."""
    return net.structure if isinstance(net, LayeredNetwork) else net


def _check_the_same(before: Ensemble, learner: Baselearner, data: Data) -> None:
    """Refuse to add members that would not belong to those that are there."""
    same_data = before.trained_on == data.fingerprint()
    other = "network, method or noise" if same_data else "training set"
    if before.learner != learner or not same_data:
        raise ValueError(
            "with warm_start a fit adds members to those that are trained already, so it needs the "
            f"same data and settings: this is another {other}. Set warm_start=False to begin anew."
        )


def _beyond(ensemble: Ensemble, members: int) -> list[int]:
    """The indices below `members` that an ensemble has not tried yet."""
    tried = {*ensemble.indices, *ensemble.failed}
    if members < len(tried):
        raise ValueError(
            f"with warm_start members must be at least the {len(tried)} that are trained already; "
            f"got {members}."
        )
    return [i for i in range(members) if i not in tried]
