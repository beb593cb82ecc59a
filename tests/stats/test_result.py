"""How results print: words for columns, text for values."""

from __future__ import annotations

import datetime

import polars as pl
import pytest

from cilab.results.numbers import number
from cilab.results.sheet import heading, html_table, readable


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("mean_value_pct", "Mean value (%)"),
        ("lo_pct", "Low (%)"),
        ("n_tasks", "Tasks"),
        ("n", "Number"),
        ("n_of", "Of"),
        ("p", "p"),
        ("pct", "Pct"),
        ("cost_usd", "Cost (USD)"),
        ("error_points", "Error (points)"),
        ("task_id", "Task id"),
    ],
)
def test_a_column_has_a_heading_in_words(column: str, words: str) -> None:
    assert heading(column) == words


def test_a_table_prints_in_words_but_names_stay_as_they_are() -> None:
    table = pl.DataFrame(
        {
            "model": ["sim:my_model", None],
            "task_id": ["a_b", "c_d"],
            "dimension": ["handling_conflict", None],
            "score_pct": [12.345, None],
            "r": [0.12345, None],
            "n_runs": [3, None],
            "open_weights": [True, False],
            "released": [datetime.date(2026, 1, 2), None],
        }
    )
    assert readable(table).to_dicts() == [
        {
            "Model": "sim:my_model",
            "Task id": "a_b",
            "Dimension": "handling conflict",
            "Score (%)": "12.3",
            "r": "0.123",
            "Runs": "3",
            "Open weights": "yes",
            "Released": "2026-01-02",
        },
        dict.fromkeys(("Model", "Dimension", "Score (%)", "r", "Runs", "Open weights", "Released"), "")
        | {"Task id": "c_d"},
    ]


def test_a_long_text_is_broken_into_lines_and_every_text_is_escaped() -> None:
    html = html_table(pl.DataFrame({"what": ["<b>short</b>", "word " * 20]}), title="")
    short, long = html.index("&lt;b&gt;"), html.index("word word")
    assert "white-space:nowrap" in html[:short].rpartition("<td")[2]
    assert "white-space:normal" in html[:long].rpartition("<td")[2]
    assert "font-weight:600;margin" not in html  # without a title nothing stands for it


def test_numbers_have_a_real_minus_no_negative_zero_and_commas() -> None:
    shown = [number(v, 1) for v in (-0.04, -0.05001, 0.0, -12345.67, None)]
    assert shown == ["0.0", "−0.1", "0.0", "−12,345.7", ""]
    assert number(None, missing="–") == "–" and number(-0.4, 0) == "0"
    table = readable(pl.DataFrame({"change_points": [-1.25, -0.01], "rank_change": [-2, 3], "row": ["a-b", "c"]}))
    assert table.rows() == [("−1.2", "−2", "a-b"), ("0.0", "3", "c")]
