"""Conformal estimators: the theorem of coverage, what may be inside, files, and what is refused."""

from itertools import pairwise

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import ntkgp
from ntkgp import (
    ConformalClassifier,
    ConformalRegressor,
    EnsembleClassifier,
    EnsembleRegressor,
    GPClassifier,
    GPRegressor,
    metrics,
)
from ntkgp.estimators.conformal import gives_std, split
from ntkgp.predictive.conformal import SET_SCORES, conformal_quantile

GP = GPRegressor(activation="erf", depth=1, optimizer=None, random_state=0)
NETWORKS = {
    "members": 2, "width": 8, "depth": 1, "min_steps": 20, "min_epochs": 1, "random_state": 0,
}  # fmt: skip
ENSEMBLE = EnsembleRegressor(activation="erf", learn_prior=False, **NETWORKS)
CLASSIFIER = EnsembleClassifier(activation="erf", **NETWORKS)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=100)
TWO = np.stack([Y, 100 * X[:, 1] * RNG.normal(size=100)], axis=1)
LABELS = np.array(["down", "level", "up"])[np.digitize(Y, [-0.5, 0.5])]
NEW = RNG.normal(size=(9, 2))


class Overconfident(RegressorMixin, BaseEstimator):
    """The true function, with a third of the true standard deviation."""

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X, return_std=False):
        mean = np.sin(X[:, 0])
        return (mean, true_std(X) / 3) if return_std else mean


def true_std(x):
    return 0.1 + np.abs(x[:, 0])


def draw(rng, n):
    x = rng.normal(size=(n, 1))
    return x, np.sin(x[:, 0]) + true_std(x) * rng.normal(size=n)


# The theorem


REPEATS, ROWS, FRESH = 200, 50, 100


def mean_and_error(shares):
    """The mean over repeats, each with rows of its own, and its standard error."""
    return np.mean(shares), np.std(shares) / np.sqrt(len(shares))


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("inner", [Overconfident(), Ridge()], ids=lambda m: type(m).__name__)
def test_intervals_hold_as_often_as_they_say(inner, level):
    """Exactly ⌈(n + 1) level⌉/(n + 1), between level and level + 1/(n + 1)."""
    rng, model = np.random.default_rng(1), ConformalRegressor(inner, random_state=0)
    shares, without_correction, uncalibrated = [], [], []
    for _ in range(REPEATS):
        model.fit(*draw(rng, ROWS))
        x, y = draw(rng, FRESH)
        shares.append(metrics.interval_coverage(y, *model.predict_interval(x, level)))
        mean, std = model._mean_and_std(x)
        scores = np.abs(y - mean) / std
        without_correction.append(np.mean(scores <= np.quantile(model.scores_, level)))
        uncalibrated.append(np.mean(scores <= 1.645))  # 90 % of a normal, if std were right
    n = len(model.scores_)
    assert n == 10
    exact = np.ceil((n + 1) * level) / (n + 1)
    assert level <= exact <= level + 1 / (n + 1)
    share, error = mean_and_error(shares)
    assert abs(share - exact) < 5 * error
    # The controls: the quantile of the scores as it is, and the model's own intervals.
    if level == 0.9:
        share, error = mean_and_error(without_correction)
        assert share < level - 5 * error
        if gives_std(inner):
            share, error = mean_and_error(uncalibrated)
            assert share < level - 20 * error


def draw_classes(rng, n):
    """Three classes in two columns that say the same, so that naive Bayes is overconfident."""
    labels = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    x = labels + rng.normal(size=n)
    return np.stack([x] * 4, axis=1), labels


@pytest.mark.parametrize("method", SET_SCORES)
@pytest.mark.parametrize("frozen", [True, False])
def test_sets_hold_the_class_as_often_as_they_say(method, frozen):
    rng, level = np.random.default_rng(2), 0.9
    prefit = FrozenEstimator(GaussianNB().fit(*draw_classes(rng, 300)))
    model = ConformalClassifier(prefit if frozen else GaussianNB(), method=method, random_state=0)
    shares, uncalibrated = [], []
    for _ in range(REPEATS):
        model.fit(*draw_classes(rng, 40 if frozen else 200))
        x, labels = draw_classes(rng, FRESH)
        shares.append(metrics.set_coverage(labels, model.predict_set(x, level)))
        p = model.predict_proba(x)
        enough = SET_SCORES["aps"](p) - p / 2 < level  # the fewest classes with 90 % of probability
        uncalibrated.append(metrics.set_coverage(labels, enough))
    n = len(model.scores_)
    assert n == 40
    share, error = mean_and_error(shares)
    assert share > level - 5 * error
    if method == "lac":  # in which the most probable class is by itself here
        assert share < level + 1 / (n + 1) + 5 * error
    share, error = mean_and_error(uncalibrated)  # the control
    assert share < level - 5 * error


