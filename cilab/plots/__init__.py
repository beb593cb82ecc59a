"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.errors` and `cilab.stats`. Computes no statistic, reads and writes no file. Every function has the
shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes a figure of its own, with
small print that says where the numbers come from. Figures of several panels take `panel=` too: they return the Figure
with all panels, or the Axes of one.
"""

from cilab.plots.ablation import ablation, distilled
from cilab.plots.disagreement import disagreement, odds_ratios
from cilab.plots.efficiency import efficiency, messages
from cilab.plots.gap import gap
from cilab.plots.grading import grading
from cilab.plots.grounding import grounding
from cilab.plots.mediation import mediation
from cilab.plots.pairs import pairs
from cilab.plots.relay import relay

__all__ = [
    "ablation",
    "disagreement",
    "distilled",
    "efficiency",
    "gap",
    "grading",
    "grounding",
    "mediation",
    "messages",
    "odds_ratios",
    "pairs",
    "relay",
]
