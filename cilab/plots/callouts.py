"""Names beside points: written where the point is, then moved apart so that none lies on another or on a mark.

May import nothing of cilab. Works on what is drawn; `spread` comes last, when the figure has its final size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

    Drawn = TypeVar("Drawn", Axes, Figure)

#: Group id of the texts that `spread` moves.
NAME = "name"
#: Distances from the point that are tried, points; from the second on a thin line leads to the point.
_DISTANCES = (4.5, 8.0, 13.0, 19.0, 26.0, 34.0, 44.0)
_LEADER_FROM = 10.0
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (0.5, 1), (-0.5, 1), (0.5, -1))
#: What a pixel under a name costs: another name, a mark, a line. Being outside the axes is worst.
_ON_TEXT, _ON_MARK, _ON_LINE, _OUTSIDE = 1000.0, 400.0, 25.0, 5000.0

#: What a line costs that leads to a name across the mark of another point.
_CROSSED = 200.0


def name(ax: Axes, x: float, y: float, text: str, **options: Any) -> Annotation:
    """Write `text` beside the point (x, y) in data units; `spread` finds its place."""
    look = {"fontsize": 6.5, "color": "#303030", "ha": "center", "va": "center", "zorder": 6, "gid": NAME} | options
    return ax.annotate(text, (x, y), (0, 0), textcoords="offset points", annotation_clip=False, **look)


def spread(drawn: Drawn) -> Drawn:
    """Move the names in the axes (or in all axes of the figure) apart, and return what was given.

    Those with the fewest neighbours are placed first; then all are looked at once more. The same figure gives the
    same places.
    """
    import matplotlib.figure

    fig = drawn if isinstance(drawn, matplotlib.figure.Figure) else drawn.figure
    fig.draw_without_rendering()
    for ax in fig.axes if drawn is fig else [drawn]:
        _spread_axes(ax)
    return drawn


def _spread_axes(ax: Axes) -> None:
    import numpy as np

    names = [t for t in ax.texts if t.get_gid() == NAME]
    if not names:
        return
    renderer = ax.figure.canvas.get_renderer()
    scale = renderer.points_to_pixels(1.0)
    at = np.array([ax.transData.transform(t.xy) for t in names])
    sizes = [_size(t, renderer) for t in names]
    marks, lines = _marks(ax, scale), _line_points(ax)
    fixed = [t.get_window_extent(renderer) for t in ax.texts if t.get_gid() != NAME and t.get_text()]
    fixed += [ax.get_legend().get_window_extent(renderer)] if ax.get_legend() else []
    near = [int((np.hypot(*(at - p).T) < 40 * scale).sum()) for p in at]
    order = sorted(range(len(names)), key=lambda i: (near[i], -at[i][1], at[i][0]))
    placed: dict[int, Bbox] = {}
    chosen: dict[int, tuple[float, float]] = {}
    for _ in range(3):
        for i in order:
            others = [box for j, box in placed.items() if j != i] + fixed
            chosen[i], placed[i] = _best(at[i], sizes[i], scale, ax.bbox, others, marks, lines)
    for i, text in enumerate(names):
        text.set_position(chosen[i])
        if _gap(chosen[i], sizes[i], scale) > _LEADER_FROM:
            _lead(ax, text.xy, chosen[i], sizes[i], scale)


def _size(text: Annotation, renderer: Any) -> tuple[float, float]:
    box = text.get_window_extent(renderer)
    return box.width, box.height


def _lead(
    ax: Axes, at: tuple[float, float], offset: tuple[float, float], size: tuple[float, float], scale: float
) -> None:
    """A thin line from the nearest side of the name to the point; an annotation of its own, without text."""
    start = _nearest(offset, size, scale)
    look = {"arrowstyle": "-", "lw": 0.45, "color": "#808080", "shrinkA": 0.5, "shrinkB": 2.5}
    ax.annotate("", at, start, textcoords="offset points", arrowprops=look, annotation_clip=False, gid="leader")


def _gap(offset: tuple[float, float], size: tuple[float, float], scale: float) -> float:
    """Points between the point and the nearest side of its name."""
    dx, dy = _nearest(offset, size, scale)
    return (dx * dx + dy * dy) ** 0.5


def _nearest(offset: tuple[float, float], size: tuple[float, float], scale: float) -> tuple[float, float]:
    """The place on the name's box that is nearest to its point, points from there."""
    half = size[0] / scale / 2, size[1] / scale / 2
    dx, dy = (o - max(-h, min(h, o)) for o, h in zip(offset, half, strict=True))
    return dx, dy


