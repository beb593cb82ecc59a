"""Raw against adjusted scores, and the check behind the shift."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import cilab
from cilab import plots, testing
from cilab.plots.parts import style
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.release_results import result

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def test_raw_and_adjusted_scores_stand_in_one_row_each() -> None:
    table = result("fill_in").table.with_row_index("at")
    ax = result("fill_in").plot(panel="scores")
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert [name.partition(" · ")[0] for name in names] == table["model"].to_list()
    assert marks(ax, "Raw") == table.select("score_pct", "at").rows()
    assert marks(ax, "Adjusted") == table.select("adjusted_pct", "at").rows()
    assert ends(ax, "Adjusted", 0) == [pytest.approx(e) for e in table.select("lo_pct", "hi_pct").rows()]


@pytest.mark.parametrize(
    ("column", "quantity"), [("remaining_pct", "error_remaining_points"), ("shifted_pct", "error_shifted_points")]
)
def test_the_check_shows_every_pair_with_its_mean_error(column: str, quantity: str) -> None:
    found = result("fill_in")
    ax = found.plot(panel="check")
    (line,) = (line for line in ax.lines if line.get_gid() == column)
    assert [tuple(p) for p in line.get_xydata()] == found.hidden.select("full_pct", column).rows()
    error = float(line.get_label().rpartition(" ")[2].replace(MINUS, "-"))
    assert error == pytest.approx(found.value(quantity), abs=0.051)


def test_rows_without_an_adjusted_score_keep_their_raw_one() -> None:
    import dataclasses

    found = result("fill_in")
    some = pl.when(pl.col("rank") > 2).then(pl.col("adjusted_pct"))
    ax = plots.fill_in(dataclasses.replace(found, table=found.table.with_columns(adjusted_pct=some)), panel="scores")
    assert [y for _, y in marks(ax, "Adjusted")] == list(range(2, found.table.height))
    assert len(marks(ax, "Raw")) == found.table.height
    assert list(series(ax)) == ["Adjusted", "Raw"]


def test_simulated_data_are_marked_and_no_text_overlaps() -> None:
    fig = result("fill_in").plot()
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    shift = f"{result('fill_in').value('shift'):+.2f}".replace("-", MINUS)
    assert f"log-odds are shifted by {shift}." in fig._supxlabel.get_text().replace("\n", " ")
    assert overlaps(fig) == []


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a FillInResult"):
        plots.fill_in(result("items"))


def test_rows_with_too_few_tasks_have_no_bar_and_filled_in_missing_tasks_are_said() -> None:
    solved = [[True, True, *[False] * 8], *[[True] * 10] * 2]
    scores = [[1.0, 0.0, *[None] * 8], [1.0, 0.0] * 5, [*[1.0] * 9, None]]
    fig = cilab.fill_in(testing.grid(scores, solved), widths=(0.5, 1.0), fill="both").plot()
    words = fig._supxlabel.get_text().replace("\n", " ")
    assert "Missing tasks are filled in as well, without a shift. No bar: too few scored tasks." in words
    ax = fig.axes[0]
    drawn = [bar for bar in ends(ax, "Adjusted", 0) if np.isfinite(bar).all()]
    assert len(marks(ax, "Adjusted")) == 3 and len(drawn) == 2
    assert overlaps(fig) == []
