"""The stated model behind `simulated_release`: its fixed parameters, what they imply, and one draw of it.

May import `cilab.core`, numpy and polars. Builds no table rows and writes nothing: `simulated_release` does the
first, `tools/fit_release.py` (which made the CSV files beside this module) the second.

The model. Row r is a model at an effort, t a task of dimension d, s a seed. All random effects are independent
normals; difficulties and cell effects are drawn anew for every data set, the parameters never change.

- alone:     logit P(solved) = alone_logit[r, d] - k[t]
- test:      logit P(pass)   = eta[r, d] - b[t] + u[r, t],  eta = mean[d] + slope[d] * ability[r] + deviation[r, d]
- baseline:  logit P(pass)   = baseline_logit[r, d] - c[t]
- conflict:  "pass" above reads "does not give in", slope is negative, and
             logit P(best deal | not given in) = best_logit[r] - b2[t] + u2[r, t]  (test; baseline alike, without u2)
- b[t] = shift of the task's source + sd_difficulty[d] * z[t]; k and c share z with the stated correlations.
- noticed:   logit P(noticed | failed) = notice_logit[r, d]  (rises with ability)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.teamwork.terms import DIMENSIONS

Array = NDArray[np.float64]

CONFLICT = DIMENSIONS.index("handling_conflict")
TAKING_OVER = DIMENSIONS.index("taking_over")
#: Dimensions in which failing is mostly failing to notice (collaborative-intelligence paper, section 4.5).
NOTICING = ("sharing_information", "emotional_intelligence", "taking_initiative")

#: Tasks of each source family by dimension: the 210 of the public round, and for taking over what is then
#: missing to table 1 of the paper (36 + 35 + 23 real records, 66 + 34 + 27 + 19 benchmark items).
SOURCES: dict[str, dict[str, int]] = {
    "resisting_unsafe_pressure": {"coding": 11, "accident_reports": 7, "clinical_cases": 6, "regulators_papers": 6},
    "reporting_misconduct": {
        "coding": 15,
        "regulators_papers": 9,
        "accident_reports": 3,
        "negotiations": 2,
        "clinical_cases": 1,
    },
    "sharing_information": {
        "team_decisions": 11,
        "clinical_cases": 7,
        "exam_problems": 6,
        "coding": 3,
        "accident_reports": 2,
        "negotiations": 1,
    },
    "emotional_intelligence": {
        "team_decisions": 14,
        "clinical_cases": 10,
        "exam_problems": 5,
        "accident_reports": 1,
    },
    "keeping_on_track": {
        "clinical_cases": 9,
        "exam_problems": 8,
        "accident_reports": 7,
        "coding": 4,
        "team_decisions": 2,
    },
    "handling_conflict": {"negotiations": 30},
    "taking_initiative": {"regulators_papers": 14, "coding": 12, "accident_reports": 2, "clinical_cases": 2},
    "taking_over": {"coding": 21, "regulators_papers": 7, "accident_reports": 1, "negotiations": 1},
}
REAL_WORLD = ("regulators_papers", "clinical_cases", "accident_reports")
#: Of the coding takeovers, those in which the earlier model cheated on the tests (the paper counts 165 frontier runs).
INHERITED_CHEATS = 11
#: How hard a family is beside the others, in logits before scaling: accident reports easiest, negotiations and team
#: decisions hardest (figure 12b).
FAMILY_SHIFT = {
    "accident_reports": -0.8,
    "clinical_cases": -0.4,
    "regulators_papers": -0.3,
    "coding": 0.3,
    "exam_problems": 0.3,
    "team_decisions": 0.6,
    "negotiations": 0.6,
}
CHEAT = "inherited_cheat"
CHEAT_SHIFT = 2.0

#: Widths of the random effects that are stated rather than fitted (logits), and correlations with z.
SD_DIFFICULTY = {
    "resisting_unsafe_pressure": 2.8,
    "reporting_misconduct": 2.8,
    "sharing_information": 2.5,
    "emotional_intelligence": 2.6,
    "keeping_on_track": 2.5,
    "handling_conflict": 1.8,
    "taking_initiative": 2.5,
    "taking_over": 2.5,
}
SD_ALONE, SD_BASELINE, SD_BEST = 1.3, 0.8, 1.0
RHO_ALONE, RHO_ALONE_TAKING_OVER, RHO_BASELINE = 0.3, 0.7, 0.3

_NODES = 15


@dataclass(frozen=True, slots=True)
class Parameters:
    """The fixed parameters, as fitted.

    Attributes
    ----------
    rows : one row per leaderboard row (24), in order: `model, effort, group, family, ability` (logits), and what
        costs, tokens, dates and capability scores are drawn from.
    cells : one row per leaderboard row and dimension (24 x 8): `eta, deviation, best_logit, alone_logit,
        baseline_logit, baseline_best_logit, notice_logit` (logits), the targets they were fitted to, and
        `deal_share_firm, deal_share_gave_in, asks_share` for conflict (fractions).
    dimensions : one row per dimension: `mean, slope, sd_difficulty, sd_alone, rho_alone`.
    sd_cell, family_scale : the two fitted scalars (logits; a factor on FAMILY_SHIFT).
    """

    rows: pl.DataFrame
    cells: pl.DataFrame
    dimensions: pl.DataFrame
    sd_cell: float
    family_scale: float

    def matrix(self, column: str) -> Array:
        """A column of `cells` as an array of shape (24, 8)."""
        return self.cells[column].to_numpy().astype(float).reshape(self.rows.height, len(DIMENSIONS))


@lru_cache(maxsize=1)
def load_parameters() -> Parameters:
    """The parameters that `python tools/fit_release.py` wrote."""
    here = files("cilab.datasets.release")
    rows = _read(here, "release_rows.csv").with_columns(pl.col("released").str.to_date())
    dimensions = _read(here, "release_dimensions.csv")
    scalars = dimensions.row(0, named=True)
    return Parameters(
        rows,
        _read(here, "release_cells.csv"),
        dimensions.drop("sd_cell", "family_scale"),
        scalars["sd_cell"],
        scalars["family_scale"],
    )


def _read(folder, name: str) -> pl.DataFrame:
    return pl.read_csv((folder / name).read_bytes(), infer_schema_length=None)


# -- what the parameters imply --------------------------------------------------------------------------


def expit(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def normal_nodes(n: int = _NODES) -> tuple[Array, Array]:
    """Nodes and weights (summing to 1) of a quadrature over a standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / w.sum()


