"""Closeness of an ensemble to a law: the measures, and what they are for exact draws."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import sqrtm

from ntkgp.predictive.closeness import compare
from ntkgp.report.closeness import draw_closeness

N, OUTPUTS = 4, 2
X = np.zeros((N, 1))


def law_of(seed=0, n=N):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    mean, covariance = rng.normal(size=(n, OUTPUTS)), root @ root.T
    return SimpleNamespace(mean=lambda x: mean, covariance=lambda x: covariance)


def draws(law, k, seed, scale=1.0):
    """Members that are draws from the law, or from one of another scale."""
    rng = np.random.default_rng([seed, k])
    factor = np.linalg.cholesky(law.covariance(X))
    noise = np.einsum("ij,kjc->kic", factor, rng.standard_normal((k, N, OUTPUTS)))
    members = law.mean(X) + scale * noise
    return SimpleNamespace(outputs=lambda x: members)


@pytest.mark.parametrize("k", [3, 50])  # fewer and more members than inputs
def test_the_distance_is_that_of_normals_by_matrix_roots(k):
    law = law_of()
    ensemble = draws(law, k, seed=1)
    s, members = law.covariance(X), ensemble.outputs(X)
    squared = 0.0
    for c in range(OUTPUTS):
        mean, own = members[..., c].mean(axis=0), np.cov(members[..., c].T, bias=True)
        root = sqrtm(s)
        middle = np.real(sqrtm(root @ own @ root))
        squared += np.sum((mean - law.mean(X)[:, c]) ** 2) + np.trace(s + own - 2 * middle)
    expected = np.sqrt(squared / (OUTPUTS * np.trace(s)))
    np.testing.assert_allclose(compare(ensemble, law, X).distance.value, expected, rtol=1e-6)


def test_mean_error_and_std_ratio_by_their_definition():
    law = law_of()
    members, std = draws(law, 5, seed=2).outputs(X), np.sqrt(np.diag(law.covariance(X)))
    found = compare(SimpleNamespace(outputs=lambda x: members), law, X)
    z = (members.mean(axis=0) - law.mean(X)) / (std[:, None] / 5**0.5)
    np.testing.assert_allclose(found.mean_error.value, np.sqrt(np.mean(z**2)))
    ratio = np.median(members.std(axis=0) / std[:, None])
    np.testing.assert_allclose(found.std_ratio.value, ratio)


def test_the_squared_mean_error_of_exact_draws_is_1_on_average():
    found = compare(draws(law_of(), 5, seed=0), law_of(), X, exact_ensembles=2000)
    squares = found.mean_error.exact**2
    assert abs(squares.mean() - 1) < 5 * squares.std() / len(squares) ** 0.5


@cache
def ensembles(scale):
    law = law_of()
    options = {"exact_ensembles": 100}
    return [compare(draws(law, 10, s, scale), law, X, seed=s, **options) for s in range(60)]


def p_values(scale, measure):
    return np.array([getattr(found, measure).p_value for found in ensembles(scale)])


@pytest.mark.parametrize("measure", ["mean_error", "std_ratio", "distance"])
def test_exact_draws_are_told_from_others(measure):
    """Of 60 exact ensembles more than 11 have p ≤ 0.05 with a chance below 1e-4 (binomial)."""
    assert np.sum(p_values(1.0, measure) <= 0.05) <= 11
    assert np.sum(p_values(2.0, measure) <= 0.05) > 30  # the control: twice the law's deviations


def test_what_cannot_be_compared_is_refused_in_words():
    law = law_of()
    with pytest.raises(ValueError, match="needs 2 members"):
        compare(draws(law, 1, seed=0), law, X)
    one_output = SimpleNamespace(outputs=lambda x: np.zeros((3, N, 1)))
    with pytest.raises(ValueError, match="same number of outputs"):
        compare(one_output, law, X)
    certain = SimpleNamespace(mean=law.mean, covariance=lambda x: np.diag([1.0, 1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="certain at 1 of the 4 inputs"):
        compare(draws(law, 3, seed=0), certain, X)


def test_it_reads_as_a_table_and_draws_a_figure(tmp_path):
    found = compare(draws(law_of(), 6, seed=0), law_of(), X)
    assert "6 members at 4 inputs" in str(found)
    assert f"{found.distance.value:.3g}" in str(found)
    figure = draw_closeness(found)
    values = [axis.get_title() for axis in figure.axes]
    assert f"{found.std_ratio.value:.2f}" in values[0]
    figure.savefig(tmp_path / "closeness.png")
