"""The row-by-task logit model by Markov chain Monte Carlo: PyMC's model, nutpie's sampler, ArviZ's diagnostics.

The only module that calls pymc, nutpie or arviz, and only inside its functions, as they take seconds to import. May
import `cilab.core.errors` and its own folder. Knows arrays only. A posterior comes with its diagnostics, always.

Compiling takes longer than sampling. What is compiled knows the shape of the data, not the data: `compile_model` once,
then `sample` as many data sets of that shape as there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cilab.core.errors import TableError
from cilab.stats.methods.row_task_model import WEAK, Draws, Trials

if TYPE_CHECKING:
    import arviz
    import pymc

#: Parameters of a task: its difficulty, or its difficulty and its slope.
Parameters = Literal[1, 2]
#: What a posterior must meet (Vehtari et al., 2021): largest R-hat, least effective draws per chain, no divergence.
MOST_R_HAT = 1.01
LEAST_ESS_PER_CHAIN = 100
#: Scales of the half-normal priors of the widths of deviations and of task difficulties, logits.
PRIOR_SD_DEVIATION, PRIOR_SD_TASK = 2.0, 3.0
#: Scale of the half-normal prior of the width of log slopes, of the model with two parameters a task.
PRIOR_SD_SLOPE = 0.5
#: Runs of a row in a dimension from which on they say more of its deviation than the prior does.
_MANY_RUNS = 60
_MOST_PARETO_K = 0.7


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


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """How well a posterior predicts cells that it has not seen (Vehtari, Gelman & Gabry 2017).

    Attributes
    ----------
    elpd, se : expected log predictive density, a sum over cells, and its standard error.
    p_loo : effective number of parameters.
    n_unreliable : cells whose Pareto k is above 0.7, where the approximation fails.
    pointwise : of each cell that has runs, in the order of rows and tasks.
    """

    elpd: float
    se: float
    p_loo: float
    n_unreliable: int
    pointwise: np.ndarray


def leave_one_out(posterior: Posterior, trials: Trials, most_draws: int = 2000) -> LeaveOneOut:
    """Pareto-smoothed importance sampling by ArviZ; what is left out is a cell, a row on a task with all its runs.

    Parameters
    ----------
    posterior : sampled from `trials`.
    most_draws : chains are thinned to about so many draws in all, to bound the memory.
    """
    with _quietly():
        import arviz as az

    sizes = posterior.inference.posterior.sizes
    chains, draws = sizes["chain"], sizes["draw"]
    kept = np.arange(0, draws, max(1, chains * draws // most_draws))
    picks = (np.arange(chains)[:, None] * draws + kept).ravel()
    there = trials.runs > 0
    eta = logits_of(posterior, trials.dimensions, picks)[:, there]
    cells = trials.passes[there] * eta - trials.runs[there] * np.logaddexp(0.0, eta)
    shaped = cells.reshape(chains, len(kept), -1)
    with _quietly():
        data = az.from_dict(posterior={"first": shaped[..., 0]}, log_likelihood={"cell": shaped})
        found = az.loo(data, pointwise=True, var_name="cell", reff=1.0)
    unreliable = int((np.asarray(found.pareto_k) > _MOST_PARETO_K).sum())
    return LeaveOneOut(
        float(found.elpd_loo), float(found.se), float(found.p_loo), unreliable, np.asarray(found.loo_i, dtype=float)
    )


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model, for any data of its shape.

    Attributes
    ----------
    n_rows, dimensions : the shape.
    model : nutpie's.
    seconds : that compiling took.
    parameters : of a task.
    """

    n_rows: int
    dimensions: tuple[slice, ...]
    model: Any
    seconds: float
    parameters: Parameters = 1

    def holding(self, trials: Trials) -> Any:
        """nutpie's model with these data.

        Raises
        ------
        TableError
            The data have another shape.
        """
        if len(trials.runs) != self.n_rows or tuple(trials.dimensions) != self.dimensions:
            raise TableError("the compiled model is for other numbers of rows or tasks; compile one for these data")
        return self.model.with_data(**(_data(trials) if self.parameters == 1 else _cells(trials)))


