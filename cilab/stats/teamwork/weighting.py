"""Two further corrections for the gate: inverse probability weights, and a doubly robust estimate.

May import `cilab.core` and its own folder. Reads no file, plays nothing. The outcome model is that
of `cilab.stats.teamwork.fill_in`, the propensity the same kind of model on the alone runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
import polars as pl

from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed, numeric
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods import row_task_model as model
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, Mask
from cilab.stats.methods.hypothesis_tests import kendall_tau_b
from cilab.stats.methods.row_task_model import Trials, expit
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import task_runs
from cilab.stats.teamwork.fill_in import (
    check_fillable,
    fillable,
    percent_columns,
    stay_out,
    trials_of,
)
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks

#: Propensities below this count as this: no task weighs more than ten.
CLIP = 0.1
_clip = numeric(lambda v: 0 <= v < 1, f"the least propensity used, a fraction such as {CLIP}")


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightingResult(Result):
    """Scores corrected for the gate, beside the leaderboard's.

    Attributes
    ----------
    table : one line per row, best first by score: `model, effort, arm, rank, score_pct`; for `ipw` (inverse
        probability weighting) and `dr` (doubly robust) each `_pct, _lo_pct, _hi_pct, _rank, _change_points`.
    dimensions : the same per row and dimension without ranks, with `n_scored, n_failed` (tasks), `effective_n` (of the
        weights), `least_propensity, most_weight, clipped` (scored tasks whose weight was clipped).
    propensities : one line per row and task that was decided: `row, task_id, dimension, propensity, solved`.
    overlap : `group` (solved, failed alone), `n, least, lower_quartile, median, upper_quartile, most`: propensities of
        either group. Where the two hardly overlap, weighting rests on few tasks.
    kendall_tau_b : correction -> tau-b with the score; None where undefined.
    clip : the least propensity used.
    """

    dimensions: pl.DataFrame
    propensities: pl.DataFrame
    overlap: pl.DataFrame
    kendall_tau_b: dict[str, float | None]
    clip: float
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    title: ClassVar[str] = "Scores weighted for the gate"

    def sheet(self) -> Sheet:
        """One line per row: rank and score, then score with its interval and rank by either correction."""
        lines = []
        for row, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True):
            line = {"Rank": number(r["rank"], 0), "Row": row, "Score (%)": number(r["score_pct"], missing=NONE)}
            for name, words in (("ipw", "Weighted"), ("dr", "Doubly robust")):
                found = Interval.of(r, f"{name}_pct", f"{name}_lo_pct", f"{name}_hi_pct")
                line[f"{words} (%)"] = found.with_span()
                line[f"Rank, {words.lower()}"] = number(r[f"{name}_rank"], 0)
            lines.append(line)
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, and how much was clipped."""
        out = super().notes()
        clipped = int(self.dimensions["clipped"].sum())
        least = self.dimensions["effective_n"].min()
        more = f"Propensities below {self.clip:g} count as that: {clipped:,} scored cells."
        more += f" Least effective number of tasks in a cell: {least:.1f}." if least is not None else ""
        return [*out[:-1], *self.remarks, more, out[-1]]


