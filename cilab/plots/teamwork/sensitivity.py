"""What a leaderboard hangs on: rank or score of every row in every scenario.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from cilab.core.errors import choice
from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.sensitivity import AS_IS, Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Show = Literal["rank", "score"]
_ROW_INCHES = 0.2
#: White where nothing moves; darker, also in grey, the further.
_MAP = "Blues"
#: The darkest colour stands for at least so many ranks or points, so that a single step is no alarm.
_LEAST = {"rank": 4.0, "score": 10.0}
_COLUMN = {"rank": ("rank", "rank_change"), "score": ("score_pct", "change_points")}
_TAU = "Kendall's tau with as is"


def sensitivity(result: Sensitivity, *, ax: Axes | None = None, show: Show = "rank") -> Axes:
    """Draw the rank, or the score, of every row in every scenario; rows in the order as it is.

    Parameters
    ----------
    result : what `cilab.sensitivity` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide and as high as the rows need, with small print.
    show : `rank`, or `score` (percent).

    Returns
    -------
    Axes
        A QuadMesh of the absolute change from the score as it is (ranks or points), the numbers in it as texts with gid
        `cell`, and Kendall's tau in the last line. A dash where there is no score.

    Raises
    ------
    FigureError
        `result` is not a Sensitivity, `show` is unknown, or no row has a score.
    """
    style.require(result, Sensitivity, "sensitivity")
    choice("show", show, ("rank", "score"), style.FigureError)
    table, scenarios = result.table, result.scenarios
    base = table.filter(pl.col("scenario") == AS_IS)
    if base["score_pct"].null_count() == base.height:
        raise style.FigureError("nothing to draw: no row has a score as it is")
    of = scenarios["scenario"].to_list()
    names = roster.full_names(base)
    shown, moved = _COLUMN[show]
    columns = [table.filter(pl.col("scenario") == name) for name in of]
    values = [[None if v is None else abs(v) for v in own[moved]] for own in columns]
    words = [[_word(v, show) for v in own[shown]] for own in columns]
    # A score where there is none as it is has no change, and is shown without a colour.
    values = [
        [0.0 if v is None and w else v for v, w in zip(vs, ws, strict=True)]
        for vs, ws in zip(values, words, strict=True)
    ]
    taus = scenarios["tau"].to_list()
    values = [[*vs, None if tau is None else 0.0] for vs, tau in zip(values, taus, strict=True)]
    words = [[*ws, "" if tau is None else f"{tau:.2f}"] for ws, tau in zip(words, taus, strict=True)]
    top = max([_LEAST[show], *(v for vs in values for v in vs if v is not None)])
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 2.6 + _ROW_INCHES * max(len(names), 3))
        panels.heatmap(
            ax,
            _turned(values),
            _turned(words),
            lines=[*style.brief(names, style.NARROW), _TAU],
            columns=[_label(name) for name in of],
            missing="\N{EN DASH}",
            size=6.0,
            cmap=_MAP,
            vmin=0.0,
            vmax=1.25 * top,
        )
        panels.slant(ax, 40)
        ax.axhline(len(names), color="#404040", lw=0.8)
        ax.axvline(1, color="#404040", lw=0.8)
        ax.set_ylabel("")
        title = "Rank in every scenario" if show == "rank" else "Score in every scenario (%)"
        panels.title(ax, title)
        style.mark_simulated(ax, result, base["model"], y=11)
        if fig is not None:
            unit = "ranks" if show == "rank" else "points"
            first = f"The darker, the more {unit} from where the row stands as is."
            style.small_print(fig, result, f"{first} {_notes(result)}", *_gaps(result))
    return ax


def _turned(columns: list[list]) -> list[list]:
    """Columns as lines."""
    return [[float("nan") if v is None else v for v in line] for line in zip(*columns, strict=True)]


def _word(value: float | None, show: Show) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if show == "rank" else f"{value:.1f}"


def _label(scenario: str) -> str:
    """A scenario with a capital; a dimension in it in words."""
    start, _, rest = scenario.partition("without ")
    text = f"without {roster.dimension(rest).lower()}" if rest and not start else scenario
    return text[:1].upper() + text[1:]


def _notes(result: Sensitivity) -> str:
    """How much each scenario counts otherwise."""
    lines = result.scenarios.filter(pl.col("note").is_not_null() & (pl.col("n_rows") > 0)).select("scenario", "note")
    return " ".join(f"{_label(name)}: {note}." for name, note in lines.iter_rows())


def _gaps(result: Sensitivity) -> list[str]:
    """Why a scenario has no score at all."""
    lines = result.scenarios.filter(pl.col("n_rows") == 0).select("scenario", "reason")
    return [f"{_label(name)}: {reason}." for name, reason in lines.iter_rows()]
