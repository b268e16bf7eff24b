"""The scikit-learn face: its contract, units, distributions, and the paper's classification."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

import ntkgp
from helpers import without_kernel
from ntkgp import EnsembleClassifier, EnsembleRegressor, GPClassifier, GPRegressor, metrics
from ntkgp.estimators import (
    cross_fitted,
    ensemble_regressor,
    left_out,
    pilots,
    preparation,
)
from ntkgp.estimators.preparation import Choice, holdout, with_unit_prior
from ntkgp.networks.layers import Conv, Dense, GlobalAvgPool, Relu

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2)) * [1.0, 50.0] + [0.0, 1000.0]
SIGNAL = 30 + 10 * np.sin(X[:, 0])
Y = SIGNAL + RNG.normal(size=120)
LABELS = np.where(X[:, 0] + 0.3 * RNG.normal(size=120) > 0, "up", "down")
SMALL = {"members": 2, "width": 16, "min_steps": 1000, "min_epochs": 1, "random_state": 0}
REGRESSORS = [
    GPRegressor(activation="erf", depth=1, random_state=0),
    EnsembleRegressor(activation="relu", depth=1, **SMALL),
]
UNLEARNED = {"GPRegressor": {"optimizer": None}, "EnsembleRegressor": {"learn_prior": False}}
"""Settings that keep the network's own scales, where a test is about something else."""
EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data": "Noise is learned. Repeated rows that agree to the "
    "last digit are evidence of little noise, and one row of a large weight is none."
}
CLASSIFIERS = [GPClassifier(depth=1, random_state=0), EnsembleClassifier(depth=1, **SMALL)]


@pytest.fixture(scope="module", params=REGRESSORS, ids=lambda m: type(m).__name__)
def regressor(request):
    return clone(request.param).fit(X, Y)


@pytest.fixture(scope="module", params=CLASSIFIERS, ids=lambda m: type(m).__name__)
def classifier(request):
    return clone(request.param).fit(X, LABELS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        REGRESSORS[0],
        *(pytest.param(m, marks=pytest.mark.slow) for m in (REGRESSORS[1], *CLASSIFIERS)),
    ],
    ids=lambda m: type(m).__name__,
)
def test_scikit_learn_s_own_checks_pass(model):
    # Smaller programs, because each of the checks' tables is compiled for anew.
    model = clone(model).set_params(activation="relu", depth=1)
    model.set_params(**UNLEARNED.get(type(model).__name__, {}))
    if isinstance(model, EnsembleRegressor | EnsembleClassifier):
        model = model.set_params(members=1, batch_size=1000, min_steps=300)
    options = {"expected_failed_checks": EXPECTED_TO_FAIL, "on_skip": None, "on_fail": None}
    results = check_estimator(model, **options)
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(EXPECTED_TO_FAIL)
    failed = [r for r in results if r["status"] not in ("passed", "skipped", "xfail")]
    assert not failed, "\n".join(f"{r['check_name']}: {r['exception']!r}" for r in failed)
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # which needs an environment variable of SciPy's
    assert len(results) > 45


# Regression


@pytest.mark.quick("GPRegressor")
def test_regressors_fit_and_know_the_noise(regressor):
    assert regressor.score(X, SIGNAL) > 0.9
    # Truth 1 beside a spread of 7; two narrow members count their own error as noise.
    most = 1.5 if isinstance(regressor, GPRegressor) else 4.0
    assert 0.6 < regressor.noise_std_[0] < most
    far = regressor.predict_dist([[6.0, 1000.0]])
    near = regressor.predict_dist([[0.0, 1000.0]])
    assert far.epistemic_var[0] > 4 * near.epistemic_var[0]


@pytest.mark.quick("GPRegressor")
def test_results_are_in_the_user_s_units(regressor):
    """y and X in other units: the same predictions, in those units."""
    other = clone(regressor).fit(X * [1e-3, 7.0] + 5, 1e4 * Y - 3)
    mean, std = regressor.predict(X[:9], return_std=True)
    mean_2, std_2 = other.predict(X[:9] * [1e-3, 7.0] + 5, return_std=True)
    np.testing.assert_allclose(mean_2, 1e4 * mean - 3, rtol=2e-3)
    np.testing.assert_allclose(std_2, 1e4 * std, rtol=2e-2)


@pytest.mark.quick("GPRegressor")
def test_a_distribution_agrees_with_predict(regressor):
    dist = regressor.predict_dist(X[:5])
    mean, std = regressor.predict(X[:5], return_std=True)
    mean_again, cov = regressor.predict(X[:5], return_cov=True)
    for each in (mean, mean_again, regressor.predict(X[:5])):
        np.testing.assert_allclose(each, dist.mean, rtol=1e-6)
    np.testing.assert_allclose(std, dist.std)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-5)
    np.testing.assert_allclose(dist.var, dist.epistemic_var + dist.noise_var)
    low, high = dist.interval(0.9)
    assert (low < mean).all()
    assert (mean < high).all()
    assert dist.log_prob(Y[:5]).shape == (5,)


def test_quantiles_and_intervals_are_those_of_the_distribution(regressor):
    dist, levels = regressor.predict_dist(X[:5]), [0.05, 0.5, 0.95]
    found = regressor.predict(X[:5], quantiles=levels)
    assert found.shape == (5, 3)
    for column, q in zip(found.T, levels, strict=True):
        np.testing.assert_array_equal(column, dist.quantile(q))
    low, high = regressor.predict(X[:5], interval=0.9)
    np.testing.assert_allclose(found[:, [0, 2]], np.stack([low, high], axis=1))
    np.testing.assert_allclose(found[:, 1], dist.mean)


