"""What statistics take and what they give: rows with their origin in, a `Result` out.

May import `cilab.core` and `cilab.results`. Reads no file, calls no model, draws nothing: `Result.plot` looks its
figure up by name in `cilab.plots` when it is called, and that is the one door upwards. How a result is shown is its
`sheet()`, and how a sheet is shown stands in `cilab.results.sheet`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from cilab.core.errors import TableError
from cilab.core.frames import Provenance
from cilab.results.sheet import Interactive, Sheet, readable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What every statistic returns: a table, what it stands on, and what was left out.

    Attributes
    ----------
    table : polars DataFrame, tidy; the columns are the subclass's business.
    n_used : number of rows of the input that entered the estimate.
    n_left_out : reason -> number of rows that did not. `n_used` and these add up to the rows read.
    provenance : where the rows come from.
    parameters : every argument of the call by value, JSON-able (see `cilab.results.estimator`), and what the estimator
        settled where nothing was asked.
    made_by : name of the estimator that made it, as on the face; `cilab.rerun` repeats it.
    caption : one or two sentences: what is shown, in which unit, with which interval.
    """

    table: pl.DataFrame
    n_used: int
    n_left_out: Mapping[str, int]
    provenance: Provenance
    parameters: Mapping[str, Any] = field(default_factory=dict)
    made_by: str = ""
    caption: str = ""

    #: Name of the figure in `cilab.plots`; None where there is none.
    figure: ClassVar[str | None] = None
    #: Heading of the printed table.
    title: ClassVar[str] = ""

    def plot(self, **kwargs: Any) -> Any:
        """Draw this result: `cilab.plots.<figure>(self, **kwargs)`. Returns matplotlib Axes (or a Figure)."""
        if self.figure is None:
            raise TableError(f"{type(self).__name__} has no figure; its numbers are in .table")
        return getattr(importlib.import_module("cilab.plots"), self.figure)(self, **kwargs)

    def to_pandas(self) -> pd.DataFrame:
        """`.table` as a pandas DataFrame."""
        return self.table.to_pandas()

    def interactive(self) -> Interactive:
        """`.table` to sort, search and page through in a notebook; nothing is loaded from the network."""
        label = " [SIMULATED AGENTS]" if self.provenance.simulated else ""
        return Interactive(self.table, f"{self.title}{label}. {self.caption}".strip(". "))

    def sheet(self) -> Sheet:
        """This result as it is shown: in a notebook, in print (`.sheet().gt()`) and in LaTeX (`.sheet().latex()`)."""
        return self.on_sheet(readable(self.table))

    def paper_sheet(self) -> Sheet:
        """The paper's table of this result, where it has other lines or columns than the notebook shows."""
        return self.sheet()

    def to_latex(self) -> str:
        """The sheet as LaTeX, for LuaLaTeX or XeLaTeX with `booktabs` and `caption`."""
        return self.sheet().latex()

    def on_sheet(
        self, cells: pl.DataFrame | Iterable[Mapping[str, str]], title: str | None = None, **in_print: Any
    ) -> Sheet:
        """Formatted lines with this result's title, caption and notes.

        Parameters
        ----------
        cells : frame of text, or lines with the same columns.
        title : another title.
        in_print : what `Sheet` has for print alone, such as `bold` and `spanner`; also `caption`, to have another.
        """
        return Sheet(
            title=self.title if title is None else title,
            cells=cells if isinstance(cells, pl.DataFrame) else pl.DataFrame(list(cells)),
            notes=tuple(self.notes()),
            simulated=self.provenance.simulated,
            **{"caption": self.caption} | in_print,
        )

    def notes(self) -> list[str]:
        """What was used, what was left out and why, and where the rows come from, in plain sentences."""
        out = [f"Used {self.n_used:,} rollouts."]
        left = {reason: n for reason, n in self.n_left_out.items() if n}
        if left:
            reasons = "; ".join(f"{n:,} {reason}" for reason, n in left.items())
            out.append(f"Left out {sum(left.values()):,}: {reasons}.")
        return [*out, self.provenance.line()]

    def __repr__(self) -> str:
        return repr(self.sheet())

    def _repr_html_(self) -> str:
        return self.sheet()._repr_html_()
