"""Sessions of the real command that start fast: each is forked from a server that has imported everything.

Such a session is a process of its own, with its own folder, environment and output files, and can be killed at any
instant like the command that a shell starts. Only the seconds that Python takes to import the libraries are saved;
kills during those are left to `tests/e2e/test_kill.py`.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What the server imports before the first session is forked from it.
PRELOADED = [
    *(
        "cilab.shell.app",
        "cilab.running.play",
        "cilab.running.status",
        "cilab.collect.engine",
        "cilab.collect.litellm_model",
        "cilab.maze",
        "cilab.teamwork",
    ),
    *(
        "cilab.maze.play",
        "cilab.teamwork.play",
        "cilab.store",
        "tests.faults.preload",
        "pyarrow.parquet",
        "tests.faults.sessions",
    ),
]
#: Longer than any session here takes on a busy machine.
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Ended:
    """How a session ended: exit code (negative: by that signal), standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be JSON and nothing else."""
        return json.loads(self.out)


def _session(
    argv: list[str], folder: str, out: str, err: str, env: dict[str, str], before: Callable[[], None] | None
) -> None:
    """In the new process: become the command."""
    os.setsid()
    os.chdir(folder)
    for path, fd in ((out, 1), (err, 2)):
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, fd)
        os.close(target)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.update(env)
    if before is not None:
        before()
    sys.argv = ["cilab", *argv]
    from cilab.shell.app import main

    main()


class Forked:
    """A session that runs."""

    def __init__(self, process: Any, out: Path, err: Path):
        self.process, self._out, self._err = process, out, err

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self.process.is_alive()

    def kill(self) -> None:
        """SIGKILL to the session and what it started, and wait until it is gone."""
        if self.alive:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:  # so early that it leads no group yet
                self.process.kill()
        self.process.join()

    def wait(self, seconds: float = PATIENCE_S) -> Ended:
        """Wait for the end; one that does not come is a failure."""
        self.process.join(seconds)
        if self.alive:
            self.kill()
            raise AssertionError(f"no end within {seconds} s: {self._err.read_text()[-2000:]}")
        return Ended(self.process.exitcode, self._out.read_text(), self._err.read_text())


class Sessions:
    """Starts sessions in `folder`; what they print goes to `logs`."""

    def __init__(self, folder: Path, logs: Path):
        self.folder, self._logs = folder, logs
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._started: list[Forked] = []

    def start(
        self, *args: Any, env: Mapping[str, str] | None = None, before: Callable[[], None] | None = None
    ) -> Forked:
        """Start `cilab ARGS`; returns at once. `before` is called in the new process first (a module's function)."""
        n = len(self._started)
        out, err = self._logs / f"{n}.out", self._logs / f"{n}.err"
        plain = {"NO_COLOR": "1", "COLUMNS": "120", **(env or {})}
        process = self._context.Process(
            target=_session, args=([str(a) for a in args], str(self.folder), str(out), str(err), plain, before)
        )
        process.start()
        self._started.append(Forked(process, out, err))
        return self._started[-1]

    def run(self, *args: Any, **how: Any) -> Ended:
        """`cilab ARGS`, to its end."""
        return self.start(*args, **how).wait()

    def close(self) -> None:
        """End what a failed test left running."""
        for session in self._started:
            session.kill()


def wait_for(condition: Callable[[], bool], session: Forked, every_s: float = 0.003) -> bool:
    """Wait for a condition; False when the session ended first."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if not session.alive:
            return condition()
        assert time.monotonic() < end, "waited in vain"
        time.sleep(every_s)
    return True


def processes_of(group: int) -> list[int]:
    """Ids of the living processes of a session's group, from the process table."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] != "Z":
                    found.append(int(entry.name))
    return found
