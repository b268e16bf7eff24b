"""The experiments on real data, small: what they compute, that they resume, and what they say of it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ntkgp
import ntkgp.experiments.commands
from ntkgp.cli import main
from ntkgp.core import memory
from ntkgp.data import Dataset, Split
from ntkgp.ensembles.methods import COMPARED
from ntkgp.ensembles.trainers import RandomCropsAndFlips
from ntkgp.experiments import experiment as experiments
from ntkgp.experiments import laws, results, widths
from ntkgp.experiments.catalogue import EXPERIMENTS
from ntkgp.experiments.costs import report as costs_report
from ntkgp.experiments.costs.run import CostsConfig
from ntkgp.experiments.experiment import Given, report
from ntkgp.experiments.flights import run as flights
from ntkgp.experiments.flights.report import claims as flights_claims
from ntkgp.experiments.images import cifar, mnist
from ntkgp.experiments.images import run as images
from ntkgp.experiments.images.claims import OF_CIFAR, OF_MNIST
from ntkgp.experiments.images.digits import DigitsConfig, load_digits
from ntkgp.experiments.toy import claims as toy_claims
from ntkgp.experiments.toy.closeness import Closeness
from ntkgp.report import claims
from ntkgp.report.intervals import difference, interval
from ntkgp.report.page import Part, write_page
from ntkgp.report.section import Section

RNG = np.random.default_rng(0)


def run_quietly(name, config, out):
    """Run an experiment, and read its results file."""
    path = experiments.run(EXPERIMENTS[name], config, out, progress=False, say=lambda _: None)
    return results.load(path)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_both_presets(name):
    assert {"laptop", "paper"} <= EXPERIMENTS[name].presets.keys()
    assert EXPERIMENTS[name].name == name


def test_the_guide_says_what_the_pages_say_of_the_paper():
    guide = Path(__file__).parents[2] / "docs" / "guide" / "experiments.md"
    words = " ".join(guide.read_text().split())
    for experiment in EXPERIMENTS.values():
        for sentence in experiment.readings:
            assert sentence in words


# Images


SMALL_DIGITS = [
    *("--set", "epochs=1", "--set", "members=2", "--set", "width=16", "--set", "max_train=200"),
    *("--set", "methods=deep-ensemble,ntkgp-param,ntkgp-fn"),
    *("--repeats", "2", "--quiet"),
]


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits") / "run"
    assert main(["reproduce", "digits", "--out", str(out), *SMALL_DIGITS]) == 0
    return out


def test_digits_end_in_results_figures_and_a_page(digits_run, capsys):
    contents = results.load(digits_run / "digits.json")
    kinds = [run["kind"] for run in contents["runs"]]
    assert kinds.count("law") == 1
    assert kinds.count("ensemble") == 6
    for name in ("digits.png", "digits.svg", "digits-entropies.png", "report.html"):
        assert (digits_run / name).stat().st_size > 1000
    page = (digits_run / "report.html").read_text()
    assert "less analytic, in points" in page
    assert page.count("data:image/png;base64") == 2
    assert "http" not in re.sub('base64,[^"]*', "", page)  # nothing is fetched


def test_a_record_is_what_its_parts_say(digits_run):
    contents = results.load(digits_run / "digits.json")
    for run in contents["runs"]:
        for part in run.get("by_size", []):
            assert sum(part["entropies_test"]) == 450
            assert sum(part["entropies_outside"]) == 990
            assert part["curve_fractions"][0] == 1
            # at threshold 0 every letter is an error, and so is a share of the digits
            expected = (990 + 450 * part["error"]) / 1440
            np.testing.assert_allclose(part["curve_errors"][0], expected, rtol=1e-5)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(digits_run, capsys):
    path = digits_run / "digits.json"
    whole = results.load(path)
    results.save(path, whole | {"runs": whole["runs"][:-2]})
    assert main(["reproduce", "digits", "--out", str(digits_run), *SMALL_DIGITS]) == 0
    printed = capsys.readouterr().out
    assert "9/10" in printed
    assert "8/10" not in printed
    again = results.load(path)["runs"]
    drop = {"seconds", "training_seconds", "stage_seconds", "peak_bytes"}
    for a, b in zip(again, whole["runs"], strict=True):
        assert {k: v for k, v in a.items() if k not in drop} == {
            k: v for k, v in b.items() if k not in drop
        }


@pytest.mark.slow
def test_report_takes_a_directory_and_trains_nothing(digits_run, capsys, monkeypatch):
    monkeypatch.setattr(images, "fit", None)
    assert main(["report", str(digits_run)]) == 0
    assert "Analytic NTKGP" in capsys.readouterr().out


def test_tasks_are_standardised_and_do_not_overlap():
    config = DigitsConfig(max_train=300, standardise="all")
    stored = load_digits(config)
    task = images.make_task(config, stored, seed=1)
    assert len(task.train.x) == 270
    assert len(task.validation.x) == 30
    np.testing.assert_allclose([task.train.x.mean(), task.train.x.std()], [0, 1], atol=1e-5)
    assert task.train.x.min() == pytest.approx(task.black)
    rows = {tuple(row) for row in task.train.x}
    assert not rows & {tuple(row) for row in task.validation.x}
    each = images.make_task(replace(config, standardise="each"), stored, seed=1)
    np.testing.assert_allclose(each.outside.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(each.outside.std(axis=1), 1, atol=1e-4)
    other = images.make_task(config, stored, seed=2)
    assert not np.array_equal(task.train.y, other.train.y)


@pytest.mark.slow
def test_one_scale_for_all_is_that_of_ntkgp_param():
    config = DigitsConfig(max_train=60, epochs=1, width=8)
    task = images.make_task(config, load_digits(config), seed=0)
    choice = {"w_var": 2.0, "kappa2_multiple": 1.0}
    kappas = {
        (method, scale): images.trained(
            config, task, choice | {"method": method, "scale": scale}, (range(1), 0), {}
        )[1]
        for method in ("deep-ensemble", "ntkgp-param")
        for scale in images.SCALES
    }
    assert kappas["deep-ensemble", "fixed"] == kappas["ntkgp-param", "fixed"]
    assert kappas["ntkgp-param", "fixed"] == pytest.approx(kappas["ntkgp-param", "matched"])
    assert kappas["deep-ensemble", "matched"] < kappas["deep-ensemble", "fixed"]
    theta = ntkgp.ntk(config.network(2.0), task.train.x.astype(np.float64), diagonal=True)
    assert kappas["ntkgp-param", "matched"] == pytest.approx((10 * theta.mean()) ** 0.5)


TINY = DigitsConfig(
    methods=("deep-ensemble",),
    members=1,
    repeats=1,
    analytic=False,
    max_train=100,
    epochs=1,
    width=8,
    tuning_members=1,
)


def test_the_best_of_the_grid_is_chosen():
    config = replace(TINY, w_var_grid=(1.0, 2.0), kappa2_grid=(0.5, 1.0))
    mark = {"kind": "choice", "method": "deep-ensemble", "scale": "matched"}
    found = [(0.8, 0.1), (0.9, 0.5), (0.9, 0.4), (0.7, 0.2)]  # accuracy, NLL
    runs = [
        candidate | {"validation_accuracy": accuracy, "validation_nll": nll}
        for candidate, (accuracy, nll) in zip(
            images.candidates_of(config, mark), found, strict=True
        )
    ]
    better_elsewhere = runs[0] | {"method": "rp-fn", "validation_accuracy": 1.0}
    given = Given({"runs": [*runs, better_elsewhere]}, None, False, print)
    choice = images.choice_record(config, mark, given)
    assert choice == {"w_var": 2.0, "kappa2_multiple": 0.5}


@pytest.mark.slow
def test_with_a_fixed_target_scale_nothing_is_tuned(tmp_path):
    config = replace(TINY, target_scales=images.SCALES, w_var_grid=(1.0, 1.5))
    runs = run_quietly("digits", config, tmp_path)["runs"]
    tried = [(run["scale"], run["w_var"]) for run in runs if run["kind"] == "candidate"]
    assert tried == [("matched", 1.0), ("matched", 1.5)]
    (choice,) = [run for run in runs if run["kind"] == "choice" and run["scale"] == "fixed"]
    assert choice["w_var"] == 2.0


@pytest.mark.slow
def test_a_killed_search_of_the_grid_continues(tmp_path, monkeypatch):
    config = replace(TINY, w_var_grid=(1.0, 2.0))
    trained = []

    def killed_at_the_second(*arguments):
        trained.append(arguments)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    original = images.trained
    monkeypatch.setattr(images, "trained", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run_quietly("digits", config, tmp_path)
    run_quietly("digits", config, tmp_path)
    assert [mark["w_var"] for _, _, mark, *_ in trained[:3]] == [1.0, 2.0, 2.0]


@pytest.mark.slow
def test_without_memory_for_the_law_the_ensembles_are_reported(tmp_path, monkeypatch, capsys):
    # Predictions take 0.3 MB, the law of 180 images 1.9.
    monkeypatch.setattr(memory, "available_bytes", lambda: 1_000_000)
    tiny = ["members=1", "epochs=1", "width=8", "max_train=200", "methods=deep-ensemble"]
    settings = [word for setting in tiny for word in ("--set", setting)]
    assert main(["reproduce", "digits", "--out", str(tmp_path), "--repeats", "1", *settings]) == 0
    printed = capsys.readouterr().out
    assert "the exact law is left out" in printed
    assert "Claims not judged, for want of a method or the exact law: 4." in printed
    assert "Deep ensemble" in printed
    kinds = [run["kind"] for run in results.load(tmp_path / "digits.json")["runs"]]
    assert kinds == ["choice", "ensemble"]
    monkeypatch.undo()
    assert main(["reproduce", "digits", "--out", str(tmp_path), "--repeats", "1", *settings]) == 0
    assert results.load(tmp_path / "digits.json")["runs"][-1]["kind"] == "law"


def test_lost_members_are_reported(digits_run, tmp_path):
    contents = results.load(digits_run / "digits.json")
    run = next(run for run in contents["runs"] if run["kind"] == "ensemble")
    run["failed"] = [1]
    run["by_size"] = run["by_size"][:1]
    text = EXPERIMENTS["digits"].report(contents).text
    assert "Deep ensemble, repeat 0: members 1 failed" in text
    row = next(line for line in text.splitlines() if line.startswith("Deep ensemble"))
    assert row.split()[2:4] == ["2", "1"]  # two repeats, of which one has one member


PAPER = {  # Appendix I, number by number
    "toy": {
        **{"members": 20, "gd_steps": 50_000, "learning_rate": 0.001, "solver": "gradient-descent"},
        **{"w_std": 1.5, "b_std": 0.05, "train_points": 20, "noise_std": 0.1},
        **{"width": 512, "depth": 2},
    },
    "flights": {
        **{"members": 5, "repeats": 10, "epochs": 10, "batch_size": 100, "learning_rate": 0.001},
        **{"train_rows": 700_000, "validation_rows": 50_000, "window_rows": 100_000},
        "window_starts": (700_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000),
        **{"width": 100, "depth": 4, "w_std": 1.0, "b_std": 0.05, "weight_decay": 1e-4},
        "methods": ("deep-ensemble", "rp-param", "rp-fn", "ntkgp-param", "ntkgp-fn"),
    },
    "mnist": {
        **{"members": 10, "repeats": 5, "epochs": 20, "batch_size": 100, "learning_rate": 0.001},
        **{"width": 200, "depth": 2, "noise_std": 0.1, "b_std": 0.05, "weight_decay": 1e-4},
        **{"validation_fraction": 0.1, "analytic": True},
        **{"w_var_grid": (1.5, 2.0, 2.5), "kappa2_grid": (0.5, 1.0, 1.5)},
    },
    "cifar": {
        **{"members": 10, "repeats": 5, "epochs": 100, "batch_size": 125, "learning_rate": 0.001},
        **{"depth": 10, "channels": 100, "noise_std": 0.1, "b_std": 0.01, "weight_decay": 1e-4},
        **{"optimizer": "sgd", "momentum": 0.9, "warmup_epochs": 5, "decay_epoch": 80},
        **{"first_rate": 0.0001, "last_rate": 0.0002, "validation_fraction": 0.1},
        **{"w_var_grid": (1.5, 2.0, 2.5), "kappa2_grid": (0.5, 1.0, 1.5), "analytic": False},
    },
}


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_s_presets_are_the_paper_s(name):
    config = EXPERIMENTS[name].presets["paper"]
    assert {field: getattr(config, field) for field in PAPER[name]} == PAPER[name]


def test_the_laptop_s_flights_are_the_paper_s_but_for_windows_and_repeats():
    config = EXPERIMENTS["flights"].presets["laptop"]
    assert (
        replace(config, window_starts=PAPER["flights"]["window_starts"], repeats=10)
        == (EXPERIMENTS["flights"].presets["paper"])
    )


def test_mnist_has_the_paper_s_network_and_training():
    config = EXPERIMENTS["mnist"].presets["paper"]
    net = config.network(2.0)
    shapes = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(net.init, jax.random.key(0)))]
    assert sorted(shapes) == sorted([(784, 200), (200,), (200, 200), (200,), (200, 10), (10,)])
    trainer = config.trainer(54_000, 0.0)
    assert (trainer.epochs, trainer.batch_size) == (20, 100)


@pytest.mark.slow
def test_mnist_runs_on_images_of_its_size(tmp_path, monkeypatch):
    def load(name):
        x, y = RNG.integers(0, 256, (60, 28, 28), np.uint8), RNG.integers(0, 10, 60)
        return Dataset(name, dict.fromkeys(("train", "test"), Split(x, y)))

    monkeypatch.setattr(mnist, "load", load)
    config = replace(
        EXPERIMENTS["mnist"].presets["laptop"],
        methods=("deep-ensemble",),
        members=1,
        repeats=1,
        epochs=1,
    )
    law = run_quietly("mnist", config, tmp_path)["runs"][-1]
    assert (law["kind"], law["training_images"]) == ("law", 54)
    assert law["residual"] < 1e-9


# CIFAR-10


def test_cifar_s_learning_rate_is_the_paper_s():
    config = EXPERIMENTS["cifar"].presets["paper"]
    schedule = config.schedule(45_000)  # 360 steps an epoch
    rates = [float(schedule(360 * epoch)) for epoch in (0, 2.5, 5, 79.99, 80, 99)]
    np.testing.assert_allclose(rates, [1e-4, 5.5e-4, 1e-3, 1e-3, 2e-4, 2e-4], rtol=1e-4)


def test_cifar_s_training_is_the_paper_s_or_said_to_be_another():
    trainer = EXPERIMENTS["cifar"].presets["paper"].trainer(45_000, black=-1.5)
    assert (trainer.epochs, trainer.batch_size) == (100, 125)
    assert trainer.augment == RandomCropsAndFlips(4, -1.5)
    laptop = EXPERIMENTS["cifar"].presets["laptop"].trainer(45_000, black=-1.5)
    assert laptop.augment == trainer.augment
    assert EXPERIMENTS["cifar"].presets["small"].trainer(9_000, black=-1.5).augment is None
    with pytest.raises(ValueError, match="adam"):
        replace(EXPERIMENTS["cifar"].presets["paper"], optimizer="lbfgs")
    with pytest.raises(ValueError, match="padded with black"):
        replace(EXPERIMENTS["cifar"].presets["paper"], standardise="each")


def test_crops_and_flips_move_whole_images():
    x = jnp.arange(1.0, 1 + 6 * 5 * 5 * 2).reshape(6, 5, 5, 2)
    augment = RandomCropsAndFlips(pad=2, fill=-1.0)
    moved = np.asarray(augment(jax.random.key(0), x))
    padded = np.pad(x, [(0, 0), (2, 2), (2, 2), (0, 0)], constant_values=-1)
    flipped = 0
    for image, around in zip(moved, padded, strict=True):
        crops = [around[i : i + 5, j : j + 5] for i in range(5) for j in range(5)]
        plain = any(np.array_equal(image, crop) for crop in crops)
        mirrored = any(np.array_equal(image, crop[:, ::-1]) for crop in crops)
        assert plain != mirrored
        flipped += mirrored
    assert 0 < flipped < 6
    again = np.asarray(augment(jax.random.key(1), x))
    assert not np.array_equal(moved, again)


def fake_cifar(name):
    n = 139 if name == "cifar10" else 12
    images_, labels = RNG.integers(0, 256, (n, 32, 32, 3), np.uint8), RNG.integers(0, 10, n)
    return Dataset(name, dict.fromkeys(("train", "test"), Split(images_, labels)))


@pytest.mark.slow
def test_cifar_ends_in_the_figures_of_both_target_scales(monkeypatch, tmp_path):
    """Small, but with the paper's optimiser, crops and flips."""
    monkeypatch.setattr(cifar, "load", fake_cifar)
    small = {"members": 1, "repeats": 1, "epochs": 1, "max_train": 30, "max_test": 12}
    config = replace(
        EXPERIMENTS["cifar"].presets["small"], **small, channels=2, crop_pad=4, max_law=20
    )
    config = replace(config, optimizer="sgd", methods=("ntkgp-fn",))
    run_quietly("cifar", replace(config, target_scales=("matched",)), tmp_path)
    contents = run_quietly("cifar", config, tmp_path)  # goes on with the other scale
    ensembles = [run for run in contents["runs"] if run["kind"] == "ensemble"]
    assert [run["scale"] for run in ensembles] == ["matched", "fixed"]
    assert ensembles[0]["kappa"] > 1.2 * ensembles[1]["kappa"]  # 2Θ at the start, and Θ
    (law,) = (run for run in contents["runs"] if run["kind"] == "law")
    assert law["training_images"] == 20
    assert law["residual"] < 1e-3
    assert 0.5 < law["by_size"][0]["error"] <= 1  # labels are drawn at random
    section = EXPERIMENTS["cifar"].report(contents)
    assert [drawing.name for drawing in section.drawings] == [
        "",
        "-entropies",
        "-fixed-kappa",
        "-entropies-fixed-kappa",
    ]


