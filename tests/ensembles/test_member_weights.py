"""Weights of rows in members: a row of weight w is w equal rows, whose target noise is averaged.

With ε_nj of the w_n copies of row n, the objective of the repeated rows is, N = Σ w_n,

    1/N Σ_n Σ_j ½‖y_n + σε_nj - f̃(x_n)‖² + σ²/N · penalty,

whose gradient has from row n the part w_n/N (f̃ - y_n - σ mean_j ε_nj) ∇f̃. The weighted row has the part
w_n/N (f̃ - y_n - σε_n/√w_n) ∇f̃. So the two are equal if ε_n = √w_n mean_j ε_nj, which is N(0, 1) again.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkgp
from helpers import assert_covariance, assert_not_covariance, mean_z
from ntkgp import METHODS, Descent, GaussNewton, fit
from ntkgp.ensembles.member import Baselearner
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem, draw_members, training_set
from ntkgp.ensembles.training import train

X = np.array([[-1.5], [-0.6], [0.4], [1.3]])
Y = np.sin(2 * X)
T = np.linspace(-2, 2, 5)[:, None]
COUNTS = np.array([1, 4, 2, 2])
NOISE = 0.3
MEMBERS = 2


def repeated(values):
    return np.repeat(values, COUNTS, axis=0)


def both_problems(method, net):
    """Members on weighted rows, and the same on repeated rows, of whose noise the first is the mean."""
    learner = Baselearner(net, METHODS[method], NOISE)
    weighted = Problem(learner, Data.of(X, Y, COUNTS.astype(float)))
    copies = Problem(learner, Data.of(repeated(X), repeated(Y)))
    of_copies = draw_members(learner, 0, range(MEMBERS), copies.data.y)
    noise = np.asarray(of_copies.epsilon)[:, : COUNTS.sum()]
    ends = np.cumsum(COUNTS)[:-1]
    means = [part.mean(axis=1) for part in np.split(noise, ends, axis=1)]
    epsilon = np.sqrt(COUNTS)[:, None] * np.stack(means, axis=1)
    of_weighted = of_copies._replace(epsilon=jnp.asarray(epsilon, jnp.float32))
    return (weighted, of_weighted), (copies, of_copies)


def gradients(problem, draw, theta):
    def loss(theta, draw):
        learner = problem.learner
        batch = training_set(problem, draw, None)
        return learner.loss(theta, draw.member, batch, problem.data.total)

    return jax.jit(jax.vmap(jax.grad(loss)))(theta, draw)


@pytest.mark.quick("ntkgp-lin", "ntkgp-param")
@pytest.mark.parametrize("method", ["ntkgp-param", "rp-fn", "ntkgp-lin"])
def test_the_gradient_is_that_of_repeated_rows(method):
    weighted, copies = both_problems(method, ntkgp.mlp(1, width=8, depth=1))
    theta = jax.tree.map(lambda leaf: 0.7 * leaf + 0.1, weighted[1].theta)
    found, expected = (gradients(*side, theta) for side in (weighted, copies))
    plain = Problem(weighted[0].learner, Data.of(X, Y)), weighted[1]  # the control
    wrong = gradients(*plain, theta)
    for ours, theirs, other in zip(*map(jax.tree.leaves, (found, expected, wrong)), strict=True):
        size = float(np.abs(theirs).max())
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * size)  # some 100 roundings of float32
        assert np.abs(other - theirs).max() > 0.01 * size


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ntkgp-lin", "ntkgp-param"])
def test_gauss_newton_ends_where_it_ends_on_repeated_rows(method):
    """One minimum where the model is linear; near a start with an anchor also of the network itself.

    There steps end when they promise 1e-7 of an objective of about 1: √1e-7 · σ is 1e-4 of f, and
    float32 hides about 1e-3.
    """
    sides = both_problems(method, ntkgp.mlp(1, width=64, depth=1))
    outputs = []
    for problem, draw in sides:
        trained = train(
            problem, draw, GaussNewton(tolerance=1e-7), choose_plan(problem.learner.net, 2), False
        )
        predict = jax.vmap(problem.learner.predict, in_axes=(0, 0, None))
        outputs.append(predict(trained.theta, draw.member, jnp.asarray(T, jnp.float32)))
    atol = 1e-4 if METHODS[method].linear else 2e-3
    np.testing.assert_allclose(outputs[0], outputs[1], atol=atol)
    (problem, draw), _ = sides
    unweighted = Problem(problem.learner, Data.of(X, Y))
    plain = train(unweighted, draw, GaussNewton(), choose_plan(problem.learner.net, 2), False)
    without = predict(plain.theta, draw.member, jnp.asarray(T, jnp.float32))
    assert np.abs(without - outputs[1]).max() > 20 * atol  # the control


@pytest.mark.slow
@pytest.mark.optimised
def test_a_wide_ensemble_with_weights_follows_the_law_of_weighted_rows():
    """As without weights; the standard errors widened by a fifth for 1/width."""
    net, weight = ntkgp.mlp(1, width=1024, depth=1), np.array([20.0, 0.04, 0.04, 5.0])
    ensemble = fit(
        net, X, Y, members=300, noise_std=NOISE, sample_weight=weight, trainer=GaussNewton()
    )
    outputs = ensemble.outputs(T)[:, :, 0].astype(float)
    law = ntkgp.condition(net, X, Y, noise_std=NOISE, sample_weight=weight)
    mean = law.mean(T)[:, 0]
    assert mean_z(outputs, mean) < 6
    assert_covariance(outputs - mean, law.covariance(T), z=6)
    unweighted = ntkgp.condition(net, X, Y, noise_std=NOISE)  # the control
    assert mean_z(outputs, unweighted.mean(T)[:, 0]) > 9
    assert_not_covariance(outputs - mean, unweighted.covariance(T), z=6)


@pytest.mark.slow
def test_mini_batches_have_the_whole_loss_on_average():
    """Six rows in three batches of two: each batch weighs its rows as the whole table does."""
    x, weight = np.linspace(-1, 1, 6)[:, None], np.array([0.1, 2.0, 1.0, 3.0, 0.5, 7.0])
    learner = Baselearner(ntkgp.mlp(1, width=8, depth=1), METHODS["ntkgp-param"], NOISE)
    problem = Problem(learner, Data.of(x, np.sin(x), weight))
    draws = draw_members(learner, 0, range(1), problem.data.y)
    draw = jax.tree.map(lambda leaf: leaf[0], draws)
    trainer = Descent(optax.adam(0.01), epochs=1, batch_size=2)
    batches = trainer.schedule(problem, draw, jnp.asarray(0)).rows[: int(trainer.steps(problem))]

    def loss(rows):
        batch = training_set(problem, draw, rows)
        return float(learner.loss(draw.theta, draw.member, batch, problem.data.total))

    parts = [loss(rows) for rows in batches]
    assert len(parts) == 3
    assert np.mean(parts) == pytest.approx(loss(None), rel=1e-5)
    assert np.ptp(parts) > 0.01 * loss(None)  # the control: they differ


@pytest.mark.slow
def test_a_member_knows_the_weights_it_was_trained_with():
    net, options = ntkgp.mlp(1, width=8, depth=1), {"members": 1, "noise_std": NOISE}
    short = GaussNewton(max_steps=2)
    plain = fit(net, X, Y, trainer=short, **options)
    ones = fit(net, X, Y, sample_weight=np.ones(4), trainer=short, **options)
    weighted = fit(net, X, Y, sample_weight=COUNTS, trainer=short, **options)
    assert plain.trained_on == ones.trained_on != weighted.trained_on
    np.testing.assert_array_equal(plain.outputs(T), ones.outputs(T))
    with pytest.raises(ValueError, match="training set"):
        plain + fit(
            net, X, Y, sample_weight=COUNTS, trainer=short, noise_std=NOISE, members=range(1, 2)
        )
