"""Linking of two scales of a one-parameter item-response model through what they have in common.

May import numpy, scipy and `cilab.stats.methods`. Knows arrays only: no tables, no files. Every fit of such a model has
a scale of its own: the origin, and with free discriminations the unit, are arbitrary. What was measured on both scales
(anchor tasks, or rows) says how one becomes the other: old = slope * new + shift.

References
----------
Kolen and Brennan (2014), Test Equating, Scaling, and Linking, chapters 6 and 7. Haebara (1980), Equating logistic
ability scales by a weighted least squares method. Stocking and Lord (1983), Developing a common metric in item response
theory. Huynh and Meyer (2010), Use of robust z in detecting unstable items in item response theory models.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.stats.methods.bootstrap import Array
from cilab.stats.methods.row_task_model import expit

Method = Literal["stocking_lord", "haebara", "mean_mean", "mean_sigma"]
METHODS: tuple[Method, ...] = ("stocking_lord", "haebara", "mean_mean", "mean_sigma")
#: 0.74 times the interquartile range is the standard deviation of a normal variable.
_IQR = 0.74
_STEPS, _CLOSE, _LONGEST = 60, 1e-10, 1.0


class Link(NamedTuple):
    """How the new scale becomes the old one: old = slope * new + shift, in logits."""

    slope: float
    shift: float

    def to_old(self, values: Array) -> Array:
        """Abilities or difficulties of the new scale on the old one."""
        return self.slope * values + self.shift


def link(old: Array, new: Array, method: Method = "stocking_lord", points: tuple[Array, Array] | None = None) -> Link:
    """The link through anchor tasks.

    `mean_mean` makes the means of the difficulties the same, `mean_sigma` their standard deviations too. The other two
    compare characteristic curves, which lets tasks that nearly all rows pass or fail count for less: `haebara` those of
    each task, `stocking_lord` their sum. Both are taken over the abilities of either round, each on its own scale
    (the symmetric criterion), so that linking the other way round gives the inverse. All but `mean_sigma` keep the
    unit, which a one-parameter model fixes.

    Parameters
    ----------
    old, new : difficulties of the anchors on either scale, logits, shape (anchors,).
    method : see above.
    points : abilities of old and of new rows at which curves are compared, each on its own scale; by default the
        difficulties.

    Examples
    --------
    >>> link(np.array([0.5, 1.0, 2.0]), np.array([0.0, 0.5, 1.5]), "mean_mean")
    Link(slope=1.0, shift=0.5)
    """
    if method == "mean_sigma":
        slope = float(old.std() / new.std()) if new.std() > 0 and old.std() > 0 else float("nan")
        return Link(slope, float(old.mean() - slope * new.mean()))
    start = float((old - new).mean())
    if method == "mean_mean":
        return Link(1.0, start)
    at_old, at_new = (old, new) if points is None else points
    return Link(1.0, _curves(old, new, at_old, at_new, start, sum_first=method == "stocking_lord"))


def _curves(old: Array, new: Array, at_old: Array, at_new: Array, shift: float, *, sum_first: bool) -> float:
    """The shift at which squared distances of curves are least, by Gauss and Newton with shortened steps."""

    def distance(at: float) -> tuple[float, Array, Array]:
        residual, slope = [], []
        # Old abilities against new tasks brought to the old scale, and new abilities against old tasks on the new one.
        for points, mine, theirs, sign in ((at_old, old, new + at, 1.0), (at_new, new, old - at, -1.0)):
            p, q = expit(points[:, None] - mine), expit(points[:, None] - theirs)
            gap, move = p - q, sign * q * (1 - q)
            weight = 1 / np.sqrt(len(points))
            residual.append(weight * (gap.sum(axis=1) if sum_first else gap.ravel()))
            slope.append(weight * (move.sum(axis=1) if sum_first else move.ravel()))
        r = np.concatenate(residual)
        return float(r @ r), r, np.concatenate(slope)

    value, r, slope = distance(shift)
    for _ in range(_STEPS):
        curvature = float(slope @ slope)
        if curvature < 1e-30:
            break
        step = float(np.clip(-(slope @ r) / curvature, -_LONGEST, _LONGEST))
        found = distance(shift + step)
        while found[0] > value and abs(step) > _CLOSE:
            step /= 2
            found = distance(shift + step)
        if found[0] > value:
            break
        shift, (value, r, slope) = shift + step, found
        if abs(step) < _CLOSE:
            break
    return shift


def leave_out(
    old: Array, new: Array, clusters: NDArray[np.int64], method: Method, points: tuple[Array, Array] | None = None
) -> list[Link]:
    """The link without each cluster of anchors in turn; `clusters`, shape (anchors,), says which they came in."""
    codes = np.unique(clusters)
    return [link(old[clusters != c], new[clusters != c], method, points) for c in codes]


def jackknife_variance(draws: Array) -> Array:
    """Variance of a quantity from its values with each of n units left out in turn, along the first axis."""
    n = len(draws)
    return (n - 1) / n * ((draws - draws.mean(axis=0)) ** 2).sum(axis=0)


def robust_z(residuals: Array) -> Array | None:
    """(residual - median) / (0.74 * interquartile range); None where most are alike.

    Examples
    --------
    >>> robust_z(np.array([0.0, 0.1, -0.1, 0.2, 3.0])).round(1).tolist()
    [-0.7, 0.0, -1.4, 0.7, 19.6]
    """
    low, middle, high = np.quantile(residuals, [0.25, 0.5, 0.75])
    spread = _IQR * (high - low)
    return None if spread < 1e-9 else (residuals - middle) / spread


__all__ = ["METHODS", "Link", "Method", "jackknife_variance", "leave_out", "link", "robust_z"]
