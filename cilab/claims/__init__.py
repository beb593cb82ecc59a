"""The ledger of the papers' printed numbers: what computes each one here, on which data, and how far it is.

May import `cilab.datasets`, `cilab.maze.plan`, `cilab.core`, `cilab.results` and of `cilab.stats` the public
estimators: a number about runs is read off what `cilab.<estimator>` gives anybody, or counted in tables that are there.
Has no scorer of its own, never plays a run, and never writes a number down that it did not compute.

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
from cilab.claims.release import full_dimensions, pushed_back_then_gave_in, scored_runs, tasks_with
from cilab.claims.scores import percent

__all__ = [
    "ESTIMATORS",
    "FAR",
    "MISSING",
    "NEAR",
    "NO_INPUT",
    "OTHER_DATA_TOLERANCE",
    "Answer",
    "ClaimsResult",
    "Estimator",
    "Inputs",
    "MissingInput",
    "compare",
    "full_dimensions",
    "inconsistencies",
    "ledger",
    "missing",
    "percent",
    "pushed_back_then_gave_in",
    "render",
    "scored_runs",
    "tasks_with",
]
