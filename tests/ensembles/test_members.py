"""Members before training: Proposition 1, each method at initialisation, where randomness goes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkgp
from helpers import (
    ARCHITECTURES_AND_PARAMETERISATIONS,
    architectures,
    assert_covariance,
    assert_not_covariance,
    draws,
    inputs_for,
    mean_z,
    training_set,
)
from ntkgp import METHODS
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.ensembles.methods import PriorNetwork, Tangent
from ntkgp.networks.protocol import scale, squared_norm

WIDTH, DRAWS = 96, 1500


def untrained(net, x, *methods, second_is_first=False):
    """The model's part of f̃₀ over many members, and the δ that each of the methods adds to it."""
    learners = [Baselearner(net, method, noise_std=0.1) for method in methods]

    def sample(key):
        first, second = jax.random.split(key)
        keys = member_keys(0, 0)._replace(init=first, tilde=first if second_is_first else second)
        theta, member = learners[0].draw(keys)
        deltas = [learner.offset(member, x)[:, 0] for learner in learners]
        return learners[0].model(theta, member, x)[:, 0], *deltas

    return draws(sample, DRAWS)


def correlation_z(a, b):
    """Worst entry of the sample cross-moment of centred, independent a and b, in standard errors."""
    moment = a.T @ b / len(a)
    std_error = np.sqrt(np.outer((a**2).mean(0), (b**2).mean(0)) / len(a))
    return np.max(np.abs(moment) / std_error)


@pytest.mark.quick("erf-standard")
@pytest.mark.optimised
@pytest.mark.parametrize(("name", "parameterization"), ARCHITECTURES_AND_PARAMETERISATIONS)
def test_proposition_1(name, parameterization):
    """δ → GP(0, Θ - 𝒦), independent of f₀; f̃₀ = f₀ + δ → GP(0, Θ)."""
    net = architectures(WIDTH, parameterization)[name]
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    nngp, theta = ntkgp.kernel_matrices(net, np.asarray(x, np.float64))
    unzeroed = ntkgp.Method("ntkgp", anchor="init", offset=Tangent(body=1.0, head=1.0))
    f_0, delta, wrong = untrained(net, x, METHODS["ntkgp-param"], unzeroed)
    assert_covariance(f_0 + delta, theta)
    assert_covariance(delta, theta - nngp)
    assert correlation_z(delta, f_0) < 5
    # The controls.
    assert_not_covariance(f_0 + delta, nngp)  # NNGP in place of NTK
    assert_not_covariance(f_0 + wrong, theta)  # readout not zeroed


@pytest.mark.slow
@pytest.mark.optimised
def test_dependence_of_delta_on_f_0_vanishes_with_width():
    """Independence is more than no correlation: the squares are uncorrelated too, in the limit."""
    x = jnp.asarray([[1.0, 0.5]])
    correlations = []
    for width in (8, 128):
        net = ntkgp.mlp(2, width=width, activation=ntkgp.layers.Relu())
        f_0, delta = untrained(net, x, METHODS["ntkgp-param"])
        correlations.append(np.corrcoef(delta[:, 0] ** 2, f_0[:, 0] ** 2)[0, 1])
    std_error = 1 / np.sqrt(DRAWS)
    assert correlations[0] > 5 * std_error  # the control: a narrow network
    assert abs(correlations[1]) < 5 * std_error


@pytest.mark.optimised
def test_proposition_1_fails_when_the_second_draw_is_the_first():
    """The control for independence: θ̃ = θ₀, as when one key is both split and folded."""
    net = architectures(WIDTH)["relu"]
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    f_0, delta = untrained(net, x, METHODS["ntkgp-param"], second_is_first=True)
    assert correlation_z(delta, f_0) > 10


INITIAL = {
    "deep-ensemble": lambda k, th: k,
    "rp-param": lambda k, th: k,
    "rp-fn": lambda k, th: 2 * k,
    "ntkgp-param": lambda k, th: th,
    "ntkgp-fn": lambda k, th: 2 * th,
    "ntkgp-lin": lambda k, th: th,
    "ntkgp-alt": lambda k, th: th,
    "nngp": lambda k, th: k,
}


