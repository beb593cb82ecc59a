"""What the page of one run is made from: its rows. How they are shown is the business of `markup` and `plain`.

Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class View:
    """What a benchmark adds to the page of one of its runs (`cilab.collect.spec.Benchmark.view`).

    Attributes
    ----------
    facts : column of runs -> (its name on the page, its value in words; None is not shown). The benchmark's own columns
        that are not among them are shown as they are.
    maps : (whose it is, map) for a section of maps; a map's lines are symbols with blanks between them.
    maps_title : heading of that section.
    turns : every message is a turn of its own, so that rounds have no headings.
    """

    facts: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    maps: Sequence[tuple[str, str]] = ()
    maps_title: str = "Maps"
    turns: bool = False


@dataclass(frozen=True, repr=False)
class Rows:
    """The rows of one run.

    Attributes
    ----------
    run : the row of the runs table (of a blind page: only what may be known).
    messages, labels, calls, annotations, reviews : the run's rows of those tables, in order.
    task : the task's row, or empty where the study has none.
    simulated : True when any agent of the run is simulated; the page says so.
    notes : sentences on what is odd about the data.
    marked : index of the message that is to be labelled, or None.
    blind : True where the page keeps verdict, labels, models and costs to itself.
    view : what the run's benchmark adds.
    """

    run: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]
    labels: Sequence[Mapping[str, Any]] = ()
    calls: Sequence[Mapping[str, Any]] = ()
    annotations: Sequence[Mapping[str, Any]] = ()
    reviews: Sequence[Mapping[str, Any]] = ()
    task: Mapping[str, Any] = field(default_factory=dict)
    simulated: bool = False
    notes: Sequence[str] = ()
    marked: int | None = None
    blind: bool = False
    view: View = View()

    @property
    def title(self) -> str:
        """One line: the run and its task."""
        what = "item" if self.blind else "run"
        return f"{what} {self.run['run_id']} · {self.run['task_id']}"
