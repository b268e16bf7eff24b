"""Whatever table is thrown at an estimator, it predicts finite numbers or says what is wrong with it."""

import re
import warnings
from contextlib import contextmanager
from functools import cache

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import DataConversionWarning

from ntkgp import EnsembleClassifier, EnsembleRegressor, GPClassifier, GPRegressor

TINY = {"members": 2, "width": 4, "depth": 1, "min_steps": 5, "min_epochs": 1, "random_state": 0}
GPS = [
    GPRegressor(activation="relu", depth=1, random_state=0),
    GPClassifier(activation="relu", depth=1, random_state=0),
]
ENSEMBLES = [EnsembleRegressor(activation="relu", **TINY), EnsembleClassifier(**TINY)]
MODELS = GPS + ENSEMBLES
REGRESSOR_AND_SLOW_CLASSIFIER = [GPS[0], pytest.param(GPS[1], marks=pytest.mark.slow)]
CLASSIFIER_AND_SLOW_REGRESSOR = [GPS[1], pytest.param(GPS[0], marks=pytest.mark.slow)]
GPS_AND_SLOW_ENSEMBLES = GPS + [pytest.param(m, marks=pytest.mark.slow) for m in ENSEMBLES]


def name_of(model):
    return type(model).__name__


# Tables by kind. Few shapes, because each is compiled anew.


def normal(n, d):
    return np.random.default_rng([n, d]).normal(size=(n, d))


def with_entry(value, dtype=float):
    """Normal numbers but for the last entry."""

    def table(n, d):
        x = normal(n, d).astype(dtype)
        x[-1:, -1:] = value
        return x

    return table


def mixed_frame(n, d):
    return pd.DataFrame({"number": np.arange(n), "word": list("abcdefgh" * 3)[:n]})


