"""`ntkgp report`: which files it takes, what it writes where, and what it says of the others."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ntkgp.cli import main
from ntkgp.experiments import results
from ntkgp.experiments.catalogue import EXPERIMENTS

KEPT = Path(__file__).parents[2] / "docs" / "results"
"""Results files of every experiment, whatever made them."""


def toy(path, seed=0, **changes):
    """A results file of the toy experiment with little in it, which differs by seed."""
    contents = results.load(KEPT / "toy-laptop.json")
    runs = [run for run in contents["runs"] if run["seed"] == seed and run["method"] == "rp-param"]
    results.save(path, contents | {"runs": runs} | changes)
    return path


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


DRAWN = {"toy.png", "toy.svg", "toy-sizes.png", "toy-sizes.svg", "report.html"}


@pytest.mark.slow
def test_a_folder_means_the_results_files_directly_in_it(tmp_path, capsys):
    toy(tmp_path / "toy.json")
    (tmp_path / "below").mkdir()
    toy(tmp_path / "below" / "toy.json")
    (tmp_path / "speed.json").write_text('{"benchmark": "speed"}')
    (tmp_path / "words.txt").write_text("no results")
    assert main(["report", str(tmp_path)]) == 0
    assert files(tmp_path) == {"toy.json", "below/toy.json", "speed.json", "words.txt", *DRAWN}
    printed = capsys.readouterr().out
    assert printed.count("skipped:") == 1
    assert "speed.json is not a results file of ntkgp: it needs the entries" in printed


@pytest.mark.slow
def test_results_are_known_by_what_is_in_them(tmp_path, capsys):
    toy(tmp_path / "of last week")
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "of last week-sizes.png").exists()
    assert "(of last week)" in capsys.readouterr().out


@pytest.mark.slow
def test_with_out_nothing_is_written_elsewhere(tmp_path):
    (tmp_path / "a").mkdir()
    toy(tmp_path / "a" / "toy.json")
    out = tmp_path / "drawn" / "here"
    assert main(["report", str(tmp_path / "a"), "--out", str(out)]) == 0
    assert files(tmp_path / "a") == {"toy.json"}
    assert files(out) == DRAWN


@pytest.mark.slow
def test_figures_of_one_experiment_do_not_overwrite_each_other(tmp_path):
    """Not of two files of one name, nor where one file is called like a figure of another."""
    for seed, name in enumerate(("a/toy", "b/toy", "a/toy-sizes")):
        toy(tmp_path / f"{name}.json", seed)
    out = tmp_path / "out"
    given = [str(tmp_path / f"{name}.json") for name in ("a/toy", "b/toy", "a/toy-sizes")]
    assert main(["report", *given, "--out", str(out)]) == 0
    figures = {path.stem for path in out.glob("*.png")}
    assert figures == {
        *("toy", "toy-sizes"),
        *("b-toy", "b-toy-sizes"),
        *("a-toy-sizes", "a-toy-sizes-sizes"),
    }
    page = (out / "report.html").read_text()
    assert len(set(re.findall('base64,([^"]*)', page))) == 6
    for source in ("a/toy.json", "b/toy.json", "toy-sizes.json"):
        assert f"Results file: {source}." in page


@pytest.mark.slow
def test_a_file_that_is_given_twice_is_drawn_once(tmp_path, capsys):
    path = toy(tmp_path / "toy.json")
    assert main(["report", str(path), str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("==") == 1


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"experiment": "toy"}', None])
def test_a_bad_file_that_is_named_stops_everything_before_it_is_written(tmp_path, capsys, broken):
    good, bad = toy(tmp_path / "good.json"), tmp_path / "bad.json"
    if broken is not None:
        bad.write_text(broken)
    before = files(tmp_path)
    assert main(["report", str(good), str(bad)]) == 2
    captured = capsys.readouterr()
    assert "bad.json" in captured.err
    assert captured.out == ""
    assert files(tmp_path) == before


@pytest.mark.quick("{}")
@pytest.mark.parametrize("broken", ["", "{", "{}"])
def test_a_bad_file_of_a_folder_is_named_and_skipped(tmp_path, capsys, broken):
    toy(tmp_path / "toy.json")
    (tmp_path / "bad.json").write_text(broken)
    assert main(["report", str(tmp_path)]) == 0
    assert f"skipped: {tmp_path / 'bad.json'} is not a results file" in capsys.readouterr().out


def test_a_folder_without_results_says_so(tmp_path, capsys):
    (tmp_path / "bad.json").write_text("{")
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path} has no results file in it" in error
    assert "bad.json is not a results file" in error


def test_an_experiment_unknown_here_is_refused(tmp_path, capsys):
    path = toy(tmp_path / "toy.json", experiment="tarot")
    assert main(["report", str(path)]) == 2
    assert "unknown here: 'tarot'" in capsys.readouterr().err


def test_a_picture_is_no_results_file(tmp_path, capsys):
    (tmp_path / "toy.png").write_bytes(b"\x89PNG\xff")
    assert main(["report", str(tmp_path / "toy.png")]) == 2
    assert "toy.png is not a results file" in capsys.readouterr().err


@pytest.mark.slow
def test_every_kept_file_is_drawn_again(tmp_path, capsys):
    """All nine experiments, of which toy has two files, beside benchmarks, which are skipped."""
    assert main(["report", str(KEPT), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for experiment in EXPERIMENTS.values():
        assert f"== {experiment.title} (" in printed
    assert "kernel.json is not a results file" in printed
    drawn = {path.name for path in tmp_path.glob("*.png")}
    of_benchmarks = {"growth.png", "closeness.png"}
    assert {path.name for path in KEPT.glob("*.png")} - of_benchmarks <= drawn


AXES = [
    (name, entry)
    for name, experiment in EXPERIMENTS.items()
    for entry in experiment.contents
    if (KEPT / f"{name}.json").exists()
]


def test_the_axes_of_figures_are_in_the_files():
    assert {entry for _, entry in AXES} >= {
        *("confidence_thresholds", "entropy_edges"),
        *("precision_thresholds", "kept_shares", "chains", "grid"),
    }


@pytest.mark.parametrize(("name", "axis"), AXES)
def test_a_file_without_its_axis_is_refused(name, axis, tmp_path, capsys):
    contents = results.load(KEPT / f"{name}.json")
    del contents[axis]
    results.save(tmp_path / f"{name}.json", contents)
    assert main(["report", str(tmp_path / f"{name}.json")]) == 2
    error = capsys.readouterr().err
    assert f"{name}.json lacks {axis}" in error
    assert "Run the experiment again" in error


@pytest.mark.parametrize(
    ("name", "axis", "panel"),
    [("mnist", "confidence_thresholds", 1), ("flights", "kept_shares", 2)],
)
def test_figures_have_the_axis_of_their_file(name, axis, panel):
    contents = results.wanted(results.load(KEPT / f"{name}.json"))
    contents[axis] = [value / 2 for value in contents[axis]]
    figure = EXPERIMENTS[name].report(contents).drawings[0].figure
    largest = max(figure.axes[panel].lines[0].get_xdata())
    assert largest == max(contents[axis]) * (100 if axis == "kept_shares" else 1)


def test_entropies_are_those_of_the_bins_in_the_file():
    contents = results.wanted(results.load(KEPT / "mnist.json"))
    report = EXPERIMENTS["mnist"].report
    before = next(c.measured for c in report(contents).claims if c.where == "Figure 4")
    contents["entropy_edges"] = [2 * edge for edge in contents["entropy_edges"]]
    after = next(c.measured for c in report(contents).claims if c.where == "Figure 4")
    numbers = [[float(n) for n in re.findall(r"\d\.\d\d", words)] for words in (before, after)]
    assert [2 * n for n in numbers[0]] == pytest.approx(numbers[1], abs=0.011)


def test_a_record_without_what_it_needs_is_refused(tmp_path, capsys):
    path = toy(tmp_path / "toy.json")
    contents = results.load(path)
    del contents["runs"][0]["std"]
    results.save(path, contents)
    assert main(["report", str(path)]) == 2
    assert "lacks 'std' in its runs" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_plus_minus_is_the_95_per_cent_interval_or_there_is_none(name):
    path = KEPT / f"{'toy-laptop' if name == 'toy' else name}.json"
    text = EXPERIMENTS[name].report(results.wanted(results.load(path))).text
    assert ("±: 95 % confidence interval" in text) == ("±" in text)
    assert "standard error over" not in text


def test_tables_show_the_interval_of_student_s_distribution():
    """Three ensembles: 4.303 standard errors."""
    contents = results.wanted(results.load(KEPT / "toy-laptop.json"))
    text = EXPERIMENTS["toy"].report(contents).text
    row = next(line for line in text.splitlines() if line.startswith("rp-param"))
    assert "2.54 ± 0.82" in row  # a standard error of 0.19


def test_the_table_of_experiments_imports_neither_matplotlib_nor_scikit_learn():
    code = (
        "import sys; from ntkgp.experiments.catalogue import EXPERIMENTS; import ntkgp.cli; "
        "assert len(EXPERIMENTS) == 8; print({'matplotlib', 'sklearn'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_without_matplotlib_figures_say_what_to_install_and_tables_are_there(
    tmp_path, capsys, monkeypatch
):
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = toy(tmp_path / "toy.json")
    assert main(["report", str(path)]) == 2
    error = capsys.readouterr().err
    assert "figures need matplotlib: pip install 'ntkgp[report]'" in error
    assert f"ntkgp report {path}" in error
    shutil.copy(KEPT / "laws.json", tmp_path)
    assert main(["report", str(tmp_path / "laws.json")]) == 0
    assert "Table 1" in capsys.readouterr().out


def test_results_files_are_json_with_the_entries_of_one():
    for path in KEPT.glob("*.json"):
        is_one = results.NEEDED.keys() <= json.loads(path.read_text()).keys()
        if is_one:
            results.load(path)
        else:
            with pytest.raises(ValueError, match="not a results file"):
                results.load(path)
