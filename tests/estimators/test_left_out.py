"""Rows left out, one by one and in blocks, against laws that are conditioned without them."""

from dataclasses import replace

import numpy as np
import pytest

import ntkgp
from ntkgp import EnsembleRegressor, GPRegressor
from ntkgp.estimators import ensemble_regressor, left_out, preparation
from ntkgp.estimators.left_out import (
    STRETCHES,
    Block,
    _left_out_blocks,
    _losses,
    best_stretch,
    parts_of,
)
from ntkgp.kernels.linalg import sample_gaussian

RNG = np.random.default_rng(0)
NET = ntkgp.mlp(2, depth=1, activation=ntkgp.layers.Erf(), b_std=0.5)
X = np.column_stack([RNG.integers(0, 5, 40), RNG.normal(size=40)]).astype(float)
NOISE = 0.01


def law_of_draws(scale, n_draws=20):
    """The law of functions drawn from the prior times a scale, as so many outputs."""
    cov = ntkgp.ntk(NET, X)
    functions = scale * sample_gaussian(cov, 1, n_draws, np.random.default_rng(1))[0]
    y = functions + NOISE * np.random.default_rng(2).standard_normal(functions.shape)
    return ntkgp.condition(NET, X, y, noise_std=NOISE)


@pytest.mark.parametrize("weight", [np.ones(40), np.linspace(0.1, 5, 40)], ids=["alike", "own"])
def test_blocks_are_predicted_as_if_they_had_not_been_there(weight):
    y = law_of_draws(1.0, n_draws=2).y
    law = ntkgp.condition(NET, X, y, noise_std=NOISE, sample_weight=weight)
    blocks = list(_left_out_blocks(law, np.random.default_rng(0)))
    by_hand = []
    for column in X.T:
        part = parts_of(column)
        for number in np.unique(part):
            inside = part == number
            rest = ntkgp.condition(
                NET, X[~inside], y[~inside], noise_std=NOISE, sample_weight=weight[~inside]
            )
            predicted = rest.predict(X[inside])
            noise_var = NOISE**2 / weight[inside, None]
            by_hand.append(((y[inside] - predicted.mean) ** 2, predicted.epistemic_var, noise_var))

    def in_order(pairs):
        return sorted(pairs, key=lambda pair: float(np.sum(pair[0])))

    assert len(blocks) == len(by_hand) == 6
    for block, (expected, var, noise_var) in zip(in_order(blocks), in_order(by_hand), strict=True):
        np.testing.assert_allclose(block.squares, expected, rtol=1e-6)
        np.testing.assert_allclose(block.variances, var, rtol=1e-6)
        np.testing.assert_allclose(block.noise_vars, np.repeat(noise_var, 2, axis=1))


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_the_scale_that_suits_left_out_rows_is_that_of_the_function(scale):
    """20 draws at 40 rows: the relative error of their scale is about 1/√(2 · 20 · 40), below a step."""
    assert best_stretch(law_of_draws(scale)) == pytest.approx(scale, rel=0.11)


def test_blocks_that_no_prior_saw_set_the_scale_by_their_geometric_mean():
    """Of factors that are best for each beside single rows, by a search on a fine grid."""
    law = law_of_draws(1.0, n_draws=1)
    ones = np.ones((7, 1))
    blocks = [Block(square * ones, ones, 0.1 * ones) for square in (0.5, 9.0, 40.0)]
    singles = law.left_out(np.arange(40))
    squares = (law.y - singles.mean) ** 2
    grid = np.exp(np.linspace(0, 2.7, 1000))

    def best(block):
        def loss(factor):
            own = factor**2 * singles.epistemic_var + NOISE**2
            var = factor**2 + 0.1
            square = block.squares[0, 0]
            return np.mean(squares / own + np.log(own)) + square / var + np.log(var)

        return min(grid, key=loss)

    expected = np.exp(np.mean(np.log([best(block) for block in blocks])))
    assert best_stretch(law, blocks) == pytest.approx(expected, rel=0.05)  # half a step
    assert best_stretch(law, blocks[:1]) == 1.0


def test_too_little_noise_is_no_reason_for_a_wide_function():
    """A law told next to no noise is too sure of single rows, and a block's own factor is 1."""
    exact = law_of_draws(1.0)
    y = exact.y + 0.5 * np.random.default_rng(6).standard_normal(exact.y.shape)
    law = ntkgp.condition(NET, X, y, noise_std=NOISE)
    ones = np.ones((40, 20))
    block = Block(ones, ones, 1e-4 * ones)
    assert best_stretch(law, [block]) < 1.5
    singles = law.left_out(np.arange(40))
    noise_vars = NOISE**2 * ones
    with_that_noise = _losses(Block((y - singles.mean) ** 2, singles.epistemic_var, noise_vars))
    assert STRETCHES[np.argmin(with_that_noise + _losses(block))] > 2  # the control


def test_a_stretched_law_keeps_its_means_and_widens_its_spread():
    law = law_of_draws(1.0, n_draws=1)
    wide = law.stretched(2.0)
    again = ntkgp.condition(NET, X, law.y / 2, noise_std=NOISE)
    new = RNG.normal(size=(5, 2))
    np.testing.assert_allclose(2 * wide.predict(new).mean, law.predict(new).mean, rtol=1e-12)
    np.testing.assert_allclose(wide.predict(new).mean, again.predict(new).mean, rtol=1e-9)
    np.testing.assert_allclose(wide.predict(new).epistemic_var, law.predict(new).epistemic_var)


