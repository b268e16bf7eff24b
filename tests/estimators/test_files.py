"""Models as files: what comes back is what was saved, and what is damaged or foreign is refused."""

import json
import os
import pickle
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import ntkgp
from helpers import architectures, without_kernel
from ntkgp import (
    Cholesky,
    ConjugateGradients,
    EnsembleClassifier,
    EnsembleRegressor,
    GPClassifier,
    GPRegressor,
    Refined,
)
from ntkgp.core.memory import NotEnoughMemory, peak_bytes
from ntkgp.core.model_files import read_model, write_model
from ntkgp.core.storage import Packed, pack, unpack
from ntkgp.networks.layers import Dense, LeakyRelu, Serial

SHALLOW = {"depth": 1, "random_state": 0}
TINY = {"members": 2, "width": 4, "min_steps": 5, "min_epochs": 1, **SHALLOW}
X = np.random.default_rng(0).normal(size=(24, 2))
Y = X[:, 0] + 0.1 * X[:, 1]
NEW = np.random.default_rng(1).normal(size=(7, 2))
NAMES = np.array(["cat", "mouse"])[(Y > 0).astype(int)]

MODELS = {
    "ensemble regressor": (EnsembleRegressor(activation="relu", **TINY), Y),
    "ensemble regressor, two targets": (
        EnsembleRegressor("rp-fn", noise=ntkgp.LearnedNoise(), activation="relu", **TINY),
        np.stack([Y, Y**2], axis=1),
    ),
    "ensemble classifier": (EnsembleClassifier(target_scale_grid=(0.5, 1.0), **TINY), NAMES),
    "GP regressor": (GPRegressor(activation="erf", **SHALLOW), Y),
    "GP regressor, another law": (
        GPRegressor("randomised-prior", activation="erf", **SHALLOW),
        Y,
    ),
    "GP regressor, a law of one's own": (
        GPRegressor(ntkgp.Law(prior="ntk", trained="nngp"), optimizer=None, random_state=0),
        Y,
    ),
    "GP classifier": (GPClassifier(**SHALLOW), NAMES),
}


@cache
def fitted(name):
    model, y = MODELS[name]
    return clone(model).fit(X, y)


@pytest.fixture
def saved(tmp_path):
    """The file of a small model."""
    fitted("GP regressor").save(tmp_path / "model")
    return tmp_path / "model"


def predictions(model, x=NEW):
    if hasattr(model, "predict_proba"):
        return [model.predict(x), model.predict_proba(x), model.predict_members_proba(x)]
    return [
        model.predict(x),
        *model.predict(x, return_std=True),
        *model.predict(x, return_cov=True),
    ]


