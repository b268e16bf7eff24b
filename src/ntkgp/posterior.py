"""Table 1: the predictive laws of infinitely wide ensembles, as four values and one conditioning."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntkgp import linalg
from ntkgp.distributions import Normal
from ntkgp.kernels import Which, check_inputs, kernel_matrices, nngp, ntk
from ntkgp.networks import LayeredNetwork

_MATRIX = {"nngp": nngp, "ntk": ntk}


@dataclass(frozen=True)
class Law:
    """One row of Table 1: which kernel the function starts with, and which one trains it."""

    prior: Which
    """k in Eq. 6: the covariance of f̃₀."""
    trained: Which
    """The kernel of the parameters that move: Θ when all do, 𝒦 when the readout does."""
    noisy: bool = True
    """Whether targets carry noise of variance σ² > 0; deep ensembles train on y itself."""

    @property
    def is_posterior(self) -> bool:
        """Whether this is a GP posterior (Section 2): the two kernels are the same."""
        return self.prior == self.trained


LAWS: dict[str, Law] = {
    "nngp": Law(prior="nngp", trained="nngp"),
    "deep-ensemble": Law(prior="nngp", trained="ntk", noisy=False),
    "randomised-prior": Law(prior="nngp", trained="ntk"),
    "ntkgp": Law(prior="ntk", trained="ntk"),
}


def get_law(name: str) -> Law:
    """The law of that name, or an error that lists them."""
    if name not in LAWS:
        raise ValueError(f"law must be one of {', '.join(LAWS)}; got {name!r}.")
    return LAWS[name]


class Posterior:
    """What an infinitely wide ensemble predicts after training on (x, y).

    With T the trained kernel, k the prior one, A = T_td (T_dd + σ²I)⁻¹,

        μ = A y,    Σ = k_tt - (A k_dt + h.c.) + A (k_dd + σ²I) Aᵀ,

    which is k_tt - A k_dt where T = k. All in float64. Outputs are independent and share one
    factorisation.

    Args:
        net: a network made of layers.
        x: training inputs (n, *input_shape).
        y: training targets (n, c), or (n,) for one output. c is free: the law does not depend on
            the network's own number of outputs.
        law: a name in `LAWS`.
        noise_std: σ, in the units of y. For "deep-ensemble" it is not part of the law, which
            interpolates; there it only enters as observation noise in what `predict` returns.
        jitter: added to the diagonal of T_dd only, to make a noise-free law computable.

    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> law = Posterior(ntkgp.mlp(1), x, np.sin(x), law="ntkgp", noise_std=0.1)
    >>> law.predict(x).mean.shape, law.covariance(x).shape
    ((5, 1), (5, 5))
    """

    def __init__(
        self,
        net: LayeredNetwork,
        x: ArrayLike,
        y: ArrayLike,
        *,
        law: str = "ntkgp",
        noise_std: float = 0.1,
        jitter: float = 0.0,
    ) -> None:
        if not 0 <= noise_std < float("inf") or not 0 <= jitter < float("inf"):
            raise ValueError(
                f"noise_std and jitter must be finite numbers ≥ 0; got {noise_std!r} and {jitter!r}."
            )
        self.net = net
        self.law = get_law(law)
        self.noise_std = noise_std
        self.x = check_inputs("x", x, net.input_shape, np.float64)
        self.y = _check_targets(y, len(self.x))
        self.target_var = noise_std**2 if self.law.noisy else 0.0
        if self.law.is_posterior:
            trained = _MATRIX[self.law.trained](net, self.x)
            self._prior_dd = None  # equal to the trained kernel, and not needed then
        else:
            both = kernel_matrices(net, self.x)
            trained, self._prior_dd = getattr(both, self.law.trained), getattr(both, self.law.prior)
        trained[np.diag_indices_from(trained)] += self.target_var + jitter
        self._factor = linalg.cholesky(
            trained, f"the {self.law.trained} matrix of the training inputs"
        )
        self._weights = linalg.solve(self._factor, self.y)

    def state(self) -> dict[str, Any]:
        """All that it holds, the factorisation included, for `from_state`."""
        law = next(name for name, law in LAWS.items() if law == self.law)
        return vars(self) | {"law": law}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Posterior":
        """The same posterior again, with nothing computed anew."""
        posterior = cls.__new__(cls)
        vars(posterior).update(state | {"law": get_law(state["law"])})
        return posterior

    def mean(self, x: ArrayLike) -> NDArray[Any]:
        """μ(x), (n, c): the cost of the kernel between x and the training inputs, and no more."""
        return _MATRIX[self.law.trained](self.net, self._inputs(x), self.x) @ self._weights

    def predict(self, x: ArrayLike) -> Normal:
        """Mean and marginal variance at each x; no array of size x by x is made."""
        inputs = self._inputs(x)
        mean, half, cross = self._blocks(inputs)
        prior = _MATRIX[self.law.prior](self.net, inputs, diagonal=True)
        var = np.maximum(prior + self._correction(half, cross, diagonal=True), 0)
        return Normal(mean, np.broadcast_to(var[:, None], mean.shape), self.noise_std**2)

    def covariance(self, x: ArrayLike) -> NDArray[Any]:
        """Σ(x, x') of one output, (n, n): the function's, without observation noise."""
        inputs = self._inputs(x)
        _, half, cross = self._blocks(inputs)
        return _MATRIX[self.law.prior](self.net, inputs) + self._correction(half, cross)

    def sample(self, x: ArrayLike, n_samples: int, seed: int = 0) -> NDArray[Any]:
        """Functions drawn from the law, at x: (n_samples, n, c), without observation noise."""
        noise = linalg.sample_gaussian(
            self.covariance(x), n_samples, self.y.shape[1], np.random.default_rng(seed)
        )
        return self.mean(x) + noise

    def log_marginal_likelihood(self) -> float:
        """log N(y; 0, k_dd + σ²I), summed over outputs, where the law is a GP posterior."""
        if not self.law.is_posterior:
            raise ValueError(
                "this law is not the posterior of any Gaussian process (Section 2), so it has no "
                'marginal likelihood; "nngp" and "ntkgp" have one.'
            )
        n, c = self.y.shape
        fit = np.sum(self.y * self._weights)
        log_det = 2 * np.log(np.diag(self._factor)).sum()
        return float(-0.5 * (fit + c * log_det + c * n * np.log(2 * np.pi)))

    def _inputs(self, x: ArrayLike) -> NDArray[Any]:
        return check_inputs("x", x, self.net.input_shape, np.float64)

    def _blocks(self, inputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """μ, L⁻¹ T_dt and k_dt."""
        if self.law.is_posterior:
            trained_dt = prior_dt = _MATRIX[self.law.trained](self.net, self.x, inputs)
        else:
            both = kernel_matrices(self.net, self.x, inputs)
            trained_dt, prior_dt = getattr(both, self.law.trained), getattr(both, self.law.prior)
        mean = trained_dt.T @ self._weights
        return mean, linalg.solve_lower(self._factor, trained_dt), prior_dt

    def _correction(
        self, half: NDArray[Any], prior_dt: NDArray[Any], diagonal: bool = False
    ) -> NDArray[Any]:
        """Σ - k_tt, whole or its diagonal only."""

        def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
            return np.einsum("ni,ni->i", a, b) if diagonal else a.T @ b

        if self._prior_dd is None:
            return -product(half, half)
        a_t = linalg.solve_upper(self._factor, half)  # Aᵀ = (T_dd + σ²I)⁻¹ T_dt
        noisy_prior = self._prior_dd @ a_t + self.target_var * a_t
        mixed = product(a_t, prior_dt)
        return product(a_t, noisy_prior) - mixed - mixed.T


def _check_targets(y: ArrayLike, n: int) -> NDArray[Any]:
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) != n:
        raise ValueError(
            f"y must have shape ({n}, c) or ({n},), one row for each row of x; got {np.shape(y)}."
        )
    return check_inputs("y", targets, targets.shape[1:], np.float64)
