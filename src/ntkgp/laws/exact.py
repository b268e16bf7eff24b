"""What a law of Table 1 predicts after training on data: one conditioning for all four."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_inputs
from ntkgp.core.progress import progress_bar
from ntkgp.kernels import linalg
from ntkgp.kernels.matrices import kernel_matrices, kernel_matrix
from ntkgp.kernels.panels import Panels, n_entries
from ntkgp.kernels.solvers import Cholesky, Solver, check_memory
from ntkgp.kernels.training_kernel import TrainingKernel
from ntkgp.laws.table import LAWS, get_law
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.predictive.distributions import Normal

_HELD_ROWS = 10_000  # up to which a law's second kernel matrix is kept, not computed again
_TEST_BYTES = 2**30  # of the kernels between training inputs and one batch of test inputs


class Posterior:
    """What an infinitely wide ensemble predicts after training on (x, y).

    With T the trained kernel, k the prior one, A = T_td (T_dd + σ²I)⁻¹,

        μ = A y,    Σ = k_tt - (A k_dt + h.c.) + A (k_dd + σ²I) Aᵀ,

    which is k_tt - A k_dt where T = k. Outputs are independent and share one inverse, found by a
    `solver`. Whether it fits into memory is known before anything is computed.

    Args:
        net: a network made of layers.
        x: training inputs (n, *input_shape).
        y: training targets (n, c), or (n,) for one output. c is free: the law does not depend on
            the network's own number of outputs.
        law: a name in `LAWS`.
        noise_std: σ, in the units of y. For "deep-ensemble" it is not part of the law, which
            interpolates; there it only enters as observation noise in what `predict` returns.
        jitter: added to the diagonal of T_dd only, to make a noise-free law computable.
        solver: `Cholesky()`, exact; `Refined()` for half the memory; `ConjugateGradients()` for
            more training inputs than memory holds the matrix of.
        progress: show a progress bar.

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
        solver: Solver = Cholesky(),
        progress: bool = False,
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
        n, held = len(self.x), len(self.x) <= _HELD_ROWS and not self.law.is_posterior
        for_predictions = min(_TEST_BYTES, 4 * 8 * n**2)
        check_memory(solver, n, 2 * self.x.nbytes + for_predictions + held * 8 * n_entries(n))
        trained = TrainingKernel(net, self.x, self.law.trained, self.target_var + jitter)
        self._inverse = solver(trained, progress)
        self._prior: TrainingKernel | Panels | None = None  # where it is the trained kernel itself
        if not self.law.is_posterior:
            prior = TrainingKernel(net, self.x, self.law.prior, self.target_var)
            self._prior = _held(prior) if held else prior
        self.weights = self._inverse.solve(self.y)

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
        inputs = self._inputs(x)
        batches = self._batches(len(inputs))
        means = [
            kernel_matrix(self.net, self.law.trained, inputs[rows], self.x) @ self.weights
            for rows in batches
        ]
        return np.concatenate(means)

    def predict(self, x: ArrayLike, *, progress: bool = False) -> Normal:
        """Mean and marginal variance at each x, in batches; no array of size x by x is made."""
        inputs = self._inputs(x)
        means, variances = [], []
        with progress_bar(len(inputs), "predictions", progress) as bar:
            for rows in self._batches(len(inputs)):
                mean, correction = self._condition(inputs[rows], diagonal=True)
                prior = kernel_matrix(self.net, self.law.prior, inputs[rows], diagonal=True)
                means.append(mean)
                variances.append(np.maximum(prior + correction, 0))
                bar.update(len(mean))
        mean, var = np.concatenate(means), np.concatenate(variances)
        return Normal(mean, np.broadcast_to(var[:, None], mean.shape), self.noise_std**2)

    def covariance(self, x: ArrayLike) -> NDArray[Any]:
        """Σ(x, x') of one output, (n, n): the function's, without observation noise."""
        inputs = self._inputs(x)
        return kernel_matrix(self.net, self.law.prior, inputs) + self._condition(inputs)[1]

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
        fit = np.sum(self.y * self.weights)
        log_det = self._inverse.log_det()
        return float(-0.5 * (fit + c * log_det + c * n * np.log(2 * np.pi)))

    def _inputs(self, x: ArrayLike) -> NDArray[Any]:
        return check_inputs("x", x, self.net.input_shape, np.float64)

    def _batches(self, n: int) -> list[slice]:
        """Rows of n test inputs whose kernels with the training inputs fit into _TEST_BYTES."""
        at_once = max(1, _TEST_BYTES // (4 * 8 * len(self.x)))
        return [slice(start, start + at_once) for start in range(0, n, at_once)]

    def _condition(
        self, inputs: NDArray[Any], diagonal: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """μ, and Σ - k_tt, whole or its diagonal only."""
        if self._prior is None:
            trained_dt = kernel_matrix(self.net, self.law.trained, self.x, inputs)
            return trained_dt.T @ self.weights, -self._inverse.quadratic(trained_dt, diagonal)

        def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
            return np.einsum("ni,ni->i", a, b) if diagonal else a.T @ b

        both = kernel_matrices(self.net, self.x, inputs)
        trained_dt, prior_dt = getattr(both, self.law.trained), getattr(both, self.law.prior)
        a_t = self._inverse.solve(trained_dt)  # Aᵀ = (T_dd + σ²I)⁻¹ T_dt
        mixed = product(a_t, prior_dt)
        correction = product(a_t, self._prior.times(a_t)) - mixed - mixed.T
        return trained_dt.T @ self.weights, correction


def _held(kernel: TrainingKernel) -> Panels:
    """The matrix, computed once."""
    panels = Panels.empty(len(kernel), np.float64)
    for panel in panels:
        kernel.fill(panel)
    return panels


def _check_targets(y: ArrayLike, n: int) -> NDArray[Any]:
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) != n:
        raise ValueError(
            f"y must have shape ({n}, c) or ({n},), one row for each row of x; got {np.shape(y)}."
        )
    return check_inputs("y", targets, targets.shape[1:], np.float64)