@pytest.mark.slow
def test_the_paper_s_cifar_network_takes_a_step(monkeypatch, tmp_path):
    """Channel width 100, a batch of 125, crops and flips."""
    monkeypatch.setattr(cifar, "load", fake_cifar)
    small = {"methods": ("ntkgp-param",), "members": 1, "repeats": 1, "epochs": 1, "max_test": 12}
    config = replace(
        EXPERIMENTS["cifar"].presets["paper"], **small, w_var_grid=(2.0,), kappa2_grid=(1.0,)
    )
    contents = run_quietly("cifar", replace(config, target_scales=("matched",)), tmp_path)
    (one,) = (run for run in contents["runs"] if run["kind"] == "ensemble")
    assert one["failed"] == []
    assert np.isfinite(one["by_size"][0]["nll"])


# Flights


def fake_flights(n=900):
    """Delays that depend on the first column, whose noise grows with it, and drift at the end."""
    x = RNG.normal(size=(n, 8)).astype(np.float32)
    drift = np.linspace(0, 2, n)
    y = 20 * x[:, 0] + 10 * drift + 5 * np.exp(x[:, 1] / 2) * RNG.normal(size=n)
    return Split(x, y.astype(np.float32))


@pytest.fixture
def flights_run(monkeypatch, tmp_path):
    monkeypatch.setattr(flights, "load", lambda name: None)
    monkeypatch.setattr(flights, "complete_rows", lambda flights_: fake_flights())
    config = replace(
        EXPERIMENTS["flights"].presets["laptop"],
        **{"members": 2, "repeats": 2, "epochs": 2, "width": 8, "depth": 2},
        **{"train_rows": 400, "validation_rows": 50, "window_rows": 100},
        window_starts=(400, 600, 800),
    )
    return experiments.run(EXPERIMENTS["flights"], config, tmp_path, progress=False)