@pytest.mark.quick("ntkgp-param", "rp-fn")
@pytest.mark.optimised
@pytest.mark.parametrize("method", METHODS)
def test_every_method_starts_from_its_prior(method):
    """Function-space methods start from twice theirs (Appendix E)."""
    net = ntkgp.mlp(2, width=WIDTH)
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    k, theta = ntkgp.kernel_matrices(net, np.asarray(x, np.float64))
    f_tilde = sum(untrained(net, x, METHODS[method]))
    expected = INITIAL[method](k, theta)
    assert_covariance(f_tilde, expected)
    assert mean_z(f_tilde, 0) < 5
    assert_not_covariance(f_tilde, 2 * expected)


@pytest.mark.parametrize("method", METHODS)
def test_the_jacobian_is_the_network_s_own(method):
    """∇f̃₀ = ∇f₀ (criterion 2 of Appendix C): δ does not depend on what is trained."""
    net = ntkgp.mlp(2, width=8)
    learner = Baselearner(net, METHODS[method], noise_std=0.1)
    theta, member = learner.draw(member_keys(0, 0))
    x = jnp.ones((1, 2))
    gradient = jax.grad(lambda t: learner.predict(t, member, x)[0, 0])(theta)
    point = member.theta_tilde if METHODS[method].model == "tangent" else theta
    expected = jax.grad(lambda t: net.apply(t, x)[0, 0])(point)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), gradient, expected
    )


def test_members_are_functions_of_seed_and_index():
    same, again, other_index, other_seed = (
        jax.random.key_data(jnp.stack(member_keys(*pair)))
        for pair in ((3, 5), (3, 5), (3, 6), (4, 5))
    )
    np.testing.assert_array_equal(same, again)
    everything = np.concatenate([same, other_index, other_seed])
    assert len(np.unique(everything, axis=0)) == 15  # no key is used twice


def test_target_noise_is_drawn_per_member_with_the_right_size():
    net = ntkgp.mlp(1, width=4)
    learner = Baselearner(net, METHODS["rp-param"], noise_std=0.3)
    x, y = jnp.zeros((50, 1)), jnp.ones((50, 1))
    noise = []
    for index in range(40):
        keys = member_keys(0, index)
        noise.append(0.3 * training_set(learner, keys, learner.draw(keys)[1], x, y).epsilon[:, 0])
    noise = np.array(noise)
    assert abs(noise.var() - 0.09) < 5 * 0.09 * np.sqrt(2 / noise.size)
    assert np.abs(np.corrcoef(noise)[np.triu_indices(40, 1)]).max() < 5 / np.sqrt(50)


def test_deep_ensembles_train_on_the_targets_themselves():
    learner = Baselearner(ntkgp.mlp(1, width=4), METHODS["deep-ensemble"], noise_std=0.3)
    keys = member_keys(0, 0)
    y = jnp.ones((5, 1))
    data = training_set(learner, keys, learner.draw(keys)[1], jnp.zeros((5, 1)), y)
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.epsilon, 0 * y)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
def test_weighted_norm_of_a_draw_is_the_number_of_parameters(parameterization):
    net = architectures(32, parameterization)["conv-residual"]
    norms = draws(lambda key: squared_norm(net, net.init(key)), 200)
    size = sum(leaf.size for leaf in jax.tree.leaves(net.init(jax.random.key(0))))
    assert abs(norms.mean() - size) < 5 * np.sqrt(2 * size / 200)


def test_scale_touches_body_and_readout_apart():
    net = ntkgp.mlp(2, width=4)
    theta = net.init(jax.random.key(0))
    scaled = scale(net, theta, body=2.0, head=0.0)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, 2 * b), scaled.body, theta.body)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(scaled.readout))


