"""Runs behind a grid, counted by row and task, and what the bootstrap over tasks says of shares and correlations.

May import `cilab.core` and its own folder. Reads no file, scores nothing anew: the grid decides which
runs count. Here they get further columns, and shares of them get intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_lazy, runs_of
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.result import Result
from cilab.stats.methods import bootstrap, uncertainty
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.hypothesis_tests import pearson
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid
from cilab.stats.teamwork.groups import default_rows, members

#: Scores (fractions) that differ by less are the same: only rounding tells them apart.
SAME = 1e-9
#: Pearson's r of two rows is 1 or -1 whatever the data are.
LEAST_ROWS = 3

#: Why a run of another effort or arm is left out where each model enters once.
OTHER_ROWS = "of rows not at a model's default setting"


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskResult(Result):
    """A result with intervals over tasks.

    Attributes
    ----------
    resamples, seed : of the bootstrap over tasks within dimension.
    remarks : sentences on what a reader must know.
    """

    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


def default_grid(g: Grid) -> Grid:
    """The rows at each model's default setting (18 in the paper).

    Raises
    ------
    TableError
        No model has such a row.
    """
    rows = default_rows(g)
    if not rows:
        raise TableError("runs: no model has a row at its default setting (effort null or 'default', no arm)")
    return g.take(rows)


def used_runs(study: Any, g: Grid, columns: Sequence[str] = (), version: str | None = None) -> pl.DataFrame:
    """The runs of one version that count in the grid, with further columns of the runs table.

    Returns
    -------
    DataFrame
        `run_id, r, t` (positions in the grid), `model, effort, arm, task_id, dimension, seed, score`, then `columns`
        (null where the runs table lacks one).

    Raises
    ------
    TableError
        A run has no id, so that nothing can be joined to it.
    """
    runs = g.runs.filter(pl.col("used") & (pl.col("version") == (version or g.version)))
    if runs["run_id"].null_count():
        raise TableError(f"runs: {runs['run_id'].null_count()} runs have no run_id, so their evidence cannot be found")
    rows = g.rows.select(ROW).with_row_index("r").with_columns(pl.col("r").cast(pl.Int64))
    tasks = g.tasks.select("task_id", "dimension").with_row_index("t").with_columns(pl.col("t").cast(pl.Int64))
    runs = runs.join(rows, on="r", maintain_order="left").join(tasks, on="t", maintain_order="left")
    runs = runs.select("run_id", "r", "t", *ROW, "task_id", "dimension", "seed", score="value")
    if not columns:
        return runs
    return runs.join(run_columns(study, columns), on="run_id", how="left", maintain_order="left")


def run_columns(study: Any, columns: Sequence[str]) -> pl.DataFrame:
    """`run_id` and columns of the runs table, one line per run; null where the table lacks a column.

    Read apart from `read_rows`, which hashes what it reads: a hash of lists of evidence is of no use to anybody.
    """
    lazy = runs_of(study, ("run_id", *columns))
    there = lazy.collect_schema().names()
    gone = [pl.lit(None).alias(c) for c in columns if c not in there]
    return lazy.with_columns(gone).select("run_id", *columns).unique("run_id", keep="first").collect()


def counted(g: Grid, runs: pl.DataFrame, which: pl.Series | None = None) -> Array:
    """Number of `runs` (where `which` holds) per row and task, shape (R, T)."""
    kept = runs if which is None else runs.filter(which.fill_null(False))
    return summed(g, kept, pl.repeat(1.0, kept.height, eager=True))


def summed(g: Grid, runs: pl.DataFrame, values: pl.Series) -> Array:
    """Sum of `values` per row and task, shape (R, T)."""
    shape = (g.rows.height, g.tasks.height)
    at = runs["r"].to_numpy() * shape[1] + runs["t"].to_numpy()
    return np.bincount(at, weights=values.to_numpy(), minlength=shape[0] * shape[1]).reshape(shape)


@dataclass(frozen=True, eq=False)
class Resampled:
    """A grid, and how what is read off it gets its intervals.

    Attributes
    ----------
    g : the grid.
    draw : draws `counts`.
    interval, ci_level : which interval (see `cilab.stats.methods.uncertainty`), and its level.
    """

    g: Grid
    draw: Callable[[], Array]
    interval: IntervalKind = "rule"
    ci_level: float = CI_LEVEL

    @cached_property
    def counts(self) -> Array:
        """How often each task stands in each resample, shape (resamples, T); drawn when first asked for."""
        return self.draw()

    def where(self, tasks: Mask) -> Resampled:
        """The same with some of the tasks only."""
        return replace(self, g=self.g.where(tasks), draw=lambda: self.counts[:, tasks])

    def take(self, rows: Sequence[int]) -> Resampled:
        """The same with some of the rows only."""
        return replace(self, g=self.g.take(rows), draw=lambda: self.counts)

    def bounds(self, draws: Array, used: Mask | None = None) -> Bounds:
        """Interval of any quantity by its replicates; it rests on the `used` tasks, by default all that are scored."""
        rests = np.asarray(self.g.scored.any(axis=0) if used is None else used, dtype=bool)
        return intervals.drawn(self.g, draws, rests, interval=self.interval, ci_level=self.ci_level)


def resampled(
    g: Grid, resamples: int, seed: int | Sequence[int], interval: IntervalKind = "rule", ci_level: float = CI_LEVEL
) -> Resampled:
    """Clusters of tasks drawn within dimension, the same resamples for every row.

    Tasks whose gate no row has decided are not drawn, as in `Grid.replicates`.
    """
    return Resampled(g, lambda: g.task_counts(resamples, seed), interval, ci_level)


@dataclass(frozen=True, slots=True)
class Share:
    """A ratio of two sums over tasks.

    Attributes
    ----------
    point : the ratio; NaN where the lower sum is 0.
    bounds : its interval, fractions.
    """

    point: float
    bounds: Bounds

    def percent(self, prefix: str = "") -> dict[str, float | int | str | None]:
        """`share_pct, lo_pct, hi_pct, no_interval, n_clusters`; all null where nothing is below the line."""
        point = None if math.isnan(self.point) else 100 * self.point
        return {f"{prefix}share_pct": point, **intervals.cells(self.bounds, prefix)}


def share(above: Array, below: Array, how: Resampled) -> Share:
    """The pooled share: sum of `above` over sum of `below`, both of shape (T,)."""
    return shares(above[None], below[None], how)[0]


def shares(above: Array, below: Array, how: Resampled) -> list[Share]:
    """Pooled shares, one for each line of `above` and `below`, shape (K, T)."""
    if how.interval == "rule":
        points = _ratios(above, below)
        found = [intervals.share(how.g, a, b, ci_level=how.ci_level) for a, b in zip(above, below, strict=True)]
    else:  # one product instead of K small ones
        points, draws = shares_by_row(above, below, how.counts)
        found = [_percentiles(d, b > 0, how) for d, b in zip(draws.T, below, strict=True)]
    return [Share(float(p), Bounds() if math.isnan(p) else b) for p, b in zip(points, found, strict=True)]


def _percentiles(draws: Array, used: Mask, how: Resampled) -> Bounds:
    """The papers' interval of a share; one unit cannot be resampled."""
    n = intervals.n_clusters(how.g, used)
    if n < 2:
        return Bounds(n_clusters=n, reason=uncertainty.too_few(n, how.g.cluster_name))
    return Bounds(*bootstrap.ends(draws, how.ci_level), n)


