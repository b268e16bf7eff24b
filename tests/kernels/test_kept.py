"""Factorisations that are interrupted: panels that are done are kept, and the factor is the same."""

import numpy as np
import pytest

import ntkgp
from ntkgp.kernels import kept, panels
from ntkgp.kernels.solvers import Cholesky
from ntkgp.kernels.training_kernel import TrainingKernel

X = np.random.default_rng(0).normal(size=(50, 2))
NET = ntkgp.mlp(2, width=8)


class Killed(BaseException):
    """A process that ends, as seen from inside."""


@pytest.fixture(autouse=True)
def narrow_panels(monkeypatch):
    monkeypatch.setattr(panels, "WIDTH", 8)


def kernel(shift=0.1):
    return TrainingKernel(NET, X, "ntk", shift)


def factor(directory=None, shift=0.1):
    return Cholesky(directory)(kernel(shift), progress=False).factor


def killed_after(done, directory, shift=0.1):
    """Fill so many panels, and end."""
    filled = []

    def mortal(self, panel, real=TrainingKernel.fill):
        if len(filled) == done:
            raise Killed
        filled.append(panel.start)
        real(self, panel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingKernel, "fill", mortal)
        with pytest.raises(Killed):
            factor(directory, shift)


def filled_by(call):
    """Where the panels start that a call fills."""
    starts = []

    def counting(self, panel, real=TrainingKernel.fill):
        starts.append(panel.start)
        real(self, panel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingKernel, "fill", counting)
        found = call()
    return found, starts


def test_panels_that_are_done_are_kept(tmp_path):
    whole = factor()
    killed_after(3, tmp_path)
    killed_after(1, tmp_path)
    resumed, starts = filled_by(lambda: factor(tmp_path))
    assert starts == [panel.start for panel in whole][4:]
    np.testing.assert_array_equal(resumed.entries, whole.entries)
    assert not list(tmp_path.iterdir())  # it vanishes with the factor


@pytest.mark.parametrize("damage", ["panel", "note"])
def test_damaged_panels_are_made_again(damage, tmp_path):
    killed_after(3, tmp_path)
    (file,) = tmp_path.glob(f"*.{'panels' if damage == 'panel' else 'json'}")
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    resumed, starts = filled_by(lambda: factor(tmp_path))
    assert starts[0] == 0
    np.testing.assert_array_equal(resumed.entries, factor().entries)


def test_another_matrix_has_another_file(tmp_path):
    killed_after(3, tmp_path, shift=0.2)
    other, starts = filled_by(lambda: factor(tmp_path))
    assert starts[0] == 0
    np.testing.assert_array_equal(other.entries, factor().entries)
    assert len(list(tmp_path.iterdir())) == 2  # what was interrupted is still there


def test_two_at_one_factor_do_not_meet(tmp_path):
    held = kept._KeptFile(tmp_path, kernel())
    np.testing.assert_array_equal(factor(tmp_path).entries, factor().entries)
    assert held.done == 0
    assert list(tmp_path.glob("*.panels"))


def test_a_matrix_that_has_no_factor_leaves_no_file(tmp_path):
    twice = TrainingKernel(NET, np.concatenate([X, X]), "ntk", 0.0)
    with pytest.raises(ntkgp.NotPositiveDefinite):
        Cholesky(tmp_path)(twice, progress=False)
    assert not list(tmp_path.iterdir())
