"""A small table of every kind of column."""

import numpy as np
import pyarrow as pa

QUICK = ["--law", "ntkgp", "--set", "optimizer=null", "--set", "activation=relu", "--quiet"]
"""A model that learns no prior."""


def rents(n=60, seed=0):
    """Numbers with gaps, true and false, words with gaps, dates, row numbers, a constant, and a target."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 90, n)
    town = rng.choice(["Oslo", "Rome", "Bonn"], n, p=[0.5, 0.4, 0.1])
    lift = rng.random(n) < 0.5
    days = rng.integers(0, 1000, n)
    rent = 10 * size + 200 * (town == "Oslo") + 50 * lift + 10 * rng.standard_normal(n)
    return pa.table(
        {
            "id": np.arange(n),
            "size": pa.array(np.where(np.arange(n) % 9 == 3, np.nan, size), from_pandas=True),
            "town": pa.array([None if i % 10 == 5 else t for i, t in enumerate(town)]),
            "lift": lift,
            "listed": np.datetime64("2020-01-01T12:30:00") + days.astype("timedelta64[D]"),
            "country": ["here"] * n,
            "rent": rent,
            "dear": np.where(rent > np.median(rent), "dear", "cheap"),
        }
    )
