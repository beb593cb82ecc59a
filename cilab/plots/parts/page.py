"""The figure that plots make: it says once, in plain words, which characters no font has.

May import nothing of cilab. Matplotlib is imported when the class `Page` is first asked for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How matplotlib begins its warning of one character that none of the fonts has.
_GLYPH = r"Glyph (\d+) .*missing from"
_MOST = 8
_TOLD: WeakSet[Figure] = WeakSet()


def __getattr__(name: str) -> Any:
    """`Page`, which is made when it is first asked for."""
    if name == "Page":
        return _page()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _page() -> type[Figure]:
    from matplotlib.figure import Figure

    class Page(Figure):
        """A matplotlib Figure with one warning of missing characters, where matplotlib has one for each of them."""

        # So that a figure can be pickled: the class is found in this module.
        __qualname__ = "Page"

        def draw(self, renderer: Any) -> None:
            with one_warning(self):
                super().draw(renderer)

        def get_tightbbox(self, renderer: Any = None, **options: Any) -> Any:
            with one_warning(self):
                return super().get_tightbbox(renderer, **options)

    return Page


@contextmanager
def one_warning(figure: Figure) -> Iterator[None]:
    """While texts of `figure` are measured or drawn: gather the characters that no font has, and name them once."""
    missing: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=_GLYPH)
        others = warnings.showwarning

        def gather(message: Warning | str, *more: Any, **options: Any) -> None:
            found = re.match(_GLYPH, str(message))
            if found:
                missing[chr(int(found[1]))] = None
            else:
                others(message, *more, **options)

        warnings.showwarning = gather
        yield
    if missing and figure not in _TOLD:
        _TOLD.add(figure)
        some = " ".join([*missing][:_MOST]) + (" ..." if len(missing) > _MOST else "")
        words = f"no installed font has these characters of the figure, so boxes stand for them: {some}; install a font"
        warnings.warn(f"{words} such as Noto Sans CJK or Noto Emoji", stacklevel=2)
