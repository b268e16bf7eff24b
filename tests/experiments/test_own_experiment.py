"""An experiment of one's own, defined here and nowhere else: run, resumed and reported to a page."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ntkgp.cli import main
from ntkgp.experiments import results
from ntkgp.experiments.catalogue import EXPERIMENTS
from ntkgp.experiments.experiment import Experiment, report, run
from ntkgp.report.claims import Claim, above
from ntkgp.report.figures import subplots
from ntkgp.report.intervals import MEANING, interval
from ntkgp.report.page import write_page
from ntkgp.report.section import Drawing, Section
from ntkgp.report.tables import table


@dataclass(frozen=True)
class CoinsConfig:
    sides: int = 6
    repeats: int = 3


def record(config, mark, given):
    """A number that depends on the configuration, the mark, the data and the axis."""
    thrown = given.data[mark["repeat"]] % config.sides
    return {"curve": [thrown + level for level in given.results["levels"]]}


def report_coins(contents):
    means = interval([run["curve"][0] for run in contents["runs"]])
    figure, axes = subplots(1, 1, (3, 2))
    for run_ in contents["runs"]:
        axes[0, 0].plot(contents["levels"], run_["curve"])
    return Section(
        f"{table([{'what': 'coins', 'mean': means.shown(1)}])}\n{MEANING}",
        [Drawing(figure, "Curves of coins.")],
        [Claim("nowhere", "coins are above 0", means.shown(1), above(means))],
    )


COINS = Experiment(
    "coins",
    "Coins & dice",
    {"laptop": CoinsConfig()},
    marks=lambda config, data: [{"repeat": repeat} for repeat in range(config.repeats)],
    record=record,
    report=report_coins,
    contents={"levels": lambda config: [0, 10 * config.sides]},
    may_grow=("repeats",),
    load=lambda config: [4, 5, 4, 3],
    readings=("Coins are read as dice.",),
)


def quiet(text):
    pass


def test_it_runs_and_is_reported_to_a_page(tmp_path):
    said = []
    path = run(COINS, CoinsConfig(), tmp_path, say=said.append)
    contents = results.load(path)
    assert [run_["curve"] for run_ in contents["runs"]] == [[4, 64], [5, 65], [4, 64]]
    assert [line.partition(":")[0] for line in said] == [f"{n + 1}/3  repeat {n}" for n in range(3)]
    page = write_page("Own", [report(COINS, path)], tmp_path).read_text()
    for words in ("Coins &amp; dice", "Coins are read as dice.", "coins are above 0", "holds"):
        assert words in page
    assert "preset of the paper" not in page  # it has none
    assert (tmp_path / "coins.svg").exists()


def test_it_is_resumed_by_the_axes_of_its_file(tmp_path):
    """What is there is kept; new runs have the file's axis, not that of a newer version."""
    path = run(COINS, CoinsConfig(repeats=1), tmp_path, say=quiet)
    kept = results.load(path)["runs"]
    newer = replace(COINS, contents={"levels": lambda config: [7]})
    said = []
    run(newer, CoinsConfig(repeats=2), tmp_path, say=said.append)
    contents = results.load(path)
    assert contents["runs"][:1] == kept
    assert contents["runs"][1]["curve"] == [5, 65]
    assert len(said) == 1


def test_a_file_without_the_axis_is_neither_resumed_nor_reported(tmp_path):
    path = run(COINS, CoinsConfig(), tmp_path, say=quiet)
    newer = replace(COINS, contents=COINS.contents | {"colours": lambda config: []})
    with pytest.raises(ValueError, match=r"coins\.json lacks colours"):
        run(newer, CoinsConfig(), tmp_path, say=quiet)
    with pytest.raises(ValueError, match=r"coins\.json lacks colours"):
        report(newer, path)


def test_another_configuration_is_refused(tmp_path):
    run(COINS, CoinsConfig(), tmp_path, say=quiet)
    with pytest.raises(ValueError, match="another configuration"):
        run(COINS, CoinsConfig(sides=2), tmp_path, say=quiet)


def test_a_run_that_is_left_out_is_tried_again(tmp_path):
    never = replace(COINS, record=lambda config, mark, given: None)
    path = run(never, CoinsConfig(), tmp_path, say=quiet)
    assert results.load(path)["runs"] == []
    run(COINS, CoinsConfig(), tmp_path, say=quiet)
    assert len(results.load(path)["runs"]) == 3


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    def interrupted(config, mark, given):
        if mark["repeat"] == 1:
            raise KeyboardInterrupt
        return record(config, mark, given)

    with pytest.raises(KeyboardInterrupt):
        run(replace(COINS, record=interrupted), CoinsConfig(), tmp_path, say=quiet)
    said = []
    run(COINS, CoinsConfig(), tmp_path, say=said.append)
    assert [line.partition(":")[0] for line in said] == ["2/3  repeat 1", "3/3  repeat 2"]


def test_in_the_table_it_is_a_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "coins", COINS)
    assert main(["reproduce", "coins", "--out", str(tmp_path), "--set", "sides=5"]) == 0
    printed = capsys.readouterr().out
    assert "== Coins & dice (coins.json)" in printed
    assert f"figure: {tmp_path / 'coins'}.png and .svg\n        Curves of coins." in printed
    assert main(["reproduce", "coins", "--preset", "paper"]) == 2
    assert "coins has the presets laptop; got 'paper'" in capsys.readouterr().err


def test_an_interrupted_run_goes_on_from_its_checkpoint(tmp_path):
    """The state of a run lies beside the results until the run is recorded."""
    seen = []

    def interrupted(config, mark, given):
        folder = Path(given.part("one").training["checkpoint"].directory)
        seen.append(folder.exists())
        folder.mkdir(parents=True, exist_ok=True)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return record(config, mark, given)

    coins = replace(COINS, record=interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(coins, CoinsConfig(), tmp_path, say=quiet)
    assert (tmp_path / "coins.checkpoints").exists()
    runs = results.load(run(coins, CoinsConfig(), tmp_path, say=quiet))["runs"]
    assert seen == [False, False, True, False]
    assert [entry.get("resumed") for entry in runs] == [None, True, None]
    assert not (tmp_path / "coins.checkpoints").exists()
