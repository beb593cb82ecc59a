"""The heatmap of ordered pairs: what its artists hold."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.maze.pairs import PairsResult, pairs
from tests.plots.drawn import overlaps, texts
from tests.plots.maze_results import result
from tests.stats.maze_runs import frame, guarded, pair


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def by_hand(prefix: str = "") -> PairsResult:
    """Big is better than small; big > small was played, small > big was not; lonely met nobody else."""
    big, small, lonely = f"{prefix}big", f"{prefix}small", f"{prefix}lonely"
    rows = [
        *pair(big, big, [1.0, 0.8, 0.9]),
        *pair(small, small, [0.2, 0.4, 0.3]),
        *pair(big, small, [0.5, 0.6, 0.55]),
        *pair(lonely, lonely, [0.9, 0.9, 0.9]),
    ]
    return pairs(frame(rows))


def test_starters_are_rows_followers_columns_and_the_better_agent_comes_first() -> None:
    ax = by_hand().plot()
    mesh = ax.collections[0].get_array()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["big", "small"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["big", "small"]
    assert mesh[0].tolist() == pytest.approx([0.9, 0.55])
    assert mesh[1].tolist() == [None, pytest.approx(0.3)]  # small never started with big
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("Starter", "Follower")


def test_each_played_cell_prints_mean_and_half_its_interval() -> None:
    ends = [guarded(values) for values in ([1.0, 0.8, 0.9], [0.5, 0.6, 0.55], [0.2, 0.4, 0.3])]
    halves = [f"±{(hi - lo) / 2:.2f}" for lo, hi in ends]
    assert texts(by_hand().plot(), "cell") == [
        f"{m}\n{h}" for m, h in zip(("0.90", "0.55", "0.30"), halves, strict=True)
    ]


def test_a_single_rollout_has_no_interval_to_print() -> None:
    assert texts(pairs(frame(pair("a", "b", [-0.5]))).plot(), "cell") == ["\N{MINUS SIGN}0.50"]


def test_negative_means_have_their_own_colour() -> None:
    mesh = pairs(frame(pair("a", "b", [-0.5]))).plot().collections[0]
    assert mesh.norm.vmin == -0.5


def test_pairs_of_copies_have_a_frame() -> None:
    frames = [p for p in by_hand().plot().patches if p.get_gid() == "homogeneous"]
    assert [p.get_center().tolist() for p in frames] == [[0.5, 0.5], [1.5, 1.5]]  # the middles of the cells


def test_agents_are_drawn_in_the_order_that_is_asked_for() -> None:
    ax = by_hand().plot(agents=["lonely", "small"])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["lonely", "small"]
    assert texts(ax, "cell") == ["0.90", "0.30\n±0.41"]


def test_an_agent_that_is_not_there_and_another_result_are_refused() -> None:
    with pytest.raises(style.FigureError, match=r"no pair of 'smal'. Did you mean small\?"):
        by_hand().plot(agents=["smal"])
    with pytest.raises(style.FigureError, match="nothing to draw"):
        pairs(frame([*pair("a", "a", [1.0]), *pair("b", "a", [None])])).plot(agents=["b"])
    with pytest.raises(style.FigureError, match="draws a PairsResult, not dict"):
        plots.pairs({})


def test_simulated_agents_are_marked_and_real_ones_are_not() -> None:
    assert texts(by_hand("sim/").plot(), "simulated") == ["SIMULATED AGENTS"]
    assert texts(by_hand().plot(), "simulated") == []


@pytest.mark.parametrize("prefix", ["", "claude-something-with-a-long-name-"])
def test_no_text_overlaps(prefix: str) -> None:
    assert overlaps(by_hand(prefix).plot().figure) == []


def test_the_simulated_study_draws_every_pair_that_was_played() -> None:
    found = result("pairs")
    ax = found.plot()
    # 14 agents with copies, 22 pairs twice
    assert ax.collections[0].get_array().count() == len(texts(ax, "cell")) == 58
    assert overlaps(ax.figure) == []


def test_it_draws_into_axes_that_are_given() -> None:
    fig, (left, right) = plt.subplots(1, 2)
    assert by_hand().plot(ax=right) is right
    assert not left.has_data()
    assert fig._supxlabel is None
