"""A model that is linear in its weights, conditioned on data, on the smaller of two sides.

The weights are w ~ N(0, s²I), and whitened targets are t = Ψ w + ε with ε ~ N(0, I). With n·c targets and
p weights the posterior covariance of w has two forms,

    (ΨᵀΨ + I/s²)⁻¹ = s² I - s² Ψᵀ (ΨΨᵀ + I/s²)⁻¹ Ψ,

one p x p ("in parameters"), one n·c x n·c ("in functions"). Ψ = LᵀΦ are the features of the training
inputs, weighted by a root L of each input's curvature H = L Lᵀ: I/σ² for noise of variance σ², and
diag(p) - ppᵀ for class probabilities p.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ntkgp.core.arrays import check_part
from ntkgp.core.memory import require
from ntkgp.core.storage import storable
from ntkgp.kernels.features import Features
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.laws.evidence import Spectrum

_TEST_BYTES = 2**29  # for the products between training inputs and one batch of test inputs


def forecast(features: Features, n: int) -> None:
    """Refuse what does not fit before it is computed."""
    c, p = features.outputs, features.count
    side = min(n * c, p)
    require(
        3 * 8 * side**2 + features.block_bytes(n),
        f"linearising a network of {p:,} parameters on {n:,} rows of {c} output{'s' * (c > 1)}",
        'Take fewer rows, rows=..., or the last layer alone, part="readout".',
    )


class Gram(NamedTuple):
    """ΨᵀΨ or ΨΨᵀ, whichever is smaller, with the targets on the same side."""

    matrix: NDArray[Any]
    in_parameters: bool
    right: NDArray[Any]
    """Ψᵀt (p,), or t (n·c,)."""
    square: float
    """tᵀt."""
    size: int
    """n·c, the number of targets."""

    @classmethod
    def of(
        cls, features: Features, x: NDArray[Any], root: NDArray[Any], targets: NDArray[Any]
    ) -> "Gram":
        """For inputs x, roots L (n, c, c) and whitened targets t (n, c)."""
        t = np.ravel(targets)
        square, size = float(t @ t), len(t)
        if features.count > size:
            kernel = features.gram(x)
            return cls(weighted(root, weighted(root, kernel).T), False, t, square, size)
        matrix, right = np.zeros((features.count, features.count)), np.zeros(features.count)
        for rows, phi in features.blocks(x):
            psi = weighted(root[rows], phi)
            matrix += psi.T @ psi
            right += psi.T @ np.ravel(targets[rows])
        return cls(matrix, True, right, square, size)

    def divided_by(self, noise_std: float) -> "Gram":
        """With Ψ/σ and t/σ in place of Ψ and t."""
        var = noise_std**2
        right = self.right / (var if self.in_parameters else noise_std)
        return self._replace(matrix=self.matrix / var, right=right, square=self.square / var)

    def spectrum(self) -> Spectrum:
        """t in the eigenvectors of ΨΨᵀ."""
        if not self.in_parameters:
            return Spectrum.of(self.matrix, self.right[:, None])
        eigenvalues, vectors = linalg.eigh(self.matrix)
        known = eigenvalues > len(eigenvalues) * np.finfo(float).eps * eigenvalues[-1]
        eigenvalues = np.where(known, eigenvalues, 0)
        squares = (vectors.T @ self.right) ** 2 / np.where(known, eigenvalues, np.inf)
        rest = max(self.square - float(np.sum(squares)), 0.0)
        counts = np.append(np.ones(len(squares)), self.size - len(squares))
        return Spectrum(np.append(eigenvalues, 0.0), np.append(squares, rest), counts)

    def eigenvalues(self) -> NDArray[Any]:
        """Those of ΨᵀΨ, without zeros that ΨΨᵀ has not."""
        return np.maximum(linalg.eigvalsh(self.matrix), 0)

    def factor(self, scale: float) -> NDArray[Any]:
        """The lower Cholesky factor of the matrix + I/s²."""
        shifted = self.matrix.copy()
        shifted[np.diag_indices_from(shifted)] += 1 / scale**2
        try:
            return linalg.cholesky(shifted, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefinite(
                f"the linearised network could not be conditioned at scale {scale:.3g}: {error}. "
                "Give a smaller scale or a larger noise_std."
            ) from None

    def log_det(self, factor: NDArray[Any], scale: float) -> float:
        """log det (I + s²ΨΨᵀ)."""
        return 2 * float(np.sum(np.log(np.diag(factor)))) + 2 * len(factor) * float(np.log(scale))

    def log_evidence(self, factor: NDArray[Any], scale: float) -> float:
        """log N(t; 0, I + s²ΨΨᵀ)."""
        half = linalg.solve_triangular(factor, self.right, lower=True)
        fit = self.square - half @ half if self.in_parameters else half @ half / scale**2
        return -0.5 * float(
            fit + self.log_det(factor, scale) + self.size * float(np.log(2 * np.pi))
        )


@storable
@dataclass(frozen=True, eq=False)
class Posterior:
    """w given the targets, by a Cholesky factor on either side."""

    factor: NDArray[Any]
    """Lower, of ΨᵀΨ + I/s² or ΨΨᵀ + I/s²."""
    solution: NDArray[Any]
    """E[w], (p,), or v with E[w] = Ψᵀv, (n·c,)."""
    scale: float
    """s."""
    x: NDArray[Any] | None = None
    """Training inputs, where the factor is in functions."""
    root: NDArray[Any] | None = None
    """L of each, (n, c, c)."""

    def __check_stored__(self) -> None:
        side = len(self.factor)
        check_part("the factor", self.factor, (side, side))
        check_part("the solution", self.solution, (side,))
        if (self.x is None) != (self.root is None) or not 0 < self.scale < float("inf"):
            raise ValueError("the posterior has not the parts that it needs.")
        if self.x is not None and self.root is not None:
            outputs = side // max(1, len(self.x))
            check_part("training inputs", self.x, self.x.shape)
            check_part("roots", self.root, (len(self.x), outputs, outputs))

    @classmethod
    def of(cls, gram: Gram, scale: float, x: NDArray[Any], root: NDArray[Any]) -> "Posterior":
        factor = gram.factor(scale)
        solution = linalg.cho_solve((factor, True), gram.right)
        return cls(factor, solution, scale, *(() if gram.in_parameters else (x, root)))

    def mean(self, features: Features, x: NDArray[Any]) -> NDArray[Any]:
        """Φ(x) E[w], (n·c,)."""
        if self.x is None or self.root is None:
            return np.concatenate([phi @ self.solution for _, phi in features.blocks(x)])
        halves = [self._psi_phi(features, x[rows]).T for rows in self._batches(features, len(x))]
        return np.concatenate([half @ self.solution for half in halves])

    def blocks(self, features: Features, x: NDArray[Any]) -> NDArray[Any]:
        """The covariance between the outputs at each x, (n, c, c)."""
        return np.concatenate(
            [
                self._blocks(features, x[rows], self._half(features, x[rows]))
                for rows in self._batches(features, len(x))
            ]
        )

    def covariance(self, features: Features, x: NDArray[Any]) -> NDArray[Any]:
        """Between all outputs at all x, (n·c, n·c)."""
        half = self._half(features, x)
        if self.x is None:
            return half.T @ half
        return self.scale**2 * (features.gram(x) - half.T @ half)

    def _blocks(self, features: Features, x: NDArray[Any], half: NDArray[Any]) -> NDArray[Any]:
        each = half.T.reshape(len(x), features.outputs, len(half))
        squares = each @ each.transpose(0, 2, 1)
        return squares if self.x is None else self.scale**2 * (features.own(x) - squares)

    def _half(self, features: Features, x: NDArray[Any]) -> NDArray[Any]:
        """The factor's inverse times Φᵀ or ΨΦᵀ, (side, n·c)."""
        if self.x is None:
            right = np.concatenate([phi for _, phi in features.blocks(x)]).T
        else:
            right = self._psi_phi(features, x)
        return linalg.solve_triangular(self.factor, right, lower=True)

    def _psi_phi(self, features: Features, x: NDArray[Any]) -> NDArray[Any]:
        """Ψ Φ(x)ᵀ, (n_train·c, n·c)."""
        assert self.x is not None
        assert self.root is not None
        return weighted(self.root, features.gram(self.x, x))

    def _batches(self, features: Features, n: int) -> list[slice]:
        at_once = max(1, _TEST_BYTES // (4 * 8 * features.outputs * len(self.factor)))
        return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]


def weighted(root: NDArray[Any], phi: NDArray[Any]) -> NDArray[Any]:
    """LᵀΦ of each input: roots (n, c, c) and rows (n·c, columns)."""
    each = phi.reshape(*root.shape[:2], phi.shape[1])
    return (root.transpose(0, 2, 1) @ each).reshape(phi.shape)
