"""Linear algebra whose errors say what to do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Matrix = NDArray[np.floating[Any]]


class NotPositiveDefinite(np.linalg.LinAlgError):
    """A covariance matrix could not be factorised."""


def sample_gaussian(
    cov: Matrix, n_samples: int, n_outputs: int, rng: np.random.Generator
) -> Matrix:
    """Draws of N(0, cov), independent between outputs: (n_samples, n, n_outputs).

    By eigenvalues, because a law's covariance is singular where the data leave no doubt. Eigenvalues
    that rounding made negative count as zero.
    """
    values, vectors = linalg.eigh(cov)
    worst, scale = values[0], max(values[-1], 0.0)
    if worst < -1e-6 * scale - 1e-12:
        raise NotPositiveDefinite(
            f"cannot sample: the covariance has an eigenvalue of {worst:.2g} beside a largest one of "
            f"{scale:.2g}, more than rounding explains. Add jitter to the law."
        )
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.einsum("ij,sjc->sic", root, rng.standard_normal((n_samples, len(cov), n_outputs)))
