"""Memory that training will take: the forecast beside what a process takes."""

import json
import subprocess
import sys

import pytest

import ntkgp

CODE = """
import json, sys
import numpy as np, optax, ntkgp
from pathlib import Path
from ntkgp.ensembles import forecast

options = json.loads(sys.argv[1])
inputs = options["inputs"]
net = ntkgp.mlp(inputs, width=options["width"])
x = np.random.default_rng(0).normal(size=(options["rows"], inputs)).astype(np.float32)
trainer = ntkgp.Descent(optax.adam(1e-3), epochs=2, batch_size=options["batch"])
told, real = [], forecast.require
forecast.require = lambda needed, *words: (told.append(needed), real(needed, *words))
def now(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(dict(line.split(":") for line in lines)[what].split()[0])
def fit(net, x, members, **others):
    ntkgp.fit(net, x, x[:, 0], members=members, trainer=trainer, **others)
fit(ntkgp.mlp(inputs, width=4), x[:32], 1)  # JAX itself, and what it compiles
Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here
before = now("VmRSS")
fit(net, x, options["members"], members_at_once=options["at_once"])
print(json.dumps([told[-1], now("VmHWM") - before]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")
@pytest.mark.parametrize(
    ("inputs", "width", "rows", "members", "at_once"),
    [
        (50, 900, 64, 12, None),
        pytest.param(50, 900, 64, 12, 3, marks=pytest.mark.slow),
        pytest.param(1, 2, 2**21, 12, None, marks=pytest.mark.slow, id="δ and ε of many rows"),
    ],
)
def test_the_forecast_is_what_training_takes(inputs, width, rows, members, at_once):
    options = {"inputs": inputs, "width": width, "rows": rows, "members": members}
    options |= {"at_once": at_once, "batch": min(rows // 4, 4096)}
    command = [sys.executable, "-c", CODE, json.dumps(options)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    forecast, measured = json.loads(run.stdout)
    assert forecast > 2e8  # or JAX's own memory would count
    assert 0.8 * forecast < measured < 2.5 * forecast, f"{forecast:.3g} and {measured:.3g} bytes"


def test_members_that_memory_cannot_hold_are_refused():
    x = [[0.0], [1.0]]
    with pytest.raises(
        ntkgp.NotEnoughMemory, match=r"training 10 members, 10 at once.*members_at_once"
    ):
        ntkgp.fit(ntkgp.mlp(1, width=50_000), x, [0.0, 1.0], members=10)
