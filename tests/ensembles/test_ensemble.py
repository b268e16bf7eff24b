"""Ensembles as values: they predict within a limit of memory, add up, and print in a line."""

import jax
import numpy as np
import pytest

import ntkgp
from ntkgp import METHODS, GaussNewton, fit
from ntkgp.ensembles import plans
from ntkgp.ensembles.methods import name_of

X = np.linspace(-1, 1, 6)[:, None]
Y = np.sin(3 * X)
NET = ntkgp.mlp(1, width=8)
TRAINER = GaussNewton(max_steps=3)


def trained(members, **options):
    return fit(NET, X, Y, members=members, trainer=TRAINER, **options)


def leaves(ensemble):
    return jax.tree.leaves((ensemble.theta, ensemble.member))


@pytest.mark.quick("ntkgp-param")
@pytest.mark.parametrize("method", ["deep-ensemble", "ntkgp-param"])
def test_a_sum_has_the_members_of_both_unchanged(method):
    first, second = (trained(members, method=method) for members in ([0, 3], [1]))
    both = second + first
    assert both.indices == (0, 1, 3)
    assert len(both) == 3
    for whole, a, b in zip(leaves(both), leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(whole, np.stack([a[0], b[0], a[1]]))
    np.testing.assert_array_equal(both.objectives[[0, 2]], first.objectives)
    outputs = both.outputs(X)
    np.testing.assert_allclose(outputs[1], second.outputs(X)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: trained([1, 2]), "both ensembles have member 1"),
        (lambda: trained([2], seed=1), "one network, method, noise, seed and training set"),
        (lambda: trained([2], noise_std=0.2), "one network, method, noise, seed and training set"),
        (lambda: trained([2], method="rp-param"), "one network"),
        (lambda: fit(NET, X, Y + 1, members=[2], trainer=TRAINER), "training set"),
        (lambda: trained([2], member_nets=[NET]), "one network"),
    ],
)
def test_ensembles_that_do_not_belong_together_are_not_added(other, words):
    with pytest.raises(ValueError, match=words):
        trained([0, 1]) + other()


def test_an_ensemble_adds_to_nothing_else():
    with pytest.raises(TypeError):
        trained([0]) + 1


@pytest.mark.slow
def test_members_at_once_holds_for_losses_and_predictions_too(monkeypatch):
    """Nothing that runs over members, in training or after, is given more than two of them."""
    seen = []
    over_group = plans.Plan.over_group

    def spy(plan, f, stacked, shared):
        seen.append(len(jax.tree.leaves(stacked)[0]))
        return over_group(plan, f, stacked, shared)

    monkeypatch.setattr(plans.Plan, "over_group", spy)
    net = ntkgp.mlp(1, width=7)  # of no other test, so that all is traced here
    limited = fit(net, X, Y, members=5, members_at_once=2, trainer=TRAINER)
    predicted = limited.outputs(X)
    assert seen
    assert max(seen) == 2
    seen.clear()
    free = fit(net, X, Y, members=5, trainer=TRAINER)
    assert max(seen) == 5  # the control
    np.testing.assert_allclose(predicted, free.outputs(X), rtol=2e-3, atol=2e-4)


def test_ensembles_print_in_a_line():
    assert repr(trained([0, 1])) == "<Ensemble of 2 members, ntkgp-param, seed 0>"
    assert [name_of(method) for method in METHODS.values()] == list(METHODS)


def test_a_method_of_one_s_own_prints_as_it_is():
    own = ntkgp.Method("ntkgp", anchor="init", offset=ntkgp.Tangent(0.5, 0.0))
    assert "Tangent(body=0.5" in repr(trained([0], method=own))
    with pytest.raises(ValueError, match=r"ntkgp-param.*or an ntkgp\.Method"):
        trained([0], method=ntkgp.Tangent(0.5, 0.0))


def test_losses_of_unequal_length_join():
    short = fit(NET, X, Y, members=[0], trainer=TRAINER)
    long = fit(NET, X, Y, members=[1], trainer=GaussNewton(max_steps=5))
    both = short + long
    assert both.losses.shape == (2, 5)
    assert np.isnan(both.losses[0, 3:]).all()
