"""The experiments on real data, small: what they compute, that they resume, and what they say of it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ntkgp
from ntkgp.cli import main
from ntkgp.data import Dataset, Fold, Split
from ntkgp.experiments import cifar, costs, digits, flights, images, laws, mnist, results, uci
from ntkgp.experiments.catalogue import EXPERIMENTS, module, reporter
from ntkgp.report import claims
from ntkgp.training import RandomCropsAndFlips

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_both_presets_and_a_reporter(name):
    assert set(module(name).PRESETS) == {"laptop", "paper"}
    assert callable(reporter(name).report)


# Images


SMALL_DIGITS = [
    *("--set", "epochs=1", "--set", "members=2", "--set", "width=16", "--set", "max_train=200"),
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
    assert kinds.count("ensemble") == 10
    for name in ("digits.png", "digits.svg", "digits-entropies.png", "report.html"):
        assert (digits_run / name).stat().st_size > 1000
    page = (digits_run / "report.html").read_text()
    assert "less analytic, in points" in page
    assert page.count("data:image/png;base64") == 2
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched


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


def test_a_run_goes_on_where_it_was(digits_run, capsys):
    path = digits_run / "digits.json"
    whole = results.load(path)
    results.save(path, whole | {"runs": whole["runs"][:-2]})
    assert main(["reproduce", "digits", "--out", str(digits_run), *SMALL_DIGITS]) == 0
    printed = capsys.readouterr().out
    assert "15/16" in printed
    assert "14/16" not in printed
    again = results.load(path)["runs"]
    drop = {"seconds", "training_seconds", "stage_seconds", "peak_bytes"}
    for a, b in zip(again, whole["runs"], strict=True):
        assert {k: v for k, v in a.items() if k not in drop} == {
            k: v for k, v in b.items() if k not in drop
        }


def test_report_takes_a_directory_and_trains_nothing(digits_run, capsys, monkeypatch):
    monkeypatch.setattr(images, "fit", None)
    assert main(["report", str(digits_run.parent)]) == 0
    assert "Analytic NTKGP" in capsys.readouterr().out


def test_tasks_are_standardised_and_do_not_overlap():
    config = digits.DigitsConfig(max_train=300, standardise="all")
    stored = config.load()
    task, black = images.make_task(config, *stored, seed=1)
    assert len(task.train.x) == 270
    assert len(task.validation.x) == 30
    np.testing.assert_allclose([task.train.x.mean(), task.train.x.std()], [0, 1], atol=1e-5)
    assert task.train.x.min() == pytest.approx(black)
    rows = {tuple(row) for row in task.train.x}
    assert not rows & {tuple(row) for row in task.validation.x}
    each, _ = images.make_task(replace(config, standardise="each"), *stored, seed=1)
    np.testing.assert_allclose(each.outside.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(each.outside.std(axis=1), 1, atol=1e-4)
    other, _ = images.make_task(config, *stored, seed=2)
    assert not np.array_equal(task.train.y, other.train.y)


def test_one_scale_for_all_is_that_of_ntkgp_param():
    config = digits.DigitsConfig(max_train=60, epochs=1, width=8)
    task, black = images.make_task(config, *config.load(), seed=0)
    arguments = ({"w_var": 2.0, "kappa2_multiple": 1.0}, range(1), 0, False)
    kappas = {
        (method, scale): images.trained(
            config, task, black, {"method": method, "scale": scale}, *arguments
        )[1]
        for method in ("deep-ensemble", "ntkgp-param")
        for scale in images.SCALES
    }
    assert kappas["deep-ensemble", "fixed"] == kappas["ntkgp-param", "fixed"]
    assert kappas["ntkgp-param", "fixed"] == pytest.approx(kappas["ntkgp-param", "matched"])
    assert kappas["deep-ensemble", "matched"] < kappas["deep-ensemble", "fixed"]
    theta = ntkgp.ntk(config.network(2.0), task.train.x.astype(np.float64), diagonal=True)
    assert kappas["ntkgp-param", "matched"] == pytest.approx((10 * theta.mean()) ** 0.5)


TINY = digits.DigitsConfig(
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
    choice = images.choice_record(config, mark, [*runs, better_elsewhere])
    assert choice == {"w_var": 2.0, "kappa2_multiple": 0.5}


def test_with_a_fixed_target_scale_nothing_is_tuned(tmp_path):
    config = replace(TINY, target_scales=images.SCALES, w_var_grid=(1.0, 1.5))
    runs = results.load(digits.run(config, tmp_path, progress=False, say=lambda _: None))["runs"]
    tried = [(run["scale"], run["w_var"]) for run in runs if run["kind"] == "candidate"]
    assert tried == [("matched", 1.0), ("matched", 1.5)]
    (choice,) = [run for run in runs if run["kind"] == "choice" and run["scale"] == "fixed"]
    assert choice["w_var"] == 2.0


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
        digits.run(config, tmp_path, progress=False, say=lambda _: None)
    digits.run(config, tmp_path, progress=False, say=lambda _: None)
    assert [mark["w_var"] for _, _, _, _, mark, *_ in trained[:3]] == [1.0, 2.0, 2.0]


def test_mnist_has_the_paper_s_network_and_training():
    config = mnist.PRESETS["paper"]
    net = config.network(2.0)
    shapes = [leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(net.init, jax.random.key(0)))]
    assert sorted(shapes) == sorted([(784, 200), (200,), (200, 200), (200,), (200, 10), (10,)])
    trainer = config.trainer(54_000, 0.0)
    assert (trainer.epochs, trainer.batch_size, config.learning_rate) == (20, 100, 0.001)
    assert (config.members, config.repeats, config.noise_std, config.b_std) == (10, 5, 0.1, 0.05)
    assert (config.validation_fraction, config.weight_decay) == (0.1, 1e-4)


# CIFAR-10


def test_cifar_s_learning_rate_is_the_paper_s():
    config = cifar.PRESETS["paper"]
    schedule = config.schedule(45_000)  # 360 steps an epoch
    rates = [float(schedule(360 * epoch)) for epoch in (0, 2.5, 5, 79.99, 80, 99)]
    np.testing.assert_allclose(rates, [1e-4, 5.5e-4, 1e-3, 1e-3, 2e-4, 2e-4], rtol=1e-4)


def test_cifar_s_training_is_the_paper_s_or_said_to_be_another():
    trainer = cifar.PRESETS["paper"].trainer(45_000, black=-1.5)
    assert (trainer.epochs, trainer.batch_size) == (100, 125)
    assert trainer.augment == RandomCropsAndFlips(4, -1.5)
    assert cifar.PRESETS["laptop"].trainer(9_000, black=-1.5).augment is None
    with pytest.raises(ValueError, match="adam"):
        replace(cifar.PRESETS["paper"], optimizer="lbfgs")


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


@pytest.mark.slow
def test_the_paper_s_cifar_network_takes_a_step(monkeypatch, tmp_path):
    """Channel width 100, a batch of 125, crops and flips."""

    def load(name):
        n = 139 if name == "cifar10" else 12
        images_, labels = RNG.integers(0, 256, (n, 32, 32, 3), np.uint8), RNG.integers(0, 10, n)
        return Dataset(name, dict.fromkeys(("train", "test"), Split(images_, labels)))

    monkeypatch.setattr(cifar, "load", load)
    small = {"methods": ("ntkgp-param",), "members": 1, "repeats": 1, "epochs": 1, "max_test": 12}
    config = replace(cifar.PRESETS["paper"], **small, w_var_grid=(2.0,), kappa2_grid=(1.0,))
    path = cifar.run(replace(config, target_scales=("matched",)), tmp_path, progress=False)
    (run,) = (run for run in results.load(path)["runs"] if run["kind"] == "ensemble")
    assert run["failed"] == []
    assert np.isfinite(run["by_size"][0]["nll"])


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
        flights.PRESETS["laptop"],
        **{"members": 2, "repeats": 2, "epochs": 2, "width": 8, "depth": 2},
        **{"train_rows": 400, "validation_rows": 50, "window_rows": 100},
        window_starts=(400, 600, 800),
    )
    return flights.run(config, tmp_path, progress=False)


def test_flights_end_in_windows_curves_and_claims(flights_run):
    contents = results.load(flights_run)
    assert len(contents["runs"]) == 10
    section = reporter("flights").report(contents, flights_run.parent)
    assert (flights_run.parent / "flights.png").stat().st_size > 1000
    assert [claim.where for claim in section.claims] == ["Figure 2, left"] * 3 + ["Figure 2, right"]
    for run in contents["runs"]:
        # all rows kept: the error of the three windows together
        squares = np.mean([window["rmse"] ** 2 for window in run["windows"]])
        np.testing.assert_allclose(run["kept_errors"][0] ** 2, squares, rtol=1e-4)


def test_flights_rows_are_standardised_by_the_training_rows():
    config = replace(
        flights.PRESETS["laptop"],
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
        flights.run(flights.PRESETS["paper"], tmp_path, progress=False)


# Laws and costs


def test_laws_agree_with_simulated_members_and_are_ordered(tmp_path):
    config = laws.LawsConfig(networks=("erf-2",), train_points=10, test_points=8)
    contents = results.load(laws.run(config, tmp_path, progress=False, say=lambda _: None))
    section = reporter("laws").report(contents, tmp_path)
    assert [claim.verdict for claim in section.claims] == ["holds"] * 4


def test_a_wrong_law_is_seen_by_the_simulation():
    """The control: members of the randomised prior against the NTKGP's variances."""
    net = laws.NETWORKS["erf-2"]()
    x, t = RNG.normal(size=(10, 10)), RNG.normal(size=(5, 10))
    y = RNG.normal(size=10)
    right, wrong = (
        ntkgp.Posterior(net, x, y, law=law, noise_std=0.3) for law in ("randomised-prior", "ntkgp")
    )
    assert laws.largest_z(right, t, right.covariance(t), 5000) < 5
    assert laws.largest_z(right, t, wrong.covariance(t), 5000) > 20


