"""Noise that differs from row to row, found by an exact law and then given to laws and members alike.

For fixed σ(x_n) members are posterior samples as before (Section 3.3): row n has the weight σ²/σ²(x_n).
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.storage import storable
from ntkgp.kernels.matrices import kernel_matrix
from ntkgp.laws.exact import ExactLaw, condition
from ntkgp.laws.prior import fit_prior
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.layers import Erf
from ntkgp.networks.ready_made import mlp
from ntkgp.predictive.distributions import Normal, StudentT

PRIOR_ROWS, PRIOR_STEPS = 400, 30
"""To learn the prior of log σ²(x)."""
MOST = 30.0
"""The most by which the noise variance of a row may exceed, or fall short of, σ²."""
LOG_VAR_SCALE = 0.3
"""Of the prior of log σ²(x) before it is learned: where data say nothing of it, E exp g is near 1."""
LEAST = 1e-3
"""The least σ of noise with outliers, over the prior's standard deviation: a law needs some."""
_VARIATION_STEPS = 6
_TAIL_STEPS = 15


@runtime_checkable
class FittedRowNoise(Protocol):
    """What is known of the noise after a law has seen data; all in the law's units."""

    noise_std: float
    """σ: the noise of a row of weight 1."""

    @property
    def normal(self) -> bool:
        """Whether observations are normal, so that rows left out may set σ by their likelihood."""

    def weights(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """w_n of rows with targets y (n, c), for training: the noise variance is σ²/w_n."""

    def relative_var(self, x: NDArray[Any]) -> NDArray[Any]:
        """σ²(x)/σ² of new rows, (n,)."""

    def observed(self, predicted: Normal) -> Normal:
        """How an observation is distributed, given the normal of the function and of σ(x)."""


@runtime_checkable
class RowNoise(Protocol):
    """A model of noise that differs from row to row; a frozen dataclass."""

    def fitted(self, law: ExactLaw, seed: int) -> FittedRowNoise:
        """The noise that a law with constant σ leaves to be explained."""


@storable
@dataclass(frozen=True)
class VaryingNoise:
    """Noise whose size depends on x: σ²(x) = σ² exp g(x), where g has a Gaussian process prior too.

    The law predicts each row from all others, N(m_n, v_n). What it misses by tells about g:

        y_n - m_n ~ N(0, v_n + σ² exp g(x_n)).

    g is the posterior mode, by Fisher's scoring: each step is one exact law on a working response. Its
    prior, the relevance of columns included, has the highest marginal likelihood. If the noise is
    constant, g is next to nothing. Where the law's own doubt v_n exceeds the noise, as near
    interpolation, g cannot be known, and stays near 0.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, size=(300, 1))
    >>> y = np.where(x[:, 0] > 0, 1.0, 0.1) * rng.standard_normal(300)
    >>> law = ntkgp.condition(ntkgp.mlp(1, b_std=0.5), x, y, noise_std=0.7)
    >>> low, high = VaryingNoise().fitted(law, seed=0).relative_var(np.array([[-1.0], [1.0]]))
    >>> bool(high > 10 * low)
    True
    """

    def fitted(self, law: ExactLaw, seed: int) -> "FittedVariation":
        left_out = law.left_out(np.arange(len(law.x)))
        squares, doubt = (law.y - left_out.mean) ** 2, left_out.epistemic_var
        base, outputs = law.row_noise_var[:, None], law.y.shape[1]
        net = mlp(law.x.shape[1], depth=1, activation=Erf(), b_std=0.5)
        net = net.with_output_scale(LOG_VAR_SCALE)
        log_var = np.zeros((len(law.x), 1))
        learned: LayeredNetwork | None = None
        for _ in range(_VARIATION_STEPS):
            noise_var = base * np.exp(log_var)
            share = noise_var / (doubt + noise_var)
            score = np.sum(share * (squares / (doubt + noise_var) - 1), axis=1, keepdims=True)
            information = np.sum(share**2, axis=1, keepdims=True)
            response = log_var + score / np.maximum(information, 1e-6)
            weight = np.maximum(information[:, 0], 1e-6 * outputs)
            if learned is None:
                learned = _prior_of(net, law.x, response, weight, seed)
            of_log_var = condition(learned, law.x, response, noise_std=2**0.5, sample_weight=weight)
            log_var = _bounded(of_log_var.mean(law.x))
        return FittedVariation(of_log_var, law.noise_std)


@storable
@dataclass(frozen=True, eq=False)
class FittedVariation:
    """σ²(x) = σ² exp g(x)."""

    of_log_var: ExactLaw
    """The law of g."""
    noise_std: float

    normal = True

    def weights(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        return np.exp(-_bounded(self.of_log_var.mean(x))[:, 0])

    def relative_var(self, x: NDArray[Any]) -> NDArray[Any]:
        """E exp g(x): more where the data leave g open."""
        predicted = self.of_log_var.predict(x)
        return np.exp(_bounded(predicted.mean + predicted.epistemic_var / 2)[:, 0])

    def observed(self, predicted: Normal) -> Normal:
        return predicted


@storable
@dataclass(frozen=True)
class HeavyTails:
    """Noise with outliers: Student's t with `df` degrees of freedom and scale σ.

    t is a normal whose precision is drawn for each row, λ_n/σ² with λ_n ~ Gamma(df/2, df/2). By
    expectation-maximisation λ_n = (df + c)/(df + E‖y_n - f(x_n)‖²/σ²), and σ² the mean of λ_n E‖y_n -
    f(x_n)‖²/c. Rows far off get a small weight λ_n, and the law follows the others. A row that has a
    weight already counts as so many equal rows.

    >>> x = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.sin(x)
    >>> y[30] += 20
    >>> law = ntkgp.condition(ntkgp.mlp(1, b_std=0.5), x, y, noise_std=0.5)
    >>> weights = HeavyTails().fitted(law, seed=0).weights(x, y)
    >>> bool(weights[30] < 0.1 < 0.5 < np.median(weights))
    True
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        if not 2 < self.df < float("inf"):
            raise ValueError(f"df must be > 2, so that the noise has a variance; got {self.df!r}.")

    def fitted(self, law: ExactLaw, seed: int) -> "FittedTails":
        given = np.ones(len(law.x)) if law.sample_weight is None else law.sample_weight
        prior_var = np.mean(kernel_matrix(law.net, law.law.prior, law.x, diagonal=True))
        least = min(law.noise_std, LEAST * float(prior_var) ** 0.5)
        found = FittedTails(law, law.noise_std, self.df)
        for _ in range(_TAIL_STEPS):
            squares = found.expected_squares(law.x, law.y)
            weights = found.weights(law.x, law.y)
            noise_var = np.average(weights * squares, weights=given) / law.y.shape[1]
            noise_std = float(np.sqrt(noise_var))
            # Never all at once, and without noise never to nothing.
            noise_std = max(noise_std, 0.1 * found.noise_std, least)
            reweighted = condition(
                law.net,
                law.x,
                law.y,
                law=law.law,
                noise_std=noise_std,
                sample_weight=given * weights,
            )
            found = FittedTails(reweighted, noise_std, self.df)
        return found


@storable
@dataclass(frozen=True, eq=False)
class FittedTails:
    """Student's t around the function."""

    law: ExactLaw
    noise_std: float
    df: float

    normal = False

    def expected_squares(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """E‖y - f(x)‖² of each row, (n,), summed over targets."""
        predicted = self.law.predict(x)
        targets = y.reshape(len(y), -1)
        return np.sum((targets - predicted.mean) ** 2 + predicted.epistemic_var, axis=1)

    def weights(self, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        relative = self.expected_squares(x, y) / self.noise_std**2
        return (self.df + self.law.y.shape[1]) / (self.df + relative)

    def relative_var(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.ones(len(x))

    def observed(self, predicted: Normal) -> StudentT:
        return StudentT(**vars(predicted), df=self.df)


def _prior_of(
    net: LayeredNetwork,
    x: NDArray[Any],
    response: NDArray[Any],
    weight: NDArray[Any],
    seed: int,
) -> LayeredNetwork:
    """The prior of g; a response of weight 1 has the variance 2 of a squared normal."""
    learned = fit_prior(
        net,
        x,
        response,
        noise_std=2**0.5,
        sample_weight=weight,
        restarts=0,
        rows=PRIOR_ROWS,
        max_steps=PRIOR_STEPS,
        seed=seed,
    )
    return learned.net


def _bounded(log_var: NDArray[Any]) -> NDArray[Any]:
    return np.clip(log_var, -np.log(MOST), np.log(MOST))
