"""The LiteLLM adapter over real HTTP: each behaviour of a provider ends in the right kind, with one request."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from cilab.collect.answer import count
from cilab.collect.litellm_model import LiteLLMModel, load_litellm, retry_after_s, to_error
from cilab.collect.local_model import serve_local
from cilab.collect.model import CallError, Refusal, Sampling
from cilab.collect.retry import Retrying, RetryPolicy
from cilab.core.errors import StudyError
from cilab.core.registry import Price
from tests.collect.fault_server import BEHAVIOURS, Fault, FaultServer

# Warnings of the library under LiteLLM about the odd token counts; the adapter silences them outside of pytest.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")

KEY = "sk-test-0123456789abcdef"
ASKED = [{"role": "user", "content": "Where are you?"}]
SAMPLING = Sampling(temperature=0.5, max_tokens=64, seed=11)


@pytest.fixture(scope="module")
def loop():
    """One event loop in the background for the whole file, as in the lab: LiteLLM's clients belong to a loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)


@pytest.fixture
def ask(loop):
    def run(model, messages=ASKED, sampling=SAMPLING, tools=None):
        call = model.complete(messages, sampling=sampling, tools=tools)
        return asyncio.run_coroutine_threadsafe(call, loop).result(60)

    return run


@pytest.fixture
def server():
    with FaultServer() as running:
        yield running


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def model_at(server, name="openai/m", **options):
    return LiteLLMModel(name, api_base=server.url, api_key=KEY, **options)


class NoWait:
    """A clock whose waits are noted, not waited for."""

    def __init__(self):
        self.slept = []

    def now(self):
        return 0.0

    async def sleep(self, seconds):
        self.slept.append(seconds)


#: behaviour -> kind of CallError, or `refused`, or `ok`. Every behaviour of the server stands here.
EXPECTED = {
    "ok": "ok",
    "429": "rate_limit",
    "500": "server",
    "503_html": "server",
    "408": "timeout",
    "hang": "timeout",
    "cut": "connection",
    "drop": "connection",
    "truncated": "bad_response",
    "not_json": "bad_response",
    "no_choices": "bad_response",
    "empty_choices": "bad_response",
    "bad_tool_call": "ok",
    "tool_call": "ok",
    "empty": "ok",
    "null": "ok",
    "content_filter": "refused",
    "policy_400": "refused",
    "bad_request": "bad_request",
    "context_400": "context_overflow",
    "401": "auth",
    "403": "forbidden",
    "404": "not_found",
    "surrogates": "ok",
    "long": "ok",
    "wrong_usage": "ok",
    "no_usage": "ok",
}
RETRIED = {"rate_limit", "server", "timeout", "connection", "bad_response"}


def outcome(ask, model):
    try:
        answer = ask(model)
    except Refusal as refusal:
        return "refused", refusal
    except CallError as error:
        return error.kind, error
    return "ok", answer


