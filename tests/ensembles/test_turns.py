"""Trainers that work in turn."""

import numpy as np
import optax
import pytest

import ntkgp
from ntkgp import Descent, GaussNewton, fit

X = np.linspace(-1, 1, 6)[:, None]
Y = np.sin(3 * X)
NET = ntkgp.mlp(1, width=16, depth=1, b_std=0.3)
ADAM = Descent(optax.adam(1e-2), epochs=3, batch_size=6)


@pytest.mark.slow
def test_a_second_trainer_goes_on_where_the_first_ended():
    """A linear method has one minimum, which Gauss-Newton reaches from anywhere."""
    first, alone, both = (
        fit(NET, X, Y, method="ntkgp-lin", members=2, trainer=trainer)
        for trainer in (ADAM, GaussNewton(max_steps=3), [ADAM, GaussNewton(max_steps=3)])
    )
    np.testing.assert_array_equal(both.losses[:, :3], first.losses)
    assert both.losses.shape[1] > 3
    assert both.converged.all()
    np.testing.assert_allclose(both.outputs(X), alone.outputs(X), atol=1e-4)
    assert np.abs(first.outputs(X) - alone.outputs(X)).max() > 1e-2  # the control


def test_the_anchor_stays_where_the_member_was_drawn():
    """What regularises is the distance from θ₀, not from where a trainer took over."""
    onwards = fit(NET, X, Y, members=2, trainer=[ADAM, GaussNewton(max_steps=30)], noise_std=0.5)
    alone = fit(NET, X, Y, members=2, trainer=GaussNewton(max_steps=30), noise_std=0.5)
    np.testing.assert_allclose(onwards.objectives, alone.objectives, rtol=1e-3)


@pytest.mark.parametrize("trainer", [[], [ADAM, 5], optax.adam(1e-3)])
def test_what_is_no_trainer_is_refused(trainer):
    with pytest.raises(TypeError, match="trainer must be a Trainer"):
        fit(NET, X, Y, trainer=trainer)
