"""How often do comparisons of two rows err, and what do they find? Redrawn data sets with a known truth.

Two rows on 8 dimensions. Each task has one chance of passing, uniform from LOWEST to 1; the first row has it less the
difference, but not below 0, the second row has it whole. Runs are independent. In data with clusters, tasks come in
families of three, and each row does better or worse on a family by 0.25 with even chances. There are no gates and no
refusals. What is judged is what `cilab.compare` calls: `cilab.stats.teamwork.compare.contrast`.

- errors: no difference. Share of data sets in which Holm-corrected sign flips mark any of the 8 dimensions, and in
  which the overall p is below 0.05; for data with clusters also if these are ignored.
- power: share of dimensions of 30 tasks, and of data sets, in which sign flips and the paired t find a difference.
- coverage: share of 95 % intervals that hold the true difference, of one dimension and overall.
- pairs: six rows, each worse than the one before by the difference. Share of data sets in which all 15 simultaneous
  intervals hold their true differences (`cilab.stats.methods.sign_flip.max_t`, as in `cilab.all_pairs`).

    python benchmarks/comparison_errors.py [--data-sets 400] [--workers 1] [--write]

`--write` stores the result in tests/golden/comparison_errors.json, which `tests/stats/test_sign_flip.py` holds against
the promises and whose first data sets it computes again. Takes about three minutes of one core.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "comparison_errors.json"
DIMENSIONS, DATA_SETS, FLIPS, LEVEL = 8, 400, 999, 0.05
#: Data sets of each kind whose verdicts are stored one by one, so that a test can draw them again.
FIRST = 10
UNITS, SEEDS, LOWEST = (3, 5, 10, 30), (1, 3), (0.4, 0.85)
#: Rows whose pairs are judged together.
ROWS = 6
#: Tasks of a family, and how much better or worse a row does on one.
FAMILY, SHIFT = 3, 0.25
_STREAM = 20261201


def drawn(
    units: int, seeds: int, lowest: float, difference: float, family: int, rng: np.random.Generator
) -> np.ndarray:
    """Values of the two rows (means over seeds), shape (2, dimensions, units * family)."""
    n = units * family
    chance = np.tile(rng.uniform(lowest, 1, (1, DIMENSIONS, n)), (2, 1, 1))
    chance[0] -= difference
    if family > 1:
        chance += SHIFT * np.repeat(rng.choice((-1.0, 1.0), (2, DIMENSIONS, units)), family, axis=2)
    return (rng.random((seeds, 2, DIMENSIONS, n)) < np.clip(chance, 0, 1)).mean(axis=0)


def true_difference(lowest: float, difference: float) -> float:
    """Expected difference of the second row and the first over new tasks, without clusters."""
    over = max(0.0, difference - lowest)  # chances that would fall below 0
    return difference - over**2 / 2 / (1 - lowest)


def _stream(*of: float) -> np.random.Generator:
    return np.random.default_rng([_STREAM, *(round(1000 * x) for x in of)])


def errors(units: int, seeds: int, lowest: float, family: int, data_sets: int) -> dict[str, np.ndarray]:
    """Verdicts on rows without a difference, shape (data sets,): any dimension marked, overall p below 0.05."""
    from cilab.stats.methods.hypothesis_tests import adjust
    from cilab.stats.methods.sign_flip import sign_flip

    rng = _stream(units, seeds, lowest, family)
    found: dict[str, list[bool]] = {"any_dimension": [], "overall": [], "any_dimension_ignoring_clusters": []}
    for _ in range(data_sets):
        a, b = drawn(units, seeds, lowest, 0.0, family, rng)
        tasks = (b - a) / (units * family)
        whole = tasks.reshape(DIMENSIONS, units, family).sum(axis=2)
        for name, each in (("any_dimension", whole), ("any_dimension_ignoring_clusters", tasks)):
            p = [sign_flip(line, flips=FLIPS, rng=rng).p for line in each]
            found[name].append(min(q for q in adjust(p, method="holm").adjusted if q is not None) < LEVEL)
        found["overall"].append(sign_flip(whole.ravel() / DIMENSIONS, flips=FLIPS, rng=rng).p < LEVEL)
    if family == 1:
        del found["any_dimension_ignoring_clusters"]
    return {name: np.array(verdicts) for name, verdicts in found.items()}


def power(seeds: int, lowest: float, difference: float, data_sets: int) -> dict[str, np.ndarray]:
    """Verdicts of sign flips and of the paired t at 30 tasks a dimension; p of each below 0.05."""
    from scipy import stats

    from cilab.stats.methods.sign_flip import sign_flip

    rng = _stream(seeds, lowest, difference)
    out: dict[str, list[np.ndarray]] = {name: [] for name in ("flips", "t", "overall_flips", "overall_t")}
    for _ in range(data_sets):
        a, b = drawn(30, seeds, lowest, difference, 1, rng)
        with np.errstate(invalid="ignore", divide="ignore"):
            out["t"].append(stats.ttest_1samp(b - a, 0, axis=1).pvalue < LEVEL)
            out["overall_t"].append(stats.ttest_1samp((b - a).ravel(), 0).pvalue < LEVEL)
        out["flips"].append(np.array([sign_flip(line, flips=FLIPS, rng=rng).p < LEVEL for line in b - a]))
        out["overall_flips"].append(sign_flip((b - a).ravel(), flips=FLIPS, rng=rng).p < LEVEL)
    return {name: np.array(verdicts, float) for name, verdicts in out.items()}


def coverage(units: int, seeds: int, lowest: float, difference: float, data_sets: int) -> dict[str, np.ndarray]:
    """Whether intervals hold the truth, of the first dimension and overall; widths; whether interval and p disagree."""
    from cilab.stats.teamwork.compare import Units, contrast

    rng = _stream(units, seeds, lowest, difference, 1)
    dimensions = np.repeat([f"d{i}" for i in range(DIMENSIONS)], units)
    truth = true_difference(lowest, difference)
    out: dict[str, list[float]] = {
        f"{of}_{what}": [] for of in ("dimension", "overall") for what in ("inside", "width", "contradicts")
    }
    for i in range(data_sets):
        a, b = (side.reshape(1, -1) for side in drawn(units, seeds, lowest, difference, 1, rng))
        for of, n in (("dimension", units), ("overall", units * DIMENSIONS)):
            on = np.ones((1, n), bool)
            of_tasks = Units(dimensions[:n], np.arange(n), "task")
            found = contrast(b[:, :n], a[:, :n], (on, on), of_tasks, ci_level=1 - LEVEL, flips=FLIPS, seed=[i])
            if found.lo is None or found.hi is None:
                raise ValueError("an interval is missing where there are three tasks or more in each dimension")
            out[f"{of}_inside"].append(found.lo - 1e-9 <= truth <= found.hi + 1e-9)
            out[f"{of}_width"].append(100 * (found.hi - found.lo))
            out[f"{of}_contradicts"].append((found.lo > 0 or found.hi < 0) != (found.p < LEVEL))
    return {name: np.array(values, float) for name, values in out.items()}


def pairs(units: int, seeds: int, lowest: float, difference: float, data_sets: int) -> dict[str, np.ndarray]:
    """Whether all simultaneous intervals of six rows hold the truth, and their mean width in points."""
    from cilab.stats.methods.sign_flip import max_t

    rng = _stream(units, seeds, lowest, difference, 2)
    one, two = np.triu_indices(ROWS, 1)
    n = DIMENSIONS * units
    fall = difference * np.arange(ROWS)
    truth = np.array([true_difference(lowest, d) for d in fall])
    out: dict[str, list[float]] = {"all_inside": [], "width": []}
    for _ in range(data_sets):
        chance = np.clip(rng.uniform(lowest, 1, n) - fall[:, None], 0, 1)
        values = (rng.random((seeds, ROWS, n)) < chance).mean(axis=0)
        weights = np.full((len(one), n), 1 / n)
        found = max_t((values[one] - values[two]) / n, weights, ci_level=1 - LEVEL, flips=FLIPS, rng=rng)
        lo, hi = np.clip(found.lo, -1, 1), np.clip(found.hi, -1, 1)
        of_pair = truth[two] - truth[one]
        out["all_inside"].append(bool(((lo - 1e-9 <= of_pair) & (of_pair <= hi + 1e-9)).all()))
        out["width"].append(100 * float((hi - lo).mean()))
    return {name: np.array(values, float) for name, values in out.items()}


def _one(kind: tuple[str, tuple[Any, ...]], data_sets: int) -> dict[str, np.ndarray]:
    return {"errors": errors, "power": power, "coverage": coverage, "pairs": pairs}[kind[0]](*kind[1], data_sets)


def kinds() -> list[tuple[str, tuple[Any, ...]]]:
    """Every kind of data set: which question, and its arguments."""
    return [
        *(("errors", of) for of in itertools.product(UNITS, SEEDS, LOWEST, (1, FAMILY))),
        *(("power", (1, lowest, d)) for lowest in LOWEST for d in (0.05, 0.3, 0.35, 0.4)),
        *(("power", (3, lowest, d)) for lowest in LOWEST for d in (0.05, 0.15, 0.2, 0.25)),
        *(("coverage", of) for of in itertools.product(UNITS, SEEDS, LOWEST, (0.0, 0.15, 0.3))),
        *(("pairs", of) for of in itertools.product((3, 10, 30), SEEDS, LOWEST, (0.0, 0.05))),
    ]


def _pct(values: np.ndarray) -> float:
    return round(100 * float(np.mean(values)), 3)


def study(data_sets: int = DATA_SETS, workers: int | None = None) -> dict[str, Any]:
    """All of it, in percent of the data sets."""
    from cilab.stats.methods.parallel import each

    asked = kinds()
    found = each(functools.partial(_one, data_sets=data_sets), asked, workers)
    names = {
        "errors": ("units", "seeds", "lowest", "tasks_per_unit"),
        "power": ("seeds", "lowest", "difference"),
        "coverage": ("units", "seeds", "lowest", "difference"),
        "pairs": ("units", "seeds", "lowest", "difference"),
    }
    out: dict[str, Any] = {
        "made_by": "python benchmarks/comparison_errors.py --write",
        "data_sets": data_sets,
        "dimensions": DIMENSIONS,
        **{question: [] for question in names},
    }
    for (question, of), verdicts in zip(asked, found, strict=True):
        line: dict[str, Any] = dict(zip(names[question], of, strict=True))
        for name, values in verdicts.items():
            if name.endswith("width"):
                line[f"{name}_points"] = round(float(values.mean()), 3)
            else:
                line[f"{name}_pct"] = _pct(values)
        first = next(iter(verdicts.values()))
        line["first"] = first.reshape(len(first), -1)[:FIRST].astype(int).sum(axis=1).tolist()
        out[question].append(line)
    return out


def main() -> int:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=DATA_SETS)
    parser.add_argument("--workers", type=int, help="processes; default one")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    result = study(given.data_sets, given.workers)
    if given.write:
        lines = {k: v for k, v in result.items() if not isinstance(v, list)}
        text = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in lines.items()]
        for question, of in result.items():
            if isinstance(of, list):
                text.append(f" {json.dumps(question)}: [\n  " + ",\n  ".join(map(json.dumps, of)) + "\n ]")
        RESULT.write_text("{\n" + ",\n".join(text) + "\n}\n")
    for question, of in result.items():
        for line in of if isinstance(of, list) else []:
            print(question, *(f"{k}={v}" for k, v in line.items() if k != "first"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
