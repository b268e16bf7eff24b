"""Each layer's two faces agree with each other and with brute force."""

from functools import partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkgp
from helpers import (
    ACTIVATIONS,
    ARCHITECTURES_AND_PARAMETERISATIONS,
    architectures,
    as_users_run_it,
    assert_covariance,
    assert_not_covariance,
    dense_jacobian,
    draws,
    flat,
    inputs_for,
)
from ntkgp import LayeredNetwork
from ntkgp.core.arrays import precision
from ntkgp.networks.layers import (
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    Identity,
    Relu,
    Residual,
    Serial,
)
from ntkgp.networks.layers.arcs import arcsin
from ntkgp.networks.layers.windows import pair_window_sum, window_sum

PAIRS = [(1.0, 1.0, 0.3), (0.5, 2.0, -0.8), (3.0, 0.2, 0.1), (2.0, 2.0, 2.0), (1.3, 1.3, -1.3)]


def quadrature(f, var1, var2, cov, n=200):
    """E[f(u) f(v)] by brute force: a product rule in polar coordinates, exact across kinks at 0.

    (u, v) = L r (cos a, sin a), r²/2 ~ Exp(1); the angle is split where u or v changes sign.
    """
    rho = cov / np.sqrt(var1 * var2)
    # v's direction relative to u's: v ∝ cos(a - gamma)
    gamma = np.arccos(np.clip(rho, -1, 1))
    breaks = np.sort(
        np.mod([-np.pi / 2, np.pi / 2, gamma - np.pi / 2, gamma + np.pi / 2], 2 * np.pi)
    )
    breaks = np.concatenate([[0], breaks, [2 * np.pi]])
    nodes, weights = np.polynomial.legendre.leggauss(n)
    radius, radius_weights = np.polynomial.legendre.leggauss(n)
    r = 6 + 6 * radius  # beyond 12 standard deviations nothing is left
    r_weights = 6 * radius_weights * r * np.exp(-(r**2) / 2)
    total = 0.0
    for low, high in pairwise(breaks):
        a = (high + low) / 2 + (high - low) / 2 * nodes
        u = np.sqrt(var1) * r[:, None] * np.cos(a)
        v = np.sqrt(var2) * r[:, None] * np.cos(a - gamma)
        total += (high - low) / 2 * r_weights @ np.asarray(f(u) * f(v)) @ weights
    return total / (2 * np.pi)


@pytest.mark.parametrize("phi", ACTIVATIONS, ids=repr)
@pytest.mark.parametrize(("var1", "var2", "cov"), PAIRS)
def test_duals_equal_numerical_integrals(phi, var1, var2, cov):
    with jax.enable_x64(True):
        value, slope = jax.jit(phi.phi), jax.jit(jax.vmap(jax.vmap(jax.grad(phi.phi))))
        dual = float(phi.dual(*map(jnp.float64, (cov, var1, var2))))
        derivative = float(phi.dual_derivative(*map(jnp.float64, (cov, var1, var2))))
        expected = quadrature(value, var1, var2, cov)
        expected_derivative = quadrature(slope, var1, var2, cov)
    assert dual == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert derivative == pytest.approx(expected_derivative, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("phi", ACTIVATIONS, ids=repr)
def test_duals_are_finite_for_zero_and_for_large_inputs(phi):
    for var in (0.0, 1e-30, 1e15):
        value = jnp.float32(var)
        assert jnp.isfinite(phi.dual(value, value, value))
        assert jnp.isfinite(phi.dual_derivative(value, value, value))


ARCHITECTURES = list(architectures(8))
WIDTH = 96


@pytest.mark.quick("erf-standard")
@pytest.mark.optimised
@pytest.mark.parametrize(("name", "parameterization"), ARCHITECTURES_AND_PARAMETERISATIONS)
def test_random_networks_have_the_nngp_kernel(name, parameterization):
    net = architectures(WIDTH, parameterization)[name]
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    outputs = draws(lambda key: net.apply(net.init(key), x)[:, 0], 2000)
    expected = ntkgp.kernel_matrices(net, np.asarray(x))
    assert_covariance(outputs, expected.nngp)
    assert_not_covariance(outputs, expected.ntk)  # the control


@pytest.mark.quick("erf-standard")
@pytest.mark.optimised
@pytest.mark.parametrize(("name", "parameterization"), ARCHITECTURES_AND_PARAMETERISATIONS)
def test_random_networks_have_the_ntk_on_average(name, parameterization):
    """The mean of the empirical NTK over draws, up to its O(1/width) bias, is Θ."""
    net = architectures(WIDTH, parameterization)[name]
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    empirical = draws(lambda key: net.tangent_gram(net.init(key), x), 400)
    wrong, expected = ntkgp.kernel_matrices(net, np.asarray(x))  # 𝒦 is the control
    std_error = empirical.std(axis=0, ddof=1) / len(empirical) ** 0.5
    bias = 4 / WIDTH * np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(empirical.mean(axis=0) - expected) < 5 * std_error + bias)
    assert not np.all(np.abs(empirical.mean(axis=0) - wrong) < 5 * std_error + bias)


