"""Agreement of judges and people."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, texts
from tests.plots.release_results import result

WORDS = {"referee × second": "Referee and second rater", "people × final": "People and final label"}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return result("agreement").plot()


def rows(comparison: str) -> pl.DataFrame:
    return result("agreement").table.filter((pl.col("comparison") == comparison) & pl.col("raw").is_not_null())


@pytest.mark.parametrize("comparison", list(WORDS))
def test_marks_stand_at_the_raw_agreement_of_their_dimension(comparison: str) -> None:
    ax = drawn_once()
    names = [t.get_text() for t in ax.get_yticklabels()]
    drawn = {names[round(y)]: x for x, y in marks(ax, WORDS[comparison])}
    wanted = {g: 100 * raw for g, raw in rows(comparison).select("group", "raw").rows()}
    assert drawn == {"All messages" if g == "all" else g.replace("_", " ").capitalize(): v for g, v in wanted.items()}
    intervals = [(100 * lo, 100 * hi) for lo, hi in rows(comparison).select("raw_lo", "raw_hi").rows()]
    assert ends(ax, WORDS[comparison], 0) == [pytest.approx(e) for e in intervals]


def test_all_messages_are_on_top_and_then_the_least_agreement() -> None:
    ax = drawn_once()
    by_row = sorted(marks(ax, WORDS["referee × second"]), key=lambda p: p[1])
    assert ax.get_yticklabels()[0].get_text() == "All messages"
    values = [x for x, _ in by_row[1:]]
    assert values == sorted(values)


def test_the_number_of_messages_stands_beside_each_mark() -> None:
    wanted = [f"({n:,})" for comparison in WORDS for n in rows(comparison)["n"]]
    assert texts(drawn_once(), "n") == wanted


def test_other_comparisons_can_be_asked_for() -> None:
    ax = result("agreement").plot(comparisons=["panel:1 × final", "second × third"])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["panel:1 × final", "Second and third rater"]


def test_no_text_overlaps_and_simulated_data_are_marked() -> None:
    ax = drawn_once()
    assert overlaps(ax.figure) == []
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a AgreementResult"):
        plots.agreement(result("leaderboard"))
    with pytest.raises(style.FigureError, match=r"there is no 'referee x second'.*referee × second"):
        result("agreement").plot(comparisons=["referee x second"])
