"""Observation noise: one σ given in advance, or a σ(x) that the network learns (Section 3.3)."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from ntkgp.core.arrays import check_number
from ntkgp.core.storage import storable

MIN_VAR = 1e-6
"""Added to every learned variance, so that no point can claim to be free of noise."""


@runtime_checkable
class Noise(Protocol):
    """How targets scatter around the function; a frozen dataclass, so static under `jax.jit`.

    `outputs` are the network's (..., n, heads · c), first the c means; `noise_std` is the σ of `fit`.
    """

    @property
    def heads(self) -> int:
        """Network outputs for each target."""

    @property
    def constant(self) -> bool:
        """Whether σ is one number, given in advance."""

    @property
    def least_squares(self) -> bool:
        """Whether the loss is ½‖y + σε - f̃‖², which Gauss-Newton solves."""

    @property
    def exact_gradient(self) -> bool:
        """Whether the loss's gradient is the derivative of its value, as line searches need."""

    def mean(self, outputs: Array) -> Array:
        """The predicted means, (..., n, c)."""

    def var(self, outputs: Array, noise_std: float | Array) -> Array:
        """The noise variance of each prediction, (..., n, c)."""

    def unit(self, noise_std: float | Array) -> float | Array:
        """The loss is the negative log density times this."""

    def loss(self, y: Array, epsilon: Array, outputs: Array, noise_std: float | Array) -> Array:
        """The loss of each example, (..., n), given the member's own noise ε ~ N(0, 1) (n, c)."""


@storable
@dataclass(frozen=True)
class ConstantNoise:
    """y' = y + σε with one σ for all x; the network's outputs are the mean."""

    heads = 1
    constant = True
    least_squares = True
    exact_gradient = True

    def mean(self, outputs: Float[Array, "*k n c"]) -> Float[Array, "*k n c"]:
        return outputs

    def var(
        self, outputs: Float[Array, "*k n c"], noise_std: float | Array
    ) -> Float[Array, "*k n c"]:
        """σ² at each point."""
        return jnp.full_like(outputs, noise_std) ** 2

    def unit(self, noise_std: float | Array) -> float | Array:
        """σ², so that σ = 0 has a loss too."""
        return noise_std**2

    def loss(
        self, y: Array, epsilon: Array, outputs: Array, noise_std: float | Array
    ) -> Float[Array, "*k n"]:
        """½‖y + σε - f̃(x)‖² of each example."""
        return 0.5 * jnp.sum((y + noise_std * epsilon - outputs) ** 2, axis=-1)


@storable
@dataclass(frozen=True)
class LearnedNoise:
    """y' = y + σ(x)ε, where σ²(x) is the sigmoid of a second output h for each target.

    Args:
        most: None for the paper's sigmoid(h), which is at most 1: targets should be standardised, and
            `noise_std` has no effect. A number above 1 for σ²(x) around σ², the square of `noise_std`:
            σ² where h = 0, and at most so many times σ².
    """

    most: float | None = None

    heads = 2
    constant = False
    least_squares = False
    exact_gradient = False

    def __post_init__(self) -> None:
        if self.most is not None:
            check_number("most of LearnedNoise", self.most, above=1.0)

    def mean(self, outputs: Float[Array, "*k n twice"]) -> Float[Array, "*k n c"]:
        return jnp.split(outputs, 2, axis=-1)[0]

    def var(
        self, outputs: Float[Array, "*k n twice"], noise_std: float | Array
    ) -> Float[Array, "*k n c"]:
        h = jnp.split(outputs, 2, axis=-1)[1]
        if self.most is None:
            return jax.nn.sigmoid(h) + MIN_VAR
        around = self.most * jax.nn.sigmoid(h - math.log(self.most - 1))
        return noise_std**2 * (around + MIN_VAR)

    def unit(self, noise_std: float | Array) -> float | Array:
        return 1.0

    def loss(
        self, y: Array, epsilon: Array, outputs: Array, noise_std: float | Array
    ) -> Float[Array, "*k n"]:
        """(y' - f̃)² / 2σ²(x) + ½ log σ²(x) of each example, summed over targets (Eq. 12).

        That is the value. The gradient is not its derivative: y' = y + σ(x)ε is taken as data,
        the mean is fitted to y' at the current σ(x), and σ(x) to the residuals of y itself.
        The residuals of y' hold σ²(x) already: fitted to them, σ(x) would grow without end.
        Differentiated within y', σ(x) would vanish as soon as the mean interpolates y'.
        """
        mean, var = self.mean(outputs), self.var(outputs, noise_std)
        fixed_mean, fixed_var = jax.lax.stop_gradient((mean, var))
        noisy = y + jnp.sqrt(fixed_var) * epsilon
        for_mean = (noisy - mean) ** 2 / (2 * fixed_var)
        for_var = (y - fixed_mean) ** 2 / (2 * var) + jnp.log(var) / 2
        value = jax.lax.stop_gradient((noisy - mean) ** 2 / (2 * var) + jnp.log(var) / 2)
        slope = for_mean + for_var
        return jnp.sum(value + slope - jax.lax.stop_gradient(slope), axis=-1)
