"""Estimators for a table as it is: numbers, words, dates and gaps in one frame."""

import os
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ntkgp.core import storage
from ntkgp.estimators.ensemble_classifier import EnsembleClassifier
from ntkgp.estimators.ensemble_regressor import EnsembleRegressor
from ntkgp.predictive.distributions import Normal
from ntkgp.predictive.metrics import predictive_entropy
from ntkgp.tables.arrow import as_table
from ntkgp.tables.features import TableFeatures, require_columns
from ntkgp.tables.targets import class_names, kind_of_target, read_as
from ntkgp.tables.values import ARROW_TYPES

REFERENCE_ROWS = 2000
USUAL = 0.95
"""The share of reference rows whose novelty is at most 1."""
LEARNED = {
    "features_", "feature_names_in_", "n_features_in_", "estimator_", "target_", "target_read_as_",
    "usual_doubt_", "summary_",
}  # fmt: skip
"""What every fitted model has."""


class TableModel(BaseEstimator):  # type: ignore[misc]
    """What both share: columns become numbers, an estimator learns them, one file keeps both."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        categorical: Sequence[str] = (),
        drop: Sequence[str] | Mapping[str, str] = (),
        max_levels: int = 30,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.categorical = categorical
        self.drop = drop
        self.max_levels = max_levels
        self.random_state = random_state

    features_: TableFeatures
    estimator_: Any
    target_: str | None
    target_read_as_: str | None
    """The kind of the target, as in `values.ARROW_TYPES`, if it was a column."""
    usual_doubt_: float
    summary_: dict[str, Any]

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, features: TableFeatures | None, default: type
    ) -> None:
        table = as_table(X)
        self.target_, self.target_read_as_ = None, None
        if isinstance(y, str):
            require_columns(table.column_names, [y], "there is no target: it must be")
            self.target_, y = y, table.column(y).combine_chunks()
            self.target_read_as_ = read_as(y.type)
            table = table.drop_columns([self.target_])
        if not len(table):
            raise ValueError("the table has no rows.")
        targets = self._targets(y)
        self.features_ = features or TableFeatures.learned(
            table, self.categorical, self.drop, self.max_levels
        )
        self.feature_names_in_ = np.array(self.features_.needed, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        estimator = self.estimator
        if estimator is None:
            estimator = default(random_state=self.random_state)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        rows = self.features_.encode(table)
        self.estimator_ = clone(estimator).fit(rows, targets, **options)
        self.usual_doubt_ = self._usual_doubt(rows)
        self.summary_ = {}

    def _targets(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _doubt(self, rows: NDArray[Any]) -> NDArray[Any]:
        """What the members disagree by at encoded rows, (n,)."""
        raise NotImplementedError

    def _usual_doubt(self, rows: NDArray[Any]) -> float:
        few = np.random.default_rng(0).permutation(len(rows))[:REFERENCE_ROWS]
        doubts = np.sort(self._doubt(rows[few]))
        rank = min(ceil(USUAL * (len(doubts) + 1)), len(doubts))  # so that few rows set it no lower
        found = float(doubts[rank - 1])
        return max(found, float(np.finfo(np.float32).tiny))

    def refer_to(self, X: Any) -> Self:
        """Measure novelty against these rows, better ones than those of training: held out of it."""
        self.usual_doubt_ = self._usual_doubt(self._rows(X))
        return self

    def novelty(self, X: Any) -> NDArray[Any]:
        """How unlike training each row is, (n,): what the members disagree by, relative to usual.

        Usual is what 95 % of the training rows stay below, or of those that `refer_to` was given. Far
        above 1 the model has seen nothing like the row.
        """
        return self._doubt(self._rows(X)) / self.usual_doubt_

    def relevance(self) -> dict[str, float] | None:
        """How much each column matters by the learned prior, adding up to 1; None if none was learned.

        The scale of its numbers, standardised, in the network's first layer; several numbers of one
        column add up as squares.
        """
        check_is_fitted(self)
        prior = getattr(self.estimator_, "prior_", None)
        scale = None if prior is None else prior.net.input_scale
        if scale is None:
            return None
        of_columns = self.features_.by_column(np.abs(np.asarray(scale, np.float64)).ravel())
        total = sum(of_columns.values())
        ordered = sorted(of_columns.items(), key=lambda item: -item[1])
        return {name: value / total for name, value in ordered}

    def _rows(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self.features_.encode(as_table(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write columns and fitted estimator into one file, safetensors, for `ntkgp.load`."""
        check_is_fitted(self)
        storage.save(self, path)

    def __to_store__(self) -> dict[str, Any]:
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_")}
        return {
            "categorical": tuple(self.categorical),
            "drop": tuple(self.drop),
            "max_levels": self.max_levels,
            "fitted": fitted,
        }

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> Self:
        fitted = stored.pop("fitted")
        if missing := sorted(LEARNED - fitted.keys()):
            raise ValueError(f"it lacks {missing[0]}.")
        model = cls(clone(fitted["estimator_"]), **stored)
        for name, value in fitted.items():
            if not name.endswith("_") or name.startswith("_"):
                raise ValueError(f"{name!r} is no name of what a model learns.")
            setattr(model, name, value)
        return model

    def __check_stored__(self) -> None:
        """Refuse a file whose parts do not belong together."""
        if not isinstance(self.features_, TableFeatures):
            raise ValueError("it has no columns of a table.")
        if not isinstance(self.usual_doubt_, float) or not 0 < self.usual_doubt_ < float("inf"):
            raise ValueError(
                f"usual_doubt_ must be a number above 0; got {str(self.usual_doubt_)[:40]}."
            )
        if not isinstance(self.target_, str | None) or not isinstance(self.summary_, dict):
            raise ValueError("target_ must be a name or None, and summary_ a dictionary.")
        if self.target_read_as_ is not None and self.target_read_as_ not in ARROW_TYPES:
            raise ValueError(f"there is no target that is read as {self.target_read_as_!r}.")
        if len(self.features_.names) != self.estimator_.n_features_in_:
            raise ValueError("its columns are not those that its estimator was fitted to.")
        if list(self.feature_names_in_) != self.features_.needed:
            raise ValueError("feature_names_in_ are not the names of its columns.")


