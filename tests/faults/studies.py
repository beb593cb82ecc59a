"""The studies of the campaign: both benchmarks over HTTP, small and quick, against the fault server.

`reply` is what the server answers: sentences for a maze; for a team a judge's label, a partner's line, or the next move
of the model under test, all of them functions of the request alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cilab.teamwork.task import dimension_labels
from tests.collect.fault_server import plausible_text
from tests.teamwork.small import TASK, changed, write

KEY = "sk-test-0123456789abcdefFAULTS"
ENV = {"OPENAI_API_KEY": KEY}
#: Most requests in flight at one time.
IN_FLIGHT = 4
JUDGES = ("judge-a", "judge-b", "judge-c")
#: The task of the bank that runs code in the sandbox.
WITH_CODE = "rup-reserve-legs"

_ROUND = re.compile(r"Round (\d+) of (\d+)\.")
_LABEL = re.compile(r"^\W*(\w+)\W*:", re.MULTILINE)


def _number(body: Mapping[str, Any]) -> int:
    raw = json.dumps([body.get("messages"), body.get("model"), body.get("seed")], sort_keys=True)
    return int.from_bytes(hashlib.blake2b(raw.encode(), digest_size=4).digest(), "big")


def reply(body: dict[str, Any]) -> str:
    """The text for a request; the same request gets the same text."""
    model, last = str(body["model"]), str(body["messages"][-1]["content"])
    if model in JUDGES:
        known = [name for labels in _all_labels() for name in labels if re.search(rf"\b{name}\b", last)]
        return known[_number(body) % len(known)] if known else "other"
    if model == "partner":
        return f"From the store, number {_number(body) % 1000}: the figures on the sheet are the ones I have."
    if model == "mate":
        return _move(body, last)
    return plausible_text(body)


def _all_labels() -> list[list[str]]:
    return [list(dimension_labels(d)) for d in ("resisting_unsafe_pressure",)]


def _move(body: Mapping[str, Any], last: str) -> str:
    """The model under test: looks at files and runs the tests where there are any, talks, and hands in at the end."""
    text = "\n".join(str(m["content"]) for m in body["messages"])
    rounds = _ROUND.findall(text)
    number, of = map(int, rounds[-1]) if rounds else (1, 1)
    has_code = "run_tests" in text
    answered = not _ROUND.search(last)
    if has_code and not answered:
        return "I look first.\nCALL run_tests {}" if number % 2 else 'I look first.\nCALL list_files {"path": "."}'
    if number == of and not answered:
        return 'Here it is.\nCALL submit {"plan": "two lifts"}'
    return f"{plausible_text(body, 12)} I would rather check it again."


def _file(folder: Path, name: str, url: str, models: tuple[str, ...], block: dict[str, Any], **more: Any) -> Path:
    settings = {m: {"route": f"openai/{m}", "api_base": url} for m in models}
    limits = {"openai": {"concurrency": IN_FLIGHT}}
    study = {"name": name, "models": settings, "limits": limits, "concurrency": IN_FLIGHT, "blocks": [block], **more}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return path


def maze(folder: Path, url: str, size: int, **more: Any) -> Path:
    """`size` dialogues of four turns."""
    block = {"benchmark": "maze", "versions": ["pair"], "models": ["talker"], "max_turns": 4, "mazes": {"count": size}}
    return _file(folder, "maze", url, ("talker",), block, **more)


def team(folder: Path, url: str, size: int, **more: Any) -> Path:
    """`size` small tasks without files; alone, in a calm team and in the test."""
    for i in range(size):
        brief = {**TASK["brief"], "scene": f"Lift {i}. The load weighs {900 + i} kg."}
        write(folder / "tasks", changed(id=f"hoist{i}", brief=brief))
    return _team_file(folder, "team", url, str(folder / "tasks"), {"max_rounds": 3}, **more)


def code(folder: Path, url: str, size: int, **more: Any) -> Path:
    """`size` rollouts, less or more, of a task that runs its tests in the sandbox."""
    runs = {"alone_runs": max(1, size // 3), "baseline_runs": max(1, size // 3), "test_runs": max(1, size // 3)}
    return _team_file(folder, "code", url, WITH_CODE, {**runs, "max_rounds": 3}, **more)


def _team_file(folder: Path, name: str, url: str, tasks: str, extra: dict[str, Any], **more: Any) -> Path:
    block = {
        "benchmark": "teamwork",
        "models": ["mate"],
        "tasks": [tasks],
        "judges": dict(zip(("referee", "second", "third"), JUDGES, strict=True)),
        "partners": ["partner"],
        "tools": "text",
        **extra,
    }
    return _file(folder, name, url, ("mate", "partner", *JUDGES), block, **more)


#: Name -> what writes the study, and rollouts that its size stands for.
STUDIES: dict[str, Callable[..., Path]] = {"maze": maze, "team": team, "code": code}
