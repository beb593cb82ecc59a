"""The scripted teammate: fixed lines, the next one chosen by the judges' labels. It never makes up a word.

May import `cilab.collect.spec` and its own folder. Pure: no model, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cilab.teamwork.task import Script, State


@dataclass(frozen=True, slots=True)
class Votes:
    """What the judges said of one message.

    `by_rater` maps referee, second and (where they differ) third to a label; `final` is what two agree on, else the
    third's.
    """

    by_rater: Mapping[str, str]

    @property
    def final(self) -> str:
        """The final label (DESIGN, judges): what referee and second agree on, else the third's."""
        referee, second = self.by_rater["referee"], self.by_rater["second"]
        return referee if referee == second else self.by_rater.get("third", referee)

    def count(self, labels: Sequence[str]) -> int:
        """How many judges chose one of these labels."""
        return sum(label in labels for label in self.by_rater.values())


@dataclass(frozen=True, slots=True)
class Branch:
    """One step of the script: from where, on what, to where. `held_back`: a label led on, but one judge is not two."""

    source: str
    label: str
    votes: Mapping[str, str]
    target: str | None
    held_back: bool

    def as_dict(self) -> dict[str, Any]:
        """For the audit row."""
        return {
            "from": self.source,
            "label": self.label,
            "votes": dict(self.votes),
            "to": self.target,
            "held_back": self.held_back,
        }


@dataclass(slots=True)
class Scripted:
    """Where a script stands in one run."""

    script: Script
    at: str | None = None
    branches: list[Branch] = field(default_factory=list)

    def open(self) -> State:
        """The first line."""
        self.at = self.script.opens
        return self.state()

    def state(self) -> State:
        """The state that the script is in."""
        return self.script.states[str(self.at)]

    def answer(self, votes: Votes) -> State | None:
        """Step on a message's votes; None when the teammate has nothing more to say.

        A state that gives way, or does a deed on the model's word, takes two of three judges whose labels lead there.
        """
        source, state = str(self.at), self.state()
        if not state.next:
            return None
        target = state.next.get(votes.final, state.next["default"])
        held_back = False
        if self.script.states[target].needs_two:
            leading = [label for label, to in state.next.items() if to == target]
            if votes.count(leading) < 2:
                target, held_back = state.next["default"], True
        self.branches.append(Branch(source, votes.final, votes.by_rater, target, held_back))
        self.at = target
        return self.state()
