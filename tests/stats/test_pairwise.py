"""Bradley-Terry against R (BradleyTerry2), by hand, and where no estimate exists."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods.bradley_terry import bradley_terry
from cilab.stats.teamwork.pairwise import pairwise

SHARED = Path(os.environ.get("CILAB_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "golden"
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bradley_terry.json").read_text())


def data(name: str) -> pl.DataFrame:
    """A data set of BradleyTerry2, which is not committed (GPL)."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/golden (or the folder that CILAB_SHARED names)")
    return pl.read_csv(path)


def runs(values: dict[str, list[float | None]], *, solved: dict[str, list[bool]] | None = None) -> pl.DataFrame:
    """Model -> test score per task; every task is solved alone unless said otherwise."""
    lines = []
    for model, scores in values.items():
        for t, score in enumerate(scores):
            alone = 1.0 if solved is None or solved[model][t] else 0.0
            lines.append((model, f"t{t:02d}", "d", "alone", 0, "ok", alone))
            if alone:
                lines.append((model, f"t{t:02d}", "d", "test", 0, "ok" if score is not None else "error", score))
    names = ["model", "task_id", "dimension", "version", "seed", "status", "score"]
    return pl.DataFrame(lines, schema=names, schema_overrides={"score": pl.Float64}, orient="row")


