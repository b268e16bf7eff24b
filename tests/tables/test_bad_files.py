"""Files that cannot be used: one line that names file, line or column, exit code 2, nothing left."""

import bz2
import gzip
import os
import re

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from examples import QUICK, rents

from ntkgp.cli import main
from ntkgp.tables import output
from ntkgp.tables.files import TableFile

LINES = ["a,b,y", *(f"{i % 7},{i * i % 11},{i}.5" for i in range(200))]


def spoiled(at, line):
    return "\n".join([*LINES[:at], line, *LINES[at + 1 :]]).encode() + b"\n"


BAD = {
    "missing target": (spoiled(0, "a,b,z"), r"there is no target: it must be column 'y'"),
    "empty": (b"", r"is empty"),
    "header only": (b"a,b,y\n", r"has a header and no rows"),
    "blank": (b"\n\n\n", r"no header"),
    "ragged": (spoiled(100, "1,2"), r"line 101: 2 values, where the header has 3"),
    "encoding": (
        spoiled(50, "1,2,3").replace(b"a,b", "ä,b".encode("latin-1")),
        r"line 1: byte 0xe4",
    ),
    "encoding below": (spoiled(50, "é,2,3.5").replace(b"\xc3\xa9", b"\xe9"), r"line 51: byte 0xe9"),
    "utf-16": (spoiled(1, "1,2,3").decode().encode("utf-16"), r"--encoding utf-16"),
    "binary": (bytes(range(256)) * 4, r"is binary"),
    "spreadsheet": (b"PK\x03\x04" + bytes(100), r"a zip archive or a spreadsheet"),
    "changes type": (
        spoiled(150, "1,2,many"),
        r"column 'y' has numbers up to row 149, and then 'many'.*--categorical y if they are categories\.$",
    ),
    "same names": (spoiled(0, "a,a,y"), r"columns of the same name: 'a'"),
    "no target values": (b"a,y\n" + b"1,\n2,NA\n" * 20, r"'y' has no value in any row"),
    "few rows": (b"a,y\n1,2.5\n2,3.5\n", r"2 rows with a target; at least 10"),
    "one class": (b"a,y\n" + b"1,yes\n2,yes\n" * 20, r"is yes in every row"),
    "nothing to learn from": (b"y\n" + b"1.5\n2.5\n" * 20, r"no column besides the target"),
    "dates for a target": (b"a,y\n" + b"1,2020-01-01\n2,2020-01-02\n" * 9, r"numbers or classes"),
    "cut gzip": (gzip.compress(spoiled(1, "1,2,3"))[:200], r"cut short or damaged"),
    "cut parquet": (b"PAR1" + bytes(50), r"cannot be read"),
}


