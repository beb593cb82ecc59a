"""Validity checks on data whose answers are known by hand or by another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.teamwork.validity import spearman_brown, validity


def runs(values: np.ndarray, *, dimensions: int = 1, **more: Any) -> pl.DataFrame:
    """Scores of shape (rows, tasks, seeds) as runs; the tasks are spread over so many dimensions."""
    n = values.shape[1]
    return testing.grid(values, dimensions=[f"d{t * dimensions // n}" for t in range(n)], **more)


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """10 rows of rising ability, 40 tasks, 3 seeds."""
    rng = np.random.default_rng(3)
    ability, difficulty = np.linspace(-2, 2, 10), rng.normal(0, 1, 40)
    p = 1 / (1 + np.exp(difficulty[None, :] - ability[:, None]))
    return (rng.random((10, 40, 3)) < p[:, :, None]).astype(float)


def test_held_out_against_public_agrees_with_scipy(drawn) -> None:
    split = ["public" if t % 4 else "held_out" for t in range(40)]
    result = validity(runs(drawn, split=split, dimensions=2), splits=10)
    is_public = np.array([s == "public" for s in split])
    halves = [slice(0, 20), slice(20, 40)]
    x, y = (
        np.mean([drawn[:, h][:, kind[h]].mean(axis=(1, 2)) for h in halves], axis=0) for kind in (is_public, ~is_public)
    )
    assert result.value("kendall_tau_b") == pytest.approx(stats.kendalltau(x, y).statistic)
    assert result.value("pearson_r") == pytest.approx(stats.pearsonr(x, y).statistic)
    assert result.value("mean_absolute_difference") == pytest.approx(100 * np.abs(x - y).mean())
    assert result.value("mean_difference") == pytest.approx(100 * (y - x).mean())
    fisher = result.table.filter(pl.col("quantity") == "pearson_r_over_rows").row(0, named=True)
    ci = stats.pearsonr(x, y).confidence_interval()
    assert (fisher["lo"], fisher["hi"]) == (pytest.approx(ci.low), pytest.approx(ci.high))
    np.testing.assert_allclose(result.held_out["public_pct"], 100 * x)


def test_seed_against_seed_agrees_with_numpy_and_the_least_stands_first(drawn) -> None:
    result = validity(runs(drawn), splits=10)
    by_seed = drawn.mean(axis=1)
    r = {(i, j): np.corrcoef(by_seed[:, i], by_seed[:, j])[0, 1] for i, j in ((0, 1), (0, 2), (1, 2))}
    for (i, j), value in r.items():
        assert result.value(f"pearson_r_{i}_{j}") == pytest.approx(value)
    assert result.value("least_pearson_r") == pytest.approx(min(r.values()))
    got = result.seeds.filter(pl.col("seed") == 1)["score_pct"]
    np.testing.assert_allclose(got, 100 * by_seed[:, 1])


def test_same_verdict_is_the_share_of_cells_with_one_score_in_all_seeds(drawn) -> None:
    want = 100 * (drawn.min(axis=2) == drawn.max(axis=2)).mean()
    line = validity(runs(drawn), splits=10).table.filter(pl.col("quantity") == "same_verdict_pct").row(0, named=True)
    assert (line["value"], line["n"]) == (pytest.approx(want), 400)
    assert line["lo"] < want < line["hi"]


def test_split_half_reliability_is_that_of_the_classical_formula() -> None:
    # Parallel tests: value = ability + noise, so the reliability of the mean of n tasks is Va / (Va + Ve / n).
    rng = np.random.default_rng(8)
    n_rows, n_tasks, va, ve = 150, 20, 0.01, 0.04
    values = 0.5 + rng.normal(0, va**0.5, (n_rows, 1, 1)) + rng.normal(0, ve**0.5, (n_rows, n_tasks, 1))
    result = validity(runs(values.clip(0, 1)), splits=200)
    assert result.value("reliability") == pytest.approx(va / (va + ve / n_tasks), abs=0.06)
    assert result.halves.height == 200
    assert result.value("half_pearson_r") == pytest.approx(va / (va + ve / (n_tasks / 2)), abs=0.09)
    assert spearman_brown(np.array([0.5]))[0] == pytest.approx(2 / 3)


def test_halves_that_go_against_each_other_have_no_reliability_and_the_reason() -> None:
    """Four rows of nearly one score over six tasks: what one half has more the other has less."""
    passed = ["011100", "110010", "010011", "001111"]
    values = np.array([[float(c) for c in row] for row in passed])[:, :, None]
    result = validity(runs(values), resamples=50)
    line = result.table.filter(quantity="reliability").row(0, named=True)
    assert (line["value"], line["lo"], line["hi"], line["interval"]) == (None, None, None, None)
    assert "the mean correlation of the halves is not above 0: reliability is undefined" in line["note"]
    half = result.table.filter(quantity="half_pearson_r").row(0, named=True)
    n_empty = result.halves["r"].null_count()
    assert half["value"] == pytest.approx(-0.81, abs=0.01) and n_empty > 0 and half["n"] == 1000 - n_empty
    assert f"{n_empty} of 1,000 halvings have no r" in half["note"] and half["note"] in line["note"]
    assert result.halves["reliability"].drop_nulls().is_between(0, 1).all()
    assert "undefined" in result.plot(panel="split_half").texts[0].get_text()


def test_the_mean_r_is_stepped_up_and_the_range_of_the_halvings_with_it(drawn) -> None:
    result = validity(runs(drawn), splits=400, resamples=50)
    r = result.halves["r"].to_numpy()
    line = result.table.filter(quantity="reliability").row(0, named=True)
    assert line["value"] == pytest.approx(2 * r.mean() / (1 + r.mean()))
    ends = np.quantile(r, [0.025, 0.975])
    assert (line["lo"], line["hi"]) == pytest.approx(tuple(np.clip(2 * ends / (1 + ends), 0, None)))
    assert line["lo"] < line["value"] < line["hi"]


def test_halvings_that_all_agree_have_no_range_and_seeds_that_all_agree_an_exact_interval() -> None:
    # Two tasks can be halved in one way only, whichever half is called the first.
    two = validity(runs(np.array([[0.0, 0.2], [0.5, 0.4], [1.0, 0.9]])[:, :, None]), splits=50, resamples=50)
    line = two.table.filter(quantity="reliability").row(0, named=True)
    assert line["value"] > 0 and (line["lo"], line["note"]) == (None, "all halvings agree")
    same = validity(runs(np.repeat(np.eye(4)[:, :, None], 3, axis=2)), resamples=50).table
    line = same.filter(quantity="same_verdict_pct").row(0, named=True)
    # Four tasks of which all cells agree: Clopper and Pearson's lower end of 4 of 4.
    assert (line["value"], line["hi"]) == (100, 100)
    assert line["lo"] == pytest.approx(100 * stats.binomtest(4, 4).proportion_ci(method="exact").low)


def test_halvings_take_half_of_every_dimension() -> None:
    from cilab.stats.teamwork.validity import _halves

    first = _halves(7, 500, np.random.default_rng(0))
    assert set(first.sum(axis=1)) == {3.0} and abs(first.mean(axis=0) - 3 / 7).max() < 0.12


def test_head_to_head_uses_the_tasks_that_both_solve_alone() -> None:
    # Own tasks: m0 (1 + 0) / 2, m1 1 / 1 (task 1 failed alone), m2 0. On common tasks m0 and m1 share task 0: a tie.
    values = np.array([[[1.0], [0.0]], [[1.0], [0.0]], [[0.0], [0.0]]])
    solved = np.array([[True, True], [True, False], [True, True]])
    result = validity(runs(values, solved=solved), splits=5, resamples=50)
    assert result.pairs.select("higher", "lower", "n_tasks", "wins").rows() == [
        ("m1", "m0", 1, None),
        ("m1", "m2", 1, True),
        ("m0", "m2", 2, True),
    ]
    line = result.table.filter(pl.col("quantity") == "higher_ranked_wins").row(0, named=True)
    assert (line["value"], line["n"], line["note"]) == (2.0, 3, "1 ties")


def test_a_row_that_leads_on_its_own_easy_tasks_can_lose_head_to_head() -> None:
    # m1 solves only the easy tasks alone; on them m0 does better.
    values = np.array([[[1.0], [1.0], [0.0], [0.0]], [[1.0], [0.5], [0.0], [0.0]]])
    solved = np.array([[True] * 4, [True, True, False, False]])
    result = validity(runs(values, solved=solved), splits=5, resamples=50)
    assert result.pairs.row(0, named=True) | {} == {
        "higher": "m1",
        "lower": "m0",
        "higher_pct": 75.0,
        "lower_pct": 100.0,
        "n_tasks": 2,
        "n_dimensions": 1,
        "wins": False,
    }


def test_what_the_data_do_not_permit_is_null_with_a_reason() -> None:
    values = np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    table = validity(runs(values), splits=5, resamples=50).table
    notes = dict(table.select("check", "note").iter_rows())
    assert notes["held_out"] == "the tasks have no public and held-out split"
    assert notes["seeds"] == notes["same_verdict"] == "one seed only"
    assert notes["split_half"] == "fewer than three rows"


def test_one_row_and_constant_rows_give_no_correlation() -> None:
    one = validity(runs(np.ones((1, 4, 2))), splits=5, resamples=50)
    assert one.value("higher_ranked_wins") is None and one.value("least_pearson_r") is None
    same = validity(runs(np.ones((4, 4, 2))), splits=5, resamples=50)
    assert same.value("reliability") is None and same.value("least_pearson_r") is None
    assert same.value("same_verdict_pct") == 100.0
    assert same.value("higher_ranked_wins") == 0.0  # six ties


def test_permuting_runs_changes_nothing_and_the_seed_decides_the_splits(drawn) -> None:
    data = runs(drawn)
    one, two = validity(data, splits=20, resamples=50), validity(data.reverse(), splits=20, resamples=50)
    assert one.table.equals(two.table, null_equal=True)
    other = validity(data, splits=20, resamples=50, seed=1)
    assert one.value("reliability") != other.value("reliability")


def test_published_rounds_and_bad_arguments_are_refused() -> None:
    with pytest.raises(TableError, match="validity pairs rows by task"):
        validity(datasets.published_round())
    with pytest.raises(TableError, match="splits is 0"):
        validity(runs(np.ones((2, 2, 1))), splits=0)
    with pytest.raises(TableError, match="no quantity 'tau'"):
        validity(runs(np.ones((3, 4, 2))), splits=5, resamples=50).value("tau")


def test_the_simulated_release_has_the_validity_of_the_paper() -> None:
    # Appendix C.1: tau 0.88, mean difference 2.7 points, r >= 0.98, 80 % same verdicts, reliability 0.99, 271 of 276.
    result = validity(datasets.simulated_release(), splits=200, resamples=200)
    assert result.value("kendall_tau_b") == pytest.approx(0.88, abs=0.06)
    assert result.value("mean_absolute_difference") == pytest.approx(2.7, abs=1.5)
    assert result.value("least_pearson_r") >= 0.975
    assert result.value("same_verdict_pct") == pytest.approx(80, abs=2)
    assert result.value("reliability") == pytest.approx(0.99, abs=0.01)
    assert result.value("higher_ranked_wins") >= 262
    assert result.pairs.height == 276


def test_a_row_that_solves_one_held_out_task_does_not_select_the_resamples(drawn) -> None:
    split = ["public" if t % 4 else "held_out" for t in range(40)]
    solved = np.ones((10, 40), bool)
    solved[0, 4::4] = False  # the weakest row solves one of ten held-out tasks alone: 35 % of the resamples lack it
    table = validity(runs(drawn, split=split, solved=solved), resamples=1000, splits=5).table
    lines = {r["quantity"]: r for r in table.filter(pl.col("check") == "held_out").iter_rows(named=True)}
    for name in ("pearson_r", "mean_difference"):
        assert lines[name]["lo"] < lines[name]["hi"] and lines[name]["n_empty_resamples"] == 0
    gap = lines["mean_difference"]
    assert gap["lo"] < gap["value"] < gap["hi"]


def test_an_interval_with_many_empty_resamples_is_not_given_and_the_note_says_why(drawn) -> None:
    split = ["public" if t % 4 else "held_out" for t in range(40)]
    solved = np.ones((10, 40), bool)
    solved[:, 4::4] = False  # all rows solve the same one
    table = validity(runs(drawn, split=split, solved=solved), resamples=1000, splits=5).table
    line = table.filter(pl.col("quantity") == "mean_difference").row(0, named=True)
    assert line["n_empty_resamples"] == pytest.approx(349, abs=60)
    assert (line["lo"], line["hi"], line["interval"]) == (None, None, None) and line["value"] is not None
    assert "of the resamples: no interval" in line["note"]


def test_a_seed_below_zero_is_refused(drawn) -> None:
    with pytest.raises(TableError, match="seed is -1: give a whole number"):
        validity(runs(drawn), seed=-1)
