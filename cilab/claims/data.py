"""What an estimator of the ledger reads and returns.

May import `cilab.datasets`, `cilab.core` and `cilab.stats`. Reads tables that are there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from cilab import datasets
from cilab.core.errors import TableError
from cilab.core.frames import read_rows
from cilab.core.vocabulary import is_simulated

if TYPE_CHECKING:
    from cilab.stats.maze.disagreement import DisagreementResult
    from cilab.stats.maze.grounding import GroundingResult
    from cilab.stats.maze.mediation import MediationResult

Kind = Literal["real", "published", "simulated", "design"]
Relation = Literal["equal", "at least"]
Source = Literal["runs", "tasks", "mazes", "tables", "counts", "design"]

#: How far a value on other runs than the paper's may be away and still be near, by unit. 5 points is half the width
#: of a typical interval of an overall score, and a weighted outcome is a fraction of the same range; counts and all
#: other units: a tenth of the published value.
OTHER_DATA_TOLERANCE = {
    "points": 5.0,
    "percent": 5.0,
    "weighted outcome": 0.05,
    "r": 0.1,
    "rho": 0.1,
    "tau": 0.1,
    "kappa": 0.1,
    "ICC": 0.1,
}


class MissingInput(Exception):
    """The data at hand lack what the estimator needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an estimator found: one number for each part of the claim that it computes, and a remark.

    `tolerance` stands where it follows from the data (two standard errors of ours), and goes before the estimator's.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    note: str = ""
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Estimator:
    """How one claim is computed.

    Attributes
    ----------
    function : the function that does the work, by its full name.
    source : `runs` (the data given, else the published round, else the simulated release for what the round lacks),
        `tasks` (results and labels by task: the data given, else the simulated release), `mazes` (the data given where
        they have annotations, else the simulated mazes), `tables` (published tables), `counts` (numbers printed beside
        the claim) or `design` (defaults of this package).
    compute : the call.
    tolerance : absolute; None is half a unit of the last printed digit, or for runs `OTHER_DATA_TOLERANCE`.
    relation : `at least` where the claim is a lower bound.
    why : a remark that always holds.
    simulated : a remark where the data are simulated: why the simulation need not carry the number.
    """

    function: str
    source: Source
    compute: Callable[[Inputs], Answer]
    tolerance: float | None = None
    relation: Relation = "equal"
    why: str = ""
    simulated: str = ""


@dataclass(frozen=True)
class Inputs:
    """What estimators may read: the runs of a data set, results on them that several need, the published tables.

    `given` is True where the caller named the data. Everything is computed once per ledger.
    """

    data: Any
    name: str
    kind: Kind
    given: bool = True

    @classmethod
    def of(cls, data: Any, *, given: bool = True) -> Inputs:
        """The data with their name and kind.

        Raises
        ------
        TableError
            `data` is no runs table.
        """
        rows, source = read_rows(data, ("model",))
        kind: Kind = "published" if getattr(data, "kind", None) == "published" else "real"
        if source.simulated or any(is_simulated(m) for m in rows["model"].unique()):
            kind = "simulated"
        return cls(data, source.study, kind, given)

    def read_by(self, source: Source) -> Inputs:
        """The inputs for estimators of one source; see `Estimator`."""
        return {"tasks": lambda: self.tasks, "mazes": lambda: self.mazes}.get(source, lambda: self)()

    @cached_property
    def tasks(self) -> Inputs:
        """The data given, or the simulated release."""
        return self if self.given else Inputs.of(datasets.simulated_release())

    @cached_property
    def mazes(self) -> Inputs:
        """The data given where they have annotations, or the simulated mazes."""
        own = self.given and hasattr(self.data, "annotations") and self.data.annotations.head(1).collect().height > 0
        return self if own else Inputs.of(datasets.simulated_mazes())

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One line per row (model, effort, arm) and dimension: see `cilab.claims.cells`."""
        from cilab.claims.scores import cells

        return cells(self.data)

    @cached_property
    def cached(self) -> dict[Any, Any]:
        """Results that several claims share, by the call that made them."""
        return {}

    def once(self, function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """`function(data, ...)`, computed at its first use. What it refuses is a missing input."""
        key = (
            function.__module__,
            function.__name__,
            *map(id, args),
            *sorted((k, str(v)) for k, v in settings.items()),
        )
        if key not in self.cached:
            try:
                self.cached[key] = function(self.data, *args, **settings)
            except TableError as e:
                self.cached[key] = MissingInput(textwrap.shorten(str(e), 200, placeholder=" ..."))
        if isinstance(self.cached[key], MissingInput):
            raise self.cached[key]
        return self.cached[key]

    def annotators(self) -> list[str]:
        """Who annotated the strategy of maze rollouts, in the order of the names; the first is the main annotator."""
        from cilab.stats.maze.grounding import STRATEGY

        notes = self.data.annotations.filter(pl.col("feature") == STRATEGY)
        return sorted(notes.select("annotator").unique().collect()["annotator"])

    def grounding(self) -> GroundingResult:
        """Grounding by the main annotator."""
        from cilab.stats.maze.grounding import grounding

        return self.once(grounding, annotator=self._annotator(0))

    def mediation(self, which: int = 0) -> MediationResult:
        """Mediation by the main (0) or the second (1) annotator."""
        from cilab.stats.maze.mediation import mediation

        return self.once(mediation, annotator=self._annotator(which))

    def disagreement(self) -> DisagreementResult:
        """Disagreement by all annotators who looked for it."""
        from cilab.stats.maze.disagreement import disagreement

        return self.once(disagreement)

    def _annotator(self, which: int) -> str:
        names = self.annotators()
        if len(names) <= which:
            raise MissingInput(f"{'a second annotator' if which else 'annotations'} of the strategy in {self.name}")
        return names[which]

    def truth(self, table: str, **where: str) -> float | None:
        """A parameter of simulated data: `value` of the one row of `table` with these columns; None where none is."""
        frame = (getattr(self.data, "truth", None) or {}).get(table)
        rows = None if frame is None else frame.filter(**where)
        return float(rows["value"][0]) if rows is not None and rows.height == 1 else None

    def table(self, name: str) -> pl.DataFrame:
        """A published table."""
        return datasets.published_table(name)

    def claim(self, claim_id: str) -> float:
        """The published value of another claim."""
        return float(self.table("claims").row(by_predicate=pl.col("id") == claim_id, named=True)["value"])
