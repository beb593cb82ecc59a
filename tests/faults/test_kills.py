"""Both benchmarks killed at random instants, while the provider errs too: nothing is lost, doubled or paid twice."""

from __future__ import annotations

import random
import time

import pytest

import cilab
from tests.collect.fault_server import Fault
from tests.faults.checks import check_errors_are_typed, kept_answers, stored_answers
from tests.faults.sessions import processes_of, wait_for
from tests.faults.studies import ENV, IN_FLIGHT, STUDIES

#: Study, kills, size of the study. The whole campaign has 200 kills.
SMALL = [("maze", 3, 8), ("team", 2, 1), ("code", 2, 3)]
WHOLE = [("maze", 100, 200), ("team", 60, 40), ("code", 40, 60)]
#: One request in eight goes wrong in one of these ways.
WRONG = [Fault("429", retry_after="0.05"), "500", "503_html", "cut", "drop", "truncated", "not_json", "no_choices"]


def some_go_wrong(server, rng, n=4000):
    for model in ("talker", "mate", "partner", "judge-a", "judge-b", "judge-c"):
        server.script(model, [rng.choice(WRONG) if rng.random() < 1 / 8 else "ok" for _ in range(n)])


@pytest.mark.parametrize(
    ("name", "kills", "size"), [*SMALL, *(pytest.param(*case, marks=pytest.mark.study) for case in WHOLE)]
)
def test_a_study_killed_at_random_instants_loses_and_repeats_no_answer(
    name, kills, size, sessions, server, whole, counted, request
):
    if name == "code":
        request.getfixturevalue("bubblewrap")
    rng = random.Random(f"{name} {kills}")
    some_go_wrong(server, rng)
    study = STUDIES[name](sessions.folder, server.url, size, max_requests=3)
    folder = sessions.folder / "out"
    planned = sessions.run("run", study, "--dry-run", "--json").json["run_ids"]
    known: set[str] = set()
    met = inside = orphans = 0
    for _ in range(kills):
        wanted = len(server.requests()) + rng.randint(2, 12)
        session = sessions.start("run", study, "--out", folder, "--gate", "off", env=ENV)
        wait_for(lambda wanted=wanted: len(server.requests()) >= wanted, session)
        time.sleep(rng.uniform(0.0, 0.06))
        met += session.alive
        session.kill()
        orphans += bool(processes_of(session.process.pid))
        now = kept_answers(folder)
        assert known <= now, "an answer that was kept is gone"
        inside += bool(cilab.status(folder)["kept_completions"])
        known = now
        check_errors_are_typed(folder)
    sessions_after = 0
    while True:  # what ended in an error is played on by the next session
        ended = sessions.run("run", study, "--out", folder, "--gate", "off", "--json", env=ENV)
        sessions_after += 1
        assert ended.code in (0, 1) and "Traceback" not in ended.err
        if ended.code == 0:
            break
        check_errors_are_typed(folder)
        assert sessions_after < 12, ended.err
    stored = stored_answers(folder)
    time.sleep(0.2)  # the server notices late that a client is gone
    repeated = server.completions_served - len(stored)
    counted(
        f"SIGKILL, {name}",
        kills=met,
        inside_a_rollout=inside,
        rollouts=len(planned),
        answers=len(stored),
        lost=len(known - set(stored)),
        doubled=len(stored) - len(set(stored)),
        sent_again_in_flight=repeated,
        requests=len(server.requests()),
    )
    assert met == kills, "each of the sessions was killed before its end"
    assert inside > 0, "no kill met a rollout with answers in it"
    assert not orphans, "something that a killed session had started lives on"
    assert known <= set(stored), "an answer that had been received was asked for again"
    assert len(stored) == len(set(stored))
    assert 0 <= repeated <= kills * IN_FLIGHT
    whole(folder, planned)
    assert set(cilab.open(folder).runs.collect()["status"]) == {"ok"}
