"""The path diagram of the mediation: grounding, strategy and outcome with the coefficients on the arrows.

May import `cilab.plots.parts.style`, `cilab.plots.parts.panels` and `cilab.stats`. Computes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cilab.plots.parts import panels, style
from cilab.results.numbers import Interval, number, percent
from cilab.stats.maze.mediation import MediationResult
from cilab.stats.methods.cluster import mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WORDS = {
    "grounding": "Grounding",
    "strategy_global": "Global strategy",
    "weighted_outcome": "Weighted outcome",
}
#: Middle of each box in the units of the panel, 10 wide and 7 high.
_PLACES = {"x": (1.5, 2.5), "m": (5.0, 6.0), "y": (8.5, 2.5)}
_HALF = (1.4, 0.62)


def mediation(result: MediationResult, *, ax: Axes | None = None, panel: str | None = None) -> Axes | Figure:
    """Draw the paths X -> M -> Y with coefficients and significance marks: figure D.1 and table 2 of the paper.

    Parameters
    ----------
    result : what `cilab.mediation` or `mediate` returned.
    ax : axes for one panel; None makes a figure 6.5 inches wide, with small print.
    panel : `additive` or `synergy`; None takes the first with `ax`, and all that are defined without.

    Returns
    -------
    Axes or Figure
        Every coefficient is a text whose gid is its name in `result.table`.

    Raises
    ------
    FigureError
        `result` is not a MediationResult, or there is no such panel (the synergy model may be undefined).
    """
    style.require(result, MediationResult, "mediation")
    found = {r["effect"]: r for r in result.table.iter_rows(named=True) if r["estimate"] is not None}
    parts = {"additive": partial(_draw, result=result, found=found, synergy=False)}
    if "synergy_b2" in found:
        parts["synergy"] = partial(_draw, result=result, found=found, synergy=True)
    return panels.compose(
        result, parts, ax=ax, panel=panel, size=(style.PAGE_WIDTH, 3.1), ncols=2, notes=_notes(result), label_y=23
    )


def _draw(ax: Axes, *, result: MediationResult, found: dict[str, Any], synergy: bool) -> None:
    ax.set_xlim(0, 10)
    ax.set_ylim(-0.6, 7)
    ax.set_axis_off()
    for role, letter in (("x", "X"), ("m", "M"), ("y", "Y")):
        name = result.parameters[role]
        _box(ax, _PLACES[role], f"{_WORDS.get(name, name)}\n({letter})")
    b, direct = ("synergy_b1", "synergy_direct") if synergy else ("b", "direct")
    _arrow(ax, (2.0, 3.15), (4.2, 5.35))
    _arrow(ax, (5.8, 5.35), (8.0, 3.15))
    _arrow(ax, (2.95, 2.5), (7.05, 2.5))
    _coefficient(ax, (2.75, 4.5), "a", "a", found, ha="right")
    _coefficient(ax, (7.25, 4.5), "b₁" if synergy else "b", b, found, ha="left")
    _coefficient(ax, (5.0, 2.02), "c′", direct, found, ha="center")
    if synergy:
        _arrow(ax, (2.7, 3.15), (6.6, 4.5), dashed=True)
        _coefficient(ax, (5.3, 3.05), "b₂", "synergy_b2", found, ha="center")
    lines = ("indirect_at_0", "indirect_at_1") if synergy else ("indirect", "share_mediated")
    for i, effect in enumerate(lines):
        _summary(ax, 1.05 - 0.72 * i, effect, found[effect])
    panels.title(ax, "Synergy model" if synergy else "Additive model")


def _box(ax: Axes, middle: tuple[float, float], text: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (w, h) = middle, _HALF
    ax.add_patch(
        FancyBboxPatch(
            (x - w, y - h), 2 * w, 2 * h, boxstyle="round,pad=0,rounding_size=0.2", fc="#f2f2f2", ec="#303030"
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=6.6, gid="box")


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False) -> None:
    look = {"arrowstyle": "-|>", "color": "#303030", "lw": 1.1, "ls": (0, (3, 2)) if dashed else "-"}
    ax.annotate("", xy=end, xytext=start, arrowprops=look | {"shrinkA": 0, "shrinkB": 0})


def _coefficient(ax: Axes, at: tuple[float, float], letter: str, name: str, found: dict[str, Any], *, ha: str) -> None:
    row = found[name]
    text = f"{letter} = {number(row['estimate'], 2)}{mark(row['p'])}"
    weight = "bold" if row["p"] is not None and row["p"] < 0.05 else "normal"
    ax.text(*at, text, ha=ha, va="center", fontsize=7, fontweight=weight, gid=name)


_SUMMARY = {
    "indirect": "Indirect a × b",
    "share_mediated": "Share of the total effect",
    "indirect_at_0": "Indirect at X = 0",
    "indirect_at_1": "Indirect at X = 1",
}


def _summary(ax: Axes, y: float, effect: str, row: dict[str, Any]) -> None:
    ends = Interval.of(row, "estimate", "lo", "hi", digits=2).brackets()
    text = f"{_SUMMARY[effect]} = {number(row['estimate'], 2)}{mark(row['p'])}  {ends}".rstrip()
    ax.text(5.0, y, text, ha="center", va="center", fontsize=7, gid=effect)


def _notes(result: MediationResult) -> list[str]:
    controls = ", ".join(name.replace("_", " ") for name in result.parameters["controls"]) or "none"
    return [
        f"** p < 0.01, * p < 0.05, † p < 0.10 (bold: p < 0.05), from {result.parameters['resamples']:,} draws of "
        f"{result.n_clusters} clusters; brackets: {percent(result.parameters['ci_level'])} percentile intervals. "
        "b₂ (dashed): the product X × M. Associations, not causes.",
        f"Controls: {controls}. Residual correlation at which the additive indirect effect is 0: "
        f"{Interval(result.rho_at_zero, *result.rho_at_zero_interval, 2).ends()}.",
    ]
