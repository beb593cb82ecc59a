"""Inherited misconduct that survives: by hand, the paper's follow-up counts, and the simulated release."""

from __future__ import annotations

from functools import partial

import polars as pl
import pytest
from scipy import stats

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.teamwork.takeover import takeover
from cilab.testing import runs as frame

run = partial(testing.run, dimension="taking_over", source_family="coding", evidence=[])


def follow_up() -> tuple[pl.DataFrame, dict[str, str]]:
    """Section 4.4, without and with the diff: edited files stay in 17 and 1 of 18, special cases in 22 and 16 of 24."""
    kept = {("edited", None): 17, ("edited", "diff"): 1, ("special", None): 22, ("special", "diff"): 16}
    n = {"edited": 18, "special": 24}
    rows, kinds = [], {}
    for kind, total in n.items():
        for i in range(total // 3):
            kinds[f"{kind}{i}"] = kind
            rows.append(run("m", f"{kind}{i}", "alone", 1.0))
        for arm in (None, "diff"):
            for j in range(total):
                stays = j < kept[kind, arm]
                evidence = ["raised_problem", "problem_remains"] if stays else []
                rows.append(run("m", f"{kind}{j // 3}", "test", float(not stays), j % 3, arm=arm, evidence=evidence))
    return frame(rows), kinds


@pytest.fixture(scope="module")
def release():
    return datasets.simulated_release()


def test_the_papers_follow_up_comes_out_by_kind_and_arm() -> None:
    runs, kinds = follow_up()
    result = takeover(runs, kinds=kinds, resamples=200)
    counts = {
        (r["kind"], r["arm"]): (r["n_carried"], r["n_runs"])
        for r in result.table.filter(pl.col("group") == "all").iter_rows(named=True)
    }
    assert counts["edited", "no arm"] == (17, 18) and counts["edited", "diff"] == (1, 18)  # CI032
    assert counts["special", "no arm"] == (22, 24) and counts["special", "diff"] == (16, 24)  # CI033
    assert counts["all", "diff"] == (17, 42)
    edited = result.differences.filter(pl.col("kind") == "edited").row(0, named=True)
    assert (edited["arm"], edited["other"], edited["n_pairs"]) == ("diff", "no arm", 6)
    assert edited["diff_points"] == pytest.approx(100 * (1 - 17) / 18)
    assert (edited["n_more"], edited["n_fewer"], edited["n_tied"]) == (0, 6, 0)
    assert edited["p"] == pytest.approx(stats.binomtest(0, 6).pvalue)
    assert any("gate" in remark for remark in result.remarks)  # the arm has no alone runs


def test_carried_raised_failed_and_own_starts_are_counted_by_hand() -> None:
    rows = [run("m", t, "alone", 1.0, source_family=f) for t, f in (("x", "coding"), ("y", "records"))]
    rows += [run("m", "x", "baseline", 1.0), run("m", "y", "baseline", 0.0, source_family="records")]
    rows += [
        run("m", "x", "test", 0.0, 0, evidence=["problem_remains"]),
        run("m", "x", "test", 0.0, 1, evidence=["raised_problem", "problem_remains"]),
        run("m", "y", "test", 0.0, 0, evidence=["raised_problem"], source_family="records"),
        run("m", "y", "test", 1.0, 1, source_family="records"),
    ]
    result = takeover(frame(rows), resamples=50)
    table = {r["kind"]: r for r in result.table.iter_rows(named=True)}
    row = table["all"]
    assert (row["n_runs"], row["n_failed"], row["n_carried"], row["n_carried_raised"]) == (4, 3, 2, 1)
    assert (row["carried_share_pct"], row["passed_share_pct"], row["own_start_share_pct"]) == (50, 25, 50)
    assert (table["coding"]["carried_share_pct"], table["records"]["carried_share_pct"]) == (100, 0)
    assert result.differences.height == 0
    assert result.n_used == 6 and sum(result.n_left_out.values()) == 2


def test_the_simulated_release_carries_what_its_modes_say(release) -> None:
    result = takeover(release, resamples=200)
    coding = result.table.filter((pl.col("kind") == "coding") & (pl.col("group") == "frontier")).row(0, named=True)
    assert coding["n_carried"] == coding["n_carried_failed"]
    # 44 of the 56 failed frontier takeovers in coding still hold the cheat (CI030, CI031).
    assert coding["n_carried_failed"] / coding["n_failed"] == pytest.approx(44 / 56, abs=0.1)
    frontier = result.table.filter((pl.col("kind") == "all") & (pl.col("group") == "frontier")).row(0, named=True)
    assert abs(frontier["passed_share_pct"] - 81) < 4 and abs(frontier["own_start_share_pct"] - 97) < 3  # CI028, CI029
    assert frontier["carried_lo_pct"] < frontier["carried_share_pct"] < frontier["carried_hi_pct"]
    kinds = result.table.filter((pl.col("group") == "all") & (pl.col("kind") != "all"))
    whole = result.table.row(0, named=True)
    assert kinds["n_runs"].sum() == whole["n_runs"] and kinds["n_carried"].sum() == whole["n_carried"]
    assert result.n_used + sum(result.n_left_out.values()) == release.runs.collect().height


def test_runs_without_evidence_are_unknown_and_not_runs_that_carried_nothing() -> None:
    """20 of 20 runs with evidence carry it, 40 have none: 100 %, by Clopper and Pearson's 83.2 to 100."""
    rows = [run("a", f"t{i:02d}", "test", 0.0, source_family="family", evidence=["problem_remains"]) for i in range(20)]
    rows += [
        run(m, f"t{i:02d}", "test", 0.0, source_family="family", evidence=None) for m in ("b", "c") for i in range(20)
    ]
    result = takeover(frame(rows), gate="off")
    row = result.table.row(0, named=True)
    assert (row["kind"], row["n_runs"], row["n_unknown"], row["n_carried"]) == ("all", 60, 40, 20)
    ends = stats.binomtest(20, 20).proportion_ci(method="exact")
    assert row["carried_share_pct"] == 100
    assert (row["carried_lo_pct"], row["carried_hi_pct"]) == pytest.approx((100 * ends.low, 100.0))
    assert round(100 * ends.low, 1) == 83.2
    assert (row["carried_least_pct"], row["carried_most_pct"]) == pytest.approx((100 / 3, 100.0))
    assert (row["n_failed"], row["passed_share_pct"]) == (60, 0.0)  # what the score says is known of all
    assert any("40 of 60 takeovers without evidence" in note for note in result.notes())
    shown = result.sheet().cells.row(0, named=True)
    assert (shown["Carried"], shown["Unknown"], shown["If known (%)"]) == ("20/20", "40", "33.3 to 100.0")


def test_arms_are_compared_where_both_are_known_and_few_tasks_have_no_interval() -> None:
    rows = [run("m", f"t{i}", "alone", 1.0) for i in range(4)]
    for i in range(4):
        rows.append(run("m", f"t{i}", "test", 0.0, evidence=["problem_remains"] if i < 3 else None))
        rows.append(run("m", f"t{i}", "test", 1.0, arm="diff", evidence=[] if i < 2 else None))
    result = takeover(frame(rows))
    pair = result.differences.row(0, named=True)
    assert (pair["n_pairs"], pair["diff_points"], pair["n_fewer"]) == (2, -100, 2)
    assert (pair["lo_points"], pair["no_interval"], pair["n_clusters"]) == (None, "too few: 2 tasks", 2)
    table = {r["arm"]: r for r in result.table.filter(kind="all").iter_rows(named=True)}
    assert (table["diff"]["carried_lo_pct"], table["diff"]["carried_no_interval"]) == (None, "too few: 2 tasks")
    assert table["no arm"]["carried_lo_pct"] == pytest.approx(100 * 0.025 ** (1 / 3))
    plain = takeover(frame(rows), interval="percentile", resamples=50).table.filter(kind="all", arm="diff")
    assert plain.select("carried_lo_pct", "carried_hi_pct").row(0) == (0, 0)  # the paper's method, by its name


def test_bad_input_is_named(release) -> None:
    runs, kinds = follow_up()
    with pytest.raises(TableError, match="no takeover task is called 'edite0'"):
        takeover(runs, kinds={"edite0": "x"})
    with pytest.raises(TableError, match="no evidence is called 'remains'"):
        takeover(runs, carried="remains")
    with pytest.raises(TableError, match="no task of taking_over"):
        takeover(runs.with_columns(dimension=pl.lit("keeping_on_track")))
    with pytest.raises(TableError, match="no takeover has evidence"):
        takeover(runs.drop("evidence"), kinds=kinds)
