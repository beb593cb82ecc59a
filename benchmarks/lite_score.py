"""Does `cilab.lite_score` predict a model that is not in the study, and do its intervals cover?

Each model in turn is left out with all its rows; the subset is chosen on the other rows as `cilab.lite` does by
default (the informative choice), and the rows left out are predicted from it and held against their full scores on all
tasks. For comparison: the plain mean of that subset, of random subsets of the same size, and ridge regression.

Data: simulated releases (24 rows, 8 dimensions of 30 tasks, gate), the 25 submissions of SWE-bench's bash-only
leaderboard (500 tasks, no gate) and METR's runs of nine models (83 tasks, no gate), the last two where they are: they
are not shipped, only the results are stored.

    python benchmarks/lite_score.py [--releases 9] [--workers 2] [--shared ../shared] [--write] [--json]

`--write` stores the result in tests/golden/lite_score.json, which `tests/stats/test_lite_score.py` holds against the
promise and whose first release it computes again. Takes about three minutes.

Targets: over all leave-outs together (at least 200), and over the simulated ones, intervals of the overall score cover
90 to 98 % at a nominal 95; on every data set the mean absolute error is below the subset's plain mean and below random
subsets of the same size.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "lite_score.json"
RELEASES, FIRST_SEED, PER_DIMENSION = 9, 700, 5
#: Tasks in the subset, of the public data sets.
SUBMISSION_TASKS, METR_TASKS = (20, 40, 80), (16, 24, 40)
RANDOM_DRAWS = 10
LEVEL = 0.95
SOURCES = {
    "swebench_bash_only": "SWE-bench/swe-bench.github.io, data/leaderboards.json (CC BY-NC 4.0)",
    "metr_runs": "METR/eval-analysis-public, data/external/all_runs.jsonl (MIT)",
}


class Data(NamedTuple):
    """Cells of all rows, the model of each, and which tasks may be in a subset (the public ones)."""

    known: Any
    models: np.ndarray
    public: np.ndarray


def left_out(data: Data, k: int, model: str) -> list[dict[str, float]]:
    """One line per row of a model that was left out; scores in percent.

    Parameters
    ----------
    data : see `Data`.
    k : tasks chosen in each dimension.
    """
    from cilab.stats.methods import subset_prediction as p
    from cilab.stats.methods.item_response import choose_informative, fit_item_response
    from cilab.stats.teamwork import lite

    known, models, public = data
    out = models == model
    others = known.rows(~out)
    slices = known.slices
    may = public & ~np.isnan(others.values).all(axis=0)
    chosen = choose_informative(fit_item_response(others.values, slices), k, may)
    tasks = np.zeros(len(may), bool)
    tasks[np.concatenate(chosen)] = True
    seen = lite.Cells(others.values, slices, may, models[~out])
    fitted = p.fit_subset_model(others)
    found = p.predict(fitted, known.rows(out).only(tasks))
    check = p.leave_out(others, fitted, models[~out], tasks)
    whole = np.isfinite(check.full).all(axis=1)
    calibration = p.calibrate(check, models[~out], whole)
    lo, hi = p.Spread.of(found.overall, calibration.overall, calibration.degrees).interval(LEVEL)
    low, high = p.Spread.of(found.by_dimension, calibration.by_dimension, calibration.degrees).interval(LEVEL)
    values = known.values[out]
    by_dimension = lite.Cells(values, slices, may, models[out]).full()
    full = by_dimension.mean(axis=1)
    rng = np.random.default_rng([list(np.unique(models)).index(model), k])
    random = [lite.means(values, lite.choose_random(seen, k, rng)).mean(axis=1) for _ in range(RANDOM_DRAWS)]
    plain = lite.means(values, chosen).mean(axis=1)
    ridge = lite.read_ridge(seen, values, chosen).mean(axis=1)
    marks = check.full[whole].mean(axis=1)
    lines = []
    for r in np.flatnonzero(np.isfinite(full)):
        rank, best, worst = (1 + int((marks > x).sum()) for x in (full[r], hi[r], lo[r]))
        lines.append(
            {
                "error": 100 * (found.overall.score[r] - full[r]),
                "covered": float(lo[r] <= full[r] <= hi[r]),
                "width": 100 * (hi[r] - lo[r]),
                "rank_covered": float(best <= rank <= worst),
                "rank_width": float(worst - best),
                "plain": 100 * abs(plain[r] - full[r]),
                "random": 100 * float(np.nanmean([abs(one[r] - full[r]) for one in random])),
                "ridge": 100 * abs(ridge[r] - full[r]),
                "dimension_error": 100 * float(np.abs(found.score[r] - by_dimension[r]).mean()),
                "dimensions_covered": float(((low[r] <= by_dimension[r]) & (by_dimension[r] <= high[r])).mean()),
            }
        )
    return lines


def release(number: int) -> Data:
    """A simulated release."""
    from cilab import datasets

    return cells(datasets.simulated_release(FIRST_SEED + number))


def cells(data: Any, **scope: Any) -> Data:
    """The rows that were run on all tasks."""
    from cilab.stats.teamwork.grid import grid
    from cilab.stats.teamwork.lite_score import known_cells, whole_rows
    from cilab.stats.teamwork.scores import split_mask

    g = grid(data, **scope)
    known = known_cells(g)
    whole = whole_rows(g, known)
    public = split_mask(g, "public")
    may = public if public.any() else np.ones(len(public), bool)
    return Data(known.rows(whole), g.rows["model"].to_numpy()[whole], may)


def public(shared: Path, name: str) -> Data | None:
    """A public data set; None where it is not here. METR's people are no model."""
    from cilab import datasets

    folder = shared / "data" / name
    if not folder.is_dir():
        return None
    data = datasets.import_table(folder, name).dataset
    found = cells(data, version="alone", gate="off", allow_partial=True)
    kept = found.models != "human"
    return Data(found.known.rows(kept), found.models[kept], found.public)


