"""Public against held-out tasks, row by row: has a model seen the public ones?

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import two_means, uncertainty
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.hypothesis_tests import adjust
from cilab.stats.methods.uncertainty import Bounds
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import split_mask
from cilab.stats.teamwork.task_runs import left_out

PUBLIC, HELD_OUT = "public", "held_out"
_SIDES = ("public", "held out")
_SCORES = ("public_pct", "held_out_pct")
_UP = [False] * len(ROW)
#: Level of p below which a sentence names a row.
_SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True, repr=False)
class Contamination(Result):
    """Public less held-out score of every row.

    Attributes
    ----------
    table : see `contamination`.
    dimensions : one line per row and dimension that has tasks of both sets: `model, effort, arm, dimension, public_pct,
        held_out_pct, diff_points, lo_points, hi_points, no_interval, n_clusters, n_public, n_held_out`.
    """

    dimensions: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "contamination"
    title: ClassVar[str] = "Public against held-out tasks"

    def sheet(self) -> Sheet:
        """One line per row: both scores, their difference, p, what could be found, and the gap beyond other rows'."""
        lines = []
        for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True):
            own = Interval.of(r, "diff_points", "lo_points", "hi_points")
            beyond = Interval(r["beyond_points"], r["beyond_lo_points"], r["beyond_hi_points"])
            lines.append(
                {
                    "Row": name,
                    "Public (%)": number(r["public_pct"], missing=NONE),
                    "Held out (%)": number(r["held_out_pct"], missing=NONE),
                    "Difference": number(r["diff_points"], missing=NONE),
                    "Interval": own.span(r["no_interval"] or NONE),
                    "p (Holm)": p_value(r["p_holm"], missing=NONE),
                    "Detectable": number(r["detectable_points"], missing=NONE),
                    "Beyond other rows": number(r["beyond_points"], missing=NONE),
                    "Its interval": beyond.span(r["beyond_no_interval"] or NONE),
                    "Its p (Holm)": p_value(r["beyond_p_holm"], missing=NONE),
                }
            )
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and how the numbers are to be read."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def contamination(study: Any, *, ci_level: Level = CI_LEVEL, **scope: Unpack[Scope]) -> Contamination:
    """Score on the public tasks less that on the held-out ones, for every row, and beyond what other rows show.

    A model that has seen the public tasks, or what was written about them, does better there. So does every model if
    the held-out tasks are harder; therefore each row's difference also stands beside the mean difference of the others
    (`beyond_...`): what is left is the row's own.

    The two sets have no task in common: the difference is taken within each dimension that has tasks of both, and
    averaged over dimensions. Its interval puts the score intervals of the two sides together (Newcombe 1998), so that
    it has a width where a row passes everything; clusters that have tasks in both sets make the sides hang together,
    which is allowed for. The difference beyond other rows is paired by task and has the t interval of
    `cilab.stats.methods.uncertainty`. p-values are corrected over rows (Holm).

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set; `split` of runs or tasks says `public` or
        `held_out`. Tasks of another split, or of none, are left out and counted.
    ci_level : a fraction.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Contamination
        `.table`, largest difference first: `model, effort, arm, public_pct, held_out_pct` (those of the leaderboard
        where every dimension has tasks of both sets), `diff_points, lo_points, hi_points, no_interval, n_clusters, p,
        p_holm, detectable_points` (the least difference that would be found with 80 % power), `beyond_points` (less the
        mean difference of the other rows), `beyond_lo_points, beyond_hi_points, beyond_no_interval,
        beyond_n_clusters, beyond_p, beyond_p_holm, n_public, n_held_out` (scored tasks), `reason` (why there is no
        difference).

    Raises
    ------
    TableError
        No task is public, or none held out; no dimension has both; or as in `grid`.

    References
    ----------
    Newcombe (1998), Interval estimation for the difference between independent proportions. Bloom (1995), Minimum
    detectable effects. Collaborative-intelligence paper, table 2 (public and held-out scores).

    Examples
    --------
    >>> from cilab.testing import grid as played
    >>> split = ["public"] * 4 + ["held_out"] * 4
    >>> found = contamination(played([[1, 1, 1, 1, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0, 0, 1]], split=split)).table
    >>> found.select("model", "diff_points", "beyond_points").rows()
    [('m0', 50.0, 50.0), ('m1', 0.0, -50.0)]
    """
    whole = grid(study, **scope)
    g, gone = _both_sets(whole)
    public = split_mask(g, PUBLIC)
    measured = [_measured(g, r, public, ci_level) for r in range(g.rows.height)]
    beyond = _beyond(g, public, [m.point for m in measured], ci_level)
    lines = []
    for r, key in enumerate(g.rows.select(ROW).iter_rows(named=True)):
        found, (gap, gap_bounds) = measured[r], beyond[r]
        found_at = uncertainty.detectable(found.bounds, ci_level=ci_level)
        lines.append(
            {
                **key,
                "public_pct": intervals.percent(found.public),
                "held_out_pct": intervals.percent(found.held_out),
                "diff_points": intervals.percent(found.point),
                **intervals.cells(found.bounds, unit="points"),
                "p": found.p,
                "detectable_points": None if found_at is None else 100 * found_at,
                "beyond_points": intervals.percent(gap),
                **intervals.cells(gap_bounds, "beyond_", "points"),
                "beyond_p": uncertainty.t_test_p(gap, gap_bounds) if np.isfinite(gap) else None,
                "n_public": int((g.scored[r] & public).sum()),
                "n_held_out": int((g.scored[r] & ~public).sum()),
                "reason": found.reason,
            }
        )
    table = with_holm(intervals.table(lines), "p", "beyond_p").with_columns(pl.col(*ROW, "reason").cast(pl.String))
    table = table.sort("diff_points", *ROW, descending=[True, *_UP], nulls_last=[True, *_UP])
    n_used = int(whole.runs.filter("used")["t"].is_in(np.flatnonzero(_kept(whole, g)).tolist()).sum())
    return Contamination(
        table=table,
        dimensions=_by_dimension(g, public, ci_level),
        remarks=(*g.notes, *gone, *_remarks(table)),
        n_used=n_used,
        n_left_out=left_out(whole, n_used, {"of tasks without both sets in their dimension": whole.n_used - n_used}),
        provenance=g.provenance,
        parameters={**g.asked, "dimensions": list(g.dimensions)},
        caption=(
            f"Percent and points. {percent(ci_level)} intervals over {intervals.units(g)} within dimension; p "
            f"corrected over {g.rows.height} rows (Holm). Beyond other rows: less the mean difference of the others."
        ),
    )


