"""A sheet: a result as it is shown. The notebook, print and LaTeX say the same cells, because all come from here.

May import `cilab.core` and `cilab.results.numbers`. Computes nothing: cells are text that a result wrote. Whatever a
text holds, it is escaped where it is shown.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core.errors import TableError
from cilab.results.numbers import MINUS, NONE, number

if TYPE_CHECKING:
    from great_tables import GT

#: Red that is readable on the ground it stands on: the notebook's own, so that it follows a dark theme.
WARNING_INK = "var(--jp-error-color1, var(--vscode-errorForeground, #b2182b))"

#: First of the notes in print where agents are simulated.
SIMULATED_NOTE = "SIMULATED AGENTS: these data are, in whole or in part, from simulated agents."
#: Stand around a bold cell until LaTeX is written: private characters, which no text needs.
_BOLD_ON, _BOLD_OFF = "\ue000", "\ue001"
#: How a cell of numbers begins: `51.2 ± 3.1`, `−0.15 [−0.30, 0.02]`, `× 2.1`, `<0.001`, `≤ 0.01`, a dash.
_NUMBER = re.compile(rf"[+{MINUS}×<≤\[]? ?\d|{NONE}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Sheet:
    """One table as it is shown: what a result's `sheet()` returns.

    It prints as text, a notebook shows it, `gt()` is for print and `latex()` for a paper.

    Attributes
    ----------
    title : heading.
    cells : DataFrame of formatted text, one column per heading.
    caption : a sentence or two: what is shown, in which unit, with which interval.
    notes : small print, a sentence each.
    simulated : whether any agent in the data is simulated; all views say so.
    stub : in print, the column that names the rows; None takes the first that is not `group`.
    group : in print, the column whose values become headings between the rows.
    bold : in print, column -> its rows that are bold.
    bold_words : in print, what bold means.
    spanner : in print, a heading over several columns, and these.
    headings : in print, column -> heading, where it is another one than in the notebook.
    """

    title: str
    cells: pl.DataFrame
    caption: str = ""
    notes: tuple[str, ...] = ()
    simulated: bool = False
    stub: str | None = None
    group: str | None = None
    bold: Mapping[str, Sequence[int]] = field(default_factory=dict)
    bold_words: str = ""
    spanner: tuple[str, Sequence[str]] | None = None
    headings: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        with pl.Config(
            tbl_rows=-1,
            tbl_cols=-1,
            tbl_width_chars=160,
            fmt_str_lengths=60,
            tbl_hide_column_data_types=True,
            tbl_hide_dataframe_shape=True,
        ):
            table = str(self.cells)
        head = [f"{self.title} [SIMULATED AGENTS]" if self.simulated else self.title]
        return "\n".join([*head, table, *([self.caption] if self.caption else []), *self.notes])

    def _repr_html_(self) -> str:
        return html_table(
            self.cells,
            title=self.title,
            label="simulated agents" if self.simulated else None,
            caption=self.caption,
            notes=self.notes,
        )

    def gt(self) -> GT:
        """The sheet as a great_tables table, to print or to style further; `.as_raw_html()` of it is HTML.

        Raises
        ------
        TableError
            There are no rows.
        """
        from great_tables import loc, style

        gt = self._gt(self._printed())
        for column, rows in self._bold_cells().items():
            gt = gt.tab_style(style.text(weight="bold"), loc.body(columns=[column], rows=rows))
        # A number and its interval stay in one line.
        return gt.tab_options(data_row_padding="3px", table_additional_css=[".gt_right {white-space: nowrap}"])

    def latex(self) -> str:
        """The sheet for a document with `booktabs` and `caption`, by LuaLaTeX or XeLaTeX: signs such as ± stay.

        great_tables escapes texts, and sets headings between rows and over columns. Added here: bold cells, and braces
        before a star that begins a line, which the line break before it would swallow.

        Raises
        ------
        TableError
            There are no rows.
        """
        cells = self._printed()
        for column, rows in self._bold_cells().items():
            is_bold = pl.int_range(pl.len()).is_in(rows)
            bold = pl.format(f"{_BOLD_ON}{{}}{_BOLD_OFF}", pl.col(column))
            cells = cells.with_columns(pl.when(is_bold).then(bold).otherwise(pl.col(column)).alias(column))
        text = self._gt(cells).as_latex().replace(_BOLD_ON, r"\textbf{").replace(_BOLD_OFF, "}")
        return re.sub(r"^\*", "{}*", text, flags=re.MULTILINE).rstrip() + "\n"

    def _stub(self) -> str:
        return self.stub or next(c for c in self.cells.columns if c != self.group)

    def _bold_cells(self) -> dict[str, list[int]]:
        """What is bold, by the columns and rows that there are."""
        return {c: sorted(rows) for c, rows in self.bold.items() if c in self.cells.columns and len(rows)}

    def _printed(self) -> pl.DataFrame:
        """The cells, with a dash for a gap among numbers."""
        plain = pl.all().cast(pl.String).fill_null("").str.replace_all(f"[{_BOLD_ON}{_BOLD_OFF}]", "")
        cells = _lists_as_text(self.cells).with_columns(plain)
        return cells.with_columns(pl.col(self._of_numbers()).replace("", NONE))

    def _of_numbers(self) -> list[str]:
        """Columns, beside those of names, in which most of what is not a gap begins as a number does."""
        plain = [c for c in self.cells.columns if c not in (self._stub(), self.group)]
        found = []
        for column in plain:
            there = [text for text in _lists_as_text(self.cells)[column] if text]
            if 2 * sum(_NUMBER.match(text) is not None for text in there) > len(there):
                found.append(column)
        return found

    def _gt(self, cells: pl.DataFrame) -> GT:
        from great_tables import GT

        if not cells.height:
            raise TableError(f"nothing to print: {self.title} has no rows")
        stub = self._stub()
        digest = hashlib.blake2b(repr((self.title, cells.to_dict(as_series=False))).encode(), digest_size=6)
        gt = GT(cells, rowname_col=stub, groupname_col=self.group, id=f"cilab-{digest.hexdigest()}")
        gt = gt.tab_header(title=self.title).tab_stubhead(label=self.headings.get(stub, stub))
        plain = [c for c in cells.columns if c not in (stub, self.group)]
        gt = gt.cols_label({c: self.headings.get(c, c) for c in plain})
        numbers = self._of_numbers()
        for side, columns in (("right", numbers), ("left", [c for c in plain if c not in numbers])):
            gt = gt.cols_align(side, columns) if columns else gt
        if self.spanner is not None:
            gt = gt.tab_spanner(self.spanner[0], list(self.spanner[1]))
        bold = f"Bold: {self.bold_words}." if self._bold_cells() else ""
        for note in filter(None, [SIMULATED_NOTE if self.simulated else "", self.caption, bold, *self.notes]):
            gt = gt.tab_source_note(note)
        return gt.tab_options(table_font_size="13px")


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


def readable(table: pl.DataFrame) -> pl.DataFrame:
    """`table` as it is printed: words for headings and kinds, numbers as text, `yes` or nothing, a gap for null."""
    out = []
    for column, dtype in table.schema.items():
        cell = pl.col(column)
        if dtype.is_float():
            digits = 1 if column.rpartition("_")[2] in ("pct", "points") else 3
            cell = cell.map_elements(partial(number, digits=digits), return_dtype=pl.String)
        elif dtype.is_integer():
            cell = cell.cast(pl.String).str.replace("-", MINUS, literal=True)
        elif dtype == pl.Boolean:
            cell = pl.when(cell).then(pl.lit("yes")).otherwise(pl.lit(""))
        elif dtype in (pl.String, pl.Categorical, pl.Enum) and column not in _NAMES and not column.endswith("_id"):
            cell = cell.cast(pl.String).str.replace_all("_", " ")
        else:
            cell = cell.cast(pl.String) if not dtype.is_nested() else cell
        out.append(cell.alias(heading(column)))
    return table.select(out).with_columns(pl.col(pl.String).fill_null(""))


def _lists_as_text(table: pl.DataFrame) -> pl.DataFrame:
    lists = [c for c, dtype in table.schema.items() if isinstance(dtype, pl.List)]
    return table.with_columns(pl.col(c).list.eval(pl.element().cast(pl.String)).list.join(", ") for c in lists)


def without_blanks(cells: pl.DataFrame, columns: Iterable[str]) -> pl.DataFrame:
    """`cells` without those of the columns in which every cell is a gap."""
    return cells.drop([c for c in columns if (cells[c] == "").all()])


def best(values: Sequence[float | None], *, low: bool = False) -> list[int]:
    """Places of the highest value that is there, or of the lowest.

    >>> best([0.5, None, 0.7, 0.7]), best([2.0, 1.0], low=True)
    ([2, 3], [1])
    """
    there = [v for v in values if v is not None]
    top = (min(there) if low else max(there)) if there else None
    return [i for i, v in enumerate(values) if v is not None and v == top]


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
        return _lists_as_text(self.table.with_columns(pl.col(pl.Float64, pl.Float32).round_sig_figs(4)))
