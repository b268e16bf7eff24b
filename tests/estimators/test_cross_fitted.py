"""How much too sure a learned prior is: priors learned without a third of the rows predict it."""

import numpy as np
import pytest
from scipy import linalg

import ntkgp
from ntkgp.estimators import cross_fitted
from ntkgp.estimators.cross_fitted import overconfidence, unseen_blocks
from ntkgp.estimators.left_out import JITTER, calibrated, parts_of
from ntkgp.estimators.preparation import Choice, choose
from ntkgp.kernels.linalg import NotPositiveDefinite
from ntkgp.laws.table import get_law
from ntkgp.networks.layers import Erf

LAW = get_law("ntkgp")
pytestmark = pytest.mark.learns


def noise_of_columns(n, columns, seed):
    """Targets that no column explains."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, columns)), rng.normal(size=(n, 1))


def learned(relevance):
    net = ntkgp.mlp(12, activation=Erf(), depth=1, b_std=0.5)

    def of(x, y, weight):
        return choose([net], x, y, LAW, 0, None, weight, relevance=relevance)

    return of


@pytest.mark.slow
def test_scales_that_fit_by_chance_are_found_out():
    """Twelve scales learned on 48 rows of noise; the control learns none of columns."""
    factors = {
        relevance: np.mean(
            [
                overconfidence(learned(relevance), *noise_of_columns(48, 12, seed), None, LAW, seed)
                for seed in range(3)
            ]
        )
        for relevance in (True, False)
    }
    assert factors[True] > 1.05
    assert factors[True] > factors[False] + 0.03


@pytest.mark.parametrize("weighted", [False, True])
def test_the_factor_is_that_of_plain_algebra(weighted):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(31, 2))
    y = np.sin(3 * x[:, :1]) + 0.5 * rng.standard_t(2, size=(31, 1))
    weight = rng.uniform(0.5, 2, 31) if weighted else None
    net = ntkgp.mlp(2, activation=Erf(), depth=1)
    given = Choice(net, net, noise_std=0.3, scale=0.5, log_marginal_likelihood=0.0, rows=9)
    found = overconfidence(lambda *rows: given, x, y, weight, LAW, seed=5, stretch=1.5)

    squares, order = [], np.random.default_rng(5).permutation(31)[:30]
    of = np.ones(31) if weight is None else weight
    for fold in range(3):
        out = order[10 * fold : 10 * fold + 10]
        seen = np.setdiff1d(np.arange(31), out)
        own = None if weight is None else weight[seen]
        conditioned = ntkgp.condition(
            net, x[seen], y[seen] / 0.5, noise_std=0.3, sample_weight=own, jitter=JITTER
        )
        noise_std, stretch = 0.3, 1.5
        noise_stds = calibrated(conditioned, stretch, np.arange(21)).noise_stds
        kernel = ntkgp.ntk(net, x)
        k = kernel[np.ix_(seen, seen)] + np.diag(noise_std**2 / of[seen]) + JITTER * np.eye(21)
        across = kernel[np.ix_(out, seen)]
        mean = across @ linalg.solve(k, y[seen, 0] / (0.5 * stretch))
        var = np.diag(kernel)[out] - np.sum(across * linalg.solve(k, across.T).T, axis=1)
        var = var + noise_stds[0] ** 2 / of[out]
        squares.append((y[out, 0] / (0.5 * stretch) - mean) ** 2 / var)
    grid = np.linspace(-8, 8, 100_001)
    normal = np.exp(-(grid**2) / 2) / (2 * np.pi) ** 0.5
    usual = np.sum(np.minimum(grid**2, 9) * normal) * (grid[1] - grid[0])
    z = np.mean(np.minimum(squares, 9)) / usual
    assert z > 1.1  # or nothing is tested
    assert found == pytest.approx((1 + 2 / 3 * (z - 1)) ** 0.5, rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_unseen_blocks_are_those_of_plain_algebra(weighted, monkeypatch):
    monkeypatch.setattr(cross_fitted, "RELEVANT", 2)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(31, 4)), rng.normal(size=(31, 1))
    x[:, 2] = 1.0  # says nothing, whatever its scale
    weight = rng.uniform(0.2, 3, 31) if weighted else None
    net = ntkgp.mlp(4, activation=Erf(), depth=1)
    given = Choice(net, net, noise_std=0.3, scale=0.5, log_marginal_likelihood=0.0, rows=9)
    relevance = [0.1, 2.0, 5.0, 1.0]
    found = unseen_blocks(lambda *rows: given, relevance, x, y, weight, LAW, seed=5)

    kernel, of = 0.25 * ntkgp.ntk(net, x), np.ones(31) if weight is None else weight
    noise_var = 0.25 * (0.3**2 / of)
    expected = []
    for column in (1, 3):
        part = parts_of(x[:, column])
        for number in range(3):
            out, seen = np.flatnonzero(part == number), np.flatnonzero(part != number)
            k = kernel[np.ix_(seen, seen)] + np.diag(noise_var[seen] + 0.25 * JITTER)
            across = kernel[np.ix_(out, seen)]
            errors = y[out, 0] - across @ linalg.solve(k, y[seen, 0])
            var = np.diag(kernel)[out] - np.sum(across * linalg.solve(k, across.T).T, axis=1)
            expected.append((errors**2, var, noise_var[out]))
    assert len(found) == len(expected) == 6
    for block, values in zip(found, expected, strict=True):  # whose rows stand in another order
        for own, other in zip(block, values, strict=True):
            np.testing.assert_allclose(np.sort(own[:, 0]), np.sort(other), rtol=1e-6)


def test_priors_see_no_row_of_their_block(monkeypatch):
    monkeypatch.setattr(cross_fitted, "UNSEEN_ROWS", 25)
    x, y = noise_of_columns(60, 3, 0)
    net = ntkgp.mlp(3, activation=Erf(), depth=1)
    seen = []

    def choice(x, y, weight):
        seen.append(x)
        return Choice(net, net, noise_std=1.0, scale=1.0, log_marginal_likelihood=0.0, rows=9)

    assert len(unseen_blocks(choice, [1.0, 3.0, 2.0], x, y, None, LAW, 0)) == len(seen) == 9
    places = {tuple(row): place for place, row in enumerate(x)}
    thirds = [parts_of(column) == number for column in x.T for number in range(3)]
    for rows in seen:
        own = [places[tuple(row)] for row in rows]
        assert len(own) == 25
        assert any(not third[own].any() for third in thirds)
    assert unseen_blocks(choice, [1.0] * 3, x[:29], y[:29], None, LAW, 0) == []
    assert unseen_blocks(choice, [1.0] * 3, x[:, None], y, None, LAW, 0) == []  # images


def test_a_target_that_never_changes_does_not_hide_the_others():
    x, y = noise_of_columns(60, 2, 0)
    net = ntkgp.mlp(2, activation=Erf(), depth=1)
    given = Choice(net, net, noise_std=0.1, scale=0.1, log_marginal_likelihood=0.0, rows=9)
    both = np.column_stack([y, np.zeros(60)])
    rows = (lambda *rows: given, [2.0, 1.0], x)
    alone, beside = (unseen_blocks(*rows, targets, None, LAW, 0) for targets in (y, both))
    assert len(alone) == len(beside) == 6
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(one.squares, other.squares)
    factors = [overconfidence(rows[0], x, targets, None, LAW, 0) for targets in (y, both)]
    assert factors[0] == factors[1] > 1.1


def test_a_flag_of_one_row_says_nothing():
    x, y = noise_of_columns(60, 2, 0)
    x[:, 0] = np.arange(60) == 7
    net = ntkgp.mlp(2, activation=Erf(), depth=1)
    given = Choice(net, net, noise_std=1.0, scale=1.0, log_marginal_likelihood=0.0, rows=9)
    assert len(unseen_blocks(lambda *rows: given, [5.0, 1.0], x, y, None, LAW, 0)) == 3


def test_few_rows_and_many_are_left_alone():
    def never(*rows):
        raise AssertionError("a prior was learned")

    for n in (29, 401):
        assert overconfidence(never, *noise_of_columns(n, 2, 0), None, LAW, 0) == 1


def test_an_outlier_does_not_decide():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=(60, 1))
    net = ntkgp.mlp(1, activation=Erf(), depth=1)
    given = Choice(net, net, noise_std=1.0, scale=1.0, log_marginal_likelihood=0.0, rows=9)
    before = overconfidence(lambda *rows: given, x, y, None, LAW, 0)
    y[7] = 50.0
    after = overconfidence(lambda *rows: given, x, y, None, LAW, 0)
    assert after < before + 0.1


def test_thirds_that_nothing_can_be_learned_from_say_nothing():
    """All targets but two are 0, and these are in one third."""
    y = np.zeros((30, 1))
    y[np.random.default_rng(0).permutation(30)[:2]] = [[1.0], [-1.0]]
    x = np.random.default_rng(1).normal(size=(30, 2))
    net = ntkgp.mlp(2, activation=Erf(), depth=1)
    asked = []

    def choice(x, y, weight):
        asked.append(np.ptp(y))
        return Choice(net, net, noise_std=1.0, scale=1.0, log_marginal_likelihood=0.0, rows=9)

    assert overconfidence(choice, x, y, None, LAW, 0) == 1
    assert len(asked) == 2


def test_a_failure_of_thirds_is_no_failure_of_the_fit():
    def fails(*rows):
        raise NotPositiveDefinite("with fewer rows")

    assert overconfidence(fails, *noise_of_columns(40, 2, 0), None, LAW, 0) == 1


@pytest.mark.slow
def test_regressors_grow_their_deviations_by_it_and_leave_their_means(monkeypatch):
    x, y = noise_of_columns(40, 2, 3)
    small = {"activation": "erf", "depth": 1, "random_state": 0}
    few = {"members": 2, "width": 16, "min_steps": 20}
    for model in (ntkgp.GPRegressor(**small), ntkgp.EnsembleRegressor(**small, **few)):
        predicted = {}
        for factor in (1.0, 1.7):
            monkeypatch.setattr(
                "ntkgp.estimators.regression.overconfidence", lambda *rows, k=factor: k
            )
            predicted[factor] = model.fit(x, y[:, 0]).predict_dist(x[:5])
        before, after = predicted.values()
        np.testing.assert_allclose(after.mean, before.mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after.epistemic_var, 1.7**2 * before.epistemic_var, rtol=1e-4)
        np.testing.assert_allclose(after.noise_var, 1.7**2 * before.noise_var, rtol=1e-4)


def test_noise_that_is_given_is_left_alone(monkeypatch):
    x, y = noise_of_columns(40, 2, 3)
    monkeypatch.setattr("ntkgp.estimators.regression.overconfidence", lambda *rows: 1 / 0)
    model = ntkgp.GPRegressor(noise_std=0.5, activation="erf", depth=1).fit(x, y[:, 0])
    assert model.noise_std_ == pytest.approx([0.5])
