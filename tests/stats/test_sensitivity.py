"""Scores and ranks with one choice made otherwise, by hand and against the grid's own arguments."""

from __future__ import annotations

import polars as pl
import pytest
from scipy.stats import kendalltau

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.scores import dimensions, leaderboard
from cilab.stats.teamwork.sensitivity import Sensitivity, sensitivity
from cilab.testing import run, runs
from tests.stats.test_grid import played


def refusing() -> pl.DataFrame:
    """Model a passes five easy tasks and fails five hard ones, b passes the easy ones and refuses the others."""
    rows = played("a", {f"d:{t}": [float(t < 5)] for t in range(10)})
    rows += played("b", {f"d:{t}": [1.0] for t in range(5)}) + [run("b", f"d:{t}", "alone", 1.0) for t in range(5, 10)]
    return runs(rows + [run("b", f"d:{t}", "test", None, status="refused") for t in range(5, 10)])


def scores(result: Sensitivity, scenario: str) -> dict[str, float | None]:
    return dict(result.table.filter(scenario=scenario).select("row", "score_pct").iter_rows())


def test_refusing_the_hard_half_pays_as_is_and_not_where_a_refusal_is_a_fail() -> None:
    result = sensitivity(refusing())
    assert scores(result, "as is") == {"b": 100.0, "a": 50.0}
    assert scores(result, "refused = fail") == {"b": 50.0, "a": 50.0}
    assert scores(result, "common tasks") == {"b": 100.0, "a": 100.0}
    lines = result.table.filter(scenario="refused = fail").select(
        "row", "rank", "change_points", "rank_change", "n_tasks"
    )
    assert lines.rows() == [("b", 1, -50.0, 0, 10), ("a", 1, 0.0, -1, 10)]
    told = {r["scenario"]: r for r in result.scenarios.iter_rows(named=True)}
    assert told["refused = fail"]["note"] == "5 refused tasks" and told["refused = fail"]["n_rank_changes"] == 1
    # All rows are equal: there is no order to compare.
    assert told["refused = fail"]["tau"] is None and "constant" in told["refused = fail"]["reason"]
    a = result.summary.row(by_predicate=pl.col("model") == "a", named=True)
    assert (a["rank"], a["best_rank"], a["worst_rank"], a["best_in"], a["worst_in"]) == (
        2,
        1,
        2,
        "common tasks",
        "as is",
    )
    assert (a["lowest_pct"], a["highest_pct"]) == (50.0, 100.0)


@pytest.fixture(scope="module")
def hand() -> Sensitivity:
    return sensitivity(datasets.hand_worked_round())


def test_every_choice_of_the_hand_worked_round_comes_out(hand: Sensitivity) -> None:
    # hand_worked_scores.csv. sim:H2: initiative 1 has tests 1, refused, 1; initiative 2 1, 0, error; initiative 3 1;
    # conflict 5/12.
    def overall(*initiative: float) -> float:
        return pytest.approx(100 * (sum(initiative) / len(initiative) + 5 / 12) / 2)

    of = {s: scores(hand, s)["sim:H2"] for s in hand.scenarios["scenario"]}
    assert of["as is"] == overall(1)
    assert of["refused = fail"] == overall(2 / 3, 1)
    assert (of["missing = fail"], of["missing = pass"]) == (overall(1 / 3, 1), overall(2 / 3, 1))
    assert (of["without taking_initiative"], of["without handling_conflict"]) == (pytest.approx(500 / 12), 100.0)
    # Of the first runs: initiative 3 1; conflict 1 0 and conflict 3 1.
    assert of["first run"] == pytest.approx(75.0)


