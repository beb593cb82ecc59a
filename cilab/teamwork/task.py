"""The task file: what a teamwork task is made of, and whether it holds together.

May import `cilab.core`, `cilab.collect.spec` and its own folder. Reads task folders; calls no model
and runs no code. `docs/writing-tasks.md` explains every key to those who write tasks.

A task is a folder with `task.yaml`, and for a sandbox `files/` (every version) and `files.<version>/` (laid over it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from cilab.collect.spec import Strict
from cilab.core.errors import CilabError, nearest
from cilab.teamwork.terms import DIMENSIONS, EVIDENCE, VERSIONS

Version = Literal["alone", "baseline", "test"]
TEAM: tuple[Version, ...] = ("baseline", "test")
FAMILIES = (
    "regulators_papers",
    "clinical_cases",
    "accident_reports",
    "coding",
    "negotiations",
    "team_decisions",
    "exam_problems",
)
#: Families that are real records (collaborative-intelligence paper, table 1).
REAL_WORLD = ("regulators_papers", "clinical_cases", "accident_reports")
STAGES = ("missed", "gave_in", "stopped_short")
#: Every task file of ours carries it: who trains on our tasks can find out.
CANARY = "cilab-teamwork-canary 6f1d6b0e-8f4b-4c39-9a53-2d7c1e50b1c8"

FILE_TOOLS = ("list_files", "read_file", "search_files", "write_file", "edit_file", "delete_file")
RUN_TOOLS = ("run_tests", "run_python")
TALK_TOOLS = ("send_mail", "direct_message")
TOOLS = (*FILE_TOOLS, *RUN_TOOLS, *TALK_TOOLS)
#: Tools that a task gets by having a form, a deal or an inherited change.
GIVEN_TOOLS = ("submit", "propose_split", "accept_offer", "show_diff")
YOU = "you"
EVERYBODY = "team"

TASK_ID = r"^[a-z0-9][a-z0-9_-]*$"
Id = Annotated[str, Field(pattern=TASK_ID)]


class TaskError(CilabError):
    """A task file is wrong: file, key and what to do."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
Text = Annotated[str, Field(min_length=1)]


# -- where it comes from, and who is there --------------------------------------------------------------------


class Source(Strict):
    """The public source of a task: facts and numbers only; all wording is the task's own."""

    family: Literal[FAMILIES]
    citation: Text
    licence: Text
    facts: Annotated[list[Text], Field(min_length=1)]
    changed: str = ""
    url: str | None = None


class Seat(Strict):
    """Who sits at the table. `you` is the model under test. `facts` of a live partner are known to it alone."""

    id: Id
    kind: Literal["under_test", "scripted", "partner"]
    name: Text
    role: Text
    manner: str = "Answer what you are asked, briefly and politely."
    facts: list[Id] = []


class Contact(Strict):
    """Somebody who is not at the table and can be reached by mail (address: the id)."""

    id: Id
    name: Text
    role: Text


class Fact(Strict):
    """Something that is true in the task. `holder`: `team` (in every brief) or a seat."""

    id: Id
    text: Text
    holder: str = EVERYBODY


class Brief(Strict):
    """What the model under test reads first: `scene` in every version, then `alone` or `team`.

    `{facts}` stands for the list of the facts that this version may know: all of them alone, the team's own otherwise.
    `baseline` and `test` are added after `team` in that version.
    """

    scene: Text
    alone: Text
    team: Text
    baseline: str = ""
    test: str = ""


class Label(Strict):
    """One answer that a judge may give on a message."""

    text: Text
    gives_way: bool = False
    noticed: bool = False


# -- what the model can do ------------------------------------------------------------------------------------


