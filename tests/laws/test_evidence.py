"""Noise and scale by marginal likelihood, against brute force and draws."""

import numpy as np
import pytest
from scipy import optimize, stats

import ntkgp
from helpers import without_kernel
from ntkgp.laws.evidence import best_noise_and_scale, training_kernel

X = np.random.default_rng(0).normal(size=(60, 2))
KERNEL = ntkgp.ntk(ntkgp.mlp(2), X)


def draw(noise_std, scale, outputs=1, seed=1):
    rng = np.random.default_rng(seed)
    f = np.linalg.cholesky(KERNEL + 1e-9 * np.eye(60)) @ rng.standard_normal((60, outputs))
    return scale * f + noise_std * rng.standard_normal((60, outputs))


@pytest.mark.parametrize("outputs", [1, 3])
def test_evidence_equals_a_search_over_both_numbers(outputs):
    y = draw(0.2, 0.7, outputs)

    def negative(logs):
        noise_std, scale = np.exp(logs)
        cov = scale**2 * KERNEL + noise_std**2 * np.eye(60)
        return -sum(stats.multivariate_normal.logpdf(column, cov=cov) for column in y.T)

    brute = optimize.minimize(negative, np.log([0.3, 0.5]), method="Nelder-Mead").fun
    found = best_noise_and_scale(KERNEL, y)
    assert found.log_marginal_likelihood == pytest.approx(-brute, abs=1e-3)
    assert negative(np.log([found.noise_std, found.scale])) == pytest.approx(brute, abs=1e-3)


def test_evidence_equals_the_law_s_marginal_likelihood():
    y = draw(0.2, 1.0)
    found = best_noise_and_scale(KERNEL, y)
    law = ntkgp.condition(ntkgp.mlp(2), X, y / found.scale, noise_std=found.noise_std / found.scale)
    # A change of units: log density of y is that of y/s less log s for each number.
    shifted = law.log_marginal_likelihood() - 60 * np.log(found.scale)
    assert found.log_marginal_likelihood == pytest.approx(shifted, rel=1e-9)


@pytest.mark.parametrize("noise_std", [0.5, 1e-4])
def test_scale_alone_where_the_noise_is_known(noise_std):
    y = draw(0.2, 0.7)

    def negative(scale):
        cov = scale**2 * KERNEL + noise_std**2 * np.eye(60)
        return -stats.multivariate_normal.logpdf(y[:, 0], cov=cov)

    brute = optimize.minimize_scalar(negative, bounds=(0.05, 50), method="bounded")
    found = best_noise_and_scale(KERNEL, y, noise_std=noise_std)
    assert found.noise_std == pytest.approx(noise_std)
    assert found.scale == pytest.approx(brute.x, rel=1e-2)
    assert found.log_marginal_likelihood == pytest.approx(-brute.fun, abs=1e-3)


def test_units_of_y_change_noise_and_scale_alike():
    y = draw(0.2, 0.7)
    small, large = best_noise_and_scale(KERNEL, y), best_noise_and_scale(KERNEL, 100 * y)
    assert large.noise_std == pytest.approx(100 * small.noise_std, rel=1e-3)
    assert large.scale == pytest.approx(100 * small.scale, rel=1e-3)


def test_targets_without_variation_are_refused():
    with pytest.raises(ValueError, match="zero throughout"):
        best_noise_and_scale(KERNEL, np.zeros((60, 1)))


@pytest.mark.slow
def test_the_kernel_of_a_network_without_a_law_is_its_draws_mean():
    """A network known by its functions alone; its draws' Gram matrices average to Θ at width."""
    net = ntkgp.mlp(2, width=512)
    adapted = without_kernel(net)
    x = X[:8]
    exact, estimated = training_kernel(net, x, "ntk"), training_kernel(adapted, x, "ntk")
    off = np.abs(estimated - exact).max() / np.abs(exact).max()
    assert off < 0.25
    assert np.abs(training_kernel(adapted, x, "nngp") - exact).max() / np.abs(exact).max() > 0.3
