"""Coverage of adjusted scores: a stored study, whose script (benchmarks/studies/fill_in_coverage.py) remakes it."""

from __future__ import annotations

import importlib.util
import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cilab import datasets
from cilab.stats.teamwork.grid import grid

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def coverage_study():
    """The script that made the stored results."""
    path = ROOT / "benchmarks" / "studies" / "fill_in_coverage.py"
    spec = importlib.util.spec_from_file_location("fill_in_coverage", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored() -> dict:
    return json.loads((ROOT / "tests" / "golden" / "fill_in_coverage.json").read_text())


def test_stored_coverage_of_adjusted_intervals_lies_between_92_and_97_percent(stored) -> None:
    assert stored["data_sets"] >= 1000 and len(stored["rows"]) == 24 and stored["undefined_scores"] == 0
    assert 92 <= stored["coverage_pct"] <= 97
    mean = np.mean([row["coverage_pct"] for row in stored["rows"]])
    assert stored["coverage_pct"] == pytest.approx(mean, abs=0.01)


def test_stored_adjusted_scores_miss_the_truth_by_less_than_raw_scores(stored) -> None:
    adjusted = np.array([row["mean_error_points"] for row in stored["rows"]])
    raw = np.array([row["mean_error_of_raw_score_points"] for row in stored["rows"]])
    assert np.abs(adjusted).mean() < 0.5 * np.abs(raw).mean()
    assert stored["mean_error_points"] == pytest.approx(adjusted.mean(), abs=0.01)


def test_the_runs_of_the_study_are_the_drawn_scores_and_gate() -> None:
    study = coverage_study()
    values, solved, slices = study.score_coverage.drawn(3)
    g = grid(study.runs(3))
    np.testing.assert_array_equal(g.solved, solved)
    np.testing.assert_array_equal(g.scored, solved)
    np.testing.assert_allclose(g.values[solved], values[solved])
    assert [s.stop for s in g.slices] == [s.stop for s in slices]


def test_the_truth_of_the_study_is_that_of_the_simulated_release() -> None:
    want = datasets.simulated_release(scale=0.1).truth["rows"].select(pl.col("expected_full_overall"))
    np.testing.assert_allclose(coverage_study().truth().mean(axis=1), want.to_series(), atol=1e-9)


def test_the_first_data_sets_of_the_study_come_out_as_stored(stored) -> None:
    study = coverage_study()
    for number, row in enumerate(stored["first_data_sets"]):
        found = study.verdict(number, study.truth(), stored["resamples"])["rows"]
        assert found.astype(int).tolist() == row


@pytest.mark.study
def test_the_whole_study_comes_out_as_stored(stored) -> None:
    found = coverage_study().study(stored["data_sets"], stored["resamples"])
    assert found["coverage_pct"] == pytest.approx(stored["coverage_pct"], abs=1e-6)
