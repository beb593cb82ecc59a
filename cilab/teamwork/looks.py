"""A second look at stored teamwork runs: another judge is asked the exact prompts that the study's referee saw.

May import `cilab.collect.spec`, `cilab.store` and its own folder. Replays nothing; `cilab.running.relabel` asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from cilab import store
from cilab.collect.model import ChatModel, Message, Sampling
from cilab.collect.spec import Ask, Look, digest
from cilab.core.errors import CilabError
from cilab.teamwork.judges import ask
from cilab.teamwork.task import dimension_labels
from cilab.teamwork.terms import JUDGES

#: Runs whose calls are read at a time.
_CHUNK = 128
_MAX_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a judge: the message's position, the prompt as it was sent, and its labels."""

    index: int
    text: str
    labels: tuple[str, ...]


class _Prompts:
    """What the referee was asked, read in chunks of runs; and what each label means in a task."""

    def __init__(self, study: Any, runs: pl.DataFrame):
        self._study, self._ids = study, runs["run_id"].to_list()
        self._place = {run_id: i for i, run_id in enumerate(self._ids)}
        self._read_chunk, self._asked = -1, dict[str, list[Asked]]()
        known = study.labels.filter(pl.col("rater").is_in(JUDGES))
        tasks = known.join(runs.lazy().select("run_id", "task_id"), on="run_id")
        flags = store.collect(tasks.select("task_id", "label", "gives_way", "noticed").unique(), study.path)
        self._flags = {(task, label): (gives, seen) for task, label, gives, seen in flags.iter_rows()}

    def __getitem__(self, run_id: str) -> list[Asked]:
        chunk = self._place[run_id] // _CHUNK
        if chunk != self._read_chunk:
            self._asked = self._read(self._ids[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            self._read_chunk = chunk
        return self._asked.get(run_id, [])

    def _read(self, run_ids: list[str]) -> dict[str, list[Asked]]:
        mine = pl.col("run_id").is_in(run_ids)
        calls = self._study.table("calls").filter(mine, pl.col("purpose") == "judge", pl.col("seat") == "referee")
        labels = self._study.labels.filter(mine, pl.col("rater") == "referee").sort("index")
        by_run = store.collect(calls.sort("index"), self._study.path).partition_by("run_id", as_dict=True)
        indices = store.collect(labels.select("run_id", "index"), self._study.path).partition_by("run_id", as_dict=True)
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


def _labels_in(prompt: str) -> dict[str, str]:
    """Label -> definition of a judge's prompt."""
    listed = prompt.rpartition("The labels:\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^- (\w[\w-]*): (.*(?:\n(?!- ).*)*)", listed, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in rows}


def label_choices(study: Any, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The labels that the judges of some runs could choose from: task id -> label -> definition."""
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


async def _relabel(
    prompts: _Prompts, run: Mapping[str, Any], model: ChatModel | None, sampling: Sampling
) -> AsyncIterator[dict[str, Any]]:
    assert model is not None  # no rules can judge messages
    for asked in prompts[run["run_id"]]:
        given = await ask(model, asked.text, asked.labels, sampling)
        flags = prompts.flags(run["task_id"], run["dimension"], given.label)
        yield {"index": asked.index, "label": given.label, "reason": given.reason, **flags}


def _open(study: Any, runs: pl.DataFrame) -> Ask:
    return partial(_relabel, _Prompts(study, runs))


def _sampling(number: int) -> Sampling:
    return Sampling(temperature=0.0 if number == 0 else None, max_tokens=_MAX_TOKENS, seed=number)


def _choose(study: Any, sample: int | None, seed: int) -> pl.DataFrame:
    """The runs with labels; with `sample`, so many per row, in turn from each dimension, the same for one seed."""
    labelled = study.labels.filter(pl.col("rater") == "referee").select("run_id").unique()
    runs = study.runs.filter(pl.col("benchmark") == "teamwork", pl.col("status") == "ok").join(labelled, on="run_id")
    wanted = runs.select("run_id", "task_id", "dimension", "model", "effort", "arm").sort("run_id")
    rows = store.collect(wanted, study.path)
    if sample is None or rows.is_empty():
        return rows
    rows = rows.with_columns(pl.col("run_id").map_elements(lambda i: digest([seed, i]), pl.String).alias("draw"))
    turn = pl.col("draw").rank("ordinal").over("model", "effort", "arm", "dimension")
    place = pl.struct(turn.alias("turn"), "draw").rank("ordinal").over("model", "effort", "arm")
    return (
        rows.with_columns(place.alias("place")).filter(pl.col("place") <= sample).drop("draw", "place").sort("run_id")
    )


LOOKS = {
    "relabel": Look(
        what="teamwork run with judged messages",
        choose=_choose,
        open=_open,
        sampling=_sampling,
        choices=label_choices,
    )
}