def test_every_behaviour_of_the_server_has_an_expected_end():
    assert set(EXPECTED) == set(BEHAVIOURS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_one_call_is_one_request_and_ends_in_the_right_kind(behaviour, ask, server):
    server.script("m", [Fault("hang", seconds=5)] if behaviour == "hang" else [behaviour])
    once = Retrying(model_at(server), RetryPolicy(max_requests=1, deadline_s=0.7 if behaviour == "hang" else 30))
    kind, result = outcome(ask, once)
    assert kind == EXPECTED[behaviour]
    assert len(server.requests("m")) == 1
    assert [dict(m) for m in result.wire] == ASKED
    assert dict(result.sampling_honoured) == {"temperature": 0.5, "max_tokens": 64, "seed": 11}
    if kind not in ("ok", "refused"):
        assert "\n" not in str(result)
        assert KEY not in str(result)
        assert str(result).startswith("openai/m: ")
        assert (result.__cause__, result.__context__) == (None, None)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_with_retries_only_what_may_pass_is_asked_again(behaviour, ask, server):
    fault = Fault("hang", seconds=5) if behaviour == "hang" else behaviour
    server.script("m", [fault, fault, "ok"])
    clock = NoWait()
    model = Retrying(model_at(server), RetryPolicy(deadline_s=0.7 if behaviour == "hang" else 30), clock)
    kind, result = outcome(ask, model)
    if EXPECTED[behaviour] in RETRIED:
        assert (kind, result.retries, len(server.requests("m")), len(clock.slept)) == ("ok", 2, 3, 2)
    else:
        assert (kind, result.retries, len(server.requests("m"))) == (EXPECTED[behaviour], 0, 1)


def test_a_rate_limit_that_never_ends_costs_five_requests_and_waits_as_told(ask, server):
    server.script("m", [Fault("429", retry_after="7")], forever=True)
    clock = NoWait()
    kind, error = outcome(ask, Retrying(model_at(server), clock=clock))
    assert (kind, error.retry_after_s, error.retries, len(server.requests("m"))) == ("rate_limit", 7.0, 4, 5)
    assert len(clock.slept) == 4
    assert min(clock.slept) >= 7.0


def test_a_rate_limit_without_retry_after_says_none(ask, server):
    server.script("m", [Fault("429", retry_after=None)])
    _, error = outcome(ask, model_at(server))
    assert error.retry_after_s is None


def test_a_used_up_credit_is_not_asked_again(ask, server):
    server.script("m", [Fault("429", message="insufficient_quota: You exceeded your current quota.")])
    assert outcome(ask, model_at(server))[0] == "auth"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "Fri, 01 Jan 2027 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 31 Dec 2026 00:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers, seconds):
    assert retry_after_s(headers, datetime(2027, 1, 1, tzinfo=UTC)) == seconds


def test_what_is_sent_is_what_the_completion_says(ask, server):
    history = [{"role": "system", "content": "Rules."}, {"role": "assistant", "content": "Hi \ud800"}, *ASKED, *ASKED]
    answer = ask(model_at(server, system="fold"), history)
    (request,) = server.requests("m")
    assert request.body["messages"] == [dict(m) for m in answer.wire]
    assert [m["content"] for m in answer.wire] == ["Rules.", "Hi \ufffd", "Where are you?\n\nWhere are you?"]
    sent = {k: request.body[k] for k in ("temperature", "max_tokens", "seed")}
    assert sent == dict(answer.sampling_honoured)
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_max_tokens_is_always_sent_and_nothing_that_was_not_asked_for(ask, server):
    ask(model_at(server), sampling=Sampling())
    body = server.requests("m")[0].body
    assert set(body) == {"model", "messages", "max_tokens"}


def test_reasoning_effort_is_sent_where_the_model_takes_it(ask, server):
    answer = ask(model_at(server, effort="low"), sampling=Sampling(seed=1))
    assert server.requests("m")[0].body["reasoning_effort"] == "low"
    assert answer.sampling_honoured["effort"] == "low"
    answer = ask(model_at(server, "openai/gpt-4.1", effort="low"), sampling=Sampling(seed=1))
    assert "reasoning_effort" not in server.requests("gpt-4.1")[0].body
    assert "effort" not in answer.sampling_honoured


def test_settings_that_a_model_refuses_are_dropped_and_said_to_be():
    asked = Sampling(temperature=0.0, top_p=0.9, seed=3, max_tokens=100)
    _, reasoning = LiteLLMModel("openai/gpt-5").as_sent(ASKED, asked)
    assert reasoning == {"max_tokens": 100, "seed": 3}
    _, claude = LiteLLMModel("anthropic/claude-sonnet-4-5").as_sent(ASKED, asked)
    assert claude == {"temperature": 0.0, "top_p": 0.9, "max_tokens": 100}


def test_a_thinking_budget_comes_on_top_of_max_tokens_for_claude():
    """The provider refuses a limit that is not above the budget, and a temperature beside thinking."""
    asked = Sampling(temperature=0.0, max_tokens=4096, effort="high")
    _, sent = LiteLLMModel("anthropic/claude-sonnet-4-5").as_sent(ASKED, asked)
    assert sent["max_tokens"] > 4096
    assert "temperature" not in sent


def test_usage_is_as_the_provider_says_and_cached_tokens_are_part_of_the_input(ask, server):
    details = {"prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 30}}
    server.script(
        "m", [Fault("ok", usage={"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150, **details})]
    )
    answer = ask(model_at(server, price=Price(1.0, 10.0, 0.1)))
    usage = answer.usage
    assert (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_reasoning) == (100, 50, 60, 30)
    # 40 at 1, 60 at 0.1, 50 at 10 USD per million
    assert answer.cost_usd == pytest.approx((40 + 6 + 500) / 1e6)
    assert (answer.model_returned, answer.system_fingerprint) == ("m-2026-01-01", "fp_fault")


def test_cost_is_litellms_where_it_knows_the_model_and_unknown_elsewhere(ask, server):
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    server.script("gpt-4.1", [Fault("ok", usage=usage)])
    server.script("m", [Fault("ok", usage=usage)])
    known = load_litellm().model_cost["gpt-4.1"]
    expected = 1000 * known["input_cost_per_token"] + 100 * known["output_cost_per_token"]
    assert ask(model_at(server, "openai/gpt-4.1")).cost_usd == pytest.approx(expected)
    assert ask(model_at(server)).cost_usd is None


@pytest.mark.parametrize(
    "fault",
    [
        "wrong_usage",
        "no_usage",
        Fault("ok", usage={"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6}),
        Fault("ok", usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
        Fault("ok", usage={"prompt_tokens": 1.5, "completion_tokens": None, "total_tokens": 2}),
    ],
)
def test_nonsense_in_usage_is_unknown_and_the_paid_answer_is_kept(fault, ask, server):
    server.script("gpt-4.1", [fault])
    answer = ask(model_at(server, "openai/gpt-4.1"))
    assert len(answer.content) > 50
    assert (answer.usage.tokens_in, answer.usage.tokens_out, answer.cost_usd) == (None, None, None)
    assert len(server.requests("gpt-4.1")) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7), (0, 0), (7.0, 7), (-1, None), (True, None), ("7", None), (1.5, None), (None, None), ([], None)],
)
def test_a_token_count_is_a_whole_number_or_unknown(value, expected):
    assert count(value) == expected
    assert count(float("nan")) is None
    assert count(float("inf")) is None


def test_malformed_tool_arguments_are_an_answer(ask, server):
    tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}
    server.script(
        "m", ["bad_tool_call", "tool_call", Fault("tool_call", arguments="[1]"), Fault("tool_call", arguments="")]
    )
    model = model_at(server)
    bad, good, no_object, none = (ask(model, tools=[tool]).tool_calls[0] for _ in range(4))
    assert (bad.name, bad.arguments_json, bad.arguments) == ("read_file", '{"path": "a.tx', None)
    assert good.arguments == {"path": "a.txt"}
    assert no_object.arguments is None
    assert none.arguments == {}
    assert server.requests("m")[0].body["tools"] == [tool]


def test_malformed_arguments_in_the_history_are_sent_inside_valid_ones(ask, server):
    call = {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": '{"path'}}
    history = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "The arguments are no JSON."},
    ]
    ask(model_at(server), history)
    sent = server.requests("m")[0].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"malformed_arguments": '{"path'}


def test_empty_content_is_an_answer(ask, server):
    server.script("m", ["empty", "null"])
    assert [ask(model_at(server)).content for _ in range(2)] == ["", ""]


def test_a_refusal_in_words_is_an_answer(ask, server):
    server.script("m", [Fault("null", raw_message={"refusal": "I will not."})])
    assert ask(model_at(server)).content == "I will not."


def test_a_filtered_answer_keeps_what_it_cost(ask, server):
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    server.script("m", [Fault("content_filter", text="I am", usage=usage)])
    with pytest.raises(Refusal) as caught:
        ask(model_at(server, price=Price(1.0, 2.0, None)))
    assert caught.value.usage.tokens_out == 5
    assert caught.value.cost_usd == pytest.approx(20 / 1e6)


def test_content_is_valid_utf8_and_pairs_survive(ask, server):
    server.script("m", ["surrogates"])
    assert ask(model_at(server)).content == "a\ufffdb\ufffdc\ufffdd😀"


def test_200_kilobytes_travel_both_ways(ask, server):
    server.script("m", ["long"])
    sent = "word " * 40_000
    answer = ask(model_at(server), [{"role": "user", "content": sent}])
    assert len(answer.content) == 200_000
    assert server.requests("m")[0].body["messages"][0]["content"] == sent


def test_a_key_that_the_provider_repeats_does_not_get_through(ask, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "plainlookingkey99")
    server.script("m", ["401"])
    _, error = outcome(ask, LiteLLMModel("openai/m", api_base=server.url))
    assert server.requests("m")[0].headers["authorization"] == "Bearer plainlookingkey99"
    assert "plainlookingkey99" not in str(error)
    assert "Incorrect API key provided" in str(error)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/gpt-4.1", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_said_before_any_request(name, variable, ask, monkeypatch):
    async def fail(**_):
        raise AssertionError("a request was made")

    monkeypatch.setattr(load_litellm(), "acompletion", fail)
    model = LiteLLMModel(name)
    kind, error = outcome(ask, model)
    assert kind == "no_key"
    assert variable in str(error)
    with pytest.raises(CallError, match=variable):
        model.check_ready()


def test_a_server_of_ones_own_needs_no_key(ask, server):
    model = LiteLLMModel("openai/m", api_base=server.url)
    model.check_ready()
    assert len(ask(model).content) > 50


def test_nobody_listening_is_a_connection_error(ask):
    with FaultServer() as gone:
        url = gone.url
    kind, error = outcome(ask, LiteLLMModel("openai/m", api_base=url, api_key=KEY))
    assert kind == "connection", error


def test_cancelling_a_call_ends_it_at_once(loop, server):
    server.script("m", [Fault("hang", seconds=5)])

    async def main():
        task = asyncio.create_task(Retrying(model_at(server)).complete(ASKED, sampling=SAMPLING))
        await asyncio.to_thread(server.wait_for_requests, "m", 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 2)

    asyncio.run_coroutine_threadsafe(main(), loop).result(10)
    assert len(server.requests("m")) == 1


def test_many_calls_share_one_loop(loop, server):
    server.latency_s = 0.05

    async def main():
        model = model_at(server)
        return await asyncio.gather(*(model.complete(ASKED, sampling=Sampling(seed=i)) for i in range(24)))

    answers = asyncio.run_coroutine_threadsafe(main(), loop).result(60)
    assert len({a.content for a in answers}) == 24
    assert server.completions_served == 24
    assert server.most_in_flight > 4


def test_an_unknown_provider_is_one_clear_line():
    with pytest.raises(CallError, match="no such provider") as caught:
        LiteLLMModel("opnai/gpt-4.1")
    assert caught.value.kind == "setup"


def test_an_error_that_is_no_http_error_is_typed_too():
    assert to_error(ImportError("no module boto3", name="boto3"), "bedrock/x").kind == "setup"
    assert to_error(TypeError("odd"), "openai/m").kind == "bad_request"


def test_an_error_object_inside_the_text_gives_its_message_only():
    inner = '{"type": "error", "error": {"type": "x", "message": "Your credit balance is too low."}}'
    error = load_litellm().exceptions.BadRequestError(f"AnthropicException - {inner}", "claude", "anthropic")
    found = to_error(error, "anthropic/claude")
    assert found.kind == "auth"
    assert str(found).startswith("anthropic/claude: ")
    assert str(found).endswith("account: Your credit balance is too low.")


def test_litellm_is_quiet_and_not_imported_before_it_is_needed(server):
    """A failing call in a new process prints nothing, and the module alone loads no LiteLLM."""
    code = f"""
import asyncio, sys
import cilab.collect.models, cilab.collect.litellm_model
assert "litellm" not in sys.modules
from cilab.collect.litellm_model import LiteLLMModel
from cilab.collect.model import CallError, Sampling
async def main():
    model = LiteLLMModel("openai/m", api_base={server.url!r}, api_key="k")
    try:
        await model.complete([{{"role": "user", "content": "x"}}], sampling=Sampling())
    except CallError as error:
        assert error.kind == "server"
asyncio.run(main())
"""
    server.script("m", ["500"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_resolving_a_misspelt_model_names_the_nearest():
    from cilab.collect.models import resolve

    def simulated(profile):
        raise AssertionError(profile)

    with pytest.raises(StudyError, match=r"unknown provider 'opnai'.* Did you mean openai"):
        resolve("opnai/gpt-4.1", simulated=simulated)
    with pytest.raises(StudyError, match=r"unknown model 'gpt-4\.1-minni'.* Did you mean .*gpt-4\.1-mini"):
        resolve("gpt-4.1-minni", simulated=simulated)


def test_resolving_gives_the_four_kinds_of_model(tmp_path, monkeypatch):
    from cilab.collect.models import resolve

    (tmp_path / "agent_for_resolve.py").write_text("def answer(messages):\n    return 'yes'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    marker = object()
    asked = []
    assert resolve("sim/strong", simulated=lambda p: asked.append(p) or marker) is marker
    assert asked == ["strong"]
    known = {
        n: resolve(n, simulated=asked.append) for n in ("local/smollm2", "python:agent_for_resolve:answer", "gpt-4.1")
    }
    assert [m.provider for m in known.values()] == ["local", "python", "openai"]
    assert [m.name for m in known.values()] == list(known)
    priced = resolve("openai/gpt-4.1", simulated=asked.append, price=(1, 2, None), system="fold")
    assert (priced.price, priced.system) == (Price(1, 2, None), "fold")


def test_the_embedded_model_answers_over_its_own_http_server(ask):
    pytest.importorskip("xllamacpp")
    with serve_local("smollm2") as (api_base, api_key, alias):
        model = LiteLLMModel(f"openai/{alias}", api_base=api_base, api_key=api_key)
        answer = ask(model, sampling=Sampling(temperature=0.0, max_tokens=8, seed=1))
        kind, error = outcome(ask, LiteLLMModel(f"openai/{alias}", api_base=api_base, api_key="wrong-key-123"))
        too_long, _ = outcome(lambda m: ask(m, [{"role": "user", "content": "word " * 9000}]), model)
    assert answer.content
    assert answer.model_returned == alias
    assert 0 < answer.usage.tokens_out <= 8
    assert answer.usage.tokens_in > 10
    assert answer.cost_usd is None
    assert kind == "auth"
    assert "wrong-key-123" not in str(error)
    assert too_long == "context_overflow"
