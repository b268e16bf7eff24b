"""Training: exactness where there is a closed form, and agreement of every way to train."""

import subprocess
import sys
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ntkgp
from helpers import (
    assert_covariance,
    assert_not_covariance,
    dense_jacobian,
    flat,
    mean_z,
    some_slow,
)
from ntkgp import METHODS, Descent, GaussNewton, adapters, fit
from ntkgp.ensembles.member import Baselearner, Member, member_keys
from ntkgp.ensembles.noise import LearnedNoise
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.trainers import descent
from ntkgp.ensembles.trainers.default import choose_trainer
from ntkgp.ensembles.training import Data, draw_members, offsets

X = np.array([[-1.5], [-0.6], [0.4], [1.3]])
Y = np.sin(2 * X)
T = np.linspace(-2, 2, 5)[:, None]
NOISE = 0.3
DATA = Data(jnp.asarray(X, jnp.float32), jnp.asarray(Y, jnp.float32))
ADAM = optax.adam(0.01)  # one object, so that tests share what is compiled for it
LINEAR = [name for name, method in METHODS.items() if method.linear]


def drawn(method, net, indices=range(3), seed=0):
    learner = Baselearner(net, METHODS[method], NOISE)
    return learner, draw_members(learner, seed, indices, DATA)


def one(tree, k):
    return jax.tree.map(lambda leaf: leaf[k], tree)


def closed_form(learner, draw, k, t):
    """f̃₀(t) + Θ̂_td (Θ̂_dd + σ²I)⁻¹ (y' - f̃₀(x)) in float64, from whole Jacobians at member k."""
    net = learner.net
    theta, member = jax.tree.map(
        lambda leaf: np.asarray(leaf[k], np.float64), (draw.theta, draw.member)
    )
    point = member.theta_tilde if learner.method.model == "tangent" else theta
    weight = flat(net.prior_var(), point)
    if learner.method.trains == "readout":
        weight = weight * flat(net.readout(), point)
    with jax.enable_x64(True):
        both = jnp.asarray(np.concatenate([X, t]))
        jacobian = np.asarray(dense_jacobian(net.apply, point, both))
        outputs = np.asarray(jax.jit(Baselearner.predict)(learner, theta, member, both))[:, 0]
    (j_d, j_t), (f_d, f_t) = (np.split(values, [len(X)]) for values in (jacobian, outputs))
    gram = (j_d * weight) @ j_d.T + NOISE**2 * np.eye(len(X))
    targets = Y[:, 0] + NOISE * np.asarray(draw.epsilon[k][:, 0], np.float64)
    return f_t + (j_t * weight) @ j_d.T @ np.linalg.solve(gram, targets - f_d)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
@pytest.mark.parametrize("method", LINEAR)
def test_linear_members_are_exact(method, parameterization):
    """NTKGP-Lin under its own empirical NTK, and readout-only training under its own features."""
    net = ntkgp.mlp(1, width=16, parameterization=parameterization)
    learner, draws = drawn(method, net)
    outputs = fit(net, X, Y, method=method, members=3, noise_std=NOISE).outputs(T)[:, :, 0]
    for k in range(3):
        np.testing.assert_allclose(
            outputs[k], closed_form(learner, draws, k, T), rtol=1e-4, atol=2e-5
        )
    initial = jax.vmap(learner.predict, in_axes=(0, 0, None))(
        draws.theta, draws.member, jnp.asarray(T, jnp.float32)
    )
    assert np.abs(outputs - initial[:, :, 0]).max() > 0.1  # the control: it has moved


