"""What statistics take and what they give: rows with their origin in, a `Result` out.

May import `cilab.core`. Reads no file, calls no model, draws nothing: `Result.plot` looks
its figure up by name in `cilab.plots` when it is called, and that is the one door upwards.
"""

from __future__ import annotations

import hashlib
import html
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from cilab.core.errors import TableError, nearest

if TYPE_CHECKING:
    import pandas as pd

#: How the names of simulated agents and of the pseudonyms in simulated data begin.
SIMULATED_PREFIXES = ("sim/", "sim:")
#: Red that is readable on the ground it stands on: the notebook's own, so that it follows a dark theme.
WARNING_INK = "var(--jp-error-color1, var(--vscode-errorForeground, #b2182b))"


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

    def display(self) -> pl.DataFrame:
        """The table as it is printed: formatted text, one row per line. Subclasses choose columns and their words."""
        return readable(self.table)

    def notes(self) -> list[str]:
        """What was used, what was left out and why, and where the rows come from, in plain sentences."""
        out = [f"Used {self.n_used:,} rollouts."]
        left = {reason: n for reason, n in self.n_left_out.items() if n}
        if left:
            reasons = "; ".join(f"{n:,} {reason}" for reason, n in left.items())
            out.append(f"Left out {sum(left.values()):,}: {reasons}.")
        return [*out, self.provenance.line()]

    def __repr__(self) -> str:
        shown = self.display()
        with pl.Config(
            tbl_rows=-1,
            tbl_cols=-1,
            tbl_width_chars=160,
            tbl_hide_column_data_types=True,
            tbl_hide_dataframe_shape=True,
        ):
            table = str(shown)
        head = [f"{self.title} [SIMULATED AGENTS]" if self.provenance.simulated else self.title]
        return "\n".join([*head, table, *([self.caption] if self.caption else []), *self.notes()])

    def _repr_html_(self) -> str:
        return html_table(
            self.display(),
            title=self.title,
            label="simulated agents" if self.provenance.simulated else None,
            caption=self.caption,
            notes=self.notes(),
        )


#: Letters from which on a text in a table is broken into lines.
_LONG = 50
#: How a column's name ends, and the unit that its heading gives.
_UNITS = {"pct": "(%)", "points": "(points)", "usd": "(USD)"}
_WORDS = {"lo": "low", "hi": "high", "n": "number", "r": "r", "p": "p", "tau": "tau", "id": "id"}
#: Columns of names, which are printed as they are written.
_NAMES = ("model", "effort", "arm", "row")


def heading(column: str) -> str:
    """The words for a column's name: `mean_value_pct` is "Mean value (%)", `n_tasks` is "Tasks"."""
    stem, _, last = column.rpartition("_")
    unit = _UNITS.get(last) if stem else None
    words = [_WORDS.get(w, w) for w in (stem if unit else column.removeprefix("n_")).split("_")]
    text = " ".join(words)
    return " ".join(filter(None, (text if text in ("r", "p") else text[:1].upper() + text[1:], unit)))


def number(value: float | None, digits: int = 1, missing: str = "") -> str:
    """`value` as it is printed everywhere: a real minus sign, no negative zero, commas between thousands.

    >>> number(-1234.56), number(-0.04), number(None)
    ('−1,234.6', '0.0', '')
    """
    if value is None:
        return missing
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if text.strip("-0.") else text.removeprefix("-")


def readable(table: pl.DataFrame) -> pl.DataFrame:
    """`table` as it is printed: words for headings and kinds, numbers as text, `yes` or nothing, a gap for null."""
    out = []
    for column, dtype in table.schema.items():
        cell = pl.col(column)
        if dtype.is_float():
            digits = 1 if column.rpartition("_")[2] in ("pct", "points") else 3
            cell = cell.map_elements(lambda v, d=digits: number(v, d), return_dtype=pl.String)
        elif dtype.is_integer():
            cell = cell.cast(pl.String).str.replace("-", "−", literal=True)
        elif dtype == pl.Boolean:
            cell = pl.when(cell).then(pl.lit("yes")).otherwise(pl.lit(""))
        elif dtype in (pl.String, pl.Categorical, pl.Enum) and column not in _NAMES and not column.endswith("_id"):
            cell = cell.cast(pl.String).str.replace_all("_", " ")
        else:
            cell = cell.cast(pl.String) if not dtype.is_nested() else cell
        out.append(cell.alias(heading(column)))
    return table.select(out).with_columns(pl.col(pl.String).fill_null(""))


