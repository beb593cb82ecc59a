"""Scores against output tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def tokens() -> pl.DataFrame:
    return release().sql("select model, effort, arm, avg(tokens_out) as tokens_out from runs group by all")


def draw(**options):
    return plots.output_tokens(result("leaderboard"), tokens=tokens(), **options)


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return draw()


def wanted() -> dict[tuple[str, str], tuple[float, float]]:
    x = {(m, e): v for m, e, v in tokens().select("model", "effort", "tokens_out").rows()}
    return {
        (m, e): (x[m, e], s) for m, e, s in result("leaderboard").table.select("model", "effort", "score_pct").rows()
    }


def test_every_row_stands_at_its_tokens_and_score_on_a_logarithmic_axis() -> None:
    ax = drawn_once()
    drawn = {(float(x.get_xdata()[0]), float(x.get_ydata()[0])) for x in ax.lines if x.get_gid() == "row"}
    assert drawn == set(wanted().values())
    assert ax.get_xscale() == "log"


def test_arrows_lead_from_the_default_to_the_high_effort_of_each_model() -> None:
    arrows = {(t.xyann, t.xy) for t in drawn_once().texts if t.get_gid() == "arrow"}
    high = [m for m, e in wanted() if e == "high"]
    assert arrows == {(wanted()[m, "default"], wanted()[m, "high"]) for m in high}
    assert len(arrows) == 6


def test_high_effort_has_a_ring() -> None:
    rings = {(float(x.get_xdata()[0]), float(x.get_ydata()[0])) for x in drawn_once().lines if x.get_gid() == "ring"}
    assert rings == {at for (_, effort), at in wanted().items() if effort == "high"}


def test_the_corner_holds_the_correlation_of_the_effort_result() -> None:
    assert texts(drawn_once(), "corner") == []
    r = result("effort").output_length["r"][0]
    (corner,) = texts(draw(effort=result("effort")), "corner")
    assert corner == f"r = {r:.2f} over 18 default rows".replace("-", "\N{MINUS SIGN}")


def test_a_row_without_tokens_is_left_out_and_counted() -> None:
    ax = plots.output_tokens(result("leaderboard"), tokens=tokens().filter(pl.col("model") != "sim:C1"))
    assert "sim:C1" not in texts(ax, "label")
    assert "Not shown: 1 rows" in ax.figure._supxlabel.get_text()


@pytest.mark.parametrize("own", [False, True])
def test_no_text_overlaps_and_simulated_rows_are_marked(own: bool) -> None:
    ax = draw(facts=release() if own else None, effort=result("effort"))
    assert overlaps(ax.figure) == []
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a Leaderboard"):
        plots.output_tokens(result("effort"), tokens=tokens())
    with pytest.raises(style.FigureError, match="missing column tokens_out"):
        plots.output_tokens(result("leaderboard"), tokens=tokens().drop("tokens_out"))
    with pytest.raises(style.FigureError, match="twice"):
        plots.output_tokens(result("leaderboard"), tokens=pl.concat([tokens(), tokens()]))
    with pytest.raises(style.FigureError, match="no row has both"):
        plots.output_tokens(result("leaderboard"), tokens=tokens().with_columns(model=pl.lit("other")).head(1))
