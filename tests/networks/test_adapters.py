"""Networks written elsewhere: what the adapters find out about them, and that every method trains them."""

import subprocess
import sys
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx

import ntkgp
from helpers import assert_covariance, assert_not_covariance, dense_jacobian, draws, flat
from ntkgp.ensembles.methods import Tangent
from ntkgp.networks.adapters import (
    ConstantParameters,
    PriorEstimated,
    from_equinox,
    from_flax,
    from_functions,
    from_nnx,
)
from ntkgp.networks.adapters.paths import by_path
from ntkgp.networks.adapters.readout import find_readout
from ntkgp.networks.protocol import squared_norm

BIAS_VAR, SCALE_VAR = 0.1**2, 0.2**2


class LinenConv(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(num_groups=2)(nn.Conv(2, (3, 3))(x)))
        return nn.Dense(1)(x.reshape(len(x), -1))


class EquinoxResidual(eqx.Module):
    first: eqx.nn.Linear
    block: eqx.nn.Linear
    last: eqx.nn.Linear
    offset: jax.Array

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.first = eqx.nn.Linear(2, 6, key=keys[0])
        self.block = eqx.nn.Linear(6, 6, key=keys[1])
        self.last = eqx.nn.Linear(6, "scalar", key=keys[2])
        self.offset = jnp.arange(2)  # an array that is no parameter

    def __call__(self, x):
        h = self.first(x - self.offset)
        return self.last(h + jnp.tanh(self.block(h)))


class NnxNormalised(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(2, 8, rngs=rngs)
        self.layer = nnx.LayerNorm(8, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.gelu(self.layer(self.first(x))))


@cache
def linen_conv():
    with pytest.warns(ConstantParameters, match="'Conv_0/bias', 'Dense_0/bias', 'Gr.*prior_var"):
        return from_flax(LinenConv(), (4, 4, 2))


@cache
def equinox_residual():
    return from_equinox(EquinoxResidual, (2,))


@cache
def nnx_normalised():
    return from_nnx(NnxNormalised, (2,), prior_var={"*bias": BIAS_VAR, "*scale": SCALE_VAR})


NETWORKS = {
    "linen conv": linen_conv,
    "equinox residual": equinox_residual,
    "nnx normalised": nnx_normalised,
}


def inputs(net, n=5):
    x = np.random.default_rng(0).normal(size=(n, *net.input_shape)).astype(np.float32)
    return x, np.sin(x.reshape(n, -1)[:, : net.output_dim])


# What is found out.


@pytest.mark.quick("equinox residual-expected1")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linen conv", {"Conv_0/kernel": 1 / 18, "Dense_0/kernel": 1 / 32}),
        (
            "equinox residual",
            {
                "first/weight": 1 / 6,
                "first/bias": 1 / 6,
                "block/weight": 1 / 18,
                "block/bias": 1 / 18,
                "last/weight": 1 / 18,
                "last/bias": 1 / 18,
            },
        ),
        (
            "nnx normalised",
            {
                "first/kernel": 1 / 2,
                "first/bias": BIAS_VAR,
                "layer/scale": SCALE_VAR,
                "layer/bias": BIAS_VAR,
                "last/kernel": 1 / 8,
                "last/bias": BIAS_VAR,
            },
        ),
    ],
)
def test_prior_variances_are_the_initialisers(name, expected):
    """Exactly 1/fan_in for Flax, 1/(3 fan_in) for Equinox, although found from draws."""
    net = NETWORKS[name]()
    assert net.prior_var() == pytest.approx(expected, rel=1e-12)
    assert isinstance(net, ntkgp.Network)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_readout_is_the_last_layer(name):
    last = {"linen conv": "Dense_0", "equinox residual": "last", "nnx normalised": "last"}[name]
    readout = NETWORKS[name]().readout()
    assert readout == {path: path.startswith(f"{last}/") for path in readout}
    assert len(set(readout.values())) == 2


