"""Small studies that once gave misleading numbers, each with its right value and where that comes from.

The inputs stand in `tests/data/cases`. `n/m` below are exact by hand; intervals are Clopper and Pearson's or Student's
from scipy.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import cilab
from cilab.core.errors import TableError
from cilab.stats.methods import coefficients, hypothesis_tests
from cilab.stats.methods.bradley_terry import bradley_terry

FOLDER = Path(__file__).resolve().parents[1] / "data" / "cases"
_TEXT = ("run_id", "benchmark", "task_id", "dimension", "version", "model", "effort", "arm", "status", "source_family")


def read(name: str) -> pl.DataFrame:
    """A table of a case, in the types of the tables."""
    frame = pl.read_csv(FOLDER / f"{name}.csv", infer_schema_length=None)
    frame = frame.with_columns(pl.col(c).cast(pl.String) for c in _TEXT if c in frame.columns)
    if "evidence" in frame.columns:
        frame = frame.with_columns(pl.col("evidence").cast(pl.String).str.split(";"))
    return frame


def line(table: pl.DataFrame, **where: Any) -> dict[str, Any]:
    """The one line with these values."""
    return table.row(
        by_predicate=pl.all_horizontal(pl.col(k).eq_missing(pl.lit(v)) for k, v in where.items()), named=True
    )


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (3, 0.25), (5, 0.0625)])
def test_01_all_of_a_few_tasks_go_one_way(n: int, p: float) -> None:
    found = line(cilab.compare(read(f"01_runs_{n}"), "model-a", "model-b").table, dimension="overall")
    assert found["p"] == pytest.approx(p)  # 2 / 2^n
    assert found["lo_points"] is None or found["lo_points"] <= 0


def test_03_one_task_in_each_dimension_is_a_score_without_an_interval() -> None:
    board = cilab.leaderboard(read("03_runs"))
    found = board.table.row(0, named=True)
    assert found["score_pct"] == pytest.approx(100 * 5 / 12) and found["lo_pct"] is None
    assert "too few: 8 tasks in 8 dimensions" in str(board) and "± 0.0" not in str(board)


def test_04_a_second_repeat_that_was_begun_takes_no_task_out() -> None:
    found = cilab.leaderboard(read("04_runs")).table.row(0, named=True)
    assert (found["score_pct"], found["n_scored"]) == (pytest.approx(40.0), 20)
    assert found["lo_pct"] < 40 < found["hi_pct"]


def test_05_one_more_seed_of_one_task_costs_a_row_nothing() -> None:
    table = cilab.leaderboard(read("05_runs")).table
    assert table.select("model", "rank").rows() == [("model-a", 1), ("model-b", 2)]
    assert table["score_pct"].to_list() == pytest.approx([90.0, 50.0])
    assert table["n_scored"].to_list() == [10, 10]


def test_06_the_alone_version_is_scored_without_its_own_gate() -> None:
    runs = read("06_runs")
    wanted = {"model-a": 100.0, "model-b": 40.0}
    board = cilab.leaderboard(runs, version="alone").table
    assert dict(zip(board["model"], board["score_pct"], strict=True)) == pytest.approx(wanted)
    by_dimension = cilab.dimensions(runs, version="alone").table
    assert dict(zip(by_dimension["model"], by_dimension["score_pct"], strict=True)) == pytest.approx(wanted)
    compared = line(cilab.compare(runs, "model-a", "model-b", version="alone").table, dimension="overall")
    assert compared["diff_points"] == pytest.approx(60.0)
    try:
        filled = cilab.fill_in(runs, version="alone").table
    except TableError as refused:
        assert "nothing to correct" in str(refused)
    else:
        assert dict(zip(filled["model"], filled["adjusted_pct"], strict=True)) == pytest.approx(wanted, abs=1e-6)


def test_07_halves_that_disagree_have_no_reliability() -> None:
    found = line(cilab.validity(read("07_runs")).table, quantity="reliability")
    assert found["value"] is None and found["lo"] is None and "not above 0" in found["note"]


def test_08_repeats_of_three_mazes_are_three_units() -> None:
    gap = cilab.gap(read("08_runs")).gaps.row(0, named=True)
    wanted = (-1.100884243249821, 1.7675509099164874)  # t(2), standard error 1/3
    assert (gap["gap_lo"], gap["gap_hi"]) == pytest.approx(wanted) and gap["gap_se"] == pytest.approx(1 / 3)
    assert gap["gap_reported"] in (False, None)
    none = cilab.gap(read("08_runs_sd0"))
    assert none.gaps["gap_lo"][0] is None and none.gaps["gap_reported"][0] in (False, None)
    assert "0.50 *" not in str(none) and "too few: 2 mazes" in str(none)


def test_09_thirty_of_thirty_is_not_certain() -> None:
    found = cilab.leaderboard(read("09_runs")).table.row(0, named=True)
    exact = stats.binomtest(30, 30).proportion_ci(0.95, "exact")
    assert (found["lo_pct"], found["hi_pct"]) == pytest.approx((100 * exact.low, 100.0))


def test_10_takeover_counts_only_what_it_saw() -> None:
    found = line(cilab.takeover(read("10_runs"), gate="off").table, kind="all", group="all")
    assert (found["n_carried"], found["carried_share_pct"], found["n_unknown"]) == (20, pytest.approx(100.0), 40)
    exact = stats.binomtest(20, 20).proportion_ci(0.95, "exact")
    assert found["carried_lo_pct"] == pytest.approx(100 * exact.low, abs=0.1)
    assert (found["carried_least_pct"], found["carried_most_pct"]) == pytest.approx((100 / 3, 100.0))


@pytest.mark.parametrize(
    ("ties", "record", "log_odds", "error"),
    [
        ("davidson", (5, 1, 2754), np.log(5), np.sqrt(1 / 5 + 1)),
        ("davidson", (4, 2, 90), np.log(2), np.sqrt(1 / 4 + 1 / 2)),
        ("half", (5, 1, 2754), 0.0029, 0.0018),  # binomial GLM with HC0 errors, statsmodels
        ("half", (4, 2, 90), 0.0417, 0.0509),
    ],
)
def test_11_bradley_terry_with_ties(ties: str, record: tuple[int, int, int], log_odds: float, error: float) -> None:
    found = bradley_terry([("a", "b", *record)], ties=ties).difference("a", "b")
    assert found.log_odds == pytest.approx(log_odds, abs=6e-5) and found.se == pytest.approx(error, abs=6e-5)


def test_12_refusing_the_hard_half_is_seen_in_the_sensitivity() -> None:
    found = cilab.sensitivity(read("12_runs")).table
    scores = {
        (r["scenario"], r["model"]): r["score_pct"] for r in found.iter_rows(named=True) if r["score_pct"] is not None
    }
    at = {scenario for scenario, _ in scores}
    failed, common = (next(s for s in at if word in s) for word in ("refused", "common"))
    assert [scores[failed, m] for m in ("model-a", "model-b")] == pytest.approx([50.0, 50.0])
    assert [scores[common, m] for m in ("model-a", "model-b")] == pytest.approx([100.0, 100.0])


def test_15_power_knows_graded_scores_and_cells_that_were_never_run() -> None:
    asked = {"gate": "off", "differences": (10.0,), "tasks_per_dimension": (30,), "seeds": (1,), "simulations": 200}
    power = {
        name: cilab.power(read(f"15_{name}"), cell_sd=0.0, **asked).table.row(0, named=True)["power"]
        for name in ("runs", "runs_half", "runs_graded")
    }
    assert power["runs_graded"] == pytest.approx(1.0)
    assert abs(power["runs"] - power["runs_half"]) < 0.12


def test_16_rows_that_took_other_tasks_are_compared_on_common_ones() -> None:
    runs = read("16_runs")
    board = cilab.leaderboard(runs, common_tasks=True).table
    wanted = {"model-a": 100.0, "model-b": 75.0, "model-c": 100.0}
    assert dict(zip(board["model"], board["score_pct"], strict=True)) == pytest.approx(wanted)
    whole = cilab.leaderboard(runs).table
    assert line(whole, model="model-a", effort=None)["n_complete"] == 4
    assert line(whole, model="model-a", effort=None)["n_tasks"] == 8


def test_17_a_task_with_a_run_that_ended_in_an_error_is_out() -> None:
    for name, wanted in (("17_runs", 100.0), ("17_runs_missing", 100 / 6)):
        assert cilab.leaderboard(read(name)).table["score_pct"][0] == pytest.approx(wanted)


def _labelled(case: str) -> Any:
    return SimpleNamespace(runs=read(f"{case}_runs").lazy(), labels=read(f"{case}_labels").lazy())


def test_18_noticed_has_one_default() -> None:
    study = _labelled("18")
    settled = cilab.noticed(study.runs.collect(), labels=study.labels.collect()).table
    assert line(settled, by="all", name="all")["share_pct"] == pytest.approx(40.0)
    failed = cilab.failures(study.runs.collect(), labels=study.labels.collect())
    gave_in = failed.stages.filter((pl.col("by") == "all") & (pl.col("stage") == "gave in"))
    assert gave_in["n"].sum() == 3


def test_20a_one_task_in_each_dimension_says_nothing_of_an_order() -> None:
    found = cilab.differences(read("20a_runs"))
    row = found.table.row(0, named=True)
    assert (row["lo_points"], row["p_higher"]) == (None, None)
    assert found.ranks["stability_pct"].to_list() == [None, None]


def test_20b_nothing_varies_elsewhere() -> None:
    runs = read("20b_runs")
    assert cilab.pairwise(runs).table["lo"].to_list() == [None, None]
    compared = line(cilab.compare(runs, *sorted(runs["model"].unique())).table, dimension="overall")
    assert compared["lo_points"] is None and compared["p"] == 1.0
    paired = hypothesis_tests.paired_t([2, 3, 4], [1, 2, 3])
    assert (paired.lo, paired.hi) == (None, None)
    perfect = hypothesis_tests.pearson([1, 2, 3, 4], [1, 2, 3, 4])
    assert (perfect.lo, perfect.p) == (None, pytest.approx(2 / 24))
    kappa = coefficients.cohen_kappa(list("aabbaabb"), list("aabbaabb"))
    assert kappa.lo is None


def test_20c_three_tasks_that_rise_have_p_of_a_quarter_and_no_interval_against_it() -> None:
    found = cilab.effort(read("20c_runs")).table.row(0, named=True)
    assert found["p"] == pytest.approx(0.25)
    assert found["lo_points"] is None or found["lo_points"] <= 0


def test_20e_a_judge_who_is_asked_in_disputes_has_no_estimate() -> None:
    table = cilab.agreement(_labelled("20e"), by=None).table
    for row in table.filter(pl.col("comparison").str.contains("third")).iter_rows(named=True):
        assert row["kappa"] is None and row["reason"]
    two = line(table, comparison="referee × second")
    assert two["raw"] == pytest.approx(11 / 15) and two["kappa"] == pytest.approx(0.4642857142857143)


def test_20f_repeats_of_three_mazes_in_an_ablation() -> None:
    first = cilab.ablation(read("20f_runs"), "maze_size").table.sort("level").row(0, named=True)
    assert (first["lo"], first["hi"]) == pytest.approx((-1.100884243249821, 1.7675509099164874))
    assert (first["n"], first["n_clusters"]) == (18, 3)


def test_coverage_of_cases_02_and_14_is_kept_as_studies() -> None:
    golden = FOLDER.parents[1] / "golden"
    errors = json.loads((golden / "comparison_errors.json").read_text())
    assert errors["made_by"].startswith("python benchmarks/")
    assert json.loads((golden / "interval_coverage.json").read_text())["nominal"] == 0.95
