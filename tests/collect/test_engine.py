"""The engine with play functions of the tests' own: what is durable, what is paid once, what ends how."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import polars as pl
import pytest

from cilab import store
from cilab.collect.engine import Engine, Job, rollout_job
from cilab.collect.limits import Limit
from cilab.collect.model import CallError, Completion, Refusal, Sampling, ToolCall, Usage
from cilab.collect.retry import RetryPolicy
from cilab.collect.spec import Requirement, RunSpec
from cilab.core.errors import StoreError
from cilab.store import journal


class Scripted:
    """A model that answers by a function and counts what it was asked."""

    def __init__(self, answer, provider="fake"):
        self.name, self.provider = f"{provider}/m", provider
        self.answer, self.asked = answer, []

    async def complete(self, messages, *, tools=None, sampling):
        self.asked.append([dict(m) for m in messages])
        answer = self.answer(messages)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        await asyncio.sleep(0)
        return Completion(answer, usage=Usage(10, 5), cost_usd=0.5)


def spec(i=0, version="alone", **more):
    return RunSpec("bench", f"t{i}", f"h{i}", version, "fake/m", 0, **more)


async def play(spec, seats, turns=4):
    model, history = seats.model(spec.model, "1"), [{"role": "user", "content": spec.task_id}]
    for turn in range(turns):
        answer = await model.complete(history, sampling=Sampling(seed=1))
        history += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "on"}]
        seats.rollout.messages.append(
            {"index": turn, "kind": "message", "seat": "1", "seat_kind": "under_test", "content": answer.content}
        )
    seats.rollout.run |= {"score": 1.0, "passed": True}
    return seats.rollout


def run(folder: Path, model, specs, play=play, **settings):
    settings.setdefault("policy", RetryPolicy(max_requests=2, base_s=0.0))
    engine = Engine(folder, study="s", resolve=lambda name: model, **settings)
    return asyncio.run(engine.run(lambda: [s if isinstance(s, Job) else rollout_job(s, play) for s in specs]))


def test_a_study_ends_with_a_row_per_spec_and_the_journal_empty(tmp_path):
    summary = run(tmp_path, Scripted(lambda m: "hello"), [spec(i) for i in range(5)])
    study = store.open_study(tmp_path)
    assert (summary.exit_code, summary.progress.ok) == (0, 5)
    assert set(study.runs.collect()["run_id"]) == {spec(i).run_id for i in range(5)}
    assert study.messages.collect().height == study.calls.collect().height == 20
    assert journal.read_finished(tmp_path) == [] and journal.count_unfinished(tmp_path) == (0, 0)
    row = study.runs.collect().row(0, named=True)
    assert (row["tokens_in"], row["cost_usd"], row["cost_usd_team"]) == (40, 2.0, 2.0)


def test_the_same_study_again_calls_nothing(tmp_path):
    run(tmp_path, Scripted(lambda m: "a"), [spec(i) for i in range(3)])
    model = Scripted(lambda m: "b")
    summary = run(tmp_path, model, [spec(i) for i in range(3)])
    assert model.asked == [] and summary.progress.done == 3


def test_an_interrupted_rollout_continues_inside_and_pays_nothing_twice(tmp_path):
    def stops_at_third(messages):
        if len(messages) == 5:
            raise KeyboardInterrupt  # stands for a death: nothing of the rollout is written
        return f"answer {len(messages)}"

    with pytest.raises(BaseException):  # noqa: B017
        run(tmp_path, Scripted(stops_at_third), [spec()])
    assert journal.count_unfinished(tmp_path) == (1, 2)
    model = Scripted(lambda m: f"answer {len(m)}")
    summary = run(tmp_path, model, [spec()])
    assert [len(m) for m in model.asked] == [5, 7]
    assert summary.progress.replayed == 2
    calls = store.open_study(tmp_path).calls.sort("index").collect()
    assert calls["index"].to_list() == [0, 1, 2, 3]
    assert store.open_study(tmp_path).runs.collect()["cost_usd"].to_list() == [2.0]


def test_an_error_is_typed_kept_with_its_answers_and_tried_again(tmp_path):
    failing = Scripted(lambda m: CallError("server", "boom") if len(m) == 5 else "fine")
    summary = run(tmp_path, failing, [spec()])
    assert summary.exit_code == 1 and summary.errors == {"server: boom": 1}
    row = store.open_study(tmp_path).runs.collect().row(0, named=True)
    assert (row["status"], row["score"], row["error"]) == ("error", None, "server: boom")
    assert len(failing.asked) == 4  # 2 answers, then 2 requests for the third
    calls = store.open_study(tmp_path).calls.sort("index").collect()
    assert calls["retries"].to_list() == [0, 0, 1] and calls["finish_reason"].to_list()[-1] == "server"
    healthy = Scripted(lambda m: "fine")
    assert run(tmp_path, healthy, [spec()]).exit_code == 0
    assert len(healthy.asked) == 2
    rows = store.open_study(tmp_path).runs.collect()
    assert rows["status"].to_list() == ["ok"]


def test_a_refusal_of_the_model_under_test_is_a_status_not_a_score(tmp_path):
    refusing = Scripted(lambda m: Refusal("content filter") if len(m) == 3 else "fine")
    summary = run(tmp_path, refusing, [spec()])
    row = store.open_study(tmp_path).runs.collect().row(0, named=True)
    assert (row["status"], row["refused_seat"], row["score"], row["passed"]) == ("refused", "1", None, None)
    assert summary.exit_code == 0 and len(refusing.asked) == 2
    assert store.open_study(tmp_path).messages.collect().height == 1


def test_a_judges_refusal_goes_to_its_fallback_and_else_is_an_error(tmp_path):
    def judged(fallbacks):
        async def play(spec, seats):
            judge = seats.model("bad/j", "referee", "judge", under_test=False, fallbacks=fallbacks)
            answer = await judge.complete([{"role": "user", "content": "?"}], sampling=Sampling())
            seats.rollout.run["outcome"] = answer.content
            return seats.rollout

        return play

    def resolve(name):
        return Scripted(lambda m: Refusal("no") if name == "bad/j" else "yes")

    for fallbacks, status, exit_code in ((("good/j",), "ok", 0), ((), "error", 1)):
        folder = tmp_path / status
        folder.mkdir()
        engine = Engine(folder, study="s", resolve=resolve)
        specs = [rollout_job(spec(), judged(fallbacks))]
        summary = asyncio.run(engine.run(lambda specs=specs: specs))
        assert summary.exit_code == exit_code
        assert store.open_study(folder).runs.collect()["status"].to_list() == [status]


def test_conditions_gate_what_depends_on_a_failed_run_and_wait_for_one_that_is_late(tmp_path):
    async def outcome(spec, seats):
        await seats.model(spec.model, "1").complete([{"role": "user", "content": "x"}], sampling=Sampling())
        passed = spec.task_id != "t1"
        seats.rollout.run |= {"score": float(passed), "passed": passed}
        return seats.rollout

    alone = [spec(i) for i in range(2)]
    tests = [spec(i, "test", requires=Requirement(alone[i].run_id, "passed")) for i in range(2)]
    model = Scripted(lambda m: "x")
    summary = run(tmp_path, model, [*tests, *alone], play=outcome, concurrency=3)
    rows = store.open_study(tmp_path).runs.collect()
    status = dict(rows.select(pl.col("task_id") + pl.col("version"), "status").iter_rows())
    assert status == {"t0alone": "ok", "t1alone": "ok", "t0test": "ok", "t1test": "gated_out"}
    assert len(model.asked) == 3 and summary.exit_code == 0
    gated = rows.filter(pl.col("status") == "gated_out").row(0, named=True)
    assert (gated["cost_usd"], gated["score"]) == (0.0, None)


def test_what_waits_for_a_failed_run_is_missing_not_gated(tmp_path):
    needed = spec(0)
    after = spec(1, requires=Requirement(needed.run_id))
    model = Scripted(lambda m: CallError("server", "x") if m[0]["content"] == "t0" else "y")
    summary = run(tmp_path, model, [needed, after])
    assert summary.missing == 2 and summary.exit_code == 1
    assert run(tmp_path, Scripted(lambda m: "y"), [needed, after]).exit_code == 0


def test_a_refused_key_stops_its_provider_and_not_the_study(tmp_path):
    bad = Scripted(lambda m: CallError("auth", "bad key"), provider="bad")
    good = Scripted(lambda m: "fine", provider="good")
    specs = [spec(i) for i in range(20)]
    specs += [RunSpec("bench", f"t{i}", "h", "alone", "good/m", 0) for i in range(3)]
    engine = Engine(
        tmp_path,
        study="s",
        resolve=lambda name: good if name == "good/m" else bad,
        limits={"bad": Limit(concurrency=2)},
    )
    summary = asyncio.run(engine.run(lambda: [rollout_job(s, play) for s in specs]))
    assert len(bad.asked) <= 2
    assert summary.progress.ok == 3 and summary.progress.errors == 20


def test_the_budget_stops_new_calls_and_the_next_session_goes_on(tmp_path):
    model = Scripted(lambda m: "x")
    summary = run(tmp_path, model, [spec(i) for i in range(50)], budget_usd=3.0, concurrency=2)
    assert summary.exit_code == 3
    assert 6 <= len(model.asked) <= 7  # 0.5 USD a call, at most one more in flight
    again = Scripted(lambda m: "x")
    summary = run(tmp_path, again, [spec(i) for i in range(50)])
    assert summary.exit_code == 0 and len(model.asked) + len(again.asked) == 200


def test_an_unknown_price_is_null_and_reported(tmp_path):
    unpriced = Scripted(lambda m: Completion("x", usage=Usage(1, 1)))
    summary = run(tmp_path, unpriced, [spec()])
    assert store.open_study(tmp_path).runs.collect()["cost_usd_team"].to_list() == [None]
    assert summary.progress.unpriced_calls == 4


def test_the_wire_is_stored_once_and_comes_back_whole(tmp_path):
    model = Scripted(lambda m: f"answer {len(m)}")
    run(tmp_path, model, [spec()])
    calls = store.open_study(tmp_path).calls.collect()
    for index, sent in enumerate(model.asked):
        assert store.wire_messages(calls, spec().run_id, "play", "1", index) == {"messages": sent}
    last = json.loads(calls.sort("index")["wire_json"][-1])
    assert (last["same_as"], len(last["messages"])) == (2, 2)


def test_tool_calls_survive_the_journal(tmp_path):
    call = ToolCall("c1", "edit", '{"a": 1}', {"a": 1})
    broken = ToolCall("c2", "edit", '{"a": ', None)
    seen = []

    async def tooled(spec, seats):
        model = seats.model(spec.model, "1")
        for _ in range(2):
            answer = await model.complete([{"role": "user", "content": "x"}], sampling=Sampling())
            seen.append(answer.tool_calls)
        return seats.rollout

    count = iter(range(9))
    model = Scripted(
        lambda m: Completion("", (call, broken), "tool_calls") if next(count) == 0 else CallError("bad_request", "x")
    )
    run(tmp_path, model, [spec()], play=tooled)
    run(tmp_path, Scripted(lambda m: "done"), [spec()], play=tooled)
    assert seen == [(call, broken), (call, broken), ()]


def test_a_bug_in_a_play_function_is_an_error_of_that_run_with_its_place(tmp_path):
    async def buggy(spec, seats):
        return {}["nothing"]

    summary = run(tmp_path, Scripted(lambda m: "x"), [spec()], play=buggy)
    assert summary.exit_code == 1
    (reason,) = summary.errors
    assert reason.startswith("KeyError") and "test_engine.py" in reason


def test_two_processes_cannot_write_one_study(tmp_path):
    held = journal.FolderLock(tmp_path)
    held.acquire()
    with pytest.raises(StoreError, match=r"another process \(pid \d+\)"):
        run(tmp_path, Scripted(lambda m: "x"), [spec()])
    held.release()
    assert run(tmp_path, Scripted(lambda m: "x"), [spec()]).exit_code == 0


def test_a_transcript_of_a_finished_run_is_read_wherever_it_is(tmp_path):
    first = spec(0)
    found = {}

    async def reader(spec, seats):
        found[spec.task_id] = [m["content"] for m in await seats.transcript(first.run_id)]
        return seats.rollout

    after = [spec(i, requires=Requirement(first.run_id)) for i in (1, 2)]
    run(tmp_path, Scripted(lambda m: "hello"), [rollout_job(first, play), rollout_job(after[0], reader)])
    run(tmp_path, Scripted(lambda m: "hello"), [rollout_job(first, play), rollout_job(after[1], reader)])
    assert found == {"t1": ["hello"] * 4, "t2": ["hello"] * 4}


def test_parts_are_written_while_the_study_runs(tmp_path):
    run(tmp_path, Scripted(lambda m: "x"), [spec(i) for i in range(25)], part_rollouts=10, concurrency=4)
    assert len(list((tmp_path / "tables" / "runs").glob("*.parquet"))) == 3
    assert store.open_study(tmp_path).runs.collect()["run_id"].n_unique() == 25


def test_a_rollout_whose_rows_fit_no_table_is_an_error_and_the_study_goes_on(tmp_path):
    async def unfit(spec, seats):
        rollout = await play(spec, seats)
        if spec.task_id == "t1":
            rollout.run["score"] = 85.0
        return rollout

    summary = run(tmp_path, Scripted(lambda m: "x"), [spec(i) for i in range(3)], play=unfit)
    assert (summary.progress.ok, summary.progress.errors) == (2, 1)
    (reason,) = summary.errors
    assert "score" in reason
    rows = store.open_study(tmp_path).runs.collect()
    assert sorted(rows["status"]) == ["error", "ok", "ok"] and rows["cost_usd_team"].sum() == 6.0
    assert run(tmp_path, Scripted(lambda m: "x"), [spec(i) for i in range(3)]).exit_code == 0


def test_a_gate_that_is_opened_later_plays_what_it_had_kept_out(tmp_path):
    async def fails(spec, seats):
        await seats.model(spec.model, "1").complete([{"role": "user", "content": "x"}], sampling=Sampling())
        seats.rollout.run |= {"score": 0.0, "passed": False}
        return seats.rollout

    alone, model = spec(0), Scripted(lambda m: "x")
    test = spec(0, "test", requires=Requirement(alone.run_id, "passed"))
    for _ in range(2):
        summary = run(tmp_path, model, [alone, test], play=fails)
        assert (summary.exit_code, summary.progress.gated_out) == (0, 1)
    assert run(tmp_path, model, [alone, spec(0, "test")], play=fails).exit_code == 0
    rows = store.open_study(tmp_path).runs.collect()
    assert dict(rows.select("version", "status").iter_rows()) == {"alone": "ok", "test": "ok"}
    assert len(model.asked) == 2


@pytest.mark.parametrize("n", [1, 3])
def test_a_stop_whose_calls_in_flight_finish_the_plan_is_the_end_and_no_interruption(tmp_path, n):
    engine = None

    def last(messages):
        if len(messages) == 7:  # the last call of its rollout, in flight when the stop comes
            engine.stop()
        return "fine"

    model = Scripted(last)
    engine = Engine(tmp_path, study="s", resolve=lambda name: model, concurrency=1)
    summary = asyncio.run(engine.run(lambda: [rollout_job(spec(i), play) for i in range(n)]))
    assert summary.missing == n - 1
    assert (summary.stopped, summary.exit_code) == ((None, 0) if n == 1 else ("interrupted", 130))


def test_the_totals_by_status_count_earlier_sessions_and_add_up_to_what_is_finished(tmp_path):
    refusing = Scripted(lambda m: Refusal("no") if m[0]["content"] in ("t0", "t3") else "fine")
    run(tmp_path, refusing, [spec(i) for i in range(3)])
    p = run(tmp_path, refusing, [spec(i) for i in range(2, 5)]).progress
    assert (p.by_status, p.done, p.stored) == ({"ok": 2, "refused": 1, "gated_out": 0}, 3, 1)
    p = run(tmp_path, refusing, [spec(i) for i in range(5)]).progress
    assert (p.by_status, p.done, p.ok, p.refused) == ({"ok": 3, "refused": 2, "gated_out": 0}, 5, 0, 0)
    assert p.usd == p.usd_before > 0
