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
from cilab.core.frames import Provenance, read_rows
from cilab.core.vocabulary import ROW, check_statuses
from cilab.results.estimator import scope, settled
from cilab.results.names import row_names
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import Array, Mask, Replicates
from cilab.teamwork.terms import DIMENSIONS

#: How the id of a task begins whose identity was never published (see `cilab.datasets.published_round`).
UNKNOWN_TASK = "unknown:"
#: Name of the one dimension of data that have none.
ALL_TASKS = "all"

Gate = Literal["solved_alone", "off"]
Reviews = Literal["apply", "ignore"]

_RUN_COLUMNS = ("run_id", "benchmark", "dimension", "source_family", "split", "effort", "arm", "seed", "rule_version")
_STATUS_REASONS = {"refused": "refused", "gated_out": "gated out", "error": "ended in an error"}
_NO_SCORE = "without a score"


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
    baseline : mean baseline score, shape (R, T); NaN where there is none.
    refused : a run of the task was refused, in any version: the row does not have the task; shape (R, T).
    decided : the gate is decided: every planned alone run was scored, or one of them failed.
    solved : passed in every alone run.
    scored : solved, not refused, and no planned test is missing.
    runs : the runs behind it, `run_id, r, t` (positions), `version, seed, value, used` and the reason if not.
    incomplete : DataFrame `model, effort, arm, task_id, dimension, reason`: tasks that a missing run keeps out.
    n_used, n_left_out, provenance : as in `Result`.
    notes : sentences on what a reader must know (borrowed gates, unequal seeds, reviews, several rules).
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
    runs: pl.DataFrame
    incomplete: pl.DataFrame
    n_used: int
    n_left_out: Mapping[str, int]
    provenance: Provenance
    notes: tuple[str, ...] = ()
    version: str = "test"
    gate: Gate = "solved_alone"

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

    def points(self, used: Mask | None = None) -> Array:
        """Dimension scores, fractions, shape (R, dimensions); of `used` tasks instead of all scored ones."""
        return bootstrap.dimension_means(self.values, self.scored if used is None else used, self.slices)

    def replicates(self, used: Mask | None = None, *, resamples: int, seed: int | Sequence[int]) -> Replicates:
        """Bootstrap replicates of `points`; tasks whose gate no row has decided are not drawn."""
        used = self.scored if used is None else used
        drawn = (self.decided & ~self.refused).any(axis=0)
        slices = _slices([d for d, there in zip(self.tasks["dimension"], drawn, strict=True) if there], self.dimensions)
        rng = np.random.default_rng(seed)
        return bootstrap.resample_scores(self.values[:, drawn], used[:, drawn], slices, resamples=resamples, rng=rng)

    def where(self, tasks: Mask) -> Grid:
        """The same with some of the tasks only; dimensions without one of them go."""
        kept = self.tasks.filter(pl.Series(tasks))
        there = set(kept["dimension"])
        new = {n: getattr(self, n)[:, tasks] for n in ("by_seed", "baseline", "refused", "decided", "solved", "scored")}
        return replace(self, tasks=kept, dimensions=tuple(d for d in self.dimensions if d in there), **new)

    def take(self, rows: Sequence[int]) -> Grid:
        """The same with some of the rows only, in the order given."""
        at = list(rows)
        new = {n: getattr(self, n)[at] for n in ("by_seed", "baseline", "refused", "decided", "solved", "scored")}
        return replace(self, rows=self.rows[at], runs=_renumbered(self.runs, at), **new)


