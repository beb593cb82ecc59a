"""Cluster bootstrap and cluster-robust errors: against R sandwich, against statsmodels with the same draws, by hand."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import TableError
from cilab.stats.methods import cluster as cl

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "golden"
CONTROLS = (
    "starter_tier",
    "follower_tier",
    "starter_family",
    "follower_family",
    "homogeneous",
    "same_family",
    "path_length",
    "log_tokens",
)
MEDIUM = {"starter_tier": "medium", "follower_tier": "medium"}


def simulated() -> pl.DataFrame:
    """The clustered data set that was made for this project, with R's results beside it."""
    frame = pl.read_csv(GOLDEN / "mediation_clustered.csv")
    return frame.with_columns(pl.col("tokens").log().alias("log_tokens"))


def small(n_clusters: int = 12, rows: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, cl.Clusters]:
    """Design (intercept, number, dummy), outcome and clusters with an effect of the cluster."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_clusters), rows)
    x = rng.normal(size=len(codes)) + rng.normal(size=n_clusters)[codes]
    d = (rng.random(len(codes)) < 0.4).astype(float)
    y = 1 + 0.5 * x - d + rng.normal(size=n_clusters)[codes] + rng.normal(size=len(codes))
    return np.column_stack([np.ones_like(x), x, d]), y, cl.Clusters(codes, tuple(range(n_clusters)))


def ols(matrix: np.ndarray, y: np.ndarray, groups: cl.Clusters) -> cl.LinearFit:
    """Least squares on columns as they are."""
    columns = cl.standardised(matrix)
    return cl.ols(columns, columns.z.T @ columns.z, y, groups)


def linear_draws(
    matrix: np.ndarray, y: np.ndarray, groups: cl.Clusters, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of a linear model in every replicate, (replicates, columns), and which columns were passed over.

    By the elimination that solves the replicates of mediation; NaN where a replicate does not determine a coefficient.
    """
    z, mean, sd = cl.standardised(matrix)
    shift = y.mean()
    k = matrix.shape[1]
    products = cl.grams(np.column_stack([z, y - shift]), groups.codes, groups.n)
    draws, dropped = np.empty((len(counts), k)), np.empty((len(counts), k), bool)
    for part in cl.chunks(len(counts)):
        gram = cl.matrices(cl.product(products, counts[part].T), k + 1, k + 1)
        upper, kept = cl.eliminate(gram, k)
        b = cl.back_substitute(upper, kept, k, k).T
        draws[part] = b / sd
        draws[part, 0] = b[:, 0] + shift - (b[:, 1:] * (mean[1:] / sd[1:])).sum(axis=1)
        dropped[part] = ~kept.T
    for r in np.flatnonzero(dropped.any(axis=1)):
        gram = cl.symmetric(cl.matrices((products @ counts[r])[:, None], k + 1, k + 1))[0, :k, :k]
        draws[r, cl._undefined(gram, mean, sd)] = np.nan
    return draws, dropped


# -- standard errors


def test_coefficients_and_hc1_errors_of_the_simulated_data_are_those_of_r_sandwich() -> None:
    golden = json.loads((GOLDEN / "mediation_clustered.json").read_text())
    frame, groups = simulated(), cl.clusters(simulated()["pair"])
    controls = cl.design(frame, CONTROLS, MEDIUM).matrix
    x, m, y = (frame[c].to_numpy().astype(float) for c in ("grounding", "global_strategy", "outcome"))
    first = ols(np.column_stack([controls, x]), m, groups)
    second = ols(np.column_stack([controls, x, m]), y, groups)
    third = ols(np.column_stack([controls, x, m, x * m]), y, groups)
    got = {"m": first.se[-1], "b": second.se[-1], "direct": second.se[-2], "synergy": third.se[-1]}
    for name, value in golden["cluster_se"].items():
        assert got[name] == pytest.approx(value, rel=1e-6), name
    assert first.coef[-1] == pytest.approx(golden["a"], rel=1e-6)
    assert third.coef[-1] == pytest.approx(golden["synergy_b2"], rel=1e-6)


