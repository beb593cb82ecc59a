"""Adjusted scores of incomplete data, and their intervals: by hand, against refits without a task, the bad inputs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from cilab import testing
from cilab.core.errors import TableError
from cilab.stats.methods import row_task_model as model
from cilab.stats.methods import uncertainty
from cilab.stats.methods.row_task_model import Trials, Widths, expit
from cilab.stats.teamwork.fill_in import (
    _checked_shift,
    _shift_influence,
    fill_in,
    fillable,
    hide_and_predict,
    trials_of,
)
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.scores import dimensions, leaderboard
from cilab.stats.teamwork.weighting import weighting
from cilab.testing import run, runs

WIDTHS = (0.5, 1.2)
_COUNTS = ("n_scored", "n_filled", "n_filled_gated", "n_filled_missing", "n_missing")


def drawn(
    n_rows: int = 8, n: int = 12, dims: int = 2, seed: int = 0, best: float = 1.5, **columns: object
) -> pl.DataFrame:
    """Runs from the fill-in's own model, gate and three tests; simulated."""
    rng = np.random.default_rng(seed)
    eta = np.linspace(-1, best, n_rows)[:, None] - rng.normal(0, 1.2, n * dims)
    tests = (rng.random((*eta.shape, 3)) < expit(eta)[..., None]).astype(float)
    solved = rng.random(eta.shape) < expit(eta + 1)
    tests[~solved] = np.nan
    return testing.grid(tests, solved, dimensions=[f"d{t // n}" for t in range(n * dims)], **columns)


def alone_ten_and_four() -> pl.DataFrame:
    """Two models solve 10 and 4 of 10 tasks alone; each passes every other test of a task it solved."""
    rows = []
    for name, n in (("a", 10), ("b", 4)):
        rows += [run(name, f"d:{t}", "alone", float(t < n)) for t in range(10)]
        rows += [run(name, f"d:{t}", "test", float(t % 2 == 0)) for t in range(n)]
    return runs(rows)


def matrix() -> pl.DataFrame:
    """Model a has the four easy tasks of eight, b (two failed alone) and c all of them."""
    rows = []
    for name, tried, solved, passed in (("a", 4, 4, 4), ("b", 8, 6, 3), ("c", 8, 8, 5)):
        rows += [run(name, f"d:{t}", "alone", float(t < solved)) for t in range(tried)]
        rows += [run(name, f"d:{t}", "test", float(t < passed)) for t in range(solved)]
    return runs(rows)


def line(result, name: str) -> dict:
    """One row of the table."""
    return result.table.filter(pl.col("model") == name).row(0, named=True)


def counts(result, name: str) -> tuple[int, ...]:
    found = line(result, name)
    return tuple(found[c] for c in _COUNTS)


# -- versions and missing tasks ---------------------------------------------------------------------------


@pytest.mark.parametrize("fill", ["gated", "missing", "both"])
def test_of_version_alone_nothing_is_filled_in_and_the_shares_are_100_and_40(fill) -> None:
    # 10 of 10 and 4 of 10; filled in, model b once had 99.2.
    result = fill_in(alone_ten_and_four(), version="alone", fill=fill)
    assert [(r["model"], r["adjusted_pct"], r["n_filled"]) for r in result.table.iter_rows(named=True)] == [
        ("a", 100.0, 0),
        ("b", 40.0, 0),
    ]
    text = " ".join(result.notes())
    assert "Nothing is filled in, as" in text and "adjusted scores are the scores" in text
    assert ("no gate keeps tasks out" in text) == (fill != "missing")


