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
from functools import lru_cache

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
    level : dimension mean + ability + deviation, logits, shape (dimensions, R).
    difficulty : shape (T,), logits; positive is harder.
    widths : of the priors.
    log_marginal : Laplace approximation of the log marginal likelihood.
    root : lower Cholesky factor of the precision of `level` with the difficulties integrated out, shape
        (dimensions * R, dimensions * R).
    weights : n p (1 - p) of each cell, shape (R, T).
    """

    level: Array
    difficulty: Array
    widths: Widths
    log_marginal: float
    root: Array
    weights: Array
    dimensions: tuple[slice, ...]

    @property
    def logits(self) -> Array:
        """Log-odds of a pass in every cell, shape (R, T)."""
        return _logits(self.level, -self.difficulty, self.dimensions)

    @property
    def abilities(self) -> Array:
        """Row ability: the mean of its levels over dimensions, less that of all rows; shape (R,)."""
        return self.level.mean(axis=0) - self.level.mean()

    def draws(self, n: int, rng: np.random.Generator) -> Draws:
        """Draws from the normal approximation at the mode."""
        n_dims, n_rows = self.level.shape
        noise = rng.standard_normal((len(self.root), n))
        moved = np.linalg.solve(self.root.T, noise).T.reshape(n, n_dims, n_rows)
        precision = self.weights.sum(axis=0) + self.widths.task**-2
        own = rng.standard_normal((n, len(precision))) / np.sqrt(precision)
        ease = -self.difficulty + own
        for d, tasks in enumerate(self.dimensions):
            ease[:, tasks] -= moved[:, d] @ (self.weights[:, tasks] / precision[tasks])
        return Draws(self.level + moved, -ease)


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


@lru_cache(maxsize=4)
def _level_precision(n_dims: int, n_rows: int, width: float) -> tuple[Array, float]:
    """Prior precision of the levels, dimension by dimension, and its log determinant.

    Their covariance, width^2 I + WEAK^2 (J x I) + WEAK^2 (I x J), has four eigenspaces, so nothing is inverted.
    """
    within = width**2
    row, mean = within + WEAK**2 * n_dims, within + WEAK**2 * n_rows
    both = within + WEAK**2 * (n_dims + n_rows)
    of_row = np.kron(np.full((n_dims, n_dims), 1 / n_dims), np.eye(n_rows))
    of_mean = np.kron(np.eye(n_dims), np.full((n_rows, n_rows), 1 / n_rows))
    out = (1 / row - 1 / within) * of_row + (1 / mean - 1 / within) * of_mean
    out += (1 / both - 1 / row - 1 / mean + 1 / within) / (n_dims * n_rows)
    out.flat[:: len(out) + 1] += 1 / within
    out.setflags(write=False)
    rest = (n_dims - 1) * (n_rows - 1)
    logdet = np.log(both) + (n_rows - 1) * np.log(row) + (n_dims - 1) * np.log(mean) + rest * np.log(within)
    return out, -float(logdet)


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
    prior, prior_logdet = _level_precision(n_dims, n_rows, widths.deviation)
    task_precision = widths.task**-2
    level = np.zeros((n_dims, n_rows)) if start is None else start.level.copy()
    ease = np.zeros(n_tasks) if start is None else -start.difficulty
    value, eta = _objective(trials, level, ease, prior, task_precision)
    for _ in range(_MAX_STEPS):
        step_level, step_ease, root, weights = _newton_step(trials, level, ease, eta, prior, task_precision)
        largest = max(np.abs(step_level).max(), np.abs(step_ease).max())
        if largest < _REST:
            curvature = 2 * np.log(np.diag(root)).sum() + np.log(weights.sum(axis=0) + task_precision).sum()
            log_marginal = value + 0.5 * (prior_logdet + n_tasks * np.log(task_precision) - curvature)
            at = (level + step_level, -(ease + step_ease))
            return Fit(*at, widths, float(log_marginal), root, weights, trials.dimensions)
        scale = 1.0
        while True:
            new = level + scale * step_level, ease + scale * step_ease
            new_value, new_eta = _objective(trials, *new, prior, task_precision)
            if new_value >= value - 1e-9 * abs(value) or scale < 1e-6:
                break
            scale /= 2
        (level, ease), value, eta = new, new_value, new_eta
    raise TableError("the penalised fit did not converge; check that scores lie between 0 and 1")


def _objective(trials: Trials, level: Array, ease: Array, prior: Array, task_precision: float) -> tuple[float, Array]:
    eta = _logits(level, ease, trials.dimensions)
    likelihood = (trials.passes * eta - trials.runs * np.logaddexp(0.0, eta)).sum()
    flat = level.ravel()
    return float(likelihood - 0.5 * flat @ prior @ flat - 0.5 * task_precision * ease @ ease), eta


def _newton_step(
    trials: Trials, level: Array, ease: Array, eta: Array, prior: Array, task_precision: float
) -> tuple[Array, Array, Array, Array]:
    from scipy.linalg import cho_solve, cholesky

    n_dims, n_rows = level.shape
    p = expit(eta)
    residual, weights = trials.passes - trials.runs * p, trials.runs * p * (1 - p)
    precision = weights.sum(axis=0) + task_precision
    slope_ease = residual.sum(axis=0) - task_precision * ease
    slope = -(prior @ level.ravel())
    schur = prior.copy()
    for d, tasks in enumerate(trials.dimensions):
        at = slice(d * n_rows, (d + 1) * n_rows)
        w = weights[:, tasks]
        shared = w / precision[tasks]
        schur[at, at] += np.diag(w.sum(axis=1)) - shared @ w.T
        slope[at] += residual[:, tasks].sum(axis=1) - shared @ slope_ease[tasks]
    root = cholesky(schur, lower=True, check_finite=False)
    step = cho_solve((root, True), slope, check_finite=False).reshape(n_dims, n_rows)
    step_ease = slope_ease / precision
    for d, tasks in enumerate(trials.dimensions):
        step_ease[tasks] -= (step[d] @ weights[:, tasks]) / precision[tasks]
    return step, step_ease, root, weights


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
