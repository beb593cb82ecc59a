"""The ledger of the papers' printed numbers: what computes each one here, on which data, and how far it is.

May import `cilab.datasets`, `cilab.maze.plan`, `cilab.core` and `cilab.stats`. Computes from
tables that are there; never plays a run, and never writes a number down that it did not compute.

Every claim has either an estimator (`ESTIMATORS`) or the input that is missing (`MISSING`). A claim about the paper's
runs is computed on the data at hand all the same, and its line says on which: near and far are then about the quantity
on other runs, not about our arithmetic. On simulated data they reproduce nothing: near says that the estimator finds
again what the simulation was set to.
"""

from __future__ import annotations

from cilab.claims.data import OTHER_DATA_TOLERANCE, Answer, Estimator, Inputs, MissingInput
from cilab.claims.lines import (
    ESTIMATORS,
    FAR,
    MISSING,
    NEAR,
    NO_INPUT,
    ClaimsResult,
    compare,
    inconsistencies,
    ledger,
    missing,
    render,
)
from cilab.claims.mazes import share_mediated, strategy_at_full_grounding
from cilab.claims.release import (
    closed_below_best_open,
    full_dimensions,
    pushed_back_then_gave_in,
    scored_runs,
    tasks_with,
)
from cilab.claims.scores import (
    FRONTIER,
    best_deal_against_ability,
    cells,
    default_rows,
    dimension_correlations,
    drops,
    first_component_share,
    group_score,
    losses,
    members,
    overall,
    percent,
    row_score,
)

__all__ = [
    "ESTIMATORS",
    "FAR",
    "FRONTIER",
    "MISSING",
    "NEAR",
    "NO_INPUT",
    "OTHER_DATA_TOLERANCE",
    "Answer",
    "ClaimsResult",
    "Estimator",
    "Inputs",
    "MissingInput",
    "best_deal_against_ability",
    "cells",
    "closed_below_best_open",
    "compare",
    "default_rows",
    "dimension_correlations",
    "drops",
    "first_component_share",
    "full_dimensions",
    "group_score",
    "inconsistencies",
    "ledger",
    "losses",
    "members",
    "missing",
    "overall",
    "percent",
    "pushed_back_then_gave_in",
    "render",
    "row_score",
    "scored_runs",
    "share_mediated",
    "strategy_at_full_grounding",
    "tasks_with",
]
