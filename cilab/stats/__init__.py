"""Statistics: tables in, results out. No files, no model calls, no plotting.

Four wings: `judges` stands on `teamwork` and `maze`, those on `methods`. May import `cilab.core`, `cilab.results` and
the open parts of benchmarks (`terms`, `rules`). An estimator is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from cilab.stats.judges.agreement import agreement as agreement
    from cilab.stats.judges.corrected import corrected as corrected
    from cilab.stats.judges.grading import grader_agreement as grader_agreement
    from cilab.stats.maze.ablation import ablation as ablation
    from cilab.stats.maze.disagreement import disagreement as disagreement
    from cilab.stats.maze.efficiency import efficiency as efficiency
    from cilab.stats.maze.gap import gap as gap
    from cilab.stats.maze.grounding import grounding as grounding
    from cilab.stats.maze.mediation import mediate as mediate
    from cilab.stats.maze.mediation import mediation as mediation
    from cilab.stats.maze.pairs import pairs as pairs
    from cilab.stats.maze.relay import relay as relay
    from cilab.stats.methods.bradley_terry import bradley_terry as bradley_terry
    from cilab.stats.methods.coefficients import krippendorff as krippendorff
    from cilab.stats.teamwork.all_pairs import all_pairs as all_pairs
    from cilab.stats.teamwork.capability import capability as capability
    from cilab.stats.teamwork.compare import compare as compare
    from cilab.stats.teamwork.compare import differences as differences
    from cilab.stats.teamwork.conflict import conflict as conflict
    from cilab.stats.teamwork.conflict import dimension_correlations as dimension_correlations
    from cilab.stats.teamwork.contamination import contamination as contamination
    from cilab.stats.teamwork.discrimination import discrimination as discrimination
    from cilab.stats.teamwork.drift import drift as drift
    from cilab.stats.teamwork.effort import effort as effort
    from cilab.stats.teamwork.equate import equate as equate
    from cilab.stats.teamwork.failures import failures as failures
    from cilab.stats.teamwork.failures import noticed as noticed
    from cilab.stats.teamwork.fill_in import fill_in as fill_in
    from cilab.stats.teamwork.item_quality import item_quality as item_quality
    from cilab.stats.teamwork.items import items as items
    from cilab.stats.teamwork.lite import lite as lite
    from cilab.stats.teamwork.lite import lite_curve as lite_curve
    from cilab.stats.teamwork.lite_score import lite_score as lite_score
    from cilab.stats.teamwork.loss import loss as loss
    from cilab.stats.teamwork.model_check import model_check as model_check
    from cilab.stats.teamwork.pairwise import pairwise as pairwise
    from cilab.stats.teamwork.pareto import pareto as pareto
    from cilab.stats.teamwork.passes import pass_hat_k as pass_hat_k
    from cilab.stats.teamwork.people import people as people
    from cilab.stats.teamwork.power import power as power
    from cilab.stats.teamwork.release import release as release
    from cilab.stats.teamwork.scores import dimensions as dimensions
    from cilab.stats.teamwork.scores import group_means as group_means
    from cilab.stats.teamwork.scores import leaderboard as leaderboard
    from cilab.stats.teamwork.sensitivity import sensitivity as sensitivity
    from cilab.stats.teamwork.sources import sources as sources
    from cilab.stats.teamwork.takeover import takeover as takeover
    from cilab.stats.teamwork.validity import validity as validity
    from cilab.stats.teamwork.variance_components import variance_components as variance_components
    from cilab.stats.teamwork.weighting import weighting as weighting

#: Estimators by the name that a notebook types, and the module that defines each.
ESTIMATORS = {
    "ablation": "maze.ablation",
    "agreement": "judges.agreement",
    "all_pairs": "teamwork.all_pairs",
    "capability": "teamwork.capability",
    "compare": "teamwork.compare",
    "conflict": "teamwork.conflict",
    "contamination": "teamwork.contamination",
    "corrected": "judges.corrected",
    "differences": "teamwork.compare",
    "dimension_correlations": "teamwork.conflict",
    "dimensions": "teamwork.scores",
    "disagreement": "maze.disagreement",
    "discrimination": "teamwork.discrimination",
    "drift": "teamwork.drift",
    "efficiency": "maze.efficiency",
    "effort": "teamwork.effort",
    "equate": "teamwork.equate",
    "failures": "teamwork.failures",
    "fill_in": "teamwork.fill_in",
    "gap": "maze.gap",
    "grader_agreement": "judges.grading",
    "grounding": "maze.grounding",
    "group_means": "teamwork.scores",
    "item_quality": "teamwork.item_quality",
    "items": "teamwork.items",
    "leaderboard": "teamwork.scores",
    "lite": "teamwork.lite",
    "lite_curve": "teamwork.lite",
    "lite_score": "teamwork.lite_score",
    "loss": "teamwork.loss",
    "mediation": "maze.mediation",
    "noticed": "teamwork.failures",
    "pairs": "maze.pairs",
    "pairwise": "teamwork.pairwise",
    "pareto": "teamwork.pareto",
    "pass_hat_k": "teamwork.passes",
    "people": "teamwork.people",
    "power": "teamwork.power",
    "relay": "maze.relay",
    "release": "teamwork.release",
    "sensitivity": "teamwork.sensitivity",
    "sources": "teamwork.sources",
    "takeover": "teamwork.takeover",
    "validity": "teamwork.validity",
    "variance_components": "teamwork.variance_components",
    "weighting": "teamwork.weighting",
}
#: Methods that take any table, not only runs, and what is sampled for minutes: public too.
METHODS = {
    "bradley_terry": "methods.bradley_terry",
    "krippendorff": "methods.coefficients",
    "mediate": "maze.mediation",
    "model_check": "teamwork.model_check",
}
_WHERE = ESTIMATORS | METHODS
__all__ = ["ESTIMATORS", "METHODS", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
