"""Failure modes: what share of test runs fails in which way.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from cilab.core.errors import nearest
from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.failures import GAVE_IN, MISSED, NO_RULE, STOPPED, FailureModes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STAGES = (MISSED, GAVE_IN, STOPPED)
_MOST = 4
_BAR_INCHES = 0.1
#: Characters that the legend over the narrow axes takes.
_LEGEND_ROOM = 75


def failures(result: FailureModes, *, ax: Axes | None = None, who: Sequence[str] | None = None) -> Axes:
    """Draw the share of test runs that fail in each mode, as figure 5 of the collaborative-intelligence paper.

    Modes stand under their stage (missed it, gave in, stopped short), the most frequent of the first series on top.

    Parameters
    ----------
    result : what `cilab.failures` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    who : up to 4 models, groups or dimensions of `result.table`, one series of bars each, as `["frontier", "gpt-5"]`.
        None draws the groups, or all models together where there are none.

    Returns
    -------
    Axes
        Per series a BarContainer with its name as label, and an ErrorbarContainer of the same label.

    Raises
    ------
    FigureError
        `result` is not a FailureModes, a name in `who` is not in it, or there are more than 4.
    """
    style.require(result, FailureModes, "failures")
    shown = _who(result, who)
    table = result.table.filter(pl.col("name").is_in(shown))
    modes = _modes(table, shown[0])
    at, heads = _places(modes)
    with style.context():
        rows = len(modes) * (len(shown) + 1) + 2 * len(heads)
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.5 + _BAR_INCHES * max(rows, 20))
        words = _labels(result.table, shown)
        for i, (name, look) in enumerate(zip(shown, roster.group_looks(shown), strict=True)):
            _series(ax, table.filter(pl.col("name") == name), (i, len(shown)), look, at, words[i])
        _frame(ax, at, heads)
        columns = style.legend_columns(words, _MOST, _LEGEND_ROOM)
        lines = -(-len(words) // columns)
        panels.legend(ax, columns)
        panels.title(ax, "How test runs fail", legend_lines=lines)
        models = result.table.filter(pl.col("by") == "model")["name"]
        style.mark_simulated(ax, result, models, y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            style.small_print(fig, result, _note(result))
    return ax


def _who(result: FailureModes, who: Sequence[str] | None) -> list[str]:
    known = result.table["name"].unique(maintain_order=True).to_list()
    if who is None:
        groups = result.table.filter(pl.col("by") == "group")["name"].unique(maintain_order=True).to_list()
        return groups[:_MOST] or ["all"]
    names = [who] if isinstance(who, str) else list(dict.fromkeys(who))
    for name in names:
        if name not in known:
            raise style.FigureError(f"who: no failures of {name!r}.{nearest(str(name), known)}")
    if not 0 < len(names) <= _MOST:
        raise style.FigureError(f"who: {len(names)} names; a figure holds 1 to {_MOST}")
    return names


def _modes(table: pl.DataFrame, first: str) -> list[tuple[str, str]]:
    """(stage, mode) in the order of drawing; runs that no rule fits only where there are some."""
    one = table.filter(pl.col("name") == first).sort("of_tests_share_pct", descending=True, nulls_last=True)
    pairs = one.select("stage", "mode").rows()
    stages = [*_STAGES, *dict.fromkeys(s for s, _ in pairs if s not in (*_STAGES, NO_RULE))]
    if table.filter(pl.col("stage") == NO_RULE)["n"].sum():
        stages.append(NO_RULE)
    return [pair for stage in stages for pair in pairs if pair[0] == stage]


def _places(modes: Sequence[tuple[str, str]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mode -> row, stage -> row of its heading."""
    at: dict[str, float] = {}
    heads: dict[str, float] = {}
    y = 0.0
    for stage, mode in modes:
        if stage not in heads and stage != mode:
            y += 0.1 if heads else 0.0
            heads[stage] = y
            y += 0.8
        at[mode] = y
        y += 1.0
    return at, heads


def _labels(table: pl.DataFrame, shown: Sequence[str]) -> list[str]:
    """Names of models as they are, of groups and dimensions in words."""
    models = {name for name, by in table.select("name", "by").rows() if by == "model"}
    return style.brief([name if name in models else roster.words(name) for name in shown])


def _series(
    ax: Axes,
    table: pl.DataFrame,
    which: tuple[int, int],
    look: tuple[str, str | None],
    at: dict[str, float],
    label: str,
) -> None:
    i, n = which
    rows = [r for r in table.iter_rows(named=True) if r["mode"] in at and r["of_tests_share_pct"] is not None]
    height = 0.82 / n
    y = [at[r["mode"]] + height * (i - (n - 1) / 2) for r in rows]
    x = [r["of_tests_share_pct"] for r in rows]
    color, hatch = look
    ax.barh(y, x, height * 0.92, color=color, hatch=hatch, ec="white", lw=0, label=label, zorder=2)
    ends = [(r["of_tests_lo_pct"], r["of_tests_hi_pct"]) for r in rows]
    plain = style.Mark("#202020", "none", 0, "#202020")
    panels.halo(panels.bars(ax, x, y, ends, plain, along="x", ls="none", elinewidth=0.8))


def _frame(ax: Axes, at: dict[str, float], heads: dict[str, float]) -> None:
    ax.set_yticks(list(at.values()), [mode[:1].upper() + mode[1:] for mode in at])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(at.values()) + 0.6, -0.5)
    ax.set_xlim(left=0)
    ax.grid(axis="x")
    for stage, y in heads.items():
        words = stage[:1].upper() + stage[1:]
        look = {"fontweight": "bold", "fontsize": 7.5, "ha": "right", "va": "center", "gid": "stage"}
        ax.annotate(words, (0, y), (-4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", **look)
    ax.set_xlabel("Share of test runs (%)")


def _note(result: FailureModes) -> str:
    level = f"Lines: {percent(result.parameters['ci_level'])} intervals over tasks."
    of_runs = style.gated(result, "the test runs on tasks that the model solves alone", "all test runs")
    return f"{level} Of {of_runs}; a run that fails has one mode."
