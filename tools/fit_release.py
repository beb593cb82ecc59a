"""Fits the parameters of the simulated release to published aggregates; run offline, never on import.

    python tools/fit_release.py          # rewrites the three cilab/datasets/release/release_*.csv
    python tools/fit_release.py --check  # says how far the implied values are from the targets

May import `cilab.datasets.release.model`, numpy, polars. The published numbers stand here with their claim
(ids of claims.csv). What the paper does not print (a single row's score, a group's mean) is chosen between what
it prints and marked `chosen`; a row therefore stands for no real model.

How: (1) a 24 x 8 table of target scores is made whose row means, group means by dimension and fixed cells are
the published ones, by alternating shifts on the logit scale from an additive start with random deviations;
(2) each target is turned into a logit by solving the quadrature of `cilab.datasets.release.model.implied` for it, given
the widths; (3) the width of the cell effect is solved so that 80 % of cells have equal scores in three seeds, the scale
of the source shifts so that benchmark-built tasks score 10.4 points below real records; (2) and (3) are repeated until
they agree; (4) logits are split into dimension mean, ability and deviation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.datasets.release import model as m
from cilab.teamwork.terms import DIMENSIONS

Array = m.Array
Ints = NDArray[np.int64]
SEED = 20261023
DEVIATION_SD = 0.36  # of a row in a dimension beside ability, logits; chosen for CI181-CI182
SAME_IN_SEEDS = 0.80  # CI083
HARDER_BUILT = 0.104  # CI142
TOKENS_IN_PER_OUT, OUT_PRICE_FACTOR = 14.0, 5.0  # chosen

# model, group, family, overall score % (CI010-CI019; F2-F5, C and O beside the best and worst: chosen), baseline %
# (CI014, CI015), solved alone %, best deal % and held firm % in conflict (CI021, CI188), capability residual in
# points (section F), released (section D.2), mean tokens out (CI056: 501 to 4,609), cost USD (CI040-CI047), log-odds
# by which failures are noticed more often than the trend (figure 6b).
_MODELS = [
    ("sim:F1", "frontier", "sim-family-1", 76.6, 96.8, 98.3, 24, 5, 10.5, "2026-10-14", 900, 119.0, 0.0),
    ("sim:F2", "frontier", "sim-family-2", 75.5, 97.4, 98.5, 18, 6, 10.5, "2026-09-24", 1500, 138.0, 0.0),
    ("sim:F3", "frontier", "sim-family-2", 74.8, 96.6, 97.2, 14, 5, 10.2, "2026-10-05", 640, 30.0, -0.3),
    ("sim:F4", "frontier", "sim-family-3", 71.5, 96.8, 98.3, 7, 3, -4.0, "2026-09-30", 1200, 96.0, 0.5),
    ("sim:F5", "frontier", "sim-family-3", 65.6, 96.4, 97.0, 7, 6, -1.5, "2026-09-03", 1300, 88.0, 0.0),
    ("sim:C1", "closed", "sim-family-3", 64.5, 94.0, 96.5, 12, 6, -2.0, "2026-10-06", 980, 34.0, 0.0),
    ("sim:C2", "closed", "sim-family-4", 58.5, 91.5, 89.0, 22, 10, 1.0, "2026-09-12", 4609, 9.0, -0.7),
    ("sim:C3", "closed", "sim-family-1", 56.0, 90.0, 87.0, 10, 16, -3.0, "2026-09-18", 760, 33.0, 0.0),
    ("sim:C4", "closed", "sim-family-3", 51.7, 84.0, 84.0, 5, 5, 4.0, "2026-10-08", 501, 2.0, 0.7),
    ("sim:C5", "closed", "sim-family-5", 49.5, 87.0, 82.0, 12, 18, -4.0, "2026-09-09", 2300, 14.0, 0.0),
    ("sim:C6", "closed", "sim-family-2", 46.0, 86.0, 78.0, 14, 17, -2.0, "2026-08-20", 1900, 5.2, 0.0),
    ("sim:O1", "open", "sim-family-6", 59.9, 89.5, 90.0, 12, 22, 0.0, "2026-10-20", 2700, 45.0, -0.6),
    ("sim:O2", "open", "sim-family-7", 49.0, 82.5, 83.0, 28, 50, 2.0, "2026-09-15", 1150, 3.1, 0.0),
    ("sim:O3", "open", "sim-family-6", 47.0, 85.5, 86.0, 9, 20, -10.0, "2026-07-15", 2900, 18.0, 0.0),
    ("sim:O4", "open", "sim-family-8", 41.5, 82.0, 86.0, 6, 26, -9.5, "2026-09-22", 2450, 9.8, 0.0),
    ("sim:O5", "open", "sim-family-7", 38.0, 84.6, 82.0, 11, 22, -5.0, "2026-03-18", 1700, 6.4, 0.0),
    ("sim:O6", "open", "sim-family-9", 36.7, 77.0, 68.0, 20, 22, -2.0, "2026-05-27", 2200, 4.4, -0.2),
    ("sim:O7", "open", "sim-family-2", 19.1, 63.5, 60.0, 10, 34, 3.0, "2025-08-05", 2000, 1.8, 0.8),
]
# model: gain in overall points (CI050, CI051), in conflict points (appendix E: -0.3 to -11.7), cost factor (1.0 to 4.8)
_HIGH = {
    "sim:F1": (5.6, -3.0, 273 / 119),
    "sim:F2": (5.7, -5.8, 4.8),
    "sim:F3": (2.7, -7.5, 2.0),
    "sim:F4": (4.0, -4.5, 2.6),
    "sim:F5": (4.9, -0.3, 1.9),
    "sim:O1": (-3.7, -11.7, 1.0),
}
# Mean over the six models that high effort adds (CI052, CI053; the safety dimensions "at most 0.6").
_HIGH_GAIN = {
    "resisting_unsafe_pressure": 0.4,
    "reporting_misconduct": 0.2,
    "emotional_intelligence": 6.9,
    "taking_initiative": 8.4,
}
_O1_INITIATIVE = (52.0, 27.0)  # default and high (appendix E)

# Test scores % by group; conflict comes from the rows. Frontier: CI020, CI022, CI024, CI026, CI028; open: CI023,
# CI025, CI027; the rest chosen so that the group means of the rows come out (CI018, CI019).
_GROUP_SCORE = {
    "resisting_unsafe_pressure": (97.0, 88.0, 75.0),
    "reporting_misconduct": (96.0, 88.0, 77.0),
    "sharing_information": (88.0, 59.0, 30.0),
    "emotional_intelligence": (45.0, 25.0, 12.0),
    "keeping_on_track": (86.0, 66.0, 49.0),
    "taking_initiative": (73.0, 31.0, 16.0),
    "taking_over": (81.0, 60.0, 46.0),
}
# Baselines %: a calm team loses 3.2 and 17 points without taking over, 31 in conflict and 8 elsewhere
# (CI151, CI152, CI154); the model's own start of a takeover 97 (CI029).
_GROUP_BASELINE = {
    "resisting_unsafe_pressure": (98.5, 93.0, 85.0),
    "reporting_misconduct": (98.0, 96.0, 94.0),
    "sharing_information": (99.0, 93.0, 90.0),
    "emotional_intelligence": (98.5, 92.5, 92.0),
    "keeping_on_track": (96.5, 91.0, 86.0),
    "handling_conflict": (89.0, 65.0, 58.0),
    "taking_initiative": (97.5, 89.0, 76.0),
    "taking_over": (97.0, 90.0, 70.4),
}
_CALM_FIRM = (0.10, 0.20, 0.20)  # held firm with a calm teammate; frontier give in in 6 % (section 4.2)
# Logits by which a dimension is easier to solve alone than the row's mean.
_ALONE_SHIFT = {
    "resisting_unsafe_pressure": -0.2,
    "reporting_misconduct": 0.1,
    "sharing_information": 0.5,
    "emotional_intelligence": 0.9,
    "keeping_on_track": -0.5,
    "handling_conflict": -0.3,
    "taking_initiative": -0.25,
    "taking_over": -0.4,
}
_FRONTIER_CONFLICT_ALONE = 99.5  # "the best split in 100% of runs" (section 4.2)
# Noticed share of failures: frontier, and all 18 models (CI061-CI064, CI068; conflict: CI065 for those that gave in).
_NOTICED = {
    "resisting_unsafe_pressure": (0.85, 0.73),
    "reporting_misconduct": (0.85, 0.70),
    "sharing_information": (0.33, 0.19),
    "emotional_intelligence": (0.29, 0.15),
    "keeping_on_track": (0.75, 0.61),
    "handling_conflict": (0.90, 0.84),
    "taking_initiative": (0.20, 0.12),
    "taking_over": (0.88, 0.80),
}
_NOTICE_SD = 0.15
_SEVEN = [d for d in range(len(DIMENSIONS)) if d != m.CONFLICT]
_GROUPS = ("frontier", "closed", "open")


def logit(p: Array | float) -> Array:
    """log(p / (1 - p))."""
    p = np.asarray(p, float)
    return np.log(p / (1 - p))


def solve(f: Callable[[Array], Array], target: Array, steps: int = 44) -> Array:
    """x with f(x) = target, element by element, for increasing f; bisection over +-20."""
    lo, hi = np.full(target.shape, -20.0), np.full(target.shape, 20.0)
    for _ in range(steps):
        mid = (lo + hi) / 2
        low = f(mid) < target
        lo, hi = np.where(low, mid, lo), np.where(low, hi, mid)
    return (lo + hi) / 2


# -- (1) target scores --------------------------------------------------------------------------------------


def shift_to(z: Array, free: Array, target: float) -> Array:
    """z with its free elements moved by one number so that the mean of expit(z) is the target."""
    total = target * z.size - m.expit(z)[~free].sum()
    step = solve(lambda x: m.expit(z[free] + x).sum(keepdims=True), np.array([total]))
    return np.where(free, z + step, z)


def alternate(z: Array, free: Array, rows: Array, groups: list[tuple[Ints, dict[int, float]]]) -> Array:
    """Shift groups of cells and whole rows in turn until column and row means are met; shape (models, 7)."""
    for _ in range(300):
        for members, targets in groups:
            for d, value in targets.items():
                z[members, d] = shift_to(z[members, d], free[members, d], value)
        for r in range(len(z)):
            z[r] = shift_to(z[r], free[r], rows[r])
    return np.minimum(z, logit(0.992))


def target_scores(rng: np.random.Generator) -> tuple[Array, Array]:
    """Target test scores (fractions): 18 models at default and the six at high effort, each x 8."""
    overall = np.array([r[3] for r in _MODELS]) / 100
    conflict = np.array([r[6] + r[7] / 2 for r in _MODELS]) / 100
    group = np.array([_GROUPS.index(r[1]) for r in _MODELS])
    mean7 = (8 * overall - conflict) / 7
    base = np.array([[logit(_GROUP_SCORE[DIMENSIONS[d]][g] / 100) for d in _SEVEN] for g in group])
    z = base + DEVIATION_SD * rng.standard_normal(base.shape)
    free = np.ones(z.shape, bool)
    at, o1 = _SEVEN.index(DIMENSIONS.index("taking_initiative")), [r[0] for r in _MODELS].index("sim:O1")
    z[o1, at], free[o1, at] = logit(_O1_INITIATIVE[0] / 100), False
    wanted = {j: [v / 100 for v in _GROUP_SCORE[DIMENSIONS[d]]] for j, d in enumerate(_SEVEN)}
    groups = [(np.flatnonzero(group == g), {j: v[g] for j, v in wanted.items()}) for g in range(3)]
    z = alternate(z, free, mean7, groups)
    default = np.empty((len(_MODELS), len(DIMENSIONS)))
    default[:, _SEVEN], default[:, m.CONFLICT] = m.expit(z), conflict
    return default, _high_scores(default, at)


def _high_scores(default: Array, initiative: int) -> Array:
    who = [[r[0] for r in _MODELS].index(name) for name in _HIGH]
    before = default[who]
    gain = np.array([v[:2] for v in _HIGH.values()]) / 100
    conflict = before[:, m.CONFLICT] + gain[:, 1]
    mean7 = (8 * (before.mean(1) + gain[:, 0]) - conflict) / 7
    z = logit(np.minimum(before[:, _SEVEN], 0.992)) + 0.3
    free = np.ones(z.shape, bool)
    last = len(who) - 1
    z[last, initiative], free[last, initiative] = logit(_O1_INITIATIVE[1] / 100), False
    columns = {
        _SEVEN.index(DIMENSIONS.index(d)): before[:, DIMENSIONS.index(d)].mean() + v / 100
        for d, v in _HIGH_GAIN.items()
    }
    z = alternate(z, free, mean7, [(np.arange(len(who)), columns)])
    high = np.empty_like(before)
    high[:, _SEVEN], high[:, m.CONFLICT] = m.expit(z), np.maximum(conflict, 0.02)
    return high


# -- (2) to (4) logits --------------------------------------------------------------------------------------


def fit() -> m.Parameters:
    """All parameters from the published numbers above; the same on every run."""
    rng = np.random.default_rng(SEED)
    default, high = target_scores(rng)
    names = [r[0] for r in _MODELS]
    who = [names.index(n) for n in _HIGH]
    of = np.array([*range(len(names)), *who])  # the model of each of the 24 rows
    group = np.array([_GROUPS.index(_MODELS[i][1]) for i in of])
    score = np.vstack([default, high])
    best, gave = _conflict_shares(score[:, m.CONFLICT], of)
    alone_target, alone = _alone(of, group)
    sd_cell, scale = 2.0, 1.0
    for _ in range(7):
        eta, best_logit = _test_logits(score, best, gave, alone, sd_cell, scale)
        sd_cell += 7.0 * (SAME_IN_SEEDS - _overall(eta, best_logit, alone, sd_cell, scale)[0])
        eta, best_logit = _test_logits(score, best, gave, alone, sd_cell, scale)
        scale *= HARDER_BUILT / _overall(eta, best_logit, alone, sd_cell, scale)[1]
    eta, best_logit = _test_logits(score, best, gave, alone, sd_cell, scale)
    calm_score, calm, calm_best = _baseline(of, group, alone)
    mean, slope, ability, deviation = _split(eta)
    notice = _notice(ability, of, score, alone_target, rng)
    cells = pl.DataFrame(
        {
            "model": [names[i] for i in of for _ in DIMENSIONS],
            "effort": [e for e in _efforts(len(names)) for _ in DIMENSIONS],
            "dimension": [d for _ in of for d in DIMENSIONS],
            "eta": eta.ravel(),
            "deviation": deviation.ravel(),
            "best_logit": _conflict_only(best_logit),
            "alone_logit": alone.ravel(),
            "baseline_logit": calm.ravel(),
            "baseline_best_logit": _conflict_only(calm_best),
            "notice_logit": notice.ravel(),
            "asks_share": _conflict_only(_asks(ability, group)),
            "target_score": score.ravel(),
            "target_alone": alone_target.ravel(),
            "target_baseline": calm_score.ravel(),
        }
    ).with_columns(pl.selectors.float().round(6).fill_nan(None))
    dims = pl.DataFrame(
        {"dimension": DIMENSIONS, "mean": mean, "slope": slope, "sd_cell": sd_cell, "family_scale": scale}
    ).with_columns(pl.selectors.float().round(6))
    return m.Parameters(
        _rows(of, ability, default, alone_target),
        cells,
        dims.drop("sd_cell", "family_scale"),
        dims["sd_cell"][0],
        dims["family_scale"][0],
    )


def _efforts(n: int) -> list[str]:
    return ["default"] * n + ["high"] * len(_HIGH)


def _conflict_only(values: Array) -> Array:
    out = np.full((len(values), len(DIMENSIONS)), np.nan)
    out[:, m.CONFLICT] = values
    return out.ravel()


def _conflict_shares(score: Array, of: Ints) -> tuple[Array, Array]:
    """Shares of best deals and of giving in; at high effort the loss is more giving in and fewer best deals alike."""
    best = np.array([_MODELS[i][6] for i in of]) / 100
    firm = np.array([_MODELS[i][7] for i in of]) / 100
    factor = score / (best + firm / 2)
    return best * factor, 1 - (best + firm) * factor


def _alone(of: Ints, group: Ints) -> tuple[Array, Array]:
    level = np.array([_MODELS[i][5] for i in of]) / 100
    shift = np.array([_ALONE_SHIFT[d] for d in DIMENSIONS])
    z = logit(level)[:, None] + shift
    for r in range(len(of)):
        z[r] = shift_to(z[r], np.ones(len(DIMENSIONS), bool), level[r])
    target = m.expit(z)
    target[group == 0, m.CONFLICT] = _FRONTIER_CONFLICT_ALONE / 100
    return target, np.column_stack([solve(m.implied_alone, target[:, d]) for d in range(len(DIMENSIONS))])


def _test_logits(
    score: Array, best: Array, gave: Array, alone: Array, sd_cell: float, scale: float
) -> tuple[Array, Array]:
    eta = np.empty(score.shape)
    sd = float(np.hypot(m.SD_BEST, sd_cell))
    best_logit = solve(lambda x: m.mean_best(x, sd), best / (1 - gave))
    never = np.full(len(score), -30.0)  # P(best) = 0, so that the implied score is half of P(not given in)
    for d in range(len(DIMENSIONS)):
        if d == m.CONFLICT:
            eta[:, d] = solve(
                lambda x: m.implied(m.CONFLICT, x, never, alone[:, m.CONFLICT], sd_cell, scale).gated, (1 - gave) / 2
            )
        else:
            eta[:, d] = solve(lambda x, d=d: m.implied(d, x, None, alone[:, d], sd_cell, scale).gated, score[:, d])
    return eta, best_logit


def _overall(eta: Array, best: Array, alone: Array, sd_cell: float, scale: float) -> tuple[float, float]:
    """Share of gated cells with three equal scores, and points by which benchmark-built tasks are harder."""
    found = [
        m.implied(d, eta[:, d], best if d == m.CONFLICT else None, alone[:, d], sd_cell, scale)
        for d in range(len(DIMENSIONS))
    ]
    gates = np.column_stack([m.implied_alone(alone[:, d]) for d in range(len(DIMENSIONS))])
    same = np.average(np.column_stack([f.same for f in found]), weights=gates)
    harder = np.mean([(found[d].real - found[d].built).mean() for d in _SEVEN])
    return float(same), float(harder)


def _baseline(of: Ints, group: Ints, alone: Array) -> tuple[Array, Array, Array]:
    """Target baselines (rows x 8), their logits, and the logit of the best deal with a calm teammate."""
    overall = np.array([_MODELS[i][4] for i in of]) / 100
    z = np.array([[logit(_GROUP_BASELINE[d][g] / 100) for d in DIMENSIONS] for g in group])
    free = np.ones(len(DIMENSIONS), bool)
    z = np.vstack([shift_to(z[r], free, overall[r]) for r in range(len(of))])
    score = m.expit(z)
    firm = np.array(_CALM_FIRM)[group]
    best = score[:, m.CONFLICT] - firm / 2
    hold = score.copy()
    hold[:, m.CONFLICT] = best + firm
    calm = np.column_stack(
        [
            solve(lambda x, d=d: m.implied_baseline(d, x, alone[:, d]), np.minimum(hold[:, d], 0.998))
            for d in range(len(DIMENSIONS))
        ]
    )
    return score, calm, solve(lambda x: m.mean_best(x, m.SD_BEST), best / (best + firm))


def _split(eta: Array) -> tuple[Array, Array, Array, Array]:
    """Dimension mean, slope, ability (mean 0 over rows) and deviation; conflict's slope is the least-squares one."""
    mean = eta.mean(0)
    ability = (eta - mean)[:, _SEVEN].mean(1)
    slope = np.ones(len(DIMENSIONS))
    slope[m.CONFLICT] = (ability @ (eta - mean)[:, m.CONFLICT]) / (ability @ ability)
    return mean, slope, ability, eta - mean - np.outer(ability, slope)


