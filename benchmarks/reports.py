"""`cilab report all` on the simulated release, and each report alone: CPU seconds, and by the clock.

    python benchmarks/reports.py [--json] [--workers 2]

Two promises, both held against CPU seconds, children included, so that a busy machine does not decide them: all reports
in four minutes on two cores (half of the CPU seconds of the whole), and one report in twelve seconds. `reproduce` is
every figure and table of both papers at once, so it is not one report; its time is shown.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lines import line, show

from cilab.reports import list_reports

#: Seconds on two cores for all, and for one.
MOST, MOST_OF_ONE = 240.0, 12.0
EVERYTHING = "reproduce"


def children() -> float:
    """Processor time of the children that ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(names: str, *more: str) -> tuple[float, float, int]:
    """Seconds by the clock, CPU seconds and pages of `cilab report NAMES`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cilab", "report", names, *more]
        command += ["--out", str(Path(folder) / "reports"), "--figures", str(Path(folder) / "figures")]
        began, used = time.perf_counter(), children()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds, used = time.perf_counter() - began, children() - used
        rendered = len(list((Path(folder) / "reports").rglob("*.html")))
    if done.returncode:
        raise SystemExit(f"cilab report {names} ended with code {done.returncode}:\n{done.stderr[-1500:]}")
    return seconds, used, rendered


def main() -> int:
    """Measure and print; exit code 1 where the promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    seconds, used, rendered = report("all", "--workers", str(given.workers))
    note = f"{rendered} pages; {used:.0f} s of CPU in all"
    lines = [
        line("cilab report all, on two cores", used / 2, "s of CPU a core", most=MOST, of="ours", note=note),
        line("cilab report all, by the clock", seconds, "s", note=f"{given.workers} processes"),
    ]
    for name in list_reports():
        seconds, used, _ = report(name)
        most = {} if name == EVERYTHING else {"most": MOST_OF_ONE, "of": "ours"}
        lines.append(line(f"cilab report {name}", used, "s of CPU", **most, note=f"{seconds:.1f} s by the clock"))
    return show(lines, given.json)


if __name__ == "__main__":
    sys.exit(main())
