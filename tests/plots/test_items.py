"""Tasks as items: mean value against item-rest correlation."""

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


@pytest.mark.parametrize(("kind", "split"), [("public", "public"), ("held out", "held_out")])
def test_every_task_is_one_point_of_its_dimension(kind: str, split: str) -> None:
    table = result("items").table
    for name in ("handling_conflict", "resisting_unsafe_pressure"):
        ax = result("items").plot(panel=name)
        wanted = table.filter((pl.col("dimension") == name) & (pl.col("split") == split))
        (line,) = (line for line in ax.lines if line.get_gid() == kind)
        bottom = ax.get_ylim()[0]
        assert list(line.get_xdata()) == wanted["mean_value"].to_list()
        for y, r in zip(line.get_ydata(), wanted["item_rest_r"], strict=True):
            assert y == r if r is not None else bottom < y < -0.5


def test_panels_are_dimensions_in_the_order_of_the_tasks() -> None:
    fig = result("items").plot()
    shown = [ax.get_title(loc="left")[4:].replace("\n", " ").lower().replace(" ", "_") for ax in fig.axes]
    assert shown == result("items").table["dimension"].unique(maintain_order=True).to_list()
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_the_small_print_counts_ceiling_floor_and_negative_tasks() -> None:
    found = result("items")
    text = found.plot()._supxlabel.get_text().replace("\n", " ")
    assert f"Median r {found.value('median_item_rest_r'):.2f}." in text
    assert f"Of 48 tasks {found.value('ceiling_items'):.0f} at the ceiling (mean of 0.95 or more)" in text
    assert f"{found.value('negative_items'):.0f} with a negative r" in text


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a ItemsResult"):
        plots.items(result("loss"))
