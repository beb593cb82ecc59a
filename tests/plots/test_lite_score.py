"""Predicted scores: marks stand at the numbers of the result, nothing overlaps, simulated data are marked."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def marks(ax, gid: str) -> list[float]:
    return [float(x) for line in ax.lines if line.get_gid() == gid for x in line.get_xdata()]


def test_the_new_row_stands_at_its_prediction_and_the_others_at_their_scores() -> None:
    found = result("lite_score")
    ax = plots.lite_score(found, panel="scores")
    assert marks(ax, "predicted") == found.table["predicted_pct"].to_list()
    assert sorted(marks(ax, "measured")) == sorted(found.beside["full_pct"].to_list())
    (ends,) = [c for c in ax.containers if c.get_label() == "Predicted"]
    (segment,) = ends.lines[2][0].get_segments()
    assert segment[:, 0].tolist() == pytest.approx([found.table["lo_pct"][0], found.table["hi_pct"][0]])
    names = [t.get_text() for t in ax.get_yticklabels()]
    # The first line is the best of all; the new row stands in its rank.
    assert names.index("sim:new") == found.table["rank"][0] - 1


def test_dimensions_and_ranks_are_those_of_the_result() -> None:
    found = result("lite_score")
    assert marks(found.plot(panel="dimensions"), "predicted") == found.dimensions["predicted_pct"].to_list()
    ax = found.plot(panel="ranks")
    drawn = {round(p.get_y() + p.get_height() / 2): p.get_width() for p in ax.patches if p.get_gid() == "rank"}
    likely = found.ranks.filter(pl.col("probability_pct") >= 0.5)
    assert drawn == pytest.approx(dict(likely.select("rank", "probability_pct").rows()))


def test_the_whole_figure_is_marked_and_no_text_overlaps() -> None:
    fig = result("lite_score").plot()
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(style.FigureError, match="row is 'x'"):
        result("lite_score").plot(row="x")
    with pytest.raises(style.FigureError, match="draws a LiteScore"):
        plots.lite_score(result("items"))
