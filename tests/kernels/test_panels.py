"""The packed lower triangle against NumPy on the whole matrix."""

import shutil
from collections import namedtuple

import numpy as np
import pytest

from ntkgp import NotPositiveDefinite
from ntkgp.kernels import panels
from ntkgp.kernels.panels import Panels, cholesky

SIZES = [1, 6, 7, 8, 30]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Panels so narrow that small matrices have several."""
    monkeypatch.setattr(panels, "WIDTH", 7)


def matrix_of(n, rng):
    root = rng.normal(size=(n, n + 3))
    return root @ root.T + np.eye(n)


def writer(matrix):
    def fill(panel):
        panel.entries[...] = matrix[panel.start :, panel.start : panel.stop]
        panel.square[np.triu_indices(len(panel.square), 1)] = np.nan  # of no account

    return fill


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("t", [1, 3])
def test_factor_and_solutions_equal_numpy_s(n, t, dtype, in_file, tmp_path):
    rng = np.random.default_rng(n)
    matrix, right = matrix_of(n, rng), rng.normal(size=(n, t))
    room = Panels.empty(n, dtype, tmp_path if in_file else None)
    factor = cholesky(room, writer(matrix), "it")
    expected = np.linalg.cholesky(matrix)
    limit = {"rtol": 1e-3, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-12}
    np.testing.assert_allclose(factor.diagonal(), np.diag(expected), **limit)
    lower = factor.solve_lower(right.astype(dtype))
    np.testing.assert_allclose(lower, np.linalg.solve(expected, right), **limit)
    upper = factor.solve_upper(right.astype(dtype))
    np.testing.assert_allclose(upper, np.linalg.solve(expected.T, right), **limit)


@pytest.mark.parametrize("n", SIZES)
def test_product_equals_numpy_s(n):
    rng = np.random.default_rng(n)
    matrix, right = matrix_of(n, rng), rng.normal(size=(n, 2))
    room = Panels.empty(n, np.float64)
    for panel in room:
        writer(matrix)(panel)
    np.testing.assert_allclose(room.times(right), matrix @ right, rtol=1e-12)


def test_it_takes_little_more_than_half_of_the_matrix():
    assert panels.n_entries(54_000, 2048) < 1.05 * 54_000**2 / 2


@pytest.mark.parametrize("smallest", [-1e-3, 0.0, 1e-18])
def test_what_is_not_positive_definite_is_refused_with_a_jitter_that_is_enough(smallest):
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    matrix = vectors @ np.diag([1.0] * 19 + [smallest]) @ vectors.T
    with pytest.raises(NotPositiveDefinite, match=r"the matrix \(20x20\).*jitter=") as error:
        cholesky(Panels.empty(20, np.float64), writer(matrix), "the matrix")
    jitter = float(str(error.value).split("jitter=")[1].split()[0])
    if smallest >= 0:
        mended = matrix + jitter * np.eye(20)
        cholesky(Panels.empty(20, np.float64), writer(mended), "the matrix")


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10))
    with pytest.raises(OSError, match=r"0\.0 GiB free"):
        Panels.empty(30, np.float64, tmp_path)
    assert not list(tmp_path.iterdir())
