"""The rule of uncertainty: from how many independent units an interval is shown, and which. Said here and nowhere else.

May import numpy, `cilab.core` and `cilab.stats.methods`. Knows arrays only: no tables, no files.

The rule
    Units are the things that were sampled: tasks, or the clusters that tasks, runs or pairs came in (families, mazes).

    1. Fewer than three units: no interval, and words in its place ("too few: 2 tasks"). Of units within dimensions two
       more than there are dimensions are asked for. A dimension with one unit enters a mean of scores with the largest
       variance that the mean allows; a difference has no interval then.
    2. A mean of scores or a share, between 0 and 1: the score interval of Wilson (1927) at the effective number of
       units (Kish 1965; Korn and Graubard 1998), with Student's t for the normal. The variance is that of the units'
       linearised contributions, pulled towards what units of 0 and 1 would have, by the weight of one unit: a few
       units that happen to be alike do not make a narrow interval.
    3. Anything without such bounds (differences, gaps, outcomes below 0): Student's t over the same contributions.
    4. Where nothing varies, no width of zero. If all of n units are c, with confidence at most a share
       u = 1 - (alpha / 2)^(1 / n) of the others lies elsewhere, which bounds their mean. For 30 of 30 passed this is
       Clopper and Pearson's interval; a quantity without bounds has none.
    5. What is neither a mean nor a share is resampled, whole clusters at a time. Its percentile interval is taken at
       the expanded level of Hesterberg (2015), which allows for few units, and not at all where the draws are alike.

    `interval="percentile"` is the papers' method by name: plain percentiles of the bootstrap, as the published round
    has them. `benchmarks/interval_coverage.py` measures what both cover.

References
----------
Brown, Cai and DasGupta (2001), Interval estimation for a binomial proportion. Hesterberg (2015), What teachers should
know about the bootstrap. Kish (1965), Survey sampling. Korn and Graubard (1998), Confidence intervals for proportions
with small expected number of positive counts. Carter, Schnepel and Steigerwald (2017), Asymptotic behavior of a t-test
robust to cluster heterogeneity. Wilson (1927), Probable inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL
from cilab.stats.methods import bootstrap
from cilab.stats.methods.distributions import normal_two_sided, t_quantile, t_two_sided

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Which interval an estimator shows: by the rule above, or the papers' plain percentiles of the bootstrap.
IntervalKind = Literal["rule", "percentile"]
#: From so many independent units on an interval is shown.
LEAST_UNITS = 3
#: Weight, in units, of the largest spread that the mean allows.
_PULL = 1.0
#: Correlation of runs within a unit that the largest spread is reckoned with, where a unit averages over many runs.
_WITHIN = 0.2
#: Up to so many failures (or passes) the end near the edge is Clopper and Pearson's: the score interval is too short
#: there (Brown, Cai and DasGupta 2001, section 4.1.1).
_EDGE = 3.0 + 1e-9
#: Contributions below are rounding, not spread.
_NOTHING = 1e-12

_PLURAL = {"family": "families", "source_family": "source families"}


class Bounds(NamedTuple):
    """An interval, or why there is none.

    Attributes
    ----------
    lo, hi : its ends, in the unit of the quantity; None where there is none.
    n_clusters : independent units behind it.
    reason : why there is no interval, in words; None where there is one.
    se : standard error by the units' contributions, without the pull; None where it cannot be estimated.
    df : degrees of freedom of the t that goes with `se`; None without one.
    """

    lo: float | None = None
    hi: float | None = None
    n_clusters: int = 0
    reason: str | None = None
    se: float | None = None
    df: float | None = None

    def times(self, factor: float) -> Bounds:
        """The same in another unit, such as percent."""
        lo, hi, se = (None if v is None else factor * v for v in (self.lo, self.hi, self.se))
        return self._replace(lo=lo, hi=hi, se=se)


def too_few(n: int, unit: str = "task", where: str | None = None) -> str:
    """What stands in place of an interval.

    >>> too_few(2), too_few(1, "family", "sharing_information")
    ('too few: 2 tasks', 'too few: 1 family in sharing information')
    """
    words = unit.replace("_", " ") if n == 1 else _PLURAL.get(unit, f"{unit.replace('_', ' ')}s")
    return f"too few: {n} {words}{f' in {where}' if where else ''}".replace("_", " ")


#: Why a quantity that nothing bounds has no interval where all units are alike.
NO_SPREAD = "no spread between the units"


# -- means and shares ---------------------------------------------------------------------------------------


def mean_bounds(
    values: Array,
    *,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    runs: Array | None = None,
    span: tuple[float, float] | None = (0.0, 1.0),
    ci_level: float = CI_LEVEL,
    unit: str = "task",
    names: Sequence[str] | None = None,
) -> Bounds:
    """Interval of a mean, or of the mean over strata of their means.

    Parameters
    ----------
    values : what each task scored, shape (n,), none NaN.
    strata : which stratum (dimension) each is in, codes from 0 on, shape (n,); None: one stratum.
    clusters : which cluster each came in, shape (n,), any whole numbers; None: each is its own.
    runs : over how many runs or rows each value is a mean, shape (n,); None: one, or a few seeds.
    span : the least and the largest value that can be; (0, 1) gets the score interval, others (differences) Student's
        t, with the bound of point 4 where nothing varies; None: no bounds at all.
    ci_level : a fraction.
    unit : what a cluster is called.
    names : what the strata are called.

    Examples
    --------
    >>> [round(v, 3) for v in mean_bounds(np.ones(30))[:2]]
    [0.884, 1.0]
    >>> mean_bounds(np.ones(2)).reason
    'too few: 2 tasks'
    """
    values = np.asarray(values, float)
    strata = np.zeros(len(values), dtype=np.int64) if strata is None else np.unique(strata, return_inverse=True)[1]
    n = np.bincount(strata)
    if not len(values):
        return Bounds(reason=too_few(0, unit))
    means = np.bincount(strata, values) / n
    weight = 1.0 / (n[strata] * len(n))
    return linear_bounds(
        float(means.mean()),
        weight * (values - means[strata]),
        weight=weight,
        at=means[strata],
        runs=runs,
        strata=strata,
        clusters=clusters,
        span=span,
        ci_level=ci_level,
        unit=unit,
        names=names,
    )


def ratio_bounds(
    above: Array,
    below: Array,
    *,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    ci_level: float = CI_LEVEL,
    unit: str = "task",
) -> Bounds:
    """Interval of a pooled share: the sum of `above` over the sum of `below`.

    Parameters
    ----------
    above, below : per task, shape (n,), 0 <= above <= below; at least three units must have something below.
    strata : which stratum (dimension) each was sampled in, shape (n,). Their numbers of tasks are by design, so that
        only the spread within them counts; a task with nothing below is one of them. None: one stratum, of the tasks
        that have something below.
    clusters, ci_level, unit : as in `mean_bounds`.
    """
    above, below = np.asarray(above, float), np.asarray(below, float)
    of = np.arange(len(below)) if clusters is None else np.asarray(clusters)
    n = len(np.unique(of[below > 0]))
    if n < LEAST_UNITS:
        return Bounds(n_clusters=n, reason=too_few(n, unit))
    there = below > 0 if strata is None else np.isin(strata, np.unique(np.asarray(strata)[below > 0]))
    above, below, total = above[there], below[there], below.sum()
    share = float(above.sum() / total)
    found = linear_bounds(
        share,
        (above - share * below) / total,
        weight=below / total,
        at=np.full(len(below), share),
        runs=below,
        strata=None if strata is None else np.unique(np.asarray(strata)[there], return_inverse=True)[1],
        clusters=of[there],
        ci_level=ci_level,
        unit=unit,
        pooled=True,
    )
    return found._replace(n_clusters=n)


def linear_bounds(
    point: float,
    influence: Array,
    *,
    weight: Array | None = None,
    at: Array | None = None,
    runs: Array | None = None,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    span: tuple[float, float] | None = (0.0, 1.0),
    ci_level: float = CI_LEVEL,
    unit: str = "task",
    names: Sequence[str] | None = None,
    pooled: bool = False,
) -> Bounds:
    """Interval of an estimate that is a sum of the units' contributions, or near enough to one.

    Parameters
    ----------
    point : the estimate.
    influence : how much each observation moves it, shape (n,); they sum to 0, and are centred within strata.
    weight : share of the estimate that each carries, shape (n,); they sum to 1. Needed for a `span`.
    at : what each is a deviation from (its stratum's mean), shape (n,). Needed for a `span`.
    runs : how many runs, or rows, each averages over, shape (n,); None: one.
    strata, clusters, span, ci_level, unit, names : as in `mean_bounds`.
    pooled : it is one share over all strata, and not the mean of theirs.
    """
    influence = np.asarray(influence, float)
    n = len(influence)
    strata = np.zeros(n, dtype=np.int64) if strata is None else np.asarray(strata)
    of = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    n_clusters = int(of.max(initial=-1)) + 1
    sums = np.bincount(of, influence, n_clusters)
    first = np.zeros(n_clusters, dtype=np.int64)
    first[of] = strata
    crossing = bool((first[of] != strata).any())
    if crossing:  # clusters reach over several strata: they are drawn as wholes, from one urn
        first = np.zeros(n_clusters, dtype=np.int64)
    sizes = np.bincount(of, np.full(n, 1.0) if weight is None else weight, n_clusters)
    groups = np.unique(first, return_inverse=True)[1]
    in_group = np.bincount(groups)
    scores = span == (0.0, 1.0) and weight is not None and at is not None
    if reason := None if pooled else _reason(in_group, unit, names, lone=scores):
        return Bounds(n_clusters=n_clusters, reason=reason)
    alike = bool(np.abs(sums).max() < _NOTHING)
    centred = sums - (np.bincount(groups, sums) / in_group)[groups]
    variances = in_group / np.maximum(in_group - 1, 1) * np.bincount(groups, centred**2)
    variance = float(variances.sum())
    alike = alike or (variance <= _NOTHING**2 and not scores)
    alpha = 1 - ci_level
    if alike:
        if span is None or weight is None or at is None:
            return Bounds(n_clusters=n_clusters, reason=NO_SPREAD)
        return Bounds(*_all_alike(point, sizes, of, weight, at, span, alpha), n_clusters)  # type: ignore[arg-type]
    effective = np.bincount(groups, sizes) ** 2 / np.bincount(groups, sizes**2)
    if scores:
        assert weight is not None and at is not None
        df = max(1.0, float(effective.sum() - len(in_group)))
        spread = np.clip(at * (1 - at), 0, None)
        if runs is not None:
            spread = spread * (_WITHIN + (1 - _WITHIN) / np.maximum(runs, 1))
        largest = np.bincount(of, weight * np.sqrt(spread), n_clusters)
        lone = in_group[groups] == 1
        variance += point * (1 - point) * float((sizes[lone] ** 2).sum())
        pulled = (df * variance + _PULL * float((largest**2).sum())) / (df + _PULL)
        lo, hi = _score_ends(point, pulled, df, alpha, edge=pooled or len(np.unique(strata)) == 1)
        return Bounds(lo, hi, n_clusters, None, math.sqrt(variance), df)
    df = max(1.0, float(variance**2 / (variances**2 / np.maximum(effective - 1, 1e-9)).sum()))
    se = math.sqrt(variance)
    half = t_quantile(1 - alpha / 2, df) * se
    lo, hi = point - half, point + half
    if span is not None:
        lo, hi = max(lo, span[0]), min(hi, span[1])
    return Bounds(lo, hi, n_clusters, None, se, df)


def _reason(in_group: NDArray[Any], unit: str, names: Sequence[str] | None, *, lone: bool) -> str | None:
    """Why there is no interval; None where there is one. `lone` strata of one unit are borne with."""
    n = int(in_group.sum())
    if n - len(in_group) < LEAST_UNITS - 1:
        return too_few(n, unit, None if len(in_group) == 1 else f"{len(in_group)} dimensions")
    if in_group.min() < 2 and not lone:
        return too_few(
            1, unit, names[int(in_group.argmin())] if names and len(names) == len(in_group) else "a dimension"
        )
    return None


def _all_alike(
    point: float, sizes: Array, of: Codes, weight: Array, at: Array, span: tuple[float, float], alpha: float
) -> tuple[float, float]:
    """Point 4 of the rule. Strata that are all alike but stand at different values are bounded one by one."""
    down = up = 0.0
    values = np.unique(np.round(at, 9))
    for value in values:
        here = np.bincount(of, weight * (np.round(at, 9) == value), len(sizes))
        whole = here.sum()
        rest = 1 - (alpha / 2) ** float((here**2).sum() / whole**2)
        down += (whole * rest * (value - span[0])) ** 2
        up += (whole * rest * (span[1] - value)) ** 2
    return max(span[0], point - math.sqrt(down)), min(span[1], point + math.sqrt(up))


def _score_ends(share: float, variance: float, df: float, alpha: float, *, edge: bool) -> tuple[float, float]:
    """Ends of the score interval of a share whose variance is that of `n` Bernoulli units."""
    n = share * (1 - share) / variance
    q = t_quantile(1 - alpha / 2, df) ** 2
    middle = (share + q / (2 * n)) / (1 + q / n)
    half = math.sqrt(q) * math.sqrt(share * (1 - share) / n + q / (4 * n * n)) / (1 + q / n)
    lo, hi = max(0.0, middle - half), min(1.0, middle + half)
    if edge:
        from scipy import special

        passes, failures = n * share, n * (1 - share)
        if failures <= _EDGE:
            hi = max(hi, float(special.betaincinv(passes + 1, failures, 1 - alpha / 2)))
        if passes <= _EDGE:
            lo = min(lo, float(special.betaincinv(passes, failures + 1, alpha / 2)))
    return lo, hi


# -- what is resampled --------------------------------------------------------------------------------------


def draw_bounds(
    draws: Array,
    n_clusters: int,
    *,
    strata: int = 1,
    interval: IntervalKind = "rule",
    ci_level: float = CI_LEVEL,
    unit: str = "task",
) -> Bounds:
    """Interval of any quantity from its bootstrap replicates.

    Parameters
    ----------
    draws : replicates, shape (resamples,); NaN where undefined. More than 5 % of those: no interval.
    n_clusters : independent units that were resampled.
    strata : within how many strata they were.
    interval : by the rule, or plain percentiles.
    ci_level, unit : as in `mean_bounds`.
    """
    if interval == "rule" and n_clusters - strata < LEAST_UNITS - 1:
        return Bounds(n_clusters=n_clusters, reason=too_few(n_clusters, unit))
    level = ci_level if interval == "percentile" else expanded_level(n_clusters, strata, ci_level)
    found = bootstrap.interval(draws, level)
    if found.lo is None or found.hi is None:
        return Bounds(n_clusters=n_clusters, reason=found.reason or "undefined in every resample")
    if interval == "rule" and found.hi - found.lo < _NOTHING:
        return Bounds(n_clusters=n_clusters, reason=NO_SPREAD)
    return Bounds(found.lo, found.hi, n_clusters)


def expanded_level(n_clusters: int, strata: int = 1, ci_level: float = CI_LEVEL) -> float:
    """The level at which percentiles of a bootstrap of few units cover `ci_level` (Hesterberg 2015, section 5.3).

    Two things are allowed for: resampling n units gives a variance too small by (n - 1) / n, and Student's t is wider
    than the normal.

    >>> round(expanded_level(10), 4), round(expanded_level(240, 8), 4)
    (0.9829, 0.9547)
    """
    per_stratum = n_clusters / strata
    df = max(1, n_clusters - strata)
    t = t_quantile(0.5 + ci_level / 2, df) * math.sqrt(per_stratum / max(per_stratum - 1, 1e-9))
    return 1 - normal_two_sided(t)


def t_test_p(point: float, found: Bounds) -> float | None:
    """Two-sided p of the t-test that goes with an interval of the third kind; None where it has no standard error."""
    if not found.se or found.df is None:
        return None
    return t_two_sided(point / found.se, found.df)


def detectable(found: Bounds, *, ci_level: float = CI_LEVEL, power: float = 0.8) -> float | None:
    """The least difference that a study of this size finds with the given power (Bloom 1995); None without an error.

    Two-sided at 1 - ci_level: (t at 1 - alpha / 2 plus t at the power) times the standard error.
    """
    if not found.se or found.df is None:
        return None
    return found.se * (t_quantile(0.5 + ci_level / 2, found.df) + t_quantile(power, found.df))


__all__ = [
    "LEAST_UNITS",
    "NO_SPREAD",
    "Bounds",
    "IntervalKind",
    "detectable",
    "draw_bounds",
    "expanded_level",
    "linear_bounds",
    "mean_bounds",
    "ratio_bounds",
    "t_test_p",
    "too_few",
]
