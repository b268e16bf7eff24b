"""What both classifiers share: regression on scaled one-hot targets, then a temperature."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.calibration import (
    base_target_scale,
    best_temperature,
    mean_probabilities,
    member_probabilities,
)
from ntkgp.estimators.preparation import holdout

Model = TypeVar("Model")


class Classifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Class probabilities: the mean over members, or samples of a law, of softmax(z/T)."""

    target_scale: float | None
    target_scale_grid: tuple[float, ...]
    validation_fraction: float
    zeta_0_: float
    kappa_: float
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

    def _best_fit(
        self,
        x: NDArray[Any],
        labels: NDArray[np.int64],
        rng: np.random.Generator,
        fit: Callable[[NDArray[Any], NDArray[Any]], Model],
        logits: Callable[[Model, NDArray[Any]], NDArray[Any]],
    ) -> Model:
        """The model of the best κ, by rows held out for it and for T; sets `kappa_`, `temperature_`.

        Args:
            x: standardised rows (n, ...).
            labels: (n,), from 0.
            rng: draws the rows held out.
            fit: a model of rows and their targets, κ times one-hot.
            logits: z of each member or sample of a model at rows, (k, rows, classes).
        """
        train, held_out = holdout(len(x), self.validation_fraction, rng, labels)
        validation = held_out if len(held_out) else train
        one_hot = np.eye(len(self.classes_))[labels]
        trials = []
        for kappa in self._target_scales(can_tune=bool(len(held_out))):
            model = fit(x[train], kappa * one_hot[train])
            z = logits(model, x[validation])
            temperature = best_temperature(z, labels[validation])
            merit = _merit(mean_probabilities(z, temperature), labels[validation])
            trials.append((merit, kappa, temperature, model))
        _, self.kappa_, self.temperature_, best = max(trials, key=lambda trial: trial[0])
        return best

    def _target_scales(self, can_tune: bool) -> list[float]:
        """The values of κ to try."""
        given, grid = self.target_scale, list(self.target_scale_grid)
        values = grid if given is None else [given]
        if not values or not all(0 < value < float("inf") for value in values):
            raise ValueError(
                "target_scale must be a finite number > 0, and target_scale_grid at least one such; "
                f"got {given!r} and {grid!r}."
            )
        if len(values) > 1 and not can_tune:
            raise ValueError(
                "target_scale_grid has several values to choose from, and no rows are held out to "
                "choose by: give one, or a validation_fraction > 0 and at least 20 rows."
            )
        if given is not None:
            return values
        base = base_target_scale(self.zeta_0_, len(self.classes_))
        return [base * multiple**0.5 for multiple in values]

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        """z of each member or sample, (k, n, classes)."""
        raise NotImplementedError

    def predict_members_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities of each member, or sample of a law, (k, n, classes)."""
        return member_probabilities(self._logits(self._inputs(X)), self.temperature_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, classes), in the order of `classes_`."""
        return mean_probabilities(self._logits(self._inputs(X)), self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


def _merit(probabilities: NDArray[Any], labels: NDArray[Any]) -> tuple[float, float]:
    """Validation accuracy, then negative cross-entropy."""
    true = probabilities[np.arange(len(labels)), labels]
    accuracy = float(np.mean(np.argmax(probabilities, axis=1) == labels))
    return accuracy, float(np.mean(np.log(np.maximum(true, np.finfo(float).tiny))))
