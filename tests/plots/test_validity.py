"""Checks of the score: held out, seeds, head to head, split halves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def drawn_once(panel: str | None = None):
    """The figure or a panel, drawn once: these tests only look."""
    return result("validity").plot(panel=panel)


def points(ax) -> dict[str, set[tuple[float, float]]]:
    return {
        line.get_label(): set(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))
        for line in ax.lines
        if line.get_gid() is None
    }


def test_the_figure_has_three_panels() -> None:
    titles = [ax.get_title(loc="left") for ax in drawn_once().axes]
    assert titles == ["(a) Held-out tasks", "(b) Test seeds", "(c) Head to head"]


def test_held_out_scores_stand_against_public_ones_open_weights_apart() -> None:
    drawn = points(drawn_once("held_out"))
    table = result("validity").held_out.drop_nulls()
    is_open = pl.col("row").str.starts_with("sim:O")
    assert drawn["Open weights"] == set(table.filter(is_open).select("public_pct", "held_out_pct").rows())
    assert drawn["Others"] == set(table.filter(~is_open).select("public_pct", "held_out_pct").rows())


def test_each_two_seeds_are_a_series() -> None:
    drawn = points(drawn_once("seeds"))
    assert list(drawn) == ["0, 1", "0, 2", "1, 2"]
    wide = result("validity").seeds.pivot("seed", index="row", values="score_pct")
    assert drawn["0, 2"] == set(wide.select("0", "2").rows())


def test_pairs_that_the_higher_ranked_row_wins_are_apart_from_others_and_counted() -> None:
    drawn = points(drawn_once("head_to_head"))
    pairs = result("validity").pairs
    won = int(pairs["wins"].fill_null(False).sum())
    assert list(drawn) == [f"higher ranked wins ({won})", f"does not ({pairs.height - won})"]
    lost = pairs.filter(~pl.col("wins").fill_null(False))
    assert drawn[f"does not ({lost.height})"] == set(lost.select("lower_pct", "higher_pct").rows())
    assert all(y >= x for x, y in drawn[f"higher ranked wins ({won})"])


@pytest.mark.parametrize("panel", ["held_out", "seeds", "head_to_head"])
def test_both_axes_have_one_scale_and_the_line_of_equal_scores(panel: str) -> None:
    ax = drawn_once(panel)
    assert ax.get_xlim() == ax.get_ylim()
    (line,) = [x for x in ax.lines if x.get_gid() == "equal"]
    assert list(line.get_xdata()) == list(line.get_ydata())


def test_corners_hold_the_results_values() -> None:
    found = result("validity")
    corner = texts(drawn_once("held_out"), "corner")[0]
    assert corner.startswith(f"τ = {found.value('kendall_tau_b'):.2f}")
    assert corner.endswith(f"mean gap {found.value('mean_absolute_difference'):.1f}")


def test_halvings_are_all_in_the_histogram() -> None:
    ax = drawn_once("split_half")
    assert sum(p.get_height() for p in ax.patches) == result("validity").halves["r"].drop_nulls().len()
    (line,) = [x for x in ax.lines if x.get_gid() == "mean"]
    assert line.get_xdata()[0] == result("validity").value("half_pearson_r")


def test_a_check_that_the_data_do_not_permit_has_no_panel() -> None:
    found = result("validity")
    fig = replace(found, held_out=found.held_out.clear()).plot()
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["(a) Test seeds", "(b) Head to head"]


def test_no_text_overlaps_and_simulated_rows_are_marked() -> None:
    fig = drawn_once()
    assert overlaps(fig) == []
    assert [t for ax in fig.axes for t in texts(ax, "simulated")] == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a ValidityResult"):
        plots.validity(result("leaderboard"))
    with pytest.raises(style.FigureError, match="not one of held_out, seeds, head_to_head, split_half"):
        result("validity").plot(panel="kappa", ax=plt.subplots()[1])
