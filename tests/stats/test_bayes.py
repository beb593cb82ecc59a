"""The sampled model against its formula, the penalised fit and its own calibration; what makes a posterior unfit.

Compiling takes most of the time, so one compiled model of 6 rows and 3 dimensions of 8 tasks serves every test: that
of the calibration study's first design (`benchmarks/studies/fill_in_sbc.py`).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cilab.core.errors import TableError
from cilab.stats.methods import bayes
from cilab.stats.methods import row_task_model as model
from cilab.stats.methods.row_task_model import WEAK, Trials, Widths, expit
from tests.scripts import script

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROWS, DIMENSIONS = 6, (slice(0, 8), slice(8, 16), slice(16, 24))


def drawn(seed: int) -> Trials:
    """3 seeds, some cells empty."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 1, ROWS) + rng.normal(0, 0.5, (3, ROWS)) + 0.5
    n = np.where(rng.random((ROWS, 24)) < 0.85, 3, 0)
    p = expit(np.repeat(level, 8, axis=0).T - rng.normal(0, 1, 24))
    return Trials(rng.binomial(n, p).astype(float), n.astype(float), DIMENSIONS)


@pytest.fixture(scope="module")
def compiled() -> bayes.Compiled:
    return bayes.compile_model(drawn(0))


@pytest.fixture(scope="module")
def posterior(compiled) -> bayes.Posterior:
    """Two chains of 400 draws: quick, so that only gross faults show. Not the data that it was compiled with."""
    return bayes.sample(drawn(1), draws=400, tune=400, chains=2, seed=1, compiled=compiled)


def log_density(values: dict[str, np.ndarray], trials: Trials) -> np.ndarray:
    """The model as its docstring says it, up to a constant, with widths sampled as logarithms; one value per draw."""
    eta = np.repeat(values["level"], 8, axis=1).swapaxes(1, 2) + values["ease"][:, None, :]
    out = (trials.passes * eta - trials.runs * np.logaddexp(0.0, eta)).sum(axis=(1, 2))
    out += stats.norm.logpdf(values["mean"], 0, WEAK).sum(axis=1)
    for name, scale in (("sd_ability", WEAK), ("sd_deviation", 2.0), ("sd_task", 3.0)):
        out += stats.halfnorm.logpdf(values[name], 0, scale) + np.log(values[name])
    # A vector of n that sums to zero has n - 1 free directions; deviations are in units of their width.
    out += -5 * np.log(values["sd_ability"]) - 0.5 * (values["ability"] ** 2).sum(axis=1) / values["sd_ability"] ** 2
    out += -0.5 * (values["deviation_in_widths"] ** 2).sum(axis=(1, 2))
    return out - 3 * 7 * np.log(values["sd_task"]) - 0.5 * (values["ease"] ** 2).sum(axis=1) / values["sd_task"] ** 2


def test_the_sampled_density_is_the_models_with_the_data_given_last(posterior) -> None:
    found = posterior.inference.posterior
    values = {str(name): np.asarray(v).reshape(-1, *v.shape[2:]) for name, v in found.items()}
    level = values["mean"][:, :, None] + values["ability"][:, None, :]
    level += values["sd_deviation"][:, None, None] * values["deviation_in_widths"]
    np.testing.assert_allclose(values["level"], level, atol=1e-10)
    sampled = np.asarray(posterior.inference.sample_stats["logp"]).ravel()
    apart = sampled - log_density(values, drawn(1))
    assert np.ptp(sampled) > 5 and np.ptp(apart) < 1e-8
    # And of no other data.
    assert np.ptp(sampled - log_density(values, drawn(0))) > 1


def test_the_slopes_of_the_cells_part_are_its_differences() -> None:
    import pytensor.tensor as pt
    from pytensor import function, grad
    from pytensor.compile.mode import Mode

    from cilab.stats.methods.bayes_kernel import normaliser

    rng = np.random.default_rng(3)
    level, ease, runs = rng.normal(0, 3, (2, 4)), rng.normal(0, 3, (2, 5)), rng.integers(0, 4, (2, 4, 5)).astype(float)
    one, two = pt.dmatrix(), pt.dmatrix()
    value = normaliser(one, two, runs)
    compute = function([one, two], [value, *grad(2 * value, [one, two])], mode=Mode(linker="py", optimizer=None))
    eta = level[:, :, None] + ease[:, None, :]
    found, by_level, by_ease = compute(level, ease)
    assert found == pytest.approx((runs * np.logaddexp(0.0, eta)).sum())
    np.testing.assert_allclose(by_level, 2 * (runs * expit(eta)).sum(axis=2))
    np.testing.assert_allclose(by_ease, 2 * (runs * expit(eta)).sum(axis=1))


