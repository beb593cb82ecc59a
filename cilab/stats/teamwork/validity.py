"""Does a score mean the same on new tasks and in a new run? Held out, seeds, split halves, head to head.

May import `cilab.core` and its own folder. Reads no file, needs no new run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, readable
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.hypothesis_tests import kendall_tau_b, pearson
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks, split_mask

#: Random halvings of the tasks.
SPLITS = 1000

_TABLE = {
    "check": pl.String,
    "quantity": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "interval": pl.String,
    "unit": pl.String,
    "n": pl.Int64,
    "n_of": pl.String,
    "note": pl.String,
    "n_empty_resamples": pl.Int64,
}
_TASKS = "tasks resampled within dimension"
_ROWS = "rows as a sample (Fisher's z)"


@dataclass(frozen=True, kw_only=True, repr=False)
class ValidityResult(Result):
    """Checks of the score.

    Attributes
    ----------
    table : one line per quantity: `check` (held_out, seeds, same_verdict, split_half, head_to_head), `quantity, value,
        lo, hi, interval` (what was resampled for it; null: none), `unit` (`_pct` and points in percent, else as
        named), `n, n_of` (how many of what it rests on), `note` (why a value or its interval is missing),
        `n_empty_resamples` (null where no tasks were resampled).
    held_out : one line per row: `row, public_pct, held_out_pct, difference_points` (held out minus public).
    seeds : one line per row and seed: `row, seed, score_pct`.
    halves : one line per halving: `split, r` (Pearson over rows; null where no three rows have two scores) and
        `reliability` (Spearman-Brown; null where r is not above 0).
    pairs : one line per pair of rows: `higher, lower` (on the leaderboard), `higher_pct, lower_pct` (on the tasks that
        both solve alone), `n_tasks, n_dimensions, wins` (True, False; null where either comparison is a tie).
    resamples, splits, seed : of the bootstrap and the halvings.
    """

    held_out: pl.DataFrame
    seeds: pl.DataFrame
    halves: pl.DataFrame
    pairs: pl.DataFrame
    resamples: int
    splits: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "validity"
    title: ClassVar[str] = "Validity of the score"

    def value(self, quantity: str) -> float | None:
        """The value of a quantity by name.

        Raises
        ------
        TableError
            There is none of that name.
        """
        found = self.table.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no quantity {quantity!r}; there are {', '.join(self.table['quantity'])}")
        return found["value"][0]

    def sheet(self) -> Sheet:
        """One line per quantity."""
        shown = readable(self.table)
        span = pl.when(pl.col("Low") != "").then(pl.format("{} to {}", "Low", "High")).otherwise(pl.lit(""))
        cells = shown.select("Check", "Quantity", "Value", span.alias("Interval"), "Unit", "Number", "Of", "Note")
        return self.on_sheet(cells, stub="Quantity")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def validity(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_OTHER,
    splits: int = SPLITS,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> ValidityResult:
    """Checks of the score on the saved runs: held-out tasks, seeds, verdicts, split halves, head to head.

    - held_out: the overall score on public and on held-out tasks, over rows: Kendall's tau-b, Pearson's r, mean
      absolute difference, mean difference (held out minus public).
    - seeds: the overall score from one test seed against another, over rows: Pearson's r, the least of all pairs.
    - same_verdict: share of cells (a row on a task it solves alone) whose tests have the same score in every seed.
    - split_half: the tasks of each dimension are halved at random; r of the two overall scores over rows is averaged
      over `splits` halvings and then stepped up to full length by Spearman and Brown, 2 r / (1 + r). Where the mean r
      is not above 0 the reliability is undefined. Beside it stands the range of 95 % of the halvings, stepped up alike
      and cut at 0: how much hangs on the halving, not an interval for other rows or tasks. Halvings without r are
      counted; with more than 5 % of them, or where all halvings agree, there is no range.
    - head_to_head: every two rows on the tasks that both solve alone (mean of the dimensions that have one): in how
      many does the row win that ranks higher on the leaderboard? Ties are no wins, and counted.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    resamples : bootstrap over tasks within dimension, for held_out, seeds and same_verdict.
    splits : random halvings.
    seed, ci_level : of both.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    ValidityResult
        A check that the data do not permit (no held-out tasks, one seed, two rows) has a null value and says why. A row
        that solves no task of a resample is filled in there (see `cilab.stats.methods.bootstrap.filled`); a resample in
        which fewer than half of the rows have a score is empty. With more than 5 % of empty ones there is no interval.

    Raises
    ------
    TableError
        The tasks are those of a published round (ids beginning with `unknown:`); or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.1 and figure 9.
    """
    if isinstance(splits, bool) or not isinstance(splits, int) or splits < 1:
        raise TableError(f"splits is {splits!r}: give a whole number of at least 1")
    g = grid(study, **scope)
    g.need_known_tasks("validity")
    rng = np.random.default_rng(seed)
    how = _How(g, resamples, interval, ci_level)
    held, held_lines = _held_out(how, rng)
    seeds, seed_lines = _seeds(how, rng)
    halves, half_lines = _split_half(g, splits, rng)
    pairs, pair_lines = _head_to_head(g)
    lines = [*held_lines, *seed_lines, _same_verdict(how, rng), *half_lines, *pair_lines]
    return ValidityResult(
        table=pl.DataFrame(lines, schema=_TABLE, orient="row"),
        held_out=held,
        seeds=seeds,
        halves=halves,
        pairs=pairs,
        resamples=resamples,
        splits=splits,
        seed=seed,
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"{g.rows.height} rows; {percent(ci_level)} intervals, {intervals.units(g)} resampled within dimension."
        ),
    )


def _line(check: str, quantity: str, value: float | None, **more: Any) -> dict[str, Any]:
    return {"check": check, "quantity": quantity, "value": value, **more}


@dataclass(frozen=True)
class _How:
    """The grid, and how its quantities get their intervals."""

    g: Grid
    resamples: int
    interval: IntervalKind
    ci_level: float

    def resampled(self, replicates: Array) -> dict[str, Any]:
        """The columns of a line that resampled tasks give."""
        used = self.g.scored.any(axis=0)
        found = intervals.drawn(self.g, replicates, used, interval=self.interval, ci_level=self.ci_level)
        return self.ends(found, int(np.isnan(replicates).sum()))

    def ends(self, found: Bounds, n_empty: int | None) -> dict[str, Any]:
        """The same, of an interval."""
        out = {"lo": found.lo, "hi": found.hi, "n_empty_resamples": n_empty, "note": found.reason}
        return out | {"interval": None if found.lo is None else _TASKS}


def _correlations(check: str, x: Array, y: Array, drawn: tuple[Array, Array], how: _How) -> list[dict[str, Any]]:
    """Tau-b and r over rows with both scores; r twice, with tasks and with rows as what might have been others."""
    a, b = _both(x, y)
    tau, r = kendall_tau_b(a, b), pearson(a, b, ci_level=how.ci_level)
    more = {"unit": "correlation", "n": len(a), "n_of": "rows"}
    by_task = {"note": r.reason}
    if r.estimate is not None:
        by_task = how.resampled(_over_rows((x, y), drawn))
    rows = None if r.lo is None else _ROWS
    return [
        _line(check, "kendall_tau_b", tau.estimate, note=tau.reason, **more),
        _line(check, "pearson_r", r.estimate, **by_task, **more),
        _line(check, "pearson_r_over_rows", r.estimate, lo=r.lo, hi=r.hi, interval=rows, note=r.reason, **more),
    ]


def _over_rows(points: tuple[Array, Array], drawn: tuple[Array, Array]) -> Array:
    """r over the rows with both scores in each replicate."""
    there = np.isfinite(points[0]) & np.isfinite(points[1])
    x, y = (bootstrap.filled(of[:, there], point[there]) for of, point in zip(drawn, points, strict=True))
    return bootstrap.row_correlations(x, y)


# -- held out -------------------------------------------------------------------------------------------


def _held_out(how: _How, rng: np.random.Generator) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    g, resamples = how.g, how.resamples
    public, held = split_mask(g, "public"), split_mask(g, "held_out")
    if not public.any() or not held.any():
        table = pl.DataFrame(schema=dict.fromkeys(("public_pct", "held_out_pct", "difference_points"), pl.Float64))
        why = "the tasks have no public and held-out split"
        return table.insert_column(0, pl.Series("row", [], pl.String)), [
            _line("held_out", "kendall_tau_b", None, note=why)
        ]
    parts = [g.where(public), g.where(held)]
    x, y = (bootstrap.overall_means(part.points()) for part in parts)
    drawn = [p.replicates(resamples=resamples, seed=int(rng.integers(2**63))).overall for p in parts]
    table = g.rows.select("row").with_columns(
        pl.Series("public_pct", 100 * x).fill_nan(None),
        pl.Series("held_out_pct", 100 * y).fill_nan(None),
        pl.Series("difference_points", 100 * (y - x)).fill_nan(None),
    )
    both = np.isfinite(x) & np.isfinite(y)
    gaps, gaps_drawn = 100 * (y - x)[both], 100 * (drawn[1] - drawn[0])[:, both]
    lines = _correlations("held_out", x, y, (drawn[0], drawn[1]), how)
    if len(gaps):
        more = {"unit": "points", "n": len(gaps), "n_of": "rows"}
        by_task = how.resampled(bootstrap.filled(gaps_drawn, gaps).mean(axis=1))
        # Resampling noise alone makes absolute differences larger than they are: they get no interval.
        lines.append(_line("held_out", "mean_absolute_difference", float(np.abs(gaps).mean()), **more))
        lines.append(_line("held_out", "mean_difference", float(gaps.mean()), **by_task, **more))
    return table, lines


# -- seeds ----------------------------------------------------------------------------------------------


def _seeds(how: _How, rng: np.random.Generator) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Score of every row by seed, over the tasks that have all its seeds."""
    g = how.g
    scores, drawn = [], []
    at = int(rng.integers(2**63))
    for s in range(len(g.seeds)):
        values = g.by_seed[:, :, s]
        one = replace(g, by_seed=values[:, :, None], scored=g.scored & ~np.isnan(values))
        scores.append(bootstrap.overall_means(one.points()))
        drawn.append(one.replicates(resamples=how.resamples, seed=at).overall)
    table = pl.DataFrame(
        {
            "row": g.names * len(g.seeds),
            "seed": np.repeat(np.array(g.seeds, dtype=np.int64), g.rows.height),
            "score_pct": 100 * np.concatenate(scores),
        }
    ).with_columns(pl.col("score_pct").fill_nan(None))
    if len(g.seeds) < 2:
        return table, [_line("seeds", "least_pearson_r", None, note="one seed only")]
    lines, pairs = [], list(itertools.combinations(range(len(g.seeds)), 2))
    found = [pearson(*_both(scores[i], scores[j])) for i, j in pairs]
    for (i, j), test in zip(pairs, found, strict=True):
        name = f"pearson_r_{g.seeds[i]}_{g.seeds[j]}"
        by_task = {"note": test.reason}
        if test.estimate is not None:
            by_task = how.resampled(_over_rows((scores[i], scores[j]), (drawn[i], drawn[j])))
        lines.append(_line("seeds", name, test.estimate, **by_task, unit="correlation", n=test.n, n_of="rows"))
    defined = [(t.estimate, t.n) for t in found if t.estimate is not None]
    least = min(defined, default=(None, 0))
    why = None if defined else found[0].reason
    first = _line("seeds", "least_pearson_r", least[0], unit="correlation", n=least[1], n_of="rows", note=why)
    return table, [first, *(lines if len(pairs) <= 10 else [])]


