"""`python:module:factory`: the user's own agent or scaffold in a seat of the lab.

May import its neighbours in `cilab.collect`. Runs the user's code and trusts nothing that it returns.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import importlib
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cilab.collect.model import CallError, Completion, Message, Refusal, Sampling, ToolCall
from cilab.collect.redact import one_line
from cilab.collect.shape import clean, normalise
from cilab.errors import nearest

_HOW = "write python:MODULE:FACTORY, e.g. python:my_agent:make"


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
    """

    provider = "python"

    def __init__(self, name: str):
        self.name = name
        parts = name.split(":")
        if len(parts) != 3 or parts[0] != "python" or not all(parts):
            raise CallError("setup", f"{name}: {_HOW}")
        self._agent = _make(_find(_load(parts[1], name), parts[2], name), name)
        self._answer: Callable[..., Any] = getattr(self._agent, "complete", self._agent)

    def __repr__(self) -> str:
        return f"UserModel({self.name!r})"

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None, sampling: Sampling
    ) -> Completion:
        """The agent's answer, text cleaned, cost and usage as the agent says or None.

        Raises
        ------
        Refusal, CallError
            As the agent raises them itself. Any other exception of its code is CallError('bad_request')
            with the exception and its place: asking again would not mend it.
        """
        wire = normalise(messages)
        begun = time.monotonic()
        failure: CallError | None = None
        try:
            given = await self._call(copy.deepcopy(wire), tools, sampling)
        except (CallError, Refusal):
            raise
        except Exception as error:
            failure = CallError("bad_request", one_line(f"{self.name}: {_place(error)}"))
        else:
            if isinstance(given, str):
                given = Completion(content=given)
            if isinstance(given, Completion):
                return _cleaned(given, wire, time.monotonic() - begun)
            kind = type(given).__name__
            failure = CallError("bad_request", f"{self.name}: the agent returned {kind}, not a text or a Completion")
        failure.wire = wire
        failure.latency_s = time.monotonic() - begun
        raise failure

    async def _call(
        self, messages: list[Message], tools: Sequence[Mapping[str, Any]] | None, sampling: Sampling
    ) -> Any:
        """Call the agent with what its signature takes; code that is not async runs in a thread."""
        offered = {"tools": tools, "sampling": sampling}
        given = {k: v for k, v in offered.items() if _takes(self._answer, k)}
        if inspect.iscoroutinefunction(self._answer):
            return await self._answer(messages, **given)
        result = await asyncio.to_thread(self._answer, messages, **given)
        return await result if inspect.isawaitable(result) else result


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
    except Exception as error:
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
    except CallError:
        raise
    except Exception as error:
        text = f"{name}: the factory failed: {_place(error)}"
    else:
        if callable(getattr(agent, "complete", None)) or callable(agent):
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


def _place(error: BaseException) -> str:
    """`ValueError: text (my_agent.py line 12)`, the innermost line outside installed packages."""
    if isinstance(error, SyntaxError):
        file, line, text = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if not _foreign(f.filename)]
        last = (own or list(frames) or [None])[-1]
        file, line, text = (last.filename, last.lineno, str(error)) if last else (None, None, str(error))
    where = f" ({Path(file).name} line {line})" if file else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def _foreign(file: str) -> bool:
    """Whether a file belongs to an installed package, to Python or to the lab itself."""
    lab = str(Path(__file__).resolve().parents[1])
    python = os.path.dirname(os.__file__)
    return file.startswith((lab + os.sep, python + os.sep, "<")) or "site-packages" in file


def _cleaned(given: Completion, wire: list[Message], latency_s: float) -> Completion:
    """The user's completion with valid text, what was given to it, and the time it took."""
    calls = tuple(ToolCall(clean(c.id), clean(c.name), clean(c.arguments_json), c.arguments) for c in given.tool_calls)
    sent = wire if given.wire is None else given.wire
    return replace(given, content=clean(given.content), tool_calls=calls, wire=sent, latency_s=latency_s)