def test_ntkgp_lin_members_are_draws_from_the_posterior_of_their_empirical_ntk():
    """Many (θ₀, ε) at one fixed θ̃: mean and covariance of the GP posterior with prior J Λ Jᵀ."""
    net, n = ntkgp.mlp(1, width=16), 1000
    learner, draws = drawn("ntkgp-lin", net, range(n))
    tilde = one(draws.member.theta_tilde, 0)
    shared = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (n, *leaf.shape)), tilde)
    draws = draws._replace(member=Member(draws.member.theta_0, shared))
    trained = GaussNewton()(learner, DATA, draws, None, False)
    predict = jax.vmap(learner.predict, in_axes=(0, 0, None))
    outputs = np.asarray(predict(trained.theta, trained.member, jnp.asarray(T, jnp.float32)))[
        :, :, 0
    ]
    tilde = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tilde)
    with jax.enable_x64(True):
        both = jnp.asarray(np.concatenate([X, T]))
        jacobian = np.asarray(dense_jacobian(net.apply, tilde, both))
    j_d, j_t = np.split(jacobian * np.sqrt(flat(net.prior_var(), tilde)), [len(X)])
    gain = j_t @ j_d.T @ np.linalg.inv(j_d @ j_d.T + NOISE**2 * np.eye(len(X)))
    mean, cov = gain @ Y[:, 0], j_t @ j_t.T - gain @ j_d @ j_t.T
    assert mean_z(outputs, mean) < 5
    assert_covariance(outputs - mean, cov)
    assert_not_covariance(outputs - mean, j_t @ j_t.T)  # the control: the prior


@pytest.mark.parametrize(
    "method",
    some_slow(METHODS, fast=("deep-ensemble", "ntkgp-param", "ntkgp-fn", "ntkgp-lin", "nngp")),
)
def test_gauss_newton_ends_where_a_long_descent_ends(method):
    """The two solvers share nothing but the loss."""
    net = ntkgp.mlp(1, width=256, depth=1)
    slow = fit(
        net,
        X,
        Y,
        method=method,
        members=2,
        noise_std=NOISE,
        trainer=Descent(
            optax.adam(optax.exponential_decay(0.01, 1000, 0.6)), epochs=8000, evaluate_every=8000
        ),
    )
    fast = fit(
        net,
        X,
        Y,
        method=method,
        members=2,
        noise_std=NOISE,
        trainer=GaussNewton(max_steps=300, tolerance=1e-7),
    )
    assert np.all(fast.objectives <= slow.objectives * 1.001 + 1e-5)
    if METHODS[method].anchor == "init":  # strongly convex near the start, so one minimum
        np.testing.assert_allclose(fast.outputs(T), slow.outputs(T), atol=0.02)


def test_gauss_newton_solves_a_relu_network():
    net = ntkgp.mlp(1, width=256, depth=1, activation=ntkgp.layers.Relu())
    schedule = optax.exponential_decay(0.01, 500, 0.7)
    slow = Descent(optax.adam(schedule), epochs=4000, evaluate_every=4000)
    descended, solved = (
        fit(net, X, Y, members=2, noise_std=NOISE, trainer=trainer)
        for trainer in (slow, GaussNewton(max_steps=300))
    )
    assert np.all(solved.objectives <= descended.objectives * 1.01)


def test_gauss_newton_recovers_from_a_factorisation_that_fails():
    """A first damping far below what float32 resolves: it must grow until steps are finite."""
    x = np.linspace(-1, 1, 60)[:, None]
    solver = GaussNewton(damping=1e-9, max_steps=60)
    ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(x), members=2, noise_std=1e-3, trainer=solver)
    assert np.all(ensemble.losses[:, -1] < 1e-2 * ensemble.losses[:, 0])


@pytest.mark.parametrize("method", LINEAR)
def test_linear_methods_are_solved_at_small_noise(method):
    x = np.linspace(-1, 1, 60)[:, None]
    ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(x), method=method, members=2, noise_std=1e-3)
    assert np.abs(ensemble.outputs(x)[:, :, 0] - np.sin(x)[:, 0]).max() < 0.05


def test_convergence_is_told():
    net, options = ntkgp.mlp(1, width=16), {"members": 3, "noise_std": NOISE}
    solved = fit(net, X, Y, method="ntkgp-lin", **options)
    cut = fit(net, X, Y, trainer=GaussNewton(max_steps=1), **options)
    assert solved.converged.all()
    assert not cut.converged.any()


@pytest.mark.slow
def test_optimisers_with_a_line_search_work():
    trainer = Descent(optax.lbfgs(), epochs=5)
    ensemble = fit(ntkgp.mlp(1, width=16), X, Y, members=1, noise_std=NOISE, trainer=trainer)
    assert ensemble.losses[0, -1] < 0.5 * ensemble.losses[0, 0]


