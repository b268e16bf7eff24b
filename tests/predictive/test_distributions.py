"""Normals and mixtures against SciPy, brute force and each other (Appendix F)."""

import numpy as np
import pytest
from scipy import integrate, stats

from ntkgp import Mixture, Normal, StudentT

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(5, 3, 2))
VARS = RNG.uniform(0.1, 1.0, size=(5, 3, 2))
Y = RNG.normal(size=(3, 2))
MIXTURE = Mixture(MEANS, VARS)


def test_moments_are_appendix_f_s():
    mean = sum(MEANS) / 5
    np.testing.assert_allclose(MIXTURE.mean, mean)
    np.testing.assert_allclose(MIXTURE.var, sum(MEANS**2 - mean**2 + VARS) / 5)
    np.testing.assert_allclose(MIXTURE.var, MIXTURE.epistemic_var + MIXTURE.noise_var)
    matched = MIXTURE.moment_matched()
    np.testing.assert_allclose(matched.mean, MIXTURE.mean)
    np.testing.assert_allclose(matched.std, MIXTURE.std)


def test_mixture_density_is_the_mean_of_densities():
    each = stats.norm(MEANS, np.sqrt(VARS))
    np.testing.assert_allclose(np.exp(MIXTURE.log_prob(Y)), each.pdf(Y).mean(axis=0))
    np.testing.assert_allclose(MIXTURE.cdf(Y), each.cdf(Y).mean(axis=0))
    one = Mixture(MEANS[:, :1, :1], VARS[:, :1, :1])
    total, _ = integrate.quad(lambda y: np.exp(one.log_prob([[y]])).item(), -15, 15)
    assert total == pytest.approx(1)


def test_log_density_far_out_is_finite():
    assert np.isfinite(MIXTURE.log_prob(Y + 1e4)).all()


@pytest.mark.parametrize("q", [0.001, 0.3, 0.975])
def test_quantiles_invert_the_distribution_function(q):
    np.testing.assert_allclose(MIXTURE.cdf(MIXTURE.quantile(q)), q, atol=1e-12)
    matched = MIXTURE.moment_matched()
    np.testing.assert_allclose(matched.quantile(q), stats.norm(matched.mean, matched.std).ppf(q))


@pytest.mark.parametrize(
    "predictive", [MIXTURE, MIXTURE.moment_matched()], ids=["mixture", "normal"]
)
def test_intervals_hold_what_they_say(predictive):
    low, high = predictive.interval(0.9)
    np.testing.assert_allclose(predictive.cdf(high) - predictive.cdf(low), 0.9, atol=1e-10)
    samples = predictive.sample(20_000, seed=1)
    inside = ((samples >= low) & (samples <= high)).mean(axis=0)
    assert np.abs(inside - 0.9).max() < 5 * np.sqrt(0.09 / 20_000)


@pytest.mark.parametrize(
    "predictive", [MIXTURE, MIXTURE.moment_matched()], ids=["mixture", "normal"]
)
def test_samples_have_the_moments(predictive):
    samples = predictive.sample(20_000, seed=2)
    assert samples.shape == (20_000, 3, 2)
    std_error = predictive.std / np.sqrt(20_000)
    assert np.all(np.abs(samples.mean(axis=0) - predictive.mean) < 5 * std_error)
    assert np.all(np.abs(samples.var(axis=0) / predictive.var - 1) < 5 * np.sqrt(2 / 20_000))
    np.testing.assert_array_equal(samples, predictive.sample(20_000, seed=2))


def test_an_ensemble_of_one_is_its_member():
    alone, member = Mixture(MEANS[:1], VARS[:1]), Normal(MEANS[0], np.zeros((3, 2)), VARS[0])
    np.testing.assert_array_equal(alone.mean, member.mean)
    np.testing.assert_array_equal(alone.epistemic_var, 0)
    np.testing.assert_array_equal(alone.std, member.std)
    np.testing.assert_allclose(alone.log_prob(Y), member.log_prob(Y), rtol=1e-12)
    np.testing.assert_allclose(alone.interval(0.8), member.interval(0.8), rtol=1e-12)


