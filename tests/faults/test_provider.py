"""A provider that goes away, limits or talks nonsense for a while: typed errors meanwhile, and the study ends whole."""

from __future__ import annotations

import threading

import pytest

import cilab
from tests.collect.fault_server import Fault
from tests.faults.checks import check_errors_are_typed, stored_answers
from tests.faults.studies import ENV, STUDIES

#: What a provider does for a while, for how long in the gate and in the whole campaign (seconds), and the kinds of
#: error that may come of it.
OUTAGES = {
    "dies": (["drop"], 1.5, 60.0, {"connection"}),
    "answers 429": ([Fault("429", retry_after="2")], 5.0, 300.0, {"rate_limit"}),  # longer than two requests take
    "answers garbage": (
        ["not_json", "no_choices", "empty_choices", "truncated", "cut", "503_html"],
        1.5,
        60.0,
        {"bad_response", "connection", "server"},
    ),
}
CASES = [("maze", "answers garbage", False), ("team", "answers 429", False)]
CASES += [pytest.param("maze", outage, True, marks=pytest.mark.study) for outage in OUTAGES]
CASES += [pytest.param("team", "dies", True, marks=pytest.mark.study)]


@pytest.mark.parametrize(("name", "outage", "long"), CASES)
def test_a_provider_that_fails_for_a_while_costs_no_answer_twice(name, outage, long, sessions, server, whole, counted):
    behaviours, short, minutes, kinds = OUTAGES[outage]
    seconds = minutes if long else short
    study = STUDIES[name](sessions.folder, server.url, {"maze": 8, "team": 1}[name], max_requests=2)
    folder = sessions.folder / "out"
    planned = sessions.run("run", study, "--dry-run", "--json").json["run_ids"]
    over = threading.Event()

    def fail_for_a_while():
        if long:  # a short trouble is met by the first request, or the study would be over before it
            server.wait_for_requests(None, 6, timeout_s=120)
        models = ("talker", "mate", "partner", "judge-a", "judge-b", "judge-c")
        for model in models:
            server.script(model, behaviours * (1 if len(behaviours) == 1 else 2000), forever=True)
        if not long:
            server.wait_for_requests(None, 1, timeout_s=120)
        over.wait(seconds)
        for model in models:
            server.script(model, [])

    trouble = threading.Thread(target=fail_for_a_while, daemon=True)
    trouble.start()
    seen: dict[str, int] = {}
    n_sessions = failed = 0
    while True:
        ended = sessions.run("run", study, "--out", folder, "--gate", "off", env=ENV)
        n_sessions += 1
        assert ended.code in (0, 1) and "Traceback" not in ended.err
        for kind, n in check_errors_are_typed(folder).items():
            seen[kind] = max(n, seen.get(kind, 0))
        if ended.code == 0:
            break
        failed += 1
        assert f"{cilab.status(folder)['missing']} not finished; run the same command again" in ended.err
        assert n_sessions < 400
        over.wait(2.0 if long else 0.0)  # a user does not try again at once
    over.set()
    trouble.join()
    stored = stored_answers(folder)
    counted(
        f"a provider that {outage}, {name}",
        seconds=seconds,
        sessions=n_sessions,
        sessions_with_errors=failed,
        errors=seen,
        rollouts=len(planned),
        answers=len(stored),
        sent_twice=server.completions_served - len(set(stored)),
    )
    assert failed and seen, "the outage was met"
    assert set(seen) <= kinds
    assert len(stored) == len(set(stored)) == server.completions_served, "every answer that was sent is used, once"
    whole(folder, planned)
