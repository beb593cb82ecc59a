"""Ratings as the coefficients of agreement read them, and one bootstrap for all of them.

May import `cilab.core` and the rule of uncertainty. Subjects rated alike are one pattern with a count:
drawing patterns is the same draw as drawing subjects and far quicker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from cilab.core.errors import TableError
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import check_all as check
from cilab.stats.methods.bootstrap import MOST_UNDEFINED
from cilab.stats.methods.distributions import share_interval
from cilab.stats.methods.uncertainty import LEAST_UNITS, NO_SPREAD, too_few

#: Replicates per matrix product, so that memory stays bounded.
_CHUNK = 500
#: Subjects drawn at once, for the same reason.
_MOST_DRAWN = 2_000_000
#: A narrower interval is none: only rounding tells its ends apart.
_FLAT = 1e-12


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient of agreement.

    Attributes
    ----------
    method : its full name, with weights, level of measurement or form.
    value : the coefficient; None where it is undefined.
    lo, hi : bounds of its interval at `ci_level`; None where none was asked for or none exists.
    ci_level : a fraction.
    n_subjects : subjects that entered.
    n_raters : columns of ratings.
    n_left_out : reason -> number of subjects left out.
    raw : raw agreement, a fraction: over the subjects that entered, the mean share of pairs of raters that agree.
        None for the intraclass correlation.
    reason : why `value` or the interval is undefined; None where both are there.
    resamples, share_undefined : of the bootstrap; 0 and None without one.
    detail : further numbers by name (z, p, F, degrees of freedom, ...). Where all raters agree, `raw_lo` is the lower
        end of raw agreement by Clopper and Pearson: what n of n says where no coefficient has an interval.
    """

    method: str
    value: float | None
    lo: float | None = None
    hi: float | None = None
    ci_level: float = CI_LEVEL
    n_subjects: int = 0
    n_raters: int = 2
    n_left_out: Mapping[str, int] = field(default_factory=dict)
    raw: float | None = None
    reason: str | None = None
    resamples: int = 0
    share_undefined: float | None = None
    detail: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def defined(self) -> bool:
        """Whether there is a coefficient."""
        return self.value is not None


# -- patterns of ratings, and the bootstrap over them -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Patterns:
    """Distinct rows of ratings with how often they occur.

    `codes` (patterns x raters) holds positions among the values, -1 where missing; `groups` (groups x patterns, sparse)
    how often each pattern occurs in each group, or None.
    """

    codes: np.ndarray
    n: np.ndarray
    groups: Any = None

    def counts_by_category(self, k: int) -> np.ndarray:
        """Patterns x values: how many raters gave each value."""
        out = np.zeros((len(self.n), k), dtype=np.int64)
        for column in self.codes.T:
            there = column >= 0
            np.add.at(out, (np.flatnonzero(there), column[there]), 1)
        return out


@dataclass(frozen=True, slots=True)
class Ratings:
    """A table of ratings: its distinct values in order, and their positions."""

    codes: np.ndarray
    values: list[Any]
    numeric: bool

    @property
    def raters(self) -> int:
        """Number of columns."""
        return self.codes.shape[1]

    @classmethod
    def read(cls, ratings: Any, categories: Sequence[Any] | None = None) -> Ratings:
        """From any table; the values in `categories`' order, else sorted."""
        rows = rows_of(ratings)
        seen = {v for row in rows for v in row if not is_missing(v)}
        numeric = all(isinstance(v, (int, float, np.number)) for v in seen)
        if categories is None:
            values = sorted(seen) if numeric else sorted(seen, key=lambda v: (str(type(v)), str(v)))
        else:
            values = list(dict.fromkeys(categories))
            if stray := sorted(map(str, seen - set(values))):
                raise TableError(f"a rating is {stray[0]!r}, which is not among the categories")
        place = {v: i for i, v in enumerate(values)}
        codes = [[-1 if is_missing(v) else place[v] for v in row] for row in rows]
        width = len(rows[0]) if rows else 0
        return cls(np.asarray(codes, dtype=np.int64).reshape(len(rows), width), values, numeric)

    def patterns(
        self, least: int, groups: Sequence[Any] | None = None, times: Sequence[int] | None = None
    ) -> tuple[Patterns | None, dict[str, int]]:
        """Distinct rows with at least `least` ratings, and what was left out.

        `times` says how often each row occurs; once where it is None.
        """
        often = _occurrences(times, len(self.codes))
        keep = (self.codes >= 0).sum(1) >= least
        lost = int(often[~keep].sum())
        words = "with a missing rating" if least == self.raters else "with fewer than two ratings"
        left_out = {words: lost} if lost else {}
        if groups is not None and len(groups) != len(keep):
            raise TableError(f"groups has {len(groups)} labels for {len(keep)} subjects")
        if not keep.any():
            return None, left_out
        codes, where = np.unique(self.codes[keep], axis=0, return_inverse=True)
        where, often = where.ravel(), often[keep]
        n = np.bincount(where, weights=often).astype(np.int64)
        if groups is None:
            return Patterns(codes, n), left_out
        labels = [g for g, used in zip(groups, keep, strict=True) if used]
        return Patterns(codes, n, _group_counts(labels, where, often, len(n))), left_out


