"""The bootstrap over tasks: tasks are resampled within their dimension, the same resamples for every row.

May import numpy and `cilab.core`. Knows arrays only: no tables, no files. Resampling whole clusters of rollouts is
another module's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Resamples for the intervals of scores, and for every other interval (collaborative-intelligence paper, appendix G).
RESAMPLES_SCORES = 4000
RESAMPLES_OTHER = 2000

#: A bootstrap interval with more undefined replicates than this is not given.
MOST_UNDEFINED = 0.05
#: Resamples worked on at a time, so that their counts stay in the processor's cache; and in one matrix product.
_BLOCK, _PIECE = 2000, 250
#: Up to this bound an integer of 16 bits is drawn without much rejection.
_QUICK = 2**12
#: Parts of one that scores are made of (see `_common_unit`), and below what whole numbers are exact in 32 bits.
_UNITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 20, 24, 30, 60)
_EXACT = 2**24


# -- points -----------------------------------------------------------------------------------------------


def exact_mean(values: Array) -> float:
    """Mean of a vector, NaN for an empty one. The sum is exact, so that the order of the values does not matter."""
    return math.fsum(values) / len(values) if len(values) else math.nan


def dimension_means(values: Array, used: Mask, dimensions: Sequence[slice]) -> Array:
    """Mean over the used tasks of each dimension.

    Parameters
    ----------
    values : fractions, shape (rows, tasks); what is not used may be NaN.
    used : which of them count, shape (rows, tasks).
    dimensions : one slice of the task axis per dimension.

    Returns
    -------
    Array
        Shape (rows, dimensions); NaN where a row has no used task.
    """
    return np.array([[exact_mean(v[d][u[d]]) for d in dimensions] for v, u in zip(values, used, strict=True)])


def counted_means(values: Array, used: Mask, dimensions: Sequence[slice], counts: Array) -> Array:
    """The same in resamples, given how often each task stands in each.

    Parameters
    ----------
    values, used, dimensions : as in `dimension_means`.
    counts : shape (resamples, tasks).

    Returns
    -------
    Array
        Shape (dimensions, resamples, rows); NaN where a resample holds no used task of the row.
    """
    kept, there = np.where(used, values, 0.0), used.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array([(counts[:, d] @ kept[:, d].T) / (counts[:, d] @ there[:, d].T) for d in dimensions])


def overall_means(by_dimension: Array, *, skip_undefined: bool = False) -> Array:
    """Mean over the last axis: every dimension counts equally, whatever its number of tasks.

    With an undefined dimension the mean is NaN, or with `skip_undefined` the mean of the others.
    """
    out = [
        exact_mean(row[np.isfinite(row)]) if skip_undefined or np.isfinite(row).all() else math.nan
        for row in by_dimension
    ]
    return np.array(out)


# -- resamples --------------------------------------------------------------------------------------------


def draw_counts(n: int, resamples: int, rng: np.random.Generator) -> Array:
    """How often each of `n` tasks stands in each resample of n tasks; shape (resamples, n), rows sum to n.

    Drawing the places and counting them gives what a multinomial gives, in a fraction of its time.
    """
    counts = np.empty((resamples, n))
    _draw_into(counts, np.empty((resamples, n), dtype=np.intp), rng)
    return counts


def cluster_counts(
    clusters: NDArray[np.int64], strata: NDArray[np.int64], resamples: int, rng: np.random.Generator
) -> Array:
    """How often each task stands in each resample in which whole clusters are drawn, shape (resamples, n).

    Clusters are drawn within their stratum, as many as it has. Where one reaches over several strata, all are drawn
    from one urn.

    Parameters
    ----------
    clusters, strata : codes of each task, shape (n,).
    """
    of = np.unique(clusters, return_inverse=True)[1]
    n = int(of.max(initial=-1)) + 1
    first = np.zeros(n, dtype=np.int64)
    first[of] = strata
    if (first[of] != strata).any():
        return draw_counts(n, resamples, rng)[:, of]
    drawn = np.zeros((resamples, n))
    for stratum in np.unique(first):
        at = np.flatnonzero(first == stratum)
        drawn[:, at] = draw_counts(len(at), resamples, rng)
    return drawn[:, of]


def _draw_into(counts: NDArray[Any], scratch: NDArray[np.intp], rng: np.random.Generator) -> None:
    """`draw_counts` into memory that is there already; `scratch` has the shape of the counts."""
    resamples, n = counts.shape
    if n == 0:  # a dimension whose tasks nobody played
        return
    first = np.arange(0, resamples * n, n, dtype=np.intp)[:, None]
    np.add(_places(n, counts.size, rng).reshape(counts.shape), first, out=scratch)
    counts.fill(0)
    np.add.at(counts.reshape(-1), scratch.reshape(-1), counts.dtype.type(1))


def _places(n: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
    """`size` independent draws from 0 to n - 1.

    A bounded integer of 16 bits, the quickest that numpy draws, holds two of them where n^2 is small: its digits to
    base n are independent and uniform, and dividing costs less than drawing.
    """
    if n > 2**16:
        return rng.integers(0, n, size=size)
    if n**2 > _QUICK:
        return rng.integers(0, n, size=size, dtype=np.uint16)
    number = rng.integers(0, n**2, size=-(-size // 2), dtype=np.uint16)
    out = np.empty((2, len(number)), dtype=np.uint16)
    np.floor_divide(number, np.uint16(n), out=out[0])
    np.subtract(number, out[0] * np.uint16(n), out=out[1])
    return out.reshape(-1)[:size]


@dataclass(frozen=True)
class Replicates:
    """Bootstrap replicates of scores.

    Attributes
    ----------
    by_dimension : shape (dimensions, resamples, rows), fractions; NaN where a resample holds no used task of the row.
    """

    by_dimension: Array

    @cached_property
    def overall(self) -> Array:
        """Shape (resamples, rows): the mean over dimensions; NaN where one of them is empty in the resample."""
        return np.add.reduce(self.by_dimension, axis=0) / len(self.by_dimension)

    def overall_of_defined(self, defined: Mask) -> Array:
        """As `overall`, over the dimensions that are `defined` for the row; shape of `defined` (rows, dimensions)."""
        weight = defined.T[:, None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weight, self.by_dimension, 0.0).sum(axis=0) / defined.sum(axis=1)

    @property
    def n_empty(self) -> NDArray[np.int64]:
        """Resamples without a used task, shape (dimensions, rows)."""
        return np.isnan(self.by_dimension).sum(axis=1)


def resample_scores(
    values: Array, used: Mask, dimensions: Sequence[slice], *, resamples: int, rng: np.random.Generator
) -> Replicates:
    """Replicates of every row's dimension scores, with the same counts for every row.

    Within each dimension as many tasks are drawn as it has, with replacement, from all of them. A row's replicate is
    the mean over the drawn tasks that it uses (that pass its gate), so its number of tasks varies from one resample to
    the next, and rows stay paired by task.

    Parameters
    ----------
    values : fractions, shape (rows, tasks).
    used : which of them count, shape (rows, tasks).
    dimensions : one slice of the task axis per dimension.
    resamples : number of resamples.
    rng : the source of the draws.
    """
    by_dimension = np.empty((len(dimensions), resamples, len(values)))
    widest = max((d.stop - d.start for d in dimensions), default=0)
    unit = _common_unit(values[used], widest)
    for tasks, replicates in zip(dimensions, by_dimension, strict=True):
        weight = used[:, tasks]
        _resample_dimension(np.where(weight, values[:, tasks], 0.0), weight, unit, replicates, rng)
    return Replicates(by_dimension)


def _common_unit(values: Array, n: int) -> int | None:
    """The least m for which every value is a whole number of m-th parts; None without one, or with too large sums.

    Scores are means over a few seeds of 0, 1/2 and 1. Counted in such units they are whole numbers, whose sums over
    `n` draws are exact in single precision, at half the time of double precision.
    """
    for m in _UNITS:
        scaled = values * m
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) < 1e-9:
            return m if np.abs(scaled).max(initial=1.0) * n < _EXACT and m * n < _EXACT else None
    return None


def _resample_dimension(
    values: Array, weight: Mask, unit: int | None, replicates: Array, rng: np.random.Generator
) -> None:
    """Replicates of one dimension, block by block, into `replicates` of shape (resamples, rows).

    `values` has 0 where a task is not used, shape (rows, tasks). One product gives the sums and, where the gate takes
    tasks out, what they are divided by.
    """
    n_rows, n = values.shape
    kind, m = (np.float64, 1) if unit is None else (np.float32, unit)
    parts = [values if unit is None else np.rint(values * m)]
    parts += [] if weight.all() else [m * weight]
    matrix = np.ascontiguousarray(np.concatenate(parts).T, dtype=kind)
    size = min(_BLOCK, len(replicates))
    counts, scratch = np.empty((size, n), dtype=kind), np.empty((size, n), dtype=np.intp)
    found = np.empty((size, matrix.shape[1]), dtype=kind)
    for start in range(0, len(replicates), size):
        out = replicates[start : start + size]
        drawn, sums = counts[: len(out)], found[: len(out)]
        _draw_into(drawn, scratch[: len(out)], rng)
        _product(drawn, matrix, out=sums)
        below = sums[:, n_rows:] if len(parts) > 1 else kind(m * n)
        with np.errstate(invalid="ignore", divide="ignore"):
            np.divide(sums[:, :n_rows], below, out=out, dtype=np.float64)


def _product(a: NDArray[Any], b: NDArray[Any], *, out: NDArray[Any]) -> None:
    """a @ b into `out`, in pieces too small for BLAS to share among threads.

    On a busy machine threads cost more by waiting for one another than they save.
    """
    whole = len(a) - len(a) % _PIECE
    pieces = (whole // _PIECE, _PIECE)
    np.matmul(a[:whole].reshape(*pieces, a.shape[1]), b, out=out[:whole].reshape(*pieces, b.shape[1]))
    np.matmul(a[whole:], b, out=out[whole:])


def resample_gated(
    values: Array, used: Mask, dimensions: Sequence[slice], *, resamples: int, rng: np.random.Generator
) -> Replicates:
    """Replicates in which each row draws its own used tasks, as many as it has, apart from the other rows.

    The public leaderboard of 9 October 2026 did this. No replicate is empty, but rows are not paired.
    """
    by_dimension = np.full((len(dimensions), resamples, len(values)), np.nan)
    for d, tasks in enumerate(dimensions):
        for r in range(len(values)):
            own = values[r, tasks][used[r, tasks]]
            if len(own):
                by_dimension[d, :, r] = draw_counts(len(own), resamples, rng) @ own / len(own)
    return Replicates(by_dimension)


# -- what is read off replicates --------------------------------------------------------------------------


def percentile_interval(replicates: Array, ci_level: float = CI_LEVEL) -> tuple[Array, Array]:
    """Lower and upper end over the first axis, replicates that are NaN left out; NaN where none is left.

    Parameters
    ----------
    replicates : shape (resamples, ...).
    ci_level : a fraction.
    """
    columns = replicates.reshape(len(replicates), -1).T
    probabilities = (0.5 - ci_level / 2, 0.5 + ci_level / 2)
    if np.isnan(columns).any():
        kept = [column[~np.isnan(column)] for column in columns]
        lo, hi = np.array([np.quantile(k, probabilities) if len(k) else (np.nan, np.nan) for k in kept]).T
    else:
        scratch = np.array(columns, order="C")
        lo, hi = (_quantile(scratch, q) for q in probabilities)
    shape = replicates.shape[1:]
    return lo.reshape(shape), hi.reshape(shape)


def _quantile(rows: Array, q: float) -> Array:
    """The q-quantile of each row as numpy has it (linear between neighbours); changes the order within rows.

    Partitioning at one place is several times as fast as numpy's quantile, which asks for both neighbours.
    """
    place = q * (rows.shape[1] - 1)
    k = int(place)
    rows.partition(k, axis=1)
    below = rows[:, k].copy()
    above = rows[:, k + 1 :].min(axis=1) if k + 1 < rows.shape[1] else below
    return below + (place - k) * (above - below)


def ends(replicates: Array, ci_level: float = CI_LEVEL) -> tuple[float | None, float | None]:
    """The percentile interval of one quantity; (None, None) where no replicate is defined."""
    lo, hi = percentile_interval(replicates, ci_level) if len(replicates) else (np.nan, np.nan)
    return (None, None) if np.isnan(lo) else (float(lo), float(hi))


class Interval(NamedTuple):
    """A percentile interval of one quantity, with the replicates that it does without.

    Attributes
    ----------
    lo, hi : its ends; None where there is none.
    n_empty : replicates in which the quantity is undefined.
    reason : why there is no interval although something was resampled; None where there is one.
    """

    lo: float | None = None
    hi: float | None = None
    n_empty: int = 0
    reason: str | None = None


def interval(replicates: Array, ci_level: float = CI_LEVEL) -> Interval:
    """The interval of one quantity, and none where more than 5 % of its replicates are undefined.

    What is left of them would be those that happened to draw the scarce tasks: a selection, not a sample.
    """
    n_empty = int(np.isnan(replicates).sum())
    if n_empty > MOST_UNDEFINED * len(replicates):
        return Interval(None, None, n_empty, too_empty(n_empty, len(replicates)))
    return Interval(*ends(replicates, ci_level), n_empty)


def too_empty(n_empty: int, resamples: int) -> str:
    """Why a quantity with so many undefined replicates has no interval."""
    return f"undefined in {100 * n_empty / resamples:.0f}% of the resamples: no interval"


def filled(replicates: Array, points: Array) -> Array:
    """Replicates of several rows in which one row's missing task does not cost the whole resample.

    A row without a value in a resample stands at its own point, moved by as much as the other rows moved on average.
    Leaving it out instead would compare other rows than the points do, and those that go are not any rows but those
    that solve few tasks. Where fewer than half of the rows have a value, all are NaN: that resample is empty.

    Parameters
    ----------
    replicates : shape (resamples, rows), NaN where a row has no value.
    points : what they are replicates of, shape (rows,), all defined.
    """
    there = ~np.isnan(replicates)
    if there.all():
        return replicates
    n = there.sum(axis=1, keepdims=True)
    moved = np.where(there, replicates - points, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    return np.where(2 * n >= len(points), np.where(there, replicates, points + moved), np.nan)


def row_correlations(x: Array, y: Array) -> Array:
    """Pearson's r over rows (the last axis) in each replicate; NaN where a row is undefined or nothing varies."""
    if x.shape[1] < 2:
        return np.full(len(x), np.nan)
    a, b = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-12, (a * b).sum(axis=1) / spread, np.nan)


def share_above_zero(differences: Array) -> Array:
    """Share of replicates above 0 over the first axis; a tie counts half, a NaN not at all."""
    there = ~np.isnan(differences)
    above = (differences > 0).sum(axis=0) + 0.5 * ((differences == 0) & there).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return above / there.sum(axis=0)


def two_sided_p(differences: Array) -> Array:
    """Two-sided p of "no difference" over the first axis: twice the share on the smaller side of 0, ties on both.

    From the same replicates as the percentile interval, so that the two agree; never below 2 / resamples.
    """
    n = (~np.isnan(differences)).sum(axis=0)
    smaller = np.minimum((differences <= 0).sum(axis=0), (differences >= 0).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(n > 0, np.minimum(1.0, np.maximum(2 * smaller, 2) / n), np.nan)
