"""Bars of failure modes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.container import BarContainer

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def drawn(ax) -> dict[str, dict[str, float]]:
    """Series -> mode -> length of its bar."""
    places = dict(zip(ax.get_yticks(), (t.get_text() for t in ax.get_yticklabels()), strict=True))
    out = {}
    for series in ax.containers:
        if isinstance(series, BarContainer):
            near = [min(places, key=lambda y, b=b: abs(y - b.get_y() - b.get_height() / 2)) for b in series]
            out[series.get_label()] = {places[y]: b.get_width() for y, b in zip(near, series, strict=True)}
    return out


def shares(name: str) -> dict[str, float]:
    rows = result("failures").table.filter((pl.col("name") == name) & (pl.col("n_tests") > 0))
    return {m[:1].upper() + m[1:]: v for m, v in rows.select("mode", "of_tests_share_pct").rows()}


def test_bars_are_shares_of_test_runs_by_group() -> None:
    bars = drawn(result("failures").plot())
    assert list(bars) == ["Frontier", "Closed, not frontier", "Open-weight"]
    for label, name in (("Frontier", "frontier"), ("Open-weight", "open-weight")):
        wanted = shares(name)
        assert bars[label]
        assert bars[label].items() <= wanted.items()


def test_a_group_can_stand_beside_a_model_and_a_dimension() -> None:
    ax = result("failures").plot(who=["frontier", "sim:O7", "taking_over"])
    bars = drawn(ax)
    assert list(bars) == ["Frontier", "sim:O7", "Taking over"]
    assert bars["sim:O7"].items() <= shares("sim:O7").items()


def test_modes_stand_under_their_stage_the_most_frequent_first() -> None:
    found = result("failures")
    ax = found.plot(who="frontier")
    assert texts(ax, "stage") == ["Missed it", "Gave in", "Stopped short"]
    shown = [t.get_text() for t in ax.get_yticklabels()]
    stages = {m[:1].upper() + m[1:]: s for m, s in found.table.select("mode", "stage").rows()}
    assert list(dict.fromkeys(stages[m] for m in shown))[:3] == ["missed it", "gave in", "stopped short"]
    for stage in ("missed it", "gave in", "stopped short"):
        own = [shares("frontier")[m] for m in shown if stages[m] == stage]
        assert own == sorted(own, reverse=True)


def test_runs_that_no_rule_fits_are_shown_only_where_there_are_some() -> None:
    found = result("failures")
    none = found.table.with_columns(n=pl.when(pl.col("mode") == "fits no rule").then(0).otherwise("n"))
    some = found.table.with_columns(n=pl.when(pl.col("mode") == "fits no rule").then(3).otherwise("n"))
    for table, there in ((none, False), (some, True)):
        labels = [t.get_text() for t in replace(found, table=table).plot().get_yticklabels()]
        assert ("Fits no rule" in labels) is there


def test_series_differ_in_colour_and_in_lightness_or_hatch() -> None:
    ax = result("failures").plot(who=["frontier", "closed, not frontier", "open-weight", "all"])
    looks = []
    for series in ax.containers:
        if isinstance(series, BarContainer):
            r, g, b, _ = series[0].get_facecolor()
            looks.append((series[0].get_hatch(), round((0.21 * r + 0.72 * g + 0.07 * b) * 4)))
    assert len(set(looks)) == 4


def test_no_text_overlaps() -> None:
    assert overlaps(result("failures").plot().figure) == []


def test_simulated_data_are_marked() -> None:
    assert texts(result("failures").plot(), "simulated") == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a FailureModes"):
        plots.failures(result("leaderboard"))
    with pytest.raises(style.FigureError, match=r"no failures of 'fronteir'.*frontier"):
        result("failures").plot(who=["fronteir"])
    with pytest.raises(style.FigureError, match="5 names; a figure holds 1 to 4"):
        result("failures").plot(who=["all", "frontier", "open-weight", "sim:F1", "sim:F2"])
