"""The maze benchmark (collaboration-gap paper): two agents that each see half a maze agree on every move.

`grid` makes and splits mazes, `texts` holds the prompts, `plan` turns a study block into run specs,
`play` plays one, `extract`, `schemes` and `grade` turn a transcript into an outcome, `annotate` looks
for grounding and disagreement, `looks` does both again on stored runs, `view` is what its pages show,
`sim` are simulated agents.

`terms` holds its words and columns, which are read without loading any of it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`BENCHMARK`, loaded at first use."""
    if name != "BENCHMARK":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cilab.maze.benchmark import BENCHMARK

    return BENCHMARK
