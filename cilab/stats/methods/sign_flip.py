"""Sign-flip tests: how a sum of paired differences compares with the sums that other signs would have given.

May import numpy and `cilab.stats.methods.paired`. Knows arrays only: no tables, no files. Under the hypothesis of no
difference a unit's difference is as likely to have the other sign, so that the signs that were seen are one draw of
many. A unit is what was sampled: a task, or a cluster of tasks, which flips as one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cilab.stats.methods.bootstrap import Array, Mask
from cilab.stats.methods.paired import Layout, parts

#: Up to this many units that are not 0 every choice of signs is counted (in two halves, of 2^16 sums each).
MOST_EXACT = 32
#: Up to this many clusters that swapping changes, every choice is counted.
MOST_SWAPS = 12
#: Parts of the smallest difference in which all the others may be whole numbers, and the work that this may take.
_PARTS, _WORK = 360, 20_000_000
#: Below so many multiplications numpy's convolution is quickest.
_SMALL = 1_000_000
#: Sums nearer to one another than this share of the largest are the same up to rounding.
_SAME = 1e-10
#: The same for statistics in single precision.
_SLACK = 1e-5
#: Numbers held at a time.
_BLOCK = 2_000_000


class SignFlip(NamedTuple):
    """A two-sided p-value, never 0; whether all choices were counted; units that are not 0."""

    p: float
    exact: bool
    n_units: int


def sign_flip(units: Array, *, flips: int = 9999, rng: np.random.Generator | None = None) -> SignFlip:
    """Two-sided sign-flip test of a sum against 0.

    Counted exactly where the differences are whole multiples of one number (scores of a few seeds, one weight), which
    goes for hundreds of units, and up to `MOST_EXACT` units anyhow. Otherwise by random signs, with (k + 1) / (B + 1).

    Parameters
    ----------
    units : what each unit adds to the sum, shape (n,): its weighted difference, or the sum of those of a cluster.
    flips : random choices of signs, B, where not all are counted.
    rng : their source; by default a fixed one.

    Returns
    -------
    SignFlip
        Without a unit other than 0, p is 1.

    References
    ----------
    Fisher, The Design of Experiments (1935), section 21; Phipson and Smyth, Permutation P-values should never be
    zero (2010).

    Examples
    --------
    >>> sign_flip(np.ones(5))
    SignFlip(p=0.0625, exact=True, n_units=5)
    """
    size = np.abs(units)
    kept = units[size > _SAME * size.max(initial=0.0)]
    n = len(kept)
    if not n:
        return SignFlip(1.0, True, 0)
    seen = abs(float(kept.sum()))
    if (whole := _whole_numbers(np.abs(kept))) is not None:
        least = int(np.rint(seen * whole.sum() / np.abs(kept).sum()))
        return SignFlip(_by_convolution(whole, least), True, n)
    seen -= _SAME * float(np.abs(kept).sum())
    if n <= MOST_EXACT:
        return SignFlip(_in_two_halves(kept, seen), True, n)
    drawn = np.abs(random_signs(flips, n, rng or np.random.default_rng(0)) @ kept)
    return SignFlip((int((drawn >= seen).sum()) + 1) / (flips + 1), False, n)


def random_signs(flips: int, n: int, rng: np.random.Generator) -> Array:
    """Signs 1 and -1 with equal chances, shape (flips, n)."""
    bits = np.unpackbits(rng.integers(0, 256, (flips, -(-n // 8)), dtype=np.uint8), axis=1)[:, :n]
    return np.where(bits, -1.0, 1.0)


def _whole_numbers(sizes: Array) -> NDArray[np.int64] | None:
    """The sizes counted in the largest unit that divides all; None without one, or where sums get too many."""
    relative = sizes / sizes.min()
    distinct = np.unique(np.round(relative, 9))
    parts = np.arange(1, _PARTS + 1)[:, None]
    scaled = parts * distinct
    fits = (np.abs(scaled - np.rint(scaled)) < 1e-6).all(axis=1)
    if not fits.any():
        return None
    whole = np.rint(relative * parts[int(np.argmax(fits)), 0]).astype(np.int64)
    return whole if len(whole) * int(whole.sum()) <= _WORK else None


def _by_convolution(whole: NDArray[np.int64], least: int) -> float:
    """P(|signed sum of whole numbers| >= least), from the sum of those with a plus: twice that, less all of them.

    Of m equal numbers a binomial number has a plus.
    """
    chances = np.ones(1)
    for k, m in zip(*(found.tolist() for found in np.unique(whole, return_counts=True)), strict=True):
        heads = np.array([math.comb(m, j) / 2**m for j in range(m + 1)])
        if len(chances) * k * m < _SMALL:
            each = np.zeros(k * m + 1)
            each[::k] = heads
            chances = np.convolve(chances, each)
            continue
        more = np.zeros(len(chances) + k * m)
        for j, chance in enumerate(heads):
            more[j * k : j * k + len(chances)] += chance * chances
        chances = more
    sums = np.abs(2 * np.arange(len(chances)) - (len(chances) - 1))
    return min(1.0, float(chances[sums >= least].sum()))


def _in_two_halves(units: Array, seen: float) -> float:
    """Share of all choices of signs whose sum is at least `seen` from 0: sums of one half looked up in the other's."""
    one, two = (_all_sums(half) for half in (units[: len(units) // 2], units[len(units) // 2 :]))
    two.sort()
    above = len(two) - np.searchsorted(two, seen - one, "left")
    below = np.searchsorted(two, -seen - one, "right")
    # With seen below the rounding slack every sum would count on both sides.
    return min(1.0, float((above + below).sum()) / (len(one) * len(two)))


def _all_sums(units: Array) -> Array:
    sums = np.zeros(1)
    for unit in units:
        sums = np.concatenate((sums + unit, sums - unit))
    return sums


# -- two sides that do not rest on the same tasks ----------------------------------------------------------


def swap_test(
    a: Array, b: Array, used: tuple[Mask, Mask], layout: Layout, *, flips: int, rng: np.random.Generator
) -> SignFlip:
    """Two-sided test of two sides that each rest on their own tasks: all that a unit has is swapped between them.

    A swap takes value and use together, so that after it a task counts for the other side. What is compared is the
    difference over its standard error, which makes the test hold, in large samples, also where one side rests on fewer
    tasks (Janssen 1997; Chung and Romano 2013). A choice that leaves a side without a task counts as extreme.

    Parameters
    ----------
    a, b : values, shape (pairs, tasks); what is not used may be NaN.
    used : which values count, for a and for b.
    layout : the stratum and the cluster of each task.
    flips : random choices, where not all are counted (they are up to 2^12).
    rng : their source.
    """
    (used_a, used_b) = used
    values = np.where(used_a, a, 0.0), np.where(used_b, b, 0.0)
    differ = ((values[0] != values[1]) | (used_a != used_b)).any(axis=0)
    moved = np.unique(layout.clusters[differ])
    n = len(moved)
    if not n:
        return SignFlip(1.0, True, 0)
    exact = n <= MOST_SWAPS
    if exact:
        choices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1
    else:
        choices = np.vstack([np.zeros(n, bool), random_signs(flips, n, rng) < 0])
    if len(a) == 1 and layout.n_clusters == len(layout.clusters):
        statistic = _by_sums(values, used, choices, moved, layout)
    else:
        swapped = np.zeros((len(choices), layout.n_clusters), bool)
        swapped[:, moved] = choices
        block = max(1, _BLOCK // a.size)
        found = [_by_tasks(values, used, swapped[i : i + block], layout) for i in range(0, len(swapped), block)]
        statistic = np.concatenate(found)
    hits = int((statistic >= statistic[0] * (1 - 1e-9)).sum())  # the first choice swaps nothing
    return SignFlip(hits / len(statistic), exact, n)


def _by_tasks(values: tuple[Array, Array], used: tuple[Mask, Mask], swapped: Mask, layout: Layout) -> Array:
    """|difference| over its standard error under each choice of clusters to swap, shape (choices,)."""
    swap = swapped[:, None, layout.clusters]  # (choices, 1, tasks)
    sides = [(np.where(swap, values[1 - i], values[i]), np.where(swap, used[1 - i], used[i])) for i in (0, 1)]
    (one, there_one), (two, there_two) = sides  # each (choices, pairs, tasks)
    drawn = parts(one, two, (there_one, there_two), layout)
    return _over_error(drawn.difference, (layout.by_cluster(drawn.influence) ** 2).sum(axis=-1))


def _by_sums(
    values: tuple[Array, Array], used: tuple[Mask, Mask], choices: Mask, moved: NDArray[np.intp], layout: Layout
) -> Array:
    """As `_by_tasks` for one pair and tasks that are clusters of their own, from sums within strata alone.

    `moved` are codes of the clusters that the columns of `choices` swap.
    """
    (a, b), (there_a, there_b) = (side[0] for side in values), (side[0].astype(float) for side in used)
    both = there_a * there_b
    columns = [(there_a, there_b), (a, b), (a**2, b**2), (both * a, both * b)]
    task = np.argsort(layout.clusters)[moved]
    in_stratum = np.zeros((len(a), layout.n_strata))
    in_stratum[np.arange(len(a)), layout.strata] = 1.0
    gain = np.concatenate([(two - one)[task, None] * in_stratum[task] for one, two in columns], axis=1)
    shift = (choices.astype(float) @ gain).reshape(len(choices), len(columns), layout.n_strata)
    (n, s, q, p), (m, t, r, o) = (
        [side[i] @ in_stratum + sign * shift[:, k] for k, side in enumerate(columns)]
        for i, sign in ((0, 1.0), (1, -1.0))
    )
    n, m = np.round(n), np.round(m)
    count, product = both @ in_stratum, (both * a * b) @ in_stratum
    with np.errstate(invalid="ignore", divide="ignore"):
        one, two = s / n, t / m
        together = product - one * o - two * p + count * one * two
        squares = (q - s * one) / n**2 + (r - t * two) / m**2 - 2 * together / (n * m)
        return _over_error((one - two).mean(axis=1), squares.sum(axis=1) / layout.n_strata**2)


def _over_error(difference: Array, squares: Array) -> Array:
    """Difference over the root of the squares: infinite without any, or where a side has no task; 0 without both."""
    size = np.round(np.abs(difference), 12)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(squares > 1e-15, size / np.sqrt(squares), np.where(size > 0, np.inf, 0.0))
    return np.where(np.isfinite(size), found, np.inf)


# -- many pairs at once -----------------------------------------------------------------------------------


class Simultaneous(NamedTuple):
    """Pairs judged together; all of shape (pairs,) but the last.

    Attributes
    ----------
    statistic : |sum| over the root of the sum of squares of its units, which no flip changes; NaN without a unit.
    p : corrected for all pairs (single-step max-T), never below 1 / (flips + 1).
    lo, hi : ends of intervals that hold together, in the unit of the sums; infinite where the data bound nothing.
    critical : the statistic from which on p is below 1 - ci_level; infinite where no statistic is.
    """

    statistic: Array
    p: Array
    lo: Array
    hi: Array
    critical: float


def max_t(units: Array, weights: Array, *, ci_level: float, flips: int, rng: np.random.Generator) -> Simultaneous:
    """Sign flips of many weighted means at once: p corrected for their number, and intervals that hold together.

    All pairs get the same signs, unit by unit, so that what hangs together stays together. A pair's statistic is its
    sum over the root of the sum of its squared units; that root is the same under all signs. The largest statistic of
    each draw is what every pair is held against. An interval holds the differences d at which the units less d times
    their weights would not pass the critical value, so that it leaves out 0 exactly when the corrected p is small.

    Parameters
    ----------
    units : what each unit adds to each pair's difference, shape (pairs, units); 0 where a pair does not have it.
    weights : the weight of each unit in each pair's mean; each line sums to 1; shape (pairs, units).
    ci_level : a fraction.
    flips, rng : number and source of the random signs.

    References
    ----------
    Westfall and Young, Resampling-Based Multiple Testing (1993); Romano and Wolf, Exact and approximate stepdown
    methods for multiple hypothesis testing (2005).
    """
    root = np.sqrt((units**2).sum(axis=1))
    sums = units.sum(axis=1)
    sums = np.where(np.abs(sums) < _SAME * np.abs(units).sum(axis=1), 0.0, sums)
    there = root > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = np.where(there, np.abs(sums) / root, np.where(weights.any(axis=1), 0.0, np.nan))
    largest = _largest(units[there] / root[there, None], flips, rng)
    ordered = np.sort(largest)
    at_least = flips - np.searchsorted(ordered, np.nan_to_num(statistic) * (1 - _SLACK), "left")
    p = np.where(np.isnan(statistic), np.nan, (at_least + 1) / (flips + 1))
    # So many draws must lie above for p to be too large: the critical value is the least statistic with a small p.
    allowed = int(np.ceil((1 - ci_level) * (flips + 1) - 1e-9)) - 2  # draws at least as large that p < alpha permits
    critical = float(ordered[flips - 1 - allowed]) / (1 - _SLACK) if 0 <= allowed < flips else np.inf
    lo, hi = _inverted(units, weights, sums, critical)
    return Simultaneous(statistic, p, lo, hi, critical)


def _largest(units: Array, flips: int, rng: np.random.Generator) -> Array:
    """The largest statistic over pairs of each draw, shape (flips,)."""
    out = np.zeros(flips)
    if not units.size:
        return out
    # Single precision: what is compared differs by far more than its rounding, or is a tie, for which there is slack.
    matrix = np.ascontiguousarray(units.T, dtype=np.float32)
    block = max(1, _BLOCK // matrix.shape[1])
    for start in range(0, flips, block):
        signs = random_signs(min(block, flips - start), len(matrix), rng).astype(np.float32)
        found = signs @ matrix
        out[start : start + len(signs)] = np.abs(found, out=found).max(axis=1)
    return out


def _inverted(units: Array, weights: Array, sums: Array, critical: float) -> tuple[Array, Array]:
    """Ends of {d : |sum - d| <= critical * root of the sum of (unit - d weight)^2}, a quadratic in d."""
    q = critical**2
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        second = 1 - q * (weights**2).sum(axis=1)
        first = sums - q * (units * weights).sum(axis=1)
        last = sums**2 - q * (units**2).sum(axis=1)
        half = np.sqrt(np.maximum(first**2 - second * last, 0.0))
        bounded = second > 1e-12
        lo, hi = (first - half) / second, (first + half) / second
    return np.where(bounded, lo, -np.inf), np.where(bounded, hi, np.inf)
