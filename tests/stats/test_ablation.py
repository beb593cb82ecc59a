"""Size and density ablations, and distilled models against base models: worked by hand, with what is missing named."""

from __future__ import annotations

import polars as pl
import pytest
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.stats.maze.ablation import ablation, distilled
from cilab.stats.maze.gap import gap
from tests.stats.maze_runs import frame, guarded, pair, rollouts

SIZES = [
    *rollouts("solo_full", "m", None, [1.0, 1.0, 1.0], maze_size=4),
    *rollouts("solo_full", "m", None, [0.9, 1.0, 0.8]),
    *rollouts("solo_full", "m", None, [0.2, 0.1, 0.3], maze_size=8),
    *pair("m", "m", [0.5, 0.7]),
    *pair("m", "m", [0.5, None], maze_size=8),
    *pair("m", "n", [0.1, 0.1]),
    *rollouts("solo_full", "m", None, [0.4], wall_density=0.6),
]


def cell(table: pl.DataFrame, **where) -> dict:
    return table.row(by_predicate=pl.all_horizontal(pl.col(k) == v for k, v in where.items()), named=True)


def test_means_by_size_are_those_worked_by_hand() -> None:
    result = ablation(frame(SIZES))
    assert result.base == 6
    row = cell(result.table, setting="solo_full", level=8.0)
    assert (row["mean"], row["n"]) == (pytest.approx(0.2), 3)
    assert (row["lo"], row["hi"]) == pytest.approx(guarded([0.2, 0.1, 0.3]))
    assert row["n_clusters"] == 3
    # Mazes of two sizes are never the same maze, though both are called m0, m1, m2 here: Welch's t.
    welch = scipy_stats.ttest_ind([0.9, 1.0, 0.8], [0.2, 0.1, 0.3], equal_var=False).confidence_interval()
    assert (row["drop_lo"], row["drop_hi"]) == (pytest.approx(welch.low), pytest.approx(welch.high))
    assert row["drop"] == pytest.approx(0.7) and row["drop_reported"] is True
    assert cell(result.table, setting="solo_full", level=6.0)["drop"] is None
    assert "*" in result.sheet().cells.row(0)[-1]


def test_a_drop_is_reported_only_where_its_interval_lies_above_zero() -> None:
    result = ablation(frame(SIZES))
    easier = cell(result.table, setting="solo_full", level=4.0)
    assert easier["drop"] == pytest.approx(-0.1) and easier["drop_reported"] is False
    single = cell(result.table, setting="pair", level=8.0)
    assert (single["n"], single["n_left_out"], single["lo"], single["drop_reported"]) == (1, 1, None, None)
    assert (single["no_interval"], single["drop_no_interval"]) == ("too few: 1 maze", "too few: 1 maze")
    assert "No interval of 1 drop: too few: 1 maze." in result.notes()


def test_every_row_is_used_or_left_out_with_a_reason() -> None:
    result = ablation(frame(SIZES))
    assert result.n_used + sum(result.n_left_out.values()) == len(SIZES)
    assert result.n_left_out["pairs of two different models"] == 2
    assert result.n_left_out["in other mazes than mazes with wall density 0.30"] == 1
    assert result.n_left_out["refused"] == 1


def test_density_varies_at_one_size() -> None:
    result = ablation(frame(SIZES), "wall_density")
    assert sorted(result.table["level"].unique()) == [0.3, 0.6]
    assert result.parameters["maze_size"] == 6
    assert ablation(frame(SIZES), "wall_density", wall_density=0.6).base == 0.6


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ablation(frame(SIZES), "size"), "not one of maze_size, wall_density"),
        (lambda: ablation(frame(SIZES), maze_size=5), "no rollouts with maze_size 5; these runs hold 4, 6, 8"),
        (lambda: ablation(frame(SIZES[:3])), "maze_size has 4 only; an ablation needs two levels"),
        (lambda: ablation(frame(pair("a", "b", [1.0]))), "maze_size has no value only"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def model(name: str, alone: list[float], together: list[float]) -> list[dict]:
    return [*rollouts("solo_distributed", name, None, alone), *pair(name, name, together)]


DISTILLED = [
    *model("large", [0.9, 1.0, 0.95], [0.9, 0.8, 0.85]),  # gap 0.10
    *model("large2", [0.9, 0.9, 0.9], [0.8, 0.6, 0.7]),  # 0.20
    *model("small", [0.8, 0.8, 0.8], [0.3, 0.4, 0.2]),  # 0.50
    *model("small2", [0.6, 0.8, 0.7], [0.3, 0.3, 0.3]),  # 0.40
]
FLAGS = {"large": False, "large2": False, "small": True, "small2": True}


def test_distilled_models_are_compared_with_base_models_and_with_their_own_base() -> None:
    result = distilled(frame(DISTILLED), flags=FLAGS, bases={"small": "large", "absent": "large"})
    groups = {r["group"]: r for r in result.groups.iter_rows(named=True)}
    assert (groups["distilled"]["gap"], groups["base"]["gap"]) == (pytest.approx(0.45), pytest.approx(0.15))
    theirs = scipy_stats.ttest_ind([0.5, 0.4], [0.1, 0.2], equal_var=False)
    assert groups["difference"]["p"] == pytest.approx(theirs.pvalue)
    assert groups["difference"]["lo"] == pytest.approx(theirs.confidence_interval().low)
    (row,) = result.pairs.iter_rows(named=True)
    assert (row["distilled"], row["base"], row["diff"]) == ("small", "large", pytest.approx(0.4))
    # Paired by maze: gaps of 0.5, 0.4, 0.6 less gaps of 0.0, 0.2, 0.1.
    ends = scipy_stats.ttest_rel([0.5, 0.4, 0.6], [0.0, 0.2, 0.1]).confidence_interval()
    assert (row["lo"], row["hi"]) == (pytest.approx(ends.low), pytest.approx(ends.high))
    assert result.gaps.gaps.equals(gap(frame(DISTILLED)).gaps)


def test_models_of_unknown_origin_are_counted_and_left_out_of_the_groups() -> None:
    result = distilled(frame(DISTILLED), flags={"large": False})
    row = cell(result.groups, group="origin unknown")
    assert (row["n_models"], row["reason"]) == (3, "left out: give flags={model: True}")
    assert cell(result.groups, group="difference")["reason"] == "one of the groups is empty"
    assert result.pairs.is_empty()


def test_real_names_take_their_origin_from_the_registry() -> None:
    rows = [*model("gpt-5", [1.0, 1.0], [1.0, 0.9]), *model("gpt-5-nano", [0.9, 1.0], [0.4, 0.3])]
    result = distilled(frame(rows))
    assert dict(result.table.select("model", "distilled").rows()) == {"gpt-5": False, "gpt-5-nano": True}
    assert result.pairs["diff"].item() == pytest.approx(0.6 - 0.05)
