"""Attacks on the files that are saved: other savers, readers, kills, full disks, read-only directories.

    python benchmarks/faults/saves.py            # the counts in docs/security.md
    python benchmarks/faults/saves.py --tiny

Every attack counts what was destroyed. The models are laws that differ in their noise, so that a reader
knows which one it has read, and that it is whole. A small tmpfs needs the right to mount one (root);
without it, a limit on the size of files does as much.
"""

import argparse
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

LAWS: list[Any] = []


def law(number: int, rows: int = 200) -> Any:
    """A law that is known by its noise: a file of some 350 kB."""
    import numpy as np

    import ntkgp

    x = np.random.default_rng(0).normal(size=(rows, 2))
    return ntkgp.condition(ntkgp.mlp(2), x, x[:, 0], noise_std=1.0 + number)


def save_often(path: Path, numbers: Sequence[int], times: int, ready: Any) -> None:
    laws = [law(number) for number in numbers]
    ready.wait()
    for i in range(times):
        laws[i % len(laws)].save(path)


def read_often(path: Path, most: int, done: Any, found: Any) -> None:
    import ntkgp

    counts: Counter[str] = Counter()
    while not done.is_set():
        counts["reads"] += 1
        try:
            is_known = 1 <= ntkgp.load(path).noise_std <= most
            counts["whole" if is_known else "unknown"] += 1
        except Exception as error:
            counts[f"failed: {type(error).__name__}: {error}"[:120]] += 1
    found.put(counts)


def crowd(folder: Path, savers: int, readers: int, times: int) -> Counter[str]:
    """Several processes save to one path, others read it."""
    path = folder / "model"
    law(0).save(path)
    context = multiprocessing.get_context("spawn")
    ready, done, found = context.Barrier(savers), context.Event(), context.Queue()
    saving = [
        context.Process(target=save_often, args=(path, [2 * i, 2 * i + 1], times, ready))
        for i in range(savers)
    ]
    reading = [
        context.Process(target=read_often, args=(path, 2 * savers, done, found))
        for _ in range(readers)
    ]
    for process in (*saving, *reading):
        process.start()
    for process in saving:
        process.join()
    done.set()
    counts = sum((found.get() for _ in reading), Counter())
    for process in reading:
        process.join()
    counts["saves"] = savers * times
    counts["savers that failed"] = sum(process.exitcode != 0 for process in saving)
    counts.update(checked(path, 2 * savers))
    return counts


def checked(path: Path, most: int) -> Counter[str]:
    """What is at a path after an attack: a whole model or not, and what else lies there."""
    import ntkgp

    counts: Counter[str] = Counter({"destroyed models": 0})
    try:
        counts["destroyed models"] += not 1 <= ntkgp.load(path).noise_std <= most
    except Exception as error:
        counts["destroyed models"] += 1
        counts[f"why: {type(error).__name__}: {error}"[:120]] += 1
    counts["left behind"] = sum(other != path for other in path.parent.iterdir())
    return counts


def kills(folder: Path, times: int, number: int = signal.SIGKILL) -> Counter[str]:
    """A process that saves without end is ended at random moments; each save after it cleans up."""
    folder.mkdir(exist_ok=True)
    path = folder / "model"
    law(0).save(path)
    counts: Counter[str] = Counter()
    chance = random.Random(0)
    for _ in range(times):
        child = os.fork()
        if child == 0:  # JAX has computed the laws before: saving is NumPy's alone
            with suppress(BaseException):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                while True:
                    for each in LAWS:
                        each.save(path)
            os._exit(1)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(child, number)
        os.waitpid(child, 0)
        counts["kills"] += 1
        found = checked(path, len(LAWS))
        counts["left behind by kills"] += found.pop("left behind")
        counts.update(found)
    LAWS[0].save(path)
    counts["left behind after one more save"] = checked(path, len(LAWS))["left behind"]
    return counts


def write_results(path: Path, length: int) -> None:
    """A results file of so many numbers, beside the model."""
    from ntkgp.experiments import results

    run = {"values": [0.123456] * length}
    results.save(path, {"experiment": "none", "config": {}, "versions": {}, "runs": [run]})


def refused(folder: Path, times: int) -> Counter[str]:
    """Saves that fail, one after another, of models and results: what was there stays whole."""
    from ntkgp.experiments import results

    counts: Counter[str] = Counter({"destroyed models": 0, "destroyed results": 0})
    for i in range(times):
        for save in (
            lambda i=i: LAWS[i % len(LAWS)].save(folder / "model"),
            lambda: write_results(folder / "results.json", 30_000),
        ):
            try:
                save()
                counts["saved"] += 1
            except OSError as error:
                counts[f"refused: {error.strerror}"] += 1
        found = checked(folder / "model", len(LAWS))
        counts["destroyed models"] += found["destroyed models"]
        counts["left behind"] += found["left behind"] - 1  # the results
        try:
            results.load(folder / "results.json")
        except (ValueError, OSError):
            counts["destroyed results"] += 1
    return counts


def full_disk(folder: Path, times: int) -> Counter[str]:
    """A tmpfs with room for one model and a half."""
    folder.mkdir()
    path = folder / "model"
    law(0).save(folder.parent / "size")
    room = int(1.5 * (folder.parent / "size").stat().st_size)
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(folder)], capture_output=True
    ).returncode
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        law(0).save(path)
        write_results(folder / "results.json", 10)
        if not mounted:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room // 3, limits[1]))
        counts = refused(folder, times)
        counts["on a tmpfs" if mounted else "by a limit of file sizes"] = 1
        return counts
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def read_only(folder: Path, times: int) -> Counter[str]:
    """A directory that is mounted read-only; root writes into others all the same."""
    folder.mkdir()
    law(0).save(folder / "model")
    write_results(folder / "results.json", 10)
    mounted = os.geteuid() == 0 and all(
        not subprocess.run(["mount", *options, str(folder)], capture_output=True).returncode
        for options in (["--bind", str(folder)], ["-o", "remount,ro,bind"])
    )
    if not mounted:
        folder.chmod(0o500)
    try:
        return refused(folder, times)
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        folder.chmod(0o700)


def show(name: str, attack: Callable[[], Counter[str]]) -> int:
    started = time.perf_counter()
    counts = attack()
    seconds = time.perf_counter() - started
    print(f"{name}, {seconds:.0f} s")
    for what, count in counts.items():
        print(f"  {count:8,}  {what}")
    sys.stdout.flush()
    return counts["destroyed models"] + counts["destroyed results"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="see that it runs, in seconds")
    tiny = parser.parse_args(arguments).tiny
    LAWS[:] = [law(number) for number in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        destroyed = 0
        if not tiny:
            destroyed += show("savers and readers", lambda: crowd(root / "crowd", 4, 2, 500))
        times = 5 if tiny else 400
        destroyed += show("kill -9 during saves", lambda: kills(root / "killed", times))
        destroyed += show(
            "SIGTERM during saves", lambda: kills(root / "ended", times, signal.SIGTERM)
        )
        destroyed += show("full disk", lambda: full_disk(root / "full", times))
        destroyed += show("read-only directory", lambda: read_only(root / "fixed", times))
    print(f"{destroyed} files destroyed")
    return 1 if destroyed else 0


if __name__ == "__main__":
    sys.exit(main())
