"""The two-parameter model against published numbers and known truths, and its statistics of fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import StratifiedTable

from cilab.core.errors import TableError
from cilab.stats.methods import two_parameter as irt
from cilab.stats.methods.two_parameter import FLAT, Prior, expit, fit_two_parameter

#: Law School Admission Test, section 6: 1,000 answer patterns on five items with their counts (Bock & Lieberman 1970;
#: Thissen 1982), as printed in the manual of R's package ltm.
LSAT6 = """
00000 3 00001 6 00010 2 00011 11 00100 1 00101 1 00110 3 00111 4 01000 1 01001 8 01011 16 01101 3 01110 2 01111 15
10000 10 10001 29 10010 14 10011 81 10100 3 10101 28 10110 15 10111 80 11000 16 11001 56 11010 21 11011 173 11100 11
11101 61 11110 28 11111 298
"""


def lsat6() -> np.ndarray:
    words = LSAT6.split()
    counts = zip(words[::2], words[1::2], strict=True)
    return np.array([[float(c) for c in pattern] for pattern, n in counts for _ in range(int(n))])


def drawn(seed: int, rows: int, tasks: int, n: int = 1, typical: float = 1.4) -> tuple[np.ndarray, ...]:
    """Ability, slope, easiness, passes and runs of rows and tasks that the model describes."""
    rng = np.random.default_rng(seed)
    ability, slope = rng.normal(size=rows), np.exp(rng.normal(np.log(typical), 0.35, tasks))
    easiness = rng.normal(0.4, 1.2, tasks)
    passes = rng.binomial(n, expit(ability[:, None] * slope + easiness)).astype(float)
    return ability, slope, easiness, passes, np.full((rows, tasks), float(n))


# -- published numbers ------------------------------------------------------------------------------------


def test_lsat6_has_the_published_estimates_errors_and_likelihood() -> None:
    data = lsat6()
    assert data.sum(axis=0).tolist() == [924, 709, 553, 763, 870]
    found = fit_two_parameter(data, np.ones_like(data), FLAT)
    assert found.converged
    # R's ltm 1.0 on the same data: coef(ltm(LSAT ~ z1)) and its summary; 21 Gauss-Hermite points, hence the tolerance.
    np.testing.assert_allclose(found.slope, [0.8254, 0.7229, 0.8905, 0.6886, 0.6575], atol=1e-3)
    np.testing.assert_allclose(found.easiness, [2.7730, 0.9902, 0.2491, 1.2848, 2.0536], atol=1e-3)
    np.testing.assert_allclose(found.difficulty, [-3.3597, -1.3696, -0.2799, -1.8659, -3.1236], atol=4e-3)
    np.testing.assert_allclose(found.slope_se, [0.2581, 0.1867, 0.2326, 0.1852, 0.2100], atol=1e-3)
    np.testing.assert_allclose(found.difficulty_se, [0.8669, 0.3073, 0.0997, 0.4341, 0.8700], atol=4e-3)
    assert found.log_likelihood == pytest.approx(-2466.653, abs=2e-3)


def test_lsat6_with_one_slope_has_the_published_rasch_estimates() -> None:
    data = lsat6()
    found = fit_two_parameter(data, np.ones_like(data), Prior(0.0, mean_log_slope_sd=1e6, easiness_sd=None))
    # R's ltm: rasch(LSAT), log likelihood -2466.938, discrimination 0.7551 (0.0694).
    np.testing.assert_allclose(found.slope, 0.7551, atol=2e-4)
    np.testing.assert_allclose(found.slope_se, 0.0694, atol=2e-4)
    np.testing.assert_allclose(found.difficulty, [-3.6153, -1.3224, -0.3176, -1.7301, -2.7802], atol=5e-4)
    np.testing.assert_allclose(found.difficulty_se, [0.3266, 0.1422, 0.0977, 0.1691, 0.2510], atol=5e-4)
    assert found.log_likelihood == pytest.approx(-2466.938, abs=1e-3)


def test_the_abilities_of_lsat6_patterns_are_those_published() -> None:
    data = lsat6()
    found = fit_two_parameter(data, np.ones_like(data), FLAT)
    modes = irt._modes(found, data, np.ones_like(data))
    # ltm's factor.scores (empirical Bayes modes): 00000 -1.895, 11011 -0.022, 11111 0.606.
    for pattern, wanted in (("00000", -1.895), ("11011", -0.022), ("11111", 0.606)):
        (row, *_) = np.flatnonzero((data == [float(c) for c in pattern]).all(axis=1))
        assert modes[row] == pytest.approx(wanted, abs=2e-3)


# -- the fit ----------------------------------------------------------------------------------------------


def test_the_gradient_is_zero_at_the_estimates_and_the_information_its_slope() -> None:
    *_, passes, runs = drawn(3, 40, 6, n=3)
    prior = Prior()
    found = fit_two_parameter(passes, runs, prior)
    # The mean of log slopes at the mode: sum (log slope - mean) / spread^2 = mean / sd^2.
    mean = np.log(found.slope).sum() / 0.25 / (6 / 0.25 + 1)
    at = np.concatenate([found.easiness, np.log(found.slope), [mean]])

    def slopes(x: np.ndarray) -> np.ndarray:
        point = irt._Point(x[:6], x[6:12], x[12])
        return irt._derivatives(passes, runs, point, irt._objective(passes, runs, point, prior)[1], prior)[0]

    def value(x: np.ndarray) -> float:
        return irt._objective(passes, runs, irt._Point(x[:6], x[6:12], x[12]), prior)[0]

    assert np.abs(slopes(at)).max() < 1e-5
    moved = at + np.random.default_rng(0).normal(0, 0.2, 13)
    step = 1e-5 * np.eye(13)
    np.testing.assert_allclose(
        slopes(moved), [(value(moved + s) - value(moved - s)) / 2e-5 for s in step], rtol=1e-5, atol=1e-5
    )
    second = -np.array([(slopes(at + s) - slopes(at - s)) / 2e-5 for s in step])
    np.testing.assert_allclose(found.covariance, np.linalg.inv(second)[:12, :12], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("rows", "n"), [(24, 3), (300, 1)])
def test_a_known_truth_is_recovered_within_its_errors(rows: int, n: int) -> None:
    inside, ability_r, ratio = [], [], []
    for seed in range(6):
        ability, slope, easiness, passes, runs = drawn(seed, rows, 20, n)
        found = fit_two_parameter(passes, runs)
        z = np.concatenate([(found.easiness - easiness) / found.easiness_se, (found.slope - slope) / found.slope_se])
        inside.append(np.abs(z) < 1.96)
        ability_r.append(np.corrcoef(found.ability, ability)[0, 1])
        ratio.append(found.slope.mean() / slope.mean())
    # 240 intervals: three standard errors of a share of 0.95 are 0.042. With 24 rows the scale of ability is theirs.
    assert np.mean(inside) > (0.90 if rows == 24 else 0.905)
    assert np.min(ability_r) > 0.9 and np.mean(ratio) == pytest.approx(1, abs=0.12)


def test_priors_keep_estimates_finite_where_all_or_none_pass() -> None:
    passes = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    found = fit_two_parameter(passes, np.ones((3, 4)))
    assert found.converged and np.isfinite(found.covariance).all()
    assert (found.slope > 0.05).all() and (found.slope < 20).all() and (np.abs(found.easiness) < 10).all()
    assert (found.slope_se > 0.1).all() and (found.easiness_se > 0.3).all()


@given(seed=st.integers(0, 200), n=st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_the_order_of_rows_and_of_tasks_does_not_matter(seed: int, n: int) -> None:
    *_, passes, runs = drawn(seed, 12, 7, n)
    one, other = fit_two_parameter(passes, runs), fit_two_parameter(passes[::-1, ::-1], runs)
    np.testing.assert_allclose(one.slope, other.slope[::-1], rtol=1e-6)
    np.testing.assert_allclose(one.ability, other.ability[::-1], atol=1e-6)


def test_half_of_the_runs_do_not_enter_and_nothing_is_refused() -> None:
    *_, passes, runs = drawn(5, 200, 10)
    runs[100:, :5] = 0
    passes[runs == 0] = 0
    found = fit_two_parameter(passes, runs)
    # A task's error grows as its runs go.
    assert found.easiness_se[:5].mean() > 1.2 * found.easiness_se[5:].mean()
    with pytest.raises(TableError, match="nothing to fit"):
        fit_two_parameter(np.zeros((2, 2)), np.zeros((2, 2)))


def test_information_is_the_curvature_of_the_likelihood() -> None:
    *_, passes, runs = drawn(2, 50, 5)
    found = fit_two_parameter(passes, runs)
    at, step = np.array([0.3]), 1e-4

    def expected(ability: np.ndarray) -> np.ndarray:
        """Of the log likelihood at this ability, where 0.3 is true."""
        p, true = found.probability(ability), found.probability(at)
        return true * np.log(p) + (1 - true) * np.log(1 - p)

    second = (expected(at + step) - 2 * expected(at) + expected(at - step)) / step**2
    np.testing.assert_allclose(found.information(at), -second, rtol=1e-4)


# -- repeats ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alike", [0.0, 0.3, 1.0])
def test_the_correlation_of_repeats_is_found(alike: float) -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.1, 0.9, (200, 40))
    same = rng.random(p.shape) < alike
    runs = np.where(same[..., None], rng.random((*p.shape, 1)) < p[..., None], rng.random((*p.shape, 3)) < p[..., None])
    k = runs.sum(axis=2).astype(float)
    # With probability `alike` the three are one draw: their correlation is `alike`.
    assert irt.repeat_correlation(k, k, np.full(p.shape, 3.0), p) == pytest.approx(alike, abs=0.02)
    assert irt.effective_runs(np.array([3.0, 1.0, 0.0]), alike) == pytest.approx([3 / (1 + 2 * alike), 1, 0])


def test_without_repeats_nothing_is_known_of_their_correlation() -> None:
    one = np.ones((3, 2))
    assert irt.repeat_correlation(one, one, one, np.full((3, 2), 0.5)) == 0.0


# -- fit of items and rows --------------------------------------------------------------------------------


def test_mean_squares_are_those_worked_by_hand_where_abilities_are_known() -> None:
    # Three rows at abilities -1.05, 0, 1.05; two tasks with slope 1, easiness 0 and 1; each posterior on one node.
    at = [int(np.argmin(np.abs(irt._NODES - a))) for a in (-1.05, 0, 1.05)]
    posterior = np.eye(len(irt._NODES))[at]
    model = irt.TwoParameter(
        np.ones(2), np.array([0.0, 1.0]), np.eye(4), np.array([-1.0, 0, 1]), np.zeros(3), posterior, 0.0, True
    )
    passes = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = irt.mean_squares(model, passes, np.ones((3, 2)))
    p = expit(np.array([[-1.05], [0], [1.05]]) + np.array([0.0, 1.0]))
    square, variance = (passes - p) ** 2, p * (1 - p)
    np.testing.assert_allclose(found.infit, square.sum(axis=0) / variance.sum(axis=0))
    np.testing.assert_allclose(found.outfit, (square / variance).mean(axis=0))


def test_a_mean_square_is_one_at_the_truth() -> None:
    _, slope, easiness, passes, runs = drawn(4, 2000, 8, n=2)
    at = irt._Point(easiness, np.log(slope), 0.0)
    posterior = irt._log_likelihood(passes, runs, at)[1]
    model = irt.TwoParameter(slope, easiness, np.eye(16), np.zeros(2000), np.ones(2000), posterior, 0.0, True)
    found = irt.mean_squares(model, passes, runs)
    assert np.mean(found.infit) == pytest.approx(1, abs=0.02)
    assert np.mean(found.outfit) == pytest.approx(1, abs=0.05)


def test_fit_is_flagged_where_it_should_be_and_seldom_elsewhere() -> None:
    """24 rows, 30 tasks, 2 runs: at 5 % among all pairs, few regular data sets have a flagged pair."""
    from cilab.stats.methods.distributions import t_two_sided
    from cilab.stats.methods.hypothesis_tests import adjust

    pair = np.triu_indices(20, 1)
    flagged, beyond, twins = [], [], []
    for seed in range(8):
        *_, passes, runs = drawn(seed, 24, 20, n=2)
        for copy in (False, True):
            if copy:  # the second task is the first one again
                passes = passes.copy()
                passes[:, 1] = passes[:, 0]
            found = irt.standardised_fit(
                fit_two_parameter(passes, runs),
                passes,
                runs,
                n_runs=runs.astype(int),
                correlation=0.0,
                simulations=100,
                rng=np.random.default_rng(seed),
            )
            p = [t_two_sided(z, 22) for z in found.q3[pair]]
            adjusted = [a is not None and a < 0.05 for a in adjust(p).adjusted]
            if copy:
                twins.append(adjusted[0])
            else:
                flagged.append(any(adjusted))
                beyond.append(np.nanmean(np.abs(found.q3[pair]) > 2))
    assert np.mean(flagged) <= 0.25 and np.mean(beyond) == pytest.approx(0.05, abs=0.025)
    assert np.mean(twins) >= 0.7


def test_lz_is_about_standard_normal_and_low_for_a_row_that_guesses() -> None:
    found, guessed = [], []
    for seed in range(8):
        *_, passes, runs = drawn(seed, 60, 40)
        found.append(irt.person_fit(fit_two_parameter(passes, runs), passes, runs))
        passes[0] = np.random.default_rng([seed, 9]).permutation(passes[0])
        guessed.append(irt.person_fit(fit_two_parameter(passes, runs), passes, runs)[0])
    lz = np.concatenate(found)
    assert lz.mean() == pytest.approx(0.1, abs=0.15) and lz.std() == pytest.approx(1, abs=0.1)
    assert np.mean(lz < -1.645) == pytest.approx(0.05, abs=0.025)
    assert np.median(guessed) < -1.645


def test_lz_has_the_formula_of_snijders() -> None:
    *_, passes, runs = drawn(1, 30, 12)
    model = fit_two_parameter(passes, runs)
    theta = irt._modes(model, passes, runs)[4]
    p = expit(theta * model.slope + model.easiness)
    dp, w, r = model.slope * p * (1 - p), np.log(p / (1 - p)), model.slope
    c = (dp * w).sum() / (dp * r).sum()
    # Snijders (2001), with r0 = -theta for the mode under a standard normal prior.
    wanted = (((passes[4] - p) * w).sum() + c * -theta) / np.sqrt(((w - c * r) ** 2 * p * (1 - p)).sum())
    assert irt.person_fit(model, passes, runs)[4] == pytest.approx(wanted)


def test_q3_is_pearsons_r_of_residuals_over_the_rows_with_both() -> None:
    *_, passes, runs = drawn(6, 40, 5)
    runs[:9, 1] = 0
    passes[runs == 0] = 0
    model = fit_two_parameter(passes, runs)
    found = irt.residual_correlations(model, passes, runs)
    residual = passes - model.posterior @ model.probability(model.nodes)
    assert found.q3[1, 3] == pytest.approx(np.corrcoef(residual[9:, 1], residual[9:, 3])[0, 1])
    assert found.q3[0, 3] == pytest.approx(np.corrcoef(residual[:, 0], residual[:, 3])[0, 1])
    assert (found.n_rows[1, 3], found.n_rows[0, 3]) == (31, 40)


# -- groups -----------------------------------------------------------------------------------------------


def test_mantel_haenszel_agrees_with_statsmodels() -> None:
    rng = np.random.default_rng(7)
    group, stratum = rng.random(80) < 0.4, rng.integers(0, 6, 80)
    passes = (rng.random(80) < 0.4 + 0.2 * group).astype(float)
    found = irt.mantel_haenszel(passes, np.ones(80), group, stratum)
    tables = [
        np.array([[((group == g) & (passes == y) & (stratum == s)).sum() for y in (1, 0)] for g in (True, False)])
        for s in range(6)
    ]
    other = StratifiedTable(tables)
    assert found.log_odds_ratio == pytest.approx(other.logodds_pooled)
    assert found.se == pytest.approx(other.logodds_pooled_se)


def test_the_logistic_difference_is_statsmodels_where_abilities_are_known() -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(8)
    at = rng.integers(40, 120, 400)
    ability, group = irt._NODES[at], rng.random(400) < 0.3
    passes = (rng.random(400) < expit(1.3 * ability + 0.4 - 0.8 * group)).astype(float)[:, None]
    posterior = np.eye(len(irt._NODES))[at]
    model = irt.TwoParameter(np.array([1.3]), np.array([0.4]), np.eye(2), ability, np.zeros(400), posterior, 0.0, True)
    found = irt.logistic_differences(model, passes, np.ones_like(passes), group)
    design = sm.add_constant(group.astype(float))
    full = sm.Logit(passes[:, 0], design, offset=1.3 * ability).fit(disp=0)
    plain = sm.Logit(passes[:, 0], design[:, :1], offset=1.3 * ability).fit(disp=0)
    # The prior of a difference (3 logits) moves it by less than a hundredth of its value.
    assert found.log_odds_ratio[0] == pytest.approx(full.params[1], rel=0.015)
    assert found.se[0] == pytest.approx(full.bse[1], rel=0.01)
    from scipy import stats

    assert found.p[0] == pytest.approx(stats.chi2.sf(2 * (full.llf - plain.llf), 1), rel=0.05)


def test_a_difference_between_groups_is_found_and_none_is_seldom_invented() -> None:
    small, sizes = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = np.arange(24) < 8
        ability = rng.normal(size=24) - 0.8 * group  # the group is weaker: that is no difference at equal ability
        slope, easiness = np.exp(rng.normal(0.3, 0.2, 20)), rng.normal(0.3, 1.0, 20)
        eta = ability[:, None] * slope + easiness
        eta[:, 0] -= 2.5 * group
        passes = rng.binomial(3, expit(eta)).astype(float)
        runs = np.full(eta.shape, 3.0)
        found = irt.logistic_differences(fit_two_parameter(passes, runs), passes, runs, group)
        small.append(np.nanmean(found.p[1:] < 0.05))
        sizes.append(found.log_odds_ratio[0])
    assert np.mean(small) < 0.07
    # The task itself enters the abilities, which takes a little of the difference away.
    assert np.mean(sizes) == pytest.approx(-2.2, abs=0.5)


def test_a_task_that_all_pass_has_no_difference() -> None:
    passes = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    group = np.array([True, True, False, False])
    found = irt.logistic_differences(fit_two_parameter(passes, np.ones((4, 2))), passes, np.ones((4, 2)), group)
    assert np.isnan(found.p[0]) and np.isfinite(found.p[1])
    assert np.isnan(irt.mantel_haenszel(passes[:, 0], np.ones(4), group, np.zeros(4, dtype=np.int64)).p)
