"""Ablations: mean outcome against the size or the wall density of the mazes.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.maze.gap import over
from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.maze.ablation import FACTORS, AblationResult, DistilledResult
from cilab.stats.maze.gap import OUTCOMES, SETTING_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ("-", (0, (4, 1.5)), (0, (2, 1.2)), (0, (5, 1.5, 1, 1.5)))

#: Characters of a line of the legend in a panel that is a third of a page wide.
_LEGEND_ROOM = 36


def ablation(result: AblationResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw the mean outcome at each level of the mazes, as figures C.1 and C.2 of the collaboration-gap paper.

    One panel per setting, one line per agent that was measured at two levels or more in that setting.

    Parameters
    ----------
    result : what `cilab.ablation` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : a setting (`solo_full`, `solo_distributed`, `pair`); None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        One ErrorbarContainer per agent; its label is the agent's name.

    Raises
    ------
    FigureError
        `result` is not an AblationResult, there is no such panel, or no agent has two levels.
    """
    style.require(result, AblationResult, "ablation")
    table = result.table.filter(pl.col("mean").is_not_null())
    table = table.filter(pl.col("level").n_unique().over("agent", "setting") > 1)
    agents = table["agent"].unique(maintain_order=True).to_list()
    looks = {name: i for i, name in enumerate(agents)}
    parts = {
        setting: partial(_draw, table=table.filter(pl.col("setting") == setting), result=result, looks=looks, name=name)
        for setting, name in SETTING_NAMES.items()
        if (table["setting"] == setting).any()
    }
    lines = -(-len(agents) // _columns(agents))
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 2.7 + 0.17 * lines),
        ncols=3,
        names=agents,
        notes=[f"Bars: {percent(result.parameters['ci_level'])} intervals over {over(result)}."],
        label_y=26 + panels.LEGEND_LINE * lines,
        sharey=True,
    )


def _draw(ax: Axes, *, table: pl.DataFrame, result: AblationResult, looks: Mapping[str, int], name: str) -> None:
    levels = sorted(table["level"].unique())
    step = min(b - a for a, b in itertools.pairwise(levels))
    shown = style.brief(looks, style.NARROW)
    for agent, i in looks.items():
        points = table.filter(pl.col("agent") == agent).sort("level")
        if points.height:
            dodge = 0.07 * step * (i - (len(looks) - 1) / 2)
            panels.bars(
                ax,
                [level + dodge for level in points["level"]],
                points["mean"].to_list(),
                points.select("lo", "hi").rows(),
                panels.SERIES[i % len(panels.SERIES)],
                along="y",
                label=shown[i],
                ls=_LINES[i % len(_LINES)],
                lw=0.9,
            )
    ax.set_xticks(levels, [f"{level:g}" for level in levels])
    values = [v for c in ("mean", "lo", "hi") for v in table[c].drop_nulls()]
    low, high = ax.get_ylim()
    ax.set_ylim(min(-0.02, low, *values), max(1.05, high, *values))
    ax.grid(axis="y")
    ax.set_xlabel(FACTORS[result.factor].capitalize())
    if ax.get_subplotspec() is None or ax.get_subplotspec().is_first_col():
        ax.set_ylabel(OUTCOMES[result.parameters["outcome"]].replace(" (", "\n("))
    columns = _columns(looks)
    panels.legend(ax, columns)
    panels.title(ax, name, legend_lines=-(-len(ax.containers) // columns))


def _columns(agents: Iterable[str]) -> int:
    """Of the legend of a panel that is a third of a page wide."""
    return style.legend_columns(style.brief(agents, style.NARROW), 2, _LEGEND_ROOM)


def distilled(result: DistilledResult, *, ax: Axes | None = None) -> Axes:
    """Draw the collaboration gap of every model with its interval, distilled models apart from base models.

    Parameters
    ----------
    result : what `cilab.stats.maze.ablation.distilled` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One ErrorbarContainer per group; its label is `Distilled` or `Base`.

    Raises
    ------
    FigureError
        `result` is not a DistilledResult, or no model has a gap.
    """
    style.require(result, DistilledResult, "distilled")
    table = result.table.filter(pl.col("gap").is_not_null()).sort("distilled", "gap", descending=[True, True])
    names = table["row"].to_list()
    parts = {"gap": partial(_gaps, table=table, names=names)} if names else {}
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel="gap",
        size=(style.PAGE_WIDTH, 1.3 + 0.2 * len(names)),
        ncols=1,
        names=names,
        notes=["Gap: solo with the distributed map minus pair of copies."],
        label_y=36,
    )


def _gaps(ax: Axes, *, table: pl.DataFrame, names: list[str]) -> None:
    panels.rows(ax, names)
    ax.axvline(0, color="#404040", lw=0.9, zorder=1)
    for flag, words, mark in ((True, "Distilled", panels.SERIES[1]), (False, "Base", panels.SERIES[0])):
        part = table.filter(pl.col("distilled") == flag)
        if part.height:
            rows = [names.index(name) for name in part["row"]]
            ends = part.select("gap_lo", "gap_hi").rows()
            panels.bars(ax, part["gap"].to_list(), rows, ends, mark, along="x", label=words, ls="none")
    ax.set_xlabel("Collaboration gap (difference of mean outcomes)")
    panels.legend(ax, 2)
    panels.title(ax, "Distilled and base models", legend_lines=1)
