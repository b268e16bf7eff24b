"""A plan for an ensemble that needs a cluster, from constants measured here, and a simulation of it.

The plan is arithmetic: operations, bytes and seconds for K members of P parameters on n rows. Failures of
machines enter by Daly's formula for the expected time with checkpoints, at Young's interval. The simulation
draws the failures, machine by machine, and schedules the members; docs/guide/cluster-plan.md has both.
"""

import heapq
import math
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Records, run_and_write


@dataclass(frozen=True)
class Sizes:
    members: int = 1000
    parameters: int = 100_000_000
    rows: int = 1_000_000_000
    inputs: int = 100
    epochs: int = 1
    nodes: int = 500
    cores: int = 96
    """Of a node, which trains one member at a time."""
    mtbf_days: float = 30.0
    """Days until a node fails, on average: an assumption, not a measurement."""
    restart_seconds: float = 600.0
    """Until a lost node is replaced, has compiled and has read its checkpoint: another one."""
    repeats: int = 20
    matrix: int = 2048
    file_mb: int = 256


TINY = Sizes(members=30, nodes=10, repeats=10, matrix=64, file_mb=1)


# Constants of this machine


def measured(sizes: Sizes) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "FLOP/s of a core": flops_of_a_core(sizes.matrix),
            "bytes/s to disk": bytes_to_disk(Path(folder) / "state", sizes.file_mb),
            "bytes/s from Parquet": bytes_from_parquet(Path(folder) / "rows.parquet", sizes),
        }


