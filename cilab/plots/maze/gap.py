"""The figure of the collaboration gap: solo, solo with a distributed map, and pair, model by model.

May import `cilab.plots.parts` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cilab.core.errors import choice
from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.maze.gap import OUTCOMES, SETTING_NAMES, SETTINGS, GapResult
from cilab.stats.maze.rows import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cilab.results.result import Result

#: Where each setting's mark stands within its model's row, in rows from its middle (down is positive).
_DODGE = {"solo_full": -0.24, "solo_distributed": 0.0, "pair": 0.24}
_ROW_INCHES = 0.235


def gap(result: GapResult, *, ax: Axes | None = None, distributed: Literal["reported", "all"] = "reported") -> Axes:
    """Draw means and intervals per model in the three settings, as figure 4.1 of the collaboration-gap paper.

    One row per model, best pair on top. Grey circles: solo with the full map; yellow diamonds: solo with the
    distributed map; red squares: pair of copies. Bars are the intervals of `result`; a mean without one has no bar.

    Parameters
    ----------
    result : what `cilab.gap` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide and as high as the models need, with small print.
    distributed : "reported" draws the distributed map only where the degradation is reported or where there is no
        interval to tell; "all" draws it always.

    Returns
    -------
    Axes
        One ErrorbarContainer per setting drawn; its label is the setting's name.

    Raises
    ------
    FigureError
        `result` is not a GapResult, or `distributed` is another word.
    """
    style.require(result, GapResult, "gap")
    choice("distributed", distributed, ("reported", "all"), style.FigureError, hint=False)
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.45 + _ROW_INCHES * max(len(result.rows), 2))
        for setting in SETTINGS:
            _draw_setting(ax, result, setting, distributed)
        _draw_frame(ax, result)
        if fig is not None:
            hidden = "The distributed map is drawn only where the degradation to it is reported."
            level = f"Bars: {percent(result.parameters['ci_level'])} intervals over {over(result)}."
            style.small_print(fig, result, f"{level} {hidden}" if distributed == "reported" else level)
    return ax


def over(result: Result) -> str:
    """What the intervals of a result are taken over, in words."""
    return plural(result.parameters["cluster"])


def _draw_setting(ax: Axes, result: GapResult, setting: str, distributed: str) -> None:
    """Marks and interval bars of one setting."""
    reported = dict(result.gaps.select("row", "degradation_reported").rows())
    position = {name: i for i, name in enumerate(result.rows)}
    points = []
    for name in result.rows:
        cell = result.cell(name, setting)
        hidden = setting == "solo_distributed" and distributed == "reported" and reported[name] is False
        if cell is not None and cell["mean"] is not None and not hidden:
            points.append((cell["mean"], position[name] + _DODGE[setting], (cell["lo"], cell["hi"])))
    if not points:
        return
    x, y, ends = zip(*points, strict=True)
    look = {"label": SETTING_NAMES[setting], "zorder": 3 + SETTINGS.index(setting), "ls": "none"}
    panels.bars(ax, x, y, ends, style.SETTING_MARKS[setting], along="x", **look)


def _draw_frame(ax: Axes, result: GapResult) -> None:
    """Axes, names, bands that lead the eye, legend, title, and the label on simulated data."""
    n = len(result.rows)
    ax.set_yticks(range(n), style.brief(result.rows))
    ax.set_ylim(n - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    for i in range(1, n, 2):
        ax.axhspan(i - 0.5, i + 0.5, color="#f4f4f4", lw=0, zorder=0)
    low, high = _limits(result)
    ax.set_xlim(low, high)
    ax.grid(axis="x")
    if low < -0.05:
        ax.axvline(0, color="#808080", lw=0.8, zorder=1)
    if result.chance_floor is not None:
        ax.axvline(result.chance_floor, color="#404040", lw=0.9, ls=(0, (1, 2)), zorder=1, label="Chance floor")
    mazes = result.parameters["maze_size"], result.parameters["wall_density"]
    where = [f"{mazes[0]}×{mazes[0]} mazes"] if mazes[0] is not None else []
    where += [f"wall density {mazes[1]:.2f}"] if mazes[1] is not None else []
    ax.set_xlabel("\n".join(part for part in (OUTCOMES[result.parameters["outcome"]], ", ".join(where)) if part))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=4)
    ax.set_title("Collaboration gap", loc="left", pad=21)
    style.mark_simulated(ax, result, result.rows, y=21)


def _limits(result: GapResult) -> tuple[float, float]:
    """0 to 1 with a margin, wider where a mean or an interval needs it."""
    values = [v for c in ("mean", "lo", "hi") for v in result.table[c].drop_nulls()]
    low, high = min(0.0, *values), max(1.0, *values)
    margin = 0.02 * (high - low)
    return low - margin, high + margin
