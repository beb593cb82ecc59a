"""The teamwork benchmark (collaborative-intelligence paper): a model in a team, and a scripted teammate with a problem.

`task` is the task file, `bank` finds tasks, `plan` turns a study block into run specs, `play` plays one with `script`,
`judges`, `tools` and `sandbox`, `checks` gives the verdict, `acting` and `sim` act tasks out without a language model,
`prove` proves them, `looks` asks other judges about stored runs.

`terms` and `rules` hold its words, columns and definitions, which are read without loading any of it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`BENCHMARK`, loaded at first use."""
    if name != "BENCHMARK":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cilab.teamwork.benchmark import BENCHMARK

    return BENCHMARK
