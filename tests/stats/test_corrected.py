"""Scores corrected for judges' errors: closed forms, the published formulas, a known truth, coverage, bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cilab
from cilab import testing
from cilab.core.errors import TableError
from cilab.datasets import hand_worked_round, simulated_release
from cilab.stats.judges.corrected import METHODS, CorrectedScores
from cilab.stats.methods.distributions import normal_two_sided, t_quantile
from cilab.stats.methods.misclassification import Rate, error_rates, prediction_powered, rogan_gladen
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "correction_coverage.json"


def confused(seed: int, n: int = 400, labels: int = 80, se: float = 0.9, sp: float = 0.8, share: float = 0.5):
    """Judged verdicts and people's of some, NaN elsewhere, and all of people's."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(float)
    judged = np.where(rng.random(n) < np.where(truth == 1, se, sp), truth, 1 - truth)
    people = np.full(n, np.nan)
    at = rng.choice(n, labels, replace=False)
    people[at] = truth[at]
    return judged, people, truth


# -- prediction-powered inference -------------------------------------------------------------------------


def test_the_estimate_is_that_of_the_published_formula_with_its_power_tuning() -> None:
    judged, people, _ = confused(1)
    found = prediction_powered(judged, people)
    # Angelopoulos, Duchi and Zrnic (2023): n labelled, N others; lambda = cov(y, f) / ((1 + n / N) var f), and the
    # estimate is lambda mean_N(f) + mean_n(y - lambda f).
    there = np.isfinite(people)
    f, y, other = judged[there], people[there], judged[~there]
    tuned = np.cov(y, f, ddof=0)[0, 1] / f.var() / (1 + len(f) / len(other))
    assert found.value == pytest.approx(tuned * other.mean() + (y - tuned * f).mean(), abs=1e-12)
    variance = tuned**2 * other.var() / len(other) + (y - tuned * f).var() / len(f)
    assert found.se == pytest.approx(math.sqrt(variance), rel=0.03)


def test_with_verdicts_of_0_and_1_it_is_tenenbeins_estimate_of_double_sampling() -> None:
    judged, people, _ = confused(2)
    there = np.isfinite(people)
    by_hand = sum(
        (judged == k).mean() * people[there & (judged == k)].mean() for k in (0.0, 1.0)
    )  # Tenenbein (1970): people's share in each class of the judge's verdict
    assert prediction_powered(judged, people).value == pytest.approx(by_hand, abs=1e-12)


def test_a_judge_who_says_the_same_of_all_leaves_the_score_interval_of_the_labels() -> None:
    from scipy.stats import binomtest

    people = np.full(60, np.nan)
    people[:20] = [1.0] * 13 + [0.0] * 7
    found = prediction_powered(np.ones(60), people)
    level = 1 - normal_two_sided(t_quantile(0.975, 19))  # Wilson's interval, with Student's t for the normal
    assert found.value == pytest.approx(13 / 20) and found.factor == 0
    assert (found.lo, found.hi) == pytest.approx(tuple(binomtest(13, 20).proportion_ci(level, "wilson")), abs=1e-9)


def test_people_who_always_agree_leave_the_judged_share_with_an_interval_of_some_width() -> None:
    judged, _, _ = confused(3)
    people = np.where(np.arange(400) < 30, judged, np.nan)
    found = prediction_powered(judged, people)
    assert found.value == pytest.approx(judged.mean()) and found.factor == 1
    assert found.hi - found.lo > 0.1  # one label in ten might still be wrong
    graded = prediction_powered(judged * 0.5, people * 0.5)
    assert graded.hi - graded.lo > 0.1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), labels=st.integers(3, 60), share=st.floats(0.05, 0.95))
def test_calling_positives_negatives_mirrors_both_corrections(seed: int, labels: int, share: float) -> None:
    judged, people, _ = confused(seed, 120, labels, share=share)
    one, two = prediction_powered(judged, people), prediction_powered(1 - judged, 1 - people)
    assert one.value == pytest.approx(1 - two.value, abs=1e-9)
    assert (one.lo, one.hi) == pytest.approx((1 - two.hi, 1 - two.lo), abs=1e-9)
    assert 0 <= one.lo <= one.value <= one.hi <= 1
    there = np.isfinite(people)
    rates = error_rates(judged[there], people[there], np.ones(labels))
    other = error_rates(1 - judged[there], 1 - people[there], np.ones(labels))
    a, b = rogan_gladen(judged, *rates), rogan_gladen(1 - judged, *other)
    assert (a.value is None) == (b.value is None)
    if a.value is not None and a.lo is not None:
        assert a.value == pytest.approx(1 - b.value, abs=1e-9)
        assert (a.lo, a.hi) == pytest.approx((1 - b.hi, 1 - b.lo), abs=1e-9)


