"""A data set of the Collaborative Intelligence paper's size, invented by a stated model with a known truth.

May import `cilab.datasets.dataset`, `cilab.core` and the `_release_*` modules beside it. Reads nothing but the
fitted parameters, calls no model, and names no real model: its rows are sim:F1 ... (frontier), sim:C1 ... (closed)
and sim:O1 ... (open weights).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from cilab.core.errors import StudyError
from cilab.datasets.columns import fill, pick
from cilab.datasets.dataset import Dataset
from cilab.datasets.release import labels as words
from cilab.datasets.release import model as model
from cilab.datasets.release.plan import MODES, Array, Plan, evidence, make_plan, with_failures
from cilab.datasets.release.talk import labels_table, messages_table, spoken_labels
from cilab.teamwork.terms import DIMENSIONS

NAME = "simulated_release"
TASKS_PER_DIMENSION = 30
#: Tasks with a sandbox: 45 + 11 that run code, and 23 others; 79 in all (CI005).
_SANDBOX_OTHER = {"taking_initiative": ("regulators_papers", "accident_reports", "clinical_cases")}
_SANDBOX_MISCONDUCT = 5

#: Of 460 streams the one whose seed 0 lies near the paper in 48 aggregates, each in units of its sampling error;
#: other seeds scatter around the paper as data sets of this size do.
_STREAM = 20261451
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
    The model and what it was fitted to: `cilab.datasets.release.model`, `tools/fit_release.py`. Runs that the gate
    keeps from being run are not in the table, as in the paper's own release. Tokens and costs are the model's under
    test alone.

    Examples
    --------
    >>> simulated_release(scale=0.1).simulated
    True
    """
    p, draw, tasks, plan, rngs = _arrays(seed, scale)
    plan = with_failures(p, draw, plan, rngs["failures"])
    prefix = f"{NAME}-{seed}" + ("" if scale == 1 else f"x{scale:g}")
    run_ids = _run_ids(p, tasks, plan, prefix)
    runs = _runs(p, tasks, plan, run_ids, rngs["costs"])
    spoken = spoken_labels(p, plan, rngs["labels"])
    labels = labels_table(spoken, tasks, plan, run_ids, rngs["raters"])
    messages = messages_table(p, spoken, plan, run_ids)
    truth = _truth(p, draw, tasks, plan, run_ids)
    tables = {"runs": runs, "messages": messages, "labels": labels, "tasks": tasks, "models": _models(p)}
    return Dataset(NAME, tables, simulated=True, kind="simulated", truth=truth, notes=NOTES)


def simulated_scores(seed: int = 0, scale: float = 1.0) -> pl.DataFrame:
    """The scores of `simulated_release(seed, scale)` alone, for studies of many draws (about ten times faster).

    Returns
    -------
    DataFrame
        One row per run, in the order of the runs table: `model, effort, task_id, dimension, split, version, seed,
        status, score` (0 to 1, null where refused).

    Raises
    ------
    StudyError
        As `simulated_release`.
    """
    p, _, tasks, plan, _ = _arrays(seed, scale)
    return pl.DataFrame(
        {
            "model": p.rows["model"].gather(plan.row),
            "effort": p.rows["effort"].gather(plan.row),
            "task_id": tasks["task_id"].gather(plan.task),
            "dimension": tasks["dimension"].gather(plan.task),
            "split": tasks["split"].gather(plan.task),
            "version": pick(("alone", "baseline", "test"), plan.version),
            "seed": plan.seed,
            "status": pick(("ok", "refused"), plan.refused.astype(int)),
            "score": pl.Series(plan.score, nan_to_null=True),
        }
    )


def _arrays(
    seed: int, scale: float
) -> tuple[model.Parameters, model.Draw, pl.DataFrame, Plan, dict[str, np.random.Generator]]:
    """Parameters, one draw, its tasks and runs, and the streams for what follows."""
    if not 0 < scale < float("inf"):
        raise StudyError(f"simulated_release: scale must be positive, not {scale}; 1.0 is the paper's size")
    if seed < 0:
        raise StudyError(f"simulated_release: seed must be 0 or more, not {seed}")
    p = model.load_parameters()
    per_dimension = max(1, round(TASKS_PER_DIMENSION * scale))
    rngs = _streams(seed)
    draw = model.draw(p, per_dimension, rngs["tasks"])
    plan = make_plan(p, draw, rngs["refusals"], rngs["outcomes"])
    return p, draw, _tasks(draw, per_dimension), plan, rngs


NOTES = (
    "Simulated: no model was called. Rows are pseudonyms and stand for no real model.",
    "Parameters are fitted to the aggregates that the Collaborative Intelligence paper prints (python -m "
    "tools/fit_release.py); what it does not print is chosen, so single rows mean nothing.",
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


def _run_ids(p: model.Parameters, tasks: pl.DataFrame, plan: Plan, prefix: str) -> pl.Series:
    rows = p.rows.select(
        pl.col("model").str.replace("sim:", "sim", literal=True)
        + pl.when(pl.col("effort") == "high").then(pl.lit("high")).otherwise(pl.lit(""))
    )["model"]
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
        "evidence": evidence(plan),
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
