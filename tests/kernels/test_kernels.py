"""Kernel matrices: blocks, precision, symmetry, memory; the empirical NTK against a whole Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkgp
from helpers import (
    architectures,
    as_users_run_it,
    dense_jacobian,
    flat,
    inputs_for,
    without_kernel,
)
from ntkgp.kernels import empirical
from ntkgp.kernels import matrices as kernel_module

ARCHITECTURES = architectures(8)


@pytest.mark.quick("conv-pool")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_blocks_equal_the_whole(name):
    net = ARCHITECTURES[name]
    x1, x2 = inputs_for(net, 5), inputs_for(net, 7, seed=1)
    whole = ntkgp.kernel_matrices(net, x1, x2)
    pair = kernel_module._BUFFERS * 8 * net.entries_per_pair()  # bytes of one pair of inputs
    blocked = ntkgp.kernel_matrices(net, x1, x2, block_bytes=4 * pair)
    with jax.enable_x64(True):
        at_once = jax.jit(net.kernel)(jnp.asarray(x1), jnp.asarray(x2))
    for which in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(blocked, which), getattr(whole, which), rtol=1e-13)
        np.testing.assert_allclose(getattr(whole, which), getattr(at_once, which), rtol=1e-13)


@pytest.mark.quick("float64-relu", "float64-conv-pool")
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_symmetric_matrices_are_symmetric_and_their_diagonal_is_exact(name, dtype):
    net = ARCHITECTURES[name]
    x = inputs_for(net, 5).astype(dtype)
    # Between two sets, equal points have an angle of √eps, not 0, in a kernel with an arc cosine.
    tolerance = 2e-5 if dtype == np.float32 else 1e-7
    pair = kernel_module._BUFFERS * np.dtype(dtype).itemsize * net.entries_per_pair()
    matrices = ntkgp.kernel_matrices(net, x, block_bytes=4 * pair)
    diagonals = ntkgp.kernel_matrices(net, x, diagonal=True)
    precise = ntkgp.kernel_matrices(net, x.astype(np.float64), x.astype(np.float64))
    for matrix, diagonal, expected in zip(matrices, diagonals, precise, strict=True):
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_allclose(np.diag(matrix), diagonal, rtol=10 * np.finfo(dtype).eps)
        np.testing.assert_allclose(matrix, expected, rtol=tolerance)


def test_each_kernel_alone_is_that_of_both():
    net = ARCHITECTURES["residual"]
    x1, x2 = inputs_for(net, 5), inputs_for(net, 5, seed=1)
    for which, function in {"nngp": ntkgp.nngp, "ntk": ntkgp.ntk}.items():
        expected = getattr(ntkgp.kernel_matrices(net, x1, x2), which)
        np.testing.assert_allclose(function(net, x1, x2), expected, rtol=1e-13)
        np.testing.assert_array_equal(
            kernel_module.kernel_matrix(net, which, x1, x2), function(net, x1, x2)
        )


def test_each_symmetric_block_is_computed_once(monkeypatch):
    net, calls, original = ntkgp.mlp(3, width=8), [], kernel_module._block
    monkeypatch.setattr(kernel_module, "_block", lambda *a: calls.append(1) or original(*a))
    ntkgp.ntk(
        net, inputs_for(net, 12), block_bytes=2 * kernel_module._BUFFERS * 8 * 16
    )  # blocks of 4 x 4
    assert len(calls) == 6  # 3 on the diagonal, 3 above it


@pytest.mark.slow
def test_no_block_is_larger_than_its_budget(monkeypatch):
    net, shapes, original = ntkgp.myrtle((8, 8, 3), depth=5, channels=2), [], kernel_module._block

    def spy(wanted, x1, x2):
        shapes.append(len(x1.x) * len(x2.x) * wanted.net.entries_per_pair() * 8)
        return original(wanted, x1, x2)

    monkeypatch.setattr(kernel_module, "_block", spy)
    ntkgp.ntk(net, inputs_for(net, 5), block_bytes=2**20)
    assert max(shapes) * kernel_module._BUFFERS <= 2**20


@pytest.mark.quick("float64-erf")
@pytest.mark.parametrize(
    "name",
    ["erf", "residual", "conv-residual"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_memory_is_within_the_budget(name, dtype):
    """XLA's own count of the temporary memory of one block."""
    net = ARCHITECTURES[name]
    side = kernel_module.block_side(net, dtype, 10**6, 2**24)
    wanted = kernel_module.Wanted(net, ("nngp", "ntk"))
    with kernel_module.precision(dtype):
        x = jax.ShapeDtypeStruct((side, *net.input_shape), dtype)
        compiled = kernel_module._block_at_once.lower(wanted, x, x).compile()
    assert side > 1
    assert compiled.memory_analysis().temp_size_in_bytes < 2**24


