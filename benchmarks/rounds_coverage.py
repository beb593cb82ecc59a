"""Do the intervals of `cilab.contamination` and `cilab.equate` cover what they should? Simulated, with a known truth.

Contamination: tasks passed or failed with given chances on either side, the same in all dimensions; with `families`,
one task of either side shares what makes it hard or easy (chances are then means over families). The truth is the
difference of the chances.

Equate: two rounds of 4 dimensions with 20 tasks each, 14 rows a round, three runs of a task, difficulties of standard
deviation 1; of the new round's tasks some are anchors and the others harder by so many logits. The truth of a row is
its expected score over tasks like those of the old round.

    python benchmarks/rounds_coverage.py [--data-sets 800] [--rounds 100] [--write]

`--write` stores the result in tests/golden/rounds_coverage.json, which `tests/stats/test_equate.py` holds against the
bounds and whose first data sets it computes again. Takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "rounds_coverage.json"
_STREAM = 20261201
#: Data sets whose verdicts are stored one by one.
FIRST = 20
#: Tasks a side and dimension, and dimensions.
SIZES = ((3, 1), (5, 1), (10, 1), (30, 1), (3, 8), (10, 8), (30, 8))
#: Chances of a pass on public and on held-out tasks.
CHANCES = ((0.5, 0.5), (0.8, 0.8), (0.97, 0.97), (0.9, 0.6))
#: Spread of the log-odds between families, with families.
FAMILY_SD = 1.5
DIMENSIONS, TASKS, ROWS, SEEDS = 4, 20, 14, 3
#: Anchors a dimension, and how many logits harder the other new tasks are.
ROUNDS = ((10, 0.0), (10, 1.0), (5, 1.0))


def covered(per_side: int, dimensions: int, chance: list[float], families: bool, number: int) -> int | None:
    """1 where the interval of data set `number` covers the truth, 0 where not, None without an interval."""
    from cilab.stats.methods.two_means import difference

    rng = np.random.default_rng([_STREAM, per_side, dimensions, *(int(100 * c) for c in chance), families, number])
    n = per_side * dimensions
    strata = np.tile(np.repeat(np.arange(dimensions), per_side), 2)
    first = np.arange(2 * n) < n
    p = np.where(first, *chance)
    truth, clusters = chance[0] - chance[1], None
    if families:
        shift = np.tile(rng.normal(0, FAMILY_SD, n), 2)
        p = _expit(np.log(p / (1 - p)) + shift)
        means = [_mean_expit(np.log(c / (1 - c)), FAMILY_SD) for c in chance]
        truth, clusters = means[0] - means[1], np.tile(np.arange(n), 2)
    values = (rng.random(2 * n) < p).astype(float)
    found = difference(values, first, strata=strata, clusters=clusters, test=False).bounds
    return None if found.lo is None or found.hi is None else int(found.lo - 1e-12 <= truth <= found.hi + 1e-12)


def _expit(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _mean_expit(middle: Any, sd: float) -> Any:
    """Mean of the logistic function over a normal variable."""
    points, weights = np.polynomial.hermite_e.hermegauss(61)
    return _expit(np.asarray(middle)[..., None] + sd * points) @ weights / weights.sum()


def equated(anchors: int, harder: float, number: int) -> tuple[list[int], list[float], list[float]]:
    """Of data set `number`: whether each row's interval covers the truth, its error, and that of the plain score."""
    import cilab

    rng = np.random.default_rng([_STREAM, anchors, int(10 * harder), number])
    old = rng.normal(0, 1, (DIMENSIONS, TASKS))
    new = old.copy()
    new[:, anchors:] = rng.normal(harder, 1, (DIMENSIONS, TASKS - anchors))
    then, now = rng.normal(0.3, 1, ROWS), rng.normal(0.5, 1, ROWS)
    names = np.array([[f"d{d}:{t:02d}" for t in range(TASKS)] for d in range(DIMENSIONS)])
    fresh = np.where(np.arange(TASKS) < anchors, names, np.char.add(names, "new"))
    found = cilab.equate(_runs(then, old, names, "a", rng), _runs(now, new, fresh, "b", rng), gate="off").table
    truth = 100 * _mean_expit(now, 1.0)[[int(m[1:]) for m in found["model"]]]
    lo, hi, score, plain = (found[c].to_numpy() for c in ("lo_pct", "hi_pct", "equated_pct", "new_pct"))
    inside = [None if np.isnan(a) else int(a <= t <= b) for a, t, b in zip(lo, truth, hi, strict=True)]
    return inside, (score - truth).tolist(), (plain - truth).tolist()


def _runs(ability: np.ndarray, difficulty: np.ndarray, names: np.ndarray, who: str, rng: np.random.Generator) -> Any:
    """Tests of a round as a runs table."""
    chance = _expit(ability[:, None] - difficulty.ravel())
    scores = rng.random((*chance.shape, SEEDS)) < chance[:, :, None]
    r, t, s = (index.ravel() for index in np.indices(scores.shape))
    tasks = names.ravel()[t]
    return pl.DataFrame(
        {
            "model": np.char.add(who, r.astype(str)),
            "task_id": tasks,
            "dimension": [name[:2] for name in tasks],
            "seed": s,
            "score": scores.ravel().astype(float),
        }
    ).with_columns(version=pl.lit("test"), status=pl.lit("ok"))


def study(data_sets: int, rounds: int) -> dict[str, Any]:
    """Coverage in every cell."""
    cells = []
    for per_side, dimensions in SIZES:
        for chance in CHANCES:
            for families in (False, True):
                if families and chance not in CHANCES[:2]:
                    continue
                key = (per_side, dimensions, list(chance), families)
                found = [covered(*key, i) for i in range(data_sets)]
                shown = [v for v in found if v is not None]
                cells.append(
                    {
                        **dict(zip(("per_side", "dimensions", "chance", "families"), key, strict=True)),
                        "coverage_pct": 100 * float(np.mean(shown)),
                        "without_pct": 100 * (1 - len(shown) / data_sets),
                        "first": found[:FIRST],
                    }
                )
                print(cells[-1] | {"first": ""}, file=sys.stderr)
    linked = []
    for anchors, harder in ROUNDS:
        draws = [equated(anchors, harder, i) for i in range(rounds)]
        inside = [v for draw in draws for v in draw[0]]
        shown = [v for v in inside if v is not None]
        linked.append(
            {
                "anchors": anchors,
                "harder": harder,
                "coverage_pct": 100 * float(np.mean(shown)),
                "without_pct": 100 * (1 - len(shown) / len(inside)),
                "bias_points": float(np.mean([e for draw in draws for e in draw[1]])),
                "unadjusted_bias_points": float(np.mean([e for draw in draws for e in draw[2]])),
                "rmse_points": float(np.sqrt(np.mean([e**2 for draw in draws for e in draw[1]]))),
                "first": [draw[0] for draw in draws[:2]],
            }
        )
        print(linked[-1] | {"first": ""}, file=sys.stderr)
    return {
        "made_by": "python benchmarks/rounds_coverage.py --write",
        "data_sets": data_sets,
        "rounds": rounds,
        "contamination": cells,
        "equate": linked,
    }


def main() -> None:
    """Print the study, and store it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    text = json.dumps(study(args.data_sets, args.rounds), indent=1) + "\n"
    if args.write:
        RESULT.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