@pytest.mark.slow
def test_flights_end_in_windows_curves_and_claims(flights_run):
    contents = results.load(flights_run)
    assert len(contents["runs"]) == 10
    section = report(EXPERIMENTS["flights"], flights_run).section
    assert [claim.where for claim in section.claims] == ["Figure 2, left"] * 3 + [
        "Figure 2, right"
    ] * 2
    for run in contents["runs"]:
        # all rows kept: the error of the three windows together
        squares = np.mean([window["rmse"] ** 2 for window in run["windows"]])
        np.testing.assert_allclose(run["kept_errors"][0] ** 2, squares, rtol=1e-4)


def test_flights_rows_are_standardised_by_the_training_rows():
    config = replace(
        EXPERIMENTS["flights"].presets["laptop"],
        train_rows=400,
        validation_rows=50,
        window_rows=100,
        window_starts=(400, 800),
    )
    rows = fake_flights()
    data = flights.standardise(config, rows, seed=0)
    assert [len(part.x) for part in (data.train, data.validation, *data.windows)] == [
        350,
        50,
        100,
        100,
    ]
    np.testing.assert_allclose(data.train.x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose([data.train.y.mean(), data.train.y.std()], [0, 1], atol=1e-5)
    np.testing.assert_allclose(
        np.diff(data.windows[1].y) * data.minutes, np.diff(rows.y[800:900]), rtol=1e-3, atol=1e-3
    )


def test_a_window_beyond_the_data_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(flights, "load", lambda name: None)
    monkeypatch.setattr(flights, "complete_rows", lambda flights_: fake_flights())
    with pytest.raises(ValueError, match="part of the year"):
        run_quietly("flights", EXPERIMENTS["flights"].presets["paper"], tmp_path)


# Laws and costs


def test_laws_agree_with_simulated_members_and_are_ordered(tmp_path):
    config = laws.LawsConfig(networks=("erf-2",), train_points=10, test_points=8)
    contents = run_quietly("laws", config, tmp_path)
    section = EXPERIMENTS["laws"].report(contents)
    assert [claim.verdict.word for claim in section.claims] == ["holds"] * 4


@pytest.mark.slow
def test_a_wrong_law_is_seen_by_the_simulation():
    """The control: members of the randomised prior against the NTKGP's variances."""
    net = laws.NETWORKS["erf-2"]()
    x, t = RNG.normal(size=(10, 10)), RNG.normal(size=(5, 10))
    y = RNG.normal(size=10)
    right, wrong = (
        ntkgp.condition(net, x, y, law=law, noise_std=0.3) for law in ("randomised-prior", "ntkgp")
    )
    assert laws.largest_z(right, t, right.covariance(t), 5000) < 5
    assert laws.largest_z(right, t, wrong.covariance(t), 5000) > 20


@pytest.mark.slow
def test_costs_find_the_parameter_sets_of_table_2(tmp_path):
    config = CostsConfig(members=1, batch_size=4, steps=1, turns=1)
    contents = run_quietly("costs", config, tmp_path)
    section = EXPERIMENTS["costs"].report(contents)
    time, passes, depth, sets = section.claims
    assert time.verdict.word == "undecided"  # of a single turn
    assert [claim.verdict.word for claim in (passes, depth, sets)] == ["holds"] * 3
    assert "RP-param 2/1" in sets.measured
    operations = {
        method: cost["forward_operations"]
        for method, cost in contents["runs"][0]["methods"].items()
    }
    # By hand: a matrix product has 2 n a b operations; a JVP has two more for each but the first
    # layer, whose inputs have no tangent. What remains is biases and activations.
    layers = [784 * 200, 200 * 200, 200 * 10]
    forward, jvp = (2 * 4 * np.dot(times, layers) for times in ([1, 1, 1], [2, 3, 3]))
    np.testing.assert_allclose(operations["deep-ensemble"], forward, rtol=0.02)
    np.testing.assert_allclose(operations["rp-fn"], 2 * forward, rtol=0.02)
    np.testing.assert_allclose(operations["ntkgp-param"], forward + jvp, rtol=0.02)


def made_up_costs(times, fresh_bytes, sets):
    def of(method):
        ntkgp = method.startswith("ntkgp")
        return {
            "seconds_per_step": [(times if ntkgp else 1) * turn for turn in (1.0, 1.1, 1.05)],
            "forward_operations": (1 + 2 * times) if ntkgp else 1,
            "working_bytes": {"kept": 10, "fresh": 20},
            "working_bytes_other_depth": {"kept": 40, "fresh": fresh_bytes},
            "parameter_sets_training": sets if ntkgp else 1,
            "parameter_sets_after": sets if ntkgp else 1,
        }

    methods = {name: of(name) for name in ("deep-ensemble", "ntkgp-param", "ntkgp-fn")}
    return {"network": "mlp", "depth": 2, "other_depth": 8, "methods": methods}


def test_claims_about_costs_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    makers = (
        costs_report.negligible,
        costs_report.three_passes,
        costs_report.activations,
        costs_report.parameter_sets,
    )
    paper, opposite = made_up_costs(1.02, 50, 3), made_up_costs(2.0, 80, 2)
    assert [make(paper).verdict.word for make in makers] == ["holds"] * 4
    assert [make(opposite).verdict.word for make in makers] == [
        "does not hold",
        "holds",  # four passes are still of that order
        "does not hold",
        "does not hold",
    ]
    assert costs_report.three_passes(made_up_costs(4.0, 50, 3)).verdict.word == "does not hold"


# Everything


@pytest.mark.slow
def test_all_runs_what_needs_no_data_and_says_what_the_rest_needs(tmp_path, capsys, monkeypatch):
    def missing(name, say):
        raise FileNotFoundError(f"{name} is not there: put it there.")

    monkeypatch.setattr(ntkgp.data, "get", missing)
    small = {
        "toy": {"width": 8, "members": 2, "max_steps": 2, "methods": "ntkgp-param"},
        "widths": {"widths": "4,8", "members": 2, "methods": "ntkgp-lin"},
        "laws": {"networks": "gelu-1", "draws": 100},
        "costs": {"members": 1, "steps": 1, "turns": 1, "methods": "deep-ensemble"},
        "digits": {"members": 2, "epochs": 1, "max_train": 100, "methods": "deep-ensemble"},
    }
    settings = [
        word
        for name, fields in small.items()
        for field, value in fields.items()
        for word in ("--set", f"{name}.{field}={value}")
    ]
    assert main(["reproduce", "all", "--out", str(tmp_path), "--repeats", "1", *settings]) == 0
    printed = capsys.readouterr().out
    for name in ("mnist", "flights", "cifar"):
        assert f"{name} was left out: " in printed
    assert {path.stem for path in tmp_path.glob("*.json")} == set(small)
    page = (tmp_path / "report.html").read_text()
    for name in small:
        assert EXPERIMENTS[name].title in page
    assert "flights was left out: " in page


def test_all_goes_on_after_a_failure_and_says_so_in_the_end(tmp_path, capsys, monkeypatch):
    def missing(name, say):
        raise FileNotFoundError(f"{name} is not there: put it there.")

    def full(experiment, config, out, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ntkgp.data, "get", missing)
    monkeypatch.setattr(ntkgp.experiments.commands, "run", full)
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "laws failed: [Errno 28]" in printed
    assert "digits failed: [Errno 28]" in printed
    assert "mnist was left out: mnist is not there: put it there. notmnist is not there" in printed


def test_all_reports_what_it_can_beside_a_file_of_another_version(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ntkgp.experiments.commands, "run", lambda *arguments, **options: tmp_path)
    monkeypatch.setattr(ntkgp.data, "get", lambda name, say: None)
    kept = Path(__file__).parents[2] / "docs" / "results"
    for name, lost in (("laws", "nothing"), ("digits", "entropy_edges")):
        contents = results.load(kept / f"{name}.json")
        contents.pop(lost, None)
        results.save(tmp_path / f"{name}.json", contents)
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 0
    assert "digits.json lacks entropy_edges" in capsys.readouterr().out
    assert EXPERIMENTS["laws"].title in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all", "--set", "width=3"], "EXPERIMENT.FIELD"),
        (["laws", "--repeats", "3"], "no repeats"),
        (["digits", "--set", "analytic=maybe"], "bool"),
        (["digits", "--set", "target_scales=loose"], "matched"),
        (["digits", "--set", "w_var_grid="], "float, or several"),
        (["digits", "--set", "members="], "type int"),
        (["digits", "--set", "w_var_grid=2,-1"], "w_var_grid must be above 0"),
        (["digits", "--set", "kappa2_grid=nan"], "kappa2_grid must be above 0"),
        (["digits", "--set", "members=0"], "members must be above 0"),
        (["toy", "--set", "members=1"], "at least 2"),
        (["toy", "--set", "methods="], "str, or several"),
        (["costs", "--set", "steps=0"], "steps must be above 0"),
        (["costs", "--set", "networks=vgg"], "mlp, myrtle"),
        (["flights", "--set", "window_starts=5"], "before train_rows"),
    ],
)
def test_bad_settings_get_a_clear_error(tmp_path, capsys, arguments, words):
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_verdicts_follow_from_intervals():
    gap = difference({0: 1.0, 1: 1.1, 2: 0.9}, {0: 0.0, 1: 0.1, 2: 0.0})
    assert claims.above(gap).word == "holds"
    assert claims.below(gap).word == "does not hold"
    assert claims.below(difference({0: 1.0}, {0: 0.0})).word == "undecided"
    assert claims.above(difference({0: 1.0, 1: 1.0}, {2: 0.0})).word == "undecided"
    assert claims.between(interval([1.0, 2.0]), 0.0, 3.0).word == "undecided"
    assert claims.above(interval([1.0, float("nan")])).word == "undecided"


