"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.errors`, `cilab.registry`, `cilab.datasets` and `cilab.stats`. Computes no statistic, writes no
file. Every function has the shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes
a figure of its own, with small print that says where the numbers come from. Figures of several panels take `panel=`
too: they return the Figure with all panels, or the Axes of one. The papers' tables are in `cilab.plots.tables`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

#: Figures by name, and the module of each: loaded when it is first asked for, as a report needs three of thirty.
_FIGURES = {
    "ablation": "ablation",
    "agreement": "agreement",
    "capability": "capability",
    "conflict": "conflict",
    "differences": "differences",
    "dimension_correlations": "conflict",
    "dimensions": "dimensions",
    "disagreement": "disagreement",
    "distilled": "ablation",
    "drop": "differences",
    "efficiency": "efficiency",
    "effort": "effort",
    "failures": "failures",
    "fill_in": "fill_in",
    "gap": "gap",
    "grading": "grading",
    "grounding": "grounding",
    "items": "items",
    "joint_points": "conflict",
    "leaderboard": "leaderboard",
    "lite": "lite",
    "lite_curve": "lite",
    "loss": "loss",
    "mediation": "mediation",
    "messages": "efficiency",
    "noticed": "noticed",
    "odds_ratios": "disagreement",
    "output_tokens": "output_tokens",
    "pairs": "pairs",
    "pareto": "pareto",
    "people": "people",
    "power": "power",
    "profiles": "dimensions",
    "relay": "relay",
    "release": "release",
    "sources": "sources",
    "takeover": "takeover",
    "validity": "validity",
}
__all__ = sorted(_FIGURES)


class _Figures(ModuleType):
    """The package, whose attribute `gap` is the function and stays it when the module `cilab.plots.gap` is loaded."""

    def __getattr__(self, name: str) -> Any:
        if name not in _FIGURES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_FIGURES[name]}"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIGURES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_FIGURES})


sys.modules[__name__].__class__ = _Figures
