"""The row-by-task logit model as arrays: its penalised fit, the widths of its penalties, draws from its posterior.

May import numpy, scipy, `cilab.stats.methods.parallel` and `cilab.core`. Knows arrays only: no tables, no files.
`cilab.stats.teamwork.fill_in` uses it for test scores, `cilab.stats.teamwork.weighting` for the propensity of solving a
task alone.

The model: log-odds of a pass = dimension mean + row ability + row's deviation in the dimension - task difficulty.
Deviations and difficulties have normal priors of the two widths; means and abilities a weak one (`WEAK` logits), so
that an estimate exists for a row that passes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cilab.core.errors import TableError
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.parallel import each

#: Standard deviation, in logits, of the prior of dimension means and of row abilities.
WEAK = 5.0
FOLDS = 5

#: Newton's steps shrink quadratically: after one of 1e-4 what is left is beyond the seventh digit.
_MAX_STEPS, _REST = 100, 1e-4
_LEAST_WIDTH, _MOST_WIDTH = 0.02, 20.0
#: Cells of fits made together: enough to spare Python's overhead, few enough to stay in the processor's cache.
_AT_ONCE = 60_000


def expit(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    from scipy import special

    return special.expit(x)


@dataclass(frozen=True, eq=False)
class Trials:
    """What was observed. R rows, T tasks.

    Attributes
    ----------
    passes : sum of the scores of a cell's runs, shape (R, T); a graded run (0.5) is half a pass.
    runs : number of the cell's runs, shape (R, T); 0 where there is nothing.
    dimensions : one slice of the task axis per dimension.
    """

    passes: Array
    runs: Array
    dimensions: tuple[slice, ...]

    def without(self, cells: NDArray[np.bool_]) -> Trials:
        """The same with some cells hidden."""
        return Trials(np.where(cells, 0.0, self.passes), np.where(cells, 0.0, self.runs), self.dimensions)

    def only(self, cells: NDArray[np.bool_]) -> Trials:
        """The same with only these cells."""
        return self.without(~cells)


@dataclass(frozen=True, slots=True)
class Widths:
    """Standard deviations of the priors, in logits.

    Attributes
    ----------
    deviation, task : of a row's deviation in a dimension, and of a task's difficulty.
    mean, ability : of dimension means and of row abilities; weak on purpose.
    """

    deviation: float
    task: float
    mean: float = WEAK
    ability: float = WEAK


class Parameters(NamedTuple):
    """A fit's `ability`, `level` and `difficulty`, to begin another from."""

    ability: Array
    level: Array
    difficulty: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """A penalised fit, and what its Laplace approximation needs.

    Attributes
    ----------
    ability : shape (R,), logits; around 0.
    level : dimension mean + ability + deviation, logits, shape (dimensions, R).
    difficulty : shape (T,), logits; positive is harder.
    widths : of the priors.
    objective : penalised log likelihood at the mode, without the constants of the priors.
    curvature : of the objective at the mode.
    """

    ability: Array
    level: Array
    difficulty: Array
    widths: Widths
    objective: float
    curvature: _Curvature
    dimensions: tuple[slice, ...]

    @property
    def logits(self) -> Array:
        """Log-odds of a pass in every cell, shape (R, T)."""
        return np.repeat(self.level, [d.stop - d.start for d in self.dimensions], axis=0).T - self.difficulty

    def logits_of(self, row: int) -> Array:
        """Log-odds of a pass of one row, shape (T,)."""
        return np.repeat(self.level[:, row], [d.stop - d.start for d in self.dimensions]) - self.difficulty

    @cached_property
    def log_marginal(self) -> float:
        """Laplace approximation of the log marginal likelihood."""
        n_dims, n_rows = self.level.shape
        w = self.widths
        of_priors = n_dims * _Prior.of(n_rows, w).level_logdet
        of_priors -= 2 * n_rows * np.log(w.ability) + 2 * len(self.difficulty) * np.log(w.task)
        # What pads a dimension has no likelihood, so that its curvature is its prior's.
        n_padded = self.curvature.of_task.size - len(self.difficulty)
        return float(self.objective + 0.5 * (of_priors - 2 * n_padded * np.log(w.task) - self.curvature.logdet()))

    @property
    def parameters(self) -> Parameters:
        """What it found, without what it takes to draw from it."""
        return Parameters(self.ability, self.level, self.difficulty)

    def draws(self, n: int, rng: np.random.Generator) -> Draws:
        """Draws from the normal approximation at the mode: abilities, then levels, then difficulties."""
        c = self.curvature
        n_dims, n_rows = self.level.shape
        of_ability = np.linalg.solve(np.linalg.cholesky(c.of_ability).T, rng.standard_normal((n_rows, n)))
        own = np.linalg.solve(
            np.linalg.cholesky(c.of_level).transpose(0, 2, 1), rng.standard_normal((n_dims, n_rows, n))
        )
        prior = _Prior.of(n_rows, self.widths).level
        moved = (own + c.inverse @ prior @ of_ability).transpose(2, 0, 1)
        noise = rng.standard_normal((n, len(self.difficulty)))
        ease = np.empty_like(noise)
        for d, tasks in enumerate(self.dimensions):
            here = slice(tasks.stop - tasks.start)
            of_task = c.of_task[d, here]
            ease[:, tasks] = noise[:, tasks] / np.sqrt(of_task) - moved[:, d] @ (c.weights[d, :, here] / of_task)
        return Draws(self.level + moved, self.difficulty - ease)


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws: `level` of shape (draws, dimensions, R) and `difficulty` of shape (draws, T), in logits."""

    level: Array
    difficulty: Array

    def logits(self, d: int, rows: NDArray[np.int64], tasks: NDArray[np.int64]) -> Array:
        """Log-odds of the cells (rows[k], tasks[k]) of dimension number `d`, shape (draws, k)."""
        return self.level[:, d, rows] - self.difficulty[:, tasks]


# -- the penalised fit ------------------------------------------------------------------------------------
#
# Fits that differ in their data only are made together, along a first axis of length F. Tasks are laid out by
# dimension, (dimensions, M) with M the largest dimension; what pads a smaller one has no runs.


class _Observed(NamedTuple):
    """`runs` (F, dimensions, R, M), and the sums of passes by level (F, dimensions, R) and by task (F, dimensions, M).

    The log likelihood is linear in the passes, so that their sums say all of them.
    """

    runs: Array
    by_level: Array
    by_task: Array


class _Point(NamedTuple):
    """Abilities (F, R), levels (F, dimensions, R) and eases, which are difficulties with the other sign."""

    ability: Array
    level: Array
    ease: Array

    def moved(self, step: _Point, scale: Array) -> _Point:
        """With a part of a step taken; `scale` of shape (F,)."""
        return _Point(*(x + scale.reshape(-1, *[1] * (x.ndim - 1)) * s for x, s in zip(self, step, strict=True)))

    def largest(self) -> Array:
        """Largest absolute value of each, shape (F,)."""
        return np.max([np.abs(part).reshape(len(part), -1).max(axis=1) for part in self], axis=0)


class _Curvature(NamedTuple):
    """Negative second derivatives, eliminated in turn: tasks, then levels by dimension, then abilities.

    `weights` n p (1 - p) of the cells (dimensions, R, M); `of_task` (dimensions, M); `of_level` (dimensions, R, R) and
    its `inverse`; `of_ability` (R, R); while fits are made together, each with the first axis F.
    """

    weights: Array
    of_task: Array
    of_level: Array
    inverse: Array
    of_ability: Array

    def logdet(self) -> float:
        """Log determinant of the whole."""
        parts = np.linalg.slogdet(self.of_level)[1].sum() + np.linalg.slogdet(self.of_ability)[1]
        return float(parts + np.log(self.of_task).sum())


class _Prior(NamedTuple):
    """Precisions: of a dimension's levels around the abilities (R, R) with its log determinant, ability, task."""

    level: Array
    level_logdet: float
    ability: float
    task: float

    @classmethod
    def of(cls, n_rows: int, widths: Widths) -> _Prior:
        """A dimension's levels have covariance deviation^2 I + mean^2 J: own deviations, and the mean they share."""
        within, shared = widths.deviation**2, widths.mean**2
        both = within + n_rows * shared
        level = np.eye(n_rows) / within - shared / (within * both)
        logdet = -float(np.log(both) + (n_rows - 1) * np.log(within))
        return cls(level, logdet, widths.ability**-2, widths.task**-2)


