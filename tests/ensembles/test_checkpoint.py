"""Training that is interrupted and goes on: the same members, bit for bit."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache

import jax
import numpy as np
import optax
import pytest

import ntkgp
from helpers import ended_after
from ntkgp import Checkpoint, Descent, GaussNewton, fit
from ntkgp.core.interrupts import StopRequests
from ntkgp.core.storage import fields_of
from ntkgp.ensembles import training

X = np.linspace(-1, 1, 12)[:, None]
Y = np.sin(3 * X)
ADAM = optax.adam(0.01)
BATCHES = Descent(ADAM, epochs=6, batch_size=4)


@cache
def network():
    return ntkgp.mlp(1, width=4, depth=1)


def trained(**options):
    return fit(network(), X, Y, **({"members": 3, "trainer": BATCHES} | options))


def assert_identical(one, other):
    for name in fields_of(one).keys() - {"theta", "member", "learner"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    first, second = (jax.tree.leaves((e.theta, e.member)) for e in (one, other))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def killed_after(steps, **options):
    """Start the same training, and end it after so many calls of its programs."""
    ended_after(steps, lambda: trained(**options))


WAYS = {
    "mini-batches": {},
    "early stopping": {
        "trainer": Descent(ADAM, epochs=8, batch_size=4, patience=2, evaluate_every=2),
        "validation": (X[::3] + 0.1, Y[::3]),
    },
    "Gauss-Newton": {"trainer": GaussNewton(max_steps=6, tolerance=1e-9)},
    "two in turn": {"trainer": [Descent(ADAM, epochs=3), GaussNewton(max_steps=4)]},
    "groups": {"members_at_once": 2},
    "keys in the state": {
        "trainer": Descent(optax.chain(optax.add_noise(0.1, 0.5, 1), optax.sgd(0.1)), epochs=6)
    },
}


@pytest.mark.quick("two in turn-3", "early stopping-3")
@pytest.mark.parametrize(
    ("way", "steps"),
    [("mini-batches", 1), ("groups", 7), *((way, 3) for way in WAYS)],
)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(way, steps, tmp_path):
    options = WAYS[way]
    checkpoint = Checkpoint(tmp_path, every=0)
    killed_after(steps, checkpoint=checkpoint, **options)
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        real = training._further
        patch.setattr(training, "_further", lambda *a: calls.append(1) or real(*a))
        resumed = trained(checkpoint=checkpoint, **options)
        taken, _ = len(calls), calls.clear()
        whole = trained(**options)
    assert_identical(resumed, whole)
    assert taken == len(calls) - steps  # the control: nothing kept is done again


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("finished")
    trained(checkpoint=directory)
    return directory


def test_a_finished_run_is_found_finished(finished):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_further", None)
        found = trained(checkpoint=str(finished))
    assert_identical(found, trained())


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"seed": 1}, "the seed, the members or what was drawn for them"),
        ({"members": 4}, "the seed, the members or what was drawn for them"),
        ({"noise_std": 0.2}, "the network, the method or the noise"),
        ({"method": "rp-param"}, "the network, the method or the noise"),
        ({"trainer": Descent(ADAM, epochs=7, batch_size=4)}, "the trainer"),
        ({"trainer": Descent(optax.adam(0.02), epochs=6, batch_size=4)}, "the trainer"),
        ({"sample_weight": np.arange(1, 13)}, "the training data"),
        ({"validation": (X, Y)}, "the validation data"),
        ({"members_at_once": 2}, "the plan"),
    ],
)
def test_state_of_another_run_is_refused(other, what, finished):
    there = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=f"is of another run: it differs in .*{what}"):
        trained(checkpoint=finished, **other)
    assert there == {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}


def test_a_part_of_another_run_is_refused(tmp_path):
    trained(checkpoint=tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(ValueError, match="holds the state of another run"):
        trained(checkpoint=tmp_path, seed=1)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(TypeError, match="checkpoint must be None, a directory"):
        trained(checkpoint=5)
    with pytest.raises(ValueError, match="every must be a number of seconds"):
        Checkpoint(tmp_path, every=-1)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(ValueError, match="is not what ntkgp wrote"):
        trained(checkpoint=tmp_path)


def test_a_disk_that_fills_up_costs_no_training_and_no_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=0)
    killed_after(2, checkpoint=checkpoint)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ntkgp.ensembles.checkpoint.save", full)
        with pytest.warns(ntkgp.CheckpointNotWritten, match="No space left"):
            there = trained(checkpoint=checkpoint)
    assert_identical(there, trained())
    assert_identical(trained(checkpoint=checkpoint), there)  # from the checkpoint before


def test_an_interrupt_waits_for_the_round_and_writes_a_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path, every=1e9)
    real, calls = training._further, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_further", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trained(checkpoint=checkpoint)
        assert len(calls) == 3
        assert_identical(trained(checkpoint=checkpoint), trained())
        assert len(calls) == 3 + 3 + 6
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_acts_at_once_and_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequests() as requests:
        signal.raise_signal(signal.SIGTERM)
        assert requests.noted
        with pytest.raises(SystemExit) as error:
            signal.raise_signal(signal.SIGTERM)
    assert error.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(KeyboardInterrupt), StopRequests():  # one that nobody asked for is not lost
        signal.raise_signal(signal.SIGINT)


def test_a_signal_is_not_forgotten_when_the_work_fails(capsys):
    def failing():
        with StopRequests():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("no such thing")

    with pytest.raises(SystemExit) as error:
        failing()
    assert error.value.code == 128 + signal.SIGTERM
    assert isinstance(error.value.__context__, ValueError)
    assert "ValueError: no such thing" in capsys.readouterr().err


def test_threads_train_without_handlers(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(trained(checkpoint=tmp_path)))
    thread.start()
    thread.join()
    assert_identical(found[0], trained())


def test_sigterm_leaves_with_its_code_and_a_checkpoint(tmp_path):
    code = f"""
