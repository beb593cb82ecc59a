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

from cilab.core.errors import TableError, choice
from cilab.core.frames import runs_of
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import detection
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.detection import Correction, Estimate
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.task_runs import used_runs

#: The two kinds in column `item` of runs.
SIGNAL, MIRROR = "signal", "mirror"
#: What the check of a task records where the model did what its family defines as the reflex.
REFLEX = "showed_reflex"

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
    ci_level : of the intervals (see `cilab.stats.methods.detection.detect`).
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`; `cluster` is the independent unit.

    Returns
    -------
    DiscriminationResult
        `.table`, one line per row: `model, effort, arm, n_signal, n_mirror` (items), `signal_pass, mirror_pass,
        balanced` (mean of the two), `hit_rate, false_alarm_rate` (all fractions), `d_prime, criterion` (standard
        deviations), each with `_lo` and `_hi`; `n_clusters`; `no_estimate` (such as "no mirror items"), `no_interval`
        (such as "false alarm rate: too few: 2 families"), `one_sided` (why an interval has one end only). Over several
        dimensions the items are pooled. Runs without evidence, where evidence is what counts, are out and counted.

    Raises
    ------
    TableError
        No column `item`, a task is of both kinds, an unknown kind; published task ids; or as in `grid`.

    References
    ----------
    Green & Swets (1966); Hautus (1995), Behavior Research Methods 27, for `log_linear`.
    """
    choice("correction", correction, ("proportional", "log_linear"))
    choice("act", act, ("auto", "evidence", "score"))
    kinds = _kinds(study)
    g = grid(study, **scope)
    g.need_known_tasks("discrimination")
    kind = _of_tasks(g, kinds)
    known = kind != ""
    acted, how, unseen = _acts(study, g, kind, act)
    lines, parts = [], []
    for r, row in enumerate(g.rows.select(ROW).iter_rows(named=True)):
        data = _Items(g.values[r], acted[r], kind, g.clusters)
        mine = g.scored[r] & known
        lines.append(row | _line(data, mine, g.cluster_name, correction, ci_level))
        for name, at in zip(g.dimensions, g.slices, strict=True):
            here = np.zeros_like(mine)
            here[at] = mine[at]
            parts.append(row | {"dimension": name} | _line(data, here, g.cluster_name, correction, ci_level))
    return DiscriminationResult(
        table=_frame(lines),
        dimensions=_frame(parts, dimension=True),
        act=how,
        remarks=(*g.notes, *_remarks(known, how, unseen)),
        **_counts(g, known),
        provenance=g.provenance,
        parameters=g.asked | {"act_used": how, "cluster_used": g.cluster_name},
        caption=(
            f"Items that rows {g.gate_words}; d' and criterion in standard deviations, {correction.replace('_', '-')} "
            f"correction, {percent(ci_level)} intervals over {intervals.units(g)}."
        ),
    )


# -- what an item is --------------------------------------------------------------------------------------


def _kinds(study: Any) -> pl.DataFrame:
    """`task_id, item` of every task that has a kind."""
    rows = runs_of(study, ("task_id", "item"))
    if "item" not in rows.collect_schema().names():
        raise TableError(
            "runs: no column item, so nothing says which tasks are mirrors; give each run item='signal' or 'mirror'"
        )
    kinds = (
        rows.select(pl.col("task_id").cast(pl.String), pl.col("item").cast(pl.String)).drop_nulls().unique().collect()
    )
    if unknown := sorted(set(kinds["item"]) - {SIGNAL, MIRROR}):
        raise TableError(f"runs: item is {unknown[0]!r}; it is {SIGNAL} or {MIRROR}")
    if len(several := kinds.filter(pl.col("task_id").is_duplicated())["task_id"].sort()):
        raise TableError(f"runs: task {several[0]} is of both kinds; a task has one")
    return kinds


def _of_tasks(g: Grid, kinds: pl.DataFrame) -> NDArray[np.str_]:
    """Kind of each task of the grid; "" where it is unknown."""
    joined = g.tasks.select("task_id").join(kinds, on="task_id", how="left", maintain_order="left")
    return joined["item"].fill_null("").to_numpy().astype(str)


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
            rate = "hit_rate" if k == SIGNAL else "false_alarm_rate"
            for name, values in ((f"{k}_pass", data.values), (rate, data.acted)):
                found[name] = detection.rate_of(values[at[k]], data.clusters[at[k]], ci_level, unit)
    missing = [f"no {k} items" for k in (SIGNAL, MIRROR) if not len(at[k])]
    if not missing:
        found["balanced"] = detection.mean_of_two(found["signal_pass"], found["mirror_pass"])
        one = detection.detect(
            data.acted[at[SIGNAL]],
            data.acted[at[MIRROR]],
            data.clusters[at[SIGNAL]],
            data.clusters[at[MIRROR]],
            correction=correction,
            ci_level=ci_level,
            unit=unit,
        )
        found |= {"d_prime": one.d_prime, "criterion": one.criterion}
    out: dict[str, Any] = {"n_signal": len(at[SIGNAL]), "n_mirror": len(at[MIRROR])}
    for name in _NUMBERS:
        out |= _ends(name, found.get(name))
    d_prime = found.get("d_prime")
    open_ended = d_prime is not None and d_prime.reason is None and not np.isfinite([d_prime.lo, d_prime.hi]).all()
    return out | {
        "n_clusters": len(np.unique(data.clusters[mine])),
        "no_estimate": "; ".join(missing) or None,
        "no_interval": next((f"{n.replace('_', ' ')}: {e.reason}" for n, e in found.items() if e.reason), None),
        "one_sided": _one_sided(found) if open_ended else None,
    }


def _ends(name: str, found: Estimate | None) -> dict[str, float | None]:
    if found is None:
        return {name: None, f"{name}_lo": None, f"{name}_hi": None}
    lo, hi = (float(x) if np.isfinite(x) else None for x in (found.lo, found.hi))
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


def _remarks(known: Mask, how: str, unseen: int) -> list[str]:
    if how == "evidence":
        words = [f"An act is what the check recorded as {REFLEX}."]
    else:
        words = ["An act is a passed signal item, or a mirror item that was not passed."]
    if unseen:
        words.append(f"{unseen:,} runs without evidence are in no rate.")
    if not known.all():
        words.append(f"{int((~known).sum()):,} tasks without an item kind are left out.")
    return words


def _counts(g: Grid, known: Mask) -> dict[str, Any]:
    """`n_used` and `n_left_out`: the grid's, less the runs of tasks without a kind."""
    used = g.runs.filter("used")["t"].to_numpy()
    without = int((~known[used]).sum())
    left = dict(g.n_left_out) | ({"of tasks without an item kind": without} if without else {})
    return {"n_used": g.n_used - without, "n_left_out": left}
