"""The builders of rows and studies that `cilab.testing` offers."""

from __future__ import annotations

import doctest

import polars as pl
import pytest

import cilab
from cilab import testing
from cilab.core.errors import TableError
from cilab.core.tables import TABLES, frame
from cilab.testing import grid, label, message, run, runs, study


def test_every_builder_gives_a_row_that_its_table_takes():
    for table, row in (("runs", run()), ("messages", message("r")), ("labels", label("r"))):
        assert frame(table, [row]).schema == TABLES[table].schema


def test_a_run_without_a_score_is_an_error_unless_its_status_says_otherwise():
    assert (run(score=None)["status"], run(score=None)["passed"]) == ("error", None)
    assert runs([run(status="refused"), run(score=None, status="ok", weighted_outcome=0.5)]).height == 2


def test_runs_that_differ_in_what_identifies_them_have_ids_of_their_own():
    one = [run(), run("n"), run(task_id="u"), run(version="alone"), run(seed=1), run(arm="high"), run(effort="high")]
    assert len({row["run_id"] for row in one}) == len(one)


def test_a_column_that_the_table_does_not_have_is_refused():
    with pytest.raises(TableError, match="no column named scroe"):
        runs([run(scroe=1.0)])


def test_a_grid_is_played_alone_and_tested_where_it_has_scores():
    table = grid([[[1.0, 0.0], [0.5, None]]], [[True, False]], models=["gpt"], split=["public", "held_out"])
    assert table.select("model", "task_id", "split", "version", "seed", "score").rows() == [
        ("gpt", "t000", "public", "alone", 0, 1.0),
        ("gpt", "t000", "public", "test", 0, 1.0),
        ("gpt", "t000", "public", "test", 1, 0.0),
        ("gpt", "t001", "held_out", "alone", 0, 0.0),
        ("gpt", "t001", "held_out", "test", 0, 0.5),
    ]


def test_a_study_by_hand_is_asked_and_saved_like_any_other(tmp_path):
    failed = run("gpt", "t1", "test", 0.0)
    data = study([run("gpt", "t1", "alone"), failed], labels=[label(failed["run_id"], noticed=True)])
    assert cilab.leaderboard(data).table.select("model", "n_complete").rows() == [("gpt", 1)]
    assert cilab.open(data.save(tmp_path / "s")).labels.select(pl.col("noticed").all()).collect().item()


def test_the_examples_are_true():
    assert doctest.testmod(testing).failed == 0 and doctest.testmod(testing).attempted > 2
