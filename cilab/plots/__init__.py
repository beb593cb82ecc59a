"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.errors`, `cilab.registry`, `cilab.datasets` and `cilab.stats`. Computes no statistic, writes no
file. Every function has the shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes
a figure of its own, with small print that says where the numbers come from. Figures of several panels take `panel=`
too: they return the Figure with all panels, or the Axes of one. The papers' tables are in `cilab.plots.tables`.
"""

from cilab.plots.ablation import ablation, distilled
from cilab.plots.agreement import agreement
from cilab.plots.capability import capability
from cilab.plots.conflict import conflict, dimension_correlations, joint_points
from cilab.plots.differences import differences, drop
from cilab.plots.dimensions import dimensions, profiles
from cilab.plots.disagreement import disagreement, odds_ratios
from cilab.plots.efficiency import efficiency, messages
from cilab.plots.effort import effort
from cilab.plots.failures import failures
from cilab.plots.fill_in import fill_in
from cilab.plots.gap import gap
from cilab.plots.grading import grading
from cilab.plots.grounding import grounding
from cilab.plots.items import items
from cilab.plots.leaderboard import leaderboard
from cilab.plots.lite import lite, lite_curve
from cilab.plots.loss import loss
from cilab.plots.mediation import mediation
from cilab.plots.noticed import noticed
from cilab.plots.output_tokens import output_tokens
from cilab.plots.pairs import pairs
from cilab.plots.pareto import pareto
from cilab.plots.people import people
from cilab.plots.power import power
from cilab.plots.relay import relay
from cilab.plots.release import release
from cilab.plots.sources import sources
from cilab.plots.takeover import takeover
from cilab.plots.validity import validity

__all__ = [
    "ablation",
    "agreement",
    "capability",
    "conflict",
    "differences",
    "dimension_correlations",
    "dimensions",
    "disagreement",
    "distilled",
    "drop",
    "efficiency",
    "effort",
    "failures",
    "fill_in",
    "gap",
    "grading",
    "grounding",
    "items",
    "joint_points",
    "leaderboard",
    "lite",
    "lite_curve",
    "loss",
    "mediation",
    "messages",
    "noticed",
    "odds_ratios",
    "output_tokens",
    "pairs",
    "pareto",
    "people",
    "power",
    "profiles",
    "relay",
    "release",
    "sources",
    "takeover",
    "validity",
]
