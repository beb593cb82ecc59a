"""Figures: one function each, which takes a result of `cilab.stats` and returns matplotlib Axes (or a Figure).

May import `cilab.errors` and `cilab.stats`. Computes no statistic, reads and writes no file. Every function has the
shape `name(result, *, ax=None, **options)`: with `ax` it draws there; without, it makes a figure of its own, with
small print that says where the numbers come from.
"""

from cilab.plots.gap import gap

__all__ = ["gap"]
