"""Effort, cost, loss, capability and release dates: by hand, the published round, and the simulated release."""

from __future__ import annotations

from datetime import date
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from cilab import datasets, testing
from cilab.core.errors import TableError
from cilab.stats.teamwork.capability import capability
from cilab.stats.teamwork.effort import effort
from cilab.stats.teamwork.loss import loss
from cilab.stats.teamwork.pareto import _beaten, pareto
from cilab.stats.teamwork.release import release
from cilab.stats.teamwork.scores import leaderboard
from cilab.testing import runs as frame

run = partial(testing.run, cost_usd=1.0, tokens_out=100)


def played(model, tests, alone=1.0, baseline=None, **more) -> list[dict]:
    rows = []
    for i, (task, scores) in enumerate(tests.items()):
        rows.append(run(model, task, "alone", alone, **more))
        if baseline is not None:
            rows.append(run(model, task, "baseline", baseline[i], **more))
        rows += [run(model, task, "test", v, s, **more) for s, v in enumerate(scores)]
    return rows


@pytest.fixture(scope="module")
def simulated():
    return datasets.simulated_release()


# -- effort ------------------------------------------------------------------------------------------------


def test_effort_pairs_tasks_solved_alone_at_both_and_drops_ties_by_hand() -> None:
    low = played("m", {"d:1": [0, 0], "d:2": [1, 0], "d:3": [1, 1], "e:1": [0, 1], "e:2": [0, 0]}, effort="default")
    high = played("m", {"d:1": [1, 0], "d:2": [0, 0], "d:3": [1, 1], "e:1": [1, 1]}, effort="high", cost_usd=3.0)
    high += [run("m", "e:2", "alone", 0.0, effort="high")]  # not solved alone at high effort: no pair
    result = effort(frame(low + high), resamples=50)
    row = result.table.row(0, named=True)
    assert (row["n_better"], row["n_worse"], row["n_tied"]) == (2, 1, 1)
    assert row["p"] == pytest.approx(1.0)  # 2 of 3, two-sided
    assert row["default_pct"] == pytest.approx(100 * (0.5 + 0.25) / 2)
    assert row["high_pct"] == pytest.approx(100 * (0.5 + 1) / 2)
    assert row["cost_ratio"] == pytest.approx(37 / 15)  # 12 runs at 3, one at 1; 15 runs at 1
    pairs = {r["dimension"]: r for r in result.dimensions.iter_rows(named=True)}
    assert (pairs["d"]["n_pairs"], pairs["d"]["n_zero_only_high"], pairs["d"]["n_zero_only_default"]) == (6, 1, 1)
    assert (pairs["e"]["n_pairs"], pairs["e"]["n_zero_only_high"], pairs["e"]["n_zero_only_default"]) == (2, 0, 1)
    of_e = result.cells.filter(pl.col("dimension") == "e").row(0, named=True)
    assert (of_e["default_pct"], of_e["both_default_pct"], of_e["both_high_pct"]) == (25, 50, 100)
    assert (of_e["default_tokens_out"], of_e["high_tokens_out"], of_e["default_tool_calls"]) == (100, 100, None)
    assert (pairs["e"]["n_better"], pairs["e"]["n_worse"], pairs["e"]["diff_points"]) == (1, 0, pytest.approx(75))
    assert result.n_used + sum(result.n_left_out.values()) == 28


@pytest.mark.parametrize(("better", "worse", "p"), [(46, 19, 0.001), (20, 46, 0.002), (66, 37, 0.006)])
def test_the_papers_sign_tests_come_out(better, worse, p) -> None:
    """Appendix E: initiative, conflict by task, and giving in by task and seed (CI052, CI054, CI055)."""
    tests = {f"d:{i}": ([0.0], [1.0]) if i < better else ([1.0], [0.0]) for i in range(better + worse)}
    low = played("m", {t: a for t, (a, _) in tests.items()}, effort="default")
    high = played("m", {t: b for t, (_, b) in tests.items()}, effort="high")
    result = effort(frame(low + high), resamples=50)
    row, by_seed = result.table.row(0, named=True), result.dimensions.row(0, named=True)
    assert (row["n_better"], row["n_worse"]) == (better, worse)
    assert round(row["p"], 3) == p and round(by_seed["p_pairs"], 3) == p
    assert row["p"] == pytest.approx(stats.binomtest(better, better + worse).pvalue)


