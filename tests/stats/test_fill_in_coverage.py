"""Coverage of adjusted scores: a stored study, whose script (benchmarks/studies/fill_in_coverage.py) remakes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cilab import datasets
from cilab.stats.teamwork.grid import grid
from tests.scripts import script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def stored() -> dict:
    return json.loads((ROOT / "tests" / "golden" / "fill_in_coverage.json").read_text())


def by_the_rule(stored: dict) -> dict[str, dict]:
    """The designs with the default interval."""
    return {name: found for name, found in stored["designs"].items() if "percentile" not in name}


def test_stored_coverage_of_adjusted_intervals_lies_between_93_and_97_percent(stored) -> None:
    designs = by_the_rule(stored)
    assert {"8 rows, 10 tasks", "12 rows, 20 tasks", "24 rows, 30 tasks", "release"} <= set(designs)
    assert set(stored["designs"]) == set(script("studies/fill_in_coverage").DESIGNS)
    for name, found in designs.items():
        assert 93 <= found["coverage_pct"] <= 97, name
        assert found["monte_carlo_error_points"] < 1.5, name
        assert found["coverage_of_weaker_half_pct"] > 91, name
        assert found["coverage_of_dimension_scores_pct"] >= 93, name
        assert found["scores_without_an_interval"] < 0.01 * found["data_sets"] * len(found["mean_error_points_by_row"])


def test_stored_coverage_of_percentiles_is_lower_as_was_found(stored) -> None:
    # 87.4 % and 89.7 % were measured for the two designs before the rule, with other rows.
    for design, most in (("8 rows, 10 tasks", 91), ("12 rows, 20 tasks", 93)):
        found = stored["designs"][f"{design}, percentile"]
        assert found["coverage_pct"] < most
        assert found["mean_width_points"] < 0.95 * stored["designs"][design]["mean_width_points"]


def test_stored_adjusted_scores_miss_the_truth_by_less_than_raw_scores(stored) -> None:
    for name, found in by_the_rule(stored).items():
        adjusted, raw = (np.abs(found[f"mean_error_{of}points_by_row"]).mean() for of in ("", "of_raw_scores_"))
        if "missing" not in name:  # tasks missing by chance bias no score
            assert adjusted < raw, name
        assert abs(found["mean_error_points"]) < 1.5, name


def test_the_runs_of_the_release_design_are_the_drawn_scores_and_gate() -> None:
    study = script("studies/fill_in_coverage")
    values, solved, slices = study.score_coverage.drawn(3)
    g = grid(study.runs(study.DESIGNS["release"], 3))
    np.testing.assert_array_equal(g.solved, solved)
    np.testing.assert_array_equal(g.scored, solved)
    np.testing.assert_allclose(g.values[solved], values[solved])
    assert [s.stop for s in g.slices] == [s.stop for s in slices]


def test_the_runs_of_the_other_designs_are_what_they_say() -> None:
    study = script("studies/fill_in_coverage")
    families = grid(study.runs(study.DESIGNS["8 rows, 30 tasks in 10 families"], 0))
    assert families.cluster_name == "family" and len(np.unique(families.clusters)) == 40
    assert families.rows.height == 8 and [s.stop - s.start for s in families.slices] == [30] * 4
    missing = grid(study.runs(study.DESIGNS["8 rows, 10 tasks, missing"], 0), gate="off")
    assert 0.3 < missing.missing.mean() < 0.5


def test_the_truth_of_the_release_design_is_that_of_the_simulated_release() -> None:
    want = datasets.simulated_release(scale=0.1).truth["rows"].select(pl.col("expected_full_overall"))
    study = script("studies/fill_in_coverage")
    np.testing.assert_allclose(study.truth(study.DESIGNS["release"]).mean(axis=1), want.to_series(), atol=1e-9)


def test_the_truth_of_the_models_own_designs_is_the_mean_over_many_tasks() -> None:
    study = script("studies/fill_in_coverage")
    level = study.levels(8)
    tasks = np.random.default_rng(0).normal(0, 1.2, 200_000)
    want = [(1 / (1 + np.exp(-(level[r, 0] - tasks)))).mean() for r in range(8)]
    np.testing.assert_allclose(study.truth(study.DESIGNS["8 rows, 10 tasks"])[:, 0], want, atol=0.003)


@pytest.mark.parametrize("name", ["8 rows, 10 tasks", "8 rows, 10 tasks, missing", "release"])
def test_the_first_data_sets_of_the_study_come_out_as_stored(stored, name) -> None:
    study = script("studies/fill_in_coverage")
    for number, row in enumerate(stored["designs"][name]["first_data_sets"]):
        found = study.verdict(study.DESIGNS[name], number)["rows"]
        assert "".join("-" if np.isnan(v) else str(int(v)) for v in found) == row


@pytest.mark.study
def test_the_whole_study_comes_out_as_stored(stored) -> None:
    found = script("studies/fill_in_coverage").study()
    for name, design in found["designs"].items():
        assert design["coverage_pct"] == pytest.approx(stored["designs"][name]["coverage_pct"], abs=1e-6)
