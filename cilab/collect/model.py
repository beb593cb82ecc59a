"""The one protocol through which every model is called, and what a call can come back with.

May import `cilab.core` only. Behaviour (retries, limits, the journal) is added by wrapping a
`ChatModel`, never by subclassing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, runtime_checkable

from cilab.core.errors import CilabError


class Message(TypedDict, total=False):
    """One chat message: role (system, user, assistant, tool), content, and for tools their ids."""

    role: str
    content: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings of a call. None means: the provider's default.

    Attributes
    ----------
    temperature, top_p : as the provider defines them.
    max_tokens : most completion tokens; always sent, since some providers default to very many.
    seed : passed to providers that take one, and the only source of chance of a simulated agent.
    effort : reasoning setting (the provider's own word).
    choices : the only answers that are wanted. A model that can be held to them (the local one, by a grammar) gives one
        of them word for word; others are not told, and their answer is read as it comes.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 4096
    seed: int | None = None
    effort: str | None = None
    choices: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The settings that are not None."""
        return {k: v for k in self.__slots__ if (v := getattr(self, k)) is not None}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. None where the provider does not say (or says nonsense), never 0 instead.

    `tokens_in` includes cached reads and writes, `tokens_out` includes reasoning: never add the parts.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_cached: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model made it.

    `arguments` is the parsed object, or None where `arguments_json` (as sent) is not a JSON object:
    that is the model's doing, an answer like any other, and the benchmark tells the model so.
    """

    id: str
    name: str
    arguments_json: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes
    ----------
    content : the text, valid UTF-8, '' where there was none.
    tool_calls : in order, maybe empty.
    finish_reason : stop, length, tool_calls or the provider's own word. A content filter is no
        completion: it raises `Refusal`.
    wire : the messages as sent, after normalisation (None: the messages as given).
    sampling_honoured : the settings that were really sent.
    cost_usd : None when no price is known, never 0 instead.
    latency_s : seconds from the request to its answer.
    retries : requests beyond the first.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model_returned: str | None = None
    system_fingerprint: str | None = None
    sampling_honoured: Mapping[str, Any] = field(default_factory=dict)
    wire: Sequence[Message] | None = None
    latency_s: float = 0.0
    retries: int = 0


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a list of messages.

    Attributes
    ----------
    name : the model string as the user wrote it, e.g. `openai/gpt-4.1`, `sim/strong`.
    provider : whose limits, key and outages it shares, e.g. `openai`, `sim`, `local`.
    """

    name: str
    provider: str

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampling: Sampling,
    ) -> Completion:
        """Answer `messages`. Raises `Refusal` or `CallError`, nothing else."""
        ...


class Refusal(CilabError):
    """The provider (not the model in words) declined to answer: a content filter."""

    def __init__(self, reason: str, usage: Usage | None = None, cost_usd: float | None = None):
        super().__init__(reason)
        self.usage = usage or Usage()
        self.cost_usd = cost_usd
        self.retries = 0
        self.latency_s: float | None = None
        self.wire: Sequence[Message] | None = None
        self.sampling_honoured: Mapping[str, Any] = {}


#: Kinds of failed calls. The first group may pass by itself, the second will not.
RETRYABLE = ("rate_limit", "timeout", "connection", "server", "bad_response")
TERMINAL = ("auth", "forbidden", "bad_request", "context_overflow", "not_found", "no_key", "setup")


class CallError(CilabError):
    """A call that brought no answer.

    Attributes
    ----------
    kind : one of RETRYABLE or TERMINAL.
    retry_after_s : the provider's Retry-After, seconds, where it gave one.
    retries, latency_s, wire, sampling_honoured : as in `Completion`, filled in by the wrappers.
    """

    def __init__(self, kind: str, message: str, *, retry_after_s: float | None = None):
        super().__init__(message)
        if kind not in RETRYABLE + TERMINAL:
            raise ValueError(f"unknown kind of call error: {kind}")
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.retries = 0
        self.latency_s: float | None = None
        self.wire: Sequence[Message] | None = None
        self.sampling_honoured: Mapping[str, Any] = {}

    @property
    def retryable(self) -> bool:
        """True where another try may help."""
        return self.kind in RETRYABLE
