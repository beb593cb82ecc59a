"""Differences and comparisons: the published round, SWE-bench, rows worked out by hand, and what is refused."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.teamwork.compare import compare, differences
from cilab.stats.teamwork.scores import leaderboard

SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared"))


def runs(rows: dict[tuple, dict[str, list[float]]]) -> pl.DataFrame:
    """(model, effort, arm) -> task -> tests; every task is solved alone. The dimension stands before the colon."""
    lines = []
    for (model, effort, arm), values in rows.items():
        for task, scores in values.items():
            cells = [("alone", 0, 1.0), *(("test", s, v) for s, v in enumerate(scores))]
            for version, seed, score in cells:
                key = (model, effort, arm, task, version, seed)
                lines.append(("|".join(map(str, key)), *key, task.partition(":")[0], "ok", score))
    columns = ["run_id", "model", "effort", "arm", "task_id", "version", "seed", "dimension", "status", "score"]
    types = {"effort": pl.String, "arm": pl.String, "score": pl.Float64}
    return pl.DataFrame(lines, schema=columns, schema_overrides=types, orient="row")


def row(model: str, effort: str | None = None, arm: str | None = None) -> tuple:
    return (model, effort, arm)


def many(seed: int, n: int = 12, models: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return runs(
        {
            row(f"m{m}"): {f"{d}:{t}": rng.choice([0.0, 0.5, 1.0], 2).tolist() for d in "de" for t in range(n)}
            for m in range(models)
        }
    )


# -- differences ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def neighbours():
    adjacent = datasets.published_table("adjacent")
    models = [adjacent["higher"][0], *adjacent["lower"]]
    return adjacent, differences(datasets.published_round(), models=models)


def test_the_five_published_adjacent_differences_come_out(neighbours) -> None:
    adjacent, ours = neighbours
    assert ours.table.select("higher", "lower").rows() == adjacent.select("higher", "lower").rows()
    np.testing.assert_allclose(ours.table["diff_points"], adjacent["diff_points"], atol=0.00501)


def test_published_intervals_lie_between_the_independent_and_the_comonotone_bound(neighbours) -> None:
    adjacent, ours = neighbours
    for theirs, mine in zip(adjacent.iter_rows(named=True), ours.table.iter_rows(named=True), strict=True):
        # An end of 4,000 resamples has a standard error of about 0.042 standard errors of the difference, 0.13 points
        # here; theirs and ours both have it. Two of them are allowed.
        slack = 2 * math.sqrt(2) * 0.042 * (mine["hi_independent_points"] - mine["lo_independent_points"]) / 3.92
        assert mine["lo_independent_points"] - slack <= theirs["lo_points"] <= mine["lo_comonotone_points"] + slack
        assert mine["hi_comonotone_points"] - slack <= theirs["hi_points"] <= mine["hi_independent_points"] + slack
        assert mine["p_higher_independent"] - 0.01 <= theirs["p_higher"] <= mine["p_higher_comonotone"] + 0.01
        assert mine["lo_points"] is None and mine["p_higher"] is None


def test_the_bounds_of_the_first_pair_are_those_of_the_notes(neighbours) -> None:
    _, ours = neighbours
    first = ours.table.row(0, named=True)
    # Worked out before, apart from this code: independent about [-0.4, 12.1], comonotone about [1.7, 10.7].
    assert first["lo_independent_points"] == pytest.approx(-0.1, abs=0.5)
    assert first["hi_independent_points"] == pytest.approx(12.2, abs=0.5)
    assert first["lo_comonotone_points"] == pytest.approx(1.7, abs=0.4)
    assert first["hi_comonotone_points"] == pytest.approx(10.6, abs=0.4)


def test_rows_of_a_published_round_get_no_rank_stability_and_the_notes_say_why(neighbours) -> None:
    _, ours = neighbours
    assert ours.ranks["rank"].to_list() == [1, 2, 3, 4, 5, 6]
    assert ours.ranks["stability_pct"].null_count() == 6
    assert "rows are not paired" in " ".join(ours.notes())


def test_paired_differences_are_differences_of_scores_with_the_closed_form_spread() -> None:
    rng = np.random.default_rng(1)
    shared = rng.random(200).round(3)
    data = runs(
        {
            row("a"): {f"d:{i}": [min(1.0, v + (0.1 if i % 2 else 0.0))] for i, v in enumerate(shared)},
            row("b"): {f"d:{i}": [v] for i, v in enumerate(shared)},
        }
    )
    got = differences(data).table.row(0, named=True)
    change = np.array([min(1.0, v + (0.1 if i % 2 else 0.0)) - v for i, v in enumerate(shared)])
    se = 100 * change.std() / math.sqrt(200)
    assert got["diff_points"] == pytest.approx(100 * change.mean())
    assert (got["hi_points"] - got["lo_points"]) / (2 * 1.96) == pytest.approx(se, rel=0.06)
    assert got["p_higher"] == 1.0
    unpaired = 100 * shared.std() * math.sqrt(2 / 200)
    assert se < unpaired / 5  # pairing is what makes it narrow


def test_rank_stability_is_the_share_of_resamples_in_which_a_row_keeps_its_rank() -> None:
    high, mid, low = [1.0] * 10, [1.0] * 5 + [0.0] * 5, [0.0] * 5 + [1.0] * 5
    data = runs({row(m): {f"d:{i}": [v] for i, v in enumerate(x)} for m, x in (("a", high), ("b", mid), ("c", low))})
    got = differences(data, resamples=4000).ranks
    # b and c share rank 2. Only as many draws from either half keep both there: C(10, 5) / 2^10 = 0.246.
    assert got["rank"].to_list() == [1, 2, 2]
    keeps_b = 100 * sum(math.comb(10, k) for k in range(5, 11)) / 2**10  # b at least level with c
    stability = dict(got.select("row", "stability_pct").iter_rows())
    # a loses its own rank to nobody; all ones for a are above or level with b, and level ones share.
    assert stability["a"] == 100.0
    all_of_one_half = 100 / 2**10  # then b (or c) is level with a, on rank 1
    assert stability["b"] == pytest.approx(keeps_b - all_of_one_half, abs=3)
    assert stability["c"] == pytest.approx(keeps_b - all_of_one_half, abs=3)


@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_differences_do_not_depend_on_the_order_of_runs(seed: int) -> None:
    data = many(seed)
    one, two = differences(data, resamples=100), differences(data.reverse(), resamples=100)
    assert_frame_equal(one.table, two.table)
    assert_frame_equal(one.ranks, two.ranks)


def test_one_row_has_no_neighbour() -> None:
    with pytest.raises(TableError, match="differences need two rows with an overall score; unnamed has 1"):
        differences(runs({row("a"): {"d:1": [1.0]}}))


# -- compare ----------------------------------------------------------------------------------------------


def test_swebench_paired_difference_comes_out() -> None:
    path = SHARED / "data" / "reference_numbers.json"
    folder = SHARED / "data" / "swebench_bash_only"
    if not path.is_file() or not folder.is_dir():
        pytest.skip(f"no {path}")
    want = json.loads(path.read_text())["swebench_bash_only"]["paired_difference"]
    data = datasets.import_table(folder, mapping="swebench_bash_only").dataset
    got = compare(data, want["a"], want["b"], version="alone", gate="off").table.row(0, named=True)
    assert got["diff_points"] == pytest.approx(100 * want["diff"], abs=1e-9)
    assert got["lo_points"] == pytest.approx(100 * want["ci95"][0], abs=0.41)  # two steps of 1 / 500
    assert got["hi_points"] == pytest.approx(100 * want["ci95"][1], abs=0.41)
    assert got["p"] < 0.05 and got["n_tasks"] == 500


def test_two_efforts_of_the_hand_worked_round_are_paired_on_the_tasks_solved_at_both() -> None:
    result = compare(datasets.hand_worked_round(), ("sim:H1", "high"), "sim:H1", resamples=200)
    # hand_worked_scores.csv: 5 tasks; two better, two worse, one tie. Conflict 2/9 - 4/9; initiative without its third
    # task (1 + 1/3) / 2 - (2/3 + 0) / 2 = 1/3.
    table = {r["dimension"]: r for r in result.table.iter_rows(named=True)}
    assert table["overall"]["n_tasks"] == 5
    assert (table["overall"]["n_a_higher"], table["overall"]["n_b_higher"]) == (2, 2)
    assert table["handling_conflict"]["diff_points"] == pytest.approx(-200 / 9)
    assert table["taking_initiative"]["diff_points"] == pytest.approx(100 / 3)
    assert table["overall"]["diff_points"] == pytest.approx((-200 / 9 + 100 / 3) / 2)


def test_flipped_tasks_come_with_their_values_and_run_ids_largest_change_first() -> None:
    data = runs(
        {
            row("a"): {"d:1": [1.0, 1.0], "d:2": [1.0, 0.0], "d:3": [0.0, 0.0]},
            row("b"): {"d:1": [1.0, 1.0], "d:2": [0.0, 0.0], "d:3": [1.0, 1.0]},
        }
    )
    flipped = compare(data, "a", "b", resamples=50).flipped
    assert flipped["task_id"].to_list() == ["d:3", "d:2"]
    assert flipped.select("a_value", "b_value", "higher").rows() == [(0.0, 1.0, "b"), (0.5, 0.0, "a")]
    assert flipped["run_ids_a"][1].to_list() == ["a|None|None|d:2|test|0", "a|None|None|d:2|test|1"]


def test_own_tasks_give_the_difference_of_the_leaderboard() -> None:
    data = many(4).with_columns(
        score=pl.when((pl.col("version") == "alone") & (pl.col("model") == "m0") & pl.col("task_id").str.ends_with("3"))
        .then(0.0)
        .otherwise("score")
    )
    board = dict(leaderboard(data, resamples=50).table.select("model", "score_pct").iter_rows())
    own = compare(data, "m0", "m1", tasks="own", resamples=50).table.row(0, named=True)
    both = compare(data, "m0", "m1", resamples=50).table.row(0, named=True)
    assert own["diff_points"] == pytest.approx(board["m0"] - board["m1"])
    assert own["n_tasks"] == both["n_tasks"] == 22


@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_swapping_the_sides_turns_the_sign_and_nothing_else(seed: int) -> None:
    data = many(seed)
    one, two = (compare(data, *pair, resamples=100).table for pair in (("m0", "m1"), ("m1", "m0")))
    for a, b in zip(one.iter_rows(named=True), two.iter_rows(named=True), strict=True):
        assert a["diff_points"] == pytest.approx(-b["diff_points"])
        assert a["lo_points"] == pytest.approx(-b["hi_points"], abs=1e-9)
        assert (a["p"], a["n_a_higher"]) == (b["p"], b["n_b_higher"])


def test_the_p_value_is_exact_and_holm_corrected_over_dimensions() -> None:
    values = {f"{d}:{i}": [float(i % 3 > 0)] for d in "def" for i in range(12)}
    worse = {t: [0.0 if t[0] == "d" else v[0]] for t, v in values.items()}
    data = runs({row("a"): values, row("b"): worse})
    result = compare(data, "a", "b")
    p = {r["dimension"]: (r["p"], r["p_holm"]) for r in result.table.iter_rows(named=True)}
    # Eight tasks of twelve differ, all one way: 2 / 2^8, by hand; times three.
    assert p["d"] == (2 / 2**8, 6 / 2**8) and p["e"] == (1.0, 1.0) and p["overall"] == (2 / 2**8, None)
    assert "p by sign flips of tasks." in result.multiplicity
    assert "3 comparisons by dimension (Holm)" in result.multiplicity
    papers = compare(data, "a", "b", resamples=1000, interval="percentile")
    assert papers.table.filter(dimension="d").select("p", "p_holm").row(0) == pytest.approx((0.002, 0.006))
    assert "p cannot lie below 0.002" in papers.multiplicity


def test_two_arms_are_compared_over_the_models_that_have_both() -> None:
    data = runs(
        {
            row("a"): {"d:1": [0.0], "d:2": [0.0]},
            row("a", arm="diff"): {"d:1": [1.0], "d:2": [0.0]},
            row("b"): {"d:1": [0.0], "d:2": [1.0]},
            row("b", arm="diff"): {"d:1": [1.0], "d:2": [1.0]},
            row("c"): {"d:1": [1.0], "d:2": [1.0]},
        }
    )
    result = compare(data, "diff", "no arm", resamples=100)
    got = result.table.row(0, named=True)
    assert (result.a, result.b, result.parameters["rows"]) == ("diff", "no arm", 2)
    assert (got["a_pct"], got["b_pct"], got["diff_points"], got["n_tasks"]) == (75.0, 25.0, 50.0, 4)
    assert result.flipped.select("a_row", "task_id").rows() == [("a · diff", "d:1"), ("b · diff", "d:1")]


def test_a_model_with_two_efforts_stands_for_its_default_row() -> None:
    data = runs({row("a"): {"d:1": [1.0], "d:2": [0.0]}, row("a", "high"): {"d:1": [0.0], "d:2": [0.0]}})
    result = compare(data, "a", "a · high", resamples=50)
    assert (result.a, result.b) == ("a · default effort", "a · high")
    assert compare(data, "a", ("a", "high"), resamples=50).table.equals(result.table)


def test_a_dimension_with_one_shared_task_has_a_difference_without_interval() -> None:
    data = runs(
        {row("a"): {"d:1": [1.0], "e:1": [1.0], "e:2": [0.0]}, row("b"): {"d:1": [0.0], "e:1": [0.0], "e:2": [0.0]}}
    )
    lines = {r["dimension"]: r for r in compare(data, "a", "b", resamples=50).table.iter_rows(named=True)}
    assert (lines["d"]["diff_points"], lines["d"]["p"], lines["d"]["lo_points"]) == (100.0, 1.0, None)
    assert lines["d"]["no_interval"] == "too few: 1 task"
    papers = compare(data, "a", "b", resamples=50, interval="percentile").table
    lines = {r["dimension"]: r for r in papers.iter_rows(named=True)}
    assert lines["d"]["diff_points"] == 100.0 and lines["d"]["p"] is None and lines["d"]["lo_points"] is None
    assert lines["d"]["no_interval"] == "too few: 1 task" and lines["overall"]["lo_points"] is None


def test_every_run_is_used_or_left_out_for_a_reason() -> None:
    data = many(2)
    result = compare(data, "m0", "m2", resamples=50)
    assert result.n_used + sum(result.n_left_out.values()) == data.height
    assert result.n_left_out == {"of rows not compared": data.height // 3}


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("m0", "m0", "a and b are the same row, m0"),
        ("m0", "m9", "no row or arm 'm9'. Did you mean"),
        ("m0", ("m1", "high"), r"no row or arm \('m1', 'high'\)"),
        ("m0", "no arm", "'m0' and 'no arm' are a row and an arm"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(a, b, message) -> None:
    with pytest.raises(TableError, match=message):
        compare(many(1), a, b)


def test_rows_without_a_common_task_and_unknown_tasks_are_refused() -> None:
    data = runs({row("a"): {"d:1": [1.0]}, row("b"): {"d:2": [1.0]}})
    with pytest.raises(TableError, match="a and b have no task in common that both solve alone"):
        compare(data, "a", "b")
    with pytest.raises(TableError, match="compare pairs rows by task, but in published round 2026-10-09 task ids"):
        compare(datasets.published_round(), "Kimi K3", "GLM-5.3")
    with pytest.raises(TableError, match="tasks is 'all', not one of both, own"):
        compare(data, "a", "b", tasks="all")


def test_the_words_of_a_comparison_do_not_speak_of_a_gate_that_is_off() -> None:
    data = many(1)
    assert "that both solve alone" in compare(data, "m0", "m1", resamples=50).caption
    assert "alone" not in compare(data, "m0", "m1", gate="off", resamples=50).caption
    assert "alone" not in compare(data, "m0", "m1", tasks="own", gate="off", resamples=50).caption


def scarce() -> pl.DataFrame:
    """Rows a, b and c on twelve tasks of d; of e's ten, c solves one alone, which 35 % of the resamples do not hold."""
    rng = np.random.default_rng(4)
    values = {f"{d}:{t}": rng.choice([0.0, 1.0], 2).tolist() for d in "de" for t in range(10)}
    best = {t: [1.0, 1.0] for t in values}
    own = {t: [0.0, 0.0] for t in values if t[0] == "d" or t == "e:0"}
    data = runs({row("a"): best, row("b"): values, row("c"): own})
    key = ["run_id", "model", "effort", "arm", "task_id", "version", "seed", "dimension", "status", "score"]
    missed = [(f"c|{t}", "c", None, None, t, "alone", 0, "e", "ok", 0.0) for t in values if t[0] == "e" and t != "e:0"]
    return data.vstack(pl.DataFrame(missed, schema=data.select(key).schema, orient="row"))


