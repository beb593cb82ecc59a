"""Power curves: one panel per number of seeds, one curve per difference."""

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
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize(("panel", "seeds"), [("1", 1), ("3", 3)])
def test_curves_are_the_powers_of_the_table_with_their_error(panel: str, seeds: int) -> None:
    table = result("power").table.filter(pl.col("seeds") == seeds)
    ax = result("power").plot(panel=panel)
    assert list(series(ax)) == ["10 points", "5 points", "0 (false alarms)"]
    for difference, label in ((10, "10 points"), (5, "5 points"), (0, "0 (false alarms)")):
        part = table.filter(pl.col("difference_points") == difference).sort("tasks_per_dimension")
        assert marks(ax, label) == part.select("tasks_per_dimension", "power").rows()
        assert ends(ax, label, 1) == [pytest.approx(e) for e in part.select("power_lo", "power_hi").rows()]


def test_the_target_is_a_line_in_every_panel() -> None:
    fig = result("power").plot()
    targets = [line.get_ydata()[0] for ax in fig.axes for line in ax.lines if line.get_gid() == "target"]
    assert targets == [result("power").target] * 2


def test_panels_are_named_by_seeds_marked_and_without_overlap() -> None:
    fig = result("power").plot()
    titles = [ax.get_title(loc="left") for ax in fig.axes if ax.axison]
    assert titles == ["(a) 1 test seed", "(b) 3 test seeds"]
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_an_unknown_panel_and_another_result_are_refused() -> None:
    with pytest.raises(style.FigureError, match="panel is '7', not one of 1, 3"):
        plots.power(result("power"), panel="7")
    with pytest.raises(style.FigureError, match="draws a PowerResult"):
        plots.power(result("items"))
