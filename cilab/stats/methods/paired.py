"""Two sides over tasks in strata: what each task adds to their difference, and what stands beside its interval.

May import numpy and `cilab.stats.methods`. Knows arrays only: no tables, no files, and draws nothing. When there is an
interval, and which, is said in `cilab.stats.methods.uncertainty`; here is how it and a p-value are made to agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.distributions import normal_quantile, t_quantile, t_two_sided

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Layout:
    """The stratum (dimension) and the cluster of each task, as codes from 0 on, each of shape (tasks,).

    A cluster holds tasks that were sampled together; it may reach over strata.
    """

    strata: Codes
    clusters: Codes

    @classmethod
    def of(cls, strata: NDArray, clusters: NDArray) -> Layout:
        """From labels of any kind; codes are in the order of the labels."""
        codes = [np.unique(labels, return_inverse=True)[1].reshape(-1) for labels in (strata, clusters)]
        return cls(codes[0].astype(np.intp), codes[1].astype(np.intp))

    @cached_property
    def n_strata(self) -> int:
        """Number of strata."""
        return int(self.strata.max(initial=-1)) + 1

    @cached_property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.clusters.max(initial=-1)) + 1

    def by_stratum(self, values: NDArray) -> Array:
        """Sums of the last axis within strata."""
        return total(values, self.strata, self.n_strata)

    def by_cluster(self, values: NDArray) -> Array:
        """Sums of the last axis within clusters."""
        return total(values, self.clusters, self.n_clusters)


def total(values: NDArray, codes: Codes, n: int) -> Array:
    """Sums of the last axis by code; shape (..., n)."""
    if n == len(codes) and (codes == np.arange(n)).all():
        return np.asarray(values, float)
    which = np.zeros((len(codes), n))
    which[np.arange(len(codes)), codes] = 1.0
    return values @ which


class Parts(NamedTuple):
    """What tasks add to a difference.

    Attributes
    ----------
    difference : shape (...,): the mean over strata.
    of_strata : the difference in each stratum, shape (..., strata); NaN without a pair that has tasks on both sides.
    influence : shape (..., tasks): how much each task moves it, beyond the mean of its side; 0 in sum in every stratum.
    units : shape (..., tasks): what each task adds to it, where both sides rest on the same tasks; else not to be used.
    """

    difference: Array
    of_strata: Array
    influence: Array
    units: Array


def parts(
    a: Array, b: Array, used: tuple[Mask, Mask], layout: Layout, *, scale: tuple[Array, Array] | None = None
) -> Parts:
    """The difference a - b and each task's part in it.

    Parameters
    ----------
    a, b : values, shape (..., pairs, tasks); 0 where not used.
    used : which count, for a and for b, of the same shape.
    layout : strata and clusters of the tasks.
    scale : factors of each side's influence, shape (strata,) each.

    Returns
    -------
    Parts
        In a stratum the mean over the pairs in which both sides have a task; over the strata that have such a pair.
    """
    means, adds, moves = [], [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for i, (values, there) in enumerate(zip((a, b), used, strict=True)):
            n = layout.by_stratum(there)
            mean = layout.by_stratum(values) / n
            each = n[..., layout.strata]
            factor = 1.0 if scale is None else scale[i][layout.strata]
            means.append(mean)
            adds.append(np.where(there, values / each, 0.0))
            moves.append(np.where(there, factor * (values - mean[..., layout.strata]) / each, 0.0))
        both = ~np.isnan(means[0] - means[1])
        n_pairs = both.sum(axis=-2)
        n_strata = (n_pairs > 0).sum(axis=-1)
        of_strata = np.where(both, means[0] - means[1], 0.0).sum(axis=-2) / n_pairs
        difference = np.where(n_pairs > 0, of_strata, 0.0).sum(axis=-1) / n_strata
        share = np.where(both, 1.0 / (n_pairs * n_strata[..., None])[..., None, :], 0.0)[..., layout.strata]
    influence, units = (((of_a - of_b) * share).sum(axis=-2) for of_a, of_b in (moves, adds))
    return Parts(difference, of_strata, influence, units)


def agreeing(
    difference: float, ends: tuple[float, float], p: float, ci_level: float, df: float | None
) -> tuple[float, float]:
    """Ends of an interval of a difference between -1 and 1, made to leave out 0 exactly when p is below 1 - ci_level.

    An interval by t and an exact p are two constructions, which a few tasks can set at odds. Where they are, the end
    nearer to 0 becomes the test-based limit d (1 - t / t_p) (Miettinen 1976), with t_p the quantile that p stands for:
    it lies beyond 0 just when p is large.

    Parameters
    ----------
    difference : a fraction, d.
    ends : of the interval as it is.
    p : two-sided, of no difference.
    ci_level : a fraction.
    df : degrees of freedom of t; None takes the normal.

    Examples
    --------
    >>> agreeing(0.5, (0.1, 0.9), 0.2, 0.95, None)[0] < 0 < agreeing(0.5, (-0.1, 1.1), 0.02, 0.95, None)[0]
    True
    """
    lo, hi = ends
    significant = p < 1 - ci_level - 1e-12
    if (lo > 0 or hi < 0) != significant:
        of_p, of_level = _quantile(1 - p / 2, df), _quantile(0.5 + ci_level / 2, df)
        end = difference * (1 - of_level / of_p) if of_p > 0 else -math.copysign(1.0, difference)
        lo, hi = (end, hi) if difference > 0 else (lo, end)
    return max(lo, -1.0), min(hi, 1.0)


def equivalence_p(difference: float, margin: float, *, se: float | None, df: float | None, n: float) -> float:
    """p of two one-sided tests that a difference lies between -margin and margin (Schuirmann 1987).

    Parameters
    ----------
    difference, margin : fractions.
    se, df : standard error and degrees of freedom of a t-test. Without them all of n units are alike, and p is the
        chance of that if the mean lies at the margin.
    n : effective number of units.
    """
    if se and df is not None:
        return max(_above((difference + margin) / se, df), _above((margin - difference) / se, df))
    if abs(difference) >= margin:
        return 1.0
    return ((1 - margin) / (1 - abs(difference))) ** n


def _quantile(q: float, df: float | None) -> float:
    if q >= 1:
        return math.inf
    return normal_quantile(q) if df is None else t_quantile(q, df)


def _above(t: float, df: float) -> float:
    """P(T >= t)."""
    half = t_two_sided(t, df) / 2
    return half if t > 0 else 1 - half
