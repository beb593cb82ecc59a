"""The bootstrap over tasks: tasks are resampled within their dimension, the same resamples for every row.

May import numpy and `cilab.errors`. Knows arrays only: no tables, no files. Resampling whole clusters of rollouts is
another module's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cilab.errors import TableError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Resamples for the intervals of scores, and for every other interval (collaborative-intelligence paper, appendix G).
RESAMPLES_SCORES = 4000
RESAMPLES_OTHER = 2000

#: Resamples worked on at a time, so that their counts stay in the processor's cache (and, for 30 tasks, just below the
#: size from which the C library asks the system for memory each time); and in one matrix product.
_BLOCK, _PIECE = 500, 125


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


def check_resamples(resamples: int) -> None:
    """Refuse a number of resamples that gives no interval."""
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or resamples < 20:
        raise TableError(f"resamples is {resamples!r}: give a whole number of at least 20 (the paper has 4000)")


def draw_counts(n: int, resamples: int, rng: np.random.Generator) -> Array:
    """How often each of `n` tasks stands in each resample of n tasks; shape (resamples, n), rows sum to n.

    Drawing the places and counting them gives what a multinomial gives, in a quarter of its time.
    """
    # Of numpy's bounded integers those of 16 bits are the fastest to draw.
    small = np.uint16 if n <= 2**16 else np.int64
    places = rng.integers(0, n, size=(resamples, n), dtype=small).astype(np.intp)
    places += np.arange(0, resamples * n, n, dtype=np.intp)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


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
        return self.by_dimension.mean(axis=0)

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
    for d, tasks in enumerate(dimensions):
        weight = used[:, tasks]
        sums = np.vstack([np.where(weight, values[:, tasks], 0.0), weight.astype(np.float64)])
        if weight.all():
            sums = sums[: len(values)] / weight.shape[1]
        sums, drawn = np.ascontiguousarray(sums.T), np.empty((_BLOCK, len(sums)))
        for start in range(0, resamples, _BLOCK):
            out = by_dimension[d, start : start + _BLOCK]
            _product(draw_counts(weight.shape[1], len(out), rng), sums, out=drawn[: len(out)])
            _ratios(drawn[: len(out)], out)
    return Replicates(by_dimension)


def _ratios(drawn: Array, out: Array) -> None:
    """Sums of drawn values over numbers of drawn tasks, into `out` of shape (resamples, rows); or means as they are."""
    rows = out.shape[1]
    if drawn.shape[1] == rows:
        out[:] = drawn
        return
    with np.errstate(invalid="ignore", divide="ignore"):
        np.divide(drawn[:, :rows], drawn[:, rows:], out=out)


def _product(a: Array, b: Array, *, out: Array) -> None:
    """a @ b into `out`, in pieces too small for BLAS to share among threads.

    On a busy machine threads cost more by waiting for one another than they save.
    """
    whole = len(a) - len(a) % _PIECE
    pieces = (-1, _PIECE, a.shape[1])
    np.matmul(a[:whole].reshape(pieces), b, out=out[:whole].reshape(-1, _PIECE, b.shape[1]))
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


def percentile_interval(replicates: Array, ci_level: float = 0.95) -> tuple[Array, Array]:
    """Lower and upper end over the first axis, replicates that are NaN left out; NaN where none is left.

    Parameters
    ----------
    replicates : shape (resamples, ...).
    ci_level : a fraction.
    """
    ends = [0.5 - ci_level / 2, 0.5 + ci_level / 2]
    flat = replicates.reshape(len(replicates), -1)
    if not np.isnan(flat).any():
        # Each column in one piece of memory: partitioning is twice as fast.
        lo, hi = np.quantile(np.ascontiguousarray(flat.T), ends, axis=1, overwrite_input=True)
    else:
        kept = [column[~np.isnan(column)] for column in flat.T]
        lo, hi = np.array([np.quantile(k, ends) if len(k) else (np.nan, np.nan) for k in kept]).T
    shape = replicates.shape[1:]
    return lo.reshape(shape), hi.reshape(shape)


def ends(replicates: Array, ci_level: float = 0.95) -> tuple[float | None, float | None]:
    """The percentile interval of one quantity; (None, None) where no replicate is defined."""
    lo, hi = percentile_interval(replicates, ci_level) if len(replicates) else (np.nan, np.nan)
    return (None, None) if np.isnan(lo) else (float(lo), float(hi))


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