def assert_same_predictions(first, second):
    for a, b in zip(predictions(first), predictions(second), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def saved_and_loaded(model, directory, **options):
    model.save(directory)
    return ntkgp.load(directory, **options)


# What comes back.


@pytest.mark.quick(
    "ensemble classifier", "GP classifier", "ensemble regressor", "GP regressor, another law"
)
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one(name, tmp_path):
    model = fitted(name)
    loaded = saved_and_loaded(model, tmp_path / "a" / "new" / "directory")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert_same_predictions(model, loaded)

    assert vars(loaded).keys() == vars(model).keys()
    for attribute, value in vars(model).items():
        again = getattr(loaded, attribute)
        assert isinstance(value, type(again)), attribute  # float for np.float64
        if isinstance(value, ntkgp.UncertainPrior):
            assert again.draw(2) == value.draw(2)
        elif attribute not in ("ensemble_", "law_"):
            np.testing.assert_equal(again, value, attribute)
    assert loaded.fitted_network() == model.fitted_network()


@pytest.mark.parametrize("name", ["ensemble regressor", "ensemble classifier"])
def test_all_of_an_ensemble_is_saved(name, tmp_path):
    ensemble = fitted(name).ensemble_
    loaded = saved_and_loaded(fitted(name), tmp_path).ensemble_
    assert loaded.learner == ensemble.learner
    assert (loaded.seed, loaded.indices, loaded.failed) == (
        ensemble.seed,
        ensemble.indices,
        ensemble.failed,
    )
    for part in ("losses", "validation_losses", "objectives", "converged"):
        np.testing.assert_array_equal(getattr(loaded, part), getattr(ensemble, part))
    for part in ("theta", "member"):
        first, second = (jax.tree.flatten(getattr(e, part)) for e in (ensemble, loaded))
        assert first[1] == second[1]
        for a, b in zip(first[0], second[0], strict=True):
            assert isinstance(b, jax.Array)
            np.testing.assert_array_equal(a, b)


def test_predictions_tell_models_apart(tmp_path):
    """The control: another seed does not predict the same."""
    other = clone(fitted("GP classifier")).set_params(random_state=1).fit(X, NAMES)
    loaded = saved_and_loaded(other, tmp_path)
    with pytest.raises(AssertionError):
        assert_same_predictions(fitted("GP classifier"), loaded)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["mouse", "cat"]),
        np.array(["mouse", "cat"], dtype=object),
        np.array(["Ratte", "Mäuse\n\"'"]),
        np.array([False, True]),
        np.array([7, -3]),
        np.array([0, 255], dtype=np.uint8),
        np.array([0, 1], dtype=">i4"),
        np.array([1.0, 2.0], dtype=np.float32),
    ],
    ids=lambda classes: f"{classes.dtype} {classes[0]}",
)
def test_classes_of_every_kind_come_back(classes, tmp_path):
    model = clone(fitted("GP classifier")).fit(X, classes[(Y > 0).astype(int)])
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.classes_.tolist() == sorted(classes.tolist())
    assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
    assert loaded.predict(NEW).tolist() == model.predict(NEW).tolist()
    assert len(set(loaded.predict(X).tolist())) == 2


