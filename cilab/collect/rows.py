"""Rows for the tables from what the engine saw: calls, run rows, wire messages with shared prefixes.

May import `cilab.core`, `cilab.collect.model` and `cilab.collect.spec`. Pure functions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from cilab.collect.model import CallError, Completion, Message, Refusal, Sampling, ToolCall
from cilab.collect.spec import RunSpec, digest
from cilab.core.errors import TableError
from cilab.core.tables import RUNS, check_rows

_USAGE = ("tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached")


def wire_delta(wire: Sequence[Message], tools: Any, before: Sequence[Message], before_index: int | None) -> str:
    """JSON of messages as sent; what an earlier call of the seat already holds is named, not repeated."""
    shared = 0
    for old, new in zip(before, wire, strict=False):
        if old != new:
            break
        shared += 1
    out: dict[str, Any] = {}
    if before_index is not None and shared:
        out = {"same_as": before_index, "first": shared}
    out["messages"] = list(wire[shared:]) if out else list(wire)
    if tools:
        out["tools"] = list(tools)
    return to_json(out).decode()


def wire_unfold(wire_json: str, before: Sequence[Message]) -> tuple[list[Message], list[Any] | None]:
    """(messages, tools) of a call, given the messages of the call that its delta names."""
    wire = json.loads(wire_json)
    return [*before[: wire.get("first", 0)], *wire["messages"]], wire.get("tools")


def call_row(
    outcome: Completion | CallError | Refusal,
    *,
    run_id: str,
    index: int,
    seat: str,
    purpose: str,
    model: str,
    sampling: Sampling,
    wire_json: str,
) -> dict[str, Any]:
    """A row of the calls table for an answer, a refusal or a failed call."""
    row: dict[str, Any] = {
        "run_id": run_id,
        "index": index,
        "seat": seat,
        "purpose": purpose,
        "model_asked": model,
        "wire_json": wire_json,
        "sampling_asked": to_json(sampling.as_dict()).decode(),
        "sampling_honoured": to_json(dict(outcome.sampling_honoured)).decode(),
        "latency_s": outcome.latency_s,
        "retries": outcome.retries,
    }
    if isinstance(outcome, CallError):
        return row | {"finish_reason": outcome.kind, "error": str(outcome)}
    row |= {k: _count(getattr(outcome.usage, k)) for k in _USAGE} | {"cost_usd": _usd(outcome.cost_usd)}
    if isinstance(outcome, Refusal):
        return row | {"finish_reason": "content_filter", "error": str(outcome)}
    return row | {
        "model_returned": _word(outcome.model_returned),
        "system_fingerprint": _word(outcome.system_fingerprint),
        "finish_reason": _word(outcome.finish_reason),
    }


def _count(value: Any) -> int | None:
    """A number of tokens; None for what is none (a user's own agent may say anything)."""
    whole = (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63 and value == int(value)
    )
    return int(value) if whole else None


def _usd(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if known else None


def _word(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def fitting(payload: Mapping[str, Sequence[dict[str, Any]]]) -> tuple[dict[str, list[dict[str, Any]]], str | None]:
    """The rows of a rollout that fit their tables, and the first reason why one does not.

    A row that does not fit can be neither stored nor read: the rollout is an error, and the rest of it is kept.
    """
    kept: dict[str, list[dict[str, Any]]] = {}
    problem = None
    for name, rows in payload.items():
        for row in rows:
            try:
                check_rows(name, [row])
                kept.setdefault(name, []).append(row)
            except TableError as e:
                problem = problem or str(e)
    return kept, problem


def completion_payload(row: Mapping[str, Any], answer: Completion) -> dict[str, Any]:
    """What the journal keeps of a received answer."""
    return {
        "row": row,
        "content": answer.content,
        "tool_calls": [(t.id, t.name, t.arguments_json) for t in answer.tool_calls],
    }


def completion_from_payload(payload: Mapping[str, Any]) -> Completion:
    """The answer that `completion_payload` kept, as the play function saw it."""
    from cilab.collect.model import Usage

    row = payload["row"]
    return Completion(
        content=payload["content"],
        tool_calls=tuple(tool_call(*t) for t in payload["tool_calls"]),
        finish_reason=row["finish_reason"],
        usage=Usage(*(row[k] for k in _USAGE)),
        cost_usd=row["cost_usd"],
        model_returned=row["model_returned"],
        system_fingerprint=row["system_fingerprint"],
        sampling_honoured=json.loads(row["sampling_honoured"]),
        latency_s=row["latency_s"],
        retries=row["retries"],
    )


def tool_call(call_id: str, name: str, arguments_json: str) -> ToolCall:
    """A tool call with its arguments parsed, or None where they are no JSON object."""
    try:
        arguments = json.loads(arguments_json)
    except (ValueError, RecursionError):
        arguments = None
    return ToolCall(call_id, name, arguments_json, arguments if isinstance(arguments, dict) else None)


def total(values: Iterable[float | None]) -> Any:
    """Sum that is None as soon as one part is unknown; 0 of nothing."""
    out = 0
    for v in values:
        if v is None:
            return None
        out += v
    return out


def known_total(values: Iterable[float | None]) -> Any:
    """Sum of the known parts; None when none is known."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def run_row(spec: RunSpec, known: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The runs row of a spec: its identity, what the benchmark `known`, and sums over its calls.

    `cost_usd` is the cost of the seats that `spec.model` plays, `cost_usd_team` that of every call.
    """
    identity = to_json(spec.identity()).decode()
    row: dict[str, Any] = {
        "benchmark": spec.benchmark,
        "task_id": spec.task_id,
        "version": spec.version,
        "model": spec.model,
        "partner_model": spec.partner_model,
        "effort": spec.effort,
        "partner_effort": spec.partner_effort,
        "arm": spec.arm,
        "seed": spec.seed,
        "rounds": 0,
        "messages": 0,
        "tool_calls": 0,
        "prefix_run_id": spec.settings.get("prefix_run_id"),
        "spec_json": identity,
        "spec_hash": digest({"spec": spec.identity(), "hints": dict(spec.hints)}),
    }
    row |= {k: spec.hints[k] for k in RUNS.hinted if k in spec.hints}
    played = [c for c in calls if c["purpose"] == "play" and c["model_asked"] == spec.model]
    row |= {
        "tokens_in": total(c.get("tokens_in") for c in calls),
        "tokens_out": total(c.get("tokens_out") for c in calls),
        "tokens_reasoning": known_total(c.get("tokens_reasoning") for c in calls),
        "tokens_cached": known_total(c.get("tokens_cached") for c in calls),
        "cost_usd": total(c.get("cost_usd") for c in played),
        "cost_usd_team": total(c.get("cost_usd") for c in calls),
    }
    return row | dict(known)
