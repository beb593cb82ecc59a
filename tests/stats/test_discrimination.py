"""Signals and mirrors: a constant policy has d' = 0, textbook numbers come out, intervals cover."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import cilab
from cilab.core.errors import TableError
from cilab.stats.methods import detection
from cilab.stats.methods.detection import corrected_rates, detect
from cilab.stats.teamwork.discrimination import DiscriminationResult, discrimination
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "discrimination_coverage.json"
z = stats.norm.ppf


def frame(acts: dict[str, np.ndarray], n_signal: int, families: int = 6, evidence: bool = False) -> pl.DataFrame:
    """One alone and one test run for each model and item; `acts` says on which items a model acted."""
    lines = []
    for model, acted in acts.items():
        for t, a in enumerate(acted):
            mirror = t >= n_signal
            fact = (model, f"t{t:02d}", "d", "mirror" if mirror else "signal", f"f{t % families}")
            passed = float(a) if not mirror else 1 - float(a)
            lines.append((*fact, "alone", 1.0, f"{model}-{t}-alone", []))
            lines.append((*fact, "test", passed, f"{model}-{t}-test", ["showed_reflex"] if a and evidence else []))
    names = ["model", "task_id", "dimension", "item", "family", "version", "score", "run_id", "evidence"]
    found = pl.DataFrame(lines, schema=names, schema_overrides={"evidence": pl.List(pl.String)}, orient="row")
    return found.with_columns(status=pl.lit("ok"))


def only(result: DiscriminationResult) -> dict:
    return result.table.row(0, named=True)


# -- the correction ---------------------------------------------------------------------------------------


@given(n_signal=st.integers(1, 200), n_mirror=st.integers(1, 200), share=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
@settings(max_examples=200, deadline=None)
def test_a_constant_policy_has_a_d_prime_of_exactly_zero(n_signal: int, n_mirror: int, share: float) -> None:
    hit, alarm = corrected_rates(share * n_signal, n_signal, share * n_mirror, n_mirror)
    assert hit == alarm and 0 < hit < 1
    found = detect(
        np.full(n_signal, share), np.full(n_mirror, share), np.arange(n_signal), np.arange(n_mirror), ci_level=0.95
    )
    assert found.d_prime.value == 0
    few = min(n_signal, n_mirror) < 3
    assert (found.d_prime.reason is not None) == few and (few or found.d_prime.lo < 0 < found.d_prime.hi)


def test_of_equal_numbers_the_two_corrections_are_one() -> None:
    # Hautus (1995): 0.5 and 1. The proportional one adds 1/2 and 1 where both kinds have the same number.
    assert corrected_rates(18, 20, 3, 20) == pytest.approx(corrected_rates(18, 20, 3, 20, "log_linear"))
    assert corrected_rates(18, 20, 3, 20) == pytest.approx((18.5 / 21, 3.5 / 21))


def test_log_linear_gives_the_constant_policy_what_the_design_says_of_it() -> None:
    hit, alarm = corrected_rates(18, 18, 6, 6, "log_linear")
    assert z(hit) - z(alarm) == pytest.approx(0.47, abs=0.005)
    with pytest.raises(TableError, match="correction"):
        corrected_rates(1, 2, 1, 2, "none")


def test_d_prime_and_criterion_are_the_textbooks_where_numbers_are_large() -> None:
    # Macmillan & Creelman: H = .8, F = .4 gives d' = 0.842 + 0.253 = 1.095 and c = -0.294.
    acts = [np.r_[np.ones(80_000), np.zeros(20_000)], np.r_[np.ones(40_000), np.zeros(60_000)]]
    found = detect(*acts, np.arange(100_000), np.arange(100_000))
    assert found.d_prime.value == pytest.approx(1.095, abs=1e-3)
    assert found.criterion.value == pytest.approx(-0.294, abs=1e-3)
    # Gourevitch & Galanter's (1967) variance: H(1-H) / (n phi(z)^2) + the same of F.
    variance = sum(p * (1 - p) / (100_000 * stats.norm.pdf(z(p)) ** 2) for p in (0.8, 0.4))
    assert found.d_prime.hi - found.d_prime.lo == pytest.approx(2 * 1.959964 * np.sqrt(variance), rel=2e-3)


def test_a_rate_has_the_interval_of_the_rule_of_uncertainty() -> None:
    from statsmodels.stats.proportion import proportion_confint

    # All of 12: Clopper and Pearson's bound; otherwise within a few percent of it.
    every = detection.rate_of(np.ones(12), np.arange(12))
    assert (every.lo, every.hi) == pytest.approx(proportion_confint(12, 12, method="beta"))
    some = detection.rate_of(np.r_[np.ones(40), np.zeros(60)], np.arange(100))
    assert (some.lo, some.hi) == pytest.approx(proportion_confint(40, 100, method="wilson"), abs=0.005)


def test_clusters_that_act_as_one_count_as_so_many_items() -> None:
    acted = np.repeat([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 5)
    by_item = detection.rate_of(acted, np.arange(30))
    by_cluster = detection.rate_of(acted, np.repeat(np.arange(6), 5))
    assert by_cluster.value == by_item.value
    assert by_cluster.hi - by_cluster.lo > 1.5 * (by_item.hi - by_item.lo)


# -- the estimator ----------------------------------------------------------------------------------------


def test_rates_and_pass_rates_are_those_counted_by_hand() -> None:
    acted = np.r_[np.ones(15), np.zeros(3), np.ones(2), np.zeros(4)]
    found = only(discrimination(frame({"m": acted}, 18)))
    assert (found["n_signal"], found["n_mirror"], found["n_clusters"]) == (18, 6, 6)
    assert found["hit_rate"] == pytest.approx(15 / 18) and found["false_alarm_rate"] == pytest.approx(2 / 6)
    assert found["signal_pass"] == pytest.approx(15 / 18) and found["mirror_pass"] == pytest.approx(4 / 6)
    assert found["balanced"] == pytest.approx((15 / 18 + 4 / 6) / 2)
    # Shares 3/4 and 1/4: (15 + .75) / (18 + 1.5) and (2 + .25) / (6 + .5).
    hit, alarm = 15.75 / 19.5, 2.25 / 6.5
    assert found["d_prime"] == pytest.approx(z(hit) - z(alarm))
    assert found["criterion"] == pytest.approx(-(z(hit) + z(alarm)) / 2)
    assert found["d_prime_lo"] < found["d_prime"] < found["d_prime_hi"] and found["no_interval"] is None


def test_who_always_acts_and_who_never_does_have_d_prime_zero_and_opposite_criteria() -> None:
    table = discrimination(frame({"always": np.ones(24), "never": np.zeros(24)}, 18)).table
    assert table["d_prime"].to_list() == [0.0, 0.0]
    assert table["criterion"][0] == pytest.approx(-table["criterion"][1]) and table["criterion"][0] < -1
    assert table["signal_pass"].to_list() == [1, 0] and table["mirror_pass"].to_list() == [0, 1]
    assert table["balanced"].to_list() == [0.5, 0.5]
    # No width of zero: the rates have bounds, d' none on either side.
    assert table["hit_rate_lo"][0] < 1 and table["false_alarm_rate_hi"][1] > 0
    assert table["one_sided"].to_list() == [
        "acted on every signal, acted on every mirror",
        "acted on no signal, acted on no mirror",
    ]


def test_a_perfect_row_has_a_lower_end_only() -> None:
    found = only(discrimination(frame({"m": np.r_[np.ones(18), np.zeros(6)]}, 18)))
    assert found["d_prime"] > 2 and 0 < found["d_prime_lo"] < found["d_prime"] and found["d_prime_hi"] is None
    assert found["one_sided"] == "acted on every signal, acted on no mirror"
    assert found["balanced"] == 1 and found["balanced_lo"] < 1


def test_evidence_of_the_reflex_counts_where_it_is_recorded_and_the_score_where_not() -> None:
    # The reflex was shown on every signal, but half of the signals failed for other reasons.
    data = frame({"m": np.r_[np.ones(18), np.zeros(6)]}, 18, evidence=True)
    failed = pl.col("task_id").is_in([f"t{t:02d}" for t in range(9)]) & (pl.col("version") == "test")
    data = data.with_columns(score=pl.when(failed).then(0.0).otherwise("score"))
    by_evidence, by_score = discrimination(data), discrimination(data, act="score")
    assert (by_evidence.act, only(by_evidence)["hit_rate"]) == ("evidence", 1.0)
    assert (by_score.act, only(by_score)["hit_rate"]) == ("score", 0.5)
    assert only(by_evidence)["signal_pass"] == only(by_score)["signal_pass"] == 0.5
    assert by_evidence.parameters["act_used"] == "evidence"
    # What was not recorded is no "did not act".
    unseen = (pl.col("task_id") == "t00") & (pl.col("version") == "test")
    gone = data.with_columns(evidence=pl.when(unseen).then(None).otherwise("evidence"))
    assert only(discrimination(gone))["n_signal"] == 17
    assert "1 runs without evidence are in no rate." in discrimination(gone).notes()


def test_items_count_for_the_rows_that_solve_them_alone_and_seeds_are_averaged_first() -> None:
    data = frame({"m": np.r_[np.ones(18), np.zeros(6)]}, 18)
    alone = (pl.col("version") == "alone") & pl.col("task_id").is_in(["t00", "t20"])
    gated = only(discrimination(data.with_columns(score=pl.when(alone).then(0.0).otherwise("score"))))
    assert (gated["n_signal"], gated["n_mirror"]) == (17, 5)
    twice = pl.concat([data.with_columns(seed=pl.lit(s), run_id=pl.col("run_id") + f"-{s}") for s in range(2)])
    slip = (pl.col("task_id") == "t00") & (pl.col("version") == "test") & (pl.col("seed") == 1)
    found = only(discrimination(twice.with_columns(score=pl.when(slip).then(0.0).otherwise("score"))))
    assert found["hit_rate"] == pytest.approx(17.5 / 18)


def test_dimensions_stand_apart_and_the_row_pools_them() -> None:
    data = frame({"m": np.r_[np.ones(12), np.zeros(6), np.ones(3), np.zeros(3)]}, 18)
    data = data.with_columns(
        dimension=pl.when(pl.col("family").is_in(["f0", "f1", "f2"])).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    found = discrimination(data)
    assert found.dimensions["dimension"].to_list() == ["a", "b"]
    assert found.dimensions["n_signal"].sum() == found.table["n_signal"][0] == 18
    pooled = (found.dimensions["hit_rate"] * found.dimensions["n_signal"]).sum() / 18
    assert pooled == pytest.approx(found.table["hit_rate"][0])


def test_clusters_are_families_where_they_are_there_else_tasks_or_a_named_column() -> None:
    data = frame({"m": np.r_[np.ones(15), np.zeros(3), np.ones(2), np.zeros(4)]}, 18)
    assert discrimination(data).parameters["cluster_used"] == "family"
    assert discrimination(data.drop("family")).parameters["cluster_used"] == "task"
    assert only(discrimination(data.drop("family")))["n_clusters"] == 24
    named = data.rename({"family": "room"})
    assert only(discrimination(named, cluster="room"))["n_clusters"] == 6
    two = frame({"m": np.r_[np.ones(15), np.zeros(3), np.ones(2), np.zeros(4)]}, 18, families=2)
    found = only(discrimination(two))
    assert found["no_interval"] == "signal pass: too few: 2 families" and found["d_prime"] is not None
    assert [found[f"{n}{e}"] for n in ("d_prime", "hit_rate", "balanced") for e in ("_lo", "_hi")] == [None] * 6
    # A task without a family stands for itself.
    some = data.with_columns(family=pl.when(pl.col("task_id") == "t00").then(None).otherwise("family"))
    assert only(discrimination(some))["n_clusters"] == 7


def test_one_kind_alone_has_its_rate_and_the_reason() -> None:
    data = frame({"m": np.ones(18)}, 18)
    found = only(discrimination(data))
    assert found["no_estimate"] == "no mirror items" and found["d_prime"] is None and found["balanced"] is None
    # Clopper and Pearson of 6 of 6 families.
    assert found["hit_rate"] == 1 and found["hit_rate_lo"] == pytest.approx(0.025 ** (1 / 6))


def test_bad_input_is_one_line() -> None:
    data = frame({"m": np.ones(24)}, 18)
    with pytest.raises(TableError, match="no column item"):
        discrimination(data.drop("item"))
    with pytest.raises(TableError, match="item is 'mirrored'; it is signal or mirror"):
        discrimination(data.with_columns(item=pl.col("item").replace("mirror", "mirrored")))
    with pytest.raises(TableError, match="task t03 is of both kinds"):
        both = (pl.col("task_id") == "t03") & (pl.col("version") == "test")
        discrimination(data.with_columns(item=pl.when(both).then(pl.lit("mirror")).otherwise("item")))
    with pytest.raises(TableError, match="no column 'famly'"):
        discrimination(data, cluster="famly")
    with pytest.raises(TableError, match="needs the columns run_id and evidence"):
        discrimination(data.drop("evidence"), act="evidence")
    unknown = data.with_columns(item=pl.when(pl.col("task_id") == "t03").then(None).otherwise("item"))
    found = discrimination(unknown)
    assert only(found)["n_signal"] == 17 and found.n_left_out["of tasks without an item kind"] == 2
    assert found.n_used + sum(found.n_left_out.values()) == data.height


def test_pandas_frames_and_records_give_the_same() -> None:
    data = frame({"m": np.r_[np.ones(15), np.zeros(3), np.ones(2), np.zeros(4)], "n": np.ones(24)}, 18)
    found = discrimination(data)
    assert discrimination(data.to_pandas(), act="score").table.equals(found.table)
    assert cilab.rerun(found, data).table.equals(found.table)
    shown = found.sheet().cells
    assert shown["Hits"].to_list() == ["0.83", "1.00"] and shown["Remarks"][1].startswith("acted on every signal")
    assert shown["d'"][0].startswith("1.27 [") and shown["d'"][1] == "0.00"


# -- coverage ---------------------------------------------------------------------------------------------


def test_stored_coverage_is_at_least_93_percent_and_not_far_above_from_30_clusters() -> None:
    stored = json.loads(GOLDEN.read_text())
    assert len(stored["designs"]) == 24 and stored["data_sets"] == 2000
    for design in stored["designs"]:
        assert min(design["d_prime_pct"], design["criterion_pct"]) >= 93, design
        if design["families"] >= 30:
            # 30 items with a rate of 0.97 have an exact, so a conservative, end.
            few_and_near_the_edge = design["families"] == 30 and design["hit"] == 0.97
            assert design["d_prime_pct"] <= (99 if few_and_near_the_edge else 97.5), design


def test_the_first_designs_of_the_coverage_study_come_out_as_stored() -> None:
    stored = json.loads(GOLDEN.read_text())
    study = script("studies/discrimination_coverage")
    for design, first in zip(study.DESIGNS, stored["designs"], strict=True):
        inside = [study.covered(design, i) for i in range(3)]
        assert [[bool(x) for x in pair] for pair in inside] == first["first_data_sets"]


@pytest.mark.study
def test_the_whole_coverage_study_comes_out_as_stored() -> None:
    assert script("studies/discrimination_coverage").study() == json.loads(GOLDEN.read_text())
