"""Runs as arrays of rows by tasks: the gate, refusals, missing runs and reviews settled once, for every statistic.

May import `cilab.core` and its own folder. Reads no file, plays nothing, scores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, nearest
from cilab.core.frames import Provenance, read_rows, runs_of
from cilab.core.vocabulary import ROW, check_statuses
from cilab.results.estimator import opened, scope, settled
from cilab.results.names import row_names
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array, Mask, Replicates
from cilab.teamwork.terms import DIMENSIONS

#: How the id of a task begins whose identity was never published (see `cilab.datasets.published_round`).
UNKNOWN_TASK = "unknown:"
#: Name of the one dimension of data that have none.
ALL_TASKS = "all"
#: Versions that mean something to the gate and to the drop; any other is scored like the test.
ALONE, BASELINE = "alone", "baseline"

#: Clusters unless told otherwise: by the column `FAMILY` where the data have it, else each task by itself.
AUTO = "auto"
#: Each task is a cluster of its own.
TASK = "task"
FAMILY = "family"

Gate = Literal["solved_alone", "off"]
Reviews = Literal["apply", "ignore"]
Refused = Literal["out", "fail"]
Missing = Literal["out", "fail", "pass"]

_RUN_COLUMNS = ("run_id", "benchmark", "dimension", "source_family", "split", "effort", "arm", "seed", "rule_version")
_STATUS_REASONS = {"refused": "refused", "gated_out": "gated out", "error": "ended in an error"}
_NO_SCORE = "without a score"
#: What an assumption makes of a refused or missing run, and in words.
_COUNTED = {"fail": (0.0, "counted as failed"), "pass": (1.0, "counted as passed")}
_OWN_GATE = "Version alone is scored without the gate, which would keep only what was passed."
#: Arrays of a grid with the rows first and the tasks second.
_CELLS = ("by_seed", "baseline", "refused", "decided", "solved", "scored", "missing")


@dataclass(frozen=True, eq=False)
class Grid:
    """Runs as arrays of rows by tasks. R rows, T tasks, S seeds.

    Attributes
    ----------
    rows : DataFrame of R lines `row` (name in figures), `model, effort, arm`.
    tasks : DataFrame of T lines `task_id, dimension, source_family, real_world, split`, by dimension, then id.
    dimensions : names, in the order of `cilab.teamwork.terms.DIMENSIONS`.
    seeds : the seeds of the scored version, ascending.
    by_seed : test scores, fractions, shape (R, T, S); NaN where there is none.
    baseline : mean baseline score, shape (R, T); NaN where there is none, and of versions other than the test, which
        are not compared with one.
    refused : a run of the task was refused, in any version: the row does not have the task; shape (R, T).
    decided : the gate is decided: an alone run failed, or one passed and none is missing. Without the gate: scored.
    solved : passed in every scored alone run, and none is missing.
    scored : solved, not refused, and no run of the scored version is missing.
    missing : out because a run is missing (see `grid`); shape (R, T).
    runs : the runs behind it, `run_id, r, t` (positions), `version, seed, value, used` and the reason if not.
    incomplete : DataFrame `model, effort, arm, task_id, dimension, reason`: the tasks of `missing`.
    clusters : code of the cluster that each task was sampled in, from 0 on without gaps, shape (T,).
    n_used, n_left_out, provenance : as in `Result`.
    notes : sentences on what a reader must know (borrowed gates, unequal seeds, reviews, several rules).
    version, gate : as settled: of version `alone` the gate is off.
    cluster_name : the column behind `clusters`, or `task`.
    """

    rows: pl.DataFrame
    tasks: pl.DataFrame
    dimensions: tuple[str, ...]
    seeds: tuple[int, ...]
    by_seed: Array
    baseline: Array
    refused: Mask
    decided: Mask
    solved: Mask
    scored: Mask
    missing: Mask
    runs: pl.DataFrame
    incomplete: pl.DataFrame
    clusters: NDArray[np.int64]
    n_used: int
    n_left_out: Mapping[str, int]
    provenance: Provenance
    notes: tuple[str, ...] = ()
    version: str = "test"
    gate: Gate = "solved_alone"
    cluster_name: str = TASK

    @property
    def names(self) -> list[str]:
        """Name of each row."""
        return self.rows["row"].to_list()

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The tasks of each dimension, as a slice of the task axis."""
        return _slices(self.tasks["dimension"].to_list(), self.dimensions)

    @cached_property
    def values(self) -> Array:
        """Mean over seeds of the test scores, shape (R, T); NaN where there is none."""
        return _mean_last(self.by_seed)

    @cached_property
    def has_baseline(self) -> Mask:
        """Gated, not refused, and with a baseline score; shape (R, T)."""
        return self.gated & ~np.isnan(self.baseline)

    @cached_property
    def gated(self) -> Mask:
        """Solved alone and not refused, complete or not; shape (R, T)."""
        return self.solved & ~self.refused

    @cached_property
    def complete(self) -> Mask:
        """Scored, or failed alone: nothing more can be asked of the row on this task; shape (R, T)."""
        return self.scored | (self.decided & ~self.gated & ~self.refused)

    @property
    def asked(self) -> dict[str, Any]:
        """Which runs count, for the parameters of a result."""
        return {"version": self.version, "gate": self.gate, "dimensions": list(self.dimensions)}

    @property
    def gate_words(self) -> str:
        """What rows do with the tasks that count for them: "the tasks that they `solve alone`", or `have scores on`."""
        return "have scores on" if self.gate == "off" else "solve alone"

    @cached_property
    def unknown_tasks(self) -> bool:
        """Some ids are places in a published count, not tasks: rows cannot be paired by task."""
        return bool(self.tasks["task_id"].str.starts_with(UNKNOWN_TASK).any())

    def need_known_tasks(self, what: str) -> None:
        """Refuse `what`, which pairs rows by task, where the ids are places and not tasks."""
        if self.unknown_tasks:
            raise TableError(
                f"{what} pairs rows by task, but in {self.provenance.study} task ids beginning with {UNKNOWN_TASK} are "
                "places in a published count; cilab.differences gives points and bounds"
            )

    def need_test(self, what: str) -> None:
        """Refuse `what`, which compares the test with other versions, where another version is scored."""
        if self.version in (ALONE, BASELINE):
            raise TableError(f"{what} is about the test; version={self.version!r} has nothing to be compared with")

    def points(self, used: Mask | None = None) -> Array:
        """Dimension scores, fractions, shape (R, dimensions); of `used` tasks instead of all scored ones."""
        return bootstrap.dimension_means(self.values, self.scored if used is None else used, self.slices)

    @cached_property
    def drawn(self) -> Mask:
        """Tasks that resampling draws from: those whose gate some row has decided, shape (T,)."""
        return np.asarray((self.decided & ~self.refused).any(axis=0))

    @cached_property
    def dimension_of(self) -> NDArray[np.int64]:
        """Code of each task's dimension, shape (T,)."""
        return np.repeat(np.arange(len(self.dimensions)), [d.stop - d.start for d in self.slices])

    def task_counts(self, resamples: int, seed: int | Sequence[int]) -> Array:
        """How often each task stands in each resample of clusters within dimension, shape (resamples, T)."""
        counts, there = np.zeros((resamples, self.tasks.height)), self.drawn
        rng = np.random.default_rng(seed)
        counts[:, there] = bootstrap.cluster_counts(self.clusters[there], self.dimension_of[there], resamples, rng)
        return counts

    def replicates(self, used: Mask | None = None, *, resamples: int, seed: int | Sequence[int]) -> Replicates:
        """Bootstrap replicates of `points`; tasks whose gate no row has decided are not drawn."""
        used = self.scored if used is None else used
        if len(np.unique(self.clusters)) < len(self.clusters):
            counts = self.task_counts(resamples, seed)
            return Replicates(bootstrap.counted_means(self.values, used, self.slices, counts))
        there = self.drawn
        slices = _slices([d for d, ok in zip(self.tasks["dimension"], there, strict=True) if ok], self.dimensions)
        rng = np.random.default_rng(seed)
        return bootstrap.resample_scores(self.values[:, there], used[:, there], slices, resamples=resamples, rng=rng)

    def where(self, tasks: Mask) -> Grid:
        """The same with some of the tasks only; dimensions without one of them go."""
        kept = self.tasks.filter(pl.Series(tasks))
        there = set(kept["dimension"])
        new = {name: getattr(self, name)[:, tasks] for name in _CELLS}
        codes = np.unique(self.clusters[tasks], return_inverse=True)[1].astype(np.int64)
        dimensions = tuple(d for d in self.dimensions if d in there)
        return replace(self, tasks=kept, dimensions=dimensions, clusters=codes, **new)

    def take(self, rows: Sequence[int]) -> Grid:
        """The same with some of the rows only, in the order given."""
        at = list(rows)
        new = {name: getattr(self, name)[at] for name in _CELLS}
        return replace(self, rows=self.rows[at], runs=_renumbered(self.runs, at), **new)


