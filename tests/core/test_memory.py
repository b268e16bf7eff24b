"""Covariances that do not fit are refused before they are made, of laws and of regressors."""

import tracemalloc
from functools import cache

import jax
import numpy as np
import pytest

import ntkgp
from ntkgp import EnsembleRegressor, GPRegressor
from ntkgp.core import memory

X = np.random.default_rng(0).normal(size=(12, 2))
MANY = np.zeros((200_000, 2))
TINY = {"members": 2, "width": 4, "min_steps": 5, "min_epochs": 1, "activation": "relu", "depth": 1}


@cache
def law(name):
    return ntkgp.condition(ntkgp.mlp(2), X, X[:, 0], law=name, jitter=1e-6)


@cache
def model(name):
    fresh = {
        "ensemble": EnsembleRegressor(learn_prior=False, **TINY),
        "law": GPRegressor(activation="relu", depth=1, optimizer=None),
    }
    return fresh[name].fit(X, X)


REQUESTS = {
    "covariance": lambda: law("ntkgp").covariance,
    "covariance of two kernels": lambda: law("deep-ensemble").covariance,
    "sample": lambda: lambda x: law("ntkgp").sample(x, 1),
    "ensemble's": lambda: lambda x: model("ensemble").predict(x, return_cov=True),
    "law's": lambda: lambda x: model("law").predict(x, return_cov=True),
    "law's samples": lambda: lambda x: model("law").sample_y(x),
}


@pytest.mark.quick("law*", "sample", "covariance*")
@pytest.mark.parametrize("name", REQUESTS)
def test_a_covariance_of_many_rows_is_refused_in_words(name, monkeypatch):
    request = REQUESTS[name]()
    request(MANY[:3])  # the control: a few rows fit
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**36)
    monkeypatch.setattr("ntkgp.kernels.matrices.kernel_matrices", None)  # nothing is computed
    monkeypatch.setattr("ntkgp.laws.exact.kernel_matrix", None)
    monkeypatch.setattr("ntkgp.ensembles.ensemble.Ensemble.predict", None)
    with pytest.raises(ntkgp.NotEnoughMemory) as error:
        request(MANY)
    assert "the covariance between 200,000 rows needs" in str(error.value)
    assert "64.0 GiB are free" in str(error.value)
    assert "return_std=True" in str(error.value)


LARGE = {
    "kernel": lambda x: ntkgp.ntk(ntkgp.mlp(2), x),
    "two kernels": lambda x: ntkgp.kernel_matrices(ntkgp.mlp(2), x, x[:9]),
    "empirical": lambda x: ntkgp.empirical_ntk(NET, NET.init(jax.random.key(0)), x),
    "predictions": lambda x: model("ensemble").predict(x),
}
NET = ntkgp.mlp(2, width=4)


@pytest.mark.parametrize("name", LARGE)
def test_what_memory_cannot_hold_is_not_begun(name, monkeypatch):
    request = LARGE[name]
    request(MANY[:3])  # the control
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    monkeypatch.setattr(memory, "_SMALL", 0)
    request(MANY[:3])
    with pytest.raises(ntkgp.NotEnoughMemory, match=r"(a kernel of|predicting) 200,000 .* needs"):
        request(MANY)


@pytest.mark.parametrize("name", ["kernel", "empirical", "predictions"])
def test_kernels_and_predictions_take_what_is_forecast(name, monkeypatch):
    """The peak of arrays in Python, with the blocks in which they are computed."""
    told, real = [], memory.require
    for module in ("core.memory", "ensembles.ensemble"):
        monkeypatch.setattr(
            f"ntkgp.{module}.require",
            lambda needed, *words: told.append(needed) or real(needed, *words),
        )
    monkeypatch.setattr(memory, "_SMALL", 0)
    x = np.random.default_rng(0).normal(size=(60_000 if name == "predictions" else 1500, 2))
    LARGE[name](x)  # compiles
    tracemalloc.start()
    LARGE[name](x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * told[-1] < peak < 2 * told[-1], peak / told[-1]


def test_what_is_forecast_is_near_what_is_taken():
    """The peak of a covariance of 1,500 rows is between a third of the forecast and a tenth above it."""
    rows = np.random.default_rng(1).normal(size=(1500, 2))
    for name, matrices in (("ntkgp", 3), ("deep-ensemble", 5)):
        law(name).covariance(rows)  # compiles
        tracemalloc.start()
        law(name).covariance(rows)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        forecast = 8 * matrices * len(rows) ** 2
        assert forecast / 3 < peak < 1.1 * forecast, (name, peak / forecast)


NEW = ("memory.max", "memory.current", "inactive_file")
OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def group(folder, names, limit, used, cached):
    """The files of a control group."""
    folder.mkdir(parents=True)
    for name, value in zip(names, (limit, used), strict=False):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{names[2]} {cached}\nactive_file 5\n")


def machine(root, monkeypatch, own, available=2**40):
    """A machine of files: /proc, and where control groups will be."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {available // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(own)
    monkeypatch.setattr(memory, "_PROC", root / "proc")
    monkeypatch.setattr(memory, "_CGROUP", root / "cgroup")
    return root / "cgroup"


def test_free_memory_is_known_here():
    assert memory.available_bytes() > 2**20


def test_files_in_memory_count_as_free_in_a_container(tmp_path, monkeypatch):
    top = machine(tmp_path, monkeypatch, "0::/\n")
    group(top, NEW, limit=1000, used=900, cached=600)
    assert memory.available_bytes() == 700  # 100 are not used, and 600 give way


def test_the_first_version_of_control_groups_is_read(tmp_path, monkeypatch):
    top = machine(tmp_path, monkeypatch, "4:memory:/jobs/mine\n1:cpu:/\n0::/\n")
    group(top / "memory", OLD, limit=2**63 - 4096, used=10, cached=0)  # no limit
    assert memory.available_bytes() == 2**40
    group(top / "memory/jobs/mine", OLD, limit=5000, used=2000, cached=500)
    assert memory.available_bytes() == 3500


def test_the_tightest_group_counts(tmp_path, monkeypatch):
    top = machine(tmp_path, monkeypatch, "0::/jobs/mine\n")
    group(top / "jobs/mine", NEW, limit="max", used=10, cached=0)
    assert memory.available_bytes() == 2**40
    group(top / "other", NEW, limit=1, used=1, cached=0)  # another's
    for name, value in zip(NEW, (300, 400), strict=False):
        (top / "jobs" / name).write_text(str(value))
    (top / "jobs/memory.stat").write_text("inactive_file 0")
    assert memory.available_bytes() == 0  # beyond its limit


def test_what_cannot_be_read_is_no_limit(tmp_path, monkeypatch):
    top = machine(tmp_path, monkeypatch, "0::/\n", available=2**30)
    group(top, NEW, limit="", used=1, cached=0)
    assert memory.available_bytes() == 2**30