TABLES = {
    "normal": normal,
    "list": lambda n, d: normal(n, d).tolist(),
    "tuple of rows": lambda n, d: tuple(map(tuple, normal(n, d))),
    "NaN": with_entry(np.nan),
    "infinite": with_entry(np.inf),
    "minus infinite": with_entry(-np.inf),
    "an outlier of 1e30": with_entry(1e30),
    "an outlier of 1e300": with_entry(1e300),
    "an entry of 1e-300": with_entry(1e-300),
    "None": with_entry(None, object),
    "an object": with_entry(object(), object),
    "a word": with_entry("word", object),
    "pd.NA": with_entry(pd.NA, object),
    "numbers as objects": lambda n, d: normal(n, d).astype(object),
    "numbers as strings": lambda n, d: normal(n, d).astype(str),
    "words": lambda n, d: np.full((n, d), "word"),
    "bytes": lambda n, d: np.full((n, d), b"word"),
    "dates": lambda n, d: np.full((n, d), np.datetime64("2020-01-01")),
    "zeros": lambda n, d: np.zeros((n, d)),
    "ones": lambda n, d: np.ones((n, d)),
    "constant 1e30": lambda n, d: np.full((n, d), 1e30),
    "constant -1e-30": lambda n, d: np.full((n, d), -1e-30),
    "all but constant": lambda n, d: 1e3 + 1e-12 * normal(n, d),
    "times 1e30": lambda n, d: 1e30 * normal(n, d),
    "times 1e-30": lambda n, d: 1e-30 * normal(n, d),
    "times 1e300": lambda n, d: 1e300 * normal(n, d),
    "times 1e-310": lambda n, d: 1e-310 * normal(n, d),
    "far from zero": lambda n, d: 1e12 + normal(n, d),
    "rows twice": lambda n, d: np.repeat(normal(n, d), 2, axis=0)[:n],
    "one row throughout": lambda n, d: np.repeat(normal(1, d), n, axis=0),
    "complex": lambda n, d: normal(n, d) * 1j,
    "ragged": lambda n, d: [[0.0] * (d + i % 2) for i in range(n)],
    "masked": lambda n, d: np.ma.masked_less(normal(n, d), 0),
    "masked nowhere": lambda n, d: np.ma.array(normal(n, d)),
    "a vector": lambda n, d: normal(n, 1)[:, 0],
    "a number": lambda n, d: 3.0,
    "a string": lambda n, d: "table",
    "nothing": lambda n, d: None,
    "a dictionary": lambda n, d: {"a": [1.0] * n},
    "a set": lambda n, d: {1.0, 2.0},
    "images of no pixels": lambda n, d: np.zeros((n, 0, 2, 1)),
    "images": lambda n, d: normal(n, 4 * d).reshape(n, 2, 2, d),
    "sparse": lambda n, d: sparse.csr_matrix(normal(n, d)),
    "sparse array": lambda n, d: sparse.csr_array(normal(n, d)),
    "a matrix in Fortran's order": lambda n, d: np.asfortranarray(normal(n, d)),
    "every second row": lambda n, d: normal(2 * n, d)[::2],
    "read only": lambda n, d: np.lib.stride_tricks.as_strided(normal(n, d), writeable=False),
    "big-endian": lambda n, d: normal(n, d).astype(">f8"),
    "long double": lambda n, d: normal(n, d).astype(np.longdouble),
    "pandas": lambda n, d: pd.DataFrame(normal(n, d), columns=list("abc")[:d]),
    "pandas, mixed": mixed_frame,
    "pandas, categories": lambda n, d: mixed_frame(n, d).astype({"word": "category"}),
    "pandas, nullable": lambda n, d: pd.DataFrame(
        {"a": pd.array([1, None, 3][:n] * (n // 3 or 1), "Int64")}
    ),
    "pandas, names that are numbers": lambda n, d: pd.DataFrame(normal(n, d)),
    "pandas, names of two types": lambda n, d: pd.DataFrame(
        normal(n, d), columns=["a", 1, "c"][:d]
    ),
    "polars": lambda n, d: pl.DataFrame(normal(n, d), schema=list("abc")[:d], orient="row"),
    "polars, mixed": lambda n, d: pl.DataFrame(mixed_frame(n, d).to_dict("list")),
    "polars, null": lambda n, d: pl.DataFrame({"a": [None, *range(n - 1)]}),
    "a JAX array": lambda n, d: jax.numpy.asarray(normal(n, d)),
    **{
        dtype: (lambda n, d, dtype=dtype: np.abs(3 * normal(n, d)).astype(dtype))
        for dtype in ("float16", "float32", "int8", "uint8", "int64", "bool")
    },
    "float16 at its limits": lambda n, d: np.full((n, d), 65504, np.float16) * (-1) ** np.arange(d),
}


def alternating(n):
    return np.arange(n) % 2


def with_target(value, dtype=float):
    def targets(n):
        y = alternating(n).astype(dtype)
        y[-1:] = value
        return y

    return targets


TARGETS = {
    "0 and 1": alternating,
    "normal": lambda n: normal(n, 1)[:, 0],
    "list": lambda n: alternating(n).tolist(),
    "booleans": lambda n: alternating(n) == 1,
    "words": lambda n: np.array(["cat", "mouse"])[alternating(n)],
    "words as objects": lambda n: np.array(["cat", "mouse"], dtype=object)[alternating(n)],
    "words and numbers": lambda n: np.array(["cat", 1], dtype=object)[alternating(n)],
    "bytes": lambda n: np.array([b"cat", b"mouse"])[alternating(n)],
    "dates": lambda n: np.array(["2020-01-01", "2021-01-01"], "M8[s]")[alternating(n)],
    "zeros": lambda n: np.zeros(n),
    "constant": lambda n: np.full(n, 7),
    "constant 1e30": lambda n: np.full(n, 1e30),
    "times 1e30": lambda n: 1e30 * alternating(n),
    "times 1e-30": lambda n: 1e-30 * alternating(n),
    "times 1e300": lambda n: 1e300 * alternating(n),
    "times 1e-310": lambda n: 1e-310 * alternating(n),
    "an outlier": with_target(1e30),
    "NaN": with_target(np.nan),
    "infinite": with_target(np.inf),
    "None": with_target(None, object),
    "an object": with_target(object(), object),
    "nothing": lambda n: None,
    "a number": lambda n: 3.0,
    "a column": lambda n: alternating(n)[:, None],
    "two columns": lambda n: np.stack([alternating(n), normal(n, 1)[:, 0]], axis=1),
    "no columns": lambda n: np.zeros((n, 0)),
    "a cube": lambda n: np.zeros((n, 2, 2)),
    "one too many": lambda n: alternating(n + 1),
    "one too few": lambda n: alternating(max(n - 1, 0)),
    "none at all": lambda n: np.zeros(0),
    "ragged": lambda n: [[0.0] * (1 + i % 2) for i in range(n)],
    "complex": lambda n: alternating(n) * 1j,
    "masked": lambda n: np.ma.masked_equal(alternating(n), 1),
    "masked nowhere": lambda n: np.ma.array(alternating(n)),
    "sparse": lambda n: sparse.csr_matrix(alternating(n)[:, None]),
    "pandas": lambda n: pd.Series(alternating(n)),
    "pandas, categories": lambda n: pd.Series(
        np.array(["cat", "mouse"])[alternating(n)], dtype="category"
    ),
    "pandas, nullable": lambda n: pd.Series([None, *alternating(n)][:n], dtype="Int64"),
    "polars": lambda n: pl.Series(alternating(n)),
    "float16": lambda n: alternating(n).astype(np.float16),
    "uint8": lambda n: (255 * alternating(n)).astype(np.uint8),
}


# What must come of them.

NAMES_AN_ARGUMENT = re.compile(r"\b(X|y|[Ii]nput|[Ff]eature names|label|labels)\b")
OBSCURE = re.compile(
    r"jit|[Tt]racer|XLA|broadcast|LinAlg|operand|zero-size|Type-check|beartype|has no attribute"
    r"|not subscriptable|unsupported operand|not supported between|division by zero"
)


@contextmanager
def words_or_nothing():
    """Lets errors in words pass, and no warnings but three of scikit-learn's own."""
    refusal = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataConversionWarning)  # y is one column
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        warnings.filterwarnings("ignore", "X has feature names, but .* was fitted without")
        try:
            yield
        except (ValueError, TypeError) as error:
            refusal = error
    if refusal is not None:
        assert type(refusal) in (ValueError, TypeError), refusal
        assert NAMES_AN_ARGUMENT.search(str(refusal)), f"names no argument: {refusal}"
        assert not OBSCURE.search(str(refusal)), f"obscure: {refusal}"


def assert_sound(model, X):
    """Finite means with positive standard deviations, or probabilities and known classes."""
    if is_classifier(model):
        probabilities = model.predict_proba(X)
        assert (probabilities >= 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-9)
        assert np.isin(model.predict(X), model.classes_).all()
    else:
        mean, std = model.predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std > 0).all()


def fit_and_predict(model, X, y):
    with words_or_nothing():
        assert_sound(clone(model).fit(X, y), X)


def examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", GPS, ids=name_of)
@given(
    table=st.sampled_from(list(TABLES)),
    targets=st.sampled_from(list(TARGETS)),
    n=st.sampled_from([0, 1, 2, 3, 24]),
    d=st.sampled_from([0, 1, 2]),
)
@examples(100)
def test_any_table_and_any_targets(model, table, targets, n, d):
    fit_and_predict(model, TABLES[table](n, d), TARGETS[targets](n))


@pytest.mark.slow
@pytest.mark.parametrize("model", ENSEMBLES, ids=name_of)
@given(
    table=st.sampled_from(list(TABLES)),
    targets=st.sampled_from(list(TARGETS)),
    n=st.sampled_from([2, 24]),
)
@examples(40)
def test_any_table_and_any_targets_for_ensembles(model, table, targets, n):
    fit_and_predict(model, TABLES[table](n, 2), TARGETS[targets](n))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("model", REGRESSOR_AND_SLOW_CLASSIFIER, ids=name_of)
def test_every_table_with_good_targets(model, table):
    """All of them, because few examples have a bad table and good targets."""
    fit_and_predict(model, TABLES[table](24, 2), alternating(24))


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("model", CLASSIFIER_AND_SLOW_REGRESSOR, ids=name_of)
def test_every_kind_of_targets_with_a_good_table(model, targets):
    fit_and_predict(model, normal(24, 2), TARGETS[targets](24))


@cache
def fitted(model):
    return clone(model).fit(normal(24, 2), alternating(24))


@pytest.mark.quick("GPRegressor", "GPClassifier")
@pytest.mark.parametrize("model", MODELS, ids=name_of)
@given(
    table=st.sampled_from(list(TABLES)),
    n=st.sampled_from([0, 1, 24]),
    d=st.sampled_from([0, 1, 2, 3]),
)
@examples(100)
def test_any_table_at_prediction(model, table, n, d):
    X = TABLES[table](n, d)
    with words_or_nothing():
        assert_sound(fitted(model), X)


@pytest.mark.quick("*-GP*")
@pytest.mark.parametrize("model", MODELS, ids=name_of)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_a_sparse_table_at_prediction_is_refused_in_one_line(model, kind):
    X = normal(24, 2)
    with pytest.raises(TypeError, match=r"^X is sparse, and must be dense: use X\.toarray\(\)\.$"):
        fitted(model).predict(kind(X))
    assert_sound(fitted(model), kind(X).toarray())  # what the error says to do


@pytest.mark.slow
@given(
    X=st.lists(st.lists(st.floats(width=64), min_size=2, max_size=2), min_size=3, max_size=3),
    y=st.lists(st.floats(width=64), min_size=3, max_size=3),
)
@examples(100)
def test_any_numbers(X, y):
    """Of any size, subnormal and infinite ones among them."""
    fit_and_predict(GPS[0], X, y)


# What the property cannot say.


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("NaN", "Input X contains NaN"),
        ("infinite", "Input X contains infinity"),
        ("words", "X cannot be used: could not convert string"),
        ("sparse", r"^X is sparse, and must be dense: use X\.toarray\(\)\.$"),
        ("complex", "X cannot be used: Complex data"),
        ("ragged", "X cannot be used: .*inhomogeneous"),
        ("a vector", "X cannot be used: Expected 2D array"),
        ("masked", "X has masked entries"),
        ("times 1e300", "X has values up to .*Rescale"),
        ("times 1e-310", "X has values of .*Rescale"),
        ("images", "X has shape"),
        ("images of no pixels", "X has examples of shape.*no numbers"),
    ],
)
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_which_tables_are_refused(model, table, words):
    with pytest.raises((ValueError, TypeError), match=words):
        clone(model).fit(TABLES[table](24, 2), alternating(24))


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ("NaN", "Input y contains NaN"),
        ("infinite", "Input y contains infinity"),
        ("None", "y contains NaN, None|Unknown label type"),
        ("nothing", "y to be passed"),
        ("one too many", r"inconsistent numbers of samples: \[24, 25\]"),
        ("a cube", "y cannot be used: Found array with dim 3"),
        ("no columns", r"y cannot be used: Found array with 0 feature\(s\)"),
        ("sparse", r"^y is sparse, and must be dense: use y\.toarray\(\)\.$"),
        ("complex", "y cannot be used: Complex data"),
        ("ragged", "y cannot be used: .*inhomogeneous"),
        ("masked", "y has masked entries"),
        ("times 1e300", "y has values up to|y has classes too large"),
        ("words and numbers", "y has strings and other|y cannot be used: could not convert"),
    ],
)
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_which_targets_are_refused(model, targets, words):
    with pytest.raises((ValueError, TypeError), match=words):
        clone(model).fit(normal(24, 2), TARGETS[targets](24))


