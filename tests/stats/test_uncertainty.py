"""The rule of uncertainty: when an interval is shown, which one, and that it covers."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cilab.stats.methods.uncertainty import (
    LEAST_UNITS,
    NO_SPREAD,
    detectable,
    draw_bounds,
    expanded_level,
    linear_bounds,
    mean_bounds,
    ratio_bounds,
    t_test_p,
    too_few,
)
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "interval_coverage.json"


# -- when there is none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_units_have_words_in_place_of_an_interval(n: int) -> None:
    found = mean_bounds(np.linspace(0, 1, n))
    assert found.lo is None and found.hi is None
    assert found.reason == f"too few: {n} task{'s' * (n != 1)}"


def test_least_number_of_units_is_at_most_five() -> None:
    assert LEAST_UNITS <= 5
    assert mean_bounds(np.array([0.0, 1.0, 1.0])).lo is not None


def test_one_task_in_each_of_eight_dimensions_has_no_interval() -> None:
    found = mean_bounds(np.array([1, 0, 0, 1, 0, 1, 0, 0.0]), strata=np.arange(8))
    assert (found.lo, found.reason) == (None, "too few: 8 tasks in 8 dimensions")


def test_units_are_clusters_and_not_tasks() -> None:
    found = mean_bounds(np.tile([0.0, 1.0], 20), clusters=np.repeat([7, 9], 20), unit="family")
    assert (found.n_clusters, found.reason) == (2, "too few: 2 families")


def test_a_difference_of_dimensions_with_one_task_has_no_interval() -> None:
    values, strata = np.array([1.0, 0, 1, 0, 1]), np.array([0, 0, 0, 0, 1])
    found = mean_bounds(values, strata=strata, span=(-1.0, 1.0), names=["one", "taking_over"])
    assert found.reason == "too few: 1 task in taking over"


def test_a_quantity_without_bounds_that_does_not_vary_has_no_interval_and_no_p() -> None:
    found = mean_bounds(np.full(9, 0.5), span=None)
    assert (found.lo, found.reason, t_test_p(0.5, found), detectable(found)) == (None, NO_SPREAD, None, None)


def test_replicates_that_are_alike_have_no_interval_unless_percentiles_are_asked_for() -> None:
    draws = np.full(1000, 0.5)
    assert draw_bounds(draws, 12).reason == NO_SPREAD
    assert draw_bounds(draws, 12, interval="percentile")[:2] == (0.5, 0.5)
    assert draw_bounds(np.linspace(0, 1, 1000), 2).reason == too_few(2)


# -- which one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 30, 240])
def test_all_passed_has_the_interval_of_clopper_and_pearson(n: int) -> None:
    exact = stats.binomtest(n, n).proportion_ci(0.95, "exact")
    assert mean_bounds(np.ones(n))[:2] == pytest.approx((exact.low, 1.0))
    assert mean_bounds(np.zeros(n))[:2] == pytest.approx((0.0, 1 - exact.low))


def test_five_of_five_differences_of_one_hold_zero_and_six_do_not_as_the_sign_test_has_it() -> None:
    five, six = (mean_bounds(np.ones(n), span=(-1.0, 1.0)) for n in (5, 6))
    assert five.lo < 0 < six.lo  # exact two-sided p: 2 / 2^5 = .0625 and 2 / 2^6 = .03125


def test_repeats_of_three_mazes_are_three_units_with_t_of_two_degrees_of_freedom() -> None:
    # shared case 08: mean 1/3, standard error 1/3, t(2) interval -1.10 to 1.77, by hand
    found = mean_bounds(np.repeat([0.0, 0.0, 1.0], 6), clusters=np.repeat([0, 1, 2], 6), span=None)
    assert found[:2] == pytest.approx((-1.100884243249821, 1.7675509099164874))
    assert (found.n_clusters, found.se, found.df) == (3, pytest.approx(1 / 3), pytest.approx(2.0))


def test_a_large_binary_sample_has_nearly_the_interval_of_wilson() -> None:
    values = np.r_[np.ones(1600), np.zeros(400)]
    wilson = stats.binomtest(1600, 2000).proportion_ci(0.95, "wilson")
    assert mean_bounds(values)[:2] == pytest.approx((wilson.low, wilson.high), abs=2e-4)


def test_standard_error_of_strata_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(5)
    groups = [rng.random(n) for n in (4, 9, 20)]
    found = mean_bounds(np.concatenate(groups), strata=np.repeat([0, 1, 2], [4, 9, 20]), span=None)
    variances = [g.var(ddof=1) / len(g) / 9 for g in groups]
    assert found.se == pytest.approx(math.sqrt(sum(variances)))
    by_hand = sum(variances) ** 2 / sum(v**2 / (len(g) - 1) for v, g in zip(variances, groups, strict=True))
    assert found.df == pytest.approx(by_hand)  # Satterthwaite


def test_clustered_standard_error_is_that_of_statsmodels() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(6)
    clusters = rng.integers(0, 12, 80)
    values = rng.random(80) + 0.3 * rng.standard_normal(12)[clusters]
    fit = sm.OLS(values, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": True})
    assert mean_bounds(values, clusters=clusters, span=None).se == pytest.approx(float(fit.bse[0]), rel=1e-9)


def test_clusters_that_reach_over_dimensions_are_drawn_as_wholes() -> None:
    rng = np.random.default_rng(8)
    shared = rng.random(10)
    values, strata, clusters = np.r_[shared, shared], np.repeat([0, 1], 10), np.tile(np.arange(10), 2)
    whole = mean_bounds(values, strata=strata, clusters=clusters, span=None)
    assert whole.n_clusters == 10
    assert whole.se == pytest.approx(float(shared.std(ddof=1) / math.sqrt(10)))


def test_a_share_of_unequal_tasks_has_the_linearised_error() -> None:
    above, below = np.array([1.0, 3, 0, 2, 5]), np.array([3.0, 3, 3, 9, 6])
    share = 11 / 24
    error = math.sqrt(5 / 4 * (((above - share * below) / 24) ** 2).sum())
    found = ratio_bounds(above, below)
    assert found.se == pytest.approx(error)
    assert 0 < found.lo < share < found.hi < 1


def test_a_pooled_share_of_dimensions_counts_the_spread_within_them_only() -> None:
    above, below = np.array([0.0, 1, 0, 3, 3, 2, 0]), np.array([3.0, 3, 3, 3, 3, 3, 0])
    strata = np.array([0, 0, 0, 1, 1, 1, 1])
    share = 9 / 18
    moved = (above - share * below) / 18
    by_hand = sum(n / (n - 1) * ((u - u.mean()) ** 2).sum() for n, u in ((3, moved[:3]), (4, moved[3:])))
    found = ratio_bounds(above, below, strata=strata)
    assert found.se == pytest.approx(math.sqrt(by_hand)) and found.n_clusters == 6
    assert found.hi - found.lo < np.subtract(*ratio_bounds(above, below)[1::-1])


def test_expanded_percentiles_widen_by_students_t_and_the_lost_degree_of_freedom() -> None:
    for n in (3, 10, 100):
        wanted = 1 - 2 * stats.norm.cdf(-stats.t.ppf(0.975, n - 1) * math.sqrt(n / (n - 1)))
        assert expanded_level(n) == pytest.approx(wanted, abs=1e-12)


def test_detectable_difference_has_the_power_that_it_names() -> None:
    found = mean_bounds(np.random.default_rng(3).standard_normal(24), span=None)
    least = detectable(found)
    noncentral = stats.nct(found.df, least / found.se)
    assert noncentral.sf(stats.t.ppf(0.975, found.df)) == pytest.approx(0.8, abs=0.01)


scores = st.lists(st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3, 1.0]), min_size=3, max_size=40)


@given(scores)
def test_an_interval_lies_within_its_bounds_holds_the_mean_and_has_a_width(values: list[float]) -> None:
    found = mean_bounds(np.array(values))
    assert 0 <= found.lo <= np.mean(values) + 1e-12 and np.mean(values) - 1e-12 <= found.hi <= 1
    assert found.hi - found.lo > 1e-3


@given(scores, st.randoms())
def test_the_order_of_tasks_and_the_names_of_clusters_do_not_matter(values: list[float], random) -> None:
    at = list(range(len(values)))
    random.shuffle(at)
    one = mean_bounds(np.array(values))
    other = mean_bounds(np.array(values)[at], clusters=np.array([97 - 3 * i for i in at]))
    assert one[:2] == pytest.approx(other[:2])


@given(scores)
def test_passes_and_failures_mirror_each_other(values: list[float]) -> None:
    one, other = mean_bounds(np.array(values)), mean_bounds(1 - np.array(values))
    assert one[:2] == pytest.approx((1 - other.hi, 1 - other.lo))


def test_a_perfect_score_is_no_better_known_than_one_with_a_failure() -> None:
    widths = [np.subtract(*mean_bounds(np.r_[np.ones(30 - k), np.zeros(k)])[1::-1]) for k in range(6)]
    assert all(a < b for a, b in itertools.pairwise(widths))


def test_linear_bounds_without_spans_ask_for_nothing_but_contributions() -> None:
    influence = np.array([-0.1, 0.0, 0.1])
    assert linear_bounds(0.4, influence, span=None).se == pytest.approx(math.sqrt(1.5 * 0.02))


# -- coverage -----------------------------------------------------------------------------------------------


def stored() -> dict:
    return json.loads(GOLDEN.read_text())


def test_stored_coverage_is_at_least_93_percent_wherever_an_interval_is_shown() -> None:
    lines = [x for x in stored()["lines"] if x["coverage"] is not None]
    assert stored()["data_sets"] == 4000 and len(lines) > 100
    assert {x["units"] for x in lines} >= {3, 5, 10, 30}
    error = math.sqrt(0.93 * 0.07 / 4000)
    low = [x for x in lines if x.get("exact_coverage", x["coverage"]) < 0.93 - 2 * error]
    assert low == []


def test_stored_coverage_is_at_most_97_percent_but_for_discrete_data() -> None:
    """From 30 units, and for the overall score; near the ceiling scores are so coarse that no interval can do it."""
    error = 2 * math.sqrt(0.97 * 0.03 / 4000)
    for x in stored()["lines"]:
        if x["coverage"] is None or x["units"] < 3 or (x["units"] < 30 and x["dimensions"] == 1):
            continue
        if "exact_coverage" in x:
            assert x["exact_coverage"] <= 0.97 or x["clopper_pearson_coverage"] >= x["exact_coverage"] - 1e-9
            assert x["exact_width"] <= 1.05 * x["clopper_pearson_width"]
        elif x["rate"] < 0.97:
            assert x["coverage"] <= 0.97 + 2 * error, x
        else:
            assert x["coverage"] <= 0.98, x


def test_stored_shares_of_cells_without_an_interval_are_told() -> None:
    tenth = stored()["tenth_of_a_study"]
    assert 0.5 < tenth["dimension_cells_without"] < 0.8
    assert tenth["overall_without"] < 0.05 and 0.93 <= tenth["overall_coverage"] <= 0.98


def test_the_first_data_sets_of_the_coverage_study_come_out_as_stored() -> None:
    made = script("interval_coverage")
    for x in stored()["lines"][::7]:
        rng = np.random.default_rng(
            [20261201, list(made.DESIGNS).index(x["design"]), round(100 * x["rate"]), x["units"], x["dimensions"]]
        )
        drawn = [made.drawn(made.DESIGNS[x["design"]], x["rate"], x["units"], x["dimensions"], rng) for _ in range(20)]
        inside = [made.verdict(values, x["rate"])[0] for values in drawn]
        assert [None if math.isnan(v) else int(v) for v in inside] == x["first"]


@pytest.mark.study
def test_the_whole_coverage_study_comes_out_as_stored() -> None:
    again = script("interval_coverage").study(4000)
    for one, other in zip(again["lines"], stored()["lines"], strict=True):
        assert one["coverage"] == pytest.approx(other["coverage"])