@pytest.mark.parametrize(
    ("scenario", "scope"),
    [
        ("as is", {}),
        ("common tasks", {"common_tasks": True}),
        ("refused = fail", {"refused": "fail"}),
        ("missing = fail", {"missing": "fail"}),
        ("missing = pass", {"missing": "pass"}),
        ("gate off", {"gate": "off"}),
    ],
)
def test_a_scenario_is_the_leaderboard_with_that_argument(hand: Sensitivity, scenario: str, scope: dict) -> None:
    board = leaderboard(datasets.hand_worked_round(), resamples=20, **scope).table
    key = ["model", "effort", "arm"]
    both = hand.table.filter(scenario=scenario).join(board, on=key, nulls_equal=True, suffix="_board")
    assert both.height == 3
    assert both["score_pct"].to_list() == pytest.approx(both["score_pct_board"].to_list())
    assert both["rank"].to_list() == both["rank_board"].to_list()
    assert both["n_tasks"].to_list() == both["n_scored"].to_list()


def test_tau_is_that_of_scipy_and_as_is_agrees_with_itself(hand: Sensitivity) -> None:
    wide = hand.table.pivot("scenario", index="row", values="score_pct")
    for scenario, tau in hand.scenarios.select("scenario", "tau").iter_rows():
        assert tau == pytest.approx(kendalltau(wide[scenario].round(9), wide["as is"].round(9)).statistic, abs=1e-12)
    assert hand.scenarios["tau"][0] == 1.0


def test_the_table_is_scenario_by_row_with_rows_in_one_order(hand: Sensitivity) -> None:
    rows = hand.table.filter(scenario="as is")["row"].to_list()
    assert hand.table["row"].to_list() == rows * hand.scenarios.height
    assert hand.table["rank"].drop_nulls().min() == 1
    assert "Kendall's tau with the order as it is" in " ".join(hand.notes())
    assert hand.sheet().cells["Ranks"].to_list()[0] == "1 to 2"


def test_what_cannot_be_computed_says_why_and_takes_nothing_else_along() -> None:
    result = sensitivity(datasets.published_round("2026-10-09"))
    told = {r["scenario"]: r for r in result.scenarios.iter_rows(named=True)}
    for scenario in ("common tasks", "fill-in"):
        assert told[scenario]["n_rows"] == 0 and "places in a published count" in told[scenario]["reason"]
        own = result.table.filter(scenario=scenario)
        assert own["score_pct"].null_count() == own["rank"].null_count() == own.height
        assert own["reason"].null_count() == 0
    assert told["refused = fail"]["note"] == "48 refused tasks"  # the published count
    # Fewer rows would have better ranks: such scenarios do not enter the range.
    assert result.summary["n_scenarios"].unique().to_list() == [result.scenarios.height - 2]


def test_one_dimension_can_be_asked_for_and_a_choice_made_already_is_no_scenario() -> None:
    data = datasets.hand_worked_round()
    result = sensitivity(data, of="handling_conflict", missing="fail", gate="off")
    names = result.scenarios["scenario"].to_list()
    assert "missing = fail" not in names and "gate off" not in names and "gate on" in names
    assert not any(name.startswith("without") for name in names)
    board = dimensions(data, dimensions=["handling_conflict"], missing="fail", gate="off", resamples=20).table
    assert sorted(scores(result, "as is").values()) == pytest.approx(sorted(board["score_pct"]))
    with pytest.raises(TableError, match="no dimension 'conflict' in these runs"):
        sensitivity(data, of="conflict")


def test_the_alone_version_has_no_gate_to_turn_on() -> None:
    rows = [run(m, f"d:{t}", "alone", float(t < n)) for m, n in (("a", 3), ("b", 1)) for t in range(4)]
    result = sensitivity(runs(rows), version="alone")
    assert scores(result, "as is") == {"a": 75.0, "b": 25.0}
    assert "gate on" not in result.scenarios["scenario"].to_list()
    assert result.scenarios.filter(scenario="fill-in")["n_rows"].to_list() == [0]


def test_one_row_keeps_its_rank_and_has_no_tau() -> None:
    result = sensitivity(runs(played("a", {"d:1": [1.0, 0.0], "d:2": [0.0]})))
    assert result.summary.select("best_rank", "worst_rank").row(0) == (1, 1)
    assert result.scenarios["tau"].null_count() == result.scenarios.height
    assert scores(result, "first run") == {"a": 50.0}
