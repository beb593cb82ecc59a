"""One row at two dates: hand-worked differences, a known change, runs stored twice, and bad input."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

import cilab
from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods.hypothesis_tests import adjust
from cilab.stats.teamwork.drift import drift
from cilab.testing import grid as played
from cilab.testing import run, runs, study

SPRING, SUMMER = datetime(2026, 4, 3, tzinfo=UTC), datetime(2026, 7, 9, tzinfo=UTC)


def at(when: datetime | None, values: Any, mark: str = "", **more: Any) -> pl.DataFrame:
    """Values (rows, tasks[, seeds]) that finished at a time; `mark` makes the runs' ids others."""
    frame = played(np.asarray(values).tolist(), **more)
    return frame.with_columns(
        finished_at=pl.lit(when, dtype=pl.Datetime("us", "UTC")), run_id=pl.col("run_id") + pl.lit(mark)
    )


def two(old: Any, new: Any, **more: Any) -> pl.DataFrame:
    return pl.concat([at(SPRING, old, " spring", **more), at(SUMMER, new, " summer", **more)])


def test_the_difference_is_paired_by_task_and_means_go_over_dimensions() -> None:
    # d: changes 1, 0, 0, -.5 (mean .125); e: -1, -1 (mean -1): overall -.4375.
    old, new = [[0, 1, 1, 1, 1, 1]], [[1, 1, 1, 0.5, 0, 0]]
    line = drift(two(old, new, dimensions=["d"] * 4 + ["e"] * 2)).table.row(0, named=True)
    assert (line["old"], line["new"]) == ("2026-04", "2026-07")
    assert line["diff_points"] == pytest.approx(-43.75)
    assert (line["old_pct"], line["new_pct"]) == pytest.approx((87.5, 43.75))
    assert (line["n_better"], line["n_worse"], line["n_same"], line["n_tasks"]) == (1, 3, 2, 6)
    assert (line["n_runs_old"], line["n_runs_new"], line["n_dimensions"]) == (6, 6, 2)


def test_of_one_dimension_the_interval_is_that_of_the_paired_t() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 4, (2, 1, 20)) / 3
    line = drift(two(old, new)).table.row(0, named=True)
    expected = stats.ttest_rel(new[0], old[0]).confidence_interval()
    assert (line["lo_points"], line["hi_points"]) == pytest.approx((100 * expected.low, 100 * expected.high))


def test_p_is_two_sided_and_corrected_over_rows() -> None:
    old = np.tile(np.arange(20) < 12, (4, 1)).astype(float)
    new = old.copy()
    new[0] = 0.0  # falls on every task that it passed
    table = drift(two(old, new)).table
    first = table.row(0, named=True)
    # Of the 2^12 choices of signs two are as extreme; tasks that stay the same have none.
    assert first["p"] == pytest.approx(2 / 2**12) and first["p_holm"] == pytest.approx(4 * first["p"])
    assert table["p"][1:].to_list() == [1.0] * 3
    assert table["p_holm"].to_list() == pytest.approx(adjust(table["p"].to_list(), method="holm").adjusted)


def test_a_row_that_does_the_same_has_an_interval_with_a_width_and_p_of_one() -> None:
    values = np.ones((1, 30))
    line = drift(two(values, values)).table.row(0, named=True)
    # At most 1 - 0.025^(1/30) of other tasks changed, each by 100 points at most (rule of uncertainty, point 4).
    assert line["diff_points"] == 0 and line["p"] == 1.0
    assert line["hi_points"] == pytest.approx(100 * (1 - 0.025 ** (1 / 30)))


def test_a_known_change_is_recovered_and_no_change_is_seldom_found() -> None:
    rng = np.random.default_rng(11)
    task = rng.normal(0, 1, 120)
    chance = 1 / (1 + np.exp(-(0.6 + task)))
    worse = 1 / (1 + np.exp(-(-0.6 + task)))
    old = (rng.random((12, 120, 2)) < chance[:, None]).astype(float)
    new = (rng.random((12, 120, 2)) < np.where(np.arange(12)[:, None] == 0, worse, chance)[:, :, None]).astype(float)
    table = drift(two(old, new, dimensions=[f"d{i // 30}" for i in range(120)])).table
    fallen = table.row(0, named=True)
    truth = 100 * (worse - chance).mean()
    assert fallen["lo_points"] < truth < fallen["hi_points"] and fallen["p_holm"] < 0.001
    assert table["p_holm"][1:].min() > 0.05


