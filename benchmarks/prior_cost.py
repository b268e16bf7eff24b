"""What learning the prior costs, beside training ten members with it, on tables of growing length.

Seconds of `EnsembleRegressor().fit` in its parts, the second time on tables of each length, with what
JAX compiled in the first. *Prior* is all that comes before members: the search for the scales, the
checks by rows left out, and how sure the data are of the scales. *Members* are pilots and members.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ntkgp
from common import Records, run_and_write, seconds_of
from small_data import table


@dataclass(frozen=True)
class Sizes:
    rows: tuple[int, ...] = (300, 1_000, 2_000, 10_000)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the estimator has other than by default."""


TINY = Sizes((30,), {"members": 1, "width": 4, "depth": 1, "activation": "erf", "min_steps": 5})


class Timed(ntkgp.EnsembleRegressor):
    """Knows how long its last fit trained members."""

    def _train(self, *given: Any, **options: Any) -> Any:
        started = time.perf_counter()
        trained = super()._train(*given, **options)
        self.training_seconds_ += time.perf_counter() - started
        return trained

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Timed":
        self.training_seconds_ = 0.0
        return super().fit(X, y, sample_weight)


def run(sizes: Sizes) -> Records:
    rows: Records = []
    for n in sizes.rows:
        x, y = table(n)
        model = Timed(random_state=0, **sizes.settings)
        fit = partial(model.fit, x, y)
        fit()
        whole = seconds_of(fit)
        members = model.training_seconds_
        rows.append(
            {
                "rows": n,
                "seconds": whole,
                "prior": whole - members,
                "members": members,
                "prior / members": (whole - members) / members,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    run_and_write("prior_cost", __doc__, run, Sizes(), TINY, arguments)


if __name__ == "__main__":
    main()
