"""Training: exactness where there is a closed form, and agreement of every way to train."""

import re
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
)
from ntkgp import METHODS, Descent, GaussNewton, LearnedNoise, adapters, fit
from ntkgp.core.threads import cores, in_threads
from ntkgp.ensembles import forecast, plans, training
from ntkgp.ensembles.losses import offsets
from ntkgp.ensembles.member import Baselearner, Member, member_keys
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.problem import Data, Problem, draw_members
from ntkgp.ensembles.trainers import default_trainer, gauss_newton
from ntkgp.ensembles.trainers.descent import shuffled
from ntkgp.ensembles.trainers.protocol import CONVERGED, LIMIT
from ntkgp.ensembles.training import run_rounds, train

X = np.array([[-1.5], [-0.6], [0.4], [1.3]])
Y = np.sin(2 * X)
T = np.linspace(-2, 2, 5)[:, None]
NOISE = 0.3
DATA = Data.of(X, Y)
ADAM = optax.adam(0.01)  # one object, so that tests share what is compiled for it
LINEAR = [name for name, method in METHODS.items() if method.linear]


def drawn(method, net, indices=range(3), seed=0):
    learner = Baselearner(net, METHODS[method], NOISE)
    return learner, draw_members(learner, seed, indices, DATA.y)


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


@pytest.mark.quick("ntkgp-lin-standard")
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
    plan = choose_plan(net, n)
    trained = train(Problem(learner, DATA), draws, GaussNewton(), plan, progress=False)
    predict = jax.vmap(learner.predict, in_axes=(0, 0, None))
    outputs = np.asarray(predict(trained.theta, draws.member, jnp.asarray(T, jnp.float32)))[:, :, 0]
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    METHODS,
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


@pytest.mark.slow
def test_gauss_newton_solves_a_relu_network():
    net = ntkgp.mlp(1, width=256, depth=1, activation=ntkgp.layers.Relu())
    schedule = optax.exponential_decay(0.01, 500, 0.7)
    slow = Descent(optax.adam(schedule), epochs=4000, evaluate_every=4000)
    descended, solved = (
        fit(net, X, Y, members=2, noise_std=NOISE, trainer=trainer)
        for trainer in (slow, GaussNewton(max_steps=300))
    )
    assert np.all(solved.objectives <= descended.objectives * 1.01)


