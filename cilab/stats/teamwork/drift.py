"""One row at two dates: does the same model do the same on the same tasks?

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, choice, nearest
from cilab.core.frames import Provenance, read_rows, runs_of
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Column, Level, Resamples, Seed, check
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, number, p_value, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet, without_blanks
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_SCORES, Array, Mask
from cilab.stats.methods.uncertainty import Bounds
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.compare import Units, contrast
from cilab.stats.teamwork.contamination import with_holm
from cilab.stats.teamwork.grid import _RUN_COLUMNS, AUTO, FAMILY, TASK, Grid, Scope, grid
from cilab.stats.teamwork.lite_score import _named
from cilab.stats.teamwork.task_runs import SAME, left_out

#: Periods that are cut out of `finished_at`, and how each is written.
PERIODS = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "quarter": "", "year": "%Y"}
_REQUIRED = ("task_id", "version", "model", "status", "score")
_NO_DATE, _AGAIN = "without a date", "the same run again, at a later date"
_NOT_COMPARED = "of tasks or periods that are not compared"


@check("a list of dates such as '2026-06-01', or None")
def _dates(name: str, value: Any) -> None:
    """Dates at which runs are cut into periods."""
    if value is None:
        return
    if isinstance(value, str | date) or not isinstance(value, Sequence) or not len(value):
        raise TableError(f"{name} is {value!r}: give a list of dates, such as ['2026-06-01']")
    for one in value:
        _date(name, one)


def _date(name: str, value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise TableError(f"{name} has {value!r}: give dates as year-month-day, such as '2026-06-01'") from None


#: Dates that cut runs into periods.
Cuts = Annotated[Sequence[Any] | None, _dates]


@dataclass(frozen=True, kw_only=True, repr=False)
class Drift(Result):
    """Rows at two dates.

    Attributes
    ----------
    table : see `drift`.
    periods : one line per row and period with a scored run: `row, model, effort, arm, period, score_pct, lo_pct,
        hi_pct, no_interval, n_clusters, n_tasks, n_runs` (of the scored version). The score is the mean over the
        dimensions that have a task in the period, so that it may rest on other tasks than the next period's.
    """

    periods: pl.DataFrame
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "drift"
    title: ClassVar[str] = "Drift between dates"

    def sheet(self) -> Sheet:
        """One line per row: the two periods, both scores on the same tasks, the difference, p."""
        lines = [
            {
                "Row": r["row"],
                "Old": r["old"] or NONE,
                "New": r["new"] or NONE,
                "Old (%)": number(r["old_pct"], missing=NONE),
                "New (%)": number(r["new_pct"], missing=NONE),
                "Difference": number(r["diff_points"], missing=NONE),
                "Interval": Interval.of(r, "diff_points", "lo_points", "hi_points").span(
                    r["no_interval"] or r["reason"] or NONE
                ),
                "p": p_value(r["p"], missing=NONE),
                "p (Holm)": p_value(r["p_holm"], missing=NONE),
                "Detectable": number(r["detectable_points"], missing=NONE),
                "Tasks": str(r["n_tasks"]),
                "Answered as, old": r["returned_old"] or "",
                "Answered as, new": r["returned_new"] or "",
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(without_blanks(pl.DataFrame(lines), ("Answered as, old", "Answered as, new")), stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


@estimator
def drift(
    study: Any,
    *,
    by: Column = "month",
    cuts: Cuts = None,
    old: str | None = None,
    new: str | None = None,
    ci_level: Level = CI_LEVEL,
    resamples: Resamples = RESAMPLES_SCORES,
    seed: Seed = 0,
    **scope: Unpack[Scope],
) -> Drift:
    """What the same row (model, effort, arm) scores on the same tasks in an earlier and in a later period.

    Rows keep their name while the provider may change what answers to it. The difference is taken task by task, as the
    mean over the new runs less the mean over the old ones, then averaged within dimension and over the dimensions that
    have a task in both periods. A run that is stored twice (merged studies) is one run, and counts at its first date.

    A task counts for a row that solved it alone in every alone run, whenever that was, so that both periods rest on the
    same tasks; `version="alone"` shows whether that itself drifts. A run that is missing in either period takes its
    task out, as in `grid`.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set. Several rounds are put together beforehand
        (`polars.concat`, or a merged study).
    by : `day`, `week`, `month`, `quarter` or `year` of `finished_at` (UTC), or a column of the runs table, such as
        `study`; its values are ordered by their first finishing time, where there is one, else by name.
    cuts : dates that cut `finished_at` into periods, in place of `by`: a date begins a new one.
    old, new : periods by name; by default each row's first and its last one.
    ci_level : a fraction; intervals by `cilab.stats.methods.uncertainty`, paired by task and agreeing with p.
    resamples, seed : random choices of signs, where not all are counted, and what they are drawn from.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Drift
        `.table`, one line per row: `row, model, effort, arm, old, new` (periods), `old_pct, new_pct` (on the tasks of
        both), `diff_points` (new - old), `lo_points, hi_points, no_interval, n_clusters, p` (sign-flip test over the
        units), `p_holm` (corrected over rows), `detectable_points` (the least difference that would be found with 80 %
        power), `n_tasks, n_better, n_worse, n_same, n_dimensions, n_runs_old, n_runs_new` (on these tasks),
        `returned_old, returned_new` (which model the provider said that it was, where the study has calls), `reason`
        (why there is no difference).

    Raises
    ------
    TableError
        All runs are of one period, or none has a date; no row has two periods; a period, a column or a date is
        unknown; task ids are those of a published round; or as in `grid`.

    References
    ----------
    Fisher, The Design of Experiments (1935), section 21 (sign-flip test). Chen, Zaharia and Zou (2023), How is
    ChatGPT's behavior changing over time?

    Examples
    --------
    >>> from cilab.testing import grid as played
    >>> one = played([[1, 1, 0, 1, 1]]).with_columns(study=pl.lit("spring"))
    >>> two = played([[0, 1, 0, 0, 1]]).with_columns(study=pl.lit("summer"), run_id=pl.col("run_id") + " again")
    >>> drift(pl.concat([one, two]), by="study").table.select("old", "new", "diff_points", "n_worse").rows()
    [('spring', 'summer', -40.0, 2)]
    """
    rows, provenance = _read(study, by, cuts, scope)
    rows, names, reasons = _by_period(rows, by, cuts, (old, new))
    seeds = rows["seed"].to_numpy()
    width = int(seeds.max() - seeds.min()) + 1
    shifted = rows.with_columns(seed=pl.col("seed") - pl.col("seed").min() + width * pl.col("_period"))
    g = grid(_as_study(study, shifted.drop("_period"), provenance), **scope)
    g.need_known_tasks("drift")
    g = replace(g, provenance=provenance)
    of_seed = np.array(g.seeds) // width
    values = [_means(g.by_seed[:, :, of_seed == k]) for k in range(len(names))]
    counts = [(~np.isnan(g.by_seed[:, :, of_seed == k])).sum(axis=2) for k in range(len(names))]
    there = [g.scored & (n > 0) for n in counts]
    pairs = [_pair(r, there, names, old, new) for r in range(g.rows.height)]
    if not any(isinstance(pair, tuple) for pair in pairs):
        raise TableError(
            f"drift: no row has scored tasks in two periods; {g.names[0]}: {pairs[0]}. The periods are "
            f"{', '.join(names)}"
        )
    returned = _returned(study, rows)
    lines = []
    for r, pair in enumerate(pairs):
        line = _line(g, r, pair, values, there, counts, ci_level, resamples, seed)
        if isinstance(pair, tuple):
            line |= {"old": names[pair[0]], "new": names[pair[1]]}
            line |= {name: _said(returned, g, r, k) for name, k in zip(_RETURNED, pair, strict=True)}
        lines.append(line)
    table = with_holm(pl.DataFrame(lines, schema=_TABLE), "p")
    n_used = _n_used(g, pairs, there, width)
    left = left_out(g, n_used, {_NOT_COMPARED: g.n_used - n_used})
    return Drift(
        table=table,
        periods=_periods(g, names, values, there, counts, ci_level),
        remarks=(*g.notes, *_remarks(table)),
        n_used=n_used,
        n_left_out=dict(sorted({**left, **reasons}.items(), key=lambda item: (-item[1], item[0]))),
        provenance=provenance,
        parameters={**g.asked, "periods": names},
        caption=(
            f"Points, new less old, paired by task; {percent(ci_level)} intervals over {intervals.units(g)} within "
            f"dimension; p of a sign-flip test, corrected over {g.rows.height} rows (Holm)."
        ),
    )


# -- periods ----------------------------------------------------------------------------------------------


def _read(study: Any, by: str, cuts: Any, scope: Mapping[str, Any]) -> tuple[pl.DataFrame, Provenance]:
    """The columns that are needed; an own column for the period and for clusters only where it is there."""
    cluster = scope.get("cluster", AUTO)
    wanted = [by] if cuts is None and by not in PERIODS else []
    wanted += [FAMILY] if cluster == AUTO else [] if cluster == TASK else [cluster]
    known = runs_of(study, (*_REQUIRED, *_RUN_COLUMNS, "finished_at", *wanted)).collect_schema().names()
    if cuts is None and by not in PERIODS and by not in known:
        raise TableError(
            f"by: no column {by!r} in the runs table.{nearest(by, [*PERIODS, *known])} Give one of "
            f"{', '.join(PERIODS)}, or a column of the runs table"
        )
    more = [c for c in wanted if c in known and c not in (*_REQUIRED, *_RUN_COLUMNS)]
    rows, provenance = read_rows(study, _REQUIRED, (*_RUN_COLUMNS, "finished_at", *more))
    ids = pl.coalesce(pl.col("run_id").cast(pl.String), pl.format("row {}", pl.int_range(pl.len())))
    return rows.with_columns(run_id=ids, seed=pl.col("seed").cast(pl.Int64, strict=False).fill_null(0)), provenance


def _by_period(
    rows: pl.DataFrame, by: str, cuts: Any, asked: tuple[str | None, str | None]
) -> tuple[pl.DataFrame, list[str], dict[str, int]]:
    """The runs with the number of their period, the periods by name, and how many runs have none."""
    if cuts is not None or by in PERIODS:
        when = rows["finished_at"]
        if when.dtype == pl.Null or when.null_count() == len(when):
            raise TableError(
                "drift needs dates: these runs have no finished_at; add it, or pass by= the name of a column that "
                "tells old from new runs"
            )
        if not when.dtype.is_temporal():
            raise TableError(f"runs: finished_at holds {when.dtype}, not times")
        label = _windows(cuts) if cuts is not None else _written(by)
        first = pl.col("finished_at")
    else:
        label, first = pl.col(by).cast(pl.String), pl.col("finished_at")
    placed = rows.with_columns(_label=label)
    dated = placed.filter(pl.col("_label").is_not_null())
    order = dated.group_by("_label").agg(first.min().alias("_first")).sort("_first", "_label", nulls_last=True)
    names = order["_label"].to_list()
    for name, period in zip(("old", "new"), asked, strict=True):
        if period is not None:
            choice(name, period, names)
    if len(names) < 2:
        what = f"of one, {names[0]}" if names else "without one"
        how = "cuts" if cuts is not None else f"by={by!r}"
        raise TableError(
            f"drift compares two periods, and all {rows.height:,} runs are {what} ({how}); pass a finer by=, cuts=, or "
            "runs of another date"
        )
    code = {name: k for k, name in enumerate(names)}
    dated = dated.with_columns(_period=pl.col("_label").replace_strict(code, return_dtype=pl.Int64))
    first_seen = pl.col("_period").min().over("run_id")
    kept = dated.filter(pl.col("_period") == first_seen)
    reasons = {_NO_DATE: placed.height - dated.height, _AGAIN: dated.height - kept.height}
    return kept.drop("_label"), names, {reason: n for reason, n in reasons.items() if n}


def _written(by: str) -> pl.Expr:
    when = pl.col("finished_at")
    if by == "quarter":
        return pl.format("{}-Q{}", when.dt.year(), when.dt.quarter())
    return when.dt.strftime(PERIODS[by])


def _windows(cuts: Sequence[Any]) -> pl.Expr:
    """Before the first cut, from each to the next, from the last on."""
    dates = sorted({_date("cuts", c) for c in cuts})
    day = pl.col("finished_at").dt.date()
    label: Any = pl.when(day < dates[0]).then(pl.lit(f"before {dates[0]}"))
    for start, end in itertools.pairwise(dates):
        label = label.when((day >= start) & (day < end)).then(pl.lit(f"{start} to {end}"))
    return label.when(day >= dates[-1]).then(pl.lit(f"from {dates[-1]}")).otherwise(None)


def _as_study(study: Any, rows: pl.DataFrame, provenance: Provenance) -> Any:
    """The placed runs beside the other tables of the study."""
    rows = rows.select(c for c in rows.columns if rows[c].dtype != pl.Null)
    return SimpleNamespace(
        runs=rows.lazy(),
        tasks=getattr(study, "tasks", None),
        reviews=getattr(study, "reviews", None),
        name=provenance.study,
        data_hash=provenance.data_hash,
        simulated=provenance.simulated,
        last_finished_at=provenance.last_finished_at,
    )


def _means(by_seed: Array) -> Array:
    """Mean over the seeds of a period; NaN where there is none."""
    there = ~np.isnan(by_seed)
    with np.errstate(invalid="ignore"):
        return np.where(there, by_seed, 0.0).sum(axis=2) / there.sum(axis=2)


def _pair(
    r: int, there: Sequence[Mask], names: Sequence[str], old: str | None, new: str | None
) -> tuple[int, int] | str:
    """The two periods of a row by number, or why there are not two."""
    mine = [k for k, mask in enumerate(there) if mask[r].any()]
    if not mine:
        return "no scored task"
    first = mine[0] if old is None else names.index(old)
    last = mine[-1] if new is None else names.index(new)
    for k in (first, last):
        if k not in mine:
            return f"no scored task in {names[k]}"
    if first == last:
        return f"one period only: {names[first]}"
    if not (there[first][r] & there[last][r]).any():
        return f"no task in both {names[first]} and {names[last]}"
    return first, last


def _n_used(g: Grid, pairs: Sequence[tuple[int, int] | str], there: Sequence[Mask], width: int) -> int:
    """Runs behind the differences: of the compared tasks, the scored version's in the two periods and all others."""
    compared = np.zeros((len(there), *g.scored.shape), bool)
    for r, pair in enumerate(pairs):
        if isinstance(pair, tuple):
            compared[list(pair), r] = there[pair[0]][r] & there[pair[1]][r]
    runs = g.runs.filter("used")
    at = runs["r"].to_numpy(), runs["t"].to_numpy()
    period = np.minimum(runs["seed"].to_numpy() // width, len(there) - 1)
    scored = (runs["version"] == g.version).to_numpy()
    ever = np.asarray(compared.any(axis=0))
    return int(np.asarray(np.where(scored, compared[(period, *at)], ever[at])).sum())


# -- one row ----------------------------------------------------------------------------------------------

_TABLE: dict[str, Any] = {
    **dict.fromkeys(("row", *ROW, "old", "new"), pl.String),
    **dict.fromkeys(("old_pct", "new_pct", "diff_points", "lo_points", "hi_points"), pl.Float64),
    **intervals.EXTRA,
    **dict.fromkeys(("p", "detectable_points"), pl.Float64),
    **dict.fromkeys(("n_tasks", "n_better", "n_worse", "n_same", "n_dimensions", "n_runs_old", "n_runs_new"), pl.Int64),
    **dict.fromkeys(("returned_old", "returned_new", "reason"), pl.String),
}


def _line(
    g: Grid,
    r: int,
    pair: tuple[int, int] | str,
    values: Sequence[Array],
    there: Sequence[Mask],
    counts: Sequence[Any],
    ci_level: float,
    flips: int,
    seed: int,
) -> dict[str, Any]:
    key = g.rows[r].row(0, named=True)
    if isinstance(pair, str):
        return dict.fromkeys(_TABLE) | key | {"reason": pair, **dict.fromkeys(_COUNTS, 0)}
    first, last = pair
    both = there[first][r] & there[last][r]
    old, new = values[first][r], values[last][r]
    change = np.where(both, np.nan_to_num(new) - np.nan_to_num(old), np.nan)
    change[np.abs(change) < SAME] = 0.0
    used = both[None]
    found = contrast(new[None], old[None], (used, used), Units.of(g), ci_level=ci_level, flips=flips, seed=[seed, r])
    bounds = Bounds(found.lo, found.hi, found.n_clusters, found.no_interval)
    points = [_over_dimensions(g, v, both) for v in (old, new, change)]
    return {
        **key,
        "old_pct": 100 * points[0],
        "new_pct": 100 * points[1],
        "diff_points": 100 * points[2],
        **intervals.cells(bounds, unit="points"),
        "p": found.p,
        "detectable_points": None if found.mdd is None else 100 * found.mdd,
        "n_tasks": int(both.sum()),
        "n_better": int((change[both] > 0).sum()),
        "n_worse": int((change[both] < 0).sum()),
        "n_same": int((change[both] == 0).sum()),
        "n_dimensions": len(np.unique(g.dimension_of[both])),
        "n_runs_old": int(counts[first][r][both].sum()),
        "n_runs_new": int(counts[last][r][both].sum()),
        "reason": None,
    }


_RETURNED = ("returned_old", "returned_new")
_COUNTS = ("n_tasks", "n_better", "n_worse", "n_same", "n_dimensions", "n_runs_old", "n_runs_new")


def _over_dimensions(g: Grid, values: Array, used: Mask) -> float:
    """Mean over the dimensions that have a used task of the mean within them."""
    means = bootstrap.dimension_means(values[None], used[None], g.slices)[0]
    return float(means[np.isfinite(means)].mean())


def _periods(
    g: Grid,
    names: Sequence[str],
    values: Sequence[Array],
    there: Sequence[Mask],
    counts: Sequence[Any],
    ci_level: float,
) -> pl.DataFrame:
    lines = []
    for r, key in enumerate(g.rows.iter_rows(named=True)):
        for k, name in enumerate(names):
            used = there[k][r]
            if not used.any():
                continue
            found = intervals.mean(g, values[k][r], used, ci_level=ci_level)
            lines.append(
                {
                    **key,
                    "period": name,
                    "score_pct": 100 * _over_dimensions(g, values[k][r], used),
                    **intervals.cells(found),
                    "n_tasks": int(used.sum()),
                    "n_runs": int(counts[k][r][used].sum()),
                }
            )
    return intervals.table(lines).with_columns(pl.col(*ROW).cast(pl.String))


# -- who answered -----------------------------------------------------------------------------------------


def _returned(study: Any, rows: pl.DataFrame) -> pl.DataFrame | None:
    """`model, effort, arm, _period, model_returned` of the calls of the model under test; None without calls."""
    calls = getattr(study, "calls", None)
    if not isinstance(calls, pl.LazyFrame | pl.DataFrame):
        return None
    mine = (pl.col("purpose") == "play") & pl.col("model_returned").is_not_null()
    found = calls.lazy().filter(mine).select("run_id", "seat", "model_returned").unique()
    messages = getattr(study, "messages", None)
    if isinstance(messages, pl.LazyFrame | pl.DataFrame):
        seats = messages.lazy().filter(pl.col("seat_kind") == "under_test").select("run_id", "seat").unique()
        found = found.join(seats, on=["run_id", "seat"], how="semi")
    table = found.collect()
    if not table.height:
        return None
    keys = rows.select("run_id", pl.col(*ROW).cast(pl.String), "_period").unique("run_id")
    return table.join(keys, on="run_id").select(*ROW, "_period", "model_returned").unique()


def _said(returned: pl.DataFrame | None, g: Grid, r: int, period: int) -> str | None:
    """What the provider called itself in a period, names in order; None where that is not known."""
    if returned is None:
        return None
    key = g.rows[r].row(0, named=True)
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.lit(key[c], dtype=pl.String)) for c in ROW)
    found = returned.filter(same & (pl.col("_period") == period))["model_returned"]
    return ", ".join(sorted(found.unique().to_list())) or None


def _remarks(table: pl.DataFrame) -> list[str]:
    out = []
    lost = table.filter(pl.col("reason").is_not_null())
    for (why,), rows in lost.group_by(["reason"], maintain_order=True):
        out.append(f"No difference, {why}: {_named(rows['row'].to_list())}.")
    changed = table.filter(pl.col("returned_old") != pl.col("returned_new"))
    for line in changed.iter_rows(named=True):
        out.append(
            f"{line['row']}: the provider answered as {line['returned_old']} in {line['old']} and as "
            f"{line['returned_new']} in {line['new']}."
        )
    fewer = table.filter(pl.col("n_dimensions") < pl.col("n_dimensions").max())
    fewer = fewer.filter(pl.col("reason").is_null())
    if fewer.height:
        out.append(f"Compared in fewer dimensions than other rows: {', '.join(fewer['row'])}.")
    return out
