"""Communication efficiency: tokens and messages."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, series
from tests.plots.maze_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def by_row(ax, label: str) -> dict[str, float]:
    names = [t.get_text() for t in ax.get_yticklabels()]
    return {names[round(y)]: x for x, y in marks(ax, label)}


@pytest.mark.parametrize("setting", ["homogeneous", "heterogeneous"])
def test_tokens_stand_in_the_agents_rows(setting: str) -> None:
    found = result("efficiency")
    rows = found.table.filter(pl.col("setting") == setting)
    ax = found.plot(panel="tokens")
    assert by_row(ax, setting.capitalize()) == dict(rows.select("agent", "mean").rows())
    assert ends(ax, setting.capitalize(), 0) == [pytest.approx(e) for e in rows.select("lo", "hi").rows()]


def test_the_most_terse_agent_stands_on_top() -> None:
    ax = result("efficiency").plot(panel="tokens")
    drawn = list(by_row(ax, "Homogeneous").items())
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert [name for name, _ in sorted(drawn, key=lambda p: p[1])] == names


@pytest.mark.parametrize("partners", ["more efficient", "less efficient"])
def test_changes_with_the_partner_are_those_of_the_table(partners: str) -> None:
    found = result("efficiency")
    rows = found.adaptation.filter(pl.col("partners") == partners, pl.col("change").is_not_null())
    assert by_row(found.plot(panel="adaptation"), f"With {partners}") == dict(rows.select("agent", "change").rows())


def test_messages_stand_in_the_agents_rows_by_outcome_band() -> None:
    found = result("efficiency")
    ax = plots.messages(found, panel="homogeneous")
    assert list(series(ax)) == ["Fail", "Partial Fail", "Partial Success", "Success"]
    for band in series(ax):
        rows = found.messages.filter(pl.col("band") == band, pl.col("setting") == "homogeneous").drop_nulls("mean")
        assert by_row(ax, band) == dict(rows.select("agent", "mean").rows())
    assert len({c.lines[0].get_marker() for c in series(ax).values()}) == 4


def test_no_text_overlaps() -> None:
    assert overlaps(result("efficiency").plot()) == []
    assert overlaps(plots.messages(result("efficiency"))) == []


def test_another_result_is_refused() -> None:
    for draw in (plots.efficiency, plots.messages):
        with pytest.raises(style.FigureError, match="draws a EfficiencyResult"):
            draw(result("grounding"))
