"""Several panels in one figure, and what the maze figures share: marks of series, and bars with their intervals.

May import `cilab.plots.parts.style`. Computes nothing.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cilab.core.errors import choice
from cilab.plots.parts import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

#: Marks of series in order: they differ in shape, in hue (for colour-blind readers) and in lightness (in grey).
SERIES = (
    style.Mark("#0b559f", "o", 4.6, "#08306b"),
    style.Mark("#e69f00", "D", 4.2, "#7a5400"),
    style.Mark("#009e73", "^", 5.0, "#00513b"),
    style.Mark("#f0c8dd", "v", 5.0, "#a0527d"),
    style.Mark("#252525", "s", 4.2, "#000000"),
    style.Mark("#8fcdf2", "P", 5.2, "#2b6d94"),
    style.Mark("#c44e00", "X", 5.2, "#7a3000"),
    style.Mark("#b0b0b0", "*", 6.0, "#606060"),
)
#: Colours of a fraction: dark is little. The map is made for colour-blind readers and rises in lightness.
FRACTION_MAP = "cividis"
#: Relative luminance on which black and white have the same contrast, 4.6.
_EQUAL_CONTRAST = 0.179
#: Height of a line of the legend, points.
LEGEND_LINE = 12


def compose(
    result: Any,
    parts: Mapping[str, Callable[[Axes], None]],
    *,
    ax: Axes | None,
    panel: str | None,
    size: tuple[float, float],
    ncols: int,
    names: Iterable[str] = (),
    notes: Sequence[str] = (),
    label_y: float = 23,
    **subplots: Any,
) -> Axes | Figure:
    """Draw the panels `parts` (name -> function that draws into axes), or one of them.

    Parameters
    ----------
    result : where the label on simulated data and the small print come from.
    parts : in the order of reading.
    ax : axes for one panel; None makes a figure.
    panel : which panel; None takes the first with `ax`, and all without.
    size : inches of the figure with all panels.
    ncols : panels side by side.
    names : models in the figure.
    notes : sentences for the small print.
    label_y : points above the axes where the label on simulated data stands.
    **subplots : for `matplotlib.pyplot.subplots`, such as `sharey` and `width_ratios` (which count only where all
        columns are there).

    Returns
    -------
    Axes or Figure
        The axes of the one panel, or the figure with all.

    Raises
    ------
    FigureError
        There is no such panel, nothing to draw, or `ax` is no Axes.
    """
    if not parts:
        raise style.FigureError("nothing to draw: the result holds no rows for this figure")
    if panel is not None:
        choice("panel", panel, parts, style.FigureError, hint=False)
    style.require_axes(ax)
    models = list(names)
    with style.context():
        if ax is None and panel is None:
            return _all_panels(result, parts, size, ncols, models, notes, label_y, subplots)
        fig, ax = style.own_or_given(ax, max(size[0] / ncols, 4.5), size[1] / -(-len(parts) // ncols))
        parts[panel or next(iter(parts))](ax)
        style.mark_simulated(ax, result, models, y=label_y)
        if fig is not None:
            style.small_print(fig, result, *notes)
    return ax


def _all_panels(
    result: Any,
    parts: Mapping[str, Callable[[Axes], None]],
    size: tuple[float, float],
    ncols: int,
    models: Sequence[str],
    notes: Sequence[str],
    label_y: float,
    subplots: Mapping[str, Any],
) -> Figure:
    ncols = min(ncols, len(parts))
    if len(subplots.get("width_ratios") or ()) != ncols:
        subplots = {name: value for name, value in subplots.items() if name != "width_ratios"}
    fig, axes = style.subplots(
        -(-len(parts) // ncols), ncols, figsize=size, layout="constrained", squeeze=False, **subplots
    )
    for i, ax in enumerate(axes.flat):
        if i >= len(parts):
            ax.set_axis_off()
            continue
        [*parts.values()][i](ax)
        if len(parts) > 1:
            ax._left_title.set_text(f"({string.ascii_lowercase[i]}) {ax.get_title(loc='left')}")
    style.mark_simulated(axes[0, -1], result, models, y=label_y)
    style.small_print(fig, result, *notes)
    return fig


def title(ax: Axes, text: str, *, legend_lines: int = 0) -> None:
    """The panel's title at the left, above so many lines of legend."""
    ax.set_title(text, loc="left", pad=6 + LEGEND_LINE * legend_lines + 3 * bool(legend_lines))


