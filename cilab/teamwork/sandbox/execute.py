"""Running the code of a workspace: its tests, one of its programs, or single functions whose results are compared.

May import this folder. Which of the three to trust:

- `evaluate` gives function results back as JSON, and whoever asked compares them **outside** the sandbox. The
  expected values are never where the code under test could see them, so nothing that it does in its process (patching
  pytest, forging reports, `__eq__` that is always true, `os._exit(0)`) gains more than returning the right values
  would. Checks that decide a score should use it.
- `run_tests` with `extra_files` runs hidden tests in the interpreter of the code under test. It shuts the common ways
  to cheat: no conftest.py and no pytest configuration of the workspace, no plugins, pytest imported before anything
  of the workspace, reports over a pipe of their own with a token, an end of report that must agree with the exit
  code, every expected test must be reported as passed, and a test that must fail has to be seen failing. Code that
  was written against this very runner could still search the interpreter for the token.
- `run_tests` without `extra_files` and `run_python` are the model's own tools: what they say is for the model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar

from . import box, layout, seccomp
from .base import Isolation, Limits, SandboxError, shorten
from .workspace import Refused, Workspace, normalise

#: Plugins of pytest's own that are of no use here: they write to disk, talk to a terminal, print addresses, or are slow
#: to import.
_WITHOUT = ("cacheprovider", "debugging", "doctest", "faulthandler", "junitxml", "pastebin", "setuponly", "setupplan")
_PYTEST = ("-q", "--no-header", "--color=no", "--tb=short", *(f"-pno:{name}" for name in _WITHOUT))
#: Nothing of the workspace but the test files themselves says how tests are run.
_GUARDED = (*_PYTEST, "-c", "/dev/null", "--rootdir=.", "--noconftest", "--import-mode=importlib")
_STOPPED = {
    "time": "it ran longer than {seconds:g} s",
    "call": "a call ran longer than {call_seconds:g} s",
    "cpu": "it used more than {cpu_seconds} s of processor time",
    "output": "it wrote more than {raw_output_bytes} bytes of output",
    "files": "it made more than {disk_files} files",
    "threads": "it started more than {threads} threads",
    "report": "it reported too much",
}
_MESSAGE_CHARS = 300
#: What lets bubblewrap work where it is installed and does not.
_REMEDY = (
    "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1, on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container: start it with user namespaces allowed"
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of running tests or a program.

    Attributes
    ----------
    ok : tests: every expected one (or each that was found, at least one) passed and none failed. A program: exit 0.
    exit_code : as a shell sees it; None when it was stopped or never started.
    output : what it wrote, shortened; times and addresses are taken out, so that the same files give the same text.
    timed_out : it was stopped for its wall-clock time.
    passed, failed : node ids of tests, sorted. A test that was expected and did not report counts as failed.
    errors : what kept tests from being run, one line each.
    killed_by : time, cpu, output, files, threads or report; None when it ended by itself.
    changed : paths of the workspace that it changed.
    left_out : files it left that were not taken over, and why, one line each.
    """

    ok: bool
    exit_code: int | None
    output: str
    timed_out: bool
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    killed_by: str | None = None
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function of the workspace.

    Attributes
    ----------
    module : as in `import`, from the workspace's folder or its `src`.
    function : its name; dots reach into classes and objects.
    args_json, kwargs_json : a JSON list and a JSON object.
    """

    module: str
    function: str
    args_json: str = "[]"
    kwargs_json: str = "{}"

    @classmethod
    def of(cls, module: str, function: str, *args: Any, **kwargs: Any) -> Call:
        """The call with these arguments, which must be JSON's kind of data."""
        return cls(module, function, json.dumps(args), json.dumps(kwargs))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave.

    Attributes
    ----------
    status : `value`; `error` (it raised, or its result is not plain data); `timeout`; `crash` (the process ended).
    value_json : the result as JSON, for `value`. Tuples are lists; infinities and NaN are the texts inf, -inf, nan.
    error : the name of the error's type, for `error`.
    error_types : the name of that type and of those it derives from.
    message : the first line of the error's text.
    """

    status: Literal["value", "error", "timeout", "crash"]
    value_json: str | None = None
    error: str | None = None
    error_types: tuple[str, ...] = ()
    message: str = ""

    @property
    def value(self) -> Any:
        """The result; None unless `status` is `value`."""
        return None if self.value_json is None else json.loads(self.value_json)


# ---------------------------------------------------------------------- tests and programs


def run_tests(
    workspace: Workspace,
    paths: Sequence[str] = (),
    extra_files: Mapping[str, str] | None = None,
    *,
    expected: Sequence[str] = (),
    limits: Limits | None = None,
    isolation: Isolation = "bwrap",
    cache: bool = False,
) -> Execution:
    """Run pytest over the workspace.

    Parameters
    ----------
    workspace : its files; what the run made of them is taken back into it, unless there are `extra_files`.
    paths : files, folders or node ids (`tests/test_a.py::test_one`); everything when empty.
    extra_files : hidden tests, laid over the files for this run. They make it a guarded run (see the module), and
        nothing is taken back from it, since code could copy them.
    expected : node ids that must pass, besides that none may fail.
    cache : take the result of an earlier run of the same files under the same limits; for simulated agents.

    Raises
    ------
    SandboxError
        When nothing can be run here. What the code or the paths do wrong is in the result.
    """
    limits = limits or workspace.limits
    try:
        chosen = [_test_path(path, {**workspace.snapshot(), **(extra_files or {})}) for path in paths]
    except Refused as e:
        return Execution(False, None, f"error: {e}", timed_out=False, errors=(str(e),))
    if extra_files is not None:
        return _run_guarded(workspace, chosen, extra_files, tuple(expected), limits, isolation, cache)
    ended = _play(workspace, {"do": "tests", "arguments": [*_PYTEST, *chosen]}, limits, isolation, cache, keep=True)
    passed, failed, errors, code = _read_report(ended)
    failed |= set(expected) - passed
    if ended.killed_by is None and code != ended.exit_code:
        errors.append("the tests ended the process before pytest was through")
    ok = not failed and not errors and bool(passed) and ended.exit_code == 0
    return _execution(workspace, ended, limits, ok, passed, failed, errors)


def run_python(
    workspace: Workspace,
    path: str,
    args: Sequence[str] = (),
    *,
    limits: Limits | None = None,
    isolation: Isolation = "bwrap",
    cache: bool = False,
) -> Execution:
    """Run `python PATH ARGS` in the workspace's folder and take back what it made of the files.

    Parameters
    ----------
    path : a file of the workspace.
    args : texts, at most 50.

    Raises
    ------
    SandboxError
        When nothing can be run here.
    """
    limits = limits or workspace.limits
    try:
        name = _test_path(path, workspace.snapshot())
        _look_at_arguments(args)
    except Refused as e:
        return Execution(False, None, f"error: {e}", timed_out=False, errors=(str(e),))
    order = {"do": "python", "path": name, "args": list(args)}
    ended = _play(workspace, order, limits, isolation, cache, keep=True)
    return _execution(workspace, ended, limits, ended.exit_code == 0, set(), set(), [])


def _look_at_arguments(args: object) -> None:
    if isinstance(args, str) or not isinstance(args, Sequence) or not all(isinstance(a, str) for a in args):
        raise Refused("the arguments must be a list of texts")
    if len(args) > 50 or any("\0" in a or len(a) > 2_000 for a in args):
        raise Refused("at most 50 arguments of 2000 characters")


def _test_path(path: object, files: Mapping[str, str]) -> str:
    """A path or node id that names something there; so none can be an option of pytest."""
    if not isinstance(path, str):
        raise Refused("a path is a text")
    file, colons, test = path.partition("::")
    name = normalise(file)
    if name.startswith("-") or not (name in files or any(f.startswith(f"{name}/") for f in files)):
        raise Refused(f"{name}: there is no such file")
    return name + colons + test


def _run_guarded(
    workspace: Workspace,
    chosen: list[str],
    extra_files: Mapping[str, str],
    expected: tuple[str, ...],
    limits: Limits,
    isolation: Isolation,
    cached: bool,
) -> Execution:
    extra = {_own_path(path): text for path, text in extra_files.items()}
    wire = f"test_{hashlib.sha256(json.dumps(extra, sort_keys=True).encode()).hexdigest()[:12]}"
    tests = chosen or sorted(p for p in extra if os.path.basename(p).startswith("test"))
    laid_over = {**extra, f"{wire}.py": f"def {wire}():\n    assert len('three') == 3\n"}
    order = {"do": "tests", "arguments": [*_GUARDED, *tests, f"{wire}.py"]}
    ended = _play(workspace, order, limits, isolation, cached, extra=laid_over)
    passed, failed, errors, code = _read_report(ended)
    tripped = f"{wire}.py::{wire}"
    if ended.killed_by is None and (code is None or code != ended.exit_code):
        errors.append("the code ended the process before the tests were through")
    elif ended.killed_by is None and tripped not in failed:
        errors.append("the test runner was tampered with: a test that must fail did not")
    passed -= {tripped}
    failed = (failed - {tripped}) | (set(expected) - passed)
    ok = not failed and not errors and bool(passed) and ended.killed_by is None
    lines = [*(f"passed {t}" for t in sorted(passed)), *(f"failed {t}" for t in sorted(failed)), *errors]
    return _execution(workspace, ended, limits, ok, passed, failed, errors, text="\n".join(lines))


def _own_path(path: str) -> str:
    try:
        return normalise(path)
    except Refused as e:
        raise SandboxError(f"hidden test file {path!r}: {e}") from None


def _read_report(ended: box.Ended) -> tuple[set[str], set[str], list[str], int | None]:
    """Tests passed, tests failed (in any phase), what could not be collected, and pytest's own exit code."""
    passed: set[str] = set()
    failed: set[str] = set()
    errors: list[str] = []
    code = None
    for record in ended.records:
        match record:
            case {"test": str(test), "outcome": "failed"}:
                failed.add(test)
            case {"test": str(test), "when": "call", "outcome": "passed"}:
                passed.add(test)
            case {"uncollected": str(where), "message": str(message)}:
                errors.append(_scrub(f"{where}: {message}"[:_MESSAGE_CHARS]))
            case {"end": int(number)}:
                code = number
    return passed - failed, failed, errors, code


