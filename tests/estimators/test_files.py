"""Models as files: what comes back is what was saved, and what is damaged or foreign is refused."""

import hashlib
import json
import os
import pickle
import re
import shutil
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
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
    """A directory with a small model."""
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
    assert (tmp_path / "model.json").read_text() == (tmp_path / "again/model.json").read_text()


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


# What is in the files.


@pytest.mark.parametrize("name", MODELS)
def test_files_are_json_and_safetensors_and_no_pickle_is_read(name, tmp_path, monkeypatch):
    fitted(name).save(tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 2
    assert re.fullmatch(r"arrays-[0-9a-f]{12}\.safetensors", files[0])
    assert files[1] == "model.json"
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["format"] == 2
    assert document["ntkgp_version"] == ntkgp.__version__
    arrays = load_file(tmp_path / files[0])
    assert len(arrays) > 3
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    expected = predictions(fitted(name))

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for function in ("load", "loads", "Unpickler", "_Unpickler", "_load", "_loads"):
        monkeypatch.setattr(pickle, function, refuse)
    with pytest.raises(AssertionError, match="pickle was used"):  # the control
        np.load(_pickled_array(tmp_path / "pickled.npy"), allow_pickle=True)
    for a, b in zip(predictions(ntkgp.load(tmp_path)), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def _pickled_array(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    return path


# Damaged files.


def arrays_file(directory):
    (path,) = directory.glob("arrays-*")
    return path


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-20])


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def change_a_number(path):
    text, count = re.subn(r'"jitter": 1e-06', '"jitter": 2e-06', path.read_text())
    assert count == 1
    path.write_text(text)


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda d: cut_short(d / "model.json"), ValueError, "not a model of ntkgp, or was cut"),
        (lambda d: (d / "model.json").write_bytes(b""), ValueError, "not a model of ntkgp"),
        (lambda d: (d / "model.json").write_bytes(b"\xff\xfe"), ValueError, "not a model of ntkgp"),
        (lambda d: (d / "model.json").write_text("[" * 10**6), ValueError, "not a model of ntkgp"),
        (lambda d: change_a_number(d / "model.json"), ValueError, "changed after it was saved"),
        (lambda d: cut_short(arrays_file(d)), ValueError, "damaged.*checksum"),
        (lambda d: flip_a_bit(arrays_file(d)), ValueError, "damaged.*checksum"),
        (lambda d: arrays_file(d).unlink(), FileNotFoundError, "arrays of the model are missing"),
        (lambda d: (d / "model.json").unlink(), FileNotFoundError, "no model in .*model.json"),
        (lambda d: shutil.rmtree(d), FileNotFoundError, "no model in .*model.json"),
        (lambda d: (shutil.rmtree(d), d.mkdir()), FileNotFoundError, "no model in"),
        (lambda d: (shutil.rmtree(d), d.write_text("a")), FileNotFoundError, "no model in"),
    ],
    ids=[
        "model.json cut short",
        "model.json empty",
        "model.json binary",
        "model.json nested without end",
        "a number changed",
        "arrays cut short",
        "a bit flipped",
        "no arrays",
        "no model.json",
        "no directory",
        "empty directory",
        "a file for a directory",
    ],
)
def test_damage_is_named(damage, error, words, saved):
    ntkgp.load(saved)
    damage(saved)
    with pytest.raises(error, match=words):
        ntkgp.load(saved)


@pytest.mark.parametrize(
    "document", [[], {}, 1, None, "text", {"format": 2}, {"name": "another program's"}], ids=repr
)
def test_other_json_is_refused(document, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="not a model of ntkgp"):
        ntkgp.load(tmp_path)


@pytest.mark.parametrize("rest", [{}, {"ntkgp_version": "9.0", "sha256": "", "body": {}}])
@pytest.mark.parametrize("number", [1, 3])
def test_another_format_is_refused(number, rest, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"format": number, **rest}))
    version = rest.get("ntkgp_version", "of an unknown version")
    words = f"has format {number}, written by ntkgp {version}.* format 2"
    with pytest.raises(ValueError, match=words):
        ntkgp.load(tmp_path)


# Files that were made to deceive: their checksums are right.


