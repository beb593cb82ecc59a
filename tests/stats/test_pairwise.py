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
    assert result.difference("b", "c").log_odds == pytest.approx(np.log(2))
    with pytest.raises(TableError, match="no estimate of a against b: maximum likelihood puts an infinite distance"):
        result.difference("a", "b")
    assert result.deviance is None


def test_of_a_disconnected_graph_only_differences_within_a_group_are_given() -> None:
    games = [(a, b, n, 0) for a, b, n in GOLDEN["degenerate"]["disconnected"]["games"]]
    result = bradley_terry(games)
    assert result.difference("a", "b").log_odds == pytest.approx(np.log(2))
    assert result.difference("c", "d").log_odds == pytest.approx(np.log(3))
    with pytest.raises(TableError, match=r"2 groups were never compared with one another \(a, b \| c, d\)"):
        result.difference("a", "c")


def test_a_chain_of_wins_has_no_estimate_for_anybody() -> None:
    result = bradley_terry([("a", "b", 1, 0), ("b", "c", 1, 0)])
    assert not result.exists and result.table["part"].n_unique() == 3
    assert "c never beat the others" in result.reason


def test_a_ridge_gives_a_finite_estimate_where_likelihood_has_none_and_keeps_the_order() -> None:
    result = bradley_terry([("a", "b", 1, 0), ("b", "c", 1, 0)], ridge=0.1)
    assert result.exists and result.difference("a", "b").log_odds > 0
    assert result.difference("a", "b").log_odds == pytest.approx(result.difference("b", "c").log_odds)
    # At the maximum the slope is 0: 1 - p = ridge * ability for a, who is as far above the mean as c is below.
    assert 1 / (1 + np.exp(result.difference("a", "b").log_odds)) == pytest.approx(
        0.1 * result.difference("a", "b").log_odds
    )


def test_a_tie_is_half_a_win_each_or_dropped_and_counted_either_way() -> None:
    games = [("a", "b", 3, 1, 2)]
    half, dropped = bradley_terry(games, ties="half"), bradley_terry(games, ties="drop")
    assert half.difference("a", "b").log_odds == pytest.approx(np.log(4 / 2))
    assert dropped.difference("a", "b").log_odds == pytest.approx(np.log(3))
    assert half.n_ties == dropped.n_ties == 2
    for result in (half, dropped, bradley_terry(games)):
        assert result.table.select("wins", "losses", "ties").rows() == [(3, 1, 2), (1, 3, 2)]


@pytest.mark.parametrize(("wins", "losses", "ties"), [(5, 1, 2754), (4, 2, 90), (30, 20, 1)])
def test_two_players_with_ties_have_the_closed_form_and_half_wins_the_robust_error(wins, losses, ties) -> None:
    """Davidson's d is log(w / l), with error sqrt(1 / w + 1 / l); half wins as statsmodels' GLM with HC0 errors."""
    import statsmodels.api as sm

    games = [("a", "b", wins, losses, ties)]
    for how in ("davidson", "drop"):
        found = bradley_terry(games, ties=how).difference("a", "b")
        se = np.sqrt(1 / wins + 1 / losses)
        assert (found.log_odds, found.se) == pytest.approx((np.log(wins / losses), se), rel=1e-6)
        assert (found.lo, found.hi) == pytest.approx((found.log_odds - 1.959964 * se, found.log_odds + 1.959964 * se))
    y = np.r_[np.ones(wins), np.zeros(losses), np.full(ties, 0.5)]
    theirs = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Binomial()).fit(cov_type="HC0")
    half = bradley_terry(games, ties="half").difference("a", "b")
    assert (half.log_odds, half.se) == pytest.approx((theirs.params[0], theirs.bse[0]), rel=1e-6)
    # Two equal players tie with probability nu / (2 + nu); at the maximum all three shares are those seen.
    nu = bradley_terry(games).tie_parameter
    d = np.log(wins / losses)
    assert nu / (nu + 2 * np.cosh(d / 2)) == pytest.approx(ties / (wins + losses + ties))