def _execution(
    workspace: Workspace,
    ended: box.Ended,
    limits: Limits,
    ok: bool,
    passed: set[str],
    failed: set[str],
    errors: list[str],
    text: str | None = None,
) -> Execution:
    if text is None:
        text = _scrub(ended.output[: limits.raw_output_bytes].decode(errors="replace")).rstrip()
    stopped = _STOPPED[ended.killed_by].format(**asdict(limits)) if ended.killed_by else ""
    notes = [f"[stopped: {stopped}]"] if stopped else []
    return Execution(
        ok=ok and not stopped,
        exit_code=ended.exit_code,
        output="\n".join(filter(None, [shorten(text, limits.output_chars), *notes])),
        timed_out=ended.killed_by == "time",
        passed=tuple(sorted(passed)),
        failed=tuple(sorted(failed)),
        errors=tuple(errors),
        killed_by=ended.killed_by,
        changed=workspace.take_back(ended.files, ended.unread) if ended.kept else (),
        left_out=tuple(f"{path}: {why}" for path, why in sorted(ended.unread.items())),
    )


_CLOCK = re.compile(r" in \d+(?:\.\d+)?s(?: \(\d+:\d\d:\d\d\))?(?=[\s=]|$)")
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")


def _scrub(text: str) -> str:
    """The text without what differs from run to run: pytest's clock and the addresses of objects."""
    return _ADDRESS.sub("at 0x...", _CLOCK.sub("", text))


