"""Where each model breaks: scores of models by dimension, as a heatmap and as one radar per model.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing but plain means of the scores that it draws.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from cilab.core.errors import choice, nearest
from cilab.plots.parts import panels, roster, style
from cilab.results.names import at_default
from cilab.stats.teamwork.scores import DimensionScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Literal["default", "all"]

_ROW_INCHES = 0.21
_LINES = 9.0
#: Points between the dimensions and the overall score.
_GAP = 6.0
_RADAR_COLUMNS = 6
#: Characters in a line of the title of a radar.
_TITLE_CHARACTERS = 15
#: Points from the end of a spoke to the middle of its number.
_BESIDE = 6.3


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores in the order of drawing: `names` and `models` of rows, dimensions, and (row, dimension) -> percent."""

    names: list[str]
    models: list[str]
    dimensions: list[str]
    cells: dict[tuple[str, str], float | None]

    def of_row(self, name: str) -> list[float | None]:
        return [self.cells.get((name, d)) for d in self.dimensions]

    def overall(self, name: str) -> float | None:
        """Mean of the dimension scores; None where one is missing, as on the leaderboard."""
        own = self.of_row(name)
        return None if any(v is None for v in own) else math.fsum(v for v in own if v is not None) / len(own)

    def mean(self, dimension: str) -> float | None:
        """Mean over the rows that have a score."""
        there = [v for name in self.names if (v := self.cells.get((name, dimension))) is not None]
        return math.fsum(there) / len(there) if there else None


def _scores(result: DimensionScores, rows: Rows) -> _Scores:
    choice("rows", rows, ("default", "all"), style.FigureError, hint=False)
    table = result.table if rows == "all" else at_default(result.table)
    if table["score_pct"].null_count() == table.height:
        raise style.FigureError("nothing to draw: no row has a score in any dimension")
    named = table.with_columns(pl.Series("row", roster.full_names(table)))
    who = named.select("row", "model").unique(maintain_order=True)
    cells = {(row, d): score for row, d, score in named.select("row", "dimension", "score_pct").rows()}
    dimensions = named["dimension"].unique(maintain_order=True).to_list()
    return _Scores(who["row"].to_list(), who["model"].to_list(), dimensions, cells)


# -- heatmap ------------------------------------------------------------------------------------------------


def dimensions(result: DimensionScores, *, ax: Axes | None = None, rows: Rows = "default", facts: Any = None) -> Axes:
    """Draw the score of every model in every dimension, as figure 3 of the collaborative-intelligence paper.

    The best row is on top, the hardest dimension (by the mean of the rows drawn) at the left. The last column is the
    mean of the eight, that is the overall score.

    Parameters
    ----------
    result : what `cilab.dimensions` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    rows : `default` draws each model at its default setting, `all` every row.
    facts : which weights are open, as in `leaderboard`.

    Returns
    -------
    Axes
        Cells of the dimensions and, in the last column, of the overall scores (one masked array), and a text with gid
        `cell` in every cell.

    Raises
    ------
    FigureError
        `result` is not a DimensionScores, `rows` is another word, or there is no score.
    """
    style.require(result, DimensionScores, "dimensions")
    scores = _scores(result, rows)
    of = roster.looks(scores.models, facts)
    order = sorted(scores.dimensions, key=lambda d: math.inf if scores.mean(d) is None else scores.mean(d))
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.35 + _ROW_INCHES * max(len(scores.names), 3))
        names = [n + roster.sign(of[m]) for n, m in zip(scores.names, scores.models, strict=True)]
        names = style.brief(names)
        heads = [roster.dimension(d, 10) for d in order]
        _cells(ax, scores, order, names, [*heads, "Overall"])
        head_size = 6.3 if max(map(len, names)) < 23 else 5.6  # long names leave narrow columns
        ax.tick_params(axis="x", labeltop=True, labelbottom=False, labelsize=head_size)
        deepest = max(head.count("\n") for head in heads)
        ax.set_title("Score by dimension (%)", loc="left", pad=10 + _LINES * deepest + 9)
        style.mark_simulated(ax, result, scores.models, y=14 + _LINES * (deepest + 1))
        if fig is not None:
            of_tasks = style.gated(result, "the tasks that a model solves alone", "all tasks")
            note = f"Test score over {of_tasks}; hardest dimension first. – no score."
            style.small_print(fig, result, note + _open_note(of))
    return ax


def _open_note(of: Mapping[str, roster.Look]) -> str:
    return f" {roster.OPEN_NOTE}" if any(look.open_weights for look in of.values()) else ""


def _cells(ax: Axes, scores: _Scores, order: Sequence[str], names: Sequence[str], heads: Sequence[str]) -> None:
    cells = [[*(scores.cells.get((name, d)) for d in order), scores.overall(name)] for name in scores.names]
    values = [[_nan(v) for v in row] for row in cells]
    words = [[f"{v:.0f}" for v in row] for row in values]
    panels.heatmap(ax, values, words, lines=names, columns=heads, missing="–", vmin=0, vmax=100)
    ax.axvline(len(order), color="white", lw=_GAP)
    for text in ax.texts:
        if text.get_gid() == "cell" and text.get_position()[0] > len(order):
            text.set_fontweight("bold")


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


# -- profiles -----------------------------------------------------------------------------------------------


