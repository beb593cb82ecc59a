"""Ctrl-C once, twice, and SIGTERM: what was in flight is kept or given up as asked, and the study goes on later."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import yaml

import cilab
from cilab.store.journal import JOURNAL_NAME
from tests.collect.fault_server import Fault, FaultServer

KEYS = {"OPENAI_API_KEY": "sk-test-0123456789abcdefPLANTED"}
CONCURRENCY, ROLLOUTS, TURNS = 4, 8, 4


@pytest.fixture
def server():
    with FaultServer() as running:
        yield running


@pytest.fixture
def study(shell, server):
    """A study of 8 dialogues of 4 turns, 4 at a time, in the shell's folder."""
    text = {
        "name": "http",
        "concurrency": CONCURRENCY,
        "models": {"talker": {"route": "openai/talker", "api_base": server.url}},
        "blocks": [
            {
                "benchmark": "maze",
                "versions": ["pair"],
                "models": ["talker"],
                "mazes": {"count": ROLLOUTS},
                "max_turns": TURNS,
            }
        ],
    }
    (shell.folder / "study.yaml").write_text(yaml.safe_dump(text))
    return "study.yaml"


def answers(folder: Path, rows) -> int:
    """Answers that are safe: of finished rollouts and inside unfinished ones."""
    return cilab.status(folder)["kept_completions"] + rows(folder, "calls").height


@pytest.mark.slow
@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_one_signal_lets_the_calls_in_flight_finish_and_keeps_them(what, shell, server, study, rows, whole, until):
    server.latency_s = 3.0  # four at a time: the second wave is sent when the first is answered
    session = shell.start("run", study, "--out", "out", env=KEYS)
    assert until(lambda: len(server.requests()) >= 2 * CONCURRENCY, session)
    session.send(what)
    ended = session.wait()
    folder = shell.folder / "out"
    assert ended.code == 130
    assert ended.lines[-1] == "interrupted; nothing that arrived is lost. Run the same command again: it continues"
    assert "Traceback" not in ended.err
    assert len(server.requests()) == server.completions_served == answers(folder, rows) == 2 * CONCURRENCY

    server.latency_s = 0.0
    assert shell.run("run", study, "--out", "out", env=KEYS).code == 0
    assert len(server.requests()) == ROLLOUTS * TURNS  # nothing was paid twice
    whole(folder, shell.run("run", study, "--dry-run", "--json").json["run_ids"])


@pytest.mark.slow
def test_a_second_signal_gives_the_calls_in_flight_up_at_once(shell, server, study, rows, whole, until):
    never = 10 * 60.0
    server.script("talker", ["ok"] * CONCURRENCY + [Fault("ok", latency_s=never)], forever=True)
    session = shell.start("run", study, "--out", "out", env=KEYS)
    assert until(lambda: len(server.requests()) >= 2 * CONCURRENCY, session)
    session.send(signal.SIGINT)
    time.sleep(2.0)
    assert session.alive  # it waits for what is in flight
    began = time.monotonic()
    session.send(signal.SIGINT)
    ended = session.wait(never / 4)
    print(f"ended {time.monotonic() - began:.1f} s after the second signal")
    folder = shell.folder / "out"
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert answers(folder, rows) == CONCURRENCY

    server.script("talker", [])
    assert shell.run("run", study, "--out", "out", env=KEYS).code == 0
    assert len(server.requests()) == ROLLOUTS * TURNS + CONCURRENCY  # those that were given up
    whole(folder, shell.run("run", study, "--dry-run", "--json").json["run_ids"])


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_while_it_starts_is_an_interruption_too(what, shell, study, until):
    session = shell.start("run", study, "--out", "out", env=KEYS, cold=True)
    maps = Path(f"/proc/{session.process.pid}/maps")
    if not maps.exists():
        pytest.skip("needs /proc to see how far the command is")
    assert until(lambda: "pydantic_core" in maps.read_text(), session)  # past the command line, before any call
    session.send(what)
    ended = session.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert not (shell.folder / "out" / "tables").exists()


def test_an_interrupted_quickstart_makes_no_report_of_what_is_not_there(shell, until):
    session = shell.start("quickstart", "--no-open", cold=True)
    folder = shell.folder / "data" / "studies" / "quickstart"
    assert until(
        lambda: (folder / JOURNAL_NAME).exists() and cilab.status(folder)["kept_completions"] > 0, session, 0.1
    )
    session.send(signal.SIGINT)
    ended = session.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert ended.out.split() == ["data", "data/studies/quickstart"]
    assert not (shell.folder / "reports").exists()
