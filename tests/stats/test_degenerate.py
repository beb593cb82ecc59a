"""Where nothing varies there is no interval of width 0 and no p of 0: every test and coefficient on degenerate data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from scipy import stats

from cilab.stats.methods import coefficients, hypothesis_tests, intraclass

#: Two columns each: constant, perfect, two points, one point, one category, all apart, alike but for rounding.
COLUMNS: dict[str, tuple[list[float], list[float]]] = {
    "constant": ([1.0] * 6, [1.0] * 6),
    "constant, apart": ([2.0] * 6, [1.0] * 6),
    "perfect": ([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]),
    "perfect but for rounding": ([0.1, 0.2, 0.3, 0.7], [0.1 + 0.2, 0.2 + 0.2, 0.3 + 0.2, 0.9]),
    "perfect, reversed": ([1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0]),
    "perfect, with ties": ([0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0]),
    "perfect, many": ([float(i) for i in range(300)], [2.0 * i for i in range(300)]),
    "two points": ([0.0, 1.0], [0.0, 1.0]),
    "two points, alike": ([1.0, 1.0], [1.0, 1.0]),
    "one point": ([1.0], [0.0]),
    "all apart": ([0.0, 1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0, 1.0]),
    "one side": ([1.0] * 8, [0.0] * 8),
}
DRAWS: dict[str, Any] = {"resamples": 200, "seed": 1}


def _table(x: list[float], y: list[float]) -> list[list[int]]:
    """Counts of pairs above 0.5, two by two."""
    return [
        [sum((a > 0.5) is i and (b > 0.5) is j for a, b in zip(x, y, strict=True)) for j in (True, False)]
        for i in (True, False)
    ]


CALLS: dict[str, Callable[[list[float], list[float]], Any]] = {
    "sign test": hypothesis_tests.sign_test,
    "wilcoxon": hypothesis_tests.wilcoxon,
    "paired t": hypothesis_tests.paired_t,
    "two-sample t": hypothesis_tests.two_sample_t,
    "equal variances": lambda x, y: hypothesis_tests.two_sample_t(x, y, equal_variances=True),
    "fisher": lambda x, y: hypothesis_tests.fisher(_table(x, y)),
    "mcnemar": lambda x, y: hypothesis_tests.mcnemar(_table(x, y)),
    "pearson": hypothesis_tests.pearson,
    "spearman": hypothesis_tests.spearman,
    "kendall": hypothesis_tests.kendall_tau_b,
    "permutation": lambda x, y: hypothesis_tests.permutation_test(x, y, resamples=50),
    "permutation of pairs": lambda x, y: hypothesis_tests.permutation_test(x, y, kind="pairs", resamples=50),
    "permutation of order": lambda x, y: hypothesis_tests.permutation_test(x, y, kind="association", resamples=50),
    "raw": lambda x, y: coefficients.raw_agreement(list(zip(x, y, strict=True)), **DRAWS),
    "raw, in groups": lambda x, y: coefficients.raw_agreement(
        list(zip(x, y, strict=True)), groups=[i // 2 for i in range(len(x))], **DRAWS
    ),
    "cohen": lambda x, y: coefficients.cohen_kappa(x, y, **DRAWS),
    "cohen, weighted": lambda x, y: coefficients.cohen_kappa(x, y, weights="quadratic", **DRAWS),
    "fleiss": lambda x, y: coefficients.fleiss_kappa(list(zip(x, y, strict=True)), counts=False, **DRAWS),
    **{
        f"alpha, {level}": lambda x, y, level=level: coefficients.krippendorff(
            list(zip(x, y, strict=True)), level=level, **DRAWS
        )
        for level in ("nominal", "ordinal", "interval", "ratio")
    },
    **{
        form: lambda x, y, form=form: intraclass.icc(list(zip(x, y, strict=True)), form=form)
        for form in intraclass.ICC_FORMS
    },
}


@pytest.mark.parametrize("data", COLUMNS)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_has_an_interval_of_width_zero_or_a_p_of_zero(name: str, data: str) -> None:
    x, y = COLUMNS[data]
    if name in intraclass.ICC_FORMS and len(x) < 2:
        return  # refused, see test_agreement
    found = CALLS[name](x, y)
    p = found.p if isinstance(found, hypothesis_tests.HypothesisTest) else found.detail.get("p")
    assert p is None or 0 < p <= 1
    assert (found.lo is None) == (found.hi is None)
    if found.lo is not None:
        assert found.hi - found.lo > 1e-9
    value = found.estimate if isinstance(found, hypothesis_tests.HypothesisTest) else found.value
    if value is None or (getattr(found, "resamples", 0) and found.lo is None):
        assert found.reason or name == "wilcoxon"  # which estimates nothing


@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("test", [hypothesis_tests.pearson, hypothesis_tests.spearman])
def test_p_of_a_perfect_correlation_is_that_of_all_orders(test, n: int) -> None:
    """By enumeration: twice the share of the n! orders whose correlation is as high as that of the data."""
    for x in ([float(i**2) for i in range(n)], [0.0, 0.0, *(float(i) for i in range(1, n - 1))]):
        as_high = sum(stats.pearsonr(x, order).statistic > 1 - 1e-9 for order in itertools.permutations(x))
        found = test(x, [3 * v - 1 for v in x])
        assert found.p == pytest.approx(min(1.0, 2 * as_high / math.factorial(n)))
        assert test(x, [-v for v in x]).p == pytest.approx(found.p) and test(x, [-v for v in x]).estimate == -1


def test_four_points_on_a_line_have_p_two_in_24_and_eight_agreements_a_lower_end() -> None:
    found = hypothesis_tests.pearson([1, 2, 3, 4], [2, 4, 6, 8])
    assert (found.p, found.estimate, found.lo) == (pytest.approx(2 / 24), 1.0, None)
    assert hypothesis_tests.paired_t([1, 1, 1]).lo is None
    ends = stats.binomtest(8, 8).proportion_ci(method="exact")
    raw = coefficients.raw_agreement([["a", "a"], ["b", "b"]] * 4, **DRAWS)
    assert (raw.lo, raw.hi) == pytest.approx((ends.low, ends.high)) and round(100 * ends.low) == 63
    kappa = coefficients.cohen_kappa(["a", "b"] * 4, ["a", "b"] * 4, **DRAWS)
    assert (kappa.value, kappa.lo, kappa.hi) == (1.0, None, None)
    assert kappa.detail["raw_lo"] == pytest.approx(ends.low) and "raw agreement is at least 63%" in kappa.reason


def test_raw_agreement_that_does_not_vary_has_an_exact_interval_whatever_it_is() -> None:
    # Of three raters two agree on each of 10 subjects: 1/3. At most 30.8 % of others may agree on all, or not at all.
    others = stats.binomtest(0, 10).proportion_ci(method="exact").high
    raw = coefficients.raw_agreement([["a", "a", "b"]] * 10, **DRAWS)
    assert (raw.lo, raw.hi) == pytest.approx(((1 - others) / 3, (1 - others) / 3 + others))
    apart = coefficients.raw_agreement([["a", "b"]] * 10, **DRAWS)
    assert (apart.value, apart.lo, apart.hi) == (0.0, 0.0, pytest.approx(others))


def test_two_subjects_are_too_few_for_an_interval() -> None:
    raw = coefficients.raw_agreement([["a", "a"], ["a", "b"]], **DRAWS)
    assert (raw.value, raw.lo, raw.reason) == (0.5, None, "too few: 2 subjects")
    grouped = coefficients.raw_agreement([["a", "a"], ["a", "b"]] * 5, groups=["x", "y"] * 5, **DRAWS)
    assert (grouped.lo, grouped.reason) == (None, "too few: 2 groups")
