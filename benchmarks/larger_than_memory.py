"""Train on a Parquet set four times larger than all the memory that the process may have.

The process that trains limits its own address space, as `ulimit -v` does, before it imports anything: the
interpreter, JAX, its compiler and the data share that cap. The control loads the same set into memory
under the same cap, and must fail.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import Records, options_of, parsed, write

SMALL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "ARROW_IO_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Arenas that are reserved and not used, and stacks of threads, would take most of the address space."""
TARGET = "y"


@dataclass(frozen=True)
class Sizes:
    cap_mb: int = 1280
    """0 for none."""
    data_mb: int = 5120
    inputs: int = 63
    group_rows: int = 16384
    members: int = 2
    width: int = 32
    epochs: int = 1
    batch_size: int = 4096


TINY = Sizes(cap_mb=0, data_mb=1, inputs=7, group_rows=512, width=4, batch_size=64)


def names(sizes: Sizes) -> list[str]:
    return [f"x{i}" for i in range(sizes.inputs)]


def write_parquet(path: Path, sizes: Sizes) -> int:
    """Random numbers in float32, not compressed; returns the number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, columns = np.random.default_rng(0), [*names(sizes), TARGET]
    row_bytes = 4 * len(columns)
    groups = -(-sizes.data_mb * 2**20 // (row_bytes * sizes.group_rows))
    schema = pa.schema([(name, pa.float32()) for name in columns])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(groups):
            values = rng.random((len(columns), sizes.group_rows), np.float32)
            values[-1] = np.sin(6 * values[0]) + values[1]
            writer.write_table(pa.table(list(values), schema=schema), row_group_size=len(values[0]))
    return groups * sizes.group_rows


def train(how: str, path: Path, sizes: Sizes) -> dict[str, object]:
    """In a process of its own, with its address space limited."""
    if sizes.cap_mb:
        resource.setrlimit(resource.RLIMIT_AS, (sizes.cap_mb * 2**20,) * 2)
    import numpy as np
    import optax

    import ntkgp

    rows = ntkgp.ParquetRows(path, names(sizes), TARGET, window_rows=2 * sizes.group_rows)
    if how == "in memory":
        parts = [rows.read(block) for block in range(len(rows.lengths))]
        x, y = (np.concatenate(values) for values in zip(*parts, strict=True))
        rows = ntkgp.ArrayRows(x, y, rows.lengths, rows.window_rows)
    trainer = ntkgp.Descent(
        optax.adam(1e-3), epochs=sizes.epochs, batch_size=sizes.batch_size, decays=True
    )
    started = time.perf_counter()
    net = ntkgp.mlp(sizes.inputs, width=sizes.width)
    ensemble = ntkgp.fit(net, rows, members=sizes.members, trainer=trainer)
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    peak, virtual = (int(fields[name].split()[0]) // 1024 for name in ("VmHWM", "VmPeak"))
    return {
        "peak rss, MB": peak,
        "peak virtual, MB": virtual,
        "seconds": time.perf_counter() - started,
        "loss": float(np.mean(ensemble.objectives)),
    }


def run(sizes: Sizes) -> Records:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        n = write_parquet(path, sizes)
        size = path.stat().st_size // 2**20
        for how in ("window by window", "in memory"):
            command = [sys.executable, __file__, "--train", how, "--path", str(path)]
            command += ["--tiny"] * (sizes == TINY)
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | SMALL)
            ended = "finished" if not done.returncode else _reason(done.stderr)
            nothing = dict.fromkeys(("peak rss, MB", "peak virtual, MB", "seconds", "loss"), "")
            taken = nothing if done.returncode else json.loads(done.stdout)
            rows.append(
                {"rows": how, "n": n, "data, MB": size, "cap, MB": sizes.cap_mb or "none"}
                | {"ended": ended}
                | taken
            )
    return rows


def _reason(errors: str) -> str:
    """The last line of a traceback, or that there was none."""
    lines = errors.strip().splitlines()
    return lines[-1][:60] if lines else "killed"


def main(arguments: list[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parsed(parser, arguments)
    sizes = TINY if options.tiny else Sizes()
    if options.train:
        print(json.dumps(train(options.train, options.path, sizes)))
        return
    write("larger_than_memory", run(sizes), sizes, options.out)


if __name__ == "__main__":
    main()
