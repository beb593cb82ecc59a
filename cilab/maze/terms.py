"""The words of the maze benchmark, each with its meaning, and its own columns of the runs table.

May import `cilab.core`. Everybody may read it: it loads nothing of the benchmark.
"""

from __future__ import annotations

from cilab.core.columns import number, text, whole
from cilab.core.vocabulary import Words

VERSIONS = Words(
    "version",
    solo_full="one agent with the whole map",
    solo_distributed="one agent with both copies",
    pair="two agents with a copy each",
    relay="a pair, and another model goes on in one seat",
)
RELAY_KINDS = Words(
    "kind of relay",
    primer="the strong agent plays the first turns with the weak one, whose copy then takes its seat",
    recovery="the weak agent plays the first turns with its copy, then the strong one takes a seat",
)
#: The columns that the benchmark brings, and its words of closed lists.
RUNS = (
    text("version", "Setting of the task.", VERSIONS),
    whole("maze_size", "Cells along a side.", hinted=True),
    number("wall_density", "Walls as a fraction of cells asked for.", 0, 1, hinted=True),
    whole("path_length", "Shortest path from start to goal, in steps.", hinted=True),
    whole("relay_k", "Turns played before the swap.", hinted=True),
    text("relay_kind", "primer or recovery.", RELAY_KINDS, hinted=True),
)
