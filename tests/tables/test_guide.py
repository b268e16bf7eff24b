"""The commands of the guide run, in order, on a small table."""

import re
import shlex
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from ntkgp.cli import main
from ntkgp.predictive import metrics

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "file.md"
NUMBERS = ["--set", "optimizer=null", "--set", "activation=relu", "--quiet"]
CLASSES = ["--set", "noise_std=0.1", "--quiet"]
"""No prior is learned."""


def tiny(command):
    if command[0] == "fit":
        return ["--law", "nngp", *(CLASSES if "garden" in command else NUMBERS)]
    return NUMBERS if command[0] == "compare" else []


def houses(n, seed):
    rng = np.random.default_rng(seed)
    size, garden = rng.uniform(20, 90, n), rng.random(n) < 0.5
    return pa.table(
        {
            "address": [f"{i} High Street" for i in range(n)],
            "size": size,
            "sold": np.datetime64("2020-01-01") + rng.integers(0, 400, n).astype("timedelta64[D]"),
            "garden": garden,
            "price": 3 * size + 40 * garden + rng.standard_normal(n),
        }
    )


def test_the_commands_of_the_guide_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("houses.csv", "new.csv", "sold.csv")):
        arrow_csv.write_csv(houses(40, seed), name)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]
    assert {command[0] for command in commands} == {
        "fit", "predict", "inspect", "evaluate", "compare",
    }  # fmt: skip
    for command in commands:
        assert main([*command, *tiny(command)]) == 0, command
    made = {path.name for path in tmp_path.iterdir()}
    assert {"houses-model", "predicted.csv", "by-time", "garden-model", "evaluation.html"} <= made
    assert "choose ntkgp fit" in capsys.readouterr().out


def test_the_guide_names_the_levels_of_ece_and_the_exit_codes():
    first, second, *_, last = (f"{100 * level:g} %" for level in metrics.CENTRAL_LEVELS)
    text = " ".join(PAGE.read_text().split())
    assert f"over the levels {first}, {second}, …, {last}," in text
    hangup, end = (128 + number for number in (signal.SIGHUP, signal.SIGTERM))
    assert f"{hangup} and {end} are those by SIGHUP and SIGTERM" in text
