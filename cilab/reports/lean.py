"""Two patches of other libraries: what they load or do needlessly is left out while a report is made.

May import nothing of ours. A patch lasts as long as one import or one `with` and gives its measured reason; without it
everything comes out alike and takes longer. No other module of the package's own process may write `sys.modules` or
put a function of its own into a library.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: jsonschema compiles a grammar of international URLs (3 s), papermill loads clients of file systems (0.5 s).
_NOT_NEEDED = {"jsonschema": ("rfc3987_syntax",), "papermill": ("pyarrow.fs", "boto3")}


def import_lean(package: str) -> None:
    """Import jsonschema or papermill without the optional packages of `_NOT_NEEDED`, which take most of the time.

    Both do without where these are not installed. So they are missing while they are imported.
    """
    if package in sys.modules:
        return
    optional = [name for name in _NOT_NEEDED[package] if name not in sys.modules]
    sys.modules.update(dict.fromkeys(optional))  # type: ignore[arg-type]
    try:
        importlib.import_module(package)
    finally:
        for name in optional:
            del sys.modules[name]


@contextmanager
def fonts_of_outlines_only() -> Iterator[None]:
    """Fonts go into a PDF without their rules for setting text, which is set by then: half of the time goes there."""
    from fontTools import subset

    load = subset.load_font

    def load_outlines(*args: Any, **options: Any) -> Any:
        font = load(*args, **options)
        for table in {"GSUB", "GPOS", "GDEF"} & {*font.keys()}:
            del font[table]
        return font

    subset.load_font = load_outlines
    try:
        yield
    finally:
        subset.load_font = load
