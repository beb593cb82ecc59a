"""The heatmap of ordered pairs: who starts in rows, who follows in columns.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cilab.core.errors import nearest
from cilab.plots.parts import panels, style
from cilab.results.numbers import Interval, percent
from cilab.stats.maze.gap import OUTCOMES
from cilab.stats.maze.pairs import PairsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL_INCHES = 0.42


def pairs(result: PairsResult, *, ax: Axes | None = None, agents: Sequence[str] | None = None) -> Axes:
    """Draw the mean of every ordered pair with half its interval below, as figure 4.3 of the collaboration-gap paper.

    Starters in rows, followers in columns, both in order of their mean with a copy of themselves. Pairs of copies
    (the diagonal) have a frame; pairs that were not played are white.

    Parameters
    ----------
    result : what `cilab.pairs` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    agents : names to draw, in this order; None draws all agents that were paired with another agent (all agents
        where there is none).

    Returns
    -------
    Axes
        Cells (a masked array), and a text with gid `cell` in every cell that was played.

    Raises
    ------
    FigureError
        `result` is not a PairsResult, an agent is not in it, or no pair of the agents has a mean.
    """
    style.require(result, PairsResult, "pairs")
    shown = _agents(result, agents)
    cells = {(r["starter"], r["follower"]): r for r in result.table.iter_rows(named=True) if r["mean"] is not None}
    if not any((a, b) in cells for a in shown for b in shown):
        raise style.FigureError("nothing to draw: none of these agents has a scored rollout with another of them")
    with style.context():
        names = style.brief(shown)
        height = _CELL_INCHES * max(len(shown), 5) + 1.6 + 0.04 * max(map(len, names))
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, min(height, 7.6))
        _draw_cells(ax, result, shown, cells)
        _draw_frame(ax, len(shown))
        style.mark_simulated(ax, result, shown, y=8)
        if fig is not None:
            style.small_print(fig, result, *_notes(result, shown))
    return ax


def _agents(result: PairsResult, wanted: Sequence[str] | None) -> list[str]:
    if wanted is not None:
        for name in wanted:
            if name not in result.agents:
                raise style.FigureError(f"agents: no pair of {name!r}.{nearest(str(name), result.agents)}")
        return list(wanted)
    mixed = result.table.filter(~result.table["homogeneous"])
    partners = {*mixed["starter"], *mixed["follower"]}
    return [name for name in result.agents if name in partners] or result.agents


def _draw_cells(ax: Axes, result: PairsResult, shown: Sequence[str], cells: dict[tuple[str, str], Any]) -> None:
    import numpy as np

    found = [[cells.get((a, b)) for b in shown] for a in shown]
    means = np.array([[c["mean"] if c else np.nan for c in row] for row in found])
    names = style.brief(shown)
    label = OUTCOMES[result.parameters["outcome"]].replace(" (", "\n(")
    panels.heatmap(
        ax,
        means,
        [[_words(c) if c else "" for c in row] for row in found],
        lines=names,
        columns=names,
        vmin=min(0.0, np.nanmin(means)),
        vmax=max(1.0, np.nanmax(means)),
        size=6.6 if len(shown) <= 9 else 5.6 if len(shown) <= 15 else 4.4,
        linecolor="#e8e8e8",
        cbar=True,
        cbar_kws={"label": label, "fraction": 0.04, "pad": 0.02},
    )
    for i, row in enumerate(found):
        for j, cell in enumerate(row):
            if cell is not None and cell["homogeneous"]:
                ax.add_patch(_frame_of(i, j))


def _words(cell: dict[str, Any]) -> str:
    """The mean, and half its interval below; without an interval the mean alone."""
    return Interval(cell["mean"], cell["lo"], cell["hi"], 2).half().replace(" ± ", "\n±")


def _frame_of(i: int, j: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, fill=False, ec="#d7301f", lw=1.1, gid="homogeneous")


def _draw_frame(ax: Axes, n: int) -> None:
    if n > 5:
        ax.tick_params(axis="x", labelrotation=90)
    else:
        panels.slant(ax, 20)
    ax.set_xlabel("Follower")
    ax.set_ylabel("Starter")
    ax.set_title("Ordered pairs", loc="left")


def _notes(result: PairsResult, shown: Sequence[str]) -> list[str]:
    level = f"±: half the {percent(result.parameters['ci_level'])} interval. Framed: two copies of one agent."
    out = len(result.agents) - len(shown)
    return [f"{level} White: not played." + (f" Left out of the figure: {out} agents." if out else "")]
