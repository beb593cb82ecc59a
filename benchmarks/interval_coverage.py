"""Do intervals cover what they should where tasks are few, clustered or nearly all passed?

A population of tasks with a known mean is drawn from again and again; the interval of the rule
(`cilab.stats.methods.uncertainty`) and the papers' plain percentile are both asked whether they hold that mean. Rates
.5, .8 and .97; 3, 5, 10 and 30 units a dimension; one dimension, and the mean of eight. Designs:

    binary          a task is passed or not, once
    seeds           three runs of each task, tasks alike: scores of 0, 1/3, 2/3, 1
    mixed           three runs of each task, tasks of unlike difficulty (beta, a + b = 2)
    families        units are families of five tasks, one run each; correlation within a family .2
    mixed families  the same with three runs and tasks of unlike difficulty

    python benchmarks/interval_coverage.py [--data-sets 4000] [--write]

`--write` stores the result in tests/golden/interval_coverage.json, which `tests/stats/test_uncertainty.py` holds
against the promise and whose first data sets it computes again. All data here are simulated. Takes about six minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "interval_coverage.json"
RATES, UNITS, DIMENSIONS = (0.5, 0.8, 0.97), (2, 3, 5, 10, 30), (1, 8)
RESAMPLES = 1000
#: Plain percentiles are drawn for so many of the data sets: they are slow and only stand beside.
BESIDE = 100
#: Data sets whose verdicts are stored one by one, so that a test can draw them again.
FIRST = 20
_STREAM = 20261201


class Design(NamedTuple):
    """How a population of tasks is made: runs of a task, how unlike tasks are, and families."""

    seeds: int
    unlike: float | None
    family_size: int
    correlation: float


DESIGNS = {
    "binary": Design(1, None, 1, 0.0),
    "seeds": Design(3, None, 1, 0.0),
    "mixed": Design(3, 2.0, 1, 0.0),
    "families": Design(1, None, 5, 0.2),
    "mixed families": Design(3, 2.0, 5, 0.2),
}


def drawn(design: Design, rate: float, units: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """Scores of one data set, fractions, shape (dimensions, units, tasks of a unit)."""
    chance = np.full((dimensions, units, design.family_size), rate)
    if design.correlation:
        total = 1 / design.correlation - 1
        chance[:] = rng.beta(rate * total, (1 - rate) * total, (dimensions, units, 1))
    if design.unlike is not None:
        chance = np.clip(chance, 1e-9, 1 - 1e-9)
        chance = rng.beta(chance * design.unlike, (1 - chance) * design.unlike)
    return rng.binomial(design.seeds, chance) / design.seeds


def verdict(values: np.ndarray, rate: float) -> tuple[float, float]:
    """Whether the rule's interval holds the rate (NaN without an interval), and its width."""
    from cilab.stats.methods.uncertainty import mean_bounds

    dimensions, units, size = values.shape
    strata = np.repeat(np.arange(dimensions), units * size)
    clusters = np.repeat(np.arange(dimensions * units), size)
    found = mean_bounds(values.reshape(-1), strata=strata, clusters=clusters)
    if found.lo is None or found.hi is None:
        return np.nan, np.nan
    return float(found.lo - 1e-12 <= rate <= found.hi + 1e-12), found.hi - found.lo


def percentile(values: np.ndarray, rate: float, rng: np.random.Generator) -> float:
    """Whether the plain percentile interval of resampled tasks within dimension holds the rate."""
    from cilab.stats.methods import bootstrap

    flat = values.reshape(len(values), -1)
    means = [bootstrap.draw_counts(flat.shape[1], RESAMPLES, rng) @ row / flat.shape[1] for row in flat]
    lo, hi = bootstrap.ends(np.mean(means, axis=0))
    return float(lo - 1e-12 <= rate <= hi + 1e-12)


def cell(name: str, rate: float, units: int, dimensions: int, data_sets: int) -> dict[str, Any]:
    """Coverage and mean width of one line of the table."""
    key = [_STREAM, list(DESIGNS).index(name), round(100 * rate), units, dimensions]
    rng = np.random.default_rng(key)
    sets = [drawn(DESIGNS[name], rate, units, dimensions, rng) for _ in range(data_sets)]
    inside, width = np.array([verdict(v, rate) for v in sets]).T
    there = ~np.isnan(inside)
    beside = [percentile(v, rate, rng) for v in sets[:BESIDE]]
    line: dict[str, Any] = {
        "design": name,
        "rate": rate,
        "units": units,
        "dimensions": dimensions,
        "without_interval": float(1 - there.mean()),
        "coverage": float(inside[there].mean()) if there.any() else None,
        "width": float(width[there].mean()) if there.any() else None,
        "percentile_coverage": float(np.mean(beside)) if beside else None,
        "first": [None if np.isnan(v) else int(v) for v in inside[:FIRST]],
    }
    if name == "binary" and dimensions == 1:
        line |= _exact(rate, units)
    return line