def test_classes_that_are_neither_numbers_nor_strings_are_refused(tmp_path):
    model = clone(fitted("GP classifier")).fit(X, NAMES)
    model.classes_ = np.array([None, 1], dtype=object)
    with pytest.raises(TypeError, match="dtype object cannot be saved: use numbers or strings"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_columns_come_back(tmp_path):
    table = pd.DataFrame(X, columns=["age", "Größe"])
    model = clone(fitted("GP regressor")).fit(table, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.feature_names_in_.tolist() == ["age", "Größe"]
    assert loaded.n_features_in_ == 2
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(table.rename(columns={"age": "height"}))


def test_parameters_that_are_data_come_back_and_those_that_are_code_do_not(tmp_path):
    model = clone(fitted("GP regressor")).set_params(
        noise_std=np.float64(0.1), random_state=np.int64(3), jitter=1e-7
    )
    loaded = saved_and_loaded(model.fit(X, Y), tmp_path)
    assert loaded.get_params() == model.get_params()
    model.set_params(random_state=np.random.RandomState(0)).fit(X, Y)
    assert saved_and_loaded(model, tmp_path).random_state is None


def test_a_loaded_model_can_be_cloned_fitted_and_saved_again(tmp_path):
    loaded = saved_and_loaded(fitted("GP classifier"), tmp_path)
    assert_same_predictions(clone(loaded).fit(X, NAMES), loaded)
    assert_same_predictions(saved_and_loaded(loaded, tmp_path / "again"), loaded)
    ours, again = (read_model(tmp_path / name)[0] for name in ("model.safetensors", "again"))
    assert ours == again


@pytest.mark.parametrize(
    "value",
    [
        [1, (2.5, None), {"a": [True, "b"]}],
        float("inf"),
        -float("inf"),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(6.0).reshape(2, 3)[:, ::2],
        np.zeros((0, 2), np.float32),
        np.float16([1.5]),
        np.array(3),
    ],
    ids=str,
)
def test_plain_data_come_back_with_their_types_and_layout(value):
    packed = pack(value)
    again = unpack(Packed(json.loads(json.dumps(packed.plain, allow_nan=False)), packed.arrays))
    assert type(again) is type(value)
    np.testing.assert_equal(again, value)
    if isinstance(value, np.ndarray):
        assert (again.dtype, again.shape) == (value.dtype, value.shape)
        assert again.flags.f_contiguous == (value.flags.f_contiguous or min(value.shape) < 2)


def test_what_is_no_data_is_refused():
    for value in (object(), np.zeros(2, np.longdouble), np.zeros(2, complex)):
        with pytest.raises(TypeError, match="cannot be saved"):
            pack({"a": value})


# Networks.


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
@pytest.mark.parametrize("name", architectures(8))
def test_networks_of_layers_come_back(name, parameterization):
    net = architectures(8, parameterization)[name]
    packed = pack(net)
    again = unpack(Packed(json.loads(json.dumps(packed.plain)), packed.arrays))
    assert again == net
    assert hash(again) == hash(net)
    assert [again == other for other in architectures(8, parameterization).values()].count(
        True
    ) == 1


LAYERS = [kind for kind in vars(ntkgp.layers).values() if is_dataclass(kind)]


@pytest.mark.parametrize("kind", LAYERS)
def test_no_layer_is_forgotten(kind):
    """Every layer that the package offers has a name in files."""
    made = {
        "Dense": lambda: Dense(3, 1.2, 0.0, "standard"),
        "Conv": lambda: kind(3, (1, 2), (2, 1), "VALID"),
        "LeakyRelu": lambda: LeakyRelu(0.3),
        "Serial": lambda: Serial((Dense(2),)),
        "Residual": lambda: kind([Dense(2)], [Dense(2), Dense(2)]),
    }.get(kind.__name__, kind)()
    assert unpack(pack(made)) == made


@pytest.mark.slow
def test_a_network_given_by_the_user_comes_back(tmp_path):
    net = ntkgp.mlp(2, width=3, depth=1, activation=ntkgp.layers.Gelu())
    model = GPRegressor(network=net, random_state=0).fit(X, Y)
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.network == net
    assert_same_predictions(loaded, model)
    of_factory = GPRegressor(network=lambda *_: net, random_state=0).fit(X, Y)
    assert saved_and_loaded(of_factory, tmp_path).network.structure == net.structure

    with pytest.raises(ValueError, match="network is not the one that was trained"):
        ntkgp.load(tmp_path, network=ntkgp.mlp(2, width=3, depth=2))
    assert ntkgp.load(tmp_path, network=net).network == net


@cache
def foreign_network(width=4, activation=ntkgp.layers.Relu):
    return without_kernel(ntkgp.mlp(2, width=width, depth=1, activation=activation()))


@cache
def foreign_model():
    return EnsembleRegressor(network=foreign_network(), **TINY).fit(X, Y)


@pytest.mark.slow
def test_a_network_of_functions_must_be_given_again(tmp_path):
    foreign_model().save(tmp_path)
    with pytest.raises(ValueError, match=r"its code is not in the file: pass network="):
        ntkgp.load(tmp_path)

    loaded = ntkgp.load(tmp_path, network=foreign_network())
    assert loaded.network is foreign_network()
    assert_same_predictions(loaded, foreign_model())

    def factory(input_shape, output_dim):
        assert (input_shape, output_dim) == ((2,), 1)
        return foreign_network()

    loaded = ntkgp.load(tmp_path, network=factory)
    assert loaded.network is factory
    assert_same_predictions(loaded, foreign_model())


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (lambda: foreign_network(width=5), "not have the saved parameters' shapes"),
        (lambda: foreign_network(activation=ntkgp.layers.Erf), "predicts otherwise"),
        (lambda: ntkgp.mlp(3, width=4, depth=1), r"take inputs of shape \(2,\)"),
        (lambda: ntkgp.mlp(2, 2, width=4, depth=1), "1 outputs"),
        (lambda: lambda *_: "no network", "network must be a Network.*returned str"),
        (lambda: "no network", "network must be a Network.*got str"),
    ],
    ids=["shapes", "another function", "inputs", "outputs", "factory", "string"],
)
def test_another_network_is_refused(network, words, tmp_path):
    foreign_model().save(tmp_path)
    with pytest.raises((ValueError, TypeError), match=words):
        ntkgp.load(tmp_path, network=network())


