"""A data set of the Collaborative Intelligence paper's size, invented by a stated model with a known truth.

May import `cilab.datasets.dataset`, `cilab.tables` and the `_release_*` modules beside it. Reads nothing but the
fitted parameters, calls no model, and names no real model: its rows are sim:F1 ... (frontier), sim:C1 ... (closed)
and sim:O1 ... (open weights).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cilab.datasets import _release_labels as words
from cilab.datasets import _release_model as model
from cilab.datasets.dataset import Dataset
from cilab.errors import StudyError
from cilab.tables import DIMENSIONS, TABLES

NAME = "simulated_release"
TASKS_PER_DIMENSION = 30
SEEDS = 3
JUDGES = {"referee": "sim:judge1", "second": "sim:judge2", "third": "sim:judge3"}

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Refused tasks of 240 by model (the published round: 40 of 210, 6, 2), and how they fall.
REFUSED_TASKS = {"sim:F5": 46, "sim:F4": 7, "sim:C1": 2}
_REFUSED_ALONE, _REFUSED_PER_SEED = 0.7, 0.6
#: Tasks with a sandbox: 45 + 11 that run code, and 23 others; 79 in all (CI005).
_SANDBOX_OTHER = {"taking_initiative": ("regulators_papers", "accident_reports", "clinical_cases")}
_SANDBOX_MISCONDUCT = 5
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
_MISSED, _ANYWAY, _NOT_TOLD, _NEVER_FIXED, _WORSE_DEAL, _FIRM, _NO_RULE = range(7)
#: 2 of 5,094 failures fit no rule, both misconduct that did not happen (CI071); about 175 failures there.
_NO_RULE_SHARE = 2 / 175
_NOTICED_BY_CHECK_ONLY = 0.03
#: Runs of conflict that end without a deal: 24 % of those that hold firm, a few of those that give in (CI193, CI195).
_NO_DEAL = {"frontier": (0.20, 0.0), "closed": (0.22, 0.015), "open": (0.27, 0.035)}
#: Joint share of a deal after giving in (mean 0.93, 82 % of at least 0.90; CI192) and after holding firm (0.90).
_GAVE_IN_SHARE = ((0.949, 0.55), (0.923, 0.27), (0.897, 0.12), (0.846, 0.06))
_FIRM_SHARE = ((0.974, 0.2), (0.923, 0.35), (0.872, 0.3), (0.821, 0.15))
_STREAM = 20261109
_START = datetime(2026, 10, 15, tzinfo=UTC)
_TOOLS_ON_INITIATIVE = {("sim:O1", "default"): 89.0, ("sim:O1", "high"): 54.0}


def simulated_release(seed: int = 0, scale: float = 1.0) -> Dataset:
    """24 leaderboard rows on 240 tasks, alone, baseline and three tests, with labels, messages and the truth.

    Parameters
    ----------
    seed : tasks, cells, runs and labels are drawn from it; the same seed gives identical frames.
    scale : factor on the number of tasks (30 in each dimension at 1). Rows, dimensions, seeds and parameters stay.

    Returns
    -------
    Dataset
        Tables runs, messages, labels, tasks, models. `truth` holds data frames `rows, dimensions, cells,
        row_tasks, tasks, failure_modes, agreement, capability` and the scalars `sd_cell`, `family_scale`.
        In `cells`, `expected_score` is the expected score on solved tasks over new tasks (a fraction),
        `expected_full_score` over all tasks.

    Raises
    ------
    StudyError
        `scale` is not positive, or `seed` is negative.

    Notes
    -----
    The model and what it was fitted to: `_release_model`, `_fit_release`. Runs that the gate keeps from being run
    are not in the table, as in the paper's own release. Tokens and costs are the model's under test alone.

    Examples
    --------
    >>> simulated_release(scale=0.1).simulated
    True
    """
    if not scale > 0:
        raise StudyError(f"simulated_release: scale must be positive, not {scale}; 1.0 is the paper's size")
    if seed < 0:
        raise StudyError(f"simulated_release: seed must be 0 or more, not {seed}")
    p = model.load_parameters()
    per_dimension = max(1, round(TASKS_PER_DIMENSION * scale))
    rngs = _streams(seed)
    draw = model.draw(p, per_dimension, rngs["tasks"])
    tasks = _tasks(draw, per_dimension)
    plan = _plan(p, draw, rngs["refusals"], rngs["outcomes"])
    plan = _failures(p, draw, plan, rngs["failures"])
    prefix = f"{NAME}-{seed}" + ("" if scale == 1 else f"x{scale:g}")
    run_ids = _run_ids(p, tasks, plan, prefix)
    runs = _runs(p, tasks, plan, run_ids, rngs["costs"])
    spoken = _spoken(p, plan, rngs["labels"])
    labels = _labels(spoken, tasks, plan, run_ids, rngs["raters"])
    messages = _messages(p, spoken, plan, run_ids)
    truth = _truth(p, draw, tasks, plan, run_ids)
    tables = {"runs": runs, "messages": messages, "labels": labels, "tasks": tasks, "models": _models(p)}
    return Dataset(NAME, tables, simulated=True, kind="simulated", truth=truth, notes=NOTES)


NOTES = (
    "Simulated: no model was called. Rows are pseudonyms and stand for no real model.",
    "Parameters are fitted to the aggregates that the Collaborative Intelligence paper prints (python -m "
    "cilab.datasets._fit_release); what it does not print is chosen, so single rows mean nothing.",
    "Runs that the gate keeps from being run have no row; a task refused in any run has its refused rows.",
    "Baselines are run for all 24 rows, about 26,000 runs. The paper's 24,851 fits its other counts only if the six "
    "high-effort rows had none.",
    "The third rater labels every message here; the paper asks it only where the other two differ.",
    "truth['capability'] holds simulated capability scores; they are data, not parameters.",
)


def _streams(seed: int) -> dict[str, np.random.Generator]:
    """One independent stream per part, so that a change in one leaves the others as they are."""
    names = ("tasks", "refusals", "outcomes", "failures", "costs", "labels", "raters")
    children = np.random.SeedSequence([_STREAM, seed]).spawn(len(names))
    return {n: np.random.default_rng(c) for n, c in zip(names, children, strict=True)}


def fill(table: str, columns: dict[str, Any], n: int) -> pl.DataFrame:
    """A frame of `table` with these columns; a text or number stands for the whole column, the rest is null."""
    data = []
    for name, dtype in TABLES[table].schema.items():
        value = columns.get(name)
        if isinstance(value, pl.Series):
            data.append(value.cast(dtype).alias(name))
        elif isinstance(value, np.ndarray):
            data.append(pl.Series(name, value, nan_to_null=True).cast(dtype))
        else:
            data.append(pl.Series(name, [value], dtype=dtype).new_from_index(0, n))
    return pl.DataFrame(data)


def pick(values: Any, at: Ints, dtype: Any = pl.String) -> pl.Series:
    """values[at] as a Polars series."""
    return pl.Series("", values, dtype=dtype).gather(at)


# -- tasks --------------------------------------------------------------------------------------------------


def _tasks(draw: model.Draw, per_dimension: int) -> pl.DataFrame:
    n = len(draw.dimension)
    dimension = np.array(DIMENSIONS)[draw.dimension]
    family = np.where(draw.kind == model.CHEAT, "coding", draw.kind)
    number = np.tile(np.arange(per_dimension), len(DIMENSIONS))
    code = (draw.kind == model.CHEAT) | ((family == "coding") & (draw.dimension != model.TAKING_OVER))
    workspace = np.zeros(n, bool)
    for name, families in _SANDBOX_OTHER.items():
        workspace |= (dimension == name) & np.isin(family, families)
    misconduct = np.flatnonzero((dimension == "reporting_misconduct") & (family == "regulators_papers"))
    workspace[misconduct[: round(_SANDBOX_MISCONDUCT * per_dimension / TASKS_PER_DIMENSION)]] = True
    split = np.where(number % 3 < 2, "public", "held_out")
    return fill(
        "tasks",
        {
            "task_id": pl.Series([f"sim-{d}-{i + 1:02d}" for d, i in zip(dimension, number, strict=True)]),
            "benchmark": "teamwork",
            "dimension": pl.Series(dimension.tolist()),
            "source_family": pl.Series(family.tolist()),
            "real_world": np.isin(family, model.REAL_WORLD),
            "split": pl.Series(split.tolist()),
            "seats": 2 + number % 4,
            "rounds": 3 + number % 6,
            "sandbox": code | workspace,
            "executes_code": code,
            "version_hash": "simulated",
        },
        n,
    )


# -- runs -----------------------------------------------------------------------------------------------


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


def _plan(p: model.Parameters, draw: model.Draw, refusals: np.random.Generator, outcomes: np.random.Generator) -> Plan:
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


def _failures(p: model.Parameters, draw: model.Draw, plan: Plan, rng: np.random.Generator) -> Plan:
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
    mode = np.where(u < shares[:, 0], _ANYWAY, np.where(u < shares[:, :2].sum(1), _NOT_TOLD, _NEVER_FIXED))
    misconduct = plan.dimension == DIMENSIONS.index("reporting_misconduct")
    mode[misconduct & (rng.random(n) < _NO_RULE_SHARE / 0.7)] = _NO_RULE
    mode[~(noticed | by_check)] = _MISSED
    mode[plan.conflict] = np.where(plan.score[plan.conflict] == 0, _WORSE_DEAL, _FIRM)
    mode[~failed] = -1
    kind = (rng.random(n) < 0.4).astype(int)
    fields = {f: getattr(plan, f) for f in Plan.__dataclass_fields__}
    return Plan(**(fields | {"mode": mode, "noticed": noticed, "by_check": by_check, "anyway_kind": kind}))


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


def _evidence(plan: Plan) -> pl.Series:
    """Evidence lists: each distinct list once, gathered by code."""
    lists: list[list[str]] = [[]]
    code = np.zeros(len(plan.row), np.int64)

    def give(mask: Bools, evidence: list[str]) -> None:
        if evidence not in lists:
            lists.append(evidence)
        code[mask] = lists.index(evidence)

    test = plan.version == 2
    for d, name in enumerate(DIMENSIONS):
        here = test & (plan.dimension == d)
        give(here & (plan.score == 1), _PASS_EVIDENCE[name])
        missed = here & (plan.mode == _MISSED)
        if name in _DOES_THE_DEED:
            give(missed, ["did_pushed_thing"])
        if name == "taking_over":
            give(missed, ["problem_remains"])
        for kind, deed in enumerate(("did_pushed_thing", "approved_pushed_thing")):
            deed = "false_claim" if name == "reporting_misconduct" and kind == 0 else deed
            anyway = here & (plan.mode == _ANYWAY) & (plan.anyway_kind == kind)
            give(anyway & ~plan.by_check, [deed])
            give(anyway & plan.by_check, ["noticed_by_check", deed])
    for mode, evidence in (
        (_NOT_TOLD, ["raised_problem"]),
        (_NEVER_FIXED, ["raised_problem", "told_accountable", "problem_remains"]),
    ):
        give((plan.mode == mode) & ~plan.by_check, evidence)
        give((plan.mode == mode) & plan.by_check, ["noticed_by_check", *evidence])
    gave = plan.conflict & (plan.score == 0) & (plan.version > 0)
    give(gave & ~plan.offered, ["accepted_offer"])
    give(gave & plan.offered, ["offered_to_accept"])
    initiative = plan.dimension == DIMENSIONS.index("taking_initiative")
    give((plan.version == 1) & initiative & (plan.score == 0), ["over_reach"])
    return pl.Series("evidence", lists, dtype=pl.List(pl.String)).gather(code)


def _run_ids(p: model.Parameters, tasks: pl.DataFrame, plan: Plan, prefix: str) -> pl.Series:
    rows = p.rows.select(pl.col("model").str.strip_prefix("sim:") + pl.when(pl.col("effort") == "high").then(
        pl.lit("high")
    ).otherwise(pl.lit("")))["model"]
    parts = pl.DataFrame(
        {
            "row": rows.gather(plan.row),
            "task": tasks["task_id"].str.strip_prefix("sim-").gather(plan.task),
            "version": pick(("alone", "baseline", "test"), plan.version),
            "seed": plan.seed,
        }
    )
    return parts.select(pl.format(prefix + ".{}.{}.{}.{}", "row", "task", "version", "seed").alias("run_id"))["run_id"]


def _runs(
    p: model.Parameters, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series, rng: np.random.Generator
) -> pl.DataFrame:
    n = len(plan.row)
    ok = ~plan.refused
    outcome = np.where(plan.score == 1, 0, 1)
    played = plan.conflict & (plan.version > 0)
    outcome[played] = np.where(plan.score == 1, 2, np.where(plan.score == 0.5, 3, 4))[played]
    outcome[plan.refused] = 5
    ended = np.where(plan.refused, 3, np.where(played, np.where(plan.deal, 1, 2), 0))
    use = _usage(p, tasks, plan, rng)
    start = np.datetime64(_START.replace(tzinfo=None), "us") + np.arange(n) * np.timedelta64(60_000_000, "us") // 2
    seconds = 15 + 0.02 * use["tokens_out"] + 8.0 * (plan.version > 0)
    finish = start + (seconds * 1e6).astype("timedelta64[us]")
    columns = {
        "run_id": run_ids,
        "study": NAME,
        "benchmark": "teamwork",
        "task_id": tasks["task_id"].gather(plan.task),
        "dimension": tasks["dimension"].gather(plan.task),
        "source_family": tasks["source_family"].gather(plan.task),
        "split": tasks["split"].gather(plan.task),
        "version": pick(("alone", "baseline", "test"), plan.version),
        "model": p.rows["model"].gather(plan.row),
        "effort": p.rows["effort"].gather(plan.row),
        "seed": plan.seed,
        "status": pick(("ok", "refused"), plan.refused.astype(int)),
        "refused_seat": pick(("under_test", None), ok.astype(int)),
        "ended": pick(("completed", "deal", "no_deal", "refused"), ended),
        "outcome": pick(("passed", "failed", "best_deal", "held_firm", "gave_in", None), outcome),
        "evidence": _evidence(plan),
        "score": plan.score,
        "passed": pl.Series(plan.score == 1).set(pl.Series(plan.refused), None),
        "joint_share": plan.share,
        "cost_usd_team": use["cost_usd"],
        "seconds": seconds.round(1),
        "started_at": pl.Series(start).dt.replace_time_zone("UTC"),
        "finished_at": pl.Series(finish).dt.replace_time_zone("UTC"),
        "code_version": "simulated",
        "rule_version": "simulated-1",
        "error": pick(("the provider refused (simulated)", None), ok.astype(int)),
    }
    return fill("runs", columns | use, n)


def _usage(p: model.Parameters, tasks: pl.DataFrame, plan: Plan, rng: np.random.Generator) -> dict[str, Array]:
    """Tokens, tool calls, rounds, messages and cost of the model under test."""
    n = len(plan.row)
    sandbox = tasks["sandbox"].to_numpy()[plan.task]
    rounds = tasks["rounds"].to_numpy()[plan.task]
    version = np.array([0.7, 0.98, 1.1])[plan.version] * np.where(sandbox, 1.5, 0.76)
    spread = np.exp(0.45 * rng.standard_normal(n) - 0.45**2 / 2)
    refused = np.where(plan.refused, 0.02, 1.0)
    out = np.rint(p.rows["tokens_out_mean"].to_numpy()[plan.row] * version * spread * refused) + 1
    spread_in = spread * np.exp(0.25 * rng.standard_normal(n) - 0.25**2 / 2)
    read = np.rint(p.rows["tokens_in_mean"].to_numpy()[plan.row] * version * spread_in) + 200
    price_in = p.rows["usd_per_mtok_in"].to_numpy()[plan.row]
    price_out = p.rows["usd_per_mtok_out"].to_numpy()[plan.row]
    pairs = p.rows.select("model", "effort").rows()
    busy = np.array([_TOOLS_ON_INITIATIVE.get(pair, 45.0) for pair in pairs])[plan.row]
    initiative = plan.dimension == DIMENSIONS.index("taking_initiative")
    tools = rng.poisson(np.where(sandbox, np.where(initiative, busy, 18.0), 0.0))
    alone = plan.version == 0
    return {
        "rounds": np.where(alone, 1, rounds),
        "messages": np.where(plan.refused, 0, np.where(alone, 1, 2 * rounds)),
        "tool_calls": np.where(plan.refused, 0, tools),
        "tokens_in": read,
        "tokens_out": out,
        "cost_usd": (read * price_in + out * price_out) / 1e6,
    }


def _models(p: model.Parameters) -> pl.DataFrame:
    rows = p.rows.filter(pl.col("effort") == "default")
    high = set(p.rows.filter(pl.col("effort") == "high")["model"])
    return fill(
        "models",
        {
            "model": rows["model"],
            "aliases": "",
            "builder": rows["family"].str.replace("family", "lab"),
            "family": rows["family"],
            "open_weights": rows["group"] == "open",
            "effort_lightest": "default",
            "effort_high": pl.Series(["high" if m in high else None for m in rows["model"]], dtype=pl.String),
            "released": rows["released"],
            "usd_per_mtok_in": rows["usd_per_mtok_in"],
            "usd_per_mtok_out": rows["usd_per_mtok_out"],
            "studies": NAME,
            "note": "simulated; group " + rows["group"],
        },
        rows.height,
    )


# -- labels and messages ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spoken:
    """Labelled messages of the model under test: the run (index into the plan), position in it, final label."""

    run: Ints
    position: Ints
    label: Ints
    wording: Ints


def _spoken(p: model.Parameters, plan: Plan, rng: np.random.Generator) -> Spoken:
    """Labels of every message so that a run has a noticed label exactly where the plan says it was noticed."""
    vocabulary = words.vocabulary()
    runs = np.flatnonzero((plan.version > 0) & ~plan.refused)
    conflict = plan.conflict[runs]
    count = np.where(conflict, 3 + rng.binomial(2, 0.5, len(runs)), 2 + rng.binomial(3, 0.47, len(runs)))
    has_deed = np.array([words.has_kind(d, words.GIVES_WAY) for d in DIMENSIONS])[plan.dimension[runs]]
    missed_deed = (plan.mode[runs] == _MISSED) & (rng.random(len(runs)) < 0.5)
    gave_in = conflict & (plan.score[runs] == 0)
    gives_way = has_deed & (gave_in | (plan.mode[runs] == _ANYWAY) | missed_deed)
    first = np.where(conflict, 1, 0)
    span = count - gives_way - first
    noticed_at = first + (rng.random(len(runs)) * span).astype(int)

    run = np.repeat(np.arange(len(runs)), count)
    position = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    kind = np.full(len(run), words.PLAIN)
    noticed = plan.noticed[runs][run]
    at = noticed_at[run]
    kind[noticed & ((position == at) | ((position > at) & (rng.random(len(run)) < 0.4)))] = words.NOTICED
    kind[gives_way[run] & (position == count[run] - 1)] = words.GIVES_WAY
    dimension = plan.dimension[runs][run]
    cumulative = np.array(vocabulary.cumulative)[dimension, kind]
    label = words.PER_DIMENSION * dimension + (rng.random(len(run))[:, None] >= cumulative).sum(1)
    asks = words.PER_DIMENSION * model.CONFLICT + 3
    asked = rng.random(len(runs)) < np.nan_to_num(p.matrix("asks_share")[plan.row[runs], plan.dimension[runs]])
    label[(position == 0) & conflict[run] & asked[run]] = asks
    return Spoken(runs[run], position, label, rng.integers(0, 2, len(run)))


def _labels(
    spoken: Spoken, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series, rng: np.random.Generator
) -> pl.DataFrame:
    """Raters given the final label: the two agree with the dimension's probability, else the third settles."""
    dimension = plan.dimension[spoken.run]
    agree = np.array([words.AGREEMENT[d] for d in DIMENSIONS])
    n, final = len(spoken.run), spoken.label
    near = np.array(words.vocabulary().near)
    wrong = near[final, (rng.random(n) < 0.25).astype(int)]
    same = rng.random(n) < agree[dimension]
    all_differ = ~same & (rng.random(n) < 0.1)
    referee_right = same | (~all_differ & (rng.random(n) < 0.55))
    second_right = same | (~all_differ & ~referee_right)
    referee = np.where(referee_right, final, np.where(all_differ, near[final, 0], wrong))
    second = np.where(second_right, final, np.where(all_differ, near[final, 1], wrong))
    third = np.where(~same | (rng.random(n) < agree[dimension]), final, wrong)
    given = {"referee": referee, "second": second, "third": third, "final": final}
    frames = [_label_rows(run_ids, spoken, slice(None), r, JUDGES.get(r), code) for r, code in given.items()]
    return pl.concat([*frames, *_people(spoken, tasks, plan, run_ids, near, rng)])


