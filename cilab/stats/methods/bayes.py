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
from typing import TYPE_CHECKING, Any

import numpy as np

from cilab.core.errors import TableError
from cilab.stats.methods.row_task_model import WEAK, Draws, Trials

if TYPE_CHECKING:
    import arviz
    import pymc

#: What a posterior must meet (Vehtari et al., 2021): largest R-hat, least effective draws per chain, no divergence.
MOST_R_HAT = 1.01
LEAST_ESS_PER_CHAIN = 100
#: Scales of the half-normal priors of the widths of deviations and of task difficulties, logits.
PRIOR_SD_DEVIATION, PRIOR_SD_TASK = 2.0, 3.0
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


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled model, for any data of its shape.

    Attributes
    ----------
    n_rows, dimensions : the shape.
    model : nutpie's.
    seconds : that compiling took.
    """

    n_rows: int
    dimensions: tuple[slice, ...]
    model: Any
    seconds: float

    def holding(self, trials: Trials) -> Any:
        """nutpie's model with these data.

        Raises
        ------
        TableError
            The data have another shape.
        """
        if len(trials.runs) != self.n_rows or tuple(trials.dimensions) != self.dimensions:
            raise TableError("the compiled model is for other numbers of rows or tasks; compile one for these data")
        return self.model.with_data(**_data(trials))


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


def compile_model(trials: Trials) -> Compiled:
    """The model of data like these, compiled for nutpie.

    Parameters
    ----------
    trials : their shape is compiled in, and whether they have many runs (see `_deviation`); the data are not.
    """
    import time

    begin = time.perf_counter()
    with _quietly():
        import nutpie

        model = nutpie.compile_pymc_model(row_task_model(trials))
    return Compiled(len(trials.runs), tuple(trials.dimensions), model, round(time.perf_counter() - begin, 2))


def sample(
    trials: Trials,
    *,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int = 0,
    cores: int | None = None,
    compiled: Compiled | None = None,
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

    ready = (compiled or compile_model(trials)).holding(trials)
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
