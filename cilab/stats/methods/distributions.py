"""Distributions, ranks and intervals of a share, as the tests and coefficients of this package need them.

May import numpy, scipy and `cilab.core`. The functions stand on `scipy.special`, which loads in a fifth of the time
that `scipy.stats` takes: for most reports that import was the longest part of the statistics. What is rarely needed
(the signed-rank test, Fisher's and its odds ratio, Shapiro and Wilk's) stays with `scipy.stats`.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def normal_two_sided(z: float) -> float:
    """P(|Z| >= |z|) of a standard normal Z."""
    from scipy import special

    return float(2 * special.ndtr(-abs(z)))


def normal_quantile(q: float) -> float:
    """The value below which a standard normal variable lies with probability q, between 0 and 1."""
    return NormalDist().inv_cdf(q)


def t_two_sided(t: float, df: float) -> float:
    """P(|T| >= |t|) of Student's t with `df` degrees of freedom."""
    from scipy import special

    return float(2 * special.stdtr(df, -abs(t)))


def t_quantile(q: float, df: float) -> float:
    """The value below which Student's t with `df` degrees of freedom lies with probability q."""
    from scipy import special

    return float(special.stdtrit(df, q))


def chi2_upper(x: float, df: float) -> float:
    """P(X >= x) of chi-square with `df` degrees of freedom."""
    from scipy import special

    return float(special.chdtrc(df, x))


def chi2_quantile(q: float, df: float) -> float:
    """The value below which chi-square with `df` degrees of freedom lies with probability q."""
    from scipy import special

    return float(special.chdtri(df, 1 - q))


def f_upper(x: float, df1: float, df2: float) -> float:
    """P(X >= x) of the F distribution."""
    from scipy import special

    return float(special.fdtrc(df1, df2, x))


def f_quantile(q: float, df1: float, df2: float) -> float:
    """The value below which the F distribution lies with probability q."""
    from scipy import special

    return float(special.fdtri(df1, df2, q))


def fair_coin_p(hits: int, n: int, alternative: str = "two-sided") -> float:
    """Exact p-value of `hits` in `n` throws of a fair coin.

    `greater` is the chance of as many hits or more, `less` of as many or fewer; two-sided doubles the smaller one.
    """
    from scipy import special

    upper = float(special.bdtrc(hits - 1, n, 0.5)) if hits else 1.0
    lower = float(special.bdtr(hits, n, 0.5))
    if alternative == "two-sided":
        return min(1.0, 2 * min(upper, lower))
    return upper if alternative == "greater" else lower


def share_interval(
    hits: int,
    n: int,
    ci_level: float,
    *,
    method: Literal["exact", "wilson"] = "exact",
    alternative: str = "two-sided",
) -> tuple[float, float]:
    """Interval of a share of `hits` among `n` >= 1, as fractions.

    Parameters
    ----------
    method : `exact` (Clopper and Pearson) or `wilson`, without continuity correction.
    alternative : `greater` bounds the share from below only, `less` from above only.
    """
    from scipy import special

    tail = (1 - ci_level) / (2 if alternative == "two-sided" else 1)
    if method == "exact":
        lo = float(special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
        hi = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    else:
        z, share = normal_quantile(1 - tail), hits / n
        middle, scale = share + z * z / (2 * n), 1 + z * z / n
        half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        lo = 0.0 if hits == 0 else (middle - half) / scale
        hi = 1.0 if hits == n else (middle + half) / scale
    return (0.0 if alternative == "less" else lo), (1.0 if alternative == "greater" else hi)


def average_ranks(values: Any) -> Array:
    """Ranks from 1 on, float; equal values share the mean of their ranks."""
    _, place, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return ((2 * ends - count + 1) / 2)[place]


def correlation(x: Array, y: Array) -> float:
    """Pearson's correlation of two arrays (n,) that are not constant, within -1 to 1."""
    a, b = x - x.mean(), y - y.mean()
    # Scaled by the largest first, so that tiny or huge numbers do not under- or overflow when squared.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip((a / np.linalg.norm(a)) @ (b / np.linalg.norm(b)), -1, 1))


def correlation_p(r: float, n: int) -> float:
    """Two-sided p of a correlation of n > 2 pairs by the t approximation; -1 < r < 1."""
    return t_two_sided(r * math.sqrt((n - 2) / ((1 - r) * (1 + r))), n - 2)


#: Up to so many values all pairs are compared; scipy.stats sorts, which is faster for more.
_MOST_BY_PAIRS = 200


def kendall(x: Array, y: Array) -> tuple[float, float, bool]:
    """Kendall's tau-b of two arrays (n,) that are not constant, its two-sided p, and whether p is exact.

    Exact without ties and up to 33 pairs (the number of permutations of n with so many inversions); otherwise the
    normal approximation with the variance corrected for ties (Kendall 1970).
    """
    n = len(x)
    if n > _MOST_BY_PAIRS:
        from scipy import stats

        found = stats.kendalltau(x, y, variant="b", method="asymptotic")
        return float(found.statistic), float(found.pvalue), False
    dx, dy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    s, total = int((dx * dy).sum()) // 2, n * (n - 1) // 2  # concordant minus discordant pairs
    x_pairs, y_pairs = (total - np.count_nonzero(d) // 2 for d in (dx, dy))  # that are tied
    tau = s / math.sqrt(total - x_pairs) / math.sqrt(total - y_pairs)
    tau = max(-1.0, min(1.0, tau))
    if x_pairs == y_pairs == 0 and n <= 33:
        return tau, _inversions_p((total - abs(s)) // 2, n), True
    m = n * (n - 1)
    (x_cubes, x_spread), (y_cubes, y_spread) = _tied(x), _tied(y)
    variance = (m * (2 * n + 5) - x_spread - y_spread) / 18 + 2 * x_pairs * y_pairs / m
    variance += x_cubes * y_cubes / (9 * m * (n - 2))
    return tau, normal_two_sided(s / math.sqrt(variance)), False


def _tied(values: Array) -> tuple[float, float]:
    """Sums over groups of t equal values: t(t-1)(t-2) and t(t-1)(2t+5)."""
    t = np.unique(values, return_counts=True)[1].astype(float)
    return float((t * (t - 1) * (t - 2)).sum()), float((t * (t - 1) * (2 * t + 5)).sum())


def _inversions_p(fewest: int, n: int) -> float:
    """Two-sided p: twice the share of permutations of n values with at most `fewest` inversions."""
    return min(1.0, 2 * _at_most(n)[fewest] / math.factorial(n))


@cache
def _at_most(n: int) -> tuple[int, ...]:
    """How many permutations of n values have at most 0, 1, 2, ... inversions."""
    ways = [1]
    for size in range(2, n + 1):
        sums = [0, *itertools.accumulate(ways)]
        last = len(sums) - 1
        length = len(ways) + size - 1
        ways = [sums[min(k + 1, last)] - sums[max(0, k + 1 - size)] for k in range(length)]
    return tuple(itertools.accumulate(ways))