@given(seed=st.integers(0, 200))
@settings(max_examples=8, deadline=None)
def test_periods_exchanged_change_the_sign_and_the_order_of_runs_nothing(seed: int) -> None:
    old, new = np.random.default_rng(seed).integers(0, 3, (2, 2, 8)) / 2
    frame = two(old, new)
    one, other = drift(frame).table, drift(frame, old="2026-07", new="2026-04").table
    assert one["diff_points"].to_list() == pytest.approx((-other["diff_points"]).to_list())
    assert one["lo_points"].to_list() == pytest.approx((-other["hi_points"]).to_list())
    assert one["p"].to_list() == pytest.approx(other["p"].to_list())
    assert_frame_equal(drift(frame.reverse()).table, one)


def test_a_run_that_is_stored_twice_is_one_run_at_its_first_date() -> None:
    old = at(SPRING, [[1, 0, 1, 1]])
    again = old.with_columns(finished_at=pl.lit(SUMMER))
    with pytest.raises(TableError, match="no row has scored tasks in two periods; m0: one period only: 2026-04"):
        drift(pl.concat([old, again]))
    new = at(SUMMER, [[0, 0, 0, 1]], " new")
    found = drift(pl.concat([old, again, new]))
    assert found.table["diff_points"].to_list() == [-50.0]
    assert found.n_left_out["the same run again, at a later date"] == 8
    assert found.n_used + sum(found.n_left_out.values()) == 24


def test_seeds_of_either_period_are_averaged_however_they_are_numbered() -> None:
    found = drift(two([[[1, 1, 0], [1, 0, 0], [0, 0, 0]]], [[[1], [1], [1]]]))
    line = found.table.row(0, named=True)
    assert line["diff_points"] == pytest.approx(100 * np.mean([1 / 3, 2 / 3, 1]))
    assert (line["n_runs_old"], line["n_runs_new"]) == (9, 3)


def test_two_scores_of_one_run_within_a_period_are_refused_still() -> None:
    frame = pl.concat([at(SPRING, [[1, 1, 1]]), at(SPRING, [[0, 1, 1]], " b"), at(SUMMER, [[0, 0, 0]], " c")])
    with pytest.raises(TableError, match="has 2 scored runs"):
        drift(frame)


def test_both_periods_rest_on_the_tasks_solved_alone_whenever_asked() -> None:
    old = at(SPRING, [[1, 1, 1, 1, 1]], " a", solved=[[1, 1, 1, 1, 0]])
    new = at(SUMMER, [[0, 1, 1, 1, 1]], " b").filter(pl.col("version") == "test")  # not asked alone again
    line = drift(pl.concat([old, new])).table.row(0, named=True)
    assert (line["n_tasks"], line["diff_points"]) == (4, -25.0)
    alone = at(SUMMER, [[0, 1, 1, 1, 1]], " b", solved=[[0, 1, 1, 1, 1]])
    assert drift(pl.concat([old, alone])).table["n_tasks"].to_list() == [3]
    itself = drift(pl.concat([old, alone]), version="alone").table.row(0, named=True)
    assert (itself["n_better"], itself["n_worse"], itself["diff_points"]) == (1, 1, 0.0)


def test_only_tasks_of_both_periods_count_and_periods_stand_by_themselves() -> None:
    old, new = at(SPRING, [[1, 1, 1, 0]], " a"), at(SUMMER, [[0, 0, 1, 0, 1, 1]], " b")
    found = drift(pl.concat([old, new]))
    assert found.table["n_tasks"].to_list() == [4] and found.table["diff_points"].to_list() == [-50.0]
    assert found.periods.select("period", "score_pct", "n_tasks", "n_runs").rows() == [
        ("2026-04", 75.0, 4, 4),
        ("2026-07", 50.0, 6, 6),
    ]


def test_few_tasks_have_no_interval_and_the_p_of_two_signs() -> None:
    line = drift(two([[1, 1]], [[0, 0]])).table.row(0, named=True)
    assert (line["diff_points"], line["lo_points"], line["p"]) == (-100.0, None, 0.5)
    assert line["no_interval"] == "too few: 2 tasks"


