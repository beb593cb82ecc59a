"""Keys never get through, whatever they are wrapped in."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.core.redact import REDACTED, one_line, redact

KEY = "sk-proj-Ab3_dEf9hIjKlMnOpQrStUvWxYz"
plain = st.text("abcdefghij XYZ0189-_.:/\"'={}", max_size=30)
secrets = st.text("ABCDEFabcdef0123456789_-.+/", min_size=8, max_size=40).filter(lambda s: s not in REDACTED)


@given(
    before=plain,
    after=plain,
    secret=secrets,
    name=st.sampled_from(
        ["OPENAI_API_KEY", "HF_TOKEN", "MY_SECRET", "AWS_SECRET_ACCESS_KEY", "x_api_key2", "DB_PASSWORD"]
    ),
)
def test_the_value_of_a_key_like_variable_never_gets_through(before, after, secret, name):
    with mock.patch.dict(os.environ, {name: secret}, clear=True):
        out = redact(f"{before} {secret} {after}")
    assert secret not in out.replace(REDACTED, "")


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        f"{{'Authorization': 'Bearer {KEY}'}}",
        f'"authorization": "Bearer {KEY}"',
        f"authorization: Basic {KEY}",
        f"x-api-key: {KEY}",
        f"api_key={KEY}&model=x",
        f"https://generativelanguage.example/v1?key={KEY}",
        f"https://user:{KEY}@host/v1",
        f"https://{KEY}@host/v1",
        f"bearer {KEY}",
    ],
)
def test_headers_urls_and_key_shapes_are_taken_out_without_the_environment(text):
    with mock.patch.dict(os.environ, {}, clear=True):
        out = redact(text)
    assert KEY not in out
    assert KEY[8:] not in out
    assert REDACTED in out


@pytest.mark.parametrize(
    "secret",
    [
        "gsk_abcdEFGH1234ijkl",
        "hf_abcdEFGH1234ijkl",
        "xai-abcdEFGH1234ijkl",
        "AIzaSyA1234567890abcdefghij",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcDEF-123",
        "sk-ant-api03-abcdefgh",
        "sk-abcd****wxyz",
    ],
)
def test_key_shapes_of_other_providers_are_taken_out(secret):
    assert redact(f"got {secret} from you") == f"got {REDACTED} from you"


def test_a_key_passed_in_by_hand_is_taken_out():
    assert redact("the key tiny was wrong", "tiny", None) == f"the key {REDACTED} was wrong"


def test_a_longer_key_that_holds_a_shorter_one_leaves_no_rest():
    with mock.patch.dict(os.environ, {"A_API_KEY": "abcdefgh", "B_API_KEY": "abcdefghijkl"}, clear=True):
        assert redact("abcdefghijkl") == REDACTED


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens.",
        "Rate limit reached for gpt-4.1 in organization org on tokens per min.",
        "http://127.0.0.1:8000/v1/chat/completions failed",
        "task-risk-assessment and the basic idea",
    ],
)
def test_ordinary_texts_stay_as_they_are(text):
    with mock.patch.dict(os.environ, {"SHORT_TOKEN": "a", "HOME": "/home/someone"}, clear=True):
        assert redact(text) == text


def test_redacting_twice_changes_nothing_more():
    once = redact(f"Authorization: Bearer {KEY} https://u:{KEY}@h ?key={KEY}")
    assert redact(once) == once


def test_one_line_is_one_short_line_without_keys():
    out = one_line(f"first\n  second {KEY}\n" + "x" * 1000, limit=80)
    assert "\n" not in out
    assert len(out) == 80
    assert KEY not in out
