"""pass^k and pass@k: tau-bench's printed numbers, enumeration of all choices, and the leaderboard's mean at k = 1."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cilab
from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods.repeats import all_pass, any_pass
from cilab.stats.methods.uncertainty import mean_bounds
from cilab.stats.teamwork.passes import pass_hat_k
from cilab.testing import grid as played
from cilab.testing import run, runs
from tests.shared import shared


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_chances_are_shares_of_all_choices_of_k_runs(passed: list[bool], k: int) -> None:
    c, n = np.array([sum(passed)]), np.array([len(passed)])
    choices = list(itertools.combinations(passed, k))
    if not choices:
        assert np.isnan(all_pass(c, n, k)) and np.isnan(any_pass(c, n, k))
        return
    assert all_pass(c, n, k)[0] == pytest.approx(np.mean([all(x) for x in choices]))
    assert any_pass(c, n, k)[0] == pytest.approx(np.mean([any(x) for x in choices]))


def test_the_estimate_has_no_bias() -> None:
    # Expected value over 5 runs of a task that passes with probability p, by the binomial distribution: p^k.
    n, p = 5, 0.7
    c = np.arange(n + 1)
    chance = np.array([len(list(itertools.combinations(range(n), k))) for k in c]) * p**c * (1 - p) ** (n - c)
    for k in (1, 2, 3, 5):
        assert chance @ all_pass(c, np.full(n + 1, n), k) == pytest.approx(p**k)
        assert chance @ any_pass(c, np.full(n + 1, n), k) == pytest.approx(1 - (1 - p) ** k)


def test_tau_bench_gives_what_its_authors_print() -> None:
    table = pl.read_csv(shared("tau_bench/rewards_tau.csv"))
    frame = table.select(
        "model",
        pl.col("task_id").cast(pl.String),
        seed=pl.col("trial"),
        version=pl.lit("test"),
        status=pl.lit("ok"),
        score=pl.col("reward"),
    )
    found = pass_hat_k(frame, gate="off").table
    # README of tau-bench, airline, tool calling with gpt-4o: Pass^1 to Pass^4.
    assert found["pass_hat_pct"].round(1).to_list() == [42.0, 27.3, 22.0, 20.0]
    assert found["n_tasks"].to_list() == [50] * 4
    ends = found.row(3, named=True)
    # 10 of 50 tasks pass all four times: the score interval with Student's t over 49.
    every = (table.group_by("task_id").agg(pl.col("reward").min())["reward"] == 1).cast(pl.Float64).to_numpy()
    assert (ends["lo_pct"], ends["hi_pct"]) == pytest.approx(tuple(100 * v for v in mean_bounds(every)[:2]))


def test_at_one_run_it_is_the_leaderboards_mean_of_ungraded_scores() -> None:
    rng = np.random.default_rng(4)
    frame = played(rng.integers(0, 2, (3, 12, 3)), dimensions=["d"] * 5 + ["e"] * 7)
    found = pass_hat_k(frame).table.filter(k=1)
    board = cilab.leaderboard(frame).table
    both = found.join(board, on="model")
    assert both["pass_hat_pct"].to_list() == pytest.approx(both["score_pct_right"].to_list())
    assert both["lo_pct"].to_list() == pytest.approx(both["lo_pct_right"].to_list())
    assert both["score_pct"].to_list() == pytest.approx(both["score_pct_right"].to_list())


@given(seed=st.integers(0, 200))
@settings(max_examples=10, deadline=None)
def test_all_of_more_runs_pass_less_often_and_any_of_them_more_often(seed: int) -> None:
    frame = played(np.random.default_rng(seed).integers(0, 2, (2, 6, 4)))
    for _, row in pass_hat_k(frame).table.group_by("model"):
        assert row["pass_hat_pct"].is_sorted(descending=True) and row["pass_at_pct"].is_sorted()
        assert row["pass_hat_pct"][0] == pytest.approx(row["pass_at_pct"][0])


def test_graded_runs_are_no_passes_and_are_counted() -> None:
    found = pass_hat_k(played([[[1, 0.5], [1, 1], [0.5, 0.5]]]))
    assert found.table["pass_hat_pct"].to_list() == pytest.approx([50.0, 100 / 3])
    assert found.table["score_pct"][0] == pytest.approx(75.0)
    assert "3 of 6 runs have a score between 0 and 1" in str(found)


def test_tasks_with_fewer_runs_count_as_far_as_they_go() -> None:
    found = pass_hat_k(played([[[1, 1, 1], [1, 0], [1]]]))
    assert found.table.select("k", "n_tasks", "n_fewer").rows() == [(1, 3, 0), (2, 2, 1), (3, 1, 2)]
    assert found.table["pass_hat_pct"].to_list() == pytest.approx([100 * 2.5 / 3, 50.0, 100.0])
    assert found.table["no_interval"].to_list() == [None, "too few: 2 tasks", "too few: 1 task"]
    assert "Tasks with fewer than 3 runs: 2 of 3" in str(found)


def test_a_dimension_without_so_many_runs_leaves_no_number_and_a_reason() -> None:
    frame = played([[[1, 1], [0, 1], [1], [1]]], dimensions=["d", "d", "e", "e"])
    line = pass_hat_k(frame, k=2).table.row(0, named=True)
    assert (line["pass_hat_pct"], line["pass_at_pct"], line["reason"]) == (None, None, "no task with 2 runs in e")
    assert line["no_interval"] == "no task with 2 runs in e"


def test_one_seed_has_k_of_one_only() -> None:
    frame = played([[1, 0, 1, 1]])
    assert pass_hat_k(frame).table["k"].to_list() == [1]
    with pytest.raises(TableError, match="k is 2, but no task has more than 1 scored test run; give k up to 1"):
        pass_hat_k(frame, k=2)


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", [], [1, 0], True])
def test_k_is_a_whole_number_from_one_on(k) -> None:
    with pytest.raises(TableError, match=r"k is .*: give a whole number of at least 1"):
        pass_hat_k(played([[1, 0, 1]]), k=k)


def test_all_refused_and_published_counts_are_refused_in_one_line() -> None:
    refused = [run("m", "d:t", "alone", 1.0), run("m", "d:t", "test", status="refused")]
    with pytest.raises(TableError, match="no scored run of version test"):
        pass_hat_k(runs(refused))
    with pytest.raises(TableError, match="pass_hat_k pairs rows by task"):
        pass_hat_k(datasets.published_round())
