"""Members and products on two nodes of a Ray cluster on this machine, and what happens if one is lost.

`make test-ray` installs Ray and runs this.
"""

import os
import subprocess
import threading
import time

import jax
import numpy as np
import optax
import pytest

import ntkgp
from ntkgp import Checkpoint, Descent, Ray, fit

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray")

X = np.linspace(-1, 1, 64)[:, None]
Y = np.sin(3 * X)
NET = ntkgp.mlp(1, width=8)
LOOPBACK = "127.0.0.2"
"""Ray takes 127.0.0.1 for the machine's address in the network."""
NODE = {
    "num_cpus": 1,
    "node_ip_address": LOOPBACK,
    "object_store_memory": 2**27,
    "include_dashboard": False,
}


@pytest.fixture
def cluster(monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    made = Cluster(initialize_head=True, head_node_args=NODE)
    made.add_node(**{key: value for key, value in NODE.items() if key != "include_dashboard"})
    ray.init(made.address, _node_ip_address=LOOPBACK, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def trained(epochs=5, **options):
    trainer = Descent(optax.adam(1e-2), epochs=epochs, batch_size=8)
    return fit(NET, X, Y, members=4, trainer=trainer, **options)


def assert_identical(one, other):
    first, second = (jax.tree.leaves((e.theta, e.member)) for e in (one, other))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.losses, other.losses)


def when_a_checkpoint_is_there(directory, strike):
    """In a thread: strike as soon as a task has written a checkpoint."""

    def watch():
        while not list(directory.glob("*/attempt-1/turn-0/group-0")):
            time.sleep(0.05)
        strike()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def workers():
    """Processes that train."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True)
    rows = (line.split(maxsplit=1) for line in listed.stdout.splitlines())
    return [int(pid) for pid, command in rows if command.startswith("ray::_train")]


@pytest.mark.filterwarnings("ignore")
def test_members_and_products_are_those_of_one_machine(cluster):
    assert Ray().tasks_at_once() == 2
    ensemble = trained(backend=Ray(members_per_task=2))
    assert_identical(ensemble, trained(members_at_once=2))
    many = np.linspace(-2, 2, 150_000)[:, None]  # three tasks
    np.testing.assert_allclose(
        ensemble.outputs(many, backend="ray"), ensemble.outputs(many), rtol=1e-5, atol=1e-6
    )
    x = np.random.default_rng(0).normal(size=(300, 3))
    laws = [
        ntkgp.condition(
            ntkgp.mlp(3), x, x[:, 0], solver=ntkgp.ConjugateGradients(rank=50, backend=backend)
        ).predict(x[:9])
        for backend in (None, Ray())
    ]
    np.testing.assert_allclose(laws[1].mean, laws[0].mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(laws[1].std, laws[0].std, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_rows_on_disk_are_read_by_the_workers(cluster, tmp_path):
    for name, values in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", values)
    rows = ntkgp.ArrayRows(tmp_path / "x.npy", tmp_path / "y.npy", blocks=8, window_rows=24)
    trainer = Descent(optax.adam(1e-2), epochs=2, batch_size=8)
    there, here = (
        fit(NET, rows, members=4, trainer=trainer, members_at_once=2, backend=backend)
        for backend in (Ray(members_per_task=2), None)
    )
    assert_identical(there, here)


@pytest.mark.filterwarnings("ignore")
def test_folds_of_a_cross_validation_go_to_the_nodes(cluster):
    import joblib
    from ray.util.joblib import register_ray
    from sklearn.model_selection import cross_val_predict

    register_ray()
    model = ntkgp.GPRegressor(activation="erf", depth=1, optimizer=None)
    with joblib.parallel_config("ray"):
        there = cross_val_predict(model, X, Y[:, 0], cv=4, n_jobs=2)
    np.testing.assert_allclose(there, cross_val_predict(model, X, Y[:, 0], cv=4), rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lost", ["worker", "node"])
def test_a_worker_or_a_node_that_is_lost_is_replaced(cluster, lost, tmp_path):
    struck = []

    def strike():
        if lost == "worker":
            struck.append(workers()[0])
            os.kill(struck[0], 9)
        else:
            struck.append(cluster.list_all_nodes()[-1])
            cluster.remove_node(struck[0], allow_graceful=False)

    options = {"epochs": 400, "checkpoint": Checkpoint(tmp_path, every=0)}
    thread = when_a_checkpoint_is_there(tmp_path, strike)
    ensemble = trained(backend=Ray(members_per_task=2), **options)
    thread.join(timeout=60)
    assert struck
    assert_identical(ensemble, trained(epochs=400, members_at_once=2))
