"""Adjusted scores: every row on the same tasks, with the tests that it never took filled in from one model.

May import `cilab.core` and its own folder. Reads no file, plays nothing. The model is that of
`cilab.stats.methods.row_task_model`; with engine `nuts` it is sampled by `cilab.stats.methods.bayes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.core.errors import TableError, choice
from cilab.core.options import CI_LEVEL
from cilab.core.vocabulary import ROW
from cilab.results.arguments import Level, Resamples, Seed, inside
from cilab.results.estimator import estimator
from cilab.results.names import names_of
from cilab.results.numbers import NONE, Interval, number, percent
from cilab.results.result import Result
from cilab.results.sheet import Sheet
from cilab.stats.methods import bootstrap
from cilab.stats.methods import row_task_model as model
from cilab.stats.methods.bootstrap import RESAMPLES_OTHER, Array, Mask
from cilab.stats.methods.distributions import average_ranks
from cilab.stats.methods.hypothesis_tests import kendall_tau_b, permutation_p
from cilab.stats.methods.row_task_model import Fit, HeldOut, Trials, Widths, expit
from cilab.stats.teamwork.grid import Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks

if TYPE_CHECKING:
    import arviz

    from cilab.stats.methods.bayes import Diagnostics

Engine = Literal["laplace", "nuts"]
WidthRule = Literal["cross_validation", "empirical_bayes"]

#: Rows that solve at least this share of the tasks alone: the gate barely selects their tests.
STRONG = 0.97
#: Share of the rows, from the lowest score up, that the hide-and-predict check uses (the paper's 14 of 24).
WEAKER = 14 / 24
#: Pairs of that check, at most: their number grows with the square of the rows (24 rows have 182). More are drawn from.
MOST_PAIRS = 1000
#: Pairs refitted at a time, which bounds the memory.
_PAIRS_AT_ONCE = 100
#: Numbers of scored tasks in a cell of a row and a dimension by which its movement is reported; the last is open.
BINS = ((1, 9), (10, 19), (20, 26), (27, None))
_PERMUTATIONS = 9999


@dataclass(frozen=True, kw_only=True, repr=False)
class FillInResult(Result):
    """Adjusted scores beside the leaderboard's.

    Attributes
    ----------
    table : one line per row, best first: `model, effort, arm, rank, score_pct, adjusted_rank, rank_change` (positive:
        lower after adjusting), `adjusted_pct, lo_pct, hi_pct, change_points` (adjusted minus score), `n_scored,
        n_filled` (tasks).
    dimensions : the same per row and dimension (without ranks).
    tasks : `task_id, dimension, difficulty` (logits; positive is harder), `n_scored` (rows).
    quantities : `quantity, value, note`: widths, held-out log loss, the shift, the checks; null with the reason.
    hidden : the hide-and-predict check, one line per pair: `row, other, n_hidden, full_pct, remaining_pct,
        filled_pct` (before the shift), `shifted_pct`.
    alone_failures : `dimension` (null: all, ranked within dimension), `n_tasks, spearman, p`: tasks that more rows fail
        alone against the strong rows' mean test score.
    movement : `scored_tasks` (a range), `n_cells, mean_absolute_points`: how far dimension scores move.
    diagnostics, inference : of engine `nuts`, else None. With failing diagnostics every adjusted score is null.
    fit : the penalised fit behind it (with `nuts`: at the posterior mean widths).
    """

    dimensions: pl.DataFrame
    tasks: pl.DataFrame
    quantities: pl.DataFrame
    hidden: pl.DataFrame
    alone_failures: pl.DataFrame
    movement: pl.DataFrame
    fit: Fit
    diagnostics: Diagnostics | None
    inference: arviz.InferenceData | None
    resamples: int
    seed: int
    remarks: tuple[str, ...] = ()

    figure: ClassVar[str | None] = "fill_in"
    title: ClassVar[str] = "Adjusted scores: tests not taken are filled in"

    def value(self, quantity: str) -> float | None:
        """The value of a quantity by name.

        Raises
        ------
        TableError
            There is none of that name.
        """
        found = self.quantities.filter(pl.col("quantity") == quantity)
        if not found.height:
            raise TableError(f"no quantity {quantity!r}; there are {', '.join(self.quantities['quantity'])}")
        return found["value"][0]

    def sheet(self) -> Sheet:
        """One line per row: rank, score, adjusted score with its interval, the change."""
        lines = [
            {
                "Rank": number(r["rank"], 0),
                "Row": name,
                "Score (%)": number(r["score_pct"], missing=NONE),
                "Adjusted rank": number(r["adjusted_rank"], 0),
                "Adjusted (%)": number(r["adjusted_pct"], missing=NONE),
                "Interval": Interval.of(r, "adjusted_pct", "lo_pct", "hi_pct").span(NONE),
                "Change": number(r["change_points"], missing=NONE),
                "Filled in": str(r["n_filled"]),
            }
            for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, with how well the model predicts and, where it was sampled, whether the chains are sound."""
        out = super().notes()
        more = [*self.remarks]
        if (loss := self.value("log_loss")) is not None:
            own = self.value("log_loss_own_mean")
            more.append(f"Held-out log loss {loss:.3f} per run, the row's own mean {own:.3f}.")
        if self.diagnostics is not None:
            more.append(self.diagnostics.line())
            if not self.diagnostics.sound:
                problems = "; ".join(self.diagnostics.problems)
                more.append(f"No adjusted score is shown, as the chains cannot be trusted: {problems}. Draw more.")
        return [*out[:-1], *more, out[-1]]