@storage.storable
class TableRegressor(RegressorMixin, TableModel):  # type: ignore[misc]
    """A regressor of tables with columns of any kind, by default an `EnsembleRegressor`.

    Numbers stay as they are. Words become a flag for each level that at least 1 % of the rows have,
    `max_levels` at most; rarer levels, and new ones, share a flag. With more levels than that, how
    common a level is becomes a number too. Dates become days and the cycles of year, week and day. A
    gap gets the median, and a flag if training had gaps. Constant columns, row numbers and words that
    differ in most rows are left out: `features_.dropped` says why.

    Args:
        estimator: a regressor of ntkgp, such as `GPRegressor()`; None for
            `EnsembleRegressor(random_state=random_state)`.
        categorical: numeric columns to read as categories.
        drop: columns to leave out, or a mapping that says why too.
        max_levels: flags of one column at most, besides those for others and gaps.
        random_state: of the default estimator.

    Attributes:
        features_: what was learned about columns: `features_.columns`, `features_.dropped`.
        estimator_: the fitted regressor.
        target_: the target's name, if y was one.

    >>> rng = np.random.default_rng(0)
    >>> frame = {"size": rng.uniform(20, 90, 60), "town": rng.choice(["Oslo", "Rome"], 60)}
    >>> rent = 10 * frame["size"] + 200 * (frame["town"] == "Oslo")
    >>> model = TableRegressor(ntkgp.GPRegressor(activation="relu")).fit(frame, rent)
    >>> mean, std = model.predict({"town": ["Rome"], "size": [50.0]}, return_std=True)
    >>> bool(abs(mean[0] - 500) < 50)
    True
    """

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, features: TableFeatures | None = None
    ) -> "TableRegressor":
        """Learn the columns of X, a data frame, and the targets y: numbers, or the name of a column.

        Features that another model learned are taken as they are.
        """
        self._fit(X, y, sample_weight, features, EnsembleRegressor)
        return self

    def _targets(self, y: Any) -> NDArray[Any]:
        if hasattr(y, "type"):  # Arrow's
            if kind_of_target(y.type) != "number":
                raise ValueError(
                    f"the target {self.target_!r} has values of type {y.type}, and a regressor "
                    "needs numbers: take TableClassifier for classes."
                )
            y = y.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        targets = np.asarray(y)
        missing = int(np.isnan(targets).sum()) if targets.dtype.kind == "f" else 0
        if missing:
            raise ValueError(f"the target is missing in {missing:,} rows: leave these rows out.")
        return targets

    def _doubt(self, rows: NDArray[Any]) -> NDArray[Any]:
        var = np.asarray(self.estimator_.predict_dist(rows).epistemic_var)
        return np.sqrt(var if var.ndim == 1 else var.mean(axis=1))

    def predict(self, X: Any, return_std: bool = False, **options: Any) -> Any:
        """The predicted mean, or what an option asks for: as of `EnsembleRegressor.predict`."""
        return self.estimator_.predict(self._rows(X), return_std=return_std, **options)

    def predict_dist(self, X: Any) -> Normal:
        """The predictive distribution of an observation at each row."""
        return self.estimator_.predict_dist(self._rows(X))

    def predict_table(self, X: Any, interval: float = 0.95) -> dict[str, NDArray[Any]]:
        """All there is to say about each row, as columns: what `ntkgp predict` writes.

        mean and std of an observation, its central interval, the two parts of std, and the novelty.
        """
        found = self.predict_dist(X)
        low, high = found.interval(interval)
        epistemic_std = np.sqrt(found.epistemic_var)
        percent = f"{100 * interval:g}"
        return {
            "mean": found.mean,
            "std": found.std,
            f"low_{percent}": low,
            f"high_{percent}": high,
            "epistemic_std": epistemic_std,
            "noise_std": np.sqrt(np.maximum(found.var - found.epistemic_var, 0)),
            "novelty": epistemic_std / self.usual_doubt_,
        }