def test_draws_have_the_prior_s_mean_and_variance():
    """E θ = 0 and E ‖θ‖²_Λ = number of parameters, with the scales about 1 taken for their means."""
    net, n = nnx_normalised(), 400
    thetas = draws(net.init, n)
    size = sum(leaf[0].size for leaf in thetas.values())
    norms = [float(squared_norm(net, {p: leaf[i] for p, leaf in thetas.items()})) for i in range(n)]
    assert abs(np.mean(norms) - size) < 5 * np.sqrt(2 * size / n)
    for path, leaf in thetas.items():
        assert abs(leaf.mean()) < 5 * np.sqrt(net.prior_var()[path] / leaf.size), path


def test_an_unknown_initialiser_is_estimated_with_a_warning():
    module = nn.Dense(4, use_bias=False, kernel_init=nn.initializers.normal(0.3))
    with pytest.warns(PriorEstimated, match=r"kernel: 0.0\d+ ± 1.\d%"):
        net = from_flax(module, (3,))
    estimate = net.prior_var()["kernel"]
    assert estimate != 0.09
    assert abs(estimate / 0.09 - 1) < 5 * np.sqrt(2 / (1024 * 12))


def test_what_a_library_documents_gives_way_to_what_draws_show():
    def doubled(key):
        layer = eqx.nn.Linear(5, 3, key=key)
        return eqx.tree_at(lambda m: m.weight, layer, 2 * layer.weight)

    with pytest.warns(PriorEstimated, match="weight"):
        net = from_equinox(doubled, (5,))
    assert net.prior_var()["weight"] == pytest.approx(4 / 15, rel=0.05)
    assert net.prior_var()["bias"] == pytest.approx(1 / 15, rel=1e-12)


def test_constants_stay_out_of_the_parameters_and_in_the_module():
    """Biases at 0 are not trained; scales with a prior are 1 + θ; the user's own apply agrees."""
    net = linen_conv()
    theta = net.init(jax.random.key(0))
    assert set(theta) == {"Conv_0/kernel", "Dense_0/kernel"}
    x, _ = inputs(net)
    params = net.module_params(theta)
    assert not params["Conv_0"]["bias"].any()
    assert (params["GroupNorm_0"]["scale"] == 1).all()
    outputs = jax.jit(LinenConv().apply)({"params": params}, x)
    np.testing.assert_allclose(jax.jit(net.apply)(theta, x), outputs, rtol=1e-5, atol=1e-6)

    normalised = nnx_normalised()
    theta = jax.tree.map(jnp.zeros_like, jax.eval_shape(normalised.init, jax.random.key(0)))
    np.testing.assert_array_equal(normalised.module_params(theta)["layer"]["scale"], np.ones(8))


@pytest.mark.quick("nnx normalised")
@pytest.mark.parametrize("name", ["linen conv", "nnx normalised"])
def test_tangent_gram_is_the_weighted_product_of_jacobians(name):
    net = NETWORKS[name]()
    x = jnp.asarray(inputs(net, 3)[0])
    theta = jax.jit(net.init)(jax.random.key(5))
    jacobian = dense_jacobian(net.apply, theta, x)
    # dense_jacobian and flat take leaves in the order of a pytree, which for dictionaries is sorted.
    weights, last = flat(net.prior_var(), theta), flat(net.readout(), theta)

    @jax.jit
    def grams(theta):
        return [net.tangent_gram(theta, x, part) for part in ("all", "body", "readout")]

    for gram, mask in zip(grams(theta), (1, 1 - last, last), strict=True):
        expected = (jacobian * weights * mask) @ jacobian.T
        np.testing.assert_allclose(gram, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
        assert np.abs(expected).max() > 0


# The library's own network, adapted, is the same network.


@pytest.mark.slow
def test_an_adapted_native_network_is_the_native_network():
    native = ntkgp.mlp(2, 2, width=4, depth=1, b_std=0.3)
    calls = []

    def apply(params, x):
        calls.append(1)
        return native.apply(params, x)

    net = from_functions(native.init, apply, (2,), prior_var=by_path(native.prior_var()))
    assert net.prior_var() == by_path(native.prior_var())
    assert net.readout() == by_path(native.readout())
    x, y = inputs(net)

    @jax.jit
    def grams(theta):
        return [
            (net.tangent_gram(by_path(theta), x, part), native.tangent_gram(theta, x, part))
            for part in ("all", "body", "readout")
        ]

    x = jnp.asarray(x)
    for ours, theirs in grams(native.init(jax.random.key(0))):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    options = {"members": 2, "trainer": ntkgp.GaussNewton(max_steps=3)}
    ours, theirs = (ntkgp.fit(n, x, y, **options).outputs(x) for n in (net, native))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)

    traced = len(calls)
    other = ntkgp.fit(net, x, y, seed=1, **options).outputs(x)
    assert len(calls) == traced  # the same object is compiled once
    assert np.abs(other - ours).max() > 1e-2  # the control: other members are not as close