@estimator
def weighting(
    study: Any,
    *,
    clip: Annotated[float, _clip] = CLIP,
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    **scope: Unpack[Scope],
) -> WeightingResult:
    """Scores corrected for the gate by inverse probability weighting, and by a doubly robust estimate.

    The propensity is the probability that the row passes the task alone: logistic regression on the gate's verdicts
    with row, dimension and task effects, penalised by normal priors with widths by empirical Bayes (unpenalised, every
    task that all rows solve would have none).

    - Weighted: within a dimension, the mean over scored tasks with weights 1 / propensity that are normalised to one
      (Hajek).
    - Doubly robust (AIPW): the outcome model's mean over scored and failed tasks, plus the weighted mean of what the
      scored tasks add to the model. Right if either model is; a dimension may end up a little outside 0 to 100.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    clip : the least propensity used, a fraction.
    resamples, seed, ci_level : of the bootstrap over tasks within dimension, propensities and outcome model held fixed.
    interval : by the rule of `cilab.stats.methods.uncertainty`, or the paper's `percentile`.
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    WeightingResult
        A dimension without a scored task has no corrected score either.

    Raises
    ------
    TableError
        `clip` is no fraction; the gate is off, published task ids, or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.3; Robins, Rotnitzky and Zhao (1994).
    """
    g = grid(study, **scope)
    check_fillable(g, "weighting")
    failed = fillable(g)
    propensity = propensities(g)
    outcome = expit(model.empirical_bayes(trials_of(g)).logits)
    weights = np.where(g.scored, 1 / np.maximum(propensity, max(clip, 1e-12)), 0.0)
    means = _Means(g, weights, outcome, g.scored | failed)
    points = means.of([np.ones((1, d.stop - d.start)) for d in g.slices])
    how = task_runs.resampled(g, resamples, seed, interval, ci_level)
    replicates = means.of([how.counts[:, d] for d in g.slices])
    dimensions = _dimension_table(how, points, replicates, propensity, weights, clip)
    table = _row_table(how, points, replicates)
    tau = {name: _tau(table, name) for name in ("ipw", "dr")}
    return WeightingResult(
        table=table,
        dimensions=dimensions,
        propensities=_propensity_table(g, propensity),
        overlap=_overlap(propensity, {"solved": g.solved & ~g.refused, "failed alone": failed}),
        kendall_tau_b=tau,
        clip=float(clip),
        resamples=resamples,
        seed=seed,
        remarks=(*g.notes, *(f"{words}; cilab.fill_in fills them in." for words in stay_out(g, g.missing))),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Percent; in brackets {percent(ci_level)} intervals, tasks resampled within dimension, both models "
        "held fixed.",
    )


def propensities(g: Grid) -> Array:
    """Probability that each row passes each task alone, shape (R, T), fractions."""
    asked = g.decided & ~g.refused
    trials = Trials((asked & g.solved).astype(float), asked.astype(float), g.slices)
    return expit(model.empirical_bayes(trials).logits)


@dataclass(frozen=True, eq=False)
class _Means:
    """Both estimates for any numbers of times that tasks are drawn.

    `weights` are 0 where a cell is not scored, `outcome` is the model's expected score, `complete` what is scored or
    failed alone; shapes (R, T).
    """

    g: Grid
    weights: Array
    outcome: Array
    complete: Mask

    def of(self, counts: list[Array]) -> dict[str, Array]:
        """`ipw` and `dr`, each of shape (dimensions, draws, R); NaN where no task with a weight was drawn."""
        out: dict[str, list[Array]] = {"ipw": [], "dr": []}
        values = np.where(self.g.scored, self.g.values, 0.0)
        for d, drawn in zip(self.g.slices, counts, strict=True):
            w, y, m, there = self.weights[:, d], values[:, d], self.outcome[:, d], self.complete[:, d]
            with np.errstate(invalid="ignore", divide="ignore"):
                total = drawn @ w.T
                ipw = drawn @ (w * y).T / total
                beyond = drawn @ (w * (y - m)).T / total
                modelled = drawn @ np.where(there, m, 0.0).T / (drawn @ there.T.astype(float))
            out["ipw"].append(ipw)
            out["dr"].append(modelled + beyond)
        return {name: np.array(parts) for name, parts in out.items()}


# -- tables -----------------------------------------------------------------------------------------------


def _row_table(how: task_runs.Resampled, points: dict[str, Array], replicates: dict[str, Array]) -> pl.DataFrame:
    g = how.g
    score = bootstrap.overall_means(g.points())
    lines = g.rows.select(ROW).with_columns(
        pl.Series("rank", shared_ranks(score), dtype=pl.Int64), *percent_columns(score_pct=score)
    )
    for name in ("ipw", "dr"):
        new = points[name][:, 0].mean(axis=0)
        lo, hi, why, n = _ends(how, new, replicates[name].mean(axis=0).T, g.scored)
        numbers = {f"{name}_pct": new, f"{name}_lo_pct": lo, f"{name}_hi_pct": hi, f"{name}_change_points": new - score}
        lines = lines.with_columns(pl.Series("no_interval", why, dtype=pl.String), pl.Series("n_clusters", n))
        ranks = pl.Series(f"{name}_rank", shared_ranks(new), dtype=pl.Int64)
        lines = lines.with_columns(*percent_columns(**numbers), ranks)
    return lines.sort("rank", nulls_last=True, maintain_order=True)


