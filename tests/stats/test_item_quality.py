"""Item quality: each thing that is wrong with a task or a row is found, and what cannot be known is null with why."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import cilab
from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods import two_parameter as irt
from cilab.stats.methods.two_parameter import expit
from cilab.stats.teamwork.item_quality import ItemQualityResult, item_quality
from tests.stats.test_items import runs


def world(seed: int = 0, rows: int = 24, tasks: int = 20, slope: float = 1.5) -> np.ndarray:
    """Chance of a pass, shape (rows, tasks); difficulties are evenly spread."""
    ability = np.random.default_rng([seed, 1]).normal(size=rows)
    return expit(slope * (ability[:, None] - np.linspace(-1.5, 1.5, tasks)))


def coins(p: np.ndarray, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, 2]).random(p.shape) < p).astype(float)


def line(table: pl.DataFrame, task: str) -> dict:
    return table.filter(pl.col("task_id") == task).row(0, named=True)


def test_the_estimates_are_the_methods_of_each_dimension() -> None:
    values = coins(world())
    found = item_quality(runs(values, ["d"] * 12 + ["e"] * 8), simulations=20)
    for name, at in (("d", slice(0, 12)), ("e", slice(12, 20))):
        own = found.table.filter(pl.col("dimension") == name)
        model = irt.fit_two_parameter(values[:, at], np.ones_like(values[:, at]))
        there = own["difficulty"].is_not_null().to_numpy()
        np.testing.assert_allclose(own["difficulty"].drop_nulls(), model.difficulty[there])
        np.testing.assert_allclose(own["discrimination"].drop_nulls(), model.slope[there])
        np.testing.assert_allclose(own["discrimination_se"].drop_nulls(), model.slope_se[there])
        ability = found.abilities.filter(pl.col("dimension") == name)["ability"]
        # Rows stand by name: m10 before m2.
        np.testing.assert_allclose(ability, model.ability[sorted(range(24), key=str)], atol=1e-6)
        # Information of all tasks at 0 is the sum of theirs.
        curve = found.information.filter((pl.col("dimension") == name) & (pl.col("ability").abs() < 1e-9))
        assert curve["information"].item() == pytest.approx(model.information(np.zeros(1)).sum())
        assert curve["se"].item() == pytest.approx(curve["information"].item() ** -0.5)
    rest = cilab.items(runs(values, ["d"] * 12 + ["e"] * 8)).table["item_rest_r"]
    assert found.table["item_rest_r"].to_list() == rest.to_list()
    total = found.information.filter(pl.col("dimension").is_null())["information"].to_numpy()
    parts = (
        found.information.filter(pl.col("dimension").is_not_null()).group_by("ability").agg(pl.col("information").sum())
    )
    np.testing.assert_allclose(total, parts.sort("ability")["information"])


def test_a_task_that_better_rows_fail_is_named() -> None:
    p = world()
    values = coins(p)
    values[:, 10] = 1 - (p[:, 10] > 0.5)
    found = line(item_quality(runs(values), simulations=50).table, "t010")
    assert "better rows pass it less" in found["flags"] and "tells rows apart less" in found["flags"]
    assert found["discrimination"] < 0.7 and found["item_rest_r"] < 0


def test_a_task_of_chance_does_not_fit_the_model_of_one_slope_but_shows_as_flat_here() -> None:
    discriminations = []
    for seed in range(4):
        values = coins(world(seed, rows=60), seed)
        values[:, 10] = np.random.default_rng([seed, 3]).integers(0, 2, 60)
        found = item_quality(runs(values), simulations=20).table
        discriminations.append(line(found, "t010")["discrimination"] / found["discrimination"].median())
    assert np.median(discriminations) < 0.6


def test_surprises_far_off_do_not_fit() -> None:
    p = world(rows=60)
    values = coins(p)
    # An easy task that a few of the best rows fail, all others pass.
    best = np.argsort(p[:, 0])[-4:]
    values[:, 2], values[best, 2] = 1.0, 0.0
    values[np.argsort(p[:, 0])[:8], 2] = 0.0
    found = item_quality(runs(values), simulations=200).table
    odd = line(found, "t002")
    assert odd["outfit"] == max(found["outfit"].drop_nulls()) and odd["outfit_t"] > 2


def test_two_tasks_that_are_one_are_local_dependence() -> None:
    values = coins(world())
    values[:, 11] = values[:, 10]
    found = item_quality(runs(values), simulations=100)
    (pair,) = found.pairs.filter("dependent").iter_rows(named=True)
    assert (pair["task_a"], pair["task_b"]) == ("t010", "t011") and pair["q3"] > 0.9
    assert pair["q3_adjusted"] == pytest.approx(pair["q3"] - found.dimensions["mean_q3"][0])
    assert (
        line(found.table, "t010")["most_dependent_on"] == "t011"
        and "goes with t010" in line(found.table, "t011")["flags"]
    )


def grouped(seed: int = 0, n: int = 20) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """3 n rows; for the group's n, task 8 is 2.5 logits harder than for others of the same ability."""
    p = world(seed, rows=3 * n)
    eta = np.log(p / (1 - p))
    eta[:n, 8] -= 2.5
    return runs(coins(expit(eta), seed)), {"ours": [f"m{r}" for r in range(n)]}


