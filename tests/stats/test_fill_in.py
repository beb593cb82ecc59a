"""The fill-in model against scipy, by hand, and against the truth of the simulated release."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import optimize, stats

from cilab import datasets
from cilab.core.errors import TableError
from cilab.stats.methods import bayes
from cilab.stats.methods import row_task_model as model
from cilab.stats.methods.row_task_model import Trials, Widths, expit
from cilab.stats.teamwork.fill_in import adjusted_points, fill_in, fillable, hide_and_predict, trials_of
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.scores import leaderboard


def runs(passes: np.ndarray, solved: np.ndarray, *, dimensions: int = 2, seeds: int = 3) -> pl.DataFrame:
    """Runs of rows by tasks: `passes` of `seeds` test runs pass; only solved tasks are tested."""
    n_rows, n_tasks = passes.shape
    lines = []
    for r in range(n_rows):
        for t in range(n_tasks):
            task = (f"m{r:02d}", f"t{t:03d}", f"d{t * dimensions // n_tasks}")
            lines.append((*task, "alone", 0, float(solved[r, t])))
            if solved[r, t]:
                lines += [(*task, "test", s, float(s < passes[r, t])) for s in range(seeds)]
    names = ["model", "task_id", "dimension", "version", "seed", "score"]
    return pl.DataFrame(lines, schema=names, orient="row").with_columns(status=pl.lit("ok"))


def drawn(seed: int = 0, n_rows: int = 10, n_tasks: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Passes of 3 and what is solved alone, from abilities and difficulties that both depend on."""
    rng = np.random.default_rng(seed)
    ability, difficulty = np.linspace(-1.5, 2, n_rows)[:, None], rng.normal(0, 1.2, n_tasks)
    solved = rng.random((n_rows, n_tasks)) < expit(ability - difficulty + 2)
    return rng.binomial(3, expit(ability - difficulty + 0.3)), solved


@pytest.fixture(scope="module")
def small() -> Trials:
    """4 rows, 2 dimensions of 5 and 3 tasks, graded scores, some cells empty."""
    rng = np.random.default_rng(2)
    n = np.where(rng.random((4, 8)) < 0.8, 3.0, 0.0)
    return Trials(np.round(2 * rng.random((4, 8)) * n) / 2, n, (slice(0, 5), slice(5, 8)))


def penalised(trials: Trials, widths: Widths):
    """The objective as the paper writes it: means, abilities, deviations, difficulties, each with its own prior."""
    n_rows, n_tasks = trials.runs.shape
    n_dims = len(trials.dimensions)
    of_task = np.concatenate([np.full(d.stop - d.start, k) for k, d in enumerate(trials.dimensions)])
    cuts = np.cumsum([n_dims, n_rows, n_dims * n_rows])

    def parts(x):
        mean, ability, deviation, difficulty = np.split(x, cuts)
        level = mean[:, None] + ability + deviation.reshape(n_dims, n_rows)
        return level[of_task].T - difficulty, (mean, ability, deviation, difficulty)

    def loss(x):
        eta, (mean, ability, deviation, difficulty) = parts(x)
        likelihood = (trials.passes * eta - trials.runs * np.logaddexp(0, eta)).sum()
        weak = (mean @ mean + ability @ ability) / model.WEAK**2
        return 0.5 * (weak + deviation @ deviation / widths.deviation**2 + difficulty @ difficulty / widths.task**2) - (
            likelihood
        )

    return loss, parts, int(cuts[-1] + n_tasks)


def curvature(loss, x: np.ndarray) -> np.ndarray:
    """Second derivatives by central differences."""
    h, n = 1e-3, len(x)
    e = h * np.eye(n)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = loss(x + e[i] + e[j]) - loss(x + e[i] - e[j]) - loss(x - e[i] + e[j]) + loss(x - e[i] - e[j])
    return out / (4 * h * h)


@pytest.mark.parametrize("widths", [Widths(0.5, 1.2), Widths(2.0, 0.3)])
def test_the_penalised_fit_is_the_one_that_a_general_optimiser_finds(small, widths) -> None:
    loss, parts, n = penalised(small, widths)
    found = optimize.minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-7})
    fit = model.fit(small, widths)
    np.testing.assert_allclose(fit.logits, parts(found.x)[0], atol=1e-4)
    np.testing.assert_allclose(fit.difficulty, parts(found.x)[1][3], atol=1e-4)