def test_images_have_no_blocks():
    law = law_of_draws(3.0, n_draws=1)
    assert best_stretch(replace(law, x=law.x[:, None])) == 1.0


def few_levels():
    """A table that looks large, and knows its first column at three values only."""
    rng = np.random.default_rng(4)
    level = np.repeat([-1.0, 0.0, 1.0], 30)
    x = np.column_stack([level, rng.normal(size=90)])
    return x, np.array([0.3, -0.2, 0.25])[(level + 1).astype(int)] + np.sin(x[:, 1])


@pytest.mark.slow
def test_regressors_are_less_sure_of_levels_that_a_column_never_had(monkeypatch):
    x, y = few_levels()
    between = np.array([[0.5, 0.0]])
    model = GPRegressor(activation="erf", random_state=0)
    found = model.fit(x, y).predict_dist(between)
    monkeypatch.setattr("ntkgp.estimators.left_out.best_stretch", lambda *_: 1.0)  # the control
    blind = model.fit(x, y).predict_dist(between)
    np.testing.assert_allclose(found.mean, blind.mean, rtol=1e-6)
    assert found.epistemic_var[0] > 1.2 * blind.epistemic_var[0]


@pytest.mark.slow
def test_a_small_table_trains_on_all_its_rows():
    x, y = few_levels()
    small = {"members": 2, "width": 8, "depth": 1, "min_steps": 20, "activation": "erf"}
    small |= {"learn_prior": False, "random_state": 0}
    model = EnsembleRegressor(**small).fit(x, y)
    targets = model.y_scaler_.apply("y", y[:, None])
    inputs = model.x_scaler_.apply("X", x)
    from ntkgp.ensembles.problem import Data

    def trained_on_all(model):
        return model.ensemble_.trained_on == Data.of(inputs, targets).fingerprint()

    assert trained_on_all(model)
    held_out = EnsembleRegressor(validation_fraction=0.2, **small).fit(x, y)
    assert not trained_on_all(held_out)  # the control
    deep = EnsembleRegressor("deep-ensemble", **small).fit(x, y)
    assert deep.ensemble_.validation_losses.size  # no law checks it, so rows are held out


@pytest.mark.slow
def test_rows_that_stand_twice_in_a_large_table_are_no_obstacle(monkeypatch):
    """Equal rows with equal targets suggest no noise at all, and the law of a part of them has none."""
    monkeypatch.setattr("ntkgp.estimators.left_out.BLOCK_ROWS", 60)
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 40)
    monkeypatch.setattr(preparation, "FURTHER", ())
    x, y = few_levels()
    model = GPRegressor(activation="erf", depth=1, random_state=0)
    model.fit(np.concatenate([x, x]), np.concatenate([y, y]))
    assert np.isfinite(model.predict_dist(x).std).all()
    law = ntkgp.condition(NET, np.repeat(X, 2, axis=0), np.zeros(80), noise_std=0.0, jitter=1e-6)
    assert best_stretch(law) >= 1  # without a jitter its part could not be factorised
    with pytest.raises(ntkgp.NotPositiveDefinite):
        law.of_rows(np.arange(80))


def test_less_noise_has_a_floor_and_leaves_the_draws_of_scales_alone(monkeypatch):
    """Rows that stand twice ask for ever less noise, beside which learned scales are no optimum."""
    monkeypatch.setattr(left_out, "_score", lambda law, rows: -law.noise_std)
    monkeypatch.setattr(preparation, "PRIOR_ROWS", 59)  # so that it may be less
    monkeypatch.setattr(preparation, "FURTHER", ())
    monkeypatch.setattr(ensemble_regressor, "PRIOR_ROWS", 59)
    x, y = X[:, 1:].repeat(2, axis=0)[:60], np.sin(X[:, 1]).repeat(2)[:60]
    y = y + 0.3 * np.random.default_rng(5).standard_normal(60)
    trainer = ntkgp.GaussNewton(max_steps=2)
    small = {"members": 1, "width": 8, "depth": 1, "activation": "erf", "trainer": trainer}
    model = EnsembleRegressor(**small, random_state=0).fit(x, y)
    targets = model.y_scaler_.apply("y", y[:, None])
    trained = float(model.ensemble_.learner.noise_std) / np.sqrt(np.mean(targets**2))
    assert left_out.LEAST_NOISE <= trained < left_out.LEAST_NOISE / left_out.LESS_NOISE

    def roots(noise_std):
        """Of the draws' covariance beside this σ."""
        learned = replace(model.prior_, net=model.uncertain_prior_.net, noise_std=noise_std)
        inputs = model.x_scaler_.apply("X", x)
        prior = ntkgp.uncertain_prior(learned, inputs, targets, rows=59, seed=model.seed_)
        return np.abs(prior.root)

    found = np.abs(model.uncertain_prior_.root)
    in_net_units = y.std() / model.y_scaler_.std[0]
    np.testing.assert_allclose(
        found, roots(model.prior_.noise_std * in_net_units), rtol=1e-3, atol=1e-6
    )
    beside_the_floor = roots(float(model.ensemble_.learner.noise_std))  # the control
    assert not np.allclose(found, beside_the_floor, rtol=0.1)
