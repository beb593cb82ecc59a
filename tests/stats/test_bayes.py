"""The sampled model against the penalised fit, and what makes a posterior unfit for use."""

from __future__ import annotations

import numpy as np
import pytest

from cilab.errors import TableError
from cilab.stats import bayes
from cilab.stats import row_task_model as model
from cilab.stats.row_task_model import Trials, Widths, expit

pytestmark = pytest.mark.slow

DIMENSIONS = (slice(0, 12), slice(12, 24), slice(24, 31))


@pytest.fixture(scope="module")
def trials() -> Trials:
    """8 rows, 3 dimensions of 12, 12 and 7 tasks, 3 seeds, some cells empty."""
    rng = np.random.default_rng(0)
    level = rng.normal(0, 1, 8) + rng.normal(0, 0.5, (3, 8)) + 0.5
    n = np.where(rng.random((8, 31)) < 0.85, 3, 0)
    of_task = np.repeat([0, 1, 2], [12, 12, 7])
    p = expit(level[of_task].T - rng.normal(0, 1, 31))
    return Trials(rng.binomial(n, p).astype(float), n.astype(float), DIMENSIONS)


@pytest.fixture(scope="module")
def posterior(trials) -> bayes.Posterior:
    """Two chains of 400 draws: quick, so that only gross faults show."""
    return bayes.sample(trials, draws=400, tune=400, chains=2, seed=1)


def probabilities(draws: model.Draws) -> np.ndarray:
    """Posterior mean probability of each cell, shape (R, T)."""
    parts = []
    for d, tasks in enumerate(DIMENSIONS):
        rows, at = (a.ravel() for a in np.meshgrid(np.arange(8), np.arange(tasks.start, tasks.stop), indexing="ij"))
        parts.append(expit(draws.logits(d, rows, at)).mean(axis=0).reshape(8, -1))
    return np.hstack(parts)


def test_the_posterior_means_are_near_those_of_the_laplace_approximation(trials, posterior) -> None:
    fit = model.fit(trials, Widths(posterior.sd_deviation, posterior.sd_task))
    laplace = probabilities(fit.draws(4000, np.random.default_rng(0)))
    sampled = probabilities(posterior.draws)
    assert np.abs(sampled - laplace).max() < 0.06
    assert np.corrcoef(sampled.ravel(), laplace.ravel())[0, 1] > 0.995


def test_what_sums_to_zero_does(posterior) -> None:
    draws = posterior.inference.posterior
    np.testing.assert_allclose(draws["ability"].sum("row"), 0.0, atol=1e-8)
    deviation = draws["deviation_in_widths"]
    for axis in ("row", "dimension"):
        np.testing.assert_allclose(deviation.sum(axis), 0.0, atol=1e-8)
    for tasks in DIMENSIONS:
        np.testing.assert_allclose(posterior.draws.difficulty[:, tasks].sum(axis=1), 0.0, atol=1e-8)


def test_diagnostics_are_arvizs_extremes_and_the_seed_fixes_the_draws(posterior) -> None:
    import arviz as az

    summary = az.summary(posterior.inference, kind="diagnostics", round_to="none")
    found = posterior.diagnostics
    assert found.r_hat == pytest.approx(summary["r_hat"].max())
    assert found.ess_bulk == pytest.approx(summary["ess_bulk"].min())
    assert found.ess_tail == pytest.approx(summary["ess_tail"].min())
    assert (found.chains, found.draws, found.tune) == (2, 400, 400)
    assert posterior.draws.level.shape == (800, 3, 8) and posterior.draws.difficulty.shape == (800, 31)
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


def test_too_few_chains_or_draws_are_refused(trials) -> None:
    with pytest.raises(TableError, match="at least 2 chains"):
        bayes.sample(trials, chains=1)
    with pytest.raises(TableError, match="50 draws"):
        bayes.sample(trials, draws=10)


@pytest.mark.parametrize("shape", [(1, (slice(0, 5),)), (3, (slice(0, 1), slice(1, 2)))])
def test_one_row_one_dimension_or_one_task_leaves_out_what_cannot_vary(shape) -> None:
    n_rows, dimensions = shape
    n_tasks = dimensions[-1].stop
    built = bayes.row_task_model(Trials(np.ones((n_rows, n_tasks)), np.full((n_rows, n_tasks), 3.0), dimensions))
    names = {v.name for v in built.free_RVs}
    assert ("ability" in names) == (n_rows > 1)
    assert any(n.startswith("deviation") for n in names) == (n_rows > 1 and len(dimensions) > 1)
    assert ("sd_task" in names) == (dimensions[0].stop > 1)
