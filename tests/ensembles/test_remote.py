"""Members in tasks, with a stand-in for Ray that runs them here; tests/test_ray.py has the real one."""

import pickle
import sys

import jax
import numpy as np
import optax
import pytest

import ntkgp
from ntkgp import Descent, Ray, fit
from ntkgp.core.storage import fields_of, pack, unpack
from ntkgp.kernels.spread import SpreadKernel
from ntkgp.kernels.training_kernel import TrainingKernel

X = np.linspace(-1, 1, 12)[:, None]
Y = np.sin(3 * X)
NET = ntkgp.mlp(1, width=4, depth=1)
TRAINER = Descent(optax.adam(0.01), epochs=3, batch_size=4)


class HereAndNow:
    """What `Ray` uses of ray; two processors. Values go through pickle, as on a cluster."""

    def __init__(self):
        self.kept, self.options_given, self.results = [], [], {}

    def cluster_resources(self):
        return {"CPU": 2.0}

    def put(self, value):
        self.kept.append(value)
        return len(self.kept) - 1

    def remote(self, function):
        self.function = function
        return self

    def options(self, **given):
        self.options_given.append(given)
        outer = self

        class Task:
            def remote(self, *arguments):
                *shared, item = arguments
                item = pickle.loads(pickle.dumps(item))
                name = f"task {len(outer.results)}"
                outer.results[name] = outer.function(*(outer.kept[i] for i in shared), item)
                return name

        return Task()

    def wait(self, waiting, num_returns):
        return [waiting[-1]], waiting[:-1]  # the last one first

    def get(self, name):
        return self.results[name]


@pytest.fixture
def ray(monkeypatch):
    here = HereAndNow()
    monkeypatch.setattr(Ray, "_connected", lambda self: here)
    return here


def assert_identical(one, other):
    for name in fields_of(one).keys() - {"theta", "member", "learner", "members_at_once"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    first, second = (jax.tree.leaves((e.theta, e.member)) for e in (one, other))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_members_are_those_of_this_machine(ray, tmp_path):
    """A task of three and one of two, each with checkpoints of its own."""
    options = {"members": 5, "trainer": TRAINER}
    there = fit(NET, X, Y, backend=Ray(members_per_task=3), checkpoint=tmp_path, **options)
    assert_identical(there, fit(NET, X, Y, members_at_once=3, **options))
    assert len(ray.results) == 2
    assert len(ray.kept) == 1  # the data, once
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(ray.kept))
    assert {path.name for path in tmp_path.iterdir()} == {"members-0-to-2", "members-3-to-4"}
    assert ray.options_given[0]["max_retries"] == 3


def test_groups_and_paths_do_not_depend_on_the_cluster(ray, tmp_path, monkeypatch):
    """Whatever it can run at once, and wherever its tasks run."""
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 64.0})
    monkeypatch.chdir(tmp_path)
    sent, run = [], Ray.run
    monkeypatch.setattr(Ray, "run", lambda *given: sent.extend(given[3]) or run(*given))
    fit(NET, X, Y, members=3, trainer=TRAINER, backend=Ray(members_per_task=2), checkpoint="here")
    assert [own for own, _, _ in sent] == [[0, 1], [2]]
    assert [str(at.directory) for _, _, at in sent] == [
        str(tmp_path / "here" / f"members-{name}") for name in ("0-to-1", "2-to-2")
    ]


def test_each_worker_asks_for_its_own_memory(ray, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "ntkgp.ensembles.job.require_training", lambda *given: asked.append(given[3])
    )
    fit(NET, X, Y, members=3, trainer=TRAINER, backend=Ray(members_per_task=2))
    assert asked == [2, 1]  # two tasks; the driver, whose memory is not used, asked for nothing


def test_predictions_of_many_rows_are_shared_out(ray, monkeypatch):
    monkeypatch.setattr("ntkgp.ensembles.ensemble._TASK_ROWS", 5)
    ensemble = fit(NET, X, Y, members=2, trainer=TRAINER)
    there, here = (ensemble.predict(X, backend=backend) for backend in ("ray", None))
    assert len(ray.results) == 3
    np.testing.assert_allclose(there.means, here.means, rtol=1e-6)
    np.testing.assert_allclose(there.noise_vars, here.noise_vars, rtol=1e-6)


def test_a_product_is_the_sum_of_its_tasks(ray, monkeypatch):
    monkeypatch.setattr("ntkgp.kernels.training_kernel.block_side", lambda *_: 8)
    x = np.random.default_rng(0).normal(size=(30, 2))
    kernel = TrainingKernel(ntkgp.mlp(2), x, "ntk", 0.1)
    right = np.random.default_rng(1).normal(size=(30, 2))
    product = SpreadKernel(kernel, Ray()).times(right)
    assert len(ray.results) == 8
    np.testing.assert_allclose(product, kernel.matrix() @ right, rtol=1e-10)


def test_what_is_no_backend_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r'backend must be None, "ray", or ntkgp.Ray'):
        fit(NET, X, Y, backend="dask")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'ntkgp\[ray\]'"):
        fit(NET, X, Y, members=1, trainer=TRAINER, backend="ray")


def test_no_file_says_which_cluster_to_connect_to(tmp_path):
    assert unpack(pack(Ray("10.0.0.1:6379", cpus=2))) == Ray(cpus=2)
    forged = pack(Ray(cpus=2))
    forged.plain["fields"]["address"] = "ray://10.0.0.1:10001"
    assert unpack(forged) == Ray(cpus=2)
    kernel = TrainingKernel(NET, X, "ntk", 0.1)
    assert isinstance(unpack(pack(SpreadKernel(kernel, Ray("10.0.0.1:6379")))), TrainingKernel)
