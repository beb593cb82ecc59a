"""Whole teamwork studies through `run_study`: the gate, the tables, labels by other judges."""

import json
import shutil

import polars as pl
import pytest
import yaml

import cilab
from cilab.collect.model import Completion, Usage
from cilab.core.errors import CilabError
from cilab.running.forecast import forecast_study
from cilab.running.load import load_study
from cilab.running.play import run_study
from cilab.running.relabel import relabel
from cilab.shell import app as cli
from cilab.teamwork import bank
from tests.teamwork.small import TASK, changed, write

JUDGES = {"referee": "sim/team-judge-a", "second": "sim/team-judge-b", "third": "sim/team-judge-c"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    for i in range(4):
        difficulty = 4.0 if i == 3 else 0.0  # too hard even alone, for some
        write(
            folder / "tasks",
            changed(id=f"hoist{i}", difficulty=difficulty, brief={**TASK["brief"], "scene": f"Lift {i}. 950 kg."}),
        )
    return folder


def study_file(home, name="team", **block):
    given = {
        "benchmark": "teamwork",
        "models": ["sim/team-F1", "sim/team-O7"],
        "tasks": [str(home / "tasks")],
        "judges": JUDGES,
        "partners": ["sim/team-partner"],
    }
    path = home / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, "blocks": [given | block]}))
    return path


@pytest.fixture(scope="module")
def data(home):
    summary = run_study(study_file(home), out=home / "team", show_progress=False)
    assert summary.exit_code == 0
    return home / "team"


def test_the_team_plays_only_what_was_solved_alone(data):
    runs = cilab.open(data).runs.collect()
    assert runs.height == 2 * 4 * 5
    alone = {(r["model"], r["task_id"]): r["passed"] for r in runs.filter(version="alone").iter_rows(named=True)}
    assert not all(alone.values())
    for run in runs.filter(pl.col("version") != "alone").iter_rows(named=True):
        passed = alone[run["model"], run["task_id"]]
        assert run["status"] == ("ok" if passed else "gated_out") and (run["score"] is None) is not passed


def test_the_tables_say_what_analyses_need(data):
    study = cilab.open(data)
    runs = study.runs.filter(pl.col("status") == "ok").collect()
    assert set(runs["dimension"]) == {"resisting_unsafe_pressure"} and set(runs["source_family"]) == {"team_decisions"}
    assert set(runs["rule_version"]) == {"teamwork-1"} and runs["cost_usd"].sum() == 0
    tasks = study.tasks.collect()
    assert tasks["task_id"].to_list() == [f"hoist{i}" for i in range(4)] and not tasks["real_world"].any()
    labels = study.labels.collect()
    assert set(labels["rater"]) == {"referee", "second", "third", "final"}
    spoken = (
        study.messages.filter(pl.col("seat") == "you", pl.col("kind") == "message").select("run_id", "index").collect()
    )
    judged = labels.select("run_id", "index").unique()
    assert judged.join(spoken, on=["run_id", "index"], how="anti").is_empty()
    assert study.simulated and set(runs["study"]) == {"team (simulated)"}


def test_the_same_study_again_plays_and_doubles_nothing(home, data):
    before = cilab.open(data).data_hash
    summary = run_study(home / "team.yaml", out=data, show_progress=False)
    assert summary.progress.calls == 0 and cilab.open(data).data_hash == before
    assert cilab.open(data).tasks.collect().height == 4


def test_statistics_run_on_a_collected_study(data):
    scores = cilab.dimensions(cilab.open(data)).table
    assert scores.height == 2 and scores["n_gated"].max() <= 4
    modes = cilab.failures(cilab.open(data)).table
    assert modes.filter(pl.col("by") == "all")["n"].sum() > 0


def test_a_dry_run_names_every_model(home):
    forecast = forecast_study(study_file(home, "dry"), out=home / "nowhere")
    assert {m["model"] for m in forecast.by_model} == {
        "sim/team-F1",
        "sim/team-O7",
        "sim/team-partner",
        *JUDGES.values(),
    }
    assert len(forecast.run_ids) == 40 and not (home / "nowhere").exists()