# ---------------------------------------------------------------------- calls


def evaluate(
    workspace: Workspace,
    calls: Sequence[Call],
    *,
    extra_files: Mapping[str, str] | None = None,
    under_pytest: bool = False,
    limits: Limits | None = None,
    isolation: Isolation = "bwrap",
    cache: bool = False,
) -> list[Outcome]:
    """Call functions of the workspace and give back what they return, to be compared by the caller.

    Parameters
    ----------
    workspace : its files; nothing is taken back into it.
    calls : made in order in one process. After a crash or a timeout the rest goes on in a fresh one.
    extra_files : helper modules for what a single call cannot say, such as the use of a class.
    under_pytest : make the calls inside a test that pytest runs. Code that behaves under test only is found by
        asking both ways.
    limits : `call_seconds` bounds each call, `seconds` all of them.

    Returns
    -------
    list of Outcome
        One for each call, in order.

    Raises
    ------
    SandboxError
        When nothing can be run here, or a call's arguments are no JSON.
    """
    limits = limits or workspace.limits
    wanted = [_call_order(call) for call in calls]
    extra = {_own_path(path): text for path, text in (extra_files or {}).items()}
    outcomes: list[Outcome] = []
    seconds = limits.seconds
    while len(outcomes) < len(wanted):
        order = {"do": "calls", "calls": wanted[len(outcomes) :], "under_pytest": under_pytest}
        ended = _play(workspace, order, limits, isolation, cache, extra=extra, seconds=seconds)
        seconds -= ended.seconds
        outcomes += _outcomes(ended, len(wanted) - len(outcomes), out_of_time=seconds <= 0)
    return outcomes


def _call_order(call: Call) -> dict[str, Any]:
    try:
        args, kwargs = json.loads(call.args_json), json.loads(call.kwargs_json)
    except ValueError as e:
        raise SandboxError(f"call of {call.module}.{call.function}: its arguments are no JSON: {e}") from None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise SandboxError(f"call of {call.module}.{call.function}: give a JSON list and a JSON object as arguments")
    return {"module": call.module, "function": call.function, "args": args, "kwargs": kwargs}


def _outcomes(ended: box.Ended, wanted: int, *, out_of_time: bool) -> list[Outcome]:
    """What one process reported, and what is to be said of the call at which it ended."""
    found: list[Outcome] = []
    for record in ended.records:
        if record.get("call") == len(found) < wanted and (outcome := _outcome(record)) is not None:
            found.append(outcome)
    if len(found) == wanted:
        return found
    if ended.killed_by == "time" or out_of_time:
        return found + [Outcome("timeout")] * (wanted - len(found))
    return [*found, Outcome("timeout" if ended.killed_by in ("call", "cpu") else "crash")]