def legend(ax: Axes, ncols: int) -> None:
    """The legend between axes and title."""
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=ncols, columnspacing=1.0)


def bars(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float],
    ends: Sequence[Any],
    mark: style.Mark,
    *,
    along: str,
    **options: Any,
) -> ErrorbarContainer:
    """Marks at (x, y) with an interval each. `ends`: (lo, hi) or None per mark; `along`: "x" or "y".

    An interval is drawn from end to end also where it does not hold its mark, as a percentile interval may not.
    """
    import numpy as np

    middle = np.asarray(x if along == "x" else y, float)
    low, high = (np.array([np.nan if not e or e[i] is None else e[i] for e in ends], float) for i in (0, 1))
    away = np.clip([middle - low, high - middle], 0, None)
    drawn = ax.errorbar(
        x,
        y,
        **{f"{along}err": away},
        **{
            "fmt": mark.marker,
            "color": mark.color,
            "ecolor": mark.edge,
            "markeredgecolor": mark.edge,
            "markeredgewidth": 0.6,
            "markersize": mark.size,
            "elinewidth": 1.0,
            "capsize": 0,
            "zorder": 3,
            **options,
        },
    )
    if (low > middle).any() or (high < middle).any():
        _from_end_to_end(ax, drawn, (low, high), y if along == "x" else x, along)
    return drawn


def _from_end_to_end(ax: Axes, drawn: ErrorbarContainer, ends: Any, at: Sequence[float], along: str) -> None:
    """Move the ends of intervals to where they are; `at` is where each stands on the other axis."""
    import numpy as np

    across = np.asarray(at, float)
    corners = [np.column_stack((e, across) if along == "x" else (across, e)) for e in ends]
    drawn.lines[2][0].set_segments([*np.stack(corners, axis=1)])
    for cap, corner in zip(drawn.lines[1], corners, strict=False):
        cap.set_data(*corner.T)
    known = np.isfinite(ends[0]) & np.isfinite(ends[1])
    ax.update_datalim(np.concatenate([corner[known] for corner in corners]))
    ax.autoscale_view()


def halo(intervals: ErrorbarContainer) -> None:
    """A white edge around the lines of intervals, so that they are seen on a dark bar."""
    from matplotlib.patheffects import withStroke

    for lines in intervals.lines[2]:
        lines.set_path_effects([withStroke(linewidth=2.4, foreground="white")])


def rows(ax: Axes, names: Sequence[str], *, width: int = style.NAME_WIDTH) -> None:
    """One row per name, the first on top, with bands that lead the eye; names are cut to `width` characters."""
    ax.set_yticks(range(len(names)), style.brief(names, width))
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    for i in range(1, len(names), 2):
        ax.axhspan(i - 0.5, i + 0.5, color="#f4f4f4", lw=0, zorder=0)
    ax.grid(axis="x")


