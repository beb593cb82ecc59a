"""Where the score is lost: three parts of every model and dimension."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import published, result

PARTS = {
    "Passed in the test": "passed_pct",
    "Lost in the test": "lost_test_points",
    "Lost in a calm team": "lost_calm_points",
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def widths(ax: Axes) -> dict[str, list[float]]:
    """Label of a part -> the widths of its bars, from the top row down."""
    return {c.get_label(): [bar.get_width() for bar in c] for c in ax.containers}


def test_bars_are_the_three_parts_of_each_model_best_on_top() -> None:
    found = result("loss")
    wanted = found.table.filter(pl.col("dimension") == "overall").sort("passed_pct", descending=True)
    ax = found.plot(panel="models")
    assert [t.get_text() for t in ax.get_yticklabels()] == wanted["model"].to_list()
    assert ax.yaxis_inverted()
    drawn = widths(ax)
    for label, column in PARTS.items():
        assert drawn[label] == pytest.approx(wanted[column].to_list())
    assert [sum(parts) for parts in zip(*drawn.values(), strict=True)] == pytest.approx([100.0] * wanted.height)


def test_dimensions_stand_from_the_hardest_to_the_easiest() -> None:
    found = result("loss")
    wanted = found.summary.filter(pl.col("by") == "dimension").sort("passed_pct")
    ax = found.plot(panel="dimensions")
    names = [t.get_text().replace("\n", " ").lower().replace(" ", "_") for t in ax.get_yticklabels()]
    assert names == wanted["name"].to_list()
    assert widths(ax)["Lost in the test"] == pytest.approx(wanted["lost_test_points"].to_list())


def test_a_test_that_was_better_than_the_calm_team_stands_left_of_0() -> None:
    found = result("loss")
    (low,) = found.summary.filter((pl.col("by") == "dimension") & (pl.col("lost_test_points") < 0)).rows(named=True)
    ax = found.plot(panel="dimensions")
    (bars,) = (c for c in ax.containers if c.get_label() == "Lost in the test")
    (left,) = (bar for bar in bars if bar.get_width() < 0)
    assert (left.get_x(), left.get_width()) == (0.0, pytest.approx(low["lost_test_points"]))
    assert "Left of 0" in ax.figure._supxlabel.get_text()


def test_wide_parts_have_their_number_on_them() -> None:
    found = result("loss")
    passed = found.table.filter((pl.col("dimension") == "overall") & (pl.col("passed_pct") >= 6.5))["passed_pct"]
    shown = texts(found.plot(panel="models"), "passed_pct")
    assert shown == [f"{v:.0f}" for v in passed.sort(descending=True)]


@pytest.mark.parametrize(("of", "label"), [(result, ["SIMULATED AGENTS"]), (published, [])])
def test_simulated_data_are_marked_and_no_text_overlaps(of, label: list[str]) -> None:
    fig = of("loss").plot()
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["(a) Models", "(b) Dimensions"]
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == label
    assert overlaps(fig) == []


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match=r"plots\.loss draws a Loss"):
        plots.loss(result("items"))