def _ratios(above: Array, below: Array) -> Array:
    """Sum of `above` over sum of `below`, line by line; NaN where nothing is below."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(above.sum(axis=1) / below.sum(axis=1))


def shares_by_row(above: Array, below: Array, counts: Array) -> tuple[Array, Array]:
    """Pooled share of every row and its replicates: shapes (R,) and (resamples, R); NaN where nothing is below."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _ratios(above, below), (counts @ above.T) / (counts @ below.T)


def score_draws(g: Grid, counts: Array, values: Array | None = None, used: Mask | None = None) -> tuple[Array, Array]:
    """Dimension scores and their replicates under given counts: shapes (R, D) and (D, resamples, R).

    The same counts for scores and shares keep the two paired in every correlation.
    """
    values, used = g.values if values is None else values, g.scored if used is None else used
    points = bootstrap.dimension_means(values, used, g.slices)
    return points, bootstrap.counted_means(values, used, g.slices, counts)


def paired(g: Grid, draws: Array) -> Array | None:
    """`draws` of several rows, or None where task ids are places in published counts: such rows are not paired."""
    return None if g.unknown_tasks else draws


def correlation(
    x: Array, y: Array, x_draws: Array | None, y_draws: Array | None, how: Resampled
) -> dict[str, float | int | str | None]:
    """Pearson's r over rows with both intervals, labelled, and p from the t-test.

    `lo, hi` come from resampled tasks (the paper's: how sure is r for these models), `lo_models, hi_models` from
    Fisher's z (how sure for new models). Rows with an undefined value are left out; `n_empty_resamples` counts the
    resamples in which a row's value is undefined, which are left out of the interval. Of fewer than three rows r is
    undefined, and `undefined` says so.
    """
    there = np.isfinite(x) & np.isfinite(y)
    out: dict[str, float | int | str | None] = {"n_rows": int(there.sum()), "r": None, "lo": None, "hi": None}
    out |= {"no_interval": None, "n_clusters": None, "lo_models": None, "hi_models": None, "p": None}
    out |= {"n_empty_resamples": 0, "undefined": None}
    if there.sum() < LEAST_ROWS:
        return out | {"undefined": f"fewer than {LEAST_ROWS} rows"}
    test = pearson(x[there], y[there], ci_level=how.ci_level)
    if test.estimate is None:
        return out | {"undefined": test.reason}
    out |= {"r": test.estimate, "lo_models": test.lo, "hi_models": test.hi, "p": test.p}
    if x_draws is not None and y_draws is not None:
        draws = bootstrap.row_correlations(x_draws[:, there], y_draws[:, there])
        found = how.bounds(draws)
        out |= {"lo": found.lo, "hi": found.hi, "no_interval": found.reason, "n_clusters": found.n_clusters}
        out |= {"n_empty_resamples": int(np.isnan(draws).sum())}
    else:
        out |= {"no_interval": intervals.UNPAIRED}
    return out