def test_labels_of_a_stratified_sample_count_by_their_weights() -> None:
    # 1,000 units, of which 200 are judged positive; people agree but with 1 in 4 of the negatives. Of the positives all
    # are labelled, of the negatives one in eight: without weights people would call (200 + 25) / 300 positive.
    judged = np.repeat([1.0, 0.0], [200, 800])
    people = np.full(1000, np.nan)
    people[:200] = 1.0
    people[200:300] = np.repeat([1.0, 0.0], [25, 75])
    weights = np.repeat([1.0, 8.0], [200, 800])
    found = prediction_powered(judged, people, sampling=weights)
    assert found.value == pytest.approx((200 + 800 / 4) / 1000)
    se, sp = error_rates(judged[:300], people[:300], weights[:300])
    assert (se.value, sp.value) == pytest.approx((200 / 400, 1.0))
    assert se.effective < se.n == 225  # unequal weights say less


def test_a_stratified_sample_without_one_kind_of_verdict_says_nothing_of_it() -> None:
    judged = np.repeat([1.0, 0.0], [200, 800])
    people = np.where(np.arange(1000) >= 950, 0.0, np.nan)
    found = prediction_powered(judged, people, sampling=np.repeat([4.0, 1.0], [200, 800]))
    assert found.value is None and found.reason == "the sample is stratified, and all its labelled units are judged 0"
    assert prediction_powered(judged, people).value == 0  # by a plain sample they would be few


def test_units_that_come_in_clusters_say_less() -> None:
    rng = np.random.default_rng(4)
    of = np.repeat(np.arange(40), 10)
    judged = (rng.random(40) < 0.5).astype(float)[of]
    people = np.where(rng.random(40)[of] < 0.85, judged, 1 - judged)
    people = np.where(rng.random(400) < 0.5, people, np.nan)
    alone, together = prediction_powered(judged, people), prediction_powered(judged, people, clusters=of)
    assert together.value == alone.value and together.n_clusters == 40
    assert together.hi - together.lo > 2 * (alone.hi - alone.lo)


def test_two_labelled_clusters_have_a_value_and_no_interval() -> None:
    judged, people, _ = confused(5)
    found = prediction_powered(judged, people, clusters=np.arange(400) % 2)
    assert found.value is not None and found.lo is None and found.no_interval == "too few: 2 tasks"


# -- Rogan and Gladen -------------------------------------------------------------------------------------


def test_rates_are_counts_with_wilsons_interval() -> None:
    from scipy.stats import binomtest

    judged, people = np.repeat([1.0, 0, 1, 0], [45, 5, 8, 42]), np.repeat([1.0, 1, 0, 0], [45, 5, 8, 42])
    se, sp = error_rates(judged, people, np.ones(100))
    assert (se.value, se.n, sp.value, sp.n) == (0.9, 50, 0.84, 50)
    assert (se.lo, se.hi) == pytest.approx(tuple(binomtest(45, 50).proportion_ci(0.95, "wilson")))
    assert (sp.lo, sp.hi) == pytest.approx(tuple(binomtest(42, 50).proportion_ci(0.95, "wilson")))


def test_the_corrected_share_and_its_error_are_rogan_and_gladens() -> None:
    judged = np.repeat([1.0, 0.0], [300, 700])
    found = rogan_gladen(judged, Rate(0.9, 0.8, 0.95, 100, 100.0), Rate(0.8, 0.7, 0.9, 200, 200.0))
    share = (0.3 + 0.8 - 1) / (0.9 + 0.8 - 1)
    variance = 0.3 * 0.7 / 1000 + share**2 * 0.09 / 100 + (1 - share) ** 2 * 0.16 / 200
    assert found.value == pytest.approx(share)
    assert found.se == pytest.approx(math.sqrt(variance) / 0.7, rel=1e-3)
    # With many labels the interval is the one of the delta method.
    many = rogan_gladen(np.tile(judged, 50), Rate(0.9, 0, 1, 9, 1e6), Rate(0.8, 0, 1, 9, 1e6))
    half = 1.96 * many.se
    assert (many.lo, many.hi) == pytest.approx((many.value - half, many.value + half), abs=5e-4)


def test_known_rates_without_error_leave_the_share_as_it_is() -> None:
    judged = np.repeat([1.0, 0.0], [30, 70])
    found = rogan_gladen(judged, Rate(1.0, 1, 1, 10**6, 1e9), Rate(1.0, 1, 1, 10**6, 1e9))
    assert found.value == pytest.approx(0.3) and found.lo < 0.3 < found.hi


