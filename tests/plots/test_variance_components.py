"""Variance components and the D study: bars and curves stand at the numbers of the result."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import cilab
from cilab import plots, testing
from cilab.plots.parts import style
from tests.plots.drawn import ends, overlaps, texts
from tests.plots.release_results import release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_bars_are_the_shares_of_the_table_with_their_intervals() -> None:
    table = result("variance_components").table
    ax = result("variance_components").plot(panel="components")
    assert [p.get_width() for p in ax.patches if p.get_height() == 0.62] == pytest.approx(table["share_pct"].to_list())
    drawn = np.array(ends(ax, "components", 0))
    assert drawn == pytest.approx(np.array(table.select("share_lo_pct", "share_hi_pct").rows()))
    assert texts(ax, "share") == [f"{v:.1f}" for v in table["share_pct"]]


@pytest.mark.parametrize(
    ("panel", "column"),
    [("score", "se_score_points"), ("difference", "se_difference_points"), ("dependability", "dependability")],
)
def test_curves_are_the_designs_of_the_d_study(panel: str, column: str) -> None:
    found = result("variance_components")
    ax = found.plot(panel=panel)
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["1 seed", "3 seeds", "5 seeds"]
    for seeds, line in zip((1, 3, 5), lines.values(), strict=True):
        part = found.d_study.filter(seeds=seeds)
        points = list(zip(*map(list, line.get_data()), strict=True))
        assert points == part.select("tasks_per_dimension", column).rows()


def test_the_figure_is_marked_and_nothing_overlaps() -> None:
    fig = result("variance_components").plot()
    titles = [ax.get_title(loc="left") for ax in fig.axes if ax.axison]
    assert titles == [
        "(a) Components",
        "(b) Standard error of a score",
        "(c) Standard error of a difference",
        "(d) Dependability",
    ]
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_judges_have_lines_of_their_own() -> None:
    few = {"dimensions": ["handling_conflict"], "seeds": [1], "judges": [1, 3]}
    found = cilab.variance_components(release(), ratings="labels", **few)
    ax = found.plot(panel="score")
    assert [line.get_label() for line in ax.lines] == ["1 seed, 1 judge", "1 seed, 3 judges"]


def test_what_has_no_number_is_not_drawn() -> None:
    rng = np.random.default_rng(0)
    one = cilab.variance_components(testing.grid(rng.random((1, 8, 2))))
    assert [ax.get_title(loc="left") for ax in one.plot().axes] == ["(a) Components", "(b) Standard error of a score"]
    with pytest.raises(style.FigureError, match="panel is 'difference', not one of components, score"):
        one.plot(panel="difference")
    equal = cilab.variance_components(testing.grid(np.ones((3, 8, 2))))
    with pytest.raises(style.FigureError, match="nothing to draw"):
        equal.plot()
    with pytest.raises(style.FigureError, match="draws a VarianceComponents"):
        plots.variance_components(result("items"))
    assert one.table.filter(pl.col("share_pct").is_not_null()).height > 1
