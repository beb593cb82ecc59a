"""The row-by-task logit model as arrays: its penalised fit, the widths of its penalties, draws from its posterior.

May import numpy, scipy and `cilab.errors`. Knows arrays only: no tables, no files. `cilab.stats.fill_in` uses it for
test scores, `cilab.stats.weighting` for the propensity of solving a task alone.

The model: log-odds of a pass = dimension mean + row ability + row's deviation in the dimension - task difficulty.
Deviations and difficulties have normal priors of the two widths; means and abilities a weak one (`WEAK` logits), so
that an estimate exists for a row that passes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cilab.errors import TableError
from cilab.stats.bootstrap import Array

#: Standard deviation, in logits, of the prior of dimension means and of row abilities.
WEAK = 5.0
FOLDS = 5

#: Newton's steps shrink quadratically: after one of 1e-4 what is left is beyond the seventh digit.
_MAX_STEPS, _REST = 100, 1e-4
_LEAST_WIDTH, _MOST_WIDTH = 0.02, 20.0


def expit(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


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
    """Standard deviations of the priors, in logits: of a row's deviation in a dimension, and of a task's difficulty."""

    deviation: float
    task: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A penalised fit, and what its Laplace approximation needs.

    Attributes
    ----------
    ability : shape (R,), logits; around 0.
    level : dimension mean + ability + deviation, logits, shape (dimensions, R).
    difficulty : shape (T,), logits; positive is harder.
    widths : of the priors.
    log_marginal : Laplace approximation of the log marginal likelihood.
    curvature : of the objective at the mode.
    """

    ability: Array
    level: Array
    difficulty: Array
    widths: Widths
    log_marginal: float
    curvature: _Curvature
    dimensions: tuple[slice, ...]

    @property
    def logits(self) -> Array:
        """Log-odds of a pass in every cell, shape (R, T)."""
        return _logits(self.level, -self.difficulty, self.dimensions)

    def draws(self, n: int, rng: np.random.Generator) -> Draws:
        """Draws from the normal approximation at the mode: abilities, then levels, then difficulties."""
        c = self.curvature
        n_dims, n_rows = self.level.shape
        of_ability = np.linalg.solve(np.linalg.cholesky(c.of_ability).T, rng.standard_normal((n_rows, n)))
        own = np.linalg.solve(
            np.linalg.cholesky(c.of_level).transpose(0, 2, 1), rng.standard_normal((n_dims, n_rows, n))
        )
        moved = (own + c.inverse @ c.prior @ of_ability).transpose(2, 0, 1)
        ease = -self.difficulty + rng.standard_normal((n, len(self.difficulty))) / np.sqrt(c.of_task)
        for d, tasks in enumerate(self.dimensions):
            ease[:, tasks] -= moved[:, d] @ (c.weights[:, tasks] / c.of_task[tasks])
        return Draws(self.level + moved, -ease)


