"""Malformed tasks of the user's own, for `cilab tasks check`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from tests.corpus.driver import Case
from tests.teamwork.small import TASK, changed


def edited(*steps: Any, value: Any) -> dict[str, Any]:
    """The small task with one value put at a path."""
    task = copy.deepcopy(TASK)
    at: Any = task
    for step in steps[:-1]:
        at = at[step]
    at[steps[-1]] = value
    return task


def without(*steps: Any) -> dict[str, Any]:
    """The small task without what stands at a path."""
    task = copy.deepcopy(TASK)
    at: Any = task
    for step in steps[:-1]:
        at = at[step]
    del at[steps[-1]]
    return task


def _case(name: str, task: Mapping[str, Any] | str | bytes, *words: str, **files: str | bytes) -> Case:
    text = task if isinstance(task, str | bytes) else yaml.safe_dump(dict(task), allow_unicode=True)
    content = {"mine/hoist/task.yaml": text} | {f"mine/hoist/{k}": v for k, v in files.items()}
    return Case(f"task: {name}", ("tasks", "check", "mine"), ("task.yaml", *words), content)


_TEST = ("scripts", "test", "lead", "states")
CASES = [
    _case("an empty file", "", "no task file"),
    _case("a list", "- a\n", "no task file"),
    _case("an open bracket", "id: [", "no YAML"),
    _case("bytes that are no UTF-8", b"id: \xff\xfe\n", "cannot be read"),
    _case("a tag of Python's", "id: !!python/object/apply:os.system [echo hello]\n", "no YAML"),
    _case("a key given twice", yaml.safe_dump(TASK) + "\nid: hoist\n", "a second time"),
    _case("no id", without("id"), "id", "missing"),
    _case("an id with a space", changed(id="my hoist"), "id"),
    _case("an id that leads out of the folder", changed(id="../hoist"), "id"),
    _case("an id that is not the folder's", changed(id="crane"), "hoist", "crane"),
    _case("an unknown key", changed(roundz=4), "roundz", "unknown key", "rounds"),
    _case("a dimension that is none", changed(dimension="resisting_unsafe"), "dimension", "resisting_unsafe"),
    _case("no source", without("source"), "source", "missing"),
    _case("a source without facts", edited("source", "facts", value=[]), "source.facts"),
    _case("a source without a licence", without("source", "licence"), "source.licence", "missing"),
    _case("two rounds", changed(rounds=2), "rounds"),
    _case("rounds that are a text", changed(rounds="four"), "rounds"),
    _case("rounds beyond reason", changed(rounds=10**9), "rounds"),
    _case("no seats", changed(seats=[]), "seats"),
    _case("nobody under test", edited("seats", 0, "kind", value="partner"), "under test"),
    _case("a kind of seat that is none", edited("seats", 1, "kind", value="robot"), "seats[1].kind", "robot"),
    _case("two seats of one id", edited("seats", 2, "id", value="lead"), "lead"),
    _case("a seat without a name", without("seats", 1, "name"), "seats[1].name", "missing"),
    _case("a fact that nobody gave", edited("seats", 2, "facts", value=["weather"]), "weather"),
    _case("a fact held by nobody", edited("facts", 1, "holder", value="nobody"), "nobody"),
    _case("two facts of one id", edited("facts", 1, "id", value="limit"), "limit"),
    _case("a brief without facts", edited("brief", "alone", value="Decide."), "brief.alone", "{facts}"),
    _case("a brief without a scene", without("brief", "scene"), "brief.scene", "missing"),
    _case("a tool that is none", changed(tools=["send_fax"]), "tools", "send_fax"),
    _case("a tool for files without a sandbox", changed(tools=["read_file"]), "read_file", "sandbox"),
    _case("an action that has the name of a tool", edited("actions", 0, "name", value="send_mail"), "send_mail"),
    _case("a field without a kind", edited("submit", "fields", "plan", value={}), "plan"),
    _case("a field with a range the wrong way round",
          edited("submit", "fields", "weight", value={"number": True, "low": 9, "high": 1}), "weight"),
    _case("a choice of nothing", edited("submit", "fields", "plan", value={"one_of": []}), "plan"),
    _case("no end", changed(submit=None, check={"passes": [{"deed": "lifts_it"}]}), "end"),
    _case("no script for the test", without("scripts", "test"), "scripts"),
    _case("a script of somebody else", edited("scripts", "test", value={"boss": {"rounds": {1: "x"}}}), "boss"),
    _case("a script that opens nowhere", edited("scripts", "test", "lead", "opens", value="lost"), "lost"),
    _case("a label that is none", edited(*_TEST, "pushes", "next", value={"complys": "does_it", "default": "again"}),
          "complys", "complies"),
    _case("a state that leads nowhere", edited(*_TEST, "pushes", "next", value={"default": "lost"}), "lost"),
    _case("a state without a default", edited(*_TEST, "pushes", "next", value={"complies": "does_it"}), "default"),
    _case("a state that nothing leads to", edited(*_TEST, "lost", value={"say": "Nobody hears me."}), "lost"),
    _case("a deed without a label of its own", edited(*_TEST, "pushes", "next", value={"default": "does_it"}), "deed"),
    _case("a notice after the end", changed(notices=[{"round": 9, "text": "late"}]), "notices[0].round"),
    _case("a notice of round 0", changed(notices=[{"round": 0, "text": "early"}]), "notices[0].round"),
    _case("no check", without("check"), "check", "missing"),
    _case("a check that asks nothing", edited("check", "passes", value=[]), "check"),
    _case("a check of two questions at once",
          edited("check", "passes", value=[{"deed": "lifts_it", "acted": {"name": "call_off"}}]), "check"),
    _case("a check of a deed that nobody does", edited("check", "passes", value=[{"deed": "flies"}]), "flies"),
    _case("a check of a field that is not handed in",
          edited("check", "passes", value=[{"submitted": {"fields": {"plam": {"equals": 1}}}}]), "plam", "plan"),
    _case("a check of a person that is not there",
          edited("check", "passes", value=[{"told": {"who": ["boss"]}}]), "boss"),
    _case("evidence that is none", edited("check", "evidence", value={"was_nice": {"deed": "lifts_it"}}), "was_nice"),
    _case("no exemplars", changed(exemplars=[]), "exemplars"),
    _case("two exemplars of one name", edited("exemplars", 1, "name", value="a"), "a"),
    _case("an exemplar that calls what is not there",
          edited("exemplars", 0, "turns", 0, "calls", value=[{"sumbit": {}}]), "sumbit", "submit"),
    _case("an exemplar with a label that is none", edited("exemplars", 2, "turns", 0, "label", value="object"),
          "exemplars.c"),
    _case("an exemplar that expects what is no mode", edited("exemplars", 4, "expect", value="lazy"), "lazy"),
    _case("an exemplar whose turns are a text", edited("exemplars", 0, "turns", value="talks"), "exemplars[0].turns"),
    _case("no adversarial exemplar", changed(exemplars=TASK["exemplars"][:-1]), "adversarial"),
    _case("tests that are not there", changed(sandbox={"tests": ["test_a.py"]}), "sandbox.tests"),
    _case("a sandbox path that leads out", changed(sandbox={"tests": ["../../etc/passwd"]}), "sandbox"),
    _case("a difficulty that is no number", changed(difficulty=float("nan")), "difficulty"),
    _case("a deal where none belongs", changed(deal={"with_seat": "lead"}), "deal"),
    _case("a takeover without a session", changed(dimension="taking_over"), "inherited"),
    Case("task: a folder without tasks", ("tasks", "check", "mine"), ("mine",), {"mine/readme.txt": "soon"}),
    Case("task: a folder that is not there", ("tasks", "check", "./nowhere"), ("nowhere",)),
    Case("task: a misspelt id", ("tasks", "check", "rup-potasium-rate"), ("rup-potassium-rate",)),
    Case("task: a pattern that fits nothing", ("tasks", "list", "zzz*"), ("zzz*",)),
    Case("task: a sandbox that is none of ours", ("tasks", "check", "--sandbox", "docker"), ("--sandbox docker",)),
    Case("task: files that are no text", ("tasks", "check", "mine"), ("b.bin",),
         {"mine/hoist/task.yaml": yaml.safe_dump(changed(sandbox={})), "mine/hoist/files/b.bin": b"\xff\xfe\x00"}),
    Case("task: files without a sandbox", ("tasks", "check", "mine"), ("sandbox",),
         {"mine/hoist/task.yaml": yaml.safe_dump(TASK), "mine/hoist/files/a.txt": "a"}),
]  # fmt: skip
