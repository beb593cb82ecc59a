"""Lite subsets: time of the paper's check with every method, and error on rows that were not used to choose.

For simulated releases of several seeds, and for the 25 submissions of SWE-bench's bash-only leaderboard where they are
(not shipped: their licence is non-commercial), tasks are chosen on the rows of half of the models and the other half
is scored, 40 times. The error is that of the overall score in points; it is held against random subsets of the same
run. `greedy` is the paper's method, `item_response` the default here.

    python benchmarks/lite.py [--json] [--seeds 5] [--splits 40] [--shared ../shared]

Targets: all methods on one release in 60 seconds of CPU; the default's error at least 25 % below random's over the
releases together, and at least 15 % on the submissions. One release alone may lie on either side: 24 rows are few.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

from lines import line, show  # noqa: E402

OURS = "item_response"
LONGEST_S = 60.0
LEAST_REDUCTION_PCT = {"simulated releases": 25.0, "swebench_bash_only": 15.0}
#: Tasks chosen of the 500 of SWE-bench, in their one dimension: as many as the paper's 40.
SUBMISSION_TASKS = 40


def check(name: str, data: Any, **settings: Any) -> list[dict[str, Any]]:
    """One line per method: `data, method, error_points, reduction_pct, tau, seconds` (CPU, of all methods)."""
    from cilab.stats.teamwork.lite import lite

    began = time.process_time()
    table = lite(data, **settings).table
    seconds = time.process_time() - began
    columns = ("method", "error_points", "reduction_pct", "tau")
    return [{"data": name, **row, "seconds": seconds} for row in table.select(columns).iter_rows(named=True)]


def releases(seeds: int, splits: int) -> list[dict[str, Any]]:
    """All methods on simulated releases."""
    from cilab import datasets

    lines: list[dict[str, Any]] = []
    for seed in range(seeds):
        lines += check(f"simulated release {seed}", datasets.simulated_release(seed), method="all", splits=splits)
    return lines


def submissions(shared: Path, splits: int) -> list[dict[str, Any]]:
    """All methods but exhaustive (40 of 500 has too many subsets) on real submissions; nothing where they are not."""
    from cilab import datasets

    folder = shared / "data" / "swebench_bash_only"
    if not folder.is_dir():
        return []
    data = datasets.import_table(folder, "swebench_bash_only").dataset
    methods = ["greedy", "ridge", OURS]
    settings = {"method": methods, "splits": splits, "version": "alone", "gate": "off"}
    return check("swebench_bash_only", data, per_dimension=SUBMISSION_TASKS, **settings)


def together(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Means over the data sets, one line per method; the reduction is that of the mean errors."""
    methods = list(dict.fromkeys(x["method"] for x in lines))
    out = []
    for method in methods:
        own = [x for x in lines if x["method"] == method]
        mean = {c: sum(line[c] for line in own) / len(own) for c in ("error_points", "tau", "seconds")}
        out.append({"data": name, "method": method, **mean})
    random = next(x["error_points"] for x in out if x["method"] == "random")
    return [{**x, "reduction_pct": 100 * (1 - x["error_points"] / random)} for x in out]


def judged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines with targets: the default's error against random's, and the longest time."""
    out = []
    for name, least in LEAST_REDUCTION_PCT.items():
        of = {x["method"]: x for x in lines if x["data"] == name}
        if not of:
            out.append(line(f"below random, {name}", None, "%", least=least, of="ours", note="the data are not here"))
            continue
        mine, random = of[OURS], of["random"]["error_points"]
        note = f"error {mine['error_points']:.2f} points, random {random:.2f}"
        out.append(line(f"below random, {name}", mine["reduction_pct"], "%", least=least, of="ours", note=note))
    longest = max(x["seconds"] for x in lines)
    return [*out, line("all methods on one data set", longest, "s of CPU", most=LONGEST_S, of="ours")]


def main() -> int:
    """Measure and print; exit code 1 where a target is missed."""
    here = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON line per promise")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("CILAB_SHARED", here.parent / "shared")))
    given = parser.parse_args()
    lines = releases(given.seeds, given.splits)
    lines += together(lines, "simulated releases")
    real = submissions(given.shared, given.splits)
    lines += real
    if not given.json:
        print(f"{'data':<22}{'method':<16}{'error':>7}{'below random':>14}{'tau':>7}{'CPU s':>8}")
        for x in lines:
            print(
                f"{x['data']:<22}{x['method']:<16}{x['error_points']:>7.2f}{x['reduction_pct']:>12.1f} %"
                f"{x['tau']:>7.3f}{x['seconds']:>8.1f}"
            )
        print("error: points of the overall score, on rows not used to choose; CPU s: all methods of the line's data")
    return show(judged(lines), given.json)


if __name__ == "__main__":
    sys.exit(main())
