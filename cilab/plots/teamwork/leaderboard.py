"""The leaderboard: the overall score of every row with its interval.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.scores import Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW_INCHES = 0.2


def leaderboard(result: Leaderboard, *, ax: Axes | None = None, facts: Any = None) -> Axes:
    """Draw the overall score of every row, best on top, as figure 1 of the collaborative-intelligence paper.

    Bars have the colour of the model's family; those of models with open weights are hatched.

    Parameters
    ----------
    result : what `cilab.leaderboard` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide and as high as the rows need, with small print.
    facts : families and open weights: a frame with `model` and any of `family, builder, open_weights`, or a study.
        None takes the registry, and for pseudonyms of simulated data their group.

    Returns
    -------
    Axes
        One bar per row that has a score, an ErrorbarContainer `interval`, and a text with gid `value` per row.

    Raises
    ------
    FigureError
        `result` is not a Leaderboard, or no row has a score.
    """
    style.require(result, Leaderboard, "leaderboard")
    table = result.table
    if table["score_pct"].null_count() == table.height:
        raise style.FigureError("nothing to draw: no row has an overall score")
    of = roster.looks(table["model"], facts)
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.5 + _ROW_INCHES * max(table.height, 3))
        names = [n + roster.sign(of[m]) for n, m in zip(roster.full_names(table), table["model"], strict=True)]
        panels.rows(ax, names)
        _bars(ax, table.to_dicts(), of)
        lines = roster.legend_over_axes(ax, of, bars=True)
        ax.set_xlabel("Overall score (%)")
        panels.title(ax, "Leaderboard", legend_lines=lines)
        style.mark_simulated(ax, result, table["model"], y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            style.small_print(fig, result, result.caption.replace("half the", "the"), *result.remarks)
    return ax


def _bars(ax: Axes, rows: list[dict[str, Any]], of: dict[str, roster.Look]) -> None:
    """Bars, intervals and values; a row without a score says so."""
    scored = [(i, r) for i, r in enumerate(rows) if r["score_pct"] is not None]
    for i, row in scored:
        look = of[row["model"]]
        ax.barh(i, row["score_pct"], 0.66, color=look.color, hatch=look.hatch, ec="white", lw=0, zorder=2, gid="bar")
    ends = [(r["lo_pct"], r["hi_pct"]) for _, r in scored]
    plain = style.Mark("#202020", "none", 0, "#202020")
    x, y = [r["score_pct"] for _, r in scored], [i for i, _ in scored]
    panels.halo(panels.bars(ax, x, y, ends, plain, along="x", ls="none", label="interval"))
    right = max(v for r in rows for v in (r["hi_pct"], r["score_pct"]) if v is not None)
    ax.set_xlim(0, right * 1.09)
    for i, row in enumerate(rows):
        end = max(v for v in (row["hi_pct"], row["score_pct"], 0.0) if v is not None)
        text = "no score" if row["score_pct"] is None else f"{row['score_pct']:.1f}"
        ax.annotate(text, (end, i), (3, 0), textcoords="offset points", va="center", fontsize=6.8, gid="value")
