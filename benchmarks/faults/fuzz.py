"""Thousands of damaged and crafted files for every loader: what each does, and how much memory it takes.

    python benchmarks/faults/fuzz.py                          # 10,000 files for each loader
    python benchmarks/faults/fuzz.py --files 200 --loaders svhn model

`model` is the slowest, several minutes of computing: some of what it loads is asked for predictions, and
compiled for them.

A good file is changed at random: bits, bytes, lengths, pieces; and, for formats with checksums or packing,
its content, packed and signed again, so that the changes get past them. Every loader runs in a process of
its own with a limit on its memory. A file is

    accepted     it was loaded: the change was harmless, or within what the format allows
    refused      by a ValueError or OSError, or for want of memory, in words
    unclear      by any other error
    hung         it took more than 10 seconds of computing, or 5 minutes
    crashed      the process ended

The last three are defects, and so is memory beyond the bound: the exit code then is 1.
"""

import argparse
import bz2
import copy
import gzip
import io
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "data"))

BOUND = 2**30
"""The most memory that a loader may take beyond what its process has before the first file."""
PATIENCE = 10
Change = Callable[[random.Random, bytes], bytes]
INTERESTING = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
)


class Loader(NamedTuple):
    """A way to make the nth damaged file, and the call that loads it."""

    damage: Callable[[random.Random], None]
    load: Callable[[], Any]


# Changes of bytes and of plain values


def changed(chance: random.Random, data: bytes) -> bytes:
    """One to four changes at random."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(CHANGES)(chance, data)
    return data


def _flip(chance: random.Random, data: bytes) -> bytes:
    content = bytearray(data or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def _number(chance: random.Random, data: bytes) -> bytes:
    size, order = chance.choice((1, 2, 4, 8)), chance.choice("<>")
    value = chance.choice(INTERESTING) % 2 ** (8 * size)
    place = chance.randrange(len(data) + 1)
    packed = value.to_bytes(size, "little" if order == "<" else "big")
    return data[:place] + packed + data[place + size :]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _without(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.randrange(64) :]


def _twice(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.randrange(256)]
    place = chance.randrange(len(data) + 1)
    return data[:place] + piece + data[place:]


def _noise(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data) + 1)
    piece = chance.randbytes(chance.randrange(1, 32))
    return data[:place] + piece + data[place + len(piece) :]


def _text(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data) + 1)
    word = chance.choice(
        (b"nan", b"inf", b"-1", b"1e999", b"\n", b",", b'"', b"NA", b"9" * 40, b"\x1b[2J")
    )
    return data[:place] + word + data[place + chance.choice((0, len(word))) :]


CHANGES: tuple[Change, ...] = (
    _flip,
    _flip,
    _number,
    _number,
    _cut,
    _without,
    _twice,
    _noise,
    _text,
)


def changed_value(chance: random.Random, value: Any) -> Any:
    """A plain value of JSON with one to three of its parts replaced, dropped, repeated or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return value
        holder, key = chance.choice(places)
        other_holder, other_key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = chance.choice(VALUES)()
            case 2:
                holder[key] = copy.deepcopy(other_holder[other_key])
            case 3:
                del holder[key]
            case 4 if isinstance(holder[key], list):
                holder[key] = holder[key] * chance.choice((2, 100))
    return value


VALUES: tuple[Callable[[], Any], ...] = (
    *(
        lambda v=v: v
        for v in (None, True, 0, -1, 1, 2, 10**6, 10**9, 10**18, 10**30, 0.5, 1e300, -1e-300)
    ),
    *(lambda v=v: v for v in ("", "x", "array_0", "\x1b[31m", "9" * 500, "../..", "<script>")),
    lambda: [],
    dict,
    lambda: [[]] * 1000,
    lambda: {"kind": "float", "of": "nan"},
    lambda: {"kind": "array", "of": "array_1"},
    lambda: {"kind": "tuple", "of": [10**6, 10**6]},
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = range(len(holder)) if isinstance(holder, list) else list(holder)
        for key in keys:
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])


# Loaders: each makes good files in a folder and says how to damage and to load one