def craft(directory, edit):
    """Change the body of a saved model and sign it again."""
    path = directory / "model.json"
    document = json.loads(path.read_text())
    edit(document["body"])
    body = json.dumps(document["body"], sort_keys=True).encode()
    document["sha256"] = hashlib.sha256(body).hexdigest()
    path.write_text(json.dumps(document))


def fitted_part(body):
    return body["value"]["fields"]["fitted"]["of"]


def law(body):
    return fitted_part(body)["law_"]["fields"]


def learner(body):
    return fitted_part(body)["ensemble_"]["fields"]["learner"]["fields"]


def parameters(body):
    return fitted_part(body)["ensemble_"]["fields"]["parameters"]["of"]


def set_first(key, old, new, node):
    """Replace the first value at `key` that equals `old`, anywhere below node."""
    if isinstance(node, dict):
        if node.get(key) == old:
            node[key] = new
            return True
        node = list(node.values())
    return isinstance(node, list) and any(set_first(key, old, new, item) for item in node)


def first(key, old, new):
    def edit(body):
        assert set_first(key, old, new, body["value"])

    return edit


CRAFTED = {
    "class": (lambda body: body["value"].update({"class": "Popen"}), "unknown class.*'Popen'"),
    "class that is a list": (lambda body: body["value"].update({"class": []}), "unknown class"),
    "class that Python knows": (first("class", "Dense", "print"), "unknown class.*'print'"),
    "class by its path": (first("class", "Dense", "os.system"), "unknown class.*'os.system'"),
    "another class than the field's": (first("class", "Erf", "Scaler"), "cannot be read"),
    "kind": (first("kind", "tuple", "exec"), "unknown kind.*'exec'"),
    "law": (
        lambda body: law(body)["law"]["fields"].update(prior="eval"),
        "(?s)cannot.*prior.*eval",
    ),
    "width of a layer": (first("width", 512, -1), "Dense needs at least one"),
    "no fields": (first("class", "Erf", "Dense"), "cannot be read"),
    "fields that are a list": (lambda body: body["value"].update(fields=[]), "cannot be read"),
    "array": (first("kind", "tuple", "array"), "cannot be read"),
    "array that is not there": (first("of", "array_1", "array_999"), "unknown array, 'array_999'"),
    "no value": (lambda body: body.pop("value"), "cannot be read"),
    "no arrays": (lambda body: body.pop("arrays"), "cannot be read"),
    "scaler": (lambda body: fitted_part(body)["x_scaler_"]["fields"].pop("std"), "cannot be read"),
    "parameter": (
        lambda body: body["value"]["fields"]["params"]["of"].update(shell="rm"),
        "cannot be read",
    ),
    "method overwritten": (lambda body: fitted_part(body).update(predict=1), "'predict'"),
    "class overwritten": (lambda body: fitted_part(body).update(__class__="x"), "'__class__'"),
    "part of the law missing": (
        lambda body: law(body).pop("inverse"),
        "cannot be read.*inverse",
    ),
    "method of the law overwritten": (
        lambda body: law(body).update(predict=1),
        "cannot be read.*predict",
    ),
    "file outside": (
        lambda body: body["arrays"].update(file="../secret"),
        "not the name of a file",
    ),
    "file by a full path": (
        lambda body: body["arrays"].update(file="/etc/passwd"),
        "not the name of a file",
    ),
    "file that is a number": (lambda body: body["arrays"].update(file=1), "cannot be read"),
    "body": (lambda body: body.clear(), "cannot be read"),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_files_are_refused_in_words(name, saved):
    edit, words = CRAFTED[name]
    craft(saved, lambda body: None)
    ntkgp.load(saved)  # the control: signing again is no damage
    craft(saved, edit)
    with pytest.raises(ValueError, match=words):
        ntkgp.load(saved)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda body: learner(body)["method"].update({"class": "sudo"}), "unknown class.*'sudo'"),
        (lambda body: learner(body)["noise"].update({"class": "Loud"}), "unknown class.*'Loud'"),
        (first("class", "Relu", "Evil"), "unknown class.*'Evil'"),
        (lambda body: parameters(body).update(theta_tilde=3), "cannot be read"),
        (lambda body: parameters(body).update(another=None), "cannot be read.*another"),
        (lambda body: parameters(body).pop("theta"), "cannot be read.*theta"),
    ],
    ids=["method", "noise", "layer", "no parameters", "more parameters", "less parameters"],
)
def test_crafted_ensembles_are_refused_in_words(edit, words, tmp_path):
    fitted("ensemble regressor").save(tmp_path)
    craft(tmp_path, edit)
    with pytest.raises(ValueError, match=words):
        ntkgp.load(tmp_path)


