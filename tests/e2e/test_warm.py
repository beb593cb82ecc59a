"""A command forked from the warm process is the one that a shell starts: what it finds, how it ends, what it leaves."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import PATIENCE_S, user_environment
from tests.e2e.warm import WarmProcess

pytestmark = pytest.mark.skipif(not WarmProcess.possible(), reason="needs pidfd, for which there is Linux")

#: An agent whose import tells what its process has, from inside the command.
LOOKS = """
import json, os, signal, sys, threading
with open(os.environ["FOUND_TOKEN"], "w") as file:
    json.dump({
        "arguments": [sys.argv, sys.orig_argv[1:], sys.modules["__main__"].__spec__.name],
        "path": sys.path,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signals": {int(s): str(signal.getsignal(s)).partition(" at ")[0] for s in signal.valid_signals()},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "open": sorted(fd for fd in range(3, 250) if os.path.exists(f"/proc/self/fd/{fd}") and "study" not in
                       os.readlink(f"/proc/self/fd/{fd}")),
        "streams": [[s.fileno(), s.encoding, s.errors, s.line_buffering, s.isatty()]
                    for s in (sys.__stdin__, sys.__stdout__, sys.__stderr__)],
        "threads": [t.name for t in threading.enumerate()],
        "umask": os.umask(0o022),
    }, file)
def make(messages):
    return "I go right. ACTI!"
"""


@pytest.fixture
def study(shell):
    """Write an agent and a study of it; returns the name of the study file."""

    def make(code: str) -> str:
        (shell.folder / "own_agent.py").write_text(code)
        block = {"benchmark": "maze", "versions": ["solo_full"], "models": ["python:own_agent:make"]}
        text = {"name": "own", "blocks": [block | {"mazes": {"count": 1}}]}
        (shell.folder / "study.yaml").write_text(yaml.safe_dump(text))
        return "study.yaml"

    return make


def test_a_forked_command_finds_what_a_started_one_finds(shell, study, tmp_path):
    path, found = study(LOOKS), {}
    for cold in (True, False):
        told = tmp_path / "found.json"
        ended = shell.run("run", path, "--dry-run", cold=cold, env={"FOUND_TOKEN": str(told)})
        assert ended.code == 0, ended.err
        found[cold] = json.loads(told.read_text())
    assert found[False] == found[True]
    assert found[False]["leads"] == [True, True]


ENDINGS = {
    "by itself": "",
    "with a code": "os._exit(7)",
    "by a signal": "os.kill(os.getpid(), signal.SIGKILL)",
    "by a crash": "signal.signal(signal.SIGSEGV, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGSEGV)",
    "interrupted": "os.kill(os.getpid(), signal.SIGINT); time.sleep(10)",
    "ended by a signal": "os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)",
    "with work left": "atexit.register(print, 'at exit', file=sys.stderr)\n"
    "threading.Thread(target=lambda: (time.sleep(0.3), print('a thread', file=sys.stderr))).start()",
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_forked_command_ends_as_a_started_one_ends(how, shell, study):
    code = f"import atexit, os, signal, sys, threading, time\n{ENDINGS[how]}\ndef make(messages):\n    return ''\n"
    path = study(code)
    one, other = (shell.run("run", path, "--dry-run", cold=cold) for cold in (True, False))
    assert other == one
    if how == "with work left":
        assert other.err.splitlines() == ["a thread", "at exit"]


def test_only_keys_may_differ_from_the_environment_that_was_there_while_it_was_imported(warm):
    env = warm.environment  # that of the tests may have changed since
    assert warm.serves(env)
    assert warm.serves(env | {"OPENAI_API_KEY": "x"})
    assert not warm.serves(env | {"MPLBACKEND": "svg"})
    assert not warm.serves({name: value for name, value in env.items() if name != "PATH"})


def gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_neither_the_process_nor_what_it_runs_outlives_the_tests(shell, study, tmp_path):
    path = study("open('there', 'w').close()\nimport time\ntime.sleep(10000)\n")
    process = WarmProcess(user_environment(), tmp_path / "log")
    with open(os.devnull, "wb") as out:
        command = process.start(["run", path, "--dry-run"], shell.folder, user_environment(), out, out)
    end = time.monotonic() + PATIENCE_S
    while not (shell.folder / "there").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert command.poll() is None
    process.close()  # as the system does when the tests are killed: the line breaks, nothing else is said
    while not gone(command.pid):
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(ChildProcessError, match="the warm process is gone"):
        command.wait(PATIENCE_S)