@pytest.mark.skipif(not (SHARED / "petersen_first100.csv").exists(), reason="GPL data stand beside the checkout only")
def test_petersen_data_have_the_errors_of_r_sandwich_and_its_bootstrap() -> None:
    golden = json.loads((SHARED / "cluster_ols.json").read_text())
    lines = [line.split(",") for line in (SHARED / "petersen_first100.csv").read_text().splitlines()[1:]]
    firm, x, y = (np.array([float(line[i]) for line in lines]) for i in (0, 2, 3))
    groups = cl.clusters(pl.Series("firm", firm.astype(int)))
    fit = ols(np.column_stack([np.ones_like(x), x]), y, groups)
    np.testing.assert_allclose(fit.coef, golden["coef"], rtol=1e-9)
    np.testing.assert_allclose(fit.se, golden["se_cluster_HC1"], rtol=1e-9)
    draws, _ = linear_draws(np.column_stack([np.ones_like(x), x]), y, groups, groups.counts(4000, 7))
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), golden["pairs_cluster_boot"]["se"], rtol=0.04)
    ends = np.array([cl.summarise(column)[:2] for column in draws.T]).T
    np.testing.assert_allclose(ends, golden["pairs_cluster_boot"]["ci"], atol=0.03)


@pytest.mark.skipif(not (SHARED / "jobs.csv").exists(), reason="GPL data stand beside the checkout only")
def test_jobs_data_have_the_cluster_errors_of_r_in_every_coefficient() -> None:
    golden = json.loads((SHARED / "mediation_jobs.json").read_text())
    frame = pl.read_csv(SHARED / "jobs.csv")
    groups = cl.clusters(pl.Series("group", np.repeat(np.arange(30), 30)[1:]))
    for outcome, terms, name in (
        ("job_seek", ["treat", "econ_hard", "sex", "age"], "m"),
        ("depress2", ["treat", "job_seek", "econ_hard", "sex", "age"], "y"),
    ):
        fit = ols(cl.design(frame, terms).matrix, frame[outcome].to_numpy(), groups)
        np.testing.assert_allclose(fit.coef, [v[0] for v in golden[f"model_{name}"].values()], rtol=1e-9)
        np.testing.assert_allclose(fit.se, golden[f"clusterSE_{name}"], rtol=1e-9)


def test_ols_agrees_with_statsmodels_in_the_whole_covariance() -> None:
    import statsmodels.api as sm

    matrix, y, groups = small(seed=3)
    near = 1e3 * matrix[:, 1] + np.random.default_rng(0).normal(size=len(y))  # R squared 0.999999
    matrix = np.column_stack([matrix, near])
    theirs = sm.OLS(y, matrix).fit(cov_type="cluster", cov_kwds={"groups": groups.codes})
    fit = ols(matrix, y, groups)
    np.testing.assert_allclose(fit.coef, theirs.params, rtol=1e-8)
    np.testing.assert_allclose(fit.se, theirs.bse, rtol=1e-8)
    assert fit.rss == pytest.approx(theirs.ssr, rel=1e-9)


@pytest.mark.parametrize(("n_clusters", "rows"), [(12, 8), (3, 1), (2, 40)])
def test_linear_errors_are_the_sandwich_worked_cluster_by_cluster(n_clusters: int, rows: int) -> None:
    # With as many columns as rows the factor (n - 1) / (n - k) does not exist and is left out.
    matrix, y, groups = small(n_clusters, rows, seed=6)
    n, k = matrix.shape
    fit = ols(matrix, y, groups)
    bread = np.linalg.inv(matrix.T @ matrix)
    coef = bread @ matrix.T @ y
    sums = [matrix[groups.codes == c].T @ (y - matrix @ coef)[groups.codes == c] for c in range(n_clusters)]
    meat = np.sum([np.outer(s, s) for s in sums], axis=0)
    factor = n_clusters / (n_clusters - 1) * ((n - 1) / (n - k) if n > k else 1)
    np.testing.assert_allclose(fit.coef, coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.vcov, factor * bread @ meat @ bread, rtol=1e-9, atol=1e-12)


