"""Training from rows that stay on disk: the rule of their order, and the same bits wherever they are."""

import pickle
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ntkgp
from helpers import ended_after
from ntkgp import ArrayRows, Checkpoint, Descent, ParquetRows, StandardisedRows, fit
from ntkgp.core import memory
from ntkgp.ensembles.member import Baselearner, member_keys
from ntkgp.ensembles.methods import METHODS
from ntkgp.ensembles.problem import Problem, draw_members
from ntkgp.ensembles.trainers.descent import shuffled
from ntkgp.ensembles.windows import Windows, block_order, joined
from ntkgp.networks.protocol import squared_norm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(46, 2)).astype(np.float32)
Y = np.sin(X[:, :1])
GROUP, WINDOW, BATCH = 6, 15, 4
"""Blocks of 6 rows, the last of 4; windows of two blocks."""
ADAM = optax.adam(0.01)
TRAINER = Descent(ADAM, epochs=3, batch_size=BATCH, decays=True)


@cache
def network():
    return ntkgp.mlp(2, width=4, depth=1)


def in_memory(**options):
    return ArrayRows(X, Y, **({"blocks": GROUP, "window_rows": WINDOW} | options))


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """Two files in a directory: 5 row groups, and 3 more."""
    folder = tmp_path_factory.mktemp("rows")
    table = pa.table(
        {"a": X[:, 0].astype(float), "other": ["word"] * 46, "b": X[:, 1], "y": Y[:, 0]}
    )
    pq.write_table(table[:30], folder / "1.parquet", row_group_size=GROUP)
    pq.write_table(table[30:], folder / "2.parquet", row_group_size=GROUP)
    return ParquetRows(folder, inputs=["a", "b"], target="y", window_rows=WINDOW)


def trained(rows, **options):
    return fit(network(), rows, **({"members": 2, "trainer": TRAINER} | options))


@cache
def whole():
    return trained(in_memory())


def assert_identical(one, other):
    first, second = (
        jax.tree.leaves((e.theta, e.member, e.losses, e.objectives)) for e in (one, other)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.trained_on == other.trained_on


def test_parquet_memory_and_maps_of_it_give_the_same_bits(parquet, tmp_path):
    assert parquet.lengths == in_memory().lengths
    assert_identical(trained(parquet), whole())
    for name, values in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", values)
    mapped = ArrayRows(tmp_path / "x.npy", tmp_path / "y.npy", parquet.lengths, WINDOW)
    assert_identical(trained(pickle.loads(pickle.dumps(mapped))), whole())
    assert isinstance(mapped._arrays[0], np.memmap)
    with pytest.raises(TypeError, match="give ArrayRows the paths"):
        pickle.dumps(ArrayRows(mapped._arrays[0], Y))


@pytest.mark.slow
def test_other_blocks_or_another_seed_are_another_order():
    """The control of the test above."""
    for other in (trained(in_memory(blocks=[4, *[6] * 7])), trained(in_memory(), seed=1)):
        leaves = zip(jax.tree.leaves(whole().theta), jax.tree.leaves(other.theta), strict=True)
        assert max(float(np.abs(a - b).max()) for a, b in leaves) > 1e-4


@pytest.mark.slow
def test_members_follow_the_documented_rule():
    """Against a loop in Python that draws its own order and noise, with δ by a Jacobian-vector product."""
    net, index, starts = network(), 1, np.arange(0, 46, GROUP)
    keys = member_keys(0, index)
    theta_0, tilde = net.init(keys.init), net.init(keys.tilde)
    star = jax.tree.map(lambda leaf, last: 0 * leaf if last else leaf, tilde, net.readout())
    blocks = [np.arange(start, min(start + GROUP, 46)) for start in starts]
    noise = [
        jax.random.normal(jax.random.fold_in(keys.noise, b), (GROUP, 1))[: len(rows)]
        for b, rows in enumerate(blocks)
    ]
    y = jnp.asarray(Y + 0.1 * np.concatenate(noise))

    def loss(theta, rows):
        x = jnp.asarray(X)[rows]
        _, delta = jax.jvp(lambda t: net.apply(t, x), (theta_0,), (star,))
        apart = squared_norm(net, jax.tree.map(jnp.subtract, theta, theta_0))
        penalty = 0.01 / 46 * 0.5 * apart  # N is that of all rows
        return 0.5 * jnp.mean((y[rows] - net.apply(theta, x) - delta) ** 2) + penalty

    theta, state, gradient_of = theta_0, ADAM.init(theta_0), jax.jit(jax.grad(loss))
    for epoch in range(3):
        order = block_order(0, epoch, 8)
        for window in range(4):
            rows = np.concatenate([blocks[b] for b in order[2 * window : 2 * window + 2]])
            number = 4 * epoch + window
            problem = Problem(None, _Padded(np.zeros((12, 1)), len(rows)))
            mixed = rows[shuffled(jax.random.fold_in(keys.batches, number), problem)[: len(rows)]]
            steps = len(rows) // BATCH
            for i in range(steps):
                done = (number + i / steps) / 12
                gradient = gradient_of(theta, mixed[BATCH * i : BATCH * (i + 1)])
                updates, state = ADAM.update(gradient, state, theta)
                share = (1 + np.cos(np.pi * done)) / 2
                theta = jax.tree.map(lambda t, u, s=share: t + s * u, theta, updates)
    own = jax.tree.map(lambda leaf: leaf[index], whole().theta)
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole().objectives[index], loss(theta, np.arange(46)), rtol=1e-4)


class _Padded:
    """What `shuffled` asks of the data."""

    def __init__(self, x, n):
        self.x, self.n = x, n


