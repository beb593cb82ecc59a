"""A long study: memory of its process, and the time of `cilab status` and of a query while it runs, as it grows.

Simulated agents walk 4 x 4 mazes alone, one rollout after the other, everything journalled and in Parquet. The study
runs in a process of its own, under `cilab.run_study` as it stands. Whenever so many more rollouts are finished, its
memory and CPU seconds are read from the kernel, and a fresh process times `status` and a query on the folder: two
tables joined, every rollout counted.

    python benchmarks/long_run.py [--rollouts 100000] [--every 20000] [--out DIR] [--json]

A kilobyte of memory a rollout would be 100 MB at 100,000; what is kept of a planned rollout is its id. Targets: at most
0.5 kB of memory for each further rollout, and at the end `status` and the query in a second of CPU each at most.
Six minutes on an idle core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lines import line, show

MODELS = ("sim/strong", "sim/medium", "sim/weak", "sim/F1")
MOST_KB_A_ROLLOUT, MOST_SECONDS = 0.5, 1.0
QUESTION = """
    select r.model, count(distinct r.run_id) as runs, count(*) as messages, avg(m.tokens_out) as tokens
    from messages m join runs r using (run_id) group by all order by 1
"""
_POLL_S = 2.0


def study_text(rollouts: int) -> str:
    """A study of so many rollouts: mazes of 4 x 4 cells, each walked once by each model."""
    count = -(-rollouts // len(MODELS))
    return (
        "name: long_run\nblocks:\n"
        f"  - {{benchmark: maze, versions: [solo_full], critic: false, models: [{', '.join(MODELS)}],\n"
        f"     mazes: {{size: 4, density: 0.2, path: null, count: {count}}}}}\n"
    )


def play(study: Path, out: Path, rollouts: int) -> int:
    """Play the study in this process."""
    from cilab.running.play import run_study

    return run_study(study, out=out, limit=rollouts, show_progress=False).exit_code


def look(folder: Path) -> dict[str, Any]:
    """Seconds (clock and CPU) of `status` and of the query in this process, which looked at nothing before."""
    import duckdb

    import cilab
    from cilab import store
    from cilab.core import registry
    from cilab.running.status import status

    assert all((duckdb, registry, store))  # imported before the clock starts
    found: dict[str, Any] = {}
    for name, ask in (("status", lambda: status(folder)), ("query", lambda: cilab.open(folder).sql(QUESTION))):
        began, cpu = time.perf_counter(), time.process_time()
        answer = ask()
        found[f"{name}_s"], found[f"{name}_cpu_s"] = time.perf_counter() - began, time.process_time() - cpu
        found[name] = answer["finished"] if name == "status" else int(answer["runs"].sum())
    return found


def process(pid: int) -> dict[str, float] | None:
    """Peak and present memory (MB) and CPU seconds of a process; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    memory = {x.split(":")[0]: x.split()[1] for x in status.splitlines() if x.startswith("Vm")}
    if "VmHWM" not in memory:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "peak_mb": int(memory["VmHWM"]) / 1024,
        "now_mb": int(memory["VmRSS"]) / 1024,
        "cpu_s": (int(stat[11]) + int(stat[12])) / ticks,
    }


def watch(rollouts: int, every: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Start the study and give a line each time that `every` more rollouts are finished, and at the end."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    study = folder.parent / f"{folder.name}.yaml"
    study.write_text(study_text(rollouts))
    command = [sys.executable, __file__, "--play", str(study), "--out", str(folder), "--rollouts", str(rollouts)]
    with subprocess.Popen(command) as player:
        due, last = every, None
        while player.poll() is None:
            time.sleep(_POLL_S)
            seen = process(player.pid)
            last = seen or last
            if seen is None or not (folder / "journal.sqlite").exists():
                continue
            if _written(folder) >= due:
                found = _looked(folder) | seen
                due = (found["status"] // every + 1) * every
                yield _seen(found, folder)
        if player.returncode:
            raise SystemExit(f"the study ended with code {player.returncode}")
    assert last is not None
    yield _seen(_looked(folder) | last, folder)


def _written(folder: Path) -> int:
    """Rollouts in committed parts, from the number of parts: a cheap look at how far the study is."""
    from cilab.collect import engine

    return engine._PART_ROLLOUTS * len(list((folder / "tables" / "runs").glob("part-*.parquet")))


def _looked(folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--look", "--out", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"looking at {folder} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _seen(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    parts = sorted((folder / "tables").rglob("part-*.parquet"))
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    return {"rollouts": found["status"], "parts": len(parts), "disk_mb": size / 1e6} | found


def judged(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is promised: flat memory, quick looks. The peer is the study when it was first looked at."""
    first, last = seen[0], seen[-1]
    kb = kb_a_rollout(first, last)
    at = f"at {last['rollouts']} rollouts, {last['parts']} parts; peer at {first['rollouts']}"

    def grown(name: str, key: str) -> dict[str, Any]:
        return line(name, last[key], "s of CPU", peer=first[key], most=MOST_SECONDS, of="ours", note=at)

    return [
        line("memory of a further rollout", kb, "kB", most=MOST_KB_A_ROLLOUT, of="ours", note=at),
        line("peak memory", last["peak_mb"], "MB", peer=first["peak_mb"]),
        line("disk of a rollout", last["disk_mb"] * 1e6 / last["rollouts"], "bytes"),
        line("a rollout", 1000 * last["cpu_s"] / last["rollouts"], "ms of CPU"),
        grown("status", "status_cpu_s"),
        grown("query", "query_cpu_s"),
    ]


def kb_a_rollout(first: dict[str, Any], last: dict[str, Any]) -> float:
    """Growth of the peak for each further rollout, kB."""
    return (last["peak_mb"] - first["peak_mb"]) * 1024 / max(1, last["rollouts"] - first["rollouts"])


def main() -> int:
    """Run and print; exit code 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=20_000, help="rollouts between two looks")
    parser.add_argument("--out", type=Path, help="folder of the study, which is kept; default a temporary one")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        return play(given.play, given.out, given.rollouts)
    if given.look:
        print(json.dumps(look(given.out)))
        return 0
    seen = []
    head = f"{'rollouts':>9}{'parts':>7}{'disk MB':>9}{'peak MB':>9}{'CPU s':>8}{'status':>9}{'query':>9}  (s of CPU)"
    print(head, file=sys.stderr if given.json else sys.stdout)
    with tempfile.TemporaryDirectory() as temporary:
        for x in watch(given.rollouts, given.every, given.out or Path(temporary) / "long_run"):
            seen.append(x)
            text = (
                f"{x['rollouts']:>9}{x['parts']:>7}{x['disk_mb']:>9.1f}{x['peak_mb']:>9.0f}{x['cpu_s']:>8.0f}"
                f"{x['status_cpu_s']:>9.3f}{x['query_cpu_s']:>9.3f}"
            )
            print(text, file=sys.stderr if given.json else sys.stdout, flush=True)
    return show(judged(seen), given.json)


if __name__ == "__main__":
    sys.exit(main())
