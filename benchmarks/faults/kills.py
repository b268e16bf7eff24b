"""Faults at random moments of training and of a factorisation, and what is left after each.

A process trains, or factorises a kernel matrix, and keeps its state. At a random moment something
happens to it. Another process then goes on from the state, to the end. Its result must be that of a run to
which nothing happened, bit for bit.

    python benchmarks/faults/kills.py

The faults:

- kill -9, and SIGTERM, which must leave with code 143;
- the disk is full from that moment on, and the process is killed later;
- the disk can be read only from that moment on, and the process is killed later. The disk of both is a
  tmpfs of its own, so they need the right to mount one.

Where a checkpoint cannot be written, the one before it must stay: "least rounds kept" is the least, over
all such faults, of the rounds in the checkpoint at the end less those in it just before the fault.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from common import Records, options_of, parsed, write


@dataclass(frozen=True)
class Sizes:
    """How often each fault happens, and to how large a run."""

    kills: int = 50
    terms: int = 10
    full_disks: int = 10
    read_only: int = 10
    factor_kills: int = 20
    seed: int = 0
    rows: int = 64
    width: int = 32
    members: int = 3
    epochs: int = 150
    factor_rows: int = 1500
    panel_width: int = 32


TINY = Sizes(
    kills=1, terms=0, full_disks=0, read_only=0, factor_kills=1, epochs=60, factor_rows=400
)


# What is run, in a process of its own


def worker(sizes: Sizes) -> None:
    """Do the jobs that standard input names, and print what became of them."""
    jobs = {"train": _train, "factorise": _factorise}
    warnings.simplefilter("ignore")  # of checkpoints that could not be written
    _say({"ready": True})
    for line in sys.stdin:
        job = json.loads(line)
        prepared = jobs[job["what"]](sizes, job["directory"])
        _say({"begins": True})
        started = time.perf_counter()
        digest = prepared()
        _say({"digest": digest, "seconds": time.perf_counter() - started})


def _train(sizes: Sizes, directory: str) -> Callable[[], str]:
    import jax
    import numpy as np
    import optax

    import ntkgp

    x = np.linspace(-1, 1, sizes.rows)[:, None]
    net = ntkgp.mlp(1, width=sizes.width)
    trainer = ntkgp.Descent(optax.adam(1e-3), epochs=sizes.epochs, batch_size=8)

    def run() -> str:
        checkpoint = ntkgp.Checkpoint(directory, every=0)
        ensemble = ntkgp.fit(
            net, x, np.sin(3 * x), members=sizes.members, trainer=trainer, checkpoint=checkpoint
        )
        return _digest_of([*jax.tree.leaves((ensemble.theta, ensemble.member)), ensemble.losses])

    return run


def _factorise(sizes: Sizes, directory: str) -> Callable[[], str]:
    import numpy as np

    import ntkgp
    from ntkgp.kernels import panels

    panels.WIDTH = sizes.panel_width
    x = np.random.default_rng(0).normal(size=(sizes.factor_rows, 4))
    kernel = ntkgp.TrainingKernel(ntkgp.mlp(4), x, "ntk", 0.1)

    def run() -> str:
        inverse: Any = ntkgp.Cholesky(directory)(kernel, progress=False)
        return _digest_of([inverse.factor.entries])

    return run


def _digest_of(arrays: Sequence[Any]) -> str:
    import numpy as np

    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


class Process:
    """A worker, seen from the process that strikes it."""

    def __init__(self, sizes: Sizes) -> None:
        command = [sys.executable, __file__, "--worker", json.dumps(asdict(sizes))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def begin(self, what: str, directory: Path) -> None:
        """Begin a job, and return when it has begun."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"what": what, "directory": str(directory)}) + "\n")
        self.process.stdin.flush()
        self._read()

    def result(self) -> dict[str, Any]:
        """What became of the job."""
        return self._read()

    def end(self, number: int = signal.SIGKILL) -> tuple[int, bool]:
        """Send a signal; return the exit code, and whether the job had ended before."""
        self.process.send_signal(number)
        printed, _ = self.process.communicate()
        return self.process.returncode, bool(printed)

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended by itself, with code {self.process.wait()}")
        return json.loads(line)


# Faults


@dataclass
class Count:
    """What became of all faults of a kind."""

    times: int = 0
    identical: int = 0
    too_late: int = 0
    wrong_codes: int = 0
    rounds_kept: list[int] = field(default_factory=list)


def run(sizes: Sizes) -> Records:
    """Let every fault happen, and count."""
    rng = random.Random(sizes.seed)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return _Faults(sizes, rng, place, stack).rows()