def test_costs_find_the_parameter_sets_of_table_2(tmp_path):
    config = costs.CostsConfig(members=1, batch_size=4, steps=1, turns=1)
    contents = results.load(costs.run(config, tmp_path, progress=False, say=lambda _: None))
    section = reporter("costs").report(contents, tmp_path)
    (sets,) = (claim for claim in section.claims if claim.where == "Table 2")
    assert sets.verdict == "holds"
    assert "RP-param 2/1" in sets.measured


# UCI


def test_uci_runs_models_on_splits(monkeypatch, tmp_path):
    x = RNG.normal(size=(40, 3))
    data = Split(x, np.sin(x[:, 0]))
    folds = tuple(Fold(np.arange(30), np.arange(30, 40)) for _ in range(3))
    monkeypatch.setattr(uci, "load", lambda name: Dataset(name, {"all": data}, folds))
    config = uci.UciConfig(sets=("yacht",), models=("ntkgp-law", "sklearn-gp"), splits=2)
    contents = results.load(uci.run(config, tmp_path, progress=False, say=lambda _: None))
    assert len(contents["runs"]) == 4
    text = reporter("uci").report(contents, tmp_path).text
    assert "yacht" in text
    assert "(2)*" in text


# Everything


def test_all_runs_what_needs_no_data_and_says_what_the_rest_needs(tmp_path, capsys, monkeypatch):
    def missing(name):
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
    for name in ("mnist", "flights", "cifar", "uci"):
        assert f"{name} was left out: " in printed
    assert {path.stem for path in tmp_path.glob("*.json")} == set(small)
    page = (tmp_path / "report.html").read_text()
    for name in small:
        assert EXPERIMENTS[name].title in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all", "--set", "width=3"], "EXPERIMENT.FIELD"),
        (["laws", "--repeats", "3"], "no repeats"),
        (["digits", "--set", "analytic=maybe"], "bool"),
        (["digits", "--set", "target_scales=loose"], "matched"),
    ],
)
def test_bad_settings_get_a_clear_error(tmp_path, capsys, arguments, words):
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_verdicts_follow_from_intervals():
    gap = claims.difference({0: 1.0, 1: 1.1, 2: 0.9}, {0: 0.0, 1: 0.1, 2: 0.0})
    assert claims.above(gap) == "holds"
    assert claims.below(gap) == "does not hold"
    assert claims.below(claims.difference({0: 1.0}, {0: 0.0})) == "undecided"
    assert claims.above(claims.difference({0: 1.0, 1: 1.0}, {2: 0.0})) == "undecided"
    assert claims.between(claims.interval([1.0, 2.0]), 0.0, 3.0) == "undecided"
    assert claims.above(claims.interval([1.0, float("nan")])) == "undecided"