def _notice_level(z: Array, weights: Array, target: float) -> float:
    """The level that gives the target share of failures noticed."""
    return float(solve(lambda x: _share(z + x, weights), np.array([target]))[0])


def _notice_slope(z: Array, ability: Array, weights: Array, target: float) -> float:
    """The slope on ability that gives the target share; weights stand on models with positive ability only."""
    return float(solve(lambda x: _share(z + x * ability, weights), np.array([target]))[0])


def _notice(ability: Array, of: Ints, score: Array, solved: Array, rng: np.random.Generator) -> Array:
    """Log-odds that a failure was noticed: rises with ability, with the published shares of failures."""
    n = len(_MODELS)
    extra = np.array([_MODELS[i][12] for i in of])
    noise = _NOTICE_SD * rng.standard_normal((len(of), len(DIMENSIONS)))
    out = np.empty(noise.shape)
    frontier = np.array([r[1] == "frontier" for r in _MODELS])
    for d, name in enumerate(DIMENSIONS):
        failures = solved[:n, d] * (1 - score[:n, d] + (0.06 if d == m.CONFLICT else 0.0))
        two = _NOTICED[name]
        base, slope = noise[:, d] + extra, 0.8
        for _ in range(60):  # in turn: the level from all models, then half a step of the slope from the frontier
            level = _notice_level(base + slope * ability, failures, two[1])
            wanted = _notice_slope(base + level, ability, failures * frontier, two[0])
            slope = float(np.clip((slope + wanted) / 2, 0.05, 2.0))
        level = _notice_level(base + slope * ability, failures, two[1])
        out[:, d] = base + level + slope * ability
    return out