def _both(x: Array, y: Array) -> tuple[Array, Array]:
    there = np.isfinite(x) & np.isfinite(y)
    return x[there], y[there]


def _same_verdict(how: _How, rng: np.random.Generator) -> dict[str, Any]:
    """Share of cells with one score in every seed; cells count alike."""
    g = how.g
    several = g.scored & ((~np.isnan(g.by_seed)).sum(axis=2) > 1)
    if not several.any():
        return _line("same_verdict", "same_verdict_pct", None, note="one seed only", unit="percent")
    spread = np.where(np.isnan(g.by_seed), -np.inf, g.by_seed).max(axis=2) - np.where(
        np.isnan(g.by_seed), np.inf, g.by_seed
    ).min(axis=2)
    same = several & (np.where(several, spread, 1.0) == 0)
    value = 100 * same.sum() / several.sum()
    above, below = (cells.sum(axis=0).astype(float) for cells in (same, several))
    if how.interval == "rule":
        by_task = how.ends(intervals.share(g, above, below, ci_level=how.ci_level).times(100), None)
    else:
        counts = g.task_counts(how.resamples, int(rng.integers(2**63)))
        with np.errstate(invalid="ignore", divide="ignore"):
            by_task = how.resampled(100 * (counts @ above) / (counts @ below))
    more = {"unit": "percent", "n": int(several.sum()), "n_of": "cells of a row and a task"}
    return _line("same_verdict", "same_verdict_pct", float(value), **by_task, **more)