@pytest.mark.parametrize("kind", [Mixture, Normal])
def test_one_output_takes_a_plain_vector_and_other_shapes_are_refused(kind):
    members, y = np.zeros((2, 4, 1)), np.arange(4.0)
    p = Mixture(members, 1.0) if kind is Mixture else Normal(members[0], members[0], 1.0)
    np.testing.assert_array_equal(p.log_prob(y), p.log_prob(y[:, None]))
    with pytest.raises(ValueError, match=r"\(4, 1\)"):
        p.cdf(np.zeros((1, 4)))


def test_a_normal_without_variance_has_no_density():
    with pytest.raises(ValueError, match="noise_var"):
        Normal(np.zeros((2, 1)), np.zeros((2, 1))).log_prob(np.zeros(2))


def test_a_mixture_without_noise_has_moments_but_no_density():
    points = Mixture(MEANS)
    np.testing.assert_allclose(points.var, MEANS.var(axis=0))
    with pytest.raises(ValueError, match="moment_matched"):
        points.log_prob(Y)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.1])
def test_levels_outside_the_open_unit_interval_are_refused(level):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        MIXTURE.interval(level)


@pytest.mark.parametrize("df", [2.5, 4.0, 30.0])
def test_a_t_is_scipy_s(df):
    p = StudentT(MEANS[0], VARS[0], VARS[1], df=df)
    expected = stats.t(df, loc=MEANS[0], scale=np.sqrt(VARS[0] + VARS[1]))
    np.testing.assert_allclose(p.log_prob(Y), expected.logpdf(Y), rtol=1e-10)
    np.testing.assert_allclose(p.cdf(Y), expected.cdf(Y), rtol=1e-10)
    for q in (0.001, 0.3, 0.975):
        np.testing.assert_allclose(p.quantile(q), expected.ppf(q), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(p.interval(0.9), expected.interval(0.9), rtol=1e-8)
    normal = Normal(MEANS[0], VARS[0], VARS[1])  # the control
    assert np.all(p.quantile(0.999) > normal.quantile(0.999))


def test_a_t_s_samples_have_its_moments():
    """The variance of t with 10 degrees of freedom: its kurtosis is 4, so squares have 3 times σ⁴."""
    p, n = StudentT(MEANS[0], np.zeros((3, 2)), VARS[0], df=10.0), 20_000
    samples = p.sample(n, seed=2)
    assert np.all(np.abs(samples.mean(axis=0) - p.mean) < 5 * p.std / np.sqrt(n))
    assert np.all(np.abs(samples.var(axis=0) / p.var - 1) < 5 * np.sqrt(3 / n))
    np.testing.assert_array_equal(p.var, VARS[0] * 10 / 8)


def test_a_t_is_rescaled_as_a_normal_is():
    p = StudentT(MEANS[0], VARS[0], VARS[1], df=4.0)
    moved = p.rescaled(2.0, 1.0)
    assert moved.df == 4.0
    np.testing.assert_allclose(moved.log_prob(2 * Y + 1), p.log_prob(Y) - np.log(2))
    np.testing.assert_array_equal(p.first_output().quantile(0.9), p.quantile(0.9)[:, 0])
    many = StudentT(MEANS[0], VARS[0], VARS[1], df=1e9)
    np.testing.assert_allclose(
        many.log_prob(Y), Normal(MEANS[0], VARS[0], VARS[1]).log_prob(Y), rtol=1e-6
    )


@pytest.mark.parametrize("df", [2.0, 0.0, np.nan])
def test_a_t_without_a_variance_is_refused(df):
    with pytest.raises(ValueError, match="df must be > 2"):
        StudentT(MEANS[0], VARS[0], VARS[1], df=df)


def test_a_t_without_scale_has_no_density():
    with pytest.raises(ValueError, match="noise_var"):
        StudentT(np.zeros((2, 1)), np.zeros((2, 1))).log_prob(np.zeros(2))
