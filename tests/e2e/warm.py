"""A process that has imported everything once and forks a child per command: the real command without its imports.

Both ends of the line stand here: `WarmProcess` for the tests, and the program that it starts, which is this file.

A child is a process as `python -m cilab` is one. It leads a session of its own and has its own folder, environment,
arguments, streams, signals and search path, and it falls through to the interpreter's end, so that `atexit`, threads
that are waited for and the exit code are Python's own. (The standard library's forkserver leaves through `os._exit`.)
What a child does not show is the start itself: whether an import fails in the order that a command imports, how long
it takes, and the hash seed, which all children share. Tests of these start cold.

The warm process only imports. It starts no thread, because none survives a fork; and it reads no variable anew, so a
command whose environment differs from the one at its start in more than keys is not for it. It ends with the tests,
however they end: the line breaks, and it takes what still runs along. Needs pidfd, which Linux has.

Imports the standard library alone; the package by its entry point.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

COMMAND = "cilab"
#: What commands import besides the package's own modules, and late.
LIBRARIES = ("duckdb", "litellm", "pandas", "pyarrow.parquet", "rich.progress")
#: Threads that an import starts and a child can do without: jemalloc makes its own anew after a fork, and polars'
#: cleaner sleeps until something was spilled to a disk.
HARMLESS = ("jemalloc_bg_thd", "polars-ooc-clea")
#: Read by the interpreter or by a library while it is imported, except what ends like this, which is read at a call.
KEYS = ("_API_KEY", "_API_BASE", "_TOKEN")
#: Longest request in bytes.
_LONGEST = 1 << 17


# -- the tests' end ---------------------------------------------------------------------------------------------------


class Forked:
    """A command that a warm process runs, with what the tests use of `subprocess.Popen`."""

    def __init__(self, report: socket.socket):
        self._report = report
        self.returncode: int | None = None
        self.pid = int(self._hear())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, or minus the signal that it died of.

        Raises
        ------
        subprocess.TimeoutExpired
            It still runs after `timeout` seconds.
        """
        if self.returncode is None:
            self._report.settimeout(timeout)
            try:
                self.returncode = int(self._hear())
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0) from None
            self._report.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def send_signal(self, what: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, what)

    def _hear(self) -> bytes:
        told = self._report.recv(64)
        if not told:
            raise ChildProcessError("the warm process is gone, and its commands with it")
        return told


class WarmProcess:
    """The line to a warm process, which is started here.

    Parameters
    ----------
    env : environment that it starts with.
    log : file for what it prints itself.
    """

    def __init__(self, env: Mapping[str, str], log: Path):
        self._env = dict(env)
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(log, "wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=self._env,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        if not self._line.recv(64):
            raise ChildProcessError(f"no warm process: {log.read_text()[-2000:]}")

    @property
    def environment(self) -> dict[str, str]:
        """What it started with, a copy."""
        return dict(self._env)

    @staticmethod
    def possible() -> bool:
        """Whether this system has what it takes."""
        return hasattr(os, "pidfd_open")

    def serves(self, env: Mapping[str, str]) -> bool:
        """Whether a command with this environment would read there what it reads after a start of its own."""
        names = self._env.keys() | env.keys()
        return all(name.endswith(KEYS) for name in names if self._env.get(name) != env.get(name))

    def start(self, args: Sequence[str], folder: Path, env: Mapping[str, str], out: Any, err: Any) -> Forked:
        """Start `cilab ARGS` in `folder`, with its output in the open files `out` and `err`; returns at once."""
        request = json.dumps({"args": list(args), "folder": str(folder), "env": dict(env)})
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull, "rb") as nothing:
            streams = [f.fileno() for f in (nothing, out, err, theirs)]
            socket.send_fds(self._line, [request.encode()], streams)
        return Forked(ours)

    def close(self) -> None:
        """End it and all that it runs."""
        self._line.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- the warm process -------------------------------------------------------------------------------------------------


def _import_everything() -> dict[str, str]:
    """Import what commands import; returns the variables that this has set, as it does in a command."""
    before = dict(os.environ)
    sys.path.pop(0)  # this file's folder, which no command has
    (command,) = entry_points(group="console_scripts", name=COMMAND)
    package = importlib.import_module(command.load().__module__.partition(".")[0])
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or its import asks the network
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    del os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]  # the package sets it where it imports that
    threads = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    if others := [name for name in threads[1:] if name not in HARMLESS]:
        raise RuntimeError(f"an import started threads, which do not survive a fork: {', '.join(others)}")
    gc.collect()
    gc.freeze()  # a child's collections leave the pages alone that it shares
    return {name: value for name, value in os.environ.items() if name not in before}


def _serve(line: socket.socket, added: Mapping[str, str]) -> bool:
    """Fork a child per request: returns True in a child, ready to be a command, and False when the tests are gone."""
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
    ready = select.poll()
    ready.register(line, select.POLLIN)
    line.send(b"ready")
    while True:
        for fd, _ in ready.poll():
            if fd != line.fileno():
                ready.unregister(fd)
                os.close(fd)
                pid, report = running.pop(fd)
                _, status = os.waitpid(pid, 0)
                _tell(report, os.waitstatus_to_exitcode(status))
                report.close()
                continue
            request, streams, _, _ = socket.recv_fds(line, _LONGEST, 4)
            if not request:
                for pid, _ in running.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
                return False
            report = socket.socket(fileno=streams.pop())
            pid = os.fork()
            if pid == 0:
                line.close()
                for other, (_, their_report) in running.items():
                    os.close(other)
                    their_report.close()
                asked = json.loads(request)
                _become(asked["args"], asked["folder"], {**added, **asked["env"]}, streams)
                _tell(report, os.getpid())
                report.close()
                return True
            for stream in streams:
                os.close(stream)
            watched = os.pidfd_open(pid)
            running[watched] = pid, report
            ready.register(watched, select.POLLIN)


def _tell(report: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
        report.send(str(number).encode())


def _become(args: Sequence[str], folder: str, env: Mapping[str, str], streams: Sequence[int]) -> None:
    """Make this child what a start of `python -m cilab ARGS` makes of a new process."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    for stream, standard in zip(streams, (0, 1, 2), strict=True):
        os.dup2(stream, standard)
        os.close(stream)
    sys.argv = ["-m", *args]
    sys.orig_argv = [sys.executable, "-m", COMMAND, *args]
    sys.path.insert(0, os.getcwd())
    if "numpy.random" in sys.modules:  # the library of `random` does so by itself
        sys.modules["numpy.random"].seed()


def _leave(code: Sequence[int]) -> None:
    """Leave with the exit code that is known by now; taking the imported modules apart would be most of its work."""
    if code:
        with contextlib.suppress(OSError, ValueError):  # a stream that cannot be flushed: the interpreter says so
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code[0])


if __name__ == "__main__":
    _code: list[int] = []
    atexit.register(_leave, _code)  # registered first, so called last: after threads and whatever else is registered
    _added = _import_everything()
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _is_command = _serve(_line, _added)
    if _is_command:
        try:
            runpy.run_module(COMMAND, run_name="__main__", alter_sys=True)
            _code.append(0)
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                _code.append(end.code or 0)
            raise
