"""The cost of a score: every row's score against what its evaluation cost, and the rows that no cheaper row beats.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster`, `cilab.plots.parts.labels`
and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import labels, panels, roster, style
from cilab.results.names import raised
from cilab.stats.teamwork.pareto import Pareto, by_reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pareto(result: Pareto, *, ax: Axes | None = None, facts: Any = None) -> Axes:
    """Draw score against cost (log scale) with the frontier, as figure 4 of the collaborative-intelligence paper.

    A ring marks high reasoning effort. The dashed line joins the rows that no cheaper row beats; their names are bold.

    Parameters
    ----------
    result : what `cilab.pareto` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    facts : families and open weights, as in `leaderboard`.

    Returns
    -------
    Axes
        One line with gid `row` per row, a `ring` around those at high effort, a line `frontier`, and a text with gid
        `label` per row.

    Raises
    ------
    FigureError
        `result` is not a Pareto, or no row has a positive cost.
    """
    style.require(result, Pareto, "pareto")
    table = result.table.filter(pl.col("cost_usd") > 0)
    if not table.height:
        raise style.FigureError("nothing to draw: no row has a cost above 0 USD")
    best_first = table.sort("score_pct", descending=True)["model"]
    of = roster.looks(best_first, facts)
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 4.6)
        _points(ax, table, of)
        front = table.filter("on_frontier")
        line = {"color": "#606060", "lw": 1.0, "ls": (0, (4, 2)), "zorder": 2, "gid": "frontier"}
        (joined,) = ax.plot(front["cost_usd"], front["score_pct"], label="Pareto frontier", **line)
        _frame(ax, table)
        rings = any(line.get_gid() == "ring" for line in ax.lines)
        lines = roster.legend_over_axes(ax, of, joined, ring=rings)
        panels.title(ax, "The cost of a score", legend_lines=lines)
        style.mark_simulated(ax, result, table["model"], y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            style.small_print(fig, result, *_notes(result, table))
        labels.settle(ax)
    return ax


def _points(ax: Axes, table: pl.DataFrame, of: dict[str, roster.Look]) -> None:
    rows = zip(table.iter_rows(named=True), roster.row_names(table), raised(table), strict=True)
    for row, name, high in rows:
        x, y = row["cost_usd"], row["score_pct"]
        roster.point(ax, x, y, of[row["model"]], ring=high)
        labels.add(ax, x, y, name, fontweight="bold" if row["on_frontier"] else "normal")


def _frame(ax: Axes, table: pl.DataFrame) -> None:
    ax.set_xscale("log")
    low, high = table["cost_usd"].min(), table["cost_usd"].max()
    ax.set_xlim(low / 1.8, high * 1.6)
    bottom, top = table["score_pct"].min(), table["score_pct"].max()
    margin = max(3.0, 0.08 * (top - bottom))
    ax.set_ylim(bottom - margin, top + margin)
    usd_axis(ax)
    ax.set_xlabel("Cost of the whole evaluation (USD at list prices, log scale)")
    ax.set_ylabel("Overall score (%)")
    ax.grid(axis="both")


def usd_axis(ax: Axes) -> None:
    """Ticks of a logarithmic axis as money: $1, $10, $100."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    steps = (1.0,) if high / low > 5000 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=steps))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"${v:,.10g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _notes(result: Pareto, table: pl.DataFrame) -> list[str]:
    out = ["Cost of the model under test alone, without partners and judges. Bold: no cheaper row scores as much."]
    free = [n for n in result.table["row"] if n not in set(table["row"])]
    hidden = by_reason(dict(result.unpriced) | dict.fromkeys(free, "costs nothing"))
    return out + ([f"Not shown: {hidden}."] if hidden else [])
