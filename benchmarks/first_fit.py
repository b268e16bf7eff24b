"""Seconds to a first result in a process that has just started, and with what another compiled.

Every measurement has a process of its own, and its programs go to a directory that is empty at
first (NTKGP_COMPILED). The next process of the same kind finds them there. Each task is done
again in the same process, which has compiled all it needs: that is the time of computing alone.

    python benchmarks/first_fit.py [--out runs/bench]
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from common import Records, in_new_process, options_of, parsed, seconds_of, write


@dataclass(frozen=True)
class Sizes:
    fits: tuple[int, ...] = (100, 87)
    """Rows of the fits that follow each other in one process."""
    folds: int = 3
    rows_of_folds: int = 300
    """Rows of all folds together."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the regressor has other than by default."""


TINY = Sizes(
    fits=(12, 11),
    rows_of_folds=30,
    settings={
        "members": 2,
        "width": 2,
        "depth": 1,
        "activation": "relu",
        "min_steps": 1,
        "min_epochs": 1,
        "batch_size": 4,
    },
)


def fits(sizes: Sizes) -> dict[str, Callable[[], Any]]:
    from ntkgp import EnsembleRegressor

    def fit(n: int) -> None:
        EnsembleRegressor(**sizes.settings).fit(*diabetes(n))

    return {f"fit of {n} rows": partial(fit, n) for n in sizes.fits}


def cross_validation(sizes: Sizes) -> dict[str, Callable[[], Any]]:
    from sklearn.model_selection import cross_val_score

    from ntkgp import EnsembleRegressor

    x, y = diabetes(sizes.rows_of_folds)
    model = EnsembleRegressor(**sizes.settings)
    name = f"{sizes.folds}-fold cross-validation of {sizes.rows_of_folds} rows"
    return {name: partial(cross_val_score, model, x, y, cv=sizes.folds)}


def diabetes(n: int) -> tuple[Any, Any]:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return x[:n], y[:n]


KINDS = {"fits": fits, "cross-validation": cross_validation}


def measure(kind: str, sizes: Sizes) -> Records:
    """The tasks of one kind, one after the other and then again."""
    imported = seconds_of(_import)
    tasks = KINDS[kind](sizes)
    first = {name: seconds_of(task) for name, task in tasks.items()}
    again = {name: seconds_of(task) for name, task in tasks.items()}
    return [
        {
            "task": name,
            "import": imported,
            "first": first[name],
            "again": again[name],
            "first / again": first[name] / again[name],
        }
        for name in tasks
    ]


def _import() -> None:
    from ntkgp import EnsembleRegressor  # noqa: F401


def measured_twice(kind: str, tiny: bool) -> Records:
    """By a process that has all to compile, and by one that finds it compiled."""
    rows = []
    with tempfile.TemporaryDirectory() as compiled:
        environment = os.environ | {"NTKGP_COMPILED": compiled}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # which would be used instead
        for cache in ("cold", "warm"):
            found = len(list(Path(compiled).glob("*-cache")))
            arguments = [*(["--tiny"] if tiny else []), "--one", kind]
            for row in in_new_process(__file__, arguments, environment):
                rows.append({"cache": cache, "programs found": found} | row)
                print(rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options_of(__doc__)
    parser.add_argument("--one", choices=KINDS, help="what one process measures, and no more")
    options = parsed(parser, arguments)
    sizes = TINY if options.tiny else Sizes()
    if options.one:
        print(json.dumps(measure(options.one, sizes)))
        return
    rows = [row for kind in KINDS for row in measured_twice(kind, options.tiny)]
    write("first_fit", rows, sizes, options.out)


if __name__ == "__main__":
    main()