def test_members_are_predicted_by_ensembles_alone(regressor):
    if isinstance(regressor, EnsembleRegressor):
        each = regressor.predict(X[:5], return_members=True)
        np.testing.assert_allclose(each, regressor.predict_dist(X[:5]).members)
        assert np.ptp(each, axis=0).min() > 0
    else:
        with pytest.raises(ValueError, match=r"GPRegressor has no members.*sample_y\(X, n_samples"):
            regressor.predict(X[:5], return_members=True)


def test_predict_answers_one_question_at_a_time(regressor):
    pairs = [
        {"return_std": True, "return_cov": True},
        {"return_std": True, "quantiles": [0.5]},
        {"interval": 0.9, "quantiles": [0.5]},
        {"return_members": True, "return_cov": True},
    ]
    for pair in pairs:
        with pytest.raises(ValueError, match=r"one question at a time; got \w+ and \w+\."):
            regressor.predict(X[:5], **pair)
    for bad in ([0.5, 1.0], [], 0.5, [[0.5]], [np.nan]):
        with pytest.raises(ValueError, match="quantiles must be a list of numbers strictly"):
            regressor.predict(X[:5], quantiles=bad)
    for bad in (0.0, 90, [0.9]):
        with pytest.raises(ValueError, match="interval must be a number strictly between 0 and 1"):
            regressor.predict(X[:5], interval=bad)


def test_options_of_predict_pass_through_a_pipeline():
    model = GPRegressor(activation="erf", depth=1, optimizer=None, random_state=0)
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), model).fit(X, Y)
    inner = pipeline[:-1].transform(X[:5])
    levels = [0.05, 0.95]
    found = pipeline.predict(X[:5], quantiles=levels)
    np.testing.assert_array_equal(found, pipeline[-1].predict(inner, quantiles=levels))
    np.testing.assert_allclose(np.stack(pipeline.predict(X[:5], interval=0.9), axis=1), found)


def test_samples_have_the_predicted_moments(regressor):
    n_samples = 4000
    mean, cov = regressor.predict(X[:4], return_cov=True)
    samples = regressor.sample_y(X[:4], n_samples, random_state=1)
    assert samples.shape == (4, n_samples)
    std_error = np.sqrt(np.diag(cov) / n_samples)
    assert np.max(np.abs(samples.mean(axis=1) - mean) / std_error) < 5
    # Of a mixture of two members the fourth moment is at most that of a normal.
    var = np.diag(cov)
    cov_error = np.sqrt((np.outer(var, var) + cov**2) / n_samples)
    assert np.max(np.abs(np.cov(samples) - cov) / cov_error) < 5


@pytest.mark.learns
def test_the_exact_regressor_is_the_law_in_other_units(monkeypatch):
    monkeypatch.setattr(cross_fitted, "MOST_ROWS", 0)  # or standard deviations may grow
    monkeypatch.setattr("ntkgp.estimators.left_out.best_stretch", lambda *_: 1.0)  # likewise
    model = GPRegressor(activation="erf", random_state=0).fit(X, Y)
    x = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (Y - Y.mean()) / Y.std()
    scale, noise = model.y_scaler_.std[0] / Y.std(), model.prior_.noise_std
    np.testing.assert_allclose(model.law_.noise_std * scale, noise, rtol=1e-12)
    k = ntkgp.ntk(model.prior_.net, x)
    inverse = np.linalg.inv(k + (noise**2 + 1e-6 * scale**2) * np.eye(120))
    mean = k[:7] @ inverse @ y
    var = np.diag(k)[:7] - np.sum(k[:, :7] * (inverse @ k[:, :7]), axis=0)
    found = model.predict_dist(X[:7])
    np.testing.assert_allclose(found.mean, Y.mean() + Y.std() * mean, rtol=1e-6)
    np.testing.assert_allclose(found.epistemic_var, Y.var() * var, rtol=1e-5)
    # The noise of predictions: the most likely one of rows left out, near that of the prior.
    left_out = y - (inverse @ y) / np.diag(inverse)
    spread = 1 / np.diag(inverse) - noise**2
    stds = np.geomspace(noise / 3, noise * 3, 2001)
    var = spread[:, None] + stds**2
    loss = 0.5 * np.sum((y - left_out)[:, None] ** 2 / var + np.log(var), axis=0)
    best = stds[np.argmin(loss + (np.log(stds / noise) / 0.25) ** 2 / 2)]
    np.testing.assert_allclose(model.noise_std_[0] / Y.std(), best, rtol=2e-3)


def steps_of_less_noise(model, trained, factor):
    """How often the noise of training was lowered from what the prior has."""
    scale = model.prior_.net.last.w_std / model.fitted_network().last.w_std
    learned = model.prior_.noise_std / scale
    return np.log(trained / learned) / np.log(factor)


X_SMOOTH = np.linspace(-2, 2, 200)[:, None]
Y_SMOOTH = np.sin(4 * X_SMOOTH[:, 0])


