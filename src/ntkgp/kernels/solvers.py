"""Ways to invert a training kernel: exactly, in float32 with refinement, or by iteration."""

import os
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ntkgp.core.arrays import check_part
from ntkgp.core.cluster import Ray
from ntkgp.core.memory import gib, require
from ntkgp.core.progress import progress_bar
from ntkgp.core.storage import storable
from ntkgp.kernels import panels as packed
from ntkgp.kernels.kept import kept_cholesky
from ntkgp.kernels.linalg import Matrix, NotPositiveDefinite
from ntkgp.kernels.panels import Panels
from ntkgp.kernels.spread import SpreadKernel
from ntkgp.kernels.training_kernel import TrainingKernel


@runtime_checkable
class Inverse(Protocol):
    """(T + shift·I)⁻¹ in some form.

    Right-hand sides B are (n, t), in float64, and must not be changed.
    """

    def solve(self, right: Matrix) -> Matrix:
        """(T + shift·I)⁻¹ B."""

    def quadratic(self, right: Matrix, diagonal: bool = False) -> Matrix:
        """Bᵀ (T + shift·I)⁻¹ B, (t, t), or its diagonal only."""

    def log_det(self) -> float:
        """log det (T + shift·I), for the marginal likelihood."""


@runtime_checkable
class Solver(Protocol):
    """A way to make an inverse. Any object with these two methods is one.

    A law can be saved if the class of its inverse is `ntkgp.storable`.
    """

    def __call__(self, kernel: TrainingKernel, progress: bool) -> Inverse:
        """The inverse of a training kernel, with a progress bar if one is asked for."""

    def bytes_needed(self, n: int) -> int:
        """Memory to invert an n x n matrix, without the inputs."""


class NotConverged(ArithmeticError):
    """An iteration reached its limit of steps before its tolerance."""


@storable
@dataclass(frozen=True)
class Cholesky:
    """Exact: a Cholesky factor in float64, in the place of the lower triangle.

    It takes 4 n² bytes and n³/3 operations, then n² operations for the variance of each prediction.

    Args:
        directory: keeps the factor in a file there, for matrices that do not fit into memory. If the
            process ends before the factor is complete, the panels that are done stay there, and the
            same law goes on from them.
    """

    directory: str | os.PathLike[str] | None = None

    def bytes_needed(self, n: int) -> int:
        return 0 if self.directory is not None else 8 * packed.n_entries(n)

    def __call__(self, kernel: TrainingKernel, progress: bool) -> "CholeskyInverse":
        what = f"the {kernel.which} matrix of the training inputs"
        if self.directory is None:
            room = Panels.empty(len(kernel), np.float64)
            return CholeskyInverse(packed.cholesky(room, kernel.fill, what, progress))
        return CholeskyInverse(kept_cholesky(kernel, self.directory, what, progress))


@storable
@dataclass(frozen=True)
class Refined:
    """Half the memory and half the time of `Cholesky`: a factor in float32, refined in float64.

    The factor preconditions conjugate gradients on the kernel itself in float64; each step
    computes the kernel again. It takes 2 n² bytes, n³/3 operations in float32, and a few kernel
    matrices for each block of right-hand sides.

    Args:
        tolerance: the largest ‖(T + shift·I) v - b‖ / ‖b‖ of any solution.
        max_steps: the limit on the steps of conjugate gradients.
    """

    tolerance: float = 1e-9
    max_steps: int = 200

    def bytes_needed(self, n: int) -> int:
        return 4 * packed.n_entries(n)

    def __call__(self, kernel: TrainingKernel, progress: bool) -> "IterativeInverse":
        n, single = len(kernel), np.finfo(np.float32)
        # Rounding in float32 must not make the preconditioner indefinite.
        least = 4 * float(single.eps) * float(np.sum(kernel.diagonal()))
        rounded = TrainingKernel(
            kernel.net, kernel.x.astype(np.float32), kernel.which, np.maximum(kernel.shift, least)
        )
        what = f"the {kernel.which} matrix of the training inputs"
        factor = packed.cholesky(Panels.empty(n, np.float32), rounded.fill, what, progress)
        return IterativeInverse(kernel, CholeskyInverse(factor), self.tolerance, self.max_steps)


