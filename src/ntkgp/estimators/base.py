"""What the four estimators of tables share: checking and standardising X, choosing a network, tags."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ntkgp.core.arrays import check_counts
from ntkgp.core.typing import Shape
from ntkgp.estimators.files import SavedEstimator
from ntkgp.estimators.preparation import candidates, seed_of
from ntkgp.estimators.standardise import Scaler
from ntkgp.networks.protocol import Network

_OPTIONS: dict[str, Any] = {"dtype": np.float64, "allow_nd": True}
_NAMED = re.compile(r"\b(X|y|[Ii]nput|feature names)\b")


class TableEstimator(SavedEstimator):
    """An estimator on standardised inputs, with a network that is given or chosen."""

    activation: str
    depth: int
    random_state: Any
    input_shape_: Shape
    output_dim_: int
    seed_: int
    x_scaler_: Scaler

    def __check_stored__(self) -> None:
        net, shape = self.fitted_network(), self.input_shape_
        if net.input_shape != shape or net.output_dim != self.output_dim_:
            raise ValueError(
                f"a network for inputs {net.input_shape} with {net.output_dim} outputs is that of a "
                f"model for {shape} with {self.output_dim_}."
            )
        self.x_scaler_.check(shape if len(shape) == 1 else (1,) * len(shape))

    def _n_targets(self) -> int:
        """How many targets the fitted model predicts."""
        return self.fitted_network().output_dim

    def _check_training_data(self, X: Any, y: Any, **y_options: Any) -> Any:
        """X and y as arrays, X in float64; images may have more than two dimensions."""
        _refuse_early("X", X)
        _refuse_early("y", y)
        try:
            inputs, targets = validate_data(self, X, y, **_OPTIONS, **y_options)
        except (ValueError, TypeError) as error:
            raise _naming(error, "X" if _is_bad(X) else "y") from None
        self.input_shape_ = _check_size(inputs).shape[1:]
        return inputs, _check_targets(targets, **y_options)

    def _weights(self, sample_weight: Any, n: int) -> tuple[NDArray[np.bool_], NDArray[Any] | None]:
        """Which of n rows have a weight above 0, and the weights of these; None if all are alike."""
        if sample_weight is None:
            return np.ones(n, bool), None
        weight = np.asarray(sample_weight, np.float64)
        weight = np.full(n, float(weight)) if weight.ndim == 0 else weight
        if weight.shape != (n,):
            raise ValueError(
                f"sample_weight must be one number for each of {n} rows; got shape {weight.shape}."
            )
        if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight):
            raise ValueError(
                "sample_weight must be finite numbers ≥ 0, not all zero, one for each row of X; got "
                f"numbers from {np.min(weight):g} to {np.max(weight):g}."
            )
        used = weight > 0
        return used, None if np.ptp(weight[used]) == 0 else weight[used] / np.mean(weight[used])

    def _standardise(
        self,
        X: NDArray[Any],
        train: NDArray[np.int64],
        sample_weight: NDArray[Any] | None = None,
    ) -> NDArray[np.float64]:
        """X on the scale of the training rows: a table column by column, images as a whole."""
        if not self._goes_on():
            weight = None if sample_weight is None else sample_weight[train]
            self.x_scaler_ = Scaler.of("X", X[train], X.ndim == 2, weight)
        return self.x_scaler_.apply("X", X)

    def _inputs(self, X: Any) -> NDArray[np.float64]:
        """New X on the scale of training, or an error that names X."""
        check_is_fitted(self)
        _refuse_early("X", X)
        try:
            array = validate_data(self, X, reset=False, **_OPTIONS)
        except (ValueError, TypeError) as error:
            raise _naming(error, "X") from None
        if array.shape[1:] != self.input_shape_:
            raise ValueError(
                f"X must have examples of shape {self.input_shape_}, as in fit; "
                f"got {array.shape[1:]}."
            )
        return self.x_scaler_.apply("X", array)

    def _start(self) -> np.random.Generator:
        if not self._goes_on():
            self.seed_ = seed_of(self.random_state)
        return np.random.default_rng(self.seed_)

    def _goes_on(self) -> bool:
        """Whether this fit adds to an earlier one."""
        return False

    def _sizes(self) -> dict[str, int]:
        """The sizes of the default network."""
        return {"depth": self.depth}

    def _candidates(self, output_dim: int) -> list[Network]:
        """The user's network, or the default ones for the activation."""
        self.output_dim_ = output_dim
        sizes = check_counts(**self._sizes())
        return candidates(self.network, self.input_shape_, output_dim, self.activation, sizes)


def _naming(error: ValueError | TypeError, name: str) -> Exception:
    """The error, with the argument's name in front if the message lacks it."""
    if _NAMED.search(str(error).partition("\n")[0]):
        return error
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name} cannot be used: {error}")


def _is_bad(X: Any) -> bool:
    try:
        check_array(X, **_OPTIONS)
    except (ValueError, TypeError):
        return True
    return False


def _refuse_early(name: str, values: Any) -> None:
    """Refuse what a plain array would lose or misname: masks, sparse tables, frames without columns."""
    if issparse(values):
        raise TypeError(f"{name} is sparse, and must be dense: use {name}.toarray().")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries. Impute or drop them.")
    if getattr(values, "dtype", None) is not None and np.asarray(values).dtype.kind == "S":
        raise TypeError(f"{name} has bytes. Decode them to strings: {name}.astype(str).")
    if not len(getattr(values, "columns", "unknown")):
        raise ValueError(f"{name} has no columns: 0 feature(s), and a minimum of 1 is required.")


def _check_size(X: NDArray[Any]) -> NDArray[Any]:
    if not X.size:
        raise ValueError(f"X has examples of shape {X.shape[1:]}, with no numbers in them.")
    return X


def _check_targets(y: Any, y_numeric: bool = False, **_: Any) -> NDArray[Any]:
    """y, or an error for what scikit-learn lets through: None or words among numbers."""
    if y_numeric and y.dtype.kind not in "fiub":
        raise ValueError(f"y must be numbers; got dtype {y.dtype}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y contains NaN, None or infinite values. Impute or drop those rows.")
    if not y_numeric and y.dtype.kind == "f" and float(np.abs(y).max()) > 2**53:
        raise ValueError("y has classes too large for whole numbers: name them by other values.")
    if y.dtype.kind == "O" and len({isinstance(value, str) for value in y.flat}) > 1:
        raise TypeError("y has strings and other values. Use one type for all classes.")
    return np.asarray(y)
