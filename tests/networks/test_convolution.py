"""The convolution's own derivatives against XLA's and against brute force, in every mode."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ntkgp
from ntkgp.networks.layers import Conv, convolution

CASES = {  # images (n, height, width, in), weights (height, width, in, out), strides, padding
    "same": ((3, 6, 5, 4), (3, 3, 4, 4), (1, 1), "SAME"),
    "valid": ((3, 6, 5, 4), (3, 3, 4, 4), (1, 1), "VALID"),
    "strides": ((3, 7, 6, 4), (3, 3, 4, 2), (2, 2), "SAME"),
    "strides, valid, rows left over": ((3, 8, 7, 4), (3, 2, 4, 5), (2, 3), "VALID"),
    "strides apart": ((3, 7, 6, 8), (3, 3, 8, 1), (1, 2), "SAME"),
    "few channels in": ((3, 6, 5, 1), (3, 3, 1, 8), (1, 1), "SAME"),
    "even filter": ((3, 6, 5, 4), (2, 4, 4, 3), (1, 1), "SAME"),
    "one pixel": ((3, 4, 5, 4), (1, 1, 4, 3), (1, 1), "SAME"),
    "one pixel, strides": ((3, 4, 5, 4), (1, 1, 4, 3), (2, 2), "SAME"),
    "filter larger than the image": ((3, 2, 2, 4), (5, 5, 4, 2), (1, 1), "SAME"),
    "one image": ((1, 4, 4, 4), (3, 3, 4, 4), (1, 1), "SAME"),
}


def arrays(*shapes, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape).astype(dtype)) for shape in shapes]


def both(case):
    """The library's convolution and XLA's, as functions of (x, w), and the shapes of the case."""
    x, w, strides, padding = CASES[case]
    rows, columns = lax.padtype_to_pads(x[1:3], w[:2], strides, padding)
    pads = ((int(rows[0]), int(rows[1])), (int(columns[0]), int(columns[1])))
    own = partial(convolution.convolution, strides=strides, pads=pads)
    return own, partial(convolution.plain_convolution, strides=strides, pads=pads), x, w


def brute_force(x, w, strides, pads):
    """z(n, p, q, o) by loops in NumPy."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    out = [(x.shape[1 + a] - w.shape[a]) // strides[a] + 1 for a in (0, 1)]
    z = np.zeros((len(x), *out, w.shape[3]))
    for p, q in np.ndindex(*out):
        top, left = p * strides[0], q * strides[1]
        patch = x[:, top : top + w.shape[0], left : left + w.shape[1]]
        z[:, p, q] = np.einsum("nhwi,hwio->no", patch, w)
    return z