@pytest.mark.parametrize("n", [9, 10, 19, 99, 100])
@pytest.mark.parametrize("level", [0.05, 0.1, 0.55, 0.9])
def test_the_quantile_is_the_least_score_that_is_enough(n, level):
    """By counting: a new score has each of n + 1 ranks with the same probability."""
    scores = np.random.default_rng(3).permutation(np.arange(1.0, n + 1))
    found = conformal_quantile(scores, level)
    below = (np.arange(n + 2) / (n + 1)).round(12)  # P(new ≤ k-th smallest) = k/(n + 1)
    assert below[int(found)] >= level
    assert below[int(found) - 1] < level
    columns = conformal_quantile(np.stack([scores, 2 * scores], axis=1), level)
    np.testing.assert_array_equal(columns, [found, 2 * found])


@pytest.mark.parametrize(("level", "needed"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99)])
def test_too_few_rows_for_a_level_are_counted(level, needed):
    assert conformal_quantile(np.arange(float(needed)), level) == needed - 1
    with pytest.raises(ValueError, match=f"at least {needed} calibration rows, and there are"):
        conformal_quantile(np.arange(float(needed - 1)), level)


def test_a_level_that_few_rows_do_not_allow_is_refused_and_others_are_not():
    model = ConformalRegressor(Ridge(), random_state=0).fit(X, Y)  # 20 rows
    with pytest.raises(
        ValueError, match=r"level 0\.99 takes at least 99.*there are 20.* 0\.952 at"
    ):
        model.predict_interval(NEW, level=0.99)
    widths = [np.subtract(*model.predict_interval(NEW, level)[::-1]) for level in (0.5, 0.8, 0.95)]
    assert (np.diff(widths, axis=0) > 0).all()
    assert np.isfinite(widths).all()


# Regression


def test_an_interval_is_the_mean_and_a_multiple_of_the_std():
    model = ConformalRegressor(GP, random_state=0).fit(X, Y)
    train, rest = split(len(X), 0.2, np.random.default_rng(seed_of_zero()))
    inner = clone(GP).fit(X[train], Y[train])
    mean, std = inner.predict(X[rest], return_std=True)
    scores = np.abs(Y[rest] - mean) / std
    np.testing.assert_allclose(model.scores_, scores)
    q = np.sort(scores)[18]  # ⌈21 · 0.9⌉ = 19
    mean, std = inner.predict(NEW, return_std=True)
    low, high = model.predict_interval(NEW)
    np.testing.assert_allclose(low, mean - q * std)
    np.testing.assert_allclose(high, mean + q * std)
    np.testing.assert_array_equal(model.predict(NEW, return_std=True), [mean, std])
    np.testing.assert_array_equal(
        model.predict(NEW, quantiles=[0.1]), inner.predict(NEW, quantiles=[0.1])
    )


def seed_of_zero():
    return int(np.random.RandomState(0).randint(2**31 - 1))


def test_without_a_std_all_intervals_are_equally_wide():
    model = ConformalRegressor(LinearRegression(), random_state=0).fit(X, Y)
    low, high = model.predict_interval(NEW)
    np.testing.assert_allclose(high - low, 2 * np.sort(model.scores_)[18])
    np.testing.assert_allclose((low + high) / 2, model.predict(NEW))


def test_which_regressors_have_a_std():
    with_std = [GP, ENSEMBLE, GaussianProcessRegressor(), make_pipeline(StandardScaler(), GP)]
    assert all(map(gives_std, [*with_std, FrozenEstimator(GP), ConformalRegressor(GP).estimator]))
    without = [Ridge(), make_pipeline(StandardScaler(), Ridge()), GridSearchCV(GP, {})]
    assert not any(map(gives_std, without))


def test_a_pipeline_inside_keeps_its_std():
    X_missing = np.where(RNG.uniform(size=X.shape) < 0.1, np.nan, X)
    model = ConformalRegressor(make_pipeline(SimpleImputer(), GP), random_state=0)
    low, high = model.fit(X_missing, Y).predict_interval(X_missing[:9])
    widths = high - low
    assert np.isfinite(widths).all()
    assert np.ptp(widths) > 0  # the control for a std of 1
    assert not model.predict(X_missing[:9]).shape[1:]


