"""Noise that differs from row to row, and weights of rows, through both regressors."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import ntkgp
from helpers import without_kernel
from ntkgp import EnsembleRegressor, GPRegressor, HeavyTails, LearnedNoise, VaryingNoise
from ntkgp.ensembles.problem import Data

pytestmark = pytest.mark.slow  # the models themselves are tested in tests/laws/test_row_noise.py

GP = GPRegressor(depth=1, activation="erf", optimizer=None, random_state=0)
ENSEMBLE = EnsembleRegressor(
    depth=1,
    width=64,
    members=2,
    activation="erf",
    learn_prior=False,
    trainer=ntkgp.GaussNewton(max_steps=15),
    random_state=0,
)
BOTH = pytest.mark.parametrize("model", [GP, ENSEMBLE], ids=lambda m: type(m).__name__)
NOISES = [VaryingNoise(), HeavyTails()]


def table(noise_std, n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 1))
    return x, np.sin(2 * x[:, 0]) + noise_std(x[:, 0]) * rng.standard_normal(n)


def slope(x):
    return np.exp(-1.5 + 0.6 * x)


def constant(x):
    return np.full(len(x), 0.3)


X, Y = table(slope, n=60)
NEW = np.linspace(-2, 2, 9)[:, None]


def gains(model, noise, noise_std):
    """log p of fresh rows with this noise model, over that with constant noise; and the first model."""
    x, y = table(noise_std)
    x_new, y_new = table(noise_std, n=1000, seed=1)
    first, second = (
        clone(model).set_params(noise=each).fit(x, y).predict_dist(x_new) for each in (noise, None)
    )
    return first.log_prob(y_new) - second.log_prob(y_new), first, x_new


@BOTH
def test_varying_noise_is_found_and_makes_fresh_rows_likelier(model):
    gain, predicted, x = gains(model, VaryingNoise(), slope)
    assert gain.mean() > 2 * gain.std() / len(gain) ** 0.5
    # An oracle gains E log(σ_rms/σ(x)): half of it.
    sigma = slope(x[:, 0])
    oracle = np.log(np.sqrt(np.mean(sigma**2)) / sigma).mean()
    assert gain.mean() > 0.5 * oracle
    found = np.log(np.sqrt(predicted.noise_var))
    assert np.corrcoef(found, np.log(sigma))[0, 1] > 0.9
    assert np.ptp(found) > 0.5 * np.ptp(np.log(sigma))  # constant noise has 0


def test_constant_noise_is_left_alone():
    gain, predicted, _ = gains(GP, VaryingNoise(), constant)
    assert abs(gain.mean()) < 0.05
    relative = predicted.noise_var / 0.3**2
    assert relative.min() > 1 / 1.5
    assert relative.max() < 1.5


def test_noise_without_outliers_costs_heavy_tails_little():
    """E log N - E log t₄ at the best scale is 0.04 for normal noise; with df large it is 0."""
    gain, _, _ = gains(GP, HeavyTails(), constant)
    assert -0.08 < gain.mean() < 0
    gain, _, _ = gains(GP, HeavyTails(df=1e7), constant)
    assert abs(gain.mean()) < 1e-3


@BOTH
def test_outliers_do_not_move_the_mean_and_predictions_expect_them(model):
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-2, 2, size=(60, 1)), axis=0)
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(60)
    y[::10] += [4, -4, 4, -4, 4, -4]
    inner = np.linspace(-1.5, 1.5, 20)[:, None]

    def error(noise):
        fitted = clone(model).set_params(noise=noise).fit(x, y)
        return np.sqrt(np.mean((fitted.predict(inner) - np.sin(2 * inner[:, 0])) ** 2)), fitted

    robust, fitted = error(HeavyTails())
    blind, _ = error(None)  # the control
    assert robust < 0.15
    assert blind > 2 * robust
    predicted = fitted.predict_dist(inner)
    assert predicted.df == 4
    assert np.all(predicted.noise_var < 0.25**2)
    assert np.all(predicted.interval(0.999)[1] - predicted.mean > 6 * predicted.scale)


@BOTH
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_a_regressor_with_row_noise_agrees_with_itself(model, noise, tmp_path):
    """Its distribution, its covariance and its samples; its file; its clone."""
    fitted = clone(model).set_params(noise=noise).fit(X, Y)
    predicted = fitted.predict_dist(NEW)
    mean, covariance = fitted.predict(NEW, return_cov=True)
    np.testing.assert_allclose(mean, predicted.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.diag(covariance), predicted.var, rtol=1e-4)
    fitted.save(tmp_path / "model")
    again = ntkgp.load(tmp_path / "model")
    assert again.noise == noise
    np.testing.assert_array_equal(again.predict_dist(NEW).var, predicted.var)
    np.testing.assert_array_equal(again.predict_dist(NEW).mean, predicted.mean)
    assert clone(fitted).noise == noise
    assert "noise_std_" not in vars(clone(fitted))


@BOTH
def test_samples_have_the_noise_s_tails(model):
    """4,000 draws at each row, less the function's own: the variance within 5 standard errors.

    The fourth moment of t with 5 degrees of freedom is 9σ⁴: the squares' standard deviation is √8 σ².
    """
    fitted = clone(model).set_params(noise=HeavyTails(df=5.0)).fit(X, Y)
    noise_var = fitted._noise_var(fitted._inputs(NEW))[0]
    draws = fitted._noise_samples(fitted._inputs(NEW), 4000, seed=0)
    assert draws.shape == (4000, 9, 1)
    error = np.mean(draws**2) / (noise_var * 5 / 3) - 1
    assert abs(error[0]) < 5 * np.sqrt(8 / draws.size)
    one = draws[:, 0, 0] / np.sqrt(noise_var)
    assert stats.kstest(one, stats.t(5).cdf).pvalue > 1e-4
    assert stats.kstest(one, stats.norm(scale=(5 / 3) ** 0.5).cdf).pvalue < 1e-4  # the control
    samples = fitted.sample_y(NEW, n_samples=500)
    assert samples.shape == (9, 500)
    spread = np.mean(samples.var(axis=1) / fitted.predict_dist(NEW).var)
    assert spread == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("noise", [None, *NOISES], ids=repr)
def test_warm_starts_grow_with_the_same_weights(noise):
    weight = np.linspace(0.5, 2.0, len(X))
    model = clone(ENSEMBLE).set_params(noise=noise, warm_start=True, members=1).fit(X, Y, weight)
    first = model.ensemble_.outputs(NEW)
    before = model.ensemble_.trained_on
    model.set_params(members=2).fit(X, Y, weight)
    assert len(model.ensemble_) == 2
    assert model.ensemble_.trained_on == before
    np.testing.assert_array_equal(model.ensemble_.outputs(NEW)[:1], first)
    with pytest.raises(ValueError, match="warm_start"):
        model.set_params(members=3).fit(X, Y)  # other weights are other data


@BOTH
@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"noise": VaryingNoise}, TypeError, r"noise must be None, ntkgp\.VaryingNoise\(\)"),
        ({"noise": "varying"}, TypeError, r"noise must be None, ntkgp\.VaryingNoise\(\)"),
        ({"noise": HeavyTails(), "noise_std": 0.1}, ValueError, "leave noise_std None"),
    ],
    ids=["class", "word", "given"],
)
def test_noise_that_cannot_be_is_refused_in_words(model, settings, error, words):
    with pytest.raises(error, match=words):
        clone(model).set_params(**settings).fit(X, Y)


def test_noise_that_needs_another_law_or_network_is_refused_in_words():
    for law in ("randomised-prior", "deep-ensemble"):
        with pytest.raises(ValueError, match=r'take law="ntkgp" or "nngp"'):
            clone(GP).set_params(noise=VaryingNoise(), law=law).fit(X, Y)
    with pytest.raises(TypeError, match="noise must be None"):
        clone(GP).set_params(noise=LearnedNoise()).fit(X, Y)
    bare = without_kernel(ntkgp.mlp(1, width=8, depth=1))
    for noise in NOISES:
        with pytest.raises(ValueError, match="made of dense layers"):
            clone(ENSEMBLE).set_params(noise=noise, network=bare).fit(X, Y)
    layers = ntkgp.networks.layers
    pooled = ntkgp.LayeredNetwork(
        (3, 3, 1), [layers.Conv(2), layers.Erf(), layers.GlobalAvgPool()], layers.Dense(1)
    )
    for noise in NOISES:
        with pytest.raises(ValueError, match="made of dense layers"):
            clone(GP).set_params(noise=noise, network=pooled).fit(np.ones((5, 3, 3, 1)), Y[:5])


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_tables_that_say_nothing_of_the_noise_are_fitted(noise):
    """Constant targets, three rows, rows that repeat."""
    line = np.linspace(-1, 1, 20)[:, None]
    repeats = np.repeat(line, 3, axis=0)
    for x, y in ((line, np.ones(20)), (line[:3], np.arange(3.0)), (repeats, np.sin(repeats[:, 0]))):
        predicted = clone(GP).set_params(noise=noise).fit(x, y).predict_dist(x)
        assert np.all(np.isfinite(predicted.std))
        assert np.all(predicted.std > 0)
        np.testing.assert_allclose(predicted.mean, y, atol=0.1)


@ntkgp.storable
@dataclass(frozen=True)
class Proportional:
    """A noise model of the user's own: σ(x) grows with the first column, as is known in advance."""

    growth: float

    def fitted(self, law, seed):
        return Grown(law.noise_std, self.growth)


