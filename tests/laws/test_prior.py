"""Learned priors: gradients by finite differences, objectives by brute force, relevance by controls."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

import ntkgp
from helpers import without_kernel
from ntkgp.kernels.gradients import _block_gradient, kernel_gradient
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.kernels.matrices import _block_at_once
from ntkgp.laws.hyperparameters import PRIORS, Hyperparameters, LogNormal
from ntkgp.laws.objectives import OBJECTIVES, marginal_likelihood
from ntkgp.laws.prior import Sample, Search, space_of
from ntkgp.networks.layers import (
    Abs,
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    LeakyRelu,
    Relu,
    Residual,
    Sin,
)

RNG = np.random.default_rng(0)
IMAGE = (4, 4, 2)
NETWORKS = {
    "erf": ntkgp.mlp(3, b_std=0.3),
    "relu": ntkgp.mlp(3, activation=Relu(), b_std=0.3),
    "without bias": ntkgp.mlp(3, activation=Relu(), b_std=0.0),
    "leaky": ntkgp.mlp(3, activation=LeakyRelu(0.1), b_std=0.3),
    "abs": ntkgp.mlp(3, activation=Abs(), b_std=0.3),
    "gelu": ntkgp.mlp(3, activation=Gelu(), b_std=0.3),
    "sin": ntkgp.mlp(3, activation=Sin(), b_std=0.3),
    "ntk": ntkgp.mlp(3, b_std=0.3, parameterization="ntk"),
    "residual": ntkgp.LayeredNetwork(
        (3,), [Dense(8), Relu(), Dense(8), Residual([Erf(), Dense(8)])], Dense(1)
    ),
    "flatten": ntkgp.LayeredNetwork(
        IMAGE, [Conv(4, strides=2), Relu(), Flatten(), Dense(4), Erf()], Dense(1)
    ),
    "pooling": ntkgp.LayeredNetwork(
        IMAGE, [Conv(4), Relu(), AvgPool(), Conv(4), Erf(), GlobalAvgPool()], Dense(1)
    ),
}


def table(net, n=8):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, *net.input_shape)), rng.normal(size=(n, 2))


@pytest.mark.quick("relu-*")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_finite_differences(name, objective):
    """Of rows with different weights."""
    net = NETWORKS[name].scaled_by(RNG.uniform(0.5, 1.5, NETWORKS[name].input_shape[-1]))
    sample = Sample.of(net, *table(net), np.linspace(0.3, 3.0, 8))
    space = Hyperparameters(net, 0.3, PRIORS)
    for which in ("ntk", "nngp"):
        search = Search(space, which, OBJECTIVES[objective], sample)
        logs = space.start + 0.05
        _, gradient = search.loss(logs, sample)
        for i, step in enumerate(1e-5 * np.eye(len(logs))):
            slope = (
                search.loss(logs + step, sample)[0] - search.loss(logs - step, sample)[0]
            ) / 2e-5
            # Differences of values around 30, rounded to 1e-14 of that, over 2e-5; and a third
            # derivative times 1e-10.
            assert gradient[i] == pytest.approx(slope, abs=1e-6), (space.names[i], which)


def test_marginal_likelihood_is_scipy_s():
    root = RNG.normal(size=(6, 6))
    a, y = root @ root.T + np.eye(6), RNG.normal(size=(6, 2))
    expected = stats.multivariate_normal(np.zeros(6), a).logpdf(y.T).sum()
    assert OBJECTIVES["marginal-likelihood"](a, y).value == pytest.approx(expected, rel=1e-12)


def test_leave_one_out_leaves_each_row_out():
    root = RNG.normal(size=(6, 6))
    a, y = root @ root.T + np.eye(6), RNG.normal(size=(6, 1))
    expected = 0.0
    for i in range(6):
        rest = np.arange(6) != i
        weights = np.linalg.solve(a[np.ix_(rest, rest)], a[rest, i])
        var = a[i, i] - weights @ a[rest, i]
        expected += stats.norm(weights @ y[rest, 0], var**0.5).logpdf(y[i, 0])
    assert OBJECTIVES["leave-one-out"](a, y).value == pytest.approx(expected, rel=1e-12)


def test_a_gradient_of_zero_is_a_leaf_too():
    """Columns of zeros: the first layer's weights say nothing, and have a gradient of 0."""
    net = ntkgp.mlp(2, width=8, depth=1, b_std=0.5)
    gradient = kernel_gradient(net, "ntk", np.zeros((4, 2)), np.ones((4, 4)))
    leaves = [float(leaf) for leaf in jax.tree.leaves(gradient)]
    assert 0.0 in leaves
    assert len(leaves) == len(jax.tree.leaves(net))