# -- split half -----------------------------------------------------------------------------------------


def spearman_brown(r: Array) -> Array:
    """Reliability of a test twice as long as the halves that correlate at `r`: 2 r / (1 + r)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return 2 * r / (1 + r)


def _split_half(g: Grid, splits: int, rng: np.random.Generator) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """r of two random halves over rows, and what it says of the whole."""
    empty = pl.DataFrame(schema={"split": pl.Int64, "r": pl.Float64, "reliability": pl.Float64})
    if g.rows.height < 3:
        return empty, [_line("split_half", "reliability", None, note="fewer than three rows")]
    first, second = np.zeros((splits, g.rows.height)), np.zeros((splits, g.rows.height))
    for tasks in g.slices:
        in_first = _halves(tasks.stop - tasks.start, splits, rng)
        weight = g.scored[:, tasks].astype(float)
        kept = np.where(g.scored[:, tasks], g.values[:, tasks], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            first += (in_first @ kept.T) / (in_first @ weight.T)
            second += ((1 - in_first) @ kept.T) / ((1 - in_first) @ weight.T)
    r = _split_correlations(first, second)
    table = empty.vstack(
        pl.DataFrame(
            {"split": np.arange(splits), "r": r, "reliability": np.where(r > 0, spearman_brown(r), np.nan)},
            schema=empty.schema,
        )
    ).with_columns(pl.col("r", "reliability").fill_nan(None))
    there = r[~np.isnan(r)]
    if not len(there):
        return table, [_line("split_half", "reliability", None, note="no halving leaves three rows with two scores")]
    more = {"unit": "correlation", "n": len(there), "n_of": "halvings"}
    without = splits - len(there)
    gone = f"{without:,} of {splits:,} halvings have no r" if without else None
    mean = float(there.mean())
    lines = [_line("split_half", "half_pearson_r", mean, note=gone, **more)]
    if mean <= 0:
        return table, [_line("split_half", "reliability", None, note=_words(_NOT_ABOVE_0, gone), **more), *lines]
    lo, hi = np.clip(spearman_brown(np.quantile(there, [0.025, 0.975])), 0, None)
    if without > bootstrap.MOST_UNDEFINED * splits or hi - lo < _ALIKE:
        ends: dict[str, Any] = {
            "note": _words(gone, None if without > bootstrap.MOST_UNDEFINED * splits else "all halvings agree")
        }
    else:
        ends = {"lo": float(lo), "hi": float(hi), "interval": "halvings", "note": gone}
    return table, [_line("split_half", "reliability", float(spearman_brown(np.array(mean))), **ends, **more), *lines]


#: A narrower range is none.
_ALIKE = 1e-12
_NOT_ABOVE_0 = (
    "the mean correlation of the halves is not above 0: reliability is undefined (a reliability lies between 0 and 1)"
)


def _words(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _halves(n: int, splits: int, rng: np.random.Generator) -> Array:
    """1 where a task is in the first half, shape (splits, n); of an odd number the first half has the smaller part."""
    return (rng.permuted(np.tile(np.arange(n), (splits, 1)), axis=1) < n // 2).astype(float)


def _split_correlations(x: Array, y: Array) -> Array:
    """As `row_correlations`; a halving that leaves a row without a score goes on without the row."""
    out = np.full(len(x), np.nan)
    whole = ~(np.isnan(x) | np.isnan(y)).any(axis=1)
    out[whole] = bootstrap.row_correlations(x[whole], y[whole])
    for i in np.flatnonzero(~whole):
        a, b = _both(x[i], y[i])
        if len(a) > 2:
            out[i] = bootstrap.row_correlations(a[None], b[None])[0]
    return out


# -- head to head ---------------------------------------------------------------------------------------


def _head_to_head(g: Grid) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Every two rows with an overall score, on the tasks that both solve alone."""
    overall = bootstrap.overall_means(g.points())
    ranks = shared_ranks(overall)
    order = sorted((r for r in range(g.rows.height) if ranks[r] is not None), key=lambda r: (ranks[r], r))
    score, n_tasks, n_dims = _on_common_tasks(g)
    lines = []
    for a, b in itertools.combinations(order, 2):
        difference = round(float(score[a, b] - score[b, a]), 9)
        tie = ranks[a] == ranks[b] or difference == 0 or np.isnan(difference)
        lines.append(
            {
                "higher": g.names[a],
                "lower": g.names[b],
                "higher_pct": _null(100 * score[a, b]),
                "lower_pct": _null(100 * score[b, a]),
                "n_tasks": int(n_tasks[a, b]),
                "n_dimensions": int(n_dims[a, b]),
                "wins": None if tie else difference > 0,
            }
        )
    schema = {"higher": pl.String, "lower": pl.String, "higher_pct": pl.Float64, "lower_pct": pl.Float64}
    schema |= {"n_tasks": pl.Int64, "n_dimensions": pl.Int64, "wins": pl.Boolean}
    table = pl.DataFrame(lines, schema=schema, orient="row")
    if not lines:
        return table, [_line("head_to_head", "higher_ranked_wins", None, note="fewer than two rows with a score")]
    ties = table["wins"].null_count()
    more = {"unit": "pairs", "n": len(lines), "n_of": "pairs of rows", "note": f"{ties} ties" if ties else None}
    return table, [_line("head_to_head", "higher_ranked_wins", float(table["wins"].sum()), **more)]


def _on_common_tasks(g: Grid) -> tuple[Array, Array, Array]:
    """Score of row a on what it shares with row b, and how many tasks and dimensions that is; shape (rows, rows)."""
    total, n_tasks, n_dims = (np.zeros((g.rows.height, g.rows.height)) for _ in range(3))
    for tasks in g.slices:
        weight = g.scored[:, tasks].astype(float)
        common = weight @ weight.T
        sums = np.where(g.scored[:, tasks], g.values[:, tasks], 0.0) @ weight.T
        total += np.divide(sums, common, out=np.zeros_like(sums), where=common > 0)
        n_tasks += common
        n_dims += common > 0
    return np.divide(total, n_dims, out=np.full_like(total, np.nan), where=n_dims > 0), n_tasks, n_dims


def _null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