@pytest.mark.slow
@pytest.mark.optimised
def test_empirical_ntk_concentrates_as_width_grows():
    x = jnp.linspace(-1, 1, 4)[:, None]
    spread = []
    for width in (32, 128, 512):
        net = ntkgp.mlp(1, width=width)
        grams = draws(lambda key, net=net: net.tangent_gram(net.init(key), x), 100)
        spread.append(float(np.mean(grams.std(axis=0))))
    assert spread[0] > 1.5 * spread[1] > 2.25 * spread[2]  # the theory says a factor 2 each


@pytest.mark.parametrize("all_pairs", [False, True])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((1, 2), (0, 1))])
def test_window_sums_equal_loops(all_pairs, strides, pads):
    h, w, window = 4, 5, (2, 3)
    shape = (1, 1, h, w, h, w) if all_pairs else (1, 1, h, w)
    cov = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    result = np.asarray(window_sum(jnp.asarray(cov), window, strides, pads))
    out = [
        (size + sum(p) - f) // s + 1
        for size, p, f, s in zip((h, w), pads, window, strides, strict=True)
    ]
    positions = [(i, j) for i in range(out[0]) for j in range(out[1])]

    def at(p, q, d):
        index = [
            c * s + o - pad[0]
            for c, s, o, pad in zip((*p, *q), strides * 2, d * 2, pads * 2, strict=True)
        ]
        inside = all(0 <= i < size for i, size in zip(index, (h, w, h, w), strict=True))
        return cov[0, 0][tuple(index if all_pairs else index[:2])] if inside else 0.0

    offsets = [(a, b) for a in range(window[0]) for b in range(window[1])]
    for p in positions:
        for q in positions if all_pairs else [p]:
            expected = sum(at(p, q, d) for d in offsets)
            assert result[0, 0][p + q if all_pairs else p] == pytest.approx(
                expected, rel=1e-4, abs=1e-5
            )


def test_pair_window_sum_equals_loops():
    cov = np.random.default_rng(0).normal(size=(1, 1, 4, 5, 4, 5)).astype(np.float32)
    result = np.asarray(pair_window_sum(jnp.asarray(cov), (2, 3), (2, 2)))
    assert result.shape == (1, 1, 2, 2, 2, 2)
    for i, j, k, m in np.ndindex(2, 2, 2, 2):
        block = cov[
            0, 0, 2 * i : 2 * i + 2, 2 * j : 2 * j + 3, 2 * k : 2 * k + 2, 2 * m : 2 * m + 3
        ]
        assert result[0, 0, i, j, k, m] == pytest.approx(block.sum(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1)])
