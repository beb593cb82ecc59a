"""Where tasks come from: real-world records against benchmark-built tasks, and scores by source.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.names import model_of
from cilab.results.numbers import Interval
from cilab.stats.teamwork.sources import SourcesResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: real_world -> colour, hatch, words of its bars.
_KINDS = {
    True: ("#1b9e8a", None, "Real world"),
    False: ("#6c7a89", "////", "Benchmark"),
    None: ("#d0d0d0", None, "Unknown kind"),
}


def sources(
    result: SourcesResult, *, ax: Axes | None = None, panel: str | None = None, facts: Any = None
) -> Axes | Figure:
    """Draw scores by the source of the tasks, as figure 12 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.sources` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `rows` (each row's score on real-world against benchmark-built tasks) or `families` (mean test value by
        source, over all models as bars and over frontier models as diamonds); None takes the first with `ax`, and all
        without.
    facts : which weights are open, as in `leaderboard`.

    Returns
    -------
    Axes or Figure
        In `rows` one line with a label per kind of model and one with gid `equal`; in `families` a bar per source, an
        ErrorbarContainer `interval`, a line `Frontier`, and a text with gid `value` per bar.

    Raises
    ------
    FigureError
        `result` is not a SourcesResult, or there is no such panel.
    """
    style.require(result, SourcesResult, "sources")
    rows = result.rows.drop_nulls()
    names = [model_of(row) for row in rows["row"]]
    parts: dict[str, Any] = {}
    if rows.height:
        parts["rows"] = partial(_rows, result=result, rows=rows, of=roster.looks(names, facts))
    if result.table["mean_value_pct"].drop_nulls().len():
        parts["families"] = partial(_families, table=result.table.drop_nulls("mean_value_pct"))
    n = len(result.dimensions)
    over = f"Score of each row: mean of the {n} dimensions that have both kinds. " if n else ""
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 3.5),
        ncols=2,
        names=names,
        notes=[
            f"{over}r: interval over rows. Gap: points that benchmark-built tasks are harder, interval over tasks.",
            "By source: mean of the models at the default setting, at the right as a number; in brackets the tasks; "
            "diamonds: frontier models.",
        ],
        label_y=36,
        **({"width_ratios": [1, 1.15]} if len(parts) == 2 else {}),
    )


def _rows(ax: Axes, *, result: SourcesResult, rows: pl.DataFrame, of: dict[str, roster.Look]) -> None:
    is_open = pl.Series([bool(of[model_of(row)].open_weights) for row in rows["row"]], dtype=pl.Boolean)
    for part, mark, label in (
        (rows.filter(~is_open), panels.SERIES[0], "Others" if is_open.any() else "Rows"),
        (rows.filter(is_open), panels.SERIES[1], "Open weights"),
    ):
        if part.height:
            panels.points(ax, part["benchmark_pct"], part["real_world_pct"], mark, label)
    panels.equal_scales(ax)
    ax.set_xlabel("Benchmark-built tasks (%)")
    ax.set_ylabel("Real-world records (%)")
    panels.corner(ax, "\n".join(_words(result)), place="upper left")
    panels.legend(ax, 2)
    panels.title(ax, "Score of each row", legend_lines=1)


def _words(result: SourcesResult) -> list[str]:
    lines = {r["quantity"]: r for r in result.summary.iter_rows(named=True) if r["value"] is not None}
    out = []
    wanted = (("pearson_r_over_rows", "r", 2), ("kendall_tau_b", "τ", 2), ("benchmark_harder_points", "gap", 1))
    for name, word, digits in wanted:
        if name in lines:
            row = lines[name]
            out.append(f"{word} = {Interval.of(row, 'value', 'lo', 'hi', digits=digits).with_span()}")
    return out


def _families(ax: Axes, *, table: pl.DataFrame) -> None:
    names = [f"{roster.words(f or 'unknown')} ({n})" for f, n in table.select("source_family", "n_tasks").rows()]
    panels.rows(ax, names)
    for kind, (color, hatch, words) in _KINDS.items():
        at = [i for i, real in enumerate(table["real_world"]) if real is kind]
        if at:
            values = [table["mean_value_pct"][i] for i in at]
            ax.barh(at, values, 0.62, color=color, hatch=hatch, ec="white", lw=0, label=words, zorder=2)
    x, ends = table["mean_value_pct"].to_list(), table.select("lo_pct", "hi_pct").rows()
    plain = style.Mark("#202020", "none", 0, "#202020")
    panels.halo(panels.bars(ax, x, range(table.height), ends, plain, along="x", ls="none", label="_interval"))
    there = [(v, i) for i, v in enumerate(table["frontier_pct"]) if v is not None]
    if there:
        look = {"marker": "D", "ms": 4.6, "mfc": "white", "mec": "#202020", "mew": 0.9, "ls": "none"}
        ax.plot(*zip(*there, strict=True), label="Frontier", zorder=5, **look)
    for i, value in enumerate(x):
        look = {"va": "center", "ha": "left", "fontsize": 6.8, "gid": "value"}
        ax.text(1.02, i, f"{value:.0f}", transform=ax.get_yaxis_transform(), **look)
    ax.set_xlim(0, 100)
    ax.set_xlabel("Mean test value (%)")
    ax.legend(loc="lower right", bbox_to_anchor=(1.1, 1), borderaxespad=0.4, ncols=3, columnspacing=0.9)
    panels.title(ax, "By source", legend_lines=1)
