"""Sets of classes, by any classifier, that hold the true one as often as they say."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ntkgp.core.storage import storable
from ntkgp.estimators.conformal import Conformal
from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.predictive.conformal import SET_SCORES


@storable
class ConformalClassifier(ClassifierMixin, Conformal):  # type: ignore[misc]
    """A classifier whose sets of classes are calibrated on rows held out (split conformal prediction).

    Some rows are held out, the same share of each class, and the estimator is fitted on the others.
    `predict_set` returns the classes whose score is at most q, the ⌈(n + 1) level⌉-th smallest of
    the n scores that the true classes of the rows held out have. If rows are exchangeable, such as
    independent draws, the set of a new row holds its class with a probability of at least `level`,
    on average over rows: not for each row or class, nor for rows of another kind.

    The most probable class is always in the set. Without this rule a set could be empty, which is
    wrong for certain. So where the classifier is right more often than `level`, sets hold the true
    class more often too.

    Args:
        estimator: any classifier with `predict_proba`, and a clone of it is fitted; None for
            `EnsembleClassifier()`. A fitted one in scikit-learn's `FrozenEstimator` stays as it
            is: `fit` then calibrates on all rows it gets, which must be others than those that it
            was fitted on.
        method: "lac", with the score 1 - p_c, has the smallest sets on average. "aps" sums p over
            the classes more probable than c, and adds half of p_c: sets whose sizes vary more with
            how hard a row is.
        calibration_fraction, random_state: as in `ConformalRegressor`.

    Attributes:
        estimator_: the fitted estimator.
        classes_: the classes, in the order of the columns of sets and probabilities.
        scores_: of the true classes of the rows held out, (n,).

    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = ConformalClassifier(ntkgp.GPClassifier(), random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict_set([[-2.0, 0.0], [2.0, 0.0]], level=0.9)
    array([[ True, False],
           [False,  True]])
    """

    _default: ClassVar[type] = EnsembleClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "lac",
        calibration_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.calibration_fraction = calibration_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "ConformalClassifier":
        """Fit a clone of the estimator on some rows and calibrate on the others; classes y (n,)."""
        if self.method not in SET_SCORES:
            raise ValueError(f"method must be one of {', '.join(SET_SCORES)}; got {self.method!r}.")
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        self._check_probabilities()
        numbers = np.unique(labels, return_inverse=True)[1]
        rows, truth = self._fit_a_part(X, labels, numbers)
        self.classes_ = self.estimator_.classes_
        unknown = np.setdiff1d(truth, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y has classes that the fitted estimator does not know, {unknown.tolist()}: it "
                f"knows {self.classes_.tolist()}. Fit it on rows of every class."
            )
        column = np.searchsorted(self.classes_, truth)
        scores = self._scores(self.estimator_.predict_proba(rows))
        self.scores_ = scores[np.arange(len(truth)), column]
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The estimator's class of each row."""
        self._check_calibrated()
        return self.estimator_.predict(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The estimator's class probabilities (n, classes), in the order of `classes_`."""
        self._check_calibrated()
        return self.estimator_.predict_proba(X)

    def predict_set(self, X: Any, level: float = 0.9) -> NDArray[np.bool_]:
        """Which classes are in the set of each row, (n, classes), in the order of `classes_`.

        Any level will do that the number of calibration rows allows.
        """
        limit = self._quantile(level)
        p = self.predict_proba(X)
        inside = self._scores(p) <= limit
        inside[np.arange(len(p)), np.argmax(p, axis=1)] = True
        return inside

    def _scores(self, p: NDArray[Any]) -> NDArray[Any]:
        return SET_SCORES[self.method](p)

    def _check_probabilities(self) -> None:
        if self.estimator is not None and not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"estimator must have predict_proba, and {type(self.estimator).__name__} has not: "
                "put it into scikit-learn's CalibratedClassifierCV first."
            )