@scope(
    version="test",
    gate="solved_alone",
    allow_partial=False,
    reviews="apply",
    benchmark=None,
    models=None,
    dimensions=None,
    common_tasks=False,
    cluster=AUTO,
    refused="out",
    missing="out",
)
class Scope(TypedDict, total=False):
    """Which runs count: the arguments of `grid`, which estimators take and hand on."""

    version: str
    gate: Gate
    allow_partial: bool
    reviews: Reviews
    benchmark: str | None
    models: Sequence[str] | None
    dimensions: Sequence[str] | None
    common_tasks: bool
    cluster: str
    refused: Refused
    missing: Missing


@opened
def grid(data: Any, **given: Unpack[Scope]) -> Grid:
    """Runs as arrays of rows by tasks, with the gate, refusals, missing runs and reviews settled.

    Rules (collaborative-intelligence paper, section 2.3; where it is silent, this project's)

    - Score of a task: the mean over its scored runs. Tasks and rows may have different numbers of them: one more run
      takes no other task out, and one fewer makes no task incomplete.
    - Gate: a task counts for a row that passes it (score 1) in every scored alone run. A row of an arm without alone
      runs takes the gate of the same model and effort without an arm; this is said in the notes. `version="alone"` is
      scored without the gate, which would keep only what passed; `version="baseline"` with it, as the test is.
    - Refused: a task of which any run was refused is out for that row. It is not a fail.
    - Missing: a task is incomplete for a row if one of its runs, alone or of the scored version, ended in an error (or
      has no score), or if it was never run there although the tasks table or other rows' runs name it. It is out and
      listed, unless `allow_partial`. A run that the gate kept from being played is not missing, and of a task that was
      failed alone nothing is. A baseline of which a run is missing is no baseline.
    - Plan: the tasks are those of the study's tasks table, and those of the runs; a frame has its runs only.
    - Reviews: the latest reviewer's verdict on a run (table `reviews`) takes the place of its score.
    - The same run id twice (merged studies) is one run.

    Parameters
    ----------
    data : runs table (polars or pandas), opened study or data set.
    version : the version that is scored.
    gate : `solved_alone`, or `off`: every task counts, and no alone run is needed (other people's data).
    allow_partial : a task with at least one scored run counts, with the mean of those that are there; an alone run
        that ended in an error is no attempt.
    reviews : `apply` the study's reviews or `ignore` them.
    benchmark : default `teamwork` where the data have it, else the only one there is.
    models, dimensions : names to keep; None keeps all.
    common_tasks : True keeps the tasks that every row has scored, and no others; a dimension without one goes, which is
        said in the notes. Rows are those of `models`.
    cluster : which tasks were sampled together, for intervals: the name of a column of the runs or tasks table, such as
        `family` or `source_family`; `task`, each by itself; `auto`, the column `family` where the data have it (a task
        without one stands for itself), else `task`.
    refused, missing : what becomes of refused and of incomplete tasks, to see what hangs on them. `out`, or counted in
        the score: as solved alone unless an alone run failed, and refused or missing runs of the scored version with 0
        (`fail`) or 1 (`pass`); where the task has no run of that version, as if it had one.

    Raises
    ------
    TableError
        A column is missing, a score is NaN, outside 0 to 1 or no number, a seed is no whole number, two scored runs
        claim the same cell, a row has no alone runs, nothing is left to score, rows have no task in common, tasks
        cannot be grouped by `cluster`, or an argument is unknown.
    """
    asked = settled(Scope, given, "grid")
    version, reviews = asked["version"], asked["reviews"]
    models, dimensions = asked["models"], asked["dimensions"]
    runs, provenance = read_rows(data, ("task_id", "version", "model", "status", "score"), _RUN_COLUMNS)
    runs = _typed(runs, data)
    runs, notes = _reviewed(runs, data, reviews)
    benchmark = asked["benchmark"] or _benchmark(runs)
    runs = runs.with_columns(_scope(benchmark, version, models).alias("reason"))
    if models is not None:
        check_names("model", models, runs["model"])
    runs = _once(runs)
    kept = runs.filter(pl.col("reason").is_null())
    if kept.height == 0:
        raise TableError(f"runs: nothing to score; left out: {listed(_counted(runs))}")
    tasks = _plan(data, kept, benchmark)
    if dimensions is not None:
        check_names("dimension", dimensions, tasks["dimension"])
        tasks = tasks.filter(pl.col("dimension").is_in(list(dimensions)))
        runs = _without(runs, tasks, "of dimensions not asked for")
    codes, cluster_name, more = _clusters(data, tasks, benchmark, asked["cluster"])
    builder = _Builder(
        runs=runs,
        tasks=tasks,
        version=version,
        gate="off" if version == ALONE else asked["gate"],
        allow_partial=asked["allow_partial"],
        refused=asked["refused"],
        missing=asked["missing"],
        clusters=codes,
        cluster_name=cluster_name,
        provenance=provenance,
        notes=notes + more + ((_OWN_GATE,) if version == ALONE and asked["gate"] != "off" else ()),
    )
    found = builder.grid()
    return _on_common_tasks(builder, found) if asked["common_tasks"] else found


