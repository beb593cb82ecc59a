"""Plays one teamwork rollout: alone, in a calm team or in the test; then the check gives its verdict.

May import `cilab.collect.model`, `cilab.collect.spec` and its own folder. Calls models only through `Seats`.

A round: notices of the environment; then the seats in order. The scripted teammate says its line, live partners say
theirs, the model under test acts and speaks. Judges label what it said; the label chooses the scripted teammate's
next line, which is said in the next round. After the last round it is still said: a deed on the model's word counts.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cilab.collect.model import Completion, Message, ToolCall
from cilab.collect.spec import Rollout, RunSpec, Seats, seat_sampling
from cilab.teamwork import texts
from cilab.teamwork.bank import Task, at_hand, load
from cilab.teamwork.checks import RULE_VERSION, Checker
from cilab.teamwork.judges import Panel
from cilab.teamwork.sandbox import Isolation, Limits, Workspace
from cilab.teamwork.script import Scripted, Votes
from cilab.teamwork.state import TeamState, Told
from cilab.teamwork.task import EVERYBODY, YOU, Seat, State, TaskError
from cilab.teamwork.tools import Toolbox, as_text, text_calls

#: Seat of the audit rows of the script, and of what the environment tells.
SCRIPT, ENVIRONMENT = "script", "environment"
#: Seat of the earlier model of an inherited session.
BEFORE = "before"
#: A live partner answers with it when it has nothing to say.
PASS = "PASS"
_NO_TEXT = "(says nothing)"
_ENOUGH = "error: no more tool calls in this round; say what you have to say, and go on in the next round"


async def play(spec: RunSpec, seats: Seats) -> Rollout:
    """Play and check `spec`. What was said is kept in `seats.rollout` while it grows."""
    task = load(Path(spec.hints["folder"]))
    if task.task_hash != spec.task_hash:
        raise TaskError(f"{task.folder}: the task changed after the run was planned. Start cilab run again.")
    game = Game(task, spec, seats)
    with at_hand(task):
        await game.play()
    checker = Checker(task, spec.version, game.state, isolation=game.isolation, cache=game.cache)
    verdict = await checker.verdict()
    seats.rollout.run |= {
        "ended": game.state.ended,
        "outcome": verdict.outcome,
        "score": verdict.score,
        "passed": verdict.score == 1.0,
        "evidence": list(verdict.evidence),
        "joint_share": verdict.joint_share,
        "rounds": game.state.round,
        "messages": sum(m["kind"] == "message" and m["seat_kind"] == "under_test" for m in seats.rollout.messages),
        "tool_calls": sum(m["kind"] == "tool_call" and m["seat_kind"] == "under_test" for m in seats.rollout.messages),
        "rule_version": RULE_VERSION,
    }
    return seats.rollout


class Game:
    """One run in progress."""

    def __init__(self, task: Task, spec: RunSpec, seats: Seats):
        self.task, self.spec, self.version = task, spec, spec.version
        self.rounds: int = spec.settings.get("max_rounds", task.file.rounds)
        self.tool_calls_per_turn: int = spec.settings.get("max_tool_calls", task.file.tool_calls_per_turn)
        self._seats, self._rollout = seats, seats.rollout
        self.isolation: Isolation = spec.hints.get("isolation", "bwrap")
        #: Simulated agents act out the same files again and again.
        self.cache = spec.model.startswith("sim/")
        self.state = TeamState()
        if task.file.sandbox is not None:
            limits = Limits(seconds=task.file.sandbox.seconds)
            self.state.workspace = Workspace(
                task.files(self.version), readonly=task.file.sandbox.readonly, limits=limits
            )
        self._toolbox = Toolbox(
            task, self.version, self.state, isolation=self.isolation, cache=self.cache, diff=self._diff("available")
        )
        self._model = seats.model(spec.model, YOU)
        self._sampling = seat_sampling(spec, YOU, spec.effort)
        self._panel = Panel(task.file, spec, seats) if self._in_team else None
        self._scripts = task.file.scripts.get(self.version, {}) if self._in_team else {}
        self._problem = task.file.problem_seat(self.version) if self._in_team else None
        self._scripted = Scripted(self._scripts[self._problem]) if self._problem else None
        self._silent = False
        self._conversation: list[str] = []
        self._unread: list[str] = []
        self._history: list[Message] = []
        self._results: list[str] = []

    @property
    def _in_team(self) -> bool:
        return self.version != "alone"

    @property
    def _text_style(self) -> bool:
        return self.spec.settings.get("tools") == "text"

    # -- the run

    async def play(self) -> None:
        """Play until something ends it or the rounds are over."""
        self._begin()
        order = self.task.file.order or _usual_order(self.task.file.seats)
        for number in range(1, self.rounds + 1):
            self.state.round = number
            if self.state.workspace is not None:
                self.state.workspace.round = number
            self._notices(number)
            for seat_id in order if self._in_team else [YOU]:
                await self._act(self.task.file.seat(seat_id), number)
                if self.state.over:
                    break
            if self.state.over:
                break
        if not self.state.over:
            self.state.ended = "rounds"
        if not self._silent and self._scripted is not None and self.state.ended in ("rounds", "submitted", "action"):
            self._say_line(closing=True)

    async def _act(self, seat: Seat, number: int) -> None:
        if seat.kind == "under_test":
            before = list(self._conversation)
            said = await self._turn(number)
            if self._in_team:
                await self._label(before, said)
        elif seat.kind == "partner":
            await self._partner(seat)
        elif seat.id == self._problem:
            self._say_line()
        elif (script := self._scripts.get(seat.id)) is not None and number in script.rounds:
            self._said(seat, script.rounds[number], [EVERYBODY])

    def _begin(self) -> None:
        in_text = self._toolbox.schemas if self._text_style else None
        system = texts.system(self.task.file, self.version, self.rounds, in_text)
        brief = texts.brief(self.task.file, self.version, self.spec.settings.get("arm_text"))
        self._history = [{"role": "system", "content": system}, {"role": "user", "content": brief}]
        self._row("notice", "user", "user", content=brief, delivered_to=[YOU])
        if self._inherits:
            self._inherit()

    def _notices(self, number: int) -> None:
        arm = self.spec.settings.get("day")
        for notice in self.task.file.notices:
            if notice.round != number or self.version not in notice.versions:
                continue
            if notice.arms and arm not in notice.arms:
                continue
            if self.state.workspace is not None:
                for path, text in notice.files.items():
                    self.state.workspace.place(path, text)
            if notice.text:
                self._row("notice", ENVIRONMENT, "environment", content=notice.text, delivered_to=list(notice.to))
                self._hear(f"Notice: {texts.shown(notice.text)}", notice.to)

    # -- the others

    def _say_line(self, closing: bool = False) -> None:
        """The scripted teammate's line of this round, with all that it brings about."""
        assert self._scripted is not None
        if self._silent:
            return
        if self._scripted.at is None:
            if closing:
                return
            self._scripted.open()
        state, seat = self._scripted.state(), self.task.file.seat(str(self._problem))
        self._silent = True  # until an answer leads on
        if state.say:
            self._said(seat, state.say, state.to)
        self._bring_about(state, closing)

    def _bring_about(self, state: State, closing: bool) -> None:
        s, deal = self.state, self.task.file.deal
        if state.deed:
            s.deeds.setdefault(state.deed, s.round)
        for fact in () if closing else state.releases:  # what comes after the end was not heard in time
            s.released.setdefault(fact, s.round)
        for path, text in state.writes.items():
            if s.workspace is not None:
                s.workspace.place(path, text)
        if deal is not None:
            if state.offers:
                s.offers.append(dict(deal.pushed if state.offers == "pushed" else state.offers))
            if state.closes:
                s.deal, s.took_offer, s.ended = dict(deal.pushed), True, "deal"
            elif state.accepts and s.proposals and s.deal is None:
                proposal = s.proposals[-1]
                if state.accepts == "any" or deal.joint(proposal) == deal.best_joint:
                    s.deal, s.ended = proposal, "deal"
        if state.ends and not s.over:
            s.ended = "left"

    async def _partner(self, seat: Seat) -> None:
        name = self.spec.settings["partners"][seat.id]
        model = self._seats.model(
            name, seat.id, under_test=False, fallbacks=tuple(self.spec.hints.get("partner_fallbacks", ()))
        )
        wire: list[Message] = [
            {"role": "system", "content": texts.partner_system(self.task.file, seat)},
            {"role": "user", "content": "\n".join(self._conversation) or "(nobody has spoken yet)"},
        ]
        answer = await model.complete(wire, sampling=seat_sampling(self.spec, seat.id))
        text = answer.content.strip()
        if text and text.strip(".!\"'* ").upper() != PASS:
            self._said(seat, text, [EVERYBODY], model=name, answer=answer)

    def _said(
        self, seat: Seat, text: str, to: Sequence[str], *, model: str | None = None, answer: Completion | None = None
    ) -> None:
        self._row(
            "message",
            seat.id,
            seat.kind,
            content=text,
            delivered_to=self._receivers(to, seat.id),
            model=model,
            answer=answer,
        )
        self._hear(texts.line(seat, text), to)

    def _hear(self, row: str, to: Sequence[str]) -> None:
        """What goes into the conversation that others read, and what the model under test has not read yet."""
        if EVERYBODY in to:
            self._conversation.append(row)
        if EVERYBODY in to or YOU in to:
            self._unread.append(row if EVERYBODY in to else f"{row} [to you alone]")

    def _receivers(self, to: Sequence[str], speaker: str) -> list[str]:
        if EVERYBODY in to:
            return [s.id for s in self.task.file.seats if s.id != speaker] if self._in_team else []
        return list(to)

    # -- the model under test

    async def _turn(self, number: int) -> str:
        """Its tool calls and words of one round; returns what it said to the table or to the scripted teammate."""
        head = f"Round {number} of {self.rounds}."
        self._tell_model("\n".join([head, *self._unread]))
        self._unread = []
        said, used, warned = [], 0, False
        while True:
            answer = await self._model.complete(
                list(self._history),
                tools=None if self._text_style or not self._toolbox.schemas else self._toolbox.schemas,
                sampling=self._sampling,
            )
            text, calls = self._read(answer)
            if text:
                said.append(text)
                self.state.told.append(Told(number, self._everybody(), text))
                self._say(text, answer)
            self._remember(answer, text, calls)
            if not calls:
                break
            spare = None if text else answer
            for call in calls:
                used += 1
                allowed = used <= self.tool_calls_per_turn
                self._answer_call(call, await self._use(call, said, spare if call is calls[0] else None, allowed))
                if self.state.over:
                    return "\n".join(said)
            if warned:
                break
            warned = used > self.tool_calls_per_turn
            self._flush_results()
        return "\n".join(said)

    def _everybody(self) -> tuple[str, ...]:
        return (EVERYBODY, *(s.id for s in self.task.file.seats if s.id != YOU)) if self._in_team else ()

    def _read(self, answer: Completion) -> tuple[str, list[ToolCall]]:
        if self._text_style:
            return text_calls(answer.content)
        return answer.content.strip(), list(answer.tool_calls)

    def _say(self, text: str, answer: Completion) -> None:
        me = self.task.file.seat(YOU)
        to = self._receivers([EVERYBODY], YOU)
        self._row("message", YOU, "under_test", content=text, delivered_to=to, model=self.spec.model, answer=answer)
        if self._in_team:
            self._conversation.append(texts.line(me, text))

    async def _use(self, call: ToolCall, said: list[str], answer: Completion | None, allowed: bool) -> str:
        """Do one tool call; what it says to the scripted teammate alone is judged like any other word."""
        told_before, proposals_before = len(self.state.told), len(self.state.proposals)
        self._row(
            "tool_call",
            YOU,
            "under_test",
            model=self.spec.model,
            tool=call.name,
            tool_input_json=call.arguments_json,
            answer=answer,
        )
        result = await self._toolbox.call(call) if allowed else _ENOUGH
        for told in self.state.told[told_before:]:
            if not told.mail and self._problem in told.to:
                said.append(told.text)
        for _ in self.state.proposals[proposals_before:]:
            words = result.replace("you get", "I get").replace("the other side gets", "you get")
            said.append(words)
            self._conversation.append(texts.line(self.task.file.seat(YOU), words))
        self._row("tool_result", ENVIRONMENT, "environment", tool=call.name, tool_output=result, delivered_to=[YOU])
        return result

    # -- the model's own view

    def _tell_model(self, text: str) -> None:
        last = self._history[-1]
        if last["role"] == "user":
            self._history[-1] = {"role": "user", "content": f"{last['content']}\n\n{text}"}
        else:
            self._history.append({"role": "user", "content": text})

    def _remember(self, answer: Completion, text: str, calls: Sequence[ToolCall]) -> None:
        if self._text_style:
            self._history.append({"role": "assistant", "content": answer.content or _NO_TEXT})
        elif calls:
            made = [_wire(c.id, c.name, c.arguments_json) for c in calls]
            self._history.append({"role": "assistant", "content": text, "tool_calls": made})
        else:
            self._history.append({"role": "assistant", "content": text or _NO_TEXT})

    def _answer_call(self, call: ToolCall, result: str) -> None:
        if self._text_style:
            self._results.append(f"Result of {call.name}:\n{result}")
        else:
            self._history.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result})

    def _flush_results(self) -> None:
        if self._text_style and self._results:
            self._tell_model("\n\n".join(self._results))
            self._results = []

    # -- judges

    async def _label(self, before: Sequence[str], said: str) -> None:
        """Judge what the model said, and let the script step on it."""
        if not said.strip():
            if self._scripted is not None and self._scripted.at is not None:
                self._step(Votes({"referee": "other", "second": "other"}))
            return
        assert self._panel is not None
        index = self._last_said()
        votes, rows = await self._panel.judge(before, said)
        self._rollout.labels += [{"index": index, **row} for row in rows]
        final = rows[-1]
        self.state.labels.append((self.state.round, votes.final))
        self.state.gave_way = self.state.gave_way or bool(final["gives_way"])
        if self._scripted is not None and self._scripted.at is not None:
            self._step(votes)

    def _last_said(self) -> int:
        spoke = ("message", "tool_call")
        mine = [m["index"] for m in self._rollout.messages if m["seat"] == YOU and m["kind"] in spoke]
        words = [m["index"] for m in self._rollout.messages if m["seat"] == YOU and m["kind"] == "message"]
        this_round = [i for i in words if self._rollout.messages[i]["round"] == self.state.round - 1]
        return int((this_round or mine)[-1])

    def _step(self, votes: Votes) -> None:
        assert self._scripted is not None
        taken = len(self._scripted.branches)
        state = self._scripted.answer(votes)
        self._silent = state is None
        for branch in self._scripted.branches[taken:]:
            audit = json.dumps(branch.as_dict(), ensure_ascii=False)
            self._row("notice", SCRIPT, "environment", content=audit, delivered_to=[])

    # -- an inherited session

    @property
    def _inherits(self) -> bool:
        return self.task.file.inherited is not None and self.version == "test"

    def _diff(self, wanted: str) -> str | None:
        """What the session so far changed in the files, where the arm asks for it in this way."""
        if not self._inherits or self.spec.settings.get("diff") != wanted:
            return None
        before, after = self.task.files("baseline"), self.task.files("test")
        out: list[str] = []
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path, "").splitlines(), after.get(path, "").splitlines()
            out += difflib.unified_diff(old, new, f"before/{path}", f"now/{path}", lineterm="")
        return "\n".join(out) or "(nothing was changed)"

    def _inherit(self) -> None:
        inherited = self.task.file.inherited
        assert inherited is not None
        for i, turn in enumerate(inherited.turns):
            if turn.seat != YOU:
                seat = self.task.file.seat(turn.seat)
                self._said(seat, turn.say, [EVERYBODY])
                continue
            self._tell_model("\n".join(["Earlier in this session.", *self._unread]))
            self._unread = []
            calls = [ToolCall(f"earlier-{i}-{k}", *_split(c), arguments=None) for k, c in enumerate(turn.calls)]
            self._remember(Completion(as_text(turn.say, calls)), turn.say, calls)
            for call, result in zip(calls, turn.results, strict=True):
                common = {"model": inherited.model, "tool": call.name}
                self._row("tool_call", BEFORE, "scripted", tool_input_json=call.arguments_json, **common)
                self._row("tool_result", ENVIRONMENT, "environment", tool=call.name, tool_output=result)
                self._answer_call(call, result)
            self._flush_results()
            if turn.say:
                to = self._receivers([EVERYBODY], YOU)
                self._row("message", BEFORE, "scripted", content=turn.say, delivered_to=to, model=inherited.model)
                self._conversation.append(texts.line(self.task.file.seat(YOU), turn.say))
        extra = texts.NOTES.get(self.spec.settings.get("note", ""), "").format(model=inherited.model)
        if (diff := self._diff("shown")) is not None:
            extra += f"\nWhat the session so far changed in the files:\n{diff}"
        if extra:
            self._row("notice", ENVIRONMENT, "environment", content=extra.strip(), delivered_to=[YOU])
            self._unread.append(extra.strip())

    # -- rows

    def _row(self, kind: str, seat: str, seat_kind: str, answer: Completion | None = None, **columns: Any) -> None:
        row: dict[str, Any] = {
            "index": len(self._rollout.messages),
            "round": self.state.round - 1,
            "kind": kind,
            "seat": seat,
            "seat_kind": seat_kind,
            **columns,
        }
        if answer is not None:
            row |= {
                "tokens_in": answer.usage.tokens_in,
                "tokens_out": answer.usage.tokens_out,
                "cost_usd": answer.cost_usd,
            }
        self._rollout.messages.append(row)


def _usual_order(seats: Sequence[Seat]) -> list[str]:
    """Scripted seats, then live partners, then the model under test."""
    rank = {"scripted": 0, "partner": 1, "under_test": 2}
    return [s.id for s in sorted(seats, key=lambda s: rank[s.kind])]


def _wire(call_id: str, name: str, arguments_json: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments_json}}


def _split(call: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    name, arguments = next(iter(call.items()))
    return name, json.dumps(arguments, ensure_ascii=False)
