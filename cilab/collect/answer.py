"""Reads a provider's answer in the OpenAI shape: text, tool calls, token counts, cost.

Distrusts everything: what is missing or nonsense becomes None, never 0, and what the model got
wrong (a tool call that is no JSON) is part of its answer. May import `cilab.collect.model`, `shape`, `redact` and
`cilab.core`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cilab.collect.model import Completion, ToolCall, Usage
from cilab.collect.shape import clean
from cilab.core.redact import hide_values

if TYPE_CHECKING:
    from cilab.core.registry import Price


def without_keys(answer: Completion, *known: str | None) -> Completion:
    """An answer in which no key of ours stands: a model may quote what a server or an agent's own code let it see."""

    def clear(text: str | None) -> str | None:
        return None if text is None else hide_values(text, *known)

    def call(made: ToolCall) -> ToolCall:
        text, arguments = hide_values(made.arguments_json, *known), made.arguments
        plain = json.dumps(arguments, ensure_ascii=False)  # where the JSON spells a key with escapes
        if text != made.arguments_json or plain != hide_values(plain, *known):
            text = hide_values(text if arguments is None else plain, *known)
            arguments = json_object(text)
        return ToolCall(hide_values(made.id, *known), hide_values(made.name, *known), text, arguments)

    return replace(
        answer,
        content=hide_values(answer.content, *known),
        tool_calls=tuple(map(call, answer.tool_calls)),
        finish_reason=hide_values(answer.finish_reason, *known),
        model_returned=clear(answer.model_returned),
        system_fingerprint=clear(answer.system_fingerprint),
    )


def cost_usd(price: Price, usage: Usage) -> float | None:
    """Cost of one call in USD by a price per million tokens; None where a count is not known.

    Cached tokens are part of `tokens_in`; without a price of their own they cost as much as the others.
    """
    if usage.tokens_in is None or usage.tokens_out is None:
        return None
    cached_price = price.usd_per_mtok_cached
    cached = min(usage.tokens_cached or 0, usage.tokens_in) if cached_price is not None else 0
    total = (usage.tokens_in - cached) * price.usd_per_mtok_in + usage.tokens_out * price.usd_per_mtok_out
    return (total + cached * (cached_price or 0.0)) / 1e6


def count(value: Any) -> int | None:
    """A token count, or None where it is missing, negative, a text, a bool or no whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and value >= 0 and value == int(value) else None


def usage_of(raw: Any, content: str = "") -> Usage:
    """Token counts of an answer's `usage` object (a mapping, or None).

    A prompt of 0 tokens, or 0 tokens for a text, is what libraries put where the provider said nothing: None.
    """
    usage = _mapping(raw)
    tokens_in, tokens_out = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    if not tokens_in:
        # Then the other count has the same origin, and its zero says nothing either.
        tokens_in, tokens_out = None, tokens_out or None
    if content and tokens_out == 0:
        tokens_out = None
    return Usage(
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_reasoning=count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        tokens_cached=count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )


def text_of(message: Mapping[str, Any]) -> str:
    """The text of an answer, valid UTF-8, '' where there is none.

    A list of parts is joined. A `refusal` field is the model declining in words: its text, where there is no other.
    """
    content = message.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = "".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    if not content and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    return clean(content) if isinstance(content, str) else ""


def tool_calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The tool calls of an answer; `arguments` is None where they are no JSON object."""
    out = []
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = _mapping(_mapping(call).get("function"))
        sent = function.get("arguments")
        text = clean(sent if isinstance(sent, str) else json.dumps(sent if sent is not None else {}))
        out.append(
            ToolCall(
                id=clean(str(_mapping(call).get("id") or f"call_{index}")),
                name=clean(str(function.get("name") or "")),
                arguments_json=text,
                arguments=json_object(text),
            )
        )
    return tuple(out)


def json_object(text: str) -> dict[str, Any] | None:
    """`text` parsed, if it is a JSON object; an empty text is an empty object (a call without arguments)."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    """`value` as a mapping; empty where it is none."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else {}