@pytest.mark.parametrize(("name", "file"), [("citations", "citations_pairs.csv"), ("baseball", "baseball.csv")])
def test_log_abilities_standard_errors_and_deviance_are_those_of_r(name, file) -> None:
    result = bradley_terry(data(file))
    want = GOLDEN[name]
    assert result.exists and result.table["player"].to_list() == want["names"]
    np.testing.assert_allclose(result.table["log_ability"], [a["ability"] for a in want["abilities"]], atol=1e-6)
    np.testing.assert_allclose(result.table["se"], [a["s.e."] for a in want["abilities"]], atol=1e-6)
    assert result.deviance == pytest.approx(want["deviance"], abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_abilities_are_the_coefficients_of_a_logistic_regression_on_who_met_whom(seed: int) -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(seed)
    ability = rng.normal(0, 1, 7)
    meetings = [(i, j) for i in range(7) for j in range(i) if rng.random() < 0.8] + [(i, i - 1) for i in range(1, 7)]
    games = [(i, j, int(rng.binomial(12, 1 / (1 + np.exp(ability[j] - ability[i]))))) for i, j in meetings]
    result = bradley_terry([(f"p{i}", f"p{j}", w, 12 - w) for i, j, w in games])
    design = np.zeros((len(games), 7))
    for row, (i, j, _) in zip(design, games, strict=True):
        row[i], row[j] = 1, -1
    counts = np.array([(w, 12 - w) for *_, w in games])
    fit = sm.GLM(counts, design[:, 1:], family=sm.families.Binomial()).fit(tol=1e-12)
    assert result.exists
    np.testing.assert_allclose(result.table["log_ability"][1:], fit.params, atol=1e-6)
    np.testing.assert_allclose(result.table["se"][1:], fit.bse, atol=1e-6)


def test_the_effect_of_playing_at_home_is_that_of_r() -> None:
    result = bradley_terry(data("baseball.csv").to_pandas(), order_effect=True)
    want = GOLDEN["baseball_home"]
    for player, ability in result.table.select("player", "log_ability").rows()[1:]:
        assert ability == pytest.approx(want["coef"][f"team{player}"], abs=1e-6)
    assert result.order_effect == pytest.approx(want["coef"]["at.home"], abs=1e-6)
    assert result.deviance == pytest.approx(want["deviance"], abs=1e-6)


def test_who_always_wins_has_no_estimate_and_the_others_keep_theirs() -> None:
    games = [(a, b, n, 0) for a, b, n in GOLDEN["degenerate"]["always_win"]["games"]]
    result = bradley_terry(games)
    assert not result.exists and "a never lost to the others" in result.reason
    assert result.difference("b", "c") == pytest.approx(np.log(2))
    with pytest.raises(TableError, match="no estimate of a against b: maximum likelihood puts an infinite distance"):
        result.difference("a", "b")
    assert result.deviance is None


def test_of_a_disconnected_graph_only_differences_within_a_group_are_given() -> None:
    games = [(a, b, n, 0) for a, b, n in GOLDEN["degenerate"]["disconnected"]["games"]]
    result = bradley_terry(games)
    assert result.difference("a", "b") == pytest.approx(np.log(2))
    assert result.difference("c", "d") == pytest.approx(np.log(3))
    with pytest.raises(TableError, match=r"2 groups were never compared with one another \(a, b \| c, d\)"):
        result.difference("a", "c")


def test_a_chain_of_wins_has_no_estimate_for_anybody() -> None:
    result = bradley_terry([("a", "b", 1, 0), ("b", "c", 1, 0)])
    assert not result.exists and result.table["part"].n_unique() == 3
    assert "c never beat the others" in result.reason


def test_a_ridge_gives_a_finite_estimate_where_likelihood_has_none_and_keeps_the_order() -> None:
    result = bradley_terry([("a", "b", 1, 0), ("b", "c", 1, 0)], ridge=0.1)
    assert result.exists and result.difference("a", "b") > 0
    assert result.difference("a", "b") == pytest.approx(result.difference("b", "c"))
    # At the maximum the slope is 0: 1 - p = ridge * ability for a, who is as far above the mean as c is below.
    assert 1 / (1 + np.exp(result.difference("a", "b"))) == pytest.approx(0.1 * result.difference("a", "b"))


def test_a_tie_is_half_a_win_each_or_dropped_and_counted_either_way() -> None:
    games = [("a", "b", 3, 1, 2)]
    half, dropped = bradley_terry(games), bradley_terry(games, ties="drop")
    assert half.difference("a", "b") == pytest.approx(np.log(4 / 2))
    assert dropped.difference("a", "b") == pytest.approx(np.log(3))
    assert half.n_ties == dropped.n_ties == 2


def test_the_reference_player_is_zero_and_changes_no_difference() -> None:
    games = [("a", "b", 3, 1), ("b", "c", 2, 2), ("a", "c", 4, 1)]
    one, two = bradley_terry(games), bradley_terry(games, reference="c")
    assert two.table.filter(pl.col("player") == "c").select("log_ability", "se").row(0) == (0.0, 0.0)
    assert one.difference("a", "b") == pytest.approx(two.difference("a", "b"))


@given(st.lists(st.integers(1, 9), min_size=12, max_size=12), st.permutations(range(4)))
@settings(max_examples=40, deadline=None)
def test_every_player_wins_as_often_as_expected_and_names_do_not_matter(counts, order) -> None:
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    records = [(f"p{i}", f"p{j}", counts[2 * k], counts[2 * k + 1]) for k, (i, j) in enumerate(pairs)]
    result = bradley_terry(records)
    for i in range(4):
        name, expected = f"p{i}", 0.0
        for a, b, first, second in records:
            if name in (a, b):
                other = b if name == a else a
                expected += (first + second) / (1 + np.exp(-result.difference(name, other)))
        assert expected == pytest.approx(result.table["wins"][i], abs=1e-7)
    renamed = bradley_terry([(f"p{order[int(a[1])]}", f"p{order[int(b[1])]}", x, y) for a, b, x, y in records[::-1]])
    assert renamed.difference(f"p{order[0]}", f"p{order[3]}") == pytest.approx(result.difference("p0", "p3"))


def test_an_order_effect_that_predicts_everything_is_refused() -> None:
    games = [("a", "b", 2, 0), ("b", "a", 2, 0)]
    assert bradley_terry(games).difference("a", "b") == pytest.approx(0.0)
    with pytest.raises(TableError, match="no finite estimate"):
        bradley_terry(games, order_effect=True)


@pytest.mark.parametrize(
    ("records", "arguments", "words"),
    [
        ([], {}, "there is none"),
        ([("a", "a", 1, 0)], {}, "a is compared with itself"),
        ([("a", "b", -1, 0)], {}, "at least 0"),
        ([("a", "b", float("nan"), 0)], {}, "at least 0"),
        ([("a", "b", "many", 0)], {}, "must be numbers"),
        ([("a", "b", 1)], {}, "first, second, first_wins, second_wins"),
        ([("a", "b", 0, 0, 3)], {"ties": "drop"}, "every one is a tie"),
        ([("a", "b", 1, 1)], {"ties": "halve"}, "Did you mean half"),
        ([("a", "b", 1, 1)], {"ridge": -1.0}, "ridge is -1.0"),
        ([("alf", "bea", 1, 1)], {"reference": "alff"}, "Did you mean alf"),
        ([("a", "b", 1, 0)], {"order_effect": True}, "no order effect can be estimated"),
    ],
)
def test_bad_comparisons_are_refused_in_one_line(records, arguments, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        bradley_terry(records, **arguments)
    assert "\n" not in str(caught.value)


# -- a study's rows ---------------------------------------------------------------------------------------


def test_rows_are_compared_only_on_the_tasks_that_both_solve_alone() -> None:
    # On tasks 0-3 both: a wins twice, b once, one tie; task 4 only a solves. So 2.5 to 1.5.
    frame = runs({"a": [1, 1, 0, 1, 1], "b": [0, 0, 1, 1, None]}, solved={"a": [True] * 5, "b": [True] * 4 + [False]})
    result = pairwise(frame, resamples=50)
    assert result.estimate.difference("a", "b") == pytest.approx(np.log(2.5 / 1.5))
    assert result.table.select("model", "rating_rank", "wins", "losses", "n_comparisons").rows() == [
        ("a", 1, 2.5, 1.5, 4),
        ("b", 2, 1.5, 2.5, 4),
    ]
    assert pairwise(frame, ties="drop", resamples=50).estimate.difference("a", "b") == pytest.approx(np.log(2))


def test_a_row_that_wins_everywhere_gets_no_rating_and_the_notes_say_so() -> None:
    result = pairwise(runs({"a": [1, 1, 1], "b": [0, 0, 0], "c": [0, 0, 0]}), resamples=50)
    assert not result.estimate.exists and result.table["rating_rank"].null_count() == 3
    assert result.table["lo"].null_count() == 3 and result.kendall_tau_b is None
    assert any("No single rating exists" in note and "a never lost" in note for note in result.notes())


def test_a_row_without_a_common_task_stands_apart() -> None:
    frame = runs(
        {"a": [1, 0, 1, 1], "b": [0, 1, 1, 1], "c": [1, 1, 1, 0]},
        solved={"a": [True, True, True, False], "b": [True, True, True, False], "c": [False, False, False, True]},
    )
    result = pairwise(frame, resamples=50)
    assert result.table.filter(pl.col("model") == "c").select("part", "n_comparisons").row(0) == (1, 0)
    assert "never compared" in result.estimate.reason


def test_on_the_simulated_release_the_rating_moves_few_rows_and_its_intervals_hold_it() -> None:
    data = datasets.simulated_release()
    result = pairwise(data, resamples=200)
    assert result.estimate.exists and result.n_undefined == 0
    assert result.kendall_tau_b > 0.9
    assert result.table["rank_change"].abs().max() <= 3
    held = result.table.select((pl.col("lo") < pl.col("log_ability")) & (pl.col("log_ability") < pl.col("hi")))
    assert held.to_series().all()
    truth = data.truth["rows"].join(result.table, on=["model", "effort"])
    assert np.corrcoef(truth["expected_full_overall"], truth["log_ability"])[0, 1] > 0.97


def test_replicates_of_unchanged_data_are_the_estimate_itself() -> None:
    from cilab.stats.methods.bradley_terry import _win_matrix, newton_together

    ij, wins = np.array([[0, 1], [1, 2], [0, 2]]), np.array([[3.0, 1.0], [2.0, 2.0], [4.0, 1.0]])
    beats = _win_matrix(3, ij, wins)
    got = newton_together(np.stack([beats, beats]), 0.0)
    want = bradley_terry([("a", "b", 3, 1), ("b", "c", 2, 2), ("a", "c", 4, 1)]).table["log_ability"].to_numpy()
    np.testing.assert_allclose(got, np.tile(want - want.mean(), (2, 1)), atol=1e-8)


def test_one_row_and_published_counts_are_refused() -> None:
    with pytest.raises(TableError, match="one only"):
        pairwise(runs({"a": [1, 0]}))
    with pytest.raises(TableError, match="pairs rows by task"):
        pairwise(datasets.published_round("2026-10-09"))


def test_wins_and_losses_print_as_whole_numbers_or_halves_and_rows_as_on_the_leaderboard() -> None:
    result = pairwise(datasets.simulated_release(scale=0.2), resamples=20)
    shown = result.sheet().cells
    assert shown.columns[:4] == ["Row", "Rating rank", "Log ability", "Interval"] and "Part" not in shown.columns
    for column in ("wins", "losses"):
        for value, text in zip(result.table[column], shown[column.capitalize()], strict=True):
            assert float(text.replace(",", "")) == value
            assert text.endswith(".5") if value % 1 else "." not in text
    assert (result.table["wins"] % 1 != 0).any()
    assert any(" · " in row for row in shown["Row"]) and not all(" · " in row for row in shown["Row"])


@pytest.mark.parametrize("seed", [-1, "a", 1.5])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(TableError, match="seed is "):
        pairwise(datasets.simulated_release(scale=0.2), seed=seed)
