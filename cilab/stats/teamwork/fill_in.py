"""Adjusted scores: every row on the same tasks, with the tests that it never took filled in from one model.

May import `cilab.core` and its own folder. Reads no file, plays nothing. The model is that of
`cilab.stats.methods.row_task_model`; with engine `nuts` it is sampled by `cilab.stats.methods.bayes`.

Intervals by the rule are those of a mean of scores over clusters of tasks (`cilab.stats.methods.uncertainty`), with
what each task contributes in three ways: by its own value, by moving the fit and with it all that is filled in, and by
moving the shift. `benchmarks/studies/fill_in_coverage.py` measures what they cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Unpack

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
from cilab.stats.methods.row_task_model import Fit, HeldOut, Parameters, Trials, Widths, expit
from cilab.stats.methods.uncertainty import Bounds, IntervalKind
from cilab.stats.teamwork import intervals
from cilab.stats.teamwork.grid import ALONE, Grid, Scope, grid
from cilab.stats.teamwork.scores import shared_ranks
from cilab.stats.teamwork.task_runs import SAME

if TYPE_CHECKING:
    import arviz

    from cilab.stats.methods.bayes import Diagnostics

Engine = Literal["laplace", "nuts"]
WidthRule = Literal["cross_validation", "empirical_bayes"]
Fill = Literal["gated", "missing", "both"]

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
#: Rows or cells named in a sentence; more are counted.
_NAMED = 5
_SCORED = {"solved_alone": "solved alone and scored", "off": "scored"}


@dataclass(frozen=True, kw_only=True, repr=False)
class FillInResult(Result):
    """Adjusted scores beside the leaderboard's.

    Attributes
    ----------
    table : one line per row, best first: `model, effort, arm, rank, score_pct, adjusted_rank, rank_change` (positive:
        lower after adjusting), `adjusted_pct, lo_pct, hi_pct, no_interval, n_clusters, change_points` (adjusted minus
        score); tasks: `n_scored`, `n_filled`, of which `n_filled_gated` were failed alone and `n_filled_missing` are
        missing, and `n_missing`, filled in or not. `n_clusters` counts those of the scored tasks.
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
                **({"Missing": str(r["n_missing"])} if self.table["n_missing"].sum() else {}),
            }
            for name, r in zip(names_of(self.table), self.table.iter_rows(named=True), strict=True)
        ]
        return self.on_sheet(lines, stub="Row")

    def notes(self) -> list[str]:
        """As in `Result`, with how well the model predicts and, where it was sampled, whether the chains are sound."""
        out = super().notes()
        more = [*self.remarks]
        if n := int(self.table["no_interval"].is_not_null().sum()):
            more.append(f"Scores without an interval: {n:,} of {self.table.height:,} (column no_interval says why).")
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
    fill: Fill = "gated",
    engine: Engine = "laplace",
    widths: Annotated[WidthRule | tuple[float, float], inside] = "cross_validation",
    shift: Annotated[Literal["checked"] | float, inside] = "checked",
    resamples: Resamples = RESAMPLES_OTHER,
    seed: Seed = 0,
    interval: IntervalKind = "rule",
    ci_level: Level = CI_LEVEL,
    sampler: Mapping[str, Any] | None = None,
    **scope: Unpack[Scope],
) -> FillInResult:
    """Score every row on the same tasks: observed cells keep their means, tests never taken are filled in.

    Log-odds of a pass = dimension mean + row ability + row's deviation in the dimension - task difficulty, fitted to
    all test runs on the tasks that each row solves alone; deviations and difficulties have normal priors. Graded runs
    enter as fractional Bernoulli. Refused tasks stay out. A dimension without a scored task has no adjusted score, as
    it would be the model's alone. Where nothing is to be filled in, the adjusted score is the score, and it is said.

    Parameters
    ----------
    study : runs table (polars or pandas), opened study or data set.
    fill : what is filled in: `gated`, tasks that the row failed alone (the paper's); `missing`, those that a missing
        run keeps out (never taken, or ended in an error), if another row has a score on them, as though the gate had
        let them pass; or `both`. What is not filled in stays out, and missing tasks are counted and named. Without the
        gate, as of version `alone`, only missing tasks can be filled in.
    engine : `laplace` (penalised likelihood and its normal approximation) or `nuts` (sampled; widths have priors).
    widths : of engine `laplace`: by five-fold `cross_validation` (folds hold whole cells of a row and a task), by
        `empirical_bayes`, or the two standard deviations (deviation, task) in logits.
    shift : logits added to tasks failed alone; missing ones get none, as nothing says that they are hard. `checked`:
        the one that removes the mean error of the hide-and-predict check (0, with a note, where no pair permits it);
        or a number.
    resamples : of the interval `percentile`.
    seed : of folds, draws and resamples.
    interval : by the rule of `cilab.stats.methods.uncertainty`, over new tasks: fit and `checked` shift hang on the
        tasks too, and their uncertainty is in it (widths are held fixed). `percentile` is the paper's: tasks are
        resampled within dimension, each resample with its own draw from the posterior; no uncertainty of the shift.
    ci_level : of the intervals.
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
        Published task ids, too few cells for the folds, an argument out of range, or as in `grid`.

    References
    ----------
    Collaborative-intelligence paper, appendix C.3; Efron (1982), The jackknife, the bootstrap and other resampling
    plans, chapter 6, for the contributions of tasks.

    Examples
    --------
    Model a solves both tasks of each of two dimensions alone, model b half of them:

    >>> import polars as pl
    >>> runs = [("a", t, v, s) for t in ("1", "2", "3", "4") for v, s in (("alone", 1.0), ("test", float(t < "4")))]
    >>> runs += [("b", t, v, 1.0) for t in ("1", "3") for v in ("alone", "test")]
    >>> runs += [("b", t, "alone", 0.0) for t in ("2", "4")]
    >>> frame = pl.DataFrame(runs, ["model", "task_id", "version", "score"], orient="row").with_columns(
    ...     status=pl.lit("ok"), dimension=pl.when(pl.col("task_id") < "3").then(pl.lit("x")).otherwise(pl.lit("y"))
    ... )
    >>> found = fill_in(frame, widths=(0.5, 1.0))
    >>> found.table.select("model", "score_pct", pl.col("adjusted_pct").round(1), "n_filled").rows()
    [('b', 100.0, 95.6, 2), ('a', 75.0, 75.0, 0)]
    """
    choice("engine", engine, ("laplace", "nuts"))
    given = _given_widths(widths)
    fixed_shift = _given_shift(shift)
    g = grid(study, **scope)
    check_scored(g, "fill_in")
    fills = _Fills.of(g, fill)
    trials = trials_of(g)
    posterior = None
    if engine == "nuts":
        from cilab.stats.methods import bayes

        posterior = bayes.sample(trials, seed=seed, **(sampler or {}))
        given = _posterior_widths(posterior)
    fit, held, held_note = _fitted(trials, widths, given, seed, needed=bool(fills.any.any()))
    hidden, pairs = hide_and_predict(g, trials, fit)
    shifted = _checked_shift(pairs) if fixed_shift is None else _Shift(fixed_shift, "given")
    hidden = _with_shift(hidden, pairs, shifted.value)

    filled = _filled(g, fills, fit if posterior is None else posterior.draws, shifted.value)
    adjusted = adjusted_points(g, fills.any, filled)
    if posterior is not None and not posterior.diagnostics.sound:
        adjusted = np.full_like(adjusted, np.nan)
    if interval == "percentile":
        rng = np.random.default_rng([seed, 1])
        draws = fit.draws(resamples, rng) if posterior is None else _some(posterior.draws, resamples, rng)
        found = _percentiles(g, adjusted, _replicates(g, fills, draws, shifted.value, resamples, rng), ci_level)
        how = "tasks resampled within dimension, fill-ins drawn anew"
    else:
        moved = _shift_influence(g, trials, fit.widths, pairs, shifted)
        found = _by_the_rule(g, fills, trials, fit, filled, adjusted, moved, ci_level)
        how = f"over {intervals.units(g)}; the fit and the shift vary with them"
    dimensions = _dimension_table(g, fills, adjusted, found)
    table = _row_table(g, fills, adjusted, found)
    strong = strong_rows(g)
    alone = alone_failures(g, strong, np.random.default_rng([seed, 2]))
    numbers = _quantities(table, hidden, fit, held, held_note, (shifted.value, shifted.note), alone, strong)
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
        remarks=(*g.notes, *_remarks(g, fills, fill)),
        n_used=g.n_used,
        n_left_out=g.n_left_out,
        provenance=g.provenance,
        parameters=g.asked,
        caption=f"Percent, {percent(ci_level)} intervals: {how}.",
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


