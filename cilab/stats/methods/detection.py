"""Signal detection from counts: hit and false-alarm rates, d' and criterion, with intervals by clusters.

May import numpy, scipy and its own folder. Knows arrays only: no tables, no files.

An item is a *signal* (it calls for an act) or a *mirror* (it looks alike and calls for the contrary). Hits are acts on
signals, false alarms acts on mirrors. d' = z(hit rate) - z(false-alarm rate) says how well the two are told apart,
criterion = -(z(hit rate) + z(false-alarm rate)) / 2 how reluctant the acts are; z is the normal quantile.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.errors import choice
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.distributions import normal_quantile

Correction = Literal["proportional", "log_linear"]


class Estimate(NamedTuple):
    """A value and the ends of its interval; an end is infinite where the data bound it from the other side only."""

    value: float
    lo: float
    hi: float


class Detection(NamedTuple):
    """What the acts on signals and mirrors say. Rates are fractions as observed; d' and criterion are corrected."""

    hit_rate: Estimate
    false_alarm_rate: Estimate
    d_prime: Estimate
    criterion: Estimate


def corrected_rates(
    hits: float, n_signal: int, false_alarms: float, n_mirror: int, correction: Correction = "proportional"
) -> tuple[float, float]:
    """Hit and false-alarm rate, moved off 0 and 1 so that their normal quantiles are finite.

    Parameters
    ----------
    hits, false_alarms : number of acts on signals and on mirrors; parts of an act count as such.
    n_signal, n_mirror : numbers of items, at least 1 each.
    correction : `proportional` adds the share of a kind among all items to its acts, and twice that to its number:
        whoever acts on everything, or on nothing, or on the same share of both, has the same rate on both kinds, and so
        d' = 0 exactly. `log_linear` adds 0.5 and 1 to each kind (Hautus 1995), which gives a constant policy a d' off 0
        where the numbers differ.

    Examples
    --------
    >>> always = corrected_rates(18, 18, 6, 6)
    >>> always[0] == always[1]
    True
    >>> hit, false_alarm = corrected_rates(18, 18, 6, 6, "log_linear")
    >>> round(normal_quantile(hit) - normal_quantile(false_alarm), 2)
    0.47
    """
    choice("correction", correction, ("proportional", "log_linear"))
    if correction == "log_linear":
        return (hits + 0.5) / (n_signal + 1), (false_alarms + 0.5) / (n_mirror + 1)
    n = n_signal + n_mirror
    # (acts + s) / (own + 2 s) with s = own / n, in whole numbers, so that equal rates are equal floats.
    hit, alarm = ((n * acts + own) / (own * (n + 2)) for acts, own in ((hits, n_signal), (false_alarms, n_mirror)))
    return hit, alarm


def detect(
    acted_on_signals: Array,
    acted_on_mirrors: Array,
    signal_clusters: NDArray[np.int64],
    mirror_clusters: NDArray[np.int64],
    *,
    correction: Correction = "proportional",
    ci_level: float = 0.95,
) -> Detection:
    """Rates, d' and criterion with intervals.

    Each rate has Wilson's score interval at its effective number of items: the number divided by the design effect of
    clusters (their own variance against that of independent items, at least 1). Those of d' and criterion are put
    together from the two by the method of variance estimates recovery, on the scale of normal quantiles. So an interval
    never has width 0, and where every signal was acted on, d' has no upper end.

    Parameters
    ----------
    acted_on_signals, acted_on_mirrors : of each item, a fraction from 0 to 1 (mean over seeds); at least one each.
    signal_clusters, mirror_clusters : number of the cluster of each item.

    References
    ----------
    Green & Swets (1966); Hautus (1995); Wilson (1927); Zou & Donner (2008), Statistics in Medicine 27.
    """
    q = normal_quantile(0.5 + ci_level / 2)
    hits, alarms = float(acted_on_signals.sum()), float(acted_on_mirrors.sum())
    rates = corrected_rates(hits, len(acted_on_signals), alarms, len(acted_on_mirrors), correction)
    hit, alarm = _wilson(acted_on_signals, signal_clusters, q), _wilson(acted_on_mirrors, mirror_clusters, q)
    zh, zf = (_on_scale(rate, observed) for rate, observed in zip(rates, (hit, alarm), strict=True))
    apart = Estimate(
        zh.value - zf.value,
        zh.value - zf.value - np.hypot(zh.value - zh.lo, zf.hi - zf.value),
        zh.value - zf.value + np.hypot(zh.hi - zh.value, zf.value - zf.lo),
    )
    middle = -(zh.value + zf.value) / 2 + 0.0
    criterion = Estimate(
        middle,
        middle - np.hypot(zh.hi - zh.value, zf.hi - zf.value) / 2,
        middle + np.hypot(zh.value - zh.lo, zf.value - zf.lo) / 2,
    )
    return Detection(hit, alarm, apart, criterion)


def mean_of_two(a: Estimate, b: Estimate) -> Estimate:
    """Mean of two independent rates, with its interval by the same method."""
    value = (a.value + b.value) / 2
    lo, hi = np.hypot(a.value - a.lo, b.value - b.lo) / 2, np.hypot(a.hi - a.value, b.hi - b.value) / 2
    return Estimate(value, float(value - lo), float(value + hi))


def opposite(rate: Estimate) -> Estimate:
    """Of not acting."""
    return Estimate(1 - rate.value, 1 - rate.hi, 1 - rate.lo)


def rate_of(values: Array, clusters: NDArray[np.int64], ci_level: float = 0.95) -> Estimate:
    """A mean of fractions and Wilson's interval at the effective number of items."""
    return _wilson(values, clusters, normal_quantile(0.5 + ci_level / 2))


def _wilson(values: Array, clusters: NDArray[np.int64], q: float) -> Estimate:
    n, mean = len(values), float(values.mean())
    size = n / _design_effect(values, clusters)
    middle = (mean + q * q / (2 * size)) / (1 + q * q / size)
    half = q * np.sqrt(mean * (1 - mean) / size + q * q / (4 * size**2)) / (1 + q * q / size)
    lo = 0.0 if mean <= 0 else float(middle - half)
    hi = 1.0 if mean >= 1 else float(middle + half)
    return Estimate(mean, min(lo, mean), max(hi, mean))


def _design_effect(values: Array, clusters: NDArray[np.int64]) -> float:
    """Variance of the mean by clusters over that of as many independent items; at least 1."""
    n, mean = len(values), values.mean()
    independent = mean * (1 - mean) / n
    names, own = np.unique(clusters, return_inverse=True)
    if independent <= 0 or len(names) < 2:
        return 1.0
    sums = np.bincount(own, weights=values - mean)
    variance = (sums**2).sum() / n**2 * len(names) / (len(names) - 1)
    return max(1.0, float(variance / independent))


def _on_scale(corrected: float, observed: Estimate) -> Estimate:
    """Normal quantiles of a corrected rate and of the ends of its interval, which then holds it."""
    from scipy.special import ndtri

    value = float(ndtri(corrected))
    return Estimate(value, min(value, float(ndtri(observed.lo))), max(value, float(ndtri(observed.hi))))
