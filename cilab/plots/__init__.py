"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.core`, `cilab.datasets` and `cilab.stats`. Computes no statistic, writes no
file. Every function has the shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes
a figure of its own, with small print that says where the numbers come from. Figures of several panels take `panel=`
too: they return the Figure with all panels, or the Axes of one. The papers' tables are sheets: `result.paper_sheet()`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Figures by name, and the module of each: loaded when it is first asked for, as a report needs three of thirty.
_FIGURES = {
    "ablation": "maze.ablation",
    "agreement": "judges.agreement",
    "capability": "teamwork.capability",
    "conflict": "teamwork.conflict",
    "differences": "teamwork.differences",
    "dimension_correlations": "teamwork.conflict",
    "dimensions": "teamwork.dimensions",
    "disagreement": "maze.disagreement",
    "distilled": "maze.ablation",
    "drop": "teamwork.differences",
    "efficiency": "maze.efficiency",
    "effort": "teamwork.effort",
    "failures": "teamwork.failures",
    "fill_in": "teamwork.fill_in",
    "gap": "maze.gap",
    "grading": "judges.grading",
    "grounding": "maze.grounding",
    "items": "teamwork.items",
    "joint_points": "teamwork.conflict",
    "leaderboard": "teamwork.leaderboard",
    "lite": "teamwork.lite",
    "lite_curve": "teamwork.lite",
    "loss": "teamwork.loss",
    "mediation": "maze.mediation",
    "messages": "maze.efficiency",
    "noticed": "teamwork.noticed",
    "odds_ratios": "maze.disagreement",
    "output_tokens": "teamwork.output_tokens",
    "pairs": "maze.pairs",
    "pareto": "teamwork.pareto",
    "people": "teamwork.people",
    "power": "teamwork.power",
    "profiles": "teamwork.dimensions",
    "relay": "maze.relay",
    "release": "teamwork.release",
    "sources": "teamwork.sources",
    "takeover": "teamwork.takeover",
    "validity": "teamwork.validity",
}
__all__ = sorted(_FIGURES)


def __getattr__(name: str) -> Any:
    if name not in _FIGURES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FIGURES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FIGURES})