@storage.storable
class TableClassifier(ClassifierMixin, TableModel):  # type: ignore[misc]
    """A classifier of tables with columns of any kind, by default an `EnsembleClassifier`.

    Columns, arguments and attributes are as in `TableRegressor`; `classes_` has the classes.

    >>> rng = np.random.default_rng(0)
    >>> frame = {"size": rng.uniform(20, 90, 60), "town": rng.choice(["Oslo", "Rome"], 60)}
    >>> dear = np.where(frame["size"] > 50, "dear", "cheap")
    >>> model = TableClassifier(ntkgp.GPClassifier()).fit(frame, dear)
    >>> model.predict({"town": ["Rome"], "size": [85.0]}).tolist()
    ['dear']
    """

    classes_: NDArray[Any]

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, features: TableFeatures | None = None
    ) -> "TableClassifier":
        """Learn the columns of X, a data frame, and the classes y: values, or the name of a column.

        Features that another model learned are taken as they are.
        """
        self._fit(X, y, sample_weight, features, EnsembleClassifier)
        self.classes_ = self.estimator_.classes_
        return self

    def _targets(self, y: Any) -> NDArray[Any]:
        if not hasattr(y, "type"):
            return np.asarray(y)
        if y.null_count:
            raise ValueError(
                f"the target is missing in {y.null_count:,} rows: leave these rows out."
            )
        return class_names(y)

    def __check_stored__(self) -> None:
        super().__check_stored__()
        if not np.array_equal(getattr(self, "classes_", ()), self.estimator_.classes_):
            raise ValueError("its classes are not those of its estimator.")

    def _doubt(self, rows: NDArray[Any]) -> NDArray[Any]:
        """What knowing the member would tell about the class, in nats: their mutual information."""
        return _mutual_information(self.estimator_.predict_members_proba(rows))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities (n, classes), in the order of `classes_`."""
        return self.estimator_.predict_proba(self._rows(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        return self.estimator_.predict(self._rows(X))

    def predict_table(self, X: Any, interval: float | None = None) -> dict[str, NDArray[Any]]:
        """All there is to say about each row, as columns: what `ntkgp predict` writes.

        The most probable class, the probability of each, what the members disagree by, in nats, and the
        novelty. Classes have no intervals.
        """
        members = self.estimator_.predict_members_proba(self._rows(X))
        mean = members.mean(axis=0)
        doubt = _mutual_information(members)
        return {
            "class": self.classes_[np.argmax(mean, axis=1)],
            **{f"p_{name}": mean[:, i] for i, name in enumerate(self.classes_)},
            "disagreement": doubt,
            "novelty": doubt / self.usual_doubt_,
        }


def _mutual_information(members: NDArray[Any]) -> NDArray[np.float64]:
    """Entropy of the mean less the mean of entropies, (n,), from (k, n, classes)."""
    total = predictive_entropy(members.mean(axis=0))
    own = np.mean([predictive_entropy(member) for member in members], axis=0)
    return np.maximum(total - own, 0.0)
