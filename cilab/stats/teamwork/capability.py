"""How scores go with public measures of capability, which come in as a frame.

May import `cilab.core`, `cilab.results` and its own folder. Reads no file and calls no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.errors import TableError, nearest
from cilab.core.frames import as_frame
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import Level, Resamples, Seed, or_none, texts
from cilab.results.estimator import estimator
from cilab.results.numbers import NONE, Interval, decimals, number
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array
from cilab.stats.methods.hypothesis_tests import pearson
from cilab.stats.methods.uncertainty import IntervalKind
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.loss import OVERALL
from cilab.stats.teamwork.task_runs import TaskResult

#: What the measures of the paper are called; others keep the name of their column.
MEASURES = {
    "intelligence_index": "Artificial Analysis Intelligence Index",
    "hle_pct": "Humanity's Last Exam (%)",
    "lmarena": "LMArena score",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Capability(TaskResult):
    """Scores against public measures of capability.

    Attributes
    ----------
    table : see `capability`.
    fits : least-squares line of the overall score on each measure: `measure, n_rows, intercept_pct, slope_points` (per
        unit of the measure), `r_squared`; null with fewer than three models, through which any line fits.
    residuals : `measure, model, value, score_pct, fitted_pct, residual_points`, largest residual first; the last two
        null where there is no line.
    missing : measure -> models of the data without a value.
    """

    fits: pl.DataFrame
    residuals: pl.DataFrame
    missing: Mapping[str, Sequence[str]]

    figure: ClassVar[str | None] = "capability"
    title: ClassVar[str] = "Capability and teamwork"

    def sheet(self) -> Sheet:
        """One line per measure and dimension."""
        lines = [
            {
                "Measure": r["measure"],
                "Dimension": r["dimension"].replace("_", " "),
                "r": number(r["r"], 2, NONE),
                "Tasks resampled": Interval.of(r, "r", "lo", "hi", digits=2).span(),
                "Models (Fisher's z)": Interval.of(r, "r", "lo_models", "hi_models", digits=2).span(),
                "Models": str(r["n_rows"]),
            }
            for r in self.table.iter_rows(named=True)
        ]
        return self.on_sheet(lines)

    def paper_sheet(self, words: Mapping[str, str] | None = None) -> Sheet:
        """Scores and measures of every model: table 7 of the collaborative-intelligence paper.

        Parameters
        ----------
        words : measure -> heading of its column; measures of the paper have headings of their own.
        """
        measures = self.fits["measure"].to_list()
        named = {m: m.replace("_", " ") for m in measures} | MEASURES | dict(words or {})
        rows = self.residuals.sort("score_pct", descending=True, maintain_order=True)
        digits = {m: decimals(rows.filter(pl.col("measure") == m)["value"]) for m in measures}
        lines: dict[str, dict[str, str]] = {}
        for r in rows.iter_rows(named=True):
            first = {"Model": r["model"], "Score (%)": number(r["score_pct"])} | {named[m]: "" for m in measures}
            lines.setdefault(r["model"], first)[named[r["measure"]]] = number(r["value"], digits[r["measure"]])
        overall = dict(self.table.filter(pl.col("dimension") == OVERALL).select("measure", "r").rows())
        r = "; ".join(f"{named[m]} {number(overall[m], 2, NONE)}" for m in measures)
        caption = f"Pearson's r with the score: {r}."
        return self.on_sheet(list(lines.values()), "Scores and capability", caption=caption)

    def notes(self) -> list[str]:
        """As in `Result`, with the models that have no value, and why an r is missing."""
        out = super().notes()
        gone = [f"{measure}: {', '.join(models)}" for measure, models in self.missing.items() if models]
        more = [f"Without a value: {'; '.join(gone)}."] if gone else []
        why = self.table["undefined"].drop_nulls().unique(maintain_order=True).to_list()
        more += [f"No r: {'; '.join(why)}."] if why else []
        return [*out[:-1], *more, out[-1]]


@estimator
def capability(
    study: Any,
    measures: Any,
    *,
    columns: Annotated[Sequence[str] | None, or_none(texts("columns"))] = None,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> Capability:
    """Correlate the overall score and every dimension score with public measures of capability, over models.

    Parameters
    ----------
    study : opened study, data set, or runs table.
    measures : frame (polars or pandas) with `model` and one column per measure; null where a model has no value.
    columns : the measures to use; None takes every numeric column.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension; measures stay as they are.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    Capability
        Rows at each model's default setting. `.table`: `measure, dimension` (`overall` first), `n_rows, r, lo, hi`
        (tasks resampled; null where rows are not paired by task), `lo_models, hi_models` (Fisher's z), `p,
        n_empty_resamples, undefined` (why there is no r: fewer than three models with a value, or all alike).

    Raises
    ------
    TableError
        The frame has no column `model`, lists a model twice, has no numeric column or none of the models; or as in
        `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix F, figure 18, table 7.
    """
    whole = grid(study, **scope)
    g = task_runs.default_grid(whole)
    frame, names = _measures(measures, columns, g)
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    points, draws = task_runs.score_draws(g, how.counts)
    overall, overall_draws = bootstrap.overall_means(points), draws.mean(axis=0)
    values = g.rows.select("model").join(frame, on="model", how="left", maintain_order="left")
    lines, fits, residuals, missing = [], [], [], {}
    for name in names:
        x = values[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        missing[name] = values.filter(pl.col(name).is_null() | pl.col(name).cast(pl.Float64).is_nan())[
            "model"
        ].to_list()
        x_draws = None if g.unknown_tasks else np.broadcast_to(x, overall_draws.shape)
        of = [(OVERALL, overall, overall_draws), *((d, points[:, i], draws[i]) for i, d in enumerate(g.dimensions))]
        for dimension, y, y_draws in of:
            key = {"measure": name, "dimension": dimension}
            lines.append(key | task_runs.correlation(x, y, x_draws, y_draws, how))
        fit, left = _fit(name, g.rows["model"].to_list(), x, overall)
        fits.append(fit)
        residuals += left
    tests = int((g.runs["used"] & (g.runs["version"] == g.version)).sum())
    schema = {"measure": pl.String, "dimension": pl.String} | task_runs.CORRELATION_SCHEMA
    return Capability(
        table=pl.DataFrame(lines, schema=schema, orient="row"),
        fits=pl.DataFrame(fits, schema=_FIT, orient="row"),
        residuals=pl.DataFrame(residuals, schema=_RESIDUAL, orient="row"),
        missing=missing,
        resamples=resamples,
        seed=seed,
        remarks=whole.notes,
        n_used=tests,
        n_left_out=task_runs.left_out(whole, tests, {"of other rows or versions": whole.n_used - tests}),
        provenance=g.provenance,
        parameters={**g.asked, "columns": names},
        caption="Pearson's r of scores with public measures of capability, over models at their default setting.",
    )


_FIT = {"measure": pl.String, "n_rows": pl.Int64}
_FIT |= dict.fromkeys(("intercept_pct", "slope_points", "r_squared"), pl.Float64)
_RESIDUAL = {"measure": pl.String, "model": pl.String}
_RESIDUAL |= dict.fromkeys(("value", "score_pct", "fitted_pct", "residual_points"), pl.Float64)


def _measures(
    measures: Any, columns: Annotated[Sequence[str] | None, or_none(texts("columns"))], g: Grid
) -> tuple[pl.DataFrame, list[str]]:
    frame = as_frame(measures, "measures must be a polars or pandas DataFrame")
    if "model" not in frame.columns:
        raise TableError("measures: missing column model")
    if double := frame.filter(pl.col("model").is_duplicated())["model"].to_list():
        raise TableError(f"measures: model {double[0]!r} stands there twice")
    numeric = [c for c, kind in frame.schema.items() if c != "model" and kind.is_numeric()]
    for name in columns or ():
        if name not in numeric:
            raise TableError(f"measures: no numeric column {name!r}.{nearest(name, numeric)}")
    names = list(columns) if columns is not None else numeric
    if not names:
        raise TableError("measures: no numeric column beside model")
    there = g.rows["model"].to_list()
    if not set(frame["model"]) & set(there):
        raise TableError(f"measures: none of its models is in these runs, which have {', '.join(there[:5])} ...")
    return frame.select("model", *names), names


def _fit(name: str, models: Sequence[str], x: Array, score: Array) -> tuple[tuple, list[tuple]]:
    there = np.isfinite(x) & np.isfinite(score)
    a, y = x[there], 100 * score[there]
    if there.sum() < 2 or np.ptp(a) == 0:
        return (name, int(there.sum()), None, None, None), []
    kept = [m for m, ok in zip(models, there, strict=True) if ok]
    if len(a) < task_runs.LEAST_ROWS:
        points = [(name, m, float(v), float(s), None, None) for m, v, s in zip(kept, a, y, strict=True)]
        return (name, len(a), None, None, None), points
    intercept, slope = task_runs.least_squares(a, y)
    r = pearson(a, y).estimate
    fitted = intercept + slope * a
    rows = [
        (name, m, float(v), float(s), float(f), float(s - f)) for m, v, s, f in zip(kept, a, y, fitted, strict=True)
    ]
    rows.sort(key=lambda row: -row[-1])
    return (name, len(a), intercept, slope, None if r is None else r * r), rows
