"""The flights network on one and on two workers of a Ray cluster on this machine.

It needs Ray (`pip install 'ntkgp[ray]'`) and the data set flights2008:

    python benchmarks/faults/nodes.py

Each of the two nodes has one processor, and its workers one thread. One task trains all members, or two
tasks train half of them each. Both are run once before, so that compilation is in no time.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Records, best_seconds, run_and_write

LOOPBACK = "127.0.0.2"
"""Ray takes 127.0.0.1 for the machine's address in the network."""


@dataclass(frozen=True)
class Sizes:
    """The paper's network for flights, on so many rows."""

    rows: int = 20_000
    members: int = 10
    epochs: int = 60
    batch_size: int = 100
    width: int = 100
    depth: int = 4
    repeats: int = 2


TINY = Sizes(rows=2_000, members=2, epochs=1, width=8, repeats=1)


def run(sizes: Sizes) -> Records:
    os.environ.setdefault("RAY_worker_niceness", "0")  # as nice as this process
    os.environ["NPROC"] = "1"  # threads of XLA in each worker
    import optax
    import ray
    from ray.cluster_utils import Cluster

    import ntkgp
    from ntkgp.data import complete_rows, load
    from ntkgp.estimators.standardise import Scaler

    data = complete_rows(load("flights2008")).take(slice(0, sizes.rows))
    x, y = (Scaler.of("rows", values).apply("rows", values) for values in (data.x, data.y))
    net = ntkgp.mlp(x.shape[1], 2, width=sizes.width, depth=sizes.depth)
    trainer = ntkgp.Descent(optax.adam(1e-3), sizes.epochs, sizes.batch_size)
    node = {"num_cpus": 1, "node_ip_address": LOOPBACK, "object_store_memory": 2**28}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    cluster.add_node(**node)
    ray.init(cluster.address, _node_ip_address=LOOPBACK, log_to_driver=False)

    def train(tasks: int) -> ntkgp.Ensemble:
        backend = ntkgp.Ray(members_per_task=-(-sizes.members // tasks))
        return ntkgp.fit(
            net,
            x,
            y,
            members=sizes.members,
            noise=ntkgp.LearnedNoise(),
            trainer=trainer,
            backend=backend,
        )

    seconds = best_seconds({n: lambda n=n: train(n) for n in (1, 2)}, sizes.repeats)
    ray.shutdown()
    cluster.shutdown()
    return [
        {"workers": n, "seconds": seconds[n], "speed-up": seconds[1] / seconds[n]} for n in seconds
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("nodes", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
