"""Running the code of a workspace, in ordinary use."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cilab.teamwork import sandbox
from cilab.teamwork.sandbox import (
    Call,
    Execution,
    Limits,
    SandboxError,
    Workspace,
    evaluate,
    layout,
    run_python,
    run_tests,
    seccomp,
)
from cilab.teamwork.sandbox import execute as execute_module

pytestmark = pytest.mark.usefixtures("bubblewrap")

FILES = {
    "src/prices.py": "def total(items, rate=0.0):\n    return round(sum(items) * (1 + rate), 2)\n",
    "tests/test_prices.py": (
        "import pytest\nfrom prices import total\n\n\n"
        "def test_sum():\n    assert total([1, 2]) == 3\n\n\n"
        "@pytest.mark.parametrize('rate', [0.1, 0.5])\n"
        "def test_rate(rate):\n    assert total([10], rate) == 11\n"
    ),
}


def test_pytest_tells_which_tests_passed_and_which_failed_and_why() -> None:
    done = run_tests(Workspace(FILES))
    assert done.passed == ("tests/test_prices.py::test_rate[0.1]", "tests/test_prices.py::test_sum")
    assert done.failed == ("tests/test_prices.py::test_rate[0.5]",)
    assert (done.ok, done.exit_code, done.timed_out, done.killed_by, done.errors) == (False, 1, False, None, ())
    assert "assert 15.0 == 11" in done.output and "1 failed, 2 passed" in done.output
    assert done.changed == () and done.left_out == ()


def test_files_and_single_tests_can_be_chosen() -> None:
    w = Workspace(FILES)
    assert run_tests(w, ["tests/test_prices.py::test_sum"]).passed == ("tests/test_prices.py::test_sum",)
    assert len(run_tests(w, ["tests"]).passed) == 2


@pytest.mark.parametrize("path", ["--rootdir=/", "-p", "../tests", "/etc", "tests/none.py", "@tests/test_prices.py", 3])
def test_a_chosen_path_that_names_nothing_there_is_answered_and_no_option_gets_through(path: object) -> None:
    done = run_tests(Workspace(FILES), [path])  # type: ignore[list-item]
    assert (done.ok, done.exit_code) == (False, None)
    assert done.output.startswith("error: ")


def test_tests_that_cannot_be_collected_are_errors_with_their_reason() -> None:
    done = run_tests(Workspace({"test_a.py": "import nowhere\n", "test_b.py": "def test_b(): pass\n"}))
    assert not done.ok
    assert done.errors == ("test_a.py: E   ModuleNotFoundError: No module named 'nowhere'",)


def test_no_tests_at_all_is_not_a_success() -> None:
    assert not run_tests(Workspace({"a.py": ""})).ok


def test_an_expected_test_that_was_renamed_or_skipped_counts_as_failed() -> None:
    skipping = "import pytest\n\n\n@pytest.mark.skip\ndef test_a(): pass\n\n\ndef test_b(): pass\n"
    w = Workspace({"test_x.py": skipping})
    done = run_tests(w, expected=["test_x.py::test_a", "test_x.py::test_b", "test_x.py::test_c"])
    assert not done.ok
    assert done.passed == ("test_x.py::test_b",)
    assert done.failed == ("test_x.py::test_a", "test_x.py::test_c")


def test_the_same_files_give_the_same_text_every_time() -> None:
    noisy = "def test_a(tmp_path):\n    print(object(), {'a', 'b', 'c'}, hash('x'))\n    assert tmp_path == 1\n"
    first, second = (run_tests(Workspace({"test_a.py": noisy})) for _ in range(2))
    assert first == second
    assert "object at 0x...>" in first.output and "1 failed" in first.output


def test_a_program_gets_its_arguments_and_leaves_its_files_in_the_workspace() -> None:
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "Path('report').mkdir()\nPath('report/sum.txt').write_text(str(sum(map(int, sys.argv[1:]))))\n"
        "Path('old.txt').unlink()\nPath('data.bin').write_bytes(bytes([0, 255]))\n"
        "print(__name__, os.getcwd(), sys.argv[0])\nsys.exit(3)\n"
    )
    w = Workspace({"tools/add.py": program, "old.txt": "x"})
    done = run_python(w, "tools/add.py", ["1", "2"])
    assert (done.ok, done.exit_code, done.output) == (False, 3, "__main__ /work tools/add.py")
    assert done.changed == ("old.txt", "report/sum.txt")
    assert done.left_out == ("data.bin: not a text",)
    assert w.snapshot() == {"report/sum.txt": "3", "tools/add.py": program}
    assert w.changed == {"old.txt", "report/sum.txt"}


@pytest.mark.parametrize("args", ["text", [1], ["a\0b"], ["x"] * 51, None])
def test_arguments_that_are_no_short_texts_are_answered(args: object) -> None:
    done = run_python(Workspace({"a.py": ""}), "a.py", args)  # type: ignore[arg-type]
    assert done.output.startswith("error: ")


def test_the_python_inside_has_its_standard_library_and_nothing_that_is_installed() -> None:
    program = (
        "import bz2, csv, ctypes, decimal, hashlib, json, lzma, sqlite3, ssl, threading, unittest, zlib\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "sqlite3.connect('x.db').execute('create table t (a)')\n"
        "for name in ('polars', 'cilab', 'pytest', 'pip'):\n"
        "    try:\n        __import__(name)\n        print('there is', name)\n    except ImportError:\n        pass\n"
    )
    done = run_python(Workspace({"a.py": program}), "a.py")
    assert (done.output, done.exit_code) == ("thread", 0)


def test_long_output_keeps_its_beginning_and_its_end() -> None:
    done = run_python(Workspace({"a.py": "for i in range(3000): print('line', i)\n"}), "a.py")
    assert done.output.startswith("line 0\n") and done.output.endswith("line 2999")
    assert "characters left out" in done.output
    assert len(done.output) < Limits().output_chars + 100


# ---------------------------------------------------------------------- calls

LIBRARY = """
import time