class _Faults:
    """The faults of one run of this script, one after another.

    Each process first goes on with what the one before it left, and then begins what it is struck in.
    """

    def __init__(self, sizes: Sizes, rng: random.Random, place: Path, stack: ExitStack) -> None:
        self.sizes, self.rng, self.place, self.stack = sizes, rng, place, stack
        self.process = Process(sizes)
        self.whole = {what: self._finished(what) for what in ("train", "factorise")}

    def _finished(self, what: str) -> dict[str, Any]:
        """The result and the time of a run to which nothing happens; the first one compiles."""
        for number in range(2):
            self.process.begin(what, self._new(f"whole-{what}-{number}"))
            found = self.process.result()
        return found

    def _new(self, name: str) -> Path:
        directory = self.place / name
        directory.mkdir()
        return directory

    def rows(self) -> Records:
        sizes, rows = self.sizes, []
        kinds: list[tuple[str, str, int, Callable[..., None]]] = [
            ("kill -9 in training", "train", sizes.kills, self._kill),
            ("SIGTERM in training", "train", sizes.terms, self._terminate),
            ("disk full in training", "train", sizes.full_disks, self._fill),
            ("disk read only in training", "train", sizes.read_only, self._forbid),
            ("kill -9 in a factorisation", "factorise", sizes.factor_kills, self._kill),
        ]
        for name, what, times, strike in kinds:
            if times:
                count = self._repeated(what, times, strike)
                least = min(count.rounds_kept) if count.rounds_kept else 0
                rows.append(
                    {
                        "fault": name,
                        "times": count.times,
                        "identical": count.identical,
                        "wrong exit codes": count.wrong_codes,
                        "least rounds kept": least,
                        "run over before": count.too_late,
                    }
                )
                print(rows[-1], file=sys.stderr, flush=True)
        self.process.end()
        return rows

    def _repeated(self, what: str, times: int, strike: Callable[..., None]) -> Count:
        count = Count()
        while count.times < times:
            directory = self._new(f"{what}-{strike.__name__}-{count.times}-{count.too_late}")
            moment = self.rng.uniform(0, self.whole[what]["seconds"])
            with suppress(_TooLate):
                strike(what, directory, moment, count)
                count.times += 1
                self.process = Process(self.sizes)
                self.process.begin(what, directory)
                count.identical += self.process.result()["digest"] == self.whole[what]["digest"]
                shutil.rmtree(directory, ignore_errors=True)  # all that is in it, if it is a disk
                continue
            count.too_late += 1
            self.process = Process(self.sizes)
        return count

    def _ended(self, number: int = signal.SIGKILL) -> int:
        code, over = self.process.end(number)
        if over:
            raise _TooLate
        return code

    def _kill(self, what: str, directory: Path, moment: float, count: Count) -> None:
        self.process.begin(what, directory)
        time.sleep(moment)
        self._ended()

    def _terminate(self, what: str, directory: Path, moment: float, count: Count) -> None:
        self.process.begin(what, directory)
        time.sleep(moment)
        count.wrong_codes += self._ended(signal.SIGTERM) != 128 + signal.SIGTERM

    def _fill(self, what: str, directory: Path, moment: float, count: Count) -> None:
        """Nothing more fits, until the next process goes on."""
        self._mount(directory)
        filler = directory / "filler"

        def fill() -> None:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))

        try:
            self._spoiled(what, directory, moment, count, fill)
        finally:
            filler.unlink()

    def _forbid(self, what: str, directory: Path, moment: float, count: Count) -> None:
        """Nothing can be written, until the next process goes on."""
        self._mount(directory)

        def remount(mode: str) -> None:
            command = ["mount", "-o", f"remount,{mode}", directory]
            while subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
                pass  # a file is open for writing at this moment

        try:
            self._spoiled(what, directory, moment, count, lambda: remount("ro"))
        finally:
            remount("rw")

    def _mount(self, directory: Path) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", directory], check=True)
        self.stack.callback(subprocess.run, ["umount", str(directory)])

    def _spoiled(
        self, what: str, directory: Path, moment: float, count: Count, spoil: Callable[[], None]
    ) -> None:
        self.process.begin(what, directory)
        time.sleep(moment / 2)  # on this disk it takes less time
        before = _rounds_in(directory)
        spoil()
        time.sleep(0.1)  # for some rounds, whose checkpoints cannot be written
        self._ended()
        count.rounds_kept.append(_rounds_in(directory) - before)


class _TooLate(Exception):
    """The run had ended before the fault."""


def _rounds_in(directory: Path) -> int:
    """Rounds in the checkpoint; 0 if there is none, and -1 if it cannot be read."""
    import ntkgp

    found = 0
    for _ in range(20):  # beside a process that replaces it
        try:
            kept = ntkgp.load(directory / "attempt-1" / "turn-0" / "group-0")
            return int(kept["records"]["losses"].shape[1])
        except FileNotFoundError:
            found = 0
        except ValueError:
            found = -1
        time.sleep(0.002)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=N", help="such as kills=5"
    )
    options = parsed(parser, arguments)
    if options.worker:
        worker(Sizes(**json.loads(options.worker)))
        return
    sizes = TINY if options.tiny else Sizes()
    for setting in options.set:
        name, _, value = setting.partition("=")
        sizes = replace(sizes, **{name: int(value)})
    write("kills", run(sizes), sizes, options.out)


if __name__ == "__main__":
    main()