# What is in the file.


@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_safetensors_and_no_pickle_is_read(name, tmp_path, monkeypatch):
    fitted(name).save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with safe_open(tmp_path / "model", "numpy") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    assert metadata["format"] == "3"
    assert metadata["ntkgp_version"] == ntkgp.__version__
    assert len(arrays) > 3
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    ours = read_model(tmp_path / "model")[1]
    assert ours.keys() == arrays.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(ours[key], array)
    expected = predictions(fitted(name))

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for function in ("load", "loads", "Unpickler", "_Unpickler", "_load", "_loads"):
        monkeypatch.setattr(pickle, function, refuse)
    with pytest.raises(AssertionError, match="pickle was used"):  # the control
        np.load(_pickled_array(tmp_path / "pickled.npy"), allow_pickle=True)
    for a, b in zip(predictions(ntkgp.load(tmp_path / "model")), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def _pickled_array(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    return path


def test_a_directory_stands_for_the_model_in_it(tmp_path):
    fitted("GP regressor").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert_same_predictions(ntkgp.load(tmp_path), fitted("GP regressor"))
    assert_same_predictions(ntkgp.load(tmp_path / "model.safetensors"), fitted("GP regressor"))


# Damaged files.


def flip_a_bit(path, where=0.5):
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 1
    path.write_bytes(bytes(data))


def change_a_number(path):
    data = path.read_bytes()
    assert data.count(rb"\"jitter\": 1e-06") == 1
    path.write_bytes(data.replace(rb"\"jitter\": 1e-06", rb"\"jitter\": 2e-06"))


DAMAGE = {
    "cut short": (lambda p: p.write_bytes(p.read_bytes()[:-20]), "cut short.*bytes, and it has"),
    "cut in its header": (lambda p: p.write_bytes(p.read_bytes()[:200]), "cut short.*no header"),
    "longer": (lambda p: p.write_bytes(p.read_bytes() + b"more"), "not a model of ntkgp"),
    "empty": (lambda p: p.write_bytes(b""), "not a model of ntkgp"),
    "binary": (lambda p: p.write_bytes(b"\xff\xfe" * 100), "not a model of ntkgp"),
    "text": (lambda p: p.write_text("a" * 1000), "not a model of ntkgp"),
    "a number changed": (change_a_number, "changed after it was saved.*checksum"),
    "a bit flipped": (flip_a_bit, "damaged.*checksum"),
    "the last bit flipped": (lambda p: flip_a_bit(p, 0.9999), "damaged.*checksum"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name, saved):
    damage, words = DAMAGE[name]
    ntkgp.load(saved)
    damage(saved)
    with pytest.raises(ValueError, match=words):
        ntkgp.load(saved)


def test_every_flipped_bit_is_found(saved):
    """Of a sample over the whole file, and all of its first bytes."""
    data = saved.read_bytes()
    places = [*range(120), *np.random.default_rng(0).integers(0, len(data), 200)]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        saved.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=r"damaged|not a model of ntkgp|has format"):
            ntkgp.load(saved)


def test_no_file_is_no_model(saved):
    folder = saved.parent / "empty"
    folder.mkdir()
    for path in (folder, saved / "below", saved.parent / "nothing"):
        with pytest.raises(FileNotFoundError, match="no model in"):
            ntkgp.load(path)


def with_header(path, header, arrays=b""):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content + arrays)


SIGNS = {"sha256": "0" * 64, "format": "3", "ntkgp_version": "1", "document": "1"}


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 10**6,
        [],
        {},
        1,
        None,
        "text",
        {"__metadata__": {}},
        {"__metadata__": []},
        {"__metadata__": {"format": "pt"}},
        {"__metadata__": SIGNS | {"sha256": 1}},
        {"__metadata__": SIGNS | {"sha256": "é" * 64}},
        {"__metadata__": SIGNS | {"document": {}}},
        {"__metadata__": SIGNS, "a": 1},
        {"__metadata__": SIGNS, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}},
        {"__metadata__": SIGNS, "a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}},
        {"__metadata__": SIGNS, "a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}},
        {"__metadata__": SIGNS, "a": {"dtype": "V8", "shape": [], "data_offsets": [0, 8]}},
        {"__metadata__": SIGNS, "a": {"dtype": "U8", "shape": [2**40], "data_offsets": [0, 2**40]}},
        {"__metadata__": SIGNS, "a": {"dtype": "U8", "shape": [0, 2**63], "data_offsets": [0, 0]}},
        {"__metadata__": SIGNS, "a": {"dtype": "U8", "shape": [1] * 90, "data_offsets": [0, 1]}},
    ],
    ids=lambda header: str(header)[-90:],
)
def test_other_headers_are_refused_and_nothing_is_allocated(header, tmp_path):
    path = tmp_path / "model"
    with_header(path, header, bytes(8))
    before = peak_bytes()
    with pytest.raises(ValueError, match="not a model of ntkgp"):
        ntkgp.load(path)
    assert peak_bytes() - before < 2**27


