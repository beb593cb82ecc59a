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
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from cilab.core.errors import TableError
from cilab.core.frames import Provenance

if TYPE_CHECKING:
    import pandas as pd

#: Red that is readable on the ground it stands on: the notebook's own, so that it follows a dark theme.
WARNING_INK = "var(--jp-error-color1, var(--vscode-errorForeground, #b2182b))"


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
