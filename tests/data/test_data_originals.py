"""Data sets made from small files in their original formats, and from files that are broken."""

import bz2
import gzip
import os
import pickle
import struct
import tarfile

import numpy as np
import pytest
from original_files import (
    FLIGHT_HEADER,
    FLIGHTS,
    YEARS,
    flight,
    pack_folder,
    python_2_pickle,
    write_cifar10,
    write_flights,
    write_mnist,
    write_notmnist,
    write_svhn,
    write_uci,
)
from PIL import Image
from scipy.io import loadmat, savemat

from ntkgp.core.memory import peak_bytes
from ntkgp.data import (
    Dataset,
    Split,
    cifar10,
    complete_rows,
    flights,
    mat,
    mnist,
    notmnist,
    svhn,
    uci,
)
from ntkgp.data.originals import MOST_UNPACKED, find


def quiet(_):
    pass


def assert_arrays_equal(made, expected):
    assert made.keys() == expected.keys()
    for name, array in expected.items():
        assert made[name].dtype == array.dtype, name
        np.testing.assert_array_equal(made[name], array, err_msg=name)


def not_packed(data):
    return data


# MNIST


@pytest.mark.parametrize("pack", [gzip.compress, not_packed])
def test_mnist_is_made_from_idx_files(tmp_path, pack):
    expected = write_mnist(tmp_path / "MNIST" / "raw", pack)
    assert_arrays_equal(mnist.make(tmp_path, quiet), expected)


def test_idx_files_are_written_as_they_are_read(tmp_path):
    write_mnist(tmp_path, not_packed)
    for path in tmp_path.iterdir():
        assert mnist.write_idx(mnist.read_idx(path)) == path.read_bytes()


@pytest.mark.parametrize("pack", [gzip.compress, not_packed])
@pytest.mark.parametrize("damage", ["cut", "longer", "foreign", "empty"])
def test_a_broken_idx_file_is_named(tmp_path, pack, damage):
    write_mnist(tmp_path, pack)
    path = next(tmp_path.glob("t10k-images*"))
    content = path.read_bytes()
    broken = {
        "cut": content[:-9],
        "longer": content + b"0",
        "foreign": b"PK\3\4" * 99,
        "empty": b"",
    }
    path.write_bytes(broken[damage])
    with pytest.raises(ValueError, match=f"{path.name} cannot be read: .*download it again"):
        mnist.make(tmp_path, quiet)


def test_idx_files_that_declare_or_hold_too_much_are_refused(tmp_path):
    write_mnist(tmp_path)
    path = next(tmp_path.glob("t10k-images*"))
    declared = b"\0\0\x08\x03" + struct.pack(">III", 2**31, 2**31, 4)
    before = peak_bytes()
    for content in (declared, b"\0\0\x08\xff" + bytes(99), declared + bytes(2**24)):
        path.write_bytes(gzip.compress(content, compresslevel=1))
        with pytest.raises(ValueError, match=r"cannot be read: its lengths"):
            mnist.make(tmp_path, quiet)
    assert peak_bytes() - before < 2**26


# NotMNIST


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """Five images of each letter, of which three are drawn."""
    monkeypatch.setattr(notmnist, "PER_LETTER", 3)
    return tmp_path / "notMNIST_small", write_notmnist(tmp_path / "notMNIST_small", 5)


def test_notmnist_is_drawn_evenly_and_in_turn(letters):
    folder, written = letters
    made = notmnist.make(folder, quiet)
    expected = np.stack([written[letter][[0, 1, 3]] for letter in "ABCDEFGHIJ"], axis=1)
    x = expected.reshape(30, 28, 28)
    assert_arrays_equal(made, {"x_test": x, "y_test": np.arange(30, dtype=np.uint8) % 10})


def test_notmnist_is_the_same_from_the_archive(letters, tmp_path):
    folder, _ = letters
    archive = pack_folder(folder, tmp_path / "notMNIST_small.tar.gz")
    made = notmnist.make(folder, quiet)
    assert_arrays_equal(notmnist.make(archive, quiet), made)
    folder.rename(tmp_path / "elsewhere")
    assert_arrays_equal(notmnist.make(tmp_path, quiet), made)


def test_broken_images_are_left_out_and_counted(letters):
    folder, written = letters
    (folder / "A" / "font0000.ttf.png").write_bytes(b"")
    cut = folder / "F" / "font0002.ttf.png"
    cut.write_bytes(cut.read_bytes()[:60])
    (folder / "A" / "._font.png").write_bytes(b"of the system")
    (folder / "README.png").write_bytes(b"not in a folder of letters")
    said = []
    made = notmnist.make(folder, said.append)
    assert said == ["48 images read; 2 broken ones left out"]
    a, f = (made["x_test"][made["y_test"] == label] for label in (0, 5))
    np.testing.assert_array_equal(a, written["A"][[1, 2, 3]])
    np.testing.assert_array_equal(f, written["F"][[0, 1, 3]])


