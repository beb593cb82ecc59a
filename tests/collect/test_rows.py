"""Rows made from calls: deltas of what was sent, sums that know what they do not know, and round trips."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from cilab.collect.model import CallError, Completion, Refusal, Sampling, ToolCall, Usage
from cilab.collect.rows import (
    call_row,
    completion_from_payload,
    completion_payload,
    fitting,
    known_total,
    run_row,
    tool_call,
    total,
    wire_delta,
    wire_unfold,
)
from cilab.collect.spec import RunSpec, digest
from cilab.core.tables import frame

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": _TEXT},
    optional={"tool_call_id": _TEXT, "tool_calls": st.lists(st.fixed_dictionaries({"id": _TEXT}), max_size=2)},
)
_HISTORY = st.lists(_MESSAGE, max_size=6)


@given(before=_HISTORY, shared=st.integers(0, 6), more=_HISTORY, tools=st.none() | st.just([{"type": "function"}]))
def test_a_delta_unfolds_to_what_was_sent(before, shared, more, tools):
    wire = [*before[:shared], *more]
    delta = wire_delta(wire, tools, before, 7)
    assert wire_unfold(delta, before) == (wire, tools)
    assert wire_unfold(wire_delta(wire, tools, before, None), []) == (wire, tools)  # nothing to refer to: stored whole


def test_what_an_earlier_call_holds_is_named_and_not_repeated():
    first = [{"role": "user", "content": "long" * 100}]
    second = [*first, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert json.loads(wire_delta(second, None, first, 4)) == {"same_as": 4, "first": 1, "messages": second[1:]}
    assert json.loads(wire_delta(first, None, first, 4)) == {"same_as": 4, "first": 1, "messages": []}
    assert json.loads(wire_delta(second[::-1], None, first, 4)) == {"messages": second[::-1]}


def test_a_message_that_differs_anywhere_is_not_taken_for_the_same():
    old = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    new = [old[0], {"role": "assistant", "content": "B"}, old[2]]
    wire = json.loads(wire_delta(new, None, old, 0))
    assert (wire["first"], wire["messages"]) == (1, new[1:])


_ANSWER = st.builds(
    Completion,
    content=_TEXT,
    tool_calls=st.lists(
        st.builds(tool_call, _TEXT, _TEXT, st.sampled_from(["{}", '{"a": 1}', "[1]", "{", ""])), max_size=2
    ).map(tuple),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls"]),
    usage=st.builds(Usage, *(st.none() | st.integers(0, 10**6) for _ in range(4))),
    cost_usd=st.none() | st.floats(0, 100),
    model_returned=st.none() | _TEXT,
    system_fingerprint=st.none() | _TEXT,
    sampling_honoured=st.dictionaries(st.sampled_from(["seed", "max_tokens"]), st.integers(0, 9)),
    latency_s=st.floats(0, 1e4),
    retries=st.integers(0, 9),
)


def row_of(outcome, **more):
    known = {"run_id": "r", "index": 0, "seat": "1", "purpose": "play", "model": "a/m", "sampling": Sampling(seed=3)}
    return call_row(outcome, wire_json="{}", **(known | more))


@settings(max_examples=50)
@given(_ANSWER)
def test_an_answer_comes_back_from_the_journal_as_the_play_function_saw_it(answer):
    row = row_of(answer)
    frame("calls", [row])  # and its row fits the table
    assert completion_from_payload(from_json(to_json(completion_payload(row, answer)))) == answer


def test_a_failed_call_and_a_refusal_are_rows_with_their_reason():
    error = CallError("rate_limit", "slow down")
    error.retries, error.latency_s = 4, 1.5
    row = frame("calls", [row_of(error)]).row(0, named=True)
    assert (row["finish_reason"], row["error"], row["retries"], row["latency_s"]) == ("rate_limit", "slow down", 4, 1.5)
    assert (row["tokens_in"], row["cost_usd"], row["model_returned"]) == (None, None, None)
    row = frame("calls", [row_of(Refusal("filtered", Usage(10, 0), 0.01))]).row(0, named=True)
    assert (row["finish_reason"], row["error"], row["tokens_in"], row["cost_usd"]) == (
        "content_filter",
        "filtered",
        10,
        0.01,
    )


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (12.0, 12),
        (12.5, None),
        (-1, None),
        ("12", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (0, 0),
    ],
)
def test_a_token_count_that_is_none_is_unknown(said, kept):
    row = frame("calls", [row_of(Completion("x", usage=Usage(said, said, said, said)))]).row(0, named=True)
    assert [row[k] for k in ("tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached")] == [kept] * 4


@pytest.mark.parametrize(
    ("said", "kept"), [(1, 1.0), (0.0, 0.0), (-0.5, None), ("0.5", None), (float("nan"), None), (True, None)]
)
def test_a_cost_that_is_none_is_unknown_and_never_zero(said, kept):
    row = frame("calls", [row_of(Completion("x", cost_usd=said, model_returned=5))]).row(0, named=True)
    assert (row["cost_usd"], row["model_returned"]) == (kept, "5")


def test_rows_that_fit_are_kept_and_the_first_that_does_not_is_told():
    good = {"run_id": "r", "index": 0, "kind": "message", "seat": "1", "seat_kind": "under_test"}
    bad = [good | {"index": 1, "content": 5}, good | {"index": 2, "cost_usd": float("nan")}]
    labels = [{"run_id": "r", "index": 0, "rater": "final"}]
    kept, problem = fitting({"messages": [good, *bad], "labels": labels})
    assert kept == {"messages": [good], "labels": labels} and "content is 5" in problem
    assert fitting({"messages": [good]}) == ({"messages": [good]}, None)


def test_the_row_tells_the_sampling_asked_for_and_the_one_sent():
    row = row_of(Completion("x", sampling_honoured={"max_tokens": 64}), sampling=Sampling(temperature=0.0, seed=5))
    assert json.loads(row["sampling_asked"]) == {"temperature": 0.0, "max_tokens": 4096, "seed": 5}
    assert json.loads(row["sampling_honoured"]) == {"max_tokens": 64}


@pytest.mark.parametrize(
    ("sent", "arguments"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", None),
        ("3", None),
        ("", None),
        ('{"a": ', None),
        ("[" * 100_000, None),
        ('{"a": ' + "9" * 10_000 + "}", None),
        ('{"é": "🧭"}', {"é": "🧭"}),
    ],
)
def test_arguments_that_are_no_object_are_an_answer_like_any_other(sent, arguments):
    assert tool_call("c", "f", sent) == ToolCall("c", "f", sent, arguments)


def test_a_sum_with_an_unknown_part_is_unknown_and_of_nothing_zero():
    assert total([1, 2]) == 3 and total([]) == 0 and total([1, None]) is None
    assert known_total([1, None]) == 1 and known_total([None]) is None and known_total([]) is None


def spec(**more):
    known = {"task_hash": "h", "version": "pair", "model": "a/m", "seed": 0, "partner_model": "b/m"}
    return RunSpec("maze", "t", **(known | more))


def call(model="a/m", purpose="play", **more):
    return {"purpose": purpose, "model_asked": model, "tokens_in": 10, "tokens_out": 2, "cost_usd": 0.5} | more


def run(known, calls, **more):
    row = run_row(spec(**more), {"run_id": "r", "study": "s", "status": "ok"} | known, calls)
    return frame("runs", [row]).row(0, named=True)


def test_a_runs_cost_counts_the_seats_of_its_model_and_the_teams_cost_every_call():
    row = run({}, [call(), call("b/m"), call("a/m", "grade"), call()])
    assert (row["cost_usd"], row["cost_usd_team"], row["tokens_in"], row["tokens_out"]) == (1.0, 2.0, 40, 8)


def test_an_unknown_price_of_the_partner_leaves_the_models_own_cost_known():
    row = run({}, [call(), call("b/m", cost_usd=None, tokens_out=None)])
    assert (row["cost_usd"], row["cost_usd_team"], row["tokens_in"], row["tokens_out"]) == (0.5, None, 20, None)


def test_reasoning_and_cached_tokens_are_null_where_nobody_tells_and_else_the_known_part():
    assert run({}, [call()])["tokens_reasoning"] is None
    row = run({}, [call(tokens_reasoning=3, tokens_cached=4), call()])
    assert (row["tokens_reasoning"], row["tokens_cached"]) == (3, 4)


def test_a_run_without_calls_costs_nothing():
    row = run({}, [])
    assert (row["cost_usd"], row["cost_usd_team"], row["tokens_in"]) == (0.0, 0.0, 0)


def test_the_row_tells_the_whole_spec_and_what_the_benchmark_knew_in_advance():
    hints = {"maze_size": 6, "split": "public", "private": "not a column"}
    row = run({"score": 1.0}, [], hints=hints, settings={"prefix_run_id": "p", "size": 6})
    assert json.loads(row["spec_json"]) == spec(settings={"prefix_run_id": "p", "size": 6}).identity()
    assert (row["maze_size"], row["split"], row["prefix_run_id"], row["score"]) == (6, "public", "p", 1.0)
    assert row["spec_hash"] != run({}, [], hints={}, settings={"prefix_run_id": "p", "size": 6})["spec_hash"]


def test_digests_do_not_depend_on_the_order_of_keys_and_tell_types_apart():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) and len(digest(0)) == 24
    assert len({digest(v) for v in (1, "1", None, "", [], {}, [1], True)}) == 8
    with pytest.raises(ValueError):
        digest(float("nan"))