def test_the_laplace_draws_and_marginal_are_those_of_the_curvature_at_the_mode(small) -> None:
    widths = Widths(0.7, 1.0)
    loss, parts, n = penalised(small, widths)
    found = optimize.minimize(loss, np.zeros(n), method="BFGS", options={"gtol": 1e-7})
    second = curvature(loss, found.x)
    log_priors = np.log(np.r_[np.full(2 + 4, model.WEAK), np.full(8, widths.deviation), np.full(8, widths.task)]).sum()
    want = -found.fun - log_priors - 0.5 * np.linalg.slogdet(second)[1]
    fit = model.fit(small, widths)
    assert fit.log_marginal == pytest.approx(want, abs=2e-3)
    jacobian = np.array([(parts(found.x + e)[0] - parts(found.x - e)[0]).ravel() / 2 for e in np.eye(n)]).T
    sd = np.sqrt(np.diag(jacobian @ np.linalg.inv(second) @ jacobian.T)).reshape(small.runs.shape)
    draws = fit.draws(20_000, np.random.default_rng(0))
    for d, tasks in enumerate(small.dimensions):
        rows, at = (a.ravel() for a in np.meshgrid(np.arange(4), np.arange(tasks.start, tasks.stop), indexing="ij"))
        np.testing.assert_allclose(draws.logits(d, rows, at).std(axis=0), sd[rows, at], rtol=0.03)
        np.testing.assert_allclose(draws.logits(d, rows, at).mean(axis=0), fit.logits[rows, at], atol=0.06)


def test_where_it_starts_changes_nothing_and_a_row_that_passes_everything_has_an_estimate() -> None:
    passes, solved = drawn()
    passes[0], solved[0] = 3, True
    trials = trials_of(grid(runs(passes, solved)))
    one = model.fit(trials, Widths(0.5, 1.0))
    two = model.fit(trials, Widths(0.5, 1.0), model.fit(trials, Widths(3.0, 3.0)))
    np.testing.assert_allclose(one.logits, two.logits, atol=1e-6)
    assert np.isfinite(one.logits).all() and (one.logits[0] > 1).all()


def test_fits_made_together_are_those_made_alone(monkeypatch) -> None:
    rng = np.random.default_rng(6)
    dimensions = (slice(0, 9), slice(9, 10), slice(10, 16))
    n = np.full((5, 16), 3.0)
    # One of noise, one all passed, one with hardly a cell: each takes another number of steps.
    one = Trials(rng.binomial(3, 0.5, n.shape).astype(float), n, dimensions)
    few = one.only(rng.random(n.shape) < 0.1)
    every = [one, Trials(n, n, dimensions), few, one.without(rng.random(n.shape) < 0.3)]
    widths = Widths(0.6, 1.3)
    starts = [None, None, model.fit(one, Widths(2.0, 2.0)), None]
    for at_once in (1, 200, 60_000):
        monkeypatch.setattr(model, "_AT_ONCE", at_once)
        for got, trials in zip(model.fit_each(every, widths, starts), every, strict=True):
            want = model.fit(trials, widths)
            np.testing.assert_allclose(got.logits, want.logits, atol=1e-7)
            np.testing.assert_allclose(got.logits_of(3), want.logits[3], atol=1e-7)
            assert got.log_marginal == pytest.approx(want.log_marginal, abs=1e-4)
    assert model.fit_each([], widths, []) == []


def test_scores_that_are_no_fractions_do_not_converge_and_say_so() -> None:
    with pytest.raises(TableError, match="lie between 0 and 1"):
        model.fit(Trials(np.full((2, 3), np.nan), np.full((2, 3), 3.0), (slice(0, 3),)), Widths(1.0, 1.0))


def test_empirical_bayes_finds_the_widths_that_made_the_data() -> None:
    rng = np.random.default_rng(4)
    dims = tuple(slice(40 * k, 40 * k + 40) for k in range(6))
    level = rng.normal(0, 1, 30) + rng.normal(0, 0.8, (6, 30)) + rng.normal(0, 0.5, (6, 1))
    eta = np.repeat(level, 40, axis=0).T - rng.normal(0, 1.3, 240)
    fit = model.empirical_bayes(Trials(rng.binomial(3, expit(eta)).astype(float), np.full(eta.shape, 3.0), dims))
    assert fit.widths.deviation == pytest.approx(0.8, rel=0.15)
    assert fit.widths.task == pytest.approx(1.3, rel=0.15)


