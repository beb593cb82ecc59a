"""One process that runs code in the sandbox: started, fed, watched, stopped, and its files read back.

May import this folder. What holds what:

- bubblewrap: own user, process, network, mount, host-name, IPC and cgroup namespaces; no capability; nothing of the
  host but a read-only Python (`layout`); two disks in memory of a fixed size.
- the filter of system calls (`seccomp`): no second process, no memory that is not counted.
- rlimits, set by `inside.py` before foreign code runs: memory, processor time, size of a file, open files.
- the watch in this module, from outside: wall-clock time, output, files on the disks, threads. It ends a run by
  SIGKILL to the first process of the process namespace, upon which the kernel ends all that is in it.

Files are read back when nothing in the sandbox lives any more, through folders that were opened before foreign code
ran: regular files only, no link is followed, and what is read goes into memory, never onto the host's disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from . import layout, seccomp
from .base import ROOT, Isolation, Limits, SandboxError
from .workspace import Refused, normalise

_TICK_SECONDS = 0.05
_START_SECONDS = 20.0
_REPORT_BYTES = 4 * 2**20
#: Reads of 64 KiB that empty a pipe (the kernel lets nobody without privileges make one larger than 1 MiB).
_PIPE_READS = 16
#: Folders that tools leave behind; nobody's work.
_LITTER = frozenset({"__pycache__", ".pytest_cache", ".hypothesis"})
_NOWHERE = "\0"


@dataclass(frozen=True, slots=True)
class Ended:
    """What was left of a process.

    Attributes
    ----------
    exit_code : as a shell sees it (128 + signal), None when it was stopped from outside.
    output : stdout and stderr, as they came.
    records : the lines of report that carry the run's token, without it.
    killed_by : why it was stopped from outside: time, call, output, files, threads, report; cpu for the kernel's limit.
    seconds : wall-clock time from the order on.
    kept : whether the files were read back.
    files : path -> text, of the regular files that were there at the end.
    unread : paths that were there and were not read (binary, too large, not allowed to), and why.
    """

    exit_code: int | None
    output: bytes
    records: tuple[dict[str, Any], ...]
    killed_by: str | None
    seconds: float
    kept: bool
    files: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def run(
    order: Mapping[str, Any],
    limits: Limits,
    *,
    isolation: Isolation = "bwrap",
    seconds: float | None = None,
    stall_seconds: float | None = None,
    read_back: bool = False,
) -> Ended:
    """Run one order of `inside.py`.

    Parameters
    ----------
    order : what to do: `do`, `files`, `readonly`, and what the kind of order needs.
    seconds : wall-clock time, instead of that of the limits.
    stall_seconds : wall-clock time between two lines of report, once foreign code has started.
    read_back : whether the files are read at the end.

    Raises
    ------
    SandboxError
        When the process cannot be started: the machine's or cilab's fault, never that of the code in it.
    """
    watch = _Watch(limits, limits.seconds if seconds is None else seconds, stall_seconds)
    token = secrets.token_hex(16)
    payload = json.dumps({**order, "token": token, "limits": asdict(limits)}).encode()
    with _slots(), contextlib.ExitStack() as stack:
        box = stack.enter_context(_bubblewrapped(limits) if isolation == "bwrap" else _bare())
        box.feed(payload)
        began = time.monotonic()
        killed_by = watch.until_the_end(box)
        took = time.monotonic() - began
        exit_code = box.stop()
        output, report = box.rest()
        if killed_by is None and _out_of_cpu(exit_code, took, limits):
            killed_by = "cpu"
        records = _records(report, token)
        if fatal := next((r["fatal"] for r in records if "fatal" in r), None):
            raise SandboxError(f"the sandbox could not start: {fatal}")
        if not records and killed_by is None:
            raise SandboxError(f"the sandbox could not start: {_last_line(output)}")
        kept = read_folder(box.root_fd, limits) if read_back and killed_by != "files" else None
    code = None if killed_by else exit_code
    files, unread = kept or ({}, {})
    return Ended(code, output, records, killed_by, took, kept is not None, files, unread)


@cache
def _slots() -> threading.BoundedSemaphore:
    """As many executions at a time as there are processors, so that wall-clock limits mean the same under load."""
    return threading.BoundedSemaphore(len(os.sched_getaffinity(0)))


def _records(report: bytes, token: str) -> tuple[dict[str, Any], ...]:
    found = []
    for line in report.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and record.pop("token", None) == token:
                found.append(record)
    return tuple(found)


def _out_of_cpu(exit_code: int, took: float, limits: Limits) -> bool:
    """Ended by the kernel for its processor time; code that ignores the first signal gets SIGKILL a second later."""
    killed = exit_code == 128 + signal.SIGKILL and took > limits.cpu_seconds
    return killed or exit_code == 128 + signal.SIGXCPU


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


# ---------------------------------------------------------------------- the process


@dataclass(slots=True)
class _Box:
    """A started process, its pipes and its disks. `first` is who is killed to end everything."""

    process: subprocess.Popen[bytes]
    output_fd: int
    report_fd: int
    #: Path on the host below which the files and the temporary folder lie; to be taken out of texts.
    scratch: str
    root_fd: int
    disk_fds: tuple[int, ...]
    first: int
    #: A handle on `first` that no later process can inherit.
    first_handle: int | None
    output: bytearray = field(default_factory=bytearray)
    report: bytearray = field(default_factory=bytearray)

    def feed(self, payload: bytes) -> None:
        """Hand over the order; the process waits for it and runs nothing foreign before."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(payload)
            self.process.stdin.close()

    def take(self, fd: int) -> None:
        """Read what a pipe holds at the moment."""
        with contextlib.suppress(BlockingIOError):
            (self.output if fd == self.output_fd else self.report).extend(os.read(fd, 65536))

    def rest(self) -> tuple[bytes, bytes]:
        """All output and report, when nobody writes any more."""
        for fd in (self.output_fd, self.report_fd):
            for _ in range(_PIPE_READS):
                self.take(fd)
        return bytes(self.output).replace(self.scratch.encode(), b""), bytes(self.report)

    def stop(self) -> int:
        """End everything and say how the process ended (128 + signal)."""
        with contextlib.suppress(ProcessLookupError):
            if self.first_handle is None:
                os.killpg(self.first, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self.first_handle, signal.SIGKILL)
        if self.first_handle is not None:
            # Bubblewrap itself may be gone before its process namespace is.
            _readable(self.first_handle, _START_SECONDS)
        try:
            code = self.process.wait(timeout=_START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        return 128 - code if code < 0 else code

    def threads(self) -> int:
        """Threads of the process that runs the code, as far as they can be counted."""
        with contextlib.suppress(OSError, IndexError):
            pid = self.first
            if self.first_handle is not None:
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    pid = int(f.read().split()[0])
            return len(os.listdir(f"/proc/{pid}/task"))
        return 0


@contextlib.contextmanager
def _pipes(stack: contextlib.ExitStack, count: int) -> Iterator[list[tuple[int, int]]]:
    """Pipes whose reading ends close with `stack`, and whose writing ends close at the end of the block."""
    with contextlib.ExitStack() as writing:
        made = []
        for _ in range(count):
            read_end, write_end = os.pipe()
            stack.callback(os.close, read_end)
            writing.callback(os.close, write_end)
            made.append((read_end, write_end))
        yield made


@contextlib.contextmanager
def _bubblewrapped(limits: Limits) -> Iterator[_Box]:
    with contextlib.ExitStack() as stack:
        with _pipes(stack, 4) as ((out_r, out_w), (report_r, report_w), (info_r, info_w), (filter_r, filter_w)):
            os.write(filter_w, seccomp.program())
            command = layout.bwrap_command(limits, info_w, filter_r, report_w)
            process = _start(stack, command, out_w, (info_w, filter_r, report_w), {"PATH": os.defpath})
        _await_ready(process, report_r, out_r)
        first = int(json.loads(os.read(info_r, 65536))["child-pid"])
        handle = os.pidfd_open(first)
        stack.callback(os.close, handle)
        disks = [_open_folder(stack, f"/proc/{first}/root{folder}") for folder in (ROOT, "/tmp")]
        yield _Box(process, out_r, report_r, _NOWHERE, disks[0], tuple(disks), first, handle)


@contextlib.contextmanager
def _bare() -> Iterator[_Box]:
    """Without bubblewrap: a folder of the host's disk, a process group, rlimits and an environment of our own."""
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="cilab-", ignore_cleanup_errors=True))
        root, temporary = os.path.join(scratch, "work"), os.path.join(scratch, "tmp")
        os.mkdir(root)
        os.mkdir(temporary)
        with _pipes(stack, 2) as ((out_r, out_w), (report_r, report_w)):
            command = [layout.base_python(), "-B", "-P", "-s", "-S", str(layout.INSIDE), str(report_w), root]
            environment = {**layout.ENVIRONMENT, "HOME": root, "TMPDIR": temporary}
            process = _start(stack, command, out_w, (report_w,), environment)
        _await_ready(process, report_r, out_r)
        folder = _open_folder(stack, root)
        yield _Box(process, out_r, report_r, scratch, folder, (), process.pid, None)


