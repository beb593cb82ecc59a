"""Runs tables by hand for the tests of the maze statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import stats as scipy_stats

from cilab import testing
from cilab.core.tables import TABLES
from cilab.datasets.dataset import Dataset
from cilab.stats.methods.uncertainty import mean_bounds

Outcomes = Sequence[float | None]


def rollouts(
    version: str, model: str, partner: str | None, outcomes: Outcomes, *, first_maze: int = 0, **columns: Any
) -> list[dict[str, Any]]:
    """Finished rollouts in mazes m0, m1, ...; an outcome of None is a refused rollout."""
    label = "-".join(map(str, (version, model, partner, *columns.values())))
    maze = {"benchmark": "maze", "dimension": None, "partner_model": partner, "maze_size": 6, "wall_density": 0.3}
    rows = []
    for i, value in enumerate(outcomes, first_maze):
        known = {"status": "refused"} if value is None else {"status": "ok", "weighted_outcome": value}
        known |= {"run_id": f"{label}-{i}", "success": None if value is None else value == 1.0}
        rows.append(testing.run(model, f"m{i}", version, None, **(maze | known | columns)))
    return rows


def pair(a: str, b: str, outcomes: Outcomes, **columns: Any) -> list[dict[str, Any]]:
    """Rollouts of a starter and a follower."""
    return rollouts("pair", a, b, outcomes, **columns)


def guarded(values: Sequence[float]) -> tuple[float, float]:
    """Interval of a mean of a few fractions, one for each maze: Student's t by SciPy, no narrower than the score's."""
    t = scipy_stats.ttest_1samp(values, 0).confidence_interval()
    score = mean_bounds(np.array(values))
    assert score.lo is not None and score.hi is not None
    return float(min(t.low, score.lo)), float(max(t.high, score.hi))


def frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A runs table of these rows, right or wrong."""
    return pl.DataFrame(list(rows), schema=TABLES["runs"].schema)


def dataset(rows: Sequence[Mapping[str, Any]], **tables: Sequence[Mapping[str, Any]]) -> Dataset:
    """A data set of these runs and further tables."""
    return testing.study(rows, simulated=True, **tables)