class FormField(Strict):
    """One field of a form: exactly one of `one_of`, `number`, `flag`, `text`."""

    doc: str = ""
    one_of: list[str] | None = None
    number: bool = False
    flag: bool = False
    text: bool = False
    optional: bool = False
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> FormField:
        if sum([self.one_of is not None, self.number, self.flag, self.text]) != 1:
            raise ValueError("give exactly one of one_of, number, flag, text")
        if self.one_of is not None and not self.one_of:
            raise ValueError("one_of: name at least one choice")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self

    def schema(self) -> dict[str, Any]:
        """As JSON schema, for a tool's parameters."""
        out: dict[str, Any] = {"description": self.doc} if self.doc else {}
        if self.one_of is not None:
            return out | {"type": "string", "enum": list(self.one_of)}
        return out | {"type": "number" if self.number else "boolean" if self.flag else "string"}

    def read(self, value: Any) -> tuple[Any, str | None]:
        """(value in the field's own type, None), or (None, what is wrong with it)."""
        if self.number:
            number = _number(value)
            if number is None:
                return None, "must be a number"
            if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
                return None, f"must lie between {self.low} and {self.high}"
            return number, None
        if self.flag:
            known = {"true": True, "false": False, "yes": True, "no": False}
            found = value if isinstance(value, bool) else known.get(str(value).strip().lower())
            return (found, None) if found is not None else (None, "must be true or false")
        text = value if isinstance(value, str) else str(value)
        if self.one_of is None:
            return text, None
        hits = [option for option in self.one_of if option.casefold() == text.strip().casefold()]
        return (hits[0], None) if hits else (None, f"must be one of: {' | '.join(self.one_of)}")


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value.replace(",", "").strip() if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 1e15 else None


class Form(Strict):
    """What is handed in at the end."""

    doc: Text
    fields: Annotated[dict[Id, FormField], Field(min_length=1)]


class Action(Strict):
    """A deed of the task's own world as a tool: it is recorded, answers `reply`, and the check looks at it.

    `ends` closes the run after it. Only one of an action with `once` is taken.
    """

    name: Id
    doc: Text
    fields: dict[Id, FormField] = {}
    reply: Text
    once: bool = False
    ends: bool = False
    versions: list[Version] = list(VERSIONS)


class Sandbox(Strict):
    """Shared files. `readonly` are glob patterns; `tests` what `run_tests` runs when no path is given."""

    readonly: list[str] = []
    tests: list[str] = []
    seconds: float = Field(default=10.0, gt=0, le=60)


class Deal(Strict):
    """A division of goods between `you` and the seat `with_seat`; points per piece on each side.

    `pushed` is what the teammate's own offer leaves to you (pieces by item); `no_deal` the points without a deal.
    """

    with_seat: Id
    items: Annotated[dict[Id, Annotated[int, Field(ge=1)]], Field(min_length=2)]
    you: dict[str, float]
    them: dict[str, float]
    pushed: dict[str, int]
    no_deal: tuple[float, float] = (0.0, 0.0)

    def points(self, you_get: Mapping[str, int]) -> tuple[float, float]:
        """(your points, their points) of a split given by your pieces."""
        yours = sum(self.you[i] * you_get[i] for i in self.items)
        return yours, sum(self.them[i] * (n - you_get[i]) for i, n in self.items.items())

    @cached_property
    def best_joint(self) -> float:
        """Most joint points of any split: each kind goes to whoever values it more (a tie to either)."""
        return float(sum(n * max(self.you[i], self.them[i]) for i, n in self.items.items()))

    def joint(self, you_get: Mapping[str, int]) -> float:
        """Joint points of a split."""
        return float(sum(self.points(you_get)))

    def valid(self, you_get: Mapping[str, Any]) -> bool:
        """Whole pieces, of every item, no more than there are."""
        return set(you_get) == set(self.items) and all(
            isinstance(you_get[i], int) and 0 <= you_get[i] <= n for i, n in self.items.items()
        )

    @model_validator(mode="after")
    def _holds(self) -> Deal:
        for side in ("you", "them", "pushed"):
            if set(getattr(self, side)) != set(self.items):
                raise ValueError(f"{side}: needs a number for each of {', '.join(self.items)}")
        if not self.valid(self.pushed):
            raise ValueError("pushed: has more pieces than there are, or fewer than none")
        if self.joint(self.pushed) >= self.best_joint:
            raise ValueError(
                f"pushed: is worth {self.joint(self.pushed):g} to both, which is not strictly below the best joint "
                f"deal ({self.best_joint:g}); push a worse split"
            )
        return self


# -- the script -----------------------------------------------------------------------------------------------


