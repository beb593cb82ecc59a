"""Other judges on stored teamwork runs: each sees the exact prompt that the study's referee saw.

May import `cilab.running.again` and what it may. Replays no rollout; the new labels go into the labels table under the
new judge's name, so that agreement and leniency can be asked of them (collaborative-intelligence paper, appendix C.2).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.engine import Job, Summary
from cilab.collect.model import Message, Sampling
from cilab.collect.spec import Rollout, Seats, digest
from cilab.core.errors import CilabError, StudyError
from cilab.maze.plan import RULES
from cilab.running.again import SecondLook
from cilab.teamwork.judges import ask
from cilab.teamwork.script import UNPARSED
from cilab.teamwork.task import dimension_labels

#: Runs whose calls are read at a time.
_CHUNK = 128
_MAX_TOKENS = 4096


def relabel(
    data: str | os.PathLike[str],
    *,
    judge: str,
    repeat: int = 1,
    sample: int | None = None,
    seed: int = 0,
    study: str | os.PathLike[str] | None = None,
    budget_usd: float | None = None,
    show_progress: bool = True,
) -> Summary:
    """Have stored messages labelled by another judge.

    Parameters
    ----------
    data : the study's folder.
    judge : a model string.
    repeat : how often each message is labelled; the second time on, the rater is called `NAME#1` and so on.
    sample : runs per row (model, effort, arm), spread evenly over dimensions; None takes every run with labels.
    seed : of the sample.
    study : a study file with the judge's route, price, base and limits.
    budget_usd : start no call once the known cost of the folder, all that was paid before included, has reached this;
        what is in flight then is finished and paid.

    Returns
    -------
    Summary
        Rows of `labels` have the judge's name as rater. Its `unreadable` of `answers` gave no label; nothing but such
        answers is exit code 1.

    Raises
    ------
    StudyError, StoreError
        Bad input, before anything is called.
    """
    if judge == RULES:
        raise StudyError("--with rules: no rules can judge messages; name a model, such as --with openai/gpt-4.1.")
    again = SecondLook(data, judge, repeat, sample, study, budget_usd)
    runs = _chosen(again.opened, sample, seed)
    if runs.is_empty():
        raise StudyError(f"{data}: holds no finished teamwork run with judged messages.")
    prompts = _Prompts(again.opened, runs)

    def jobs() -> Iterator[Job]:
        for number in range(repeat):
            for run in runs.iter_rows(named=True):
                yield _job(prompts, run, judge, number)

    summary = again.drive(jobs, show_progress)
    return again.counted(summary, lambda: _answers(again.opened, judge, runs, repeat))


def _answers(opened: store.Study, judge: str, runs: pl.DataFrame, repeat: int) -> tuple[int, int]:
    """(stored answers of a judge on some runs, those of them that were no label)."""
    raters = [_rater(judge, number) for number in range(repeat)]
    mine = pl.col("rater").is_in(raters) & pl.col("run_id").is_in(runs["run_id"].implode())
    labels = store.collect(opened.labels.filter(mine).select("label"), opened.path)["label"]
    return labels.len(), int((labels == UNPARSED).sum())


def _rater(judge: str, number: int) -> str:
    return judge if number == 0 else f"{judge}#{number}"


def label_choices(study: Any, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The labels that the judges of some runs could choose from: task id -> label -> definition, for people's forms.

    Parameters
    ----------
    study : an opened study.
    run_ids : the runs; those without judged messages give nothing.
    """
    mine = pl.col("run_id").is_in(list(run_ids))
    asked = (pl.col("purpose") == "judge") & (pl.col("seat") == "referee")
    calls = study.table("calls").filter(mine, asked).select("run_id", "index", "wire_json").collect()
    tasks = dict(study.runs.filter(mine).select("run_id", "task_id").collect().iter_rows())
    found: dict[str, dict[str, str]] = {}
    for (run_id,), rows in calls.sort("index").partition_by("run_id", as_dict=True).items():
        task_id = tasks[str(run_id)]
        wire = rows["wire_json"][0]
        if task_id not in found and wire is not None:
            found[task_id] = _labels_in(json.loads(wire)["messages"][0]["content"])
    return found


