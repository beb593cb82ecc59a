"""Stratified blind samples for people: messages to label, runs to review.

May import `cilab.core`. Draws only: `cilab.humans.forms` writes what people fill in.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from cilab.core.errors import CilabError, nearest
from cilab.teamwork.terms import RATERS

_POOL = 1000


class SampleError(CilabError):
    """A sample cannot be drawn, or its form cannot be written or restored."""


@dataclass(frozen=True)
class Sample:
    """What was drawn. Made by `sample_messages` and `sample_runs`; holds model names, so it is not for the raters.

    Attributes
    ----------
    kind : messages or runs.
    table : one row per item in the order of the form: run_id, index (null for runs), benchmark, task_id, dimension, the
        columns of the strata, stratum (Int64, from 0) and stratum_size (Int64, candidates in the stratum).
    seed : the seed.
    notes : what the sample could not give, in sentences.
    study : the study or data set that it was drawn from.
    """

    kind: Literal["messages", "runs"]
    table: pl.DataFrame
    seed: int
    notes: tuple[str, ...] = ()
    study: Any = field(default=None, repr=False)


def sample_messages(
    study: Any,
    n: int = 40,
    *,
    seed: int = 0,
    strata: Sequence[str] | None = None,
    among: Literal["labelled", "any"] | None = None,
    where: pl.Expr | None = None,
) -> Sample:
    """Messages of the model under test for people to label, at most one per task.

    The paper's sample (collaborative-intelligence paper, section C.2): 40 messages from test runs on public tasks, 6
    or 7 from each dimension, at most one from each task. Strata get equal numbers as far as their tasks allow; where
    `n` is below the number of strata, each column of the strata is balanced. In a stratum a task is drawn first, then
    one of its messages.

    Parameters
    ----------
    study : an opened study or a data set.
    n : messages.
    seed : the same seed gives the same sample, however the study's files are cut.
    strata : columns of the runs table. Default: dimension and model; version and model where no run has a dimension.
    among : `labelled`: only messages that a judge has labelled; `any`: every message that has text. Default: labelled
        where the study has labels.
    where : which runs, an expression over the runs table, e.g. `pl.col("version") == "test"`.

    Returns
    -------
    Sample
        Fewer than `n` items where there are fewer tasks; `notes` says so.

    Raises
    ------
    SampleError
        There is nothing to draw from, or a column is unknown.
    """
    if n < 1:
        raise SampleError(f"n is {n}; a sample has at least one message")
    runs = _runs(study, where)
    judged = study.labels.filter(pl.col("rater").is_in(RATERS)).select("run_id", "index").unique()
    among = among or ("labelled" if judged.head(1).collect().height else "any")
    said = study.messages.filter(
        (pl.col("kind") == "message")
        & (pl.col("seat_kind") == "under_test")
        & (pl.col("content").str.strip_chars().str.len_bytes() > 0)
    ).select("run_id", "index")
    if among == "labelled":
        said = said.join(judged, on=["run_id", "index"], how="semi")
    if strata is None:
        has_dimension = runs.select(pl.col("dimension").is_not_null().any()).collect().item()
        strata = ("dimension" if has_dimension else "version", "model")
    _known_columns(runs, strata)
    keep = ["run_id", "index", *dict.fromkeys(["benchmark", "task_id", "dimension", *strata])]
    pool = said.join(runs, on="run_id").select(keep).sort("run_id", "index").collect()
    if pool.is_empty():
        what = "message with a judge's label" if among == "labelled" else "message with text"
        raise SampleError(f"no {what} of a model under test in the runs asked for; loosen `where` or `among`")
    pool = _with_strata(pool, strata)
    chosen = _balanced(pool, strata, n, random.Random(seed))
    notes = () if len(chosen) == n else (f"{n} messages asked, {len(chosen)} drawn: there are no more tasks.",)
    return Sample("messages", pool[chosen], seed, notes, study)


def sample_runs(
    study: Any,
    per_mode: int = 20,
    *,
    seed: int = 0,
    by: str | Sequence[str] | pl.Expr | pl.DataFrame | pl.LazyFrame = ("benchmark", "version", "outcome"),
    where: pl.Expr | None = None,
) -> Sample:
    """Runs for people to read, so many of each failure mode.

    The paper read 168 transcripts, 14 to 30 per mode (collaborative-intelligence paper, section G.3). Within a mode the
    runs are spread over tasks and models: it shows many kinds of mistakes rather than estimating their shares.

    Parameters
    ----------
    study, seed : as in `sample_messages`.
    per_mode : runs of each mode.
    by : what a mode is: columns of the runs table, an expression over it, or a frame with run_id and one column
        (runs that it does not name, or names with null, are left out).
    where : which of the scored runs, e.g. `cilab.stats.expressions.failed()`.

    Returns
    -------
    Sample
        A mode with fewer runs gives all it has; `notes` says so. The order of the items does not follow the modes.

    Raises
    ------
    SampleError
        As in `sample_messages`.
    """
    if per_mode < 1:
        raise SampleError(f"per_mode is {per_mode}; a sample has at least one run of each mode")
    runs = _runs(study, where).filter(pl.col("score").is_not_null())
    if isinstance(by, pl.DataFrame | pl.LazyFrame):
        runs, strata = _with_modes(runs, by.lazy())
    elif isinstance(by, pl.Expr):
        runs, strata = runs.with_columns(by.alias("mode")), ("mode",)
    else:
        strata = (by,) if isinstance(by, str) else tuple(by)
        _known_columns(runs, strata)
    columns = dict.fromkeys(["benchmark", "task_id", "dimension", *strata])
    pool = runs.select("run_id", pl.lit(None, pl.Int64).alias("index"), *columns, pl.col("model").alias("_model"))
    table = pool.sort("run_id").collect()
    if table.is_empty():
        raise SampleError("no scored run among the runs asked for; loosen `where` or `by`")
    table, rng = _with_strata(table, strata), random.Random(seed)
    chosen, notes = [], []
    for number, group in enumerate(_groups(table["stratum"])):
        chosen += _spread(table, group, per_mode, rng)
        if len(group) < per_mode:
            name = ", ".join(str(v) for v in table.select(strata).row(group[0]))
            notes.append(f"mode {number} ({name}): {len(group)} of {per_mode} runs, there are no more.")
    rng.shuffle(chosen)
    return Sample("runs", table[chosen].drop("_model"), seed, tuple(notes), study)


def _runs(study: Any, where: pl.Expr | None) -> pl.LazyFrame:
    runs = study.runs.filter(pl.col("status") == "ok").unique("run_id", keep="first", maintain_order=True)
    return runs if where is None else runs.filter(where)


def _known_columns(runs: pl.LazyFrame, names: Iterable[str]) -> None:
    known = runs.collect_schema().names()
    for name in names:
        if name not in known:
            raise SampleError(f"runs have no column {name!r}.{nearest(name, known)}")


def _with_modes(runs: pl.LazyFrame, modes: pl.LazyFrame) -> tuple[pl.LazyFrame, tuple[str, ...]]:
    names = modes.collect_schema().names()
    others = [c for c in names if c != "run_id"]
    if "run_id" not in names or len(others) != 1:
        raise SampleError(f"`by` as a frame has run_id and one column that names the mode, not {', '.join(names)}")
    modes = modes.select("run_id", pl.col(others[0]).alias("mode")).drop_nulls()
    return runs.join(modes, on="run_id"), ("mode",)


def _with_strata(pool: pl.DataFrame, strata: Sequence[str]) -> pl.DataFrame:
    """Adds stratum (numbered in the order of the strata's values) and stratum_size."""
    known = pool.group_by(strata).agg(pl.len().cast(pl.Int64).alias("stratum_size")).sort(strata)
    numbered = known.with_row_index("stratum").with_columns(pl.col("stratum").cast(pl.Int64))
    return pool.join(numbered, on=list(strata), how="left", nulls_equal=True, maintain_order="left")


def _groups(strata: pl.Series) -> list[list[int]]:
    """Row numbers by stratum."""
    groups: list[list[int]] = [[] for _ in range((strata.max() or 0) + 1)]
    for row, stratum in enumerate(strata):
        groups[stratum].append(row)
    return groups


def _balanced(pool: pl.DataFrame, strata: Sequence[str], n: int, rng: random.Random) -> list[int]:
    """Row numbers of at most `n` rows, no task twice, strata filled as evenly as their tasks allow.

    The next item goes to the stratum with the fewest items; among equals to the one whose columns' values have been
    used least, then to the one with the fewest tasks left, then to chance.
    """
    tasks = list(zip(pool["benchmark"], pool["task_id"], strict=True))
    values = pool.select(strata).rows()
    cells: list[dict[Any, list[int]]] = []
    for group in _groups(pool["stratum"]):
        cell: dict[Any, list[int]] = {}
        for row in group:
            cell.setdefault(tasks[row], []).append(row)
        cells.append(cell)
    margins = [tuple(enumerate(values[next(iter(cell.values()))[0]])) for cell in cells]
    taken, used, chosen = Counter[int](), Counter[Any](), []
    while len(chosen) < n and (open_ := [s for s, cell in enumerate(cells) if cell]):
        stratum = min(open_, key=lambda s: (taken[s], sum(used[v] for v in margins[s]), len(cells[s]), rng.random()))
        task = rng.choice(list(cells[stratum]))
        chosen.append(rng.choice(cells[stratum][task]))
        taken[stratum] += 1
        used.update(margins[stratum])
        for cell in cells:
            cell.pop(task, None)
    rng.shuffle(chosen)
    return chosen


def _spread(table: pl.DataFrame, group: list[int], n: int, rng: random.Random) -> list[int]:
    """At most `n` of the rows, spread over tasks and models."""
    if len(group) <= n:
        return list(group)
    left = rng.sample(group, min(len(group), _POOL + n))
    tasks, models = table["task_id"], table["_model"]
    used, chosen = Counter[Any](), []
    while len(chosen) < n:
        best = min(left, key=lambda row: (used["task", tasks[row]] + used["model", models[row]], rng.random()))
        left.remove(best)
        chosen.append(best)
        used.update([("task", tasks[best]), ("model", models[best])])
    return chosen