calls = []

class Account:
    default = None
    def __init__(self, start): self.balance = start
    @staticmethod
    def open(start): return {"balance": start, "limits": (1, 2)}

def add(a, b=1):
    calls.append(a)
    return a + b

def count(): return len(calls)
def strange(): return Account(3)
def wrong(): raise FileNotFoundError("no such shelf\\nsecond line")
def endless():
    while True: time.sleep(1)
def leave(): __import__("os")._exit(0)
def far(): return [float("inf"), float("nan"), 0.1]
def under(): import sys; return "pytest" in sys.modules
"""


@pytest.fixture
def library() -> Workspace:
    return Workspace({"lib/__init__.py": "", "lib/core.py": LIBRARY}, limits=Limits(call_seconds=0.7))


@pytest.mark.parametrize("under_pytest", [False, True])
def test_calls_give_back_values_and_errors_in_order(library: Workspace, under_pytest: bool) -> None:
    module = "lib.core"
    calls = [
        Call.of(module, "add", 2, b=3),
        Call.of(module, "Account.open", 5),
        Call.of(module, "wrong"),
        Call.of(module, "strange"),
        Call.of(module, "missing"),
        Call.of("lib.nowhere", "add"),
        Call.of(module, "count"),
        Call.of(module, "far"),
        Call.of(module, "under"),
    ]
    got = evaluate(library, calls, under_pytest=under_pytest)
    assert [o.status for o in got] == ["value", "value", "error", "error", "error", "error", "value", "value", "value"]
    assert got[0].value == 5
    assert got[1].value == {"balance": 5, "limits": [1, 2]}
    assert (got[2].error, got[2].message) == ("FileNotFoundError", "no such shelf")
    assert "OSError" in got[2].error_types
    assert got[3].error == "NotPlainData"
    assert got[4].error == "AttributeError"
    assert got[5].error == "ModuleNotFoundError"
    assert got[6].value == 1, "calls share one process"
    assert got[7].value == ["inf", "nan", 0.1]
    assert got[8].value is under_pytest


def test_after_a_crash_or_a_call_without_end_the_others_are_still_made(library: Workspace) -> None:
    names = ["leave", "count", "endless", "count"]
    got = evaluate(library, [Call.of("lib.core", name) for name in names])
    assert [o.status for o in got] == ["crash", "value", "timeout", "value"]


def test_calls_together_have_a_limit_as_well(library: Workspace) -> None:
    began = time.monotonic()
    limits = Limits(seconds=1.5, call_seconds=1)
    got = evaluate(library, [Call.of("lib.core", "endless")] * 30, limits=limits)
    assert [o.status for o in got] == ["timeout"] * 30
    assert time.monotonic() - began < 8


def test_a_helper_laid_over_the_files_says_what_one_call_cannot(library: Workspace) -> None:
    helper = (
        "from lib.core import Account\n\n\ndef story():\n    a = Account(1)\n    a.balance += 4\n    return a.balance\n"
    )
    (got,) = evaluate(library, [Call.of("story", "story")], extra_files={"story.py": helper})
    assert got.value == 5
    assert "story.py" not in library.snapshot()


@pytest.mark.parametrize(("args", "kwargs"), [("{}", "{}"), ("[]", "[]"), ("[", "{}")])
def test_a_call_whose_arguments_are_no_json_is_the_author_s_error(args: str, kwargs: str) -> None:
    with pytest.raises(SandboxError, match=r"call of m\.f"):
        evaluate(Workspace({}), [Call("m", "f", args, kwargs)])


# ---------------------------------------------------------------------- machinery


def test_files_that_do_not_fit_the_disk_of_a_run_are_told_and_not_taken_for_a_failure_of_the_code() -> None:
    w = Workspace({"a.py": "print(1)\n", "big.txt": "x" * 100_000})
    with pytest.raises(SandboxError, match="cannot be laid out: No space left"):
        run_python(w, "a.py", limits=Limits(disk_bytes=50_000))


def test_a_remembered_run_is_not_made_again_and_changes_the_workspace_the_same_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"a.py": "open('out.txt', 'w').write('made')\nprint('remember me')\n"}
    first, second, third = Workspace(files), Workspace(files), Workspace(files)
    done = run_python(first, "a.py", cache=True)

    def no_run(*args: object, **kwargs: object) -> None:
        raise AssertionError("run again")

    monkeypatch.setattr(execute_module.box, "run", no_run)
    assert run_python(second, "a.py", cache=True) == done
    assert first.snapshot() == second.snapshot() and second.snapshot()["out.txt"] == "made"
    with pytest.raises(AssertionError, match="run again"):
        run_python(third, "a.py", cache=True, limits=Limits(seconds=9))
    with pytest.raises(AssertionError, match="run again"):
        run_python(third, "a.py")


def test_many_runs_beside_an_event_loop_all_come_back() -> None:
    async def play() -> list[Execution]:
        one = (sandbox.run_python_async(Workspace({"a.py": f"print({i})"}), "a.py") for i in range(8))
        return await asyncio.gather(*one)

    assert [done.output for done in asyncio.run(play())] == [str(i) for i in range(8)]


@pytest.mark.parametrize("isolation", ["bwrap", "none"])
def test_without_bubblewrap_the_results_are_the_same(isolation: sandbox.Isolation) -> None:
    w = Workspace({**FILES, "a.py": "open('made.txt', 'w').write('x')\nprint('hello')\n"}, readonly=["tests/*"])
    sandbox.require(isolation)
    assert len(run_tests(w, isolation=isolation).passed) == 2
    assert run_python(w, "a.py", isolation=isolation).output == "hello"
    assert w.snapshot()["made.txt"] == "x"
    (got,) = evaluate(w, [Call.of("prices", "total", [1, 2])], isolation=isolation)
    assert got.value == 3
    hidden = {"test_hidden.py": "from prices import total\n\n\ndef test_one(): assert total([4]) == 4\n"}
    assert run_tests(w, extra_files=hidden, expected=["test_hidden.py::test_one"], isolation=isolation).ok


def test_without_bubblewrap_there_are_still_limits_and_an_empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "zq9-secret")
    program = "import os\nprint(sorted(os.environ.values()))\nx = bytearray(2**30)\n"
    done = run_python(Workspace({"a.py": program}), "a.py", isolation="none")
    assert "zq9" not in done.output and "MemoryError" in done.output
    spin = run_python(Workspace({"a.py": "while True: pass\n"}), "a.py", isolation="none", limits=Limits(seconds=0.5))
    assert spin.timed_out


def test_where_bubblewrap_is_missing_tasks_fail_at_the_start_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere(name: str) -> None:
        return None

    monkeypatch.setattr(layout.shutil, "which", nowhere)
    sandbox.available.cache_clear()
    try:
        with pytest.raises(SandboxError, match=r"apt-get install bubblewrap.*--sandbox none"):
            sandbox.require()
        with pytest.raises(SandboxError, match="not installed"):
            run_python(Workspace({"a.py": ""}), "a.py")
    finally:
        sandbox.available.cache_clear()


def test_bubblewrap_that_may_not_make_a_sandbox_is_told_with_its_own_words_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho bwrap: no namespaces for you >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(layout.shutil, "which", lambda name: str(fake))
    sandbox.available.cache_clear()
    try:
        complaint = sandbox.available()
    finally:
        sandbox.available.cache_clear()
    assert complaint is not None and "\n" not in complaint
    assert "no namespaces for you" in complaint and "user namespaces" in complaint


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_of_system_calls_is_a_program_whose_jumps_land_on_answers(machine: str) -> None:
    import struct

    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    assert code[0] == (0x20, 0, 0, 4), "it begins with the processor"
    answers = {i for i, (op, *_) in enumerate(code) if op == 0x06}
    assert len(answers) == 4 and max(answers) == len(code) - 1
    for i, (op, yes, no, _) in enumerate(code):
        if op & 0x07 == 0x05:
            assert {i + 1 + d for d in (yes, no) if d} <= answers
            assert yes or no


def test_an_execution_and_a_call_are_quick() -> None:
    """Processor time decides the goals (0.5 s and 0.15 s); the bounds here leave room for a busy machine."""
    w = Workspace(FILES)

    def typical(work: Callable[[], object]) -> float:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    tests = typical(lambda: run_tests(w, ["tests/test_prices.py::test_sum"]))
    calls = typical(lambda: evaluate(w, [Call.of("prices", "total", [1])]))
    assert tests < 4.0
    assert calls < tests
