"""Results do not depend on how the work is spread: processes and a Dask cluster against one process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.stats.methods import row_task_model
from cilab.stats.methods.parallel import each
from cilab.stats.teamwork.fill_in import fill_in
from cilab.stats.teamwork.lite import lite
from cilab.stats.teamwork.power import power


def pid_after(x: int) -> tuple[int, int]:
    return x, os.getpid()


@pytest.fixture(scope="module")
def release():
    return datasets.simulated_release(0, 0.4)


@pytest.fixture(scope="module")
def two_processes():
    """A `joblib.parallel_config` with two loky workers."""
    import joblib

    return functools.partial(joblib.parallel_config, backend="loky", n_jobs=2)


def test_items_come_back_in_order_and_stay_in_this_process_unless_told_otherwise():
    assert each(pid_after, range(5)) == [(i, os.getpid()) for i in range(5)]
    assert each(pid_after, []) == []


def test_workers_are_other_processes(two_processes):
    with two_processes():
        found = each(pid_after, range(6))
    assert [x for x, _ in found] == list(range(6)) and os.getpid() not in {pid for _, pid in found}
    named = each(pid_after, range(6), workers=2)
    assert os.getpid() not in {pid for _, pid in named}


def test_lite_and_power_are_the_same_over_two_processes(release, two_processes):
    small = {"simulations": 40, "differences": [0.0, 5.0], "tasks_per_dimension": [5, 10], "seeds": [1, 3]}
    alone = lite(release, method=["greedy", "item_response"], splits=6), power(release, **small)
    with two_processes():
        spread = lite(release, method=["greedy", "item_response"], splits=6), power(release, **small)
    assert_frame_equal(alone[0].splits, spread[0].splits, check_exact=True)
    assert_frame_equal(alone[0].table, spread[0].table, check_exact=True)
    assert_frame_equal(alone[1].table, spread[1].table, check_exact=True)


def test_cross_validation_in_several_batches_is_the_same_over_two_processes(release, two_processes, monkeypatch):
    monkeypatch.setattr(row_task_model, "_AT_ONCE", 3000)  # a batch is then one or two folds of these data
    sent = []
    monkeypatch.setattr(row_task_model, "each", lambda f, items: sent.append(len(items)) or each(f, items))
    one = fill_in(release, resamples=50)
    assert max(sent) > 1
    with two_processes():
        two = fill_in(release, resamples=50)
    assert_frame_equal(one.table, two.table, check_exact=False, rel_tol=1e-12)
    assert_frame_equal(one.dimensions, two.dimensions, check_exact=False, rel_tol=1e-12)


def test_a_study_of_coverage_is_the_same_over_two_processes():
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "score_coverage.py"
    command = [sys.executable, str(script), "--data-sets", "6", "--resamples", "200"]
    said = [
        subprocess.run([*command, *more], capture_output=True, text=True).stdout for more in ([], ["--workers", "2"])
    ]
    assert "all rows" in said[0] and said[0] == said[1]


@pytest.mark.slow
def test_lite_is_the_same_on_a_dask_cluster(release):
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    import joblib

    alone = lite(release, method="item_response", splits=4)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        pids = {pid for _, pid in each(pid_after, range(8))}
        spread = lite(release, method="item_response", splits=4)
    assert os.getpid() not in pids
    np.testing.assert_array_equal(alone.splits["error_points"], spread.splits["error_points"])
