"""Signals and mirrors: points stand at the rates, open intervals have an arrow, nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from cilab.plots.parts.labels import LABEL
from cilab.stats.teamwork.discrimination import DiscriminationResult, discrimination
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, result
from tests.stats.test_discrimination import frame


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def found() -> DiscriminationResult:
    """The small release as if some of its tasks were mirrors."""
    item = pl.when(pl.col("task_id").str.ends_with("3")).then(pl.lit("mirror")).otherwise(pl.lit("signal"))
    return discrimination(release().runs.with_columns(item=item).collect())


def test_every_row_stands_at_its_rates() -> None:
    ax = found().plot(panel="rates")
    (line,) = (line for line in ax.lines if line.get_gid() == "row")
    table = found().table.sort("d_prime", descending=True, maintain_order=True)
    assert list(line.get_xdata()) == table["false_alarm_rate"].to_list()
    assert list(line.get_ydata()) == table["hit_rate"].to_list()
    letters = [letter for t in texts(ax, LABEL) for letter in t.split(", ")]
    assert sorted(letters) == [chr(65 + i) for i in range(table.height)]


def test_an_interval_with_one_end_is_a_line_to_it_and_an_arrow() -> None:
    acts = {"perfect": np.r_[np.ones(18), np.zeros(6)], "usual": np.r_[np.ones(12), np.zeros(10), np.ones(2)]}
    one = discrimination(frame(acts, 18))
    ax = one.plot(panel="d_prime")
    (line,) = (line for line in ax.lines if line.get_gid() == "known end")
    assert list(line.get_xdata()) == [one.table["d_prime_lo"][0], one.table["d_prime"][0]]
    assert sum(t.arrow_patch is not None for t in ax.texts if hasattr(t, "arrow_patch")) == 1


def test_the_whole_figure_has_no_overlaps_and_says_that_agents_are_simulated() -> None:
    fig = found().plot()
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_rows_of_one_kind_of_items_are_counted_not_drawn() -> None:
    with pytest.raises(style.FigureError, match="nothing to draw"):
        discrimination(frame({"m": np.ones(18)}, 18)).plot()
    with pytest.raises(style.FigureError, match="draws a DiscriminationResult"):
        plots.discrimination(result("items"))
