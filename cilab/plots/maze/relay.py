"""Relay curves: the outcome against the turns before the swap, between the two pairs of copies.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.maze.gap import over
from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.maze.gap import OUTCOMES
from cilab.stats.maze.relay import KINDS, RelayResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {"primer": panels.SERIES[0], "recovery": panels.SERIES[1]}
#: A kind's curve is moved by this many turns, so that two intervals at one K do not lie on each other.
_DODGE = {"primer": -0.1, "recovery": 0.1}
#: Characters of two names that fit beside each other in a title.
_ONE_LINE = 32
#: Reference in the result -> word in the legend, line, grey of line and band.
_REFERENCES = {
    "two copies of the strong agent": ("strong pair", "-", "#404040", "#b8b8b8"),
    "two copies of the weak agent": ("weak pair", (0, (4, 2)), "#707070", "#dcdcdc"),
}


def relay(result: RelayResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw outcome against K for a strong primer and a strong recovery, as figure 4.6 of the collaboration-gap paper.

    One panel per strong and weak agent. Lines with bands: the two copies of the strong and of the weak agent.

    Parameters
    ----------
    result : what `cilab.relay` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : which, as `strong > weak`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Per panel one ErrorbarContainer per kind; its label is the kind's name.

    Raises
    ------
    FigureError
        `result` is not a RelayResult, or there is no such panel.
    """
    style.require(result, RelayResult, "relay")
    keys = result.table.select("strong", "weak").unique(maintain_order=True).rows()
    parts = {f"{strong} > {weak}": partial(_draw, result=result, strong=strong, weak=weak) for strong, weak in keys}
    lines = max((_heading(*key).count("\n") for key in keys), default=0)
    level = f"Bars and bands: {percent(result.parameters['ci_level'])} intervals over {over(result)}."
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 0.7 + 2.5 * -(-len(parts) // 2)),
        ncols=2,
        names={name for key in keys for name in key},
        notes=[f"{level} Lines: pairs of two copies."],
        label_y=50 + panels.LEGEND_LINE * lines,
        sharey=True,
    )


def _heading(strong: str, weak: str) -> str:
    """Who with whom: in two lines where the names are long."""
    one, other = style.brief((strong, weak))
    return f"{one} with {other}" if len(one + other) <= _ONE_LINE else f"{one}\nwith {other}"


def _draw(ax: Axes, *, result: RelayResult, strong: str, weak: str) -> None:
    mine = (pl.col("strong") == strong) & (pl.col("weak") == weak)
    for row in result.references.filter(mine).iter_rows(named=True):
        word, line, dark, light = _REFERENCES[row["reference"]]
        if row["mean"] is not None:
            ax.axhline(row["mean"], color=dark, ls=line, lw=1.1, label=word.capitalize(), zorder=2)
        if row["lo"] is not None:
            ax.axhspan(row["lo"], row["hi"], color=light, alpha=0.7, lw=0, zorder=1, gid=word)
    table = result.table.filter(mine, pl.col("mean").is_not_null())
    for kind, words in KINDS.items():
        points = table.filter(pl.col("kind") == kind).sort("k")
        if points.height:
            x = [k + _DODGE[kind] for k in points["k"]]
            ends = points.select("lo", "hi").rows()
            panels.bars(
                ax,
                x,
                points["mean"].to_list(),
                ends,
                _MARKS[kind],
                along="y",
                label=words.capitalize(),
                ls="-" if kind == "primer" else (0, (2, 1.2)),
            )
    ax.set_xticks(sorted(table["k"].unique()))
    values = [v for c in ("mean", "lo", "hi") for f in (table, result.references) for v in f[c].drop_nulls()]
    low, high = ax.get_ylim()  # shared: what an earlier panel needed stays
    ax.set_ylim(min(-0.02, low, *values), max(1.02, high, *values))
    ax.set_xlabel("K: turns before the swap")
    ax.set_ylabel(OUTCOMES[result.parameters["outcome"]].replace(" (", "\n("))
    panels.legend(ax, 2)
    panels.title(ax, _heading(strong, weak), legend_lines=2)
