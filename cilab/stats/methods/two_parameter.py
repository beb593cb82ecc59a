"""The two-parameter logistic model: tasks differ in how well they tell rows apart. Marginal likelihood, by quadrature.

May import numpy, scipy and its own folder. Knows arrays only: no tables, no files. One dimension at a time; the model
with one slope for all tasks of all dimensions is `row_task_model`'s, and stays what scores rest on.

The model. logit P(pass of row r on task t) = slope[t] * ability[r] + easiness[t], with abilities standard normal, so
that an ability of 1 is one standard deviation of the rows' distribution. Slopes are sampled as logarithms: they are
positive by construction, and the sign of the scale cannot flip. A task that stronger rows fail has a slope near 0, and
its item-rest correlation says the rest.

Priors (`Prior`) keep the estimates finite where rows are few: log slopes are normal around their own mean, easiness is
normal with a wide standard deviation. With `slope_spread=0` all tasks share one slope (one parameter); with no prior it
is plain marginal maximum likelihood (Bock & Aitkin 1981). What is maximised is the same as by their EM algorithm; the
steps are Newton's with the observed information of Louis (1982), which also gives the standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.errors import TableError
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.distributions import chi2_upper, normal_two_sided
from cilab.stats.methods.row_task_model import expit

#: Points of the quadrature over standard normal abilities: near enough that a row with hundreds of runs is integrated.
_NODES = np.linspace(-6.0, 6.0, 161)
_LOG_WEIGHTS = -0.5 * _NODES**2 - np.log(np.exp(-0.5 * _NODES**2).sum())
_MAX_STEPS, _CLOSE, _LONGEST_STEP = 200, 1e-7, 1.0
#: Log slopes stay within these: without a prior an item of a few rows may have none.
_LEAST_LOG_SLOPE, _MOST_LOG_SLOPE = -5.0, 4.0
#: Numbers held at a time while information is summed over rows.
_AT_ONCE = 20_000_000


@dataclass(frozen=True, slots=True)
class Prior:
    """Priors of the items. All in logits.

    Attributes
    ----------
    slope_spread : standard deviation of log slopes around their mean; 0 gives all tasks one slope, and None no prior.
    mean_log_slope_sd : of that mean, around 0; as wide as slopes between 0.14 and 7.
    easiness_sd : of easiness, around 0; None for no prior.
    """

    slope_spread: float | None = 0.5
    mean_log_slope_sd: float = 1.0
    easiness_sd: float | None = 3.0


#: No prior: marginal maximum likelihood.
FLAT = Prior(slope_spread=None, easiness_sd=None)


@dataclass(frozen=True, eq=False)
class TwoParameter:
    """A fitted model. R rows, T tasks.

    Attributes
    ----------
    slope, easiness : shape (T,), logits.
    covariance : of (easiness, log slope) of all tasks, shape (2T, 2T).
    ability, ability_sd : mean and standard deviation of each row's posterior, shape (R,).
    posterior : of abilities on `nodes`, shape (R, nodes).
    log_likelihood : marginal, without the priors.
    converged : whether the steps came to rest.
    """

    slope: Array
    easiness: Array
    covariance: Array
    ability: Array
    ability_sd: Array
    posterior: Array
    log_likelihood: float
    converged: bool

    nodes = _NODES

    @property
    def difficulty(self) -> Array:
        """The ability at which half of the runs pass, shape (T,)."""
        return -self.easiness / self.slope

    @cached_property
    def easiness_se(self) -> Array:
        """Standard errors of easiness."""
        return np.sqrt(np.diag(self.covariance)[: len(self.slope)])

    @cached_property
    def slope_se(self) -> Array:
        """Standard errors of slopes, by the delta method."""
        return self.slope * np.sqrt(np.diag(self.covariance)[len(self.slope) :])

    @cached_property
    def difficulty_se(self) -> Array:
        """Standard errors of difficulties, by the delta method."""
        n = len(self.slope)
        at = np.arange(n)
        own, shared = np.diag(self.covariance), self.covariance[at, at + n]
        # d(-e/s) = -de/s + (e/s) d(log s)
        ratio = self.easiness / self.slope
        return np.sqrt(own[:n] / self.slope**2 + ratio**2 * own[n:] - 2 * ratio / self.slope * shared)

    def probability(self, ability: Array) -> Array:
        """Of a pass, shape (len(ability), T)."""
        return expit(ability[:, None] * self.slope + self.easiness)

    def information(self, ability: Array) -> Array:
        """Of one run of each task on the ability, shape (len(ability), T)."""
        p = self.probability(ability)
        return self.slope**2 * p * (1 - p)


class _Point(NamedTuple):
    """Easiness and log slope of each task, shape (T,) each, and the mean of log slopes (which a flat prior has not)."""

    easiness: Array
    log_slope: Array
    mean: float


def fit_two_parameter(passes: Array, runs: Array, prior: Prior | None = None) -> TwoParameter:
    """The items' estimates and the rows' abilities.

    Parameters
    ----------
    passes, runs : sum of the scores and number of runs of each cell, shape (R, T); fractions may stand in both, and 0
        runs where there is nothing. Runs of one cell count as independent.
    prior : of the items; default `Prior()`. With `FLAT`, tasks that all or none pass have no finite estimate.

    Raises
    ------
    TableError
        No cell has a run.

    References
    ----------
    Birnbaum (1968); Bock & Aitkin (1981), Psychometrika 46; Louis (1982), JRSS B 44.

    Examples
    --------
    >>> passed = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1.0]])
    >>> fitted = fit_two_parameter(passed, np.ones((4, 3)))
    >>> bool((np.diff(fitted.difficulty) > 0).all()), bool((np.diff(fitted.ability) > 0).all())
    (True, True)
    """
    if not (runs > 0).any():
        raise TableError("no row has a run of any task, so there is nothing to fit")
    prior = prior or Prior()
    at = _start(passes, runs)
    value, posterior = _objective(passes, runs, at, prior)
    converged = False
    for _ in range(_MAX_STEPS):
        slopes, observed, complete = _derivatives(passes, runs, at, posterior, prior)
        step = _step(slopes, observed, complete)
        new, new_value, new_posterior = _line_search(passes, runs, at, step, value, prior)
        moved = max(np.abs(new.easiness - at.easiness).max(), np.abs(new.log_slope - at.log_slope).max())
        at, value, posterior = new, new_value, new_posterior
        if moved < _CLOSE:
            converged = True
            break
    _, observed, complete = _derivatives(passes, runs, at, posterior, prior)
    mean = posterior @ _NODES
    return TwoParameter(
        slope=np.exp(at.log_slope),
        easiness=at.easiness,
        covariance=_covariance(observed, complete, len(at.easiness), prior),
        ability=mean,
        ability_sd=np.sqrt(np.maximum(posterior @ _NODES**2 - mean**2, 0.0)),
        posterior=posterior,
        log_likelihood=_log_likelihood(passes, runs, at)[0],
        converged=converged,
    )


def _start(passes: Array, runs: Array) -> _Point:
    n = runs.sum(axis=0)
    share = (passes.sum(axis=0) + 0.5) / (n + 1.0)
    return _Point(1.2 * np.log(share / (1 - share)), np.zeros(len(n)), 0.0)


def _cells(passes: Array, runs: Array, at: _Point) -> Array:
    """Log likelihood of each row at each node, shape (R, nodes)."""
    eta = np.exp(at.log_slope)[:, None] * _NODES + at.easiness[:, None]
    return passes @ eta - runs @ np.logaddexp(0.0, eta)


def _log_likelihood(passes: Array, runs: Array, at: _Point) -> tuple[float, Array]:
    """Marginal log likelihood and the posterior of abilities, shape (R, nodes)."""
    joint = _cells(passes, runs, at) + _LOG_WEIGHTS
    most = joint.max(axis=1, keepdims=True)
    mass = np.exp(joint - most)
    total = mass.sum(axis=1, keepdims=True)
    return float((most + np.log(total)).sum()), mass / total


def _objective(passes: Array, runs: Array, at: _Point, prior: Prior) -> tuple[float, Array]:
    value, posterior = _log_likelihood(passes, runs, at)
    if prior.easiness_sd is not None:
        value -= 0.5 * float((at.easiness**2).sum()) / prior.easiness_sd**2
    if prior.slope_spread is not None:
        value -= 0.5 * at.mean**2 / prior.mean_log_slope_sd**2
        if prior.slope_spread > 0:
            value -= 0.5 * float(((at.log_slope - at.mean) ** 2).sum()) / prior.slope_spread**2
    return value, posterior


def _derivatives(passes: Array, runs: Array, at: _Point, posterior: Array, prior: Prior) -> tuple[Array, Array, Array]:
    """Slopes of the objective and its negative second derivatives, observed and as if abilities were known.

    Parameters are the easiness of each task, its log slope, and the mean of log slopes: with one slope for all, only
    that mean; without a prior on slopes, without it.
    """
    n_tasks = len(at.easiness)
    slope = np.exp(at.log_slope)
    p = expit(slope[:, None] * _NODES + at.easiness[:, None])
    expected_runs = runs.T @ posterior
    weight = expected_runs * p * (1 - p)
    lean = slope[:, None] * _NODES
    residual = passes.T @ posterior - expected_runs * p
    by_slope = (residual * lean).sum(axis=1)
    gradient = np.concatenate([residual.sum(axis=1), by_slope])
    complete = np.zeros((2 * n_tasks, 2 * n_tasks))
    here = np.arange(n_tasks)
    complete[here, here] = weight.sum(axis=1)
    complete[here, here + n_tasks] = complete[here + n_tasks, here] = (weight * lean).sum(axis=1)
    # The second derivative by a log slope has a part of the first one.
    complete[here + n_tasks, here + n_tasks] = (weight * lean**2).sum(axis=1)
    observed = complete - _missing_information(passes, runs, posterior, p, lean)
    observed[here + n_tasks, here + n_tasks] -= by_slope
    return _with_priors(gradient, observed, complete, at, prior)


def _missing_information(passes: Array, runs: Array, posterior: Array, p: Array, lean: Array) -> Array:
    """Sum over rows of the posterior covariance of their scores (first derivatives given the ability)."""
    n_tasks = len(p)
    both = np.zeros((2 * n_tasks, 2 * n_tasks))
    size = max(1, _AT_ONCE // (2 * n_tasks * len(_NODES)))
    for first in range(0, len(runs), size):
        own = slice(first, first + size)
        score = passes[own, :, None] - runs[own, :, None] * p
        score = np.concatenate([score, score * lean], axis=1)
        mass = posterior[own, None, :]
        score -= (score * mass).sum(axis=2, keepdims=True)
        flat = (score * np.sqrt(mass)).transpose(1, 0, 2).reshape(2 * n_tasks, -1)
        both += flat @ flat.T
    return both


def _with_priors(
    gradient: Array, observed: Array, complete: Array, at: _Point, prior: Prior
) -> tuple[Array, Array, Array]:
    n_tasks = len(at.easiness)
    precision = np.zeros(2 * n_tasks)
    if prior.easiness_sd is not None:
        precision[:n_tasks] = prior.easiness_sd**-2
        gradient[:n_tasks] -= at.easiness * prior.easiness_sd**-2
    if prior.slope_spread is None:
        return gradient, observed + np.diag(precision), complete + np.diag(precision)
    own_mean = prior.mean_log_slope_sd**-2
    if prior.slope_spread == 0:
        shared = np.zeros((2 * n_tasks, n_tasks + 1))
        shared[np.arange(n_tasks), np.arange(n_tasks)] = 1.0
        shared[n_tasks:, n_tasks] = 1.0
        least = np.diag([*precision[:n_tasks], own_mean])
        slopes = shared.T @ gradient
        slopes[n_tasks] -= at.mean * own_mean
        return slopes, shared.T @ observed @ shared + least, shared.T @ complete @ shared + least
    each = prior.slope_spread**-2
    precision[n_tasks:] = each
    away = at.log_slope - at.mean
    gradient[n_tasks:] -= each * away
    of_prior = np.zeros((2 * n_tasks + 1, 2 * n_tasks + 1))
    of_prior[np.arange(2 * n_tasks), np.arange(2 * n_tasks)] = precision
    of_prior[n_tasks:-1, -1] = of_prior[-1, n_tasks:-1] = -each
    of_prior[-1, -1] = n_tasks * each + own_mean
    slopes = np.append(gradient, each * away.sum() - at.mean * own_mean)
    return slopes, np.pad(observed, (0, 1)) + of_prior, np.pad(complete, (0, 1)) + of_prior


def _step(slopes: Array, observed: Array, complete: Array) -> Array:
    """Newton's step; where the objective is not concave, that of the EM algorithm, which always climbs."""
    chosen = observed if _positive_definite(observed) else complete
    if not _positive_definite(chosen):  # a task without a slope says nothing of it
        chosen = chosen + 1e-6 * np.eye(len(chosen))
    step = np.linalg.solve(chosen, slopes)
    return np.asarray(step * min(1.0, _LONGEST_STEP / max(np.abs(step).max(), 1e-12)), dtype=np.float64)


