"""The sandbox of the teamwork benchmark: files in memory for a model to work on, and a held process to run them in.

`Workspace` has the tools that list, read, search and edit; `run_tests`, `run_python` and `evaluate` execute code under
bubblewrap. May import `cilab.core` only. See `execute` for what of a result can be trusted, `box` for what holds
what.
"""

from .base import Isolation, Limits, SandboxError
from .execute import (
    Call,
    Execution,
    Outcome,
    available,
    evaluate,
    evaluate_async,
    require,
    run_python,
    run_python_async,
    run_tests,
    run_tests_async,
)
from .workspace import Workspace

__all__ = [
    "Call",
    "Execution",
    "Isolation",
    "Limits",
    "Outcome",
    "SandboxError",
    "Workspace",
    "available",
    "evaluate",
    "evaluate_async",
    "require",
    "run_python",
    "run_python_async",
    "run_tests",
    "run_tests_async",
]
