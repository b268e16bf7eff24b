"""Noise that differs from row to row, found by an exact law: what is planted is found, and nothing else."""

import numpy as np
import pytest
from scipy import special

import ntkgp
from ntkgp import HeavyTails, VaryingNoise, condition
from ntkgp.laws import row_noise
from ntkgp.networks.layers import Erf

NET = ntkgp.mlp(1, depth=1, activation=Erf(), b_std=0.5)
GRID = np.linspace(-1.8, 1.8, 40)[:, None]


def table(noise_std, n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + noise_std(x[:, 0]) * rng.standard_normal(n)


def slope(x):
    """σ(x) from 0.09 to 0.54: not so far apart that the bound on them is reached."""
    return np.exp(-1.5 + 0.45 * x)


def constant(x):
    return np.full(len(x), 0.3)


def found_std(noise_std, x, **options):
    law = condition(NET, *table(noise_std), noise_std=0.3, **options)
    return 0.3 * np.sqrt(VaryingNoise().fitted(law, seed=0).relative_var(x))


@pytest.mark.slow
def test_noise_that_varies_is_found_and_constant_noise_is_left_alone():
    """log σ² of a straight line on n rows, each with variance 2: 3 standard errors at the ends.

    At an end of a uniform x that variance is 4 · 2/n. Half of it again for what a free curve takes more
    than a line.
    """
    most = np.exp(1.5 * 3 * np.sqrt(4 * 2 / 300) / 2)
    for noise_std in (slope, constant):
        ratio = found_std(noise_std, GRID) / noise_std(GRID[:, 0])
        assert 1 / most < ratio.min()
        assert ratio.max() < most
    wrong = found_std(constant, GRID) / slope(GRID[:, 0])  # the control
    assert wrong.max() > most**2


@pytest.mark.slow
def test_weights_that_are_known_already_are_not_found_again():
    """Rows whose weight says how their noise varies have g near 0."""
    x, _ = table(slope)
    known = found_std(slope, GRID, sample_weight=(0.3 / slope(x[:, 0])) ** 2)
    assert np.abs(np.log(known / 0.3)).max() < 0.3 * np.log(slope(2.0) / slope(-2.0))


def test_noise_of_rows_that_are_nearly_interpolated_cannot_be_known():
    """40 rows in three dimensions: the law's own doubt is far above the noise, so g stays near 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    law = condition(ntkgp.mlp(3, depth=1, b_std=0.5), x, y, noise_std=0.03)
    left_out = law.left_out(np.arange(40))
    assert np.median(left_out.epistemic_var) > 10 * left_out.noise_var[0, 0]
    relative = VaryingNoise().fitted(law, seed=0).relative_var(x)
    assert relative.min() > 1 / 1.5
    assert relative.max() < 1.5


def with_outliers(n=40):
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-2, 2, size=(n, 1)), axis=0)
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(n)
    planted = np.arange(0, n, 10)
    y[planted] += [3, -3, 3, -3]
    return x, y, planted


def test_outliers_get_little_weight_and_the_law_follows_the_others():
    x, y, planted = with_outliers()
    law = condition(NET, x, y, noise_std=0.5)
    fitted = HeavyTails().fitted(law, seed=0)
    weights = fitted.weights(x, y)
    # λ = (4 + 1)/(4 + 2.5²/σ²) of an outlier that is not followed, with σ at most twice that of the rest.
    assert fitted.noise_std < 0.2
    assert weights[planted].max() < 5 / (4 + (2.5 / 0.2) ** 2)
    others = np.delete(weights, planted)
    assert np.median(others) > 0.9
    truth = np.sin(2 * x)
    clean = np.delete(np.arange(len(x)), planted)
    error = np.abs(fitted.law.mean(x) - truth)[clean].max()
    blind = np.abs(law.mean(x) - truth)[clean].max()  # the control
    assert error < 0.3 < blind


def lower_bound(fitted, x, y):
    """What expectation-maximisation raises: E_q log p(y, λ|f) and the entropy of q(λ), less KL(q(f)‖p(f)).

    With E_n = E‖y_n - f(x_n)‖² and the best q(λ) that is, for one output,

        Σ_n log t_df(√E_n; σ) - ½(tr A⁻¹D + αᵀKα - n + log|A| - log|D|),

    A = K + D, D the noise variances, α = A⁻¹y.
    """
    law, df, scale = fitted.law, fitted.df, fitted.noise_std
    squares = fitted.expected_squares(x, y) / scale**2
    half = (df + 1) / 2
    constant = special.gammaln(half) - special.gammaln(df / 2) - np.log(np.pi * df * scale**2) / 2
    likelihood = np.sum(constant - half * np.log1p(squares / df))
    kernel, noise = ntkgp.ntk(NET, x), np.diag(law.row_noise_var)
    inverse = np.linalg.inv(kernel + noise)
    alpha = inverse @ y
    determinants = np.linalg.slogdet(kernel + noise)[1] - np.linalg.slogdet(noise)[1]
    trace = np.trace(inverse @ noise)
    return likelihood - (trace + alpha @ kernel @ alpha - len(x) + determinants) / 2


def test_each_step_of_expectation_maximisation_raises_its_bound(monkeypatch):
    x, y, _ = with_outliers()
    law = condition(NET, x, y, noise_std=0.5)
    bounds = []
    for steps in range(7):
        monkeypatch.setattr(row_noise, "_TAIL_STEPS", steps)
        bounds.append(lower_bound(HeavyTails().fitted(law, seed=0), x, y))
    assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[1:]))
    assert bounds[-1] > bounds[0] + 10  # the control: they do move


def test_a_t_of_many_degrees_of_freedom_is_a_normal():
    """λ_n = 1 + O(1/df), so with df = 10⁸ the law keeps all rows alike."""
    x, y, planted = with_outliers()
    law = condition(NET, x, y, noise_std=0.5)
    fitted = HeavyTails(df=1e8).fitted(law, seed=0)
    np.testing.assert_allclose(fitted.weights(x, y), 1, atol=1e-5)
    same = condition(NET, x, y, noise_std=fitted.noise_std)
    np.testing.assert_allclose(fitted.law.mean(GRID), same.mean(GRID), atol=1e-5)
    assert HeavyTails().fitted(law, seed=0).weights(x, y)[planted].max() < 0.5  # the control


def test_rows_without_noise_leave_a_law_that_can_be_computed():
    x = np.repeat(np.linspace(-1, 1, 20), 3)[:, None]
    fitted = HeavyTails().fitted(condition(NET, x, np.sin(x), noise_std=0.1), seed=0)
    assert 0 < fitted.noise_std < 0.01
    np.testing.assert_allclose(fitted.law.mean(x), np.sin(x), atol=0.01)


@pytest.mark.slow
def test_outliers_among_weighted_rows_are_those_among_equal_rows():
    """A row of weight w is w equal rows, for λ and for the scale."""
    x, y, _ = with_outliers()
    counts = np.tile([1, 3], len(x) // 2)
    plain, weighted = (
        HeavyTails().fitted(condition(NET, x, y, noise_std=0.5, sample_weight=weight), seed=0)
        for weight in (None, counts)
    )
    x_copies, y_copies = np.repeat(x, counts, axis=0), np.repeat(y, counts)
    copies = HeavyTails().fitted(condition(NET, x_copies, y_copies, noise_std=0.5), seed=0)
    assert weighted.noise_std == pytest.approx(copies.noise_std, rel=1e-6)
    np.testing.assert_allclose(weighted.law.mean(GRID), copies.law.mean(GRID), atol=1e-6)
    assert np.abs(plain.law.mean(GRID) - copies.law.mean(GRID)).max() > 1e-3  # the control


@pytest.mark.parametrize("df", [2.0, 0.0, -1.0, np.inf, np.nan])
def test_degrees_of_freedom_without_a_variance_are_refused(df):
    with pytest.raises(ValueError, match="df must be > 2"):
        HeavyTails(df)