@pytest.mark.slow
def test_proposition_1_for_a_flax_network():
    """Cov(f₀ + δ) is the mean empirical NTK, at any width; it is Gaussian in the limit."""
    module = nn.Sequential([nn.Dense(128), jnp.tanh, nn.Dense(1)])
    net = from_flax(module, (2,), prior_var={"*bias": BIAS_VAR})
    x = jnp.asarray(inputs(net, 3)[0])

    def sample(key):
        key_0, key_tilde = jax.random.split(key)
        theta_0, theta_tilde = net.init(key_0), net.init(key_tilde)
        right, wrong = (
            net.apply(theta_0, x) + Tangent(1.0, head)(net, theta_0, theta_tilde, x)
            for head in (0.0, 1.0)
        )
        return right[:, 0], wrong[:, 0], net.tangent_gram(theta_0, x)

    f_tilde, readout_kept, grams = draws(sample, 1500)
    assert_covariance(f_tilde, grams.mean(0))
    assert_not_covariance(readout_kept, grams.mean(0))


# Every method on every network.

CASES = [(method, name) for method in ntkgp.METHODS for name in NETWORKS]
FAST = {
    ("ntkgp-param", "linen conv"),
    ("rp-fn", "nnx normalised"),
    ("ntkgp-lin", "equinox residual"),
}
"""A tangent offset, a prior network, and a method that is linear in what it trains."""


@pytest.mark.quick("ntkgp-param-linen conv")
@pytest.mark.parametrize(
    ("method", "name"),
    [case if case in FAST else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_every_method_trains_every_network(method, name):
    net = NETWORKS[name]()
    x, y = inputs(net)
    ensemble = ntkgp.fit(
        net, x, y, method=method, members=2, trainer=ntkgp.GaussNewton(max_steps=8)
    )
    assert (ensemble.objectives < ensemble.losses[:, 0]).all()
    outputs = ensemble.outputs(x + 1)
    assert np.isfinite(outputs).all()
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3  # members differ


# Which readout.


def relu(x):
    return np.maximum(x, 0)


def shapes(**sizes):
    return {name.replace("_", "/"): np.ones(size, np.float32) for name, size in sizes.items()}


X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
TWO_LAYERS = shapes(a_w=(3, 6), b_w=(6, 2))
WITH_BIASES = shapes(a_w=(3, 6), a_b=6, b_w=(6, 2), b_b=2)


def biased(p, phi=relu, last=lambda z: z):
    return last(phi(X @ p["a/w"] + p["a/b"]) @ p["b/w"] + p["b/b"])


@pytest.mark.parametrize(
    ("f", "params"),
    [
        (biased, WITH_BIASES),
        (lambda p: biased(p, phi=lambda z: z), WITH_BIASES),  # linear, told by its biases
        (lambda p: relu(X @ p["a/w"]) @ p["b/w"], TWO_LAYERS),  # homogeneous in both layers
        (lambda p: np.tanh(1e-3 * X @ p["a/w"]) @ p["b/w"], TWO_LAYERS),  # all but linear
    ],
)
def test_the_readout_is_found_where_only_one_part_is_linear(f, params):
    found = find_readout(f, params, None)
    assert found == {path for path in params if path.startswith("b/")}


def test_an_ambiguous_readout_lists_the_candidates_and_can_be_named():
    def deep_linear(p):
        return X @ p["a/w"] @ p["b/w"]

    with pytest.raises(ValueError, match=r"ambiguous.*'a', 'b'.*readout="):
        find_readout(deep_linear, TWO_LAYERS, None)
    assert find_readout(deep_linear, TWO_LAYERS, "b") == {"b/w"}
    assert find_readout(deep_linear, TWO_LAYERS, "b/*") == {"b/w"}


def test_a_readout_in_several_places_must_be_named_as_such():
    def two_heads(p):
        return relu(X) @ p["a/w"] + np.sin(X) @ p["b/w"]

    params = shapes(a_w=(3, 2), b_w=(3, 2), c_w=2)

    def f(p):
        return two_heads(p) * np.exp(p["c/w"])

    with pytest.raises(ValueError, match=r"no readout found.*'a/w', 'b/w', 'c/w'"):
        find_readout(f, params, None)
    assert find_readout(f, params, ["a", "b"]) == {"a/w", "b/w"}
    with pytest.raises(ValueError, match="not linear"):
        find_readout(f, params, "a")


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("a", "'a/b', 'a/w', but the output is not linear"),
        ("b/w", "not all of it"),
        ("Dense_7", "no path of this network.*'a/w', 'a/b', 'b/w', 'b/b'"),
    ],
)
def test_a_wrong_name_for_the_readout_is_refused(named, words):
    with pytest.raises(ValueError, match=words):
        find_readout(biased, WITH_BIASES, named)


