"""Every benchmark runs to its end, at sizes that show only that it does. Nothing here measures."""

import importlib
import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
SHARED = {"common", "pytorch"}
"""What benchmarks import."""
RATIOS = {
    "cifar_compute": "seconds",
    "closeness": "std ratio",
    "conformal": "width / own",
    "coverage": "in 90 %",
    "after_training": "seconds",
    "exact_mnist": "their ratio",
    "first_fit": "first / again",
    "growth": "seconds, conditioning",
    "conv_kernel": "seconds / ours",
    "kernel": "seconds / ours",
    "labels": "nll / best peer's",
    "larger_than_memory": "seconds",
    "mlp_training": "seconds / ours",
    "myrtle": "/ ours",
    "noise": "seconds",
    "prediction": "seconds / limit, many rows",
    "prior_cost": "prior / members",
    "schedule": "days, simulated / plan",
    "separate": "nll",
    "small_data": "seconds / EnsembleRegressor",
    "toy_solver": "ratio",
}
"""Benchmarks that end in a table, and what they are run for."""
FIGURES = {
    "closeness": ["closeness.png", "closeness.svg"],
    "exact_beside_ensemble": ["exact.png"],
    "growth": ["growth.png", "growth.svg"],
    "letters": ["letters.png"],
}
OTHERS = {"tables"}
"""Benchmarks that have a test of their own."""
AGAINST_PYTORCH = ("mlp_training", "myrtle")
ALL_BUT_PYTORCH = sorted(RATIOS.keys() - set(AGAINST_PYTORCH))
ALONE = ("mlp_training",)
"""These ask for devices, which JAX grants before it starts only."""