def _exact(rate: float, units: int) -> dict[str, float]:
    """Coverage and mean width of the rule and of Clopper and Pearson's interval, summed over the binomial."""
    from scipy import stats

    from cilab.stats.methods.distributions import share_interval

    passed = np.arange(units + 1)
    chance = stats.binom.pmf(passed, units, rate)
    exact = np.array([share_interval(int(k), units, 0.95) for k in passed])
    own = np.array([verdict((np.arange(units) < k).astype(float).reshape(1, -1, 1), rate) for k in passed])
    holds = (exact[:, 0] - 1e-12 <= rate) & (rate <= exact[:, 1] + 1e-12)
    return {
        "exact_coverage": float(chance @ own[:, 0]),
        "exact_width": float(chance @ own[:, 1]),
        "clopper_pearson_coverage": float(chance @ holds),
        "clopper_pearson_width": float(chance @ (exact[:, 1] - exact[:, 0])),
    }


def tenth(data_sets: int = 1000) -> dict[str, float]:
    """A tenth of a study: 3 tasks in each of 8 dimensions, each solved alone with chance .7, tests passed with .8.

    Shares of dimension cells and of overall scores that have no interval, and coverage of the latter that have one.
    """
    from cilab.stats.methods.uncertainty import mean_bounds

    rng = np.random.default_rng([_STREAM, 10])
    cells, overall = [], []
    for _ in range(data_sets):
        gated = rng.binomial(3, 0.7, 8)
        cells += [n < 3 for n in gated[gated > 0]]
        if gated.min() == 0:  # a dimension without a score: no overall score
            continue
        found = mean_bounds(rng.binomial(1, 0.8, gated.sum()).astype(float), strata=np.repeat(np.arange(8), gated))
        overall.append(np.nan if found.lo is None else found.lo <= 0.8 <= (found.hi or 1.0))
    inside = np.array(overall, float)
    return {
        "dimension_cells_without": float(np.mean(cells)),
        "overall_without": float(np.isnan(inside).mean()),
        "overall_coverage": float(np.nanmean(inside)),
    }


def study(data_sets: int = 4000) -> dict[str, Any]:
    """All lines."""
    lines = [
        cell(name, rate, units, dimensions, data_sets)
        for dimensions in DIMENSIONS
        for name in DESIGNS
        for rate in RATES
        for units in UNITS
    ]
    made = "python benchmarks/interval_coverage.py --write"
    return {"made_by": made, "data_sets": data_sets, "nominal": 0.95, "tenth_of_a_study": tenth(), "lines": lines}


def main() -> int:
    """Run the study and print it; exit code 1 where an interval covers less than 93 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=4000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    given = parser.parse_args()
    result = study(given.data_sets)
    if given.write:
        RESULT.write_text(json.dumps(result) + "\n")
    shown = [line for line in result["lines"] if line["coverage"] is not None]
    least = min(shown, key=lambda line: line["coverage"])
    if given.json:
        from lines import line, show

        note = f"lowest of {len(shown)} cells: {least['design']}, rate {least['rate']:g}, {least['units']} units"
        promised = {"least": 93, "of": "ours", "note": note}
        return show([line("lowest coverage of the rule's intervals", 100 * least["coverage"], "%", **promised)], True)
    for line in shown:
        print(
            f"{line['design']:<15}{line['rate']:>5}{line['units']:>4}{line['dimensions']:>3}"
            f"{line['coverage']:>8.3f}{line['width']:>8.3f}   percentile {line['percentile_coverage']:.3f}"
            + (
                f"   exact {line['exact_coverage']:.3f} CP {line['clopper_pearson_coverage']:.3f} widths "
                f"{line['exact_width']:.3f} {line['clopper_pearson_width']:.3f}"
                if "exact_width" in line
                else ""
            )
        )
    print(f"a tenth of a study: {result['tenth_of_a_study']}")
    return 0 if least["coverage"] >= 0.93 else 1


if __name__ == "__main__":
    sys.exit(main())