def test_an_output_nonlinearity_is_refused():
    with pytest.raises(ValueError, match="softmax, tanh"):
        find_readout(lambda p: biased(p, last=np.tanh), WITH_BIASES, None)


# What is refused.


def plain_init(key):
    return {"w": jax.random.normal(key, (2, 3))}


def plain_apply(params, x):
    return x @ params["w"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prior_var": {"w": -1.0}}, ValueError, "'w' must be a finite number ≥ 0"),
        ({"prior_var": lambda path, leaf: leaf.size / 2.0}, ValueError, "mean square 0.9.*another"),
        ({"prior_var": {"v": 1.0}}, ValueError, "prior_var names 'v'.*'w'"),
        ({"input_shape": (0,)}, ValueError, "input_shape"),
        ({"init": lambda key: {"w": jnp.ones((2, 3))}}, ValueError, "same parameters for every"),
        (
            {"init": lambda key: {"w": jax.random.uniform(key, (2, 3))}},
            ValueError,
            "mean that is not 0",
        ),
        (
            {"init": lambda key: {"w": plain_init(key)["w"].at[0].set(0.5)}},
            ValueError,
            "a fraction of 0.5",
        ),
        (
            {"init": lambda key: plain_init(key) | {"step": jnp.arange(3)}},
            TypeError,
            "'step' is of dtype int32",
        ),
        ({"apply": lambda p, x: plain_apply(p, x)[None]}, ValueError, r"\(1, 2, 3\)"),
        ({"apply": lambda p, x: (plain_apply(p, x), 1)}, ValueError, "one array.*tuple"),
        (
            {"apply": lambda p, x: plain_apply(p, x - x.mean(0))},
            ValueError,
            "depends on the others of its batch",
        ),
    ],
)
def test_what_is_no_network_is_refused_in_words(options, error, words):
    arguments = {"init": plain_init, "apply": plain_apply, "input_shape": (2,)} | options
    with pytest.raises(error, match=words):
        from_functions(**arguments)


def test_a_readout_without_a_prior_of_mean_zero_is_refused():
    def init(key, bias=1.0, size=1.0):
        w = jax.random.normal(key, (2, 3))
        return {"a": w, "last": {"w": size * jnp.ones((3, 1)), "b": bias * jnp.ones(1)}}

    def apply(p, x):
        return jnp.tanh(x @ p["a"]) @ p["last"]["w"] + p["last"]["b"]

    with pytest.raises(ValueError, match="no random last layer"):
        from_functions(init, apply, (2,))
    with pytest.raises(ValueError, match=r"'last/.' of the readout starts at a value other than 0"):
        from_functions(init, apply, (2,), prior_var={"last": 1.0})