def test_estimates_are_the_replicate_that_draws_every_cluster_once() -> None:
    # Replicates have a solver of their own, the logit of all rows is from statsmodels.
    for seed in range(5):
        matrix, y, groups = small(seed=seed)
        once = np.ones((1, groups.n))
        linear = ols(matrix, y, groups)
        np.testing.assert_allclose(linear_draws(matrix, y, groups, once)[0][0], linear.coef, rtol=1e-9, atol=1e-11)
        matrix, y, groups = binary(seed=seed)
        data = cl.cells(matrix, y, groups)
        once = np.ones((1, groups.n))
        found = cl.bootstrap_logit(data, groups, once, np.zeros(3))[0][0]
        np.testing.assert_allclose(found, cl.logit(data, groups).coef, rtol=1e-9, atol=1e-10)


# -- linear bootstrap


def test_every_replicate_is_the_refit_of_the_drawn_rows() -> None:
    import statsmodels.api as sm

    matrix, y, groups = small(seed=1)
    counts = groups.counts(30, 5)
    draws, dropped = linear_draws(matrix, y, groups, counts)
    assert not dropped.any()
    for row, times in zip(draws, counts, strict=True):
        index = np.repeat(np.arange(len(y)), times[groups.codes].astype(int))
        np.testing.assert_allclose(row, sm.OLS(y[index], matrix[index]).fit().params, rtol=1e-8, atol=1e-10)


def test_more_replicates_than_are_solved_at_once_give_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, y, groups = small(seed=2)
    counts = groups.counts(70, 1)
    whole = linear_draws(matrix, y, groups, counts)[0]
    monkeypatch.setattr(cl, "_CHUNK", 32)
    np.testing.assert_allclose(linear_draws(matrix, y, groups, counts)[0], whole, rtol=1e-12)


def test_draws_depend_on_the_labels_and_not_on_the_order_of_rows() -> None:
    matrix, y, groups = small(seed=4)
    order = np.random.default_rng(9).permutation(len(y))
    shuffled = cl.Clusters(groups.codes[order], groups.labels)
    counts = groups.counts(50, 3)
    np.testing.assert_allclose(
        linear_draws(matrix[order], y[order], shuffled, counts)[0],
        linear_draws(matrix, y, groups, counts)[0],
        rtol=1e-9,
        atol=1e-12,
    )


def test_a_column_without_variation_in_a_replicate_is_dropped_there_and_only_its_coefficient_is_undefined() -> None:
    matrix, y, groups = small(seed=5)
    rare = (groups.codes == 0).astype(float) * (np.arange(len(y)) % 2)
    matrix = np.column_stack([matrix, rare])
    counts = np.ones((2, groups.n))
    counts[1, 0], counts[1, 1] = 0, 2
    draws, dropped = linear_draws(matrix, y, groups, counts)
    assert dropped.tolist() == [[False] * 4, [False, False, False, True]]
    assert np.isnan(draws[1]).tolist() == [False, False, False, True]
    index = np.repeat(np.arange(len(y)), counts[1][groups.codes].astype(int))
    refit = np.linalg.lstsq(matrix[index, :3], y[index], rcond=None)[0]
    np.testing.assert_allclose(draws[1, :3], refit, rtol=1e-9)


def test_where_a_reference_level_is_never_drawn_all_levels_and_the_intercept_are_undefined() -> None:
    rng = np.random.default_rng(0)
    groups = cl.Clusters(np.repeat(np.arange(6), 5), tuple(range(6)))
    level = groups.codes // 2
    x = rng.normal(size=30)
    matrix = np.column_stack([np.ones(30), level == 1, level == 2, x]).astype(float)
    counts = np.array([[0.0, 0, 2, 1, 2, 1]])
    draws, dropped = linear_draws(matrix, rng.normal(size=30), groups, counts)
    assert dropped.sum() == 1
    assert np.isnan(draws[0]).tolist() == [True, True, True, False]


def test_counts_of_a_replicate_sum_to_the_number_of_clusters_and_follow_the_seed() -> None:
    _, _, groups = small()
    counts = groups.counts(500, 1)
    assert (counts.sum(axis=1) == groups.n).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(groups.n), abs=0.2)
    assert (counts == groups.counts(500, 1)).all()
    assert (counts != groups.counts(500, 2)).any()