def check_scored(g: Grid, what: str) -> None:
    """Refuse `what` where there is nothing to fit: task ids unknown, or no task scored in any row."""
    g.need_known_tasks(what)
    if not g.scored.any():
        raise TableError(f"{what}: no task is {_SCORED[g.gate]} in any row, so there is nothing to fit")


def check_fillable(g: Grid, what: str) -> None:
    """As `check_scored`, and refuse `what` where the gate leaves nothing to correct."""
    if g.gate == "off":
        how = f"version={g.version!r} is scored without it" if g.version == ALONE else "with gate='off'"
        raise TableError(f"{what} needs the gate: {how}, so every task is scored and there is nothing to correct")
    check_scored(g, what)


def _posterior_widths(posterior: Any) -> Widths:
    """Posterior mean widths for the checks that refit the model; 1 where the model has no such width."""
    pair = np.nan_to_num([posterior.sd_deviation, posterior.sd_task], nan=1.0)
    return Widths(float(pair[0]), float(pair[1]))


def _fitted(
    trials: Trials, widths: Any, given: Widths | None, seed: int, *, needed: bool
) -> tuple[Fit, HeldOut | None, str | None]:
    """The fit, its held-out log loss, and why there is none. Too few cells for folds matter where a fit is `needed`."""
    if given is None and widths == "cross_validation":
        try:
            return *model.cross_validate(trials, seed), None
        except TableError:
            if needed:
                raise
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