@pytest.fixture
def module_of(monkeypatch):
    """Loads one of them, as when it is run; all are forgotten afterwards."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def run(module_of, monkeypatch, tmp_path):
    """Runs one of them at its tiny size; returns the directory of what it wrote."""
    monkeypatch.chdir(tmp_path)  # whatever is not written to --out is not written into the project
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")  # for processes they start
    monkeypatch.setenv("NTKGP_COMPILED", "off")  # which some of them set

    def run(name, *options):
        out = tmp_path / "bench"
        arguments = ["--tiny", "--out", str(out), *options]
        if name in ALONE:
            command = [sys.executable, str(FOLDER / f"{name}.py"), *arguments]
            subprocess.run(command, check=True)
        else:
            module_of(name).main(arguments)
        return out

    with mpl.rc_context():
        yield run


def rows_of(name, out):
    """Its table, all of whose numbers are finite, and positive in the column that matters."""
    contents = json.loads((out / f"{name}.json").read_text())
    assert contents["benchmark"] == name
    rows = contents["rows"]
    if "what" in rows[0]:  # a table of two columns
        rows = [{row["what"]: row["measured"] for row in rows}]
    for row in rows:
        assert all(math.isfinite(value) for value in row.values() if not isinstance(value, str))
        assert row[RATIOS[name]] > 0
    return rows


def test_every_benchmark_is_run_here():
    names = {path.stem for path in FOLDER.glob("*.py")} - SHARED
    assert names == RATIOS.keys() | FIGURES.keys() | OTHERS


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_sizes_of_the_figures_can_be_written(module_of, name):
    """What a long run would find out at its end."""
    module = module_of(name)
    sizes = module.Sizes()
    assert json.loads(json.dumps(asdict(sizes)))
    assert sizes != module.TINY


def test_make_bench_runs_benchmarks():
    (listed,) = re.findall(r"for name in (.*); do", (ROOT / "Makefile").read_text())
    assert set(listed.split()) <= RATIOS.keys()


@pytest.mark.quick("kernel", "exact_mnist")
@pytest.mark.parametrize(
    "name",
    ALL_BUT_PYTORCH,
)
def test_a_benchmark_ends_in_its_table(run, name, capsys):
    out = run(name)
    rows, printed = rows_of(name, out), capsys.readouterr().out
    assert all(column in printed for column in rows[0])
    assert_drawn(name, out)
    if name == "first_fit":
        for row in rows:  # programs that another process has kept
            assert (row["programs found"] > 0) == (row["cache"] == "warm")
    if name == "schedule":
        assert abs(rows[0]["days, simulated / plan"] - 1) < 0.05


@pytest.mark.quick("myrtle")
@pytest.mark.parametrize("name", AGAINST_PYTORCH)
def test_training_is_timed_without_pytorch(run, name):
    rows = rows_of(name, run(name, "--ours"))
    assert not any("PyTorch" in row["run"] for row in rows)


@pytest.mark.parametrize("name", AGAINST_PYTORCH)
def test_training_is_timed_against_pytorch(run, name):
    pytest.importorskip("torch")
    rows = rows_of(name, run(name))
    assert any("PyTorch" in row["run"] for row in rows)


@pytest.mark.slow
def test_the_law_beside_ensembles_is_drawn(run, capsys):
    assert_drawn("exact_beside_ensemble", run("exact_beside_ensemble"))
    assert_finite_table(capsys.readouterr().out)


@pytest.mark.parametrize("separator", [",", " "])
def test_a_table_comes_from_a_file(separator, module_of, tmp_path):
    numbers = np.arange(60.0).reshape(20, 3)
    np.savetxt(tmp_path / "own.dat", numbers, delimiter=separator)
    table = module_of("tables").table_of(tmp_path / "own.dat", 3)
    np.testing.assert_array_equal(table.all.x, numbers[:, :2])
    np.testing.assert_array_equal(table.all.y, numbers[:, 2])
    for fold in table.folds:
        assert sorted([*fold.train, *fold.test]) == list(range(20))
        assert len(fold.test) == 2
    assert not np.array_equal(table.folds[0].test, table.folds[1].test)


def test_tables_average_over_splits_that_our_models_share(module_of):
    def run(model, split, nll):
        return {"set": "own", "kind": "gap", "split": split, "model": model, "nll": nll}

    runs = [run("law", 0, 1.0), run("law", 1, 3.0), run("ntkgp-param", 1, 2.0)]
    runs += [run("forest", split, 4.0 + split) for split in range(3)]
    row = module_of("tables").markdown(runs, "gap", "nll").splitlines()[-1]
    assert [part.strip() for part in row.split("|")[1:-1]] == [
        "own (1)",
        "3.000",
        "**2.000**",
        "5.000",
    ]
    noisy = [*runs, run("ntkgp-param, σ(x)", 2, 0.0)]  # with a split that the others lack
    assert "own (1)" in module_of("tables").markdown(noisy, "gap", "nll")


def test_standings_of_tables_count_standard_errors(module_of):
    tables = module_of("tables")

    def runs(model, *nlls, kind="standard", name="energy"):
        return [
            {"set": name, "kind": kind, "split": split, "model": model, "nll": nll}
            for split, nll in enumerate(nlls)
        ]

    law = runs("law", 1.0, 2.0, 3.0)
    assert tables.lead(law + runs("forest", 1.1, 2.3), "law", "forest") == pytest.approx(
        (0.2, 0.1, 2)  # of 0.1 and 0.3
    )
    close = law + runs("ARD GP", 0.9, 2.0, 3.0)  # behind by 0.033, whose standard error is as much
    behind = law + runs("ARD GP", 0.9, 1.9, 2.9)
    assert "- law not behind ARD GP: 1 of 1 (energy)" in tables.standings(close, "standard")
    assert "- law not behind ARD GP: 0 of 1 ()" in tables.standings(behind, "standard")
    everyone = "- some model of ours not behind any: "
    assert everyone + "1 of 1 (energy)" in tables.standings(close, "standard")
    assert everyone + "0 of 1 ()" in tables.standings(behind, "standard")
    gap = runs("law", 1.0, kind="gap") + runs("forest", 0.5, kind="gap")
    assert tables.standings(gap, "gap") == ["- law or ntkgp-param first: 0 of 1 ()"]


@pytest.mark.slow
def test_tables_go_on_where_they_stopped(run, capsys):
    out = run("tables", "--models", "forest")
    assert "law" not in capsys.readouterr().out
    run("tables")
    assert_finite_table(capsys.readouterr().out)
    runs = json.loads((out / "tables.json").read_text())["runs"]
    fits = {(run["kind"], run["model"]) for run in runs}
    models = ("forest", "law", "ntkgp-param")
    assert fits == {(kind, model) for kind in ("standard", "gap", "tail") for model in models}
    assert len(runs) == len(fits)
    for score in ("nll", "crps", "rmse", "coverage", "seconds"):
        assert all(math.isfinite(run[score]) for run in runs)


def test_the_simulated_schedule_is_the_planned_one(module_of):
    """By Daly's formula for the mean, within five standard errors; without failures, exactly."""
    module, rng = module_of("schedule"), np.random.default_rng(1)
    plan = module.Plan(1000.0, 2.0, 50.0, 10.0, 400.0, 0.0, 0.0, 0.0)
    taken = [module.member_seconds(plan, rng) for _ in range(2000)]
    error = np.std(taken) / np.sqrt(len(taken))
    assert abs(np.mean(taken) - plan.expected) < 5 * error
    assert plan.expected > 1.05 * (1000 + 20 * 2)  # failures cost: the control
    safe = replace(plan, mtbf=1e12)
    makespan, mean = module.simulate(7, 3, safe, rng)
    assert mean == pytest.approx(1000 + 20 * 2)
    assert makespan == pytest.approx(3 * mean)  # three waves on three nodes
    best = module.young_interval(2.0, 400.0)
    around = [module.daly_seconds(1000.0, best * f, 2.0, 10.0, 400.0) for f in (0.5, 1.0, 2.0)]
    assert around[1] == min(around)


def test_gaps_and_tails_are_parts_of_the_order(module_of):
    by_order = module_of("tables").by_order
    column = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])
    gap, tail = (by_order(column, kind) for kind in ("gap", "tail"))
    assert sorted(column[gap.test]) == [2.0, 3.0]
    assert sorted(column[tail.test]) == [0.0, 5.0]
    for fold in (gap, tail):
        assert sorted([*fold.train, *fold.test]) == list(range(6))


@pytest.mark.slow
def test_letters_are_measured_drawn_and_drawn_again(run, capsys):
    out = run("letters")
    measured = capsys.readouterr().out
    assert_drawn("letters", out)
    table = measured[measured.index("| model") :]
    assert_finite_table(table)
    (out / "letters.png").unlink()
    run("letters", "--draw-only")
    assert_drawn("letters", out)
    assert capsys.readouterr().out == table


def assert_drawn(name, out):
    for figure in FIGURES.get(name, []):
        assert (out / figure).stat().st_size > 1000


def assert_finite_table(printed):
    assert "|" in printed
    assert not re.search(r"\b(nan|inf)\b", printed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("fuzz", ["--files", "25", "--loaders", "svhn", "cifar10", "cached", "mnist"]),
        ("saves", ["--tiny"]),
    ],
)
def test_attacks_on_files_run_and_find_nothing(script, options):
    command = [sys.executable, str(FOLDER / "faults" / f"{script}.py"), *options]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
