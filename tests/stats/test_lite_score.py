"""Full scores from a subset: by hand, within their bounds, on bad input, and how often the intervals cover."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats
from scipy.optimize import minimize

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.methods import subset_prediction as sp
from cilab.stats.methods.item_response import expit
from cilab.stats.methods.subset_prediction import Calibration, Cells, Check, Prediction, Scores, Spread
from cilab.stats.teamwork.lite import lite
from cilab.stats.teamwork.lite_score import LiteScore, lite_score
from tests.scripts import script
from tests.shared import SHARED, shared

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "lite_score.json"
TASKS, DIMENSIONS = 12, ["d"] * 6 + ["e"] * 6
NAMES = [f"t{t:02d}" for t in range(TASKS)]


def drawn(seed: int, rows: int = 8) -> np.ndarray:
    """Binary values of an item-response model, shape (rows, TASKS)."""
    rng = np.random.default_rng(seed)
    return (rng.random((rows, TASKS)) < expit(rng.normal(0, 1.3, (rows, 1)) - rng.normal(0, 1.2, TASKS))).astype(float)


def runs(values: np.ndarray, solved: np.ndarray | None = None, prefix: str = "m", **more: Any) -> pl.DataFrame:
    models = [f"{prefix}{r}" for r in range(len(values))]
    return testing.grid(values, solved, models=models, tasks=NAMES, dimensions=DIMENSIONS, **more)


def new(values: list[float | None], solved: list[bool] | None = None, tasks: list[int] | None = None) -> pl.DataFrame:
    """One new row on some of the tasks."""
    frame = runs(np.array([values], dtype=float), None if solved is None else np.array([solved]), prefix="new")
    return frame if tasks is None else frame.filter(pl.col("task_id").is_in([NAMES[t] for t in tasks]))


@cache
def study() -> pl.DataFrame:
    return runs(drawn(1))


HALF = [0, 2, 4, 6, 8, 10]
MIXED: list[float | None] = [1.0, 0.0] * 6


def one(result: LiteScore) -> dict[str, Any]:
    return result.table.row(0, named=True)


# -- the prediction ---------------------------------------------------------------------------------------


def test_what_is_seen_stands_and_the_rest_counts_with_its_expected_value_by_the_share_that_solves_it() -> None:
    values = drawn(2)
    gate = np.ones_like(values)
    gate[:3, 5] = 0  # three of eight rows do not solve the last task of the first dimension alone
    known = Cells(np.where(gate == 1, values, np.nan), gate, (slice(0, 6), slice(6, 12)))
    model = sp.fit_subset_model(known)
    row = np.full((1, TASKS), np.nan)
    row[0, [0, 1, 6]] = 1.0, 0.0, 1.0
    opened = np.where(np.isnan(row), np.nan, 1.0)
    opened[0, 2] = 0.0  # seen not to be solved alone: it does not count
    found = sp.predict(model, Cells(row, opened, known.slices))
    response = model.response

    def minus_log_posterior(a: np.ndarray) -> float:
        p = expit(a[response.dimension] - response.difficulty)
        seen = ~np.isnan(row[0])
        likelihood = np.sum(np.where(row[0] == 1, np.log(p), np.log(1 - p))[seen]) / model.dispersion
        apart = a - response.prior_mean
        return -likelihood + 0.5 * apart @ np.linalg.inv(response.prior_cov) @ apart

    ability = minimize(minus_log_posterior, response.prior_mean, tol=1e-10).x
    p = expit(ability[response.dimension] - response.difficulty)
    first = (1 + 0 + p[3] + p[4] + 5 / 8 * p[5]) / (4 + 5 / 8)
    second = (1 + p[7:].sum()) / 6
    np.testing.assert_allclose(found.score[0], [first, second], atol=1e-4)
    # Two tests seen, one passed; three are open. Of the second dimension one is seen and passed, five are open.
    np.testing.assert_allclose(found.least[0], [1 / 5, 1 / 6])
    np.testing.assert_allclose(found.most[0], [4 / 5, 6 / 6])
    assert found.seen[0].tolist() == [2, 1]


def test_the_interval_is_students_t_on_the_logit_of_the_part_not_seen() -> None:
    scores = Scores(*(np.array([x]) for x in (0.5, 0.2, 0.7, 0.05, 0.1, 0.0)))
    spread = Spread.of(scores, factor=1.5, degrees=8)
    part = 0.3 / 0.5
    t = stats.t.ppf(0.975, 8)
    width = np.array([0.05, 0.1]) * 1.5 / (0.5 * part * (1 - part))
    ends = 0.2 + 0.5 * expit(np.log(part / (1 - part)) + np.array([-t, t]) * width)
    lo, hi = spread.interval(0.95)
    np.testing.assert_allclose([lo[0], hi[0]], ends)
    # What is above the lower end has 97.5 %, above the upper end 2.5 %; beyond the bounds it is certain.
    above = spread.exceeds(np.array([ends[0], 0.5, ends[1], 0.19, 0.71]))[0]
    np.testing.assert_allclose(above, [0.975, 0.5, 0.025, 1.0, 0.0], atol=1e-12)


def test_factors_are_mean_squared_errors_in_claimed_standard_errors_a_model_counting_once() -> None:
    # Two rows of model a, one of b and c; one dimension; claimed standard error 0.1 on either side.
    full = np.array([[0.5], [0.5], [0.5], [0.5]])
    score = full + np.array([[0.1], [0.3], [-0.2], [0.0]])  # 1, 3, 2 and 0 standard errors off
    cov = np.full((4, 1, 1), 0.01)
    n = np.ones((4, 1), np.int64)
    predicted = Prediction(score, full * 0, full * 0 + 1, cov, cov, full * 0, n, np.ones(4))
    models = np.array(["a", "a", "b", "c"])
    found = sp.calibrate(Check(predicted, full), models, np.ones(4, bool))
    total = (1 + 9) / 2 + 4 + 0
    assert found.overall == pytest.approx(np.sqrt((4 * 1.2**2 + total) / 7))
    assert found.by_dimension == pytest.approx(np.sqrt((4 + total) / 7))
    assert (found.degrees, found.models) == (2, 3)
    # A row without a full score is not counted.
    fewer = sp.calibrate(Check(predicted, full), models, np.array([True, False, True, True]))
    assert fewer.overall == pytest.approx(np.sqrt((4 * 1.2**2 + 1 + 4) / 7))


@settings(max_examples=30, deadline=None)
@given(
    cells=st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=TASKS, max_size=TASKS),
    gates=st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=TASKS, max_size=TASKS),
)
def test_predictions_and_intervals_never_leave_what_was_seen(cells: list[float | None], gates: list[float]) -> None:
    row = np.array([cells], dtype=float)
    gate = np.where(np.isnan(row), np.array([gates]), 1.0)
    values = drawn(3)
    known = Cells(values, np.ones_like(values), (slice(0, 6), slice(6, 12)))
    found = sp.predict(sp.fit_subset_model(known), Cells(row, gate, known.slices))
    if not found.seen.any():
        assert np.isnan(found.score).all()
        return
    for scores in (found.overall, found.by_dimension):
        there = np.isfinite(scores.score)  # a dimension of which no task counts has no score
        lo, hi = Spread.of(scores, 1.3, 5).interval(0.99)
        low, high = np.nan_to_num(lo, nan=0.5), np.nan_to_num(hi, nan=0.5)
        assert ((scores.least >= 0) & (scores.most <= 1)).all()
        assert (scores.score[there] >= scores.least[there] - 1e-12).all()
        assert (scores.score[there] <= scores.most[there] + 1e-12).all()
        assert (low >= 0).all() and (high <= 1).all()
        assert (lo[np.isfinite(lo)] < hi[np.isfinite(lo)]).all()


def test_order_and_names_of_runs_do_not_matter() -> None:
    first = lite_score(study(), new(MIXED, tasks=HALF))
    again = lite_score(study().sample(fraction=1, shuffle=True, seed=3), new(MIXED, tasks=HALF).reverse())
    for name in ("table", "dimensions", "ranks", "beside", "check", "tasks"):
        assert_frame_equal(getattr(first, name), getattr(again, name), abs_tol=1e-9)


def test_two_new_rows_are_predicted_as_each_alone() -> None:
    pair = runs(np.array([MIXED, [1.0] * 12]), prefix="new").filter(pl.col("task_id").is_in([NAMES[t] for t in HALF]))
    both = lite_score(study(), pair)
    for r, name in enumerate(["new0", "new1"]):
        alone = lite_score(study(), pair.filter(pl.col("model") == name))
        assert_frame_equal(alone.table, both.table[r], abs_tol=1e-9)
        assert_frame_equal(alone.ranks, both.ranks.filter(pl.col("row") == name), abs_tol=1e-9)


# -- what is in the result --------------------------------------------------------------------------------


def test_ranks_count_the_rows_above_and_their_probabilities_add_up() -> None:
    result = lite_score(study(), new(MIXED, tasks=HALF))
    line = one(result)
    full = np.sort(drawn(1).mean(axis=1))[::-1] * 100
    assert line["rank"] == 1 + (full > line["predicted_pct"]).sum()
    assert line["rank_lo"] == 1 + (full > line["hi_pct"]).sum() and line["rank_hi"] == 1 + (full > line["lo_pct"]).sum()
    assert result.ranks["probability_pct"].sum() == pytest.approx(100)
    assert result.ranks["probability_pct"].min() >= -1e-9 and result.ranks.height == 9
    # The probability of rank 1 is that of being above the best row.
    best = result.beside.sort("full_pct")["above_pct"][-1]
    assert result.ranks["probability_pct"][0] == pytest.approx(best)
    np.testing.assert_allclose(result.beside["full_pct"].sort(descending=True), full)


def test_every_run_is_used_or_left_out_with_a_reason() -> None:
    result = lite_score(study(), new(MIXED), subset=[NAMES[t] for t in HALF])
    assert result.n_left_out == {"of tasks outside the subset": 12}
    assert result.n_used + 12 == study().height + 24
    assert result.parameters["subset"] == [NAMES[t] for t in HALF]


def test_the_subset_of_lite_is_taken_as_it_is_and_recorded_by_its_tasks() -> None:
    chosen = lite(study(), 3, splits=2)
    mine = new(MIXED).filter(pl.col("task_id").is_in(chosen.chosen()))
    result = lite_score(study(), mine, subset=chosen)
    assert_frame_equal(result.table, lite_score(study(), mine).table)
    assert result.parameters["subset"] == chosen.chosen()


def test_all_tasks_run_leave_nothing_to_predict() -> None:
    line = one(lite_score(study(), new(MIXED)))
    assert line["predicted_pct"] == pytest.approx(50) and line["subset_pct"] == pytest.approx(50)
    assert line["lo_pct"] is None and line["no_interval"] == "all tasks were run: nothing is predicted"
    assert line["rank"] is not None and line["rank_lo"] is None


def test_more_tests_narrow_the_interval() -> None:
    widths = []
    for n in (2, 4, 8, 11):
        line = one(lite_score(study(), new(MIXED, tasks=[*range(n // 2), *range(6, 6 + n - n // 2)])))
        widths.append(line["hi_pct"] - line["lo_pct"])
    assert widths == sorted(widths, reverse=True)


def test_missing_tasks_widen_the_interval_and_are_named() -> None:
    ids = [NAMES[t] for t in HALF]
    whole = one(lite_score(study(), new(MIXED, tasks=HALF), subset=ids))
    result = lite_score(study(), new(MIXED, tasks=HALF[:1] + HALF[3:]), subset=ids)
    line = one(result)
    assert line["hi_pct"] - line["lo_pct"] > whole["hi_pct"] - whole["lo_pct"]
    assert (line["n_without"], line["n_seen"], line["n_subset"]) == (2, 4, 6)
    assert "new0: 2 tasks of the subset without a verdict: t02, t04." in result.notes()


def test_a_task_not_solved_alone_or_refused_does_not_count_and_one_without_a_test_counts_as_expected() -> None:
    solved = [t != 0 for t in range(TASKS)]
    frame = new([None, *MIXED[1:]], solved, tasks=HALF)
    frame = frame.with_columns(
        status=pl.when((pl.col("task_id") == "t02") & (pl.col("version") == "test"))
        .then(pl.lit("refused"))
        .when((pl.col("task_id") == "t04") & (pl.col("version") == "test"))
        .then(pl.lit("error"))
        .otherwise("status")
    ).with_columns(score=pl.when(pl.col("status") == "ok").then("score"))
    result = lite_score(study(), frame)
    assert dict(result.tasks.select("task_id", "what").rows()) == {
        **{NAMES[t]: "seen" for t in (6, 8, 10)},
        "t00": "not solved alone",
        "t02": "refused",
        "t04": "incomplete",
    }
    line = one(result)
    assert (line["n_not_solved"], line["n_refused"], line["n_without"], line["n_seen"]) == (1, 1, 1, 3)
    (first, _) = result.dimensions.iter_rows(named=True)
    assert first["n_seen"] == 0 and first["reason"] == "no test seen: predicted from the other dimensions"
    assert first["lo_pct"] < first["predicted_pct"] < first["hi_pct"] and line["subset_pct"] is None


def test_one_dimension_absent_is_predicted_from_the_others_and_said() -> None:
    result = lite_score(study(), new(MIXED, tasks=[0, 2, 4]))
    assert "new0: no test seen in e; predicted from the other dimensions." in result.notes()
    seen, blind = result.dimensions.iter_rows(named=True)
    assert blind["hi_pct"] - blind["lo_pct"] > seen["hi_pct"] - seen["lo_pct"]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_passed_and_all_failed_have_a_number_off_the_edge_and_an_interval(value: float) -> None:
    line = one(lite_score(study(), new([value] * TASKS, tasks=HALF)))
    # An end may reach 0 or 100, which the score can be; the prediction cannot.
    assert 0 <= line["lo_pct"] < line["predicted_pct"] < line["hi_pct"] <= 100
    assert (line["predicted_pct"] > 50) == (value == 1) and line["hi_pct"] - line["lo_pct"] > 5


def test_a_row_that_solves_none_of_the_subset_alone_has_a_reason_in_place_of_numbers() -> None:
    pair = runs(np.array([MIXED, [np.nan] * 12]), np.array([[True] * 12, [False] * 12]), prefix="new")
    result = lite_score(study(), pair.filter(pl.col("task_id").is_in([NAMES[t] for t in HALF])))
    line = result.table.row(1, named=True)
    assert line["predicted_pct"] is line["lo_pct"] is line["rank"] is None and line["reason"] == "no test seen"
    assert any("new1: no prediction" in n and "6 not solved alone" in n for n in result.notes())
    assert "no test seen" in repr(result)


def test_fewer_than_three_models_give_a_number_without_an_interval() -> None:
    few = study().filter(pl.col("model").is_in(["m0", "m1"]))
    result = lite_score(few, new(MIXED, tasks=HALF))
    line = one(result)
    assert line["predicted_pct"] is not None and line["lo_pct"] is None
    assert (line["no_interval"], line["n_clusters"]) == ("too few: 2 models", 2)
    assert result.ranks["probability_pct"].null_count() == 3
    assert "too few: 2 models" in repr(result)


def test_a_row_of_the_study_that_ran_a_part_only_has_no_full_score_and_is_named() -> None:
    partial = runs(drawn(5, 1), prefix="part").filter(pl.col("task_id").is_in([NAMES[t] for t in HALF]))
    result = lite_score(pl.concat([study(), partial]), new(MIXED, tasks=HALF))
    assert "part0" not in result.beside["study_row"].to_list() and result.beside.height == 8
    assert any("without a full score" in n and "part0" in n for n in result.notes())


def test_a_row_unlike_all_others_is_remarked() -> None:
    # Rows that pass just the easiest tasks, and a new one that passes just the hardest.
    values = np.array([[float(t % 6 < k) for t in range(TASKS)] for k in (1, 2, 2, 3, 4, 5, 5)])
    odd: list[float | None] = [float(t % 6 >= 3) for t in range(TASKS)]
    result = lite_score(runs(values), new(odd, tasks=[0, 1, 4, 5, 6, 7, 10, 11]))
    assert any("odder pattern than any row of the study" in n for n in result.notes())
    assert not any("odder" in n for n in lite_score(study(), new(MIXED, tasks=HALF)).notes())


def test_without_the_gate_every_task_counts() -> None:
    frame = study().filter(pl.col("version") == "test")
    mine = new(MIXED, tasks=HALF).filter(pl.col("version") == "test")
    line = one(lite_score(frame, mine, gate="off"))
    assert line["n_seen"] == 6 and line["n_without"] == 0 and line["lo_pct"] < line["predicted_pct"] < line["hi_pct"]


def test_public_subsets_are_said_to_be_blind_for_training_on_them() -> None:
    split = ["public", "held_out"] * 6
    said = [n for n in lite_score(runs(drawn(1), split=split), new(MIXED, tasks=HALF)).notes() if "cannot tell" in n]
    assert "whether the model knew them from training does not show" in said[0]


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "asked", "words"),
    [
        (lambda: study().filter(pl.col("model") == "m3"), {}, "m3 stands in the study too"),
        (lambda: new(MIXED), {"subset": ["t00", "t99"]}, "subset: no task 't99' in the study"),
        (lambda: new(MIXED), {"subset": "t00"}, "subset is 't00': give a list of task ids"),
        (lambda: new(MIXED), {"subset": 3}, "subset is 3: give a list of task ids"),
        (lambda: new(MIXED), {"subset": []}, "subset is empty"),
        (lambda: new(MIXED, tasks=[0]), {"subset": ["t05"]}, "the new runs have none of the 1 tasks of the subset"),
        (lambda: new(MIXED).with_columns(task_id=pl.lit("x") + pl.col("task_id")), {}, "none of the 12 tasks"),
        (lambda: new(MIXED).with_columns(dimension=pl.lit("e")), {}, "task t00 is of d in the study and of e"),
        (lambda: new(MIXED).filter(pl.col("version") == "test"), {}, "runs of the new model: new0 has no alone runs"),
        (lambda: new(MIXED).drop("score"), {}, "runs of the new model: .*score"),
        (
            lambda: new(MIXED).with_columns(status=pl.lit("refused"), score=pl.lit(None, pl.Float64)),
            {},
            "runs of the new model: no scored run of version test",
        ),
    ],
)
def test_bad_input_is_one_line(mine: Any, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(TableError, match=words) as e:
        lite_score(study(), mine(), **asked)
    assert "\n" not in str(e.value)


def test_one_model_with_a_full_score_is_too_few() -> None:
    with pytest.raises(TableError, match="1 model of the study with a full score"):
        lite_score(study().filter(pl.col("model") == "m0"), new(MIXED, tasks=HALF))


def test_a_published_round_has_no_task_identities() -> None:
    with pytest.raises(TableError, match="unknown:"):
        lite_score(datasets.published_round("2026-10-09"), new(MIXED))


# -- how often intervals cover ----------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text())
    return found


def test_stored_intervals_cover_90_to_98_percent_of_at_least_200_leave_outs() -> None:
    simulated = stored()["data_sets"]["simulated releases, 40 of 240 tasks"]
    for found in (simulated, stored()["together"]):
        assert found["leave_outs"] >= 200 and 90 <= found["coverage_pct"] <= 98
    assert 90 <= simulated["dimension_coverage_pct"] <= 98
    assert sum(x["leave_outs"] for x in stored()["data_sets"].values()) == stored()["together"]["leave_outs"]
    assert {name.partition(",")[0] for name in stored()["data_sets"]} == {
        "simulated releases",
        *script("lite_score").SOURCES,
    }


def test_stored_errors_are_below_the_plain_mean_random_subsets_and_ridge() -> None:
    for name, found in stored()["data_sets"].items():
        others = ("plain_mean_error_points", "random_subset_error_points", "ridge_error_points")
        assert found["error_points"] < min(found[other] for other in others), name


def test_the_first_models_of_the_study_come_out_as_stored() -> None:
    data = script("lite_score").release(0)
    first = stored()["first_release"]
    lines = [line for model in np.unique(data.models)[:2] for line in script("lite_score").left_out(data, 5, model)]
    for found, kept in zip(lines, first, strict=False):
        assert found == pytest.approx(kept, abs=1e-4)


def test_the_estimator_gives_the_number_of_the_study() -> None:
    data = datasets.simulated_release(script("lite_score").FIRST_SEED)
    frame = data.runs.collect()
    model = frame["model"].unique().sort()[0]
    others = frame.filter(pl.col("model") != model)
    chosen = lite(others, splits=1)
    mine = frame.filter((pl.col("model") == model) & pl.col("task_id").is_in(chosen.chosen()))
    line, kept = one(lite_score(others, mine, subset=chosen)), stored()["first_release"][0]
    assert line["hi_pct"] - line["lo_pct"] == pytest.approx(kept["width"], abs=1e-4)


def test_on_metrs_runs_the_stored_numbers_come_out_again() -> None:
    shared("metr_runs")
    data = script("lite_score").public(SHARED, "metr_runs")
    found = script("lite_score").summary(script("lite_score").leave_outs(data, 24))
    assert found == pytest.approx(stored()["data_sets"]["metr_runs, 24 of 83 tasks"], abs=1e-2)


@pytest.mark.study
def test_the_whole_study_comes_out_as_stored() -> None:
    found = script("lite_score").study(shared=SHARED)
    for name, x in found["data_sets"].items():
        assert x == pytest.approx(stored()["data_sets"][name], abs=1e-2), name


def test_nothing_calibrated_is_the_prior_alone() -> None:
    assert Calibration(1.2, 1.0, 1.0, 0) == sp.calibrate(
        Check(
            Prediction(
                *(np.zeros((1, 1)) for _ in range(3)),
                *(np.zeros((1, 1, 1)) for _ in range(2)),
                np.zeros((1, 1)),
                np.zeros((1, 1), np.int64),
                np.zeros(1),
            ),
            np.full((1, 1), np.nan),
        ),
        np.array(["a"]),
        np.array([False]),
    )
