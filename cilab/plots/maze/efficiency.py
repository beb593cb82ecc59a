"""Communication efficiency: tokens a message, and messages a rollout.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.maze.gap import over
from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.maze.efficiency import BANDS, EfficiencyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SETTINGS = {"homogeneous": panels.SERIES[0], "heterogeneous": panels.SERIES[1]}
_PARTNERS = {"more efficient": panels.SERIES[2], "less efficient": panels.SERIES[3]}
#: Fail, Partial Fail, Partial Success, Success: from dark to light, one shape each.
_BAND_MARKS = (
    style.Mark("#67000d", "X", 4.6, "#400008"),
    style.Mark("#d7642c", "v", 4.6, "#7a3000"),
    style.Mark("#8fcdf2", "D", 3.8, "#2b6d94"),
    style.Mark("#08519c", "o", 4.2, "#08306b"),
)


def efficiency(result: EfficiencyResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw tokens a message, with copies and with others, as figure D.4 of the collaboration-gap paper.

    Parameters
    ----------
    result : what `cilab.efficiency` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `tokens` (mean of the median tokens a message, homogeneous and heterogeneous) or `adaptation` (change from
        the agent's own level with partners that use fewer or more tokens); None takes the first with `ax`, and all
        without.

    Returns
    -------
    Axes or Figure
        Per panel one ErrorbarContainer per group.

    Raises
    ------
    FigureError
        `result` is not an EfficiencyResult, or there is no such panel.
    """
    style.require(result, EfficiencyResult, "efficiency")
    tokens = result.table.filter(pl.col("mean").is_not_null())
    agents = _most_terse_first(tokens)
    adapted = result.adaptation.filter(pl.col("change").is_not_null())
    parts = {"tokens": partial(_tokens, table=tokens, agents=agents)} if agents else {}
    if adapted.height:
        there = [name for name in agents if name in set(adapted["agent"])]
        parts["adaptation"] = partial(_adaptation, table=adapted, agents=there)
    level = f"Bars: {percent(result.parameters['ci_level'])} intervals over {over(result)}."
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 1.5 + 0.17 * max(len(agents), 4)),
        ncols=2,
        names=agents,
        notes=[f"{level} More and less efficient: partners that use fewer and more tokens with copies of themselves."],
        label_y=36,
    )


def _most_terse_first(table: pl.DataFrame) -> list[str]:
    """By tokens a message with copies, else with others."""
    means = {}
    for setting in ("heterogeneous", "homogeneous"):
        means |= dict(table.filter(pl.col("setting") == setting).select("agent", "mean").rows())
    return sorted(means, key=lambda name: (means[name], name))


def _tokens(ax: Axes, *, table: pl.DataFrame, agents: list[str]) -> None:
    panels.rows(ax, agents, width=style.NARROW)
    for i, (setting, mark) in enumerate(_SETTINGS.items()):
        part = table.filter(pl.col("setting") == setting)
        if part.height:
            rows = [agents.index(name) + 0.16 * (2 * i - 1) for name in part["agent"]]
            ends = part.select("lo", "hi").rows()
            panels.bars(ax, part["mean"].to_list(), rows, ends, mark, along="x", label=setting.capitalize(), ls="none")
    ax.set_xlim(left=0)
    ax.set_xlabel("Median tokens a message")
    panels.legend(ax, 2)
    panels.title(ax, "Tokens a message", legend_lines=1)


def _adaptation(ax: Axes, *, table: pl.DataFrame, agents: list[str]) -> None:
    panels.rows(ax, agents, width=style.NARROW)
    ax.axvline(0, color="#404040", lw=0.9, zorder=1)
    for partners, mark in _PARTNERS.items():
        part = table.filter(pl.col("partners") == partners)
        if part.height:
            rows = [agents.index(name) for name in part["agent"]]
            ends = part.select("change_lo", "change_hi").rows()
            label = f"With {partners}"
            panels.bars(ax, part["change"].to_list(), rows, ends, mark, along="x", label=label, ls="none")
    ax.set_xlabel("Change in tokens a message")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.4, ncols=2, columnspacing=0.8)
    panels.title(ax, "Adaptation", legend_lines=1)


def messages(result: EfficiencyResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw messages a rollout by outcome band, as figure D.5 of the collaboration-gap paper.

    Parameters
    ----------
    result : what `cilab.efficiency` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `homogeneous` or `heterogeneous`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Per panel one ErrorbarContainer per outcome band.

    Raises
    ------
    FigureError
        `result` is not an EfficiencyResult, or there is no such panel.
    """
    style.require(result, EfficiencyResult, "messages")
    table = result.messages.filter(pl.col("mean").is_not_null())
    parts = {}
    longest = 1
    for setting in _SETTINGS:
        mine = table.filter(pl.col("setting") == setting)
        agents = sorted(mine["agent"].unique())
        if agents:
            parts[setting] = partial(_messages, table=mine, agents=agents, setting=setting)
            longest = max(longest, len(agents))
    level = (
        f"Bars: {percent(result.parameters['ci_level'])} intervals over {over(result)}. Bands of the weighted outcome:"
    )
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 1.6 + 0.22 * max(longest, 4)),
        ncols=2,
        names=table["agent"].unique().to_list(),
        notes=[f"{level} fail below 0.25, partial fail below 0.5, partial success below 0.75, success from 0.75 on."],
        label_y=48,
    )


def _messages(ax: Axes, *, table: pl.DataFrame, agents: list[str], setting: str) -> None:
    panels.rows(ax, agents, width=style.NARROW)
    for i, ((band, _, _), mark) in enumerate(zip(BANDS, _BAND_MARKS, strict=True)):
        part = table.filter(pl.col("band") == band)
        if part.height:
            rows = [agents.index(name) + 0.2 * (i - 1.5) for name in part["agent"]]
            ends = part.select("lo", "hi").rows()
            look = {"label": band, "ls": "none", "markersize": 0.75 * mark.size, "elinewidth": 0.7}
            panels.bars(ax, part["mean"].to_list(), rows, ends, mark, along="x", **look)
    ax.set_xlim(left=0)
    ax.set_xlabel("Messages a rollout")
    panels.legend(ax, 2)
    panels.title(ax, f"{setting.capitalize()} pairs", legend_lines=2)