@pytest.mark.quick("erf", "relu")
@pytest.mark.parametrize("name", ["erf", "relu", "without bias", "pooling"])
def test_gradients_exist_at_equal_inputs_and_at_the_origin(name):
    net = NETWORKS[name]
    x, _ = table(net, 4)
    x[1], x[2], x[3] = x[0], 0, -x[0]
    gradient = kernel_gradient(net, "ntk", x, np.ones((4, 4)))
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(gradient))


def test_the_kernel_s_gradient_in_blocks_is_jax_s_own(monkeypatch):
    net = NETWORKS["erf"].scaled_by([1.0, 0.5, 2.0])
    x, _ = table(net, 11)
    weight = RNG.normal(size=(11, 11))
    weight += weight.T
    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(lambda net: (weight * ntkgp.ntk(net, x)).sum()))(net)
    monkeypatch.setattr("ntkgp.kernels.gradients._ENTRIES", 16)
    found = kernel_gradient(net, "ntk", x, weight)
    for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_log_marginal_likelihood_is_the_law_s_and_has_the_search_s_gradient():
    net = NETWORKS["relu"]
    x, y = table(net)
    law = ntkgp.condition(net, x, y, noise_std=0.3)
    assert ntkgp.log_marginal_likelihood(net, x, y, 0.3) == pytest.approx(
        law.log_marginal_likelihood(), rel=1e-12
    )
    space = Hyperparameters(net, 0.3, dict.fromkeys(PRIORS))
    search = Search(space, "ntk", OBJECTIVES["marginal-likelihood"], Sample.of(net, x, y, None))
    _, gradient = search.loss(space.start, search.sample)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(ntkgp.log_marginal_likelihood, argnums=(0, 3)))
        of_net, of_noise = slopes(net, x, y, 0.3)
    expected = space.gradient(space.start, of_net, float(of_noise))
    np.testing.assert_allclose(gradient, -expected, rtol=1e-9)


def test_a_law_that_is_no_posterior_has_no_marginal_likelihood():
    net = NETWORKS["erf"]
    with pytest.raises(ValueError, match="not the posterior"):
        ntkgp.log_marginal_likelihood(net, *table(net), 0.1, "randomised-prior")


def relevant_of_20(seed=0, n=200):
    """Three columns of twenty matter."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 20))
    y = np.sin(2 * x[:, 3]) + x[:, 7] * x[:, 11] + 0.1 * rng.normal(size=n)
    return x, (y - y.mean()) / y.std()


def test_learned_scales_find_the_relevant_columns():
    x, y = relevant_of_20()
    learned = ntkgp.fit_prior(ntkgp.mlp(20, b_std=0.5), x, y, restarts=0)
    scale = np.array(learned.net.input_scale)
    assert set(np.argsort(scale)[-3:]) == {3, 7, 11}
    assert min(scale[[3, 7, 11]]) > 3 * np.median(scale)
    x_test, y_test = relevant_of_20(seed=1)

    def error(net, noise_std):
        mean = ntkgp.condition(net, x, y, noise_std=noise_std).mean(x_test)
        return np.mean((mean[:, 0] - y_test) ** 2)

    fixed = error(ntkgp.mlp(20, b_std=0.5), 0.1)
    # The control: the same scales on the wrong columns.
    wrong = error(learned.net.scaled_by(np.roll(scale, 1)), learned.noise_std)
    assert error(learned.net, learned.noise_std) < 0.5 * fixed < wrong


@pytest.mark.slow
def test_noise_is_found_and_a_given_one_is_kept():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(150, 1))
    y = np.sin(2 * x) + 0.2 * rng.normal(size=x.shape)
    net = ntkgp.mlp(1, b_std=0.5)
    found = ntkgp.fit_prior(net, x, y).noise_std
    # The residuals' standard deviation has a standard error of σ/√(2n); 4 of them.
    assert found == pytest.approx(0.2, abs=4 * 0.2 / (2 * 150) ** 0.5)
    assert ntkgp.fit_prior(net, x, y, noise_std=0.5).noise_std == pytest.approx(0.5)


def test_a_prior_of_none_fixes_and_bounds_hold():
    net = NETWORKS["erf"]
    x, y = table(net, 20)
    narrow = LogNormal(1.0, (0.9, 1.1))
    learned = ntkgp.fit_prior(
        net, x, y, priors={"first.w_std": None, "w_std": None, "input_scale": narrow}
    )
    assert [layer.w_std for layer in learned.net.body.layers[::2]] == pytest.approx([1.5, 1.5])
    assert all(0.9 - 1e-9 <= value <= 1.1 + 1e-9 for value in learned.net.input_scale)
    assert learned.net.last.w_std != net.last.w_std


def test_a_search_goes_on_from_what_was_learned():
    """On fewer rows first, it ends where the whole search does; priors stay about the network's scales."""
    net = NETWORKS["erf"]
    x = np.random.default_rng(3).normal(size=(40, 3))
    y = np.sin(2 * x[:, :1])
    options = {"restarts": 0, "max_steps": 200}
    few = ntkgp.fit_prior(net, x, y, rows=20, **options)
    whole = ntkgp.fit_prior(net, x, y, **options)
    further = ntkgp.fit_prior(net, x, y, start=few, **options)
    assert few.rows == 20
    assert further.value == pytest.approx(whole.value, abs=0.01)
    np.testing.assert_allclose(
        list(further.scales.values()), list(whole.scales.values()), rtol=0.05
    )
    assert further.steps < whole.steps
    from_few_s_network = ntkgp.fit_prior(few.net, x, y, **options)  # the control
    assert abs(from_few_s_network.value - whole.value) > 0.1
    with pytest.raises(ValueError, match="those of another network"):
        ntkgp.fit_prior(ntkgp.mlp(2), x[:, :2], y, start=few)


