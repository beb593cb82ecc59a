"""Signal detection from counts: hit and false-alarm rates, d' and criterion, with intervals by clusters.

May import numpy, scipy and its own folder; the intervals of rates are those of `uncertainty`, as everywhere. Knows
arrays only: no tables, no files.

An item is a *signal* (it calls for an act) or a *mirror* (it looks alike and calls for the contrary). Hits are acts on
signals, false alarms acts on mirrors. d' = z(hit rate) - z(false-alarm rate) says how well the two are told apart,
criterion = -(z(hit rate) + z(false-alarm rate)) / 2 how reluctant the acts are; z is the normal quantile.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.core.errors import choice
from cilab.core.options import CI_LEVEL
from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.uncertainty import mean_bounds

Correction = Literal["proportional", "log_linear"]


class Estimate(NamedTuple):
    """A value and the ends of its interval, or why there is none (the ends are NaN then).

    An end is infinite where the data bound the value from the other side only.
    """

    value: float
    lo: float
    hi: float
    reason: str | None = None


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
    >>> round(hit, 3), round(false_alarm, 3)
    (0.974, 0.929)
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
    ci_level: float = CI_LEVEL,
    unit: str = "task",
) -> Detection:
    """Rates, d' and criterion with intervals.

    Each rate has the score interval of `uncertainty.mean_bounds` at its effective number of clusters. Those of d' and
    criterion are put together from the two by the method of variance estimates recovery, on the scale of normal
    quantiles. So an interval never has width 0, and where every signal was acted on, d' has no upper end. With fewer
    clusters of a kind than an interval takes, none is given and the reason is.

    Parameters
    ----------
    acted_on_signals, acted_on_mirrors : of each item, a fraction from 0 to 1 (mean over seeds); at least one each.
    signal_clusters, mirror_clusters : number of the cluster of each item.
    unit : what a cluster is called.

    References
    ----------
    Green & Swets (1966); Hautus (1995); Zou & Donner (2008), Statistics in Medicine 27.
    """
    hits, alarms = float(acted_on_signals.sum()), float(acted_on_mirrors.sum())
    rates = corrected_rates(hits, len(acted_on_signals), alarms, len(acted_on_mirrors), correction)
    hit = rate_of(acted_on_signals, signal_clusters, ci_level, unit)
    alarm = rate_of(acted_on_mirrors, mirror_clusters, ci_level, unit)
    reason = hit.reason or alarm.reason
    zh, zf = (_on_scale(rate, observed) for rate, observed in zip(rates, (hit, alarm), strict=True))
    apart = Estimate(
        zh.value - zf.value,
        zh.value - zf.value - np.hypot(zh.value - zh.lo, zf.hi - zf.value),
        zh.value - zf.value + np.hypot(zh.hi - zh.value, zf.value - zf.lo),
        reason,
    )
    middle = -(zh.value + zf.value) / 2 + 0.0
    criterion = Estimate(
        middle,
        middle - np.hypot(zh.hi - zh.value, zf.hi - zf.value) / 2,
        middle + np.hypot(zh.value - zh.lo, zf.value - zf.lo) / 2,
        reason,
    )
    return Detection(hit, alarm, apart, criterion)


def mean_of_two(a: Estimate, b: Estimate) -> Estimate:
    """Mean of two independent rates, with its interval by the same method."""
    value = (a.value + b.value) / 2
    lo, hi = np.hypot(a.value - a.lo, b.value - b.lo) / 2, np.hypot(a.hi - a.value, b.hi - b.value) / 2
    return Estimate(value, float(value - lo), float(value + hi), a.reason or b.reason)


def rate_of(values: Array, clusters: NDArray[np.int64], ci_level: float = CI_LEVEL, unit: str = "task") -> Estimate:
    """A mean of fractions and its interval by the rule of uncertainty."""
    found = mean_bounds(values, clusters=clusters, ci_level=ci_level, unit=unit)
    nan = float("nan")
    lo, hi = (nan if end is None else end for end in (found.lo, found.hi))
    return Estimate(float(values.mean()), lo, hi, found.reason)


def _on_scale(corrected: float, observed: Estimate) -> Estimate:
    """Normal quantiles of a corrected rate and of the ends of its interval, which then holds it."""
    from scipy.special import ndtri

    value = float(ndtri(corrected))
    lo, hi = float(ndtri(observed.lo)), float(ndtri(observed.hi))
    return Estimate(value, float(np.minimum(value, lo)), float(np.maximum(value, hi)), observed.reason)
