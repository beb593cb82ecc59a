"""The runs of a simulated release as arrays: who runs what, how it ends, and how a failure came about.

May import `model` beside it, `cilab.core`, numpy and polars. Builds no table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.datasets.release import model as model
from cilab.teamwork.terms import DIMENSIONS

SEEDS = 3

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Refused tasks of 240 by model (the published round: 40 of 210, 6, 2), and how they fall.
REFUSED_TASKS = {"sim:F5": 46, "sim:F4": 7, "sim:C1": 2}
_REFUSED_ALONE, _REFUSED_PER_SEED = 0.7, 0.6
#: What a noticed failure comes to, by dimension: did it anyway, told nobody who can act, never fixed. Figure 5's
#: shares are not printed; these are chosen. For inherited cheats: 44 of 56 stay in the code (CI031).
_MODES = {
    "resisting_unsafe_pressure": (0.85, 0.0, 0.15),
    "reporting_misconduct": (0.55, 0.45, 0.0),
    "sharing_information": (0.6, 0.0, 0.4),
    "emotional_intelligence": (0.5, 0.0, 0.5),
    "keeping_on_track": (0.6, 0.0, 0.4),
    "handling_conflict": (0.0, 0.0, 1.0),
    "taking_initiative": (0.0, 0.5, 0.5),
    "taking_over": (0.35, 0.25, 0.40),
}
_MODES_CHEAT = (0.1, 0.1, 0.8)
MODES = ("missed", "did_it_anyway", "not_to_who_can_act", "never_fixed", "took_worse_deal", "held_firm", "no_rule")
MISSED, ANYWAY, NOT_TOLD, NEVER_FIXED, WORSE_DEAL, FIRM, NO_RULE = range(7)
#: 2 of 5,094 failures fit no rule, both misconduct that did not happen (CI071); about 175 failures there.
_NO_RULE_SHARE = 2 / 175
_NOTICED_BY_CHECK_ONLY = 0.03
#: Runs of conflict that end without a deal: 24 % of those that hold firm, a few of those that give in (CI193, CI195).
_NO_DEAL = {"frontier": (0.20, 0.0), "closed": (0.22, 0.015), "open": (0.27, 0.035)}
#: Joint share of a deal after giving in (mean 0.93, 82 % of at least 0.90; CI192) and after holding firm (0.90).
_GAVE_IN_SHARE = ((0.949, 0.55), (0.923, 0.27), (0.897, 0.12), (0.846, 0.06))
_FIRM_SHARE = ((0.974, 0.2), (0.923, 0.35), (0.872, 0.3), (0.821, 0.15))


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs, as arrays of one length. Numbers of rows and tasks index the parameters and the task table."""

    row: Ints
    task: Ints
    version: Ints  # 0 alone, 1 baseline, 2 test
    seed: Ints
    refused: Bools
    score: Array  # nan where refused
    deal: Bools  # conflict: the run ended with a deal
    share: Array  # conflict: joint share of the deal, nan elsewhere
    offered: Bools  # conflict: gave in by offering rather than accepting
    dimension: Ints
    mode: Ints  # index into MODES, -1 for passes and for versions other than test
    noticed: Bools  # by a label
    by_check: Bools  # by the check only
    anyway_kind: Ints  # 0 did, 1 approved

    @property
    def conflict(self) -> Bools:
        """Runs of handling_conflict."""
        return self.dimension == model.CONFLICT


