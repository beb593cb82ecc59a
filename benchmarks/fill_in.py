"""Fill-in on the simulated release: 24 rows x 8 dimensions x 240 tasks, three runs of each cell that is solved alone.

- Engine `laplace` with five-fold cross-validation, all checks and 2,000 resamples: `cilab.fill_in(data)` as it stands,
  against the promise of 3 seconds.
- Engine `nuts` against a PyMC model as one writes it down (`plain_model`) under `pm.sample`'s own sampler and defaults.
  Both have the same data, priors and quantities. The plain model is helped where honesty permits: it has one term per
  cell instead of one per run, and its effects are centred, as suits so much data.

What counts for `nuts` is the least bulk effective number of draws of any row's adjusted score, per second of sampling,
tuning included. A run counts only if R-hat of every adjusted score is below 1.01. Compilation is listed apart and not
counted: it depends on the model, not on the number of draws. Rows that solve every task alone have nothing to sample.

    python benchmarks/fill_in.py [--json] [--scale 1.0] [--draws 1000] [--cores 2] [--seed 1] [--engine laplace|nuts]

Seconds by the clock are what users wait for; seconds of CPU, listed beside them, suffer less from a busy machine. The
plain model takes a few minutes. At most two cores for either.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from lines import line, show  # noqa: E402

if TYPE_CHECKING:
    import pymc

    from cilab.stats.methods.row_task_model import Trials
    from cilab.stats.teamwork.grid import Grid

CHAINS, MOST_R_HAT = 4, 1.01
#: Promised: seconds of CPU at most, and times as many effective draws per second at least.
MOST_SECONDS, LEAST_RATIO = 3.0, 6.0


def data(scale: float) -> tuple[Grid, Trials]:
    """The simulated release as a grid and as the model reads it."""
    from cilab import datasets
    from cilab.stats.teamwork.fill_in import trials_of
    from cilab.stats.teamwork.grid import grid

    g = grid(datasets.simulated_release(0, scale))
    return g, trials_of(g)


def plain_model(trials: Trials) -> pymc.Model:
    """The same model without any thought for the sampler: every effect a normal around 0, one term per observed cell.

    Scores of 0.5 exist, so that a cell's likelihood is a fractional Bernoulli for both, and no Binomial.
    """
    import pymc as pm

    from cilab.stats.methods import bayes
    from cilab.stats.methods.row_task_model import WEAK

    n_rows, n_tasks = trials.runs.shape
    n_dims = len(trials.dimensions)
    dimension = np.repeat(np.arange(n_dims), [at.stop - at.start for at in trials.dimensions])
    row, task = np.nonzero(trials.runs)
    passes, runs = trials.passes[row, task], trials.runs[row, task]
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, WEAK, shape=n_dims)
        ability = pm.Normal("ability", 0.0, pm.HalfNormal("sd_ability", WEAK), shape=n_rows)
        sd_deviation = pm.HalfNormal("sd_deviation", bayes.PRIOR_SD_DEVIATION)
        deviation = pm.Normal("deviation", 0.0, sd_deviation, shape=(n_dims, n_rows))
        difficulty = pm.Normal("difficulty", 0.0, pm.HalfNormal("sd_task", bayes.PRIOR_SD_TASK), shape=n_tasks)
        eta = mean[dimension[task]] + ability[row] + deviation[dimension[task], row] - difficulty[task]
        pm.Potential("likelihood", (passes * eta - runs * pm.math.log1pexp(eta)).sum())
    return model


@dataclass(frozen=True)
class Run:
    """One sampler's run: least bulk ESS and largest R-hat of the adjusted scores, seconds of sampling, of compiling."""

    ess: float
    r_hat: float
    seconds: float
    cpu_seconds: float
    compile_seconds: float
    scores: np.ndarray

    @property
    def per_second(self) -> float:
        return self.ess / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.ess / self.cpu_seconds


def adjusted_scores(g: Grid, level: np.ndarray, difficulty: np.ndarray) -> np.ndarray:
    """Adjusted overall scores by draw, fractions, shape (chains, draws, rows with a cell to fill in), shift 0.

    `level` of shape (chains, draws, dimensions, rows), `difficulty` (chains, draws, tasks), logits.
    """
    from cilab.stats.methods.row_task_model import expit
    from cilab.stats.teamwork.fill_in import fillable

    fill = fillable(g)
    total = np.zeros((*level.shape[:2], g.rows.height))
    for d, at in enumerate(g.slices):
        for r in range(g.rows.height):
            here = np.flatnonzero(fill[r, at]) + at.start
            used = g.scored[r, at].sum() + len(here)
            observed = g.values[r, at][g.scored[r, at]].sum()
            filled = expit(level[..., d, r, None] - difficulty[..., here]).sum(axis=-1)
            total[..., r] += (observed + filled) / used / len(g.slices)
    return total[..., fill.any(axis=1)]


def _run(scores: np.ndarray, seconds: float, cpu_seconds: float, compile_seconds: float) -> Run:
    import arviz as az

    values = az.convert_to_dataset({"adjusted": scores})
    ess = float(az.ess(values, method="bulk")["adjusted"].min())
    r_hat = float(az.rhat(values)["adjusted"].max())
    return Run(ess, r_hat, seconds, cpu_seconds, compile_seconds, scores)