def _start(
    stack: contextlib.ExitStack, command: list[str], out: int, fds: tuple[int, ...], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=fds,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as e:
        raise SandboxError(f"the sandbox could not start: {command[0]}: {e.strerror}") from None
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind, whatever happened; bubblewrap takes its process namespace with it."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.poll() is None:
        process.kill()
        process.wait()


def _await_ready(process: subprocess.Popen[bytes], report_fd: int, out_fd: int) -> None:
    """Wait until `inside.py` stands in the sandbox; what bubblewrap complains about becomes the error."""
    if _readable(report_fd, _START_SECONDS) and os.read(report_fd, 6) == b"ready\n":
        return
    if process.poll() is None:
        process.kill()
    process.wait()
    os.set_blocking(out_fd, False)
    said = b""
    with contextlib.suppress(BlockingIOError):
        said = os.read(out_fd, 65536)
    raise SandboxError(f"the sandbox could not start: {_last_line(said)}")


def _readable(fd: int, seconds: float) -> bool:
    """Whether something (or the end) can be read within `seconds`. Unlike select, poll takes any number of a file."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _open_folder(stack: contextlib.ExitStack, path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise SandboxError(f"the sandbox's folder cannot be opened from outside: {path}: {e.strerror}") from None
    stack.callback(os.close, fd)
    return fd


# ---------------------------------------------------------------------- the watch


@dataclass(slots=True)
class _Watch:
    """Looks at a process from outside until it ends or must be stopped."""

    limits: Limits
    seconds: float
    stall_seconds: float | None

    def until_the_end(self, box: _Box) -> str | None:
        """None when the process ended by itself, else what it did too much of."""
        end = os.pidfd_open(box.process.pid)
        try:
            return self._watch(box, end)
        finally:
            os.close(end)

    def _watch(self, box: _Box, end: int) -> str | None:
        poll = select.poll()
        for fd in (box.output_fd, box.report_fd, end):
            os.set_blocking(fd, False) if fd != end else None
            poll.register(fd, select.POLLIN)
        now = time.monotonic()
        deadline, last_report, next_look = now + self.seconds, now, now
        lines = 0
        while True:
            events = poll.poll(_TICK_SECONDS * 1000)
            for fd, event in events:
                if fd == end:
                    return None
                if event & select.POLLIN:
                    box.take(fd)
                else:
                    poll.unregister(fd)
            now = time.monotonic()
            if (count := box.report.count(b"\n")) > lines:
                lines, last_report = count, now
            if reason := self._pipes_too_full(box):
                return reason
            if now > deadline:
                return "time"
            if self.stall_seconds is not None and lines and now > last_report + self.stall_seconds:
                return "call"
            if now >= next_look:
                next_look = now + _TICK_SECONDS
                if reason := self._too_much(box):
                    return reason

    def _pipes_too_full(self, box: _Box) -> str | None:
        if len(box.output) > self.limits.raw_output_bytes:
            return "output"
        return "report" if len(box.report) > _REPORT_BYTES else None

    def _too_much(self, box: _Box) -> str | None:
        for fd in box.disk_fds:
            disk = os.fstatvfs(fd)
            if disk.f_files - disk.f_ffree > self.limits.disk_files:
                return "files"
        return "threads" if box.threads() > self.limits.threads else None


# ---------------------------------------------------------------------- reading back


def read_folder(folder_fd: int, limits: Limits) -> tuple[dict[str, str], dict[str, str]] | None:
    """The text files below an open folder, and what was left out and why.

    Parameters
    ----------
    folder_fd : an open folder in which nothing runs any more.
    limits : `files` and `file_bytes` bound what is read.

    Returns
    -------
    (files, unread) : (dict, dict), or None
        path -> text, and path -> reason. Links, devices and pipes are left out; no link is followed. None where
        there are more than twice as many files as are allowed: then nobody knows which of them are meant.
    """
    files: dict[str, str] = {}
    unread: dict[str, str] = {}
    for path, status, folder, name in _walk(folder_fd, "", depth=0):
        shown = path.encode("utf-8", "backslashreplace").decode()
        if len(files) + len(unread) >= 2 * limits.files:
            return None
        try:
            files[normalise(path)] = _text(folder, name, status, limits)
        except (Refused, OSError) as e:
            unread[shown] = e.strerror or "unreadable" if isinstance(e, OSError) else str(e)
    return files, unread


def _walk(fd: int, prefix: str, depth: int) -> Iterator[tuple[str, os.stat_result, int, str]]:
    for name in sorted(os.listdir(fd)):
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield prefix + name, status, fd, name
        elif name not in _LITTER and depth < 16:
            with contextlib.suppress(OSError):
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                try:
                    yield from _walk(below, f"{prefix}{name}/", depth + 1)
                finally:
                    os.close(below)


def _text(folder: int, name: str, status: os.stat_result, limits: Limits) -> str:
    if not stat.S_ISREG(status.st_mode):
        raise Refused("not a regular file")
    if status.st_size > limits.file_bytes:
        raise Refused(f"larger than {limits.file_bytes} bytes")
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as f:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Refused("not a regular file")
        data = f.read(limits.file_bytes + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused("not a text") from None
    if "\0" in text:
        raise Refused("not a text")
    return text
