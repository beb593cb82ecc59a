"""Whether a model acts where it is called for and only there: signal items against their mirrors.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and plays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, choice, nearest
from cilab.core.frames import runs_of
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Column, Level
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import detection
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.detection import Correction, Estimate
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.task_runs import used_runs

#: The two kinds in column `item` of runs.
SIGNAL, MIRROR = "signal", "mirror"
#: What the check of a task records where the model did what its family defines as the reflex.
REFLEX = "showed_reflex"
#: Clusters from which an interval is shown.
LEAST_CLUSTERS = 3

Act = Literal["auto", "evidence", "score"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminationResult(Result):
    """Hits, false alarms and what they say.

    Attributes
    ----------
    table : one line per row, over all dimensions; see `discrimination`.
    dimensions : the same with `dimension`, one line per row and dimension.
    act : what counted as an act: `evidence` or `score`.
    """

    dimensions: pl.DataFrame
    act: str
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "discrimination"
    title: ClassVar[str] = "Acting where it is called for, and only there"

    def sheet(self) -> Sheet:
        """One line per row: both pass rates, their mean, hits and false alarms, d' and criterion with intervals."""
        lines = [
            {
                "Row": name,
                "Signals": str(r["n_signal"]),
                "Mirrors": str(r["n_mirror"]),
                "Signal pass": number(r["signal_pass"], 2, NONE),
                "Mirror pass": number(r["mirror_pass"], 2, NONE),
                "Balanced": Interval.of(r, "balanced", digits=2).ends(NONE),
                "Hits": number(r["hit_rate"], 2, NONE),
                "False alarms": number(r["false_alarm_rate"], 2, NONE),
                "d'": _with_ends(r, "d_prime"),
                "Criterion": _with_ends(r, "criterion"),
                "Remarks": "; ".join(x for x in (r["no_estimate"], r["no_interval"], r["one_sided"]) if x),
            }
            for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and what is special about these data."""
        out = super().notes()
        return [*out[:-1], *self.remarks, out[-1]]


def _with_ends(r: Mapping[str, Any], name: str) -> str:
    value, lo, hi = (number(r[n], 2) for n in (name, f"{name}_lo", f"{name}_hi"))
    if not value:
        return NONE
    if lo and hi:
        return f"{value} [{lo}, {hi}]"
    return f"{value} (from {lo})" if lo else f"{value} (to {hi})" if hi else value


@estimator
def discrimination(
    study: Any,
    *,
    correction: Correction = "proportional",
    act: Act = "auto",
    cluster: Column = "auto",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> DiscriminationResult:
    """d' and criterion of each row from signal items and their mirrors, with both pass rates and their mean.

    A signal item calls for the behaviour of its dimension, its mirror looks the same and calls for the contrary. A row
    that always acts passes every signal and no mirror; its d' is 0. Items count for the rows that solve them alone;
    seeds are averaged first.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set, with a column `item` (signal or mirror).
    correction : of rates before their normal quantiles are taken: `proportional` to the shares of the two kinds, so
        that a constant policy has d' = 0 whatever their numbers, or `log_linear` (0.5 and 1).
    act : what counts as an act. `evidence`: the check saw `showed_reflex`; `score`: a passed signal, a mirror that was
        not passed; `auto`: evidence where any of these runs has it, else the score.
    cluster : column of runs with the independent unit: `auto` is `family` where it is there, else the task.
    ci_level : of the intervals (see `cilab.stats.methods.detection.detect`).
    version, gate, allow_partial, reviews, benchmark, models, dimensions : see `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    DiscriminationResult
        `.table`, one line per row: `model, effort, arm, n_signal, n_mirror` (items), `signal_pass, mirror_pass,
        balanced` (mean of the two), `hit_rate, false_alarm_rate` (all fractions), `d_prime, criterion` (standard
        deviations), each with `_lo` and `_hi`; `n_clusters`; `no_estimate` (such as "no mirror items"), `no_interval`
        (such as "too few: 2 families"), `one_sided` (why an interval has one end only). Over several dimensions the
        items are pooled. Runs without evidence, where evidence is what counts, are out and counted.

    Raises
    ------
    TableError
        No column `item`, a task is of both kinds or in two clusters, an unknown kind or column; published task ids; or
        as in `grid`.

    References
    ----------
    Green & Swets (1966); Hautus (1995), Behavior Research Methods 27, for `log_linear`.
    """
    choice("correction", correction, ("proportional", "log_linear"))
    choice("act", act, ("auto", "evidence", "score"))
    facts, unit = _facts(study, cluster)
    g = grid(study, **scope)
    g.need_known_tasks("discrimination")
    kind, clusters = _of_tasks(g, facts)
    known = kind != ""
    acted, how, unseen = _acts(study, g, kind, act)
    lines, parts = [], []
    for r, row in enumerate(g.rows.select(ROW).iter_rows(named=True)):
        data = _Items(g.values[r], acted[r], kind, clusters)
        mine = g.scored[r] & known
        lines.append(row | _line(data, mine, unit, correction, ci_level))
        for name, at in zip(g.dimensions, g.slices, strict=True):
            here = np.zeros_like(mine)
            here[at] = mine[at]
            parts.append(row | {"dimension": name} | _line(data, here, unit, correction, ci_level))
    return DiscriminationResult(
        table=_frame(lines),
        dimensions=_frame(parts, dimension=True),
        act=how,
        remarks=(*g.notes, *_remarks(g, known, how, unseen, unit)),
        **_counts(g, known),
        provenance=g.provenance,
        parameters=g.asked | {"act_used": how, "cluster_used": unit},
        caption=(
            f"Items that rows {g.gate_words}; d' and criterion in standard deviations, {correction.replace('_', '-')} "
            f"correction, {percent(ci_level)} intervals by {unit}."
        ),
    )


# -- what an item is --------------------------------------------------------------------------------------


def _facts(study: Any, cluster: str) -> tuple[pl.DataFrame, str]:
    """`task_id, item, cluster` of every task, and the name of the unit."""
    there = runs_of(study, ("task_id", "item", "family", cluster)).collect_schema().names()
    if "item" not in there:
        raise TableError(
            "runs: no column item, so nothing says which tasks are mirrors; give each run item='signal' or 'mirror'"
        )
    unit = ("family" if "family" in there else "task_id") if cluster == "auto" else cluster
    if unit not in there:
        raise TableError(f"runs: no column {unit!r} to cluster by.{nearest(unit, there, 1)} Or say cluster='auto'")
    own = pl.col(unit).cast(pl.String)
    rows = runs_of(study, ("task_id", "item", unit)).select(
        pl.col("task_id").cast(pl.String), pl.col("item").cast(pl.String), own.alias("cluster")
    )
    facts = rows.unique(maintain_order=True).filter(pl.col("task_id").is_not_null()).collect()
    kinds = facts["item"].drop_nulls().unique().sort().to_list()
    if unknown := [k for k in kinds if k not in (SIGNAL, MIRROR)]:
        raise TableError(f"runs: item is {unknown[0]!r}; it is {SIGNAL} or {MIRROR}")
    facts = facts.with_columns(cluster=pl.coalesce("cluster", pl.lit("task ") + pl.col("task_id")))
    for column, words in (("item", "of both kinds"), ("cluster", f"in two of {unit}")):
        several = facts.drop_nulls(column).group_by("task_id").agg(pl.col(column).n_unique()).filter(pl.col(column) > 1)
        if several.height:
            raise TableError(f"runs: task {several['task_id'].sort()[0]} is {words}; a task has one")
    facts = facts.sort("item", nulls_last=True).unique("task_id", keep="first", maintain_order=True)
    return facts, "task" if unit == "task_id" else unit


def _of_tasks(g: Grid, facts: pl.DataFrame) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Kind of each task of the grid ("" where it is unknown), and number of its cluster."""
    joined = g.tasks.select("task_id").join(facts, on="task_id", how="left", maintain_order="left")
    names = joined["cluster"].fill_null(pl.lit("task ") + joined["task_id"])
    return joined["item"].fill_null("").to_numpy().astype(str), np.unique(
        names.to_numpy().astype(str), return_inverse=True
    )[1]


def _acts(study: Any, g: Grid, kind: NDArray[np.str_], act: Act) -> tuple[Array, str, int]:
    """Share of each cell's runs that acted, shape (R, T), NaN where unknown; by what; runs without evidence."""
    by_score = np.where(kind == MIRROR, 1 - g.values, g.values)
    if act == "score":
        return by_score, "score", 0
    there = runs_of(study, ("run_id", "evidence")).collect_schema().names()
    if "evidence" not in there or "run_id" not in there:
        if act == "evidence":
            raise TableError("runs: act='evidence' needs the columns run_id and evidence; or say act='score'")
        return by_score, "score", 0
    runs = used_runs(study, g, ("evidence",))
    if runs.schema["evidence"] != pl.List(pl.String):
        if act == "evidence":
            raise TableError("runs: evidence is no list of words, so no act can be found in it; or say act='score'")
        return by_score, "score", 0
    runs = runs.filter(pl.Series(kind)[runs["t"]] != "") if len(kind) else runs
    showed = runs["evidence"].list.contains(REFLEX)
    if act == "auto" and not showed.any():
        return by_score, "score", 0
    known = runs.with_columns(showed=showed.cast(pl.Float64)).drop_nulls("showed")
    sums = known.group_by("r", "t").agg(pl.col("showed").mean())
    out = np.full(g.values.shape, np.nan)
    out[sums["r"].to_numpy(), sums["t"].to_numpy()] = sums["showed"].to_numpy()
    return out, "evidence", runs.height - known.height


# -- a line -----------------------------------------------------------------------------------------------


class _Items(NamedTuple):
    """Of one row, shape (T,) each: score, share of runs that acted, kind, cluster."""

    values: Array
    acted: Array
    kind: NDArray[np.str_]
    clusters: NDArray[np.int64]


_NUMBERS = ("signal_pass", "mirror_pass", "balanced", "hit_rate", "false_alarm_rate", "d_prime", "criterion")


def _line(data: _Items, mine: Mask, unit: str, correction: Correction, ci_level: float) -> dict[str, Any]:
    mine = mine & ~np.isnan(data.acted)
    at = {k: np.flatnonzero(mine & (data.kind == k)) for k in (SIGNAL, MIRROR)}
    found: dict[str, Estimate] = {}
    for k in (SIGNAL, MIRROR):
        if len(at[k]):
            found[f"{k}_pass"] = detection.rate_of(data.values[at[k]], data.clusters[at[k]], ci_level)
            rate = "hit_rate" if k == SIGNAL else "false_alarm_rate"
            found[rate] = detection.rate_of(data.acted[at[k]], data.clusters[at[k]], ci_level)
    missing = [f"no {k} items" for k in (SIGNAL, MIRROR) if not len(at[k])]
    if not missing:
        found["balanced"] = detection.mean_of_two(found["signal_pass"], found["mirror_pass"])
        one = detection.detect(
            *(data.acted[at[k]] for k in (SIGNAL, MIRROR)),
            *(data.clusters[at[k]] for k in (SIGNAL, MIRROR)),
            correction=correction,
            ci_level=ci_level,
        )
        found |= {"d_prime": one.d_prime, "criterion": one.criterion}
    n_clusters = len(np.unique(data.clusters[mine]))
    # A rate of one kind rests on that kind's clusters only.
    fewest = min((len(np.unique(data.clusters[at[k]])) for k in (SIGNAL, MIRROR) if len(at[k])), default=0)
    few = _too_few(fewest, unit) if fewest < LEAST_CLUSTERS else None
    out: dict[str, Any] = {"n_signal": len(at[SIGNAL]), "n_mirror": len(at[MIRROR])}
    for name in _NUMBERS:
        out |= _ends(name, found.get(name), few is None)
    open_ended = any(not np.isfinite(found[n].lo) or not np.isfinite(found[n].hi) for n in ("d_prime",) if n in found)
    return out | {
        "n_clusters": n_clusters,
        "no_estimate": "; ".join(missing) or None,
        "no_interval": few,
        "one_sided": _one_sided(found) if open_ended and few is None else None,
    }


def _too_few(n: int, unit: str) -> str:
    plural = f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
    return f"too few: {n} {unit if n == 1 else plural}"


def _ends(name: str, found: Estimate | None, shown: bool) -> dict[str, float | None]:
    if found is None:
        return {name: None, f"{name}_lo": None, f"{name}_hi": None}
    lo, hi = (float(x) if shown and np.isfinite(x) else None for x in (found.lo, found.hi))
    return {name: float(found.value), f"{name}_lo": lo, f"{name}_hi": hi}


def _one_sided(found: Mapping[str, Estimate]) -> str:
    words = []
    for rate, kind in (("hit_rate", "signal"), ("false_alarm_rate", "mirror")):
        if found[rate].value in (0.0, 1.0):
            words.append(f"acted on {'every' if found[rate].value else 'no'} {kind}")
    return ", ".join(words)


def _frame(lines: Sequence[Mapping[str, Any]], dimension: bool = False) -> pl.DataFrame:
    keys = [*ROW, *(["dimension"] if dimension else [])]
    numbers = [f"{name}{end}" for name in _NUMBERS for end in ("", "_lo", "_hi")]
    schema: dict[str, Any] = dict.fromkeys(keys, pl.String) | dict.fromkeys(("n_signal", "n_mirror"), pl.Int64)
    schema |= dict.fromkeys(numbers, pl.Float64) | {"n_clusters": pl.Int64}
    schema |= dict.fromkeys(("no_estimate", "no_interval", "one_sided"), pl.String)
    return pl.DataFrame([dict(line) for line in lines], schema=schema)


# -- what stands beside it --------------------------------------------------------------------------------


def _remarks(g: Grid, known: Mask, how: str, unseen: int, unit: str) -> list[str]:
    if how == "evidence":
        words = [f"An act is what the check recorded as {REFLEX}."]
    else:
        words = ["An act is a passed signal item, or a mirror item that was not passed."]
    if unseen:
        words.append(f"{unseen:,} runs without evidence are in no rate.")
    if not known.all():
        words.append(f"{int((~known).sum()):,} tasks without an item kind are left out.")
    n_clusters = {"task": "Tasks count as independent."}.get(unit, f"Independent units: {unit}.")
    return [*words, n_clusters]


def _counts(g: Grid, known: Mask) -> dict[str, Any]:
    """`n_used` and `n_left_out`: the grid's, less the runs of tasks without a kind."""
    used = g.runs.filter("used")["t"].to_numpy()
    without = int((~known[used]).sum())
    left = dict(g.n_left_out) | ({"of tasks without an item kind": without} if without else {})
    return {"n_used": g.n_used - without, "n_left_out": left}
