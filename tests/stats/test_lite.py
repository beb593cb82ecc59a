"""Choosing a few tasks: by hand, against plain loops, and on rows that were not used to choose."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.optimize import minimize

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.methods.item_response import (
    SD_DEVIATION,
    SD_DIFFICULTY,
    SD_LEVEL,
    SD_MEAN,
    ItemResponse,
    choose_informative,
    estimate_scores,
    expit,
    fit_item_response,
)
from cilab.stats.teamwork.lite import (
    Cells,
    choose_exhaustive,
    choose_greedy,
    halves,
    lite,
    lite_curve,
    means,
    read_ridge,
)
from tests.shared import shared

#: Four rows, three tasks: full scores 1, 2/3, 1/3, 0.
BY_HAND = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


def runs(values: np.ndarray, *, names: list[str] | None = None, **more: Any) -> pl.DataFrame:
    """Values of shape (models, tasks) as one test each; NaN is a task that is not solved alone."""
    models = [f"m{r:02d}" for r in range(len(values))]
    return testing.grid(values, ~np.isnan(values), models=models, tasks=names, **more)


def cells(values: np.ndarray, per_dimension: int | None = None) -> Cells:
    n = values.shape[1]
    size = per_dimension or n
    slices = tuple(slice(i, i + size) for i in range(0, n, size))
    return Cells(values, slices, np.ones(n, bool), np.array([f"m{r}" for r in range(len(values))]))


def gated(seed: int, n_rows: int = 9, n_tasks: int = 8, share: float = 0.75) -> np.ndarray:
    """Random values; about a quarter of the cells do not pass the gate, but every row solves the first task."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n_rows, n_tasks)) < share, rng.random((n_rows, n_tasks)), np.nan)
    values[:, 0] = rng.random(n_rows)
    return values


def abilities_and_tasks(seed: int, n_rows: int, n_tasks: int, n_dims: int) -> np.ndarray:
    """Binary values of an item-response model, shape (n_rows, n_dims * n_tasks)."""
    rng = np.random.default_rng(seed)
    ability = rng.normal(0, 1.2, (n_rows, 1)) + rng.normal(0, 0.5, (n_rows, n_dims))
    logit = np.repeat(ability, n_tasks, axis=1) - rng.normal(0, 1.5, n_dims * n_tasks)
    return (rng.random(logit.shape) < expit(logit)).astype(float)


# -- choosing ---------------------------------------------------------------------------------------------


def test_greedy_takes_the_nearest_task_first_and_exhaustive_finds_the_better_pair() -> None:
    # One task: errors sum to 2/3, 1, 1, so the first is best. Two tasks: with the first 1/2, without it 1/3.
    assert choose_greedy(cells(BY_HAND), 1)[0].tolist() == [0]
    assert choose_greedy(cells(BY_HAND), 2)[0][0] == 0
    assert choose_exhaustive(cells(BY_HAND), 2)[0].tolist() == [1, 2]


def test_hand_worked_errors_stand_in_the_result() -> None:
    result = lite(runs(BY_HAND), 2, method="exhaustive", splits=1)
    assert result.chosen() == ["t001", "t002"]
    found = result.rows.filter(pl.col("method") == "exhaustive")
    np.testing.assert_allclose(found["full_pct"], [100, 200 / 3, 100 / 3, 0], atol=1e-9)
    np.testing.assert_allclose(found["lite_pct"], [100, 50, 50, 0], atol=1e-9)
    line = result.table.filter(pl.col("method") == "exhaustive").row(0, named=True)
    assert line["error_all_points"] == pytest.approx(100 / 12) and line["max_error_all_points"] == pytest.approx(50 / 3)


def loss(values: np.ndarray, chosen: tuple[int, ...], power: int) -> float:
    """Mean error of a subset's mean, row by row; a row without a chosen task is guessed at the mean full score."""
    full = [float(np.nanmean(row)) for row in values]
    errors = []
    for row, target in zip(values, full, strict=True):
        seen = [row[t] for t in chosen if not np.isnan(row[t])]
        errors.append(abs((np.mean(seen) if seen else np.mean(full)) - target) ** power)
    return float(np.mean(errors))