def test_the_loss_is_the_paper_s_objective_scaled():
    """Σ_n ‖y' - f̃‖²/2σ² + ½‖θ - θ₀‖²_Λ = N/σ² · loss, written out by hand."""
    net = ntkgp.mlp(1, 2, width=4, parameterization="standard", w_std=1.2, b_std=0.3)
    learner = Baselearner(net, METHODS["ntkgp-param"], noise_std=0.5)
    keys = member_keys(0, 0)
    theta_0, member = learner.draw(keys)
    x, y = jnp.linspace(-1, 1, 6)[:, None], jnp.ones((6, 2))
    data = training_set(learner, keys, member, x, y)
    theta = jax.tree.map(lambda leaf: leaf + 0.1, theta_0)
    residual = y + 0.5 * data.epsilon - learner.predict(theta, member, x)
    sizes = jax.tree.leaves(jax.tree.map(jnp.size, theta))
    lambdas = [1.44 / 1, 0.09, 1.44 / 4, 0.09, 1.44 / 4, 0.09]
    penalty = sum(0.01 * size / var for size, var in zip(sizes, lambdas, strict=True))
    by_hand = (residual**2).sum() / (2 * 0.25) + penalty / 2
    assert float(learner.loss(theta, member, data, 6)) * 6 / 0.25 == pytest.approx(
        float(by_hand), rel=1e-5
    )


def test_mini_batch_losses_average_to_the_full_loss():
    net = ntkgp.mlp(1, width=4)
    learner = Baselearner(net, METHODS["rp-param"], noise_std=0.5)
    keys = member_keys(0, 0)
    theta, member = learner.draw(keys)
    theta = jax.tree.map(lambda leaf: leaf + 0.1, theta)
    x = jnp.linspace(-1, 1, 6)[:, None]
    data = training_set(learner, keys, member, x, jnp.sin(x))
    halves = [
        learner.loss(theta, member, jax.tree.map(lambda v, rows=rows: v[rows], data), 6)
        for rows in (slice(0, 3), slice(3, 6))
    ]
    assert np.mean(halves) == pytest.approx(float(learner.loss(theta, member, data, 6)), rel=1e-5)


def test_methods_keep_only_the_parameter_sets_of_table_2():
    """Sets stored at train time beside θ itself: Table 2, right."""
    net = ntkgp.mlp(1, width=4)
    stored = {}
    for name, method in METHODS.items():
        _, member = Baselearner(net, method, 0.1).draw(member_keys(0, 0))
        stored[name] = 1 + sum(params is not None for params in member)
    assert stored == {
        "deep-ensemble": 1,
        "rp-param": 2,
        "rp-fn": 2,
        "ntkgp-param": 3,
        "ntkgp-fn": 3,
        "ntkgp-lin": 3,
        "ntkgp-alt": 3,
        "nngp": 2,
    }


@pytest.mark.slow
def test_ensembles_keep_only_the_parameter_sets_of_table_2_after_training():
    """Sets stored at test time: Table 2, last column."""
    x = np.linspace(-1, 1, 3)[:, None]
    stored = {}
    for name in ("deep-ensemble", "rp-param", "rp-fn", "ntkgp-param", "ntkgp-fn"):
        trainer = ntkgp.Descent(optax.sgd(0.01), epochs=1)
        ensemble = ntkgp.fit(ntkgp.mlp(1, width=4), x, x, method=name, members=1, trainer=trainer)
        stored[name] = 1 + sum(params is not None for params in ensemble.member)
    assert stored == {
        "deep-ensemble": 1,
        "rp-param": 1,
        "rp-fn": 2,
        "ntkgp-param": 3,
        "ntkgp-fn": 3,
    }


def test_offsets_are_what_the_table_says():
    assert METHODS["rp-fn"].offset == PriorNetwork()
    assert METHODS["ntkgp-fn"].offset == Tangent(body=2**0.5, head=1.0)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("ntkgp-fn", {"noise_std": 0.0}, "ntkgp-param"),
        ("ntkgp-param", {"noise_std": -0.1}, "noise_std"),
        ("ntkgp-param", {"noise_std": float("nan")}, "noise_std"),
        ("rp-param", {"noise_std": 0.1, "weight_decay": 0.1}, "weight_decay"),
    ],
)
def test_bad_options_are_refused_in_words(method, options, words):
    with pytest.raises(ValueError, match=words):
        Baselearner(ntkgp.mlp(1, width=4), METHODS[method], **options).check()