def _outcome(record: Mapping[str, Any]) -> Outcome | None:
    match record:
        case {"value": str(text)}:
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                return None
            return Outcome("value", value_json=text)
        case {"error": [str(first), *rest], "message": str(message)}:
            return Outcome("error", None, first, (first, *map(str, rest)), _scrub(message[:_MESSAGE_CHARS]))
    return None


# ---------------------------------------------------------------------- one run, remembered or not


def _play(
    workspace: Workspace,
    order: Mapping[str, Any],
    limits: Limits,
    isolation: Isolation,
    cached: bool,
    *,
    extra: Mapping[str, str] | None = None,
    keep: bool = False,
    seconds: float | None = None,
) -> box.Ended:
    extra = extra or {}
    files = {**workspace.snapshot(), **extra}
    whole = {
        **order,
        "files": files,
        "readonly": [p for p in files if p in extra or workspace.is_readonly(p)],
        "site": [layout.SITE] if isolation == "bwrap" else layout.pytest_folders(),
    }
    if order.get("under_pytest"):
        _put_calls_into_a_test(whole)
    if not cached:
        return _run(whole, limits, isolation, keep, seconds)
    key = hashlib.sha256(json.dumps([whole, asdict(limits), isolation, keep], sort_keys=True).encode()).digest()
    return _remembered().get(key, partial(_run, whole, limits, isolation, keep, seconds))


def _run(
    order: Mapping[str, Any], limits: Limits, isolation: Isolation, keep: bool, seconds: float | None
) -> box.Ended:
    stall = limits.call_seconds if order["do"] == "calls" else None
    return box.run(order, limits, isolation=isolation, seconds=seconds, stall_seconds=stall, read_back=keep)


def _put_calls_into_a_test(order: dict[str, Any]) -> None:
    """Add the test in which the calls are made, under a name that such files have and that is not taken."""
    name = next(n for i in range(10_000) if (n := f"test_behaviour{i or ''}.py") not in order["files"])
    order["arguments"] = [*_GUARDED, name]
    order["files"] = {**order["files"], name: "from _calls import make\n\n\ndef test_behaviour():\n    make()\n"}


class _Cache:
    """What runs gave, for simulated agents that act out the same files again and again; least used ones go first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, box.Ended] = OrderedDict()

    def get(self, key: bytes, make: Callable[[], box.Ended]) -> box.Ended:
        with self._lock:
            if (hit := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return hit
        made = make()
        # A busy machine may stop what another time would get through: such an end is not remembered.
        if made.killed_by is None:
            with self._lock:
                self._kept[key] = made
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return made


@cache
def _remembered() -> _Cache:
    return _Cache(most=1024)


# ---------------------------------------------------------------------- beside an event loop


async def run_tests_async(*args: Any, **kwargs: Any) -> Execution:
    """`run_tests` in a thread of the sandbox's own."""
    return await _in_thread(partial(run_tests, *args, **kwargs))


async def run_python_async(*args: Any, **kwargs: Any) -> Execution:
    """`run_python` in a thread of the sandbox's own."""
    return await _in_thread(partial(run_python, *args, **kwargs))


async def evaluate_async(*args: Any, **kwargs: Any) -> list[Outcome]:
    """`evaluate` in a thread of the sandbox's own."""
    return await _in_thread(partial(evaluate, *args, **kwargs))


async def _in_thread(work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_threads(), work)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)), thread_name_prefix="cilab-sandbox")


# ---------------------------------------------------------------------- whether it works here


@cache
def available() -> str | None:
    """None where bubblewrap holds code on this machine, else one line that says what is missing and how to mend it.

    A small program is run in the sandbox once per process.
    """
    if not seccomp.known_machine():
        return f"The sandbox does not know the processor {platform.machine()}, only x86_64 and aarch64."
    try:
        (uid,) = evaluate(Workspace({}), [Call("os", "getuid")])
    except SandboxError as error:
        if "not installed" in str(error):
            return f"{error}."
        return f"bubblewrap cannot make a sandbox here: {error}. To mend it: {_REMEDY}."
    if uid.value != 1000:
        return f"bubblewrap made a sandbox here in which nothing runs as it should ({uid.status} {uid.message})."
    return None


def require(isolation: Isolation = "bwrap") -> None:
    """Make sure, before anything is played, that code can be run.

    Raises
    ------
    SandboxError
        When bubblewrap does not work here and the user did not choose to go without.
    """
    if isolation == "bwrap" and (complaint := available()) is not None:
        raise SandboxError(
            f"tasks that run code need a sandbox: {complaint}; or choose --sandbox none at your own risk"
        )
    if isolation == "none":
        layout.pytest_packages()