def check_names(what: str, asked: Sequence[str], there: pl.Series) -> None:
    """Refuse a name that is not `there`."""
    if isinstance(asked, str):
        raise TableError(f"{what}s is a text; give a list of names, such as [{asked!r}]")
    known = sorted(there.drop_nulls().unique().to_list())
    for name in asked:
        if name not in known:
            raise TableError(f"no {what} {name!r} in these runs.{nearest(str(name), known)}")


def _typed(runs: pl.DataFrame, data: Any) -> pl.DataFrame:
    """Columns in the types used below; the score, checked, as a float named `value` (null unless ok)."""
    kind = runs.schema["score"]
    if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise TableError(f"runs: score holds {kind}, not numbers")
    if runs.schema["seed"].is_float() and (odd := runs.filter(pl.col("seed") != pl.col("seed").round())["seed"]).len():
        raise TableError(f"runs: seed is {odd[0]:g} in {odd.len():,} rows; seeds are whole numbers")
    text = [c for c in runs.columns if c not in ("score", "seed")]
    try:
        runs = runs.with_columns(
            *(pl.col(c).cast(pl.String) for c in text),
            pl.col("seed").cast(pl.Int64).fill_null(0),
            pl.col("score").cast(pl.Float64),
        )
    except pl.exceptions.PolarsError as e:
        raise TableError(f"runs: a column has another type than the runs table: {str(e).splitlines()[0]}") from None
    for column in ("task_id", "version", "model", "status"):
        if n := runs[column].null_count():
            raise TableError(f"runs: {n} rows without {column}")
    check_statuses(runs["status"].unique(), data)
    ok = runs.filter(pl.col("status") == "ok")["score"].drop_nulls()
    if ok.is_nan().any():
        raise TableError(f"runs: score is NaN in {ok.is_nan().sum()} rows; what is not known is null")
    if ok.len() and (ok.max() > 1 or ok.min() < 0):  # type: ignore[operator]
        worst = ok.max() if ok.max() > 1 else ok.min()  # type: ignore[operator]
        raise TableError(f"runs: score is {worst:g}; it is a fraction from 0 to 1 (divide percentages by 100)")
    return runs.with_columns(value=pl.when(pl.col("status") == "ok").then("score")).drop("score")


