"""Variance components of scores, and what more tasks, seeds or judges would buy.

May import `cilab.plots.parts.style`, `panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, style
from cilab.results.numbers import number, percent
from cilab.stats.teamwork.variance_components import WORDS, VarianceComponents

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR, _EDGE = "#5b9bd0", "#08306b"
#: Curves of the D study: panel -> column, words of the axis, title.
_CURVES = {
    "score": ("se_score_points", "Points", "Standard error of a score"),
    "difference": ("se_difference_points", "Points", "Standard error of a difference"),
    "dependability": ("dependability", "Dependability (phi)", "Dependability"),
}
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))


def variance_components(
    result: VarianceComponents, *, ax: Axes | None = None, panel: str | None = None
) -> Axes | Figure:
    """Draw the share of each component, and the D study against the number of tasks.

    Parameters
    ----------
    result : what `cilab.variance_components` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `components`, `score`, `difference` or `dependability`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Bars with intervals where there are any, `components`; else one line per number of seeds (and judges). Panels
        without a number are left out: one row has neither differences nor dependability.

    Raises
    ------
    FigureError
        `result` is not a VarianceComponents, or there is no such panel.
    """
    style.require(result, VarianceComponents, "variance_components")
    known = result.table.filter(pl.col("share_pct").is_not_null())
    parts: dict[str, Callable[[Axes], None]] = {}
    if known.height:
        parts["components"] = partial(_bars, table=known)
    whole = ax is None and panel is None
    lines = result.d_study.select("seeds", "judges").unique(maintain_order=True).rows()
    first = next((name for name in _CURVES if result.d_study[_CURVES[name][0]].null_count() == 0), None)
    for name, (column, words, title) in _CURVES.items():
        if result.d_study.height and result.d_study[column].null_count() == 0:
            look: dict[str, Any] = {"column": column, "words": words, "title": title, "lines": lines}
            parts[name] = partial(_curves, table=result.d_study, legend=not whole or name == first, **look)
    ci = percent(result.parameters["ci_level"])
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 2.9 * -(-len(parts) // 2)),
        ncols=2,
        notes=[
            f"Bars: share of the variance of scores with its {ci} interval. Curves: a row's overall score over "
            "new tasks, dimensions fixed; compared rows play the same tasks."
        ],
        label_y=23,
    )


def _bars(ax: Axes, *, table: pl.DataFrame) -> None:
    names = [WORDS[c].split(" (")[0].split(",")[0] for c in table["component"]]
    panels.rows(ax, names)
    shares = table["share_pct"].to_list()
    ax.barh(range(len(names)), shares, height=0.62, color=_BAR, lw=0, zorder=2, label="share")
    ends = table.select("share_lo_pct", "share_hi_pct").rows()
    there = [i for i, (lo, _) in enumerate(ends) if lo is not None]
    if there:
        mark = style.Mark(_EDGE, "|", 0.1, _EDGE)
        x, kept = [shares[i] for i in there], [ends[i] for i in there]
        panels.halo(panels.bars(ax, x, there, kept, mark, along="x", label="components", ls="none", zorder=4))
    for i, (share, (_, hi)) in enumerate(zip(shares, ends, strict=True)):
        at = max(share, hi or 0)
        ax.annotate(
            number(share), (at, i), xytext=(3, 0), textcoords="offset points", va="center", fontsize=6.5, gid="share"
        )
    ax.set_xlim(0, 1.18 * max([*shares, *(hi for _, hi in ends if hi is not None)]))
    ax.set_xlabel("Share of the variance (%)")
    panels.title(ax, "Components")


def _curves(
    ax: Axes, *, table: pl.DataFrame, column: str, words: str, title: str, lines: list[Any], legend: bool
) -> None:
    for i, (seeds, judges) in enumerate(lines):
        part = table.filter((pl.col("seeds") == seeds) & pl.col("judges").eq_missing(pl.lit(judges, pl.Int64)))
        part = part.sort("tasks_per_dimension")
        mark = panels.SERIES[i % len(panels.SERIES)]
        look: dict[str, Any] = {
            "marker": mark.marker,
            "ms": mark.size - 0.6,
            "mfc": mark.color,
            "mec": mark.edge,
            "mew": 0.5,
        }
        label = f"{seeds} seed{'s' if seeds > 1 else ''}"
        label += "" if judges is None else f", {judges} judge{'s' if judges > 1 else ''}"
        x, y = part["tasks_per_dimension"].to_list(), part[column].to_list()
        ax.plot(x, y, color=mark.edge, lw=1.0, ls=_DASHES[(i + i // 8) % len(_DASHES)], label=label, zorder=3, **look)
    ax.set_xlim(0, None)
    ax.set_ylim(*((None, 1.0) if column == "dependability" else (0, None)))
    ax.grid(axis="y")
    ax.set_xlabel("Tasks a dimension")
    ax.set_ylabel(words)
    if legend:
        place: Any = "lower right" if column == "dependability" else "upper right"
        ax.legend(loc=place, fontsize=6.5)
    panels.title(ax, title)