def test_gauss_newton_never_raises_the_objective():
    losses = fit(ntkgp.mlp(1, width=16), X, Y, members=3, noise_std=NOISE).losses
    assert np.all(np.diff(losses, axis=1) <= 0)


@pytest.mark.optimised
@pytest.mark.parametrize("method", some_slow(["ntkgp-param", "rp-param"], fast=["ntkgp-param"]))
def test_both_parameterisations_train_to_one_function_at_large_width(method):
    """A descent that knows nothing of Λ but through the loss; wide, so nearly linear."""
    outputs = {}
    for parameterization in ("ntk", "standard"):
        net = ntkgp.mlp(1, width=2048, depth=1, parameterization=parameterization)
        rate = 0.02 if parameterization == "ntk" else 0.0005
        optimizer = optax.adam(optax.exponential_decay(rate, 1000, 0.5))
        ensemble = fit(
            net,
            X,
            Y,
            method=method,
            members=2,
            noise_std=NOISE,
            trainer=Descent(optimizer, epochs=5000, evaluate_every=5000),
        )
        outputs[parameterization] = ensemble.outputs(T)
    np.testing.assert_allclose(outputs["ntk"], outputs["standard"], atol=0.03)
    # The control: the two laws of the same network with another prior do differ by more.
    other = ntkgp.mlp(1, width=2048, depth=1, w_std=0.7)
    different = fit(other, X, Y, method=method, members=2, noise_std=NOISE).outputs(T)
    assert np.abs(outputs["ntk"] - different).max() > 0.1


@pytest.mark.optimised
@pytest.mark.parametrize(
    ("method", "noise_std", "control"),
    [
        ("deep-ensemble", 0.0, "ntkgp"),
        ("rp-param", NOISE, "ntkgp"),
        ("ntkgp-param", NOISE, "nngp"),
        pytest.param("ntkgp-param", 0.0, "nngp", marks=pytest.mark.slow),
        pytest.param("ntkgp-alt", NOISE, "randomised-prior", marks=pytest.mark.slow),
        pytest.param("nngp", NOISE, "ntkgp", marks=pytest.mark.slow),
    ],
)
def test_wide_ensembles_follow_their_law(method, noise_std, control):
    """Corollary 1 and Table 1: mean and covariance over members of a wide, nearly linear network.

    The standard errors are widened by a fifth: the network's 1/width is not quite zero.
    """
    net = ntkgp.mlp(1, width=1024 if noise_std else 2048, depth=1)  # noise keeps θ nearer to θ₀
    trainer = GaussNewton(tolerance=1e-6)
    options = {"method": method, "members": 500, "noise_std": noise_std, "trainer": trainer}
    outputs = fit(net, X, Y, **options).outputs(T)[:, :, 0].astype(float)
    law = ntkgp.condition(net, X, Y, law=METHODS[method].law, noise_std=noise_std)
    centred = outputs - law.mean(T)[:, 0]
    assert mean_z(outputs, law.mean(T)[:, 0]) < 6
    assert_covariance(centred, law.covariance(T), z=6)
    wrong = ntkgp.condition(net, X, Y, law=control, noise_std=noise_std)
    assert_not_covariance(centred, wrong.covariance(T))


@pytest.mark.parametrize(
    "trainer",
    [
        GaussNewton(max_steps=5),
        Descent(optax.sgd(0.01), epochs=20),
        Descent(ADAM, epochs=5, batch_size=2),
    ],
    ids=["gauss-newton", "full-batch", "mini-batch"],
)
@pytest.mark.parametrize("method", some_slow(METHODS, fast=("deep-ensemble", "ntkgp-param")))
def test_a_member_is_the_same_alone_and_in_company(method, trainer):
    net = ntkgp.mlp(1, width=16)
    options = {"method": method, "noise_std": NOISE, "seed": 4, "trainer": trainer}
    company = fit(net, X, Y, members=[0, 2, 5], **options)
    alone = fit(net, X, Y, members=[2], **options)
    np.testing.assert_allclose(company.outputs(T)[1], alone.outputs(T)[0], rtol=2e-3, atol=2e-4)
    assert np.abs(company.outputs(T)[0] - alone.outputs(T)[0]).max() > 1e-2  # the control


