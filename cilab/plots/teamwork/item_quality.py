"""What tasks measure: where they stand among the rows, how much they tell, which do not fit, which rows are odd.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.item_quality import ItemQualityResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PLAIN = style.Mark("#0b559f", "o", 4.2, "#08306b")
_FLAGGED = style.Mark("white", "D", 4.0, "#b2182b")
_ROWS = style.Mark("#8c8c8c", "_", 7.0, "#606060")
#: Difficulties and abilities further out than this stand at the edge, as the small print says.
_FAR = 4.0
#: Information below this is next to none: an ability would be known to within three standard deviations.
_LEAST_INFORMATION = 0.1
_LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))


def item_quality(result: ItemQualityResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw the map of tasks and rows, information, the fit of tasks and the fit of rows.

    Parameters
    ----------
    result : what `cilab.item_quality` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `map`, `information`, `fit` or `rows`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Map: difficulty of each task (open diamonds have a flag beyond ceiling and floor) beside the rows' abilities
        (dashes). Fit: infit against discrimination, acceptable between the dashed lines. Rows: lz*, odd to the left.

    Raises
    ------
    FigureError
        `result` is not an ItemQualityResult, there is no such panel, or nothing was estimated.
    """
    style.require(result, ItemQualityResult, "item_quality")
    parts = {}
    if result.table["difficulty"].drop_nulls().len():
        parts["map"] = partial(_map, result=result)
    if result.information.height:
        parts["information"] = partial(_information, table=result.information)
    if result.table["infit"].drop_nulls().len():
        parts["fit"] = partial(_fit, result=result)
    if result.rows["lz"].drop_nulls().len():
        parts["rows"] = partial(_rows, table=result.rows)
    far = result.table.filter(pl.col("difficulty").abs() > _FAR).height
    missing = result.table["difficulty"].null_count()
    height = max(5.4, 2.9 + 0.16 * result.rows.height)
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, height if len(parts) > 2 else height / 2 + 0.4),
        ncols=2,
        names=result.rows["model"].to_list(),
        notes=[
            "Map: tasks left, abilities of the rows right (dashes), in standard deviations of the rows. Diamonds: "
            f"flagged. {missing} tasks without a difficulty are not drawn, {far} beyond {_FAR:g} stand at the edge. "
            "Information: of one run of each task. Fit: tasks between the dashed lines do as the model expects. Rows: "
            "lz* below the dashed line at −1.64 comes in 5 % of regular rows; crosses are odd after correction.",
        ],
        label_y=58,
    )


def _flagged(table: pl.DataFrame) -> pl.Series:
    return table["flags"].is_not_null()


def _map(ax: Axes, *, result: ItemQualityResult) -> None:
    names = result.dimensions["dimension"].to_list()
    there = result.table.filter(pl.col("difficulty").is_not_null())
    at = {name: i for i, name in enumerate(names)}
    for label, mark, table in (
        ("task", _PLAIN, there.filter(~_flagged(there))),
        ("task with a flag", _FLAGGED, there.filter(_flagged(there))),
    ):
        x = [at[name] - 0.18 for name in table["dimension"]]
        panels.points(ax, x, table["difficulty"].clip(-_FAR, _FAR).to_list(), mark, label, alpha=0.8, gid=label)
    rows = result.abilities
    x = [at[name] + 0.2 for name in rows["dimension"]]
    panels.points(ax, x, rows["ability"].clip(-_FAR, _FAR).to_list(), _ROWS, "row", gid="row", mew=1.0)
    ax.set_xticks(range(len(names)), [roster.dimension(name) for name in names], fontsize=6)
    panels.slant(ax, 40)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_ylim(-_FAR - 0.25, _FAR + 0.25)
    ax.set_ylabel("Difficulty, ability (sd)")
    panels.title(ax, "Map of tasks and rows", legend_lines=1)
    panels.legend(ax, 3)


def _information(ax: Axes, *, table: pl.DataFrame) -> None:
    names = table["dimension"].drop_nulls().unique(maintain_order=True).to_list()
    for i, name in enumerate(names):
        own = table.filter(pl.col("dimension") == name)
        look = {"ls": _LINES[i % len(_LINES)], "lw": 1.3, "gid": name, "label": roster.dimension(name)}
        ax.plot(own["ability"], own["information"], color=panels.SERIES[i % len(panels.SERIES)].color, **look)
    every = table.filter(pl.col("dimension").is_null())
    ax.plot(every["ability"], every["information"], color="#606060", lw=2.2, alpha=0.6, gid="all", label="All tasks")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_ylim(bottom=_LEAST_INFORMATION)
    ax.set_xlabel("Ability (sd of the rows)")
    ax.set_ylabel("Information (log scale)")
    lines = -(-(len(names) + 1) // 2)
    look = {"loc": "lower left", "bbox_to_anchor": (-0.12, 1), "borderaxespad": 0.4, "ncols": 2, "columnspacing": 0.8}
    ax.legend(fontsize=5, handlelength=2.4, labelspacing=0.2, **look)
    ax.set_title("Information", loc="left", pad=9 + 7.5 * lines)


def _fit(ax: Axes, *, result: ItemQualityResult) -> None:
    there = result.table.filter(pl.col("infit").is_not_null() & pl.col("discrimination").is_not_null())
    for label, mark, table in (
        ("task", _PLAIN, there.filter(~_flagged(there))),
        ("task with a flag", _FLAGGED, there.filter(_flagged(there))),
    ):
        panels.points(
            ax, table["discrimination"].to_list(), table["infit"].to_list(), mark, label, alpha=0.8, gid=label
        )
    for edge in result.parameters["misfit"]:
        ax.axhline(edge, color="#606060", lw=0.8, ls=(0, (4, 2)), zorder=1, gid="limit")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("Discrimination")
    ax.set_ylabel("Infit (mean square)")
    panels.title(ax, "Fit of tasks")


def _rows(ax: Axes, *, table: pl.DataFrame) -> None:
    table = table.filter(pl.col("lz").is_not_null()).sort("lz", maintain_order=True)
    odd = table["odd"].to_list()
    for label, marker, wanted in (("row", "o", False), ("odd row", "X", True)):
        at = [i for i, is_odd in enumerate(odd) if is_odd is wanted]
        mark = style.Mark(_PLAIN.color if not wanted else style.SIMULATED_COLOR, marker, 4.6, "#252525")
        panels.points(ax, [table["lz"][i] for i in at], at, mark, label, gid=label)
    panels.rows(ax, roster.full_names(table), width=style.NARROW)
    ax.tick_params(axis="y", labelsize=5.5)
    ax.axvline(0, color="#808080", lw=0.8, zorder=1)
    ax.axvline(-1.645, color="#606060", lw=0.8, ls=(0, (4, 2)), zorder=1, gid="limit")
    ax.set_xlabel("lz* (low: an odd pattern)")
    panels.title(ax, "Fit of rows")
