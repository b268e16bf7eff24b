"""Products with a training kernel, computed by the tasks of a cluster."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.core.cluster import Ray
from ntkgp.core.storage import storable
from ntkgp.kernels.training_kernel import TrainingKernel

_TASKS = 4
"""For each task that the cluster can run at once, so that a slow machine delays little."""


@storable
@dataclass(frozen=True, eq=False)
class SpreadKernel:
    """A training kernel whose product is a sum over blocks, each computed by one of the tasks."""

    kernel: TrainingKernel
    backend: Ray

    def __to_store__(self) -> dict[str, Any]:
        return {"kernel": self.kernel}

    @classmethod
    def __from_store__(cls, stored: dict[str, Any], network: Any) -> Any:
        """The kernel alone: no file makes a process connect to a cluster."""
        return stored["kernel"]

    def __len__(self) -> int:
        return len(self.kernel)

    @cached_property
    def _shared(self) -> Any:
        return self.backend.shared(self.kernel)

    def times(self, right: NDArray[Any]) -> NDArray[Any]:
        """(T + shift·I) B for B (n, t), as `TrainingKernel.times` up to rounding."""
        pairs = self.kernel.pairs()
        n_tasks = min(len(pairs), _TASKS * self.backend.tasks_at_once())
        items = [pairs[first::n_tasks] for first in range(n_tasks)]
        shared = [self._shared, self.backend.shared(right)]
        return np.sum(self.backend.run(_part, shared, items), axis=0)


def _part(
    kernel: TrainingKernel, right: NDArray[Any], pairs: list[tuple[int, int]]
) -> NDArray[Any]:
    """In a task."""
    return kernel.part_of_times(right, pairs)