def test_held_out_loss_counts_whole_cells_and_a_graded_run_as_half_of_each() -> None:
    trials = Trials(np.array([[1.5, 0.0]]), np.array([[3.0, 0.0]]), (slice(0, 2),))
    got = model._log_loss(trials, np.array([[0.4, 9.0]]))
    p = 1 / (1 + np.exp(-0.4))
    assert got == pytest.approx(-1.5 * np.log(p) - 1.5 * np.log(1 - p))
    folds = model._folds(Trials(np.ones((4, 6)), np.ones((4, 6)), (slice(0, 6),)), 5, seed=1)
    assert sorted(np.bincount(folds.ravel())) == [4, 5, 5, 5, 5]


# -- fill-in ----------------------------------------------------------------------------------------------


def test_observed_cells_keep_their_means_and_only_tasks_failed_alone_are_filled() -> None:
    passes, solved = drawn()
    frame = runs(passes, solved)
    # A refused run takes the task out for the row, though it failed it alone; so does a missing test.
    r, t = map(int, np.argwhere(~solved)[0])
    refused = frame.filter((pl.col("model") == f"m{r:02d}") & (pl.col("task_id") == f"t{t:03d}")).head(1)
    frame = pl.concat([frame, refused.with_columns(version=pl.lit("test"), status=pl.lit("refused"), score=None)])
    result = fill_in(frame, widths=(0.5, 1.0), shift=-0.3, resamples=50)
    g = grid(frame)
    expected = np.where(g.scored, passes / 3, expit(result.fit.logits - 0.3))
    complete = g.scored | ~solved
    complete[r, t] = False
    for k, row in enumerate(result.dimensions.sort("model", "dimension").iter_rows(named=True)):
        i, d = divmod(k, 2)
        at = complete[i, g.slices[d]]
        assert row["adjusted_pct"] == pytest.approx(100 * expected[i, g.slices[d]][at].mean())
        assert row["n_scored"] + row["n_filled"] == at.sum()
    overall = result.table.filter(pl.col("model") == f"m{r:02d}")["adjusted_pct"][0]
    own = result.dimensions.filter(pl.col("model") == f"m{r:02d}")["adjusted_pct"]
    assert overall == pytest.approx(own.mean())


def test_a_row_that_solves_everything_alone_keeps_its_score() -> None:
    passes, solved = drawn()
    solved[-1] = True
    result = fill_in(runs(passes, solved), widths="empirical_bayes", resamples=50)
    row = result.table.filter(pl.col("model") == "m09").row(0, named=True)
    assert (row["n_filled"], row["change_points"]) == (0, pytest.approx(0.0, abs=1e-9))


def test_hiding_a_pair_is_refitting_without_those_cells() -> None:
    passes, solved = drawn(3)
    g = grid(runs(passes, solved))
    trials = trials_of(g)
    fit = model.fit(trials, Widths(0.5, 1.0))
    hidden, _ = hide_and_predict(g, trials, fit)
    assert hidden.height > 10
    line = hidden.row(5, named=True)
    a, b = g.names.index(line["row"]), g.names.index(line["other"])
    hide = g.scored[a] & ~solved[b]
    frame = runs(passes, solved)
    gone = [f"t{t:03d}" for t in np.flatnonzero(hide)]
    drop = (pl.col("model") == line["row"]) & pl.col("task_id").is_in(gone)
    left = grid(frame.with_columns(score=pl.when(drop & (pl.col("version") == "alone")).then(0.0).otherwise("score")))
    again = model.fit(trials_of(left), Widths(0.5, 1.0))
    values = np.where(hide, expit(again.logits[a]), g.values[a])
    want = np.mean([values[d][g.scored[a, d]].mean() for d in g.slices])
    assert line["filled_pct"] == pytest.approx(100 * want, abs=1e-4)
    assert line["full_pct"] == pytest.approx(100 * g.points()[a].mean())
    assert line["remaining_pct"] == pytest.approx(100 * left.points()[a].mean())
    assert line["n_hidden"] == hide.sum()


def test_the_shift_removes_the_mean_error_of_the_check() -> None:
    result = fill_in(runs(*drawn(5, n_rows=12)), widths="empirical_bayes", resamples=50)
    assert result.value("error_shifted_points") == pytest.approx(0.0, abs=1e-4)
    assert result.value("pairs") == result.hidden.height > 0
    assert (result.hidden["shifted_pct"] - result.hidden["full_pct"]).mean() == pytest.approx(0.0, abs=1e-4)


def test_without_a_pair_nothing_is_shifted_and_the_reason_is_given() -> None:
    passes, solved = drawn()
    result = fill_in(runs(passes[:1], solved[:1]), widths=(0.5, 1.0), resamples=50)
    line = result.quantities.filter(pl.col("quantity") == "shift").row(0, named=True)
    assert line["value"] == 0 and "no pair of weaker rows" in line["note"]
    assert result.table["adjusted_pct"][0] is not None


