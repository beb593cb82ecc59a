"""Scores by the source of the tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.container import BarContainer

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once(panel: str | None = None):
    """The figure or a panel, drawn once: these tests only look."""
    return result("sources").plot(panel=panel)


def test_rows_stand_at_both_of_their_scores() -> None:
    ax = drawn_once("rows")
    drawn = {
        (float(x), float(y))
        for line in ax.lines
        if line.get_gid() is None
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert drawn == set(result("sources").rows.drop_nulls().select("benchmark_pct", "real_world_pct").rows())
    assert ax.get_xlim() == ax.get_ylim()


def test_bars_are_means_by_source_the_hardest_on_top() -> None:
    ax = drawn_once("families")
    table = result("sources").table
    names = [t.get_text() for t in ax.get_yticklabels()]
    drawn = {names[round(p.get_y() + p.get_height() / 2)]: p.get_width() for c in bars(ax).values() for p in c}
    wanted = {f"{_words(f)} ({n})": v for f, n, v in table.select("source_family", "n_tasks", "mean_value_pct").rows()}
    assert drawn == wanted
    assert [drawn[name] for name in names] == sorted(drawn.values())
    wanted = table.select("lo_pct", "hi_pct").fill_null(math.nan).rows()  # a family without an interval shows none
    assert ends(ax, "_interval", 0) == [pytest.approx(e, nan_ok=True) for e in wanted]
    assert texts(ax, "value") == [f"{v:.0f}" for v in table["mean_value_pct"]]


def _words(family: str) -> str:
    return "Regulators, papers" if family == "regulators_papers" else family.replace("_", " ").capitalize()


def bars(ax) -> dict[str, BarContainer]:
    return {c.get_label(): c for c in ax.containers if isinstance(c, BarContainer)}


def test_real_world_records_and_benchmarks_differ_in_colour_and_hatch() -> None:
    found = bars(drawn_once("families"))
    table = result("sources").table
    assert len(found["Real world"]) == int(table["real_world"].sum())
    assert {p.get_hatch() for p in found["Real world"]} == {None}
    assert None not in {p.get_hatch() for p in found["Benchmark"]}


def test_diamonds_are_frontier_models() -> None:
    ax = drawn_once("families")
    (line,) = [x for x in ax.lines if x.get_label() == "Frontier"]
    assert list(line.get_xdata()) == result("sources").table["frontier_pct"].to_list()
    table = result("sources").table.with_columns(frontier_pct=pl.lit(None, dtype=pl.Float64))
    without = replace(result("sources"), table=table).plot(panel="families")
    assert "Frontier" not in [x.get_label() for x in without.lines]


def test_the_corner_holds_the_summary() -> None:
    (corner,) = texts(drawn_once("rows"), "corner")
    assert corner.startswith(f"r = {result('sources').value('pearson_r'):.2f}")
    assert f"gap = {result('sources').value('benchmark_harder_points'):.1f}" in corner


def test_no_text_overlaps_and_simulated_rows_are_marked() -> None:
    fig = drawn_once()
    assert overlaps(fig) == []
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a SourcesResult"):
        plots.sources(result("leaderboard"))
