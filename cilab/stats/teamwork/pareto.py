"""Scores against what the evaluation cost, and which rows nobody beats in both.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import number
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.uncertainty import IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.task_runs import TaskResult, overall_draws, percent_series, usage


@dataclass(frozen=True, kw_only=True, repr=False)
class Pareto(TaskResult):
    """Scores against the cost of the evaluation.

    Attributes
    ----------
    table : see `pareto`.
    unpriced : row -> why it is left out: the cost of some of its runs is unknown, or it has no overall score.
    """

    unpriced: Mapping[str, str]

    figure: ClassVar[str | None] = "pareto"
    title: ClassVar[str] = "The cost of a score"

    def sheet(self) -> Sheet:
        """One line per row, cheapest first; a star marks the frontier."""
        lines = [
            {
                "Row": r["row"],
                "Score (%)": number(r["score_pct"]),
                "Cost (USD)": number(r["cost_usd"], 2),
                "Points per USD": number(r["points_per_usd"], 2),
                "Frontier": "*" if r["on_frontier"] else "",
                "In resamples (%)": number(r["frontier_pct"], 0),
                "Beaten by": r["beaten_by"] or "",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines)

    def notes(self) -> list[str]:
        """As in `Result`, with the rows that are left out by name."""
        out = super().notes()
        return [*out[:-1], *([f"Not shown: {by_reason(self.unpriced)}."] if self.unpriced else []), out[-1]]


@estimator
def pareto(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Pareto:
    """Score of every row against the cost of its whole evaluation, and the rows that no cheaper row beats.

    The cost is that of the model under test in all its runs of the tasks that are asked for, scored or not. A row
    is on the frontier unless another one scores at least as much for at most as much money, and is better in one of
    the two. Every row enters: all effort settings and arms.

    Parameters
    ----------
    study : opened study, data set, or runs table with `cost_usd`.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Pareto
        `.table`, cheapest first: `row, model, effort, arm, score_pct, lo_pct, hi_pct, cost_usd, points_per_usd,
        on_frontier, frontier_pct` (share of the resamples with a score for every row in which the row is on the
        frontier; null where rows are not paired by task, or one has no interval), `beaten_by` (the best row that is no
        dearer; null on the frontier).

    Raises
    ------
    TableError
        No row has both a score and a known cost; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, section 3.3, figure 4.
    """
    whole = grid(study, **scope)
    cost = usage(study, whole)["cost"]
    score = bootstrap.overall_means(whole.points())
    unpriced = _unpriced(whole, cost, score)
    rows = [r for r in np.argsort(cost, kind="stable").tolist() if whole.names[r] not in unpriced]
    if not rows:
        raise TableError(f"pareto: no row has a score and a known cost: {by_reason(unpriced)}")
    g = whole.take(rows)
    how = task_runs.resampled(whole, resamples, seed, interval, ci_level).take(rows)
    score, draws = overall_draws(g, how.counts)
    cost = cost[rows]
    if interval == "rule":
        bounds = intervals.overall(g, score, ci_level=ci_level)
    else:
        bounds = [how.bounds(of, used) for of, used in zip(draws.T, g.scored, strict=True)]
    beaten = _beaten(score[None], cost)[0]
    share = np.full(len(rows), np.nan)
    whole_draws = draws[np.isfinite(draws).all(axis=1)]
    if len(whole_draws) and not g.unknown_tasks and all(b.lo is not None for b in bounds):
        share = 1 - _beaten(whole_draws, cost).any(axis=2).mean(axis=0)
    used = int(g.runs["used"].sum())
    return Pareto(
        table=g.rows.select("row", *ROW).with_columns(
            percent_series("score_pct", score),
            *intervals.columns(bounds),
            pl.Series("cost_usd", cost),
            pl.Series("points_per_usd", [100 * s / c if c > 0 else None for s, c in zip(score, cost, strict=True)]),
            pl.Series("on_frontier", ~beaten.any(axis=1)),
            percent_series("frontier_pct", share),
            pl.Series("beaten_by", _best_of(beaten, score, cost, g.names), dtype=pl.String),
        ),
        unpriced=unpriced,
        resamples=resamples,
        seed=seed,
        remarks=whole.notes,
        n_used=used,
        n_left_out=task_runs.left_out(whole, used, {"of rows without a known cost or a score": whole.n_used - used}),
        provenance=g.provenance,
        parameters=g.asked,
        caption="Overall score in percent against the cost of the model under test in its whole evaluation, in USD.",
    )


def _unpriced(g: Grid, cost: Array, score: Array) -> dict[str, str]:
    out = {}
    for name, c, s in zip(g.names, cost, score, strict=True):
        if np.isnan(c):
            out[name] = "the cost of some of its runs is unknown"
        elif np.isnan(s):
            which = "scored task" if g.gate == "off" else "task solved alone"
            out[name] = f"no overall score: a dimension without a {which}"
    return out


def by_reason(left_out: Mapping[str, str]) -> str:
    """Rows behind each reason why they are left out, each reason once."""
    rows: dict[str, list[str]] = {}
    for row, why in left_out.items():
        rows.setdefault(why, []).append(row)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in rows.items())


def _beaten(score: Array, cost: Array) -> np.ndarray:
    """[..., i, j]: row j scores at least as much as row i for at most as much, and one of the two is strict."""
    rounded = np.round(score, 12)
    higher = rounded[..., None, :] > rounded[..., :, None]
    same = rounded[..., None, :] == rounded[..., :, None]
    cheaper, as_cheap = cost[None, :] < cost[:, None], cost[None, :] <= cost[:, None]
    return (higher & as_cheap) | (same & cheaper)


def _best_of(beaten: np.ndarray, score: Array, cost: Array, names: Sequence[str]) -> list[str | None]:
    out: list[str | None] = []
    for by in beaten:
        better = np.flatnonzero(by)
        out.append(names[min(better, key=lambda j: (-score[j], cost[j]))] if len(better) else None)
    return out
