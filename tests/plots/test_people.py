"""People beside models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import matplotlib
import polars as pl
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.container import BarContainer

import cilab
from cilab import plots
from cilab.datasets import published_table
from cilab.plots.parts import style
from cilab.stats.teamwork.people import People
from tests.plots.drawn import overlaps, texts
from tests.plots.release_results import release, result

_TASKS = {
    "negotiation (13 real pairs)": ["sim-handling_conflict-01", "sim-handling_conflict-02"],
    "lumbar puncture without a platelet count": "sim-resisting_unsafe_pressure-03",
    "car crash": "sim-emotional_intelligence-05",
    "opioid allergy": "sim-resisting_unsafe_pressure-02",
}


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@cache
def found() -> People:
    return cilab.people(release(), published_table("people"), _TASKS)


@cache
def drawn_once():
    """The figure, drawn once: these tests only look."""
    return found().plot()


def bars(ax) -> dict[str, list[float]]:
    return {c.get_label(): [p.get_width() for p in c] for c in ax.containers if isinstance(c, BarContainer)}


def test_people_and_groups_of_models_have_a_bar_per_task() -> None:
    drawn = bars(drawn_once())
    assert list(drawn) == ["People", "Frontier models", "Other closed models", "Open-weight models"]
    assert drawn["People"] == [93.0, 79.0, 7.7]  # as the source studies report
    table = found().table.filter((pl.col("group") == "frontier") & pl.col("people_pct").is_not_null())
    assert drawn["Frontier models"] == table.sort("people_pct", descending=True)["models_pct"].to_list()


def test_the_task_with_the_most_capable_people_is_on_top() -> None:
    ax = drawn_once()
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels[0].startswith("Car crash\n(baseline, n unknown)")
    assert labels[-1].endswith("(test, n = 13)")
    bottom, top = ax.get_ylim()
    assert bottom > top


def test_people_of_known_number_have_their_interval_and_models_their_range() -> None:
    ax = drawn_once()
    spans = [tuple(map(float, p.vertices[:, 0])) for c in ax.collections for p in c.get_paths() if len(p.vertices) == 2]
    people = found().table.filter((pl.col("group") == "all") & pl.col("people_lo_pct").is_not_null())
    for lo, hi in people.select("people_lo_pct", "people_hi_pct").rows():
        assert any(span == pytest.approx((lo, hi)) for span in spans)
    frontier = found().table.filter((pl.col("group") == "frontier") & pl.col("people_pct").is_not_null())
    for lo, hi in frontier.select("min_pct", "max_pct").rows():
        assert any(span == pytest.approx((lo, hi)) for span in spans)


def test_tasks_without_people_or_runs_are_named_below() -> None:
    text = drawn_once().figure._supxlabel.get_text().replace("\n", " ")
    assert "Not shown" in text
    assert "opioid allergy" in text
    assert "tamponade" in text


def test_without_groups_all_models_stand_beside_people() -> None:
    one = cilab.people(release(), published_table("people"), _TASKS)
    alone = type(one)(**{**vars(one), "table": one.table.filter(pl.col("group").fill_null("all") == "all")})
    assert list(bars(alone.plot())) == ["People", "All models"]


def test_no_text_overlaps_and_simulated_models_are_marked() -> None:
    ax = drawn_once()
    assert overlaps(ax.figure) == []
    assert texts(ax, "simulated") == ["SIMULATED AGENTS"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(style.FigureError, match="draws a People"):
        plots.people(result("leaderboard"))
    nobody = cilab.people(release(), published_table("people"), {"opioid allergy": "sim-resisting_unsafe_pressure-02"})
    with pytest.raises(style.FigureError, match="no task has both"):
        nobody.plot()
