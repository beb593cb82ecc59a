"""Rows and studies by hand, for tests: those of this package and those of whoever extends it.

May import `cilab.core` and `cilab.datasets`. Plays nothing, calls no model, writes nothing.

    from cilab.testing import label, message, run, study

    data = study([run("gpt", "t1", "alone"), run("gpt", "t1", "test", 0.0)], labels=[label("gpt|t1|test|0")])
    cilab.leaderboard(data)

Every builder gives a row with what its table requires, and takes any other column by its name. A column that the table
does not have is refused when the row becomes a frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from cilab.core.tables import frame
from cilab.datasets.dataset import Dataset

Row = dict[str, Any]


def run(
    model: str = "m",
    task_id: str = "t",
    version: str = "test",
    score: float | None = 1.0,
    seed: int = 0,
    **columns: Any,
) -> Row:
    """A row of the runs table: a finished rollout, or, without a score, one that ended in an error.

    Parameters
    ----------
    model, task_id, version, score, seed : as in the table. The dimension is what stands before the task's colon; a
        rollout that is not ok has no score.
    **columns : others, or other values; `status="ok"` with a score of None is a rollout of a benchmark without scores.

    Examples
    --------
    >>> row = run("gpt", "keeping_on_track:t1", "test", 0.5, effort="high")
    >>> row["run_id"], row["dimension"], row["status"], row["passed"]
    ('gpt:high|keeping_on_track:t1|test|0', 'keeping_on_track', 'ok', False)
    """
    if columns.get("status", "ok") != "ok":
        score = None
    row = {
        "study": "by hand",
        "benchmark": "teamwork",
        "task_id": task_id,
        "dimension": task_id.partition(":")[0],
        "version": version,
        "model": model,
        "effort": None,
        "arm": None,
        "seed": seed,
        "status": "error" if score is None else "ok",
        "score": score,
        "passed": None if score is None else score == 1,
    } | columns
    who = f"{row['model']}{_part(':', row['effort'])}{_part('+', row['arm'])}"
    return {"run_id": f"{who}|{row['task_id']}|{row['version']}|{row['seed']}"} | row


def _part(mark: str, value: str | None) -> str:
    return "" if value is None else f"{mark}{value}"


def message(run_id: str, index: int = 0, content: str | None = "Hello.", **columns: Any) -> Row:
    """A row of the messages table: what the model under test says, in round `index`.

    Examples
    --------
    >>> message("r1", 2, "No.", seat_kind="scripted")["seat"]
    'scripted'
    """
    kind = columns.get("seat_kind", "under_test")
    row = {"run_id": run_id, "index": index, "round": index, "kind": "message", "seat": kind, "seat_kind": kind}
    return row | {"content": content} | columns


def label(run_id: str, index: int = 0, label: str = "other", rater: str = "final", **columns: Any) -> Row:
    """A row of the labels table: it neither gives way nor notices, unless said otherwise."""
    row = {"run_id": run_id, "index": index, "rater": rater, "label": label}
    return row | {"gives_way": False, "noticed": False} | columns


def runs(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a runs table with all its columns, checked.

    Raises
    ------
    TableError
        A row does not fit the table.
    """
    return frame("runs", list(rows))


def grid(
    scores: Sequence[Sequence[Any]],
    solved: Sequence[Sequence[Any]] | None = None,
    *,
    models: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    dimensions: Sequence[str] | None = None,
    **columns: Sequence[Any],
) -> pl.DataFrame:
    """A runs table of models by tasks: each cell is played alone once and tested as often as it has scores.

    Parameters
    ----------
    scores : (models, tasks) or (models, tasks, seeds), nested or an array; None and NaN are tests that were not played.
    solved : (models, tasks), whether the task was solved alone; default always.
    models, tasks, dimensions : names; default m0, m1, …; t000, t001, …; and one dimension, d.
    **columns : other columns, a value for each task.

    Examples
    --------
    >>> grid([[1.0, 0.0], [None, 1.0]], solved=[[True, True], [False, True]]).height
    7
    """
    rows = []
    for r, tested in enumerate(scores):
        for t, cell in enumerate(tested):
            task = tasks[t] if tasks is not None else f"t{t:03d}"
            more = {"dimension": dimensions[t] if dimensions is not None else "d"}
            more |= {name: values[t] for name, values in columns.items()}
            who = models[r] if models is not None else f"m{r}"
            alone = 1.0 if solved is None else float(solved[r][t])
            rows.append(run(who, task, "alone", alone, **more))
            seeds = cell if hasattr(cell, "__len__") else [cell]
            for seed, score in enumerate(seeds):
                if score is not None and not math.isnan(score):
                    rows.append(run(who, task, "test", float(score), seed, **more))
    return runs(rows)


def study(
    runs: Iterable[Mapping[str, Any]], *, name: str = "by hand", simulated: bool = False, **tables: Iterable[Any]
) -> Dataset:
    """A data set of rows, to be asked like an opened study; `.save(folder)` makes it one on disk.

    Parameters
    ----------
    runs : rows of the runs table.
    name : of the data set.
    simulated : whether it says that its agents are simulated.
    **tables : rows of other tables by the table's name (`messages=`, `labels=`, …).

    Raises
    ------
    TableError
        A row does not fit its table.
    """
    frames = {table: frame(table, list(rows)) for table, rows in {"runs": runs, **tables}.items()}
    return Dataset(name, frames, simulated=simulated, kind="simulated" if simulated else "imported")
