"""The bootstrap over tasks against closed forms, SciPy and itself under permutation; coverage of its intervals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import TableError
from cilab.results.arguments import check_all
from cilab.stats.methods import bootstrap
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "score_coverage.json"


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(n=st.integers(0, 600), resamples=st.integers(1, 50), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_resample_draws_as_many_tasks_as_there_are(n: int, resamples: int, seed: int) -> None:
    counts = bootstrap.draw_counts(n, resamples, rng(seed))
    assert counts.shape == (resamples, n) and counts.dtype == np.float64
    assert (counts.sum(axis=1) == n).all() and (counts >= 0).all() and (counts == np.round(counts)).all()


def test_counts_have_the_mean_variance_and_covariance_of_a_multinomial() -> None:
    n, resamples = 30, 200_000
    counts = bootstrap.draw_counts(n, resamples, rng())
    covariance = np.cov(counts, rowvar=False)
    # Var = 1 - 1/n, Cov = -1/n; standard errors are about sqrt(2 / resamples) and 1 / sqrt(resamples).
    assert np.abs(counts.mean(axis=0) - 1).max() < 6 / math.sqrt(resamples)
    assert np.abs(np.diag(covariance) - (1 - 1 / n)).max() < 10 / math.sqrt(resamples)
    off = covariance[~np.eye(n, dtype=bool)]
    assert np.abs(off + 1 / n).max() < 6 / math.sqrt(resamples)


def test_replicates_of_fully_gated_rows_have_the_closed_form_variance() -> None:
    values = np.array([[0.0] * 12 + [1.0] * 18, [1 / 3] * 15 + [2 / 3] * 15])
    used = np.ones_like(values, dtype=bool)
    reps = bootstrap.resample_scores(values, used, [slice(0, 30)], resamples=100_000, rng=rng()).overall
    # The variance over resamples is sum (x - mean)^2 / n^2: 0.6 * 0.4 / 30 and (1/6)^2 / 30.
    np.testing.assert_allclose(reps.var(axis=0), [0.24 / 30, 1 / 36 / 30], rtol=0.03)
    np.testing.assert_allclose(reps.mean(axis=0), [0.6, 0.5], atol=0.002)


def test_overall_intervals_agree_with_scipy_on_one_dimension() -> None:
    from scipy import stats

    values = rng(5).random(60)
    ours = bootstrap.resample_scores(values[None], np.ones((1, 60), bool), [slice(0, 60)], resamples=20_000, rng=rng())
    lo, hi = bootstrap.percentile_interval(ours.overall)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=rng(1))
    se = values.std() / math.sqrt(60)
    assert abs(lo[0] - theirs.confidence_interval.low) < 0.1 * se
    assert abs(hi[0] - theirs.confidence_interval.high) < 0.1 * se


@given(
    values=st.lists(st.one_of(st.floats(-1, 1), st.just(math.nan)), min_size=1, max_size=60),
    level=st.floats(0.5, 0.999),
)
def test_percentile_intervals_are_numpys_quantiles_of_what_is_defined(values: list[float], level: float) -> None:
    draws = np.array([values, values[::-1]]).T
    lo, hi = bootstrap.percentile_interval(draws, level)
    there = draws[:, 0][~np.isnan(draws[:, 0])]
    if not len(there):
        assert np.isnan([lo, hi]).all()
        return
    want = np.quantile(there, [0.5 - level / 2, 0.5 + level / 2])
    np.testing.assert_allclose([lo, hi], np.repeat(want[:, None], 2, axis=1), rtol=1e-12, atol=1e-15)


def test_all_rows_share_the_resamples_so_that_equal_rows_never_differ() -> None:
    one = rng(3).random(40)
    values, used = np.vstack([one, one, 1 - one]), np.ones((3, 40), bool)
    reps = bootstrap.resample_scores(values, used, [slice(0, 20), slice(20, 40)], resamples=500, rng=rng()).overall
    assert (reps[:, 0] == reps[:, 1]).all()
    np.testing.assert_allclose(reps[:, 0] + reps[:, 2], 1.0)


def test_the_pieces_of_the_product_give_what_one_product_gives() -> None:
    for resamples in (1, 124, 125, 1000, 1001, 2126):
        a, b = rng(resamples).random((resamples, 30)), rng(1).random((30, 7))
        out = np.empty((resamples, 7))
        bootstrap._product(a, b, out=out)
        np.testing.assert_allclose(out, a @ b, rtol=1e-13)


def test_weighted_replicates_are_means_over_the_drawn_tasks_that_pass_the_gate() -> None:
    values = np.array([[0.2, 0.4, np.nan, 0.9]])
    used = np.array([[True, True, False, True]])
    reps = bootstrap.resample_scores(values, used, [slice(0, 4)], resamples=2500, rng=rng(8)).by_dimension[0, :, 0]
    again = rng(8)
    counts = np.vstack([bootstrap.draw_counts(4, n, again) for n in (2000, 500)])
    with np.errstate(invalid="ignore"):
        want = [
            (c[used[0]] * values[0, used[0]]).sum() / c[used[0]].sum() if c[used[0]].sum() else np.nan for c in counts
        ]
    np.testing.assert_allclose(reps, want, rtol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3, 6, 7, None])
@pytest.mark.parametrize("gated", [True, False])
def test_replicates_are_plain_means_of_the_drawn_tasks_whatever_parts_of_one_values_are_made_of(parts, gated) -> None:
    draw = rng(parts or 0)
    values = draw.random((5, 12)) if parts is None else draw.integers(0, parts + 1, (5, 12)) / parts
    used = draw.random((5, 12)) < 0.8 if gated else np.ones((5, 12), bool)
    reps = bootstrap.resample_scores(values, used, [slice(0, 12)], resamples=300, rng=rng(4)).by_dimension[0]
    counts = bootstrap.draw_counts(12, 300, rng(4))
    rows = list(zip(values, used, strict=True))
    want = [[np.average(v[u], weights=c[u]) if c[u].any() else np.nan for v, u in rows] for c in counts]
    np.testing.assert_allclose(reps, want, rtol=1e-12, atol=1e-15)


def test_a_gated_row_with_one_value_everywhere_has_the_very_same_mean_in_every_resample() -> None:
    used = rng(1).random((3, 30)) < 0.7
    values = np.repeat([[1 / 3], [2 / 3], [1 / 6]], 30, axis=1)
    reps = bootstrap.resample_scores(values, used, [slice(0, 30)], resamples=500, rng=rng()).overall
    assert (reps == np.array([1 / 3, 2 / 3, 1 / 6])).all()


def test_values_too_many_for_exact_sums_in_single_precision_are_not_counted_in_parts() -> None:
    assert bootstrap._common_unit(np.array([0.5, 1 / 3]), 1000) == 6
    assert bootstrap._common_unit(np.array([0.5, 1 / 3]), 2**22) is None
    assert bootstrap._common_unit(np.array([0.5, 1e6]), 30) is None
    assert bootstrap._common_unit(np.array([0.5, 1 / 7]), 30) is None


def test_a_resample_without_a_gated_task_is_nan_counted_and_left_out_of_the_interval() -> None:
    values, used = np.array([[0.5, 0.0, 0.0]]), np.array([[True, False, False]])
    reps = bootstrap.resample_scores(values, used, [slice(0, 3)], resamples=20_000, rng=rng())
    share = reps.n_empty[0, 0] / 20_000
    assert share == pytest.approx((2 / 3) ** 3, abs=0.02)
    assert bootstrap.percentile_interval(reps.overall) == (0.5, 0.5)
    never = bootstrap.resample_scores(values, ~used & False, [slice(0, 3)], resamples=50, rng=rng())
    assert np.isnan(bootstrap.percentile_interval(never.overall)).all()
    assert bootstrap.ends(never.overall[:, 0]) == (None, None)


def test_rows_that_draw_their_own_tasks_are_not_paired_and_never_empty() -> None:
    one = rng(3).random(20)
    values, used = np.vstack([one, one]), np.vstack([np.arange(20) < 1, np.ones(20, bool)])
    reps = bootstrap.resample_gated(values, used, [slice(0, 20)], resamples=400, rng=rng())
    assert (reps.by_dimension[0, :, 0] == one[0]).all() and not reps.n_empty.any()
    both = bootstrap.resample_gated(
        np.vstack([one, one]), np.ones((2, 20), bool), [slice(0, 20)], resamples=2000, rng=rng()
    )
    assert abs(np.corrcoef(both.overall.T)[0, 1]) < 0.1


@given(values=st.lists(st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3, 1.0]), min_size=1, max_size=40), shuffle=st.randoms())
def test_means_do_not_depend_on_the_order_of_tasks(values: list[float], shuffle) -> None:
    other = list(values)
    shuffle.shuffle(other)
    a, b = (
        bootstrap.dimension_means(np.array([v]), np.ones((1, len(v)), bool), [slice(0, len(v))])
        for v in (values, other)
    )
    assert a == b


def test_overall_is_the_mean_of_dimensions_and_undefined_where_one_is() -> None:
    by_dimension = np.array([[0.2, 0.4], [0.2, np.nan], [np.nan, np.nan]])
    np.testing.assert_equal(bootstrap.overall_means(by_dimension), [0.30000000000000004, np.nan, np.nan])
    np.testing.assert_equal(
        bootstrap.overall_means(by_dimension, skip_undefined=True), [0.30000000000000004, 0.2, np.nan]
    )


def test_the_p_value_and_the_interval_agree_at_the_edge() -> None:
    for shift in np.linspace(-3, 3, 25):
        draws = rng(4).normal(shift, 1, 4000)
        lo, hi = bootstrap.percentile_interval(draws)
        assert (bootstrap.two_sided_p(draws) < 0.05) == (lo > 0 or hi < 0)


def test_p_from_draws_has_a_floor_and_ties_count_on_both_sides() -> None:
    assert bootstrap.two_sided_p(np.full(1000, 0.3)) == 2 / 1000
    assert bootstrap.two_sided_p(np.zeros(1000)) == 1.0
    assert bootstrap.share_above_zero(np.array([1.0, 0.0, -1.0, np.nan])) == 0.5
    assert np.isnan(bootstrap.share_above_zero(np.array([np.nan])))


def test_correlations_over_rows_agree_with_numpy_and_are_undefined_for_constants() -> None:
    x, y = rng(1).random((4, 6)), rng(2).random((4, 6))
    want = [np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(bootstrap.row_correlations(x, y), want)
    assert np.isnan(bootstrap.row_correlations(np.ones((1, 5)), rng(1).random((1, 5)))).all()


@pytest.mark.parametrize("resamples", [0, 19, 2.5, True, "4000", None])
def test_a_number_of_resamples_that_gives_no_interval_is_refused(resamples) -> None:
    with pytest.raises(TableError, match="give a whole number of at least 20"):
        check_all(resamples=resamples)


# -- empty replicates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True, None])
def test_a_seed_that_numpy_does_not_take_is_refused_in_one_line(seed) -> None:
    with pytest.raises(TableError, match=f"seed is {seed!r}: give a whole number of at least 0"):
        check_all(seed=seed)


def test_more_than_5_percent_of_empty_replicates_give_no_interval_but_a_reason() -> None:
    draws = rng().normal(size=1000)
    draws[:50] = np.nan
    found = bootstrap.interval(draws)
    assert (found.lo, found.hi) == bootstrap.ends(draws) and (found.n_empty, found.reason) == (50, None)
    draws[50] = np.nan
    assert bootstrap.interval(draws) == (None, None, 51, "undefined in 5% of the resamples: no interval")


def test_a_weak_row_that_is_often_undefined_neither_moves_nor_narrows_the_mean_over_rows() -> None:
    points = np.array([0.6, 0.5, 0.4, 0.3, -0.5])
    moved = rng().normal(0, 0.05, (20_000, 1)) + rng(1).normal(0, 0.05, (20_000, 5))
    whole = points + moved
    holes = np.where((rng(2).random(20_000) < 0.4)[:, None] & (np.arange(5) == 4), np.nan, whole)
    truth = bootstrap.ends(whole.mean(axis=1))
    assert bootstrap.ends(bootstrap.filled(holes, points).mean(axis=1)) == pytest.approx(truth, abs=0.005)
    # The mean over the rows that are left would be that of other rows.
    assert bootstrap.ends(np.nanmean(holes, axis=1))[1] > truth[1] + 0.1


def test_rows_are_filled_in_by_hand_and_a_resample_of_few_rows_stays_empty() -> None:
    nan = math.nan
    got = bootstrap.filled(np.array([[1.0, 3.0, nan], [nan, nan, 4.0], [1.0, 1.0, 1.0]]), np.array([0.0, 1.0, 2.0]))
    # The first two rows moved by 1 and 2.
    np.testing.assert_array_equal(got, [[1.0, 3.0, 3.5], [nan, nan, nan], [1.0, 1.0, 1.0]])


# -- coverage ---------------------------------------------------------------------------------------------


def test_stored_coverage_of_overall_intervals_lies_between_92_and_97_percent() -> None:
    stored = json.loads(GOLDEN.read_text())
    assert stored["data_sets"] == 1000 and stored["resamples"] == 4000 and len(stored["rows"]) == 24
    assert 92 <= stored["coverage_pct"] <= 97
    mean = np.mean([row["coverage_pct"] for row in stored["rows"]])
    assert stored["coverage_pct"] == pytest.approx(mean, abs=0.01)


def test_the_first_data_sets_of_the_coverage_study_come_out_as_stored() -> None:
    stored = json.loads(GOLDEN.read_text())
    for i, row in enumerate(stored["first_data_sets"]):
        assert script("score_coverage").covered(i).astype(int).tolist() == row


@pytest.mark.study
def test_the_whole_coverage_study_comes_out_as_stored() -> None:
    stored = json.loads(GOLDEN.read_text())
    assert script("score_coverage").study(1000)["coverage_pct"] == pytest.approx(stored["coverage_pct"], abs=1e-9)
