"""Settings for a while: `with cilab.options(ci_level=0.9): ...`. Only the decorator of estimators reads them.

Imports `cilab.core.errors` and nothing else of ours. No setting changes a number silently: what an estimator used
stands in the `.parameters` of its result, and arguments given in the call win.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from cilab.core.errors import TableError, nearest

#: The level of every interval unless told otherwise.
CI_LEVEL = 0.95
#: Arguments that may be set for a while: those that several estimators take.
NAMES = (
    *("ci_level", "resamples", "seed", "gate", "version", "allow_partial", "reviews", "benchmark", "models"),
    *("common_tasks", "cluster", "refused", "missing"),
    *(
        "interval",
        "dimensions",
        "groups",
        "rater",
        "outcome",
        "maze_size",
        "wall_density",
        "arm",
        "splits",
        "method",
    ),
)
_SET: ContextVar[Mapping[str, Any]] = ContextVar("cilab.options", default=MappingProxyType({}))


def current() -> Mapping[str, Any]:
    """What is set here and now, by name."""
    return _SET.get()


@contextmanager
def options(**changed: Any) -> Iterator[Mapping[str, Any]]:
    """Arguments of every estimator that takes them, inside a `with` block.

    Parameters
    ----------
    **changed : arguments by name, such as `ci_level=0.9` or `gate="off"`; blocks inside blocks add up, the inner wins.
        An estimator without such an argument goes by its own; one that gets the argument in its call takes that.

    Raises
    ------
    TableError
        No option is called so.

    Examples
    --------
    >>> with options(ci_level=0.9):
    ...     current()["ci_level"]
    0.9
    """
    for name in changed:
        if name not in NAMES:
            raise TableError(f"no option is called {name!r}.{nearest(name, NAMES)} There are: {', '.join(NAMES)}")
    token = _SET.set(MappingProxyType({**_SET.get(), **changed}))
    try:
        yield _SET.get()
    finally:
        _SET.reset(token)


@contextmanager
def none() -> Iterator[None]:
    """Nothing is set inside: for what an estimator computes once its arguments are settled."""
    token = _SET.set(MappingProxyType({}))
    try:
        yield
    finally:
        _SET.reset(token)