@estimator
def fill_in(
    study: Any,
    *,
    engine: Engine = "laplace",
    widths: Annotated[WidthRule | tuple[float, float], inside] = "cross_validation",
    shift: Annotated[Literal["checked"] | float, inside] = "checked",
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    ci_level: Level = CI_LEVEL,
    sampler: Mapping[str, Any] | None = None,
    **scope: Unpack[Scope],
) -> FillInResult:
    """Score every row on the same tasks: observed cells keep their means, tests never taken are filled in.

    Log-odds of a pass = dimension mean + row ability + row's deviation in the dimension - task difficulty, fitted to
    all test runs on the tasks that each row solves alone; deviations and difficulties have normal priors. Graded runs
    enter as fractional Bernoulli. Filled in are the tasks that the row failed alone. Refused and incomplete tasks
    stay out. A dimension without a scored task has no adjusted score, as it would be the model's alone.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    engine : `laplace` (penalised likelihood and its normal approximation) or `nuts` (sampled; widths have priors).
    widths : of engine `laplace`: by five-fold `cross_validation` (folds hold whole cells of a row and a task), by
        `empirical_bayes`, or the two standard deviations (deviation, task) in logits.
    shift : logits added to what is filled in. `checked`: the one that removes the mean error of the hide-and-predict
        check (0, with a note, where no pair permits it); or a number.
    resamples, ci_level : of the intervals: tasks are resampled within dimension, and each resample takes its own draw
        from the posterior. The shift's own uncertainty is not in them.
    seed : of folds, draws and resamples.
    sampler : of engine `nuts`: `draws, tune, chains, cores` (see `cilab.stats.methods.bayes.sample`).
    version, gate, allow_partial, reviews, benchmark, models, dimensions, common_tasks, cluster, refused, missing : see
        `cilab.stats.teamwork.grid.grid`.

    Returns
    -------
    FillInResult
        Point estimates depend on the seed only through the folds; with `empirical_bayes` or given widths they do not.

    Raises
    ------
    TableError
        The gate is off, published task ids, too few cells for the folds, an argument out of range, or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.3.
    """
    choice("engine", engine, ("laplace", "nuts"))
    given = _given_widths(widths)
    fixed_shift = _given_shift(shift)
    g = grid(study, **scope)
    check_fillable(g, "fill_in")
    trials = trials_of(g)
    posterior = None
    if engine == "nuts":
        from cilab.stats.methods import bayes

        posterior = bayes.sample(trials, seed=seed, **(sampler or {}))
        given = _posterior_widths(posterior)
    fit, held, held_note = _fitted(trials, widths, given, seed)
    hidden, pairs = hide_and_predict(g, trials, fit)
    found, shift_note = _checked_shift(pairs) if fixed_shift is None else (fixed_shift, "given")
    hidden = _with_shift(hidden, pairs, found)

    fill = fillable(g)
    rng = np.random.default_rng([seed, 1])
    draws = fit.draws(resamples, rng) if posterior is None else _some(posterior.draws, resamples, rng)
    filled = _filled(g, fill, fit if posterior is None else posterior.draws, found)
    adjusted = adjusted_points(g, fill, filled)
    replicates = _replicates(g, fill, draws, found, resamples, rng)
    shown = posterior is None or posterior.diagnostics.sound
    if not shown:
        adjusted, replicates = np.full_like(adjusted, np.nan), np.full_like(replicates, np.nan)
    dimensions = _dimension_table(g, fill, adjusted, replicates, ci_level)
    table = _row_table(g, fill, adjusted, replicates, ci_level)
    strong = strong_rows(g)
    alone = alone_failures(g, strong, np.random.default_rng([seed, 2]))
    numbers = _quantities(table, hidden, fit, held, held_note, (found, shift_note), alone, strong)
    return FillInResult(
        table=table,
        dimensions=dimensions,
        tasks=g.tasks.select("task_id", "dimension").with_columns(
            difficulty=fit.difficulty, n_scored=pl.Series(g.scored.sum(axis=0))
        ),
        quantities=numbers,
        hidden=hidden,
        alone_failures=alone,
        movement=_movement(dimensions),
        fit=fit,
        diagnostics=None if posterior is None else posterior.diagnostics,
        inference=None if posterior is None else posterior.inference,
        resamples=resamples,
        seed=seed,
        remarks=g.notes,
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Percent, {percent(ci_level)} intervals: tasks resampled within dimension, fill-ins drawn anew.",
    )


