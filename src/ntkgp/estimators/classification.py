"""What both classifiers share: regression on scaled one-hot targets, then a temperature."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.one_hot import best_of, one_hot, target_scale
from ntkgp.estimators.preparation import holdout
from ntkgp.predictive.calibration import mean_probabilities, member_probabilities

Model = TypeVar("Model")


class Labelled(NamedTuple):
    """Standardised rows and their labels from 0."""

    x: NDArray[Any]
    labels: NDArray[np.int64]


class Rows(NamedTuple):
    """What a classifier is trained on, and what sets its temperature."""

    train: Labelled
    held_out: Labelled


class Classifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Class probabilities: the mean over members, or samples of a law, of softmax(z/T)."""

    target_scale: float | None
    target_scale_grid: tuple[float, ...]
    validation_fraction: float
    zeta_0_: float
    kappa_: float
    temperature_: float

    def _check_xy(self, X: Any, y: Any) -> Rows:
        """Training rows and rows held out, both standardised by the training rows."""
        inputs, labels = self._check_training_data(X, y)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "y must have at least two classes to tell apart; it has one class only, "
                f"{self.classes_[0]!r}."
            )
        train, held_out = holdout(len(inputs), self.validation_fraction, self._start(), indices)
        x = self._standardise(inputs, train)
        return Rows(*(Labelled(x[rows], indices[rows]) for rows in (train, held_out)))

    def _best_fit(
        self,
        rows: Rows,
        fit: Callable[[NDArray[Any], NDArray[Any]], Model],
        logits: Callable[[Model, NDArray[Any]], NDArray[Any]],
    ) -> Model:
        """The model of the best κ; sets `kappa_` and `temperature_`.

        Args:
            rows: if no rows are held out, the training rows set T.
            fit: a model of rows and their targets, κ times one-hot.
            logits: z of each member or sample of a model at rows, (k, rows, classes).
        """
        (x, labels), judged = rows.train, rows.held_out if len(rows.held_out.x) else rows.train
        best = best_of(
            self._target_scales(can_tune=bool(len(rows.held_out.x))),
            lambda kappa: fit(x, one_hot(labels, len(self.classes_), kappa)),
            lambda model: logits(model, judged.x),
            judged.labels,
        )
        self.kappa_, self.temperature_ = best.kappa, best.temperature
        return best.model

    def _target_scales(self, can_tune: bool) -> list[float]:
        """The values of κ to try."""
        given, grid = self.target_scale, list(self.target_scale_grid)
        if self._goes_on() and given is None:
            return [self.kappa_]
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
        return [target_scale(self.zeta_0_, len(self.classes_), multiple) for multiple in values]

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