@pytest.mark.parametrize("path", ["../{}", "x/../../{}", "{up}/{}", "..", ".", ""])
def test_no_file_outside_the_directory_is_read(path, saved, monkeypatch):
    """Not even a good one: the arrays themselves, moved up."""
    name, read, opened = arrays_file(saved).name, Path.read_bytes, []
    shutil.move(saved / name, saved.parent / name)
    file = path.format(name, up=saved.parent)
    craft(saved, lambda body: body["arrays"].update(file=file))
    monkeypatch.setattr(Path, "read_bytes", lambda p: opened.append(p) or read(p))
    with pytest.raises(ValueError, match="not the name of a file"):
        ntkgp.load(saved)
    assert opened == [saved / "model.json"]


def test_arrays_that_are_no_safetensors_are_refused(saved):
    path = arrays_file(saved)
    path.write_bytes(b"\x80\x04\x95" * 100)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    craft(saved, lambda body: body["arrays"].update(sha256=digest))
    with pytest.raises(ValueError, match=r"cannot be read|not .*safetensors"):
        ntkgp.load(saved)


def test_arrays_of_other_shapes_are_refused(tmp_path):
    """The parameters of another network, well signed."""
    fitted("ensemble regressor").save(tmp_path)
    path = arrays_file(tmp_path)
    arrays = load_file(path)
    save_file({name: np.zeros((2, 3, 3), np.float32) for name in arrays}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    craft(tmp_path, lambda body: body["arrays"].update(sha256=digest))
    with pytest.raises(ValueError, match="shapes"):
        ntkgp.load(tmp_path)


# Saving.


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted"):
        GPRegressor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_is_there_is_replaced(saved):
    first_arrays = arrays_file(saved)
    (saved / "arrays-of-mine.safetensors").write_text("the user's own")
    loaded = saved_and_loaded(fitted("GP classifier"), saved)
    assert_same_predictions(loaded, fitted("GP classifier"))
    assert not first_arrays.exists()
    assert len(list(saved.iterdir())) == 3
    assert (saved / "arrays-of-mine.safetensors").exists()


def test_the_same_model_can_be_saved_twice_and_mends_damage(saved):
    flip_a_bit(arrays_file(saved))
    assert_same_predictions(saved_and_loaded(fitted("GP regressor"), saved), fitted("GP regressor"))
    assert len(list(saved.iterdir())) == 2


def fail_at(monkeypatch, function, call):
    """The disk is full at the given call of os.replace or os.fsync."""
    calls, original = [], getattr(os, function)

    def limited(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        return original(*arguments)

    monkeypatch.setattr(os, function, limited)
    return calls


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_full_disk_leaves_the_old_model_as_it_was(function, call, saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    calls = fail_at(monkeypatch, function, call)
    with pytest.raises(OSError, match="No space left"):
        fitted("GP classifier").save(saved)
    assert len(calls) == call
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert_same_predictions(ntkgp.load(saved), fitted("GP regressor"))


@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_leaves_the_arrays_that_both_models_share(call, saved, monkeypatch):
    """The new model differs in its parameters alone, so its arrays are those of the old."""
    model = fitted("GP regressor")
    again = ntkgp.load(saved).set_params(depth=3)
    fail_at(monkeypatch, "replace", call)
    with pytest.raises(OSError, match="No space left"):
        again.save(saved)
    assert ntkgp.load(saved).depth == model.depth
    assert_same_predictions(ntkgp.load(saved), model)


@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_leaves_no_half_of_a_first_model(call, tmp_path, monkeypatch):
    fail_at(monkeypatch, "replace", call)
    with pytest.raises(OSError, match="No space left"):
        fitted("GP regressor").save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="no model in"):
        ntkgp.load(tmp_path)


# In memory.


@pytest.mark.parametrize("name", MODELS)
def test_models_can_be_pickled_and_cloned(name):
    model = fitted(name)
    again = pickle.loads(pickle.dumps(model))
    assert_same_predictions(again, model)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not any(attribute.endswith("_") for attribute in vars(fresh))


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