@pytest.mark.parametrize(
    ("se", "sp", "words"),
    [
        (Rate(None, None, None, 0, 0), Rate(0.9, 0, 1, 9, 9), "people called no labelled unit positive: sensitivity"),
        (Rate(0.9, 0, 1, 9, 9), Rate(None, None, None, 0, 0), "people called no labelled unit negative: specificity"),
        (Rate(0.5, 0, 1, 9, 9), Rate(0.43, 0, 1, 9, 9), "sensitivity + specificity = 0.93: the judge does no better"),
    ],
)
def test_a_correction_that_cannot_be_made_gives_its_reason(se: Rate, sp: Rate, words: str) -> None:
    found = rogan_gladen(np.array([1.0, 0.0, 1.0]), se, sp)
    assert found.value is None and found.lo is None and found.reason.startswith(words)


def test_a_share_outside_0_to_1_is_brought_back_and_marked() -> None:
    judged = np.repeat([1.0, 0.0], [5, 95])
    found = rogan_gladen(judged, Rate(0.9, 0.8, 1, 50, 50), Rate(0.9, 0.8, 1, 50, 50))
    assert found.value == 0 and found.clipped and found.lo == 0 and found.hi > 0


# -- the estimator ----------------------------------------------------------------------------------------


def judged_runs(
    seed: int = 0, models: int = 3, tasks: int = 30, dims: int = 2
) -> tuple[pl.DataFrame, dict[str, float]]:
    """Runs whose check passes a tenth too many, and what people would say of each."""
    rng = np.random.default_rng(seed)
    rows, truth = [], {}
    for m in range(models):
        for t in range(tasks):
            name = f"d{t % 2}:{t:02}"
            good = float(rng.random() < 0.4 + 0.15 * m)
            score = 1.0 if good or rng.random() < 0.25 else 0.0
            rows += [testing.run(f"m{m}", name, "alone"), testing.run(f"m{m}", name, "test", score)]
            truth[rows[-1]["run_id"]] = good
    return testing.runs(rows), truth


def verdicts(truth: dict[str, float], n: int, seed: int = 0) -> pl.DataFrame:
    ids = np.random.default_rng(seed).choice(sorted(truth), n, replace=False)
    return pl.DataFrame({"run_id": ids, "score": [truth[i] for i in ids]})


def test_the_judged_line_is_the_leaderboards_score_and_corrections_stand_beside_it() -> None:
    runs, truth = judged_runs()
    found = cilab.corrected(runs, verdicts(truth, 60))
    board = dict(cilab.leaderboard(runs, resamples=50).table.select("model", "score_pct").iter_rows())
    for model, score in board.items():
        assert found.value("uncorrected", model) == pytest.approx(score)
    assert found.value("uncorrected") == pytest.approx(np.mean([*board.values()]))
    assert found.table["method"].to_list() == [*METHODS] * 4
    assert [*found.sheet().cells.columns][1:4] == [f"{w} (%)" for w in METHODS.values()]
    assert "sensitivity" in repr(found) and found.rate("sensitivity") == 1.0


def test_corrections_come_nearer_to_what_people_would_say_of_all() -> None:
    runs, truth = judged_runs(1, models=4, tasks=60)
    whole = 100 * np.mean([*truth.values()])
    found = cilab.corrected(runs, verdicts(truth, 120, seed=2), by=None)
    off = {m: abs(found.value(m) - whole) for m in METHODS}
    assert off["uncorrected"] > 7 > max(off["prediction_powered"], off["rogan_gladen"])
    for line in found.table.filter(pl.col("method") != "uncorrected").iter_rows(named=True):
        assert line["lo_pct"] < whole < line["hi_pct"]


def test_reviews_of_the_study_are_labels_and_never_change_the_judged_score() -> None:
    runs, truth = judged_runs()
    tests = runs.filter(version="test").sample(40, seed=3)
    reviews = [
        {"run_id": i, "reviewer": "ann", "old_score": s, "new_score": truth[i]}
        for i, s in tests.select("run_id", "score").iter_rows()
    ]
    study = testing.study(runs.to_dicts(), reviews=reviews)
    found = cilab.corrected(study)
    plain = cilab.corrected(runs, verdicts(truth, 40))
    assert found.value("uncorrected") == pytest.approx(plain.value("uncorrected"))
    assert found.parameters["reviews"] == "ignore"
    same = cilab.corrected(runs, pl.DataFrame(reviews).select("run_id", score="new_score"))
    assert found.table.equals(same.table)


