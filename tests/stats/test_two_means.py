"""Differences of two means: Newcombe's printed intervals, properties, and agreement of p with the interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cilab.stats.methods.two_means import Part, difference, together
from cilab.stats.methods.uncertainty import mean_bounds

#: Newcombe (1998), table II, method 10: passes and trials of either side, and the printed interval.
PRINTED = [
    ((56, 70), (48, 80), (0.0524, 0.3339)),
    ((9, 10), (3, 10), (0.1705, 0.8090)),
    ((6, 7), (2, 7), (0.0582, 0.8062)),
    ((5, 56), (0, 29), (-0.0381, 0.1926)),
    ((0, 10), (0, 20), (-0.1611, 0.2775)),
    ((0, 10), (0, 10), (-0.2775, 0.2775)),
    ((10, 10), (0, 20), (0.6791, 1.0)),
    ((10, 10), (0, 10), (0.6075, 1.0)),
]


@pytest.mark.parametrize(("one", "two", "printed"), PRINTED)
def test_wilson_intervals_put_together_are_newcombes_as_printed(one, two, printed) -> None:
    parts = []
    for (passes, n), sign in ((one, 1), (two, -1)):
        ends = stats.binomtest(passes, n).proportion_ci(method="wilson")
        parts.append(Part(passes / n, ends.low, ends.high, sign))
    point, lo, hi = together(parts)
    assert point == pytest.approx(one[0] / one[1] - two[0] / two[1])
    assert (lo, hi) == pytest.approx(printed, abs=6e-5)


def _sides(seed: int, n: tuple[int, int], strata: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, strata * sum(n)) / 2
    first = np.repeat([True, False], [strata * n[0], strata * n[1]])
    return values, first, np.concatenate([np.repeat(np.arange(strata), k) for k in n])


@given(seed=st.integers(0, 300), n=st.tuples(st.integers(3, 9), st.integers(3, 9)))
@settings(max_examples=12, deadline=None)
def test_sides_exchanged_turn_the_interval_round_and_p_stays(seed: int, n: tuple[int, int]) -> None:
    values, first, strata = _sides(seed, n)
    one = difference(values, first, strata=strata)
    two = difference(values, ~first, strata=strata)
    assert one.point == pytest.approx(-two.point)
    assert (one.bounds.lo, one.bounds.hi) == pytest.approx((-two.bounds.hi, -two.bounds.lo))
    assert one.p == pytest.approx(two.p)
    assert one.bounds.hi - one.bounds.lo > 0.01


@given(seed=st.integers(0, 300))
@settings(max_examples=12, deadline=None)
def test_p_is_small_exactly_where_the_interval_leaves_out_zero(seed: int) -> None:
    values, first, strata = _sides(seed, (8, 8))
    values[first] = np.minimum(values[first] + 0.5 * (seed % 2), 1.0)
    for level in (0.8, 0.95):
        found = difference(values, first, strata=strata, ci_level=level)
        outside = found.bounds.lo > 0 or found.bounds.hi < 0
        if abs(found.p - (1 - level)) > 1e-4:
            assert outside == (found.p < 1 - level)


def test_each_side_needs_three_units_and_all_alike_have_a_width() -> None:
    few = difference(np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.array([True, True, False, False, False]), sides=("a", "b"))
    assert (few.bounds.lo, few.p, few.bounds.reason) == (None, None, "too few: 2 tasks a")
    alike = difference(np.ones(20), np.arange(20) < 10).bounds
    # Each side's end is Clopper and Pearson's for 10 of 10, the other side's is no further away: 1 - 0.025^(1/10).
    assert alike.hi == pytest.approx(1 - 0.025**0.1) == pytest.approx(-alike.lo)


def test_clusters_of_both_sides_that_go_together_narrow_the_interval() -> None:
    rng = np.random.default_rng(1)
    family = rng.random(20) < 0.5
    values = np.concatenate([family, family]).astype(float)
    first, clusters = np.arange(40) < 20, np.tile(np.arange(20), 2)
    together_, apart = (difference(values, first, clusters=c).bounds for c in (clusters, np.arange(40)))
    assert together_.n_clusters == 20 and apart.n_clusters == 40
    assert together_.hi - together_.lo < 0.5 * (apart.hi - apart.lo)


def test_the_interval_is_that_of_the_two_score_intervals() -> None:
    values, first, strata = _sides(5, (7, 4))
    ends = [mean_bounds(values[s], strata=strata[s]) for s in (first, ~first)]
    points = [np.mean([values[s & (strata == k)].mean() for k in (0, 1)]) for s in (first, ~first)]
    down = np.hypot(points[0] - ends[0].lo, ends[1].hi - points[1])
    found = difference(values, first, strata=strata)
    assert found.bounds.lo == pytest.approx(points[0] - points[1] - down)