def _kept(whole: Grid, part: Grid) -> Mask:
    """Which tasks of a grid are in a part of it."""
    return whole.tasks["task_id"].is_in(part.tasks["task_id"].to_list()).to_numpy()


def _both_sets(g: Grid) -> tuple[Grid, list[str]]:
    """The tasks of dimensions in which tasks of both sets are scored, and sentences on what is left out."""
    masks = {split: split_mask(g, split) for split in (PUBLIC, HELD_OUT)}
    scored = g.scored.any(axis=0)
    there = sorted({s or "no split" for s in g.tasks["split"].to_list()})
    for split, mask in masks.items():
        if not (mask & scored).any():
            raise TableError(
                f"contamination compares public with held-out tasks, but no scored task is {split.replace('_', ' ')} "
                f"(there is: {', '.join(there)}); say it in the column split of the runs or tasks table"
            )
    known = masks[PUBLIC] | masks[HELD_OUT]
    out = []
    if other := int((scored & ~known).sum()):
        out.append(f"Tasks neither public nor held out, so left out: {other}.")
    full = [all((mask & scored)[d].any() for mask in masks.values()) for d in g.slices]
    lost = [name.replace("_", " ") for name, ok in zip(g.dimensions, full, strict=True) if not ok]
    if not any(full):
        raise TableError("contamination: no dimension has scored tasks of both sets, so there is nothing to compare")
    if lost:
        out.append(
            f"Without tasks of both sets, so left out: {', '.join(lost)}; the leaderboard's public and held-out scores "
            "are over all dimensions."
        )
    keep = known & np.repeat(full, [d.stop - d.start for d in g.slices])
    return g.where(keep), out


@dataclass(frozen=True, slots=True)
class _Measured:
    """A row's two scores (fractions, NaN where there are none) and their difference."""

    public: float
    held_out: float
    point: float
    bounds: Bounds
    p: float | None
    reason: str | None


def _measured(g: Grid, r: int, public: Mask, ci_level: float) -> _Measured:
    used, sides = g.scored[r], []
    for side in (public, ~public):
        of = [g.values[r, d][(used & side)[d]] for d in g.slices]
        sides.append(float(np.mean([v.mean() for v in of])) if all(len(v) for v in of) else np.nan)
    missing = [
        f"no scored {word} task in {name.replace('_', ' ')}"
        for name, d in zip(g.dimensions, g.slices, strict=True)
        for word, side in zip(_SIDES, (public, ~public), strict=True)
        if not (used & side)[d].any()
    ]
    if missing:
        return _Measured(sides[0], sides[1], np.nan, Bounds(reason=missing[0]), None, missing[0])
    at = np.flatnonzero(used)
    found = two_means.difference(
        g.values[r, at],
        public[at],
        strata=g.dimension_of[at],
        clusters=g.clusters[at],
        ci_level=ci_level,
        unit=g.cluster_name,
        sides=_SIDES,
    )
    return _Measured(sides[0], sides[1], found.point, found.bounds, found.p, None)


