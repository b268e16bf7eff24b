"""How well a Gaussian process explains data, as a function of its covariance matrix, with gradients."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ntkgp.kernels.linalg import NotPositiveDefinite

Matrix = NDArray[np.floating[Any]]


class Score(NamedTuple):
    """A log-likelihood of y, and its gradient in the entries of the covariance matrix A."""

    value: float
    gradient: Matrix
    """(n, n), symmetric: the value changes by Σ_ij gradient_ij dA_ij."""


Objective = Callable[[Matrix, Matrix], Score]
"""A score of the covariance A (n, n) of observations y (n, c), whose columns are independent."""


def marginal_likelihood(a: Matrix, y: Matrix) -> Score:
    """log N(y; 0, A), summed over the columns of y.

    With α = A⁻¹y its gradient is ½(ααᵀ - c A⁻¹) (Rasmussen & Williams, 2006, Eq. 5.9).
    """
    (n, c), factor = y.shape, _factor(a)
    alpha = linalg.cho_solve((factor, True), y)
    log_det = 2 * np.sum(np.log(np.diag(factor)))
    value = -0.5 * (np.sum(y * alpha) + c * log_det + n * c * np.log(2 * np.pi))
    return Score(float(value), 0.5 * (alpha @ alpha.T - c * _inverse(factor)))


def leave_one_out(a: Matrix, y: Matrix) -> Score:
    """Σ_i log p(y_i | all other rows), summed over the columns of y.

    With B = A⁻¹ and α = By, row i is N(y_i - α_i/B_ii, 1/B_ii) given the others (Rasmussen &
    Williams, 2006, Eq. 5.12), so the value is ½ Σ_i (log B_ii - α_i²/B_ii - log 2π). It changes by
    Σ_i p_i dB_ii + q_i dα_i, where dB = -B dA B and dα = -B dA α.
    """
    factor = _factor(a)
    alpha = linalg.cho_solve((factor, True), y)
    b = _inverse(factor)
    precision = np.diag(b)[:, None]
    value = 0.5 * np.sum(np.log(precision) - alpha**2 / precision - np.log(2 * np.pi))
    p = np.sum(0.5 / precision + 0.5 * alpha**2 / precision**2, axis=1)
    q = -alpha / precision
    mixed = (b @ q) @ alpha.T
    return Score(float(value), -(b * p) @ b - 0.5 * (mixed + mixed.T))


OBJECTIVES: dict[str, Objective] = {
    "marginal-likelihood": marginal_likelihood,
    "leave-one-out": leave_one_out,
}


def _factor(a: Matrix) -> Matrix:
    """Cholesky's factor L, A = L Lᵀ."""
    factor, failed = linalg.lapack.dpotrf(a, lower=1, clean=1)
    if failed:
        raise NotPositiveDefinite(
            "the covariance of the observations is not positive definite: the noise is too small for "
            "so many inputs so close together."
        )
    return np.asarray(factor)


def _inverse(factor: Matrix) -> Matrix:
    """A⁻¹."""
    lower, _ = linalg.lapack.dpotri(factor, lower=1)
    return np.asarray(lower + np.tril(lower, -1).T)
