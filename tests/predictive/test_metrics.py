"""Scores against scikit-learn, SciPy, numerical integration and plain loops; ties included."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn import metrics as sk

from ntkgp import metrics as m

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(6, 2))
MEAN = RNG.normal(size=(6, 2))
STD = RNG.uniform(0.2, 2.0, size=(6, 2))
MEANS = RNG.normal(size=(4, 3, 2))
STDS = RNG.uniform(0.2, 1.5, size=(4, 3, 2))

P = RNG.dirichlet(np.full(4, 0.6), size=300)
LABELS = RNG.multinomial(1, P).argmax(axis=1)  # calibrated, so bins err to both sides
COARSE = RNG.multinomial(10, P) / 10  # confidences tie, hit the edges of bins, and some p are 0

IN = RNG.integers(0, 12, size=150).astype(float)  # integers, so that scores tie
OUT = RNG.integers(4, 16, size=100).astype(float)


def integral_crps(y, cdf):
    """∫ (F(z) - 1{y ≤ z})² dz, split where the integrand jumps."""
    below, _ = integrate.quad(lambda z: cdf(z) ** 2, y - 30, y, limit=200)
    above, _ = integrate.quad(lambda z: (1 - cdf(z)) ** 2, y, y + 30, limit=200)
    return below + above


def mean_over_points(score, *arrays):
    """The mean over points of a score taken at one point at a time; the last two axes are points."""
    return np.mean(
        [score(*(a[..., i, j] for a in arrays)) for i, j in np.ndindex(arrays[0].shape[-2:])]
    )


# Regression


def test_rmse_and_density_are_scikit_learn_s_and_scipy_s():
    assert m.rmse(Y, MEAN) == pytest.approx(sk.root_mean_squared_error(Y.ravel(), MEAN.ravel()))
    assert m.gaussian_nll(Y, MEAN, STD) == pytest.approx(-stats.norm(MEAN, STD).logpdf(Y).mean())


def test_the_density_is_told_by_the_std_not_the_variance():
    wrong = -stats.norm(MEAN, STD**2).logpdf(Y).mean()
    assert abs(m.gaussian_nll(Y, MEAN, STD) - wrong) > 0.1


def test_crps_of_normals_is_its_integral():
    def one(y, mean, std):
        return integral_crps(y, lambda z: special.ndtr((z - mean) / std))

    assert m.crps_gaussian(Y, MEAN, STD) == pytest.approx(mean_over_points(one, Y, MEAN, STD))


def test_crps_of_mixtures_is_its_integral_and_not_that_of_the_matched_normal():
    def one(y, means, stds):
        return integral_crps(y, lambda z: special.ndtr((z - means) / stds).mean())

    y = Y[:3]
    score = m.crps_mixture(y, MEANS, STDS)
    assert score == pytest.approx(mean_over_points(one, y, MEANS, STDS))
    matched_std = np.sqrt(MEANS.var(axis=0) + (STDS**2).mean(axis=0))
    assert abs(score - m.crps_gaussian(y, MEANS.mean(axis=0), matched_std)) > 1e-3


def test_a_mixture_of_one_or_of_equals_is_a_normal():
    expected = m.crps_gaussian(Y, MEAN, STD)
    assert m.crps_mixture(Y, MEAN[None], STD[None]) == pytest.approx(expected)
    assert m.crps_mixture(Y, np.stack([MEAN] * 3), np.stack([STD] * 3)) == pytest.approx(expected)


@pytest.mark.parametrize("unbiased", [True, False])
def test_crps_of_samples_is_the_mean_over_pairs(unbiased):
    samples = np.random.default_rng(1).integers(-3, 4, size=(7, 6, 2)).astype(float)  # with ties

    def one(y, x):
        pairs = [
            abs(a - b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j or not unbiased
        ]
        return np.mean(np.abs(x - y)) - np.mean(pairs) / 2

    score = m.crps_samples(Y, samples, unbiased=unbiased)
    assert score == pytest.approx(mean_over_points(one, Y, samples))


def test_counting_all_pairs_scores_the_draws_as_a_law_of_their_own():
    draws, y = np.random.default_rng(2).normal(size=5), 0.3
    kinks = np.sort(np.append(draws, y))

    def integrand(z):
        return (np.mean(draws <= z) - (y <= z)) ** 2

    steps = sum(integrand((a + b) / 2) * (b - a) for a, b in pairwise(kinks))
    assert m.crps_samples([y], draws[:, None], unbiased=False) == pytest.approx(steps)


def test_crps_of_samples_finds_that_of_their_law_without_bias():
    rng, groups, s = np.random.default_rng(3), 150, 3
    y, draws = rng.normal(size=(groups, 50)), rng.normal(0.5, 2.0, size=(groups, s, 50))
    exact = [m.crps_gaussian(row, np.full(50, 0.5), np.full(50, 2.0)) for row in y]

    def error(unbiased):
        scores = [m.crps_samples(*pair, unbiased=unbiased) for pair in zip(y, draws, strict=True)]
        off = np.array(scores) - exact
        return off.mean(), off.std() / np.sqrt(groups)

    off, std_error = error(unbiased=True)
    assert abs(off) < 5 * std_error
    off, std_error = error(unbiased=False)
    bias = 2 * 2.0 / np.sqrt(np.pi) / (2 * s)  # E|X - X'| / 2s, X - X' ~ N(0, 2 · 2.0²)
    assert abs(off - bias) < 5 * std_error
    assert off > 20 * std_error


QS = np.array([0.05, 0.3, 0.9])
PREDICTED = np.random.default_rng(10).normal(size=(6, 2, 3))


def test_pinball_loss_is_scikit_learn_s_for_one_probability_or_several():
    each = [
        sk.mean_pinball_loss(Y.ravel(), PREDICTED[..., i].ravel(), alpha=q)
        for i, q in enumerate(QS)
    ]
    for i, q in enumerate(QS):
        assert m.pinball_loss(Y, PREDICTED[..., i], q) == pytest.approx(each[i])
    assert m.pinball_loss(Y, PREDICTED, QS) == pytest.approx(np.mean(each))


def test_interval_score_is_a_loop_and_the_pinball_losses_of_both_ends():
    low, high = np.sort(np.random.default_rng(11).normal(size=(2, 6, 2)), axis=0)
    total = 0.0
    for y, a, b in zip(Y.ravel(), low.ravel(), high.ravel(), strict=True):
        total += b - a
        if y < a:
            total += 2 / 0.2 * (a - y)
        if y > b:
            total += 2 / 0.2 * (y - b)
    score = m.interval_score(Y, low, high, level=0.8)
    assert score == pytest.approx(total / Y.size)
    ends = m.pinball_loss(Y, np.stack([low, high], axis=-1), [0.1, 0.9])
    assert score == pytest.approx(2 / 0.2 * 2 * ends)


def expected_score(score, kinks):
    """∫ score(y) φ(y) dy for a standard normal y."""

    def integrand(y):
        return score([y]) * np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi)

    return integrate.quad(integrand, -12, 12, points=kinks)[0]


@pytest.mark.parametrize("q", [0.1, 0.5, 0.95])
def test_pinball_loss_is_least_at_the_true_quantile(q):
    def mean_loss(f):
        return expected_score(lambda y: m.pinball_loss(y, [f], q), [f])

    truth = stats.norm.ppf(q)
    # Exactly: the derivative is Φ(f) - q, so moving by h costs about φ(f) h²/2.
    cost = [mean_loss(truth + h) - mean_loss(truth) for h in (-0.1, 0.1)]
    np.testing.assert_allclose(cost, stats.norm.pdf(truth) * 0.1**2 / 2, rtol=0.1)
    other = stats.norm.ppf(1 - q) if q != 0.5 else 1.0  # the control: the wrong tail costs
    assert mean_loss(other) > mean_loss(truth) + 0.05


@pytest.mark.slow
def test_interval_score_is_least_at_the_true_interval():
    def mean_score(low, high, level=0.9):
        return expected_score(
            lambda y: m.interval_score(y, [low], [high], level=level), [low, high]
        )

    half = stats.norm.ppf(0.95)
    best = mean_score(-half, half)
    assert best == pytest.approx(2 / 0.1 * 2 * stats.norm.pdf(half), rel=1e-6)
    for low, high in [(-half - 0.1, half), (-half, half - 0.1), (0.1 - half, half + 0.1)]:
        assert mean_score(low, high) > best + 1e-3
    # The control: for another level the same interval is not best.
    assert mean_score(-half, half, level=0.5) > mean_score(-0.7, 0.7, level=0.5) + 0.1


@pytest.mark.parametrize("unbiased", [True, False])
def test_energy_score_is_the_mean_over_pairs(unbiased):
    samples = np.random.default_rng(12).normal(size=(5, 6, 2))
    total = 0.0
    for i, y in enumerate(Y):
        x = samples[:, i]
        pairs = [
            np.sqrt(((a - b) ** 2).sum())
            for j, a in enumerate(x)
            for k, b in enumerate(x)
            if j != k or not unbiased
        ]
        total += np.mean([np.sqrt(((a - y) ** 2).sum()) for a in x]) - np.mean(pairs) / 2
    assert m.energy_score(Y, samples, unbiased=unbiased) == pytest.approx(total / 6)


@pytest.mark.parametrize("unbiased", [True, False])
def test_energy_score_of_one_target_is_the_crps(unbiased):
    samples = np.random.default_rng(13).normal(size=(7, 6, 1))
    score = m.energy_score(Y[:, :1], samples, unbiased=unbiased)
    assert score == pytest.approx(m.crps_samples(Y[:, :1], samples, unbiased=unbiased))


def test_energy_score_sees_that_targets_go_together_and_crps_does_not():
    rng, groups, s = np.random.default_rng(14), 100, 20
    shared = rng.normal(size=(groups, s + 1, 10, 1)) * np.ones(2)
    y, together = shared[:, 0], shared[:, 1:]
    apart = rng.normal(size=together.shape)  # the same marginals

    def loss_in_std_errors(score):
        pairs = zip(y, together, apart, strict=True)
        loss = [score(truth, wrong) - score(truth, right) for truth, right, wrong in pairs]
        return np.mean(loss) / (np.std(loss) / np.sqrt(groups))

    assert loss_in_std_errors(m.energy_score) > 5
    assert abs(loss_in_std_errors(m.crps_samples)) < 5


def test_intervals_count_their_ends():
    y = np.arange(10.0)
    assert m.interval_coverage(y, np.full(10, 2.0), np.full(10, 6.0)) == 0.5
    half = stats.norm.ppf(0.9)
    rng = np.random.default_rng(4)
    z = rng.normal(size=10_000)
    inside = m.interval_coverage(z, np.full(10_000, -half), np.full(10_000, half))
    assert abs(inside - 0.8) < 5 * np.sqrt(0.8 * 0.2 / 10_000)


def test_calibration_curve_is_a_count_at_each_level():
    pit = np.array([[0.0, 0.25, 0.5], [0.75, 0.75, 1.0]])
    levels = np.array([1.0, 0.0, 0.5, 0.49])
    low, high = (1 - levels) / 2, (1 + levels) / 2
    count = [
        sum(a <= u <= b for u in pit.ravel()) / 6 for a, b in zip(low, high, strict=True)
    ]  # u inside the central interval
    np.testing.assert_allclose(m.calibration_curve(pit, levels), count)
    assert count == [1, 1 / 6, 4 / 6, 1 / 6]
    error = np.mean([0, 1 / 6, 4 / 6 - 0.5, abs(1 / 6 - 0.49)])
    assert m.regression_calibration_error(pit, levels) == pytest.approx(error)


N = 10_000
DKW = np.sqrt(np.log(2 / 1e-9) / (2 * N))
"""All observed coverages of N points lie this close to their means, but for one draw in 10⁹."""


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_calibration_error_is_small_exactly_when_the_std_is_right(scale):
    y = np.random.default_rng(5).normal(size=N)
    levels = m.CENTRAL_LEVELS
    truth = 2 * stats.norm.cdf(scale * stats.norm.ppf((1 + levels) / 2)) - 1
    pit = stats.norm.cdf(y, scale=scale)
    assert np.abs(m.calibration_curve(pit) - truth).max() < DKW
    expected = np.mean(np.abs(truth - levels))
    assert abs(m.regression_calibration_error(pit) - expected) < DKW
    if scale == 1:
        assert expected == pytest.approx(0, abs=1e-12)
    else:
        assert expected > 5 * DKW


def test_central_intervals_do_not_see_a_shift_that_keeps_coverage():
    pit = np.random.default_rng(6).uniform(0.5, 1.0, size=N)  # y always above the median
    assert m.regression_calibration_error(pit) < DKW


# Curves of Figures 2 and 3


def loop_curve(confidence, error, thresholds):
    kept = [[e for c, e in zip(confidence, error, strict=True) if c >= tau] for tau in thresholds]
    return [np.mean(k) if k else np.nan for k in kept], [len(k) / len(error) for k in kept]


def test_error_vs_precision_is_a_loop_over_thresholds():
    rng = np.random.default_rng(7)
    y, mean = rng.normal(size=(2, 40, 2))
    std = rng.choice([0.5, 1.0, 2.0], size=(40, 2))  # precisions 4, 1, ¼, each many times
    thresholds = [0.0, 5.0, 0.25, 1.0, 1.5, 4.0]
    squares, fractions = loop_curve(1 / std.ravel() ** 2, ((y - mean) ** 2).ravel(), thresholds)
    curve = m.error_vs_precision(y, mean, std, thresholds=thresholds)
    np.testing.assert_array_equal(curve.thresholds, thresholds)
    np.testing.assert_allclose(curve.errors, np.sqrt(squares))
    np.testing.assert_allclose(curve.fractions, fractions)
    assert curve.errors[0] == pytest.approx(m.rmse(y, mean))
    assert np.isnan(curve.errors).tolist() == [False, True, False, False, False, False]
    assert curve.fractions[1] == 0


def test_without_thresholds_every_precision_is_one_and_none_is_empty():
    y, mean, std = np.array([1.0, 2.0, 3.0]), np.zeros(3), np.array([0.5, 1.0, 1.0])
    curve = m.error_vs_precision(y, mean, std)
    np.testing.assert_array_equal(curve.thresholds, [1.0, 4.0])
    np.testing.assert_allclose(curve.errors, [np.sqrt(14 / 3), 1.0])
    np.testing.assert_allclose(curve.fractions, [1.0, 1 / 3])


def test_precise_points_err_less_when_the_std_is_informative_and_as_much_when_not():
    rng = np.random.default_rng(8)
    std = rng.choice([0.5, 2.0], size=N)
    y, half = std * rng.normal(size=N), np.sum(std == 0.5)
    told = m.error_vs_precision(y, np.zeros(N), std, thresholds=[4.0]).errors[0]
    assert abs(told / 0.5 - 1) < 5 / np.sqrt(2 * half)  # standard error of a normal's std
    shuffled = m.error_vs_precision(y, np.zeros(N), rng.permutation(std), thresholds=[4.0])
    assert shuffled.errors[0] > 1.2  # control: √((0.5² + 2²)/2) = 1.46


@pytest.mark.parametrize("p", [P, COARSE], ids=["continuous", "ties"])
def test_error_vs_confidence_is_a_loop_that_counts_every_outlier_as_an_error(p):
    labels = np.where(np.arange(300) % 3, LABELS, -1)
    wrong = [y < 0 or row.argmax() != y for y, row in zip(labels, p, strict=True)]
    thresholds = [0.9, 0.0, 0.5, 0.7, 1.0]
    errors, fractions = loop_curve(p.max(axis=1), wrong, thresholds)
    curve = m.error_vs_confidence(labels, p, thresholds=thresholds)
    np.testing.assert_allclose(curve.errors, errors)
    np.testing.assert_allclose(curve.fractions, fractions)
    assert curve.errors[1] >= 1 / 3
    clean = m.error_vs_confidence(LABELS, p, thresholds=[0.0])
    assert clean.errors[0] == pytest.approx(1 - m.accuracy(LABELS, p))
    assert clean.errors[0] < curve.errors[1]


def test_the_usual_thresholds_span_the_unit_interval_and_the_saturated_are_kept_at_one():
    curve = m.error_vs_confidence([0, 1, -1], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(curve.thresholds, np.linspace(0, 1, 101))
    assert (curve.errors[-1], curve.fractions[-1]) == (0.5, pytest.approx(2 / 3))
    curve.thresholds[:] = 0.0  # the curve is the caller's: changing it changes no later one
    doubtful = m.error_vs_confidence([0], [[0.75, 0.25]])
    np.testing.assert_allclose(doubtful.thresholds, np.linspace(0, 1, 101))
    np.testing.assert_array_equal(np.isnan(doubtful.errors), doubtful.thresholds > 0.75)


# Classification


def test_accuracy_and_log_loss_are_scikit_learn_s():
    assert m.accuracy(LABELS, P) == pytest.approx(sk.accuracy_score(LABELS, P.argmax(axis=1)))
    nll = sk.log_loss(LABELS, P, labels=range(4))
    assert m.classification_nll(LABELS, P) == pytest.approx(nll)


def test_of_equal_probabilities_the_first_class_is_predicted():
    p = np.full((2, 2), 0.5)
    assert m.accuracy([0, 0], p) == 1
    assert m.accuracy([1, 1], p) == 0


def test_a_zero_probability_costs_much_but_not_everything():
    cost = m.classification_nll([1, 0], [[1.0, 0.0], [1.0, 0.0]])
    assert cost == pytest.approx(-np.log(2.2250738585072014e-308) / 2)
    tiny = m.classification_nll([1], [[1.0, 1e-300]])  # anything larger is taken at its word
    assert tiny == pytest.approx(300 * np.log(10))


def test_brier_score_is_a_sum_over_classes():
    loop = [
        sum((row[c] - (c == y)) ** 2 for c in range(4)) for y, row in zip(LABELS, P, strict=True)
    ]
    assert m.brier_score(LABELS, P) == pytest.approx(np.mean(loop))
    two = np.column_stack([P[:, 0], 1 - P[:, 0]])
    binary = sk.brier_score_loss(LABELS > 0, two[:, 1])
    assert m.brier_score((LABELS > 0).astype(int), two) == pytest.approx(2 * binary)


@pytest.mark.parametrize("bins", [1, 5, 15])
@pytest.mark.parametrize("p", [P, COARSE], ids=["continuous", "edges"])
def test_expected_calibration_error_is_a_loop_over_bins(p, bins):
    confidence, right = p.max(axis=1), p.argmax(axis=1) == LABELS
    total = 0.0
    for b in range(1, bins + 1):
        inside = (confidence > (b - 1) / bins) & (confidence <= b / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert m.expected_calibration_error(LABELS, p, bins=bins) == pytest.approx(total)


def test_a_bin_holds_its_upper_end():
    labels, p = [0, 1], [[0.5, 0.5], [0.7, 0.3]]  # gaps 0.5 and -0.7, which would cancel in one bin
    assert m.expected_calibration_error(labels, p, bins=2) == pytest.approx((0.5 + 0.7) / 2)
    assert m.expected_calibration_error(labels, p, bins=1) == pytest.approx((0.7 - 0.5) / 2)


def test_expected_calibration_error_tells_calibrated_from_overconfident():
    rng = np.random.default_rng(9)
    p = rng.dirichlet(np.ones(3), size=N)
    labels = (rng.uniform(size=(N, 1)) > np.cumsum(p, axis=1)[:, :2]).sum(axis=1)
    # E Σ_b n_b/n |mean of n_b centred signs| ≤ Σ_b √n_b / 2n ≤ √(15/n)/2; a point moves it by ≤ 2/n
    limit = np.sqrt(15 / N) / 2 + np.sqrt(2 * np.log(1e9) / N)
    assert m.expected_calibration_error(labels, p) < limit
    sharp = p**3 / np.sum(p**3, axis=1, keepdims=True)
    assert m.expected_calibration_error(labels, sharp) > 2 * limit


def test_entropy_is_scipy_s_and_zero_for_certainty():
    np.testing.assert_allclose(m.predictive_entropy(COARSE), stats.entropy(COARSE, axis=1))
    np.testing.assert_allclose(m.predictive_entropy(np.full((1, 8), 1 / 8)), np.log(8))
    np.testing.assert_array_equal(m.predictive_entropy(np.eye(3)), 0)


def test_sets_are_counted_row_by_row():
    sets = P > 0.2
    held = [sets[i, label] for i, label in enumerate(LABELS)]
    assert m.set_coverage(LABELS, sets) == pytest.approx(np.mean(held))
    assert m.mean_set_size(sets) == pytest.approx(np.mean([sum(row) for row in sets]))
    assert m.set_coverage(LABELS, ~sets) == pytest.approx(1 - np.mean(held))


# Out-of-distribution detection

SCORES = {
    "ties": (IN, OUT),
    "continuous": (IN + P[:150, 0], OUT + P[150:250, 0]),
    "all equal": (np.zeros(5), np.zeros(3)),
    "apart": (np.arange(5.0), np.arange(5.0, 9.0)),
}


def truth_and_score(inside, outside):
    return np.repeat([0, 1], [len(inside), len(outside)]), np.concatenate([inside, outside])


@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_auroc_is_scikit_learn_s_and_the_share_of_pairs(scores):
    inside, outside = scores
    pairs = np.mean([(b > a) + (b == a) / 2 for a in inside for b in outside])
    assert m.auroc(*scores) == pytest.approx(pairs)
    assert m.auroc(*scores) == pytest.approx(sk.roc_auc_score(*truth_and_score(*scores)))
    assert m.auroc(outside, inside) == pytest.approx(1 - pairs)


@pytest.mark.parametrize("tpr", [0.07, 0.5, 0.95, 1.0])  # 0.07 · 100 is above 7 in floating point
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_fpr_is_read_off_scikit_learn_s_curve(scores, tpr):
    fprs, tprs, _ = sk.roc_curve(*truth_and_score(*scores), drop_intermediate=False)
    assert m.fpr_at_tpr(*scores, tpr=tpr) == pytest.approx(fprs[np.argmax(tprs >= tpr)])


def test_the_other_convention_of_fpr_is_had_by_swapping():
    inside, outside = np.arange(120) / 10, np.linspace(8.05, 10.05, 41)
    truth, score = truth_and_score(inside, outside)
    fprs, tprs, _ = sk.roc_curve(1 - truth, -score, drop_intermediate=False)  # positive: inside
    other = fprs[np.argmax(tprs >= 0.95)]
    assert m.fpr_at_tpr(-outside, -inside) == pytest.approx(other) == 1
    assert m.fpr_at_tpr(inside, outside) == pytest.approx(38 / 120)  # from 8.15, 39 of 41 caught


# What is refused


def test_float32_and_lists_are_scored_in_float64():
    assert m.rmse([1, 2], np.array([1, 2], np.float32)) == 0
    p = P.astype(np.float32)
    expected = m.classification_nll(LABELS, p.astype(np.float64))
    assert m.classification_nll(LABELS.astype(np.uint8), p) == expected


ONE, TWO = np.ones(3), np.ones((3, 1))
HALF = np.full((3, 2), 0.5)
BAD = {
    "stretched": (m.rmse, (ONE, TWO), r"one shape; got \(3,\), \(3, 1\)"),
    "std stretched": (m.gaussian_nll, (ONE, ONE, TWO), "y, mean, std must all have one shape"),
    "interval stretched": (m.interval_coverage, (ONE, ONE, TWO), "one shape"),
    "nan": (m.rmse, ([0.0, np.nan], [0.0, 0.0]), "y must be finite; got 1 NaN or infinite of 2"),
    "inf": (m.auroc, (ONE, [np.inf]), "out_scores must be finite"),
    "empty": (m.rmse, ([], []), "y must be an array of at least one point"),
    "scalar": (m.rmse, (ONE[0], ONE[0]), "y must be an array of at least one point"),
    "no scores": (m.auroc, ([], ONE), "in_scores must be an array of at least one point"),
    "scores in rows": (m.fpr_at_tpr, (ONE, TWO), "out_scores must have 1 axes"),
    "zero std": (m.crps_gaussian, (ONE, ONE, 0 * ONE), r"std must be > 0.*got 0\.0"),
    "negative std": (m.error_vs_precision, (ONE, ONE, -ONE), r"std must be > 0.*got -1\.0"),
    "zero stds": (m.crps_mixture, (ONE, HALF.T, 0 * HALF.T), "stds must be > 0"),
    "members differ": (m.crps_mixture, (ONE, HALF.T, HALF), "means, stds must all have one shape"),
    "y as members": (m.crps_mixture, (TWO, HALF.T, HALF.T), r"y must have shape \(3,\)"),
    "y as samples": (m.crps_samples, (TWO, HALF.T), r"y must have shape \(3,\).*got \(3, 1\)"),
    "one draw": (m.crps_samples, (ONE, ONE[None]), "at least 2 draws.*unbiased=False"),
    "ends swapped": (m.interval_coverage, (ONE, 2 * ONE, ONE), "low must not exceed high.* 3 "),
    "score, ends swapped": (m.interval_score, (ONE, 2 * ONE, ONE, 0.9), "low must not exceed high"),
    "score, level": (
        m.interval_score,
        (ONE, ONE, ONE, 90.0),
        "level must be a number.*between 0 and 1; got 90",
    ),
    "quantile": (
        m.pinball_loss,
        (ONE, ONE, 1.0),
        r"q must be a number or a list.*between 0 and 1; got 1\.0",
    ),
    "quantiles": (m.pinball_loss, (ONE, ONE, [0.1]), r"predicted must have shape \(3, 1\)"),
    "flat samples": (m.energy_score, (ONE, HALF.T), "samples must have 3 axes"),
    "one joint draw": (m.energy_score, (TWO, TWO[None]), "at least 2 draws"),
    "sets of numbers": (m.mean_set_size, (HALF,), r"sets must be.*booleans.*got float64"),
    "labels of sets": (m.set_coverage, ([0], HALF > 0), r"labels must be \(3,\).*got \(1,\)"),
    "pit": (m.calibration_curve, ([0.5, 1.5],), r"pit must lie between 0 and 1.*0\.5 \.\.\. 1\.5"),
    "level": (m.regression_calibration_error, ([0.5], [95.0]), "levels must lie between 0 and 1"),
    "one level": (
        m.regression_calibration_error,
        ([0.5], np.array(0.9)),
        "levels must have 1 axes",
    ),
    "logits": (m.predictive_entropy, ([[-1.0, 2.0]],), r"not be negative; got -1\.0.*logits"),
    "sum": (m.predictive_entropy, ([[0.5, 0.5], [0.5, 0.501]],), "sum to 1 .*row 0.001 off"),
    "one row": (m.predictive_entropy, ([0.5, 0.5],), "probabilities must have 2 axes"),
    "float labels": (m.accuracy, (ONE, HALF), "labels must be integers.*float64"),
    "label too high": (m.brier_score, ([0, 1, 2], HALF), r"labels must lie in 0 \.\.\. 1; .* 2\."),
    "outlier": (m.classification_nll, ([0, 1, -1], HALF), r"labels must lie in 0 \.\.\. 1; got -1"),
    "label -2": (m.error_vs_confidence, ([0, 1, -2], HALF), r"labels must lie in -1 \.\.\. 1"),
    "few labels": (m.expected_calibration_error, ([0], HALF), r"labels must be \(3,\).*got \(1,\)"),
}


@pytest.mark.parametrize(("score", "arguments", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_scored_is_refused_in_words(score, arguments, words):
    with pytest.raises(ValueError, match=words):
        score(*arguments)


@pytest.mark.parametrize("tpr", [0.0, 1.5, 95.0])
def test_a_rate_outside_the_unit_interval_is_refused(tpr):
    with pytest.raises(ValueError, match="tpr must be above 0 and at most 1"):
        m.fpr_at_tpr(IN, OUT, tpr=tpr)


def test_thresholds_and_bins_out_of_range_are_refused():
    with pytest.raises(ValueError, match="thresholds must lie between 0 and 1"):
        m.error_vs_confidence(LABELS, P, thresholds=[0.0, 60.0])
    with pytest.raises(ValueError, match="thresholds must be finite"):
        m.error_vs_precision(Y, MEAN, STD, thresholds=[np.nan])
    with pytest.raises(ValueError, match="bins must be at least 1"):
        m.expected_calibration_error(LABELS, P, bins=0)


def test_rounding_of_a_float32_softmax_is_forgiven():
    p = np.array([[0.7, 0.30005]])
    assert m.predictive_entropy(p)[0] == pytest.approx(-np.sum(p * np.log(p)))
