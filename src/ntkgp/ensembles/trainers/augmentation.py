"""Random changes to images that keep their class, drawn again in every step."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


@dataclass(frozen=True)
class RandomCropsAndFlips:
    """Each image moved by up to `pad` pixels either way, and mirrored left to right half the time.

    For `Descent(augment=...)`.

    Args:
        pad: pixels added around before a crop of the old size.
        fill: their value; if images were standardised, the value that black became.

    >>> x = jnp.arange(2 * 4 * 4 * 3.0).reshape(2, 4, 4, 3)
    >>> RandomCropsAndFlips(pad=1)(jax.random.key(0), x).shape
    (2, 4, 4, 3)
    """

    pad: int = 4
    fill: float = 0.0

    def __call__(self, key: Array, x: Float[Array, "n h w c"]) -> Float[Array, "n h w c"]:
        places, sides = jax.random.split(key)
        corners = jax.random.randint(places, (len(x), 2), 0, 2 * self.pad + 1)
        mirrored = jax.random.bernoulli(sides, shape=(len(x),))
        padding = [(0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0)]
        padded = jnp.pad(x, padding, constant_values=self.fill)

        def crop(image: Array, corner: Array) -> Array:
            return jax.lax.dynamic_slice(image, (*corner, 0), x.shape[1:])

        crops = jax.vmap(crop)(padded, corners)
        return jnp.where(mirrored[:, None, None, None], crops[:, :, ::-1], crops)
