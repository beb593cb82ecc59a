"""Several panels in one figure, and what the maze figures share: marks of series, and bars with their intervals.

May import `cilab.plots.style`. Computes nothing.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cilab.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

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
    **subplots : for `matplotlib.pyplot.subplots`, such as `sharey` and `width_ratios`.

    Returns
    -------
    Axes or Figure
        The axes of the one panel, or the figure with all.

    Raises
    ------
    FigureError
        There is no such panel, or nothing to draw.
    """
    if not parts:
        raise style.FigureError("nothing to draw: the result holds no rows for this figure")
    if panel is not None and panel not in parts:
        raise style.FigureError(f"panel is {panel!r}, not one of {', '.join(parts)}")
    models = list(names)
    with style.context():
        if ax is None and panel is None:
            return _all_panels(result, parts, size, ncols, models, notes, label_y, subplots)
        own = ax is None
        if ax is None:
            fig, ax = style.new_figure(max(size[0] / ncols, 4.5), size[1] / -(-len(parts) // ncols))
        parts[panel or next(iter(parts))](ax)
        style.mark_simulated(ax, result, models, y=label_y)
        if own:
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
    import matplotlib.pyplot as plt

    ncols = min(ncols, len(parts))
    fig, axes = plt.subplots(
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
    """Marks at (x, y) with an interval each. `ends`: (lo, hi) or None per mark; `along`: "x" or "y"."""
    middle = x if along == "x" else y
    low = [m - e[0] if e and e[0] is not None else float("nan") for m, e in zip(middle, ends, strict=True)]
    high = [e[1] - m if e and e[1] is not None else float("nan") for m, e in zip(middle, ends, strict=True)]
    return ax.errorbar(
        x,
        y,
        **{f"{along}err": [low, high]},
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


def halo(intervals: ErrorbarContainer) -> None:
    """A white edge around the lines of intervals, so that they are seen on a dark bar."""
    from matplotlib.patheffects import withStroke

    for lines in intervals.lines[2]:
        lines.set_path_effects([withStroke(linewidth=2.4, foreground="white")])


def rows(ax: Axes, names: Sequence[str]) -> None:
    """One row per name, the first on top, with bands that lead the eye."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    for i in range(1, len(names), 2):
        ax.axhspan(i - 0.5, i + 0.5, color="#f4f4f4", lw=0, zorder=0)
    ax.grid(axis="x")


def ink(fraction: float) -> str:
    """Black or white, whichever reads better on `FRACTION_MAP` at `fraction` (0 to 1)."""
    return "white" if fraction < 0.5 else "black"


def trend(ax: Axes, x: Sequence[float], y: Sequence[float], *, log: bool = False) -> None:
    """The least-squares line through points, dashed; over log10 of x where the axis is logarithmic."""
    import numpy as np

    at, of = np.asarray(x, float), np.asarray(y, float)
    slope, start = np.polyfit(np.log10(at) if log else at, of, 1)
    ends = np.array([at.min(), at.max()])
    line = start + slope * (np.log10(ends) if log else ends)
    ax.plot(ends, line, color="#606060", ls=(0, (4, 2)), lw=1.0, zorder=2, gid="trend")


def corner(ax: Axes, text: str, *, place: str = "lower right") -> None:
    """A few words in a corner of the axes, such as a correlation."""
    if not text:
        return
    vertical, horizontal = place.split()
    xy = (0.98 if horizontal == "right" else 0.02, 0.02 if vertical == "lower" else 0.98)
    align = {"ha": horizontal, "va": "bottom" if vertical == "lower" else "top"}
    ax.text(*xy, text, transform=ax.transAxes, fontsize=7, linespacing=1.3, gid="corner", **align)