def test_an_undecided_claim_says_how_many_repeats_would_decide_it():
    """By simulation: with that many repeats of the same mean and variance it is about to be decided."""
    values = np.random.default_rng(0).normal(0.3, 1.0, 20)
    seen = interval(values)
    verdict = claims.above(seen)
    assert verdict.word == "undecided"
    like = (values - seen.mean) / np.std(values, ddof=1)

    def of(n):
        many = np.resize(like, n)
        many = (many - many.mean()) / np.std(many, ddof=1)
        return interval(seen.mean + np.std(values, ddof=1) * many)

    assert claims.above(of(verdict.repeats)).word == "holds"
    assert claims.above(of(verdict.repeats - 1)).word == "undecided"
    assert claims.above(interval([1.0])).repeats is None
    assert f"about {verdict.repeats} repeats would tell" in verdict.remark


def made_up_images(errors, at_confidence, entropy_bins, law=None):
    """A results file in which each method has the same scores in three repeats, up to a little."""
    runs = []
    for method in COMPARED:
        for repeat in range(3):
            noise = 1e-5 * repeat
            histogram = [0] * 40
            histogram[entropy_bins[method] + repeat % 2] = 100
            last = {
                "members": 10,
                "error": errors[method] + noise,
                "curve_errors": [at_confidence[method] + noise] * 101,
                "entropies_outside": histogram,
            }
            mark = {"kind": "ensemble", "method": method, "scale": "matched", "repeat": repeat}
            runs += [mark | {"by_size": [last]}]
            runs += [mark | {"scale": "fixed", "by_size": [last]}]
    if law:
        last = {"members": 100, "error": law[0], "curve_errors": [law[1]] * 101}
        runs.append(
            {"kind": "law", "method": "ntkgp", "scale": "matched", "by_size": [last], "repeat": 0}
        )
    axes = {"confidence_thresholds": np.arange(101) / 100, "entropy_edges": np.linspace(0, 2, 41)}
    return {**axes, "config": {"members": 10}, "runs": runs}