def test_short_blocks_are_joined_so_that_windows_fill_up():
    """Windows of blocks as they come would have 1 or 2 rows in most of an epoch's."""
    lengths = [6, *[1] * 16, 5, 6, 6, 1, 6]
    assert [len(part) for part in joined(lengths)] == [1, 6, 6, 4, 1, 1, 1, 1, 1]
    assert len(joined([2**16, *[10] * 100])) == 2  # 1,000 rows: 1.4 % of steps by 64, not 9 %
    learner = Baselearner(network(), METHODS["ntkgp-param"], 0.1)
    windows = Windows.of(in_memory(blocks=lengths), learner, 0, progress=False)
    assert windows.in_epoch == 5
    sizes = [int(windows._window(windows._blocks(number))[0].n) for number in range(5)]
    assert sum(sizes) == 46
    assert sorted(sizes)[1] >= BATCH


@pytest.mark.parametrize("blocks", [GROUP, [6, *[1] * 16, 6, 6, 6, 6]], ids=["equal", "joined"])
def test_every_row_comes_once_in_an_epoch(blocks):
    rows = ArrayRows(X, np.arange(46.0), blocks=blocks, window_rows=WINDOW)
    learner = Baselearner(network(), METHODS["ntkgp-param"], 0.1)
    windows = Windows.of(rows, learner, 0, progress=False)
    problem = Problem(learner, windows.first())
    draws = draw_members(learner, 0, [0, 1], problem.data.y[:0])  # as in other tests
    noise = {}
    for epoch in range(2):
        seen = []
        for number in range(epoch * windows.in_epoch, (epoch + 1) * windows.in_epoch):
            part, own = windows.at(number, problem, draws)
            n = int(part.data.n)
            seen += np.asarray(part.data.y)[:n, 0].tolist()
            for row, epsilon in zip(seen[-n:], np.asarray(own.epsilon)[0, :n, 0], strict=True):
                assert noise.setdefault(row, epsilon) == epsilon  # of the row, in every epoch
        assert sorted(seen) == list(range(46))
        assert seen != list(range(46))
    assert len(set(noise.values())) == 46


def test_training_goes_on_in_the_middle_of_an_epoch(parquet, tmp_path):
    checkpoint = Checkpoint(tmp_path, every=0)
    ended_after(6, lambda: trained(parquet, checkpoint=checkpoint))  # an epoch has 4 windows
    numbers, at = [], Windows.at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Windows, "at", lambda self, n, *a: numbers.append(n) or at(self, n, *a))
        assert_identical(trained(parquet, checkpoint=checkpoint), whole())
    assert numbers == list(range(6, 12))
    with pytest.raises(ValueError, match="differs in the blocks or the window of rows"):
        trained(in_memory(window_rows=6), checkpoint=checkpoint)
    with pytest.raises(ValueError, match="differs in the training data"):
        trained(ArrayRows(X, Y + 1, GROUP, WINDOW), checkpoint=checkpoint)


@pytest.mark.slow
def test_early_stopping_looks_once_in_an_epoch():
    trainer = Descent(ADAM, epochs=3, batch_size=BATCH, patience=5)
    ensemble = trained(in_memory(), trainer=trainer, validation=(X[:9], Y[:9]))
    assert ensemble.validation_losses.shape == (2, 3)
    assert ensemble.losses.shape == (2, 12)  # a round is a window


def test_rows_are_standardised_in_one_pass(parquet):
    offset = ArrayRows(X * 3 + 1e4, Y - 5, GROUP, WINDOW)
    for source, x in ((offset, X * 3 + 1e4), (parquet, X)):
        rows, x64 = StandardisedRows.of(source), x.astype(float)
        np.testing.assert_allclose(rows.x_mean, x64.mean(0), rtol=1e-12)
        np.testing.assert_allclose(rows.x_std, x64.std(0), rtol=1e-9)
        read = [rows.read(block) for block in range(len(rows.lengths))]
        y = np.concatenate([targets for _, targets in read])
        np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-6)
    np.testing.assert_array_equal(
        StandardisedRows.of(ArrayRows(np.ones((5, 2)), np.ones(5))).read(0)[0], 0
    )


def test_what_windows_cannot_do_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="has its own targets"):
        fit(network(), in_memory(), Y)
    with pytest.raises(TypeError, match="y is missing"):
        fit(network(), X)
    with monkeypatch.context() as patch:
        patch.setattr(ArrayRows, "read", lambda *_: pytest.fail("all rows are read before"))
        for trainer in (ntkgp.GaussNewton(), Descent(ADAM, epochs=2)):
            with pytest.raises(ValueError, match="by mini-batches"):
                trained(in_memory(), trainer=trainer)
        for name, given in {
            "validation": (X[:, :1], Y),
            "member_nets": [network()],
            "checkpoint": 3,
            "backend": "cloud",
            "plan": "none",
            "members_at_once": 0,
        }.items():
            with pytest.raises((TypeError, ValueError), match=name):
                trained(in_memory(), **{name: given})
    with pytest.raises(ValueError, match=r"x in block 0 must have shape \(n, 2\)"):
        trained(ArrayRows(X[:, :1], Y))
    with pytest.raises(ValueError, match="add up to the 46 rows; they add up to 9"):
        trained(in_memory(blocks=[4, 5]))
    with pytest.raises(ValueError, match="window_rows must be a number"):
        trained(in_memory(window_rows=0))
    monkeypatch.setattr(memory, "available_bytes", lambda: 100)
    with pytest.raises(ntkgp.NotEnoughMemory, match="smaller row_group_size"):
        trained(in_memory())
