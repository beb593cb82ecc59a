"""Simulation-based calibration of the `nuts` engine: is the truth's rank among posterior draws uniform?

Parameters are drawn from the model's own priors, binary runs from the parameters, and the posterior is sampled from the
runs (Talts et al., 2018; the log likelihood among the quantities as in Modrak et al., 2023). Two designs, one for each
way in which `cilab.stats.methods.bayes` writes deviations: few runs of a row in a dimension, and many. A fifth of the
cells is empty, others in every data set. Nothing is left out, whatever its diagnostics say.

    python benchmarks/studies/fill_in_sbc.py [--replications 120] [--designs few many] [--out FILE]

The stored results are tests/golden/fill_in_sbc.json (the default of --out is there). A few minutes of two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

if TYPE_CHECKING:
    from cilab.stats.methods.bayes import Compiled, Posterior
    from cilab.stats.methods.row_task_model import Trials

OUT = Path(__file__).resolve().parents[2] / "tests" / "golden" / "fill_in_sbc.json"
#: Posterior draws that the truth is ranked among, so that ranks go from 0 to 99; every tenth of the sampler's.
RANKED, THIN, CHAINS = 99, 10, 2
DRAWS, TUNE = RANKED * THIN // CHAINS + 1, 500
BINS = 10
_STREAM = 20261130


@dataclass(frozen=True)
class Design:
    """Shape of the data sets: rows, tasks of each dimension, runs of a cell."""

    rows: int
    tasks: tuple[int, ...]
    seeds: int

    @property
    def dimensions(self) -> tuple[slice, ...]:
        ends = np.cumsum(self.tasks)
        return tuple(slice(int(e - n), int(e)) for n, e in zip(self.tasks, ends, strict=True))


DESIGNS = {"few": Design(6, (8, 8, 8), 3), "many": Design(5, (30, 30), 3)}


@dataclass(frozen=True)
class Truth:
    """One draw from the priors: `level` (dimensions, rows), `ease` (tasks,), logits, and the three widths."""

    level: np.ndarray
    ease: np.ndarray
    mean: np.ndarray
    widths: dict[str, float]


def drawn(name: str, number: int) -> tuple[Truth, Trials]:
    """Replication `number` of a design: parameters, and runs drawn from them."""
    from cilab.stats.methods import bayes
    from cilab.stats.methods.row_task_model import WEAK, Trials, expit

    design = DESIGNS[name]
    rng = np.random.default_rng([_STREAM, list(DESIGNS).index(name), number])
    n_dims = len(design.tasks)
    scales = {"sd_ability": WEAK, "sd_deviation": bayes.PRIOR_SD_DEVIATION, "sd_task": bayes.PRIOR_SD_TASK}
    widths = {quantity: abs(rng.normal(0.0, scale)) for quantity, scale in scales.items()}
    mean = rng.normal(0.0, WEAK, n_dims)
    ability = widths["sd_ability"] * _centred(rng.normal(size=design.rows), 0)
    deviation = widths["sd_deviation"] * _centred(_centred(rng.normal(size=(n_dims, design.rows)), 0), 1)
    ease = np.concatenate([widths["sd_task"] * _centred(rng.normal(size=n), 0) for n in design.tasks])
    level = mean[:, None] + ability + deviation
    shape = (design.rows, len(ease))
    runs = np.where(rng.random(shape) < 0.8, design.seeds, 0)
    passes = rng.binomial(runs, expit(_logits(level, ease, design)))
    return Truth(level, ease, mean, widths), Trials(passes.astype(float), runs.astype(float), design.dimensions)


def _centred(x: np.ndarray, axis: int) -> np.ndarray:
    """A normal that is made to sum to zero: what pymc calls ZeroSumNormal."""
    return x - x.mean(axis=axis, keepdims=True)


def _logits(level: np.ndarray, ease: np.ndarray, design: Design) -> np.ndarray:
    """Shape (..., rows, tasks)."""
    return np.repeat(level, design.tasks, axis=-2).swapaxes(-1, -2) + ease[..., None, :]


def quantities(
    level: np.ndarray, ease: np.ndarray, mean: np.ndarray, widths: dict[str, Any], trials: Trials, design: Design
) -> dict[str, Any]:
    """What is ranked, of the truth or of draws (a first axis): single parameters, a row's score, the log likelihood."""
    from cilab.stats.methods.row_task_model import expit

    eta = _logits(level, ease, design)
    return {
        **widths,
        "mean[0]": mean[..., 0],
        "level[0, 0]": level[..., 0, 0],
        "level[last, last]": level[..., -1, -1],
        "ease[0]": ease[..., 0],
        "ease[last]": ease[..., -1],
        "score of row 0": expit(eta[..., 0, :]).mean(axis=-1),
        "log likelihood": (trials.passes * eta - trials.runs * np.logaddexp(0.0, eta)).sum(axis=(-2, -1)),
    }


