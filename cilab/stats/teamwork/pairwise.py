"""A study's rows compared pair by pair over the tasks that both solve alone, and their Bradley-Terry abilities.

May import `cilab.core`, `cilab.results`, `cilab.stats.methods` and its own folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, readable
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.bradley_terry import BradleyTerry, Ties, bradley_terry, exists, newton_together
from cilab.stats.methods.hypothesis_tests import kendall_tau_b
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks
from cilab.stats.teamwork.task_runs import SAME


@dataclass(frozen=True, kw_only=True, repr=False)
class PairwiseResult(Result):
    """Bradley-Terry rating of rows beside their leaderboard rank.

    Attributes
    ----------
    table : one line per row, best first: `model, effort, arm, rating_rank, log_ability, lo, hi` (log-odds against the
        average row of its part), `no_interval` (why there is none), `n_clusters` (tasks, or clusters of them, on
        which the row is compared), `part`, `score_rank, rank_change` (positive: the rating ranks it lower), `wins,
        losses, ties, n_comparisons`.
    estimate : the underlying `BradleyTerry`.
    kendall_tau_b : between rating and overall score; None where a rating or a score is missing.
    n_undefined : resamples without a finite estimate, left out of the intervals.
    """

    estimate: BradleyTerry
    kendall_tau_b: float | None
    n_undefined: int
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    title: ClassVar[str] = "Pairwise rating on commonly solved tasks"

    def sheet(self) -> Sheet:
        """One line per row, best first."""
        names = pl.Series("row", names_of(self.table), dtype=pl.String)
        one = self.table["part"].n_unique() == 1
        hidden = (*ROW, "lo", "hi", "no_interval", "n_clusters", *(("part",) if one else ()))
        columns = [c for c in self.table.columns if c not in hidden]
        ends = (Interval.of(r, "log_ability", "lo", "hi", digits=3) for r in self.table.iter_rows(named=True))
        shown = self.table.select(names, *columns)
        interval = pl.Series("interval", [each.span(NONE) for each in ends], dtype=pl.String)
        shown.insert_column(shown.get_column_index("log_ability") + 1, interval)
        return self.on_sheet(readable(shown), stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and where no estimate exists."""
        out = super().notes()
        more = [*self.remarks]
        if not self.estimate.exists:
            more.append(f"No single rating exists: {self.estimate.reason}. Log abilities compare within a part only.")
        elif not self.table["lo"].count():
            why = self.table["no_interval"].drop_nulls().unique(maintain_order=True).to_list()
            more.append(f"No interval: {'; '.join(why)}.")
        if self.n_undefined:
            more.append(f"{self.n_undefined:,} of {self.resamples:,} resamples have no estimate and are left out.")
        return [*out[:-1], *more, out[-1]]


@estimator
def pairwise(
    study: Any,
    *,
    ridge: float = 0.0,
    ties: Ties = "davidson",
    interval: IntervalKind = "rule",
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> PairwiseResult:
    """A rating fitted only to pairwise comparisons, on the tasks that both rows solve alone.

    On each such task the row with the higher mean test score wins. Every comparison counts alike, so that a
    dimension in which more tasks are solved weighs more than in the overall score.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    ridge, ties : see `bradley_terry`. The log-odds are those of a task on which the two do not tie; as half wins, of
        the mean result, which many tasks that both pass pull towards 0.
    interval : `rule` (see `cilab.stats.methods.uncertainty`), or `percentile`: plain percentiles of the bootstrap.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension; the comparisons on one task are not
        independent, so that the model's own standard errors are too small.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    PairwiseResult
        Intervals are null, and `no_interval` says why, where more than 5 % of the resamples, or the data themselves,
        have no estimate, where a row is compared on too few tasks, or where every resample gives the same.

    Raises
    ------
    TableError
        One row only, no common task, only dropped ties, published task ids, or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.3.
    """
    g = grid(study, **scope)
    g.need_known_tasks("pairwise")
    if g.rows.height < 2:
        raise TableError("pairwise compares rows, and these runs have one only")
    wins, tied = _task_wins(g)
    records = _pair_records(g.names, wins, tied)
    if not records:
        raise TableError("pairwise: no task is solved alone and scored for two rows, so there is nothing to compare")
    estimate = bradley_terry(records, ridge=ridge, ties=ties)
    beats = wins + (0.5 * tied if ties == "half" else 0.0)
    modelled = tied if ties == "davidson" else np.zeros_like(tied)
    draws = np.full((1, g.rows.height), np.nan)
    if estimate.exists:
        draws = _resampled(beats, modelled, g, ridge, resamples, seed)
    met = ((wins + wins.transpose(0, 2, 1) + tied).sum(axis=2) > 0).T
    if estimate.exists:
        found = [intervals.drawn(g, *of, interval=interval, ci_level=ci_level) for of in zip(draws.T, met, strict=True)]
    else:
        found = [Bounds(n_clusters=intervals.n_clusters(g, of), reason="no single rating exists") for of in met]
    table = _pairwise_table(g, estimate, found)
    both = table.filter(pl.col("score_rank").is_not_null())
    tau = kendall_tau_b(both["log_ability"], -both["score_rank"]).estimate if estimate.exists else None
    return PairwiseResult(
        table=table,
        estimate=estimate,
        kendall_tau_b=tau,
        n_undefined=int(np.isnan(draws[:, 0]).sum()) if estimate.exists else 0,
        resamples=resamples,
        seed=seed,
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Log-odds against the average row{_TIES[ties]}; {percent(ci_level)} intervals, {intervals.units(g)} "
            "resampled within dimension."
        ),
    )


