"""Scores against public measures of capability: the fit with its residuals, and the dimensions one by one.

May import `cilab.plots.parts.style`, `panels`, `roster`, `labels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core.errors import choice
from cilab.plots.parts import labels, panels, roster, style
from cilab.results.numbers import Interval, number, percent, signed
from cilab.stats.teamwork.capability import MEASURES, Capability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OVERALL = "overall"


def capability(
    result: Capability,
    *,
    measure: str | None = None,
    facts: Any = None,
    ax: Axes | None = None,
    panel: str | None = None,
) -> Axes | Figure:
    """Draw scores against a measure of capability, as figure 18 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.capability` returned.
    measure : one of its measures; None takes the first.
    facts : who is of which family: see `cilab.plots.parts.roster.looks`.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `fit` (overall score with the least-squares line; every name with its distance from it in points) or
        `dimensions` (correlation of each dimension with the measure); None takes the first with `ax`, and both without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        `result` is not a Capability, has no such measure, or there is no such panel.
    """
    style.require(result, Capability, "capability")
    there = result.fits["measure"].to_list()
    measure = there[0] if measure is None else measure
    choice("measure", measure, there, style.FigureError, hint=False)
    points = result.residuals.filter(pl.col("measure") == measure)
    table = result.table.filter((pl.col("measure") == measure) & pl.col("r").is_not_null())
    looks = roster.looks(points["model"], facts)
    handles = roster.legend_handles(looks)
    # In the figure with both panels the legend of the first one reaches over the second.
    whole = ax is None and panel is None
    columns = 4 if whole else 3
    lines = -(-len(handles) // columns)
    parts = {}
    if points.height:
        look = {
            "looks": looks,
            "handles": handles,
            "columns": columns,
            "words": MEASURES.get(measure, measure.replace("_", " ")),
        }
        parts["fit"] = partial(_fit, points=points, r=_overall(result, measure), **look)
    if table.height:
        parts["dimensions"] = partial(_dimensions, table=table, legend_lines=lines)
    drawn = panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 4.0),
        ncols=2,
        names=points["model"].to_list(),
        notes=[_note(result, points, table)],
        label_y=12 + 12 * lines + 12,
        **({"width_ratios": [1.75, 1]} if len(parts) == 2 else {}),
    )
    labels.settle(drawn)
    return drawn


def _note(result: Capability, points: pl.DataFrame, table: pl.DataFrame) -> str:
    if table.is_empty():
        return f"No r: {'; '.join(result.table['undefined'].drop_nulls().unique(maintain_order=True))}."
    line = "Beside each name: distance from the least-squares line, in points. " if points.height else ""
    return f"{line}Bars: {percent(result.parameters['ci_level'])} intervals over models (Fisher's z)."


def _fit(
    ax: Axes,
    *,
    points: pl.DataFrame,
    looks: Mapping[str, roster.Look],
    handles: Sequence[Any],
    columns: int,
    words: str,
    r: str,
) -> None:
    line = points.drop_nulls("fitted_pct").sort("value")
    ax.plot(line["value"], line["fitted_pct"], color="#606060", ls=(0, (4, 2)), lw=1.2, zorder=2, gid="fit")
    for row in points.iter_rows(named=True):
        roster.point(ax, row["value"], row["score_pct"], looks[row["model"]])
        text = " ".join(filter(None, (row["model"], signed(row["residual_points"]))))
        labels.add(ax, row["value"], row["score_pct"], text, fontsize=6.2)
    ax.margins(0.09)
    ax.grid()
    ax.set_xlabel(words)
    ax.set_ylabel("Overall score (%)")
    look = {"borderaxespad": 0.4, "ncols": columns, "columnspacing": 0.8}
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), **look).set_in_layout(columns == 3)
    panels.title(ax, "Score and capability", legend_lines=-(-len(handles) // columns))
    if r:
        box = {"fc": "white", "ec": "none", "pad": 1.5}
        ax.text(0.985, 0.02, r, transform=ax.transAxes, ha="right", va="bottom", fontsize=7, gid="r", bbox=box)


def _overall(result: Capability, measure: str) -> str:
    """Pearson's r of the overall score with its interval, and r squared; empty where it is undefined."""
    row = result.table.row(by_predicate=(pl.col("measure") == measure) & (pl.col("dimension") == _OVERALL), named=True)
    if row["r"] is None:
        return ""
    fit = result.fits.row(by_predicate=pl.col("measure") == measure, named=True)
    kind = "" if row["lo"] is not None else "_models"
    r = Interval.of(row, "r", f"lo{kind}", f"hi{kind}", digits=2).ends()
    return f"r = {r}, R² = {number(fit['r_squared'], 2)}"


def _dimensions(ax: Axes, *, table: pl.DataFrame, legend_lines: int) -> None:
    whole = table.filter(pl.col("dimension") == _OVERALL)
    table = pl.concat([whole, table.filter(pl.col("dimension") != _OVERALL).sort("r", descending=True)])
    panels.rows(ax, [roster.dimension(name, 16) for name in table["dimension"]])
    ax.axvline(0, color="#404040", lw=0.8, zorder=1)
    for positive, mark in ((True, panels.SERIES[0]), (False, panels.SERIES[1])):
        rows = [(i, row) for i, row in enumerate(table.iter_rows(named=True)) if (row["r"] >= 0) == positive]
        if rows:
            y, of = zip(*rows, strict=True)
            ends = [(row["lo_models"], row["hi_models"]) for row in of]
            label = "r of 0 or more" if positive else "Negative r"
            panels.bars(ax, [row["r"] for row in of], y, ends, mark, along="x", ls="none", label=label)
    ax.set_xlim(-1.02, 1.02)
    ax.set_xticks([-1, -0.5, 0, 0.5, 1])
    ax.set_xlabel("Pearson's r with the measure")
    panels.title(ax, "Dimensions", legend_lines=legend_lines)