@pytest.mark.parametrize("inner", [GP, Ridge()], ids=lambda m: type(m).__name__)
def test_each_target_has_its_own_quantile(inner):
    both = ConformalRegressor(inner, random_state=0).fit(X, TWO)
    assert both.scores_.shape == (20, 2)
    low, high = both.predict_interval(NEW, level=0.8)
    assert low.shape == high.shape == (9, 2)
    mean, std = both._mean_and_std(NEW)
    limit = np.sort(both.scores_, axis=0)[16]  # ⌈21 · 0.8⌉ = 17
    np.testing.assert_allclose(high - mean, limit * std)
    assert limit[0] != limit[1]
    column = ConformalRegressor(inner, random_state=0).fit(X, Y[:, None])
    assert column.predict_interval(NEW)[0].size == 9


def test_a_frozen_estimator_stays_as_it_is_and_all_rows_calibrate():
    fitted = clone(GP).fit(X[:50], Y[:50])
    before = fitted.predict(NEW)
    model = ConformalRegressor(FrozenEstimator(fitted)).fit(X[50:], Y[50:])
    assert model.estimator_ is fitted
    assert len(model.scores_) == 50
    np.testing.assert_array_equal(model.predict(NEW), before)
    mean, std = fitted.predict(X[50:], return_std=True)
    np.testing.assert_array_equal(model.scores_, np.abs(Y[50:] - mean) / std)
    with pytest.raises(NotFittedError):
        ConformalRegressor(FrozenEstimator(clone(GP))).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "inner"),
    [(ConformalRegressor, EnsembleRegressor), (ConformalClassifier, EnsembleClassifier)],
)
def test_the_default_estimators_are_the_ensembles(model, inner, monkeypatch):
    seeds = []

    def fit(self, X, y):
        seeds.append(self.random_state)
        raise InterruptedError

    monkeypatch.setattr(inner, "fit", fit)
    for seed in (3, 3, 4):
        with pytest.raises(InterruptedError):
            model(random_state=seed).fit(X, LABELS if inner is EnsembleClassifier else Y)
    assert seeds[0] == seeds[1] != seeds[2]


def test_a_split_repeats_by_random_state_and_takes_the_share():
    for fraction in (0.1, 0.5):
        model = ConformalRegressor(Ridge(), calibration_fraction=fraction, random_state=0)
        scores = model.fit(X, Y).scores_
        assert len(scores) == 100 * fraction
        np.testing.assert_array_equal(clone(model).fit(X, Y).scores_, scores)
        other = clone(model).set_params(random_state=1).fit(X, Y).scores_
        assert not np.array_equal(other, scores)


def test_frames_are_split_by_rows():
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(100)[::-1])
    model = ConformalRegressor(GP, random_state=0).fit(frame, pd.Series(Y))
    assert list(model.feature_names_in_) == ["a", "b"]
    plain = ConformalRegressor(GP, random_state=0).fit(X.tolist(), Y.tolist())
    np.testing.assert_allclose(model.scores_, plain.scores_)
    assert plain.n_features_in_ == 2


# Classification


@pytest.mark.parametrize("method", SET_SCORES)
def test_a_set_holds_the_classes_of_low_scores_and_the_most_probable_one(method):
    model = ConformalClassifier(LogisticRegression(), method=method, random_state=0)
    model.fit(X, LABELS)
    assert model.classes_.tolist() == ["down", "level", "up"]
    for level in (0.1, 0.9):
        sets, p = model.predict_set(NEW, level), model.predict_proba(NEW)
        limit = np.sort(model.scores_)[int(np.ceil(21 * level)) - 1]
        for row, inside in zip(p, sets, strict=True):
            order = sorted(range(3), key=lambda c: -row[c])
            sums = {c: sum(row[order[:i]]) + row[c] / 2 for i, c in enumerate(order)}
            scores = {"lac": 1 - row, "aps": [sums[c] for c in range(3)]}[method]
            expected = [scores[c] <= limit or c == order[0] for c in range(3)]
            assert inside.tolist() == expected
    # The control for the rule: at 10 % most sets would be empty.
    assert (SET_SCORES[method](p) <= model._quantile(0.1)).sum() < len(NEW)
    assert (model.predict_set(NEW, 0.1).sum(axis=1) >= 1).all()


