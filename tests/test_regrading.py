"""A second look at stored rollouts: which are drawn, what is found, and that nothing is replayed or paid twice."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cilab
from cilab.collect.model import CallError, Completion, Usage
from cilab.core.errors import CilabError, StudyError
from cilab.maze import annotate as annotating
from cilab.maze import grade as grading
from cilab.maze.looks import maze_of_run, stratified
from cilab.running import again as regrading
from cilab.running.again import annotate, regrade
from cilab.shell import app as cli

STUDY = """\
name: played
blocks:
  - benchmark: maze
    models: [sim/strong, sim/weak]
    pairs: all
    mazes: {count: 4}
  - benchmark: maze
    versions: [relay]
    relay: [{strong: sim/strong, weak: sim/weak, k: [2]}]
    mazes: {count: 2}
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("played")
    path = folder / "s.yaml"
    path.write_text(STUDY, encoding="utf-8")
    assert cilab.run_study(path, out=folder / "data", show_progress=False).exit_code == 0
    return folder / "data"


@pytest.fixture
def data(played, tmp_path):
    return shutil.copytree(played, tmp_path / "data")


class Grader:
    """A fake model: answers by a function of the prompt, and counts."""

    def __init__(self, answer):
        self.name, self.provider, self.answer = "fake/g", "fake", answer
        self.asked, self.sampling = [], []

    async def complete(self, messages, *, tools=None, sampling):
        self.asked.append(messages[0]["content"])
        self.sampling.append(sampling)
        answer = self.answer(messages, sampling)
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer, usage=Usage(100, 10), cost_usd=0.25)


@pytest.fixture
def grader(monkeypatch):
    """Makes the model that every name is resolved to."""

    def use(answer):
        model = Grader(answer)
        monkeypatch.setattr(regrading, "resolver", lambda file, benchmarks: lambda name: model)
        return model

    return use


def moves(*cells):
    return lambda messages, sampling: json.dumps({"moves": list(cells), "split_up": False})


def annotations(data, feature=None):
    found = cilab.open(data).annotations.collect()
    return found if feature is None else found.filter(pl.col("feature") == feature)


def again(look, data, **more):
    return look(data, show_progress=False, **more)


# -- the sample of appendix E ------------------------------------------------------------------------------


def rows(*cells):
    """Rows of runs: (version, model, partner, success, how many)."""
    out = [
        {"run_id": f"{v}-{m}-{p}-{s}-{i:03d}", "version": v, "model": m, "partner_model": p, "success": s}
        for v, m, p, s, n in cells
        for i in range(n)
    ]
    schema = {"run_id": pl.String, "version": pl.String, "model": pl.String, "partner_model": pl.String}
    nothing = {"effort": pl.String, "partner_effort": pl.String, "arm": pl.String, "relay_kind": pl.String}
    return pl.DataFrame(out, schema=schema | {"success": pl.Boolean}).with_columns(
        *(pl.lit(None, dtype).alias(name) for name, dtype in (nothing | {"relay_k": pl.Int64}).items())
    )


def sizes(chosen):
    return Counter(chosen.select("version", "model", "success").iter_rows())


def test_forty_solo_rollouts_a_model_are_ten_of_each_setting_and_success():
    cells = [(v, m, None, s, 60) for v in ("solo_full", "solo_distributed") for m in ("a", "b") for s in (True, False)]
    assert set(sizes(stratified(rows(*cells), 40, 0)).values()) == {10}
    assert stratified(rows(*cells), 40, 0).height == 80


def test_forty_dialogues_a_model_are_twenty_of_each_success():
    cells = [("pair", m, m, s, 60) for m in ("a", "b") for s in (True, False)]
    assert sizes(stratified(rows(*cells), 40, 0)) == {("pair", m, s): 20 for m in ("a", "b") for s in (True, False)}


def test_a_cell_with_fewer_gives_all_it_has_and_nothing_makes_up_for_it():
    chosen = stratified(rows(("pair", "a", "a", True, 95), ("pair", "a", "a", False, 5)), 40, 0)
    assert sizes(chosen) == {("pair", "a", True): 20, ("pair", "a", False): 5}


def test_the_sample_is_the_same_for_the_same_seed_and_another_for_another():
    table = rows(("pair", "a", "a", True, 95), ("solo_full", "a", None, False, 50))
    first = stratified(table, 40, 1)
    assert first.equals(stratified(table.sample(fraction=1.0, shuffle=True, seed=3), 40, 1))
    assert not first.equals(stratified(table, 40, 2))
    assert first["run_id"].is_sorted() and first.columns == table.columns


