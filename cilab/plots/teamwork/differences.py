"""Baseline against test for every row, and differences of rows that are neighbours in rank.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.names import model_of
from cilab.results.numbers import percent, signed
from cilab.stats.teamwork.compare import Differences
from cilab.stats.teamwork.scores import Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BASELINE = style.Mark("white", "D", 4.4, "#7a5400")
_TEST = panels.SERIES[0]
_ROW_INCHES = 0.2
#: Ends of the interval by how the two rows hang together, widest first, with words and look.
_INTERVALS = (
    ("_independent", "Interval if scores were independent", {"elinewidth": 0.8, "ecolor": "#808080"}),
    ("_comonotone", "Interval if they moved together", {"elinewidth": 2.6, "ecolor": "#8fcdf2"}),
    ("", "Interval, paired by task", {"elinewidth": 1.2, "ecolor": "#08306b"}),
)


def drop(result: Leaderboard, *, ax: Axes | None = None) -> Axes:
    """Draw what each row loses from a calm team to the test: the columns baseline and drop of table 2 of the
    collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.leaderboard` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        ErrorbarContainers `Test` (with intervals) and `Baseline`, a line between them per row, and the
        change in points as text (gid `drop`). Rows in order of their score.

    Raises
    ------
    FigureError
        `result` is not a Leaderboard, or no row has a baseline.
    """
    style.require(result, Leaderboard, "drop")
    table = result.table.filter(pl.col("baseline_pct").is_not_null() & pl.col("score_pct").is_not_null())
    return panels.compose(
        result,
        {"drop": partial(_drop, table=table)} if table.height else {},
        ax=ax,
        panel="drop" if table.height else None,
        size=(style.PAGE_WIDTH, 1.4 + _ROW_INCHES * max(table.height, 4)),
        ncols=1,
        names=table["model"].to_list(),
        notes=[
            f"On {style.gated(result, 'the tasks solved alone', 'all tasks')}. Numbers: test minus baseline, points. "
            "Bars: intervals of the test score."
        ],
        label_y=36,
    )


def _drop(ax: Axes, *, table: pl.DataFrame) -> None:
    panels.rows(ax, roster.row_names(table))
    rows = list(range(table.height))
    ax.hlines(rows, table["score_pct"], table["baseline_pct"], color="#c8c8c8", lw=1.4, zorder=1, gid="drop lines")
    ends = table.select("lo_pct", "hi_pct").rows()
    panels.bars(ax, table["score_pct"].to_list(), rows, ends, _TEST, along="x", ls="none", label="Test")
    none = [None] * table.height
    panels.bars(ax, table["baseline_pct"].to_list(), rows, none, _BASELINE, along="x", ls="none", label="Baseline")
    for y, points in enumerate(table["drop_pct"]):
        ax.text(1.01, y, signed(-points), transform=ax.get_yaxis_transform(), va="center", fontsize=6.5, gid="drop")
    ax.set_xlim(0, 101)
    ax.set_xlabel("Score (%)")
    panels.legend(ax, 2)
    panels.title(ax, "From a calm team to the test", legend_lines=1)


def differences(result: Differences, *, ax: Axes | None = None) -> Axes:
    """Draw the difference of every two neighbours in rank, with its interval.

    Parameters
    ----------
    result : what `cilab.differences` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One ErrorbarContainer per kind of interval: paired by task, or, where tasks have no identity, the two bounds.
        Where no pair has an interval, the differences alone.

    Raises
    ------
    FigureError
        `result` is of another kind, or has no pair.
    """
    style.require(result, Differences, "differences")
    table = result.table.filter(pl.col("diff_points").is_not_null())
    return panels.compose(
        result,
        {"differences": partial(_differences, table=table)} if table.height else {},
        ax=ax,
        panel="differences" if table.height else None,
        size=(style.PAGE_WIDTH, 1.5 + 1.1 * _ROW_INCHES * max(table.height, 4)),
        ncols=1,
        names=[model_of(name) for name in (*table["higher"], *table["lower"])],
        notes=[
            f"Bars: {percent(result.parameters['ci_level'])} intervals. Left of 0: the lower row may be the better."
        ],
        label_y=36,
    )


def _differences(ax: Axes, *, table: pl.DataFrame) -> None:
    pairs = table.select("higher", "lower").rows()
    brief = style.brief([roster.short(name) for pair in pairs for name in pair])
    names = [f"{one} \N{MINUS SIGN} {two}" for one, two in zip(brief[::2], brief[1::2], strict=True)]
    panels.rows(ax, names, width=2 * style.NAME_WIDTH + 3)
    ax.tick_params(axis="y", labelsize=6.8)
    ax.axvline(0, color="#404040", lw=0.8, zorder=1)
    rows, values = list(range(table.height)), table["diff_points"].to_list()
    shown = [kind for kind in _INTERVALS if table[f"lo{kind[0]}_points"].null_count() < table.height]
    for kind, label, look in shown:
        ends = table.select(f"lo{kind}_points", f"hi{kind}_points").rows()
        panels.bars(ax, values, rows, ends, _TEST, along="x", ls="none", label=label, **look)
    if not shown:
        panels.points(ax, values, rows, _TEST, "Difference; too few tasks for an interval")
    ax.set_xlabel("Difference of the overall scores (points)")
    panels.legend(ax, 2)
    panels.title(ax, "Neighbours in rank", legend_lines=1)
