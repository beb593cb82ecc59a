"""Endings of conflicts and correlations of dimensions: worked by hand, against numpy, and on the simulated release."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.conflict import UNTOLD, conflict, dimension_correlations
from cilab.stats.teamwork.scores import dimensions
from cilab.testing import run
from cilab.testing import runs as frame


def hand_made() -> pl.DataFrame:
    """Two models, two conflict tasks with two seeds, one other task each way."""
    ends = {
        "a": [(1.0, "deal", 1.0), (0.0, "deal", 0.9), (0.5, "no_deal", None), (0.5, "deal", 0.8)],
        "b": [(0.0, "deal", 0.95), (0.0, "deal", 0.85), (0.0, "no_deal", None), (1.0, "deal", 1.0)],
    }
    rows = []
    for model, four in ends.items():
        for i, task in enumerate(("handling_conflict:1", "handling_conflict:2")):
            rows.append(run(model, task, "alone", 1.0))
            for seed in (0, 1):
                score, ended, share = four[2 * i + seed]
                rows.append(run(model, task, "test", score, seed, ended=ended, joint_share=share))
        rows += [run(model, "taking_over:1", "alone", 1.0)]
        rows += [run(model, "taking_over:1", "test", float(model == "a"), s) for s in (0, 1)]
    return frame(rows)


@pytest.fixture(scope="module")
def release():
    return datasets.simulated_release()


@pytest.fixture(scope="module")
def endings(release):
    return conflict(release, resamples=300)


def test_endings_joint_points_and_other_dimensions_by_hand() -> None:
    result = conflict(hand_made(), resamples=50)
    a, b = result.table.sort("model").iter_rows(named=True)
    assert (a["best_pct"], a["held_firm_pct"], a["gave_in_pct"], a["no_deal_pct"]) == (25, 50, 25, 25)
    assert (b["best_pct"], b["held_firm_pct"], b["gave_in_pct"], b["no_deal_pct"]) == (25, 0, 75, 25)
    assert (a["conflict_pct"], b["conflict_pct"]) == (50, 25)
    assert a["joint_pct"] == pytest.approx(90) and b["joint_pct"] == pytest.approx(100 * 2.8 / 3)
    assert a["joint_none_as_0_pct"] == pytest.approx(67.5) and b["joint_none_as_0_pct"] == pytest.approx(70)
    assert a["joint_held_firm_pct"] == pytest.approx(80) and b["joint_held_firm_pct"] is None
    assert (a["others_pct"], b["others_pct"]) == (100, 0)
    assert (a["asks_pct"], a["n_runs"], a["n_deals"]) == (None, 4, 3)
    assert result.table["model"].to_list() == ["a", "b"]  # best overall score first
    pooled = {r["quantity"]: r for r in result.groups.filter(pl.col("group").is_null()).iter_rows(named=True)}
    assert (pooled["gave_in"]["n"], pooled["gave_in"]["n_of"], pooled["gave_in"]["share_pct"]) == (4, 8, 50)
    assert result.n_used == 8 and result.n_used + sum(result.n_left_out.values()) == hand_made().height


def test_asking_is_read_off_the_labels_and_an_unknown_label_is_named() -> None:
    labels = pl.DataFrame(
        {
            "run_id": ["a|handling_conflict:1|test|0", "a|handling_conflict:1|test|0", "b|handling_conflict:2|test|1"],
            "index": [1, 3, 1],
            "rater": "final",
            "label": ["asks_needs", "asks_needs", "other"],
        }
    )
    # Of the other runs, without a label, it is not known.
    some = conflict(hand_made(), labels=labels, resamples=50)
    assert dict(some.table.select("model", "asks_pct").iter_rows()) == {"a": 100, "b": 0}
    assert any("6 of 8 conflict runs have no label" in note for note in some.notes())
    tests = hand_made().filter(pl.col("run_id").str.contains("handling_conflict.*test"))["run_id"]
    others = pl.DataFrame(
        {"run_id": tests, "index": 5, "rater": "final", "label": "other"}, schema_overrides=labels.schema
    )
    every = conflict(hand_made(), labels=pl.concat([labels, others]), resamples=50)
    assert dict(every.table.select("model", "asks_pct").iter_rows()) == {"a": 25, "b": 0}
    assert not any("no label" in note for note in every.notes())
    with pytest.raises(TableError, match=r"has ask_needs\. Did you mean asks_needs"):
        conflict(hand_made(), labels=labels, asks_labels=("ask_needs",))
    with pytest.raises(TableError, match=r"asks_labels is a text; give a list of labels, such as \['asks_needs'\]"):
        conflict(hand_made(), labels=labels, asks_labels="asks_needs")
    with pytest.raises(TableError, match="asks_labels is 3: give a list of labels"):
        conflict(hand_made(), labels=labels, asks_labels=3)


def test_the_three_endings_add_up_and_the_scores_are_those_of_the_leaderboard(release, endings) -> None:
    t = endings.table
    assert np.allclose(t["best_pct"] + t["held_firm_pct"] + t["gave_in_pct"], 100)
    assert np.allclose(t["best_pct"] + t["held_firm_pct"] / 2, t["conflict_pct"])
    board = dimensions(release, resamples=20).table.filter(pl.col("effort") == "default")
    assert (t["conflict_lo_pct"] <= t["conflict_pct"]).all() and (t["conflict_pct"] <= t["conflict_hi_pct"]).all()
    of_conflict = board.filter(pl.col("dimension") == "handling_conflict").select("model", "score_pct")
    joined = t.join(of_conflict, on="model")
    assert joined.height == 18 and np.allclose(joined["conflict_pct"], joined["score_pct"])
    others = board.filter(pl.col("dimension") != "handling_conflict").group_by("model").agg(pl.col("score_pct").mean())
    joined = t.join(others, on="model")
    assert np.allclose(joined["others_pct"], joined["score_pct"])


def test_the_simulated_release_comes_near_the_aggregates_it_is_fitted_to(endings) -> None:
    def share(group, quantity):
        kept = (pl.col("group") == group) if group else pl.col("group").is_null()
        return endings.groups.filter(kept & (pl.col("quantity") == quantity)).row(0, named=True)["share_pct"]

    assert abs(share("frontier", "asks") - 99) < 2  # section 4.2
    assert abs(share("frontier", "gave_in") - 81) < 6  # section 4.2
    assert abs(share("frontier", "best") - 14) < 5  # CI021
    assert abs(share("frontier", "held_firm") - 5) < 4 and abs(share("open-weight", "held_firm") - 28) < 8  # CI188
    assert abs(share(None, "joint") - 94) < 1 and abs(share(None, "joint_gave_in") - 93) < 1  # CI191, CI192
    assert abs(share("frontier", "no_deal") - 1) < 1 and abs(share("open-weight", "no_deal") - 10) < 4  # CI195
    r = {row["quantity"]: row["r"] for row in endings.correlations.iter_rows(named=True)}
    assert r["asks"] > 0.7 and r["gave_in"] > 0.2 and r["held_firm"] < -0.3  # CI183, CI184, CI186
    assert r["joint_none_as_0"] < -0.3  # CI194


def test_with_a_normal_teammate_stronger_models_give_in_less(release) -> None:
    calm = conflict(release, version="baseline", resamples=100)
    r = calm.correlations.filter(pl.col("quantity") == "gave_in").row(0, named=True)
    assert r["r"] < -0.4  # CI187: -0.61
    assert calm.n_used == 455


def test_the_matrix_of_dimensions_is_numpys_and_conflict_is_the_odd_one_out(release) -> None:
    result = dimension_correlations(release, resamples=200)
    board = dimensions(release, resamples=20).table.filter(pl.col("effort") == "default")
    wide = board.pivot(on="dimension", index="model", values="score_pct").sort("model")
    names = result.loadings["dimension"].to_list()
    matrix = np.corrcoef(wide.select(names).to_numpy().T)
    for row in result.table.iter_rows(named=True):
        assert row["r"] == pytest.approx(matrix[names.index(row["dimension"]), names.index(row["other"])], abs=1e-12)
    assert result.table.height == 28 and result.n_used + sum(result.n_left_out.values()) == 26044
    share = np.linalg.eigvalsh(matrix)[::-1] / 8
    assert np.allclose(result.components["variance_pct"], 100 * share)
    assert abs(result.components["variance_pct"][0] - 71) < 8  # CI182
    loading = dict(result.loadings.iter_rows())
    assert [d for d, v in loading.items() if v < 0] == ["handling_conflict"]
    assert sum(v**2 for v in loading.values()) == pytest.approx(8 * share[0])
    rest = {r["dimension"]: r["r"] for r in result.against_rest.iter_rows(named=True)}
    others = wide.select([d for d in names if d != "taking_over"]).to_numpy().mean(axis=1)
    assert rest["taking_over"] == pytest.approx(np.corrcoef(wide["taking_over"], others)[0, 1], abs=1e-12)
    assert rest["handling_conflict"] < 0 < min(v for d, v in rest.items() if d != "handling_conflict")


def test_renaming_models_and_tasks_leaves_the_points_exactly(release, endings) -> None:
    runs = release.runs.collect().filter(pl.col("effort") == "default")
    renamed = runs.with_columns(
        model=pl.col("model").str.replace("sim:", "sim:X", literal=True),
        task_id=pl.format("z{}", pl.col("task_id").hash(seed=3)),
    ).sample(fraction=1, shuffle=True, seed=2)
    again = conflict(renamed, resamples=50).table
    columns = ["conflict_pct", "gave_in_pct", "joint_pct", "others_pct"]
    assert_frame_equal(again.select(columns), endings.table.select(columns))


def test_the_published_round_has_points_but_no_interval_that_pairs_rows_by_task() -> None:
    data = datasets.published_round("2026-10-09")
    board = datasets.published_table("leaderboard").pivot(on="dimension", index="model", values="test_pct")
    result = dimension_correlations(data, resamples=50)
    for row in result.table.iter_rows(named=True):
        r = np.corrcoef(board[row["dimension"]], board[row["other"]])[0, 1]
        assert row["r"] == pytest.approx(r, abs=2e-4)  # the board is printed to two decimals
        assert row["lo"] is None and row["lo_models"] is not None
    assert result.components["lo_pct"].null_count() == 7
    endings = conflict(data, resamples=50)
    printed = dict(board.select("model", "handling_conflict").iter_rows())
    for row in endings.table.iter_rows(named=True):
        assert row["conflict_pct"] == pytest.approx(printed[row["model"]], abs=0.00501)
    assert endings.groups.filter(pl.col("group").is_null())["lo_pct"].null_count() == 10
    assert endings.correlations["lo"].null_count() == endings.correlations.height


def test_what_cannot_be_computed_is_named() -> None:
    runs = hand_made()
    with pytest.raises(TableError, match="no task of handling_conflict"):
        conflict(runs.filter(pl.col("dimension") != "handling_conflict"))
    with pytest.raises(TableError, match=r"a conflict run scores 0.25"):
        conflict(runs.with_columns(score=pl.when(pl.col("score") == 0.5).then(0.25).otherwise("score")))
    with pytest.raises(TableError, match="version is 'tst'"):
        conflict(runs, version="tst")
    with pytest.raises(TableError, match="no scored baseline run"):
        conflict(runs, version="baseline")
    with pytest.raises(TableError, match="need two dimensions and three rows"):
        dimension_correlations(runs)
    third = runs.filter(pl.col("model") == "a").with_columns(model=pl.lit("c"), run_id=pl.lit("c") + pl.col("run_id"))
    same = pl.concat([runs, third]).with_columns(
        score=pl.when(pl.col("dimension") == "taking_over").then(1.0).otherwise("score")
    )
    with pytest.raises(TableError, match="taking_over: every row has the same score"):
        dimension_correlations(same)


def test_scores_that_are_only_passes_do_not_say_who_gave_in() -> None:
    result = conflict(datasets.published_round("2026-10-09"), resamples=20)
    unknown = ["held_firm_pct", "gave_in_pct", "gave_in_lo_pct", "no_deal_pct", "joint_pct"]
    assert result.table.select(unknown).null_count().row(0) == (result.table.height,) * len(unknown)
    assert result.table["best_pct"].null_count() == 0
    assert UNTOLD in result.remarks
    assert "Gave in" not in result.sheet().cells.columns
    pooled = result.groups.filter(pl.col("quantity") == "gave_in")
    assert set(pooled["n_of"]) == {0} and pooled["share_pct"].null_count() == pooled.height
    assert result.correlations.filter(pl.col("quantity") == "gave_in")["undefined"].to_list() == ["fewer than 3 rows"]