#: What the log-odds are of.
_TIES: dict[Ties, str] = {
    "davidson": ", of tasks that the two do not tie (Davidson's model)",
    "half": ", a tie as half a win each",
    "drop": ", ties left out",
}


def _task_wins(g: Grid) -> tuple[Array, Array]:
    """Whether row i beats row j on a task, and whether they tie; shape (T, R, R), 0 where one has no score."""
    values = np.where(g.scored, g.values, np.nan).T
    difference = values[:, :, None] - values[:, None, :]
    with np.errstate(invalid="ignore"):
        tied = np.abs(difference) <= SAME
        won = difference > SAME
    at = np.arange(values.shape[1])
    tied[:, at, at] = False
    return won.astype(float), tied.astype(float)


def _pair_records(names: Sequence[str], wins: Array, tied: Array) -> list[tuple[str, str, float, float, float]]:
    won, ties = wins.sum(axis=0), tied.sum(axis=0)
    i, j = np.triu_indices(len(names), 1)
    records = [(names[a], names[b], won[a, b], won[b, a], ties[a, b]) for a, b in zip(i, j, strict=True)]
    met = {name for a, b, *counts in records if sum(counts) for name in (a, b)}
    # A row that meets nobody stays, as a part of its own.
    return [r for r in records if sum(r[2:]) or not {r[0], r[1]} <= met] if met else []


def _resampled(wins: Array, tied: Array, g: Grid, ridge: float, resamples: int, seed: int) -> Array:
    """Centred log abilities in every resample, shape (resamples, R); NaN where there is no estimate."""
    n = g.rows.height
    both = np.concatenate([wins.reshape(-1, n * n), tied.reshape(-1, n * n)], axis=1)
    total = g.task_counts(resamples, seed) @ both
    beats, even = (part.reshape(resamples, n, n) for part in np.split(total, 2, axis=1))
    if ridge == 0:
        sound = np.array([exists(b, t) for b, t in zip(beats, even, strict=True)])
    else:
        sound = np.asarray(beats.any(axis=(1, 2)) | ~even.any(axis=(1, 2)))
    out = np.full((resamples, n), np.nan)
    if sound.any():
        out[sound] = newton_together(beats[sound], even[sound], ridge)
    return out


def _pairwise_table(
    g: Grid,
    estimate: BradleyTerry,
    bounds: Sequence[Bounds],
) -> pl.DataFrame:
    found = {row["player"]: row for row in estimate.table.iter_rows(named=True)}
    ability = np.array([found[name]["log_ability"] for name in g.names])
    part = np.array([found[name]["part"] for name in g.names])
    for k in np.unique(part):
        ability[part == k] -= ability[part == k].mean()
    counted = ("wins", "losses") if estimate.ties == "drop" else ("wins", "losses", "ties")
    rating_rank = shared_ranks(ability) if estimate.exists else [None] * len(ability)
    score_rank = shared_ranks(bootstrap.overall_means(g.points()))
    change = [None if a is None or b is None else a - b for a, b in zip(rating_rank, score_rank, strict=True)]
    columns: dict[str, Any] = {
        "rating_rank": pl.Series(rating_rank, dtype=pl.Int64),
        "log_ability": ability,
        "lo": pl.Series([b.lo for b in bounds], dtype=pl.Float64),
        "hi": pl.Series([b.hi for b in bounds], dtype=pl.Float64),
        "no_interval": pl.Series([b.reason for b in bounds], dtype=pl.String),
        "n_clusters": pl.Series([b.n_clusters for b in bounds], dtype=pl.Int64),
        "part": part,
        "score_rank": pl.Series(score_rank, dtype=pl.Int64),
        "rank_change": pl.Series(change, dtype=pl.Int64),
        **{c: pl.Series([found[name][c] for name in g.names]).cast(pl.Int64) for c in ("wins", "losses", "ties")},
        "n_comparisons": pl.Series([sum(found[name][c] for c in counted) for name in g.names]).cast(pl.Int64),
    }
    lines = g.rows.select(ROW).with_columns(**columns)
    return lines.sort("part", "log_ability", descending=[False, True], maintain_order=True)
