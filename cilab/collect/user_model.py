"""`python:module:factory`: the user's own agent or scaffold in a seat of the lab.

May import its neighbours in `cilab.collect`. Runs the user's code and trusts nothing that it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
import hashlib
import importlib
import inspect
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cilab.collect.model import CallError, Completion, Message, Refusal, Sampling, ToolCall, Usage
from cilab.collect.shape import clean, normalise
from cilab.core.errors import nearest
from cilab.core.redact import one_line

_HOW = "write python:MODULE:FACTORY, e.g. python:my_agent:make"
#: Most calls of an agent that were given up and whose code runs on: a thread cannot be ended from outside.
_MOST_LOST = 100

#: What the agent's code came to: its value, or the exception that ended it, whatever its kind.
_Outcome = tuple[Any, BaseException | None]


class UserModel:
    """The agent that `factory()` in `module` makes.

    Parameters
    ----------
    name : `python:module:factory`. The module is looked for in the working folder first, then among
        the installed ones. What the factory returns may be

        - an object with `complete(messages, *, tools, sampling)`; `tools` and `sampling` may be left out,
        - a function `answer(messages)`.

        Both may be async or not, and answer with a `Completion` or a text. A function that itself takes
        the messages needs no factory around it. One agent serves every seat and rollout of a study at
        the same time: what it must remember stands in the messages.

    Raises
    ------
    CallError
        `setup`: the module, the factory or the agent cannot be had, with file and line.

    Notes
    -----
    Code that is not async has a thread for each call, so that no call waits for another and its deadline counts
    its own time. A call that is given up runs on in its thread; that holds up neither the study nor its end.
    """

    provider = "python"

    def __init__(self, name: str):
        self.name = name
        parts = name.split(":")
        if len(parts) != 3 or parts[0] != "python" or not all(parts):
            raise CallError("setup", f"{name}: {_HOW}")
        self._agent = _make(_find(_load(parts[1], name), parts[2], name), name)
        self._answer: Callable[..., Any] = getattr(self._agent, "complete", self._agent)
        self._lost: set[threading.Thread] = set()

    def __repr__(self) -> str:
        return f"UserModel({self.name!r})"

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The agent's answer, text cleaned, cost and usage as the agent says or None.

        Raises
        ------
        Refusal, CallError
            As the agent raises them itself. Anything else that ends its code, `sys.exit()` included, is
            CallError('bad_request') with the exception and its place: asking again would not mend it.
        """
        wire = normalise(messages)
        begun = time.monotonic()
        given, error = await self._call(copy.deepcopy(wire), tools, sampling)
        if isinstance(error, (CallError, Refusal)):
            raise error
        if error is not None:
            problem = _place(error, self._answer)
        elif isinstance(given, str):
            return _cleaned(Completion(content=given), wire, time.monotonic() - begun)
        elif not isinstance(given, Completion):
            problem = f"the agent returned {type(given).__name__}, not a text or a Completion"
        elif misfit := _misfit(given):
            problem = f"the agent returned a Completion with {misfit}"
        else:
            return _cleaned(given, wire, time.monotonic() - begun)
        failure = CallError("bad_request", one_line(f"{self.name}: {problem}"))
        failure.wire = wire
        failure.latency_s = time.monotonic() - begun
        raise failure

    async def _call(
        self, messages: list[Message], tools: Sequence[Mapping[str, Any]] | None, sampling: Sampling
    ) -> _Outcome:
        """Call the agent with what its signature takes; code that is not async runs in a thread."""
        offered = {"tools": tools, "sampling": sampling}
        given = {k: v for k, v in offered.items() if _takes(self._answer, k)}
        ask = functools.partial(self._answer, messages, **given)
        if inspect.iscoroutinefunction(self._answer):
            return await _awaited(ask)
        result, error = await self._in_thread(ask)
        return await _awaited(lambda: result) if inspect.isawaitable(result) else (result, error)

    async def _in_thread(self, work: Callable[[], Any]) -> _Outcome:
        """What `work` comes to in a thread of its own, which the end of the process does not wait for."""
        self._lost = {thread for thread in self._lost if thread.is_alive()}
        if len(self._lost) >= _MOST_LOST:
            text = f"{self.name}: {_MOST_LOST} calls that were given up still run; give the agent's code a time limit"
            raise CallError("bad_request", text)
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[_Outcome] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(outcome: _Outcome) -> None:
            if not arrived.done():
                arrived.set_result(outcome)
            elif inspect.iscoroutine(outcome[0]):
                outcome[0].close()  # the call was given up: nobody is going to await it

        def run() -> None:
            outcome = _outcome(lambda: context.run(work))
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(deliver, outcome)

        thread = threading.Thread(target=run, name=self.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise CallError("server", f"{self.name}: {error}") from None
        try:
            return await arrived
        except asyncio.CancelledError:
            self._lost.add(thread)
            raise


def _outcome(work: Callable[[], Any]) -> _Outcome:
    """An exception of the agent's code is a value: raised, some of them would end or confuse the event loop."""
    try:
        return work(), None
    except BaseException as error:
        return None, error


async def _awaited(work: Callable[[], Awaitable[Any]]) -> _Outcome:
    """As `_outcome`, of async code. What comes from outside goes through: this task is cancelled or thrown away."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        return await work(), None
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > before:
            raise
        return None, error
    except GeneratorExit as error:
        if asyncio._get_running_loop() is None or asyncio.current_task() is not task:
            raise
        return None, error
    except BaseException as error:
        return None, error


def source_hash(name: str) -> str:
    """Hash of the source of the module in `python:module:factory`, so that edited code is another agent.

    Only that module's own file counts, not what it imports.

    Raises
    ------
    CallError
        `setup`: the module cannot be imported, or has no source file.
    """
    module = _load(name.split(":")[1], name)
    path = getattr(module, "__file__", None)
    if path is None or not os.path.isfile(path):
        raise CallError("setup", f"{name}: {module.__name__} has no source file")
    with open(path, "rb") as f:
        return hashlib.blake2b(f.read(), digest_size=6).hexdigest()


def _load(module: str, name: str) -> ModuleType:
    """Import the user's module, the working folder first."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            text = f"{name}: there is no module {module} in {here} or installed; {_HOW}"
        else:
            text = f"{name}: cannot import {module}: {_place(error)}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script that ends with sys.exit() as well
        text = f"{name}: cannot import {module}: {_place(error)}"
    raise CallError("setup", one_line(text))


def _find(module: ModuleType, factory: str, name: str) -> Callable[..., Any]:
    """The factory in the module."""
    found = getattr(module, factory, None)
    if callable(found):
        return found
    public = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
    raise CallError("setup", f"{name}: {module.__name__} has no function {factory}.{nearest(factory, public)}")


def _make(factory: Callable[..., Any], name: str) -> Any:
    """What the factory returns; the factory itself where it is the function that answers."""
    if not inspect.isclass(factory) and _needs_argument(factory):
        return factory
    try:
        agent = factory()
        answers = callable(getattr(agent, "complete", None)) or callable(agent)
    except (CallError, KeyboardInterrupt):
        raise
    except BaseException as error:
        text = f"{name}: the factory failed: {_place(error, factory)}"
    else:
        if answers:
            return agent
        text = f"{name}: the factory returned {type(agent).__name__}, which has no complete() and is no function"
    raise CallError("setup", one_line(text))


def _needs_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _takes(function: Callable[..., Any], keyword: str) -> bool:
    """Whether a function can be given this keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _place(error: BaseException, called: Any = None) -> str:
    """`ValueError: text (my_agent.py line 12)`: the innermost line of the user's own code.

    Where no line of it was reached (it does not take what it is called with), the place of `called`.
    """
    if isinstance(error.__cause__, (StopIteration, StopAsyncIteration)):  # Python wraps these in async code
        error = error.__cause__
    text = str(error)
    if isinstance(error, SyntaxError):
        text = error.msg
        if error.filename and os.path.isfile(error.filename):
            return _located(error, text, (error.filename, error.lineno))
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    frames = [(file, line) for file, line in frames if not _machinery(file)]
    own = [(file, line) for file, line in frames if not _installed(file)]
    return _located(error, text, (own or frames or [_definition(called)])[-1])


def _located(error: BaseException, text: str, place: tuple[str, int | None] | None) -> str:
    where = f" ({Path(place[0]).name} line {place[1]})" if place else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def _installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return "site-packages" in file or "dist-packages" in file


def _machinery(file: str) -> bool:
    """Whether a file belongs to Python or to the lab itself."""
    lab = str(Path(__file__).resolve().parents[1])
    python = os.path.dirname(os.__file__)
    return file.startswith((lab + os.sep, "<")) or (file.startswith(python + os.sep) and not _installed(file))


def _definition(called: Any) -> tuple[str, int] | None:
    """File and line where a function, method, class or callable object was written."""
    while isinstance(called, functools.partial):
        called = called.func
    if inspect.isclass(called):
        called = called.__init__
    elif callable(called) and not hasattr(called, "__code__"):
        called = type(called).__call__
    code = getattr(called, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else None


def _misfit(given: Completion) -> str:
    """What in the user's completion has a type or a value that it cannot have; '' when all is well."""
    calls, usage, cost = given.tool_calls, given.usage, given.cost_usd
    fits = {
        "content": isinstance(given.content, str),
        "tool_calls": isinstance(calls, (tuple, list)) and all(map(_is_tool_call, calls)),
        "finish_reason": isinstance(given.finish_reason, str),
        "usage": isinstance(usage, Usage) and all(n is None or (isinstance(n, int) and n >= 0) for n in astuple(usage)),
        "cost_usd": cost is None or (isinstance(cost, (int, float)) and 0 <= cost < math.inf),
    }
    wrong = [name for name, fit in fits.items() if not fit]
    return f"{wrong[0]} {getattr(given, wrong[0])!r}" if wrong else ""


def _is_tool_call(call: Any) -> bool:
    return isinstance(call, ToolCall) and all(isinstance(t, str) for t in (call.id, call.name, call.arguments_json))


def _cleaned(given: Completion, wire: list[Message], latency_s: float) -> Completion:
    """The user's completion with valid text, what was given to it, and the time it took."""
    calls = tuple(ToolCall(clean(c.id), clean(c.name), clean(c.arguments_json), c.arguments) for c in given.tool_calls)
    sent = wire if given.wire is None else given.wire
    return replace(given, content=clean(given.content), tool_calls=calls, wire=sent, latency_s=latency_s)