def test_float64_needs_no_flag_and_changes_none():
    net = ntkgp.mlp(2, width=8)
    x = inputs_for(net, 3)
    before = jax.config.jax_enable_x64
    assert ntkgp.ntk(net, x).dtype == np.float64
    assert ntkgp.ntk(net, x.astype(np.float32)).dtype == np.float32
    assert ntkgp.ntk(net, x, dtype=np.float32).dtype == np.float32
    assert ntkgp.ntk(net, [[1, 2], [3, 4]]).dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.ones(1, float).dtype == jnp.float32


def test_a_second_call_of_about_the_same_shape_compiles_nothing():
    net = ntkgp.mlp(2, width=9)
    ntkgp.ntk(net, inputs_for(net, 66))
    compiled = kernel_module._block_at_once._cache_size()
    ntkgp.ntk(ntkgp.mlp(2, width=9), inputs_for(net, 79, seed=1))
    assert kernel_module._block_at_once._cache_size() == compiled
    ntkgp.ntk(net, inputs_for(net, 81))  # the control: another length
    assert kernel_module._block_at_once._cache_size() == compiled + 1


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([[1.0, np.nan]], "row 0"),
        ([[0.0, 1.0], [np.inf, 1.0]], "row 1"),
        ([[1.0, 2.0, 3.0]], r"\(n, 2\)"),
        ([1.0, 2.0], r"\(n, 2\)"),
        (np.zeros((0, 2)), "no rows"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_bad_inputs_are_refused_in_words(x, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ntkgp.ntk(ntkgp.mlp(2, width=8), x)


@pytest.mark.parametrize(("size", "dtype"), [(1e10, np.float32), (1e80, np.float64)])
def test_kernels_that_overflow_are_refused_in_words(size, dtype):
    net = architectures(8)["relu"]
    with pytest.raises(ValueError, match="Standardise"):
        ntkgp.ntk(net, np.full((2, 3), size), dtype=dtype)


def test_a_second_empirical_ntk_compiles_nothing():
    net = ntkgp.mlp(2, width=5)
    params, x = net.init(jax.random.key(0)), jnp.ones((3, 2))
    ntkgp.empirical_ntk(net, params, x)
    compiled = empirical._jacobian_rows._cache_size()
    ntkgp.empirical_ntk(net, params, x + 1)
    assert empirical._jacobian_rows._cache_size() == compiled


def test_bad_options_are_refused_in_words():
    net, x = ntkgp.mlp(2, width=8), np.ones((1, 2))
    with pytest.raises(ValueError, match="float32"):
        ntkgp.ntk(net, x, dtype=np.int32)
    with pytest.raises(ValueError, match="leave x2 out"):
        ntkgp.ntk(net, x, x, diagonal=True)
    with pytest.raises((ValueError, TypeError), match="metric"):
        ntkgp.ntk(net, x, metric="fisher")


@pytest.mark.quick("nngp", "ntk")
@pytest.mark.parametrize("function", [ntkgp.ntk, ntkgp.nngp, ntkgp.kernel_matrices])
def test_the_exact_kernel_of_other_networks_is_refused_in_words(function):
    net = without_kernel(ntkgp.mlp(2, width=4))
    words = "made of ntkgp's layers.*got AdaptedNetwork.*ntkgp.empirical_ntk"
    with as_users_run_it(), pytest.raises(TypeError, match=words):
        function(net, np.ones((1, 2)))


@pytest.mark.quick("1000", "10")
@pytest.mark.parametrize("budget_rows", [4, 10, 1000])
def test_empirical_ntk_equals_the_jacobian_product(budget_rows):
    net = ntkgp.mlp(2, 3, width=6)
    params = net.init(jax.random.key(0))
    x1, x2 = (inputs_for(net, n, seed=n) for n in (4, 3))
    row_bytes = 4 * sum(leaf.size for leaf in jax.tree.leaves(params))
    j1, j2 = (dense_jacobian(net.apply, params, jnp.asarray(x, jnp.float32)) for x in (x1, x2))
    plain = ntkgp.empirical_ntk(
        net, params, x1, x2, metric="gradient", jacobian_bytes=budget_rows * row_bytes
    )
    np.testing.assert_allclose(plain, j1 @ j2.T, rtol=1e-4, atol=1e-5)
    by_prior = ntkgp.empirical_ntk(net, params, x1, x2)
    expected = (j1 * flat(net.prior_var(), params)) @ j2.T
    np.testing.assert_allclose(by_prior, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(by_prior, plain, rtol=0.1)


@pytest.mark.quick("gradient-readout", "prior-body")
@pytest.mark.parametrize("part", ["all", "body", "readout"])
@pytest.mark.parametrize("metric", ["prior", "gradient"])
def test_empirical_ntk_of_a_part_is_the_tangent_gram_of_that_part(part, metric):
    net = architectures(8, "standard")["conv-pool"]
    params = net.init(jax.random.key(0))
    x = jnp.asarray(inputs_for(net, 3), jnp.float32)
    found = ntkgp.empirical_ntk(net, params, x, part=part, metric=metric)
    expected = net.tangent_gram(params, x, part, metric)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_empirical_ntk_takes_any_network():
    native = ntkgp.mlp(2, width=5)
    net = without_kernel(native)
    x = inputs_for(net, 3)
    found = ntkgp.empirical_ntk(net, net.init(jax.random.key(0)), x)
    expected = ntkgp.empirical_ntk(native, native.init(jax.random.key(0)), x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_function_ntk_takes_any_function_of_parameters():
    x = jnp.array([[1.0, 2.0], [3.0, 4.0]])

    def f(w, x):
        return x @ w["a"] + w["b"]

    w = {"a": jnp.ones((2, 1)), "b": jnp.ones(1)}
    np.testing.assert_allclose(empirical.function_ntk(f, w, x), x @ x.T + 1)
    weighted = empirical.function_ntk(f, w, x, x[:1], weights={"a": 2.0, "b": 0.5})
    np.testing.assert_allclose(weighted, 2 * x @ x[:1].T + 0.5)


@pytest.mark.parametrize(
    ("net", "options", "words"),
    [
        (None, {"part": "head"}, 'part must be "all", "body" or "readout"'),
        (None, {"metric": "fisher"}, 'metric must be "prior" or "gradient"'),
        (None, {"jacobian_bytes": 10}, "four rows"),
        (None, {"x1": [[1.0, 2.0, 3.0]]}, r"x1 must have shape \(n, 2\)"),
        (lambda params, x: x, {}, "takes a Network; got function.*function_ntk"),
    ],
)
def test_what_has_no_empirical_ntk_is_refused_in_words(net, options, words):
    own = ntkgp.mlp(2, width=8)
    arguments = {"params": own.init(jax.random.key(0)), "x1": np.ones((2, 2))} | options
    with as_users_run_it(), pytest.raises((ValueError, TypeError), match=words):
        ntkgp.empirical_ntk(net or own, **arguments)
