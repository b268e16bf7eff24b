"""The noise level and prior scale of highest marginal likelihood, at infinite width."""

from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy import linalg

from ntkgp.core.arrays import check_seed, precision
from ntkgp.core.search import minimise
from ntkgp.core.typing import Part
from ntkgp.kernels.matrices import Which, is_traced, kernel_matrix
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import LayeredNetwork, require_layers
from ntkgp.networks.protocol import Network

_DRAWS = 4
_MOST_ENTRIES = 4096
_LOG_RATIOS = (-6.0, 4.0)
"""Range of log₁₀ of noise variance over the kernel's mean diagonal."""
_LOG_SCALES = (-8.0, 4.0)
"""Range of log₁₀ of the prior's variance over the targets' mean square."""


class Evidence(NamedTuple):
    """The best Gaussian process of the form GP(0, scale² · kernel) with noise of noise_std."""

    log_marginal_likelihood: float
    noise_std: float
    """σ, in the units of y."""
    scale: float
    """s: the prior standard deviation of the function, relative to the kernel's."""


class Spectrum(NamedTuple):
    """Targets in the eigenvectors of a kernel: all that log N(y; 0, s²k + σ²I) needs of both."""

    eigenvalues: NDArray[Any]
    """λ_i, of the kernel."""
    squares: NDArray[Any]
    """Σ (uᵀy)² over the targets, for the eigenvectors u of each λ_i."""
    counts: NDArray[Any]
    """How many targets in eigenvectors that is."""

    @classmethod
    def of(cls, kernel: NDArray[Any], y: NDArray[Any]) -> "Spectrum":
        """That of a kernel (n, n) and targets (n, c)."""
        eigenvalues, vectors = linalg.eigh(kernel)
        squares = np.sum((vectors.T @ y) ** 2, axis=1)
        return cls(np.maximum(eigenvalues, 0), squares, np.full(len(y), y.shape[1]))

    @property
    def unit(self) -> float:
        """The mean of the kernel's diagonal."""
        return float(np.sum(self.counts * self.eigenvalues) / np.sum(self.counts))

    @property
    def mean_square(self) -> float:
        """That of the targets."""
        return float(np.sum(self.squares) / np.sum(self.counts))

    def log_likelihood(self, scale_var: float, noise_var: float) -> float:
        variances = scale_var * self.eigenvalues + noise_var
        fit = np.sum(self.squares / variances)
        return float(-0.5 * (fit + np.sum(self.counts * np.log(2 * np.pi * variances))))


def best_noise_and_scale(
    kernel: NDArray[Any], y: NDArray[Any], noise_std: float | None = None
) -> Evidence:
    """The s and σ, or s alone, that maximise log N(y; 0, s²k + σ²I), summed over the columns of y.

    Args:
        kernel: (n, n), for instance `ntk(net, x)`.
        y: targets (n, c), not all zero.
        noise_std: σ, if it is known.

    >>> x, rng = np.linspace(-2, 2, 200)[:, None], np.random.default_rng(0)
    >>> y = np.sin(2 * x) + 0.2 * rng.standard_normal(x.shape)
    >>> round(best_noise_and_scale(ntkgp.ntk(ntkgp.mlp(1), x), y).noise_std, 1)
    0.2
    """
    if not np.any(y):
        raise ValueError("y is zero throughout: any noise level explains it, so there is no best.")
    return best_of(Spectrum.of(kernel, y), noise_std)