def test_alone_failures_against_the_test_agree_with_scipy_in_one_dimension() -> None:
    passes, solved = drawn(7, n_rows=8, n_tasks=40)
    solved[:-2, :3], solved[-2:] = False, True
    result = fill_in(runs(passes, solved, dimensions=1), widths=(0.5, 1.0), resamples=50)
    want = stats.spearmanr((~solved).sum(axis=0), passes[-2:].mean(axis=0))
    line = result.alone_failures.filter(pl.col("dimension").is_null()).row(0, named=True)
    assert (line["n_tasks"], line["spearman"]) == (40, pytest.approx(want.statistic))
    assert line["p"] == pytest.approx(want.pvalue, abs=0.02)
    assert result.value("strong_rows") == 2


def test_movement_is_the_mean_absolute_change_by_number_of_scored_tasks() -> None:
    result = fill_in(runs(*drawn(1)), widths=(0.5, 1.0), resamples=50)
    low = result.dimensions.filter(pl.col("n_scored") < 10)["change_points"]
    lines = {r["scored_tasks"]: r for r in result.movement.iter_rows(named=True)}
    assert lines["1 to 9"]["n_cells"] == low.len()
    assert lines["27 or more"] == {"scored_tasks": "27 or more", "n_cells": 0, "mean_absolute_points": None}
    assert sum(r["n_cells"] for r in lines.values()) == result.dimensions.height
    if low.len():
        assert lines["1 to 9"]["mean_absolute_points"] == pytest.approx(low.abs().mean())


def test_names_and_order_of_rows_and_tasks_do_not_matter() -> None:
    passes, solved = drawn(2)
    rows, tasks = np.random.default_rng(0).permutation(10), np.r_[14:-1:-1, 29:14:-1]
    one = fill_in(runs(passes, solved), widths="empirical_bayes", resamples=50)
    two = fill_in(runs(passes[rows][:, tasks], solved[rows][:, tasks]), widths="empirical_bayes", resamples=50)
    found = dict(two.table.select("model", "adjusted_pct").rows())
    for name, value in one.table.select("model", "adjusted_pct").rows():
        new = f"m{int(np.flatnonzero(rows == int(name[1:]))[0]):02d}"
        assert found[new] == pytest.approx(value, abs=1e-4)


def test_a_dimension_without_a_scored_task_has_no_adjusted_score() -> None:
    passes, solved = drawn()
    solved[0, :15] = False
    result = fill_in(runs(passes, solved), widths=(0.5, 1.0), resamples=50)
    one = result.dimensions.filter((pl.col("model") == "m00") & (pl.col("dimension") == "d0")).row(0, named=True)
    assert (one["score_pct"], one["adjusted_pct"], one["lo_pct"]) == (None, None, None)
    row = result.table.filter(pl.col("model") == "m00").row(0, named=True)
    assert (row["adjusted_pct"], row["adjusted_rank"]) == (None, None)
    assert result.table["adjusted_pct"].null_count() == 1


def test_chains_that_cannot_be_trusted_give_no_score(monkeypatch) -> None:
    def unsound(trials: Trials, *, seed: int, **_: object) -> bayes.Posterior:
        fit = model.fit(trials, Widths(0.5, 1.0))
        problems = ("R-hat of level[0, 1] is 1.200, above 1.01",)
        bad = bayes.Diagnostics(1.2, "level[0, 1]", 12.0, 9.0, 3, 2, 100, 100, 1.0, problems)
        return bayes.Posterior(fit.draws(200, np.random.default_rng(seed)), bad, None, 0.5, 1.0)

    monkeypatch.setattr(bayes, "sample", unsound)
    result = fill_in(runs(*drawn()), engine="nuts", resamples=50)
    for column in ("adjusted_pct", "lo_pct", "hi_pct", "adjusted_rank", "change_points"):
        assert result.table[column].null_count() == result.table.height
    assert result.table["score_pct"].null_count() == 0
    text = "\n".join(result.notes())
    assert "No adjusted score is shown" in text and "R-hat of level[0, 1] is 1.200" in text and "3 divergences" in text
    assert repr(result)


