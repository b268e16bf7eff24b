"""How sure the data are of a prior: Laplace's approximation of its scales' posterior."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_counts, check_part
from ntkgp.core.compilation import before_compiling
from ntkgp.core.storage import storable
from ntkgp.core.threads import one_blas_thread
from ntkgp.laws.hyperparameters import Hyperparameters, LogNormal
from ntkgp.laws.prior import LearnedPrior, Sample, Search, space_of
from ntkgp.laws.table import Law
from ntkgp.networks.layered import LayeredNetwork

VARIED = ("input_scale", "readout.w_std", "readout.b_std")
"""Scales that members may differ in and train alike: the relevance of columns, the function's scale."""

_STEP = 1e-3
"""Of finite differences in the logarithms of scales."""


@storable
@dataclass(frozen=True, eq=False)
class UncertainPrior:
    """The logarithms of a network's scales, normal about those that were learned.

    One learned prior is overconfident where data do not determine it, and that shows under shift. So
    the members of an ensemble may each have a draw.
    """

    net: LayeredNetwork
    """With the scales that were learned, the mean."""
    root: NDArray[Any] = field(repr=False)
    """(scales, free scales): a root of the covariance."""
    low: NDArray[Any] = field(repr=False)
    high: NDArray[Any] = field(repr=False)
    """(scales,): the bounds that draws are kept within."""

    def __check_stored__(self) -> None:
        scales = len(Hyperparameters(self.net, 1.0, {}).start) - 1
        check_part("roots", self.root, (scales, *self.root.shape[1:2]))
        for name in ("low", "high"):
            check_part(name, getattr(self, name), (scales,))

    def draw(
        self, members: int | np.integer[Any] | Iterable[int], seed: int = 0
    ) -> list[LayeredNetwork]:
        """The networks of so many members, or of those with these indices.

        That of member i is a function of (seed, i) alone.
        """
        space = Hyperparameters(self.net, 1.0, {})
        indices = range(members) if isinstance(members, (int, np.integer)) else members
        return [space.at(self._logs(space.start, seed, index))[0] for index in indices]

    def _logs(self, mean: NDArray[Any], seed: int, index: int) -> NDArray[Any]:
        z = np.random.default_rng([seed, index]).standard_normal(self.root.shape[1])
        logs = np.clip(mean[:-1] + self.root @ z, self.low, self.high)
        return np.append(logs, mean[-1])


def uncertain_prior(
    learned: LearnedPrior,
    x: ArrayLike,
    y: ArrayLike,
    *,
    law: str | Law = "ntkgp",
    vary: Collection[str] = VARIED,
    priors: Mapping[str, LogNormal | None] | None = None,
    sample_weight: ArrayLike | None = None,
    rows: int = 1000,
    seed: int = 0,
) -> UncertainPrior:
    """The posterior of some of a learned prior's scales, given all others, by Laplace's approximation.

    The covariance of their logarithms is the inverse Hessian of the objective that they maximise, by
    differences of its gradient: one evaluation for each scale. In no direction is it wider than the
    scales' own priors.

    Args:
        learned: what `fit_prior` found.
        vary: the names in `PRIORS` of the scales that are uncertain. The scales of hidden layers are
            not by default: a draw of them may be one that no finite network can be trained with.
        x, y, law, priors, sample_weight, rows, seed: as they were given to `fit_prior`.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 2))
    >>> y = np.sin(3 * x[:, 0])
    >>> learned = ntkgp.fit_prior(ntkgp.mlp(2, width=64, depth=1, b_std=0.5), x, y, max_steps=20)
    >>> nets = uncertain_prior(learned, x, y).draw(members=3)
    >>> ensemble = ntkgp.fit(learned.net, x, y, members=3, member_nets=nets)
    """
    before_compiling()
    check_counts(rows=rows)
    space = space_of(learned.net, learned.noise_std, priors)
    given = {kind: None for kind in space.kinds if kind not in vary}
    space = replace(space, priors={**space.priors, **given})
    every_row = Sample.of(learned.net, x, y, sample_weight)
    sample = every_row.drawn(rows, np.random.default_rng(seed))
    search = Search.of(space, law, learned.objective, sample)
    belief = space.belief
    free = np.flatnonzero(belief.low[:-1] < belief.high[:-1])
    spread = belief.spread[free]
    with one_blas_thread():
        hessian = _hessian(search, free)
    curvature, vectors = np.linalg.eigh(spread * hessian * spread[:, None])
    root = np.zeros((len(belief.low) - 1, len(free)))
    root[free] = spread[:, None] * vectors / np.sqrt(np.maximum(curvature, 1.0))
    return UncertainPrior(learned.net, root, belief.low[:-1], belief.high[:-1])


def _hessian(search: Search, free: NDArray[Any]) -> NDArray[Any]:
    """Of the loss, in the logarithms of these scales."""
    start = search.space.start
    _, here = search.loss(start, search.sample)
    steps = _STEP * np.eye(len(start))[free]
    slopes = [search.loss(start + step, search.sample)[1] for step in steps]
    hessian = (np.array(slopes) - here)[:, free] / _STEP
    return (hessian + hessian.T) / 2