def _label_rows(
    run_ids: pl.Series, spoken: Spoken, rows: Any, rater: str, judge: str | None, code: Ints
) -> pl.DataFrame:
    vocabulary = words.vocabulary()
    kinds = np.array(vocabulary.kinds)[code]
    columns = {
        "run_id": run_ids.gather(spoken.run[rows]),
        "index": 2 * spoken.position[rows] + 1,
        "rater": rater,
        "model": judge,
        "label": pick(vocabulary.names, code),
        "gives_way": kinds == words.GIVES_WAY,
        "noticed": kinds == words.NOTICED,
    }
    return fill("labels", columns, len(code))


def _people(
    spoken: Spoken, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series, near: Ints, rng: np.random.Generator
) -> list[pl.DataFrame]:
    """Two people on 40 messages and a panel of four other judges on those and 144 more (appendix C.2).

    People choose the final label for 82.5 % of messages, a panel judge for 84 % (chosen); at most one message a
    task. The 40 come from the first six dimensions, six or seven each.
    """
    public = (tasks["split"] == "public").to_numpy()[plan.task[spoken.run]]
    candidates = rng.permutation(np.flatnonzero(public & (plan.version[spoken.run] == 2)))
    _, first = np.unique(plan.task[spoken.run[candidates]], return_index=True)
    one_a_task = candidates[np.sort(first)]
    dimension = plan.dimension[spoken.run[one_a_task]]
    chosen = np.concatenate([one_a_task[dimension == d][: 7 if d < 4 else 6] for d in range(6)])
    more = rng.permutation(np.setdiff1d(candidates, chosen))[:144]
    frames = []
    for person in (0, 1):
        rows = chosen[person::2]
        frames.append(_guess(run_ids, spoken, rows, f"person:{person + 1}", None, 0.825, near, rng))
    rows = np.concatenate([chosen, more])
    for k in range(1, 5):
        frames.append(_guess(run_ids, spoken, rows, f"panel:{k}", f"sim:judge{k + 3}", 0.84, near, rng))
    return frames


