"""Inherited misconduct that survives a takeover, by kind, by group of models and by arm.

May import `cilab.plots.parts.style`, `panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.takeover import ALL_KINDS, Takeover

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EVERYONE = "all"


def takeover(result: Takeover, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw the share of takeovers at whose end the inherited problem is still there.

    Parameters
    ----------
    result : what `cilab.takeover` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `kinds` (of the inherited problem, over all models), `groups` (of models, over all kinds) or `arms` (each
        arm against another on the same models and tasks); None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        In `kinds` and `groups` one ErrorbarContainer per arm, its label the arm's name, and beside every mark the
        number of runs (gid `n`).

    Raises
    ------
    FigureError
        `result` is not a Takeover, or there is no such panel.
    """
    style.require(result, Takeover, "takeover")
    shown = result.table.filter(pl.col("carried_share_pct").is_not_null())
    kinds = shown.filter(pl.col("group") == _EVERYONE)
    groups = shown.filter(pl.col("kind") == ALL_KINDS)
    marks = dict(zip(shown["arm"].unique(maintain_order=True), panels.SERIES, strict=False))
    parts = {}
    if kinds.height:
        words = {ALL_KINDS: "All kinds"}
        parts["kinds"] = partial(_shares, table=kinds, of="kind", words=words, marks=marks, heading="Inherited problem")
    if groups["group"].n_unique() > 1:
        words = {_EVERYONE: "All models"}
        parts["groups"] = partial(_shares, table=groups, of="group", words=words, marks=marks, heading="Models")
    if result.differences.height:
        parts["arms"] = partial(_differences, table=result.differences)
    longest = max(3, kinds["kind"].n_unique(), groups["group"].n_unique()) * max(1, 0.6 * len(marks))
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, (1.45 + 0.36 * longest) * (2 if len(parts) > 2 else 1)),
        ncols=2,
        notes=[
            "Beside each mark: runs that carry it, of those of which it is known. "
            f"Bars: {percent(result.parameters['ci_level'])} intervals over tasks."
        ],
        label_y=36,
    )


def _shares(
    ax: Axes,
    *,
    table: pl.DataFrame,
    of: str,
    words: Mapping[str, str],
    marks: Mapping[str, style.Mark],
    heading: str,
) -> None:
    names = table[of].unique(maintain_order=True).to_list()
    panels.rows(ax, [words.get(name, _words(name)) for name in names])
    for i, (arm, mark) in enumerate(marks.items()):
        part = table.filter(pl.col("arm") == arm)
        if not part.height:
            continue
        rows = [names.index(name) + _dodge(i, len(marks)) for name in part[of]]
        ends = part.select("carried_lo_pct", "carried_hi_pct").rows()
        panels.bars(ax, part["carried_share_pct"].to_list(), rows, ends, mark, along="x", ls="none", label=arm)
        for y, row in zip(rows, part.iter_rows(named=True), strict=True):
            text = f"{row['n_carried']:,}/{row['n_runs'] - row['n_unknown']:,}"
            # At the right edge, where no interval reaches.
            ax.text(1.02, y, text, transform=ax.get_yaxis_transform(), va="center", fontsize=6, gid="n")
    right = table.select(pl.max_horizontal("carried_share_pct", "carried_hi_pct").max()).item()
    ax.set_xlim(0, min(100.0, 10 * (right // 10 + 1)) + 0.5)
    ax.set_xlabel("Runs that carry the problem (%)")
    if len(marks) > 1:
        panels.legend(ax, len(marks))
    panels.title(ax, heading, legend_lines=1)


def _words(name: str) -> str:
    return name.replace("_", " ").replace(", ", ",\n").capitalize()


def _dodge(i: int, n: int) -> float:
    """Where the i-th of n arms stands in its row."""
    return 0.0 if n == 1 else 0.5 * (i / (n - 1) - 0.5)


def _differences(ax: Axes, *, table: pl.DataFrame) -> None:
    names = [_pair(row, table) for row in table.iter_rows(named=True)]
    panels.rows(ax, names)
    ax.axvline(0, color="#404040", lw=0.8, zorder=1)
    ends = table.select("lo_points", "hi_points").rows()
    y = list(range(table.height))
    panels.bars(ax, table["diff_points"].to_list(), y, ends, panels.SERIES[4], along="x", ls="none", label="Difference")
    arms = table.select("arm", "other").unique().rows()
    what = f"{arms[0][0]} \N{MINUS SIGN} {arms[0][1]}" if len(arms) == 1 else "difference"
    ax.set_xlabel(f"Carried: {what} (points)")
    panels.title(ax, "Arm against arm", legend_lines=1)


def _pair(row: Mapping[str, object], table: pl.DataFrame) -> str:
    kind = "All kinds" if row["kind"] == ALL_KINDS else _words(str(row["kind"]))
    pairs: Sequence[object] = table.select("arm", "other").unique().rows()
    return f"{kind}:\n{row['arm']} \N{MINUS SIGN} {row['other']}" if len(pairs) > 1 else kind
