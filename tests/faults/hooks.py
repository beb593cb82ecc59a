"""What a forked session is made to suffer: called in the new process before the command begins.

Each function here arms one fault and returns. They are functions of a module, with their settings in the environment:
that way they reach the process.
"""

from __future__ import annotations

import builtins
import errno
import itertools
import os
import sqlite3
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

#: Environment variables: which write fails, below which folder, and the pages that SQLite may use.
NTH, BELOW, PAGES = "FAULT_NTH_WRITE", "FAULT_BELOW", "FAULT_PAGES"
#: Where the session leaves how many writes it came to.
SEEN = "FAULT_SEEN"


def nth_write_fails() -> None:
    """The n-th operation that writes below a folder, and every later one, answers that no space is left on the device.

    Counted are: opening for writing, fsync, rename, making a folder, and writes by descriptor. SQLite writes by itself;
    see `journal_is_full`.
    """
    nth, below, seen = int(os.environ[NTH]), os.environ[BELOW], Path(os.environ[SEEN])
    numbers = itertools.count(1)

    def fail_when_due(what: str) -> None:
        number = next(numbers)
        with plain_open(seen, "w") as f:
            f.write(f"{number} {what}")
        if number >= nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plain_open = builtins.open

    def opened(file: Any, mode: str = "r", *args: Any, **how: Any) -> Any:
        if isinstance(file, str | os.PathLike) and os.fspath(file).startswith(below) and set(mode) & set("wax+"):
            fail_when_due(f"open {Path(file).name}")
        return plain_open(file, mode, *args, **how)

    builtins.open = opened

    def by_name(name: str) -> None:
        plain = getattr(os, name)

        def counted(first: Any, *args: Any, **how: Any) -> Any:
            path = f"/proc/self/fd/{first}" if isinstance(first, int) else first
            real = os.readlink(path) if isinstance(first, int) else os.path.abspath(first)
            writes = name != "open" or (args and args[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if writes and real.startswith(below):
                fail_when_due(f"{name} {Path(real).name}")
            return plain(first, *args, **how)

        setattr(os, name, counted)

    for name in ("open", "fsync", "replace", "mkdir", "pwrite", "ftruncate"):
        by_name(name)


def journal_is_full() -> None:
    """SQLite answers that the database or disk is full when the journal comes to so many pages."""
    pages, plain = int(os.environ[PAGES]), sqlite3.connect

    def connect(*args: Any, **how: Any) -> sqlite3.Connection:
        db = plain(*args, **how)
        db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    sqlite3.connect = connect


def clock_steps_back() -> None:
    """The wall clock goes back by an hour, again and again, while the session plays; the monotonic one does not."""
    import cilab.collect.engine as engine

    steps = itertools.count()

    class Stepping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) - timedelta(hours=next(steps) // 3)

    plain = time.time
    time.time = lambda: plain() - 3600.0 * (next(steps) // 3)
    engine.datetime = Stepping