def never_taken(g: Grid) -> Mask:
    """Cells that a missing run keeps out and that can be filled in, as another row has a score there; shape (R, T)."""
    return g.missing & g.scored.any(axis=0)


@dataclass(frozen=True, eq=False, slots=True)
class _Fills:
    """Cells to fill in by kind: failed alone, never taken; shape (R, T)."""

    gated: Mask
    missing: Mask

    @classmethod
    def of(cls, g: Grid, fill: Fill) -> _Fills:
        none = np.zeros(g.scored.shape, bool)
        return cls(none if fill == "missing" else fillable(g), none if fill == "gated" else never_taken(g))

    @property
    def any(self) -> Mask:
        """Of either kind."""
        return self.gated | self.missing

    def shifts(self, shift: float) -> Array:
        """Logits added to each cell: tasks failed alone are known to be hard, those never taken are not."""
        return np.where(self.gated, shift, 0.0)


def _remarks(g: Grid, fills: _Fills, fill: Fill) -> list[str]:
    """Sentences on what is filled in and what is not, by kind."""
    out = []
    kinds = ((fills.gated, "failed alone"), (fills.missing, "missing"))
    words = [f"{n:,} {what}" for which, what in kinds if (n := int(which.sum()))]
    if fill != "gated" and words:
        out.append(f"Filled in: {', '.join(words)}.")
    if not words:
        why = []
        if fill != "missing":
            why.append("no gate keeps tasks out" if g.gate == "off" else "no row failed a task alone")
        if fill != "gated":
            why.append("no missing task has a score in another row")
        out.append(f"Nothing is filled in, as {' and '.join(why)}: adjusted scores are the scores.")
    can = int((never_taken(g) & ~fills.missing).sum())
    other = f"fill='missing' or 'both' fills in {can:,} of them" if can else "no other row has a score on them"
    out += [f"{words}; {other}." for words in stay_out(g, g.missing & ~fills.missing)]
    without = (_n_per_dimension(g, g.scored) == 0) & (_n_per_dimension(g, g.scored | g.decided | g.missing) > 0)
    if without.any():
        lacks = [f"{g.names[r]} in {g.dimensions[d].replace('_', ' ')}" for r, d in np.argwhere(without)]
        out.append(f"No scored task, so no adjusted score: {_some_of(lacks)}.")
    return out


