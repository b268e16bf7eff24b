"""Classifiers with scikit-learn's face: regression on scaled one-hot targets, then a temperature."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ntkgp.calibration import (
    base_target_scale,
    best_temperature,
    initial_second_moment,
    mean_probabilities,
    member_probabilities,
)
from ntkgp.ensemble import Ensemble, fit
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.preparation import default_trainer, holdout, with_kernel
from ntkgp.kernels import nngp, ntk
from ntkgp.methods import METHODS, get_method
from ntkgp.networks import Network
from ntkgp.posterior import Posterior, get_law
from ntkgp.training import Trainer


class _Classifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Class probabilities: the mean over members, or posterior samples, of softmax(z/T)."""

    temperature_: float

    def _check_xy(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Standardised X, and labels from 0."""
        inputs, labels = self._check_training_data(X, y)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "y must have at least two classes to tell apart; it has one class only, "
                f"{self.classes_[0]!r}."
            )
        return self._standardise(inputs), indices

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        """z of each member or sample, (k, n, classes)."""
        raise NotImplementedError

    def predict_members_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities of each member or posterior sample, (k, n, classes)."""
        return member_probabilities(self._logits(self._inputs(X)), self.temperature_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, classes), in the order of `classes_`."""
        return mean_probabilities(self._logits(self._inputs(X)), self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


class EnsembleClassifier(_Classifier):
    """An ensemble of neural networks whose class probabilities know their limits (Section 3.5).

    Each member regresses on one-hot targets times κ; the probabilities are the members' mean
    softmax(z/T). Inputs are standardised inside. A tenth of the rows, and at least 5, the same
    share of each class, is held out of training for T. With validation_fraction 0, or fewer than
    20 rows, none are: T is then set on the training rows themselves, and is too sure of itself.

    Args:
        method: "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "rp-param", "rp-fn", "deep-ensemble", or
            another name in `ntkgp.METHODS`.
        members: number of networks K.
        noise_std: standard deviation σ of the noise on the scaled targets; the paper's is 0.1.
        target_scale: κ; None for κ² around C·ζ₀, with ζ₀ the mean square of the method's outputs
            before training.
        target_scale_grid: the multiples of C·ζ₀ to try for κ². With more than one, each is
            trained, and validation accuracy decides, then validation cross-entropy.
        network, width, depth, activation: as in `EnsembleRegressor`; "auto" is "relu" here.
        learning_rate, min_steps, min_epochs, batch_size, weight_decay, validation_fraction,
        trainer, random_state, verbose: as in `EnsembleRegressor`.

    Attributes:
        ensemble_: the trained `Ensemble`.
        zeta_0_: ζ₀.
        kappa_: κ.
        temperature_: T.
        classes_: the classes.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = EnsembleClassifier(members=3, min_steps=200, random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        method: str = "ntkgp-param",
        *,
        members: int = 10,
        noise_std: float = 0.1,
        target_scale: float | None = None,
        target_scale_grid: tuple[float, ...] = (1.0,),
        network: Any = None,
        width: int = 128,
        depth: int = 2,
        activation: str = "relu",
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
        self.target_scale = target_scale
        self.target_scale_grid = target_scale_grid
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

    def fit(self, X: Any, y: Any) -> "EnsembleClassifier":
        """Train the ensemble on rows X and classes y (n,)."""
        method = get_method(self.method)
        x, labels = self._check_xy(X, y)
        rng = self._start()
        net, *_ = self._candidates(len(self.classes_))
        self.zeta_0_ = initial_second_moment(net, method, x, self.seed_)
        train, held_out = holdout(len(x), self.validation_fraction, rng, labels)
        validation = held_out if len(held_out) else train
        trials = []
        for kappa in _target_scales(self, self.zeta_0_, len(self.classes_), bool(len(held_out))):
            ensemble = self._train(net, x[train], kappa * np.eye(len(self.classes_))[labels[train]])
            logits = ensemble.outputs(x[validation]).astype(np.float64)
            temperature = best_temperature(logits, labels[validation])
            merit = _merit(mean_probabilities(logits, temperature), labels[validation])
            trials.append((merit, kappa, temperature, ensemble))
        _, self.kappa_, self.temperature_, self.ensemble_ = max(trials, key=lambda trial: trial[0])
        return self

    def _train(self, net: Network, x: NDArray[Any], targets: NDArray[Any]) -> Ensemble:
        return fit(
            net,
            x,
            targets,
            method=self.method,
            members=self.members,
            noise_std=self.noise_std,
            weight_decay=0.0 if METHODS[self.method].anchor else self.weight_decay,
            seed=self.seed_,
            trainer=self.trainer
            or default_trainer(
                len(x), self.learning_rate, self.min_steps, self.min_epochs, self.batch_size
            ),
            progress=bool(self.verbose),
        )

    def fitted_network(self) -> Network:
        return self.ensemble_.learner.net

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        return self.ensemble_.outputs(x).astype(np.float64)


class GPClassifier(_Classifier):
    """The exact law of an infinitely wide ensemble as a classifier; by default NTKGP.

    A Gaussian process regresses on one-hot targets times κ; the probabilities are
    ∫ softmax(z/T) p(dz) under its posterior, by Monte Carlo. Rows are held out for T as in
    `EnsembleClassifier`.

    Args:
        law: "ntkgp", "nngp", "randomised-prior" or "deep-ensemble", a name in `ntkgp.LAWS`.
        noise_std: standard deviation σ of the noise on the scaled targets; the paper's is 0.1.
        target_scale, target_scale_grid: as in `EnsembleClassifier`, with ζ₀ the mean of the prior
            kernel at (x, x).
        network: a `LayeredNetwork`, or a function (input_shape, output_dim) that makes one.
        depth, activation: of the default network.
        samples: of the posterior, for predictions.
        validation_samples: of the posterior, for T.
        jitter: added to the diagonal of the training kernel.
        validation_fraction, random_state: as in `EnsembleClassifier`.

    Attributes:
        posterior_: the `Posterior`.
        zeta_0_, kappa_, temperature_, classes_: as in `EnsembleClassifier`.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> GPClassifier(random_state=0).fit(X, X[:, 0] > 0).predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        law: str = "ntkgp",
        *,
        noise_std: float = 0.1,
        target_scale: float | None = None,
        target_scale_grid: tuple[float, ...] = (1.0,),
        network: Any = None,
        depth: int = 2,
        activation: str = "relu",
        samples: int = 100,
        validation_samples: int = 10,
        jitter: float = 1e-6,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.law = law
        self.noise_std = noise_std
        self.target_scale = target_scale
        self.target_scale_grid = target_scale_grid
        self.network = network
        self.depth = depth
        self.activation = activation
        self.samples = samples
        self.validation_samples = validation_samples
        self.jitter = jitter
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GPClassifier":
        """Condition on rows X and classes y (n,)."""
        law = get_law(self.law)
        x, labels = self._check_xy(X, y)
        rng = self._start()
        net = with_kernel(self._candidates(len(self.classes_))[0])
        prior = ntk if law.prior == "ntk" else nngp
        self.zeta_0_ = float(np.mean(prior(net, x, diagonal=True)))
        train, held_out = holdout(len(x), self.validation_fraction, rng, labels)
        validation = held_out if len(held_out) else train
        trials = []
        for kappa in _target_scales(self, self.zeta_0_, len(self.classes_), bool(len(held_out))):
            posterior = Posterior(
                net,
                x[train],
                kappa * np.eye(len(self.classes_))[labels[train]],
                law=self.law,
                noise_std=self.noise_std,
                jitter=self.jitter,
            )
            logits = self._sampled(posterior, x[validation], self.validation_samples)
            temperature = best_temperature(logits, labels[validation])
            merit = _merit(mean_probabilities(logits, temperature), labels[validation])
            trials.append((merit, kappa, temperature, posterior))
        _, self.kappa_, self.temperature_, self.posterior_ = max(trials, key=lambda trial: trial[0])
        return self

    def _sampled(self, posterior: Posterior, x: NDArray[Any], n_samples: int) -> NDArray[Any]:
        """z ~ the law at each x, (n_samples, n, classes).

        All x share one draw of the normals: their marginals are right, which is all that class
        probabilities need, and a row's prediction does not depend on its neighbours.
        """
        law = posterior.predict(x)
        shape = (n_samples, 1, len(self.classes_))
        half = np.random.default_rng([self.seed_, 1]).standard_normal(
            (-(-n_samples // 2), *shape[1:])
        )
        normals = np.concatenate([half, -half])[
            :n_samples
        ]  # in pairs, so that no class is favoured
        return law.mean + np.sqrt(law.epistemic_var) * normals

    def fitted_network(self) -> Network:
        return self.posterior_.net

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        return self._sampled(self.posterior_, x, self.samples)


def _target_scales(
    estimator: EnsembleClassifier | GPClassifier, zeta_0: float, n_classes: int, can_tune: bool
) -> list[float]:
    """The values of κ to try."""
    given, grid = estimator.target_scale, list(estimator.target_scale_grid)
    values = grid if given is None else [given]
    if not values or not all(0 < value < float("inf") for value in values):
        raise ValueError(
            "target_scale must be a finite number > 0, and target_scale_grid at least one such; got "
            f"{given!r} and {grid!r}."
        )
    if len(values) > 1 and not can_tune:
        raise ValueError(
            "target_scale_grid has several values to choose from, and no rows are held out to choose "
            "by: give one, or a validation_fraction > 0 and at least 20 rows."
        )
    if given is not None:
        return values
    return [base_target_scale(zeta_0, n_classes) * multiple**0.5 for multiple in values]


def _merit(probabilities: NDArray[Any], labels: NDArray[Any]) -> tuple[float, float]:
    """Validation accuracy, then negative cross-entropy."""
    true = probabilities[np.arange(len(labels)), labels]
    accuracy = float(np.mean(np.argmax(probabilities, axis=1) == labels))
    return accuracy, float(np.mean(np.log(np.maximum(true, np.finfo(float).tiny))))
