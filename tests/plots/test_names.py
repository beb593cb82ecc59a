"""Names as figures show them: taken literally, cut where they are long, told apart, and with one warning of glyphs."""

from __future__ import annotations

import io
import logging
import pickle
import warnings
from collections.abc import Iterator

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.text import Text

from cilab import plots
from cilab.plots.parts import style
from cilab.plots.parts.style import FigureError, brief
from tests.plots.drawn import overlaps
from tests.plots.small_release import result

_LONG = "a-model-whose-name-goes-on-and-on-with-an-instruct-tuned-and-quantised-variant-of-it-"
LONG = tuple(_LONG + c for c in "abcdef")
ODD = ("$\\frac{$", "$weird_name$", "a_b^c", "50% $5 & $6", "<b>x</b>", "x\\y{}")
FOREIGN = ("通义千问", "model 🚀", "モデル", "모델", "智谱清言", "ещё")
FIGURES = {
    "leaderboard": "leaderboard",
    "drop": "leaderboard",
    "dimensions": "dimensions",
    "profiles": "dimensions",
    "pareto": "pareto",
    "effort": "effort",
    "release": "release",
    "loss": "loss",
    "conflict": "conflict",
    "joint_points": "conflict",
    "all_pairs": "all_pairs",
    "differences": "differences",
    "noticed": "noticed",
    "fill_in": "fill_in",
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def draw(figure: str, names: tuple[str, ...], **options):
    if figure == "noticed":
        options["scores"] = result("leaderboard", names)
    drawn = getattr(plots, figure)(result(FIGURES[figure], names), **options)
    return drawn if hasattr(drawn, "savefig") else drawn.get_figure()


# -- cutting --------------------------------------------------------------------------------------------------


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    (shown,) = brief([LONG[0]])
    assert len(shown) == style.NAME_WIDTH
    assert shown.startswith("a-model-whose")
    assert shown.endswith("variant-of-it-a"[-10:])
    assert "…" in shown


@given(st.lists(st.text(st.sampled_from("ab-智"), max_size=60), max_size=12))
def test_different_names_stay_different_and_short_ones_stay_as_they_are(names: list[str]) -> None:
    shown = brief(names, 12)
    assert len(set(shown)) == len(set(names))
    width = [sum(2 if c == "智" else 1 for c in name) for name in names]
    assert [s for s, w in zip(shown, width, strict=True) if w <= 5] == [
        n for n, w in zip(names, width, strict=True) if w <= 5
    ]
    assert max((sum(2 if c == "智" else 1 for c in text) for text in shown), default=0) <= 12


def test_names_that_differ_only_in_the_middle_are_told_apart() -> None:
    names = ["x" * 40 + c + "y" * 40 for c in "abc"]
    assert len(set(brief(names))) == 3


def test_a_legend_of_long_words_has_fewer_columns() -> None:
    assert style.legend_columns(["sim:F1", "sim:O1", "sim:C1"], 6) == 3
    assert style.legend_columns(brief(LONG), 6) == 2
    assert style.legend_columns(["x" * 200, "y"], 6) == 1


@pytest.mark.parametrize("figure", FIGURES)
def test_names_of_90_characters_lie_on_nothing_and_leave_no_figure(figure: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fig = draw(figure, LONG)
        fig.savefig(io.BytesIO())
    found = overlaps(fig)
    assert not [pair for pair in found if "model" in pair[0] or pair[1] == "outside"], found


# -- formulas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES)
def test_a_dollar_sign_in_a_name_is_no_formula_also_when_the_figure_is_saved_later(figure: str) -> None:
    fig = draw(figure, ODD)
    fig.savefig(io.BytesIO(), format="svg")
    named = [t for t in fig.findobj(Text) if "$" in t.get_text()]
    money = [t for t in named if t.get_text().lstrip("$").replace(",", "").replace(".", "").isdigit()]
    assert len(named) > len(money)
    assert not any(t.get_parse_math() for t in named if t not in money)


@pytest.mark.parametrize("figure", ["leaderboard", "pareto", "dimensions", "fill_in"])
def test_names_are_no_formulas_in_somebodys_axes(figure: str) -> None:
    fig, ax = plt.subplots()
    ax.set_title("$x^2$")
    fig.draw_without_rendering()
    draw(figure, ODD, ax=ax)
    fig.savefig(io.BytesIO())
    assert ax.title.get_parse_math() is True


# -- glyphs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES)
def test_missing_characters_are_named_in_one_warning(figure: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fig = draw(figure, FOREIGN)
        for kind in ("png", "svg", "pdf"):
            fig.savefig(io.BytesIO(), format=kind, bbox_inches="tight" if kind == "png" else None)
    words = [str(w.message) for w in told]
    assert len(words) <= 1
    assert all(w.startswith("no installed font has these characters") for w in words)


def test_a_font_that_has_the_character_is_used_and_one_that_is_not_there_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """U+0359 is in STIXGeneral, which comes with matplotlib, and not in DejaVu Sans."""
    for fonts, warned in (((), 1), (("No Such Font", "STIXGeneral"), 0)):
        monkeypatch.setattr(style, "FALLBACK_FONTS", fonts)
        style._fallbacks.cache_clear()
        with warnings.catch_warnings(record=True) as told, caplog.at_level(logging.WARNING):
            warnings.simplefilter("always")
            with style.context():
                fig, ax = style.new_figure(3, 2)
                ax.set_title("a\u0359")
            fig.savefig(io.BytesIO())
            fig.savefig(io.BytesIO())
        assert len(told) == warned
    style._fallbacks.cache_clear()
    assert not [r for r in caplog.records if "findfont" in r.getMessage()]


def test_other_warnings_than_those_of_glyphs_are_passed_on() -> None:
    from cilab.plots.parts.page import one_warning

    with pytest.warns(UserWarning, match="something else"), one_warning(plt.figure()):
        warnings.warn("something else", stacklevel=1)


def test_a_figure_can_be_pickled() -> None:
    fig = draw("leaderboard", ODD)
    assert pickle.loads(pickle.dumps(fig)).axes[0].get_title(loc="left") == "Leaderboard"


# -- axes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", FIGURES)
def test_what_is_no_axes_is_refused_in_one_line(figure: str) -> None:
    with pytest.raises(FigureError, match=r"^ax: give matplotlib Axes, .* not str$"):
        draw(figure, LONG, ax="x")