def _given_widths(widths: Any) -> Widths | None:
    if isinstance(widths, str):
        choice("widths", widths, ("cross_validation", "empirical_bayes"))
        return None
    try:
        deviation, task = (float(w) for w in widths)
    except (TypeError, ValueError):
        raise TableError(f"widths is {widths!r}: give cross_validation, empirical_bayes or two numbers") from None
    if not (0 < deviation < np.inf and 0 < task < np.inf):
        raise TableError(f"widths is {widths!r}: both standard deviations must be positive")
    return Widths(deviation, task)


def _given_shift(shift: Any) -> float | None:
    if shift == "checked":
        return None
    if isinstance(shift, bool) or not isinstance(shift, int | float) or not np.isfinite(shift):
        raise TableError(f"shift is {shift!r}: give 'checked' or a number of logits, such as -0.21 or 0")
    return float(shift)


def check_fillable(g: Grid, what: str) -> None:
    """Refuse `what` where the gate leaves nothing to correct: task ids unknown, no gate, or nothing scored."""
    g.need_known_tasks(what)
    if g.gate == "off":
        raise TableError(f"{what} needs the gate: with gate='off' every task is scored and there is nothing to correct")
    if not g.scored.any():
        raise TableError(f"{what}: no task is solved alone and scored in any row, so there is nothing to fit")


def _posterior_widths(posterior: Any) -> Widths:
    """Posterior mean widths for the checks that refit the model; 1 where the model has no such width."""
    pair = np.nan_to_num([posterior.sd_deviation, posterior.sd_task], nan=1.0)
    return Widths(float(pair[0]), float(pair[1]))