def verdicts(judge, contents):
    return [claim.verdict.word for claim in judge(contents)]


def judged(makers):
    """What judges all of these claims."""
    return lambda contents: filter(None, (make(contents) for make in makers))


def by_group(baselines, ntkgp):
    return {m: ntkgp if m.startswith("ntkgp") else baselines for m in COMPARED}


def test_claims_about_mnist_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    judge = judged(OF_MNIST)
    like_the_paper = made_up_images(
        by_group(0.016, 0.018), by_group(0.5, 0.3), by_group(10, 30), law=(0.0185, 0.31)
    )
    assert verdicts(judge, like_the_paper) == ["holds"] * 4
    opposite = made_up_images(
        by_group(0.018, 0.016), by_group(0.3, 0.5), by_group(30, 10), law=(0.03, 0.31)
    )
    assert verdicts(judge, opposite) == ["does not hold"] * 4


def test_claims_about_cifar_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    judge = judged(OF_CIFAR)
    good = by_group(0.2, 0.15) | {"rp-fn": 0.15}
    like_figure_5 = made_up_images(good, by_group(0.4, 0.41), by_group(10, 10))
    assert verdicts(judge, like_figure_5)[:3] == ["holds"] * 3
    like_figure_6 = made_up_images(by_group(0.15, 0.2), by_group(0.5, 0.3), by_group(10, 20))
    assert verdicts(judge, like_figure_6) == ["does not hold"] * 3 + ["holds"] * 2


