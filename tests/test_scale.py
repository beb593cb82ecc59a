"""Long studies and large data: memory stays flat, looks stay quick, results stay whole. Ratios, no absolute times."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cilab
from cilab import store
from cilab.core.tables import RUNS, frame
from cilab.running.status import status

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def runs_of(first: int, n: int) -> pl.DataFrame:
    """n rows of the runs table."""
    row = {"study": "s", "benchmark": "maze", "version": "pair", "seed": 0, "status": "ok", "score": 1.0}
    row |= {"cost_usd_team": 0.5, "model": "sim/a"}
    lines = [{**row, "run_id": f"r{first + i:07d}", "task_id": f"t{i % 7}"} for i in range(n)]
    return frame("runs", lines).select(RUNS.names)


def study_of_parts(folder: Path, parts: int, rows: int) -> Path:
    """A study's folder with so many parts of so many runs."""
    for k in range(parts):
        store.write_group(folder, {"runs": runs_of(k * rows, rows)})
    return folder


def cpu_seconds(work, rounds: int = 5) -> float:
    """Least CPU seconds of a few."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def forget_footers() -> None:
    """As a new process would find it: no footer was read yet."""
    from cilab.store import footers

    footers._read.cache_clear()
    footers._ends_alike.cache_clear()


def test_status_and_a_query_of_two_hundred_parts_take_far_less_than_two_hundred_times_one_part(tmp_path):
    one, many = study_of_parts(tmp_path / "one", 1, 50), study_of_parts(tmp_path / "many", 200, 50)

    def asked(folder):
        forget_footers()
        assert cilab.open(folder).sql("select count(*) as n from runs")["n"].item() == status(folder)["finished"]

    assert status(many)["finished"] == 200 * 50
    assert cpu_seconds(lambda: asked(many)) < 40 * cpu_seconds(lambda: asked(one))


def test_the_bootstrap_grows_far_less_than_with_the_square_of_the_rows():
    from cilab.stats.methods import bootstrap

    def work(rows):
        rng = np.random.default_rng(0)
        values, used = rng.random((rows, 80)), np.ones((rows, 80), bool)
        slices = [slice(0, 40), slice(40, 80)]
        return lambda: bootstrap.resample_scores(values, used, slices, resamples=2000, rng=np.random.default_rng(1))

    assert cpu_seconds(work(240)) < 70 * cpu_seconds(work(24))  # a square would be 100; threads of BLAS count too


def test_the_pairs_of_the_fill_ins_check_are_bounded(monkeypatch):
    from cilab import datasets
    from cilab.stats.teamwork import fill_in

    release = datasets.simulated_release(0, 0.3)
    whole = fill_in.fill_in(release, widths="empirical_bayes", resamples=20)
    monkeypatch.setattr(fill_in, "MOST_PAIRS", 25)
    some = fill_in.fill_in(release, widths="empirical_bayes", resamples=20)
    assert whole.hidden.height > some.hidden.height == 25
    together = some.hidden.join(whole.hidden, on=["row", "other"], suffix="_whole")
    assert together.height == 25
    np.testing.assert_allclose(together["filled_pct"], together["filled_pct_whole"], atol=1e-6)


def test_a_benchmark_without_its_peer_is_neither_met_nor_missed_and_a_missed_target_is_said(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import lines
    import run_all

    alone = lines.line("a", 3.0, "s", least=2)
    missed = lines.line("b", 3.0, "s", peer=3.0, least=2)
    met = lines.line("c", 8.0, "s", peer=2.0, least=2)
    assert [x["met"] for x in (alone, missed, met)] == [None, False, True]
    kept = {"machine": "m", "versions": ["v"], "scripts": {}}
    kept["scripts"]["query"] = {"date": "d", "seconds": 1, "load_before": 0.5, "lines": [alone, missed, met]}
    assert run_all.missed(kept) == ["query: b"]
    text = run_all.document(kept)
    rows = {row.split(" | ")[0].strip("| "): row for row in text.splitlines() if row.startswith("| ")}
    assert "not judged" in rows["a"] and "MISSED" in rows["b"] and "| met |" in rows["c"]
    assert "`benchmarks/lite.py` was not run." in text


@pytest.mark.slow
def test_a_long_study_keeps_its_memory_flat_and_its_rollouts_whole(tmp_path):
    out = tmp_path / "long"
    command = [sys.executable, str(BENCHMARKS / "long_run.py"), "--rollouts", "3000", "--every", "1000", "--json"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, cwd=BENCHMARKS)
    lines = {x["name"]: x for x in map(json.loads, done.stdout.splitlines())}
    assert lines, done.stderr[-2000:]
    # 2,000 further rollouts: a rollout's rows are several kB, so that keeping them would show.
    peak = lines["peak memory"]
    assert peak["ours"] < 1.2 * peak["peer"]
    for look in ("status", "query"):
        assert lines[look]["ours"] < 4 * lines[look]["peer"] + 0.1
    ids = cilab.open(out).runs.select("run_id").collect()["run_id"]
    assert ids.n_unique() == len(ids) == 3000
    messages = cilab.open(out).messages.select(pl.col("run_id").n_unique()).collect().item()
    assert messages == 3000
