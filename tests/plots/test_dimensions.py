"""Scores by dimension: the heatmap and the radars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import matplotlib
import numpy as np
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import published, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once(make):
    """The figure, drawn once: these tests only look."""
    return make("dimensions").plot()


def head(ax) -> list[str]:
    return [t.get_text().replace("\n", " ") for t in ax.get_xticklabels()]


def scores(ax):
    """(cells of the dimensions, overall scores) as they are drawn."""
    drawn = ax.collections[0].get_array()
    return drawn[:, :-1], drawn[:, -1]


def names(ax) -> list[str]:
    return [t.get_text().split(" ◇")[0] for t in ax.get_yticklabels()]


def test_every_cell_holds_the_score_of_its_row_and_dimension() -> None:
    found = published("dimensions")
    ax = drawn_once(published)
    shown = {d.replace("_", " ").capitalize(): d for d in found.table["dimension"].unique()}
    wanted = {(m, d): s for m, d, s in found.table.select("model", "dimension", "score_pct").rows()}
    drawn, _ = scores(ax)
    assert drawn.shape == (12, 7)
    for i, name in enumerate(names(ax)):
        for j, word in enumerate(head(ax)[:-1]):
            assert float(drawn[i, j]) == wanted[name, shown[word]]


def test_the_last_column_is_the_overall_score_of_the_leaderboard() -> None:
    ax = drawn_once(published)
    overall = dict(published("leaderboard").table.select("model", "score_pct").rows())
    assert head(ax)[-1] == "Overall"
    assert [float(v) for v in scores(ax)[1]] == [pytest.approx(overall[n]) for n in names(ax)]


def test_the_best_row_is_on_top_and_the_hardest_dimension_at_the_left() -> None:
    ax = drawn_once(result)
    inner, last = scores(ax)
    overall = [float(v) for v in last]
    assert overall == sorted(overall, reverse=True)
    means = inner.mean(axis=0).tolist()
    assert means == sorted(means)
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_each_model_stands_there_once_unless_all_rows_are_wanted() -> None:
    assert len(names(drawn_once(result))) == 18
    everything = names(result("dimensions").plot(rows="all"))
    assert len(everything) == 24
    assert {"sim:F1", "sim:F1 · high"} <= set(everything)


def test_numbers_in_cells_are_those_of_the_image() -> None:
    ax = drawn_once(result)
    inner, overall = scores(ax)
    wanted = [f"{v:.0f}" for row, last in zip(inner, overall, strict=True) for v in [*row, last]]
    assert texts(ax, "cell") == wanted
    assert {t.get_fontweight() for t in ax.texts if t.get_position()[0] > inner.shape[1]} == {"bold"}
    assert {t.get_fontweight() for t in ax.texts if t.get_position()[0] < inner.shape[1] and t.get_gid() == "cell"} == {
        "normal"
    }


def test_a_dimension_without_a_score_is_a_dash_and_leaves_no_overall_score() -> None:
    found = published("dimensions")
    missing = (pl.col("model") == "GLM-5.3") & (pl.col("dimension") == "taking_initiative")
    table = found.table.with_columns(score_pct=pl.when(~missing).then(pl.col("score_pct")))
    ax = type(found)(**{**vars(found), "table": table}).plot()
    assert texts(ax, "cell").count("–") == 2
    assert scores(ax)[1].mask[names(ax).index("GLM-5.3")]


def test_dimensions_without_any_score_come_last() -> None:
    found = published("dimensions")
    empty = pl.col("dimension").is_in(["taking_initiative", "resisting_unsafe_pressure"])
    table = found.table.with_columns(score_pct=pl.when(~empty).then(pl.col("score_pct")))
    ax = type(found)(**{**vars(found), "table": table}).plot()
    assert set(head(ax)[-3:-1]) == {"Taking initiative", "Resisting unsafe pressure"}


def test_a_radar_per_model_holds_its_scores_against_the_mean() -> None:
    found = published("dimensions")
    fig = plots.profiles(found)
    titles = [ax.get_title().replace("\n", " ") for ax in fig.axes]
    assert titles[0].startswith("GPT-6 Astra")
    for ax in fig.axes[:3]:
        model = ax.get_title().rpartition("\n")[0].replace("\n", " ")
        own = found.table.filter(pl.col("model") == model)["score_pct"].to_list()
        (line,) = [x for x in ax.lines if x.get_gid() == "profile"]
        x, y = line.get_data()
        assert np.hypot(x, y) == pytest.approx([*own, own[0]])
        (mean,) = [x for x in ax.lines if x.get_gid() == "mean"]
        by_dimension = found.table.group_by("dimension", maintain_order=True).agg(pl.col("score_pct").mean())[
            "score_pct"
        ]
        assert np.hypot(*mean.get_data())[:-1] == pytest.approx(by_dimension.to_list())
        assert math.atan2(x[1], y[1]) == pytest.approx(2 * math.pi / 7)  # clockwise from the top


def test_the_small_print_says_which_spoke_is_which() -> None:
    text = plots.profiles(published("dimensions"))._supxlabel.get_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "1 Resisting unsafe pressure" in text
    assert "7 Taking initiative" in text.replace("\n", " ")


def test_one_profile_can_be_drawn_alone_or_into_axes() -> None:
    fig = plots.profiles(result("dimensions"), panel="sim:O7")
    assert len(fig.axes) == 1
    assert fig.axes[0].get_title().startswith("sim:O7")
    ax = plt.subplots()[1]
    assert plots.profiles(result("dimensions"), ax=ax) is ax


def test_simulated_data_are_marked() -> None:
    assert texts(drawn_once(result), "simulated") == ["SIMULATED AGENTS"]
    fig = plots.profiles(result("dimensions"), panel="sim:F1")
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert texts(drawn_once(published), "simulated") == []


@pytest.mark.parametrize("make", [result, published])
def test_no_text_overlaps(make) -> None:
    assert overlaps(drawn_once(make).figure) == []
    assert overlaps(plots.profiles(make("dimensions"))) == []


def test_what_cannot_be_drawn_is_refused_in_one_line() -> None:
    with pytest.raises(style.FigureError, match="draws a DimensionScores, not Leaderboard"):
        plots.dimensions(result("leaderboard"))
    with pytest.raises(style.FigureError, match="default, all"):
        plots.dimensions(result("dimensions"), rows="some")
    with pytest.raises(style.FigureError, match="no row is called 'sim:F9'"):
        plots.profiles(result("dimensions"), panel="sim:F9")
