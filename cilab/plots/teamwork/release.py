"""Scores by release date, on a date axis that is broken where nothing came out.

May import `cilab.plots.parts.style`, `cilab.plots.parts.roster`, `cilab.plots.parts.labels` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import labels, roster, style
from cilab.stats.teamwork.release import Release

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

#: Label, column of the best so far, column that says who sets it, colour and dashes of the two lines.
LINES = (
    ("Best so far", "best_so_far_pct", "sets_best", "#707070", (0, (4, 2))),
    ("Best of open weights so far", "best_open_pct", "sets_best_open", "#d55e00", (0, (1.2, 1.2))),
)
#: The axis is broken where the widest gap between two releases is at least this share of all time shown.
_BREAK_FROM = 0.3
#: How much of the axis a broken gap takes; days kept free beside the points.
_BREAK_SHARE, _MARGIN = 0.07, 12


def release(result: Release, *, ax: Axes | None = None, facts: Any = None) -> Axes:
    """Draw each model's best score by the day of its release, as figure 15 of the collaborative-intelligence paper.

    Two stairs show the best score so far of all models and of those with open weights; the models that set a best have
    bold names.

    Parameters
    ----------
    result : what `cilab.release` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    facts : who is of which family: see `cilab.plots.parts.roster.looks`.

    Returns
    -------
    Axes
        Points at dates (days since 1970), stairs as lines with labels; x is broken at the widest gap where that is
        long.

    Raises
    ------
    FigureError
        `result` is not a Release, or `facts` is not understood.
    """
    style.require(result, Release, "release")
    table = result.table
    if not table.height:
        raise style.FigureError("nothing to draw: no model has both a score and a release date")
    names = style.brief(table["model"])
    looks = roster.looks(table["model"], facts)
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 4.1)
        days = _days(table["released"].to_list())
        low, high = min(days) - _MARGIN, max(days) + 2 * _MARGIN
        gap = _break_axis(ax, days, low, high)
        _stairs(ax, table, days, high)
        high_effort = [effort not in (None, "default") for effort in table["effort"]]
        for row, name, day, high_one in zip(table.iter_rows(named=True), names, days, high_effort, strict=True):
            roster.point(ax, day, row["score_pct"], looks[row["model"]], ring=high_one)
            best = row["sets_best"] or row["sets_best_open"]
            labels.add(ax, day, row["score_pct"], name, fontweight="bold" if best else "normal")
        _frame(ax, low, high, gap)
        handles = [*roster.legend_handles(looks, ring=any(high_effort)), *ax.get_legend_handles_labels()[0]]
        columns = style.legend_columns([handle.get_label() for handle in handles], 4)
        above = 6 + 12 * -(-len(handles) // columns) + 3
        ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=columns)
        ax.set_title("Score by release date", loc="left", pad=above)
        style.mark_simulated(ax, result, table["model"], y=above)
        if fig is not None:
            style.small_print(fig, result, "Each model at its best reasoning setting. Bold: sets a new best.")
        labels.settle(ax)
    return ax


def _days(dates: Sequence[date]) -> list[float]:
    return [float((day - date(1970, 1, 1)).days) for day in dates]


def _stairs(ax: Axes, table: pl.DataFrame, days: Sequence[float], end: float) -> None:
    """Lines that stay level until the next model sets a best; corners are points of the line."""
    for label, column, _, color, dashes in LINES:
        points = [(day, best) for day, best in zip(days, table[column], strict=True) if best is not None]
        if points:
            stairs = [points[0]]
            for day, best in points[1:]:
                stairs += [(day, stairs[-1][1]), (day, best)]
            stairs.append((end, stairs[-1][1]))
            ax.plot(*zip(*stairs, strict=True), color=color, ls=dashes, lw=1.3, label=label, zorder=2)


# -- the broken axis ----------------------------------------------------------------------------------------


def _break_axis(ax: Axes, days: Sequence[float], low: float, high: float) -> tuple[float, float] | None:
    """Squeeze the widest gap between two releases; (its first and last day) or None where it is not wide enough."""
    inner = sorted(set(days))
    gaps = [(b - a, a, b) for a, b in itertools.pairwise(inner)]
    # The break begins and ends a margin away from the points, so a gap of two margins leaves nothing to squeeze.
    if not gaps or max(gaps)[0] < max(_BREAK_FROM * (high - low), 3 * _MARGIN):
        return None
    _, start, end = max(gaps)
    start, end = start + _MARGIN, end - _MARGIN
    width = _BREAK_SHARE / (1 - _BREAK_SHARE) * (high - low - (end - start))
    squeeze = width / (end - start)

    def forward(x: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.where(x < start, x, np.where(x < end, start + (x - start) * squeeze, x - (end - start) + width))

    def back(x: np.ndarray) -> np.ndarray:
        import numpy as np

        later = start + width
        return np.where(x < start, x, np.where(x < later, start + (x - start) / squeeze, x + (end - start) - width))

    ax.set_xscale("function", functions=(forward, back))
    return start, end


def _frame(ax: Axes, low: float, high: float, gap: tuple[float, float] | None) -> None:
    ax.set_xlim(low, high)
    scores = [y for line in ax.lines for y in line.get_ydata()]
    ax.set_ylim(max(0.0, min(scores) - 8), min(100.0, max(scores) + 8))
    ax.set_ylabel("Overall score (%)")
    ax.grid(axis="y")
    months = [m for m in _months(low, high) if gap is None or not gap[0] - 3 < m[0] < gap[1] + 3]
    years = [None, *(text[-4:] for _, text in months)]
    shown = [text if text[-4:] != before else text[:3] for (_, text), before in zip(months, years, strict=False)]
    ax.set_xticks([day for day, _ in months], [label.replace(" ", "\n") for label in shown])
    ax.minorticks_off()
    ax.set_xlabel("Release date")
    if gap is not None:
        _break_marks(ax, gap)


def _months(low: float, high: float) -> list[tuple[float, str]]:
    """First day of every month shown, with its name and year."""
    day = (date(1970, 1, 1) + timedelta(days=low)).replace(day=1)
    out = []
    while (at := float((day - date(1970, 1, 1)).days)) <= high:
        if at >= low:
            out.append((at, day.strftime("%b %Y")))
        day = (day + timedelta(days=32)).replace(day=1)
    return out


def _break_marks(ax: Axes, gap: tuple[float, float]) -> None:
    """Two strokes on the axis, and a pale band above it, where time is squeezed."""
    ax.axvspan(*gap, color="#f4f4f4", lw=0, zorder=0, gid="break")
    for day in gap:
        look = {"marker": [(-0.6, -1), (0.6, 1)], "ms": 7, "color": "#404040", "mew": 0.9, "clip_on": False}
        ax.plot([day], [0], transform=ax.get_xaxis_transform(), ls="none", zorder=7, gid="break", **look)
