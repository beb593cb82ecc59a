"""Linking of scales: numbers of R and of STUIRT, known truths, and the inverse the other way round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit

from cilab.stats.methods.linking import METHODS, Link, jackknife_variance, leave_out, link, robust_z

#: Eight Rasch tasks on two scales, and what R's sirt (equating.rasch, theta from -4 to 4 by 0.05) makes of them, as
#: printed in the tests of another program (IrtScaleLinkingTest of psychometrics, which agrees within 1e-4).
FORM_X = np.array(
    [-3.188047976, 1.031760328, 0.819040914, -2.70694736, -0.094527077, 0.689697135, -0.551837153, -0.359559276]
)
FORM_Y = np.array(
    [-3.074599226, 1.01282435, 0.868538408, -2.404483603, 0.037402866, 0.70074742, -0.602555046, -0.350426446]
)
THETA = np.arange(-80, 81) / 20
SIRT = {"mean_mean": 0.068484, "haebara": 0.06468396, "stocking_lord": 0.05736233}


@pytest.mark.parametrize("method", SIRT)
def test_the_shift_is_that_of_r(method) -> None:
    assert link(FORM_Y, FORM_X, method, (THETA, THETA)).shift == pytest.approx(SIRT[method], abs=1e-4)


def test_mean_and_sigma_are_those_of_stuirt() -> None:
    # Difficulties of STUIRT's first example with its slope and intercept, as printed in the same program's tests.
    x = [-0.7101, -0.8567, 0.0212, 0.0506, 0.9610, 0.1950, 2.2768, 1.0241, 1.4062, 2.2401, 1.5556, 2.1589]
    y = [-1.3349, -1.3210, -0.7098, -0.3539, 0.5320, -0.1156, 2.5538, 0.5811, 0.9392, 1.8960, 1.0790, 2.1337]
    found = link(np.array(y), np.array(x), "mean_sigma")
    assert found == pytest.approx((1.168891, -0.515543), abs=1e-6)


@pytest.mark.parametrize("method", ["haebara", "stocking_lord"])
def test_the_curves_are_as_near_as_a_search_over_all_shifts_finds(method) -> None:
    points = np.linspace(-2, 1, 7), np.linspace(-1, 3, 5)

    def distance(shift: float) -> float:
        total = 0.0
        for at, mine, theirs in ((points[0], FORM_Y, FORM_X + shift), (points[1], FORM_X, FORM_Y - shift)):
            gap = expit(at[:, None] - mine) - expit(at[:, None] - theirs)
            total += np.mean(gap.sum(axis=1) ** 2 if method == "stocking_lord" else (gap**2).sum(axis=1))
        return total

    best = optimize.minimize_scalar(distance, bounds=(-2, 2), method="bounded", options={"xatol": 1e-10}).x
    assert link(FORM_Y, FORM_X, method, points).shift == pytest.approx(best, abs=1e-6)


@given(seed=st.integers(0, 500), shift=st.floats(-4, 4), method=st.sampled_from(METHODS))
@settings(max_examples=60, deadline=None)
def test_a_known_shift_is_found_and_the_other_way_round_is_the_inverse(seed: int, shift: float, method) -> None:
    rng = np.random.default_rng(seed)
    old = rng.normal(0, 1.3, 6)
    points = rng.normal(0, 1, 5), rng.normal(0, 1, 4) - shift
    assert link(old, old - shift, method, points) == pytest.approx((1.0, shift), abs=1e-6)
    new = old - shift + rng.normal(0, 0.4, 6)
    one, two = link(old, new, method, points), link(new, old, method, points[::-1])
    assert two == pytest.approx((1 / one.slope, -one.shift / one.slope), abs=1e-6)
    np.testing.assert_allclose(two.to_old(one.to_old(new)), new, atol=1e-5)


def test_mean_sigma_finds_another_unit_too() -> None:
    old = np.array([-1.0, 0.0, 0.5, 2.0])
    assert link(old, (old - 0.7) / 1.4, "mean_sigma") == pytest.approx((1.4, 0.7))
    assert np.isnan(link(old, np.zeros(4), "mean_sigma").slope)


def test_a_task_that_nearly_all_pass_counts_for_little_on_curves() -> None:
    old = np.array([0.0, 0.5, -0.5, 0.2, -6.0])
    new = old.copy()
    new[-1] = -9.0  # such a difficulty is hardly known
    points = np.linspace(-1, 1, 5), np.linspace(-1, 1, 5)
    assert link(old, new, "mean_mean").shift == pytest.approx(0.6)
    for method in ("haebara", "stocking_lord"):
        assert abs(link(old, new, method, points).shift) < 0.02


def test_the_jackknife_of_a_mean_is_its_squared_standard_error() -> None:
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=(2, 12))
    without = leave_out(old, new, np.arange(12), "mean_mean")
    variance = jackknife_variance(np.array([w.shift for w in without]))
    assert variance == pytest.approx((old - new).var(ddof=1) / 12)
    pairs = leave_out(old, new, np.arange(12) // 2, "mean_mean")
    assert len(pairs) == 6 and pairs[0] == Link(1.0, pytest.approx((old - new)[2:].mean()))


def test_robust_z_is_the_distance_from_the_median_in_robust_standard_deviations() -> None:
    # Quartiles of 0, .1, -.1, .2, 3 are 0 and .2: z of 3 is (3 - .1) / (.74 * .2).
    assert robust_z(np.array([0.0, 0.1, -0.1, 0.2, 3.0]))[-1] == pytest.approx(2.9 / 0.148)
    assert robust_z(np.array([0.0, 0.0, 0.0, 0.0, 1.0])) is None
    normal = robust_z(np.random.default_rng(0).normal(5, 3, 20_000))
    assert normal.std() == pytest.approx(1.0, abs=0.03)
