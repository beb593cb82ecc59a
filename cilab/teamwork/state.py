"""What is true at the end of a run, as far as a check may look at it.

May import its own folder only. Filled by `play` and `tools`, read by `checks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cilab.teamwork.sandbox import Workspace


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the model under test told others: said at the table, in a direct message, or by mail."""

    round: int
    to: tuple[str, ...]
    text: str
    mail: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """An action of the task that the model took."""

    round: int
    name: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class TeamState:
    """The state of one run.

    Attributes
    ----------
    round : the current round, from 1.
    told, done : what the model told whom, and which actions it took.
    submission : the form as handed in, or None.
    deeds, released : deeds of the scripted teammate and facts that it gave away, with their round.
    labels : (round, final label) of each judged message.
    gave_way : two of three judges saw a message give way.
    workspace : the sandbox (it knows which file was opened in which round), or None.
    offers : the teammate's own offers, as the pieces left to the model; the last one stands.
    proposals : the model's proposals, likewise.
    deal : the split that was agreed on, by the model's pieces; None without one.
    took_offer, offered_to_take : the model took one of the teammate's offers, or said or proposed that it would.
    ended : submitted, deal, left, action or rounds; None while it goes on.
    """

    round: int = 1
    told: list[Told] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    submission: dict[str, Any] | None = None
    deeds: dict[str, int] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)
    labels: list[tuple[int, str]] = field(default_factory=list)
    gave_way: bool = False
    workspace: Workspace | None = None
    offers: list[dict[str, int]] = field(default_factory=list)
    proposals: list[dict[str, int]] = field(default_factory=list)
    deal: dict[str, int] | None = None
    took_offer: bool = False
    offered_to_take: bool = False
    ended: str | None = None

    @property
    def over(self) -> bool:
        """The run has ended."""
        return self.ended is not None

    def heard_by(self, who: Sequence[str], *, how: str = "any", by_round: int | None = None) -> list[str]:
        """What the model told any of `who` (`team`: what was said to the whole table)."""
        return [
            t.text
            for t in self.told
            if set(t.to) & set(who)
            and (how == "any" or t.mail == (how == "mail"))
            and (by_round is None or t.round <= by_round)
        ]
