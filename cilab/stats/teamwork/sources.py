"""Where tasks come from: families of sources, real records against built ones, coding against other tasks.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed
from cilab.results.estimator import estimator
from cilab.results.numbers import percent
from cilab.results.result import Result
from cilab.stats.methods import bootstrap, uncertainty
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, Mask
from cilab.stats.methods.hypothesis_tests import kendall_tau_b, pearson
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals, task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.groups import Groups, default_rows, members
from cilab.stats.teamwork.items import task_means
from cilab.stats.teamwork.task_runs import left_out


@dataclass(frozen=True, kw_only=True, repr=False)
class SourcesResult(Result):
    """Scores by where the tasks come from.

    Attributes
    ----------
    table : one line per source family, hardest first: `source_family, real_world, n_tasks, mean_value_pct` (over the
        tasks, of the mean over the models at the default setting), `lo_pct, hi_pct` (of mean_value_pct; null for one
        task), `frontier_pct` (the same over frontier models; null where there is none), `n_empty_resamples`.
    rows : one line per row: `row, real_world_pct, benchmark_pct, difference_points` (real-world minus benchmark-built),
        each the mean over the dimensions that have both kinds.
    summary : one line per quantity: `quantity, value, lo, hi, interval, n, note` (why a value or interval is missing),
        `n_empty_resamples`: Pearson's r of the two scores over rows (by tasks, and over rows), Kendall's tau-b, and by
        how much benchmark-built tasks are harder (points).
    dimensions : the dimensions that have both kinds.
    """

    rows: pl.DataFrame
    summary: pl.DataFrame
    dimensions: tuple[str, ...]
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "sources"
    title: ClassVar[str] = "Scores by source"

    def value(self, quantity: str) -> float | None:
        """A quantity of `.summary` by name."""
        found = self.summary.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no quantity {quantity!r}; there are {', '.join(self.summary['quantity'])}")
        return found["value"][0]

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


_SUMMARY = {
    "quantity": pl.String,
    "value": pl.Float64,
    "lo": pl.Float64,
    "hi": pl.Float64,
    "interval": pl.String,
    "n": pl.Int64,
    "note": pl.String,
    "n_empty_resamples": pl.Int64,
}


@estimator
def sources(
    study: Any,
    *,
    groups: Groups = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> SourcesResult:
    """Real-world records against tasks built from benchmarks, and the mean value of each source family.

    Parameters
    ----------
    study : opened study or data set whose tasks table has `source_family` and `real_world`.
    groups : as in `cilab.stats.teamwork.scores.group_means`; its group `frontier` is shown beside all models.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    SourcesResult
        The two scores of a row are taken over the dimensions that have tasks of both kinds. A row that has no task of
        a kind in a resample is filled in there (see `cilab.stats.methods.bootstrap.filled`); a resample in which fewer
        than half of the rows have one is empty and counted. With more than 5 % of empty resamples there is no interval.
        `n_used` counts the alone and test runs of the tasks behind either part, a remark those behind `.table`.

    Raises
    ------
    TableError
        The tasks have no source, none is of either kind, or they are those of a published round; or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.5 and figure 12.
    """
    g = grid(study, **scope)
    g.need_known_tasks("sources")
    if g.tasks["source_family"].null_count() == g.tasks.height:
        raise TableError("sources: no task has a source_family; it stands in the tasks table or in the runs")
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    rows, summary, dims = _kinds(how)
    n_used, n_families = _used(g, dims)
    return SourcesResult(
        table=_families(study, how, groups),
        rows=rows,
        summary=summary,
        dimensions=dims,
        resamples=resamples,
        seed=seed,
        remarks=(*g.notes, f"The mean values of the families rest on {n_families:,} of the rollouts used."),
        n_used=n_used,
        n_left_out=left_out(g, n_used, {}),
        provenance=g.provenance,
        parameters=g.asked,
        caption=(
            f"Mean test value in percent by source family, models at the default setting; {percent(ci_level)} "
            "intervals, tasks resampled within dimension."
        ),
    )


def _used(g: Grid, dims: Sequence[str]) -> tuple[int, int]:
    """Alone and test runs behind the scores of rows or the means of families, and those behind the means alone.

    The means take the rows at the default setting and the tasks of a known family; the scores take every row and the
    tasks of either kind in `dims`.
    """
    runs = g.runs.filter(pl.col("used") & pl.col("version").is_in(["alone", g.version]))
    tasks = g.tasks.select(
        kind=pl.col("real_world").is_not_null() & pl.col("dimension").is_in(list(dims)),
        family=pl.col("source_family").is_not_null(),
    )
    of, at = tasks[runs["t"].to_numpy()], default_rows(g)
    family = of["family"] & (runs["r"].is_in(at) if at else True)
    return int((of["kind"] | family).sum()), int(family.sum())


def _families(study: Any, how: task_runs.Resampled, groups: Any) -> pl.DataFrame:
    g = how.g
    at = default_rows(g)
    plain = g.take(at) if at else g
    mean = task_means(plain, plain.scored)
    try:
        frontier = members(study, plain, groups).get("frontier", [])
    except TableError:
        if groups is not None:
            raise
        frontier = []
    chosen = np.isin(plain.rows["model"].to_numpy(), frontier)
    best = task_means(plain, plain.scored & chosen[:, None]) if chosen.any() else np.full(len(mean), np.nan)
    lines = []
    for family in sorted(g.tasks["source_family"].drop_nulls().unique()):
        own = (g.tasks["source_family"] == family).fill_null(False).to_numpy()
        there = own & np.isfinite(mean)
        value, found, n_empty = _weighted(mean, plain.scored.sum(axis=0), there, how)
        real = g.tasks.filter(pl.Series(own))["real_world"].drop_nulls().unique()
        both = own & np.isfinite(best)
        lines.append(
            {
                "source_family": family,
                "real_world": real[0] if len(real) == 1 else None,
                "n_tasks": int(own.sum()),
                "mean_value_pct": value,
                **intervals.cells(found),
                "frontier_pct": 100 * bootstrap.exact_mean(best[both]) if both.any() else None,
                "n_empty_resamples": n_empty,
            }
        )
    schema = {"source_family": pl.String, "real_world": pl.Boolean, "n_tasks": pl.Int64}
    schema |= dict.fromkeys(("mean_value_pct", "lo_pct", "hi_pct"), pl.Float64) | intervals.EXTRA
    schema["frontier_pct"] = pl.Float64
    schema["n_empty_resamples"] = pl.Int64
    return pl.DataFrame(lines, schema=schema, orient="row").sort("mean_value_pct", nulls_last=True)


def _weighted(mean: Array, n_rows: Array, there: Mask, how: task_runs.Resampled) -> tuple[float | None, Bounds, int]:
    """Mean of the tasks that are there, in percent, its interval, and how many resamples hold none of them."""
    if not there.any():
        return None, Bounds(), 0
    value, drawn = 100 * bootstrap.exact_mean(mean[there]), how.counts[:, there]
    if how.interval == "rule":
        clusters, unit = how.g.clusters[there], how.g.cluster_name
        runs = n_rows[there].astype(float)
        return (
            value,
            uncertainty.mean_bounds(mean[there], clusters=clusters, runs=runs, unit=unit, ci_level=how.ci_level),
            0,
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        lo, hi, n_empty, why = bootstrap.interval(100 * (drawn @ mean[there]) / drawn.sum(axis=1), how.ci_level)
    # One task is the same in every resample that holds it: no spread to speak of.
    n = int(there.sum())
    found = Bounds(lo, hi, n, why) if n > 1 else Bounds(n_clusters=n, reason=uncertainty.too_few(n))
    return value, found.times(0.01), n_empty


def _kinds(how: task_runs.Resampled) -> tuple[pl.DataFrame, pl.DataFrame, tuple[str, ...]]:
    """The two scores of every row, what they have in common, and the dimensions they rest on."""
    g = how.g
    real = (g.tasks["real_world"] == True).fill_null(False).to_numpy()  # noqa: E712
    built = (g.tasks["real_world"] == False).fill_null(False).to_numpy()  # noqa: E712
    dims = [i for i, d in enumerate(g.slices) if real[d].any() and built[d].any()]
    if not dims:
        raise TableError("sources: no dimension has tasks of both kinds; real_world stands in the tasks table")
    masks = [g.scored & kind[None, :] for kind in (real, built)]
    x, y = (bootstrap.overall_means(g.points(mask)[:, dims]) for mask in masks)
    # One seed, so one set of resamples: a task drawn for one kind is drawn for the other as well.
    drawn = [task_runs.score_draws(g, how.counts, used=m)[1][dims].mean(axis=0) for m in masks]
    there = np.isfinite(x) & np.isfinite(y)
    rows = g.rows.select("row").with_columns(
        pl.Series("real_world_pct", 100 * x).fill_nan(None),
        pl.Series("benchmark_pct", 100 * y).fill_nan(None),
        pl.Series("difference_points", 100 * (x - y)).fill_nan(None),
    )
    a, b = x[there], y[there]
    r, tau = pearson(a, b, ci_level=how.ci_level), kendall_tau_b(a, b)
    by_task = bootstrap.row_correlations(
        *(bootstrap.filled(of[:, there], points) for of, points in zip(drawn, (a, b), strict=True))
    )
    n = int(there.sum())
    lines = [
        ("pearson_r", r.estimate, *_resampled(by_task, how, n, r.reason if r.estimate is None else None)),
        ("pearson_r_over_rows", r.estimate, r.lo, r.hi, "rows (Fisher's z)", n, r.reason, None),
        ("kendall_tau_b", tau.estimate, None, None, None, n, tau.reason, None),
    ]
    if n:
        gap = bootstrap.filled((drawn[0] - drawn[1])[:, there], a - b)
        harder = 100 * bootstrap.exact_mean(a - b)
        lines.append(("benchmark_harder_points", harder, *_resampled(100 * gap.mean(axis=1), how, n, None)))
    return rows, pl.DataFrame(lines, schema=_SUMMARY, orient="row"), tuple(g.dimensions[i] for i in dims)


def _resampled(replicates: Array, how: task_runs.Resampled, n: int, reason: str | None) -> tuple[Any, ...]:
    """`lo` to `n_empty_resamples` of a line of the summary; `reason` says why the value itself is missing."""
    if reason:
        return None, None, None, n, reason, None
    found = how.bounds(replicates)
    n_empty = int(np.isnan(replicates).sum())
    return found.lo, found.hi, None if found.lo is None else intervals.units(how.g), n, found.reason, n_empty