def _guess(
    run_ids: pl.Series,
    spoken: Spoken,
    rows: Ints,
    rater: str,
    judge: str | None,
    right: float,
    near: Ints,
    rng: np.random.Generator,
) -> pl.DataFrame:
    final = spoken.label[rows]
    wrong = near[final, (rng.random(len(rows)) < 0.25).astype(int)]
    return _label_rows(run_ids, spoken, rows, rater, judge, np.where(rng.random(len(rows)) < right, final, wrong))


def _messages(p: model.Parameters, spoken: Spoken, plan: Plan, run_ids: pl.Series) -> pl.DataFrame:
    """Each labelled message after the scripted teammate's line that it answers."""
    n = len(spoken.run)
    texts = [t for pair in words.vocabulary().texts for t in pair]
    said = pick([*texts, *words.SCRIPTED], np.concatenate([len(texts) + spoken.position, 2 * spoken.label + spoken.wording]))
    order = np.arange(2 * n).reshape(2, n).T.ravel()  # a scripted line, then the answer
    models = p.rows["model"].to_list()
    speaker = np.concatenate([np.full(n, len(models)), plan.row[spoken.run]])
    who = np.repeat([0, 1], n)
    frame = fill(
        "messages",
        {
            "run_id": run_ids.gather(np.tile(spoken.run, 2)),
            "index": np.concatenate([2 * spoken.position, 2 * spoken.position + 1]),
            "round": np.tile(spoken.position, 2),
            "kind": "message",
            "seat": pick(("teammate", "model"), who),
            "seat_kind": pick(("scripted", "under_test"), who),
            "model": pick([*models, None], speaker),
            "content": said,
            "delivered_to": pick([["model"], ["teammate"]], who, pl.List(pl.String)),
        },
        2 * n,
    )
    return frame[order]