def test_a_row_that_many_resamples_leave_empty_has_no_interval_and_takes_none_from_the_others() -> None:
    result = differences(scarce(), resamples=1000)
    first, second = result.table.iter_rows(named=True)
    assert (first["higher"], first["n_empty_resamples"]) == ("a", 0) and first["lo_points"] is not None
    assert second["n_empty_resamples"] == pytest.approx(349, abs=60)
    assert second["lo_points"] is None and second["p_higher"] is None
    assert second["no_interval"] == "too few: 1 task in e"
    assert result.ranks["stability_pct"].is_null().to_list() == [False, True, True]
    assert any("No p higher for 1 pair:" in note for note in result.notes())
    papers = differences(scarce(), resamples=1000, interval="percentile")
    assert papers.table["lo_points"].is_null().to_list() == [False, True]
    assert papers.ranks["stability_pct"].is_null().to_list() == [False, False, True]
    assert any("No interval for 1 pair:" in note for note in papers.notes())
    table = compare(scarce(), "a", "c", tasks="own", resamples=1000, interval="percentile")
    found = {r["dimension"]: (r["lo_points"] is None, r["p"] is None) for r in table.table.iter_rows(named=True)}
    assert found == {"overall": (True, True), "d": (False, False), "e": (True, True)}
    assert any("No interval for 2 lines:" in note for note in table.notes())