OTHER_PLANS = [{"plan": "unrolled"}, {"plan": "one by one"}, {"members_at_once": 2}]


@pytest.mark.parametrize(
    ("make", "plans"),
    [
        (partial(GaussNewton, max_steps=5), OTHER_PLANS[1:]),
        (partial(Descent, ADAM, epochs=5, batch_size=2, patience=2), OTHER_PLANS),
    ],
    ids=["gauss-newton", "descent"],
)
def test_members_are_the_same_by_every_plan(make, plans):
    validation = (T, np.sin(T)) if make.func is Descent else None
    reference, *others = (
        fit(ntkgp.mlp(1, width=16), X, Y, members=3, trainer=make(**plan), validation=validation)
        for plan in ({}, *plans)
    )
    for other in others:
        near = {"rtol": 2e-3, "atol": 2e-4}
        np.testing.assert_allclose(other.outputs(T), reference.outputs(T), **near)
        np.testing.assert_allclose(other.losses, reference.losses, **near)
        np.testing.assert_array_equal(other.converged, reference.converged)


def test_members_over_devices_are_the_same():
    """Three members on two devices, one of them filled up."""
    code = """
import jax; jax.config.update("jax_num_cpu_devices", 2)
import numpy as np, optax, ntkgp
from ntkgp.ensembles.trainers import descent
from ntkgp.ensembles.plans import choose_plan
net, x = ntkgp.mlp(1, width=16), np.linspace(-1, 1, 8)[:, None]
assert choose_plan(net, 3).devices == 2
outputs = [
    ntkgp.fit(net, x, x**2, members=3, trainer=trainer(plan), validation=validation).outputs(x)
    for trainer, validation in (
        (lambda p: ntkgp.Descent(optax.adam(0.01), epochs=5, batch_size=3, plan=p), (x, x**2)),
        (lambda p: ntkgp.GaussNewton(max_steps=4, plan=p), None),
    )
    for plan in ("together", "auto")
]
for one, two in (outputs[:2], outputs[2:]):
    np.testing.assert_allclose(one, two, rtol=2e-3, atol=2e-4)
assert descent.scan_program._cache_size() == 2  # one for each plan, whatever the epoch
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def plainly_convolving():
    """A network with a convolution of JAX's own, inside a function compiled by itself."""

    @jax.jit
    def convolve(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def init(key):
        first, last = jax.random.split(key)
        return {
            "first": jax.random.normal(first, (3, 3, 1, 4)),
            "last": jax.random.normal(last, (4, 1)),
        }

    def apply(params, x):
        return jnp.tanh(convolve(x, params["first"])).mean((1, 2)) @ params["last"]

    return adapters.from_functions(init, apply, (8, 8, 1))


def test_plans_suit_network_and_device():
    dense, conv = ntkgp.mlp(2), ntkgp.myrtle((8, 8, 1), depth=5, channels=2)
    assert choose_plan(dense, 10).name == "together"
    assert choose_plan(conv, 10).name == "one by one"
    assert choose_plan(conv, 10, "together").at_once == 10
    assert choose_plan(conv, 10).scans
    assert not choose_plan(plainly_convolving(), 10).scans
    assert choose_plan(dense, 10, at_once=4).at_once == 4
    with pytest.raises(ValueError, match="one by one"):
        choose_plan(dense, 10, "all")


def test_gauss_newton_forecasts_its_memory():
    x = np.zeros((200_000, 1))
    with pytest.raises(ntkgp.NotEnoughMemory, match=r"200,000 rows of 1 targets.*Descent"):
        fit(ntkgp.mlp(1, width=4), x, x, members=1, trainer=GaussNewton())


@pytest.mark.parametrize(
    ("rows", "options", "chosen"),
    [
        (300, {}, GaussNewton),
        (301, {}, Descent),
        (3000, {"method": "ntkgp-lin"}, GaussNewton),
        (3001, {"method": "ntkgp-lin"}, Descent),
        (4, {"noise": LearnedNoise()}, Descent),
        (4, {"method": "deep-ensemble", "weight_decay": 0.1}, Descent),
    ],
)
def test_the_trainer_is_chosen_by_the_problem(rows, options, chosen):
    method = METHODS[options.get("method", "ntkgp-param")]
    others = {name: value for name, value in options.items() if name != "method"}
    learner = Baselearner(ntkgp.mlp(1, 2, width=4), method, NOISE, **others)
    data = Data(jnp.zeros((rows, 1)), jnp.zeros((rows, 1)))
    assert isinstance(choose_trainer(learner, data, None), chosen)
    assert isinstance(choose_trainer(learner, data, data), Descent)


def test_what_does_not_suit_gauss_newton_is_trained_by_adam(capsys):
    ensemble = fit(
        ntkgp.mlp(1, width=8),
        X,
        Y,
        method="deep-ensemble",
        members=1,
        weight_decay=0.1,
        validation=(T, T),
        progress=True,
    )
    assert ensemble.validation_losses.shape[1] > 1
    assert "trainer: Descent" in capsys.readouterr().err


def test_the_plan_is_told_to_those_who_ask_for_progress(capsys):
    fit(ntkgp.mlp(1, width=8), X, Y, members=2, progress=True)
    assert "2 at once, together" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["deep-ensemble", "ntkgp-param"])
