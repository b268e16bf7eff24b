"""A trained network made Bayesian after the fact: the Gaussian process of its linearisation."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ntkgp.core.arrays import check_counts, check_inputs, check_part
from ntkgp.core.compilation import before_compiling
from ntkgp.core.memory import require_covariance
from ntkgp.core.search import minimise
from ntkgp.core.storage import save, storable
from ntkgp.core.typing import Metric, Params, Part
from ntkgp.kernels import linalg
from ntkgp.kernels.features import Features
from ntkgp.laws.likelihoods import LIKELIHOODS
from ntkgp.laws.linear import Posterior, forecast
from ntkgp.networks.protocol import Network
from ntkgp.predictive.calibration import best_noise_std
from ntkgp.predictive.distributions import Normal

Mean = Literal["network", "posterior"]


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Linearised:
    """What a trained network knows, and how well; `linearise` makes it.

    With k = s² J Λ Jᵀ at θ̂ and the curvature H of the targets, H = I/σ² for normal noise, the function
    at new inputs has the covariance

        Σ = k_tt - k_td (k_dd + H⁻¹)⁻¹ k_dt,

    computed on the smaller side: between training targets, or between parameters.
    """

    features: Features
    """The network, its θ̂, and which of its parameters move."""
    posterior: Posterior
    likelihood: str
    noise_std: float
    """σ that the data were conditioned with, in the units of y; 0 for classes."""
    observation_std: NDArray[Any]
    """σ of each output in predictions, (c,): the same, or what rows held out say."""
    factor: float
    """What the standard deviation of the function is multiplied with, by rows held out; else 1."""
    rows: int
    """How many training rows it is conditioned on."""
    value: float
    mean_of: Mean

    def __repr__(self) -> str:
        part = {"all": "all parameters", "body": "the body"}.get(self.features.part, "the readout")
        noise = f", noise_std {self.noise_std:.4g}" if self.noise_std else ""
        return (
            f"<Linearised in {part} ({self.features.count:,}), {self.likelihood}, {self.rows:,} "
            f"row{'s' * (self.rows > 1)}, scale {self.scale:.4g}{noise}>"
        )

    def __check_stored__(self) -> None:
        outputs, x = self.features.outputs, self.posterior.x
        check_part("observation_std", self.observation_std, (outputs,))
        inputs = None if x is None else x.shape[1:]
        side = self.features.count if x is None else outputs * len(x)
        if side != len(self.posterior.factor) or inputs not in (
            None,
            self.features.net.input_shape,
        ):
            raise ValueError("the posterior is not one of this network.")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"there is no likelihood {self.likelihood!r}.")

    @property
    def scale(self) -> float:
        """s: θ ~ N(0, s²Λ)."""
        return self.posterior.scale

    def log_marginal_likelihood(self) -> float:
        """Of the linearised model: log N(ỹ; 0, k_dd + σ²I), or Laplace's approximation for classes."""
        return self.value

    def mean(self, x: ArrayLike) -> NDArray[Any]:
        """f(x, θ̂), (n, c); with mean="posterior", the linearised model's own mean."""
        return self._mean(self._inputs(x))

    def predict(self, x: ArrayLike) -> Normal:
        """Mean, variance of the function and noise at each x, in batches; logits for classes."""
        inputs = self._inputs(x)
        var = np.diagonal(self._blocks(inputs), axis1=1, axis2=2)
        return Normal(self._mean(inputs), np.maximum(var, 0), self.observation_std**2)

    def covariance(self, x: ArrayLike) -> NDArray[Any]:
        """Σ(x, x'), (n·c, n·c), inputs first, outputs within: the function's, without noise."""
        inputs = self._inputs(x)
        entries = len(inputs) * self.features.outputs
        require_covariance(entries, 3, other_bytes=2 * 8 * len(self.posterior.factor) * entries)
        return self.factor**2 * self.posterior.covariance(self.features, inputs)

    def sample(self, x: ArrayLike, n_samples: int, seed: int = 0) -> NDArray[Any]:
        """Functions drawn from the posterior, at x: (n_samples, n, c), without noise."""
        mean, rng = self.mean(x), np.random.default_rng(seed)
        noise = linalg.sample_gaussian(self.covariance(x), n_samples, 1, rng)
        return mean + noise.reshape(n_samples, *mean.shape)

    def probabilities(
        self, x: ArrayLike, n_samples: int | None = None, seed: int = 0
    ) -> NDArray[Any]:
        """Class probabilities at each x, (n, c).

        By MacKay's probit approximation, softmax(f_k / √(1 + π/8 Σ_kk)); or, with `n_samples`, the
        mean of softmax over that many draws of the logits at each x.
        """
        if self.likelihood != "categorical":
            raise ValueError(
                f"this network was linearised with likelihood={self.likelihood!r}, so it has no class "
                'probabilities: give linearise(..., likelihood="categorical") and labels.'
            )
        inputs = self._inputs(x)
        mean, blocks = self._mean(inputs), self._blocks(inputs)
        if n_samples is None:
            return probit(mean, np.diagonal(blocks, axis1=1, axis2=2))
        check_counts(n_samples=n_samples)
        values, vectors = np.linalg.eigh(blocks)
        roots = vectors * np.sqrt(np.maximum(values, 0))[:, None]
        rng, total = np.random.default_rng(seed), np.zeros_like(mean)
        for _ in range(n_samples):
            noise = np.einsum("nij,nj->ni", roots, rng.standard_normal(mean.shape))
            total += special.softmax(mean + noise, axis=1)
        return total / n_samples

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into one file, safetensors, for `ntkgp.load`.

        The code of an adapted network is not in the file: give `load` the same network again.
        """
        save(self, path)

    def _inputs(self, x: ArrayLike) -> NDArray[Any]:
        return check_inputs("x", x, self.features.net.input_shape, np.float64)

    def _mean(self, inputs: NDArray[Any]) -> NDArray[Any]:
        values = self.features.values(inputs)
        if self.mean_of == "network":
            return values
        linear = [phi @ self.features.weights() for _, phi in self.features.blocks(inputs)]
        shift = self.posterior.mean(self.features, inputs) - np.concatenate(linear)
        return values + shift.reshape(values.shape)

    def _blocks(self, inputs: NDArray[Any]) -> NDArray[Any]:
        return self.factor**2 * self.posterior.blocks(self.features, inputs)


def linearise(
    net: Network,
    theta: Params,
    x: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "normal",
    noise_std: float | None = None,
    scale: float | None = None,
    part: Part = "all",
    metric: Metric = "prior",
    mean: Mean = "network",
    rows: int | None = None,
    held_out: Sequence[ArrayLike] | None = None,
    seed: int = 0,
) -> Linearised:
    """A trained network as a Gaussian process: linearised Laplace.

        f(x) = f(x, θ̂) + J(x, θ̂)(θ - θ̂),    θ ~ N(0, s²Λ)

    Nothing is trained. What does not fit into memory is refused before it is computed: the smaller
    of n·c and the number of parameters, squared, three times in float64.

    Args:
        net: a network; `ntkgp.adapters.from_trained` makes one of a trained module.
        theta: its trained parameters θ̂, in the pytree of `net.init`.
        x: training inputs (n, *input_shape).
        y: training targets (n, c), or (n,) for one output; n labels for classes.
        likelihood: "normal" noise, or "categorical" for classes, with logits as outputs.
        noise_std: σ, in the units of y; by marginal likelihood when left out.
        scale: s; by marginal likelihood when left out.
        part: "all" parameters move, or those of the "readout", the last layer, or of the "body".
        metric: "prior" for the network's own Λ, "gradient" for Λ = I, one variance for all.
        mean: "network" for f(x, θ̂), what the trained network says. "posterior" for the mean of the
            linearised model, which differs where θ̂ is not the mode; normal likelihood only.
        rows: the most training rows to condition on, drawn at random. At one scale and
            noise, fewer rows leave more variance, never less.
        held_out: rows (x, y) that the network was not trained on. They set the noise of predictions,
            or for classes the factor of the function's standard deviation.
        seed: draws the rows.

    >>> net, x = ntkgp.mlp(1, width=32), np.linspace(-1, 1, 20)[:, None]
    >>> trained = ntkgp.fit(net, x, np.sin(3 * x), method="deep-ensemble", members=1)
    >>> theta = jax.tree.map(lambda leaf: leaf[0], trained.theta)
    >>> model = linearise(net, theta, x, np.sin(3 * x))
    >>> near, far = model.predict([[0.5], [4.0]]).std[:, 0]
    >>> bool(far > 3 * near)
    True
    """
    before_compiling()
    kind = LIKELIHOODS.get(likelihood)
    if kind is None:
        names = ", ".join(map(repr, LIKELIHOODS))
        raise ValueError(f"likelihood must be one of {names}; got {likelihood!r}.")
    _check_choices(noise_std, scale, mean, kind.has_noise)
    features = Features(net, _checked_theta(net, theta), part, metric)
    inputs = np.array(check_inputs("x", x, net.input_shape, np.float64))  # a copy
    targets = kind.targets(y, len(inputs), net.output_dim)
    if rows is not None:
        check_counts(rows=rows)
        chosen = np.sort(np.random.default_rng(seed).permutation(len(inputs))[:rows])
        inputs, targets = inputs[chosen], targets[chosen]
    forecast(features, len(inputs))
    fitted = kind.fit(features, inputs, targets, noise_std, scale)
    posterior = Posterior.of(fitted.gram, fitted.scale, inputs, fitted.root)
    model = Linearised(
        features=features,
        posterior=posterior,
        likelihood=likelihood,
        noise_std=fitted.noise_std,
        observation_std=np.full(net.output_dim, fitted.noise_std),
        factor=1.0,
        rows=len(inputs),
        value=fitted.gram.log_evidence(posterior.factor, fitted.scale) + fitted.log_constant,
        mean_of=mean,
    )
    return model if held_out is None else _calibrated(model, held_out)


def probit(mean: NDArray[Any], var: NDArray[Any]) -> NDArray[Any]:
    """softmax(f_k / √(1 + π/8 Σ_kk)) (MacKay, 1992).

    >>> probit(np.array([[2.0, 0.0]]), np.array([[1e6, 1e6]])).round(2).tolist()
    [[0.5, 0.5]]
    """
    return special.softmax(mean / np.sqrt(1 + np.pi / 8 * np.maximum(var, 0)), axis=1)


def _calibrated(model: Linearised, held_out: Sequence[ArrayLike]) -> Linearised:
    """With the noise, or the factor, under which rows held out are most likely."""
    if len(held_out) != 2:
        raise ValueError(
            f"held_out must be a pair of inputs and targets, held_out=(x, y); got {len(held_out)} values."
        )
    kind, inputs = LIKELIHOODS[model.likelihood], model._inputs(held_out[0])
    targets = kind.targets(held_out[1], len(inputs), model.features.outputs)
    predicted = model.predict(inputs)
    if kind.has_noise:
        noise = best_noise_std(predicted, targets, model.noise_std)
        return replace(model, observation_std=noise)

    def loss(log_factor: float) -> float:
        probabilities = probit(predicted.mean, 100**log_factor * predicted.epistemic_var)
        own = probabilities[np.arange(len(targets)), targets]
        return -float(np.mean(np.log(np.maximum(own, np.finfo(float).tiny))))

    return replace(model, factor=float(10 ** minimise(loss, -2.0, 2.0)))


def _check_choices(
    noise_std: float | None, scale: float | None, mean: str, has_noise: bool
) -> None:
    for name, value in (("noise_std", noise_std), ("scale", scale)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(
                f"{name} must be None, to be chosen by marginal likelihood, or a finite number > 0; "
                f"got {value!r}."
            )
    if mean not in ("network", "posterior"):
        raise ValueError(f'mean must be "network" or "posterior"; got {mean!r}.')
    if mean == "posterior" and not has_noise:
        raise ValueError(
            'mean="posterior" is for likelihood="normal"; class probabilities are about the '
            'network\'s own logits: leave mean at "network".'
        )


def _checked_theta(net: Network, theta: Params) -> Params:
    expected, given = (
        (str(jax.tree.structure(tree)), [np.shape(leaf) for leaf in jax.tree.leaves(tree)])
        for tree in (jax.eval_shape(net.init, jax.random.key(0)), theta)
    )
    if expected != given:
        raise ValueError(
            "theta must be the trained parameters of net, in the pytree and shapes of net.init(key): "
            f"{expected[0]} of {expected[1]}; got {given[0]} of {given[1]}. For a trained module: "
            "net, theta = ntkgp.adapters.from_trained(...)."
        )
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), theta)
