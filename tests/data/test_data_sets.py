"""Loading, getting and checking data sets: the cache directory, downloads, the command line."""

import hashlib
import json
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from original_files import (
    FLIGHTS,
    YEARS,
    write_cifar10,
    write_flights,
    write_mnist,
    write_svhn,
    write_uci,
)
from sklearn.datasets import load_digits

import ntkgp
from ntkgp.cli import main
from ntkgp.core.files import cache_dir
from ntkgp.data import SETS, cache, load, load_letters, make_toy, notmnist, sets, uci
from ntkgp.data.stored import BuiltIn, Fact
from ntkgp.experiments import results
from ntkgp.experiments.toy import run as toy

STORED = [name for name, entry in SETS.items() if not isinstance(entry, BuiltIn)]
DOWNLOADED = ["mnist", "notmnist", "cifar10", "svhn"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache directory, into which sets go that are not the public ones."""
    monkeypatch.setenv("NTKGP_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(sets, "_check_facts", lambda *_: None)
    monkeypatch.setattr(sets.originals, "check_digests", lambda *_: None)
    return tmp_path / "cache"


@pytest.fixture
def originals(tmp_path):
    return tmp_path / "originals"


def without(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)


# The cache directory


def test_the_environment_chooses_the_cache_directory(monkeypatch):
    monkeypatch.setenv("NTKGP_DATA", "~/sets")
    assert cache_dir() == Path.home() / "sets"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/ntkgp"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/ntkgp"),
        ("darwin", {"XDG_CACHE_HOME": "xdg"}, "home/Library/Caches/ntkgp"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/ntkgp"),
        ("win32", {}, "home/AppData/Local/ntkgp"),
    ],
)
def test_each_platform_has_its_cache_directory(monkeypatch, platform, variables, expected):
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("NTKGP_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "home", "USERPROFILE": "home", **variables}.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "set.npz"
    cache.write(path, {"x": np.arange(3)})

    def stop(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", stop)
    with pytest.raises(KeyboardInterrupt):
        cache.write(path, {"x": np.arange(4)})
    assert [p.name for p in path.parent.iterdir()] == ["set.npz"]
    assert cache.read(path, {"x": ("int64", ("n",))})["x"].tolist() == [0, 1, 2]


FORMS = {"x": ("uint8", ("n", 2)), "y": ("uint8", ("n",))}
GOOD = {"x": np.zeros((3, 2), np.uint8), "y": np.zeros(3, np.uint8)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.zeros((3, 2))}, r"x must be uint8 of shape \(n, 2\); it is float64"),
        ({"x": np.zeros((3, 3), np.uint8)}, r"it is uint8 of shape \(3, 3\)"),
        ({"x": np.zeros(3, np.uint8)}, r"it is uint8 of shape \(3,\)"),
        ({"y": np.zeros(4, np.uint8)}, r"y must be uint8 of shape \(3\); it is .* \(4,\)"),
        ({"y": np.zeros((3, 1), np.uint8)}, r"it is uint8 of shape \(3, 1\)"),
    ],
)
def test_arrays_of_another_form_are_refused(tmp_path, changed, message):
    path = tmp_path / "set.npz"
    cache.write(path, GOOD)
    assert cache.read(path, FORMS).keys() == GOOD.keys()
    cache.write(path, GOOD | changed)
    with pytest.raises(cache.Unreadable, match=r"set\.npz is not what its name says: .*" + message):
        cache.read(path, FORMS)


class Code:
    """What runs when a pickle of it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_code_in_a_cached_file_is_not_run(tmp_path):
    marker, path = tmp_path / "was-here", tmp_path / "set.npz"
    np.savez(path, x=np.array([Code(marker)], dtype=object), y=GOOD["y"])
    with pytest.raises(cache.Unreadable, match="Object arrays cannot be loaded"):
        cache.read(path, FORMS)
    assert not marker.exists()
    with np.load(path, allow_pickle=True) as contents:  # the control
        contents["x"]
    assert marker.exists()


# Sets that need no file


def test_digits_letters_and_toy_need_no_cache(folder):
    x, y = load_digits(return_X_y=True)
    np.testing.assert_array_equal(load("digits").all.x, x)
    np.testing.assert_array_equal(load("digits").all.y, y)
    np.testing.assert_array_equal(load("letters").all.x, load_letters().x)
    np.testing.assert_array_equal(load("letters").all.y, load_letters().labels)
    assert not folder.exists()


def test_the_toy_problem_is_that_of_figure_1():
    x, y, grid = toy.make_data(toy.ToyConfig())
    data = load("toy")
    np.testing.assert_array_equal(data.train.x, x)
    np.testing.assert_array_equal(data.train.y, y)
    np.testing.assert_array_equal(data.test.x, grid)
    np.testing.assert_array_equal(data.test.y, grid * np.sin(grid))
    drawn = results.load(Path(__file__).parents[2] / "docs" / "results" / "toy-laptop.json")
    assert drawn["x"] == results.rounded(x[:, 0])
    assert drawn["y"] == results.rounded(y[:, 0])


def test_the_toy_problem_can_be_another():
    data = make_toy(train_points=7, noise_std=0.0, grid_points=5, seed=3)
    assert len(data.train.x) == 7
    np.testing.assert_array_equal(data.train.y, data.train.x * np.sin(data.train.x))
    assert data.test.x[:, 0].tolist() == [-6, -3, 0, 3, 6]
    assert not np.array_equal(data.train.x, make_toy(7, seed=4).train.x)


@pytest.mark.parametrize("name", ["digits", "letters", "toy"])
def test_there_is_nothing_to_get_for_them(name):
    with pytest.raises(ValueError, match=f"{name} needs no file: it "):
        sets.get(name)


# Sets that are made from files


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r'no data set "mnst"; there are mnist, .*, toy\.'):
        load("mnst")