def _positive_definite(matrix: Array) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _moved(at: _Point, step: Array, scale: float, prior: Prior) -> _Point:
    n_tasks = len(at.easiness)
    easiness = at.easiness + scale * step[:n_tasks]
    if prior.slope_spread == 0:
        mean = float(np.clip(at.mean + scale * step[n_tasks], _LEAST_LOG_SLOPE, _MOST_LOG_SLOPE))
        return _Point(easiness, np.full(n_tasks, mean), mean)
    log_slope = np.clip(at.log_slope + scale * step[n_tasks : 2 * n_tasks], _LEAST_LOG_SLOPE, _MOST_LOG_SLOPE)
    mean = at.mean if prior.slope_spread is None else float(at.mean + scale * step[-1])
    return _Point(easiness, log_slope, mean)


def _line_search(
    passes: Array, runs: Array, at: _Point, step: Array, value: float, prior: Prior
) -> tuple[_Point, float, Array]:
    """The step, or that part of it (a half, a quarter ...) at which the objective does not fall."""
    scale = 1.0
    while True:
        new = _moved(at, step, scale, prior)
        new_value, posterior = _objective(passes, runs, new, prior)
        if new_value >= value - 1e-10 * abs(value) or scale < 1e-6:
            return new, new_value, posterior
        scale /= 2