@pytest.mark.slow
def test_a_law_of_more_rows_than_its_prior_has_seen_may_have_less_noise(monkeypatch):
    """Ten rows of a smooth function leave doubt, two hundred do not."""
    model = GPRegressor(activation="erf", random_state=0).fit(X_SMOOTH, Y_SMOOTH)
    steps = steps_of_less_noise(model, model.law_.noise_std, left_out.LESS_NOISE)
    assert steps == pytest.approx(0)  # the prior has seen all rows
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 10)
    monkeypatch.setattr(preparation, "FURTHER", ())
    model = GPRegressor(activation="erf", random_state=0).fit(X_SMOOTH, Y_SMOOTH)
    steps = steps_of_less_noise(model, model.law_.noise_std, left_out.LESS_NOISE)
    assert steps == pytest.approx(round(steps))
    assert steps >= 1


def test_scales_of_columns_are_learned_further_on_more_rows(monkeypatch):
    stages = [(15, 30, 10), (70, 60, 15), (80, 80, 15)]
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 15)
    monkeypatch.setattr(preparation, "FURTHER", [preparation.Further(*stage) for stage in stages])
    searches = []

    def fit_prior(*args, **options):
        found = ntkgp.fit_prior(*args, **options)
        searches.append((options.get("start"), found))
        return found

    monkeypatch.setattr(preparation, "fit_prior", fit_prior)
    nets = [ntkgp.mlp(3, depth=1, b_std=0.5)]
    x = np.random.default_rng(1).normal(size=(80, 3))
    law, data = ntkgp.LAWS["ntkgp"], (x, np.sin(2 * x[:, :1]))
    found = preparation.choose(nets, *data, law, 0)
    assert [prior.rows for _, prior in searches] == [15, 30, 60]  # 80 rows are not more than 80
    assert found.prior is searches[-1][1]
    starts = [start for start, _ in searches]
    assert starts[0] is None
    assert all(start is prior for start, (_, prior) in zip(starts[1:], searches, strict=False))
    assert preparation.choose(nets, x[:60], data[1][:60], law, 0).rows == 30
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 60)
    monkeypatch.setattr(preparation, "FURTHER", ())
    from_the_start = preparation.choose(nets, *data, law, 0)
    assert from_the_start.rows == found.rows
    assert found.log_marginal_likelihood > from_the_start.log_marginal_likelihood - 1.0
    monkeypatch.undo()
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 15)
    monkeypatch.setattr(preparation, "FURTHER", [preparation.Further(15, 30, 5)])
    assert preparation.choose(nets, *data, law, 0).rows == 30
    alike = preparation.choose(nets, *data, law, 0, relevance=False)
    assert alike.rows == 15  # the control: few scales need few rows


def test_what_was_learned_stays_where_more_rows_cannot_be_factorised(monkeypatch):
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 15)
    x = np.random.default_rng(0).normal(size=(120, 1))
    nets = [ntkgp.mlp(1, depth=1, activation=ntkgp.networks.layers.Erf())]

    def rows_of(noise_std):
        law = ntkgp.LAWS["ntkgp"]
        return preparation.choose(nets, x, np.sin(2 * x), law, 0, noise_std=noise_std).rows

    monkeypatch.setattr(preparation, "FURTHER", [preparation.Further(15, 120, 10)])
    assert rows_of(0.1) == 120  # the control
    assert rows_of(1e-9) == 15


SUITED = {
    (100, 1): (4000, 50),
    (1000, 1): (4000, 10),
    (2000, 1): (4000, 10),
    (1000, 2): (4000, 10),
    (2001, 1): (12_000, None),
    (1001, 2): (12_000, None),
}
"""Steps of Adam, and of Gauss-Newton after them, for targets of these shapes."""


@pytest.mark.learns
@pytest.mark.parametrize("shape", SUITED, ids=str)
def test_members_of_a_table_train_as_its_size_suits_them(shape):
    adam, gauss_newton = SUITED[shape]
    targets = np.zeros(shape)
    net = ntkgp.mlp(2, shape[1], width=8)

    def steps(net=net, **settings):
        """Of Adam, and of Gauss-Newton if it follows."""
        trainer = EnsembleRegressor(**settings)._suited_trainer([net], targets)
        first, *rest = trainer if isinstance(trainer, list) else [trainer]
        in_epoch = len(targets) // first.batch_size
        return first.epochs * in_epoch, rest[0].max_steps if rest else None

    found, found_then = steps()
    assert adam <= found < 1.1 * adam + 4 * len(targets)
    assert found_then == gauss_newton
    assert steps(method="deep-ensemble")[1] is None  # it has no prior to be solved for
    assert steps(min_steps=500)[0] < adam
    assert steps(members=1000)[1] == gauss_newton  # members that are added train like the others
    few = targets.size <= 1000
    assert (steps(net=without_kernel(net))[1] is not None) == few  # gradients of all rows are many


@pytest.mark.parametrize(("n", "at_once"), [(2000, 10), (1500, 17), (200, 1000)])
def test_gauss_newton_solves_as_many_members_at_once_as_fit_into_a_gigabyte(n, at_once):
    model = EnsembleRegressor(members=1000)
    trainer = model._suited_trainer([ntkgp.mlp(2, width=8)], np.zeros((n, 1)))
    assert model._at_once(trainer, n) == at_once
    assert 4 * at_once * n**2 * 4 <= 1e9  # four copies in float32
    assert model._at_once(trainer[0], n) is None
    assert model.set_params(members_at_once=3)._at_once(trainer, n) == 3