# -- logit


def test_logit_coefficients_and_errors_are_those_of_r() -> None:
    golden = json.loads((GOLDEN / "mediation_clustered.json").read_text())
    frame, groups = simulated(), cl.clusters(simulated()["pair"])
    columns = cl.design(frame, ("homogeneous", "same_family", *CONTROLS[:4]), MEDIUM)
    data = cl.cells(columns.matrix, frame["disagreement"].to_numpy().astype(float), groups)
    assert len(data.weight) == 53
    fit = cl.logit(data, groups)
    names = [n.replace("=", "").replace("intercept", "(Intercept)") for n in columns.names]
    assert sorted(names) == sorted(golden["logit_odds_ratios"])
    for name, coef, se in zip(names, fit.coef, fit.se, strict=True):
        assert np.exp(coef) == pytest.approx(golden["logit_odds_ratios"][name], rel=1e-6), name
        assert se == pytest.approx(golden["logit_cluster_se"][name], rel=1e-6), name
    assert fit.separated == ()


def binary(seed: int = 0, rows: int = 12) -> tuple[np.ndarray, np.ndarray, cl.Clusters]:
    matrix, y, groups = small(n_clusters=15, rows=rows, seed=seed)
    rng = np.random.default_rng(seed + 100)
    chance = 1 / (1 + np.exp(-(0.3 * matrix[:, 1] - 0.5 * matrix[:, 2])))
    return matrix.round(1), np.mean([rng.random(len(y)) < chance, rng.random(len(y)) < chance], axis=0), groups


def test_every_logit_replicate_is_the_statsmodels_refit_of_the_drawn_rows() -> None:
    import statsmodels.api as sm

    matrix, y, groups = binary(seed=1)
    data = cl.cells(matrix, y, groups)
    fit = cl.logit(data, groups)
    counts = groups.counts(20, 8)
    draws, _ = cl.bootstrap_logit(data, groups, counts, fit.coef)
    for row, times in zip(draws, counts, strict=True):
        index = np.repeat(np.arange(len(y)), times[groups.codes].astype(int))
        theirs = sm.GLM(y[index], matrix[index], family=sm.families.Binomial()).fit(tol=1e-12)
        np.testing.assert_allclose(row, theirs.params, rtol=1e-6, atol=1e-9)


def test_the_fit_of_cells_is_the_fit_of_rows() -> None:
    matrix, y, groups = binary(seed=2)
    data = cl.cells(matrix, y, groups)
    assert len(data.weight) < len(y)
    assert data.weight.sum() == len(y) and data.total.sum() == pytest.approx(y.sum())
    rows = cl.Cells(matrix, np.ones(len(y)), y, groups.codes)
    ours, theirs = cl.logit(data, groups), cl.logit(rows, groups)
    np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.se, theirs.se, rtol=1e-8)


def test_firth_estimates_maximise_the_penalised_likelihood() -> None:
    from scipy.optimize import minimize

    matrix, y, groups = binary(seed=3)
    separated = np.column_stack([matrix, (groups.codes == 0) & (y == 1)]).astype(float)
    data = cl.cells(separated, y, groups)

    def loss(b: np.ndarray) -> float:
        p = 1 / (1 + np.exp(-separated @ b))
        information = (separated * (p * (1 - p))[:, None]).T @ separated
        return -(y @ np.log(p) + (1 - y) @ np.log(1 - p)) - 0.5 * np.linalg.slogdet(information)[1]

    fit = cl.logit(data, groups, firth=True)
    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(fit.coef, best.x, atol=1e-4)
    assert loss(fit.coef) <= best.fun + 1e-9
    assert cl.logit(data, groups).separated == (3,)


