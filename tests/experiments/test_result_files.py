"""Results files: what was damaged or made up is refused in words, and one process writes at a time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ntkgp.cli import main
from ntkgp.core.locks import locked
from ntkgp.core.progress import printable
from ntkgp.experiments import results
from ntkgp.experiments.catalogue import EXPERIMENTS
from ntkgp.experiments.experiment import report, run
from ntkgp.report.page import Part, write_page
from ntkgp.report.section import Section

KEPT = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture
def laws(tmp_path):
    path = tmp_path / "laws.json"
    path.write_bytes((KEPT / "laws.json").read_bytes())
    return path


def test_what_is_kept_here_has_right_checksums(laws):
    assert results.load(laws)["runs"]
    results.save(laws, results.load(laws) | {"numbered": {1: "a", 10: "b", 2: "c"}})
    assert results.load(laws)["numbered"] == {"1": "a", "10": "b", "2": "c"}


def test_a_changed_number_is_found(laws):
    text = laws.read_text()
    digit = next(i for i in range(len(text) // 2, len(text)) if text[i] == "3")
    laws.write_text(text[:digit] + "4" + text[digit + 1 :])
    with pytest.raises(ValueError, match="checksum does not match"):
        results.load(laws)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 10**5, "not a results file"),
        ("{", "not a results file"),
        ("[]", "it needs the entries"),
        ('{"experiment": NaN}', "NaN for a number"),
        ('{"experiment": "laws", "config": {}, "versions": {}, "runs": []}', "needs the entries"),
    ],
    ids=["nested", "cut", "list", "NaN", "no checksum"],
)
def test_other_content_is_refused(laws, content, words):
    laws.write_text(content)
    with pytest.raises(ValueError, match=words):
        results.load(laws)


@pytest.mark.parametrize(
    "changes",
    [
        {"runs": [1, 2]},
        {"runs": [{"network": "erf-2", "chain": "noisy"}]},
        {"marks": "all"},
        {"marks": [[]]},
        {"machine": 3},
        {"versions": {"\x1b[31m": "1"}},
        {"config": {"networks": "\x1b]0;title\x07"}},
    ],
    ids=str,
)
def test_content_of_other_types_is_refused_in_words(laws, changes):
    """Well signed: the types are wrong, or they hold what a terminal would act on."""
    laws.write_bytes(results.signed(results.load(laws) | changes))
    with pytest.raises(ValueError, match=r"laws\.json (is not|lacks|cannot be drawn)"):
        report(EXPERIMENTS["laws"], laws)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runs": [1, 2]}, "its runs are not a list of dictionaries"),
        ({"config": {"word": "\x1b[31m"}}, "control characters"),
        ({"versions": None}, "it needs the entries"),
        ({"notes": "long " * (results.MOST_BYTES // 5)}, "bytes, more than"),
    ],
    ids=["types", "control", "lacking", "long"],
)
def test_what_could_not_be_loaded_is_not_written(laws, changes, words):
    before = laws.read_bytes()
    with pytest.raises(ValueError, match=rf"cannot be written to .*laws\.json: .*{words}"):
        results.save(laws, results.load(laws) | changes)
    assert laws.read_bytes() == before


def test_control_characters_of_files_do_not_reach_the_terminal(laws, tmp_path, capsys):
    odd = tmp_path / "a\x1b[2Jb.json"
    odd.write_text("{")
    assert main(["report", str(odd)]) == 2
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "a\\x1b[2Jb.json" in printed.err
    assert printable("\x9b31m\u202e") == r"\x9b31m\u202e"


def test_a_page_escapes_everything_from_data(tmp_path):
    attack = '<script>alert("&")</script>'
    section = Section(attack)
    part = Part(attack, attack, "stem", section, [attack], [attack], [attack])
    text = write_page(attack, [part], tmp_path, [attack]).read_text()
    assert attack not in text
    assert text.count("&lt;script&gt;") >= 8


def test_a_second_run_into_the_same_directory_is_refused_at_once(tmp_path):
    experiment = EXPERIMENTS["laws"]
    with (
        locked(tmp_path / ".laws.lock", "it"),
        pytest.raises(OSError, match=r"another process.*is writing laws\.json in .*another place"),
    ):
        run(experiment, experiment.presets["laptop"], tmp_path)
    assert not (tmp_path / "laws.json").exists()


@pytest.mark.slow
def test_results_of_a_locked_run_are_all_there(tmp_path):
    """Two processes with other runs at the same time: each record is kept, or its run refused."""
    code = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from ntkgp.experiments.experiment import Experiment, run
from ntkgp.report.section import Section

@dataclass(frozen=True)
class Config:
    methods: tuple = ("a",)

def record(config, mark, given):
    time.sleep(0.2)
    return {"value": 1}

experiment = Experiment("slow", "Slow", {"laptop": Config()},
    lambda c, d: [{"method": m} for m in c.methods], record, lambda r: Section(""), may_grow=("methods",))
try:
    run(experiment, Config(tuple(sys.argv[2])), Path(sys.argv[1]), say=lambda _: None)
except OSError as error:
    sys.exit(str(error))
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), methods], stderr=subprocess.PIPE
        )
        for methods in ("abc", "def")
    ]
    wanted = set()
    for methods, process in zip(("abc", "def"), processes, strict=True):
        error = process.communicate()[1].decode()
        if process.returncode == 0:
            wanted |= set(methods)
        else:
            assert "another process" in error
    kept = {run["method"] for run in json.loads((tmp_path / "slow.json").read_text())["runs"]}
    assert wanted
    assert kept == wanted
