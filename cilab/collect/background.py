"""One persistent event loop in a background thread, for shell and notebook alike.

May import `cilab.core`. A notebook's own loop is running already, and a loop per cell breaks
clients that outlive it; so everything asynchronous runs on this one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import lru_cache
from typing import Any

from cilab.core.errors import CilabError


class _Background:
    """An event loop and its thread. Whoever waits for work on it hears of it when the thread ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pending: set[Future[Any]] = set()
        self._ended: str | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="cilab-loop", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether work is still taken."""
        return self._ended is None

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start a coroutine; its future fails when the thread ends before it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        with self._lock:
            self._pending.add(future)
        future.add_done_callback(self._forget)
        if not self.alive:  # it ended meanwhile
            self._fail()
        return future

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._pending.discard(future)

    def _run(self) -> None:
        why = "it was closed"
        try:
            while not self.loop.is_closed():
                # A task that raises one of these ends `run_forever`, and whoever awaits the task gets it as well:
                # it is theirs to deal with, and the others go on. The same where somebody stops the loop.
                with suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
        self._ended = why
        self._fail()

    def _fail(self) -> None:
        with self._lock:
            pending = list(self._pending)
        text = f"the loop that makes the calls broke ({self._ended}). Run it again in a new process: it continues."
        for future in pending:
            with suppress(InvalidStateError):  # it is done
                future.set_exception(CilabError(text))


@lru_cache(maxsize=1)
def _started() -> _Background:
    return _Background()


def _current() -> _Background:
    if not _started().alive:
        _started.cache_clear()
    return _started()


def loop() -> asyncio.AbstractEventLoop:
    """The loop, started at the first call; a new one where its thread has ended."""
    return _current().loop


def submit(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Start a coroutine on the loop; the future may be waited for in this thread.

    It raises CilabError when the loop's thread ends before the coroutine does.
    """
    return _current().submit(work)