def _covariance(observed: Array, complete: Array, n_tasks: int, prior: Prior) -> Array:
    """Of (easiness, log slope) of all tasks; the mean of log slopes is integrated out."""
    chosen = observed if _positive_definite(observed) else complete
    inverse = np.asarray(np.linalg.pinv(chosen, hermitian=True), dtype=np.float64)
    if prior.slope_spread == 0:
        place = np.concatenate([np.arange(n_tasks), np.full(n_tasks, n_tasks)])
        return inverse[np.ix_(place, place)]
    return inverse[: 2 * n_tasks, : 2 * n_tasks]


# -- repeats of one cell ----------------------------------------------------------------------------------


def repeat_correlation(passes: Array, squares: Array, runs: Array, probability: Array) -> float:
    """How much more the runs of one cell agree than independent ones would: a correlation, 0 to 1.

    Parameters
    ----------
    passes, squares : sum of the scores of a cell's runs and sum of their squares, shape (R, T).
    runs : their number; cells of one run say nothing here.
    probability : of a pass in each cell by the model, shape (R, T).

    Returns
    -------
    float
        1 less the variance between runs of a cell, as a share of what the model expects of a single run: 0 where runs
        of a cell differ as much as the model's independent runs, 1 where they always agree. 0 without repeats.
    """
    several = runs > 1
    if not several.any():
        return 0.0
    n, k = runs[several], passes[several]
    within = (squares[several] - k**2 / n) / (n - 1)
    p = probability[several]
    return float(np.clip(1 - within.sum() / np.maximum((p * (1 - p)).sum(), 1e-12), 0.0, 1.0))