@ntkgp.storable
@dataclass(frozen=True)
class Grown:
    noise_std: float
    growth: float

    normal = True

    def relative_var(self, x):
        return np.exp(2 * self.growth * x[:, 0])

    def weights(self, x, y):
        return 1 / self.relative_var(x)

    def observed(self, predicted):
        return predicted


@BOTH
def test_a_model_of_the_user_s_own(model, tmp_path):
    fitted = clone(model).set_params(noise=Proportional(0.6)).fit(X, Y)
    found = np.log(np.sqrt(fitted.predict_dist([[-1.0], [1.0]]).noise_var))
    in_units = 2 / fitted.x_scaler_.std[0]
    assert found[1] - found[0] == pytest.approx(0.6 * in_units)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(ntkgp.load(tmp_path / "model").predict(NEW), fitted.predict(NEW))


# Weights of rows


@BOTH
def test_rows_of_weight_0_do_not_count(model):
    weight = np.r_[np.ones(50), np.zeros(10)]
    found = clone(model).fit(X, Y, weight).predict_dist(NEW)
    expected = clone(model).fit(X[:50], Y[:50]).predict_dist(NEW)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)
    everything = clone(model).fit(X, Y).predict_dist(NEW)  # the control
    assert np.abs(found.mean - everything.mean).max() > 1e-3


