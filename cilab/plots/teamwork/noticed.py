"""Did the model see the problem before it failed: by dimension, and against the model's score.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster`, `cilab.plots.parts.labels`
and `cilab.stats`. Computes nothing but the line through the points.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import labels, panels, roster, style
from cilab.results.names import at_default
from cilab.results.numbers import number, percent
from cilab.stats.teamwork.failures import Noticed
from cilab.stats.teamwork.scores import Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def noticed(
    result: Noticed,
    *,
    ax: Axes | None = None,
    panel: str | None = None,
    scores: Leaderboard | None = None,
    facts: Any = None,
) -> Axes | Figure:
    """Draw the share of failed runs that saw the problem, as figure 6 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.noticed` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `dimensions` (share by dimension, with the number of failed runs) or `models` (each model's share against
        its overall score); None takes the first with `ax`, and all without.
    scores : what `cilab.leaderboard` returned for the same data; without it there is no panel `models`.
    facts : families and open weights, as in `leaderboard`.

    Returns
    -------
    Axes or Figure
        In `dimensions` bars and an ErrorbarContainer `interval`; in `models` a line with gid `row` and a text with gid
        `label` per model, and a line with gid `trend`.

    Raises
    ------
    FigureError
        `result` is not a Noticed, `scores` not a Leaderboard, or there is no such panel.
    """
    style.require(result, Noticed, "noticed")
    parts: dict[str, Any] = {"dimensions": partial(_dimensions, result=result)}
    of: dict[str, roster.Look] = {}
    names = result.table.filter(pl.col("by") == "model")["name"]
    if scores is not None:
        style.require(scores, Leaderboard, "noticed(scores=)")
        points = _points(result, scores)
        of = roster.looks(points["name"], facts)
        parts["models"] = partial(_models, result=result, points=points, of=of)
    elif panel == "models":
        raise style.FigureError("panel models needs the scores: pass scores=cilab.leaderboard(study)")
    families = len({look.family for look in of.values()}) if len(parts) == 2 else 0
    level = f"Lines: {percent(result.parameters['ci_level'])} intervals over tasks."
    whole = "" if _whole(result) is None else " Dotted: all failed runs."
    drawn = panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, (4.1 if len(parts) == 2 else 3.5) + 0.17 * (families // 5)),
        ncols=2,
        names=names,
        notes=[f"{level} Noticed by a judge's label: a lower bound.{whole} In brackets: failed test runs."],
        **({"width_ratios": [1, 1.7]} if len(parts) == 2 else {}),
    )
    if "models" in parts and panel != "dimensions":
        roster.legend(drawn, of)
    labels.settle(drawn)
    return drawn


def _dimensions(ax: Axes, *, result: Noticed) -> None:
    table = result.table.filter((pl.col("by") == "dimension") & pl.col("share_pct").is_not_null())
    table = table.sort("share_pct", descending=True)
    names = [f"{roster.dimension(name)}\n({n:,})" for name, n in table.select("name", "n_failed").rows()]
    panels.rows(ax, names)
    y = range(table.height)
    ax.barh(y, table["share_pct"], 0.62, color=panels.SERIES[0].color, zorder=2)
    ends = table.select("lo_pct", "hi_pct").rows()
    plain = style.Mark("#202020", "none", 0, "#202020")
    panels.halo(panels.bars(ax, table["share_pct"].to_list(), y, ends, plain, along="x", ls="none", label="interval"))
    whole = _whole(result)
    if whole is not None:
        ax.axvline(whole, color="#404040", lw=0.9, ls=(0, (1, 2)), zorder=3, gid="all")
    ax.set_xlim(0, 100)
    ax.set_xlabel("Failed runs that saw the problem (%)")
    panels.title(ax, "By dimension")


def _whole(result: Noticed) -> float | None:
    """The share of all failed runs."""
    shares = result.table.filter(pl.col("by") == "all")["share_pct"]
    return shares[0] if len(shares) else None


def _points(result: Noticed, scores: Leaderboard) -> pl.DataFrame:
    """`name, share_pct, score_pct` of the models that have both, best first."""
    board = at_default(scores.table).select(pl.col("model").alias("name"), "score_pct")
    shares = result.table.filter(pl.col("by") == "model").select("name", "share_pct")
    return shares.join(board, on="name").drop_nulls().sort("score_pct", "name", descending=[True, False])


def _models(ax: Axes, *, result: Noticed, points: pl.DataFrame, of: dict[str, roster.Look]) -> None:
    lines = points.select("name", "share_pct", "score_pct").rows()
    for (name, share, score), shown in zip(lines, style.brief(points["name"]), strict=True):
        roster.point(ax, score, share, of[name])
        labels.add(ax, score, share, shown)
    if points.height > 2:
        panels.trend(ax, points["score_pct"], points["share_pct"])
    ax.margins(0.1)
    ax.set_xlabel("Overall score (%)")
    ax.set_ylabel("Failed runs that saw the problem (%)")
    ax.grid(axis="both")
    panels.corner(ax, _correlation(result))
    panels.title(ax, "By model")


def _correlation(result: Noticed) -> str:
    row = result.correlations.filter(pl.col("dimension").is_null()).to_dicts()[0]
    return "" if row["r"] is None else f"r = {number(row['r'], 2)}"