@pytest.mark.slow
def test_gauss_newton_recovers_from_a_factorisation_that_fails():
    """A first damping far below what float32 resolves: it must grow until steps are finite."""
    x = np.linspace(-1, 1, 60)[:, None]
    solver = GaussNewton(damping=1e-9, max_steps=60)
    ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(x), members=2, noise_std=1e-3, trainer=solver)
    assert np.all(ensemble.losses[:, -1] < 1e-2 * ensemble.losses[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("method", LINEAR)
def test_linear_methods_are_solved_at_small_noise(method):
    x = np.linspace(-1, 1, 60)[:, None]
    ensemble = fit(ntkgp.mlp(1, width=64), x, np.sin(x), method=method, members=2, noise_std=1e-3)
    assert np.abs(ensemble.outputs(x)[:, :, 0] - np.sin(x)[:, 0]).max() < 0.05


@pytest.mark.slow
def test_the_end_of_training_is_told():
    net, options = ntkgp.mlp(1, width=16), {"members": 3, "noise_std": NOISE}
    solved = fit(net, X, Y, method="ntkgp-lin", **options)
    cut = fit(net, X, Y, trainer=GaussNewton(max_steps=1), **options)
    assert solved.ended.tolist() == ["converged"] * 3
    assert cut.ended.tolist() == ["limit"] * 3
    assert solved.converged.all()
    assert not cut.converged.any()


def test_a_member_that_is_stuck_has_not_converged():
    """Promises shrink when failed steps raise the damping: that is no sign of a minimum."""
    trainer = GaussNewton(max_steps=500, tolerance=1e-12)
    ensemble = fit(ntkgp.mlp(1, width=16), X, Y, members=3, noise_std=NOISE, trainer=trainer)
    assert set(ensemble.ended.tolist()) == {"stuck"}  # float32 does not resolve 1e-12


@pytest.mark.slow
def test_optimisers_with_a_line_search_work():
    trainer = Descent(optax.lbfgs(), epochs=5)
    ensemble = fit(ntkgp.mlp(1, width=16), X, Y, members=1, noise_std=NOISE, trainer=trainer)
    assert ensemble.losses[0, -1] < 0.5 * ensemble.losses[0, 0]


def test_a_line_search_is_refused_where_value_and_gradient_disagree():
    net, options = ntkgp.mlp(1, 2, width=4), {"noise": LearnedNoise(), "members": 1}
    with pytest.raises(
        ValueError, match=r"LearnedNoise is not that value's derivative.*optax\.adam"
    ):
        fit(net, X, Y, trainer=Descent(optax.lbfgs(), epochs=2), **options)
    fit(net, X, Y, trainer=Descent(ADAM, epochs=2), **options)  # the control


def test_gauss_newton_never_raises_the_objective():
    losses = fit(ntkgp.mlp(1, width=16), X, Y, members=3, noise_std=NOISE).losses
    assert np.all(np.diff(losses, axis=1) <= 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ntkgp-param", "rp-param"])
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


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize(
    ("method", "noise_std", "control"),
    [
        pytest.param("deep-ensemble", 0.0, "ntkgp", marks=pytest.mark.slow),
        pytest.param("rp-param", NOISE, "ntkgp", marks=pytest.mark.slow),
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


@pytest.mark.quick("ntkgp-param-mini-batch")
@pytest.mark.parametrize(
    "trainer",
    [
        GaussNewton(max_steps=5),
        Descent(optax.sgd(0.01), epochs=20),
        Descent(ADAM, epochs=5, batch_size=2),
    ],
    ids=["gauss-newton", "full-batch", "mini-batch"],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_member_is_the_same_alone_and_in_company(method, trainer):
    net = ntkgp.mlp(1, width=16)
    options = {"method": method, "noise_std": NOISE, "seed": 4, "trainer": trainer}
    company = fit(net, X, Y, members=[0, 2, 5], **options)
    alone = fit(net, X, Y, members=[2], **options)
    np.testing.assert_allclose(company.outputs(T)[1], alone.outputs(T)[0], rtol=2e-3, atol=2e-4)
    assert np.abs(company.outputs(T)[0] - alone.outputs(T)[0]).max() > 1e-2  # the control


OTHER_PLANS = [
    {"plan": "unrolled"},
    {"plan": "one by one"},
    {"plan": "threads"},
    {"members_at_once": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "plans"),
    [
        (partial(GaussNewton, max_steps=5), OTHER_PLANS[1:]),
        pytest.param(
            partial(Descent, ADAM, epochs=5, batch_size=2, patience=2),
            OTHER_PLANS,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["gauss-newton", "descent"],
)
def test_members_are_the_same_by_every_plan(make, plans, monkeypatch):
    monkeypatch.setenv("NPROC", "2")
    validation = (T, np.sin(T)) if make.func is Descent else None
    reference, *others = (
        fit(ntkgp.mlp(1, width=16), X, Y, members=3, trainer=make(), validation=validation, **plan)
        for plan in ({"plan": "together"}, *plans)
    )
    for other in others:
        near = {"rtol": 2e-3, "atol": 2e-4}
        np.testing.assert_allclose(other.outputs(T), reference.outputs(T), **near)
        np.testing.assert_allclose(other.objectives, reference.objectives, **near)
        np.testing.assert_array_equal(other.ended, reference.ended)


@pytest.mark.slow
def test_members_over_devices_are_the_same():
    """Three members on two devices, one of them filled up."""
    code = """
import jax; jax.config.update("jax_num_cpu_devices", 2)
import numpy as np, optax, ntkgp
from ntkgp.ensembles.plans import choose_plan
from ntkgp.ensembles.training import run_rounds
net, x = ntkgp.mlp(1, width=16), np.linspace(-1, 1, 8)[:, None]
assert choose_plan(net, 3).devices == 2
outputs = [
    ntkgp.fit(net, x, x**2, members=3, trainer=t, validation=validation, plan=plan).outputs(x)
    for t, validation in (
        (ntkgp.Descent(optax.adam(0.01), epochs=5, batch_size=3), (x, x**2)),
        (ntkgp.GaussNewton(max_steps=4), None),
    )
    for plan in ("together", "auto")
]
for one, two in (outputs[:2], outputs[2:]):
    np.testing.assert_allclose(one, two, rtol=2e-3, atol=2e-4)
assert run_rounds._cache_size() == 4  # one for each trainer and plan, whatever the round

x = np.random.default_rng(0).normal(size=(60, 5))  # LAPACK's calls for batches waited for ever here
ntkgp.fit(ntkgp.mlp(5, width=32), x, x[:, 0], members=10, trainer=ntkgp.GaussNewton(max_steps=2))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


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
    assert choose_plan(dense, 1).name == "together"
    assert choose_plan(conv, 10).name == "one by one"
    assert choose_plan(conv, 10).at_once == choose_plan(conv, 10).threads == min(cores(), 10)
    assert choose_plan(conv, 10, at_once=1).threads == choose_plan(conv, 1).threads == 1
    assert choose_plan(conv, 10, "together").at_once == 10
    assert choose_plan(conv, 10).scans
    assert not choose_plan(plainly_convolving(), 10).scans
    assert choose_plan(dense, 10, at_once=4).at_once == 4
    with pytest.raises(ValueError, match="one by one"):
        choose_plan(dense, 10, "all")


def test_what_is_no_training_runs_one_member_at_a_time(monkeypatch):
    """A program of all members of a group would grow with the number of cores."""
    monkeypatch.setenv("NPROC", "3")
    plan = choose_plan(ntkgp.myrtle((4, 4, 1), depth=5, channels=2), 4)
    sizes, original = [], plans._run_group

    def spy(f, plan, group, shared):
        sizes.append(len(group))
        return original(f, plan, group, shared)

    monkeypatch.setattr(plans, "_run_group", spy)
    doubled = plan.over_members(_doubled, jnp.arange(4.0), None)
    np.testing.assert_array_equal(doubled, 2 * np.arange(4.0))
    assert (plan.at_once, sizes) == (3, [1, 1, 1, 1])


def _doubled(own, shared):
    return 2 * own


def solving():
    """A network that solves equations on the way."""

    def init(key):
        first, last = jax.random.split(key)
        return {"first": jax.random.normal(first, (2, 2)), "last": jax.random.normal(last, (2, 1))}

    def apply(params, x):
        w = params["first"]
        return jnp.tanh(jnp.linalg.solve(jnp.eye(2) + w @ w.T, x.T).T) @ params["last"]

    return adapters.from_functions(init, apply, (2,))


def test_members_share_the_cores(monkeypatch):
    dense = ntkgp.mlp(2)
    monkeypatch.setenv("NPROC", "3")
    assert (choose_plan(dense, 10).name, choose_plan(dense, 10).threads) == ("threads", 3)
    assert choose_plan(dense, 2).threads == 2
    assert choose_plan(dense, 10, at_once=5).filled == 6
    assert choose_plan(solving(), 10).name == "together"  # LAPACK's calls would wait for each other
    for name in ("threads", "sharded"):
        with pytest.raises(ValueError, match="for ever"):
            choose_plan(solving(), 10, name)
    monkeypatch.setenv("NPROC", "1")
    assert choose_plan(dense, 10).name == "together"


def test_threads_train_the_same_members(monkeypatch):
    """Three members on two threads, one of them filled up; early stopping looks at all of them."""
    monkeypatch.setenv("NPROC", "2")
    options = {"members": 3, "trainer": Descent(ADAM, epochs=4, batch_size=2, patience=2)}
    threads, together = (
        fit(ntkgp.mlp(1, width=8), X, Y, plan=plan, validation=(T, np.sin(T)), **options)
        for plan in ("threads", "together")
    )
    near = {"rtol": 2e-3, "atol": 2e-4}
    np.testing.assert_allclose(threads.outputs(T), together.outputs(T), **near)
    np.testing.assert_allclose(threads.losses, together.losses, **near)
    assert np.ptp(threads.outputs(T), axis=0).min() > 1e-2  # no member stands there twice


def test_threads_keep_the_settings_of_jax(monkeypatch):
    monkeypatch.setenv("NPROC", "2")

    def dtype(_):
        return jnp.zeros(1).dtype

    with jax.enable_x64(True):
        assert in_threads(dtype, [0, 1]) == [np.float64] * 2
    assert in_threads(dtype, [0, 1]) == [np.float32] * 2  # the control


def test_gauss_newton_solves_for_one_member_at_a_time(monkeypatch):
    """XLA divides a batch of LAPACK's calls among its threads: two such programs may wait for ever."""
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=8))
    problem, trainer = Problem(learner, DATA), GaussNewton()

    def factorised():
        """The shapes of the matrices that are factorised in one step of three members."""
        states = jax.vmap(partial(trainer.init, problem))(draws)
        step = jax.vmap(lambda draw, state: trainer.step(problem, draw, state, None))
        return set(
            re.findall(r"f32\[([\d,]+)\] = cholesky\b", str(jax.make_jaxpr(step)(draws, states)))
        )

    assert factorised() == {"4,4"}
    monkeypatch.setattr(gauss_newton, "in_turns", lambda f: f)
    assert factorised() == {"3,4,4"}  # the control


def test_a_member_that_has_ended_takes_no_step():
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=8), range(2))
    problem, trainer = Problem(learner, DATA), GaussNewton()
    states = jax.vmap(partial(trainer.init, problem))(draws)
    states = states._replace(ended=jnp.array([CONVERGED, LIMIT], jnp.int32))
    step = jax.vmap(lambda draw, state: trainer.step(problem, draw, state, None))
    after, losses = step(draws, states)
    jax.tree.map(np.testing.assert_array_equal, one(after, 0), one(states, 0))
    assert np.all(losses > 0)
    moved = [
        np.any(leaf[1] != old[1])
        for leaf, old in zip(*map(jax.tree.leaves, (after.theta, states.theta)), strict=True)
    ]
    assert any(moved)  # the control


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
    heads = 2 if "noise" in options else 1
    learner = Baselearner(ntkgp.mlp(1, heads, width=4), method, NOISE, **others)
    data = Data.of(np.zeros((rows, 1)), np.zeros((rows, 1)))
    assert isinstance(default_trainer(Problem(learner, data)), chosen)
    assert isinstance(default_trainer(Problem(learner, data, data)), Descent)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_plan_is_told_to_those_who_ask_for_progress(capsys):
    fit(ntkgp.mlp(1, width=8), X, Y, members=2, progress=True, plan="together")
    assert "2 at once, together" in capsys.readouterr().err


@pytest.mark.quick("deep-ensemble", "gauss-newton")
@pytest.mark.quick("descent")
@pytest.mark.parametrize(
    ("method", "trainer"),
    [
        ("deep-ensemble", Descent(ADAM, epochs=3, batch_size=2)),
        ("ntkgp-param", Descent(ADAM, epochs=3, batch_size=2)),
        ("ntkgp-param", GaussNewton(max_steps=2)),
    ],
    ids=["deep-ensemble", "descent", "gauss-newton"],
)
def test_delta_within_the_step_is_the_cached_one(method, trainer, monkeypatch):
    kept = fit(ntkgp.mlp(1, width=16), X, Y, method=method, members=2, trainer=trainer)
    monkeypatch.setattr(forecast, "DELTA_BYTES", 0)
    again = fit(ntkgp.mlp(1, width=16), X, Y, method=method, members=2, trainer=trainer)
    np.testing.assert_allclose(again.outputs(T), kept.outputs(T), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_augmented_inputs_bring_their_own_delta():
    """Inputs replaced by others in every step: the same training as on those others."""
    trainer = partial(Descent, ADAM, epochs=4, batch_size=2)
    moved = fit(ntkgp.mlp(1, width=16), X + 1, Y, members=2, trainer=trainer())
    augmented = fit(
        ntkgp.mlp(1, width=16), X, Y, members=2, trainer=trainer(augment=lambda key, x: x + 1)
    )
    np.testing.assert_allclose(augmented.outputs(T), moved.outputs(T), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_augmentations_differ_between_steps_epochs_and_members():
    seen = []

    def augment(key, x):
        shift = jax.random.normal(key)
        jax.debug.callback(lambda value: seen.append(float(value)), shift)
        return x + shift

    trainer = Descent(optax.sgd(0.01), epochs=2, batch_size=2, augment=augment)
    fit(ntkgp.mlp(1, width=8), X, Y, members=2, trainer=trainer, plan="one by one")
    jax.effects_barrier()
    assert len(set(seen)) == 2 * 2 * 2


def test_training_continues_from_its_state():
    """One pytree carries all: 2 + 3 epochs from a state that went through NumPy are 5 epochs."""
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=16))
    plan = choose_plan(learner.net, 3)
    draws = draws._replace(delta=offsets(learner, draws.member, DATA.x, plan))
    shared = (Descent(ADAM, epochs=5, batch_size=2), Problem(learner, DATA))

    def run(state, first, n):
        return run_rounds(plan, shared, draws, state, (first, n))[0]

    whole = run(training.start(plan, shared, draws), 0, 5)
    half = run(training.start(plan, shared, draws), 0, 2)
    half = jax.tree.map(jnp.asarray, jax.tree.map(np.asarray, half))
    resumed = run(half, 2, 3)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, resumed
    )


def test_mini_batches_visit_every_example_once_an_epoch():
    """Nine examples in an array of ten rows: each epoch has three batches of three, and no row ten."""
    x = np.arange(9.0)[:, None]
    learner = Baselearner(ntkgp.mlp(1, width=8), METHODS["deep-ensemble"], NOISE)
    problem = Problem(learner, Data.of(x, x))
    assert len(problem.data.x) == 10
    draw = one(draw_members(learner, 0, range(1), problem.data.y), 0)
    trainer = Descent(ADAM, epochs=2, batch_size=3)
    steps = int(trainer.steps(problem))
    orders = [
        trainer.schedule(problem, draw, epoch).rows[:steps].ravel() for epoch in jnp.arange(2)
    ]
    assert sorted(orders[0].tolist()) == sorted(orders[1].tolist()) == list(range(9))
    assert orders[0].tolist() != orders[1].tolist()


@pytest.mark.slow
def test_a_shuffle_is_jax_s_own_whatever_the_array_s_length():
    key, learner = jax.random.key(3), Baselearner(ntkgp.mlp(1, width=4), METHODS["nngp"], NOISE)
    for n in (5, 67, 2000):
        data = Data.of(np.zeros((n, 1)), np.zeros((n, 1)))
        order = shuffled(key, Problem(learner, data))
        np.testing.assert_array_equal(order[:n], jax.random.permutation(key, n))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "trainer"),
    [
        ("ntkgp-param", GaussNewton(max_steps=5)),
        ("deep-ensemble", Descent(ADAM, epochs=5)),
        ("ntkgp-param", Descent(ADAM, epochs=5, batch_size=4)),
    ],
    ids=["gauss-newton", "full-batch", "mini-batch"],
)
def test_rows_that_fill_up_an_array_change_nothing(method, trainer, monkeypatch):
    x = np.linspace(-1, 1, 9)[:, None]
    options = {"method": method, "members": 2, "trainer": trainer, "validation": None}
    if isinstance(trainer, Descent):
        options["validation"] = (T, np.sin(T))
    filled = fit(ntkgp.mlp(1, width=16), x, np.sin(3 * x), **options)
    monkeypatch.setattr("ntkgp.ensembles.problem.padded_length", lambda n: n)
    plain = fit(ntkgp.mlp(1, width=16), x, np.sin(3 * x), **options)
    near = {"rtol": 2e-4, "atol": 2e-5}
    np.testing.assert_allclose(filled.outputs(T), plain.outputs(T), **near)
    np.testing.assert_allclose(filled.objectives, plain.objectives, **near)
    np.testing.assert_allclose(filled.validation_losses, plain.validation_losses, **near)
    assert filled.trained_on == plain.trained_on


@pytest.mark.slow
@pytest.mark.parametrize(
    "trainer", [GaussNewton(max_steps=3), Descent(ADAM, epochs=2)], ids=["gauss-newton", "descent"]
)
def test_networks_that_are_not_defined_at_0_train_on_any_number_of_rows(trainer):
    def init(key):
        first, last = jax.random.split(key)
        return {"first": jax.random.normal(first, (2, 8)), "last": jax.random.normal(last, (8, 1))}

    def apply(params, x):
        direction = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        return jnp.tanh(direction @ params["first"]) @ params["last"]

    net = adapters.from_functions(init, apply, (2,))
    x = np.random.default_rng(0).normal(size=(9, 2))  # in an array of ten rows
    assert len(fit(net, x, x[:, :1], members=2, trainer=trainer)) == 2


def test_another_number_of_rows_or_epochs_compiles_nothing():
    net, rng = ntkgp.mlp(1, width=9), np.random.default_rng(0)

    def train_on(n, epochs, seed):
        x = rng.normal(size=(n, 1))
        trainer = Descent(ADAM, epochs, batch_size=8, decays=True)
        fit(net, x, x, members=2, seed=seed, trainer=trainer)

    train_on(66, 3, 0)
    compiled = run_rounds._cache_size()
    train_on(79, 5, 1)
    assert run_rounds._cache_size() == compiled
    train_on(81, 5, 1)  # the control: one row more than the array holds
    assert run_rounds._cache_size() == compiled + 1


@pytest.mark.slow
def test_a_decaying_rate_is_optax_s_cosine():
    x = np.linspace(-1, 1, 10)[:, None]
    ours = Descent(optax.adam(0.01), epochs=6, batch_size=4, decays=True)
    schedule = optax.cosine_decay_schedule(0.01, 6 * 2)
    theirs = Descent(optax.adam(schedule), epochs=6, batch_size=4)
    constant = Descent(optax.adam(0.01), epochs=6, batch_size=4)
    one, two, three = (
        fit(ntkgp.mlp(1, width=16), x, x**2, members=1, trainer=trainer).outputs(T)
        for trainer in (ours, theirs, constant)
    )
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    assert np.abs(one - three).max() > 1e-3  # the control


@pytest.mark.slow
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
    assert set(ensemble.ended.tolist()) == {"stopped early"}
    # Each stopped patience evaluations after the last member's best.
    last_best = ensemble.validation_losses.argmin(axis=1).max()
    assert ensemble.losses.shape[1] == last_best + 1 + 10


@pytest.mark.slow
def test_early_stopping_of_a_member_does_not_depend_on_the_others():
    net, rng = ntkgp.mlp(1, width=64), np.random.default_rng(0)
    x = rng.uniform(-2, 2, (20, 1))
    noisy = np.sin(x) + rng.normal(size=x.shape)
    options = {"method": "deep-ensemble", "trainer": Descent(ADAM, epochs=200, patience=2)}
    options["validation"] = (T, np.sin(T))
    company = fit(net, x, noisy, members=4, **options).outputs(T)
    for k in range(4):
        alone = fit(net, x, noisy, members=[k], **options).outputs(T)
        np.testing.assert_allclose(company[k], alone[0], rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_what_becomes_of_a_member_after_its_early_stop_does_not_count():
    """A rate that explodes after some steps: members that had stopped before keep their best."""
    net, rng = ntkgp.mlp(1, width=16), np.random.default_rng(0)
    x = rng.uniform(-2, 2, (20, 1))
    noisy = np.sin(x) + rng.normal(size=x.shape)
    rate = optax.piecewise_constant_schedule(0.02, {40: 1e12})
    options = {"method": "deep-ensemble", "trainer": Descent(optax.sgd(rate), 60, patience=1)}
    options["validation"] = (T, np.sin(T))
    alone = []
    for k in range(4):
        try:
            alone.append(fit(net, x, noisy, members=[k], **options).ended[0] == "stopped early")
        except FloatingPointError:
            alone.append(False)
    assert any(alone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ntkgp.MemberFailure)
        company = fit(net, x, noisy, members=4, **options)
    assert company.indices == tuple(np.flatnonzero(alone))


@pytest.mark.slow
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

    def sabotaged(*arguments):
        draws = draw_members(*arguments)
        return draws._replace(epsilon=draws.epsilon.at[1].set(1e30))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ntkgp.ensembles.job.draw_members", sabotaged)
        with pytest.warns(ntkgp.MemberFailure, match="member 7 "):
            ensemble = fit(net, X, Y, members=[3, 7, 9], trainer=trainer)
    assert ensemble.failed == (7,)
    assert ensemble.indices == (3, 9)
    assert np.isfinite(ensemble.outputs(T)).all()
    clean = fit(net, X, Y, members=[3, 7, 9], trainer=trainer)
    np.testing.assert_allclose(ensemble.outputs(T), clean.outputs(T)[[0, 2]], rtol=1e-5)


@pytest.mark.slow
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
        # Weight decay alone would shrink it by 2 %; two programs that draw it differ by rounding.
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-6), theta.body, theta_0.body
        )
        assert np.abs(theta.readout.w[0] - theta_0.readout.w).max() > 1e-3


