"""A second scorer, written apart from `cilab.dimensions`, and the estimators of the face held against it.

Two implementations of one number: polars by task here, arrays of rows by tasks there.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

import cilab
from cilab import datasets
from cilab.core import registry

ROW = ["model", "effort", "arm"]
CONFLICT = "handling_conflict"
#: Points only: the fewest resamples that there are.
POINTS = {"resamples": 20}


def lossy_release(share: float = 0.03) -> datasets.Dataset:
    """The simulated release after a share of its scored runs, at random, ended in an error."""
    whole = datasets.simulated_release()
    runs = whole.runs.collect()
    lost = pl.Series(np.random.default_rng(17).random(runs.height) < share) & (runs["status"] == "ok")
    runs = runs.with_columns(
        pl.when(~lost).then(pl.col("score", "passed", "joint_share")),
        status=pl.when(lost).then(pl.lit("error")).otherwise("status"),
    )
    return dataclasses.replace(whole, name="lossy release", tables=dict(whole.tables) | {"runs": runs})


DATA = {
    "published round": lambda: datasets.published_round("2026-10-09"),
    "hand-worked round": datasets.hand_worked_round,
    "simulated release": datasets.simulated_release,
    "release with runs lost": lossy_release,
}


# -- the second scorer ------------------------------------------------------------------------------------


def cells(data: Any) -> pl.DataFrame:
    """Score, baseline and best-deal share per row and dimension, for every row of the data.

    The mean over tasks of the mean over their tests, for tasks that passed every alone run, of which no version was
    refused and no alone or test run ended in an error (collaborative-intelligence paper, section 2.3): `model, effort,
    arm, dimension, test_pct, pass_pct` (share of tests with score 1), `baseline_pct` (where a test is missing too), and
    `drop_points`, baseline minus test over the tasks that have both.
    """
    runs = data.runs.select(*ROW, "task_id", "dimension", "version", "status", "score").collect()
    runs = runs.filter(pl.col("dimension").is_not_null())
    key = [*ROW, "dimension"]
    score, ok = pl.col("score"), pl.col("status") == "ok"

    def mean(version: str, value: pl.Expr) -> pl.Expr:
        here = pl.col("version") == version
        lost = (here & (pl.col("status") == "error")).any()
        return pl.when(~lost).then(value.filter(ok & here).mean())

    tasks = runs.group_by([*key, "task_id"], maintain_order=True).agg(
        gated=(mean("alone", score) == 1) & (pl.col("status") != "refused").all(),
        test=mean("test", score),
        passed=mean("test", (score == 1).cast(pl.Float64)),
        baseline=mean("baseline", score),
    )
    return (
        tasks.filter("gated")
        .group_by(key, maintain_order=True)
        .agg(
            test_pct=100 * pl.col("test").mean(),
            pass_pct=100 * pl.col("passed").mean(),
            baseline_pct=100 * pl.col("baseline").mean(),
            drop_points=100 * (pl.col("baseline") - pl.col("test")).mean(),
        )
    )


def overall(table: pl.DataFrame, column: str = "test_pct") -> pl.DataFrame:
    """Mean over dimensions of `column` per row; rows without it are left out."""
    means = table.group_by(*ROW, maintain_order=True).agg(pl.col(column).mean())
    return means.filter(pl.col(column).is_not_null())


def at_default(table: pl.DataFrame) -> pl.DataFrame:
    """Rows at the setting that nobody asked for, without a treatment."""
    return table.filter(pl.col("effort").replace("default", None).is_null() & pl.col("arm").is_null())


def members(table: pl.DataFrame, group: str) -> pl.DataFrame:
    """The lines of `frontier` (collaborative-intelligence paper, section 3) or `open-weight` models."""
    if group == "frontier":
        frontier = ("Gemini 4 Argon", "GPT-6 Astra", "GPT-6.1 Sol", "Claude Opus 5.5", "Claude Fable 5.1")
        return table.filter(pl.col("model").is_in(frontier) | pl.col("model").str.starts_with("sim:F"))
    known = registry.models().filter("open_weights")["model"].to_list()
    return table.filter(pl.col("model").is_in(known) | pl.col("model").str.starts_with("sim:O"))


def losses(table: pl.DataFrame) -> pl.DataFrame:
    """Points lost in a calm team and to the teammate's problem; taking over is left out (paper, D.1)."""
    kept = table.filter((pl.col("dimension") != "taking_over") & pl.col("baseline_pct").is_not_null())
    return kept.with_columns(calm=100 - pl.col("baseline_pct"), problem=pl.col("drop_points"))


