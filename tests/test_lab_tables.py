"""How results print in JupyterLab: no ground of their own, and tables to search that need no network."""

from __future__ import annotations

import re

import pytest

import cilab
from cilab import datasets
from cilab.results.sheet import html_table


@pytest.fixture(scope="module")
def board():
    return cilab.leaderboard(datasets.hand_worked_round())


def test_a_printed_result_takes_ground_and_ink_from_the_page(board):
    html = html_table(board.sheet().cells, title="T", label="simulated agents", caption="C", notes=["N"])
    styles = "; ".join(re.findall(r'style="([^"]*)"', html))
    assert set(re.findall(r"background:([^;]+)", styles)) == {"none"}
    # The one colour of its own follows the theme: a fixed one only where no theme is known.
    assert [c for c in re.findall(r"(?<!-)color:([^;]+)", styles) if not c.startswith("var(--jp-")] == []
    assert not re.search(r"white(?!-space)|#fff", styles)


def test_an_interactive_table_prints_every_row_where_there_is_no_javascript(board, capsys):
    board.interactive()._ipython_display_()
    printed = capsys.readouterr().out
    assert all(model in printed for model in board.table["model"])
    assert board.title in printed
    assert repr(board.interactive()).startswith("shape: ")


def test_an_interactive_table_is_offline_escapes_its_texts_and_is_the_same_each_time(monkeypatch):
    import polars as pl
    from IPython import display as ipython
    from itables import javascript

    from cilab.results.sheet import Interactive

    shown: list[str] = []
    monkeypatch.setattr(javascript, "_html_display_is_supported", lambda: True)
    monkeypatch.setattr(ipython, "display", lambda thing: shown.append(thing.data))
    rows = 3_000
    table = pl.DataFrame(
        {"model": ["<script>alert(1)</script>"] * rows, "score": [1 / 3] * rows, "tags": [["a"]] * rows}
    )
    for _ in range(2):
        Interactive(table, "caption")._ipython_display_()
    first, second = shown[: len(shown) // 2], shown[len(shown) // 2 :]
    assert first == second and len(first) >= 3
    assert "alert(1)" in first[-1] and "<script>alert" not in first[-1]
    assert first[-1].count("0.3333") >= rows  # none is left out for its size
    assert not any(re.search(r"""(?:import|src=|from)\s*\(?['"]https?:""", text) for text in shown)
