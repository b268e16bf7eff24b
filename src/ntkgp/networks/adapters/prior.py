"""The prior N(mean, λ) of each parameter leaf: as given, as a standard initialiser has it, or estimated.

Draws of the initialiser tell which leaves are constant, and test every λ that is not estimated.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ntkgp.core.typing import Params, Shape
from ntkgp.networks.adapters.paths import by_path, listed, matching

PriorVar = Mapping[str, float | int] | Callable[[str, Any], float | int | None]
"""Prior variances by pattern; the last pattern that matches counts. Or a function of a leaf's path and
of its shape and dtype; it returns None to leave λ to the initialiser."""

_NUMBERS, _FEWEST_DRAWS, _MOST_DRAWS = 2**22, 16, 1024
# In standard errors:
_LAW_Z = 4.0  # a mean square within this of a law's variance is taken for it,
_GIVEN_Z = 6.0  # a given variance beyond this is not the initialiser's,
_MEAN_Z = 8.0  # a mean beyond this is not 0 (Student's t, 15 degrees of freedom or more).


class PriorEstimated(UserWarning):
    """Some prior variances were estimated from draws of the initialiser."""


class ConstantParameters(UserWarning):
    """Some parameters are the same in every draw of the initialiser, and are held fixed.

    A ReLU network whose biases are all held at 0 is 0 at x = 0, before training and after.
    """


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array of the module's parameters and its prior, N(constant, var) or N(0, var)."""

    path: str
    shape: Shape
    dtype: Any
    constant: NDArray[Any] | None
    """Its value in every draw of the initialiser, if it has one."""
    var: float
    """λ. Where it is 0, the leaf is held at its constant."""
    relative_error: float | None = None
    """Standard error of λ as a fraction of it, where λ is an estimate."""

    @property
    def redrawn(self) -> bool:
        """Whether the initialiser leaves it constant, but `prior_var` gives it a prior."""
        return self.constant is not None and self.var > 0


class Moments(NamedTuple):
    """What independent draws of one leaf show."""

    sample: NDArray[Any]
    """One of the draws."""
    mean_z: float
    """|mean| of all entries, in standard errors."""
    mean_square: float
    numbers: int
    varying: float
    """The fraction of entries that differ between draws."""

    @property
    def relative_error(self) -> float:
        """Standard error of the mean square of Gaussian numbers, as a fraction of it."""
        return (2 / self.numbers) ** 0.5

    def agrees(self, var: float, z: float) -> bool:
        """Whether the mean square is within z standard errors of a variance."""
        return abs(self.mean_square - var) <= z * self.relative_error * var


def leaf_priors(
    shapes: Mapping[str, jax.ShapeDtypeStruct],
    seen: Mapping[str, Moments],
    prior_var: PriorVar | None,
    documented: Mapping[str, float],
) -> list[Leaf]:
    """The prior of every leaf.

    Args:
        shapes: shape and dtype of each leaf by path.
        seen: what draws of the initialiser show of it.
        prior_var: variances that the user gives.
        documented: variances that the module's library documents, taken unless draws disagree.
    """
    given = given_variances(prior_var, shapes)
    if not any(m.varying for m in seen.values()):
        raise ValueError(
            "init gives the same parameters for every key: members would all be one. "
            "Draw them from the key."
        )
    return [
        _leaf(path, shape, seen[path], given.get(path), documented.get(path))
        for path, shape in shapes.items()
    ]


def _leaf(
    path: str,
    shape: jax.ShapeDtypeStruct,
    seen: Moments,
    given: float | None,
    documented: float | None,
) -> Leaf:
    known = (path, shape.shape, shape.dtype)
    if not seen.varying:
        return Leaf(*known, seen.sample, given or 0.0)
    _check_random(path, seen)
    if given is not None:
        if not seen.agrees(given, _GIVEN_Z):
            raise ValueError(
                f"prior_var of {path!r} is {given:.4g}, but draws of init have the mean square "
                f"{seen.mean_square:.4g} ± {seen.relative_error:.1%}: members would start from one "
                "prior and be pulled towards another. Give the variance of the initialiser, or "
                "change the initialiser."
            )
        return Leaf(*known, None, given)
    laws = variance_scaling(shape.shape) if documented is None else (documented,)
    nearest = min(laws, key=lambda var: abs(np.log(var / seen.mean_square)))
    if seen.agrees(nearest, _LAW_Z):
        return Leaf(*known, None, nearest)
    return Leaf(*known, None, seen.mean_square, seen.relative_error)


def _check_random(path: str, seen: Moments) -> None:
    if not np.isfinite(seen.mean_square):
        raise ValueError(f"init gives {path!r} NaN or infinite values.")
    if seen.varying < 0.99:  # not 1: among many float32 draws a few coincide
        raise ValueError(
            f"init draws some entries of {path!r} at random and gives others, a fraction of "
            f"{1 - seen.varying:.2g}, always the same value: no one variance is right for both. "
            "Make them two parameters, or draw them all."
        )
    if seen.mean_z > _MEAN_Z:
        raise ValueError(
            f"init draws {path!r} with a mean that is not 0 ({seen.mean_z:.0f} standard errors "
            "away), but the prior of the methods is N(0, Λ). Draw it about 0 and add the mean "
            "inside the network."
        )