def by_model(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return table.group_by("model", maintain_order=True).agg(pl.col(*columns).mean())


# -- the face held against it -----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=DATA)
def data(request: pytest.FixtureRequest) -> datasets.Dataset:
    return DATA[request.param]()


@pytest.fixture(scope="module")
def second(data: datasets.Dataset) -> pl.DataFrame:
    return cells(data)


def test_dimension_scores_are_those_of_the_second_scorer(data: datasets.Dataset, second: pl.DataFrame) -> None:
    table = cilab.dimensions(data, **POINTS).table
    ours = _keyed(table, "score_pct", "baseline_pct", "drop_pct")
    theirs = _keyed(second, "test_pct", "baseline_pct", "drop_points")
    assert {key for key, values in ours.items() if values != (None, None, None)} == set(theirs)
    for key, values in theirs.items():
        assert ours[key] == pytest.approx(values, abs=1e-9), key


def _keyed(table: pl.DataFrame, *columns: str) -> dict[tuple, tuple]:
    return {row[:4]: row[4:] for row in table.select(*ROW, "dimension", *columns).iter_rows()}


def test_overall_scores_are_those_of_the_second_scorer(data: datasets.Dataset, second: pl.DataFrame) -> None:
    board = cilab.leaderboard(data, skip_undefined=True, **POINTS).table
    for column, ours in (("test_pct", "score_pct"), ("baseline_pct", "baseline_pct")):
        both = overall(second, column).join(board.drop_nulls(ours), on=ROW, nulls_equal=True, how="full", suffix="_")
        assert both["model"].null_count() == both["model_"].null_count() == 0
        assert both[column].to_list() == pytest.approx(both[ours + "_" * (ours == column)].to_list(), abs=1e-9)


def test_shares_of_best_deals_are_those_of_the_second_scorer(data: datasets.Dataset, second: pl.DataFrame) -> None:
    best = dict(cilab.conflict(data, **POINTS).table.select("model", "best_pct").iter_rows())
    share = at_default(second).filter(pl.col("dimension") == CONFLICT).select("model", "pass_pct")
    assert best == pytest.approx(dict(share.iter_rows()), abs=1e-9)


@pytest.mark.parametrize("name", ["published round", "simulated release"])
def test_means_losses_and_correlations_are_those_of_the_second_scorer(name: str) -> None:
    data = DATA[name]()
    table = at_default(cells(data))
    means, lost = cilab.group_means(data, **POINTS).table, cilab.loss(data, **POINTS)
    for group in ("frontier", "open-weight"):
        own = members(table, group)
        scores = {None: overall(own)["test_pct"].mean()}
        scores |= dict(own.group_by("dimension").agg(pl.col("test_pct").mean()).iter_rows())
        found = means.filter(pl.col("group") == group).select("dimension", "score_pct")
        assert dict(found.iter_rows()) == pytest.approx(scores, abs=1e-9)
        line = lost.summary.row(by_predicate=(pl.col("by") == "group") & (pl.col("name") == group), named=True)
        calm, problem = by_model(losses(own), "calm", "problem").select(pl.col("calm", "problem").mean()).row(0)
        assert (line["lost_calm_points"], line["lost_test_points"]) == pytest.approx((calm, problem), abs=1e-9)
    per_model = by_model(losses(table), "calm", "problem")
    share = 100 * (per_model["problem"] / (per_model["calm"] + per_model["problem"])).mean()
    assert lost.summary.row(by_predicate=pl.col("by") == "all", named=True)["test_share_pct"] == pytest.approx(share)
    calm = per_model.join(overall(table), on="model")
    assert lost.correlation["r"][0] == pytest.approx(np.corrcoef(calm["calm"], calm["test_pct"])[0, 1], abs=1e-9)

    wide = table.pivot("dimension", index="model", values="test_pct").drop_nulls().drop("model")
    r = np.corrcoef(wide.to_numpy(), rowvar=False)
    together = cilab.dimension_correlations(data, **POINTS)
    at = {d: i for i, d in enumerate(wide.columns)}
    for one, other, ours in together.table.select("dimension", "other", "r").iter_rows():
        assert ours == pytest.approx(r[at[one], at[other]], abs=1e-9)
    assert together.components["variance_pct"][0] == pytest.approx(100 * np.linalg.eigvalsh(r)[-1] / len(r))


def test_the_second_scorer_gives_the_scores_that_were_worked_out_by_hand() -> None:
    data = datasets.hand_worked_round()
    second = cells(data)
    worked = data.truth["scores"].filter(pl.col("dimension").is_not_null())
    both = second.join(worked, on=["model", "effort", "dimension"], nulls_equal=True)
    assert both.height == 6
    for row in both.iter_rows(named=True):
        assert row["test_pct"] == pytest.approx(100 * row["score"]), row
        assert row["baseline_pct"] == pytest.approx(100 * row["baseline"]), row
    # sim:H1 conflict: best deals 2/3, 0 and 0 of three tasks.
    best = second.filter((pl.col("model") == "sim:H1") & pl.col("effort").is_null())
    share = best.filter(pl.col("dimension") == CONFLICT)["pass_pct"]
    assert share.to_list() == pytest.approx([100 * 2 / 9])
