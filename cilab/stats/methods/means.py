"""Means with normal intervals, and their differences: plain and paired.

May import `cilab.core`. Knows no run: values in, estimates out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cilab.results.arguments import checked_level
from cilab.stats.methods.distributions import normal_quantile


def z_of(ci_level: float) -> float:
    """Half-width of a normal interval in standard errors."""
    return normal_quantile(0.5 + checked_level(ci_level) / 2)


def mean_interval(values: Sequence[float], z: float) -> dict[str, float | int | None]:
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


def difference(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None, z: float) -> dict[str, float | None]:
    """`diff, lo, hi` of two independent means a - b; None where one is missing."""
    if a is None or b is None or a["mean"] is None or b["mean"] is None:
        return {"diff": None, "lo": None, "hi": None}
    diff = round(a["mean"] - b["mean"], 12)  # 0.3 - 0.1 - 0.2 is no difference
    if a["se"] is None or b["se"] is None:
        return {"diff": diff, "lo": None, "hi": None}
    half = z * math.hypot(a["se"], b["se"])
    return {"diff": diff, "lo": diff - half, "hi": diff + half}