@BOTH
def test_weights_that_are_all_alike_change_nothing(model):
    plain = clone(model).fit(X, Y).predict_dist(NEW)
    for weight in (3.0, np.full(len(X), 0.1), np.ones(len(X), int)):
        found = clone(model).fit(X, Y, sample_weight=weight).predict_dist(NEW)
        np.testing.assert_array_equal(found.mean, plain.mean)
        np.testing.assert_array_equal(found.std, plain.std)


def test_weighted_rows_are_repeated_rows_where_the_noise_is_given():
    """σ is that of a row of mean weight: with two copies on average, a copy has √2 times as much.

    The function's scale is searched on a grid that depends on the rows, to about 1e-4.
    """
    counts = np.tile([1, 3], len(X) // 2)
    x, y = np.repeat(X, counts, axis=0), np.repeat(Y, counts)
    model = clone(GP).set_params(noise_std=0.3)  # repeated rows are evidence of little noise
    found = model.fit(X, Y, counts).predict_dist(NEW)
    copies = clone(model).set_params(noise_std=0.3 * 2**0.5).fit(x, y).predict_dist(NEW)
    np.testing.assert_allclose(found.mean, copies.mean, atol=1e-3)
    np.testing.assert_allclose(found.epistemic_var, copies.epistemic_var, rtol=1e-2)
    plain = clone(model).fit(X, Y).predict_dist(NEW)  # the control
    assert np.abs(plain.mean - copies.mean).max() > 0.05


@BOTH
@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(59), "one number for each of 60 rows"),
        (np.ones((60, 1)), "one number for each of 60 rows"),
        (np.r_[np.ones(59), -1.0], "finite numbers ≥ 0"),
        (np.r_[np.ones(59), np.nan], "finite numbers ≥ 0"),
        (np.zeros(60), "not all zero"),
        (0.0, "not all zero"),
    ],
    ids=["length", "column", "negative", "nan", "zeros", "zero"],
)
def test_bad_weights_are_refused_in_words(model, weight, words):
    with pytest.raises(ValueError, match=words):
        clone(model).fit(X, Y, weight)


def test_a_pipeline_passes_weights_on():
    weight = np.linspace(0.1, 3.0, len(X))
    steps = [("scale", StandardScaler()), ("model", clone(GP))]
    pipeline = Pipeline(steps).fit(X, Y, model__sample_weight=weight)
    found = pipeline.predict(NEW)
    x = StandardScaler().fit(X)
    expected = clone(GP).fit(x.transform(X), Y, weight).predict(x.transform(NEW))
    np.testing.assert_array_equal(found, expected)
    assert np.abs(found - clone(GP).fit(X, Y).predict(NEW)).max() > 1e-3  # the control


def test_members_train_with_the_row_s_noise_and_the_user_s_weight():
    weight = np.linspace(0.5, 2.0, len(X)) / 1.25
    model = clone(ENSEMBLE).set_params(noise=VaryingNoise(), members=1).fit(X, Y, weight)
    x, y = model.x_scaler_.apply("X", X), model.y_scaler_.apply("y", Y[:, None])
    both = weight * model.row_noise_.weights(x, y)
    assert model.ensemble_.trained_on == Data.of(x, y, both).fingerprint()
    assert model.ensemble_.trained_on != Data.of(x, y, weight).fingerprint()  # the control


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_members_draw_their_scales_beside_the_noise_that_these_were_learned_with(noise):
    model = clone(ENSEMBLE).set_params(noise=noise, learn_prior=True).fit(X, Y)
    learned = replace(model.prior_, net=model.uncertain_prior_.net)
    sigma = learned.noise_std * Y.std() / model.y_scaler_.std[0]  # in the network's units
    y = model.y_scaler_.apply("y", Y[:, None])

    def root(noise_std):
        own = replace(learned, noise_std=noise_std)
        return ntkgp.uncertain_prior(own, model._inputs(X), y, seed=model.seed_).root

    found = np.abs(model.uncertain_prior_.root)
    np.testing.assert_allclose(found, np.abs(root(sigma)), rtol=1e-3)
    assert not np.allclose(found, np.abs(root(sigma / 10)), rtol=0.1)