def test_methods_with_unequal_repeats_are_compared_by_those_they_share():
    contents = made_up_images(by_group(0.016, 0.018), by_group(0.5, 0.3), by_group(10, 30))
    contents["runs"] = [
        run for run in contents["runs"] if run["method"] != "rp-fn" or run["repeat"] < 2
    ]
    found = verdicts(judged(OF_MNIST), contents)
    assert found[:2] == ["holds", "holds"]


def made_up_flights(nlls, errors):
    runs = [
        {
            "method": method,
            "repeat": repeat,
            "windows": [{"nll": nll + 1e-4 * repeat} for nll in nlls[method]],
            "curve_errors": [1.0, *(e + 1e-6 * repeat for e in errors[method])],
            "curve_fractions": [1.0, 0.5, 0.25],
        }
        for method in COMPARED
        for repeat in range(3)
    ]
    config = {"methods": COMPARED, "window_starts": [0, 1, 2]}
    return {"config": config, "runs": runs}


def test_claims_about_flights_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    paper, opposite = (
        made_up_flights(by_group(*nlls), by_group(*errors))
        for nlls, errors in (
            (([1.0, 2.0, 3.0], [1.1, 1.5, 2.0]), ([0.8, 0.7], [0.7, 0.5])),
            (([1.1, 1.5, 2.0], [1.0, 2.0, 3.0]), ([0.7, 0.5], [0.8, 0.7])),
        )
    )
    assert verdicts(flights_claims, paper) == ["holds"] * 5
    assert verdicts(flights_claims, opposite) == ["does not hold"] * 5


