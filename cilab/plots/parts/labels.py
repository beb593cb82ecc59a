"""Names beside points, placed so that they lie neither on each other nor on the points.

May import `cilab.plots.parts.page` and `style`. Computes no statistic. First `add` a name per point while drawing, then
`settle` the figure once everything else is in it: names are moved around their points, those that had to go far get a
thin line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cilab.plots.parts.style import NAME_WIDTH, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from numpy.typing import NDArray

    Box = NDArray[np.float64]  # x0, y0, x1, y1 in pixels

#: gid of the names, and of the thin lines of those that stand far off.
LABEL, LEADER = "label", "leader"
#: Distances from the point to the nearest edge of the name, points; beyond the first two a line leads to the point.
_DISTANCES = (4.5, 7.0, 12.0, 18.0, 25.0, 33.0)
_NEAR = 8.0
#: Directions in order of preference: right, left, above, below, then between.
_ANGLES = (0, 180, 90, 270, 45, 315, 135, 225, 22, 338, 158, 202, 67, 293, 113, 247)
_ROUNDS = 6
#: Characters that a number beside a name may have.
_NUMBER = 6
#: Where names still lie on each other they are made smaller, by these factors in turn.
_SMALLER = (0.9, 0.9)
#: What a place costs: a name on a name, on a point, on a line, outside the axes; and each point of distance.
_ON_NAME, _ON_POINT, _ON_LINE, _OUTSIDE, _PER_POINT = 60.0, 12.0, 1.2, 500.0, 0.12


def add(ax: Axes, x: float, y: float, text: str, **options: Any) -> Annotation:
    """A name for the point (x, y) in data units; `settle` finds its place. `options` as of `Axes.annotate`.

    A long text is cut; where two could become alike, give names from `cilab.plots.parts.style.brief`.
    """
    (text,) = brief([text], NAME_WIDTH + _NUMBER)
    look = {"fontsize": 6.5, "ha": "center", "va": "center", "annotation_clip": False, "zorder": 5, **options}
    name = ax.annotate(text, (x, y), xytext=(0, 0), textcoords="offset points", gid=LABEL, **look)
    name.set_in_layout(False)
    return name


def keep_clear(ax: Axes, ends: Sequence[tuple[float, float]]) -> None:
    """Ask names to keep off the straight line between two points, where something else than a line is drawn there."""
    ax.plot(*zip(*ends, strict=True), lw=0, color="none", gid="keep clear", zorder=0)


def settle(drawn: Axes | Figure) -> None:
    """Find places for the names in a figure (or in one of its axes) whose layout is final.

    Points are the marks of every line without a line style, and obstacles of a milder kind are lines with one. The
    same figure gives the same places.
    """
    from matplotlib.axes import Axes

    from cilab.plots.parts.page import one_warning

    fig = drawn.get_figure() if isinstance(drawn, Axes) else drawn
    axes = [drawn] if isinstance(drawn, Axes) else drawn.axes
    with one_warning(fig):
        fig.draw_without_rendering()
        for ax in axes:
            names = [t for t in ax.texts if t.get_gid() == LABEL]
            if names:
                _settle(ax, names)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What names keep clear of, in pixels: boxes of marks and of other texts (n, 4), samples of lines (n, 2), axes."""

    marks: NDArray[np.float64]
    lines: NDArray[np.float64]
    texts: NDArray[np.float64]
    inside: Box


def _settle(ax: Axes, names: Sequence[Annotation]) -> None:
    pixels = ax.get_figure().dpi / 72
    around = _surroundings(ax, pixels)
    at = ax.transData.transform([name.xy for name in names])
    for smaller in (1.0, *_SMALLER):
        for name in names:
            name.set_fontsize(smaller * name.get_fontsize())
        places = [_places(p, _size(name), pixels) for p, name in zip(at, names, strict=True)]
        alone = [_cost_alone(boxes, around) + distance * _PER_POINT for boxes, distance in places]
        chosen = _choose([boxes for boxes, _ in places], alone, at)
        final = np.array([boxes[k] for (boxes, _), k in zip(places, chosen, strict=True)])
        if not _any_overlap(final):
            break
    for name, point, box, (_, distance), k in zip(names, at, final, places, chosen, strict=True):
        name.set_position(tuple(((box[:2] + box[2:]) / 2 - point) / pixels))
        if distance[k] > _NEAR:
            _lead(ax, name, point, box, pixels)


def _any_overlap(boxes: NDArray[np.float64]) -> bool:
    shared = _overlap(boxes[:, None], boxes[None])
    np.fill_diagonal(shared, 0)
    return bool((shared > 0).any())


