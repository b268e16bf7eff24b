"""A training problem: the data that members share, and what each member has for itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ntkgp.core.arrays import padded_length
from ntkgp.core.rows import Fingerprint
from ntkgp.core.typing import Params
from ntkgp.ensembles.member import Baselearner, Member, TrainingSet, member_keys
from ntkgp.networks.layered import LayeredNetwork


class Data(NamedTuple):
    """Examples in arrays of a few standard lengths: one compiled program serves many row counts."""

    x: Float[Array, "rows *input"]
    y: Float[Array, "rows c"]
    n: Int[Array, ""]
    """How many rows are examples; the rows after them are padding."""
    weight: Float[Array, " rows"]
    """w_n of each example: it counts as so many. 0 for padding."""

    @classmethod
    def of(
        cls,
        x: NDArray[Any],
        y: NDArray[Any],
        sample_weight: NDArray[Any] | None = None,
        *,
        length: int | None = None,
    ) -> "Data":
        """Rows x and y, filled up with the last, to a length: a network may not be defined at 0.

        >>> data = Data.of(np.ones((67, 2)), np.ones((67, 1)))
        >>> data.x.shape, int(data.n)
        ((80, 2), 67)
        """
        missing = (length or padded_length(len(x))) - len(x)

        def filled(values: NDArray[Any]) -> Array:
            widths = [(0, missing)] + [(0, 0)] * (values.ndim - 1)
            return jnp.asarray(np.pad(values.astype(np.float32, copy=False), widths, "edge"))

        weight = np.ones(len(x)) if sample_weight is None else sample_weight
        padded = np.pad(weight.astype(np.float32), (0, missing))
        return cls(filled(x), filled(y), jnp.asarray(len(x), jnp.int32), jnp.asarray(padded))

    def fingerprint(self) -> str:
        """Of the examples, as they are trained on."""
        digest, n = Fingerprint(), int(self.n)
        digest.add(np.asarray(self.x)[:n], np.asarray(self.y)[:n])
        weight = np.asarray(self.weight)[:n]
        return digest.hexdigest(*[weight.tobytes()] * bool(np.any(weight != 1)))

    @property
    def total(self) -> Float[Array, ""]:
        """Σ w_n."""
        return jnp.sum(self.weight)

    def share(self) -> Float[Array, " rows"]:
        """w_n over their mean: 1 for examples of equal weight, 0 for padding."""
        return self.weight * (self.n / self.total)

    def scaled(self, epsilon: Float[Array, "*k rows c"]) -> Float[Array, "*k rows c"]:
        """ε_n/√w_n: the noise on the target of a row that stands for w_n."""
        return epsilon / jnp.sqrt(jnp.where(self.weight > 0, self.weight, 1))[:, None]


class Problem(NamedTuple):
    """What all members share in training."""

    learner: Baselearner
    data: Data
    validation: Data | None = None
    whole: Float[Array, ""] | None = None
    """N of the loss, where `data` is a window of the training set; else None."""

    @property
    def total(self) -> Float[Array, ""]:
        """The N of the loss."""
        return self.data.total if self.whole is None else self.whole


class Draw(NamedTuple):
    """What a member has for itself before training. Stacked over members, leaves gain an axis."""

    theta: Params
    """Where training starts."""
    member: Member
    epsilon: Float[Array, "*k rows c"]
    batch_key: Array
    augmentation_key: Array
    noise_key: Array
    """Where ε comes from."""
    delta: Float[Array, "*k rows outputs"] | None = None
    """δ on the training inputs, if it is kept."""


def draw_members(
    learner: Baselearner,
    seed: int,
    indices: Sequence[int],
    y: Array,
    nets: Sequence[LayeredNetwork] | None = None,
) -> Draw:
    """The members with these indices, each a function of (seed, index) and its network alone."""
    stacked = None if nets is None else jax.tree.map(lambda *own: jnp.array(own), *nets)
    return _draw_members(learner, np.uint32(seed), np.array(indices, np.uint32), y, stacked)


@jax.jit
def _draw_members(
    learner: Baselearner, seed: Array, indices: Array, y: Array, nets: LayeredNetwork | None
) -> Draw:
    keys = jax.vmap(partial(member_keys, seed))(indices)
    theta, member = jax.vmap(learner.draw)(keys, nets)
    epsilon = jax.vmap(learner.target_noise, in_axes=(0, None))(keys.noise, y)
    return Draw(theta, member, epsilon, keys.batches, keys.augmentation, keys.noise)


def training_set(problem: Problem, draw: Draw, rows: Array | None) -> TrainingSet:
    """What one member learns from: these rows of its data, or all, with δ kept or computed."""
    data = problem.data
    epsilon = data.scaled(draw.epsilon)
    batch = TrainingSet(data.x, data.y, epsilon, draw.delta, data.share())
    if rows is not None:
        batch = jax.tree.map(lambda values: values[rows], batch)
    return batch if draw.delta is not None else with_delta(problem, draw, batch)


def with_delta(problem: Problem, draw: Draw, batch: TrainingSet) -> TrainingSet:
    """The batch with δ at its own inputs, where the method has one."""
    if problem.learner.method.offset is None:
        return batch
    return batch._replace(delta=problem.learner.offset(draw.member, batch.x))
