"""Grounding: strategies by tier, outcome by score."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import marks, overlaps, texts
from tests.plots.maze_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_shares_of_global_strategies_are_bars_from_the_strongest_tiers_down() -> None:
    found = result("grounding")
    ax = found.plot(panel="strategy")
    bars = {c.get_label(): c.patches for c in ax.containers}
    share = found.by_tier["share_global"].to_list()
    assert [p.get_width() for p in bars["Global"]] == share
    assert [p.get_x() + p.get_width() for p in bars["Local"]] == pytest.approx([1.0] * len(share))
    assert ax.get_yticklabels()[0].get_text().startswith("strong - strong\nn = ")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    assert texts(ax, "share") == [f"{s:.2f}" for s in share]


@pytest.mark.parametrize(("label", "value"), [("Global", 1.0), ("Local", 0.0)])
def test_marks_are_the_mean_outcomes_at_each_score(label: str, value: float) -> None:
    found = result("grounding")
    rows = found.table.filter(pl.col("strategy_global") == value)
    means = rows.group_by("grounding").agg(pl.col("weighted_outcome").mean(), pl.len()).filter(pl.col("len") >= 5)
    wanted = dict(means.select("grounding", "weighted_outcome").rows())
    drawn = {round(8 * x) / 8: y for x, y in marks(found.plot(panel="outcome"), label)}
    assert drawn == pytest.approx(wanted)


def test_every_ordered_pair_is_a_point_and_the_trend_goes_through_their_means() -> None:
    found = result("grounding")
    ax = found.plot(panel="outcome")
    lines = {line.get_gid(): line for line in ax.lines if line.get_gid()}
    assert list(lines["pairs"].get_xdata()) == found.pairs["grounding"].to_list()
    (x0, x1), (y0, y1) = lines["trend"].get_data()
    middle = found.pairs["grounding"].mean()
    assert y0 + (y1 - y0) * (middle - x0) / (x1 - x0) == pytest.approx(found.pairs["weighted_outcome"].mean())


def test_no_text_overlaps_and_another_result_is_refused() -> None:
    assert overlaps(result("grounding").plot()) == []
    with pytest.raises(style.FigureError, match="draws a GroundingResult"):
        plots.grounding(result("mediation"))