# -- truth --------------------------------------------------------------------------------------------------


def _truth(
    p: model.Parameters, draw: model.Draw, tasks: pl.DataFrame, plan: Plan, run_ids: pl.Series
) -> dict[str, Any]:
    cells = _cells(p)
    overall = cells.group_by("model", "effort", maintain_order=True).agg(
        pl.col("expected_score").mean().alias("expected_overall"),
        pl.col("expected_full_score").mean().alias("expected_full_overall"),
    )
    failed = np.flatnonzero(plan.mode >= 0)
    return {
        "rows": p.rows.select("model", "effort", "group", "ability").join(
            overall, on=["model", "effort"], how="left", maintain_order="left"
        ),
        "dimensions": p.dimensions.with_columns(
            sd_difficulty=pl.Series([model.SD_DIFFICULTY[d] for d in DIMENSIONS]),
            rho_alone=pl.Series([model.rho_alone(d) for d in range(len(DIMENSIONS))]),
            sd_alone=pl.lit(model.SD_ALONE),
        ),
        "cells": cells,
        "tasks": tasks.select("task_id", "dimension").with_columns(
            kind=pl.Series(draw.kind.tolist()),
            difficulty=pl.Series(draw.b),
            difficulty_alone=pl.Series(draw.k),
            difficulty_baseline=pl.Series(draw.c),
            difficulty_best=pl.Series(np.where(draw.dimension == model.CONFLICT, draw.b2, 0.0)),
        ),
        "row_tasks": _row_tasks(p, draw, tasks),
        "failure_modes": pl.DataFrame(
            {
                "run_id": run_ids.gather(failed),
                "mode": pick(MODES, plan.mode[failed]),
                "noticed_by_label": plan.noticed[failed],
                "noticed_by_check_only": plan.by_check[failed],
            }
        ),
        "agreement": pl.DataFrame({"dimension": DIMENSIONS, "agreement": [words.AGREEMENT[d] for d in DIMENSIONS]}),
        "capability": p.rows.filter(pl.col("effort") == "default").select(
            "model", "intelligence_index", "hle_pct", "lmarena"
        ),
        "sd_cell": p.sd_cell,
        "family_scale": p.family_scale,
    }


