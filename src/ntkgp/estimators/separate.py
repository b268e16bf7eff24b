"""Separate learners (Appendix I): one model for the mean, another for the doubt about it."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor
from ntkgp.predictive.distributions import Normal


class _Separate(BaseEstimator):  # type: ignore[misc]
    """Two estimators of the same kind, fitted on the same rows."""

    def __init__(self, mean: Any = None, spread: Any = None, *, random_state: Any = None) -> None:
        self.mean = mean
        self.spread = spread
        self.random_state = random_state

    def _fit_both(self, X: Any, y: Any, default: type) -> None:
        deep = default("deep-ensemble", random_state=self.random_state)
        mean = deep if self.mean is None else clone(self.mean)
        spread = (
            default(random_state=self.random_state) if self.spread is None else clone(self.spread)
        )
        for name, estimator in (("mean", mean), ("spread", spread)):
            needed = "predict_dist" if default is EnsembleRegressor else "predict_members_proba"
            if not hasattr(estimator, needed):
                raise TypeError(
                    f"{name} must be an estimator of ntkgp with {needed}; got {estimator!r}."
                )
        self.mean_, self.spread_ = mean.fit(X, y), spread.fit(X, y)
        self.n_features_in_ = self.mean_.n_features_in_


class SeparateRegressor(RegressorMixin, _Separate):  # type: ignore[misc]
    """The mean of one regressor, and the epistemic variance of another.

    NTKGP members carry a random function that no training removes, so the mean of a few of them is
    noisier than that of a deep ensemble or an exact law, while their spread is right with few members
    (Appendix I). The noise of observations is the spread's. It has no file of its own: save `mean_` and
    `spread_`.

    Args:
        mean: the regressor whose mean is used; None for a deep ensemble.
        spread: the regressor whose doubt is used; None for NTKGP-param.
        random_state: of the two default estimators.

    Attributes:
        mean_, spread_: the fitted regressors.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = SeparateRegressor(ntkgp.GPRegressor(), ntkgp.GPRegressor("nngp")).fit(X, X[:, 0])
    >>> mean, std = model.predict(X, return_std=True)
    """

    def fit(self, X: Any, y: Any) -> "SeparateRegressor":
        """Fit both regressors on rows X and targets y."""
        self._fit_both(X, y, EnsembleRegressor)
        return self

    def predict_dist(self, X: Any) -> Normal:
        """The predictive distribution of an observation at each row."""
        check_is_fitted(self, "spread_")
        spread, mean = self.spread_.predict_dist(X), self.mean_.predict(X)
        members = spread.members
        shifted = None if members is None else members + (mean - spread.mean)
        return replace(spread, mean=mean, members=shifted)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean, and with it the standard deviation of observations."""
        if not return_std:
            check_is_fitted(self, "mean_")
            return self.mean_.predict(X)
        distribution = self.predict_dist(X)
        return distribution.mean, distribution.std


class SeparateClassifier(ClassifierMixin, _Separate):  # type: ignore[misc]
    """The mean logits of one classifier, and the spread of another's around their mean.

    Args:
        mean, spread, random_state: as in `SeparateRegressor`, of classifiers.

    Attributes:
        mean_, spread_: the fitted classifiers.
        classes_: the classes.

    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = SeparateClassifier(ntkgp.GPClassifier(), ntkgp.GPClassifier()).fit(X, X[:, 0] > 0)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def fit(self, X: Any, y: Any) -> "SeparateClassifier":
        """Fit both classifiers on rows X and classes y."""
        self._fit_both(X, y, EnsembleClassifier)
        self.classes_ = self.mean_.classes_
        return self

    def predict_members_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities of each member of the spread, about the other's mean, (k, n, classes).

        That mean is of the logits: averaged probabilities hold the other's own doubt already.
        """
        check_is_fitted(self, "spread_")
        of_mean, logits = (_logits(model, X) for model in (self.mean_, self.spread_))
        shifted = of_mean.mean(axis=0) + logits - logits.mean(axis=0)
        return np.asarray(special.softmax(shifted, axis=-1))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, classes), in the order of `classes_`."""
        return self.predict_members_proba(X).mean(axis=0)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def _logits(model: Any, X: Any) -> NDArray[Any]:
    """Of each member, up to a constant, (k, n, classes)."""
    probabilities = model.predict_members_proba(X)
    return np.log(np.maximum(probabilities, np.finfo(float).tiny))