class State(Strict):
    """One line of the scripted teammate and what follows, by the final label of the model's answer to it.

    `next` maps a label (or `default`) to a state. Without `next` the teammate is silent from then on. A state that does
    a `deed`, `releases` a fact, `closes` a deal or `yields` is entered only when two of the three judges chose a label
    that leads to it. `writes` are files that the teammate changes, `offers` a split by the model's pieces (`pushed` for
    the task's), `accepts` takes the model's standing proposal: any, or only a best one. `ends` closes the run.
    """

    say: str = ""
    to: Names = [EVERYBODY]
    next: dict[str, str] = {}
    deed: Id | None = None
    releases: list[Id] = []
    yields: bool = False
    writes: dict[str, str] = {}
    offers: Literal["pushed"] | dict[str, int] | None = None
    accepts: Literal["any", "best"] | None = None
    closes: Literal["pushed"] | None = None
    ends: bool = False

    @property
    def needs_two(self) -> bool:
        """Whether it takes two of three judges to come here."""
        return bool(self.deed or self.releases or self.yields or self.closes)


class Script(Strict):
    """What one scripted seat says: `states` from `opens` on (the seat of the problem), or lines by round."""

    opens: str | None = None
    states: dict[str, State] = {}
    rounds: dict[int, str] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Script:
        if bool(self.states) == bool(self.rounds):
            raise ValueError("give either `opens` and `states`, or `rounds`")
        if self.states:
            if self.opens not in self.states:
                hint = nearest(str(self.opens), list(self.states))
                raise ValueError(f"opens: there is no state {self.opens!r}.{hint}")
            self._check_states()
        return self

    def _check_states(self) -> None:
        for name, state in self.states.items():
            for label, target in state.next.items():
                if target not in self.states:
                    hint = nearest(target, list(self.states))
                    raise ValueError(f"states.{name}.next.{label}: there is no state {target!r}.{hint}")
            if state.next and "default" not in state.next:
                raise ValueError(f"states.{name}.next: say what follows any other label: default: <state>")
            target = state.next.get("default")
            if target is not None and self.states[target].needs_two:
                raise ValueError(
                    f"states.{name}.next.default: {target!r} does a deed or gives way, which takes a label of its own"
                )
        reached, todo = {self.opens}, [self.opens]
        while todo:
            for target in self.states[str(todo.pop())].next.values():
                if target not in reached:
                    reached.add(target)
                    todo.append(target)
        if lost := [name for name in self.states if name not in reached]:
            raise ValueError(f"states.{lost[0]}: no line leads there; link it from a `next` or take it out")


class Notice(Strict):
    """Something that the environment tells at the beginning of a round; `files` appear in the sandbox then.

    With `arms`, only in runs of those arms.
    """

    round: int = Field(ge=1)
    text: str = ""
    to: Names = [EVERYBODY]
    files: dict[str, str] = {}
    versions: list[Version] = list(TEAM)
    arms: list[str] = []


# -- sessions of others, and worked examples -------------------------------------------------------------------

Call = Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)]


class InheritedTurn(Strict):
    """One event of the session before the model under test came: a line, or the tool calls of a turn with results."""

    seat: Id
    say: str = ""
    calls: list[Call] = []
    results: list[str] = []


class Inherited(Strict):
    """An earlier model's session, which the model under test takes over in the test version."""

    model: Text
    turns: Annotated[list[InheritedTurn], Field(min_length=1)]


class Turn(Strict):
    """One turn of an exemplar: tool calls, then words; `label` is what the judges would say (three, if they differ)."""

    say: str = ""
    calls: list[Call] = []
    label: str | None = None
    votes: tuple[str, str, str] | None = None


class Exemplar(Strict):
    """A worked run of the model under test. `expect`: pass, fail, or the stage of failure.

    `refused: true` says that a tool refuses one of its calls, and that this is what it shows.
    """

    name: Id
    version: Version = "test"
    expect: Literal["pass", "fail", "missed", "gave_in", "stopped_short"]
    kind: Literal["plain", "paraphrase", "adversarial"] = "plain"
    score: float | None = None
    refused: bool = False
    turns: list[Turn] = []


# -- the check --------------------------------------------------------------------------------------------------


class FieldTest(Strict):
    """What a submitted field or an action's field must be."""

    equals: Any = None
    one_of: list[Any] | None = None
    near: float | None = None
    within: float = 1e-9
    low: float | None = None
    high: float | None = None
    mentions: list[Names] | None = None
    avoids: list[str] | None = None


class Submitted(Strict):
    """The form was handed in; `fields` by name."""

    fields: dict[Id, FieldTest] = {}


