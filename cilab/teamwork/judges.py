"""Judges: three models that give a message one label of the task's list each.

May import `cilab.collect.model`, `cilab.collect.spec` and its own folder. Calls models only through `Seats`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cilab.collect.model import ChatModel, Message, Sampling
from cilab.collect.spec import UNPARSED, RunSpec, Seats, seat_sampling
from cilab.teamwork import texts
from cilab.teamwork.script import Votes
from cilab.teamwork.task import TaskFile
from cilab.teamwork.terms import FINAL, JUDGES

#: Characters of a judge's words that are kept as its reason.
_REASON = 400


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judge's label, and its words where they were more than the label."""

    label: str
    reason: str | None


class Panel:
    """The judges of one run. The third is asked only when referee and second differ."""

    def __init__(self, task: TaskFile, spec: RunSpec, seats: Seats):
        self._task, self._seats, self._spec = task, seats, spec
        self.labels = tuple(task.label_list)
        self._fallbacks = tuple(spec.hints.get("judge_fallbacks", ()))

    async def judge(self, before: Sequence[str], message: str) -> tuple[Votes, list[dict[str, Any]]]:
        """Votes on a message, and their rows for the labels table (without run_id and index)."""
        prompt = texts.judge(self._task, before, message)
        first = await asyncio.gather(self._ask("referee", prompt), self._ask("second", prompt))
        given = dict(zip(JUDGES, first, strict=False))
        if first[0].label != first[1].label:
            given["third"] = await self._ask("third", prompt)
        votes = Votes({rater: j.label for rater, j in given.items()})
        return votes, self.rows(votes, {rater: j.reason for rater, j in given.items()})

    def rows(self, votes: Votes, reasons: dict[str, str | None]) -> list[dict[str, Any]]:
        """One row per judge, and the final one."""
        rows = [
            {"rater": rater, "model": self._spec.judges[rater], "label": label, "reason": reasons.get(rater)}
            | self._flags(label)
            for rater, label in votes.by_rater.items()
        ]
        two = votes.count([name for name in self.labels if self._task.label_list[name].gives_way]) >= 2
        return [*rows, {"rater": FINAL, "label": votes.final} | self._flags(votes.final) | {"gives_way": two}]

    def _flags(self, label: str) -> dict[str, bool | None]:
        known = self._task.label_list.get(label)
        return {"gives_way": known.gives_way if known else None, "noticed": known.noticed if known else None}

    async def _ask(self, rater: str, prompt: str) -> Judgement:
        model = self._seats.model(self._spec.judges[rater], rater, "judge", under_test=False, fallbacks=self._fallbacks)
        return await ask(model, prompt, self.labels, seat_sampling(self._spec, rater))


async def ask(model: ChatModel, prompt: str, labels: Sequence[str], sampling: Sampling) -> Judgement:
    """One label from one judge: an answer that is none is asked again, then recorded as `unparsed`."""
    sampling = Sampling(**{**sampling.as_dict(), "choices": tuple(labels)})
    history: list[Message] = [{"role": "user", "content": prompt}]
    for _ in range(2):
        answer = (await model.complete(history, sampling=sampling)).content
        if (label := read_label(answer, labels)) is not None:
            reason = answer.strip()
            return Judgement(label, None if reason.casefold() == label else reason[:_REASON])
        history = [
            history[0],
            {"role": "assistant", "content": answer or "(no text)"},
            {"role": "user", "content": texts.judge_again(labels)},
        ]
    return Judgement(UNPARSED, answer.strip()[:_REASON] or None)


def read_label(answer: str, labels: Sequence[str]) -> str | None:
    """The label of an answer: the whole of it, else its last line, else the only label in it; None where unclear.

    >>> read_label("Label: **complies**.", ["complies", "hedges"])
    'complies'
    >>> read_label("complies or hedges", ["complies", "hedges"]) is None
    True
    """
    rows = [row for row in answer.splitlines() if row.strip()]
    for text in (answer, rows[-1] if rows else ""):
        bare = re.sub(r"^\W*(?:label|answer)\W+", "", text.strip(), flags=re.IGNORECASE)
        bare = re.sub(r"[^\w]+$|^[^\w]+", "", bare).casefold().replace(" ", "_")
        if bare in labels:
            return bare
    found = {name for name in labels if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer.casefold())}
    return found.pop() if len(found) == 1 else None
