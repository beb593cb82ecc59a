"""Limits of a provider: how many requests at once, how fast, and what stops them. The clock is the tests' own."""

from __future__ import annotations

import asyncio

import pytest

from cilab.collect.limits import Limit, Limited, Provider
from cilab.collect.model import CallError, Completion, Refusal, Sampling, Usage


class Clock:
    """Time that passes only while everybody sleeps."""

    def __init__(self):
        self.time = 0.0
        self._sleepers = []

    def now(self):
        return self.time

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.time + seconds, woken))
        await woken

    async def run(self, *coroutines):
        tasks = [asyncio.ensure_future(c) for c in coroutines]
        while not all(t.done() for t in tasks):
            for _ in range(50):
                await asyncio.sleep(0)
            if self._sleepers and not all(t.done() for t in tasks):
                self.time = min(at for at, _ in self._sleepers)
                for at, woken in self._sleepers:
                    if at <= self.time and not woken.done():
                        woken.set_result(None)
                self._sleepers = [s for s in self._sleepers if not s[1].done()]
        return await asyncio.gather(*tasks, return_exceptions=True)


class Model:
    """Answers after `seconds` and remembers when it was asked."""

    def __init__(self, clock, seconds=0.0, usage=None, error=None):
        self.name, self.provider = "p/m", "p"
        self.clock, self.seconds, self.usage, self.error = clock, seconds, usage or Usage(), error
        self.asked, self.now, self.most = [], 0, 0

    async def complete(self, messages, *, tools=None, sampling):
        self.asked.append(round(self.clock.now(), 6))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.seconds:
                await self.clock.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            return Completion("x", usage=self.usage)
        finally:
            self.now -= 1


def setup(limit, **model):
    clock = Clock()
    provider = Provider("p", limit, clock.now, clock.sleep)
    asked = Model(clock, **model)
    return clock, provider, asked, Limited(asked, provider)


def call(model):
    return model.complete([{"role": "user", "content": "?"}], sampling=Sampling())


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_requests_are_in_flight_than_allowed(most):
    clock, _, asked, model = setup(Limit(concurrency=most), seconds=1.0)
    asyncio.run(clock.run(*(call(model) for _ in range(7))))
    assert asked.most == most and len(asked.asked) == 7
    assert clock.time == -(-7 // most)


def test_models_of_one_provider_share_its_slots():
    clock, provider, first, model = setup(Limit(concurrency=2), seconds=1.0)
    second = Limited(first, provider)
    asyncio.run(clock.run(*(call(m) for m in (model, second) * 3)))
    assert first.most == 2


def test_requests_of_a_rate_start_at_even_distances_and_the_first_at_once():
    clock, _, asked, model = setup(Limit(concurrency=4, requests_per_minute=10))
    asyncio.run(clock.run(*(call(model) for _ in range(6))))
    assert asked.asked == [0, 6, 12, 18, 24, 30]


def test_slow_answers_do_not_delay_the_rate_while_slots_are_free():
    clock, _, asked, model = setup(Limit(concurrency=8, requests_per_minute=60), seconds=5.0)
    asyncio.run(clock.run(*(call(model) for _ in range(6))))
    assert asked.asked == [0, 1, 2, 3, 4, 5]


def test_a_pause_is_not_made_up_for_by_a_burst():
    clock, _, asked, model = setup(Limit(concurrency=4, requests_per_minute=60))

    async def late():
        await clock.sleep(30.0)
        await asyncio.gather(*(call(model) for _ in range(3)))

    asyncio.run(clock.run(call(model), late()))
    assert asked.asked == [0, 30, 31, 32]


def test_tokens_used_are_paid_off_before_the_next_request():
    clock, _, asked, model = setup(Limit(concurrency=1, tokens_per_minute=600), usage=Usage(80, 20))
    asyncio.run(clock.run(*(call(model) for _ in range(3))))
    assert asked.asked == [0, 10, 20]  # 100 tokens at 10 a second


def test_a_refusals_tokens_count_and_unknown_ones_do_not():
    refused = Refusal("no", Usage(100, None))
    clock, _, asked, model = setup(Limit(concurrency=1, tokens_per_minute=600), error=refused)
    asyncio.run(clock.run(call(model), call(model)))
    assert asked.asked == [0, 10]
    clock, _, asked, model = setup(Limit(concurrency=1, tokens_per_minute=600), usage=Usage(None, None))
    asyncio.run(clock.run(call(model), call(model)))
    assert asked.asked == [0, 0]


@pytest.mark.parametrize("kind", ["auth", "no_key"])
def test_a_refused_key_stops_the_provider_for_all_its_models_and_those_in_the_queue(kind):
    clock, provider, asked, model = setup(Limit(concurrency=1), seconds=1.0, error=CallError(kind, "bad key"))
    other = Limited(asked, provider)
    found = asyncio.run(clock.run(call(model), call(other), call(model)))
    assert len(asked.asked) == 1
    assert [e.kind for e in found] == [kind, "auth", "auth"]
    assert str(found[1]) == str(found[2]) == "p was stopped: bad key"


def test_a_stopped_provider_is_noticed_while_waiting_for_the_rate():
    clock, provider, asked, model = setup(Limit(concurrency=4, requests_per_minute=1))

    async def stop():
        await clock.sleep(2.0)
        provider.stopped = "over"

    found = asyncio.run(clock.run(call(model), call(model), stop()))
    assert asked.asked == [0] and isinstance(found[1], CallError) and clock.time < 5


def test_a_forbidden_model_stops_alone():
    clock, provider, asked, model = setup(Limit(), error=CallError("forbidden", "not yours"))
    found = asyncio.run(clock.run(call(model)))
    again = asyncio.run(clock.run(call(model)))
    assert [e.kind for e in found + again] == ["forbidden", "forbidden"] and len(asked.asked) == 1
    assert provider.stopped is None


@pytest.mark.parametrize("kind", ["rate_limit", "server", "bad_request", "context_overflow"])
def test_other_errors_stop_nothing(kind):
    clock, provider, asked, model = setup(Limit(), error=CallError(kind, "x"))
    asyncio.run(clock.run(call(model), call(model)))
    assert len(asked.asked) == 2 and provider.stopped is None


def test_a_slot_comes_back_whatever_ends_the_call():
    clock, provider, asked, model = setup(Limit(concurrency=1, requests_per_minute=600), seconds=1.0)

    async def cancelled():
        task = asyncio.ensure_future(call(model))
        waits = asyncio.ensure_future(call(model))
        for _ in range(5):
            await asyncio.sleep(0)
        waits.cancel()
        task.cancel()
        await asyncio.gather(task, waits, return_exceptions=True)
        await call(model)

    asyncio.run(clock.run(cancelled()))
    assert len(asked.asked) == 2 and provider.waiting == 0


def test_waiting_calls_are_counted():
    clock, provider, _, model = setup(Limit(concurrency=2, requests_per_minute=60), seconds=10.0)
    counts = []

    async def look():
        await clock.sleep(0.5)
        counts.append(provider.waiting)
        await clock.sleep(5.0)
        counts.append(provider.waiting)

    asyncio.run(clock.run(*(call(model) for _ in range(5)), look()))
    assert counts == [4, 3]  # one waits for the rate and three for a slot; then both slots are taken
    assert provider.waiting == 0
