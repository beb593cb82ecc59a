"""Scores against the published round, a round worked out by hand, METR and SWE-bench, and their invariances."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.core.errors import TableError
from cilab.datasets.dataset import Dataset
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.scores import dimensions, group_means, leaderboard, shared_ranks

SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared"))
COLUMNS = [
    "model",
    "effort",
    "arm",
    "rank",
    "score_pct",
    "lo_pct",
    "hi_pct",
    "no_interval",
    "n_clusters",
    "baseline_pct",
    "drop_pct",
    "public_pct",
    "held_out_pct",
    "n_gated",
    "n_scored",
    "n_complete",
    "n_refused",
    "n_tasks",
]
KEY = ["model", "effort", "arm"]


def run(model: str, task: str, version: str, score: float | None, seed: int = 0, **more: object) -> dict[str, object]:
    """One rollout; the dimension is what stands before the task's colon."""
    row = {
        "study": "s",
        "benchmark": "teamwork",
        "task_id": task,
        "dimension": task.partition(":")[0],
        "version": version,
        "model": model,
        "effort": None,
        "arm": None,
        "seed": seed,
        "status": "ok" if score is not None else "error",
        "score": score,
    } | more
    parts = [row[c] for c in ("model", "effort", "arm", "task_id", "version", "seed")]
    return {"run_id": "|".join(map(str, parts))} | row


def played(model: str, values: dict[str, list[float]], alone: float = 1.0, **more: object) -> list[dict[str, object]]:
    """A row that solved every task alone and has these tests, by task."""
    rows = [run(model, task, "alone", alone, **more) for task in values]
    return rows + [run(model, t, "test", v, s, **more) for t, scores in values.items() for s, v in enumerate(scores)]