def test_a_row_that_lacks_four_of_eight_tasks_says_so_or_has_them_filled_in() -> None:
    gated = fill_in(matrix(), widths=WIDTHS)
    assert counts(gated, "a") == (4, 0, 0, 0, 4) and counts(gated, "b") == (6, 2, 2, 0, 0)
    assert line(gated, "a")["adjusted_pct"] == 100.0
    words = "Tasks with a missing run stay out: a 4 of 8; fill='missing' or 'both' fills in 4 of them."
    assert words in gated.notes()
    assert dict(gated.sheet().cells.select("Row", "Missing").rows()) == {"a": "4", "b": "0", "c": "0"}

    missing = fill_in(matrix(), widths=WIDTHS, fill="missing")
    assert counts(missing, "a") == (4, 4, 0, 4, 4) and counts(missing, "b") == (6, 0, 0, 0, 0)
    # Four passed, four as the model has them: no shift, as nothing says that missing tasks are hard.
    want = 100 * (4 + expit(missing.fit.logits[0, 4:]).sum()) / 8
    assert line(missing, "a")["adjusted_pct"] == pytest.approx(want)
    assert line(missing, "b")["adjusted_pct"] == line(missing, "b")["score_pct"] == 50.0
    assert "Filled in: 4 missing." in missing.notes()

    both = fill_in(matrix(), widths=WIDTHS, fill="both", shift=-3.0)
    assert counts(both, "a") == (4, 4, 0, 4, 4) and counts(both, "b") == (6, 2, 2, 0, 0)
    assert line(both, "a")["adjusted_pct"] == pytest.approx(want)
    own = 100 * (3 + expit(both.fit.logits[1, 6:] - 3.0).sum()) / 8
    assert line(both, "b")["adjusted_pct"] == pytest.approx(own)
    assert "Filled in: 2 failed alone, 4 missing." in both.notes()


def test_without_the_gate_tasks_without_a_test_are_missing_and_can_be_filled_in() -> None:
    found = fill_in(matrix(), widths=WIDTHS, gate="off", fill="missing")
    assert counts(found, "a") == (4, 4, 0, 4, 4) and counts(found, "b") == (6, 2, 0, 2, 2)
    none = fill_in(matrix(), widths=WIDTHS, gate="off")
    assert none.table["n_filled"].sum() == 0
    assert none.table["adjusted_pct"].to_list() == none.table["score_pct"].to_list()
    assert "Nothing is filled in, as no gate keeps tasks out: adjusted scores are the scores." in none.notes()


def test_a_task_that_no_row_has_a_score_on_stays_out() -> None:
    rows = matrix().with_columns(
        status=pl.when((pl.col("task_id") == "d:7") & (pl.col("version") == "test"))
        .then(pl.lit("error"))
        .otherwise("status")
    )
    frame = rows.with_columns(score=pl.when(pl.col("status") == "ok").then("score"))
    found = fill_in(frame, widths=WIDTHS, fill="both")
    assert counts(found, "c") == (7, 0, 0, 0, 1) and counts(found, "a") == (4, 3, 0, 3, 4)
    assert any("c 1 of 8; no other row has a score on them." in note for note in found.notes())


def test_a_version_is_filled_in_as_the_test_would_be() -> None:
    frame = drawn()
    renamed = frame.with_columns(version=pl.col("version").replace("test", "baseline"))
    one = fill_in(frame, widths=WIDTHS)
    two = fill_in(renamed, widths=WIDTHS, version="baseline")
    assert one.table.equals(two.table) and one.table["n_filled"].sum() > 0
    assert weighting(renamed, version="baseline", resamples=20).table["dr_pct"].null_count() == 0


def test_weighting_says_which_tasks_it_leaves_out_and_refuses_a_version_without_a_gate() -> None:
    words = "Tasks with a missing run stay out: a 4 of 8; cilab.fill_in fills them in."
    assert words in weighting(matrix(), resamples=20).notes()
    with pytest.raises(TableError, match="version='alone' is scored without it"):
        weighting(alone_ten_and_four(), version="alone")


def test_a_refused_task_is_not_missing_and_is_not_filled_in() -> None:
    frame = matrix().with_columns(
        status=pl.when((pl.col("model") == "b") & (pl.col("task_id") == "d:7"))
        .then(pl.lit("refused"))
        .otherwise("status")
    )
    frame = frame.with_columns(score=pl.when(pl.col("status") == "ok").then("score"))
    assert counts(fill_in(frame, widths=WIDTHS, fill="both"), "b") == (6, 1, 1, 0, 0)


# -- what tasks contribute --------------------------------------------------------------------------------


