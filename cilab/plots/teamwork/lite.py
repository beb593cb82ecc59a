"""A smaller subset of the tasks: rank order against size, and its score against the full score.

May import `cilab.plots.parts.style`, `panels`, `roster`, `labels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core.errors import choice
from cilab.plots.parts import labels, panels, roster, style
from cilab.results.names import raised
from cilab.stats.teamwork.lite import LiteCurve, LiteResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METHODS = {
    "random": ("Random", style.Mark("#b0b0b0", "o", 4.4, "#606060")),
    "greedy": ("Greedy", panels.SERIES[1]),
    "exhaustive": ("Best of all subsets", panels.SERIES[3]),
    "ridge": ("Ridge estimate", panels.SERIES[2]),
    "item_response": ("Item-response estimate", panels.SERIES[0]),
}
#: Rows whose score errs by at least so many points are named.
_NAMED_FROM = 4.0
_AXES = {"tau": "Kendall's tau-b with the full score", "error_points": "Mean error (points)"}


def lite(
    result: LiteResult,
    curve: LiteCurve | None = None,
    *,
    method: str | None = None,
    facts: Any = None,
    ax: Axes | None = None,
    panel: str | None = None,
) -> Axes | Figure:
    """Draw a subset's rank order against size and its score against the full one, as figure 11 of the
    collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.lite` returned.
    curve : what `cilab.lite_curve` returned for the same data; without it the panel `sizes` is missing.
    method : whose subset is the star and whose scores are shown; None takes the last of `result.table`.
    facts : who is of which family: see `cilab.plots.parts.roster.looks`.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `sizes` (on rows not used to choose) or `scores` (all rows); None takes the first with `ax`, and all
        without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        A result is of another kind, the method was not asked for, or there is no such panel.
    """
    style.require(result, LiteResult, "lite")
    there = result.table["method"].to_list()
    method = there[-1] if method is None else method
    choice("method", method, there, style.FigureError, hint=False)
    line = result.table.row(by_predicate=pl.col("method") == method, named=True)
    rows = result.rows.filter((pl.col("method") == method) & pl.col("lite_pct").is_not_null())
    parts = {}
    if curve is not None:
        style.require(curve, LiteCurve, "lite_curve")
        parts["sizes"] = partial(_sizes, table=curve.table, column="tau", star=line)
    parts["scores"] = partial(_scores, rows=rows, line=line, facts=facts)
    p = result.parameters
    drawn = panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH if len(parts) > 1 else 4.5, 3.9),
        ncols=2,
        names=rows["model"].to_list(),
        notes=[
            f"{line['n_tasks']} tasks, {p['per_dimension']} per dimension. Left: rows not used to choose, mean of "
            f"{p['splits']} splits. Right: all rows; named from an error of {_NAMED_FROM:g} points on."
            if len(parts) > 1
            else f"{line['n_tasks']} tasks. All rows; named from an error of {_NAMED_FROM:g} points on."
        ],
        label_y=48,
    )
    labels.settle(drawn)
    return drawn


def lite_curve(result: LiteCurve, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw how well subsets of several sizes do on rows that were not used to choose them.

    Parameters
    ----------
    result : what `cilab.lite_curve` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `tau` or `error`; None takes the first with `ax`, and both without.

    Returns
    -------
    Axes or Figure
        Per panel one line per method.

    Raises
    ------
    FigureError
        `result` is not a LiteCurve, or there is no such panel.
    """
    style.require(result, LiteCurve, "lite_curve")
    parts = {
        "tau": partial(_sizes, table=result.table, column="tau"),
        "error": partial(_sizes, table=result.table, column="error_points"),
    }
    notes = [f"On rows that were not used to choose; mean of {result.parameters['splits']} splits."]
    size = (style.PAGE_WIDTH, 3.5)
    return panels.compose(result, parts, ax=ax, panel=panel, size=size, ncols=2, notes=notes, label_y=48)


def _sizes(ax: Axes, *, table: pl.DataFrame, column: str, star: dict[str, Any] | None = None) -> None:
    for name in table["method"].unique(maintain_order=True):
        words, mark = _METHODS.get(name, (name, panels.SERIES[4]))
        part = table.filter((pl.col("method") == name) & pl.col(column).is_not_null()).sort("n_tasks")
        look = {"ms": mark.size, "mfc": mark.color, "mec": mark.edge, "mew": 0.6, "lw": 1.1, "color": mark.edge}
        ax.plot(part["n_tasks"], part[column], marker=mark.marker, label=words, gid=name, zorder=3, **look)
    if star is not None and star[column] is not None:
        _, mark = _METHODS.get(star["method"], (star["method"], panels.SERIES[4]))
        label = f"Lite ({star['n_tasks']} tasks)"
        look = {"marker": "*", "ms": 13, "mfc": mark.color, "mec": "black", "mew": 0.7, "ls": "none"}
        ax.plot([star["n_tasks"]], [star[column]], label=label, gid="star", zorder=5, **look)
    ax.grid()
    ax.set_xlim(left=0)
    ax.set_xlabel("Tasks in the subset")
    ax.set_ylabel(_AXES[column])
    panels.legend(ax, 2)
    panels.title(ax, "Rank order" if column == "tau" else "Error of the score", legend_lines=2)


def _scores(ax: Axes, *, rows: pl.DataFrame, line: dict[str, Any], facts: Any) -> None:
    looks = roster.looks(rows["model"], facts)
    names = roster.row_names(rows)
    low = min(rows["full_pct"].min(), rows["lite_pct"].min()) - 4
    high = max(rows["full_pct"].max(), rows["lite_pct"].max()) + 4
    ax.plot([low, high], [low, high], color="#606060", lw=0.9, ls=(0, (4, 2)), zorder=1, gid="diagonal")
    for row, name, ring in zip(rows.iter_rows(named=True), names, raised(rows), strict=True):
        roster.point(ax, row["full_pct"], row["lite_pct"], looks[row["model"]], ring=ring)
        if abs(row["error_points"]) >= _NAMED_FROM:
            labels.add(ax, row["full_pct"], row["lite_pct"], name)
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.grid()
    ax.set_xlabel("Full score (%)")
    ax.set_ylabel(f"{'Estimate' if line['what'] == 'estimate' else 'Score'} from {line['n_tasks']} tasks (%)")
    if line["tau_all"] is not None:
        text = (
            f"tau-b = {line['tau_all']:.2f}, rho = {line['rho_all']:.2f}\n"
            f"mean error {line['error_all_points']:.1f}, at most {line['max_error_all_points']:.1f}"
        )
        look = {"ha": "right", "va": "bottom", "fontsize": 6.8, "gid": "agreement"}
        ax.text(0.98, 0.02, text, transform=ax.transAxes, bbox={"fc": "white", "ec": "none", "pad": 1.5}, **look)
    handles = roster.legend_handles(looks, ring=any(raised(rows)))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=2, columnspacing=0.8)
    panels.title(ax, "Subset against all tasks", legend_lines=max(2, -(-len(handles) // 2)))