def effective_runs(runs: Array, correlation: float) -> Array:
    """What a cell's runs count as, given how much they agree: n / (1 + (n - 1) correlation)."""
    return runs / (1 + np.maximum(runs - 1, 0) * correlation)


def standardised(passes: Array, runs: Array, correlation: float) -> tuple[Array, Array]:
    """Passes and runs scaled to the effective number of runs; the share of passes stays as it is."""
    effective = effective_runs(runs, correlation)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(runs > 0, passes / runs, 0.0)
    return share * effective, effective


# -- fit of items and of rows -----------------------------------------------------------------------------


class MeanSquares(NamedTuple):
    """Mean squares of residuals, shape (..., T) each; 1 is what the model expects."""

    infit: Array
    outfit: Array


def mean_squares(model: TwoParameter, passes: Array, runs: Array, posterior: Array | None = None) -> MeanSquares:
    """Infit and outfit of each task; NaN where no row has it.

    Residuals are averaged over each row's posterior, not taken at one estimate: so the expectation of a mean square is
    1 at the true parameters of the tasks. Infit weights a row by what its run could tell; outfit weights all alike, and
    so hears of surprises in rows far off.

    Parameters
    ----------
    passes, runs : shape (R, T); passes of several data sets have a first axis more.
    posterior : of the abilities given these passes; default the model's own.

    References
    ----------
    Wright & Masters (1982), Rating Scale Analysis, chapter 5.
    """
    mass = model.posterior if posterior is None else posterior
    p = model.probability(model.nodes)
    q = 1 - p
    there = runs > 0
    square = passes**2 - 2 * passes * runs * (mass @ p) + runs**2 * (mass @ p**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        infit = square.sum(axis=-2) / (runs * (mass @ (p * q))).sum(axis=-2)
        relative = passes**2 / runs * (mass @ (1 / (p * q))) - 2 * passes * (mass @ (1 / q)) + runs * (mass @ (p / q))
        outfit = np.where(there, relative, 0.0).sum(axis=-2) / there.sum(axis=-2)
    return MeanSquares(infit, outfit)


def person_fit(model: TwoParameter, passes: Array, runs: Array) -> Array:
    """lz*: the standardised log-likelihood of each row's pattern, corrected for its estimated ability; shape (R,).

    About standard normal where the model holds; low where a row passes what is hard for it and fails what is easy. The
    ability is the mode of the row's posterior. NaN where the pattern cannot vary (no run, or all tasks alike).

    References
    ----------
    Drasgow, Levine & Williams (1985); Snijders (2001), Psychometrika 66; Magis, Raiche & Beland (2012).
    """
    ability = _modes(model, passes, runs)
    eta = ability[:, None] * model.slope + model.easiness
    p = expit(eta)
    variance = runs * p * (1 - p)
    # The estimating equation of the mode: sum slope (passes - runs p) - ability = 0; so r = slope, r0 = -ability.
    information = (variance * model.slope**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = (variance * model.slope * eta).sum(axis=1) / information
        weight = eta - shared[:, None] * model.slope
        spread = np.sqrt((variance * weight**2).sum(axis=1))
        value = ((passes - runs * p) * eta).sum(axis=1) - shared * ability
        return np.where(spread > 1e-8, value / spread, np.nan)


def _modes(model: TwoParameter, passes: Array, runs: Array) -> Array:
    ability = model.ability.copy()
    for _ in range(50):
        p = expit(ability[:, None] * model.slope + model.easiness)
        slope = ((passes - runs * p) * model.slope).sum(axis=1) - ability
        step = slope / ((runs * p * (1 - p) * model.slope**2).sum(axis=1) + 1)
        ability = ability + np.clip(step, -1, 1)
        if np.abs(step).max(initial=0) < 1e-9:
            break
    return ability


class Dependence(NamedTuple):
    """Correlation of the residuals of two tasks, (T, T), and how many rows have both; NaN where it is undefined."""

    q3: Array
    n_rows: NDArray[np.int64]


def residual_correlations(
    model: TwoParameter, passes: Array, runs: Array, posterior: Array | None = None
) -> Dependence:
    """Yen's Q3 of every pair of tasks: Pearson's r, over the rows that have both, of what the model leaves unexplained.

    References
    ----------
    Yen (1984), Applied Psychological Measurement 8.
    """
    there = runs > 0
    expected = (model.posterior if posterior is None else posterior) @ model.probability(model.nodes)
    with np.errstate(invalid="ignore", divide="ignore"):
        residual = np.where(there, passes / runs - expected, 0.0)
    w = there.astype(float)
    n = w.T @ w
    with np.errstate(invalid="ignore", divide="ignore"):
        # Sums of a task over the rows that have the other one too.
        own = residual.T @ w
        squares = (residual**2).T @ w - own**2 / n
        cross = residual.T @ residual - own * own.T / n
        q3 = cross / np.sqrt(squares * squares.T)
    # A task that all pass or all fail has residuals, small ones, that say nothing but how able each row is.
    share = np.where(there, passes / np.where(there, runs, 1.0), np.nan)
    constant = _spread(share) < 1e-9
    q3[(squares < 1e-12) | (squares.T < 1e-12) | (n < 3) | constant | constant[:, None]] = np.nan
    return Dependence(np.clip(q3, -1, 1), n.astype(np.int64))


class Standardised(NamedTuple):
    """Statistics of fit in standard deviations from what the model leads one to expect; NaN where they cannot vary.

    `infit`, `outfit` of shape (T,), `q3` of shape (T, T).
    """

    infit: Array
    outfit: Array
    q3: Array


def standardised_fit(
    model: TwoParameter,
    passes: Array,
    runs: Array,
    *,
    n_runs: NDArray[np.int64],
    correlation: float,
    simulations: int,
    rng: np.random.Generator,
) -> Standardised:
    """Infit, outfit and Q3 against those of data sets drawn from the fitted model.

    Each data set has new abilities from the rows' posteriors and the same runs; the tasks' parameters stay as they are.
    The formulas for standardised mean squares hold at known abilities and are wrong by half with 24 rows. Mean squares
    are compared by their cube root, correlations by Fisher's z.

    Parameters
    ----------
    passes, runs : as the model was fitted, shape (R, T).
    n_runs, correlation : real number of runs of each cell, and how much they agree (`repeat_correlation`): with that
        probability all runs of a cell come out alike, else they are independent.
    simulations : data sets; statistics that are defined in fewer than half of them are NaN.
    """
    found = mean_squares(model, passes, runs)
    q3 = residual_correlations(model, passes, runs).q3
    simple = _Moments(np.zeros((2, *found.infit.shape)))
    pairs = _Moments(np.zeros_like(q3))
    size = max(1, _AT_ONCE // (5 * runs.shape[0] * len(_NODES)))
    at = _Point(model.easiness, np.log(model.slope), 0.0)
    for first in range(0, simulations, size):
        drawn = _drawn(model, runs, n_runs, correlation, min(size, simulations - first), rng)
        joint = np.stack([_cells(one, runs, at) for one in drawn]) + _LOG_WEIGHTS
        mass = np.exp(joint - joint.max(axis=2, keepdims=True))
        mass /= mass.sum(axis=2, keepdims=True)
        squares = mean_squares(model, drawn, runs, mass)
        for k, one in enumerate(drawn):
            simple.add(np.cbrt(np.stack([squares.infit[k], squares.outfit[k]])))
            pairs.add(_fisher_z(residual_correlations(model, one, runs, mass[k]).q3))
    infit, outfit = simple.standardise(np.cbrt(np.stack(found)), simulations)
    return Standardised(infit, outfit, pairs.standardise(_fisher_z(q3), simulations))


def _fisher_z(r: Array) -> Array:
    return np.arctanh(np.clip(r, -0.999, 0.999))


@dataclass(eq=False)
class _Moments:
    """Running sums of arrays of one shape, NaN passed over."""

    total: Array

    def __post_init__(self) -> None:
        self.squares, self.n = np.zeros_like(self.total), np.zeros_like(self.total)

    def add(self, values: Array) -> None:
        there = np.isfinite(values)
        kept = np.where(there, values, 0.0)
        self.total += kept
        self.squares += kept**2
        self.n += there

    def standardise(self, values: Array, simulations: int) -> Array:
        """Distance from the mean in standard deviations; NaN where that rests on fewer than half or nothing varies."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.total / self.n
            sd = np.sqrt(np.maximum(self.squares / self.n - mean**2, 0.0) * self.n / (self.n - 1))
            return np.where((2 * self.n >= simulations) & (sd > 1e-6), (values - mean) / sd, np.nan)


def _drawn(
    model: TwoParameter,
    runs: Array,
    n_runs: NDArray[np.int64],
    correlation: float,
    simulations: int,
    rng: np.random.Generator,
) -> Array:
    """Passes of data sets from the model, scaled as `runs` are; shape (simulations, R, T)."""
    below = model.posterior.cumsum(axis=1)
    picks = (rng.random((simulations, len(runs), 1)) > below).sum(axis=2)
    p = model.probability(_NODES)[np.minimum(picks, len(_NODES) - 1)]
    n = np.broadcast_to(n_runs, p.shape)
    alike = rng.random(p.shape) < correlation
    count = np.where(alike, n * (rng.random(p.shape) < p), rng.binomial(n, p))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(n > 0, count / n, 0.0) * runs, dtype=np.float64)


def _spread(values: Array) -> Array:
    """Largest less smallest of each column, NaN passed over; 0 where there is nothing."""
    low, high = np.where(np.isnan(values), np.inf, values), np.where(np.isnan(values), -np.inf, values)
    return np.maximum(high.max(axis=0) - low.min(axis=0), 0.0)


# -- differential functioning -----------------------------------------------------------------------------

#: Differences on the scale of the Educational Testing Service are -2.35 times the log odds ratio (Holland & Thayer).
ETS_SCALE = -2.35


class Difference(NamedTuple):
    """Log odds ratio of a pass, group against the others at equal ability, standard error, two-sided p; NaN: undefined.

    Of one task, or arrays of shape (T,).
    """

    log_odds_ratio: Any
    se: Any
    p: Any


#: Standard deviation, logits, of the prior of a difference between groups: finite also where a group never passes.
_DIFFERENCE_SD = 3.0


def logistic_differences(model: TwoParameter, passes: Array, runs: Array, in_group: NDArray[np.bool_]) -> Difference:
    """Whether a group passes each task more or less often than others of the same ability, by logistic regression.

    The log odds of a pass are the task's slope times ability, an intercept, and a difference for the group; abilities
    enter with each row's posterior. p is of the likelihood ratio without and with the difference. It takes fewer rows
    than strata of ability do.

    Parameters
    ----------
    passes, runs : as the model was fitted, shape (R, T).
    in_group : which rows belong to the group, shape (R,).

    References
    ----------
    Swaminathan & Rogers (1990), Journal of Educational Measurement 27.
    """
    weights = [model.posterior * of[:, None] for of in (~in_group, in_group)]
    k = np.stack([passes.T @ w for w in weights])
    n = np.stack([runs.T @ w for w in weights])
    lean = model.slope[:, None] * _NODES

    def likelihood(intercept: Array, difference: Array) -> Array:
        eta = np.stack([lean + intercept[:, None], lean + (intercept + difference)[:, None]])
        value = (k * eta - n * np.logaddexp(0.0, eta)).sum(axis=(0, 2))
        return value - 0.5 * (difference / _DIFFERENCE_SD) ** 2 - 0.5 * (intercept / _INTERCEPT_SD) ** 2

    def fitted(free: bool) -> tuple[Array, Array, Array]:
        intercept, difference = model.easiness.copy(), np.zeros(len(lean))
        for _ in range(60):
            p = expit(np.stack([lean + intercept[:, None], lean + (intercept + difference)[:, None]]))
            slope, weight = (k - n * p).sum(axis=2), (n * p * (1 - p)).sum(axis=2)
            first = slope.sum(axis=0) - intercept / _INTERCEPT_SD**2
            second = slope[1] - difference / _DIFFERENCE_SD**2
            a, c = weight.sum(axis=0) + _INTERCEPT_SD**-2, weight[1] + _DIFFERENCE_SD**-2
            b = weight[1]
            det = a * c - b * b
            steps = ((c * first - b * second) / det, (a * second - b * first) / det) if free else (first / a, 0 * b)
            intercept = intercept + np.clip(steps[0], -1, 1)
            difference = difference + np.clip(steps[1], -1, 1)
            if max(np.abs(step).max() for step in steps) < 1e-9:
                break
        return intercept, difference, np.sqrt(a / det)

    plain, _, _ = fitted(free=False)
    intercept, difference, se = fitted(free=True)
    ratio = 2 * (likelihood(intercept, difference) - likelihood(plain, np.zeros(len(lean))))
    p = np.array([chi2_upper(max(float(x), 0.0), 1) for x in ratio])
    n_rows = np.stack([(runs[of] > 0).any(axis=0) for of in (~in_group, in_group)]).all(axis=0)
    varies = (passes.sum(axis=0) > 0) & (passes < runs).any(axis=0)
    return Difference(*(np.where(n_rows & varies, x, np.nan) for x in (difference, se, p)))


_INTERCEPT_SD = 10.0


def mantel_haenszel(passes: Array, runs: Array, in_group: NDArray[np.bool_], stratum: NDArray[np.int64]) -> Difference:
    """The same of one task by strata of ability, without a model: the common odds ratio of Mantel & Haenszel.

    Parameters
    ----------
    passes, runs : of the task, shape (R,); fractions may stand in both.
    in_group : which rows belong to the group.
    stratum : number of each row's stratum of ability.

    Returns
    -------
    Difference
        Standard error by Robins, Breslow & Greenland (1986), which holds for many small strata; p by their Wald test.

    References
    ----------
    Mantel & Haenszel (1959); Holland & Thayer (1988).
    """
    n_strata = int(stratum.max(initial=-1)) + 1

    def by(values: Array) -> Array:
        return np.asarray(np.bincount(stratum, weights=values, minlength=n_strata), dtype=np.float64)

    a, c = by(passes * in_group), by(passes * ~in_group)
    b, d = by((runs - passes) * in_group), by((runs - passes) * ~in_group)
    n = a + b + c + d
    kept = (a + b > 0) & (c + d > 0)
    a, b, c, d, n = (x[kept] for x in (a, b, c, d, n))
    r, s = a * d / n, b * c / n
    if r.sum() <= 0 or s.sum() <= 0:
        return Difference(float("nan"), float("nan"), float("nan"))
    up, down = (a + d) / n, (b + c) / n
    variance = (up * r).sum() / (2 * r.sum() ** 2) + (down * s).sum() / (2 * s.sum() ** 2)
    variance += (up * s + down * r).sum() / (2 * r.sum() * s.sum())
    value, se = float(np.log(r.sum() / s.sum())), float(np.sqrt(variance))
    return Difference(value, se, normal_two_sided(value / se))


def ets_class(log_odds_ratio: float, se: float) -> str:
    """A, B or C of the Educational Testing Service.

    A: below 1 on its scale, or not significantly off 0; C: at least 1.5 and significantly above 1; B: between. Each at
    5 %, as the service does.

    Examples
    --------
    >>> ets_class(0.2, 0.1), ets_class(0.55, 0.1), ets_class(1.2, 0.2), ets_class(1.2, 1.0)
    ('A', 'B', 'C', 'A')
    """
    size, error = abs(ETS_SCALE * log_odds_ratio), abs(ETS_SCALE) * se
    if size < 1 or size / error < 1.959964:
        return "A"
    return "C" if size >= 1.5 and (size - 1) / error > 1.644854 else "B"
