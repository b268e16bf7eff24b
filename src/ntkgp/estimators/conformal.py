"""What both conformal estimators share: the rows they calibrate on, and the estimator inside."""

from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from ntkgp.core import storage
from ntkgp.estimators.files import SavedEstimator
from ntkgp.estimators.preparation import seed_of
from ntkgp.networks.protocol import Network
from ntkgp.predictive.conformal import conformal_quantile
from ntkgp.predictive.metrics.checks import as_open


class Conformal(MetaEstimatorMixin, SavedEstimator):  # type: ignore[misc]
    """An estimator, and the scores of rows that it was not fitted on in `scores_`."""

    _default: ClassVar[type]
    estimator: Any
    calibration_fraction: float
    random_state: Any
    estimator_: Any
    scores_: NDArray[np.float64]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._default() if self.estimator is None else self.estimator)
        tags.input_tags = inner.input_tags
        tags.target_tags.multi_output = inner.target_tags.multi_output
        return tags

    def _fit_a_part(self, X: Any, y: NDArray[Any], labels: Any = None) -> tuple[Any, NDArray[Any]]:
        """Fit the estimator, and return the rows to calibrate on.

        Labels from 0 stratify the split. A frozen estimator stays as it is, and all rows calibrate.
        """
        self.__dict__.pop("scores_", None)  # if this fit fails, those of an earlier one are wrong
        X, y = indexable(X, y)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator.estimator
            self._copy_features()
            return X, y
        seed = seed_of(self.random_state)
        model = (
            self._default(random_state=seed) if self.estimator is None else clone(self.estimator)
        )
        train, rest = split(len(y), self.calibration_fraction, np.random.default_rng(seed), labels)
        self.estimator_ = model.fit(_safe_indexing(X, train), _safe_indexing(y, train))
        self._copy_features()
        return _safe_indexing(X, rest), _safe_indexing(y, rest)

    def _copy_features(self) -> None:
        """What scikit-learn wants to know of the table, if the estimator knows it."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _quantile(self, level: float) -> NDArray[Any]:
        """The limit that the score of a new row keeps with probability `level`."""
        self._check_calibrated()
        return conformal_quantile(self.scores_, float(as_open("level", level, ndim=0)))

    def _check_calibrated(self) -> None:
        check_is_fitted(self, "scores_")

    def fitted_network(self) -> Network:
        return self.estimator_.fitted_network()

    def save(self, path: Any) -> None:
        """Write the fitted model into one file, for `ntkgp.load`, if its estimator is of ntkgp."""
        self._check_calibrated()
        if not storage.is_storable(self.estimator_):
            raise TypeError(
                f"{type(self).__name__} saves estimators of ntkgp, and its own is a "
                f"{type(self.estimator_).__name__}. Use joblib for it, with care about whose files "
                "you open."
            )
        super().save(path)

    def __to_store__(self) -> dict[str, Any]:
        given = {
            "given": self.estimator is not None,
            "frozen": isinstance(self.estimator, FrozenEstimator),
        }
        return super().__to_store__() | given

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> Self:
        model = super().__from_store__(stored, None)  # the estimator inside has the network already
        if stored["frozen"]:
            model.estimator = FrozenEstimator(model.estimator_)
        elif stored["given"]:
            model.estimator = clone(model.estimator_)
        return model

    def _plain_params(self) -> dict[str, Any]:
        return super()._plain_params() | {"estimator": None}  # the fitted one is there


def split(
    n: int, fraction: float, rng: np.random.Generator, labels: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit on and rows to calibrate on, at least one each.

    With labels, both have about the same share of each class, and every class a row to fit on.
    """
    if not 0 < fraction < 1:
        raise ValueError(
            f"calibration_fraction must lie strictly between 0 and 1; got {fraction!r}. To calibrate "
            "a fitted estimator on all rows, pass FrozenEstimator(estimator)."
        )
    least = 1 if labels is None else len(np.unique(labels))
    count = min(max(1, round(fraction * n)), n - least)
    if count < 1:
        raise ValueError(
            f"X has {n} sample(s), and it takes {least + 1} at least: {least} to fit on, and one to "
            "calibrate on."
        )
    order = rng.permutation(n) if labels is None else _stratified(labels, rng)
    return np.sort(order[count:]), np.sort(order[:count])


def _stratified(labels: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random order, any first part of which has about the same share of each class.

    Where shares are no whole numbers of rows, chance decides. A row of each class comes last.
    """
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        place[rows] = (np.arange(len(rows)) + rng.uniform()) / len(rows)
        place[rows[-1]] = 1
    return np.argsort(place, kind="stable")


def gives_std(estimator: Any) -> bool:
    """Whether predict takes return_std; of a pipeline, that of its last step."""
    if isinstance(estimator, Pipeline):
        return gives_std(estimator[-1])
    if isinstance(estimator, FrozenEstimator):
        return gives_std(estimator.estimator)
    return "return_std" in signature(estimator.predict).parameters
