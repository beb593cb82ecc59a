"""Inspect logs in and out: real logs of a mock model, without any network."""

from __future__ import annotations

import json

import polars as pl
import pytest

from cilab.datasets.importers.inspect import export_inspect, import_inspect
from cilab.datasets.importers.release import import_release
from cilab.datasets.importers.report import ImportFailed
from cilab.store import open_study

try:
    import inspect_ai
except ImportError:
    inspect_ai = None

needs_inspect = pytest.mark.skipif(inspect_ai is None, reason="inspect_ai is not installed (the extra `inspect`)")


@pytest.mark.skipif(inspect_ai is not None, reason="inspect_ai is installed")
def test_without_the_package_the_error_says_what_to_install(tmp_path, example):
    with pytest.raises(ImportFailed, match=r"pip install 'cilab\[inspect\]'"):
        import_inspect(tmp_path)
    with pytest.raises(ImportFailed, match=r"pip install 'cilab\[inspect\]'"):
        export_inspect(import_release(example), tmp_path)


def _answers():
    """What the mock model says: a tool call with or without words, then an answer, right two times of three."""
    from inspect_ai.model import ModelOutput, ModelUsage

    for i in range(40):
        words = "let me see" if i % 2 else None
        call = ModelOutput.for_tool_call("mockllm/model", "add", {"x": 1, "y": i}, content=words)
        call.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=18, input_tokens_cache_read=3)
        answer = ModelOutput.from_content("mockllm/model", "2" if i % 3 else "3 🙂")
        answer.usage = ModelUsage(input_tokens=20, output_tokens=7, total_tokens=27, reasoning_tokens=4)
        yield call
        yield answer


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with one .eval and one .json log: 2 samples x 2 epochs each."""
    if inspect_ai is None:
        pytest.skip("inspect_ai is not installed (the extra `inspect`)")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import generate, system_message, use_tools
    from inspect_ai.tool import tool

    @tool
    def add():
        async def execute(x: int, y: int) -> str:
            """Add two numbers.

            Args:
                x: the first
                y: the second
            """
            return str(x + y)

        return execute

    folder = tmp_path_factory.mktemp("logs")
    for log_format in ("eval", "json"):
        task = Task(
            name="adding",
            dataset=[
                Sample(id="s1", input="1+1?", target="2", metadata={"level": 1}),
                Sample(id=2, input="1+1", target="2"),
            ],
            solver=[system_message("Be brief."), use_tools([add()]), generate()],
            scorer=[match(), includes()],
            epochs=2,
        )
        model = get_model("mockllm/model", custom_outputs=_answers())
        eval(task, model=model, log_dir=str(folder), log_format=log_format, display="none", max_samples=1)
    return folder


def read(path):
    from inspect_ai.log import read_eval_log

    return read_eval_log(str(path), resolve_attachments="full")


def by_sample(log) -> dict:
    return {(str(s.id), s.epoch): s for s in log.samples}


@needs_inspect
def test_samples_and_epochs_are_runs_with_the_logs_own_numbers(logs):
    imported = import_inspect(logs)
    runs = imported.dataset.runs.collect()
    assert runs.height == 8 and imported.report.read == {"logs": 2, "samples > runs": 8}
    source = {s.uuid: s for f in sorted(logs.iterdir()) for s in read(f).samples}
    for run in runs.to_dicts():
        sample = source[run["run_id"]]
        assert (run["task_id"], run["seed"] + 1) == (str(sample.id), sample.epoch)
        usage = sample.model_usage["mockllm/model"]
        assert run["tokens_in"] == usage.input_tokens + (usage.input_tokens_cache_read or 0)
        assert (run["tokens_out"], run["tokens_cached"]) == (usage.output_tokens, usage.input_tokens_cache_read)
        assert run["score"] == {"C": 1.0, "I": 0.0}[sample.scores["match"].value]
        assert (run["benchmark"], run["model"], run["status"], run["version"]) == (
            "adding",
            "mockllm/model",
            "ok",
            "alone",
        )
    assert {0.0, 1.0} == set(runs["score"])


@needs_inspect
def test_another_scorer_can_be_the_score_and_all_are_annotations(logs):
    imported = import_inspect(logs, scorer="includes")
    runs, annotations = imported.dataset.runs.collect(), imported.dataset.annotations.collect()
    assert annotations.height == 16 and set(annotations["annotator"]) == {"match", "includes"}
    joined = runs.join(annotations.filter(pl.col("feature") == "includes"), on="run_id")
    assert (joined["score"] == joined["value"]).all()


@needs_inspect
def test_messages_and_tool_calls_are_events_in_their_order(logs):
    messages = import_inspect(logs).dataset.messages.collect()
    source = {s.uuid: s for f in sorted(logs.iterdir()) for s in read(f).samples}
    for (run_id,), rows in messages.group_by("run_id"):
        sample = source[run_id]
        calls = [c for m in sample.messages for c in (getattr(m, "tool_calls", None) or [])]
        assert [json.loads(t) for t in rows.filter(pl.col("kind") == "tool_call")["tool_input_json"]] == [
            c.arguments for c in calls
        ]
        assert rows.filter(pl.col("kind") == "tool_result")["tool_output"].to_list() == [
            m.text for m in sample.messages if m.role == "tool"
        ]
        assert rows.sort("index")["content"].drop_nulls().to_list() == [
            m.text for m in sample.messages if m.role != "tool" and (m.text or not getattr(m, "tool_calls", None))
        ]


@needs_inspect
@pytest.mark.parametrize("stored", [False, True])
def test_a_log_goes_in_and_out_unchanged(logs, tmp_path, stored):
    imported = import_inspect(logs)
    study = open_study(imported.save(tmp_path / "study")) if stored else imported
    written = export_inspect(study, tmp_path / "out")
    assert [w.stem for w in written] == sorted(f.stem for f in logs.iterdir())
    for path in written:
        before, after = read(next(f for f in logs.iterdir() if f.stem == path.stem)), read(path)
        assert after.eval == before.eval and after.results == before.results and after.status == "success"
        a, b = by_sample(before), by_sample(after)
        assert a.keys() == b.keys()
        for key in a:
            assert b[key].model_dump() == a[key].model_dump()


@needs_inspect
def test_a_study_of_ours_goes_out_and_comes_back_the_same(example, tmp_path):
    ours = import_release(example)
    written = export_inspect(ours, tmp_path / "out")
    assert len(written) == 6  # 2 models x 3 versions
    log = read(next(w for w in written if "test_gpt-6-astra" in w.name))
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(4 / 6)  # 1 of 3 and 3 of 3
    assert {m.role for s in log.samples for m in s.messages} == {"user", "assistant", "tool"}
    back = import_inspect(tmp_path / "out", name="release")
    for table, key in (
        ("runs", ["run_id"]),
        ("messages", ["run_id", "index"]),
        ("labels", ["run_id", "index", "rater"]),
    ):
        a, b = (x.dataset.table(table).collect().sort(key) for x in (ours, back))
        assert a.equals(b), table
    with pytest.raises(ImportFailed, match="is there already"):
        export_inspect(ours, tmp_path / "out")


@needs_inspect
def test_the_same_log_twice_is_counted_and_a_stray_file_is_named(logs, tmp_path):
    for file in logs.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / f"copy-{file.name}").write_bytes(file.read_bytes())
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "cut.eval").write_bytes(next(logs.glob("*.eval")).read_bytes()[:500])
    imported = import_inspect(tmp_path)
    assert imported.dataset.runs.collect().height == 8 and imported.report.doubled == 8
    assert imported.report.dropped == 2 and "other.json" in imported.text() and "cut.eval" in imported.text()
    with pytest.raises(ImportFailed, match="is no whole Inspect log"):
        import_inspect(tmp_path / "cut.eval")


@needs_inspect
def test_errors_refusals_and_scores_that_are_no_fraction_have_no_score(logs, tmp_path):
    from inspect_ai.log import write_eval_log
    from inspect_ai.scorer import Score

    log = read(next(logs.glob("*.eval")))
    log.samples[0].scores = {"match": Score(value=7)}
    log.samples[1].output.choices[0].stop_reason = "content_filter"
    log.samples[2].scores = None
    write_eval_log(log, str(tmp_path / "a.eval"))
    imported = import_inspect(tmp_path / "a.eval", events=False)
    rows = {r["run_id"]: r for r in imported.dataset.runs.collect().to_dicts()}
    found = [(rows[s.uuid]["status"], rows[s.uuid]["score"]) for s in log.samples[:3]]
    assert found == [("error", None), ("refused", None), ("error", None)]
    seven = imported.dataset.annotations.filter(pl.col("value") == 7).collect()
    assert seven["run_id"].to_list() == [log.samples[0].uuid]
    assert "events were left out" in imported.text() and '"events":' not in imported.extra["extra_json"][0]