def _contributions(g: Grid, r: int, public: Mask) -> Array:
    """What each task adds to a row's difference, beyond its mean; shape (T,), sums to 0 in each set of a dimension."""
    out = np.zeros(g.tasks.height)
    for d in g.slices:
        for sign, side in ((1, public), (-1, ~public)):
            here = np.flatnonzero((g.scored[r] & side)[d]) + d.start
            values = g.values[r, here]
            out[here] = sign * (values - values.mean()) / (len(here) * len(g.slices))
    return out


def _beyond(g: Grid, public: Mask, points: list[float], ci_level: float) -> list[tuple[float, Bounds]]:
    """Each row's difference less the mean of the other rows', paired by task."""
    there = [r for r, p in enumerate(points) if np.isfinite(p)]
    none = Bounds(reason="no other row to compare with")
    if g.unknown_tasks:
        none = Bounds(reason=intervals.UNPAIRED)
    moves = {r: _contributions(g, r, public) for r in there}
    strata = 2 * g.dimension_of + public
    if _crossing(g.clusters, strata):
        strata = g.dimension_of
    out: list[tuple[float, Bounds]] = []
    for r in range(g.rows.height):
        others = [q for q in there if q != r]
        if r not in moves:
            out.append((np.nan, Bounds()))
            continue
        if not others:
            out.append((np.nan, none))
            continue
        point = points[r] - float(np.mean([points[q] for q in others]))
        if g.unknown_tasks:
            out.append((point, none))
            continue
        influence = moves[r] - np.mean([moves[q] for q in others], axis=0)
        at = np.flatnonzero(g.scored[[r, *others]].any(axis=0))
        out.append(
            (
                point,
                uncertainty.linear_bounds(
                    point,
                    influence[at],
                    strata=strata[at],
                    clusters=g.clusters[at],
                    span=None,
                    ci_level=ci_level,
                    unit=g.cluster_name,
                ),
            )
        )
    return out


def _crossing(clusters: Any, strata: Any) -> bool:
    """Whether a cluster has tasks of several strata."""
    return len(np.unique(np.stack([clusters, strata]), axis=1).T) > len(np.unique(clusters))


def _by_dimension(g: Grid, public: Mask, ci_level: float) -> pl.DataFrame:
    lines = []
    for r, key in enumerate(g.rows.select(ROW).iter_rows(named=True)):
        for name, d in zip(g.dimensions, g.slices, strict=True):
            at = np.flatnonzero(g.scored[r, d]) + d.start
            sides = [g.values[r, at[side[at]]] for side in (public, ~public)]
            line = {**key, "dimension": name}
            line |= {c: intervals.percent(v.mean()) if len(v) else None for c, v in zip(_SCORES, sides, strict=True)}
            if all(len(v) for v in sides):
                found = two_means.difference(
                    g.values[r, at],
                    public[at],
                    clusters=g.clusters[at],
                    ci_level=ci_level,
                    unit=g.cluster_name,
                    sides=_SIDES,
                    test=False,
                )
                line |= {"diff_points": intervals.percent(found.point), **intervals.cells(found.bounds, unit="points")}
            else:
                word = _SIDES[0] if not len(sides[0]) else _SIDES[1]
                line |= {"diff_points": None, **intervals.cells(Bounds(reason=f"no scored {word} task"), unit="points")}
            lines.append(line | {"n_public": len(sides[0]), "n_held_out": len(sides[1])})
    return intervals.table(lines).with_columns(pl.col(*ROW).cast(pl.String))


def with_holm(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The columns of p-values with one corrected over the rows beside each."""
    for name in columns:
        adjusted = pl.Series(f"{name}_holm", adjust(table[name].to_list(), method="holm").adjusted, dtype=pl.Float64)
        table = table.with_columns(pl.col(name).cast(pl.Float64))
        table = table.insert_column(table.get_column_index(name) + 1, adjusted)
    return table


def _remarks(table: pl.DataFrame) -> list[str]:
    out = []
    if n := int(table["reason"].is_not_null().sum()):
        out.append(f"Rows without a difference: {n} of {table.height} (column reason says why).")
    found = table.filter((pl.col("beyond_p_holm") < _SIGNIFICANT) & (pl.col("beyond_points") > 0))
    if found.height:
        out.append(
            f"Better on public tasks, beyond other rows' difference (p < {_SIGNIFICANT:g}, Holm): "
            f"{', '.join(names_of(found))}."
        )
    mean = table["diff_points"].mean()
    if mean is not None and table["diff_points"].count() > 1:
        out.append(
            f"The mean difference over rows is {number(mean)} points: what all rows share may be the difficulty of the "  # type: ignore[arg-type]
            "two sets and not what was seen before."
        )
    return out
