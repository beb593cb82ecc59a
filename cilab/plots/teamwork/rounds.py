"""Rounds over time: public against held-out tasks, drift between dates, scores on an older scale, chances over k runs.

May import `cilab.plots.parts.style`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.contamination import Contamination
from cilab.stats.teamwork.drift import Drift
from cilab.stats.teamwork.equate import ANCHOR, Equated
from cilab.stats.teamwork.passes import PassHatK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FILLED = style.Mark("#0b559f", "o", 4.6, "#08306b")
_OPEN = style.Mark("white", "D", 4.2, "#7a3000")
_GREY = style.Mark("#b0b0b0", "s", 4.0, "#606060")
_WRONG = style.Mark("#e69f00", "X", 5.6, "#7a5400")
_ROW_INCHES = 0.19
_SIGNIFICANT = 0.05
#: Panels of one row each beside the names of the rows.
_MARGIN = 1.9


def contamination(result: Contamination, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw every row's public less held-out score, and what of it is beyond the other rows' difference.

    Parameters
    ----------
    result : what `cilab.contamination` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `difference` or `beyond`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        One ErrorbarContainer `interval` a panel; open marks where p, corrected over rows, is below 0.05.

    Raises
    ------
    FigureError
        `result` is of another kind, no row has a difference, or there is no such panel.
    """
    style.require(result, Contamination, "contamination")
    table = result.table.filter(pl.col("diff_points").is_not_null())
    parts = {
        "difference": partial(
            _differences,
            table=table,
            columns=("diff_points", "lo_points", "hi_points", "p_holm"),
            label="Public \N{MINUS SIGN} held out (points)",
            title="Difference",
        ),
        "beyond": partial(
            _differences,
            table=table,
            columns=("beyond_points", "beyond_lo_points", "beyond_hi_points", "beyond_p_holm"),
            label="Less the mean of the other rows (points)",
            title="Beyond other rows",
            names=ax is not None or panel is not None,
        ),
    }
    if not table["beyond_points"].count():
        parts.pop("beyond")
    level = percent(result.parameters["ci_level"])
    return panels.compose(
        result,
        parts if table.height else {},
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, _MARGIN + _ROW_INCHES * max(table.height, 4)),
        ncols=2,
        names=table["model"].to_list(),
        notes=[f"{level} intervals over tasks. Open diamonds: p < 0.05, corrected over rows (Holm)."],
        label_y=22,
    )


def drift(result: Drift, *, ax: Axes | None = None) -> Axes | Figure:
    """Draw how every row's score on the same tasks differs between its old and its new period.

    Parameters
    ----------
    result : what `cilab.drift` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        One ErrorbarContainer `interval`; open marks where p, corrected over rows, is below 0.05.

    Raises
    ------
    FigureError
        `result` is of another kind, or no row has two periods.
    """
    style.require(result, Drift, "drift")
    there = pl.col("diff_points").is_not_null()
    table = result.table.filter(there).sort("diff_points", "row", descending=[True, False])
    spans = table.select("old", "new").unique(maintain_order=True).rows()
    when = f"{spans[0][1]} less {spans[0][0]}" if len(spans) == 1 else "each row's new period less its old one"
    part = partial(
        _differences,
        table=table,
        columns=("diff_points", "lo_points", "hi_points", "p_holm"),
        label="New \N{MINUS SIGN} old (points)",
        title="Drift between dates",
    )
    level = percent(result.parameters["ci_level"])
    return panels.compose(
        result,
        {"drift": part} if table.height else {},
        ax=ax,
        panel="drift" if table.height else None,
        size=(style.PAGE_WIDTH, _MARGIN + _ROW_INCHES * max(table.height, 4)),
        ncols=1,
        names=table["model"].to_list(),
        notes=[
            f"Same tasks, {when}; {level} intervals over tasks. Open diamonds: p < 0.05, corrected over rows (Holm)."
        ],
        label_y=22,
    )


