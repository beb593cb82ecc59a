"""The program that runs inside the sandbox: lays the files out, sets the limits, does what it was told.

It is started by path, with the base Python, and cannot see cilab: the standard library only (and pytest, for tests).
What it reports goes over a pipe of its own, one JSON object a line. The code under test runs in this very process and
could forge these lines; so whoever reads them takes them for a claim (see `execute`).
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

Send = Callable[[dict[str, Any]], None]


def main() -> None:
    """`inside.py REPORT_FD ROOT`: says that it is there, then reads its order from stdin."""
    report, root = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(report, False)
    os.write(report, b"ready\n")
    order = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    send = reporter(report, order.pop("token"))
    try:
        lay_out(order["files"], order["readonly"], root)
    except OSError as e:
        send({"fatal": f"the files cannot be laid out: {e.strerror}"})
        sys.exit(1)
    os.chdir(root)
    restrict(order["limits"])
    {"tests": do_tests, "calls": do_calls, "python": do_python}[order["do"]](order, root, send)


def reporter(fd: int, token: str) -> Send:
    """A function that writes one line of report; what it needs is bound before any foreign code runs."""
    write, dumps = os.write, json.dumps

    def send(record: dict[str, Any]) -> None:
        line = dumps({"token": token, **record}).encode() + b"\n"
        while line:
            line = line[write(fd, line) :]

    return send


def lay_out(files: dict[str, str], readonly: list[str], root: str) -> None:
    """Write the files; the read-only ones without the right to write them."""
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as f:
            f.write(text)
    for path in readonly:
        os.chmod(os.path.join(root, path), 0o444)


def restrict(limits: dict[str, Any]) -> None:
    """Set the rlimits, which cannot be raised again."""
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["written_file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    # The second value is the kernel's SIGKILL for code that ignores the first one's SIGXCPU.
    resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu_seconds"], limits["cpu_seconds"] + 1))


def do_python(order: dict[str, Any], root: str, send: Send) -> None:
    """Become `python PATH ARGS`; nothing of this program is left."""
    send({"started": True})
    os.execv(sys.executable, [sys.executable, "-B", order["path"], *order["args"]])


def open_the_folder(root: str) -> None:
    """Let the code import from the folder of the files and from its `src`, as `python -m` would."""
    source = os.path.join(root, "src")
    sys.path[:0] = [root, *([source] if os.path.isdir(source) else [])]
    # Files would otherwise be remembered from before code wrote new modules.
    sys.path_importer_cache.clear()


def pytest_arguments(arguments: list[str]) -> list[str]:
    """The arguments, with the temporary folder where it may be; a fixed one gives the same texts each time."""
    import tempfile

    return [f"--basetemp={os.path.join(tempfile.gettempdir(), 'pytest')}", *arguments]


def do_tests(order: dict[str, Any], root: str, send: Send) -> None:
    """Run pytest and report every test."""
    sys.path += order["site"]
    import pytest

    open_the_folder(root)
    send({"started": True})
    code = pytest.main(pytest_arguments(order["arguments"]), plugins=[Reporter(send)])
    send({"end": int(code)})
    sys.exit(int(code))


class Reporter:
    """A pytest plugin that sends on what happened to each test and to each file of tests."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._send({"test": report.nodeid, "when": report.when, "outcome": report.outcome})

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            lines = str(report.longrepr).strip().splitlines() or [""]
            self._send({"uncollected": report.nodeid, "message": lines[-1][:300]})


def do_calls(order: dict[str, Any], root: str, send: Send) -> None:
    """Make the calls one after the other in this process, on their own or inside a test of pytest."""
    from types import ModuleType

    if not order["under_pytest"]:
        open_the_folder(root)
        make_calls(order["calls"], send)
        return
    sys.path += order["site"]
    import pytest

    open_the_folder(root)
    bridge = ModuleType("_calls")
    bridge.__dict__["make"] = lambda: make_calls(order["calls"], send)
    sys.modules["_calls"] = bridge
    pytest.main(pytest_arguments(order["arguments"]))


def make_calls(calls: list[dict[str, Any]], send: Send) -> None:
    send({"started": True})
    for number, call in enumerate(calls):
        send({"call": number, **outcome(call)})


def outcome(call: dict[str, Any]) -> dict[str, Any]:
    """What a call gave: plain data, or the names of its error's types, most special first."""
    import importlib

    try:
        target: Any = importlib.import_module(call["module"])
        for name in call["function"].split("."):
            target = getattr(target, name)
        value = target(*call["args"], **call["kwargs"])
        return {"value": json.dumps(plain(value))}
    except BaseException as e:
        names = [t.__name__ for t in type(e).__mro__ if t not in (object, BaseException)]
        return {"error": names, "message": first_line(e)}


class NotPlainData(TypeError):
    """The result of a call is more than numbers, texts, lists and dicts."""


def plain(value: Any, depth: int = 0) -> Any:
    """The value, if it is JSON's kind of data; tuples become lists. Subclasses with their own manners do not pass."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else repr(value)
    if depth > 20:
        raise NotPlainData("nested too deeply")
    if kind in (list, tuple):
        return [plain(v, depth + 1) for v in value]
    if kind is dict and all(type(k) is str for k in value):
        return {k: plain(v, depth + 1) for k, v in value.items()}
    raise NotPlainData(f"a result of type {kind.__name__}")


def first_line(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or [""])[0][:300]
    except Exception as e:
        return f"(its text cannot be had: {type(e).__name__})"


if __name__ == "__main__":
    main()
