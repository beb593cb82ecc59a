"""Scores of a leaderboard: dimension and overall scores with intervals, ranks with ties, group means.

May import `cilab.core` and its own folder. Reads no file and plays nothing.
`cilab.stats.teamwork.grid` says who is out and why; the scores here are means over what it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.names import at_default, model_of, names_of
from cilab.results.numbers import Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, best, without_blanks
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_SCORES, Array, Mask, Replicates
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups, default_rows, members
from cilab.stats.teamwork.task_runs import OTHER_ROWS, left_out

Resampling = Literal["tasks", "gated"]

_SAME = 9  # decimals of a fraction up to which two scores are the same


# -- ranks ------------------------------------------------------------------------------------------------


def shared_ranks(scores: Array) -> list[int | None]:
    """Rank of each score from the highest on; the same score shares a rank, an undefined one has none.

    >>> shared_ranks(np.array([0.5, 0.7, 0.5, np.nan, 0.1]))
    [2, 1, 2, None, 4]
    """
    same = np.round(np.asarray(scores, float), _SAME)
    return [None if math.isnan(s) else 1 + int((same > s).sum()) for s in same]


# -- leaderboard and dimensions ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class ScoreResult(Result):
    """Scores per row, or per row and dimension.

    Attributes
    ----------
    table : see `leaderboard` and `dimensions`.
    incomplete : tasks that a missing run keeps out: `model, effort, arm, task_id, dimension, reason`.
    undefined : `model, effort, arm, dimension` without a task that the row solves alone: no score there.
    empty_replicates : `model, effort, arm, dimension, n`: resamples that held none of the row's tasks of a dimension;
        such a resample is left out of the row's interval. None without a bootstrap.
    resamples, seed : of the bootstrap, which percentile intervals come from.
    remarks : sentences on what a reader must know.
    """

    incomplete: pl.DataFrame
    undefined: pl.DataFrame
    empty_replicates: pl.DataFrame
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """As in `Result`, and what is incomplete, undefined or special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, *self._counts(), out[-1]]

    def _counts(self) -> list[str]:
        out = []
        if n := self.incomplete.height:
            out.append(
                f"Incomplete tasks: {n:,}, in {self.incomplete.select(ROW).n_unique()} of the rows (.incomplete lists "
                "them); allow_partial=True scores what is there."
            )
        if self.undefined.height:
            named = [f"{m}{f' {e}' if e else ''}{f' {a}' if a else ''}: {d}" for m, e, a, d in self.undefined.rows()]
            out.append(f"No scored task, so no score: {'; '.join(named)}.")
        if n := int(self.empty_replicates["n"].sum()):
            out.append(f"{n:,} of the rows' resamples hold no task of a dimension and are left out of its interval.")
        if n := int(self.table["no_interval"].is_not_null().sum()):
            out.append(f"Scores without an interval: {n:,} of {self.table.height:,} (column no_interval says why).")
        return out