def test_regressors_need_numbers_and_classifiers_classes():
    for model in MODELS:
        X, words, two = normal(24, 2), TARGETS["words"](24), TARGETS["two columns"](24)
        if is_classifier(model):
            with pytest.raises(ValueError, match="Unknown label type: continuous"):
                clone(model).fit(X, TARGETS["normal"](24))
            with pytest.raises(ValueError, match="y should be a 1d array"):
                clone(model).fit(X, two)
            with pytest.raises(ValueError, match="y must have at least two classes"):
                clone(model).fit(X, np.ones(24))
        else:
            for named in (words, TARGETS["dates"](24)):
                with pytest.raises(ValueError, match="y must be numbers"):
                    clone(model).fit(X, named)


@pytest.mark.quick("GPClassifier")
@pytest.mark.parametrize("model", GPS_AND_SLOW_ENSEMBLES, ids=name_of)
def test_kinds_of_arrays_with_the_same_numbers_are_the_same_table(model):
    """float16 as float64, for one: nothing is computed in the dtype of the input."""
    X = normal(24, 2).astype(np.float16)
    reference = clone(model).fit(X.astype(float), alternating(24)).predict(X.astype(float))
    kinds = [X, X.tolist(), X.astype(object), pd.DataFrame(X), X.astype(np.longdouble)]
    for table in kinds:
        again = clone(model).fit(table, alternating(24)).predict(table)
        np.testing.assert_allclose(again, reference, rtol=1e-5, atol=1e-5)
    other = clone(model).fit(1 + X**2, alternating(24))
    assert is_classifier(model) or not np.allclose(other.predict(1 + X**2), reference, atol=1e-3)