def leave_outs(data: Data, k: int, workers: int | None = None) -> list[dict[str, float]]:
    """All models of a data set, each left out in turn."""
    from cilab.stats.methods.parallel import each

    one = functools.partial(left_out, data, k)
    return [line for some in each(one, np.unique(data.models).tolist(), workers) for line in some]


def summary(lines: list[dict[str, float]]) -> dict[str, float]:
    """Means over leave-outs, rounded to what is worth keeping."""
    mean = {name: float(np.nanmean([x[name] for x in lines])) for name in lines[0]}
    return {
        "leave_outs": len(lines),
        "coverage_pct": round(100 * mean["covered"], 2),
        "mean_width_points": round(mean["width"], 2),
        "error_points": round(float(np.mean([abs(x["error"]) for x in lines])), 3),
        "bias_points": round(mean["error"], 3),
        "plain_mean_error_points": round(mean["plain"], 3),
        "random_subset_error_points": round(mean["random"], 3),
        "ridge_error_points": round(mean["ridge"], 3),
        "rank_coverage_pct": round(100 * mean["rank_covered"], 2),
        "mean_rank_width": round(mean["rank_width"], 2),
        "dimension_error_points": round(mean["dimension_error"], 3),
        "dimension_coverage_pct": round(100 * mean["dimensions_covered"], 2),
    }


def study(releases: int = RELEASES, workers: int | None = None, shared: Path | None = None) -> dict[str, Any]:
    """All data sets, and all leave-outs together."""
    simulated = [leave_outs(release(i), PER_DIMENSION, workers) for i in range(releases)]
    found = {"simulated releases, 40 of 240 tasks": [line for some in simulated for line in some]}
    for name, sizes in (("swebench_bash_only", SUBMISSION_TASKS), ("metr_runs", METR_TASKS)):
        data = None if shared is None else public(shared, name)
        for k in sizes if data is not None else ():
            found[f"{name}, {k} of {data.known.values.shape[1]} tasks"] = leave_outs(data, k, workers)
    lines = [line for some in found.values() for line in some]
    return {
        "made_by": "python benchmarks/lite_score.py --write",
        "level_pct": 100 * LEVEL,
        "releases": releases,
        "first_seed": FIRST_SEED,
        "sources": SOURCES,
        "first_release": [{n: round(v, 6) for n, v in line.items()} for line in simulated[0]],
        "data_sets": {name: summary(some) for name, some in found.items()},
        "together": summary(lines),
    }


def main() -> int:
    """Run the study and print it; exit code 1 where a target is missed."""
    here = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--workers", type=int, help="processes; default one")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("CILAB_SHARED", here.parent / "shared")))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON line per promise")
    given = parser.parse_args()
    result = study(given.releases, given.workers, given.shared)
    if given.write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    from lines import line, show

    promises = []
    for name, x in {**result["data_sets"], "together": result["together"]}.items():
        note = f"{x['leave_outs']} leave-outs, width {x['mean_width_points']:.1f} points"
        bounds = {"least": 90, "most": 98} if name == "together" or name.startswith("simulated") else {}
        promises.append(line(f"coverage, {name}", x["coverage_pct"], "%", **bounds, of="ours", note=note))
        peer = min(x["plain_mean_error_points"], x["random_subset_error_points"])
        note = f"plain mean {x['plain_mean_error_points']:.2f}, random subsets {x['random_subset_error_points']:.2f}"
        promises.append(line(f"error, {name}", x["error_points"], "points", peer=peer, most=1, note=note))
    return show(promises, given.json)


if __name__ == "__main__":
    sys.exit(main())
