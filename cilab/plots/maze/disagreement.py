"""Disagreements: the odds ratios as a forest, and the rates by kind of pair and between families.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.plots.parts import panels, style
from cilab.results.numbers import percent
from cilab.stats.maze.disagreement import OUTCOMES, DisagreementResult, OddsRatioResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OUTCOME_WORDS = {"total": "Any disagreement", "factual": "Factual", "nonfactual": "Non-factual"}
_PREDICTOR_WORDS = {"homogeneous": "Two copies of one model", "same_family": "Same family"}
_ROW_INCHES = 0.21


# -- odds ratios ----------------------------------------------------------------------------------------


def odds_ratios(
    result: OddsRatioResult | DisagreementResult, *, ax: Axes | None = None, panel: str | None = None
) -> Axes | Figure:
    """Draw odds ratios with intervals on a logarithmic axis: table 3 of the collaboration-gap paper as a forest.

    One row per coefficient but the intercept, one panel per outcome. Filled marks: p < 0.05; hollow: not.

    Parameters
    ----------
    result : what `cilab.disagreement` or `odds_ratios` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : an outcome of the result; None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure
        Per panel an ErrorbarContainer `p < 0.05` and one `not significant`, as far as there are such rows.

    Raises
    ------
    FigureError
        `result` is neither, there is no such panel, or no outcome could be modelled.
    """
    if not isinstance(result, OddsRatioResult):
        style.require(result, DisagreementResult, "odds_ratios")
    table = result.table.filter(pl.col("predictor") != "intercept")
    labels = list(dict.fromkeys(_label(row) for row in table.iter_rows(named=True)))
    ends = [v for c in ("odds_ratio", "lo", "hi") for v in table[c].drop_nulls() if v > 0]
    limits = (min([0.4, *ends]) / 1.15, max([2.5, *ends]) * 1.15)
    parts = {
        name: partial(_forest, table=table.filter(pl.col("outcome") == name), name=name, labels=labels, limits=limits)
        for name in table["outcome"].unique(maintain_order=True)
    }
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 1.5 + _ROW_INCHES * len(labels)),
        ncols=3,
        notes=_forest_notes(result),
        sharey=True,
    )


def _label(row: dict[str, Any]) -> str:
    if row["level"] is None:
        return _PREDICTOR_WORDS.get(row["predictor"], row["predictor"].replace("_", " ").capitalize())
    who, _, what = row["predictor"].partition("_")
    if who in ("starter", "follower") and what == "tier":
        return f"{row['level'].capitalize()} {who}"
    if who in ("starter", "follower") and what == "family":
        return f"{who.capitalize()} of {row['level']}"
    return f"{row['predictor'].replace('_', ' ').capitalize()}: {row['level']}"


def _forest(ax: Axes, *, table: pl.DataFrame, name: str, labels: Sequence[str], limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    panels.rows(ax, labels)
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.axvline(1, color="#404040", lw=0.9, zorder=1)
    significant = pl.col("p").fill_null(1) < 0.05
    for part, words, fill in (
        (table.filter(significant), "p < 0.05", panels.SERIES[0].color),
        (table.filter(~significant), "not significant", "white"),
    ):
        if part.height:
            rows = [labels.index(_label(r)) for r in part.iter_rows(named=True)]
            ends = part.select("lo", "hi").rows()
            look = {"label": words, "markerfacecolor": fill, "ls": "none"}
            panels.bars(ax, part["odds_ratio"].to_list(), rows, ends, panels.SERIES[0], along="x", **look)
    ticks = [t for t in (0.1, 0.25, 0.5, 1, 2, 4, 10) if limits[0] <= t <= limits[1]]
    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.tick_params(axis="x", which="minor", length=0)
    ax.set_xlabel("Odds ratio (log scale)")
    panels.title(ax, _OUTCOME_WORDS.get(name, name))


def _forest_notes(result: Any) -> list[str]:
    models = getattr(result, "models", None) or {"": result}
    some = next(iter(models.values()))
    levels = ", ".join(f"{name.replace('_', ' ')} {level}" for name, level in some.reference.items())
    numbers = ", ".join(f"{_OUTCOME_WORDS.get(k, k).lower()} {m.n_used:,}" for k, m in models.items() if k)
    out = (
        f"Filled: p < 0.05. Bars: {percent(some.parameters['ci_level'])} percentile intervals, "
        f"{some.n_clusters} clusters."
    )
    return [
        out
        + (f" Reference: {levels}." if levels else "")
        + (f" Rollouts: {numbers}. Factual and non-factual: of those that disagree." if numbers else "")
    ]


# -- rates ----------------------------------------------------------------------------------------------


def disagreement(result: DisagreementResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw how often agents disagree, as figure D.3: by kind of pair, and between families.

    Parameters
    ----------
    result : what `cilab.disagreement` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `interaction` (one bar per kind of pair and outcome, with intervals) or `families` (heatmap of any
        disagreement, starters in rows, number of rollouts below); None takes the first with `ax`, and all without.

    Returns
    -------
    Axes or Figure

    Raises
    ------
    FigureError
        `result` is not a DisagreementResult, or there is no such panel.
    """
    style.require(result, DisagreementResult, "disagreement")
    parts = {"interaction": partial(_by_interaction, result=result)}
    if result.by_family_pair.height:
        parts["families"] = partial(_by_family, result=result)
    level = f"Fractions of rollouts. Bars: {percent(result.parameters['ci_level'])} percentile intervals."
    return panels.compose(
        result,
        parts,
        ax=ax,
        panel=panel,
        size=(style.PAGE_WIDTH, 3.4),
        ncols=2,
        notes=[level],
        label_y=36,
        width_ratios=[1.2, 1][: len(parts)],
    )


