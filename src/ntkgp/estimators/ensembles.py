"""What both ensemble estimators share: how their members are trained."""

from typing import Any

from numpy.typing import NDArray

from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.ensembles.fit import fit
from ntkgp.ensembles.methods import get_method
from ntkgp.ensembles.trainers import Trainer
from ntkgp.ensembles.trainers.default import decaying_adam
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.preparation import check_counts
from ntkgp.networks.protocol import Network


class EnsembleEstimator(TableEstimator):
    """An estimator whose model is an `Ensemble`."""

    method: str
    members: int
    width: int
    learning_rate: float
    min_steps: int
    min_epochs: int
    batch_size: int
    weight_decay: float
    trainer: Trainer | None
    verbose: bool
    ensemble_: Ensemble

    def _sizes(self) -> dict[str, int]:
        return {"width": self.width, **super()._sizes()}

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
        return fit(
            net,
            x,
            targets,
            method=self.method,
            members=self.members,
            noise_std=noise_std,
            weight_decay=0.0 if get_method(self.method).anchor else self.weight_decay,
            seed=self.seed_,
            trainer=self._trainer(len(x)),
            progress=bool(self.verbose),
            **options,
        )

    def fitted_network(self) -> Network:
        return self.ensemble_.learner.net