REGRESSORS = [model for model in MODELS if not is_classifier(model)]


@pytest.mark.parametrize("value", [0.0, 7.0, -1e30, 1e-30])
@pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
def test_constant_targets_come_back(model, value):
    """With a standard deviation that is small beside the constant, or beside 1 for zero."""
    X = normal(24, 2)
    model = clone(model).fit(X, np.full(24, value))
    mean, std = model.predict(X, return_std=True)
    size = abs(value) or 1.0
    assert np.abs(mean - value).max() < 0.1 * size
    assert (std > 0).all()
    assert std.max() < 0.1 * size


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_rows_twice_with_contradicting_targets(model):
    """The mean lies between them, and the noise covers both."""
    X, y = np.repeat(normal(12, 2), 2, axis=0), alternating(24)
    model = clone(model).fit(X, y)
    assert_sound(model, X)
    if isinstance(model, GPRegressor):
        mean, std = model.predict(X, return_std=True)
        assert np.abs(mean - 0.5).max() < 0.2
        assert (np.abs(mean - 0.5) + std > 0.4).all()
    if isinstance(model, GPClassifier):
        assert np.abs(model.predict_proba(X) - 0.5).max() < 0.2


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_units_do_not_matter(model, scale):
    """A model of scale · X and scale · y predicts scale times what one of X and y does.

    Up to rounding, which differs: the search for the prior ends elsewhere by 1e-6, and a thousand steps of
    training make that 1e-4 to 1e-3 of the targets' size.
    """
    X, y = normal(24, 2), normal(24, 2) @ [1.0, -0.5]
    if is_classifier(model):
        y = (y > 0).astype(int)
        expected = clone(model).fit(X, y).predict_proba(X)
        scaled = clone(model).fit(scale * X, y).predict_proba(scale * X)
        np.testing.assert_allclose(scaled, expected, rtol=1e-4, atol=1e-5)
        return
    expected = clone(model).fit(X, y).predict(X, return_std=True)
    scaled = clone(model).fit(scale * X, scale * y).predict(scale * X, return_std=True)
    for got, wanted in zip(scaled, expected, strict=True):
        np.testing.assert_allclose(got / scale, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_row_far_from_all_training_rows_is_refused(model):
    X = normal(24, 2)
    far = X.copy()
    far[5, 1] = X[:, 1].mean() + 1e9 * X[:, 1].std()
    with pytest.raises(ValueError, match=r"X has a value more than 1e\+06 training.*row 5"):
        fitted(model).predict(far)
    far[5, 1] = X[:, 1].mean() + 1e5 * X[:, 1].std()
    assert_sound(fitted(model), far)


def test_the_property_can_fail():
    """The control: errors without words, without a name, of other types, and warnings."""
    bad = [
        ValueError("operands of X could not be broadcast"),
        ValueError("wrong shape"),
        KeyError("X"),
        np.linalg.LinAlgError("X is singular"),
        RuntimeWarning("X overflows"),
    ]
    for error in bad:
        with pytest.raises((AssertionError, KeyError, RuntimeWarning)), words_or_nothing():
            raise error
    with words_or_nothing():
        raise ValueError("X has no rows")


def test_one_row_is_refused_and_few_are_warned_of():
    for model in REGRESSORS:
        with pytest.raises(ValueError, match="two rows or more"):
            clone(model).fit([[1.0, 2.0]], [3.0])
        with pytest.raises(ValueError, match="two rows or more"):
            clone(model).fit([[1.0, 2.0], [2.0, 1.0]], [3.0, 4.0], [1.0, 0.0])
        with pytest.warns(UserWarning, match="2 rows do not say"):
            model = clone(model).fit([[1.0, 2.0], [2.0, 1.0]], [3.0, 4.0])
        assert_sound(model, [[1.0, 2.0], [5.0, 0.0]])
