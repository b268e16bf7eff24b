"""What both ensemble estimators share: how their members are trained, and how an ensemble grows."""

from typing import Any

from numpy.typing import NDArray

from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import Method, get_method
from ntkgp.ensembles.problem import Data
from ntkgp.ensembles.trainers import Trainer, decaying_adam
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.preparation import check_counts
from ntkgp.networks.protocol import Network


class EnsembleEstimator(TableEstimator):
    """An estimator whose model is an `Ensemble`."""

    method: str | Method
    members: int
    width: int
    learning_rate: float
    min_steps: int
    min_epochs: int
    batch_size: int
    weight_decay: float
    trainer: Trainer | None
    members_at_once: int | None
    warm_start: bool
    verbose: bool
    ensemble_: Ensemble

    def _sizes(self) -> dict[str, int]:
        return {"width": self.width, **super()._sizes()}

    def _goes_on(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "ensemble_")

    def _trainer(self, n: int) -> Trainer:
        """The user's trainer, or the default one for n rows."""
        if self.trainer:
            return self.trainer
        counts = check_counts(
            min_steps=self.min_steps, min_epochs=self.min_epochs, batch_size=self.batch_size
        )
        return decaying_adam(n, self.learning_rate, **counts)

    def _train(
        self,
        net: Network,
        x: NDArray[Any],
        targets: NDArray[Any],
        noise_std: float,
        **options: Any,
    ) -> Ensemble:
        """Members trained on scaled targets; `options` are those of `ntkgp.fit`."""
        before = self.ensemble_ if self._goes_on() else None
        members = _beyond(before, self.members) if before else self.members
        if before and before.trained_on != Data.of(x, targets).fingerprint():
            raise ValueError(
                "with warm_start a fit adds members to those that are trained already, so it needs "
                "the same data and settings: this is another training set. Set warm_start=False."
            )
        if before and not members:
            return before
        trained = fit(
            net,
            x,
            targets,
            method=self.method,
            members=members,
            noise_std=noise_std,
            weight_decay=self.weight_decay if get_method(self.method).takes_weight_decay else 0.0,
            seed=self.seed_,
            trainer=self._trainer(len(x)),
            members_at_once=self.members_at_once,
            progress=bool(self.verbose),
            **options,
        )
        return before + trained if before else trained

    def fitted_network(self) -> Network:
        return self.ensemble_.learner.net


def _beyond(ensemble: Ensemble, members: int) -> list[int]:
    """The indices below `members` that an ensemble has not tried yet."""
    tried = {*ensemble.indices, *ensemble.failed}
    if members < len(tried):
        raise ValueError(
            f"with warm_start members must be at least the {len(tried)} that are trained already; "
            f"got {members}."
        )
    return [i for i in range(members) if i not in tried]
