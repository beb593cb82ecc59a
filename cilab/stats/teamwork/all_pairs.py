"""All pairs of a leaderboard at once: intervals that hold together, and the ranks that each row may have.

May import `cilab.core`, `cilab.results`, `cilab.stats.methods` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap, paired, sign_flip
from cilab.stats.methods.bootstrap import RESAMPLES_SCORES, Array, Mask
from cilab.stats.methods.paired import Layout
from cilab.stats.methods.uncertainty import LEAST_UNITS, linear_bounds, too_few
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.compare import Units
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks


@dataclass(frozen=True, kw_only=True, repr=False)
class AllPairs(Result):
    """Every two rows of a leaderboard, judged together.

    Attributes
    ----------
    table : see `all_pairs`.
    ranks : one line per row, best first: `row, model, effort, arm, rank, score_pct` (as in the leaderboard), `rank_lo,
        rank_hi` (the ranks between them are not excluded), `n_higher, n_lower` (rows shown to be higher, lower),
        `n_unknown` (rows to which no difference can be told), `groups` (numbers of the tie groups that it is in).
    groups : tie groups, neighbours in rank of which no two are told apart, each as large as can be: `group, rows`.
    resamples, seed : random flips, and what they are drawn from.
    """

    ranks: pl.DataFrame
    groups: pl.DataFrame
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "all_pairs"
    title: ClassVar[str] = "Ranks that the data do not exclude"

    def sheet(self) -> Sheet:
        """One line per row, best first: its score, the ranks that it may have, and its tie groups."""
        lines = [
            {
                "Rank": number(r["rank"], 0),
                "Row": name,
                "Score (%)": number(r["score_pct"]),
                "Ranks not excluded": _range(r["rank_lo"], r["rank_hi"]),
                "Shown higher": str(r["n_higher"]),
                "Shown lower": str(r["n_lower"]),
                "Tie groups": ", ".join(map(str, r["groups"])),
            }
            for name, r in zip(names_of(self.ranks), self.ranks.iter_rows(named=True), strict=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


def _range(lo: int, hi: int) -> str:
    return str(lo) if lo == hi else f"{lo} to {hi}"


_TABLE = {
    "higher": pl.String,
    "lower": pl.String,
    **dict.fromkeys(("rank_higher", "rank_lower"), pl.Int64),
    **dict.fromkeys(("diff_points", "lo_points", "hi_points", "p_adjusted"), pl.Float64),
    **dict.fromkeys(("n_tasks", "n_dimensions", "n_clusters"), pl.Int64),
    "no_interval": pl.String,
}


@estimator
def all_pairs(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> AllPairs:
    """Every pair of rows on the tasks that both solve alone, with intervals that hold together, and sets of ranks.

    A pair's difference is the mean over the dimensions in which both have a task of the mean difference of those tasks.
    p is corrected for the number of pairs by the largest statistic over all pairs under random signs (single-step
    max-T), the same signs for every pair; the intervals follow from the same draws, so that one leaves out 0 exactly
    when its p is small. A row may have every rank that the differences leave open: 1 and the number of rows shown to be
    higher, up to the number of rows less those shown to be lower. With the chance of the level all of these sets hold.
    Where dimensions differ in what they show of a pair, that counts as spread, so that intervals are a little wide.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    resamples, seed, ci_level : number of random flips, what they are drawn from, and the level of all pairs together.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    AllPairs
        `.table`, one line per pair, in order of rank: `higher, lower` (row names, by the leaderboard's score),
        `rank_higher, rank_lower, diff_points` (on common tasks, so that it can be below 0), `lo_points, hi_points`
        (simultaneous), `p_adjusted`, `n_tasks, n_dimensions` (common), `n_clusters` (independent units behind the
        interval), `no_interval` (why there is none, and then no p).

    Raises
    ------
    TableError
        Fewer than two rows have an overall score, no pair has a common task, or the tasks are those of a published
        round; or as in `grid`.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm, Inference for ranks, Review of Economic Studies (2024). Klein, Wright and
    Wieczorek, A joint confidence region for an overall ranking of populations, JRSS C (2020). Westfall and Young,
    Resampling-Based Multiple Testing (1993).

    Examples
    --------
    >>> from cilab.datasets import simulated_release
    >>> found = all_pairs(simulated_release(scale=0.2), models=["sim:F1", "sim:O6", "sim:O7"], resamples=200)
    >>> found.ranks.filter(model="sim:O7").select("rank", "rank_lo", "rank_hi").row(0)
    (4, 3, 4)
    """
    g = grid(study, **scope)
    g.need_known_tasks("all_pairs")
    overall = bootstrap.overall_means(g.points())
    order = [int(r) for r in np.argsort(-overall, kind="stable") if np.isfinite(overall[r])]
    if len(order) < 2:
        raise TableError(f"all_pairs needs two rows with an overall score; {g.provenance.study} has {len(order)}")
    ranks = shared_ranks(overall)
    lost = [g.names[r] for r in range(g.rows.height) if r not in order]
    units = Units.of(g)
    pairs = _Pairs.of(g.take(order), units.layout())
    if not pairs.n_tasks.any():
        raise TableError("all_pairs: no task is solved alone and scored for two rows, so there is nothing to compare")
    lo, hi, p = pairs.judged(ci_level, resamples, np.random.default_rng(seed))
    reasons = [pairs.reason(i, units.unit) for i in range(len(p))]
    names = [g.names[r] for r in order]
    of_row = [ranks[r] for r in order]
    one, two = pairs.rows
    table = pl.DataFrame(
        {
            "higher": [names[i] for i in one],
            "lower": [names[i] for i in two],
            "rank_higher": [of_row[i] for i in one],
            "rank_lower": [of_row[i] for i in two],
            **{c: 100 * v for c, v in (("diff_points", pairs.difference), ("lo_points", lo), ("hi_points", hi))},
            "p_adjusted": p,
            "n_tasks": pairs.n_tasks,
            "n_dimensions": pairs.n_dimensions,
            "n_clusters": pairs.n_clusters,
            "no_interval": reasons,
        },
        schema=_TABLE,
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    verdict = _verdicts(len(order), pairs.rows, lo, hi)
    groups = _tie_groups(verdict)
    unknown = np.zeros((len(order), len(order)), bool)
    unknown[one, two] = unknown[two, one] = np.isnan(p)
    return AllPairs(
        table=table,
        ranks=_ranks(g, order, of_row, overall, verdict, unknown, groups),
        groups=pl.DataFrame(
            {"group": range(1, len(groups) + 1), "rows": [names[i:j] for i, j in groups]},
            schema={"group": pl.Int64, "rows": pl.List(pl.String)},
        ),
        resamples=resamples,
        seed=seed,
        remarks=(*g.notes, *_remarks(lost, reasons, of_row, verdict)),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters={**g.asked, "rows": len(order)},
        caption=(
            f"Differences on the tasks that both rows {g.gate_words}. Ranks not excluded at {percent(ci_level)}, all "
            f"rows together ({len(p):,} pairs, {resamples:,} random sign flips of {intervals.units(g)})."
        ),
    )


def _remarks(lost: list[str], reasons: list[str | None], ranks: list[Any], verdict: NDArray[np.int8]) -> list[str]:
    out = [f"No overall score, so left out: {', '.join(lost)}."] if lost else []
    if n := sum(r is not None for r in reasons):
        out.append(f"No interval for {n:,} pair{'s' * (n != 1)} (.table says why): nothing is excluded by them.")
    lo, hi = _rank_ends(verdict)
    if n := sum(not a <= r <= b for a, r, b in zip(lo, ranks, hi, strict=True)):
        out.append(
            f"The leaderboard's rank of {n} row{'s' * (n != 1)} lies outside the set: the leaderboard scores each row "
            "on its own tasks, pairs are compared on common ones."
        )
    return out


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs of rows in order of rank. `rows` are positions of the two; other arrays have a line per pair.

    `units` and `weights`, shape (pairs, clusters): what a cluster adds to the difference, and its weight in it.
    """

    rows: tuple[NDArray[np.intp], NDArray[np.intp]]
    units: Array
    weights: Array
    difference: Array
    n_tasks: NDArray[np.int64]
    n_dimensions: NDArray[np.int64]
    n_clusters: NDArray[np.int64]
    told: Mask

    @classmethod
    def of(cls, g: Grid, layout: Layout) -> _Pairs:
        """Of the rows of a grid."""
        one, two = np.triu_indices(g.rows.height, 1)
        scored, values = g.scored, np.where(g.scored, g.values, 0.0)
        both = scored[one] & scored[two]
        n = layout.by_stratum(both)
        n_dimensions = (n > 0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(n > 0, 1 / (n * n_dimensions[:, None]), 0.0)[:, layout.strata] * both
        units = layout.by_cluster(weight * (values[one] - values[two]))
        weights = layout.by_cluster(weight)
        n_clusters = (weights > 0).sum(axis=1)
        # As in the rule: two more clusters than dimensions, unless clusters reach over these.
        cells = len(np.unique(layout.clusters * layout.n_strata + layout.strata))
        urns = n_dimensions if cells == layout.n_clusters else np.minimum(n_dimensions, 1)
        told = n_clusters - urns >= LEAST_UNITS - 1
        difference = np.where(n_dimensions > 0, units.sum(axis=1).round(15), np.nan)
        counts = both.sum(axis=1), n_dimensions, n_clusters
        return cls((one, two), units, weights, difference, *counts, told)

    def judged(self, ci_level: float, flips: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Ends of simultaneous intervals, and corrected p; NaN for pairs that are not told."""
        lo, hi, p = (np.full(len(self.told), np.nan) for _ in range(3))
        if not self.told.any():
            return lo, hi, p
        units, weights = self.units[self.told], self.weights[self.told]
        found = sign_flip.max_t(units, weights, ci_level=ci_level, flips=flips, rng=rng)
        differences, m = self.difference[self.told], len(units)
        alike = (np.abs(units - weights * differences[:, None]) < 1e-12).all(axis=1)
        # Units that are all alike pass with other signs only if all of them have the other one.
        floor = np.minimum(1.0, m * 2.0 ** (1 - self.n_clusters[self.told].astype(float)))
        corrected = np.where(alike & (differences != 0), np.maximum(found.p, floor), found.p)
        ends = np.column_stack((found.lo, found.hi))
        for i in np.flatnonzero(alike):
            point, there = float(differences[i]), weights[i] > 0
            one = {"weight": weights[i, there], "at": np.full(there.sum(), point), "span": (-1.0, 1.0)}
            ends[i] = linear_bounds(point, np.zeros(there.sum()), ci_level=1 - (1 - ci_level) / m, **one)[:2]
        agreed = [
            paired.agreeing(d, (a, b), p, ci_level, None)
            for d, (a, b), p in zip(differences.tolist(), ends.tolist(), corrected.tolist(), strict=True)
        ]
        (lo[self.told], hi[self.told]), p[self.told] = np.array(agreed).T, corrected
        return lo, hi, p

    def reason(self, pair: int, unit: str) -> str | None:
        """Why a pair has no interval."""
        if self.told[pair]:
            return None
        if not self.n_tasks[pair]:
            return "no common task"
        n = int(self.n_dimensions[pair])
        return too_few(int(self.n_clusters[pair]), unit, f"{n} dimensions" if n > 1 else None)


def _verdicts(n: int, rows: tuple[NDArray[np.intp], NDArray[np.intp]], lo: Array, hi: Array) -> NDArray[np.int8]:
    """1 where the row of the line is shown to be higher than that of the column, -1 where lower, else 0."""
    out = np.zeros((n, n), np.int8)
    with np.errstate(invalid="ignore"):
        shown = (lo > 0).astype(np.int8) - (hi < 0).astype(np.int8)
    out[rows] = shown
    out[rows[::-1]] = -shown
    return out


def _rank_ends(verdict: NDArray[np.int8]) -> tuple[list[int], list[int]]:
    lower, higher = (verdict > 0).sum(axis=1), (verdict < 0).sum(axis=1)
    return (1 + higher).tolist(), (len(verdict) - lower).tolist()


def _tie_groups(verdict: NDArray[np.int8]) -> list[tuple[int, int]]:
    """Longest runs of neighbours in rank of which no two are told apart, as slices."""
    out: list[tuple[int, int]] = []
    end = 0
    for start in range(len(verdict)):
        stop = max(end, start + 1)
        while stop < len(verdict) and not verdict[stop, start:stop].any():
            stop += 1
        if stop > end:
            out.append((start, stop))
        end = stop
    return out


def _ranks(
    g: Grid,
    order: list[int],
    ranks: list[Any],
    overall: Array,
    verdict: NDArray[np.int8],
    unknown: Mask,
    groups: list[tuple[int, int]],
) -> pl.DataFrame:
    lo, hi = _rank_ends(verdict)
    return g.rows[order].select(
        "row",
        *ROW,
        pl.Series("rank", ranks, dtype=pl.Int64),
        pl.Series("score_pct", 100 * overall[order]),
        pl.Series("rank_lo", lo, dtype=pl.Int64),
        pl.Series("rank_hi", hi, dtype=pl.Int64),
        pl.Series("n_higher", (verdict < 0).sum(axis=1), dtype=pl.Int64),
        pl.Series("n_lower", (verdict > 0).sum(axis=1), dtype=pl.Int64),
        pl.Series("n_unknown", unknown.sum(axis=1), dtype=pl.Int64),
        pl.Series(
            "groups",
            [[k + 1 for k, (i, j) in enumerate(groups) if i <= r < j] for r in range(len(order))],
            dtype=pl.List(pl.Int64),
        ),
    )
