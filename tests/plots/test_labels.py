"""Names beside points find places where they lie on nothing."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab.plots.parts import labels
from tests.plots.drawn import overlaps


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def scatter(points, size=(6.5, 4.5)):
    fig, ax = plt.subplots(figsize=size, layout="constrained")
    for i, (x, y) in enumerate(points):
        ax.plot([x], [y], "o", ms=5)
        labels.add(ax, x, y, f"model-{i}")
    ax.set_xlim(-0.1, 1.1)
    ax.set_ylim(-0.1, 1.1)
    return fig, ax


def boxes(ax) -> list:
    return [t.get_window_extent() for t in ax.texts if t.get_gid() == labels.LABEL]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000))
def test_twenty_names_in_any_scatter_do_not_overlap_and_stay_inside(seed: int) -> None:
    fig, ax = scatter(np.random.default_rng(seed).random((20, 2)))
    labels.settle(fig)
    assert overlaps(fig) == []
    frame = ax.get_window_extent()
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 and frame.y0 <= b.y0 and b.y1 <= frame.y1 for b in boxes(ax))
    plt.close(fig)


def test_a_crowd_of_names_is_spread_and_led_back_by_lines() -> None:
    fig, ax = scatter(np.random.default_rng(1).normal(0.5, 0.02, (12, 2)))
    labels.settle(fig)
    assert overlaps(fig) == []
    assert any(t.get_gid() == labels.LEADER for t in ax.texts)


def test_long_names_in_a_small_panel_are_made_smaller_until_they_fit() -> None:
    fig, ax = scatter(np.random.default_rng(5).random((18, 2)), size=(3.2, 2.6))
    for name in [t for t in ax.texts if t.get_gid() == labels.LABEL]:
        name.set_text(f"one of the longer names, {name.get_text()}")
    labels.settle(fig)
    assert overlaps(fig) == []
    sizes = {round(t.get_fontsize(), 2) for t in ax.texts if t.get_gid() == labels.LABEL}
    assert len(sizes) == 1
    assert 5 < sizes.pop() < 6.5


def test_a_lone_name_stands_at_the_right_of_its_point_without_a_line() -> None:
    fig, ax = scatter([(0.5, 0.5)])
    labels.settle(fig)
    (box,) = boxes(ax)
    x, y = ax.transData.transform((0.5, 0.5))
    assert 0 < box.x0 - x < 10 * fig.dpi / 72
    assert box.y0 < y < box.y1
    assert not any(t.get_gid() == labels.LEADER for t in ax.texts)


def test_a_name_does_not_cover_another_point() -> None:
    fig, ax = scatter([(0.5, 0.5)])
    ax.plot([0.54], [0.5], "o", ms=6)
    labels.settle(fig)
    (box,) = boxes(ax)
    x, y = ax.transData.transform((0.54, 0.5))
    assert not (box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1)


def test_a_name_keeps_off_a_line_where_it_can() -> None:
    fig, ax = scatter([(0.5, 0.5)])
    labels.keep_clear(ax, [(0.5, 0.5), (1.0, 0.5)])
    labels.settle(fig)
    (box,) = boxes(ax)
    _, y = ax.transData.transform((0.5, 0.5))
    x, _ = ax.transData.transform((0.5, 0.5))
    assert box.x1 < x or not box.y0 < y < box.y1


def test_the_same_figure_gives_the_same_places() -> None:
    points = np.random.default_rng(3).random((15, 2))
    places = []
    for _ in range(2):
        fig, ax = scatter(points)
        labels.settle(fig)
        places.append([t.get_position() for t in ax.texts if t.get_gid() == labels.LABEL])
    assert places[0] == places[1]


def test_names_do_not_move_the_layout() -> None:
    fig, ax = scatter([(1.0, 1.0), (0.0, 0.0)])
    fig.draw_without_rendering()
    before = ax.get_position().bounds
    labels.settle(fig)
    fig.draw_without_rendering()
    assert ax.get_position().bounds == pytest.approx(before)