@pytest.mark.parametrize("kind", ["BMP", "GIF", "EPS", "TIFF"])
def test_images_of_other_formats_are_not_decoded(letters, kind):
    """Whatever their names: Pillow would start other programs for some."""
    folder, _ = letters
    Image.new("L", (28, 28)).save(folder / "A" / "font0000.ttf.png", kind)
    said = []
    notmnist.make(folder, said.append)
    assert said == ["49 images read; 1 broken ones left out"]


def test_an_image_of_another_size_is_refused_before_it_is_decoded(letters):
    folder, _ = letters
    path = folder / "A" / "font0000.ttf.png"
    content = bytearray(path.read_bytes())
    content[16:24] = struct.pack(">II", 60000, 60000)
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is an image of 60000 × 60000 pixels"):
        notmnist.make(folder, quiet)


def test_too_few_images_are_refused(letters):
    folder, _ = letters
    for path in list((folder / "C").iterdir())[:3]:
        path.unlink()
    with pytest.raises(ValueError, match=r"has 2 readable images of C; .*needs 3"):
        notmnist.make(folder, quiet)


# CIFAR-10


@pytest.fixture
def batches(tmp_path):
    return tmp_path / "cifar-10-batches-py", write_cifar10(tmp_path / "cifar-10-batches-py")


def test_cifar10_is_made_from_folder_and_archive(batches, tmp_path):
    folder, expected = batches
    assert_arrays_equal(cifar10.make(folder, quiet), expected)
    archive = pack_folder(folder, tmp_path / "renamed.tgz")
    assert_arrays_equal(cifar10.make(archive, quiet), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy's module has another name now
def test_the_batches_of_these_tests_are_pickles_of_numpy_arrays(batches):
    folder, expected = batches
    batch = pickle.loads((folder / "test_batch").read_bytes(), encoding="bytes")
    planes = expected["x_test"].transpose(0, 3, 1, 2).reshape(2, 3072)
    np.testing.assert_array_equal(batch[b"data"], planes)


def test_a_missing_batch_is_named(batches):
    folder, _ = batches
    (folder / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match="no data_batch_3 in"):
        cifar10.make(folder, quiet)


def attacks(command):
    """Pickles that run a command of the shell when they are opened, by every road there is."""
    call = b"(S" + repr(command).encode() + b"\n"
    unicode = b"X" + len(command).to_bytes(4, "little") + command.encode()
    os_name = os.name.encode()  # posix or nt: the module that os.system is in
    return {
        "protocol 0": b"cos\nsystem\n" + call + b"tR.",
        "protocol 2": b"\x80\x02c" + os_name + b"\nsystem\n" + call + b"tR.",
        "protocol 4": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + unicode + b"\x85R.",
        "instance": call + b"ios\nsystem\n.",
        "object": b"(cos\nsystem\n" + call[1:] + b"o.",
        "in a batch": python_2_pickle({"labels": [0]})[:-1]
        + b"cos\nsystem\n" + call + b"tR0.",
    }  # fmt: skip


@pytest.mark.parametrize("kind", attacks(""))
def test_code_in_a_pickle_is_refused_and_not_run(batches, tmp_path, kind):
    folder, _ = batches
    marker = tmp_path / "was-here"
    attack = attacks(f"echo > {marker}")[kind]
    (folder / "data_batch_2").write_bytes(attack)
    with pytest.raises(
        ValueError,
        match=r"data_batch_2 cannot be read: it (asks for \w+\.system|has the ins).*was run",
    ):
        cifar10.make(folder, quiet)
    assert not marker.exists()
    pickle.loads(attack)  # the control: Python itself runs it
    assert marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cnumpy\nload\n.",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
        b"\x80\x02cbuiltins\ngetattr\n.",
        b"\x80\x02c__builtin__\neval\n.",
        b"\x80\x02c_codecs\nencode\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93.",
    ],
)
def test_even_harmless_names_are_refused(batches, content):
    folder, _ = batches
    (folder / "data_batch_1").write_bytes(content)
    with pytest.raises(ValueError, match=r"it (asks for|has the instruction) .*nothing was run"):
        cifar10.make(folder, quiet)


