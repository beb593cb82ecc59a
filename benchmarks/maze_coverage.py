"""Do the intervals of the maze statistics cover what they should where mazes are few and played several times?

A maze's chance that a model solves it is 0.95 or 0.15, half each, alone with the distributed map (mean 0.55), and 0.75
or 0.05 as a pair of copies (mean 0.40), easy and hard in the same mazes: the true gap is 0.15. Drawn again and again
with 3, 5, 10 and 20 mazes, each played 1, 5 and 10 times. `gap` takes its intervals over mazes and pairs the difference
by maze; beside it stands what it does by `cluster="rollout"`, the paper's plain standard errors.

    python benchmarks/maze_coverage.py [--data-sets 2000] [--write]

`--write` stores the result in tests/golden/maze_coverage.json, which `tests/stats/test_maze_coverage.py` holds against
the promise (at least 93 % wherever an interval is shown, at most 97 % from 10 mazes on) and whose first data sets it
computes again. All data here are simulated. Takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

RESULT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "maze_coverage.json"
MAZES, REPEATS = (3, 5, 10, 20), (1, 5, 10)
#: Chance of an easy and of a hard maze, alone and as a pair; half of the mazes are easy.
ALONE, PAIR = (0.95, 0.15), (0.75, 0.05)
#: Data sets whose verdicts are stored one by one, so that a test can draw them again.
FIRST = 20
_STREAM = 20261208
_NAMES = ("pair", "gap")


def truths() -> dict[str, float]:
    """Expected mean of a pair, and expected gap, over new mazes; what is not solved has a weighted outcome of 0."""
    alone, pair = (sum(chances) / 2 for chances in (ALONE, PAIR))
    return {"pair": pair, "gap": alone - pair}


def drawn(mazes: int, repeats: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes alone and as a pair of data set `number`, 0 or 1, each of shape (mazes, repeats)."""
    rng = np.random.default_rng([_STREAM, mazes, repeats, number])
    easy = rng.random((mazes, 1)) < 0.5
    shape = (mazes, repeats)
    return tuple((rng.random(shape) < np.where(easy, *chances)).astype(float) for chances in (ALONE, PAIR))  # type: ignore[return-value]


def intervals(alone: np.ndarray, pair: np.ndarray, *, share: bool, plain: bool = False) -> dict[str, dict[str, Any]]:
    """What `gap` shows of a pair's mean and of the gap: from arrays, as it does from rollouts."""
    from cilab.stats.methods.means import Sample, Units, clustered_contrast, clustered_mean

    units = Units("maze", share=share, fraction=not share, plain=plain)
    mazes, repeats = pair.shape
    codes = np.repeat(np.arange(mazes), repeats)
    one, other = Sample(alone.ravel(), codes), Sample(pair.ravel(), codes)
    return {"pair": clustered_mean(other, units), "gap": clustered_contrast([(1, one), (-1, other)], units)}


def verdicts(mazes: int, repeats: int, number: int, *, share: bool, plain: bool = False) -> list[int | None]:
    """Whether the intervals of a pair's mean and of the gap hold the truth; None where none is shown."""
    found = intervals(*drawn(mazes, repeats, number), share=share, plain=plain)
    truth = truths()
    return [None if found[n]["lo"] is None else int(found[n]["lo"] <= truth[n] <= found[n]["hi"]) for n in _NAMES]


def study(data_sets: int = 2000) -> dict[str, Any]:
    """Coverage of every design, as fractions of the data sets that have an interval."""
    lines = []
    for mazes in MAZES:
        for repeats in REPEATS:
            plain = [verdicts(mazes, repeats, i, share=False, plain=True) for i in range(data_sets)]
            for outcome in ("weighted_outcome", "success"):
                share = outcome == "success"
                held = [verdicts(mazes, repeats, i, share=share) for i in range(data_sets)]
                for at, name in enumerate(_NAMES):
                    shown = [v[at] for v in held if v[at] is not None]
                    beside = [v[at] for v in plain if v[at] is not None]
                    lines.append(
                        {
                            "mazes": mazes,
                            "repeats": repeats,
                            "outcome": outcome,
                            "number": name,
                            "coverage": round(sum(shown) / len(shown), 4),
                            "without_interval": round(1 - len(shown) / data_sets, 4),
                            "coverage_by_rollout": round(sum(beside) / len(beside), 4),
                            "first": [v[at] for v in held[:FIRST]],
                        }
                    )
    return {"made_by": "python benchmarks/maze_coverage.py --write", "data_sets": data_sets, "lines": lines}


def main() -> int:
    """Run the study and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    result = study(given.data_sets)
    if given.write:
        lines = ",\n".join(f"  {json.dumps(line)}" for line in result.pop("lines"))
        head = json.dumps(result, indent=1)[:-2]
        RESULT.write_text(f'{head},\n "lines": [\n{lines}\n ]\n}}\n')
        result = json.loads(RESULT.read_text())
    for x in result["lines"]:
        print(
            f"{x['mazes']:>3} mazes x {x['repeats']:>2}  {x['outcome']:<17}{x['number']:<5}{x['coverage']:.3f}  "
            f"without {x['without_interval']:.3f}  by rollout {x['coverage_by_rollout']:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