class Told(Strict):
    """The model told somebody: at the table (seat or `team`), by direct message or mail.

    Each entry of `mentions` must occur: one word or a list of words that mean the same. `by_round` is the last round
    that counts. `how` narrows it to `mail` or `talk`; `together` wants all mentions in one message.
    """

    who: Names
    mentions: list[Names] = []
    by_round: int | None = None
    how: Literal["mail", "talk", "any"] = "any"
    together: bool = True


class Did(Strict):
    """The model took an action of the task, with these fields."""

    action: str
    fields: dict[Id, FieldTest] = {}
    by_round: int | None = None


class FileTest(Strict):
    """The state of a file at the end. `original` compares with `files/`, `unchanged` with the start of this run."""

    path: str
    is_: Literal["unchanged", "original", "changed", "absent", "there"] | None = Field(default=None, alias="is")
    contains: list[Names] = []
    avoids: list[str] = []


class Case(Strict):
    """One call of a function of the model's, and what it must give."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    gives: Any = None
    raises: str | None = None


class Returns(Strict):
    """Hidden test: a function in the sandbox is called there, and its values are compared outside.

    `in_tests` calls it a second time as a test run would look to it, so that code which knows tests is found out.
    """

    module: str
    function: str
    cases: Annotated[list[Case], Field(min_length=1)]
    in_tests: bool = True


class TestsPass(Strict):
    """These files (a copy in the task's `hidden/`) pass in the sandbox; `all_but` names tests that may fail."""

    files: Annotated[Names, Field(min_length=1)]
    all_but: list[str] = []


class Condition(Strict):
    """Exactly one question about the final state; `name` is the outcome when it is the first one that fails."""

    name: str = ""
    versions: list[Version] = list(VERSIONS)
    submitted: Submitted | None = None
    told: Told | None = None
    did: Did | None = None
    deed: str | None = None
    released: str | None = None
    labelled: Names | None = None
    gave_way: bool | None = None
    opened: str | None = None
    file: FileTest | None = None
    returns: Returns | None = None
    tests: TestsPass | None = None
    by_round: int | None = None
    all: list[Condition] | None = None
    any: list[Condition] | None = None
    none: list[Condition] | None = None

    @property
    def kind(self) -> str:
        """Which question it asks."""
        return next(k for k in CONDITIONS if getattr(self, k) is not None)

    @model_validator(mode="after")
    def _one_question(self) -> Condition:
        asked = [k for k in CONDITIONS if getattr(self, k) is not None]
        if len(asked) != 1:
            raise ValueError(f"asks {len(asked)} questions; give exactly one of {', '.join(CONDITIONS)}")
        return self

    def parts(self) -> Iterator[Condition]:
        """This condition and all inside it."""
        yield self
        for group in (self.all, self.any, self.none):
            for part in group or ():
                yield from part.parts()


CONDITIONS = (
    "submitted",
    "told",
    "did",
    "deed",
    "released",
    "labelled",
    "gave_way",
    "opened",
    "file",
    "returns",
    "tests",
    "all",
    "any",
    "none",
)


class Check(Strict):
    """Code's verdict: the run passes when every condition of its version holds; a deal is scored 1, 0.5 or 0.

    `evidence` says when a word of the closed list holds. The engine adds what it sees itself: `did_pushed_thing` (the
    teammate did a deed on the model's word), `drew_out_fact`, `submit_slip`, and for deals `accepted_offer` and
    `offered_to_accept`.
    """

    passes: list[Condition] = []
    evidence: dict[Literal[EVIDENCE], Condition] = {}


# -- the task -----------------------------------------------------------------------------------------------------


class TaskFile(Strict):
    """A task file. See `docs/writing-tasks.md`."""

    id: Id
    title: Text
    dimension: Literal[DIMENSIONS]
    canary: str = ""
    source: Source
    why_hard: Text
    difficulty: float = 0.0
    split: Literal["public", "held_out"] = "public"
    rounds: int = Field(ge=3, le=8)
    seats: Annotated[list[Seat], Field(min_length=2, max_length=5)]
    contacts: list[Contact] = []
    order: list[Id] = []
    facts: list[Fact] = []
    brief: Brief
    labels: dict[Id, Label] = {}
    tools: list[Literal[TOOLS]] = []
    tool_calls_per_turn: int = Field(default=12, ge=1, le=40)
    sandbox: Sandbox | None = None
    actions: list[Action] = []
    submit: Form | None = None
    deal: Deal | None = None
    scripts: dict[Version, dict[Id, Script]]
    notices: list[Notice] = []
    inherited: Inherited | None = None
    check: Check
    exemplars: list[Exemplar]

    # -- what follows from the file

    @cached_property
    def label_list(self) -> Mapping[str, Label]:
        """The task's labels, or its dimension's."""
        return self.labels or dimension_labels(self.dimension)

    @property
    def real_world(self) -> bool:
        """The source is a real record."""
        return self.source.family in REAL_WORLD

    @property
    def executes_code(self) -> bool:
        """Code that the model wrote is run."""
        return bool(set(self.tools) & set(RUN_TOOLS)) or any(c.returns or c.tests for c in self._conditions())

    def seat(self, seat_id: str) -> Seat:
        """The seat of that id."""
        return next(s for s in self.seats if s.id == seat_id)

    def of_kind(self, kind: str) -> list[Seat]:
        """The seats of one kind, in order."""
        return [s for s in self.seats if s.kind == kind]

    def problem_seat(self, version: str) -> str | None:
        """The scripted seat with a state machine in that version, if any."""
        return next((seat for seat, script in self.scripts.get(version, {}).items() if script.states), None)

    def _conditions(self) -> Iterator[Condition]:
        for condition in [*self.check.passes, *self.check.evidence.values()]:
            yield from condition.parts()

    # -- whether it holds together

    @model_validator(mode="after")
    def _holds_together(self) -> TaskFile:
        for look in (_seats, _deals, _inherited, _scripts, _tools, _check_part, _exemplars):
            look(self)
        return self


def _known(what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"{what}: there is no {name!r}.{nearest(name, list(names))} Known: {', '.join(names)}")


def _seats(t: TaskFile) -> None:
    ids = [*(s.id for s in t.seats), *(c.id for c in t.contacts)]
    if double := {i for i in ids if ids.count(i) > 1}:
        raise ValueError(f"seats: two are called {sorted(double)[0]!r}")
    if [s.id for s in t.of_kind("under_test")] != [YOU]:
        raise ValueError(f"seats: exactly one is under test, and its id is {YOU!r}")
    if not t.of_kind("scripted"):
        raise ValueError("seats: needs a scripted teammate")
    if EVERYBODY in ids:
        raise ValueError(f"seats: {EVERYBODY!r} means everybody; choose another id")
    facts = [f.id for f in t.facts]
    if double := {i for i in facts if facts.count(i) > 1}:
        raise ValueError(f"facts: two are called {sorted(double)[0]!r}")
    for fact in t.facts:
        _known(f"facts.{fact.id}.holder", fact.holder, [EVERYBODY, *ids])
    for seat in t.seats:
        for fact_id in seat.facts:
            _known(f"seats.{seat.id}.facts", fact_id, facts)
    for i in t.order:
        _known("order", i, [s.id for s in t.seats])
    if t.order and sorted(t.order) != sorted(s.id for s in t.seats):
        raise ValueError("order: must name every seat once")
    if "{facts}" not in t.brief.alone:
        raise ValueError("brief.alone: must hold {facts}: alone, the model has every fact")


def _scripts(t: TaskFile) -> None:
    scripted = [s.id for s in t.of_kind("scripted")]
    if set(t.scripts) != set(TEAM):
        raise ValueError("scripts: needs `baseline` and `test`, and nothing else")
    for version, by_seat in t.scripts.items():
        for seat, script in by_seat.items():
            _known(f"scripts.{version}", seat, scripted)
            _script(t, f"scripts.{version}.{seat}", script)
    if [s for s in t.scripts["test"].values() if s.states].__len__() != 1:
        raise ValueError("scripts.test: exactly one seat has `states`: the one that creates the problem")
    if sum(bool(s.states) for s in t.scripts["baseline"].values()) > 1:
        raise ValueError("scripts.baseline: only one seat may have `states`")
    for i, notice in enumerate(t.notices):
        if notice.round > t.rounds:
            raise ValueError(f"notices[{i}].round: is {notice.round}, but the task has {t.rounds} rounds")
        for who in notice.to:
            _known(f"notices[{i}].to", who, [EVERYBODY, *(s.id for s in t.seats)])


def _script(t: TaskFile, where: str, script: Script) -> None:
    labels, facts = [*t.label_list, "default"], [f.id for f in t.facts]
    for name, state in script.states.items():
        for label in state.next:
            _known(f"{where}.states.{name}.next", label, labels)
        for fact in state.releases:
            _known(f"{where}.states.{name}.releases", fact, facts)
        for who in state.to:
            _known(f"{where}.states.{name}.to", who, [EVERYBODY, *(s.id for s in t.seats)])
        if (state.offers or state.accepts or state.closes) and t.deal is None:
            raise ValueError(f"{where}.states.{name}: speaks of an offer, but the task has no `deal`")
        if isinstance(state.offers, dict) and t.deal and not t.deal.valid(state.offers):
            raise ValueError(f"{where}.states.{name}.offers: is no split of {t.deal.items}")
    for number in script.rounds:
        if not 1 <= number <= t.rounds:
            raise ValueError(f"{where}.rounds: there is no round {number}; the task has {t.rounds}")


def _tools(t: TaskFile) -> None:
    needs_files = [n for n in t.tools if n in (*FILE_TOOLS, *RUN_TOOLS)]
    if needs_files and t.sandbox is None:
        raise ValueError(f"tools: {needs_files[0]} needs a `sandbox`")
    names = [a.name for a in t.actions]
    for name in names:
        if name in (*TOOLS, *GIVEN_TOOLS) or names.count(name) > 1:
            raise ValueError(f"actions.{name}: the name is taken")
    if t.submit is None and t.deal is None and not any(a.ends for a in t.actions):
        raise ValueError("submit: a run needs an end: a `submit` form, a `deal` or an action with `ends`")


def _check_part(t: TaskFile) -> None:
    if not t.check.passes and t.deal is None:
        raise ValueError("check.passes: is empty; say what must hold at the end")
    ids = [EVERYBODY, *(s.id for s in t.seats), *(c.id for c in t.contacts)]
    deeds = [s.deed for by in t.scripts.values() for sc in by.values() for s in sc.states.values() if s.deed]
    actions = {a.name: a for a in t.actions}
    for c in t._conditions():
        if c.submitted:
            form = dict(t.submit.fields) if t.submit else {}
            for name in c.submitted.fields:
                _known("check: submitted.fields", name, list(form))
        if c.told:
            for who in c.told.who:
                _known("check: told.who", who, ids)
        if c.did:
            _known("check: did.action", c.did.action, list(actions))
            for name in c.did.fields:
                _known(f"check: did.fields of {c.did.action}", name, list(actions[c.did.action].fields))
        if c.deed:
            _known("check: deed", c.deed, deeds)
        if c.released:
            _known("check: released", c.released, [f.id for f in t.facts])
        for label in c.labelled or ():
            _known("check: labelled", label, list(t.label_list))
        if (c.file or c.returns or c.tests or c.opened) and t.sandbox is None:
            raise ValueError(f"check: {c.kind} needs a `sandbox`")


def _deals(t: TaskFile) -> None:
    if (t.deal is not None) != (t.dimension == "handling_conflict"):
        raise ValueError("deal: goes with handling_conflict, and with nothing else")
    if t.deal is not None:
        _known("deal.with_seat", t.deal.with_seat, [s.id for s in t.of_kind("scripted")])


def _exemplars(t: TaskFile) -> None:
    names = [e.name for e in t.exemplars]
    if double := {n for n in names if names.count(n) > 1}:
        raise ValueError(f"exemplars: two are called {sorted(double)[0]!r}")
    modes = dimension_modes(t.dimension)
    tools = {*t.tools, *_given_tools(t), *(a.name for a in t.actions)}
    for e in t.exemplars:
        if e.expect in STAGES and e.expect not in modes:
            raise ValueError(f"exemplars.{e.name}.expect: {e.expect} cannot happen in {t.dimension}")
        for i, turn in enumerate(e.turns):
            for label in [turn.label, *(turn.votes or ())]:
                if label is not None:
                    _known(f"exemplars.{e.name}.turns[{i}].label", label, list(t.label_list))
            for call in turn.calls:
                _known(f"exemplars.{e.name}.turns[{i}].calls", next(iter(call)), sorted(tools))
    have = [(e.version, e.expect, e.kind) for e in t.exemplars]
    wanted = [("alone", "pass", "plain"), ("baseline", "pass", "plain"), ("test", "pass", "plain")]
    wanted += [("test", "pass", "paraphrase"), *(("test", stage, "plain") for stage in modes)]
    for want in wanted:
        if want not in have:
            named = f"version {want[0]}, expect {want[1]}, kind {want[2]}"
            raise ValueError(f"exemplars: needs one with {named}{_nearest_exemplar(t, want, wanted)}")
    if not any(e.version == "test" and e.kind == "adversarial" and e.expect != "pass" for e in t.exemplars):
        near = _nearest_exemplar(t, ("test", "fail", "adversarial"), wanted)
        raise ValueError(
            "exemplars: needs one with version test, kind adversarial and an expect other than pass (the right words, "
            f"the state left wrong){near}"
        )


def _given_tools(t: TaskFile) -> list[str]:
    """The tools that the task has without naming them in `tools`."""
    has = {
        "submit": t.submit is not None or t.deal is not None,
        "propose_split": t.deal is not None,
        "accept_offer": t.deal is not None,
        "show_diff": t.inherited is not None,
    }
    return [name for name in GIVEN_TOOLS if has[name]]


def _nearest_exemplar(t: TaskFile, want: tuple[str, str, str], wanted: Sequence[tuple[str, str, str]]) -> str:
    """'; the nearest is ...' with what is other in it; one that passes as `want` does, and is not `wanted` itself."""

    def others(e: Exemplar) -> list[str]:
        pairs = zip(("version", "expect", "kind"), want, strict=True)
        return [f"{key} {getattr(e, key)}" for key, value in pairs if getattr(e, key) != value]

    def distance(e: Exemplar) -> tuple[int, bool, bool]:
        turned = (e.expect == "pass") != (want[1] == "pass")
        return len(others(e)), turned, (e.version, e.expect, e.kind) in wanted

    near = min(t.exemplars, key=distance, default=None)
    return f"; the nearest is {near.name!r}, with {', '.join(others(near))}" if near and len(others(near)) < 3 else ""


def _inherited(t: TaskFile) -> None:
    if (t.inherited is not None) != (t.dimension == "taking_over"):
        raise ValueError("inherited: goes with taking_over, and with nothing else")
    if t.inherited is None:
        return
    for i, turn in enumerate(t.inherited.turns):
        _known(f"inherited.turns[{i}].seat", turn.seat, [s.id for s in t.seats])
        if turn.calls and (turn.seat != YOU or len(turn.calls) != len(turn.results)):
            raise ValueError(f"inherited.turns[{i}]: calls are the earlier model's ({YOU}), each with its result")


# -- dimensions -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _dimensions() -> Mapping[str, Any]:
    import yaml

    return yaml.safe_load((resources.files("cilab.teamwork") / "dimensions.yaml").read_text(encoding="utf-8"))


@lru_cache(maxsize=16)
def dimension_labels(dimension: str) -> Mapping[str, Label]:
    """The labels that tasks of a dimension share (collaborative-intelligence paper, appendix G.2)."""
    return {name: Label(**spec) for name, spec in _dimensions()[dimension]["labels"].items()}


def dimension_modes(dimension: str) -> Mapping[str, str]:
    """Stage of failure -> name of its mode in `cilab.stats.teamwork.failures`, where the dimension can show it."""
    return _dimensions()[dimension]["modes"]


def dimension_norm(dimension: str) -> str:
    """The paragraph that the arm `norm` adds in a dimension."""
    return _dimensions()[dimension]["norm"]


def words(text: str) -> str:
    """A text for comparing mentions: lower case, plain quotes and dashes, single blanks, no thousands commas.

    >>> words("Rate:  1,200 mg\u2011per hour")
    'rate: 1200 mg-per hour'
    """
    text = text.casefold()
    for odd, plain in (("\u2019", "'"), ("\u2018", "'"), ("\u201c", '"'), ("\u201d", '"')):
        text = text.replace(odd, plain)
    text = re.sub("[\u2010-\u2015\u2212]", "-", text)
    text = re.sub(r"(?<=\d)[,\u202f\u00a0](?=\d{3}\b)", "", text)
    return re.sub(r"\s+", " ", text)


def mentioned(text: str, alternatives: Sequence[str]) -> bool:
    """Whether one of the alternatives stands in `text` as a word or number of its own.

    >>> mentioned("Unit A-1042 was moved", ["A-1042"]), mentioned("unit 10425", ["1042"])
    (True, False)
    """
    text = words(text)
    return any(re.search(rf"(?<![\w.]){re.escape(words(a))}(?![\w]|\.\d)", text) for a in alternatives)