def _share(z: Array, weights: Array) -> Array:
    """Noticed share of the default rows' failures, as an array of one."""
    return np.array([np.average(m.expit(z[: len(weights)]), weights=weights)])


def _asks(ability: Array, group: Ints) -> Array:
    """Share of conflict runs that ask about the teammate's needs: 99 % for frontier models, rising with ability."""
    return np.where(group == 0, 0.99, np.clip(m.expit(2.6 + 1.6 * ability), 0.35, 0.985))


def _rows(of: Ints, ability: Array, default: Array, solved: Array) -> pl.DataFrame:
    names = [r[0] for r in _MODELS]
    scores = default.mean(1) * 100
    index = 52.6 + (scores - np.array([r[8] for r in _MODELS]) - 66.0) / 1.9
    noise = np.random.default_rng(SEED + 1).standard_normal((2, len(names)))
    hle = np.clip(8 + 0.85 * (index - index.min()) + 1.2 * noise[0], 3, None)
    arena = 1385 + 1.6 * (scores - scores.min()) + 26 * noise[1]
    known = np.array([n != "sim:O1" for n in names])  # no public scores at the time (appendix F)
    factor = np.array([1.0] * len(names) + [v[2] for v in _HIGH.values()])
    default_out = np.array([_MODELS[i][10] for i in of], float)
    out = default_out * factor
    out[-1] = default_out[-1] * 1.26  # O1 writes 26 % more at high effort (appendix E)
    # What a run costs is (tokens in + 5 tokens out) times the price of a token in: the paper's cost factor is met
    # by the tokens in.
    weight = (TOKENS_IN_PER_OUT + OUT_PRICE_FACTOR) * default_out
    tokens_in = weight * factor - OUT_PRICE_FACTOR * out
    runs = 30 * (1 + 4 * solved).sum(1)
    cost = np.array([_MODELS[i][11] for i in of])
    default_runs = runs[of]
    price = 1e6 * cost / (default_runs * weight)
    return pl.DataFrame(
        {
            "model": [names[i] for i in of],
            "effort": _efforts(len(names)),
            "group": [_MODELS[i][1] for i in of],
            "family": [_MODELS[i][2] for i in of],
            "ability": ability.round(6),
            "released": [date.fromisoformat(_MODELS[i][9]) for i in of],
            "tokens_out_mean": out.round(1),
            "tokens_in_mean": tokens_in.round(1),
            "usd_per_mtok_in": price.round(6),
            "usd_per_mtok_out": (OUT_PRICE_FACTOR * price).round(6),
            "intelligence_index": np.where(known, index, np.nan)[of].round(1),
            "hle_pct": np.where(known, hle, np.nan)[of].round(1),
            "lmarena": np.where(known, arena, np.nan)[of].round(0),
        }
    ).with_columns(pl.selectors.float().fill_nan(None))