def _fitted(trials: Trials, widths: Any, given: Widths | None, seed: int) -> tuple[Fit, HeldOut | None, str | None]:
    """The fit, its held-out log loss, and why there is none."""
    if given is None and widths == "cross_validation":
        return *model.cross_validate(trials, seed), None
    fit = model.empirical_bayes(trials) if given is None else model.fit(trials, given)
    try:
        return fit, model.held_out(trials, fit.widths, seed, start=fit), None
    except TableError as e:
        return fit, None, str(e)


# -- the grid as the model reads it -----------------------------------------------------------------------


def trials_of(g: Grid) -> Trials:
    """Scores and numbers of test runs of the scored cells."""
    there = g.scored[:, :, None] & ~np.isnan(g.by_seed)
    return Trials(np.where(there, g.by_seed, 0.0).sum(axis=2), there.sum(axis=2).astype(float), g.slices)


def fillable(g: Grid) -> Mask:
    """Cells to fill in: failed alone, and no run refused; shape (R, T)."""
    return g.decided & ~g.solved & ~g.refused


def adjusted_points(g: Grid, fill: Mask, filled: Array) -> Array:
    """Dimension scores over scored and filled cells, shape (R, dimensions); NaN without a scored task."""
    values = np.where(fill, filled, g.values)
    points = bootstrap.dimension_means(values, g.scored | fill, g.slices)
    return np.where(_n_per_dimension(g, g.scored) > 0, points, np.nan)


def _n_per_dimension(g: Grid, which: Mask) -> NDArray[np.int64]:
    return np.array([which[:, d].sum(axis=1) for d in g.slices], dtype=np.int64).T


def _filled(g: Grid, fill: Mask, source: Fit | model.Draws, shift: float) -> Array:
    """Expected score of the cells to fill in, shape (R, T); NaN elsewhere. Of draws, their mean."""
    if isinstance(source, Fit):
        return np.where(fill, expit(source.logits + shift), np.nan)
    out = np.full(fill.shape, np.nan)
    for d, rows, tasks in _cells_by_dimension(g, fill):
        out[rows, tasks] = expit(source.logits(d, rows, tasks) + shift).mean(axis=0)
    return out


def _cells_by_dimension(g: Grid, which: Mask) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    out = []
    for d, tasks in enumerate(g.slices):
        rows, at = np.nonzero(which[:, tasks])
        out.append((d, rows, at + tasks.start))
    return out


def _some(draws: model.Draws, n: int, rng: np.random.Generator) -> model.Draws:
    at = rng.integers(0, len(draws.level), size=n)
    return model.Draws(draws.level[at], draws.difficulty[at])


def _replicates(
    g: Grid, fill: Mask, draws: model.Draws, shift: float, resamples: int, rng: np.random.Generator
) -> Array:
    """Adjusted dimension scores, shape (dimensions, resamples, R): each resample has its tasks and its draw."""
    n_rows = g.rows.height
    out = np.empty((len(g.slices), resamples, n_rows))
    for d, rows, tasks in _cells_by_dimension(g, fill):
        at = g.slices[d]
        counts = bootstrap.draw_counts(at.stop - at.start, resamples, rng)
        total = counts @ np.where(g.scored[:, at], g.values[:, at], 0.0).T
        n = counts @ (g.scored | fill)[:, at].T.astype(float)
        belongs = (rows[:, None] == np.arange(n_rows)).astype(float)
        total += (counts[:, tasks - at.start] * expit(draws.logits(d, rows, tasks) + shift)) @ belongs
        with np.errstate(invalid="ignore", divide="ignore"):
            out[d] = total / n
        out[d][:, ~g.scored[:, at].any(axis=1)] = np.nan
    return out


# -- hide and predict -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pair:
    """One pair of the check: what row A scores in full, and what it takes to predict that from what remains.

    `full` and `remaining` are overall scores, `logits` those of the hidden cells, `weights` what each of them counts
    for in the overall score, and `rest` the part of the score that stays observed.
    """

    full: float
    remaining: float
    rest: float
    logits: Array
    weights: Array

    def filled(self, shift: float) -> float:
        return self.rest + float(self.weights @ expit(self.logits + shift))