@pytest.mark.slow
def test_sets_grow_with_the_level():
    model = ConformalClassifier(GPClassifier(random_state=0), random_state=0).fit(X, LABELS)
    sizes = [model.predict_set(X, level) for level in (0.2, 0.6, 0.9, 0.95)]
    for smaller, larger in pairwise(sizes):
        assert (smaller <= larger).all()
    assert metrics.mean_set_size(sizes[-1]) > 1
    np.testing.assert_array_equal(model.predict(NEW), model.estimator_.predict(NEW))


def test_classes_have_the_same_share_of_both_parts():
    labels = np.repeat([0, 1, 2, 3], [100, 40, 9, 1])
    counts = []
    for seed in range(200):
        train, rest = split(150, 0.2, np.random.default_rng(seed), labels)
        assert sorted([*train, *rest]) == list(range(150))
        assert set(labels[train]) == {0, 1, 2, 3}
        counts.append(np.bincount(labels[rest], minlength=4))
    assert np.ptp(counts, axis=0).max() <= 2
    # On average 20 % of each class, but for the one row that is needed to fit on.
    std_error = np.std(counts, axis=0) / np.sqrt(200)
    share = 30 / 149 * np.array([100, 40, 9])
    assert (np.abs(np.mean(counts, axis=0)[:3] - share) <= 5 * std_error[:3] + 1e-9).all()
    assert np.max(counts, axis=0)[3] == 0


def test_a_frozen_classifier_must_know_the_classes():
    known = FrozenEstimator(LogisticRegression().fit(X[LABELS != "up"], LABELS[LABELS != "up"]))
    with pytest.raises(ValueError, match=r"does not know, \['up'\].*knows \['down', 'level'\]"):
        ConformalClassifier(known).fit(X, LABELS)
    model = ConformalClassifier(known).fit(X[LABELS == "down"], LABELS[LABELS == "down"])
    assert model.predict_set(NEW).shape == (9, 2)


# What a user does with an estimator


@pytest.mark.parametrize(
    "model",
    [
        ConformalRegressor(Ridge(), random_state=0),
        ConformalClassifier(LogisticRegression(), random_state=0),
        pytest.param(ConformalRegressor(GP, random_state=0), marks=pytest.mark.slow),
    ],
    ids=lambda m: f"{type(m).__name__} of {type(m.estimator).__name__}",
)
def test_scikit_learn_s_own_checks_pass(model):
    results = check_estimator(model, on_skip=None, on_fail=None)
    failed = [r for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed, "\n".join(f"{r['check_name']}: {r['exception']!r}" for r in failed)
    assert len(results) > 40


def test_parameters_reach_the_estimator_inside():
    model = ConformalRegressor(EnsembleRegressor(members=3))
    assert model.get_params()["estimator__members"] == 3
    model.set_params(estimator__members=5, calibration_fraction=0.3)
    assert clone(model).estimator.members == 5
    assert clone(model).calibration_fraction == 0.3
    search = GridSearchCV(ConformalRegressor(Ridge()), {"estimator__alpha": [1e-3, 1e6]}, cv=2)
    assert search.fit(X, Y).best_params_ == {"estimator__alpha": 1e-3}
    assert cross_val_score(ConformalClassifier(LogisticRegression()), X, LABELS).mean() > 0.5


MODELS = {
    "GP": (ConformalRegressor(GP, calibration_fraction=0.3, random_state=0), Y),
    "two targets": (ConformalRegressor(ENSEMBLE, random_state=0), TWO),
    "classes": (ConformalClassifier(CLASSIFIER, method="aps", random_state=0), LABELS),
    "frozen": (ConformalRegressor(FrozenEstimator(clone(GP).fit(X, Y))), Y + 1),
}


@pytest.mark.quick("GP", "frozen")
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one(name, tmp_path):
    model, y = MODELS[name]
    model = clone(model).fit(X, y)
    model.save(tmp_path)
    loaded = ntkgp.load(tmp_path)
    assert type(loaded) is type(model)
    assert vars(loaded).keys() == vars(model).keys()
    assert str(loaded.get_params()) == str(model.get_params())
    np.testing.assert_array_equal(loaded.scores_, model.scores_)
    for level in (0.5, 0.9):
        sets_or_ends = "predict_set" if name == "classes" else "predict_interval"
        first, second = (getattr(m, sets_or_ends)(NEW, level) for m in (model, loaded))
        np.testing.assert_array_equal(first, second)
    again = clone(loaded).fit(X, y)
    np.testing.assert_allclose(again.scores_, model.scores_)


@pytest.mark.slow
def test_a_default_estimator_is_the_default_after_loading(tmp_path):
    model = clone(MODELS["two targets"][0]).fit(X, TWO)
    model.estimator = None
    model.save(tmp_path)
    assert ntkgp.load(tmp_path).estimator is None


def test_a_network_s_factory_inside_does_not_hinder_saving(tmp_path):
    net = ntkgp.mlp(2, width=4, depth=1)
    model = ConformalRegressor(clone(GP).set_params(network=lambda *_: net), random_state=0)
    model.fit(X, Y).save(tmp_path)
    loaded = ntkgp.load(tmp_path)
    assert loaded.fitted_network() == model.fitted_network() == net
    np.testing.assert_array_equal(loaded.predict_interval(NEW), model.predict_interval(NEW))


def test_other_estimators_are_saved_by_joblib_alone(tmp_path):
    for inner in (Ridge(), make_pipeline(StandardScaler(), GP)):
        model = ConformalRegressor(inner, random_state=0).fit(X, Y)
        with pytest.raises(TypeError, match=rf"its own is a {type(inner).__name__}.*joblib"):
            model.save(tmp_path / "model")
        joblib.dump(model, tmp_path / "pickle")
        again = joblib.load(tmp_path / "pickle")
        np.testing.assert_array_equal(again.predict_interval(NEW), model.predict_interval(NEW))


# What is refused


@pytest.mark.parametrize("level", [0.0, 1.0, 90, -0.1, np.nan, [0.9]])
def test_a_level_is_a_probability(level):
    regressor = ConformalRegressor(Ridge()).fit(X, Y)
    classifier = ConformalClassifier(LogisticRegression()).fit(X, LABELS)
    for predict in (regressor.predict_interval, classifier.predict_set):
        with pytest.raises(ValueError, match="level must be a number strictly between 0 and 1"):
            predict(NEW, level)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, np.nan])
