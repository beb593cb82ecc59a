"""The clock that steps back, and two processes that want one study."""

from __future__ import annotations

import random
import time

import polars as pl
import pytest

import cilab
from tests.faults import hooks
from tests.faults.checks import stored_answers
from tests.faults.sessions import wait_for
from tests.faults.studies import ENV, STUDIES


@pytest.mark.parametrize(("name", "kills"), [("maze", 2), pytest.param("team", 20, marks=pytest.mark.study)])
def test_a_clock_that_steps_back_changes_no_order_and_loses_nothing(name, kills, sessions, server, whole, counted):
    study, folder = STUDIES[name](sessions.folder, server.url, {"maze": 8, "team": 16}[name]), sessions.folder / "out"
    planned = sessions.run("run", study, "--dry-run", "--json").json["run_ids"]
    rng = random.Random(kills)
    how = {"env": ENV, "before": hooks.clock_steps_back}
    for _ in range(kills):
        wanted = len(server.requests()) + rng.randint(2, 9)
        session = sessions.start("run", study, "--out", folder, "--gate", "off", **how)
        assert wait_for(lambda wanted=wanted: len(server.requests()) >= wanted, session)
        session.kill()
    ended = sessions.run("run", study, "--out", folder, "--gate", "off", **how)
    assert ended.code == 0, ended.err
    whole(folder, planned)
    runs = cilab.open(folder).runs.collect()
    backwards = runs.filter(pl.col("finished_at") < pl.col("started_at")).height
    counted(f"clock back an hour at every third look, {name}", kills=kills, rollouts=runs.height, backwards=backwards)
    assert backwards == 0, "no rollout ends before it begins"
    assert runs["seconds"].min() >= 0
    assert len(stored_answers(folder)) == len(set(stored_answers(folder)))


@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.study)])
def test_of_two_processes_on_one_study_one_plays_and_the_other_is_refused(rounds, sessions, server, whole, counted):
    study, folder = STUDIES["maze"](sessions.folder, server.url, 6 * rounds), sessions.folder / "out"
    planned = sessions.run("run", study, "--dry-run", "--json").json["run_ids"]
    rng = random.Random(rounds)
    refused = 0
    for _ in range(rounds):
        both = [sessions.start("run", study, "--out", folder, env=ENV) for _ in range(2)]
        wanted = len(server.requests()) + rng.randint(1, 5)
        wait_for(lambda wanted=wanted: len(server.requests()) >= wanted, both[0])
        end = time.monotonic() + 60.0
        while all(s.alive for s in both) and time.monotonic() < end:
            time.sleep(0.01)
        losers = [s for s in both if not s.alive]
        assert len(losers) == 1
        told = losers[0].wait()
        assert told.code == 2 and "another process" in told.err and "Traceback" not in told.err
        winner = next(s for s in both if s is not losers[0])
        assert f"pid {winner.process.pid}" in told.err
        refused += 1
        winner.kill()
    assert sessions.run("run", study, "--out", folder, env=ENV).code == 0
    whole(folder, planned)
    stored = stored_answers(folder)
    counted("two processes on one study", rounds=rounds, refused=refused, rollouts=len(planned), answers=len(stored))
    assert len(stored) == len(set(stored))
