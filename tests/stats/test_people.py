"""People beside models: by hand, and the published table on the simulated release."""

from __future__ import annotations

from functools import partial

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.teamwork.people import people

run = partial(testing.run, dimension="d")


def hand_made() -> pl.DataFrame:
    """a passes 1 of 2 tests and its baseline; b 2 of 2 and fails its baseline; c fails alone."""
    rows = [run(m, "t", "alone", float(m != "c")) for m in "abc"]
    rows += [run("a", "t", "test", 1.0, 0), run("a", "t", "test", 0.5, 1)]
    rows += [run("b", "t", "test", 1.0, s) for s in (0, 1)]
    rows += [run("a", "t", "baseline", 1.0), run("b", "t", "baseline", 0.0), run("c", "t", "test", 1.0)]
    return pl.DataFrame(rows)


TABLE = pl.DataFrame(
    {
        "task": ["speak up", "solve it", "elsewhere"],
        "version": ["test", "baseline", "test"],
        "people_pct": [79.0, None, 50.0],
        "people_n": [1013, 5, None],
        "task_ids": ["t", "t", None],
    }
)


def test_people_and_models_by_hand_and_a_model_that_fails_alone_does_not_enter() -> None:
    result = people(hand_made(), TABLE)
    first, second, third = result.table.iter_rows(named=True)
    assert (first["group"], first["n_models"], first["n_runs"], first["models_pct"]) == ("all", 2, 4, 75)
    assert (first["min_pct"], first["max_pct"], first["people_minus_models_points"]) == (50, 100, 4)
    ci = stats.binomtest(800, 1013).proportion_ci(0.95, method="exact")
    assert (first["people_lo_pct"], first["people_hi_pct"]) == (
        pytest.approx(100 * ci.low),
        pytest.approx(100 * ci.high),
    )
    assert (second["models_pct"], second["people_pct"], second["people_minus_models_points"]) == (50, None, None)
    assert (third["models_pct"], third["group"]) == (None, None)
    assert result.unmatched == ("elsewhere",) and "No runs here for: elsewhere." in result.notes()
    assert result.n_used == 6 and result.n_used + sum(result.n_left_out.values()) == 10


def test_half_a_point_counts_where_success_is_set_lower_and_groups_are_means_over_models() -> None:
    result = people(hand_made(), TABLE, success=0.5, groups={"one": ["a"], "both": ["a", "b"]})
    found = {
        r["group"]: r["models_pct"] for r in result.table.filter(pl.col("task") == "speak up").iter_rows(named=True)
    }
    assert found == {"all": 100, "one": 100, "both": 100}
    strict = people(hand_made(), TABLE, groups={"one": ["a"], "both": ["a", "b"]}).table
    found = dict(strict.filter(pl.col("task") == "speak up").select("group", "models_pct").iter_rows())
    assert found == {"all": 75, "one": 50, "both": 75}


def test_the_published_table_goes_in_as_it_is_with_its_tasks_named() -> None:
    release = datasets.simulated_release(scale=0.2)
    table = datasets.published_table("people")
    task = "sim-emotional_intelligence-03"
    result = people(release, table, {"car crash": task})
    runs = release.runs.collect().filter(
        (pl.col("task_id") == task) & (pl.col("version") == "baseline") & (pl.col("effort") == "default")
    )
    line = result.table.filter((pl.col("task") == "car crash") & (pl.col("group") == "all")).row(0, named=True)
    assert line["models_pct"] == pytest.approx(100 * runs["score"].mean())
    assert line["people_pct"] == 93  # CI204
    assert len(result.unmatched) == 5
    pairs = result.table.filter(pl.col("people_n") == 13).row(0, named=True)
    assert pairs["people_lo_pct"] == pytest.approx(0.195, abs=0.01)  # 1 of 13, CI200
    assert_frame_equal(people(release, table.to_pandas(), {"car crash": task}).table, result.table)


def test_bad_tables_are_named() -> None:
    runs = hand_made()
    for bad, tasks, message in [
        (TABLE.drop("version"), None, "missing column version"),
        (TABLE.with_columns(people_pct=790.0), None, "percentage from 0 to 100"),
        (TABLE.with_columns(version=pl.lit("tests")), None, "version of speak up is 'tests'"),
        (TABLE.with_columns(task_ids=pl.lit("u")), None, "names the task 'u', which is not in these data"),
        (TABLE, {"speak": "t"}, "no comparison is called 'speak'"),
        ({"a": 1}, None, "must be a polars or pandas"),
        (TABLE.with_columns(people_pct=pl.lit("79")), None, "people_pct of speak up is '79'; it is a number"),
        (TABLE.with_columns(people_n=pl.lit("many")), None, "people_n of speak up is 'many'; it is a number"),
        (TABLE.with_columns(people_n=-5), None, "people_n of speak up is -5; it is a whole number above 0"),
        (TABLE.with_columns(people_n=2.5), None, "people_n of speak up is 2.5; it is a whole number"),
    ]:
        with pytest.raises(TableError, match=message):
            people(runs, bad, tasks)


@pytest.mark.parametrize("success", [100, 0, -0.5, True, "1", float("nan")])
def test_a_success_that_is_no_fraction_is_refused(success: object) -> None:
    with pytest.raises(TableError, match="give the least score of a success, a fraction above 0"):
        people(hand_made(), TABLE, success=success)


def test_an_unknown_number_of_people_is_a_gap_and_spaces_around_task_ids_do_not_matter() -> None:
    runs = hand_made()
    known = people(runs, TABLE).table
    gap = TABLE.with_columns(people_n=pl.lit(float("nan")))
    assert people(runs, gap).table["people_lo_pct"].null_count() == people(runs, gap).table.height
    ids = pl.concat_str(pl.lit(" "), pl.col("task_ids").str.replace_all(r"\|", " | "), pl.lit(" |"))
    assert people(runs, TABLE.with_columns(task_ids=ids)).table.equals(known)