@pytest.mark.parametrize("size", [2**20, 2**63 - 1])
def test_a_header_larger_than_the_file_is_refused(size, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(size.to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="not a model of ntkgp"):
        ntkgp.load(path)


def test_a_file_larger_than_memory_is_refused(tmp_path):
    path = tmp_path / "model"
    with path.open("wb") as file:
        file.truncate(2**42)  # without taking so much of the disk
    with pytest.raises(NotEnoughMemory, match="the model in"):
        ntkgp.load(path)


@pytest.mark.parametrize("number", ["1", "4", 3])
def test_another_format_is_refused(number, tmp_path):
    path = tmp_path / "model"
    with_header(path, {"__metadata__": SIGNS | {"format": number, "ntkgp_version": "9.0"}})
    words = f"has format '{number}', written by ntkgp '9.0'.* format '3'"
    with pytest.raises(ValueError, match=words):
        ntkgp.load(path)


# Files that were made to deceive: their checksums are right.


def craft(path, edit=lambda value: None, edit_arrays=lambda arrays: None):
    """Change the content of a saved model and sign it again."""
    document, arrays = read_model(path)
    edit(document)
    edit_arrays(arrays)
    write_model(path, document, arrays)


def fitted_part(value):
    return value["fields"]["fitted"]["of"]


def law(value):
    return fitted_part(value)["law_"]["fields"]


def ensemble_part(value):
    return fitted_part(value)["ensemble_"]["fields"]


def learner(value):
    return ensemble_part(value)["learner"]["fields"]


def parameters(value):
    return ensemble_part(value)["parameters"]["of"]


def set_first(key, old, new, node):
    """Replace the first value at `key` that equals `old`, anywhere below node."""
    if isinstance(node, dict):
        if node.get(key) == old:
            node[key] = new
            return True
        node = list(node.values())
    return isinstance(node, list) and any(set_first(key, old, new, item) for item in node)


def first(key, old, new):
    def edit(value):
        assert set_first(key, old, new, value)

    return edit


def params(**changes):
    return lambda value: value["fields"]["params"]["of"].update(changes)


def swap(names, one, other):
    names[one], names[other] = names[other], names[one]


CRAFTED = {
    "class": (lambda value: value.update({"class": "Popen"}), "unknown class.*'Popen'"),
    "class that is a list": (lambda value: value.update({"class": []}), "unknown class"),
    "class that Python knows": (first("class", "Dense", "print"), "unknown class.*'print'"),
    "class by its path": (first("class", "Dense", "os.system"), "unknown class.*'os.system'"),
    "another class than the field's": (first("class", "Erf", "Scaler"), "cannot be read"),
    "kind": (first("kind", "tuple", "exec"), "unknown kind.*'exec'"),
    "law": (
        lambda value: law(value)["law"]["fields"].update(prior="eval"),
        "(?s)cannot.*prior.*eval|eval.*prior",
    ),
    "width of a layer": (first("width", 512, -1), "Dense needs at least one"),
    "width that is text": (first("width", 512, "512"), "'512' as width, which must be int"),
    "no fields": (first("class", "Erf", "Dense"), "cannot be read"),
    "fields that are a list": (lambda value: value.update(fields=[]), "cannot be read"),
    "array": (first("kind", "tuple", "array"), "cannot be read"),
    "array that is not there": (first("of", "array_1", "array_999"), "unknown array, 'array_999'"),
    "scaler": (
        lambda value: fitted_part(value)["x_scaler_"]["fields"].pop("std"),
        "cannot be read",
    ),
    "parameter": (params(shell="rm"), "cannot be read"),
    "parameter of another type": (params(jitter="much"), "'much' as jitter, which must be float"),
    "method overwritten": (lambda value: fitted_part(value).update(predict=1), "'predict'"),
    "class overwritten": (lambda value: fitted_part(value).update(__class__="x"), "'__class__'"),
    "nothing learned": (lambda value: fitted_part(value).clear(), "lacks.*law_"),
    "part of the law missing": (
        lambda value: law(value).pop("inverse"),
        "cannot be read.*inverse",
    ),
    "method of the law overwritten": (
        lambda value: law(value).update(predict=1),
        "cannot be read.*predict",
    ),
    "noise that is text": (lambda value: law(value).update(noise_std="0.1"), "'0.1' as noise_std"),
    "noise that is infinite": (
        lambda value: law(value).update(noise_std={"kind": "float", "of": "inf"}),
        "has not the parts",
    ),
    "targets for weights": (
        lambda value: swap(law(value), "x", "weights"),
        "cannot be read.*inputs",
    ),
    "no value": (lambda value: value.clear(), "cannot be read"),
    "more rows in the factor": (first("n", 24, 25), "cannot be read.*panels"),
    "panels without end": (first("n", 24, 10**9), "a matrix of 1000000000 rows"),
    "a factor of another size": (
        lambda value: law(value)["inverse"]["fields"]["factor"]["fields"].update(n=0, width=0),
        "a matrix of 0 rows",
    ),
    "another number of columns": (
        lambda value: fitted_part(value).update(input_shape_={"kind": "tuple", "of": [3]}),
        "inputs .2,. with 1 outputs is that of a model for .3,.",
    ),
    "scaler of another table": (
        lambda value: swap(fitted_part(value), "x_scaler_", "y_scaler_"),
        "the mean of a scaler",
    ),
    "a kernel for a network": (
        lambda value: law(value).update(net=law(value)["inverse"]),
        "CholeskyInverse as net, which must be LayeredNetwork",
    ),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_files_are_refused_in_words(name, saved):
    edit, words = CRAFTED[name]
    craft(saved)
    ntkgp.load(saved)  # the control: signing again is no damage
    craft(saved, edit)
    with pytest.raises(ValueError, match=words):
        ntkgp.load(saved)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda value: learner(value)["method"].update({"class": "sudo"}), "unknown class.*'sudo'"),
        (lambda value: learner(value)["noise"].update({"class": "Loud"}), "unknown class.*'Loud'"),
        (first("class", "Relu", "Evil"), "unknown class.*'Evil'"),
        (lambda value: parameters(value).update(theta_tilde=3), "cannot be read"),
        (lambda value: parameters(value).update(theta_tilde=None), "needs theta_tilde"),
        (lambda value: parameters(value).update(another=None), "cannot be read.*another"),
        (lambda value: parameters(value).pop("theta"), "cannot be read.*theta"),
        (
            lambda value: parameters(value).update(theta=parameters(value)["theta_tilde"]),
            "one array is the parameters of several",
        ),
        (lambda value: ensemble_part(value).update(seed="0"), "'0' as seed, which must be int"),
        (lambda value: ensemble_part(value).update(members_at_once=0), "members_at_once is 0"),
        (
            lambda value: ensemble_part(value).update(indices={"kind": "tuple", "of": [1, 1]}),
            "indices are not distinct",
        ),
        (
            lambda value: swap(ensemble_part(value), "objectives", "losses"),
            "losses of 2 members has shape",
        ),
        (lambda value: learner(value).update(noise_std=-1.0), "noise_std must be"),
    ],
)
def test_crafted_ensembles_are_refused_in_words(edit, words, tmp_path):
    path = tmp_path / "model"
    fitted("ensemble regressor").save(path)
    craft(path, edit)
    with pytest.raises(ValueError, match=words):
        ntkgp.load(path)


