"""Who is in a teamwork figure: names of rows and dimensions, colours of families, marks of open weights and effort.

May import `cilab.core`, `cilab.stats` and `cilab.plots.parts.style`. Computes nothing. A family has a colour, open
weights a shape (or a hatch, or a sign after the name), high reasoning effort a ring: so all three can be read at once,
and the last two in grey.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from cilab.core import registry
from cilab.core.frames import as_frame
from cilab.core.vocabulary import PSEUDONYM, SIM
from cilab.plots.parts import style
from cilab.results.names import names_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: After the name of a model with open weights, where its mark does not say so.
OPEN_SIGN = "\N{WHITE DIAMOND}"
OPEN_NOTE = f"{OPEN_SIGN} open weights."
#: Colours of families, made to be told apart by colour-blind readers (Paul Tol's muted scheme).
_PALETTE = ("#332288", "#cc6677", "#44aa99", "#ddcc77", "#882255", "#88ccee", "#117733", "#aa4499", "#999933")
_OTHER = "#b8b8b8"
#: Families of the paper, so that one has the same colour in every figure.
_KNOWN = ("google", "openai", "anthropic", "xai", "moonshot", "deepseek", "zai", "alibaba", "nvidia")
#: Pseudonyms of simulated data by what follows the prefix: the group, its colour, and whether its weights are open.
_PSEUDONYMS = {
    "F": ("Frontier", _PALETTE[0], False),
    "C": ("Closed, not frontier", _PALETTE[5], False),
    "O": ("Open weights", _PALETTE[1], True),
}
_UNKNOWN = "Other"
LEGEND_COLUMNS = 4
#: Characters that a word in a narrow place may have.
_LONGEST_WORD = 14
_IN_WORDS = {"regulators_papers": "regulators, papers"}
#: On bars of models with open weights.
OPEN_HATCH = "////"
#: Colour and hatch of groups of models; others take what is free. They can be told apart in grey.
_GROUPS = {
    "frontier": (_PALETTE[0], None),
    "closed, not frontier": (_PALETTE[5], None),
    "open-weight": (_PALETTE[1], OPEN_HATCH),
}
_FREE_GROUPS = (*_GROUPS.values(), (_PALETTE[3], "...."), (_PALETTE[6], "xxxx"))


@dataclass(frozen=True, slots=True)
class Look:
    """How one model is drawn.

    Attributes
    ----------
    family : word in the legend.
    color, edge : of its marks and bars.
    open_weights : None where that is unknown.
    """

    family: str
    color: str
    edge: str
    open_weights: bool | None

    @property
    def marker(self) -> str:
        """A diamond for open weights, a circle for all others."""
        return "D" if self.open_weights else "o"

    @property
    def size(self) -> float:
        """Points; a diamond is smaller, so that both look alike."""
        return 4.6 if self.open_weights else 5.4

    @property
    def hatch(self) -> str | None:
        """Of its bars: open weights are hatched."""
        return OPEN_HATCH if self.open_weights else None


# -- names ------------------------------------------------------------------------------------------------


def row_names(table: pl.DataFrame) -> list[str]:
    """Name of every line of a table with `model, effort, arm` as figures show it: long ones are cut in the middle."""
    return style.brief(full_names(table))


def full_names(table: pl.DataFrame) -> list[str]:
    """Name of every line of a table with `model, effort, arm`: as in the printed tables, without "· default"."""
    return [short(name) for name in names_of(table)]


def short(row: str) -> str:
    """The name of a row without the words for the default effort."""
    return row.replace(" · default effort", "").replace(" · default", "")


def words(name: str) -> str:
    """The name of a group, dimension or source in words, with a capital; a long one is cut in the middle."""
    text = _IN_WORDS.get(name, name.replace("_", " "))
    (text,) = style.brief([text])
    return text[:1].upper() + text[1:]


def dimension(name: str, width: int | None = None) -> str:
    """A dimension in words; with `width` (characters) broken into lines."""
    text = words(name)
    return text if width is None else "\n".join(_wrapped(text, width))


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words; a word that is much wider than `width` is cut."""
    return style.brief(textwrap.wrap(text, width, break_long_words=False), max(width, _LONGEST_WORD))


def sign(look: Look) -> str:
    """What follows the name of a model with open weights."""
    return f" {OPEN_SIGN}" if look.open_weights else ""


def group_looks(groups: Sequence[str]) -> list[tuple[str, str | None]]:
    """Colour and hatch of bars of groups of models, up to 4: the usual groups look as their models do."""
    free = [look for look in _FREE_GROUPS if look not in [_GROUPS.get(g) for g in groups]]
    return [_GROUPS[g] if g in _GROUPS else free.pop(0) for g in groups]


# -- families -----------------------------------------------------------------------------------------------


def looks(names: Iterable[str], facts: Any = None) -> dict[str, Look]:
    """How each model is drawn.

    Parameters
    ----------
    names : models in the figure.
    facts : polars or pandas frame with `model` and any of `family, builder, open_weights`, or a study or data set
        that holds one. None: the registry, and pseudonyms of simulated data by their group.

    Raises
    ------
    FigureError
        `facts` is something else, or has no column `model`.
    """
    given = {} if facts is None else _frame(facts)
    about = {name: given.get(name) or _by_registry(name) or _by_name(name) for name in dict.fromkeys(names)}
    known = [f["word"] for f in about.values()]
    words = dict(zip(known, style.brief(known), strict=True))
    colors = _colors(sorted({f["family"] for f in about.values() if f["family"]}))
    return {
        name: Look(words[f["word"]], color, _darker(color), f["open"])
        for name, f in about.items()
        for color in [f.get("color") or colors.get(f["family"], _OTHER)]
    }