def test_dimensions_of_different_sizes_keep_their_tasks_apart_and_one_task_has_no_difficulty() -> None:
    from pytensor.compile.mode import Mode

    rng = np.random.default_rng(5)
    dimensions = (slice(0, 3), slice(3, 7), slice(7, 8), slice(8, 11))
    runs = rng.integers(0, 4, (3, 11)).astype(float)
    trials = Trials(runs * rng.random((3, 11)), runs, dimensions)
    built = bayes.row_task_model(trials)
    level, threes, four = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), rng.normal(size=(1, 4))
    point = {built["level"]: level, built["ease_3"]: threes, built["ease_4"]: four}
    plain = Mode(linker="py", optimizer=None)
    ease = built["ease"].eval({k: v for k, v in point.items() if k is not built["level"]}, mode=plain)
    np.testing.assert_allclose(ease, [*threes[0], *four[0], 0.0, *threes[1]])
    eta = np.repeat(level, [3, 4, 1, 3], axis=0).T + ease
    want = (trials.passes * eta - runs * np.logaddexp(0.0, eta)).sum()
    assert built.potentials[0].eval(point, mode=plain) == pytest.approx(want)


def probabilities(draws: model.Draws) -> np.ndarray:
    """Posterior mean probability of each cell, shape (R, T)."""
    return expit(np.repeat(draws.level, 8, axis=1).swapaxes(1, 2) - draws.difficulty[:, None, :]).mean(axis=0)


def test_the_posterior_means_are_near_those_of_the_laplace_approximation(posterior) -> None:
    fit = model.fit(drawn(1), Widths(posterior.sd_deviation, posterior.sd_task))
    laplace = probabilities(fit.draws(4000, np.random.default_rng(0)))
    sampled = probabilities(posterior.draws)
    assert np.abs(sampled - laplace).max() < 0.08
    assert np.corrcoef(sampled.ravel(), laplace.ravel())[0, 1] > 0.99


def test_what_sums_to_zero_does(posterior) -> None:
    draws = posterior.inference.posterior
    np.testing.assert_allclose(draws["ability"].sum("row"), 0.0, atol=1e-8)
    deviation = draws["deviation_in_widths"]
    for axis in ("row", "dimension"):
        np.testing.assert_allclose(deviation.sum(axis), 0.0, atol=1e-8)
    for tasks in DIMENSIONS:
        np.testing.assert_allclose(posterior.draws.difficulty[:, tasks].sum(axis=1), 0.0, atol=1e-8)


def test_diagnostics_are_arvizs_extremes(posterior) -> None:
    import arviz as az

    summary = az.summary(posterior.inference, kind="diagnostics", round_to="none")
    found = posterior.diagnostics
    assert found.r_hat == pytest.approx(summary["r_hat"].max())
    assert found.ess_bulk == pytest.approx(summary["ess_bulk"].min())
    assert found.ess_tail == pytest.approx(summary["ess_tail"].min())
    assert (found.chains, found.draws, found.tune) == (2, 400, 400)
    assert posterior.draws.level.shape == (800, 3, 6) and posterior.draws.difficulty.shape == (800, 24)
    assert found.sound == (not found.problems)
    assert f"{found.divergences} divergences" in found.line()


def inference(values: np.ndarray, diverging: int = 0):
    """An InferenceData of one quantity, shape (chains, draws)."""
    import arviz as az

    flags = np.zeros(values.shape, bool)
    flags.ravel()[:diverging] = True
    return az.from_dict(posterior={"x": values, "fixed": np.zeros(values.shape)}, sample_stats={"diverging": flags})


def test_independent_draws_are_sound() -> None:
    found = bayes.diagnose(inference(np.random.default_rng(0).normal(size=(4, 500))), tune=500)
    assert found.sound and found.r_hat < 1.01 and found.worst == "x"