def test_delta_within_the_step_is_the_cached_one(method, monkeypatch):
    trainer = Descent(ADAM, epochs=3, batch_size=2)
    kept = fit(ntkgp.mlp(1, width=16), X, Y, method=method, members=2, trainer=trainer)
    monkeypatch.setattr(descent, "DELTA_BYTES", 0)
    again = fit(ntkgp.mlp(1, width=16), X, Y, method=method, members=2, trainer=trainer)
    np.testing.assert_allclose(again.outputs(T), kept.outputs(T), rtol=1e-4, atol=1e-5)


def test_augmented_inputs_bring_their_own_delta():
    """Inputs replaced by others in every step: the same training as on those others."""
    trainer = partial(Descent, ADAM, epochs=4, batch_size=2)
    moved = fit(ntkgp.mlp(1, width=16), X + 1, Y, members=2, trainer=trainer())
    augmented = fit(
        ntkgp.mlp(1, width=16), X, Y, members=2, trainer=trainer(augment=lambda key, x: x + 1)
    )
    np.testing.assert_allclose(augmented.outputs(T), moved.outputs(T), rtol=1e-4, atol=1e-5)


def test_augmentations_differ_between_steps_epochs_and_members():
    seen = []

    def augment(key, x):
        shift = jax.random.normal(key)
        jax.debug.callback(lambda value: seen.append(float(value)), shift)
        return x + shift

    trainer = Descent(optax.sgd(0.01), epochs=2, batch_size=2, augment=augment, plan="one by one")
    fit(ntkgp.mlp(1, width=8), X, Y, members=2, trainer=trainer)
    jax.effects_barrier()
    assert len(set(seen)) == 2 * 2 * 2


def test_training_continues_from_its_state():
    """One pytree carries all: 2 + 2 epochs from a state that went through NumPy are 4 epochs."""
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=16))
    trainer = Descent(ADAM, epochs=5, batch_size=2)
    plan, delta = choose_plan(learner.net, 3), offsets(learner, draws.member, DATA.x)

    def run(state, first, n_epochs):
        return descent.run_epochs(
            trainer, plan, learner, state, DATA, draws, delta, first, n_epochs
        )[0]

    whole = run(descent.start(trainer, learner, draws, False), 0, 5)
    half = run(descent.start(trainer, learner, draws, False), 0, 2)
    half = jax.tree.map(jnp.asarray, jax.tree.map(np.asarray, half))
    resumed = run(half, 2, 3)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, resumed
    )


