"""Grader agreement: coefficients by agent, and correlations between graders.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.judges.grading import GradingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OVERALL = "all rollouts"
_MEASURES = {
    "icc": ("weighted outcome", "ICC, weighted outcome", panels.SERIES[0]),
    "kappa": ("binary success", "Kappa, success", panels.SERIES[1]),
}


def grading(result: GradingResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw how far graders agree: appendix E of the collaboration-gap paper.

    Parameters
    ----------
    result : what `cilab.grader_agreement` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `agents` (intraclass correlation and Fleiss' kappa with intervals, all rollouts on top) or `graders`
        (Pearson's r of every two raters); None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        `result` is not a GradingResult, or there is no such panel.
    """
    style.require(result, GradingResult, "grading")
    parts = {"agents": partial(_by_agent, result=result), "graders": partial(_correlations, result=result)}
    names = result.by_agent["model"].to_list()
    level = f"Bars: {percent(result.parameters['ci_level'])} intervals."
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, max(3.2, 1.5 + 0.18 * (len(names) + 1))),
        ncols=2,
        names=names,
        notes=[f"{level} {result.n_used:,} rollouts with two gradings or more. No mark: undefined."],
        label_y=36,
    )


def _by_agent(ax: Axes, *, result: GradingResult) -> None:
    names = [_OVERALL, *result.by_agent["model"]]
    panels.rows(ax, names, width=style.NARROW)
    overall = {r["measure"]: r for r in result.table.iter_rows(named=True)}
    for i, (short, (measure, label, mark)) in enumerate(_MEASURES.items()):
        whole = overall[measure]
        found = [(whole["value"], whole["lo"], whole["hi"])]
        found += result.by_agent.select(short, f"{short}_lo", f"{short}_hi").rows()
        points = [(value, y + 0.16 * (2 * i - 1), ends) for y, (value, *ends) in enumerate(found) if value is not None]
        if points:
            x, y, ends = zip(*points, strict=True)
            panels.bars(ax, x, y, ends, mark, along="x", label=label, ls="none")
    ax.axhline(0.5, color="#808080", lw=0.7)
    low, _ = ax.get_xlim()
    ax.set_xlim(min(low, 0.5), 1.02)
    ax.set_xlabel("Agreement of all raters")
    panels.legend(ax, 2)
    panels.title(ax, "By agent", legend_lines=1)


def _correlations(ax: Axes, *, result: GradingResult) -> None:
    import numpy as np

    raters = list(result.raters)
    values = np.full((len(raters), len(raters)), np.nan)
    for row in result.correlations.iter_rows(named=True):
        if row["r"] is not None:
            one, two = sorted((raters.index(row["first"]), raters.index(row["second"])))
            values[two, one] = row["r"]
    low = min(0.0, float(np.nanmin(values, initial=0.0)))
    words = [[f"{r:.2f}" for r in row] for row in values[1:, :-1]]
    shown = style.brief(raters, style.NARROW)
    panels.heatmap(ax, values[1:, :-1], words, lines=shown[1:], columns=shown[:-1], vmin=low, vmax=1)
    panels.slant(ax, 35)
    panels.title(ax, "Pearson's r of raters", legend_lines=1)
