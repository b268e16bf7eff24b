"""What is set after training or before it from the data alone: target scale, temperature, noise."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from ntkgp.core.search import minimise
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.ensembles.methods import Method
from ntkgp.kernels.matrices import kernel_matrix
from ntkgp.laws.evidence import has_cheap_kernel
from ntkgp.laws.table import Law, get_law
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network
from ntkgp.predictive.distributions import Mixture

_DRAWS, _ROWS = 16, 256


def mean_prior_var(net: LayeredNetwork, law: Law, x: NDArray[Any]) -> float:
    """ζ₀ of an exact law: the mean over x of k(x, x), its prior kernel's diagonal."""
    return float(np.mean(kernel_matrix(net, law.prior, np.asarray(x, np.float64), diagonal=True)))


def initial_second_moment(net: Network, method: Method, x: NDArray[Any], seed: int = 0) -> float:
    """ζ₀: the mean square of the baselearners' outputs before training (Appendix H).

    That of the method's law, the mean of Θ(x, x) for the NTKGP methods, where the network has a
    kernel that is cheap; twice that for methods that add a second network to the
    first (Appendix E). Else the mean over a few rows of x, outputs and a few draws.
    """
    if has_cheap_kernel(net):
        times = 2 if method.anchor == "zero" else 1
        return times * mean_prior_var(net, get_law(method.law), x)
    learner = Baselearner(net, method, noise_std=1.0)
    rows = np.linspace(0, len(x) - 1, min(len(x), _ROWS)).astype(int)
    inputs = jnp.asarray(x[rows], jnp.float32)

    @jax.jit
    def square(index: jax.Array) -> jax.Array:
        theta, member = learner.draw(member_keys(seed, index))
        return jnp.mean(learner.predict(theta, member, inputs) ** 2)

    return float(np.mean([square(index) for index in range(_DRAWS)]))


def base_target_scale(zeta_0: float, n_classes: int) -> float:
    """κ = √(C ζ₀): one-hot targets κ e_c then have the second moment ζ₀ of the untrained outputs."""
    return (n_classes * zeta_0) ** 0.5


def member_probabilities(logits: NDArray[Any], temperature: float) -> NDArray[Any]:
    """softmax(z/T) of each member or sample, (k, n, classes)."""
    return special.softmax(logits / temperature, axis=-1)


def mean_probabilities(logits: NDArray[Any], temperature: float) -> NDArray[Any]:
    """1/K Σ_k softmax(z_k/T), (n, classes) (Appendix F)."""
    return member_probabilities(logits, temperature).mean(axis=0)


def best_temperature(logits: NDArray[Any], labels: NDArray[Any]) -> float:
    """T that minimises the cross-entropy of the mean probabilities on held-out data (Section 3.5).

    Args:
        logits: (k, n, classes), of each member, or sample of a law.
        labels: (n,), from 0.

    Labels are smoothed in the manner of Platt (1999), (n + 1)/(n + 2) for the true class and the rest
    shared by the others: a handful of rows without a mistake must not make T zero. With many
    rows that is nothing. The search spans four decades either side of the logits' own size, and
    starts from a grid, because the cross-entropy of a mixture need not have one minimum.
    """
    size = float(np.std(logits)) or 1.0
    n, n_classes = logits.shape[1:]
    true = np.eye(n_classes)[labels]
    smoothed = (true * (n + 1) + (1 - true) / (n_classes - 1)) / (n + 2)

    def cross_entropy(log_temperature: float) -> float:
        probabilities = mean_probabilities(logits, size * 10**log_temperature)
        logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
        return -float(np.mean(np.sum(smoothed * logs, axis=1)))

    return float(size * 10 ** minimise(cross_entropy, -4.0, 4.0))


def best_noise_std(predicted: Mixture, y: NDArray[Any]) -> NDArray[Any]:
    """σ of each output that makes held-out y (n, c) most likely under N(μ_*, epistemic var + σ²).

    That is the normal with the mixture's moments (Appendix F). The members' own noise is not used.
    """
    squares, epistemic = (y - predicted.mean) ** 2, predicted.epistemic_var
    return np.array([_best_noise(*column) for column in zip(squares.T, epistemic.T, strict=True)])


def _best_noise(squares: NDArray[Any], epistemic: NDArray[Any]) -> float:
    size = float(np.sqrt(np.mean(squares))) or 1.0

    def negative_log_likelihood(log_std: float) -> float:
        var = epistemic + (size * 10**log_std) ** 2
        return float(np.mean(squares / var + np.log(var)))

    return float(size * 10 ** minimise(negative_log_likelihood, -3.0, 1.0))
