"""A new model's predicted full score beside the rows of a study: score, dimensions, rank.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core.errors import choice
from cilab.plots.parts import panels, roster, style
from cilab.stats.teamwork.lite_score import LiteScore

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NEW = style.Mark("#0b559f", "D", 5.0, "#08306b")
_MEASURED = style.Mark("#b0b0b0", "o", 4.2, "#606060")
_ROW_INCHES = 0.17
#: Ranks less likely than this (percent) are not drawn.
_LEAST_PCT = 0.5


def lite_score(
    result: LiteScore, *, row: str | None = None, ax: Axes | None = None, panel: str | None = None
) -> Axes | Figure:
    """Draw predicted scores with their intervals among the scores that the study's rows were measured to have.

    Parameters
    ----------
    result : what `cilab.lite_score` returned.
    row : whose dimensions and ranks are shown, a name in `result.table`; None takes the first that has a prediction.
        The panel `scores` holds all new rows.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `scores`, `dimensions` or `ranks`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Blue diamonds with intervals are predicted, grey circles are measured.

    Raises
    ------
    FigureError
        `result` is not a LiteScore, no row has a prediction, or there is no such row or panel.
    """
    style.require(result, LiteScore, "lite_score")
    there = result.table.filter(pl.col("predicted_pct").is_not_null())
    if not there.height:
        raise style.FigureError("nothing to draw: no new row has a predicted score")
    row = there["row"][0] if row is None else row
    choice("row", row, there["row"].to_list(), style.FigureError, hint=False)
    lines = _lines(result, there)
    ranks = result.ranks.filter((pl.col("row") == row) & (pl.col("probability_pct") >= _LEAST_PCT))
    dimensions = result.dimensions.filter(pl.col("row") == row)
    parts: dict[str, Any] = {"scores": partial(_scores, lines=lines)}
    parts["dimensions"] = partial(_dimensions, table=dimensions)
    if ranks.height:
        parts["ranks"] = partial(_ranks, table=ranks)
    line = there.row(by_predicate=pl.col("row") == row, named=True)
    alone = ax is not None or panel is not None
    what = "Dimensions and ranks" if ranks.height else "Dimensions"
    note = f"{what}: {roster.short(row)}. {line['n_seen']} tests of {line['n_tasks']} tasks seen."
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 1.9 + _ROW_INCHES * max(len(lines), 12)),
        ncols=len(parts),
        names=[*there["model"], *result.beside["model"].unique(maintain_order=True)],
        notes=[note, result.caption],
        label_y=34,
        **({} if alone else {"width_ratios": [1.3, 1.0, 0.9][: len(parts)]}),
    )


def _lines(result: LiteScore, there: pl.DataFrame) -> list[dict[str, Any]]:
    """New and measured rows, the highest score first."""
    first = result.beside.filter(pl.col("row") == there["row"][0])
    measured = [{"name": r["study_row"], "pct": r["full_pct"], "new": False} for r in first.iter_rows(named=True)]
    predicted = [
        {"name": r["row"], "pct": r["predicted_pct"], "ends": (r["lo_pct"], r["hi_pct"]), "new": True}
        for r in there.iter_rows(named=True)
    ]
    return sorted([*measured, *predicted], key=lambda line: -line["pct"])


def _scores(ax: Axes, *, lines: list[dict[str, Any]]) -> None:
    panels.rows(ax, [roster.short(line["name"]) for line in lines])
    at = [(i, line) for i, line in enumerate(lines)]
    old = [(i, line) for i, line in at if not line["new"]]
    panels.points(ax, [line["pct"] for _, line in old], [i for i, _ in old], _MEASURED, "Measured", gid="measured")
    _intervals(ax, [(i, line["pct"], line["ends"]) for i, line in at if line["new"]], "Predicted")
    for text, line in zip(ax.get_yticklabels(), lines, strict=True):
        text.set_fontsize(6.3)
        if line["new"]:
            text.set_fontweight("bold")
    ax.set_xlabel("Full score (%)")
    panels.legend(ax, 2)
    panels.title(ax, "Score", legend_lines=1)


def _intervals(ax: Axes, marks: list[tuple[int, float, Any]], label: str) -> None:
    y, x, ends = [m[0] for m in marks], [m[1] for m in marks], [m[2] for m in marks]
    panels.bars(ax, x, y, ends, _NEW, along="x", ls="none", label=label)
    ax.plot(x, y, ls="none", marker="none", gid="predicted")


def _dimensions(ax: Axes, *, table: pl.DataFrame) -> None:
    panels.rows(ax, [roster.dimension(d) for d in table["dimension"]], width=24)
    marks = [
        (i, r["predicted_pct"], (r["lo_pct"], r["hi_pct"]))
        for i, r in enumerate(table.iter_rows(named=True))
        if r["predicted_pct"] is not None
    ]
    _intervals(ax, marks, "Predicted")
    ax.tick_params(axis="y", labelsize=6.3)
    ax.set_xlim(-3, 103)
    ax.set_xlabel("Dimension score (%)")
    panels.title(ax, "Dimensions", legend_lines=1)


def _ranks(ax: Axes, *, table: pl.DataFrame) -> None:
    ax.barh(table["rank"], table["probability_pct"], 0.72, color=_NEW.color, lw=0, zorder=2, gid="rank")
    low, high = int(table["rank"].min()), int(table["rank"].max())  # type: ignore[arg-type]
    step = max(1, (high - low) // 12)
    ax.set_yticks(range(low, high + 1, step))
    ax.set_ylim(high + 0.6, low - 0.6)
    ax.set_xlim(left=0)
    ax.set_ylabel("Rank among the study's rows")
    ax.set_xlabel("Probability (%)")
    panels.title(ax, "Rank", legend_lines=1)
