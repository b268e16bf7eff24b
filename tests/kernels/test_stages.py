"""Kernels of convolutional networks by a program for each layer: the same numbers, in bounded memory."""

import jax
import numpy as np
import pytest

import ntkgp
from ntkgp.kernels import matrices, stages
from ntkgp.networks.layers import (
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool,
    Relu,
    Residual,
)

CONV = Conv(2, w_std=1.3, b_std=0.2)
NETWORKS = {
    "myrtle": ntkgp.myrtle((4, 4, 3), depth=5, channels=2),
    "flatten": ntkgp.LayeredNetwork((5, 4, 2), [CONV, Relu(), CONV, Erf(), Flatten()], Dense(1)),
    "strides": ntkgp.LayeredNetwork(
        (7, 6, 5),
        [Conv(2, filter=(3, 2), strides=2, padding="VALID"), Relu(), GlobalAvgPool()],
        Dense(1),
    ),
    "dense after pooling": ntkgp.LayeredNetwork(
        (6, 6, 1), [CONV, Relu(), AvgPool(2), Flatten(), Dense(3), Relu()], Dense(1)
    ),
    "overlapping pooling": ntkgp.LayeredNetwork(
        (5, 5, 1), [CONV, Relu(), AvgPool(3, strides=1), CONV, Relu(), GlobalAvgPool()], Dense(2)
    ),
}


def images(net, n, dtype=np.float64):
    return np.random.default_rng(n).normal(size=(n, *net.input_shape)).astype(dtype)


def at_once(net, x1, x2):
    """All layers in one program, as JAX has them."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(net.kernel)(x1, x2))


@pytest.mark.parametrize("name", NETWORKS)
def test_stages_give_the_numbers_of_one_program(name):
    net = NETWORKS[name]
    x1, x2 = images(net, 3), images(net, 4)
    assert stages.has_stages(net)
    one_pair = 2 * matrices._BUFFERS * matrices._SMALLER_STAGES * 8 * net.entries_per_pair()
    found = ntkgp.kernel_matrices(net, x1, x2, block_bytes=4 * one_pair)  # blocks of 2 x 2
    whole = at_once(net, x1, x2)
    np.testing.assert_allclose(found.nngp, whole.nngp, rtol=1e-10)
    np.testing.assert_allclose(found.ntk, whole.ntk, rtol=1e-10)
    own = ntkgp.ntk(net, x2)
    np.testing.assert_allclose(own, at_once(net, x2, x2).ntk, rtol=1e-10)
    np.testing.assert_allclose(np.diag(own), ntkgp.ntk(net, x2, diagonal=True), rtol=1e-12)


def test_the_variances_are_those_of_each_input():
    """The control: with the variances of another input the kernel is another."""
    net = NETWORKS["myrtle"]
    x = images(net, 3)
    with jax.enable_x64(True):
        own = stages.own_kernels(net, "prior", x)
        right = stages.Images(x, tuple(map(np.asarray, own.variances)))
        wrong = right._replace(variances=tuple(v[::-1] for v in right.variances))
        expected = at_once(net, x, x).ntk
        np.testing.assert_allclose(
            stages.pair_kernels(net, "prior", right, right)[1], expected, rtol=1e-10
        )
        off = np.asarray(stages.pair_kernels(net, "prior", wrong, right)[1])
    assert np.abs(off / expected - 1).max() > 0.01


def test_each_input_s_variances_are_computed_once(monkeypatch):
    net, seen, original = NETWORKS["flatten"], [], stages.own_kernels
    monkeypatch.setattr(matrices, "own_kernels", lambda *a: seen.append(len(a[2])) or original(*a))
    x1, x2 = images(net, 6), images(net, 8)
    one_pair = 2 * matrices._BUFFERS * matrices._SMALLER_STAGES * 8 * net.entries_per_pair()
    ntkgp.ntk(net, x1, x2, block_bytes=one_pair)
    assert sum(seen) <= 8 + 8 + 8  # 14 inputs, padded; 48 pairs


def test_other_networks_have_no_stages():
    residual = ntkgp.LayeredNetwork(
        (4, 4, 2), [CONV, Residual([Relu(), CONV]), GlobalAvgPool()], Dense(1)
    )

    class OwnConv(Conv):
        """May have a rule of its own."""

    class OwnRelu(Relu):
        def kernel(self, k, in_shape, metric):
            return super().kernel(k, in_shape, metric)

    conv = ntkgp.LayeredNetwork((4, 4, 2), [OwnConv(2), Relu(), GlobalAvgPool()], Dense(1))
    relu = ntkgp.LayeredNetwork((4, 4, 2), [CONV, OwnRelu(), GlobalAvgPool()], Dense(1))
    assert not any(map(stages.has_stages, (ntkgp.mlp(3), residual, conv, relu)))


@pytest.mark.parametrize("name", ["myrtle", "flatten"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_memory_of_every_stage_is_within_the_budget(name, dtype):
    """XLA's own count of what one layer reads, writes and keeps for a block."""
    net = NETWORKS[name]
    side = matrices.block_side(net, dtype, 10**6, 2**23)
    assert side > 1
    with matrices.precision(dtype):
        x = jax.ShapeDtypeStruct((side, *net.input_shape), dtype)
        nngp = jax.eval_shape(net.input_covariance, x, x)
        pair = (nngp, nngp)
        for layer, shape in stages._layers(net):
            if isinstance(layer, stages.Activation):
                var = jax.ShapeDtypeStruct((side, *nngp.shape[2:4]), dtype)
                ones = [jax.ShapeDtypeStruct((side, 1, *var.shape[1:]), dtype)]
                ones.append(jax.ShapeDtypeStruct((1, side, *var.shape[1:]), dtype))
                compiled = stages._activated.lower(layer, pair, *ones).compile()
                pair = jax.eval_shape(stages._activated, layer, pair, *ones)
            else:
                compiled = stages._through.lower(layer, shape, "prior", pair).compile()
                pair = jax.eval_shape(
                    lambda p, a=(layer, shape): stages._through(*a, "prior", p), pair
                )
            nngp = pair[0]
            memory = compiled.memory_analysis()
            total = (
                memory.temp_size_in_bytes
                + memory.argument_size_in_bytes
                + memory.output_size_in_bytes
            )
            assert total < 2**23 / (2 * matrices._SMALLER_STAGES)