def test_mnist_is_made_once_and_then_read(folder, originals):
    arrays = write_mnist(originals)
    data = load("mnist", originals)
    assert (data.name, list(data.parts)) == ("mnist", ["train", "test"])
    for part in ("train", "test"):
        np.testing.assert_array_equal(data.parts[part].x, arrays[f"x_{part}"])
        np.testing.assert_array_equal(data.parts[part].y, arrays[f"y_{part}"])
    for path in originals.iterdir():
        path.unlink()
    np.testing.assert_array_equal(ntkgp.data.load("mnist").test.x, data.test.x)
    assert [path.name for path in folder.iterdir()] == ["mnist.npz"]


def test_getting_from_files_replaces_what_was_there(folder, originals):
    write_mnist(originals)
    before = load("mnist", originals).test.x
    after = write_mnist(originals)["x_test"]
    np.testing.assert_array_equal(load("mnist", originals).test.x, before)  # it is there
    sets.get("mnist", str(originals))
    np.testing.assert_array_equal(load("mnist").test.x, after)
    assert not np.array_equal(before, after)


def test_images_keep_their_type_and_parts(folder, originals):
    write_cifar10(originals)
    write_svhn(originals)
    assert load("cifar10", originals).train.x.shape == (10, 32, 32, 3)
    assert load("svhn", originals).test.x.dtype == np.uint8
    with pytest.raises(ValueError, match='svhn has no part "train"; it has "test"'):
        _ = load("svhn").train


def test_uci_has_nine_tables_with_their_splits(folder, originals):
    arrays = write_uci(originals)
    load("uci/yacht", originals)
    for name in uci.NAMES:
        table, data = name.removeprefix("uci/"), load(name)
        np.testing.assert_array_equal(data.all.x, arrays[f"{table}/x"])
        assert len(data.folds) == 2
        test = data.all.take(data.folds[1].test)
        np.testing.assert_array_equal(test.x, arrays[f"{table}/x"][arrays[f"{table}/test_idx"][1]])
        np.testing.assert_array_equal(test.y, arrays[f"{table}/y"][arrays[f"{table}/test_idx"][1]])
    assert [path.name for path in folder.iterdir()] == ["uci.npz"]


def test_flights_are_the_same_from_parquet(folder, originals):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    write_flights(originals, FLIGHTS, YEARS)
    data = load("flights2008", originals)
    values = {name: data.all.x[:, i] for i, name in enumerate(data.columns)}
    values["arr_delay"] = data.all.y
    columns = {
        name: pyarrow.array([None if np.isnan(v) else int(v) for v in column], "int16")
        for name, column in values.items()
    }
    (folder / "flights2008.npz").unlink()
    parquet.write_table(pyarrow.table(columns), folder / "flights2008.parquet")
    again = load("flights2008")
    np.testing.assert_array_equal(again.all.x, data.all.x)
    np.testing.assert_array_equal(again.all.y, data.all.y)
    assert again.all.x.dtype == data.all.x.dtype == np.float32
    assert again.columns == data.columns