def test_the_caption_speaks_of_paired_resamples_only_where_rows_are_paired(neighbours) -> None:
    assert "paired" not in neighbours[1].caption and "bounds" in neighbours[1].caption
    assert "p by swaps of tasks" in differences(many(1), resamples=50).caption
    assert "paired resamples" in differences(many(1), resamples=50, interval="percentile").caption


@pytest.mark.parametrize(
    "call", [lambda s: differences(many(1), seed=s), lambda s: compare(many(1), "m0", "m1", seed=s)]
)
def test_a_seed_that_is_no_whole_number_is_refused(call) -> None:
    with pytest.raises(TableError, match=r"seed is 1\.5: give a whole number"):
        call(1.5)


def test_a_dimension_of_one_task_leaves_no_overall_interval_and_says_so() -> None:
    one = {"a:1": [1.0], "b:1": [1.0], "b:2": [0.0], "b:3": [1.0]}
    other = {"a:1": [0.0], "b:1": [0.0], "b:2": [0.0], "b:3": [1.0]}
    data = runs({row("m"): one, row("n"): other})
    result = compare(data, "m", "n", resamples=50)
    first, alone, three = result.table.iter_rows(named=True)
    assert (first["diff_points"], first["lo_points"]) == (pytest.approx(100 * (1 + 1 / 3) / 2), None)
    assert first["p"] == 0.5  # two tasks differ
    assert alone["lo_points"] is None and three["lo_points"] is not None
    assert any("No overall interval: too few: 1 task in a." in note for note in result.notes())


