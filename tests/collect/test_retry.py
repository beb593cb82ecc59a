"""When a call is asked again: by kind, with which waits, and never after a cancellation."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.collect.model import RETRYABLE, TERMINAL, CallError, ChatModel, Completion, Refusal, Sampling
from cilab.collect.retry import Retrying, RetryPolicy

ASKED = [{"role": "user", "content": "hello"}]


class FakeClock:
    """Time that passes only when someone sleeps."""

    def __init__(self):
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Scripted:
    """A model that raises or answers what its script says; a number in the script is time that passes."""

    name, provider = "fake/model", "fake"

    def __init__(self, script, clock=None):
        self.script, self.clock, self.requests = list(script), clock, 0

    async def complete(self, messages, *, tools=None, sampling):
        self.requests += 1
        step = self.script.pop(0)
        while isinstance(step, int | float):
            self.clock.time += step
            step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        if callable(step):
            return await step()
        return step


def ask(model: ChatModel):
    return asyncio.run(model.complete(ASKED, sampling=Sampling()))


def retrying(model, clock, **policy):
    return Retrying(model, RetryPolicy(**policy), clock, random.Random(7))


@pytest.mark.parametrize("kind", RETRYABLE)
def test_a_kind_that_may_pass_is_asked_again(kind):
    clock = FakeClock()
    model = Scripted([CallError(kind, "x"), CallError(kind, "x"), Completion("yes")])
    answer = ask(retrying(model, clock))
    assert (answer.content, answer.retries, model.requests, len(clock.slept)) == ("yes", 2, 3, 2)


@pytest.mark.parametrize("error", [*(CallError(kind, "x") for kind in TERMINAL), Refusal("filtered")])
def test_what_will_not_pass_is_raised_at_once(error):
    clock = FakeClock()
    model = Scripted([error, Completion("never")])
    with pytest.raises(type(error)) as caught:
        ask(retrying(model, clock))
    assert caught.value is error
    assert (model.requests, clock.slept, error.retries) == (1, [], 0)


def test_requests_stop_at_the_most_allowed_and_the_last_error_is_raised():
    errors = [CallError("server", str(i)) for i in range(9)]
    model = Scripted(errors)
    with pytest.raises(CallError, match="4") as caught:
        ask(retrying(model, FakeClock(), max_requests=5))
    assert (model.requests, caught.value.retries) == (5, 4)


def test_a_refusal_after_retries_says_how_many():
    model = Scripted([CallError("server", "x"), Refusal("filtered")])
    with pytest.raises(Refusal) as caught:
        ask(retrying(model, FakeClock()))
    assert caught.value.retries == 1


@given(seed=st.integers(), retry_after=st.none() | st.floats(0, 30))
def test_waits_are_drawn_below_a_doubling_limit_on_top_of_retry_after(seed, retry_after):
    clock = FakeClock()
    model = Scripted([*(CallError("rate_limit", "x", retry_after_s=retry_after) for _ in range(6)), Completion("yes")])
    policy = RetryPolicy(max_requests=7, base_s=1.0, cap_s=8.0, call_deadline_s=1e6)
    ask(Retrying(model, policy, clock, random.Random(seed)))
    floor = retry_after or 0.0
    for wait, most in zip(clock.slept, [1, 2, 4, 8, 8, 8], strict=True):
        assert floor <= wait <= floor + most


def test_waits_are_spread_over_the_whole_range():
    waits = []
    for seed in range(400):
        clock = FakeClock()
        ask(Retrying(Scripted([CallError("server", "x"), Completion("y")]), None, clock, random.Random(seed)))
        waits += clock.slept
    assert min(waits) < 0.05
    assert max(waits) > 0.95
    assert 0.45 < sum(waits) / len(waits) < 0.55


def test_a_wait_that_would_pass_the_calls_deadline_is_not_begun():
    clock = FakeClock()
    model = Scripted([CallError("rate_limit", "x", retry_after_s=3600.0), Completion("never")])
    with pytest.raises(CallError) as caught:
        ask(retrying(model, clock, call_deadline_s=600.0))
    assert (model.requests, clock.slept, caught.value.retry_after_s) == (1, [], 3600.0)


def test_time_spent_in_requests_counts_against_the_calls_deadline():
    clock = FakeClock()
    slow = [60, CallError("server", "x")] * 5
    model = Scripted(slow, clock)
    with pytest.raises(CallError):
        ask(retrying(model, clock, call_deadline_s=150.0))
    assert model.requests == 3


def test_time_in_a_limiters_queue_counts_against_no_deadline():
    clock = FakeClock()

    class Queue:
        def __init__(self, model):
            self.name, self.provider, self.model = model.name, model.provider, model

        async def complete(self, messages, *, tools=None, sampling):
            clock.time += 10_000
            return await self.model.complete(messages, tools=tools, sampling=sampling)

    model = Scripted([CallError("server", "x"), CallError("server", "x"), Completion("yes")])
    wrapped = Retrying(model, RetryPolicy(), clock, random.Random(1), within=Queue)
    assert ask(wrapped).retries == 2


def test_latency_is_that_of_the_request_that_answered():
    clock = FakeClock()
    model = Scripted([30, CallError("server", "x"), 2, Completion("yes")], clock)
    assert ask(retrying(model, clock)).latency_s == 2


def test_a_request_that_hangs_is_given_up_and_asked_again():
    gone = []

    async def hang():
        try:
            await asyncio.sleep(60)
        finally:
            gone.append(True)

    model = Scripted([hang, Completion("yes")])
    answer = ask(retrying(model, FakeClock(), deadline_s=0.05))
    assert (answer.content, answer.retries, gone) == ("yes", 1, [True])


def test_hanging_for_ever_ends_as_a_timeout_that_says_what_was_sent():
    async def hang():
        await asyncio.sleep(60)

    model = Scripted([hang] * 3)
    model.as_sent = lambda messages, sampling: ([*messages], {"max_tokens": sampling.max_tokens})
    with pytest.raises(CallError, match=r"fake/model: no answer within 0\.05 s") as caught:
        ask(retrying(model, FakeClock(), deadline_s=0.05, max_requests=3))
    error = caught.value
    assert (error.kind, model.requests, error.retries) == ("timeout", 3, 2)
    assert (error.wire, error.sampling_honoured) == (ASKED, {"max_tokens": 4096})


def test_waiting_calls_are_counted_up_and_down():
    counts = []
    model = Scripted([CallError("server", "x"), CallError("server", "x"), Completion("yes")])
    ask(Retrying(model, clock=FakeClock(), on_wait=counts.append))
    assert counts == [1, -1, 1, -1]


def test_a_cancelled_wait_is_counted_down_and_never_asks_again():
    counts = []

    waiting = asyncio.Event()

    class Frozen(FakeClock):
        async def sleep(self, seconds):
            waiting.set()
            await asyncio.sleep(60)

    model = Scripted([CallError("server", "x"), Completion("never")])

    async def main():
        task = asyncio.create_task(
            Retrying(model, clock=Frozen(), on_wait=counts.append).complete(ASKED, sampling=Sampling())
        )
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (model.requests, counts) == (1, [1, -1])


def test_a_cancellation_that_the_model_swallowed_still_ends_the_call():
    started = asyncio.Event()

    async def swallow():
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise CallError("connection", "closed") from None

    model = Scripted([swallow, Completion("never")])

    async def main():
        task = asyncio.create_task(Retrying(model, clock=FakeClock()).complete(ASKED, sampling=Sampling()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert model.requests == 1


def test_an_error_of_the_program_is_neither_hidden_nor_asked_again():
    model = Scripted([KeyError("bug"), Completion("never")])
    with pytest.raises(KeyError):
        ask(retrying(model, FakeClock()))
    assert model.requests == 1


def test_a_policy_without_patience_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        RetryPolicy(max_requests=0)
