"""Scores against a measure of capability: fit, residuals, dimensions."""

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
from tests.plots.release_results import result

MINUS = "\N{MINUS SIGN}"
INDEX = "intelligence_index"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("measure", [INDEX, "lmarena"])
def test_points_and_line_are_those_of_the_result(measure: str) -> None:
    rows = result("capability").residuals.filter(pl.col("measure") == measure)
    ax = result("capability").plot(panel="fit", measure=measure)
    drawn = [(float(p.get_xdata()[0]), float(p.get_ydata()[0])) for p in ax.lines if p.get_gid() == "row"]
    assert drawn == rows.select("value", "score_pct").rows()
    (line,) = (p for p in ax.lines if p.get_gid() == "fit")
    assert [tuple(p) for p in line.get_xydata()] == rows.select("value", "fitted_pct").sort("value").rows()


def test_every_name_carries_its_distance_from_the_line() -> None:
    rows = result("capability").residuals.filter(pl.col("measure") == INDEX)
    shown = {t.split(" ")[0]: t.split(" ")[1] for t in texts(result("capability").plot(panel="fit"), "label")}
    assert list(shown) == rows["model"].to_list()
    for model, points in rows.select("model", "residual_points").rows():
        assert float(shown[model].replace(MINUS, "-")) == pytest.approx(points, abs=0.051)
        assert (points < -0.05) == shown[model].startswith(MINUS)


def test_dimensions_stand_below_the_overall_score_by_their_correlation() -> None:
    table = result("capability").table.filter(pl.col("measure") == INDEX)
    ax = result("capability").plot(panel="dimensions")
    names = [t.get_text().replace("\n", " ").lower().replace(" ", "_") for t in ax.get_yticklabels()]
    of = table.filter(pl.col("dimension") != "overall").sort("r", descending=True)["dimension"].to_list()
    assert names == ["overall", *of]
    rows = {r["dimension"]: r for r in table.iter_rows(named=True)}
    found, bars = [], []
    for label in ("r of 0 or more", "Negative r"):
        found += [(names[round(y)], x) for x, y in marks(ax, label)]
        bars += ends(ax, label, 0)
    assert found == [(name, rows[name]["r"]) for name in names]
    assert bars == [pytest.approx((rows[name]["lo_models"], rows[name]["hi_models"])) for name in names]


def test_the_correlation_stands_in_the_panel_and_no_text_overlaps() -> None:
    row = result("capability").table.row(0, named=True)
    fig = result("capability").plot()
    (text,) = texts(fig.axes[0], "r")
    # Tasks are so few here that resamples of them are often empty: then the interval over models stands.
    kind = "" if row["lo"] is not None else "_models"
    assert text.startswith(f"r = {row['r']:.2f} [{row[f'lo{kind}']:.2f}, {row[f'hi{kind}']:.2f}]")
    assert fig.axes[0].get_xlabel() == "Artificial Analysis Intelligence Index"
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_an_unknown_measure_and_another_result_are_refused() -> None:
    with pytest.raises(style.FigureError, match="measure is 'iq', not one of intelligence_index"):
        plots.capability(result("capability"), measure="iq")
    with pytest.raises(style.FigureError, match="draws a Capability"):
        plots.capability(result("items"))
