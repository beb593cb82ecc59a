"""The row-by-task logit model by Markov chain Monte Carlo: PyMC's model, nutpie's sampler, ArviZ's diagnostics.

The only module that calls pymc, nutpie or arviz, and only inside its functions, as they take seconds to import. May
import `cilab.errors` and its own folder. Knows arrays only. A posterior comes with its diagnostics, always.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cilab.errors import TableError
from cilab.stats.row_task_model import WEAK, Draws, Trials

if TYPE_CHECKING:
    import arviz
    import pymc

#: What a posterior must meet (Vehtari et al., 2021): largest R-hat, least effective draws per chain, no divergence.
MOST_R_HAT = 1.01
LEAST_ESS_PER_CHAIN = 100
#: Runs of a row in a dimension from which on they say more of its deviation than the prior does.
_MANY_RUNS = 60


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Whether the chains can be trusted.

    Attributes
    ----------
    r_hat : the largest rank-normalised split R-hat, and the quantity that has it (`worst`).
    ess_bulk, ess_tail : the least effective number of draws of any quantity.
    divergences : transitions that diverged after tuning.
    chains, draws, tune : as sampled.
    seconds : of sampling, compilation left out.
    problems : what fails, in words; empty where nothing does.
    """

    r_hat: float
    worst: str
    ess_bulk: float
    ess_tail: float
    divergences: int
    chains: int
    draws: int
    tune: int
    seconds: float
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Nothing fails."""
        return not self.problems

    def line(self) -> str:
        """One sentence."""
        return (
            f"{self.chains} chains of {self.draws:,} draws after {self.tune:,}: largest R-hat {self.r_hat:.3f} "
            f"({self.worst}), least bulk ESS {self.ess_bulk:,.0f}, least tail ESS {self.ess_tail:,.0f}, "
            f"{self.divergences} divergences."
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """What sampling gives.

    Attributes
    ----------
    draws : levels and difficulties, all chains in turn.
    diagnostics : of every sampled quantity and of the levels.
    inference : ArviZ InferenceData, dimensions named `dimension, row, task...`.
    sd_deviation, sd_task : posterior means of the two widths, logits.
    """

    draws: Draws
    diagnostics: Diagnostics
    inference: arviz.InferenceData
    sd_deviation: float
    sd_task: float


def row_task_model(trials: Trials) -> pymc.Model:
    """The model of `row_task_model` with its widths estimated, in its zero-sum parametrisation.

    Abilities sum to zero over rows, deviations over rows and over dimensions, difficulties over a dimension's tasks,
    so that nothing can drift against a mean. A graded run enters as a fractional Bernoulli.

    Parameters
    ----------
    trials : the observed cells. Dimensions of one task have no difficulty, and with one row or one dimension there
        is no deviation.
    """
    with _quietly():
        import pymc as pm

    n_rows, n_tasks = trials.runs.shape
    n_dims = len(trials.dimensions)
    rows, tasks = np.nonzero(trials.runs > 0)
    of_task = np.empty(n_tasks, dtype=int)
    for d, at in enumerate(trials.dimensions):
        of_task[at] = d
    with pm.Model(coords={"row": range(n_rows), "dimension": range(n_dims)}) as model:
        level = pm.Normal("mean", 0.0, WEAK, dims="dimension")[:, None] + np.zeros((n_dims, n_rows))
        if n_rows > 1:
            sd_ability = pm.HalfNormal("sd_ability", WEAK)
            level = level + pm.ZeroSumNormal("ability", sigma=sd_ability, dims="row")[None, :]
        if n_rows > 1 and n_dims > 1:
            level = level + _deviation(pm, trials)
        level = pm.Deterministic("level", level, dims=("dimension", "row"))
        ease = _ease(pm, trials.dimensions, n_tasks)
        eta = level[of_task[tasks], rows] + ease[tasks]
        passes, runs = trials.passes[rows, tasks], trials.runs[rows, tasks]
        pm.Potential("likelihood", (passes * eta - runs * pm.math.log1pexp(eta)).sum())
    return model


def _deviation(pm: Any, trials: Trials) -> Any:
    """Deviations of rows in dimensions: as they are where the runs say much of each, else in units of their width.

    With few runs a deviation follows its prior, and width and deviations together form a funnel that no sampler
    likes; with many it is the other way round.
    """
    sd = pm.HalfNormal("sd_deviation", 2.0)
    how = {"n_zerosum_axes": 2, "dims": ("dimension", "row")}
    per_level = np.median([trials.runs[:, d].sum(axis=1) for d in trials.dimensions])
    if per_level < _MANY_RUNS:
        return sd * pm.ZeroSumNormal("deviation_in_widths", sigma=1.0, **how)
    return pm.ZeroSumNormal("deviation", sigma=sd, **how)


def _ease(pm: Any, dimensions: Sequence[slice], n_tasks: int) -> Any:
    """Eases of all tasks, drawn together for dimensions with the same number of tasks."""
    import pytensor.tensor as pt

    sizes = sorted({d.stop - d.start for d in dimensions} - {0, 1})
    ease = pt.zeros(n_tasks)
    if sizes:
        sd = pm.HalfNormal("sd_task", 3.0)
    for n in sizes:
        at = [np.arange(d.start, d.stop) for d in dimensions if d.stop - d.start == n]
        drawn = pm.ZeroSumNormal(f"ease_{n}", sigma=sd, n_zerosum_axes=1, shape=(len(at), n))
        ease = pt.set_subtensor(ease[np.concatenate(at)], drawn.ravel())
    return pm.Deterministic("ease", ease)


def sample(
    trials: Trials, *, draws: int = 1000, tune: int = 1000, chains: int = 4, seed: int = 0, cores: int | None = None
) -> Posterior:
    """Sample the posterior with nutpie and check it.

    Parameters
    ----------
    trials : the observed cells.
    draws, tune : per chain, after and during tuning.
    chains : at least 2, as R-hat compares chains.
    seed : of the sampler.
    cores : processes at a time; default all that there are.

    Raises
    ------
    TableError
        Fewer than 2 chains or 50 draws.
    """
    if chains < 2 or draws < 50 or tune < 50:
        raise TableError(
            f"sampling with {chains} chains of {draws} draws after {tune} tells nothing of convergence; give at least "
            "2 chains, 50 draws and 50 for tuning"
        )
    import time

    with _quietly():
        import nutpie

        compiled = nutpie.compile_pymc_model(row_task_model(trials))
    begin = time.perf_counter()
    inference = nutpie.sample(
        compiled, draws=draws, tune=tune, chains=chains, seed=seed, cores=cores, progress_bar=False
    )
    seconds = time.perf_counter() - begin
    posterior = inference.posterior
    flat = {name: _flat(posterior[name]) for name in ("level", "ease")}
    return Posterior(
        draws=Draws(flat["level"], -flat["ease"]),
        diagnostics=diagnose(inference, tune=tune, seconds=seconds),
        inference=inference,
        sd_deviation=_mean(posterior, "sd_deviation"),
        sd_task=_mean(posterior, "sd_task"),
    )


def _flat(values: Any) -> np.ndarray:
    """All chains in turn, draws first."""
    array = np.asarray(values, dtype=float)
    return array.reshape(-1, *array.shape[2:])


def _mean(posterior: Any, name: str) -> float:
    """Posterior mean; NaN where the model has no such quantity."""
    return float(posterior[name].mean()) if name in posterior else float("nan")


def diagnose(inference: arviz.InferenceData, *, tune: int, seconds: float = 0.0) -> Diagnostics:
    """R-hat, effective numbers of draws and divergences of an InferenceData, against what they must meet.

    A quantity that is constant by construction is passed over.
    """
    with _quietly():
        import arviz as az

    posterior = inference.posterior
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    names = [name for name in posterior.data_vars if not str(name).endswith("__")]
    r_hat, worst = _extreme(az.rhat(posterior[names]), np.nanargmax)
    bulk, _ = _extreme(az.ess(posterior[names], method="bulk"), np.nanargmin)
    tail, _ = _extreme(az.ess(posterior[names], method="tail"), np.nanargmin)
    divergences = int(inference.sample_stats["diverging"].sum())
    least = LEAST_ESS_PER_CHAIN * chains
    problems = []
    if not r_hat <= MOST_R_HAT:
        problems.append(f"R-hat of {worst} is {r_hat:.3f}, above {MOST_R_HAT}")
    if not min(bulk, tail) >= least:
        problems.append(f"only {min(bulk, tail):.0f} effective draws, below {least}")
    if divergences:
        problems.append(f"{divergences} divergent transitions")
    return Diagnostics(r_hat, worst, bulk, tail, divergences, chains, draws, tune, round(seconds, 2), tuple(problems))


def _quietly() -> warnings.catch_warnings:
    """What these packages say on import and compilation: of their own future, and a BLAS that nutpie does not use."""
    return warnings.catch_warnings(action="ignore")


def _extreme(values: Any, pick: Any) -> tuple[float, str]:
    """The extreme of a Dataset of diagnostics and where it stands; (NaN, "") where none is defined."""
    found = []
    for name, array in values.data_vars.items():
        flat = np.atleast_1d(np.asarray(array, dtype=float))
        if not np.isnan(flat).all():
            at = np.unravel_index(int(pick(flat)), flat.shape)
            label = f"{name}[{', '.join(map(str, map(int, at)))}]" if array.ndim else str(name)
            found.append((float(flat[at]), label))
    if not found:
        return float("nan"), ""
    return found[int(pick(np.array([value for value, _ in found])))]
