"""Acting out a task's exemplars: the model under test, judges and partners without a language model.

May import `cilab.collect.model`, `cilab.collect.spec` and its own folder. Reads only what it is sent, as any model
does: the task is known by its brief, the round by its heading. Used to prove tasks (`cilab tasks check`) and by
simulated agents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from cilab.collect.model import Completion, Message, ToolCall, Usage
from cilab.collect.spec import run_seed
from cilab.teamwork import bank
from cilab.teamwork.bank import Task
from cilab.teamwork.task import TOOLS, Exemplar, Turn, words
from cilab.teamwork.terms import VERSIONS
from cilab.teamwork.tools import as_text

_ROUND = re.compile(r"Round (\d+) of \d+\.")
_PROPOSAL = "On the table:"
_CHARS_PER_TOKEN = 4
#: Repeats of a version that are known by their seed.
REPEATS = 32
#: Words that an actor may put in front of a line, so that two runs do not read alike; a judge sees past them.
OPENERS = ("", "All right. ", "Here is where I stand. ", "Let me be plain. ", "One thing from me. ", "To the point: ")


def act(exemplar: Exemplar, messages: Sequence[Message], opener: str = "") -> Completion:
    """What the exemplar does next, given the conversation as the model under test sees it.

    Tool calls come before the words of a turn, unless one of them ends the run: then both come at once.
    """
    number, results_in = where(messages)
    turn = exemplar.turns[number - 1] if number <= len(exemplar.turns) else Turn()
    text_style = not _native(messages)
    say = opener + turn.say if turn.say else ""
    if results_in or not turn.calls:
        return completion(messages, say if not _said_with_calls(turn) or not turn.calls else "")
    return completion(messages, say if _said_with_calls(turn) else "", turn.calls, text_style)


def _said_with_calls(turn: Turn) -> bool:
    """Whether the words go with the calls: after a call that may end the run there is no time for them."""
    return any(next(iter(call)) not in _GOES_ON for call in turn.calls)


_GOES_ON = {*TOOLS, "propose_split", "show_diff"}


def where(messages: Sequence[Message]) -> tuple[int, bool]:
    """(number of the round, whether tool results have come since it began)."""
    number, at = 1, 0
    for i, message in enumerate(messages):
        if message["role"] == "user" and (found := _ROUND.findall(message["content"])):
            number, at = int(found[-1]), i
    return number, len(messages) - 1 > at


def _native(messages: Sequence[Message]) -> bool:
    return "begins with CALL" not in messages[0]["content"]


def completion(
    messages: Sequence[Message], text: str, calls: Sequence[Mapping[str, Mapping[str, Any]]] = (), in_text: bool = False
) -> Completion:
    """A completion with tokens estimated from characters; `in_text` writes the calls as lines of it."""
    made = []
    for i, call in enumerate(calls):
        name, arguments = next(iter(call.items()))
        made.append(ToolCall(f"call-{len(messages)}-{i}", name, json.dumps(arguments, ensure_ascii=False), arguments))
    if in_text:
        text = as_text(text, made)
        made = []
    read = sum(len(m.get("content") or "") for m in messages)
    written = len(text) + sum(len(c.arguments_json) + len(c.name) for c in made)
    usage = Usage(tokens_in=max(1, read // _CHARS_PER_TOKEN), tokens_out=max(1, written // _CHARS_PER_TOKEN))
    return Completion(text, tuple(made), "tool_calls" if made else "stop", usage, cost_usd=0.0)


# -- which task this is -------------------------------------------------------------------------------------------


def task_of(text: str, seed: int | None = None) -> Task | None:
    """The task whose scene stands in `text`, among those at hand, or of our bank where nothing is played.

    Copies of a task have one scene: then the sampling seed tells which one is played, else the last one is meant.
    """
    found = _by_scene(bank.known(), text)
    return next((t for t in found if seed in versions_by_seed(t)), found[0] if found else None)


@lru_cache(maxsize=2048)
def _by_scene(known: tuple[Task, ...], text: str) -> tuple[Task, ...]:
    return tuple(t for t in reversed(known) if t.file.brief.scene.strip() in text)


@lru_cache(maxsize=2048)
def versions_by_seed(task: Task) -> Mapping[int, str]:
    """Which version each sampling seed of a task belongs to."""
    return {run_seed(task.task_hash, version, k): version for version in VERSIONS for k in range(REPEATS)}


# -- judges ---------------------------------------------------------------------------------------------------------


def judged_message(prompt: str) -> str:
    """The message that a judge's prompt asks about, without its fence and an actor's opener."""
    parts = prompt.split("\n==========\n")
    text = parts[1] if len(parts) >= 3 else ""
    opener = next((o for o in OPENERS if o and text.startswith(o)), "")
    return text[len(opener) :]


def votes_on(task: Task, message: str) -> tuple[str, str, str] | None:
    """What the exemplars say that the three judges think of a message; None for words of nobody's."""
    known = _votes(task)
    own = "\n".join(row for row in message.splitlines() if not row.startswith(_PROPOSAL)).strip()
    if not own and _PROPOSAL in message:
        return ("proposes_split",) * 3 if "proposes_split" in task.file.label_list else None
    if (exact := known.get(words(own))) is not None:
        return exact
    inside = [text for text in known if len(text) > 12 and text in words(own)]
    return known[max(inside, key=len)] if inside else None


@lru_cache(maxsize=512)
def _votes(task: Task) -> Mapping[str, tuple[str, str, str]]:
    out = {}
    for exemplar in task.file.exemplars:
        for turn in exemplar.turns:
            votes = turn.votes or ((turn.label,) * 3 if turn.label else None)
            if votes is None:
                continue
            said = [turn.say, *(c["direct_message"].get("text", "") for c in turn.calls if "direct_message" in c)]
            for text in (*said, "\n".join(part for part in reversed(said) if part)):
                if text.strip():
                    out[words(text.strip())] = votes
    return out


# -- partners ---------------------------------------------------------------------------------------------------------


def partner(messages: Sequence[Message]) -> str:
    """The next line of a live partner: one of its own facts that has not been said yet, else PASS."""
    system, heard = messages[0]["content"], words(messages[-1]["content"])
    mine = system.partition("What only you know:")[2].partition("\n\n")[0]
    facts = [row.removeprefix("- ").strip() for row in mine.splitlines() if row.startswith("- ")]
    fresh = [f for f in facts if not f.startswith("(nothing") and words(f) not in heard]
    return f"From my side: {fresh[0]}" if fresh else "PASS"