def made_up_images(errors, at_confidence, entropy_bins, law=None):
    """A results file in which each method has the same scores in three repeats, up to a little."""
    runs = []
    for method in images.FIVE_METHODS:
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
    return {"entropy_bins": 40, "classes": 10, "runs": runs}


def verdicts(report, contents, experiment):
    return [claim.verdict for claim in report.claims(contents | {"experiment": experiment})]


def by_group(baselines, ntkgp):
    return {m: ntkgp if m.startswith("ntkgp") else baselines for m in images.FIVE_METHODS}


def test_claims_about_mnist_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    report = reporter("mnist")
    like_the_paper = made_up_images(
        by_group(0.016, 0.018), by_group(0.5, 0.3), by_group(10, 30), law=(0.0185, 0.31)
    )
    assert verdicts(report, like_the_paper, "mnist") == ["holds"] * 4
    opposite = made_up_images(
        by_group(0.018, 0.016), by_group(0.3, 0.5), by_group(30, 10), law=(0.03, 0.31)
    )
    assert verdicts(report, opposite, "mnist") == ["does not hold"] * 4


def test_claims_about_cifar_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    report = reporter("cifar")
    good = by_group(0.2, 0.15) | {"rp-fn": 0.15}
    like_figure_5 = made_up_images(good, by_group(0.4, 0.41), by_group(10, 10))
    assert verdicts(report, like_figure_5, "cifar")[:2] == ["holds", "holds"]
    like_figure_6 = made_up_images(by_group(0.15, 0.2), by_group(0.5, 0.3), by_group(10, 10))
    assert verdicts(report, like_figure_6, "cifar") == ["does not hold"] * 2 + ["holds"] * 2


