"""The estimators of frames."""

import numpy as np
import pyarrow as pa
import pytest
from examples import rents
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import ntkgp
from ntkgp import GPClassifier, GPRegressor, TableClassifier, TableRegressor
from ntkgp.core.storage import pack, unpack
from ntkgp.tables.columns import CategoryColumn, DateColumn, NumberColumn
from ntkgp.tables.features import TableFeatures
from ntkgp.tables.targets import task_of


def gp(**options):
    return GPRegressor(activation="relu", optimizer=None, **options)


@pytest.fixture(scope="module")
def model():
    return TableRegressor(gp(), drop=["dear"]).fit(rents(), "rent")


def test_it_predicts_better_than_the_mean(model):
    new = rents(seed=1)
    rent = new["rent"].to_numpy()
    assert model.target_ == "rent"
    assert np.std(rent - model.predict(new)) < 0.6 * np.std(rent)
    mean, std = model.predict(new, return_std=True)
    low, high = model.predict(new, interval=0.9)
    assert (std > 0).all()
    assert ((low < mean) & (mean < high)).all()


def test_the_same_by_arrays_and_by_name(model):
    table = rents()
    by_array = TableRegressor(gp(), drop=["dear"]).fit(
        table.drop_columns(["rent"]).to_pandas(), table["rent"].to_numpy()
    )
    np.testing.assert_allclose(by_array.predict(table), model.predict(table))


def test_it_is_saved_and_loaded_whole(model, tmp_path):
    model.save(tmp_path / "model")
    again = ntkgp.load(tmp_path / "model")
    new = rents(seed=1)
    assert type(again) is TableRegressor
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.novelty(new), model.novelty(new))
    assert clone(again).get_params()["drop"] == ("dear",)


def test_parts_that_do_not_belong_together_are_refused(model):
    other = TableRegressor.__from_store__(model.__to_store__(), None)
    other.__check_stored__()
    other.features_ = TableFeatures(model.features_.columns[:2])
    with pytest.raises(ValueError, match="not those that its estimator was fitted to"):
        other.__check_stored__()


def test_novelty_is_about_usual_here_and_large_far_away(model):
    table = rents()
    assert np.mean(model.novelty(table) > 1) == pytest.approx(0.05, abs=0.02)
    far = table.set_column(1, "size", pa.array(np.full(60, 2000.0)))
    assert np.median(model.novelty(far)) > 3
    referred = TableRegressor(gp(), drop=["dear"]).fit(table, "rent").refer_to(far)
    assert np.mean(referred.novelty(far) > 1) == pytest.approx(0.05, abs=0.02)
    ten = far.slice(0, 10)  # too few to say what one row in twenty has: the largest is usual
    assert referred.refer_to(ten).novelty(ten).max() == pytest.approx(1)


def test_columns_of_a_prediction_add_up(model):
    found = model.predict_table(rents(), interval=0.9)
    assert list(found) == [
        "mean", "std", "low_90", "high_90", "epistemic_std", "noise_std", "novelty",
    ]  # fmt: skip
    np.testing.assert_allclose(
        found["std"] ** 2, found["epistemic_std"] ** 2 + found["noise_std"] ** 2
    )


def test_relevance_adds_up_to_one_and_finds_what_matters():
    kinds = ["dear", "listed", "lift"]
    learned = TableRegressor(GPRegressor(activation="relu", depth=1), drop=kinds).fit(
        rents(), "rent"
    )
    relevance = learned.relevance()
    assert sum(relevance.values()) == pytest.approx(1)
    assert next(iter(relevance)) in ("size", "town")
    assert list(relevance.values()) == sorted(relevance.values(), reverse=True)


def test_classes(tmp_path):
    table = rents().drop_columns(["rent"])
    model = TableClassifier(GPClassifier(noise_std=0.1)).fit(table, "dear")
    new = rents(seed=1)
    found = model.predict_table(new)
    assert list(found) == ["class", "p_cheap", "p_dear", "disagreement", "novelty"]
    np.testing.assert_allclose(found["p_cheap"] + found["p_dear"], 1)
    assert np.mean(found["class"] == np.array(new["dear"])) > 0.7
    assert (found["disagreement"] >= 0).all()
    assert model.relevance() is None
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(ntkgp.load(tmp_path / "model").predict(new), found["class"])


