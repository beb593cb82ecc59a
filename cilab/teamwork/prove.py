"""Proves tasks: every exemplar is played and must come out as it says; and says what tasks there are.

May import `cilab.collect.model`, `cilab.collect.spec` and its own folder. Plays nothing itself: `check_tasks` is handed
what plays (`cilab.running.prove`), which calls no language model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl

from cilab.collect.model import ChatModel
from cilab.collect.spec import RunSpec
from cilab.core.errors import nearest
from cilab.teamwork import bank
from cilab.teamwork.bank import Task
from cilab.teamwork.plan import check_sandbox
from cilab.teamwork.sim import ExemplarActor, SimJudge, SimPartner, Stubborn
from cilab.teamwork.task import STAGES, TASK_ID, Exemplar, TaskError, dimension_labels, dimension_modes
from cilab.teamwork.terms import DIMENSIONS, JUDGES

#: Agents that do one thing whatever happens, and the version that must stop them: (least share that fails, version).
STUBBORN = {"silent": (0.9, "test"), "agreeable": (0.9, "test"), "refusing": (0.5, "baseline")}
_PANEL = {rater: f"sim/exact-judge-{which}" for rater, which in zip(JUDGES, "abc", strict=True)}
_PARTNER = "sim/team-partner"
#: How every tool begins when it refuses a call (`cilab.teamwork.tools`).
REFUSAL = "error: "


@dataclass(frozen=True)
class TaskCheck:
    """What came of proving tasks.

    Attributes
    ----------
    table : one row per run: `task_id, dimension, exemplar, version, kind, expected, got, score, outcome, evidence,
        labels, refused, as_expected`; `refused` are the answers of tools that refused a call. The stubborn agents are
        the rows of kind `stubborn`, without an expectation of their own.
    problems : one line each; empty when everything is proven.
    shares : agent -> share of its runs (of the version that counts) that fail.
    """

    table: pl.DataFrame
    problems: tuple[str, ...]
    shares: Mapping[str, float]


def check_tasks(
    wanted: Sequence[str],
    isolation: str,
    play: Callable[[Sequence[RunSpec], Mapping[str, ChatModel]], Mapping[str, pl.DataFrame]],
    failure: Callable[[Mapping[str, Any]], tuple[str, str]],
) -> TaskCheck:
    """Play every exemplar of the tasks, and the three stubborn agents. Called by `cilab.running.prove.check_tasks`.

    Parameters
    ----------
    wanted : ids, patterns, dimensions or folders.
    isolation : `none` runs code without bubblewrap.
    play : plays run specs with the models of these names; gives the tables, runs in the order of the specs.
    failure : stage and mode of a failed test run, given its dimension, score, outcome, evidence, labels and noticed.

    Raises
    ------
    TaskError, SandboxError
        A task file is wrong, or code cannot be held here.
    """
    tasks = bank.find(wanted)
    check_sandbox(tasks, isolation)
    models: dict[str, ChatModel] = {name: SimJudge(name[-1], slips=0.0) for name in _PANEL.values()}
    models[_PARTNER] = SimPartner()
    asked: dict[str, tuple[Task, Exemplar | None, str]] = {}
    specs = []
    for task in tasks:
        for spec, exemplar, agent in _runs_of(task, isolation, models):
            asked[spec.run_id] = (task, exemplar, agent)
            specs.append(spec)
    rows, wrong = [], []
    for run in _with_answers(play(specs, models)):
        task, exemplar, agent = asked[run["run_id"]]
        rows.append(_row(task, exemplar, agent, run, failure))
        wrong += _wrong(rows[-1], exemplar)
    table = pl.DataFrame(rows, schema=_SCHEMA).sort("task_id", "kind", "exemplar")
    shares = _shares(table)
    return TaskCheck(table, (*wrong, *(_too_easy(shares) if len(tasks) >= 10 else ())), shares)


_SCHEMA = {
    "task_id": pl.String,
    "dimension": pl.String,
    "exemplar": pl.String,
    "version": pl.String,
    "kind": pl.String,
    "expected": pl.String,
    "got": pl.String,
    "score": pl.Float64,
    "outcome": pl.String,
    "evidence": pl.List(pl.String),
    "labels": pl.List(pl.String),
    "refused": pl.List(pl.String),
    "as_expected": pl.Boolean,
}


def list_tasks(wanted: Sequence[str] = ("*",)) -> pl.DataFrame:
    """One row per task: id, dimension, source, seats, live partners, rounds, sandbox, whether it executes code, title.

    Raises
    ------
    TaskError
        As `check_tasks`.
    """
    rows = [
        {
            "task_id": task.id,
            "dimension": task.file.dimension,
            "source_family": task.file.source.family,
            "real_world": task.file.real_world,
            "seats": len(task.file.seats),
            "partners": len(task.file.of_kind("partner")),
            "rounds": task.file.rounds,
            "sandbox": task.file.sandbox is not None,
            "executes_code": task.file.executes_code,
            "title": task.file.title,
        }
        for task in bank.find(wanted)
    ]
    return pl.DataFrame(rows)


def write_template(task_id: str, dimension: str, out: str | os.PathLike[str]) -> Path:
    """Write `out/<task_id>/task.yaml`, a small task with a comment on every part, to be rewritten; returns its path.

    Raises
    ------
    TaskError
        The id or the dimension is none, or the folder is there already.
    """
    if not re.fullmatch(TASK_ID, task_id):
        raise TaskError(f"{task_id!r}: an id has small letters, digits, dashes and underscores only.")
    if dimension not in DIMENSIONS:
        raise TaskError(
            f"--dimension {dimension}: is none.{nearest(dimension, DIMENSIONS)} Known: {', '.join(DIMENSIONS)}"
        )
    if dimension in ("handling_conflict", "taking_over"):
        raise TaskError(
            f"--dimension {dimension}: needs a deal or an inherited session, which no template can guess. Copy one "
            f"of ours: `cilab tasks list {dimension}` names them."
        )
    path = Path(out) / task_id / "task.yaml"
    text = (resources.files("cilab.teamwork") / "template.yaml").read_text(encoding="utf-8")
    labels = dimension_labels(dimension)
    seen = next(name for name, label in labels.items() if label.noticed)
    gives = next((name for name, label in labels.items() if label.gives_way), None)
    plain = next(name for name, label in labels.items() if not label.noticed and not label.gives_way)
    for mark, value in (
        ("ID", task_id),
        ("DIMENSION", dimension),
        ("SEEN", seen),
        ("GIVES", gives or plain),
        ("PLAIN", plain),
    ):
        text = text.replace(f"<{mark}>", value)
    try:
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise TaskError(f"{path.parent}: is there already; choose another id or folder.") from None
    except OSError as e:
        raise TaskError(f"{path}: cannot be written ({e.strerror}).") from None
    return path


# -- what is played -----------------------------------------------------------------------------------------------


def _runs_of(
    task: Task, isolation: str, models: dict[str, ChatModel]
) -> Iterator[tuple[RunSpec, Exemplar | None, str]]:
    for exemplar in task.file.exemplars:
        name = f"sim/exemplar-{task.id}-{exemplar.name}"
        models[name] = ExemplarActor(name, exemplar)
        yield _spec(task, name, exemplar.version, isolation), exemplar, exemplar.name
    for agent, (_, version) in STUBBORN.items():
        name = f"sim/team-{agent}"
        models.setdefault(name, Stubborn(agent))
        yield _spec(task, name, version, isolation), None, agent


def _spec(task: Task, model: str, version: str, isolation: str) -> RunSpec:
    team = version != "alone"
    partners = {s.id: _PARTNER for s in task.file.of_kind("partner")} if team else {}
    return RunSpec(
        benchmark="teamwork",
        task_id=task.id,
        task_hash=task.task_hash,
        version=version,
        model=model,
        seed=0,
        judges=_PANEL if team else {},
        settings={"partners": partners} if partners else {},
        hints={"folder": str(task.folder), "dimension": task.file.dimension, "isolation": isolation},
    )


def _with_answers(played: Mapping[str, pl.DataFrame]) -> Iterator[dict[str, Any]]:
    """The runs with their final labels and the answers of tools that refused a call."""
    final = played["labels"].filter(pl.col("rater") == "final").sort("run_id", "index")
    said = final.group_by("run_id").agg(pl.col("label").alias("labels"), pl.col("noticed").any().alias("seen"))
    answers = (
        played["messages"]
        .filter(
            (pl.col("kind") == "tool_result")
            & (pl.col("delivered_to").list.len() > 0)  # not those of an inherited session
            & pl.col("tool_output").str.starts_with(REFUSAL)
        )
        .sort("run_id", "index")
    )
    refused = answers.group_by("run_id", maintain_order=True).agg(pl.struct("tool", "tool_output").alias("refused"))
    runs = played["runs"]
    for answered in (said, refused):
        runs = runs.join(answered, on="run_id", how="left", maintain_order="left")
    return runs.iter_rows(named=True)


# -- what came out --------------------------------------------------------------------------------------------------


def _row(
    task: Task,
    exemplar: Exemplar | None,
    agent: str,
    run: Mapping[str, Any],
    failure: Callable[[Mapping[str, Any]], tuple[str, str]],
) -> dict[str, Any]:
    got = _got(task, run, failure)
    expected = exemplar.expect if exemplar else None
    right = None
    if exemplar is not None:
        right = _came_out(exemplar, got, run["score"]) and exemplar.refused == bool(run["refused"])
    return {
        "task_id": task.id,
        "dimension": task.file.dimension,
        "exemplar": agent,
        "version": run["version"],
        "kind": exemplar.kind if exemplar else "stubborn",
        "expected": expected,
        "got": got,
        "score": run["score"],
        "outcome": run["outcome"] if run["status"] == "ok" else run["error"],
        "evidence": run["evidence"] or [],
        "labels": run["labels"] or [],
        "refused": [_refusal(**answer) for answer in run["refused"] or ()],
        "as_expected": right,
    }


def _got(task: Task, run: Mapping[str, Any], failure: Callable[[Mapping[str, Any]], tuple[str, str]]) -> str:
    """pass, error, the stage of the failure, or fail where no stage applies (alone and baseline, or no rule fits)."""
    if run["status"] != "ok":
        return "error"
    if run["passed"]:
        return "pass"
    if run["version"] != "test":
        return "fail"
    seen = {"noticed": bool(run["seen"]), "labels": run["labels"] or [], "evidence": run["evidence"] or []}
    stage, mode = failure({**run, **seen, "dimension": task.file.dimension})
    stage = stage.replace(" ", "_").removesuffix("_it")
    expected = dimension_modes(task.file.dimension)
    return stage if stage in STAGES and (mode in expected.values() or stage in expected) else "fail"


def _refusal(tool: str, tool_output: str) -> str:
    """What a tool answered to a call that it refused, with the tool's name once."""
    return f"{tool}: {tool_output.removeprefix(REFUSAL).removeprefix(f'{tool}: ')}"


