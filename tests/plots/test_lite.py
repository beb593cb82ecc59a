"""A smaller subset: rank order against size with the star, score against score."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_curves_and_star_are_those_of_the_results() -> None:
    found, curve = result("lite"), result("lite_curve")
    ax = plots.lite(found, curve, panel="sizes")
    lines = {line.get_gid(): [tuple(p) for p in line.get_xydata()] for line in ax.lines}
    for method in ("random", "greedy"):
        assert lines[method] == curve.table.filter(pl.col("method") == method).select("n_tasks", "tau").rows()
    assert lines["star"] == found.table.filter(pl.col("method") == "item_response").select("n_tasks", "tau").rows()


@pytest.mark.parametrize("method", ["greedy", "item_response"])
def test_scores_of_the_subset_stand_against_the_full_ones(method: str) -> None:
    found = result("lite")
    rows = found.rows.filter((pl.col("method") == method) & pl.col("lite_pct").is_not_null())
    ax = plots.lite(found, method=method, panel="scores")
    drawn = [(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in ax.lines if p.get_gid() == "row"]
    assert drawn == rows.select("full_pct", "lite_pct").rows()
    assert len(texts(ax, "label")) == rows.filter(pl.col("error_points").abs() >= 4).height > 0
    assert ax.get_ylabel() == ("Score" if method == "greedy" else "Estimate") + " from 16 tasks (%)"
    line = found.table.row(by_predicate=pl.col("method") == method, named=True)
    (text,) = texts(ax, "agreement")
    assert f"tau-b = {line['tau_all']:.2f}" in text and f"mean error {line['error_all_points']:.1f}" in text


@pytest.mark.parametrize(("panel", "column"), [("tau", "tau"), ("error", "error_points")])
def test_the_curve_alone_has_a_line_per_method(panel: str, column: str) -> None:
    curve = result("lite_curve")
    ax = curve.plot(panel=panel)
    lines = {line.get_gid(): [tuple(p) for p in line.get_xydata()] for line in ax.lines}
    assert list(lines) == ["random", "greedy"]
    assert lines["greedy"] == curve.table.filter(pl.col("method") == "greedy").select("n_tasks", column).rows()


def test_both_figures_are_marked_and_no_text_overlaps() -> None:
    for fig in (plots.lite(result("lite"), result("lite_curve")), result("lite_curve").plot()):
        assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
        assert overlaps(fig) == []


def test_an_unknown_method_and_another_result_are_refused() -> None:
    with pytest.raises(style.FigureError, match="method is 'ridge', not one of random, greedy, item_response"):
        plots.lite(result("lite"), method="ridge")
    with pytest.raises(style.FigureError, match="draws a LiteResult"):
        plots.lite(result("items"))