def model(folder: Path) -> Loader:
    import numpy as np

    import ntkgp
    from ntkgp.core.model_files import read_model, write_model

    x = np.random.default_rng(0).normal(size=(8, 2))
    labels = (x[:, 0] > 0).astype(int)
    adam = ntkgp.GaussNewton(max_steps=1)
    models = [
        ntkgp.condition(ntkgp.mlp(2), x, x[:, :1], law="randomised-prior"),
        ntkgp.fit(ntkgp.mlp(2, width=4, depth=1), x, x[:, :1], members=2, trainer=adam),
        ntkgp.GPRegressor(optimizer=None, activation="erf").fit(x, x[:, 0]),
        ntkgp.GPClassifier(noise_std=0.1, activation="erf").fit(x, labels),
    ]
    path, goods, used = folder / "model", [], [False]
    for each in models:
        each.save(path)
        goods.append((path.read_bytes(), *read_model(path)))

    def damage(chance: random.Random) -> None:
        raw, document, arrays = chance.choice(goods)
        used[0] = chance.random() < 1 / 8
        if chance.random() < 0.3:
            path.write_bytes(changed(chance, raw))
            return
        arrays = dict(arrays)
        if chance.random() < 0.3:
            name = chance.choice(list(arrays))
            arrays[name] = chance.choice(
                [
                    arrays[name].astype(np.float32),
                    arrays[name].T.copy(),
                    arrays[name][:0],
                    np.full_like(arrays[name], np.nan if arrays[name].dtype.kind == "f" else 1),
                    np.zeros(chance.choice([(), (1,), (0, 9), (2, 2, 2)])),
                ]
            )
        try:
            write_model(path, changed_value(chance, document), arrays)
        except (ValueError, OverflowError):  # not even to be written
            path.write_bytes(changed(chance, raw))

    def load() -> None:
        loaded = ntkgp.load(path)
        # What is loaded can be used. A damaged file may hold hundreds of layers, which compile for minutes.
        if used[0] and hasattr(loaded, "predict") and path.stat().st_size < 10_000:
            loaded.predict(x[:2])

    return Loader(damage, load)


def results(folder: Path) -> Loader:
    from ntkgp.experiments import results as files
    from ntkgp.experiments.catalogue import EXPERIMENTS
    from ntkgp.experiments.experiment import report

    docs = Path(__file__).resolve().parents[2] / "docs" / "results"
    path = folder / "laws.json"
    raw = (docs / "laws.json").read_bytes()
    good = files.load(docs / "laws.json")

    def damage(chance: random.Random) -> None:
        if chance.random() < 0.3:
            path.write_bytes(changed(chance, raw))
        else:
            path.write_bytes(files.signed(changed_value(chance, good)))

    def load() -> None:
        found = files.load(path)
        if found["experiment"] in EXPERIMENTS:
            report(EXPERIMENTS[found["experiment"]], path)

    return Loader(damage, load)


def _in_one_file(
    path: Path,
    packed: bytes,
    content: bytes,
    pack: Callable[[bytes], bytes],
    load: Callable[[], Any],
) -> Loader:
    """Half of the files damaged as they are, half in their content and packed again."""

    def damage(chance: random.Random) -> None:
        outside = chance.random() < 0.4
        path.write_bytes(changed(chance, packed) if outside else pack(changed(chance, content)))

    return Loader(damage, load)


def mnist(folder: Path) -> Loader:
    import original_files

    from ntkgp.data import mnist as loader

    original_files.write_mnist(folder)
    path = folder / "t10k-images-idx3-ubyte.gz"
    packed = path.read_bytes()
    pack = lambda content: gzip.compress(content, 1)  # noqa: E731
    return _in_one_file(
        path, packed, gzip.decompress(packed), pack, lambda: loader.make(folder, lambda _: None)
    )


