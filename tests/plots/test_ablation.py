"""Ablations: lines against size and density."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import polars as pl

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.maze.ablation import distilled
from tests.plots.drawn import ends, marks, overlaps, series
from tests.plots.maze_results import mazes, result


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("factor", ["maze_size", "wall_density"])
def test_lines_stand_at_the_means_of_their_levels(factor: str) -> None:
    found = result("ablation", factor)
    ax = found.plot(panel="solo_distributed")
    for agent in series(ax):
        rows = found.table.filter(agent=agent, setting="solo_distributed").sort("level")
        drawn = marks(ax, agent)
        assert [y for _, y in drawn] == rows["mean"].to_list()
        wanted = rows.select(pl.col("lo", "hi").fill_null(float("nan"))).rows()  # no interval, no bar
        assert ends(ax, agent, 1) == [pytest.approx(e, nan_ok=True) for e in wanted]
        levels = [float(t.get_text()) for t in ax.get_xticklabels()]
        assert [min(levels, key=lambda v, x=x: abs(v - x)) for x, _ in drawn] == rows["level"].to_list()


def test_agents_measured_at_one_level_only_are_not_drawn() -> None:
    found = result("ablation", "wall_density")
    levels = found.table.group_by("agent", "setting").agg(pl.col("level").n_unique())
    wanted = set(levels.filter(pl.col("setting") == "solo_full", pl.col("level") > 1)["agent"])
    assert set(series(found.plot(panel="solo_full"))) == wanted


def test_an_agent_looks_the_same_in_all_panels_and_no_two_look_alike() -> None:
    fig = result("ablation", "maze_size").plot()
    looks = [{name: c.lines[0].get_marker() for name, c in series(ax).items()} for ax in fig.axes]
    merged = {name: marker for panel in looks for name, marker in panel.items()}
    assert all(merged[name] == marker for panel in looks for name, marker in panel.items())
    assert len(set(merged.values())) == len(merged)


@pytest.mark.parametrize("factor", ["maze_size", "wall_density"])
def test_no_text_overlaps(factor: str) -> None:
    assert overlaps(result("ablation", factor).plot()) == []


def test_gaps_of_distilled_and_base_models_stand_apart() -> None:
    found = distilled(mazes(), flags={"sim:X04": True, "sim:X08": True})
    ax = found.plot()
    rows = found.table.filter(pl.col("gap").is_not_null(), pl.col("distilled"))
    assert {"sim:X04", "sim:X08"} <= set(rows["model"])
    assert sorted(x for x, _ in marks(ax, "Distilled")) == sorted(rows["gap"].to_list())
    assert {t.get_text() for t in ax.get_yticklabels()[: rows.height]} == set(rows["row"])
    assert overlaps(ax.figure) == []


def test_another_result_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a AblationResult"):
        plots.ablation(result("grounding"))