def _occurrences(times: Sequence[int] | None, rows: int) -> np.ndarray:
    if times is None:
        return np.ones(rows, dtype=np.int64)
    out = np.asarray(list(times))
    if out.shape != (rows,) or out.dtype.kind not in "iu" or (out < 1).any():
        raise TableError(f"times must hold one whole number from 1 on for each of the {rows} subjects")
    return out


def _group_counts(labels: Sequence[Any], where: np.ndarray, often: np.ndarray, patterns: int) -> Any:
    """Groups x patterns, sparse."""
    from scipy import sparse

    if any(map(is_missing, labels)):
        raise TableError("groups has a missing label: every subject needs one")
    place = {g: i for i, g in enumerate(dict.fromkeys(labels))}
    row = np.array([place[g] for g in labels])
    return sparse.csr_array((often.astype(float), (row, where)), shape=(len(place), patterns))


def _draws(p: Patterns, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Counts of each pattern in resample after resample, in chunks (resamples x patterns)."""
    rng = np.random.default_rng(seed)
    total, kinds = int(p.n.sum()), len(p.n)
    # A multinomial draw costs about as much per pattern as some ten drawn subjects.
    subjects = np.repeat(np.arange(kinds), p.n) if total < 10 * kinds else None
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        if p.groups is not None:
            g = p.groups.shape[0]
            yield _counted(rng.integers(g, size=(size, g)), g) @ p.groups
        elif subjects is not None:
            step = max(1, _MOST_DRAWN // total)
            sizes = [min(step, size - done) for done in range(0, size, step)]
            yield np.concatenate([_counted(subjects[rng.integers(total, size=(n, total))], kinds) for n in sizes])
        else:
            yield rng.multinomial(total, p.n / total, size=size)


def _counted(drawn: np.ndarray, k: int) -> np.ndarray:
    """How often each of 0 to k - 1 stands in each row."""
    rows = len(drawn)
    return np.bincount((drawn + k * np.arange(rows)[:, None]).ravel(), minlength=rows * k).reshape(rows, k)


@dataclass(frozen=True, slots=True)
class Boot:
    """A percentile interval, the share of resamples in which the statistic was undefined, and why there is none.

    `n_units` is how many subjects, or groups of them, were drawn; `flat` whether every resample gave the same value.
    """

    lo: float | None
    hi: float | None
    resamples: int
    share_undefined: float | None
    ci_level: float
    n_units: int = 0
    reason: str | None = None
    flat: bool = False


def estimate(
    p: Patterns, statistic: Callable[[np.ndarray], np.ndarray], resamples: int, seed: int, ci_level: float
) -> tuple[float | None, Boot]:
    """The statistic on the patterns' counts, and its percentile interval from draws of the subjects."""
    check(ci_level=ci_level, seed=seed)
    level = float(ci_level)
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 0:
        raise TableError(f"resamples is {resamples!r}: give a whole number from 0 on")
    value = float(statistic(p.n[None, :].astype(float))[0])
    value_or_none = None if math.isnan(value) else value
    units = int(p.n.sum()) if p.groups is None else p.groups.shape[0]
    if resamples == 0 or value_or_none is None:
        return value_or_none, Boot(None, None, 0, None, level, units)
    if units < LEAST_UNITS:
        reason = too_few(units, "subject" if p.groups is None else "group")
        return value_or_none, Boot(None, None, resamples, None, level, units, reason)
    draws = np.concatenate([statistic(counts.astype(float)) for counts in _draws(p, resamples, seed)])
    undefined = float(np.isnan(draws).mean())
    if undefined > MOST_UNDEFINED:
        reason = f"undefined in {100 * undefined:.0f}% of the resamples: no interval"
        return value_or_none, Boot(None, None, resamples, undefined, level, units, reason)
    lo, hi = np.quantile(draws[~np.isnan(draws)], [0.5 - level / 2, 0.5 + level / 2])
    if hi - lo < _FLAT:
        return value_or_none, Boot(None, None, resamples, undefined, level, units, NO_SPREAD, flat=True)
    return value_or_none, Boot(float(lo), float(hi), resamples, undefined, level, units)


def bounded(value: float, boot: Boot) -> Boot:
    """`boot` with an exact interval where a mean of numbers from 0 to 1 was the same in every resample.

    All n units have the value. By Clopper and Pearson a share of up to 1 - (alpha / 2)^(1 / n) of the population may
    have others, which lie between 0 and 1.
    """
    if not boot.flat:
        return boot
    others = share_interval(0, boot.n_units, boot.ci_level)[1]
    lo = value * (1 - others)
    return replace(boot, lo=lo, hi=lo + others, reason=None)


def as_agreement(
    method: str,
    value: float | None,
    boot: Boot,
    p: Patterns,
    table: Ratings,
    left_out: Mapping[str, int],
    raw: float | None,
    reason: str | None,
    detail: Mapping[str, float | None],
) -> Agreement:
    """The parts of a result put together."""
    reason, detail = reason or boot.reason, dict(detail)
    if raw == 1 and boot.lo is None and boot.n_units:
        detail["raw_lo"] = lowest = share_interval(boot.n_units, boot.n_units, boot.ci_level)[0]
        if boot.reason:
            why = f"agreement on all {boot.n_units}: no interval" if boot.flat else boot.reason
            reason = f"{why}; raw agreement is at least {lowest:.0%}"
    return Agreement(
        method=method,
        value=value,
        lo=boot.lo,
        hi=boot.hi,
        ci_level=boot.ci_level,
        n_subjects=int(p.n.sum()),
        n_raters=table.raters,
        n_left_out=dict(left_out),
        raw=raw,
        reason=reason,
        resamples=boot.resamples,
        share_undefined=boot.share_undefined,
        detail=detail,
    )


# -- reading ratings --------------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """None or NaN."""
    return value is None or (isinstance(value, (float, np.floating)) and math.isnan(value))


def rows_of(ratings: Any) -> list[tuple[Any, ...]]:
    """Rows of a table of ratings, all of one length."""
    if isinstance(ratings, pl.DataFrame):
        return ratings.rows()
    if type(ratings).__module__.partition(".")[0] == "pandas":
        ratings = ratings.astype(object).to_numpy()
    try:
        ratings = list(ratings)
        rows = [tuple(v if type(v) in _PLAIN else _plain(v) for v in row) for row in ratings]
    except TypeError:
        raise TableError("ratings must be a table: one row per subject, one column per rater") from None
    if any(isinstance(row, str) for row in ratings) or len({len(row) for row in rows}) > 1:
        raise TableError("ratings must be a table: one row per subject, one column per rater, all rows of one length")
    return rows


_PLAIN = {bool, int, float, str, type(None)}


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's, and pandas' own missing values as None."""
    if isinstance(value, np.generic):
        return value.item()
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def column_of(name: str, values: Any) -> list[Any]:
    """One rater's ratings as a list of plain values; `name` is what errors call them."""
    if isinstance(values, str):
        raise TableError(f"{name} must be a sequence of ratings, not a text")
    if isinstance(values, pl.Series):
        return values.to_list()
    try:
        return [row[0] for row in rows_of([(v,) for v in values])]
    except TypeError:
        raise TableError(f"{name} must be a sequence of ratings") from None