def test_sampled_draws_fill_in_with_their_mean(monkeypatch) -> None:
    passes, solved = drawn()
    frame = runs(passes, solved)
    posterior = model.fit(trials_of(grid(frame)), Widths(0.5, 1.0)).draws(4000, np.random.default_rng(1))
    good = bayes.Diagnostics(1.001, "level[0, 1]", 900.0, 800.0, 0, 4, 1000, 1000, 1.0, ())
    monkeypatch.setattr(bayes, "sample", lambda *_, **__: bayes.Posterior(posterior, good, None, 0.5, 1.0))
    result = fill_in(frame, engine="nuts", shift=0, resamples=200)
    g = grid(frame)
    p = np.full(solved.shape, np.nan)
    for r, t in np.argwhere(~solved):
        p[r, t] = expit(posterior.level[:, int(t >= 15), r] - posterior.difficulty[:, t]).mean()
    want = adjusted_points(g, fillable(g), p).mean(axis=1)
    got = dict(result.table.select("model", "adjusted_pct").rows())
    np.testing.assert_allclose([got[name] for name in g.names], 100 * want)
    assert result.diagnostics is good


@pytest.fixture(scope="module")
def released():
    """The simulated release, filled in, joined with its truth."""
    data = datasets.simulated_release()
    return data, fill_in(data)


def test_on_the_simulated_release_the_model_predicts_better_than_the_rows_own_mean(released) -> None:
    _, result = released
    assert result.value("log_loss") < 0.8 * result.value("log_loss_own_mean")
    assert result.value("error_remaining_points") > abs(result.value("error_filled_points"))
    assert result.value("kendall_tau_b") > 0.9


def test_on_the_simulated_release_adjusted_scores_are_nearer_to_the_truth_of_all_tasks(released) -> None:
    data, result = released
    both = result.table.join(data.truth["rows"], on=["model", "effort"])
    truth = 100 * both["expected_full_overall"]
    raw, adjusted = both["score_pct"] - truth, both["adjusted_pct"] - truth
    assert abs(adjusted.mean()) < 0.5 * abs(raw.mean())
    assert adjusted.abs().mean() < raw.abs().mean()
    assert ((both["lo_pct"] <= truth) & (truth <= both["hi_pct"])).sum() >= 21
    cells = result.dimensions.join(data.truth["cells"], on=["model", "effort", "dimension"])
    full = 100 * cells["expected_full_score"]
    assert ((cells["lo_pct"] <= full) & (full <= cells["hi_pct"])).mean() > 0.85


def test_on_the_simulated_release_difficulties_are_recovered(released) -> None:
    data, result = released
    both = result.tasks.join(data.truth["tasks"], on="task_id").filter(pl.col("dimension") != "handling_conflict")
    for _, own in both.group_by("dimension"):
        assert stats.spearmanr(own["difficulty"], own["difficulty_right"]).statistic > 0.8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "laplce"}, "Did you mean laplace"),
        ({"widths": "bayes"}, "widths is 'bayes'"),
        ({"widths": (0.5, -1)}, "both standard deviations must be positive"),
        ({"widths": (0.5,)}, "two numbers"),
        ({"shift": "none"}, "number of logits"),
        ({"resamples": 3}, "at least 20"),
        ({"ci_level": 95}, "such as 0.95"),
        ({"fill": "mising"}, "Did you mean missing"),
        ({"interval": "percent"}, "Did you mean percentile"),
    ],
)
def test_arguments_out_of_range_are_refused_in_one_line(arguments, words) -> None:
    with pytest.raises(TableError, match=words) as caught:
        fill_in(runs(*drawn()), **arguments)
    assert "\n" not in str(caught.value)


def test_too_few_cells_for_the_folds_and_published_counts_are_refused() -> None:
    passes, _ = drawn()
    solved = np.array([[True] * 5 + [False]])
    with pytest.raises(TableError, match="at least 10 scored cells"):
        fill_in(runs(passes[:1, :6], solved, dimensions=1))
    with pytest.raises(TableError, match="pairs rows by task"):
        fill_in(datasets.published_round("2026-10-09"))


def test_the_printed_table_says_that_agents_are_simulated(released) -> None:
    _, result = released
    text = repr(result)
    assert "SIMULATED" in text and "Held-out log loss" in text
    assert "simulated agents" in result._repr_html_()


def test_the_printed_table_has_the_leaderboards_names_real_minus_signs_and_no_negative_zero(released) -> None:
    study, result = released
    shown = result.sheet().cells
    assert sorted(shown["Row"]) == sorted(leaderboard(study, resamples=20).sheet().cells["Row"])
    changes = shown["Change"].to_list()
    assert any(change.startswith("−") for change in changes)
    assert not any("-" in change or change == "−0.0" for change in changes)
