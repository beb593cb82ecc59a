"""Ranks that the data do not exclude."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_every_row_has_its_rank_its_ranks_and_its_score() -> None:
    found = result("all_pairs")
    ax = found.plot()
    wanted = found.ranks.with_row_index("at")
    assert marks(ax, "Ranks not excluded") == wanted.select("rank", "at").rows()
    # Each bar reaches over the whole of its ranks.
    drawn = [pytest.approx((lo - 0.4, hi + 0.4)) for lo, hi in wanted.select("rank_lo", "rank_hi").rows()]
    assert ends(ax, "Ranks not excluded", 0) == drawn
    assert texts(ax, "score") == [f"{score:.1f}" for score in wanted["score_pct"]]
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(ax.figure) == []


def test_other_results_are_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a AllPairs"):
        plots.all_pairs(result("items"))
