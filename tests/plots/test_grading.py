"""Grader agreement: coefficients by agent, correlations between graders."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, texts
from tests.plots.maze_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("label", "short", "measure"),
    [("ICC, weighted outcome", "icc", "weighted outcome"), ("Kappa, success", "kappa", "binary success")],
)
def test_all_rollouts_stand_on_top_and_each_agent_below(label: str, short: str, measure: str) -> None:
    found = result("grader_agreement")
    ax = found.plot(panel="agents")
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == ["all rollouts", *found.by_agent["model"]]
    whole = found.table.row(by_predicate=pl.col("measure") == measure, named=True)
    rows = found.by_agent.select("model", short, f"{short}_lo", f"{short}_hi").rows()
    wanted = [("all rollouts", whole["value"], whole["lo"], whole["hi"]), *rows]
    wanted = [row for row in wanted if row[1] is not None]
    assert [(names[round(y)], x) for x, y in marks(ax, label)] == [row[:2] for row in wanted]
    assert ends(ax, label, 0) == [pytest.approx(row[2:]) for row in wanted]


def test_every_two_raters_have_one_cell() -> None:
    found = result("grader_agreement")
    ax = found.plot(panel="graders")
    assert sorted(texts(ax, "cell")) == sorted(f"{r:.2f}" for r in found.correlations["r"])
    assert ax.collections[0].get_array().count() == found.correlations.height
    assert ax.get_xticklabels()[0].get_text() == "reference"


def test_no_text_overlaps_and_another_result_is_refused() -> None:
    assert overlaps(result("grader_agreement").plot()) == []
    with pytest.raises(style.FigureError, match="draws a GradingResult"):
        plots.grading(result("pairs"))
