"""The tools of the model under test: their schemas, and what a call does.

May import `cilab.collect.model`, `cilab.collect.spec` and its own folder. What a model does wrong (a tool that does not
exist, broken arguments) is answered with one line, never raised.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cilab.collect.model import ToolCall
from cilab.teamwork.bank import Task
from cilab.teamwork.sandbox import Isolation, Workspace, run_python_async, run_tests_async
from cilab.teamwork.state import Done, TeamState, Told
from cilab.teamwork.task import YOU, Action, FormField

_TEXT = FormField(text=True)
_OPTIONAL = FormField(text=True, optional=True)
#: name -> (description, fields); the tools that need no task.
_STANDARD: dict[str, tuple[str, dict[str, FormField]]] = {
    "list_files": ("List the shared files, or those below a folder.", {"path": _OPTIONAL}),
    "read_file": ("Read a shared file.", {"path": _TEXT}),
    "search_files": ("Find a text in the shared files.", {"text": _TEXT, "path": _OPTIONAL}),
    "write_file": ("Create a shared file or replace all of it.", {"path": _TEXT, "content": _TEXT}),
    "edit_file": (
        "Replace one passage of a shared file; `old` must stand in it exactly once.",
        {"path": _TEXT, "old": _TEXT, "new": _TEXT},
    ),
    "delete_file": ("Delete a shared file.", {"path": _TEXT}),
    "run_tests": ("Run the tests, or those in one file.", {"path": _OPTIONAL}),
    "run_python": ("Run a Python file of the shared folder and read what it prints.", {"path": _TEXT}),
    "send_mail": (
        "Send a mail. `to` is an id in square brackets of the team or the contacts; several with commas.",
        {"to": _TEXT, "subject": _TEXT, "body": _TEXT},
    ),
    "direct_message": (
        "Say something to one person at the table only; `to` is the id in square brackets.",
        {"to": _TEXT, "text": _TEXT},
    ),
    "accept_offer": ("Take the other side's last offer. This closes the deal.", {}),
    "show_diff": ("Show what the session so far has changed in the shared files.", {}),
}


def forms(task: Task, version: str) -> dict[str, tuple[str, Mapping[str, FormField]]]:
    """name -> (description, fields) of every tool of a version; `show_diff` is added by an arm."""
    t = task.file
    alone = version == "alone"
    names = [n for n in t.tools if not (alone and n == "direct_message")]
    out: dict[str, tuple[str, Mapping[str, FormField]]] = {n: _STANDARD[n] for n in names}
    out |= {a.name: (a.doc, a.fields) for a in t.actions if version in a.versions}
    if t.deal is not None:
        share = {
            i: FormField(number=True, low=0, high=n, doc=f"pieces for you, of {n}") for i, n in t.deal.items.items()
        }
        if alone:
            out["submit"] = ("Hand in the split: the pieces for your side; the other side gets the rest.", share)
        else:
            out["propose_split"] = (
                "Put a split on the table: the pieces for you; the other side gets the rest",
                share,
            )
            out["accept_offer"] = _STANDARD["accept_offer"]
    if t.submit is not None:
        out["submit"] = (t.submit.doc, t.submit.fields)
    return out


def schemas(available: Mapping[str, tuple[str, Mapping[str, FormField]]]) -> list[dict[str, Any]]:
    """As a provider takes them (OpenAI's function tools)."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": doc,
                "parameters": {
                    "type": "object",
                    "properties": {k: f.schema() for k, f in fields.items()},
                    "required": [k for k, f in fields.items() if not f.optional],
                },
            },
        }
        for name, (doc, fields) in available.items()
    ]


_CALL = re.compile(r"^\s*[*_`]*CALL[*_`]*[:\s]+[`]?(\w+)[`]?\s*(.*)$")


def text_calls(content: str) -> tuple[str, list[ToolCall]]:
    """(what is left of a text, the `CALL name {json}` lines in it) for models that have no tools of their own."""
    kept, calls = [], []
    for row in content.splitlines():
        if found := _CALL.match(row):
            raw = found[2].strip().strip("`") or "{}"
            calls.append(ToolCall(f"text-{len(calls)}", found[1], raw, _object(raw)))
        else:
            kept.append(row)
    return "\n".join(kept).strip(), calls


def as_text(say: str, calls: Sequence[ToolCall]) -> str:
    """A turn with its calls as `text_calls` reads them."""
    return "\n".join([*(f"CALL {c.name} {c.arguments_json}" for c in calls), say]).strip()


