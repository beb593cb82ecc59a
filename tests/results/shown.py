"""Reads a sheet back from what it is shown as: HTML of the notebook or of print, and LaTeX."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any, NamedTuple

from cilab.results.sheet import Sheet


class Shown(NamedTuple):
    """Lines as {heading: text}, the same with bold, and the notes. Headings of groups are left out."""

    lines: list[dict[str, str]]
    bold: list[dict[str, bool]]
    notes: list[str]


class _Reader(HTMLParser):
    """Cells of each row of a table as (text, bold, columns, rows that it spans); texts of source notes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[list[Any]]] = []
        self.notes: list[str] = []
        self._into: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._into = "note" if "sourcenote" in given.get("class", "") else "cell"
            spans = int(given.get("colspan", 1)), int(given.get("rowspan", 1))
            if self._into == "note":
                self.notes.append("")
            else:
                self.rows[-1].append(["", "bold" in given.get("style", ""), *spans])

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into == "note":
            self.notes[-1] += data
        elif self._into == "cell":
            self.rows[-1][-1][0] += data


def _grid(rows: list[list[list[Any]]]) -> list[list[list[Any]]]:
    """Every row with a cell per column: a cell that spans several stands in each of them."""
    out: list[list[list[Any]]] = []
    waiting: dict[int, tuple[list[Any], int]] = {}
    for row in rows:
        cells, line, at = list(row), [], 0
        while cells or at in waiting:
            if at in waiting:
                cell, left = waiting.pop(at)
                spanned = [(cell, left - 1)]
            else:
                cell = cells.pop(0)
                spanned = [(cell, cell[3] - 1)] * cell[2]
            for cell, left in spanned:
                line.append(cell)
                if left:
                    waiting[at] = (cell, left)
                at += 1
        out.append(line)
    return out


def read(sheet: Sheet) -> Shown:
    """What the sheet says in print, as HTML."""
    return _read(sheet.gt().as_raw_html())


def in_notebook(sheet: Sheet) -> list[dict[str, str]]:
    """The lines that a notebook shows."""
    return _read(sheet._repr_html_()).lines


def _read(html: str) -> Shown:
    reader = _Reader()
    reader.feed(html)
    full = [row for row in _grid(reader.rows) if row and row[0][2] == 1]
    # Where columns have a heading in common, the first row of the head is that of the headings.
    depth = max(cell[3] for cell in full[0])
    head = [cell[0].strip() for cell in full[depth - 1]]
    body = full[depth:]
    lines = [dict(zip(head, [cell[0].strip() for cell in row], strict=True)) for row in body]
    bold = [dict(zip(head, [cell[1] for cell in row], strict=True)) for row in body]
    return Shown(lines, bold, reader.notes)


def column(sheet: Sheet, name: str) -> list[str]:
    """One column in print."""
    return [line[name] for line in read(sheet).lines]


_PLAIN = {
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textbackslash{}": "\\",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
}


def in_latex(sheet: Sheet) -> Shown:
    """What the LaTeX of the sheet says."""
    text = sheet.latex()
    table, _, small = text.partition(r"\bottomrule")
    body = table.partition(r"\midrule")[2]
    head = [line for line in table.partition(r"\midrule")[0].splitlines() if "&" in line][-1]
    rows = [line for line in body.splitlines() if re.search(r"\\\\ ?$", line)]
    names = [_cell(cell)[0] for cell in _split(head)]
    cells = [[_cell(cell) for cell in _split(row)] for row in rows if not row.startswith(r"\multicolumn")]
    notes = [_cell(line.removesuffix("\\\\"))[0] for line in small.splitlines() if line.endswith(r"\\")]
    return Shown(
        [dict(zip(names, [text for text, _ in row], strict=True)) for row in cells],
        [dict(zip(names, [bold for _, bold in row], strict=True)) for row in cells],
        notes,
    )


def _split(row: str) -> list[str]:
    return re.split(r"(?<!\\) & ", re.sub(r" ?\\\\ ?$", "", row))


def _cell(text: str) -> tuple[str, bool]:
    """The plain text of a cell, and whether it is bold."""
    bold = re.fullmatch(r"\\textbf\{(.*)\}", text.strip())
    plain = bold[1] if bold else text.strip()
    plain = re.sub(r"^\{\}(?=[*\[])", "", plain)
    for command, sign in _PLAIN.items():
        plain = plain.replace(command, sign)
    return re.sub(r"\\([&%$#_{}])", r"\1", plain), bold is not None


def faults(latex: str) -> list[str]:
    """What would keep LaTeX from compiling the text, or from setting it as it was meant."""
    out = []
    plain = re.sub(r"\\[\\&%$#_{}]", "", latex)
    if plain.count("{") != plain.count("}"):
        out.append("braces are not in pairs")
    opened: list[str] = []
    for command, name in re.findall(r"\\(begin|end)\{([^}]*)\}", latex):
        if command == "begin":
            opened.append(name)
        elif not opened or opened.pop() != name:
            out.append(f"{name} ends where it did not begin")
    out += [f"{name} does not end" for name in opened]
    spec = re.search(r"\\begin\{tabular\*?\}(?:\{\\linewidth\})?\{(?:@\{.*?\})?([lrc|]+)\}", latex)
    columns = len(spec[1].replace("|", "")) if spec else 0
    inside = latex.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    for line in inside.splitlines():
        bare = re.sub(r"\\[\\&%$#_{}]", "", line)
        if re.search(r"[%$#_^~]", bare):
            out.append(f"not escaped: {line}")
        wide = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line))
        if line.rstrip().endswith(r"\\") and bare.count("&") + 1 + wide != columns:
            out.append(f"not {columns} columns: {line}")
    out += [f"the line break before it takes it for its own: {m}" for m in re.findall(r"\\\\\s*\n[*\[].*", latex)]
    return out
