"""Cost against score, with the frontier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return result("pareto").plot()


def at(ax, gid: str) -> set[tuple[float, float]]:
    return {
        (float(x), float(y))
        for line in ax.lines
        if line.get_gid() == gid
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }


def test_every_row_stands_at_its_cost_and_score_on_a_logarithmic_axis() -> None:
    found = result("pareto")
    ax = drawn_once()
    assert at(ax, "row") == set(found.table.select("cost_usd", "score_pct").rows())
    assert ax.get_xscale() == "log"


def test_the_dashed_line_joins_the_rows_that_no_cheaper_row_beats() -> None:
    found = result("pareto")
    (line,) = [x for x in drawn_once().lines if x.get_gid() == "frontier"]
    front = found.table.filter("on_frontier")
    assert list(line.get_xdata()) == front["cost_usd"].to_list()
    assert list(line.get_ydata()) == front["score_pct"].to_list()
    assert line.get_linestyle() == "--"


def test_a_ring_marks_high_effort_and_nothing_else() -> None:
    found = result("pareto")
    high = found.table.filter(pl.col("effort") == "high")
    assert at(drawn_once(), "ring") == set(high.select("cost_usd", "score_pct").rows())


def test_names_on_the_frontier_are_bold() -> None:
    found = result("pareto")
    names = {t.get_text(): t.get_fontweight() == "bold" for t in drawn_once().texts if t.get_gid() == "label"}
    rows = [row.removesuffix(" · default") for row in found.table["row"]]
    assert names == dict(zip(rows, found.table["on_frontier"], strict=True))


def test_open_weights_are_diamonds() -> None:
    found = result("pareto")
    ax = drawn_once()
    diamonds = {float(x.get_xdata()[0]) for x in ax.lines if x.get_gid() == "row" and x.get_marker() == "D"}
    assert diamonds == set(found.table.filter(pl.col("model").str.starts_with("sim:O"))["cost_usd"])


@pytest.mark.parametrize("facts", [None, "own"])
def test_no_text_overlaps(facts) -> None:
    assert overlaps(result("pareto").plot(facts=release() if facts else None).figure) == []


def test_rows_without_a_known_cost_are_named_below() -> None:
    found = replace(result("pareto"), unpriced={"mystery": "the cost of some of its runs is unknown"})
    assert "Not shown: mystery (the cost" in found.plot().figure._supxlabel.get_text()


def test_simulated_data_are_marked() -> None:
    assert texts(drawn_once(), "simulated") == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Pareto"):
        plots.pareto(result("leaderboard"))
    free = result("pareto").table.with_columns(cost_usd=pl.lit(0.0))
    with pytest.raises(style.FigureError, match="no row has a cost above 0"):
        replace(result("pareto"), table=free).plot()
