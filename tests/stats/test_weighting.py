"""Weights for the gate: by hand, and against the truth of the simulated release."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.scores import leaderboard
from cilab.stats.teamwork.weighting import _Means, weighting


def runs(scores: np.ndarray, solved: np.ndarray) -> pl.DataFrame:
    """One dimension, one seed; only tasks that are solved alone are tested."""
    return testing.grid(np.where(solved, scores, np.nan), solved)


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """6 rows, 20 tasks: what is hard alone is hard in the test."""
    rng = np.random.default_rng(3)
    logit = np.linspace(-1, 2, 6)[:, None] - rng.normal(0, 1.2, 20)
    return rng.random((6, 20)) < 1 / (1 + np.exp(-logit)), rng.random((6, 20)) < 1 / (1 + np.exp(-logit - 1.5))


def test_both_estimates_are_those_worked_by_hand() -> None:
    solved = np.array([[True, True, False]])
    g = grid(runs(np.array([[1.0, 0.0, 0.0]]), solved))
    weights, outcome = np.array([[1.0, 4.0, 0.0]]), np.array([[0.8, 0.3, 0.1]])
    got = _Means(g, weights, outcome, np.ones((1, 3), bool)).of([np.ones((1, 3))])
    assert got["ipw"].ravel() == pytest.approx([0.2])  # 1 x 1 + 4 x 0, over 5
    # The model's mean, 0.4, and what scored tasks add to it: (1 x 0.2 - 4 x 0.3) / 5 = -0.2.
    assert got["dr"].ravel() == pytest.approx([0.2])
    # Drawing the first task twice and the second not at all leaves the first: 1; and (2 x 0.8 + 0.1) / 3 + 0.2.
    again = _Means(g, weights, outcome, np.ones((1, 3), bool)).of([np.array([[2.0, 0.0, 1.0]])])
    assert again["ipw"].ravel() == pytest.approx([1.0])
    assert again["dr"].ravel() == pytest.approx([1.7 / 3 + 0.2])


def test_weighted_scores_effective_numbers_and_clips_follow_from_the_propensities() -> None:
    scores, solved = drawn()
    result = weighting(runs(scores, solved), clip=0.6, resamples=50)
    p = result.propensities.filter(pl.col("row") == "m0")["propensity"].to_numpy()
    own = solved[0]
    w = 1 / np.maximum(p, 0.6)[own]
    line = result.dimensions.filter(pl.col("model") == "m0").row(0, named=True)
    assert line["ipw_pct"] == pytest.approx(100 * (w @ scores[0, own]) / w.sum())
    assert line["effective_n"] == pytest.approx(w.sum() ** 2 / (w @ w))
    assert (line["n_scored"], line["n_failed"]) == (own.sum(), (~own).sum())
    assert line["clipped"] == (p[own] < 0.6).sum() > 0
    assert line["most_weight"] <= 1 / 0.6 + 1e-12


def test_clipping_everything_leaves_the_score() -> None:
    result = weighting(runs(*drawn()), clip=0.999999, resamples=50)
    np.testing.assert_allclose(result.table["ipw_pct"], result.table["score_pct"], atol=1e-3)
    assert (result.dimensions["effective_n"] - result.dimensions["n_scored"]).abs().max() < 1e-3


def test_the_propensity_is_higher_where_tasks_are_solved_and_the_overlap_is_shown() -> None:
    scores, solved = drawn()
    result = weighting(runs(scores, solved), resamples=50)
    overlap = {line["group"]: line for line in result.overlap.iter_rows(named=True)}
    assert overlap["solved"]["n"] == solved.sum() and overlap["failed alone"]["n"] == (~solved).sum()
    assert overlap["solved"]["median"] > overlap["failed alone"]["median"]
    assert result.propensities["propensity"].is_between(0, 1, closed="none").all()


def test_a_dimension_without_a_scored_task_has_no_corrected_score() -> None:
    scores, solved = drawn()
    solved[0] = False
    row = weighting(runs(scores, solved), resamples=50).table.filter(pl.col("model") == "m0").row(0, named=True)
    assert (row["score_pct"], row["ipw_pct"], row["dr_pct"], row["ipw_rank"]) == (None, None, None, None)


def test_on_the_simulated_release_both_are_nearer_to_the_truth_of_all_tasks() -> None:
    data = datasets.simulated_release()
    result = weighting(data, resamples=100)
    both = result.table.join(data.truth["rows"], on=["model", "effort"])
    truth = 100 * both["expected_full_overall"]
    raw = both["score_pct"] - truth
    for name in ("ipw", "dr"):
        error = both[f"{name}_pct"] - truth
        assert abs(error.mean()) < 0.5 * abs(raw.mean())
        assert error.abs().mean() < raw.abs().mean()
        assert ((both[f"{name}_lo_pct"] <= truth) & (truth <= both[f"{name}_hi_pct"])).sum() >= 20
        assert result.kendall_tau_b[name] > 0.95
    assert "SIMULATED" in repr(result) and "effective number of tasks" in repr(result)


@pytest.mark.parametrize("clip", [1, -0.1, "little", True])
def test_a_clip_that_is_no_fraction_is_refused(clip) -> None:
    with pytest.raises(TableError, match=r"fraction such as 0\.1"):
        weighting(runs(*drawn()), clip=clip)


def test_without_the_gate_or_with_published_counts_there_is_nothing_to_weight() -> None:
    with pytest.raises(TableError, match="needs the gate"):
        weighting(runs(*drawn()), gate="off")
    with pytest.raises(TableError, match="pairs rows by task"):
        weighting(datasets.published_round("2026-10-09"))


def test_the_printed_table_has_the_intervals_that_its_caption_speaks_of_and_the_leaderboards_names() -> None:
    study = datasets.simulated_release(scale=0.2)
    result = weighting(study, resamples=50)
    shown = result.sheet().cells
    board = leaderboard(study, resamples=20).sheet().cells
    assert sorted(shown["Row"]) == sorted(board["Row"])
    first = result.table.row(0, named=True)
    for column, name in (("Weighted (%)", "ipw"), ("Doubly robust (%)", "dr")):
        ends = f"{first[f'{name}_lo_pct']:.1f} to {first[f'{name}_hi_pct']:.1f}"
        assert shown[column][0] == f"{first[f'{name}_pct']:.1f} ({ends})"
    assert max(map(len, repr(result).splitlines()[1:4])) <= 160


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"gate": "off"}, "weighting needs the gate"), ({"seed": -1}, "seed is -1"), ({"seed": "a"}, "seed is 'a'")],
)
def test_what_it_cannot_do_is_said_under_its_own_name(asked: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        weighting(datasets.simulated_release(scale=0.2), **asked)
    with pytest.raises(TableError, match="weighting pairs rows by task"):
        weighting(datasets.published_round("2026-10-09"))
