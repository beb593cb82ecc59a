"""Who is out of a score and why: uneven repeats, missing runs, versions, common tasks, clusters. Sums by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.grid import Grid, grid
from cilab.stats.teamwork.loss import loss
from cilab.stats.teamwork.scores import dimensions, leaderboard
from cilab.stats.teamwork.takeover import takeover
from cilab.stats.teamwork.weighting import weighting
from cilab.testing import run, runs


def played(model: str, tests: dict[str, list[float]], alone: float = 1.0, **more: object) -> list[dict]:
    """A row that was played alone once on every task, and has these tests by task."""
    rows = [run(model, task, "alone", alone, **more) for task in tests]
    return rows + [run(model, t, "test", v, s, **more) for t, scores in tests.items() for s, v in enumerate(scores)]


def scores(rows: list[dict], **scope: object) -> dict[str, float | None]:
    """Score of each row of the leaderboard, in percent."""
    table = leaderboard(runs(rows), resamples=20, **scope).table
    return {r["model"] + (f"+{r['arm']}" if r["arm"] else ""): r["score_pct"] for r in table.iter_rows(named=True)}


def line(rows: list[dict], **scope: object) -> dict:
    """The first line of the leaderboard."""
    return leaderboard(runs(rows), resamples=20, **scope).table.row(0, named=True)


# -- uneven repeats ---------------------------------------------------------------------------------------


def test_a_second_repeat_begun_on_one_task_a_dimension_takes_no_other_task_out() -> None:
    # 9 of 20 passed; then one passed task of each dimension is failed once more: 7 + 2 halves of 20 are 40 %.
    tests = {f"d:{t}": [float(t < 5)] for t in range(10)} | {f"e:{t}": [float(t < 4)] for t in range(10)}
    tests["d:0"], tests["e:0"] = [1.0, 0.0], [1.0, 0.0]
    got = line(played("a", tests))
    assert got["score_pct"] == pytest.approx(40.0)
    assert [got[n] for n in ("n_gated", "n_scored", "n_complete", "n_tasks")] == [20] * 4
    notes = " ".join(leaderboard(runs(played("a", tests)), resamples=20).notes())
    assert "Fewer test runs than on other tasks of the same row: 18 of 20 scored tasks, in 1 of the rows" in notes


def test_a_row_with_one_task_repeated_keeps_the_nine_others() -> None:
    a = {f"d:{t}": [1.0] for t in range(9)} | {"d:9": [0.0, 0.0]}
    b = {f"d:{t}": [float(t < 5)] * 2 for t in range(10)}
    assert scores(played("a", a) + played("b", b)) == {"a": pytest.approx(90.0), "b": 50.0}


@given(seed=st.integers(0, 10_000), more=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_more_scored_runs_never_take_a_task_from_a_row(seed: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    rows = played("a", {f"d:{t}": [float(rng.random() < 0.5)] for t in range(6)})
    rows += played("b", {f"d:{t}": [1.0, 0.0] for t in range(6)})
    extra = [run("a", f"d:{rng.integers(6)}", "test", float(rng.random() < 0.5), 1 + s) for s in range(more)]
    before, after = grid(runs(rows)), grid(runs(rows + extra))
    assert (after.scored >= before.scored).all() and not after.missing.any()


# -- missing runs -----------------------------------------------------------------------------------------


def _thirds() -> list[dict]:
    """Six tasks, three runs each: alone always passed; tests of t0 and t1 fail, of t2 two of three pass, and so on."""
    passed = {"t0": 0, "t1": 0, "t2": 1, "t3": 1, "t4": 3, "t5": 2}
    rows = [run("a", f"d:{t}", "alone", 1.0, s) for t in passed for s in range(3)]
    return rows + [run("a", f"d:{t}", "test", float(s < n), s) for t, n in passed.items() for s in range(3)]


def _without_score(rows: list[dict], task: str, version: str, seed: int, status: str = "error") -> list[dict]:
    which = (task, version, seed)
    return [
        r | {"status": status, "score": None, "passed": None} if (r["task_id"], r["version"], r["seed"]) == which else r
        for r in rows
    ]


def test_a_run_that_ended_in_an_error_makes_its_task_incomplete_alone_or_in_the_test() -> None:
    # Whole: (0 + 0 + 1/3 + 1/3 + 1 + 2/3) / 6 = 7/18. Without t4 and t5: (0 + 0 + 1/3 + 1/3) / 4 = 1/6.
    assert line(_thirds())["score_pct"] == pytest.approx(100 * 7 / 18)
    rows = _without_score(_without_score(_thirds(), "d:t4", "alone", 1), "d:t5", "test", 2)
    got = line(rows)
    assert got["score_pct"] == pytest.approx(100 / 6)
    assert [got[n] for n in ("n_gated", "n_scored", "n_complete", "n_tasks")] == [5, 4, 4, 6]
    result = leaderboard(runs(rows), resamples=20)
    assert result.incomplete.select("task_id", "reason").rows() == [
        ("d:t4", "1 of 3 alone runs ended in an error"),
        ("d:t5", "1 of 3 test runs ended in an error"),
    ]
    assert result.n_used + sum(result.n_left_out.values()) == len(rows)
    # What is there: t4 passed twice alone and three tests, t5 the two tests that passed.
    assert line(rows, allow_partial=True)["score_pct"] == pytest.approx(100 * (2 / 3 + 1 + 1) / 6)


def test_the_share_solved_alone_is_of_the_tasks_with_a_verdict_alone() -> None:
    rows = [*_without_score(_thirds(), "d:t5", "test", 2), run("a", "d:t6", "alone", 0.0)]
    got = dimensions(runs(rows), resamples=20).table.row(0, named=True)
    assert got["alone_pct"] == pytest.approx(100 * 6 / 7) and got["n_complete"] == 6 and got["n_incomplete"] == 1
    sheet = leaderboard(runs(rows), resamples=20).sheet().cells
    assert sheet["Solved alone"].to_list() == ["6/7"] and sheet["Complete"].to_list() == ["6 of 7"]


def test_an_error_whose_cell_has_a_scored_run_takes_nothing_out() -> None:
    rows = [*played("a", {"d:1": [1.0], "d:2": [0.0]}), run("a", "d:1", "test", None, run_id="first try")]
    got = line(rows)
    assert (got["score_pct"], got["n_scored"]) == (50.0, 2)


def test_a_run_without_a_score_is_missing_like_one_that_ended_in_an_error() -> None:
    rows = [*played("a", {"d:1": [1.0], "d:2": [0.0]}), run("a", "d:2", "test", None, 1, status="ok")]
    result = leaderboard(runs(rows), resamples=20)
    assert result.table["score_pct"][0] == 100.0
    assert result.incomplete["reason"].to_list() == ["1 of 2 test runs without a score"]


def test_a_failed_alone_run_decides_whatever_became_of_the_others() -> None:
    rows = [*played("a", {"d:1": [1.0]}), run("a", "d:2", "alone", 0.0, 0), run("a", "d:2", "alone", None, 1)]
    rows.append(run("a", "d:2", "test", None, status="gated_out"))
    got = line(rows)
    assert (got["score_pct"], got["n_complete"]) == (100.0, 2)


def test_a_task_that_a_row_never_ran_is_incomplete_where_other_rows_name_it() -> None:
    rows = played("a", {"d:1": [1.0]}) + played("b", {"d:1": [1.0], "d:2": [0.0]})
    rows += [run("a", "d:3", "alone", 1.0), run("b", "d:3", "alone", 0.0)]
    result = leaderboard(runs(rows), resamples=20)
    assert result.incomplete.select("model", "task_id", "reason").rows() == [
        ("a", "d:2", "no alone run"),
        ("a", "d:3", "no test run"),
    ]
    assert result.table.select("model", "n_complete", "n_tasks").rows() == [("a", 1, 3), ("b", 3, 3)]


def test_of_eighty_planned_tasks_the_eight_that_were_run_are_counted() -> None:
    dims = "abcdefgh"
    frame = runs(played("m", {f"{d}:0": [1.0] for d in dims}))
    plan = {"task_id": [f"{d}:{t}" for d in dims for t in range(10)], "dimension": [d for d in dims for _ in range(10)]}
    none = dict.fromkeys(("source_family", "split"), pl.lit(None, dtype=pl.String))
    tasks = pl.DataFrame(plan).with_columns(benchmark=pl.lit("teamwork"), real_world=pl.lit(None, pl.Boolean), **none)
    result = leaderboard(SimpleNamespace(runs=frame.lazy(), tasks=tasks.lazy()), resamples=20)
    assert result.table.select("n_gated", "n_complete", "n_tasks").row(0) == (8, 8, 80)
    assert result.sheet().cells.select("Solved alone", "Complete").row(0) == ("8/8", "8 of 80")
    assert result.incomplete.height == 72


def test_what_the_gate_kept_from_being_played_is_not_missing() -> None:
    rows = [*played("a", {"d:1": [1.0]}), run("a", "d:2", "alone", 0.0)]
    rows += [run("a", "d:2", "alone", None, 1, status="gated_out"), run("a", "d:2", "test", None, status="gated_out")]
    g = grid(runs(rows))
    assert not g.missing.any() and g.complete.all() and g.incomplete.height == 0
    # A reviewer lets the alone run pass after all: now the test is wanted, and it was never played.
    alone = next(r["run_id"] for r in rows if r["task_id"] == "d:2" and r["seed"] == 0 and r["version"] == "alone")
    review = {"run_id": [alone], "reviewer": ["r"], "old_score": [0.0], "new_score": [1.0], "at": [None]}
    study = SimpleNamespace(runs=runs(rows).lazy(), reviews=pl.DataFrame(review, schema_overrides={"at": pl.Datetime}))
    assert grid(study).incomplete["reason"].to_list() == ["its test runs were gated out"]


def test_without_the_gate_a_task_without_a_scored_test_is_incomplete() -> None:
    rows = played("a", {"d:1": [1.0]}) + played("b", {"d:1": [0.0], "d:2": [0.0]})
    g = grid(runs(rows), gate="off")
    assert g.incomplete.select("model", "task_id", "reason").rows() == [("a", "d:2", "no test run")]
    assert g.complete.tolist() == [[True, False], [True, True]]


def test_a_baseline_with_a_missing_run_is_no_baseline_and_takes_no_task_out() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0], "d:3": [1.0]})
    rows += [run("a", "d:1", "baseline", 1.0), run("a", "d:1", "baseline", None, 1), run("a", "d:2", "baseline", 0.0)]
    got = line(rows)
    assert got["n_scored"] == 3 and got["baseline_pct"] == 0.0 and got["drop_pct"] == 0.0
    assert line(rows, allow_partial=True)["baseline_pct"] == 50.0
    result = leaderboard(runs(rows), resamples=20)
    assert result.n_left_out == {"ended in an error": 1, "of incomplete tasks": 1}


def test_an_arm_that_borrows_the_gate_is_incomplete_where_its_own_test_is_missing() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0], "d:3": [1.0]})
    rows += [run("a", "d:1", "test", 1.0, arm="x"), run("a", "d:2", "test", None, arm="x")]
    result = leaderboard(runs(rows), resamples=20)
    assert scores(rows) == {"a+x": 100.0, "a": pytest.approx(200 / 3)}
    assert result.incomplete.select("arm", "task_id", "reason").rows() == [
        ("x", "d:2", "1 of 1 test runs ended in an error"),
        ("x", "d:3", "no test run"),
    ]


# -- refusals, and nothing at all -------------------------------------------------------------------------


def test_a_task_refused_in_one_of_two_seeds_is_out() -> None:
    rows = [*played("a", {"d:1": [1.0, 1.0], "d:2": [0.0]}), run("a", "d:2", "test", None, 1, status="refused")]
    got = line(rows)
    assert (got["score_pct"], got["n_refused"], got["n_scored"]) == (100.0, 1, 1)
    assert scores(rows, refused="fail") == {"a": 50.0}


def test_a_refusal_stands_where_another_attempt_at_the_run_ended_in_an_error() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0]})
    rows += [run("a", "d:1", "test", None, 1), run("a", "d:1", "test", None, 1, status="refused", run_id="again")]
    assert grid(runs(rows)).refused.tolist() == [[True, False]]


def test_refused_tasks_count_as_failed_when_asked_so_that_refusing_does_not_pay() -> None:
    rows = played("a", {f"d:{t}": [float(t < 5)] for t in range(10)})
    rows += played("b", {f"d:{t}": [1.0] for t in range(5)}) + [run("b", f"d:{t}", "alone", 1.0) for t in range(5, 10)]
    rows += [run("b", f"d:{t}", "test", None, status="refused") for t in range(5, 10)]
    assert scores(rows) == {"a": 50.0, "b": 100.0}
    assert scores(rows, refused="fail") == {"a": 50.0, "b": 50.0}
    assert scores(rows, common_tasks=True) == {"a": 100.0, "b": 100.0}
    result = leaderboard(runs(rows), refused="fail", resamples=20)
    assert "Refused tasks counted as failed: 5." in result.notes()
    assert result.n_left_out == {"refused, counted as failed": 5}


def test_a_task_refused_alone_counts_as_failed_unless_another_alone_run_was_failed() -> None:
    rows = played("a", {"d:1": [1.0]})
    for task, more in (("d:2", []), ("d:3", [run("a", "d:3", "alone", 0.0, 1)])):
        rows += [
            run("a", task, "alone", None, status="refused"),
            run("a", task, "test", None, status="gated_out"),
            *more,
        ]
    assert scores(rows) == {"a": 100.0}
    got = line(rows, refused="fail")
    assert (got["score_pct"], got["n_refused"], got["n_scored"], got["n_complete"]) == (50.0, 0, 2, 3)


@pytest.mark.parametrize(
    ("status", "words"), [("refused", "no scored run of version test .2 refused."), ("error", r"\(2 ended in an error")]
)
def test_where_every_test_was_refused_or_lost_one_line_says_so(status: str, words: str) -> None:
    rows = [run("a", f"d:{t}", "alone", 1.0) for t in range(2)]
    rows += [run("a", f"d:{t}", "test", None, status=status) for t in range(2)]
    with pytest.raises(TableError, match=words):
        leaderboard(runs(rows))
    assert scores(rows, **({"refused": "fail"} if status == "refused" else {"missing": "fail"})) == {"a": 0.0}


def test_all_runs_refused_or_lost_is_one_line() -> None:
    for status in ("refused", "error"):
        rows = [run("a", f"d:{t}", v, None, status=status) for t in range(3) for v in ("alone", "test")]
        with pytest.raises(TableError, match="no scored run of version test"):
            leaderboard(runs(rows))


def test_one_row_with_one_task_has_a_score() -> None:
    got = line(played("a", {"d:1": [1.0, 0.0]}))
    assert (got["score_pct"], got["rank"], got["n_tasks"]) == (50.0, 1, 1)


# -- what hangs on missing runs ---------------------------------------------------------------------------


def test_missing_runs_counted_as_failed_and_as_passed_bound_the_score() -> None:
    rows = _without_score(_without_score(_thirds(), "d:t4", "alone", 1), "d:t5", "test", 0)
    rows += [run("b", "d:t6", "alone", 1.0), run("b", "d:t6", "test", 1.0)]
    # Of a: t4 is solved in what is there and has its three passed tests. The first test of t5, passed, is lost: 1/3 or
    # 2/3. t6 was never run: 0 or 1. Sums of seven tasks: 2/3 + 1 + 1/3 + 0 and 2/3 + 1 + 2/3 + 1.
    low, high = (scores(rows, missing=how)["a"] for how in ("fail", "pass"))
    assert low == pytest.approx(100 * 2 / 7) and high == pytest.approx(100 * (10 / 3) / 7)
    assert low < scores(rows, allow_partial=True)["a"] < high
    # b was run on one of seven tasks.
    assert scores(rows, missing="fail")["b"] == pytest.approx(100 / 7) and scores(rows, missing="pass")["b"] == 100.0
    g = grid(runs(rows), missing="fail")
    assert not g.missing.any() and g.incomplete.height == 0 and g.complete.all()
    assert "Incomplete tasks counted as failed where a run is missing: 9." in g.notes


def test_missing_runs_of_a_task_failed_alone_change_nothing() -> None:
    rows = [*played("a", {"d:1": [1.0]}), run("a", "d:2", "alone", 0.0), run("a", "d:2", "test", None)]
    assert {how: scores(rows, missing=how)["a"] for how in ("out", "fail", "pass")} == dict.fromkeys(
        ("out", "fail", "pass"), 100.0
    )


@pytest.mark.parametrize("data", [datasets.hand_worked_round, lambda: datasets.simulated_release(scale=0.1)])
def test_on_complete_data_missing_runs_make_no_difference_and_elsewhere_they_bound(data) -> None:
    by = {how: dimensions(data(), missing=how, resamples=20).table for how in ("out", "fail", "pass")}
    key = ["model", "effort", "arm", "dimension"]
    low, out, high = (by[how].sort(key)["score_pct"].fill_null(0.0).to_numpy() for how in ("fail", "out", "pass"))
    assert (low <= high + 1e-9).all()
    complete = by["out"].sort(key)["n_incomplete"].to_numpy() == 0
    assert np.allclose(low[complete], out[complete]) and np.allclose(high[complete], out[complete])


# -- versions ---------------------------------------------------------------------------------------------


def _alone_ten_and_four() -> list[dict]:
    rows = played("a", {f"d:{t}": [1.0] for t in range(10)})
    return rows + [run("b", f"d:{t}", "alone", float(t < 4)) for t in range(10)]


def test_the_alone_version_is_scored_without_its_own_gate() -> None:
    assert scores(_alone_ten_and_four(), version="alone") == {"a": 100.0, "b": 40.0}
    result = leaderboard(runs(_alone_ten_and_four()), version="alone", resamples=20)
    assert result.parameters["gate"] == "off" and "scored without the gate" in " ".join(result.notes())
    assert result.table["baseline_pct"].null_count() == 2
    assert dimensions(runs(_alone_ten_and_four()), version="alone", resamples=20).table["score_pct"].to_list() == [
        100,
        40,
    ]


def test_alone_runs_that_a_failed_one_kept_from_being_played_are_named() -> None:
    rows = [run("a", "d:1", "alone", s, i) for i, s in enumerate((1.0, 1.0))]
    rows += [run("a", "d:2", "alone", 0.0), run("a", "d:2", "alone", None, 1, status="gated_out")]
    g = grid(runs(rows), version="alone")
    assert g.values.tolist() == [[1.0, 0.0]] and not g.missing.any()
    assert any("not played because an earlier one failed: 1" in note for note in g.notes)


def test_the_baseline_version_is_scored_on_the_tasks_solved_alone() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0]}) + played("a", {"d:3": []}, alone=0.0)
    rows += [run("a", f"d:{t}", "baseline", s) for t, s in ((1, 0.5), (2, 1.0), (3, 0.0))]
    got = line(rows, version="baseline")
    assert got["score_pct"] == line(rows)["baseline_pct"] == 75.0
    assert got["baseline_pct"] is None and got["drop_pct"] is None and got["n_gated"] == 2


def test_a_study_of_the_alone_version_only_has_numbers_for_it_and_one_line_for_others() -> None:
    rows = [run(m, f"d:{t}", "alone", float(t < n)) for m, n in (("a", 2), ("b", 1)) for t in range(4)]
    assert scores(rows, version="alone") == {"a": 50.0, "b": 25.0}
    with pytest.raises(TableError, match=r"no scored run of version test.*of alone; say version='alone'"):
        leaderboard(runs(rows))


@pytest.mark.parametrize("estimator", [weighting, loss, takeover])
def test_statistics_that_stand_on_the_gate_refuse_the_alone_version_in_one_line(estimator) -> None:
    with pytest.raises(TableError) as refusal:
        estimator(runs(_alone_ten_and_four()), version="alone")
    assert "\n" not in str(refusal.value)


# -- common tasks -----------------------------------------------------------------------------------------


def _matrix() -> list[dict]:
    """Model a has the four easy tasks of eight, b (two failed alone) and c all of them."""
    rows = played("a", {f"d:{t}": [1.0] for t in range(4)})
    rows += played("b", {f"d:{t}": [float(t in (0, 1, 2))] for t in range(6)})
    rows += [run("b", f"d:{t}", "alone", 0.0) for t in (6, 7)]
    return rows + played("c", {f"d:{t}": [float(t < 5)] for t in range(8)})


def test_on_common_tasks_rows_are_scored_on_what_all_of_them_have() -> None:
    assert scores(_matrix()) == {"a": 100.0, "c": 62.5, "b": 50.0}
    assert scores(_matrix(), common_tasks=True) == {"a": 100.0, "c": 100.0, "b": 75.0}
    result = leaderboard(runs(_matrix()), common_tasks=True, resamples=20)
    assert result.table["n_tasks"].to_list() == [4, 4, 4] and result.parameters["common_tasks"] is True
    assert "Common tasks only: 4 of 8 are scored in every row. a has fewest, 4." in result.notes()
    assert result.n_used + sum(result.n_left_out.values()) == len(_matrix())
    assert "of tasks that not every row has scored" in result.n_left_out
    # Rows are those that were asked for.
    assert scores(_matrix(), common_tasks=True, models=["b", "c"]) == {"b": 50.0, "c": pytest.approx(500 / 6)}


def test_rows_without_a_common_task_are_refused_and_the_one_that_lacks_most_is_named() -> None:
    rows = played("a", {"d:1": [1.0]}) + played("b", {"d:2": [1.0], "d:3": [1.0]})
    with pytest.raises(TableError, match=r"no task is scored in all 2 rows; a lacks most, 2 of 3; choose rows with"):
        leaderboard(runs(rows), common_tasks=True)


def test_a_dimension_without_a_common_task_goes_and_is_named() -> None:
    rows = played("a", {"d:1": [1.0], "e:1": [0.0]}) + played("b", {"d:1": [0.0], "e:2": [1.0]})
    result = leaderboard(runs(rows), common_tasks=True, resamples=20)
    assert dict(result.table.select("model", "score_pct").iter_rows()) == {"a": 100.0, "b": 0.0}
    assert "No common task, so not in any overall score: e." in " ".join(result.notes())


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_common_tasks_are_the_scored_tasks_of_the_whole_that_all_rows_share(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        r
        for m in "abc"
        for t in range(6)
        if t == 0 or rng.random() < 0.8
        for r in played(m, {f"d:{t}": [float(rng.random() < 0.5)]}, alone=float(t == 0 or rng.random() < 0.8))
    ]
    whole, common = grid(runs(rows)), grid(runs(rows), common_tasks=True)
    at = whole.scored.all(axis=0)
    assert common.tasks["task_id"].to_list() == whole.tasks["task_id"].filter(pl.Series(at)).to_list()
    assert common.scored.all() and np.array_equal(common.values, whole.values[:, at])
    again = grid(runs([r for r in rows if r["task_id"] in set(common.tasks["task_id"])]))
    assert np.array_equal(again.points(), common.points())


# -- clusters ---------------------------------------------------------------------------------------------


def _families(**families: str | None) -> pl.DataFrame:
    """Four tasks in two rows, and the family of each."""
    frame = runs(played("a", {t: [1.0] for t in families}) + played("b", {t: [0.0] for t in families}))
    return frame.with_columns(
        family=pl.col("task_id").replace_strict(families, default=None, return_dtype=pl.String),
        source_family=pl.lit("mail"),
    )


FOUR = {"d1": "x", "d2": "x", "d3": "y", "d4": "z"}


def codes(g: Grid) -> list[int]:
    return g.clusters.tolist()


def test_tasks_of_a_family_are_one_cluster_where_the_runs_name_it() -> None:
    g = grid(_families(**FOUR))
    assert (codes(g), g.cluster_name) == ([0, 0, 1, 2], "family")
    assert codes(grid(_families(**FOUR), cluster="task")) == [0, 1, 2, 3]
    g = grid(_families(**FOUR).drop("family"))
    assert (codes(g), g.cluster_name) == ([0, 1, 2, 3], "task")


def test_a_family_may_stand_in_the_tasks_table() -> None:
    none = dict.fromkeys(("source_family", "split"), pl.lit(None, dtype=pl.String))
    tasks = pl.DataFrame({"task_id": [*FOUR], "family": [*FOUR.values()]}).with_columns(
        benchmark=pl.lit("teamwork"), dimension=pl.lit("d"), real_world=pl.lit(None, pl.Boolean), **none
    )
    study = SimpleNamespace(
        runs=_families(**FOUR).drop("family").with_columns(dimension=pl.lit("d")).lazy(), tasks=tasks
    )
    assert codes(grid(study)) == [0, 0, 1, 2]


def test_tasks_without_a_family_stand_for_themselves_and_are_counted() -> None:
    g = grid(_families(d1="x", d2="x", d3=None, d4=None))
    assert len(set(codes(g))) == 3 and codes(g)[0] == codes(g)[1] and g.cluster_name == "family"
    assert "Tasks without a family, each by itself in intervals: 2 of 4." in g.notes
    assert grid(_families(d1=None, d2=None)).cluster_name == "task"


def test_clusters_follow_the_tasks_that_are_kept() -> None:
    g = grid(_families(**FOUR)).where(np.array([False, True, False, True]))
    assert codes(g) == [0, 1]
    more = runs(played("a", {"d1": [1.0]}) + played("a", {"d4": [1.0]}) + played("b", {"d4": [1.0]}))
    more = more.with_columns(family=pl.col("task_id").replace_strict(FOUR))
    assert codes(grid(more, common_tasks=True)) == [0]


def test_families_change_no_score_and_no_data_hash() -> None:
    one, two = _families(**FOUR), _families(**FOUR).drop("family")
    assert grid(one).points().tolist() == grid(two).points().tolist()
    assert grid(one).provenance.data_hash == grid(two).provenance.data_hash


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("famly", r"cluster: no column 'famly' in the runs or tasks table\. Did you mean family"),
        ("source_family", "cluster: all 4 tasks have the same source_family, mail; one cluster has no spread"),
        ("model", r"cluster: task d1 has 2 values of model \(a, b\); a task lies in one cluster"),
        ("split", "cluster: 4 of 4 tasks have no split, such as d1"),
        (3, "cluster is 3: give a text"),
    ],
)
def test_tasks_that_cannot_be_grouped_are_refused_in_one_line(cluster: object, words: str) -> None:
    with pytest.raises(TableError, match=words):
        grid(_families(**FOUR), cluster=cluster)
