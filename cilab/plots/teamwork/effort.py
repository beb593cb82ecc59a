"""What more reasoning buys: the change of each dimension's score from the default to high effort.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.effort import Effort

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RISES, _FALLS, _NEITHER = "#0b559f", "#e69f00", "#c8c8c8"
_SIGNIFICANT = 0.05
_ROW_INCHES = 0.34


def effort(result: Effort, *, ax: Axes | None = None) -> Axes:
    """Draw the change of each dimension's score at high effort, as figure 16 of the collaborative-intelligence paper.

    Bars are the mean over the models, markers the models. Blue bars rise and orange (hatched) bars fall
    significantly (p < 0.05); grey ones do neither. p at the right. The largest gain is on top.

    Parameters
    ----------
    result : what `cilab.effort` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One bar per dimension, an ErrorbarContainer `interval`, a line with the model's name per model, and a text with
        gid `p` per dimension.

    Raises
    ------
    FigureError
        `result` is not an Effort, or no dimension has a change.
    """
    style.require(result, Effort, "effort")
    table = result.dimensions.filter(pl.col("diff_points").is_not_null()).sort("diff_points", descending=True)
    if not table.height:
        raise style.FigureError("nothing to draw: no dimension has a score at both settings")
    order = table["dimension"].to_list()
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.7 + _ROW_INCHES * max(len(order), 3))
        panels.rows(ax, [roster.dimension(name) for name in order])
        _means(ax, table)
        names = _models(ax, result.cells, order)
        _limits(ax, table, result.cells)
        ax.axvline(0, color="#404040", lw=0.9, zorder=2.5)
        ax.set_xlabel("Change of the score from default to high effort (points)")
        columns = style.legend_columns(names, 6)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=columns, columnspacing=1.0)
        lines = -(-len(names) // columns)
        panels.title(ax, "What more reasoning buys", legend_lines=lines)
        style.mark_simulated(ax, result, result.table["model"], y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            level = percent(result.parameters["ci_level"])
            first = "Bars: mean over models; blue rises, orange (hatched) falls, p < 0.05; grey: neither."
            more = f"Lines: {level} intervals over tasks. p: two-sided exact sign test over the models' tasks."
            style.small_print(fig, result, f"{first} {more}")
    return ax


def _means(ax: Axes, table: pl.DataFrame) -> None:
    for i, row in enumerate(table.iter_rows(named=True)):
        rises, significant = row["diff_points"] > 0, row["p"] is not None and row["p"] < _SIGNIFICANT
        color = (_RISES if rises else _FALLS) if significant else _NEITHER
        hatch = "////" if significant and not rises else None
        ax.barh(i - 0.07, row["diff_points"], 0.58, color=color, hatch=hatch, ec="white", lw=0, zorder=1.5, gid="bar")
        p = "" if row["p"] is None else "p < 0.001" if row["p"] < 0.001 else f"p = {row['p']:.3f}"
        look = {"va": "center", "ha": "right", "fontsize": 6.8, "gid": "p"}
        weight = "bold" if significant else "normal"
        ax.text(0.995, i, p, transform=ax.get_yaxis_transform(), fontweight=weight, **look)
    ends = table.select("lo_points", "hi_points").rows()
    plain = style.Mark("#202020", "none", 0, "#202020")
    y = [i + 0.36 for i in range(table.height)]
    look = {"label": "_interval", "ls": "none", "ecolor": "#606060", "capsize": 1.5}
    panels.bars(ax, table["diff_points"].to_list(), y, ends, plain, along="x", **look)


def _models(ax: Axes, cells: pl.DataFrame, order: list[str]) -> list[str]:
    """One marker per model and dimension; models of several high settings have a name each."""
    keys = cells.select("model", "effort").unique(maintain_order=True).rows()
    several = {m for m, _ in keys if sum(m == other for other, _ in keys) > 1}
    full = [f"{model} · {setting}" if model in several else model for model, setting in keys]
    shown = style.brief(full)
    n = len(keys)
    for i, (model, setting) in enumerate(keys):
        own = cells.filter((pl.col("model") == model) & (pl.col("effort") == setting))
        own = own.filter(pl.col("diff_points").is_not_null() & pl.col("dimension").is_in(order))
        mark = panels.SERIES[i % len(panels.SERIES)]
        y = [order.index(d) + 0.36 / max(n, 2) * (i - (n - 1) / 2) - 0.07 for d in own["dimension"]]
        look = {"marker": mark.marker, "ms": mark.size, "mfc": mark.color, "mec": mark.edge, "mew": 0.5, "ls": "none"}
        ax.plot(own["diff_points"], y, label=shown[i], zorder=4, **look)
    return shown


def _limits(ax: Axes, table: pl.DataFrame, cells: pl.DataFrame) -> None:
    """Room for all models and intervals, and for p at the right."""
    columns = [table["diff_points"], table["lo_points"], table["hi_points"], cells["diff_points"]]
    values = [0.0, *(v for column in columns for v in column.drop_nulls())]
    span = max(max(values) - min(values), 1.0)
    ax.set_xlim(min(values) - 0.05 * span, max(values) + 0.2 * span)
