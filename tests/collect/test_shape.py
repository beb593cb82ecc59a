"""The shape of messages: what every provider takes, whatever it is made from."""

from __future__ import annotations

import copy
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.collect.shape import EMPTY, NO_RESULT, START, clean, clean_json, normalise

# Any code point, lone surrogates and NUL included.
any_text = st.text(
    st.characters(codec=None) | st.sampled_from(["\ud800", "\udfff", "\x00", "\ud83d", "\ude00", " ", "\n"]),
    max_size=12,
)
call = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "c"]),
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.just("read"), "arguments": any_text}),
    }
)
message = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant"])},
        optional={"content": any_text | st.none()},
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": any_text | st.none(), "tool_calls": st.lists(call, max_size=3)}
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": any_text, "tool_call_id": st.sampled_from(["a", "b", "c", "d"])},
        optional={"name": any_text},
    ),
)
histories = st.lists(message, max_size=10)
systems = st.sampled_from(["keep", "fold"])


@given(histories, systems)
def test_any_history_gets_the_shape_that_providers_take(history, system):
    out = normalise(history, system=system)
    roles = [m["role"] for m in out]
    if roles[0] == "system":
        assert system == "keep"
        roles = roles[1:]
    assert roles[0] == "user"
    assert set(roles) <= {"user", "assistant", "tool"}
    for before, after in itertools.pairwise(roles):
        assert before != after or before == "tool"
    json.dumps(out, ensure_ascii=False).encode()
    for m in out:
        assert m["content"].strip() or m.get("tool_calls")
        assert "\x00" not in m["content"]


@given(histories, systems)
def test_each_tool_call_is_followed_by_its_results_and_no_other(history, system):
    out = normalise(history, system=system)
    at = 0
    while at < len(out):
        calls = [c["id"] for c in out[at].get("tool_calls", [])]
        results = []
        at += 1
        while at < len(out) and out[at]["role"] == "tool":
            results.append(out[at]["tool_call_id"])
            at += 1
        assert results == calls


@given(histories, systems)
def test_normalising_twice_changes_nothing_more(history, system):
    once = normalise(history, system=system)
    assert normalise(once, system=system) == once


@given(histories, systems)
def test_the_input_is_left_as_it_was(history, system):
    before = copy.deepcopy(history)
    normalise(history, system=system)
    assert history == before


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.integers(0, 999)), max_size=12), systems)
def test_no_text_is_lost_or_reordered(parts, system):
    history = [{"role": role, "content": f"<{i}:{n}>"} for i, (role, n) in enumerate(parts)]
    text = "\n\n".join(m["content"] for m in normalise(history, system=system))
    places = [text.find(m["content"]) for m in history]
    assert -1 not in places
    assert places == sorted(places)


@given(any_text)
def test_clean_text_is_utf8_without_nul_and_clean_once_is_enough(text):
    out = clean(text)
    out.encode()
    assert "\x00" not in out
    assert clean(out) == out


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_good_text_is_left_alone(text):
    assert clean(text) == text


def test_surrogate_pairs_are_joined_and_lone_ones_replaced():
    assert clean("\ud83d\ude00 \ud83d! \ude00") == "😀 \ufffd! \ufffd"
    assert clean_json({"\ud800": ["\udc00", 1, None, True]}) == {"\ufffd": ["\ufffd", 1, None, True]}


def test_a_dialogue_that_already_fits_stays_as_it_is():
    history = [
        {"role": "system", "content": "Rules."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello too."},
        {"role": "user", "content": "Go on."},
    ]
    assert normalise(history) == history


def test_system_messages_lead_or_are_folded_into_the_first_user_message():
    history = [
        {"role": "system", "content": "One."},
        {"role": "developer", "content": "Two."},
        {"role": "user", "content": "Hello."},
    ]
    assert normalise(history) == [{"role": "system", "content": "One.\n\nTwo."}, {"role": "user", "content": "Hello."}]
    assert normalise(history, system="fold") == [{"role": "user", "content": "One.\n\nTwo.\n\nHello."}]


def test_a_system_message_in_the_middle_becomes_user_text_at_its_place():
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    assert normalise(history)[2:] == [{"role": "user", "content": "c\n\nd"}]


@pytest.mark.parametrize(
    ("history", "kept", "folded"),
    [
        ([], [("user", START)], [("user", START)]),
        ([{"role": "system", "content": "S"}], [("system", "S"), ("user", START)], [("user", "S")]),
        (
            [{"role": "system", "content": "S"}, {"role": "assistant", "content": "A"}],
            [("system", "S"), ("user", START), ("assistant", "A")],
            [("user", "S"), ("assistant", "A")],
        ),
        ([{"role": "user", "content": None}], [("user", EMPTY)], [("user", EMPTY)]),
        ([{"role": "user", "content": " "}, {"role": "user", "content": "x"}], [("user", "x")], [("user", "x")]),
    ],
)
def test_histories_without_a_first_user_message_get_one(history, kept, folded):
    assert [(m["role"], m["content"]) for m in normalise(history)] == kept
    assert [(m["role"], m["content"]) for m in normalise(history, system="fold")] == folded


def test_tool_calls_and_their_results_are_kept_and_orphans_become_user_text():
    calls = [{"id": "1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"'}}]
    history = [
        {"role": "user", "content": "go"},
        {"role": "tool", "tool_call_id": "9", "name": "mail", "content": "sent"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "7", "content": "stray"},
        {"role": "tool", "tool_call_id": "1", "name": "read", "content": "text"},
        {"role": "assistant", "content": "done"},
    ]
    out = normalise(history)
    assert [m["role"] for m in out] == ["user", "assistant", "tool", "user", "assistant"]
    assert out[0]["content"] == "go\n\nResult of mail:\nsent"
    assert out[1]["tool_calls"] == calls
    assert out[2] == {"role": "tool", "tool_call_id": "1", "name": "read", "content": "text"}
    assert out[3]["content"] == "Result of a tool:\nstray"


def test_a_tool_call_without_a_result_gets_a_stated_one():
    calls = [{"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    assert normalise(history)[-1] == {"role": "tool", "tool_call_id": "1", "content": NO_RESULT}


def test_parts_of_a_content_list_are_joined():
    history = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert normalise(history) == [{"role": "user", "content": "a\n\nb"}]


def test_another_way_to_treat_system_messages_is_refused():
    with pytest.raises(ValueError, match="fold"):
        normalise([], system="drop")
