"""Layers that a user writes, by the public `Layer` and `Activation` alone."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkgp
from helpers import (
    as_users_run_it,
    assert_covariance,
    assert_not_covariance,
    dense_jacobian,
    draws,
    flat,
    inputs_for,
)
from ntkgp.networks.layers import Activation, Conv, Dense, GlobalAvgPool, Kernels, Layer, Relu, Sin

WIDTH = 96


@dataclass(frozen=True)
class Cos(Activation):
    """φ(x) = cos(x); E[φφ] = exp(-(v1 + v2)/2) cosh(cov), E[φ'φ'] = exp(-(v1 + v2)/2) sinh(cov)."""

    def phi(self, x):
        return jnp.cos(x)

    def dual(self, cov, var1, var2):
        return jnp.exp(-(var1 + var2) / 2) * jnp.cosh(cov)

    def dual_derivative(self, cov, var1, var2):
        return jnp.exp(-(var1 + var2) / 2) * jnp.sinh(cov)


@dataclass(frozen=True)
class Scale(Layer):
    """z = factor · x; 𝒦' = factor² 𝒦, and Θ' likewise."""

    factor: float

    def out_shape(self, in_shape):
        return in_shape

    def apply(self, params, x):
        return self.factor * x

    def kernel(self, k, in_shape, metric):
        return Kernels(*(self.factor**2 * cov for cov in k))


@dataclass(frozen=True)
class Shift(Layer):
    """z = x + b, one b ~ N(0, std²) a channel; 𝒦' = 𝒦 + std², Θ' = Θ + std², or Θ + 1 for J Jᵀ."""

    std: float

    def out_shape(self, in_shape):
        return in_shape

    def shapes(self, in_shape):
        return {"b": jax.ShapeDtypeStruct(in_shape[-1:], jnp.float32)}

    def prior_var(self, in_shape):
        return {"b": self.std**2}

    def apply(self, params, x):
        return x + params["b"]

    def kernel(self, k, in_shape, metric):
        own = self.std**2 if metric == "prior" else 1.0
        var = self.std**2
        return Kernels(k.nngp + var, k.ntk + own, k.var1 + var, k.var2 + var)


def vectors(phi, factor=0.7, std=0.6):
    own = [Dense(WIDTH, b_std=0.2), Shift(std), phi, Dense(WIDTH), Scale(factor)]
    return ntkgp.LayeredNetwork((3,), own, Dense(1))


def images(phi, factor=0.7, std=0.6):
    own = [Conv(WIDTH // 2), Shift(std), phi, Scale(factor), GlobalAvgPool()]
    return ntkgp.LayeredNetwork((3, 3, 2), own, Dense(1))


NETWORKS = {"vectors": vectors, "images": images}
WRONG = {  # each with one layer's kernel not that of the layer that is sampled
    "another activation": {"phi": Sin()},
    "another factor": {"phi": Cos(), "factor": 1.4},
    "another shift": {"phi": Cos(), "std": 1.8},
}


@pytest.mark.quick("vectors")
@pytest.mark.optimised
@pytest.mark.parametrize("name", NETWORKS)
def test_random_networks_have_the_kernel_that_the_layers_state(name):
    """𝒦 as the covariance of outputs, Θ as the mean of Θ̂; each wrong kernel is a control."""
    net = NETWORKS[name](Cos())
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)

    def sample(key):
        theta = net.init(key)
        return net.apply(theta, x)[:, 0], net.tangent_gram(theta, x)

    outputs, grams = draws(sample, 2000)
    std_error = grams.std(axis=0, ddof=1) / len(grams) ** 0.5

    def has_ntk(expected):
        """Within five standard errors and the bias of order 1/width."""
        bias = 4 / WIDTH * np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        return np.all(np.abs(grams.mean(axis=0) - expected) < 5 * std_error + bias)

    right = ntkgp.kernel_matrices(net, np.asarray(x))
    assert_covariance(outputs, right.nngp)
    assert has_ntk(right.ntk)
    for wrong in WRONG.values():
        other = ntkgp.kernel_matrices(NETWORKS[name](**wrong), np.asarray(x))
        assert_not_covariance(outputs, other.nngp)
        assert not has_ntk(other.ntk)


@pytest.mark.parametrize("metric", ["prior", "gradient"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_empirical_ntk_counts_the_parameters_of_such_layers(name, metric):
    net = NETWORKS[name](Cos())
    theta = net.init(jax.random.key(0))
    x = jnp.asarray(inputs_for(net, 3), jnp.float32)
    jacobian = dense_jacobian(net.apply, theta, x)
    weights = flat(net.prior_var(), theta) if metric == "prior" else 1.0
    expected = (jacobian * weights) @ jacobian.T
    gram = jax.jit(lambda theta: net.tangent_gram(theta, x, "all", metric))(theta)
    np.testing.assert_allclose(gram, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ntkgp-param", "rp-fn"])
def test_such_networks_are_trained(method):
    net = vectors(Cos())
    x = inputs_for(net, 6)
    y = np.sin(x[:, 0])
    ensemble = ntkgp.fit(
        net, x, y, method=method, members=2, trainer=ntkgp.GaussNewton(max_steps=8)
    )
    assert (ensemble.objectives < ensemble.losses[:, 0]).all()
    before = np.mean(y**2)
    assert np.mean((ensemble.predict(x).mean[:, 0] - y) ** 2) < 0.5 * before


def test_an_own_activation_is_held_to_gaussian_inputs_too():
    with pytest.raises(ValueError, match=r"Cos\(\) must follow a Dense or Conv layer"):
        ntkgp.LayeredNetwork((3,), [Cos()], Dense(1))


@dataclass
class Thawed(Layer):
    factor: float

    out_shape, apply, kernel = Scale.out_shape, Scale.apply, Scale.kernel


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (jnp.tanh, r"such as Relu\(\), or of your own subclass of ntkgp.layers.Layer; it holds"),
        (Relu, "it holds <class"),
        (Thawed(1.0), r"hashable.*Thawed a frozen dataclass, @dataclass\(frozen=True\)"),
    ],
)
def test_what_is_no_layer_is_refused_in_words(stranger, words):
    with as_users_run_it(), pytest.raises(TypeError, match=words):
        ntkgp.LayeredNetwork((3,), [Dense(4), stranger], Dense(1))
