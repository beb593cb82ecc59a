"""The shipped mappings on real files of others: sizes, oddities and numbers that stand in their READMEs.

Means are held against `reference_numbers.json`, which stands beside the files. Skipped where they are not there.
"""

from __future__ import annotations

import json

import polars as pl
import pytest

from cilab.datasets.importers.report import ImportFailed
from cilab.datasets.importers.table import import_table


def get(shared, mapping: str, folder: str | None = None):
    return import_table(shared / (folder or mapping), mapping)


def runs(imported) -> pl.DataFrame:
    return imported.dataset.runs.collect()


def findings(imported) -> dict[tuple[str, str], int]:
    return {(f.kind, f.reason): f.count for f in imported.report.findings}


def task_means(scores: pl.DataFrame) -> dict[str, float]:
    """model -> mean over tasks of the mean over runs."""
    per_task = scores.group_by("model", "task_id").agg(pl.col("score").mean())
    return dict(per_task.group_by("model").agg(pl.col("score").mean()).iter_rows())


def test_metr_runs_give_the_reference_means_of_task_means(shared):
    imported = get(shared, "metr_runs")
    rows = runs(imported)
    reference = json.loads((shared / "reference_numbers.json").read_text())["metr_score_binarized"]
    assert rows.height == reference["n_rows"] == 7063
    assert rows.filter(pl.col("model") != "human").height == reference["n_rows_models"]
    means, over_runs = task_means(rows), dict(rows.group_by("model").agg(pl.col("score").mean()).iter_rows())
    graded = imported.dataset.annotations.filter(pl.col("feature") == "graded_score").collect()
    graded = graded.join(rows.select("run_id", "model", "task_id"), on="run_id").with_columns(score=pl.col("value"))
    graded_means = task_means(graded)
    assert set(means) == set(reference["models"])
    for model, known in reference["models"].items():
        assert means[model] == pytest.approx(known["mean_of_task_means"], abs=1e-12)
        assert over_runs[model] == pytest.approx(known["mean_over_runs"], abs=1e-12)
        assert graded_means[model] == pytest.approx(known["graded_mean_of_task_means"], abs=1e-12)
        assert rows.filter(pl.col("model") == model)["task_id"].n_unique() == known["tasks"]


def test_metr_runs_keep_their_oddities_in_sight(shared):
    imported = get(shared, "metr_runs")
    rows, text = runs(imported), imported.text()
    assert rows["run_id"].n_unique() == 7063 and imported.report.dropped == imported.report.doubled == 0
    assert "Repeats differ: 1 to 96 runs per model, task and version (median 8)" in text
    assert "davinci-002 alone 16 of 83" in text and "o1-preview alone 75 of 83" in text
    assert rows.filter(pl.col("model") != "human")["cost_usd"].null_count() == 6852
    human = rows.filter(pl.col("model") == "human")
    assert human["started_at"].null_count() == 211 and human["cost_usd"].min() > 0
    negative = imported.dataset.annotations.filter((pl.col("feature") == "human_score") & (pl.col("value") < 0))
    assert negative.collect().height == 239
    assert rows.filter((pl.col("ended") == "usageLimits") & (pl.col("score") == 1)).height == 51


def test_the_csv_and_the_parquet_of_metr_runs_are_the_same_runs(shared):
    a, b = (runs(import_table(shared / "metr_runs" / f, "metr_runs")) for f in ("runs.parquet", "runs.csv.gz"))
    assert a.equals(b)


def test_swebench_gives_the_reference_means_and_costs(shared):
    reference = json.loads((shared / "reference_numbers.json").read_text())["swebench_bash_only"]
    rows = runs(get(shared, "swebench_bash_only"))
    cost = pl.col("cost_usd")
    per = rows.group_by("model").agg(pl.col("score").mean(), cost.mean().alias("mean"), cost.sum().alias("sum"))
    assert per.height == reference["n_submissions"] == 25
    for row in per.to_dicts():
        known = reference["models"][row["model"]]
        assert row["score"] == pytest.approx(known["mean"], abs=1e-12)
        assert row["mean"] == pytest.approx(known["mean_cost"], abs=1e-9)
        assert row["sum"] == pytest.approx(known["total_cost"], abs=1e-6)
    solved = rows.group_by("task_id").agg(pl.col("score").sum())["score"]
    assert ((solved == 0).sum(), (solved == 25).sum()) == (reference["never_resolved"], reference["always_resolved"])


def test_the_swebench_matrix_holds_the_same_scores_as_its_long_table(shared):
    key = ["run_id", "model", "task_id", "score"]
    long = runs(get(shared, "swebench_bash_only")).select(key).sort("run_id")
    matrix = runs(get(shared, "swebench_matrix", "swebench_bash_only")).select(key).sort("run_id")
    assert matrix.height == 12_500 and matrix.equals(long)
    path = shared / "swebench_bash_only" / "response_matrix.csv.gz"
    words = import_table(path, wide="task_id", model="submission", version="=alone")
    assert task_means(runs(words)) == pytest.approx(task_means(long))