def made_up_toy(spreads, shifts, nngp_std):
    """20 members around the NTKGP's mean of 0, shifted by method, and outside the data scaled."""
    grid, order = np.linspace(-6, 6, 121), np.arange(20) * 7 % 20  # low and high in turn
    quantiles = stats.norm.ppf((order + 0.5) / 20)
    runs = []
    for method, spread in spreads.items():
        for seed in range(3):
            draws = (1 + 0.01 * seed) * quantiles[:, None] * np.where(np.abs(grid) > 2, spread, 1)
            outputs = draws + shifts[method]
            runs.append(
                {
                    **{"method": method, "seed": seed, "members": 20, "outputs": outputs.tolist()},
                    **{"mean": outputs.mean(axis=0), "std": outputs.std(axis=0, ddof=1)},
                }
            )
    flat = {"mean": [0.0] * 121, "std": [1.0] * 121}
    laws_ = {"ntkgp": flat, "nngp": flat | {"std": [nngp_std] * 121}}
    config = {"members": 20}
    return {"grid": grid, "x": [-2, 2], "laws": laws_, "runs": runs, "config": config}


def test_claims_about_the_toy_hold_on_the_paper_s_picture_and_not_on_the_opposite():
    like_the_paper = made_up_toy(
        {"deep-ensemble": 0.4, "rp-param": 0.5, "ntkgp-param": 1.0},
        {"deep-ensemble": 2.0, "rp-param": 0.0, "ntkgp-param": 0.0},
        nngp_std=0.4,
    )
    means, spread, confident, _, small_spread = verdicts(toy_claims.claims, like_the_paper)
    assert [means, spread, confident, small_spread] == ["holds"] * 4
    opposite = made_up_toy(
        {"deep-ensemble": 1.0, "rp-param": 1.0, "ntkgp-param": 3.0},
        {"deep-ensemble": 0.0, "rp-param": 2.0, "ntkgp-param": 2.0},
        nngp_std=2.0,
    )
    means, spread, confident, _, small_spread = verdicts(toy_claims.claims, opposite)
    assert [means, spread, confident, small_spread] == ["does not hold"] * 4


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"), [(2.0, 0.5, "holds"), (0.5, 2.0, "does not hold")]
)
def test_the_claim_about_few_members_is_about_their_means(ours, theirs, verdict):
    shifts = {"deep-ensemble": 0.0, "rp-param": theirs, "ntkgp-param": ours}
    contents = made_up_toy(dict.fromkeys(shifts, 0.01), shifts, nngp_std=0.4)
    for run in contents["runs"]:
        run["outputs"] = (np.array(run["outputs"]) * 0.01 + shifts[run["method"]]).tolist()
    assert toy_claims.small_means(contents, 5).verdict.word == verdict


