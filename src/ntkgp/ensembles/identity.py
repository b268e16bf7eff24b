"""What a training run is: everything that decides its result, as a few digests."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from ntkgp.ensembles.plans import Plan
from ntkgp.ensembles.problem import Draw, Problem
from ntkgp.ensembles.trainers.protocol import Trainer

Identity = dict[str, str]
"""Digests by what they are of, in words for an error message."""
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def identity_of(
    problem: Problem,
    rows: Identity,
    draws: Draw,
    seed: int,
    indices: Sequence[int],
    trainers: Sequence[Trainer],
    plan: Plan,
) -> Identity:
    """The identity of a run on these training rows.

    Code that a file cannot hold counts by the program that JAX traces of it.
    """
    held_out = problem.validation
    return {
        **rows,
        "the validation data": "none" if held_out is None else held_out.fingerprint(),
        "the seed, the members or what was drawn for them": digest_of(
            [seed, list(indices), *_numbers((draws.theta, draws.member, draws.noise_key))]
        ),
        "the network, the method or the noise": _digest_of_learner(problem, draws),
        "the trainer": digest_of([_of_trainer(each, problem, draws) for each in trainers]),
        "the plan": digest_of([plan.name, plan.at_once, plan.devices, plan.threads, plan.scans]),
        "the version of ntkgp or JAX": " ".join(map(version, ("ntkgp", "jax", "jaxlib"))),
    }


def digest_of(parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _digest_of_learner(problem: Problem, draws: Draw) -> str:
    learner, draw = problem.learner, _one(problem, draws)
    few = jax.ShapeDtypeStruct((1, *problem.data.x.shape[1:]), problem.data.x.dtype)
    program = _program(
        lambda learner, draw, x: learner.predict(draw.theta, draw.member, x), learner, draw, few
    )
    words = (_ADDRESS.sub("", repr(part)) for part in (learner.method, learner.noise))
    return digest_of([*words, program, _numbers(learner)])


def _of_trainer(trainer: Trainer, problem: Problem, draws: Draw) -> Any:
    """Its program of one step, and its numbers."""

    def first_step(trainer: Trainer, problem: Problem, draw: Draw) -> Any:
        state = trainer.init(problem, draw)
        given = trainer.schedule(problem, draw, jnp.asarray(0))
        return trainer.step(problem, draw, state, jax.tree.map(lambda leaf: leaf[0], given))

    program = _program(first_step, trainer, problem, _one(problem, draws))
    return type(trainer).__name__, program, _numbers(trainer)


def _program(f: Any, *arguments: Any) -> Any:
    """The text of a function's program and its constants; addresses in memory are no part of it."""
    traced = jax.make_jaxpr(f)(*arguments)
    return _ADDRESS.sub("", str(traced)), [_bytes_of(const) for const in _constants(traced)]


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[Any]:
    """Those of the program, and of the programs that it calls."""
    if isinstance(program, ClosedJaxpr):
        yield from program.consts
    for equation in program.eqns:
        for part in jax.tree.leaves(list(equation.params.values())):
            if isinstance(part, (ClosedJaxpr, Jaxpr)):
                yield from _constants(part)


def _one(problem: Problem, draws: Draw) -> Any:
    """The shapes of one member."""
    y = problem.data.y
    own = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), draws)
    return own._replace(epsilon=jax.ShapeDtypeStruct(y.shape, y.dtype))


def _numbers(tree: Any) -> list[str]:
    return [_bytes_of(leaf) for leaf in jax.tree.leaves(tree)]


def _bytes_of(leaf: Any) -> str:
    if isinstance(leaf, (int, float)):
        return repr(float(leaf))
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()