@pytest.mark.slow
def test_members_try_less_noise_where_the_prior_has_seen_few_rows(monkeypatch):
    settings = {"members": 2, "width": 16, "min_steps": 4000}
    model = EnsembleRegressor(activation="erf", random_state=0, **settings)
    before = clone(model).fit(X_SMOOTH, Y_SMOOTH)
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 10)
    monkeypatch.setattr(preparation, "FURTHER", ())
    for name, value in (("FEW_RESIDUALS", 10), ("ROWS_FOR_PILOTS", 10), ("ENOUGH_ROWS", 10)):
        monkeypatch.setattr(ensemble_regressor, name, value)
    after = clone(model).fit(X_SMOOTH, Y_SMOOTH)

    def steps(model):
        trained = float(model.ensemble_.learner.noise_std)
        return steps_of_less_noise(model, trained, pilots.LESS_NOISE)

    assert steps(before) == pytest.approx(0, abs=1e-5)  # the prior has seen all rows
    assert steps(after) == pytest.approx(round(steps(after)), abs=1e-5)
    assert steps(after) >= 1
    given = clone(model).set_params(noise_std=0.1).fit(X_SMOOTH, Y_SMOOTH)  # the control
    trained = float(given.ensemble_.learner.noise_std) * given.y_scaler_.std[0]
    assert trained == pytest.approx(0.1, rel=1e-5)


@pytest.mark.slow
def test_pilots_hold_rows_out_where_members_train_on_all(monkeypatch):
    """A noise far too large for these targets is lowered by pilots alone."""
    for name, value in (("ROWS_FOR_PILOTS", 10), ("ENOUGH_ROWS", 10)):
        monkeypatch.setattr(ensemble_regressor, name, value)
    learned = EnsembleRegressor._learned

    def noisy(self, *args, **options):
        net, noise_std = learned(self, *args, **options)
        return net, 1000 * noise_std

    monkeypatch.setattr(EnsembleRegressor, "_learned", noisy)
    trained_on = []
    train = EnsembleRegressor._train

    def spied(self, net, x, *args, **options):
        trained_on.append((len(x), options.get("members"), options["trainer"]))
        return train(self, net, x, *args, **options)

    monkeypatch.setattr(EnsembleRegressor, "_train", spied)
    settings = {"members": 2, "width": 16, "min_steps": 4000, "activation": "erf"}
    model = EnsembleRegressor(random_state=0, **settings).fit(X_SMOOTH, Y_SMOOTH)
    *tried, members = trained_on
    assert {(n, count) for n, count, _ in tried} == {(180, pilots.PILOTS)}
    assert all(isinstance(trainer, ntkgp.Descent) for _, _, trainer in tried)
    assert members[:2] == (200, None)
    assert len(members[2]) == 2  # Gauss-Newton follows for members
    scale = model.prior_.net.last.w_std / model.fitted_network().last.w_std
    given = 1000 * model.prior_.noise_std / scale
    assert float(model.ensemble_.learner.noise_std) <= pilots.LESS_NOISE * given * (1 + 1e-5)
    trained_on.clear()
    EnsembleRegressor(random_state=0, validation_fraction=0, **settings).fit(X_SMOOTH, Y_SMOOTH)
    assert len(trained_on) == 1  # the control: no rows may be held out


@pytest.mark.slow
def test_without_an_optimizer_the_network_s_own_scales_stay():
    net = ntkgp.mlp(2, width=8, depth=1, w_std=1.2, b_std=0.3)
    fixed = GPRegressor(network=net, optimizer=None).fit(X, Y)
    assert fixed.fitted_network() == net
    assert fixed.prior_ is None
    learned = GPRegressor(network=net).fit(X, Y)
    assert learned.fitted_network().structure == net.structure
    assert learned.log_marginal_likelihood_value_ > fixed.log_marginal_likelihood_value_ + 1
    members = EnsembleRegressor(network=net, learn_prior=False, **SMALL).fit(X, Y)
    assert members.fitted_network() == net
    with pytest.raises(ValueError, match="optimizer must be"):
        GPRegressor(optimizer="adam").fit(X, Y)


@pytest.mark.slow  # of the search itself: tests/laws/test_prior.py
def test_columns_that_do_not_matter_are_found(regressor):
    rng = np.random.default_rng(3)
    noisy = np.hstack([X, rng.normal(size=(len(X), 6))])
    model = clone(regressor).set_params(activation="erf", depth=2).fit(noisy, Y)
    scale = np.array(model.prior_.net.input_scale)
    assert max(scale[2:]) < min(scale[:2])


@pytest.mark.slow
def test_the_network_of_highest_evidence_is_chosen():
    x = np.linspace(-2, 2, 80)[:, None]
    auto = GPRegressor(depth=1, random_state=0).fit(x, np.sin(2 * x[:, 0]))
    each = [
        GPRegressor(activation=name, depth=1, random_state=0).fit(x, np.sin(2 * x[:, 0]))
        for name in ("relu", "erf")
    ]
    relu, erf = (model.log_marginal_likelihood_value_ for model in each)
    assert auto.log_marginal_likelihood_value_ == erf > relu + 10  # the sine is smooth
    assert auto.fitted_network() == each[1].fitted_network()


