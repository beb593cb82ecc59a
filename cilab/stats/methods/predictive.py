"""Posterior predictive checks of a row-by-task model: do data drawn from it look like the data?

May import numpy and its own folder. Knows arrays only: no tables, no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.row_task_model import Trials, expit


class Predicted(NamedTuple):
    """A statistic in the data and in data sets drawn from the model, shape (units,) each; NaN where undefined.

    `expected` mean over the drawn ones, `lo` and `hi` the ends within which 95 % of them lie, `p` two-sided: how often
    a drawn one is as far off, counting ties half.
    """

    observed: Array
    expected: Array
    lo: Array
    hi: Array
    p: Array


def predict(
    logits: Array, trials: Trials, statistics: Sequence[Callable[[Array, Array], Array]], rng: np.random.Generator
) -> list[Predicted]:
    """Statistics of the data against those of one data set for each draw of the posterior.

    Parameters
    ----------
    logits : log-odds of a pass of each cell in each draw, shape (draws, R, T).
    trials : the data; a drawn data set has the same runs.
    statistics : functions of (passes, runs), both (R, T), that give an array.
    """
    drawn = rng.binomial(trials.runs.astype(int), expit(logits)).astype(float)
    return [_against([s(one, trials.runs) for one in drawn], s(trials.passes, trials.runs)) for s in statistics]


def _against(drawn: Sequence[Array], observed: Array) -> Predicted:
    values = np.stack(drawn)
    there = np.isfinite(observed) & np.isfinite(values).all(axis=0)
    out = np.full((5, len(observed)), np.nan)
    v, o = values[:, there], observed[there]
    # Sums of halves differ by rounding from what they equal.
    below = (v < o - 1e-9).mean(axis=0) + 0.5 * (np.abs(v - o) <= 1e-9).mean(axis=0)
    out[:, there] = [
        o,
        v.mean(axis=0),
        *np.quantile(v, [0.025, 0.975], axis=0),
        np.minimum(1, 2 * np.minimum(below, 1 - below)),
    ]
    return Predicted(*out)


def row_scores(passes: Array, runs: Array) -> Array:
    """Share of passes of each row, (R,)."""
    return _ratio(passes.sum(axis=1), runs.sum(axis=1))


def task_scores(passes: Array, runs: Array) -> Array:
    """Share of passes of each task, (T,)."""
    return _ratio(passes.sum(axis=0), runs.sum(axis=0))


def pair_odds(dimensions: Sequence[slice]) -> Callable[[Array, Array], Array]:
    """The statistic of pairs of tasks of a dimension: log odds ratio of passing both, over the rows that have both.

    Every row counts as one, with the share of its runs that passed; half a row is added to each of the four counts.
    Too large where two tasks have more in common than the model knows.
    """
    pairs = [np.triu_indices(at.stop - at.start, 1) for at in dimensions]

    def statistic(passes: Array, runs: Array) -> Array:
        parts = []
        for at, (a, b) in zip(dimensions, pairs, strict=True):
            there = (runs[:, at] > 0).astype(float)
            y = np.where(there > 0, passes[:, at] / np.maximum(runs[:, at], 1), 0.0)
            n = there - y
            both, neither, one, other = y.T @ y, n.T @ n, y.T @ n, n.T @ y
            value = np.log((both + 0.5) * (neither + 0.5) / ((one + 0.5) * (other + 0.5)))
            parts.append(np.where(there.T @ there > 1, value, np.nan)[a, b])
        return np.concatenate(parts)

    return statistic


def repeat_disagreement(dimensions: Sequence[slice]) -> Callable[[Array, Array], Array]:
    """The statistic of repeats, one a dimension: mean of share passed * share failed over the cells of several runs.

    Too small where the runs of a cell agree more than independent ones would.
    """

    def statistic(passes: Array, runs: Array) -> Array:
        out = np.full(len(dimensions), np.nan)
        for d, at in enumerate(dimensions):
            several = runs[:, at] > 1
            if several.any():
                share = passes[:, at][several] / runs[:, at][several]
                out[d] = (share * (1 - share)).mean()
        return out

    return statistic


def _ratio(above: Array, below: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(above / below, dtype=np.float64)
