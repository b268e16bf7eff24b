"""The command line and the experiments, small."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ntkgp.cli import main
from ntkgp.experiments import results
from ntkgp.experiments.catalogue import EXPERIMENTS
from ntkgp.experiments.commands import override
from ntkgp.experiments.experiment import run
from ntkgp.experiments.toy import run as toy
from ntkgp.experiments.toy.closeness import closeness

METHODS = ["ntkgp-param", "rp-param", "ntkgp-fn"]
SMALL = [
    "--set",
    "width=8",
    "--set",
    "members=2",
    "--set",
    "max_steps=3",
    "--set",
    "repeats=1",
    "--set",
    f"methods={','.join(METHODS)}",
    "--quiet",
]


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("toy")
    assert main(["reproduce", "toy", "--out", str(out), *SMALL]) == 0
    return out


def test_reproduce_writes_results_figures_and_table(small_run):
    contents = results.load(small_run / "toy.json")
    assert [run["method"] for run in contents["runs"]] == METHODS
    assert set(contents["laws"]) == {"nngp", "deep-ensemble", "randomised-prior", "ntkgp"}
    assert contents["config"]["width"] == 8
    assert contents["versions"]["jax"]
    for name in ("toy.png", "toy.svg", "toy-sizes.png", "report.html"):
        assert (small_run / name).stat().st_size > 100


@pytest.mark.slow
def test_an_interrupted_run_continues(small_run, capsys):
    path = small_run / "toy.json"
    contents = results.load(path)
    whole, contents["runs"] = contents["runs"], contents["runs"][:2]
    results.save(path, contents)
    assert main(["reproduce", "toy", "--out", str(small_run), *SMALL]) == 0
    printed = capsys.readouterr().out
    assert "method ntkgp-fn, seed 0" in printed
    assert "method rp-param, seed 0" not in printed
    again = results.load(path)["runs"]
    assert [run["outputs"] for run in again] == [run["outputs"] for run in whole]


@pytest.mark.slow
def test_a_killed_run_continues(tmp_path):
    """Killed by the system, so that nothing of Python has a chance to tidy up."""
    code = "import sys; from ntkgp.cli import main; main(sys.argv[1:])"
    few = ["toy", "--out", str(tmp_path), *SMALL, "--set", "methods=rp-param,nngp,ntkgp-lin"]
    path = tmp_path / "toy.json"
    run = subprocess.Popen(
        [sys.executable, "-c", code, "reproduce", *few], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not (path.exists() and results.load(path)["runs"]):
        assert run.poll() is None, "it ended before its first record was seen"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    before = results.load(path)["runs"]
    assert 1 <= len(before) < 3
    assert main(["reproduce", *few]) == 0
    after = results.load(path)["runs"]
    assert after[: len(before)] == before
    assert [run["method"] for run in after] == ["rp-param", "nngp", "ntkgp-lin"]


def test_a_report_is_of_the_last_command(small_run, tmp_path, capsys):
    shutil.copy(small_run / "toy.json", tmp_path)
    few = [*SMALL, "--set", "methods=rp-param"]
    assert main(["reproduce", "toy", "--out", str(tmp_path), *few]) == 0
    printed = capsys.readouterr().out
    assert "rp-param" in printed
    assert "deep-ensemble" not in printed


def test_what_cannot_be_written_is_said_before_anything_is_computed(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["reproduce", "toy", "--out", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert "cannot write results into" in captured.err
    assert captured.out == ""


def test_another_configuration_does_not_overwrite_results(small_run, capsys):
    assert main(["reproduce", "toy", "--out", str(small_run), *SMALL, "--set", "width=4"]) == 2
    assert "another configuration" in capsys.readouterr().err


@pytest.mark.slow
def test_report_draws_again_without_training(small_run, capsys, monkeypatch):
    monkeypatch.setattr(toy, "fit", None)
    assert main(["report", str(small_run / "toy.json")]) == 0
    assert "ntkgp-param" in capsys.readouterr().out


def test_settings_are_read_as_their_fields_types():
    config = override(
        toy.ToyConfig(),
        ["width=64", "noise_std=0.2", "methods=rp-fn,ntkgp-lin", "solver=gradient-descent"],
    )
    assert config.width == 64
    assert config.noise_std == 0.2
    assert config.methods == ("rp-fn", "ntkgp-lin")
    assert config.solver == "gradient-descent"


@pytest.mark.parametrize("setting", ["solver=newton", "methods=bagging", "members=1", "repeats=0"])
def test_impossible_settings_are_refused_before_training(setting, tmp_path, capsys):
    assert main(["reproduce", "toy", "--out", str(tmp_path), "--set", setting]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("setting", ["breadth=64", "width", "width=wide"])
def test_bad_settings_are_refused_in_words(setting):
    with pytest.raises(ValueError, match=r"--set"):
        override(toy.ToyConfig(), [setting])


def contents_of(experiment):
    return {"experiment": experiment, "config": {}, "versions": {}, "runs": []}


def test_results_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "toy.json"
    results.save(path, contents_of("toy"))
    with pytest.raises(TypeError):
        results.save(path, contents_of(object()))
    assert json.loads(path.read_text())["experiment"] == "toy"


@pytest.mark.parametrize("function", ["replace", "fsync"])
def test_a_full_disk_leaves_what_was_there(function, tmp_path, monkeypatch):
    path = tmp_path / "toy.json"
    results.save(path, contents_of("toy"))

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, function, full)
    with pytest.raises(OSError, match="No space left"):
        results.save(path, contents_of("another"))
    assert [child.name for child in tmp_path.iterdir()] == ["toy.json"]
    assert json.loads(path.read_text())["experiment"] == "toy"


def test_data_are_two_clusters_of_x_sin_x():
    x, y, grid = toy.make_data(toy.ToyConfig())
    assert x.shape == y.shape == (20, 1)
    assert ((np.abs(x) >= 2 / 3) & (np.abs(x) <= 2)).all()
    assert (x < 0).sum() == 10
    assert np.std(y - x * np.sin(x)) == pytest.approx(0.1, rel=5 / np.sqrt(40))
    assert grid.min() == -6
    assert grid.max() == 6


def test_closeness_of_exact_draws_is_one():
    """K draws from the law itself: mean error and ratios near 1; shifted and shrunk draws are not."""
    rng, grid = np.random.default_rng(0), np.linspace(-6, 6, 101)
    std = 1 + grid**2
    record = {
        "grid": grid.tolist(),
        "x": [-2, 2],
        "laws": {"ntkgp": {"mean": [0] * 101, "std": std.tolist()}},
    }

    def measure(outputs):
        return closeness(record, {"law": "ntkgp", **toy.summary(outputs)})

    exact = std * rng.standard_normal((400, 101))
    assert measure(exact).mean_error == pytest.approx(1, abs=5 / np.sqrt(2 * 101))
    assert measure(exact).std_ratio_inside == pytest.approx(1, abs=0.1)
    assert measure(exact + std).mean_error > 10
    assert measure(exact / 2).std_ratio_outside == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_the_paper_s_solver_runs_all_methods(tmp_path):
    config = toy.ToyConfig(  # of the size above, so that part of what is compiled serves both
        solver="gradient-descent", width=8, members=2, gd_steps=10, max_steps=3, repeats=1
    )
    path = run(EXPERIMENTS["toy"], config, tmp_path, progress=False, say=lambda _: None)
    assert len(results.load(path)["runs"]) == 6


def test_the_demo_has_enough_repeats_for_verdicts_and_says_what_they_mean():
    config = EXPERIMENTS["toy"].presets["demo"]
    assert config == toy.ToyConfig(methods=("deep-ensemble", "rp-param", "ntkgp-param"))
    assert config.repeats == 3
    kept = Path(__file__).parents[1] / "docs" / "results" / "toy-laptop.json"
    contents = results.load(kept)
    marks = [{"method": method} for method in config.methods]  # the same ensembles
    section = EXPERIMENTS["toy"].report(results.wanted(contents | {"marks": marks}))
    assert [claim.verdict.word for claim in section.claims] == ["holds"] * 5
    assert "Deep ensemble: its law has σ = 0" in section.text
    assert "as unsure as the posterior" in section.drawings[0].shows


def test_only_a_law_without_noise_is_explained_by_it(small_run):
    contents = results.load(small_run / "toy.json")
    few = results.wanted(contents | {"marks": [{"method": "ntkgp-param"}]})
    assert "σ = 0" not in EXPERIMENTS["toy"].report(few).text


@pytest.mark.slow
def test_widths_run_and_report(tmp_path, capsys):
    arguments = [
        "--set",
        "widths=8",
        "--set",
        "members=2",
        "--set",
        "repeats=2",
        "--set",
        "max_steps=2",
    ]
    assert main(["reproduce", "widths", "--out", str(tmp_path), "--quiet", *arguments]) == 0
    assert (tmp_path / "widths.png").stat().st_size > 1000
    assert len(results.load(tmp_path / "widths.json")["runs"]) == 4
    capsys.readouterr()


# Signals


@pytest.mark.quick("*-while importing", "15-*")
@pytest.mark.parametrize("wait", [0.3, None], ids=["while importing", "while running"])
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "ended by SIGTERM"),
        (signal.SIGHUP, "SIGHUP"),
    ],
)
def test_signals_end_the_command_in_words(number, words, wait, tmp_path):
    code = "import sys; sys.argv[0] = 'ntkgp'; print(1, flush=True); import ntkgp_command as c"
    code += "; sys.exit(c.main())"
    command = ["reproduce", "toy", "--preset", "paper", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    if wait is not None:
        time.sleep(wait)
    else:
        while not (tmp_path / "toy.json").exists():
            time.sleep(0.05)
            assert process.poll() is None
    process.send_signal(number)
    try:
        _, error = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert words in error.decode()
    assert "same command" in error.decode()
    assert "Traceback" not in error.decode()


def test_a_signal_that_is_raised_in_a_callback_of_the_garbage_collector_is_not_lost():
    """JAX has such a callback, and Python drops what is raised there."""
    code = """
import gc, signal, sys, time, types
import ntkgp_command
def run():
    def callback(phase, info):
        gc.callbacks.remove(callback)
        signal.raise_signal(signal.SIGTERM)
    gc.callbacks.append(callback)
    gc.collect()
    time.sleep(20)
    return 0
sys.modules["ntkgp.cli"] = types.SimpleNamespace(main=run)
sys.exit(ntkgp_command.main())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 128 + signal.SIGTERM, found.stderr
    assert found.stderr.startswith("ntkgp: ended by SIGTERM")
