"""One persistent event loop in a background thread, for shell and notebook alike.

May import nothing of the package. A notebook's own loop is running already, and a loop per cell breaks
clients that outlive it; so everything asynchronous runs on this one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def loop() -> asyncio.AbstractEventLoop:
    """The loop, started at the first call."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="cilab-loop", daemon=True).start()
    return made


def submit(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Start a coroutine on the loop; the future may be waited for in this thread."""
    return asyncio.run_coroutine_threadsafe(work, loop())
