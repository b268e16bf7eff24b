"""Pilots: which noise they choose, by ensembles whose predictions are known."""

import numpy as np
import pytest

from ntkgp.estimators.pilots import LESS_NOISE, less_noise
from ntkgp.predictive.distributions import Mixture

X = np.zeros((400, 1))
Y = np.random.default_rng(0).normal(size=(400, 1))


class Known:
    """An ensemble that predicts each target up to an error."""

    def __init__(self, errors):
        self.errors = errors

    def predict(self, x):
        return Mixture(np.stack([Y + self.errors] * 3))


def fit_members(errors_at):
    """Members whose errors are those of the given σ; None where training fails."""

    def fit(noise_std, members):
        errors = errors_at(noise_std)
        if errors is None:
            raise FloatingPointError("no member survived training")
        return Known(errors)

    return fit


def test_noise_is_lowered_while_that_is_better():
    least = LESS_NOISE**2
    errors = np.random.default_rng(1).normal(size=Y.shape)
    fit = fit_members(lambda noise_std: errors * max(noise_std, least))
    assert less_noise(fit, 1.0, X, Y) == pytest.approx(least)


def test_pilots_that_fail_end_the_trial_alone():
    errors = np.random.default_rng(1).normal(size=Y.shape)
    fit = fit_members(lambda noise_std: errors * noise_std if noise_std > 0.3 else None)
    assert less_noise(fit, 1.0, X, Y) == pytest.approx(LESS_NOISE)
    with pytest.raises(FloatingPointError):  # the control: at the σ that is given they may not fail
        less_noise(fit, 0.2, X, Y)


def test_rows_count_by_their_noise():
    """Rows of large noise say next to nothing, however large their errors."""
    errors = np.random.default_rng(1).normal(size=Y.shape)
    noisy = np.arange(len(Y)) % 2 == 0

    def errors_at(noise_std):
        """Less noise mends the quiet rows a little, and costs the noisy ones much."""
        scale = np.where(noisy, 100.0 / noise_std, max(noise_std, LESS_NOISE))
        return errors * scale[:, None]

    relative = np.where(noisy, 1e6, 1.0)[:, None]
    assert less_noise(fit_members(errors_at), 1.0, X, Y, relative) == pytest.approx(LESS_NOISE)
    assert less_noise(fit_members(errors_at), 1.0, X, Y) == 1.0  # the control