def _ends(
    how: task_runs.Resampled, points: Array, draws: Array, used: Mask
) -> tuple[Array, Array, list[str | None], list[int]]:
    """Ends of the intervals of `points`, each with its replicates and the tasks that it rests on."""
    found = [how.bounds(d, u) if np.isfinite(p) else Bounds() for p, d, u in zip(points, draws, used, strict=True)]
    lo, hi = (np.array([np.nan if b[i] is None else b[i] for b in found], float) for i in (0, 1))
    return lo, hi, [b.reason for b in found], [b.n_clusters for b in found]


def _dimension_table(
    how: task_runs.Resampled,
    points: dict[str, Array],
    replicates: dict[str, Array],
    propensity: Array,
    weights: Array,
    clip: float,
) -> pl.DataFrame:
    g = how.g
    n_rows, n_dims = g.rows.height, len(g.slices)
    score = g.points()
    used = np.array([[u & (g.dimension_of == d) for d in range(n_dims)] for u in g.scored])
    lines = g.rows.select(ROW)[np.repeat(np.arange(n_rows), n_dims)].with_columns(
        pl.Series("dimension", list(g.dimensions) * n_rows, dtype=pl.String), *percent_columns(score_pct=score.ravel())
    )
    for name in ("ipw", "dr"):
        new = points[name][:, 0].T
        draws = replicates[name].transpose(2, 0, 1).reshape(n_rows * n_dims, -1)
        lo, hi, why, n = _ends(how, new.ravel(), draws, used.reshape(n_rows * n_dims, -1))
        lines = lines.with_columns(pl.Series("no_interval", why, dtype=pl.String), pl.Series("n_clusters", n))
        numbers = {f"{name}_pct": new, f"{name}_lo_pct": lo, f"{name}_hi_pct": hi, f"{name}_change_points": new - score}
        lines = lines.with_columns(*percent_columns(**{k: v.ravel() for k, v in numbers.items()}))
    failed = fillable(g)
    counts = [(r, d) for r in range(n_rows) for d in g.slices]
    with np.errstate(invalid="ignore"):
        effective = [weights[r, d].sum() ** 2 / (weights[r, d] ** 2).sum() for r, d in counts]
    own = [propensity[r, d][g.scored[r, d]] for r, d in counts]
    return lines.with_columns(
        n_scored=pl.Series([len(p) for p in own], dtype=pl.Int64),
        n_failed=pl.Series([int(failed[r, d].sum()) for r, d in counts], dtype=pl.Int64),
        effective_n=pl.Series(effective, dtype=pl.Float64).fill_nan(None),
        least_propensity=pl.Series([float(p.min()) if len(p) else None for p in own], dtype=pl.Float64),
        most_weight=pl.Series(
            [float(weights[r, d].max()) if len(p) else None for (r, d), p in zip(counts, own, strict=True)]
        ),
        clipped=pl.Series([int((p < clip).sum()) for p in own], dtype=pl.Int64),
    )


def _propensity_table(g: Grid, propensity: Array) -> pl.DataFrame:
    r, t = np.nonzero(g.decided & ~g.refused)
    return pl.concat(
        [g.rows.select("row")[r], g.tasks.select("task_id", "dimension")[t]], how="horizontal"
    ).with_columns(propensity=propensity[r, t], solved=g.solved[r, t])


def _overlap(propensity: Array, groups: dict[str, Mask]) -> pl.DataFrame:
    names = ("least", "lower_quartile", "median", "upper_quartile", "most")
    lines = []
    for group, which in groups.items():
        own = propensity[which]
        spots = np.quantile(own, [0, 0.25, 0.5, 0.75, 1]).tolist() if len(own) else [None] * 5
        lines.append((group, len(own), *spots))
    schema = {"group": pl.String, "n": pl.Int64} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(lines, schema=schema, orient="row")


def _tau(table: pl.DataFrame, name: str) -> float | None:
    both = table.drop_nulls(["score_pct", f"{name}_pct"])
    return kendall_tau_b(both["score_pct"], both[f"{name}_pct"]).estimate if both.height > 1 else None
