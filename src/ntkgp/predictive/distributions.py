"""Predictive distributions: a normal at each point, and the mixture that an ensemble is (Appendix F)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, repr=False)
class Normal:
    """Independent normals for n points and c outputs; the variance of f and the noise are kept apart.

    >>> p = Normal(mean=np.zeros((3, 1)), epistemic_var=np.full((3, 1), 0.75), noise_var=0.25)
    >>> p
    <Normal at 3 points, 1 output>
    >>> low, high = p.interval(0.95)
    >>> np.round(high[0, 0], 2)
    np.float64(1.96)
    """

    mean: Floats
    """(n, c)"""
    epistemic_var: Floats
    """Variance of the function at each point, (n, c) or broadcastable to it."""
    noise_var: Floats | float = 0.0
    """Variance of an observation around the function."""
    members: Floats | None = None
    """The members' means (k, n, c), if the normal sums up an ensemble."""

    def __repr__(self) -> str:
        where = f"{_points(len(self.mean))}, {_outputs_in_words(self.mean.shape[1:])}"
        return f"<{type(self).__name__} at {where}>"

    @property
    def var(self) -> Floats:
        """Variance of an observation: epistemic plus noise."""
        return np.broadcast_to(self.epistemic_var + np.asarray(self.noise_var), self.mean.shape)

    @property
    def std(self) -> Floats:
        return np.sqrt(self.var)

    def rescaled(self, scale: Floats | float, shift: Floats | float) -> "Normal":
        """The distribution of scale · y + shift."""
        square = np.asarray(scale) ** 2
        return replace(
            self,
            mean=scale * self.mean + shift,
            epistemic_var=square * self.epistemic_var,
            noise_var=square * self.noise_var,
            members=None if self.members is None else scale * self.members + shift,
        )

    def first_output(self) -> "Normal":
        """The first output alone, with arrays of one axis less: (n,) in place of (n, c)."""
        noise_var = np.broadcast_to(self.noise_var, self.mean.shape)
        return replace(
            self,
            mean=self.mean[..., 0],
            epistemic_var=self.epistemic_var[..., 0],
            noise_var=noise_var[..., 0],
            members=None if self.members is None else self.members[..., 0],
        )

    def quantile(self, q: float) -> Floats:
        """The value below which an observation falls with probability q."""
        return self.mean + self.std * special.ndtri(_check_probability("q", q))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper end of the central interval that holds an observation with this probability."""
        tail = (1 - _check_probability("level", level)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def cdf(self, y: ArrayLike) -> Floats:
        return special.ndtr((_observed(y, self.mean.shape) - self.mean) / self._positive_std())

    def log_prob(self, y: ArrayLike) -> Floats:
        """Log density of observations y (n, c), at each point and output."""
        return _normal_log_prob(_observed(y, self.mean.shape), self.mean, self._positive_std() ** 2)

    def sample(self, n_samples: int, seed: int = 0) -> Floats:
        """Observations (n_samples, n, c), independent between points."""
        rng = np.random.default_rng(seed)
        return self.mean + self.std * rng.standard_normal((n_samples, *self.mean.shape))

    def _positive_std(self) -> Floats:
        if not np.all(self.std > 0):
            raise ValueError(
                "this normal has variance 0 somewhere, so it has no density: give it a noise_var > 0."
            )
        return self.std


@dataclass(frozen=True, repr=False)
class StudentT(Normal):
    """Student's t in place of the normal, for noise with outliers; `noise_var` is its squared scale.

    The sum of a normal function and t noise is no t. It is close to one of the same `df` where noise
    outweighs doubt about the function, and the tails, which matter here, are those of the noise.

    >>> p = StudentT(mean=np.zeros((3, 1)), epistemic_var=np.zeros((3, 1)), noise_var=1.0, df=4.0)
    >>> p.var[0, 0]
    np.float64(2.0)
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        if not self.df > 2:
            raise ValueError(f"df must be > 2, so that there is a variance; got {self.df!r}.")

    @property
    def var(self) -> Floats:
        """Variance of an observation: epistemic, plus the t's, df/(df - 2) times its squared scale."""
        noise_var = np.asarray(self.noise_var) * self.df / (self.df - 2)
        return np.broadcast_to(self.epistemic_var + noise_var, self.mean.shape)

    @property
    def scale(self) -> Floats:
        return np.sqrt(
            np.broadcast_to(self.epistemic_var + np.asarray(self.noise_var), self.mean.shape)
        )

    def quantile(self, q: float) -> Floats:
        return self.mean + self.scale * special.stdtrit(self.df, _check_probability("q", q))

    def cdf(self, y: ArrayLike) -> Floats:
        return special.stdtr(
            self.df, (_observed(y, self.mean.shape) - self.mean) / self._positive_scale()
        )

    def log_prob(self, y: ArrayLike) -> Floats:
        scale, half = self._positive_scale(), (self.df + 1) / 2
        z = (_observed(y, self.mean.shape) - self.mean) / scale
        constant = (
            special.gammaln(half) - special.gammaln(self.df / 2) - np.log(np.pi * self.df) / 2
        )
        return constant - np.log(scale) - half * np.log1p(z**2 / self.df)

    def sample(self, n_samples: int, seed: int = 0) -> Floats:
        draws = np.random.default_rng(seed).standard_t(self.df, (n_samples, *self.mean.shape))
        return self.mean + self.scale * draws

    def _positive_scale(self) -> Floats:
        self._positive_std()
        return self.scale