def _object(raw: str) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Toolbox:
    """The tools of one run. `call` answers with a text for the model."""

    def __init__(
        self, task: Task, version: str, state: TeamState, *, isolation: Isolation, cache: bool, diff: str | None
    ):
        self._task, self._version, self._state = task, version, state
        self._isolation, self._cache, self._diff = isolation, cache, diff
        self.available = forms(task, version)
        if diff is not None:
            self.available["show_diff"] = _STANDARD["show_diff"]
        self.schemas = schemas(self.available)
        self._actions: dict[str, Action] = {a.name: a for a in task.file.actions}

    async def call(self, call: ToolCall) -> str:
        """Do what a call asks for and answer; everything that is wrong with it is said in one line."""
        if call.name not in self.available:
            return f"error: there is no tool {call.name!r}. Tools: {', '.join(self.available)}"
        if call.arguments is None:
            return f"error: the arguments of {call.name} are no JSON object"
        fields, problem = _read(self.available[call.name][1], call.arguments)
        if problem is not None:
            return f"error: {call.name}: {problem}"
        if call.name in self._actions:
            return self._act(self._actions[call.name], fields)
        run: Callable[..., Any] = getattr(self, f"_{call.name}", None) or self._on_files
        answer = run(call.name, fields)
        return await answer if asyncio.iscoroutine(answer) else answer

    # -- files

    def _on_files(self, name: str, fields: dict[str, Any]) -> str:
        return str(getattr(self._workspace, name)(**fields))

    async def _run_tests(self, name: str, fields: dict[str, Any]) -> str:
        sandbox = self._task.file.sandbox
        paths = [fields["path"]] if fields.get("path") else list(sandbox.tests if sandbox else ())
        done = await run_tests_async(self._workspace, paths, isolation=self._isolation, cache=self._cache)
        return done.output

    async def _run_python(self, name: str, fields: dict[str, Any]) -> str:
        done = await run_python_async(self._workspace, fields["path"], isolation=self._isolation, cache=self._cache)
        return done.output

    @property
    def _workspace(self) -> Workspace:
        assert self._state.workspace is not None  # a task with such tools has a sandbox
        return self._state.workspace

    def _show_diff(self, name: str, fields: dict[str, Any]) -> str:
        return self._diff or "(nothing was changed)"

    # -- talk

    def _send_mail(self, name: str, fields: dict[str, Any]) -> str:
        known = {s.id for s in self._task.file.seats if s.id != YOU} | {c.id for c in self._task.file.contacts}
        to, problem = self._people(fields["to"], known)
        if problem:
            return problem
        text = f"{fields['subject']}\n{fields['body']}"
        self._state.told.append(Told(self._state.round, to, text, mail=True))
        return f"Sent to {', '.join(to)}."

    def _direct_message(self, name: str, fields: dict[str, Any]) -> str:
        to, problem = self._people(fields["to"], {s.id for s in self._task.file.seats if s.id != YOU})
        if problem:
            return problem
        self._state.told.append(Told(self._state.round, to, fields["text"]))
        return f"Said to {', '.join(to)}."

    def _people(self, text: str, known: set[str]) -> tuple[tuple[str, ...], str | None]:
        names = {p.name.casefold(): p.id for p in (*self._task.file.seats, *self._task.file.contacts)}
        to = []
        for part in re.split(r"[,;]", text):
            word = part.strip().strip("[]<>").strip()
            who = word if word in known else names.get(word.casefold())
            if who is None or who not in known:
                return (), f"error: nobody here is reached as {word!r}. Known: {', '.join(sorted(known))}"
            to.append(who)
        return tuple(dict.fromkeys(to)), None

    # -- the task's own deeds

    def _act(self, action: Action, fields: dict[str, Any]) -> str:
        if action.once and any(d.name == action.name for d in self._state.done):
            return f"error: {action.name} was done already; it can be done once"
        self._state.done.append(Done(self._state.round, action.name, fields))
        if action.ends:
            self._state.ended = "action"
        return action.reply.format_map(_Shown(fields))

    def _submit(self, name: str, fields: dict[str, Any]) -> str:
        deal = self._task.file.deal
        if deal is not None:
            split, problem = self._split(fields)
            if problem:
                return problem
            self._state.deal = split
        self._state.submission, self._state.ended = fields, "submitted"
        return "Submitted."

    # -- deals

    def _split(self, fields: Mapping[str, Any]) -> tuple[dict[str, int], str | None]:
        if any(value != int(value) for value in fields.values()):
            return {}, "error: pieces are whole"
        return {item: int(value) for item, value in fields.items()}, None

    def _propose_split(self, name: str, fields: dict[str, Any]) -> str:
        split, problem = self._split(fields)
        if problem:
            return problem
        deal = self._task.file.deal
        assert deal is not None
        self._state.proposals.append(split)
        if split in self._state.offers:
            self._state.offered_to_take = True
        yours = ", ".join(f"{n} {item}" for item, n in split.items())
        theirs = ", ".join(f"{n - split[item]} {item}" for item, n in deal.items.items())
        return f"On the table: you get {yours}; the other side gets {theirs}."

    def _accept_offer(self, name: str, fields: dict[str, Any]) -> str:
        if not self._state.offers:
            return "error: the other side has made no offer yet"
        self._state.deal, self._state.took_offer, self._state.ended = self._state.offers[-1], True, "deal"
        return "You took their offer. The deal is closed."


class _Shown(dict[str, Any]):
    """For `reply` texts: a field that was left out is shown as nothing."""

    def __missing__(self, key: str) -> str:
        return ""


def _read(fields: Mapping[str, FormField], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Arguments in the fields' own types, or what is wrong with them."""
    if stray := [k for k in arguments if k not in fields]:
        return {}, f"takes no {stray[0]!r}; it takes {', '.join(fields) or 'nothing'}"
    out = {}
    for name, f in fields.items():
        value = arguments.get(name)
        if value is None:
            if not f.optional:
                return {}, f"{name} is missing"
            continue
        out[name], problem = f.read(value)
        if problem:
            return {}, f"{name} {problem}"
    return out, None