def test_a_fraction_leaves_rows_for_both(fraction):
    for model, y in ((ConformalRegressor(Ridge()), Y), (ConformalClassifier(GaussianNB()), LABELS)):
        with pytest.raises(ValueError, match=r"calibration_fraction must lie strictly.*FrozenEst"):
            model.set_params(calibration_fraction=fraction).fit(X, y)


def test_too_few_rows_and_missing_values_are_refused():
    with pytest.raises(ValueError, match=r"X has 1 sample\(s\), and it takes 2 at least"):
        ConformalRegressor(Ridge()).fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match=r"X has 3 sample\(s\), and it takes 4 at least"):
        ConformalClassifier(GaussianNB()).fit(X[:3], ["a", "b", "c"])
    for bad_X, bad_y, words in (
        (np.where(X > 2, np.nan, X), Y, "X contains NaN"),
        (X, np.where(Y > 1, np.nan, Y), "y contains NaN"),
        (X, None, "requires y to be passed"),
        (X, Y[:-1], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=words):
            ConformalRegressor(GP).fit(bad_X, bad_y)
    with pytest.raises(ValueError, match="Unknown label type"):
        ConformalClassifier(GaussianNB()).fit(X, Y)
    with pytest.raises(ValueError, match="method must be one of lac, aps; got 'naive'"):
        ConformalClassifier(GaussianNB(), method="naive").fit(X, LABELS)
    with pytest.raises(TypeError, match=r"LinearSVC has not: .*CalibratedClassifierCV"):
        ConformalClassifier(LinearSVC()).fit(X, LABELS)


def test_a_std_of_zero_is_refused():
    class Certain(Overconfident):
        def predict(self, X, return_std=False):
            mean = super().predict(X)
            return (mean, np.zeros(len(X))) if return_std else mean

    with pytest.raises(ValueError, match=r"of Certain must give finite standard deviations > 0"):
        ConformalRegressor(Certain()).fit(X, Y)


def test_an_estimator_that_is_not_calibrated_predicts_no_interval():
    model = ConformalRegressor(Ridge())
    with pytest.raises(NotFittedError):
        model.predict_interval(NEW)
    model.fit(X, Y)
    frozen = model.set_params(estimator=FrozenEstimator(clone(GP).fit(X, Y)))
    with pytest.raises(ValueError, match="NaN"):
        frozen.fit(np.full((20, 2), np.nan), Y[:20])
    with pytest.raises(NotFittedError):  # rather than with the scores of another model
        frozen.predict_interval(NEW)
