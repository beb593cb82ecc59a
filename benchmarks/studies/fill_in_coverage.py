"""Do the intervals of adjusted scores cover what they should? 1,000 redrawn data sets with a known truth.

Each data set has new tasks and new runs from the model behind `cilab.datasets.simulated_release`, as in
`benchmarks/score_coverage.py`: 24 rows, 30 tasks in each of 8 dimensions, one alone run, three tests of what is solved
alone, halves in conflict. The truth of a row is its expected score over all new tasks, solved alone or not. That model
is not the fill-in's own: it has effects of cells, unequal spreads, and a gate that goes with difficulty.

`cilab.fill_in` is called as a user does, with one difference: widths by empirical Bayes, found anew in every data set,
in place of cross-validation, which takes longer. Writes a JSON file, every 50 data sets anew:

    python benchmarks/studies/fill_in_coverage.py [--data-sets 1000] [--resamples 1000] [--workers 2] [--out FILE]

The stored results are tests/golden/fill_in_coverage.json (the default of --out is there).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import score_coverage  # noqa: E402

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "fill_in_coverage.json"
#: Data sets whose verdicts are stored one by one, so that a test can draw them again.
FIRST = 2


def truth() -> np.ndarray:
    """Expected scores over all new tasks, fractions, shape (rows, dimensions)."""
    from cilab.datasets.release import model as model

    p = model.load_parameters()
    eta, alone = p.matrix("eta"), p.matrix("alone_logit")
    best = p.matrix("best_logit")[:, model.CONFLICT]
    of_dimension = [
        model.implied(d, eta[:, d], best if d == model.CONFLICT else None, alone[:, d], p.sd_cell, p.family_scale).full
        for d in range(eta.shape[1])
    ]
    return np.transpose(of_dimension)


def runs(number: int) -> pl.DataFrame:
    """Runs table of data set `number`; model m00 is row 0, dimension d0 the first."""
    values, solved, slices = score_coverage.drawn(number)
    row, task = (a.ravel() for a in np.indices(values.shape))
    of_task = np.repeat(np.arange(len(slices)), [s.stop - s.start for s in slices])
    cells = pl.DataFrame({"row": row, "task": task, "value": values.ravel(), "solved": solved.ravel()}).select(
        pl.format("m{}", pl.col("row").cast(pl.String).str.zfill(2)).alias("model"),
        pl.format("t{}", pl.col("task").cast(pl.String).str.zfill(3)).alias("task_id"),
        pl.format("d{}", pl.Series(of_task)[task]).alias("dimension"),
        "value",
        "solved",
    )
    alone = cells.with_columns(version=pl.lit("alone"), seed=pl.lit(0), score=pl.col("solved").cast(pl.Float64))
    tested = cells.filter("solved")
    # Which seed has which score makes no difference: each is an equal share of the cell's value.
    tests = [
        tested.with_columns(version=pl.lit("test"), seed=pl.lit(s), score=_score_of_seed(s))
        for s in range(score_coverage.SEEDS)
    ]
    return pl.concat([alone, *tests]).drop("value", "solved").with_columns(status=pl.lit("ok"))


def _score_of_seed(seed: int) -> pl.Expr:
    """Scores of 0, 0.5 and 1 that add up to the cell's: as many whole points first as there are."""
    return (pl.col("value") * score_coverage.SEEDS - seed).round(6).clip(0.0, 1.0)


def verdict(number: int, expected: np.ndarray, resamples: int) -> dict[str, np.ndarray]:
    """Of one data set: whether intervals hold the truth and by how much scores miss it.

    Keys: `rows`, `cells` (inside, NaN without an interval), `adjusted`, `raw` (errors of overall scores, fractions),
    `width` (of overall intervals), `shift` (logits).
    """
    from cilab.stats.teamwork.fill_in import fill_in

    result = fill_in(runs(number), widths="empirical_bayes", resamples=resamples, seed=number)
    table = result.table.sort("model")
    overall = expected.mean(axis=1)
    cells = result.dimensions.sort("model", "dimension")
    lo, hi, adjusted, raw = (
        table[c].cast(pl.Float64).to_numpy() / 100 for c in ("lo_pct", "hi_pct", "adjusted_pct", "score_pct")
    )
    return {
        "rows": _inside(table, overall),
        "cells": _inside(cells, expected.ravel()).reshape(expected.shape),
        "adjusted": adjusted - overall,
        "raw": raw - overall,
        "width": hi - lo,
        "shift": np.array(result.value("shift")),
    }


