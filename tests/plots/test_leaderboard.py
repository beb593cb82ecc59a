"""The leaderboard figure: what its artists hold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from cilab import plots
from cilab.datasets import hand_worked_round
from cilab.plots.parts import roster, style
from cilab.stats.teamwork.scores import leaderboard
from tests.plots.drawn import ends, overlaps, texts
from tests.plots.release_results import published, release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once(make):
    """The figure, drawn once: these tests only look."""
    return make("leaderboard").plot()


def bars(ax) -> dict[str, float]:
    """Row -> length of its bar."""
    names = [t.get_text() for t in ax.get_yticklabels()]
    found = [p for p in ax.patches if p.get_gid() == "bar"]
    return {names[round(p.get_y() + p.get_height() / 2)]: p.get_width() for p in found}


def test_every_row_has_a_bar_as_long_as_its_score_the_best_on_top() -> None:
    found = result("leaderboard")
    ax = drawn_once(result)
    assert list(bars(ax).values()) == found.table["score_pct"].to_list()
    assert ax.get_yticklabels()[0].get_text().startswith(found.table["model"][0])
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_intervals_end_where_those_of_the_table_end() -> None:
    found = result("leaderboard")
    assert ends(drawn_once(result), "interval", 0) == [
        pytest.approx(e) for e in found.table.select("lo_pct", "hi_pct").rows()
    ]


def test_the_score_stands_beside_its_bar() -> None:
    found = result("leaderboard")
    assert texts(drawn_once(result), "value") == [f"{v:.1f}" for v in found.table["score_pct"]]


def test_open_weights_are_hatched_and_have_a_sign_after_the_name() -> None:
    ax = drawn_once(published)
    hatched = {p.get_hatch() is not None for p in ax.patches if p.get_gid() == "bar"}
    assert hatched == {True, False}
    signs = {name: roster.OPEN_SIGN in name for name in bars(ax)}
    models = published("leaderboard").table["model"].to_list()
    looks = roster.looks(models)
    assert list(signs.values()) == [bool(looks[m].open_weights) for m in models]
    of_bar = {p.get_y(): p for p in ax.patches if p.get_gid() == "bar"}
    assert [of_bar[y].get_hatch() is not None for y in sorted(of_bar)] == list(signs.values())


def test_bars_have_the_colours_of_families() -> None:
    found = published("leaderboard")
    ax = drawn_once(published)
    drawn = [to_hex(p.get_facecolor()) for p in ax.patches if p.get_gid() == "bar"]
    looks = roster.looks(found.table["model"])
    assert drawn == [looks[m].color for m in found.table["model"]]
    assert {t.get_text() for t in ax.get_legend().get_texts()} >= {look.family for look in looks.values()}


def test_families_come_from_a_study_that_is_given() -> None:
    ax = result("leaderboard").plot(facts=release())
    assert "sim-lab-1" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_simulated_data_are_marked_and_published_data_are_not() -> None:
    assert texts(drawn_once(result), "simulated") == ["SIMULATED AGENTS"]
    assert texts(drawn_once(published), "simulated") == []


def test_the_small_print_holds_level_and_study() -> None:
    text = drawn_once(result).figure._supxlabel.get_text()
    assert "95% score interval" in text
    assert "Study simulated_release" in text


def test_a_row_without_a_score_says_so_and_has_no_bar() -> None:
    runs = hand_worked_round().runs.collect()
    worse = runs.with_columns(
        score=pl.when((pl.col("model") == runs["model"][0]) & (pl.col("version") == "alone"))
        .then(0.0)
        .otherwise(pl.col("score"))
    )
    ax = leaderboard(worse, resamples=20).plot()
    assert texts(ax, "value")[1:] == ["no score", "no score"]  # its default row and its row at high effort
    assert len(bars(ax)) == 1


@pytest.mark.parametrize("make", [result, published])
def test_no_text_overlaps(make) -> None:
    assert overlaps(drawn_once(make).figure) == []


def test_it_draws_into_axes_that_are_given() -> None:
    fig, (left, right) = plt.subplots(1, 2)
    assert plots.leaderboard(published("leaderboard"), ax=right) is right
    assert not left.has_data()
    assert fig._supxlabel is None


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Leaderboard, not DimensionScores"):
        plots.leaderboard(result("dimensions"))
    with pytest.raises(style.FigureError, match="facts: missing column model"):
        plots.leaderboard(result("leaderboard"), facts=pl.DataFrame({"name": ["a"]}))
