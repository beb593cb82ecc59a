"""People beside models: what share did the right thing on the same tasks.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.numbers import percent
from cilab.stats.teamwork.people import ALL_MODELS, People

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colour, hatch and word of people, and words of the usual groups of models.
_PEOPLE = ("#808080", "xxxx", "People")
_WORDS = {
    "frontier": "Frontier models",
    "closed, not frontier": "Other closed models",
    "open-weight": "Open-weight models",
    ALL_MODELS: "All models",
}
_MOST = 4
_BAR_INCHES = 0.15


def people(result: People, *, ax: Axes | None = None) -> Axes:
    """Draw people and groups of models on the same tasks, as figure 7 of the collaborative-intelligence paper.

    One block per task, that with the most capable people on top. People have the interval of their share where their
    number is known; models have a line from the worst to the best single model.

    Parameters
    ----------
    result : what `cilab.people` returned.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.

    Returns
    -------
    Axes
        A BarContainer `People` and one per group of models, and a text with gid `value` per bar.

    Raises
    ------
    FigureError
        `result` is not a People, no task has both people and models, or there are more than 4 groups.
    """
    style.require(result, People, "people")
    both = pl.col("people_pct").is_not_null() & pl.col("models_pct").is_not_null()
    table = result.table.filter(both).sort("people_pct", descending=True, maintain_order=True)
    if not table.height:
        raise style.FigureError("nothing to draw: no task has both a share of people and runs of models")
    tasks = table["task"].unique(maintain_order=True).to_list()
    groups = _groups(table)
    if len(groups) > _MOST:
        raise style.FigureError(f"people: {len(groups)} groups of models; a figure holds {_MOST}")
    with style.context():
        rows = len(tasks) * (len(groups) + 2)
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 1.5 + _BAR_INCHES * max(rows, 8))
        _draw(ax, table, tasks, groups)
        _frame(ax, table, tasks)
        panels.legend(ax, 2)
        lines = -(-(len(groups) + 1) // 2)
        panels.title(ax, "People beside models", legend_lines=lines)
        style.mark_simulated(ax, result, result.by_model["model"].unique(), y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            style.small_print(fig, result, *_notes(result, tasks))
    return ax


def _groups(table: pl.DataFrame) -> list[str]:
    """Groups of models; all together only where there is no group."""
    found = table["group"].unique(maintain_order=True).to_list()
    return [g for g in found if g != ALL_MODELS] or found


def _draw(ax: Axes, table: pl.DataFrame, tasks: list[str], groups: list[str]) -> None:
    n = len(groups) + 1
    height = 0.84 / n
    first = table.unique("task", keep="first", maintain_order=True)
    ends = first.select("people_lo_pct", "people_hi_pct").rows()
    _bars(ax, first["task"], tasks, first["people_pct"], ends, _PEOPLE, -height * (n - 1) / 2, height)
    for i, (group, colors) in enumerate(zip(groups, roster.group_looks(groups), strict=True), 1):
        own = table.filter(pl.col("group") == group)
        look = (*colors, _WORDS.get(group, group))
        ends = own.select("min_pct", "max_pct").rows()
        _bars(ax, own["task"], tasks, own["models_pct"], ends, look, height * (i - (n - 1) / 2), height)


def _bars(
    ax: Axes, of: pl.Series, tasks: list[str], x: pl.Series, ends: Any, look: Any, shift: float, height: float
) -> None:
    color, hatch, label = look
    y = [tasks.index(task) + shift for task in of]
    ax.barh(y, x, height * 0.9, color=color, hatch=hatch, ec="white", lw=0, label=label, zorder=2)
    plain = style.Mark("#202020", "none", 0, "#202020")
    panels.halo(panels.bars(ax, x.to_list(), y, ends, plain, along="x", ls="none", elinewidth=0.8))
    for at, value, (_, hi) in zip(y, x, ends, strict=True):
        end = max(value, value if hi is None else hi)
        ax.annotate(
            f"{value:.0f}", (end, at), (3, 0), textcoords="offset points", va="center", fontsize=6.5, gid="value"
        )


def _frame(ax: Axes, table: pl.DataFrame, tasks: list[str]) -> None:
    about = {r["task"]: r for r in table.iter_rows(named=True)}
    ax.set_yticks(range(len(tasks)), [_words(about[task]) for task in tasks])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(tasks) - 0.45, -0.55)
    for i in range(1, len(tasks), 2):
        ax.axhspan(i - 0.5, i + 0.5, color="#f4f4f4", lw=0, zorder=0)
    ax.set_xlim(0, 108)
    ax.set_xticks(range(0, 101, 20))
    ax.grid(axis="x")
    ax.set_xlabel("Did the right thing (%)")


def _words(row: dict[str, Any]) -> str:
    name = "\n".join(textwrap.wrap(row["task"][:1].upper() + row["task"][1:], 30))
    number = "n unknown" if row["people_n"] is None else f"n = {row['people_n']:,}"
    return f"{name}\n({row['version']}, {number})"


def _notes(result: People, tasks: list[str]) -> list[str]:
    level = f"{percent(result.parameters['ci_level'])} interval"
    out = [
        f"Lines: of people the {level}, where n (people, pairs or groups) is known; of models from the worst to the "
        "best. Instructions and settings are not fully matched."
    ]
    hidden = [task for task in result.table["task"].unique(maintain_order=True) if task not in tasks]
    return out + ([f"Not shown, without a share of people or without runs: {'; '.join(hidden)}."] if hidden else [])
