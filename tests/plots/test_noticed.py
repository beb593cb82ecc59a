"""Shares of failed runs that saw the problem."""

from __future__ import annotations

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
from tests.plots.drawn import ends, overlaps, texts
from tests.plots.release_results import release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return result("noticed").plot(panel="models", scores=result("leaderboard"))


def by_dimension() -> pl.DataFrame:
    rows = result("noticed").table.filter((pl.col("by") == "dimension") & pl.col("share_pct").is_not_null())
    return rows.sort("share_pct", descending=True)


def test_dimensions_stand_in_the_order_of_their_share_with_their_failed_runs() -> None:
    ax = result("noticed").plot(panel="dimensions")
    assert [p.get_width() for p in ax.containers[0]] == by_dimension()["share_pct"].to_list()
    assert ends(ax, "interval", 0) == [pytest.approx(e) for e in by_dimension().select("lo_pct", "hi_pct").rows()]
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0].endswith(f"({by_dimension()['n_failed'][0]:,})")


def test_models_stand_at_their_default_score_and_share() -> None:
    found, board = result("noticed"), result("leaderboard")
    ax = drawn_once()
    shares = dict(found.table.filter(pl.col("by") == "model").select("name", "share_pct").rows())
    scores = dict(board.table.filter(pl.col("effort") == "default").select("model", "score_pct").rows())
    drawn = {(float(x.get_xdata()[0]), float(x.get_ydata()[0])) for x in ax.lines if x.get_gid() == "row"}
    assert drawn == {(scores[m], share) for m, share in shares.items()}
    assert set(texts(ax, "label")) == set(shares)


def test_the_trend_is_the_least_squares_line() -> None:
    ax = drawn_once()
    points = np.array([(x.get_xdata()[0], x.get_ydata()[0]) for x in ax.lines if x.get_gid() == "row"], float)
    (line,) = [x for x in ax.lines if x.get_gid() == "trend"]
    design = np.column_stack([np.ones(len(points)), points[:, 0]])
    start, slope = np.linalg.lstsq(design, points[:, 1], rcond=None)[0]
    assert line.get_ydata() == pytest.approx(start + slope * np.asarray(line.get_xdata()))


def test_the_corner_holds_the_results_correlation() -> None:
    r = result("noticed").correlations.filter(pl.col("dimension").is_null())["r"][0]
    ax = drawn_once()
    assert texts(ax, "corner") == [f"r = {r:.2f}".replace("-", "\N{MINUS SIGN}")]


def test_without_scores_there_is_one_panel() -> None:
    assert len(result("noticed").plot().axes) == 1
    assert len(result("noticed").plot(scores=result("leaderboard")).axes) == 2


@pytest.mark.parametrize("own", [False, True])
def test_no_text_overlaps(own: bool) -> None:
    assert overlaps(result("noticed").plot()) == []
    fig = result("noticed").plot(scores=result("leaderboard"), facts=release() if own else None)
    assert overlaps(fig) == []


def test_simulated_data_are_marked() -> None:
    fig = result("noticed").plot(scores=result("leaderboard"))
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Noticed"):
        plots.noticed(result("leaderboard"))
    with pytest.raises(style.FigureError, match=r"pass scores=cilab\.leaderboard"):
        result("noticed").plot(panel="models")
    with pytest.raises(style.FigureError, match="draws a Leaderboard, not Pareto"):
        result("noticed").plot(scores=result("pareto"))


def test_the_dotted_line_of_all_failed_runs_is_explained() -> None:
    fig = plots.noticed(result("noticed"))
    assert [line for line in fig.axes[0].lines if line.get_gid() == "all"]
    assert "Dotted: all failed runs." in fig._supxlabel.get_text().replace("\n", " ")
