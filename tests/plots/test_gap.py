"""The gap figure: what its artists hold, not its pixels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import matplotlib
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.container import ErrorbarContainer

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from cilab import plots
from cilab.plots.parts import style
from cilab.stats.maze.gap import GapResult, gap

LABELS = {"solo_full": "Solo, full map", "solo_distributed": "Solo, distributed map", "pair": "Pair of copies"}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def result_of(cells: dict[tuple[str, str], list[float]]) -> GapResult:
    """The result for (model, setting) -> outcomes."""
    rows = [
        {
            "study": "by hand",
            "version": version,
            "model": model,
            "partner_model": model if version == "pair" else None,
            "status": "ok",
            "weighted_outcome": value,
            "maze_size": 6,
            "wall_density": 0.3,
        }
        for (model, version), values in cells.items()
        for value in values
    ]
    return gap(pl.DataFrame(rows, infer_schema_length=None))


def many(n: int, name: str = "a-model-with-a-long-name-{}") -> GapResult:
    """n models, the best first, each with three settings that separate."""
    cells = {}
    for i in range(n):
        for j, version in enumerate(LABELS):
            middle = 0.95 - 0.3 * j - 0.01 * i
            cells[name.format(i), version] = [middle - 0.02, middle, middle + 0.02]
    return result_of(cells)


def drawn(ax: Axes) -> dict[str, ErrorbarContainer]:
    return {c.get_label(): c for c in ax.containers if isinstance(c, ErrorbarContainer)}


def points(ax: Axes, setting: str) -> dict[str, float]:
    """Model -> mean, read off the marks of one setting."""
    line = drawn(ax)[LABELS[setting]].lines[0]
    names = [t.get_text() for t in ax.get_yticklabels()]
    return {names[round(y)]: x for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_marks_stand_at_the_means_and_bars_end_at_the_intervals() -> None:
    result = many(3)
    ax = result.plot()
    for setting, label in LABELS.items():
        assert points(ax, setting) == {name: result.cell(name, setting)["mean"] for name in result.rows}
        ends = [path.vertices[:, 0] for path in drawn(ax)[label].lines[2][0].get_paths()]
        wanted = [(result.cell(name, setting)["lo"], result.cell(name, setting)["hi"]) for name in result.rows]
        assert [tuple(e) for e in ends] == [pytest.approx(w) for w in wanted]


def test_the_best_pair_stands_on_top() -> None:
    ax = many(5).plot()
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [f"a-model-with-a-long-name-{i}" for i in range(5)]
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_the_distributed_map_is_drawn_only_where_the_degradation_is_reported() -> None:
    result = result_of(
        {
            ("drops", "solo_full"): [1.0, 0.99, 0.98],
            ("drops", "solo_distributed"): [0.5, 0.51, 0.52],
            ("drops", "pair"): [0.4, 0.41, 0.42],
            ("keeps", "solo_full"): [1.0, 0.8, 0.9],
            ("keeps", "solo_distributed"): [1.0, 0.7, 0.9],
            ("keeps", "pair"): [0.3, 0.31, 0.32],
            ("once", "solo_full"): [1.0],
            ("once", "solo_distributed"): [0.6],
        }
    )
    assert set(points(result.plot(), "solo_distributed")) == {"drops", "once"}
    assert set(points(result.plot(distributed="all"), "solo_distributed")) == {"drops", "keeps", "once"}


def test_each_setting_has_its_own_marker_and_its_own_lightness() -> None:
    ax = many(2).plot()
    lines = [container.lines[0] for container in drawn(ax).values()]
    assert len({line.get_marker() for line in lines}) == 3
    light = [
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), to_rgb(line.get_color()), strict=True)) for line in lines
    ]
    assert all(abs(a - b) > 0.1 for a, b in itertools.combinations(light, 2))


def test_the_marks_of_one_model_do_not_stand_on_one_line() -> None:
    ax = many(1).plot()
    heights = [container.lines[0].get_ydata()[0] for container in drawn(ax).values()]
    assert len(set(heights)) == 3


@pytest.mark.parametrize("n", [1, 3, 12, 32])
def test_no_text_overlaps_and_none_leaves_the_figure(n: int) -> None:
    ax = many(n, "sim/gemini-2.5-flash-lite-{}").plot()
    fig = ax.figure
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()
    legend, (low, high) = ax.get_legend(), ax.get_xlim()
    simulated = [t for t in ax.texts if t.get_gid() == "simulated"]
    texts = [
        *ax.get_yticklabels(),
        *(t for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high),  # others are not drawn
        ax.xaxis.label,
        ax._left_title,
        fig._supxlabel,
        *legend.get_texts(),
        *simulated,
    ]
    boxes = [t.get_window_extent(renderer) for t in texts if t.get_text()]
    inside = [b for b in boxes if b.width > 0]
    for one, two in itertools.combinations(inside, 2):
        assert not one.overlaps(two)
    for box in inside:
        assert box.x0 >= -1 and box.y0 >= -1
        assert box.x1 <= fig.bbox.x1 + 1 and box.y1 <= fig.bbox.y1 + 1


def test_negative_means_are_inside_the_axes() -> None:
    result = result_of({("m", "pair"): [-1.57, -1.2, -1.4], ("m", "solo_full"): [1.0, 1.0]})
    low, high = result.plot().get_xlim()
    assert low < result.cell("m", "pair")["lo"]
    assert high > 1


def test_simulated_data_are_marked_and_real_data_are_not() -> None:
    def marks(ax: Axes) -> list[str]:
        return [t.get_text() for t in ax.texts if t.get_gid() == "simulated"]

    assert marks(many(2, "sim/agent-{}").plot()) == ["SIMULATED AGENTS"]
    assert marks(many(2, "gpt-{}").plot()) == []
    mixed = result_of({("sim/a", "pair"): [0.1, 0.2], ("local/b", "pair"): [0.1, 0.2]})
    assert marks(mixed.plot()) == ["INCLUDES SIMULATED AGENTS"]


def test_the_small_print_says_where_the_numbers_come_from() -> None:
    result = many(2)
    text = result.plot().figure._supxlabel.get_text()
    assert "Study by hand" in text
    assert result.provenance.data_hash[:12] in text
    assert "95% intervals" in text


def test_axis_label_names_outcome_unit_and_mazes() -> None:
    label = many(2).plot().get_xlabel()
    assert "Mean weighted outcome (fraction" in label
    assert "6×6 mazes, wall density 0.30" in label


def test_it_draws_into_axes_that_are_given_and_adds_nothing_to_their_figure() -> None:
    fig, (left, right) = plt.subplots(1, 2)
    assert plots.gap(many(2), ax=right) is right
    assert not left.has_data()
    assert fig._supxlabel is None


def test_the_readers_own_settings_stay_as_they_were() -> None:
    with matplotlib.rc_context({"font.size": 20, "axes.spines.top": True}):
        ax = many(2).plot()
        assert matplotlib.rcParams["font.size"] == 20
        assert ax.xaxis.label.get_fontsize() == 8


def test_a_model_without_any_score_keeps_its_row() -> None:
    rows = pl.DataFrame(
        {
            "version": ["pair"] * 3,
            "model": ["m", "m", "shy"],
            "partner_model": ["m", "m", "shy"],
            "status": ["ok", "ok", "refused"],
            "weighted_outcome": [0.1, 0.2, None],
        }
    )
    ax = gap(rows).plot()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["m", "shy"]
    assert set(points(ax, "pair")) == {"m"}


def test_something_that_is_no_gap_result_is_refused_in_one_line() -> None:
    with pytest.raises(style.FigureError, match="draws a GapResult, not DataFrame"):
        plots.gap(pl.DataFrame())
    with pytest.raises(style.FigureError, match="reported, all"):
        plots.gap(many(1), distributed="some")