class LinenNorm(nn.Module):
    average: bool

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=self.average)(nn.Dense(3)(x))
        return nn.Dense(1)(nn.Dropout(0.5, deterministic=not train)(nn.relu(x)))


def nnx_batch_norm(rngs):
    return nnx.Sequential(nnx.BatchNorm(2, rngs=rngs), nnx.Linear(2, 1, rngs=rngs))


def nnx_dropout(rngs):
    return nnx.Sequential(nnx.Dropout(0.5, rngs=rngs), nnx.Linear(2, 1, rngs=rngs))


def equinox_dropout(key):
    first, last = jax.random.split(key)
    layers = [eqx.nn.Linear(2, 3, key=first), eqx.nn.Dropout(0.5), eqx.nn.Lambda(jnp.tanh)]
    return eqx.nn.Sequential([*layers, eqx.nn.Linear(3, 1, key=last)])


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        (lambda: from_flax(LinenNorm(False), (2,)), "batch_stats.*LayerNorm or GroupNorm"),
        (
            lambda: from_flax(LinenNorm(True), (2,), call=lambda m, x: m(x, train=True)),
            "randomness, as Dropout",
        ),
        (lambda: from_nnx(nnx_batch_norm, (2,)), r"BatchStat.*eval\(\).*LayerNorm or GroupNorm"),
        (lambda: from_nnx(nnx_dropout, (2,)), r"RngCount.*Dropout.*eval\(\)"),
        (
            lambda: from_equinox(lambda key: eqx.nn.BatchNorm(2, "batch", mode="batch"), (2,)),
            "eqx.nn.State.*LayerNorm or GroupNorm",
        ),
        (lambda: from_equinox(equinox_dropout, (2,)), r"Dropout in training.*inference_mode\("),
    ],
    ids=[
        "linen batch norm",
        "linen dropout",
        "nnx batch norm",
        "nnx dropout",
        "equinox batch norm",
        "equinox dropout",
    ],
)
def test_modules_with_state_or_randomness_are_refused(adapt, words):
    with pytest.raises(ValueError, match=words):
        adapt()


def test_batch_norm_that_uses_its_running_averages_is_an_affine_layer():
    net = from_flax(LinenNorm(True), (2,), prior_var={"*bias": 0, "*scale": 0})
    assert set(net.prior_var()) == {"Dense_0/kernel", "Dense_1/kernel"}


def test_dropout_in_inference_mode_is_the_identity():
    net = from_equinox(lambda key: eqx.nn.inference_mode(equinox_dropout(key)), (2,))
    assert len(net.prior_var()) == 4


def test_errors_of_a_module_without_dropout_stay_its_own():
    with pytest.raises(ZeroDivisionError):
        from_equinox(EquinoxResidual, (2,), call=lambda module, x: 1 / 0)


def test_an_adapted_network_prints_in_one_line():
    words = "<AdaptedNetwork by from_equinox: (2,) -> 1, 6 parameter arrays, readout 'last'>"
    assert repr(equinox_residual()) == words


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        (lambda: from_flax(LinenNorm, (2,)), "instance of flax.linen.Module"),
        (lambda: from_nnx(NnxNormalised(nnx.Rngs(0)), (2,)), "lambda rngs"),
        (lambda: from_equinox(EquinoxResidual(jax.random.key(0)), (2,)), "lambda key"),
    ],
)
def test_modules_and_what_makes_them_are_told_apart(adapt, words):
    with pytest.raises(TypeError, match=words):
        adapt()


# Imports.


def test_neither_flax_nor_equinox_is_imported_before_it_is_used():
    code = (
        "import sys, ntkgp\n"
        "assert not {'flax', 'equinox'} & set(sys.modules)\n"
        "sys.modules['equinox'] = None\n"
        "ntkgp.adapters.from_equinox(lambda key: None, (2,))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: this adapter needs equinox" in run.stderr
    assert "pip install equinox" in run.stderr