def test_what_a_task_contributes_through_the_fit_is_what_a_refit_without_it_moves() -> None:
    rng = np.random.default_rng(1)
    slices = (slice(0, 40), slice(40, 70))
    eta = np.linspace(-1, 1, 6)[:, None] - rng.normal(0, 1, 70)
    n = np.where(rng.random(eta.shape) < 0.8, 3.0, 0.0)
    trials = Trials(rng.binomial(3, expit(eta)) * (n > 0), n, slices)
    widths = Widths(0.6, 1.0)
    fit = model.fit(trials, widths)
    gradient = np.zeros((2, 70))
    gradient[0, :10], gradient[1, 45:60] = 0.1, np.linspace(-1, 2, 15)
    got = model.task_influence(fit, trials, np.array([0, 4]), gradient)

    def moved(t: int) -> np.ndarray:
        hide = np.zeros(n.shape, bool)
        hide[:, t] = True
        rest = model.fit(trials.without(hide), widths, fit)
        # The task's own difficulty goes back to its prior without its runs; the task itself is held where it was.
        change = fit.logits - rest.logits
        change[:, t] = np.repeat(fit.level - rest.level, [40, 30], axis=0).T[:, t] + 0.0
        return np.array([gradient[0] @ change[0], gradient[1] @ change[4]])

    outside = [t for t in range(70) if not gradient[:, t].any()]
    want = np.array([moved(t) for t in range(70)]).T
    for k in (0, 1):
        for d in slices:
            here = [t for t in outside if d.start <= t < d.stop]
            a, b = got[k, here], want[k, here]
            assert np.corrcoef(a, b)[0, 1] > 0.995
            assert a.std() == pytest.approx(b.std(), rel=0.1)
    assert got[:, :40].sum(axis=1) == pytest.approx([0, 0], abs=1e-12)


def test_what_a_task_adds_to_the_shift_is_what_leaving_it_out_moves() -> None:
    g = grid(drawn(n_rows=7, n=20, seed=4, best=3.0))
    widths = Widths(*WIDTHS)

    def shift(part):
        trials = trials_of(part)
        fit = model.fit(trials, widths)
        pairs = hide_and_predict(part, trials, fit)[1]
        return _checked_shift(pairs), trials, pairs

    whole, trials, pairs = shift(g)
    got = _shift_influence(g, trials, widths, pairs, whole)
    left = np.array([shift(g.where(np.arange(40) != t))[0].value for t in range(40)])
    # Jackknife within dimension: (n - 1) times how far the others' mean lies from each, over n.
    want = np.concatenate([19 / 20 * (left[d].mean() - left[d]) for d in g.slices])
    assert whole.by_check and np.corrcoef(got, want)[0, 1] > 0.98
    assert np.sqrt((got**2).sum()) == pytest.approx(np.sqrt((want**2).sum()), rel=0.1)


def test_the_interval_follows_the_jackknife_of_the_whole_estimate() -> None:
    frame = drawn(n_rows=7, n=14, seed=4, best=3.0)
    found = fill_in(frame, widths=WIDTHS)
    names = frame["task_id"].unique(maintain_order=True).to_list()
    left = []
    for name in names:
        part = fill_in(frame.filter(pl.col("task_id") != name), widths=WIDTHS, resamples=20).table
        left.append(part.sort("model")["adjusted_pct"].to_numpy() / 100)
    jackknife = np.array(left).reshape(2, 14, 7)
    jackknife -= jackknife.mean(axis=1, keepdims=True)
    se = np.sqrt((13 / 14 * (jackknife**2).sum(axis=1)).sum(axis=0))
    for row, own in zip(found.table.sort("model").iter_rows(named=True), se, strict=True):
        half = (row["hi_pct"] - row["lo_pct"]) / 200
        n = row["n_scored"]
        # Student's t at the units' degrees of freedom; the score interval is not symmetric, so near it.
        t = uncertainty.t_quantile(0.975, n - 2)
        assert half == pytest.approx(t * own, rel=0.25)


# -- intervals --------------------------------------------------------------------------------------------


def test_where_nothing_is_filled_in_the_intervals_are_the_leaderboards() -> None:
    frame = drawn()
    filled = fill_in(frame, gate="off", widths=WIDTHS)
    plain = leaderboard(frame, gate="off").table.sort("model")
    columns = ["lo_pct", "hi_pct", "no_interval", "n_clusters"]
    for row, want in zip(filled.table.sort("model").iter_rows(named=True), plain.iter_rows(named=True), strict=True):
        assert row["adjusted_pct"] == pytest.approx(want["score_pct"])
        assert [row[c] for c in columns[2:]] == [want[c] for c in columns[2:]]
        assert [row[c] for c in columns[:2]] == pytest.approx([want[c] for c in columns[:2]])
    cells, want = filled.dimensions.sort("model", "dimension"), dimensions(frame, gate="off").table
    np.testing.assert_allclose(cells["lo_pct"], want.sort("model", "dimension")["lo_pct"])