@pytest.mark.parametrize(("wide", "verdict"), [(1.0, "holds"), (9.0, "does not hold")])
def test_the_claim_about_widths_follows_from_the_errors(wide, verdict):
    measured = {
        "ntkgp-param": {
            64: [Closeness(5.0 + 0.1 * i, 1.0, 1.0) for i in range(3)],
            512: [Closeness(wide + 0.05 * i, 1.0, 1.0) for i in range(3)],
        }
    }
    (claim,) = widths.claims(measured)
    assert claim.verdict.word == verdict
    assert widths.claims({"ntkgp-param": {64: measured["ntkgp-param"][64]}}) == []


def test_reports_take_the_records_of_the_last_configuration_alone():
    runs = [{"network": "a", "x": 1}, {"network": "b", "x": 2}]
    assert results.wanted({"marks": [{"network": "b"}], "runs": runs})["runs"] == runs[1:]
    assert results.wanted({"runs": runs})["runs"] == runs


def test_a_page_shows_what_it_is_given_as_text(tmp_path):
    claim = claims.Claim("<where>", "<says>", "<measured>", claims.HOLDS)
    section = Section("<b>text</b>", claims=[claim])
    part = Part(
        "<title>", "own.json", "own", section, ["<reading>"], ["<departure>"], ["<version>"]
    )
    page = write_page("<heading>", [part], tmp_path, ["<note>"]).read_text()
    for word in ("where", "says", "measured", "title", "reading", "departure", "version", "note"):
        assert f"&lt;{word}&gt;" in page
    assert "&lt;heading&gt;" in page
    assert "<b>text" not in page
    assert "Of 1 claims 1 held, 0 did not hold, 0 undecided." in page
    assert re.findall('href="#(.*?)"', page) == re.findall('id="(.*?)"', page) == ["part-1"]


def test_report_tells_programs_what_it_tells_people(tmp_path, capsys):
    kept = Path(__file__).parents[2] / "docs" / "results" / "laws.json"
    assert main(["report", str(kept), "--out", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["page"] == str(tmp_path / "report.html")
    assert main(["report", str(kept), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    (part,) = told["parts"]
    for claim in part["claims"]:
        assert f"{claim['verdict'].upper():13}  {claim['where']}: {claim['says']}" in printed
    assert len(part["claims"]) == 4
