"""LOO and posterior predictive checks on posteriors that are known exactly; the samplers themselves in a study."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, logit

import cilab
from cilab.core.errors import TableError
from cilab.stats.methods import bayes, predictive
from cilab.stats.methods.bayes import Diagnostics, Posterior
from cilab.stats.methods.row_task_model import Draws, Trials, expit
from cilab.stats.teamwork import model_check as module
from cilab.stats.teamwork.grid import grid
from cilab.stats.teamwork.model_check import model_check
from tests.stats.test_items import runs

SOUND = Diagnostics(1.0, "", 1000, 1000, 0, 2, 1000, 100, 0.0, ())


def one_chance(passes: np.ndarray, n: np.ndarray, dimensions: tuple[slice, ...], draws: int = 2000) -> Posterior:
    """The exact posterior of a model in which every run passes with the same chance, uniform beforehand."""
    import arviz as az

    rng = np.random.default_rng(1)
    p = rng.beta(1 + passes.sum(), 1 + (n - passes).sum(), size=(2, draws // 2))
    level = np.broadcast_to(logit(p)[:, :, None, None], (2, draws // 2, len(dimensions), len(passes)))
    ease = np.zeros((2, draws // 2, passes.shape[1]))
    inference = az.from_dict(posterior={"level": level, "ease": ease})
    flat = Draws(level.reshape(-1, *level.shape[2:]), -ease.reshape(-1, ease.shape[2]))
    return Posterior(flat, SOUND, inference, 1.0, 1.0)


def coins(rows: int = 8, tasks: int = 6, n: int = 3, seed: int = 0) -> Trials:
    passes = np.random.default_rng(seed).binomial(n, 0.6, (rows, tasks)).astype(float)
    return Trials(passes, np.full((rows, tasks), float(n)), (slice(0, tasks),))


def test_loo_is_that_of_a_model_whose_loo_is_known_exactly() -> None:
    data = coins()
    found = bayes.leave_one_out(one_chance(data.passes, data.runs, data.dimensions), data)
    k, n, total, missed = data.passes, data.runs, data.passes.sum(), (data.runs - data.passes).sum()
    # Beta integrals with and without the cell; binomial coefficients are left out of both.
    exact = betaln(1 + total, 1 + missed) - betaln(1 + total - k, 1 + missed - (n - k))
    assert found.elpd == pytest.approx(exact.sum(), abs=0.1)
    np.testing.assert_allclose(found.pointwise, exact.ravel(), atol=0.01)
    assert found.se == pytest.approx(np.sqrt(exact.size * exact.var()), rel=0.02)
    assert found.p_loo == pytest.approx(1, abs=0.6) and found.n_unreliable == 0


def test_cells_without_runs_are_not_left_out() -> None:
    data = coins()
    empty = np.zeros(data.runs.shape, dtype=bool)
    empty[0, :3] = True
    some = data.without(empty)
    found = bayes.leave_one_out(one_chance(some.passes, some.runs, some.dimensions), some)
    assert len(found.pointwise) == 45


def test_the_logits_of_the_model_with_slopes_are_those_of_its_formula() -> None:
    import arviz as az

    rng = np.random.default_rng(0)
    parts = {"level": (2, 5, 2, 3), "ease": (2, 5, 4), "mean": (2, 5, 2), "slope": (2, 5, 4)}
    drawn = {name: rng.normal(size=shape) for name, shape in parts.items()}
    posterior = Posterior(
        Draws(np.zeros((10, 2, 3)), np.zeros((10, 4))), SOUND, az.from_dict(posterior=drawn), 1.0, 1.0
    )
    found = bayes.logits_of(posterior, (slice(0, 1), slice(1, 4)), np.array([7]))
    # Draw 7 is the second chain's third; task 2 is of the second dimension.
    mean, level, slope, ease = (drawn[name][1, 2] for name in ("mean", "level", "slope", "ease"))
    assert found.shape == (1, 3, 4)
    assert found[0, 1, 2] == pytest.approx(mean[1] + slope[2] * (level[1, 1] - mean[1]) + ease[2])
    # With all slopes 1 it is the other model.
    plain = {n: v for n, v in drawn.items() if n not in ("mean", "slope")}
    same = drawn | {"slope": np.ones((2, 5, 4))}
    one, two = (dataclasses.replace(posterior, inference=az.from_dict(posterior=p)) for p in (plain, same))
    at = np.arange(10)
    np.testing.assert_allclose(
        bayes.logits_of(one, (slice(0, 1), slice(1, 4)), at), bayes.logits_of(two, (slice(0, 1), slice(1, 4)), at)
    )


# -- predictive checks ------------------------------------------------------------------------------------


def test_the_statistics_are_those_worked_by_hand() -> None:
    passes = np.array([[2.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    n = np.array([[2.0, 0.0], [2.0, 2.0], [2.0, 2.0]])
    assert predictive.row_scores(passes, n).tolist() == [1.0, 0.75, 0.25]
    assert predictive.task_scores(passes, n).tolist() == [0.5, 0.75]
    # Rows 2 and 3 have both: shares (.5, 1) and (0, .5); passing both .5, neither .5, first only 0, second only 1.
    odds = predictive.pair_odds((slice(0, 2),))(passes, n)
    assert odds.tolist() == [pytest.approx(np.log((0.5 + 0.5) * (0.5 + 0.5) / ((0 + 0.5) * (1 + 0.5))))]
    # Five cells of two runs: shares 1, .5, 0, 1, .5.
    assert predictive.repeat_disagreement((slice(0, 2),))(passes, n).tolist() == [pytest.approx(0.5 / 5)]
    assert np.isnan(predictive.repeat_disagreement((slice(0, 2),))(passes, np.minimum(n, 1))[0])


def check(data: Trials, draws: int = 400) -> list[predictive.Predicted]:
    posterior = one_chance(data.passes, data.runs, data.dimensions)
    logits = bayes.logits_of(posterior, data.dimensions, np.arange(draws))
    statistics = [predictive.row_scores, predictive.pair_odds(data.dimensions)]
    statistics.append(predictive.repeat_disagreement(data.dimensions))
    return predictive.predict(logits, data, statistics, np.random.default_rng(2))


def test_data_of_the_model_pass_its_checks() -> None:
    outside = []
    for seed in range(10):
        for found in check(coins(20, 8, seed=seed), 200):
            outside.append((found.observed < found.lo) | (found.observed > found.hi))
    assert np.concatenate(outside).mean() == pytest.approx(0.05, abs=0.03)


def test_what_a_model_does_not_know_is_seen() -> None:
    data = coins(20, 8, seed=3)
    # Seeds of a cell always agree; rows differ; the second task is the first one again.
    alike = Trials(3.0 * (data.passes > 1), data.runs, data.dimensions)
    assert check(alike)[2].p[0] < 0.01 and check(alike)[2].observed[0] == 0
    rows = np.random.default_rng(4).binomial(3, np.linspace(0.05, 0.95, 20)[:, None], (20, 8)).astype(float)
    differ = check(Trials(rows, data.runs, data.dimensions))
    assert (differ[0].p < 0.05).mean() > 0.5
    twins = alike.passes.copy()
    twins[:, 1] = twins[:, 0]
    pair = check(Trials(twins, data.runs, data.dimensions))[1]
    assert pair.observed[0] > pair.hi[0] and pair.p[0] < 0.01


# -- the estimator ----------------------------------------------------------------------------------------


def values(rows: int = 12, tasks: int = 10) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.random((rows, tasks)) < expit(rng.normal(size=(rows, 1)) - np.linspace(-1, 1, tasks))).astype(float)


def faked(monkeypatch: pytest.MonkeyPatch, problems: dict[int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """Instead of minutes of sampling, the posterior of one chance for both models; returns what was asked."""
    asked = []

    def sample(trials: Trials, *, parameters: int, seed: int, **more: Any) -> Posterior:
        asked.append({"parameters": parameters, "seed": seed} | more)
        found = one_chance(trials.passes, trials.runs, trials.dimensions)
        return dataclasses.replace(found, diagnostics=dataclasses.replace(SOUND, problems=problems.get(parameters, ())))

    monkeypatch.setattr(bayes, "sample", sample)
    return asked


def test_both_models_are_sampled_compared_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = faked(monkeypatch, {})
    found = model_check(runs(values()), replicates=50, seed=3, sampler={"draws": 100})
    assert asked == [{"parameters": p, "seed": 3, "draws": 100} for p in (1, 2)]
    assert found.table["difference"].to_list() == [None, 0.0] and found.table["n_cells"].to_list() == [120, 120]
    own = found.checks.filter(model="one parameter")
    assert own["statistic"].value_counts().sort("statistic").rows() == [
        ("pair odds", 45),
        ("row score", 12),
        ("task score", 10),
    ]
    scores = own.filter(statistic="row score")
    assert scores["observed"].to_list() == pytest.approx(values()[sorted(range(12), key=str)].mean(axis=1))
    assert (scores["lo"] <= scores["expected"]).all() and (scores["expected"] <= scores["hi"]).all()
    assert {"elpd (LOO)", "Row score outside (%)", "Pair odds outside (%)"} <= set(found.sheet().cells.columns)
    assert cilab.rerun(found, runs(values())).checks.equals(found.checks)


def test_a_model_whose_chains_fail_has_no_numbers_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, {2: ("3 divergent transitions",)})
    found = model_check(runs(values()), replicates=50)
    last = found.table.row(1, named=True)
    assert (last["model"], last["elpd"], last["difference"]) == ("two parameters", None, None)
    assert last["no_estimate"] == "chains cannot be trusted: 3 divergent transitions"
    assert found.checks["model"].unique().to_list() == ["one parameter"]
    faked(monkeypatch, {1: ("bad",), 2: ("bad",)})
    none = model_check(runs(values()), replicates=50)
    assert none.table["elpd"].null_count() == 2 and none.checks.height == 0 and "bad" in repr(none)


def test_one_row_or_one_task_is_one_line() -> None:
    for data in (np.array([[1.0, 0, 1]]), np.array([[1.0], [0], [1]])):
        with pytest.raises(TableError, match="it takes 2 of each"):
            model_check(runs(data))
    with pytest.raises(TableError, match="slopes of tasks need 2 rows"):
        bayes.two_parameter_model(coins(1, 3))


def test_rows_and_tasks_without_a_score_are_no_part() -> None:
    solved = np.ones((5, 4), dtype=bool)
    solved[0], solved[:, 3] = False, False
    g, trials = module._with_scores(grid(runs(values(5, 4), solved=solved)))
    assert trials.runs.shape == (4, 3) == (g.rows.height, g.tasks.height) and (trials.runs > 0).any(axis=0).all()


@pytest.mark.study
def test_slopes_that_differ_are_found_by_loo_and_slopes_that_do_not_cost_little() -> None:
    """Minutes: two models are compiled. 40 rows, 20 tasks, one dimension; slopes from a quarter to four times 1."""
    rng = np.random.default_rng(6)
    ability, ease = rng.normal(0, 1.5, 40), rng.normal(0, 1, 20)
    n = np.full((40, 20), 3.0)
    sampler = {"draws": 500, "tune": 500, "chains": 2, "seed": 1}
    elpd = {}
    models = {}
    for name, slope in (("apart", np.exp(np.linspace(-1.4, 1.4, 20))), ("alike", np.ones(20))):
        passes = rng.binomial(3, expit(ability[:, None] * slope + ease)).astype(float)
        data = Trials(passes, n, (slice(0, 20),))
        for k in (1, 2):
            models.setdefault(k, bayes.compile_model(data, k))
            posterior = bayes.sample(data, compiled=models[k], **sampler)
            elpd[name, k] = bayes.leave_one_out(posterior, data)
            if (name, k) == ("apart", 2):
                found = np.log(np.asarray(posterior.inference.posterior["slope"])).mean(axis=(0, 1))
                assert np.corrcoef(found, np.log(slope))[0, 1] > 0.9
    away = elpd["apart", 2].pointwise - elpd["apart", 1].pointwise
    assert away.sum() > 3 * np.sqrt(len(away)) * away.std()
    cost = elpd["alike", 2].elpd - elpd["alike", 1].elpd
    assert abs(cost) < 6
