"""What all figures share: the style file, colours and markers, the label on simulated data, the small print.

May import `cilab.core`. Matplotlib is imported inside functions, so that `import cilab.plots` is quick.
"""

from __future__ import annotations

import itertools
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cilab.core.errors import CilabError
from cilab.core.vocabulary import is_simulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE_FILE = Path(__file__).with_name("cilab.mplstyle")
#: Width of a printed page's text, inches.
PAGE_WIDTH = 6.5
SIMULATED_COLOR = "#b2182b"
#: Names are cut in the middle to so many characters; where two panels with names stand side by side, to fewer.
NAME_WIDTH, NARROW = 30, 22
#: Characters that the legend over axes of a page's width takes side by side, and what a handle adds.
_LEGEND_CHARACTERS, _HANDLE = 100, 6
#: Where characters are looked for that the style's own font does not have; those that are installed are used.
FALLBACK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Malgun Gothic",
    "SimHei",
    "Noto Sans",
    "Noto Sans Symbols 2",
    "Noto Emoji",
    "Segoe UI Emoji",
    "Segoe UI Symbol",
    "Symbola",
)


class FigureError(CilabError):
    """A figure cannot be drawn from what it was given."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How one group of points is drawn. `color` and `marker` differ between groups of a figure, so that it can be
    read in grey and by colour-blind people."""

    color: str
    marker: str
    size: float
    edge: str


#: The settings of the maze benchmark, in the colours of the collaboration-gap paper's figure 4.1.
SETTING_MARKS = {
    "solo_full": Mark("#787878", "o", 5.0, "#4a4a4a"),
    "solo_distributed": Mark("#f2b701", "D", 4.6, "#7a5c00"),
    "pair": Mark("#a50f15", "s", 5.0, "#67000d"),
}


def context() -> Any:
    """Context manager with matplotlib's defaults and, on top, the style file; the reader's own settings wait.

    Names are data, so a dollar sign in one is no formula. Characters that the style's font lacks come from
    `FALLBACK_FONTS`; a font that is not installed is not named to matplotlib, which would warn of it.
    """
    import matplotlib.pyplot as plt
    import matplotlib.style

    # Loads the backend. A notebook's turns interactive mode on when it is loaded; inside the context that would be
    # undone at the end, and only the first figure of a notebook would be shown.
    plt.draw_if_interactive()
    return matplotlib.style.context(["default", str(STYLE_FILE), {"font.family": ["sans-serif", *_fallbacks()]}])


@cache
def _fallbacks() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in FALLBACK_FONTS if name in installed]


