"""Warnings of the package as a shell shows them: one line each, like its errors.

May import `cilab.core.errors`. Warnings of other packages stay as Python prints them.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from cilab.core.errors import CilabWarning


def in_one_line() -> None:
    """From now on, what the package warns of stands on standard error without its place in the source."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, CilabWarning):
            print(f"cilab: {message}", file=sys.stderr)
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show
