"""Classical tests as the papers use them, with their edge cases decided and the method named in the result.

May import `cilab.stats.methods.distributions`, `cilab.stats.methods.ratings` and `cilab.core`. What libraries get wrong
at the edges (a constant difference, no discordant pair, a missing value) is decided here: a missing value raises, a
test that does not exist is undefined with the reason, and no NaN leaves this module.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from cilab.core.errors import TableError, choice
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import check_all as check
from cilab.results.arguments import checked_level
from cilab.stats.methods.distributions import (
    average_ranks,
    chi2_upper,
    correlation,
    correlation_p,
    fair_coin_p,
    kendall,
    normal_quantile,
    share_interval,
    t_quantile,
    t_two_sided,
)

Alternative = Literal["two-sided", "greater", "less"]
_ALTERNATIVES = ("two-sided", "greater", "less")
#: Up to this many differences without ties and zeros, the signed-rank distribution is taken exactly (as R does).
_EXACT_RANKS = 50


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """What a test gives.

    Attributes
    ----------
    method : the test by its full name, with the rule that was applied (exact or approximate, what happened to zeros).
    p : p-value, a fraction; None where it is undefined.
    statistic : the test statistic; None where it is undefined.
    estimate : what the test is about (a mean difference, a share, a correlation, an odds ratio); None where undefined.
    lo, hi : bounds of the estimate's interval at `ci_level`; None where there is none. A bound may be infinite.
    ci_level : a fraction.
    n : observations (or pairs) that entered.
    n_dropped : observations that the test leaves out by its rule (ties of a sign test).
    alternative : `two-sided`, `greater` or `less`.
    reason : why something is undefined, in words; None where all is defined.
    detail : further numbers by name.
    """

    method: str
    p: float | None
    statistic: float | None = None
    estimate: float | None = None
    lo: float | None = None
    hi: float | None = None
    ci_level: float = CI_LEVEL
    n: int = 0
    n_dropped: int = 0
    alternative: str = "two-sided"
    reason: str | None = None
    detail: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def defined(self) -> bool:
        """Whether there is a p-value."""
        return self.p is not None


@dataclass(frozen=True, slots=True)
class AdjustedPValues:
    """p-values corrected for their number.

    Attributes
    ----------
    method : the correction by its full name, with m.
    p : the p-values as given; None where missing.
    adjusted : the corrected ones, in the order given; None where missing.
    m : number of hypotheses that the correction counts.
    n_missing : number of missing p-values; they are kept as None and not counted in m unless m is given.
    """

    method: str
    p: tuple[float | None, ...]
    adjusted: tuple[float | None, ...]
    m: int
    n_missing: int


# -- paired differences -----------------------------------------------------------------------------------


def sign_test(
    x: Any, y: Any = None, *, alternative: Alternative = "two-sided", ci_level: float = CI_LEVEL
) -> HypothesisTest:
    """Exact sign test of x - y (or of x alone) against equally many gains and losses.

    Parameters
    ----------
    x, y : sequences of numbers of the same length; without `y`, `x` holds the differences.
    alternative, ci_level : as usual; the interval (Clopper and Pearson) is that of the share of gains.

    Returns
    -------
    HypothesisTest
        `estimate` is the share of gains among the differences that are not 0; those that are 0 are dropped and
        counted. With nothing left p is 1 and the share undefined.

    Examples
    --------
    >>> sign_test([1] * 18 + [-1] * 7).p.__round__(6)
    0.043285
    """
    d, dropped = _differences(x, y), 0
    dropped, d = int((d == 0).sum()), d[d != 0]
    gains, n = int((d > 0).sum()), d.size
    common = {"ci_level": checked_level(ci_level), "n": n, "n_dropped": dropped, "alternative": _side(alternative)}
    method = "exact sign test, zero differences dropped"
    if n == 0:
        return HypothesisTest(method, 1.0, 0.0, reason="no difference other than 0", **common)
    p = fair_coin_p(gains, n, alternative)
    lo, hi = share_interval(gains, n, ci_level, alternative=alternative)
    return HypothesisTest(method, p, float(gains), gains / n, lo, hi, **common)


def wilcoxon(
    x: Any, y: Any = None, *, alternative: Alternative = "two-sided", continuity: bool = True
) -> HypothesisTest:
    """Wilcoxon's signed-rank test of x - y (or of x alone), by R's rule.

    Zero differences are dropped and counted (Wilcoxon's own treatment). Without ties and zeros and with fewer than 50
    differences, p is exact; otherwise it is the normal approximation with the variance corrected for ties and, unless
    `continuity` is false, a continuity correction. The statistic is V, the sum of the ranks of the gains.

    Examples
    --------
    >>> round(wilcoxon([0, 0, 1, 2, -1, 3, 0, 4, -2, 5]).p, 4)
    0.1493
    """
    from scipy import stats

    d = _differences(x, y)
    dropped, d = int((d == 0).sum()), d[d != 0]
    common = {"n": d.size, "n_dropped": dropped, "alternative": _side(alternative)}
    name = "Wilcoxon signed-rank test, zero differences dropped"
    if d.size == 0:
        return HypothesisTest(name, 1.0, 0.0, reason="no difference other than 0", **common)
    ranks = average_ranks(np.abs(d))
    v = float(ranks[d > 0].sum())
    if d.size < _EXACT_RANKS and dropped == 0 and np.unique(ranks).size == d.size:
        p = stats.wilcoxon(d, zero_method="wilcox", alternative=alternative, method="exact").pvalue
        return HypothesisTest(f"{name}, exact", float(p), v, **common)
    p = stats.wilcoxon(
        d, zero_method="wilcox", correction=continuity, alternative=alternative, method="asymptotic"
    ).pvalue
    how = "normal approximation with" + ("" if continuity else "out") + " continuity correction"
    return HypothesisTest(f"{name}, {how}", float(p), v, **common)


def paired_t(x: Any, y: Any = None, *, ci_level: float = CI_LEVEL) -> HypothesisTest:
    """Paired t-test of x - y (or of x alone against 0), two-sided, with the interval of the mean difference.

    `detail["cohen_d"]` is the mean difference divided by the standard deviation of the differences. Differences that
    are all the same have no t: neither p nor interval, with the reason.
    """
    d = _differences(x, y)
    level, n = checked_level(ci_level), d.size
    if n == 0:
        return HypothesisTest("paired t-test", None, ci_level=level, n=0, reason="no pair")
    mean = math.fsum(d) / n
    if n == 1:
        return HypothesisTest("paired t-test", None, None, mean, ci_level=level, n=1, reason="a single pair")
    if _constant(d):
        reason = f"all {n} differences are {d[0]:g}: no spread to test against"
        return HypothesisTest("paired t-test", None, None, mean, ci_level=level, n=n, reason=reason)
    sd = float(d.std(ddof=1))
    t = mean / (sd / math.sqrt(n))
    half = t_quantile(0.5 + level / 2, n - 1) * sd / math.sqrt(n)
    p = t_two_sided(t, n - 1)
    detail = {"df": float(n - 1), "cohen_d": mean / sd}
    return HypothesisTest("paired t-test", p, t, mean, mean - half, mean + half, level, n, detail=detail)


# -- two groups -------------------------------------------------------------------------------------------


def two_sample_t(x: Any, y: Any, *, equal_variances: bool = False, ci_level: float = CI_LEVEL) -> HypothesisTest:
    """t-test of mean(x) - mean(y) for two groups, two-sided; Welch's unless the variances are said to be equal.

    `detail["cohen_d"]` is `cohen_d(x, y)`. Groups without any spread have no t: neither p nor interval, with the
    reason.
    """
    a, b, level = _numbers("x", x), _numbers("y", y), checked_level(ci_level)
    method = "two-sample t-test (equal variances)" if equal_variances else "Welch's two-sample t-test"
    n = a.size + b.size
    if a.size == 0 or b.size == 0:
        return HypothesisTest(method, None, ci_level=level, n=n, reason="one of the groups is empty")
    diff = math.fsum(a) / a.size - math.fsum(b) / b.size
    if min(a.size, b.size) < 2:
        return HypothesisTest(method, None, None, diff, ci_level=level, n=n, reason="a group with a single observation")
    if _constant(a) and _constant(b):
        reason = "no spread in either group"
        return HypothesisTest(method, None, None, diff, ci_level=level, n=n, reason=reason)
    se, df = _standard_error(a, b, equal_variances)
    half = t_quantile(0.5 + level / 2, df) * se
    p = t_two_sided(diff / se, df)
    detail = {"df": df, "cohen_d": cohen_d(a, b)}
    return HypothesisTest(method, p, diff / se, diff, diff - half, diff + half, level, n, detail=detail)


def _standard_error(a: np.ndarray, b: np.ndarray, equal_variances: bool) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom (Welch-Satterthwaite or pooled)."""
    va, vb = float(a.var(ddof=1)), float(b.var(ddof=1))
    if equal_variances:
        df = a.size + b.size - 2
        pooled = ((a.size - 1) * va + (b.size - 1) * vb) / df
        return math.sqrt(pooled * (1 / a.size + 1 / b.size)), float(df)
    sa, sb = va / a.size, vb / b.size
    return math.sqrt(sa + sb), (sa + sb) ** 2 / (sa**2 / (a.size - 1) + sb**2 / (b.size - 1))


def cohen_d(x: Any, y: Any) -> float | None:
    """Cohen's d of two groups: the difference of the means over the pooled standard deviation; None without spread."""
    a, b = _numbers("x", x), _numbers("y", y)
    if min(a.size, b.size) < 2 or (_constant(a) and _constant(b)):
        return None
    pooled = ((a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)) / (a.size + b.size - 2)
    return float((a.mean() - b.mean()) / math.sqrt(pooled))


def fisher(table: Any, *, alternative: Alternative = "two-sided", ci_level: float = CI_LEVEL) -> HypothesisTest:
    """Fisher's exact test of a 2 x 2 table of counts.

    Returns
    -------
    HypothesisTest
        `estimate` with `lo`, `hi` is the conditional maximum-likelihood odds ratio and its exact interval (as in R; a
        bound may be infinite), `statistic` the sample's odds ratio ad / bc. With an empty row or column p is 1 and
        no odds ratio exists.

    Examples
    --------
    >>> round(fisher([[3, 1], [1, 3]]).estimate, 3)
    6.408
    """
    from scipy import stats

    counts = _two_by_two(table)
    common: dict[str, Any] = {
        "ci_level": checked_level(ci_level),
        "n": int(counts.sum()),
        "alternative": _side(alternative),
    }
    method = "Fisher's exact test"
    if not counts.sum(0).all() or not counts.sum(1).all():
        return HypothesisTest(method, 1.0, reason="an empty row or column: no odds ratio", **common)
    exact = stats.fisher_exact(counts, alternative=alternative)
    ratio = stats.contingency.odds_ratio(counts, kind="conditional")
    ends = ratio.confidence_interval(ci_level, alternative)
    found = (exact.pvalue, exact.statistic, ratio.statistic, ends.low, ends.high)
    return HypothesisTest(method, *map(float, found), **common)


def mcnemar(table: Any) -> HypothesisTest:
    """McNemar's exact test of a 2 x 2 table of paired answers.

    Parameters
    ----------
    table : counts [[both yes, first yes only], [second yes only, both no]].

    Returns
    -------
    HypothesisTest
        `p` is exact (binomial on the discordant pairs). `estimate` is the difference of the two shares of yes,
        first minus second. `detail` has `chi2`, `chi2_p` (with continuity correction) and
        `chi2_uncorrected`, `chi2_uncorrected_p`; without a discordant pair p is 1 and all four are None.

    Examples
    --------
    >>> mcnemar([[10, 0], [0, 12]]).p
    1.0
    """
    (_, b), (c, _) = counts = _two_by_two(table)
    n, discordant = int(counts.sum()), int(b + c)
    method = "McNemar's test, exact"
    names = ("chi2", "chi2_p", "chi2_uncorrected", "chi2_uncorrected_p")
    if n == 0:
        return HypothesisTest(method, None, reason="no pair", detail=dict.fromkeys(names))
    if discordant == 0:
        reason = "no discordant pair: chi-square is undefined"
        return HypothesisTest(method, 1.0, 0.0, 0.0, n=n, reason=reason, detail=dict.fromkeys(names))
    p = fair_coin_p(int(b), discordant)
    corrected = max(0, abs(int(b) - int(c)) - 1) ** 2 / discordant
    plain = (int(b) - int(c)) ** 2 / discordant
    values = (corrected, chi2_upper(corrected, 1), plain, chi2_upper(plain, 1))
    detail = dict(zip(names, values, strict=True))
    return HypothesisTest(method, p, float(b), (int(b) - int(c)) / n, n=n, detail=detail)


# -- correlations -----------------------------------------------------------------------------------------


def pearson(x: Any, y: Any, *, ci_level: float = CI_LEVEL) -> HypothesisTest:
    """Pearson's correlation with its t-test and the interval from Fisher's z; undefined for constant input.

    Points on a straight line leave no spread for the t-test or for z. Then p is the exact one over all orders of the
    values (twice the smaller tail), and there is no interval.

    Examples
    --------
    >>> found = pearson([1, 2, 3, 4], [2, 4, 6, 8])
    >>> round(found.p, 4), found.lo, found.reason
    (0.0833, None, 'all 4 points lie on a line: no interval')
    """
    a, b, level = *_pair(x, y), checked_level(ci_level)
    method = "Pearson correlation, interval from Fisher's z"
    if reason := _no_correlation(a, b):
        return HypothesisTest(method, None, ci_level=level, n=a.size, reason=reason)
    r, n = correlation(a, b), a.size
    perfect = _perfect(r)
    if perfect:
        method, r = _EXACT_ORDERS.format("Pearson"), math.copysign(1.0, r)
    p = (_orders_p(a) if perfect else correlation_p(r, n)) if n > 2 else None
    if n < 4 or perfect:
        reason = "fewer than 4 pairs: no interval" if n < 4 else f"all {n} points lie on a line: no interval"
        return HypothesisTest(method, p, r, r, ci_level=level, n=n, reason=reason)
    half = normal_quantile(0.5 + level / 2) / math.sqrt(n - 3)
    lo, hi = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    return HypothesisTest(method, p, r, r, lo, hi, level, n)


def spearman(x: Any, y: Any) -> HypothesisTest:
    """Spearman's rank correlation, p from the t approximation; undefined for constant input.

    Values that are equal up to rounding share a rank (see `kendall_tau_b`). Where the ranks agree perfectly, p is the
    exact one over all orders, as in `pearson`.
    """
    a, b = _pair(x, y)
    method = "Spearman rank correlation, t approximation"
    if reason := _no_correlation(a, b):
        return HypothesisTest(method, None, n=a.size, reason=reason)
    first, second = average_ranks(_without_rounding(a)), average_ranks(_without_rounding(b))
    rho = correlation(first, second)
    if a.size < 3:
        return HypothesisTest(method, None, rho, rho, n=a.size, reason="fewer than 3 pairs: no p")
    if _perfect(rho):
        rho = math.copysign(1.0, rho)
        return HypothesisTest(_EXACT_ORDERS.format("Spearman rank"), _orders_p(first), rho, rho, n=a.size)
    return HypothesisTest(method, correlation_p(rho, a.size), rho, rho, n=a.size)


_EXACT_ORDERS = "{} correlation, perfect: exact p over all orders of the values"


def _perfect(r: float) -> bool:
    """1 or -1 but for rounding."""
    return 1 - abs(r) < 1e-12


def _orders_p(values: np.ndarray) -> float:
    """Two-sided p of a perfect correlation: twice the share of all orders that give it, and never 0.

    Those are the orders that change places of equal values only, the product of t! over groups of t equal values.
    """
    ties = np.unique(_without_rounding(values), return_counts=True)[1]
    log_share = sum(math.lgamma(t + 1) for t in ties) - math.lgamma(values.size + 1)
    return min(1.0, max(2 * math.exp(log_share), sys.float_info.min))


def kendall_tau_b(x: Any, y: Any) -> HypothesisTest:
    """Kendall's tau-b (ties counted); p exact without ties and up to 33 pairs, else the normal approximation.

    Values that are equal up to rounding, as 0.1 + 0.2 and 0.3, are tied: means of the same values must not differ by
    the order in which they were added.
    """
    a, b = _pair(x, y)
    if reason := _no_correlation(a, b):
        return HypothesisTest("Kendall's tau-b", None, n=a.size, reason=reason)
    tau, p, exact = kendall(_without_rounding(a), _without_rounding(b))
    method = f"Kendall's tau-b, {'exact' if exact else 'normal approximation'}"
    return HypothesisTest(method, p, tau, tau, n=a.size)


# -- permutation ------------------------------------------------------------------------------------------


def permutation_p(observed: float, draws: Any, *, alternative: Alternative = "two-sided") -> float:
    """Monte Carlo p-value (k + 1) / (B + 1), with k of the B draws as extreme as `observed`, which is never 0.

    Two-sided compares absolute values, so the statistic must be centred on 0 under the null hypothesis.

    Raises
    ------
    TableError
        The observed value or a draw is missing or not finite, or there is no draw.
    """
    values = _numbers("draws", draws)
    seen = float(_numbers("observed", [observed])[0])
    if values.size == 0:
        raise TableError("draws: a permutation p-value needs at least one draw")
    side = _side(alternative)
    if side == "two-sided":
        values, seen = np.abs(values), abs(seen)
    elif side == "less":
        values, seen = -values, -seen
    slack = 1e-12 * max(1.0, abs(seen))  # equal up to rounding counts as equal
    return (int((values >= seen - slack).sum()) + 1) / (values.size + 1)


def permutation_test(
    x: Any,
    y: Any,
    *,
    kind: Literal["groups", "pairs", "association"] = "groups",
    statistic: Callable[[np.ndarray, np.ndarray], float] | None = None,
    resamples: int = 9999,
    seed: int = 0,
    alternative: Alternative = "two-sided",
) -> HypothesisTest:
    """Permutation test with a Monte Carlo p-value (k + 1) / (B + 1).

    Parameters
    ----------
    x, y : sequences of numbers without a missing value.
    kind : `groups` shuffles who belongs to which group; `pairs` swaps x and y within pairs; `association` shuffles
        y against x.
    statistic : function of (x, y); by default the difference of means, for `association` Pearson's correlation.
    resamples : number of shuffles, B.
    seed : of the shuffles.

    Raises
    ------
    TableError
        A value is missing (scipy returns p = 0 there), lengths differ, or the statistic is not finite.
    """
    if kind not in ("groups", "pairs", "association"):
        raise TableError(f"kind is {kind!r}, not one of groups, pairs, association")
    if not isinstance(resamples, int) or resamples < 1:
        raise TableError(f"resamples is {resamples!r}: give a number of shuffles, such as 9999")
    check(seed=seed)
    a, b = (_numbers("x", x), _numbers("y", y)) if kind == "groups" else _pair(x, y)
    method = f"permutation test ({kind}), {resamples:,} shuffles, p = (k + 1) / (B + 1)"
    if min(a.size, b.size) == 0:
        return HypothesisTest(method, None, n=0, alternative=_side(alternative), reason="no observation")
    if statistic is None and kind == "association" and (reason := _no_correlation(a, b)):
        return HypothesisTest(method, None, n=a.size, alternative=_side(alternative), reason=reason)
    of = statistic or (correlation if kind == "association" else _mean_difference)
    rng = np.random.default_rng(seed)
    draws = [of(*_shuffled(rng, a, b, kind)) for _ in range(resamples)]
    observed = float(of(a, b))
    p = permutation_p(observed, draws, alternative=alternative)
    n = a.size + b.size if kind == "groups" else a.size
    detail = {"resamples": float(resamples), "p_floor": 1 / (resamples + 1)}
    return HypothesisTest(method, p, observed, observed, n=n, alternative=alternative, detail=detail)


def _shuffled(rng: np.random.Generator, a: np.ndarray, b: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "association":
        return a, rng.permutation(b)
    if kind == "pairs":
        swap = rng.random(a.size) < 0.5
        return np.where(swap, b, a), np.where(swap, a, b)
    both = rng.permutation(np.concatenate([a, b]))
    return both[: a.size], both[a.size :]


def _mean_difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(a.mean() - b.mean())


# -- many tests at once -----------------------------------------------------------------------------------

_CORRECTIONS = {
    "bh": "Benjamini-Hochberg false discovery rate",
    "by": "Benjamini-Yekutieli false discovery rate",
    "holm": "Holm family-wise error rate",
}


def adjust(
    p: Sequence[float | None], *, method: Literal["bh", "by", "holm"] = "bh", m: int | None = None
) -> AdjustedPValues:
    """p-values corrected for their number.

    Parameters
    ----------
    p : p-values; None or NaN where a test was undefined. These stay None and are not counted, unless `m` says so.
    method : `bh` (Benjamini-Hochberg), `by` (Benjamini-Yekutieli) or `holm`.
    m : number of hypotheses; by default the number of p-values that are there.

    Raises
    ------
    TableError
        A p-value lies outside 0 to 1, `m` is smaller than the number of p-values, or the method is not known.

    Examples
    --------
    >>> adjust([0.01, None, 0.04]).adjusted
    (0.02, None, 0.04)
    """
    if method not in _CORRECTIONS:
        raise TableError(f"method is {method!r}, not one of {', '.join(_CORRECTIONS)}")
    values = [None if v is None or math.isnan(v) else float(v) for v in p]
    present = [v for v in values if v is not None]
    if bad := [v for v in present if not 0 <= v <= 1]:
        raise TableError(f"p-values lie between 0 and 1; {bad[0]:g} does not")
    count = len(present) if m is None else m
    if count < len(present):
        raise TableError(f"m is {m}, fewer than the {len(present)} p-values")
    adjusted = iter(_adjusted(present, method, count))
    return AdjustedPValues(
        method=f"{_CORRECTIONS[method]}, m = {count}",
        p=tuple(values),
        adjusted=tuple(None if v is None else next(adjusted) for v in values),
        m=count,
        n_missing=len(values) - len(present),
    )


def _adjusted(present: list[float], method: str, m: int) -> list[float]:
    if not present:
        return []
    padded = np.array(present + [1.0] * (m - len(present)))  # hypotheses counted but not seen cannot be smaller
    if method == "holm":
        order = np.argsort(padded, kind="stable")
        stepped = np.maximum.accumulate(padded[order] * np.arange(m, 0, -1))
        corrected = np.empty(m)
        corrected[order] = stepped
    else:
        order = np.argsort(-padded, kind="stable")
        stepped = padded[order] * m / np.arange(m, 0, -1)
        if method == "by":
            stepped = stepped * (1 / np.arange(1, m + 1)).sum()
        corrected = np.empty(m)
        corrected[order] = np.minimum.accumulate(stepped)
    return [min(1.0, float(v)) for v in corrected[: len(present)]]


# -- shared checks ----------------------------------------------------------------------------------------


def _numbers(name: str, values: Any) -> np.ndarray:
    """A flat float array without a missing value."""
    try:
        out = np.asarray([math.nan if v is None else v for v in values], dtype=float)
    except (TypeError, ValueError):
        raise TableError(f"{name} must be a sequence of numbers") from None
    if out.ndim != 1:
        raise TableError(f"{name} must be one sequence of numbers, not a table of shape {out.shape}")
    if (missing := np.flatnonzero(~np.isfinite(out))).size:
        raise TableError(
            f"{name} has {missing.size} missing or infinite values, the first at position {missing[0]}; drop them first"
        )
    return out


def _pair(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = _numbers("x", x), _numbers("y", y)
    if a.size != b.size:
        raise TableError(f"x and y must be of one length; they have {a.size} and {b.size} values")
    return a, b


def _without_rounding(values: np.ndarray) -> np.ndarray:
    """The values as shares of the largest, to 14 digits, so that those that only rounding tells apart are one."""
    most = float(np.abs(values).max(initial=0))
    return np.round(values / most, 14) if most > 0 else values


def _differences(x: Any, y: Any) -> np.ndarray:
    if y is None:
        return _numbers("x", x)
    a, b = _pair(x, y)
    d = a - b
    # 0.3 - 0.1 and 0.4 - 0.2 are one value: rounding must not make ranks out of it.
    scale = max(float(np.abs(a).max(initial=0)), float(np.abs(b).max(initial=0)))
    return np.round(d, 12 - math.ceil(math.log10(scale))) if scale > 0 else d


def _two_by_two(table: Any) -> np.ndarray:
    try:
        out = np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        raise TableError("table must hold counts: [[a, b], [c, d]]") from None
    if out.shape != (2, 2):
        raise TableError(f"table must be 2 x 2, [[a, b], [c, d]], not of shape {out.shape}")
    if not np.isfinite(out).all() or (out < 0).any() or (out != np.round(out)).any():
        raise TableError("table must hold counts: whole numbers from 0 on, none missing")
    return out.astype(np.int64)


def _no_correlation(a: np.ndarray, b: np.ndarray) -> str | None:
    if a.size < 2:
        return "fewer than 2 pairs"
    return next((f"{name} is constant" for name, v in (("x", a), ("y", b)) if _constant(v)), None)


def _constant(values: np.ndarray) -> bool:
    """All the same, up to rounding."""
    return bool(np.ptp(values) <= 1e-12 * float(np.abs(values).max()))


def _side(alternative: str) -> str:
    choice("alternative", alternative, _ALTERNATIVES, hint=False)
    return alternative
