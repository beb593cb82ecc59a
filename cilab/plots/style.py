"""What all figures share: the style file, colours and markers, the label on simulated data, the small print.

May import `cilab.errors`. Matplotlib is imported inside functions, so that `import cilab.plots` is quick.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cilab.errors import CilabError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE_FILE = Path(__file__).with_name("cilab.mplstyle")
#: Width of a printed page's text, inches.
PAGE_WIDTH = 6.5
SIMULATED_COLOR = "#b2182b"


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
    """Context manager with matplotlib's defaults and, on top, the style file; the reader's own settings wait."""
    import matplotlib.pyplot as plt
    import matplotlib.style

    # Loads the backend. A notebook's turns interactive mode on when it is loaded; inside the context that would be
    # undone at the end, and only the first figure of a notebook would be shown.
    plt.draw_if_interactive()
    return matplotlib.style.context(["default", str(STYLE_FILE)])


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure (inches) that makes room for its labels. Call it inside `context()`."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")


def require(result: Any, kind: type, function: str) -> None:
    """Raise FigureError unless `result` is a `kind`.

    Raises
    ------
    FigureError
        The message names the figure, what it takes and what it was given.
    """
    if not isinstance(result, kind):
        raise FigureError(f"plots.{function} draws a {kind.__name__}, not {type(result).__name__}")


def simulated_label(result: Any, names: Iterable[str]) -> str | None:
    """The words that mark simulated data, or None for real data. `names` are the models in the figure."""
    if not result.provenance.simulated:
        return None
    simulated = [name.startswith(("sim/", "sim:")) for name in names]
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