@pytest.mark.quick("GPRegressor")
def test_several_targets(regressor):
    unlearned = UNLEARNED[type(regressor).__name__]
    both = clone(regressor).set_params(**unlearned).fit(X, np.stack([Y, -100 * Y], axis=1))
    mean, std = both.predict(X[:6], return_std=True)
    assert mean.shape == std.shape == (6, 2)
    np.testing.assert_allclose(mean[:, 1], -100 * mean[:, 0], rtol=0.1)
    if isinstance(regressor, GPRegressor):  # of two members each target has its own spread
        np.testing.assert_allclose(std[:, 1], 100 * std[:, 0], rtol=1e-6)
    assert both.predict(X[:6], return_cov=True)[1].shape == (6, 6, 2)
    low, high = both.predict(X[:6], interval=0.8)
    edges = both.predict(X[:6], quantiles=[0.1, 0.9])
    np.testing.assert_allclose(edges, np.stack([low, high], axis=-1))
    if isinstance(regressor, EnsembleRegressor):
        each = both.predict(X[:6], return_members=True)
        np.testing.assert_allclose(each, both.predict_dist(X[:6]).members)
    assert both.sample_y(X[:6], 3).shape == (6, 2, 3)
    with pytest.raises(ValueError, match="noise_std"):
        clone(regressor).set_params(noise_std=0.1).fit(X, np.stack([Y, Y], axis=1))


@pytest.mark.slow
def test_targets_have_a_noise_each():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 2))
    y = np.stack([x[:, 0] + 0.05 * rng.normal(size=300), x[:, 1] + rng.normal(size=300)], axis=1)
    model = EnsembleRegressor(activation="relu", depth=1, learn_prior=False, **SMALL).fit(x, y)
    quiet, loud = model.noise_std_
    assert loud > 3 * quiet
    np.testing.assert_allclose(model.predict_dist(x[:2]).noise_var, [[quiet**2, loud**2]] * 2)


def test_members_are_kept_in_the_distribution():
    model = EnsembleRegressor(activation="relu", depth=1, **SMALL).fit(X, Y)
    dist = model.predict_dist(X[:5])
    np.testing.assert_allclose(dist.members.mean(axis=0), dist.mean)
    np.testing.assert_allclose(dist.members.var(axis=0), dist.epistemic_var)


@pytest.mark.parametrize("n_classes", [2, 9])
def test_every_class_has_a_row_to_train_on(n_classes):
    labels = np.r_[np.zeros(21 - n_classes, int), np.arange(n_classes)]
    train, held_out = holdout(len(labels), 0.5, np.random.default_rng(0), labels)
    assert set(labels[train]) == set(labels)
    assert sorted([*train, *held_out]) == list(range(len(labels)))
    assert len(held_out) >= 5


@pytest.mark.slow
def test_a_heteroscedastic_regressor_has_a_noise_for_each_row():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (400, 1))
    y = 100 * x[:, 0] + np.where(x[:, 0] > 0, 30, 3) * rng.standard_normal(400)
    options = SMALL | {"min_steps": 1500}
    model = EnsembleRegressor(noise=ntkgp.LearnedNoise(), activation="relu", **options).fit(x, y)
    quiet, loud = np.sqrt(model.predict_dist([[-0.5], [0.5]]).noise_var)
    assert loud > 2 * quiet
    assert 3 < model.noise_std_[0] < 30  # the level around which it varies


@pytest.mark.slow
def test_learned_noise_is_no_worse_than_one_level_where_the_noise_is_constant():
    """30 rows held out set log σ to 1/√60, which costs its square in NLL: three of these are 0.15.

    Learned around no level, σ(x) cost 0.4 and more on such tables, and 90 % intervals held 0.99.
    """
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (2300, 4))
    y = np.sin(3 * x[:, 0]) + x[:, 1] + 0.2 * rng.standard_normal(2300)
    train, test = slice(300), slice(300, None)
    nlls, covers = {}, {}
    for name, noise in {"constant": None, "learned": ntkgp.LearnedNoise()}.items():
        model = EnsembleRegressor(noise=noise, random_state=0).fit(x[train], y[train])
        predicted = model.predict_dist(x[test])
        nlls[name] = -np.mean(predicted.log_prob(y[test]))
        covers[name] = metrics.interval_coverage(y[test], *predicted.interval(0.9))
    assert nlls["learned"] < nlls["constant"] + 0.15
    assert 0.8 < covers["learned"] < 0.96


def test_rows_held_out_set_the_level_of_learned_noise():
    """σ(x) times a factor: of the noise predicted, and of `noise_std_`, the level of training."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = x[:, 0] + np.random.default_rng(1).normal(size=60)
    model = EnsembleRegressor(noise=ntkgp.LearnedNoise(), activation="erf", **SMALL).fit(x, y)
    learner, unit = model.ensemble_.learner, model.y_scaler_.std[0]
    factor = model.noise_std_[0] / (learner.noise_std * unit)
    assert abs(np.log(factor)) > 1e-3
    members = model.ensemble_.predict(model._inputs(x[:5])).noise_var[:, 0]
    np.testing.assert_allclose(
        model.predict_dist(x[:5]).noise_var, factor**2 * members * unit**2, rtol=1e-5
    )


def test_learned_noise_has_a_prior_of_variance_one():
    """In such units the law is the same: its mean, times the unit."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    net, law = ntkgp.mlp(2, width=8, w_std=3.0), ntkgp.LAWS["ntkgp"]
    before = Choice(net, net, noise_std=0.7, scale=2.0, log_marginal_likelihood=0.0, rows=9)
    after = with_unit_prior(before, x, law)
    assert np.mean(ntkgp.ntk(after.net, x, diagonal=True)) == pytest.approx(1, rel=1e-5)
    assert np.mean(ntkgp.ntk(net, x, diagonal=True)) > 2  # the control
    assert after.noise_std * after.scale == pytest.approx(0.7 * 2.0)
    y = np.sin(x[:, 0])
    means = [
        choice.scale
        * ntkgp.condition(choice.net, x, y / choice.scale, noise_std=choice.noise_std).mean(x[:4])
        for choice in (before, after)
    ]
    np.testing.assert_allclose(*means, rtol=1e-6)