def test_mast_teams_come_with_their_messages_and_the_runs_that_are_missing_stay_missing(shared):
    imported = get(shared, "mast_ag2")
    rows, messages = runs(imported), imported.dataset.messages.collect()
    assert (rows.height, messages.height, imported.dataset.tasks.collect().height) == (7146, 43892, 200)
    assert 7200 - rows.height == 54
    assert rows.group_by("model", "arm").len().height == 6 and set(rows["seed"]) == set(range(42, 48))
    assert set(rows["arm"]) == {None, "prompt", "prompt+topology"}
    assert messages.filter(pl.col("content") == "").height == 5
    assert messages.select("run_id").unique().join(rows, on="run_id", how="anti").height == 0
    missing = rows.group_by("task_id").len().filter(pl.col("len") < 36)
    assert missing.filter(pl.col("len") == 20).height == 2
    assert "1 to 6 runs" in imported.text()
    # Means of the source's own `correct`, read without the importer.
    source = pl.read_parquet(shared / "mast_ag2" / "runs.parquet")
    for (model, version), group in source.group_by("model", "version"):
        arm = None if version == "baseline" else version
        made = rows.filter((pl.col("model") == model) & pl.col("arm").eq_missing(pl.lit(arm)))
        assert made["score"].mean() == pytest.approx(group["correct"].mean())
    agents = json.loads(imported.extra.filter(pl.col("table") == "runs")["extra_json"][0])
    assert agents["answer"] == "100" and "agents" in agents


def test_tau_dialogues_have_tool_calls_as_events_of_their_own(shared):
    imported = get(shared, "tau_bench")
    rows, messages = runs(imported), imported.dataset.messages.collect()
    assert (rows.height, rows["score"].sum(), rows["task_id"].n_unique()) == (200, 84.0, 50)
    kinds = dict(messages.group_by("kind").len().iter_rows())
    # README: 1,164 turns with a call, 90 of them with words too; 1,164 answers; 5,108 turns.
    assert kinds == {"tool_call": 1164, "tool_result": 1164, "message": 5108 - 1164 - 1164 + 90}
    assert all(isinstance(json.loads(t), dict) for t in messages["tool_input_json"].drop_nulls())
    for _, run in messages.group_by("run_id"):
        assert sorted(run["index"]) == list(range(run.height))
    assert messages.select("run_id").unique().join(rows, on="run_id", how="anti").height == 0
    assert messages.filter((pl.col("kind") == "tool_result") & (pl.col("tool_output") == "")).height == 92


def test_tau2_drops_the_earlier_push_and_reads_a_cost_of_zero_as_unknown(shared):
    imported = get(shared, "tau2", "tau_bench")
    rows = runs(imported)
    assert findings(imported) == {
        ("dropped", "no task_id"): 164,
        ("repaired", "cost_usd: a cost of 0 read as an unknown price"): 222,
    }
    assert rows.height == 1007 - 164
    assert rows.filter(pl.col("model").str.starts_with("ft:"))["cost_usd"].null_count() == 140
    assert not (rows["cost_usd"] == 0).any()
    assert rows.filter(pl.col("status") == "error").height == 2  # reward missing
    alone = rows.filter(pl.col("version") == "alone")
    assert (alone.height, set(alone["dimension"])) == (80, {"telecom"})
    assert "adaptive-agent_community_2026-03-23 has score 1 on all its 118 runs" in imported.text()
    assert imported.extra.filter(pl.col("reason") == "dropped: no task_id").height == 164


def test_casino_gives_the_published_share_of_best_deals_and_points(shared):
    imported = get(shared, "casino")
    rows, labels = runs(imported), imported.dataset.labels.collect()
    deals = rows.filter("success")
    # The benchmark's notes: 1,005 dialogues, best deal 39 %, 96.4 % of the points.
    assert (rows.height, deals.height) == (1030, 1005)
    assert round(100 * (deals["joint_share"] == 1).mean()) == 39
    assert round(100 * deals["joint_share"].mean(), 1) == 96.4
    assert imported.dataset.messages.collect().height == 14_297
    assert labels.select("run_id", "index").n_unique() == 4615 and labels["run_id"].n_unique() == 396
    assert findings(imported) == {("dropped", "empty part of strategies"): 1}
    odd = labels.filter((pl.col("run_id") == "casino/19") & (pl.col("index") == 11))
    assert odd["label"].to_list() == ["small-talk", "self-need", "vouch-fair"]


