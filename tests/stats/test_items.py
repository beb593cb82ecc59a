"""Items and sources on data whose answers are known by hand or by another library."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.items import items
from cilab.stats.teamwork.sources import sources


def runs(values: np.ndarray, dimensions: list[str] | None = None, solved: np.ndarray | None = None) -> pl.DataFrame:
    """Values of shape (rows, tasks) as one test each; `solved` (default all) says what is solved alone."""
    n_rows, n_tasks = values.shape
    names = dimensions or ["d"] * n_tasks
    lines = [
        (f"m{r}", f"t{t:03d}", names[t], version, float(score))
        for r in range(n_rows)
        for t in range(n_tasks)
        for version, score in (("alone", solved is None or solved[r, t]), ("test", values[r, t]))
    ]
    frame = pl.DataFrame(lines, schema=["model", "task_id", "dimension", "version", "score"], orient="row")
    return frame.with_columns(status=pl.lit("ok"))


def study(frame: pl.DataFrame, families: list[str], real: list[bool | None]) -> SimpleNamespace:
    """Runs with a tasks table."""
    tasks = frame.unique("task_id").sort("task_id").select("task_id", "dimension")
    tasks = tasks.with_columns(
        pl.lit("teamwork").alias("benchmark"),
        pl.Series("source_family", families),
        pl.Series("real_world", real, dtype=pl.Boolean),
        pl.lit(None, pl.String).alias("split"),
    )
    return SimpleNamespace(runs=frame.lazy(), tasks=tasks.lazy())


# -- items ------------------------------------------------------------------------------------------------


def test_mean_values_and_item_rest_correlations_agree_with_numpy() -> None:
    values = np.random.default_rng(2).integers(0, 4, (9, 8)) / 3
    result = items(runs(values, ["d"] * 5 + ["e"] * 3))
    np.testing.assert_allclose(result.table["mean_value"], values.mean(axis=0))
    for t, got in enumerate(result.table["item_rest_r"]):
        block = range(5) if t < 5 else range(5, 8)
        rest = values[:, [i for i in block if i != t]].mean(axis=1)
        assert got == pytest.approx(np.corrcoef(values[:, t], rest)[0, 1])


def test_a_task_counts_only_for_the_rows_that_solve_it_alone() -> None:
    values = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.5], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    solved = np.array([[True, True, True], [True, False, True], [False, True, True], [True, True, True]])
    result = items(runs(values, solved=solved)).table
    assert result["n_rows"].to_list() == [3, 3, 4]
    assert result["mean_value"].to_list() == pytest.approx([1 / 3, 1 / 3, 0.625])
    # Task 0, rows 0, 1, 3: own values 1, 0, 0; rests (0 + 1) / 2, 0.5 (task 1 out), (0 + 1) / 2: no variation.
    assert result["item_rest_r"][0] is None
    # Task 2, rows 0 to 3: own 1, .5, 0, 1; rests 0.5, 0, 1, 0.
    assert result["item_rest_r"][2] == pytest.approx(np.corrcoef([1, 0.5, 0, 1], [0.5, 0, 1, 0])[0, 1])


def test_ceiling_floor_and_negative_items_are_flagged_and_counted() -> None:
    ability = np.linspace(0, 1, 20)
    values = np.column_stack([np.ones(20), np.zeros(20), ability, ability, 1 - ability, (np.arange(20) > 0) * 1.0])
    result = items(runs(values))
    assert result.table["ceiling"].to_list() == [True, False, False, False, False, True]  # the last: 19 of 20
    assert result.table["floor"].to_list() == [False, True, False, False, False, False]
    assert result.table["negative"].to_list()[4] is True
    assert result.value("ceiling_items") == 2 and result.value("floor_items") == 1
    assert result.value("negative_items") == 1 and result.value("items_without_correlation") == 2
    assert result.value("items") == 6


@given(seed=st.integers(0, 500))
@settings(max_examples=10, deadline=None)
def test_items_do_not_depend_on_the_order_or_the_names_of_rows(seed: int) -> None:
    frame = runs(np.random.default_rng(seed).integers(0, 3, (5, 6)) / 2)
    renamed = frame.with_columns(model=pl.lit("z") + (9 - pl.col("model").str.slice(1).cast(pl.Int64)).cast(pl.String))
    assert_frame_equal(items(frame).table, items(renamed.reverse()).table)


def test_two_rows_give_no_correlation_and_one_task_has_no_rest() -> None:
    assert items(runs(np.array([[1.0, 0.0], [0.0, 1.0]]))).table["item_rest_r"].null_count() == 2
    alone = items(runs(np.array([[1.0], [0.0], [0.5]])))
    assert alone.table["item_rest_r"].to_list() == [None] and alone.value("median_item_rest_r") is None


def test_items_of_a_published_round_are_refused() -> None:
    with pytest.raises(TableError, match="items pairs rows by task"):
        items(datasets.published_round())


# -- sources ----------------------------------------------------------------------------------------------


def test_families_and_the_two_kinds_are_those_worked_by_hand() -> None:
    values = np.array([[1.0, 1.0, 0.0, 0.5, 1.0], [1.0, 0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.5, 0.0]])
    frame = runs(values, ["d", "d", "d", "d", "e"])
    data = study(frame, ["a", "a", "b", "b", "b"], [True, True, False, False, False])
    result = sources(data, groups={"frontier": ["m0"]}, resamples=200)
    # Task means 2/3, 1/3, 0, 1/2, 1/3: family a 1/2, family b (0 + 1/2 + 1/3) / 3.
    table = {r["source_family"]: r for r in result.table.iter_rows(named=True)}
    assert table["a"]["mean_value_pct"] == pytest.approx(50) and table["b"]["mean_value_pct"] == pytest.approx(250 / 9)
    assert (table["a"]["frontier_pct"], table["b"]["frontier_pct"]) == (100.0, 50.0)
    assert (table["a"]["real_world"], table["b"]["n_tasks"]) == (True, 3)
    assert result.table["source_family"].to_list() == ["b", "a"]  # hardest first
    # Only d has both kinds: real 1, 1/2, 0; built 1/4 for every row.
    assert result.dimensions == ("d",)
    assert result.rows.select("real_world_pct", "benchmark_pct").rows() == [(100.0, 25.0), (50.0, 25.0), (0.0, 25.0)]
    assert result.value("benchmark_harder_points") == pytest.approx(25)
    assert result.value("pearson_r") is None  # one of the two is constant
    assert result.summary["note"][0] is not None


def test_missing_sources_are_refused_by_name() -> None:
    frame = runs(np.array([[1.0, 0.0], [0.0, 1.0]]))
    with pytest.raises(TableError, match="no task has a source_family"):
        sources(frame)
    with pytest.raises(TableError, match="no dimension has tasks of both kinds"):
        sources(study(frame, ["a", "a"], [True, True]))
    with pytest.raises(TableError, match="groups: no model 'm7'"):
        sources(study(frame, ["a", "b"], [True, False]), groups={"frontier": ["m7"]})
    with pytest.raises(TableError, match="sources pairs rows by task"):
        sources(datasets.published_round())


def test_the_simulated_release_has_the_items_and_sources_of_the_paper() -> None:
    data = datasets.simulated_release()
    quality = items(data)
    # Appendix C.4: median r 0.70, 28 ceiling items of which 26 in the two safety dimensions, 8 floor items.
    assert quality.value("median_item_rest_r") == pytest.approx(0.70, abs=0.12)
    assert quality.value("ceiling_items") == pytest.approx(28, abs=12)
    safety = quality.table.filter(pl.col("ceiling"))["dimension"].is_in(
        ["resisting_unsafe_pressure", "reporting_misconduct"]
    )
    assert safety.mean() > 0.7
    kinds = sources(data, resamples=500)
    # Appendix C.5: r 0.99, tau 0.93, benchmark-built tasks harder by 10.4 points (6.2 to 14.4), seven dimensions.
    assert len(kinds.dimensions) == 7
    assert kinds.value("pearson_r") == pytest.approx(0.99, abs=0.02)
    assert kinds.value("kendall_tau_b") == pytest.approx(0.93, abs=0.06)
    assert kinds.value("benchmark_harder_points") == pytest.approx(10.4, abs=5)
    assert kinds.table["source_family"].to_list()[:2] == ["negotiations", "team_decisions"]
    assert kinds.table["source_family"].to_list()[-1] == "accident_reports"


def test_without_the_gate_the_caption_does_not_speak_of_it() -> None:
    data = runs(np.random.default_rng(2).integers(0, 4, (9, 8)) / 3)
    assert "solve alone" in items(data).caption
    assert "alone" not in items(data, gate="off").caption


def scarce(n: int) -> SimpleNamespace:
    """Eight rows on 2 x `n` tasks of both kinds; the last one solves one real-world task alone."""
    rng = np.random.default_rng(5)
    ability = np.linspace(0.9, 0.2, 8)[:, None]
    values = (rng.random((8, 2 * n)) < ability).astype(float)
    solved = np.ones((8, 2 * n), bool)
    solved[-1, 1:n] = False
    return study(runs(values, solved=solved), ["a"] * n + ["b"] * n, [True] * n + [False] * n)


def test_a_row_with_one_task_of_a_kind_does_not_select_the_resamples() -> None:
    result = sources(scarce(12), resamples=1000)
    lines = {r["quantity"]: r for r in result.summary.iter_rows(named=True)}
    # 1 / 12 of the tasks: a third of the resamples do not hold it, and each of them is kept.
    for name in ("pearson_r", "benchmark_harder_points"):
        assert (lines[name]["n_empty_resamples"], lines[name]["note"], lines[name]["interval"]) == (0, None, "tasks")
    gap = lines["benchmark_harder_points"]
    assert gap["lo"] < gap["value"] < gap["hi"]


def test_resamples_without_a_task_of_a_kind_are_counted_and_too_many_give_no_interval() -> None:
    values = np.random.default_rng(6).random((6, 9)).round(1)
    data = study(runs(values), ["a", *"bbbbbbbb"], [True] + [False] * 8)
    result = sources(data, resamples=1000, interval="percentile")
    # One real-world task of nine: (8/9)^9 = 35 % of the resamples have none.
    lines = {r["quantity"]: r for r in result.summary.iter_rows(named=True)}
    for name in ("pearson_r", "benchmark_harder_points"):
        line = lines[name]
        assert line["n_empty_resamples"] == pytest.approx(346, abs=60)
        assert (line["lo"], line["hi"], line["interval"]) == (None, None, None)
        assert "of the resamples: no interval" in line["note"] and line["value"] is not None
    family = result.table.filter(pl.col("source_family") == "a").row(0, named=True)
    assert (family["lo_pct"], family["n_empty_resamples"]) == (None, lines["pearson_r"]["n_empty_resamples"])


def test_sources_count_the_runs_behind_either_part_and_those_behind_the_means() -> None:
    frame = runs(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.5]]), ["d", "d", "e"]).with_columns(
        effort=pl.lit(None, pl.String)
    )
    high = frame.filter(pl.col("model") == "m0").with_columns(effort=pl.lit("high"))
    baseline = frame.filter(pl.col("version") == "test").with_columns(version=pl.lit("baseline"))
    data = study(pl.concat([frame, high, baseline]), ["a", "b", "a"], [True, False, True])
    result = sources(data, groups={"frontier": ["m0"]}, resamples=100)
    # Three rows with two alone and two test runs in d; in e, which has one kind only, the two default rows count.
    assert result.n_used == 3 * 4 + 2 * 2
    assert result.n_left_out == {"of no part in this question": 6 + 2}
    assert "The mean values of the families rest on 12 of the rollouts used." in result.notes()
