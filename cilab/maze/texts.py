"""The words that agents, graders and annotators of the maze benchmark read.

The texts lie in `cilab/maze/prompts/*.txt`, so that they can be read and versioned by hash. May import
`cilab.maze.grid` and `cilab.collect.spec` (for the hash) only. Never calls a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from string import Template

from cilab.collect.spec import digest
from cilab.core.errors import MazeError, nearest
from cilab.maze.grid import Maze, Rows, render, split

USER_PREFIX = "[user]:"
OTHER_PREFIX = "[other agent]:"
COMPLETION = "ACTI!"

NAMES = (
    "system",
    "pair",
    "solo_full",
    "solo_distributed",
    "critic",
    "grader_solo",
    "grader_pair",
    "annotator",
    "retry",
)


@lru_cache(maxsize=64)
def load(name: str) -> str:
    """A text as it lies in the package, with its `$` place holders.

    Raises
    ------
    MazeError : when there is no text of that name.
    """
    if name not in NAMES:
        raise MazeError(f"There is no maze prompt named {name!r}; use one of {', '.join(NAMES)}.{nearest(name, NAMES)}")
    folder = resources.files("cilab.maze") / "prompts"
    return (folder / f"{name}.txt").read_text(encoding="utf-8").strip()


def hashes(names: Iterable[str] = NAMES) -> dict[str, str]:
    """Hash of each text by name, for the run id."""
    return {name: digest(load(name)) for name in names}


def system_prompt() -> str:
    """Tells an agent that it talks to another one through an intermediary (paper, appendix B.2)."""
    return load("system")


def pair_prompt(copy: Rows) -> str:
    """The task of one agent of a pair, with its own copy of the maze (paper, section 2.1)."""
    return _fill("pair", copy=render(copy))


def solo_prompt(maze: Maze, distributed: bool) -> str:
    """The task of an agent alone: the full map, or both copies with hidden cells (paper, section 3)."""
    if not distributed:
        return _fill("solo_full", maps=render(maze.cells))
    one, two = split(maze)
    return _fill("solo_distributed", copy1=render(one), copy2=render(two))


def critic_prompt() -> str:
    """Asks an agent alone to review its own route once (paper, section 3)."""
    return load("critic")


def grader_solo_prompt(transcript_text: str, maze: Maze | None = None) -> str:
    """Asks a grader to read out the route of a solo answer.

    `maze` is taken for symmetry with other graders and not shown: a grader that knows the maze may mend
    the route.
    """
    return _fill("grader_solo", transcript=transcript_text)


def grader_pair_prompt(transcript_text: str) -> str:
    """Asks a grader to read out the agreed moves of a dialogue (paper, section 2.1, step iii)."""
    return _fill("grader_pair", transcript=transcript_text)


def annotator_prompt(transcript_text: str) -> str:
    """Asks an annotator for the features of appendix D.2 of the paper."""
    return _fill("annotator", transcript=transcript_text)


def retry_prompt() -> str:
    """Asks once more for an answer that can be read."""
    return load("retry")


def _fill(name: str, **values: str) -> str:
    return Template(load(name)).substitute(values)
