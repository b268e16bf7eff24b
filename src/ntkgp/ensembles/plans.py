"""How members run on the available devices. One place decides, says why, and can be overruled.

Results do not depend on the plan, up to rounding.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ntkgp.core.threads import cores
from ntkgp.networks.layers.convolution import plain_convolution
from ntkgp.networks.protocol import Network

_SPREAD = PartitionSpec("members")
PLANS = ("auto", "together", "threads", "sharded", "unrolled", "one by one")
_SOLVERS = (
    "cholesky|eig|eigh|geqp3|geqrf|hessenberg|householder_product|lu|ormqr|qr|schur|svd|triangular_solve|"
    "tridiagonal|tridiagonal_solve"
)
"""Of JAX, which calls LAPACK for them. Two programs that do so for batches may wait for ever."""


@dataclass(frozen=True)
class Plan:
    """One way to run members."""

    name: str
    at_once: int
    """Members that train at the same time; the others follow in groups of this size."""
    reason: str = field(compare=False)
    devices: int = 1
    """How many devices share the members of one program."""
    threads: int = 1
    """How many programs train a group at the same time, each its share of the members."""
    scans: bool = True
    """Whether the loop over steps is inside the program, or in Python."""

    @property
    def filled(self) -> int:
        """Members of a group, with those that fill it up."""
        sharing = self.devices * self.threads
        return -(-self.at_once // sharing) * sharing

    def groups(self, stacked: Any) -> list[Any]:
        """Cut stacked members into groups; sharded groups are filled up by repetition."""
        k = _count(stacked)
        filled_up = -(-self.at_once // self.devices) * self.devices
        if k <= filled_up and k % self.devices == 0:
            return [self.spread(stacked)]
        rows = [range(start, min(start + self.at_once, k)) for start in range(0, k, self.at_once)]
        filled = [np.array([*r, *[r[-1]] * (-len(r) % self.devices)]) for r in rows]
        return [self.spread(jax.tree.map(lambda leaf, r=r: leaf[r], stacked)) for r in filled]

    def spread(self, stacked: Any) -> Any:
        """The members of a group, on the devices that they run on.

        Programs return arrays there, and would be compiled again for arguments elsewhere.
        """
        if self.devices == 1:
            return stacked
        return jax.device_put(stacked, NamedSharding(self._mesh(), _SPREAD))

    def join(self, groups: list[Any], k: int) -> Any:
        """The k members again: undoes `groups`."""
        if len(groups) == 1 and _count(groups[0]) == k:
            return groups[0]

        def whole(*parts: Array) -> Array:
            sized = zip(parts, self.sizes(k), strict=True)
            return jnp.concatenate([part[:size] for part, size in sized])

        return jax.tree.map(whole, *groups)

    def sizes(self, k: int) -> list[int]:
        """How many of k members are in each group, without those that fill it up."""
        return [min(self.at_once, k - start) for start in range(0, k, self.at_once)]

    def shares(self, group: Any) -> list[Any]:
        """What each thread has of a group, all of one size: the last is filled up by repetition."""
        return [group] if self.threads == 1 else _cut(group, self.threads)

    def whole(self, shares: Sequence[Any], k: int) -> Any:
        """The group of k members again: undoes `shares`."""
        return shares[0] if len(shares) == 1 else _concatenated(tuple(shares), k)

    def over_group(self, f: Callable[[Any, Any], Any], stacked: Any, shared: Any) -> Any:
        """f(own, shared) of every member of one group, within a program."""
        if self.name in ("unrolled", "one by one"):
            return _stack([f(own, shared) for own in _unstack(stacked)])
        together = jax.vmap(f, in_axes=(0, None))
        if self.devices == 1:
            return together(stacked, shared)
        return jax.shard_map(
            together,
            mesh=self._mesh(),
            in_specs=(_SPREAD, PartitionSpec()),
            out_specs=_SPREAD,
            check_vma=False,
        )(stacked, shared)

    def over_members(self, f: Callable[[Any, Any], Any], stacked: Any, shared: Any) -> Any:
        """f(own, shared) of all members, group by group, compiled.

        f must be defined at module level, so that its program is found again.
        """
        plan = replace(self, at_once=1, threads=1) if self.name == "one by one" else self
        groups = plan.groups(stacked)
        return plan.join([_run_group(f, plan, group, shared) for group in groups], _count(stacked))

    def _mesh(self) -> Mesh:
        return Mesh(np.array(jax.local_devices()[: self.devices]), ("members",))

    def __str__(self) -> str:
        devices = "" if self.devices == 1 else f" on {self.devices} devices"
        threads = "" if self.threads == 1 else f" on {self.threads} cores"
        return f"{self.at_once} at once, {self.name}{devices}{threads}: {self.reason}"


@partial(jax.jit, static_argnums=(0, 1))
def _run_group(f: Callable[[Any, Any], Any], plan: Plan, group: Any, shared: Any) -> Any:
    return plan.over_group(f, group, shared)


def choose_plan(
    net: Network, n_members: int, name: str = "auto", at_once: int | None = None
) -> Plan:
    """The plan of that name, or for "auto" the one that suits the network and the devices.

    >>> print(choose_plan(ntkgp.mlp(2), 1))
    1 at once, together: one program of batched matrix products
    """
    if name not in PLANS:
        raise ValueError(f"plan must be one of {', '.join(PLANS)}; got {name!r}.")
    if at_once is not None and not (isinstance(at_once, (int, np.integer)) and at_once >= 1):
        raise ValueError(f"members_at_once must be None or a number ≥ 1; got {at_once!r}.")
    if name in ("threads", "sharded") and _may_hang(net):  # type: ignore[arg-type]
        raise ValueError(
            f'plan="{name}" runs several programs at the same time. This network solves equations, and '
            'such programs may wait for each other for ever on a processor: take plan="together".'
        )
    reason = "as asked for"
    group = min(n_members, at_once or n_members)
    if name == "auto":
        name, reason = _suited(net, group)
    devices = min(jax.local_device_count(), group) if name == "sharded" else 1
    threads = min(cores(), group) if name == "threads" or _one_for_each_core(name, net) else 1
    group = threads if name == "one by one" else group
    if at_once is not None:
        group -= group % devices  # a group that is filled up would be larger than allowed
    return Plan(name, int(group), reason, devices, threads, loops_well(net))  # type: ignore[arg-type]


def _one_for_each_core(name: str, net: Network) -> bool:
    """Whether one by one means one on each core: two programs use two cores better than one does."""
    return name == "one by one" and jax.default_backend() == "cpu" and not _may_hang(net)  # type: ignore[arg-type]


def _suited(net: Network, at_once: int) -> tuple[str, str]:
    if not batches_well(net):  # type: ignore[arg-type]
        return "one by one", "convolutions on the CPU are slow when batched"
    n_devices = jax.local_device_count()
    if _may_hang(net):  # type: ignore[arg-type]
        return "together", "programs that solve equations do not run at the same time"
    if n_devices > 1 and at_once > 1:
        return "sharded", f"there are {n_devices} devices"
    if jax.default_backend() == "cpu" and min(cores(), at_once) > 1:
        return "threads", "one program for each core, of batched matrix products"
    return "together", "one program of batched matrix products"


@lru_cache
def batches_well(net: Network) -> bool:
    """Whether members in one `jax.vmap` are no slower than one after another.

    On the CPU XLA has fast convolutions for one set of weights only.
    """
    return jax.default_backend() != "cpu" or "conv_general_dilated" not in _program(net)  # type: ignore[arg-type]


@lru_cache
def loops_well(net: Network) -> bool:
    """Whether steps within a loop of XLA are no slower than in one of Python.

    On the CPU the gradients of a plain convolution are slow there; those of `layers.convolution`,
    which has a derivative of its own, are not.
    """
    program = _program(net)  # type: ignore[arg-type]
    all_of_them, own = (
        program.count(name)
        for name in ("conv_general_dilated[", f"name={plain_convolution.__name__}")
    )
    return jax.default_backend() != "cpu" or all_of_them == own


@lru_cache
def _may_hang(net: Network) -> bool:
    """Whether the network itself solves equations or decomposes matrices, on a processor."""
    solves = re.search(rf"= ({_SOLVERS})\b", _program(net))  # type: ignore[arg-type]
    return jax.default_backend() == "cpu" and solves is not None


@lru_cache
def _program(net: Network) -> str:
    params = jax.eval_shape(net.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct((1, *net.input_shape), jnp.float32)
    return str(jax.make_jaxpr(net.apply)(params, x))


def _unstack(stacked: Any) -> list[Any]:
    """One pytree for each member."""
    return [jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in range(_count(stacked))]


@partial(jax.jit, static_argnums=1)
def _cut(group: Any, parts: int) -> list[Any]:
    """So many parts of equal size, or fewer; the last member stands for those that are missing."""
    k = _count(group)
    size = -(-k // parts)
    rows = [np.minimum(np.arange(i, i + size), k - 1) for i in range(0, k, size)]
    return [jax.tree.map(lambda leaf, r=r: leaf[r], group) for r in rows]


@partial(jax.jit, static_argnums=1)
def _concatenated(parts: tuple[Any, ...], k: int) -> Any:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:k], *parts)


def _stack(members: list[Any]) -> Any:
    """One pytree for all members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def _count(stacked: Any) -> int:
    return len(jax.tree.leaves(stacked)[0])
