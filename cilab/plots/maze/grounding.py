"""Grounding: strategies by the agents' tiers, and outcome against the grounding score by strategy.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes no result; the line
through the pairs is drawn only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, style
from cilab.stats.maze.grounding import GroundingResult
from cilab.stats.maze.rows import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Strategy -> mark, colour of the bar.
_STRATEGIES = {"global": panels.SERIES[2], "local": panels.SERIES[1]}
#: A mean is drawn where so many rollouts have the score.
_FEWEST = 5


def grounding(result: GroundingResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw strategies by tier and outcome against grounding, as figure D.2 of the collaboration-gap paper.

    Parameters
    ----------
    result : what `cilab.grounding` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `strategy` (share of global and local strategies per pair of tiers, strongest on top) or `outcome` (mean
        outcome at each grounding score with 95 % interval, by strategy; grey points and dashed line: ordered pairs);
        None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        `result` is not a GroundingResult, or there is no such panel.
    """
    style.require(result, GroundingResult, "grounding")
    parts = {}
    if result.by_tier.height:
        parts["strategy"] = partial(_by_tier, result=result)
    parts["outcome"] = partial(_by_score, result=result)
    over = plural(result.parameters["cluster"])
    note = (
        f"Outcome: means at each score (at least {_FEWEST} rollouts) with 95% intervals over {over}; "
        "grey: ordered pairs with their least-squares line (dashed)."
    )
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 3.3),
        ncols=2,
        notes=[note],
        label_y=36,
        width_ratios=[0.85, 1][-len(parts) :],
    )


def _by_tier(ax: Axes, *, result: GroundingResult) -> None:
    table = result.by_tier
    y = range(table.height)
    share = table["share_global"].to_list()
    for name, left, width in (("global", [0.0] * len(share), share), ("local", share, [1 - s for s in share])):
        mark, hatch = _STRATEGIES[name], "" if name == "global" else "//"
        ax.barh(
            y, width, 0.7, left=left, color=mark.color, edgecolor="white", hatch=hatch, lw=0.4, label=name.capitalize()
        )
    for i, value in enumerate(share):
        ax.text(
            0.02, i, f"{value:.2f}", va="center", ha="left", fontsize=6.8, color="white", fontweight="bold", gid="share"
        )
    ax.set_yticks(y, [f"{tiers}\nn = {n:,}" for tiers, n in table.select("tiers", "n").rows()])
    ax.set_ylim(table.height - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("Share of strategies (fraction)")
    panels.legend(ax, 2)
    panels.title(ax, "Strategy by tiers", legend_lines=1)


def _by_score(ax: Axes, *, result: GroundingResult) -> None:
    pairs = result.pairs.drop_nulls(["grounding", "weighted_outcome"])
    ax.plot(
        pairs["grounding"],
        pairs["weighted_outcome"],
        ".",
        color="#a0a0a0",
        ms=3.5,
        zorder=1,
        label="Pairs",
        gid="pairs",
    )
    if pairs["grounding"].n_unique() > 1:
        panels.trend(ax, pairs["grounding"], pairs["weighted_outcome"], color="#a50f15", ls="--", lw=1.1)
    for i, (name, mark) in enumerate(_STRATEGIES.items()):
        points = result.by_score.filter(pl.col("strategy") == name, pl.col("n") >= _FEWEST)
        if points.height:
            x = [score + 0.008 * (1 - 2 * i) for score in points["grounding"]]
            ends = points.select("lo", "hi").rows()
            line = "-" if name == "global" else (0, (2, 1.2))
            panels.bars(ax, x, points["mean"].to_list(), ends, mark, along="y", label=name.capitalize(), ls=line)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("Grounding score (0 to 1)")
    ax.set_ylabel("Mean weighted outcome (fraction)")
    ax.grid(axis="y")
    panels.legend(ax, 3)
    panels.title(ax, "Outcome by grounding", legend_lines=1)