def refused(arguments, pattern, capsys, folder):
    """Exit code 2, one line, and no file that was not there."""
    before = sorted(folder.rglob("*"))
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1, error
    assert re.search(pattern, error[0]), error[0]
    assert error[0].startswith("ntkgp: ")
    assert sorted(folder.rglob("*")) == before
    return error[0]


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_one_line(case, tmp_path, capsys):
    content, pattern = BAD[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    out = tmp_path / "model"
    message = refused(["fit", path, "--target", "y", "-o", out, *QUICK], pattern, capsys, tmp_path)
    if case not in ("few rows", "one class", "nothing to learn from", "dates for a target"):
        assert str(path) in message


def test_places_are_refused(tmp_path, capsys, monkeypatch):
    fit = ["--target", "y", "-o", tmp_path / "model", *QUICK]
    refused(["fit", tmp_path, *fit], r"is a directory", capsys, tmp_path)
    refused(["fit", tmp_path / "no.csv", *fit], r"no file .*no\.csv", capsys, tmp_path)
    path = tmp_path / "rows.csv"
    path.write_bytes(spoiled(1, "1,2,3"))
    to_nowhere = ["--target", "y", "-o", tmp_path / "no" / "model"]
    refused(["fit", path, *to_nowhere], r"there is no directory", capsys, tmp_path)
    onto_data = ["--target", "y", "-o", path]
    refused(["fit", path, *onto_data], r"is a file that is no model", capsys, tmp_path)

    def denied(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    refused(["fit", path, *fit], r"rows\.csv may not be read: permission denied", capsys, tmp_path)


SETTINGS = {
    "rows": (["--rows", "few"], r"--rows takes a number"),
    "share": (["--holdout", "0.9"], r"up to 0\.5"),
    "setting": (["--set", "widht=3"], r"GPRegressor has no such setting"),
    "no value": (["--set", "width"], r"--set takes NAME=VALUE"),
    "members of a law": (["--members", "3"], r"an exact law has no members"),
    "drop": (["--drop", "c"], r"must be column 'c'"),
    "time": (["--time", "c"], r"--time needs column 'c'"),
    "group": (["--group", "c"], r"--group needs column 'c'"),
    "classes": (["--task", "classification"], r"has 200 classes"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_impossible_settings_are_refused(case, tmp_path, capsys):
    more, pattern = SETTINGS[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(("\n".join(LINES) + "\n").encode())
    arguments = ["fit", path, "--target", "y", "-o", tmp_path / "model", *QUICK, *more]
    refused(arguments, pattern, capsys, tmp_path)


# Files that can be read.


def written(path):
    table = rents()
    plain = path.name.split(".")[1]
    if plain == "parquet":
        pq.write_table(table, path)
    elif plain in ("arrow", "feather"):
        pyarrow.feather.write_feather(table, str(path))
    elif plain == "stream":
        with pa.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table, max_chunksize=7)
    else:
        delimiter = {"tsv": "\t", "semicolon": ";"}.get(plain, ",")
        buffer = pa.BufferOutputStream()
        arrow_csv.write_csv(table, buffer, arrow_csv.WriteOptions(delimiter=delimiter))
        text = buffer.getvalue().to_pybytes()
        packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.Codec("zstd").compress}
        path.write_bytes(bytes(packers.get(path.suffix, bytes)(text)))
    return table


@pytest.mark.parametrize(
    "name",
    ["t.csv", "t.tsv", "t.semicolon", "t.csv.gz", "t.csv.bz2", "t.parquet", "t.arrow", "t.stream"],
)
def test_every_format_has_the_same_rows(name, tmp_path):
    expected = written(tmp_path / name)
    file = TableFile(tmp_path / name)
    table = file.read()
    assert file.column_names() == expected.column_names
    batches = pa.concat_tables(file.batches())
    for found in (table, batches):
        assert found.column("town").to_pylist() == expected.column("town").to_pylist()
        assert found.column("size").to_pylist() == pytest.approx(
            expected.column("size").to_pylist(), nan_ok=True
        )
        assert found.column("listed").cast("timestamp[s]") == expected["listed"].cast(
            "timestamp[s]"
        )
    assert file.read(["rent", "size"]).column_names == ["rent", "size"]


def test_a_byte_order_mark_and_latin_1_are_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\n1,Zürich\n".encode("utf-8-sig"))
    assert TableFile(path).read().to_pydict() == {"a": [1], "b": ["Zürich"]}
    path.write_bytes("a,b\n1,Zürich\n".encode("latin-1"))
    assert TableFile(path, "latin-1").read().to_pydict() == {"a": [1], "b": ["Zürich"]}
    path.write_bytes("a,b\n1,Zürich\n".encode("utf-16"))
    assert TableFile(path, "utf-16").read().to_pydict() == {"a": [1], "b": ["Zürich"]}


def test_quoted_lines_stay_together(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,"b,c"\n1,"two\nlines"\n2,x\n')
    assert TableFile(path).read().to_pydict() == {"a": [1, 2], "b,c": ["two\nlines", "x"]}


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), output.table_writer(path) as write:
        write(pa.table({"a": [1]}))
    assert path.read_text() == "old"
    assert [child.name for child in tmp_path.iterdir()] == ["out.csv"]
