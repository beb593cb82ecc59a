"""Rounds on one scale: a round with itself, the other way round, known truths, drifting anchors, and bad input."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import expit

import cilab
from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.equate import Equated, equate
from cilab.testing import grid as played
from cilab.testing import study
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "rounds_coverage.json"


def round_(
    ability: np.ndarray, difficulty: np.ndarray, tasks: list[str], seed: int, models: list[str], dimensions: int = 2
) -> pl.DataFrame:
    """Three runs of each task by rows of known ability; simulated."""
    rng = np.random.default_rng(seed)
    chance = expit(ability[:, None] - difficulty)
    scores = (rng.random((*chance.shape, 3)) < chance[:, :, None]).astype(float)
    names = np.repeat([f"d{d}" for d in range(dimensions)], len(tasks) // dimensions).tolist()
    return played(scores.tolist(), models=models, tasks=tasks, dimensions=names)


@cache
def pair(anchors: int = 12, n: int = 24, harder: float = 1.0) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, Any]]:
    """An old and a new round of two dimensions whose other new tasks are harder; what is true of them."""
    rng = np.random.default_rng(5)
    old = rng.normal(0, 1, 2 * n)
    new = old.copy().reshape(2, n)
    new[:, anchors:] = rng.normal(harder, 1, (2, n - anchors))
    new = new.ravel()
    shared = np.tile(np.arange(n) < anchors, 2)
    names = [f"d{d}:old{t:02d}" for d in (0, 1) for t in range(n)]
    fresh = [name if s else name.replace("old", "new") for name, s in zip(names, shared, strict=True)]
    ability = rng.normal(0.3, 1, 16)
    later = rng.normal(0.6, 1, 16)
    later[:4] = ability[:4]
    one = round_(ability, old, names, 1, [f"a{r}" for r in range(16)])
    two = round_(later, new, fresh, 2, [f"{'a' if r < 4 else 'b'}{r}" for r in range(16)])
    truth = {
        "old": 100 * expit(later[:, None] - old).mean(axis=1),
        "new": 100 * expit(later[:, None] - new).mean(axis=1),
    }
    return one, two, truth | {"models": [f"{'a' if r < 4 else 'b'}{r}" for r in range(16)]}


@pytest.mark.parametrize("through", ["tasks", "rows"])
@pytest.mark.parametrize("method", ["stocking_lord", "haebara", "mean_mean", "mean_sigma"])
def test_a_round_equated_with_itself_changes_nothing(method, through) -> None:
    one, _, _ = pair()
    found = equate(one, one, method=method, through=through)
    assert found.table["adjustment_points"].abs().max() < 1e-6
    assert found.table["equated_pct"].to_list() == pytest.approx(found.table["old_pct"].to_list())
    board = {r["model"]: r for r in cilab.leaderboard(one).table.iter_rows(named=True)}
    for r in found.table.iter_rows(named=True):
        assert (r["new_pct"], r["lo_pct"], r["hi_pct"]) == pytest.approx(
            (board[r["model"]]["score_pct"], board[r["model"]]["lo_pct"], board[r["model"]]["hi_pct"])
        )
    assert found.linking["no_interval"].to_list() == ["no spread between the units"] * 2
    assert not found.anchors["drifting"].fill_null(False).any()


@pytest.mark.parametrize("method", ["stocking_lord", "haebara", "mean_mean", "mean_sigma"])
def test_the_other_way_round_is_the_inverse(method) -> None:
    one, two, _ = pair()
    there, back = equate(one, two, method=method).linking, equate(two, one, method=method).linking
    for a, b in zip(there.iter_rows(named=True), back.iter_rows(named=True), strict=True):
        assert b["slope"] == pytest.approx(1 / a["slope"], abs=1e-6)
        assert b["shift_logits"] == pytest.approx(-a["shift_logits"] / a["slope"], abs=1e-6)
        if method != "mean_sigma":
            assert b["se_logits"] == pytest.approx(a["se_logits"], abs=1e-6)


@pytest.mark.parametrize("method", ["stocking_lord", "haebara", "mean_mean", "mean_sigma"])
def test_a_harder_round_is_made_up_for(method) -> None:
    one, two, truth = pair()
    found = equate(one, two, method=method)
    of = dict(zip(truth["models"], truth["old"] - truth["new"], strict=True))
    true = np.array([of[m] for m in found.table["model"]])
    assert true.mean() > 6  # the rounds differ by that much
    assert found.table["adjustment_points"].mean() == pytest.approx(true.mean(), abs=2.0)
    level = dict(zip(truth["models"], truth["old"], strict=True))
    within = [r["lo_pct"] <= level[r["model"]] <= r["hi_pct"] for r in found.table.iter_rows(named=True)]
    assert sum(within) >= 14  # of 16
    assert found.table["link_error_points"].is_between(0.3, 4).all()


def test_rows_of_both_rounds_link_them_where_no_task_does() -> None:
    one, two, truth = pair(anchors=0)
    with pytest.raises(TableError, match=r"no dimension has 3 anchor tasks; the rounds have 0 in all, and 4 models of"):
        equate(one, two)
    found = equate(one, two, through="rows")
    assert found.linking["n_anchors"].to_list() == [4, 4] and found.linking["n_clusters"].to_list() == [4, 4]
    true = (truth["old"] - truth["new"]).mean()
    assert true > 12 and found.table["adjustment_points"].mean() == pytest.approx(true, abs=4.0)
    assert "what such a row has gained or lost" in str(found)
    assert found.table.filter(pl.col("model").str.starts_with("a"))["old_pct"].null_count() == 0
    assert found.table.filter(pl.col("model").str.starts_with("b"))["old_pct"].count() == 0


def test_an_anchor_that_became_easy_is_flagged_and_leaving_it_out_is_shown() -> None:
    rng = np.random.default_rng(9)
    old = rng.normal(0, 1, 40)
    new = old.copy()
    new[7] -= 3.0
    names = [f"t{i:02d}" for i in range(40)]
    one, two = (
        round_(rng.normal(0, 1, 60), b, names, s, [f"{m}{r}" for r in range(60)], dimensions=1)
        for b, s, m in ((old, 1, "a"), (new, 2, "b"))
    )
    found = equate(one, two)
    worst = found.anchors.sort("robust_z").row(0, named=True)
    assert worst["task_id"] == "t07" and worst["drifting"] and worst["residual"] < -2
    assert found.anchors["drifting"].sum() <= 3
    line = found.linking.row(0, named=True)
    kept = [t for t, d in found.anchors.select("task_id", "drifting").rows() if not d]
    again = equate(one, two, anchors=kept)
    assert line["shift_without_drifting_logits"] == pytest.approx(again.linking["shift_logits"][0])
    assert again.anchors.filter(task_id="t07")["what"].to_list() == ["not asked for"]
    assert "Anchors that have drifted" in str(found)
    strict = equate(one, two, drifting_z=50.0)
    assert not strict.anchors["drifting"].any() and strict.linking["shift_without_drifting_logits"].null_count() == 1


def _tasks(frame: pl.DataFrame, hashes: dict[str, str]) -> list[dict[str, Any]]:
    rows = frame.select("task_id", "dimension").unique("task_id").sort("task_id").iter_rows(named=True)
    return [r | {"benchmark": "teamwork", "version_hash": hashes.get(r["task_id"], r["task_id"])} for r in rows]


def test_a_task_whose_content_changed_is_no_anchor_and_one_that_was_renamed_is() -> None:
    one, two, _ = pair(anchors=12)
    changed, renamed = "d0:old00", "d0:old01"
    two = two.with_columns(pl.col("task_id").replace(renamed, "d0:other"))
    old = study(one.to_dicts(), tasks=_tasks(one, {}))
    new = study(two.to_dicts(), tasks=_tasks(two, {changed: "edited", "d0:other": renamed}))
    told = {r["task_id"]: r for r in equate(old, new).anchors.iter_rows(named=True)}
    assert told[changed]["what"] == "content changed" and told[changed]["residual"] is None
    assert told[renamed]["what"] == "anchor" and told[renamed]["new_task_id"] == "d0:other"
    assert equate(old, new).linking["n_anchors"].to_list() == [11, 12]
    plain = equate(one, two)  # without tasks tables only ids are known
    assert plain.linking["n_anchors"].to_list() == [11, 12] and renamed not in plain.anchors["task_id"].to_list()


def test_hashes_that_many_tasks_share_say_nothing() -> None:
    one, two, _ = pair()
    same = dict.fromkeys([*one["task_id"], *two["task_id"]], "simulated")
    old, new = (study(f.to_dicts(), tasks=_tasks(f, same)) for f in (one, two))
    assert_frame_equal(equate(old, new).linking, equate(one, two).linking)


def test_a_dimension_with_two_anchors_is_not_linked_and_then_there_is_no_overall_score() -> None:
    one, two, _ = pair()
    few = two.with_columns(
        pl.when((pl.col("dimension") == "d1") & (pl.col("task_id") > "d1:old01"))
        .then(pl.lit("x") + pl.col("task_id"))
        .otherwise("task_id")
        .alias("task_id")
    )
    found = equate(one, few)
    assert found.linking["reason"].to_list() == [None, "too few: 2 anchor tasks"]
    assert found.table["reason"].unique().to_list() == ["too few: 2 anchor tasks in d1"]
    assert found.table["equated_pct"].null_count() == 16 and found.table["new_pct"].null_count() == 0
    assert found.dimensions.filter(dimension="d0")["equated_pct"].null_count() == 0
    assert "Not linked: d1: too few: 2 anchor tasks." in str(found)
    other = equate(one, two.with_columns(dimension=pl.col("dimension").replace("d1", "d9")))
    assert other.linking["reason"].to_list() == [None, "not in the new round"]
    assert "Not in the old round, so not equated: d9." in str(other)


def test_what_cannot_be_linked_says_why_in_one_line() -> None:
    one, two, _ = pair(anchors=0)
    strange = two.with_columns(model=pl.lit("z") + pl.col("model"))
    with pytest.raises(TableError, match="the rounds have 0 in all, and no row in common: so rows cannot link them"):
        equate(one, strange)
    with pytest.raises(TableError, match="the rounds have no row in common, and a dimension takes 3"):
        equate(one, strange, through="rows")
    with pytest.raises(TableError, match="anchors: no task 'd0:old99' in the old round"):
        equate(one, two, anchors=["d0:old99"])
    with pytest.raises(TableError, match="new round: runs: missing column"):
        equate(one, two.drop("score"))
    with pytest.raises(TableError, match="old round: equate pairs rows by task"):
        equate(datasets.published_round(), two)
    for wrong in ({"method": "median"}, {"through": "people"}, {"anchors": "d0:old01"}, {"drifting_z": 0}):
        with pytest.raises(TableError, match=next(iter(wrong))):
            equate(one, two, **wrong)


def test_families_of_anchors_are_left_out_together() -> None:
    one, two, _ = pair(anchors=12)
    family = (
        pl.col("dimension") + pl.lit("-") + (pl.col("task_id").str.slice(-2).cast(pl.Int64) // 3).cast(pl.String)
    ).alias("family")
    single, several = equate(one, two), equate(one.with_columns(family), two.with_columns(family))
    assert single.linking["n_clusters"].to_list() == [12, 12] and several.linking["n_clusters"].to_list() == [4, 4]
    assert single.linking["shift_logits"].to_list() == pytest.approx(several.linking["shift_logits"].to_list())


def test_the_order_of_runs_changes_nothing_and_a_record_can_be_repeated() -> None:
    one, two, _ = pair()
    found = equate(one, two)
    assert_frame_equal(equate(one.reverse(), two.reverse()).table, found.table)
    assert cilab.rerun(found, one, new=two).table.equals(found.table)
    assert found.n_used + sum(found.n_left_out.values()) == one.height + two.height
    assert isinstance(found, Equated) and found.methods.height == 8


# -- the study --------------------------------------------------------------------------------------------


def test_stored_coverage_meets_the_bounds() -> None:
    stored = json.loads(GOLDEN.read_text())
    for cell in stored["contamination"]:
        # Families that do the same on both sides have no spread; else every cell has an interval.
        assert cell["without_pct"] <= (0.5 if cell["families"] else 0) and cell["coverage_pct"] >= 93, cell
        if cell["per_side"] * cell["dimensions"] >= 240:  # fewer tasks: conservative, as scores are discrete
            assert cell["coverage_pct"] <= 97, cell
    for cell in stored["equate"]:
        assert cell["without_pct"] == 0 and cell["coverage_pct"] >= 93, cell
        assert abs(cell["bias_points"]) < abs(cell["unadjusted_bias_points"]) / 4 or cell["harder"] == 0, cell


def test_the_first_data_sets_of_the_study_come_out_as_stored() -> None:
    stored, module = json.loads(GOLDEN.read_text()), script("rounds_coverage")
    for cell in stored["contamination"]:
        key = (cell["per_side"], cell["dimensions"], cell["chance"], cell["families"])
        assert [module.covered(*key, i) for i in range(len(cell["first"]))] == cell["first"]
    for cell in stored["equate"][:1]:
        assert module.equated(cell["anchors"], cell["harder"], 0)[0] == cell["first"][0]


@pytest.mark.study
def test_the_whole_study_comes_out_as_stored() -> None:
    stored = json.loads(GOLDEN.read_text())
    assert json.loads(json.dumps(script("rounds_coverage").study(stored["data_sets"], stored["rounds"]))) == stored