def _reviewed(runs: pl.DataFrame, data: Any, how: Reviews) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Scores with the reviewers' verdicts in their place, and a sentence on them."""
    table = getattr(data, "reviews", None)
    if not isinstance(table, pl.LazyFrame | pl.DataFrame) or runs["run_id"].null_count() == runs.height:
        return runs, ()
    found = table.lazy().filter(pl.col("new_score").is_not_null()).collect()
    if found.height == 0:
        return runs, ()
    if how == "ignore":
        n = found["run_id"].n_unique()
        return runs, (f"{n:,} reviewed runs keep the checker's verdict (reviews='ignore').",)
    last = found.sort("at", "reviewer", nulls_last=False).group_by("run_id", maintain_order=True).last()
    differ = found.group_by("run_id").agg(pl.col("new_score").n_unique()).filter(pl.col("new_score") > 1).height
    joined = runs.join(last.select("run_id", "old_score", "new_score"), on="run_id", how="left", maintain_order="left")
    stale = joined.filter((pl.col("old_score") - pl.col("value")).abs() > 1e-9)
    if stale.height:
        row = stale.row(0, named=True)
        raise TableError(
            f"reviews: run {row['run_id']} was reviewed with score {row['old_score']:g}, the runs table says "
            f"{row['value']:g}; review it again, or pass reviews='ignore'"
        )
    changed = joined.filter(pl.col("value").is_not_null() & (pl.col("new_score") != pl.col("value"))).height
    ok = pl.col("value").is_not_null()
    joined = joined.with_columns(value=pl.when(ok).then(pl.coalesce("new_score", "value")))
    words = f"{changed:,} of {last.height:,} reviewed verdicts differ from the checker's and take its place"
    more = f"; reviewers differ on {differ:,}, the latest counts" if differ else ""
    return joined.drop("old_score", "new_score"), (f"{words}{more}.",)


def _benchmark(runs: pl.DataFrame) -> str:
    there = sorted(runs["benchmark"].fill_null("teamwork").unique().to_list())
    if "teamwork" in there:
        return "teamwork"
    if len(there) > 1:
        raise TableError(f"runs of several benchmarks: {', '.join(there)}; say benchmark=")
    if there == ["maze"]:
        raise TableError("runs are of mazes, which no model solves alone first; see cilab.gap, or say benchmark='maze'")
    return there[0]


def _scope(benchmark: str, version: str, models: Sequence[str] | None) -> pl.Expr:
    """Why a run is out of the question; null where it is not."""
    versions = list(dict.fromkeys([ALONE, BASELINE, version]))
    reason = (
        pl.when(pl.col("benchmark").fill_null("teamwork") != benchmark)
        .then(pl.lit("of another benchmark"))
        .when(~pl.col("version").is_in(versions))
        .then(pl.lit("of another version"))
    )
    if models is not None:
        reason = reason.when(~pl.col("model").is_in(list(models))).then(pl.lit("of models not asked for"))
    return reason.otherwise(None)


def _once(runs: pl.DataFrame) -> pl.DataFrame:
    """Each run once, and of each cell (row, task, version, seed) one run: the scored one where there is one."""
    # A refusal stands; an error is tried again, and what was gated out was not played.
    rank = pl.col("status").replace_strict({"ok": 0, "refused": 1, "error": 2}, default=3, return_dtype=pl.Int8)
    order = runs.with_row_index("at").sort(
        pl.col("reason").is_not_null(), pl.col("value").is_null(), rank, "run_id", "at", nulls_last=True
    )
    _refuse_two_scores(order)
    again = pl.col("run_id").is_not_null() & ~pl.col("run_id").is_first_distinct() & pl.col("reason").is_null()
    order = order.with_columns(reason=pl.when(again).then(pl.lit("the same run again")).otherwise("reason"))
    cell = pl.struct(*ROW, "task_id", "version", "seed")
    live = order.filter(pl.col("reason").is_null()).with_columns(n=cell.is_first_distinct())
    second = live.filter(~pl.col("n"))
    scored_twice = second.filter(pl.col("value").is_not_null())
    if scored_twice.height:
        _refuse_double(live, scored_twice.row(0, named=True))
    replaced = pl.col("at").is_in(second["at"].to_list())
    return order.with_columns(
        reason=pl.when(replaced).then(pl.lit("of a cell that has another run")).otherwise("reason")
    )


def _refuse_two_scores(runs: pl.DataFrame) -> None:
    """One run id with two scores is no repeat of a run but a contradiction."""
    scores = runs.filter(pl.col("run_id").is_not_null()).group_by("run_id").agg(pl.col("value").drop_nulls().n_unique())
    odd = scores.filter(pl.col("value") > 1)["run_id"].sort()
    if odd.len():
        raise TableError(
            f"runs: {odd.len()} run ids stand here with two different scores, such as {odd[0]}; "
            "keep one of them, or enter the change as a review"
        )


def _refuse_double(live: pl.DataFrame, row: Mapping[str, Any]) -> None:
    same = pl.all_horizontal(pl.col(c).eq_missing(pl.lit(row[c])) for c in (*ROW, "task_id", "version", "seed"))
    ids = live.filter(same & pl.col("value").is_not_null())["run_id"].to_list()
    raise TableError(
        f"runs: {row['model']}, task {row['task_id']}, {row['version']}, seed {row['seed']} has {len(ids)} scored runs "
        f"({', '.join(map(str, ids[:3]))}); keep one study or rule, or give them different arms"
    )