def least_squares(x: Array, y: Array) -> tuple[float, float]:
    """Intercept and slope of the least-squares line of `y` on `x`; `x` must vary."""
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return float(y.mean() - slope * x.mean()), slope


CORRELATION_SCHEMA: dict[str, Any] = {
    "n_rows": pl.Int64,
    **dict.fromkeys(("r", "lo", "hi"), pl.Float64),
    **intervals.EXTRA,
    **dict.fromkeys(("lo_models", "hi_models", "p"), pl.Float64),
    "n_empty_resamples": pl.Int64,
    "undefined": pl.String,
}


def groups_of(study: Any, g: Grid, groups: Mapping[str, Any] | pl.DataFrame | None) -> dict[str, list[int]]:
    """group -> positions of its rows; no group where none is asked for and the models are unknown."""
    try:
        found = members(study, g, groups)
    except TableError:
        if groups is not None:
            raise
        return {}
    of_model = g.rows["model"].to_list()
    return {name: [r for r, m in enumerate(of_model) if m in set(models)] for name, models in found.items()}


def parts(study: Any, g: Grid, groups: Mapping[str, Any] | pl.DataFrame | None) -> list[tuple[str, str, Mask]]:
    """What shares are given for: (`by`, name, cells of shape (R, T)): all, each model, dimension and group."""
    shape = (g.rows.height, g.tasks.height)
    out = [("all", "all", np.ones(shape, bool))]
    for r, model in enumerate(g.rows["model"]):
        cells = np.zeros(shape, bool)
        cells[r] = True
        out.append(("model", model, cells))
    for name, tasks in zip(g.dimensions, g.slices, strict=True):
        cells = np.zeros(shape, bool)
        cells[:, tasks] = True
        out.append(("dimension", name, cells))
    for name, rows in groups_of(study, g, groups).items():
        cells = np.zeros(shape, bool)
        cells[rows] = True
        out.append(("group", name, cells))
    return out


def left_out(whole: Grid, n_used: int, reasons: Mapping[str, int]) -> dict[str, int]:
    """The grid's reasons and further ones; what remains of its used runs is said too, so that all add up."""
    more = {reason: n for reason, n in reasons.items() if n}
    rest = whole.n_used - n_used - sum(more.values())
    return {**whole.n_left_out, **more, **({"of no part in this question": rest} if rest else {})}


