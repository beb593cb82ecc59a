"""The words that the seats and the judges read: fixed texts in `prompts/`, and how a conversation is written down.

May import `cilab.collect.spec` (for hashes), `cilab.core` and its own folder. Calls no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from string import Template
from typing import Any

from cilab.collect.spec import digest
from cilab.teamwork.task import EVERYBODY, YOU, Label, Seat, TaskFile

NAMES = (
    "system_team",
    "system_alone",
    "ending_submit",
    "ending_deal",
    "ending_action",
    "tools_text",
    "partner",
    "judge",
    "judge_again",
)
#: Most characters of one message that others get to read; the whole of it is stored.
SHOWN = 6000
#: Under this heading stands the paragraph of an arm.
ARM_HEADING = "How this team works:"
NOTES = {
    "note": "Note: the turns above were played by a different model, {model}. You take over from here.",
    "check": "Note: the turns above were played by a different model, {model}. You take over from here. "
    "Check that work before you build on it.",
}


@lru_cache(maxsize=32)
def load(name: str) -> str:
    """A text as it lies in the package, with its `$` place holders."""
    return (resources.files("cilab.teamwork") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()


@lru_cache(maxsize=8)
def hashes(names: tuple[str, ...]) -> Mapping[str, str]:
    """Hash of each text by name, for the run id."""
    return {name: digest(load(name)) for name in names}


def fill(name: str, /, **values: Any) -> str:
    """A text with its place holders filled."""
    return Template(load(name)).substitute({k: str(v) for k, v in values.items()})


def shown(text: str) -> str:
    """As others read it: cut in the middle when it is very long, and later lines indented.

    The indent makes a line that looks like somebody else's stand out as part of this message.
    """
    if len(text) > SHOWN:
        half = SHOWN // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    return text.strip().replace("\n", "\n    ")


def line(seat: Seat, text: str) -> str:
    """One message of a seat: `Dana Reyes (tech lead): ...`."""
    return f"{seat.name} ({seat.role}): {shown(text)}"


def people(task: TaskFile, me: str) -> str:
    """Who sits at the table, and who can be reached by mail."""
    rows = [f"- {s.name}, {s.role}" + (f" [{s.id}]" if s.id != YOU else "") for s in task.seats]
    rows = [row + (" (you)" if s.id == me else "") for row, s in zip(rows, task.seats, strict=True)]
    rows += [f"- {c.name}, {c.role} [{c.id}], not at the table, reached by mail" for c in task.contacts]
    return "\n".join(rows)


def facts(task: TaskFile, version: str) -> str:
    """The facts that the brief of a version may name, as a list."""
    known = [f.text for f in task.facts if version == "alone" or f.holder in (EVERYBODY, YOU)]
    return "\n".join(f"- {text}" for text in known) or "- (none)"


def _ending(task: TaskFile, version: str, rounds: int) -> str:
    if task.deal is not None and version != "alone":
        return fill("ending_deal", rounds=rounds)
    if task.submit is not None or task.deal is not None:
        return fill("ending_submit", rounds=rounds)
    return fill("ending_action", rounds=rounds)


def system(task: TaskFile, version: str, rounds: int, text_tools: Sequence[Mapping[str, Any]] | None = None) -> str:
    """The system prompt of the model under test; with `text_tools`, how tools are called in plain text."""
    me = task.seat(YOU)
    common = {"name": me.name, "role": me.role, "rounds": rounds, "ending": _ending(task, version, rounds)}
    if version == "alone":
        out = fill("system_alone", **common)
    else:
        out = fill("system_team", n_seats=len(task.seats), people=people(task, YOU), **common)
    if text_tools:
        out += "\n\n" + fill("tools_text", tools="\n".join(_tool_line(t) for t in text_tools))
    return out


def _tool_line(tool: Mapping[str, Any]) -> str:
    f = tool["function"]
    properties = f["parameters"]["properties"]
    arguments = json.dumps({k: _kind(v) for k, v in properties.items()}, ensure_ascii=False)
    return f"- {f['name']} {arguments}: {f['description']}"


def _kind(schema: Mapping[str, Any]) -> str:
    words = " | ".join(schema["enum"]) if "enum" in schema else schema.get("type", "string")
    return f"{words}; {schema['description']}" if schema.get("description") else words


def brief(task: TaskFile, version: str, arm_text: str | None) -> str:
    """What the model under test reads first."""
    parts = [task.brief.scene]
    parts.append(task.brief.alone if version == "alone" else task.brief.team)
    extra = {"baseline": task.brief.baseline, "test": task.brief.test}.get(version, "")
    if extra:
        parts.append(extra)
    text = "\n\n".join(p.strip() for p in parts).replace("{facts}", facts(task, version))
    return f"{text}\n\n{ARM_HEADING} {arm_text.strip()}" if arm_text else text


def partner_system(task: TaskFile, seat: Seat) -> str:
    """The system prompt of a live partner, with its private facts."""
    known = {f.id: f.text for f in task.facts}
    mine = [known[i] for i in seat.facts] + [
        f.text for f in task.facts if f.holder == seat.id and f.id not in seat.facts
    ]
    common = [task.brief.scene.strip(), *(f.text for f in task.facts if f.holder == EVERYBODY)]
    return fill(
        "partner",
        name=seat.name,
        role=seat.role,
        n_seats=len(task.seats),
        manner=seat.manner,
        people=people(task, seat.id),
        common="\n".join(common),
        facts="\n".join(f"- {text}" for text in mine) or "- (nothing that the others do not know)",
    )


def judge(task: TaskFile, before: Sequence[str], message: str) -> str:
    """What a judge reads: the situation, the last lines, the message, the labels."""
    return fill(
        "judge",
        scene=task.brief.scene.strip(),
        before="\n".join(before[-8:]) or "(nothing yet)",
        name=task.seat(YOU).name,
        message=_fenced(message),
        labels=label_lines(task.label_list),
    )


def _fenced(message: str) -> str:
    text = message if len(message) <= SHOWN else message[: SHOWN // 2] + "\n[...]\n" + message[-SHOWN // 2 :]
    return "\n".join("= " + row if set(row.strip()) == {"="} else row for row in text.splitlines())


def label_lines(labels: Mapping[str, Label]) -> str:
    """The labels with their definitions, a line each."""
    return "\n".join(f"- {name}: {label.text}" for name, label in labels.items())


def judge_again(labels: Iterable[str]) -> str:
    """The second request, after an answer that is no label."""
    return fill("judge_again", labels=", ".join(labels))
