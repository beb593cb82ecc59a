"""Closed lists: the words that a column may hold, and what each means.

May import `cilab.core.errors`. Here stand the words that every benchmark shares; a benchmark's own are in its `terms`.
The meanings are read by the page of a run and by the docs: they are written once, here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cilab.core.errors import TableError, nearest


class Words(tuple[str, ...]):
    """A closed list: a tuple of its words that knows its name and what each word means.

    Attributes
    ----------
    name : what one of the words is called, in the singular.
    meaning : word -> its meaning, in the order of the words.

    Examples
    --------
    >>> SIZES = Words("size", small="up to four seats", large="more")
    >>> SIZES, SIZES.meaning["large"]
    (('small', 'large'), 'more')
    >>> SIZES.check("larg")
    Traceback (most recent call last):
    cilab.core.errors.TableError: no size is called 'larg'. Did you mean large?
    """

    name: str
    meaning: Mapping[str, str]

    def __new__(cls, name: str, listed: Mapping[str, str] | None = None, /, **meaning: str) -> Words:
        """`listed` takes words that are no Python names; they come first."""
        both = {**(listed or {}), **meaning}
        self = super().__new__(cls, both)
        self.name, self.meaning = name, both
        return self

    def __add__(self, more: Any) -> Words:
        """The words of both, each once and as the first list means it."""
        other = more.meaning if isinstance(more, Words) else dict.fromkeys(more, "")
        return Words(self.name, {**self.meaning, **{w: m for w, m in other.items() if w not in self}})

    def __reduce__(self) -> tuple[Any, ...]:
        return Words, (self.name, dict(self.meaning))

    def check(self, *words: str) -> None:
        """Refuse a word that is not in the list.

        Raises
        ------
        TableError
            Names the word and the nearest ones.
        """
        for word in words:
            if word not in self:
                raise TableError(f"no {self.name} is called {word!r}.{nearest(word, self)}")


STATUSES = Words(
    "status",
    ok="played to its end and scored",
    refused="the provider of the model under test refused: not a fail, the task is out for that row",
    gated_out="its condition was not met: planned, not played, not paid, not scored",
    error="the infrastructure failed: tried again on the next run, never in a score",
)
SEAT_KINDS = Words(
    "kind of seat",
    under_test="the model that is measured",
    scripted="a teammate by script, who never generates text",
    partner="another model in the team",
    environment="what happens around the seats",
    user="who gives the task",
    grader="who judges what was said",
)
EVENTS = Words(
    "kind of event",
    message="something said",
    tool_call="a tool asked for",
    tool_result="what it returned",
    notice="what the environment tells the seats",
)
PURPOSES = Words(
    "purpose",
    play="to play the rollout",
    judge="to label a message while it is played, or again",
    grade="to read the outcome off a transcript",
    annotate="to look for features in a transcript",
)
SPLITS = Words("split", public="published with its checks", held_out="kept back")
STRENGTHS = Words("strength", strong="", medium="", weak="")

#: What makes a row of a leaderboard.
ROW = ("model", "effort", "arm")
#: How the names of simulated agents begin: of one that plays, and of one in a data set that was made.
SIM, PSEUDONYM = "sim/", "sim:"


def is_simulated(model: str) -> bool:
    """Whether a model's name is that of a simulated agent.

    >>> is_simulated("sim/strong"), is_simulated("sim:F1"), is_simulated("simile/large")
    (True, True, False)
    """
    return model.startswith((SIM, PSEUDONYM))


def check_statuses(there: Iterable[str], data: Any) -> None:
    """Refuse a status that is not in the list; where a newer version wrote `data`, an opened study, it is just no `ok`.

    Raises
    ------
    TableError
        Names the status.
    """
    stray = sorted(set(there) - set(STATUSES))
    if stray and not getattr(data, "_newer", False):
        raise TableError(f"runs: status is {stray[0]!r}, not one of {', '.join(STATUSES)}")