def test_methods_with_unequal_repeats_are_compared_by_those_they_share():
    contents = made_up_images(by_group(0.016, 0.018), by_group(0.5, 0.3), by_group(10, 30))
    contents["runs"] = [
        run for run in contents["runs"] if run["method"] != "rp-fn" or run["repeat"] < 2
    ]
    found = verdicts(reporter("mnist"), contents, "mnist")
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
        for method in images.FIVE_METHODS
        for repeat in range(3)
    ]
    config = {"methods": images.FIVE_METHODS, "window_starts": [0, 1, 2]}
    return {"config": config, "runs": runs}


def test_claims_about_flights_hold_on_the_paper_s_numbers_and_not_on_the_opposite():
    report = reporter("flights")
    paper, opposite = (
        made_up_flights(by_group(*nlls), by_group(*errors))
        for nlls, errors in (
            (([1.0, 2.0, 3.0], [1.1, 1.5, 2.0]), ([0.8, 0.7], [0.7, 0.5])),
            (([1.1, 1.5, 2.0], [1.0, 2.0, 3.0]), ([0.7, 0.5], [0.8, 0.7])),
        )
    )
    assert verdicts(report, paper, "flights") == ["holds"] * 4
    assert verdicts(report, opposite, "flights") == ["does not hold"] * 4


def test_reports_take_the_records_of_the_last_configuration_alone():
    runs = [{"network": "a", "x": 1}, {"network": "b", "x": 2}]
    assert results.wanted({"marks": [{"network": "b"}], "runs": runs})["runs"] == runs[1:]
    assert results.wanted({"runs": runs})["runs"] == runs


def test_a_page_shows_what_it_is_given_as_text(tmp_path, digits_run):
    from ntkgp.report.page import Part, write_page
    from ntkgp.report.section import Section

    contents = results.load(digits_run / "digits.json")
    claim = claims.Claim("<where>", "<says>", "<measured>", "holds")
    write_page([Part(contents, Section("<b>text</b>", claims=[claim]))], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "&lt;says&gt;" in page
    assert "<b>text" not in page
