"""Does a score mean the same on new tasks and in a new run: held out, seeds, head to head, split halves.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster` and `cilab.stats`. Computes
nothing.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, roster, style
from cilab.results.names import model_of
from cilab.results.numbers import Interval
from cilab.stats.teamwork.validity import ValidityResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Panels of the figure; `split_half` is drawn when it is asked for.
_PANELS = ("held_out", "seeds", "head_to_head")


def validity(
    result: ValidityResult, *, ax: Axes | None = None, panel: str | None = None, facts: Any = None
) -> Axes | Figure:
    """Draw three checks of the score, as figure 9 of the collaborative-intelligence paper.

    Parameters
    ----------
    result : what `cilab.validity` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `held_out` (each row's score on held-out against public tasks), `seeds` (its score with one test seed
        against another), `head_to_head` (each pair of rows on the tasks that both solve alone: the higher ranked one's
        score against the other's), or `split_half` (correlations of the halvings); None takes the first with `ax`, and
        the first three without.
    facts : which weights are open, as in `leaderboard`.

    Returns
    -------
    Axes or Figure
        Lines with a label per series of points, and a line with gid `equal` where both scores are the same.

    Raises
    ------
    FigureError
        `result` is not a ValidityResult, there is no such panel, or the data do not permit any check.
    """
    style.require(result, ValidityResult, "validity")
    names = [model_of(row) for row in dict.fromkeys([*result.seeds["row"], *result.held_out["row"]])]
    of = roster.looks(names, facts)
    parts = _parts(result, of)
    if panel is None and ax is None:
        parts = {name: draw for name, draw in parts.items() if name in _PANELS}
    elif panel in parts:
        parts = {panel: parts[panel]}
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 3.0),
        ncols=3,
        names=names,
        notes=_notes(result),
        label_y=21,
    )


def _parts(result: ValidityResult, of: dict[str, roster.Look]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if result.held_out.drop_nulls().height:
        parts["held_out"] = partial(_held_out, result=result, of=of)
    if result.seeds.drop_nulls()["seed"].n_unique() > 1:
        parts["seeds"] = partial(_seeds, result=result)
    if result.pairs.drop_nulls(["higher_pct", "lower_pct"]).height:
        parts["head_to_head"] = partial(_head_to_head, result=result)
    if result.halves["r"].count():
        parts["split_half"] = partial(_split_half, result=result)
    return parts


def _held_out(ax: Axes, *, result: ValidityResult, of: dict[str, roster.Look]) -> None:
    table = result.held_out.drop_nulls()
    is_open = pl.Series([bool(of[model_of(row)].open_weights) for row in table["row"]], dtype=pl.Boolean)
    for part, mark, label in (
        (table.filter(~is_open), panels.SERIES[0], "Others" if is_open.any() else "Rows"),
        (table.filter(is_open), panels.SERIES[1], "Open weights"),
    ):
        if part.height:
            panels.points(ax, part["public_pct"], part["held_out_pct"], mark, label)
    panels.equal_scales(ax)
    ax.set_xlabel("Public tasks (%)")
    ax.set_ylabel("Held-out tasks (%)")
    tau, gap = _get(result, "held_out", "kendall_tau_b"), _get(result, "held_out", "mean_absolute_difference")
    panels.corner(ax, "\n".join([*_words("τ", tau), *([f"mean gap {gap['value']:.1f}"] if gap else [])]))
    _legend(ax, "upper left")
    panels.title(ax, "Held-out tasks")


def _seeds(ax: Axes, *, result: ValidityResult) -> None:
    wide = result.seeds.drop_nulls().pivot("seed", index="row", values="score_pct")
    seeds = [c for c in wide.columns if c != "row"]
    for (a, b), mark in zip(itertools.combinations(seeds, 2), panels.SERIES, strict=False):
        both = wide.drop_nulls([a, b])
        panels.points(ax, both[a], both[b], mark, f"{a}, {b}")
    panels.equal_scales(ax)
    ax.set_xlabel("One seed (%)")
    ax.set_ylabel("Another seed (%)")
    panels.corner(ax, "".join(_words("r ≥", _get(result, "seeds", "least_pearson_r"))))
    _legend(ax, "upper left")
    panels.title(ax, "Test seeds")


def _head_to_head(ax: Axes, *, result: ValidityResult) -> None:
    table = result.pairs.drop_nulls(["higher_pct", "lower_pct"])
    wins = pl.col("wins").fill_null(False)
    for part, mark, label in (
        (table.filter(wins), panels.SERIES[0], "higher ranked wins"),
        (table.filter(~wins), panels.SERIES[6], "does not"),
    ):
        if part.height:
            panels.points(
                ax,
                part["lower_pct"],
                part["higher_pct"],
                mark,
                f"{label} ({part.height:,})",
                ms=0.7 * mark.size,
                alpha=0.8,
            )
    panels.equal_scales(ax)
    ax.set_xlabel("Lower ranked row (%)")
    ax.set_ylabel("Higher ranked row (%)")
    _legend(ax, "lower right")
    panels.title(ax, "Head to head")


def _split_half(ax: Axes, *, result: ValidityResult) -> None:
    values = result.halves["r"].drop_nulls()
    ax.hist(values, bins=min(30, max(5, len(values) // 20)), color=panels.SERIES[0].color, ec="white", lw=0.4)
    mean = _get(result, "split_half", "half_pearson_r")
    if mean:
        ax.axvline(mean["value"], color="#202020", lw=1.0, ls=(0, (4, 2)), gid="mean")
    ax.set_xlabel("Pearson's r of the two halves' scores")
    ax.set_ylabel(f"Halvings (of {result.splits:,})")
    said = _words("reliability", _get(result, "split_half", "reliability")) or ["reliability undefined"]
    panels.corner(ax, "\n".join(said), place="upper left")
    panels.title(ax, "Split halves")


def _legend(ax: Axes, place: str) -> None:
    """Small and inside, in the corner that this panel leaves empty."""
    look = {"fontsize": 6.3, "handletextpad": 0.1, "borderaxespad": 0.2, "labelspacing": 0.25}
    ax.legend(loc=place, frameon=True, framealpha=0.85, edgecolor="none", borderpad=0.2, **look)


def _notes(result: ValidityResult) -> list[str]:
    both = style.gated(result, "both solve alone", "both have scores on")
    out = [f"Each point is a row, in head to head a pair of rows on the tasks that {both}."]
    if half := _get(result, "split_half", "reliability"):
        out += [f"Of split halves: {_words('reliability', half)[0]}, {half['n']:,} halvings."]
    return [" ".join(out)]


def _get(result: ValidityResult, check: str, quantity: str) -> dict[str, Any] | None:
    """The line of a quantity, or None where it has no value."""
    found = result.table.filter((pl.col("check") == check) & (pl.col("quantity") == quantity)).to_dicts()
    return found[0] if found and found[0]["value"] is not None else None


def _words(name: str, line: dict[str, Any] | None) -> list[str]:
    if line is None:
        return []
    sign = " " if name.endswith("≥") else " = "
    return [f"{name}{sign}{Interval.of(line, 'value', 'lo', 'hi', digits=2).with_span()}"]