def test_mini_batches_visit_every_example_once_an_epoch():
    """Plain gradient descent on a loss linear in the batch: the sum of updates tells the visits."""
    learner, draws = drawn("deep-ensemble", ntkgp.mlp(1, width=8), range(1))
    seen = []
    draw = one(draws, 0)
    trainer = Descent(optax.sgd(0.0), epochs=1, batch_size=2)

    def spy(learner_, theta, member, batch):
        jax.debug.callback(lambda x: seen.extend(np.asarray(x).ravel().tolist()), batch.x)
        return jnp.sum(jax.tree.leaves(theta)[0]) * 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Baselearner, "data_loss", spy)
        own = descent.Own(draw, None, draw.theta, trainer.optimizer.init(draw.theta))
        for epoch in jnp.arange(2):
            order = descent._order(trainer, draw.batch_key, epoch, len(X))
            for i in jnp.arange(len(order)):
                descent._step(trainer, learner, own, DATA, order, epoch, i)
    jax.effects_barrier()
    first, second = seen[:4], seen[4:]
    assert sorted(first) == sorted(second) == sorted(np.float32(X).ravel().tolist())


def test_learning_rate_schedules_are_followed():
    """A schedule that is 0 after the first step stops training there."""
    net = ntkgp.mlp(1, width=8)
    schedule = optax.piecewise_constant_schedule(0.01, {1: 0.0})
    once, many = (
        fit(net, X, Y, members=1, trainer=Descent(optax.sgd(schedule), epochs=n)) for n in (1, 9)
    )
    np.testing.assert_allclose(once.outputs(T), many.outputs(T), rtol=1e-6)


def test_early_stopping_keeps_each_member_s_best_parameters():
    net = ntkgp.mlp(1, width=64)
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (20, 1))
    noisy, clean = np.sin(x) + rng.normal(size=x.shape), np.sin(T)
    trainer = Descent(optax.adam(0.01), epochs=400, patience=10)
    ensemble = fit(
        net, x, noisy, method="deep-ensemble", members=3, trainer=trainer, validation=(T, clean)
    )
    assert ensemble.losses.shape[1] < 400  # it stopped
    assert ensemble.validation_losses.shape == ensemble.losses.shape
    final = 0.5 * np.mean((ensemble.outputs(T) - clean) ** 2, axis=(1, 2))
    np.testing.assert_allclose(final, ensemble.validation_losses.min(axis=1), rtol=1e-4)
    # Each stopped patience evaluations after the last member's best.
    last_best = ensemble.validation_losses.argmin(axis=1).max()
    assert ensemble.losses.shape[1] == last_best + 1 + 10


def test_validation_uses_the_member_s_own_delta():
    net = ntkgp.mlp(1, width=32)
    trainer = Descent(ADAM, epochs=30)
    ensemble = fit(net, X, Y, members=2, trainer=trainer, validation=(T, np.sin(2 * T)))
    final = 0.5 * np.mean((ensemble.outputs(T) - np.sin(2 * T)) ** 2, axis=(1, 2))
    np.testing.assert_allclose(final, ensemble.validation_losses.min(axis=1), rtol=1e-4)


def test_a_member_that_diverges_is_named_and_left_out():
    """One member's target noise is made infinite; the others must not notice."""
    net = ntkgp.mlp(1, width=8)
    trainer = Descent(optax.sgd(0.01), epochs=3)

    def sabotaged(learner, x, draws, validation, progress):
        draws = draws._replace(epsilon=draws.epsilon.at[1].set(1e30))
        return trainer(learner, x, draws, validation, progress)

    with pytest.warns(ntkgp.MemberFailure, match="member 7 "):
        ensemble = fit(net, X, Y, members=[3, 7, 9], trainer=sabotaged)
    assert ensemble.failed == (7,)
    assert ensemble.indices == (3, 9)
    assert np.isfinite(ensemble.outputs(T)).all()
    clean = fit(net, X, Y, members=[3, 7, 9], trainer=trainer)
    np.testing.assert_allclose(ensemble.outputs(T), clean.outputs(T)[[0, 2]], rtol=1e-5)


def test_when_no_member_survives_there_is_an_error():
    with pytest.raises(FloatingPointError, match="learning rate"):
        fit(ntkgp.mlp(1, width=8), X, Y, members=2, trainer=Descent(optax.sgd(1e20), epochs=5))


