"""Options that cannot work are refused in words, before anything is drawn."""

import warnings

import numpy as np
import optax
import pytest

import ntkgp
from ntkgp import Descent, EnsembleRegressor, GPClassifier, GPRegressor
from ntkgp.ensembles.outcome import FarFromTargets
from ntkgp.laws.evidence import training_kernel

X = np.random.default_rng(0).normal(size=(12, 2))
Y = X[:, 0]
NET = ntkgp.mlp(2, width=3, depth=1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"seed": 2**32}, ValueError, "seed must be a whole number from 0 to 2"),
        ({"seed": -1}, ValueError, "seed must be"),
        ({"seed": 1.5}, ValueError, "seed must be"),
        ({"noise_std": 1e300}, ValueError, "noise_std must be .*at most 1e.15.*got 1e.300"),
        ({"noise_std": "0.1"}, TypeError, "noise_std must be a number; got '0.1'"),
        ({"noise_std": float("nan")}, ValueError, "noise_std must be"),
        ({"noise_std": True}, TypeError, "noise_std must be a number; got True"),
        ({"trainer": 5}, TypeError, "trainer must be a Trainer.*got 5"),
        ({"members": 10**7}, ValueError, "members must be at most 100,000; got 10000000"),
        ({"members": range(10**7)}, ValueError, "members must be at most 100,000"),
        ({"weight_decay": "1"}, TypeError, "weight_decay must be a number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_impossible_options_of_fit_are_named(options, error, words):
    with pytest.raises(error, match=words):
        ntkgp.fit(NET, X, Y, **options)


@pytest.mark.parametrize(
    ("noise_std", "error"),
    [("0.1", TypeError), (1e300, ValueError), (-1.0, ValueError), (float("inf"), ValueError)],
)
@pytest.mark.parametrize(
    "fit",
    [
        lambda noise_std: ntkgp.condition(NET, X, Y, noise_std=noise_std),
        lambda noise_std: ntkgp.fit_prior(NET, X, Y, noise_std=noise_std),
        lambda noise_std: GPRegressor(noise_std=noise_std).fit(X, Y),
        lambda noise_std: EnsembleRegressor(noise_std=noise_std).fit(X, Y),
        lambda noise_std: GPClassifier(noise_std=noise_std).fit(X, Y > 0),
    ],
    ids=["condition", "fit_prior", "GPRegressor", "EnsembleRegressor", "GPClassifier"],
)
def test_noise_that_is_no_number_is_named_by_all(fit, noise_std, error):
    with pytest.raises(
        error, match="noise_std"
    ):  # the types of some are checked by the tests themselves
        fit(noise_std)


def test_estimators_name_a_trainer_and_members_that_cannot_be():
    for options, words in (({"trainer": 5}, "trainer must be"), ({"members": 10**7}, "at most")):
        model = EnsembleRegressor(width=3, learn_prior=False, noise_std=0.1, **options)
        with pytest.raises((TypeError, ValueError), match=words):
            model.fit(X, Y)


def test_seeds_of_kernels_by_simulation_are_not_cut():
    with pytest.raises(ValueError, match="seed must be a whole number"):
        training_kernel(
            ntkgp.networks.ready_made.myrtle((32, 32, 3), 2), np.zeros((1, 32, 32, 3)), "ntk", 2**32
        )


def test_training_that_ends_far_away_says_so():
    trainer = Descent(optax.sgd(1e3), epochs=2)
    with pytest.warns(FarFromTargets, match="times the size of y away from y"):
        ntkgp.fit(NET, X, Y, members=1, trainer=trainer)


def test_a_member_that_ends_far_from_the_others_is_named():
    """Its prior is 900 times too large, and it has no time to come back from there."""
    nets = [ntkgp.mlp(2, width=64, depth=1, w_std=w_std) for w_std in (1.0, 1.0, 30.0)]
    options = {"member_nets": nets, "trainer": Descent(optax.adam(1e-2), epochs=60)}
    with pytest.warns(FarFromTargets, match="^member 2 ended farther from y than 0 is"):
        ntkgp.fit(nets[0], X, Y, members=3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FarFromTargets)
        ntkgp.fit(nets[0], X, Y, members=2, **options | {"member_nets": nets[:2]})
