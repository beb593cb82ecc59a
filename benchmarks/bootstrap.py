"""The bootstrap of a leaderboard: 24 rows x 240 tasks in 8 dimensions, 4,000 resamples, intervals of 24 overall scores.

Ours is what `cilab.leaderboard` does after reading the runs: draws, replicates of every dimension and row, means over
dimensions, percentile intervals. The peers are what a user would pick instead.

- pandas: tasks sampled and grouped once per resample; timed on a few resamples and scaled to 4,000, as the table says.
- `scipy.stats.bootstrap` with a vectorised statistic: it has no gate, so every row solves every task in its comparison.
- The floor is what cannot be left out: drawing 960,000 small integers, one by one, and one matrix product.

    python benchmarks/bootstrap.py [--json] [--resamples 4000] [--pandas-resamples 20] [--rounds 9]

Times are CPU seconds of this process, one thread for everybody, the best of several rounds in turn.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from lines import line, show  # noqa: E402

ROWS, DIMENSIONS, PER_DIMENSION = 24, 8, 30
TASKS = DIMENSIONS * PER_DIMENSION
#: Promised: at least these ratios, and at most this one.
AT_LEAST = {"pandas groupby": 2000.0, "scipy.stats.bootstrap": 8.0}
AT_MOST = {"floor": 3.0}


def best(*calls: Callable[[], Any], rounds: int, at_a_time: int = 5) -> list[float]:
    """Least CPU seconds of each call; they take turns, a few times each, so that a disturbance hits not one only."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for kept, call in zip(times, calls, strict=True):
            for _ in range(at_a_time):
                began = time.process_time()
                call()
                kept.append(time.process_time() - began)
    return [min(kept) for kept in times]


def data(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Values in thirds and a gate that nine in ten tasks pass; shape (rows, tasks)."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (ROWS, TASKS)) / 3, rng.random((ROWS, TASKS)) < 0.9


def ours(values: np.ndarray, used: np.ndarray, resamples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of the overall scores, shape (rows,) each."""
    from cilab.stats.methods import bootstrap

    slices = [slice(i, i + PER_DIMENSION) for i in range(0, TASKS, PER_DIMENSION)]
    drawn = bootstrap.resample_scores(values, used, slices, resamples=resamples, rng=np.random.default_rng(seed))
    return bootstrap.percentile_interval(drawn.overall)


def scipy_peer(values: np.ndarray, resamples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same of fully gated rows: one sample per dimension, resampled apart, the same draws for every row."""
    from scipy import stats

    samples = tuple(values[:, i : i + PER_DIMENSION] for i in range(0, TASKS, PER_DIMENSION))

    def overall(*parts: np.ndarray, axis: int) -> np.ndarray:
        return sum(p.mean(axis=axis) for p in parts) / DIMENSIONS

    found = stats.bootstrap(
        samples,
        overall,
        n_resamples=resamples,
        axis=1,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return found.confidence_interval.low, found.confidence_interval.high


class PandasPeer:
    """A long frame of gated values; per resample: sample tasks by dimension, join, group, mean, mean."""

    def __init__(self, values: np.ndarray, used: np.ndarray) -> None:
        import pandas as pd

        row, task = np.nonzero(used)
        self.frame = pd.DataFrame({"row": row, "task": task, "dimension": task // PER_DIMENSION, "value": values[used]})
        self.tasks = pd.DataFrame({"task": np.arange(TASKS), "dimension": np.arange(TASKS) // PER_DIMENSION})

    def replicates(self, resamples: int, seed: int = 0) -> np.ndarray:
        """Shape (resamples, rows)."""
        rng, out = np.random.default_rng(seed), []
        for _ in range(resamples):
            drawn = self.tasks.groupby("dimension").sample(frac=1, replace=True, random_state=rng)
            joined = drawn[["task"]].merge(self.frame, on="task")
            means = joined.groupby(["row", "dimension"])["value"].mean()
            out.append(means.groupby(level="row").mean().to_numpy())
        return np.array(out)


def agree(values: np.ndarray, used: np.ndarray) -> None:
    """Ours and the peers give the same intervals, within the Monte Carlo error of both."""
    everything = np.ones_like(used)
    one, two = ours(values, everything, 4000), scipy_peer(values, 4000)
    assert all(np.abs(a - b).max() < 0.01 for a, b in zip(one, two, strict=True)), "scipy disagrees"
    drawn = PandasPeer(values, used).replicates(100)
    lo, hi = ours(values, used, 4000)
    assert np.abs(drawn.mean(axis=0) - (lo + hi) / 2).max() < 0.02, "pandas disagrees"


def measure(resamples: int, pandas_resamples: int, rounds: int) -> list[dict[str, Any]]:
    """One line per comparison: name, ours, peer (milliseconds of CPU), ratio, unit."""
    values, used = data()
    agree(values, used)
    everything, rng = np.ones_like(used), np.random.default_rng(0)
    counts, matrix = rng.random((resamples, TASKS)), rng.random((TASKS, ROWS))

    def floor() -> None:
        rng.integers(0, PER_DIMENSION, (resamples, TASKS), dtype=np.uint16)  # the fastest of its integers
        counts @ matrix

    gated, whole, low, scipy_time = best(
        lambda: ours(values, used, resamples),
        lambda: ours(values, everything, resamples),
        floor,
        lambda: scipy_peer(values, resamples),
        rounds=rounds,
    )
    pandas_peer = PandasPeer(values, used)
    (pandas_time,) = best(lambda: pandas_peer.replicates(pandas_resamples), rounds=3, at_a_time=1)
    pandas_time *= resamples / pandas_resamples
    lines = [
        ("pandas groupby", gated, pandas_time, f"scaled from {pandas_resamples} resamples"),
        ("scipy.stats.bootstrap", whole, scipy_time, "every task solved by every row"),
        ("floor", gated, low, "ours over the floor; one task in ten outside the gate"),
        ("floor, every task solved", whole, low, "ours over the floor"),
    ]
    return [
        line(
            name,
            1000 * mine,
            "ms of CPU",
            peer=1000 * peer,
            ratio=mine / peer if name.startswith("floor") else peer / mine,
            least=AT_LEAST.get(name),
            most=AT_MOST.get(name),
            note=note,
        )
        for name, mine, peer, note in lines
    ]


def main() -> int:
    """Measure and print; exit code 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON line per comparison")
    parser.add_argument("--resamples", type=int, default=4000)
    parser.add_argument("--pandas-resamples", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    return show(measure(given.resamples, given.pandas_resamples, given.rounds), given.json)


if __name__ == "__main__":
    sys.exit(main())
