"""Change of each dimension's score at high effort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return result("effort").plot()


def ordered() -> pl.DataFrame:
    return result("effort").dimensions.sort("diff_points", descending=True)


def bars(ax) -> list:
    return [p for p in ax.patches if p.get_gid() == "bar"]


def test_bars_are_mean_changes_the_largest_gain_on_top() -> None:
    ax = drawn_once()
    assert [p.get_width() for p in bars(ax)] == ordered()["diff_points"].to_list()
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [d.replace("_", " ").capitalize() for d in ordered()["dimension"]]
    assert ends(ax, "_interval", 0) == [pytest.approx(e) for e in ordered().select("lo_points", "hi_points").rows()]


def test_each_model_has_a_marker_per_dimension() -> None:
    ax = drawn_once()
    order = ordered()["dimension"].to_list()
    cells = {(m, d): v for m, d, v in result("effort").cells.select("model", "dimension", "diff_points").rows()}
    models = result("effort").table["model"].to_list()
    lines = {line.get_label(): line for line in ax.lines if line.get_label() in models}
    assert list(lines) == models
    for model, line in lines.items():
        drawn = {order[round(y)]: x for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
        assert drawn == {d: cells[model, d] for d in order if cells[model, d] is not None}
    assert len({line.get_marker() for line in lines.values()}) == len(models)


def test_only_significant_changes_have_a_colour_and_falls_are_hatched() -> None:
    found = result("effort")
    table = found.dimensions.with_columns(
        diff_points=pl.Series([9.0, -8.0, 7.0, -6.0, 1.0, 0.5, 0.2, -0.1]),
        p=pl.Series([0.0004, 0.01, 0.2, 0.051, 1.0, 1.0, 1.0, 1.0]),
    )
    ax = replace(found, dimensions=table).plot()
    look = {round(p.get_width(), 1): (to_hex(p.get_facecolor()), p.get_hatch()) for p in bars(ax)}
    assert look[9.0] == ("#0b559f", None)
    assert look[-8.0][0] == "#e69f00"
    assert look[-8.0][1] is not None
    assert {look[v] for v in (7.0, -6.0, 0.5)} == {("#c8c8c8", None)}
    assert texts(ax, "p")[0] == "p < 0.001"
    assert texts(ax, "p")[-1] == "p = 0.010"


def test_intervals_and_models_are_inside_the_axes() -> None:
    found = result("effort")
    low, high = drawn_once().get_xlim()
    assert low < min(*found.dimensions["lo_points"], *found.cells["diff_points"].drop_nulls())
    assert high > max(*found.dimensions["hi_points"], *found.cells["diff_points"].drop_nulls())


def test_no_text_overlaps_and_simulated_models_are_marked() -> None:
    ax = drawn_once()
    assert overlaps(ax.figure) == []
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Effort"):
        plots.effort(result("leaderboard"))
