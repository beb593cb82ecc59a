"""The scores of a row on all tasks, predicted from its values on a few of them, with how far that may be out.

May import numpy, scipy, `cilab.core` and its own folder. Knows arrays only: no tables, no files.
`cilab.stats.teamwork.lite_score` uses it.

The model is the item-response model of `item_response`, fitted to rows that were seen on all tasks. A value is a mean
over seeds, or graded, and scatters less than one Bernoulli outcome: the dispersion of the residuals says how much less,
and a value counts for 1 / dispersion outcomes. What was seen of the new row stands as it was seen, every other task
counts with its expected value, weighted by the share of the fitted rows whose gate it passes. (This is the estimate
that tinyBenchmarks calls p-IRT, with abilities by dimension and a gate.)

How far it may be out is measured, not assumed: each model of the fitted rows is left out in turn and predicted from
the same tasks. Its errors, in units of the standard error that the model claims, give the factor by which that one is
too small or too large. Intervals are Student's t on the logit of the part that was not seen, so that a score cannot
leave what the values seen allow.

References
----------
Polo et al. (2024), tinyBenchmarks: evaluating LLMs with fewer examples, ICML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.stats.methods.item_response import SD_DIFFICULTY, ItemResponse, estimate_abilities, fit_item_response
from cilab.stats.methods.row_task_model import expit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Dispersion of values around their expected ones: at most that of single binary outcomes.
_LEAST_DISPERSION, _MOST_DISPERSION = 0.1, 1.0
#: Before any model is left out, errors of the overall score and of dimensions are taken to be so many times as large as
#: the model claims, about what they were on simulated releases and public runs; that counts like so many models.
PRIOR_FACTORS, PRIOR_MODELS = (1.2, 1.0), 4.0
#: A probability nearer to 0 or 1 has no logit that a computer can tell from infinity.
_EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Cells:
    """Values and gates of some rows. T tasks, D dimensions.

    Attributes
    ----------
    values : fractions, shape (rows, T); NaN where there is none, or it does not count.
    gate : 1 where the task counts for the row, 0 where it does not (not solved alone, refused), NaN where that is not
        known; shape (rows, T).
    slices : the tasks of each dimension, in order, together all T.
    """

    values: Array
    gate: Array
    slices: tuple[slice, ...]

    def rows(self, which: Any) -> Cells:
        """Some of the rows."""
        return Cells(self.values[which], self.gate[which], self.slices)

    def only(self, tasks: Mask) -> Cells:
        """The same with all other tasks unknown."""
        return Cells(np.where(tasks, self.values, np.nan), np.where(tasks, self.gate, np.nan), self.slices)


@dataclass(frozen=True, eq=False)
class SubsetModel:
    """What is learned from rows that were seen on all tasks.

    Attributes
    ----------
    response : the item-response model.
    dispersion : variance of a value around its expected one, as a share of a Bernoulli outcome's.
    share : share of the rows for which a task counts, shape (T,).
    unsure : variance of each task's difficulty given the abilities, squared logits, shape (T,).
    step : least difference between two values, fractions.
    """

    response: ItemResponse
    dispersion: float
    share: Array
    unsure: Array
    step: float


class Prediction(NamedTuple):
    """Dimension scores of rows, fractions. D dimensions.

    Attributes
    ----------
    score : predicted, shape (rows, D); NaN where nothing of the row was seen at all.
    least, most : what the values seen allow, shape (rows, D).
    below, above : covariance of the errors of scores that turn out lower, and higher, as the model claims it; shape
        (rows, D, D).
    step : least difference between two scores of a dimension, shape (rows, D).
    seen : number of values seen, shape (rows, D).
    misfit : mean squared standardised residual of the values seen, shape (rows,); about 1 where the model holds.
    """

    score: Array
    least: Array
    most: Array
    below: Array
    above: Array
    step: Array
    seen: NDArray[np.int64]
    misfit: Array

    @property
    def overall(self) -> Scores:
        """Mean over dimensions, as scores of shape (rows,)."""
        n = self.score.shape[1]
        below, above = (np.sqrt(cov.sum(axis=(1, 2))) / n for cov in (self.below, self.above))
        ends = self.least.mean(axis=1), self.most.mean(axis=1)
        return Scores(self.score.mean(axis=1), *ends, below, above, self.step.min(axis=1) / n)

    @property
    def by_dimension(self) -> Scores:
        """Scores of shape (rows, D)."""
        below, above = (np.sqrt(np.diagonal(cov, axis1=1, axis2=2)) for cov in (self.below, self.above))
        return Scores(self.score, self.least, self.most, below, above, self.step)


class Scores(NamedTuple):
    """Predicted scores, what they must lie between, the standard errors that the model claims (of scores that turn out
    lower, and higher), and the least difference between two scores; all of one shape."""

    score: Array
    least: Array
    most: Array
    below: Array
    above: Array
    step: Array

    def errors(self, full: Array) -> Array:
        """Predicted minus full, in units of the claimed standard error; NaN where nothing was left to predict."""
        sd = np.where(full < self.score, self.below, self.above)
        return (self.score - full) / np.where(sd > _EDGE, sd, np.nan)


class Calibration(NamedTuple):
    """By what factor the model's standard errors are to be multiplied, and on how much that stands.

    Attributes
    ----------
    overall, by_dimension : the factors.
    degrees : of freedom, of the t distribution.
    models : number of models that were left out in turn.
    """

    overall: float
    by_dimension: float
    degrees: float
    models: int


class Check(NamedTuple):
    """Each model of the fitted rows left out in turn, its rows predicted from the subset.

    Attributes
    ----------
    predicted : overall and by dimension, in the order of the rows.
    full : dimension scores on all tasks, shape (rows, D); NaN where a row has none.
    """

    predicted: Prediction
    full: Array


def fit_subset_model(known: Cells, dispersion: float | None = None) -> SubsetModel:
    """The model of rows that were seen on all tasks; `dispersion` None is estimated from their residuals."""
    if dispersion is None:
        dispersion = _dispersion(known.values, fit_item_response(known.values, known.slices))
    response = fit_item_response(known.values, known.slices, 1 / dispersion)
    decided = ~np.isnan(known.gate)
    share = np.where(decided, known.gate, 0.0).sum(axis=0) / np.maximum(decided.sum(axis=0), 1)
    expected = response.expected()
    told = np.where(np.isnan(known.values), 0.0, expected * (1 - expected)).sum(axis=0) / dispersion
    return SubsetModel(response, dispersion, share, 1 / (told + SD_DIFFICULTY**-2), _step(known.values))


def _step(values: Array) -> float:
    """Least difference between two values: a third for means of three passes."""
    apart = np.diff(np.unique(np.round(values[~np.isnan(values)], 9)))
    return float(apart.min()) if len(apart) else 1.0


def _dispersion(values: Array, response: ItemResponse) -> float:
    """Pearson's: squared residuals over Bernoulli variances, with the parameters counted."""
    there = ~np.isnan(values)
    expected = response.expected()
    squares = (np.where(there, values - expected, 0.0) ** 2).sum()
    variances = np.where(there, expected * (1 - expected), 0.0).sum()
    free = there.sum() - response.ability.size - there.any(axis=0).sum()
    if free <= 0 or variances <= 0:
        return _MOST_DISPERSION
    return float(np.clip(squares / variances * there.sum() / free, _LEAST_DISPERSION, _MOST_DISPERSION))


