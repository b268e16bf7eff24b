"""How close the members of an ensemble are to draws from a law.

K exact draws differ from their law too, by chance. So each measure comes with what it is for K draws
that are exact, simulated.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_counts

EXACT_ENSEMBLES = 200
"""How many ensembles of exact draws are simulated."""


@runtime_checkable
class Members(Protocol):
    """What has members, such as an `Ensemble`."""

    def outputs(self, x: ArrayLike) -> NDArray[Any]:
        """Each member's function at x, (k, n, c)."""


@runtime_checkable
class Process(Protocol):
    """What has a mean and a covariance, such as an `ExactLaw` of one target."""

    def mean(self, x: ArrayLike) -> NDArray[Any]:
        """(n, c)"""

    def covariance(self, x: ArrayLike) -> NDArray[Any]:
        """Of the function at x, the same for each of its c outputs, (n, n)."""


class Measure(NamedTuple):
    """One number about an ensemble, beside those of ensembles of exact draws."""

    value: float
    exact: NDArray[Any]
    """The same of each simulated ensemble."""

    @property
    def range(self) -> tuple[float, float]:
        """What 95 % of the ensembles of exact draws lie between."""
        low, high = np.quantile(self.exact, [0.025, 0.975])
        return float(low), float(high)

    @property
    def p_value(self) -> float:
        """The chance that exact draws lie as far out, on either side."""
        n = len(self.exact)
        above, below = np.sum(self.exact >= self.value), np.sum(self.exact <= self.value)
        return float(min(1.0, 2 * (1 + min(above, below)) / (n + 1)))

    def __str__(self) -> str:
        low, high = self.range
        return f"{self.value:.3g} (exact draws: {low:.3g} to {high:.3g}, p = {self.p_value:.2g})"


@dataclass(frozen=True, eq=False)
class Closeness:
    """An ensemble of K members beside its law, at n inputs. `compare` makes it."""

    members: int
    mean_error: Measure
    """Root mean square, over inputs, of (ensemble mean - law mean) in units of law std/√K; about 1 for
    exact draws."""
    std_ratio: Measure
    """Median, over inputs, of ensemble std / law std."""
    distance: Measure
    """2-Wasserstein distance between the normal with the members' mean and covariance, jointly over all
    inputs, and the law. Its unit is the root of the law's total variance."""
    law_mean: NDArray[Any] = field(repr=False)
    """(n, c), as all below: what a picture needs."""
    law_std: NDArray[Any] = field(repr=False)
    ensemble_mean: NDArray[Any] = field(repr=False)
    ensemble_std: NDArray[Any] = field(repr=False)

    def __str__(self) -> str:
        rows = ("mean_error", "std_ratio", "distance")
        titles = ("mean error in law std/√K", "std ratio", "joint distance")
        lines = [
            f"{title:26} {getattr(self, row)}" for row, title in zip(rows, titles, strict=True)
        ]
        return "\n".join([f"{self.members} members at {len(self.law_mean)} inputs", *lines])


def compare(
    ensemble: Members,
    law: Process,
    x: ArrayLike,
    *,
    exact_ensembles: int = EXACT_ENSEMBLES,
    seed: int = 0,
) -> Closeness:
    """How close an ensemble is to a law at inputs x, beside ensembles of as many exact draws.

    Args:
        ensemble: an `Ensemble`, or anything with its `outputs`.
        law: an `ExactLaw`, or anything with its `mean` and `covariance`.
        x: inputs (n, *input_shape). Work and memory grow with n³ and n².
        exact_ensembles: how many ensembles of exact draws to simulate.
        seed: of the simulation.

    >>> x = np.linspace(-1, 1, 6)[:, None]
    >>> net = ntkgp.mlp(1, width=512, depth=1)
    >>> ensemble = ntkgp.fit(net, x, x**2, method="ntkgp-lin", members=8, noise_std=0.1)
    >>> law = ntkgp.condition(net, x, x**2, noise_std=0.1)
    >>> found = ntkgp.compare(ensemble, law, [[-2.0], [0.0], [2.0]])
    >>> found.distance.p_value > 0.01  # as close as exact draws would be
    True
    """
    check_counts(least=20, exact_ensembles=exact_ensembles)
    outputs = np.asarray(ensemble.outputs(x), np.float64)
    if len(outputs) < 2:
        raise ValueError(f"an ensemble needs 2 members to have a spread; got {len(outputs)}.")
    mean = np.asarray(law.mean(x), np.float64)
    if outputs.shape[1:] != mean.shape:
        raise ValueError(
            "ensemble and law must have the same number of outputs; "
            f"got {outputs.shape[1:]} and {mean.shape}."
        )
    root = _root(np.asarray(law.covariance(x), np.float64))
    rng = np.random.default_rng(seed)
    exact = [
        _measures(np.einsum("ij,kjc->kic", root, rng.standard_normal(outputs.shape)), root)
        for _ in range(exact_ensembles)
    ]
    found = _measures(outputs - mean, root)
    error, ratio, distance = map(Measure, found, np.transpose(exact))
    return Closeness(
        len(outputs),
        error,
        ratio,
        distance,
        law_mean=mean,
        law_std=np.broadcast_to(_std(root)[:, None], mean.shape),
        ensemble_mean=outputs.mean(axis=0),
        ensemble_std=outputs.std(axis=0),
    )


def mean_error(mean: NDArray[Any], std: NDArray[Any], members: int) -> float:
    """Root mean square of a mean of members, less their law's, in units of its std/√K."""
    return float(np.sqrt(np.mean((mean / std) ** 2) * members))


def _measures(centred: NDArray[Any], root: NDArray[Any]) -> tuple[float, float, float]:
    """Mean error, std ratio and distance of members (k, n, c) from which the law's mean is taken."""
    std = _std(root)[:, None]
    mean = centred.mean(axis=0)
    ratio = float(np.median(centred.std(axis=0) / std))
    return mean_error(mean, std, len(centred)), ratio, _distance(centred, root)


def _distance(centred: NDArray[Any], root: NDArray[Any]) -> float:
    """The 2-Wasserstein distance of normals, over the root of the law's total variance.

    W² = ‖m‖² + tr S + tr A Aᵀ - 2 tr (S^½ A Aᵀ S^½)^½, where A Aᵀ is the members' covariance. The last
    trace is the sum of the singular values of S^½ A. Outputs are independent, so their W² add up.
    """
    mean = centred.mean(axis=0)
    deviations = np.moveaxis(centred - mean, 0, 1) / len(centred) ** 0.5  # A, (n, k, c)
    total = np.sum(root**2)
    cross = [
        np.sum(np.linalg.svd(root @ deviations[..., c], compute_uv=False))
        for c in range(mean.shape[1])
    ]
    squared = np.sum(mean**2) + np.sum(deviations**2) + total * mean.shape[1] - 2 * np.sum(cross)
    return float(np.sqrt(max(squared, 0.0) / (total * mean.shape[1])))


def _root(covariance: NDArray[Any]) -> NDArray[Any]:
    """S^½, symmetric; eigenvalues that rounding made negative count as 0."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _std(root: NDArray[Any]) -> NDArray[Any]:
    """The standard deviation at each input; the law must be unsure of all of them."""
    std = np.sqrt(np.sum(root**2, axis=1))
    if not np.all(std > 0):
        raise ValueError(
            f"the law is certain at {int(np.sum(std == 0))} of the {len(std)} inputs, so nothing can be "
            "measured in its standard deviations: leave those inputs out."
        )
    return std