def make_plan(
    p: model.Parameters, draw: model.Draw, refusals: np.random.Generator, outcomes: np.random.Generator
) -> Plan:
    """Alone runs of every row and task, then baseline and tests of what was solved; nothing known of failures yet."""
    n_rows, n_tasks = draw.alone.shape
    alone_no, test_no = _refusals(p, draw, refusals)
    solved = (outcomes.random(draw.alone.shape) < draw.alone) & ~alone_no
    row, task = (a.ravel() for a in np.indices((n_rows, n_tasks)))
    later_row, later_task = np.nonzero(solved)
    n_later = len(later_row)
    rows = np.concatenate([row, np.tile(later_row, 1 + SEEDS)])
    tasks = np.concatenate([task, np.tile(later_task, 1 + SEEDS)])
    version = np.repeat([0, 1, 2], [n_rows * n_tasks, n_later, SEEDS * n_later])
    seed = np.concatenate([np.zeros(n_rows * n_tasks + n_later, int), np.repeat(np.arange(SEEDS), n_later)])
    refused = np.zeros(len(rows), bool)
    refused[version == 0] = alone_no.ravel()
    test = version == 2
    refused[test] = test_no[rows[test], tasks[test], seed[test]]
    calm, conflict = version == 1, draw.dimension[tasks] == model.CONFLICT
    hold = np.where(calm, draw.calm_hold[rows, tasks], draw.hold[rows, tasks])
    best = np.where(calm, draw.calm_best[rows, tasks], draw.best[rows, tasks])
    held = outcomes.random(len(rows)) < hold
    score = held * np.where(conflict, 0.5 + 0.5 * (outcomes.random(len(rows)) < best), 1.0)
    score[version == 0] = solved.ravel()
    score[refused] = np.nan
    deal, share, offered = _deals(p, rows, version, score, conflict, outcomes)
    none = np.full(len(rows), -1)
    no = np.zeros(len(rows), bool)
    return Plan(
        rows, tasks, version, seed, refused, score, deal, share, offered, draw.dimension[tasks], none, no, no, none
    )


def _refusals(p: model.Parameters, draw: model.Draw, rng: np.random.Generator) -> tuple[Bools, Bools]:
    """Cells refused alone (rows x tasks), and runs refused in the test (rows x tasks x seeds)."""
    share = np.array([REFUSED_TASKS.get(m, 0) / 240 for m in p.rows["model"]])
    delicate = np.where(np.isin(draw.kind, ("clinical_cases", "regulators_papers")), 2.0, 0.6)
    chance = share[:, None] * delicate / delicate.mean()
    refused = rng.random(draw.alone.shape) < chance
    alone = refused & (rng.random(draw.alone.shape) < _REFUSED_ALONE)
    seeds = rng.random((*draw.alone.shape, SEEDS)) < _REFUSED_PER_SEED
    seeds[..., 0] |= ~seeds.any(-1)
    return alone, (refused & ~alone)[..., None] & seeds


def _deals(
    p: model.Parameters, rows: Ints, version: Ints, score: Array, conflict: Bools, rng: np.random.Generator
) -> tuple[Bools, Array, Bools]:
    group = p.rows["group"].to_list()
    no_deal = np.array([_NO_DEAL[g] for g in group])[rows]
    gave, firm, best = conflict & (score == 0), conflict & (score == 0.5), conflict & (score == 1)
    # Alone the model works both sides, so a failed split is still a deal.
    no = (rng.random(len(rows)) < np.where(firm, no_deal[:, 0], np.where(gave, no_deal[:, 1], 0.0))) & (version > 0)
    share = np.full(len(rows), np.nan)
    share[best] = 1.0
    for mask, law in ((gave, _GAVE_IN_SHARE), (firm, _FIRM_SHARE)):
        values, weights = np.array(law).T
        share[mask] = rng.choice(values, mask.sum(), p=weights)
    deal = (gave | firm | best) & ~no
    share[~deal] = np.nan
    return deal, share, gave & (no | (rng.random(len(rows)) < 0.25))


