"""Means of observations that came in clusters, and contrasts of such means, paired by cluster.

May import numpy, `cilab.core` and `cilab.stats.methods`. Knows no run: values and cluster codes in, estimates out. When
an interval is shown, and which, is the rule of `cilab.stats.methods.uncertainty`; what stands here beside it, by name
(`Units.plain`, `mean_interval`, `normal_contrast`), is the normal interval of the collaboration-gap paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL
from cilab.results.arguments import checked_level
from cilab.stats.methods import uncertainty
from cilab.stats.methods.distributions import normal_quantile
from cilab.stats.methods.uncertainty import LEAST_UNITS, NO_SPREAD, Bounds, linear_bounds, too_few

#: Clusters below which a mean of fractions is guarded (`Units.fraction`).
FEW = 10
#: Standard errors below are rounding, not spread.
_NOTHING = 1e-12


def z_of(ci_level: float) -> float:
    """Half-width of a normal interval in standard errors."""
    return normal_quantile(0.5 + checked_level(ci_level) / 2)


# -- in clusters, by the rule -------------------------------------------------------------------------------


class Sample(NamedTuple):
    """Observations and the clusters that they came in.

    Attributes
    ----------
    values : shape (n,), none NaN.
    clusters : codes, shape (n,). The same code in two samples is the same cluster.
    """

    values: NDArray[np.float64]
    clusters: NDArray[np.int64]

    @property
    def mean(self) -> float | None:
        """Mean over observations, summed exactly; None of nothing."""
        n = len(self.values)
        return math.fsum(self.values) / n if n else None


class Units(NamedTuple):
    """Over what an interval is taken, and which.

    Attributes
    ----------
    unit : what a cluster is called.
    ci_level : a fraction.
    share : whether values lie between 0 and 1 (solved or not): the score interval; else Student's t.
    fraction : whether 0 and 1 are where values usually end (a fraction of a way, which may be negative). A mean of few
        clusters whose values do lie there then has an interval that is no narrower than the score interval: a few
        clusters that happen to be alike say little about others.
    plain : whether observations count as independent, with the normal interval of plain standard errors (the paper's).
    """

    unit: str
    ci_level: float = CI_LEVEL
    share: bool = False
    fraction: bool = False
    plain: bool = False


def clustered_mean(sample: Sample, units: Units) -> dict[str, Any]:
    """`n, mean, se, lo, hi, n_clusters, no_interval` of a mean over observations.

    Examples
    --------
    >>> rounds = Sample(np.repeat([0.0, 0.0, 1.0], 6), np.repeat([0, 1, 2], 6))
    >>> found = clustered_mean(rounds, Units("maze"))
    >>> [found["n"], found["n_clusters"], *(round(found[k], 3) for k in ("se", "lo", "hi"))]
    [18, 3, 0.333, -1.101, 1.768]
    """
    n, mean = len(sample.values), sample.mean
    if mean is None:
        found = Bounds(reason=too_few(0, units.unit))
    elif units.plain:
        found = _normal(mean, mean_interval(sample.values.tolist(), 1.0)["se"], n, n, units)
    else:
        found = _mean_bounds(sample, mean, units, share=units.share)
        inside = units.fraction and found.n_clusters < FEW and bool(((sample.values >= 0) & (sample.values <= 1)).all())
        if inside and found.lo is not None and found.hi is not None:
            wide = _mean_bounds(sample, mean, units, share=True)
            found = found._replace(lo=min(found.lo, wide.lo or 0.0), hi=max(found.hi, wide.hi or 0.0))
    return {"n": n, "mean": mean, **_columns(found)}


def _mean_bounds(sample: Sample, mean: float, units: Units, *, share: bool) -> Bounds:
    n = len(sample.values)
    return linear_bounds(
        mean,
        (sample.values - mean) / n,
        weight=np.full(n, 1 / n),
        at=np.full(n, mean),
        clusters=sample.clusters,
        span=(0.0, 1.0) if share else None,
        ci_level=units.ci_level,
        unit=units.unit,
    )


def clustered_contrast(parts: Sequence[tuple[float, Sample]], units: Units) -> dict[str, Any]:
    """`diff, se, lo, hi, n_clusters, no_interval` of a sum of means times factors, such as a - b.

    What a cluster contributes is the sum of its contributions to all the means, so that what is hard in all of them
    cancels: for clusters that are in both of two means, with as many observations each, this is the paired t. Clusters
    in different means are strata of their own (Welch's t where no cluster is shared). Every mean needs as many clusters
    as an interval does.

    Parameters
    ----------
    parts : factor and observations of each mean.
    units : as in `clustered_mean`. With `plain` the means count as independent.

    Examples
    --------
    >>> one, other = (Sample(np.array(v), np.arange(3)) for v in ([0.9, 0.5, 0.1], [0.7, 0.2, 0.0]))
    >>> found = clustered_contrast([(1, one), (-1, other)], Units("maze"))
    >>> [round(found[k], 3) for k in ("diff", "se", "lo", "hi")]
    [0.2, 0.058, -0.048, 0.448]
    """
    sizes = [len(np.unique(s.clusters)) for _, s in parts]
    means = [s.mean for _, s in parts if s.mean is not None]
    if len(means) < len(parts):
        return {"diff": None, **_columns(Bounds(n_clusters=min(sizes), reason=too_few(min(sizes), units.unit)))}
    diff = round(math.fsum(c * m for (c, _), m in zip(parts, means, strict=True)), 12)  # 0.3 - 0.1 - 0.2 is nothing
    if units.plain:
        numbers = [(c, mean_interval(s.values.tolist(), 1.0)) for c, s in parts]
        se = normal_contrast(numbers, 1.0)["se"]
        counts = [len(s.values) for _, s in parts]
        return {"diff": diff, **_columns(_normal(diff, se, min(counts), sum(counts), units))}
    if min(sizes) < LEAST_UNITS:
        return {"diff": diff, **_columns(Bounds(n_clusters=min(sizes), reason=too_few(min(sizes), units.unit)))}
    total = math.fsum(abs(c) for c, _ in parts)
    clusters = np.concatenate([s.clusters for _, s in parts])
    strata, whole = _sharing([s.clusters for _, s in parts], clusters)
    found = linear_bounds(
        diff,
        np.concatenate([c * (s.values - m) / len(s.values) for (c, s), m in zip(parts, means, strict=True)]),
        weight=np.concatenate([np.full(len(s.values), abs(c) / total / len(s.values)) for c, s in parts]),
        at=np.full(len(clusters), diff),
        strata=strata,
        clusters=clusters,
        # Without spread a bound is known for differences within clusters only.
        span=(-1.0, 1.0) if units.share and whole and total <= 2 else None,
        ci_level=units.ci_level,
        unit=units.unit,
    )
    return {"diff": diff, **_columns(found)}


def _sharing(of_means: Sequence[NDArray[np.int64]], clusters: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
    """Stratum of each observation by the means that its cluster is in, and whether all clusters are in all means.

    Strata of fewer clusters than an interval needs join the largest.
    """
    codes, at = np.unique(clusters, return_inverse=True)
    pattern = sum((2**i * np.isin(codes, of) for i, of in enumerate(of_means)), np.zeros(len(codes), dtype=np.int64))
    kinds, stratum, counts = np.unique(pattern, return_inverse=True, return_counts=True)
    small = counts < LEAST_UNITS
    if small.any():
        stratum = np.where(small[stratum], int(counts.argmax()), stratum)
    return stratum[at], len(kinds) == 1 and int(kinds[0]) == 2 ** len(of_means) - 1


def _normal(point: float, se: float | None, fewest: int, n: int, units: Units) -> Bounds:
    """The paper's interval. It is not shown for fewer units than the rule asks for, nor without a width."""
    if se is None or fewest < LEAST_UNITS:
        return Bounds(n_clusters=n, reason=too_few(fewest, units.unit), se=se)
    if se < _NOTHING:
        return Bounds(n_clusters=n, reason=NO_SPREAD)
    half = z_of(units.ci_level) * se
    return Bounds(point - half, point + half, n, None, se)


def _columns(found: Bounds) -> dict[str, Any]:
    ends = {"se": found.se, "lo": found.lo, "hi": found.hi}
    return ends | {"n_clusters": found.n_clusters, "no_interval": found.reason}


def mean_over(values: Sequence[float], unit: str, ci_level: float) -> dict[str, Any]:
    """`n, diff, lo, hi, p, reason` of the mean of independent units such as agents, against 0: t, by the rule.

    >>> mean_over([0.1, 0.3], "agent", 0.95)["reason"]
    'too few: 2 agents'
    """
    at = np.asarray(values, float)
    found = uncertainty.mean_bounds(at, span=None, ci_level=ci_level, unit=unit)
    point = round(math.fsum(at) / len(at), 12) if len(at) else None
    p = None if point is None or found.reason else uncertainty.t_test_p(point, found)
    return {"n": len(at), "diff": point, "lo": found.lo, "hi": found.hi, "p": p, "reason": found.reason}


# -- of independent observations, by the paper --------------------------------------------------------------


def mean_interval(values: Sequence[float], z: float) -> dict[str, Any]:
    """`n, mean, se, lo, hi` of a mean: se = sd / sqrt(n), normal interval; None where n is too small.

    Sums are exact, so the order of the values does not matter.
    """
    n = len(values)
    if n == 0:
        return {"n": 0, "mean": None, "se": None, "lo": None, "hi": None}
    mean = math.fsum(values) / n
    if n == 1:
        return {"n": 1, "mean": mean, "se": None, "lo": None, "hi": None}
    se = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return {"n": n, "mean": mean, "se": se, "lo": mean - z * se, "hi": mean + z * se}


def normal_contrast(parts: Sequence[tuple[float, Mapping[str, Any] | None]], z: float) -> dict[str, Any]:
    """`diff, se, lo, hi` of a sum of independent means times factors, by their `mean` and `se`; None where missing."""
    if any(m is None or m["mean"] is None for _, m in parts):
        return {"diff": None, "se": None, "lo": None, "hi": None}
    there = [(c, m) for c, m in parts if m is not None]
    diff = round(math.fsum(c * m["mean"] for c, m in there), 12)
    if any(m["se"] is None for _, m in there):
        return {"diff": diff, "se": None, "lo": None, "hi": None}
    se = math.hypot(*(c * m["se"] for c, m in there))
    return {"diff": diff, "se": se, "lo": diff - z * se, "hi": diff + z * se}
