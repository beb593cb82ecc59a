"""What statistics take and what they give: rows with their origin in, a `Result` out.

May import `cilab.core` and `cilab.results`. Reads no file, calls no model, draws nothing: `Result.plot` looks its
figure up by name in `cilab.plots` when it is called, and that is the one door upwards. How a result is shown is its
`sheet()`, and how a sheet is shown stands in `cilab.results.sheet`.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.results.sheet import Interactive, Sheet, readable

if TYPE_CHECKING:
    import pandas as pd

#: How the names of simulated agents and of the pseudonyms in simulated data begin.
SIMULATED_PREFIXES = ("sim/", "sim:")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result's rows come from.

    Attributes
    ----------
    study : name of the study, or the names found in the rows, joined by " + ".
    data_hash : hash of the data; for a bare frame, of the rows that were read, in any order.
    simulated : True when any agent in the data is simulated.
    last_finished_at : when the last rollout finished (UTC), or None where the data do not say.
    code_version : version of cilab that computed the result.
    """

    study: str
    data_hash: str
    simulated: bool
    last_finished_at: datetime | None
    code_version: str

    def line(self) -> str:
        """The small print: one sentence."""
        when = self.last_finished_at
        last = f"last rollout finished {_minute(when)}" if when else "no finishing times"
        return f"Study {self.study}, data {self.data_hash[:12]}, {last}, cilab {self.code_version}."

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-able values, for a file's metadata."""
        last = self.last_finished_at
        return {
            "study": self.study,
            "data_hash": self.data_hash,
            "simulated": self.simulated,
            "last_finished_at": None if last is None else last.astimezone(UTC).isoformat(),
            "code_version": self.code_version,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What every statistic returns: a table, what it stands on, and what was left out.

    Attributes
    ----------
    table : polars DataFrame, tidy; the columns are the subclass's business.
    n_used : number of rows of the input that entered the estimate.
    n_left_out : reason -> number of rows that did not. `n_used` and these add up to the rows read.
    provenance : where the rows come from.
    parameters : the arguments of the call, JSON-able.
    caption : one or two sentences: what is shown, in which unit, with which interval.
    """

    table: pl.DataFrame
    n_used: int
    n_left_out: Mapping[str, int]
    provenance: Provenance
    parameters: Mapping[str, Any] = field(default_factory=dict)
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
        own = type(self).display is Result.display
        return self.on_sheet(readable(self.table) if own else self.display())

    def paper_sheet(self) -> Sheet:
        """The paper's table of this result, where it has other lines or columns than the notebook shows."""
        return self.sheet()

    def to_latex(self) -> str:
        """The sheet as LaTeX, for LuaLaTeX or XeLaTeX with `booktabs` and `caption`."""
        return self.sheet().latex()

    def on_sheet(
        self, cells: pl.DataFrame | Sequence[Mapping[str, str]], title: str | None = None, **in_print: Any
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

    def display(self) -> pl.DataFrame:
        """The cells of the sheet: formatted text, one row per line."""
        return self.sheet().cells

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


def read_rows(data: Any, required: Sequence[str], optional: Sequence[str] = ()) -> tuple[pl.DataFrame, Provenance]:
    """The wanted columns of runs, in memory, and where they come from.

    Parameters
    ----------
    data : polars DataFrame or LazyFrame, pandas DataFrame, or an opened study (anything with a LazyFrame `.runs`;
        its `.name`, `.data_hash`, `.simulated` and `.last_finished_at` are the provenance).
    required : columns that must be there.
    optional : columns that are read where they are there, and null where not.

    Returns
    -------
    rows : DataFrame with the columns `required + optional`.
    provenance : of the study, or read off the rows.

    Raises
    ------
    TableError
        `data` is something else, has no rows, or lacks a required column.
    """
    study = None
    if not isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        if type(data).__module__.partition(".")[0] == "pandas":
            data = _from_pandas(data, {*required, *optional, "study", "finished_at"})
        elif hasattr(data, "runs"):
            study, data = data, data.runs
    if not isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        raise TableError(
            f"runs must be a polars or pandas DataFrame or an opened study, not {type(data).__name__}"
            + ("; open the study first: cilab.open(path)" if isinstance(data, str) else "")
        )
    lazy = data.lazy()
    there = lazy.collect_schema().names()
    missing = [c for c in required if c not in there]
    if missing:
        hints = "".join(nearest(c, there, 1) for c in missing)
        raise TableError(f"runs: missing column {', '.join(missing)}.{hints}")
    wanted = [*required, *(c for c in optional if c not in required)]
    rows = lazy.select([c for c in dict.fromkeys([*wanted, "study", "finished_at"]) if c in there]).collect()
    if rows.height == 0:
        raise TableError("runs: no rows; nothing has been collected yet, or a filter left nothing")
    source = _of_study(study, rows) if study is not None else _of_rows(rows)
    gone = [pl.lit(None).alias(c) for c in wanted if c not in there]
    return rows.with_columns(gone).select(wanted), source


def _from_pandas(data: Any, wanted: set[str]) -> pl.DataFrame:
    """The wanted columns only: a strange object column elsewhere is no concern of ours."""
    try:
        return pl.from_pandas(data[[c for c in data.columns if c in wanted]])
    except (pl.exceptions.PolarsError, TypeError, ValueError, ArithmeticError) as e:
        raise TableError(f"runs: a pandas column cannot be read: {_first_line(e)}") from None


def _of_study(study: Any, rows: pl.DataFrame) -> Provenance:
    return Provenance(
        study=str(getattr(study, "name", "unnamed")),
        data_hash=str(getattr(study, "data_hash", None) or _hash(rows)),
        simulated=bool(getattr(study, "simulated", False)) or _any_simulated(rows),
        last_finished_at=getattr(study, "last_finished_at", None) or _last(rows),
        code_version=_code_version(),
    )


def _of_rows(rows: pl.DataFrame) -> Provenance:
    names = sorted(rows["study"].drop_nulls().unique().to_list()) if "study" in rows.columns else []
    return Provenance(
        study=" + ".join(map(str, names)) or "unnamed",
        data_hash=_hash(rows),
        simulated=_any_simulated(rows),
        last_finished_at=_last(rows),
        code_version=_code_version(),
    )


def is_simulated(name: str | None) -> bool:
    """Whether `name` is a simulated agent's (`sim/strong`) or a pseudonym of simulated data (`sim:F1`)."""
    return name is not None and name.startswith(SIMULATED_PREFIXES)


def _any_simulated(rows: pl.DataFrame) -> bool:
    return any(
        is_simulated(name)
        for c in ("model", "partner_model")
        if c in rows.columns
        for name in rows[c].cast(pl.String, strict=False).unique()
    )


def _hash(rows: pl.DataFrame) -> str:
    """Hash of the rows' content; the order of rows and columns does not matter."""
    plain = rows.select(_as_text(c, rows.schema[c]) for c in sorted(rows.columns))
    text = plain.sort(plain.columns, nulls_last=True).write_csv(null_value="\\N")
    return hashlib.blake2b(text.encode(), digest_size=15).hexdigest()


def _as_text(column: str, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return pl.col(column).list.eval(pl.element().cast(pl.String)).list.join("\x1f")
    return pl.col(column).cast(pl.String, strict=False)


def _last(rows: pl.DataFrame) -> datetime | None:
    last = rows["finished_at"].max() if "finished_at" in rows.columns else None
    if not isinstance(last, datetime):
        return None
    return last if last.tzinfo else last.replace(tzinfo=UTC)


def _code_version() -> str:
    from cilab.core.version import __version__

    return __version__


def _minute(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