def test_a_given_noise_level_is_used(regressor):
    model = clone(regressor).set_params(noise_std=2.5).fit(X, Y)
    np.testing.assert_allclose(model.predict_dist(X[:3]).noise_var, 2.5**2, rtol=1e-5)
    assert (
        model.log_marginal_likelihood_value_ < regressor.log_marginal_likelihood_value_
    )  # the best noise is another
    with pytest.raises(ValueError, match="noise_std"):
        clone(regressor).set_params(noise_std=-1.0).fit(X, Y)


# Classification


@pytest.mark.quick("GPClassifier")
def test_classifiers_learn_and_average_their_members(classifier):
    assert classifier.score(X, LABELS) > 0.85
    each = classifier.predict_members_proba(X[:5])
    np.testing.assert_allclose(each.mean(axis=0), classifier.predict_proba(X[:5]), rtol=1e-12)
    np.testing.assert_allclose(each.sum(axis=-1), 1)
    best = classifier.classes_[classifier.predict_proba(X[:5]).argmax(axis=1)]
    np.testing.assert_array_equal(classifier.predict(X[:5]), best)


@pytest.mark.quick("GPClassifier")
def test_with_the_paper_s_noise_the_target_scale_is_the_paper_s(classifier):
    """κ² = C ζ₀ with ζ₀ the mean of Θ(x, x) on the standardised training inputs."""
    paper = clone(classifier).set_params(noise_std=0.1).fit(X, LABELS)
    x = paper.x_scaler_.apply("X", X)
    net = ntkgp.mlp(2, depth=1, activation=Relu(), w_std=2**0.5, b_std=0.5)
    zeta_0 = ntkgp.ntk(net, x, diagonal=True).mean()
    assert paper.zeta_0_ == pytest.approx(zeta_0, rel=0.05)  # of the rows that are not held out
    assert paper.kappa_**2 == pytest.approx(2 * paper.zeta_0_)
    assert paper.prior_ is None
    fixed = clone(classifier).set_params(target_scale=3.0).fit(X, LABELS)
    assert fixed.kappa_ == 3.0


@pytest.mark.slow
def test_classifiers_learn_noise_and_target_scale_by_marginal_likelihood():
    """The law of C - 1 contrasts has no higher likelihood at other values of κ and σ."""
    model = GPClassifier(random_state=0).fit(X, LABELS)
    x = model.x_scaler_.apply("X", X)
    centred = np.eye(2)[np.searchsorted(model.classes_, LABELS)] - model.class_prior_
    contrast = (centred[:, 0] - centred[:, 1]) / 2**0.5

    def evidence(kappa, noise_std):
        law = ntkgp.condition(model.fitted_network(), x, kappa * contrast, noise_std=noise_std)
        return law.log_marginal_likelihood() + len(x) * np.log(kappa)

    kappa, noise_std = model.kappa_, model.law_.noise_std
    best = evidence(kappa, noise_std)
    for factor in (0.5, 2.0):  # its weak priors move the optimum by less
        assert evidence(factor * kappa, noise_std) < best
        assert evidence(kappa, factor * noise_std) < best


@pytest.mark.slow
def test_flipped_labels_are_taken_for_noise():
    """A fifth of the labels is wrong: the noise is larger, and the test accuracy on true labels stays."""
    rng = np.random.default_rng(8)
    other = np.where(LABELS == "up", "down", "up")
    flipped = np.where(rng.uniform(size=len(LABELS)) < 0.2, other, LABELS)
    clean, noisy = (GPClassifier(random_state=0).fit(X, labels) for labels in (LABELS, flipped))
    assert noisy.law_.noise_std / noisy.kappa_ > 1.5 * clean.law_.noise_std / clean.kappa_
    sure = GPClassifier(random_state=0, noise_std=1e-2).fit(X, flipped)  # the control repeats them
    assert noisy.score(X, LABELS) > sure.score(X, LABELS)


def test_class_weights_count_as_weights_of_rows():
    kept = (np.arange(len(X)) % 6 == 0) | (LABELS == "up")
    inputs, labels = X[kept], LABELS[kept]
    up = labels == "up"
    plain, balanced = (
        GPClassifier(random_state=0, noise_std=1.0, class_weight=weight).fit(inputs, labels)
        for weight in (None, "balanced")
    )
    np.testing.assert_allclose(balanced.class_prior_, [0.5, 0.5])
    assert balanced.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.02
    by_row = np.where(up, 1 / np.sum(up), 1 / np.sum(~up))
    weighted = GPClassifier(random_state=0, noise_std=1.0).fit(inputs, labels, by_row)
    np.testing.assert_allclose(weighted.predict_proba(X), balanced.predict_proba(X), rtol=1e-6)


