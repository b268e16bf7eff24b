"""Files are compared with the public ones before they replace a cached set; cached files have limits."""

import bz2
import hashlib
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from original_files import FLIGHTS, YEARS, write_flights, write_mnist, write_uci

from ntkgp.cli import main
from ntkgp.core.memory import peak_bytes
from ntkgp.data import SETS, Dataset, Split, cache, flights, sets
from ntkgp.data.originals import check_digests
from ntkgp.data.stored import Fact, Stored

FORMS = {"x": ("uint8", ("n",))}


def sha256(path):
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """A set made of one file, whose digest and sum are known."""
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path / "cache"))
    path = tmp_path / "originals" / "numbers.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(range(10)))
    entry = Stored(
        files=("numbers.npz",),
        originals="numbers.bin",
        forms=FORMS,
        make=lambda source, say: {"x": np.fromfile(path, np.uint8)},
        read=lambda file, name: Dataset(name, {"all": Split(cache.read(file, FORMS)["x"], None)}),
        facts=lambda data: [Fact("sum", int(data.all.x.sum()), 45)],
        digests={"numbers.bin": (sha256(path),)},
    )
    monkeypatch.setitem(SETS, "numbers", entry)
    return path


@pytest.mark.parametrize("source", ["folder", "file", "file of another name"])
def test_a_file_that_is_not_the_published_one_replaces_nothing(numbers, source, capsys):
    where = str(numbers.parent)
    assert main(["data", "get", "numbers", "--from", where]) == 0
    cached = sets.cached(SETS["numbers"]).read_bytes()
    content = bytearray(numbers.read_bytes())
    content[3], content[4] = content[4], content[3]  # the sum is as before
    numbers.write_bytes(bytes(content))
    if source == "file of another name":
        (numbers.parent / "copy.bin").write_bytes(bytes(content))
    where = {"folder": where, "file": str(numbers)}.get(source, str(numbers.parent / "copy.bin"))
    assert main(["data", "get", "numbers", "--from", where]) == 2
    message = capsys.readouterr().err
    assert "is not the published file: that has sha256:" in message
    assert "Nothing was replaced" in message
    assert sets.cached(SETS["numbers"]).read_bytes() == cached
    assert main(["data", "get", "numbers", "--from", where, "--as-is"]) == 0
    assert sets.cached(SETS["numbers"]).read_bytes() != cached


def test_one_digest_of_several_is_not_enough(tmp_path):
    """MD5 can be forged: where SHA-256 is known too, a file has both, whatever its name."""
    path = tmp_path / "file.bin"
    path.write_bytes(b"forged")
    md5 = f"md5:{hashlib.md5(b'forged').hexdigest()}"
    for name in ("file.bin", "another.bin"):
        check_digests(path, {name: (sha256(path), md5)})  # the control
        for digests in ((md5, f"sha256:{'0' * 64}"), (f"sha256:{'0' * 64}", md5)):
            with pytest.raises(ValueError, match="is not the published file"):
                check_digests(path, {name: digests})


def test_arrays_that_are_not_as_known_replace_nothing(numbers, monkeypatch):
    path = sets.get("numbers", numbers.parent)
    cached = path.read_bytes()
    monkeypatch.setitem(SETS, "numbers", replace(SETS["numbers"], digests={}))
    numbers.write_bytes(bytes(10))
    with pytest.raises(
        ValueError, match=r"not as the public set is known: sum: 0, where 45.*--as-is"
    ):
        sets.get("numbers", numbers.parent)
    assert path.read_bytes() == cached
    assert [file.name for file in path.parent.iterdir()] == ["numbers.npz"]


def test_every_table_of_a_file_is_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path / "cache"))
    write_uci(tmp_path / "originals")
    with pytest.raises(ValueError, match="uci/bostonHousing is not as the public set is known"):
        sets.get("uci/yacht", tmp_path / "originals")


def test_mnist_s_own_digests_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path / "cache"))
    write_mnist(tmp_path / "originals")
    with pytest.raises(ValueError, match=r"idx3-ubyte\.gz is not the published file"):
        sets.get("mnist", tmp_path / "originals")


# Cached files that declare or hold too much


def write_npz(path, header, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        text = header.encode().ljust(117) + b"\n"
        npy = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with file.open("x.npy", "w", force_zip64=True) as member:
            member.write(npy)
            for _ in range(content // 2**20):
                member.write(bytes(2**20))
            member.write(bytes(content % 2**20))


def header(shape, dtype="|u1"):
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("head", "size", "words"),
    [
        (header("(1000,)"), 1000, None),
        (header("(2**40,)"), 10, "damaged"),
        (header(f"({2**40},)"), 10, "bytes, more than"),
        (header(f"({2**26},)"), 2**26, "bytes, more than"),
        (header("(10,)"), 2**26, "not as many bytes"),
        (header("(1000,)"), 10, "not as many bytes"),
        (header("(-5,)"), 10, "lengths"),
        (header("(10, 10)"), 100, "x must be uint8 of shape"),
        (header("(10,)", "|O"), 80, "damaged"),
        (header("(10,)", "<f8"), 80, "must be uint8"),
        ("(" * 3000, 10, "damaged"),
    ],
)
def test_an_npz_file_takes_no_more_than_its_limit(tmp_path, head, size, words):
    path = tmp_path / "x.npz"
    write_npz(path, head, size)
    before = peak_bytes()
    if words is None:
        assert cache.read(path, FORMS, 2**25)["x"].shape == (1000,)
        return
    with pytest.raises(cache.Unreadable, match=words):
        cache.read(path, FORMS, 2**25)
    assert peak_bytes() - before < 2**24


def test_a_table_with_a_line_without_end_is_refused(tmp_path):
    write_flights(tmp_path, FLIGHTS, YEARS)
    (tmp_path / "2008.csv.bz2").write_bytes(bz2.compress(b"a" * 2**26))
    before = peak_bytes()
    with pytest.raises(ValueError, match="line 1 has more than 10,000 characters"):
        flights.make(tmp_path, lambda _: None)
    assert peak_bytes() - before < 2**25


def test_a_parquet_table_of_words_or_of_too_many_rows_is_refused(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "flights2008.parquet"
    good = {name: pyarrow.array([1, None, 3]) for name in flights.FROM_CSV}
    parquet.write_table(pyarrow.table(good), path)
    assert flights.read(path, "flights2008").all.y.shape == (3,)
    parquet.write_table(pyarrow.table(good | {"month": ["a", "b", "c"]}), path)
    with pytest.raises(cache.Unreadable, match="month is of type string"):
        flights.read(path, "flights2008")
    parquet.write_table(pyarrow.table(good), path)
    monkeypatch.setattr(flights, "_MOST_ROWS", 2)
    with pytest.raises(cache.Unreadable, match="it has 3 rows"):
        flights.read(path, "flights2008")