@dataclass(frozen=True, kw_only=True, repr=False)
class Leaderboard(ScoreResult):
    """Overall score per row, best first."""

    figure: ClassVar[str | None] = "leaderboard"
    title: ClassVar[str] = "Leaderboard"

    def sheet(self) -> Sheet:
        """One line per row: rank, score ± half the interval, baseline, drop, public, held out, solved alone.

        Without the gate nothing is solved alone, and the column goes. Where tasks are missing, the complete ones are
        counted: 8 of 80.
        """
        return self._lines(self.table, self.title)

    def paper_sheet(self, groups: GroupMeans | None = None, *, efforts: bool = False) -> Sheet:
        """Main results, at each model's default setting: table 2 of the collaborative-intelligence paper.

        Parameters
        ----------
        groups : what `cilab.group_means` returned for the same data; its groups become headings (a model that is in
            several stands under the first).
        efforts : rows at other settings than each model's default too.
        """
        table = self.table if efforts else at_default(self.table)
        of_group: dict[str, str] = {}
        for group, names in ({} if groups is None else groups.members).items():
            of_group |= {model: group for model in map(model_of, names) if model not in of_group}
        if not of_group:
            return self._lines(table, "Main results", without=["Rank"])
        order = [*dict.fromkeys(of_group.values()), "others"]
        found = pl.Series("group", [of_group.get(model, "others") for model in table["model"]])
        table = table[sorted(range(table.height), key=lambda i: order.index(found[i]))]
        return self._lines(table, "Main results", [of_group.get(m, "others") for m in table["model"]], ["Rank"])

    def _lines(
        self, table: pl.DataFrame, title: str, groups: Sequence[str] | None = None, without: Sequence[str] = ()
    ) -> Sheet:
        all_there = bool((table["n_complete"] + table["n_refused"] == table["n_tasks"]).all())
        lines = [
            {
                "Rank": number(r["rank"], 0),
                "Row": name,
                "Score (%)": Interval.of(r, "score_pct", "lo_pct", "hi_pct").half(),
                "Baseline": number(r["baseline_pct"]),
                "Drop": number(r["drop_pct"]),
                "Public": number(r["public_pct"]),
                "Held out": number(r["held_out_pct"]),
                "Solved alone": f"{r['n_gated']}/{r['n_complete'] - r['n_scored'] + r['n_gated']}",
                "Complete": "" if all_there else f"{r['n_complete']} of {r['n_tasks']}",
                "Refused": str(r["n_refused"] or ""),
            }
            for name, r in zip(names_of(table), table.iter_rows(named=True), strict=True)
        ]
        cells = without_blanks(pl.DataFrame(lines), ("Baseline", "Drop", "Public", "Held out", "Complete", "Refused"))
        cells = cells.drop(*without, *(["Solved alone"] if self.parameters.get("gate") == "off" else []))
        group_of = pl.Series("Group", ["" if groups is None else group.capitalize() for group in groups or lines])
        score, top = table["score_pct"].to_list(), []
        for group in group_of.unique(maintain_order=True):
            here = (group_of == group).arg_true().to_list()
            top += [here[i] for i in best([score[i] for i in here])]
        return self.on_sheet(
            cells if groups is None else cells.with_columns(group_of),
            title,
            stub="Row",
            group=None if groups is None else "Group",
            bold={"Score (%)": top, "Drop": best(table["drop_pct"].to_list(), low=True)},
            bold_words=f"best score{'' if groups is None else ' of each group'}, smallest drop",
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class DimensionScores(ScoreResult):
    """Score per row and dimension."""

    figure: ClassVar[str | None] = "dimensions"
    title: ClassVar[str] = "Scores by dimension"

    def sheet(self) -> Sheet:
        """One line per row, one column per dimension: score ± half the interval (%)."""
        lines: dict[str, dict[str, str]] = {}
        scores: dict[str, dict[str, float | None]] = {}
        for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True):
            of = r["dimension"].replace("_", " ")
            lines.setdefault(name, {"Row": name})[of] = Interval.of(r, "score_pct", "lo_pct", "hi_pct").half()
            scores.setdefault(of, {})[name] = r["score_pct"]
        return self.on_sheet(
            list(lines.values()),
            bold={of: best([found.get(name) for name in lines]) for of, found in scores.items()},
            bold_words="best of each dimension",
        )


