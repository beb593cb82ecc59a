"""When to ask again, how long to wait, and when to give up. A wrapper around any `ChatModel`.

The libraries' own retries are switched off: they multiply, ignore Retry-After and hide what happened.
May import `cilab.collect.model`. Never changes what is asked and never sleeps except through its clock.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cilab.collect.model import CallError, ChatModel, Completion, Message, Refusal, Sampling


class Clock(Protocol):
    """Time as the retries see it; tests bring one that does not wait."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up other calls."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a call is.

    Attributes
    ----------
    max_requests : most requests for one call, the first included.
    deadline_s : hard limit of one request.
    call_deadline_s : limit of all requests and waits of a call together (not of the time it stands in a
        limiter's queue). A wait that would pass it is not begun. None: five times `deadline_s`, at least 900.
    base_s, cap_s : the wait before request n + 1 is drawn between 0 and min(cap_s, base_s * 2**(n - 1)).
    """

    max_requests: int = 5
    deadline_s: float = 180.0
    call_deadline_s: float | None = None
    base_s: float = 1.0
    cap_s: float = 60.0

    def __post_init__(self) -> None:
        if self.max_requests < 1 or self.deadline_s <= 0:
            raise ValueError("max_requests must be at least 1 and deadline_s above 0")

    @property
    def patience_s(self) -> float:
        """Limit of the call as a whole."""
        return max(900.0, 5 * self.deadline_s) if self.call_deadline_s is None else self.call_deadline_s


#: Called with +1 when a wait before another request begins and -1 when it ends, in whatever way.
OnWait = Callable[[int], None]


class Deadline:
    """`model`, given up after `seconds` (above 0), with `latency_s` measured."""

    def __init__(self, model: ChatModel, seconds: float, clock: Clock):
        self.model, self.seconds, self.clock = model, seconds, clock
        self.name, self.provider = model.name, model.provider

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The model's answer, or CallError('timeout') with what was sent, where the model can tell."""
        begun = self.clock.now()
        try:
            async with asyncio.timeout(self.seconds) as deadline:
                answer = await self.model.complete(messages, tools=tools, sampling=sampling)
        except (CallError, Refusal) as error:
            error.latency_s = self.clock.now() - begun
            raise
        except TimeoutError:
            if not deadline.expired():
                raise
        else:
            return replace(answer, latency_s=self.clock.now() - begun)
        late = CallError("timeout", f"{self.name}: no answer within {self.seconds:.4g} s")
        late.latency_s = self.clock.now() - begun
        tell = getattr(self.model, "as_sent", None)
        if tell is not None:
            late.wire, late.sampling_honoured = tell(messages, sampling)
        raise late


class Retrying:
    """`model`, asked again where that may help.

    Parameters
    ----------
    model : what is asked. If it has `as_sent(messages, sampling) -> (wire, honoured)`, a request that
        ran into its deadline is recorded with it.
    policy, clock, rng : patience, time and chance (of the jitter alone).
    on_wait : told when a wait begins and ends, so that a progress bar can count calls that wait.
    within : wraps each request outside its deadline, such as a limiter: `lambda m: Limited(m, provider)`.
        Standing in its queue then uses up no deadline, and a call that waits to retry holds no slot.
    """

    def __init__(
        self,
        model: ChatModel,
        policy: RetryPolicy | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        on_wait: OnWait | None = None,
        within: Callable[[ChatModel], ChatModel] | None = None,
    ):
        self.name = model.name
        self.provider = model.provider
        self.policy = policy or RetryPolicy()
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.on_wait = on_wait
        once = Deadline(model, self.policy.deadline_s, self.clock)
        self._once: ChatModel = within(once) if within else once

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The model's answer, with `retries` and `latency_s` (of the last request alone) filled in.

        Raises
        ------
        Refusal
            The provider declined; never asked again.
        CallError
            A terminal kind, at once; or the last of the retryable ones when requests or time ran out.
        """
        cancellations = _cancellations()
        spent = 0.0
        request = 0
        while True:
            try:
                answer = await self._once.complete(messages, tools=tools, sampling=sampling)
                return replace(answer, retries=request)
            except Refusal as refusal:
                refusal.retries = request
                raise
            except CallError as error:
                error.retries = request
                request += 1
                wait = self._wait(request, error)
                spent += (error.latency_s or 0.0) + wait
                last = request >= self.policy.max_requests or spent >= self.policy.patience_s
                if last or not error.retryable:
                    raise
            # A model that swallowed a cancellation must not be asked again.
            if _cancellations() > cancellations:
                raise asyncio.CancelledError
            await self._sleep(wait)

    def _wait(self, request: int, error: CallError) -> float:
        """Full jitter on top of what the provider asked for, so that clients do not come back as one."""
        jitter = self.rng.uniform(0.0, min(self.policy.cap_s, self.policy.base_s * 2.0 ** (request - 1)))
        return max(error.retry_after_s or 0.0, 0.0) + jitter

    async def _sleep(self, seconds: float) -> None:
        if self.on_wait:
            self.on_wait(1)
        try:
            await self.clock.sleep(seconds)
        finally:
            if self.on_wait:
                self.on_wait(-1)


def _cancellations() -> int:
    """How often the running task was asked to stop."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0