def test_the_target_scale_is_tuned_on_a_grid():
    """The one of highest accuracy on rows left out, which every fit of this seed shares."""
    grid = (1e-6, 1.0)  # targets far below the prior's size drown in the noise
    model = GPClassifier(random_state=0, samples=10, noise_std=0.1)
    tuned = clone(model).set_params(target_scale_grid=grid).fit(X, LABELS)
    assert tuned.kappa_**2 == pytest.approx(2 * tuned.zeta_0_)
    reversed_grid = clone(model).set_params(target_scale_grid=grid[::-1]).fit(X, LABELS)
    assert reversed_grid.kappa_ == tuned.kappa_
    for bad in ((), (-1.0,)):
        with pytest.raises(ValueError, match="target_scale"):
            clone(model).set_params(target_scale_grid=bad).fit(X, LABELS)
    no_posterior = clone(tuned).set_params(validation_fraction=0, law="randomised-prior")
    with pytest.raises(ValueError, match="validation_fraction"):
        no_posterior.fit(X, LABELS)


def test_an_ensemble_s_probabilities_are_its_members_softmax():
    model = EnsembleClassifier(**SMALL).fit(X, LABELS)
    x = (X[:4] - model.x_scaler_.mean) / model.x_scaler_.std
    outputs = model.ensemble_.outputs(x).astype(float) + model.kappa_ * model.class_prior_
    logits = outputs / model.temperature_
    np.testing.assert_allclose(
        model.predict_proba(X[:4]), special.softmax(logits, axis=-1).mean(axis=0), rtol=1e-5
    )


def test_the_exact_classifier_s_probabilities_are_the_integral():
    """∫ softmax(z/T) p(dz) by quadrature; two classes need only the difference of two normals."""
    model = GPClassifier(samples=20_000, random_state=0).fit(X, LABELS)
    new = np.array([[0.2, 1000.0], [4.0, 1000.0], [0.5, 1300.0], [-2.0, 700.0]])
    law = model.law_.predict((new - model.x_scaler_.mean) / model.x_scaler_.std)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    gap = (law.mean[:, 1] - law.mean[:, 0]) / model.temperature_
    spread = np.sqrt(law.epistemic_var.sum(axis=1)) / model.temperature_
    second = special.expit(gap[:, None] + spread[:, None] * nodes) @ weights / weights.sum()
    found = model.predict_proba(new)[:, 1]
    std_error = 0.5 / 20_000**0.5
    assert np.max(np.abs(found - second)) < 5 * std_error
    assert (
        np.max(np.abs(special.expit(gap) - second)) > 5 * std_error
    )  # the control: the mean alone


# What a user does with an estimator


