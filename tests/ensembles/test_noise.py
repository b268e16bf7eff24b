"""Heteroscedastic regression: Eq. 12, where δ goes, and that the noise is found."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkgp
from helpers import training_set
from ntkgp import METHODS, Descent
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.ensembles.noise import MIN_VAR, ConstantNoise, LearnedNoise

RNG = np.random.default_rng(0)
Y, EPSILON = (jnp.asarray(RNG.normal(size=(5, 2)), jnp.float32) for _ in range(2))
OUTPUTS = jnp.asarray(RNG.normal(size=(5, 4)), jnp.float32)


def by_hand(y, epsilon, outputs):
    """Eq. 12 in float64, one number at a time."""
    losses = []
    for n in range(len(y)):
        loss = 0.0
        for c in range(y.shape[1]):
            var = 1 / (1 + np.exp(-float(outputs[n, y.shape[1] + c]))) + MIN_VAR
            target = float(y[n, c]) + np.sqrt(var) * float(epsilon[n, c])
            loss += (target - float(outputs[n, c])) ** 2 / (2 * var) + np.log(var) / 2
        losses.append(loss)
    return losses


def test_the_loss_is_equation_12_written_out():
    losses = LearnedNoise().loss(Y, EPSILON, OUTPUTS, 0.3)
    np.testing.assert_allclose(losses, by_hand(Y, EPSILON, OUTPUTS), rtol=1e-5)


def test_the_loss_is_a_normal_s_negative_log_density():
    """For ε = 0, up to ½ log 2π for each target."""
    noise = LearnedNoise()
    mean, var = noise.mean(OUTPUTS), noise.var(OUTPUTS, 0.0)
    log_prob = jax.scipy.stats.norm.logpdf(Y, mean, jnp.sqrt(var)).sum(axis=1)
    expected = -log_prob - np.log(2 * np.pi)
    np.testing.assert_allclose(noise.loss(Y, 0 * Y, OUTPUTS, 0.0), expected, rtol=1e-5)


def test_noise_around_a_level_is_the_paper_s_sigmoid_at_level_a_half():
    around, paper = LearnedNoise(most=2.0), LearnedNoise()
    level = 0.5**0.5
    np.testing.assert_allclose(around.var(OUTPUTS, level), paper.var(OUTPUTS, 7.0), rtol=1e-5)
    losses = [noise.loss(Y, EPSILON, OUTPUTS, level) for noise in (around, paper)]
    np.testing.assert_allclose(*losses, atol=1e-5)


@pytest.mark.parametrize("most", [1.5, 100.0])
def test_noise_around_a_level_has_that_level_and_a_limit(most):
    outputs = jnp.asarray([[0.0, 0.0], [0.0, 50.0], [0.0, -50.0], [0.0, 0.1]])
    relative = LearnedNoise(most).var(outputs, 3.0)[:, 0] / 3.0**2
    np.testing.assert_allclose(relative[:2], [1.0, most], rtol=1e-5)
    assert 0 < relative[2] < 1e-5
    # d log σ²/dh = 1 - 1/most at h = 0: nearly one where the limit is far.
    assert np.log(relative[3]) / 0.1 == pytest.approx(1 - 1 / most, rel=0.05)


@pytest.mark.parametrize("most", [1.0, 0.5, float("nan")])
def test_a_limit_of_learned_noise_below_its_level_is_refused(most):
    with pytest.raises(ValueError, match="most of LearnedNoise"):
        LearnedNoise(most)


def test_noise_around_no_level_is_refused():
    x = np.linspace(-1, 1, 5)[:, None]
    with pytest.raises(ValueError, match="noise_std must be > 0"):
        ntkgp.fit(ntkgp.mlp(1, 2, width=4), x, x, noise=LearnedNoise(most=2.0), noise_std=0.0)


def gradient(loss):
    return np.split(jax.grad(lambda outputs: jnp.sum(loss(outputs)))(OUTPUTS), 2, axis=1)


def equation_12(y, epsilon, outputs):
    """Eq. 12 as it stands, σ(x) in the targets included."""
    mean, raw = jnp.split(outputs, 2, axis=1)
    var = jax.nn.sigmoid(raw) + MIN_VAR
    return (y + jnp.sqrt(var) * epsilon - mean) ** 2 / (2 * var) + jnp.log(var) / 2


def test_no_gradient_passes_through_the_target_noise():
    """For the mean the gradient is that of Eq. 12 at y' held fixed; for σ(x) at y itself."""
    noise = LearnedNoise()
    fixed = Y + jnp.sqrt(noise.var(OUTPUTS, 0.0)) * EPSILON
    mean, var = gradient(lambda outputs: noise.loss(Y, EPSILON, outputs, 0.0))
    mean_fixed, var_fixed = gradient(lambda outputs: equation_12(fixed, 0 * Y, outputs))
    _, var_clean = gradient(lambda outputs: equation_12(Y, 0 * Y, outputs))
    _, var_leaking = gradient(lambda outputs: equation_12(Y, EPSILON, outputs))
    np.testing.assert_allclose(mean, mean_fixed, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(var, var_clean, rtol=1e-4, atol=1e-6)
    for wrong in (var_fixed, var_leaking):  # the controls
        assert np.abs(var - wrong).max() > 0.1


def test_variance_learns_from_the_targets_without_their_noise():
    """At the true mean and σ², Eq. 12 at y' held fixed still pushes σ² up. Where the mean
    interpolates y', Eq. 12 differentiated through y' pushes σ² down to 0, and ours stays."""
    rng = np.random.default_rng(0)
    y, epsilon = (jnp.asarray(rng.normal(size=(100_000, 1)) * s, jnp.float32) for s in (0.5, 1))
    truth = jnp.tile(jnp.asarray([[0.0, np.log(0.25 / 0.75)]], jnp.float32), (100_000, 1))

    def mean_slope(loss):
        return float(jax.grad(lambda shift: jnp.mean(loss(truth + shift)))(jnp.zeros(2))[1])

    fixed = y + 0.5 * epsilon
    # ½(1 - r²/σ²) times the sigmoid's slope 0.75 σ²/σ²; r²/σ² has variance 2.
    std_error = 0.375 * 2**0.5 / 100_000**0.5
    assert abs(mean_slope(lambda o: LearnedNoise().loss(y, epsilon, o, 0.0))) < 5 * std_error
    assert mean_slope(lambda o: equation_12(fixed, 0 * y, o)) < -0.3
    truth = truth.at[:, :1].set(fixed)  # a mean that interpolates y'
    assert abs(mean_slope(lambda o: LearnedNoise().loss(y, epsilon, o, 0.0))) < 5 * std_error
    assert mean_slope(lambda o: equation_12(y, epsilon, o)) > 0.3


@pytest.mark.parametrize("method", ["ntkgp-param", "ntkgp-fn", "rp-fn"])
def test_delta_is_on_the_mean_output_only(method):
    net = ntkgp.mlp(1, 2, width=16)
    x = jnp.linspace(-1, 1, 4)[:, None]
    learned = Baselearner(net, METHODS[method], 0.1, noise=LearnedNoise())
    constant = Baselearner(net, METHODS[method], 0.1, noise=ConstantNoise())
    _, member = learned.draw(member_keys(0, 0))
    delta, everywhere = (learner.offset(member, x) for learner in (learned, constant))
    np.testing.assert_array_equal(delta[:, 1], 0)
    np.testing.assert_allclose(delta[:, 0], everywhere[:, 0], rtol=1e-6)
    assert np.abs(everywhere[:, 1]).min() > 0  # the control: without the rule it has one there


def test_the_regulariser_is_that_of_the_objective():
    """N · loss = Σ Eq. 12 + ½‖θ - θ₀‖²_Λ: no σ² in front of the penalty."""
    net = ntkgp.mlp(1, 2, width=4)
    learner = Baselearner(net, METHODS["rp-param"], 0.3, noise=LearnedNoise())
    keys = member_keys(0, 0)
    theta_0, member = learner.draw(keys)
    theta = jax.tree.map(lambda leaf: leaf + 0.1, theta_0)
    x = jnp.linspace(-1, 1, 6)[:, None]
    data = training_set(learner, keys, member, x, jnp.sin(x))
    outputs = learner.predict(theta, member, x)
    expected = np.sum(by_hand(data.y, data.epsilon, outputs)) + float(
        learner.penalty(theta, member)
    )
    assert 6 * float(learner.loss(theta, member, data, 6)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_heteroscedastic_ensemble_finds_the_noise():
    """Noise that grows with x: the learned σ(x) follows it, a constant one cannot."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (600, 1))
    true_std = 0.05 + 0.4 * (x > 0)
    y = 0.5 * np.sin(3 * x) + true_std * rng.standard_normal(x.shape)
    net = ntkgp.mlp(1, 2, width=32, b_std=0.5)  # without bias an erf network is odd in x
    train = partial(ntkgp.fit, net, members=2)
    trainer = Descent(optax.adam(5e-3), epochs=60, batch_size=50)
    ensemble = train(x[:500], y[:500], noise=LearnedNoise(), trainer=trainer)
    std = np.sqrt(ensemble.predict(np.array([[-0.5], [0.5]])).noise_var[:, 0])
    assert 0.03 < std[0] < 0.12
    assert 0.35 < std[1] < 0.55
    stopped = train(
        x[:500],
        y[:500],
        noise=LearnedNoise(),
        trainer=trainer,
        validation=(x[500:], y[500:]),
    )
    held_out = stopped.predict(x[500:])
    nll = -np.mean(held_out.log_prob(y[500:]))
    constant = np.std(y[500:] - held_out.mean)
    assert nll < 0.5 * np.log(2 * np.pi * np.e * constant**2) - 0.2


def test_gauss_newton_refuses_learned_noise():
    x = np.linspace(-1, 1, 5)[:, None]
    with pytest.raises(ValueError, match="Descent"):
        ntkgp.fit(ntkgp.mlp(1, 2, width=4), x, x, noise=LearnedNoise(), trainer=ntkgp.GaussNewton())
    with pytest.raises(ValueError, match="needs 2 outputs of the network for each target"):
        ntkgp.fit(ntkgp.mlp(1, 3, width=4), x, x, noise=LearnedNoise())