@dataclass(frozen=True, eq=False, slots=True)
class _Curvature:
    """Negative second derivatives, eliminated in turn: tasks, then levels by dimension, then abilities.

    `weights` n p (1 - p), shape (R, T); `of_task` (T,); `of_level` (dimensions, R, R) and its `inverse`; `of_ability`
    (R, R); `prior` of a dimension's levels around the abilities, (R, R).
    """

    weights: Array
    of_task: Array
    of_level: Array
    inverse: Array
    of_ability: Array
    prior: Array

    def logdet(self) -> float:
        """Log determinant of the whole."""
        parts = np.linalg.slogdet(self.of_level)[1].sum() + np.linalg.slogdet(self.of_ability)[1]
        return float(parts + np.log(self.of_task).sum())


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws: `level` of shape (draws, dimensions, R) and `difficulty` of shape (draws, T), in logits."""

    level: Array
    difficulty: Array

    def logits(self, d: int, rows: NDArray[np.int64], tasks: NDArray[np.int64]) -> Array:
        """Log-odds of the cells (rows[k], tasks[k]) of dimension number `d`, shape (draws, k)."""
        return self.level[:, d, rows] - self.difficulty[:, tasks]


def _logits(level: Array, ease: Array, dimensions: Sequence[slice]) -> Array:
    out = np.empty((level.shape[1], len(ease)))
    for d, tasks in enumerate(dimensions):
        out[:, tasks] = level[d][:, None] + ease[tasks]
    return out


# -- the penalised fit ------------------------------------------------------------------------------------


def _level_prior(n_rows: int, width: float) -> tuple[Array, float]:
    """Precision of a dimension's levels around the abilities, and its log determinant.

    Their covariance is width^2 I + WEAK^2 J: own deviations, and the dimension mean that they share.
    """
    within, both = width**2, width**2 + n_rows * WEAK**2
    precision = np.eye(n_rows) / within - WEAK**2 / (within * both)
    return precision, -float(np.log(both) + (n_rows - 1) * np.log(within))


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
    n_rows, n_tasks = trials.runs.shape
    n_dims = len(trials.dimensions)
    level_prior, level_logdet = _level_prior(n_rows, widths.deviation)
    prior = (level_prior, widths.task**-2)
    at = (np.zeros(n_rows), np.zeros((n_dims, n_rows)), np.zeros(n_tasks))
    if start is not None:
        at = (start.ability, start.level, -start.difficulty)
    value, eta = _objective(trials, at, *prior)
    for _ in range(_MAX_STEPS):
        step, curvature = _newton_step(trials, at, eta, *prior)
        if max(np.abs(part).max() for part in step) < _REST:
            prior_logdet = n_dims * level_logdet - 2 * n_rows * np.log(WEAK) - 2 * n_tasks * np.log(widths.task)
            log_marginal = value + 0.5 * (prior_logdet - curvature.logdet())
            ability, level, ease = _moved(at, step, 1.0)
            return Fit(ability, level, -ease, widths, float(log_marginal), curvature, trials.dimensions)
        scale = 1.0
        while True:
            new = _moved(at, step, scale)
            new_value, new_eta = _objective(trials, new, *prior)
            if new_value >= value - 1e-9 * abs(value) or scale < 1e-6:
                break
            scale /= 2
        at, value, eta = new, new_value, new_eta
    raise TableError("the penalised fit did not converge; check that scores lie between 0 and 1")


#: Abilities (R,), levels (dimensions, R) and eases, which are difficulties with the other sign (T,).
_Point = tuple[Array, Array, Array]


def _moved(at: _Point, step: _Point, scale: float) -> _Point:
    return (at[0] + scale * step[0], at[1] + scale * step[1], at[2] + scale * step[2])


def _objective(trials: Trials, at: _Point, level_prior: Array, task_prior: float) -> tuple[float, Array]:
    ability, level, ease = at
    eta = _logits(level, ease, trials.dimensions)
    likelihood = (trials.passes * eta - trials.runs * np.logaddexp(0.0, eta)).sum()
    apart = level - ability
    penalty = ((apart @ level_prior) * apart).sum() + task_prior * ease @ ease + ability @ ability / WEAK**2
    return float(likelihood - 0.5 * penalty), eta


def _newton_step(
    trials: Trials, at: _Point, eta: Array, level_prior: Array, task_prior: float
) -> tuple[_Point, _Curvature]:
    ability, level, ease = at
    n_dims, n_rows = level.shape
    p = expit(eta)
    residual, weights = trials.passes - trials.runs * p, trials.runs * p * (1 - p)
    of_task = weights.sum(axis=0) + task_prior
    slope_ease = residual.sum(axis=0) - task_prior * ease
    pull = (level - ability) @ level_prior
    slope, of_level = -pull, np.empty((n_dims, n_rows, n_rows))
    for d, tasks in enumerate(trials.dimensions):
        w = weights[:, tasks]
        shared = w / of_task[tasks]
        of_level[d] = level_prior + np.diag(w.sum(axis=1)) - shared @ w.T
        slope[d] += residual[:, tasks].sum(axis=1) - shared @ slope_ease[tasks]
    inverse = np.linalg.inv(of_level)
    solved = (inverse @ slope[:, :, None])[:, :, 0]
    of_ability = n_dims * level_prior + np.eye(n_rows) / WEAK**2 - level_prior @ inverse.sum(axis=0) @ level_prior
    step_ability = np.linalg.solve(of_ability, pull.sum(axis=0) - ability / WEAK**2 + level_prior @ solved.sum(axis=0))
    step_level = solved + inverse @ (level_prior @ step_ability)
    step_ease = slope_ease / of_task
    for d, tasks in enumerate(trials.dimensions):
        step_ease[tasks] -= (step_level[d] @ weights[:, tasks]) / of_task[tasks]
    curvature = _Curvature(weights, of_task, of_level, inverse, of_ability, level_prior)
    return (step_ability, step_level, step_ease), curvature


# -- widths -----------------------------------------------------------------------------------------------


def empirical_bayes(trials: Trials) -> Fit:
    """The fit at the widths with the largest Laplace-approximated marginal likelihood."""
    best = [Widths(1.0, 1.0), fit(trials, Widths(1.0, 1.0))]

    def loss(widths: Widths) -> float:
        best[1] = fit(trials, widths, best[1])
        return -best[1].log_marginal

    return fit(trials, _search(loss, Widths(1.0, 1.0), trials), best[1])


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
        for k, (rest, _) in enumerate(parts):
            warm[k] = fit(rest, widths, warm[k])
        return sum(_log_loss(held, f.logits) for f, (_, held) in zip(warm, parts, strict=True))

    chosen = _search(loss, start.widths, trials, evaluations=30)
    return fit(trials, chosen, start), held_out(trials, chosen, seed, folds, start)


def held_out(trials: Trials, widths: Widths, seed: int, folds: int = FOLDS, start: Fit | None = None) -> HeldOut:
    """Held-out log loss at given widths, and that of the row's own mean in the dimension on the same folds."""
    of_cell = _folds(trials, folds, seed)
    total = own = 0.0
    for k in range(folds):
        rest, held = trials.without(of_cell == k), trials.only(of_cell == k)
        total += _log_loss(held, fit(rest, widths, start).logits)
        own += _log_loss(held, _own_mean_logits(rest))
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
