"""Judges and people: how often two raters choose the same label, by dimension.

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
from cilab.stats.judges.agreement import AgreementResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Drawn unless others are asked for: those of figure 10 and table 3.
_USUAL = ("referee × second", "people × final")
_WORDS = {
    "referee × second": "Referee and second rater",
    "referee × third": "Referee and third rater",
    "second × third": "Second and third rater",
    "people × final": "People and final label",
}
_MOST = 4
_ROW_INCHES = 0.14


def agreement(result: AgreementResult, *, ax: Axes | None = None, comparisons: Sequence[str] | None = None) -> Axes:
    """Draw raw agreement of raters by dimension, as figure 10 and table 3 of the collaborative-intelligence paper.

    All messages on top, then the groups from the least agreement of the first comparison on. The number of messages
    stands beside each mark.

    Parameters
    ----------
    result : what `cilab.agreement` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    comparisons : up to 4 of the result's, as `["referee × second", "people × final"]`, which is the default as far as
        they are there (else the first 4).

    Returns
    -------
    Axes
        One ErrorbarContainer per comparison, and a text with gid `n` per mark.

    Raises
    ------
    FigureError
        `result` is not an AgreementResult, or a comparison is not in it.
    """
    style.require(result, AgreementResult, "agreement")
    shown = _comparisons(result, comparisons)
    table = result.table.filter(pl.col("comparison").is_in(shown) & pl.col("raw").is_not_null())
    if not table.height:
        raise style.FigureError("nothing to draw: no agreement of these raters is defined")
    groups = _groups(table, shown[0])
    with style.context():
        rows = len(groups) * (len(shown) + 0.5)
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.5 + _ROW_INCHES * max(rows, 10))
        panels.rows(ax, ["All messages" if g == "all" else roster.dimension(g) for g in groups])
        for i, name in enumerate(shown):
            _series(ax, table.filter(pl.col("comparison") == name), name, groups, (i, len(shown)))
        low = min(v for c in ("raw", "raw_lo") for v in table[c].drop_nulls())
        ax.set_xlim(100 * max(0.0, min(low - 0.05, 0.5)), 110)
        ax.set_xticks([t for t in range(0, 101, 10) if t >= ax.get_xlim()[0]])
        if groups[0] == "all" and len(groups) > 1:
            ax.axhline(0.5, color="#404040", lw=0.7)
        ax.set_xlabel("Messages with the same label (%)")
        panels.legend(ax, 2)
        lines = -(-len(shown) // 2)
        panels.title(ax, "Judges and people", legend_lines=lines)
        style.mark_simulated(ax, result, (), y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            what = f"Lines: {percent(result.parameters['ci_level'])} intervals over {result.parameters['resample']}s."
            style.small_print(fig, result, f"{what} In brackets: number of messages.")
    return ax


def _comparisons(result: AgreementResult, wanted: Sequence[str] | None) -> list[str]:
    known = result.table["comparison"].unique(maintain_order=True).to_list()
    if wanted is None:
        usual = [name for name in _USUAL if name in known]
        return usual or known[:_MOST]
    names = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
    for name in names:
        if name not in known:
            raise style.FigureError(f"comparisons: there is no {name!r}.{nearest(str(name), known)}")
    if not 0 < len(names) <= _MOST:
        raise style.FigureError(f"comparisons: {len(names)} of them; a figure holds 1 to {_MOST}")
    return names


def _groups(table: pl.DataFrame, first: str) -> list[str]:
    """`all`, then the others by the first comparison; those without it last."""
    known = table["group"].unique(maintain_order=True).to_list()
    raw = dict(table.filter(pl.col("comparison") == first).select("group", "raw").rows())
    return sorted(known, key=lambda g: (g != "all", g not in raw, raw.get(g, 0.0), g))


def _series(ax: Axes, table: pl.DataFrame, name: str, groups: list[str], at: tuple[int, int]) -> None:
    i, n = at
    shift = 0.7 / n * (i - (n - 1) / 2)
    y = [groups.index(g) + shift for g in table["group"]]
    x = [100 * v for v in table["raw"]]
    ends = [(None, None) if lo is None else (100 * lo, 100 * hi) for lo, hi in table.select("raw_lo", "raw_hi").rows()]
    panels.bars(ax, x, y, ends, panels.SERIES[i], along="x", ls="none", label=_WORDS.get(name, name))
    for value, row, (_, hi), count in zip(x, y, ends, table["n"], strict=True):
        end = max(value, value if hi is None else hi)
        look = {"va": "center", "fontsize": 6.2, "color": "#505050", "gid": "n"}
        ax.annotate(f"({count:,})", (end, row), (5, 0), textcoords="offset points", **look)
