"""Scores by release date: two stairs and a broken axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import date

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl
from matplotlib.axes import Axes

import cilab
from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, result

DAY_0 = date(1970, 1, 1)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def line(ax: Axes, label: str) -> list[tuple[float, float]]:
    """Corners of the stairs with this label."""
    (found,) = (line for line in ax.lines if line.get_label() == label)
    return [(float(x), float(y)) for x, y in found.get_xydata()]


def test_every_model_stands_at_its_date_and_best_score() -> None:
    found = result("release")
    points = [(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in found.plot().lines if p.get_gid() == "row"]
    wanted = [((day - DAY_0).days, score) for day, score in found.table.select("released", "score_pct").rows()]
    assert points == wanted


@pytest.mark.parametrize(
    ("label", "column"), [("Best so far", "best_so_far_pct"), ("Best of open weights so far", "best_open_pct")]
)
def test_stairs_are_level_until_the_next_best(label: str, column: str) -> None:
    table = result("release").table
    corners = line(result("release").plot(), label)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(corners))
    wanted = [((day - DAY_0).days, best) for day, best in table.select("released", column).drop_nulls().rows()]
    assert corners[0] == wanted[0]
    assert set(wanted) <= set(corners)


def test_names_of_those_that_set_a_best_are_bold_and_no_others() -> None:
    table = result("release").table
    names = {t.get_text(): t.get_fontweight() for t in result("release").plot().texts if t.get_gid() == "label"}
    assert set(names) == set(table["model"])
    best = table.filter(pl.col("sets_best") | pl.col("sets_best_open"))["model"].to_list()
    assert sorted(name for name, weight in names.items() if weight == "bold") == sorted(best)


def test_the_long_gap_is_squeezed_and_marked() -> None:
    ax = result("release").plot()
    days = sorted((day - DAY_0).days for day in result("release").table["released"])
    at = [ax.transData.transform((day, 0))[0] for day in days]
    assert at == sorted(at)
    (band,) = (patch for patch in ax.patches if patch.get_gid() == "break")
    assert days[0] < band.get_x() < band.get_x() + band.get_width() < days[1]
    squeezed = band.get_window_extent().width / ax.bbox.width
    assert squeezed == pytest.approx(0.07, abs=0.01)
    shown = [tick.get_text() for tick in ax.get_xticklabels()]
    assert shown[0] == "Aug\n2025" and "Apr\n2026" in shown and "Dec\n2025" not in shown


def test_an_axis_without_a_long_gap_is_not_broken() -> None:
    models = release().models.collect().filter(pl.col("released") > date(2026, 7, 1))
    ax = plots.release(cilab.release(release(), facts=models))
    assert ax.get_xscale() == "linear"
    assert [p for p in ax.patches if p.get_gid() == "break"] == []


def test_high_effort_has_a_ring_and_no_text_overlaps() -> None:
    ax = result("release").plot()
    rings = [p for p in ax.lines if p.get_gid() == "ring"]
    assert len(rings) == result("release").table.filter(pl.col("effort") == "high").height > 0
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(ax.figure) == []


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match=r"plots\.release draws a Release"):
        plots.release(result("items"))
