"""Relay inference: worked by hand, with references missing, and in a study that was really played."""

from __future__ import annotations

import polars as pl
import pytest
from scipy import stats as scipy_stats

import cilab
from cilab.core.errors import TableError
from cilab.stats.maze.relay import RelayResult, relay
from tests.stats.maze_runs import frame, pair, rollouts


def relays(kind: str, k: int, outcomes, **columns) -> list[dict]:
    return rollouts("relay", "big", "small", outcomes, relay_kind=kind, relay_k=k, rounds=20, **columns)


WEAK, STRONG = [0.2, 0.4, 0.2, 0.4], [1.0, 0.9, 1.0, 0.9]
BY_HAND = [
    *pair("big", "big", STRONG),
    *pair("small", "small", WEAK),
    *pair("big", "small", [0.5] * 4),  # the primer's prefix: no reference
    *relays("primer", 2, [0.7, 0.6, 0.6, 0.9]),
    *relays("primer", 6, [0.8, 0.7, 0.7, 1.0]),
    *relays("recovery", 2, [0.6, 0.4, 0.5, 0.8]),
    *relays("recovery", 6, [0.2, 0.4, 0.3, 0.4]),
]


def point(result: RelayResult, kind: str, k: int) -> dict:
    return result.table.row(by_predicate=(pl.col("kind") == kind) & (pl.col("k") == k), named=True)


def contrast(result: RelayResult, what: str, k: int | None = None) -> dict:
    return result.contrasts.row(by_predicate=(pl.col("what") == what) & pl.col("k").eq_missing(pl.lit(k)), named=True)


def test_means_and_differences_to_the_weak_pair_are_paired_by_maze() -> None:
    row = point(relay(frame(BY_HAND)), "primer", 2)
    assert (row["mean"], row["n"], row["n_mazes"]) == (pytest.approx(0.7), 4, 4)
    test = scipy_stats.ttest_rel([0.7, 0.6, 0.6, 0.9], WEAK)
    ends = test.confidence_interval()
    assert (row["over_weak"], row["over_weak_p"]) == (pytest.approx(0.4), pytest.approx(test.pvalue))
    assert (row["over_weak_lo"], row["over_weak_hi"]) == (pytest.approx(ends.low), pytest.approx(ends.high))


def test_the_share_of_the_gap_closed_is_that_worked_by_hand_with_an_interval_around_it() -> None:
    result = relay(frame(BY_HAND))
    # The gap is 0.95 - 0.30; the primer at 2 reaches 0.70, the recovery at 6 reaches 0.325.
    assert point(result, "primer", 2)["closed"] == pytest.approx(0.40 / 0.65)
    assert point(result, "recovery", 6)["closed"] == pytest.approx(0.025 / 0.65)
    for row in result.table.iter_rows(named=True):
        assert row["closed_lo"] <= row["closed"] <= row["closed_hi"]
        assert row["reason"] is None


def test_both_homogeneous_pairs_stand_beside_as_bands() -> None:
    references = relay(frame(BY_HAND)).references
    assert references["reference"].to_list() == ["two copies of the strong agent", "two copies of the weak agent"]
    assert references["mean"].to_list() == [pytest.approx(0.95), pytest.approx(0.3)]
    assert (references["lo"] < references["mean"]).all()


def test_priming_is_compared_with_recovery_and_a_later_swap_with_an_earlier_one() -> None:
    result = relay(frame(BY_HAND))
    at_6 = contrast(result, "primer - recovery", 6)
    assert at_6["diff"] == pytest.approx(0.8 - 0.325)
    slope = contrast(result, "slope of recovery")
    assert slope["diff"] == pytest.approx((0.325 - 0.575) / 4)
    test = scipy_stats.ttest_1samp([(0.2 - 0.6) / 4, 0.0, (0.3 - 0.5) / 4, (0.4 - 0.8) / 4], 0)
    assert slope["p"] == pytest.approx(test.pvalue)
    # The primer rises by 0.1 in every maze: no spread, so neither p nor interval.
    rise = contrast(result, "slope of primer")
    assert (rise["diff"], rise["p"], rise["lo"]) == (pytest.approx(0.025), None, None)
    assert rise["reason"] == "no spread between the units"
    assert any("priming is better than recovery at" in s for s in result.statements)


