"""Means of judged scores, corrected for the judge's errors by people's verdicts on some of the units.

May import numpy, `cilab.core` and `cilab.stats.methods`. Knows arrays only: no runs, no tables.

Two corrections
    Prediction-powered inference (Angelopoulos and others 2023), with power tuning (PPI++): the mean of all judged
    scores, times a factor, plus the mean over the labelled units of what people say less that factor times what the
    judge says. It assumes that the labelled units are a random sample, with the weights given; of the judge nothing.
    Rogan and Gladen (1978): a share judged positive is turned into the share that people would call positive by the
    judge's sensitivity and specificity. It assumes that these are the same wherever they are applied.
Few labels
    Judges are often right, so that few labelled units show an error, or none. For verdicts of 0 and 1 the first is the
    sum of two shares, one a class of the judge's verdict; its interval joins their score intervals (Zou and Donner
    2008) at the effective numbers of labels. Graded scores get Student's t after two imagined errors, one each way, of
    the full width. The interval of the second holds the shares that agree with the share judged positive, given the
    score intervals of sensitivity and specificity, joined in the same way (as Fieller does with ratios).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.options import CI_LEVEL
from cilab.stats.methods.distributions import normal_quantile, t_quantile
from cilab.stats.methods.uncertainty import LEAST_UNITS, too_few

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected mean, a fraction.

    Attributes
    ----------
    value : None where there is no correction; `reason` says why.
    lo, hi : ends of the interval; None where there is none, and `no_interval` says why.
    se : large-sample standard error.
    factor : power tuning, how far the judge's scores are used: 0 not at all, 1 as they are. None with Rogan and Gladen.
    n_clusters : independent units among the labelled ones.
    clipped : the estimate lay outside 0 to 1, and was brought to its end.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    se: float | None = None
    factor: float | None = None
    n_clusters: int = 0
    reason: str | None = None
    no_interval: str | None = None
    clipped: bool = False


class Rate(NamedTuple):
    """A share of labelled units: sensitivity or specificity.

    Attributes
    ----------
    value, lo, hi : fractions, with the score interval at `effective`; None without units.
    n : labelled units.
    effective : how many units of equal weight say as much (Kish 1965).
    """

    value: float | None
    lo: float | None
    hi: float | None
    n: int
    effective: float


def error_rates(judged: Array, people: Array, weights: Array, ci_level: float = CI_LEVEL) -> tuple[Rate, Rate]:
    """Sensitivity and specificity of a judge.

    Parameters
    ----------
    judged, people : verdicts of 0 and 1 on the labelled units, shape (n,).
    weights : how many units each stands for, shape (n,).

    Returns
    -------
    tuple of Rate
        Of the units that people call positive the share that the judge does, of the others the share that it does not.

    Examples
    --------
    >>> judged, people = np.array([1, 1, 0, 0, 1.0]), np.array([1, 1, 1, 0, 0.0])
    >>> [round(rate.value, 3) for rate in error_rates(judged, people, np.ones(5))]
    [0.667, 0.5]
    """
    top = float(weights.max(initial=0.0))
    found = [(judged[people == k] == k, weights[people == k]) for k in (1.0, 0.0)]
    sensitivity, specificity = (_rate(hit, mine, top, ci_level) for hit, mine in found)
    return sensitivity, specificity


def _rate(hit: NDArray[np.bool_], weights: Array, top: float, ci_level: float) -> Rate:
    if not len(hit):
        return Rate(None, None, None, 0, 0.0)
    value = float(weights[hit].sum() / weights.sum()) if not hit.all() else 1.0
    # An error that was not seen may be one of the heaviest units, of which these make up so many.
    effective = min(_effective(weights, hit.astype(float)), float(weights.sum()) / top)
    return Rate(value, *_wilson(value, effective, normal_quantile(0.5 + ci_level / 2)), len(hit), effective)


def prediction_powered(
    judged: Array,
    people: Array,
    *,
    weights: Array | None = None,
    sampling: Array | None = None,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    ci_level: float = CI_LEVEL,
    unit: str = "task",
) -> Corrected:
    """Mean of what people would say of all units, from the judge's scores of all and people's of some.

    Parameters
    ----------
    judged : the judge's scores, fractions, shape (n,).
    people : people's scores of the same units; NaN where there is none.
    weights : share of each unit in the mean; None: equal.
    sampling : one over the chance of each unit to be labelled, up to a factor, shape (n,); None: all had the same. What
        stands there for units that are not labelled says only whether chances differ.
    strata : parts that are fixed, whole numbers (n,), such as dimensions: units were sampled within them; None: one.
    clusters : which units depend on each other, any whole numbers; None: none do.
    ci_level : a fraction.
    unit : what a cluster is called.

    Returns
    -------
    Corrected
        Null without labelled units, and where unequal chances left none of those that the judge calls positive, or
        none of the others, while there are both. The factor is that of least variance, within 0 to 1.

    References
    ----------
    Angelopoulos, A. N., Bates, S., Fannjiang, C., Jordan, M. I., & Zrnic, T. (2023). Science, 382, 669-674.
    Angelopoulos, A. N., Duchi, J. C., & Zrnic, T. (2023). PPI++. arXiv:2311.01453. Tenenbein, A. (1970). Journal of
    the American Statistical Association, 65, 1350-1361 (verdicts of 0 and 1). Zou, G. Y., & Donner, A. (2008).
    Statistics in Medicine, 27, 1693-1702.

    Examples
    --------
    >>> judged = np.array([1, 1, 1, 0, 0, 0, 1, 1, 0, 1.0])
    >>> people = np.array([1, 0, 1, 0, 0, 1] + [np.nan] * 4)
    >>> found = prediction_powered(judged, people)
    >>> round(found.value, 3), round(found.factor, 3)
    (0.533, 0.333)
    """
    f, y = np.asarray(judged, float), np.asarray(people, float)
    labelled = np.isfinite(y)
    if not labelled.any():
        return Corrected(reason="no labels")
    if sampling is not None and np.ptp(sampling) > 0 and np.ptp(f[labelled]) == 0 < np.ptp(f):
        return Corrected(reason=f"the sample is stratified, and all its labelled units are judged {f[labelled][0]:g}")
    c = np.full(len(f), 1 / len(f)) if weights is None else np.asarray(weights, float) / np.sum(weights)
    a = c * (1.0 if sampling is None else np.asarray(sampling, float))
    a = np.where(labelled, a, 0.0)
    a = a / a.sum()
    of = np.arange(len(f)) if clusters is None else np.unique(clusters, return_inverse=True)[1].reshape(-1)
    y = np.where(labelled, y, 0.0)
    q, mean_f, mean_y = float(c @ f), float(a @ f), float(a @ y)
    spread = float(a @ (f - mean_f) ** 2)
    factor = float(a @ ((f - mean_f) * (y - mean_y))) / spread if spread > 1e-12 else 0.0
    factor = min(1.0, factor) if factor > 1e-9 else 0.0
    value = mean_y + factor * (q - mean_f)
    own = a * (y - mean_y - factor * (f - mean_f))
    judge = factor * _moved(f, c, strata)
    n_clusters = len(np.unique(of[labelled]))
    variance = _between(own + judge, of)
    out: dict[str, Any] = {
        "value": min(1.0, max(0.0, value)),
        "factor": factor,
        "n_clusters": n_clusters,
        "clipped": not 0 <= value <= 1,
    }
    if n_clusters < LEAST_UNITS:
        return Corrected(**out, no_interval=too_few(n_clusters, unit))
    df = max(1.0, n_clusters - (2.0 if factor > 0 else 1.0))
    z = t_quantile(0.5 + ci_level / 2, df)
    design = _design_effect(own[labelled], of[labelled])
    rest = _between(judge, of)
    binary = set(np.unique(f)) | set(np.unique(y[labelled])) <= {0.0, 1.0}
    if binary:
        # Within a cluster the judge's mean and people's corrections go together.
        together = max(1.0, variance / (_between(own, of) + rest)) if variance > 0 else 1.0
        down, up = _two_shares(f, y, c, a, factor, design, z * z * rest, z)
        lo, hi = value - math.sqrt(together * down), value + math.sqrt(together * up)
    else:
        n = _effective(a[labelled]) / design
        errors = float(a @ (y - mean_y - factor * (f - mean_f)) ** 2)
        imagined = (n * errors + 2.0) / (n + 2.0) / n + rest
        half = z * math.sqrt(max(imagined, variance))
        lo, hi = value - half, value + half
    return Corrected(**out, lo=max(0.0, lo), hi=min(1.0, hi), se=math.sqrt(variance))


def _two_shares(
    f: Array, y: Array, c: Array, a: Array, factor: float, design: float, rest: float, z: float
) -> tuple[float, float]:
    """Squared distances to the ends for verdicts of 0 and 1, `rest` being that of the judge's mean.

    People's shares of positives among those that the judge passes, and fails, are joined. Without tuning (the judge's
    verdicts among the labelled units are all alike, or go against people's) it is people's share among them alone.
    """
    down = up = rest
    classes = [f == k for k in (0.0, 1.0)] if factor > 0 else [np.ones(len(f), bool)]
    for there in classes:
        whole, mine = float(c[there].sum()), a[there & (a > 0)]
        if not len(mine) or whole == 0:
            continue
        share = float(a[there] @ y[there] / mine.sum())
        lo, hi = _wilson(share, _effective(mine, y[there & (a > 0)]) / design, z)
        down += (whole * (share - lo)) ** 2
        up += (whole * (hi - share)) ** 2
    return down, up


def rogan_gladen(
    judged: Array,
    sensitivity: Rate,
    specificity: Rate,
    *,
    weights: Array | None = None,
    strata: Codes | None = None,
    clusters: Codes | None = None,
    ci_level: float = CI_LEVEL,
    unit: str = "task",
) -> Corrected:
    """Share of positives from the share judged positive and the judge's error rates.

    Parameters
    ----------
    judged : the judge's verdicts of 0 and 1, shape (n,).
    sensitivity, specificity : of the judge, as from `error_rates`.
    weights, strata, clusters, ci_level, unit : as in `prediction_powered`.

    Returns
    -------
    Corrected
        Null where a rate is unknown, or where they add up to 1 or less: the judge does no better than chance then.

    References
    ----------
    Rogan, W. J., & Gladen, B. (1978). American Journal of Epidemiology, 107, 71-76. Fieller, E. C. (1954). Journal of
    the Royal Statistical Society B, 16, 175-185. Zou, G. Y., & Donner, A. (2008), as above.

    Examples
    --------
    A share of 0.3 judged positive; of 50 positives 45 were found, of 50 negatives 40: (0.3 + 0.8 - 1) / 0.7.

    >>> rates = Rate(0.9, None, None, 50, 50.0), Rate(0.8, None, None, 50, 50.0)
    >>> round(rogan_gladen(np.repeat([1.0, 0.0], [30, 70]), *rates).value, 4)
    0.1429
    """
    rates = (sensitivity, specificity)
    for rate, words in zip(rates, ("positives", "negatives"), strict=True):
        if rate.value is None:
            unknown = "sensitivity" if words == "positives" else "specificity"
            return Corrected(reason=f"people called no labelled unit {words[:-1]}: {unknown} unknown")
    f = np.asarray(judged, float)
    c = np.full(len(f), 1 / len(f)) if weights is None else np.asarray(weights, float) / np.sum(weights)
    groups = np.arange(len(f)) if clusters is None else np.unique(clusters, return_inverse=True)[1].reshape(-1)
    se, sp = float(sensitivity.value), float(specificity.value)  # type: ignore[arg-type]
    if se + sp <= 1:
        return Corrected(reason=f"sensitivity + specificity = {se + sp:.2f}: the judge does no better than chance")
    p = float(c @ f)
    value = (p + sp - 1) / (se + sp - 1)
    n_clusters = len(np.unique(groups))
    out: dict[str, Any] = {"value": min(1.0, max(0.0, value)), "n_clusters": n_clusters, "clipped": not 0 <= value <= 1}
    spread = _between(_moved(f, c, strata), groups)
    n = p * (1 - p) / spread if spread > 1e-15 else 1 / float((np.bincount(groups, c) ** 2).sum())
    variance = spread + value**2 * se * (1 - se) / sensitivity.effective
    variance += (1 - value) ** 2 * sp * (1 - sp) / specificity.effective
    out["se"] = math.sqrt(variance) / (se + sp - 1)
    if n_clusters < LEAST_UNITS:
        return Corrected(**out, no_interval=too_few(n_clusters, unit))
    z = t_quantile(0.5 + ci_level / 2, n_clusters - 1)
    judged_ends, normal = _wilson(p, n, z), normal_quantile(0.5 + ci_level / 2)
    lo, hi = _agreeing((p, *judged_ends), *((r.value, *_wilson(r.value, r.effective, normal)) for r in rates))  # type: ignore[arg-type]
    return Corrected(**out, lo=min(lo, out["value"]), hi=max(hi, out["value"]))


#: Shares that are tried for the interval of Rogan and Gladen.
_TRIED = np.linspace(0.0, 1.0, 4001)


def _agreeing(
    share: tuple[float, float, float], se: tuple[float, float, float], sp: tuple[float, float, float]
) -> tuple[float, float]:
    """Least and largest share of positives that agrees with the share judged positive; each rate with its ends."""
    at = _TRIED
    above = share[0] - at * se[0] - (1 - at) * (1 - sp[0])
    # Judged positive too often for `at`: the share is lower, or the rates let more pass; and the other way round.
    often = (share[0] - share[1]) ** 2 + (at * (se[2] - se[0])) ** 2 + ((1 - at) * (sp[0] - sp[1])) ** 2
    rarely = (share[2] - share[0]) ** 2 + (at * (se[0] - se[1])) ** 2 + ((1 - at) * (sp[2] - sp[0])) ** 2
    within = at[above**2 <= np.where(above > 0, often, rarely)]
    return (float(within[0]), float(within[-1])) if len(within) else (1.0, 0.0)


def _moved(f: Array, c: Array, strata: Codes | None) -> Array:
    """How far each unit moves the mean of its stratum, in the weight of the whole."""
    if strata is None:
        return c * (f - float(c @ f))
    of = np.unique(strata, return_inverse=True)[1].reshape(-1)
    return c * (f - (np.bincount(of, c * f) / np.bincount(of, c))[of])


def _effective(weights: Array, values: Array | None = None) -> float:
    """How many units of equal weight say as much: Kish's number, and no more than the spread of shares by weight says.

    The second is smaller where those that are rare have the large weights.
    """
    kish = float(weights.sum() ** 2 / (weights**2).sum())
    if values is None:
        return kish
    share = float(weights @ values / weights.sum())
    spread = float((weights**2 * (values - share) ** 2).sum() / weights.sum() ** 2)
    return min(kish, share * (1 - share) / spread) if spread > 1e-15 else kish


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """Score interval of a share of `n` units, an effective number that need not be whole, at `z` standard errors."""
    share, scale = min(1.0, max(0.0, share)), 1 + z * z / n
    middle = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _between(influence: Array, of: Codes) -> float:
    """Variance of a sum of contributions, by clusters."""
    sums = np.bincount(of, influence)
    g = len(np.unique(of))
    return float((sums**2).sum()) * g / max(1, g - 1)


def _design_effect(influence: Array, of: Codes) -> float:
    """How much larger a variance is by clusters than by units; at least 1."""
    alone = float((influence**2).sum())
    if alone <= 1e-24:
        return 1.0
    _, codes = np.unique(of, return_inverse=True)
    return max(1.0, float((np.bincount(codes.reshape(-1), influence) ** 2).sum()) / alone)