@pytest.mark.parametrize(
    ("x", "y", "separated"),
    [
        ([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1], True),  # complete: other programs give slopes of 42 and 47
        ([1, 2, 3, 3, 5, 6], [0, 0, 0, 1, 1, 1], True),  # quasi-complete: only x = 3 has both
        ([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 1, 1], False),
        ([1, 2, 3, 4, 5, 6], [0, 0, 0.5, 1, 1, 1], True),  # a fraction at one x does not bound the slope
        ([1, 2, 3, 4, 5, 6], [0, 0.5, 0.5, 1, 1, 1], False),  # at two it does
        ([1, 2, 3, 4, 5, 6], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9], False),
        ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 1, 1], True),  # a level without a single 0
    ],
)
def test_separation_is_decided_as_by_hand(x: list[float], y: list[float], separated: bool) -> None:
    matrix = np.column_stack([np.ones(6), x])
    groups = cl.Clusters(np.arange(6), tuple(range(6)))
    fit = cl.logit(cl.cells(matrix, np.array(y, float), groups), groups)
    assert (1 in fit.separated) == separated
    assert bool(fit.separated) == separated


def test_a_steep_slope_that_exists_is_not_taken_for_separation() -> None:
    x = np.repeat([0.0, 1.0], 5000)
    y = np.r_[np.zeros(4999), 1, np.ones(4999), 0]
    groups = cl.Clusters(np.arange(10_000) % 20, tuple(range(20)))
    fit = cl.logit(cl.cells(np.column_stack([np.ones_like(x), x]), y, groups), groups)
    assert fit.separated == ()
    assert fit.coef[1] == pytest.approx(2 * np.log(4999), rel=1e-6)


def test_an_outlier_with_fitted_log_odds_of_hundreds_does_not_stop_the_estimate() -> None:
    x = np.array([-1.0, 0.0, 0.9, 1.0, 1.1, 1.2, 2.0, 200.0])
    y = np.array([0.0, 0, 1, 0, 1, 0, 1, 1])
    matrix = np.column_stack([np.ones_like(x), x])
    groups = cl.Clusters(np.arange(8), tuple(range(8)))
    fit = cl.logit(cl.cells(matrix, y, groups), groups)
    assert fit.separated == ()
    eta = matrix @ fit.coef
    assert eta.max() > 100
    np.testing.assert_allclose(matrix.T @ (y - 1 / (1 + np.exp(-eta))), 0, atol=1e-8)


def test_a_separated_replicate_is_undefined_in_whole() -> None:
    codes = np.repeat(np.arange(4), 6)
    x = np.tile([0.0, 0, 0, 1, 1, 1], 4)
    y = x.copy()
    y[codes == 3] = [1, 0, 1, 0, 1, 0]
    groups = cl.Clusters(codes, (0, 1, 2, 3))
    data = cl.cells(np.column_stack([np.ones_like(x), x]), y, groups)
    fit = cl.logit(data, groups)
    assert fit.separated == ()
    draws, _ = cl.bootstrap_logit(data, groups, np.array([[1.0, 1, 1, 1], [2, 1, 1, 0]]), fit.coef)
    assert np.isnan(draws[1]).all()
    np.testing.assert_allclose(draws[0], fit.coef, atol=1e-8)
    finite, _ = cl.bootstrap_logit(data, groups, np.array([[2.0, 1, 1, 0]]), fit.coef, firth=True)
    assert np.isfinite(finite).all()


# -- what draws say


@given(
    st.lists(st.floats(-5, 5, allow_nan=False).map(lambda v: round(v, 2)), min_size=40, max_size=400),
    st.sampled_from([0.8, 0.9, 0.95]),
)
@settings(max_examples=200, deadline=None)
def test_interval_and_p_value_never_disagree(values: list[float], level: float) -> None:
    found = cl.summarise(np.array(values), level)
    leaves_out_zero = found.lo > 0 or found.hi < 0
    assert leaves_out_zero == (found.p < 1 - level - 1e-12)
    assert 2 / len(values) <= found.p <= 1


def test_summary_is_that_worked_by_hand() -> None:
    draws = np.r_[np.arange(-3.0, 97.0), np.nan]  # 100 draws: 3 below 0, 0 itself, 96 above
    found = cl.summarise(draws)
    assert (found.lo, found.hi) == (-1.0, 94.0)  # the third from either end: 100 x 0.025 rounded up
    assert found.p == pytest.approx(0.08)
    assert found.n == 100
    assert cl.summarise(np.full(50, 0.3))[:3] == (0.3, 0.3, 0.04)
    assert cl.summarise(-np.arange(1.0, 1001.0)).p == pytest.approx(0.002)


