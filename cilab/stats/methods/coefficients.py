"""Coefficients of agreement: Cohen, Fleiss, Krippendorff, raw agreement, majority. Undefined where they do not exist.

May import `cilab.core`, `cilab.stats.methods.distributions` and `cilab.stats.methods.ratings`. Every coefficient is
written for many resamples at once (rows are resamples, columns patterns of ratings), so that the estimate and its
interval come from the same lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.stats.methods.distributions import normal_two_sided
from cilab.stats.methods.ratings import (
    Agreement,
    Patterns,
    Ratings,
    as_agreement,
    bounded,
    column_of,
    estimate,
    is_missing,
    rows_of,
)

Level = Literal["nominal", "ordinal", "interval", "ratio"]
_LEVELS = ("nominal", "ordinal", "interval", "ratio")


# -- nominal ratings --------------------------------------------------------------------------------------


def raw_agreement(
    ratings: Any,
    *,
    resamples: int = 0,
    seed: int = 0,
    ci_level: float = CI_LEVEL,
    groups: Sequence[Any] | None = None,
    times: Sequence[int] | None = None,
) -> Agreement:
    """Mean share of pairs of raters that agree, over subjects with at least two ratings.

    Parameters
    ----------
    ratings : subjects x raters: nested sequences, numpy array, polars or pandas DataFrame. Values are labels or
        numbers; None and NaN are missing.
    resamples : bootstrap resamples of the subjects for the interval; 0 for no interval.
    groups : label of each subject; then whole groups are drawn (messages of one rollout depend on each other).
    times : how often each row of `ratings` occurs; once by default.

    Returns
    -------
    Agreement
        `detail["all_agree"]` is the share of subjects on which all raters agree. Where the share does not vary (all
        agree on all), the interval is exact: Clopper and Pearson's for n of n.
    """
    table = Ratings.read(ratings)
    p, left_out = table.patterns(least=2, groups=groups, times=times)
    if p is None:
        return Agreement("raw agreement", None, n_raters=table.raters, n_left_out=left_out, reason="no rated subject")
    share = pair_shares(p.counts_by_category(len(table.values)))
    value, boot = estimate(p, lambda c: _over(c @ share, c.sum(1)), resamples, seed, ci_level)
    boot = boot if value is None else bounded(value, boot)
    all_agree = float((p.n * (share == 1)).sum() / p.n.sum())
    return as_agreement("raw agreement", value, boot, p, table, left_out, value, None, {"all_agree": all_agree})


def cohen_kappa(
    a: Any,
    b: Any,
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    categories: Sequence[Any] | None = None,
    resamples: int = 0,
    seed: int = 0,
    ci_level: float = CI_LEVEL,
    groups: Sequence[Any] | None = None,
    times: Sequence[int] | None = None,
) -> Agreement:
    """Cohen's kappa of two raters.

    Parameters
    ----------
    a, b : ratings of the same subjects in the same order; None and NaN are missing, and a subject with a missing
        rating is left out and counted.
    weights : None for unweighted; `linear` or `quadratic` disagreement weights by the distance in `categories`.
    categories : the categories in order. Needed for weights on labels that are not numbers; numbers sort themselves.
    resamples, groups, times : as in `raw_agreement`.

    Returns
    -------
    Agreement
        Undefined, with raw agreement 1, where both raters use one and the same category only. Unweighted, `detail`
        has `z` and `p` against kappa = 0 (Fleiss, Cohen and Everitt 1969). Where the raters agree on everything kappa
        is 1 without an interval, and `detail["raw_lo"]` and `reason` say how low raw agreement may be.

    Raises
    ------
    TableError
        Lengths differ, a rating is not in `categories`, or weights are asked for labels without an order.

    Examples
    --------
    >>> cohen_kappa([1, 1, 2, 2], [1, 1, 2, 1]).value
    0.5
    >>> cohen_kappa(["yes"] * 3, ["yes"] * 3).reason
    'both raters use one category only: agreement by chance is certain'
    """
    first, second = column_of("a", a), column_of("b", b)
    if len(first) != len(second):
        raise TableError(f"a and b rate the same subjects; they have {len(first)} and {len(second)} ratings")
    if weights not in (None, "linear", "quadratic"):
        raise TableError(f"weights is {weights!r}, not one of None, linear, quadratic")
    table = Ratings.read(list(zip(first, second, strict=True)), categories)
    if weights and categories is None and not table.numeric:
        raise TableError("weights need an order of the categories: give categories=[...] from low to high")
    p, left_out = table.patterns(least=2, groups=groups, times=times)
    method = f"Cohen's kappa{f', {weights} weights' if weights else ''}"
    if p is None:
        return Agreement(method, None, n_left_out=left_out, reason="no subject rated by both")
    k = len(table.values)
    cost = _costs(k, weights)
    value, boot = estimate(p, lambda c: _cohen(c, p.codes, cost, k), resamples, seed, ci_level)
    raw = float((p.n * (p.codes[:, 0] == p.codes[:, 1])).sum() / p.n.sum())
    reason = None if value is not None else "both raters use one category only: agreement by chance is certain"
    detail = {} if weights or value is None else _cohen_z(p, k, value)
    return as_agreement(method, value, boot, p, table, left_out, raw, reason, detail)


def fleiss_kappa(
    ratings: Any, *, counts: bool | None = None, resamples: int = 0, seed: int = 0, ci_level: float = CI_LEVEL
) -> Agreement:
    """Fleiss' kappa of any number of raters, the same number for every subject.

    Parameters
    ----------
    ratings : subjects x raters, as in `raw_agreement`; a subject with a missing rating is left out and counted. With
        `counts=True`, subjects x categories: how many raters chose each.
    counts : what the table holds. None takes ratings and refuses what looks like counts: whole numbers whose rows all
        add up to the same number of raters. False takes ratings whatever they look like.
    resamples : bootstrap resamples of the subjects; 0 for no interval.

    Returns
    -------
    Agreement
        Undefined, with raw agreement 1, where one category only is in use. `detail` has `z` and `p` against 0
        (Fleiss, Nee and Landis 1979).

    Raises
    ------
    TableError
        Counts given as ratings, ratings given as counts, or counts with unequal numbers of raters.

    Examples
    --------
    >>> round(fleiss_kappa([["a", "a", "b"], ["b", "b", "b"], ["a", "a", "a"]]).value, 4)
    0.55
    """
    if counts:
        ratings = _from_counts(ratings)
    table = Ratings.read(ratings)
    if table.raters < 2:
        raise TableError(f"ratings have {table.raters} column: kappa needs two raters or more")
    if counts is None:
        _refuse_counts(table)
    p, left_out = table.patterns(least=table.raters)
    if p is None:
        reason = "no subject rated by all raters"
        return Agreement("Fleiss' kappa", None, n_raters=table.raters, n_left_out=left_out, reason=reason)
    by_category = p.counts_by_category(len(table.values))
    value, boot = estimate(p, lambda c: _fleiss(c, by_category, table.raters), resamples, seed, ci_level)
    raw = float((p.n * pair_shares(by_category)).sum() / p.n.sum())
    reason = None if value is not None else "one category only: agreement by chance is certain"
    detail = {} if value is None else _fleiss_z(p.n @ by_category, int(p.n.sum()), table.raters, value)
    return as_agreement("Fleiss' kappa", value, boot, p, table, left_out, raw, reason, detail)


def krippendorff(
    ratings: Any,
    *,
    level: Level = "nominal",
    categories: Sequence[Any] | None = None,
    resamples: int = 0,
    seed: int = 0,
    ci_level: float = CI_LEVEL,
    groups: Sequence[Any] | None = None,
    times: Sequence[int] | None = None,
) -> Agreement:
    """Krippendorff's alpha; any number of raters, ratings may be missing.

    Parameters
    ----------
    ratings : subjects x raters, as in `raw_agreement`; subjects with fewer than two ratings are left out and counted.
    level : `nominal`, `ordinal`, `interval` or `ratio`. The last two take numbers.
    categories : for `ordinal` labels that are not numbers: all of them, from low to high.
    resamples, groups, times : as in `raw_agreement`.

    Returns
    -------
    Agreement
        Undefined, with raw agreement 1, where one value only is in use.

    Raises
    ------
    TableError
        Values do not fit the level (text as numbers, a negative ratio), or the level is not known.

    References
    ----------
    Krippendorff, Content Analysis, chapter on reliability: alpha = 1 - observed / expected disagreement over the
    pairable values. (R's irr 0.84.1 divides by 1 where it should divide by m - 1.)

    Examples
    --------
    >>> round(krippendorff([[1, 1], [2, 2], [3, 4]], level="interval").value, 4)
    0.878
    """
    if level not in _LEVELS:
        raise TableError(f"level is {level!r}, not one of {', '.join(_LEVELS)}.{nearest(str(level), _LEVELS)}")
    table = Ratings.read(ratings, categories)
    numbers = _scale(table, level, categories)
    p, left_out = table.patterns(least=2, groups=groups, times=times)
    method = f"Krippendorff's alpha, {level}"
    if p is None:
        reason = "no subject with two ratings"
        return Agreement(method, None, n_raters=table.raters, n_left_out=left_out, reason=reason)
    by_category = p.counts_by_category(len(table.values)).astype(float)
    value, boot = estimate(p, lambda c: _alpha(c, by_category, level, numbers), resamples, seed, ci_level)
    raw = float((p.n * pair_shares(by_category)).sum() / p.n.sum())
    reason = None if value is not None else "one value only: no disagreement is expected"
    return as_agreement(method, value, boot, p, table, left_out, raw, reason, {})


def majority_label(ratings: Any) -> list[Any]:
    """The label that most raters of a subject chose; None where there is a tie or no rating."""
    out = []
    for row in rows_of(ratings):
        given = [v for v in row if not is_missing(v)]
        counts = sorted(((given.count(v), i) for i, v in enumerate(given) if given.index(v) == i), reverse=True)
        tie = not counts or (len(counts) > 1 and counts[0][0] == counts[1][0])
        out.append(None if tie else given[counts[0][1]])
    return out


def majority_vs_reference(
    ratings: Any, reference: Any, *, resamples: int = 2000, seed: int = 0, ci_level: float = CI_LEVEL
) -> dict[str, Agreement]:
    """The raters' majority against a reference: `raw` (raw agreement) and `kappa` (Cohen's), with intervals.

    Subjects without a majority are left out and counted in `n_left_out`.
    """
    majority, other = majority_label(ratings), column_of("reference", reference)
    if len(majority) != len(other):
        raise TableError(f"reference has {len(other)} ratings for {len(majority)} subjects")
    how = {"resamples": resamples, "seed": seed, "ci_level": ci_level}
    return {
        "raw": raw_agreement(list(zip(majority, other, strict=True)), **how),
        "kappa": cohen_kappa(majority, other, **how),
    }


# -- the coefficients, on many counts at once (resamples x patterns) --------------------------------------


def _over(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient, NaN where the divisor is 0 up to rounding."""
    safe = np.where(np.abs(below) > 1e-12, below, 1.0)
    return np.where(np.abs(below) > 1e-12, above / safe, np.nan)


