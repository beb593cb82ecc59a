"""Mediation: against R (mediation, sandwich), refits of the same draws and closed forms; bad input; the builder."""

from __future__ import annotations

import json
import math
import os
import warnings
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab.core.errors import TableError
from cilab.stats.maze.mediation import MediationResult, _significant, mediate, mediation
from cilab.stats.methods import cluster as cl
from tests.scripts import script

#: Twenty clusters are enough to work the numbers by hand.
pytestmark = pytest.mark.filterwarnings("ignore::cilab.stats.methods.cluster.FewClustersWarning")

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "golden"
HAVE_JOBS = pytest.mark.skipif(not (SHARED / "jobs.csv").exists(), reason="GPL data stand beside the checkout only")
CONTROLS = [
    "starter_tier",
    "follower_tier",
    "starter_family",
    "follower_family",
    "homogeneous",
    "same_family",
    "path_length",
    "log_tokens",
]
ROLES = {"x": "grounding", "m": "global_strategy", "y": "outcome", "controls": CONTROLS, "cluster": "pair"}


@lru_cache(maxsize=1)
def simulated() -> pl.DataFrame:
    frame = pl.read_csv(GOLDEN / "mediation_clustered.csv")
    return frame.with_columns(pl.col("tokens").log().alias("log_tokens"))


@lru_cache(maxsize=1)
def golden() -> dict:
    return json.loads((GOLDEN / "mediation_clustered.json").read_text())


@lru_cache(maxsize=1)
def whole() -> MediationResult:
    return mediate(simulated(), **ROLES, resamples=2000, seed=1)