def notmnist(folder: Path) -> Loader:
    import original_files

    from ntkgp.data import notmnist as loader

    loader.PER_LETTER = 1
    original_files.write_notmnist(folder / "small", 1)
    path = folder / "small" / "A" / "font0001.ttf.png"
    good = (folder / "small" / "A" / "font0000.ttf.png").read_bytes()

    def with_checksums(content: bytes) -> bytes:
        """Chunks with the CRC that they should have."""
        out, place = content[:8], 8
        while place + 12 <= len(content):
            (length,) = struct.unpack(">I", content[place : place + 4])
            body = content[place + 4 : place + 8 + min(length, len(content))]
            out += content[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
            place += 12 + min(length, len(content))
        return out

    return _in_one_file(
        path, good, good, with_checksums, lambda: loader.make(folder / "small", lambda _: None)
    )


def cifar10(folder: Path) -> Loader:
    import original_files

    from ntkgp.data import cifar10 as loader

    original_files.write_cifar10(folder / "batches", per_batch=1)
    path = folder / "cifar-10-python.tar.gz"
    parts = {file.name: file.read_bytes() for file in sorted((folder / "batches").iterdir())}

    def tar(contents: dict[str, bytes]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, content in contents.items():
                member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return out.getvalue()

    whole = tar(parts)

    def damage(chance: random.Random) -> None:
        match chance.randrange(4):
            case 0:
                path.write_bytes(changed(chance, gzip.compress(whole, 1)))
            case 1:
                path.write_bytes(gzip.compress(changed(chance, whole), 1))
            case _:  # among the first bytes is the program of the pickle
                content = parts["test_batch"]
                place = chance.choice((64, 256, len(content)))
                content = changed(chance, content[:place]) + content[place:]
                path.write_bytes(gzip.compress(tar(parts | {"test_batch": content}), 1))

    return Loader(damage, lambda: loader.make(path, lambda _: None))


def svhn(folder: Path) -> Loader:
    import numpy as np
    from scipy.io import savemat

    from ntkgp.data import svhn as loader

    path = folder / "test_32x32.mat"
    y = np.arange(1, 3)[:, None]
    contents = []
    for compressed in (False, True):
        arrays = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": y}
        savemat(path, arrays, do_compression=compressed)
        contents.append(path.read_bytes())

    def damage(chance: random.Random) -> None:
        content = chance.choice(contents)
        place = chance.choice((200, 260, len(content)))
        content = changed(chance, content[:place]) + content[place:]
        if chance.random() < 0.4 and content[126:128] == b"IM":  # pack what may be broken
            inner = zlib.compress(changed(chance, contents[0][128:]), 1)
            content = content[:128] + struct.pack("<II", 15, len(inner)) + inner
        path.write_bytes(content)

    return Loader(damage, lambda: loader.make(folder, lambda _: None))


def flights_csv(folder: Path) -> Loader:
    import original_files

    from ntkgp.data import flights as loader

    original_files.write_flights(folder, original_files.FLIGHTS, original_files.YEARS)
    path = folder / "2008.csv.bz2"
    packed = path.read_bytes()
    return _in_one_file(
        path,
        packed,
        bz2.decompress(packed),
        lambda content: bz2.compress(content, 1),
        lambda: loader.make(folder, lambda _: None),
    )


def flights_parquet(folder: Path) -> Loader:
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    from ntkgp.data import flights as loader

    path = folder / "flights2008.parquet"
    columns = {name: pyarrow.array(np.arange(50) % 7) for name in loader.FROM_CSV}
    goods = []
    for options in ({}, {"compression": "zstd"}, {"use_dictionary": False, "compression": "none"}):
        parquet.write_table(pyarrow.table(columns), path, **options)
        goods.append(path.read_bytes())

    def damage(chance: random.Random) -> None:
        path.write_bytes(changed(chance, chance.choice(goods)))

    return Loader(damage, lambda: loader.read(path, "flights2008"))


def rows(folder: Path) -> Loader:
    """Parquet and .npy files that are trained on where they lie."""
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    import ntkgp
    from ntkgp.core.rows import surveyed

    values = np.random.default_rng(0).random((60, 3), np.float32)
    table = pyarrow.table(list(values.T), names=["a", "b", "y"])
    columns, maps, goods = folder / "rows.parquet", folder / "x.npy", []
    for options in ({}, {"compression": "zstd"}, {"use_dictionary": False, "compression": "none"}):
        parquet.write_table(table, columns, row_group_size=25, **options)
        goods.append((columns, columns.read_bytes()))
    np.save(maps, values[:, :2])
    goods.append((maps, maps.read_bytes()))
    damaged: list[Path] = []

    def damage(chance: random.Random) -> None:
        path, good = chance.choice(goods)
        place = chance.choice((96, len(good)))
        path.write_bytes(changed(chance, good[:place]) + good[place:])
        damaged[:] = [path]

    def load() -> None:
        if damaged == [maps]:
            source: Any = ntkgp.ArrayRows(maps, values[:, 2], blocks=25)
        else:
            source = ntkgp.ParquetRows(columns, ["a", "b"], "y")
        surveyed(source, (2,), 1)

    return Loader(damage, load)


def uci(folder: Path) -> Loader:
    import original_files

    from ntkgp.data import uci as loader

    original_files.write_uci(folder)
    table = folder / "UCI_Datasets" / "yacht" / "data"
    goods = {path: path.read_bytes() for path in sorted(table.iterdir())}
    last: list[Path] = []

    def damage(chance: random.Random) -> None:
        if last:
            last[0].write_bytes(goods[last[0]])
        last[:] = [chance.choice(list(goods))]
        last[0].write_bytes(changed(chance, goods[last[0]]))

    return Loader(damage, lambda: loader.read_table(table))


def cached(folder: Path) -> Loader:
    import zipfile

    import numpy as np

    from ntkgp.data import cache
    from ntkgp.data.images import image_forms

    path, forms = folder / "set.npz", image_forms(8, 8, parts=("test",))
    arrays = {"x_test": np.zeros((5, 8, 8), np.uint8), "y_test": np.arange(5, dtype=np.uint8)}
    cache.write(path, arrays)
    good = path.read_bytes()
    with zipfile.ZipFile(path) as contents:
        members = {name: contents.read(name) for name in contents.namelist()}

    def damage(chance: random.Random) -> None:
        if chance.random() < 0.4:
            path.write_bytes(changed(chance, good))
            return
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as contents:
            for name, content in members.items():
                place = chance.choice((128, len(content)))
                contents.writestr(name, changed(chance, content[:place]) + content[place:])

    return Loader(damage, lambda: cache.read(path, forms))


LOADERS: dict[str, Callable[[Path], Loader]] = {
    each.__name__: each
    for each in (
        model,
        results,
        mnist,
        notmnist,
        cifar10,
        svhn,
        flights_csv,
        flights_parquet,
        rows,
        uci,
        cached,
    )
}


# One process for each loader


def work(name: str, seed: int, first: int, stop: int, place: Path) -> None:
    """Damage and load files `first` to `stop`; every outcome is a line of standard output."""
    import warnings

    warnings.simplefilter("ignore")
    os.environ["NTKGP_COMPILED"] = "off"
    loader = LOADERS[name](place)
    loader.load() if name == "uci" else None
    before = _memory("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + 2 * BOUND,) * 2)
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _too_slow)
    for number in range(first, stop):
        loader.damage(random.Random(f"{seed} {name} {number}"))
        print(f"{number} begun", flush=True)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        signal.alarm(30 * PATIENCE)
        LOADING[0] = True
        try:
            loader.load()
            LOADING[0] = False
            outcome = "accepted"
        except (ValueError, OSError, MemoryError) as error:
            outcome = "refused" if str(error) else f"unclear: {type(error).__name__} without words"
        except TimeoutHang:
            outcome = f"hung: file {number}"
        except Exception as error:
            outcome = f"unclear: {type(error).__name__}: {error}"[:160].replace("\n", " ")
        LOADING[0] = False
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(f"{number} {outcome}", flush=True)
    print(f"memory {_memory('VmHWM') - before}", flush=True)


class TimeoutHang(BaseException):
    pass


LOADING = [False]


def _too_slow(*_: Any) -> None:
    if LOADING[0]:
        raise TimeoutHang


def _memory(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{entry}:"))


def fuzz(name: str, count: int, seed: int) -> tuple[Counter[str], int]:
    """What became of so many files, and the most memory that a process took for one."""
    from ntkgp.core.progress import progress_bar

    outcomes: Counter[str] = Counter()
    peak, first = 0, 0
    shared = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    while first < count:
        with tempfile.TemporaryDirectory(dir=shared) as place:
            command = [
                sys.executable,
                __file__,
                "--work",
                name,
                str(seed),
                str(first),
                str(count),
                place,
            ]
            lines = []
            with (
                progress_bar(count, name, shown=True) as bar,
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
            ):
                bar.update(first)
                for line in process.stdout or ():
                    lines.append(line.strip().split(maxsplit=1))
                    bar.update(line.endswith("begun\n"))
        ended = {n: what for n, what in lines if what != "begun" and n != "memory"}
        outcomes.update(ended.values())
        peak = max([peak, *(int(what) for n, what in lines if n == "memory")])
        begun = [int(n) for n, what in lines if what == "begun"]
        if process.returncode == 0:
            break
        if not begun:
            raise RuntimeError(f"{name} did not start")
        outcomes[f"crashed: code {process.returncode} at file {begun[-1]}"] += 1
        first = begun[-1] + 1
    return outcomes, peak


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000, help="for each loader")
    parser.add_argument("--loaders", nargs="+", default=list(LOADERS), choices=LOADERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the counts")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        name, seed, first, stop, place = options.work
        work(name, int(seed), int(first), int(stop), Path(place))
        return 0
    rows, bad = [], 0
    for name in options.loaders:
        started = time.perf_counter()
        outcomes, peak = fuzz(name, options.files, options.seed)
        kinds = Counter(dict.fromkeys(("accepted", "refused", "unclear", "hung", "crashed"), 0))
        for outcome, count in outcomes.items():
            kinds[outcome.partition(":")[0]] += count
        row = {"loader": name, **kinds, "MB": round(peak / 1e6)}
        row["seconds"] = round(time.perf_counter() - started)
        rows.append(row)
        bad += kinds["unclear"] + kinds["hung"] + kinds["crashed"] + (peak > BOUND)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        for outcome, count in outcomes.most_common():
            if outcome.partition(":")[0] not in ("accepted", "refused"):
                print(f"    {count} {outcome}", flush=True)
    if options.out:
        options.out.write_text(
            json.dumps({"bound": BOUND, "seed": options.seed, "rows": rows}, indent=1) + "\n"
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
