"""What the tests of figures ask of artists: no overlapping text, marks of series, labels on simulated data."""

from __future__ import annotations

import itertools

from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text


def series(ax: Axes) -> dict[str, ErrorbarContainer]:
    """Label -> the marks and intervals of one series."""
    return {c.get_label(): c for c in ax.containers if isinstance(c, ErrorbarContainer)}


def marks(ax: Axes, label: str) -> list[tuple[float, float]]:
    """(x, y) of the marks of one series."""
    line = series(ax)[label].lines[0]
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def ends(ax: Axes, label: str, along: int) -> list[tuple[float, float]]:
    """Ends of the interval bars of one series; `along` is 0 for x and 1 for y."""
    paths = series(ax)[label].lines[2][0].get_paths()
    return [tuple(map(float, path.vertices[:, along])) for path in paths]


def texts(ax: Axes, gid: str) -> list[str]:
    """Texts with this gid, in order of drawing."""
    return [t.get_text() for t in ax.texts if t.get_gid() == gid]


def overlaps(fig: Figure) -> list[tuple[str, str]]:
    """Texts of a figure that lie on each other, and texts that leave the figure (paired with `outside`)."""
    fig.draw_without_rendering()
    renderer = fig._get_renderer()  # a closed figure has no canvas to ask
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in _visible(fig)]
    found = [(a, b) for (a, one), (b, two) in itertools.combinations(boxes, 2) if _touch(one, two)]
    page = fig.bbox
    out = [
        (text, "outside")
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > page.x1 + 1 or box.y1 > page.y1 + 1
    ]
    return found + out


def _visible(fig: Figure) -> list[Text]:
    found = [fig._supxlabel] if fig._supxlabel else []
    for ax in fig.axes:
        found += [ax.title, ax._left_title, *ax.texts]
        if ax.axison:
            found += [ax.xaxis.label, ax.yaxis.label]
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                shared = [t for t in axis.get_ticklabels() if t.get_visible()]
                ticks = zip(axis.get_ticklocs(), shared, strict=False)
                slanted = [t for at, t in ticks if low <= at <= high and t.get_rotation() in (0, 90)]
                found += slanted if axis.get_tick_params().get("labelleft", True) else []
        if ax.get_legend():
            found += ax.get_legend().get_texts()
    return [t for t in found if t.get_text().strip() and t.get_visible()]


def _touch(one, two) -> bool:
    """Whether two boxes share more than a hair's breadth (1 pixel)."""
    return min(one.x1, two.x1) - max(one.x0, two.x0) > 1 and min(one.y1, two.y1) - max(one.y0, two.y0) > 1