def stay_out(g: Grid, which: Mask) -> list[str]:
    """One sentence without its stop on missing tasks that do not count, row by row; none where there is none."""
    n_tasks = int((g.scored | g.decided | g.missing).any(axis=0).sum())
    lacks = [f"{g.names[r]} {int(which[r].sum()):,} of {n_tasks:,}" for r in np.flatnonzero(which.any(axis=1))]
    return [f"Tasks with a missing run stay out: {_some_of(lacks)}"] if lacks else []


def _some_of(words: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = [f"{len(words) - _NAMED:,} more"] if len(words) > _NAMED else []
    return ", ".join([*words[:_NAMED], *more])


def adjusted_points(g: Grid, fill: Mask, filled: Array) -> Array:
    """Dimension scores over scored and filled cells, shape (R, dimensions); NaN without a scored task."""
    values = np.where(fill, filled, g.values)
    points = bootstrap.dimension_means(values, g.scored | fill, g.slices)
    return np.where(_n_per_dimension(g, g.scored) > 0, points, np.nan)


def _n_per_dimension(g: Grid, which: Mask) -> NDArray[np.int64]:
    return np.array([which[:, d].sum(axis=1) for d in g.slices], dtype=np.int64).T


def _filled(g: Grid, fills: _Fills, source: Fit | model.Draws, shift: float) -> Array:
    """Expected score of the cells to fill in, shape (R, T); NaN elsewhere. Of draws, their mean."""
    shifts = fills.shifts(shift)
    if isinstance(source, Fit):
        return np.where(fills.any, expit(source.logits + shifts), np.nan)
    out = np.full(shifts.shape, np.nan)
    for d, rows, tasks in _cells_by_dimension(g, fills.any):
        out[rows, tasks] = expit(source.logits(d, rows, tasks) + shifts[rows, tasks]).mean(axis=0)
    return out


def _cells_by_dimension(g: Grid, which: Mask) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    out = []
    for d, tasks in enumerate(g.slices):
        rows, at = np.nonzero(which[:, tasks])
        out.append((d, rows, at + tasks.start))
    return out


# -- intervals by the rule --------------------------------------------------------------------------------


class _Intervals(NamedTuple):
    """Of each row's overall score, and of each row's dimension scores; empty where a score is undefined."""

    overall: list[Bounds]
    by_dimension: list[list[Bounds]]


def _by_the_rule(
    g: Grid, fills: _Fills, trials: Trials, fit: Fit, filled: Array, adjusted: Array, moved: Array, ci_level: float
) -> _Intervals:
    """Intervals over clusters of tasks by what each contributes; `moved` is what each adds to the shift, (T,)."""
    n_dims = len(g.slices)
    share, own = _own_parts(g, fills.any, filled, adjusted)
    slope = np.where(fills.any, share * filled * (1 - filled), 0.0)
    contributions = np.zeros((g.rows.height, n_dims, g.tasks.height))
    for d, tasks in enumerate(g.slices):
        contributions[:, d, tasks] = own[:, tasks]
        of_filled = np.zeros_like(slope)
        of_filled[:, tasks] = slope[:, tasks]
        rows = np.flatnonzero(of_filled.any(axis=1))
        contributions[rows, d] += model.task_influence(fit, trials, rows, of_filled[rows])
        contributions[:, d] += np.where(fills.gated, of_filled, 0.0).sum(axis=1)[:, None] * moved
    overall = bootstrap.overall_means(adjusted)
    centre = np.nan_to_num(adjusted)[:, g.dimension_of]
    everywhere, by_dimension = [], []
    for r, scored in enumerate(g.scored):
        parts = contributions[r].mean(axis=0)
        args = (centre[r], ci_level)
        everywhere.append(_bounds(g, overall[r], parts, g.values[r], scored, fills.any[r], *args))
        line = []
        for d in range(n_dims):
            here = g.dimension_of == d
            cells = (g.values[r], scored & here, fills.any[r] & here)
            line.append(_bounds(g, adjusted[r, d], contributions[r, d], *cells, *args))
        by_dimension.append(line)
    return _Intervals(everywhere, by_dimension)


def _own_parts(g: Grid, fill: Mask, filled: Array, adjusted: Array) -> tuple[Array, Array]:
    """Of each cell, its share of the dimension's score and what its own value adds to it; shapes (R, T)."""
    used = g.scored | fill
    values = np.where(fill, filled, np.where(used, g.values, 0.0))
    share = used / np.maximum(_n_per_dimension(g, used), 1)[:, g.dimension_of]
    return share, share * (values - np.nan_to_num(adjusted)[:, g.dimension_of])


def _bounds(
    g: Grid, point: float, parts: Array, values: Array, scored: Mask, filled: Mask, centre: Array, ci_level: float
) -> Bounds:
    """Interval of one adjusted score; `parts` are what tasks contribute, those that it does not use as well.

    Whether there is one is settled by the row's scored tasks: what is filled in is the model's and no unit more. Where
    these are all alike, it is no narrower than the interval of their mean: the model's certainty is not theirs. Tasks
    that do not count in the score (of other dimensions, or refused) move it through the fit and the shift; what they
    add to its variance is laid on those that do.
    """
    if not np.isfinite(point):
        return Bounds()
    own = intervals.mean(g, values, scored, ci_level=ci_level)
    if own.lo is None or own.hi is None:
        return own
    of, used = g.dimension_of, scored | filled
    if (within := _variance(parts[used], g.clusters[used], of[used])) > 0:
        moving = used | (parts != 0)
        parts = parts * np.sqrt(_variance(parts[moving], g.clusters[moving], of[moving]) / within)
    weight = _unit_weights(parts, scored, filled, of)
    found = intervals.linear(g, float(point), parts, weight, centre, used=used, ci_level=ci_level)
    lo, hi = found.lo, found.hi
    if lo is None or hi is None:
        return found
    if _alike(values[scored], of[scored]):
        lo, hi = min(lo, own.lo), max(hi, own.hi)
    return found._replace(lo=lo, hi=hi, n_clusters=own.n_clusters)


def _unit_weights(parts: Array, scored: Mask, filled: Mask, of: NDArray[np.int64]) -> Array:
    """What each task counts for among the units, summing to one; dimensions alike, tasks by their kind.

    A scored task moves what is filled in as well, so it contributes more than one that is filled in. The weight of
    either kind is the root mean square of its contributions: with one scored task among many, that one is nearly all.
    """
    size = np.zeros(len(parts))
    for kind in (scored, filled & ~scored):
        if kind.any():
            size[kind] = np.sqrt((parts[kind] ** 2).mean())
    if not (size[scored] > 0).all():
        size[scored] = 1.0
    total = np.bincount(of, size)
    return size / (np.maximum(total, 1e-300)[of] * np.count_nonzero(total))


def _variance(parts: Array, clusters: NDArray[np.int64], of: NDArray[np.int64]) -> float:
    """Of the sum of contributions, by clusters within dimension (a cluster of several is counted in its first)."""
    _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
    stratum = of[first]
    n = np.bincount(stratum)
    sums = np.bincount(cluster, parts)
    sums = sums - (np.bincount(stratum, sums) / np.maximum(n, 1))[stratum]  # type: ignore[assignment]
    return float((n / np.maximum(n - 1, 1)) @ np.bincount(stratum, sums**2))


def _alike(values: Array, of: NDArray[np.int64]) -> bool:
    """Within each dimension all values are the same."""
    mean = np.bincount(of, values) / np.maximum(np.bincount(of), 1)
    return bool(np.abs(values - mean[of]).max() < SAME)


def _shift_influence(g: Grid, trials: Trials, widths: Widths, pairs: Sequence[_Pair], shifted: _Shift) -> Array:
    """How much each task moves the shift, in logits, shape (T,): 0 where it is no finding of the check.

    The shift is where the mean error of the pairs is 0, so a task moves it by what it adds to that error, by its own
    value and through the fits, over the slope of the error. Which rows are weak and which pairs count is held fixed.
    """
    n_dims, n_tasks = len(g.slices), g.tasks.height
    error, slope = np.zeros(n_tasks), 0.0
    if not shifted.by_check:
        return error
    for first in range(0, len(pairs), _PAIRS_AT_ONCE):
        some = pairs[first : first + _PAIRS_AT_ONCE]
        left = [trials.without(_cells_of(g, p.row, p.hide)) for p in some]
        # Memory does not allow for keeping all fits; from where they ended, one step finds them again.
        fits = model.fit_each(left, widths, [p.found for p in some])
        for pair, without, fit in zip(some, left, fits, strict=True):
            p = expit(pair.logits + shifted.value)
            gradient = np.zeros((1, n_tasks))
            gradient[0, pair.hide] = pair.weights * p * (1 - p)
            slope += float(gradient.sum())
            error += model.task_influence(fit, without, np.array([pair.row]), gradient)[0]
            missed = np.zeros(n_tasks)
            missed[pair.hide] = p - g.values[pair.row, pair.hide]
            for d in g.slices:
                there = g.scored[pair.row, d]
                around = np.where(there, missed[d] - missed[d].sum() / there.sum(), 0.0)
                error[d] += around / (n_dims * there.sum())
    return -error / slope


# -- intervals by percentiles -----------------------------------------------------------------------------


def _percentiles(g: Grid, adjusted: Array, replicates: Array, ci_level: float) -> _Intervals:
    """Plain percentiles of replicates of shape (dimensions, resamples, R)."""
    n = [intervals.n_clusters(g, u) for u in g.scored]
    lo, hi = bootstrap.percentile_interval(replicates.mean(axis=0), ci_level)
    overall = intervals.percentiles(bootstrap.overall_means(adjusted), lo, hi, n)
    by_dimension = []
    lo, hi = bootstrap.percentile_interval(replicates.transpose(1, 0, 2), ci_level)
    for r, u in enumerate(g.scored):
        own = [intervals.n_clusters(g, u & (g.dimension_of == d)) for d in range(len(g.slices))]
        by_dimension.append(intervals.percentiles(adjusted[r], lo[:, r], hi[:, r], own))
    return _Intervals(overall, by_dimension)


def _some(draws: model.Draws, n: int, rng: np.random.Generator) -> model.Draws:
    at = rng.integers(0, len(draws.level), size=n)
    return model.Draws(draws.level[at], draws.difficulty[at])


def _replicates(
    g: Grid, fills: _Fills, draws: model.Draws, shift: float, resamples: int, rng: np.random.Generator
) -> Array:
    """Adjusted dimension scores, shape (dimensions, resamples, R): each resample has its tasks and its draw."""
    n_rows, fill, shifts = g.rows.height, fills.any, fills.shifts(shift)
    out = np.empty((len(g.slices), resamples, n_rows))
    for d, rows, tasks in _cells_by_dimension(g, fill):
        at = g.slices[d]
        counts = bootstrap.draw_counts(at.stop - at.start, resamples, rng)
        total = counts @ np.where(g.scored[:, at], g.values[:, at], 0.0).T
        n = counts @ (g.scored | fill)[:, at].T.astype(float)
        belongs = (rows[:, None] == np.arange(n_rows)).astype(float)
        logits = draws.logits(d, rows, tasks) + shifts[rows, tasks]
        total += (counts[:, tasks - at.start] * expit(logits)) @ belongs
        with np.errstate(invalid="ignore", divide="ignore"):
            out[d] = total / n
        out[d][:, ~g.scored[:, at].any(axis=1)] = np.nan
    return out


# -- hide and predict -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pair:
    """One pair of the check: what row A scores in full, and what it takes to predict that from what remains.

    `full` and `remaining` are overall scores, `logits` those of the hidden cells, `weights` what each of them counts
    for in the overall score, and `rest` the part of the score that stays observed. `row` is A, `hide` its hidden tasks,
    shape (T,), `found` what was fitted without them.
    """

    row: int
    hide: Mask
    found: Parameters
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
        left = [trials.without(_cells_of(g, a, hide)) for a, hide in some]
        fits = model.fit_each(left, fit.widths, [fit] * len(some))
        out += [_pair(g, a, hide, f) for (a, hide), f in zip(some, fits, strict=True)]
    return out


def _cells_of(g: Grid, row: int, tasks: Mask) -> Mask:
    """Some tasks of one row, shape (R, T)."""
    out = np.zeros(g.scored.shape, bool)
    out[row] = tasks
    return out


def _pair(g: Grid, a: int, hide: Mask, fit: Fit) -> _Pair:
    values = np.where(g.scored[a], g.values[a], 0.0)
    weight = np.zeros(len(values))
    remaining = 0.0
    for d in g.slices:
        weight[d] = g.scored[a, d] / (len(g.slices) * g.scored[a, d].sum())
        left = g.scored[a, d] & ~hide[d]
        remaining += values[d][left].mean() / len(g.slices)
    full, rest = float(weight @ values), float(weight[~hide] @ values[~hide])
    return _Pair(a, hide, fit.parameters, full, remaining, rest, fit.logits_of(a)[hide], weight[hide])


class _Shift(NamedTuple):
    """A shift in logits, where it comes from in words, and whether the check found it."""

    value: float
    note: str
    by_check: bool = False


def _checked_shift(pairs: Sequence[_Pair]) -> _Shift:
    """The shift that makes the mean error of the filled-in scores zero."""
    from scipy.optimize import brentq

    if not pairs:
        return _Shift(0.0, "no pair of weaker rows permits the check, so nothing is shifted")

    def error(shift: float) -> float:
        return float(np.mean([p.filled(shift) - p.full for p in pairs]))

    low, high = -5.0, 5.0
    if error(low) > 0 or error(high) < 0:
        return _Shift(0.0, "no shift between -5 and 5 logits removes the error of the check, so nothing is shifted")
    found = float(brentq(error, low, high, xtol=1e-6))
    return _Shift(found, "removes the mean error of the hide-and-predict check", by_check=True)


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


def _row_table(g: Grid, fills: _Fills, adjusted: Array, found: _Intervals) -> pl.DataFrame:
    score, new = bootstrap.overall_means(g.points()), bootstrap.overall_means(adjusted)
    ranks, new_ranks = shared_ranks(score), shared_ranks(new)
    change = [None if a is None or b is None else b - a for a, b in zip(ranks, new_ranks, strict=True)]
    counts = _counted(g, fills)
    lines = g.rows.select(ROW).with_columns(
        pl.Series("rank", ranks, dtype=pl.Int64),
        *percent_columns(score_pct=score),
        pl.Series("adjusted_rank", new_ranks, dtype=pl.Int64),
        pl.Series("rank_change", change, dtype=pl.Int64),
        *percent_columns(adjusted_pct=new),
        *intervals.columns(found.overall),
        *percent_columns(change_points=new - score),
        *(pl.Series(name, n.sum(axis=1), dtype=pl.Int64) for name, n in counts.items()),
    )
    return lines.sort("adjusted_rank", "rank", nulls_last=True, maintain_order=True)


def _dimension_table(g: Grid, fills: _Fills, adjusted: Array, found: _Intervals) -> pl.DataFrame:
    n_rows, n_dims = adjusted.shape
    score = g.points()
    at = np.repeat(np.arange(n_rows), n_dims)
    return g.rows.select(ROW)[at].with_columns(
        pl.Series("dimension", list(g.dimensions) * n_rows, dtype=pl.String),
        *percent_columns(score_pct=score.ravel(), adjusted_pct=adjusted.ravel()),
        *intervals.columns([bounds for line in found.by_dimension for bounds in line]),
        *percent_columns(change_points=(adjusted - score).ravel()),
        *(pl.Series(name, n.ravel(), dtype=pl.Int64) for name, n in _counted(g, fills).items()),
    )


def _counted(g: Grid, fills: _Fills) -> dict[str, NDArray[np.int64]]:
    """Numbers of tasks by row and dimension, by kind."""
    kinds = {
        "n_scored": g.scored,
        "n_filled": fills.any,
        "n_filled_gated": fills.gated,
        "n_filled_missing": fills.missing,
        "n_missing": g.missing,
    }
    return {name: _n_per_dimension(g, which) for name, which in kinds.items()}


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
