"""Studies through LiteLLM over real HTTP: what is paid, what is stored, what a misbehaving provider does to a study."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

import polars as pl
import pytest
import yaml
from polars.testing import assert_frame_equal

import cilab
from cilab.collect.local_model import serve_local
from cilab.store import wire_messages
from tests.collect.fault_server import Fault, FaultServer

KEY = "sk-test-0123456789abcdefPLANTED"
GROQ_KEY = "gsk-test-0123456789abcdefPLANTED"
KEYS = {"OPENAI_API_KEY": KEY, "GROQ_API_KEY": GROQ_KEY}


@pytest.fixture
def server():
    with FaultServer() as running:
        yield running


def write_study(shell, server_url, models, blocks, **more):
    """A study file; `models` maps a name to its settings, `route` being openai/NAME where none is given."""
    settings = {n: {"route": f"openai/{n}", "api_base": server_url} | s for n, s in models.items()}
    study = {"name": "http", "models": settings, "blocks": [{"benchmark": "maze", **b} for b in blocks], **more}
    (shell.folder / "study.yaml").write_text(yaml.safe_dump(study))
    return "study.yaml"


# -- killed -------------------------------------------------------------------------------------------------


def test_a_killed_study_pays_again_only_for_what_was_in_flight(shell, server, rows, whole, until):
    concurrency = 4
    server.latency_s = 0.1
    blocks = [{"versions": ["pair"], "models": ["talker"], "mazes": {"count": 12}, "max_turns": 4}]
    study = write_study(shell, server.url, {"talker": {}}, blocks, concurrency=concurrency)
    planned = shell.run("run", study, "--dry-run", "--json").json["run_ids"]
    assert shell.run("run", study, "--out", "through", env=KEYS, cold=True).code == 0
    through = server.completions_served
    assert (len(planned), through) == (12, 48)

    rng = random.Random(7)
    folder, arrived, inside = shell.folder / "killed", 0, 0
    moments = [1, 5, 9, 3, 13, 7]
    rng.shuffle(moments)
    for moment in moments:
        wanted = len(server.requests()) + moment
        session = shell.start("run", study, "--out", "killed", env=KEYS)
        assert until(lambda wanted=wanted: len(server.requests()) >= wanted, session)
        time.sleep(rng.uniform(0.0, 0.15))
        assert session.alive
        session.kill()
        kept = cilab.status(folder)["kept_completions"]
        inside += kept > 0
        now = kept + rows(folder, "calls").height
        # A request beyond the first wave is sent when an answer is safe in the journal.
        assert now >= arrived + max(0, moment - concurrency), f"{now} answers after {arrived} and {moment} requests"
        arrived = now
    ended = shell.run("run", study, "--out", "killed", "--json", env=KEYS)
    time.sleep(3 * server.latency_s)  # the server notices late that a client is gone
    excess = server.completions_served - 2 * through
    print(f"{through + excess} served for {through} after {len(moments)} kills, {inside} of them inside rollouts")
    assert ended.code == 0
    assert inside > 0, "no kill met a rollout with answers in it"
    assert 0 <= excess <= len(moments) * concurrency
    assert server.most_in_flight <= 2 * concurrency  # those of a dead session and those of the next
    whole(folder, planned)
    columns = ("run_id", "index", "seat", "content", "tokens_in", "tokens_out")
    one, other = (
        rows(f, "messages").select(columns).sort("run_id", "index") for f in (folder, shell.folder / "through")
    )
    assert_frame_equal(one, other)
    calls = rows(folder, "calls")
    assert calls.height == 48
    sent = Counter(json.dumps(r.body["messages"]) for r in server.requests())
    for run_id, seat, index in calls.select("run_id", "seat", "index").iter_rows():
        assert json.dumps(wire_messages(calls, run_id, "play", seat, index)["messages"]) in sent


# -- faults -------------------------------------------------------------------------------------------------

#: model -> (behaviours, status of its rollout, requests, retries and end of its last call)
SOLO = {
    "flaky": ([Fault("429", retry_after="0.2"), "ok"], "ok", 2, 1, "stop"),
    "fallen": (["500", "ok"], "ok", 2, 1, "stop"),
    "broken": (["500"], "error", 2, 1, "server"),
    "limited": ([Fault("429", retry_after="0.1")], "error", 2, 1, "rate_limit"),
    "halved": (["truncated"], "error", 2, 1, "bad_response"),
    "cut": (["cut"], "error", 2, 1, "connection"),
    "hung": ([Fault("hang", seconds=60)], "error", 2, 1, "timeout"),
    "filtered": (["content_filter"], "refused", 1, 0, "content_filter"),
    "policed": (["policy_400"], "refused", 1, 0, "content_filter"),
    "barred": (["403"], "error", 1, 0, "forbidden"),
    "gone": (["404"], "error", 1, 0, "not_found"),
    "short": (["context_400"], "error", 1, 0, "context_overflow"),
    "uncounted": (["wrong_usage"], "ok", 1, 0, "stop"),
    "priced": (["ok"], "ok", 1, 0, "stop"),
}
#: model -> (behaviours of its calls in a dialogue with a copy of itself, text of the first message)
PAIRED = {
    "toolish": ([Fault("bad_tool_call"), "ok"], ""),
    "blank": (["empty", "ok"], ""),
    "strange": (["surrogates", "ok"], "a\ufffdb\ufffdc\ufffdd\U0001f600"),
    "chatty": ([Fault("long", size=200_000), "ok"], None),
}
TURNS, LOCKED = 3, 6
LIMITS = {"groq": {"concurrency": 2}}


def fault_study(shell, url):
    models = {name: {} for name in (*SOLO, *PAIRED)} | {"locked": {"route": "groq/locked"}}
    models["priced"] = {"price": {"input": 2.0, "output": 10.0}}
    blocks = [
        {"versions": ["solo_full"], "models": list(SOLO), "mazes": {"count": 1}, "critic": False},
        {"versions": ["solo_full"], "models": ["locked"], "mazes": {"count": LOCKED}, "critic": False},
        {"versions": ["pair"], "models": list(PAIRED), "mazes": {"count": 1}, "max_turns": TURNS},
        {
            "versions": ["relay"],
            "relay": [{"strong": "priced", "weak": "filtered", "kinds": ["recovery"], "k": [2]}],
            "mazes": {"count": 1},
            "max_turns": TURNS,
        },
    ]
    return write_study(shell, url, models, blocks, deadline_s=12, max_requests=2, limits=LIMITS)


def script(server):
    for name, (behaviours, *_) in SOLO.items():
        server.script(name, behaviours, forever=True)
    for name, (behaviours, _) in PAIRED.items():
        server.script(name, behaviours, forever=True)
    server.script("locked", ["401"], forever=True)


def sent_by(calls, run_id):
    """Messages of every request of a rollout by what `calls` says, in order; a retried one as often as it was sent."""
    ordered = calls.filter(run_id=run_id).sort("index")
    return [
        wire_messages(calls, run_id, "play", seat, index)["messages"]
        for seat, index, retries in ordered.select("seat", "index", "retries").iter_rows()
        for _ in range(retries + 1)
    ]


@pytest.mark.slow
def test_each_fault_ends_in_its_status_with_its_requests_and_only_errors_are_played_again(
    shell, server, rows, whole, without
):
    study, folder = fault_study(shell, server.url), shell.folder / "out"
    script(server)
    planned = shell.run("run", study, "--dry-run", "--json").json["run_ids"]
    first = shell.run("run", study, "--out", folder, "--json", env=KEYS)
    runs, calls, messages = (rows(folder, t) for t in ("runs", "calls", "messages"))
    requests = Counter(r.model for r in server.requests())

    # Statuses, numbers of requests, and what `calls` says about them.
    solo = {r["model"]: r for r in runs.filter(version="solo_full").iter_rows(named=True)}
    for name, (_, status, n_requests, retries, end) in SOLO.items():
        call = calls.filter(run_id=solo[name]["run_id"]).row(0, named=True)
        found = (solo[name]["status"], call["retries"], call["finish_reason"])
        assert found == (status, retries, end), name
        if name != "filtered":  # it is asked once more, as the prefix of the relay
            assert requests[name] == n_requests, name
            assert sent_by(calls, call["run_id"]) == [r.body["messages"] for r in server.requests(name)], name
        assert (solo[name]["score"] is None) == (status != "ok"), name
        assert (solo[name]["refused_seat"] == "1") == (status == "refused"), name
        assert json.loads(call["sampling_honoured"])["max_tokens"] == server.requests(name)[0].body["max_tokens"]
    locked = runs.filter(model="locked")
    assert locked["status"].to_list() == ["error"] * LOCKED
    assert requests["locked"] <= LIMITS["groq"]["concurrency"]
    assert {r.headers["authorization"] for r in server.requests("locked")} == {f"Bearer {GROQ_KEY}"}
    assert {r.headers["authorization"] for r in server.requests("flaky")} == {f"Bearer {KEY}"}

    # What odd answers become, and that they are passed on as they were stored.
    for name, (_, text) in PAIRED.items():
        run = runs.filter(version="pair", model=name).row(0, named=True)
        assert (run["status"], run["messages"], requests[name]) == ("ok", TURNS, TURNS), name
        said = messages.filter((pl.col("run_id") == run["run_id"]) & (pl.col("seat_kind") == "under_test"))
        opening = said.sort("index")["content"][0]
        assert opening == text if text is not None else len(opening) == 200_000
        bodies = [r.body["messages"] for r in server.requests(name)]
        assert sent_by(calls, run["run_id"]) == bodies, name
        assert (opening or "(no text)") in bodies[1][-1]["content"], name

    # A relay whose prefix was refused is gated out: planned, finished, unpaid, unscored.
    relay = runs.filter(version="relay").row(0, named=True)
    prefix = runs.filter(version="pair", model="filtered").row(0, named=True)
    assert (prefix["status"], prefix["refused_seat"], requests["filtered"]) == ("refused", "1", 2)
    assert (relay["status"], relay["prefix_run_id"], relay["score"]) == ("gated_out", prefix["run_id"], None)
    assert relay["run_id"] not in set(calls["run_id"])

    # Costs: a known price times the tokens, else null and said so.
    paid = calls.filter(model_asked="priced").row(0, named=True)
    assert paid["cost_usd"] == pytest.approx((paid["tokens_in"] * 2.0 + paid["tokens_out"] * 10.0) / 1e6)
    assert paid["tokens_in"] > 100
    assert solo["priced"]["cost_usd"] == paid["cost_usd"]
    assert solo["flaky"]["cost_usd"] is None
    uncounted = calls.filter(model_asked="uncounted").row(0, named=True)
    assert [uncounted[c] for c in ("tokens_in", "tokens_out", "cost_usd")] == [None, None, None]
    assert "calls had no known price" in first.err

    # How the session ended.
    failed = sum(status == "error" for _, status, *_ in SOLO.values()) + LOCKED
    told = first.json
    assert (first.code, told["missing"], sum(told["errors"].values()), told["refused"]) == (1, failed, failed, 3)
    how = "set the right key and mend what is named above, then run the same command again: only these are played"
    assert f"{failed} not finished; {how}" in first.err
    assert "Traceback" not in first.err
    for key in (KEY, GROQ_KEY):
        without(key, folder, first.out, first.err)

    # The provider is well again: only the rollouts in error are played.
    for name in (*SOLO, *PAIRED, "locked"):
        server.script(name, [])
    second = shell.run("run", study, "--out", folder, "--json", env=KEYS)
    more = Counter(r.model for r in server.requests()) - requests
    assert more == Counter({n: 1 for n, (_, status, *_) in SOLO.items() if status == "error"}, locked=LOCKED)
    assert (second.code, second.json["missing"], second.json["stopped"]) == (0, 0, None)
    whole(folder, planned)
    by_status = dict(rows(folder, "runs").group_by("status").len().iter_rows())
    assert by_status == {"ok": len(planned) - 4, "refused": 3, "gated_out": 1}
    for key in (KEY, GROQ_KEY):
        without(key, folder, second.out, second.err)


# -- money --------------------------------------------------------------------------------------------------


def test_a_reached_budget_stops_with_code_3_and_a_raised_one_continues(shell, server, whole):
    """30 words an answer, and a token a word, at 10,000 USD per million tokens out: 0.30 USD a call."""
    price = {"price": {"input": 0.0, "output": 10_000.0}}
    blocks = [{"versions": ["solo_full"], "models": ["dear"], "mazes": {"count": 8}, "critic": False}]

    def session(budget):
        study = write_study(shell, server.url, {"dear": price}, blocks, concurrency=1, budget_usd=budget)
        return shell.run("run", study, "--out", "out", "--json", env=KEYS)

    first = session(1.4)
    assert (first.code, first.json["stopped"], first.json["finished"]) == (3, "budget", 5)
    assert first.json["usd"] == pytest.approx(1.5)
    assert len(server.requests()) == 5
    assert "budget reached" in first.err
    again = session(1.4)
    assert (again.code, again.json["finished"], len(server.requests())) == (3, 5, 5)
    raised = session(9.0)
    assert (raised.code, raised.json["finished"], len(server.requests())) == (0, 8, 8)
    assert raised.json["usd"] == pytest.approx(2.4)
    whole(shell.folder / "out", shell.run("run", "study.yaml", "--dry-run", "--json").json["run_ids"])


# -- a real model behind HTTP ---------------------------------------------------------------------------------


def test_the_embedded_model_plays_over_its_own_server(shell, rows, whole, without):
    blocks = [
        {
            "versions": ["solo_full", "pair"],
            "models": ["small"],
            "mazes": {"count": 1},
            "max_turns": 2,
            "critic": False,
            "sampling": {"max_tokens": 16, "temperature": 0.0},
        }
    ]
    with serve_local() as (url, key, model):
        study = write_study(shell, url, {"small": {"route": f"openai/{model}"}}, blocks)
        ended = shell.run("run", study, "--out", "out", "--json", env={"OPENAI_API_KEY": key})
    assert (ended.code, ended.json["ok"]) == (0, 2)
    folder = shell.folder / "out"
    whole(folder, shell.run("run", study, "--dry-run", "--json").json["run_ids"])
    calls = rows(folder, "calls")
    assert calls["model_returned"].to_list() == [model] * 3
    assert calls["tokens_out"].is_between(1, 16).all()
    assert calls["tokens_in"].min() > 100
    assert rows(folder, "messages").filter(seat_kind="under_test")["content"].str.len_chars().min() > 0
    without(key, folder, ended.out, ended.err)