def pair_shares(by_category: np.ndarray) -> np.ndarray:
    """Per pattern, the share of pairs of ratings that agree."""
    m = by_category.sum(1)
    return (by_category * (by_category - 1)).sum(1) / (m * (m - 1))


def _costs(k: int, weights: str | None) -> np.ndarray | None:
    """Disagreement between positions i and j: 0 on the diagonal, 1 at the far corner. None for unweighted kappa."""
    if weights is None:
        return None
    # Equally spaced as the categories stand, whatever numbers name them.
    at = np.arange(k, dtype=float)
    far = np.abs(at[:, None] - at[None, :]) / max(1, k - 1)
    return far if weights == "linear" else far**2


def _one_hot(codes: np.ndarray, k: int) -> Any:
    """Patterns x values, sparse: with the labels of hundreds of tasks a dense one would be mostly zeros."""
    from scipy import sparse

    return sparse.csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), shape=(len(codes), k))


def _margins(counts: np.ndarray, codes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of each value by the first and by the second rater."""
    total = counts.sum(1)[:, None]
    first, second = (counts @ _one_hot(codes[:, side], k) / total for side in (0, 1))
    return first, second


def _cohen(counts: np.ndarray, codes: np.ndarray, cost: np.ndarray | None, k: int) -> np.ndarray:
    """Kappa = 1 - observed / expected disagreement; `cost` None is that of unweighted kappa."""
    total = counts.sum(1)
    rows, cols = _margins(counts, codes, k)
    if cost is None:
        observed = counts @ (codes[:, 0] != codes[:, 1]) / total
        expected = 1 - (rows * cols).sum(1)
    else:
        observed = counts @ cost[codes[:, 0], codes[:, 1]] / total
        expected = ((rows @ cost) * cols).sum(1)
    return 1 - _over(observed, expected)


def _cohen_z(p: Patterns, k: int, kappa: float) -> dict[str, float | None]:
    n = p.n.sum()
    rows, cols = (share[0] for share in _margins(p.n[None, :], p.codes, k))
    chance = float(rows @ cols)
    variance = (chance + chance**2 - float((rows * cols * (rows + cols)).sum())) / (n * (1 - chance) ** 2)
    if variance <= 0:
        return {"z": None, "p": None}
    z = float(kappa / math.sqrt(variance))
    return {"z": z, "p": normal_two_sided(z)}


def _fleiss(counts: np.ndarray, by_category: np.ndarray, raters: int) -> np.ndarray:
    subjects = counts.sum(1)
    observed = counts @ pair_shares(by_category) / subjects
    shares = counts @ by_category / (subjects * raters)[:, None]
    chance = (shares**2).sum(1)
    return _over(observed - chance, 1 - chance)


def _fleiss_z(totals: np.ndarray, subjects: int, raters: int, kappa: float) -> dict[str, float | None]:
    p = totals / (subjects * raters)
    q = 1 - p
    base = float((p * q).sum())
    spread = base**2 - float((p * q * (q - p)).sum())
    if spread <= 0:
        return {"z": None, "p": None}
    z = kappa / (math.sqrt(2 * spread) / (base * math.sqrt(subjects * raters * (raters - 1))))
    return {"z": z, "p": normal_two_sided(z)}


def _alpha(counts: np.ndarray, by_category: np.ndarray, level: str, numbers: np.ndarray | None) -> np.ndarray:
    m = by_category.sum(1)
    margins = counts @ by_category
    n = margins.sum(1)
    if level == "nominal":
        observed = counts @ ((m**2 - (by_category**2).sum(1)) / (m - 1))
        expected = n**2 - (margins**2).sum(1)
    elif level == "ratio":
        delta = _ratio_distance(numbers)
        observed = counts @ (((by_category @ delta) * by_category).sum(1) / (m - 1))
        expected = ((margins @ delta) * margins).sum(1)
    else:
        # The ordinal distance is the interval distance between middle ranks, which depend on the resample.
        at = np.broadcast_to(numbers, margins.shape) if level == "interval" else margins.cumsum(1) - margins / 2
        at = at - _over((margins * at).sum(1), n)[:, None]
        inside = 2 * (m * (at**2 @ by_category.T) - (at @ by_category.T) ** 2) / (m - 1)
        observed = (counts * inside).sum(1)
        expected = 2 * n * (margins * at**2).sum(1)
    scale = np.where(expected > 1e-12 * n**2 * _spread(numbers, level, n), expected, 0)
    return 1 - (n - 1) * _over_or_nan(observed, scale)


def _over_or_nan(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _spread(numbers: np.ndarray | None, level: str, n: np.ndarray) -> Any:
    """Squared size of the scale, against which rounding is judged."""
    if level == "interval" and numbers is not None:
        return max(1e-300, float(np.ptp(numbers)) ** 2)
    return n**2 if level == "ordinal" else 1.0


def _ratio_distance(numbers: np.ndarray) -> np.ndarray:
    total = numbers[:, None] + numbers[None, :]
    return np.where(total > 0, (numbers[:, None] - numbers[None, :]) / np.where(total > 0, total, 1.0), 0.0) ** 2


def _scale(table: Ratings, level: str, categories: Sequence[Any] | None) -> np.ndarray | None:
    if level == "nominal":
        return None
    if level == "ordinal":
        if categories is None and not table.numeric:
            raise TableError("ordinal needs an order of the labels: give categories=[...] from low to high")
        return None
    if not table.numeric:
        raise TableError(f"level {level} takes numbers; these ratings are labels")
    numbers = np.asarray(table.values, dtype=float)
    if level == "ratio" and (numbers < 0).any():
        raise TableError("level ratio takes numbers from 0 on; use interval where values may be negative")
    return numbers - numbers.mean() if level == "interval" and numbers.size else numbers


# -- counts or ratings -------------------------------------------------------------------------------------


def _from_counts(table: Any) -> list[list[int]]:
    """Ratings (category numbers) from subjects x categories counts."""
    rows = rows_of(table)
    for row in rows:
        if any(isinstance(v, (str, bool)) or is_missing(v) or v < 0 or v != int(v) for v in row):
            raise TableError("counts must be whole numbers from 0 on; these look like ratings (leave counts=True out)")
    sizes = sorted({int(sum(row)) for row in rows})
    if len(sizes) > 1:
        raise TableError(
            f"counts: between {sizes[0]} and {sizes[-1]} raters a subject; Fleiss' kappa needs the same number. If "
            "these are ratings, leave counts=True out; else use krippendorff, which takes missing ratings"
        )
    return [[i for i, count in enumerate(row) for _ in range(int(count))] for row in rows]


def _refuse_counts(table: Ratings) -> None:
    """Counts given as ratings: rows of whole numbers that all add up to the same number of raters."""
    values = table.values
    whole = table.numeric and all(
        not isinstance(v, (bool, np.bool_)) and v >= 0 and float(v).is_integer() for v in values
    )
    if not whole or len(table.codes) < 3 or (table.codes < 0).any() or len(values) < 2:
        return
    sums = np.asarray(values, dtype=float)[table.codes].sum(1)
    # Zeros and ones alone are left to pass: raters who always split alike give such rows, and kappa is theirs.
    if (sums == sums[0]).all() and max(values) >= 2 and min(values) == 0:
        raise TableError(
            f"every row adds up to {sums[0]:.0f}: these look like counts per category; pass counts=True, or "
            "counts=False if they are ratings"
        )
