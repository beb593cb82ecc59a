"""How time grows when rows, tasks or messages are ten times as many, and how far from a physical limit it is.

- The bootstrap of a leaderboard (24 rows x 240 tasks, 4,000 resamples): its floor is drawing the task numbers and one
  matrix product.
- The fill-in by `laplace`, with cross-validation and all checks, on a fifth of the simulated release, so that ten times
  as many tasks are twice the release.
- The question of `query.py`: its floor is reading the files once.

    python benchmarks/growth.py [--json] [--messages 200000]

CPU seconds of one thread, the least of a few, but for the query: seconds by the clock in a process of its own. The
column `ratio` is large over small; linear growth is 10. Targets allow twice that where the work is linear.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402
import query  # noqa: E402
from lines import line, show  # noqa: E402

#: Work that is linear in rows, tasks or messages may take at most so many times as long on ten times as much.
MOST = 20.0
RESAMPLES, DIMENSIONS = 4000, 8


def seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    """Least CPU seconds of a few."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def bootstrap_times(rows: int, tasks: int) -> tuple[float, float]:
    """CPU seconds of the bootstrap, and of its floor."""
    from cilab.stats.methods import bootstrap

    rng = np.random.default_rng(1)
    values, used = rng.integers(0, 4, (rows, tasks)) / 3, rng.random((rows, tasks)) < 0.9
    each = tasks // DIMENSIONS
    slices = [slice(i, i + each) for i in range(0, tasks, each)]
    counts, matrix = rng.random((RESAMPLES, tasks)), rng.random((tasks, rows))

    def ours() -> None:
        drawn = bootstrap.resample_scores(values, used, slices, resamples=RESAMPLES, rng=np.random.default_rng(0))
        bootstrap.percentile_interval(drawn.overall)

    def floor() -> None:
        rng.integers(0, each, (RESAMPLES, tasks), dtype=np.uint16)
        counts @ matrix

    return seconds(ours), seconds(floor)


def bootstrap_lines() -> list[dict[str, Any]]:
    """Rows and tasks times ten."""
    small, small_floor = bootstrap_times(24, 240)
    out = []
    for name, rows, tasks in (("rows", 240, 240), ("tasks", 24, 2400)):
        large, floor = bootstrap_times(rows, tasks)
        note = f"{rows} rows x {tasks} tasks; {large / floor:.1f} times its floor (small: {small / small_floor:.1f})"
        out.append(line(f"bootstrap, {name} x 10", large, "s of CPU", peer=small, most=MOST, note=note))
    return out


def of_rows(runs: pl.DataFrame, times: int) -> pl.DataFrame:
    """The runs of so many times as many models: the same results under new names."""
    return pl.concat([runs.with_columns(pl.format("{}-{}", "model", pl.lit(i)).alias("model")) for i in range(times)])


def fill_in_lines() -> list[dict[str, Any]]:
    """Rows and tasks times ten, against a fifth of the release."""
    from cilab import datasets
    from cilab.stats.teamwork.fill_in import fill_in

    columns = ["model", "effort", "arm", "task_id", "dimension", "version", "seed", "status", "score"]
    few = datasets.simulated_release(0, 0.2).runs.select(columns).collect()
    many_tasks = datasets.simulated_release(0, 2.0).runs.select(columns).collect()
    small = seconds(lambda: fill_in(few), 2)
    out = []
    for name, runs in (("tasks", many_tasks), ("rows", of_rows(few, 10))):
        large = seconds(lambda runs=runs: fill_in(runs), 1)
        size = f"{runs['model'].n_unique()} models x {runs['task_id'].n_unique()} tasks"
        pairs = "; pairs of the check: 182 and at most 1,000, each a fit" if name == "rows" else ""
        out.append(line(f"fill-in, {name} x 10", large, "s of CPU", peer=small, note=size + pairs))
    return out


def query_lines(messages: int, folder: Path) -> list[dict[str, Any]]:
    """Messages times ten."""
    took, read = {}, 0.0
    for n in (messages, 10 * messages):
        study = folder / str(n)
        query.generate(study, n, 512)
        took[n] = query.in_turns(["ours"], study, 3)["ours"]["seconds"]
        read = file_read(study)
    large = took[10 * messages]
    note = f"{10 * messages:,} messages in parts of 512 rollouts; {large / read:.1f} times reading the files once"
    return [line("query, messages x 10", large, "s", peer=took[messages], most=MOST, note=note)]


def file_read(folder: Path) -> float:
    """Seconds to read every byte of the two tables once, from the operating system's cache."""
    least = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for path in (folder / "tables").rglob("*.parquet"):
            path.read_bytes()
        least = min(least, time.perf_counter() - began)
    return least


def main() -> int:
    """Measure and print; exit code 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--messages", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = [*bootstrap_lines(), *fill_in_lines(), *query_lines(given.messages, Path(folder))]
    return show(lines, given.json)


if __name__ == "__main__":
    sys.exit(main())