def test_davidsons_model_is_that_of_another_maximizer_with_its_covariance() -> None:
    """Five players and an order effect; scipy's maximum and a numerical Hessian of the likelihood written anew."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(4)
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    counts = rng.integers(1, 15, (len(pairs), 3))
    found = bradley_terry([(f"p{i}", f"p{j}", *c) for (i, j), c in zip(pairs, counts, strict=True)], order_effect=True)

    def loss(q: np.ndarray) -> float:
        ability, total = np.r_[0.0, q[:4]], 0.0
        for (i, j), (first, second, tie) in zip(pairs, counts, strict=True):
            d = ability[i] - ability[j] + q[4]
            weights = np.exp([d / 2, -d / 2, q[5]])
            total -= np.log(weights / weights.sum()) @ [first, second, tie]
        return total

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-8}).x
    step = 1e-4 * np.eye(6)

    def curvature(a: np.ndarray, b: np.ndarray) -> float:
        return (loss(best + a + b) - loss(best + a - b) - loss(best - a + b) + loss(best - a - b)) / 4e-8

    hessian = [[curvature(a, b) for b in step] for a in step]
    covariance = np.linalg.inv(hessian)
    np.testing.assert_allclose(found.table["log_ability"][1:], best[:4], atol=1e-5)
    assert (found.order_effect, np.log(found.tie_parameter)) == pytest.approx((best[4], best[5]), abs=1e-5)
    np.testing.assert_allclose(found.covariance[1:, 1:], covariance[:4, :4], rtol=1e-3)
    assert found.order_effect_se == pytest.approx(np.sqrt(covariance[4, 4]), rel=1e-3)
    want = np.sqrt(covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2])
    assert found.difference("p1", "p3").se == pytest.approx(want, rel=1e-3)
    saturated = sum(c @ np.log(c / c.sum()) for c in counts)
    assert found.deviance == pytest.approx(2 * (saturated + loss(best)), abs=1e-6)


@pytest.mark.parametrize("ties", ["davidson", "half", "drop"])
def test_without_ties_all_treatments_are_the_same(ties) -> None:
    games = [("a", "b", 3, 1), ("b", "c", 2, 2), ("a", "c", 4, 1)]
    one, other = bradley_terry(games), bradley_terry(games, ties=ties)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12)
    assert one.difference("a", "c") == other.difference("a", "c") and one.deviance == other.deviance


@given(st.lists(st.sampled_from(["", "w", "l", "t", "wl", "wt", "lt"]), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_an_estimate_exists_where_a_linear_program_finds_no_direction_that_predicts_all(kinds: list[str]) -> None:
    """Four players; the likelihood has no finite maximum if some direction never lowers the chance of what was seen."""
    from scipy.optimize import linprog

    pairs = [(i, j) for i in range(4) for j in range(i)]
    games = [(f"p{i}", f"p{j}", *(int(k in kind) for k in "wlt")) for (i, j), kind in zip(pairs, kinds, strict=True)]
    if not any(kinds) or not any("t" in kind for kind in kinds):
        return
    rows = []  # each row: what was seen rises at least as much as another result; parameters are abilities, log nu
    for (i, j), kind in zip(pairs, kinds, strict=True):
        d = np.zeros(5)
        d[[i, j]] = 0.5, -0.5
        of = {"w": d, "l": -d, "t": np.eye(5)[4]}
        rows += [of[seen] - of[other] for seen in kind for other in "wlt" if other != seen]
    rows = np.array(rows)
    found = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=[(-1, 1)] * 5)
    identified = np.linalg.matrix_rank(rows) == 4  # all but the shift of all abilities
    result = bradley_terry(games)
    assert result.exists == (-found.fun < 1e-9 and identified)
    assert result.exists == (result.table["part"].n_unique() == 1)
    if result.exists:
        assert np.isfinite(result.covariance).all() and (result.table["se"][1:] > 0).all()
    else:
        assert result.reason


def test_ties_alone_say_nothing_and_ties_with_wins_of_one_side_have_no_finite_estimate() -> None:
    tied = bradley_terry([("a", "b", 0, 0, 5)])
    assert not tied.exists and "every comparison is a tie" in tied.reason and tied.table["se"].to_list() == [0, 0]
    with pytest.raises(TableError, match="no estimate of a against b: every comparison is a tie"):
        tied.difference("a", "b")
    ahead = bradley_terry([("a", "b", 3, 0, 5)])
    assert not ahead.exists and "no circle of comparisons holds more wins than ties" in ahead.reason
    # a beats b, b beats c, c ties a: two wins and one tie round the circle hold all three.
    assert bradley_terry([("a", "b", 1, 0), ("b", "c", 1, 0), ("c", "a", 0, 0, 1)]).exists
    half = bradley_terry([("a", "b", 0, 0, 5)], ties="half").difference("a", "b")
    assert (half.log_odds, half.se, half.lo, half.reason) == (0.0, None, None, "the comparisons have no spread")
    assert bradley_terry([("a", "b", 0, 0, 5)], ridge=0.1).exists is False


def test_an_order_effect_with_ties_is_refused_only_where_it_predicts_them_too() -> None:
    games = [("a", "b", 2, 0, 3), ("b", "a", 2, 0, 3)]
    with pytest.raises(TableError, match="no finite estimate"):
        bradley_terry([*games, ("a", "c", 1, 0), ("c", "a", 1, 0)], order_effect=True)
    assert bradley_terry([*games, ("a", "b", 0, 1)], order_effect=True).order_effect > 0


def test_the_reference_player_is_zero_and_changes_no_difference() -> None:
    games = [("a", "b", 3, 1), ("b", "c", 2, 2), ("a", "c", 4, 1)]
    one, two = bradley_terry(games), bradley_terry(games, reference="c")
    assert two.table.filter(pl.col("player") == "c").select("log_ability", "se").row(0) == (0.0, 0.0)
    assert one.difference("a", "b").log_odds == pytest.approx(two.difference("a", "b").log_odds)


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
                expected += (first + second) / (1 + np.exp(-result.difference(name, other).log_odds))
        assert expected == pytest.approx(result.table["wins"][i], abs=1e-7)
    renamed = bradley_terry([(f"p{order[int(a[1])]}", f"p{order[int(b[1])]}", x, y) for a, b, x, y in records[::-1]])
    assert renamed.difference(f"p{order[0]}", f"p{order[3]}").log_odds == pytest.approx(
        result.difference("p0", "p3").log_odds
    )


def test_an_order_effect_that_predicts_everything_is_refused() -> None:
    games = [("a", "b", 2, 0), ("b", "a", 2, 0)]
    assert bradley_terry(games).difference("a", "b").log_odds == pytest.approx(0.0)
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
    result = pairwise(frame, ties="half", resamples=50)
    assert result.estimate.difference("a", "b").log_odds == pytest.approx(np.log(2.5 / 1.5))
    assert result.table.select(
        "model", "rating_rank", "wins", "losses", "ties", "n_comparisons", "n_clusters"
    ).rows() == [
        ("a", 1, 2, 1, 1, 4, 4),
        ("b", 2, 1, 2, 1, 4, 4),
    ]
    for how in ("davidson", "drop"):
        assert pairwise(frame, ties=how, resamples=50).estimate.difference("a", "b").log_odds == pytest.approx(
            np.log(2)
        )
    assert pairwise(frame, ties="drop", resamples=50).table["n_comparisons"].to_list() == [3, 3]


def test_two_tied_tasks_give_no_interval_and_say_why() -> None:
    two = runs({"a": [1, 0], "b": [1, 0]})
    result = pairwise(two, resamples=200)
    assert result.table.select("lo", "hi", "no_interval", "n_clusters").rows() == [
        (None, None, "no single rating exists", 2)
    ] * 2  # fmt: skip
    assert any("every comparison is a tie" in note for note in result.notes())
    half = pairwise(two, ties="half", resamples=200)
    assert half.table["lo"].null_count() == 2 and half.table["no_interval"].to_list() == ["too few: 2 tasks"] * 2
    many = pairwise(runs({"a": [1, 0] * 4, "b": [1, 0] * 4}), ties="half", resamples=200)
    assert many.table["lo"].null_count() == 2 and many.table["no_interval"][0] == "no spread between the units"
    assert any("no spread between the units" in note for note in many.notes())


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
    tied = _win_matrix(3, ij, np.array([[5.0, 5.0], [0.0, 0.0], [9.0, 9.0]]))
    got = newton_together(np.stack([beats, beats]), np.stack([tied, 0 * tied]), 0.0)
    for replicate, ties in zip(got, ((5, 0, 9), (0, 0, 0)), strict=True):
        games = [(a, b, *w, t) for a, b, w, t in zip("aba", "bcc", wins, ties, strict=True)]
        want = bradley_terry(games).table["log_ability"].to_numpy()
        np.testing.assert_allclose(replicate, want - want.mean(), atol=1e-8)


def test_one_row_and_published_counts_are_refused() -> None:
    with pytest.raises(TableError, match="one only"):
        pairwise(runs({"a": [1, 0]}))
    with pytest.raises(TableError, match="pairs rows by task"):
        pairwise(datasets.published_round("2026-10-09"))


def test_wins_losses_and_ties_print_as_whole_numbers_and_rows_as_on_the_leaderboard() -> None:
    result = pairwise(datasets.simulated_release(scale=0.2), resamples=20)
    shown = result.sheet().cells
    assert shown.columns[:4] == ["Row", "Rating rank", "Log ability", "Interval"] and "Part" not in shown.columns
    for column in ("wins", "losses", "ties"):
        assert [int(text) for text in shown[column.capitalize()]] == result.table[column].to_list()
    assert any(" · " in row for row in shown["Row"]) and not all(" · " in row for row in shown["Row"])


@pytest.mark.parametrize("seed", [-1, "a", 1.5])
def test_a_seed_that_is_none_is_refused(seed: object) -> None:
    with pytest.raises(TableError, match="seed is "):
        pairwise(datasets.simulated_release(scale=0.2), seed=seed)