@pytest.mark.parametrize(("method", "n"), [("logistic", 20), ("mantel_haenszel", 50)])
def test_a_task_that_is_harder_for_a_group_is_found_with_its_size(method: str, n: int) -> None:
    frame, groups = grouped(n=n)
    found = item_quality(frame, groups=groups, method=method, simulations=20)
    first = found.functioning.sort("p", nulls_last=True).row(0, named=True)
    assert first["task_id"] == "t008" and first["ets_class"] == "C" and first["flagged"]
    assert first["ets_delta"] == pytest.approx(-2.35 * first["log_odds_ratio"])
    assert first["log_odds_ratio"] == pytest.approx(-2.5, abs=1.96 * first["se"])
    assert (first["n_in_group"], first["n_others"]) == (n, 2 * n)
    assert found.functioning["flagged"].sum() == 1
    assert "harder for ours" in line(found.table, "t008")["flags"]


def test_providers_come_from_the_models_table_and_small_ones_are_said() -> None:
    frame, _ = grouped()
    models = pl.DataFrame({"model": [f"m{r}" for r in range(60)], "family": ["p"] * 30 + ["q"] * 28 + ["tiny"] * 2})
    data = SimpleNamespace(runs=frame.lazy(), models=models.lazy())
    found = item_quality(data, simulations=20)
    assert found.functioning["group"].unique().sort().to_list() == ["p", "q", "tiny"]
    tiny = found.functioning.filter(pl.col("group") == "tiny")
    assert tiny["no_estimate"].unique().to_list() == ["too few: 2 rows of the group"] and tiny["p"].null_count() == 20
    # Nobody is known: no test, and a sentence.
    alone = item_quality(frame, simulations=20)
    assert alone.functioning.height == 0 and any("no provider or group" in note for note in alone.notes())
    with pytest.raises(TableError, match="no model 'm99'"):
        item_quality(frame, groups={"ours": ["m99"]}, simulations=20)


def test_a_row_that_passes_by_chance_is_odd() -> None:
    values = coins(world(rows=30, tasks=60, slope=2.5))
    values[7] = np.random.default_rng(5).permutation(values[7])
    found = item_quality(runs(values), simulations=20).rows
    (odd,) = found.filter("odd").iter_rows(named=True)
    assert odd["model"] == "m7" and odd["lz"] < -3 and odd["p"] < 0.001 and odd["n_tasks"] == 60


def test_seeds_that_agree_count_as_fewer_runs() -> None:
    values = coins(world())
    frame = runs(values)
    thrice = pl.concat([frame.with_columns(seed=pl.lit(s)) for s in range(3)])
    found = item_quality(thrice, simulations=20)
    # Every repeat is the same: three runs say what one says.
    assert found.value("repeat_correlation") == 1.0
    assert any("3 of them count as 1.00 runs" in note for note in found.notes())
    once = item_quality(frame.with_columns(seed=pl.lit(0)), simulations=20)
    assert once.value("repeat_correlation") is None
    np.testing.assert_allclose(found.table["difficulty_se"].drop_nulls(), once.table["difficulty_se"].drop_nulls())
    assert found.table["n_runs"][0] == 3 * once.table["n_runs"][0]


