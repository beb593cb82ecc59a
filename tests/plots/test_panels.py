"""What panels share: intervals are drawn from end to end, cells as shapes with words that can be read."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from cilab.plots.parts import panels
from tests.plots.drawn import ends, texts


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


def contrast(one, two) -> float:
    """Of two colours, as WCAG 2.2 defines it: from 1 to 21."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize(("cmap", "low"), [(panels.FRACTION_MAP, 0.0), ("BrBG", -1.0)])
def test_words_in_cells_can_be_read_on_every_colour(cmap: str, low: float) -> None:
    ax = plt.subplots()[1]
    values = np.linspace(low, 1, 60).reshape(6, 10)
    words = [[f"{v:.2f}" for v in row] for row in values]
    mesh = panels.heatmap(ax, values, words, lines="abcdef", columns="0123456789", vmin=low, vmax=1, cmap=cmap)
    assert texts(ax, "cell") == [word for row in words for word in row]
    assert min(contrast(t.get_color(), c) for t, c in zip(ax.texts, mesh.get_facecolors(), strict=True)) > 4.5


def test_a_cell_without_a_number_is_white_and_holds_what_stands_for_it() -> None:
    ax = plt.subplots()[1]
    values = [[0.1, np.nan], [np.nan, 0.9]]
    words = [["one", "two"], ["three", "four"]]
    mesh = panels.heatmap(ax, values, words, lines=["a", "b"], columns=["c", "d"], missing="–", vmin=0, vmax=1)
    assert texts(ax, "cell") == ["one", "four", "–", "–"]
    assert [t.get_position() for t in ax.texts] == [(0.5, 0.5), (1.5, 1.5), (1.5, 0.5), (0.5, 1.5)]
    assert mesh.get_array().mask.tolist() == [[False, True], [True, False]]
    assert [color[3] for color in mesh.get_facecolors()] == [1, 0, 0, 1]


def test_cells_are_drawn_beside_what_is_in_the_axes_already() -> None:
    ax = plt.subplots()[1]
    ax.scatter([0.5], [0.5])
    ax.text(0.5, 0.5, "mine", color="red")
    mesh = panels.heatmap(ax, [[1.0]], [["one"]], lines=["a"], columns=["b"], vmin=0, vmax=1)
    assert mesh.get_array().tolist() == [[1.0]]
    assert [(t.get_text(), t.get_color()) for t in ax.texts] == [("mine", "red"), ("one", "black")]


def test_names_of_cells_are_level_and_the_first_line_is_on_top() -> None:
    ax = plt.subplots(figsize=(1, 4))[1]
    long = [f"a rather long name {i}" for i in range(4)]
    panels.heatmap(ax, np.eye(4), np.full((4, 4), "x"), lines=long, columns=long, vmin=0, vmax=1)
    assert [t.get_text() for t in ax.get_yticklabels()] == [t.get_text() for t in ax.get_xticklabels()] == long
    assert {t.get_rotation() for t in [*ax.get_xticklabels(), *ax.get_yticklabels()]} == {0.0}
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_cells_are_shapes_in_vector_files() -> None:
    fig, ax = plt.subplots()
    panels.heatmap(ax, np.eye(3), np.full((3, 3), "x"), lines="abc", columns="abc", vmin=0, vmax=1)
    file = io.StringIO()
    fig.savefig(file, format="svg")
    svg = file.getvalue()
    assert "<image" not in svg
    mesh = svg.partition('<g id="QuadMesh_1">')[2].partition("</g>")[0]
    assert mesh.count("<path") == 9
    assert mesh.count("stroke: #ffffff") == 9  # no gaps of a hair's breadth between cells


def test_seaborn_is_loaded_by_the_first_heatmap_only() -> None:
    code = "import sys, cilab.plots.teamwork.dimensions, cilab.plots.maze.pairs; sys.exit('seaborn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
