"""Power by simulation: by hand, against formulas, the bootstrap and data of a known model."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest

from cilab import testing
from cilab.core.errors import TableError
from cilab.stats.methods import bootstrap
from cilab.stats.methods.item_response import ItemResponse, expit
from cilab.stats.teamwork.power import _simulated, _World, difference_and_se, power


def runs(n_rows: int, n_tasks: int, n_seeds: int, cell_sd: float = 0.0, seed: int = 0) -> pl.DataFrame:
    """Runs of an item-response model with an effect of the cell, in dimensions d and e; every task is solved alone."""
    rng = np.random.default_rng(seed)
    ability, difficulty = rng.normal(0, 1.0, (n_rows, 1)), rng.normal(0, 1.2, 2 * n_tasks)
    p = expit(ability - difficulty + rng.normal(0, cell_sd, (n_rows, 2 * n_tasks)))
    passes = rng.random((n_rows, 2 * n_tasks, n_seeds)) < p[..., None]
    names = [f"m{r:02d}" for r in range(n_rows)]
    return testing.grid(passes, models=names, dimensions=["d"] * n_tasks + ["e"] * n_tasks)


def world(difficulty: list[float], cell_sd: float = 0.0, share: float = 1.0) -> _World:
    """One dimension with these tasks, and a mean row of ability 0."""
    n = len(difficulty)
    one = np.ones((1, 1))
    model = ItemResponse(
        ability=0 * one,
        difficulty=np.array(difficulty, float),
        dimension=np.zeros(n, int),
        slices=(slice(0, n),),
        share_scored=np.full(n, share),
        prior_mean=np.zeros(1),
        prior_cov=one,
    )
    return _World(model, cell_sd)


STUDY = runs(8, 12, 3, cell_sd=1.5)

# -- the difference and its error -------------------------------------------------------------------------


def test_two_tasks_by_hand() -> None:
    # Scores 0, 1 and 1, 1: differences 1 and 0, mean 1/2, standard deviation sqrt(1/2), error sqrt(1/2) / sqrt(2).
    y = np.array([[[0.0, 1.0]], [[1.0, 1.0]]])
    difference, se = difference_and_se(y, np.ones(y.shape, bool))
    assert difference == pytest.approx(0.5) and se == pytest.approx(0.5)


def test_without_a_gate_the_error_is_that_of_the_paired_t_test() -> None:
    y = np.random.default_rng(1).random((2, 1, 25))
    _, se = difference_and_se(y, np.ones(y.shape, bool))
    assert se == pytest.approx(np.std(y[1] - y[0], ddof=1) / 5)


def test_with_a_gate_the_error_is_that_of_the_bootstrap_over_tasks() -> None:
    rng = np.random.default_rng(2)
    y, m = rng.random((2, 2, 60)), rng.random((2, 2, 60)) < 0.7
    _, se = difference_and_se(y, m)
    flat = y.reshape(2, 120), m.reshape(2, 120), (slice(0, 60), slice(60, 120))
    drawn = bootstrap.resample_scores(*flat, resamples=20_000, rng=rng).overall
    # The factor n / (n - 1) is ours; first order and Monte Carlo leave about 2 %.
    assert se == pytest.approx(np.std(drawn[:, 1] - drawn[:, 0]) * math.sqrt(60 / 59), rel=0.03)


def test_a_model_that_solves_no_task_of_a_dimension_has_no_difference() -> None:
    y = np.ones((2, 1, 4))
    difference, se = difference_and_se(y, np.stack([np.zeros((1, 4), bool), np.ones((1, 4), bool)]))
    assert np.isnan(difference) and np.isnan(se)


# -- the world --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell_sd", [0.0, 2.0])
def test_the_two_models_score_what_was_asked_for(cell_sd: float) -> None:
    w = world([-2, -1, 0, 0.5, 3], cell_sd)
    ability = w.ability_at(0.62, 0)
    rng = np.random.default_rng(3)
    drawn = expit(w.logits(ability) + cell_sd * rng.standard_normal((200_000, 5)))
    assert drawn.mean() == pytest.approx(0.62, abs=0.003)


def test_power_agrees_with_the_normal_formula_where_it_holds() -> None:
    w = world([0.0, 0.0, 0.0])
    abilities = [w.ability_at(0.45, 10), w.ability_at(0.55, 10)]
    lines = _simulated(w, abilities, 10.0, 1, (100, 400), 4000, 0.95, np.random.default_rng(4))
    for line, n in zip(lines, (100, 400), strict=True):
        se = math.sqrt(2 * 0.45 * 0.55 / n)
        expected = 1 - NormalDist().cdf(1.959964 - 0.10 / se)
        assert line[5] == pytest.approx(expected, abs=0.025)


SMALL: dict[str, Any] = {
    "gate": "off",
    "differences": [10.0],
    "tasks_per_dimension": [30],
    "seeds": [1],
    "cell_sd": 0.0,
}


def test_a_task_that_was_never_run_is_not_one_that_was_failed() -> None:
    """Without a gate nothing fails it: 60 tests a model, whether or not two models ran half of the tasks."""
    full = runs(3, 10, 1, seed=3).filter(pl.col("version") == "test")
    few = pl.col("task_id").is_in(sorted(full["task_id"].unique())[::2]) & (pl.col("model") != "m00")
    whole, half = (power(part, **SMALL).table.row(0, named=True) for part in (full, full.filter(~few)))
    assert whole["runs_per_model"] == half["runs_per_model"] == 60
    assert half["power"] == pytest.approx(whole["power"], abs=0.06)
    # With the gate: m00 solves all tasks alone, m01 fails a half of them, m02 never ran those alone nor otherwise.
    alone = runs(3, 10, 1, seed=3)
    odd = pl.col("task_id").is_in(sorted(alone["task_id"].unique())[::2])
    failed = odd & (pl.col("model") == "m01")
    gated = alone.filter(~(failed & (pl.col("version") == "test")) & ~(odd & (pl.col("model") == "m02")))
    gated = gated.with_columns(score=pl.when(failed & (pl.col("version") == "alone")).then(0.0).otherwise("score"))
    found = power(gated, **SMALL | {"gate": "solved_alone"}).table.row(0, named=True)
    assert found["runs_per_model"] == pytest.approx(2 * 30 * (0.5 + 0.5 * 0.5))


def test_graded_scores_that_do_not_vary_leave_nothing_to_chance() -> None:
    values = np.repeat([[0.6], [0.5], [0.5]], 20, axis=1)[:, :, None]
    result = power(testing.grid(values, dimensions=["d"] * 10 + ["e"] * 10), **SMALL)
    row = result.table.row(0, named=True)
    assert (row["power"], row["wrong_way"], row["runs_per_model"]) == (1.0, 0.0, 60)
    assert row["power_lo"] < 1
    assert dict(result.model.select("quantity", "value").iter_rows())["scatter: d"] == 0
    assert any("Graded scores" in note for note in result.notes())
    none = power(testing.grid(values, dimensions=["d"] * 10 + ["e"] * 10), **SMALL | {"differences": [0.0]})
    assert none.table["power"][0] == 0.0  # no false alarm out of rounding


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_the_scatter_of_graded_scores_is_recovered_and_pass_or_fail_stays_a_coin(n_seeds: int) -> None:
    """Beta scores whose variance is a fifth of p (1 - p), in dimension d; dimension e passes or fails. Simulated."""
    rng = np.random.default_rng(6)
    ability, difficulty = np.linspace(-1, 1, 8)[:, None], rng.normal(0, 0.8, 80)
    p = expit(ability - difficulty)[..., None].repeat(n_seeds, axis=2)
    graded = rng.beta(4 * p, 4 * (1 - p))  # a + b = 1 / 0.2 - 1
    values = np.where(np.arange(80)[None, :, None] < 40, graded, rng.random(p.shape) < p)
    data = testing.grid(values, dimensions=["d"] * 40 + ["e"] * 40)
    found = dict(power(data, **SMALL | {"simulations": 20}).model.select("quantity", "value").iter_rows())
    assert found["scatter: d"] == pytest.approx(0.2, abs=0.04)
    assert "scatter: e" not in found


def test_of_graded_scores_alone_the_effect_of_the_cell_is_recovered() -> None:
    rng = np.random.default_rng(7)
    logits = np.linspace(-1, 1, 10)[:, None] - rng.normal(0, 0.8, 60) + rng.normal(0, 1.0, (10, 60))
    p = expit(logits)[..., None].repeat(3, axis=2)
    data = testing.grid(rng.beta(9 * p, 9 * (1 - p)), dimensions=["d"] * 60)
    settings = {"gate": "off", "differences": [10.0], "tasks_per_dimension": [10], "seeds": [1], "simulations": 20}
    found = dict(power(data, **settings).model.select("quantity", "value").iter_rows())
    assert found["cell_sd"] == pytest.approx(1.0, abs=0.25) and found["scatter: d"] == pytest.approx(0.1, abs=0.03)


def test_power_of_graded_scores_agrees_with_the_normal_formula() -> None:
    w = dataclasses.replace(world([0.0, 0.0, 0.0]), scatter=np.array([0.25]))
    abilities = [w.ability_at(0.45, 10), w.ability_at(0.55, 10)]
    (line,) = _simulated(w, abilities, 10.0, 2, (100,), 4000, 0.95, np.random.default_rng(4))
    se = math.sqrt(2 * 0.25 * 0.45 * 0.55 / 2 / 100)
    assert line[5] == pytest.approx(1 - NormalDist().cdf(1.984 - 0.10 / se), abs=0.025)


def test_more_tasks_and_larger_differences_have_more_power_and_no_difference_few_alarms() -> None:
    result = power(STUDY, differences=(0, 5, 20), tasks_per_dimension=(10, 40, 160), seeds=(3,), simulations=600)
    p = {(r["difference_points"], r["tasks_per_dimension"]): r["power"] for r in result.table.iter_rows(named=True)}
    assert p[20, 10] < p[20, 40] <= p[20, 160] and p[5, 160] < p[20, 160] and p[0, 160] < p[5, 160]
    assert 0.02 < p[0, 160] < 0.085
    line = result.table.filter((pl.col("difference_points") == 20) & (pl.col("tasks_per_dimension") == 160))
    assert line["mean_points"][0] == pytest.approx(20, abs=1.0)
    assert line["n_tasks"][0] == 320 and line["runs_per_model"][0] == pytest.approx(960)


def test_seeds_help_less_where_seeds_of_a_cell_agree() -> None:
    gains = []
    for cell_sd in (0.0, 4.0):
        settings = {"differences": [8], "tasks_per_dimension": [60], "seeds": [1, 5], "simulations": 1500}
        one, five = power(STUDY, cell_sd=cell_sd, **settings).table["power"]
        gains.append(five - one)
    assert gains[0] > gains[1] + 0.05


@pytest.mark.parametrize("truth", [0.0, 2.0])
def test_the_effect_of_the_cell_is_recovered_from_how_much_seeds_agree(truth: float) -> None:
    result = power(
        runs(14, 30, 3, cell_sd=truth, seed=5), differences=[5], tasks_per_dimension=[5], seeds=[3], simulations=20
    )
    found = dict(result.model.select("quantity", "value").iter_rows())
    assert found["cell_sd"] == pytest.approx(truth, abs=0.7)
    if truth:
        assert found["seed_variance_model"] == pytest.approx(found["seed_variance_data"], rel=0.01)


def test_what_is_needed_is_the_smallest_number_from_which_on_the_target_holds() -> None:
    result = power(STUDY, differences=[3, 25], tasks_per_dimension=[5, 20, 80], seeds=[1], simulations=300)
    for row in result.needed.iter_rows(named=True):
        part = result.table.filter(pl.col("difference_points") == row["difference_points"]).sort("n_tasks")
        reached = [n for n, p in part.select("tasks_per_dimension", "power").iter_rows() if p >= 0.8]
        assert row["tasks_per_dimension"] == (min(reached) if reached else None)
    assert result.needed["tasks_per_dimension"].to_list()[0] is None
    assert result.needed["tasks_per_dimension"].to_list()[1] is not None


def test_the_same_seed_gives_the_same_numbers_whatever_the_order_of_the_runs() -> None:
    settings = {"differences": [10], "tasks_per_dimension": [20], "seeds": [3], "simulations": 100}
    first = power(STUDY, **settings)
    second = power(STUDY.sample(fraction=1, shuffle=True, seed=1), **settings)
    assert first.table.equals(second.table)
    assert not first.table.equals(power(STUDY, seed=1, **settings).table)


# -- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"differences": 5}, "differences is 5"),
        ({"differences": [-1]}, "holds -1"),
        ({"differences": [90]}, "90 points apart"),
        ({"tasks_per_dimension": [1]}, "tasks_per_dimension"),
        ({"seeds": [0]}, "seeds is"),
        ({"target": 80}, "target is 80"),
        ({"level_pct": 100}, "level_pct is 100"),
        ({"cell_sd": -1}, "cell_sd is -1"),
        ({"simulations": 3}, "simulations is 3"),
        ({"seed": -1}, "seed is -1"),
        ({"differences": None}, "differences is None"),
        ({"seeds": None}, "seeds is None"),
    ],
)
def test_arguments_out_of_range_are_named(arguments: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        power(STUDY, **{"level_pct": 70, "simulations": 20, **arguments})


def test_one_seed_does_not_say_how_much_seeds_agree() -> None:
    single = runs(6, 8, 1)
    with pytest.raises(TableError, match="cell_sd="):
        power(single, seeds=[3])
    small = {"differences": [10], "tasks_per_dimension": [10], "simulations": 20}
    assert power(single, seeds=[1], **small).table.height == 1
    assert power(single, seeds=[3], cell_sd=2.0, **small).table.height == 1


def test_one_row_is_too_few() -> None:
    with pytest.raises(TableError, match="fewer than two rows"):
        power(runs(1, 8, 3))


def test_the_printed_table_has_headings_in_words() -> None:
    result = power(runs(6, 12, 2), simulations=20, tasks_per_dimension=[10, 20], seeds=[1], differences=[5, 7.5])
    shown = result.sheet().cells
    assert shown.columns == ["Difference (points)", "Seeds", "10 tasks", "20 tasks"]
    assert shown["Difference (points)"].to_list() == ["5", "7.5"]
    assert shown["10 tasks"].to_list() == [f"{p:.2f}" for p in result.table["power"][::2]]