@pytest.mark.parametrize("written", ["m:high", "m \N{MIDDLE DOT} high", ("m", "high")])
def test_a_row_is_named_by_model_and_effort(written) -> None:
    data = runs({row("m"): {"a": [1.0, 1.0]}, row("m", "high"): {"a": [0.0, 1.0]}, row("n"): {"a": [1.0, 0.0]}})
    assert compare(data, written, "n", resamples=50).a == "m \N{MIDDLE DOT} high"


# -- few, uneven, clustered, saturated --------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (3, 0.25), (5, 0.0625)])
def test_a_row_that_wins_every_one_of_a_few_tasks_has_the_exact_p_and_no_interval_without_zero(
    n: int, p: float
) -> None:
    data = runs({row("a"): {f"d:{i}": [1.0] for i in range(n)}, row("b"): {f"d:{i}": [0.0] for i in range(n)}})
    for line in compare(data, "a", "b").table.iter_rows(named=True):
        assert line["p"] == p and (line["lo_points"] is None or line["lo_points"] < 0 < line["hi_points"])
        assert (line["no_interval"] is None) == (n > 2)
    got = differences(data).table.row(0, named=True)
    assert got["p"] == p and (got["p_higher"] is None if n < 3 else got["p_higher"] == 1 - p / 2)
    assert differences(data).ranks["stability_pct"].null_count() == 2


