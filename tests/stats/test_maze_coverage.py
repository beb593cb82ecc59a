"""Intervals of the maze statistics cover what they should where mazes are few and repeated; the study is stored."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from cilab.stats.maze.gap import gap
from tests.scripts import script
from tests.stats.maze_runs import frame, pair, rollouts

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "maze_coverage.json"


def stored() -> dict:
    return json.loads(GOLDEN.read_text())


def test_stored_coverage_is_at_least_93_percent_wherever_an_interval_is_shown() -> None:
    lines = stored()["lines"]
    assert {(x["mazes"], x["repeats"]) for x in lines} == {(m, r) for m in (3, 5, 10, 20) for r in (1, 5, 10)}
    error = math.sqrt(0.93 * 0.07 / stored()["data_sets"])
    assert [x for x in lines if x["coverage"] < 0.93 - 2 * error] == []


def test_stored_coverage_is_at_most_97_percent_from_ten_mazes_on() -> None:
    error = math.sqrt(0.97 * 0.03 / stored()["data_sets"])
    assert [x for x in stored()["lines"] if x["mazes"] >= 10 and x["coverage"] > 0.97 + 2 * error] == []


def test_rollouts_as_independent_cover_far_too_little_where_mazes_are_repeated() -> None:
    repeated = [x for x in stored()["lines"] if x["number"] == "pair" and x["repeats"] > 1]
    assert max(x["coverage_by_rollout"] for x in repeated) < 0.8


def test_the_first_data_sets_come_out_as_they_are_stored() -> None:
    study = script("maze_coverage")
    for x in stored()["lines"]:
        if x["number"] == "pair":
            share = x["outcome"] == "success"
            again = [study.verdicts(x["mazes"], x["repeats"], i, share=share)[0] for i in range(study.FIRST)]
            assert again == x["first"], x


@pytest.mark.parametrize("outcome", ["weighted_outcome", "success"])
def test_the_study_asks_for_the_intervals_that_gap_shows(outcome: str) -> None:
    study = script("maze_coverage")
    alone, together = study.drawn(5, 4, 0)
    rows = []
    for seed in range(4):
        more = {"seed": seed, "arm": None}
        rows += rollouts("solo_distributed", "m", None, alone[:, seed].tolist(), **more)
        rows += pair("m", "m", together[:, seed].tolist(), **more)
    found = gap(frame(rows), outcome=outcome)
    asked = study.intervals(alone, together, share=outcome == "success")
    cell, line = found.cell("m", "pair"), found.gaps.row(0, named=True)
    assert (cell["lo"], cell["hi"]) == pytest.approx((asked["pair"]["lo"], asked["pair"]["hi"]))
    assert (line["gap_lo"], line["gap_hi"]) == pytest.approx((asked["gap"]["lo"], asked["gap"]["hi"]))


@pytest.mark.study
def test_the_whole_study_comes_out_as_it_is_stored() -> None:
    assert script("maze_coverage").study(stored()["data_sets"]) == stored()