def _differences(
    ax: Axes, *, table: pl.DataFrame, columns: Sequence[str], label: str, title: str, names: bool = True
) -> None:
    value, lo, hi, p = columns
    shown = roster.full_names(table) if names else [""] * table.height
    panels.rows(ax, [roster.short(name) for name in shown])
    ax.tick_params(axis="y", labelsize=6.6)
    ax.axvline(0, color="#404040", lw=0.8, zorder=1)
    there = [(i, r) for i, r in enumerate(table.iter_rows(named=True)) if r[value] is not None]
    y, x = [i for i, _ in there], [r[value] for _, r in there]
    ends = [(r[lo], r[hi]) for _, r in there]
    look: dict[str, Any] = {"along": "x", "ls": "none", "label": "interval", "ecolor": "#606060"}
    panels.bars(ax, x, y, ends, style.Mark("#606060", "none", 0, "#606060"), **look)
    for mark, gid, which in ((_FILLED, "not significant", False), (_OPEN, "significant", True)):
        some = [(i, r[value]) for i, r in there if (r[p] is not None and r[p] < _SIGNIFICANT) is which]
        if some:
            panels.points(ax, [v for _, v in some], [i for i, _ in some], mark, "_" + gid, gid=gid, zorder=4)
    ax.set_xlabel(label)
    panels.title(ax, title)