def test_effort_on_the_simulated_release_moves_as_in_the_paper(simulated) -> None:
    result = effort(simulated, resamples=200)
    assert result.table.height == 6
    board = leaderboard(simulated, resamples=20).table
    scores = {(r["model"], r["effort"]): r["score_pct"] for r in board.iter_rows(named=True)}
    for row in result.table.iter_rows(named=True):
        assert row["diff_points"] == pytest.approx(scores[row["model"], "high"] - scores[row["model"], "default"])
        assert row["lo_points"] < row["diff_points"] < row["hi_points"]
    ratios = result.table["cost_ratio"]
    assert 0.9 < ratios.min() < 1.2 and 4 < ratios.max() < 5.5  # "by 1.0 to 4.8"
    busy = result.cells.filter((pl.col("model") == "sim:O1") & (pl.col("dimension") == "taking_initiative"))
    fewer = busy["high_tool_calls"].item() / busy["default_tool_calls"].item()
    assert fewer == pytest.approx(54 / 89, abs=0.12)  # appendix E: 54 tool calls a run instead of 89
    change = {r["dimension"]: r for r in result.dimensions.iter_rows(named=True)}
    assert change["handling_conflict"]["n_worse"] > change["handling_conflict"]["n_better"]
    assert change["emotional_intelligence"]["diff_points"] > 0
    assert result.output_length.row(0, named=True)["r"] == pytest.approx(-0.35, abs=0.12)  # CI056


def test_effort_needs_two_settings_and_known_tasks() -> None:
    rows = frame(played("m", {"d:1": [1.0]}, effort="low") + played("m", {"d:1": [1.0]}, effort="high"))
    with pytest.raises(TableError, match="no model was run at its default and at another"):
        effort(rows)
    assert effort(rows, default="low", resamples=50).table["p"].item() == 1.0
    with pytest.raises(TableError, match="no row has effort 'lo'"):
        effort(rows, default="lo")
    with pytest.raises(TableError, match="effort pairs rows by task"):
        effort(datasets.published_round("2026-10-09"))


# -- cost --------------------------------------------------------------------------------------------------


def test_the_frontier_is_the_rows_that_no_cheaper_row_beats_by_hand() -> None:
    points = {"cheap": (1, 1.0), "worse": (0, 2.0), "best": (2, 3.0), "same": (2, 4.0), "free": (0, 0.0)}
    rows = []
    for name, (n, cost) in points.items():
        tests = {f"d:{i}": [float(i < n)] for i in range(3)}
        rows += played(name, tests, cost_usd=cost / 6)
    result = pareto(frame(rows), resamples=4000)
    table = {r["model"]: r for r in result.table.iter_rows(named=True)}
    assert [m for m, r in table.items() if r["on_frontier"]] == ["free", "cheap", "best"]
    assert {m: r["beaten_by"] for m, r in table.items() if r["beaten_by"]} == {"worse": "cheap", "same": "best"}
    assert table["cheap"]["points_per_usd"] == pytest.approx(100 / 3)
    assert table["free"]["points_per_usd"] is None
    # "best" ties with "cheap" where the one task that only it passes is not among the three drawn: (2/3)^3 of them.
    assert table["best"]["frontier_pct"] == pytest.approx(100 * (1 - 8 / 27), abs=2.5)
    assert table["same"]["frontier_pct"] == 0


def test_a_row_with_an_unknown_price_is_left_out_and_named() -> None:
    rows = frame(played("a", {"d:1": [1.0], "d:2": [0.0]}) + played("b", {"d:1": [1.0], "d:2": [1.0]}))
    gone = rows.with_columns(
        cost_usd=pl.when((pl.col("model") == "b") & (pl.col("seed") == 0) & (pl.col("version") == "test"))
        .then(None)
        .otherwise("cost_usd")
    )
    result = pareto(gone, resamples=50)
    assert result.table["model"].to_list() == ["a"]
    assert dict(result.unpriced) == {"b": "the cost of some of its runs is unknown"}
    assert "Not shown: b (the cost of some of its runs is unknown)." in result.notes()
    assert result.n_used == 4 and sum(result.n_left_out.values()) == 4
    with pytest.raises(TableError, match="no row has a score and a known cost"):
        pareto(rows.drop("cost_usd"))