def hide_and_predict(g: Grid, trials: Trials, fit: Fit) -> tuple[pl.DataFrame, list[_Pair]]:
    """Hide a weaker row's results on the tasks that another weaker row fails alone, and predict its full score.

    Every ordered pair of the weaker rows (the lower 14 of 24, or that share of the rows) counts in which something is
    hidden and every dimension keeps a task; of more than `MOST_PAIRS`, as many are drawn. The model is refitted without
    what is hidden, at the same widths.

    Returns
    -------
    hidden : see `FillInResult.hidden`, without `shifted_pct`.
    pairs : the same as numbers, for the shift.
    """
    overall = bootstrap.overall_means(g.points())
    order = [r for r in np.argsort(overall, kind="stable") if np.isfinite(overall[r])]
    weaker = sorted(int(r) for r in order[: round(WEAKER * len(order))])
    failed = fillable(g)
    which = []
    for a in weaker:
        for b in weaker:
            hide = g.scored[a] & failed[b]
            left = g.scored[a] & ~hide
            if a != b and hide.any() and all(left[d].any() for d in g.slices):
                which.append((a, b, hide))
    if len(which) > MOST_PAIRS:
        drawn = np.random.default_rng(0).choice(len(which), MOST_PAIRS, replace=False)
        which = [which[i] for i in np.sort(drawn)]
    pairs = _pairs(g, trials, fit, [(a, hide) for a, _, hide in which])
    lines = [
        (g.names[a], g.names[b], int(hide.sum()), 100 * p.full, 100 * p.remaining, 100 * p.filled(0.0))
        for (a, b, hide), p in zip(which, pairs, strict=True)
    ]
    schema: dict[str, Any] = {"row": pl.String, "other": pl.String, "n_hidden": pl.Int64}
    schema |= dict.fromkeys(("full_pct", "remaining_pct", "filled_pct"), pl.Float64)
    return pl.DataFrame(lines, schema=schema, orient="row"), pairs


def _pairs(g: Grid, trials: Trials, fit: Fit, hidden: Sequence[tuple[int, Mask]]) -> list[_Pair]:
    """Each with its row and its hidden tasks."""
    out: list[_Pair] = []
    for first in range(0, len(hidden), _PAIRS_AT_ONCE):
        some = hidden[first : first + _PAIRS_AT_ONCE]
        cells = np.zeros((len(some), *g.scored.shape), bool)
        for k, (a, hide) in enumerate(some):
            cells[k, a] = hide
        fits = model.fit_each([trials.without(c) for c in cells], fit.widths, [fit] * len(some))
        out += [_pair(g, a, hide, f.logits_of(a)[hide]) for (a, hide), f in zip(some, fits, strict=True)]
    return out


def _pair(g: Grid, a: int, hide: Mask, logits: Array) -> _Pair:
    values = np.where(g.scored[a], g.values[a], 0.0)
    weight = np.zeros(len(values))
    remaining = 0.0
    for d in g.slices:
        weight[d] = g.scored[a, d] / (len(g.slices) * g.scored[a, d].sum())
        left = g.scored[a, d] & ~hide[d]
        remaining += values[d][left].mean() / len(g.slices)
    return _Pair(float(weight @ values), remaining, float(weight[~hide] @ values[~hide]), logits, weight[hide])


def _checked_shift(pairs: Sequence[_Pair]) -> tuple[float, str]:
    """The shift in logits that makes the mean error of the filled-in scores zero."""
    from scipy.optimize import brentq

    if not pairs:
        return 0.0, "no pair of weaker rows permits the check, so nothing is shifted"

    def error(shift: float) -> float:
        return float(np.mean([p.filled(shift) - p.full for p in pairs]))

    low, high = -5.0, 5.0
    if error(low) > 0 or error(high) < 0:
        return 0.0, "no shift between -5 and 5 logits removes the error of the check, so nothing is shifted"
    return float(brentq(error, low, high, xtol=1e-6)), "removes the mean error of the hide-and-predict check"


