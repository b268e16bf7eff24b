"""What all four estimators share: checking and standardising X, choosing a network, tags."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ntkgp.estimators.preparation import Scaler, candidates, seed_of
from ntkgp.networks import Network


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator on standardised inputs, with a network that is given or chosen."""

    network: Any
    activation: str
    depth: int
    random_state: Any

    def _check_training_data(self, X: ArrayLike, y: ArrayLike, **y_options: Any) -> Any:
        """X and y as arrays, X in float64; images may have more than two dimensions."""
        return validate_data(self, X, y, dtype=np.float64, allow_nd=True, **y_options)

    def _standardise(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Learn the scale of X, each column's by itself for a table, one for all pixels of images."""
        self.x_scaler_ = Scaler.of("X", X, by_column=X.ndim == 2)
        self.input_shape_ = X.shape[1:]
        return self.x_scaler_.apply("X", X)

    def _inputs(self, X: ArrayLike) -> NDArray[np.float64]:
        """New X on the scale of training, or an error in words."""
        check_is_fitted(self)
        array = validate_data(self, X, dtype=np.float64, allow_nd=True, reset=False)
        if array.shape[1:] != self.input_shape_:
            raise ValueError(
                f"X must have examples of shape {self.input_shape_}, as in fit; "
                f"got {array.shape[1:]}."
            )
        return self.x_scaler_.apply("X", array)

    def _start(self) -> np.random.Generator:
        self.seed_ = seed_of(self.random_state)
        return np.random.default_rng(self.seed_)

    def _sizes(self) -> dict[str, int]:
        """Those of the default network that the estimator has."""
        sizes = {name: getattr(self, name) for name in ("width", "depth") if hasattr(self, name)}
        for name, value in sizes.items():
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1; got {value!r}.")
        return sizes

    def _candidates(self, output_dim: int) -> list[Network]:
        """The user's network, or the default ones of the activation."""
        self.output_dim_ = output_dim
        return candidates(
            self.network, self.input_shape_, output_dim, self.activation, self._sizes()
        )

    def fitted_network(self) -> Network:
        """The network that was trained, or whose law was computed."""
        raise NotImplementedError

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the fitted model into a directory, for `ntkgp.load`: safetensors and JSON."""
        from ntkgp.estimators.files import save

        save(self, directory)