def test_messages_are_corrected_by_the_labels_of_people() -> None:
    rng = np.random.default_rng(6)
    rows, labels = [], []
    for t in range(60):
        rows += [testing.run("m", f"d:{t:02}", "alone"), testing.run("m", f"d:{t:02}", "test")]
        gives = bool(rng.random() < 0.5)
        labels.append(testing.label(rows[-1]["run_id"], 0, "yields" if gives else "holds", gives_way=gives))
        if t < 40:
            people = [gives and t % 4 != 0] * 2
            people = [True, False] if t == 39 else people
            labels += [
                testing.label(rows[-1]["run_id"], 0, "x", f"person:{k}", gives_way=p) for k, p in enumerate(people)
            ]
    found = cilab.corrected(testing.study(rows, labels=labels), of="gives_way", by=None)
    line = found.table.filter(method="prediction_powered").row(0, named=True)
    assert (line["n"], line["n_labelled"]) == (60, 39)
    assert line["value_pct"] < found.value("uncorrected") and found.rate("sensitivity") == 1.0
    assert any("1 messages on which people are even" in note for note in found.notes())


def test_the_sample_that_was_drawn_gives_the_weights() -> None:
    runs, truth = judged_runs(2, tasks=60)
    study = testing.study(runs.to_dicts())
    drawn = cilab.samples.sample_runs(study, 20, seed=1, by="passed", where=pl.col("version") == "test")
    people = drawn.table.select("run_id", score=pl.col("run_id").replace_strict(truth))
    weighted = cilab.corrected(study, people, sample=drawn.table, by=None)
    # By hand: people's share among the passed and the failed, in the shares that the tests have of both.
    both = runs.filter(version="test").join(people.rename({"score": "people"}), on="run_id", how="left")
    by_hand = 100 * sum(
        part.height / both.height * part["people"].drop_nulls().mean() for _, part in both.group_by("score")
    )
    assert weighted.value("prediction_powered") == pytest.approx(by_hand, abs=0.5)
    se = weighted.rate("sensitivity")
    assert (
        se == pytest.approx(1.0)
        and weighted.rate("specificity") < cilab.corrected(study, people).rate("specificity") + 0.5
    )


def test_graded_scores_have_no_rates_until_a_success_is_named() -> None:
    runs, truth = judged_runs()
    graded = runs.with_columns(score=pl.when(pl.col("version") == "test").then(pl.col("score") / 2).otherwise("score"))
    people = verdicts(truth, 50).with_columns(score=pl.col("score") / 2)
    found = cilab.corrected(graded, people, by=None)
    assert found.value("rogan_gladen") is None and found.value("prediction_powered") is not None
    assert set(found.rates["reason"]) == {"scores are graded; give success="}
    named = cilab.corrected(graded, people, by=None, success=0.5)
    assert named.value("rogan_gladen") == pytest.approx(
        cilab.corrected(runs, verdicts(truth, 50)).value("rogan_gladen")
    )


def test_a_group_without_labels_says_so_and_the_others_have_their_corrections() -> None:
    runs, truth = judged_runs()
    people = verdicts({i: v for i, v in truth.items() if not i.startswith("m0")}, 30)
    found = cilab.corrected(runs, people)
    line = found.table.filter(group="m0", method="prediction_powered").row(0, named=True)
    assert line["value_pct"] is None and line["reason"] == "no labels" and line["n_labelled"] == 0
    assert found.value("rogan_gladen", "m0") is not None and found.value("prediction_powered", "m1") is not None


def test_labels_on_two_tasks_have_no_interval() -> None:
    runs, truth = judged_runs()
    people = pl.DataFrame({"run_id": [i for i in truth if ":00|" in i or ":01|" in i]})
    people = people.with_columns(score=pl.col("run_id").replace_strict(truth))
    line = cilab.corrected(runs, people, by=None).table.filter(method="prediction_powered").row(0, named=True)
    assert line["value_pct"] is not None and line["lo_pct"] is None and line["no_interval"] == "too few: 2 tasks"


def test_equal_scores_have_intervals_of_some_width() -> None:
    rows = [testing.run("m", f"d:{t:02}", v) for t in range(30) for v in ("alone", "test")]
    people = pl.DataFrame({"run_id": [r["run_id"] for r in rows if r["version"] == "test"][:12], "score": [1.0] * 12})
    found = cilab.corrected(testing.runs(rows), people, by=None)
    for line in found.table.filter(pl.col("value_pct").is_not_null()).iter_rows(named=True):
        assert line["value_pct"] == pytest.approx(100) and line["lo_pct"] < 95
    assert found.table.filter(method="rogan_gladen")["reason"][0].startswith("people called no labelled unit negative")