def test_every_row_is_used_or_left_out_with_a_reason() -> None:
    rows = [*BY_HAND, *relays("primer", 4, [None, 0.5]), *rollouts("solo_full", "big", None, [1.0])]
    result = relay(frame(rows))
    assert result.n_used + sum(result.n_left_out.values()) == len(rows)
    assert result.n_left_out == {
        "of other settings or models than asked for": 1,
        "pairs that are no reference of a relay": 4,
        "refused": 1,
    }
    assert point(result, "primer", 4)["n_left_out"] == 1


def test_prefixes_that_ended_before_the_swap_are_counted() -> None:
    rows = [*BY_HAND, *relays("primer", 30, [0.5, 0.5])]
    assert point(relay(frame(rows)), "primer", 30)["n_ended_before_swap"] == 2
    assert point(relay(frame(rows)), "primer", 2)["n_ended_before_swap"] == 0


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([r for r in BY_HAND if r["partner_model"] != "big"], "gap closed: no pair of two strong agents"),
        (
            [r for r in BY_HAND if r["model"] != "small"],
            "over two weak: no maze in common; gap closed: no pair of two weak",
        ),
        ([*BY_HAND[4:], *pair("big", "big", [0.1] * 4)], "no better than the weak one"),
        ([*BY_HAND[4:], *pair("big", "big", STRONG, first_maze=9)], "no maze that the relay and both pairs have"),
        ([*BY_HAND[4:], *pair("big", "big", [1.0, -0.5, 1.0, 0.2])], "of the resamples: no interval"),
        ([*BY_HAND[4:], *pair("big", "big", [1.0])], "too few: 1 maze: no interval"),
    ],
)
def test_a_share_or_an_interval_that_does_not_exist_is_named(rows, reason: str) -> None:
    row = point(relay(frame(rows)), "primer", 2)
    assert reason in row["reason"]
    assert row["closed_lo"] is None and row["mean"] is not None


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (BY_HAND[:8], "no relay rollout of a maze"),
        ([*BY_HAND, *rollouts("relay", "big", "small", [1.0])], "1 relay rollouts without relay_k or relay_kind"),
    ],
)
def test_bad_input_is_refused(rows, words: str) -> None:
    with pytest.raises(TableError, match=words):
        relay(frame(rows))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"resamples": 1}, "resamples is 1: give a whole number of at least 20"),
        ({"seed": -1}, "seed is -1: give a whole number of at least 0"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_a_number_of_resamples_or_a_seed_that_gives_no_interval_is_refused(asked: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        relay(frame(BY_HAND), **asked)


def test_the_order_of_rows_does_not_matter_and_the_seed_decides_the_interval() -> None:
    one, other = relay(frame(BY_HAND)), relay(frame(BY_HAND[::-1]))
    assert one.table.equals(other.table) and one.contrasts.equals(other.contrasts)
    assert not relay(frame(BY_HAND), seed=5, resamples=50).table.equals(relay(frame(BY_HAND), resamples=50).table)


def test_a_played_study_gives_every_relay_point(tmp_path) -> None:
    text = """
name: relays
blocks:
  - benchmark: maze
    versions: [pair, relay]
    models: [sim/F1, sim/C3]
    relay: [{strong: sim/F1, weak: sim/C3, k: [2, 6]}]
    mazes: {count: 3}
"""
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    cilab.run_study(tmp_path / "s.yaml", out=tmp_path / "out", show_progress=False)
    study = cilab.open(tmp_path / "out")
    result = relay(study)
    assert result.table.select("kind", "k", "n").rows() == [
        (kind, k, 3) for kind in ("primer", "recovery") for k in (2, 6)
    ]
    assert result.n_used + sum(result.n_left_out.values()) == study.runs.collect().height
    means = (
        study.runs.filter(pl.col("version") == "relay")
        .group_by("relay_kind", "relay_k")
        .agg(pl.mean("weighted_outcome"))
    )
    for kind, k, mean in means.collect().iter_rows():
        assert point(result, kind, k)["mean"] == pytest.approx(mean)
    assert "SIMULATED AGENTS" in repr(result)