def test_a_search_goes_on_with_enough_noise(monkeypatch):
    """Few rows may ask for next to none, and more of them, which stand twice, rule that out."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(150, 2)), 2, axis=0)
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=300)
    net = ntkgp.mlp(2, b_std=0.5)
    whole = ntkgp.fit_prior(net, x, y, restarts=0, max_steps=100)
    noiseless = replace(whole, scales=whole.scales | {"noise_std": 0.003})
    again = {"start": noiseless, "max_steps": 5}
    assert ntkgp.fit_prior(net, x, y, **again).value == pytest.approx(whole.value, abs=0.1)
    given = ntkgp.fit_prior(net, x, y, noise_std=0.01, **again)
    assert given.noise_std == pytest.approx(0.01)  # what is known is not raised
    monkeypatch.setattr(Search, "with_enough_noise", lambda _, logs: logs)
    assert ntkgp.fit_prior(net, x, y, **again).value < whole.value - 3  # the control


def test_noise_is_raised_past_matrices_that_cannot_be_factorised():
    def objective(a, y):
        if a[0, 0] - a[0, 1] < 0.05**2:  # two equal rows
            raise NotPositiveDefinite
        return marginal_likelihood(a, y)

    x = np.zeros((2, 2))
    space = space_of(ntkgp.mlp(2, b_std=0.5).scaled_by([1.0, 1.0]), None, None)
    search = Search(space, "ntk", objective, Sample.of(space.net, x, x[:, :1], None))
    for factorised_at_first in (0.003, 0.2):
        start = np.append(space.start[:-1], np.log(factorised_at_first))
        raised = np.exp(search.with_enough_noise(start)[-1])
        assert raised >= 0.05
    assert raised == pytest.approx(0.2)  # the control: targets of zero ask for no more


@pytest.mark.slow
def test_what_is_learned_is_better_and_says_where_it_ended():
    net = NETWORKS["relu"]
    x = RNG.normal(size=(40, 3))
    y = np.abs(x[:, :1])
    learned = ntkgp.fit_prior(net, x, y, restarts=1, max_steps=20)
    assert learned.value == pytest.approx(
        ntkgp.log_marginal_likelihood(learned.net, x, y, learned.noise_std), rel=1e-6
    )
    assert learned.value > ntkgp.log_marginal_likelihood(net, x, y, 0.1)
    assert learned.rows == 40
    assert learned.scales["noise_std"] == learned.noise_std
    assert learned.scales["last.w_std"] == learned.net.last.w_std
    assert hash(learned.net) == hash(learned.net.scaled_by(learned.net.input_scale))
    for name in learned.at_bounds:
        assert name in learned.scales


@pytest.mark.slow
def test_other_scales_compile_nothing():
    def learn(**scales):
        net = ntkgp.mlp(3, **scales)
        ntkgp.fit_prior(net, *table(net), restarts=0, max_steps=2)
        return _block_at_once._cache_size(), _block_gradient._cache_size()

    compiled = learn(w_std=1.1, b_std=0.7)
    assert learn(w_std=1.2, b_std=0.8) == compiled
    assert learn(w_std=1.2, b_std=0.0) != compiled  # the control: no bias is another program


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "evidence"}, "objective must be one of marginal-likelihood"),
        ({"noise_std": 0.0}, "noise_std must be"),
        ({"rows": 0}, "rows must be"),
        ({"restarts": -1}, "restarts must be"),
        ({"priors": {"w_sdt": None}}, "no scale is called w_sdt"),
    ],
)
def test_bad_settings_are_refused_in_words(options, message):
    net = NETWORKS["erf"]
    with pytest.raises(ValueError, match=message):
        ntkgp.fit_prior(net, *table(net), **options)


def test_a_network_without_an_exact_kernel_is_refused():
    with pytest.raises(TypeError, match="exact kernel"):
        ntkgp.fit_prior(without_kernel(NETWORKS["erf"]), *table(NETWORKS["erf"]))
