"""One baselearner: how it is drawn, what it predicts, what it minimises (Algorithms 1 to 3)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from ntkgp.core.storage import fields_of, storable
from ntkgp.core.typing import Params
from ntkgp.ensembles.methods import Method
from ntkgp.ensembles.noise import ConstantNoise, LearnedNoise, Noise
from ntkgp.networks.given import for_file
from ntkgp.networks.layered import LayeredNetwork
from ntkgp.networks.protocol import Network, squared_norm


class MemberKeys(NamedTuple):
    """Independent randomness of one member, one key for one use."""

    init: Array
    tilde: Array
    noise: Array
    batches: Array
    augmentation: Array


def member_keys(seed: int | Array, index: int | Array) -> MemberKeys:
    """The keys of a member: a function of (seed, index) and nothing else."""
    return MemberKeys(*jax.random.split(jax.random.fold_in(jax.random.key(seed), index), 5))


class Member(NamedTuple):
    """A member's fixed draws; None for one that its method does not use."""

    theta_0: Params | None
    theta_tilde: Params | None
    net: LayeredNetwork | None = None
    """The network with scales of its own, where members differ in their prior."""


class TrainingSet(NamedTuple):
    """What one member learns from: the data, its own noise, and δ on the inputs."""

    x: Float[Array, "n *input"]
    y: Float[Array, "n c"]
    epsilon: Float[Array, "n c"]
    """ε of y' = y + σε, drawn once for the member; 0 where the method trains on y itself."""
    delta: Float[Array, "n outputs"] | None
    """None for methods without."""
    weight: Float[Array, " n"]
    """Of an example, 1 on average; 0 for a row that only fills up the array."""


