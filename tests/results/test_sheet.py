"""A sheet says the same in a notebook, in print and in LaTeX; what its texts hold is escaped everywhere."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import polars as pl
import pytest

import cilab
from cilab.core.errors import TableError
from cilab.results.result import Result
from cilab.results.sheet import SIMULATED_NOTE, Sheet, best, without_blanks
from tests.frozen import outputs
from tests.results.shown import faults, in_latex, in_notebook, read

NONE = "\N{EN DASH}"
KEYS = [key for key, *_ in outputs.calls()]


@cache
def found(key: str) -> Result:
    name, data, arguments = next((n, d, a) for k, n, d, a in outputs.calls() if k == key)
    few = {"resamples": 20} if "resamples" in arguments else {}
    return getattr(cilab, name)(data, **arguments | few)


def printed(sheet: Sheet, line: dict[str, Any]) -> list[str]:
    """A line of the cells as print has it: the name of the row first, without the column of groups."""
    stub = sheet.stub or next(c for c in sheet.cells.columns if c != sheet.group)
    order = [stub, *(c for c in line if c not in (stub, sheet.group))]
    return [(line[c] or "").strip() for c in order]


@pytest.mark.parametrize("key", KEYS)
def test_notebook_print_and_latex_say_the_same_cell_for_cell(key: str) -> None:
    result = found(key)
    for sheet in (result.sheet(), result.paper_sheet()):
        cells = sheet.cells.to_dicts()
        notebook = [[text.strip() for text in line.values()] for line in in_notebook(sheet)]
        assert notebook == [[(text or "").strip() for text in line.values()] for line in cells]
        if not cells:
            with pytest.raises(TableError, match="has no rows"):
                sheet.gt()
            continue
        html, latex = read(sheet), in_latex(sheet)
        assert html.lines == latex.lines and html.bold == latex.bold and html.notes == latex.notes
        for shown, line in zip(html.lines, cells, strict=True):
            wanted = printed(sheet, line)
            assert [a for a, b in zip(shown.values(), wanted, strict=True) if a not in (b, b or NONE)] == []
        assert html.notes == [
            *([SIMULATED_NOTE] if sheet.simulated else []),
            *([sheet.caption] if sheet.caption else []),
            *([f"Bold: {sheet.bold_words}."] if any(any(line.values()) for line in html.bold) else []),
            *sheet.notes,
        ]
        assert faults(sheet.latex()) == []


@pytest.mark.parametrize("key", KEYS)
def test_a_result_is_shown_as_its_sheet_is(key: str) -> None:
    result = found(key)
    assert repr(result) == repr(result.sheet())
    assert result._repr_html_() == result.sheet()._repr_html_()


def test_the_latex_of_a_result_is_that_of_its_sheet() -> None:
    result = found("leaderboard")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result.to_latex() == result.sheet().latex()


def strange(**more: Any) -> Sheet:
    cells = pl.DataFrame(
        {
            "Row": ["a_b & c", "[x]%y$z#", "*~t^u{v}\\w", "<b>|"],
            "Part": ["A & B", "A & B", "C_d", "C_d"],
            "Score (%)": ["1.0 ± 0.2", "", "−3.0 [−4.0, −2.0]", "<0.001"],
            "No_te": ["* † ×", "", "100 % sure & \\textbf{bold}", "<script>alert(1)</script>"],
        }
    )
    return Sheet(title="T & _ 100%", cells=cells, caption="[a] & b_c", notes=("*n* <i>",), **more)


def test_every_sign_of_latex_and_html_is_a_text_in_every_place() -> None:
    sheet = strange(
        group="Part",
        bold={"No_te": [2, 3], "Score (%)": [0], "gone": [1]},
        bold_words="50% & more_",
        spanner=("S & p_", ["Score (%)"]),
        headings={"No_te": "N_o & te"},
    )
    html, latex = read(sheet), in_latex(sheet)
    assert html == latex
    assert [line["Row"] for line in latex.lines] == sheet.cells["Row"].to_list()
    assert [line["N_o & te"] for line in latex.lines] == sheet.cells["No_te"].to_list()
    assert [list(line.values()) for line in latex.bold] == [
        [False, True, False],
        [False, False, False],
        [False, False, True],
        [False, False, True],
    ]
    assert latex.notes == ["[a] & b_c", "Bold: 50% & more_.", "*n* <i>"]
    text = sheet.latex()
    assert faults(text) == []
    assert r"\multicolumn{3}{l}{A \& B}" in text and r"S \& p\_" in text and r"T \& \_ 100\%" in text
    assert "\n{}[x]" in text and "\n{}*" in text
    for page in (sheet.gt().as_raw_html(), sheet._repr_html_()):
        assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<i>" not in page


def test_signs_that_stand_for_bold_inside_are_no_way_into_latex() -> None:
    cells = pl.DataFrame({"a": ["x"], "b": ["\ue0001\ue001\ue001"]})
    sheet = Sheet(title="t", cells=cells, bold={"b": [0]}, bold_words="best")
    assert r"x & \textbf{1} \\" in sheet.latex()


def test_a_gap_among_numbers_is_printed_as_a_dash_and_one_among_texts_stays() -> None:
    lines = read(strange()).lines
    assert [line["Score (%)"] for line in lines] == ["1.0 ± 0.2", NONE, "−3.0 [−4.0, −2.0]", "<0.001"]
    assert lines[1]["No_te"] == ""
    empty = Sheet(title="t", cells=pl.DataFrame({"a": ["x", "y"], "b": ["", ""], "c": ["3", None]}))
    assert [list(line.values()) for line in read(empty).lines] == [["x", "", "3"], ["y", "", NONE]]


def test_lists_are_printed_with_commas() -> None:
    sheet = Sheet(title="t", cells=pl.DataFrame({"a": ["x"], "b": [["1", "2"]]}))
    assert read(sheet).lines == [{"a": "x", "b": "1, 2"}]


def test_without_rows_there_is_nothing_to_print() -> None:
    empty = Sheet(title="Nothing", cells=pl.DataFrame({"a": []}, schema={"a": pl.String}))
    for hand in (empty.gt, empty.latex):
        with pytest.raises(TableError, match="nothing to print: Nothing has no rows"):
            hand()
    assert "Nothing" in empty._repr_html_() and "Nothing" in repr(empty)


def test_simulated_agents_are_told_in_every_view() -> None:
    sheet = strange(simulated=True)
    assert "SIMULATED AGENTS" in repr(sheet) and "simulated agents" in sheet._repr_html_()
    assert read(sheet).notes[0] == in_latex(sheet).notes[0] == SIMULATED_NOTE


def test_the_same_sheet_gives_the_same_bytes_and_another_has_another_id() -> None:
    assert strange().gt().as_raw_html() == strange().gt().as_raw_html()
    ids = {sheet.gt().as_raw_html().partition('id="')[2][:20] for sheet in (strange(), strange(group="Part"))}
    assert len(ids) == 1  # the same cells
    assert "cilab-" in ids.pop()


def test_faults_of_latex_are_found() -> None:
    text = strange().latex()
    for old, new in (
        (r"\_", "_"),
        (r"\bottomrule", "}"),
        (" & ", " & & "),
        (r"\end{tabular*}", ""),
        ("{}*", "*"),
        ("{}[", "["),
    ):
        assert faults(text.replace(old, new)), old


def test_the_best_are_all_that_are_equal_and_a_column_of_gaps_goes() -> None:
    assert best([None, None]) == [] and best([1.0, 1.0, None]) == [0, 1] and best([2.0, 1.0], low=True) == [1]
    cells = pl.DataFrame({"a": ["", ""], "b": ["", "1"], "c": ["", ""]})
    assert without_blanks(cells, ["a", "b"]).columns == ["b", "c"]