def test_six_rows_of_the_simulated_release_lie_on_the_frontier_and_costs_are_sums(simulated) -> None:
    result = pareto(simulated, resamples=200)
    assert result.table.height == 24
    assert result.table["on_frontier"].sum() == 6  # CI043
    costs = simulated.runs.group_by("model", "effort").agg(pl.col("cost_usd").sum().alias("sum")).collect()
    joined = result.table.join(costs, on=["model", "effort"])
    assert np.allclose(joined["cost_usd"], joined["sum"])
    assert result.table["cost_usd"].is_sorted()
    assert joined["cost_usd"].max() / joined["cost_usd"].min() == pytest.approx(369, rel=0.15)  # CI042


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_frontier_is_never_empty_and_everything_else_is_beaten_from_it(pairs) -> None:
    score, cost = np.array(pairs, dtype=float).T
    beaten = _beaten(score[None], cost)[0]
    front = ~beaten.any(axis=1)
    assert front.any()
    for i in np.flatnonzero(~front):
        assert any(front[j] for j in np.flatnonzero(beaten[i]))
    # A row that no one beats: no other is at least as good in both and better in one (brute force).
    for i, (s, c) in enumerate(pairs):
        dominated = any((t >= s and d <= c) and (t > s or d < c) for t, d in pairs)
        assert front[i] == (not dominated)


# -- loss --------------------------------------------------------------------------------------------------


def test_loss_splits_into_test_and_calm_team_by_hand_and_keeps_better_tests() -> None:
    tests = {"handling_conflict:1": [0.0, 0.5], "handling_conflict:2": [1.0, 1.0], "taking_over:1": [0.0, 0.0]}
    rows = played("m", tests, baseline=[1.0, 0.5, 1.0])
    rows += played("m", {"keeping_on_track:1": [0.0, 0.0]}, baseline=[1.0])
    result = loss(frame(rows), resamples=50)
    table = {r["dimension"]: r for r in result.table.iter_rows(named=True)}
    assert set(table) == {"overall", "handling_conflict", "keeping_on_track"}  # taking over is left out
    conflict = table["handling_conflict"]
    assert (conflict["passed_pct"], conflict["lost_test_points"], conflict["lost_calm_points"]) == (62.5, 12.5, 25)
    assert (conflict["n_tasks"], conflict["n_test_above"]) == (2, 1)
    overall = table["overall"]
    assert (overall["passed_pct"], overall["lost_test_points"], overall["lost_calm_points"]) == (31.25, 56.25, 12.5)
    assert overall["test_share_pct"] == pytest.approx(100 * 56.25 / 68.75)
    assert result.n_used == 12 and sum(result.n_left_out.values()) == 4


def test_losses_of_the_simulated_release_add_up_and_come_near_the_papers(simulated) -> None:
    result = loss(simulated, resamples=200)
    t = result.table
    assert np.allclose(t["passed_pct"] + t["lost_test_points"] + t["lost_calm_points"], 100)
    assert t.filter(pl.col("dimension") == "overall").height == 18
    by = {(r["by"], r["name"]): r for r in result.summary.iter_rows(named=True)}
    assert abs(by["all", "all"]["test_share_pct"] - 78) < 4  # CI150
    assert abs(by["group", "frontier"]["lost_calm_points"] - 3.2) < 1.5  # CI151
    assert abs(by["group", "frontier"]["lost_test_points"] - 25) < 4
    assert abs(by["group", "open-weight"]["lost_calm_points"] - 17) < 5  # CI152
    assert abs(by["dimension", "handling_conflict"]["lost_calm_points"] - 31) < 4  # CI154
    assert result.correlation["r"].item() < -0.75  # CI153: -0.92


def test_a_model_without_a_baseline_is_left_out_of_the_loss_and_named() -> None:
    result = loss(datasets.published_round("2026-10-09"), resamples=50)
    assert result.table["model"].n_unique() == 11
    assert "No baseline: GLM-5.3." in result.remarks
    with pytest.raises(TableError, match="no row has a baseline"):
        loss(frame(played("m", {"d:1": [1.0]})))


# -- capability --------------------------------------------------------------------------------------------


