"""Which values go into files: registered classes by their fields, and nothing else."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import ntkgp
from ntkgp import GPRegressor, storable
from ntkgp.core import storage
from ntkgp.core.storage import Packed, is_storable, load, pack, save, unpack


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Classes that a test registers are gone after it."""
    monkeypatch.setattr(storage, "_CLASSES", dict(storage._CLASSES))


def through_json(value):
    packed = pack(value)
    return unpack(Packed(json.loads(json.dumps(packed.plain)), packed.arrays))


def test_a_dataclass_and_a_named_tuple_come_back_by_their_fields():
    @storable
    @dataclass(frozen=True)
    class Box:
        size: float
        inside: object = None

    @storable
    class Pair(NamedTuple):
        first: int
        second: Box

    value = Pair(1, Box(float("inf"), [Box(2.0), (Path("a/b"), {"c": None})]))
    again = through_json(value)
    assert again == value
    assert type(again) is Pair
    assert type(again.second.inside[1][0]) is type(Path())


def test_an_array_in_two_places_is_kept_once():
    x = np.arange(3.0)
    packed = pack({"a": x, "b": [x], "c": x.copy()})
    assert len(packed.arrays) == 2
    again = unpack(packed)
    assert again["a"] is again["b"][0]


def test_a_class_of_its_own_stored_form():
    @storable
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

        def __to_store__(self):
            return {"kelvin": self.degrees + 273.0}

        @classmethod
        def __from_store__(cls, stored, network):
            assert network == "given"
            return cls(stored["kelvin"] - 273.0)

    assert unpack(pack(Celsius(20.0)), "given").degrees == 20.0


def test_a_constructor_s_own_checks_run():
    packed = pack(ntkgp.layers.Dense(3))
    packed.plain["fields"]["width"] = -3
    with pytest.raises(ValueError, match="Dense needs at least one"):
        unpack(packed)


@pytest.mark.parametrize("of", ["method", "layer", "noise", "subclass", "named tuple", "enum"])
def test_what_is_not_registered_is_refused_and_the_remedy_named(of):
    class Plain(NamedTuple):
        a: int

    class Wider(ntkgp.layers.Dense):
        pass

    class Number(int):
        pass

    value = {
        "method": lambda x: x,
        "layer": ntkgp.layers.Layer,
        "noise": object(),
        "subclass": Wider(3),
        "named tuple": Plain(1),
        "enum": Number(3),
    }[of]
    with pytest.raises(TypeError, match=r"cannot be saved.*@ntkgp\.storable"):
        pack([value])
    assert not is_storable(value)


def test_keys_must_be_strings():
    """JSON would make strings of numbers."""
    with pytest.raises(TypeError, match="cannot be saved"):
        pack({1: "a"})


def test_two_classes_of_one_name_are_refused():
    def other():
        @storable
        class Dense(NamedTuple):
            width: int

    with pytest.raises(
        ValueError, match=r"two storable classes have the name Dense.*ntkgp.*Rename"
    ):
        other()
    assert through_json(ntkgp.layers.Dense(3)) == ntkgp.layers.Dense(3)


def test_a_cell_of_a_notebook_may_be_run_again():
    def cell():
        @storable
        class Mine(NamedTuple):
            a: int

        return Mine

    old, new = cell(), cell()
    assert type(through_json(new(1))) is new
    with pytest.raises(TypeError, match="cannot be saved"):
        pack([old(1)])


def test_only_records_are_storable():
    class Loose:
        pass

    @dataclass
    class Mutable:
        a: int

    @dataclass(frozen=True, init=False)
    class Otherwise:
        a: int

        def __init__(self, b):
            object.__setattr__(self, "a", b)

    for kind in (Loose, Mutable, Otherwise):
        with pytest.raises(TypeError, match=f"{kind.__name__} cannot be storable.*frozen"):
            storable(kind)


def test_any_value_can_be_a_file(tmp_path):
    save({"a": (1, np.eye(2))}, tmp_path)
    (one, matrix) = load(tmp_path)["a"]
    assert one == 1
    np.testing.assert_array_equal(matrix, np.eye(2))


def test_a_layer_of_the_user_s_own_is_saved_only_if_it_is_storable(tmp_path):
    @dataclass(frozen=True)
    class Twice(ntkgp.layers.Layer):
        def out_shape(self, in_shape):
            return in_shape

        def apply(self, params, x):
            return 2 * x

        def kernel(self, k, in_shape, metric):
            return type(k)(*(4 * part for part in k))

    layers = [ntkgp.layers.Dense(4), Twice(), ntkgp.layers.Relu()]
    net = ntkgp.LayeredNetwork((2,), layers, ntkgp.layers.Dense(1))
    x = np.random.default_rng(0).normal(size=(6, 2))
    law = ntkgp.condition(net, x, x[:, 0])
    with pytest.raises(TypeError, match=r"class Twice cannot be saved.*@ntkgp\.storable"):
        law.save(tmp_path)
    assert not list(tmp_path.iterdir())
    storable(Twice)
    law.save(tmp_path)
    np.testing.assert_array_equal(ntkgp.load(tmp_path).mean(x), law.mean(x))
    del storage._CLASSES["Twice"]  # as where its module is not imported
    with pytest.raises(ValueError, match=r"unknown class, 'Twice'.*import its module"):
        ntkgp.load(tmp_path)


@pytest.mark.slow
def test_laws_and_ensembles_load_without_scikit_learn_and_estimators_bring_it(tmp_path):
    x = np.linspace(-1, 1, 6)[:, None]
    ntkgp.condition(ntkgp.mlp(1), x, x).save(tmp_path / "law")
    trainer = ntkgp.GaussNewton(max_steps=1)
    ntkgp.fit(ntkgp.mlp(1, width=4), x, x, members=1, trainer=trainer).save(tmp_path / "ensemble")
    GPRegressor(activation="relu").fit(x, x[:, 0]).save(tmp_path / "estimator")
    code = f"""
import sys, ntkgp
for name in ("law", "ensemble"):
    print(type(ntkgp.load({str(tmp_path)!r} + "/" + name)).__name__, "sklearn" in sys.modules)
print(type(ntkgp.load({str(tmp_path)!r} + "/estimator")).__name__, "sklearn" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["ExactLaw", "False", "Ensemble", "False", "GPRegressor", "True"]


@pytest.mark.parametrize("dtype", ["<U500000000", "|O"])
def test_words_take_the_room_that_they_need_whatever_the_file_says(dtype):
    words = unpack(Packed({"kind": "strings", "of": {"values": ["a"], "dtype": dtype}}, {}))
    assert words.tolist() == ["a"]
    assert words.nbytes < 100


@pytest.mark.parametrize("of", [{"values": [1], "dtype": "<U1"}, {"values": ["a"], "dtype": "V8"}])
def test_what_is_no_word_is_refused(of):
    with pytest.raises(ValueError, match="words"):
        unpack(Packed({"kind": "strings", "of": of}, {}))
