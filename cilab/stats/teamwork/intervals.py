"""Intervals of what is read off a grid: the rule of uncertainty, or the papers' percentiles by name.

May import `cilab.core` and its own folder. When an interval is shown and which is settled in
`cilab.stats.methods.uncertainty`; here rows, dimensions and clusters of a grid are handed to it, and what it says
becomes columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL
from cilab.stats.methods import uncertainty
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork.grid import Grid

#: Columns that stand beside every interval.
EXTRA = {"no_interval": pl.String, "n_clusters": pl.Int64}
#: Why rows whose tasks nobody published have no paired interval.
UNPAIRED = "tasks are not known: rows are not paired"


def units(g: Grid) -> str:
    """What was sampled, in words: `tasks`, `families`."""
    return uncertainty.too_few(2, g.cluster_name).split(" ", 3)[3]


def n_clusters(g: Grid, used: Mask) -> int:
    """Independent units among the `used` tasks, shape (T,)."""
    return len(np.unique(g.clusters[used]))


def mean(g: Grid, values: Array, used: Mask, *, ci_level: float = CI_LEVEL) -> Bounds:
    """Interval of one row's mean over dimensions, over those in which it uses a task.

    Parameters
    ----------
    g : the grid.
    values : shape (T,), fractions.
    used : which tasks count, shape (T,).
    """
    at = np.flatnonzero(used)
    of = g.dimension_of[at]
    return uncertainty.mean_bounds(
        values[at],
        strata=of,
        clusters=g.clusters[at],
        ci_level=ci_level,
        unit=g.cluster_name,
        names=[g.dimensions[d] for d in np.unique(of)],
    )


def overall(g: Grid, points: Array, *, used: Mask | None = None, ci_level: float = CI_LEVEL) -> list[Bounds]:
    """Interval of each row's overall score; empty where `points`, shape (R,), are undefined."""
    used = g.scored if used is None else used
    return [
        mean(g, v, u, ci_level=ci_level) if np.isfinite(p) else Bounds()
        for v, u, p in zip(g.values, used, points, strict=True)
    ]


def by_dimension(g: Grid, *, used: Mask | None = None, ci_level: float = CI_LEVEL) -> list[list[Bounds]]:
    """Interval of each row's score in each dimension; empty where the row has no task."""
    used = g.scored if used is None else used
    within = [g.dimension_of == d for d in range(len(g.dimensions))]
    return [
        [mean(g, v, u & here, ci_level=ci_level) if (u & here).any() else Bounds() for here in within]
        for v, u in zip(g.values, used, strict=True)
    ]


def of_rows(g: Grid, rows: Sequence[int], d: int | None = None) -> tuple[float, Array, Array, Array]:
    """The mean over rows of their scores (overall, or in dimension `d`) as a sum of the tasks' contributions.

    Returns
    -------
    tuple
        The mean; influence, weight and centre of each task (see `uncertainty.linear_bounds`), each of shape (T,).
    """
    influence, weight, centre = np.zeros((3, g.tasks.height))
    points = g.points()[list(rows)]
    slices = list(enumerate(g.slices)) if d is None else [(d, g.slices[d])]
    for at, r in enumerate(rows):
        for k, tasks in slices:
            used = g.scored[r, tasks]
            share = used / (max(1, used.sum()) * len(slices) * len(rows))
            point = points[at, k]
            influence[tasks] += np.where(used, share * (np.nan_to_num(g.values[r, tasks]) - point), 0.0)
            weight[tasks] += share
            centre[tasks] += share * point
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.where(weight > 0, centre / weight, 0.0)
    found = points.mean(axis=1) if d is None else points[:, d]
    return float(found.mean()), influence, weight, centre


