"""Do the intervals of the mediation and of the odds ratios cover the truth, and what power do 53 pairs give?

Draws the annotated part of `simulated_mazes` (53 ordered pairs, 50 rollouts each) anew a thousand times, pairs' own
effects included, and estimates each draw as the reports do. Writes shares to a JSON file; five minutes of one core:

    python benchmarks/studies/mediation_coverage.py [--draws 1000] [--resamples 1000] [--workers 2] [--out FILE]

The stored results are tests/golden/mediation_coverage.json (the default of --out is there).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import polars as pl  # noqa: E402

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "mediation_coverage.json"
OUTCOMES = {"total": "disagreement", "factual": "factual", "nonfactual": "nonfactual"}
TIERS = ("starter_tier", "follower_tier")
PAIR_LEVEL = ("homogeneous", "same_family", *TIERS, "starter_family", "follower_family")
REFERENCE = dict.fromkeys(TIERS, "medium")
#: Draws that one worker gets at a time.
_BLOCK = 25


class Tally:
    """Counts of what happened to one quantity over the draws."""

    def __init__(self, truth: float) -> None:
        self.truth, self.n, self.sums = truth, 0, defaultdict(float)

    def add(self, estimate: float, lo: float | None, hi: float | None, p: float | None, se: float) -> None:
        """One draw; `lo`, `hi`, `p` None where the estimator gives no interval. All on one scale."""
        if lo is None or hi is None or p is None:
            self.sums["without_interval"] += 1
            return
        self.n += 1
        self.sums["covered"] += lo <= self.truth <= hi
        self.sums["below"] += hi < self.truth
        self.sums["above"] += lo > self.truth
        self.sums["covered_by_se"] += abs(estimate - self.truth) <= 1.959964 * se
        self.sums["p05"] += p < 0.05
        self.sums["p10"] += p < 0.10
        self.sums["error"] += estimate - self.truth

    def join(self, other: Tally) -> None:
        """Add what another one counted of the same quantity."""
        self.n += other.n
        for name, value in other.sums.items():
            self.sums[name] += value

    def line(self) -> dict[str, Any]:
        """Shares over the draws that have an interval."""

        def share(name: str) -> float:
            return round(self.sums[name] / self.n, 4)

        return {
            "truth": self.truth,
            "coverage": share("covered"),
            "interval_below_truth": share("below"),
            "interval_above_truth": share("above"),
            "coverage_of_hc1_normal_interval": share("covered_by_se"),
            "power_at_0.05": share("p05"),
            "power_at_0.10": share("p10"),
            "mean_error": round(self.sums["error"] / self.n, 5),
            "draws_with_interval": self.n,
            "draws_without_interval": int(self.sums["without_interval"]),
        }


class Counted:
    """What some draws gave: tallies by effect and by (kind, predictor), refusals by kind, CPU seconds."""

    def __init__(self) -> None:
        from cilab.datasets import simulated_mazes

        truth = simulated_mazes(scale=0.05).truth
        self.effects = {name: Tally(value) for name, value in truth["mediation"].select("effect", "value").iter_rows()}
        self.odds = _odds_tallies(truth["odds"])
        self.refused = dict.fromkeys(OUTCOMES, 0)
        self.seconds = 0.0

    def join(self, other: Counted) -> None:
        """Add what other draws gave."""
        for own, their in ((self.effects, other.effects), (self.odds, other.odds)):
            for name, tally in their.items():
                own[name].join(tally)
        for kind, n in other.refused.items():
            self.refused[kind] += n
        self.seconds += other.seconds


def counted(seeds: range, resamples: int) -> Counted:
    """What the draws of some seeds give."""
    from cilab.datasets.mazes.data import annotated_pairs

    began, found = time.process_time(), Counted()
    for seed in seeds:
        frame = annotated_pairs(seed).with_columns(pl.col("tokens").log().alias("log_tokens"))
        _mediation(frame, seed, resamples, found.effects)
        for kind, outcome in OUTCOMES.items():
            _odds(frame, kind, outcome, seed, resamples, found.odds, found.refused)
    found.seconds = time.process_time() - began
    return found


def study(draws: int, resamples: int, workers: int | None = None) -> dict[str, Any]:
    """Tallies of every effect and every odds ratio; added up block by block, so that workers change nothing."""
    from cilab.stats.methods.parallel import each

    blocks = [range(first, min(first + _BLOCK, draws)) for first in range(0, draws, _BLOCK)]
    found = Counted()
    for block in each(functools.partial(counted, resamples=resamples), blocks, workers):
        found.join(block)
    effects, odds = found.effects, found.odds
    refused = {kind: n for kind, n in found.refused.items() if n}
    return {
        "cpu_seconds": round(found.seconds),
        "mediation": {name: tally.line() for name, tally in effects.items()},
        "log_odds": {kind: {name: t.line() for (k, name), t in odds.items() if k == kind} for kind in OUTCOMES},
        "odds_refused": refused,
    }


def _mediation(frame: pl.DataFrame, seed: int, resamples: int, effects: dict[str, Tally]) -> None:
    from cilab.stats.maze.mediation import mediate

    result = mediate(
        frame,
        x="grounding",
        m="global_strategy",
        y="outcome",
        controls=[*PAIR_LEVEL, "path_length", "log_tokens"],
        cluster="pair",
        resamples=resamples,
        seed=seed,
    )
    for row in result.table.filter(pl.col("effect").is_in(list(effects))).iter_rows(named=True):
        effects[row["effect"]].add(row["estimate"], row["lo"], row["hi"], row["p"], row["se"])


def _odds_tallies(table: pl.DataFrame) -> dict[tuple[str, str], Tally]:
    import math

    out = {}
    for row in table.iter_rows(named=True):
        kind = row["kind"].removeprefix("odds_")
        out[kind, row["predictor"]] = Tally(math.log(row["value"]))
    return out


def _odds(
    frame: pl.DataFrame,
    kind: str,
    outcome: str,
    seed: int,
    resamples: int,
    tallies: dict[tuple[str, str], Tally],
    refused: dict[str, int],
) -> None:
    import math

    from cilab.core.errors import TableError
    from cilab.stats.maze.disagreement import odds_ratios

    rows = frame if kind == "total" else frame.filter(pl.col("disagreement") > 0)
    try:
        result = odds_ratios(
            rows,
            outcome=outcome,
            predictors=PAIR_LEVEL,
            cluster="pair",
            reference=REFERENCE,
            resamples=resamples,
            seed=seed,
        )
    except TableError:
        refused[kind] += 1
        return
    for row in result.table.iter_rows(named=True):
        seat = row["predictor"].partition("_")[0]
        name = row["predictor"] if row["level"] is None else f"{seat}_{row['level'].removeprefix('sim-family-')}"
        ends = [None if v is None else math.log(v) for v in (row["lo"], row["hi"])]
        tallies[kind, name].add(row["coefficient"], *ends, row["p"], row["se"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--workers", type=int, help="processes; default one")
    args = parser.parse_args()
    found = study(args.draws, args.resamples, args.workers)
    about = {
        "what": "coverage of 95 % percentile intervals and power over draws of the annotated part of simulated_mazes",
        "made_with": "python benchmarks/studies/mediation_coverage.py "
        f"--draws {args.draws} --resamples {args.resamples}",
        "draws": args.draws,
        "resamples": args.resamples,
        "monte_carlo_error_of_a_share_of_0.95": round((0.95 * 0.05 / args.draws) ** 0.5, 4),
    }
    args.out.write_text(json.dumps(about | found, indent=1) + "\n")
    for name, line in found["mediation"].items():
        print(f"{name:<18} coverage {line['coverage']:.3f}  power {line['power_at_0.05']:.3f}")
    for kind, lines in found["log_odds"].items():
        for name, line in lines.items():
            print(f"{kind:<11} {name:<18} coverage {line['coverage']:.3f}  power {line['power_at_0.05']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
