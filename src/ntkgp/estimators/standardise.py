"""The one standardiser: between the user's units and the network's."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ntkgp.core.arrays import check_part
from ntkgp.core.storage import storable
from ntkgp.core.typing import Shape

FAR = 1e6
"""Beyond so many training standard deviations from the mean, squares overflow float32."""


@storable
class Scaler(NamedTuple):
    """values = mean + std · standardised.

    >>> scaler = Scaler.of("X", np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> scaler.apply("X", np.array([[1.0, 5.0]]))
    array([[-1.,  0.]])
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        name: str,
        values: NDArray[Any],
        by_column: bool = True,
        sample_weight: NDArray[Any] | None = None,
    ) -> "Scaler":
        """Mean and standard deviation of each column, or of all values together; rows may have weights.

        A constant column gets its own magnitude for a standard deviation, and 1 if it is zero.
        """
        axis = 0 if by_column else None
        size = np.max(np.abs(values), axis=axis, keepdims=True).astype(np.float64)
        if np.max(size) > 1e100:
            raise ValueError(
                f"{name} has values up to {np.max(size):.1g}, whose squares overflow. Rescale it."
            )
        if np.any((size > 0) & (size < 1e-100)):
            raise ValueError(
                f"{name} has values of {np.min(size[size > 0]):.1g} at the most, whose squares "
                "vanish. Rescale it."
            )
        unit = np.where(size > 0, size, 1.0)
        mean = np.asarray(np.mean(values, axis=axis, keepdims=True, dtype=np.float64))
        std = np.asarray(np.std(values, axis=axis, keepdims=True, dtype=np.float64))
        if sample_weight is not None:
            share = sample_weight.reshape(-1, *[1] * (values.ndim - 1)) / np.mean(sample_weight)
            mean = np.asarray(np.mean(share * values, axis=axis, keepdims=True))
            std = np.sqrt(np.asarray(np.mean(share * (values - mean) ** 2, axis, keepdims=True)))
        constant = std <= 1e-12 * unit
        return cls(mean[0], np.where(constant, unit, std)[0])

    def check(self, shape: Shape) -> None:
        """Refuse what is no scaler of values of this shape."""
        check_part("the mean of a scaler", self.mean, shape)
        check_part("the standard deviation of a scaler", self.std, shape, above=0.0)

    def apply(self, name: str, values: NDArray[Any], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Values in the network's units, or an error if one is absurdly far from the training values."""
        with np.errstate(over="ignore"):
            scaled = (values - self.mean.astype(dtype)) / self.std.astype(dtype)
        far = np.abs(scaled) > FAR
        if far.any():
            row = int(np.argwhere(far.reshape(len(far), -1).any(axis=1))[0, 0])
            raise ValueError(
                f"{name} has a value more than {FAR:g} training standard deviations from the "
                f"training mean, first in row {row}. Check its units, or clip it."
            )
        return np.asarray(scaled, dtype)

    def undo(self, standardised: NDArray[Any]) -> NDArray[Any]:
        """Standardised values back in the user's units."""
        return self.mean + self.std * standardised

    def stretched(self, factor: float) -> "Scaler":
        """The same with a unit `factor` times as large."""
        return Scaler(self.mean, factor * self.std)
