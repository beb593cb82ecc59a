"""The path diagram: every coefficient on its arrow."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.methods.cluster import mark
from tests.plots.drawn import overlaps, texts
from tests.plots.maze_results import result

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def shown(effect: str, letter: str) -> str:
    """The text of one coefficient as the table has it."""
    row = next(r for r in result("mediation").table.iter_rows(named=True) if r["effect"] == effect)
    return f"{letter} = {row['estimate']:.2f}{mark(row['p'])}".replace("-", MINUS)


@pytest.mark.parametrize(
    ("panel", "wanted"),
    [
        ("additive", {"a": "a", "b": "b", "direct": "c′"}),
        ("synergy", {"a": "a", "synergy_b1": "b₁", "synergy_b2": "b₂", "synergy_direct": "c′"}),
    ],
)
def test_coefficients_and_their_marks_are_those_of_the_table(panel: str, wanted: dict[str, str]) -> None:
    ax = result("mediation").plot(panel=panel)
    for effect, letter in wanted.items():
        assert texts(ax, effect) == [shown(effect, letter)]


def test_the_indirect_effect_stands_below_with_its_interval() -> None:
    row = next(r for r in result("mediation").table.iter_rows(named=True) if r["effect"] == "indirect")
    (text,) = texts(result("mediation").plot(panel="additive"), "indirect")
    assert text.startswith(f"Indirect a × b = {row['estimate']:.2f}")
    assert text.endswith(f"[{row['lo']:.2f}, {row['hi']:.2f}]")


def test_significant_coefficients_are_bold_and_others_are_not() -> None:
    ax = result("mediation").plot(panel="synergy")
    weights = {t.get_gid(): t.get_fontweight() for t in ax.texts}
    p = dict(result("mediation").table.select("effect", "p").rows())
    for effect in ("a", "synergy_b1", "synergy_b2", "synergy_direct"):
        assert weights[effect] == ("bold" if p[effect] < 0.05 else "normal")
    assert {weights["synergy_b1"], weights["synergy_b2"]} == {"bold", "normal"}


def test_boxes_are_named_by_role_and_no_text_overlaps() -> None:
    fig = result("mediation").plot()
    assert texts(fig.axes[0], "box") == ["Grounding\n(X)", "Global strategy\n(M)", "Weighted outcome\n(Y)"]
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["(a) Additive model", "(b) Synergy model"]
    assert overlaps(fig) == []


def test_the_small_print_names_clusters_draws_and_controls() -> None:
    text = result("mediation").plot()._supxlabel.get_text().replace("\n", " ")
    assert "100 draws of 53 clusters" in text
    assert "path length" in text
    assert "Associations, not causes." in text


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a MediationResult"):
        plots.mediation(result("grounding"))