def test_a_pickle_cannot_change_what_the_next_one_finds(batches):
    """State set on a stand-in, by pickle's opcode b with a pair of dictionaries, is gone with it."""
    folder, expected = batches
    path = folder / "data_batch_1"
    good = path.read_bytes()
    state = b"(N}U\x0c__defaults__(I1\ntst"
    path.write_bytes(b"\x80\x02cnumpy\ndtype\n" + state + b"b.")
    with pytest.raises(ValueError, match="data_batch_1 cannot be read"):
        cifar10.make(folder, quiet)
    path.write_bytes(good)
    assert_arrays_equal(cifar10.make(folder, quiet), expected)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        python_2_pickle({"labels": [1, 2]}),
        python_2_pickle({"labels": [1], "data": [1, 2, 3]}),
        python_2_pickle({"labels": [1], "data": np.zeros((1, 3072), np.float32)}),
        python_2_pickle({"labels": [1], "data": np.zeros((1, 3071), np.uint8)}),
        python_2_pickle({"labels": [1, 999], "data": np.zeros((2, 3072), np.uint8)}),
        b"\x80\x02P0\n.",  # an object from elsewhere
    ],
)
def test_what_is_no_batch_is_named(batches, content):
    folder, _ = batches
    (folder / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match="test_batch cannot be read"):
        cifar10.make(folder, quiet)


def test_a_cut_archive_is_named(batches, tmp_path):
    archive = pack_folder(batches[0], tmp_path / "cifar-10-python.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(ValueError, match=r"cifar-10-python\.tar\.gz cannot be read"):
        cifar10.make(archive, quiet)


def odd_member(name, **attributes):
    member = tarfile.TarInfo(name)
    for key, value in attributes.items():
        setattr(member, key, value)
    return member


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (odd_member("../../data_batch_9"), "a file outside of it"),
        (odd_member("/etc/data_batch_9"), "a file outside of it"),
        (odd_member("a/data_batch_1", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is a link"),
        (odd_member("a/data_batch_1", type=tarfile.LNKTYPE, linkname="x"), "is a link"),
        (odd_member("a/data_batch_1", size=2**40), "bytes, too many"),
    ],
    ids=["up", "absolute", "symbolic link", "hard link", "too large"],
)
def test_odd_members_of_archives_are_refused_and_nothing_is_unpacked(
    batches, tmp_path, member, words
):
    folder, _ = batches
    archive = tmp_path / "odd.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
        tar.fileobj.write(member.tobuf())
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=rf"odd.tar.gz cannot be read: .*{words}"):
        cifar10.make(archive, quiet)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_with_a_wrong_checksum_is_refused(batches, tmp_path):
    """gzip's own, after the last file: a flip there changes no content."""
    archive = pack_folder(batches[0], tmp_path / "cifar-10-python.tar.gz")
    content = bytearray(archive.read_bytes())
    content[-6] ^= 1
    archive.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="CRC check failed"):
        cifar10.make(archive, quiet)


