"""The script of faults, at a size that shows that it runs: one kill of each kind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "faults" / "kills.py"


@pytest.mark.slow
def test_what_was_killed_goes_on_to_the_same_end(tmp_path):
    command = [sys.executable, str(SCRIPT), "--tiny", "--out", str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path)
    rows = json.loads((tmp_path / "kills.json").read_text())["rows"]
    assert {row["fault"] for row in rows} == {"kill -9 in training", "kill -9 in a factorisation"}
    assert all(row["identical"] == row["times"] == 1 for row in rows)
