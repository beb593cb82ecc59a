"""Rank and score of every row in every scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib
import numpy as np
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import cilab
from cilab import plots
from cilab.plots.parts import style
from cilab.stats.teamwork.sensitivity import Sensitivity
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, round_


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def small() -> Sensitivity:
    """24 rows, 16 scenarios."""
    return cilab.sensitivity(release())


@cache
def published() -> Sensitivity:
    return cilab.sensitivity(round_())


@pytest.mark.parametrize(
    ("show", "column", "moved"), [("rank", "rank", "rank_change"), ("score", "score_pct", "change_points")]
)
def test_every_cell_has_its_number_and_is_darker_the_more_it_moved(show: str, column: str, moved: str) -> None:
    ax = small().plot(show=show)
    n_rows, n_scenarios = small().summary.height, small().scenarios.height
    wide = small().table.filter(pl.col("scenario") == "as is").select("row")
    cells = texts(ax, "cell")
    mesh = ax.collections[0].get_array().reshape(n_rows + 1, n_scenarios)
    for j, scenario in enumerate(small().scenarios["scenario"]):
        own = wide.join(small().table.filter(scenario=scenario), on="row", maintain_order="left")
        for i, value in enumerate(own[column]):
            assert float(cells[i * n_scenarios + j]) == pytest.approx(value, abs=0.051)
        assert mesh[:-1, j].tolist() == pytest.approx([abs(v) for v in own[moved]])
    assert [float(t) for t in cells[-n_scenarios:]] == pytest.approx(small().scenarios["tau"].to_list(), abs=0.0051)
    assert np.all(mesh[:, 0] == 0)


@pytest.mark.parametrize("show", ["rank", "score"])
def test_nothing_overlaps_with_24_rows_and_16_scenarios_and_simulated_data_are_marked(show: str) -> None:
    ax = small().plot(show=show)
    assert small().scenarios.height == 16 and small().summary.height == 24
    assert overlaps(ax.figure) == []
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]


def test_a_scenario_without_scores_is_a_column_of_dashes_with_its_reason_below() -> None:
    ax = published().plot()
    n = published().scenarios.height
    assert texts(ax, "cell").count("\N{EN DASH}") == 2 * (published().summary.height + 1)
    assert len(ax.get_xticklabels()) == n
    words = " ".join(t.get_text().replace("\n", " ") for t in ax.figure.texts)
    assert "Fill-in: fill_in pairs rows by task" in words and "Refused = fail: 48 refused tasks." in words
    assert overlaps(ax.figure) == []


def test_what_cannot_be_drawn_is_refused_in_one_line() -> None:
    with pytest.raises(style.FigureError, match="show is 'ranks'"):
        small().plot(show="ranks")
    empty = replace(small(), table=small().table.with_columns(score_pct=pl.lit(None, dtype=pl.Float64)))
    with pytest.raises(style.FigureError, match="no row has a score as it is"):
        empty.plot()
    with pytest.raises(style.FigureError, match="draws a Sensitivity"):
        plots.sensitivity(release())