def test_an_archive_that_unpacks_without_end_is_refused(tmp_path):
    archive = tmp_path / "cifar-10-python.tar.gz"
    with gzip.open(archive, "wb", compresslevel=1) as file:
        file.write(odd_member("other", size=2**40).tobuf())
        for _ in range(2 + MOST_UNPACKED // 2**23):
            file.write(bytes(2**23))
    assert archive.stat().st_size < 2**21
    before = peak_bytes()
    with pytest.raises(ValueError, match="it holds more than"):
        cifar10.make(archive, quiet)
    assert peak_bytes() - before < 2**26


def test_a_pickle_takes_no_more_memory_than_it_has_content(batches):
    """Places, lengths and values that it declares; Python's own reader takes gigabytes for these."""
    folder, _ = batches
    nested = b"\x80\x02]q\x00" + b"".join(
        b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
    )
    pickles_ = {
        "a place far away": b"\x80\x02Nr\xff\xff\xff\x7f.",
        "a text of gigabytes": b"\x80\x02T\xff\xff\xff\x7f.",
        "lists in lists": nested + b"}(U\x06labelsh\x3cU\x04datah\x3cu.",
        "tuples as a key": b"\x80\x02}(" + b")" + b"\x85" * 10**5 + b"Nu.",
        "a type of lists": python_2_pickle({"labels": [1], "data": np.zeros((1, 3072), np.uint8)})
        .replace(b"U\x02u1", nested[2:] + b"h\x3c"),
    }  # fmt: skip
    before = peak_bytes()
    for content in pickles_.values():
        (folder / "test_batch").write_bytes(content)
        with pytest.raises(ValueError, match="test_batch cannot be read"):
            cifar10.make(folder, quiet)
    assert peak_bytes() - before < 2**26


# SVHN


def test_svhn_is_made_from_the_matlab_file(tmp_path):
    expected = write_svhn(tmp_path)
    assert_arrays_equal(svhn.make(tmp_path, quiet), expected)
    assert_arrays_equal(svhn.make(tmp_path / "test_32x32.mat", quiet), expected)
    assert set(expected["y_test"]) == set(range(10))


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0", b"MATLAB 5.0 MAT-file".ljust(900)])
def test_a_broken_matlab_file_is_named(tmp_path, content):
    (tmp_path / "test_32x32.mat").write_bytes(content)
    with pytest.raises(ValueError, match=r"test_32x32\.mat cannot be read"):
        svhn.make(tmp_path, quiet)


def test_a_cut_matlab_file_is_named(tmp_path):
    write_svhn(tmp_path)
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"test_32x32\.mat cannot be read"):
        svhn.make(tmp_path, quiet)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path, dtype, compressed):
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(0, 100, shape).astype(dtype)
        for name, shape in {"X": (3, 2, 4, 5), "y": (5, 1), "tiny": (1, 2), "none": (0, 3)}.items()
    }
    path = tmp_path / "a.mat"
    savemat(path, arrays | {"text": "words"}, do_compression=compressed)
    found = mat.read_arrays(path.read_bytes(), arrays, 2**20)
    expected = loadmat(path)
    for name in arrays:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(found[name], expected[name])
    with pytest.raises(ValueError, match="X has lengths"):
        mat.read_arrays(path.read_bytes(), ("X",), 100)
    with pytest.raises(ValueError, match="no array Z"):
        mat.read_arrays(path.read_bytes(), ("Z",), 2**20)


@pytest.mark.parametrize("bad", [np.nan, 2.5, 0, 11, -1, np.inf])
def test_labels_that_are_no_digits_are_refused(tmp_path, bad):
    y = np.array([[1.0], [bad]])
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": y})
    with pytest.raises(ValueError, match="y of digits from 1 to 10"):
        svhn.make(tmp_path, quiet)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_changed_matlab_file_raises_errors_only(tmp_path, compressed):
    """No flip crashes the process, and of a compressed array none that changes it goes unseen."""
    path = tmp_path / "test_32x32.mat"
    y = np.arange(1, 4, dtype=np.uint8)[:, None]
    savemat(path, {"X": np.zeros((32, 32, 3, 3), np.uint8), "y": y}, do_compression=compressed)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    expected = svhn.make(tmp_path, quiet)
    for place in rng.integers(128, len(content), 300):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(changed))
        try:
            made = svhn.make(tmp_path, quiet)
            if compressed:
                assert_arrays_equal(made, expected)
        except ValueError as error:
            assert "test_32x32.mat cannot be read" in str(error)  # noqa: PT017


# Flights


@pytest.mark.parametrize("block", [2, 100_000])
def test_flights_are_made_from_csv(tmp_path, monkeypatch, block):
    monkeypatch.setattr(flights, "_BLOCK", block)
    write_flights(tmp_path, FLIGHTS, YEARS)
    made = flights.make(tmp_path, quiet)
    assert set(made) == set(flights.FROM_CSV)
    assert {array.dtype for array in made.values()} == {np.dtype("float32")}
    assert made["distance"].tolist() == [1, 2, 3, 4, 5, 6, 2100]
    assert made["crs_dep_time"].tolist() == [5, 55, 100, 1900, 1900, 5, 600]
    nan = np.nan
    np.testing.assert_array_equal(made["plane_year"], [nan, 1999, nan, 1999, 1999, 1999, 1999])
    np.testing.assert_array_equal(made["arr_delay"], [-3, nan, -3, -3, -3, -3, -3])
    np.testing.assert_array_equal(made["dep_time"][:2], [1905, nan])
    assert made["month"].tolist() == [1, 1, 1, 1, 1, 1, 2]


def test_flights_are_the_same_from_unpacked_csv(tmp_path):
    write_flights(tmp_path / "a", FLIGHTS, YEARS)
    write_flights(tmp_path / "b", FLIGHTS, YEARS, not_packed)
    made = flights.make(tmp_path / "a", quiet)
    for name, array in flights.make(tmp_path / "b", quiet).items():
        np.testing.assert_array_equal(array, made[name])


