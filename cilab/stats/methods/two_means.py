"""Sums and differences of estimates that each have an interval: of two means from different tasks, and of more.

May import numpy, `cilab.core` and `cilab.stats.methods`. Knows arrays only: no tables, no files. Whether a mean has an
interval, and which, says `cilab.stats.methods.uncertainty`; here such intervals are put together (Newcombe 1998; Zou
and Donner 2008): the distance of the sum's end from its point is the root of the sum of the squares of theirs. Where
nothing varies the parts keep the width that the rule gives them, and so does their difference.

References
----------
Newcombe (1998), Interval estimation for the difference between independent proportions. Zou and Donner (2008),
Construction of confidence limits about effect measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cilab.core.options import CI_LEVEL
from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.distributions import t_quantile
from cilab.stats.methods.uncertainty import NO_SPREAD, Bounds, Codes, mean_bounds

#: The least p that is looked for, and how often the range is halved.
_LEAST_P, _HALVINGS = 1e-6, 20
_SAME = 1e-9


class Part(NamedTuple):
    """An estimate and the ends of its interval; `sign` is -1 for what is subtracted."""

    point: float
    lo: float
    hi: float
    sign: int = 1


def together(parts: Sequence[Part], r: float = 0.0) -> tuple[float, float, float]:
    """Sum of signed estimates with the ends of its interval.

    Parameters
    ----------
    parts : the estimates.
    r : correlation of the first two estimates; all others are independent.

    Examples
    --------
    >>> [round(v, 4) for v in together([Part(56 / 70, 0.6921, 0.8767), Part(48 / 80, 0.4905, 0.7001, -1)])]
    [0.2, 0.0528, 0.3337]
    """
    point = sum(p.sign * p.point for p in parts)
    down = [p.point - p.lo if p.sign > 0 else p.hi - p.point for p in parts]
    up = [p.hi - p.point if p.sign > 0 else p.point - p.lo for p in parts]
    both = 2 * r * parts[0].sign * parts[1].sign if len(parts) > 1 else 0.0
    low, high = (
        math.sqrt(max(0.0, sum(d * d for d in away) + (both * away[0] * away[1] if both else 0.0)))
        for away in (down, up)
    )
    return point, point - low, point + high


class Difference(NamedTuple):
    """The difference of two means, its interval, and p.

    Attributes
    ----------
    point : the first mean less the second; NaN where one is not there.
    bounds : its interval; `se` and `df` are those of a t interval of the same width.
    p : the least level of significance at which the interval leaves out 0, not below 1e-6; None without an interval.
    """

    point: float
    bounds: Bounds
    p: float | None = None


def difference(
    values: Array,
    first: Mask,
    *,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    ci_level: float = CI_LEVEL,
    unit: str = "task",
    sides: tuple[str, str] = ("of the first", "of the second"),
    test: bool = True,
) -> Difference:
    """The mean of one set of tasks less that of another, both means over strata.

    Parameters
    ----------
    values : what each task scored, fractions, shape (n,), none NaN.
    first : which tasks are of the first set, shape (n,).
    strata : which stratum (dimension) each is in, shape (n,); each stratum has tasks of both sets.
    clusters : which cluster each came in, shape (n,). One that reaches over both sets makes the two means hang
        together, which is allowed for.
    ci_level : a fraction.
    unit, sides : what a cluster and the two sets are called.
    test : whether p is wanted, which takes the longest.

    Examples
    --------
    >>> found = difference(np.ones(60), np.arange(60) < 30)
    >>> round(found.bounds.lo, 3), found.point, round(found.bounds.hi, 3), found.p
    (-0.116, 0.0, 0.116, 1.0)
    """
    n = len(values)
    strata = np.zeros(n, dtype=np.int64) if strata is None else np.asarray(strata)
    of = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    n_clusters = len(np.unique(of))
    sets = (first, ~first)

    def at_level(level: float) -> list[Bounds]:
        return [mean_bounds(values[s], strata=strata[s], clusters=of[s], ci_level=level, unit=unit) for s in sets]

    means = [_mean(values[s], strata[s]) for s in sets]
    point = means[0] - means[1]
    found = at_level(ci_level)
    for bounds, side in zip(found, sides, strict=True):
        if bounds.reason:
            return Difference(point, Bounds(n_clusters=n_clusters, reason=f"{bounds.reason} {side}"))
    r = _correlation(values, sets, strata, of)

    def ends(of_level: Sequence[Bounds]) -> tuple[float, float, float]:
        parts = [Part(m, b.lo, b.hi, sign) for m, b, sign in zip(means, of_level, (1, -1), strict=True)]  # type: ignore[arg-type]
        return together(parts, r)

    _, lo, hi = ends(found)
    if hi - lo < _SAME:
        return Difference(point, Bounds(n_clusters=n_clusters, reason=NO_SPREAD))
    df = max(1.0, float(sum(len(np.unique(of[s])) - len(np.unique(strata[s])) for s in sets)))
    se = (hi - lo) / 2 / t_quantile(0.5 + ci_level / 2, df)
    bounds = Bounds(max(lo, -1.0), min(hi, 1.0), n_clusters, None, se, df)
    return Difference(point, bounds, _p(lambda level: ends(at_level(level)), point) if test else None)


def _mean(values: Array, strata: Codes) -> float:
    """Mean over strata of their means; NaN without a value."""
    if not len(values):
        return math.nan
    codes = np.unique(strata, return_inverse=True)[1]
    return float((np.bincount(codes, values) / np.bincount(codes)).mean())


def _correlation(values: Array, sets: tuple[Mask, Mask], strata: Codes, of: Codes) -> float:
    """Correlation of the two means through clusters that reach over both sets; 0 where there is none."""
    n = int(of.max()) + 1
    sums = []
    for s in sets:
        codes = np.unique(strata[s], return_inverse=True)[1]
        count = np.bincount(codes)
        means = np.bincount(codes, values[s]) / count
        away = (values[s] - means[codes]) / (count[codes] * len(count))
        sums.append(np.bincount(of[s], away, n))
    scale = math.sqrt(float((sums[0] ** 2).sum() * (sums[1] ** 2).sum()))
    return float(sums[0] @ sums[1]) / scale if scale > 1e-15 else 0.0


def _p(ends: Callable[[float], tuple[float, float, float]], point: float) -> float:
    """The significance at which an end of the interval touches 0, by halving its logarithm."""
    if abs(point) < _SAME:
        return 1.0

    def leaves_out(p: float) -> bool:
        _, lo, hi = ends(1 - p)
        return lo > 0 or hi < 0

    low, high = math.log(_LEAST_P), 0.0
    if leaves_out(_LEAST_P):
        return _LEAST_P
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if leaves_out(math.exp(middle)) else (middle, high)
    return math.exp(high)


__all__ = ["Difference", "Part", "difference", "together"]
