"""Intervals of any regressor that hold as often as they say."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array

from ntkgp.core.storage import storable
from ntkgp.estimators.conformal import Conformal, gives_std
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor


@storable
class ConformalRegressor(RegressorMixin, Conformal):  # type: ignore[misc]
    """A regressor whose intervals are calibrated on rows held out (split conformal prediction).

    Some rows are held out, and the estimator is fitted on the others. The scores of the rows held
    out are |y - mean| / std, and `predict_interval` returns mean ± q · std, with q the
    ⌈(n + 1) level⌉-th smallest of n scores. If rows are exchangeable, such as independent draws,
    the interval of a new row holds its target with a probability between level and
    level + 1/(n + 1), however wrong the estimator is. That is so on average over rows. It is no
    promise for each row, nor for rows of another kind than those of calibration.

    Args:
        estimator: any regressor, and a clone of it is fitted; None for `EnsembleRegressor()`. If
            `predict` of it, or of the last step of a pipeline, takes return_std, std is what that
            gives. Otherwise std is 1, and all intervals are equally wide. A fitted one in
            scikit-learn's `FrozenEstimator` stays as it is: `fit` then calibrates on all rows it
            gets, which must be others than those that it was fitted on.
        calibration_fraction: share of the rows to calibrate on. A level takes level / (1 - level)
            of them at least: 9 for 90 %, 99 for 99 %.
        random_state: an integer makes every split the same. It is passed on to the default
            estimator; one that is given has its own.

    Attributes:
        estimator_: the fitted estimator.
        scores_: of the rows held out, (n,), or (n, targets) for several targets. Each target has
            its own q, so each is inside its interval with probability `level`, not all at once.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(100, 1))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=100)
    >>> model = ConformalRegressor(ntkgp.GPRegressor(optimizer=None), random_state=0).fit(X, y)
    >>> low, high = model.predict_interval([[0.0], [0.5]], level=0.9)
    >>> bool((low < [0.0, 0.5]).all() and ([0.0, 0.5] < high).all())
    True
    """

    _default: ClassVar[type] = EnsembleRegressor

    def __init__(
        self,
        estimator: Any = None,
        *,
        calibration_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.calibration_fraction = calibration_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "ConformalRegressor":
        """Fit a clone of the estimator on some rows and calibrate on the others; y (n,) or (n, targets)."""
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None.")
        targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        rows, observed = self._fit_a_part(X, targets)
        mean, std = self._mean_and_std(rows)
        self.scores_ = np.abs(observed.reshape(mean.shape) - mean) / std
        return self

    def predict(self, X: Any, **options: Any) -> Any:
        """What the estimator predicts; options such as return_std=True are passed on to it.

        The standard deviation is the estimator's own, not calibrated.
        """
        self._check_calibrated()
        return self.estimator_.predict(X, **options)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[NDArray[Any], NDArray[Any]]:
        """Lower and upper ends, (n,) or (n, targets), that hold a new y with probability `level`.

        Any level will do that the number of calibration rows allows.
        """
        limit = self._quantile(level)
        mean, std = self._mean_and_std(X)
        return mean - limit * std, mean + limit * std

    def _mean_and_std(self, X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The estimator's, with 1 for a standard deviation that it does not give."""
        if not gives_std(self.estimator_):
            mean = np.asarray(self.estimator_.predict(X), np.float64)
            return mean, np.ones_like(mean)
        mean, std = self.estimator_.predict(X, return_std=True)
        if not np.all((std > 0) & np.isfinite(std)):
            raise ValueError(
                f"predict(X, return_std=True) of {type(self.estimator_).__name__} must give finite "
                f"standard deviations > 0, to measure residuals by; got {np.min(std)} ... {np.max(std)}."
            )
        return mean, std
