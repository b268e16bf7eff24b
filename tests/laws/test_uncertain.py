"""The posterior of a learned prior's scales, by brute force, and what draws of it are."""

import jax
import numpy as np
import pytest

import ntkgp
from ntkgp.laws.hyperparameters import PRIORS, Hyperparameters, LogNormal
from ntkgp.laws.objectives import OBJECTIVES
from ntkgp.laws.prior import Sample, Search

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=40)
NET = ntkgp.mlp(3, depth=1, b_std=0.5)


@pytest.fixture(scope="module")
def learned():
    return ntkgp.fit_prior(NET, X, Y, restarts=0, max_steps=100)


def logs_of(net):
    return np.log(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(net)]))


def test_the_covariance_is_the_inverse_hessian_of_the_loss(learned):
    """By second differences of the loss's values, without any of its gradients."""
    found = ntkgp.uncertain_prior(learned, X, Y, vary=PRIORS)
    space = Hyperparameters(learned.net, learned.noise_std, PRIORS)
    sample = Sample.of(NET, X, Y[:, None], None)
    search = Search(space, "ntk", OBJECTIVES["marginal-likelihood"], sample)
    d, h = len(found.root), 1e-2
    steps = h * np.eye(d + 1)[:d]

    def loss(step):
        return search.loss(space.start + step, sample)[0]

    hessian = np.array(
        [[loss(a + b) - loss(a - b) - loss(b - a) + loss(-a - b) for b in steps] for a in steps]
    ) / (4 * h**2)
    # Fourth derivatives times h². Nothing is wider than its prior here.
    inverse = np.linalg.inv(found.root @ found.root.T)
    curvature = np.linalg.eigvalsh(hessian)
    assert curvature.min() > 0
    np.testing.assert_allclose(inverse, hessian, atol=2e-3 * curvature.max())


def test_data_determine_the_scales_that_matter(learned):
    """Given the layers: a scale of all columns and one of the first weights are one and the same."""
    found = ntkgp.uncertain_prior(learned, X, Y, vary=["input_scale"])
    spread = np.sqrt(np.sum(found.root**2, axis=1))
    assert max(spread[:2]) < 0.5 * spread[2]  # the third column is noise
    assert not spread[3:].any()


@pytest.mark.slow
def test_draws_are_normal_within_bounds_and_a_function_of_seed_and_index(learned):
    found = ntkgp.uncertain_prior(learned, X, Y, vary=PRIORS)
    draws = np.array([logs_of(net) for net in found.draw(2000)])
    inside = np.all((found.low + 1e-6 < draws) & (draws < found.high - 1e-6), axis=0)
    assert inside.any()
    covariance = found.root @ found.root.T
    error = (np.cov(draws.T) - covariance)[np.ix_(inside, inside)]
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))[np.ix_(inside, inside)]
    # A covariance of n draws has the standard error √2 / √n of its scale at most.
    assert np.max(np.abs(error) / scale) < 5 * np.sqrt(2 / 2000)
    assert np.all(draws >= found.low - 1e-9)
    assert np.all(draws <= found.high + 1e-9)
    np.testing.assert_array_equal(logs_of(found.draw([7])[0]), draws[7])
    assert found.draw([7], seed=1) != found.draw([7])
    assert found.draw(np.int64(2)) == found.draw(2)


def test_hidden_layers_are_given(learned):
    for net in ntkgp.uncertain_prior(learned, X, Y).draw(2):
        assert net.body.layers[0].w_std == pytest.approx(learned.net.body.layers[0].w_std, rel=1e-9)
        assert net.last.w_std != pytest.approx(learned.net.last.w_std, rel=1e-3)


def test_what_is_fixed_stays(learned):
    priors = {"b_std": None, "input_scale": LogNormal(0.1, (0.9, 1.1))}
    narrow = ntkgp.fit_prior(NET, X, Y, priors=priors, restarts=0, max_steps=20)
    for net in ntkgp.uncertain_prior(narrow, X, Y, vary=PRIORS, priors=priors).draw(5):
        assert net.body.layers[0].b_std == pytest.approx(0.5, rel=1e-12)
        assert 0.9 - 1e-9 <= min(net.input_scale) <= max(net.input_scale) <= 1.1 + 1e-9


def test_other_names_are_refused(learned):
    with pytest.raises(ValueError, match="rows"):
        ntkgp.uncertain_prior(learned, X, Y, rows=0)
    with pytest.raises(ValueError, match="no scale is called"):
        ntkgp.uncertain_prior(learned, X, Y, priors={"width": None})