def heatmap(
    ax: Axes,
    values: Any,
    words: Any,
    *,
    lines: Sequence[str],
    columns: Sequence[str],
    missing: str = "",
    size: float = 6.8,
    **options: Any,
) -> QuadMesh:
    """Draw an array as coloured cells with words in them, the first line on top; NaN stays white.

    Shapes, not a picture: files stay small, and sharp at any size.

    Parameters
    ----------
    ax : axes to draw in. The cell in line i and column j has its middle at (j + 0.5, i + 0.5).
    values : numbers or NaN, (lines, columns).
    words : a text for each, of the same shape.
    lines, columns : their names.
    missing : what stands in a cell that is NaN.
    size : points of the words.
    **options : for `seaborn.heatmap`, such as `vmin` and `vmax`.

    Returns
    -------
    QuadMesh
        The cells (a masked array); the words are texts with gid `cell`.
    """
    import numpy as np
    import seaborn

    numbers = np.asarray(values, float)
    look: dict[str, Any] = {"fontsize": size, "gid": "cell", "linespacing": 1.1}
    settings = {"cmap": FRACTION_MAP, "linecolor": "white", "linewidths": 0.8, "cbar": False, **options}
    names = {"xticklabels": columns, "yticklabels": lines}
    earlier = len(ax.texts)
    seaborn.heatmap(numbers, ax=ax, annot=np.asarray(words), fmt="", annot_kws=look, **names, **settings)
    mesh: Any = ax.collections[-1]
    there = np.isfinite(numbers)
    for text, color in zip(ax.texts[earlier:], mesh.get_facecolors()[there.ravel()], strict=True):
        text.set_color(ink(color))
    if missing:
        for i, j in np.argwhere(~there):
            ax.text(j + 0.5, i + 0.5, missing, color="#606060", ha="center", va="center", **look)
    # Seaborn turns names as it finds room for them, before there is a layout.
    ax.tick_params(length=0, labelrotation=0)
    for name in ax.get_yticklabels():
        name.set_verticalalignment("center_baseline")
    return mesh


def slant(ax: Axes, degrees: float) -> None:
    """Turn the names below the axes, so that each ends at its column."""
    for name in ax.get_xticklabels():
        name.set(rotation=degrees, ha="right")


def ink(color: Sequence[float]) -> str:
    """Black or white, whichever reads better on a colour (red, green, blue; 0 to 1).

    Seaborn's own choice keeps white up to a luminance of 0.41, where small print has a contrast of 2.3.
    """
    from seaborn.utils import relative_luminance

    return "white" if relative_luminance(color) < _EQUAL_CONTRAST else "black"


def trend(ax: Axes, x: ArrayLike, y: ArrayLike, *, log: bool = False, **look: Any) -> None:
    """The least-squares line through points, dashed; over log10 of x where the axis is logarithmic."""
    import numpy as np

    at, of = np.asarray(x, float), np.asarray(y, float)
    slope, start = np.polyfit(np.log10(at) if log else at, of, 1)
    ends = np.array([at.min(), at.max()])
    line = start + slope * (np.log10(ends) if log else ends)
    ax.plot(ends, line, **{"color": "#606060", "ls": (0, (4, 2)), "lw": 1.0, "zorder": 2, "gid": "trend", **look})


def corner(ax: Axes, text: str, *, place: str = "lower right") -> None:
    """A few words in a corner of the axes, such as a correlation."""
    if not text:
        return
    vertical, horizontal = place.split()
    xy = (0.98 if horizontal == "right" else 0.02, 0.02 if vertical == "lower" else 0.98)
    align: dict[str, Any] = {"ha": horizontal, "va": "bottom" if vertical == "lower" else "top"}
    ground = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75}
    look: dict[str, Any] = {"fontsize": 7, "linespacing": 1.3, "gid": "corner", "zorder": 6, "bbox": ground}
    ax.text(*xy, text, transform=ax.transAxes, **look, **align)


def points(ax: Axes, x: Sequence[float], y: Sequence[float], mark: style.Mark, label: str, **options: Any) -> None:
    """One series of points without lines."""
    look = {"marker": mark.marker, "ms": mark.size, "mfc": mark.color, "mec": mark.edge, "mew": 0.5, "ls": "none"}
    ax.plot(x, y, **{**look, "label": label, "zorder": 3, **options})


def equal_scales(ax: Axes) -> None:
    """The same scale on both axes, and the line on which both values are the same."""
    low = min(ax.dataLim.x0, ax.dataLim.y0)
    high = max(ax.dataLim.x1, ax.dataLim.y1)
    margin = 0.06 * max(high - low, 1.0)
    ends = (low - margin, high + margin)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    ax.set_aspect("equal", adjustable="box")
    ax.plot(ends, ends, color="#808080", lw=0.8, ls=(0, (4, 2)), zorder=1, gid="equal")
    ax.grid(axis="both")
    ax.locator_params(nbins=5)