@estimator
def leaderboard(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    skip_undefined: bool = False,
    interval: IntervalKind = "rule",
    resample: Resampling = "tasks",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Leaderboard:
    """Overall score of every row: the mean of its dimension scores, with its interval and rank.

    A dimension score is the mean, over the tasks that the row solves alone, of the mean over seeds of the test score.
    The interval follows `cilab.stats.methods.uncertainty`: a score interval from the spread of tasks (or of clusters of
    tasks) within dimension, none from too few of them. Who is out, and why, is said in `grid`.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    resamples, seed : of the bootstrap behind `interval="percentile"`.
    skip_undefined : a row with a dimension in which it solves nothing alone has no overall score; with True it gets
        the mean of its other dimensions.
    interval : `rule`, or `percentile`: the paper's, over resamples of tasks within dimension, the same for every row.
    resample : for percentiles. `tasks` draws as many tasks as a dimension has and weights them by the gate. `gated`
        draws each row's own gated tasks, as many as it has, apart from the other rows: what the published round did.
    ci_level : a fraction between 0 and 1.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `grid`.

    Returns
    -------
    Leaderboard
        `.table`, best first: `model, effort, arm, rank` (shared by equal scores), `score_pct, lo_pct, hi_pct,
        no_interval` (why there is none), `n_clusters` (independent units that the score rests on), `baseline_pct` (over
        the gated tasks that have one; in taking over the baseline is the task started by the model itself), `drop_pct`
        (points from baseline to test, over the tasks that have both), `public_pct, held_out_pct` (the score on either
        set), `n_gated` (solved alone, not refused), `n_scored` (of these, with no run missing: what the score rests
        on), `n_complete` (scored, or failed alone), `n_refused, n_tasks` (of the plan; the rest is incomplete). Without
        the gate `n_gated` counts what was not refused, `n_complete` what is scored. What a missing dimension leaves
        undefined is null.

    Raises
    ------
    TableError
        As in `grid`, or an argument is out of range.

    References
    ----------
    Collaborative-intelligence paper, section 2.3, table 2 and appendix G.

    Examples
    --------
    >>> from cilab.datasets import hand_worked_round
    >>> leaderboard(hand_worked_round()).table["score_pct"].round(2).to_list()
    [70.83, 44.44, 38.89]
    """
    g = grid(study, **scope)
    by_dimension = g.points()
    overall = bootstrap.overall_means(by_dimension, skip_undefined=skip_undefined)
    replicates = _replicates(g, interval, resamples, seed, resample)
    if replicates is None:
        bounds = intervals.overall(g, overall, ci_level=ci_level)
    else:
        defined = np.isfinite(by_dimension)
        drawn = replicates.overall_of_defined(defined) if skip_undefined else replicates.overall
        lo, hi = bootstrap.percentile_interval(drawn, ci_level)
        bounds = intervals.percentiles(overall, lo, hi, [intervals.n_clusters(g, used) for used in g.scored])
    table = g.rows.select(ROW).with_columns(
        pl.Series("rank", shared_ranks(overall), dtype=pl.Int64),
        *_percent(score_pct=overall),
        *intervals.columns(bounds),
        *_percent(
            baseline_pct=bootstrap.overall_means(_baselines(g), skip_undefined=skip_undefined),
            drop_pct=bootstrap.overall_means(_drops(g), skip_undefined=skip_undefined),
            public_pct=_split_score(g, "public", skip_undefined),
            held_out_pct=_split_score(g, "held_out", skip_undefined),
        ),
        *_whole(
            n_gated=g.gated.sum(axis=1),
            n_scored=g.scored.sum(axis=1),
            n_complete=g.complete.sum(axis=1),
            n_refused=g.refused.sum(axis=1),
            n_tasks=np.full(g.rows.height, g.tasks.height),
        ),
    )
    table = table.sort("rank", *ROW, nulls_last=[True, False, False, False])
    caption = (
        f"Mean of {len(g.dimensions)} dimension score{'s' * (len(g.dimensions) != 1)} in percent, with half the "
        f"{_interval_words(g, interval, ci_level, resamples, resample)}."
    )
    return Leaderboard(table=table, caption=caption, **_common(g, by_dimension, replicates, resamples, seed))


@estimator
def dimensions(
    study: Any,
    *,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    resample: Resampling = "tasks",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> DimensionScores:
    """Score of every row in every dimension, with its interval.

    Arguments and rules as in `leaderboard`, but for `skip_undefined`, as nothing is averaged over dimensions here. The
    same arguments give the same resamples.

    Returns
    -------
    DimensionScores
        `.table`, best row first, dimensions in the paper's order: `model, effort, arm, dimension, score_pct, lo_pct,
        hi_pct, no_interval, n_clusters` (as in `leaderboard`), `alone_pct` (of the tasks with a verdict alone),
        `baseline_pct, drop_pct, rank` (within the dimension), `n_gated, n_scored, n_baseline, n_complete, n_refused,
        n_incomplete, n_tasks` (see `leaderboard`), `n_empty_resamples`.

    References
    ----------
    Collaborative-intelligence paper, section 3.2 and table 5.
    """
    g = grid(study, **scope)
    by_dimension, n_scored = g.points(), _per_dimension(g, g.scored)
    replicates = _replicates(g, interval, resamples, seed, resample)
    if replicates is None:
        bounds = [found for line in intervals.by_dimension(g, ci_level=ci_level) for found in line]
    else:
        ends = bootstrap.percentile_interval(np.moveaxis(replicates.by_dimension, 1, 0), ci_level)
        several = np.where(n_scored > 1, by_dimension, np.nan)  # one task cannot be resampled
        bounds = intervals.percentiles(several, ends[0].T, ends[1].T, n_scored)
    gated, verdicts = _per_dimension(g, g.gated), _per_dimension(g, g.decided & ~g.refused)
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = gated / verdicts if g.gate != "off" else np.full(gated.shape, np.nan)
    n_rows, n_dims = by_dimension.shape
    lines = g.rows.select(ROW)[np.repeat(np.arange(n_rows), n_dims)].with_columns(
        pl.Series("dimension", list(g.dimensions) * n_rows),
        *_percent(
            score_pct=by_dimension.ravel(),
        ),
        *intervals.columns(bounds),
        *_percent(
            alone_pct=alone.ravel(),
            baseline_pct=_baselines(g).ravel(),
            drop_pct=_drops(g).ravel(),
        ),
        pl.Series("rank", _ranks_within(by_dimension), dtype=pl.Int64),
        *_whole(
            n_gated=gated.ravel(),
            n_scored=n_scored.ravel(),
            n_baseline=_per_dimension(g, g.has_baseline).ravel(),
            n_complete=_per_dimension(g, g.complete).ravel(),
            n_refused=_per_dimension(g, g.refused).ravel(),
            n_incomplete=_per_dimension(g, g.missing).ravel(),
            n_tasks=_per_dimension(g, np.ones_like(g.scored)).ravel(),
            n_empty_resamples=_n_empty(replicates, by_dimension).ravel(),
        ),
    )
    ranks = shared_ranks(bootstrap.overall_means(by_dimension))
    order = sorted(range(n_rows), key=lambda r: (ranks[r] is None, ranks[r] or 0, r))
    table = lines[[r * n_dims + d for r in order for d in range(n_dims)]]
    caption = (
        "Mean test score over the tasks solved alone, in percent, with half the "
        f"{_interval_words(g, interval, ci_level, resamples, resample)}."
    )
    if g.gate == "off":
        caption = caption.replace("the tasks solved alone", "all tasks").replace("test score", f"score ({g.version})")
    return DimensionScores(table=table, caption=caption, **_common(g, by_dimension, replicates, resamples, seed))


_RESAMPLED = {
    "tasks": "tasks within dimension, the same for every row",
    "gated": "each row's own gated tasks, as the published round did; rows are not paired",
}


def _replicates(g: Grid, interval: IntervalKind, resamples: int, seed: int, resample: Resampling) -> Replicates | None:
    """The bootstrap behind percentile intervals; the rule needs none."""
    if interval == "rule":
        return None
    if resample == "tasks":
        return g.replicates(resamples=resamples, seed=seed)
    rng = np.random.default_rng(seed)
    return bootstrap.resample_gated(g.values, g.scored, g.slices, resamples=resamples, rng=rng)


def _interval_words(g: Grid, interval: IntervalKind, ci_level: float, resamples: int, resample: Resampling) -> str:
    if interval == "percentile":
        return f"{percent(ci_level)} interval ({resamples:,} resamples of {_RESAMPLED[resample]})"
    return f"{percent(ci_level)} score interval over {intervals.units(g)} within dimension"


def _n_empty(replicates: Replicates | None, by_dimension: Array) -> NDArray[np.int64]:
    """Resamples without a task of the row, shape (rows, dimensions)."""
    return np.zeros(by_dimension.shape, np.int64) if replicates is None else replicates.n_empty.T


def _common(g: Grid, by_dimension: Array, replicates: Replicates | None, resamples: int, seed: int) -> dict[str, Any]:
    """The fields that both results share."""
    r, d = np.nonzero(np.isnan(by_dimension))
    undefined = g.rows.select(ROW)[r].with_columns(_dimension_names(g, d))
    empty = _n_empty(replicates, by_dimension)
    r, d = np.nonzero((empty > 0) & np.isfinite(by_dimension))
    empties = g.rows.select(ROW)[r].with_columns(
        _dimension_names(g, d),
        pl.Series("n", empty[r, d], dtype=pl.Int64),
    )
    single = int((_per_dimension(g, g.scored) == 1).sum())
    remarks = g.notes
    if single:
        remarks += (f"Dimension scores on a single task: {single}.",)
    if g.unknown_tasks:
        remarks += ("Task ids are places in published counts: rows are not paired by task.",)
    return {
        "n_used": g.n_used,
        "n_left_out": g.n_left_out,
        "provenance": g.provenance,
        "parameters": g.asked,
        "incomplete": g.incomplete,
        "undefined": undefined,
        "empty_replicates": empties,
        "resamples": resamples,
        "seed": seed,
        "remarks": remarks,
    }


def _dimension_names(g: Grid, which: NDArray[Any]) -> pl.Series:
    return pl.Series("dimension", [g.dimensions[i] for i in which], dtype=pl.String)


def _percent(**columns: Array) -> list[pl.Series]:
    """Fractions as columns in percent; NaN becomes null."""
    return [pl.Series(name, 100 * values, dtype=pl.Float64).fill_nan(None) for name, values in columns.items()]


def _whole(**columns: NDArray[Any]) -> list[pl.Series]:
    return [pl.Series(name, values, dtype=pl.Int64) for name, values in columns.items()]


def _ranks_within(by_dimension: Array) -> list[int | None]:
    """Rank of each row within each dimension, row by row."""
    ranks = [shared_ranks(scores) for scores in by_dimension.T]
    return [of_dimension[r] for r in range(len(by_dimension)) for of_dimension in ranks]


def _per_dimension(g: Grid, which: Mask) -> NDArray[np.int64]:
    """Number of tasks per row and dimension."""
    return np.array([which[:, d].sum(axis=1) for d in g.slices], dtype=np.int64).T


def _baselines(g: Grid) -> Array:
    return bootstrap.dimension_means(g.baseline, g.has_baseline, g.slices)


def _drops(g: Grid) -> Array:
    """Baseline minus test over the tasks that have both."""
    return bootstrap.dimension_means(g.baseline - g.values, g.scored & g.has_baseline, g.slices)


def split_mask(g: Grid, split: str) -> Mask:
    """Which tasks are `public` or `held_out`, shape (T,)."""
    return (g.tasks["split"] == split).fill_null(False).to_numpy()


def _split_score(g: Grid, split: str, skip_undefined: bool) -> Array:
    which = split_mask(g, split)
    if not which.any():
        return np.full(g.rows.height, np.nan)
    part = g.where(which)
    return bootstrap.overall_means(part.points(), skip_undefined=skip_undefined)


# -- groups -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupMeans(Result):
    """Mean score of groups of models, and how far they are apart.

    Attributes
    ----------
    table : `group, dimension` (null: overall), `n_rows, score_pct, lo_pct, hi_pct, no_interval, n_clusters,
        n_empty_resamples`.
    differences : `group, other, dimension, diff_points, lo_points, hi_points, no_interval, n_clusters,
        n_empty_resamples`, every pair of groups.
    members : group -> names of its rows.
    """

    differences: pl.DataFrame
    members: Mapping[str, Sequence[str]]
    resamples: int
    seed: int

    title: ClassVar[str] = "Means of groups of models"


@estimator
def group_means(
    study: Any,
    groups: Groups = None,
    *,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> GroupMeans:
    """Mean over a group's models of the overall score and of each dimension score, at the default setting.

    Parameters
    ----------
    study : as in `leaderboard`.
    groups : `{group: [models]}` (groups may overlap) or `{model: group}`; or a frame of models with `model` and `group`
        or `open_weights`. None: the paper's frontier models, and open-weight ones by the study's or the registry's
        models table; pseudonyms of simulated data by their first letter.
    resamples, seed : of the bootstrap behind `interval="percentile"`.
    interval : `rule` (see `cilab.stats.methods.uncertainty`), rows paired by task; or `percentile`, over resamples of
        tasks within dimension.
    ci_level : a fraction between 0 and 1.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `grid`.

    Returns
    -------
    GroupMeans
        A model enters a group once, with its row at the default effort and without an arm. Rows with an undefined
        dimension are left out of the overall mean. Intervals are null where task ids are places in published counts (a
        mean over rows pairs them by task). With percentiles they are where more than 5 % of the resamples are empty: a
        row that solves no task of one is filled in (see `cilab.stats.methods.bootstrap.filled`), but fewer than half of
        the rows have a score. `n_used` counts the alone and test runs of the rows in a group.

    Raises
    ------
    TableError
        No model of the data belongs to a group, a name in `groups` is not in the data, or `groups` is neither a mapping
        nor a frame.

    References
    ----------
    Collaborative-intelligence paper, sections 3 and 3.2.
    """
    g = grid(study, **scope)
    at = default_rows(g)
    named = members(study, g, groups)
    known = {g.rows["model"][r]: r for r in at}
    rows_of = {group: [known[m] for m in models if m in known] for group, models in named.items()}
    points = g.points()
    replicates = None if interval == "rule" else g.replicates(resamples=resamples, seed=seed)
    lines, sides = [], {}
    for group, rows in rows_of.items():
        for d, name in [(None, None), *enumerate(g.dimensions)]:
            score = bootstrap.overall_means(points)[rows] if d is None else points[rows, d]
            there = np.isfinite(score)
            side = _Side.of(g, [r for r, ok in zip(rows, there, strict=True) if ok], d, replicates)
            sides[group, name] = side
            lines.append((group, name, int(there.sum()), _mean_or_none(score[there]), *side.ends(ci_level)))
    schema = {"group": pl.String, "dimension": pl.String, "n_rows": pl.Int64}
    schema |= dict.fromkeys(("score_pct", "lo_pct", "hi_pct"), pl.Float64) | _INTERVAL_EXTRA
    runs = g.runs.filter(pl.col("used") & pl.col("version").is_in(["alone", g.version]))["r"]
    n_used = int(runs.is_in(sorted({r for rows in rows_of.values() for r in rows})).sum())
    n_default = int(runs.is_in(at).sum())
    return GroupMeans(
        table=pl.DataFrame(lines, schema=schema, orient="row"),
        differences=_group_differences(list(named), [None, *g.dimensions], sides, ci_level),
        members={group: [g.names[r] for r in rows] for group, rows in rows_of.items()},
        resamples=resamples,
        seed=seed,
        n_used=n_used,
        n_left_out=left_out(
            g, n_used, {"of models in no group": n_default - n_used, OTHER_ROWS: len(runs) - n_default}
        ),
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Mean over models in percent, {percent(ci_level)} intervals over {intervals.units(g)} in a dimension.",
    )


def _mean_or_none(values: Array) -> float | None:
    return 100 * bootstrap.exact_mean(np.asarray(values)) if len(values) else None


_INTERVAL_EXTRA = {**intervals.EXTRA, "n_empty_resamples": pl.Int64}


@dataclass(frozen=True)
class _Side:
    """A group's mean as contributions of the tasks, and as replicates where percentiles are asked for."""

    g: Grid
    mean: float
    n_rows: int
    parts: tuple[Array, Array, Array] | None
    draws: Array | None

    @classmethod
    def of(cls, g: Grid, rows: Sequence[int], d: int | None, replicates: Replicates | None) -> _Side:
        """Of the rows that have a score, overall or in dimension `d`."""
        if not rows:
            return cls(g, math.nan, 0, None, None)
        mean, *parts = intervals.of_rows(g, rows, d)
        draws = None
        if replicates is not None:
            of = replicates.overall if d is None else replicates.by_dimension[d]
            points = g.points()[rows].mean(axis=1) if d is None else g.points()[rows, d]
            draws = bootstrap.filled(of[:, rows], points).mean(axis=1)
        influence, weight, centre = parts
        return cls(g, mean, len(rows), (influence, weight, centre), draws)

    def ends(self, ci_level: float) -> tuple[float | None, float | None, str | None, int, int | None]:
        """`lo, hi` in percent, why there is none, units, empty resamples."""
        if self.parts is None:
            return None, None, None, 0, None
        if self.g.unknown_tasks:
            return None, None, intervals.UNPAIRED, 0, None
        if self.draws is not None:
            return _percentile_ends(self.g, self.draws, self.parts[1] > 0, ci_level)
        return _rule_ends(intervals.linear(self.g, self.mean, *self.parts, n_rows=self.n_rows, ci_level=ci_level))

    def minus(self, other: _Side, ci_level: float) -> tuple[float | None, float | None, str | None, int, int | None]:
        """The same of the difference, paired by task."""
        assert self.parts is not None and other.parts is not None
        if self.g.unknown_tasks:
            return None, None, intervals.UNPAIRED, 0, None
        used = (self.parts[1] > 0) | (other.parts[1] > 0)
        if self.draws is not None and other.draws is not None:
            return _percentile_ends(self.g, self.draws - other.draws, used, ci_level)
        influence = self.parts[0] - other.parts[0]
        return _rule_ends(intervals.linear(self.g, self.mean - other.mean, influence, used=used, ci_level=ci_level))


def _rule_ends(found: Bounds) -> tuple[float | None, float | None, str | None, int, int | None]:
    lo, hi, n, reason, *_ = found.times(100)
    return lo, hi, reason, n, None


def _percentile_ends(
    g: Grid, draws: Array, used: Mask, ci_level: float
) -> tuple[float | None, float | None, str | None, int, int | None]:
    lo, hi, n_empty, reason = bootstrap.interval(100 * draws, ci_level)
    return lo, hi, reason, intervals.n_clusters(g, used), n_empty


def _group_differences(
    groups: Sequence[str], names: Sequence[str | None], sides: Mapping[tuple, _Side], ci_level: float
) -> pl.DataFrame:
    lines = []
    for i, a in enumerate(groups):
        for b in groups[i + 1 :]:
            for name in names:
                one, two = sides[a, name], sides[b, name]
                if one.parts is not None and two.parts is not None:
                    lines.append((a, b, name, 100 * (one.mean - two.mean), *one.minus(two, ci_level)))
    schema = {"group": pl.String, "other": pl.String, "dimension": pl.String}
    schema |= dict.fromkeys(("diff_points", "lo_points", "hi_points"), pl.Float64) | _INTERVAL_EXTRA
    return pl.DataFrame(lines, schema=schema, orient="row")