def _plan(data: Any, kept: pl.DataFrame, benchmark: str) -> pl.DataFrame:
    """The tasks: of the tasks table, and of the runs."""
    columns = ["task_id", "dimension", "source_family", "split"]
    of_runs = kept.group_by("task_id").agg(
        pl.col("dimension", "source_family", "split").drop_nulls().first(),
        n=pl.col("dimension").drop_nulls().n_unique(),
    )
    if of_runs["n"].max() > 1:  # type: ignore[operator]
        name = of_runs.filter(pl.col("n") > 1)["task_id"].min()
        raise TableError(f"runs: task {name} stands in two dimensions; its runs must agree on one")
    of_runs = of_runs.select(columns)
    table = getattr(data, "tasks", None)
    planned = None
    if isinstance(table, pl.LazyFrame | pl.DataFrame):
        planned = table.lazy().filter(pl.col("benchmark") == benchmark).select(*columns, "real_world").collect()
    if planned is not None and planned.height:
        planned = planned.unique("task_id", keep="first", maintain_order=True)
        tasks = planned.join(of_runs, on="task_id", how="full", coalesce=True, suffix="_run").with_columns(
            pl.coalesce(c, f"{c}_run").alias(c) for c in columns[1:]
        )
    else:
        tasks = of_runs.with_columns(real_world=pl.lit(None, dtype=pl.Boolean))
    without = tasks["dimension"].null_count()
    if without == tasks.height:
        tasks = tasks.with_columns(dimension=pl.lit(ALL_TASKS))
    elif without:
        name = tasks.filter(pl.col("dimension").is_null())["task_id"].min()
        raise TableError(f"runs: {without} tasks have no dimension, such as {name}; name it in the runs or tasks table")
    known = {d: i for i, d in enumerate(DIMENSIONS)}
    order = pl.col("dimension").replace_strict(known, default=len(known), return_dtype=pl.Int64)
    return tasks.select(*columns[:3], "real_world", "split").sort(order, "dimension", "task_id")


def _without(runs: pl.DataFrame, tasks: pl.DataFrame, why: str) -> pl.DataFrame:
    """The runs, with a reason for those of other tasks."""
    other = pl.col("reason").is_null() & ~pl.col("task_id").is_in(tasks["task_id"].to_list())
    return runs.with_columns(reason=pl.when(other).then(pl.lit(why)).otherwise("reason"))


# -- tasks that were sampled together, and tasks that all rows have -----------------------------------------


def _clusters(
    data: Any, tasks: pl.DataFrame, benchmark: str, asked: str
) -> tuple[NDArray[np.int64], str, tuple[str, ...]]:
    """Code of each task's cluster, the name of the column, and sentences on it."""
    each = np.arange(tasks.height, dtype=np.int64)
    if asked == TASK:
        return each, TASK, ()
    name = FAMILY if asked == AUTO else asked
    sources = [
        frame for frame in (_tasks_table(data), runs_of(data, ("task_id", "benchmark", name))) if frame is not None
    ]
    columns = [frame.collect_schema().names() for frame in sources]
    if not any(name in there for there in columns):
        if asked == AUTO:
            return each, TASK, ()
        known = sorted({column for there in columns for column in there})
        raise TableError(f"cluster: no column {name!r} in the runs or tasks table.{nearest(name, [TASK, *known])}")
    found = pl.concat(
        [_labels(f, there, benchmark, name) for f, there in zip(sources, columns, strict=True) if name in there]
    ).unique()
    found = found.join(tasks.select("task_id"), on="task_id")
    double = found.filter(pl.col("task_id").is_duplicated()).sort("task_id", "cluster")
    if double.height:
        task = double["task_id"][0]
        two = double.filter(pl.col("task_id") == task)["cluster"].to_list()
        raise TableError(
            f"cluster: task {task} has {len(two)} values of {name} ({', '.join(two[:3])}); a task lies in one cluster"
        )
    labels = tasks.select("task_id").join(found, on="task_id", how="left", maintain_order="left")["cluster"]
    without = labels.is_null()
    if without.all() and asked == AUTO:
        return each, TASK, ()
    if without.any() and asked != AUTO:
        task = tasks["task_id"].filter(without)[0]
        raise TableError(
            f"cluster: {without.sum()} of {tasks.height} tasks have no {name}, such as {task}; "
            f"name it there, or pass cluster={TASK!r}"
        )
    if labels.n_unique() == 1 and asked != AUTO:
        raise TableError(
            f"cluster: all {tasks.height} tasks have the same {name}, {labels[0]}; one cluster has no spread. "
            f"Pass another column, or cluster={TASK!r}"
        )
    keys = pl.struct(labels.alias("of"), pl.when(without).then(tasks["task_id"]).alias("alone"))
    codes = pl.select(keys.rank("dense") - 1).to_series().cast(pl.Int64).to_numpy()
    note = f"Tasks without a {name}, each by itself in intervals: {without.sum()} of {tasks.height}."
    return codes, name, (note,) if without.any() else ()


def _tasks_table(data: Any) -> pl.LazyFrame | None:
    table = getattr(data, "tasks", None)
    return table.lazy() if isinstance(table, pl.LazyFrame | pl.DataFrame) else None


def _labels(frame: pl.LazyFrame, columns: Sequence[str], benchmark: str, name: str) -> pl.DataFrame:
    """`task_id, cluster` of a table, where it says so; of the benchmark only."""
    if "benchmark" in columns:
        frame = frame.filter(pl.col("benchmark").cast(pl.String).fill_null("teamwork") == benchmark)
    pairs = frame.select(pl.col("task_id").cast(pl.String), cluster=pl.col(name).cast(pl.String, strict=False))
    return pairs.filter(pl.col("cluster").is_not_null()).unique().collect()


