"""Members that differ in their prior: each is what it would be alone."""

import jax
import numpy as np
import optax
import pytest

import ntkgp
from ntkgp import METHODS, Descent, GaussNewton, fit
from ntkgp.networks.layers import Relu

X = np.linspace(-1, 1, 6)[:, None]
Y = np.sin(3 * X)
NET = ntkgp.mlp(1, width=8, depth=1, b_std=0.3).scaled_by([1.0])
OTHERS = [
    ntkgp.mlp(1, width=8, depth=1, w_std=w_std, b_std=0.1).scaled_by([scale])
    for w_std, scale in ((1.0, 0.5), (2.0, 1.5), (1.5, 1.0))
]
TRAINERS = {
    "descent": Descent(optax.adam(1e-2), epochs=3),
    "gauss-newton": GaussNewton(max_steps=2),
}


def trained(members, nets=None, net=NET, **options):
    return fit(net, X, Y, members=members, member_nets=nets, **options)


def rounding_of(trainer, net):
    """Of float32: a few steps on values around 1, or a solve with Θ + σ²I, at most 2e-4 here."""
    if trainer == "descent":
        return 2e-5
    matrix = ntkgp.ntk(net, X) + 0.1**2 * np.eye(len(X))
    return np.finfo(np.float32).eps * max(np.linalg.cond(matrix), 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "trainer"),
    [(method, "descent") for method in METHODS]
    + [(method, "gauss-newton") for method in ("ntkgp-param", "ntkgp-lin", "rp-fn")],
)
def test_members_are_those_of_their_own_networks(method, trainer):
    """Draws, δ, regulariser, steps and predictions all use the member's scales."""
    options = {"method": method, "trainer": TRAINERS[trainer]}
    together = trained(2, OTHERS[:2], **options)
    for index, net in enumerate(OTHERS[:2]):
        alone = trained([index], net=net, **options)
        got, wanted = together.outputs(X)[index], alone.outputs(X)[0]
        np.testing.assert_allclose(got, wanted, atol=rounding_of(trainer, net))
        np.testing.assert_allclose(together.objectives[index], alone.objectives[0], rtol=2e-5)
    shared = trained(2, **options)  # the control: scales do matter
    assert np.abs(shared.outputs(X) - together.outputs(X)).max() > 1e-3


def test_such_ensembles_are_saved_and_added(tmp_path):
    trainer = TRAINERS["descent"]
    both = trained(2, OTHERS[:2], trainer=trainer)
    whole = both + trained([2], OTHERS[2:], trainer=trainer)
    whole.save(tmp_path / "model")
    loaded = ntkgp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.outputs(X), whole.outputs(X))
    np.testing.assert_allclose(whole.outputs(X)[:2], both.outputs(X), atol=1e-6)
    assert jax.tree.leaves(loaded.member.net)[0].shape[0] == 3


@pytest.mark.parametrize(
    "nets",
    [
        OTHERS[:1],
        [NET, ntkgp.mlp(1, width=9, depth=1)],
        [NET, ntkgp.mlp(1, width=8, depth=1, activation=Relu()).scaled_by([1.0])],
        [NET, NET.scaled_by(None)],
        [NET, "net"],
    ],
)
def test_networks_unlike_the_ensemble_s_are_refused(nets):
    with pytest.raises(ValueError, match="one network for each of the 2 members"):
        trained(2, nets)