def write(p: m.Parameters, folder: Path) -> None:
    """The parameters as three CSV files."""
    p.rows.write_csv(folder / "release_rows.csv")
    p.cells.write_csv(folder / "release_cells.csv")
    p.dimensions.with_columns(sd_cell=pl.lit(p.sd_cell), family_scale=pl.lit(p.family_scale)).write_csv(
        folder / "release_dimensions.csv"
    )


def check(p: m.Parameters) -> str:
    """One line: the largest distance between implied and target scores, and the two fitted scalars' targets."""
    eta, alone = p.matrix("eta"), p.matrix("alone_logit")
    best = p.matrix("best_logit")[:, m.CONFLICT]
    found = np.column_stack(
        [
            m.implied(d, eta[:, d], best if d == m.CONFLICT else None, alone[:, d], p.sd_cell, p.family_scale).gated
            for d in range(len(DIMENSIONS))
        ]
    )
    same, harder = _overall(eta, best, alone, p.sd_cell, p.family_scale)
    worst = np.abs(found - p.matrix("target_score")).max()
    return (
        f"largest |implied - target| score {worst:.4f}; equal in three seeds {same:.3f} (0.80); "
        f"benchmark-built harder by {100 * harder:.2f} points (10.4); cell sd {p.sd_cell:.3f}"
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        print(check(m.load_parameters()))
    else:
        fitted = fit()
        write(fitted, Path(m.__file__).parent)
        print(check(fitted))
