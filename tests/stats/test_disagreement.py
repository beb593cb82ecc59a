"""Odds ratios: against R, against statsmodels refits of the same draws, separation, equation 5 from a study."""

from __future__ import annotations

import json
import math
import os
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.core.tables import frame
from cilab.datasets import simulated_mazes
from cilab.datasets.dataset import Dataset
from cilab.stats.maze.disagreement import DisagreementResult, OddsRatioResult, disagreement, odds_ratios
from cilab.stats.methods import cluster as cl

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "golden"
PAIR_LEVEL = ["homogeneous", "same_family", "starter_tier", "follower_tier", "starter_family", "follower_family"]
MEDIUM = {"starter_tier": "medium", "follower_tier": "medium", "starter_family": "anthropic"}


@lru_cache(maxsize=1)
def simulated() -> pl.DataFrame:
    return pl.read_csv(GOLDEN / "mediation_clustered.csv")


@lru_cache(maxsize=1)
def whole() -> OddsRatioResult:
    return odds_ratios(
        simulated(), outcome="disagreement", predictors=PAIR_LEVEL, cluster="pair", reference=MEDIUM, resamples=1000
    )


def clustered(n_clusters: int = 20, rows: int = 15, seed: int = 0) -> pl.DataFrame:
    """Mean of two raters, a number, a text with three levels."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_clusters), rows)
    x = rng.normal(size=len(codes)).round(1)
    tier = rng.choice(["weak", "medium", "strong"], len(codes))
    log_odds = 0.4 * x - 0.6 * (tier == "weak") + 0.4 * rng.normal(size=n_clusters)[codes]
    chance = 1 / (1 + np.exp(-log_odds))
    y = np.mean([rng.random(len(codes)) < chance, rng.random(len(codes)) < chance], axis=0)
    return pl.DataFrame({"y": y, "x": x, "tier": tier, "g": codes})


COLUMNS = {"outcome": "y", "predictors": ["x", "tier"], "cluster": "g", "reference": {"tier": "medium"}}


# -- against R


def test_odds_ratios_and_cluster_errors_are_those_of_r() -> None:
    golden = json.loads((GOLDEN / "mediation_clustered.json").read_text())
    seen = set()
    for row in whole().table.iter_rows(named=True):
        name = "(Intercept)" if row["predictor"] == "intercept" else row["predictor"] + (row["level"] or "")
        assert row["odds_ratio"] == pytest.approx(golden["logit_odds_ratios"][name], rel=1e-6), name
        assert row["se"] == pytest.approx(golden["logit_cluster_se"][name], rel=1e-6), name
        seen.add(name)
    assert seen == set(golden["logit_odds_ratios"])
    assert whole().n_cells == 53


@pytest.mark.skipif(not (SHARED / "framing.csv").exists(), reason="GPL data stand beside the checkout only")
def test_framing_data_have_the_odds_ratios_of_r() -> None:
    golden = json.loads((SHARED / "mediation_framing.json").read_text())["logit_OR"]
    rows = pl.read_csv(SHARED / "framing.csv", null_values="NA").with_row_index("row")
    predictors = ["emo", "treat", "age", "educ", "gender", "income"]
    reference = {"educ": "less than high school", "gender": "male"}
    result = odds_ratios(
        rows, outcome="cong_mesg", predictors=predictors, cluster="row", reference=reference, resamples=50
    )
    for row in result.table.iter_rows(named=True):
        name = "(Intercept)" if row["predictor"] == "intercept" else row["predictor"] + (row["level"] or "")
        assert row["odds_ratio"] == pytest.approx(golden[name], rel=1e-6), name
    assert result.table.height == len(golden)


# -- a second implementation


def test_intervals_and_p_values_are_those_of_statsmodels_refits_of_the_drawn_rows() -> None:
    import statsmodels.formula.api as smf

    rows = clustered(seed=1)
    result = odds_ratios(rows, **COLUMNS, resamples=40, seed=3, interval="percentile")
    pandas = rows.to_pandas()
    groups = cl.clusters(rows["g"])
    formula = "y ~ x + C(tier, Treatment('medium'))"
    draws = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        point = smf.logit(formula, pandas).fit(disp=0, tol=1e-12)
        for times in groups.counts(40, 3):
            drawn = pandas.iloc[np.repeat(np.arange(len(pandas)), times[groups.codes].astype(int))]
            draws.append(smf.logit(formula, drawn).fit(disp=0, tol=1e-12).params.to_numpy())
    order = ["Intercept", "x", *(n for n in point.params.index if "strong" in n), *point.params.index[-2:]]
    order = list(dict.fromkeys(order))
    columns = [list(point.params.index).index(n) for n in order]
    sorted_draws = np.sort(np.array(draws)[:, columns], axis=0)
    np.testing.assert_allclose(result.table["coefficient"], point.params[order], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(result.table["lo"], np.exp(sorted_draws[0]), rtol=1e-6)  # 40 x 0.025 = 1: the first
    np.testing.assert_allclose(result.table["hi"], np.exp(sorted_draws[-1]), rtol=1e-6)
    below = (sorted_draws <= 0).sum(axis=0)
    np.testing.assert_allclose(result.table["p"], np.clip(2 * np.minimum(below, 40 - below), 2, 40) / 40)
    np.testing.assert_allclose(result.table["sd_draws"], sorted_draws.std(axis=0, ddof=1), rtol=1e-6)


def test_cluster_errors_are_those_of_statsmodels_glm() -> None:
    import statsmodels.api as sm

    rows = clustered(seed=2)
    matrix = cl.design(rows, ["x", "tier"], {"tier": "medium"}).matrix
    theirs = sm.GLM(rows["y"].to_numpy(), matrix, family=sm.families.Binomial()).fit(tol=1e-12)
    bread = np.linalg.inv((matrix * (theirs.mu * (1 - theirs.mu))[:, None]).T @ matrix)
    scores = matrix * (rows["y"].to_numpy() - theirs.mu)[:, None]
    meat = sum(np.outer(s, s) for s in (scores[rows["g"].to_numpy() == g].sum(axis=0) for g in range(20)))
    vcov = 20 / 19 * (len(matrix) - 1) / (len(matrix) - 4) * bread @ meat @ bread
    ours = odds_ratios(rows, **COLUMNS, resamples=50).table
    np.testing.assert_allclose(ours["se"], np.sqrt(np.diag(vcov)), rtol=1e-6)


# -- what must hold


def test_two_by_two_tables_give_the_odds_ratio_worked_by_hand() -> None:
    # 3 of 4 against 1 of 4 in every pair: (3 / 1) / (1 / 3) = 9
    rows = pl.DataFrame(
        {"y": [1, 0, 0, 0, 1, 1, 1, 0] * 12, "x": [0] * 4 + [1] * 4, "g": 0}
        | {"x": [0, 0, 0, 0, 1, 1, 1, 1] * 12, "g": [i // 8 for i in range(96)]}
    )
    result = odds_ratios(rows, outcome="y", predictors=["x"], cluster="g", resamples=50)
    assert result.table["odds_ratio"].to_list() == pytest.approx([1 / 3, 9.0])
    # every pair is the same, so every draw is: intervals of width 0
    assert result.table["lo"].to_list() == pytest.approx([1 / 3, 9.0])
    assert result.table["hi"].to_list() == pytest.approx([1 / 3, 9.0])


def test_marks_follow_the_p_values_and_reference_levels_are_named() -> None:
    table = whole().table
    for row in table.iter_rows(named=True):
        assert row["mark"] == cl.mark(row["p"])
        assert (row["lo"] > 1 or row["hi"] < 1) == (row["p"] < 0.05)
    homogeneous = table.row(by_predicate=pl.col("predictor") == "homogeneous", named=True)
    assert homogeneous["mark"] == "**"
    assert dict(whole().reference) == MEDIUM | {"follower_family": "anthropic"}
    text = repr(whole())
    assert "Reference levels: starter tier medium, follower tier medium, starter family anthropic" in text
    assert "0.66**" in text
    assert "no p-value can be below 0.002" in text


def test_another_reference_level_gives_the_same_fit_seen_from_there() -> None:
    rows = clustered(seed=4)
    from_medium = odds_ratios(rows, **COLUMNS, resamples=100)
    from_weak = odds_ratios(rows, **COLUMNS | {"reference": {"tier": "weak"}}, resamples=100)
    assert dict(odds_ratios(rows, **COLUMNS | {"reference": None}, resamples=50).reference) == {"tier": "medium"}

    def row(result: OddsRatioResult, level: str) -> dict:
        return result.table.row(by_predicate=pl.col("level") == level, named=True)

    assert row(from_medium, "weak")["odds_ratio"] == pytest.approx(1 / row(from_weak, "medium")["odds_ratio"])
    assert row(from_medium, "weak")["lo"] == pytest.approx(1 / row(from_weak, "medium")["hi"], rel=1e-6)
    assert row(from_medium, "weak")["p"] == row(from_weak, "medium")["p"]


@given(seed=st.integers(0, 20))
@settings(max_examples=10, deadline=None)
def test_exchanging_the_two_outcomes_inverts_every_odds_ratio(seed: int) -> None:
    rows = clustered(n_clusters=12, rows=10, seed=seed)
    first = odds_ratios(rows, **COLUMNS, resamples=50).table
    second = odds_ratios(rows.with_columns((1 - pl.col("y")).alias("y")), **COLUMNS, resamples=50).table
    np.testing.assert_allclose(second["odds_ratio"], 1 / first["odds_ratio"], rtol=1e-6)
    np.testing.assert_allclose(second["lo"], 1 / first["hi"], rtol=1e-6)
    np.testing.assert_allclose(second["p"], first["p"])


def test_the_order_of_rows_and_the_kind_of_frame_change_nothing() -> None:
    rows = clustered(seed=5)
    first = odds_ratios(rows, **COLUMNS, resamples=60).table
    binary = rows.with_columns(pl.col("y") > 0.5)
    for other in (rows.sample(fraction=1.0, shuffle=True, seed=1), rows.to_pandas(), rows.lazy()):
        second = odds_ratios(other, **COLUMNS, resamples=60).table
        for column in ("odds_ratio", "lo", "hi", "p", "se"):
            np.testing.assert_allclose(second[column], first[column], rtol=1e-7)
    assert odds_ratios(binary, **COLUMNS, resamples=50).n_used == rows.height


# -- separation


def perfect() -> pl.DataFrame:
    rows = clustered(seed=6)
    return rows.with_columns(pl.when(pl.col("tier") == "strong").then(1.0).otherwise("y").alias("y"))


def test_separated_data_are_refused_with_the_predictor_and_a_way_out() -> None:
    with pytest.raises(
        TableError, match="outcome y is separated by tier=strong: no finite odds ratio exists"
    ) as caught:
        odds_ratios(perfect(), **COLUMNS, resamples=50)
    assert "estimator='firth'" in str(caught.value)
    six = pl.DataFrame({"x": [1, 2, 3, 4, 5, 6], "y": [0, 0, 0, 1, 1, 1], "g": range(6)})
    with pytest.warns(cl.FewClustersWarning), pytest.raises(TableError, match="separated by intercept, x"):
        odds_ratios(six, outcome="y", predictors=["x"], cluster="g", resamples=50)


def test_with_the_penalty_separated_data_have_finite_odds_ratios() -> None:
    result = odds_ratios(perfect(), **COLUMNS, resamples=200, estimator="firth")
    row = result.table.row(by_predicate=pl.col("level") == "strong", named=True)
    assert 50 < row["odds_ratio"] < 10_000
    assert math.isfinite(row["hi"]) and row["lo"] > 1
    assert "Penalised likelihood (Firth)" in repr(result)


def test_the_penalty_hardly_moves_estimates_from_many_rows() -> None:
    plain, firth = (
        odds_ratios(clustered(50, 60), **COLUMNS, resamples=50, estimator=e) for e in ("maximum_likelihood", "firth")
    )
    np.testing.assert_allclose(firth.table["coefficient"], plain.table["coefficient"], atol=0.01)
    assert not np.allclose(firth.table["coefficient"], plain.table["coefficient"], rtol=1e-9, atol=0)


def test_few_separated_replicates_are_counted_and_many_fail() -> None:
    rows = clustered(seed=6)
    strong = pl.col("tier") == "strong"

    def zeros_in(clusters: list[int]) -> pl.DataFrame:
        held = pl.col("g").is_in(clusters)
        return rows.with_columns(pl.when(strong).then(pl.when(held).then(0.5).otherwise(1.0)).otherwise("y").alias("y"))

    result = odds_ratios(zeros_in([0, 1, 2, 3]), **COLUMNS, resamples=400)
    assert 0 < result.replicates_lost <= 20
    assert f"{result.replicates_lost} replicates are separated" in repr(result)
    assert result.table["n_replicates"].to_list() == [400 - result.replicates_lost] * 4
    with pytest.raises(TableError, match=r"every odds ratio is undefined in 3\d\.\d % of the 400 replicates") as caught:
        odds_ratios(zeros_in([0]), **COLUMNS, resamples=400)
    assert "estimator='firth'" in str(caught.value)
    assert odds_ratios(zeros_in([0]), **COLUMNS, resamples=400, estimator="firth").replicates_lost == 0


def test_a_coefficient_that_many_replicates_do_not_determine_has_no_interval_and_the_others_do() -> None:
    rows = clustered(seed=6)
    tier = pl.when((pl.col("g") == 3) & (pl.col("tier") == "weak")).then(pl.lit("rare")).otherwise("tier")
    result = odds_ratios(rows.with_columns(tier.alias("tier")), **COLUMNS, resamples=400)
    rare = result.table.row(by_predicate=pl.col("level") == "rare", named=True)
    share = 1 - rare["n_replicates"] / 400
    assert share == pytest.approx((1 - 1 / 20) ** 20, abs=0.08)
    assert rare["lo"] is rare["hi"] is rare["p"] is rare["sd_draws"] is None and rare["mark"] == ""
    assert math.isfinite(rare["odds_ratio"])
    assert rare["reason"] == f"not determined in {100 * share:.1f} % of the replicates, more than 5 %"
    assert f"No interval of tier: rare for y: {rare['reason']}." in result.notes()
    others = result.table.filter(pl.col("level").ne_missing("rare"))
    assert others["lo"].null_count() == 0 and others["reason"].null_count() == others.height
    assert result.dropped == {"tier=rare": 400 - rare["n_replicates"]}


# -- bad input


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({"y": pl.lit(1.5)}, {}, "outcome y is 1.5; a fraction between 0 and 1"),
        ({"y": pl.col("y") - 1}, {}, "outcome y is -1; a fraction"),
        ({"y": pl.lit(0)}, {}, "outcome y is 0 in every row; odds need both"),
        ({"y": pl.lit("no")}, {}, "column y holds String, not numbers"),
        ({"x": pl.lit(2)}, {}, "predictors: x is constant; leave it out"),
        ({"tier": pl.lit("weak")}, {"reference": {}}, "predictors: tier is .weak. in every row; leave it out"),
        ({"z": 1 - pl.col("x")}, {"predictors": ["x", "z"], "reference": {}}, "predictors: z is a combination of x"),
        ({"g": pl.when(pl.col("g") > 0).then("g")}, {}, "cluster g: 15 of 300 rows have no label"),
        ({}, {"predictors": "x"}, r"give a list of columns, such as \['x'\]"),
        ({}, {"predictors": []}, "predictors is empty"),
        ({}, {"predictors": ["x", "y"]}, "column y stands twice"),
        ({}, {"predictors": ["x", "tiers"]}, "missing column tiers.*Did you mean tier"),
        ({}, {"reference": {"tier": "Weak"}}, "no level 'Weak'; it has medium, strong, weak"),
        ({}, {"reference": {"age": "old"}}, "reference: 'age' is no predictor"),
        ({}, {"estimator": "ml"}, "estimator is 'ml', not one of maximum_likelihood, firth"),
        ({}, {"resamples": None}, "resamples is None"),
        ({}, {"resamples": 2}, "resamples is 2: give a whole number of at least 20"),
        ({}, {"seed": -1}, "seed is -1"),
        ({}, {"outcome": 3}, "outcome is 3: give the name of a column"),
    ],
)
def test_what_cannot_be_modelled_is_refused_in_one_line(change, arguments, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        odds_ratios(clustered().with_columns(**change), **COLUMNS | arguments)
    assert "\n" not in str(caught.value)


def test_missing_values_are_left_out_and_counted_and_few_clusters_warned_of_once() -> None:
    rows = clustered(n_clusters=9).with_columns(pl.when(pl.col("x") > 1.5).then(None).otherwise("x").alias("x"))
    with pytest.warns(cl.FewClustersWarning, match="cluster g: only 9 clusters") as caught:
        result = odds_ratios(rows, **COLUMNS, resamples=50)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert dict(result.n_left_out) == {"without x": rows["x"].null_count()}
    assert result.n_used + rows["x"].null_count() == rows.height


# -- equation 5 from a study

SEATS = {"a1": ("a", "strong"), "a2": ("a", "medium"), "b1": ("b", "medium"), "b2": ("b", "weak")}


def small_study(
    verdicts: dict[str, tuple[float | None, float | None]], *, skip: tuple[str, str] | None = None
) -> Dataset:
    """One rollout per run name `starter-follower-i`; verdicts: annotator -> (factual, non-factual) of every run."""
    pairs = [(s, f) for s in SEATS for f in SEATS]
    names = [f"{s}-{f}-{i}" for s, f in pairs for i in range(2)]
    base = {"study": "x", "benchmark": "maze", "task_id": "t", "version": "pair", "weighted_outcome": 0.5}
    cells = [(n, *n.split("-")) for n in names]
    runs = [
        base | {"run_id": n, "model": s, "partner_model": f, "seed": int(i), "status": "ok"} for n, s, f, i in cells
    ]
    notes = [
        {"run_id": n, "annotator": who, "repeat": 0, "agent": 0, "feature": feature, "value": value}
        for who, values in verdicts.items()
        for n in names
        if (who, n) != skip
        for feature, value in zip(("has_factual_disagreement", "has_nonfactual_disagreement"), values, strict=True)
    ]
    models = [{"model": m, "family": f, "strength": t} for m, (f, t) in SEATS.items()]
    tables = {
        "runs": frame("runs", runs),
        "annotations": frame("annotations", notes),
        "models": frame("models", models),
    }
    return Dataset("small", tables, simulated=False, kind="imported")


@lru_cache(maxsize=1)
def mazes() -> Dataset:
    return simulated_mazes()


@lru_cache(maxsize=1)
def found() -> DisagreementResult:
    return disagreement(mazes(), resamples=1000)


def verdict_means(study: Dataset) -> pl.DataFrame:
    """Mean verdicts per run, worked out with pandas: a second implementation of the outcomes."""
    notes = study.annotations.collect().to_pandas()
    notes = notes[notes["feature"].isin(["has_factual_disagreement", "has_nonfactual_disagreement"])]
    wide = notes.pivot_table(index=["run_id", "annotator"], columns="feature", values="value").dropna()
    wide.columns = ["factual", "nonfactual"]
    wide["total"] = wide[["factual", "nonfactual"]].max(axis=1)
    complete = wide.groupby("run_id").size() == notes["annotator"].nunique()
    means = wide.groupby("run_id").mean()[complete]
    return pl.from_pandas(means.reset_index())


def test_outcomes_are_means_of_the_annotators_and_their_number_is_that_of_table_3() -> None:
    theirs = verdict_means(mazes())
    both = found().rollouts.join(theirs, on="run_id", suffix="_theirs")
    assert both.height == found().n_used == theirs.height == 2628
    for outcome in ("total", "factual", "nonfactual"):
        np.testing.assert_allclose(both[outcome], both[f"{outcome}_theirs"])
    assert set(found().rollouts["total"].unique()) == {0, 0.5, 1}


def test_total_stands_on_all_rollouts_and_the_kinds_on_those_with_a_disagreement() -> None:
    disagreeing = (found().rollouts["total"] > 0).sum()
    assert {k: m.n_used for k, m in found().models.items()} == {
        "total": 2628,
        "factual": disagreeing,
        "nonfactual": disagreeing,
    }
    assert dict(found().models["factual"].n_left_out) == {"without a disagreement": 2628 - disagreeing}


def test_each_model_is_the_fractional_logit_of_equation_5() -> None:
    import statsmodels.api as sm

    for outcome in ("total", "factual", "nonfactual"):
        rows = found().rollouts
        rows = (rows if outcome == "total" else rows.filter(pl.col("total") > 0)).to_pandas()
        columns = {"homogeneous": rows["homogeneous"], "same_family": rows["same_family"]}
        for seat in ("starter", "follower"):
            for level in ("strong", "weak"):
                columns[f"{seat}_tier: {level}"] = rows[f"{seat}_tier"] == level
            for level in "BCD":
                columns[f"{seat}_family: sim-family-{level}"] = rows[f"{seat}_family"] == f"sim-family-{level}"
        matrix = np.column_stack([np.ones(len(rows)), *columns.values()]).astype(float)
        theirs = sm.GLM(rows[outcome], matrix, family=sm.families.Binomial()).fit(tol=1e-12)
        table = found().table.filter(pl.col("outcome") == outcome)
        ours = {
            row["predictor"] if row["level"] is None else f"{row['predictor']}: {row['level']}": row["odds_ratio"]
            for row in table.iter_rows(named=True)
        }
        assert next(iter(ours)) == "intercept" and len(ours) == 13
        for name, value in zip(["intercept", *columns], np.exp(theirs.params), strict=True):
            assert ours[name] == pytest.approx(value, rel=1e-6), (outcome, name)


def test_the_simulated_study_comes_near_its_truth() -> None:
    truth = mazes().truth["odds"]
    assert truth.height == 39
    letters = {"B": "family", "C": "family", "D": "family", "weak": "tier", "strong": "tier"}
    near = 0
    for row in truth.iter_rows(named=True):
        seat, _, level = row["predictor"].partition("_")
        known = level in letters
        predictor = f"{seat}_{letters[level]}" if known else row["predictor"]
        level = (f"sim-family-{level}" if letters.get(level) == "family" else level) if known else None
        ours = (
            found()
            .table.filter(
                (pl.col("outcome") == row["kind"].removeprefix("odds_"))
                & (pl.col("predictor") == predictor)
                & (pl.col("level").eq_missing(pl.lit(level, pl.String)))
            )
            .row(0, named=True)
        )
        near += abs(ours["coefficient"] - math.log(row["value"])) < 2 * ours["sd_draws"]
    assert near >= 33  # of 39, if errors were independent and normal about 37


def test_rates_by_interaction_and_family_pair_are_means_over_all_rollouts() -> None:
    rows = found().rollouts.to_pandas()
    for row in found().by_interaction.iter_rows(named=True):
        part = rows[rows["interaction"] == row["interaction"]]
        assert (row["n"], row["n_pairs"]) == (len(part), part["ordered_pair"].nunique())
        assert row["rate"] == pytest.approx(part[row["outcome"]].mean())
        assert row["lo"] < row["rate"] < row["hi"]
    assert found().by_interaction["n_pairs"].unique(maintain_order=True).to_list() == [13, 22, 18]
    grouped = rows.groupby(["starter_family", "follower_family"])
    assert found().by_family_pair.height == 3 * grouped.ngroups
    for row in found().by_family_pair.iter_rows(named=True):
        part = grouped.get_group((row["starter_family"], row["follower_family"]))
        assert row["rate"] == pytest.approx(part[row["outcome"]].mean())
        assert (row["lo"] is None) == (row["no_interval"] is not None) == (row["n_pairs"] < 5)
        if row["n_pairs"] < 5:
            assert row["no_interval"] == f"too few: {row['n_pairs']} ordered pair{'s' * (row['n_pairs'] > 1)}"


def test_the_interval_of_a_rate_is_that_of_a_bootstrap_written_out() -> None:
    rows = found().rollouts
    groups = cl.clusters(rows["ordered_pair"])
    inside = (rows["interaction"] == "homogeneous").to_numpy()
    y, draws = rows["total"].to_numpy(), []
    for times in groups.counts(1000, 0)[:1000]:
        weight = times[groups.codes] * inside
        draws.append(np.average(y, weights=weight) if weight.any() else np.nan)
    plain = disagreement(mazes(), resamples=1000, interval="percentile").by_interaction.row(0, named=True)
    assert (plain["lo"], plain["hi"]) == pytest.approx(cl.summarise(np.array(draws))[:2])
    # By the rule: Student's t for the 13 pairs of copies, and the variance that resampling 13 of them loses.
    level = 1 - 2 * scipy_stats.norm.sf(scipy_stats.t.ppf(0.975, 12) * math.sqrt(13 / 12))
    row = found().by_interaction.row(0, named=True)
    assert (row["lo"], row["hi"]) == pytest.approx(cl.summarise(np.array(draws), level)[:2])
    difference = found().homogeneous_difference.row(0, named=True)
    assert difference["difference"] == pytest.approx(y[inside].mean() - y[~inside].mean())
    assert difference["lo"] < difference["difference"] < difference["hi"] < 0


def test_agreement_of_the_annotators_is_kappa_of_their_verdicts() -> None:
    table = {row["outcome"]: row for row in found().agreement.iter_rows(named=True)}
    assert table["total"]["n"] == 2628
    notes = mazes().annotations.filter(pl.col("feature") == "has_factual_disagreement").collect()
    wide = notes.pivot("annotator", index="run_id", values="value").drop_nulls()
    one, two = (wide[f"sim:annotator{i}"].to_numpy() for i in (1, 2))
    raw = (one == two).mean()
    chance = one.mean() * two.mean() + (1 - one.mean()) * (1 - two.mean())
    assert table["factual"]["kappa"] == pytest.approx((raw - chance) / (1 - chance))
    assert table["factual"]["raw"] == pytest.approx(raw)


def test_one_annotator_or_other_clusters_may_be_asked_for() -> None:
    one = disagreement(mazes(), annotators=["sim:annotator1"], cluster="unordered_pair", resamples=100)
    assert one.n_used == 2650
    assert set(one.rollouts["total"].unique()) == {0, 1}
    assert one.agreement.height == 0
    assert one.models["total"].n_clusters == 33
    bare = one.table.filter(pl.col("lo").is_null())
    assert bare["reason"].null_count() == 0 and bare["level"].unique().to_list() == ["sim-family-B"]
    by_maze = disagreement(mazes(), cluster="maze", resamples=100)
    np.testing.assert_allclose(by_maze.table["odds_ratio"], found().table["odds_ratio"], rtol=1e-6)


def test_the_printed_table_has_the_shape_of_table_3() -> None:
    shown = found().sheet().cells
    assert shown.columns == ["Predictor", "Total", "Factual", "Non-factual"]
    assert "same family" in shown["Predictor"].to_list() and not shown["Predictor"].str.contains("_").any()
    assert shown["Predictor"][0] == "intercept" and shown["Predictor"][-1] == "Rollouts"
    assert shown["Total"][-1] == "2,628"
    text = repr(found())
    assert "[SIMULATED AGENTS]" in text
    assert "starter family sim-family-A" in text
    assert "22 without disagreements annotated by sim:annotator2" in text
    assert "among rollouts with a disagreement" in text


def test_a_verdict_that_could_not_be_read_leaves_the_rollout_out_and_names_the_annotator() -> None:
    rng = np.random.default_rng(0)
    study = mazes()
    holes = study.annotations.collect().with_columns(
        pl.when(
            (pl.col("annotator") == "sim:annotator1") & pl.Series(rng.random(study.annotations.collect().height) < 0.02)
        )
        .then(None)
        .otherwise("value")
        .alias("value")
    )
    result = disagreement(
        Dataset("holes", dict(study.tables) | {"annotations": holes}, simulated=True, kind="simulated"), resamples=50
    )
    lost = result.n_left_out["without disagreements annotated by sim:annotator1"]
    assert lost > 0
    assert result.n_used + sum(result.n_left_out.values()) == study.runs.collect().height


def test_an_outcome_that_never_happens_has_no_model_and_says_why() -> None:
    study = small_study({"a": (1, 0), "b": (0, 0)})
    result = disagreement(study, resamples=50)
    assert "nonfactual" in result.failed
    assert "nonfactual is 0 in every row" in result.failed["nonfactual"]
    assert "No model of non-factual" in repr(result)
    never = disagreement(small_study({"a": (0, 0)}), resamples=50)
    assert "total is 0 in every row" in never.failed["total"]
    assert never.failed["factual"] == "no rollout has a disagreement"
    assert never.table.height == 0 and never.by_interaction["rate"].to_list() == [0.0] * 9
    assert "cross family" in repr(never)


def test_annotators_who_left_everything_or_something_out() -> None:
    study = small_study({"a": (1, 0), "b": (0, 0)}, skip=("b", "a1-a1-0"))
    assert disagreement(study, resamples=50).n_left_out == {"without disagreements annotated by b": 1}
    with pytest.raises(TableError, match=r"no disagreements annotated by 'c'; by a, b"):
        disagreement(study, annotators=["a", "c"])
    with pytest.raises(TableError, match=r"give a list of names, such as \['a'\]"):
        disagreement(study, annotators="a")
    with pytest.raises(TableError, match="annotators is empty"):
        disagreement(study, annotators=[])
    with pytest.raises(TableError, match="cluster is 'pair', not one of ordered_pair"):
        disagreement(study, cluster="pair")


def test_few_clusters_are_warned_of_once_for_a_whole_study() -> None:
    study = mazes()
    few = sorted(study.models.filter(pl.col("strength") == "medium").collect()["model"])[:2]
    runs = study.runs.filter(pl.col("model").is_in(few) & pl.col("partner_model").is_in(few)).collect()
    part = Dataset("few", dict(study.tables) | {"runs": runs}, simulated=True, kind="simulated")
    with pytest.warns(cl.FewClustersWarning) as caught:
        result = disagreement(part, resamples=100, estimator="firth")
    assert len(caught) == 1
    assert repr(result).count("With fewer than 10 clusters") == 1
    assert result.by_interaction.height > 0


@pytest.mark.parametrize("n_clusters", [5, 6, 12])
def test_an_interval_leaves_out_one_exactly_where_p_is_below_5_percent(n_clusters: int) -> None:
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = odds_ratios(
                clustered(n_clusters, 60, seed), outcome="y", predictors=["x"], cluster="g", resamples=2000
            )
        for row in result.table.iter_rows(named=True):
            assert row["n_clusters"] == n_clusters
            assert (row["p"] < 0.05) == (not row["lo"] <= 1 <= row["hi"]), row


@pytest.mark.parametrize("n_clusters", [2, 4])
def test_fewer_than_five_clusters_give_no_interval_p_or_mark_but_by_plain_percentiles(n_clusters: int) -> None:
    asked = {"outcome": "y", "predictors": ["x"], "cluster": "g", "resamples": 50}
    with pytest.warns(cl.FewClustersWarning):
        result = odds_ratios(clustered(n_clusters, 60), **asked)
    assert result.table.select("lo", "hi", "p").null_count().row(0) == (2, 2, 2)
    assert set(result.table["reason"]) == {f"too few: {n_clusters} gs"} and set(result.table["mark"]) == {""}
    with pytest.warns(cl.FewClustersWarning):
        assert odds_ratios(clustered(n_clusters, 60), **asked, interval="percentile").table["lo"].null_count() == 0