def test_graded_scores_enter_as_parts_of_a_pass() -> None:
    values = coins(world())
    values[:, 5] = np.where(values[:, 4] == 1, 0.5, values[:, 5])
    found = item_quality(runs(values), simulations=20)
    model = irt.fit_two_parameter(values, np.ones_like(values))
    assert line(found.table, "t005")["difficulty"] == pytest.approx(model.difficulty[5])


# -- few data, odd data -----------------------------------------------------------------------------------


def test_of_three_rows_only_difficulties_are_given_with_the_reason() -> None:
    values = np.array([[1.0, 1, 1, 0, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 1]])
    found = item_quality(runs(values), simulations=20)
    assert found.table["no_estimate"].to_list() == [
        "every row passes",
        "too few: 3 rows",
        "too few: 3 rows",
        "every row fails",
        "too few: 3 rows",
    ]
    assert found.table["difficulty"].is_not_null().to_list() == [False, True, True, False, True]
    assert found.table["discrimination"].null_count() == 5 and found.table["infit"].null_count() == 5
    assert found.dimensions.row(0, named=True)["parameters"] == 1
    assert (found.table["difficulty_se"].drop_nulls() > 0.3).all()
    assert found.pairs.height == 0 and found.rows["no_estimate"].unique().to_list() == ["too few: 3 rows"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.ones((6, 5)), "every row passes every task"),
        (np.zeros((6, 5)), "every row fails every task"),
        (np.array([[1.0, 0, 1, 1, 0]]), "too few: 1 row"),
        (np.array([[1.0, 0], [0, 1], [1, 1], [0, 0], [1, 0]]), "too few: 2 tasks"),
        (np.array([[1.0], [0], [1], [1], [0]]), "too few: 1 task"),
    ],
)
def test_what_cannot_be_estimated_is_null_with_its_reason(values: np.ndarray, reason: str) -> None:
    found = item_quality(runs(values), simulations=20)
    assert set(found.table["no_estimate"]) == {reason}
    assert found.dimensions["no_estimate"].to_list() == [reason]
    for name in ("difficulty", "discrimination", "infit", "outfit", "information"):
        assert found.table[name].null_count() == values.shape[1]
    assert found.information.height == 0 and found.rows["lz"].null_count() == len(values)
    assert reason in repr(found).replace("\n", " ") or len(reason) > 20


def test_constant_rows_have_a_finite_ability_and_no_row_is_odd() -> None:
    values = np.vstack([np.ones((3, 8)), np.zeros((3, 8)), coins(world(rows=4, tasks=8))])
    found = item_quality(runs(values), simulations=50)
    assert found.abilities["ability"].is_finite().all() and (found.abilities["ability_se"] > 0.05).all()
    assert found.rows["odd"].sum() == 0
    assert found.table["discrimination"].is_finite().all()


def test_published_rounds_and_wrong_arguments_are_refused_in_one_line() -> None:
    with pytest.raises(TableError, match="item_quality pairs rows by task"):
        item_quality(datasets.published_round())
    with pytest.raises(TableError, match="method"):
        item_quality(runs(np.eye(6)), method="lord")
    with pytest.raises(TableError, match="no quantity 'x'"):
        item_quality(runs(np.eye(6)), simulations=20).value("x")


def test_the_whole_is_repeated_from_its_record() -> None:
    frame, groups = grouped()
    found = item_quality(frame, groups=groups, simulations=20, seed=3)
    again = cilab.rerun(found, frame)
    assert isinstance(again, ItemQualityResult) and again.table.equals(found.table) and again.pairs.equals(found.pairs)
    assert not item_quality(frame, groups=groups, simulations=20, seed=4).pairs["p"].equals(found.pairs["p"])


def test_a_regular_study_has_few_flags_beside_ceiling_and_floor() -> None:
    flags = []
    for seed in range(4):
        found = item_quality(runs(coins(world(seed), seed)), groups={"a": [f"m{r}" for r in range(8)]}, simulations=100)
        flags.append((found.value("dependent_pairs"), found.value("tasks_that_do_not_fit"), found.value("odd_rows")))
        assert found.value("tasks_that_function_differently") <= 1
    assert np.sum(flags) <= 2