@storable
@dataclass(frozen=True)
class ConjugateGradients:
    """For any n that time allows: it stores no matrix, and each step computes the kernel once.

    It takes 3 n x `rank` numbers of memory. The preconditioner is the Nyström approximation
    F Fᵀ + s I by `rank` training inputs drawn at random. s is the shift, plus the mean of what the
    approximation leaves out of the diagonal.

    Args:
        rank: the rank of the preconditioner; a larger one takes fewer steps.
        tolerance: the largest ‖(T + shift·I) v - b‖ / ‖b‖ of any solution.
        max_steps: the limit on the steps.
        directory: keeps the kernel matrix in a file there, 4 n² bytes, so that it is computed once.
        backend: a cluster that computes the products with the kernel matrix, block by block.
    """

    rank: int = 1000
    tolerance: float = 1e-6
    max_steps: int = 500
    directory: str | os.PathLike[str] | None = None
    backend: Ray | None = None

    def bytes_needed(self, n: int) -> int:
        return 8 * 3 * n * min(self.rank, n)

    def __call__(self, kernel: TrainingKernel, progress: bool) -> "IterativeInverse":
        matrix: TrainingKernel | SpreadKernel | Panels = kernel
        if self.backend is not None:
            matrix = SpreadKernel(kernel, self.backend)
        elif self.directory is not None:
            matrix = Panels.empty(len(kernel), np.float64, self.directory)
            with progress_bar(len(kernel), "kernel matrix", progress) as bar:
                for panel in matrix:
                    kernel.fill(panel)
                    bar.update(panel.stop - panel.start)
        preconditioner = _nystrom(kernel, min(self.rank, len(kernel)))
        return IterativeInverse(matrix, preconditioner, self.tolerance, self.max_steps)


@storable
@dataclass(frozen=True, eq=False)
class CholeskyInverse:
    """By the Cholesky factor L of T + shift·I = L Lᵀ."""

    factor: Panels

    def __len__(self) -> int:
        return len(self.factor)

    def _copied(self, right: Matrix) -> Matrix:
        return np.array(right, self.factor.entries.dtype, order="C")

    def solve(self, right: Matrix) -> Matrix:
        return self.factor.solve_upper(self.factor.solve_lower(self._copied(right)))

    def quadratic(self, right: Matrix, diagonal: bool = False) -> Matrix:
        half = self.factor.solve_lower(self._copied(right))
        return np.einsum("ni,ni->i", half, half) if diagonal else half.T @ half

    def log_det(self) -> float:
        return 2 * float(np.sum(np.log(self.factor.diagonal())))


@storable
@dataclass(frozen=True, eq=False)
class NystromInverse:
    """(F Fᵀ + S)⁻¹ = S⁻¹ - S⁻¹ F (I + Fᵀ S⁻¹ F)⁻¹ Fᵀ S⁻¹, with S = diag(shift)."""

    features: NDArray[Any]
    """F, (n, rank)."""
    small_factor: NDArray[Any]
    """Cholesky factor of I + Fᵀ S⁻¹ F."""
    shift: NDArray[Any]
    """(n, 1)"""

    def __len__(self) -> int:
        return len(self.features)

    def __check_stored__(self) -> None:
        rank = len(self.small_factor)
        check_part("features", self.features, (len(self), rank))
        check_part("the factor of features", self.small_factor, (rank, rank))
        check_part("shifts", self.shift, (len(self), 1), above=0.0)

    def solve(self, right: Matrix) -> Matrix:
        scaled = right / self.shift
        inner = linalg.cho_solve((self.small_factor, True), self.features.T @ scaled)
        return scaled - (self.features @ inner) / self.shift


def _nystrom(kernel: TrainingKernel, rank: int) -> NystromInverse:
    if not np.min(kernel.shift) > 0:
        raise ValueError("ConjugateGradients needs noise_std or jitter above 0; got 0 for both.")
    rows = np.random.default_rng(0).choice(len(kernel), rank, replace=False)
    columns = kernel.columns(rows)
    own = columns[rows]
    own[np.diag_indices(rank)] += 1e-8 * np.trace(own)  # inputs may coincide
    try:
        root = linalg.cholesky((own + own.T) / 2, lower=True)
    except linalg.LinAlgError:
        raise NotPositiveDefinite(
            f"the {kernel.which} matrix of {rank} training inputs, which the preconditioner takes, is "
            "singular. Give a smaller rank, or drop rows that stand twice."
        ) from None
    features = linalg.solve_triangular(root, columns.T, lower=True).T
    left_out = kernel.diagonal() - kernel.shift - np.sum(features**2, axis=1)
    shifts = np.broadcast_to(kernel.shift, len(kernel)) + max(float(np.mean(left_out)), 0.0)
    gram = np.eye(rank) + features.T @ (features / shifts[:, None])
    return NystromInverse(features, linalg.cholesky(gram, lower=True), shifts[:, None])


