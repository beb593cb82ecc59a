"""Judged scores beside those corrected by people's verdicts.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.judges.corrected import METHODS, CorrectedScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_INCHES = 0.15


def corrected(result: CorrectedScores, *, ax: Axes | None = None) -> Axes:
    """Draw the judged and the corrected values of every group, with their intervals.

    Parameters
    ----------
    result : what `cilab.corrected` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One ErrorbarContainer per method that has a value; a value without an interval is a mark alone.

    Raises
    ------
    FigureError
        `result` is no CorrectedScores.
    """
    style.require(result, CorrectedScores, "corrected")
    groups = result.table["group"].unique(maintain_order=True).to_list()
    known = result.table.filter(pl.col("value_pct").is_not_null())
    methods = [m for m in METHODS if m in known["method"]]
    words = [roster.dimension(g) for g in groups] if result.parameters["by"] == "dimension" else groups
    with style.context():
        rows = len(groups) * (len(methods) + 0.5)
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.5 + _ROW_INCHES * max(rows, 8))
        panels.rows(ax, ["All" if g == "all" else w for g, w in zip(groups, words, strict=True)])
        for i, method in enumerate(methods):
            part = known.filter(pl.col("method") == method)
            y = [groups.index(g) + 0.7 / len(methods) * (i - (len(methods) - 1) / 2) for g in part["group"]]
            ends = part.select("lo_pct", "hi_pct").rows()
            mark = panels.SERIES[i]
            panels.bars(ax, part["value_pct"].to_list(), y, ends, mark, along="x", ls="none", label=METHODS[method])
        if len(groups) > 1:
            ax.axhline(0.5, color="#404040", lw=0.7)
        ax.set_xlim(-1.5, 101.5)
        ax.set_xlabel("Percent")
        panels.legend(ax, 3)
        panels.title(ax, "As judged, and corrected", legend_lines=1)
        style.mark_simulated(ax, result, (), y=11 + panels.LEGEND_LINE)
        if fig is not None:
            n = result.table.filter((pl.col("group") == "all") & (pl.col("method") == "prediction_powered"))
            said = f"Lines: {percent(result.parameters['ci_level'])} intervals. People's verdicts on "
            said += f"{n['n_labelled'][0]:,} of {n['n'][0]:,} units. Prediction-powered: labels of the group itself."
            said += " Rogan and Gladen: error rates of all groups." if "rogan_gladen" in methods else ""
            style.small_print(fig, result, said)
    return ax