def flops_of_a_core(side: int) -> float:
    """Of a product of float32 matrices, the best of ten, on one thread, by the time of the processor."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    a = np.random.default_rng(0).random((side, side), np.float32)
    with threadpool_limits(1):
        return 2 * side**3 / min(_seconds(lambda: a @ a, time.process_time) for _ in range(10))


def bytes_to_disk(path: Path, megabytes: int) -> float:
    """As a checkpoint is written: whole, synced and renamed; the best of three."""
    from ntkgp.core.files import replacing

    content = os.urandom(megabytes * 2**20)

    def write() -> None:
        with replacing(path) as file:
            file.write(content)

    return len(content) / min(_seconds(write) for _ in range(3))


def bytes_from_parquet(path: Path, sizes: Sizes) -> float:
    """Of float32 values that `ParquetRows` gives, by the time of the processor; the best of three."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import ntkgp

    names = [f"x{i}" for i in range(sizes.inputs + 1)]
    n = max(64, sizes.file_mb * 2**20 // (4 * len(names)))
    values = np.random.default_rng(0).random((len(names), n), np.float32)
    pq.write_table(pa.table(list(values), names), path, row_group_size=2**14, compression="none")
    rows = ntkgp.ParquetRows(path, names[:-1], names[-1])

    def read() -> None:
        for block in range(len(rows.lengths)):
            rows.read(block)

    return values.nbytes / min(_seconds(read, time.process_time) for _ in range(3))


def _seconds(call: Any, clock: Any = time.perf_counter) -> float:
    started = clock()
    call()
    return clock() - started


# The plan


def young_interval(cost: float, mtbf: float) -> float:
    """√(2CM): seconds between checkpoints of C seconds each, for failures every M seconds."""
    return math.sqrt(2 * cost * mtbf)


def daly_seconds(work: float, every: float, cost: float, restart: float, mtbf: float) -> float:
    """Expected time of work that fails at random: M e^(R/M) (e^((τ+C)/M) - 1) W/τ (Daly 2006)."""
    return mtbf * math.exp(restart / mtbf) * math.expm1((every + cost) / mtbf) * work / every


@dataclass(frozen=True)
class Plan:
    """What one member takes, in seconds, and the rest in bytes."""

    work: float
    cost: float
    every: float
    restart: float
    mtbf: float
    memory: float
    data: float
    state: float

    @property
    def expected(self) -> float:
        return daly_seconds(self.work, self.every, self.cost, self.restart, self.mtbf)


def plan_of(sizes: Sizes, constants: dict[str, float]) -> Plan:
    """Of one member on one node.

    A row costs 6P operations for the loss's gradient and 4P for δ, a product with the Jacobian, in every
    epoch. A node holds θ, θ₀, θ̃, a gradient, an update and Adam's two moments; a checkpoint holds θ and the
    moments.
    """
    parameter_bytes = 4.0 * sizes.parameters
    operations = 10.0 * sizes.parameters * sizes.rows * sizes.epochs
    row_bytes = 4.0 * (sizes.inputs + 1)
    data = row_bytes * sizes.rows * (sizes.epochs + 2)  # one pass to check, one for the objectives
    computing = operations / (sizes.cores * constants["FLOP/s of a core"])
    reading = data / constants["bytes/s from Parquet"]
    state = 3 * parameter_bytes
    cost, mtbf = state / constants["bytes/s to disk"], sizes.mtbf_days * 86400
    work = computing + reading  # one after the other: nothing is read ahead
    every = work / max(1, round(work / young_interval(cost, mtbf)))
    return Plan(work, cost, every, sizes.restart_seconds, mtbf, 7 * parameter_bytes, data, state)


# The simulation


def simulate(members: int, nodes: int, plan: Plan, rng: Any) -> tuple[float, float]:
    """Seconds until the last member is done, and the mean over members, with failures drawn at random.

    A node that is free takes the next member. When it fails, what came after the last checkpoint is lost;
    its replacement goes on after the restart, which may fail too.
    """
    free = [0.0] * nodes
    total = 0.0
    for _ in range(members):
        taken = member_seconds(plan, rng)
        heapq.heappush(free, heapq.heappop(free) + taken)
        total += taken
    return max(free), total / members


def member_seconds(plan: Plan, rng: Any) -> float:
    """One member on one node: interval by interval, each as often as it takes."""
    now = 0.0
    for _ in range(round(plan.work / plan.every)):
        while (lasts := rng.exponential(plan.mtbf)) < plan.every + plan.cost:
            now += lasts
            while (lasts := rng.exponential(plan.mtbf)) < plan.restart:
                now += lasts
            now += plan.restart
        now += plan.every + plan.cost
    return now


def run(sizes: Sizes) -> Records:
    import numpy as np

    constants = measured(sizes)
    plan = plan_of(sizes, constants)
    waves = math.ceil(sizes.members / sizes.nodes)
    planned = waves * plan.expected
    rng = np.random.default_rng(0)
    runs = [simulate(sizes.members, sizes.nodes, plan, rng) for _ in range(sizes.repeats)]
    makespan, mean = np.mean(runs, axis=0)
    lost = (plan.every + plan.cost) / 2 + plan.restart  # by a failure, on average
    first_order = 1 + plan.cost / plan.every + lost / plan.mtbf
    table = constants | {
        "hours of work of a member": plan.work / 3600,
        "core-years in all": sizes.members * plan.work * sizes.cores / (365.25 * 86400),
        "GB of memory of a node, without activations": plan.memory / 1e9,
        "GB of a checkpoint": plan.state / 1e9,
        "seconds to write it": plan.cost,
        "minutes between checkpoints": plan.every / 60,
        "GB that a node reads": plan.data / 1e9,
        "MB/s from storage, all nodes": sizes.nodes * plan.data / plan.work / 1e6,
        "MB/s to storage, all nodes": sizes.nodes * plan.state / plan.every / 1e6,
        "overhead in %, first order": 100 * (first_order - 1),
        "overhead in %, Daly": 100 * (plan.expected / plan.work - 1),
        "overhead in %, simulated": 100 * (mean / plan.work - 1),
        "days, plan": planned / 86400,
        "days, simulated": makespan / 86400,
        "days, simulated / plan": makespan / planned,
    }
    return [{"what": what, "measured": float(value)} for what, value in table.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("schedule", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
