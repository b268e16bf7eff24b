"""Small files in the formats of the public originals; each writer returns what they hold."""

import bz2
import csv
import gzip
import io
import struct
import tarfile

import numpy as np
from PIL import Image
from scipy.io import savemat

from ntkgp.data import uci

RNG = np.random.default_rng(0)


def images(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def labels(n):
    return RNG.integers(0, 10, n, dtype=np.uint8)


def write_mnist(folder, pack=gzip.compress):
    """The four IDX files, written as the format's description has it: all numbers big-endian."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"x_train": images(6, 28, 28), "y_train": labels(6)}
    arrays |= {"x_test": images(3, 28, 28), "y_test": labels(3)}
    suffix = ".gz" if pack(b"") else ""
    for prefix, part in (("train", "train"), ("t10k", "test")):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        idx3 = struct.pack(">iiii", 2051, len(x), 28, 28) + x.tobytes()
        idx1 = struct.pack(">ii", 2049, len(y)) + y.tobytes()
        (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(idx3))
        (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx1))
    return arrays


def write_notmnist(folder, per_letter):
    """Folders A to J of PNG files. Returns the images of each letter in the order of their names."""
    written = {}
    for letter in "ABCDEFGHIJ":
        (folder / letter).mkdir(parents=True)
        written[letter] = images(per_letter, 28, 28)
        for i, image in enumerate(written[letter]):
            Image.fromarray(image).save(folder / letter / f"font{i:04}.ttf.png")
    return written


def pack_folder(folder, archive):
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def write_cifar10(folder, per_batch=2):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, names in (
        ("train", [f"data_batch_{i}" for i in range(1, 6)]),
        ("test", ["test_batch"]),
    ):
        x, y = images(len(names) * per_batch, 32, 32, 3), labels(len(names) * per_batch)
        for i, name in enumerate(names):
            rows = slice(i * per_batch, (i + 1) * per_batch)
            planes = x[rows].transpose(0, 3, 1, 2).reshape(per_batch, 3072)
            batch = {"batch_label": name, "labels": y[rows].tolist(), "data": planes}
            batch["filenames"] = ["cat_s_000001.png"] * per_batch
            (folder / name).write_bytes(python_2_pickle(batch))
        arrays |= {f"x_{part}": x, f"y_{part}": y}
    (folder / "batches.meta").write_bytes(python_2_pickle({"label_names": ["airplane"]}))
    return arrays


def python_2_pickle(value):
    """Pickle's protocol 2 as Python 2 and its NumPy wrote it, opcode by opcode."""
    return b"\x80\x02" + _pickled(value) + b"."


def _pickled(value):
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return b"J" + struct.pack("<i", value)
        case str():
            return _pickled(value.encode())
        case bytes() if len(value) < 256:
            return b"U" + bytes([len(value)]) + value
        case bytes():
            return b"T" + struct.pack("<i", len(value)) + value
        case tuple():
            return b"(" + b"".join(map(_pickled, value)) + b"t"
        case list():
            return b"](" + b"".join(map(_pickled, value)) + b"e"
        case dict():
            pairs = b"".join(_pickled(key) + _pickled(item) for key, item in value.items())
            return b"}(" + pairs + b"u"
        case np.ndarray():
            code = value.dtype.str[1:]
            dtype = b"cnumpy\ndtype\n" + _pickled((code, 0, 1)) + b"R"
            dtype += _pickled((3, "|", None, None, None, -1, -1, 0)) + b"b"
            empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
            empty += _pickled((0,)) + _pickled("b") + b"tR"
            state = _pickled(1) + _pickled(value.shape) + dtype + _pickled(False)
            return empty + b"(" + state + _pickled(value.tobytes()) + b"tb"
    raise TypeError(type(value))


def write_svhn(folder):
    folder.mkdir(parents=True, exist_ok=True)
    x, y = images(12, 32, 32, 3), np.arange(12, dtype=np.uint8) % 10
    matlab = {"X": x.transpose(1, 2, 3, 0), "y": np.where(y == 0, 10, y).astype(np.uint8)[:, None]}
    savemat(folder / "test_32x32.mat", matlab)
    return {"x_test": x, "y_test": y}


FLIGHT_HEADER = (
    "Year,Month,DayofMonth,DayOfWeek,DepTime,CRSDepTime,ArrTime,CRSArrTime,UniqueCarrier,FlightNum,"
    "TailNum,ActualElapsedTime,CRSElapsedTime,AirTime,ArrDelay,DepDelay,Origin,Dest,Distance,TaxiIn,"
    "TaxiOut,Cancelled,CancellationCode,Diverted,CarrierDelay,WeatherDelay,NASDelay,SecurityDelay,"
    "LateAircraftDelay"
)
PLANE_HEADER = "tailnum,type,manufacturer,issue_date,model,status,aircraft_type,engine_type,year"


YEARS = {"N1": "1999", "N2": "0000", "N3": "None", "N4": ""}
KNOWN = {"DepTime": 1905, "ArrTime": 2400, "AirTime": 245, "ArrDelay": -3, "Distance": 2100}


def flight(month, day, scheduled, tail="N1", **other):
    date = {"Month": month, "DayofMonth": day, "DayOfWeek": 4, "CRSDepTime": scheduled}
    return KNOWN | date | {"TailNum": tail} | other


FLIGHTS = [
    flight(2, 1, 600, FlightNum="sixth"),
    flight(1, 3, 1900, Distance=4),
    flight(1, 3, 1900, Distance=5),  # the order of the file where times are equal
    flight(1, 20, 5, Distance=6),
    flight(1, 3, 55, DepTime="NA", ArrTime="NA", AirTime="NA", ArrDelay="NA", Distance=2),
    flight(1, 3, 5, tail="unknown", Distance=1),
    flight(1, 3, 100, tail="N2", Distance=3),
]


def write_flights(folder, flights, years, pack=bz2.compress):
    """2008.csv.bz2 with these flights, dictionaries of some columns, and plane-data.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    text = as_csv(FLIGHT_HEADER, flights, filler="NA")
    suffix = ".bz2" if pack(b"") else ""
    (folder / f"2008.csv{suffix}").write_bytes(pack(text.encode()))
    cut = {"tailnum": "N050AA"}  # rows that end after their first cell are in the original too
    planes = [cut, *({"tailnum": tail, "year": year} for tail, year in years.items())]
    (folder / "plane-data.csv").write_text(as_csv(PLANE_HEADER, planes).replace("AA,,,,,,,,", "AA"))


def as_csv(header, rows, filler=""):
    text = io.StringIO()
    writer = csv.DictWriter(text, header.split(","), restval=filler)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_uci(folder, rows=10, splits=2):
    """The nine tables, `rows` long, with the target between the features and numbers as floats."""
    arrays = {}
    for table in uci.SHAPES:
        data = RNG.normal(size=(rows, 4))
        place = folder / "UCI_Datasets" / table / "data"
        place.mkdir(parents=True)
        np.savetxt(place / "data.txt", data)
        np.savetxt(place / "index_features.txt", [0, 1, 3])
        np.savetxt(place / "index_target.txt", [2])
        np.savetxt(place / "n_splits.txt", [splits])
        order = np.array([RNG.permutation(rows) for _ in range(splits)])
        parts = {"train": order[:, :-2], "test": order[:, -2:]}
        for part, numbers in parts.items():
            for split in range(splits):
                np.savetxt(place / f"index_{part}_{split}.txt", numbers[split])
            arrays[f"{table}/{part}_idx"] = numbers.astype(np.uint16)
        arrays |= {f"{table}/x": data[:, [0, 1, 3]], f"{table}/y": data[:, 2]}
    return arrays
