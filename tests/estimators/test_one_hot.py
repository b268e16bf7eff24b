"""Target scale, temperature and noise, each against brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special
from sklearn.metrics import log_loss

import ntkgp
from helpers import without_kernel
from ntkgp import METHODS, Mixture, Normal
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.estimators.one_hot import second_moment, target_scale
from ntkgp.predictive.calibration import best_noise_std, best_temperature, mean_probabilities

X = np.random.default_rng(0).normal(size=(6, 3))


@pytest.mark.quick("ntkgp-fn", "ntkgp-param")
@pytest.mark.optimised
@pytest.mark.parametrize("method", ["ntkgp-param", "ntkgp-fn", "rp-param", "rp-fn"])
def test_zeta_0_is_the_second_moment_of_untrained_members(method):
    net = ntkgp.mlp(3, 2, width=128)
    learner = Baselearner(net, METHODS[method], 0.1)

    @jax.jit
    def squares(index):
        theta, member = learner.draw(member_keys(1, index))
        return (learner.predict(theta, member, jnp.asarray(X, jnp.float32)) ** 2).mean()

    sample = np.array([squares(index) for index in range(400)])
    expected = second_moment(net, METHODS[method], X)
    std_error = sample.std() / len(sample) ** 0.5
    assert abs(sample.mean() - expected) < 5 * std_error
    assert abs(sample.mean() - 2 * expected) > 5 * std_error  # the control


@pytest.mark.slow
def test_zeta_0_of_a_network_without_a_kernel_is_estimated_by_draws():
    net = ntkgp.mlp(3, 2, width=64)
    adapted = without_kernel(net)
    method = METHODS["ntkgp-param"]
    exact, estimated = (second_moment(n, method, X) for n in (net, adapted))
    assert estimated == pytest.approx(exact, rel=0.5)


def test_zeta_0_of_a_method_of_one_s_own_is_estimated_by_draws():
    """f̃₀ = f(x, θ₀) alone, though its anchor is zero: the factor of the paper's methods is not its own."""
    net, own = ntkgp.mlp(3, 2, width=64), ntkgp.Method("randomised-prior", anchor="zero")
    expected = second_moment(net, METHODS["rp-param"], X)
    assert second_moment(net, own, X) == pytest.approx(expected, rel=0.5)
    assert second_moment(net, METHODS["rp-fn"], X) == pytest.approx(2 * expected)  # the control


def test_scaled_one_hot_targets_have_the_second_moment_zeta_0():
    kappa = target_scale(1.7, 10)
    targets = kappa * np.eye(10)[np.arange(10)]
    assert np.mean(targets**2) == pytest.approx(1.7)


def logits_and_labels(scale):
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=4000)
    signal = 2 * np.eye(4)[labels] + rng.normal(size=(4000, 4))
    return scale * np.stack(
        [signal + 0.3 * rng.normal(size=signal.shape) for _ in range(3)]
    ), labels


@pytest.mark.quick("1.0")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_temperature_minimises_the_cross_entropy(scale):
    """Against scikit-learn's log loss on a fine grid; the smoothing is 1/4000 here."""
    logits, labels = logits_and_labels(scale)
    found = best_temperature(logits, labels)
    grid = scale * np.geomspace(0.3, 3, 201)
    losses = [log_loss(labels, mean_probabilities(logits, t)) for t in grid]
    assert log_loss(labels, mean_probabilities(logits, found)) < min(losses) + 1e-4


def test_temperature_stays_above_zero_where_no_row_is_wrong():
    """Ten rows without a mistake: unsmoothed, T → 0 and the probabilities are certainties."""
    labels = np.arange(10) % 2
    logits = np.eye(2)[labels][None] * 3.0
    probabilities = mean_probabilities(logits, best_temperature(logits, labels))
    assert np.max(probabilities) == pytest.approx(11 / 12, abs=1e-3)


def test_a_temperature_that_is_expected_gives_way_to_many_rows_only():
    logits, labels = logits_and_labels(1.0)
    alone = best_temperature(logits, labels)
    assert best_temperature(logits, labels, expected=3 * alone) == pytest.approx(alone, rel=0.1)
    few = best_temperature(logits[:, :8], labels[:8], expected=3 * alone)

    def negative_log_posterior(t):
        entropy = log_loss(labels[:8], mean_probabilities(logits[:, :8], t), labels=range(4))
        return 8 * entropy + (np.log(t / (3 * alone)) / 0.25) ** 2 / 2

    bounds = (0.1 * alone, 10 * alone)
    brute = optimize.minimize_scalar(negative_log_posterior, bounds=bounds, method="bounded").x
    assert few == pytest.approx(brute, rel=1e-3)
    assert 1.5 * alone < few < 3 * alone


def test_members_take_the_temperature_of_their_law_where_no_rows_are_held_out():
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(int)
    options = {"activation": "erf", "depth": 1, "random_state": 0}
    law = ntkgp.GPClassifier(validation_samples=100, **options).fit(x, y)
    model = ntkgp.EnsembleClassifier(
        members=2, width=16, min_steps=20, validation_fraction=0, **options
    ).fit(x, y)
    assert model.kappa_ == pytest.approx(law.kappa_)
    assert model.temperature_ == pytest.approx(law.temperature_)


def test_mean_probabilities_average_the_softmax_not_the_logits():
    logits = np.array([[[4.0, 0.0]], [[-4.0, 0.0]]])
    by_hand = (special.softmax([4.0, 0.0]) + special.softmax([-4.0, 0.0])) / 2
    np.testing.assert_allclose(mean_probabilities(logits, 1.0)[0], by_hand)


def test_noise_maximises_the_held_out_likelihood():
    rng = np.random.default_rng(4)
    f = rng.normal(size=(500, 1))
    means = f + 0.3 * rng.normal(size=(5, 500, 1))
    y = f + 0.5 * rng.normal(size=f.shape)
    predicted = Mixture(means, 1.0)

    def negative(std):
        normal = ntkgp.Normal(predicted.mean, predicted.epistemic_var, std**2)
        return -np.mean(normal.log_prob(y))

    brute = optimize.minimize_scalar(negative, bounds=(0.01, 2), method="bounded").x
    assert best_noise_std(predicted, y) == pytest.approx([brute], rel=1e-3)
    louder = f + 2.0 * rng.normal(size=f.shape)
    both = Mixture(np.concatenate([means, means], axis=2), 1.0)
    found = best_noise_std(both, np.concatenate([y, louder], axis=1))
    assert found[0] == pytest.approx(brute, rel=1e-3)  # each output has its own
    assert found[1] == pytest.approx(2.0, rel=5 / (2 * 500) ** 0.5)


def test_the_noise_of_rows_that_differ_is_that_of_their_unit():
    """y ~ N(0, v + rσ²) with r known: 2,000 rows tell σ to 1/√4000, and 5 of these; v is small."""
    rng = np.random.default_rng(0)
    relative, doubt = rng.choice([0.1, 10.0], 2000), np.full((2000, 1), 0.01)
    y = np.sqrt(doubt + relative[:, None]) * rng.standard_normal((2000, 1))
    predicted = Normal(np.zeros((2000, 1)), doubt)
    found = best_noise_std(predicted, y, relative_var=relative)[0]
    assert abs(found - 1) < 5 / 4000**0.5
    assert best_noise_std(predicted, y)[0] > 1.5  # the control