def test_gated_out_rollouts_add_up_after_a_limit_and_in_a_second_session(home, data, capsys):
    by_status = dict(cilab.open(data).runs.collect().group_by("status").len().iter_rows())
    assert by_status["gated_out"] > 0 and sum(by_status.values()) == 40
    path = study_file(home)
    run_study(path, out=data, limit=10, show_progress=False)
    found = cilab.status(data)
    assert (found["finished"], found["earlier"], found["planned"], found["missing"]) == (40, 0, 40, 0)
    cli.app(["run", str(path), "--out", str(data), "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert {k: told[k] for k in ("ok", "refused", "gated_out")} == {"refused": 0} | by_status
    assert told["finished"] == 40
    assert {k: told["this_session"][k] for k in ("ok", "refused", "gated_out", "calls")} == dict.fromkeys(
        ("ok", "refused", "gated_out", "calls"), 0
    )


def test_gated_out_rollouts_of_an_earlier_plan_are_counted_as_such(home, data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    path = study_file(home, name="fewer", models=["sim/team-F1"])
    run_study(path, out=tmp_path / "data", show_progress=False)
    found = cilab.status(tmp_path / "data")
    assert (found["finished"], found["earlier"], found["planned"], found["missing"]) == (40, 20, 20, 0)


def test_other_judges_see_the_referees_own_prompts(home, data):
    study = cilab.open(data)
    before = study.labels.collect().height
    with bank.at_hand(*bank.find([str(home / "tasks")])):  # a simulated judge knows its tasks
        summary = relabel(data, judge="sim/team-judge-c", repeat=2, show_progress=False)
    assert summary.exit_code == 0
    labels = cilab.open(data).labels.collect()
    mine = labels.filter(pl.col("rater") == "sim/team-judge-c")
    referee = labels.filter(pl.col("rater") == "referee")
    assert sorted(mine.select("run_id", "index").rows()) == sorted(referee.select("run_id", "index").rows())
    assert labels.height == before + 2 * referee.height
    agree = mine.join(referee, on=["run_id", "index"]).select((pl.col("label") == pl.col("label_right")).mean()).item()
    assert 0.7 < agree < 0.99
    flags = mine.filter(pl.col("label") == "complies")["gives_way"].drop_nulls().to_list()
    assert all(flags) or not flags
    again = relabel(data, judge="sim/team-judge-c", repeat=2, show_progress=False)
    assert again.progress.calls == 0


def test_a_judge_none_of_whose_answers_is_a_label_is_no_success(home, data, monkeypatch, capsys):
    class Mute:
        name, provider = "fake/mute", "fake"

        async def complete(self, messages, *, tools=None, sampling):
            return Completion("Nothing to say.", usage=Usage(1, 1), cost_usd=0.0)

    monkeypatch.setattr("cilab.running.again.resolver", lambda file, benchmarks: lambda name: Mute())
    for _ in range(2):
        assert cli.app(["relabel", str(data), "--with", "fake/mute", "--sample", "1"], standalone_mode=False) == 1
        labels = cilab.open(data).labels.filter(pl.col("rater") == "fake/mute").collect()
        assert set(labels["label"]) == {"unparsed"}
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("2 of 2 finished") and line.endswith(f"; {labels.height} answers could not be read")


def test_relabels_help_does_not_offer_rules(capsys):
    cli.app(["relabel", "--help"], standalone_mode=False)
    own = capsys.readouterr().out
    assert "--with" in own and "rules" not in own


def test_a_sample_takes_so_many_runs_of_each_row(home, data):
    relabel(data, judge="sim/team-judge-a", sample=2, show_progress=False)
    labels = cilab.open(data).labels.filter(pl.col("rater") == "sim/team-judge-a").select("run_id").unique()
    runs = cilab.open(data).runs.join(labels, on="run_id").collect()
    assert runs["model"].value_counts().sort("model").rows() == [("sim/team-F1", 2), ("sim/team-O7", 2)]


def test_people_choose_from_the_labels_that_the_judges_had(data):
    from cilab.running.relabel import label_choices
    from cilab.teamwork.task import dimension_labels

    study = cilab.open(data)
    found = label_choices(study, study.runs.select("run_id").collect()["run_id"].to_list())
    wanted = {name: label.text for name, label in dimension_labels("resisting_unsafe_pressure").items()}
    assert found and all(labels == wanted for labels in found.values())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"judge": "sim/team-judge-a", "repeat": 0}, "--repeat 0"),
        ({"judge": "sim/team-judge-z"}, "team-judge-a"),
        ({"judge": "rules"}, "--with rules: no rules can judge messages; name a model"),
        ({"judge": "sim/team-judge-a", "sample": 0}, "--sample 0"),
    ],
)
def test_a_wrong_request_is_one_line(data, how, words):
    with pytest.raises(CilabError) as error:
        relabel(data, show_progress=False, **how)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"tasks": ["no-such-task"]}, "no task is called 'no-such-task'"),
        ({"tasks": ["./nowhere"]}, "no folder ./nowhere"),
        ({"partners": []}, "has a live partner"),
        ({"models": ["sim/team-F99"]}, "no simulated teammate"),
        ({"judges": {"referee": "sim/team-judge-a"}}, "judges.second"),
        ({"version": ["test"]}, "unknown key"),
    ],
)
def test_a_wrong_block_is_one_line_and_nothing_is_written(home, block, words):
    with pytest.raises(CilabError) as error:
        run_study(study_file(home, "wrong", **block), out=home / "wrong", show_progress=False)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert not (home / "wrong").exists()