@pytest.mark.parametrize(
    ("values", "diverging", "words"),
    [
        (np.random.default_rng(0).normal(size=(4, 500)) + np.arange(4)[:, None], 0, "R-hat of x"),
        (np.random.default_rng(0).normal(size=(4, 500)), 2, "2 divergent transitions"),
        (np.random.default_rng(0).normal(size=(4, 500)).cumsum(axis=1), 0, "effective draws"),
        (np.random.default_rng(0).normal(size=(2, 60)), 0, "effective draws, below 200"),
    ],
)
def test_chains_that_disagree_diverge_or_crawl_are_not_sound(values, diverging, words) -> None:
    found = bayes.diagnose(inference(values, diverging), tune=100)
    assert not found.sound
    assert any(words in problem for problem in found.problems)


def test_the_seed_fixes_the_draws(compiled) -> None:
    same = [bayes.sample(drawn(2), draws=50, tune=50, chains=2, seed=s, compiled=compiled) for s in (4, 4, 5)]
    np.testing.assert_array_equal(same[0].draws.level, same[1].draws.level)
    assert np.abs(same[0].draws.level - same[2].draws.level).max() > 0.01


def test_too_few_chains_or_draws_are_refused() -> None:
    with pytest.raises(TableError, match="at least 2 chains"):
        bayes.sample(drawn(0), chains=1)
    with pytest.raises(TableError, match="50 draws"):
        bayes.sample(drawn(0), draws=10)


def test_a_compiled_model_refuses_data_of_another_shape(compiled) -> None:
    one = drawn(0)
    with pytest.raises(TableError, match="other numbers of rows or tasks"):
        bayes.sample(Trials(one.passes[:5], one.runs[:5], DIMENSIONS), compiled=compiled)
    with pytest.raises(TableError, match="other numbers of rows or tasks"):
        bayes.sample(Trials(one.passes, one.runs, (slice(0, 12), slice(12, 24))), compiled=compiled)


@pytest.mark.parametrize("shape", [(1, (slice(0, 5),)), (3, (slice(0, 1), slice(1, 2)))])
def test_one_row_one_dimension_or_one_task_leaves_out_what_cannot_vary(shape) -> None:
    n_rows, dimensions = shape
    n_tasks = dimensions[-1].stop
    built = bayes.row_task_model(Trials(np.ones((n_rows, n_tasks)), np.full((n_rows, n_tasks), 3.0), dimensions))
    names = {v.name for v in built.free_RVs}
    assert ("ability" in names) == (n_rows > 1)
    assert any(n.startswith("deviation") for n in names) == (n_rows > 1 and len(dimensions) > 1)
    assert ("sd_task" in names) == (dimensions[0].stop > 1)


# -- calibration: a stored study (benchmarks/studies/fill_in_sbc.py says how to remake it)


@pytest.fixture(scope="module")
def stored() -> dict:
    return json.loads((ROOT / "tests" / "golden" / "fill_in_sbc.json").read_text())


def test_stored_ranks_of_the_truth_among_posterior_draws_are_uniform(stored) -> None:
    every = [(d, q, ranks) for d, design in stored["designs"].items() for q, ranks in design["ranks"].items()]
    assert set(stored["designs"]) == {"few", "many"} and len({q for _, q, _ in every}) == 10
    for design, quantity, ranks in every:
        found = np.array(ranks)
        assert len(found) >= 100 and found.min() >= 0 and found.max() <= 99
        p = stats.chisquare(np.histogram(found, bins=10, range=(0, 100))[0]).pvalue
        assert p * len(every) > 0.01, f"{quantity} of {design}"
        # Narrow posteriors pile ranks up at both ends, wide ones in the middle: neither share of 20 % may go.
        ends = ((found < 10) | (found >= 90)).mean()
        assert abs(ends - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(found)), f"{quantity} of {design}"


def test_replications_of_the_calibration_come_out_again_within_their_monte_carlo_error(stored, compiled) -> None:
    study = script("studies/fill_in_sbc")
    assert study.DESIGNS["few"].rows == ROWS and study.DESIGNS["few"].dimensions == DIMENSIONS
    ranks = stored["designs"]["few"]["ranks"]
    for number in (0, 2):
        found, _ = study.ranks("few", number, compiled)
        # Of 99 draws that are nearly independent a rank has a standard deviation of at most 5 on another machine.
        for quantity, rank in found.items():
            assert abs(rank - ranks[quantity][number]) <= 25, quantity


@pytest.mark.study
def test_the_whole_calibration_is_uniform_again() -> None:
    for design in script("studies/fill_in_sbc").study(120, ["few", "many"])["designs"].values():
        assert min(design["p_uniform"].values()) * 2 * len(design["p_uniform"]) > 0.01
