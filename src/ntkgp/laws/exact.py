"""What a law of Table 1 predicts after training on data: one conditioning for all of them."""

import os
from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ntkgp.core.arrays import check_inputs, check_number, check_part, check_weights
from ntkgp.core.memory import require_covariance
from ntkgp.core.progress import progress_bar
from ntkgp.core.storage import save, storable
from ntkgp.kernels import linalg
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.kernels.matrices import kernel_matrices, kernel_matrix
from ntkgp.kernels.panels import Panels, n_entries
from ntkgp.kernels.solvers import Cholesky, Inverse, Solver, check_memory
from ntkgp.kernels.training_kernel import TrainingKernel
from ntkgp.laws.table import LAWS, Law, get_law
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Normal

_HELD_ROWS = 10_000  # up to so many, a law's second kernel matrix is kept, not computed again
_TEST_BYTES = 2**30  # for the kernels between training inputs and one batch of test inputs


@storable
@dataclass(frozen=True, eq=False, repr=False)
class ExactLaw:
    """What an infinitely wide ensemble predicts after training on (x, y); `condition` makes it.

    With T the trained kernel, k the prior one, A = T_td (T_dd + σ²I)⁻¹,

        μ = A y,    Σ = k_tt - (A k_dt + h.c.) + A (k_dd + σ²I) Aᵀ,

    which is k_tt - A k_dt where T = k. Outputs are independent and share one inverse.
    """

    net: LayeredNetwork
    law: Law
    noise_std: float
    """σ, in the units of y."""
    x: NDArray[Any]
    """Training inputs (n, *input_shape)."""
    y: NDArray[Any]
    """Training targets (n, c)."""
    inverse: Inverse
    """(T_dd + σ²I)⁻¹, jitter included."""
    prior: TrainingKernel | Panels | None
    """k_dd + σ²I; None where T = k, because no formula needs it then."""
    weights: NDArray[Any]
    """(T_dd + σ²I)⁻¹ y, (n, c)."""
    sample_weight: NDArray[Any] | None = None
    """w_n: row n has noise variance σ²/w_n in place of σ². None where all are 1."""

    def __repr__(self) -> str:
        name = next((name for name, law in LAWS.items() if law == self.law), str(self.law))
        counts = [
            f"{count:,} {what}{'' if count == 1 else 's'}"
            for count, what in zip(self.y.shape, ("row", "output"), strict=True)
        ]
        return f"<ExactLaw {name} of {', '.join(counts)}, noise_std {self.noise_std:.4g}>"

    def __check_stored__(self) -> None:
        n = len(self.x)
        check_part("training inputs", self.x, (n, *self.net.input_shape))
        for name in ("y", "weights"):
            check_part(name, getattr(self, name), (n, *self.y.shape[1:2]))
        if self.sample_weight is not None:
            check_part("sample_weight", self.sample_weight, (n,), above=0.0)
        for name in ("inverse", "prior"):
            part = getattr(self, name)
            if isinstance(part, Sized) and len(part) != n:
                raise ValueError(f"{n} training inputs have the {name} of {len(part)}.")
        if (self.prior is None) != self.law.is_posterior or not 0 <= self.noise_std < float("inf"):
            raise ValueError("the law has not the parts that it needs.")

    @property
    def target_var(self) -> float | NDArray[Any]:
        """σ²/w_n where the law's targets carry noise, else 0."""
        return _over(self.noise_std**2, self.sample_weight) if self.law.noisy else 0.0

    def mean(self, x: ArrayLike) -> NDArray[Any]:
        """μ(x), (n, c), at the cost of the kernel between x and the training inputs alone."""
        inputs = self._inputs(x)
        means = [
            kernel_matrix(self.net, self.law.trained, inputs[rows], self.x) @ self.weights
            for rows in self._batches(len(inputs))
        ]
        return np.concatenate(means)

    def predict(self, x: ArrayLike, *, progress: bool = False) -> Normal:
        """Mean and marginal variance at each x, in batches: no n x n array is made."""
        inputs = self._inputs(x)
        means, variances = [], []
        with progress_bar(len(inputs), "predictions", progress) as bar:
            for rows in self._batches(len(inputs)):
                mean, correction = self._mean_and_correction(inputs[rows], diagonal=True)
                prior = kernel_matrix(self.net, self.law.prior, inputs[rows], diagonal=True)
                means.append(mean)
                variances.append(np.maximum(prior + correction, 0))
                bar.update(len(mean))
        mean, var = np.concatenate(means), np.concatenate(variances)
        return Normal(mean, np.broadcast_to(var[:, None], mean.shape), self.noise_std**2)

    def covariance(self, x: ArrayLike) -> NDArray[Any]:
        """Σ(x, x') of one output, (n, n): the function's, without observation noise."""
        inputs = self._inputs(x)
        # k_tt, the correction and their sum; and the two terms of the correction where T ≠ k.
        matrices = 3 if self.prior is None else 5
        require_covariance(len(inputs), matrices, other_bytes=4 * 8 * len(self.x) * len(inputs))
        correction = self._mean_and_correction(inputs)[1]
        return kernel_matrix(self.net, self.law.prior, inputs) + correction

    def sample(self, x: ArrayLike, n_samples: int, seed: int = 0) -> NDArray[Any]:
        """Functions drawn from the law, at x: (n_samples, n, c), without observation noise."""
        noise = linalg.sample_gaussian(
            self.covariance(x), n_samples, self.y.shape[1], np.random.default_rng(seed)
        )
        return self.mean(x) + noise

    def left_out(self, rows: NDArray[np.integer[Any]]) -> Normal:
        """What each of these training rows is predicted to be from all others.

        With B = (k_dd + σ²I)⁻¹ that is N(y_i - (By)_i/B_ii, 1/B_ii) (Rasmussen & Williams, 2006,
        Eq. 5.12): no row is removed and nothing is conditioned again. A GP posterior's law only.
        """
        self.law.require_posterior()
        units = np.zeros((len(self.x), len(rows)))
        units[rows, np.arange(len(rows))] = 1
        precision = self.inverse.quadratic(units, diagonal=True)[:, None]
        mean = self.y[rows] - self.weights[rows] / precision
        noise_var = self.row_noise_var[rows, None]
        var = np.maximum(1 / precision - noise_var, 0)
        return Normal(mean, np.broadcast_to(var, mean.shape), noise_var)

    @property
    def row_noise_var(self) -> NDArray[Any]:
        """σ²/w_n of each training row, (n,)."""
        return np.broadcast_to(_over(self.noise_std**2, self.sample_weight), len(self.x))

    def log_marginal_likelihood(self) -> float:
        """log N(y; 0, k_dd + σ²I), summed over outputs, where the law is a GP posterior."""
        self.law.require_posterior()
        n, c = self.y.shape
        fit = np.sum(self.y * self.weights)
        log_det = self.inverse.log_det()
        return float(-0.5 * (fit + c * log_det + c * n * np.log(2 * np.pi)))

    def stretched(self, factor: float) -> "ExactLaw":
        """The same in a unit `factor` times as large: targets shrink, prior and noise are as they were.

        In the old unit that is a prior and a noise `factor` times as large. Means stay where they are.
        """
        return replace(self, y=self.y / factor, weights=self.weights / factor)

    def of_rows(self, rows: NDArray[np.integer[Any]], jitter: float = 0.0) -> "ExactLaw":
        """The law conditioned on these training rows alone."""
        return condition(
            self.net,
            self.x[rows],
            self.y[rows],
            law=self.law,
            noise_std=self.noise_std,
            sample_weight=None if self.sample_weight is None else self.sample_weight[rows],
            jitter=jitter,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the law into one file, safetensors, for `ntkgp.load`."""
        save(self, path)

    def _inputs(self, x: ArrayLike) -> NDArray[Any]:
        return check_inputs("x", x, self.net.input_shape, np.float64)

    def _batches(self, n: int) -> list[slice]:
        """Rows of n test inputs whose kernels with the training inputs fit into _TEST_BYTES."""
        at_once = max(1, _TEST_BYTES // (4 * 8 * len(self.x)))
        return [slice(start, start + at_once) for start in range(0, n, at_once)]

    def _mean_and_correction(
        self, inputs: NDArray[Any], diagonal: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """μ, and Σ - k_tt, whole or its diagonal only."""
        if self.prior is None:
            trained_dt = kernel_matrix(self.net, self.law.trained, self.x, inputs)
            return trained_dt.T @ self.weights, -self.inverse.quadratic(trained_dt, diagonal)

        def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
            return np.einsum("ni,ni->i", a, b) if diagonal else a.T @ b

        both = kernel_matrices(self.net, self.x, inputs)
        trained_dt, prior_dt = getattr(both, self.law.trained), getattr(both, self.law.prior)
        a_t = self.inverse.solve(trained_dt)  # Aᵀ = (T_dd + σ²I)⁻¹ T_dt
        mixed = product(a_t, prior_dt)
        correction = product(a_t, self.prior.times(a_t)) - mixed - mixed.T
        return trained_dt.T @ self.weights, correction


def condition(
    net: Network,
    x: ArrayLike,
    y: ArrayLike,
    *,
    law: str | Law = "ntkgp",
    noise_std: float = 0.1,
    sample_weight: ArrayLike | None = None,
    jitter: float = 0.0,
    solver: Solver = Cholesky(),
    progress: bool = False,
) -> ExactLaw:
    """The law of an infinitely wide ensemble after training on (x, y).

    What does not fit into memory is refused before anything is computed.

    Args:
        net: a network made of layers.
        x: training inputs (n, *input_shape).
        y: training targets (n, c), or (n,) for one output. c is free: the law does not depend on
            the network's own number of outputs.
        law: a name in `LAWS`, or a `Law` of your own.
        noise_std: σ, in the units of y. The "deep-ensemble" law interpolates and has no σ: there
            it is only the observation noise that `predict` reports.
        sample_weight: w_n > 0 of each row, (n,): its noise variance is σ²/w_n. A whole number counts as
            so many equal rows.
        jitter: added to the diagonal of T_dd only, to make a noise-free law computable.
        solver: `Cholesky()`, exact; `Refined()`, for half the memory; `ConjugateGradients()`, for
            a matrix that does not fit into memory; or a `Solver` of your own.
        progress: show a progress bar.

    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> law = condition(ntkgp.mlp(1), x, np.sin(x), law="ntkgp", noise_std=0.1)
    >>> law
    <ExactLaw ntkgp of 5 rows, 1 output, noise_std 0.1>
    >>> law.predict(x).mean.shape, law.covariance(x).shape
    ((5, 1), (5, 5))
    """
    net = require_layers(net)
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise TypeError(
            f"solver must be a Solver, such as ntkgp.Cholesky() or one of your own; got {solver!r}."
        )
    check_number("noise_std", noise_std)
    check_number("jitter", jitter)
    row = get_law(law)
    # Copies: what the caller later does to the arrays must not reach the law.
    inputs = np.array(check_inputs("x", x, net.input_shape, np.float64))
    targets = np.array(check_targets(y, len(inputs)))
    n, held = len(inputs), len(inputs) <= _HELD_ROWS and not row.is_posterior
    for_predictions = min(_TEST_BYTES, 4 * 8 * n**2)
    check_memory(solver, n, 2 * inputs.nbytes + for_predictions + held * 8 * n_entries(n))
    weight = check_weights(sample_weight, n)
    target_var = _over(noise_std**2, weight) if row.noisy else 0.0
    inverse = solver(TrainingKernel(net, inputs, row.trained, target_var + jitter), progress)
    weights = inverse.solve(targets)
    if not np.isfinite(weights).all():
        raise NotPositiveDefinite(
            f"{solver!r} gave NaN or infinite numbers for (T + σ²I)⁻¹ y. Give a larger noise_std or "
            "jitter, or drop rows that stand twice."
        )
    prior: TrainingKernel | Panels | None = None
    if not row.is_posterior:
        prior = TrainingKernel(net, inputs, row.prior, target_var)
        prior = _held(prior) if held else prior
    return ExactLaw(
        net=net,
        law=row,
        noise_std=float(noise_std),
        x=inputs,
        y=targets,
        inverse=inverse,
        prior=prior,
        weights=weights,
        sample_weight=weight,
    )


def _held(kernel: TrainingKernel) -> Panels:
    """The matrix, computed once."""
    panels = Panels.empty(len(kernel), np.float64)
    for panel in panels:
        kernel.fill(panel)
    return panels


def _over(noise_var: float, weight: NDArray[Any] | None) -> float | NDArray[Any]:
    return noise_var if weight is None else noise_var / weight


def check_targets(y: ArrayLike, n: int) -> NDArray[Any]:
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or len(targets) != n:
        raise ValueError(
            f"y must have shape ({n}, c) or ({n},), one row for each row of x; got {np.shape(y)}."
        )
    return check_inputs("y", targets, targets.shape[1:], np.float64)
