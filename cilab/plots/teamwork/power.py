"""Power curves: how many tasks and seeds it takes to tell two models apart.

May import `cilab.plots.parts.style`, `panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.power import PowerResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def power(result: PowerResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw power against the number of tasks, one panel per number of seeds.

    Parameters
    ----------
    result : what `cilab.power` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : a number of test seeds, such as "3"; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Per panel one ErrorbarContainer per difference; difference 0 shows false alarms.

    Raises
    ------
    FigureError
        `result` is not a PowerResult, or there is no such panel.
    """
    style.require(result, PowerResult, "power")
    differences = result.table["difference_points"].unique().sort(descending=True).to_list()
    seeds = result.table["seeds"].unique().sort().to_list()
    # In the figure with all panels the legend of the first one reaches over the others; alone, it has several lines.
    whole = ax is None and panel is None
    columns = {n: (6 if n == seeds[0] else 0) if whole else 3 for n in seeds}
    lines = -(-len(differences) // (6 if whole else 3))
    parts = {
        str(n): partial(
            _curves,
            table=result.table.filter(pl.col("seeds") == n),
            differences=differences,
            target=result.target,
            columns=columns[n],
            lines=lines,
        )
        for n in seeds
    }
    p = result.parameters
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 3.1 * -(-len(parts) // 3)),
        ncols=3,
        notes=[
            f"Two models around {p['level_pct']:.0f}%, {p['simulations']:,} simulated studies a point; bars: Monte "
            f"Carlo error. Told apart: the {percent(p['ci_level'])} interval of the difference lies off 0."
        ],
        label_y=24 + 12 * lines,
        sharey=True,
    )


def _curves(
    ax: Axes, *, table: pl.DataFrame, differences: list[float], target: float, columns: int, lines: int
) -> None:
    ax.axhline(target, color="#404040", lw=0.9, ls=(0, (1, 2)), zorder=1, gid="target")
    for difference, mark in zip(differences, [*panels.SERIES] * (1 + len(differences) // 8), strict=False):
        part = table.filter(pl.col("difference_points") == difference).sort("tasks_per_dimension")
        ends = part.select("power_lo", "power_hi").rows()
        label = f"{difference:g} points" if difference else "0 (false alarms)"
        look = {"label": label, "ls": "-", "lw": 1.0, "elinewidth": 0.6}
        panels.bars(ax, part["tasks_per_dimension"].to_list(), part["power"].to_list(), ends, mark, along="y", **look)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlim(0, None)
    ax.grid(axis="y")
    ax.set_xlabel("Tasks per dimension")
    ax.set_ylabel("Power" if columns else "")
    if columns:
        panels.legend(ax, columns)
        ax.get_legend().set_in_layout(columns == 3)
    n = table["seeds"][0]
    panels.title(ax, f"{n} test seed{'s' if n > 1 else ''}", legend_lines=lines)
