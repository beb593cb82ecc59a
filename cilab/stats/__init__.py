"""Statistics: tables in, results out. No files, no model calls, no plotting.

Four wings: `judges` stands on `teamwork` and `maze`, those on `methods`. May import `cilab.core`, `cilab.results` and
the open parts of benchmarks (`terms`, `rules`). An estimator is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Estimators by the name that a notebook types, and the module that defines each.
ESTIMATORS = {
    "ablation": "maze.ablation",
    "agreement": "judges.agreement",
    "capability": "teamwork.capability",
    "compare": "teamwork.compare",
    "conflict": "teamwork.conflict",
    "differences": "teamwork.compare",
    "dimension_correlations": "teamwork.conflict",
    "dimensions": "teamwork.scores",
    "disagreement": "maze.disagreement",
    "efficiency": "maze.efficiency",
    "effort": "teamwork.effort",
    "failures": "teamwork.failures",
    "fill_in": "teamwork.fill_in",
    "gap": "maze.gap",
    "grader_agreement": "judges.grading",
    "grounding": "maze.grounding",
    "group_means": "teamwork.scores",
    "items": "teamwork.items",
    "leaderboard": "teamwork.scores",
    "lite": "teamwork.lite",
    "lite_curve": "teamwork.lite",
    "loss": "teamwork.loss",
    "mediation": "maze.mediation",
    "noticed": "teamwork.failures",
    "pairs": "maze.pairs",
    "pairwise": "teamwork.pairwise",
    "pareto": "teamwork.pareto",
    "people": "teamwork.people",
    "power": "teamwork.power",
    "relay": "maze.relay",
    "release": "teamwork.release",
    "sources": "teamwork.sources",
    "takeover": "teamwork.takeover",
    "validity": "teamwork.validity",
    "weighting": "teamwork.weighting",
}
#: Methods that take any table, not only runs: public too.
METHODS = {
    "bradley_terry": "methods.bradley_terry",
    "krippendorff": "methods.coefficients",
    "mediate": "maze.mediation",
}
_WHERE = ESTIMATORS | METHODS
__all__ = ["ESTIMATORS", "METHODS", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
