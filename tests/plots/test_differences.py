"""Baseline against test, and neighbours in rank."""

from __future__ import annotations

import math
from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

import cilab
from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.release_results import published, result

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("of", [result, published])
def test_baseline_and_test_of_every_row_are_joined(of) -> None:
    table = of("leaderboard").table.filter(pl.col("baseline_pct").is_not_null()).with_row_index("at")
    ax = plots.drop(of("leaderboard"))
    assert marks(ax, "Test") == table.select("score_pct", "at").rows()
    assert marks(ax, "Baseline") == table.select("baseline_pct", "at").rows()
    assert ends(ax, "Test", 0) == [pytest.approx(e) for e in table.select("lo_pct", "hi_pct").rows()]
    (lines,) = (c for c in ax.collections if c.get_gid() == "drop lines")
    joined = [tuple(map(float, segment[:, 0])) for segment in lines.get_segments()]
    assert joined == table.select("score_pct", "baseline_pct").rows()
    assert [float(t.replace(MINUS, "-")) for t in texts(ax, "drop")] == [
        pytest.approx(-v, abs=0.051) for v in table["drop_pct"]
    ]
    assert overlaps(ax.figure) == []


def test_neighbours_have_the_interval_that_pairs_them_by_task() -> None:
    found = result("differences")
    ax = found.plot()
    assert list(series(ax)) == ["Interval, paired by task"]
    wanted = found.table.with_row_index("at")
    assert marks(ax, "Interval, paired by task") == wanted.select("diff_points", "at").rows()
    # A pair without an interval has an invisible one.
    drawn = wanted.select("lo_points", "hi_points").fill_null(math.nan).rows()
    bars = [pytest.approx(e, nan_ok=True) for e in drawn]
    assert ends(ax, "Interval, paired by task", 0) == bars
    first = ax.get_yticklabels()[0].get_text()
    assert first.split(f" {MINUS} ")[0].startswith(wanted["higher"][0].partition(" · ")[0])
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(ax.figure) == []


def test_where_tasks_are_unknown_both_bounds_are_shown() -> None:
    found = published("differences")
    ax = found.plot()
    kinds = {
        "Interval if scores were independent": "independent",
        "Interval if they moved together": "comonotone",
    }
    assert set(series(ax)) == set(kinds)
    for label, kind in kinds.items():
        wanted = found.table.select(f"lo_{kind}_points", f"hi_{kind}_points").fill_null(math.nan).rows()
        assert ends(ax, label, 0) == [pytest.approx(e, nan_ok=True) for e in wanted]
    assert texts(ax, "simulated") == []
    assert overlaps(ax.figure) == []


def test_differences_without_an_interval_are_points() -> None:
    lines = [
        (model, f"t{t}", "d", version, 1.0 if version == "alone" or model == "a" else 0.0)
        for model in "ab"
        for t in range(2)
        for version in ("alone", "test")
    ]
    runs = pl.DataFrame(lines, schema=["model", "task_id", "dimension", "version", "score"], orient="row")
    ax = cilab.differences(runs.with_columns(status=pl.lit("ok"))).plot()
    (line,) = [each for each in ax.lines if each.get_label() == "Difference; too few tasks for an interval"]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([100.0], [0])
    assert overlaps(ax.figure) == []


def test_other_results_are_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Leaderboard"):
        plots.drop(result("items"))
    with pytest.raises(style.FigureError, match="draws a Differences"):
        plots.differences(result("items"))