def test_one_task_in_each_dimension_has_no_interval_no_p_higher_and_no_stability() -> None:
    data = runs({row("a"): {f"{d}:0": [1.0] for d in "def"}, row("b"): {"d:0": [1.0], "e:0": [0.0], "f:0": [0.0]}})
    result = differences(data)
    got = result.table.row(0, named=True)
    assert (got["diff_points"], got["p"]) == (pytest.approx(200 / 3), 0.5)  # two tasks differ: 2 / 2^2
    assert got["lo_points"] is got["hi_points"] is got["p_higher"] is None
    assert got["no_interval"] == "too few: 3 tasks in 3 dimensions"
    assert result.ranks.select("stability_pct", "rank_lo", "rank_hi").null_count().row(0) == (2, 2, 2)
    assert "too few" in repr(result)


def test_equal_rows_have_an_interval_of_some_width_and_nothing_is_sure() -> None:
    values = {f"d:{i}": [1.0] for i in range(8)}
    result = differences(runs({row("a"): values, row("b"): values}))
    got = result.table.row(0, named=True)
    assert (got["diff_points"], got["p"], got["p_higher"]) == (0.0, 1.0, 0.5)
    # 1 - 0.025^(1/8), by hand
    assert (got["lo_points"], got["hi_points"]) == (pytest.approx(-36.9, abs=0.05), pytest.approx(36.9, abs=0.05))
    assert result.ranks["stability_pct"].null_count() == 2