def study_labels(study: Any, labels: Any = None, rater: str | None = "final") -> pl.DataFrame | None:
    """Judges' labels of the model's messages: `run_id, index, rater, label, gives_way, noticed`; None without any.

    Parameters
    ----------
    study : where labels come from unless `labels` is given.
    labels : a labels table (polars or pandas), or None.
    rater : whose labels count: `final` (the settled ones), another name, or None for any judge's; people's labels
        (`person:...`) count only by name.

    Raises
    ------
    TableError
        The rater is unknown, or the table lacks a column.
    """
    table = getattr(study, "labels", None) if labels is None else labels
    if table is None:
        return None
    lazy = as_lazy(table, "labels must be a polars or pandas DataFrame")
    there = lazy.collect_schema().names()
    for column in ("run_id", "label"):
        if column not in there:
            raise TableError(f"labels: missing column {column}")
    kinds = {"index": pl.Int64, "rater": pl.String, "gives_way": pl.Boolean, "noticed": pl.Boolean}
    gone = [pl.lit(None, dtype=kind).alias(c) for c, kind in kinds.items() if c not in there]
    found = lazy.with_columns(gone).select("run_id", "index", "rater", "label", "gives_way", "noticed").collect()
    if found.is_empty():
        return None
    if rater is None:
        return found.filter(~pl.col("rater").fill_null("").str.starts_with("person:"))
    known = sorted(found["rater"].drop_nulls().unique().to_list())
    if rater not in known:
        if not known:  # a table of one judge need not name it
            return found
        raise TableError(f"labels: no rater {rater!r}.{nearest(rater, known)} Known: {', '.join(known)}")
    return found.filter(pl.col("rater") == rater)


def silent(study: Any, run_ids: pl.Series) -> list[str]:
    """Those of the runs in which the model said nothing, by the messages table, so that there was nothing to label."""
    messages = getattr(study, "messages", None)
    if not len(run_ids) or not isinstance(messages, pl.LazyFrame):
        return []
    own = (pl.col("kind") == "message") & (pl.col("seat_kind") == "under_test")
    heard = messages.filter(pl.col("run_id").is_in(run_ids.implode()))
    known = heard.group_by("run_id").agg(own.any().alias("spoke")).collect()
    return known.filter(~pl.col("spoke"))["run_id"].sort().to_list()


def percent_series(name: str, values: Array) -> pl.Series:
    """Fractions as a column of percent; NaN is null."""
    return pl.Series(name, 100 * np.asarray(values, float), dtype=pl.Float64).fill_nan(None)


def overall_draws(g: Grid, counts: Array) -> tuple[Array, Array]:
    """Overall scores and replicates: shapes (R,) and (resamples, R); NaN where a dimension is undefined."""
    points, draws = score_draws(g, counts)
    return bootstrap.overall_means(points), draws.mean(axis=0)


def usage(study: Any, g: Grid) -> dict[str, Array]:
    """Cost of each row's evaluation (USD) and mean output tokens per run; NaN where a run's is unknown."""
    runs = _with_usage(study, g)
    out = {}
    for column, name, how in (("cost_usd", "cost", pl.Expr.sum), ("tokens_out", "tokens_out", pl.Expr.mean)):
        known = runs.group_by("r").agg(pl.when(pl.col(column).null_count() == 0).then(how(pl.col(column))).alias(name))
        values = np.full(g.rows.height, np.nan)
        values[known["r"].to_numpy()] = known[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        out[name] = values
    return out


def _with_usage(study: Any, g: Grid) -> pl.DataFrame:
    """Every run that the rows played, scored or not, with its cost and tokens.

    A run that the gate kept from being played costs nothing; so does a run that ended in an error and has no cost.
    """
    played = g.runs.filter(pl.col("status") != "gated_out").select("run_id", "r", "status")
    if played["run_id"].null_count():
        raise TableError("runs: some have no run_id, so their cost cannot be found")
    more = run_columns(study, ("cost_usd", "tokens_out"))
    runs = played.join(more, on="run_id", how="left").with_columns(
        pl.col("cost_usd").cast(pl.Float64), pl.col("tokens_out").cast(pl.Float64)
    )
    failed = pl.col("status") == "error"
    return runs.with_columns(cost_usd=pl.when(failed).then(pl.col("cost_usd").fill_null(0.0)).otherwise("cost_usd"))