import numpy as np, optax, ntkgp
x = np.linspace(-1, 1, 12)[:, None]
trainer = ntkgp.Descent(optax.adam(1e-3), epochs=10**7)
print("begins", flush=True)
ntkgp.fit(ntkgp.mlp(1, width=4, depth=1), x, x, members=1, trainer=trainer,
          checkpoint=ntkgp.Checkpoint({str(tmp_path)!r}, every=1e9))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    while not (tmp_path / "run.json").exists():
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert "SIGTERM: the checkpoint is written at the next good moment" in errors
    assert (tmp_path / "attempt-1" / "turn-0" / "group-0").exists()


def test_members_that_diverge_are_trained_again_with_smaller_steps():
    """Steps of 2 are too large for all members, and a quarter of them for none."""

    def with_steps(scale):
        trainer = Descent(optax.sgd(2.0), epochs=60, evaluate_every=60, step_scale=scale)
        x = 3 * np.linspace(-1, 1, 12)[:, None]
        return fit(network(), x, 3 * x, members=2, noise_std=0.01, trainer=trainer)

    with pytest.warns(ntkgp.MemberRetried, match="members 0, 1 became NaN"):
        ensemble = with_steps(None)
    smaller = with_steps(0.25)
    assert (ensemble.attempts.tolist(), smaller.attempts.tolist()) == ([2, 2], [1, 1])
    np.testing.assert_array_equal(ensemble.outputs(X), smaller.outputs(X))


def test_an_ensemble_grows_across_files_and_its_members_stay_as_they_are(tmp_path):
    five = trained(members=5, checkpoint=tmp_path / "first")
    five.save(tmp_path / "five")
    more = trained(members=range(5, 10), checkpoint=tmp_path / "second")
    ten = ntkgp.load(tmp_path / "five") + more
    assert ten.indices == tuple(range(10))
    for part, k in ((five, slice(0, 5)), (more, slice(5, 10))):
        leaves = (jax.tree.leaves((e.theta, e.member)) for e in (part, ten))
        for a, b in zip(*leaves, strict=True):
            np.testing.assert_array_equal(a, b[k])
        np.testing.assert_array_equal(part.losses, ten.losses[k])
    assert ten.attempts.tolist() == [1] * 10
    ten.save(tmp_path / "five")  # in place of the smaller one
    assert_identical(ntkgp.load(tmp_path / "five"), ten)


def of_functions(init_sign=1.0, shift=0.0):
    """A network of two functions, one of them compiled with a constant inside."""
    constant = np.full(4, shift, np.float32)

    @jax.jit
    def hidden(x):
        return jax.numpy.tanh(x + constant)

    def init(key):
        first, last = jax.random.split(key)
        return {
            "first": init_sign * jax.random.normal(first, (1, 4)),
            "last": jax.random.normal(last, (4, 1)),
        }

    def apply(params, x):
        return hidden(x @ params["first"]) @ params["last"]

    prior_var = {"first": 1.0, "last": 1.0}
    return ntkgp.adapters.from_functions(init, apply, (1,), readout="last", prior_var=prior_var)


@pytest.mark.quick("other1")
@pytest.mark.parametrize("other", [{"init_sign": -1.0}, {"shift": 1.0}])
def test_other_code_of_the_user_s_is_another_run(other, tmp_path):
    """Draws and constants count, also those within programs that the user has compiled."""
    options = {"members": 2, "trainer": BATCHES, "checkpoint": tmp_path}
    fit(of_functions(), X, Y, **options)
    fit(of_functions(), X, Y, **options)  # the control: the same code is the same run
    with pytest.raises(ValueError, match="is of another run"):
        fit(of_functions(**other), X, Y, **options)
