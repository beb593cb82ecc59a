"""What counts as a pair of copies: the same for every maze statistic, and for tables that know less."""

from __future__ import annotations

import polars as pl
import pytest

from cilab.core.errors import TableError
from cilab.stats.maze.ablation import ablation
from cilab.stats.maze.gap import gap
from cilab.stats.maze.pairs import pairs
from cilab.stats.maze.relay import relay
from tests.stats.maze_runs import frame, pair, rollouts

#: One model alone and with itself at (high, high), (high, default), (default, high) and (default, default).
EFFORTS = [("high", "high", 0.8), ("high", None, 0.6), (None, "high", 0.4), (None, None, 0.2)]
RUNS = [
    *rollouts("solo_distributed", "m", None, [1.0, 0.9], effort="high"),
    *rollouts("solo_distributed", "m", None, [0.9, 0.8], effort=None),
    *(row for a, b, value in EFFORTS for row in pair("m", "m", [value] * 2, effort=a, partner_effort=b)),
]


def test_the_gap_takes_pairs_at_one_reasoning_setting_only() -> None:
    result = gap(frame(RUNS))
    means = {row["row"]: row["mean"] for row in result.table.filter(pl.col("setting") == "pair").iter_rows(named=True)}
    assert means == {"m · high": pytest.approx(0.8), "m · default effort": pytest.approx(0.2)}
    assert result.n_left_out == {"pairs of one model at two reasoning settings": 4}


def test_gap_and_pairs_say_the_same_of_copies() -> None:
    copies = pairs(frame(RUNS)).table.filter("homogeneous").select("starter", "n", "mean").sort("starter")
    cells = gap(frame(RUNS)).table.filter(pl.col("setting") == "pair").select("row", "n", "mean").sort("row")
    assert copies.rows() == cells.rows()
    assert pairs(frame(RUNS)).table.height == 4


def test_ablation_and_relay_take_the_same_copies() -> None:
    larger = [row | {"run_id": f"{row['run_id']}-8", "maze_size": 8} for row in RUNS]
    factors = ablation(frame([*RUNS, *larger])).table
    assert set(factors.filter(pl.col("setting") == "pair")["n"]) == {2}
    swaps = {"relay_k": 2, "relay_kind": "primer", "effort": "high", "partner_effort": None}
    references = relay(frame([*RUNS, *rollouts("relay", "m", "m", [0.5, 0.5], **swaps)])).references
    assert references["mean"].to_list() == [pytest.approx(0.8), pytest.approx(0.2)]


@pytest.mark.parametrize("drop", [("partner_effort",), ("partner_effort", "effort")])
def test_in_a_table_without_the_partners_setting_a_copy_has_that_of_its_model(drop) -> None:
    rows = [row for row in RUNS if row.get("effort") == row.get("partner_effort") or row["version"] != "pair"]
    bare = frame([row for row in rows if row["effort"] == "high"]).drop(*drop)
    assert gap(bare).cell("m", "pair")["mean"] == pytest.approx(0.8)
    assert pairs(bare).table.select("starter", "follower", "homogeneous").rows() == [("m", "m", True)]
    assert gap(bare.to_pandas()).cell("m", "pair")["n"] == 2


def test_there_another_partner_has_its_own_setting_where_it_stands_with_one_only() -> None:
    rows = [
        *pair("a", "b", [0.5, 0.6], effort="high"),
        *pair("b", "b", [0.4, 0.5], effort="low"),
        *pair("b", "c", [0.4, 0.5], effort="low"),
    ]
    found = pairs(frame(rows).drop("partner_effort")).table.select("starter", "follower")
    assert found.sort("starter", "follower").rows() == [
        ("a", "b"),
        ("b", "b"),
        ("b", "c"),
    ]


def test_a_null_in_the_runs_table_says_that_no_setting_was_asked_for() -> None:
    with pytest.raises(TableError, match="2 pairs of one model at two reasoning settings"):
        gap(frame(pair("m", "m", [0.5, 0.6], effort="high")))


TEAM = frame(
    [
        *rollouts("solo_full", "m", "m", [1.0, 0.9]),
        *rollouts("solo_distributed", "m", "m", [0.9, 0.8]),
        *pair("m", "m", [0.8, 0.6]),
        *pair("n", "n", [0.3, 0.4]),
        *pair("m", "n", [0.5, 0.6]),
        *pair("m", "m", [0.4, 0.5], maze_size=8),
        *rollouts("relay", "m", "n", [0.5, 0.7], relay_kind="primer", relay_k=2),
        *rollouts("relay", "m", "n", [0.6, 0.7], relay_kind="primer", relay_k=4),
        *rollouts("relay", "m", "n", [0.6, 0.7], relay_kind="recovery", relay_k=2),
    ]
)


@pytest.mark.parametrize("statistic", [gap, pairs, relay, ablation])
def test_a_second_rollout_of_a_cell_is_refused_whatever_its_run_id(statistic) -> None:
    statistic(TEAM)
    of_team = pl.col("version") == ("relay" if statistic is relay else "pair")
    twin = TEAM.filter(of_team & (pl.col("maze_size") == 6)).head(1).with_columns(run_id=pl.lit("other study"))
    with pytest.raises(TableError, match=r"m.*, maze m0, (pair|relay), seed 0 has 2 scored runs \(.*; keep one study"):
        statistic(pl.concat([TEAM, twin]))
    failed = twin.with_columns(status=pl.lit("error"), weighted_outcome=pl.lit(None, pl.Float64))
    assert statistic(pl.concat([TEAM, failed])).n_used == statistic(TEAM).n_used


@pytest.mark.parametrize("change", [{"seed": 1}, {"effort": "high", "partner_effort": "high"}, {"arm": "told"}])
def test_another_seed_effort_or_arm_is_another_rollout(change: dict) -> None:
    other = TEAM.filter((pl.col("version") == "pair") & (pl.col("maze_size") == 6)).with_columns(
        **{name: pl.lit(value) for name, value in change.items()}, run_id=pl.col("run_id") + "x"
    )
    both = pl.concat([TEAM, other.cast(TEAM.schema)])
    assert pairs(both).table["mean"].null_count() == 0


def test_one_run_id_with_two_scores_is_refused() -> None:
    changed = TEAM.head(1).with_columns(weighted_outcome=0.1)
    with pytest.raises(TableError, match="1 run ids stand here with two different scores"):
        gap(pl.concat([TEAM, changed]))