def table(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Rollouts as a frame."""
    return pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"score": pl.Float64, "effort": pl.String})


def random_runs(seed: int, n_rows: int = 3, n_tasks: int = 5, n_dimensions: int = 2, n_seeds: int = 2) -> pl.DataFrame:
    """Runs of some rows in which nearly every task is solved alone, so that every dimension has a score."""
    rng = np.random.default_rng(seed)
    tasks = [f"d{d}:{t}" for d, t in product(range(n_dimensions), range(n_tasks))]
    rows = []
    for r in range(n_rows):
        for i, task in enumerate(tasks):
            solved = i % n_tasks == 0 or rng.random() < 0.8
            rows.append(run(f"m{r}", task, "alone", float(solved)))
            rows += [run(f"m{r}", task, "test", float(rng.choice([0, 0.5, 1])), s) for s in range(n_seeds)]
    return table(rows)


@pytest.fixture(scope="module")
def published() -> datasets.dataset.Dataset:
    return datasets.published_round("2026-10-09")


# -- the published round ----------------------------------------------------------------------------------


@pytest.mark.parametrize("resample", ["tasks", "gated"])
def test_all_84_published_dimension_scores_and_intervals_come_out(published, resample) -> None:
    board = datasets.published_table("leaderboard")
    ours = dimensions(published, interval="percentile", resample=resample).table
    joined = board.join(ours, on=["model", "dimension"], how="inner", suffix="_ours")
    assert joined.height == 84
    for row in joined.iter_rows(named=True):
        where = f"{row['model']}, {row['dimension']}"
        assert row["score_pct"] == pytest.approx(row["test_pct"], abs=0.00501), where
        assert row["alone_pct_ours"] == pytest.approx(row["alone_pct"], abs=0.00501), where
        counts = [row[f"{c}_ours"] for c in ("n_gated", "n_complete", "n_tasks", "n_refused", "n_baseline")]
        assert counts == [row[c] for c in ("n_gated", "n_complete", "n_tasks", "n_refused", "n_baseline")], where
        step = 100 / row["n_gated"] + 0.01  # printed to 0.01
        assert abs(row["lo_pct"] - row["test_lo_pct"]) <= step, where
        assert abs(row["hi_pct"] - row["test_hi_pct"]) <= step, where


@pytest.mark.parametrize("resample", ["tasks", "gated"])
def test_all_12_published_overall_scores_and_intervals_come_out(published, resample) -> None:
    overall = datasets.published_table("overall")
    ours = leaderboard(published, interval="percentile", resample=resample).table
    assert ours["model"].to_list() == overall["model"].to_list()
    assert ours["rank"].to_list() == list(range(1, 13))
    for a, b in zip(ours.iter_rows(named=True), overall.iter_rows(named=True), strict=True):
        assert a["score_pct"] == pytest.approx(b["score_pct"], abs=0.00501)
        assert abs(a["lo_pct"] - b["lo_pct"]) <= 0.6, a["model"]
        assert abs(a["hi_pct"] - b["hi_pct"]) <= 0.6, a["model"]
        assert [a[c] for c in ("n_gated", "n_complete", "n_refused")] == [
            b[c] for c in ("n_gated", "n_complete", "n_refused")
        ]


def test_baselines_and_the_published_teamwork_loss_come_out_and_a_missing_baseline_is_null(published) -> None:
    ours = leaderboard(published).table
    for a, b in zip(ours.iter_rows(named=True), datasets.published_table("overall").iter_rows(named=True), strict=True):
        if a["model"] == "GLM-5.3":
            assert a["baseline_pct"] is None and a["drop_pct"] is None and b["baseline_pct"] is None
        else:
            assert a["baseline_pct"] == pytest.approx(b["baseline_pct"], abs=0.00501)
            assert a["drop_pct"] == pytest.approx(b["teamwork_loss_points"], abs=0.0051)


def test_the_leaderboard_has_the_promised_columns_and_counts_every_run(published) -> None:
    result = leaderboard(published)
    assert result.table.columns == COLUMNS
    assert result.n_used + sum(result.n_left_out.values()) == published.runs.collect().height
    assert (result.resamples, result.seed) == (4000, 0)
    assert result.table["public_pct"].null_count() == 12  # the round has no split
    assert "not paired by task" in " ".join(result.notes())


def test_the_same_seed_gives_the_same_intervals_and_another_seed_does_not(published) -> None:
    one, two, other = (leaderboard(published, interval="percentile", resamples=200, seed=s).table for s in (3, 3, 4))
    assert_frame_equal(one, two)
    assert (one["lo_pct"] != other["lo_pct"]).any()
    assert_frame_equal(one.drop("lo_pct", "hi_pct"), other.drop("lo_pct", "hi_pct"))


# -- the round worked by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize("partial", [False, True])
def test_the_hand_worked_round_comes_out_exactly(partial: bool) -> None:
    data = datasets.hand_worked_round()
    truth = data.truth["scores"]
    by_dimension = dimensions(data, allow_partial=partial, resamples=100).table
    overall = leaderboard(data, allow_partial=partial, resamples=100).table
    for want in truth.iter_rows(named=True):
        of_row = (pl.col("model") == want["model"]) & pl.col("effort").eq_missing(pl.lit(want["effort"]))
        if want["dimension"] is None:
            got = overall.filter(of_row).row(0, named=True)
        else:
            got = by_dimension.filter(of_row & (pl.col("dimension") == want["dimension"])).row(0, named=True)
            assert got["n_incomplete"] == (0 if partial else want["n_incomplete"])
        assert got["score_pct"] == pytest.approx(100 * want["score_partial" if partial else "score"], abs=1e-12)
        assert got["baseline_pct"] == pytest.approx(100 * want["baseline"], abs=1e-12)
        assert [got[c] for c in ("n_tasks", "n_refused", "n_gated")] == [
            want[c] for c in ("n_tasks", "n_refused", "n_gated")
        ]


def test_an_incomplete_task_is_listed_with_what_it_has() -> None:
    result = leaderboard(datasets.hand_worked_round(), resamples=100)
    assert result.incomplete.rows() == [
        ("sim:H2", None, None, "hand:initiative:2", "taking_initiative", "1 of 3 test runs ended in an error")
    ]
    assert "Incomplete tasks: 1, in 1 of the rows" in " ".join(result.notes())
    assert leaderboard(datasets.hand_worked_round(), resamples=100, allow_partial=True).incomplete.height == 0


# -- other people's data ----------------------------------------------------------------------------------


def reference() -> dict:
    import json

    path = SHARED / "data" / "reference_numbers.json"
    if not path.is_file():
        pytest.skip(f"no {path}")
    return json.loads(path.read_text())


def imported(name: str) -> pl.DataFrame:
    folder = SHARED / "data" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    return datasets.import_table(folder, mapping=name).dataset.runs.collect()


def test_metr_means_of_task_means_and_their_intervals_come_out() -> None:
    want = reference()["metr_score_binarized"]["models"]
    result = leaderboard(imported("metr_runs"), version="alone", allow_partial=True, interval="percentile")
    ours = {r["model"]: r for r in result.table.iter_rows(named=True)}
    assert set(ours) == set(want)
    for model, numbers in want.items():
        assert ours[model]["score_pct"] == pytest.approx(100 * numbers["mean_of_task_means"], abs=1e-9), model
        for end, theirs in zip(("lo_pct", "hi_pct"), numbers["ci95"], strict=True):
            # Two runs of 4,000 resamples: their 2.5 % ends differ by about 0.06 standard errors.
            assert abs(ours[model][end] / 100 - theirs) <= 0.3 * numbers["se_boot"] + 1e-12, (model, end)
    assert "Unequal numbers of seeds" in " ".join(result.notes())


def test_swebench_means_and_intervals_come_out_and_equal_scores_share_a_rank() -> None:
    want = reference()["swebench_bash_only"]["models"]
    ours = leaderboard(imported("swebench_bash_only"), version="alone", gate="off").table
    assert ours.height == 25 and ours["n_tasks"].unique().to_list() == [500]
    for row in ours.iter_rows(named=True):
        numbers = want[row["model"]]
        assert row["score_pct"] == pytest.approx(100 * numbers["mean"], abs=1e-9)
        for end, theirs in zip(("lo_pct", "hi_pct"), numbers["ci95"], strict=True):
            assert abs(row[end] / 100 - theirs) <= 0.3 * numbers["se_boot"], (row["model"], end)
    # Its README: gpt-5.1 and gpt-5.1-codex both .660, glm-4.6 and qwen3-coder both .554.
    for score in (66.0, 55.4):
        tied = ours.filter((pl.col("score_pct") - score).abs() < 1e-9)["rank"]
        assert tied.len() == 2 and tied.n_unique() == 1


# -- what counts ------------------------------------------------------------------------------------------


def test_a_task_counts_only_when_every_alone_run_is_passed() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [0.0], "d:3": [0.0]})
    rows += [run("m", "d:1", "alone", 1.0, 1), run("m", "d:2", "alone", 0.5, 1), run("m", "d:3", "alone", 1.0, 1)]
    got = dimensions(table(rows), resamples=50).table.row(0, named=True)
    assert (got["n_gated"], got["n_complete"], got["score_pct"]) == (2, 3, 50.0)
    assert got["alone_pct"] == pytest.approx(200 / 3)


def test_a_missing_alone_run_leaves_the_gate_open_unless_partial_runs_are_allowed() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [0.0]})
    rows += [run("m", "d:1", "alone", 1.0, 1), run("m", "d:2", "alone", None, 1)]
    result = leaderboard(table(rows), resamples=50)
    assert result.table["score_pct"].to_list() == [100.0]
    assert result.incomplete["reason"].to_list() == ["1 of 2 alone runs ended in an error"]
    assert leaderboard(table(rows), resamples=50, allow_partial=True).table["score_pct"].to_list() == [50.0]


def test_a_refusal_in_any_version_takes_the_task_out_and_is_no_fail() -> None:
    rows = played("m", {"d:1": [1.0, 1.0], "d:2": [0.0, 0.0]})
    rows.append(run("m", "d:2", "baseline", None, status="refused"))
    got = leaderboard(table(rows), resamples=50).table.row(0, named=True)
    assert (got["score_pct"], got["n_refused"], got["n_complete"], got["n_tasks"]) == (100.0, 1, 1, 2)


def test_denominators_come_from_the_tasks_table_not_from_the_runs() -> None:
    runs = table(played("m", {"d:1": [1.0], "d:2": [0.0]}))
    tasks = pl.DataFrame(
        {
            "task_id": ["d:1", "d:2", "d:3", "e:1"],
            "benchmark": ["teamwork"] * 3 + ["maze"],
            "dimension": ["d"] * 3 + [None],
            "source_family": None,
            "real_world": None,
            "split": ["public", "held_out", "public", None],
        }
    )
    result = leaderboard(SimpleNamespace(runs=runs.lazy(), tasks=tasks.lazy()), resamples=50)
    got = result.table.row(0, named=True)
    assert (got["n_tasks"], got["n_complete"], got["n_gated"]) == (3, 2, 2)
    assert (got["public_pct"], got["held_out_pct"], got["score_pct"]) == (100.0, 0.0, 50.0)
    assert result.incomplete["task_id"].to_list() == ["d:3"]


def test_reviewed_verdicts_take_the_place_of_the_checkers_or_not_as_asked() -> None:
    runs = table(played("m", {"d:1": [1.0], "d:2": [0.0], "d:3": [1.0]}))
    ids = dict(runs.filter(pl.col("version") == "test").select("task_id", "run_id").iter_rows())
    alone = runs.filter((pl.col("version") == "alone") & (pl.col("task_id") == "d:3"))["run_id"][0]
    at = [datetime(2026, 10, d, tzinfo=UTC) for d in (1, 2, 1)]
    reviews = pl.DataFrame(
        {
            "run_id": [ids["d:2"], ids["d:2"], alone],
            "reviewer": ["a", "b", "a"],
            "old_score": [0.0, 0.0, 1.0],
            "new_score": [0.5, 1.0, 0.0],
            "at": at,
        }
    )
    study = SimpleNamespace(runs=runs.lazy(), reviews=reviews.lazy())
    applied, ignored = leaderboard(study, resamples=50), leaderboard(study, resamples=50, reviews="ignore")
    # The later review of d:2 says 1; the alone run of d:3 is now failed, so d:3 is out.
    assert applied.table.select("score_pct", "n_gated").row(0) == (100.0, 2)
    assert ignored.table["score_pct"][0] == pytest.approx(200 / 3)
    assert "2 of 2 reviewed verdicts differ" in " ".join(applied.notes())
    assert "reviewers differ on 1" in " ".join(applied.notes())
    assert "keep the checker's verdict" in " ".join(ignored.notes())


def test_a_review_of_another_score_than_the_runs_is_refused() -> None:
    runs = table(played("m", {"d:1": [1.0]}))
    reviews = runs.filter(pl.col("version") == "test").select(
        "run_id", reviewer=pl.lit("a"), old_score=pl.lit(0.0), new_score=pl.lit(1.0), at=pl.lit(None, pl.Datetime)
    )
    with pytest.raises(TableError, match="was reviewed with score 0, the runs table says 1"):
        leaderboard(SimpleNamespace(runs=runs.lazy(), reviews=reviews.lazy()))


def test_equal_scores_share_a_rank_and_an_undefined_one_has_none() -> None:
    rows = played("a", {"d:1": [1.0, 0.0], "d:2": [1.0, 0.0]}) + played("b", {"d:1": [1.0, 1.0], "d:2": [0.0, 0.0]})
    rows += played("c", {"d:1": [0.0, 0.0], "d:2": [0.0, 0.0]}) + played("d", {"d:1": [1.0], "d:2": [1.0]}, alone=0.0)
    got = leaderboard(table(rows), resamples=50)
    assert got.table.select("model", "rank").rows() == [("a", 1), ("b", 1), ("c", 3), ("d", None)]
    assert shared_ranks(np.array([0.1 + 0.2, 0.3, 0.5])) == [2, 2, 1]  # 0.1 + 0.2 is not 0.3 in binary


def test_an_arm_without_alone_runs_takes_the_gate_of_its_model_and_says_so() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [0.0]})
    rows += [run("m", "d:3", "alone", 0.0), run("m", "d:3", "test", None, status="gated_out")]
    rows += [run("m", f"d:{i}", "test", v, arm="diff") for i, v in ((1, 1.0), (2, 1.0), (3, 0.0))]
    result = leaderboard(table(rows), resamples=50)
    assert result.table.select("arm", "score_pct", "n_gated").rows() == [("diff", 100.0, 2), (None, 50.0, 2)]
    assert "No alone runs of their own" in " ".join(result.notes())


def test_public_and_held_out_scores_rest_on_their_tasks() -> None:
    runs = table(played("m", {"d:1": [1.0], "d:2": [0.0], "e:1": [0.0], "e:2": [0.5]}))
    runs = runs.with_columns(
        split=pl.when(pl.col("task_id").str.ends_with("1")).then(pl.lit("public")).otherwise(pl.lit("held_out"))
    )
    got = leaderboard(runs, resamples=50).table.row(0, named=True)
    assert (got["public_pct"], got["held_out_pct"], got["score_pct"]) == (50.0, 25.0, 37.5)


def test_drop_is_taken_over_the_tasks_that_have_both() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [0.0], "d:3": [1.0]})
    rows += [run("m", "d:1", "baseline", 1.0), run("m", "d:2", "baseline", 1.0)]
    got = leaderboard(table(rows), resamples=50).table.row(0, named=True)
    assert (got["baseline_pct"], got["drop_pct"]) == (100.0, 50.0)


# -- groups -----------------------------------------------------------------------------------------------


def test_group_means_are_means_over_models_at_the_default_setting() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0]}) + played("a", {"d:1": [0.0], "d:2": [0.0]}, effort="high")
    rows += played("b", {"d:1": [1.0], "d:2": [1.0]}) + played("c", {"d:1": [0.0], "d:2": [0.0]})
    result = group_means(table(rows), {"front": ["a", "b"], "open": ["c"]}, resamples=200)
    overall = result.table.filter(pl.col("dimension").is_null())
    assert overall.select("group", "n_rows", "score_pct").rows() == [("front", 2, 75.0), ("open", 1, 0.0)]
    assert overall.select("lo_pct", "no_interval").rows() == [(None, "too few: 2 tasks")] * 2
    paper = group_means(table(rows), {"front": ["a", "b"], "open": ["c"]}, resamples=200, interval="percentile").table
    assert paper.filter(pl.col("dimension").is_null()).select("lo_pct", "hi_pct").rows() == [(50.0, 100.0), (0.0, 0.0)]
    assert result.differences.row(0, named=True)["diff_points"] == 75.0
    assert result.members == {"front": ["a · default effort", "b"], "open": ["c"]}
    by_model = group_means(table(rows), {"a": "front", "b": "front", "c": "open"}, resamples=200)
    assert_frame_equal(by_model.table, result.table)
    # Two alone and two test runs of each model; the row at high effort is of no group's mean.
    assert (result.n_used, result.n_left_out) == (12, {"of rows not at a model's default setting": 4})
    part = group_means(table(rows), {"open": ["c"]}, resamples=50)
    assert part.n_left_out == {"of models in no group": 8, "of rows not at a model's default setting": 4}


def test_a_model_named_twice_in_a_group_counts_once() -> None:
    rows = played("a", {"d:1": [1.0], "d:2": [0.0]}) + played("b", {"d:1": [1.0], "d:2": [1.0]})
    once, twice = (group_means(table(rows), {"g": names}, resamples=50) for names in (["a", "b"], ["a", "a", "b"]))
    assert_frame_equal(once.table, twice.table)
    assert twice.table["n_rows"].to_list() == [2, 2]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("front", "groups is 'front': give {'name'"),
        (["a"], r"groups is \['a'\]: give {'name'"),
        (pd.Series(["front"], index=["a"]), "groups is"),
        ({"front": 3}, r"groups: 'front' has 3; give it a list of models, such as \['a'\]"),
        ({"front": None}, "groups: 'front' has None"),
        ({"front": ["A"]}, "groups: no model 'A' in these runs"),
    ],
)
def test_groups_of_another_kind_are_refused_in_words(groups, message) -> None:
    with pytest.raises(TableError, match=message):
        group_means(table(played("a", {"d:1": [1.0]})), groups, resamples=50)


def test_a_row_that_is_often_empty_does_not_select_the_resamples_of_its_group() -> None:
    # Model b solves one task of e alone, which 0.9^10 = 35 % of the resamples do not hold.
    values = {f"{d}:{t}": [float(t % 3 > 0)] for d in "de" for t in range(10)}
    rows = played("a", values) + played("c", values)
    rows += played("b", {t: v for t, v in values.items() if t[0] == "d" or t == "e:0"})
    rows += [run("b", t, "alone", 0.0) for t in values if t[0] == "e" and t != "e:0"]
    result = group_means(table(rows), {"all": ["a", "b", "c"], "b": ["b"]}, resamples=1000, interval="percentile")
    lines = {(r["group"], r["dimension"]): r for r in result.table.iter_rows(named=True)}
    assert lines["all", "e"]["n_empty_resamples"] == 0 and lines["all", "e"]["lo_pct"] is not None
    assert lines["b", "e"]["n_empty_resamples"] == pytest.approx(349, abs=60) and lines["b", "e"]["lo_pct"] is None
    assert lines["b", "d"]["n_empty_resamples"] == 0 and lines["b", "d"]["lo_pct"] is not None


def test_groups_come_from_the_models_table_and_published_rounds_get_no_interval(published) -> None:
    result = group_means(published, resamples=50)
    overall = datasets.published_table("overall")
    open_models = datasets.published_table("leaderboard").filter("open_weights")["model"].unique().to_list()
    want = overall.filter(pl.col("model").is_in(open_models))["score_pct"].mean()
    got = result.table.filter((pl.col("group") == "open-weight") & pl.col("dimension").is_null()).row(0, named=True)
    assert got["n_rows"] == 6 and got["score_pct"] == pytest.approx(want, abs=0.01)
    assert got["lo_pct"] is None
    frame = pl.DataFrame({"model": ["Kimi K3"], "group": ["mine"]})
    assert group_means(published, frame, resamples=50).members == {"mine": ["Kimi K3"]}


# -- invariances ------------------------------------------------------------------------------------------

SEEDS = st.integers(0, 10_000)


@given(seed=SEEDS, shuffle=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_the_order_of_rows_changes_nothing(seed: int, shuffle) -> None:
    runs = random_runs(seed)
    order = list(range(runs.height))
    shuffle.shuffle(order)
    assert_frame_equal(leaderboard(runs, resamples=100).table, leaderboard(runs[order], resamples=100).table)
    assert_frame_equal(dimensions(runs, resamples=100).table, dimensions(runs[order], resamples=100).table)


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_renaming_models_and_tasks_keeps_points_exactly_and_intervals_within_monte_carlo_error(seed: int) -> None:
    runs = random_runs(seed, n_tasks=12)
    task = pl.col("task_id").str.split(":")
    renamed = runs.with_columns(
        model=pl.lit("x") + (9 - pl.col("model").str.slice(1).cast(pl.Int64)).cast(pl.String),
        task_id=task.list.get(0) + ":" + (99 - task.list.get(1).cast(pl.Int64)).cast(pl.String),
        run_id=pl.col("run_id").reverse(),
    )
    one, two = leaderboard(runs, resamples=1000).table, leaderboard(renamed, resamples=1000).table
    assert sorted(one["score_pct"]) == sorted(two["score_pct"])
    a = one.with_columns(model=pl.lit("x") + (9 - pl.col("model").str.slice(1).cast(pl.Int64)).cast(pl.String))
    both = a.join(two, on="model", suffix="_new")
    assert (both["score_pct"] == both["score_pct_new"]).all()
    for end in ("lo_pct", "hi_pct"):
        # The standard error is at most 100 * 0.5 / sqrt(24) = 10 points, that of a 2.5 % end some 0.085 of it.
        assert (both[end] - both[f"{end}_new"]).abs().max() < 5 * math.sqrt(2) * 0.085 * 10


@given(value=st.sampled_from([0.0, 0.5, 1.0]), seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_a_constant_row_has_percentiles_of_width_zero_and_by_the_rule_an_interval_with_a_width(
    value: float, seed: int
) -> None:
    runs = random_runs(seed).with_columns(
        score=pl.when((pl.col("model") == "m0") & (pl.col("version") == "test")).then(value).otherwise("score")
    )
    paper, got = (
        leaderboard(runs, resamples=100, interval=kind).table.filter(pl.col("model") == "m0").row(0, named=True)
        for kind in ("percentile", "rule")
    )
    assert paper["score_pct"] == paper["lo_pct"] == paper["hi_pct"] == 100 * value
    assert got["lo_pct"] <= got["score_pct"] <= got["hi_pct"] and got["hi_pct"] - got["lo_pct"] > 1


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_task_that_all_solve_and_pass_moves_no_rank_among_rows_with_the_same_gate(seed: int) -> None:
    runs = random_runs(seed, n_rows=4).with_columns(
        score=pl.when(pl.col("version") == "alone").then(1.0).otherwise("score")
    )
    more = [row for m in range(4) for row in played(f"m{m}", {"d0:new": [1.0, 1.0]})]
    before = dimensions(runs, resamples=50).table
    after = dimensions(pl.concat([runs, table(more)]), resamples=50).table
    for d in ("d0", "d1"):
        a, b = (t.filter(pl.col("dimension") == d).sort("model").select("model", "rank") for t in (before, after))
        assert_frame_equal(a, b)


@given(seed=SEEDS, cut=st.integers(1, 89))
@settings(max_examples=10, deadline=None)
def test_splitting_a_study_and_merging_it_again_is_the_identity(seed: int, cut: int) -> None:
    runs = random_runs(seed)
    first, second = runs[: cut + 5], runs[cut:]  # five runs stand in both
    merged = leaderboard(pl.concat([second, first]), resamples=100)
    whole = leaderboard(runs, resamples=100)
    assert_frame_equal(whole.table, merged.table)
    assert merged.n_left_out.get("the same run again", 0) == min(5, runs.height - cut)


def test_pandas_and_lazy_frames_give_the_same_as_polars() -> None:
    runs = random_runs(7)
    whole = leaderboard(runs, resamples=50).table
    assert_frame_equal(whole, leaderboard(runs.lazy(), resamples=50).table)
    assert_frame_equal(whole, leaderboard(runs.to_pandas(), resamples=50).table)


# -- bad input --------------------------------------------------------------------------------------------


def test_no_alone_runs_is_refused_and_says_how_to_go_on() -> None:
    rows = [run("m", "d:1", "test", 1.0)]
    with pytest.raises(TableError, match=r"m has no alone runs.*gate='off'"):
        leaderboard(table(rows))
    assert leaderboard(table(rows), gate="off", resamples=50).table["score_pct"].to_list() == [100.0]


def test_a_dimension_without_a_solved_task_leaves_no_overall_score_unless_asked_for() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [0.0]}) + played("m", {"e:1": [1.0]}, alone=0.0)
    result = leaderboard(table(rows), resamples=50)
    assert result.table.select("score_pct", "lo_pct", "rank").row(0) == (None, None, None)
    assert result.undefined.rows() == [("m", None, None, "e")]
    assert "No scored task, so no score: m: e." in result.notes()
    asked = leaderboard(table(rows), skip_undefined=True)
    assert asked.table.select("score_pct", "no_interval").row(0) == (50.0, "too few: 2 tasks")


def test_a_single_task_gives_a_score_without_an_interval_of_its_dimension() -> None:
    result = dimensions(table(played("m", {"d:1": [1.0, 0.0]})), resamples=50)
    assert result.table.select("score_pct", "lo_pct", "hi_pct", "rank").row(0) == (50.0, None, None, 1)
    assert "Dimension scores on a single task: 1" in " ".join(result.notes())


def test_one_model_alone_has_scores_and_the_first_rank() -> None:
    frame = random_runs(3, n_rows=1)
    board = leaderboard(frame, resamples=50).table
    assert board.height == 1 and board["rank"].to_list() == [1]
    assert board["lo_pct"][0] <= board["score_pct"][0] <= board["hi_pct"][0]


def test_cells_of_two_tasks_have_no_interval_and_percentiles_of_width_zero() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [1.0]}) + played("n", {"d:1": [0.0], "d:2": [0.0]})
    paper = dimensions(table(rows), resamples=50, interval="percentile").table
    assert paper.select("score_pct", "lo_pct", "hi_pct").rows() == [(100.0,) * 3, (0.0,) * 3]
    got = dimensions(table(rows)).table
    assert got.select("lo_pct", "hi_pct", "no_interval").rows() == [(None, None, "too few: 2 tasks")] * 2


def test_rows_with_unequal_numbers_of_seeds_are_scored_and_named() -> None:
    rows = played("a", {"d:1": [1.0, 0.0, 1.0]}) + played("b", {"d:1": [1.0, 1.0, 1.0]}) + played("c", {"d:1": [1.0]})
    notes = " ".join(leaderboard(table(rows), resamples=50).notes())
    assert "Unequal numbers of seeds: most rows have 3; c 1." in notes


def test_a_resample_without_a_solved_task_is_counted_and_left_out() -> None:
    rows = played("m", {"d:1": [1.0]}) + [r for i in range(2, 8) for r in played("m", {f"d:{i}": [0.0]}, alone=0.0)]
    result = leaderboard(table(rows), resamples=2000, interval="percentile")
    # P(one task of seven is not drawn) = (6/7)^7 = 0.340.
    assert result.empty_replicates["n"][0] == pytest.approx(2000 * (6 / 7) ** 7, abs=5 * math.sqrt(2000 * 0.34 * 0.66))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": math.nan}, "score is NaN in 1 rows"),
        ({"score": 55.0}, r"score is 55; it is a fraction from 0 to 1 \(divide percentages by 100\)"),
        ({"status": "done"}, "status is 'done', not one of ok"),
        ({"model": None}, "1 rows without model"),
        ({"dimension": "e"}, "task d:1 stands in two dimensions"),
        ({"seed": 0.1}, "seed is 0.1 in 1 rows; seeds are whole numbers"),
    ],
)
def test_a_bad_value_is_refused_by_name(change, message) -> None:
    rows = played("m", {"d:1": [1.0]})
    rows[-1] |= change
    with pytest.raises(TableError, match=message):
        leaderboard(table(rows))


def test_two_scored_runs_of_one_cell_are_refused_with_their_ids() -> None:
    rows = played("m", {"d:1": [1.0]})
    rows.append(rows[-1] | {"run_id": "again", "score": 0.0})
    with pytest.raises(TableError, match=r"m, task d:1, test, seed 0 has 2 scored runs \(.*again"):
        leaderboard(table(rows))
    rows[-1] |= {"status": "error", "score": None}
    result = leaderboard(table(rows), resamples=50)
    assert result.table["score_pct"][0] == 100.0
    assert result.n_left_out == {"of a cell that has another run": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resamples": 1}, "resamples is 1: give a whole number of at least 20"),
        ({"ci_level": 95}, "ci_level is 95: give a fraction"),
        ({"gate": "on"}, "gate is 'on', not one of solved_alone, off"),
        ({"seed": -1}, "seed is -1: give a whole number of at least 0"),
        ({"resample": "rows"}, "resample is 'rows', not one of tasks, gated"),
        ({"reviews": True}, "reviews is True, not one of apply, ignore"),
        ({"models": ["M1"]}, r"no model 'M1' in these runs. Did you mean m1\?"),
        ({"models": "m1"}, r"models is a text; give a list of names, such as \['m1'\]"),
        ({"dimensions": ["d9"]}, "no dimension 'd9' in these runs"),
        ({"version": "tests"}, "no scored run of version tests"),
    ],
)
def test_a_bad_argument_is_refused_by_name(arguments, message) -> None:
    with pytest.raises(TableError, match=message):
        leaderboard(random_runs(1), **arguments)


def test_an_unknown_argument_is_refused_by_the_estimator_with_the_nearest_known() -> None:
    with pytest.raises(TableError, match=r"^group_means has no argument 'resample'\. Did you mean resamples, "):
        group_means(random_runs(1), resample=50)
    with pytest.raises(TableError, match=r"^grid has no argument 'modles'\. Did you mean models\?"):
        grid(random_runs(1), modles=["m1"])


def test_seeds_written_as_whole_floats_are_the_same_seeds() -> None:
    data = random_runs(1)
    floats = data.with_columns(pl.col("seed").cast(pl.Float64))
    assert_frame_equal(leaderboard(floats, resamples=50).table, leaderboard(data, resamples=50).table)


def test_without_the_gate_nothing_is_shown_as_solved_alone() -> None:
    data = random_runs(1)
    assert "Solved alone" in leaderboard(data, resamples=50).sheet().cells.columns
    assert "Solved alone" not in leaderboard(data, gate="off", resamples=50).sheet().cells.columns
    assert (grid(data).gate_words, grid(data, gate="off").gate_words) == ("solve alone", "have scores on")


def test_dimensions_can_be_chosen_as_on_the_leaderboard() -> None:
    data = random_runs(1)
    name = grid(data).dimensions[1]
    chosen = dimensions(data, dimensions=[name], resamples=50)
    assert chosen.table["dimension"].unique().to_list() == [name]
    whole = dimensions(data, resamples=50).table.filter(pl.col("dimension") == name)
    key = [*KEY, "score_pct"]
    assert_frame_equal(chosen.table.select(key), whole.select(key), check_row_order=False)


def test_runs_of_several_foreign_benchmarks_must_be_told_apart() -> None:
    rows = played("m", {"d:1": [1.0]}, benchmark="x") + played("m", {"d:2": [1.0]}, benchmark="y")
    with pytest.raises(TableError, match="runs of several benchmarks: x, y; say benchmark="):
        leaderboard(table(rows))
    assert leaderboard(table(rows), benchmark="x", resamples=50).n_left_out == {"of another benchmark": 2}


def test_one_run_id_with_two_scores_is_refused() -> None:
    rows = played("m", {"d:1": [1.0]})
    rows.append(rows[-1] | {"score": 0.0})
    with pytest.raises(TableError, match="1 run ids stand here with two different scores, such as m"):
        leaderboard(table(rows))


def test_maze_runs_are_sent_to_the_gap() -> None:
    with pytest.raises(TableError, match=r"runs are of mazes.*see cilab\.gap"):
        leaderboard(table(played("m", {"d:1": [1.0]}, benchmark="maze")))


def test_several_rules_are_named() -> None:
    rows = played("m", {"d:1": [1.0], "d:2": [1.0]})
    rows[-1]["rule_version"] = "2"
    rows[0]["rule_version"] = "1"
    assert "Scored under several rules" in " ".join(leaderboard(table(rows), resamples=50).notes())


def test_choosing_models_and_dimensions_leaves_the_others_out_by_name() -> None:
    runs = random_runs(3)
    result = leaderboard(runs, models=["m1"], dimensions=["d0"], resamples=50)
    assert result.table["model"].to_list() == ["m1"] and result.table["n_tasks"].to_list() == [5]
    assert result.n_used + sum(result.n_left_out.values()) == runs.height
    assert {"of models not asked for", "of dimensions not asked for"} <= set(result.n_left_out)
    whole = dimensions(runs, resamples=50).table.filter((pl.col("model") == "m1") & (pl.col("dimension") == "d0"))
    assert result.table["score_pct"].to_list() == whole["score_pct"].to_list()


def test_the_grid_keeps_seeds_apart_and_runs_with_their_place() -> None:
    g = grid(table(played("m", {"d:1": [1.0, 0.0], "d:2": [0.5, 1.0]})))
    assert g.by_seed.tolist() == [[[1.0, 0.0], [0.5, 1.0]]] and g.seeds == (0, 1)
    assert g.values.tolist() == [[0.5, 0.75]]
    assert g.runs.filter((pl.col("version") == "test") & (pl.col("t") == 1))["run_id"].to_list() == [
        "m|None|None|d:2|test|0",
        "m|None|None|d:2|test|1",
    ]


# -- recovery ---------------------------------------------------------------------------------------------


def test_the_simulated_release_gives_back_the_scores_it_was_drawn_from() -> None:
    data = datasets.simulated_release()
    result = dimensions(data, resamples=1000)
    truth = data.truth["cells"].select("model", "effort", "dimension", "expected_score")
    both = result.table.join(truth, on=["model", "effort", "dimension"], how="inner").drop_nulls("lo_pct")
    assert both.height > 150
    error = both["score_pct"] - 100 * both["expected_score"]
    assert abs(error.mean()) < 2.5  # 30 new tasks each, shared by all rows: the mean error is the tasks' luck
    inside = both.filter(pl.col("expected_score").mul(100).is_between("lo_pct", "hi_pct", closed="both")).height
    assert inside / both.height > 0.75  # tasks are shared, so cells err together; the coverage study says how often


def test_a_dimension_whose_tasks_nobody_played_is_one_without_a_score() -> None:
    data = datasets.simulated_release(scale=0.1)
    runs = data.runs.collect()
    some = runs.filter(pl.col("dimension") == "taking_over")["task_id"].unique().sort()[:2].to_list()
    played = Dataset(
        name="two tasks",
        tables=dict(data.tables) | {"runs": runs.filter(pl.col("task_id").is_in(some))},
        simulated=True,
        kind="simulated",
    )
    table = dimensions(played, resamples=20).table
    there = table.filter(pl.col("score_pct").is_not_null())
    assert set(there["dimension"]) == {"taking_over"} and len(set(table["dimension"])) == 8