def test_weight_decay_shrinks_a_deep_ensemble():
    net = ntkgp.mlp(1, width=16)
    trainer = Descent(optax.adam(0.01), epochs=200, evaluate_every=200)
    sizes = [
        sum(
            float(jnp.sum(leaf**2))
            for leaf in jax.tree.leaves(
                fit(
                    net,
                    X,
                    Y,
                    method="deep-ensemble",
                    members=2,
                    trainer=trainer,
                    weight_decay=decay,
                ).theta
            )
        )
        for decay in (0.0, 0.1)
    ]
    assert sizes[1] < 0.9 * sizes[0]


def test_readout_training_leaves_the_body_alone():
    net = ntkgp.mlp(1, width=16)
    theta_0, _ = Baselearner(net, METHODS["nngp"], NOISE).draw(member_keys(0, 0))
    for trainer in (GaussNewton(), Descent(optax.adamw(0.01, weight_decay=0.5), epochs=5)):
        theta = fit(net, X, Y, method="nngp", members=1, noise_std=NOISE, trainer=trainer).theta
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[0], b), theta.body, theta_0.body)
        assert np.abs(theta.readout.w[0] - theta_0.readout.w).max() > 1e-3


def test_delta_is_computed_once_a_fit(monkeypatch):
    calls = []
    original = ntkgp.methods.Tangent.__call__
    monkeypatch.setattr(
        ntkgp.methods.Tangent, "__call__", lambda *a: calls.append(1) or original(*a)
    )
    net = ntkgp.mlp(1, width=11)  # of no other test, so that nothing is compiled yet
    fit(net, X, Y, members=3, trainer=Descent(optax.sgd(0.01), epochs=5, batch_size=2))
    assert len(calls) == 1  # traced once, for the cache; never inside a step


def test_a_second_fit_compiles_no_new_step():
    optimizer, net = optax.adam(0.01), ntkgp.mlp(1, width=8)
    fit(net, X, Y, members=2, trainer=Descent(optimizer, epochs=2))
    compiled = descent.scan_program._cache_size()
    fit(ntkgp.mlp(1, width=8), X + 1, Y, members=2, seed=3, trainer=Descent(optimizer, epochs=2))
    assert descent.scan_program._cache_size() == compiled


def test_noise_free_ntkgp_interpolates():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble = fit(
            ntkgp.mlp(1, width=256),
            X,
            Y,
            members=3,
            noise_std=0.0,
            trainer=GaussNewton(tolerance=1e-6),
        )
    np.testing.assert_allclose(
        ensemble.outputs(X)[:, :, 0], np.broadcast_to(Y[:, 0], (3, 4)), atol=0.02
    )
    assert ensemble.outputs(T).std(axis=0).max() > 0.05  # and yet the members differ elsewhere


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": 0}, "members"),
        ({"members": [1, 1]}, "distinct"),
        ({"x": X * 1e300}, "float32"),
        ({"method": "bagging"}, "ntkgp-param"),
        ({"y": np.zeros(3)}, "rows"),
        ({"y": np.array([0, 0, np.inf, 0.0])}, "row 2"),
        ({"x": np.zeros((4, 2))}, "shape"),
        ({"validation": (T, T), "trainer": GaussNewton()}, "Descent"),
        (
            {"method": "deep-ensemble", "weight_decay": 0.1, "trainer": GaussNewton()},
            "weight_decay",
        ),
    ],
)
def test_bad_arguments_are_refused_in_words(change, words):
    arguments = {"x": X, "y": Y} | change
    with pytest.raises(ValueError, match=words):
        fit(ntkgp.mlp(1, width=4), arguments.pop("x"), arguments.pop("y"), **arguments)


def test_bad_trainer_options_are_refused_in_words():
    with pytest.raises(ValueError, match="batch_size"):
        Descent(optax.sgd(0.1), epochs=1, batch_size=0)


def test_delta_of_a_draw_is_its_member_s():
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=8), range(2))
    x, member = jnp.asarray(X, jnp.float32), one(draws.member, 1)
    delta = offsets(learner, draws.member, x)
    np.testing.assert_allclose(delta[1], learner.offset(member, x), rtol=1e-5)