def test_a_relative_folder_lies_beside_the_study_file_or_in_the_working_folder(home, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    whole = forecast_study(study_file(home, "rel"), out=tmp_path / "out").run_ids
    for folder in (home, here):  # where the tasks lie; the study file lies in `home`
        (folder / "mine").mkdir()
        write(folder / "mine", changed(id="only"))
        for entry in ("./mine", "mine", "mine/only"):
            found = forecast_study(study_file(home, "rel", tasks=[entry]), out=tmp_path / "out").run_ids
            assert 0 < len(found) < len(whole)
        shutil.rmtree(folder / "mine")
    for path in (home, here):
        write(path / "both", changed(id=f"in-{path.name}"))
    study = load_study(study_file(home, "rel", tasks=["./both"]))
    assert {spec.task_id for _, spec in study.specs()} == {f"in-{home.name}"}


def test_run_ids_do_not_depend_on_where_a_task_lies(home, tmp_path, monkeypatch):
    shutil.copytree(home / "tasks", tmp_path / "else" / "tasks")
    monkeypatch.chdir(tmp_path)
    ids = {
        forecast_study(study_file(at, "same", tasks=[entry]), out=tmp_path / "out").run_ids
        for at, entry in ((home, "./tasks"), (tmp_path / "else", "tasks"), (home, str(tmp_path / "else" / "tasks")))
    }
    assert len(ids) == 1


def test_a_folder_that_is_in_neither_place_names_both(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for entry in ("./nowhere", "~nobody-of-that-name/tasks"):
        with pytest.raises(CilabError) as error:
            load_study(study_file(home, "wrong", tasks=[entry]))
        said = str(error.value)
        assert f"blocks[0]: tasks: there is no folder {entry} in {home.resolve()}, nor in {tmp_path.resolve()}." in said


def test_a_dimension_is_ours_whatever_folder_lies_beside_the_study(home):
    write(home / "handling_conflict", changed(id="no-conflict"))
    study = load_study(study_file(home, "dimension", tasks=["handling_conflict"], sandbox="none"))
    assert {spec.task_id[:3] for _, spec in study.specs()} == {"hc-"}
    shutil.rmtree(home / "handling_conflict")


def test_a_broken_task_names_its_file(home, tmp_path):
    write(tmp_path / "t", changed(rounds=1))
    with pytest.raises(CilabError, match=r"task\.yaml: rounds"):
        run_study(study_file(home, "broken", tasks=[str(tmp_path / "t")]), out=tmp_path / "out", show_progress=False)


def test_arms_are_rows_of_their_own(home):
    arms = [{"name": "norm", "norm": True}]
    run_study(study_file(home, "arms", arms=arms, models=["sim/team-C4"]), out=home / "arms", show_progress=False)
    table = cilab.dimensions(cilab.open(home / "arms")).table
    assert sorted(table["arm"].to_list(), key=str) == [None, "norm"] or sorted(map(str, table["arm"])) == [
        "None",
        "norm",
    ]