def test_complete_rows_are_the_eight_features_in_order(tmp_path):
    write_flights(tmp_path, FLIGHTS, YEARS)
    made = flights.make(tmp_path, quiet)
    x = np.stack([made[name] for name in flights.COLUMNS], axis=1)
    table = Dataset("flights2008", {"all": Split(x, made["arr_delay"])}, columns=flights.COLUMNS)
    rows = complete_rows(table)
    assert rows.y.tolist() == [-3, -3, -3, -3]
    assert dict(zip(flights.FEATURES, rows.x[0].tolist(), strict=True)) == {
        "plane_age": 9,
        "distance": 4,
        "air_time": 245,
        "dep_time": 19 * 60 + 5,
        "arr_time": 24 * 60,
        "day_of_week": 4,
        "day_of_month": 3,
        "month": 1,
    }
    assert rows.x[:, 1].tolist() == [4, 5, 6, 2100]


@pytest.mark.parametrize("name", ["2008.csv.bz2", "plane-data.csv"])
def test_both_files_of_flights_are_needed(tmp_path, name):
    write_flights(tmp_path, FLIGHTS, YEARS)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no {name}"):
        flights.make(tmp_path, quiet)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("2008.csv.bz2", b""),
        ("2008.csv.bz2", bz2.compress(b"")),
        ("2008.csv.bz2", bz2.compress(b"a,b\n1,2\n")),
        ("2008.csv.bz2", bz2.compress(FLIGHT_HEADER.encode() + b"\n2008,1\n")),
        ("2008.csv.bz2", bz2.compress(FLIGHT_HEADER.encode())[:-9]),
        ("plane-data.csv", b"a,b\n1,2\n"),
    ],
)
def test_what_is_no_table_of_flights_is_named(tmp_path, name, content):
    write_flights(tmp_path, FLIGHTS, YEARS)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read"):
        flights.make(tmp_path, quiet)


@pytest.mark.parametrize("cell", ["later", "0x1f"])
def test_a_cell_that_is_no_number_is_refused(tmp_path, cell):
    write_flights(tmp_path, [flight(1, 1, 5, ArrDelay=cell)], YEARS)
    with pytest.raises(ValueError, match=r"2008\.csv\.bz2 cannot be read: .*" + cell):
        flights.make(tmp_path, quiet)


# UCI


def test_uci_is_made_from_folders_with_index_files(tmp_path):
    expected = write_uci(tmp_path)
    assert len(expected) == 36
    assert_arrays_equal(uci.make(tmp_path, quiet), expected)


def test_all_nine_tables_are_needed(tmp_path):
    write_uci(tmp_path)
    (tmp_path / "UCI_Datasets" / "kin8nm").rename(tmp_path / "kin")
    with pytest.raises(FileNotFoundError, match=r"no kin8nm/data/data\.txt in .*All nine"):
        uci.make(tmp_path, quiet)


def test_files_beside_a_table_are_needed(tmp_path):
    write_uci(tmp_path)
    path = tmp_path / "UCI_Datasets" / "yacht" / "data" / "index_test_1.txt"
    path.write_text("one two")
    with pytest.raises(ValueError, match=r"index_test_1\.txt cannot be read"):
        uci.make(tmp_path, quiet)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"index_test_1\.txt, which belongs to the table"):
        uci.make(tmp_path, quiet)


# Where files are looked for


def test_the_nearest_file_of_the_first_name_is_found(tmp_path):
    for path in ("a/b/x.gz", "c/x", "c/x.gz"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert find(tmp_path, "x.gz", "x") == tmp_path / "c" / "x.gz"
    assert find(tmp_path / "a", "x.gz", "x") == tmp_path / "a" / "b" / "x.gz"
    assert find(tmp_path / "c" / "x", "x.gz", "x") == tmp_path / "c" / "x"
    with pytest.raises(FileNotFoundError, match="no y or z in"):
        find(tmp_path, "y", "z")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n_splits.txt", ""),
        ("index_target.txt", "99"),
        ("index_train_0.txt", "0\n"),
        ("index_test_0.txt", "-1\n"),
        ("index_test_0.txt", "70000\n"),
    ],
)
def test_an_index_that_does_not_fit_its_table_is_named(tmp_path, name, text):
    write_uci(tmp_path)
    folder = uci.find_table(tmp_path, "yacht")
    rows = len((folder / name).read_text().split())
    (folder / name).write_text(text * (rows if "-1" in text or "7" in text else 1))
    with pytest.raises(ValueError, match=r"yacht/data.* cannot be read"):
        uci.make(tmp_path, quiet)


@pytest.mark.parametrize("module", [mnist, notmnist, cifar10, svhn, flights, uci])
def test_a_place_that_does_not_exist_is_named(tmp_path, module):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        module.make(tmp_path / "nowhere", quiet)