def _labels_in(prompt: str) -> dict[str, str]:
    """Label -> definition of a judge's prompt."""
    listed = prompt.rpartition("The labels:\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^- (\w[\w-]*): (.*(?:\n(?!- ).*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in rows}


def _job(prompts: _Prompts, run: Mapping[str, Any], judge: str, number: int) -> Job:
    rater = _rater(judge, number)

    async def play(seats: Seats) -> Rollout:
        model = seats.model(judge, f"relabel:{rater}", "judge", under_test=False)
        for asked in prompts[run["run_id"]]:
            sampling = Sampling(temperature=0.0 if number == 0 else None, max_tokens=_MAX_TOKENS, seed=number)
            given = await ask(model, asked.text, asked.labels, sampling)
            flags = prompts.flags(run["task_id"], run["dimension"], given.label)
            seats.rollout.labels.append(
                {
                    "index": asked.index,
                    "rater": rater,
                    "model": judge,
                    "label": given.label,
                    "reason": given.reason,
                    **flags,
                }
            )
        return seats.rollout

    identity = {"purpose": "relabel", "run": run["run_id"], "judge": judge, "repeat": number}
    return Job(digest(identity), run["run_id"], play)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a judge: the message's position, the prompt as it was sent, and its labels."""

    index: int
    text: str
    labels: tuple[str, ...]


class _Prompts:
    """What the referee was asked, read in chunks of runs; and what each label means in a task."""

    def __init__(self, opened: store.Study, runs: pl.DataFrame):
        self._opened, self._ids = opened, runs["run_id"].to_list()
        self._place = {run_id: i for i, run_id in enumerate(self._ids)}
        self._read_chunk, self._asked = -1, dict[str, list[Asked]]()
        known = opened.labels.filter(pl.col("rater").is_in(["referee", "second", "third"]))
        tasks = known.join(runs.lazy().select("run_id", "task_id"), on="run_id")
        flags = store.collect(tasks.select("task_id", "label", "gives_way", "noticed").unique(), opened.path)
        self._flags = {(task, label): (gives, seen) for task, label, gives, seen in flags.iter_rows()}

    def __getitem__(self, run_id: str) -> list[Asked]:
        chunk = self._place[run_id] // _CHUNK
        if chunk != self._read_chunk:
            self._asked = self._read(self._ids[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            self._read_chunk = chunk
        return self._asked.get(run_id, [])

    def _read(self, run_ids: list[str]) -> dict[str, list[Asked]]:
        mine = pl.col("run_id").is_in(run_ids)
        calls = self._opened.table("calls").filter(mine, pl.col("purpose") == "judge", pl.col("seat") == "referee")
        labels = self._opened.labels.filter(mine, pl.col("rater") == "referee").sort("index")
        by_run = store.collect(calls.sort("index"), self._opened.path).partition_by("run_id", as_dict=True)
        indices = store.collect(labels.select("run_id", "index"), self._opened.path).partition_by(
            "run_id", as_dict=True
        )
        out = {}
        for (run_id,), rows in by_run.items():
            first = [messages[0] for messages in _wires(rows, str(run_id)) if len(messages) == 1]
            at = indices[(run_id,)]["index"].to_list() if (run_id,) in indices else []
            out[str(run_id)] = [_asked(i, m["content"]) for i, m in zip(at, first, strict=False)]
        return out

    def flags(self, task_id: str, dimension: str, label: str) -> dict[str, bool | None]:
        """`gives_way` and `noticed` of a label: as the study's own judges have them, else as the dimension does."""
        if (task_id, label) in self._flags:
            gives, seen = self._flags[task_id, label]
        else:
            meant = dimension_labels(dimension).get(label)
            gives, seen = (meant.gives_way, meant.noticed) if meant else (None, None)
        return {"gives_way": gives, "noticed": seen}


def _wires(calls: pl.DataFrame, run_id: str) -> Iterator[list[Message]]:
    for index in calls.filter(pl.col("error").is_null())["index"]:
        yield store.wire_messages(calls, run_id, "judge", "referee", index)["messages"]


def _asked(index: int, prompt: str) -> Asked:
    labels = tuple(_labels_in(prompt))
    if not labels:
        raise CilabError(f"the referee's prompt on message {index} names no labels; it cannot be asked again")
    return Asked(index, prompt, labels)


def _chosen(opened: store.Study, sample: int | None, seed: int) -> pl.DataFrame:
    """The runs with labels; with `sample`, so many per row, in turn from each dimension, the same for one seed."""
    labelled = opened.labels.filter(pl.col("rater") == "referee").select("run_id").unique()
    runs = opened.runs.filter(pl.col("benchmark") == "teamwork", pl.col("status") == "ok").join(labelled, on="run_id")
    wanted = runs.select("run_id", "task_id", "dimension", "model", "effort", "arm").sort("run_id")
    rows = store.collect(wanted, opened.path)
    if sample is None or rows.is_empty():
        return rows
    rows = rows.with_columns(pl.col("run_id").map_elements(lambda i: digest([seed, i]), pl.String).alias("draw"))
    turn = pl.col("draw").rank("ordinal").over("model", "effort", "arm", "dimension")
    place = pl.struct(turn.alias("turn"), "draw").rank("ordinal").over("model", "effort", "arm")
    return (
        rows.with_columns(place.alias("place")).filter(pl.col("place") <= sample).drop("draw", "place").sort("run_id")
    )
