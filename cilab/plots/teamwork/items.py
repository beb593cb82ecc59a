"""Tasks as items: how hard each is, and how well it agrees with the rest of its dimension.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.items import ItemsResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PUBLIC = "public"
#: Filled marks for public tasks, open ones for all others.
_FILLED = style.Mark("#0b559f", "o", 4.4, "#08306b")
_OPEN = style.Mark("white", "D", 4.0, "#7a3000")
#: Where the axes of r begin; they reach further down where a task needs it.
_LOW = -0.5
#: Height of the strip below for tasks without a correlation.
_STRIP = 0.36


def items(result: ItemsResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw each task's mean value against its item-rest correlation, one panel per dimension.

    Parameters
    ----------
    result : what `cilab.items` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : a dimension; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Filled circles are public tasks, open diamonds others; tasks without a correlation stand in the strip at the
        bottom. Grey: at the ceiling, at the floor, or below r = 0.

    Raises
    ------
    FigureError
        `result` is not an ItemsResult, or there is no such dimension.
    """
    style.require(result, ItemsResult, "items")
    there = result.table.filter(pl.col("mean_value").is_not_null())
    names = there["dimension"].unique(maintain_order=True).to_list()
    limits = result.parameters["floor"], result.parameters["ceiling"]
    low = _LOW if there.filter(pl.col("item_rest_r") < _LOW).height == 0 else -1.0
    parts = {
        name: partial(_tasks, table=there.filter(pl.col("dimension") == name), name=name, limits=limits, bottom=low)
        for name in names
    }
    counts = {q: result.value(q) for q in ("ceiling_items", "floor_items", "negative_items", "items")}
    median = result.value("median_item_rest_r")
    r = "" if median is None else f"Median r {median:.2f}. "
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 0.6 + 2.15 * -(-len(names) // 4)),
        ncols=4,
        notes=[
            f"{r}Of {counts['items']:.0f} tasks {counts['ceiling_items']:.0f} at the ceiling (mean of {limits[1]:g} or "
            f"more), {counts['floor_items']:.0f} at the floor ({limits[0]:g} or less), {counts['negative_items']:.0f} "
            "with a negative r (grey). Circles: public tasks; diamonds: held out; strip at the bottom: r undefined."
        ],
        label_y=32,
        sharex=True,
        sharey=True,
    )


def _tasks(ax: Axes, *, table: pl.DataFrame, name: str, limits: tuple[float, float], bottom: float) -> None:
    edge, undefined = bottom - 0.06, bottom - 0.06 - _STRIP / 2
    low, high = limits
    for start, end in ((-0.04, low), (high, 1.04)):
        ax.axvspan(start, end, color="#ececec", lw=0, zorder=0)
    ax.axhspan(edge, 0, color="#ececec", lw=0, zorder=0)
    ax.axhline(edge, color="#808080", lw=0.6, zorder=1)
    public = (pl.col("split") == _PUBLIC) | pl.col("split").is_null()
    for kind, mark, of in (("public", _FILLED, public), ("held out", _OPEN, ~public)):
        part = table.filter(of).with_columns(pl.col("item_rest_r").fill_null(undefined))
        look = {"ls": "none", "marker": mark.marker, "ms": mark.size, "mfc": mark.color, "mec": mark.edge, "mew": 0.7}
        ax.plot(part["mean_value"], part["item_rest_r"], alpha=0.85, label=kind, gid=kind, clip_on=False, **look)
    ax.set_xlim(-0.04, 1.04)
    ax.set_ylim(edge - _STRIP, 1.05)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.set_yticks([undefined, bottom, 0, 0.5, 1], ["none", f"\N{MINUS SIGN}{-bottom:g}", "0", "0.5", "1"])
    spec = ax.get_subplotspec()
    if spec is None or spec.is_last_row():
        ax.set_xlabel("Mean value")
    if spec is None or spec.is_first_col():
        ax.set_ylabel("Item-rest r")
    ax.set_title(roster.dimension(name, 16), loc="left", fontsize=7.5)