def refusing() -> pl.DataFrame:
    """Both solve ten tasks alone; a passes five and fails five, b passes the same five and refuses the others."""
    easy, hard = {f"d:{i}": [1.0] for i in range(5)}, {f"d:{i}": [0.0] for i in range(5, 10)}
    data = runs({row("a"): easy | hard, row("b"): easy | hard})
    refused = (pl.col("model") == "b") & (pl.col("version") == "test") & (pl.col("score") == 0)
    return data.with_columns(
        status=pl.when(refused).then(pl.lit("refused")).otherwise("status"),
        score=pl.when(refused).then(None).otherwise("score"),
    )


def test_own_tasks_say_on_how_many_each_side_rests_and_swap_what_one_side_lacks() -> None:
    result = compare(refusing(), "b", "a", tasks="own")
    got = result.table.row(0, named=True)
    assert (got["diff_points"], got["n_tasks"], got["n_a_tasks"], got["n_b_tasks"]) == (50.0, 5, 5, 10)
    assert got["p"] == 2 / 2**5  # five tasks change sides, by hand
    assert got["lo_points"] < 0 < got["hi_points"] < 100
    assert "5 / 10" in repr(result)
    both = compare(refusing(), "b", "a").table.row(0, named=True)
    assert (both["diff_points"], both["p"], both["n_tasks"]) == (0.0, 1.0, 5)


def test_rows_with_different_tasks_are_compared_on_common_ones() -> None:
    a = {f"d:{i}": [1.0] for i in range(4)}
    c = a | {f"d:{i}": [float(i == 5)] for i in range(4, 8)}
    got = compare(runs({row("a"): a, row("c"): c}), "a", "c").table.row(0, named=True)
    assert (got["a_pct"], got["b_pct"], got["n_tasks"], got["p"]) == (100.0, 100.0, 4, 1.0)


def test_binary_scores_have_mcnemars_p_and_graded_ones_a_reason() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    g = np.random.default_rng(3)
    a, b = ({f"{d}:{i}": [float(v)] for d in "de" for i, v in enumerate(g.random(20) < p)} for p in (0.8, 0.5))
    x, y = (np.array([v[0] for v in values.values()]) for values in (a, b))
    got = compare(runs({row("a"): a, row("b"): b}), "a", "b").table.row(0, named=True)
    table = [[(x * y).sum(), (x * (1 - y)).sum()], [((1 - x) * y).sum(), ((1 - x) * (1 - y)).sum()]]
    assert got["p_mcnemar"] == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert got["risk_diff_points"] == pytest.approx(100 * (x.mean() - y.mean())) and got["no_mcnemar"] is None
    graded = compare(runs({row("a"): a | {"d:0": [0.5]}, row("b"): b}), "a", "b").table
    assert graded["no_mcnemar"].to_list() == ["graded: a task's value is not 0 or 1"] * 2 + [None]
    assert graded["p_mcnemar"].is_null().to_list() == [True, True, False]
    arms = runs({row(m, arm=w): a for m in "mn" for w in (None, "diff")})
    assert "several rows" in compare(arms, "diff", "no arm").table["no_mcnemar"][0]