def test_each_row_has_its_own_first_and_last_period_and_a_row_of_one_says_so() -> None:
    frame = pl.concat([two([[1, 1, 1]], [[0, 1, 1]]), at(SUMMER, [[1, 1, 0]], models=["late"])])
    found = drift(frame)
    late = found.table.filter(model="late").row(0, named=True)
    assert (late["diff_points"], late["old"], late["reason"]) == (None, None, "one period only: 2026-07")
    assert "No difference, one period only: 2026-07: late." in str(found)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"by": "day"}, ["2026-04-03", "2026-07-09"]),
        ({"by": "week"}, ["2026-W14", "2026-W28"]),
        ({"by": "quarter"}, ["2026-Q2", "2026-Q3"]),
        ({"cuts": ["2026-06-01"]}, ["before 2026-06-01", "from 2026-06-01"]),
        ({"cuts": [date(2026, 4, 1), "2026-07-09"]}, ["2026-04-01 to 2026-07-09", "from 2026-07-09"]),
    ],
)
def test_periods_are_cut_and_named_as_asked(asked, names) -> None:
    found = drift(two([[1, 1, 1]], [[0, 1, 1]]), **asked)
    assert found.table.select("old", "new").row(0) == tuple(names) == tuple(found.parameters["periods"])
    assert cilab.rerun(found, two([[1, 1, 1]], [[0, 1, 1]])).table.equals(found.table)


def test_a_column_orders_its_values_by_their_first_finishing_time() -> None:
    frame = two([[1, 1, 1]], [[0, 1, 1]])
    named = frame.with_columns(study=pl.when(pl.col("finished_at") == SPRING).then(pl.lit("z")).otherwise(pl.lit("a")))
    assert drift(named, by="study").table.select("old", "new").row(0) == ("z", "a")
    timeless = named.with_columns(finished_at=pl.lit(None, dtype=pl.Datetime("us", "UTC")))
    assert drift(timeless, by="study").table.select("old", "new").row(0) == ("a", "z")


def test_the_provider_that_answers_as_another_model_is_named() -> None:
    rows = two([[1, 1, 1]], [[0, 1, 1]])
    calls = [
        {
            "run_id": r["run_id"],
            "index": 0,
            "seat": seat,
            "purpose": "play",
            "model_asked": asked,
            "model_returned": said,
        }
        for r in rows.iter_rows(named=True)
        for seat, asked, said in (
            ("tester", "m0", "m0-2604" if r["finished_at"] == SPRING else "m0-2607"),
            ("partner", "other", f"other-{r['finished_at']:%m}"),
        )
    ]
    messages = [
        {"run_id": r, "index": i, "round": 0, "kind": "message", "seat": seat, "seat_kind": kind, "content": "Hello."}
        for r in rows["run_id"]
        for i, (seat, kind) in enumerate((("tester", "under_test"), ("partner", "partner")))
    ]
    found = drift(study(rows.to_dicts(), calls=calls, messages=messages))
    assert found.table.select("returned_old", "returned_new").row(0) == ("m0-2604", "m0-2607")
    assert "m0: the provider answered as m0-2604 in 2026-04 and as m0-2607 in 2026-07." in str(found)
    assert drift(rows).table["returned_old"].to_list() == [None]


def test_a_study_of_one_date_or_none_is_refused_in_one_line() -> None:
    with pytest.raises(TableError, match=r"all 6 runs are of one, 2026-04 \(by='month'\); pass a finer by="):
        drift(at(SPRING, [[1, 1, 1]]))
    with pytest.raises(TableError, match="these runs have no finished_at"):
        drift(played([[1, 1, 1]]))
    some = pl.concat([two([[1, 1, 1]], [[0, 1, 1]]), at(None, [[1, 1, 1]], models=["x"])])
    assert drift(some).n_left_out["without a date"] == 6
    with pytest.raises(TableError, match="drift pairs rows by task"):
        drift(datasets.published_round(), by="model")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"by": "fortnight"}, "by: no column 'fortnight' in the runs table"),
        ({"old": "2025-01"}, "old is '2025-01', not one of 2026-04, 2026-07"),
        ({"cuts": ["June"]}, "cuts has 'June': give dates as year-month-day"),
        ({"cuts": "2026-06-01"}, "give a list of dates"),
        ({"cuts": []}, "give a list of dates"),
        ({"cuts": ["2020-01-01"]}, "all 12 runs are of one, from 2020-01-01"),
        ({"old": "2026-04", "new": "2026-04"}, "one period only: 2026-04"),
    ],
)
def test_odd_periods_are_refused_in_one_line(asked, words) -> None:
    with pytest.raises(TableError, match=words):
        drift(two([[1, 1, 1]], [[0, 1, 1]]), **asked)


def test_a_refusal_or_an_error_in_one_period_takes_the_task_out_of_both() -> None:
    frame = two([[1, 1, 1, 1, 1]], [[0, 0, 1, 1, 1]])
    bad = runs([run("m0", "t000", "test", status="refused", seed=5), run("m0", "t001", "test", None, seed=5)])
    bad = bad.with_columns(finished_at=pl.lit(SUMMER), dimension=pl.lit("d"))
    line = drift(pl.concat([frame, bad])).table.row(0, named=True)
    assert (line["n_tasks"], line["diff_points"]) == (3, 0.0)
