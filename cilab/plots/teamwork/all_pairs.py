"""The ranks that the data leave open for every row, beside its score.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.all_pairs import AllPairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARK = panels.SERIES[0]
_RANGE = {"elinewidth": 5.0, "ecolor": "#8fcdf2"}
_ROW_INCHES = 0.2


def all_pairs(result: AllPairs, *, ax: Axes | None = None) -> Axes:
    """Draw every row's ranks that are not excluded, its rank in the leaderboard, and its score.

    Parameters
    ----------
    result : what `cilab.all_pairs` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        An ErrorbarContainer `Ranks not excluded` with the leaderboard's ranks as marks, best on top, and the score of
        each row as text (gid `score`) at the right.

    Raises
    ------
    FigureError
        `result` is not what `cilab.all_pairs` returns.
    """
    style.require(result, AllPairs, "all_pairs")
    ranks = result.ranks
    drawn: Any = panels.compose(
        result,
        {"ranks": partial(_drawn, ranks=ranks)},
        ax=ax,
        panel="ranks",
        size=(style.PAGE_WIDTH, 1.4 + _ROW_INCHES * max(ranks.height, 4)),
        ncols=1,
        names=ranks["model"].to_list(),
        notes=[
            f"Bars: ranks not excluded at {percent(result.parameters['ci_level'])}, all rows together; marks: rank in "
            "the leaderboard. Numbers: overall score, %."
        ],
        label_y=24,
    )
    return drawn


def _drawn(ax: Axes, *, ranks: pl.DataFrame) -> None:
    panels.rows(ax, roster.full_names(ranks))
    rows = list(range(ranks.height))
    # A row with one rank left has a bar too: each reaches over the whole of its ranks.
    ends = [(lo - 0.4, hi + 0.4) for lo, hi in ranks.select("rank_lo", "rank_hi").iter_rows()]
    at = ranks["rank"].to_list()
    panels.bars(ax, at, rows, ends, _MARK, along="x", ls="none", label="Ranks not excluded", **_RANGE)
    for y, score in enumerate(ranks["score_pct"]):
        ax.text(1.01, y, f"{score:.1f}", transform=ax.get_yaxis_transform(), va="center", fontsize=6.5, gid="score")
    ax.set_xlim(0.4, ranks.height + 0.6)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("Rank")
    panels.title(ax, "Ranks that the data do not exclude")
