"""A study on a Dask cluster: the same runs as on one machine, also when its workers are killed."""

import asyncio
import os
import random
import signal
import sys
import threading
from pathlib import Path

import polars as pl
import pytest
import yaml

import cilab
from cilab.collect.engine import Played
from cilab.running.cluster import Cluster, ClusterError, run_on_cluster
from cilab.running.load import load_study
from cilab.running.play import run_study
from cilab.store import Study

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

#: Told by every call of the agent, so that answers which were received can be counted.
AGENT = """
import asyncio, os
from cilab.collect.model import Completion, Usage

class Slow:
    name, provider = "python:slow_agent:make", "python"
    async def complete(self, messages, *, tools=None, sampling):
        await asyncio.sleep(0.02)
        with open(os.environ["CILAB_TEST_CALLS"], "a") as f:
            f.write("x\\n")
        turn = sum(m["role"] == "assistant" for m in messages)
        return Completion("(0,0)" if turn < 5 else "ACTI!", usage=Usage(10, 5), cost_usd=0.01)

def make():
    return Slow()
"""


def study(folder, models, count=20, **more):
    block = {"benchmark": "maze", "versions": ["pair"], "models": models, "mazes": {"count": count}, **more}
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "clustered", "concurrency": 16, "blocks": [block]}))
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    home = tmp_path_factory.mktemp("agents")
    (home / "slow_agent.py").write_text(AGENT)
    os.environ["CILAB_TEST_CALLS"] = str(home / "calls")
    before, os.environ["PYTHONPATH"] = os.environ.get("PYTHONPATH"), f"{home}:{os.environ.get('PYTHONPATH', '')}"
    sys.path.insert(0, str(home))
    try:
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=8, processes=True, dashboard_address=None, silence_logs=50
        ) as made:
            yield made
    finally:
        sys.path.remove(str(home))
        if before is None:
            os.environ.pop("PYTHONPATH")
        else:
            os.environ["PYTHONPATH"] = before


def said(folder):
    return Study(folder).messages.select("run_id", "index", "seat", "content").sort("run_id", "index").collect()


def test_a_cluster_gives_the_runs_of_one_machine(cluster, tmp_path):
    path = study(tmp_path, ["sim/strong", "sim/weak"], count=6, pairs="all")
    here = run_study(path, out=tmp_path / "here", show_progress=False)
    there = run_on_cluster(path, cluster.scheduler_address, out=tmp_path / "there", show_progress=False)
    assert here.exit_code == there.exit_code == 0 and there.progress.ok == 24
    assert said(tmp_path / "here").equals(said(tmp_path / "there"))
    again = run_on_cluster(path, cluster.scheduler_address, out=tmp_path / "there", show_progress=False)
    assert again.progress.calls == 0


def test_limits_are_shared_out_over_the_workers_that_are_there(cluster, tmp_path):
    loaded = load_study(study(tmp_path, ["sim/strong"], count=1))
    cluster.wait_for_workers(2, timeout=60)

    async def shares():
        async with Cluster(cluster.scheduler_address, loaded) as line:
            return line._workers

    assert asyncio.run(shares()) == 2


@pytest.mark.slow
def test_killed_workers_cost_no_run_and_no_answer_twice(cluster, tmp_path):
    calls = os.environ["CILAB_TEST_CALLS"]
    Path(calls).write_text("")
    path = study(tmp_path, ["python:slow_agent:make"], count=24)
    stop, killed, rng = threading.Event(), [], random.Random(1)

    def kill():
        # By what was said, not by the clock: a fast machine is through before a slow one has begun.
        while not stop.wait(0.005):
            pids = [n.process.pid for n in cluster.workers.values() if n.process is not None and n.process.pid]
            due = len(killed) < 4 and len(Path(calls).read_text().splitlines()) >= 20 * (1 + len(killed))
            if pids and due:
                pid = rng.choice(pids)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        summary = run_on_cluster(path, cluster.scheduler_address, out=tmp_path / "out", show_progress=False)
    finally:
        stop.set()
        thread.join()
    assert summary.exit_code == 0 and summary.progress.ok == 24, summary.errors
    assert killed, "no worker was killed: the study was over too soon"
    runs = cilab.open(tmp_path / "out").runs.collect()
    assert runs["run_id"].n_unique() == runs.height == 24
    kept = cilab.open(tmp_path / "out").table("calls").select(pl.len()).collect().item()
    paid = len(Path(calls).read_text().splitlines())
    # In flight at a kill: at most the eight rollouts of that worker.
    assert kept == runs["messages"].sum() and kept <= paid <= kept + 8 * len(killed)


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[Cluster.__module__], "_CONNECT_S", 1)
    path = study(tmp_path, ["sim/strong"], count=1)
    with pytest.raises(ClusterError) as error:
        run_on_cluster(path, "tcp://127.0.0.1:9", out=tmp_path / "out", show_progress=False)
    assert "cannot be reached" in str(error.value) and "\n" not in str(error.value)