@storable
@dataclass(frozen=True)
class Baselearner:
    """A network trained by a method, with observation noise of standard deviation noise_std.

    Under `jax.jit` its numbers are traced, also those of a network made of layers, and the rest is
    static: another noise_std or w_std compiles nothing.
    """

    net: Network
    method: Method
    noise_std: float | Array
    """σ; what it means if the network learns it is the noise model's to say."""
    weight_decay: float | Array = 0.0
    """½ · weight_decay · ‖θ‖² added to the loss, for deep ensembles only."""
    noise: Noise = field(default_factory=ConstantNoise)

    def __to_store__(self) -> dict[str, Any]:
        return fields_of(self) | {"net": for_file(self.net)}

    @property
    def target_dim(self) -> int:
        """Number of targets c; the network has `noise.heads` outputs for each."""
        return self.net.output_dim // self.noise.heads

    def check(self) -> "Baselearner":
        """Itself, or an error about numbers that its method cannot work with."""
        if not 0 <= self.noise_std < float("inf"):
            raise ValueError(f"noise_std must be a finite number ≥ 0; got {self.noise_std!r}.")
        if self.method.anchor == "zero" and self.noise_std == 0:
            raise ValueError(
                "noise_std must be > 0 for methods that regularise towards zero (rp-fn, ntkgp-fn): "
                "without noise there is no regulariser, and their start is no draw from the prior. "
                "Use rp-param or ntkgp-param for noise-free data, or a small value such as 1e-3."
            )
        if isinstance(self.noise, LearnedNoise) and self.noise.most and self.noise_std == 0:
            raise ValueError(
                f"noise_std must be > 0 for {self.noise!r}, which learns σ(x) around it."
            )
        if self.weight_decay < 0 or (self.weight_decay and not self.method.takes_weight_decay):
            raise ValueError(
                "weight_decay must be ≥ 0, and 0 for methods with a regulariser of their own (all "
                f"but deep-ensemble); got {self.weight_decay!r}."
            )
        if self.net.output_dim % self.noise.heads:
            raise ValueError(
                f"{self.noise!r} needs {self.noise.heads} outputs of the network for each target, the "
                f"means first; this network has {self.net.output_dim}."
            )
        return self

    def net_of(self, member: Member) -> Network:
        """The network of a member: its own, or that of all."""
        return self.net if member.net is None else member.net

    def draw(self, keys: MemberKeys, own: LayeredNetwork | None = None) -> tuple[Params, Member]:
        """θ₀ ~ init(·), where training starts, and the member's fixed draws."""
        net = self.net if own is None else own
        if self.method.needs_tilde:  # both in one call, which halves the program
            both = jax.vmap(net.init)(jnp.stack([keys.init, keys.tilde]))
            theta_0, theta_tilde = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in (0, 1))
        else:
            theta_0, theta_tilde = net.init(keys.init), None
        keep_init = self.method.anchor == "init" or self.method.needs_init
        return theta_0, Member(theta_0 if keep_init else None, theta_tilde, own)

    def target_noise(self, key: Array, y: Array) -> Array:
        """ε of y' = y + σε, drawn once for this member; 0 where the method trains on y itself."""
        if self.method.anchor is None:
            return jnp.zeros_like(y)
        return jax.random.normal(key, y.shape, y.dtype)

    @jax.jit
    def offset(self, member: Member, x: Array) -> Array:
        """δ(x), the untrainable part of f̃ (Eq. 10): on the means only, not on a learned variance."""
        if self.method.offset is None:
            return jnp.zeros((len(x), self.net.output_dim), x.dtype)
        theta_0 = member.theta_0 if self.method.needs_init else None
        delta = self.method.offset(self.net_of(member), theta_0, member.theta_tilde, x)
        is_mean = jnp.arange(self.net.output_dim) < self.target_dim
        return jnp.where(is_mean, delta, 0)

    def model(self, theta: Params, member: Member, x: Array) -> Array:
        """The trainable part: f(x, θ), or ∇f(x, θ̃) θ for NTKGP-Lin."""
        net = self.net_of(member)
        if self.method.model == "network":
            return net.apply(theta, x)
        _, tangent = jax.jvp(lambda t: net.apply(t, x), (member.theta_tilde,), (theta,))
        return tangent

    def predict(self, theta: Params, member: Member, x: Array) -> Array:
        """f̃(x, θ) = model(x, θ) + δ(x) (Eq. 9)."""
        return self.model(theta, member, x) + self.offset(member, x)

    def penalty(self, theta: Params, member: Member) -> Array:
        """½‖θ - θ₀‖²_Λ, ½‖θ‖²_Λ, or 0 (Appendix D)."""
        return 0.5 * squared_norm(self.net_of(member), self.displacement(theta, member))

    def displacement(self, theta: Params, member: Member) -> Params:
        """θ less what the regulariser pulls it towards; 0 where there is none."""
        if self.method.anchor is None:
            return jax.tree.map(jnp.zeros_like, theta)
        if self.method.anchor == "zero":
            return theta
        return jax.tree.map(jnp.subtract, theta, member.theta_0)

    def trainable(self, theta: Params) -> Params:
        """θ with no gradient for the parameters that the method leaves alone."""
        if self.method.trains == "all":
            return theta
        return jax.tree.map(
            lambda leaf, last: leaf if last else jax.lax.stop_gradient(leaf),
            theta,
            self.net.readout(),
        )

    def loss(
        self, theta: Params, member: Member, batch: TrainingSet, n_total: int | Array
    ) -> Array:
        """mean_n of the noise model's loss + unit/N · penalty; unit is σ², or 1 for learned noise.

        For constant noise that is ½ mean_n ‖y'_n - f̃(x_n, θ)‖² + σ²/N · penalty, which is σ²/N times
        the objective Σ_n ‖y'_n - f̃‖²/2σ² + penalty of Algorithms 1 to 3. A mini-batch gives an
        unbiased estimate. The factor makes learning rates comparable across N and σ, and leaves
        the noise-free loss at σ = 0. For learned noise it is 1/N times the objective with Eq. 12.
        """
        theta = self.trainable(theta)
        return self.data_loss(theta, member, batch) + self.regulariser(theta, member, n_total)

    def regulariser(self, theta: Params, member: Member, n_total: int | Array) -> Array:
        """unit/N · penalty, or the weight decay of methods that have none."""
        if self.method.anchor is None:
            squares = jax.tree.map(lambda v: jnp.sum(v**2), theta)
            return 0.5 * self.weight_decay * jax.tree.reduce(jnp.add, squares)
        return self.noise.unit(self.noise_std) / n_total * self.penalty(theta, member)

    def data_loss(self, theta: Params, member: Member, batch: TrainingSet) -> Array:
        """The loss without regulariser, a mean over the batch."""
        outputs = self.model(theta, member, batch.x)
        if batch.delta is not None:
            outputs = outputs + batch.delta
        losses = self.noise.loss(batch.y, batch.epsilon, outputs, self.noise_std)
        return jnp.sum(batch.weight * losses) / jnp.sum(batch.weight > 0)


def _flatten(learner: Baselearner) -> tuple[Any, Any]:
    """Its numbers, and what is static: also a network that is no pytree of numbers."""
    traced = isinstance(learner.net, LayeredNetwork)
    numbers = (learner.net if traced else None, learner.noise_std, learner.weight_decay)
    return numbers, (None if traced else learner.net, learner.method, learner.noise)


def _unflatten(static: Any, numbers: Any) -> Baselearner:
    (net, noise_std, weight_decay), (other_net, method, noise) = numbers, static
    return Baselearner(other_net or net, method, noise_std, weight_decay, noise)


jax.tree_util.register_pytree_node(Baselearner, _flatten, _unflatten)
