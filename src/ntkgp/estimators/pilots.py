"""Less noise for members than for their law: a few pilots try it on rows held out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ntkgp.ensembles.ensemble import Ensemble
from ntkgp.predictive.calibration import best_noise_std

PILOTS = 3
"""Members that try a lower noise."""
LESS_NOISE = 0.4
"""The step in which it is lowered."""
LEAST_GAIN = 0.01
"""Nats a row that another step must be worth: below some noise nothing changes any more."""


def less_noise(
    fit_members: Callable[..., Ensemble],
    noise_std: float,
    x: NDArray[Any],
    targets: NDArray[Any],
    relative_var: NDArray[Any] | float = 1.0,
) -> float:
    """σ of training, lowered step by step while a few members do better on rows held out.

    Members learn features that their law does not have, so less is left for noise to explain.

    Args:
        fit_members: an ensemble at a noise_std, of so many members.
        noise_std: σ that suits the law.
        x: inputs of the rows held out.
        targets: theirs, (n, c).
        relative_var: the noise variance of each row over σ², (n, 1).
    """

    def log_probs(noise_std: float) -> NDArray[Any]:
        pilot = fit_members(noise_std=noise_std, members=PILOTS).predict(x)
        noise_var = best_noise_std(pilot, targets, relative_var=relative_var) ** 2 * relative_var
        return replace(pilot, noise_vars=noise_var).moment_matched().log_prob(targets)

    best = log_probs(noise_std)
    while True:
        less = LESS_NOISE * noise_std
        try:
            found = log_probs(less)
        except FloatingPointError:  # no pilot can be trained with so little
            return noise_std
        gains = (found - best).mean(axis=1)
        if np.mean(gains) <= max(np.std(gains) / len(gains) ** 0.5, LEAST_GAIN):
            return noise_std
        noise_std, best = less, found