def _with_shift(hidden: pl.DataFrame, pairs: Sequence[_Pair], shift: float) -> pl.DataFrame:
    return hidden.with_columns(shifted_pct=pl.Series([100 * p.filled(shift) for p in pairs], dtype=pl.Float64))


# -- alone failures against the test ----------------------------------------------------------------------


def strong_rows(g: Grid) -> list[int]:
    """Positions of the rows that solve at least 97 % of their decided tasks alone."""
    asked = g.decided & ~g.refused
    with np.errstate(invalid="ignore"):
        share = (g.solved & asked).sum(axis=1) / asked.sum(axis=1)
    return [int(r) for r in np.flatnonzero(share >= STRONG)]


def alone_failures(g: Grid, strong: Sequence[int], rng: np.random.Generator) -> pl.DataFrame:
    """Is a task that more rows fail alone a harder test, too? Spearman within dimension, permuted within dimension.

    Returns
    -------
    DataFrame
        See `FillInResult.alone_failures`; p is two-sided with 9,999 shuffles. Null where nothing varies.
    """
    failed = fillable(g).sum(axis=0).astype(float)
    scored = g.scored[strong]
    n = scored.sum(axis=0)
    with np.errstate(invalid="ignore"):
        score = np.where(scored, g.values[strong], 0.0).sum(axis=0) / n
    parts = []
    for d in g.slices:
        there = n[d] > 0
        parts.append((_centred_ranks(failed[d][there]), _centred_ranks(score[d][there])))
    lines = [_spearman(None, parts, rng)]
    lines += [_spearman(name, [part], rng) for name, part in zip(g.dimensions, parts, strict=True)]
    schema = {"dimension": pl.String, "n_tasks": pl.Int64, "spearman": pl.Float64, "p": pl.Float64}
    return pl.DataFrame(lines, schema=schema, orient="row")


def _centred_ranks(values: Array) -> Array:
    # Means that are equal up to rounding share a rank.
    return average_ranks(np.round(values, 9)) - (len(values) + 1) / 2


def _spearman(
    name: str | None, parts: Sequence[tuple[Array, Array]], rng: np.random.Generator
) -> tuple[str | None, int, float | None, float | None]:
    n = sum(len(x) for x, _ in parts)
    spread = np.sqrt(sum(x @ x for x, _ in parts) * sum(y @ y for _, y in parts))
    if spread == 0:
        return name, n, None, None
    observed = sum(x @ y for x, y in parts) / spread
    draws = sum(rng.permuted(np.tile(y, (_PERMUTATIONS, 1)), axis=1) @ x for x, y in parts) / spread
    return name, n, float(observed), permutation_p(float(observed), draws)


# -- tables -----------------------------------------------------------------------------------------------


def _row_table(g: Grid, fill: Mask, adjusted: Array, replicates: Array, ci_level: float) -> pl.DataFrame:
    score, new = bootstrap.overall_means(g.points()), bootstrap.overall_means(adjusted)
    lo, hi = bootstrap.percentile_interval(replicates.mean(axis=0), ci_level)
    ranks, new_ranks = shared_ranks(score), shared_ranks(new)
    change = [None if a is None or b is None else b - a for a, b in zip(ranks, new_ranks, strict=True)]
    lines = g.rows.select(ROW).with_columns(
        pl.Series("rank", ranks, dtype=pl.Int64),
        *percent_columns(score_pct=score),
        pl.Series("adjusted_rank", new_ranks, dtype=pl.Int64),
        pl.Series("rank_change", change, dtype=pl.Int64),
        *percent_columns(adjusted_pct=new, lo_pct=lo, hi_pct=hi, change_points=new - score),
        pl.Series("n_scored", g.scored.sum(axis=1), dtype=pl.Int64),
        pl.Series("n_filled", fill.sum(axis=1), dtype=pl.Int64),
    )
    return lines.sort("adjusted_rank", "rank", nulls_last=True, maintain_order=True)