def test_parquet_without_pyarrow_is_refused_in_words(folder, monkeypatch):
    without("pyarrow", monkeypatch)
    folder.mkdir()
    (folder / "flights2008.parquet").touch()
    with pytest.raises(ModuleNotFoundError, match=r"needs PyArrow: pip install 'ntkgp\[data\]'"):
        load("flights2008")


def test_images_without_pillow_are_refused_in_words(folder, originals, monkeypatch):
    without("PIL", monkeypatch)
    (originals / "A").mkdir(parents=True)
    (originals / "A" / "font.png").touch()
    with pytest.raises(ModuleNotFoundError, match=r"needs Pillow: pip install 'ntkgp\[data\]'"):
        load("notmnist", originals)


@pytest.mark.parametrize("name", ["flights2008", "uci/yacht"])
def test_what_cannot_be_downloaded_says_which_files_to_bring(folder, name):
    with pytest.raises(FileNotFoundError) as error:
        load(name)
    message = str(error.value)
    assert str(folder) in message
    assert "no address to download it from whose checksum is known" in message
    assert message.endswith(f"ntkgp data get {name} --from FOLDER")
    assert ("2008.csv.bz2 and plane-data.csv" if name == "flights2008" else "data.txt") in message


@pytest.mark.parametrize("name", STORED)
def test_an_empty_folder_is_answered_with_the_files_to_put_there(folder, originals, name):
    originals.mkdir()
    with pytest.raises((FileNotFoundError, ValueError)) as error:
        sets.get(name, originals, say=lambda _: None)
    assert str(originals) in str(error.value)
    if name != "notmnist":  # which says how many images it needs
        assert f"ntkgp data get {name} --from FOLDER" in str(error.value)
    assert not folder.exists()


def test_files_of_another_set_are_refused_and_not_cached(folder, originals):
    write_mnist(originals)
    label = next(originals.glob("train-labels*"))
    label.write_bytes((originals / "t10k-labels-idx1-ubyte.gz").read_bytes())
    with pytest.raises(ValueError, match=r"are not those of mnist: y_train must be .*\(6\); it is"):
        sets.get("mnist", originals)
    assert not folder.exists()


# Damaged files in the cache


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("content", [b"", b"not a set", b"PK\x03\x04 of no use"])
def test_a_foreign_file_is_named_with_the_remedy(folder, name, content):
    folder.mkdir()
    path = folder / SETS[name].files[0]
    path.write_bytes(content)
    with pytest.raises(cache.Unreadable) as error:
        load(name)
    assert str(error.value).startswith(f"{path} is damaged or no file of ntkgp's")
    assert f"Delete {path}" in str(error.value)
    assert f"ntkgp data get {name}" in str(error.value)


def test_a_foreign_parquet_file_is_named(folder):
    pytest.importorskip("pyarrow")
    folder.mkdir()
    (folder / "flights2008.parquet").write_bytes(b"PAR1 of no use PAR1")
    with pytest.raises(cache.Unreadable, match=r"flights2008\.parquet is damaged"):
        load("flights2008")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short_is_named(folder, originals, share):
    write_mnist(originals)
    path = sets.get("mnist", originals)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(cache.Unreadable, match=r"mnist\.npz is damaged .*ntkgp data get mnist"):
        load("mnist")


def test_a_changed_byte_is_found(folder, originals):
    write_mnist(originals)
    path = sets.get("mnist", originals)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(cache.Unreadable, match=r"mnist\.npz is damaged"):
        load("mnist")


def test_another_set_under_the_name_is_refused(folder, originals):
    write_svhn(originals)
    sets.get("svhn", originals).rename(folder / "notmnist.npz")
    with pytest.raises(cache.Unreadable, match=r"notmnist\.npz is not what its name says"):
        load("notmnist")
    (folder / "notmnist.npz").rename(folder / "mnist.npz")
    with pytest.raises(cache.Unreadable, match=r"no item named 'x_train\.npy' in the archive"):
        load("mnist")


# Downloads


