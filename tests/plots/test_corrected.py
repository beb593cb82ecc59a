"""Judged and corrected values: marks stand at the numbers of the result."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

import cilab
from cilab import plots
from cilab.plots.parts import style
from cilab.stats.judges.corrected import METHODS, CorrectedScores
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.release_results import release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def found(by: str | None = "dimension", success: float | None = 1.0) -> CorrectedScores:
    """Corrected scores of the simulated release, by verdicts that call a seventh of the passed runs failed."""
    runs = release().runs.filter(version="test", status="ok").collect().sort("run_id").sample(300, seed=1)
    wrong = pl.int_range(pl.len()) % 7 == 0
    people = runs.select("run_id", score=pl.when(wrong).then(0.0).otherwise("score"))
    return cilab.corrected(release(), people, by=by, success=success)


@pytest.mark.parametrize("method", METHODS)
def test_marks_are_the_values_of_the_table_with_their_intervals(method: str) -> None:
    table = found().table.filter(method=method)
    ax = found().plot()
    assert list(series(ax)) == [*METHODS.values()]
    assert [x for x, _ in marks(ax, METHODS[method])] == pytest.approx(table["value_pct"].to_list())
    drawn = [pytest.approx(e) for e in table.select("lo_pct", "hi_pct").rows()]
    assert ends(ax, METHODS[method], 0) == drawn


def test_a_method_without_values_is_not_in_the_legend() -> None:
    ax = found("row", None).plot()
    assert list(series(ax)) == ["Judged", "Prediction-powered"]
    assert len(ax.get_yticklabels()) == 25 and ax.get_yticklabels()[0].get_text() == "All"


def test_the_figure_is_marked_and_nothing_overlaps() -> None:
    ax = found().plot()
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(ax.figure) == []
    with pytest.raises(style.FigureError, match="draws a CorrectedScores"):
        plots.corrected(result("items"))