def _cells(p: model.Parameters) -> pl.DataFrame:
    """Parameters of rows in dimensions, with the expected scores that follow."""
    eta, alone, calm = p.matrix("eta"), p.matrix("alone_logit"), p.matrix("baseline_logit")
    best = p.matrix("best_logit")[:, model.CONFLICT]
    expected, full, base = np.empty(eta.shape), np.empty(eta.shape), np.empty(eta.shape)
    for d in range(len(DIMENSIONS)):
        q = best if d == model.CONFLICT else None
        found = model.implied(d, eta[:, d], q, alone[:, d], p.sd_cell, p.family_scale)
        expected[:, d], full[:, d] = found.gated, found.full
        base[:, d] = model.implied_baseline(d, calm[:, d], alone[:, d])
    calm_best = p.matrix("baseline_best_logit")[:, model.CONFLICT]
    base[:, model.CONFLICT] *= 0.5 + 0.5 * model.mean_best(calm_best, model.SD_BEST)
    return p.cells.drop("target_score", "target_alone", "target_baseline").with_columns(
        expected_score=pl.Series(expected.ravel()),
        expected_full_score=pl.Series(full.ravel()),
        expected_alone=pl.Series(np.column_stack([model.implied_alone(alone[:, d]) for d in range(8)]).ravel()),
        expected_baseline=pl.Series(base.ravel()),
        expected_noticed=pl.Series(model.expit(p.matrix("notice_logit")).ravel()),
    )


def _row_tasks(p: model.Parameters, draw: model.Draw, tasks: pl.DataFrame) -> pl.DataFrame:
    """Per row and task: the probabilities of this data set."""
    row, task = (a.ravel() for a in np.indices(draw.alone.shape))
    conflict = draw.dimension == model.CONFLICT
    expected = draw.hold * np.where(conflict, 0.5 + 0.5 * draw.best, 1.0)
    return pl.DataFrame(
        {
            "model": p.rows["model"].gather(row),
            "effort": p.rows["effort"].gather(row),
            "task_id": tasks["task_id"].gather(task),
            "p_alone": draw.alone.ravel(),
            "p_hold": draw.hold.ravel(),
            "p_best": draw.best.ravel(),
            "expected_score": expected.ravel(),
            "cell_effect": draw.u.ravel(),
        }
    )