def _best(
    at: np.ndarray,
    size: tuple[float, float],
    scale: float,
    frame: Bbox,
    others: list[Bbox],
    marks: list[Bbox],
    lines: np.ndarray,
) -> tuple[tuple[float, float], Bbox]:
    """The offset (points) of the middle of the name that costs least, and the box that it then takes."""
    best = None
    for cost, offset in _candidates(size, scale):
        box = _box(at, offset, size, scale)
        cost += _OUTSIDE * _outside(box, frame)
        cost += sum(_ON_TEXT for other in others if _shared(box, other, 1.0))
        cost += sum(_ON_MARK for mark in marks if _shared(box, mark, 0.0))
        cost += _ON_LINE * _inside(lines, box)
        cost += _CROSSED * _crossed(at, offset, size, scale, marks)
        if best is None or cost < best[0]:
            best = cost, offset, box
    return best[1], best[2]


def _candidates(size: tuple[float, float], scale: float) -> Iterator[tuple[float, tuple[float, float]]]:
    """Offsets of the middle of the name (points) with what each costs for being far or in an odd direction."""
    half_width, half_height = size[0] / scale / 2, size[1] / scale / 2
    for i, distance in enumerate(_DISTANCES):
        for j, (dx, dy) in enumerate(_DIRECTIONS):
            length = (dx * dx + dy * dy) ** 0.5
            x = distance * dx / length + half_width * (dx > 0.6) - half_width * (dx < -0.6)
            y = distance * dy / length + half_height * (dy > 0.6) - half_height * (dy < -0.6)
            yield 3.0 * distance + 2.0 * j + 6.0 * i, (x, y)


def _box(at: np.ndarray, offset: tuple[float, float], size: tuple[float, float], scale: float) -> Bbox:
    from matplotlib.transforms import Bbox

    x, y = at[0] + offset[0] * scale, at[1] + offset[1] * scale
    return Bbox.from_bounds(x - size[0] / 2, y - size[1] / 2, *size)


def _outside(box: Bbox, frame: Bbox) -> bool:
    return box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1


def _crossed(
    at: np.ndarray, offset: tuple[float, float], size: tuple[float, float], scale: float, marks: list[Bbox]
) -> bool:
    """Whether the line that leads to the name would cross the mark of another point."""
    if _gap(offset, size, scale) <= _LEADER_FROM:
        return False
    dx, dy = _nearest(offset, size, scale)
    along = [(at[0] + dx * scale * t, at[1] + dy * scale * t) for t in (0.3, 0.45, 0.6, 0.75, 0.9)]
    own = [mark for mark in marks if mark.contains(*at)]
    return any(mark.contains(x, y) for mark in marks if mark not in own for x, y in along)


def _shared(one: Bbox, two: Bbox, least: float) -> bool:
    wide = min(one.x1, two.x1) - max(one.x0, two.x0)
    high = min(one.y1, two.y1) - max(one.y0, two.y0)
    return wide > -least and high > -least


def _inside(points: np.ndarray, box: Bbox) -> int:
    x, y = points[:, 0], points[:, 1]
    return int(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).sum())


def _marks(ax: Axes, scale: float) -> list[Bbox]:
    """The boxes of all marks of lines in the axes."""
    from matplotlib.transforms import Bbox

    boxes = []
    for line in ax.lines:
        if line.get_marker() in (None, "None", "", " ") or not line.get_visible():
            continue
        half = line.get_markersize() * scale / 2
        for x, y in line.get_transform().transform(line.get_xydata()):
            boxes.append(Bbox.from_bounds(x - half, y - half, 2 * half, 2 * half))
    return boxes


def _line_points(ax: Axes) -> np.ndarray:
    """Points (pixels) about every 4 pixels along all drawn lines; shape (n, 2)."""
    import numpy as np

    found = [np.empty((0, 2))]
    for line in ax.lines:
        if line.get_linestyle() in ("None", "none", "", " ") or not line.get_visible():
            continue
        path = line.get_transform().transform_path(line.get_path())
        corners = path.interpolated(1).vertices
        corners = corners[np.isfinite(corners).all(axis=1)]
        for a, b in itertools.pairwise(corners):
            n = min(int(np.hypot(*(b - a)) // 4) + 2, 400)
            found.append(a + (b - a) * np.linspace(0, 1, n)[:, None])
    return np.concatenate(found)