def test_crafted_classifiers_are_refused_in_words(tmp_path):
    """A small file that would take gigabytes when it predicts."""
    path = tmp_path / "model"
    fitted("GP classifier").save(path)
    for edit, words in (
        (params(samples=10**8), "samples is 100,000,000"),
        (lambda value: fitted_part(value).update(kappa_=-1.0), "must be above 0"),
        (
            lambda value: fitted_part(value).update(classes_=fitted_part(value)["class_prior_"]),
            None,
        ),
        (
            lambda value: swap(fitted_part(value), "class_prior_", "classes_"),
            "class_prior_ must be",
        ),
    ):
        craft(path, edit)
        if words is None:  # numbers for names are as good
            assert ntkgp.load(path).predict(NEW).dtype.kind == "f"
        else:
            with pytest.raises(ValueError, match=words):
                ntkgp.load(path)
        fitted("GP classifier").save(path)


def test_parameters_of_other_shapes_or_that_are_not_numbers_are_refused(tmp_path):
    path = tmp_path / "model"
    fitted("ensemble regressor").save(path)

    def of_another_network(arrays):
        for name, array in arrays.items():
            if array.ndim == 3:
                arrays[name] = np.zeros((2, 3, 3), np.float32)

    def not_numbers(arrays):
        for array in arrays.values():
            if array.ndim == 3:
                array.flat[0] = np.nan

    for edit, words in ((of_another_network, "shapes"), (not_numbers, "must be finite numbers")):
        craft(path, edit_arrays=edit)
        with pytest.raises(ValueError, match=words):
            ntkgp.load(path)
        fitted("ensemble regressor").save(path)