def test_correlations_with_capability_are_scipys_and_near_the_papers(simulated) -> None:
    measures = simulated.truth["capability"]
    result = capability(simulated, measures, resamples=300)
    board = leaderboard(simulated, resamples=20).table.filter(pl.col("effort") == "default")
    joined = board.join(measures.drop_nulls("intelligence_index"), on="model")
    first = result.table.row(0, named=True)
    test = stats.pearsonr(joined["intelligence_index"], joined["score_pct"])
    ci = test.confidence_interval(0.95)
    assert (first["measure"], first["dimension"], first["n_rows"]) == ("intelligence_index", "overall", 17)
    assert (first["r"], first["p"]) == (pytest.approx(test.statistic), pytest.approx(test.pvalue))
    assert (first["lo_models"], first["hi_models"]) == (pytest.approx(ci.low), pytest.approx(ci.high))
    assert abs(first["r"] - 0.92) < 0.05 and first["hi"] - first["lo"] < ci.high - ci.low  # CI170
    line = stats.linregress(joined["intelligence_index"], joined["score_pct"])
    fit = result.fits.row(0, named=True)
    assert fit["slope_points"] == pytest.approx(line.slope) and fit["intercept_pct"] == pytest.approx(line.intercept)
    assert fit["r_squared"] == pytest.approx(first["r"] ** 2)
    left = result.residuals.filter(pl.col("measure") == "intelligence_index")
    assert left["residual_points"].sum() == pytest.approx(0, abs=1e-9) and left.height == 17
    assert result.missing["intelligence_index"] == ["sim:O1"]
    r = dict(result.table.filter(pl.col("measure") == "intelligence_index").select("dimension", "r").iter_rows())
    assert [d for d, v in r.items() if v < 0] == ["handling_conflict"]  # CI173


def test_the_published_round_has_points_and_models_intervals_but_none_over_tasks() -> None:
    data = datasets.published_round("2026-10-09")
    names = leaderboard(data, resamples=20).table["model"].to_list()
    result = capability(data, pl.DataFrame({"model": names, "made_up": range(12)}), resamples=50)
    row = result.table.row(0, named=True)
    assert row["r"] < -0.9 and row["lo"] is None and row["lo_models"] is not None


def test_bad_measures_are_named(simulated) -> None:
    good = simulated.truth["capability"]
    assert capability(simulated, good.to_pandas(), columns=["lmarena"], resamples=50).fits.height == 1
    for bad, message in [
        (good.drop("model"), "missing column model"),
        (pl.concat([good, good]), "stands there twice"),
        (good.select("model"), "no numeric column"),
        (good.with_columns(model=pl.lit("x") + pl.col("model")), "none of its models"),
        ([1], "must be a polars or pandas"),
    ]:
        with pytest.raises(TableError, match=message):
            capability(simulated, bad, resamples=50)
    with pytest.raises(TableError, match="no numeric column 'lmarna'"):
        capability(simulated, good, columns=["lmarna"], resamples=50)
    same = capability(simulated, good.with_columns(lmarena=pl.lit(1.0)), columns=["lmarena"], resamples=50)
    assert same.table["r"].null_count() == same.table.height and same.table["undefined"].null_count() == 0


# -- release -----------------------------------------------------------------------------------------------


def test_best_so_far_by_hand_with_a_tie_on_one_day_and_an_undated_model() -> None:
    scores = {"old": 1, "open": 2, "twin": 1, "new": 3, "late": 2, "undated": 3}
    rows = [r for m, n in scores.items() for r in played(m, {f"d:{i}": [float(i < n)] for i in range(4)})]
    rows += played("old", {f"d:{i}": [0.0] for i in range(4)}, effort="high")  # its default is better
    about = pl.DataFrame(
        {
            "model": ["old", "open", "twin", "new", "late"],
            "released": [date(2025, 1, 1), date(2025, 6, 1), date(2025, 6, 1), date(2026, 1, 1), date(2026, 2, 1)],
            "open_weights": [True, True, False, False, True],
        }
    )
    result = release(frame(rows), facts=about)
    t = {r["model"]: r for r in result.table.iter_rows(named=True)}
    assert list(t) == ["old", "open", "twin", "new", "late"]
    assert [m for m, r in t.items() if r["sets_best"]] == ["old", "open", "new"]
    assert [m for m, r in t.items() if r["sets_best_open"]] == ["old", "open"]  # late only equals open
    assert t["late"]["best_so_far_pct"] == 75 and t["late"]["best_open_pct"] == 50
    assert t["old"]["score_pct"] == 25
    assert result.undated == ("undated",)
    assert_frame_equal(release(frame(rows), facts=about.to_pandas()).table, result.table)
    with pytest.raises(TableError, match="no model of these runs has both"):
        release(frame(rows), facts=about.with_columns(released=pl.lit(None, dtype=pl.Date)))
    with pytest.raises(TableError, match="missing column released"):
        release(frame(rows), facts=about.drop("released"))