def _by_interaction(ax: Axes, *, result: DisagreementResult) -> None:
    table = result.by_interaction
    groups = table["interaction"].unique(maintain_order=True).to_list()
    numbers = dict(table.select("interaction", "n").rows())
    for i, name in enumerate(OUTCOMES):
        rows = {r["interaction"]: r for r in table.filter(pl.col("outcome") == name).iter_rows(named=True)}
        there = [g for g in groups if g in rows]
        x = [groups.index(g) + 0.26 * (i - 1) for g in there]
        rates = [rows[g]["rate"] for g in there]
        mark = panels.SERIES[(4, 0, 1)[i]]
        hatch = ("", "//", "..")[i]
        look: dict[str, Any] = {"color": mark.color, "edgecolor": "white", "hatch": hatch, "lw": 0.4}
        ax.bar(x, rates, 0.25, label=_OUTCOME_WORDS[name].removesuffix(" disagreement"), **look)
        ends = [(rows[g]["lo"], rows[g]["hi"]) for g in there]
        plain = style.Mark("#303030", "none", 0, "#303030")
        panels.bars(ax, x, rates, ends, plain, along="y", ls="none")
    words = [g.capitalize().replace(" ", "\n") for g in groups]
    ax.set_xticks(range(len(groups)), [f"{w}\n(n = {numbers[g]:,})" for w, g in zip(words, groups, strict=True)])
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(0, max([1.0, *table["hi"].drop_nulls()]) if table["rate"].max() > 0.8 else 0.8)
    ax.set_ylabel("Rate (fraction of rollouts)")
    ax.grid(axis="y")
    panels.legend(ax, 3)
    panels.title(ax, "Kinds of pairs", legend_lines=1)


def _by_family(ax: Axes, *, result: DisagreementResult) -> None:
    import numpy as np

    table = result.by_family_pair.filter(pl.col("outcome") == "total")
    cells = {(r["starter_family"], r["follower_family"]): r for r in table.iter_rows(named=True)}
    families = sorted({name for key in cells for name in key})
    found = [[cells.get((a, b)) for b in families] for a in families]
    rates = [[c["rate"] if c else np.nan for c in row] for row in found]
    words = [[f"{c['rate']:.2f}\nn = {c['n']}" if c else "" for c in row] for row in found]
    shown = style.brief(families)
    panels.heatmap(ax, rates, words, lines=shown, columns=shown, size=6.4, vmin=0, vmax=1)
    if max(map(len, families)) > 8:
        panels.slant(ax, 30)
    ax.set_xlabel("Follower's family")
    ax.set_ylabel("Starter's family")
    panels.title(ax, "Any, by family", legend_lines=1)