def test_every_run_is_counted_and_the_figure_draws_what_is_there() -> None:
    data = simulated_release(scale=0.2)
    runs = data.runs.filter(version="test", status="ok").collect().sample(200, seed=1)
    found = cilab.corrected(data, runs.select("run_id", "score"), by="dimension", success=1.0)
    assert isinstance(found, CorrectedScores)
    assert found.n_used + sum(found.n_left_out.values()) == data.runs.collect().height


@pytest.mark.parametrize(
    ("people", "more", "words"),
    [
        ({"run_id": ["x"], "verdict": [1.0]}, {}, "people: missing column score"),
        ({"run_id": ["x"], "score": ["good"]}, {}, "people: score holds String"),
        ({"run_id": ["x"], "score": [85.0]}, {}, "outside 0 to 1"),
        ({"run_id": ["x", "x"], "score": [1.0, 0.0]}, {}, "run x has two verdicts"),
        ({"run_id": ["x"], "score": [1.0]}, {}, "no run that counts has a person's verdict"),
        ({"run_id": ["m0|d0:00|test|0"], "score": [1.0], "weight": [0.0]}, {}, "no weight above 0"),
        ({"run_id": ["m0|d0:00|test|0"], "score": [1.0]}, {"sample": pl.DataFrame({"run_id": ["a"]})}, "sample: give"),
        (
            {"run_id": ["m0|d0:00|test|0"], "score": [1.0]},
            {"sample": pl.DataFrame({"run_id": ["a"], "weight": [1.0]})},
            "none of the labelled units stands in it",
        ),
        ({"run_id": ["m0|d0:00|test|0"], "score": [1.0]}, {"success": 2.0}, "success is 2.0"),
        ({"run_id": ["m0|d0:00|test|0"], "score": [1.0]}, {"cluster": "colour"}, "no.* column 'colour'"),
        (None, {}, "a table of runs has no reviews"),
        (None, {"of": "gives_way"}, "this study has no labels"),
    ],
)
def test_bad_input_is_one_line(people: Any, more: dict[str, Any], words: str) -> None:
    runs, _ = judged_runs()
    with pytest.raises(TableError, match=words) as e:
        cilab.corrected(runs, None if people is None else pl.DataFrame(people), **more)
    assert "\n" not in str(e.value)


def test_a_study_without_reviews_is_told_how_to_get_some() -> None:
    with pytest.raises(TableError, match="cilab sample"):
        cilab.corrected(hand_worked_round())


# -- coverage ---------------------------------------------------------------------------------------------


def test_stored_coverage_of_corrections_is_at_least_93_percent_wherever_an_interval_is_shown() -> None:
    stored = json.loads(GOLDEN.read_text())
    assert stored["data_sets"] >= 1000 and {c["labels"] for c in stored["cases"]} == {30, 100, 300}
    assert {c["kind"] for c in stored["cases"]} == {"binary", "clustered", "graded", "stratified"}
    assert min(c["coverage_pct"] for c in stored["cases"]) == stored["least_coverage_pct"] >= 93
    powered = [c for c in stored["cases"] if c["method"] == "prediction_powered"]
    assert all(c["without_interval_pct"] == 0 for c in powered if c["kind"] != "stratified")
    assert all(c["without_interval_pct"] < 15 for c in powered)
    # What is corrected is worth it: the judged share is off by more than what is left.
    assert all(abs(c["bias_points"]) < 1.5 for c in powered)
    off = [c for c in powered if abs(c["judged_bias_points"]) > 3]
    assert len(off) == 21 and all(abs(c["bias_points"]) < abs(c["judged_bias_points"]) / 3 for c in off)


def test_the_first_data_sets_of_the_coverage_study_come_out_as_stored() -> None:
    study, stored = script("correction_coverage"), json.loads(GOLDEN.read_text())
    for case, (kind, (share, se, sp), n) in enumerate(study.CASES):
        for number in range(study.FIRST):
            for method, verdict in study.verdicts(case, number).items():
                key = {
                    "kind": kind,
                    "share": share,
                    "sensitivity": se,
                    "specificity": sp,
                    "labels": n,
                    "method": method,
                }
                line = next(c for c in stored["cases"] if key.items() <= c.items())
                assert line["first_data_sets"][number] == (None if verdict is None else verdict[0])


@pytest.mark.study
def test_the_whole_coverage_study_of_corrections_comes_out_as_stored() -> None:
    """About three minutes."""
    stored = json.loads(GOLDEN.read_text())
    again = script("correction_coverage").study(stored["data_sets"])
    assert [c["coverage_pct"] for c in again["cases"]] == [c["coverage_pct"] for c in stored["cases"]]
