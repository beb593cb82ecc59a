"""Public against held-out tasks: the leaderboard's numbers, statsmodels' interval, a known gap, and bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import cilab
from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods.hypothesis_tests import adjust
from cilab.stats.methods.two_means import difference
from cilab.stats.teamwork.contamination import contamination
from cilab.testing import grid as played


def halves(values: np.ndarray, dimensions: int = 1, **more) -> pl.DataFrame:
    """Values (rows, tasks), of which the first half of each dimension's tasks is public."""
    n = values.shape[1] // dimensions
    split = (["public"] * (n // 2) + ["held_out"] * (n - n // 2)) * dimensions
    names = [f"d{d}" for d in range(dimensions) for _ in range(n)]
    return played(values.tolist(), dimensions=names, split=split, **more)


def test_scores_on_either_set_are_those_of_the_leaderboard() -> None:
    study = datasets.simulated_release(scale=0.2)
    found, board = contamination(study).table, cilab.leaderboard(study).table
    both = found.join(board, on=["model", "effort", "arm"], nulls_equal=True)
    assert both.height == 24
    for name in ("public_pct", "held_out_pct"):
        assert both[name].is_null().to_list() == both[f"{name}_right"].is_null().to_list()
        assert (both[name] - both[f"{name}_right"]).abs().max() == pytest.approx(0, abs=1e-9)
    there = found.drop_nulls("diff_points")
    assert (there["diff_points"] - there["public_pct"] + there["held_out_pct"]).abs().max() < 1e-9


def test_one_dimension_of_passes_and_fails_is_near_statsmodels_newcombe_interval() -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep

    values = np.concatenate([np.arange(100) < 80, np.arange(100) < 60]).astype(float)[None]
    line = contamination(halves(values)).table.row(0, named=True)
    lo, hi = confint_proportions_2indep(80, 100, 60, 100, method="newcomb")
    # Ours has Student's t over 99 for the normal, and is a little wider.
    assert line["diff_points"] == pytest.approx(20.0)
    assert (line["lo_points"], line["hi_points"]) == pytest.approx((100 * lo, 100 * hi), abs=0.4)
    assert line["lo_points"] < 100 * lo and line["hi_points"] > 100 * hi
    assert 0.001 < line["p"] < 0.004  # score test: z = 3.09, p = .0020


def test_a_row_that_knows_the_public_tasks_stands_out_and_harder_held_out_tasks_do_not() -> None:
    rng = np.random.default_rng(8)
    chance = np.full((8, 160), 0.75)
    harder = np.tile(np.repeat([False, True], 20), 4)
    chance[:, harder] = 0.45  # for everybody
    chance[3, ~harder] = 1.0
    chance[3, harder] = 0.35
    found = contamination(halves((rng.random(chance.shape) < chance).astype(float), dimensions=4))
    table = found.table
    significant = table.filter(pl.col("p_holm") < 0.05)["model"].to_list()
    assert "m3" in significant and len(significant) >= 5  # the sets differ for all
    beyond = table.filter(pl.col("beyond_p_holm") < 0.05)
    assert beyond["model"].to_list() == ["m3"] and beyond["beyond_points"][0] > 25
    assert "Better on public tasks, beyond other rows' difference (p < 0.05, Holm): m3." in str(found)
    assert table["p_holm"].to_list() == pytest.approx(adjust(table["p"].to_list(), method="holm").adjusted)


def test_beyond_other_rows_is_the_difference_less_their_mean() -> None:
    table = contamination(halves(np.random.default_rng(2).integers(0, 2, (4, 40)).astype(float), 2)).table
    for line in table.iter_rows(named=True):
        others = table.filter(pl.col("model") != line["model"])["diff_points"].mean()
        assert line["beyond_points"] == pytest.approx(line["diff_points"] - others)
        assert line["beyond_lo_points"] < line["beyond_points"] < line["beyond_hi_points"]
    assert table["beyond_points"].sum() == pytest.approx(0, abs=1e-9)


@given(seed=st.integers(0, 200))
@settings(max_examples=4, deadline=None)
def test_sets_exchanged_change_the_sign_and_the_order_of_runs_nothing(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 3, (3, 16)) / 2
    frame = halves(values, 2)
    other = pl.when(pl.col("split") == "public").then(pl.lit("held_out")).otherwise(pl.lit("public"))
    one, two = (
        contamination(frame).table.sort("model"),
        contamination(frame.with_columns(split=other)).table.sort("model"),
    )
    assert one["diff_points"].to_list() == pytest.approx((-two["diff_points"]).to_list())
    assert one["lo_points"].to_list() == pytest.approx((-two["hi_points"]).to_list())
    assert one["beyond_p"].to_list() == pytest.approx(two["beyond_p"].to_list())
    assert_frame_equal(contamination(frame.reverse()).table.sort("model"), one)


def test_the_detectable_difference_is_found_in_four_studies_of_five() -> None:
    # 30 tasks a side at 50 %: detectable is about 2.8 standard errors of 13 points; the power of that is 80 %.
    rng = np.random.default_rng(0)
    told = contamination(halves((rng.random((1, 60)) < 0.5).astype(float))).table["detectable_points"][0]
    assert 30 < told < 42
    chance = np.repeat([0.5 + told / 200, 0.5 - told / 200], 30)
    drawn = (rng.random((300, 60)) < chance).astype(float)
    found = [difference(values, np.arange(60) < 30, test=False).bounds for values in drawn]
    assert 0.73 < np.mean([b.lo > 0 for b in found]) < 0.87


def test_saturated_rows_have_a_width_and_families_of_both_sets_are_clusters() -> None:
    found = contamination(halves(np.ones((2, 24)))).table
    assert found["diff_points"].to_list() == [0.0, 0.0] and found["p"].to_list() == [1.0, 1.0]
    assert (found["hi_points"] > 20).all() and (found["lo_points"] < -20).all()
    assert found["beyond_no_interval"].to_list() == ["no spread between the units"] * 2
    assert found["beyond_p"].null_count() == 2
    families = [f"f{t % 6}" for t in range(24)]
    values = np.random.default_rng(0).integers(0, 2, (2, 24)).astype(float)
    clustered = contamination(
        halves(values).join(
            pl.DataFrame({"task_id": [f"t{t:03d}" for t in range(24)], "family": families}), on="task_id"
        )
    )
    assert clustered.table["n_clusters"].to_list() == [6, 6]
    assert "families" in clustered.caption


def test_too_few_tasks_and_one_row_have_reasons() -> None:
    few = contamination(halves(np.array([[1.0, 0.0, 1.0, 0.0]]))).table.row(0, named=True)
    assert few["diff_points"] == 0.0 and few["lo_points"] is None
    assert few["no_interval"] == "too few: 2 tasks public" and few["p"] is None
    assert (few["beyond_points"], few["beyond_no_interval"]) == (None, "no other row to compare with")


def test_a_row_without_a_task_of_one_set_has_a_reason_and_a_dimension_without_it_goes() -> None:
    values = np.random.default_rng(1).integers(0, 2, (2, 16)).astype(float)
    frame = halves(values, 2)
    gone = (pl.col("model") == "m1") & (pl.col("split") == "public") & (pl.col("dimension") == "d1")
    found = contamination(frame.filter(~gone)).table.filter(model="m1").row(0, named=True)
    assert found["diff_points"] is None and found["reason"] == "no scored public task in d1"
    assert found["held_out_pct"] is not None
    one = contamination(frame.filter(~((pl.col("split") == "public") & (pl.col("dimension") == "d1"))))
    assert one.parameters["dimensions"] == ["d0"]
    assert "Without tasks of both sets, so left out: d1" in str(one)
    assert one.n_used + sum(one.n_left_out.values()) == frame.height - 16
    retired = frame.with_columns(split=pl.when(pl.col("task_id") == "t000").then(pl.lit("retired")).otherwise("split"))
    assert "Tasks neither public nor held out, so left out: 1." in str(contamination(retired))


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("public", "no scored task is held out .there is: public."),
        ("held_out", "no scored task is public"),
        (None, "no scored task is public .there is: no split."),
    ],
)
def test_one_split_is_refused_in_one_line(split, words) -> None:
    frame = halves(np.ones((2, 8))).with_columns(split=pl.lit(split, dtype=pl.String))
    with pytest.raises(TableError, match=words):
        contamination(frame)


def test_splits_that_share_no_dimension_are_refused() -> None:
    frame = played([[1, 0, 1, 0]], dimensions=["d", "d", "e", "e"], split=["public", "public", "held_out", "held_out"])
    with pytest.raises(TableError, match="no dimension has scored tasks of both sets"):
        contamination(frame)