def row_task_model(trials: Trials) -> pymc.Model:
    """The model of `row_task_model` with its widths estimated, in its zero-sum parametrisation.

    Abilities sum to zero over rows, deviations over rows and over dimensions, difficulties over a dimension's tasks,
    so that nothing can drift against a mean. The runs of a cell enter as their number and the sum of their scores,
    which say all that the likelihood takes from them; a graded run is a fractional Bernoulli.

    Parameters
    ----------
    trials : the observed cells. Dimensions of one task have no difficulty, and with one row or one dimension there
        is no deviation.
    """
    with _quietly():
        import pymc as pm

        from cilab.stats.methods.bayes_kernel import normaliser

    n_rows, n_dims = len(trials.runs), len(trials.dimensions)
    data = _data(trials)
    # Bounds hold by construction, as widths are sampled as logarithms: nothing to check at every step.
    with pm.Model(coords={"row": range(n_rows), "dimension": range(n_dims)}, check_bounds=False) as model:
        shared = {name: pm.Data(name, values, shape=values.shape) for name, values in data.items()}
        level = pm.Normal("mean", 0.0, WEAK, dims="dimension")[:, None]
        if n_rows > 1:
            sd_ability = pm.HalfNormal("sd_ability", WEAK)
            level = level + pm.ZeroSumNormal("ability", sigma=sd_ability, dims="row")[None, :]
        if n_rows > 1 and n_dims > 1:
            level = level + _deviation(pm, trials)
        level = pm.Deterministic("level", level, dims=("dimension", "row"))
        log_likelihood = (level * shared["passes_by_level"]).sum()
        eases = _eases(pm, trials.dimensions)
        for n, ease in eases.items():
            here = [d for d, at in enumerate(trials.dimensions) if at.stop - at.start == n]
            own = level if len(here) == n_dims else level[here]
            log_likelihood += (ease * shared[f"passes_by_task_{n}"]).sum() - normaliser(own, ease, shared[f"runs_{n}"])
        pm.Deterministic("ease", _in_order(eases, trials.dimensions))
        pm.Potential("likelihood", log_likelihood)
    return model


def two_parameter_model(trials: Trials) -> pymc.Model:
    """The same model with a slope for each task: how much a row's standing counts on it.

    Log-odds of a pass = dimension mean + slope * (ability + deviation) - difficulty. Log slopes sum to zero over all
    tasks, with a width that is estimated; slopes are positive, so the sign of abilities is fixed. With all slopes 1 it
    is `row_task_model`.

    Parameters
    ----------
    trials : the observed cells, of at least 2 rows and 2 tasks.

    Raises
    ------
    TableError
        There are fewer rows or tasks.
    """
    n_rows, n_tasks = trials.runs.shape
    n_dims = len(trials.dimensions)
    if min(n_rows, n_tasks) < 2:
        raise TableError(f"slopes of tasks need 2 rows and 2 tasks, these runs have {n_rows} and {n_tasks}")
    with _quietly():
        import pymc as pm
        import pytensor.tensor as pt

    of_task = _dimension_of_task(trials.dimensions)
    with pm.Model(coords={"row": range(n_rows), "dimension": range(n_dims)}, check_bounds=False) as model:
        shared = {name: pm.Data(name, values, shape=values.shape) for name, values in _cells(trials).items()}
        mean = pm.Normal("mean", 0.0, WEAK, dims="dimension")
        sd_ability = pm.HalfNormal("sd_ability", WEAK)
        standing = pm.ZeroSumNormal("ability", sigma=sd_ability, dims="row")[None, :]
        if n_dims > 1:
            standing = standing + _deviation(pm, trials)
        pm.Deterministic("level", mean[:, None] + standing, dims=("dimension", "row"))
        ease = pm.Deterministic("ease", _in_order(_eases(pm, trials.dimensions), trials.dimensions))
        sd_slope = pm.HalfNormal("sd_slope", PRIOR_SD_SLOPE)
        in_widths = pm.ZeroSumNormal("log_slope_in_widths", sigma=1.0, shape=(n_tasks,))
        slope = pm.Deterministic("slope", pt.exp(sd_slope * in_widths))
        eta = mean[of_task] + ease + slope * pt.broadcast_to(standing, (n_dims, n_rows))[of_task].T
        pm.Potential("likelihood", (shared["passes"] * eta - shared["runs"] * pt.softplus(eta)).sum())
    return model


def _cells(trials: Trials) -> dict[str, np.ndarray]:
    """What the model with slopes reads: `passes` and `runs`, (R, T), float64."""
    return {name: np.ascontiguousarray(getattr(trials, name), dtype=float) for name in ("passes", "runs")}


def _dimension_of_task(dimensions: Sequence[slice]) -> np.ndarray:
    """Number of each task's dimension, (T,)."""
    return np.repeat(np.arange(len(dimensions)), [at.stop - at.start for at in dimensions])


def logits_of(posterior: Posterior, dimensions: Sequence[slice], picks: np.ndarray) -> np.ndarray:
    """Log-odds of a pass in every cell, shape (picks, R, T).

    Parameters
    ----------
    posterior : of either model.
    dimensions : the tasks of each dimension.
    picks : numbers of draws, all chains in turn.
    """
    found = posterior.inference.posterior
    level, ease = (_flat(found[name])[picks] for name in ("level", "ease"))
    of_task = _dimension_of_task(dimensions)
    if "slope" not in found:
        return level[:, of_task].swapaxes(1, 2) + ease[:, None, :]
    mean, slope = (_flat(found[name])[picks] for name in ("mean", "slope"))
    standing = (level - mean[:, :, None])[:, of_task].swapaxes(1, 2)
    return mean[:, None, of_task] + ease[:, None, :] + slope[:, None, :] * standing