def test_the_best_of_the_simulated_release_rises_to_the_top_row(simulated) -> None:
    result = release(simulated)
    assert result.table.height == 18 and result.undated == ()
    top = leaderboard(simulated, resamples=20).table["score_pct"][0]
    assert result.table["best_so_far_pct"][-1] == pytest.approx(top)
    assert result.table["best_so_far_pct"].is_sorted()
    assert result.table["sets_best"].sum() >= 5  # CI160: 6 in the paper


def test_release_reads_dates_and_weights_as_tables_write_them_and_refuses_what_is_no_frame(simulated) -> None:
    names = simulated.models.select("model").collect()["model"].sort()[:3].to_list()
    dates = [date(2025, 3, 4), date(2026, 1, 2), None]
    plain = pl.DataFrame({"model": names, "released": dates, "open_weights": [True, False, None]})
    expected = release(simulated, facts=plain).table
    text = plain.with_columns(released=pl.Series(["2025-03-04", " 2026-01-02", ""]))
    for weights in (["yes", "No", ""], ["true", "FALSE", None], [1, 0, None], [1.0, 0.0, float("nan")]):
        found = release(simulated, facts=text.with_columns(open_weights=pl.Series(weights, strict=False))).table
        assert_frame_equal(found, expected)
    for bad, words in [
        (["sim:F1"], "facts must be a polars or pandas DataFrame with model and released, not list"),
        (plain.with_columns(released=pl.lit("spring 2026")), "released holds something other than dates such as"),
        (plain.with_columns(released=2026), "released holds Int32, not dates"),
        (plain.with_columns(open_weights=pl.lit("maybe")), "open_weights is 'maybe'; give true or false"),
        (plain.with_columns(open_weights=0.5), "open_weights is '0.5'"),
        (plain.rename({"released": "release"}), "missing column released. Did you mean release"),
    ]:
        with pytest.raises(TableError, match=words):
            release(simulated, facts=bad)


def test_two_models_have_no_correlation_and_the_figure_prints_none(simulated) -> None:
    measures = simulated.truth["capability"]
    runs = simulated.runs.collect()
    two = runs.filter(pl.col("model").is_in(measures["model"].sort()[:2].to_list()))
    result = capability(two, measures, columns=["lmarena"], resamples=50)
    assert result.table["r"].null_count() == result.table["lo"].null_count() == result.table.height
    assert set(result.table["undefined"]) == {"fewer than 3 rows"} and "No r: fewer than 3 rows." in result.notes()
    assert result.fits["r_squared"].to_list() == [None] and result.residuals["fitted_pct"].null_count() == 2
    drawn = result.plot()
    words = [text.get_text() for ax in drawn.axes for text in ax.texts]
    assert not any(word.startswith("r =") for word in words) and not [
        line for ax in drawn.axes for line in ax.lines if line.get_gid() == "fit" and len(line.get_xdata())
    ]
    three = runs.filter(pl.col("model").is_in(measures["model"].sort()[:3].to_list()))
    assert capability(three, measures, columns=["lmarena"], resamples=50).table["r"].null_count() == 0


def test_without_the_gate_captions_do_not_speak_of_tasks_solved_alone(simulated) -> None:
    for statistic in (effort, loss):
        assert "solved alone" in statistic(simulated, resamples=20).caption
        assert "alone" not in statistic(simulated, resamples=20, gate="off").caption


@pytest.mark.parametrize("seed", [-1, "a", 1.5, True])
@pytest.mark.parametrize("statistic", [effort, pareto, loss])
def test_a_seed_that_is_none_is_refused_in_one_line(simulated, statistic, seed) -> None:
    with pytest.raises(TableError, match=r"seed is .*: give a whole number of at least 0"):
        statistic(simulated, seed=seed)


def test_columns_given_as_a_text_are_refused(simulated) -> None:
    with pytest.raises(TableError, match=r"columns is a text; give a list of columns, such as \['lmarena'\]"):
        capability(simulated, simulated.truth["capability"], columns="lmarena")
