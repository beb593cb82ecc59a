"""Per-provider limits: concurrency, requests and tokens a minute, and the provider that was stopped.

May import `cilab.collect.model`. A wrapper round a `ChatModel`; it never retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cilab.collect.model import CallError, ChatModel, Completion, Message, Refusal, Sampling, Usage


@dataclass(frozen=True, slots=True)
class Limit:
    """What one provider takes.

    Attributes
    ----------
    concurrency : most requests in flight.
    requests_per_minute, tokens_per_minute : rates, None for no limit. Tokens are known after the
        call only, so a call may overdraw; the next ones then wait until the debt is paid.
    """

    concurrency: int = 8
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def share(self, n: int) -> Limit:
        """What each of `n` processes may take so that together they keep the limit; one request in flight at least."""

        def part(rate: float | None) -> float | None:
            return None if rate is None else rate / n

        return Limit(max(1, self.concurrency // n), part(self.requests_per_minute), part(self.tokens_per_minute))


class Provider:
    """The shared state of one provider within one engine."""

    def __init__(self, name: str, limit: Limit, now: Callable[[], float] = time.monotonic, sleep: Any = asyncio.sleep):
        self.name = name
        self.limit = limit
        self.stopped: str | None = None
        self.waiting = 0
        self._slots = asyncio.Semaphore(limit.concurrency)
        self._now, self._sleep = now, sleep
        self._next_start = 0.0  # when the next request may start
        self._paid_at = 0.0  # when the tokens used so far are paid off

    async def enter(self) -> None:
        """Wait for a slot and for the rate; raise when the provider was stopped meanwhile."""
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        try:
            start = self._start()
            while self.stopped is None and (wait := max(start, self._paid_at) - self._now()) > 0:
                self.waiting += 1
                try:
                    await self._sleep(min(wait, 1.0))
                finally:
                    self.waiting -= 1
            if self.stopped is not None:
                raise CallError("auth", self.stopped)
        except BaseException:
            self._slots.release()
            raise

    def leave(self, tokens: int) -> None:
        """Give the slot back and account for the tokens used."""
        if self.limit.tokens_per_minute:
            self._paid_at = max(self._paid_at, self._now()) + tokens * 60.0 / self.limit.tokens_per_minute
        self._slots.release()

    def _start(self) -> float:
        """The next free moment of the request rate: each request has one of its own, so they do not bunch."""
        if not self.limit.requests_per_minute:
            return 0.0
        start = max(self._next_start, self._now())
        self._next_start = start + 60.0 / self.limit.requests_per_minute
        return start


class Limited:
    """A `ChatModel` that keeps to its provider's limits.

    A refused key stops the provider for all its models; a model that the key may not use stops alone.
    """

    def __init__(self, model: ChatModel, provider: Provider):
        self.name, self.provider = model.name, model.provider
        self._model, self._state = model, provider
        self._forbidden: str | None = None

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """As the wrapped model; raises CallError('auth') without a request once the provider is stopped."""
        if self._forbidden is not None:
            raise CallError("forbidden", self._forbidden)
        await self._state.enter()
        tokens = 0
        try:
            answer = await self._model.complete(messages, tools=tools, sampling=sampling)
            tokens = _tokens(answer.usage)
            return answer
        except Refusal as e:
            tokens = _tokens(e.usage)
            raise
        except CallError as e:
            if e.kind in ("auth", "no_key") and self._state.stopped is None:
                self._state.stopped = f"{self._state.name} was stopped: {e}"
            elif e.kind == "forbidden":
                self._forbidden = str(e)
            raise
        finally:
            self._state.leave(tokens)


def _tokens(usage: Usage) -> int:
    return (usage.tokens_in or 0) + (usage.tokens_out or 0)