def _inside(table: pl.DataFrame, expected: np.ndarray) -> np.ndarray:
    lo, hi = (table[c].cast(pl.Float64).to_numpy() / 100 for c in ("lo_pct", "hi_pct"))
    return np.where(np.isnan(lo), np.nan, (lo <= expected) & (expected <= hi))


def summary(verdicts: list[dict[str, np.ndarray]], resamples: int) -> dict[str, Any]:
    """Coverage in percent by row, over rows and over cells; errors and widths in points."""
    from cilab.datasets.release import model as model

    every = {name: np.array([v[name] for v in verdicts]) for name in verdicts[0]}
    by_row = 100 * np.nanmean(every["rows"], axis=0)
    rows = model.load_parameters().rows
    return {
        "what": "coverage of 95 % intervals of adjusted scores, engine laplace, widths by empirical Bayes",
        "made_by": f"python benchmarks/studies/fill_in_coverage.py --data-sets {len(verdicts)} --resamples {resamples}",
        "data_sets": len(verdicts),
        "resamples": resamples,
        "coverage_pct": float(by_row.mean()),
        "lowest_row_pct": float(by_row.min()),
        "highest_row_pct": float(by_row.max()),
        "coverage_of_dimension_scores_pct": float(100 * np.nanmean(every["cells"])),
        "undefined_scores": int(np.isnan(every["rows"]).sum()),
        "mean_error_points": float(100 * np.nanmean(every["adjusted"])),
        "mean_error_of_raw_scores_points": float(100 * np.nanmean(every["raw"])),
        "mean_shift_logits": float(every["shift"].mean()),
        "first_data_sets": every["rows"][:FIRST].astype(int).tolist(),
        "rows": [
            {
                "model": rows["model"][r],
                "effort": rows["effort"][r],
                "coverage_pct": round(float(by_row[r]), 3),
                "mean_error_points": round(100 * float(np.nanmean(every["adjusted"][:, r])), 3),
                "mean_error_of_raw_score_points": round(100 * float(np.nanmean(every["raw"][:, r])), 3),
                "mean_width_points": round(100 * float(np.nanmean(every["width"][:, r])), 3),
                "sd_of_score_points": round(100 * float(np.nanstd(every["adjusted"][:, r])), 3),
            }
            for r in range(rows.height)
        ],
    }


def study(
    data_sets: int = 1000, resamples: int = 1000, out: Path | None = None, workers: int | None = None
) -> dict[str, Any]:
    """The summary of so many data sets; written to `out` as it grows. CPU seconds are those of all workers."""
    from cilab.stats.methods.parallel import each

    one = functools.partial(_timed_verdict, expected=truth(), resamples=resamples)
    verdicts, seconds = [], 0.0
    found: dict[str, Any] = {}
    for first in range(0, data_sets, 50):
        last = min(first + 50, data_sets)
        some = each(one, range(first, last), workers)
        verdicts += [v for v, _ in some]
        seconds += sum(s for _, s in some)
        found = summary(verdicts, resamples) | {"cpu_seconds": round(seconds)}
        if out is not None:
            out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{last} of {data_sets}: {found['coverage_pct']:.2f} %", file=sys.stderr, flush=True)
    return found


def _timed_verdict(number: int, expected: np.ndarray, resamples: int) -> tuple[dict[str, np.ndarray], float]:
    began = time.process_time()
    return verdict(number, expected, resamples), time.process_time() - began


def main() -> int:
    """Run the study and print it; exit code 1 where coverage is outside 92 to 97 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--workers", type=int, help="processes; default one")
    given = parser.parse_args()
    result = study(given.data_sets, given.resamples, given.out, given.workers)
    for row in result["rows"]:
        print(f"{row['model']:<8}{row['effort'] or '':<9}{row['coverage_pct']:>8.1f} %{row['mean_error_points']:>8.2f}")
    print(
        f"all rows {result['coverage_pct']:.2f} % ({result['lowest_row_pct']:.1f} to {result['highest_row_pct']:.1f})"
    )
    return 0 if 92 <= result["coverage_pct"] <= 97 else 1


if __name__ == "__main__":
    sys.exit(main())