def _frame(facts: Any) -> dict[str, dict[str, Any]]:
    table = getattr(facts, "models", facts)
    table = as_frame(table, "facts: give a frame, a study or a data set", error=style.FigureError)
    if "model" not in table.columns:
        raise style.FigureError(f"facts: missing column model; there are {', '.join(table.columns)}")
    return {row["model"]: _facts(row) for row in table.iter_rows(named=True)}


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    family = row.get("family") or row.get("builder")
    return {"family": family, "word": row.get("builder") or family or _UNKNOWN, "open": row.get("open_weights")}


def _by_registry(name: str) -> dict[str, Any] | None:
    found = registry.lookup(name)
    return found and {
        "family": found.family,
        "word": found.builder or found.family or _UNKNOWN,
        "open": found.open_weights,
    }


def _by_name(name: str) -> dict[str, Any]:
    """Of a model that no table holds: a pseudonym's group, else nothing."""
    if name.startswith(PSEUDONYM) and name[len(PSEUDONYM) :][:1] in _PSEUDONYMS:
        word, color, is_open = _PSEUDONYMS[name[len(PSEUDONYM) :][:1]]
        return {"family": None, "word": word, "open": is_open, "color": color}
    return {"family": None, "word": "Simulated agents" if name.startswith(SIM) else _UNKNOWN, "open": None}


def _colors(families: Sequence[str]) -> dict[str, str]:
    """The paper's families keep their colours; others take those that are free, in order."""
    colors = {family: _PALETTE[_KNOWN.index(family)] for family in families if family in _KNOWN}
    free = [color for color in _PALETTE if color not in colors.values()]
    others = [family for family in families if family not in _KNOWN]
    return colors | dict(zip(others, free, strict=False))


def _darker(color: str) -> str:
    from matplotlib.colors import to_hex, to_rgb

    return to_hex([0.55 * c for c in to_rgb(color)])


# -- marks --------------------------------------------------------------------------------------------------


def point(ax: Axes, x: float, y: float, look: Look, *, ring: bool = False, **options: Any) -> Line2D:
    """One model's mark; with a ring around it for high effort."""
    (line,) = ax.plot(
        [x],
        [y],
        **{
            "marker": look.marker,
            "ms": look.size,
            "mfc": look.color,
            "mec": look.edge,
            "mew": 0.6,
            "ls": "none",
            "zorder": 4,
            "gid": "row",
            **options,
        },
    )
    if ring:
        ring_size = look.size + 4.2
        ax.plot([x], [y], "o", ms=ring_size, mfc="none", mec="#303030", mew=0.8, zorder=3.9, gid="ring")
    return line


def legend_handles(of: Mapping[str, Look], *, bars: bool = False, ring: bool = False) -> list[Any]:
    """One handle per family in the order of `of`, then what open weights and high effort look like."""
    families = dict.fromkeys(look.family for look in of.values())
    if set(families) == {_UNKNOWN}:
        families = {}
    out = [_handle([look for look in of.values() if look.family == family], bars) for family in families]
    # The pseudonyms' group of open weights says it by its own handle.
    if {look.family for look in of.values() if look.open_weights} - {_PSEUDONYMS["O"][0]}:
        grey = Look("Open weights (hatched)" if bars else "Open weights (diamond)", "#a0a0a0", "#404040", True)
        out.append(_handle([grey], bars))
    return [*out, _ring_handle()] if ring else out


def legend(drawn: Axes | Figure, of: Mapping[str, Look], *, ring: bool = False) -> None:
    """The legend of families: above all panels of a figure, or beside the axes of one panel."""
    from matplotlib.axes import Axes

    with style.context():
        handles = legend_handles(of, ring=ring)
        if not handles:
            return
        if isinstance(drawn, Axes):
            drawn.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=6.5)
        else:
            drawn.legend(handles=handles, loc="outside upper left", ncols=_columns(handles, 5), fontsize=7)


def legend_over_axes(ax: Axes, of: Mapping[str, Look], *more: Any, bars: bool = False, ring: bool = False) -> int:
    """The legend of families, and further handles, between axes and title; returns its number of lines."""
    handles = [*legend_handles(of, bars=bars, ring=ring), *more]
    if not handles:
        return 0
    columns = _columns(handles, LEGEND_COLUMNS)
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.4, ncols=columns)
    return -(-len(handles) // columns)


def _columns(handles: Sequence[Any], most: int) -> int:
    return style.legend_columns([handle.get_label() for handle in handles], most)


def _handle(family: Sequence[Look], bars: bool) -> Any:
    """A swatch of a family; its shape or hatch is that of open weights where all its models have them."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    closed = next((look for look in family if not look.open_weights), family[0])
    if bars:
        return Patch(fc=closed.color, ec="white", lw=0, hatch=closed.hatch, label=closed.family)
    shape: dict[str, Any] = {
        "marker": closed.marker,
        "ms": closed.size,
        "mfc": closed.color,
        "mec": closed.edge,
        "mew": 0.6,
    }
    return Line2D([], [], ls="none", label=closed.family, **shape)


def _ring_handle() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], marker="o", ms=9, mfc="none", mec="#303030", mew=0.8, ls="none", label="High effort (ring)")
