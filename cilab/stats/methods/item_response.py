"""A small item-response model: each row has an ability per dimension, each task a difficulty.

May import numpy and `row_task_model`, which fits it. Knows arrays only: no tables, no files. It estimates scores from a
few tasks (`lite`) and draws new data (`power`); the fill-in of gated-out cells is another module's business.

The model. logit E(value[r, t]) = mean[d] + level[r] + deviation[r, d] - difficulty[t] for a task t of dimension d, with
independent normal priors of mean 0. A value between 0 and 1 (a mean over seeds, half a point) counts as a fractional
Bernoulli outcome, one per cell whatever its number of seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cilab.stats.methods.row_task_model import Trials, Widths, expit, fit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

#: Prior standard deviations in logits. Wide on purpose: estimating them from a dozen rows shrinks too much.
SD_MEAN, SD_LEVEL, SD_DEVIATION, SD_DIFFICULTY = 3.0, 2.5, 0.8, 2.5
#: A new row's prior covariance is this share of the one seen between the fitted rows, the rest is the model's own.
#: Fitted abilities are shrunken, so what is seen is doubled, with a floor for a dimension in which nobody differs.
_SHARE_SEEN, _INFLATE, _FLOOR = 0.8, 2.0, 0.3
_STEPS, _LONGEST_STEP, _CLOSE = 50, 2.0, 1e-6
#: Gains nearer than this, as a share of the largest, are a tie: sums in another order must not change a choice.
_TIE = 9


@dataclass(frozen=True, eq=False)
class ItemResponse:
    """A fitted model. R rows, T tasks, D dimensions.

    Attributes
    ----------
    ability : logits, mean of the dimension included, shape (R, D).
    difficulty : logits, shape (T,).
    dimension : number of each task's dimension, shape (T,).
    slices : the tasks of each dimension.
    share_scored : share of the rows that have a value of the task, shape (T,).
    prior_mean, prior_cov : of a new row's abilities, shapes (D,) and (D, D).
    """

    ability: Array
    difficulty: Array
    dimension: NDArray[np.int64]
    slices: tuple[slice, ...]
    share_scored: Array
    prior_mean: Array
    prior_cov: Array

    def expected(self, ability: Array | None = None) -> Array:
        """Expected values, shape (rows, T), of the fitted rows or of rows with these abilities."""
        a = self.ability if ability is None else ability
        return expit(a[:, self.dimension] - self.difficulty)


def fit_item_response(values: Array, slices: Sequence[slice], weight: float = 1.0) -> ItemResponse:
    """The mode of the posterior.

    Parameters
    ----------
    values : fractions, shape (R, T); NaN where a row has no value.
    slices : the tasks of each dimension, in order, together all T.
    weight : for how many Bernoulli outcomes a value counts; more than 1 for means over seeds, which scatter less.
    """
    there = ~np.isnan(values)
    trials = Trials(np.where(there, weight * values, 0.0), weight * there, tuple(slices))
    found = fit(trials, Widths(deviation=SD_DEVIATION, task=SD_DIFFICULTY, mean=SD_MEAN, ability=SD_LEVEL))
    ability = np.ascontiguousarray(found.level.T)
    return ItemResponse(
        ability=ability,
        difficulty=found.difficulty,
        dimension=np.repeat(np.arange(len(slices)), [s.stop - s.start for s in slices]),
        slices=tuple(slices),
        share_scored=there.mean(axis=0),
        prior_mean=ability.mean(axis=0),
        prior_cov=_prior_cov(ability),
    )


def _by_dimension(cells: Array, slices: Sequence[slice]) -> Array:
    """Sums over the tasks of each dimension, shape (R, D)."""
    return np.stack([cells[:, s].sum(axis=1) for s in slices], axis=1)


def _prior_cov(ability: Array) -> Array:
    n_rows, n_dims = ability.shape
    own = SD_LEVEL**2 + SD_DEVIATION**2 * np.eye(n_dims)
    if n_rows < 3:
        return own
    seen = _INFLATE * np.atleast_2d(np.cov(ability, rowvar=False)) + _FLOOR * np.eye(n_dims)
    return _SHARE_SEEN * seen + (1 - _SHARE_SEEN) * own


def estimate_abilities(model: ItemResponse, values: Array, weight: float = 1.0) -> Array:
    """Abilities of new rows from the values that they have; shape (rows, D), logits.

    Parameters
    ----------
    values : fractions, shape (rows, T); NaN where there is none, which is most of them.
    weight : as in `fit_item_response`.
    """
    tasks = np.flatnonzero(~np.isnan(values).all(axis=0))
    design = np.zeros((len(tasks), len(model.slices)))
    design[np.arange(len(tasks)), model.dimension[tasks]] = 1.0
    there = ~np.isnan(values[:, tasks])
    y = np.where(there, values[:, tasks], 0.0)
    precision = np.linalg.inv(model.prior_cov)
    a = np.tile(model.prior_mean, (len(values), 1))
    for _ in range(_STEPS):
        p = expit(a @ design.T - model.difficulty[tasks])
        gradient = weight * np.where(there, y - p, 0.0) @ design - (a - model.prior_mean) @ precision
        # Tasks of different dimensions share no ability, so the likelihood's part is diagonal.
        known = weight * np.where(there, p * (1 - p), 0.0) @ design
        step = np.linalg.solve(precision + known[:, :, None] * np.eye(design.shape[1]), gradient[..., None])[..., 0]
        a = a + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        if np.abs(step).max() < _CLOSE:
            break
    return a


def estimate_scores(model: ItemResponse, values: Array, chosen: NDArray[np.int64]) -> Array:
    """Estimated dimension scores of new rows from their values on the chosen tasks; fractions, shape (rows, D).

    What was seen stands as it was seen; a chosen task without a value did not pass the row's gate and does not count;
    every other task counts with its expected value, weighted by the share of the fitted rows that solve it alone.

    Parameters
    ----------
    values : fractions, shape (rows, T); only those of the chosen tasks are looked at.
    chosen : places of the chosen tasks.
    """
    seen = np.full_like(values, np.nan)
    seen[:, chosen] = values[:, chosen]
    expected = model.expected(estimate_abilities(model, seen))
    weight = np.tile(model.share_scored, (len(values), 1))
    there = ~np.isnan(seen[:, chosen])
    weight[:, chosen] = there
    expected[:, chosen] = np.where(there, seen[:, chosen], 0.0)
    total = _by_dimension(weight, model.slices)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _by_dimension(weight * expected, model.slices) / total


# -- which tasks tell most --------------------------------------------------------------------------------


def choose_informative(model: ItemResponse, k: int, may: Mask) -> list[Places]:
    """`k` tasks of each dimension that leave the least uncertainty about the overall score of a new row.

    One task after the other, of any dimension, each the one that lowers the variance of the overall score most, given
    those before it; the variance is averaged over new rows with the abilities of the fitted ones. A task lowers it
    twice: its own value is then known, and it tells about the ability that all other tasks of the row share. So tasks
    of middling difficulty come first, those that every row passes last, and no value that a fitted row happened to
    have is fitted once more.

    Parameters
    ----------
    model : fitted to the rows that choose.
    k : tasks of each dimension.
    may : which tasks may be chosen, shape (T,); at least `k` in each dimension.

    Returns
    -------
    list of Places
        One array per dimension, in the order in which its tasks were chosen.
    """
    design = _Design.of(model)
    free = may.copy()
    picked: list[list[int]] = [[] for _ in model.slices]
    for _ in range(k * len(picked)):
        gain = np.where(free, design.gains(), -np.inf)
        task = int(np.argmax(np.round(gain / gain.max(), _TIE)))
        mine = picked[model.dimension[task]]
        mine.append(task)
        free[task] = False
        if len(mine) == k:
            free[model.dimension == model.dimension[task]] = False
        design.add(task)
    return [np.array(tasks, dtype=np.int64) for tasks in picked]


@dataclass(eq=False)
class _Design:
    """What is known of R rows' overall scores from some tasks, to first order in their abilities.

    Attributes
    ----------
    dimension : number of each task's dimension, shape (T,).
    share : what a task's value counts in the overall score, shape (T,).
    variance : of a value given the ability, shape (R, T).
    information : what a value is expected to tell about its dimension's ability, shape (R, T).
    cov : of the abilities given the tasks so far, shape (R, D, D).
    slope : derivative of the score by the abilities over the tasks that are not known, shape (R, D).
    """

    dimension: NDArray[np.int64]
    share: Array
    variance: Array
    information: Array
    cov: Array
    slope: Array

    @classmethod
    def of(cls, model: ItemResponse) -> _Design:
        p = model.expected()
        variance = p * (1 - p)
        scored = np.array([model.share_scored[s].sum() for s in model.slices])
        share = model.share_scored / np.maximum(scored, 1e-9)[model.dimension] / len(scored)
        return cls(
            dimension=model.dimension,
            share=share,
            variance=variance,
            information=model.share_scored * variance,
            cov=np.tile(model.prior_cov, (len(p), 1, 1)),
            slope=_by_dimension(share * variance, model.slices),
        )

    def gains(self) -> Array:
        """By how much each task would lower the variance of the overall score, mean over rows; shape (T,)."""
        across = np.einsum("rij,rj->ri", self.cov, self.slope)[:, self.dimension]
        own = np.diagonal(self.cov, axis1=1, axis2=2)[:, self.dimension]
        known = self.share * self.variance
        # The score's variance is slope' cov slope + sum of share^2 variance over what is not known. With the task known
        # the slope loses `known`, and cov changes by one rank.
        lost = 2 * known * across - known**2 * own
        learned = self.information * (across - known * own) ** 2 / (1 + self.information * own)
        return (lost + learned + self.share * known).mean(axis=0)

    def add(self, task: int) -> None:
        """Take a task as known."""
        d, w = self.dimension[task], self.information[:, task]
        column = self.cov[:, :, d]
        weight = w / (1 + w * column[:, d])
        self.slope[:, d] -= self.share[task] * self.variance[:, task]
        self.cov = self.cov - weight[:, None, None] * column[:, :, None] * column[:, None, :]