@pytest.mark.parametrize("seed", range(4))
def test_choices_agree_with_plain_loops_where_some_tasks_are_not_solved(seed: int) -> None:
    values = gated(seed)
    best = min(itertools.combinations(range(8), 3), key=lambda c: loss(values, c, 2))
    assert tuple(choose_exhaustive(cells(values), 3)[0]) == best
    picked: tuple[int, ...] = ()
    for _ in range(3):
        rest = [t for t in range(8) if t not in picked]
        picked = (*picked, min(rest, key=lambda t: loss(values, (*picked, t), 1)))
    assert tuple(choose_greedy(cells(values), 3)[0]) == picked


@pytest.mark.parametrize("seed", range(6))
def test_exhaustive_is_never_worse_than_greedy_on_the_rows_that_chose(seed: int) -> None:
    values = gated(100 + seed, n_rows=12, n_tasks=20)
    both = [choose(cells(values), 5)[0] for choose in (choose_exhaustive, choose_greedy)]
    best, greedy = (loss(values, tuple(c), 2) for c in both)
    assert best <= greedy + 1e-12
    assert len(set(both[0])) == len(set(both[1])) == 5


def test_only_public_tasks_are_chosen_and_the_full_score_is_of_all() -> None:
    values = gated(3, n_tasks=12)
    split = ["held_out", "public", "public"] * 4
    result = lite(runs(values, split=split), 3, method="all", splits=2)
    assert {int(t[1:]) % 3 for t in result.tasks["task_id"]} <= {1, 2}
    np.testing.assert_allclose(result.rows["full_pct"][:9], 100 * np.nanmean(values, axis=1))


def score_variance(fit: ItemResponse, known: list[int]) -> float:
    """Variance of the overall score, mean over rows, given the values of some tasks: the delta method, by matrices."""
    n_dims, total = len(fit.slices), 0.0
    p = fit.expected()
    spread = p * (1 - p)
    weight = np.concatenate([fit.share_scored[s] / fit.share_scored[s].sum() / n_dims for s in fit.slices])
    unknown = [t for t in range(p.shape[1]) if t not in known]
    for v in spread:
        precision, slope = np.linalg.inv(fit.prior_cov), np.zeros(n_dims)
        for t in known:
            d = fit.dimension[t]
            precision[d, d] += fit.share_scored[t] * v[t]
        for t in unknown:
            slope[fit.dimension[t]] += weight[t] * v[t]
        own = sum(weight[t] ** 2 * v[t] for t in unknown)
        total += float(slope @ np.linalg.inv(precision) @ slope) + own
    return total / len(p)


@pytest.mark.parametrize("seed", range(3))
def test_the_informative_choice_takes_the_task_that_leaves_the_least_variance_of_the_score(seed: int) -> None:
    values = gated(20 + seed, n_rows=7, n_tasks=12)
    fit = fit_item_response(values, (slice(0, 6), slice(6, 12)))
    may = np.arange(12) % 3 != 1
    chosen = choose_informative(fit, 2, may)
    known: list[int] = []
    for _ in range(4):
        full = [d for d in (0, 1) if sum(fit.dimension[t] == d for t in known) == 2]
        free = [t for t in range(12) if may[t] and t not in known and fit.dimension[t] not in full]
        known.append(min(free, key=lambda t: score_variance(fit, [*known, t])))
    assert [c.tolist() for c in chosen] == [[t for t in known if fit.dimension[t] == d] for d in (0, 1)]


def test_the_informative_choice_leaves_tasks_that_everybody_passes_for_last() -> None:
    values = abilities_and_tasks(4, 14, 10, 2)
    values[:, [2, 3, 14]] = 1.0
    fit = fit_item_response(values, (slice(0, 10), slice(10, 20)))
    chosen = np.concatenate(choose_informative(fit, 7, np.ones(20, bool)))
    assert len(set(chosen.tolist())) == 14 and not set(chosen.tolist()) & {2, 3, 14}


# -- estimates --------------------------------------------------------------------------------------------