def test_a_margin_tells_equivalent_from_undecided_and_from_a_small_difference() -> None:
    from statsmodels.stats.weightstats import ttost_paired

    g = np.random.default_rng(5)
    base = g.random(300).round(2)
    near = np.clip(base + g.choice([-0.02, 0.0, 0.02], 300), 0, 1)
    rows = {row("a"): base, row("b"): near, row("c"): np.clip(base - 0.01, 0, 1), row("d"): g.random(300)}
    data = runs({m: {f"d:{i}": [float(v)] for i, v in enumerate(values)} for m, values in rows.items()})
    close = compare(data, "a", "b", margin=3).table.row(0, named=True)
    theirs = ttost_paired(base, near, -0.03, 0.03)[0]
    assert (close["p_equivalent"], close["verdict"]) == (pytest.approx(theirs, abs=1e-12), "equivalent")
    assert compare(data, "a", "c", margin=3).table["verdict"][0] == "a higher, by less than the margin"
    assert compare(data, "c", "a").table["verdict"][0] == "b higher"
    assert compare(data, "a", "d", margin=3).table["verdict"][0] == "undecided"
    assert compare(data, "a", "b").table["p_equivalent"].null_count() == 2
    assert "p within 3" in repr(compare(data, "a", "b", margin=3))


@pytest.mark.parametrize("margin", [0, -1, 101, float("nan"), "3", True])
def test_a_margin_that_is_no_number_above_0_is_refused(margin) -> None:
    with pytest.raises(TableError, match=r"margin is .*: give a margin in points above 0"):
        compare(many(1), "m0", "m1", margin=margin)


def test_the_papers_head_to_head_comes_out_as_it_was_frozen() -> None:
    """As `compare.txt` had it before p came from sign flips: 200 resamples of the simulated release."""
    got = compare(datasets.simulated_release(), "sim:C1", "sim:C2", resamples=200, interval="percentile").table
    found = got.select(pl.col("diff_points", "lo_points", "hi_points").round(1), pl.col("p").round(4)).rows()
    assert found[:4] == [
        (3.9, -0.9, 9.6, 0.11),
        (-2.5, -12.3, 3.7, 0.65),
        (5.1, -1.5, 13.3, 0.28),
        (25.3, 10.7, 42.2, 0.01),
    ]
    assert got["p_holm"].to_list()[1:] == pytest.approx([1, 1, 0.08, 1, 1, 1, 1, 1])


def test_every_line_of_a_release_agrees_with_itself() -> None:
    data = datasets.simulated_release(scale=0.2)
    for tasks in ("both", "own"):
        table = compare(data, "sim:C1", "sim:O7", tasks=tasks).table.filter(pl.col("lo_points").is_not_null())
        excluded = (table["lo_points"] > 0) | (table["hi_points"] < 0)
        assert table.height > 3 and (excluded == (table["p"] < 0.05)).all()


def test_tasks_of_a_family_flip_as_one_and_count_as_one() -> None:
    """Four families of five tasks; a wins all: 2 / 2^4 by hand, where twenty tasks alone would have 2 / 2^20."""
    data = runs(
        {row("a"): {f"d:{i:02d}": [1.0] for i in range(20)}, row("b"): {f"d:{i:02d}": [0.0] for i in range(20)}}
    )
    data = data.with_columns(family=pl.lit("f") + (pl.col("task_id").str.slice(2).cast(pl.Int64) // 5).cast(pl.String))
    got = compare(data, "a", "b")
    line = got.table.row(0, named=True)
    assert (line["p"], line["n_tasks"], line["n_clusters"]) == (2 / 2**4, 20, 4)
    assert line["lo_points"] < 0 and line["no_mcnemar"] == "tasks of one family are not independent"
    assert "sign flips of families" in got.multiplicity
    assert compare(data, "a", "b", cluster="task").table["p"][0] == 2 / 2**20
    assert differences(data).table.select("p", "n_clusters").row(0) == (2 / 2**4, 4)
    own = data.filter(~((pl.col("model") == "b") & (pl.col("task_id") == "d:00")))
    assert differences(own).table["p"][0] == 2 / 2**4


def test_two_families_have_no_interval_and_say_so() -> None:
    values = {f"d:{i}": [float(i % 2)] for i in range(8)}
    data = runs({row("a"): values, row("b"): {t: [0.0] for t in values}})
    data = data.with_columns(family=pl.when(pl.col("task_id") < "d:4").then(pl.lit("x")).otherwise(pl.lit("y")))
    line = compare(data, "a", "b").table.row(0, named=True)
    assert (line["p"], line["lo_points"], line["no_interval"]) == (0.5, None, "too few: 2 families")
