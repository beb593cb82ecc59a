"""Do the intervals of corrected scores cover what they should? Simulated verdicts and confusions with a known truth.

Each data set is simulated: 2,000 judged units, of which 30, 100 or 300 are labelled by people. The truth is the share
(or mean) of the population that the units come from. Binary verdicts with several shares of positives, sensitivities
and specificities; verdicts in clusters of ten with a common difficulty; graded scores of 0, 0.5 and 1; a sample that
labels what the judge failed four times as often, with weights.

    python benchmarks/correction_coverage.py [--data-sets 1000] [--workers 2] [--write]

`--write` stores the result in tests/golden/correction_coverage.json, which `tests/stats/test_corrected.py` holds
against the promise (at least 93 % wherever an interval is shown) and whose first data sets it computes again. Takes
about two minutes.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "correction_coverage.json"
UNITS, LABELS, CLUSTER = 2000, (30, 100, 300), 10
METHODS = ("prediction_powered", "rogan_gladen")
#: Data sets of each case whose verdicts are stored one by one, so that a test can draw them again.
FIRST = 3
LEAST_PCT = 93.0
_STREAM = 20261201
#: Share that people call positive, sensitivity, specificity of the judge.
CONFUSIONS = tuple(
    (share, *rates) for share in (0.2, 0.5, 0.8, 0.95) for rates in ((0.95, 0.9), (0.8, 0.85), (0.99, 0.97))
)
CASES = tuple(
    [("binary", confusion, n) for confusion in CONFUSIONS for n in LABELS]
    + [
        (kind, (share, 0.9, 0.9), n)
        for kind in ("clustered", "graded", "stratified")
        for share in (0.2, 0.6)
        for n in LABELS
    ]
)


def drawn(kind: str, confusion: tuple[float, float, float], n: int, rng: np.random.Generator) -> dict[str, Any]:
    """One data set: `judged`, `people` (NaN where not labelled), `sampling`, `clusters`, `truth`."""
    share, se, sp = confusion
    clusters, sampling, truth = None, None, share
    if kind == "graded":
        people = rng.choice([0.0, 0.5, 1.0], p=[1 - 1.2 * share, 0.2 * share, share], size=UNITS)
        judged = np.where(rng.random(UNITS) < se, people, rng.choice([0.0, 0.5, 1.0], size=UNITS))
        truth = 1.1 * share
    else:
        chance, wrong = share, None
        if kind == "clustered":
            clusters = np.arange(UNITS) // CLUSTER
            ease, care = rng.normal(size=(2, UNITS // CLUSTER))
            chance, truth = _expit(_logit(share) + ease)[clusters], _mean_expit(_logit(share))
            wrong = _expit(_logit(1 - se) + care)[clusters]
        people = (rng.random(UNITS) < chance).astype(float)
        if wrong is None:
            wrong = np.where(people == 1, 1 - se, 1 - sp)
        judged = np.where(rng.random(UNITS) < wrong, 1 - people, people)
    if kind == "stratified":
        often = np.where(judged == 0, 4.0, 1.0)
        chance = n * often / often.sum()
        labelled, sampling = rng.random(UNITS) < chance, 1 / chance
    else:
        labelled = np.zeros(UNITS, bool)
        labelled[rng.choice(UNITS, n, replace=False)] = True
    return {
        "judged": judged,
        "people": np.where(labelled, people, np.nan),
        "sampling": sampling,
        "clusters": clusters,
        "truth": truth,
    }


def _logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def _expit(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@functools.cache
def _mean_expit(at: float) -> float:
    """Mean of the logistic function over a standard normal around `at`."""
    x, w = np.polynomial.hermite_e.hermegauss(61)
    return float(_expit(at + x) @ w / w.sum())


def verdicts(case: int, number: int) -> dict[str, tuple[int, float, float, float] | None]:
    """Method -> (covered, width, corrected error, judged error) of data set `number` of a case; None without one."""
    from cilab.stats.methods.misclassification import error_rates, prediction_powered, rogan_gladen

    kind, confusion, n = CASES[case]
    data = drawn(kind, confusion, n, np.random.default_rng([_STREAM, case, number]))
    judged, people, truth = data["judged"], data["people"], data["truth"]
    found = {
        "prediction_powered": prediction_powered(judged, people, sampling=data["sampling"], clusters=data["clusters"])
    }
    if kind != "graded":
        there = np.isfinite(people)
        weights = np.ones(there.sum()) if data["sampling"] is None else data["sampling"][there]
        rates = error_rates(judged[there], people[there], weights)
        found["rogan_gladen"] = rogan_gladen(judged, *rates, clusters=data["clusters"])
    out: dict[str, tuple[int, float, float, float] | None] = {}
    for name, one in found.items():
        shown = one.lo is not None and one.hi is not None and one.value is not None
        out[name] = (
            (int(one.lo <= truth <= one.hi), one.hi - one.lo, one.value - truth, float(judged.mean()) - truth)  # type: ignore[operator]
            if shown
            else None
        )
    return out


def _case(case: int, data_sets: int) -> list[dict[str, Any]]:
    kind, (share, se, sp), n = CASES[case]
    found = [verdicts(case, number) for number in range(data_sets)]
    lines = []
    for method in METHODS:
        if method not in found[0]:
            continue
        shown = np.array([f[method] for f in found if f[method] is not None])
        lines.append(
            {
                "kind": kind,
                "share": share,
                "sensitivity": se,
                "specificity": sp,
                "labels": n,
                "method": method,
                "coverage_pct": round(100 * float(shown[:, 0].mean()), 3),
                "without_interval_pct": round(100 * (1 - len(shown) / data_sets), 3),
                "mean_width_points": round(100 * float(shown[:, 1].mean()), 3),
                "bias_points": round(100 * float(shown[:, 2].mean()), 3),
                "judged_bias_points": round(100 * float(shown[:, 3].mean()), 3),
                "first_data_sets": [None if f[method] is None else f[method][0] for f in found[:FIRST]],  # type: ignore[index]
            }
        )
    return lines


def study(data_sets: int = 1000, workers: int | None = None) -> dict[str, Any]:
    """Coverage of every case and method, in percent."""
    from cilab.stats.methods.parallel import each

    lines = [
        line
        for some in each(functools.partial(_case, data_sets=data_sets), range(len(CASES)), workers)
        for line in some
    ]
    return {
        "made_by": "python benchmarks/correction_coverage.py --write",
        "simulated": True,
        "data_sets": data_sets,
        "units": UNITS,
        "least_coverage_pct": min(line["coverage_pct"] for line in lines),
        "cases": lines,
    }


def main() -> int:
    """Run the study and print it; exit code 1 where coverage is below the promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, help="processes; default one")
    given = parser.parse_args()
    result = study(given.data_sets, given.workers)
    if given.write:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for line in result["cases"]:
        where = (
            f"{line['kind']:<11}{line['share']:>5}{line['sensitivity']:>6}{line['specificity']:>6}{line['labels']:>5}"
        )
        numbers = (
            f"{line['coverage_pct']:>7.1f} %{line['mean_width_points']:>7.1f}{line['without_interval_pct']:>7.1f} %"
        )
        print(f"{where}  {line['method']:<19}{numbers}{line['bias_points']:>7.2f}{line['judged_bias_points']:>7.2f}")
    print(f"least {result['least_coverage_pct']:.2f} %")
    return 0 if result["least_coverage_pct"] >= LEAST_PCT else 1


if __name__ == "__main__":
    sys.exit(main())
