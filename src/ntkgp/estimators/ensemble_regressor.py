"""The ensemble as a regressor."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.ensembles.methods import get_method
from ntkgp.ensembles.trainers import Descent, Trainer
from ntkgp.estimators.calibration import best_noise_std
from ntkgp.estimators.ensembles import EnsembleEstimator
from ntkgp.estimators.preparation import choose, holdout
from ntkgp.estimators.regression import Joint, Regressor
from ntkgp.laws.table import get_law
from ntkgp.predictive.distributions import Mixture, Normal

_ENOUGH_ROWS = 20  # held out, for a noise below that of training


@storable
class EnsembleRegressor(Regressor, EnsembleEstimator):
    """An ensemble of neural networks that says how sure it is; by default Bayesian, NTKGP-param.

    Inputs and targets are standardised inside. What is not given is set from the data: the
    activation, the noise level of training and the scale of the targets by the marginal
    likelihood of the infinitely wide network, on 1,000 rows at the most (200 if its kernel is
    not known or not cheap); the noise level of predictions by the likelihood of a tenth of the
    rows, and at least 5, held out of training. It is not set below the noise of training by
    fewer than 20 rows; from a table of fewer than 20 none are held out. Several targets share the
    noise of training and the scale, relative to their standard deviations.

    Args:
        method: "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "rp-param", "rp-fn", "deep-ensemble", or
            another name in `ntkgp.METHODS`.
        members: number of networks K.
        noise_std: standard deviation of the observation noise in the units of y; None to learn it.
        heteroscedastic: let the network learn a noise level for each x (Section 3.3), at the
            most the standard deviation of y.
        network: a `Network`, or a function (input_shape, output_dim) that makes one; None for a
            multi-layer perceptron of `depth` hidden layers of `width` units. When heteroscedastic
            the network needs two outputs for each target, first all means, then all variances.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        learning_rate, min_steps, min_epochs, batch_size: of Adam with cosine decay, which runs for
            min_epochs passes over the data or min_steps steps, whichever is more.
        weight_decay: of deep ensembles; other methods have the regulariser of their prior instead.
        validation_fraction: share of the rows held out; 0 for none.
        trainer: a `Trainer` in place of Adam, for instance `ntkgp.GaussNewton()`.
        random_state: an integer makes every run the same.
        verbose: show progress.

    Attributes:
        ensemble_: the trained `Ensemble`, on standardised data.
        noise_std_: standard deviation of an observation's noise in the units of y, a number for
            each target; None when heteroscedastic.
        training_noise_std_: the noise that the members were trained with, on standardised targets;
            deep ensembles train without.
        target_scale_: what standardised targets were multiplied by to match the network's prior.
        evidence_: log marginal likelihood of the network, noise and scale, on the standardised
            targets of the rows it was computed on.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = EnsembleRegressor(members=3, min_steps=200, random_state=0).fit(X, X[:, 0])
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    """

    def __init__(
        self,
        method: str = "ntkgp-param",
        *,
        members: int = 10,
        noise_std: float | None = None,
        heteroscedastic: bool = False,
        network: Any = None,
        width: int = 128,
        depth: int = 2,
        activation: str = "auto",
        learning_rate: float = 3e-3,
        min_steps: int = 2000,
        min_epochs: int = 20,
        batch_size: int = 64,
        weight_decay: float = 1e-4,
        validation_fraction: float = 0.1,
        trainer: Trainer | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.members = members
        self.noise_std = noise_std
        self.heteroscedastic = heteroscedastic
        self.network = network
        self.width = width
        self.depth = depth
        self.activation = activation
        self.learning_rate = learning_rate
        self.min_steps = min_steps
        self.min_epochs = min_epochs
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.trainer = trainer
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> "EnsembleRegressor":
        """Train the ensemble on rows X and targets y, (n,) or (n, targets)."""
        x, targets = self._check_xy(X, y)
        rng = self._start()
        law = get_law(get_method(self.method).law)
        if self.heteroscedastic and self.noise_std is not None:
            raise ValueError("heteroscedastic=True learns the noise: leave noise_std None.")
        heads = 2 if self.heteroscedastic else 1
        nets = self._candidates(heads * targets.shape[1])
        choice = choose(nets, x, targets, law.trained, rng, self._given_noise())
        self.evidence_ = choice.evidence.log_marginal_likelihood
        # A sigmoid reaches 1 at the most, so learned variances are those of standardised targets.
        self.target_scale_ = 1.0 if self.heteroscedastic else 1 / choice.evidence.scale
        self.training_noise_std_ = choice.evidence.noise_std

        train, held_out = holdout(len(x), self.validation_fraction, rng)
        scaled = targets * self.target_scale_
        stops_early = len(held_out) and self._stops_early()
        self.ensemble_ = self._train(
            choice.net,
            x[train],
            scaled[train],
            self.training_noise_std_ * self.target_scale_,
            heteroscedastic=self.heteroscedastic,
            validation=(x[held_out], scaled[held_out]) if stops_early else None,
        )
        self.noise_std_ = None
        if not self.heteroscedastic:
            noise_std = self._calibrated_noise(x[held_out], targets[held_out])
            self.noise_std_ = noise_std * self.y_scaler_.std
        return self

    def _stops_early(self) -> bool:
        """Whether held-out rows end training: where nothing else regularises the members."""
        overfits = get_method(self.method).anchor is None or self.heteroscedastic
        return overfits and isinstance(self.trainer, Descent | None)

    def _calibrated_noise(self, x: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """σ of each standardised target that predictions of these held-out rows need."""
        trained = np.full(targets.shape[1], self.training_noise_std_)
        if self.noise_std is not None or not len(x):
            return trained
        found = best_noise_std(self._mixture(x), targets)
        return found if len(x) >= _ENOUGH_ROWS else np.maximum(found, trained)

    def _mixture(self, x: NDArray[Any]) -> Mixture:
        """The members' normals, standardised; with the noise of training unless it is learned."""
        return self.ensemble_.predict(x).rescaled(1 / self.target_scale_, 0.0)

    def _predictive_mixture(self, x: NDArray[Any]) -> Mixture:
        mixture = self._mixture(x)
        if self.noise_std_ is None:
            return mixture
        return replace(mixture, noise_vars=(self.noise_std_ / self.y_scaler_.std) ** 2)

    def _predict_standardised(self, x: NDArray[Any]) -> Normal:
        return self._predictive_mixture(x).moment_matched()

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.ensemble_.outputs(x).astype(np.float64).mean(axis=0) / self.target_scale_

    def _joint(self, x: NDArray[Any]) -> Joint:
        mixture = self._predictive_mixture(x)
        centred = mixture.means - mixture.mean
        covariance = np.einsum("knc,kmc->nmc", centred, centred) / len(centred)
        return Joint(mixture.mean, covariance, mixture.noise_var)

    def _samples(self, x: NDArray[Any], n_samples: int, seed: int) -> NDArray[Any]:
        return self._predictive_mixture(x).sample(n_samples, seed)
