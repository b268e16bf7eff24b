"""The convolution as a function of images and weights, with derivatives that a CPU does quickly.

XLA computes the weights' gradient as a convolution whose filter is the whole image. On a CPU that is
several times slower than the forward pass. Inside XLA's loops only one storage is quick, images as
(n, height, width, channels) and weights as (height, width, in, out); others are many times slower.
So the derivative is stated here,

    d(x * w) = dx * w + x * dw,

and each term is written so that its transpose is quick, which is all that reverse mode runs. The
first becomes a convolution in that storage, the second a product of matrices. All operations are
JAX's own and transposable: every mode of differentiation, `vmap` and `jit` work as usual. Forward mode
alone, which transposes nothing, is quick by XLA's own derivative: `by_forward_mode` asks for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from ntkgp.networks.layers.windows import Pair

Pads = tuple[Pair, Pair]

_CHUNK_BYTES = 2**22
"""Size of the copies of images made at once: they should stay in the processor's cache."""

_transposes: ContextVar[bool] = ContextVar("transposes", default=True)


@contextmanager
def by_forward_mode() -> Iterator[None]:
    """Within it Jacobian-vector products are quick also inside XLA's loops, and gradients slow on a CPU.

    >>> x, w = jnp.ones((1, 4, 4, 1)), jnp.ones((3, 3, 1, 1))
    >>> with by_forward_mode():
    ...     _, dz = jax.jvp(lambda w: convolution(x, w, (1, 1), ((1, 1), (1, 1))), (w,), (w,))
    >>> float(dz.max())
    9.0
    """
    token = _transposes.set(False)
    try:
        yield
    finally:
        _transposes.reset(token)


def convolution(x: Array, w: Array, strides: Pair, pads: Pads) -> Array:
    """x * w of images x (n, height, width, in) and weights w (height, width, in, out).

    >>> x, w = jnp.ones((5, 8, 8, 3)), jnp.ones((3, 3, 3, 16))
    >>> convolution(x, w, strides=(2, 2), pads=((1, 1), (1, 1))).shape
    (5, 4, 4, 16)
    """
    if jax.default_backend() == "cpu" and _transposes.get():
        return _with_own_derivative(x, w, strides, pads)
    return plain_convolution(x, w, strides, pads)


def plain_convolution(x: Array, w: Array, strides: Pair, pads: Pads) -> Array:
    """x * w as XLA has it, derivatives included."""
    return lax.conv_general_dilated(x, w, strides, pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))


_with_own_derivative = jax.custom_jvp(plain_convolution, nondiff_argnums=(2, 3))


@partial(_with_own_derivative.defjvp, symbolic_zeros=True)
def _derivative(
    strides: Pair,
    pads: Pads,
    primals: tuple[Array, Array],
    tangents: tuple[Array | SymbolicZero, Array | SymbolicZero],
) -> tuple[Array, Array]:
    (x, w), (dx, dw) = primals, tangents
    z = _with_own_derivative(x, w, strides, pads)
    dz = jnp.zeros_like(z)
    if not isinstance(dx, SymbolicZero):  # zero for the first layer's inputs, the data
        dz = dz + _linear_in_images(dx, w, strides, pads)
    if not isinstance(dw, SymbolicZero):
        dz = dz + _linear_in_weights(x, dw, strides, pads)
    return z, dz


def _linear_in_images(dx: Array, w: Array, strides: Pair, pads: Pads) -> Array:
    """dx * w. Its transpose swaps in and out, and finds them stored as (height, width, in, out)."""
    return lax.conv_general_dilated(
        dx, w.transpose(0, 1, 3, 2), strides, pads, dimension_numbers=("NHWC", "HWOI", "NHWC")
    )


def _linear_in_weights(x: Array, dw: Array, strides: Pair, pads: Pads) -> Array:
    """x * dw by matrix products with shifted copies of x, a few images at a time."""
    fh, fw, c_in, c_out = dw.shape
    # Numbers copied for each output position: images only, or images and output gradients.
    by_patches, by_columns = fh * fw * c_in, strides[0] * (fw * c_in + fh * c_out)
    product = _patches_product if by_patches <= by_columns else _columns_product

    # Reverse mode keeps x and copies again: all copies together are many times larger.
    @partial(jax.checkpoint, prevent_cse=False)
    def on_chunk(images: Array, dw: Array) -> Array:
        return product(jnp.pad(images, ((0, 0), *pads, (0, 0))), dw, strides)

    positions = x.shape[1] * x.shape[2] // (strides[0] * strides[1])
    image_bytes = min(by_patches, by_columns) * max(positions, 1) * x.dtype.itemsize

    def by_products(w: Array) -> Array:
        return _in_chunks(lambda images: on_chunk(images, w), x, _CHUNK_BYTES // image_bytes)

    # As a derivative: so JAX knows that the loop over chunks is linear, and can transpose it.
    return jax.jvp(by_products, (jnp.zeros_like(dw),), (dw,))[1]


def _patches_product(x: Array, w: Array, strides: Pair) -> Array:
    """x * w without padding, each output position's patch of x in one row of a matrix."""
    rows, columns = (_starts(x.shape[1 + a], w.shape[a], strides[a]) for a in (0, 1))
    patches = jnp.concatenate([x[:, row, column] for row in rows for column in columns], axis=3)
    return _last_axis_product(patches, w.reshape(-1, w.shape[-1]))


def _columns_product(x: Array, w: Array, strides: Pair) -> Array:
    """x * w without padding, as a sum over the filter's rows of shifted products:

    z(p, q) = Σ_i y_i(p + i, q),   y_i(p, q) = Σ_j x(p, q + j) w(i, j),   all y_i in one product.
    """
    fh, fw, c_in, c_out = w.shape
    rows, columns = (_starts(x.shape[1 + a], w.shape[a], strides[a]) for a in (0, 1))
    shifted = jnp.concatenate([x[:, :, column] for column in columns], axis=3)
    weights = w.transpose(1, 2, 0, 3).reshape(fw * c_in, fh * c_out)
    y = lax.split(_last_axis_product(shifted, weights), (c_out,) * fh, axis=3)
    return sum((y_i[:, row] for y_i, row in zip(y[1:], rows[1:], strict=True)), y[0][:, rows[0]])


def _starts(size: int, window: int, stride: int) -> list[slice]:
    """For each offset in the window, the positions that it takes as the window moves."""
    last = (size - window) // stride * stride
    return [slice(offset, offset + last + 1, stride) for offset in range(window)]


def _last_axis_product(x: Array, matrix: Array) -> Array:
    """x @ matrix as one product of two matrices, which is quicker than one with more axes."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], -1)


def _in_chunks(f: Callable[[Array], Array], x: Array, at_once: int) -> Array:
    """f(x) for an f of each example alone, on the largest power of two examples ≤ at_once."""
    size = 1 << max(at_once, 1).bit_length() - 1
    if len(x) <= size:
        return f(x)
    whole = len(x) // size * size
    chunks = lax.map(f, x[:whole].reshape(-1, size, *x.shape[1:]))
    results = chunks.reshape(whole, *chunks.shape[2:])
    return results if whole == len(x) else jnp.concatenate([results, f(x[whole:])])