@lru_cache(maxsize=8)
def source_mix(dimension: str) -> tuple[tuple[str, ...], Array, Array]:
    """Kinds of source in a dimension, their shares, and their unscaled shifts (logits, mean 0)."""
    counts = dict(SOURCES[dimension])
    shifts = {f: FAMILY_SHIFT[f] for f in counts}
    if dimension == "taking_over":
        counts["coding"] -= INHERITED_CHEATS
        counts[CHEAT] = INHERITED_CHEATS
        shifts[CHEAT] = FAMILY_SHIFT["coding"] + CHEAT_SHIFT
    share = np.array(list(counts.values()), float) / sum(counts.values())
    shift = np.array([shifts[f] for f in counts])
    return tuple(counts), share, shift - share @ shift


def rho_alone(d: int) -> float:
    """Correlation of a task's difficulty alone with its difficulty in the test."""
    return RHO_ALONE_TAKING_OVER if d == TAKING_OVER else RHO_ALONE


def solved_given_z(alone_logit: Array, d: int) -> Array:
    """P(solved alone) at the quadrature nodes of z; shape (rows, nodes)."""
    z, _ = normal_nodes()
    w, weight = normal_nodes()
    rho = rho_alone(d)
    k = SD_ALONE * (rho * z[:, None] + np.sqrt(1 - rho**2) * w[None, :])
    return expit(alone_logit[:, None, None] - k[None]) @ weight


@dataclass(frozen=True, slots=True)
class Implied:
    """Expected values over new tasks, shape (rows,): of the score on the tasks that are solved alone and on all
    tasks, of three equal scores in three seeds, and of the score on real-world and on benchmark-built sources."""

    gated: Array
    full: Array
    same: Array
    real: Array
    built: Array


def implied(d: int, eta: Array, best: Array | None, alone: Array, sd_cell: float, family_scale: float) -> Implied:
    """Expected test scores of dimension number `d`; logits of shape (rows,)."""
    z, wz = normal_nodes()
    u, wu = normal_nodes()
    kinds, share, shift = source_mix(DIMENSIONS[d])
    b = family_scale * shift[:, None] + SD_DIFFICULTY[DIMENSIONS[d]] * z[None, :]
    p = expit(eta[:, None, None, None] - b[None, :, :, None] + sd_cell * u)  # rows, kinds, z, u
    if best is None:
        score = p @ wu
        same = (p**3 + (1 - p) ** 3) @ wu
    else:
        q, q3, h3 = _best_moments(best, sd_cell)
        score = (p * (0.5 + 0.5 * q[:, None, None, None])) @ wu
        same = ((1 - p) ** 3 + p**3 * (q3 + h3)[:, None, None, None]) @ wu
    gate = solved_given_z(alone, d)
    over_z = gate * wz
    by_kind = (score * over_z[:, None, :]).sum(2) / over_z.sum(1)[:, None]
    real = np.array([k in REAL_WORLD for k in kinds])
    split = share * np.array([real, ~real])
    with np.errstate(invalid="ignore"):
        halves = by_kind @ (split / split.sum(1, keepdims=True)).T
    return Implied(
        by_kind @ share,
        (score @ wz) @ share,
        ((same * over_z[:, None, :]).sum(2) / over_z.sum(1)[:, None]) @ share,
        halves[:, 0],
        halves[:, 1],
    )


