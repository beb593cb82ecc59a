"""What an estimator of the ledger reads and returns.

May import `cilab.datasets`, `cilab.core`, `cilab.results` and of `cilab.stats` the public estimators. Reads tables that
are there and scores nothing itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import polars as pl

from cilab import datasets, stats
from cilab.core.errors import TableError
from cilab.core.frames import is_simulated, read_rows
from cilab.stats.maze.grounding import STRATEGY

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
    def _results(self) -> dict[Any, Any]:
        """Results that several claims share, by the call that made them."""
        return {}

    def result(self, function: str, **settings: Any) -> Any:
        """`cilab.<function>(data, ...)`, computed at its first use. What it refuses is a missing input."""
        key = (function, *sorted((k, str(v)) for k, v in settings.items()))
        if key not in self._results:
            try:
                self._results[key] = getattr(stats, function)(self.data, **settings)
            except TableError as e:
                self._results[key] = MissingInput(textwrap.shorten(str(e), 200, placeholder=" ..."))
        if isinstance(self._results[key], MissingInput):
            raise self._results[key]
        return self._results[key]

    def with_tables(self) -> Inputs:
        """The same, where the data are a study or data set with its tables.

        Raises
        ------
        MissingInput
            The data are a table of runs.
        """
        for table in ("tasks", "labels"):
            if not hasattr(self.data, table):
                raise MissingInput(f"a study with its {table} ({self.name} is a table of runs)")
        return self

    @cached_property
    def _annotators(self) -> list[str]:
        """Who annotated the strategy of maze rollouts, in the order of the names."""
        notes = self.data.annotations.filter(pl.col("feature") == STRATEGY)
        return sorted(notes.select("annotator").unique().collect()["annotator"])

    def annotator(self, which: int = 0) -> str:
        """The main annotator of maze rollouts, who is the first by name, or the second (1).

        Raises
        ------
        MissingInput
            There is none.
        """
        if len(self._annotators) <= which:
            raise MissingInput(f"{'a second annotator' if which else 'annotations'} of the strategy in {self.name}")
        return self._annotators[which]

    @cached_property
    def half_points(self) -> bool:
        """Whether any run was scored between 0 and 1, as conflict runs that hold firm are in the paper."""
        scores = read_rows(self.data, ("score",))[0]["score"]
        return bool(((scores > 0) & (scores < 1)).any())

    @property
    def truths(self) -> Mapping[str, pl.DataFrame]:
        """The parameters of simulated data, by table; none of other data."""
        return getattr(self.data, "truth", None) or {}

    def truth(self, table: str, **where: str) -> float | None:
        """One of these parameters: `value` of the one row of `table` with these columns; None where none is."""
        frame = self.truths.get(table)
        rows = None if frame is None else frame.filter(**where)
        return float(rows["value"][0]) if rows is not None and rows.height == 1 else None

    def table(self, name: str) -> pl.DataFrame:
        """A published table."""
        return datasets.published_table(name)

    def claim(self, claim_id: str) -> float:
        """The published value of another claim."""
        return float(self.table("claims").row(by_predicate=pl.col("id") == claim_id, named=True)["value"])