@pytest.mark.quick("GPRegressor")
def test_runs_repeat_by_random_state(regressor):
    if isinstance(regressor, EnsembleRegressor):
        same, again = (clone(regressor).fit(X, Y).predict(X[:5]) for _ in range(2))
        np.testing.assert_array_equal(same, again)
        other = clone(regressor).set_params(random_state=1).fit(X, Y).predict(X[:5])
        assert np.abs(other - same).max() > 0
    state = np.random.RandomState(3)
    seeds = {clone(regressor).set_params(random_state=state).fit(X, Y).seed_ for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.quick("GPRegressor")
def test_frames_of_pandas_and_polars_give_what_arrays_give(regressor):
    mean = regressor.predict(X[:5])
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        model = clone(regressor).fit(frame, Y)
        assert list(model.feature_names_in_) == ["a", "b"]
        np.testing.assert_allclose(model.predict(frame[:5]), mean, rtol=1e-6)


@pytest.mark.slow
def test_estimators_work_inside_scikit_learn():
    model = GPRegressor(activation="erf", random_state=0)
    pipeline = make_pipeline(PolynomialFeatures(2), model)
    assert cross_val_score(pipeline, X, Y, cv=2).mean() > 0.8
    search = GridSearchCV(model.set_params(optimizer=None), {"law": ["ntkgp", "nngp"]}, cv=2)
    assert search.fit(X, Y).best_score_ > 0.8


@pytest.mark.quick("ntkgp")
@pytest.mark.parametrize("law", ntkgp.LAWS)
def test_every_law_has_estimators(law):
    model = GPRegressor(law, activation="erf", depth=1, optimizer=None).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert GPClassifier(law, depth=1, random_state=0).fit(X, LABELS).score(X, LABELS) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("method", ntkgp.METHODS)
def test_every_method_has_estimators(method):
    shallow = {"activation": "relu", "depth": 1, "learn_prior": False}
    model = EnsembleRegressor(method, **shallow, **SMALL).fit(X, Y)
    assert np.isfinite(model.predict(X, return_std=True)).all()
    assert model.score(X, SIGNAL) > (0.0 if method == "nngp" else 0.5)  # 16 fixed features


def test_unknown_names_are_refused_in_words():
    with pytest.raises(ValueError, match="ntkgp-param"):
        EnsembleRegressor("ntkgp-parm").fit(X, Y)
    with pytest.raises(ValueError, match="randomised-prior"):
        GPRegressor("rp").fit(X, Y)
    with pytest.raises(ValueError, match="erf"):
        GPRegressor(activation="tanh").fit(X, Y)
    bad = {"width": 0, "members": 0, "batch_size": 0, "min_steps": 0, "validation_fraction": 0.9}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            EnsembleRegressor(activation="relu", **{name: value}).fit(X, Y)
    with pytest.raises(ValueError, match="noise_std"):
        EnsembleRegressor(noise=ntkgp.LearnedNoise(), noise_std=1.0).fit(X, Y)


@pytest.mark.slow
def test_a_network_of_one_s_own():
    def factory(input_shape, output_dim):
        return without_kernel(ntkgp.mlp(input_shape[0], output_dim, width=8))

    model = EnsembleRegressor(network=factory, **SMALL).fit(X, Y)
    assert model.score(X, SIGNAL) > 0.5
    with pytest.raises(TypeError, match="LayeredNetwork"):
        GPRegressor(network=factory).fit(X, Y)
    with pytest.raises(ValueError, match="2 outputs"):
        EnsembleClassifier(network=ntkgp.mlp(2, 1, width=4)).fit(X, LABELS)
    with pytest.raises(TypeError, match="network"):
        EnsembleRegressor(network=lambda shape, c: None).fit(X, Y)


@pytest.mark.slow
def test_images_need_a_network_and_get_one_scale():
    images = RNG.normal(3, 2, size=(30, 4, 4, 1))
    labels = images.mean(axis=(1, 2, 3)) > 3

    def conv(input_shape, output_dim):
        return ntkgp.LayeredNetwork(
            input_shape, [Conv(4), Relu(), GlobalAvgPool()], Dense(output_dim)
        )

    model = GPClassifier(network=conv, random_state=0).fit(images, labels)
    assert model.x_scaler_.mean.size == 1
    assert model.predict_proba(images[:3]).shape == (3, 2)
    with pytest.raises(ValueError, match="network"):
        GPClassifier().fit(images, labels)
    with pytest.raises(ValueError, match="shape"):
        model.predict(images[:, :, :3])


def members_of(ensemble, k):
    """The parameters of the first k members."""
    return [np.asarray(leaf[:k]) for leaf in jax.tree.leaves((ensemble.theta, ensemble.member))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [EnsembleRegressor(activation="relu", depth=1, **SMALL), EnsembleClassifier(**SMALL)]
)
def test_a_warm_start_grows_the_ensemble_and_leaves_trained_members_alone(model, tmp_path):
    y = LABELS if isinstance(model, EnsembleClassifier) else Y
    model = clone(model).set_params(warm_start=True, random_state=None, min_steps=20).fit(X, y)
    before = model.ensemble_
    model.set_params(members=4).fit(X, y)
    assert model.ensemble_.indices == (0, 1, 2, 3)
    for old, new in zip(members_of(before, 2), members_of(model.ensemble_, 2), strict=True):
        np.testing.assert_array_equal(old, new)
    model.save(tmp_path)
    loaded = ntkgp.load(tmp_path).set_params(members=5).fit(X, y)  # grows across a file, too
    for old, new in zip(
        members_of(model.ensemble_, 4), members_of(loaded.ensemble_, 4), strict=True
    ):
        np.testing.assert_array_equal(old, new)
    again = loaded.ensemble_
    assert loaded.fit(X, y).ensemble_.theta is again.theta  # nothing to add
    with pytest.raises(ValueError, match="at least the 5 that are trained"):
        loaded.set_params(members=2).fit(X, y)
    predict = loaded.predict_proba if isinstance(model, EnsembleClassifier) else loaded.predict
    kept = predict(X)
    for members in (5, 6):
        with pytest.raises(ValueError, match="another training set"):
            loaded.set_params(members=members).fit(X[:-1] + 1, y[:-1])
        np.testing.assert_array_equal(predict(X), kept)  # a refusal changes nothing
    for settings in ({"method": "rp-param"}, {"width": 4}, {"noise_std": 0.7}):
        before = loaded.get_params()
        with pytest.raises(ValueError, match="this is another"):
            loaded.set_params(**settings).fit(X, y)
        loaded.set_params(**before)


@pytest.mark.slow
def test_without_a_warm_start_all_is_trained_anew():
    model = clone(REGRESSORS[1]).set_params(random_state=None, min_steps=20, learn_prior=False)
    seeds = {model.fit(X, Y).seed_ for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.quick("model1")
@pytest.mark.parametrize(
    "model", [EnsembleRegressor(activation="relu", depth=1, **SMALL), EnsembleClassifier(**SMALL)]
)
def test_rows_held_out_say_nothing_before_training_is_over(model):
    """Other inputs and targets in the rows held out: the same scale, choice and members."""
    y = LABELS if isinstance(model, EnsembleClassifier) else Y
    model = clone(model).set_params(min_steps=20, validation_fraction=0.1)
    first = clone(model).fit(X, y)
    labels = (y == "up").astype(int) if isinstance(model, EnsembleClassifier) else None
    _, held_out = holdout(len(X), 0.1, np.random.default_rng(first.seed_), labels)
    x, targets = X.copy(), y.copy()
    x[held_out] += 3 * X.std(axis=0)
    targets[held_out] = y[held_out][::-1] if labels is not None else y[held_out] + 50
    second = clone(model).fit(x, targets)
    np.testing.assert_array_equal(first.x_scaler_.std, second.x_scaler_.std)
    for one, other in zip(
        members_of(first.ensemble_, 2), members_of(second.ensemble_, 2), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    if labels is None:
        assert first.log_marginal_likelihood_value_ == second.log_marginal_likelihood_value_
        assert second.noise_std_[0] > 2 * first.noise_std_[0]  # the control: they set this one