_Parts = TypeVar("_Parts", _Observed, _Point, _Curvature)


def _pick(parts: _Parts, which: Any) -> _Parts:
    """Some of the fits, or one of them without the first axis."""
    return type(parts)(*(part[which] for part in parts))


def fit(trials: Trials, widths: Widths, start: Fit | None = None) -> Fit:
    """The mode of the penalised likelihood, by Newton's method; difficulties are eliminated, as each stands alone.

    Parameters
    ----------
    trials : the observed cells.
    widths : of the priors.
    start : a fit to begin from, which changes the time only.

    Raises
    ------
    TableError
        The method does not converge (the likelihood is concave, so this points to scores that are no fractions).
    """
    return fit_each([trials], widths, [start])[0]


def fit_each(trials: Sequence[Trials], widths: Widths, starts: Sequence[Fit | Parameters | None]) -> list[Fit]:
    """`fit` of several data sets of one shape, each as if it were alone, in a fraction of the time.

    Parameters
    ----------
    trials : with the same rows, tasks and dimensions.
    starts : for each of them a fit to begin from, or None.
    """
    size = max(1, _AT_ONCE // max(1, trials[0].runs.size)) if trials else 1
    batches = [(trials[i : i + size], widths, starts[i : i + size]) for i in range(0, len(trials), size)]
    if len(batches) == 1:  # the usual size: too little to send anywhere
        return _fit_together(*batches[0])
    return [one for some in each(lambda batch: _fit_together(*batch), batches) for one in some]


def _fit_together(trials: Sequence[Trials], widths: Widths, starts: Sequence[Fit | Parameters | None]) -> list[Fit]:
    dimensions = trials[0].dimensions
    place, real = _layout(dimensions)
    prior = _Prior.of(len(trials[0].runs), widths)
    observed = _observed(trials, place, real)
    at = _starting_point(observed, starts, place, real)
    out: list[Fit | None] = [None] * len(trials)
    going = np.arange(len(trials))
    value, p = _objective(observed, at, prior)
    for _ in range(_MAX_STEPS):
        step, curvature = _newton_step(observed, at, p, prior)
        there = step.largest() < _REST
        last = at.moved(step, np.ones(len(going)))
        for k in np.flatnonzero(there):
            ability, level, ease = _pick(last, k)
            own = _pick(curvature, k)
            out[going[k]] = Fit(ability, level, -ease[real], widths, float(value[k]), own, dimensions)
        if there.all():
            return [f for f in out if f is not None]
        going, value = going[~there], value[~there]
        observed, at, step = (_pick(x, ~there) for x in (observed, at, step))
        at, value, p = _line_search(observed, at, step, value, prior)
    raise TableError("the penalised fit did not converge; check that scores lie between 0 and 1")


def _layout(dimensions: Sequence[slice]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Places of the tasks by dimension, and which of them are tasks; shape (dimensions, M). Padding points to 0."""
    most = max(d.stop - d.start for d in dimensions)
    place = np.zeros((len(dimensions), most), dtype=np.int64)
    real = np.zeros(place.shape, dtype=bool)
    for k, d in enumerate(dimensions):
        place[k, : d.stop - d.start] = np.arange(d.start, d.stop)
        real[k, : d.stop - d.start] = True
    return place, real


def _observed(trials: Sequence[Trials], place: NDArray[np.int64], real: NDArray[np.bool_]) -> _Observed:
    def by_dimension(cells: Array) -> Array:
        return np.ascontiguousarray((cells[:, :, place] * real).transpose(0, 2, 1, 3))

    passes = by_dimension(np.stack([t.passes for t in trials]))
    return _Observed(by_dimension(np.stack([t.runs for t in trials])), passes.sum(axis=3), passes.sum(axis=2))


def _starting_point(
    observed: _Observed, starts: Sequence[Fit | Parameters | None], place: NDArray[np.int64], real: NDArray[np.bool_]
) -> _Point:
    n, _, n_rows, _ = observed.runs.shape
    at = _Point(np.zeros((n, n_rows)), np.zeros(observed.by_level.shape), np.zeros(observed.by_task.shape))
    for k, start in enumerate(starts):
        if start is not None:
            at.ability[k], at.level[k], at.ease[k] = start.ability, start.level, -start.difficulty[place] * real
    return at


def _objective(observed: _Observed, at: _Point, prior: _Prior) -> tuple[Array, Array]:
    """The penalised log likelihoods, shape (F,), and the probabilities of a pass, (F, dimensions, R, M)."""
    eta = at.level[..., None] + at.ease[:, :, None, :]
    odds = np.exp(-np.abs(eta))
    p = 1.0 / (1.0 + odds)
    # log(1 + exp(eta)) = max(eta, 0) - log p of |eta|
    softplus = np.maximum(eta, 0.0)
    softplus -= np.log(p)
    likelihood = (at.level * observed.by_level).sum(axis=(1, 2)) + (at.ease * observed.by_task).sum(axis=(1, 2))
    likelihood -= np.einsum("fdrm,fdrm->f", observed.runs, softplus)
    np.multiply(p, odds, out=p, where=eta < 0)
    apart = at.level - at.ability[:, None, :]
    penalty = ((apart @ prior.level) * apart).sum(axis=(1, 2)) + prior.task * (at.ease**2).sum(axis=(1, 2))
    penalty += prior.ability * (at.ability**2).sum(axis=1)
    return likelihood - 0.5 * penalty, p


def _line_search(
    observed: _Observed, at: _Point, step: _Point, value: Array, prior: _Prior
) -> tuple[_Point, Array, Array]:
    """The step, or that part of it (a half, a quarter ...) at which the objective does not fall."""
    scale = np.ones(len(value))
    while True:
        new = at.moved(step, scale)
        new_value, p = _objective(observed, new, prior)
        too_far = ~(new_value >= value - 1e-9 * np.abs(value)) & (scale >= 1e-6)
        if not too_far.any():
            return new, new_value, p
        scale[too_far] /= 2


def _newton_step(observed: _Observed, at: _Point, p: Array, prior: _Prior) -> tuple[_Point, _Curvature]:
    n_dims, n_rows = at.level.shape[1:]
    expected = observed.runs * p
    weights = expected * (1 - p)
    of_task = weights.sum(axis=2) + prior.task
    slope_ease = observed.by_task - expected.sum(axis=2) - prior.task * at.ease
    shared = weights / of_task[:, :, None, :]
    pull = (at.level - at.ability[:, None, :]) @ prior.level
    slope = observed.by_level - expected.sum(axis=3) - pull - _times(shared, slope_ease)
    of_level = prior.level - shared @ weights.swapaxes(2, 3)
    diagonal = np.arange(n_rows)
    of_level[..., diagonal, diagonal] += weights.sum(axis=3)
    inverse = np.linalg.inv(of_level)
    solved = _times(inverse, slope)
    of_ability = n_dims * prior.level - prior.level @ inverse.sum(axis=1) @ prior.level
    of_ability[..., diagonal, diagonal] += prior.ability
    slope_ability = pull.sum(axis=1) - prior.ability * at.ability + solved.sum(axis=1) @ prior.level
    step_ability = np.linalg.solve(of_ability, slope_ability[..., None])[..., 0]
    step_level = solved + _times(inverse, (step_ability @ prior.level)[:, None, :])
    step_ease = slope_ease / of_task - _times(shared.swapaxes(2, 3), step_level)
    return _Point(step_ability, step_level, step_ease), _Curvature(weights, of_task, of_level, inverse, of_ability)


def _times(matrices: Array, vectors: Array) -> Array:
    """Matrices (..., a, b) times vectors (..., b)."""
    return (matrices @ vectors[..., None])[..., 0]


# -- widths -----------------------------------------------------------------------------------------------


def empirical_bayes(trials: Trials) -> Fit:
    """The fit at the widths with the largest Laplace-approximated marginal likelihood."""
    first = Widths(1.0, 1.0)
    warm = fit(trials, first)

    def loss(widths: Widths) -> float:
        nonlocal warm
        warm = fit(trials, widths, warm)
        return -warm.log_marginal

    return fit(trials, _search(loss, first, trials), warm)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Cross-validated prediction of cells that the fit did not see.

    Attributes
    ----------
    log_loss : mean over held-out runs, nats per run.
    log_loss_own_mean : the same for the row's own mean in the dimension, with half a pass and half a fail added.
    folds, n_cells : number of folds, and of cells that were held out.
    """

    log_loss: float
    log_loss_own_mean: float
    folds: int
    n_cells: int


def cross_validate(trials: Trials, seed: int, folds: int = FOLDS) -> tuple[Fit, HeldOut]:
    """The fit at the widths with the least held-out log loss, folds holding whole cells of a row and a task.

    The search starts from the widths by empirical Bayes.
    """
    of_cell = _folds(trials, folds, seed)
    start = empirical_bayes(trials)
    parts = [(trials.without(of_cell == k), trials.only(of_cell == k)) for k in range(folds)]
    warm = [start] * folds

    def loss(widths: Widths) -> float:
        warm[:] = fit_each([rest for rest, _ in parts], widths, warm)
        return sum(_log_loss(held, f.logits) for f, (_, held) in zip(warm, parts, strict=True))

    chosen = _search(loss, start.widths, trials, evaluations=30)
    return fit(trials, chosen, start), held_out(trials, chosen, seed, folds, start)


def held_out(trials: Trials, widths: Widths, seed: int, folds: int = FOLDS, start: Fit | None = None) -> HeldOut:
    """Held-out log loss at given widths, and that of the row's own mean in the dimension on the same folds."""
    of_cell = _folds(trials, folds, seed)
    parts = [(trials.without(of_cell == k), trials.only(of_cell == k)) for k in range(folds)]
    fits = fit_each([rest for rest, _ in parts], widths, [start] * folds)
    total = sum(_log_loss(held, f.logits) for f, (_, held) in zip(fits, parts, strict=True))
    own = sum(_log_loss(held, _own_mean_logits(rest)) for rest, held in parts)
    n = trials.runs.sum()
    return HeldOut(float(total / n), float(own / n), folds, int((trials.runs > 0).sum()))


def _folds(trials: Trials, folds: int, seed: int) -> NDArray[np.int64]:
    """Number of the fold of each observed cell, -1 elsewhere."""
    cells = np.flatnonzero(trials.runs > 0)
    if len(cells) < 2 * folds:
        raise TableError(
            f"cross-validation needs at least {2 * folds} scored cells of a row and a task, these runs have "
            f"{len(cells)}; use widths='empirical_bayes' or collect more"
        )
    out = np.full(trials.runs.size, -1)
    out[np.random.default_rng(seed).permutation(cells)] = np.arange(len(cells)) % folds
    return out.reshape(trials.runs.shape)


def _log_loss(held: Trials, logits: Array) -> float:
    """Sum over runs of -log probability; a graded run is a fractional Bernoulli."""
    return float((held.runs * np.logaddexp(0.0, logits) - held.passes * logits).sum())


def _own_mean_logits(rest: Trials) -> Array:
    out = np.empty(rest.runs.shape)
    for tasks in rest.dimensions:
        passes, runs = rest.passes[:, tasks].sum(axis=1), rest.runs[:, tasks].sum(axis=1)
        out[:, tasks] = np.log((passes + 0.5) / (runs - passes + 0.5))[:, None]
    return out


def _search(loss: Callable[[Widths], float], start: Widths, trials: Trials, evaluations: int = 60) -> Widths:
    """The widths of least loss. One dimension or one row has no deviations: their width stays where it is."""
    from scipy.optimize import minimize

    low, high = np.log(_LEAST_WIDTH), np.log(_MOST_WIDTH)
    fixed = min(len(trials.dimensions), len(trials.runs)) < 2

    def widths(x: Array) -> Widths:
        both = np.exp(np.clip(x, low, high))
        return Widths(start.deviation if fixed else float(both[0]), float(both[-1]))

    at = np.log([start.task] if fixed else [start.deviation, start.task])
    first = np.vstack([at, *(at + 0.4 * np.eye(len(at)))])
    options = {"initial_simplex": first, "xatol": 0.03, "fatol": 1e-2, "maxfev": evaluations}
    found = minimize(lambda x: loss(widths(x)), at, method="Nelder-Mead", options=options)
    return widths(found.x)


# -- what hangs on each task ------------------------------------------------------------------------------


def task_influence(fit: Fit, trials: Trials, rows: NDArray[np.int64], gradient: Array) -> Array:
    """How much each task, through the fit, moves quantities that are made of fitted log-odds.

    The infinitesimal jackknife over tasks, widths held fixed: the derivative of a quantity by the weight of a task,
    all its runs and the prior of its difficulty with it. The sum of its squares estimates the variance of the quantity
    over new tasks.

    Parameters
    ----------
    fit : of `trials`.
    trials : what was observed.
    rows : whose log-odds quantity k is made of, shape (K,).
    gradient : its derivative by that row's log-odds in each task, shape (K, T).

    Returns
    -------
    Array
        Shape (K, T), in the quantities' unit; around 0 within each dimension.

    References
    ----------
    Jaeckel (1972), The infinitesimal jackknife. Efron (1982), The jackknife, the bootstrap and other resampling plans,
    chapter 6.
    """
    place, real = _layout(fit.dimensions)
    c = fit.curvature
    by_dimension = (gradient[:, place] * real).transpose(1, 2, 0)
    # What moves a level moves the tasks' eases against it; then levels by dimension, and the abilities they share.
    slope = -(c.weights / c.of_task[:, None, :]) @ by_dimension
    slope[:, rows, np.arange(len(rows))] += by_dimension.sum(axis=1)
    own = c.inverse @ slope
    prior = _Prior.of(len(trials.runs), fit.widths).level
    shared = np.linalg.solve(c.of_ability, prior @ own.sum(axis=0))
    moved = own + c.inverse @ (prior @ shared)
    residual = trials.passes - trials.runs * expit(fit.logits)
    out = np.empty(gradient.shape)
    for d, tasks in enumerate(fit.dimensions):
        of_task = moved[d].T @ residual[:, tasks]
        out[:, tasks] = of_task - of_task.mean(axis=1, keepdims=True)
    return out
