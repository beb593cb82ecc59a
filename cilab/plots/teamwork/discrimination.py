"""Signal items against their mirrors: hits against false alarms, and d' of each row.

May import `cilab.plots.parts.style`, `labels`, `panels`, `roster` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from cilab.plots.parts import labels, panels, roster, style
from cilab.stats.teamwork.discrimination import DiscriminationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARK = style.Mark("#0b559f", "o", 5.0, "#08306b")


def discrimination(result: DiscriminationResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw hits against false alarms, and d' of each row with its interval.

    Parameters
    ----------
    result : what `cilab.discrimination` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `rates` or `d_prime`; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        On the dashed line signals and mirrors are not told apart. An interval with one end only has an arrow.

    Raises
    ------
    FigureError
        `result` is not a DiscriminationResult, there is no such panel, or no row has both kinds of items.
    """
    style.require(result, DiscriminationResult, "discrimination")
    table = result.table.filter(pl.col("d_prime").is_not_null()).sort("d_prime", descending=True, maintain_order=True)
    parts = {"rates": partial(_rates, table=table), "d_prime": partial(_d_prime, table=table)} if table.height else {}
    missing = result.table.height - table.height
    notes = [
        "Letters in both panels name the rows. Dashed: signals and mirrors are not told apart; above and to the left "
        "is better. Arrows: the data bound d' from one side only."
    ]
    if few := table["no_interval"].drop_nulls().len():
        notes.append(f"{few} of them with too few independent units for an interval.")
    if missing:
        notes.append(f"{missing} rows without items of both kinds are not drawn.")
    drawn = panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, max(3.2, 1.4 + 0.2 * table.height)),
        ncols=2,
        names=table["model"].to_list(),
        notes=notes,
        label_y=12,
    )
    with style.context():
        labels.settle(drawn)
    return drawn


def _letter(i: int) -> str:
    """A to Z, then A2 and so on."""
    return chr(65 + i % 26) + ("" if i < 26 else str(1 + i // 26))


def _rates(ax: Axes, *, table: pl.DataFrame) -> None:
    ax.plot([0, 1], [0, 1], color="#808080", lw=0.8, ls=(0, (4, 2)), zorder=1, gid="chance")
    x, y = table["false_alarm_rate"].to_list(), table["hit_rate"].to_list()
    panels.points(ax, x, y, _MARK, "row", gid="row", clip_on=False)
    alike: dict[tuple[float, float], list[str]] = {}
    for i, at in enumerate(zip(x, y, strict=True)):
        alike.setdefault(at, []).append(_letter(i))
    for at, letters in alike.items():
        labels.add(ax, *at, ", ".join(letters))
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel("False alarms (acts on mirrors)")
    ax.set_ylabel("Hits (acts on signals)")
    panels.title(ax, "Hits and false alarms")


def _d_prime(ax: Axes, *, table: pl.DataFrame) -> None:
    at = list(range(table.height))
    ends = list(zip(table["d_prime_lo"], table["d_prime_hi"], strict=True))
    panels.bars(ax, table["d_prime"].to_list(), at, ends, _MARK, along="x", gid="row")
    for i, (value, (lo, hi)) in enumerate(zip(table["d_prime"], ends, strict=True)):
        if (lo is None) != (hi is None):
            # The known end is a line, the open one an arrow.
            known, side = (lo, 1) if hi is None else (hi, -1)
            ax.plot([known, value], [i, i], color=_MARK.edge, lw=1.0, zorder=2, gid="known end")
            look = {"arrowstyle": "->", "color": _MARK.edge, "lw": 1.0}
            ax.annotate("", (value + 0.45 * side, i), (value, i), arrowprops=look)
            ax.plot([value + 0.5 * side], [i], alpha=0)  # room for the arrow
    names = [f"{_letter(i)}  {name}" for i, name in enumerate(roster.full_names(table))]
    panels.rows(ax, names, width=style.NARROW)
    ax.axvline(0, color="#808080", lw=0.8, ls=(0, (4, 2)), zorder=1, gid="chance")
    ax.set_xlabel("d' (standard deviations)")
    panels.title(ax, "d' of each row")