def test_what_is_filled_in_makes_an_interval_wider_than_treating_it_as_observed() -> None:
    frame = drawn(n_rows=8, n=25, seed=2)
    found = fill_in(frame, widths=WIDTHS)
    g = grid(frame)
    filled = np.where(g.scored, g.values, expit(found.fit.logits + found.value("shift")))
    order = [g.names.index(name) for name in found.table["model"]]
    for row, r in zip(found.table.iter_rows(named=True), order, strict=True):
        naive = uncertainty.mean_bounds(filled[r], strata=g.dimension_of)
        if row["n_filled"] > 10:
            assert row["hi_pct"] - row["lo_pct"] > 1.15 * 100 * (naive.hi - naive.lo)


def test_families_of_alike_tasks_count_as_one_unit_each() -> None:
    frame = drawn(n=12, seed=3)
    # Each task three times over, as a family: three times the tasks and no more is known.
    copies = [frame.with_columns(pl.format("{}:{}", "task_id", pl.lit(k)).alias("task_id")) for k in range(3)]
    thrice = pl.concat(
        [
            c.with_columns(
                pl.col("task_id").str.split(":").list.first().alias("source_family"),
                pl.format("{}|{}", "run_id", pl.lit(k)).alias("run_id"),
            )
            for k, c in enumerate(copies)
        ]
    )
    tasks = fill_in(thrice, widths=WIDTHS, shift=0.0).table.sort("model")
    families = fill_in(thrice, widths=WIDTHS, shift=0.0, cluster="source_family").table.sort("model")
    assert tasks["adjusted_pct"].to_list() == families["adjusted_pct"].to_list()
    assert families["n_clusters"].to_list() == [n // 3 for n in tasks["n_clusters"]]
    ratio = (families["hi_pct"] - families["lo_pct"]) / (tasks["hi_pct"] - tasks["lo_pct"])
    assert ((ratio > 1.5) & (ratio < 2.2)).all()  # the square root of 3, and a larger t


def test_a_row_that_passes_what_it_solved_is_no_surer_than_its_scored_tasks_allow() -> None:
    solved = np.array([[True] * 10] * 3 + [[True] * 6 + [False] * 4])
    found = fill_in(testing.grid(np.where(solved, 1.0, np.nan), solved), widths=WIDTHS)
    some, full = line(found, "m3"), line(found, "m0")
    # Clopper and Pearson of 6 of 6 and of 10 of 10 passed: (alpha / 2)^(1 / n).
    assert (some["lo_pct"], some["hi_pct"]) == (pytest.approx(100 * 0.025 ** (1 / 6)), 100.0)
    assert (full["lo_pct"], full["hi_pct"]) == (pytest.approx(100 * 0.025 ** (1 / 10)), 100.0)
    assert some["adjusted_pct"] < 100 and some["n_clusters"] == 6


def test_two_scored_tasks_give_no_interval_however_many_are_filled_in() -> None:
    solved = np.ones((4, 10), bool)
    solved[0, 2:] = False
    values = np.where(solved, np.arange(10) % 2, np.nan)
    row = line(fill_in(testing.grid(values, solved), widths=WIDTHS), "m0")
    assert (row["lo_pct"], row["hi_pct"], row["no_interval"]) == (None, None, "too few: 2 tasks")
    assert row["adjusted_pct"] is not None and row["n_filled"] == 8


def test_percentiles_by_name_leave_the_scores_as_they_are() -> None:
    frame = drawn()
    rule, paper = fill_in(frame, widths=WIDTHS), fill_in(frame, widths=WIDTHS, interval="percentile", resamples=400)
    assert rule.table["adjusted_pct"].equals(paper.table["adjusted_pct"])
    assert not rule.table["lo_pct"].equals(paper.table["lo_pct"])
    assert "fill-ins drawn anew" in paper.caption and "fill-ins drawn anew" not in rule.caption


# -- bad input --------------------------------------------------------------------------------------------


def test_one_row_has_a_score_and_an_interval_and_nothing_to_be_shifted_by() -> None:
    solved = np.array([[True] * 7 + [False] * 3])
    frame = testing.grid(np.where(solved, np.arange(10) % 2, np.nan), solved)
    found = fill_in(frame, widths="empirical_bayes")
    row = line(found, "m0")
    assert row["n_filled"] == 3 and row["lo_pct"] < row["adjusted_pct"] < row["hi_pct"]
    note = found.quantities.filter(pl.col("quantity") == "shift")["note"][0]
    assert found.value("shift") == 0 and "no pair of weaker rows" in note


def test_one_task_has_a_score_without_an_interval_and_says_which_rows_have_none() -> None:
    passed = np.array([[1.0], [0.0], [1.0], [1.0], [1.0]])
    found = fill_in(testing.grid(passed))
    assert found.table["no_interval"].to_list() == ["too few: 1 task"] * 5
    assert "Scores without an interval: 5 of 5 (column no_interval says why)." in found.notes()
    solved = passed == 1
    failed = fill_in(testing.grid(np.where(solved, 1.0, np.nan), solved), widths="empirical_bayes")
    assert line(failed, "m1")["adjusted_pct"] is None
    assert "No scored task, so no adjusted score: m1 in d." in failed.notes()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_passed_or_all_failed_has_no_interval_of_width_zero(value) -> None:
    solved = np.ones((4, 10), bool)
    solved[0, 8:] = False
    found = fill_in(testing.grid(np.where(solved, value, np.nan), solved))
    assert (found.table["hi_pct"] - found.table["lo_pct"]).min() > 20
    assert (found.table["lo_pct"] <= found.table["adjusted_pct"]).all()
    assert (found.table["adjusted_pct"] <= found.table["hi_pct"]).all()


def test_nothing_to_fill_in_needs_no_folds_and_gives_the_scores_with_a_reason() -> None:
    found = fill_in(testing.grid([[1.0, 0.0, 1.0, 1.0]]))
    assert line(found, "m0")["adjusted_pct"] == 75.0
    assert "Nothing is filled in, as no row failed a task alone: adjusted scores are the scores." in found.notes()
    note = found.quantities.filter(pl.col("quantity") == "log_loss").row(0, named=True)
    assert note["value"] is None and "at least 10 scored cells" in note["note"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([run("a", f"d:{t}", "alone", 0.0) for t in range(4)], "no scored run of version test"),
        (
            [run("a", f"d:{t}", v, None, status="refused") for t in range(4) for v in ("alone", "test")],
            "no scored run of version test",
        ),
        (
            [run("a", f"d:{t}", v, s) for t in range(4) for v, s in (("alone", 0.0), ("test", 1.0))],
            "no task is solved alone and scored in any row",
        ),
    ],
)
def test_all_failed_alone_and_all_refused_are_one_clear_line(rows, words) -> None:
    with pytest.raises(TableError, match=words) as refusal:
        fill_in(runs(rows))
    assert "\n" not in str(refusal.value)


def test_intervals_lie_within_0_and_100_and_hold_their_score() -> None:
    for seed in range(4):
        found = fill_in(drawn(n_rows=5, n=5, dims=3, seed=seed), widths=WIDTHS, fill="both")
        for table in (found.table, found.dimensions):
            there = table.filter(pl.col("lo_pct").is_not_null())
            assert there.height and (there["lo_pct"] >= 0).all() and (there["hi_pct"] <= 100).all()
            assert (there["lo_pct"] <= there["adjusted_pct"] + 1e-9).all()
            assert (there["adjusted_pct"] <= there["hi_pct"] + 1e-9).all()
            assert ((there["hi_pct"] - there["lo_pct"]) > 1).all()
            assert (
                table["adjusted_pct"].is_null() | table["lo_pct"].is_not_null() | table["no_interval"].is_not_null()
            ).all()


def test_fillable_are_the_tasks_failed_alone_whatever_else_is_filled_in() -> None:
    g = grid(matrix())
    assert fillable(g).sum(axis=1).tolist() == [0, 2, 0]
