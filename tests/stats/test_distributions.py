"""Distributions, ranks and intervals against scipy.stats, and where scipy is not exact, by counting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from cilab.stats.methods import distributions as d


@pytest.mark.parametrize("x", [-38.0, -2.5, 0.0, 0.3, 4.0])
def test_tails_and_quantiles_are_those_of_scipy(x: float) -> None:
    assert d.normal_two_sided(x) == pytest.approx(2 * stats.norm.sf(abs(x)), rel=1e-12)
    for df in (1, 2.7, 40, 1e5):
        assert d.t_two_sided(x, df) == pytest.approx(2 * stats.t.sf(abs(x), df), rel=1e-10)
        assert d.chi2_upper(abs(x), df) == pytest.approx(stats.chi2.sf(abs(x), df), rel=1e-10)
        assert d.f_upper(abs(x), 3, df) == pytest.approx(stats.f.sf(abs(x), 3, df), rel=1e-10)
    for q in (0.005, 0.5, 0.975):
        assert d.normal_quantile(q) == pytest.approx(stats.norm.ppf(q), abs=1e-14)
        assert d.t_quantile(q, 3.3) == pytest.approx(stats.t.ppf(q, 3.3), rel=1e-12, abs=1e-14)
        assert d.f_quantile(q, 4, 7.5) == pytest.approx(stats.f.ppf(q, 4, 7.5), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 1001])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_fair_coin_and_exact_interval_are_those_of_the_binomial_test(n: int, alternative: str) -> None:
    for hits in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        test = stats.binomtest(hits, n, 0.5, alternative=alternative)
        assert d.fair_coin_p(hits, n, alternative) == pytest.approx(test.pvalue, rel=1e-9), hits
        for level in (0.8, 0.95):
            ends = test.proportion_ci(level, method="exact")
            found = d.share_interval(hits, n, level, alternative=alternative)
            assert found == pytest.approx((ends.low, ends.high), abs=1e-9), hits
            ends = test.proportion_ci(level, method="wilson")
            found = d.share_interval(hits, n, level, method="wilson", alternative=alternative)
            assert found == pytest.approx((ends.low, ends.high), abs=1e-12), hits


def test_wilson_interval_of_a_textbook_share() -> None:
    assert d.share_interval(15, 20, 0.95, method="wilson") == pytest.approx((0.5313, 0.8881), abs=5e-5)


def test_ranks_and_correlations_are_those_of_scipy() -> None:
    rng = np.random.default_rng(5)
    for n, kinds in itertools.product((3, 4, 20, 300), (2, 5, 10**6)):
        x, y = rng.integers(kinds, size=(2, n)).astype(float)
        x[:2], y[:2] = (0, 1), (1, 0)  # not constant
        assert d.average_ranks(x).tolist() == stats.rankdata(x).tolist()
        r, p = stats.pearsonr(x, y)
        assert d.correlation(x, y) == pytest.approx(r, abs=1e-12)
        if abs(d.correlation(x, y)) < 1:
            assert d.correlation_p(d.correlation(x, y), n) == pytest.approx(p, rel=1e-6, abs=1e-12)
        rho, p = stats.spearmanr(x, y)
        assert d.correlation(d.average_ranks(x), d.average_ranks(y)) == pytest.approx(rho, abs=1e-12)


def test_a_correlation_does_not_depend_on_the_unit() -> None:
    x, y = np.array([1.0, 2, 4, 3]), np.array([2.0, 1, 5, 4])
    for unit in (1e-200, 1e200):
        assert d.correlation(x * unit, y) == pytest.approx(d.correlation(x, y), abs=1e-15)
    assert d.correlation(x, -3 * x) == -1.0


def test_kendall_is_that_of_scipy_with_and_without_ties() -> None:
    rng = np.random.default_rng(6)
    for n, kinds in itertools.product((2, 3, 9, 33, 34, 120), (2, 4, 10**6)):
        x, y = rng.integers(kinds, size=(2, n)).astype(float)
        x[:2], y[:2] = (0, 1), (1, 0)
        tau, p, exact = d.kendall(x, y)
        method = "exact" if exact else "asymptotic"
        theirs = stats.kendalltau(x, y, method=method)
        assert tau == pytest.approx(theirs.statistic, abs=1e-12), (n, kinds)
        assert p == pytest.approx(theirs.pvalue, rel=1e-9), (n, kinds)
        assert exact == (n <= 33 and len({*x}) == len({*y}) == n)


def test_the_exact_p_of_kendall_by_counting_all_orders() -> None:
    x = np.arange(6.0)
    orders = [np.array(order, float) for order in itertools.permutations(range(6))]
    taus = np.array([d.kendall(x, y)[0] for y in orders])
    for y, tau in list(zip(orders, taus, strict=True))[::37]:
        assert d.kendall(x, y)[1] == pytest.approx((np.abs(taus) >= abs(tau) - 1e-12).mean())


def test_kendall_of_many_values_is_that_of_few(monkeypatch) -> None:
    x, y = np.random.default_rng(7).integers(9, size=(2, 50)).astype(float)
    tau, p, exact = d.kendall(x, y)
    monkeypatch.setattr(d, "_MOST_BY_PAIRS", 49)
    assert d.kendall(x, y) == (pytest.approx(tau, abs=1e-12), pytest.approx(p, rel=1e-9), exact)