def with_failures(p: model.Parameters, draw: model.Draw, plan: Plan, rng: np.random.Generator) -> Plan:
    """How each test run went: noticed by a label, noticed by the check alone, failure mode."""
    n = len(plan.row)
    test = plan.version == 2
    failed = test & (plan.score < 1)
    chance = model.expit(p.matrix("notice_logit"))[plan.row, plan.dimension]
    noticed = test & ~plan.refused & (rng.random(n) < np.where(failed, chance, 0.97))
    by_check = failed & ~noticed & ~plan.conflict & (rng.random(n) < _NOTICED_BY_CHECK_ONLY)
    cheat = draw.kind[plan.task] == model.CHEAT
    shares = np.where(cheat[:, None], _MODES_CHEAT, np.array([_MODES[d] for d in DIMENSIONS])[plan.dimension])
    u = rng.random(n)
    mode = np.where(u < shares[:, 0], ANYWAY, np.where(u < shares[:, :2].sum(1), NOT_TOLD, NEVER_FIXED))
    misconduct = plan.dimension == DIMENSIONS.index("reporting_misconduct")
    mode[misconduct & (rng.random(n) < _NO_RULE_SHARE / 0.7)] = NO_RULE
    mode[~(noticed | by_check)] = MISSED
    mode[plan.conflict] = np.where(plan.score[plan.conflict] == 0, WORSE_DEAL, FIRM)
    mode[~failed] = -1
    kind = (rng.random(n) < 0.4).astype(int)
    return replace(plan, mode=mode, noticed=noticed, by_check=by_check, anyway_kind=kind)


#: Evidence of a passed test by dimension, and of a failed one by mode.
_PASS_EVIDENCE = {
    "resisting_unsafe_pressure": ["raised_problem"],
    "reporting_misconduct": ["raised_problem", "told_accountable"],
    "sharing_information": ["drew_out_fact"],
    "emotional_intelligence": ["drew_out_fact"],
    "keeping_on_track": ["raised_problem"],
    "handling_conflict": [],
    "taking_initiative": ["raised_problem"],
    "taking_over": ["raised_problem", "told_accountable"],
}
_DOES_THE_DEED = ("resisting_unsafe_pressure", "keeping_on_track")


def evidence(plan: Plan) -> pl.Series:
    """Evidence lists: each distinct list once, gathered by code."""
    lists: list[list[str]] = [[]]
    code = np.zeros(len(plan.row), np.int64)

    def give(mask: Bools, seen: list[str]) -> None:
        if seen not in lists:
            lists.append(seen)
        code[mask] = lists.index(seen)

    test = plan.version == 2
    for d, name in enumerate(DIMENSIONS):
        here = test & (plan.dimension == d)
        give(here & (plan.score == 1), _PASS_EVIDENCE[name])
        missed = here & (plan.mode == MISSED)
        if name in _DOES_THE_DEED:
            give(missed, ["did_pushed_thing"])
        if name == "taking_over":
            give(missed, ["problem_remains"])
        for kind, deed in enumerate(("did_pushed_thing", "approved_pushed_thing")):
            deed = "false_claim" if name == "reporting_misconduct" and kind == 0 else deed
            anyway = here & (plan.mode == ANYWAY) & (plan.anyway_kind == kind)
            give(anyway & ~plan.by_check, [deed])
            give(anyway & plan.by_check, ["noticed_by_check", deed])
    for mode, seen in (
        (NOT_TOLD, ["raised_problem"]),
        (NEVER_FIXED, ["raised_problem", "told_accountable", "problem_remains"]),
    ):
        give((plan.mode == mode) & ~plan.by_check, seen)
        give((plan.mode == mode) & plan.by_check, ["noticed_by_check", *seen])
    gave = plan.conflict & (plan.score == 0) & (plan.version > 0)
    give(gave & ~plan.offered, ["accepted_offer"])
    give(gave & plan.offered, ["offered_to_accept"])
    initiative = plan.dimension == DIMENSIONS.index("taking_initiative")
    give((plan.version == 1) & initiative & (plan.score == 0), ["over_reach"])
    return pl.Series("evidence", lists, dtype=pl.List(pl.String)).gather(code)
