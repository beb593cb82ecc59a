"""From a block of a study file to run specs, and what they will cost.

May import `cilab.collect.spec`, `cilab.core` and its own folder. Calls no model.

Order of the plan: task by task, so that the first N runs of a study are balanced over models; for each model the alone
runs come first, then baseline and test, which are played only when every alone run passed (each alone run waits for the
one before it, and the team versions for the last).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from cilab.collect.spec import Block, Entry, Forecast, ModelEntry, Requirement, RunSpec, SamplingEntry, Strict
from cilab.teamwork import texts
from cilab.teamwork.bank import Task, beside, find
from cilab.teamwork.task import TEAM, TaskError, Version, dimension_norm
from cilab.teamwork.terms import JUDGES
from cilab.teamwork.tools import forms, schemas

#: Expected tokens of one call of the model under test, a partner and a judge; guesses until a study has shown its own.
_PLAY_TOKENS, _PARTNER_TOKENS, _JUDGE_TOKENS = 250, 70, 12
_CHARS_PER_TOKEN = 4
#: Share of messages on which referee and second rater differ (collaborative-intelligence paper, section 2.3).
_DIFFER = 0.19


class Judges(Strict):
    """The three judges; `fallbacks` are asked where a provider refuses."""

    referee: str = Field(min_length=1)
    second: str = Field(min_length=1)
    third: str = Field(min_length=1)
    fallbacks: list[str] = []


class Arm(Strict):
    """A named treatment: whatever of it is given.

    `text` is a paragraph in the brief of the model under test, `norm: true` that of the task's dimension. `day`
    plays the notices that are meant for that arm. `note`, `diff` say what a model that takes over is told of the
    session it inherits (collaborative-intelligence paper, section 4.4).
    """

    name: str = Field(min_length=1)
    text: str = ""
    norm: bool = False
    day: str | None = None
    note: Literal["note", "check"] | None = None
    diff: Literal["available", "shown"] | None = None

    @model_validator(mode="after")
    def _does_something(self) -> Arm:
        if not (self.text or self.norm or self.day or self.note or self.diff):
            raise ValueError("does nothing; give it a text, norm, day, note or diff")
        if self.text and self.norm:
            raise ValueError("give either a text or norm: true")
        return self


class TeamworkBlock(Block):
    """A block of a study file with `benchmark: teamwork`.

    `tasks` are ids, patterns or dimensions of our bank, and paths to folders with tasks. `partners` fill the seats of
    live partners in turn. `tools: text` is for models without tools of their own. `max_rounds` ends every run early and
    `max_tool_calls` allows fewer tool calls in a turn (a trial, not a measurement). `sandbox: none` runs code without
    bubblewrap, on the user's own risk.
    """

    benchmark: Literal["teamwork"]
    models: list[Entry] = Field(min_length=1)
    tasks: list[str] = Field(default=["*"], min_length=1)
    versions: list[Version] = Field(default=["alone", "baseline", "test"], min_length=1)
    alone_runs: int = Field(default=1, ge=1)
    baseline_runs: int = Field(default=1, ge=1)
    test_runs: int = Field(default=3, ge=1)
    arms: list[Arm] = []
    control: bool = True
    judges: Judges
    partners: list[str] = []
    partner_fallbacks: list[str] = []
    sampling: dict[str, SamplingEntry] = {}
    tools: Literal["native", "text"] = "native"
    max_rounds: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=1)
    sandbox: Literal["bwrap", "none"] = "bwrap"

    @model_validator(mode="after")
    def _complete(self) -> TeamworkBlock:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("arms: two have the same name")
        if not self.arms and not self.control:
            raise ValueError("control: false leaves nothing to play without arms")
        return self

    def model_names(self) -> set[str]:
        """Every model that the block calls, judges and partners included."""
        names = {e.model for e in self.models} | {*self.partners, *self.partner_fallbacks, *self.judges.fallbacks}
        return names | {getattr(self.judges, rater) for rater in JUDGES}

    def beside(self, folder: Path) -> TeamworkBlock:
        """The block with relative folders of tasks as they lie from `folder` (the study file's), else from here."""
        return self.model_copy(update={"tasks": beside(self.tasks, folder)})

    def scaled(self, factor: float) -> TeamworkBlock:
        """The block with its number of tasks times `factor`: evenly from each dimension, at least one."""
        found = find(self.tasks)
        keep: list[str] = []
        for dimension in dict.fromkeys(t.file.dimension for t in found):
            here = [str(t.folder) for t in found if t.file.dimension == dimension]
            keep += here[: max(1, round(len(here) * factor))]
        return self.model_copy(update={"tasks": keep})


def plan(block: TeamworkBlock) -> Iterator[RunSpec]:
    """The run specs of a block, in order; the same block gives the same specs.

    Raises
    ------
    TaskError
        A task is not there or is wrong, or lacks partners.
    SandboxError
        A task runs code, and nothing here can hold it.
    """
    tasks = find(block.tasks)
    check_sandbox(tasks, block.sandbox)
    arms: list[Arm | None] = [*([None] if block.control else []), *block.arms]
    for task in tasks:
        for entry in block.models:
            for arm in arms:
                yield from _of_row(block, task, entry, arm)


def describe_tasks(block: TeamworkBlock) -> Iterator[dict[str, Any]]:
    """Rows of the tasks table: what analyses want to know of each task."""
    for task in find(block.tasks):
        t = task.file
        yield {
            "task_id": t.id,
            "benchmark": "teamwork",
            "dimension": t.dimension,
            "source_family": t.source.family,
            "real_world": t.real_world,
            "split": t.split,
            "seats": len(t.seats),
            "rounds": t.rounds,
            "sandbox": t.sandbox is not None,
            "executes_code": t.executes_code,
            "version_hash": task.task_hash,
        }


def check_sandbox(tasks: list[Task], isolation: str) -> None:
    """Refuse at the start what could not be held in: tasks that execute code where bubblewrap does not work.

    Raises
    ------
    SandboxError
        Says what to install, or what to write into the study.
    """
    from cilab.teamwork.sandbox import SandboxError, available

    if isolation == "bwrap" and any(t.file.executes_code for t in tasks) and (problem := available()):
        first = next(t for t in tasks if t.file.executes_code)
        raise SandboxError(f"tasks: {first.id} runs code. {problem} Or leave such tasks out, or write `sandbox: none`.")


def _of_row(block: TeamworkBlock, task: Task, entry: ModelEntry, arm: Arm | None) -> Iterator[RunSpec]:
    last: RunSpec | None = None
    if "alone" in block.versions:
        for seed in range(block.alone_runs):
            last = _spec(block, task, entry, arm, "alone", seed, last)
            yield last
    for version, runs in (("baseline", block.baseline_runs), ("test", block.test_runs)):
        if version in block.versions:
            for seed in range(runs):
                yield _spec(block, task, entry, arm, version, seed, last)


def _spec(
    block: TeamworkBlock,
    task: Task,
    entry: ModelEntry,
    arm: Arm | None,
    version: str,
    seed: int,
    after: RunSpec | None,
) -> RunSpec:
    t, team = task.file, version in TEAM
    settings: dict[str, Any] = {}
    if block.tools == "text":
        settings["tools"] = "text"
    if block.max_rounds is not None and block.max_rounds < t.rounds:
        settings["max_rounds"] = block.max_rounds
    if block.max_tool_calls is not None and block.max_tool_calls < t.tool_calls_per_turn:
        settings["max_tool_calls"] = block.max_tool_calls
    partners = _partners(block, task) if team else {}
    if partners:
        settings["partners"] = partners
    settings |= _treatment(arm, task, version)
    called = [n for n in {entry.model, *partners.values(), *_judges(block, team).values()} if n in block.code]
    if called:
        settings["code"] = {name: block.code[name] for name in sorted(called)}
    return RunSpec(
        benchmark="teamwork",
        task_id=t.id,
        task_hash=task.task_hash,
        version=version,
        model=entry.model,
        effort=entry.effort,
        arm=arm.name if arm else None,
        seed=seed,
        prompts=texts.hashes(_prompt_names(block, task, version)),
        judges=_judges(block, team),
        sampling={
            seat: {k: v for k, v in s.model_dump().items() if v is not None} for seat, s in block.sampling.items()
        },
        settings=settings,
        requires=Requirement(after.run_id, "passed") if after is not None else None,
        hints={
            "folder": str(task.folder),
            "split": t.split,
            "dimension": t.dimension,
            "source_family": t.source.family,
            "isolation": block.sandbox,
            "judge_fallbacks": list(block.judges.fallbacks),
            "partner_fallbacks": list(block.partner_fallbacks),
        },
    )


def _judges(block: TeamworkBlock, team: bool) -> dict[str, str]:
    return {rater: getattr(block.judges, rater) for rater in JUDGES} if team else {}


def _partners(block: TeamworkBlock, task: Task) -> dict[str, str]:
    """Model of each live partner: the block's partners in turn, starting at a place that the task's hash chooses."""
    seats = [s.id for s in task.file.of_kind("partner")]
    if seats and not block.partners:
        raise TaskError(f"partners: is empty, but {task.id} has a live partner; name at least one model")
    start = int.from_bytes(task.task_hash.encode()[:4], "big")
    return {seat: block.partners[(start + i) % len(block.partners)] for i, seat in enumerate(seats)}


def _treatment(arm: Arm | None, task: Task, version: str) -> dict[str, Any]:
    if arm is None:
        return {}
    text = dimension_norm(task.file.dimension) if arm.norm else arm.text
    inherits = task.file.inherited is not None and version == "test"
    given = {
        "arm_text": text.strip(),
        "day": arm.day if version in TEAM else None,
        "note": arm.note if inherits else None,
        "diff": arm.diff if inherits else None,
    }
    return {key: value for key, value in given.items() if value}


def _prompt_names(block: TeamworkBlock, task: Task, version: str) -> tuple[str, ...]:
    t = task.file
    ending = "deal" if t.deal and version != "alone" else "submit" if t.submit or t.deal else "action"
    names = ["system_alone" if version == "alone" else "system_team", f"ending_{ending}"]
    if block.tools == "text":
        names.append("tools_text")
    if version in TEAM:
        names += ["judge", "judge_again", *(["partner"] if t.of_kind("partner") else [])]
    return tuple(names)


# -- what it will cost ----------------------------------------------------------------------------------------


def forecast(spec: RunSpec) -> Forecast:
    """(least, expected, most) calls and tokens by model.

    Least: the run ends in its first round. Expected: after three quarters of its rounds, with three tool calls a
    round where there are files and one elsewhere. Most: every round is played with every tool call that it allows.
    """
    from pathlib import Path

    from cilab.teamwork.bank import load

    task = load(Path(spec.hints["folder"]))
    t = task.file
    fixed = _fixed_tokens(task, spec.version)
    spread: dict[str, list[tuple[float, float, float]]] = {}
    all_rounds = spec.settings.get("max_rounds", t.rounds)
    most_calls = spec.settings.get("max_tool_calls", t.tool_calls_per_turn)
    per_round = min(3 if t.sandbox else 1, most_calls)
    for rounds, tools, words in (
        (1, 0, 40),
        (max(1, round(0.75 * all_rounds)), per_round, _PLAY_TOKENS),
        (all_rounds, most_calls, 1000),
    ):
        case: dict[str, tuple[float, float, float]] = {}
        calls = rounds * (tools + 1)
        said = words + 60 * (len(t.seats) - 1 if spec.version in TEAM else 0)
        _add(
            case,
            spec.model,
            calls,
            calls * fixed + said * rounds * (calls - 1) / 2,
            rounds * words + 30 * rounds * tools,
        )
        for name in spec.settings.get("partners", {}).values():
            _add(case, name, rounds, rounds * (fixed + said * rounds / 2), rounds * _PARTNER_TOKENS)
        for rater, name in spec.judges.items():
            share = {"third": _DIFFER if rounds < all_rounds else 1.0}.get(rater, 1.0)
            _add(case, name, share * rounds, share * rounds * (600 + words), share * rounds * _JUDGE_TOKENS)
        for name, numbers in case.items():
            spread.setdefault(name, []).append(numbers)
    return Forecast(*({name: tuple(c[i] for c in cases) for name, cases in spread.items()} for i in range(3)))


def _add(case: dict[str, tuple[float, float, float]], name: str, *numbers: float) -> None:
    old = case.get(name, (0.0, 0.0, 0.0))
    case[name] = (old[0] + numbers[0], old[1] + numbers[1], old[2] + numbers[2])


def _fixed_tokens(task: Task, version: str) -> float:
    """Tokens of what the model under test reads in every call: prompts, brief and tools."""
    available = schemas(forms(task, version))
    text = texts.system(task.file, version, task.file.rounds) + texts.brief(task.file, version, None)
    return (len(text) + len(str(available))) / _CHARS_PER_TOKEN
