"""Checks of arguments that many estimators take.

May import `cilab.core`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cilab.core.errors import TableError, nearest


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise TableError(f"{name} is {value!r}, not one of {', '.join(choices)}.{nearest(str(value), list(choices))}")