@storable
@dataclass(frozen=True, eq=False)
class IterativeInverse:
    """By preconditioned conjugate gradients on all right-hand sides together."""

    matrix: TrainingKernel | SpreadKernel | Panels
    preconditioner: CholeskyInverse | NystromInverse
    tolerance: float
    max_steps: int

    def __len__(self) -> int:
        return len(self.matrix)

    def __check_stored__(self) -> None:
        if len(self.matrix) != len(self.preconditioner):
            raise ValueError(
                f"a matrix of {len(self.matrix)} rows has a preconditioner of "
                f"{len(self.preconditioner)}."
            )

    def solve(self, right: Matrix) -> Matrix:
        solution = np.zeros_like(right)
        size = np.linalg.norm(right, axis=0)
        steps = 0
        while True:  # restart until the true residual is as small as the running one claims
            residual = right - self.matrix.times(solution) if steps else right.copy()
            found = np.linalg.norm(residual, axis=0)
            open_columns = ~(found <= self.tolerance * size)  # NaN is open
            if not open_columns.any():
                return solution
            if steps >= self.max_steps or not np.isfinite(found).all():
                worst = np.max(found[open_columns] / size[open_columns])
                raise NotConverged(
                    f"conjugate gradients reached {steps} steps with a relative residual of "
                    f"{worst:.1g}, above the tolerance of {self.tolerance:g}. Give a larger "
                    "max_steps or rank, a larger noise_std, or a larger tolerance; or drop rows that "
                    "stand twice."
                )
            correction, taken = self._descend(residual[:, open_columns], size[open_columns], steps)
            solution[:, open_columns] += correction
            steps += taken

    def _descend(self, residual: Matrix, size: Matrix, steps: int) -> tuple[Matrix, int]:
        """Conjugate gradients until the running residuals are below tolerance · size."""
        solution = np.zeros_like(residual)
        direction, old = np.zeros_like(residual), np.ones(residual.shape[1])
        for step in range(self.max_steps - steps):
            z = self.preconditioner.solve(residual).astype(np.float64)
            new = np.sum(residual * z, axis=0)
            direction = z + (new / old) * direction if step else z
            product = self.matrix.times(direction)
            curvature = np.sum(direction * product, axis=0)
            # A nearly singular matrix has curvatures that rounding made 0 or less: these columns stop.
            goes_on = (curvature > np.finfo(float).tiny) & (new > 0)
            length = np.divide(new, curvature, out=np.zeros_like(new), where=goes_on)
            solution += length * direction
            residual = residual - length * product
            old = np.maximum(new, np.finfo(float).tiny)
            done = np.linalg.norm(residual, axis=0) <= 0.5 * self.tolerance * size
            if np.all(done | ~goes_on):
                return solution, step + 1
        return solution, self.max_steps - steps

    def quadratic(self, right: Matrix, diagonal: bool = False) -> Matrix:
        solution = self.solve(right)
        if diagonal:
            return np.einsum("ni,ni->i", right, solution)
        product = right.T @ solution
        return (product + product.T) / 2

    def log_det(self) -> float:
        raise ValueError(
            "an iterative solution has no determinant, so no marginal likelihood: use Cholesky()."
        )


def check_memory(solver: Solver, n: int, other_bytes: int) -> None:
    """Refuse what does not fit before it starts, and say what would fit."""
    others: dict[str, Solver] = {
        "solver=Refined()": Refined(),
        "solver=ConjugateGradients()": ConjugateGradients(),
        "solver=Cholesky(directory=...), on a disk,": Cholesky("."),
    }
    costs = (f"{name} {gib(other.bytes_needed(n) + other_bytes)}" for name, other in others.items())
    require(
        solver.bytes_needed(n) + other_bytes,
        f"the exact law of {n:,} training inputs",
        f"Instead, {'; '.join(costs)}; or condition on fewer inputs.",
    )