def _data(trials: Trials) -> dict[str, np.ndarray]:
    """What the model reads, dimensions of one size together; all float64.

    `passes_by_level` (dimensions, R); for each size n `runs_n` (dimensions of that size, R, n), `passes_by_task_n`.
    """
    out = {"passes_by_level": np.stack([trials.passes[:, at].sum(axis=1) for at in trials.dimensions])}
    for n, dimensions in _by_size(trials.dimensions).items():
        out[f"runs_{n}"] = np.stack([trials.runs[:, at] for at in dimensions])
        out[f"passes_by_task_{n}"] = np.stack([trials.passes[:, at].sum(axis=0) for at in dimensions])
    return {name: np.ascontiguousarray(values, dtype=float) for name, values in out.items()}


def _by_size(dimensions: Sequence[slice]) -> dict[int, list[slice]]:
    """Dimensions by their number of tasks; an empty one is left out."""
    sizes = sorted({at.stop - at.start for at in dimensions} - {0})
    return {n: [at for at in dimensions if at.stop - at.start == n] for n in sizes}


def _deviation(pm: Any, trials: Trials) -> Any:
    """Deviations of rows in dimensions: as they are where the runs say much of each, else in units of their width.

    With few runs a deviation follows its prior, and width and deviations together form a funnel that no sampler
    likes; with many it is the other way round.
    """
    sd = pm.HalfNormal("sd_deviation", PRIOR_SD_DEVIATION)
    how = {"n_zerosum_axes": 2, "dims": ("dimension", "row")}
    per_level = np.median([trials.runs[:, d].sum(axis=1) for d in trials.dimensions])
    if per_level < _MANY_RUNS:
        return sd * pm.ZeroSumNormal("deviation_in_widths", sigma=1.0, **how)
    return pm.ZeroSumNormal("deviation", sigma=sd, **how)


def _eases(pm: Any, dimensions: Sequence[slice]) -> dict[int, Any]:
    """Eases by size of the dimension, each of shape (dimensions of that size, size)."""
    import pytensor.tensor as pt

    groups = _by_size(dimensions)
    out: dict[int, Any] = {}
    if set(groups) - {1}:
        sd = pm.HalfNormal("sd_task", PRIOR_SD_TASK)
    for n, own in groups.items():
        shape = (len(own), n)
        out[n] = pt.zeros(shape) if n == 1 else pm.ZeroSumNormal(f"ease_{n}", sigma=sd, n_zerosum_axes=1, shape=shape)
    return out


def _in_order(eases: dict[int, Any], dimensions: Sequence[slice]) -> Any:
    """Eases of all tasks in the tasks' order."""
    import pytensor.tensor as pt

    groups = _by_size(dimensions)
    tasks = np.concatenate([np.arange(at.start, at.stop) for n in groups for at in groups[n]])
    flat = pt.concatenate([eases[n].ravel() for n in groups])
    return flat if (np.diff(tasks) == 1).all() else flat[np.argsort(tasks)]


def compile_model(trials: Trials, parameters: Parameters = 1) -> Compiled:
    """The model of data like these, compiled for nutpie.

    Parameters
    ----------
    trials : their shape is compiled in, and whether they have many runs (see `_deviation`); the data are not.
    parameters : of a task: 1 (`row_task_model`) or 2 (`two_parameter_model`).
    """
    import time

    begin = time.perf_counter()
    with _quietly():
        import nutpie

        made = row_task_model(trials) if parameters == 1 else two_parameter_model(trials)
        model = nutpie.compile_pymc_model(made)
    seconds = round(time.perf_counter() - begin, 2)
    return Compiled(len(trials.runs), tuple(trials.dimensions), model, seconds, parameters)


def sample(
    trials: Trials,
    *,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    cores: int | None = None,
    compiled: Compiled | None = None,
    parameters: Parameters = 1,
) -> Posterior:
    """Sample the posterior with nutpie and check it.

    Parameters
    ----------
    trials : the observed cells.
    draws, tune : per chain, after and during tuning.
    chains : at least 2, as R-hat compares chains.
    seed : of the sampler.
    cores : chains at a time; default as many as there are processors.
    compiled : from `compile_model` with data of the same shape; default: compiled here.
    parameters : of a task, where it is compiled here: 1 or 2.

    Raises
    ------
    TableError
        Fewer than 2 chains or 50 draws, or `compiled` is for data of another shape.
    """
    if chains < 2 or draws < 50 or tune < 50:
        raise TableError(
            f"sampling with {chains} chains of {draws} draws after {tune} tells nothing of convergence; give at least "
            "2 chains, 50 draws and 50 for tuning"
        )
    import time

    ready = (compiled or compile_model(trials, parameters)).holding(trials)
    with _quietly():
        import nutpie

    begin = time.perf_counter()
    inference = nutpie.sample(ready, draws=draws, tune=tune, chains=chains, seed=seed, cores=cores, progress_bar=False)
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
