"""Intraclass correlations: six forms with the intervals of McGraw and Wong.

May import `cilab.core`, `cilab.stats.methods.distributions` and `cilab.stats.methods.ratings`. Takes complete tables
only: a missing rating is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cilab.core.errors import TableError, nearest
from cilab.core.options import CI_LEVEL
from cilab.results.arguments import checked_level
from cilab.stats.methods.distributions import f_quantile, f_upper
from cilab.stats.methods.ratings import Agreement, rows_of

#: The six forms in McGraw and Wong's notation: one-way, two-way consistency, two-way absolute agreement; single, mean.
ICC_FORMS = ("ICC(1)", "ICC(k)", "ICC(C,1)", "ICC(C,k)", "ICC(A,1)", "ICC(A,k)")
_NO_DIFFERENCE = "subjects do not differ by more than the ratings' noise: no correlation exists"
_NO_NOISE = "the raters do not differ by more than the form allows for: no interval"
_FORM_WORDS = {
    "ICC(1)": "one-way random, single rating",
    "ICC(k)": "one-way random, mean of k ratings",
    "ICC(C,1)": "two-way, consistency, single rating",
    "ICC(C,k)": "two-way, consistency, mean of k ratings",
    "ICC(A,1)": "two-way, absolute agreement, single rating",
    "ICC(A,k)": "two-way, absolute agreement, mean of k ratings",
}


def icc(ratings: Any, *, form: str = "ICC(A,1)", ci_level: float = CI_LEVEL) -> Agreement:
    """Intraclass correlation with the intervals of McGraw and Wong (1996).

    Parameters
    ----------
    ratings : subjects x raters, numbers, complete.
    form : one of `ICC_FORMS`. ICC(1), ICC(C,1), ICC(A,1) are Shrout and Fleiss' ICC(1,1), ICC(3,1), ICC(2,1).
    ci_level : a fraction.

    Returns
    -------
    Agreement
        `detail` has `F`, `df1`, `df2`, `p` (against no correlation) and the mean squares `ms_subjects`, `ms_raters`,
        `ms_error`. Where all raters give the same number for every subject, and subjects differ, the value is 1 and
        has no interval: nothing varies that it could be told from. Undefined where subjects do not differ.

    Raises
    ------
    TableError
        A rating is missing or not a number, or the form is not known.

    Examples
    --------
    >>> round(icc([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]).value, 2)
    0.29
    """
    if form not in ICC_FORMS:
        raise TableError(f"form is {form!r}, not one of {', '.join(ICC_FORMS)}.{nearest(str(form), ICC_FORMS)}")
    return _icc(_Squares.of(_complete(ratings)), form, checked_level(ci_level))


def icc_forms(ratings: Any, *, ci_level: float = CI_LEVEL) -> dict[str, Agreement]:
    """All six forms of `icc` by name."""
    squares = _Squares.of(_complete(ratings))
    return {form: _icc(squares, form, checked_level(ci_level)) for form in ICC_FORMS}


@dataclass(frozen=True, slots=True)
class _Squares:
    """Mean squares of an analysis of variance, subjects by raters."""

    n: int
    k: int
    subjects: float
    raters: float
    error: float
    within: float

    @classmethod
    def of(cls, x: np.ndarray) -> _Squares:
        n, k = x.shape
        if n < 2 or k < 2:
            raise TableError(f"ratings are {n} x {k}: an intraclass correlation needs 2 subjects and 2 raters or more")
        # What rounding leaves of a sum that is 0 must not become a variance.
        dust = 1e-24 * max(1e-300, float((x**2).sum())) * n * k
        x = x - x.mean()
        rows, cols = x.mean(1), x.mean(0)
        rest = x - rows[:, None] - cols[None, :]
        ss = [k * float((rows**2).sum()), n * float((cols**2).sum()), float((rest**2).sum())]
        r, c, e = (0.0 if s <= dust else s for s in ss)
        return cls(n, k, r / (n - 1), c / (k - 1), e / ((n - 1) * (k - 1)), (c + e) / (n * (k - 1)))


def _icc(s: _Squares, form: str, level: float) -> Agreement:
    method = f"{form}: {_FORM_WORDS[form]}"
    common: dict[str, Any] = {"method": method, "ci_level": level, "n_subjects": s.n, "n_raters": s.k}
    noise = s.within if form in ("ICC(1)", "ICC(k)") else s.error
    df2 = s.n * (s.k - 1) if form in ("ICC(1)", "ICC(k)") else (s.n - 1) * (s.k - 1)
    detail = {"F": None, "df1": float(s.n - 1), "df2": float(df2), "p": None}
    detail |= {"ms_subjects": s.subjects, "ms_raters": s.raters, "ms_error": s.error}
    single = _icc_single(s, form)
    if s.subjects == 0 or single is None:
        return Agreement(value=None, reason=_NO_DIFFERENCE, detail=detail, **common)
    if noise > 0:
        f = s.subjects / noise
        detail |= {"F": f, "p": f_upper(f, s.n - 1, df2)}
    average = form.endswith("k)")
    value = _icc_average(s, form) if average else single
    if value is None:
        return Agreement(value=None, reason=_NO_DIFFERENCE, detail=detail, **common)
    if noise == 0 and (s.raters == 0 or not form.startswith("ICC(A")):
        return Agreement(value=value, reason=_NO_NOISE, detail=detail, **common)
    lo, hi = _icc_interval(s, form, single, level, noise)
    reason = None
    if average:
        lo, hi = (_spearman_brown(v, s.k) for v in (lo, hi))
        reason = "the interval of the mean rating has no finite end" if lo is None or hi is None else None
    return Agreement(value=value, lo=lo, hi=hi, reason=reason, detail=detail, **common)


def _icc_single(s: _Squares, form: str) -> float | None:
    if form.startswith("ICC(A"):
        return _share(s, s.error, s.subjects + (s.k - 1) * s.error + s.k * (s.raters - s.error) / s.n)
    noise = s.error if form.startswith("ICC(C") else s.within
    return _share(s, noise, s.subjects + (s.k - 1) * noise)


def _icc_average(s: _Squares, form: str) -> float | None:
    if form.startswith("ICC(A"):
        return _share(s, s.error, s.subjects + (s.raters - s.error) / s.n)
    return _share(s, s.error if form.startswith("ICC(C") else s.within, s.subjects)


def _share(s: _Squares, noise: float, total: float) -> float | None:
    """The coefficient, or None where the variance that it is a share of is not positive."""
    return (s.subjects - noise) / total if total > 1e-10 * (s.subjects + s.raters + s.error) else None


def _icc_interval(s: _Squares, form: str, single: float, level: float, noise: float) -> tuple[float, float]:
    """Bounds of the single-rating form."""
    upper = 0.5 + level / 2
    n, k = s.n, s.k
    if not form.startswith("ICC(A"):
        df2 = n * (k - 1) if form in ("ICC(1)", "ICC(k)") else (n - 1) * (k - 1)
        f = s.subjects / noise
        low = f / f_quantile(upper, n - 1, df2)
        high = f * f_quantile(upper, df2, n - 1)
        return (low - 1) / (low + k - 1), (high - 1) / (high + k - 1)
    # Satterthwaite's degrees of freedom, with a and b divided by their common 1 / (1 - rho), which cancels.
    a, b = k * single / n, 1 - single + k * single * (n - 1) / n
    v = (a * s.raters + b * s.error) ** 2 / (
        (a * s.raters) ** 2 / (k - 1) + (b * s.error) ** 2 / ((n - 1) * (k - 1))
    )  # fmt: skip
    f_low, f_high = f_quantile(upper, n - 1, v), f_quantile(upper, v, n - 1)
    rest = k * s.raters + (k * n - k - n) * s.error
    low = n * (s.subjects - f_low * s.error) / (f_low * rest + n * s.subjects)
    high = n * (f_high * s.subjects - s.error) / (rest + n * f_high * s.subjects)
    return low, high


def _spearman_brown(single: float, k: int) -> float | None:
    """Reliability of the mean of k ratings; None where a strongly negative bound has none."""
    below = 1 + (k - 1) * single
    return k * single / below if below > 1e-12 else None


def _complete(ratings: Any) -> np.ndarray:
    rows = rows_of(ratings)
    try:
        x = np.asarray([[math.nan if v is None else float(v) for v in row] for row in rows])
    except (TypeError, ValueError):
        raise TableError("ratings must be numbers for an intraclass correlation") from None
    missing = np.flatnonzero(~np.isfinite(x).all(axis=1)) if x.size else np.array([])
    if missing.size:
        raise TableError(
            f"{missing.size} of {len(rows)} subjects lack a rating, the first at position {missing[0]}: the analysis "
            "of variance needs complete rows; leave these subjects out and count them"
        )
    return x
