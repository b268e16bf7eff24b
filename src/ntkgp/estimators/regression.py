"""Regressors with scikit-learn's face: the ensembles, and the exact laws of infinite width."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from ntkgp.calibration import best_noise_std
from ntkgp.distributions import Mixture, Normal
from ntkgp.ensemble import Ensemble, fit
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.preparation import (
    Scaler,
    choose,
    default_trainer,
    holdout,
    seed_of,
    with_kernel,
)
from ntkgp.methods import get_method
from ntkgp.networks import Network
from ntkgp.posterior import LAWS, Posterior, get_law
from ntkgp.training import Descent, Trainer

_ENOUGH_ROWS = 20  # held out, for a noise below that of training


class _Regressor(RegressorMixin, TableEstimator):  # type: ignore[misc]
    """Predictions in the user's units from a distribution of the standardised target."""

    noise_std: float | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_xy(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Standardised X and y (n, c), and the scale to go back by."""
        inputs, targets = self._check_training_data(X, y, y_numeric=True, multi_output=True)
        self.one_target_ = targets.ndim == 1
        targets = targets.reshape(len(targets), -1).astype(np.float64)
        self.y_scaler_ = Scaler.of("y", targets)
        return self._standardise(inputs), self.y_scaler_.apply("y", targets)

    def _given_noise(self) -> float | None:
        """σ of standardised targets, if the user gave it."""
        if self.noise_std is None:
            return None
        if not 0 < self.noise_std < float("inf"):
            raise ValueError(
                "noise_std must be None, to learn it, or a finite number > 0 in the units of y; "
                f"got {self.noise_std!r}."
            )
        if not self.one_target_:
            raise ValueError(
                "noise_std is one number in the units of one target, and y has several columns: "
                "leave it None, or fit each column by itself."
            )
        return float(self.noise_std / self.y_scaler_.std[0])

    def _predict_standardised(self, x: NDArray[Any]) -> Normal:
        raise NotImplementedError

    def predict_dist(self, X: Any) -> Normal:
        """The predictive distribution of an observation at each row of X, in the units of y.

        A normal with mean, std, interval, quantile, log_prob and sample, and its variance in two
        parts: epistemic_var, what more data would settle, and noise_var. An ensemble's is the one
        with the moments of its members' mixture (Appendix F), and has their predictions in
        `members`. Arrays are (n,) for a one-dimensional y and (n, targets) for several.
        """
        standardised = self._predict_standardised(self._inputs(X))
        result = standardised.rescaled(self.y_scaler_.std, self.y_scaler_.mean)
        return result.first_output() if self.one_target_ else result

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """The predicted mean, and with it the standard deviation or covariance of observations.

        Args:
            X: rows to predict.
            return_std: also the standard deviation at each row, noise included.
            return_cov: also the covariance between rows, (n, n), or (n, n, targets) for several
                targets; noise is on its diagonal.
        """
        if return_std and return_cov:
            raise ValueError("ask for return_std or for return_cov, not for both.")
        if return_cov:
            return self._shape(self._mean(self._inputs(X))), self._covariance(X)
        if return_std:
            distribution = self.predict_dist(X)
            return distribution.mean, distribution.std
        return self._shape(self._mean(self._inputs(X)))

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        """Standardised mean (n, c), with no work for the variance where that can be had."""
        raise NotImplementedError

    def _shape(self, mean: NDArray[Any]) -> NDArray[Any]:
        """Standardised means in the user's units and shape."""
        values = self.y_scaler_.std * mean + self.y_scaler_.mean
        return values[:, 0] if self.one_target_ else values

    def _function_covariance(self, x: NDArray[Any]) -> NDArray[Any]:
        """Covariance of the standardised function, (n, n, c)."""
        raise NotImplementedError

    def _covariance(self, X: Any) -> NDArray[Any]:
        x = self._inputs(X)
        covariance = self._function_covariance(x)
        noise = np.broadcast_to(self._predict_standardised(x).noise_var, covariance.shape[1:])
        covariance[np.arange(len(x)), np.arange(len(x))] += noise
        covariance = covariance * self.y_scaler_.std**2
        return covariance[..., 0] if self.one_target_ else covariance


class EnsembleRegressor(_Regressor):
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
        law = LAWS[get_method(self.method).law]
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
        self.ensemble_ = self._train(choice.net, x, targets, train, held_out)
        self.noise_std_ = None
        if not self.heteroscedastic:
            noise_std = self._calibrated_noise(x[held_out], targets[held_out])
            self.noise_std_ = noise_std * self.y_scaler_.std
        return self

    def _calibrated_noise(self, x: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """σ of each standardised target that predictions of these held-out rows need."""
        trained = np.full(targets.shape[1], self.training_noise_std_)
        if self.noise_std is not None or not len(x):
            return trained
        found = best_noise_std(self._mixture(x), targets)
        return found if len(x) >= _ENOUGH_ROWS else np.maximum(found, trained)

    def _train(
        self,
        net: Any,
        x: NDArray[Any],
        targets: NDArray[Any],
        train: NDArray[Any],
        held_out: NDArray[Any],
    ) -> Ensemble:
        """Members trained on rows `train`; stopped early where nothing else regularises them."""
        scaled = targets * self.target_scale_
        trainer = self.trainer or default_trainer(
            len(train), self.learning_rate, self.min_steps, self.min_epochs, self.batch_size
        )
        overfits = get_method(self.method).anchor is None or self.heteroscedastic
        validation = None
        if overfits and len(held_out) and isinstance(trainer, Descent):
            validation = (x[held_out], scaled[held_out])
        return fit(
            net,
            x[train],
            scaled[train],
            method=self.method,
            members=self.members,
            noise_std=self.training_noise_std_ * self.target_scale_,
            heteroscedastic=self.heteroscedastic,
            weight_decay=0.0 if get_method(self.method).anchor else self.weight_decay,
            seed=self.seed_,
            trainer=trainer,
            validation=validation,
            progress=bool(self.verbose),
        )

    def fitted_network(self) -> Network:
        return self.ensemble_.learner.net

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

    def _function_covariance(self, x: NDArray[Any]) -> NDArray[Any]:
        means = self._mixture(x).means
        centred = means - means.mean(axis=0)
        return np.einsum("knc,kmc->nmc", centred, centred) / len(means)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Observations, (n, n_samples) or (n, targets, n_samples); each follows one member."""
        standardised = self._predictive_mixture(self._inputs(X))
        mixture = standardised.rescaled(self.y_scaler_.std, self.y_scaler_.mean)
        mixture = mixture.first_output() if self.one_target_ else mixture
        return _sample_y(mixture.sample, n_samples, random_state)


class GPRegressor(_Regressor):
    """The exact law of an infinitely wide ensemble; by default the NTKGP posterior.

    Inputs and targets are standardised inside. Noise level, prior scale and activation are those
    of highest marginal likelihood, on 1,000 rows at the most.

    Args:
        law: "ntkgp", "nngp", "randomised-prior" or "deep-ensemble", a name in `ntkgp.LAWS`.
        noise_std: standard deviation of the observation noise in the units of y; None to choose it.
        network: a `LayeredNetwork`, or a function (input_shape, output_dim) that makes one; None
            for a multi-layer perceptron of `depth` hidden layers.
        activation: of the default network, "relu", "erf", "gelu", or "auto".
        jitter: added to the diagonal of the training kernel, relative to the prior scale; the
            noise-free "deep-ensemble" law needs some.
        random_state: which rows the marginal likelihood is computed on.

    Attributes:
        posterior_: the `Posterior`, on standardised data.
        noise_std_, target_scale_, evidence_: as in `EnsembleRegressor`.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(3 * X[:, 0]))
    >>> mean, std = model.predict([[0.0], [4.0]], return_std=True)
    >>> bool(std[1] > 10 * std[0])
    True
    """

    def __init__(
        self,
        law: str = "ntkgp",
        *,
        noise_std: float | None = None,
        network: Any = None,
        depth: int = 2,
        activation: str = "auto",
        jitter: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.law = law
        self.noise_std = noise_std
        self.network = network
        self.depth = depth
        self.activation = activation
        self.jitter = jitter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GPRegressor":
        """Condition on rows X and targets y, (n,) or (n, targets)."""
        law = get_law(self.law)
        x, targets = self._check_xy(X, y)
        nets = [with_kernel(net) for net in self._candidates(targets.shape[1])]
        choice = choose(nets, x, targets, law.trained, self._start(), self._given_noise())
        self.evidence_ = choice.evidence.log_marginal_likelihood
        self.target_scale_ = 1 / choice.evidence.scale
        noise_std = choice.evidence.noise_std
        self.noise_std_ = noise_std * self.y_scaler_.std
        self.posterior_ = Posterior(
            with_kernel(choice.net),
            x,
            targets * self.target_scale_,
            law=self.law,
            noise_std=noise_std * self.target_scale_,
            jitter=self.jitter,
        )
        return self

    def fitted_network(self) -> Network:
        return self.posterior_.net

    def _predict_standardised(self, x: NDArray[Any]) -> Normal:
        return self.posterior_.predict(x).rescaled(1 / self.target_scale_, 0.0)

    def _mean(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.posterior_.mean(x) / self.target_scale_

    def _function_covariance(self, x: NDArray[Any]) -> NDArray[Any]:
        covariance = self.posterior_.covariance(x) / self.target_scale_**2
        return np.repeat(covariance[..., None], self.posterior_.y.shape[1], axis=-1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Observations of functions drawn from the law, (n, n_samples) or (n, targets, n_samples)."""
        x = self._inputs(X)

        def sample(n_samples: int, seed: int) -> NDArray[Any]:
            functions = self.posterior_.sample(x, n_samples, seed)
            noise = np.random.default_rng([seed, 1]).standard_normal(functions.shape)
            scaled = (functions + self.posterior_.noise_std * noise) / self.target_scale_
            values = self.y_scaler_.std * scaled + self.y_scaler_.mean
            return values[..., 0] if self.one_target_ else values

        return _sample_y(sample, n_samples, random_state)


def _sample_y(
    sample: Callable[[int, int], NDArray[Any]], n_samples: int, random_state: Any
) -> NDArray[Any]:
    """Samples with their own axis last, as scikit-learn's GaussianProcessRegressor has them."""
    return np.moveaxis(sample(n_samples, seed_of(random_state)), 0, -1)
