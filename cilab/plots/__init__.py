"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.core`, `cilab.datasets` and `cilab.stats`. Computes no statistic, writes no
file. Every function has the shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes
a figure of its own, with small print that says where the numbers come from. Figures of several panels take `panel=`
too: they return the Figure with all panels, or the Axes of one. The papers' tables are sheets: `result.paper_sheet()`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from cilab.plots.judges.agreement import agreement as agreement
    from cilab.plots.judges.corrected import corrected as corrected
    from cilab.plots.judges.grading import grading as grading
    from cilab.plots.maze.ablation import ablation as ablation
    from cilab.plots.maze.ablation import distilled as distilled
    from cilab.plots.maze.disagreement import disagreement as disagreement
    from cilab.plots.maze.disagreement import odds_ratios as odds_ratios
    from cilab.plots.maze.efficiency import efficiency as efficiency
    from cilab.plots.maze.efficiency import messages as messages
    from cilab.plots.maze.gap import gap as gap
    from cilab.plots.maze.grounding import grounding as grounding
    from cilab.plots.maze.mediation import mediation as mediation
    from cilab.plots.maze.pairs import pairs as pairs
    from cilab.plots.maze.relay import relay as relay
    from cilab.plots.teamwork.all_pairs import all_pairs as all_pairs
    from cilab.plots.teamwork.capability import capability as capability
    from cilab.plots.teamwork.conflict import conflict as conflict
    from cilab.plots.teamwork.conflict import dimension_correlations as dimension_correlations
    from cilab.plots.teamwork.conflict import joint_points as joint_points
    from cilab.plots.teamwork.differences import differences as differences
    from cilab.plots.teamwork.differences import drop as drop
    from cilab.plots.teamwork.dimensions import dimensions as dimensions
    from cilab.plots.teamwork.dimensions import profiles as profiles
    from cilab.plots.teamwork.discrimination import discrimination as discrimination
    from cilab.plots.teamwork.effort import effort as effort
    from cilab.plots.teamwork.failures import failures as failures
    from cilab.plots.teamwork.fill_in import fill_in as fill_in
    from cilab.plots.teamwork.item_quality import item_quality as item_quality
    from cilab.plots.teamwork.items import items as items
    from cilab.plots.teamwork.leaderboard import leaderboard as leaderboard
    from cilab.plots.teamwork.lite import lite as lite
    from cilab.plots.teamwork.lite import lite_curve as lite_curve
    from cilab.plots.teamwork.lite_score import lite_score as lite_score
    from cilab.plots.teamwork.loss import loss as loss
    from cilab.plots.teamwork.noticed import noticed as noticed
    from cilab.plots.teamwork.output_tokens import output_tokens as output_tokens
    from cilab.plots.teamwork.pareto import pareto as pareto
    from cilab.plots.teamwork.people import people as people
    from cilab.plots.teamwork.power import power as power
    from cilab.plots.teamwork.release import release as release
    from cilab.plots.teamwork.rounds import contamination as contamination
    from cilab.plots.teamwork.rounds import drift as drift
    from cilab.plots.teamwork.rounds import equate as equate
    from cilab.plots.teamwork.rounds import pass_hat_k as pass_hat_k
    from cilab.plots.teamwork.sensitivity import sensitivity as sensitivity
    from cilab.plots.teamwork.sources import sources as sources
    from cilab.plots.teamwork.takeover import takeover as takeover
    from cilab.plots.teamwork.validity import validity as validity
    from cilab.plots.teamwork.variance_components import variance_components as variance_components

#: Figures by name, and the module of each: loaded when it is first asked for, as a report needs three of thirty.
_FIGURES = {
    "ablation": "maze.ablation",
    "agreement": "judges.agreement",
    "all_pairs": "teamwork.all_pairs",
    "capability": "teamwork.capability",
    "conflict": "teamwork.conflict",
    "contamination": "teamwork.rounds",
    "corrected": "judges.corrected",
    "differences": "teamwork.differences",
    "dimension_correlations": "teamwork.conflict",
    "dimensions": "teamwork.dimensions",
    "disagreement": "maze.disagreement",
    "discrimination": "teamwork.discrimination",
    "distilled": "maze.ablation",
    "drift": "teamwork.rounds",
    "drop": "teamwork.differences",
    "efficiency": "maze.efficiency",
    "effort": "teamwork.effort",
    "equate": "teamwork.rounds",
    "failures": "teamwork.failures",
    "fill_in": "teamwork.fill_in",
    "gap": "maze.gap",
    "grading": "judges.grading",
    "grounding": "maze.grounding",
    "item_quality": "teamwork.item_quality",
    "items": "teamwork.items",
    "joint_points": "teamwork.conflict",
    "leaderboard": "teamwork.leaderboard",
    "lite": "teamwork.lite",
    "lite_curve": "teamwork.lite",
    "lite_score": "teamwork.lite_score",
    "loss": "teamwork.loss",
    "mediation": "maze.mediation",
    "messages": "maze.efficiency",
    "noticed": "teamwork.noticed",
    "odds_ratios": "maze.disagreement",
    "output_tokens": "teamwork.output_tokens",
    "pairs": "maze.pairs",
    "pareto": "teamwork.pareto",
    "pass_hat_k": "teamwork.rounds",
    "people": "teamwork.people",
    "power": "teamwork.power",
    "profiles": "teamwork.dimensions",
    "relay": "maze.relay",
    "release": "teamwork.release",
    "sensitivity": "teamwork.sensitivity",
    "sources": "teamwork.sources",
    "takeover": "teamwork.takeover",
    "validity": "teamwork.validity",
    "variance_components": "teamwork.variance_components",
}
__all__ = sorted(_FIGURES)


def __getattr__(name: str) -> Any:
    if name not in _FIGURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FIGURES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FIGURES})