def test_the_item_response_fit_is_the_mode_that_a_general_optimiser_finds() -> None:
    values = abilities_and_tasks(1, 5, 4, 2)
    values[0, 1] = np.nan
    values[2, 3] = 0.5
    dim = np.repeat([0, 1], 4)
    sd = np.repeat([SD_MEAN, SD_LEVEL, SD_DEVIATION, SD_DIFFICULTY], [2, 5, 10, 8])

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x[:2] + x[2:7, None] + x[7:17].reshape(5, 2), x[17:]

    def minus_log_posterior(x: np.ndarray) -> float:
        ability, difficulty = parts(x)
        logit = ability[:, dim] - difficulty
        return float(np.nansum(np.logaddexp(0, logit) - values * logit) + 0.5 * np.sum((x / sd) ** 2))

    found = minimize(minus_log_posterior, np.zeros(25), method="BFGS", options={"gtol": 1e-7})
    ability, difficulty = parts(found.x)
    fit = fit_item_response(values, (slice(0, 4), slice(4, 8)))
    np.testing.assert_allclose(fit.ability, ability, atol=1e-4)
    np.testing.assert_allclose(fit.difficulty, difficulty, atol=1e-4)


def test_an_estimate_from_every_task_is_the_full_score() -> None:
    values = gated(5, n_tasks=10)
    fit = fit_item_response(values, (slice(0, 5), slice(5, 10)))
    values[:, 5] = 0.25
    found = estimate_scores(fit, values, np.arange(10))
    parts = [np.nanmean(values[:, :5], axis=1), np.nanmean(values[:, 5:], axis=1)]
    np.testing.assert_allclose(found, np.stack(parts, axis=1))


def test_an_estimate_looks_at_nothing_but_the_chosen_tasks_of_a_new_row() -> None:
    values = abilities_and_tasks(2, 12, 10, 2)
    fit = fit_item_response(values[:6], (slice(0, 10), slice(10, 20)))
    other = values[6:].copy()
    other[:, 5:10] = 1 - other[:, 5:10]
    chosen = np.array([0, 1, 2, 12, 13])
    np.testing.assert_array_equal(estimate_scores(fit, values[6:], chosen), estimate_scores(fit, other, chosen))


def test_ridge_learns_a_constant_error_of_the_subset() -> None:
    rng = np.random.default_rng(8)
    base = rng.random((14, 1)) * 0.5
    values = np.hstack([base + 0.3, base + 0.3, base, base])  # the first two lie 0.15 above the mean of all
    seen, chosen = cells(values[:8]), [np.array([0, 1])]
    assert np.abs(means(values[8:], chosen)[:, 0] - values[8:].mean(axis=1)).min() > 0.1
    np.testing.assert_allclose(read_ridge(seen, values[8:], chosen)[:, 0], values[8:].mean(axis=1), atol=1e-9)


def test_estimates_are_called_estimates_and_means_scores() -> None:
    table = lite(runs(gated(6)), 3, method="all", splits=2).table
    assert dict(table.select("method", "what").iter_rows()) == {
        "random": "score",
        "greedy": "score",
        "exhaustive": "score",
        "ridge": "estimate",
        "item_response": "estimate",
    }


# -- the check --------------------------------------------------------------------------------------------


def test_the_two_efforts_of_a_model_are_always_in_the_same_half() -> None:
    models = np.array(["a", "b", "a", "c", "d", "d", "e"])
    found = halves(models, 50, np.random.default_rng(0))
    assert all(half[0] == half[2] and half[4] == half[5] for half in found)
    assert all(len(set(models[half])) == 2 for half in found)
    assert len({tuple(half) for half in found}) > 5


def test_rows_without_a_solved_chosen_task_are_counted_and_have_no_score_but_an_estimate() -> None:
    values = gated(7, n_rows=8, n_tasks=6, share=1.0)
    values[3, :4] = np.nan
    split = ["public"] * 4 + ["held_out"] * 2
    result = lite(runs(values, split=split), 2, method=["greedy", "item_response"], splits=12, seed=1)
    lines = {r["method"]: r for r in result.rows.filter(pl.col("model") == "m03").iter_rows(named=True)}
    assert lines["greedy"]["lite_pct"] is None and lines["greedy"]["n_dimensions_without"] == 1
    assert lines["greedy"]["n_solved"] == 0 and 0 < lines["item_response"]["lite_pct"] < 100
    greedy = result.splits.filter(pl.col("method") == "greedy")
    assert set(greedy["n_without"]) == {0, 1} and (greedy["n_rows"] + greedy["n_without"] == 4).all()
    assert result.table["n_without"][1] == greedy["n_without"].sum()
    assert (result.splits.filter(pl.col("method") == "item_response")["n_rows"] == 4).all()


