"""Noise level and prior scale by the marginal likelihood of the infinitely wide network."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from ntkgp.kernels import Which, nngp, ntk
from ntkgp.networks import LayeredNetwork, Network
from ntkgp.typing import Part

_DRAWS = 4
_LOG_RATIOS = (-6.0, 4.0)
"""Range of log₁₀ of noise variance over the kernel's mean diagonal."""


class Evidence(NamedTuple):
    """The best Gaussian process of the form GP(0, scale² · kernel) with noise of noise_std."""

    log_marginal_likelihood: float
    noise_std: float
    """σ, in the units of y."""
    scale: float
    """Prior standard deviation of the function, relative to the kernel's."""


def best_noise_and_scale(kernel: NDArray[Any], y: NDArray[Any]) -> Evidence:
    """Maximise log N(y; 0, s²(k + ρI)), summed over the columns of y, in s and ρ.

    With k = U diag(λ) Uᵀ it is a function of ρ alone, because the best s for each ρ is

        s² = 1/(n c) Σ_ij (Uᵀy)²_ij / (λ_i + ρ),

    so one eigendecomposition serves every noise level tried.

    Args:
        kernel: (n, n), for instance `ntk(net, x)`.
        y: targets (n, c), not all zero.

    >>> x, rng = np.linspace(-2, 2, 200)[:, None], np.random.default_rng(0)
    >>> y = np.sin(2 * x) + 0.2 * rng.standard_normal(x.shape)
    >>> round(best_noise_and_scale(ntkgp.ntk(ntkgp.mlp(1), x), y).noise_std, 1)
    0.2
    """
    if not np.any(y):
        raise ValueError("y is zero throughout: any noise level explains it, so there is no best.")
    eigenvalues, vectors = linalg.eigh(kernel)
    eigenvalues = np.maximum(eigenvalues, 0)
    squares = np.sum((vectors.T @ y) ** 2, axis=1)
    n, c = y.shape
    unit = float(np.mean(np.diag(kernel)))

    def scale_var(log_ratio: float) -> float:
        return float(np.sum(squares / (eigenvalues + unit * 10**log_ratio)) / (n * c))

    def log_likelihood(log_ratio: float) -> float:
        log_det = np.sum(np.log(eigenvalues + unit * 10**log_ratio))
        return -0.5 * c * (n * np.log(2 * np.pi * scale_var(log_ratio)) + log_det + n)

    grid = np.arange(*_LOG_RATIOS, 0.25)
    start = grid[np.argmax([log_likelihood(ratio) for ratio in grid])]
    bounds = max(start - 0.25, _LOG_RATIOS[0]), min(start + 0.25, _LOG_RATIOS[1])
    best = optimize.minimize_scalar(
        lambda ratio: -log_likelihood(ratio), bounds=bounds, method="bounded"
    ).x
    variance = scale_var(best)
    return Evidence(log_likelihood(best), (variance * unit * 10**best) ** 0.5, variance**0.5)


def training_kernel(net: Network, x: NDArray[Any], which: Which, seed: int = 0) -> NDArray[Any]:
    """Θ or 𝒦 of one output on x: exact for layers, else the mean of a few finite draws' own."""
    if isinstance(net, LayeredNetwork):
        return (ntk if which == "ntk" else nngp)(net, np.asarray(x, np.float64))
    inputs = jnp.asarray(x, jnp.float32)
    part: Part = "all" if which == "ntk" else "readout"
    gram = jax.jit(lambda key: net.tangent_gram(net.init(key), inputs, part))
    keys = jax.random.split(jax.random.key(seed), _DRAWS)
    grams = [np.asarray(gram(key), np.float64) for key in keys]
    step = net.output_dim
    return np.mean(grams, axis=0)[::step, ::step]