def _on_common_tasks(builder: _Builder, whole: Grid) -> Grid:
    """The grid of the tasks that every row has scored."""
    whole.need_known_tasks("common_tasks")
    common = whole.scored.all(axis=0)
    n_rows, n_tasks = whole.scored.shape
    n = whole.scored.sum(axis=1)
    least = int(np.argmin(n))
    if not common.any():
        raise TableError(
            f"common_tasks: no task is scored in all {n_rows} rows; {whole.names[least]} lacks most, "
            f"{n_tasks - n[least]} of {n_tasks}; choose rows with models="
        )
    tasks = builder.tasks.filter(pl.Series(common))
    note = f"Common tasks only: {common.sum()} of {n_tasks} are scored in every row."
    if n.min() < n.max():
        note += f" {whole.names[least]} has fewest, {n[least]}."
    if gone := [d for d in whole.dimensions if d not in set(tasks["dimension"])]:
        note += f" No common task, so not in any overall score: {', '.join(gone)}."
    again = replace(
        builder,
        runs=_without(builder.runs, tasks, "of tasks that not every row has scored"),
        tasks=tasks,
        clusters=np.unique(builder.clusters[common], return_inverse=True)[1].astype(np.int64),
        notes=(*builder.notes, note),
    )
    return again.grid()


def _slices(of_task: Sequence[str], dimensions: Sequence[str]) -> tuple[slice, ...]:
    """Where each dimension's tasks lie, in a list sorted by dimension."""
    out, start = [], 0
    for d in dimensions:
        stop = start + sum(name == d for name in of_task)
        out.append(slice(start, stop))
        start = stop
    return tuple(out)


def _mean_last(values: Array) -> Array:
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(there, values, 0.0).sum(axis=-1) / there.sum(axis=-1)


def _renumbered(runs: pl.DataFrame, rows: Sequence[int]) -> pl.DataFrame:
    new = {old: i for i, old in enumerate(rows)}
    return runs.filter(pl.col("r").is_in(rows)).with_columns(pl.col("r").replace_strict(new, return_dtype=pl.Int64))