def predict(model: SubsetModel, new: Cells) -> Prediction:
    """Dimension scores of new rows on all tasks.

    Parameters
    ----------
    new : values where a task was seen and counts; a gate of 1 without a value counts for sure with its expected value,
        one that is NaN with the share of the fitted rows for which it counts.
    """
    response, slices = model.response, new.slices
    seen = ~np.isnan(new.values)
    ability = estimate_abilities(response, new.values, 1 / model.dispersion)
    expected = response.expected(ability)
    spread = expected * (1 - expected)
    counts = np.where(seen, 1.0, np.where(np.isnan(new.gate), model.share, new.gate))
    # A task that counts for no fitted row is in no full score, and tells nothing of how hard it is.
    counts = np.where(seen | (model.share > 0), counts, 0.0)
    value = np.where(seen, new.values, expected)
    total = _sums(counts, slices)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = _sums(counts * value, slices) / total
    score = np.where(seen.any(axis=1, keepdims=True), score, np.nan)
    part = np.where(seen, 0.0, counts) / np.where(total > 0, total, 1.0)[:, response.dimension]
    # A task whose gate is open may count or not: that moves the score by how far the task lies from it.
    apart = np.where(np.isnan(score[:, response.dimension]), 0.0, value - score[:, response.dimension])
    own = part**2 * model.dispersion * spread
    own += np.where(counts > 0, part**2 * (1 - counts) / np.maximum(counts, _EDGE) * apart**2, 0.0)
    own += (part * spread) ** 2 * model.unsure
    slope = _sums(part * spread, slices)
    sides = [
        slope[:, :, None] * cov * slope[:, None, :] + _diagonal(_sums(own, slices))
        for cov in _abilities_apart(model, ability, seen, slices)
    ]
    reached = _sums(np.where(seen, new.values, 0.0), slices)
    n_seen, n_open = _sums(seen.astype(float), slices), _sums((~seen & (counts > 0)).astype(float), slices)
    most = np.maximum(n_seen + n_open, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(seen, (value - expected) ** 2 / np.maximum(spread, _EDGE), 0.0).sum(axis=1)
        misfit = squares / model.dispersion / seen.sum(axis=1)
    return Prediction(  # type: ignore[call-arg]
        score,
        reached / most,
        (reached + n_open) / most,
        *sides,  # type: ignore[arg-type]
        model.step / most,
        n_seen.astype(np.int64),
        misfit,
    )


def _abilities_apart(model: SubsetModel, ability: Array, seen: Mask, slices: Sequence[slice]) -> tuple[Array, Array]:
    """Covariance of the abilities' errors towards lower and towards higher ones, each of shape (rows, D, D).

    A row that fails all it is seen on may be far weaker than the estimate, but hardly stronger: failing tells the less,
    the weaker the row. So the information on either side is that between the estimate and two standard errors off.
    """
    prior = np.linalg.inv(model.response.prior_cov)

    def spread_at(a: Array) -> Array:
        expected = model.response.expected(a)
        return np.where(seen, expected * (1 - expected), 0.0)

    def inverse(spread: Array) -> Array:
        return np.linalg.inv(prior + _diagonal(_sums(spread, slices) / model.dispersion))  # type: ignore[return-value]

    here = spread_at(ability)
    sd = np.sqrt(np.diagonal(inverse(here), axis1=1, axis2=2))
    out = []
    for sign in (-1, 1):
        # Curvature that changes evenly over x adds up to x^2 / 2 times two thirds of the first and a third of the last.
        spread = 2 / 3 * here + 1 / 3 * spread_at(ability + sign * 2 * sd)
        cov = inverse(spread)
        # A task taken for easier than it is makes the row look weaker, on top of what its own value leaves open.
        mistaken = _sums((spread / model.dispersion) ** 2 * model.unsure, slices)
        out.append(cov + cov @ (mistaken[:, :, None] * cov))
    return out[0], out[1]


def _sums(cells: Array, slices: Sequence[slice]) -> Array:
    """Sums over the tasks of each dimension, shape (rows, D)."""
    return np.stack([cells[:, s].sum(axis=1) for s in slices], axis=1)


def _diagonal(values: Array) -> Array:
    """Matrices with these values on the diagonal, shape (rows, D, D)."""
    return values[:, :, None] * np.eye(values.shape[1])


def leave_out(known: Cells, model: SubsetModel, models: NDArray[Any], tasks: Mask) -> Check:
    """Leave out each model in turn, and predict its rows from some of their tasks.

    Parameters
    ----------
    model : fitted to all of them; its dispersion is taken.
    models : whose rows they are, shape (rows,): all rows of a model are left out together.
    tasks : those that a prediction sees, shape (T,).
    """
    parts: list[Prediction] = []
    order: list[int] = []
    for name in np.unique(models):
        out = models == name
        others = fit_subset_model(known.rows(~out), model.dispersion)
        parts.append(predict(others, known.rows(out).only(tasks)))
        order += np.flatnonzero(out).tolist()
    back = np.argsort(order)
    together = Prediction(*(np.concatenate(field)[back] for field in zip(*parts, strict=True)))
    counted = ~np.isnan(known.values)
    with np.errstate(invalid="ignore", divide="ignore"):
        full = _sums(np.where(counted, known.values, 0.0), known.slices) / _sums(counted.astype(float), known.slices)
    return Check(together, full)


def calibrate(check: Check, models: NDArray[Any], whole: Mask) -> Calibration:
    """The factors by which standard errors are to be multiplied.

    The mean squared error in units of the claimed standard error, a model counting once whatever its rows; drawn
    towards `PRIOR_FACTORS` as if `PRIOR_MODELS` models more had errors so many times as large as claimed.

    Parameters
    ----------
    models : as in `leave_out`.
    whole : rows that have a full score, shape (rows,).
    """
    overall = check.predicted.overall.errors(check.full.mean(axis=1)) ** 2
    single = check.predicted.by_dimension.errors(check.full) ** 2
    overall = np.where(whole & np.isfinite(overall), overall, np.nan)
    single = np.where(whole[:, None] & np.isfinite(single), single, np.nan)
    there = [n for n in np.unique(models) if np.isfinite(overall[models == n]).any()]
    n = len(there)
    by_model = [(float(np.nanmean(overall[models == m])), float(np.nanmean(single[models == m]))) for m in there]
    sums = np.sum(by_model, axis=0) if by_model else np.zeros(2)
    factors = np.sqrt((PRIOR_MODELS * np.square(PRIOR_FACTORS) + sums) / (PRIOR_MODELS + n))
    return Calibration(float(factors[0]), float(factors[1]), max(n - 1.0, 1.0), n)


class Spread(NamedTuple):
    """Student's t on the logit of the part that was not seen.

    Attributes
    ----------
    centre, below, above : its middle and its widths on both sides, logits.
    degrees : of freedom.
    least, most, step : of the scores, as in `Scores`.
    """

    centre: Array
    below: Array
    above: Array
    degrees: float
    least: Array
    most: Array
    step: Array

    @classmethod
    def of(cls, scores: Scores, factor: float, degrees: float) -> Spread:
        """Around predicted scores; NaN where nothing was predicted, as all was seen."""
        room = np.where(scores.most - scores.least > _EDGE, scores.most - scores.least, np.nan)
        part = np.clip((scores.score - scores.least) / room, _EDGE, 1 - _EDGE)
        below, above = (factor * sd / (room * part * (1 - part)) for sd in (scores.below, scores.above))
        return cls(np.log(part / (1 - part)), below, above, degrees, scores.least, scores.most, scores.step)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends, fractions; half a step further out, as scores lie on steps and the curve does not know it."""
        from scipy import stats

        t = float(stats.t.ppf(0.5 + level / 2, self.degrees))
        ends = expit(self.centre - t * self.below), expit(self.centre + t * self.above)
        lo, hi = (self.least + (self.most - self.least) * end for end in ends)
        return np.maximum(lo - self.step / 2, self.least), np.minimum(hi + self.step / 2, self.most)

    def exceeds(self, marks: Array) -> Array:
        """Probability that a row's score is above each of some marks (fractions); shape (rows, marks)."""
        from scipy import stats

        room = (self.most - self.least)[:, None]
        part = (marks[None, :] - self.least[:, None]) / room
        inner = np.clip(part, _EDGE, 1 - _EDGE)
        off = self.centre[:, None] - np.log(inner / (1 - inner))
        p = stats.t.cdf(off / np.where(off > 0, self.below[:, None], self.above[:, None]), self.degrees)
        return np.where(part <= 0, 1.0, np.where(part >= 1, 0.0, p))