def best_of(
    spectrum: Spectrum, noise_std: float | None = None, scale: float | None = None
) -> Evidence:
    """The s and σ, or the one that is not given, that make the targets of a spectrum most likely.

    With σ² = s²ρ it is a search in ρ alone, because the best s for each ρ is

        s² = 1/(n c) Σ_ij (Uᵀy)²_ij / (λ_i + ρ),

    so one eigendecomposition serves every noise level tried.
    """

    def at_ratio(log_ratio: float) -> tuple[float, float]:
        """The best s² at this ratio of noise to kernel, or the given one, and σ²."""
        ratio = spectrum.unit * 10**log_ratio
        fits = np.sum(spectrum.squares / (spectrum.eigenvalues + ratio))
        scale_var = float(fits / np.sum(spectrum.counts)) if scale is None else scale**2
        return scale_var, scale_var * ratio

    def at_scale(log_scale_var: float) -> tuple[float, float]:
        """This s², in units of the targets' own size, and the given σ²."""
        size = spectrum.mean_square / spectrum.unit
        return size * 10**log_scale_var, float(noise_std or 0.0) ** 2

    at, limits = (at_ratio, _LOG_RATIOS) if noise_std is None else (at_scale, _LOG_SCALES)
    best = minimise(lambda value: -spectrum.log_likelihood(*at(value)), *limits)
    scale_var, noise_var = at(best)
    return Evidence(spectrum.log_likelihood(scale_var, noise_var), noise_var**0.5, scale_var**0.5)


def log_marginal_likelihood(
    net: Network, x: Any, y: Any, noise_std: Any, law: str | Law = "ntkgp"
) -> Any:
    """log N(y; 0, k(x, x) + σ²I), summed over the columns of y, of a law that is a posterior.

    Derivatives exist in the scales of the network, the noise and the data. `fit_prior` maximises
    it. Outside of JAX's transformations it is computed in float64.

    >>> net, x = ntkgp.mlp(1), np.linspace(-1, 1, 5)
    >>> value, slope = jax.value_and_grad(log_marginal_likelihood, argnums=3)(
    ...     net, x[:, None], np.sin(x), 0.1
    ... )
    >>> bool(slope < 0)  # less noise would do
    True
    """
    row = get_law(law)
    row.require_posterior()
    layered, data = require_layers(net), (x, y, noise_std)
    if is_traced((layered, data)):
        return _log_marginal_likelihood(layered, row.prior, *data)
    with precision(np.float64):
        doubles = (np.asarray(value, np.float64) for value in data)
        return float(_log_marginal_likelihood(layered, row.prior, *doubles))


@partial(jax.jit, static_argnums=1)
def _log_marginal_likelihood(
    net: LayeredNetwork, which: Which, x: Any, y: Any, noise_std: Any
) -> Array:
    inputs, targets = jnp.asarray(x), jnp.asarray(y).reshape(len(x), -1)
    kernel = getattr(net.kernel(inputs, inputs), which)
    factor = jnp.linalg.cholesky(kernel + noise_std**2 * jnp.eye(len(kernel), dtype=kernel.dtype))
    whitened = jax.scipy.linalg.solve_triangular(factor, targets, lower=True)
    log_det = 2 * jnp.sum(jnp.log(jnp.diag(factor)))
    n, c = targets.shape
    return -0.5 * (jnp.sum(whitened**2) + c * log_det + n * c * jnp.log(2 * jnp.pi))


def has_cheap_kernel(net: Network) -> TypeGuard[LayeredNetwork]:
    """Whether the exact kernel of a pair of inputs costs no more than training on them.

    Pooling needs the covariances of all pairs of positions, a million for a small photograph.
    """
    return isinstance(net, LayeredNetwork) and net.entries_per_pair() <= _MOST_ENTRIES


def training_kernel(net: Network, x: NDArray[Any], which: Which, seed: int = 0) -> NDArray[Any]:
    """Θ or 𝒦 of one output on x: exact if that is cheap, else a mean over a few finite networks."""
    if has_cheap_kernel(net):
        return kernel_matrix(net, which, np.asarray(x, np.float64))
    inputs = jnp.asarray(x, jnp.float32)
    part: Part = "all" if which == "ntk" else "readout"
    gram = jax.jit(lambda key: net.tangent_gram(net.init(key), inputs, part))
    keys = jax.random.split(jax.random.key(check_seed(seed)), _DRAWS)
    grams = [np.asarray(gram(key), np.float64) for key in keys]
    step = net.output_dim
    return np.mean(grams, axis=0)[::step, ::step]
