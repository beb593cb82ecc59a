"""Disagreements: the forest of odds ratios and the rates."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.maze_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_the_forest_holds_every_odds_ratio_but_the_intercept_in_the_tables_order() -> None:
    found = result("disagreement")
    fig = plots.odds_ratios(found)
    for ax, outcome in zip(fig.axes, ("total", "factual", "nonfactual"), strict=True):
        rows = found.table.filter(pl.col("outcome") == outcome, pl.col("predictor") != "intercept")
        drawn = sorted((y, x) for name in series(ax) for x, y in marks(ax, name))
        assert [x for _, x in drawn] == pytest.approx(rows["odds_ratio"].to_list())
        assert ax.get_xscale() == "log"
    labels = [t.get_text() for t in fig.axes[0].get_yticklabels()]
    assert labels[:4] == ["Two copies of one model", "Same family", "Strong starter", "Weak starter"]


def test_filled_marks_are_the_significant_ones_and_bars_end_at_the_intervals() -> None:
    found = result("disagreement")
    ax = plots.odds_ratios(found, panel="total")
    rows = found.table.filter(pl.col("outcome") == "total", pl.col("predictor") != "intercept")
    significant = rows.filter(pl.col("p") < 0.05)
    assert [x for x, _ in marks(ax, "p < 0.05")] == pytest.approx(significant["odds_ratio"].to_list())
    assert ends(ax, "p < 0.05", 0) == [pytest.approx(e) for e in significant.select("lo", "hi").rows()]
    assert series(ax)["not significant"].lines[0].get_markerfacecolor() == "white"


def test_one_model_alone_is_a_forest_of_one_panel() -> None:
    fig = result("disagreement").models["factual"].plot()
    assert len(fig.axes) == 1
    assert overlaps(fig) == []


def test_the_small_print_names_the_reference_levels() -> None:
    text = plots.odds_ratios(result("disagreement"))._supxlabel.get_text().replace("\n", " ")
    assert "starter tier medium" in text
    assert "53 clusters" in text


def test_rates_by_kind_of_pair_are_bars_with_intervals() -> None:
    found = result("disagreement")
    ax = found.plot(panel="interaction")
    bars = {c.get_label(): [p.get_height() for p in c] for c in ax.containers if hasattr(c, "patches")}
    for outcome, label in (("total", "Any"), ("factual", "Factual"), ("nonfactual", "Non-factual")):
        assert bars[label] == found.by_interaction.filter(pl.col("outcome") == outcome)["rate"].to_list()
    assert [t.get_text().splitlines()[0] for t in ax.get_xticklabels()] == ["Homogeneous", "Same", "Cross"]
    hatches = {c.get_label(): c.patches[0].get_hatch() for c in ax.containers if hasattr(c, "patches")}
    assert len(set(hatches.values())) == 3  # told apart in grey


def test_family_cells_print_rate_and_number_with_starters_in_rows() -> None:
    found = result("disagreement")
    ax = found.plot(panel="families")
    total = found.by_family_pair.filter(pl.col("outcome") == "total")
    assert texts(ax, "cell") == [f"{r['rate']:.2f}\nn = {r['n']}" for r in total.iter_rows(named=True)]
    families = [t.get_text() for t in ax.get_yticklabels()]
    one = total.row(1, named=True)
    at = families.index(one["starter_family"]), families.index(one["follower_family"])
    assert at[0] != at[1]
    assert ax.collections[0].get_array()[at] == one["rate"]


def test_no_text_overlaps() -> None:
    assert overlaps(result("disagreement").plot()) == []
    assert overlaps(plots.odds_ratios(result("disagreement"))) == []


def test_another_result_and_another_panel_are_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a DisagreementResult"):
        plots.odds_ratios(result("grounding"))
    with pytest.raises(style.FigureError, match="not one of interaction, families"):
        result("disagreement").plot(panel="family")
