"""More output does not make a better teammate: scores against the length of a model's output.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels`, `cilab.plots.parts.roster`, `cilab.plots.parts.labels`
and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core.frames import as_frame
from cilab.core.vocabulary import ROW
from cilab.plots.parts import labels, panels, roster, style
from cilab.results.names import raised
from cilab.results.numbers import number
from cilab.stats.teamwork.effort import Effort
from cilab.stats.teamwork.scores import Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def output_tokens(
    result: Leaderboard, *, tokens: Any, effort: Effort | None = None, ax: Axes | None = None, facts: Any = None
) -> Axes:
    """Draw scores against mean output tokens per run, as figure 17 of the collaborative-intelligence paper.

    Arrows lead from a model's default row to its row at high effort, which has a ring.

    Parameters
    ----------
    result : what `cilab.leaderboard` returned.
    tokens : polars or pandas frame with `model, effort, tokens_out` (and `arm` where there are arms), one line per row:
        `study.sql("select model, effort, arm, avg(tokens_out) as tokens_out from runs where status <> 'gated_out'
        group by all")`.
    effort : what `cilab.effort` returned for the same data; gives the correlation in the corner.
    ax : axes to draw in; None makes a figure 6.5 inches wide, with small print.
    facts : families and open weights, as in `leaderboard`.

    Returns
    -------
    Axes
        One line with gid `row` and a text with gid `label` per row, and a text with gid `arrow` (no words) per arrow.

    Raises
    ------
    FigureError
        `result` is not a Leaderboard, `tokens` lacks a column, or no row has both a score and a number of tokens.
    """
    style.require(result, Leaderboard, "output_tokens")
    if effort is not None:
        style.require(effort, Effort, "output_tokens(effort=)")
    table = _joined(result, tokens)
    of = roster.looks(table["model"], facts)
    with style.context():
        fig, ax = style.own_or_given(ax, style.PAGE_WIDTH, 4.4)
        _frame(ax, table)
        high = raised(table)
        for row, name, ring in zip(table.iter_rows(named=True), roster.row_names(table), high, strict=True):
            roster.point(ax, row["tokens_out"], row["score_pct"], of[row["model"]], ring=ring)
            labels.add(ax, row["tokens_out"], row["score_pct"], name)
        _arrows(ax, table.with_columns(pl.Series("high", high, dtype=pl.Boolean)))
        panels.corner(ax, _correlation(effort))
        lines = roster.legend_over_axes(ax, of, ring=any(high))
        panels.title(ax, "Output and score", legend_lines=lines)
        style.mark_simulated(ax, result, table["model"], y=11 + panels.LEGEND_LINE * lines)
        if fig is not None:
            style.small_print(fig, result, *_notes(result, table, effort))
        labels.settle(ax)
    return ax


def _joined(result: Leaderboard, tokens: Any) -> pl.DataFrame:
    """`model, effort, arm, score_pct, tokens_out` of the rows that have both, best first."""
    frame = as_frame(tokens, "tokens: give a polars or pandas DataFrame", error=style.FigureError)
    missing = [c for c in ("model", "effort", "tokens_out") if c not in frame.columns]
    if missing:
        raise style.FigureError(f"tokens: missing column {', '.join(missing)}")
    if "arm" not in frame.columns:
        frame = frame.with_columns(arm=pl.lit(None, dtype=pl.String))
    keys = [pl.col(c).cast(pl.String) for c in ROW]
    if frame.select(keys).is_duplicated().any():
        raise style.FigureError("tokens: some rows stand there twice; give one line per model, effort and arm")
    wanted = frame.select(*keys, pl.col("tokens_out").cast(pl.Float64))
    table = result.table.join(wanted, on=list(ROW), how="left", nulls_equal=True, maintain_order="left")
    table = table.filter(pl.col("score_pct").is_not_null() & (pl.col("tokens_out") > 0))
    if not table.height:
        raise style.FigureError("nothing to draw: no row has both a score and a number of output tokens")
    return table.select(*ROW, "score_pct", "tokens_out")


def _frame(ax: Axes, table: pl.DataFrame) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    low, high = table["tokens_out"].min(), table["tokens_out"].max()
    ax.set_xlim(low / 1.3, high * 1.4)
    bottom, top = table["score_pct"].min(), table["score_pct"].max()
    margin = max(3.0, 0.08 * (top - bottom))
    ax.set_ylim(bottom - margin, top + margin)
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("Mean output tokens per run (log scale)")
    ax.set_ylabel("Overall score (%)")
    ax.grid(axis="both")


def _arrows(ax: Axes, table: pl.DataFrame) -> None:
    """From each model's default row to its other settings."""
    plain = table.filter(pl.col("arm").is_null())
    ends = {r["model"]: r for r in plain.filter(~pl.col("high")).iter_rows(named=True)}
    for row in plain.filter("high").iter_rows(named=True):
        start = ends.get(row["model"])
        if start is None:
            continue
        at = [(r["tokens_out"], r["score_pct"]) for r in (start, row)]
        look = {"arrowstyle": "-|>", "color": "#707070", "lw": 0.8, "shrinkA": 4, "shrinkB": 6, "mutation_scale": 7}
        ax.annotate("", at[1], at[0], arrowprops=look, zorder=2, gid="arrow").set_in_layout(False)
        labels.keep_clear(ax, at)


def _correlation(effort: Effort | None) -> str:
    row = effort.output_length.to_dicts()[0] if effort is not None and effort.output_length.height else None
    if row is None or row["r"] is None:
        return ""
    return f"r = {number(row['r'], 2)} over {row['n_rows']} default rows"


def _notes(result: Leaderboard, table: pl.DataFrame, effort: Effort | None) -> list[str]:
    hidden = result.table.height - table.height
    out = ["Arrows lead from a model's default to its high effort."]
    out += ["r: of the score with the logarithm of the tokens."] if _correlation(effort) else []
    out += [f"Not shown: {hidden} rows without a score or a known number of tokens."] if hidden else []
    return [" ".join(out)]