def ours(g: Grid, trials: Trials, *, draws: int, cores: int, seed: int) -> Run:
    """Engine `nuts`, its own default for tuning."""
    from cilab.stats.methods import bayes

    compiled = bayes.compile_model(trials)
    cpu = _cpu()
    posterior = bayes.sample(trials, draws=draws, chains=CHAINS, cores=cores, seed=seed, compiled=compiled)
    cpu = _cpu() - cpu  # with the diagnostics, which the clock leaves out
    by_chain = [a.reshape(CHAINS, draws, *a.shape[1:]) for a in (posterior.draws.level, posterior.draws.difficulty)]
    return _run(adjusted_scores(g, *by_chain), posterior.diagnostics.seconds, cpu, compiled.seconds)


def peer(g: Grid, trials: Trials, *, draws: int, cores: int, seed: int) -> Run:
    """`plain_model` under `pm.sample`: its own NUTS and its default for tuning."""
    import pymc as pm

    with plain_model(trials):
        began, cpu, own = time.perf_counter(), _cpu(children=True), _cpu()
        found = pm.sample(
            draws=draws,
            chains=CHAINS,
            cores=cores,
            random_seed=seed,
            nuts_sampler="pymc",
            progressbar=False,
            compute_convergence_checks=False,
        )
        whole = time.perf_counter() - began
        cpu, own = _cpu(children=True) - cpu, _cpu() - own
    p = {name: np.asarray(values) for name, values in found.posterior.items()}
    seconds = float(found.posterior.attrs["sampling_time"])
    level = p["mean"][..., None] + p["ability"][:, :, None, :] + p["deviation"]
    # Chains run in processes of their own, but for a single core, where they run here, compilation included.
    return _run(adjusted_scores(g, level, p["difficulty"]), seconds, cpu if cores > 1 else own, whole - seconds)


def _cpu(children: bool = False) -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def agree(one: Run, two: Run) -> None:
    """Both samplers find the same posterior means of the adjusted scores, within their Monte Carlo error."""
    a, b = (run.scores.reshape(-1, run.scores.shape[-1]) for run in (one, two))
    error = np.sqrt(a.var(axis=0) / one.ess + b.var(axis=0) / two.ess)
    # The zero-sum model has a weaker prior on what moves all rows alike, which may move scores by a little more.
    assert np.abs(a.mean(axis=0) - b.mean(axis=0)).max() < 5 * error.max() + 0.002, "the two models disagree"


def laplace(scale: float, rounds: int = 3) -> dict[str, Any]:
    """CPU seconds of the whole fill-in with cross-validation, the best of a few."""
    from cilab import datasets
    from cilab.stats.teamwork.fill_in import fill_in

    study = datasets.simulated_release(0, scale)
    seconds = min(_timed(lambda: fill_in(study)) for _ in range(rounds))
    note = "fill_in(study) with five-fold cross-validation and all checks"
    return line("laplace", seconds, "s of CPU", most=MOST_SECONDS, of="ours", note=note)


def _timed(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def nuts(scale: float, draws: int, cores: int, seed: int) -> list[dict[str, Any]]:
    """Lines of the comparison of samplers."""
    g, trials = data(scale)
    mine = ours(g, trials, draws=draws, cores=cores, seed=seed)
    other = peer(g, trials, draws=draws, cores=cores, seed=seed)
    agree(mine, other)
    size = f"{trials.runs.shape[0]} rows, {trials.runs.shape[1]} tasks, {int((trials.runs > 0).sum())} cells"
    how = f"{size}; {CHAINS} chains of {draws} draws, {cores} cores"

    def compared(name: str, a: float, b: float, unit: str, note: str, *, less: bool = False) -> dict[str, Any]:
        least = LEAST_RATIO if name in ("nuts", "nuts, CPU") else None
        return line(name, a, unit, peer=b, ratio=b / a if less else a / b, least=least, note=note)

    hat = f"R-hat {mine.r_hat:.4f} and {other.r_hat:.4f}"
    return [
        compared("nuts", mine.per_second, other.per_second, "min bulk ESS per second", f"{hat}; {how}"),
        compared("nuts, CPU", mine.per_cpu_second, other.per_cpu_second, "min bulk ESS per second of CPU", hat),
        compared("draws", mine.ess, other.ess, "min bulk ESS of the adjusted scores", "same number of draws"),
        compared("sampling", mine.seconds, other.seconds, "seconds", "tuning included", less=True),
        compared("compilation", mine.compile_seconds, other.compile_seconds, "seconds", "not counted above", less=True),
        line("largest R-hat", max(mine.r_hat, other.r_hat), "of both samplers", most=MOST_R_HAT, of="ours"),
    ]


def main() -> int:
    """Measure and print; exit code 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON line per comparison")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of tasks")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--cores", type=int, default=2, choices=(1, 2))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("laplace", "nuts"), help="only this one")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of pymc and arviz, about their own future
    lines = [] if given.engine == "nuts" else [laplace(given.scale)]
    if given.engine != "laplace":
        lines += nuts(given.scale, given.draws, given.cores, given.seed)
    return show(lines, given.json)


if __name__ == "__main__":
    sys.exit(main())