def _size(name: Annotation) -> tuple[float, float]:
    box = name.get_window_extent()
    return box.width + 2, box.height


def _surroundings(ax: Axes, pixels: float) -> _Surroundings:
    marks, lines = [np.empty((0, 4))], [np.empty((0, 2))]
    for line in ax.lines:
        if line.get_transform() != ax.transData:
            continue
        at = ax.transData.transform(np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float))
        at = at[np.isfinite(at).all(axis=1)]
        if line.get_marker() not in ("None", "none", " ", "", None):
            reach = (line.get_markersize() / 2 + 1.5) * pixels
            marks.append(np.hstack([at - reach, at + reach]))
        if line.get_linestyle() not in ("None", "none", " ", ""):
            lines += [np.linspace(a, b, 40) for a, b in itertools.pairwise(at)]
    texts = [t.get_window_extent().extents for t in ax.texts if t.get_gid() not in (LABEL, LEADER) and t.get_text()]
    legend = ax.get_legend()
    texts += [legend.get_window_extent().extents] if legend else []
    inside = np.array(ax.get_window_extent().extents)
    return _Surroundings(np.vstack(marks), np.vstack(lines), np.array(texts).reshape(-1, 4), inside)


def _places(point: Any, size: tuple[float, float], pixels: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Boxes (n, 4) around a point, and how far each is from it (points)."""
    boxes, distances = [], []
    for distance, angle in itertools.product(_DISTANCES, _ANGLES):
        dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        # The box touches the circle of this distance with the edge or corner that faces the point.
        x = point[0] + dx * distance * pixels + size[0] / 2 * _side(dx)
        y = point[1] + dy * distance * pixels + size[1] / 2 * _side(dy)
        boxes.append((x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2))
        distances.append(distance + 0.2 * _ANGLES.index(angle))
    return np.array(boxes), np.array(distances)


def _side(component: float) -> float:
    """-1, 0 or 1, and between them where a direction is nearly straight: the box slides along."""
    return max(-1.0, min(1.0, 1.6 * component))


def _cost_alone(boxes: NDArray[np.float64], around: _Surroundings) -> NDArray[np.float64]:
    """Cost of each place, names apart."""
    marks = (_overlap(boxes[:, None], around.marks[None]) > 0).sum(axis=1) * _ON_POINT
    lines = np.minimum(_inside(boxes, around.lines).sum(axis=1), 6) * _ON_LINE
    texts = (_overlap(boxes[:, None], around.texts[None]) > 0).sum(axis=1) * _ON_NAME
    low, high = boxes[:, :2] < around.inside[:2], boxes[:, 2:] > around.inside[2:]
    return marks + lines + texts + (low | high).any(axis=1) * _OUTSIDE


def _inside(boxes: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[i, j]: point j lies in box i."""
    return ((points[None] >= boxes[:, None, :2]) & (points[None] <= boxes[:, None, 2:])).all(axis=2)


def _overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Area that boxes share, pixels squared."""
    width = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    height = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    return np.clip(width, 0, None) * np.clip(height, 0, None)


def _choose(places: Sequence[Any], alone: Sequence[Any], at: NDArray[np.float64]) -> list[int]:
    """A place for each name: the most crowded first, then each again, given the others."""
    apart = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))
    order = np.argsort(np.sort(apart, axis=1)[:, 1:4].sum(axis=1), kind="stable")
    chosen: dict[int, int] = {}
    for _ in range(_ROUNDS):
        before = dict(chosen)
        for i in order.tolist():
            others = [places[j][k] for j, k in chosen.items() if j != i]
            cost = alone[i]
            if others:
                cost = cost + (_overlap(places[i][:, None], np.array(others)[None]) > 0).sum(axis=1) * _ON_NAME
            chosen[i] = int(np.argmin(cost))
        if chosen == before:
            break
    return [chosen[i] for i in range(len(places))]


def _lead(ax: Axes, name: Annotation, point: Any, box: Box, pixels: float) -> None:
    """A thin line from the name's nearest edge to its point."""
    end = np.clip(point, box[:2], box[2:])
    arrow = {"arrowstyle": "-", "lw": 0.5, "color": "#808080", "shrinkA": 0, "shrinkB": 3}
    offset = tuple((end - point) / pixels)
    line = ax.annotate("", name.xy, xytext=offset, textcoords="offset points", arrowprops=arrow, gid=LEADER, zorder=3)
    line.set_in_layout(False)
