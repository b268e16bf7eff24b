"""Work spread over the machines of a Ray cluster. Ray is imported here alone, when it is first used."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ntkgp.core.arrays import check_counts
from ntkgp.core.storage import fields_of, storable


@storable
@dataclass(frozen=True)
class Ray:
    """A Ray cluster that does the work, for `backend=`. It needs `pip install 'ntkgp[ray]'`.

    Work goes out in tasks. A task that is lost with its process or its machine is run again. Whoever can
    reach a Ray cluster can run code on it, and Ray sends values by pickle: use one whose network you trust.

    Args:
        address: of a running cluster, such as "10.0.0.1:6379", "ray://10.0.0.1:10001" or "auto". None for
            the one that the process is connected to already, or else a new one on this machine.
        cpus: processors of one task; XLA starts so many threads in it.
        gpus: graphics processors of one task.
        members_per_task: members that are trained in one task. It is a number of its own, because a member
            is the same to the last bit only beside as many others: results do not depend on how many
            machines there are.
        retries: how often a lost task is run again.

    >>> Ray("10.0.0.1:6379", cpus=4)
    Ray(address='10.0.0.1:6379', cpus=4, gpus=0, members_per_task=4, retries=3)
    """

    address: str | None = None
    cpus: int = 1
    gpus: int = 0
    members_per_task: int = 4
    retries: int = 3

    def __post_init__(self) -> None:
        check_counts(cpus=self.cpus, members_per_task=self.members_per_task)
        check_counts(least=0, gpus=self.gpus, retries=self.retries)

    def __to_store__(self) -> dict[str, Any]:
        """All but the address: no file says where to connect to."""
        return fields_of(self) | {"address": None}

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> "Ray":
        return cls(**stored | {"address": None})

    def tasks_at_once(self) -> int:
        """How many tasks the cluster can run at the same time."""
        total = self._connected().cluster_resources()
        by_gpus = total.get("GPU", 0) // self.gpus if self.gpus else float("inf")
        return max(1, int(min(total.get("CPU", 1) // max(self.cpus, 1), by_gpus)))

    def shared(self, value: Any) -> Any:
        """The value in the cluster's memory, once for all tasks, to be given to `run`."""
        return self._connected().put(value)

    def run(
        self,
        function: Callable[..., Any],
        shared: Sequence[Any],
        items: Sequence[Any],
        done: Callable[[int], None] = lambda number: None,
    ) -> list[Any]:
        """function(*shared, item) of each item, in the order of items.

        Args:
            function: of a module that the cluster's machines can import.
            shared: values that `shared` has returned.
            items: one for each task.
            done: called with the number of each item when its task is done.
        """
        ray = self._connected()
        task = ray.remote(function).options(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            runtime_env={"env_vars": self._environment()},
        )
        waiting = {task.remote(*shared, item): number for number, item in enumerate(items)}
        results: dict[int, Any] = {}
        try:
            while waiting:
                (ready,), _ = ray.wait(list(waiting), num_returns=1)
                number = waiting.pop(ready)
                results[number] = ray.get(ready)
                done(number)
        finally:
            for lost in waiting:  # after an error, or an interrupt
                ray.cancel(lost)
        return [results[number] for number in range(len(items))]

    def _environment(self) -> dict[str, str]:
        threads = str(max(1, self.cpus))
        own = {"NPROC": threads, "OPENBLAS_NUM_THREADS": threads}
        return own if self.gpus else own | {"JAX_PLATFORMS": "cpu"}

    def _connected(self) -> Any:
        try:
            ray = importlib.import_module("ray")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "a Ray backend needs the package ray: pip install 'ntkgp[ray]'."
            ) from None
        if not ray.is_initialized():
            ray.init(self.address, logging_level="warning", log_to_driver=False)
        return ray


def check_backend(given: Any) -> Ray | None:
    """A user's `backend=`: None for this machine alone, "ray", or a `Ray`."""
    if given is None or isinstance(given, Ray):
        return given
    if given == "ray":
        return Ray()
    raise ValueError(f'backend must be None, "ray", or ntkgp.Ray(address, ...); got {given!r}.')