MODES = {
    "value": lambda f, x, w, dx, dw, g: f(x, w),
    "reverse": lambda f, x, w, dx, dw, g: jax.vjp(f, x, w)[1](g),
    "reverse, weights alone": lambda f, x, w, dx, dw, g: jax.vjp(lambda w: f(x, w), w)[1](g),
    "reverse, images alone": lambda f, x, w, dx, dw, g: jax.vjp(lambda x: f(x, w), x)[1](g),
    "forward": lambda f, x, w, dx, dw, g: jax.jvp(f, (x, w), (dx, dw)),
    "forward, weights alone": lambda f, x, w, dx, dw, g: jax.jvp(lambda w: f(x, w), (w,), (dw,)),
    "forward, images alone": lambda f, x, w, dx, dw, g: jax.jvp(lambda x: f(x, w), (x,), (dx,)),
    "reverse of forward, in the tangents": lambda f, x, w, dx, dw, g: jax.vjp(
        lambda dx, dw: jax.jvp(f, (x, w), (dx, dw))[1], dx, dw
    )[1](g),
    "reverse of forward, in the point": lambda f, x, w, dx, dw, g: jax.vjp(
        lambda x, w: jax.jvp(f, (x, w), (dx, dw))[1], x, w
    )[1](g),
    "forward of reverse": lambda f, x, w, dx, dw, g: jax.jvp(
        lambda x, w: jax.vjp(f, x, w)[1](g), (x, w), (dx, dw)
    ),
    "reverse of reverse": lambda f, x, w, dx, dw, g: jax.vjp(
        lambda x, w: jax.vjp(f, x, w)[1](g), x, w
    )[1]((dx, dw)),
    "members": lambda f, x, w, dx, dw, g: jax.vmap(
        lambda w: jax.vjp(f, x, w)[1](g) + jax.jvp(f, (x, w), (dx, dw))
    )(jnp.stack([w, dw])),
    "members with images of their own": lambda f, x, w, dx, dw, g: jax.vmap(
        lambda x, w: jax.vjp(f, x, w)[1](g)
    )(jnp.stack([x, dx]), jnp.stack([w, dw])),
    "each image's gradient of several outputs": lambda f, x, w, dx, dw, g: jax.vmap(
        jax.vmap(lambda x, g: jax.vjp(lambda w: f(x[None], w)[0], w)[1](g), in_axes=(None, 0))
    )(x, jnp.stack([g, g**2], axis=1)),
    "in a loop": lambda f, x, w, dx, dw, g: lax.map(
        lambda own: jax.vjp(f, x, own)[1](g), jnp.stack([w, dw])
    ),
}


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        pytest.param(case, mode, marks=() if quick else pytest.mark.slow)
        for case in CASES
        for mode in MODES
        for quick in [case == "same" or mode in ("reverse", "forward")]
    ],
)
def test_every_derivative_equals_that_of_xla(case, mode, monkeypatch):
    monkeypatch.setattr(convolution, "_CHUNK_BYTES", 1)  # one image at a time
    own, of_xla, x_shape, w_shape = both(case)
    with jax.enable_x64(True):
        x, w, dx, dw = arrays(x_shape, w_shape, x_shape, w_shape)
        (g,) = arrays(of_xla(x, w).shape, seed=1)
        results = (jax.jit(partial(MODES[mode], f))(x, w, dx, dw, g) for f in (own, of_xla))
        for result, expected in zip(*map(jax.tree.leaves, results), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_values_and_both_gradients_equal_loops(case):
    own, _, x_shape, w_shape = both(case)
    with jax.enable_x64(True):
        x, w, dx, dw = arrays(x_shape, w_shape, x_shape, w_shape)
        z = jax.jit(own)(x, w)
        (g,) = arrays(z.shape, seed=1)
        results = x, w, dx, dw, g, z, *jax.jit(partial(MODES["reverse"], own))(x, w, dx, dw, g)
    x, w, dx, dw, g, z, gradient_x, gradient_w = (np.asarray(array) for array in results)
    loops = partial(brute_force, **own.keywords)
    np.testing.assert_allclose(z, loops(x, w), rtol=1e-10, atol=1e-10)
    # ⟨g, dx * w⟩ = ⟨∂x, dx⟩ and ⟨g, x * dw⟩ = ⟨∂w, dw⟩, in random directions.
    assert np.sum(g * loops(dx, w)) == pytest.approx(np.sum(gradient_x * dx), rel=1e-9)
    assert np.sum(g * loops(x, dw)) == pytest.approx(np.sum(gradient_w * dw), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_chunks_of_images_and_the_rest_make_the_whole(n, monkeypatch):
    image_bytes = 6 * 5 * (3 * 4 + 3 * 4) * 4
    monkeypatch.setattr(convolution, "_CHUNK_BYTES", 3 * image_bytes)  # two at a time
    own, of_xla, (_, *image), w_shape = both("same")
    x, w, g = arrays((n, *image), w_shape, (n, *image), dtype=np.float32)
    gradient, expected = (
        jax.jit(partial(MODES["reverse"], f))(x, w, x, w, g) for f in (own, of_xla)
    )
    np.testing.assert_allclose(gradient[1], expected[1], rtol=1e-4, atol=1e-4)


def test_gradients_of_single_precision_stay_single():
    own, _, x_shape, w_shape = both("same")
    x, w = arrays(x_shape, w_shape, dtype=np.float32)
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.vjp(own, x, w)[1](own(x, w)))
    assert [leaf.dtype for leaf in leaves] == [np.float32, np.float32]


def test_other_devices_keep_the_derivatives_of_xla(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    own, of_xla, x_shape, w_shape = both("same")
    x, w = arrays(x_shape, w_shape, dtype=np.float32)
    programs = [
        str(jax.make_jaxpr(lambda x, w, f=f: jax.vjp(f, x, w)[1](x))(x, w)) for f in (own, of_xla)
    ]
    assert programs[0] == programs[1]


NET = ntkgp.LayeredNetwork(
    (6, 6, 2),
    [Conv(4), ntkgp.layers.Relu(), Conv(3), ntkgp.layers.GlobalAvgPool()],
    ntkgp.layers.Dense(1),
)
IMAGES = jnp.ones((2, 6, 6, 2))


def storages(f, *arguments):
    """Of each convolution in the program of f. A CPU's loops are quick with one of them only."""
    program = str(jax.make_jaxpr(f)(*arguments))
    return re.findall(r"ConvDimensionNumbers\((.*spec=.*)\)", program)


def test_a_training_step_has_convolutions_of_one_storage_only():
    theta = NET.init(jax.random.key(0))
    found = storages(jax.grad(lambda theta: NET.apply(theta, IMAGES).sum()), theta)
    assert len(found) == 3  # two forward, one backward: none for the weights, none for the data
    assert len(set(found)) == 1


def test_delta_has_convolutions_of_one_storage_only():
    thetas = [NET.init(jax.random.key(i)) for i in (0, 1)]
    delta = partial(ntkgp.METHODS["ntkgp-param"].offset, NET, x=IMAGES)
    found = storages(delta, *thetas)
    assert (
        len(found) == 5
    )  # two of the network, and d(x * w) = x * dw in the first, also dx * w then
    assert len(set(found)) == 1

    def product(theta_0, theta_star):
        return jax.jvp(lambda theta: NET.apply(theta, IMAGES), (theta_0,), (theta_star,))[1]

    assert len(set(storages(product, *thetas))) == 2  # the control: with a derivative to transpose
    star = ntkgp.networks.protocol.scale(NET, thetas[1], body=1.0, head=0.0)
    np.testing.assert_allclose(delta(*thetas), product(thetas[0], star), rtol=1e-5)