# Saving.


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        GPRegressor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_is_there_is_replaced(saved):
    (saved.parent / "own").write_text("the user's own")
    loaded = saved_and_loaded(fitted("GP classifier"), saved)
    assert_same_predictions(loaded, fitted("GP classifier"))
    assert sorted(path.name for path in saved.parent.iterdir()) == ["model", "own"]


def test_saving_again_mends_damage(saved):
    flip_a_bit(saved)
    assert_same_predictions(saved_and_loaded(fitted("GP regressor"), saved), fitted("GP regressor"))


@pytest.mark.parametrize("function", ["replace", "fsync", "open"])
def test_a_full_disk_leaves_the_old_model_as_it_was(function, saved, monkeypatch):
    before = saved.read_bytes()
    calls = []

    def full(*arguments):
        calls.append(arguments)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(OSError, match=r"No space left.*model"):
            fitted("GP classifier").save(saved)
    assert calls
    assert {path.name: path.read_bytes() for path in saved.parent.iterdir()} == {"model": before}
    assert_same_predictions(ntkgp.load(saved), fitted("GP regressor"))


# In memory.


@pytest.mark.parametrize("name", MODELS)
def test_models_can_be_pickled_and_cloned(name):
    model = fitted(name)
    again = pickle.loads(pickle.dumps(model))
    assert_same_predictions(again, model)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not any(attribute.endswith("_") for attribute in vars(fresh))


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Refined(), ConjugateGradients(rank=10)], ids=repr)
def test_models_of_any_solver_come_back(solver, tmp_path):
    model = GPRegressor(activation="erf", solver=solver, random_state=0).fit(X, Y)
    again = saved_and_loaded(model, tmp_path)
    assert again.solver == solver
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("as_path", [str, Path])
def test_a_solver_with_a_directory_comes_back(as_path, tmp_path):
    solver = Cholesky(directory=as_path(tmp_path))
    model = GPRegressor(activation="erf", solver=solver, random_state=0).fit(X, Y)
    again = saved_and_loaded(model, tmp_path / "model")
    assert again.solver == solver
    assert_same_predictions(again, model)