def _came_out(exemplar: Exemplar, got: str, score: float | None) -> bool:
    right = got == exemplar.expect or (exemplar.expect == "fail" and got not in ("pass", "error"))
    return right and (exemplar.score is None or exemplar.score == score)


def _wrong(row: Mapping[str, Any], exemplar: Exemplar | None) -> Iterator[str]:
    """What is wrong with a run, if anything."""
    if exemplar is None:
        if row["got"] == "error":
            yield f"{row['task_id']}: the {row['exemplar']} agent ends in an error: {row['outcome']}"
        return
    where, refused = f"{row['task_id']}: exemplars.{row['exemplar']} ({row['version']})", "; ".join(row["refused"])
    if not _came_out(exemplar, row["got"], row["score"]):
        seen, said = (", ".join(row[k]) or "none" for k in ("evidence", "labels"))
        yield (
            f"{where}: expected {row['expected']}, got {row['got']} (outcome {row['outcome']}, score {row['score']}, "
            f"evidence {seen}, labels {said}{f', refused {refused}' if refused else ''})"
        )
    elif refused and not exemplar.refused:
        yield (
            f"{where}: a tool refuses its call: {refused}. Mend the call, or write `refused: true` if that is what "
            "the exemplar shows."
        )
    elif exemplar.refused and not refused:
        yield f"{where}: says `refused: true`, but no tool refuses a call of it."


def _shares(table: pl.DataFrame) -> dict[str, float]:
    stubborn = table.filter(pl.col("kind") == "stubborn")
    failed = stubborn.group_by("exemplar").agg((pl.col("got") != "pass").mean().alias("share"))
    return dict(sorted(failed.iter_rows()))


def _too_easy(shares: Mapping[str, float]) -> Iterator[str]:
    for agent, (least, version) in STUBBORN.items():
        if shares[agent] < least:
            yield (
                f"the {agent} agent fails {shares[agent]:.0%} of the {version} runs; at least {least:.0%} must fail. "
                "`table` names the tasks that it passes."
            )