@dataclass(frozen=True, repr=False)
class Mixture:
    """A uniform mixture of the members' normals, p(y|x) = 1/K Σ_k N(μ_k(x), σ²_k(x)).

    `moment_matched` gives the single normal by which the paper summarises it.

    >>> p = Mixture(means=np.array([[[-1.0]], [[1.0]]]), noise_vars=0.5)
    >>> p
    <Mixture of 2 normals at 1 point, 1 output>
    >>> p.mean.item(), p.epistemic_var.item(), p.var.item()
    (0.0, 1.0, 1.5)
    """

    means: Floats
    """μ_k, (k, n, c)"""
    noise_vars: Floats | float = 0.0
    """σ²_k, broadcastable to (k, n, c)."""

    def __repr__(self) -> str:
        k, n, *outputs = self.means.shape
        return f"<Mixture of {k} normals at {_points(n)}, {_outputs_in_words(outputs)}>"

    @property
    def mean(self) -> Floats:
        """μ_* = 1/K Σ_k μ_k."""
        return self.means.mean(axis=0)

    @property
    def epistemic_var(self) -> Floats:
        """1/K Σ_k (μ_k² - μ_*²): how much the members disagree."""
        return self.means.var(axis=0)

    @property
    def noise_var(self) -> Floats:
        """1/K Σ_k σ²_k."""
        return np.broadcast_to(self.noise_vars, self.means.shape).mean(axis=0)

    @property
    def var(self) -> Floats:
        """σ²_* = 1/K Σ_k (μ_k² - μ_*² + σ²_k)."""
        return self.epistemic_var + self.noise_var

    @property
    def std(self) -> Floats:
        return np.sqrt(self.var)

    def rescaled(self, scale: Floats | float, shift: Floats | float) -> "Mixture":
        """The distribution of scale · y + shift."""
        return Mixture(scale * self.means + shift, np.asarray(scale) ** 2 * self.noise_vars)

    def first_output(self) -> "Mixture":
        """The first output alone, with arrays of one axis less: (k, n) in place of (k, n, c)."""
        noise_vars = np.broadcast_to(self.noise_vars, self.means.shape)
        return Mixture(self.means[..., 0], noise_vars[..., 0])

    def moment_matched(self) -> Normal:
        """The normal of the same mean and variance."""
        return Normal(self.mean, self.epistemic_var, self.noise_var, self.means)

    def cdf(self, y: ArrayLike) -> Floats:
        y = _observed(y, self.means.shape[1:])
        return special.ndtr((y - self.means) / self._stds()).mean(axis=0)

    def log_prob(self, y: ArrayLike) -> Floats:
        """Log density of observations y (n, c) under the mixture itself."""
        y = _observed(y, self.means.shape[1:])
        each = _normal_log_prob(y, self.means, self._stds() ** 2)
        return special.logsumexp(each, axis=0) - np.log(len(self.means))

    def quantile(self, q: float) -> Floats:
        """The value below which an observation falls with probability q, by bisection."""
        ends = self.means + self._stds() * special.ndtri(_check_probability("q", q))
        low, high = ends.min(axis=0), ends.max(axis=0)  # the members' own quantiles bracket it
        while np.any(np.nextafter(low, high) < high):
            middle = low + (high - low) / 2
            if np.all((middle <= low) | (middle >= high)):
                break
            below = self.cdf(middle) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper end of the central interval that holds an observation with this probability."""
        tail = (1 - _check_probability("level", level)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def sample(self, n_samples: int, seed: int = 0) -> Floats:
        """Observations (n_samples, n, c); each sample follows one member through all points."""
        rng = np.random.default_rng(seed)
        which = rng.integers(len(self.means), size=n_samples)
        noise = rng.standard_normal((n_samples, *self.means.shape[1:]))
        stds = np.broadcast_to(np.sqrt(self.noise_vars), self.means.shape)
        return self.means[which] + stds[which] * noise

    def _stds(self) -> Floats:
        stds = np.broadcast_to(np.sqrt(self.noise_vars), self.means.shape)
        if not np.all(stds > 0):
            raise ValueError(
                "this mixture has no observation noise, so it is K points without a density: give "
                "noise_vars > 0, or use moment_matched()."
            )
        return stds


def _points(n: int) -> str:
    return f"{n:,} point{'' if n == 1 else 's'}"


def _outputs_in_words(shape: Sequence[int]) -> str:
    """Of arrays with an axis for outputs, or without."""
    count = shape[0] if shape else 1
    return f"{count} output{'s' if count > 1 else ''}"


def _observed(y: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Observations as an array (n, c); (n,) will do for one output."""
    array = np.asarray(y, np.float64)
    if array.ndim == 1 and shape == (len(array), 1):
        array = array[:, None]
    if array.shape != shape:
        raise ValueError(f"y must have the shape of the prediction, {shape}; got {np.shape(y)}.")
    return array


def _normal_log_prob(y: Floats, mean: Floats, var: Floats) -> Floats:
    return -0.5 * ((y - mean) ** 2 / var + np.log(2 * np.pi * var))


def _check_probability(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}.")
    return value
