"""A user's own method and noise model, made outside the package, through its public protocols."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkgp
from helpers import as_users_run_it, assert_covariance, assert_not_covariance
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.problem import draw_members

X = np.linspace(-1, 1, 5)[:, None]


@dataclass(frozen=True)
class Scaled:
    """δ(x) = factor · f(x, θ̃): a prior network that is louder or softer."""

    factor: float
    tangent_at_init = False

    def __call__(self, net, theta_0, theta_tilde, x):
        return self.factor * net.apply(theta_tilde, x)


def test_a_method_of_one_s_own_starts_from_the_prior_it_states():
    """f̃₀ = f(x, θ₀) + 2 f(x, θ̃) has the covariance (1 + 4) 𝒦."""
    assert isinstance(Scaled(2.0), ntkgp.Offset)
    loud = ntkgp.Method("randomised-prior", anchor="zero", offset=Scaled(2.0))
    net = ntkgp.mlp(1, width=256, depth=1)
    learner = Baselearner(net, loud, 0.1)
    x = jnp.asarray(X, jnp.float32)
    draws = draw_members(learner, 0, range(2000), jnp.zeros((5, 1)))
    outputs = jax.vmap(learner.predict, in_axes=(0, 0, None))(draws.theta, draws.member, x)
    samples = np.asarray(outputs[:, :, 0], np.float64)
    prior = ntkgp.nngp(net, X)
    assert_covariance(samples, 5 * prior)
    assert_not_covariance(samples, 2 * prior)  # the control: the factor left out


def test_a_method_of_one_s_own_trains():
    loud = ntkgp.Method("randomised-prior", anchor="zero", offset=Scaled(2.0))
    ensemble = ntkgp.fit(
        ntkgp.mlp(1, width=64), X, np.sin(3 * X), method=loud, members=3, noise_std=0.05
    )
    near, far = (ensemble.outputs(x).std(axis=0).max() for x in (X, X + 4))
    assert near < 0.2 * far


@dataclass(frozen=True)
class LaplaceNoise:
    """|y - f̃| / b with b = σ/√2: heavier tails than a normal's, so outliers pull less."""

    heads = 1
    least_squares = False
    exact_gradient = True
    constant = True

    def mean(self, outputs):
        return outputs

    def var(self, outputs, noise_std):
        return jnp.full_like(outputs, noise_std) ** 2

    def unit(self, noise_std):
        return 1.0

    def loss(self, y, epsilon, outputs, noise_std):
        return jnp.sum(jnp.abs(y - outputs), axis=-1) * 2**0.5 / noise_std


def test_a_noise_model_of_one_s_own_trains():
    """One wild target among 40: least squares is drawn towards it, absolute errors are not."""
    assert isinstance(LaplaceNoise(), ntkgp.Noise)
    x = np.linspace(-1, 1, 40)[:, None]
    y = 0.5 * x
    y[20] += 30.0
    trainer = ntkgp.Descent(optax.adam(5e-3), epochs=600, evaluate_every=600)
    net = ntkgp.mlp(1, width=16, depth=1, b_std=0.5)
    errors = {
        type(noise).__name__: np.abs(
            ntkgp.fit(
                net, x, y, method="rp-param", members=2, noise_std=0.3, noise=noise, trainer=trainer
            )
            .outputs(x)
            .mean(axis=0)
            - 0.5 * x
        )[[10, 30]].max()
        for noise in (LaplaceNoise(), ntkgp.ConstantNoise())
    }
    assert errors["LaplaceNoise"] < 0.1
    assert errors["ConstantNoise"] > 3 * errors["LaplaceNoise"]  # the control
    with pytest.raises(ValueError, match="least squares"):
        ntkgp.fit(net, x, y, noise=LaplaceNoise(), trainer=ntkgp.GaussNewton())


def test_what_is_no_noise_model_is_refused_in_words():
    with pytest.raises(TypeError, match=r"ConstantNoise\(\).*LearnedNoise\(\)"):
        ntkgp.fit(ntkgp.mlp(1, width=4), X, X, noise=0.3)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"anchor": "theta"}, ValueError, "anchor of a Method must be one of 'init', 'zero', None"),
        ({"anchor": None, "model": "net"}, ValueError, "model of a Method"),
        ({"anchor": None, "offset": lambda *a: 0.0}, TypeError, "tangent_at_init"),
    ],
)
def test_what_is_no_method_is_refused_in_words(arguments, error, words):
    with as_users_run_it(), pytest.raises(error, match=words):
        ntkgp.Method("ntkgp", **arguments)


@pytest.mark.slow
def test_an_offset_gets_theta_0_only_if_it_says_so():
    seen = []

    @dataclass(frozen=True)
    class Curious:
        tangent_at_init: bool

        def __call__(self, net, theta_0, theta_tilde, x):
            seen.append(theta_0 is not None)
            return net.apply(theta_tilde, x)

    for says in (False, True):
        method = ntkgp.Method("ntkgp", anchor="init", offset=Curious(says))
        ntkgp.fit(ntkgp.mlp(1, width=4), X, X, method=method, members=1)
        assert set(seen) == {says}
        seen.clear()