def clustered(n_clusters: int = 20, rows: int = 10, seed: int = 0, a: float = 0.6, b: float = 0.5) -> pl.DataFrame:
    """X -> M -> Y with an effect of the cluster, one control."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_clusters), rows)
    c = rng.normal(size=len(codes))
    x = rng.normal(size=len(codes)) + 0.5 * rng.normal(size=n_clusters)[codes]
    m = a * x + 0.3 * c + 0.4 * rng.normal(size=n_clusters)[codes] + rng.normal(size=len(codes))
    y = 0.2 * x + b * m + 0.2 * x * m + 0.3 * rng.normal(size=n_clusters)[codes] + rng.normal(size=len(codes))
    return pl.DataFrame({"x": x, "m": m, "y": y, "c": c, "g": codes})


COLUMNS = {"x": "x", "m": "m", "y": "y", "controls": ["c"], "cluster": "g"}


# -- against R


def test_every_coefficient_of_the_simulated_data_is_that_of_r() -> None:
    found = whole().estimates
    for name in (
        *("a", "b", "direct", "total", "indirect"),
        *("synergy_b1", "synergy_b2", "synergy_direct", "indirect_at_0", "indirect_at_1"),
    ):
        assert found[name] == pytest.approx(golden()[name], rel=1e-6), name
    assert found["share_mediated"] == pytest.approx(golden()["indirect"] / golden()["total"], rel=1e-6)
    assert found["b_at_1"] == pytest.approx(golden()["synergy_b1"] + golden()["synergy_b2"], rel=1e-6)


def test_cluster_standard_errors_are_those_of_r() -> None:
    rows = {row["effect"]: row for row in whole().table.iter_rows(named=True)}
    for ours, theirs in {"a": "m", "b": "b", "direct": "direct", "synergy_b2": "synergy"}.items():
        assert rows[ours]["se"] == pytest.approx(golden()["cluster_se"][theirs], rel=1e-6), ours
        assert rows[ours]["se_from"] == "cluster-robust"


def test_the_cluster_bootstrap_has_the_spread_and_the_ends_of_r() -> None:
    rows = {row["effect"]: row for row in whole().table.iter_rows(named=True)}
    boot = golden()["cluster_bootstrap"]
    for name in ("a", "b", "direct", "total", "indirect", "synergy"):
        row = rows["synergy_b2" if name == "synergy" else name]
        assert row["sd_draws"] == pytest.approx(boot["sd"][name], rel=0.06), name
        assert row["se"] == pytest.approx(boot["sd"][name], rel=0.06), name
        assert row["lo"] == pytest.approx(boot["lo"][name], abs=0.012), name
        assert row["hi"] == pytest.approx(boot["hi"][name], abs=0.012), name


def test_the_sensitivity_is_the_closed_form_and_rounds_to_the_grid_of_r() -> None:
    result = whole()
    assert result.rho_at_zero == pytest.approx(golden()["rho_at_zero"], abs=1e-6)
    assert result.rho_at_zero == pytest.approx(golden()["rho_at_zero_medsens_grid"], abs=0.01)
    for name, x in (("x=0", 0.0), ("x=1", 1.0)):
        assert result.sensitivity(x).rho_at_zero == pytest.approx(golden()["rho_at_zero_synergy"][name], abs=1e-6)
    assert result.sensitivities["rho_at_zero"].to_list()[1:] == [
        pytest.approx(v, abs=1e-6) for k, v in golden()["rho_at_zero_synergy"].items() if k != "note"
    ]


@lru_cache(maxsize=1)
def jobs() -> MediationResult:
    frame = pl.read_csv(SHARED / "jobs.csv").with_columns(group=pl.Series(np.repeat(np.arange(30), 30)[1:]))
    controls = ["econ_hard", "sex", "age"]
    return mediate(frame, x="treat", m="job_seek", y="depress2", controls=controls, cluster="group", resamples=200)


@HAVE_JOBS
def test_jobs_data_have_the_closed_forms_of_r() -> None:
    stored = json.loads((SHARED / "mediation_jobs.json").read_text())
    found, closed = jobs().estimates, stored["closed_form"]
    for ours, theirs in {
        "a": "a",
        "b": "b",
        "indirect": "ab",
        "direct": "cprime",
        "total": "total",
        "share_mediated": "prop",
    }.items():
        assert found[ours] == pytest.approx(closed[theirs], rel=1e-9), ours
    assert jobs().rho_at_zero == pytest.approx(closed["rho_at_ACME0_exact"], abs=1e-9)
    both = stored["closed_form_interaction"]
    assert found["indirect_at_0"] == pytest.approx(both["acme_control"], rel=1e-9)
    assert found["indirect_at_1"] == pytest.approx(both["acme_treated"], rel=1e-9)
    table = jobs().coefficients
    for model, stored_model in (("mediator", stored["model_m"]), ("additive", stored["model_y"])):
        ours = dict(table.filter(pl.col("model") == model).select("term", "estimate").iter_rows())
        for term, values in stored_model.items():
            assert ours[{"(Intercept)": "intercept"}.get(term, term)] == pytest.approx(values[0], rel=1e-9), term
    ours = dict(table.filter(pl.col("model") == "synergy").select("term", "estimate").iter_rows())
    assert ours["treat × job_seek"] == pytest.approx(both["coef_d"]["treat:job_seek"][0], rel=1e-9)
    for model, errors in (("mediator", "clusterSE_m"), ("additive", "clusterSE_y")):
        got = table.filter(pl.col("model") == model)["se"].sort().to_list()
        np.testing.assert_allclose(got, sorted(stored[errors]), rtol=1e-9)


@HAVE_JOBS
def test_the_indirect_effect_under_confounding_is_the_closed_form_of_medsens() -> None:
    stored = json.loads((SHARED / "medsens_rho.json").read_text())
    result = jobs()
    assert result.rho_at_zero == pytest.approx(stored["noint"], abs=1e-9)
    assert result.sensitivity(0).rho_at_zero == pytest.approx(stored["int_t0"], abs=1e-9)
    assert result.sensitivity(1).rho_at_zero == pytest.approx(stored["int_t1"], abs=1e-9)
    grid = stored["closed_acme_at"]["rho"]
    for x, key in ((None, "closed_acme_at"), (0, "closed_int_t0"), (1, "closed_int_t1")):
        theirs = stored[key]["acme"] if x is None else stored[key]
        got = [result.indirect_at_rho(rho, x)[0] for rho in grid]
        np.testing.assert_allclose(got, theirs, atol=1e-9)
    # medsens itself, with its finest step
    np.testing.assert_allclose(
        [result.indirect_at_rho(r)[0] for r in grid], stored["medsens_eps_1e-07"]["d0_at"]["acme"], atol=1e-5
    )


# -- a second implementation


def test_every_draw_is_the_statsmodels_refit_of_the_drawn_rows() -> None:
    import statsmodels.formula.api as smf

    frame = clustered().with_columns(kind=pl.Series(["p", "q", "r", "s"] * 50))
    result = mediate(frame, **COLUMNS | {"controls": ["c", "kind"]}, resamples=20, seed=4)
    groups = cl.clusters(frame["g"])
    rows = frame.to_pandas()
    for i, times in enumerate(groups.counts(20, 4)):
        drawn = rows.iloc[np.repeat(np.arange(len(rows)), times[groups.codes].astype(int))]
        m = smf.ols("m ~ x + c + kind", drawn).fit()
        total = smf.ols("y ~ x + c + kind", drawn).fit()
        additive = smf.ols("y ~ x + m + c + kind", drawn).fit()
        synergy = smf.ols("y ~ x * m + c + kind", drawn).fit()
        s_m, s_1, s_2 = (math.sqrt(np.mean(f.resid**2)) for f in (m, additive, synergy))
        theirs = {
            "a": m.params["x"],
            "b": additive.params["m"],
            "direct": additive.params["x"],
            "total": total.params["x"],
            "synergy_b1": synergy.params["m"],
            "synergy_b2": synergy.params["x:m"],
            "synergy_direct": synergy.params["x"],
            "ratio": s_m / s_1,
            "synergy_ratio": s_m / s_2,
        }
        assert set(theirs) == set(result.draws)
        for name, value in theirs.items():
            assert result.draws[name][i] == pytest.approx(value, rel=1e-8, abs=1e-10), name


def test_standard_errors_of_every_coefficient_are_those_of_statsmodels() -> None:
    import statsmodels.formula.api as smf

    frame = clustered(seed=3)
    result = mediate(frame, **COLUMNS, resamples=50)
    fit = smf.ols("y ~ c + x * m", frame.to_pandas()).fit(
        cov_type="cluster", cov_kwds={"groups": frame["g"].to_numpy()}
    )
    ours = result.coefficients.filter(pl.col("model") == "synergy")
    np.testing.assert_allclose(ours["se"].to_numpy(), fit.bse[["Intercept", "c", "x", "m", "x:m"]], rtol=1e-8)
    at = result.effect_at(0.7).row(0, named=True)
    contrast = fit.t_test("m + 0.7 * x:m = 0")
    assert at["estimate"] == pytest.approx(float(contrast.effect[0]), rel=1e-9)
    assert at["se"] == pytest.approx(float(contrast.sd[0, 0]), rel=1e-8)


def test_without_interaction_rho_is_the_partial_correlation_of_m_and_y() -> None:
    frame = clustered(seed=5)
    z = np.column_stack([np.ones(frame.height), frame["x"], frame["c"]])
    residuals = [v - z @ np.linalg.lstsq(z, v, rcond=None)[0] for v in (frame["m"].to_numpy(), frame["y"].to_numpy())]
    assert mediate(frame, **COLUMNS, resamples=50).rho_at_zero == pytest.approx(np.corrcoef(*residuals)[0, 1])


# -- what must hold


def test_effects_are_put_together_within_each_draw() -> None:
    result = whole()
    draws, found = result.draws, result.estimates
    np.testing.assert_allclose(draws["total"], draws["direct"] + draws["a"] * draws["b"], rtol=1e-8)
    assert found["total"] == pytest.approx(found["direct"] + found["indirect"], rel=1e-9)
    row = result.table.row(by_predicate=pl.col("effect") == "indirect", named=True)
    assert (row["lo"], row["hi"], row["p"]) == cl.summarise(draws["a"] * draws["b"])[:3]
    zero, one = result.effect_at(0), result.effect_at(1)
    table = {r["effect"]: r for r in result.table.iter_rows(named=True)}
    for at, name in ((zero, "indirect_at_0"), (one, "indirect_at_1")):
        for column in ("estimate", "lo", "hi", "p", "se"):
            assert at.row(1, named=True)[column] == pytest.approx(table[name][column]), (name, column)
    assert zero["estimate"][0] == pytest.approx(table["synergy_b1"]["estimate"])
    assert one["se"][0] == pytest.approx(table["b_at_1"]["se"])


def test_the_threshold_is_the_lower_end_of_rho_where_a_is_positive_in_every_draw() -> None:
    result = whole()
    assert (result.draws["a"] > 0).all()
    for row in result.sensitivities.filter(pl.col("rho_at_zero") > 0).iter_rows(named=True):
        assert row["rho_significant"] == row["lo"]
        assert row["lo"] < row["rho_at_zero"] < row["hi"]
    assert result.rho_significant == result.rho_at_zero_interval[0] > 0


@pytest.mark.parametrize(("a", "b"), [(0.6, 0.5), (-0.6, 0.5), (0.6, -0.5), (-0.6, -0.5), (0.25, 0.9)])
@pytest.mark.parametrize("x", [None, 0.4])
def test_at_the_threshold_the_interval_of_the_indirect_effect_comes_to_zero(
    a: float, b: float, x: float | None
) -> None:
    result = mediate(clustered(a=a, b=b, seed=8), **COLUMNS, resamples=400)
    found = result.sensitivity(x)
    limit, sign = found.rho_significant, math.copysign(1, found.rho_at_zero)
    inside, outside = limit - sign * 1e-6, limit + sign * 1e-6

    def significant(rho: float) -> bool:
        _, lo, hi = result.indirect_at_rho(rho, x)
        return lo > 0 or hi < 0

    assert significant(inside)
    assert not significant(outside)
    assert abs(result.indirect_at_rho(found.rho_at_zero, x)[0]) < 1e-9


def test_an_effect_that_is_significant_at_no_correlation_has_no_threshold() -> None:
    result = mediate(clustered(a=0.0, seed=8), **COLUMNS, resamples=400)
    assert result.rho_significant is None
    assert result.sensitivities["rho_significant"].null_count() == 3
    for rho in np.linspace(-0.9, 0.9, 37):
        _, lo, hi = result.indirect_at_rho(rho)
        assert lo <= 0 <= hi
    assert "not significant" in repr(result) and "significant up to" not in repr(result)


def test_a_note_calls_an_effect_significant_only_where_its_interval_leaves_out_0() -> None:
    result = mediate(clustered(seed=3, b=0.12), **COLUMNS, resamples=400)
    words = next(note for note in result.notes() if note.startswith("Residual correlation"))
    parts = words.removesuffix(".").split("; ")
    seen = set()
    for row, part in zip(result.sensitivities.iter_rows(named=True), parts, strict=True):
        _, lo, hi = result.indirect_at_rho(0.0, row["x"])
        significant = not lo <= 0 <= hi
        assert ("significant up to" in part) == significant and ("not significant" in part) != significant
        assert (row["rho_significant"] * row["rho_at_zero"] > 0) == significant
        seen.add(significant)
    assert seen == {True, False}


def test_where_a_crosses_zero_in_the_draws_the_threshold_is_found_by_trying_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(40, 120))
        a, rho = rng.normal(rng.uniform(0.5, 3), 1, n), rng.uniform(-0.5, 0.99, n)
        allowed = cl.tail_count(n, 0.95) - 1
        ends = np.unique(np.r_[-1, rho, 1])
        tries = (ends[1:] + ends[:-1]) / 2
        bad = np.array([((a > 0) & (rho <= t) | (a < 0) & (rho >= t)).sum() for t in tries])
        good = np.flatnonzero(bad <= allowed)
        found = _significant(a, rho, 0.95)
        assert found == (None if not len(good) else ends[good[-1] + 1])


@given(shift=st.floats(-50, 50), scale=st.floats(0.01, 100), seed=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_adding_a_constant_or_changing_the_unit_of_the_outcome_changes_nothing_else(shift, scale, seed) -> None:
    frame = clustered(n_clusters=12, rows=6, seed=seed)
    first = mediate(frame, **COLUMNS, resamples=60)
    second = mediate(frame.with_columns(pl.col("y") * scale + shift), **COLUMNS, resamples=60)
    for name in ("b", "direct", "total", "indirect", "synergy_b2"):
        assert second.estimates[name] == pytest.approx(scale * first.estimates[name], rel=1e-6, abs=1e-9 * scale)
    assert second.estimates["a"] == pytest.approx(first.estimates["a"])
    assert second.rho_at_zero == pytest.approx(first.rho_at_zero, rel=1e-6)
    np.testing.assert_allclose(second.table["p"], first.table["p"])


def test_the_order_of_rows_the_names_of_clusters_and_the_kind_of_frame_change_nothing() -> None:
    frame = clustered(seed=6)
    first = mediate(frame, **COLUMNS, resamples=100)
    renamed = frame.with_columns(pl.format("pair {}", pl.col("g").cast(pl.String).str.zfill(3)).alias("g"))
    for other in (
        frame.sample(fraction=1.0, shuffle=True, seed=3),
        renamed,
        frame.to_pandas(),
        frame.lazy(),
        renamed.with_columns(pl.col("g").cast(pl.Categorical)),
    ):
        second = mediate(other, **COLUMNS, resamples=100)
        for column in ("estimate", "lo", "hi", "p", "se"):
            np.testing.assert_allclose(second.table[column], first.table[column], rtol=1e-8, err_msg=column)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_moves_intervals_only() -> None:
    frame = clustered(seed=7)
    first, again = (mediate(frame, **COLUMNS, resamples=200, seed=3) for _ in range(2))
    other = mediate(frame, **COLUMNS, resamples=200, seed=4)
    assert first.table.equals(again.table)
    assert first.table["estimate"].equals(other.table["estimate"])
    assert not first.table["lo"].equals(other.table["lo"])


def test_the_floor_of_p_follows_the_number_of_draws_and_is_printed() -> None:
    frame = clustered(seed=1)
    for resamples in (100, 1000):
        result = mediate(frame, **COLUMNS, resamples=resamples)
        assert result.p_floor == 2 / resamples
        assert result.table["p"].min() == pytest.approx(2 / resamples)
        assert f"≤ {2 / resamples:g}" in repr(result)
        assert f"no p-value can be below {2 / resamples:g}" in " ".join(result.notes())


def test_rows_with_missing_values_are_left_out_and_counted() -> None:
    frame = clustered(seed=2)
    holes = frame.with_row_index("i").with_columns(
        pl.when(pl.col("i") < 7).then(None).otherwise("x").alias("x"),
        pl.when(pl.col("i").is_between(5, 9)).then(float("nan")).otherwise("c").alias("c"),
    )
    result = mediate(holes, **COLUMNS, resamples=50)
    assert dict(result.n_left_out) == {"without x": 7, "without c": 3}
    assert result.n_used == frame.height - 10
    assert result.table.equals(mediate(frame.slice(10), **COLUMNS, resamples=50).table)


def test_where_the_product_of_x_and_m_is_redundant_the_additive_model_stands_alone() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 200).astype(float)
    m = x * rng.integers(0, 2, 200)  # never without x, so x m = m
    frame = pl.DataFrame({"x": x, "m": m, "y": m + rng.normal(size=200), "g": np.arange(200) % 20})
    result = mediate(frame, x="x", m="m", y="y", cluster="g", resamples=100)
    assert result.estimates["synergy_b2"] is None
    assert result.estimates["indirect"] is not None
    assert result.sensitivities["model"].to_list() == ["additive"]
    assert "not defined" in repr(result)
    with pytest.raises(TableError, match="no synergy model"):
        result.effect_at(0.5)


def test_a_control_that_some_replicates_lack_is_counted_and_the_effects_stay() -> None:
    frame = clustered(seed=9).with_columns((pl.col("g") == 3).cast(pl.Int64).alias("rare"))
    result = mediate(frame, **COLUMNS | {"controls": ["c", "rare"]}, resamples=400)
    lost = result.controls_dropped["rare"]
    assert lost / 400 == pytest.approx((1 - 1 / 20) ** 20, abs=0.08)
    assert not any(np.isnan(v).any() for v in result.draws.values())
    assert f"rare in {lost}" in " ".join(result.notes())


def test_the_result_prints_what_it_stands_on() -> None:
    text, page = repr(whole()), whole()._repr_html_()
    assert "53 clusters (pair), drawn 2,000 times" in text
    assert "Used 2,650 rollouts." in text
    assert "Reference levels of the controls: starter tier medium" in text
    assert "0.1140**" in text and "0.1140**" in page
    assert "Associations, not causes." in text
    assert "follower family=xai in " in text
    json.dumps(dict(whole().parameters))


def test_annotations_of_another_annotator_replicate_where_sign_and_significance_agree() -> None:
    first = mediate(clustered(seed=1), **COLUMNS, resamples=200)
    same = first.replicated_by(mediate(clustered(seed=12), **COLUMNS, resamples=200))
    opposite = first.replicated_by(mediate(clustered(seed=12, b=-0.5), **COLUMNS, resamples=200))
    verdicts = [dict(t.select("effect", "replicates").iter_rows()) for t in (same, opposite)]
    assert verdicts[0]["a"] and verdicts[0]["b"] and verdicts[0]["indirect"]
    assert verdicts[1]["a"] and not verdicts[1]["b"] and not verdicts[1]["indirect"]


# -- bad input


@pytest.mark.parametrize(
    ("change", "roles", "words"),
    [
        ({"m": pl.lit(1)}, {}, "m: column m is 1 in every row"),
        ({"x": pl.lit(0.5)}, {}, "x: column x is 0.5 in every row"),
        ({"y": pl.lit(0)}, {}, "y: column y is 0 in every row"),
        ({"g": pl.lit(None)}, {}, "cluster g: 200 of 200 rows have no label"),
        ({"g": pl.lit("one")}, {}, "only one cluster"),
        ({"d": 2 * pl.col("c") + 1}, {"controls": ["c", "d"]}, "controls: d is a combination of c; leave it out"),
        ({"d": pl.lit(4.0)}, {"controls": ["c", "d"]}, "controls: d is constant; leave it out"),
        ({"c": pl.col("x") * 3}, {}, "x: x is a combination of c"),
        ({"m": pl.col("x") - pl.col("c")}, {}, "m: m is a combination of c, x"),
        ({"y": pl.lit("0.5")}, {}, "column y holds String, not numbers"),
        ({"y": pl.lit(float("inf"))}, {}, "column y holds an infinite number"),
        ({"y": pl.lit(None)}, {}, "no row has every value that is needed: 200 without y"),
        ({}, {"x": "xx"}, "missing column xx"),
        ({}, {"controls": "c"}, r"give a list of columns, such as \['c'\]"),
        ({}, {"controls": ["x"]}, "column x stands in two of x, m, y and controls"),
        ({}, {"m": "x"}, "column x stands in two of"),
        ({}, {"cluster": None}, "cluster is None"),
        ({}, {"resamples": 2}, "resamples is 2: give a whole number of at least 20"),
        ({}, {"seed": "a"}, "seed is 'a'"),
        ({}, {"ci_level": 95}, "such as 0.95"),
    ],
)
def test_what_cannot_be_estimated_is_refused_in_one_line(change, roles, words) -> None:
    frame = clustered(seed=0).with_columns(**change)
    with pytest.raises(TableError, match=words) as caught:
        mediate(frame, **COLUMNS | roles)
    assert "\n" not in str(caught.value)


def test_one_missing_cluster_label_is_enough_to_refuse() -> None:
    frame = clustered().with_columns(pl.when(pl.col("c") == pl.col("c").max()).then(None).otherwise("g").alias("g"))
    with pytest.raises(TableError, match="1 of 200 rows have no label"):
        mediate(frame, **COLUMNS)


def test_fewer_than_thirty_clusters_are_warned_of_once_and_noted_and_the_numbers_stay() -> None:
    with pytest.warns(cl.FewClustersWarning, match="cluster g: only 6 clusters") as caught:
        result = mediate(clustered(n_clusters=6), **COLUMNS, resamples=50)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "covered 91 to 92%" in str(caught[0].message)
    assert sum("With fewer than 30 clusters" in note and "91 to 92%" in note for note in result.notes()) == 1
    assert result.table.filter(effect="indirect")["lo"].item() is not None
    with pytest.warns(cl.FewClustersWarning, match="only 29 clusters"):
        mediate(clustered(n_clusters=29), **COLUMNS, resamples=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mediate(clustered(n_clusters=30), **COLUMNS, resamples=50)


def test_an_exposure_that_lives_in_one_cluster_fails_with_the_share_of_undefined_replicates() -> None:
    frame = clustered().with_columns(pl.when(pl.col("g") == 0).then("x").otherwise(0.0).alias("x"))
    with pytest.raises(TableError, match=r"x \(effect a\).* is undefined in 3\d\.\d % of the 500 replicates"):
        mediate(frame, **COLUMNS, resamples=500)


def test_no_range_of_the_outcome_is_checked() -> None:
    frame = clustered().with_columns(pl.col("y") * 1000)
    assert mediate(frame, **COLUMNS, resamples=50).n_used == 200


@pytest.mark.parametrize(("rho", "x", "words"), [(1.0, None, "between -1 and 1"), (0.1, "a", "give a number")])
def test_arguments_of_the_sensitivity_are_checked(rho, x, words) -> None:
    with pytest.raises(TableError, match=words):
        whole().indirect_at_rho(rho, x)


# -- from a maze study


@lru_cache(maxsize=1)
def mazes():
    from cilab.datasets import simulated_mazes

    return simulated_mazes(scale=0.2)


def test_the_builder_is_the_call_on_the_study_s_own_columns() -> None:
    from cilab.stats.maze.grounding import CONTROLS as COLUMNS_OF_CONTROLS
    from cilab.stats.maze.grounding import grounding

    study = mazes()
    built = mediation(study, annotator="sim:annotator1", resamples=100, seed=2)
    by_hand = mediate(
        grounding(study, annotator="sim:annotator1").table,
        x="grounding",
        m="strategy_global",
        y="weighted_outcome",
        controls=COLUMNS_OF_CONTROLS,
        cluster="ordered_pair",
        resamples=100,
        seed=2,
    )
    np.testing.assert_allclose(built.table["estimate"], by_hand.table["estimate"], rtol=1e-7)
    np.testing.assert_allclose(built.table["lo"], by_hand.table["lo"], rtol=1e-6)
    assert built.n_clusters == 53
    assert built.reference["starter_tier"] == "medium"
    assert built.provenance.simulated
    assert "SIMULATED" in repr(built)
    assert sum(built.n_left_out.values()) + built.n_used == study.runs.collect().height


def test_other_clusters_give_the_same_estimates_with_other_intervals() -> None:
    found = {
        c: mediation(mazes(), annotator="sim:annotator1", cluster=c, resamples=100)
        for c in ("ordered_pair", "unordered_pair", "maze")
    }
    assert [r.n_clusters for r in found.values()] == [53, 33, found["maze"].n_clusters]
    for other in ("unordered_pair", "maze"):
        np.testing.assert_allclose(found[other].table["estimate"], found["ordered_pair"].table["estimate"], rtol=1e-9)
        assert not found[other].table["lo"].equals(found["ordered_pair"].table["lo"])
    with pytest.raises(TableError, match=r"cluster is 'pair', not one of .*Did you mean"):
        mediation(mazes(), annotator="sim:annotator1", cluster="pair")


def test_controls_that_do_not_vary_in_a_study_are_in_no_model_and_named() -> None:
    from cilab.datasets.dataset import Dataset

    study = mazes()
    tables = dict(study.tables)
    strong = tables["models"].filter(pl.col("strength") == "strong")["model"].to_list()
    tables["runs"] = tables["runs"].filter(pl.col("model").is_in(strong) & pl.col("partner_model").is_in(strong))
    only = Dataset("strong", tables, simulated=True, kind="simulated")
    with pytest.warns(cl.FewClustersWarning):
        result = mediation(only, annotator="sim:annotator1", resamples=50)
    assert result.controls_left_out["starter_tier"] == "is constant"
    assert "starter tier is constant" in repr(result)


def test_a_study_without_messages_has_no_tokens_to_control_for_and_says_so() -> None:
    from cilab.core.tables import empty
    from cilab.datasets.dataset import Dataset

    tables = dict(mazes().tables) | {"messages": empty("messages")}
    result = mediation(Dataset("silent", tables, simulated=True, kind="simulated"), annotator="sim:annotator1")
    assert result.controls_left_out["log_median_tokens"] == "is known of no rollout"
    assert "log_median_tokens" not in result.parameters["controls"]


def test_an_outcome_above_one_is_refused_in_maze_data() -> None:
    class Study:
        runs = mazes().runs.with_columns(pl.col("weighted_outcome") * 100)
        annotations, messages, models = mazes().annotations, mazes().messages, mazes().models

    with pytest.raises(TableError, match="weighted_outcome is 100, above 1"):
        mediation(Study(), annotator="sim:annotator1")


def test_the_simulated_study_comes_near_its_truth() -> None:
    from cilab.datasets import simulated_mazes

    study = simulated_mazes()
    result = mediation(study, annotator="sim:annotator1")
    truth = dict(study.truth["mediation"].select("effect", "value").iter_rows())
    for row in result.table.filter(pl.col("effect").is_in(list(truth))).iter_rows(named=True):
        assert abs(row["estimate"] - truth[row["effect"]]) < 4 * row["sd_draws"], row["effect"]
    assert 0 < result.rho_significant < result.rho_at_zero


def test_more_replicates_than_are_solved_at_once_give_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    first = mediate(clustered(), **COLUMNS, resamples=130)
    monkeypatch.setattr(cl, "_CHUNK", 50)
    second = mediate(clustered(), **COLUMNS, resamples=130)
    for name, values in first.draws.items():
        np.testing.assert_allclose(second.draws[name], values, rtol=1e-10, err_msg=name)


# -- coverage: a stored study (benchmarks/studies/mediation_coverage.py says how to remake it)


@lru_cache(maxsize=1)
def coverage() -> dict:
    return json.loads((GOLDEN / "mediation_coverage.json").read_text())


@pytest.mark.parametrize("effect", ["a", "b", "indirect", "synergy_b2"])
def test_over_a_thousand_simulated_studies_the_interval_covers_the_truth_as_often_as_promised(effect: str) -> None:
    assert coverage()["draws"] >= 1000
    found = coverage()["mediation"][effect]
    assert found["draws_without_interval"] == 0
    assert 0.92 <= found["coverage"] <= 0.97


def test_the_stored_coverage_is_about_the_truth_of_the_simulated_data_as_it_is_now() -> None:
    truth = dict(mazes().truth["mediation"].select("effect", "value").iter_rows())
    assert {name: line["truth"] for name, line in coverage()["mediation"].items()} == truth
    odds = {
        (row["kind"].removeprefix("odds_"), row["predictor"]): math.log(row["value"])
        for row in mazes().truth["odds"].iter_rows(named=True)
    }
    stored = {
        (kind, name): line["truth"] for kind, lines in coverage()["log_odds"].items() for name, line in lines.items()
    }
    assert stored == odds


# -- few clusters: a stored study (benchmarks/studies/few_clusters.py says how to remake it)


def few_clusters() -> tuple[dict, ModuleType]:
    return json.loads((GOLDEN / "few_clusters.json").read_text()), script("studies/few_clusters")


def test_the_words_on_few_clusters_are_what_the_stored_study_measured() -> None:
    stored, _ = few_clusters()
    found = {line["clusters"]: line["coverage_pct"] for line in stored["sizes"]}
    assert stored["data_sets"] >= 1000 and stored["simulated"]
    assert {round(found[n]) for n in (6, 10, 20)} == {91, 92}
    assert max(found[n] for n in (6, 10, 20)) < found[30] < found[53] and found[53] > 93


def test_the_first_data_sets_of_few_clusters_come_out_as_stored() -> None:
    stored, module = few_clusters()
    for line in stored["sizes"]:
        assert module.covered(line["clusters"], module.FIRST)[0] == line["first"]


@pytest.mark.study
def test_the_study_of_few_clusters_comes_out_as_stored() -> None:
    """A minute and a half."""
    stored, module = few_clusters()
    assert module.study(stored["data_sets"]) == stored


@pytest.mark.study
def test_the_coverage_study_can_be_remade_in_small() -> None:
    found = script("studies/mediation_coverage").study(20, 200)
    for effect in ("a", "b", "indirect", "synergy_b2"):
        stored = coverage()["mediation"][effect]["coverage"]
        assert abs(found["mediation"][effect]["coverage"] - stored) < 4 * math.sqrt(0.05 * 0.95 / 20)
