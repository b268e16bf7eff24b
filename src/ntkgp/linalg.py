"""Linear algebra that fails in words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Matrix = NDArray[np.floating[Any]]


class NotPositiveDefinite(np.linalg.LinAlgError):
    """A covariance matrix could not be factorised."""


def cholesky(matrix: Matrix, what: str) -> Matrix:
    """The lower factor L of matrix = L Lᵀ, or NotPositiveDefinite. `what` names it in the message."""
    if not np.isfinite(matrix).all():
        raise NotPositiveDefinite(
            f"{what} has NaN or infinite entries: its inputs are too large, or a kernel overflowed. "
            "Standardise the inputs."
        )
    try:
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
    except linalg.LinAlgError:
        raise NotPositiveDefinite(_diagnosis(matrix, what)) from None
    pivots = np.diag(factor) ** 2
    if pivots.min() < len(matrix) * np.finfo(matrix.dtype).eps * np.diag(matrix).max():
        raise NotPositiveDefinite(_diagnosis(matrix, what))  # it passed by the luck of rounding
    return factor


def _diagnosis(matrix: Matrix, what: str) -> str:
    smallest = float(linalg.eigvalsh(matrix, subset_by_index=(0, 0))[0])
    scale = float(np.mean(np.diag(matrix)))
    enough = max(-2 * smallest, 1e-10 * scale)  # beyond rounding, which is 1e-16 · n · scale
    return (
        f"{what} ({len(matrix)}x{len(matrix)}) is not positive definite in {matrix.dtype}: its "
        f"smallest eigenvalue is {smallest:.2g}, its mean diagonal {scale:.2g}. Inputs that coincide "
        "or nearly so do this where there is no noise: give a positive noise_std, remove "
        f"duplicated inputs, or add jitter={enough:.1g} or more."
    )


def solve_lower(factor: Matrix, right: Matrix) -> Matrix:
    """L⁻¹ B."""
    return linalg.solve_triangular(factor, right, lower=True, check_finite=False)


def solve_upper(factor: Matrix, right: Matrix) -> Matrix:
    """L⁻ᵀ B."""
    return linalg.solve_triangular(factor, right, lower=True, trans="T", check_finite=False)


def solve(factor: Matrix, right: Matrix) -> Matrix:
    """(L Lᵀ)⁻¹ B."""
    return linalg.cho_solve((factor, True), right, check_finite=False)


def sample_gaussian(
    cov: Matrix, n_samples: int, n_outputs: int, rng: np.random.Generator
) -> Matrix:
    """Draws of N(0, cov), independent between outputs: (n_samples, n, n_outputs).

    By eigenvalues, those below zero by rounding counted as zero, because the covariance of a
    posterior is singular wherever the data leave no doubt.
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
