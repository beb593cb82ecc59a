"""Figures of rounds over time: marks stand at the numbers, nothing overlaps, simulated data are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import cilab
from cilab import plots
from cilab.plots.parts import style
from cilab.testing import grid as played
from tests.plots.drawn import ends, overlaps, series, texts
from tests.plots.release_results import result

NAMES = ("contamination", "drift", "equate", "pass_hat_k")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def figure(drawn: Any) -> Any:
    return drawn if hasattr(drawn, "savefig") else drawn.get_figure()


def points(ax: Any, *gids: str) -> list[tuple[int, float]]:
    """(line, value) of the marks with these gids, in order of the lines."""
    found = [line for line in ax.lines if line.get_gid() in gids]
    return sorted((round(float(y)), float(x)) for line in found for x, y in zip(*line.get_data(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_overlaps_and_simulated_data_are_marked(name: str) -> None:
    fig = figure(result(name).plot())
    assert overlaps(fig) == []
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]


@pytest.mark.parametrize(
    ("panel", "columns"),
    [
        ("difference", ("diff_points", "lo_points", "hi_points")),
        ("beyond", ("beyond_points", "beyond_lo_points", "beyond_hi_points")),
    ],
)
def test_contamination_marks_stand_at_the_differences(panel: str, columns: tuple[str, ...]) -> None:
    table = result("contamination").table.filter(pl.col("diff_points").is_not_null())
    ax = result("contamination").plot(panel=panel)
    value, lo, hi = columns
    assert [x for _, x in points(ax, "significant", "not significant")] == table[value].to_list()
    drawn = [pair for pair in ends(ax, "interval", 0) if pair[0] == pair[0]]
    assert drawn == [pytest.approx(pair) for pair in table.select(lo, hi).drop_nulls().rows()]


def test_a_significant_row_is_drawn_open() -> None:
    found = result("contamination")
    first = found.table["p_holm"].is_not_null() & (pl.int_range(found.table.height, eager=True) == 0)
    marked = replace(found, table=found.table.with_columns(p_holm=pl.when(first).then(0.01).otherwise("p_holm")))
    assert points(marked.plot(panel="difference"), "significant") == [(0, found.table["diff_points"][0])]


def test_drift_marks_stand_at_the_differences_largest_first() -> None:
    table = result("drift").table.filter(pl.col("diff_points").is_not_null())
    drawn = points(result("drift").plot(), "significant", "not significant")
    assert [x for _, x in drawn] == sorted(table["diff_points"].to_list(), reverse=True)


def test_equated_scores_stand_beside_those_as_measured_and_anchors_at_their_difficulties() -> None:
    found = result("equate")
    ax = found.plot(panel="scores")
    assert sorted(x for _, x in points(ax, "new")) == sorted(found.table["new_pct"])
    line = series(ax)["On the old scale"].lines[0]
    assert list(line.get_xdata()) == found.table["equated_pct"].to_list()
    assert ends(ax, "On the old scale", 0) == [pytest.approx(p) for p in found.table.select("lo_pct", "hi_pct").rows()]
    anchors = found.anchors.filter(pl.col("what") == "anchor")
    drawn = [line for line in found.plot(panel="anchors").lines if line.get_gid() in ("anchor", "drifting")]
    got = sorted((float(x), float(y)) for line in drawn for x, y in zip(*line.get_data(), strict=True))
    assert got == sorted(anchors.select("old_difficulty", "linked_difficulty").rows())


def test_chances_stand_at_the_numbers_of_their_k() -> None:
    found = result("pass_hat_k")
    for k in (2, 3):
        table = found.table.filter(pl.col("k") == k)
        ax = found.plot(k=k)
        assert list(series(ax)[f"All of {k} pass"].lines[0].get_xdata()) == table["pass_hat_pct"].to_list()
        assert [x for _, x in points(ax, "any")] == table["pass_at_pct"].to_list()
        single = found.table.filter(pl.col("k") == 1)["pass_hat_pct"].to_list()
        assert [x for _, x in points(ax, "one")] == single
    alone = found.plot(k=1)
    assert points(alone, "any") == [] and "One run passes" in series(alone)


def test_what_cannot_be_drawn_is_refused_in_one_line() -> None:
    with pytest.raises(style.FigureError, match="k is 9"):
        result("pass_hat_k").plot(k=9)
    with pytest.raises(style.FigureError, match="panel is 'x'"):
        result("contamination").plot(panel="x")
    for name in NAMES:
        with pytest.raises(style.FigureError, match=f"{name} draws"):
            getattr(plots, name)(result("items"))
    none = {"diff_points": pl.lit(None, dtype=pl.Float64)}
    for name in ("contamination", "drift"):
        with pytest.raises(style.FigureError, match="nothing to draw"):
            replace(result(name), table=result(name).table.with_columns(**none)).plot()
    one = cilab.pass_hat_k(played([[1, 0, 1]], dimensions=["d", "d", "d"]))
    assert figure(one.plot()) is not None
    empty = replace(one, table=one.table.with_columns(pass_hat_pct=pl.lit(None, dtype=pl.Float64)))
    with pytest.raises(style.FigureError, match="no row has a chance"):
        empty.plot()