def test_a_row_without_a_full_score_is_left_out_and_named() -> None:
    values = gated(8, n_tasks=8)
    values[:, 4] = 0.5
    values[2, 4:] = np.nan
    result = lite(runs(values, dimensions=["d"] * 4 + ["e"] * 4), 2, method="greedy", splits=2)
    assert "m02" not in result.rows["model"].to_list()
    assert any("m02" in note for note in result.notes())
    assert result.n_used + sum(result.n_left_out.values()) == runs(values).height


def test_the_order_of_the_runs_does_not_matter() -> None:
    frame = runs(gated(9, n_tasks=10), dimensions=["d"] * 5 + ["e"] * 5)
    first = lite(frame, 2, method="all", splits=3)
    second = lite(frame.sample(fraction=1, shuffle=True, seed=4), 2, method="all", splits=3)
    for name in ("table", "tasks", "rows", "splits"):
        assert_frame_equal(getattr(first, name), getattr(second, name))


def test_renamed_tasks_are_chosen_under_their_new_names() -> None:
    values = gated(10, n_tasks=10)
    new = [f"x{9 - t}" for t in range(10)]
    first = lite(runs(values), 3, method=["greedy", "exhaustive", "item_response"], splits=4)
    second = lite(runs(values, names=new), 3, method=["greedy", "exhaustive", "item_response"], splits=4)
    for method in ("greedy", "exhaustive", "item_response"):
        assert {new[int(t[1:])] for t in first.chosen(method)} == set(second.chosen(method))
    others = pl.col("method") != "random"
    assert_frame_equal(first.splits.filter(others), second.splits.filter(others))


def test_one_method_more_changes_no_other_methods_numbers() -> None:
    frame = runs(gated(11))
    alone, many = (lite(frame, 2, method=m, splits=3).splits for m in ("greedy", "all"))
    assert_frame_equal(alone, many.filter(pl.col("method").is_in(["random", "greedy"])))


def test_every_task_chosen_leaves_no_error() -> None:
    table = lite(runs(gated(12)), 8, method=["greedy", "item_response"], splits=3).table
    np.testing.assert_allclose(table["error_points"], 0, atol=1e-9)


def test_larger_subsets_have_smaller_errors_on_unseen_rows() -> None:
    values = abilities_and_tasks(3, 20, 20, 2)
    frame = runs(values, dimensions=["d"] * 20 + ["e"] * 20)
    curve = lite_curve(frame, (1, 5, 15), splits=15)
    for method in ("random", "greedy", "item_response"):
        errors = curve.table.filter(pl.col("method") == method)["error_points"].to_list()
        assert errors == sorted(errors, reverse=True), method
    assert curve.table["n_tasks"].to_list() == [2] * 3 + [10] * 3 + [30] * 3


def test_on_simulated_releases_the_estimate_errs_a_quarter_less_than_random_subsets() -> None:
    reductions = []
    for seed in range(5):
        result = lite(datasets.simulated_release(seed))
        assert result.table["method"].to_list() == ["random", "item_response"]
        assert result.tasks.filter(pl.col("method") == "item_response").height == 40
        reductions.append(result.table["reduction_pct"][1])
    # Measured: 26.6, 24.5, 20.7, 31.0 and 25.7. The paper's greedy choice: 19.2, 0.3, 4.3, 3.1 and 17.7.
    assert np.mean(reductions) >= 25 and min(reductions) >= 18


