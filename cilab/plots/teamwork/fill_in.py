"""Scores on the same tasks for every row: raw against adjusted, and how far filled-in scores can be trusted.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent, signed
from cilab.stats.teamwork.fill_in import FillInResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RAW, _ADJUSTED = style.Mark("white", "o", 4.6, "#404040"), panels.SERIES[0]
#: Column of `hidden`, the quantity with its mean error, words, mark.
_CHECKS = (
    ("remaining_pct", "error_remaining_points", "Remaining tasks", style.Mark("#e69f00", "D", 2.6, "#b37700")),
    ("shifted_pct", "error_shifted_points", "Filled in, shifted", style.Mark("#0b559f", "o", 2.8, "#08306b")),
)


def fill_in(result: FillInResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw raw against adjusted scores, and the hide-and-predict check behind the shift (appendix C.3 of the
    collaborative-intelligence paper).

    Parameters
    ----------
    result : what `cilab.fill_in` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `scores` (rows in order of their raw score) or `check` (each point a pair of rows: the score of one on all
        its tasks against what is found when the tasks that the other fails alone are hidden); None takes the first with
        `ax`, and both without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        `result` is not a FillInResult, or there is no such panel.
    """
    style.require(result, FillInResult, "fill_in")
    table = result.table.filter(pl.col("score_pct").is_not_null())
    parts = {"scores": partial(_scores, table=table)} if table.height else {}
    if result.hidden.height:
        parts["check"] = partial(_check, result=result)
    tau = result.value("kendall_tau_b")
    agree = "" if tau is None else f" Kendall's tau-b of the two orders: {tau:.2f}."
    shift = result.value("shift")
    words = [f"Filled-in log-odds are shifted by {signed(shift, 2)}."] if shift else []
    if table["n_filled_missing"].sum():
        words.append("Missing tasks are filled in as well, without a shift.")
    if table["no_interval"].is_not_null().any():
        words.append("No bar: too few scored tasks.")
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, max(3.4, 1.5 + 0.155 * table.height)),
        ncols=2,
        names=table["model"].to_list(),
        notes=[f"Bars: {percent(result.parameters['ci_level'])} intervals.{agree} {' '.join(words)}"],
        label_y=48,
        width_ratios=[1, 1.1],
    )


def _scores(ax: Axes, *, table: pl.DataFrame) -> None:
    panels.rows(ax, roster.row_names(table))
    ax.tick_params(axis="y", labelsize=6.8)
    rows = list(range(table.height))
    there = table.with_row_index("at").filter(pl.col("adjusted_pct").is_not_null())
    if there.height:
        ends = there.select("lo_pct", "hi_pct").rows()
        look = {"ls": "none", "label": "Adjusted"}
        panels.bars(ax, there["adjusted_pct"].to_list(), there["at"].to_list(), ends, _ADJUSTED, along="x", **look)
    none = [None] * table.height
    look = {"ls": "none", "label": "Raw", "zorder": 4, "mfc": "none", "markeredgewidth": 1.0, "markersize": 6.4}
    panels.bars(ax, table["score_pct"].to_list(), rows, none, _RAW, along="x", **look)
    ax.set_xlabel("Overall score (%)")
    panels.legend(ax, 2)
    panels.title(ax, "Raw and adjusted", legend_lines=2)


def _check(ax: Axes, *, result: FillInResult) -> None:
    hidden = result.hidden
    shown = [column for column, *_ in _CHECKS]
    low = hidden.select(pl.min_horizontal(pl.col("full_pct", *shown).min())).item() - 3
    high = hidden.select(pl.max_horizontal(pl.col("full_pct", *shown).max())).item() + 3
    ax.plot([low, high], [low, high], color="#606060", lw=0.9, ls=(0, (4, 2)), zorder=1, gid="diagonal")
    for column, quantity, words, mark in _CHECKS:
        error = result.value(quantity)
        label = words if error is None else f"{words}: mean error {signed(error)}"
        look = {"ms": mark.size, "mfc": mark.color, "mec": mark.edge, "mew": 0.3, "ls": "none", "alpha": 0.75}
        ax.plot(hidden["full_pct"], hidden[column], marker=mark.marker, label=label, gid=column, zorder=3, **look)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.grid()
    ax.set_xlabel("Score on all its tasks (%)")
    ax.set_ylabel("Score with tasks hidden (%)")
    panels.legend(ax, 1)
    panels.title(ax, f"Check on {hidden.height} pairs of rows", legend_lines=2)
