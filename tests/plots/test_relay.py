"""Relay curves: what their artists hold."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.maze.relay import RelayResult, relay
from tests.plots.drawn import ends, marks, overlaps, series, texts
from tests.plots.maze_results import result
from tests.stats.maze_runs import frame, pair, rollouts


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def by_hand(*, strong_pair: bool = True) -> RelayResult:
    rows = [
        *(pair("big", "big", [1.0, 0.9, 0.95]) if strong_pair else []),
        *pair("small", "small", [0.2, 0.4, 0.3]),
        *(
            row
            for kind, k, outcomes in (
                ("primer", 2, [0.7, 0.6, 0.65]),
                ("primer", 6, [0.8, 0.9, 0.85]),
                ("recovery", 2, [0.6, 0.4, 0.5]),
            )
            for row in rollouts("relay", "big", "small", outcomes, relay_kind=kind, relay_k=k, rounds=20)
        ),
    ]
    return relay(frame(rows))


def test_curves_stand_at_the_means_of_their_k() -> None:
    ax = by_hand().plot(panel="big > small")
    assert [(round(x), y) for x, y in marks(ax, "Strong primer")] == [
        (2, pytest.approx(0.65)),
        (6, pytest.approx(0.85)),
    ]
    assert [(round(x), y) for x, y in marks(ax, "Strong recovery")] == [(2, pytest.approx(0.5))]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["2", "6"]


def test_bars_end_at_the_intervals() -> None:
    found = by_hand()
    primer = found.table.filter(kind="primer").sort("k").select("lo", "hi").rows()
    assert ends(found.plot(panel="big > small"), "Strong primer", 1) == [pytest.approx(e) for e in primer]


def test_both_homogeneous_pairs_are_lines_with_bands() -> None:
    found = by_hand()
    ax = found.plot(panel="big > small")
    lines = {line.get_label(): line.get_ydata()[0] for line in ax.lines if line.get_label().endswith("pair")}
    assert lines == {"Strong pair": pytest.approx(0.95), "Weak pair": pytest.approx(0.3)}
    bands = {p.get_gid(): (p.get_y(), p.get_y() + p.get_height()) for p in ax.patches if p.get_gid()}
    wanted = {r["reference"]: (r["lo"], r["hi"]) for r in found.references.iter_rows(named=True)}
    assert bands["strong pair"] == pytest.approx(wanted["two copies of the strong agent"])
    assert bands["weak pair"] == pytest.approx(wanted["two copies of the weak agent"])


def test_a_reference_that_was_not_played_is_not_drawn() -> None:
    ax = by_hand(strong_pair=False).plot(panel="big > small")
    assert "Strong pair" not in [line.get_label() for line in ax.lines]


def test_two_curves_differ_in_marker_and_line() -> None:
    drawn = series(by_hand().plot(panel="big > small"))
    first, second = (drawn[name].lines[0] for name in ("Strong primer", "Strong recovery"))
    assert first.get_marker() != second.get_marker()
    assert first.get_linestyle() != second.get_linestyle()


def test_the_simulated_study_has_one_panel_per_weak_agent_and_no_text_overlaps() -> None:
    fig = result("relay").plot()
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["(a) sim:X01 with sim:W2", "(b) sim:X01 with sim:W4"]
    assert all(set(series(ax)) == {"Strong primer", "Strong recovery"} for ax in fig.axes)
    assert texts(fig.axes[-1], "simulated") == ["SIMULATED AGENTS"]
    assert overlaps(fig) == []


def test_another_panel_and_another_result_are_refused() -> None:
    with pytest.raises(style.FigureError, match="panel is 'x', not one of big > small"):
        by_hand().plot(panel="x")
    with pytest.raises(style.FigureError, match="draws a RelayResult"):
        plots.relay(None)