#: itables paints a white ground where it has not seen the theme yet; the ground of the page is better.
_TABLE_STYLE = """<style>
.jp-RenderedHTML div.dt-container, .jp-RenderedHTML div.dt-container .dt-paging-button.current {background: none}
.jp-RenderedHTML div.dt-container :is(input, select) {background: none; color: inherit}
</style>"""


@dataclass(frozen=True, slots=True, repr=False)
class Interactive:
    """A table that a notebook shows with itables; elsewhere it prints as text.

    The table's script, about 1 MB, goes into the output with it. So it works offline and in a notebook that is opened
    again, where the notebook is trusted; reports for others are better served by the printed table.

    Attributes
    ----------
    table : polars DataFrame; floats are shown with 4 significant digits, lists as text.
    caption : what stands below it.
    """

    table: pl.DataFrame
    caption: str = ""

    def __repr__(self) -> str:
        return f"{self.table}\n{self.caption}".rstrip()

    def _ipython_display_(self) -> None:
        """Load the table's script and show the table; a shell without JavaScript gets text."""
        from IPython.display import HTML, display
        from itables import init_notebook_mode, show

        # Each time, not once: the output that held the script may have been cleared.
        init_notebook_mode(all_interactive=False, connected=False)
        display(HTML(_TABLE_STYLE))
        # All rows, whatever their size, and an id that follows from the content: the same table gives the same output.
        mark = hashlib.blake2b(repr((self.caption, self.table.to_dict(as_series=False))).encode(), digest_size=8)
        show(self._shown(), caption=self.caption, maxBytes=0, show_dtypes=False, table_id=f"cilab-{mark.hexdigest()}")

    def _shown(self) -> pl.DataFrame:
        lists = [c for c, dtype in self.table.schema.items() if isinstance(dtype, pl.List)]
        return self.table.with_columns(
            pl.col(pl.Float64, pl.Float32).round_sig_figs(4),
            *(pl.col(c).list.eval(pl.element().cast(pl.String)).list.join(", ") for c in lists),
        )


def html_table(
    table: pl.DataFrame, *, title: str, label: str | None = None, caption: str = "", notes: Sequence[str] = ()
) -> str:
    """`table` as HTML that reads well on light and dark grounds (it takes both colours from the page).

    The first column and long texts, which are broken into lines, are aligned left, all others right. Every text is
    escaped.
    """
    esc = html.escape
    rule = "border-bottom:1px solid color-mix(in srgb, currentColor 35%, transparent)"
    cell = "padding:.2em .6em;border:0;font-variant-numeric:tabular-nums;background:none;vertical-align:top"
    tag = (
        f'<span style="border:1px solid;color:{WARNING_INK};border-radius:3px;padding:0 .4em;margin-left:.6em;'
        f'font-size:.8em;font-weight:600;text-transform:uppercase">{esc(label)}</span>'
        if label
        else ""
    )

    def row(values: Sequence[Any], kind: str, style: str) -> str:
        cells = []
        for i, value in enumerate(values):
            text = "" if value is None else str(value)
            long = len(text) > _LONG
            place = "white-space:normal;min-width:18em" if long else "white-space:nowrap"
            place += f";text-align:{'left' if i == 0 or long else 'right'}"
            cells.append(f'<{kind} style="{cell};{style};{place}">{esc(text)}</{kind}>')
        return f'<tr style="background:none">{"".join(cells)}</tr>'

    head = row(table.columns, "th", f"{rule};font-weight:600")
    body = "\n".join(row(values, "td", "") for values in table.iter_rows())
    above = f'<div style="font-weight:600;margin:.3em 0">{esc(title)}{tag}</div>' if title else ""
    small = "".join(f'<div style="font-size:.85em;opacity:.75">{esc(note)}</div>' for note in notes)
    return (
        f'<div class="cilab-result" style="overflow-x:auto;max-width:100%">'
        f"{above}"
        f'<table style="border-collapse:collapse;border:0;margin:.3em 0">'
        f"<thead>{head}</thead><tbody>\n{body}\n</tbody></table>"
        f'<div style="margin:.3em 0;max-width:60em;font-size:.92em">{esc(caption)}</div>{small}</div>'
    )


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
