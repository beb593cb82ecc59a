"""Classical tests against R's numbers, textbook closed forms, and the edges where known libraries go wrong.

R's numbers are those of tests/golden/tests.json (R 4.2.2, packages stats and datasets).
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.stats.methods import hypothesis_tests as tests

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden" / "tests.json").read_text())
SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared"))
#: Depression scores before and after therapy (Hollander and Wolfe 1973, table 3.1; the example of wilcox.test in R).
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
ZEROS = GOLDEN["wilcoxon_zeros"]

numbers = st.lists(st.integers(-20, 20).map(float), min_size=2, max_size=25)


def mtcars(*columns: str) -> list[list[float]]:
    path = SHARED / "golden" / "mtcars.csv"
    if not path.exists():
        pytest.skip("needs mtcars.csv in ../shared/golden (or the folder that CILAB_SHARED names)")
    rows = list(csv.DictReader(path.open()))
    return [[float(row[c]) for row in rows] for c in columns]


# -- against R --------------------------------------------------------------------------------------------


def test_mcnemar_is_exact_and_gives_rs_chi_squares_beside() -> None:
    test = tests.mcnemar(GOLDEN["mcnemar_table"])
    assert test.p == pytest.approx(GOLDEN["mcnemar_exact"], rel=1e-10)
    assert test.detail["chi2"] == pytest.approx(GOLDEN["mcnemar_cc_stat"], rel=1e-12)
    assert test.detail["chi2_p"] == pytest.approx(GOLDEN["mcnemar_cc"], rel=1e-10)
    assert test.detail["chi2_uncorrected"] == pytest.approx(GOLDEN["mcnemar_nocc_stat"], rel=1e-12)
    assert test.detail["chi2_uncorrected_p"] == pytest.approx(GOLDEN["mcnemar_nocc"], rel=1e-10)


def test_the_sign_test_is_rs_with_the_interval_of_clopper_and_pearson() -> None:
    golden = GOLDEN["sign_test"]
    test = tests.sign_test([2.0] * golden["n_pos"] + [-1.0] * (golden["n"] - golden["n_pos"]) + [0.0] * 3)
    assert (test.n, test.n_dropped) == (25, 3)
    assert test.p == pytest.approx(golden["p"], rel=1e-12)
    assert (test.lo, test.hi) == pytest.approx(golden["ci"], rel=1e-10)


def test_wilcoxon_is_exact_without_ties_and_rs_approximation_with_zeros() -> None:
    paired = tests.wilcoxon(BEFORE, AFTER)
    assert (paired.statistic, paired.p) == (GOLDEN["wilcoxon_V"], pytest.approx(GOLDEN["wilcoxon_paired"], rel=1e-12))
    assert "exact" in paired.method
    corrected, plain = tests.wilcoxon(ZEROS["x"]), tests.wilcoxon(ZEROS["x"], continuity=False)
    assert corrected.statistic == plain.statistic == ZEROS["V"]
    assert corrected.p == pytest.approx(ZEROS["p_correct"], rel=1e-10)
    assert plain.p == pytest.approx(ZEROS["p_nocorrect"], rel=1e-10)
    assert corrected.n_dropped == 3 and "zero differences dropped" in corrected.method
    assert "with continuity correction" in corrected.method and "without continuity correction" in plain.method


def test_the_paired_t_test_is_rs() -> None:
    test = tests.paired_t(BEFORE, AFTER)
    assert test.statistic == pytest.approx(GOLDEN["paired_t"]["t"], rel=1e-11)
    assert test.p == pytest.approx(GOLDEN["paired_t"]["p"], rel=1e-10)
    assert (test.lo, test.hi) == pytest.approx(GOLDEN["paired_t"]["ci"], rel=1e-10)


def test_fishers_p_and_sample_odds_ratio_are_rs() -> None:
    golden = GOLDEN["fisher"]
    test = tests.fisher(golden["table"])
    assert test.p == pytest.approx(golden["p"], rel=1e-11)
    assert test.statistic == golden["or_sample"]
    # R finds the other three by a root search that stops at a tolerance of 1.2e-4 (in 1 / ratio for the upper end).
    assert test.estimate == pytest.approx(golden["or_conditional_mle"], rel=1e-5)
    assert test.lo == pytest.approx(golden["ci"][0], rel=1e-4)
    assert test.hi == pytest.approx(golden["ci"][1], rel=0.01)


def test_fishers_conditional_odds_ratio_solves_its_equations_in_closed_form() -> None:
    # Margins 4, 4, 4: the weights of 0 to 4 are C(4, k) squared, the probability of k is weight * ratio^k / sum.
    weights = [math.comb(4, k) ** 2 for k in range(5)]

    def probabilities(ratio: float) -> list[float]:
        terms = [w * ratio**k for k, w in enumerate(weights)]
        return [t / math.fsum(terms) for t in terms]

    test = tests.fisher([[3, 1], [1, 3]])
    assert sum(k * p for k, p in enumerate(probabilities(test.estimate))) == pytest.approx(3, abs=1e-8)
    assert math.fsum(probabilities(test.lo)[3:]) == pytest.approx(0.025, rel=1e-6)
    assert math.fsum(probabilities(test.hi)[:4]) == pytest.approx(0.025, rel=1e-6)


@pytest.mark.parametrize(
    "table", [(3, 1, 1, 3), (0, 5, 4, 2), (9, 1, 0, 8), (30, 12, 14, 40), (2, 100, 50, 3000), (1, 1, 1, 1)]
)
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_fishers_numbers_solve_their_equations_in_whole_numbers(table, alternative: str) -> None:
    a, b, c, d = table
    support = range(max(0, a - d), min(a + b, a + c) + 1)
    ways = {k: math.comb(a + b, k) * math.comb(c + d, a + c - k) for k in support}
    counted = {
        "two-sided": [k for k in support if ways[k] <= ways[a]],
        "greater": [k for k in support if k >= a],
        "less": [k for k in support if k <= a],
    }
    test = tests.fisher([[a, b], [c, d]], alternative=alternative, ci_level=0.9)
    assert test.p == pytest.approx(sum(ways[k] for k in counted[alternative]) / sum(ways.values()), rel=1e-11)
    assert test.statistic == (a * d / (b * c) if b * c else math.inf)

    def probabilities(ratio: float) -> dict[int, float]:
        logs = {k: math.log(w) + k * math.log(ratio) for k, w in ways.items()}
        terms = {k: math.exp(v - max(logs.values())) for k, v in logs.items()}
        return {k: t / math.fsum(terms.values()) for k, t in terms.items()}

    first, last = a == support[0], a == support[-1]
    tail = 0.05 if alternative == "two-sided" else 0.1
    if first or last:
        assert test.estimate == (0 if first else math.inf)
    else:
        assert math.fsum(k * p for k, p in probabilities(test.estimate).items()) == pytest.approx(a, rel=1e-9)
    if first or alternative == "less":
        assert test.lo == 0
    else:
        assert math.fsum(p for k, p in probabilities(test.lo).items() if k >= a) == pytest.approx(tail, rel=1e-9)
    if last or alternative == "greater":
        assert test.hi == math.inf
    else:
        assert math.fsum(p for k, p in probabilities(test.hi).items() if k <= a) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize(("method", "key"), [("bh", "adj"), ("by", "by"), ("holm", "holm")])
def test_corrections_for_many_tests_are_rs(method: str, key: str) -> None:
    result = tests.adjust(GOLDEN["bh"]["p"], method=method)
    np.testing.assert_allclose(result.adjusted, GOLDEN["bh"][key], rtol=1e-11)
    assert result.m == 25 and "m = 25" in result.method


def test_pearson_spearman_and_tau_b_are_rs() -> None:
    mpg, wt = mtcars("mpg", "wt")
    r, rho, tau = tests.pearson(mpg, wt), tests.spearman(mpg, wt), tests.kendall_tau_b(mpg, wt)
    assert r.estimate == pytest.approx(GOLDEN["pearson_mpg_wt"]["r"], rel=1e-11)
    assert r.p == pytest.approx(GOLDEN["pearson_mpg_wt"]["p"], rel=1e-9)
    assert (r.lo, r.hi) == pytest.approx(GOLDEN["pearson_mpg_wt"]["ci"], rel=1e-10)
    assert rho.estimate == pytest.approx(GOLDEN["spearman_mpg_wt"]["rho"], rel=1e-11)
    assert rho.p == pytest.approx(GOLDEN["spearman_mpg_wt"]["p"], rel=1e-9)
    assert tau.estimate == pytest.approx(GOLDEN["kendall_mpg_wt"]["tau_b"], rel=1e-11)
    assert tau.p == pytest.approx(GOLDEN["kendall_mpg_wt"]["p"], rel=1e-9)
    assert "tau-b" in tau.method


def test_tau_b_counts_ties() -> None:
    golden = GOLDEN["kendall_ties"]
    assert tests.kendall_tau_b(golden["x"], golden["y"]).estimate == pytest.approx(golden["tau_b"], rel=1e-11)


# -- the edges --------------------------------------------------------------------------------------------


def test_without_a_discordant_pair_mcnemars_p_is_one_and_chi_square_undefined() -> None:
    test = tests.mcnemar([[10, 0], [0, 12]])
    assert test.p == 1.0
    assert set(test.detail.values()) == {None}
    assert "no discordant pair" in test.reason


def test_one_discordant_pair_gives_one_and_not_more() -> None:
    assert tests.mcnemar([[3, 1], [0, 3]]).p == 1.0


def test_with_ties_only_a_sign_or_signed_rank_test_has_nothing_to_say() -> None:
    for test in (tests.sign_test([1, 2], [1, 2]), tests.wilcoxon([0.0, 0.0])):
        assert (test.p, test.n, test.n_dropped, test.estimate) == (1.0, 0, 2, None)
        assert test.reason == "no difference other than 0"


def test_a_constant_difference_has_no_t() -> None:
    # scipy's ttest_rel gives p = 0 here, and a t of 10^15 where the difference is constant up to rounding.
    test = tests.paired_t([0.3, 0.4, 0.7], [0.1, 0.2, 0.5])
    assert test.p is None and test.statistic is None
    assert test.estimate == pytest.approx(0.2) and test.lo is test.hi is None
    assert "no spread" in test.reason


def test_equal_differences_with_rounding_errors_are_ties() -> None:
    test = tests.wilcoxon([0.3, 0.4, 0.7, 1.1], [0.1, 0.2, 0.5, 0.9])
    assert "exact" not in test.method and test.statistic == 10.0


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [([], [1.0, 2.0], "empty"), ([1.0], [1.0, 2.0], "single"), ([1.0, 1.0], [2.0, 2.0], "no spread")],
)
def test_two_groups_too_small_or_without_spread_are_undefined_with_the_reason(x, y, reason: str) -> None:
    test = tests.two_sample_t(x, y)
    assert test.p is None and reason in test.reason
    assert tests.cohen_d(x, y) is None


def test_an_empty_margin_leaves_fisher_without_an_odds_ratio() -> None:
    test = tests.fisher([[0, 5], [0, 7]])
    assert (test.p, test.estimate, test.lo) == (1.0, None, None)
    assert "no odds ratio" in test.reason


@pytest.mark.parametrize("correlation", [tests.pearson, tests.spearman, tests.kendall_tau_b])
def test_a_correlation_with_a_constant_is_undefined_with_the_reason(correlation) -> None:
    test = correlation([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0])
    assert (test.p, test.estimate, test.reason) == (None, None, "x is constant")


@pytest.mark.parametrize("value", [math.nan, None, math.inf])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: tests.permutation_test([1.0, 2.0, v], [1.0, 2.0, 3.0]),
        lambda v: tests.paired_t([1.0, v], [1.0, 2.0]),
        lambda v: tests.sign_test([1.0, v]),
        lambda v: tests.pearson([1.0, 2.0, v], [1.0, 2.0, 3.0]),
        lambda v: tests.permutation_p(1.0, [0.5, v]),
    ],
)
def test_a_missing_value_is_refused_with_its_position(call, value) -> None:
    # scipy's permutation_test returns p = 0 for a NaN.
    with pytest.raises(TableError, match=r"missing or infinite values, the first at position \d; drop them first"):
        call(value)


def test_missing_p_values_stay_missing_and_are_not_counted() -> None:
    with_gap = tests.adjust([0.01, math.nan, 0.04, None])
    assert with_gap.adjusted == (0.02, None, 0.04, None)
    assert (with_gap.m, with_gap.n_missing) == (2, 2)
    assert tests.adjust([0.01, 0.04], m=4).adjusted == pytest.approx((0.04, 0.08))
    assert tests.adjust([None]).adjusted == (None,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tests.adjust([0.5, 1.5]), "between 0 and 1; 1.5 does not"),
        (lambda: tests.adjust([0.5, 0.5], m=1), "fewer than the 2"),
        (lambda: tests.adjust([0.5], method="bonf"), "not one of bh, by, holm"),
        (lambda: tests.mcnemar([[1, 2, 3]]), "2 x 2"),
        (lambda: tests.fisher([[1, 2], [3, -4]]), "whole numbers from 0"),
        (lambda: tests.fisher([[1, 2], [3, 0.5]]), "whole numbers from 0"),
        (lambda: tests.paired_t([1.0], [1.0, 2.0]), "of one length; they have 1 and 2"),
        (lambda: tests.sign_test(["a"]), "sequence of numbers"),
        (lambda: tests.sign_test([1.0], alternative="both"), "two-sided, greater, less"),
        (lambda: tests.paired_t([1.0, 2.0], ci_level=95), "fraction between 0 and 1"),
        (lambda: tests.permutation_test([1.0], [2.0], kind="rows"), "groups, pairs, association"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# -- permutation ------------------------------------------------------------------------------------------


def test_a_permutation_p_is_k_plus_one_over_b_plus_one_and_never_zero() -> None:
    assert tests.permutation_p(3.0, [1.0, -3.0, 2.0]) == (1 + 1) / 4
    assert tests.permutation_p(3.0, [1.0, -3.0, 2.0], alternative="greater") == 1 / 4
    assert tests.permutation_p(-3.0, [1.0, -3.0, 2.0], alternative="less") == 2 / 4
    assert tests.permutation_p(9.0, [1.0] * 99) == 0.01


@pytest.mark.parametrize("kind", ["groups", "pairs", "association"])
def test_permutation_tests_agree_with_the_enumeration_of_all_shuffles(kind: str) -> None:
    x, y = [1.0, 5.0, 2.0, 8.0, 9.0], [0.5, 2.0, 3.0, 4.0, 4.5]

    def gap(a, b) -> float:
        return abs(np.mean(a) - np.mean(b))

    if kind == "groups":
        both = x + y
        all_shuffles = [
            gap([both[i] for i in chosen], [both[i] for i in range(10) if i not in chosen])
            for chosen in itertools.combinations(range(10), 5)
        ]
        seen = gap(x, y)
    elif kind == "pairs":
        d = np.subtract(x, y)
        all_shuffles = [abs(np.mean(d * signs)) for signs in itertools.product([1, -1], repeat=5)]
        seen = gap(x, y)
    else:
        all_shuffles = [abs(np.corrcoef(x, order)[0, 1]) for order in itertools.permutations(y)]
        seen = abs(np.corrcoef(x, y)[0, 1])
    exact = np.mean(np.array(all_shuffles) >= seen - 1e-12)
    assert tests.permutation_test(x, y, kind=kind, resamples=4000, seed=1).p == pytest.approx(exact, abs=0.03)


def test_the_same_seed_gives_the_same_p() -> None:
    p = {tests.permutation_test([1, 2, 4], [2, 3, 9], resamples=99, seed=3).p for _ in range(2)}
    assert len(p) == 1


# -- properties -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(numbers, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(x: list[float], random) -> None:
    y = [v + random.randint(-3, 3) for v in x]
    order = list(range(len(x)))
    random.shuffle(order)
    for test in (tests.sign_test, tests.wilcoxon, tests.paired_t, tests.spearman, tests.kendall_tau_b):
        one, other = test(x, y), test([x[i] for i in order], [y[i] for i in order])
        assert (one.reason, one.n) == (other.reason, other.n)
        assert one.p == (None if other.p is None else pytest.approx(other.p, rel=1e-9, abs=1e-12))


@settings(max_examples=60, deadline=None)
@given(numbers, numbers)
def test_swapping_the_groups_turns_the_difference_and_keeps_p(x: list[float], y: list[float]) -> None:
    one, other = tests.two_sample_t(x, y), tests.two_sample_t(y, x)
    assert one.p == (None if other.p is None else pytest.approx(other.p, rel=1e-9, abs=1e-300))
    assert one.estimate == pytest.approx(-other.estimate)


@settings(max_examples=60, deadline=None)
@given(numbers, numbers)
def test_welchs_t_agrees_with_scipy(x: list[float], y: list[float]) -> None:
    test = tests.two_sample_t(x, y)
    if test.defined:
        theirs = scipy_stats.ttest_ind(x, y, equal_var=False)
        assert test.p == pytest.approx(theirs.pvalue, rel=1e-8)
        ends = theirs.confidence_interval()
        assert (test.lo, test.hi) == pytest.approx((ends.low, ends.high), rel=1e-8, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=20), st.sampled_from(["bh", "by", "holm"]))
def test_corrected_p_values_are_never_smaller_and_keep_the_order(p, method: str) -> None:
    result = tests.adjust(p, method=method)
    there = sorted((a, b) for a, b in zip(result.p, result.adjusted, strict=True) if a is not None)
    assert all(b >= a - 1e-12 and b <= 1 for a, b in there)
    assert all(first[1] <= second[1] + 1e-12 for first, second in itertools.pairwise(there))
    assert [a is None for a in result.p] == [b is None for b in result.adjusted]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=4))
def test_no_table_of_counts_makes_a_nan(counts: list[int]) -> None:
    table = [counts[:2], counts[2:]]
    for test in (tests.fisher(table), tests.mcnemar(table)):
        values = [test.p, test.statistic, test.estimate, test.lo, test.hi, *test.detail.values()]
        assert not any(v is not None and math.isnan(v) for v in values)
        assert test.p is None or 0 <= test.p <= 1


@pytest.mark.parametrize("unit", [1, 1e-200, 1e9])
def test_values_that_only_rounding_tells_apart_are_tied(unit: float) -> None:
    x, equal = np.array([0.1 + 0.2, 0.3, 0.7, 0.9, 0.2]) * unit, np.array([0.3, 0.3, 0.7, 0.9, 0.2]) * unit
    y = [1.0, 2.0, 4.0, 3.0, 5.0]
    assert x[0] != x[1]
    assert tests.kendall_tau_b(x, y) == tests.kendall_tau_b(equal, y)
    assert tests.spearman(x, y) == tests.spearman(equal, y)
    assert tests.kendall_tau_b(y, x).estimate == pytest.approx(scipy_stats.kendalltau(equal, y).statistic)


@pytest.mark.parametrize("seed", ["a", -1, 1.5, True])
def test_a_seed_that_is_none_is_refused_wherever_something_is_drawn(seed) -> None:
    from cilab.stats.methods.coefficients import cohen_kappa

    for draw in (
        lambda: tests.permutation_test([1, 2], [3, 4], seed=seed),
        lambda: cohen_kappa([1, 2, 1], [1, 2, 2], resamples=10, seed=seed),
    ):
        with pytest.raises(TableError, match="seed is"):
            draw()
