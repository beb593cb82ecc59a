"""Item quality: marks stand at the numbers, flagged tasks look different, nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.teamwork.item_quality import item_quality
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import result
from tests.stats.test_item_quality import coins, world
from tests.stats.test_items import runs


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(ax: plt.Axes, gid: str) -> list[tuple[float, float]]:
    (found,) = (line for line in ax.lines if line.get_gid() == gid)
    return list(zip(found.get_xdata(), found.get_ydata(), strict=True))


def test_every_estimated_task_stands_at_its_fit() -> None:
    table = result("item_quality").table.filter(pl.col("infit").is_not_null())
    ax = result("item_quality").plot(panel="fit")
    for gid, wanted in (("task", pl.col("flags").is_null()), ("task with a flag", pl.col("flags").is_not_null())):
        assert drawn(ax, gid) == table.filter(wanted).select("discrimination", "infit").rows()


def test_the_map_has_every_difficulty_and_every_ability() -> None:
    found = result("item_quality")
    ax = found.plot(panel="map")
    heights = sorted(y for gid in ("task", "task with a flag") for _, y in drawn(ax, gid))
    assert heights == sorted(found.table["difficulty"].drop_nulls().clip(-4, 4))
    assert [y for _, y in drawn(ax, "row")] == found.abilities["ability"].clip(-4, 4).to_list()


def test_information_is_one_curve_for_each_dimension_and_one_for_all() -> None:
    found = result("item_quality")
    ax = found.plot(panel="information")
    for name in found.dimensions["dimension"]:
        own = found.information.filter(pl.col("dimension") == name)
        assert drawn(ax, name) == own.select("ability", "information").rows()
    assert len(drawn(ax, "all")) == 33


def test_rows_are_sorted_and_odd_ones_marked() -> None:
    values = coins(world(rows=30, tasks=60, slope=2.5))
    values[7] = values[7, ::-1]
    found = item_quality(runs(values), simulations=20)
    ax = found.plot(panel="rows")
    assert [x for x, _ in drawn(ax, "odd row")] == found.rows.filter("odd")["lz"].to_list() != []
    assert [x for x, _ in drawn(ax, "row")] == found.rows.filter(~pl.col("odd"))["lz"].sort().to_list()


def test_the_whole_figure_has_no_overlaps_and_says_that_agents_are_simulated() -> None:
    fig = result("item_quality").plot()
    assert [ax.get_title(loc="left")[:3] for ax in fig.axes] == ["(a)", "(b)", "(c)", "(d)"]
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_of_three_rows_only_what_was_estimated_is_drawn() -> None:
    found = item_quality(runs(coins(world(rows=3))), simulations=20)
    assert len(found.plot().axes) == 2
    with pytest.raises(style.FigureError, match="nothing to draw"):
        item_quality(runs(coins(world(rows=1))), simulations=20).plot()


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a ItemQualityResult"):
        plots.item_quality(result("items"))
