"""How targets lie about a linearised network's outputs: normal noise, or classes by softmax.

Each likelihood gives its curvature H = L Lᵀ at the outputs f̂ = f(x, θ̂), and chooses the scale s of the
prior w ~ N(0, s²I) by marginal likelihood.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ntkgp.core.arrays import check_inputs
from ntkgp.core.search import minimise
from ntkgp.kernels.features import Features
from ntkgp.laws.evidence import best_of
from ntkgp.laws.linear import Gram

_LOG_SCALES = (-6.0, 6.0)
"""Range of log₁₀ of s², in units of the mean square of ŵ."""


class Fitted(NamedTuple):
    """A quadratic model about θ̂, with its scale."""

    gram: Gram
    root: NDArray[Any]
    """L of each input, (n, c, c)."""
    scale: float
    noise_std: float
    log_constant: float
    """What the log marginal likelihood has besides that of `gram`."""


class Likelihood(Protocol):
    """What `linearise` needs to know of the targets."""

    has_noise: bool

    def targets(self, y: ArrayLike, n: int, c: int) -> NDArray[Any]:
        """Checked, for n rows and c outputs."""

    def fit(
        self,
        features: Features,
        x: NDArray[Any],
        y: NDArray[Any],
        noise_std: float | None,
        scale: float | None,
    ) -> Fitted:
        """The quadratic model about θ̂; what is None is chosen by marginal likelihood."""


class NormalLikelihood:
    """y = f(x) + σε. Its curvature is I/σ², and the linearised model is exactly Gaussian.

    The model f(x, θ̂) + J(θ - θ̂) explains pseudo-targets that do not depend on θ,

        ỹ = y - f(x, θ̂) + J θ̂ ~ N(0, s² J Λ Jᵀ + σ²I).

    Residuals alone would not do: a network that fits well would make s vanish.
    """

    has_noise = True

    def targets(self, y: ArrayLike, n: int, c: int) -> NDArray[Any]:
        array = np.asarray(y)
        array = array[:, None] if array.ndim == 1 else array
        if array.shape != (n, c):
            raise ValueError(
                f"y must have shape ({n}, {c}), one row for each row of x and one column for each "
                f"output of the network; got {np.shape(y)}. For class labels there is "
                'likelihood="categorical".'
            )
        return check_inputs("y", array, (c,), np.float64)

    def fit(
        self,
        features: Features,
        x: NDArray[Any],
        y: NDArray[Any],
        noise_std: float | None,
        scale: float | None,
    ) -> Fitted:
        n, c = y.shape
        linear = np.concatenate([phi @ features.weights() for _, phi in features.blocks(x)])
        pseudo = y - features.values(x) + linear.reshape(n, c)
        eye = np.broadcast_to(np.eye(c), (n, c, c))
        gram = Gram.of(features, x, eye, pseudo)
        if noise_std is None or scale is None:
            if not np.any(pseudo):
                raise ValueError(
                    "y and the network are zero throughout, so no noise level is best: "
                    "give noise_std and scale."
                )
            best = best_of(gram.spectrum(), noise_std, scale)
            noise_std, scale = best.noise_std, best.scale
        log_constant = -n * c * float(np.log(noise_std))
        return Fitted(gram.divided_by(noise_std), eye / noise_std, scale, noise_std, log_constant)


class CategoricalLikelihood:
    """Class k with probability softmax(f(x))_k. Its curvature at f̂ is H = diag(p) - ppᵀ.

    That is the generalised Gauss-Newton matrix. With q = √p it has the root L = diag(q)(I - qqᵀ). The
    scale maximises Laplace's approximation of the evidence, which takes θ̂ for the mode,

        log p(y | θ̂) - ½ θ̂ᵀ Λ⁻¹ θ̂ / s² - ½ log det (I + s² ΨΨᵀ).
    """

    has_noise = False

    def targets(self, y: ArrayLike, n: int, c: int) -> NDArray[Any]:
        labels = np.asarray(y)
        if c < 2:
            raise ValueError(
                'likelihood="categorical" needs one output for each class, so at least 2; the network '
                "has 1. For two classes give it two outputs."
            )
        if labels.shape != (n,) or labels.dtype.kind not in "iub":
            raise ValueError(
                f"y must be {n} labels, integers from 0 to {c - 1}; got shape {labels.shape} and "
                f"dtype {labels.dtype}."
            )
        if labels.min() < 0 or labels.max() >= c:
            raise ValueError(
                f"y must hold integers from 0 to {c - 1}, one class for each output of the network; "
                f"it has {labels.min()} to {labels.max()}."
            )
        return labels.astype(np.int64)

    def fit(
        self,
        features: Features,
        x: NDArray[Any],
        y: NDArray[Any],
        noise_std: float | None,
        scale: float | None,
    ) -> Fitted:
        if noise_std is not None:
            raise ValueError(
                f'noise_std is for likelihood="normal": class labels have none; got {noise_std!r}.'
            )
        outputs = features.values(x)
        root = softmax_root(special.softmax(outputs, axis=1))
        gram = Gram.of(features, x, root, np.zeros_like(outputs))
        square = float(np.sum(features.weights() ** 2))
        if scale is None:
            scale = _laplace_scale(gram.eigenvalues(), square, features.count)
        fit = float(np.sum(special.log_softmax(outputs, axis=1)[np.arange(len(y)), y]))
        # log N(t; 0, ...) of no targets at all is the determinant and this constant.
        log_constant = fit - 0.5 * square / scale**2 + 0.5 * gram.size * float(np.log(2 * np.pi))
        return Fitted(gram, root, scale, 0.0, log_constant)


LIKELIHOODS: dict[str, Likelihood] = {
    "normal": NormalLikelihood(),
    "categorical": CategoricalLikelihood(),
}


def softmax_root(probabilities: NDArray[Any]) -> NDArray[Any]:
    """L with L Lᵀ = diag(p) - ppᵀ for each row of probabilities, (n, c, c).

    >>> p = np.array([0.2, 0.8])
    >>> (root,) = softmax_root(p[None])
    >>> np.allclose(root @ root.T, np.diag(p) - np.outer(p, p))
    True
    """
    q = np.sqrt(probabilities / np.sum(probabilities, axis=1, keepdims=True))
    eye = np.eye(q.shape[1])
    return q[:, :, None] * (eye - q[:, :, None] * q[:, None, :])


def _laplace_scale(eigenvalues: NDArray[Any], square: float, count: int) -> float:
    """s that maximises -½ ‖ŵ‖²/s² - ½ Σ log(1 + s²λ)."""
    unit = square / count
    if not unit > 0:
        raise ValueError("theta is zero throughout, so no scale is best: give scale.")

    def loss(log_scale_var: float) -> float:
        scale_var = unit * 10**log_scale_var
        return 0.5 * float(square / scale_var + np.sum(np.log1p(scale_var * eigenvalues)))

    return float(np.sqrt(unit * 10 ** minimise(loss, *_LOG_SCALES)))
