"""What panels share: intervals are drawn from end to end."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab.plots.parts import panels
from tests.plots.drawn import ends


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("along", ["x", "y"])
def test_an_interval_that_does_not_hold_its_mark_is_drawn_where_it_is(along: str) -> None:
    ax = plt.subplots()[1]
    middle, across = [0.99, 0.5, 0.3, 0.2], [0, 1, 2, 3]
    intervals = [(0.94, 0.98), (0.4, 0.6), None, (0.25, 0.4)]
    x, y = (middle, across) if along == "x" else (across, middle)
    panels.bars(ax, x, y, intervals, panels.SERIES[0], along=along, label="some", ls="none", capsize=2)
    drawn = ends(ax, "some", 0 if along == "x" else 1)
    assert [e for e in drawn if not np.isnan(e[0])] == [pytest.approx(e) for e in intervals if e]
    low, high = ax.get_xlim() if along == "x" else ax.get_ylim()
    assert low < 0.2
    assert high > 0.99
    caps = [line for line in ax.lines if line.get_marker() in ("|", "_")]
    assert {round(float(v), 2) for c in caps for v in (c.get_xdata() if along == "x" else c.get_ydata()) if v == v} == {
        0.94, 0.98, 0.4, 0.6, 0.25,
    }  # fmt: skip


def test_a_halo_is_put_on_the_lines_of_intervals() -> None:
    ax = plt.subplots()[1]
    drawn = panels.bars(ax, [1.0], [0], [(0.5, 1.5)], panels.SERIES[0], along="x")
    panels.halo(drawn)
    assert all(lines.get_path_effects() for lines in drawn.lines[2])


def test_the_trend_over_a_logarithmic_axis_is_straight_in_the_logarithm() -> None:
    ax = plt.subplots()[1]
    x = np.array([1.0, 10.0, 1000.0])
    panels.trend(ax, x, 5 + 2 * np.log10(x), log=True)
    assert ax.lines[0].get_ydata() == pytest.approx([5.0, 11.0])
