"""Conflicts: dimensions that go together, how negotiations end, who asks and who gives in; points of the deals.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import Interval, number
from cilab.stats.teamwork.conflict import UNTOLD, Conflict, DimensionCorrelations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Column, words, colour and the colour of the number on it: from dark to light.
ENDINGS = (
    ("best_pct", "Best deal", "#0b559f", "white"),
    ("held_firm_pct", "Held firm", "#5aa3d6", "black"),
    ("gave_in_pct", "Gave in", "#fbe3c0", "black"),
)
_NUMBERED_FROM = 8.0
#: Colours of r from -1 to 1: both ends dark, 0 white; blue and brown are told apart by colour-blind readers.
_R_MAP = "BrBG"
_AGAINST = {
    "asks": ("Asks about needs", "asks_pct", panels.SERIES[2]),
    "gave_in": ("Gives in", "gave_in_pct", panels.SERIES[1]),
}


def conflict(
    result: Conflict,
    correlations: DimensionCorrelations | None = None,
    *,
    ax: Axes | None = None,
    panel: str | None = None,
) -> Axes | Figure:
    """Draw how conflicts end and how that goes with ability, as figure 19 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.conflict` returned.
    correlations : what `cilab.dimension_correlations` returned for the same data; without it that panel is missing.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `correlations`, `endings` (models in order of their overall score), `asks` or `gave_in` (share of runs
        against the mean of the other dimensions); None takes the first with `ax`, and all without. Where the data do
        not tell holding firm from giving in, `gave_in` is missing and `endings` has the best deals only.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        A result is of another kind, or there is no such panel.
    """
    style.require(result, Conflict, "conflict")
    parts = {}
    if correlations is not None:
        style.require(correlations, DimensionCorrelations, "dimension_correlations")
        parts["correlations"] = partial(_matrix, result=correlations)
    known = result.table["gave_in_pct"].null_count() < result.table.height
    endings = ENDINGS if known else ENDINGS[:1]
    ended = result.table.filter(pl.all_horizontal(pl.col(c).is_not_null() for c, *_ in endings))
    if ended.height:
        parts["endings"] = partial(_endings, table=ended, endings=endings)
    for name in _AGAINST:
        if result.table[_AGAINST[name][1]].drop_nulls().len():
            parts[name] = partial(_against_others, result=result, name=name)
    rows = -(-len(parts) // 2)
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 0.7 + (3.3 if rows == 1 else 2.9 * rows)),
        ncols=2,
        names=result.table["model"].to_list(),
        notes=[f"Conflict runs ({result.parameters['version']}). " + (_BARS if known else UNTOLD)],
        label_y=36,
    )


_BARS = (
    "Bars: intervals of the shares, tasks resampled; brackets: interval of r over models (Fisher's z); dashed: least "
    "squares."
)


def _endings(ax: Axes, *, table: pl.DataFrame, endings: Sequence[tuple[str, str, str, str]]) -> None:
    names = roster.full_names(table)
    panels.rows(ax, names, width=style.NARROW)
    ax.tick_params(axis="y", labelsize=6.5)
    left = [0.0] * len(names)
    for column, label, color, ink in endings:
        values = table[column].to_list()
        ax.barh(range(len(names)), values, left=left, height=0.76, color=color, label=label, lw=0, zorder=2)
        for i, (value, start) in enumerate(zip(values, left, strict=True)):
            left[i] = start + value
            if value >= _NUMBERED_FROM:
                look: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": 5.8,
                    "color": ink,
                    "zorder": 3,
                    "gid": column,
                }
                ax.text(start + value / 2, i, f"{value:.0f}", **look)
    ax.set_xlim(0, 100)
    ax.set_xlabel("Share of runs (%)")
    panels.legend(ax, 3)
    panels.title(ax, "How conflicts end", legend_lines=1)


def _against_others(ax: Axes, *, result: Conflict, name: str) -> None:
    words, column, mark = _AGAINST[name]
    there = result.table.filter(pl.col(column).is_not_null() & pl.col("others_pct").is_not_null())
    ends = there.select(column.replace("_pct", "_lo_pct"), column.replace("_pct", "_hi_pct")).rows()
    found = result.correlations.filter((pl.col("quantity") == name) & (pl.col("against") == "other dimensions"))
    line: dict[str, Any] = found.row(0, named=True) if found.height else {"r": None}
    look = {"ls": "none", "elinewidth": 0.7, "label": _with_r(line)}
    panels.bars(ax, there["others_pct"].to_list(), there[column].to_list(), ends, mark, along="y", **look)
    if line["r"] is not None:
        x = [there["others_pct"].min(), there["others_pct"].max()]
        y = [line["intercept_pct"] + line["slope"] * v for v in x]
        ax.plot(x, y, ls="--", lw=1.0, color="0.35", zorder=1.5, gid="fit")
    ax.set_ylim(-4, 104)
    ax.grid()
    ax.set_xlabel("Mean of the other dimensions (%)")
    ax.set_ylabel("Share of runs (%)")
    panels.legend(ax, 1)
    panels.title(ax, words, legend_lines=1)


def _with_r(line: Mapping[str, Any]) -> str:
    """The correlation over models in words."""
    if line["r"] is None:
        return "A model"
    return f"A model; r = {Interval.of(line, 'r', 'lo_models', 'hi_models', digits=2).ends()}"


# -- correlations of dimensions -----------------------------------------------------------------------------


def dimension_correlations(result: DimensionCorrelations, *, ax: Axes | None = None) -> Axes:
    """Draw Pearson's r of every pair of dimension scores, as figure 19a of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.dimension_correlations` returned.
    ax : axes to draw in; None makes a figure, with small print.

    Returns
    -------
    Axes
        Cells (a masked array), and one text per pair (gid `cell`).

    Raises
    ------
    FigureError
        `result` is of another kind.
    """
    style.require(result, DimensionCorrelations, "dimension_correlations")
    first = result.components.row(0, named=True)
    note = f"{len(result.rows)} models. One component explains {first['variance_pct']:.0f}% of the variance."
    parts = {"correlations": partial(_matrix, result=result)}
    size = (4.5, 4.0)
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel="correlations",
        size=size,
        ncols=1,
        names=[name.partition(" · ")[0] for name in result.rows],
        notes=[note],
    )


def _matrix(ax: Axes, *, result: DimensionCorrelations) -> None:
    import numpy as np

    names = _ordered(result)
    r = {frozenset(pair): value for *pair, value in result.table.select("dimension", "other", "r").rows()}
    values = np.full((len(names) - 1, len(names) - 1), np.nan)
    for i, one in enumerate(names[1:]):
        for j, other in enumerate(names[: i + 1]):
            if (value := r.get(frozenset((one, other)))) is not None:
                values[i, j] = value
    words = [[number(v, 2).replace("0.", ".", 1) for v in row] for row in values]
    shown = [_abbreviated(name) for name in names]
    look: dict[str, Any] = {"lines": shown[1:], "columns": shown[:-1], "size": 6, "cmap": _R_MAP}
    panels.heatmap(ax, values, words, **look, vmin=-1, vmax=1)
    ax.tick_params(labelsize=6.5)
    ax.tick_params(axis="x", labelrotation=90)
    panels.title(ax, "Correlation of dimensions", legend_lines=1)


def _ordered(result: DimensionCorrelations) -> list[str]:
    """By the loading on the first component, so that dimensions that go together stand together."""
    return result.loadings.sort("loading", descending=True, maintain_order=True)["dimension"].to_list()


_SHORT = {
    "resisting_unsafe_pressure": "Pressure",
    "reporting_misconduct": "Misconduct",
    "sharing_information": "Information",
    "emotional_intelligence": "Emotions",
    "keeping_on_track": "On track",
    "handling_conflict": "Conflict",
    "taking_initiative": "Initiative",
    "taking_over": "Taking over",
}


def _abbreviated(name: str) -> str:
    return _SHORT.get(name, roster.dimension(name))


# -- joint points -------------------------------------------------------------------------------------------

_DEALS = (
    ("joint_pct", "All deals", panels.SERIES[0]),
    ("joint_gave_in_pct", "Deals after giving in", panels.SERIES[1]),
    ("joint_none_as_0_pct", "All runs, no deal as 0", panels.SERIES[4]),
)


def joint_points(result: Conflict, *, ax: Axes | None = None) -> Axes:
    """Draw the joint points of the final deals, as table 8 of the collaborative-intelligence paper has them.

    Parameters
    ----------
    result : what `cilab.conflict` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One ErrorbarContainer per kind of mean, models in order of their overall score.

    Raises
    ------
    FigureError
        `result` is not a Conflict, or no run has joint points.
    """
    style.require(result, Conflict, "joint_points")
    table = result.table.filter(pl.any_horizontal(pl.col(column).is_not_null() for column, *_ in _DEALS))
    parts = {"joint": partial(_joint, table=table)} if table.height else {}
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel="joint" if parts else None,
        size=(style.PAGE_WIDTH, 1.5 + 0.21 * max(table.height, 5)),
        ncols=1,
        names=table["model"].to_list(),
        notes=["Points of the final deal for the whole team. Bars: intervals, tasks resampled."],
        label_y=36,
    )


def _joint(ax: Axes, *, table: pl.DataFrame) -> None:
    names = roster.row_names(table)
    panels.rows(ax, names)
    for i, (column, label, mark) in enumerate(_DEALS):
        part = table.with_row_index("at").filter(pl.col(column).is_not_null())
        if part.height:
            rows = [at + 0.26 * (i - 1) for at in part["at"]]
            ends = part.select(column.replace("_pct", "_lo_pct"), column.replace("_pct", "_hi_pct")).rows()
            look = {"label": label, "ls": "none", "elinewidth": 0.8, "markersize": 0.85 * mark.size}
            panels.bars(ax, part[column].to_list(), rows, ends, mark, along="x", **look)
    ax.set_xlim(right=101)
    ax.set_xlabel("Joint points (% of the task's best)")
    panels.legend(ax, 3)
    panels.title(ax, "Joint points of the deals", legend_lines=1)