def subplots(lines: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """`matplotlib.pyplot.subplots` with the figure of `cilab.plots.parts.page`. Call it inside `context()`."""
    import matplotlib.pyplot as plt

    from cilab.plots.parts.page import Page

    return plt.subplots(lines, columns, FigureClass=Page, **options)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure (inches) that makes room for its labels. Call it inside `context()`."""
    return subplots(figsize=(width, height), layout="constrained")


def own_or_given(ax: Axes | None, width: float, height: float) -> tuple[Figure | None, Axes]:
    """The axes to draw in, and where none were given the new figure (inches) that they are in.

    Raises
    ------
    FigureError
        `ax` is no matplotlib Axes.
    """
    if ax is None:
        return new_figure(width, height)
    require_axes(ax)
    _take_literally(ax)
    return None, ax


def require_axes(ax: Any) -> None:
    """Raise FigureError unless `ax` is None or matplotlib Axes."""
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise FigureError(f"ax: give matplotlib Axes, as from plt.subplots()[1], not {type(ax).__name__}")


def _take_literally(ax: Axes) -> None:
    """No formulas in the texts of somebody's axes that names are put into: they were made before `context()`."""
    from matplotlib.text import Text

    texts = [*ax.xaxis.findobj(Text), *ax.yaxis.findobj(Text), ax.title, ax._left_title]
    for text in texts:
        if text is not ax.title or not text.get_text():
            text.set_parse_math(False)


# -- names --------------------------------------------------------------------------------------------------


def brief(names: Iterable[str], width: int = NAME_WIDTH) -> list[str]:
    """Names as figures show them: cut in the middle where they are wider than `width` characters.

    Different names stay different: where the usual cut (more of the beginning than of the end) makes two alike,
    others are tried, and then they are numbered. A character of double width, such as a Chinese one, counts as two.
    """
    names = list(names)
    known = list(dict.fromkeys(names))
    out = {name: _cut(name, width, 0.6) for name in known}
    for shown in [text for text in dict.fromkeys(out.values()) if [*out.values()].count(text) > 1]:
        alike = [name for name in known if out[name] == shown]
        tries = [[_cut(name, width, share) for name in alike] for share in (0.25, 0.85)]
        tries.append([f"{_cut(name, width - 5, 0.6)} ({i})" for i, name in enumerate(alike, 1)])
        others = {text for name, text in out.items() if name not in alike}
        best = next((t for t in tries if len({*t}) == len(t) and not others & {*t}), tries[-1])
        out.update(zip(alike, best, strict=True))
    return [out[name] for name in names]


def _cut(name: str, width: int, share: float) -> str:
    """The name with an ellipsis for its middle; `share` of what is left is its beginning."""
    if "\n" in name:
        return "\n".join(_cut(line, width, share) for line in name.split("\n"))
    if sum(map(_columns, name)) <= width:
        return name
    first = round(share * (width - 1))
    head, tail = _up_to(name, first), _up_to(reversed(name), width - 1 - first)[::-1]
    return f"{head.rstrip()}\N{HORIZONTAL ELLIPSIS}{tail.lstrip()}"


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _up_to(characters: Iterable[str], room: int) -> str:
    text = list(characters)
    ends = itertools.accumulate(map(_columns, text))
    return "".join(character for character, end in zip(text, ends, strict=True) if end <= room)


def legend_columns(words: Sequence[str], most: int, room: int = _LEGEND_CHARACTERS) -> int:
    """How many columns of a legend stand side by side, at most `most`; `room` in characters."""
    widths = [sum(map(_columns, text)) + _HANDLE for text in words]
    for columns in range(min(most, len(words)), 1, -1):
        lines = -(-len(words) // columns)
        if sum(max(widths[i : i + lines]) for i in range(0, len(widths), lines)) <= room:
            return columns
    return 1


# -- simulated data and small print ---------------------------------------------------------------------------


def require(result: Any, kind: type, function: str) -> None:
    """Raise FigureError unless `result` is a `kind`.

    Raises
    ------
    FigureError
        The message names the figure, what it takes and what it was given.
    """
    if not isinstance(result, kind):
        raise FigureError(f"plots.{function} draws a {kind.__name__}, not {type(result).__name__}")


def gated(result: Any, words: str, otherwise: str) -> str:
    """`words` where only tasks that were solved alone count in the result, else `otherwise`."""
    return otherwise if result.parameters.get("gate") == "off" else words


def simulated_label(result: Any, names: Iterable[str]) -> str | None:
    """The words that mark simulated data, or None for real data. `names` are the models in the figure."""
    if not result.provenance.simulated:
        return None
    simulated = [is_simulated(name) for name in names]
    return "includes simulated agents" if any(simulated) and not all(simulated) else "simulated agents"


def mark_simulated(ax: Axes, result: Any, names: Iterable[str], *, y: float = 1.0) -> None:
    """Write the label on simulated data at the right end above the axes (`y` in axes fractions plus points)."""
    _write_label(ax, result, names, xy=(1, 1), xycoords="axes fraction", xytext=(0, y), va="baseline")


def mark_simulated_page(ax: Axes, result: Any, names: Iterable[str]) -> None:
    """Write it in the top right corner of the axes' figure, where a title of the whole figure makes room for it."""
    _write_label(ax, result, names, xy=(1, 1), xycoords="figure fraction", xytext=(-6, -6), va="top")


def _write_label(ax: Axes, result: Any, names: Iterable[str], **place: Any) -> None:
    label = simulated_label(result, names)
    if label is None:
        return
    text = ax.annotate(
        label.upper(),
        textcoords="offset points",
        ha="right",
        fontsize=6.5,
        fontweight="bold",
        color=SIMULATED_COLOR,
        gid="simulated",
        bbox={"boxstyle": "round,pad=0.3", "fc": "white", "ec": SIMULATED_COLOR, "lw": 0.7},
        **place,
    )
    text.set_in_layout(place["xycoords"] == "axes fraction")


def small_print(fig: Figure, result: Any, *notes: str) -> None:
    """Write notes and provenance under the figure, wrapped to its width."""
    columns = int(fig.get_figwidth() * 21.5)
    paragraphs = [*notes, result.provenance.line()]
    text = "\n".join(line for p in paragraphs for line in textwrap.wrap(p, columns, break_on_hyphens=False))
    fig.supxlabel(text, x=0.01, ha="left", fontsize=6, color="#606060", linespacing=1.35)
