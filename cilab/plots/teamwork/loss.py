"""Where the score is lost: to the teammate's problem, or already in a calm team.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.loss import Loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OVERALL = "overall"
#: Column, words, colour and the colour of the number on it: from dark to light, so that grey tells them apart.
PARTS = (
    ("passed_pct", "Passed in the test", "#0b559f", "white"),
    ("lost_test_points", "Lost in the test", "#e69f00", "black"),
    ("lost_calm_points", "Lost in a calm team", "#f3e3c0", "black"),
)
#: A part at least so wide (points) has its number on it.
_NUMBERED_FROM = 6.5


def loss(result: Loss, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw what each model loses, and where, as figure 14 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.loss` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `models` (best on top) or `dimensions` (means over models, hardest on top); None takes the first with `ax`,
        and both without.

    Returns
    -------
    Axes or Figure
        Per panel one BarContainer per part; parts below 0 (a test better than its baseline) stand left of 0.

    Raises
    ------
    FigureError
        `result` is not a Loss, or there is no such panel.
    """
    style.require(result, Loss, "loss")
    models = result.table.filter((pl.col("dimension") == _OVERALL) & pl.col("passed_pct").is_not_null())
    models = models.sort("passed_pct", descending=True, maintain_order=True)
    names = roster.row_names(models)
    of = result.summary.filter((pl.col("by") == "dimension") & pl.col("passed_pct").is_not_null()).sort("passed_pct")
    words = [roster.dimension(name, 18) for name in of["name"]]
    below = any((table["lost_test_points"] < 0).any() for table in (models, of))
    tables = {"models": (models, names), "dimensions": (of, words)}
    there = [name for name, (table, _) in tables.items() if table.height]
    # In the figure with both panels the legend of the first one reaches over the second; alone, it has two lines.
    whole = ax is None and panel is None
    columns = dict.fromkeys(there, 2) if not whole else {name: 3 * (name == there[0]) for name in there}
    parts = {
        name: partial(_bars, table=t, names=n, words=name, columns=columns[name])
        for name, (t, n) in tables.items()
        if name in there
    }
    of_tasks = style.gated(result, "the tasks solved alone", "all tasks")
    return panels.compose(
        result,
        {name: parts[name] for name in there},
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 1.5 + 0.19 * max(models.height, 10)),
        ncols=2,
        names=models["model"].to_list(),
        notes=[
            f"Of {of_tasks}, each dimension counting equally; taking over is left out, as its baseline is no calm team."
            + (" Left of 0: the test was better than the calm team." if below else "")
        ],
        label_y=36 if whole else 48,
    )


def _bars(ax: Axes, *, table: pl.DataFrame, names: Sequence[str], words: str, columns: int) -> None:
    panels.rows(ax, names)
    right, left = [0.0] * len(names), [0.0] * len(names)
    for column, label, color, ink in PARTS:
        values = table[column].to_list()
        starts = [right[i] if v >= 0 else left[i] for i, v in enumerate(values)]
        ax.barh(range(len(names)), values, left=starts, height=0.72, color=color, label=label, lw=0, zorder=2)
        for i, (value, start) in enumerate(zip(values, starts, strict=True)):
            side = right if value >= 0 else left
            side[i] += value
            if value >= _NUMBERED_FROM:
                look = {"ha": "center", "va": "center", "fontsize": 6.2, "color": ink, "zorder": 3, "gid": column}
                ax.text(start + value / 2, i, f"{value:.0f}", **look)
    ax.axvline(0, color="#404040", lw=0.8, zorder=4)
    ax.set_xlim(min([*left, 0.0]) - (1.5 if min(left) < 0 else 0), max([*right, 100.0]))
    ax.set_xlabel("Percent of the score")
    if columns:
        panels.legend(ax, columns)
        ax.get_legend().set_in_layout(columns < len(PARTS))
    panels.title(ax, words.capitalize(), legend_lines=2 if columns == 2 else 1)