def test_convolution_equals_loops(padding, strides):
    scales = {"w_std": 1.2, "b_std": 0.3, "parameterization": "ntk"}
    layer = Conv(3, filter=(2, 3), strides=strides, padding=padding, **scales)
    shape = (5, 4, 2)
    x = np.random.default_rng(0).normal(size=(1, *shape)).astype(np.float32)
    params = layer.init(jax.random.key(0), shape)
    result = np.asarray(layer.apply(params, jnp.asarray(x)))[0]
    assert result.shape == layer.out_shape(shape)
    pads = layer._pads(shape[:2]) if padding == "SAME" else [(0, 0), (0, 0)]
    padded = np.pad(x[0], [*pads, (0, 0)])
    w, b = np.asarray(params.w), np.asarray(params.b)
    for i, j in np.ndindex(result.shape[:2]):
        patch = padded[i * strides[0] : i * strides[0] + 2, j * strides[1] : j * strides[1] + 3]
        expected = 1.2 / np.sqrt(12) * np.einsum("hwi,hwio->o", patch, w) + 0.3 * b
        np.testing.assert_allclose(result[i, j], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_prior_variances_are_those_of_the_draws(name, parameterization):
    net = architectures(16, parameterization)[name]
    leaves = jax.tree.leaves(draws(net.init, 300))
    for leaf, var in zip(leaves, jax.tree.leaves(net.prior_var()), strict=True):
        std_error = var * np.sqrt(2 / leaf.size)
        assert abs(np.mean(leaf**2) - var) < 5 * std_error


def test_all_networks_and_layers_share_one_default_parameterisation():
    made = {
        "mlp": ntkgp.mlp(2, width=3).body.layers[0],
        "mlp's readout": ntkgp.mlp(2, width=3).last,
        "myrtle": ntkgp.myrtle((8, 8, 3), depth=5, channels=2).body.layers[0],
        "myrtle's readout": ntkgp.myrtle((8, 8, 3), depth=5, channels=2).last,
        "Dense": Dense(3),
        "Conv": Conv(3),
    }
    found = {name: layer.parameterization for name, layer in made.items()}
    assert found == dict.fromkeys(made, "standard")


def test_one_number_for_a_window_means_a_square():
    with as_users_run_it():
        of_numpy = AvgPool(np.int64(2))
    pairs = [
        (AvgPool(2), AvgPool((2, 2))),
        (AvgPool(3, 1), AvgPool((3, 3), (1, 1))),
        (Conv(4, 5, 2), Conv(4, (5, 5), (2, 2))),
        (of_numpy, AvgPool((2, 2))),
    ]
    for one, two in pairs:
        assert one == two
        assert hash(one) == hash(two)
        assert repr(one) == repr(two)
        assert one.out_shape((8, 9, 1)) == two.out_shape((8, 9, 1))
    assert AvgPool(2) != AvgPool(3)


@pytest.mark.parametrize("value", [0, -1, 2.0, "2", (2,), (2, 0), (2, 2, 2), [2, 2], None])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("window of AvgPool", lambda value: AvgPool(value)),
        ("filter of Conv", lambda value: Conv(3, value)),
        ("strides of Conv", lambda value: Conv(3, strides=value)),
    ],
)
def test_other_windows_are_refused_in_words(name, make, value):
    with as_users_run_it(), pytest.raises(ValueError, match=f"{name} must be a whole number ≥ 1"):
        make(value)


def test_networks_print_as_the_call_that_makes_them():
    net = LayeredNetwork((4, 4, 1), [Conv(3), Residual([Relu(), Conv(3)]), Flatten()], Dense(2))
    assert eval(repr(net)) == net  # every name in it is imported above


def test_zero_bias_has_no_parameter():
    net = LayeredNetwork((2,), [Dense(4, b_std=0.0), Relu()], Dense(1, b_std=0.0))
    assert all(leaf.ndim == 2 for leaf in jax.tree.leaves(net.init(jax.random.key(0))))
    assert jax.tree.structure(net.init(jax.random.key(0))) == jax.tree.structure(net.prior_var())


def test_the_readout_is_what_the_network_says():
    net = ntkgp.mlp(3, 2, width=7, depth=3)
    shapes = jax.tree.map(jnp.shape, net.init(jax.random.key(0)))
    assert shapes.readout.w == (7, 2)
    last = jax.tree.leaves(net.readout())
    assert sum(last) == 2
    assert last[-2:] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [5, 7, 10])
def test_myrtle_has_its_depth_and_a_kernel(depth):
    net = ntkgp.myrtle((8, 8, 3), 10, depth=depth, channels=4)
    weights = [leaf for leaf in jax.tree.leaves(net.init(jax.random.key(0))) if leaf.ndim > 1]
    assert len(weights) == depth
    x = inputs_for(net, 3)
    assert np.linalg.eigvalsh(ntkgp.ntk(net, x))[0] > 0