def profiles(
    result: DimensionScores,
    *,
    ax: Axes | None = None,
    panel: str | None = None,
    rows: Rows = "default",
    facts: Any = None,
) -> Axes | Figure:
    """Draw one radar per model, against the mean of all, as figure 13 of the collaborative-intelligence paper.

    Best first. Spokes are numbered; the legend says which is which. The ring is 100 %, the middle 0.

    Parameters
    ----------
    result : what `cilab.dimensions` returned.
    ax : axes for one model; None makes a figure 6.5 inches wide, with small print.
    panel : name of a row; None takes the best with `ax`, and all without.
    rows, facts : as in `dimensions`.

    Returns
    -------
    Axes or Figure
        Per model a line with gid `profile` and one with gid `mean`, both closed: x to the right and y to the top, so
        that a score is the distance from the middle.

    Raises
    ------
    FigureError
        `result` is not a DimensionScores, or there is no such row.
    """
    style.require(result, DimensionScores, "profiles")
    style.require_axes(ax)
    scores = _scores(result, rows)
    if len(scores.dimensions) < 3:
        raise style.FigureError(f"a radar needs at least 3 dimensions; these scores have {len(scores.dimensions)}")
    if panel is not None and panel not in scores.names:
        raise style.FigureError(f"panel: no row is called {panel!r}.{nearest(panel, scores.names)}")
    of = roster.looks(scores.models, facts)
    with style.context():
        if ax is not None:
            _radar(ax, scores, panel or scores.names[0], of)
            style.mark_simulated(ax, result, scores.models, y=30)
            return ax
        return _radars(result, scores, [panel] if panel else scores.names, of)


def _radars(result: DimensionScores, scores: _Scores, names: Sequence[str], of: Mapping[str, roster.Look]) -> Figure:
    columns = min(_RADAR_COLUMNS, len(names))
    lines = -(-len(names) // columns)
    width, radar = (style.PAGE_WIDTH, 1.36) if len(names) > 1 else (4.0, 3.2)
    fig, axes = style.subplots(lines, columns, figsize=(width, radar * lines + 1), squeeze=False)
    for ax, name in zip(axes.flat, names, strict=False):
        _radar(ax, scores, name, of)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    fig.suptitle("Teamwork profiles", x=0.01, ha="left", fontsize=9, fontweight="bold")
    style.mark_simulated_page(axes[0, -1], result, scores.models)
    spokes = " · ".join(f"{i}\N{NO-BREAK SPACE}{roster.dimension(d)}" for i, d in enumerate(scores.dimensions, 1))
    mean = f"Grey: mean of all rows ({len(scores.names)}). Rings: 50 and 100 %. Below each name: mean of its scores."
    style.small_print(fig, result, f"Spokes, clockwise from the top: {spokes}.", mean + _open_note(of))
    _lay_out(fig, lines)
    return fig


def _lay_out(fig: Figure, lines: int) -> None:
    """Room for titles above the radars and for the text below."""
    height = 72 * fig.get_figheight()
    titles = max(ax.get_title().count("\n") for ax in fig.axes) + 1
    text = fig._supxlabel.get_text().count("\n") + 1
    above, between, below = 34 + 8 * titles, 24 + 8 * titles, 20 + 8.6 * text
    # hspace is in heights of a row of radars.
    row = (height - above - below - between * (lines - 1)) / lines
    fig.subplots_adjust(left=0.03, right=0.97, top=1 - above / height, bottom=below / height)
    fig.subplots_adjust(wspace=0.4, hspace=between / row)


def _radar(ax: Axes, scores: _Scores, name: str, of: Mapping[str, roster.Look]) -> None:
    """In plain axes: matplotlib's polar ones take four times as long to make and to draw."""
    from matplotlib.patches import Circle

    look = of[scores.models[scores.names.index(name)]]
    n = len(scores.dimensions)
    angles = [2 * math.pi * i / n for i in range(n)]
    spokes = [(math.sin(angle), math.cos(angle)) for angle in angles]  # clockwise from the top
    ax.set(xlim=(-100, 100), ylim=(-100, 100), aspect="equal")
    ax.set_axis_off()
    for radius, color in ((50, "#dddddd"), (100, "#404040")):
        ax.add_patch(Circle((0, 0), radius, fill=False, ec=color, lw=0.5, clip_on=False, zorder=0.5))
    there = [end for x, y in spokes for end in ((0, 0), (100 * x, 100 * y))]
    ax.plot(*zip(*there, strict=True), color="#dddddd", lw=0.5, gid="spokes", zorder=0.5)
    for i, (x, y) in enumerate(spokes, 1):
        place = {"xytext": (_BESIDE * x, _BESIDE * y), "textcoords": "offset points", "ha": "center", "va": "center"}
        ax.annotate(str(i), (100 * x, 100 * y), fontsize=5.5, color="#606060", annotation_clip=False, **place)
    for values, gid, color, fill in (
        ([scores.mean(d) for d in scores.dimensions], "mean", "#a0a0a0", 0.25),
        (scores.of_row(name), "profile", look.color, 0.3),
    ):
        corners = [(_nan(v) * x, _nan(v) * y) for v, (x, y) in zip(values, spokes, strict=True)]
        closed = [*zip(*corners, corners[0], strict=True)]
        ax.plot(*closed, color=color, lw=1.2 if gid == "profile" else 0.8, gid=gid, clip_on=False)
        if None not in values:
            ax.fill(*closed, color=color, alpha=fill, lw=0, clip_on=False)
    overall = scores.overall(name)
    shown = style.brief(scores.names)[scores.names.index(name)] + roster.sign(look).replace(" ", "\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(shown, _TITLE_CHARACTERS)
    ax.set_title("\n".join([*lines, "–" if overall is None else f"{overall:.1f}"]), fontsize=6.5, pad=13)