def test_delta_is_computed_once_a_fit(monkeypatch):
    calls = []
    original = ntkgp.Tangent.__call__
    monkeypatch.setattr(ntkgp.Tangent, "__call__", lambda *a: calls.append(1) or original(*a))
    net = ntkgp.mlp(1, width=11)  # of no other test, so that nothing is compiled yet
    fit(net, X, Y, members=3, trainer=Descent(optax.sgd(0.01), epochs=5, batch_size=2))
    assert len(calls) == 1  # traced once, for the cache; never inside a step


def test_a_second_fit_compiles_no_new_step():
    optimizer, net = optax.adam(0.01), ntkgp.mlp(1, width=8)
    fit(net, X, Y, members=2, trainer=Descent(optimizer, epochs=2))
    compiled = run_rounds._cache_size()
    fit(ntkgp.mlp(1, width=8), X + 1, Y, members=2, seed=3, trainer=Descent(optimizer, epochs=2))
    assert run_rounds._cache_size() == compiled


@pytest.mark.slow
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
        ({"members_at_once": 0}, "members_at_once"),
        ({"seed": 2**32}, "seed"),
        ({"seed": 0.5}, "seed"),
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"validation": X}, r"validation=\(x, y\); got ndarray"),
        ({"trainer": ADAM}, r"Descent\(optimizer, epochs=\.\.\.\)"),
        ({"noise_std": "0.1"}, "noise_std must be a number; got '0.1'"),
    ],
)
def test_arguments_of_another_kind_are_refused_in_words(change, words):
    with pytest.raises(TypeError, match=words):
        fit(ntkgp.mlp(1, width=4), X, Y, **change)


def test_an_optimiser_that_was_not_made_is_refused_in_words():
    with pytest.raises(TypeError, match=r"optax\.adam\(1e-3\); got <function adam"):
        Descent(optax.adam, epochs=1)


def test_bad_trainer_options_are_refused_in_words():
    with pytest.raises(ValueError, match="batch_size"):
        Descent(optax.sgd(0.1), epochs=1, batch_size=0)


def test_delta_of_a_draw_is_its_member_s():
    learner, draws = drawn("ntkgp-param", ntkgp.mlp(1, width=8), range(2))
    x, member = jnp.asarray(X, jnp.float32), one(draws.member, 1)
    delta = offsets(learner, draws.member, x, choose_plan(learner.net, 2))
    np.testing.assert_allclose(delta[1], learner.offset(member, x), rtol=1e-5)