@scope(
    version="test",
    gate="solved_alone",
    allow_partial=False,
    reviews="apply",
    benchmark=None,
    models=None,
    dimensions=None,
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


def grid(data: Any, **given: Unpack[Scope]) -> Grid:
    """Runs as arrays of rows by tasks, with the gate, refusals, missing runs and reviews settled.

    Rules (collaborative-intelligence paper, section 2.3; where it is silent, this project's)

    - Gate: a task counts for a row that passes it (score 1) in every alone run. A row of an arm without alone runs
      takes the gate of the same model and effort without an arm; this is said in the notes.
    - Refused: a task of which any run was refused is out for that row. It is not a fail.
    - Missing: the plan of a row is every seed that it has in a version, over all its tasks, whatever became of the
      run. A task that lacks an alone or test score of it is incomplete: out and listed, unless `allow_partial`.
    - Plan: the tasks are those of the study's tasks table, and those of the runs; a frame has its runs only.
    - Reviews: the latest reviewer's verdict on a run (table `reviews`) takes the place of its score.
    - The same run id twice (merged studies) is one run.

    Parameters
    ----------
    data : runs table (polars or pandas), opened study or data set.
    version : the version that is scored; the gate is always of `alone`.
    gate : `solved_alone`, or `off`: every task counts, and no alone run is needed (other people's data).
    allow_partial : a task with at least one test counts, with the mean of those that are there; an alone run that
        ended in an error is no attempt.
    reviews : `apply` the study's reviews or `ignore` them.
    benchmark : default `teamwork` where the data have it, else the only one there is.
    models, dimensions : names to keep; None keeps all.

    Raises
    ------
    TableError
        A column is missing, a score is NaN, outside 0 to 1 or no number, a seed is no whole number, two scored runs
        claim the same cell, a row has no alone runs, nothing is left to score, or an argument is unknown.
    """
    asked = settled(Scope, given, "grid")
    version, gate, reviews = asked["version"], asked["gate"], asked["reviews"]
    models, dimensions = asked["models"], asked["dimensions"]
    runs, provenance = read_rows(data, ("task_id", "version", "model", "status", "score"), _RUN_COLUMNS)
    runs = _typed(runs, data)
    runs, reviewed = _reviewed(runs, data, reviews)
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
        kept = kept.filter(pl.col("task_id").is_in(tasks["task_id"].to_list()))
    return _Builder(runs, kept, tasks, version, gate, asked["allow_partial"], provenance, reviewed).grid()


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
    versions = list(dict.fromkeys(["alone", "baseline", version]))
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
    order = runs.with_row_index("at").sort(
        pl.col("reason").is_not_null(), pl.col("value").is_null(), "status", "run_id", "at", nulls_last=True
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


@dataclass
class _Builder:
    """The steps from checked runs to arrays."""

    runs: pl.DataFrame
    kept: pl.DataFrame
    tasks: pl.DataFrame
    version: str
    gate: Gate
    allow_partial: bool
    provenance: Provenance
    notes: tuple[str, ...]

    def grid(self) -> Grid:
        """All of it."""
        rows = self.kept.select(ROW).unique().sort(*ROW, nulls_last=False)
        named = row_names(rows.rows())
        rows = rows.with_columns(row=pl.Series([named[k] for k in rows.rows()], dtype=pl.String)).select("row", *ROW)
        place = self.tasks.select("task_id").with_row_index("t").with_columns(pl.col("t").cast(pl.Int64))
        at = rows.select(ROW).with_row_index("r").with_columns(pl.col("r").cast(pl.Int64))
        kept = self.kept.join(at, on=list(ROW), nulls_equal=True).join(place, on="task_id")
        self._shape = (rows.height, self.tasks.height)
        self._r, self._t = kept["r"].to_numpy(), kept["t"].to_numpy()
        self._value = kept["value"].cast(pl.Float64).to_numpy()
        self._is = {v: (kept["version"] == v).to_numpy() for v in ("alone", "baseline", self.version)}
        has = ~np.isnan(self._value)

        refused = self._count((kept["status"] == "refused").to_numpy()) > 0
        n_alone = self._count(self._is["alone"] & has)
        n_failed = self._count(self._is["alone"] & (self._value < 1))
        decided, solved = self._gate(rows, kept, n_alone, n_failed)
        tests = self._is[self.version] & has
        seeds = np.unique(kept["seed"].to_numpy()[tests])
        by_seed = np.full((*self._shape, max(1, len(seeds))), np.nan)
        at_seed = np.searchsorted(seeds, kept["seed"].to_numpy()[tests])
        by_seed[self._r[tests], self._t[tests], at_seed] = self._value[tests]
        enough = self._enough(kept, self._count(tests), self.version)
        if self.gate == "off":
            decided, solved = self._count(tests) > 0, np.ones(self._shape, bool)
        scored = solved & ~refused & enough
        if not tests.any():
            raise TableError(f"runs: no scored run of version {self.version}; there is nothing to compute a score from")
        self._unequal_seeds(rows, by_seed, scored)
        self._several_rules(kept)
        incomplete = ~refused & ((solved & ~enough) | (~decided & (self.gate != "off")))
        runs = self._sorted_runs(kept, refused, decided, solved, scored)
        dims = tuple(dict.fromkeys(self.tasks["dimension"]))
        return Grid(
            rows=rows,
            tasks=self.tasks,
            dimensions=dims,
            seeds=tuple(int(s) for s in seeds),
            by_seed=by_seed,
            baseline=self._baseline(has),
            refused=refused,
            decided=decided,
            solved=solved,
            scored=scored,
            runs=runs,
            incomplete=self._incomplete(rows, incomplete, decided, by_seed),
            n_used=int(runs["used"].sum()),
            n_left_out=self._left_out(runs),
            provenance=self.provenance,
            notes=self.notes,
            version=self.version,
            gate=self.gate,
        )

    def _count(self, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Number of wanted runs per row and task."""
        key = self._r[wanted] * self._shape[1] + self._t[wanted]
        return np.bincount(key, minlength=self._shape[0] * self._shape[1]).reshape(self._shape)

    def _planned(self, kept: pl.DataFrame, version: str) -> NDArray[np.int64]:
        """Seeds that each row has in a version, whatever became of the runs; shape (R, 1)."""
        seeds = kept.filter(pl.col("version") == version).group_by("r").agg(pl.col("seed").n_unique())
        out = np.zeros((self._shape[0], 1), dtype=np.int64)
        out[seeds["r"].to_numpy(), 0] = seeds["seed"].to_numpy()
        return out

    def _enough(self, kept: pl.DataFrame, n: NDArray[np.int64], version: str) -> Mask:
        """Every planned seed has a score; with `allow_partial`, one of them has."""
        return n > 0 if self.allow_partial else (n > 0) & (n >= self._planned(kept, version))

    def _gate(
        self, rows: pl.DataFrame, kept: pl.DataFrame, n: NDArray[np.int64], n_failed: NDArray[np.int64]
    ) -> tuple[Mask, Mask]:
        """(decided, solved); a row of an arm that has no alone runs takes those of its model without an arm."""
        failed = n_failed > 0
        solved = ~failed & self._enough(kept, n, "alone")
        decided = failed | solved
        if self.gate == "off":
            return decided, solved
        keys = rows.select(ROW).rows()
        without = np.flatnonzero(self._planned(kept, "alone")[:, 0] == 0)
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
        if borrowed:
            self.notes += (
                f"No alone runs of their own, gate of the same model without an arm: {', '.join(borrowed)}.",
            )
        return decided, solved

    def _baseline(self, has: NDArray[np.bool_]) -> Array:
        wanted = self._is["baseline"] & has
        key = self._r[wanted] * self._shape[1] + self._t[wanted]
        sums = np.bincount(key, weights=self._value[wanted], minlength=self._shape[0] * self._shape[1])
        with np.errstate(invalid="ignore"):
            return sums.reshape(self._shape) / self._count(wanted)

    def _unequal_seeds(self, rows: pl.DataFrame, by_seed: Array, scored: Mask) -> None:
        numbers = np.where(scored, (~np.isnan(by_seed)).sum(axis=2), 0).max(axis=1).tolist()
        if len(set(numbers) - {0}) > 1:
            most = max(set(numbers), key=lambda n: (numbers.count(n), n))
            odd = [f"{name} {n}" for name, n in zip(rows["row"], numbers, strict=True) if n not in (0, most)]
            self.notes += (f"Unequal numbers of seeds: most rows have {most}; {', '.join(odd)}.",)

    def _several_rules(self, kept: pl.DataFrame) -> None:
        rules = sorted(kept.filter(pl.col("value").is_not_null())["rule_version"].drop_nulls().unique().to_list())
        if len(rules) > 1:
            self.notes += (f"Scored under several rules, which need not be comparable: {', '.join(rules)}.",)

    def _incomplete(self, rows: pl.DataFrame, which: Mask, decided: Mask, by_seed: Array) -> pl.DataFrame:
        r, t = np.nonzero(which)
        n = (~np.isnan(by_seed)).sum(axis=2)
        reasons = [
            "no verdict alone"
            if not decided[i, j]
            else f"{n[i, j]} scored {self.version} run{'' if n[i, j] == 1 else 's'}"
            for i, j in zip(r, t, strict=True)
        ]
        return pl.concat(
            [
                rows[r].select(ROW),
                self.tasks[t].select("task_id", "dimension"),
                pl.DataFrame({"reason": pl.Series(reasons, dtype=pl.String)}),
            ],
            how="horizontal",
        )

    def _sorted_runs(
        self, kept: pl.DataFrame, refused: Mask, decided: Mask, solved: Mask, scored: Mask
    ) -> pl.DataFrame:
        """The runs with what became of them: used, or why not."""
        at = (self._r, self._t)
        ok = kept.with_columns(
            *(pl.Series(n, a[at]) for n, a in (("_refused", refused), ("_decided", decided), ("_solved", solved))),
            pl.Series("_scored", scored[at]),
        )
        why = pl.when(pl.col("status") == "refused").then(pl.lit("refused"))
        for status, words in _STATUS_REASONS.items():
            why = why.when(pl.col("status") == status).then(pl.lit(words))
        why = why.when(pl.col("value").is_null()).then(pl.lit(_NO_SCORE))
        why = why.when(pl.col("_refused")).then(pl.lit("of tasks refused in another run"))
        if self.gate == "off":
            why = why.when(pl.col("version") != self.version).then(
                pl.lit("of a version that does not count without the gate")
            )
        why = why.when(~pl.col("_decided")).then(pl.lit("of incomplete tasks"))
        why = why.when((pl.col("version") != "alone") & ~pl.col("_solved")).then(pl.lit("of tasks not solved alone"))
        why = why.when((pl.col("version") == self.version) & ~pl.col("_scored")).then(pl.lit("of incomplete tasks"))
        ok = ok.with_columns(reason=why.otherwise(None))
        return ok.select(
            "run_id", "r", "t", "version", "seed", "status", "value", "reason", used=pl.col("reason").is_null()
        )

    def _left_out(self, runs: pl.DataFrame) -> dict[str, int]:
        """Reason -> runs, of all that were read."""
        counted = _counted(self.runs)
        dropped = self.runs["reason"].null_count() - self.kept.height
        for reason, n in [("of dimensions not asked for", dropped), *_counted(runs).items()]:
            counted[reason] = counted.get(reason, 0) + n
        return dict(sorted(((k, n) for k, n in counted.items() if n), key=lambda item: (-item[1], item[0])))


def _counted(runs: pl.DataFrame) -> dict[str, int]:
    counts = runs.filter(pl.col("reason").is_not_null())["reason"].value_counts()
    return dict(sorted(counts.rows(), key=lambda item: (-item[1], item[0])))


def listed(left_out: Mapping[str, int]) -> str:
    """Reasons and their numbers as words."""
    return "; ".join(f"{n:,} {reason}" for reason, n in left_out.items()) or "nothing"
