"""Ordered pairs: worked by hand, the paper's printed tables, what cannot be computed, and what must not matter."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from cilab.core.errors import TableError
from cilab.datasets import published_table
from cilab.stats.maze.pairs import PairsResult, pairs, pairs_from_means
from tests.stats.maze_runs import frame, guarded, pair

FAMILIES = {"strong": "one", "weak": "one", "other": "two"}
BY_HAND = [
    *pair("strong", "strong", [0.9, 0.9, 0.95, 0.85]),  # 0.9
    *pair("weak", "weak", [0.2, 0.4, 0.2, 0.4]),  # 0.3
    *pair("other", "other", [0.5, 0.5, 0.7, 0.7]),  # 0.6
    *pair("strong", "weak", [0.9, 0.7, 0.8, 0.8]),  # 0.8
    *pair("weak", "strong", [0.5, 0.4, 0.6, 0.5]),  # 0.5
    *pair("other", "weak", [0.0, 0.1, 0.0, 0.1]),  # 0.05, below the weaker
    *pair("strong", "other", [1.0, 1.0, 1.0, 1.0]),  # above the stronger
    *pair("other", "strong", [0.9, None, 0.9, 0.6]),  # one refused
]


def swap(result: PairsResult, stronger: str, weaker: str) -> dict:
    """The line of the ordering effect of two agents."""
    return result.ordering.row(by_predicate=(pl.col("stronger") == stronger) & (pl.col("weaker") == weaker), named=True)


def test_the_matrix_holds_starters_in_rows_in_order_of_their_own_level() -> None:
    result = pairs(frame(BY_HAND), families=FAMILIES)
    assert result.agents == ["strong", "other", "weak"]
    matrix = result.matrix()
    assert matrix.columns == ["starter", "strong", "other", "weak"]
    assert matrix.row(0)[1:] == (pytest.approx(0.9), 1.0, pytest.approx(0.8))
    assert matrix.row(2)[1:] == (pytest.approx(0.5), None, pytest.approx(0.3))
    assert result.sheet().cells.row(0)[3].startswith("0.80 ± 0.29")


def test_means_and_intervals_are_those_worked_by_hand() -> None:
    row = (
        pairs(frame(BY_HAND))
        .table.filter(pl.col("starter") == "strong", pl.col("follower") == "weak")
        .row(0, named=True)
    )
    se = math.sqrt(0.02 / 3 / 4)  # deviations 0.1, -0.1, 0, 0
    assert (row["mean"], row["se"]) == (pytest.approx(0.8), pytest.approx(se))
    assert (row["lo"], row["hi"]) == pytest.approx(guarded([0.9, 0.7, 0.8, 0.8]))
    many = pairs(frame(pair("a", "b", [0.9, 0.7, 0.8, 0.8] * 3))).table.row(0, named=True)
    half = 2.200985160 * math.sqrt(0.06 / 11 / 12)  # t with 11 degrees of freedom: twelve mazes
    assert (many["lo"], many["hi"]) == (pytest.approx(0.8 - half), pytest.approx(0.8 + half))
    plain = pairs(frame(BY_HAND), cluster="rollout").table.filter(starter="strong", follower="weak").row(0, named=True)
    assert (plain["lo"], plain["hi"]) == (pytest.approx(0.8 - 1.959964 * se), pytest.approx(0.8 + 1.959964 * se))


def test_a_refused_rollout_is_left_out_and_counted_and_never_zero() -> None:
    result = pairs(frame(BY_HAND))
    row = result.table.filter(pl.col("starter") == "other", pl.col("follower") == "strong").row(0, named=True)
    assert (row["n"], row["n_left_out"], row["mean"]) == (3, 1, pytest.approx(0.8))
    assert result.n_left_out == {"refused": 1}
    assert result.n_used + 1 == len(BY_HAND)


def test_the_ordering_effect_is_paired_by_maze() -> None:
    ordering = pairs(frame(BY_HAND)).ordering
    row = (
        ordering.row(by_predicate=pl.col("weaker") == "weak", named=True)
        if False
        else next(r for r in ordering.iter_rows(named=True) if (r["stronger"], r["weaker"]) == ("strong", "weak"))
    )
    test = scipy_stats.ttest_rel([0.9, 0.7, 0.8, 0.8], [0.5, 0.4, 0.6, 0.5])
    assert (row["diff"], row["paired_diff"], row["n_mazes"]) == (pytest.approx(0.3), pytest.approx(0.3), 4)
    assert row["paired_p"] == pytest.approx(test.pvalue)
    ends = test.confidence_interval()
    assert (row["paired_lo"], row["paired_hi"]) == (pytest.approx(ends.low), pytest.approx(ends.high))
    # Every maze was played in both orders: over all mazes the interval is the same.
    assert (row["lo"], row["hi"], row["n_clusters"]) == (pytest.approx(ends.low), pytest.approx(ends.high), 4)
    # By the paper, the interval comes from both standard errors.
    plain = swap(pairs(frame(BY_HAND), cluster="rollout"), "strong", "weak")
    half = 1.959964 * math.hypot(math.sqrt(0.02 / 3 / 4), math.sqrt(0.02 / 3 / 4))
    assert (plain["lo"], plain["hi"]) == (pytest.approx(0.3 - half), pytest.approx(0.3 + half))


def test_p_values_of_the_ordering_are_corrected_over_the_pairs_that_have_one() -> None:
    ordering = pairs(frame(BY_HAND)).ordering
    there = ordering.filter(pl.col("paired_p").is_not_null()).sort("paired_p")
    assert there.height == 2
    low, high = there["paired_p"]
    assert there["paired_p_adjusted"].to_list() == [pytest.approx(min(2 * low, high)), pytest.approx(high)]


def test_only_mazes_played_in_both_orders_are_paired() -> None:
    rows = [*pair("a", "b", [1.0, 0.5, 0.6]), *pair("b", "a", [0.2, 0.1], first_maze=1)]
    row = pairs(frame(rows)).ordering.row(0, named=True)
    assert (row["n_mazes"], row["paired_diff"]) == (2, pytest.approx((0.5 - 0.2 + 0.6 - 0.1) / 2))
    apart = pairs(frame([*pair("a", "b", [1.0]), *pair("b", "a", [0.2], first_maze=5)])).ordering.row(0, named=True)
    assert (apart["n_mazes"], apart["paired_p"]) == (0, None)
    assert apart["reason"].startswith("no maze in common")


def test_a_pair_seen_in_one_order_only_has_no_ordering_effect_and_says_so() -> None:
    result = pairs(frame(BY_HAND))
    row = swap(result, "other", "weak")
    assert (row["diff"], row["paired_p"], row["weaker_starts"]) == (None, None, None)
    assert row["reason"] == "seen in one order only: other starts"
    assert any("1 pairs were seen in one order only" in s for s in result.statements)


def test_bounds_are_computed_against_both_agents_own_levels() -> None:
    result = pairs(frame(BY_HAND), families=FAMILIES)
    bounds = {(r["starter"], r["follower"]): r for r in result.bounds.iter_rows(named=True)}
    assert {key: row["verdict"] for key, row in bounds.items()} == {
        ("strong", "weak"): "between",
        ("weak", "strong"): "between",
        ("strong", "other"): "above the stronger",
        ("other", "strong"): "between",
        ("other", "weak"): "below the weaker",
    }
    row = bounds["weak", "strong"]
    assert (row["over_stronger"], row["over_weaker"], row["over_midpoint"]) == (
        pytest.approx(-0.4),
        pytest.approx(0.2),
        pytest.approx(-0.1),
    )
    assert "4 of 5 ordered pairs reach at most" in result.statements[0]
    assert "4 of 5 reach at least" in result.statements[1]


def test_families_are_compared_relative_to_the_middle_of_both_levels() -> None:
    result = pairs(frame(BY_HAND), families=FAMILIES)
    groups = {r["group"]: r for r in result.families.iter_rows(named=True)}
    assert groups["same family"]["over_midpoint"] == pytest.approx((0.2 - 0.1) / 2)
    # strong-other 1.0 - 0.75, other-strong 0.8 - 0.75, other-weak 0.05 - 0.45.
    assert groups["different families"]["over_midpoint"] == pytest.approx((0.25 + 0.05 - 0.4) / 3)
    theirs = scipy_stats.ttest_ind([0.2, -0.1], [0.25, 0.05, -0.4], equal_var=False)
    assert groups["difference"]["p"] == pytest.approx(theirs.pvalue)
    affinity = {r["model"]: r for r in result.affinity.iter_rows(named=True)}
    assert (affinity["other"]["n_own"], affinity["other"]["n_other"]) == (0, 3)
    assert affinity["strong"]["diff"] == pytest.approx(0.05 - 0.15)


def test_an_unknown_family_is_left_out_of_the_families_and_counted() -> None:
    unknown = pairs(frame(BY_HAND), families={"strong": "one", "weak": "one"}).families
    row = unknown.row(by_predicate=pl.col("group") == "family unknown", named=True)
    assert (row["n_pairs"], row["reason"]) == (3, "left out: give families={model: family}")


def test_one_model_with_two_efforts_is_two_agents() -> None:
    rows = [
        *pair("a", "a", [0.5, 0.6], effort="high", partner_effort="high"),
        *pair("a", "b", [0.1, 0.2], effort="low"),
    ]
    result = pairs(frame(rows))
    assert result.agents == ["a · high", "a · low", "b"]


def test_treated_rollouts_are_left_out_unless_asked_for() -> None:
    rows = [*pair("a", "a", [0.5, 0.6]), *pair("a", "a", [0.9, 1.0], arm="coached")]
    assert pairs(frame(rows)).table["mean"].to_list() == [pytest.approx(0.55)]
    assert pairs(frame(rows), arm="coached").table["mean"].to_list() == [pytest.approx(0.95)]
    assert pairs(frame(rows)).n_left_out == {"of another arm": 2}


def test_success_is_the_other_table() -> None:
    table = pairs(frame(BY_HAND), outcome="success").table
    assert table.filter(pl.col("starter") == "strong")["mean"].to_list() == [1.0, 0.0, 0.0]  # other, strong, weak


# -- printed means ----------------------------------------------------------------------------------------


def test_the_papers_table_4_gives_its_cells_back() -> None:
    result = pairs_from_means(published_table("maze_pairs"))
    cells = {(r["starter"], r["follower"]): r for r in result.table.iter_rows(named=True)}
    assert len(cells) == 84 and result.n_used == 84
    assert cells["o3", "gpt-4.1-mini"]["mean"] == 0.77
    assert cells["o3", "gpt-4.1-mini"]["hi"] == pytest.approx(0.80)
    assert cells["gpt-4.1-mini", "o3"]["same_family"] is True


def test_cells_printed_with_two_values_are_reported_and_not_smoothed() -> None:
    result = pairs_from_means(published_table("maze_pairs"))
    assert result.conflicts.select("starter", "follower").unique().height == 2
    assert set(result.conflicts["mean"]) == {0.63, 0.68, 0.56}
    assert result.n_left_out == {
        "printed again with the same numbers": 14,
        "printed again with other numbers": 2,
    }
    assert any(
        "gemini-2.5-flash with gpt-4.1 is printed with 0.63 ± 0.09 and 0.68 ± 0.06" in s for s in result.statements
    )


def test_the_papers_sentence_on_o3_and_its_bounds_follow_from_its_table() -> None:
    result = pairs_from_means(published_table("maze_pairs"))
    row = next(
        r for r in result.ordering.iter_rows(named=True) if (r["stronger"], r["weaker"]) == ("o3", "gpt-4.1-mini")
    )
    assert row["diff"] == pytest.approx(0.15) and row["lo"] > 0  # section 4.2.1: 0.77 against 0.62
    assert (row["paired_p"], row["reason"]) == (None, "no rollouts: cannot be paired by maze")
    # Section 4.2.2: the stronger generally bounds from above, the weaker not always from below.
    above, below = (
        result.bounds.filter(pl.col("verdict") == v).height for v in ("above the stronger", "below the weaker")
    )
    assert above < below
    lite = result.bounds.filter(pl.col("starter") == "gpt-4.1-mini", pl.col("follower") == "gemini-2.5-flash-lite")
    assert lite["over_weaker"].item() < 0


def test_rollouts_and_their_printed_means_give_the_same_bounds() -> None:
    from_rollouts = pairs(frame(BY_HAND), families=FAMILIES, cluster="rollout")
    printed = from_rollouts.table.with_columns(half=(pl.col("hi") - pl.col("mean")).fill_null(0.0))
    from_means = pairs_from_means(printed, mean="mean", half_width="half", families=FAMILIES)
    left, right = from_rollouts.bounds, from_means.bounds
    assert left["verdict"].to_list() == right["verdict"].to_list()
    assert left["over_midpoint"].to_list() == pytest.approx(right["over_midpoint"].to_list())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pairs(frame(pair("a", "a", [1.2]))), "weighted_outcome is 1.2, above 1"),
        (lambda: pairs(frame(pair("a", "a", [None]))), "no scored rollout of a pair"),
        (lambda: pairs(frame(BY_HAND).with_columns(version=pl.lit("solo_full"))), "these runs hold solo_full"),
        (lambda: pairs(frame(BY_HAND), models=["stong"]), "Did you mean strong"),
        (lambda: pairs(frame(BY_HAND), models="strong"), "models is a text"),
        (lambda: pairs(frame(BY_HAND), maze_size=8), "no rollouts with maze_size 8; these runs hold 6"),
        (lambda: pairs(frame(BY_HAND), outcome="score"), "not one of weighted_outcome, success"),
        (lambda: pairs(frame(BY_HAND).drop("partner_model")), "missing column partner_model"),
        (lambda: pairs(frame(BY_HAND)).matrix("median"), "no column 'median'"),
        (lambda: pairs_from_means([1]), "must be a polars or pandas DataFrame"),
        (lambda: pairs_from_means(pl.DataFrame({"starter": ["a"], "folower": ["a"]})), "missing column follower"),
        (
            lambda: pairs_from_means(
                pl.DataFrame({"starter": ["a"], "follower": ["a"], "weighted_mean": [84.0], "weighted_ci95": [6.0]})
            ),
            "divide percentages by 100",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_and_names_only_rename(random) -> None:
    shuffled = frame(random.sample(BY_HAND, len(BY_HAND)))
    one, other = pairs(frame(BY_HAND), families=FAMILIES), pairs(shuffled, families=FAMILIES)
    for name in ("table", "ordering", "bounds", "families", "affinity"):
        assert getattr(one, name).equals(getattr(other, name), null_equal=True)
    assert one.provenance.data_hash == other.provenance.data_hash
    names = {"strong": "x1", "weak": "x2", "other": "x3"}
    renamed = shuffled.with_columns(pl.col("model", "partner_model").replace(names))
    there = pairs(renamed, families={names[k]: v for k, v in FAMILIES.items()})
    assert sorted(there.bounds["over_midpoint"]) == sorted(one.bounds["over_midpoint"])


def test_more_than_ten_agents_print_as_a_list_of_the_played_pairs_best_first() -> None:
    rows = [row for i in range(11) for row in pair(f"m{i:02}", f"m{i:02}", [i / 20, i / 20])]
    rows += pair("m00", "m10", [0.9, 0.7, 0.8]) + pair("m10", "m00", [None, None])
    shown = pairs(frame(rows)).sheet().cells
    assert shown.columns == ["Starter", "Follower", "Outcome", "n", "Left out"]
    assert shown.height == 13
    assert shown.row(0) == ("m00", "m10", "0.80 ± 0.43", "3", "")
    assert shown.row(1)[:2] == ("m10", "m10") and shown.row(-1) == ("m10", "m00", "–", "0", "2")
    assert pairs(frame(rows[:20])).sheet().cells.columns[0] == "Starter \\ follower"