def _dimension_table(g: Grid, fill: Mask, adjusted: Array, replicates: Array, ci_level: float) -> pl.DataFrame:
    n_rows, n_dims = adjusted.shape
    score = g.points()
    lo, hi = (ends.T.ravel() for ends in bootstrap.percentile_interval(replicates.transpose(1, 0, 2), ci_level))
    at = np.repeat(np.arange(n_rows), n_dims)
    return g.rows.select(ROW)[at].with_columns(
        pl.Series("dimension", list(g.dimensions) * n_rows, dtype=pl.String),
        *percent_columns(score_pct=score.ravel(), adjusted_pct=adjusted.ravel(), lo_pct=lo, hi_pct=hi),
        *percent_columns(change_points=(adjusted - score).ravel()),
        pl.Series("n_scored", _n_per_dimension(g, g.scored).ravel(), dtype=pl.Int64),
        pl.Series("n_filled", _n_per_dimension(g, fill).ravel(), dtype=pl.Int64),
    )


def percent_columns(**columns: Array) -> list[pl.Series]:
    """Fractions as columns in percent, NaN as null."""
    return [pl.Series(name, 100 * values).fill_nan(None) for name, values in columns.items()]


def _movement(dimensions: pl.DataFrame) -> pl.DataFrame:
    lines = []
    for least, most in BINS:
        within = pl.col("n_scored") >= least if most is None else pl.col("n_scored").is_between(least, most)
        found = dimensions.filter(within & pl.col("change_points").is_not_null())["change_points"]
        lines.append((f"{least} or more" if most is None else f"{least} to {most}", found.len(), found.abs().mean()))
    schema = {"scored_tasks": pl.String, "n_cells": pl.Int64, "mean_absolute_points": pl.Float64}
    return pl.DataFrame(lines, schema=schema, orient="row")


def _quantities(
    table: pl.DataFrame,
    hidden: pl.DataFrame,
    fit: Fit,
    held: HeldOut | None,
    held_note: str | None,
    shift: tuple[float, str],
    alone: pl.DataFrame,
    strong: Sequence[int],
) -> pl.DataFrame:
    both = table.drop_nulls(["score_pct", "adjusted_pct"])
    tau = kendall_tau_b(both["score_pct"], both["adjusted_pct"]) if both.height > 1 else None
    change, ranks = both["change_points"], both["rank_change"].abs()
    error = {c: (hidden[c] - hidden["full_pct"]).mean() for c in ("remaining_pct", "filled_pct", "shifted_pct")}
    no_pair = None if hidden.height else "no pair of weaker rows permits the check"
    few = None if strong else f"no row solves {percent(STRONG)} of the tasks alone"
    lines: list[tuple[str, Any, str | None]] = [
        ("sd_deviation", fit.widths.deviation, "logits"),
        ("sd_task", fit.widths.task, "logits"),
        ("log_loss", held and held.log_loss, held_note or "nats per run, held out"),
        ("log_loss_own_mean", held and held.log_loss_own_mean, held_note or "nats per run, same folds"),
        ("shift", shift[0], f"logits; {shift[1]}"),
        ("pairs", hidden.height, no_pair),
        ("error_remaining_points", error["remaining_pct"], no_pair),
        ("error_filled_points", error["filled_pct"], no_pair),
        ("error_shifted_points", error["shifted_pct"], no_pair),
        ("mean_change_points", change.mean(), None),
        ("largest_change_points", change.abs().max(), None),
        ("largest_rank_change", ranks.max(), None),
        ("kendall_tau_b", tau and tau.estimate, tau.reason if tau else "fewer than two rows with both scores"),
        ("strong_rows", len(strong), few),
        ("alone_failures_spearman", alone["spearman"][0], few),
        ("alone_failures_p", alone["p"][0], few),
    ]
    schema = {"quantity": pl.String, "value": pl.Float64, "note": pl.String}
    numbers = [(name, None if value is None else float(value), note) for name, value, note in lines]
    return pl.DataFrame(numbers, schema=schema, orient="row")