class _Cells:
    """Runs by their place in rows by tasks."""

    def __init__(self, kept: pl.DataFrame, shape: tuple[int, int]):
        self.kept, self.shape = kept, shape
        self.r, self.t = kept["r"].to_numpy(), kept["t"].to_numpy()
        self.seed = kept["seed"].to_numpy()
        self.value = kept["value"].cast(pl.Float64).to_numpy()
        self.has = ~np.isnan(self.value)
        self.refused = (kept["status"] == "refused").to_numpy()
        self.error = (kept["status"] == "error").to_numpy()
        #: Played, or to be played, and of unknown outcome.
        self.lost = self.error | ((kept["status"] == "ok").to_numpy() & ~self.has)

    def of(self, version: str) -> NDArray[np.bool_]:
        """Which runs are of a version."""
        return (self.kept["version"] == version).to_numpy()

    def count(self, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Number of wanted runs per row and task."""
        key = self.r[wanted] * self.shape[1] + self.t[wanted]
        return np.bincount(key, minlength=self.shape[0] * self.shape[1]).reshape(self.shape)

    def mean(self, wanted: NDArray[np.bool_]) -> Array:
        """Mean value of the wanted runs per row and task; NaN where there is none."""
        key = self.r[wanted] * self.shape[1] + self.t[wanted]
        sums = np.bincount(key, weights=self.value[wanted], minlength=self.shape[0] * self.shape[1])
        with np.errstate(invalid="ignore"):
            return sums.reshape(self.shape) / self.count(wanted)


@dataclass
class _Builder:
    """The steps from checked runs to arrays."""

    runs: pl.DataFrame
    tasks: pl.DataFrame
    version: str
    gate: Gate
    allow_partial: bool
    refused: Refused
    missing: Missing
    clusters: NDArray[np.int64]
    cluster_name: str
    provenance: Provenance
    notes: tuple[str, ...]

    def grid(self) -> Grid:
        """All of it."""
        rows, cells = self._placed()
        refused = cells.count(cells.refused) > 0
        out = refused & (self.refused == "out")
        decided, solved, borrowed = self._gate(rows, cells)
        known = decided.copy()
        self._assume(cells, refused, out, decided, solved)
        by_seed, seeds = self._values(cells, refused, out, solved)
        lost = cells.count(cells.lost & cells.of(self.version)) > 0
        enough: Mask = ~np.isnan(by_seed).all(axis=2)
        if self.missing == "out" and not self.allow_partial:
            enough &= ~lost
        if self.gate == "off":
            decided, solved = enough, np.ones(cells.shape, bool)
        scored = solved & ~out & enough
        if not scored.any():
            self._refuse_unscored(cells)
        missing = ~out & ~scored & (solved | ~decided)
        real = cells.count(cells.has & cells.of(self.version))
        assumed = scored & ~refused & (lost | (real == 0) | (~known & (self.gate != "off")))
        runs = self._sorted_runs(cells, out, decided, solved, scored)
        return Grid(
            rows=rows,
            tasks=self.tasks,
            dimensions=tuple(dict.fromkeys(self.tasks["dimension"])),
            seeds=seeds,
            by_seed=by_seed,
            baseline=self._baseline(cells),
            refused=out,
            decided=decided,
            solved=solved,
            scored=scored,
            missing=missing,
            runs=runs,
            incomplete=self._incomplete(rows, cells, missing, decided),
            clusters=self.clusters,
            n_used=int(runs["used"].sum()),
            n_left_out=self._left_out(runs),
            provenance=self.provenance,
            notes=(
                *self.notes,
                *borrowed,
                *self._of_assumptions(scored & refused, assumed),
                *self._of_seeds(rows, cells, by_seed, scored),
                *_several_rules(cells.kept),
            ),
            version=self.version,
            gate=self.gate,
            cluster_name=self.cluster_name,
        )

    def _placed(self) -> tuple[pl.DataFrame, _Cells]:
        """The rows, and the runs that are in question at their places."""
        kept = self.runs.filter(pl.col("reason").is_null())
        rows = kept.select(ROW).unique().sort(*ROW, nulls_last=False)
        named = row_names(rows.rows())
        rows = rows.with_columns(row=pl.Series([named[k] for k in rows.rows()], dtype=pl.String)).select("row", *ROW)
        place = self.tasks.select("task_id").with_row_index("t").with_columns(pl.col("t").cast(pl.Int64))
        at = rows.select(ROW).with_row_index("r").with_columns(pl.col("r").cast(pl.Int64))
        kept = kept.join(at, on=list(ROW), nulls_equal=True).join(place, on="task_id")
        return rows, _Cells(kept, (rows.height, self.tasks.height))

    def _gate(self, rows: pl.DataFrame, cells: _Cells) -> tuple[Mask, Mask, tuple[str, ...]]:
        """(decided, solved, a sentence); a row of an arm that has no alone runs takes those of its model without."""
        alone = cells.of(ALONE)
        failed = cells.count(alone & (cells.value < 1)) > 0
        solved = ~failed & (cells.count(alone & cells.has) > 0)
        if not self.allow_partial:
            solved &= cells.count(alone & cells.lost) == 0
        decided = failed | solved
        if self.gate == "off":
            return decided, solved, ()
        keys = rows.select(ROW).rows()
        without = np.flatnonzero(cells.count(alone).sum(axis=1) == 0)
        borrowed = []
        for r in without:
            model, effort, arm = keys[r]
            plain = keys.index((model, effort, None)) if arm is not None and (model, effort, None) in keys else None
            if plain is None or plain in without:
                raise TableError(
                    f"runs: {rows['row'][int(r)]} has no alone runs, so no task passes the gate; run version alone, "
                    "or pass gate='off' to score every task"
                )
            solved[r], decided[r] = solved[plain], decided[plain]
            borrowed.append(rows["row"][int(r)])
        words = f"No alone runs of their own, gate of the same model without an arm: {', '.join(borrowed)}."
        return decided, solved, (words,) if borrowed else ()

    def _assume(self, cells: _Cells, refused: Mask, out: Mask, decided: Mask, solved: Mask) -> None:
        """Where the gate is open because of a refusal or a missing run that is to be counted: solved, in place."""
        taken = np.zeros(cells.shape, bool)
        if self.refused == "fail":
            taken |= refused & (cells.count(cells.lost & cells.of(ALONE)) == 0)
        if self.missing != "out":
            taken |= ~out
        taken &= ~decided
        solved |= taken
        decided |= taken

    def _values(self, cells: _Cells, refused: Mask, out: Mask, solved: Mask) -> tuple[Array, tuple[int, ...]]:
        """Scores by seed, shape (R, T, S), with what is assumed in place of refused and missing runs; the seeds."""
        mine, value = cells.of(self.version), cells.value.copy()
        if self.refused == "fail":
            value[cells.refused] = _COUNTED["fail"][0]
        if self.missing != "out":
            value[cells.lost] = _COUNTED[self.missing][0]
        tests = mine & ~np.isnan(value)
        seeds = np.unique(cells.seed[tests])
        by_seed = np.full((*cells.shape, max(1, len(seeds))), np.nan)
        by_seed[cells.r[tests], cells.t[tests], np.searchsorted(seeds, cells.seed[tests])] = value[tests]
        none = np.isnan(by_seed).all(axis=2)
        if self.refused == "fail":
            # One refused elsewhere, so that it was not played in this version.
            by_seed[none & refused & (cells.count(cells.lost & mine) == 0), 0] = _COUNTED["fail"][0]
            none = np.isnan(by_seed).all(axis=2)
        if self.missing != "out":
            by_seed[none & ~out & (solved | (self.gate == "off")), 0] = _COUNTED[self.missing][0]
        return by_seed, tuple(int(s) for s in seeds) or (0,)

    def _refuse_unscored(self, cells: _Cells) -> None:
        """Nothing is scored, though there may be scored runs: None, or one line that says what there is instead."""
        mine = cells.of(self.version)
        if (mine & cells.has).any():
            return
        if mine.any():
            counts = pl.Series(cells.kept["status"].filter(pl.Series(mine))).value_counts().sort("status").rows()
            words = ", ".join(f"{n:,} {_STATUS_REASONS.get(status, _NO_SCORE)}" for status, n in counts)
            raise TableError(
                f"runs: no scored run of version {self.version} ({words}); there is nothing to compute a score from"
            )
        there = sorted(self.runs["version"].unique().to_list())
        raise TableError(
            f"runs: no scored run of version {self.version}; there is nothing to compute a score from. "
            f"These runs are of {', '.join(there)}; say version={there[0]!r}"
        )

    def _baseline(self, cells: _Cells) -> Array:
        if self.version in (ALONE, BASELINE):
            return np.full(cells.shape, np.nan)
        mine = cells.of(BASELINE)
        mean = cells.mean(mine & cells.has)
        if not self.allow_partial:
            mean[cells.count(mine & cells.lost) > 0] = np.nan
        return mean

    def _of_assumptions(self, refused: Mask, missing: Mask) -> tuple[str, ...]:
        """Sentences on what was counted though it was not scored."""
        out = []
        if self.refused == "fail":
            out.append(f"Refused tasks counted as failed: {refused.sum():,}.")
        if self.missing != "out":
            out.append(f"Incomplete tasks {_COUNTED[self.missing][1]} where a run is missing: {missing.sum():,}.")
        return tuple(out)

    def _of_seeds(self, rows: pl.DataFrame, cells: _Cells, by_seed: Array, scored: Mask) -> tuple[str, ...]:
        """Sentences on unequal numbers of runs, between rows and within them."""
        out = []
        n = np.where(scored, (~np.isnan(by_seed)).sum(axis=2), 0)
        numbers = n.max(axis=1).tolist()
        if len(set(numbers) - {0}) > 1:
            most = max(set(numbers), key=lambda k: (numbers.count(k), k))
            odd = [f"{name} {k}" for name, k in zip(rows["row"], numbers, strict=True) if k not in (0, most)]
            out.append(f"Unequal numbers of seeds: most rows have {most}; {', '.join(odd)}.")
        fewer = scored & (n < n.max(axis=1, keepdims=True))
        if fewer.any():
            out.append(
                f"Fewer {self.version} runs than on other tasks of the same row: {fewer.sum():,} of {scored.sum():,} "
                f"scored tasks, in {fewer.any(axis=1).sum()} of the rows; each counts with the mean of its own."
            )
        shut = self.version == ALONE and int((cells.of(ALONE) & (cells.kept["status"] == "gated_out").to_numpy()).sum())
        if shut:
            out.append(
                f"Alone runs that were not played because an earlier one failed: {shut:,}; a mean over a task's alone "
                "runs is lower for it."
            )
        return tuple(out)

    def _incomplete(self, rows: pl.DataFrame, cells: _Cells, missing: Mask, decided: Mask) -> pl.DataFrame:
        """The tasks that a missing run keeps out, and which run that is."""
        r, t = np.nonzero(missing)
        lines = pl.DataFrame({"open": (self.gate != "off") & ~decided[r, t]})
        why = pl.lit(None, dtype=pl.String)
        for version, here in ((ALONE, pl.col("open")), (self.version, ~pl.col("open"))):
            mine = cells.of(version)
            counts = [("n", mine), ("lost", mine & cells.lost), ("error", mine & cells.error)]
            lines = lines.with_columns(pl.Series(name, cells.count(which)[r, t]) for name, which in counts)
            words = (
                pl.when(pl.col("n") == 0)
                .then(pl.lit(f"no {version} run"))
                .when(pl.col("lost") == 0)
                .then(pl.lit(f"its {version} runs were gated out"))
                .when(pl.col("error") == pl.col("lost"))
                .then(pl.format(f"{{}} of {{}} {version} runs ended in an error", "lost", "n"))
                .otherwise(pl.format(f"{{}} of {{}} {version} runs without a score", "lost", "n"))
            )
            lines = lines.with_columns(reason=pl.when(here).then(words).otherwise(why))
            why = pl.col("reason")
        return pl.concat(
            [rows[r].select(ROW), self.tasks[t].select("task_id", "dimension"), lines.select("reason")],
            how="horizontal",
        )

    def _sorted_runs(self, cells: _Cells, refused: Mask, decided: Mask, solved: Mask, scored: Mask) -> pl.DataFrame:
        """The runs with what became of them: used, or why not."""
        at = (cells.r, cells.t)
        marks = {"_refused": refused, "_decided": decided, "_solved": solved, "_scored": scored}
        ok = cells.kept.with_columns(pl.Series(name, which[at]) for name, which in marks.items())
        mine, counts = pl.col("version") == self.version, pl.col("_scored")
        # What is counted by assumption is no run of its own: the score has it, evidence is not to be had.
        why: Any = pl.when(mine & counts & (pl.col("status") == "refused")).then(
            pl.lit(f"refused, {_COUNTED['fail'][1]}")
        )
        if self.missing != "out":
            words = f"missing, {_COUNTED[self.missing][1]}"
            why = why.when(mine & counts & pl.Series(cells.lost)).then(pl.lit(words))
        for status, words in _STATUS_REASONS.items():
            why = why.when(pl.col("status") == status).then(pl.lit(words))
        why = why.when(pl.col("value").is_null()).then(pl.lit(_NO_SCORE))
        why = why.when(pl.col("_refused")).then(pl.lit("of tasks refused in another run"))
        if self.gate == "off":
            why = why.when(~mine).then(pl.lit("of a version that does not count without the gate"))
        why = why.when(~pl.col("_decided")).then(pl.lit("of incomplete tasks"))
        why = why.when((pl.col("version") != ALONE) & ~pl.col("_solved")).then(pl.lit("of tasks not solved alone"))
        why = why.when(mine & ~counts).then(pl.lit("of incomplete tasks"))
        if not self.allow_partial:
            halved = cells.count(cells.of(BASELINE) & cells.lost) > 0
            why = why.when((pl.col("version") == BASELINE) & pl.Series(halved[at])).then(pl.lit("of incomplete tasks"))
        ok = ok.with_columns(reason=why.otherwise(None))
        return ok.select(
            "run_id", "r", "t", "version", "seed", "status", "value", "reason", used=pl.col("reason").is_null()
        )

    def _left_out(self, runs: pl.DataFrame) -> dict[str, int]:
        """Reason -> runs, of all that were read."""
        counted = _counted(self.runs)
        for reason, n in _counted(runs).items():
            counted[reason] = counted.get(reason, 0) + n
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _several_rules(kept: pl.DataFrame) -> tuple[str, ...]:
    rules = sorted(kept.filter(pl.col("value").is_not_null())["rule_version"].drop_nulls().unique().to_list())
    several = f"Scored under several rules, which need not be comparable: {', '.join(rules)}."
    return (several,) if len(rules) > 1 else ()


def _counted(runs: pl.DataFrame) -> dict[str, int]:
    counts = runs.filter(pl.col("reason").is_not_null())["reason"].value_counts()
    return dict(sorted(counts.rows(), key=lambda item: (-item[1], item[0])))


def listed(left_out: Mapping[str, int]) -> str:
    """Reasons and their numbers as words."""
    return "; ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "nothing"
