"""Weights of rows in exact laws and learned priors: a whole weight is so many equal rows."""

import numpy as np
import pytest

import ntkgp
from ntkgp import LAWS, Cholesky, ConjugateGradients, Refined, condition
from ntkgp.laws.hyperparameters import PRIORS, Hyperparameters
from ntkgp.laws.objectives import OBJECTIVES
from ntkgp.laws.prior import Sample, Search
from ntkgp.networks.layers import Erf

RNG = np.random.default_rng(0)
NET = ntkgp.mlp(2, depth=1, activation=Erf(), b_std=0.5)
X = RNG.normal(size=(7, 2))
Y = RNG.normal(size=(7, 2))
T = RNG.normal(size=(4, 2))
COUNTS = np.array([1, 3, 1, 2, 5, 1, 2])
NOISE = 0.3
NOISY = [name for name, law in LAWS.items() if law.noisy]


def repeated(values):
    return np.repeat(values, COUNTS, axis=0)


@pytest.mark.quick("ntkgp-*")
@pytest.mark.parametrize(
    ("solver", "rtol"),
    [
        (Cholesky(), 1e-9),
        (Refined(), 1e-6),
        (ConjugateGradients(tolerance=1e-10), 1e-7),
    ],
    ids=["cholesky", "refined", "conjugate-gradients"],
)
@pytest.mark.parametrize("law", NOISY)
def test_a_weighted_row_is_so_many_equal_rows(law, solver, rtol):
    """(y_n - f)²/2σ², w_n times, is (y_n - f)²/2(σ²/w_n): the same likelihood of f.

    A solver's residual passes into the results times the matrix's condition, below 1,000 here.
    """
    options = {"law": law, "noise_std": NOISE, "solver": solver}
    weighted = condition(NET, X, Y, sample_weight=COUNTS, **options)
    copies = condition(NET, repeated(X), repeated(Y), **options)
    near = {"rtol": rtol, "atol": rtol}
    np.testing.assert_allclose(weighted.mean(T), copies.mean(T), **near)
    np.testing.assert_allclose(weighted.covariance(T), copies.covariance(T), **near)
    np.testing.assert_allclose(
        weighted.predict(T).epistemic_var, copies.predict(T).epistemic_var, **near
    )
    unweighted = condition(NET, X, Y, **options)  # the control
    assert np.abs(unweighted.mean(T) - copies.mean(T)).max() > 0.01
    assert np.abs(unweighted.covariance(T) - copies.covariance(T)).max() > 0.01


def test_a_law_that_interpolates_has_no_use_for_weights():
    plain, weighted = (
        condition(NET, X, Y, law="deep-ensemble", sample_weight=weight).mean(T)
        for weight in (None, COUNTS)
    )
    np.testing.assert_array_equal(plain, weighted)


@pytest.mark.parametrize("law", ["ntkgp", "nngp"])
def test_rows_left_out_are_predicted_as_if_they_had_not_been_there(law):
    weighted = condition(NET, X, Y, law=law, noise_std=NOISE, sample_weight=COUNTS)
    found = weighted.left_out(np.arange(len(X)))
    for row in range(len(X)):
        others = np.flatnonzero(np.arange(len(X)) != row)
        rest = condition(
            NET, X[others], Y[others], law=law, noise_std=NOISE, sample_weight=COUNTS[others]
        )
        expected = rest.predict(X[row : row + 1])
        np.testing.assert_allclose(found.mean[row], expected.mean[0], rtol=1e-9)
        np.testing.assert_allclose(found.epistemic_var[row], expected.epistemic_var[0], rtol=1e-8)
        assert found.noise_var[row, 0] == pytest.approx(NOISE**2 / COUNTS[row])
        again = weighted.of_rows(others)
        np.testing.assert_allclose(again.mean(T), rest.mean(T))


def test_the_marginal_likelihood_is_that_of_rows_with_their_own_noise():
    law = condition(NET, X, Y, noise_std=NOISE, sample_weight=COUNTS)
    covariance = ntkgp.ntk(NET, X) + np.diag(NOISE**2 / COUNTS)
    value = OBJECTIVES["marginal-likelihood"](covariance, Y).value
    assert law.log_marginal_likelihood() == pytest.approx(value, rel=1e-12)


def test_a_prior_learned_from_weighted_rows_has_the_slopes_of_equal_rows():
    """The copies' evidence is that of the weighted rows, times what depends on σ and y alone."""
    space = Hyperparameters(NET, NOISE, dict.fromkeys(PRIORS))

    def slopes(x, y, weight):
        sample = Sample.of(NET, x, y, weight)
        search = Search(space, "ntk", OBJECTIVES["marginal-likelihood"], sample)
        return search.loss(space.start, sample)[1][:-1]  # the last is σ

    assert space.names[-1] == "noise_std"
    copies = slopes(repeated(X), repeated(Y), None)
    np.testing.assert_allclose(slopes(X, Y, COUNTS), copies, rtol=1e-8)
    assert np.abs(slopes(X, Y, None) / copies - 1).max() > 0.1  # the control


@pytest.mark.slow
def test_learned_noise_is_that_of_a_row_of_weight_1():
    """Rows of standard deviation σ/√w: 200 of them tell σ to 1/√400, and 4 of these."""
    rng = np.random.default_rng(1)
    x, weight = rng.uniform(-2, 2, size=(200, 1)), rng.choice([0.25, 4.0], 200)
    y = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(200) / np.sqrt(weight)
    net = ntkgp.mlp(1, depth=1, b_std=0.5)
    options = {"restarts": 0, "max_steps": 20}
    found = ntkgp.fit_prior(net, x, y, sample_weight=weight, **options).noise_std
    assert found == pytest.approx(0.2, rel=4 / 400**0.5)
    blind = ntkgp.fit_prior(net, x, y, **options).noise_std
    assert abs(blind / 0.2 - 1) > 4 / 400**0.5  # the control


def test_an_uncertain_prior_counts_the_weights():
    """A row of weight 100 says more of the scales than one of weight 1."""
    learned = ntkgp.fit_prior(NET, X, Y[:, :1], noise_std=1.0, restarts=0, max_steps=3)

    def spread(weight):
        uncertain = ntkgp.uncertain_prior(learned, X, Y[:, :1], sample_weight=weight)
        return np.linalg.norm(uncertain.root)

    assert spread(np.ones(7)) == spread(None)
    assert spread(np.full(7, 100.0)) < 0.95 * spread(None)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(6), "sample_weight must be 7 numbers > 0"),
        (np.ones((7, 1)), "sample_weight must have shape"),
        (np.r_[np.ones(6), 0.0], "Drop rows of weight 0"),
        (np.r_[np.ones(6), -1.0], "sample_weight must be 7 numbers > 0"),
        (np.r_[np.ones(6), np.nan], "sample_weight has NaN"),
    ],
    ids=["length", "column", "zero", "negative", "nan"],
)
def test_bad_weights_are_refused_in_words(weight, words):
    for refuse in (condition, ntkgp.fit_prior, ntkgp.fit):
        with pytest.raises(ValueError, match=words):
            refuse(NET, X, Y[:, :1], sample_weight=weight)


def test_weights_survive_a_file(tmp_path):
    law = condition(NET, X, Y, noise_std=NOISE, sample_weight=COUNTS)
    law.save(tmp_path / "law")
    again = ntkgp.load(tmp_path / "law")
    np.testing.assert_array_equal(again.sample_weight, COUNTS)
    np.testing.assert_array_equal(again.mean(T), law.mean(T))
    np.testing.assert_array_equal(again.left_out(np.arange(7)).var, law.left_out(np.arange(7)).var)
