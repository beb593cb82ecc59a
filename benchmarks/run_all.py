"""Runs every benchmark and writes benchmarks/RESULTS.md: what was promised, what was measured, met or missed.

    python benchmarks/run_all.py [--only NAME ...] [--skip NAME ...] [--peer-python PYTHON] [--keep DIR]

Each script is a process of its own, with `--json`. Its lines are kept in benchmarks/results.json, so that `--only` runs
a few again and leaves the others' numbers and dates as they are. Exit code 1 when a target is missed or a script
fails; a peer that is not installed is said, and misses nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lines import verdict

HERE = Path(__file__).resolve().parent
RESULTS, DATA = HERE / "RESULTS.md", HERE / "results.json"

#: Script -> (what it shows, arguments).
SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "startup": ("Start of a process, beside `import pandas`", ()),
    "collect": ("Collecting on the simulated path, beside inspect_ai with its mock model", ()),
    "teamwork": ("Teamwork rollouts on the simulated path, without a sandbox", ()),
    "sandbox": ("Running code in the sandbox, beside bare pytest", ()),
    "long_run": (
        "A long study: memory, `status` and a query while it runs",
        ("--rollouts", "100000", "--every", "20000"),
    ),
    "cluster": ("What a call costs the driver of a study on a cluster, beside one process", ()),
    "parts": ("The ends of ten thousand parts, beside Polars and pyarrow", ()),
    "query": ("A question over ten million messages, beside DuckDB by hand and pandas", ()),
    "bootstrap": ("The bootstrap of a leaderboard, beside pandas and scipy", ()),
    "mediation": ("Mediation and odds ratios, beside refits with statsmodels and numpy", ()),
    "fill_in": ("The fill-in, beside a plain PyMC model with the default sampler", ()),
    "lite": ("Smaller subsets of the tasks, beside random ones", ()),
    "score_coverage": ("Do the intervals of overall scores cover what they should?", ()),
    "growth": ("How time grows: rows, tasks and messages times ten", ()),
    "reports": ("`cilab report all` on the simulated release", ()),
}
PACKAGES = ("numpy", "scipy", "polars", "pyarrow", "duckdb", "pandas", "statsmodels", "pymc", "nutpie", "inspect_ai")


def run(name: str, more: Sequence[str]) -> dict[str, Any]:
    """Run one script; its lines, or why there are none."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", *SCRIPTS[name][1], *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
    found: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(time.perf_counter() - began),
        "load_before": round(load, 1),
        "lines": lines,
    }
    if done.returncode not in (0, 1) or not lines:
        found["failed"] = f"ended with code {done.returncode}"
    return found


def machine() -> str:
    """Processor, cores and memory; nothing that names the machine."""
    model = next(
        (x.partition(":")[2].strip() for x in _read("/proc/cpuinfo").splitlines() if x.startswith("model name")),
        platform.machine(),
    )
    memory = next((int(x.split()[1]) for x in _read("/proc/meminfo").splitlines() if x.startswith("MemTotal")), 0)
    return f"{model}, {os.cpu_count()} cores, {memory / 2**20:.0f} GB of memory, {platform.system()}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def versions(peer_python: str) -> Iterator[str]:
    """Python and packages; a peer in another environment is marked."""
    yield f"Python {platform.python_version()}"
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            ask = f"from importlib.metadata import version; print(version({name!r}))"
            done = subprocess.run([peer_python, "-c", ask], capture_output=True, text=True)
            own = done.stdout.strip()
            yield f"{name} {own} (in an environment of its own)" if own else f"{name} is not installed"


def _number(x: float | None) -> str:
    if x is None:
        return "–"
    if x and abs(x) < 0.01:
        return f"{x:.1e}" if abs(x) < 1e-4 else f"{x:.4f}"
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def document(kept: dict[str, Any]) -> str:
    """RESULTS.md."""
    text = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Ours and the peer ran in the same run, one after the other or in turns. Where the",
        "unit says CPU, it is processor time, which a busy machine changes little; other times are by the clock.",
        "`load` is the number of processes that wanted a processor when a script began.",
        "",
        f"- Machine: {kept['machine']}",
        f"- Versions: {', '.join(kept['versions'])}",
        "",
    ]
    for name, (title, _) in SCRIPTS.items():
        found = kept["scripts"].get(name)
        text += [f"## {title}", ""]
        if found is None:
            text += [f"`benchmarks/{name}.py` was not run.", ""]
            continue
        text += [f"`benchmarks/{name}.py`, {found['date']}, {found['seconds']} s, load {found['load_before']}.", ""]
        if failed := found.get("failed"):
            text += [f"**It failed**: {failed}.", ""]
        text += ["| what | ours | peer | ratio | unit | target | | note |", "|---|--:|--:|--:|---|---|---|---|"]
        for x in found["lines"]:
            cells = [x["name"], *(_number(x[k]) for k in ("ours", "peer", "ratio")), x["unit"], x.get("target", "")]
            text.append("| " + " | ".join([*cells, verdict(x), x.get("note", "")]) + " |")
        text.append("")
    return "\n".join(text)


def missed(kept: dict[str, Any]) -> list[str]:
    """Targets that were missed, and scripts that failed."""
    out = []
    for name, found in kept["scripts"].items():
        out += [f"{name}: {found['failed']}"] if "failed" in found else []
        out += [f"{name}: {x['name']}" for x in found["lines"] if x.get("met") is False]
    return out


def main() -> int:
    """Run, write, and say what is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SCRIPTS), metavar="NAME")
    parser.add_argument("--skip", nargs="+", choices=list(SCRIPTS), default=[], metavar="NAME")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has inspect_ai")
    parser.add_argument("--keep", type=Path, help="folder where the ten million messages are kept from run to run")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(DATA.read_text()) if given.only and DATA.exists() else {"scripts": {}}
    more = {"collect": ["--peer-python", given.peer_python], "query": ["--keep", str(given.keep)] if given.keep else []}
    kept |= {"machine": machine(), "versions": list(versions(given.peer_python))}
    for name in given.only or SCRIPTS:
        if name in given.skip:
            continue
        print(f"{name} ...", flush=True)
        kept["scripts"][name] = run(name, more.get(name, []))
        DATA.write_text(json.dumps(kept, indent=1) + "\n")
        RESULTS.write_text(document(kept))
    for text in missed(kept):
        print(f"missed: {text}")
    return int(bool(missed(kept)))


if __name__ == "__main__":
    sys.exit(main())