@pytest.fixture
def small_cluster(cluster):
    """A scheduler without workers, which a test adds and takes away; like `cluster`, it finds the slow agent."""
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=4, processes=True, dashboard_address=None, silence_logs=50
    ) as made:
        yield made


def given_up(error, folder):
    """One line that says what to do, as another exit code than bad input has; nothing is in the way of the next run."""
    said = str(error.value)
    assert "no workers for 1 s. What arrived is kept; start workers" in said and "\n" not in said
    assert error.value.exit_code == 1
    return cilab.status(folder)


def test_a_cluster_without_workers_is_one_line_after_a_while(small_cluster, tmp_path):
    path, out = study(tmp_path, ["sim/strong"], count=2), tmp_path / "out"
    with pytest.raises(ClusterError) as error:
        run_on_cluster(path, small_cluster.scheduler_address, out=out, show_progress=False, without_workers_s=1)
    assert given_up(error, out)["finished"] == 0
    assert run_study(path, out=out, show_progress=False).exit_code == 0


def test_workers_that_come_late_are_waited_for(small_cluster, tmp_path):
    path = study(tmp_path, ["sim/strong"], count=2)
    late = threading.Timer(2.0, small_cluster.scale, [1])
    late.start()
    summary = run_on_cluster(path, small_cluster.scheduler_address, out=tmp_path / "out", show_progress=False)
    late.join()
    assert summary.exit_code == 0 and summary.progress.ok == 2


@pytest.mark.slow
def test_when_all_workers_go_away_what_they_answered_is_kept_and_not_paid_again(small_cluster, tmp_path):
    calls = Path(os.environ["CILAB_TEST_CALLS"])
    calls.write_text("")
    path, out, address = study(tmp_path, ["python:slow_agent:make"]), tmp_path / "out", small_cluster.scheduler_address
    small_cluster.scale(1)
    small_cluster.wait_for_workers(1)
    over = threading.Event()

    def leave():
        while not over.wait(0.005) and len(calls.read_text().splitlines()) < 30:
            pass
        small_cluster.scale(0)

    thread = threading.Thread(target=leave)
    thread.start()
    try:
        with pytest.raises(ClusterError) as error:
            run_on_cluster(path, address, out=out, show_progress=False, without_workers_s=1)
    finally:
        over.set()
        thread.join()
    status = given_up(error, out)
    assert status["finished"] < 20 and status["kept_completions"] > 0

    small_cluster.scale(1)
    summary = run_on_cluster(path, address, out=out, show_progress=False)
    assert summary.exit_code == 0 and summary.progress.done == 20
    kept = cilab.open(out).table("calls").select(pl.len()).collect().item()
    assert kept <= len(calls.read_text().splitlines()) <= kept + 4  # in flight when the worker went: one a thread


@pytest.mark.parametrize(("given_up", "ends"), [(4, "ok"), (5, "error")])
def test_a_rollout_that_the_scheduler_gives_up_is_started_again_until_twenty_workers_died(given_up, ends, tmp_path):
    line = Cluster("tcp://nowhere:1", load_study(study(tmp_path, ["sim/strong"], count=1)))
    started = []

    async def play_there():
        started.append(1)
        if len(started) <= given_up:
            raise distributed.KilledWorker("a rollout", None, 3)
        return Played("ok")

    line._submit = lambda job: asyncio.ensure_future(play_there())
    played = asyncio.run(line.play(None))
    assert (played.status, len(started)) == (ends, 5)
    if ends == "error":
        assert played.extra["error"] == "cluster: 20 workers died under this rollout"


def test_a_share_of_a_limit_adds_up_to_it():
    from cilab.collect.limits import Limit

    half = Limit(9, requests_per_minute=60, tokens_per_minute=None).share(2)
    assert (half.concurrency, half.requests_per_minute, half.tokens_per_minute) == (4, 30, None)
    assert Limit(1).share(4).concurrency == 1
