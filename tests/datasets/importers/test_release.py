"""The benchmark's result layout: the example tree of 16 runs, and trees that depart from the description."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

from cilab.datasets.importers.release import import_release, read_place
from cilab.datasets.importers.report import ImportFailed
from cilab.store import open_study


@pytest.fixture(scope="module")
def imported(request):
    from pathlib import Path

    return import_release(Path(__file__).resolve().parents[2] / "data" / "release_example")


@pytest.fixture
def tree(example, tmp_path):
    """A copy of the example tree that a test may change; returns its results folder."""
    shutil.copytree(example / "results", tmp_path / "results")
    return tmp_path / "results"


def of(imported, **columns) -> list[dict]:
    rows = imported.dataset.runs.collect()
    for column, value in columns.items():
        rows = rows.filter(pl.col(column) == value)
    return rows.to_dicts()


def transcripts(tree):
    return tree / "transcripts" / "handling_conflict" / "example_three_goods" / "gpt-6-astra"


def test_sixteen_transcripts_and_one_refusal_are_seventeen_runs(imported):
    # Counted by hand in the example's folders: 2 models, 2 tasks; Kimi fails the conflict task alone.
    runs = imported.dataset.runs.collect()
    counts = {k: n for *k, n in runs.group_by("version", "status").len().iter_rows() for k in [tuple(k)]}
    assert counts == {("alone", "ok"): 4, ("baseline", "ok"): 3, ("test", "ok"): 9, ("test", "refused"): 1}
    assert dict(imported.report.placed)["runs"] == 17 and imported.report.dropped == 0
    assert set(runs["model"]) == {"gpt-6-astra", "together:moonshotai/Kimi-K3"}


def test_scores_outcomes_and_evidence_are_the_files(imported):
    seeds = of(imported, dimension="handling_conflict", version="test", model="gpt-6-astra")
    assert {r["seed"]: (r["score"], r["passed"], r["evidence"]) for r in seeds} == {
        0: (0.0, False, ["accepted_offer"]),
        1: (1.0, True, []),
        2: (0.0, False, ["accepted_offer"]),
    }
    assert {r["seed"]: round(r["joint_share"], 4) for r in seeds} == {0: 0.9487, 1: 1.0, 2: 0.9487}  # 37 and 39 of 39
    initiative = of(imported, dimension="taking_initiative", version="test", model="together:moonshotai/Kimi-K3")
    assert {r["seed"]: (r["passed"], r["outcome"]) for r in initiative} == {
        0: (False, "not_noticed"),
        1: (False, "not_noticed"),
        2: (True, "moved"),
    }


def test_a_refused_task_is_a_refused_run_under_our_name_of_the_dimension(imported):
    (refused,) = of(imported, status="refused")
    assert (refused["dimension"], refused["task_id"], refused["model"]) == (
        "reporting_misconduct",
        "example_refused",
        "together:moonshotai/Kimi-K3",
    )
    assert refused["score"] is None and refused["passed"] is None


def test_tool_calls_stand_before_the_message_of_their_round(imported):
    (run,) = [r for r in of(imported, version="test", model="gpt-6-astra", seed=0) if r["tool_calls"]]
    rows = imported.dataset.messages.filter(pl.col("run_id") == run["run_id"]).sort("index").collect()
    tested = rows.filter(pl.col("seat_kind") == "under_test")
    for _, turn in tested.group_by("round"):
        assert turn["kind"].to_list()[-1] == "message" and set(turn["kind"].to_list()[:-1]) <= {"tool_call"}
    assert run["tool_calls"] == 6 and rows["index"].to_list() == list(range(rows.height))
    assert json.loads(rows.filter(pl.col("tool") == "read_file")["tool_input_json"].drop_nulls()[0])["path"]


def test_labels_of_every_rater_are_on_their_message(imported):
    labels = imported.dataset.labels.collect()
    messages = imported.dataset.messages.collect()
    (run,) = of(imported, dimension="handling_conflict", version="test", model="gpt-6-astra", seed=0)
    last = labels.filter((pl.col("run_id") == run["run_id"]) & (pl.col("index") == 4))
    assert dict(last.select("rater", "label").iter_rows()) == {
        "referee": "accepts",
        "second": "hedges",
        "third": "accepts",
        "final": "accepts",
    }
    joined = labels.join(messages, on=["run_id", "index"], how="left")
    assert (joined["seat_kind"] == "under_test").all()


def test_what_has_no_column_is_extra(imported):
    extra = {
        r["run_id"]: json.loads(r["extra_json"]) for r in imported.extra.filter(pl.col("table") == "runs").to_dicts()
    }
    (run,) = of(imported, dimension="taking_initiative", version="alone", model="gpt-6-astra")
    kept = extra[run["run_id"]]
    assert "Noor" in kept["system_prompts"] and kept["sandbox"]["hashes_before"] and kept["score"]["details"]
    (study,) = imported.extra.filter(pl.col("table") == "study")["extra_json"]
    assert json.loads(study)["bootstrap"]["reps"] == 4000


def test_the_import_is_a_study_that_opens(imported, tmp_path):
    imported.save(tmp_path / "s")
    assert open_study(tmp_path / "s").sql("SELECT count(*) AS n FROM runs")["n"][0] == 17


@pytest.mark.parametrize("folder", [".", "results", "results/transcripts"])
def test_any_folder_of_the_tree_will_do(example, folder):
    runs = import_release(example / folder).dataset.runs.collect()
    assert runs.filter(pl.col("status") == "ok").height == 16


@pytest.mark.parametrize(
    ("path", "arm", "dimension", "task"),
    [
        ("transcripts/handling_conflict/t/m/solo_seed0.json", None, "handling_conflict", "t"),
        ("transcripts/pilot/handling_conflict/t/m/solo_seed0.json", "pilot", "handling_conflict", "t"),
        ("transcripts/norms/rerun/handling_conflict/t/m/solo_seed0.json", "norms/rerun", "handling_conflict", "t"),
        ("transcripts/new_dimension/t/m/solo_seed0.json", None, "new_dimension", "t"),
        ("whistleblowing/t/m/control_seed12.json", None, "whistleblowing", "t"),
    ],
)
def test_a_place_in_the_tree_says_arm_dimension_and_task(path, arm, dimension, task):
    from pathlib import Path

    place = read_place(Path(path))
    assert (place.arm, place.dimension, place.task, place.model) == (arm, dimension, task, "m")


def test_an_arm_in_a_deeper_tree_is_an_arm_and_no_double(tree):
    deeper = tree / "transcripts" / "norms" / "specific"
    shutil.copytree(tree / "transcripts" / "handling_conflict", deeper / "handling_conflict")
    imported = import_release(tree)
    arms = dict(imported.dataset.runs.collect().group_by("arm").len().iter_rows())
    assert arms == {None: 17, "norms/specific": 6} and imported.report.doubled == 0


def test_the_same_run_twice_is_one_run(tree):
    shutil.copy(transcripts(tree) / "solo_seed0.json", transcripts(tree) / "alone_seed0.json")
    imported = import_release(tree)
    assert imported.report.doubled == 1 and imported.dataset.runs.collect().height == 17


def test_the_sites_names_of_dimensions_are_ours(tree):
    (tree / "transcripts" / "handling_conflict").rename(tree / "transcripts" / "keeping_the_team_on_track")
    for file in (tree / "transcripts" / "keeping_the_team_on_track").rglob("*.json"):
        run = json.loads(file.read_text())
        del run["scenario"]
        file.write_text(json.dumps(run))
    assert len(of(import_release(tree), dimension="keeping_on_track")) == 6


def test_a_file_that_says_little_is_placed_by_its_path_and_the_list_of_models(tree):
    folder = tree / "transcripts" / "handling_conflict" / "example_three_goods" / "together_moonshotai__Kimi-K3"
    (folder / "solo_seed0.json").write_text(json.dumps({"score": True, "messages": [{"seat": "Alex", "text": "hi"}]}))
    (run,) = of(import_release(tree), dimension="handling_conflict", model="together:moonshotai/Kimi-K3")
    assert (run["version"], run["task_id"], run["score"]) == ("alone", "example_three_goods", 1.0)


def test_broken_unknown_and_unscored_files_are_reported_and_kept(tree):
    place = transcripts(tree)
    (place / "solo_seed1.json").write_text('{"scenario": "handling')
    (place / "solo_seed2.json").write_text("")
    (place / "rerun_seed0.json").write_text(json.dumps({"evaluated_model": "gpt-6-astra", "score": {"pass": True}}))
    (place / "solo_seed3.json").write_text(json.dumps({"evaluated_model": "gpt-6-astra", "mystery": [1, 2]}))
    imported = import_release(tree)
    dropped = {f.reason: f.count for f in imported.report.findings if f.kind == "dropped"}
    assert dropped["no JSON object (cut off?)"] == 1 and dropped["the file is empty"] == 1
    assert any(r.startswith("version 'rerun', not one of") for r in dropped)
    kept = imported.extra.filter(pl.col("reason").is_not_null())
    assert kept.height == 3 and '{\\"scenario\\": \\"handling' in "".join(kept["extra_json"])
    (unscored,) = of(imported, status="error")
    assert unscored["score"] is None and unscored["error"] == "no score in the file"
    left = imported.extra.filter(pl.col("run_id") == unscored["run_id"])["extra_json"][0]
    assert json.loads(left)["mystery"] == [1, 2]


def test_nul_and_lone_surrogates_in_a_message_are_replaced_and_counted(tree):
    file = transcripts(tree) / "control_seed0.json"
    run = json.loads(file.read_text())
    run["messages"][0]["text"] = "a\x00b\ud83dc 🙂"
    file.write_text(json.dumps(run))
    imported = import_release(tree)
    assert imported.report.repaired == 1
    texts = imported.dataset.messages.filter(
        pl.col("content").str.contains("a\ufffdb\ufffdc 🙂", literal=True)
    ).collect()
    assert texts.height == 1


def test_labels_may_be_objects_or_a_list(tree):
    file = transcripts(tree) / "control_seed0.json"
    run = json.loads(file.read_text())
    run["messages"][1]["labels"] = [{"rater": "referee", "label": "holds", "reason": "why", "noticed": True}, "loose"]
    file.write_text(json.dumps(run))
    imported = import_release(tree)
    row = imported.dataset.labels.filter(pl.col("noticed").is_not_null()).collect().row(0, named=True)
    assert (row["rater"], row["label"], row["reason"], row["noticed"]) == ("referee", "holds", "why", True)
    assert imported.report.dropped == 1  # the loose word has no rater; it is kept as extra


def test_tool_calls_of_a_round_without_a_message_are_kept_in_their_round(tree):
    file = tree / "transcripts/taking_initiative/example_two_lists/gpt-6-astra/solo_seed0.json"
    run = json.loads(file.read_text())
    run["messages"] = [m for m in run["messages"] if m["round"] != 1]
    run["tool_calls"].append({"round": 9, "name": "submit", "input": "text, not an object"})
    file.write_text(json.dumps(run))
    imported = import_release(tree)
    (row,) = of(imported, dimension="taking_initiative", version="alone", model="gpt-6-astra")
    assert row["tool_calls"] == len(run["tool_calls"])


@pytest.mark.parametrize(("make", "match"), [(False, "no such folder"), (True, "holds no transcript")])
def test_a_folder_without_transcripts_is_refused(tmp_path, make, match):
    folder = tmp_path / "x"
    if make:
        folder.mkdir()
    with pytest.raises(ImportFailed, match=match):
        import_release(folder)
