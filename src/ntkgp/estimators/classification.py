"""What both classifiers share: regression on scaled one-hot targets, then a temperature."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from ntkgp.core.arrays import check_number, check_part
from ntkgp.estimators.base import TableEstimator
from ntkgp.estimators.one_hot import best_of, contrasts, one_hot, target_scale
from ntkgp.estimators.preparation import choose, holdout
from ntkgp.laws.prior import LearnedPrior
from ntkgp.laws.table import Law
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import mean_probabilities, member_probabilities

Model = TypeVar("Model")


class Labelled(NamedTuple):
    """Standardised rows, their labels from 0, and their weights."""

    x: NDArray[Any]
    labels: NDArray[np.int64]
    weight: NDArray[Any] | None

    def take(self, rows: NDArray[np.int64]) -> "Labelled":
        weight = None if self.weight is None else self.weight[rows]
        return Labelled(self.x[rows], self.labels[rows], weight)


class SplitRows(NamedTuple):
    """What a classifier is trained on, and what sets its temperature."""

    train: Labelled
    held_out: Labelled


class Classifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Class probabilities: the mean over members, or samples of a law, of softmax(z/T).

    z are outputs of a regression on κ(e_c - π), with κπ added again, where π are the frequencies of the
    classes: where data say nothing, the model says what is usual.
    """

    noise_std: float | None
    target_scale: float | None
    target_scale_grid: tuple[float, ...]
    class_weight: Any
    class_prior_: NDArray[Any]
    zeta_0_: float
    kappa_: float
    temperature_: float
    prior_: LearnedPrior | None
    classes_: NDArray[Any]

    def __check_stored__(self) -> None:
        super().__check_stored__()
        classes = self._n_targets()
        if classes < 2 or self.classes_.shape != (classes,):
            raise ValueError(f"{classes} outputs are for classes of shape {self.classes_.shape}.")
        check_part("class_prior_", self.class_prior_, (classes,))
        check_part("kappa_ and temperature_", [self.kappa_, self.temperature_], (2,), above=0.0)

    def _check_xy(self, X: Any, y: Any, sample_weight: Any, fraction: float) -> SplitRows:
        """Training rows and rows held out, both standardised by the training rows."""
        inputs, labels = self._check_training_data(X, y)
        check_classification_targets(labels)
        used, weight = self._weights(self._with_class_weight(labels, sample_weight), len(inputs))
        inputs, labels = inputs[used], labels[used]
        self.classes_, indices = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "y must have at least two classes to tell apart; it has one class only, "
                f"{self.classes_[0]!r}."
            )
        train, held_out = holdout(len(inputs), fraction, self._start(), indices)
        rows = Labelled(self._standardise(inputs, train, weight), indices, weight)
        self.class_prior_ = _frequencies(rows.take(train), len(self.classes_))
        return SplitRows(rows.take(train), rows.take(held_out))

    def _with_class_weight(self, labels: NDArray[Any], sample_weight: Any) -> Any:
        """The user's weights of rows, times those of their classes."""
        if self.class_weight is None:
            return sample_weight
        of_classes = compute_sample_weight(self.class_weight, labels)
        return of_classes if sample_weight is None else of_classes * np.asarray(sample_weight)

    def _learned(
        self, nets: Sequence[Network], rows: Labelled, law: Law, second_moment: Callable[..., float]
    ) -> tuple[Network, float, float]:
        """The network, σ and κ: given, or those of highest marginal likelihood.

        If σ is given, κ is the paper's, √(C ζ₀), and the network keeps its own scales.
        """
        self.prior_ = None
        if self.noise_std is not None:
            check_number("noise_std", self.noise_std)
            self.zeta_0_ = second_moment(nets[0], rows.x)
            return nets[0], self.noise_std, target_scale(self.zeta_0_, len(self.classes_))
        targets = contrasts(rows.labels, self.class_prior_)
        size = float(np.sqrt(np.mean(targets**2)))
        # Targets of two values reward steps at columns that fit them by chance: no relevance here.
        options: dict[str, Any] = {"relevance": False, "progress": bool(self.verbose)}
        choice = choose(
            nets, rows.x, targets / size, law, self.seed_, sample_weight=rows.weight, **options
        )
        self.prior_ = choice.prior
        self.zeta_0_ = second_moment(choice.net, rows.x)
        return choice.net, choice.noise_std, 1 / (size * choice.scale)

    def _best_fit(
        self,
        rows: Labelled,
        judged: Labelled,
        kappa: float,
        fit: Callable[[NDArray[Any]], Model],
        logits: Callable[[Model], NDArray[Any]],
        expected: Callable[[float], float | None] = lambda kappa: None,
    ) -> Model:
        """The model of the best κ; sets `kappa_` and `temperature_`.

        Args:
            rows: to train on.
            judged: rows that the model has not seen; they set T.
            kappa: κ, before the multiples to try.
            fit: a model of targets for the training rows.
            logits: its outputs at the rows that judge it, (k, rows, classes).
            expected: T as it is believed to be before, given κ.
        """
        classes = len(self.classes_)
        best = best_of(
            self._target_scales(kappa, can_tune=judged is not rows),
            lambda kappa: fit(one_hot(rows.labels, classes, kappa) - kappa * self.class_prior_),
            lambda model, kappa: logits(model) + kappa * self.class_prior_,
            judged.labels,
            judged.weight,
            expected,
        )
        self.kappa_, self.temperature_ = best.kappa, best.temperature
        return best.model

    def _target_scales(self, kappa: float, can_tune: bool) -> list[float]:
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
        return values if given is not None else [kappa * value**0.5 for value in values]

    def _logits(self, x: NDArray[Any]) -> NDArray[Any]:
        """The outputs of each member or sample, (k, n, classes), without κπ."""
        raise NotImplementedError

    def _shifted_logits(self, X: Any) -> NDArray[Any]:
        return self._logits(self._inputs(X)) + self.kappa_ * self.class_prior_

    def predict_members_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities of each member, or sample of a law, (k, n, classes)."""
        return member_probabilities(self._shifted_logits(X), self.temperature_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, classes), in the order of `classes_`."""
        return mean_probabilities(self._shifted_logits(X), self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]


def _frequencies(rows: Labelled, n_classes: int) -> NDArray[np.float64]:
    counts = np.bincount(rows.labels, weights=rows.weight, minlength=n_classes)
    return np.asarray(counts / np.sum(counts))