class Handler(SimpleHTTPRequestHandler):
    asked: list[str]

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(originals, monkeypatch):
    """A server of the folder of originals on this machine; it notes what it is asked for."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    originals.mkdir()
    handler = type("Noting", (Handler,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=originals)) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        http.asked = handler.asked
        yield http
        http.shutdown()
        thread.join()


def offer(monkeypatch, http, originals):
    """MNIST as if its public files were those of the server."""
    url = f"http://127.0.0.1:{http.server_port}"
    paths = sorted(originals.iterdir())
    digests = {
        path.name: (f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}",) for path in paths
    }
    downloads = tuple(f"{url}/{path.name}" for path in paths)
    offered = replace(SETS["mnist"], downloads=downloads, digests=digests)
    monkeypatch.setitem(sets.SETS, "mnist", offered)


def test_a_set_is_downloaded_once(folder, originals, server, monkeypatch, capfd):
    arrays = write_mnist(originals)
    offer(monkeypatch, server, originals)
    data = load("mnist")
    np.testing.assert_array_equal(data.train.x, arrays["x_train"])
    assert len(server.asked) == 4
    assert "100%" in capfd.readouterr().err  # the progress bar
    load("mnist")
    sets.get("mnist")
    assert len(server.asked) == 4
    assert [path.name for path in folder.iterdir()] == ["mnist.npz"]


def test_a_changed_file_is_refused(folder, originals, server, monkeypatch):
    write_mnist(originals)
    offer(monkeypatch, server, originals)
    path = originals / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(OSError, match=r"could not download .*train-images.*hash.*by hand"):
        load("mnist")
    assert not (folder / "mnist.npz").exists()


def test_a_download_goes_on_after_an_interruption(folder, originals, server, monkeypatch):
    arrays = write_mnist(originals)
    offer(monkeypatch, server, originals)
    last = originals / "train-labels-idx1-ubyte.gz"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(OSError, match=r"could not download .*train-labels.*404.*--from FOLDER"):
        load("mnist")
    last.write_bytes(content)
    server.asked.clear()
    np.testing.assert_array_equal(load("mnist").train.y, arrays["y_train"])
    assert server.asked == ["/train-labels-idx1-ubyte.gz"]


def test_no_connection_is_told_in_words(folder, originals, server, monkeypatch, capsys):
    write_mnist(originals)
    offer(monkeypatch, server, originals)
    server.shutdown()
    server.server_close()
    assert main(["data", "get", "mnist"]) == 2
    message = capsys.readouterr().err
    assert "could not download http://127.0.0.1" in message
    assert "ntkgp data get mnist --from FOLDER" in message


@pytest.mark.parametrize("name", DOWNLOADED)
def test_downloads_without_pooch_are_refused_in_words(folder, monkeypatch, name):
    without("pooch", monkeypatch)
    with pytest.raises(ModuleNotFoundError) as error:
        load(name)
    assert f"{name} is not in {folder}: downloading needs pooch" in str(error.value)
    assert "pip install 'ntkgp[data]'" in str(error.value)
    assert str(error.value).endswith(f"ntkgp data get {name} --from FOLDER")


def test_every_download_has_a_checksum():
    assert [name for name in STORED if SETS[name].downloads] == DOWNLOADED
    for name in DOWNLOADED:
        for url in SETS[name].downloads:
            assert url.startswith("http")
            for checksum in SETS[name].digests[url.rpartition("/")[2]]:
                kind, _, digest = checksum.partition(":")
                assert len(digest) == {"sha256": 64, "md5": 32}[kind]
                int(digest, 16)


# What is known of the sets


@pytest.mark.parametrize(
    ("fact", "holds"),
    [
        (Fact("n", 3, 3), True),
        (Fact("n", 3, 4), False),
        (Fact("mean", 0.5, 0.51, within=0.02), True),
        (Fact("mean", float("nan"), 0.51, within=0.02), False),
        (Fact("digest", "ab", "ab"), True),
        (Fact("digest", "ab", "ac"), False),
    ],
)
def test_facts_hold_or_not(fact, holds):
    assert fact.holds == holds


def test_check_finds_that_a_small_set_is_not_the_public_one(folder, originals):
    write_mnist(originals)
    write_uci(originals)
    write_svhn(originals)
    write_cifar10(originals)
    write_flights(originals, FLIGHTS, YEARS)
    for name in ("mnist", "cifar10", "svhn", "flights2008", *uci.NAMES):
        load(name, originals)
        assert not all(fact.holds for fact in sets.check(name))


def test_check_finds_values_that_are_not_finite(folder):
    arrays = {"x": np.ones((308, 6)), "y": np.ones(308)}
    order = np.arange(308, dtype=np.uint16)[None].repeat(20, axis=0)
    arrays |= {"train_idx": order[:, :277], "test_idx": order[:, 277:]}
    cache.write(folder / "uci.npz", {f"yacht/{name}": array for name, array in arrays.items()})
    assert all(fact.holds for fact in sets.check("uci/yacht"))
    arrays["x"][3, 2] = np.nan
    arrays["test_idx"] = order[:, 276:307]
    cache.write(folder / "uci.npz", {f"yacht/{name}": array for name, array in arrays.items()})
    wrong = {fact.what: fact.found for fact in sets.check("uci/yacht") if not fact.holds}
    assert wrong == {"splits that have every row once": 0, "values not finite": 1}


def test_check_never_downloads(folder):
    with pytest.raises(FileNotFoundError, match=r"mnist is not in .*nothing to check"):
        sets.check("mnist")


# The command line


def test_list_shows_what_is_there_and_how_to_get_the_rest(folder, originals, capsys):
    write_mnist(originals)
    sets.get("mnist", originals)
    assert main(["data", "list"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"cache directory: {folder}"
    states = dict(line.split(maxsplit=1) for line in lines)
    assert list(states) == list(SETS)
    assert states["mnist"] == f"0.0 MB, {folder / 'mnist.npz'}"
    assert states["svhn"] == "not there: ntkgp data get svhn"
    assert states["uci/yacht"] == "not there: ntkgp data get uci/yacht --from FOLDER"
    assert states["digits"] == "comes with scikit-learn"


def test_get_makes_and_checks(folder, originals, capsys):
    write_mnist(originals)
    assert main(["data", "get", "mnist", "--from", str(originals)]) == 2
    printed = capsys.readouterr()
    assert f"mnist: {folder / 'mnist.npz'}" in printed.out
    assert "mnist: 0 of 8 checks hold" in printed.out
    assert "MD5 of t10k-labels-idx1-ubyte" in printed.out
    assert "not as the public set is known" in printed.err


def test_get_counts_broken_images(folder, originals, capsys, monkeypatch):
    monkeypatch.setattr(notmnist, "PER_LETTER", 0)
    (originals / "J").mkdir(parents=True)
    (originals / "J" / "font.png").touch()
    main(["data", "get", "notmnist", "--from", str(originals)])
    assert "0 images read; 1 broken ones left out" in capsys.readouterr().out


def test_check_goes_on_after_a_damaged_file(folder, originals, capsys):
    write_mnist(originals)
    write_svhn(originals)
    sets.get("mnist", originals).write_bytes(b"")
    sets.get("svhn", originals)
    assert main(["data", "check"]) == 2
    printed = capsys.readouterr()
    assert "mnist.npz is damaged" in printed.out
    assert "svhn: 0 of 16 checks hold" in printed.out
    assert printed.err.startswith("ntkgp: mnist, svhn: not as the public set is known")


def test_the_commands_of_data_tell_programs_the_same(folder, originals, capsys):
    write_mnist(originals)
    assert main(["data", "get", "mnist", "--from", str(originals), "--as-is", "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert main(["data", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["cache_directory"] == str(folder)
    there = {"there": True, "path": got["path"], "bytes": got["bytes"]}
    assert listed["sets"]["mnist"] == there
    assert listed["sets"]["svhn"] == {"there": False}
    assert main(["data", "check", "--json"]) == 2
    checked = json.loads(capsys.readouterr().out)["checked"]["mnist"]
    assert not checked["holds"]
    assert len(checked["differ"]) == checked["checks"] == 8


@pytest.mark.parametrize(
    "arguments", [["get", "mnst"], ["check", "mnst"], ["check", "svhn"], ["get", "toy"]]
)
def test_mistakes_are_one_line(folder, capsys, arguments):
    assert main(["data", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_nothing_to_check_is_no_mistake(folder, capsys):
    assert main(["data", "check"]) == 0
    assert capsys.readouterr().out == f"nothing is in {folder}.\n"