def test_more_than_five_percent_undefined_fails_with_the_share() -> None:
    draws = np.ones(100)
    draws[:5] = np.nan
    cl.refuse_undefined({"slope": draws}, "why")
    draws[5] = np.nan
    with pytest.raises(TableError, match=r"slope is undefined in 6\.0 % of the 100 replicates, more than 5 %: why"):
        cl.refuse_undefined({"slope": draws, "other": np.ones(100)}, "why")


# -- bad input


def test_a_missing_cluster_label_is_refused() -> None:
    with pytest.raises(TableError, match="cluster pair: 2 of 4 rows have no label"):
        cl.clusters(pl.Series("pair", ["a", None, "b", None]))
    with pytest.raises(TableError, match="1 of 3 rows have no label"):
        cl.clusters(pl.Series("pair", [1.0, float("nan"), 2.0]))
    with pytest.raises(TableError, match="only one cluster"):
        cl.clusters(pl.Series("pair", ["a", "a"]))


def test_fewer_than_ten_clusters_are_warned_of_and_ten_are_not() -> None:
    def check(n: int) -> None:
        cl.warn_if_few(cl.clusters(pl.Series("pair", list(range(n)))), "pair")

    with pytest.warns(cl.FewClustersWarning, match="only 9 clusters"):
        check(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(10)


def test_redundant_columns_are_named_with_what_they_follow_from() -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"u": rng.normal(size=20), "v": rng.normal(size=20), "k": np.full(20, 3.0)})
    frame = frame.with_columns((2 * pl.col("u") - pl.col("v") + 5).alias("w"))
    columns = cl.design(frame, ["u", "v", "w", "k"])
    assert cl.redundant(columns.matrix, columns.names) == {3: "is a combination of u, v", 4: "is constant"}
    with pytest.raises(TableError, match="controls: w is a combination of u, v; leave it out"):
        cl.refuse_redundant(columns.matrix, columns.names, "controls")
    assert cl.redundant(columns.without([3, 4]).matrix, columns.without([3, 4]).names) == {}


def test_a_column_far_from_zero_with_little_spread_is_not_taken_for_constant() -> None:
    frame = pl.DataFrame({"year": [2026.0 + i / 365 for i in range(20)]})
    assert cl.redundant(cl.design(frame, ["year"]).matrix, ["intercept", "year"]) == {}


def test_levels_reference_and_types_of_a_design() -> None:
    frame = pl.DataFrame({"tier": ["weak", "strong", "medium", "weak"], "same": [True, False, True, False]})
    columns = cl.design(frame, ["tier", "same"], {"tier": "medium"})
    assert columns.names == ("intercept", "tier=strong", "tier=weak", "same")
    assert columns.matrix.tolist() == [[1, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 1, 0]]
    assert dict(columns.reference) == {"tier": "medium"}
    assert dict(cl.design(frame, ["tier"]).reference) == {"tier": "medium"}
    with pytest.raises(TableError, match=r"no level .mediun.; it has medium, strong, weak\. Did you mean medium"):
        cl.design(frame, ["tier"], {"tier": "mediun"})
    with pytest.raises(TableError, match=r"'tiers' is no predictor\. Did you mean tier"):
        cl.design(frame, ["tier"], {"tiers": "weak"})
    with pytest.raises(TableError, match="same holds numbers"):
        cl.design(frame, ["tier", "same"], {"same": "x"})
    with pytest.raises(TableError, match="column d holds Date, not numbers"):
        cl.design(pl.DataFrame({"d": pl.Series(["2026-01-01"]).str.to_date()}), ["d"])
    with pytest.raises(TableError, match="infinite"):
        cl.design(pl.DataFrame({"d": [1.0, float("inf")]}), ["d"])


def test_significance_marks_are_those_of_table_3() -> None:
    assert [cl.mark(p) for p in (0.009, 0.01, 0.049, 0.05, 0.099, 0.1, None)] == ["**", "*", "*", "†", "†", "", ""]
