"""All pairs of rows at once: by hand, against `compare`, with a known truth, and what is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.all_pairs import _tie_groups, all_pairs
from cilab.stats.teamwork.compare import compare
from cilab.stats.teamwork.scores import leaderboard


def runs(values: np.ndarray, dimensions: str | None = None) -> pl.DataFrame:
    """Values of shape (rows, tasks), NaN where the task was not run, as one test each; all is solved alone."""
    names = dimensions or "d" * values.shape[1]
    lines = [
        (f"m{r}", f"t{t:03d}", names[t], version, 1.0 if version == "alone" else float(values[r, t]))
        for r in range(values.shape[0])
        for t in range(values.shape[1])
        for version in ("alone", "test")
        if not np.isnan(values[r, t])
    ]
    frame = pl.DataFrame(lines, schema=["model", "task_id", "dimension", "version", "score"], orient="row")
    return frame.with_columns(status=pl.lit("ok"))


def test_two_rows_have_the_p_of_compare_and_both_ranks_are_open_until_they_differ() -> None:
    values = np.array([[1.0] * 9 + [0.0], [0.0] * 5 + [1.0] * 4 + [0.0]])
    result = all_pairs(runs(values), resamples=40_000)
    line = result.table.row(0, named=True)
    assert line["p_adjusted"] == pytest.approx(compare(runs(values), "m0", "m1").table["p"][0], abs=0.005)
    assert result.ranks.select("rank_lo", "rank_hi", "groups").rows() == [(1, 2, [1]), (1, 2, [1])]
    more = all_pairs(runs(np.tile(values, 3)), resamples=2000)
    assert more.ranks.select("rank_lo", "rank_hi", "groups").rows() == [(1, 1, [1]), (2, 2, [2])]
    assert more.table["lo_points"][0] > 0


def test_three_rows_of_which_two_are_alike_have_the_sets_that_follow_by_hand() -> None:
    g = np.random.default_rng(2)
    high, low = np.ones(60), np.zeros(60)
    alike = np.where(g.random(60) < 0.5, high, low)
    result = all_pairs(runs(np.array([high, alike, 1 - alike])))
    assert result.ranks.select("row", "rank_lo", "rank_hi", "n_higher", "n_lower").rows()[0] == ("m0", 1, 1, 0, 2)
    assert result.ranks.select("rank_lo", "rank_hi", "groups").rows()[1:] == [(2, 3, [2]), (2, 3, [2])]
    assert [set(rows) for rows in result.groups["rows"]] == [{"m0"}, {"m1", "m2"}]


def test_pairs_rest_on_their_common_tasks() -> None:
    values = np.array([[1, 1, 1, 1, np.nan, np.nan], [1, 1, 1, 0, 0, 0], [np.nan, np.nan, 1, 1, 1, 1.0]])
    table = all_pairs(runs(values), resamples=100).table
    found = {(r["higher"], r["lower"]): (r["diff_points"], r["n_tasks"]) for r in table.iter_rows(named=True)}
    # By hand: m0 and m1 share four tasks and differ on one, m1 and m2 share four and differ on three.
    assert found == {("m0", "m2"): (0.0, 2), ("m0", "m1"): (25.0, 4), ("m2", "m1"): (75.0, 4)}
    assert table.filter(n_tasks=2)["no_interval"].to_list() == ["too few: 2 tasks"]
    assert table.filter(n_tasks=2)["p_adjusted"].null_count() == 1


def test_scores_and_ranks_are_the_leaderboards() -> None:
    data = datasets.simulated_release(scale=0.2)
    board = leaderboard(data, resamples=50).table
    ranks = all_pairs(data, resamples=100).ranks
    assert ranks["score_pct"].to_list() == pytest.approx(board["score_pct"].to_list())
    assert ranks["rank"].to_list() == board["rank"].to_list()


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_intervals_p_and_ranks_tell_one_story(seed: int) -> None:
    g = np.random.default_rng(seed)
    values = (g.random((5, 30)) < g.uniform(0.1, 1, (5, 1))).astype(float)
    result = all_pairs(runs(values, "d" * 12 + "e" * 18), resamples=400)
    table = result.table
    excluded = (table["lo_points"] > 0) | (table["hi_points"] < 0)
    assert (excluded == (table["p_adjusted"] < 0.05)).all() and (table["lo_points"] < table["hi_points"]).all()
    assert table["lo_points"].min() >= -100 and table["hi_points"].max() <= 100
    for line in result.ranks.iter_rows(named=True):
        assert line["rank_lo"] == 1 + line["n_higher"] and line["rank_hi"] == 5 - line["n_lower"]
    told = {frozenset(pair) for pair in table.filter(excluded).select("higher", "lower").rows()}
    for rows in result.groups["rows"]:
        assert not any(frozenset((a, b)) in told for a in rows for b in rows)


def test_nothing_hangs_on_the_order_of_runs() -> None:
    data = runs((np.random.default_rng(3).random((4, 20)) < 0.6).astype(float))
    one, two = all_pairs(data, resamples=100), all_pairs(data.reverse(), resamples=100)
    assert_frame_equal(one.table, two.table)
    assert_frame_equal(one.ranks, two.ranks)


def test_equal_rows_exclude_nothing_and_have_intervals_of_some_width() -> None:
    result = all_pairs(runs(np.ones((3, 40))))
    assert result.ranks.select("rank", "rank_lo", "rank_hi").rows() == [(1, 1, 3)] * 3
    assert result.table["p_adjusted"].to_list() == [1.0] * 3
    # 1 - (0.05 / 2 / 3)^(1/40), by hand
    assert result.table["hi_points"].to_list() == pytest.approx([11.28] * 3, abs=0.01)


def test_a_row_that_wins_every_task_is_alone_on_its_rank_from_enough_tasks_on() -> None:
    few = all_pairs(runs(np.array([np.ones(5), np.zeros(5)])))
    assert few.ranks["rank_hi"].to_list() == [2, 2] and few.table["lo_points"][0] <= 0
    many = all_pairs(runs(np.array([np.ones(12), np.zeros(12)])))
    assert many.ranks["rank_hi"].to_list() == [1, 2] and 0 < many.table["lo_points"][0] < 100


def test_the_true_ranks_of_simulated_rows_are_not_excluded() -> None:
    """Thirty redrawn leaderboards of five rows; simulated, with a known truth. At 90 % a few may miss."""
    g, missed = np.random.default_rng(7), 0
    for i in range(30):
        chance = np.clip(g.uniform(0.4, 1, 80) - 0.06 * np.arange(5)[:, None], 0, 1)
        values = (g.random((5, 80)) < chance).astype(float)
        ranks = all_pairs(runs(values), resamples=200, seed=i, ci_level=0.9).ranks
        truth = ranks["model"].str.slice(1).cast(pl.Int64) + 1
        missed += not ((ranks["rank_lo"] <= truth) & (truth <= ranks["rank_hi"])).all()
    assert missed <= 7  # 3 expected at most; 7 or fewer of 30 has a chance of 99 %


def test_tie_groups_are_the_longest_runs_without_a_difference() -> None:
    verdict = np.zeros((5, 5), np.int8)
    for i, j in ((0, 2), (0, 3), (0, 4), (1, 4)):
        verdict[i, j], verdict[j, i] = 1, -1
    assert _tie_groups(verdict) == [(0, 2), (1, 4), (2, 5)]
    assert _tie_groups(np.zeros((3, 3), np.int8)) == [(0, 3)]
    assert _tie_groups(np.triu(np.ones((3, 3)), 1) - np.tril(np.ones((3, 3)), -1)) == [(0, 1), (1, 2), (2, 3)]


def test_a_row_without_a_score_is_left_out_by_name() -> None:
    data = runs(np.array([[1, 1, 0, 1.0], [1, 0, 0, 0], [1, 1, np.nan, np.nan]]), "ddee")
    result = all_pairs(data, resamples=50)
    assert result.ranks.height == 2 and "No overall score, so left out: m2." in result.notes()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(TableError, match="all_pairs needs two rows with an overall score; unnamed has 1"):
        all_pairs(runs(np.ones((1, 5))))
    with pytest.raises(TableError, match="no task is solved alone and scored for two rows"):
        all_pairs(runs(np.array([[1, np.nan], [np.nan, 1.0]])))
    with pytest.raises(TableError, match="all_pairs pairs rows by task, but in published round"):
        all_pairs(datasets.published_round())


def test_the_sheet_has_a_line_per_row() -> None:
    text = repr(all_pairs(datasets.simulated_release(scale=0.2), models=["sim:F1", "sim:O7"], resamples=200))
    assert "Ranks not excluded" in text and "sim:O7" in text and "SIMULATED" in text


def test_families_flip_as_one() -> None:
    """Four families of five tasks, all won: no fewer than 2 in 16 choices of signs are as extreme."""
    data = runs(np.array([np.ones(20), np.zeros(20)]))
    data = data.with_columns(family=pl.lit("f") + (pl.col("task_id").str.slice(1).cast(pl.Int64) // 5).cast(pl.String))
    result = all_pairs(data)
    assert result.table["p_adjusted"][0] == pytest.approx(2 / 2**4, abs=0.015) and result.table["n_clusters"][0] == 4
    assert result.ranks["rank_hi"].to_list() == [2, 2] and "sign flips of families" in result.caption
    assert all_pairs(data, cluster="task").ranks["rank_hi"].to_list() == [1, 2]