def test_rollouts_that_came_later_do_not_change_the_order_of_those_before():
    few = rows(("pair", "a", "a", True, 30))
    many = rows(("pair", "a", "a", True, 60))
    kept = set(stratified(many, 40, 0)["run_id"]) & set(few["run_id"])
    assert kept <= set(stratified(few, 40, 0)["run_id"])


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(0, 30), min_size=6, max_size=6),
    sample=st.integers(1, 60),
    seed=st.integers(0, 5),
)
def test_no_rollout_is_drawn_twice_and_each_cell_gives_its_share(counts, sample, seed):
    kinds = [
        (v, p, s) for v, p in (("solo_full", None), ("solo_distributed", None), ("pair", "a")) for s in (True, False)
    ]
    table = rows(*((v, "a", p, s, n) for (v, p, s), n in zip(kinds, counts, strict=True)))
    chosen = stratified(table, sample, seed)
    assert chosen["run_id"].is_unique().all() and set(chosen["run_id"]) <= set(table["run_id"])
    for (v, _, s), n in zip(kinds, counts, strict=True):
        quota = -(-sample // 4) if v.startswith("solo") else -(-sample // 2)
        assert sizes(chosen)[v, "a", s] == min(n, quota)


def test_rollouts_that_could_not_be_graded_do_not_stop_the_sample():
    table = rows(("pair", "a", "a", True, 5), ("pair", "a", "a", None, 5), ("pair", "b", "b", None, 5))
    assert stratified(table, 40, 0).height >= 5


# -- grading again by rules --------------------------------------------------------------------------------


def test_regrading_by_rules_gives_the_stored_outcome_of_every_rollout(data):
    summary = again(regrade, data, grader="rules")
    stored = cilab.open(data).runs.collect()
    assert summary.exit_code == 0 and summary.progress.ok == stored.height and summary.progress.calls == 0
    for feature, column in (("weighted_outcome", "weighted_outcome"), ("success", "success")):
        found = dict(annotations(data, feature).select("run_id", "value").iter_rows())
        assert found == dict(stored.select("run_id", pl.col(column).cast(pl.Float64)).iter_rows())


def test_a_regraded_rollout_has_one_row_a_feature(data):
    again(regrade, data, grader="rules")
    found = annotations(data)
    assert set(found["feature"]) >= {"weighted_outcome", "success", "n_valid", "split_up", "scheme", "grade_prompt"}
    assert found.select("run_id", "annotator", "repeat", "agent", "feature").is_unique().all()
    assert found.select("annotator", "repeat", "agent").unique().rows() == [("rules", 0, 0)]
    words = found.filter(pl.col("feature").is_in(["scheme", "grade_prompt"]))
    assert words["value"].null_count() == words.height and words["text"].null_count() == 0
    assert found.filter(~pl.col("feature").is_in(["scheme", "grade_prompt"]))["value"].null_count() == 0


def test_nothing_of_runs_messages_and_plan_changes_and_the_data_hash_tells(data, grader):
    before = {t: cilab.open(data).table(t).collect() for t in ("runs", "messages", "calls")}
    hashed = cilab.open(data).data_hash
    grader(moves("right"))
    again(regrade, data, grader="fake/g", sample=4)
    after = {t: cilab.open(data).table(t).collect() for t in before}
    assert all(before[t].equals(after[t]) for t in ("runs", "messages"))
    assert cilab.open(data).data_hash != hashed  # what was said of the runs is part of the data
    assert after["calls"].filter(pl.col("purpose") != "grade").equals(before["calls"])


@pytest.mark.parametrize("how", [{"grader": "rules"}, {"grader": "rules", "sample": 4}])
def test_the_studys_own_status_stays(data, how):
    before = cilab.status(data)
    again(regrade, data, **how)
    assert {k: cilab.status(data)[k] for k in ("study", "planned", "missing")} == {
        k: before[k] for k in ("study", "planned", "missing")
    }


def test_the_same_command_again_plays_nothing_and_adds_no_row(data):
    again(regrade, data, grader="rules")
    first = annotations(data).height
    summary = again(regrade, data, grader="rules")
    assert (summary.progress.stored, summary.progress.ok) == (summary.progress.planned, 0)
    assert annotations(data).height == first


# -- grading again with a model ----------------------------------------------------------------------------


def test_a_model_reads_each_dialogue_and_its_moves_are_graded(data, grader):
    model = grader(moves("right", "down"))
    again(regrade, data, grader="fake/g")
    runs = cilab.open(data).runs.collect()
    assert len(model.asked) == runs.height
    assert {(s.temperature, s.seed) for s in model.sampling} == {(0.5, 0)}
    found = dict(annotations(data, "weighted_outcome").select("run_id", "value").iter_rows())
    for row in runs.iter_rows(named=True):
        maze = maze_of_run(row["spec_json"])
        assert found[row["run_id"]] == grading.grade_moves(maze, ["right", "down"]).weighted_outcome


def test_its_calls_are_stored_with_what_was_sent_and_paid(data, grader):
    model = grader(moves("right"))
    summary = again(regrade, data, grader="fake/g", repeat=2, sample=4)
    calls = cilab.open(data).calls.filter(pl.col("purpose") == "grade").collect()
    assert calls.height == len(model.asked) == summary.progress.calls
    assert calls.select("run_id", "seat", "index").is_unique().all()
    assert set(calls["seat"]) == {"grade:fake/g#0", "grade:fake/g#1"}
    assert summary.progress.usd >= 0.25 * len(model.asked)
    sent = [json.loads(w)["messages"][0]["content"] for w in calls["wire_json"]]
    assert Counter(sent) == Counter(model.asked)


def test_the_same_command_with_a_model_again_calls_nothing(data, grader):
    grader(moves("right"))
    again(regrade, data, grader="fake/g", repeat=2, sample=4)
    rows_before = annotations(data).height
    model = grader(moves("left"))
    summary = again(regrade, data, grader="fake/g", repeat=2, sample=4)
    assert model.asked == [] and summary.progress.calls == 0 and annotations(data).height == rows_before


def test_more_repeats_call_only_for_those_that_are_new(data, grader):
    first = grader(moves("right"))
    again(regrade, data, grader="fake/g", sample=4)
    model = grader(moves("right"))
    again(regrade, data, grader="fake/g", sample=4, repeat=3)
    assert len(model.asked) == 2 * len(first.asked) and {s.seed for s in model.sampling} == {1, 2}
    assert set(annotations(data)["repeat"]) == {0, 1, 2}


def test_repeats_are_graded_independently(data, grader):
    grader(lambda messages, sampling: json.dumps({"moves": ["right"] * sampling.seed}))
    again(regrade, data, grader="fake/g", repeat=2)
    valid = annotations(data, "n_valid").group_by("repeat").agg(pl.col("value").max()).sort("repeat")
    assert valid["value"].to_list() == [0.0, 1.0]


def test_an_answer_that_cannot_be_read_twice_leaves_nulls_with_its_text(data, grader):
    model = grader(lambda messages, sampling: "It went well.")
    summary = again(regrade, data, grader="fake/g", sample=4)
    assert len(model.asked) == 2 * summary.progress.ok
    found = annotations(data)
    assert set(found["feature"]) == {"weighted_outcome", "success", "grade_prompt"}
    outcomes = found.filter(pl.col("feature") == "success")
    assert outcomes["value"].null_count() == outcomes.height and set(outcomes["text"]) == {"It went well."}


UNREADABLE = [(regrade, "grader", moves("right")), (annotate, "annotator", lambda *_: '{"reconciliation": "never"}')]


@pytest.mark.parametrize(("look", "who", "readable"), UNREADABLE)
def test_answers_none_of_which_could_be_read_are_counted_and_no_success(data, grader, capsys, look, who, readable):
    grader(lambda messages, sampling: "It went well.")
    name = look.__name__
    for _ in range(2):  # the second time from what is stored: nothing is asked
        assert cli.app([name, str(data), "--with", "fake/g", "--sample", "4"], standalone_mode=False) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        n = int(line.split(" of ")[0])
        assert n > 1 and line.endswith(f"; {n} answers could not be read")
    grader(readable)
    summary = again(look, data, sample=4, repeat=2, **{who: "fake/g"})
    assert (summary.exit_code, summary.answers, summary.unreadable) == (0, 2 * n, n)


def test_one_answer_that_could_not_be_read_is_counted_and_does_not_fail_the_others(data, grader, capsys):
    count = iter(range(10**6))
    grader(lambda messages, sampling: "Well." if next(count) < 2 else json.dumps({"moves": ["right"]}))
    study = data.parent / "one.yaml"
    study.write_text(STUDY.replace("blocks:", "concurrency: 1\nblocks:"), encoding="utf-8")
    args = ["regrade", str(data), "--with", "fake/g", "--study", str(study)]
    assert cli.app(args, standalone_mode=False) == 0
    assert capsys.readouterr().err.splitlines()[-1].endswith("; 1 answer could not be read")


def test_the_rules_read_everything(data):
    for look, who in ((regrade, "grader"), (annotate, "annotator")):
        summary = again(look, data, **{who: "rules"})
        assert (summary.exit_code, summary.unreadable) == (0, 0) and summary.answers == summary.progress.done


def test_what_second_looks_cost_is_in_the_status(data, grader):
    assert cilab.status(data)["usd"] == 0.0
    model = grader(moves("right"))
    again(regrade, data, grader="fake/g", sample=4)
    again(annotate, data, annotator="fake/g", sample=4)
    assert cilab.status(data)["usd"] == pytest.approx(0.25 * len(model.asked)) and len(model.asked) > 4


def test_what_second_looks_cost_is_counted_once_where_some_of_them_fail(data, grader):
    count = iter(range(10**6))
    model = grader(lambda messages, sampling: CallError("bad_request", "no") if next(count) % 3 == 2 else "Well.")
    summary = again(regrade, data, grader="fake/g", sample=4)
    assert summary.progress.errors > 0
    answered = sum(i % 3 != 2 for i in range(len(model.asked)))
    assert cilab.status(data)["usd"] == pytest.approx(0.25 * answered) == pytest.approx(summary.progress.usd)


def test_a_grader_that_fails_is_an_error_of_that_look_and_the_next_command_tries_it_again(data, grader):
    count = iter(range(10**6))
    failing = grader(lambda messages, sampling: CallError("bad_request", "no") if next(count) % 2 else '{"moves": []}')
    summary = again(regrade, data, grader="fake/g", sample=4)
    assert summary.exit_code == 1 and summary.missing == summary.progress.errors > 0
    healthy = grader(moves())
    assert again(regrade, data, grader="fake/g", sample=4).exit_code == 0
    assert len(healthy.asked) == summary.missing
    assert annotations(data, "success").height == len(failing.asked)
    assert set(cilab.open(data).runs.collect()["status"]) == {"ok"}


def test_a_budget_stops_a_regrading_and_the_next_command_goes_on(data, grader):
    spent = cilab.open(data).calls.select(pl.col("cost_usd").sum()).collect().item()
    model = grader(moves())
    summary = again(regrade, data, grader="fake/g", budget_usd=spent + 1.0)
    assert summary.exit_code == 3 and 4 <= len(model.asked) <= 12  # at most the provider's slots in flight
    rest = grader(moves())
    assert again(regrade, data, grader="fake/g").exit_code == 0
    assert len(model.asked) + len(rest.asked) == cilab.open(data).runs.collect().height


# -- annotating --------------------------------------------------------------------------------------------


def test_annotating_looks_at_dialogues_only_and_by_rules_finds_what_the_rules_find(data):
    again(annotate, data, annotator="rules")
    opened = cilab.open(data)
    runs = opened.runs.filter(pl.col("version").is_in(["pair", "relay"])).collect()
    found = annotations(data).filter(pl.col("feature") != "annotate_prompt")
    assert set(found["run_id"]) == set(runs["run_id"]) and set(found["agent"]) <= {0, 1, 2}
    messages = opened.messages.collect()
    for row in runs.head(5).iter_rows(named=True):
        said = messages.filter(pl.col("run_id") == row["run_id"]).sort("index").to_dicts()
        expected = annotating.annotate_rules(maze_of_run(row["spec_json"]), said)
        mine = found.filter(pl.col("run_id") == row["run_id"])
        assert sorted(mine.select("agent", "feature", "value").rows()) == sorted(
            (r["agent"], r["feature"], r["value"]) for r in expected
        )


def test_grading_and_annotating_stand_side_by_side(data):
    again(regrade, data, grader="rules")
    graded = annotations(data)
    again(annotate, data, annotator="rules")
    keys = ["run_id", "annotator", "repeat", "agent", "feature"]
    both = annotations(data)
    assert both.select(keys).is_unique().all()
    assert both.join(graded, on=keys, how="semi").height == graded.height


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_folder_without_finished_rollouts_is_told(tmp_path):
    with pytest.raises(CilabError, match="no such folder"):
        again(regrade, tmp_path / "none", grader="rules")
    (tmp_path / "tables").mkdir()
    with pytest.raises(StudyError, match="holds no finished maze rollout to grade"):
        again(regrade, tmp_path, grader="rules")


def test_an_unknown_grader_is_refused_before_anything_is_written(data):
    before = sorted(p for p in data.rglob("*.parquet"))
    with pytest.raises(CilabError) as e:
        again(regrade, data, grader="nobody")
    assert "\n" not in str(e.value) and "nobody" in str(e.value)
    assert sorted(p for p in data.rglob("*.parquet")) == before


@pytest.mark.parametrize(
    "how",
    [
        {"sample": 0},
        {"sample": -1},
        {"repeat": 0},
        {"repeat": -1},
    ],
)
def test_a_sample_or_repeat_below_one_is_refused(data, how):
    with pytest.raises(CilabError):
        again(regrade, data, grader="rules", **how)


def test_edited_prompts_are_another_annotator_and_the_earlier_rows_stay(data, grader, monkeypatch):
    grader(moves("right"))
    again(regrade, data, grader="fake/g", sample=4)
    before = set(annotations(data)["annotator"])
    monkeypatch.setattr("cilab.maze.texts.hashes", lambda names: dict.fromkeys(names, "edited"))
    again(regrade, data, grader="fake/g", sample=4)
    after = annotations(data)
    assert before == {"fake/g"} and len(set(after["annotator"])) == 2
    keys = ["run_id", "annotator", "repeat", "agent", "feature"]
    assert after.select(keys).is_unique().all()
