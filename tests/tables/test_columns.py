"""Columns as numbers: against scikit-learn's transformers, and by rule."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from examples import rents
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from ntkgp.core.storage import pack, unpack
from ntkgp.tables.arrow import as_table
from ntkgp.tables.columns import RARE_SHARE, learned_category, learned_date, learned_number
from ntkgp.tables.features import (
    TableFeatures,
    first_word_among_numbers,
    require_columns,
    row_numbers,
)


def test_numbers_are_those_of_scikit_learn_s_imputer():
    train = np.array([1.0, 5.0, np.nan, 2.0, 9.0])
    new = np.array([np.nan, 3.0, np.nan])
    column = learned_number("a", pa.array(train))
    reference = SimpleImputer(strategy="median", add_indicator=True).fit(train[:, None])
    np.testing.assert_array_equal(column.encode(pa.array(new)), reference.transform(new[:, None]))


def test_categories_are_those_of_scikit_learn_s_encoder():
    """Rare levels and new ones share a flag; scikit-learn sorts levels by the alphabet."""
    rng = np.random.default_rng(0)
    train = rng.choice(["a", "b", "c", "d"], 1000, p=[0.5, 0.3, 0.195, 0.005])
    new = ["a", "d", "new", "c"]
    column = learned_category("x", pa.array(train), max_levels=30)
    reference = OneHotEncoder(
        min_frequency=RARE_SHARE, handle_unknown="infrequent_if_exist", sparse_output=False
    ).fit(train[:, None])
    assert column.names == ("x = a", "x = b", "x = c", "x = another")
    np.testing.assert_array_equal(
        column.encode(pa.array(new)), reference.transform(np.array(new)[:, None])
    )


def test_a_new_level_has_no_flag_where_training_had_no_others():
    column = learned_category("x", pa.array(["a", "b"] * 10), max_levels=30)
    np.testing.assert_array_equal(column.encode(pa.array(["new", None, "a"]))[:2], 0)


def test_many_levels_also_count():
    levels = [f"l{i}" for i in range(50) for _ in range(i + 1)]
    column = learned_category("x", pa.array(levels), max_levels=10)
    assert len(column.levels) == 10
    assert column.levels[0] == "l49"
    encoded = column.encode(pa.array(["l49", "l3", "new", "l0"]))
    np.testing.assert_allclose(encoded[:, -1], np.log([50, 4, 1, 1]))


def test_dates_have_days_and_cycles():
    days = np.arange("2020-01-01", "2022-01-01", dtype="datetime64[D]")
    column = learned_date("d", pa.array(days))
    assert column.cycles == ("time of year", "weekday")  # no time of day
    encoded = column.encode(pa.array(days))
    np.testing.assert_allclose(encoded[:, 0], np.arange(len(days)))
    np.testing.assert_allclose(encoded[0, 3:], encoded[7, 3:], atol=1e-9)  # a week later
    assert np.abs(encoded[0, 3:] - encoded[3, 3:]).max() > 0.5
    stamps = learned_date(
        "d", pa.array(["2020-01-01 06:00", "2020-01-02 18:00"]).cast("timestamp[s]")
    )
    assert "time of day" in stamps.cycles


def test_a_number_far_off_is_clipped_and_infinity_is_a_gap():
    column = learned_number("a", pa.array([0.0, 1.0, 2.0]))
    far = column.encode(pa.array([1e300, -np.inf]))
    assert 1e3 < far[0, 0] < 1e5
    assert far[1, 0] == 1.0


def test_what_is_left_out_is_said():
    n = 60
    table = rents(n).append_column("notes", pa.array([f"note {i}" for i in range(n)]))
    table = table.append_column("empty", pa.nulls(n)).append_column(
        "order_id", pa.array(range(7, 67))
    )
    table = table.append_column("list", pa.array([[1]] * n))
    features = TableFeatures.learned(table, drop=["dear"])
    dropped = {column.name: column.why for column in features.dropped}
    assert dropped.keys() == {"id", "country", "notes", "empty", "order_id", "list", "dear"}
    assert "60 different words" in dropped["notes"]
    assert dropped["id"] == dropped["order_id"] == "it numbers the rows"
    years = TableFeatures.learned(pa.table({"year": range(1900, 1960)}))
    assert years.needed == ["year"]  # distinct whole numbers may be measurements
    with pytest.raises(ValueError, match=r"no column.*country: every row has the same"):
        TableFeatures.learned(table.select(["country"]))


def test_every_kind_goes_into_a_file_and_back():
    table = rents()
    features = TableFeatures.learned(table)
    again = unpack(pack(features))
    np.testing.assert_array_equal(again.encode(table), features.encode(table))
    assert again.names == features.names


def test_frames_of_all_libraries_are_the_same():
    table = rents()
    features = TableFeatures.learned(table)
    expected = features.encode(table)
    shuffled = table.select(table.column_names[::-1]).append_column("extra", pa.nulls(60))
    frame = table.to_pandas().set_index(np.arange(60)[::-1])  # an index is no column
    for other in (frame, pl.from_arrow(table), shuffled, table.to_pydict()):
        np.testing.assert_array_equal(features.encode(as_table(other)), expected)
    assert TableFeatures.learned(as_table(frame)).names == features.names
    categorical = frame.assign(town=frame["town"].astype("category"))
    np.testing.assert_array_equal(features.encode(as_table(categorical)), expected)


def test_columns_that_are_missing_are_named():
    features = TableFeatures.learned(rents(), drop=["rent", "dear"])
    with pytest.raises(ValueError, match=r"needs columns 'size', 'town', and the table has 'lift'"):
        features.encode(rents().select(["lift", "listed"]))
    names = ["Town" if name == "town" else name for name in rents().column_names]
    with pytest.raises(ValueError, match="Did you mean 'Town'"):
        features.encode(rents().rename_columns(names))
    with pytest.raises(ValueError, match="size_2") as error:  # size_1 is used already
        require_columns(["size_1"], ["size_1", "size_2"])
    assert "Did you mean" not in str(error.value)


def test_a_column_of_another_type_is_named_with_its_first_value():
    features = TableFeatures.learned(rents())
    spoiled = rents().set_column(1, "size", pa.array(["40"] * 59 + ["forty"]))
    with pytest.raises(ValueError, match=r"'size' has numbers in training, and here 'forty'"):
        features.encode(spoiled)
    as_words = rents().set_column(1, "size", pa.array(["40"] * 60))
    assert (features.encode(as_words)[:, 0] == 40).all()
    with pytest.raises(ValueError, match=r"'listed' has dates"):
        features.encode(rents().set_column(4, "listed", pa.array(["soon"] * 60)))


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((3, 2)), [1, 2], "file.csv", pd.DataFrame({"a": [1, "b"]}), {"a": [1], "b": [1, 2]}],
    ids=["array", "list", "path", "mixed", "ragged"],
)
def test_what_is_no_table_is_refused_in_words(wrong):
    with pytest.raises(ValueError, match=r"the table cannot be read"):
        as_table(wrong)


def test_same_names_are_refused():
    with pytest.raises(ValueError, match=r"same name: 'a'"):
        as_table(pa.table([[1], [2]], names=["a", "a"]))


def test_numbers_that_turn_into_words_are_told_from_levels():
    numbers = [str(i) for i in range(100)]
    assert first_word_among_numbers(pa.array([*numbers, "x"]), 30) == (100, "x")
    assert first_word_among_numbers(pa.array([*numbers, None]), 30) is None
    assert first_word_among_numbers(pa.array(["0", "1", "3+"] * 40), 30) is None
    tickets = [f"A{n}" if i % 3 == 0 else n for i, n in enumerate(numbers)]
    assert first_word_among_numbers(pa.array(tickets), 30) is None


def test_whole_numbers_as_categories_are_the_same_words_with_and_without_gaps():
    column = learned_category("code", pa.array([1, 2] * 10), max_levels=30)
    with_gaps = pa.array([1.0, None, 2.0])
    np.testing.assert_array_equal(column.encode(with_gaps), [[1, 0], [0, 0], [0, 1]])


def test_a_cycle_varies_by_its_cosine_too():
    moments = [f"2020-01-0{day}T0{hour}:00:00" for day in (1, 2, 3) for hour in (3, 9)]
    column = learned_date("d", pa.array(np.array(moments, "datetime64[us]")))
    assert "time of day" in column.cycles  # 3 and 9 o'clock have the same sine


def test_row_numbers_are_found_on_the_whole_table():
    table = as_table({"line": np.arange(1, 41), "code": np.arange(40), "size": np.arange(40) % 7})
    assert list(row_numbers(table, categorical=["code"])) == ["line"]
    assert row_numbers(table.slice(3)) == {}
