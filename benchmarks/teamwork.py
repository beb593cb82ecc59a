"""Teamwork rollouts on the simulated path: rollouts per CPU-second, calls of a rollout, bytes of disk.

Simulated models play every task of our bank that runs no code (the sandbox has its own benchmark), alone, in a calm
team and three times in the test, with simulated partners and judges. What was gated out was not played and does not
count. No peer: no other tool plays these. What there is to compare is a call: a teamwork rollout makes some dozens, so
calls per CPU-second stand beside those of `collect.py`'s dialogues.

    python benchmarks/teamwork.py [--json] [--models 4]

CPU seconds of a process of its own, imports left out, journal and Parquet included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lines import line, show

#: Promised: rollouts per CPU-second.
LEAST = 60.0
MODELS = ("F1", "C3", "O2", "O7", "F4", "C6", "F2", "O5")
JUDGES = {"referee": "sim/team-judge-a", "second": "sim/team-judge-b", "third": "sim/team-judge-c"}


def measure(models: int) -> dict[str, float]:
    """Play the study into a temporary folder; rollouts played, calls, CPU seconds, bytes, peak MB."""
    import resource

    import yaml

    from cilab import open as open_study
    from cilab.running.play import run_study
    from cilab.teamwork import bank

    tasks = [t.id for t in bank.find(["*"]) if not t.file.executes_code]
    block = {
        "benchmark": "teamwork",
        "models": [f"sim/team-{name}" for name in MODELS[:models]],
        "tasks": tasks,
        "judges": JUDGES,
        "partners": ["sim/team-partner"],
    }
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "study.yaml", Path(folder) / "out"
        path.write_text(yaml.safe_dump({"name": "teamwork_bench", "blocks": [block]}))
        began = time.process_time()
        summary = run_study(path, out=out, show_progress=False)
        cpu = time.process_time() - began
        study = open_study(out)
        played = study.runs.filter(status="ok").collect()
        calls = study.calls.select("run_id").collect().height
        size = sum(p.stat().st_size for p in (out / "tables").rglob("*.parquet"))
    assert summary.exit_code == 0, summary.errors
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "tasks": len(tasks),
        "played": played.height,
        "calls": calls,
        "cpu_s": cpu,
        "bytes": size / played.height,
        "peak_mb": peak,
    }


def main() -> int:
    """Measure and print; exit code 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--models", type=int, default=4, choices=range(1, len(MODELS) + 1))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.models)))
        return 0
    command = [sys.executable, __file__, "--measure", "--models", str(given.models)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    what = f"{found['played']} rollouts of {found['tasks']} tasks, {found['calls'] / found['played']:.1f} calls each"
    lines = [
        line("rollouts per CPU-second", found["played"] / found["cpu_s"], "1/s", least=LEAST, of="ours", note=what),
        line("calls per CPU-second", found["calls"] / found["cpu_s"], "1/s"),
        line("Parquet per rollout", found["bytes"], "bytes"),
        line("peak memory", found["peak_mb"], "MB"),
    ]
    return show(lines, given.json)


if __name__ == "__main__":
    sys.exit(main())
