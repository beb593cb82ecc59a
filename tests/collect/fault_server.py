"""A real local HTTP server that speaks OpenAI chat completions and misbehaves as it is told.

For tests only. Uses the standard library alone, so that any test can start it:

    with FaultServer() as server:                      # or FaultServer().start() ... .stop()
        server.script("a", ["429", Fault("hang", seconds=2), "ok"])
        ... call model "a" at server.url ...
        assert len(server.requests("a")) == 3

A behaviour is a name from `BEHAVIOURS` or a `Fault` with options. Each request to a model takes the
next one of its script; when the script is used up, and for models without one, `default` (`ok`)
answers. `script(model, [...], forever=True)` repeats the last one for ever. `ok` answers with a
deterministic text made of the messages and the seed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Every behaviour by name, and what it does.
BEHAVIOURS = {
    "ok": "200 with a deterministic text (options: text, latency_s, usage, finish_reason, raw_message)",
    "429": "429 (options: retry_after, as a string; None sends no header)",
    "500": "500 with a JSON error",
    "503_html": "503 with an HTML page, as a gateway sends it",
    "408": "408",
    "hang": "holds the connection open without answering (option: seconds)",
    "cut": "sends half of the body, then resets the connection",
    "drop": "closes the connection without any answer",
    "truncated": "200 with a complete HTTP body that is half a JSON document",
    "not_json": "200 with an HTML page",
    "no_choices": "200 with a JSON object that has no choices",
    "empty_choices": "200 with an empty list of choices",
    "bad_tool_call": "200 with a tool call whose arguments are no JSON (option: arguments)",
    "tool_call": "200 with a well-formed tool call (options: name, arguments)",
    "empty": "200 with empty content",
    "null": "200 with null content",
    "content_filter": "200 with the finish reason content_filter",
    "policy_400": "400 with a content policy code",
    "bad_request": "400",
    "context_400": "400 with the code context_length_exceeded",
    "401": "401, repeating the key that was sent, as some providers do",
    "403": "403",
    "404": "404, no such model",
    "surrogates": "200 with lone surrogates and a NUL as JSON escapes in the content",
    "long": "200 with a text of option `size` characters (default 200000)",
    "wrong_usage": "200 with negative, text and boolean token counts",
    "no_usage": "200 without usage",
}

_SENTENCE = (
    "we move from here to the open cell beside it because your map shows a wall where mine shows a path so "
    "the next step should be down then right and after that I would like you to check row three before both "
    "of us agree on the corner which looks free in either copy"
)


@dataclass(frozen=True)
class Fault:
    """One behaviour and its options (see `BEHAVIOURS`)."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __init__(self, kind: str, **options: Any):
        if kind not in BEHAVIOURS:
            raise ValueError(f"no such behaviour: {kind}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "options", options)


@dataclass(frozen=True)
class Seen:
    """One request as it arrived: model, parsed body, headers (lower-case names), time, behaviour given."""

    model: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    behaviour: str


def plausible_text(body: Mapping[str, Any], words: int = 30) -> str:
    """A text that depends on the messages and the seed alone."""
    raw = json.dumps([body.get("messages"), body.get("seed"), body.get("model")], sort_keys=True)
    rng = random.Random(hashlib.blake2b(raw.encode(), digest_size=8).digest())
    sentence = " ".join(rng.choices(_SENTENCE.split(), k=words))
    return sentence[0].upper() + sentence[1:] + "."


class FaultServer:
    """The server. `latency_s` delays every `ok`; `reply(body) -> str` replaces its text.

    With `numbered`, every answer has a system fingerprint of its own (`fp_1`, `fp_2` ...), by which it is known again.
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        reply: Callable[[dict[str, Any]], str] = plausible_text,
        default: str | Fault = "ok",
        numbered: bool = False,
    ):
        self.latency_s = latency_s
        self._numbers = itertools.count(1) if numbered else None
        self.reply = reply
        self.default = default if isinstance(default, Fault) else Fault(default)
        self._scripts: dict[str, list[Fault]] = {}
        self._forever: dict[str, bool] = {}
        self._seen: list[Seen] = []
        self._served: dict[str, int] = defaultdict(int)
        self._in_flight = 0
        self._most_in_flight = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http: _Http | None = None

    def start(self) -> FaultServer:
        """Listen on a free port of 127.0.0.1; returns itself."""
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening and let hanging requests go."""
        self._stopping.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def __enter__(self) -> FaultServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The api_base, ending in /v1."""
        assert self._http is not None, "not started"
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def script(self, model: str, behaviours: Sequence[str | Fault], *, forever: bool = False) -> None:
        """Give the next requests to `model` (as in the body) these behaviours, in order."""
        faults = [b if isinstance(b, Fault) else Fault(b) for b in behaviours]
        with self._lock:
            self._scripts[model] = faults
            self._forever[model] = forever

    def requests(self, model: str | None = None) -> list[Seen]:
        """The requests so far, in order of arrival; all models when None."""
        with self._lock:
            return [r for r in self._seen if model is None or r.model == model]

    def wait_for_requests(self, model: str | None, count: int, timeout_s: float = 10.0) -> None:
        """Block until so many requests have arrived; AssertionError after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while len(self.requests(model)) < count:
            assert time.monotonic() < until, f"{len(self.requests(model))} of {count} requests arrived"
            time.sleep(0.005)

    @property
    def completions_served(self) -> int:
        """Answers with status 200 and a whole, usable body that were written to the client."""
        with self._lock:
            return sum(self._served.values())

    @property
    def most_in_flight(self) -> int:
        """Most requests that were being answered at the same time."""
        return self._most_in_flight

    # -- what the handler uses ----------------------------------------------------------------------

    def _next(self, body: dict[str, Any], headers: dict[str, str]) -> Fault:
        model = str(body.get("model"))
        with self._lock:
            queue = self._scripts.get(model) or []
            if not queue:
                fault = self.default
            elif len(queue) == 1 and self._forever[model]:
                fault = queue[0]
            else:
                fault = queue.pop(0)
            self._seen.append(Seen(model, body, headers, time.monotonic(), fault.kind))
            self._in_flight += 1
            self._most_in_flight = max(self._most_in_flight, self._in_flight)
        return fault

    def _named(self, answer: dict[str, Any]) -> dict[str, Any]:
        if self._numbers is not None:
            answer["system_fingerprint"] = f"fp_{next(self._numbers)}"
        return answer

    def _done(self, model: str, served: bool) -> None:
        with self._lock:
            self._in_flight -= 1
            if served:
                self._served[model] += 1


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    owner: FaultServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in these tests: no traceback on stderr."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw)
        owner = self.server.owner
        fault = owner._next(body, {k.lower(): v for k, v in self.headers.items()})
        served = False
        try:
            served = self._answer(fault, body, owner)
        finally:
            owner._done(str(body.get("model")), served)

    def _answer(self, fault: Fault, body: dict[str, Any], owner: FaultServer) -> bool:
        """Act the behaviour out; True when a usable completion went out whole."""
        kind, options = fault.kind, fault.options
        if kind in _ERRORS:
            return self._error(kind, options)
        if kind == "hang":
            owner._stopping.wait(options.get("seconds", 30))
            return self._break()
        if kind == "drop":
            return self._break()
        pause = options.get("latency_s", owner.latency_s)
        if pause:
            owner._stopping.wait(pause)
        if kind in ("not_json", "no_choices", "empty_choices"):
            text = {"not_json": "<html>Bad gateway</html>", "no_choices": '{"id": "x", "object": "chat.completion"}'}
            empty = json.dumps({**_completion(body, {"content": ""}), "choices": []})
            return self._send(200, text.get(kind, empty), {}) and False
        payload = json.dumps(owner._named(_payload(fault, body, owner)))
        if kind == "surrogates":
            payload = payload.replace("SURROGATES", "a\\ud800b\\udc00c\\u0000d\\ud83d\\ude00")
        if kind == "truncated":
            return self._send(200, payload[: len(payload) // 2], {}) and False
        if kind == "cut":
            self._head(200, len(payload), {})
            self.wfile.write(payload[: len(payload) // 2].encode())
            self.wfile.flush()
            return self._break()
        return self._send(200, payload, {})

    def _error(self, kind: str, options: Mapping[str, Any]) -> bool:
        status, code, message = _ERRORS[kind]
        if kind == "401":
            message += self.headers.get("authorization", "").removeprefix("Bearer ")
        headers = {}
        if kind == "429" and options.get("retry_after", "1") is not None:
            headers["Retry-After"] = str(options.get("retry_after", "1"))
        if kind == "503_html":
            self._send(status, f"<html><body>{message}</body></html>", headers, "text/html")
            return False
        error = {"message": options.get("message", message), "type": code, "param": None, "code": code}
        self._send(status, json.dumps({"error": error}), headers)
        return False

    def _head(self, status: int, length: int, headers: Mapping[str, str], kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status: int, text: str, headers: Mapping[str, str], kind: str = "application/json") -> bool:
        data = text.encode()
        self._head(status, len(data), headers, kind)
        self.wfile.write(data)
        self.wfile.flush()
        return True

    def _break(self) -> bool:
        """Reset the connection, as a dying gateway does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False


#: kind -> (status, code, message)
_ERRORS = {
    "429": (429, "rate_limit_exceeded", "Rate limit reached for requests."),
    "500": (500, "server_error", "The server had an error while processing your request."),
    "503_html": (503, "", "Service Temporarily Unavailable"),
    "408": (408, "request_timeout", "The request took too long to arrive."),
    "policy_400": (
        400,
        "content_policy_violation",
        "Your request was rejected as a result of our safety system.",
    ),
    "bad_request": (400, "invalid_value", "Unsupported value: 'messages[0].role'."),
    "context_400": (
        400,
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    ),
    "401": (401, "invalid_api_key", "Incorrect API key provided: "),
    "403": (403, "permission_denied", "Your project may not use this model."),
    "404": (404, "model_not_found", "The model does not exist or you do not have access to it."),
}


def _payload(fault: Fault, body: dict[str, Any], owner: FaultServer) -> dict[str, Any]:
    """The JSON of a behaviour that answers with a completion."""
    kind, options = fault.kind, fault.options
    message: dict[str, Any] = {"content": options.get("text")}
    usage: Any = options.get("usage")
    finish = options.get("finish_reason", "stop")
    if kind in ("tool_call", "bad_tool_call"):
        default = '{"path": "a.txt"}' if kind == "tool_call" else '{"path": "a.tx'
        call = {"name": options.get("name", "read_file"), "arguments": options.get("arguments", default)}
        message = {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        finish = "tool_calls"
    elif kind == "empty":
        message["content"] = ""
    elif kind == "null":
        message["content"] = None
    elif kind == "content_filter":
        message["content"] = options.get("text", "")
        finish = "content_filter"
    elif kind == "surrogates":
        message["content"] = "SURROGATES"
    elif kind == "long":
        size = options.get("size", 200_000)
        message["content"] = (owner.reply(body) + " ") * (size // 20 + 1)
        message["content"] = message["content"][:size]
    elif kind == "wrong_usage":
        usage = {"prompt_tokens": -3, "completion_tokens": "many", "total_tokens": True}
    message.setdefault("content", None)
    if message["content"] is None and kind in ("ok", "cut", "truncated", "wrong_usage", "no_usage"):
        message["content"] = owner.reply(body)
    message.update(options.get("raw_message", {}))
    out = _completion(body, message, finish)
    if usage is not None:
        out["usage"] = usage
    if kind == "no_usage":
        del out["usage"]
    return out


def _completion(body: Mapping[str, Any], message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    asked = sum(len(str(m.get("content") or "").split()) for m in body.get("messages", []))
    said = len(str(message.get("content") or "").split())
    return {
        "id": "chatcmpl-fault",
        "object": "chat.completion",
        "created": 1700000000,
        "model": f"{body.get('model')}-2026-01-01",
        "system_fingerprint": "fp_fault",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
            "prompt_tokens_details": {"cached_tokens": asked // 2},
            "completion_tokens_details": None,
        },
    }
