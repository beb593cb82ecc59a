"""Somebody's own agent in a study, from the shell: whatever its code does, the study ends and says what to do."""

from __future__ import annotations

import signal
import time

import pytest
import yaml

import cilab
from cilab.shell.verbs_run import how_to_go_on

ROLLOUTS = 2
ANSWER = "    return 'I go right. ACTI!'\n"


@pytest.fixture
def study(shell):
    """Write an agent and a study of it; returns the name of the study file."""

    def make(code: str, **settings: object) -> str:
        (shell.folder / "own_agent.py").write_text(code)
        block = {
            "benchmark": "maze",
            "versions": ["solo_full"],
            "models": ["python:own_agent:make"],
            "mazes": {"count": ROLLOUTS},
        }
        text = {"name": "own", "max_requests": 1, "blocks": [block]} | settings
        (shell.folder / "study.yaml").write_text(yaml.safe_dump(text))
        return "study.yaml"

    return make


ENDINGS = {
    "sync, sys.exit": ("import sys\ndef make(messages):\n    sys.exit(3)\n", "SystemExit: 3"),
    "sync, Ctrl-C": ("def make(messages):\n    raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    "async, sys.exit": ("import sys\nasync def make(messages):\n    sys.exit(3)\n", "SystemExit: 3"),
    "async, in a task of its own": (
        "import asyncio, sys\nasync def end():\n    sys.exit(3)\n"
        "async def make(messages):\n    await asyncio.create_task(end())\n",
        "SystemExit: 3",
    ),
    "sync, StopIteration": ("def make(messages):\n    raise StopIteration\n", "StopIteration"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_an_agent_that_would_end_the_process_ends_its_rollouts_as_errors(how, shell, study, rows):
    code, says = ENDINGS[how]
    ended = shell.run("run", study(code), "--out", "out", "--json")
    line = len(code.splitlines()) if "task" not in how else 3
    error = f"bad_request: python:own_agent:make: {says} (own_agent.py line {line})"
    assert ended.code == 1
    assert ended.json["errors"] == {error: ROLLOUTS}
    assert "Traceback" not in ended.err
    assert ended.lines[-1] == (
        f"{ROLLOUTS} not finished; correct the agent, then run the same command again: "
        "all runs of an edited agent are played anew"
    )
    assert rows(shell.folder / "out", "runs")["status"].to_list() == ["error"] * ROLLOUTS

    again = shell.run("run", study("def make(messages):\n" + ANSWER), "--out", "out", "--json")  # the lock is free
    assert (again.code, again.json["ok"]) == (0, ROLLOUTS)


@pytest.mark.parametrize(
    ("reasons", "says"),
    [
        (["timeout: python:a:make: no answer within 5 s", "server: openai/x: 500"], "run the same command again: only"),
        (["auth: openai was stopped: 401", "server: openai/x: 500"], "set the right key, then run the same command"),
        (["not_found: openai/x: 404"], "mend what is named above, then run the same command again: only these"),
        (
            ["bad_request: python:a:make: ValueError", "forbidden: openai/x: 403", "no_key: groq/x: no API key"],
            "set the right key and correct the agent and mend what is named above, then run the same command again: a",
        ),
        (["ValueError: auth: no (play.py:3)"], "run the same command again: only these are played"),
    ],
)
def test_what_asking_again_will_not_mend_is_said_before_the_command(reasons, says):
    assert how_to_go_on(dict.fromkeys(reasons, 1)).startswith(says)


def test_an_agent_that_hangs_keeps_neither_the_study_nor_the_process(shell, study):
    code = "import threading\ndef make(messages):\n    threading.Event().wait()\n"
    began = time.monotonic()
    ended = shell.run("run", study(code, deadline_s=1), "--out", "out", "--json")
    assert ended.code == 1
    assert ended.json["errors"] == {"timeout: python:own_agent:make: no answer within 1 s": ROLLOUTS}
    assert ended.lines[-1] == f"{ROLLOUTS} not finished; run the same command again: only these are played"
    assert time.monotonic() - began < 120


def test_what_an_agent_prints_goes_to_standard_error_in_whatever_way_and_however_late(shell, study):
    code = f"""
import os, subprocess, sys, threading, time
print("at import")
def beat():
    while True:
        print("beating", flush=True)
        time.sleep(0.001)
threading.Thread(target=beat, daemon=True).start()
def make(messages):
    print("from print")
    os.write(1, b"from write\\n")
    subprocess.run([sys.executable, "-c", "print('from a program')"], check=True)
{ANSWER}"""
    path = study(code)
    plan = shell.run("run", path, "--out", "out", "--dry-run", "--json")
    assert len(plan.json["run_ids"]) == ROLLOUTS
    ended = shell.run("run", path, "--out", "out", "--json", cold=True)
    assert (ended.code, ended.json["ok"]) == (0, ROLLOUTS)
    for words in ("at import", "from print", "from write", "from a program", "beating"):
        assert words in ended.err
    assert "at import" in plan.err


def test_a_forecast_in_words_is_still_on_standard_output(shell, study):
    ended = shell.run("run", study("def make(messages):\n" + ANSWER), "--dry-run")
    assert ended.code == 0
    assert ended.out.splitlines()[1] == f"rollouts   {ROLLOUTS} planned, 0 finished already"


def test_a_loop_that_an_agent_breaks_is_one_clear_line_and_the_folder_is_free(shell, study):
    code = "import asyncio\nasync def make(messages):\n    asyncio.get_running_loop()._selector.close()\n"
    ended = shell.run("run", study(code), "--out", "out", "--json")
    assert ended.code == 2
    assert ended.out == ""
    assert "cilab: the loop that makes the calls broke (" in ended.lines[-1]
    again = shell.run("run", study("def make(messages):\n" + ANSWER), "--out", "out", "--json")
    assert (again.code, again.json["ok"]) == (0, ROLLOUTS)


def test_a_third_signal_leaves_async_code_that_never_lets_go_of_the_loop(shell, study, until):
    code = "import time\nasync def make(messages):\n    open('asked', 'w').close()\n    time.sleep(10000)\n"
    session = shell.start("run", study(code), "--out", "out")
    assert until((shell.folder / "asked").exists, session)
    for _ in range(3):
        assert session.alive
        session.send(signal.SIGINT)
        time.sleep(1.0)
    ended = session.wait(60)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert "giving up the calls in flight; Ctrl-C again to leave at once" in ended.err
    assert cilab.status(shell.folder / "out")["finished"] == 0