def given_variances(prior_var: PriorVar | None, shapes: Mapping[str, Any]) -> dict[str, float]:
    """λ of the leaves for which the user gives one."""
    given: dict[str, float] = {}
    if callable(prior_var):
        answers = {path: prior_var(path, shape) for path, shape in shapes.items()}
        given = {path: float(var) for path, var in answers.items() if var is not None}
    elif prior_var is not None:
        for pattern, var in prior_var.items():
            given |= dict.fromkeys(matching(pattern, shapes, "prior_var"), float(var))
    for path, var in given.items():
        if not 0 <= var < float("inf"):
            raise ValueError(
                f"prior_var of {path!r} must be a finite number ≥ 0, the variance of a Gaussian "
                f"prior, or 0 for a constant that is held fixed; got {var!r}."
            )
    return given


def variance_scaling(shape: Shape) -> tuple[float, ...]:
    """Variances that common initialisers give a kernel of shape (..., fan in, fan out).

    1 (NTK parameterisation), 1/fan_in (LeCun), 2/fan_in (He), 2/(fan_in + fan_out) (Glorot); the
    fans of a convolution count its window. Where a mean square agrees with one of them, up to the
    sampling error, this takes the place of the estimate.

    >>> variance_scaling((3, 3, 4, 12))
    (1.0, 0.027777777777777776, 0.05555555555555555, 0.013888888888888888)
    """
    if len(shape) < 2:
        return (1.0,)
    size = float(np.prod(shape))
    fan_in, fan_out = size / shape[-1], size / shape[-2]
    return 1.0, 1 / fan_in, 2 / fan_in, 2 / (fan_in + fan_out)


def moments(
    init: Callable[[Array], Params], shapes: Mapping[str, jax.ShapeDtypeStruct]
) -> dict[str, Moments]:
    """Moments of every leaf over 16 to 1,024 draws, fewer for a larger network.

    A loop draws one after another: memory holds two draws, and one draw is compiled.
    """
    total = sum(leaf.size for leaf in shapes.values())
    n_draws = int(np.clip(_NUMBERS // max(1, total), _FEWEST_DRAWS, _MOST_DRAWS))

    def next_draw(previous: Params, key: Array) -> tuple[Params, Params]:
        draw = {path: leaf.astype(jnp.float32) for path, leaf in by_path(init(key)).items()}
        return draw, jax.tree.map(_statistics, draw, previous)

    start = {path: jnp.zeros(leaf.shape, jnp.float32) for path, leaf in shapes.items()}
    keys = jax.random.split(jax.random.key(0), n_draws)
    last, statistics = jax.jit(lambda: jax.lax.scan(next_draw, start, keys))()
    return {path: _moments(np.asarray(last[path]), np.asarray(statistics[path])) for path in shapes}


def _statistics(draw: Array, previous: Array) -> Array:
    """Mean, mean square, and the fraction of entries that differ from the draw before."""
    return jnp.stack([draw.mean(), (draw**2).mean(), (draw != previous).mean()])


def _moments(last: NDArray[Any], statistics: NDArray[Any]) -> Moments:
    means, squares, unlike = statistics.astype(np.float64).T
    error = means.std(ddof=1) / len(means) ** 0.5
    return Moments(
        last,
        mean_z=float(abs(means.mean()) / error) if error else 0.0,
        mean_square=float(squares.mean()),
        numbers=len(means) * last.size,
        varying=float(unlike[1:].max()),  # the first has none before it
    )


def warn_of_priors(leaves: Sequence[Leaf], prior_var: PriorVar | None, stacklevel: int) -> None:
    """Warn of leaves that are held fixed and of λ that are estimates, unless the user chose so."""
    given = given_variances(prior_var, {leaf.path: leaf for leaf in leaves})
    constant = [leaf.path for leaf in leaves if not leaf.var and leaf.path not in given]
    if constant:
        pattern = "*" + constant[0].rpartition("/")[2]
        warnings.warn(
            f"{listed(constant)}: every initialisation gives the same value, which is a prior of "
            "variance 0, so these are held fixed and not trained. To train them, give them a prior "
            f"about that value, as in prior_var={{{pattern!r}: 0.05**2}}; a 0 there holds them "
            "fixed without this warning.",
            ConstantParameters,
            stacklevel=stacklevel + 1,
        )
    estimated = {
        f"{leaf.path}: {leaf.var:.4g} ± {leaf.relative_error:.1%}": leaf
        for leaf in leaves
        if leaf.relative_error is not None
    }
    if estimated:
        warnings.warn(
            f"prior variances estimated from draws of the initialiser: {listed(estimated)}. "
            "Where you know them, pass them as prior_var={path: variance}.",
            PriorEstimated,
            stacklevel=stacklevel + 1,
        )