def ranks(name: str, number: int, compiled: Compiled) -> tuple[dict[str, int], Posterior]:
    """Rank of the truth among the posterior draws of one replication, 0 to 99 by quantity."""
    from cilab.stats.methods import bayes

    design = DESIGNS[name]
    truth, trials = drawn(name, number)
    posterior = bayes.sample(trials, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=2, seed=number, compiled=compiled)
    found = posterior.inference.posterior
    kept = slice(None, RANKED * THIN, THIN)
    widths = {w: np.asarray(found[w]).ravel()[kept] for w in truth.widths}
    mean = np.asarray(found["mean"]).reshape(-1, len(design.tasks))[kept]
    draws = posterior.draws
    sampled = quantities(draws.level[kept], -draws.difficulty[kept], mean, widths, trials, design)
    right = quantities(truth.level, truth.ease, truth.mean, truth.widths, trials, design)
    return {q: int((sampled[q] < right[q]).sum()) for q in sampled}, posterior


def p_uniform(found: list[int]) -> float:
    """Chi-square test that ranks are uniform, in ten bins."""
    from scipy import stats

    counts = np.bincount(np.array(found) * BINS // (RANKED + 1), minlength=BINS)
    return float(stats.chisquare(counts).pvalue)


def study(replications: int, designs: list[str], out: Path | None = None) -> dict[str, Any]:
    """Ranks and p-values of every design; written to `out` as they come."""
    from cilab.stats.methods import bayes

    result: dict[str, Any] = {
        "what": "ranks (0 to 99) of parameters drawn from the prior among thinned posterior draws, engine nuts",
        "made_by": "",
        "draws": DRAWS,
        "tune": TUNE,
        "chains": CHAINS,
        "thin": THIN,
        "designs": {},
    }
    for name in designs:
        began, cpu = time.perf_counter(), time.process_time()
        compiled = bayes.compile_model(drawn(name, 0)[1])
        rows: list[dict[str, int]] = []
        divergences = r_hat = 0
        for number in range(replications):
            found, posterior = ranks(name, number, compiled)
            rows.append(found)
            divergences += posterior.diagnostics.divergences
            r_hat += posterior.diagnostics.r_hat > bayes.MOST_R_HAT
            if (number + 1) % 10 == 0 or number + 1 == replications:
                by_quantity = {q: [row[q] for row in rows] for q in found}
                design = DESIGNS[name]
                result["designs"][name] = {
                    "rows": design.rows,
                    "tasks": list(design.tasks),
                    "seeds": design.seeds,
                    "replications": number + 1,
                    "divergences": divergences,
                    "replications_with_r_hat_above_1.01": r_hat,
                    "seconds": round(time.perf_counter() - began),
                    "cpu_seconds": round(time.process_time() - cpu),
                    "p_uniform": {q: round(p_uniform(x), 4) for q, x in by_quantity.items()},
                    "ranks": by_quantity,
                }
                result["made_by"] = _command(result["designs"])
                if out is not None:
                    out.write_text(json.dumps(result, indent=1) + "\n")
                print(f"{name}: {number + 1} of {replications}", file=sys.stderr, flush=True)
    return result


def _command(designs: dict[str, Any]) -> str:
    """What makes the designs that are there, with as many replications as the last of them has."""
    number = list(designs.values())[-1]["replications"]
    return f"python benchmarks/studies/fill_in_sbc.py --replications {number} --designs {' '.join(designs)}"


def main() -> int:
    """Run the study and print it; exit code 1 where ranks are not uniform."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=120)
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    result = study(given.replications, given.designs, given.out)
    smallest, tests = 1.0, 0
    for name, design in result["designs"].items():
        for quantity, p in design["p_uniform"].items():
            print(f"{name:<6}{quantity:<20} p = {p:.3f}")
            smallest, tests = min(smallest, p), tests + 1
    print(f"the smallest of {tests} p-values, times their number: {min(1.0, smallest * tests):.3f}")
    return 0 if smallest * tests > 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
