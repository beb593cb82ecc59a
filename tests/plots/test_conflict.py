"""Conflicts: correlations of dimensions, endings, who asks and gives in, joint points."""

from __future__ import annotations

import math
from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.release_results import published, result

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_endings_are_those_of_each_model_in_order_of_its_score() -> None:
    table = result("conflict").table
    ax = result("conflict").plot(panel="endings")
    assert [t.get_text() for t in ax.get_yticklabels()] == table["model"].to_list()
    drawn = {c.get_label(): [bar.get_width() for bar in c] for c in ax.containers}
    for label, column in (("Best deal", "best_pct"), ("Held firm", "held_firm_pct"), ("Gave in", "gave_in_pct")):
        assert drawn[label] == pytest.approx(table[column].to_list())


@pytest.mark.parametrize(("panel", "column"), [("asks", "asks_pct"), ("gave_in", "gave_in_pct")])
def test_shares_stand_against_the_other_dimensions_with_their_correlation(panel: str, column: str) -> None:
    found = result("conflict")
    ax = found.plot(panel=panel)
    ((label, _),) = series(ax).items()
    assert marks(ax, label) == found.table.select("others_pct", column).rows()
    bars = found.table.select(column.replace("_pct", "_lo_pct"), column.replace("_pct", "_hi_pct")).rows()
    drawn = [tuple(None if math.isnan(end) else end for end in bar) for bar in ends(ax, label, 1)]
    assert drawn == [pytest.approx(bar) for bar in bars]
    r = found.correlations.row(
        by_predicate=(pl.col("quantity") == panel) & (pl.col("against") == "other dimensions"), named=True
    )
    assert f"r = {r['r']:.2f} [".replace("-", MINUS) in label


def test_every_pair_of_dimensions_has_one_cell() -> None:
    found = result("dimension_correlations")
    ax = found.plot()
    wanted = [f"{r:.2f}".replace("0.", ".", 1).replace("-", MINUS) for r in found.table["r"]]
    assert sorted(texts(ax, "cell")) == sorted(wanted)
    assert ax.collections[0].get_array().count() == found.table.height == 28
    assert found.loadings.sort("loading")["dimension"][0] == "handling_conflict"
    assert ax.get_yticklabels()[-1].get_text() == "Conflict"


def test_a_cell_holds_the_correlation_of_its_row_and_column() -> None:
    found = result("dimension_correlations")
    mesh = found.plot().collections[0].get_array()
    names = found.loadings.sort("loading", descending=True)["dimension"].to_list()
    for one, other, r in found.table.select("dimension", "other", "r").rows():
        i, j = sorted((names.index(one), names.index(other)))
        assert mesh[j - 1, i] == pytest.approx(r)


def test_the_figure_has_four_panels_marked_and_without_overlap() -> None:
    fig = plots.conflict(result("conflict"), result("dimension_correlations"))
    assert [ax.get_title(loc="left")[4:] for ax in fig.axes] == [
        "Correlation of dimensions",
        "How conflicts end",
        "Asks about needs",
        "Gives in",
    ]
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_scores_that_are_only_passes_show_the_best_deals_only() -> None:
    """The published round has counts of passes: a run without the best deal may have held firm or given in."""
    fig = plots.conflict(published("conflict"), published("dimension_correlations"))
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["(a) Correlation of dimensions", "(b) How conflicts end"]
    assert [c.get_label() for c in fig.axes[1].containers] == ["Best deal"]
    assert "do not tell holding firm" in fig._supxlabel.get_text().replace("\n", " ")
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == []
    assert overlaps(fig) == []


@pytest.mark.parametrize("panel", ["asks", "gave_in"])
def test_the_line_is_that_of_least_squares(panel: str) -> None:
    ax = plots.conflict(result("conflict"), panel=panel)
    (line,) = [x for x in ax.lines if x.get_gid() == "fit"]
    table = result("conflict").table.drop_nulls(["others_pct", f"{panel}_pct"])
    slope, intercept = np.polyfit(table["others_pct"], table[f"{panel}_pct"], 1)
    x = line.get_xdata()
    assert (min(x), max(x)) == (table["others_pct"].min(), table["others_pct"].max())
    np.testing.assert_allclose(line.get_ydata(), intercept + slope * np.asarray(x))


def test_joint_points_have_one_mark_per_kind_of_mean() -> None:
    table = result("conflict").table.with_row_index("at")
    ax = plots.joint_points(result("conflict"))
    for label, column in (
        ("All deals", "joint_pct"),
        ("Deals after giving in", "joint_gave_in_pct"),
        ("All runs, no deal as 0", "joint_none_as_0_pct"),
    ):
        there = table.filter(pl.col(column).is_not_null())
        assert [(round(y), x) for x, y in marks(ax, label)] == there.select("at", column).rows()
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(ax.figure) == []


def test_data_without_joint_points_and_other_results_are_refused() -> None:
    with pytest.raises(style.FigureError, match="nothing to draw"):
        plots.joint_points(published("conflict"))
    with pytest.raises(style.FigureError, match="draws a Conflict"):
        plots.conflict(result("items"))
    with pytest.raises(style.FigureError, match="draws a DimensionCorrelations"):
        plots.conflict(result("conflict"), result("items"))