def test_it_goes_through_cross_validation():
    frame = rents().drop_columns(["dear"]).to_pandas()
    scores = cross_val_score(TableRegressor(gp()), frame.drop(columns="rent"), frame["rent"], cv=2)
    assert scores.mean() > 0.3


def test_wrong_targets_are_refused_in_words():
    table = rents()
    with pytest.raises(ValueError, match=r"no target: it must be column 'price'"):
        TableRegressor(gp()).fit(table, "price")
    with pytest.raises(ValueError, match=r"'dear' has values of type string.*TableClassifier"):
        TableRegressor(gp()).fit(table, "dear")
    with pytest.raises(ValueError, match=r"missing in 7 rows"):
        TableRegressor(gp()).fit(table, "size")
    with pytest.raises(ValueError, match=r"missing in 6 rows"):
        TableClassifier(GPClassifier()).fit(table, "town")
    with pytest.raises(ValueError, match=r"no rows"):
        TableRegressor(gp()).fit(table.slice(0, 0), "rent")


def test_targets_without_a_value_or_a_unit_are_refused():
    table = pa.table({"a": np.arange(8) % 3 + 0.5, "y": ["", "no", "yes", "no"] * 2})
    with pytest.raises(ValueError, match="missing in 2 rows"):
        TableClassifier(GPClassifier()).fit(table, "y")
    for type_ in (pa.duration("s"), pa.time32("s")):
        whole = pa.array(range(8), f"int{type_.bit_width}")
        spans = table.set_column(1, "y", whole.cast(type_))
        with pytest.raises(ValueError, match="a regressor needs numbers"):
            TableRegressor(gp()).fit(spans, "y")
        with pytest.raises(ValueError, match="numbers or classes are needed"):
            task_of("y", spans["y"].combine_chunks())
        with pytest.raises(ValueError, match="are no classes"):
            TableClassifier(GPClassifier()).fit(spans, "y")


def test_columns_of_another_model_are_taken_as_they_are(model):
    again = TableRegressor(gp()).fit(rents(seed=1), "rent", features=model.features_)
    assert again.features_ is model.features_
    assert again.estimator_.n_features_in_ == len(model.features_.names)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("usual_doubt_", np.inf, "usual_doubt_"),
        ("usual_doubt_", 0.0, "usual_doubt_"),
        ("summary_", [], "summary_"),
        ("target_", 3, "target_"),
        ("target_read_as_", "nonsense", "nonsense"),
        ("feature_names_in_", np.array(["a"], dtype=object), "feature_names_in_"),
    ],
)
def test_parts_that_no_fit_makes_are_refused(name, value, message, model):
    stored = model.__to_store__()
    stored["fitted"][name] = value
    with pytest.raises((TypeError, ValueError), match=message):
        TableRegressor.__from_store__(stored, None).__check_stored__()


def test_a_file_without_a_part_is_refused(model):
    stored = model.__to_store__()
    del stored["fitted"]["target_"]
    with pytest.raises(ValueError, match="lacks target_"):
        TableRegressor.__from_store__(stored, None)


@pytest.mark.parametrize(
    "column",
    [
        NumberColumn("a", float("nan"), 0.0, 1.0, False),
        NumberColumn("a", 0.5, 0.0, 1.0, False, "nonsense"),
        CategoryColumn("a", ("x",), False, False, ("x", "y"), np.zeros(1)),
        CategoryColumn("a", ("x",), False, False, ("x", "y")),
        DateColumn("a", 0, 0, ("moon",), False),
    ],
)
def test_columns_that_training_cannot_make_are_refused(column):
    with pytest.raises(ValueError, match=r"column 'a'|log_counts"):
        unpack(pack(TableFeatures((column,))))


def test_features_without_columns_are_refused():
    for columns in ((), ("a",)):
        with pytest.raises(ValueError, match="no columns of a table"):
            unpack(pack(TableFeatures(columns)))