@pytest.mark.parametrize("per_dimension", [5, 40])
def test_on_real_submissions_the_estimate_errs_less_than_random_subsets(per_dimension: int) -> None:
    data = datasets.import_table(shared("swebench_bash_only"), "swebench_bash_only").dataset
    table = lite(data, per_dimension, splits=20, version="alone", gate="off").table
    assert table["reduction_pct"][-1] >= 15  # measured with 40 splits: 45.4 and 31.9


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "gredy"}, "not one of random, greedy"),
        ({"per_dimension": 0}, "per_dimension is 0"),
        ({"per_dimension": 2.5}, "per_dimension is 2.5"),
        ({"per_dimension": 9}, "d has 8 tasks to choose from"),
        ({"splits": 0}, "splits is 0"),
    ],
)
def test_arguments_out_of_range_are_named(arguments: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        lite(runs(gated(0)), **{"per_dimension": 2, "splits": 2, **arguments})


def test_exhaustive_refuses_more_subsets_than_it_can_look_at() -> None:
    values = np.random.default_rng(0).random((4, 60))
    with pytest.raises(TableError, match="5,461,512 subsets"):
        lite(runs(values), 5, method="exhaustive")


def test_fewer_than_four_models_are_too_few_to_split() -> None:
    with pytest.raises(TableError, match="3 models"):
        lite(runs(gated(0, n_rows=3)), 2)


def test_a_published_round_has_no_task_identities_to_choose_from() -> None:
    with pytest.raises(TableError, match="unknown:"):
        lite(datasets.published_round("2026-10-09"))


def test_sizes_must_be_a_list_of_whole_numbers() -> None:
    with pytest.raises(TableError, match="sizes"):
        lite_curve(runs(gated(0)), 5)  # type: ignore[arg-type]


def test_the_printed_tables_say_in_words_what_they_count() -> None:
    study = datasets.simulated_release(scale=0.2)
    for result in (lite(study, 2, splits=3), lite_curve(study, [2], splits=3)):
        shown = result.sheet().cells
        counts = shown["Rows without a solved task"].to_list()
        assert counts[0] == f"{result.table['n_without'][0]:.1f}".removesuffix(".0")
        assert all("." not in text for text in counts[1:])
        assert "n_without" not in result.caption and "Rows without a solved task: over all splits" in result.caption
        assert "Random is the mean over 10 draws in each split." in result.caption


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"method": 3}, "method is 3: give a name"), ({"method": None}, "method is None"), ({"seed": "a"}, "seed is 'a'")],
)
def test_a_method_or_a_seed_that_is_none_is_refused_in_one_line(asked: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        lite(datasets.simulated_release(scale=0.2), 2, **asked)


# -- what cannot be fitted --------------------------------------------------------------------------------


def test_all_gives_what_can_be_fitted_and_says_why_exhaustive_cannot() -> None:
    frame = runs(np.random.default_rng(1).random((6, 26)))
    result = lite(frame, 10, method="all", splits=1)
    assert result.table["method"].to_list() == ["random", "greedy", "ridge", "item_response"]
    assert result.methods["method"].to_list() == [*result.table["method"][:2], "exhaustive", "ridge", "item_response"]
    (line,) = result.methods.filter(~pl.col("fitted")).iter_rows(named=True)
    # 26 choose 10 by hand: 26! / (10! 16!) = 5,311,735.
    assert line == {
        "method": "exhaustive",
        "fitted": False,
        "reason": "d has 5,311,735 subsets of 10 of 26 tasks, more than 200,000",
    }
    assert any(note.startswith("Without exhaustive: d has 5,311,735") for note in result.notes())
    with pytest.raises(TableError, match="5,311,735 subsets"):
        lite(frame, 10, method=["greedy", "exhaustive"], splits=1)


def test_a_curve_of_all_methods_leaves_one_out_where_it_cannot_be_fitted_only() -> None:
    frame = runs(np.random.default_rng(1).random((6, 26)))
    curve = lite_curve(frame, [1, 8], method="all", splits=1)
    counts = dict(curve.table.group_by("per_dimension").len().rows())
    assert counts == {1: 5, 8: 4}
    gone = curve.methods.filter(~pl.col("fitted")).select("per_dimension", "method").rows()
    assert gone == [(8, "exhaustive")]
    assert any("Without exhaustive at 8 tasks per dimension" in note for note in curve.notes())


def test_usual_sizes_that_a_small_study_cannot_have_are_left_out_and_named_ones_refused() -> None:
    curve = lite_curve(runs(gated(3, n_tasks=6)), splits=1, method="greedy")
    assert curve.table["per_dimension"].unique().sort().to_list() == [1, 2, 3, 5]
    assert any("fewer tasks than 8, 10, 15" in note for note in curve.notes())
    with pytest.raises(TableError, match="d has 6 tasks to choose from"):
        lite_curve(runs(gated(3, n_tasks=6)), (5, 8), splits=1)


def test_rank_orders_of_fewer_than_four_rows_are_not_defined() -> None:
    values = np.random.default_rng(2).random((8, 8))
    result = lite(runs(values[:6]), 2, method="greedy", splits=2)  # three rows in each half
    assert result.table["tau"].to_list() == [None, None] and result.table["error_points"].null_count() == 0
    assert result.table["tau_all"].null_count() == 0
    assert any("No split has the 4 scored rows" in note for note in result.notes())
    wider = lite(runs(values), 2, method="greedy", splits=2)
    assert wider.table["tau"].null_count() == 0 and not any("scored rows" in n for n in wider.notes())
