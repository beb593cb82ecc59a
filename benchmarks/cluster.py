"""What a call costs the driver of a study on a cluster, beside the same study in one process.

One study of simulated agents, pairs in mazes, is played twice: by `cilab.run_study` in this process, and over the line
from the worker processes of a Dask cluster, whose scheduler is a process of its own, too. CPU seconds are this
process's alone: with a cluster it is the driver, which plans, journals every answer and writes the parts.

    python benchmarks/cluster.py [--mazes 40] [--workers 2] [--threads 16] [--json]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lines import line, show

#: CPU milliseconds that a call may cost the driver: five hundred calls a second from one core.
MOST_MS = 2.0
STUDY = """
name: cluster
blocks:
  - {{benchmark: maze, versions: [pair], critic: false, models: [sim/strong, sim/medium], pairs: all,
     mazes: {{count: {mazes}}}}}
"""
_START_S = 60.0


@contextmanager
def cluster(workers: int, threads: int, logs: Path) -> Iterator[str]:
    """Address of a scheduler with workers, each a process of its own."""
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    started = []
    try:
        with open(logs / "scheduler.log", "w") as log:
            command = [*dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=logs))
        address = _address(logs / "scheduler.log")
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nworkers", str(workers)]
        command += ["--nthreads", str(threads), "--no-dashboard"]
        with open(logs / "workers.log", "w") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=logs))
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def _address(log: Path) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if found := re.search(r"tcp://127\.0\.0\.1:\d+", log.read_text()):
            return found.group()
        time.sleep(0.1)
    raise SystemExit(f"the scheduler did not start:\n{log.read_text()[-1500:]}")


def played(run: Callable[..., Any], *where: Any) -> dict[str, float]:
    """CPU seconds of this process, seconds by the clock and calls of one study."""
    cpu, clock = time.process_time(), time.perf_counter()
    summary = run(*where, show_progress=False)
    assert summary.exit_code == 0, summary.errors
    return {
        "cpu_s": time.process_time() - cpu,
        "clock_s": time.perf_counter() - clock,
        "calls": summary.progress.calls,
    }


def measure(mazes: int, workers: int, threads: int) -> tuple[dict[str, float], dict[str, float]]:
    """(over the line, in this process). A small study goes first on each side, so that imports do not count."""
    from distributed import Client

    from cilab.running.cluster import run_on_cluster
    from cilab.running.play import run_study

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        small, whole = home / "small.yaml", home / "whole.yaml"
        small.write_text(STUDY.format(mazes=1))
        whole.write_text(STUDY.format(mazes=mazes))
        with cluster(workers, threads, home) as address:
            with Client(address) as client:
                client.wait_for_workers(workers, timeout=_START_S)
            away = lambda path, **settings: run_on_cluster(path, address, **settings)  # noqa: E731
            played(partial(away, out=home / "small_away"), small)
            there = played(partial(away, out=home / "away"), whole)
        played(partial(run_study, out=home / "small_here"), small)
        here = played(partial(run_study, out=home / "here"), whole)
    assert there["calls"] == here["calls"]
    return there, here


def main() -> int:
    """Measure and print; exit code 1 where the promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mazes", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    there, here = measure(given.mazes, given.workers, given.threads)
    calls = there["calls"]
    ours, peer = (1000 * side["cpu_s"] / calls for side in (there, here))
    shape = f"{calls:,} calls; {given.workers} workers with {given.threads} threads; the peer is one process"
    lines = [
        line("the driver, a call", ours, "ms of CPU", peer=peer, most=MOST_MS, of="ours", note=shape),
        line(
            "calls a second", calls / there["clock_s"], "1/s", peer=calls / here["clock_s"], note="all on this machine"
        ),
    ]
    return show(lines, given.json)


if __name__ == "__main__":
    sys.exit(main())