REFUSED = {
    "activation on raw inputs": lambda: LayeredNetwork((2,), [Relu()], Dense(1)),
    "activation after activation": lambda: LayeredNetwork(
        (2,), [Dense(3), Relu(), Erf()], Dense(1)
    ),
    "body of a residual that ends in an activation": lambda: LayeredNetwork(
        (2,), [Dense(3), Residual([Dense(3), Relu()])], Dense(1)
    ),
    "activation after flatten": lambda: LayeredNetwork(
        (4, 4, 1), [Conv(3), Flatten(), Erf()], Dense(1)
    ),
    "empty body of a residual": lambda: LayeredNetwork((2,), [Dense(3), Residual([])], Dense(1)),
    "body of a residual without weights": lambda: LayeredNetwork(
        (2,), [Dense(3), Residual([Identity()])], Dense(1)
    ),
    "body of a residual that passes its input on": lambda: LayeredNetwork(
        (2,), [Dense(3), Residual([Residual([Relu(), Dense(3)])])], Dense(1)
    ),
    "branches of different shape": lambda: LayeredNetwork(
        (2,), [Dense(3), Residual([Relu(), Dense(4)])], Dense(1)
    ),
    "dense on images": lambda: LayeredNetwork((4, 4, 1), [Conv(3), Relu()], Dense(1)),
    "conv on vectors": lambda: LayeredNetwork((4,), [Conv(3), Relu(), Flatten()], Dense(1)),
    "filter larger than the image": lambda: LayeredNetwork(
        (2, 2, 1), [Conv(3, padding="VALID"), Relu(), Flatten()], Dense(1)
    ),
    "window larger than the image": lambda: LayeredNetwork(
        (2, 2, 1), [AvgPool((3, 3)), Flatten()], Dense(1)
    ),
    "no width": lambda: Dense(0),
    "no weights": lambda: Dense(3, w_std=0.0),
    "negative bias": lambda: Dense(3, b_std=-0.1),
    "unknown padding": lambda: Conv(3, padding="FULL"),
    "unknown depth": lambda: ntkgp.myrtle(depth=6),
    "two spatial axes missing": lambda: LayeredNetwork((4, 4), [Flatten()], Dense(1)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_kernel_or_no_shape_is_refused_in_words(case):
    with pytest.raises((ValueError, TypeError)) as error:
        REFUSED[case]()
    assert len(str(error.value)) > 30


def test_serial_of_layers_is_hashable_and_equal_by_value():
    one, two = (LayeredNetwork((2,), [Dense(3), Erf()], Dense(1)) for _ in range(2))
    assert hash(one) == hash(two)
    assert one == two
    assert Serial((Identity(),)) != Serial((GlobalAvgPool(),))


@pytest.mark.quick("residual")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tangent_gram_equals_the_jacobian_product(name):
    net = architectures(8, "standard")[name]
    cases = list(product(("all", "body", "readout"), ("prior", "gradient")))
    with jax.enable_x64(True):
        x = jnp.asarray(inputs_for(net, 3))
        params = jax.tree.map(lambda p: p.astype(jnp.float64), net.init(jax.random.key(0)))
        grams = jax.jit(lambda params: [net.tangent_gram(params, x, *case) for case in cases])
        jacobian = np.asarray(dense_jacobian(net.apply, params, x))
        var, last = (flat(v, params) for v in (net.prior_var(), net.readout()))
        keep = {"all": 1.0, "body": 1 - last, "readout": last}
        weight = {"prior": var, "gradient": 1.0}
        for (part, metric), gram in zip(cases, grams(params), strict=True):
            expected = (jacobian * weight[metric] * keep[part]) @ jacobian.T
            np.testing.assert_allclose(gram, expected, rtol=1e-9, atol=1e-9)


def test_tangent_gram_of_several_outputs_orders_inputs_first():
    net = ntkgp.mlp(2, 3, width=8, parameterization="ntk")
    x = jnp.asarray(inputs_for(net, 4), jnp.float32)
    params = net.init(jax.random.key(0))
    jacobian = dense_jacobian(net.apply, params, x)
    np.testing.assert_allclose(
        net.tangent_gram(params, x), jacobian @ jacobian.T, rtol=1e-4, atol=1e-4
    )


def test_both_parameterisations_draw_the_same_function():
    x = jnp.linspace(-2, 2, 5)[:, None]
    nets = [partial(ntkgp.mlp, 1, width=32)(parameterization=p) for p in ("ntk", "standard")]
    first, second = (net.apply(net.init(jax.random.key(3)), x) for net in nets)
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 3e-7), (np.float64, 6e-16)])
def test_arcsin_is_within_its_stated_error(dtype, limit):
    """Against NumPy's, computed with more digits where the machine has them."""
    near_one = 1 - np.logspace(-16, -1, 2000)
    c = np.concatenate([np.linspace(-1, 1, 100_001), near_one, -near_one, np.logspace(-30, -1, 99)])
    c = c.astype(dtype)
    with precision(dtype):
        found = np.asarray(jax.jit(arcsin)(c))
        slope = np.asarray(jax.vmap(jax.grad(arcsin))(c[1:100:7]))
    assert found.dtype == dtype
    expected = np.arcsin(c.astype(np.longdouble))
    assert np.max(np.abs(found - expected)) < limit
    # The error stays in proportion near zero, where a kernel of far points lives.
    assert np.max(np.abs(found / np.where(c, expected, 1) - (c != 0))) < 2 * limit
    np.testing.assert_allclose(slope, 1 / np.sqrt(1 - c[1:100:7].astype(float) ** 2), rtol=1e-3)
