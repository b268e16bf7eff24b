"""Bad files of rows are refused in words that name the file, the row group and the column."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ntkgp import ArrayRows, NotEnoughMemory, ParquetRows, StandardisedRows
from ntkgp.core import memory
from ntkgp.core.rows import checked_block, surveyed

GOOD = {"a": np.arange(10.0), "b": np.arange(10), "y": np.linspace(0, 1, 10)}


def written(folder, **columns):
    path = folder / "rows.parquet"
    pq.write_table(pa.table(GOOD | columns), path, row_group_size=4)
    return path


def read_all(path, inputs=("a", "b"), target="y"):
    rows = ParquetRows(path, inputs, target)
    return [rows.read(block) for block in range(len(rows.lengths))]


def at(row, value):
    values = list(GOOD["a"])
    values[row] = value
    return values


def test_integers_booleans_and_several_targets_are_read(tmp_path):
    path = written(tmp_path, b=np.arange(10) % 2 == 0)
    x, y = read_all(path, ["b"], ["y", "a"])[1]
    np.testing.assert_array_equal(x, [[1], [0], [1], [0]])
    np.testing.assert_array_equal(y[:, 1], [4, 5, 6, 7])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"a": at(5, np.nan)},
            r"column 'a' in row group 1 of .*rows.parquet has nan, first in its row 1\.",
        ),
        ({"a": at(9, None)}, r"column 'a' in row group 2 .* missing value, first in its row 1"),
        ({"a": ["x"] * 10}, r"column 'a' of .*rows.parquet must hold numbers; it holds string"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(columns, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        read_all(written(tmp_path, **columns))


@pytest.mark.parametrize(
    "times", [1_700_000_000 + np.arange(10), 20_240_101.0 + np.arange(10)], ids=["seconds", "dates"]
)
def test_numbers_beyond_float32_are_standardised_as_they_are(times, tmp_path):
    rows = StandardisedRows.of(ParquetRows(written(tmp_path, a=times), ["a"], "y"))
    np.testing.assert_allclose(rows.x_std, np.std(np.arange(10)), rtol=1e-12)
    x = np.concatenate([rows.read(block)[0] for block in range(3)])
    np.testing.assert_allclose(x[:, 0], (np.arange(10) - 4.5) / rows.x_std, rtol=1e-6)


def test_short_types_stay_float32(tmp_path):
    path = written(tmp_path, a=np.arange(10, dtype=np.int16), b=np.ones(10, np.float16))
    x, y = read_all(path)[0]
    assert (x.dtype, y.dtype) == (np.float32, np.float64)


def test_numbers_that_float32_cannot_hold_are_refused_when_they_are_trained_on(tmp_path):
    rows = ParquetRows(written(tmp_path, a=at(5, 1e300)), ["a", "b"], "y")
    with pytest.raises(ValueError, match="x in block 1 has entries too large for float32"):
        checked_block(rows, 1, (2,), 1)


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_paths_are_those_of_where_the_rows_were_made(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    np.save("x.npy", np.arange(20.0).reshape(10, 2))
    sources = {
        "parquet": lambda: ParquetRows(["rows.parquet"], ["a", "b"], "y"),
        "npy": lambda: ArrayRows("x.npy", np.arange(10.0), blocks=4),
    }
    rows = sources[kind]()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for source in (rows, pickle.loads(pickle.dumps(rows))):
        assert source.lengths == (4, 4, 2)
        assert source.read(1)[0].shape == (4, 2)


def test_files_that_change_between_passes_are_refused(tmp_path):
    path, maps = written(tmp_path), tmp_path / "x.npy"
    np.save(maps, np.zeros((10, 2)))
    sources = (ParquetRows(path, ["a", "b"], "y"), ArrayRows(maps, np.zeros(10), blocks=4))
    for rows in sources:
        rows.read(0)
    written(tmp_path, a=np.arange(10.0) + 1)  # as many rows and bytes
    np.save(maps, np.ones((10, 2)))
    for rows in sources:
        with pytest.raises(ValueError, match="has changed since it was opened first"):
            rows.read(1)


def test_workers_that_see_other_files_are_refused(tmp_path):
    rows = ParquetRows(tmp_path, ["a", "b"], "y")
    path = written(tmp_path)
    survey = surveyed(rows, (2,), 1)
    survey.check(pickle.loads(pickle.dumps(rows)))
    path.with_name("more.parquet").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"20 in 6 blocks; .* they were 10 in 3"):
        survey.check(pickle.loads(pickle.dumps(rows)))


def test_standardising_says_which_block_is_bad_and_forecasts_memory(monkeypatch):
    x = np.zeros((10, 2))
    x[9] = np.nan
    with pytest.raises(
        ValueError, match="x in block 2 has NaN or infinite entries, first in row 1"
    ):
        StandardisedRows.of(ArrayRows(x, np.zeros(10), blocks=4))
    with pytest.raises(ValueError, match="beyond float64"):
        StandardisedRows.of(ArrayRows(1e300 * np.arange(8.0)[:, None], np.zeros(8)))
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    with pytest.raises(NotEnoughMemory, match="blocks of up to 4 rows of 3 numbers"):
        StandardisedRows.of(ArrayRows(np.zeros((10, 2)), np.zeros(10), blocks=4))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    path = written(tmp_path)
    with pytest.raises(ValueError, match=r"no column 'c'; it has 'a', 'b', 'y'"):
        read_all(path, ["a", "c"])
    with pytest.raises(ValueError, match="named twice"):
        read_all(path, ["a", "y"])
    with pytest.raises(TypeError, match="list of names"):
        read_all(path, "a")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_all(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \*.parquet file"):
        read_all(tmp_path / "empty")
    whole = path.read_bytes()
    for cut in (whole[:-20], whole[: len(whole) // 2], b"", b"PAR1"):
        path.write_bytes(cut)
        with pytest.raises(ValueError, match=r"rows.parquet cannot be read: .* cut short"):
            read_all(path)
    damaged = bytearray(whole)
    damaged[4:40] = bytes(36)  # the first page's header
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"row group 0 of .*rows.parquet cannot be read"):
        read_all(path)
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), path)
    with pytest.raises(ValueError, match="has no rows"):
        read_all(path, ["a"], [])


def test_maps_that_are_none_are_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x cannot be mapped from .*x.npy"):
        _ = ArrayRows(path, np.zeros(1)).lengths
    np.save(path, np.zeros((40, 2)))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match="x cannot be mapped"):
        _ = ArrayRows(path, np.zeros(40)).lengths
    np.save(path, np.zeros((40, 2)))
    path.write_bytes(
        path.read_bytes().replace(b"}", b"(", 1)
    )  # NumPy's parser has errors of its own
    with pytest.raises(ValueError, match="x cannot be mapped"):
        _ = ArrayRows(path, np.zeros(40)).lengths
    for content in (b"PK\x03\x04", None):
        np.savez(path.with_suffix(".npz"), x=np.zeros((40, 2)))
        if content:
            path.with_suffix(".npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"x cannot be mapped .*Give an \.npy file of numbers"):
            _ = ArrayRows(path.with_suffix(".npz"), np.zeros(40)).lengths
    with pytest.raises(ValueError, match="one row for each example"):
        _ = ArrayRows(np.zeros((3, 1)), np.zeros(4)).lengths