def _best_moments(best: Array, sd_cell: float) -> tuple[Array, Array, Array]:
    """E q, E q^3 and E (1 - q)^3 of P(best deal | not given in)."""
    x, w = normal_nodes(21)
    q = expit(best[:, None] + np.hypot(SD_BEST, sd_cell) * x)
    return q @ w, q**3 @ w, (1 - q) ** 3 @ w


def mean_best(best: Array, sd: float) -> Array:
    """E P(best deal | not given in) where the logit has standard deviation `sd`."""
    x, w = normal_nodes(21)
    return expit(np.asarray(best)[:, None] + sd * x) @ w


def implied_alone(alone: Array) -> Array:
    """Expected share of tasks solved alone."""
    x, w = normal_nodes(21)
    return expit(alone[:, None] + SD_ALONE * x) @ w


def implied_baseline(d: int, baseline: Array, alone: Array) -> Array:
    """Expected share of passed baselines (conflict: not given in) on the tasks that are solved alone."""
    z, wz = normal_nodes()
    w, ww = normal_nodes()
    c = SD_BASELINE * (RHO_BASELINE * z[:, None] + np.sqrt(1 - RHO_BASELINE**2) * w[None, :])
    p = expit(baseline[:, None, None] - c[None]) @ ww
    over_z = solved_given_z(alone, d) * wz
    return (p * over_z).sum(1) / over_z.sum(1)


# -- one draw ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """Difficulties of the tasks and the probabilities that follow; tasks in order of dimension.

    Attributes
    ----------
    dimension : index into DIMENSIONS, shape (tasks,).
    kind : source family, or `inherited_cheat`, per task.
    b, k, c, b2 : difficulties in logits, shape (tasks,).
    u, u2 : cell effects in logits, shape (rows, tasks).
    alone, hold, best, calm_hold, calm_best : probabilities, shape (rows, tasks). `hold` is P(pass), in conflict
        P(not giving in); `best` is P(best deal | not given in), 1 outside conflict; `calm_*` are the baseline's.
    """

    dimension: NDArray[np.int64]
    kind: NDArray[np.str_]
    b: Array
    k: Array
    c: Array
    b2: Array
    u: Array
    u2: Array
    alone: Array
    hold: Array
    best: Array
    calm_hold: Array
    calm_best: Array


def task_kinds(dimension: str, n: int) -> list[str]:
    """Source kinds of `n` tasks of a dimension: the paper's 30, thinned or repeated evenly, in a fixed mixed order."""
    kinds, share, _ = source_mix(dimension)
    whole = [k for k, c in zip(kinds, np.rint(share * 30).astype(int), strict=True) for _ in range(c)]
    order = np.random.default_rng(len(dimension)).permutation(len(whole))
    return [whole[order[i * len(whole) // n]] for i in range(n)]


def draw(p: Parameters, per_dimension: int, rng: np.random.Generator) -> Draw:
    """Draw tasks and cells."""
    dims = np.repeat(np.arange(len(DIMENSIONS)), per_dimension)
    kind = np.array([k for d in DIMENSIONS for k in task_kinds(d, per_dimension)])
    shift = np.empty(len(dims))
    for i, name in enumerate(DIMENSIONS):
        kinds, _, s = source_mix(name)
        of = dict(zip(kinds, s, strict=True))
        shift[dims == i] = [of[k] for k in kind[dims == i]]
    z, x_alone, x_calm, x_best = rng.standard_normal((4, len(dims)))
    rho = np.array([rho_alone(d) for d in range(len(DIMENSIONS))])[dims]
    sd = np.array([SD_DIFFICULTY[d] for d in DIMENSIONS])[dims]
    b = p.family_scale * shift + sd * z
    k = SD_ALONE * (rho * z + np.sqrt(1 - rho**2) * x_alone)
    c = SD_BASELINE * (RHO_BASELINE * z + np.sqrt(1 - RHO_BASELINE**2) * x_calm)
    b2 = SD_BEST * x_best
    u, u2 = p.sd_cell * rng.standard_normal((2, p.rows.height, len(dims)))
    at = {name: p.matrix(name)[:, dims] for name in _LOGITS}
    conflict = dims == CONFLICT
    return Draw(
        dims,
        kind,
        b,
        k,
        c,
        b2,
        u,
        u2,
        alone=expit(at["alone_logit"] - k),
        hold=expit(at["eta"] - b + u),
        best=np.where(conflict, expit(at["best_logit"] - b2 + u2), 1.0),
        calm_hold=expit(at["baseline_logit"] - c),
        calm_best=np.where(conflict, expit(at["baseline_best_logit"] - b2), 1.0),
    )


_LOGITS = ("alone_logit", "eta", "best_logit", "baseline_logit", "baseline_best_logit")