def equate(result: Equated, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw the scores of a new round as measured and on the old scale, and the anchors' difficulties in both.

    Parameters
    ----------
    result : what `cilab.equate` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `scores`, or `anchors` (where the link is through tasks); None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Blue circles with intervals are on the old scale, open diamonds as measured in the new round, grey squares as
        measured in the old one. Of the anchors, crosses have drifted.

    Raises
    ------
    FigureError
        `result` is of another kind, no row is equated, or there is no such panel.
    """
    style.require(result, Equated, "equate")
    table = result.table.filter(pl.col("equated_pct").is_not_null())
    anchors = result.anchors.filter((pl.col("what") == ANCHOR) & pl.col("linked_difficulty").is_not_null())
    parts: dict[str, Any] = {"scores": partial(_equated, table=table)} if table.height else {}
    if anchors.height and result.parameters["through"] == "tasks":
        parts["anchors"] = partial(_anchors, table=anchors)
    level = percent(result.parameters["ci_level"])
    alone = ax is not None or panel is not None
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, max(3.6, _MARGIN + _ROW_INCHES * table.height)),
        ncols=max(1, len(parts)),
        names=table["model"].to_list(),
        notes=[
            f"{level} intervals over tasks with the error of linking. Anchors: difficulties in logits, the new ones "
            f"brought to the old scale; crosses: robust z of {result.parameters['drifting_z']:g} or more."
        ],
        label_y=34,
        **({} if alone else {"width_ratios": [1.25, 1.0][: len(parts)]}),
    )


def _equated(ax: Axes, *, table: pl.DataFrame) -> None:
    panels.rows(ax, [roster.short(name) for name in table["row"]])
    ax.tick_params(axis="y", labelsize=6.6)
    y = list(range(table.height))
    panels.points(ax, table["new_pct"].to_list(), [i - 0.18 for i in y], _OPEN, "New round", gid="new")
    before = [(i, v) for i, v in enumerate(table["old_pct"]) if v is not None]
    if before:
        panels.points(ax, [v for _, v in before], [i + 0.18 for i, _ in before], _GREY, "Old round", gid="old")
    ends = table.select("lo_pct", "hi_pct").rows()
    panels.bars(ax, table["equated_pct"].to_list(), y, ends, _FILLED, along="x", ls="none", label="On the old scale")
    ax.set_xlabel("Score (%)")
    panels.legend(ax, 3)
    panels.title(ax, "Scores", legend_lines=1)


def _anchors(ax: Axes, *, table: pl.DataFrame) -> None:
    wrong = pl.col("drifting").fill_null(False)
    for name, mark, of in (("Anchor", _FILLED, ~wrong), ("Drifting", _WRONG, wrong)):
        some = table.filter(of)
        if some.height:
            x, y = some["old_difficulty"].to_list(), some["linked_difficulty"].to_list()
            panels.points(ax, x, y, mark, name, gid=name.lower(), alpha=0.85)
    panels.equal_scales(ax)
    ax.set_xlabel("Difficulty, old round")
    ax.set_ylabel("Difficulty, new round")
    panels.legend(ax, 2)
    panels.title(ax, "Anchor tasks", legend_lines=1)


def pass_hat_k(result: PassHatK, *, ax: Axes | None = None, k: int | None = None) -> Axes | Figure:
    """Draw for every row the chances that all of k runs pass, that one does, and that any of k does.

    Parameters
    ----------
    result : what `cilab.pass_hat_k` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    k : which k; None takes the largest at which a row has a chance.

    Returns
    -------
    Axes
        Blue circles with intervals: all pass; diamonds: the mean of single runs (k = 1, where the result has it); grey
        squares: any passes.

    Raises
    ------
    FigureError
        `result` is of another kind, no row has a chance, or there is no such k.
    """
    style.require(result, PassHatK, "pass_hat_k")
    there = result.table.filter(pl.col("pass_hat_pct").is_not_null())
    ks = there["k"].unique().sort().to_list()
    if not ks:
        raise style.FigureError("nothing to draw: no row has a chance over k runs")
    k = ks[-1] if k is None else k
    if k not in ks:
        raise style.FigureError(f"k is {k}, not one of {', '.join(map(str, ks))}")
    table = there.filter(pl.col("k") == k)
    single = there.filter(pl.col("k") == 1) if k > 1 else there.clear()
    return panels.compose(
        result,
        {"pass_hat_k": partial(_chances, table=table, single=single, k=k)},
        ax=ax,
        panel="pass_hat_k",
        size=(style.PAGE_WIDTH, _MARGIN + _ROW_INCHES * max(table.height, 4)),
        ncols=1,
        names=table["model"].to_list(),
        notes=[f"Bars: {percent(result.parameters['ci_level'])} intervals over tasks. A run passes with score 1."],
        label_y=34,
    )


def _chances(ax: Axes, *, table: pl.DataFrame, single: pl.DataFrame, k: int) -> None:
    names = roster.full_names(table)
    panels.rows(ax, [roster.short(name) for name in names])
    ax.tick_params(axis="y", labelsize=6.6)
    y = list(range(table.height))
    for i, (low, high) in enumerate(table.select("pass_hat_pct", "pass_at_pct").iter_rows()):
        ax.plot([low, high], [i, i], color="#d0d0d0", lw=1.4, zorder=1.5)
    if k > 1:
        panels.points(ax, table["pass_at_pct"].to_list(), y, _GREY, f"Any of {k} passes", gid="any")
        keys = table.select("model", "effort", "arm").rows()
        own = {(r["model"], r["effort"], r["arm"]): r["pass_hat_pct"] for r in single.iter_rows(named=True)}
        one = [(i, own[key]) for i, key in enumerate(keys) if key in own]
        if one:
            panels.points(ax, [v for _, v in one], [i for i, _ in one], _OPEN, "One run passes", gid="one")
    ends = table.select("lo_pct", "hi_pct").rows()
    label = f"All of {k} pass" if k > 1 else "One run passes"
    panels.bars(ax, table["pass_hat_pct"].to_list(), y, ends, _FILLED, along="x", ls="none", label=label)
    ax.set_xlim(-2, 102)
    ax.set_xlabel("Chance (%)")
    panels.legend(ax, 3)
    panels.title(ax, f"Chances over {k} run{'s' * (k > 1)} of a task", legend_lines=1)