def linear(
    g: Grid,
    point: float,
    influence: Array,
    weight: Array | None = None,
    centre: Array | None = None,
    *,
    used: Mask | None = None,
    n_rows: int = 1,
    ci_level: float = CI_LEVEL,
) -> Bounds:
    """Interval of a sum of contributions, each of shape (T,); without `weight` and `centre` of a difference.

    `used` says which tasks carry it, by default those with a weight; `n_rows`, over how many rows each is a mean.
    """
    if used is None:
        used = influence != 0 if weight is None else weight > 0
    at = np.flatnonzero(used)
    of = g.dimension_of[at]
    return uncertainty.linear_bounds(
        point,
        influence[at],
        weight=None if weight is None else weight[at],
        at=None if centre is None else centre[at],
        runs=np.full(len(at), float(n_rows)),
        strata=of,
        clusters=g.clusters[at],
        span=None if weight is None else (0.0, 1.0),
        ci_level=ci_level,
        unit=g.cluster_name,
        names=[g.dimensions[d] for d in np.unique(of)],
    )


def share(g: Grid, above: Array, below: Array, *, ci_level: float = CI_LEVEL) -> Bounds:
    """Interval of a pooled share: the sum of `above` over that of `below`, both of shape (T,)."""
    return uncertainty.ratio_bounds(
        above, below, strata=g.dimension_of, clusters=g.clusters, ci_level=ci_level, unit=g.cluster_name
    )


def drawn(
    g: Grid,
    draws: Array,
    used: Mask,
    *,
    interval: IntervalKind = "rule",
    ci_level: float = CI_LEVEL,
) -> Bounds:
    """Interval of any quantity that rests on the `used` tasks, shape (T,), from its replicates."""
    of = g.dimension_of[used]
    n = n_clusters(g, used)
    nested = n == sum(len(np.unique(g.clusters[used][of == d])) for d in np.unique(of))
    return uncertainty.draw_bounds(
        draws,
        n,
        strata=max(1, len(np.unique(of))) if nested else 1,
        interval=interval,
        ci_level=ci_level,
        unit=g.cluster_name,
    )


def percentiles(points: Array, lo: Array, hi: Array, n: NDArray[np.int64] | Sequence[int]) -> list[Bounds]:
    """Plain percentiles as intervals of `points`; none where an end is NaN, nothing where the point is."""
    return [
        Bounds(n_clusters=int(k), reason=None if np.isnan(p) else "too few to resample")
        if np.isnan([p, a, b]).any()
        else Bounds(float(a), float(b), int(k))
        for p, a, b, k in zip(np.ravel(points), np.ravel(lo), np.ravel(hi), np.ravel(n), strict=True)
    ]


def percent(value: float) -> float | None:
    """A fraction in percent, a difference of such in points; None where it is undefined."""
    return 100 * float(value) if np.isfinite(value) else None


def cells(found: Bounds, prefix: str = "", unit: str = "pct") -> dict[str, float | int | str | None]:
    """An interval of fractions as the cells of a line: `lo_pct, hi_pct, no_interval, n_clusters`."""
    lo, hi = found.times(100)[:2]
    return {
        f"{prefix}lo_{unit}": lo,
        f"{prefix}hi_{unit}": hi,
        f"{prefix}no_interval": found.reason,
        f"{prefix}n_clusters": found.n_clusters,
    }


def columns(found: Sequence[Bounds], unit: str = "pct") -> list[pl.Series]:
    """Intervals of fractions as columns: `lo_pct, hi_pct, no_interval, n_clusters`."""
    lines = [cells(bounds, unit=unit) for bounds in found]
    kinds = {f"lo_{unit}": pl.Float64, f"hi_{unit}": pl.Float64, **EXTRA}
    return [pl.Series(name, [line[name] for line in lines], dtype=kind) for name, kind in kinds.items()]


def table(lines: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Lines with intervals among them as a frame; a column of reasons is text although every line has an interval."""
    found = pl.DataFrame(lines, infer_schema_length=None)
    return found.with_columns(pl.col("^(.*_)?no_interval$").cast(pl.String))
