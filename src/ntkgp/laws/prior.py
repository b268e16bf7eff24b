"""A prior learned from the data: the scales of a network, and the noise, that explain them best."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from ntkgp.core.arrays import check_counts, check_inputs, check_number, check_weights
from ntkgp.core.compilation import before_compiling
from ntkgp.core.progress import progress_bar
from ntkgp.core.storage import storable
from ntkgp.core.threads import one_blas_thread
from ntkgp.kernels.gradients import kernel_gradient
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.kernels.matrices import Which, kernel_matrix
from ntkgp.laws.exact import check_targets
from ntkgp.laws.hyperparameters import PRIORS, Hyperparameters, LogNormal
from ntkgp.laws.objectives import OBJECTIVES, Objective, Score
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.protocol import Network

_FAILED = 1e30
"""What the search is told where the covariance cannot be factorised."""
_FIRST_ROWS = 250
_FIRST_STEPS = 20
"""How far each start goes, on how many rows, before the best goes on with all."""
_MORE_NOISE = 3.0
"""The step in which σ is raised before a search goes on with other rows."""


@storable
@dataclass(frozen=True)
class LearnedPrior:
    """A network whose scales were learned, and the noise that goes with them."""

    net: LayeredNetwork
    noise_std: float
    """σ, in the units of y."""
    objective: str
    value: float
    """The objective on the rows that it was computed on."""
    rows: int
    """How many those are."""
    steps: int
    """Evaluations of the objective and its gradient; with `start`, those since."""
    converged: bool
    """Whether the search ended in an optimum, not at its limit of steps."""
    scales: dict[str, float] = field(repr=False)
    """Every hyper-parameter by its name."""
    at_bounds: tuple[str, ...] = field(repr=False)
    """The names of those that ended at a bound of their prior."""


class Sample(NamedTuple):
    """The rows that the objective is computed on."""

    x: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[Any]
    """w_n: row n has noise variance σ²/w_n."""

    @classmethod
    def of(
        cls, net: LayeredNetwork, x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> "Sample":
        inputs = check_inputs("x", x, net.input_shape, np.float64)
        targets = check_targets(y, len(inputs))
        weight = check_weights(sample_weight, len(inputs))
        return cls(inputs, targets, np.ones(len(inputs)) if weight is None else weight)

    def drawn(self, n: int, rng: np.random.Generator) -> "Sample":
        """So many rows at random, or all."""
        rows = rng.permutation(len(self.x))[:n]
        return Sample(self.x[rows], self.y[rows], self.weight[rows])

    def first(self, n: int) -> "Sample":
        return Sample(self.x[:n], self.y[:n], self.weight[:n])


def fit_prior(
    net: Network,
    x: ArrayLike,
    y: ArrayLike,
    *,
    law: str | Law = "ntkgp",
    objective: str = "marginal-likelihood",
    noise_std: float | None = None,
    sample_weight: ArrayLike | None = None,
    relevance: bool = True,
    priors: Mapping[str, LogNormal | None] | None = None,
    start: LearnedPrior | None = None,
    restarts: int = 1,
    rows: int = 1000,
    max_steps: int = 60,
    seed: int = 0,
    progress: bool = False,
) -> LearnedPrior:
    """Learn the scales of a network and its noise from data, by L-BFGS.

    What is learned are a factor for each input column (automatic relevance determination), w_std and
    b_std of every layer, and σ. The readout's scales are the scale of the function. Depth and
    activation are compared by the values of what this returns.

    Args:
        net: a network made of layers. Its own scales are where the search starts, and the medians of
            their priors.
        x: inputs (n, *input_shape), standardised.
        y: targets (n, c), or (n,) for one, standardised.
        law: a name in `LAWS`, or a `Law`: its trained kernel is the covariance.
        objective: "marginal-likelihood", or "leave-one-out" for the log-likelihood of each row
            given all others.
        noise_std: σ, if it is known; else it is learned.
        sample_weight: w_n > 0 of each row, (n,): its noise variance is σ²/w_n.
        relevance: whether to learn a factor for each input column or channel.
        priors: those that are to replace `PRIORS`, by name; None for a name fixes that kind.
        start: what was learned of this network before, on fewer rows say: the search goes on from there,
            without restarts. The priors of the scales stay about those of the network.
        restarts: further starts, drawn from the priors. All starts go a few steps on few rows,
            and the best goes on.
        rows: the most rows to compute the objective on, drawn at random: each step costs their
            number cubed.
        max_steps: the limit of steps.
        seed: draws the rows and the restarts.
        progress: show a progress bar.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 2))
    >>> learned = fit_prior(ntkgp.mlp(2, b_std=0.5), x, np.sin(3 * x[:, 0]), max_steps=20)
    >>> relevant, irrelevant = learned.net.input_scale
    >>> relevant > 10 * irrelevant
    True
    """
    before_compiling()
    net = require_layers(net)
    check_counts(rows=rows, max_steps=max_steps)
    check_counts(least=0, restarts=restarts)
    if relevance and net.input_scale is None:
        net = net.scaled_by([1.0] * net.input_shape[-1])
    space = space_of(net, noise_std, priors)
    rng = np.random.default_rng(seed)
    sample = Sample.of(net, x, y, sample_weight).drawn(rows, rng)
    search = Search.of(space, law, objective, sample)
    with one_blas_thread(), progress_bar(max_steps, "prior", progress) as bar:
        if start is not None:
            first = search.with_enough_noise(space.logs_of(start.scales))
        else:
            first = search.best_start(rng, restarts) if restarts else space.start
        found = search.descend(first, search.sample, max_steps, bar)
    return search.learned(found, objective)


def space_of(
    net: LayeredNetwork, noise_std: float | None, priors: Mapping[str, LogNormal | None] | None
) -> Hyperparameters:
    """The scales of a network and its noise, with `PRIORS` or those that replace them."""
    priors = dict(priors or {})
    if noise_std is not None:
        check_number("noise_std", noise_std, above=0.0)
    first = PRIORS["noise_std"].median or 0.1
    if noise_std is not None:
        first, priors = float(noise_std), priors | {"noise_std": None}
    space = Hyperparameters(net, first, PRIORS | priors)
    unknown = set(priors) - set(space.kinds)
    if unknown:
        raise ValueError(
            f"no scale is called {', '.join(sorted(unknown))}; priors may name "
            f"{', '.join(dict.fromkeys(space.kinds))}."
        )
    return space


@dataclass
class Search:
    """The way to the best hyper-parameters on one sample."""

    space: Hyperparameters
    which: Which
    objective: Objective
    sample: Sample
    evaluations: int = 0

    @classmethod
    def of(cls, space: Hyperparameters, law: str | Law, objective: str, sample: Sample) -> "Search":
        if objective not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise ValueError(f"objective must be one of {known}; got {objective!r}.")
        return cls(space, get_law(law).trained, OBJECTIVES[objective], sample)

    def loss(self, logs: NDArray[Any], sample: Sample) -> tuple[float, NDArray[Any]]:
        """-(objective + log prior) and its gradient in the logarithms."""
        self.evaluations += 1
        net, noise_std = self.space.at(logs)
        try:
            kernel = kernel_matrix(net, self.which, sample.x)
            value, weight = self.scored(kernel, noise_std, sample)
        except NotPositiveDefinite:
            return _FAILED, np.zeros_like(logs)
        of_net = kernel_gradient(net, self.which, sample.x, weight)
        of_noise = float(2 * noise_std * np.sum(np.diag(weight) / sample.weight))
        gradient = self.space.gradient(logs, of_net, of_noise)
        penalty, of_penalty = self.space.belief.penalty(logs)
        return penalty - value, of_penalty - gradient

    def scored(self, kernel: NDArray[Any], noise_std: float, sample: Sample) -> Score:
        """The objective of observations: a kernel with their noise on its diagonal."""
        return self.objective(kernel + np.diag(noise_std**2 / sample.weight), sample.y)

    def descend(self, start: NDArray[Any], sample: Sample, max_steps: int, bar: Any = None) -> Any:
        belief = self.space.belief
        return optimize.minimize(
            self.loss,
            np.clip(start, belief.low, belief.high),
            (sample,),
            method="L-BFGS-B",
            jac=True,
            bounds=list(zip(belief.low, belief.high, strict=True)),
            callback=None if bar is None else lambda _: bar.update(),
            options={"maxiter": max_steps, "maxcor": 20},
        )

    def with_enough_noise(self, logs: NDArray[Any]) -> NDArray[Any]:
        """The same scales, with σ raised while that makes the rows likelier, if it is learned.

        Few rows may ask for next to no noise, and more of them rule that out, as rows that stand twice do.
        A search that starts where nothing fits ends with a prior of noise alone.
        """
        most = self.space.belief.high[-1]
        net, _ = self.space.at(logs)
        kernel = kernel_matrix(net, self.which, self.sample.x)

        def loss(logs: NDArray[Any]) -> float:
            try:
                value, _ = self.scored(kernel, float(np.exp(logs[-1])), self.sample)
            except NotPositiveDefinite:
                return _FAILED
            return self.space.belief.penalty(logs)[0] - value

        best = loss(logs)
        while True:
            noisier = np.append(logs[:-1], min(logs[-1] + np.log(_MORE_NOISE), most))
            found = loss(noisier)
            if noisier[-1] <= logs[-1] or (found >= best and best < _FAILED):
                return logs
            logs, best = noisier, found

    def best_start(self, rng: np.random.Generator, restarts: int) -> NDArray[Any]:
        """The best after a few steps on few rows, from where the network is and from draws."""
        few = self.sample.first(_FIRST_ROWS)
        belief = self.space.belief
        free = belief.low < belief.high
        draws = [
            belief.median + free * belief.spread * rng.standard_normal(len(free)) / 2
            for _ in range(restarts)
        ]
        ends = [self.descend(start, few, _FIRST_STEPS) for start in (self.space.start, *draws)]
        return min(ends, key=lambda end: end.fun).x

    def learned(self, found: Any, objective: str) -> LearnedPrior:
        belief = self.space.belief
        if found.fun >= _FAILED:
            raise NotPositiveDefinite(
                "no prior could be learned: the covariance of the observations could not be "
                "factorised at any start. Give a larger noise_std, or drop rows that are nearly equal."
            )
        net, noise_std = self.space.at(found.x)
        at_bound = (belief.low < belief.high) & (
            np.isclose(found.x, belief.low) | np.isclose(found.x, belief.high)
        )
        names = np.array(self.space.names)
        return LearnedPrior(
            net=net,
            noise_std=noise_std,
            objective=objective,
            value=float(belief.penalty(found.x)[0] - found.fun),
            rows=len(self.sample.x),
            steps=self.evaluations,
            converged=bool(found.success),
            scales=dict(zip(self.space.names, np.exp(found.x).tolist(), strict=True)),
            at_bounds=tuple(names[at_bound].tolist()),
        )