def test_deal_or_no_deal_counts_a_dialogue_once_and_gives_the_published_numbers(shared):
    imported = get(shared, "deal_or_no_deal")
    rows = runs(imported)
    deals = rows.filter("success")
    assert rows.height + imported.report.doubled == 14_373
    # The benchmark's notes: 4,765 dialogues, best deal 58 %, 95.0 % of the points. Here one dialogue more.
    assert deals.height == pytest.approx(4765, abs=1)
    assert round(100 * (deals["joint_share"] == 1).mean()) == 58
    assert round(100 * deals["joint_share"].mean(), 1) == 95.0
    assert (rows.filter(~pl.col("success"))["joint_share"] == 0).all()
    assert rows["joint_share"].is_between(0, 1).all()
    messages = imported.dataset.messages.collect()
    assert set(messages["run_id"]) == set(rows["run_id"]) and set(messages["seat"]) == {"first", "second"}


def test_aider_percentages_are_refused_without_a_scale_and_read_with_the_mapping(shared):
    path = shared / "aider_leaderboards" / "leaderboards.csv"
    with pytest.raises(ImportFailed, match=r"column 'pass_rate_2'.*looks like percentages"):
        import_table(path, score="pass_rate_2", task_id="leaderboard", version="=alone")
    imported = get(shared, "aider_leaderboards")
    rows = runs(imported)
    assert rows.height == 221 and rows["run_id"].n_unique() == 221
    assert findings(imported) == {("repaired", "cost_usd: a cost of 0 read as an unknown price"): 97}
    assert rows["cost_usd"].null_count() == 97 + 2
    assert rows.filter(pl.col("status") == "error")["task_id"].unique().to_list() == ["refactor_leaderboard"]
    assert rows.filter(pl.col("status") == "error").height == 14
    source = pl.read_csv(path, infer_schema=False)["pass_rate_2"].cast(pl.Float64)
    assert rows["score"].to_list() == pytest.approx((source / 100).to_list(), nan_ok=True)


def test_pandalm_votes_are_labels_and_garbage_is_unparsed(shared):
    imported = get(shared, "judge_pandalm")
    labels = imported.dataset.labels.collect()
    assert (runs(imported).height, labels.height) == (999, 999 * 5)
    assert labels.filter(pl.col("label") == "unparsed")["rater"].to_list() == ["gpt-3.5"] * 25
    counts = dict(labels.filter(pl.col("rater") == "person:1").group_by("label").len().iter_rows())
    assert counts == {"tie": 97, "first": 427, "second": 475}  # counted in the source
    answers = imported.dataset.messages.filter(pl.col("run_id") == "pandalm/157").sort("index").collect()
    assert answers["content"].to_list()[2:] == ["true", "True."]


def test_metr_rater_labels_are_annotations_and_a_second_look_is_numbered(shared):
    imported = get(shared, "metr_rater_labels")
    rows = imported.dataset.annotations.collect()
    assert rows.height == 12_690 and rows["value"].null_count() == 735
    tasks = dict(rows.group_by("annotator").agg(pl.col("run_id").n_unique()).iter_rows())
    # The README counts 136 and 142 rows a rater; one of rater_3's is a second look at a task.
    assert sorted(tasks.values()) == [1, 136, 141, 142, 142, 142]
    assert rows.filter(pl.col("repeat") > 0).height == 18
    conditional = rows.filter(pl.col("feature") == "implicit_generalizability_requirements_are_scored")
    assert (conditional.height, conditional["value"].null_count()) == (705, 634)


def test_pairwise_votes_are_labels_of_pairs(shared):
    imported = get(shared, "pairwise_votes")
    rows, labels = runs(imported), imported.dataset.labels.collect()
    assert (rows.height, labels.height, labels["rater"].n_unique()) == (2139, 8931, 124)
    votes = labels.group_by("run_id").len()["len"]
    assert (votes.min(), votes.max()) == (1, 5)
    assert round((labels["label"] == "tie").mean(), 2) == 0.39
    assert (rows["model"] != rows["partner_model"]).all()
    assert imported.dataset.annotations.collect().height == 413


def test_mast_annotations_know_a_copy_from_a_second_rating(shared):
    imported = get(shared, "mast_annotations")
    rows = imported.dataset.annotations.collect()
    assert {k: n for k, n in findings(imported).items() if k[0] == "doubled"} == {
        ("doubled", "a copy of the same person's answer"): 30 * 23,  # AG2: 22 modes and the note
        ("doubled", "already in an earlier file"): 30 * 13,  # HyperAgent: 12 modes and the note
    }
    modes = rows.filter((pl.col("annotator") == "person:1") & (pl.col("feature") == "incorrect_assumptions"))
    # Counted in the source: TRUE 19, FALSE 77, and eight answers that are neither.
    assert dict(modes.group_by("value").len().iter_rows()) == {1.0: 19, 0.0: 77, None: 8}
    assert rows.filter(pl.col("annotator") == "untouched_default")["run_id"].n_unique() == 210
    assert not rows["feature"].str.contains("Blurring").any()
